"""`kinfolk nodes train | predict | evaluate`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import (
    DEFAULT,
    SHORT,
    Checkpoint,
    EngineOptions,
    Jobs,
    ModelOption,
    ModelOptions,
    Trust,
    check_going_on,
    check_output,
    check_parquet_output,
    checked,
    class_weights,
    counted_warnings,
    engine_of,
    examples,
    name_models,
    names_in,
    new_base,
    refusals_of_the_base,
    refuse_overwriting,
    spread,
)
from kinfolk.cli.output import (
    Page,
    check_page,
    class_lines,
    class_table,
    outcome,
    report_page,
    show,
    show_json,
    summary,
)
from kinfolk.collective.templates import as_templates
from kinfolk.errors import InputError, SettingError
from kinfolk.graph import learners as learners_module
from kinfolk.graph.cli_files import (
    Edges,
    GraphFormat,
    Nodes,
    TableOptions,
    link_file,
    read_graph,
    reading_of,
    table_settings,
)
from kinfolk.graph.cli_tables import (
    chosen_nodes,
    limited,
    predict_with,
    refuse_with_engine,
    tell_trained,
    train_with,
)
from kinfolk.graph.dependency import DependencyNetwork
from kinfolk.graph.link_features import remembered_cuts
from kinfolk.graph.link_model import LinkModel
from kinfolk.graph.mixture import MixtureNodes
from kinfolk.graph.model import NeighbourModel, NodeModel
from kinfolk.graph.stacked import StackedNodes

if TYPE_CHECKING:
    from kinfolk.graph.graph import Graph

# -- examples at the end of help pages -----------------------------------------------------------------

NODES_TRAIN = examples(
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
    "    --text title --model stacked --out papers.kinfolk",
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
    "    --text title --model mop --train-ids train.txt --out mop-papers.kinfolk",
    "kinfolk nodes train --nodes 'papers/*.parquet' --edges cites.parquet \\\n"
    "    --label topic --text title --model stacked --depth 1 --engine duckdb \\\n"
    "    --out levels.kinfolk",
)
NODES_PREDICT = examples(
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv \\\n    -o topics.csv",
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv --proba",
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv \\\n    --json -o topics.jsonl",
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv \\\n    --only test.txt",
    "kinfolk nodes predict levels.kinfolk --nodes 'papers/*.parquet' \\\n"
    "    --edges cites.parquet --engine duckdb --memory-limit 2GB -o topics.parquet",
)
NODES_EVALUATE = examples(
    "kinfolk nodes evaluate papers.kinfolk --nodes truth.csv --edges cites.csv \\\n    --label topic --ids test.txt",
    "kinfolk nodes evaluate papers.kinfolk --nodes truth.csv --edges cites.csv \\\n"
    "    --label topic --ids test.txt --json",
)
NODES = examples(
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
    "    --text title --model stacked --out papers.kinfolk",
    "kinfolk nodes predict papers.kinfolk --nodes papers.csv --edges cites.csv",
)


# -- Options of `nodes train` that are settings of a model ---------------------------------------------


class Method(StrEnum):
    mop = "mop"
    link = "link"
    stacked = "stacked"
    network = "dependency-network"


MODELS: dict[Method, Any] = {
    Method.mop: MixtureNodes,
    Method.link: LinkModel,
    Method.stacked: StackedNodes,
    Method.network: DependencyNetwork,
}
BASE = ModelOption(
    str,
    f"classifier of scikit-learn: {', '.join(SHORT)}, or any by its class name. Default: logistic; of stacked "
    "without --template and --depth: a pool of several.",
    "base",
    (*SHORT,),
)
BASE_SETTING = ModelOption(
    list[str], "setting of the base, e.g. C=0.1 or class_weight=balanced; may be repeated.", "base"
)
TEMPLATE = ModelOption(
    list[str],
    "what a node receives of its neighbours, e.g. count:cites, 'mean:cites @ cites', mean:cites:features, "
    "max:cites:hard; may be repeated. Default, of every relation: stacked with "
    "--depth: count; dependency-network: proportion.",
    "templates",
)
OPTIONS = ModelOptions(
    {str(name): model.DECLARED for name, model in MODELS.items()},
    {
        "base": BASE,
        "base_setting": BASE_SETTING,
        "template": TEMPLATE,
        "relations": ModelOption(str, "links to use, e.g. cites; none: no links. Default: all.", "relations"),
        "class_weight": ModelOption(list[str], "class=weight, may be repeated; or: balanced.", "class_weight"),
    },
    left_out=("features", "patience", "dev_every"),  # a column of the table; there are no held-out nodes
)
NodeOptions = OPTIONS.group()


def new_labeller(method: Method, options: Any, settings: dict[str, Any]) -> Any:
    """The model that `nodes train` asks for."""
    name_models(MODELS)
    given = OPTIONS.given(method, options)
    if "class_weight" in given:
        given["class_weight"] = class_weights(given["class_weight"])
    if "relations" in given:
        named = given["relations"].strip()
        given["relations"] = [] if named == "none" else names_in(named)
    if "templates" in MODELS[method].DECLARED:
        templates, named = given.pop("template", None), given.pop("base", None)
        pools = method == Method.stacked and templates is None and given.get("depth") is None
        if named is None and not (pools and not given.get("base_setting")):
            named = DEFAULT
        base_settings = given.pop("base_setting", [])
        base = None if named is None else new_base(named, base_settings, settings["random_state"])
        settings |= {"base": base, "templates": None if templates is None else as_templates(templates)}
    return checked(MODELS[method](**given, **settings))


def types_to_trust(model: Any) -> list[str]:
    """Types in the trained bases of a model that `load_model` will only load when they are named."""
    from skops.io import dumps

    learners = model.all_learners() if isinstance(model, NeighbourModel) else []
    return sorted({name for one in learners for name in learners_module.types_to_trust(dumps(one.estimator))})


# -- What `nodes predict` writes: a line for each node, divided by tabs, as CSV or as JSON -------------


def is_csv(output: str) -> bool:
    return output.lower().removesuffix(".gz").endswith(".csv")


def label_rows(ids: Sequence[str], table: Any, classes: Sequence[str], proba: bool) -> Iterator[list[str]]:
    """Id, most probable label and, if asked for, the probability of every label."""
    for key, row in zip(ids, table, strict=True):
        yield [key, classes[int(row.argmax())], *(f"{one:.6f}" for one in row[: len(classes) * proba])]


def tab_lines(rows: Iterator[list[str]]) -> Iterator[str]:
    for row in rows:
        yield "\t".join(row) + "\n"


def head_of(classes: Sequence[str], proba: bool) -> list[str]:
    """The names of the columns, those of probabilities as `predict_tables` has them."""
    return ["id", "label", *(f"probability_{name}" for name in classes if proba)]


def csv_lines(rows: Iterator[list[str]], head: list[str]) -> Iterator[str]:
    """With a header."""
    for row in [head, *rows]:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()


def json_lines(ids: Sequence[Any], table: Any, classes: Any) -> Iterator[str]:
    """With the probability of every label, by its name."""
    for key, row in zip(ids, table, strict=True):
        chances = dict(zip(classes.names, row.tolist(), strict=True))
        answer = {"id": key, "label": classes[int(row.argmax())], "probabilities": chances}
        yield json.dumps(answer, ensure_ascii=False) + "\n"


# -- cli -------------------------------------------------------------------------------------------

app = typer.Typer(
    help="Label the nodes of a graph: train a model, predict, evaluate.",
    epilog=NODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class KnownLabels(StrEnum):
    train = "train"
    none = "none"


Model = Annotated[Path, typer.Argument(help="Model file.")]
KnownIds = Annotated[
    str | None, typer.Option(help="File of ids, one a line: the labels the table has of these nodes are known.")
]
Known = Annotated[
    KnownLabels | None,
    typer.Option(
        help="Labels that are kept and seen by neighbours: train (default), of nodes trained on, by their ids; none."
    ),
]
MostLinks = Annotated[
    int | None,
    typer.Option(help="At most so many links of a relation from each node, by a hash of the ids. Default: all."),
]


@app.command(epilog=NODES_TRAIN)
@spread(options=NodeOptions)
def train(
    *,
    nodes: Nodes,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    edges: Edges = None,
    format: GraphFormat = None,
    tables: TableOptions,
    model: Annotated[Method, typer.Option(help="Method.")] = Method.mop,
    options: Any,
    train_ids: Annotated[
        str | None, typer.Option(help="File of ids, one a line: only their labels are used. Default: all labels.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of whatever is random.")] = 0,
    jobs: Jobs = -1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, to standard output.")] = False,
    where: EngineOptions,
    sample: Annotated[
        int | None, typer.Option(help="At most so many labelled nodes, by a hash of their ids. Default: all.")
    ] = None,
    most_links: MostLinks = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Train a model on a graph and write one model file."""
    from kinfolk.core.checkpoint import remove_checkpoint
    from kinfolk.core.modelfile import check_writable

    check_writable(out)
    files = [*nodes, *(link_file(text)[1] for text in edges or ()), *([train_ids] if train_ids else [])]
    refuse_overwriting(out, "--out", *files, what="the data it is trained on")
    check_going_on(checkpoint, *files, out, quiet=quiet)
    settings = {"random_state": seed, "n_jobs": jobs, "verbose": 0 if quiet else 1}
    labeller = new_labeller(model, options, settings)
    engine = engine_of(where, jobs)
    if engine is not None:
        refuse_with_engine(format, {"--train-ids": train_ids, "--checkpoint": checkpoint}, labeller)
        with engine:
            train_with(engine, labeller, table_settings(nodes, edges, tables), sample, most_links)
        labeller.reading_ = reading_of(tables)
        labeller.save(out)
        tell_trained(labeller, out, types_to_trust(labeller), quiet, as_json)
        return
    graph = limited(read_graph(nodes, edges, format, tables), most_links)
    chosen = chosen_nodes(graph, None if train_ids is None else _numbers(train_ids, graph), sample, seed)
    with refusals_of_the_base(labeller), counted_warnings():
        labeller.fit(graph, train=chosen, checkpoint=checkpoint)
    labeller.reading_ = reading_of(tables) | remembered_cuts(graph.link_features)
    labeller.save(out)
    remove_checkpoint(checkpoint)
    known = graph.label_codes if chosen is None else graph.label_codes[chosen]
    size = {"nodes": graph.n_nodes, "labelled": int((known >= 0).sum())}
    links, to_trust = _link_counts(labeller, graph), types_to_trust(labeller)
    if as_json:
        more = {"features": graph.n_features, "links": links, "trust": to_trust}
        show_json(summary(labeller, out, size, **more))
    elif not quiet:
        linked = "".join(f"{', ' if i else '; '}{n} links {name!r}" for i, (name, n) in enumerate(links.items()))
        trained_on = f"{size['nodes']} nodes, {size['labelled']} of them with labels to learn from"
        typer.echo(f"trained on {trained_on}; {graph.n_features} features{linked}", err=True)
        for line in outcome(labeller):
            typer.echo(line, err=True)
        if to_trust:
            typer.echo(f"to be read with {' '.join(f'--trust {name}' for name in to_trust)}", err=True)
        typer.echo(f"wrote {out}", err=True)


@app.command(epilog=NODES_PREDICT)
@spread()
def predict(
    *,
    model: Model,
    nodes: Nodes,
    edges: Edges = None,
    format: GraphFormat = None,
    tables: TableOptions,
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Where to write; - = standard output; a name in .csv: CSV with a header."),
    ] = "-",
    forced: Annotated[bool, typer.Option("--forced", help="All labels that the table has are known.")] = False,
    known: Known = None,
    known_ids: KnownIds = None,
    only: Annotated[
        str | None, typer.Option(help="File of ids, one a line: answers for these nodes alone, in this order.")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="More columns: the probability of every label.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, for each node, with all probabilities.")
    ] = False,
    trust: Trust = None,
    where: EngineOptions,
    most_links: MostLinks = None,
    jobs: Jobs = -1,
) -> None:
    """Label the nodes of a graph.

    A line with id and label for each node, a tab between them; or, to a file in .csv, CSV with a header. --proba: then
    the probability of every label. With --engine a Parquet file: the table of nodes, then label and its probability.
    """
    from kinfolk.core.files import write_utf8

    one_of_these(known, known_ids, forced)
    files = [*nodes, *(link_file(text)[1] for text in edges or ())]
    check_output(output, "--output", model, *files, known_ids, only)
    engine = engine_of(where, jobs)
    labeller = _load(model, jobs, trust)
    if engine is not None:
        refuse_with_engine(format, {"--known-ids": known_ids, "--only": only, "--json": as_json or None}, labeller)
        check_parquet_output(output)
        given = {"proba": proba, "forced": forced, "known": str(known or KnownLabels.train), "most_links": most_links}
        with engine:
            predict_with(engine, labeller, table_settings(nodes, edges, tables, labeller, forced), output, given)
        return
    graph = read_graph(nodes, edges, format, tables, labeller, labels=forced or known_ids is not None)
    graph = limited(graph, most_links)
    given = known_argument(known, known_ids, graph)
    asked = range(graph.n_nodes) if only is None else _numbers(only, graph)
    with refusals_of_the_base(labeller), counted_warnings():
        _report_known(labeller, graph, given, forced)
        table = labeller.predict_proba(graph, forced=forced, known=given)[asked]
    ids, classes = [graph.ids[i] for i in asked], labeller.labels_
    if as_json:
        write_utf8(output, json_lines(graph.node_ids[list(asked)].tolist(), table, classes))
    else:
        rows, head = label_rows(ids, table, classes.names, proba), head_of(classes.names, proba)
        if proba and not is_csv(output):
            typer.echo(f"columns: {', '.join(head)}", err=True)  # lines with tabs have no header
        write_utf8(output, csv_lines(rows, head) if is_csv(output) else tab_lines(rows))


@app.command(epilog=NODES_EVALUATE)
@spread()
def evaluate(
    *,
    model: Model,
    nodes: Nodes,
    edges: Edges = None,
    format: GraphFormat = None,
    tables: TableOptions,
    ids: Annotated[
        str | None,
        typer.Option(
            "--only", "--ids", help="File of ids, one a line: only these nodes count. Default: all labelled ones."
        ),
    ] = None,
    known: Known = None,
    known_ids: KnownIds = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    page: Page = None,
    trust: Trust = None,
    jobs: Jobs = -1,
) -> None:
    """Compare predictions with the labels of a graph.

    Nodes without a label do not count, nor do those whose label is known.
    """
    from kinfolk.graph.nodes import Nodes

    check_page(page, model, *nodes, *(link_file(text)[1] for text in edges or ()), ids, known_ids)
    one_of_these(known, known_ids, False)
    labeller = _load(model, jobs, trust)
    graph = read_graph(nodes, edges, format, tables, labeller)
    given = known_argument(known, known_ids, graph)
    chosen = range(graph.n_nodes) if ids is None else sorted(set(_numbers(ids, graph)))
    names = graph.classes.names
    labelled = {i: names[code] for i in chosen if (code := graph.label_codes[i]) >= 0}
    with refusals_of_the_base(labeller), counted_warnings():
        gold, given = _to_score(labeller, graph, labelled, given)
        _warn_unseen(labeller, gold)
        beliefs = labeller.predict_proba(graph, known=given)
        to_score = Nodes.of(graph.with_labels([gold.get(i) for i in range(graph.n_nodes)]), labeller.node_columns_)
        truth = to_score.gold(labeller.labels_)
        scores = labeller.scores_of(to_score, to_score.to_rows(beliefs), truth, page)
    report_page(page)
    if as_json:
        classes = {name: counts.as_dict() for name, counts in scores.classes.items()}
        show_json({"nodes": scores.nodes, "accuracy": scores.accuracy, "classes": classes})
        return
    show([f"{scores.nodes} nodes; accuracy {scores.accuracy:.2f} %"], class_table(scores), class_lines(scores))


def _numbers(file: str, graph: Graph) -> list[int]:
    """The numbers of the nodes whose ids a file lists."""
    from kinfolk.core.files import read_utf8

    data, name = read_utf8(file)
    place = {key: i for i, key in enumerate(graph.ids)}
    found = []
    for line, text in enumerate(data.decode().split("\n"), 1):
        if key := text.strip():
            if key not in place:
                raise InputError(f"expected the id of a node, got {key!r}, which the graph does not have", name, line)
            found.append(place[key])
    if not found:
        raise InputError("no ids: expected one a line, found none", name)
    return found


def one_of_these(known: KnownLabels | None, known_ids: str | None, forced: bool) -> None:
    """Options that say whose labels are known."""
    given = {"--known": known is not None, "--known-ids": known_ids is not None, "--forced": forced}
    named = [option for option, here in given.items() if here]
    if len(named) > 1:
        raise SettingError.saying(f"{' and '.join(named)} both say whose labels are known; give one of them")


def known_argument(known: KnownLabels | None, known_ids: str | None, graph: Graph) -> Any:
    """What the options say, as models take it."""
    return _numbers(known_ids, graph) if known_ids is not None else str(known or KnownLabels.train)


def _report_known(labeller: Any, graph: Graph, known: Any, forced: bool) -> None:
    """Of labels that nobody gave, but the model has kept: how many are known."""
    if forced or known != KnownLabels.train:
        return
    number = int(labeller.known_nodes(graph).sum())
    if number:
        message = f"known labels of {number:,} of {graph.n_nodes:,} nodes are used; --known none to predict without"
        typer.echo(message, err=True)


def _to_score(labeller: Any, graph: Graph, labelled: dict[int, str], known: Any) -> tuple[dict[int, str], Any]:
    """Node -> label of those to score, and whose labels are known; where none but nodes trained on are left, these are
    scored, and their labels are not known."""
    inside = labeller.known_nodes(graph, known=known)
    gold = {i: label for i, label in labelled.items() if not inside[i]}
    seen = len(labelled) - len(gold)
    if not gold and seen and known == KnownLabels.train:
        text = "every node to score was trained on: they are scored without their labels being known, and far too well"
        typer.echo(f"warning: {text}", err=True)
        return labelled, str(KnownLabels.none)
    if not gold:
        raise InputError("scoring needs labels, and none of the nodes to score has one that is not known")
    if seen and known == KnownLabels.train:
        typer.echo(f"{seen:,} nodes were trained on: their labels are known, and they are not scored", err=True)
    return gold, known


def _warn_unseen(labeller: Any, gold: dict[int, str]) -> None:
    """Labels nobody could have guessed."""
    strange = sorted({*gold.values()} - {*labeller.labels_.names})
    if strange:
        typer.echo(f"warning: labels that training never saw count as misses: {', '.join(strange)}", err=True)


def _link_counts(labeller: Any, graph: Graph) -> dict[str, int]:
    used, _ = labeller.relations_used()
    return {name: int(graph.relations[name].nnz) for name in used}


def _load(path: Path, jobs: int, trust: list[str] | None) -> Any:
    from kinfolk.core.modelfile import load_model

    labeller = load_model(path, kind="nodes", trusted=trust or ())
    if not isinstance(labeller, NodeModel):
        name = type(labeller).__name__
        raise InputError(f"expected a model that gives one label a node; {path} has a {name}: ask it in Python")
    return labeller.set_params(n_jobs=jobs)
