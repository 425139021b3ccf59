"""`kinfolk nodes train | predict | evaluate`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.methods import Mixing, ParentFeatures, class_weights, new_labeller, outcome
from kinfolk.cli.tokens import Jobs
from kinfolk.errors import InputError, SettingError

if TYPE_CHECKING:
    from kinfolk.data.graph import Graph

app = typer.Typer(help="Label the nodes of a graph: train a model, predict, evaluate.", no_args_is_help=True)


class Method(StrEnum):
    mop = "mop"
    link = "link"


class Format(StrEnum):
    linqs = "linqs"
    webkb = "webkb"


Nodes = Annotated[
    list[str],
    typer.Option(help="linqs: file of nodes (.content), may be repeated; webkb: the folder or archive of pages."),
]
Links = Annotated[
    list[str] | None, typer.Option(help="linqs: file of links (.cites), one for each --nodes, in the same order.")
]
GraphFormat = Annotated[
    Format, typer.Option(help="linqs: id, features, class in columns; webkb: pages as CMU has them.")
]
Model = Annotated[Path, typer.Argument(help="Model file.")]
KnownIds = Annotated[
    str | None, typer.Option(help="File of ids, one a line: the labels of these nodes are seen by their neighbours.")
]


@app.command()
def train(
    context: typer.Context,
    nodes: Nodes,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    links: Links = None,
    format: GraphFormat = Format.linqs,
    model: Annotated[Method, typer.Option(help="Method.")] = Method.mop,
    training: Annotated[
        str | None,
        typer.Option(
            help="What is optimised. mop: separate, conditional or joint (default); "
            "link: bethe (default), pseudo or piecewise."
        ),
    ] = None,
    relations: Annotated[
        str | None, typer.Option(help="Links to use, e.g. cites; none: no links. Default: all.")
    ] = None,
    parent_features: Annotated[
        ParentFeatures | None, typer.Option(help="mop only: weights for the features of a neighbour. Default: own.")
    ] = None,
    mixing: Annotated[Mixing | None, typer.Option(help="mop only: weights of neighbours. Default: uniform.")] = None,
    orders: Annotated[
        int | None, typer.Option(help="mop only: random orders of the nodes to train on. Default: 10.")
    ] = None,
    predict_orders: Annotated[
        int | None, typer.Option(help="mop only: random orders to average predictions over. Default: 50.")
    ] = None,
    everybody_starts: Annotated[
        bool | None,
        typer.Option("--everybody-starts", help="mop only: nodes with neighbours speak for themselves too."),
    ] = None,
    damping: Annotated[
        float | None, typer.Option(help="link only: share of an old message kept, 0 to below 1. Default: 0.3.")
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option(help="link only: limit of rounds of belief propagation. Default: 200.")
    ] = None,
    l2: Annotated[float | None, typer.Option(help="Strength of the ridge.")] = None,
    class_weight: Annotated[list[str] | None, typer.Option(help="class=weight, may be repeated; or: balanced.")] = None,
    max_iterations: Annotated[int, typer.Option(help="Limit of optimiser iterations.")] = 300,
    tolerance: Annotated[float, typer.Option(help="Stop when the objective falls by less, relative.")] = 1.5e-4,
    train_ids: Annotated[
        str | None, typer.Option(help="File of ids, one a line: only their labels are used. Default: all labels.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random orders.")] = 0,
    jobs: Jobs = -1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
) -> None:
    """Train a model on a graph and write one model file."""
    from kinfolk.io.modelfile import check_writable

    check_writable(out)
    if os.path.realpath(out) in map(os.path.realpath, [*nodes, *(links or []), *([train_ids] if train_ids else [])]):
        raise SettingError(f"--out {out} would overwrite the data it is trained on: name another file")
    settings: dict[str, Any] = dict(
        class_weight=class_weights(class_weight),
        relations=_relation_names(relations),
        max_iterations=max_iterations, tolerance=tolerance, random_state=seed, n_jobs=jobs, verbose=0 if quiet else 1,
    )  # fmt: skip
    if l2 is not None:
        settings["l2"] = l2
    own = {
        "--training": training, "--parent-features": parent_features, "--mixing": mixing, "--orders": orders,
        "--predict-orders": predict_orders, "--everybody-starts": everybody_starts, "--damping": damping,
        "--max-rounds": max_rounds,
    }  # fmt: skip
    labeller = new_labeller(context, model, own, settings)
    graph = read_graph(nodes, links, format)
    chosen = None if train_ids is None else _numbers(train_ids, graph)
    labeller.fit(graph, train=chosen)
    labeller.save(out)
    if not quiet:
        known = graph.label_codes if chosen is None else graph.label_codes[chosen]
        size = f"{graph.n_nodes} nodes, {int((known >= 0).sum())} of them with labels to learn from"
        typer.echo(f"trained on {size}; {graph.n_features} features; {_link_counts(labeller, graph)}", err=True)
        for line in outcome(labeller):
            typer.echo(line, err=True)
        typer.echo(f"wrote {out}", err=True)


@app.command()
def predict(
    model: Model,
    nodes: Nodes,
    links: Links = None,
    format: GraphFormat = Format.linqs,
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write; - = standard output.")] = "-",
    forced: Annotated[
        bool, typer.Option("--forced", help="Keep the labels the file has, and let neighbours see them.")
    ] = False,
    known_ids: KnownIds = None,
    proba: Annotated[bool, typer.Option("--proba", help="A third column: the probability of the label.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a node, with all probabilities.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Label a graph: a line with id and label for each node, a tab between them."""
    from kinfolk.io.textfiles import write_utf8

    labeller = _load(model, jobs)
    graph = read_graph(nodes, links, format)
    if known_ids is not None:
        graph, forced = _only_known(graph, known_ids), True
    table = labeller.predict_proba(graph, forced=forced)
    classes = [str(name) for name in labeller.classes_]

    def written() -> Iterator[str]:
        for key, row in zip(graph.ids, table, strict=True):
            best = int(row.argmax())
            if as_json:
                chances = dict(zip(classes, row.tolist(), strict=True))
                answer = {"id": key, "label": classes[best], "probabilities": chances}
                yield json.dumps(answer, ensure_ascii=False) + "\n"
            else:
                yield "\t".join([key, classes[best], *([f"{row[best]:.6f}"] if proba else [])]) + "\n"

    write_utf8(output, written())


@app.command()
def evaluate(
    model: Model,
    nodes: Nodes,
    links: Links = None,
    format: GraphFormat = Format.linqs,
    ids: Annotated[
        str | None, typer.Option(help="File of ids, one a line: only these nodes count. Default: all labelled ones.")
    ] = None,
    known_ids: KnownIds = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Compare predictions with the labels of a graph; nodes without a label do not count."""
    from kinfolk.io.textfiles import write_utf8
    from kinfolk.metrics.entities import entity_scores

    labeller = _load(model, jobs)
    graph = read_graph(nodes, links, format)
    seen = graph if known_ids is None else _only_known(graph, known_ids)
    hidden = [i for i in range(graph.n_nodes) if known_ids is None or seen.label_codes[i] < 0]
    chosen = hidden if ids is None else sorted(set(_numbers(ids, graph)))
    labels = graph.labels
    gold = {i: label for i in chosen if (label := labels[i]) is not None}
    if not gold:
        raise InputError("scoring needs labels, and none of the nodes to score has one")
    strange = sorted({*gold.values()} - {*labeller.classes_})
    if strange:
        typer.echo(f"warning: labels that training never saw count as misses: {', '.join(strange)}", err=True)
    predicted = labeller.predict(seen, forced=known_ids is not None)
    scores = entity_scores(((i, i + 1, g) for i, g in gold.items()), ((i, i + 1, str(predicted[i])) for i in gold))
    if as_json:
        answer = {"nodes": len(gold), "accuracy": scores.recall, "classes": scores.as_dict()["types"]}
        write_utf8("-", [json.dumps(answer, indent=2, ensure_ascii=False), "\n"])
        return
    told = [f"{len(gold)} nodes; accuracy {scores.recall:.2f} %\n"]
    width = max(map(len, scores.types))
    for name, c in scores.types.items():
        rates = f"precision {c.precision:6.2f}  recall {c.recall:6.2f}  F1 {c.f1:6.2f}"
        told.append(f"{name:>{width}}  {rates}  nodes {c.gold}  predicted {c.predicted}\n")
    write_utf8("-", told)


def read_graph(nodes: list[str], links: list[str] | None, format: Format) -> Graph:
    """The graph that --nodes, --links and --format name."""
    from kinfolk.io.linqs import read_linqs
    from kinfolk.io.webkb import read_webkb

    if format is Format.linqs:
        if not links:
            raise SettingError("--format linqs needs --links, the file of links, beside --nodes")
        return read_linqs(nodes, links)
    if links:
        raise SettingError("--links is for --format linqs; webkb finds the links in the pages")
    if len(nodes) != 1:
        raise SettingError(f"--format webkb takes one --nodes, the folder or archive; got {len(nodes)}")
    return read_webkb(nodes[0])


def _numbers(file: str, graph: Graph) -> list[int]:
    """The numbers of the nodes whose ids a file lists."""
    from kinfolk.io.textfiles import read_utf8

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


def _only_known(graph: Graph, file: str) -> Graph:
    """The graph with the labels of the listed nodes alone."""
    kept = {*_numbers(file, graph)}
    return graph.with_labels([label if i in kept else None for i, label in enumerate(graph.labels)])


def _relation_names(given: str | None) -> list[str] | None:
    """Of --relations: names with commas between them, or the word none."""
    if given is None:
        return None
    return [] if given.strip() == "none" else [name.strip() for name in given.split(",")]


def _link_counts(labeller: Any, graph: Graph) -> str:
    used = labeller.links_ if hasattr(labeller, "links_") else labeller.parents_[0].links
    return ", ".join(f"{graph.relations[name].nnz} links {name!r}" for name in used)


def _load(path: Path, jobs: int) -> Any:
    from kinfolk.models.persistence import load_model

    return load_model(path, kind="nodes").set_params(n_jobs=jobs)
