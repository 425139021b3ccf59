"""`kinfolk explain`: why this label, why this link; in words, as JSON, or as a page to click through."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import Jobs, Trust, counted_warnings, examples, given_options, spread
from kinfolk.cli.output import check_page, report_page, show, show_json
from kinfolk.errors import InputError, SettingError
from kinfolk.graph import cli as nodes
from kinfolk.graph import cli_files as graphs
from kinfolk.linking.cli import explain_links
from kinfolk.linking.cli_files import ClusterOptions, SourceOptions, read_by
from kinfolk.text import cli as tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

# -- examples at the end of help pages -----------------------------------------------------------------

EXPLAIN = examples(
    "kinfolk explain mop.kinfolk test.conll --document 0 --token 3",
    "kinfolk explain mop.kinfolk test.conll --document 0 --report why.html",
    "kinfolk explain papers.kinfolk --nodes papers.csv --edges cites.csv --node p17 \\\n    --report node.html",
    "kinfolk explain customers.kinfolk rec-742-dup-0 --records test.csv",
    "kinfolk explain customers.kinfolk --records test.csv --report clusters.html",
)


class Format(StrEnum):
    conll = "conll"
    text = "text"
    tables = "tables"
    linqs = "linqs"
    webkb = "webkb"


FORMATS = {"tokens": (Format.conll, Format.text), "nodes": (Format.tables, Format.linqs, Format.webkb), "mentions": ()}
NEEDED = {
    "tokens": ("FILE", "--document", "--token"),
    "nodes": ("--nodes", "--node"),
    "mentions": ("ID", "--records or --documents"),
}
EXAMPLES = {
    "tokens": "FILE --document 0 --token 3, or --report why.html in place of --token",
    "nodes": "--nodes NODES.csv --edges LINKS.csv --node ID",
}
TOP = 15  # contributions to a link that are shown


app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=EXPLAIN)
@spread()
def explain(
    *,
    model: Annotated[Path, typer.Argument(help="Model file.")],
    what: Annotated[
        list[str] | None,
        typer.Argument(help="Tokens: the file, - = standard input. Mentions and records: one id or two."),
    ] = None,
    document: Annotated[int | None, typer.Option(help="Tokens: number of the document, from 0.")] = None,
    token: Annotated[
        int | None, typer.Option(help="Tokens: number within the document, from 0; --report needs none.")
    ] = None,
    node: Annotated[str | None, typer.Option(help="Nodes: id of the node.")] = None,
    node_files: Annotated[list[str] | None, typer.Option("--nodes", help="Nodes: as in nodes predict.")] = None,
    edges: Annotated[list[str] | None, typer.Option(help="Nodes: as in nodes predict.")] = None,
    tables: graphs.TableOptions,
    known: nodes.Known = None,
    known_ids: nodes.KnownIds = None,
    trust: Trust = None,
    given_items: SourceOptions,
    clustering: ClusterOptions,
    top: Annotated[
        int | None, typer.Option(min=1, help="Links: so many contributions; the rest is summed up. Default: 15.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Default: conll for tokens; by the names of the files for nodes.")
    ] = None,
    scheme: tokens.Scheme = "auto",
    separator: tokens.Separator = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page, one HTML file, to look at and click through.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every distribution.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Why a token or a node has its label, or why two records are linked: in words, as JSON, or as a page."""
    from kinfolk.core.modelfile import load_model

    nodes.one_of_these(known, known_ids, False)
    links = [graphs.link_file(text)[1] for text in edges or ()]
    check_page(report, model, *(what or []), *(node_files or []), *links, known_ids, *read_by(given_items))
    labeller = load_model(model, trusted=trust or ()).set_params(n_jobs=jobs)
    task = labeller.KIND
    _check_explains(labeller, model)
    graph_options, item_options = given_options(tables), given_options(given_items)
    given: dict[str, dict[str, Any]] = {
        "tokens": {"--document": document, "--token": token},
        "nodes": {"--nodes": node_files or None, "--node": node, "--edges": edges or None, "--known": known,
                  "--known-ids": known_ids, **graph_options},
        "mentions": {"--top": top, **item_options, **given_options(clustering)},
    }  # fmt: skip
    of_both = graph_options.keys() & item_options.keys()  # --id
    _check_given(task, given, of_both, what, format, model, report)
    if task == "mentions":
        explain_links(labeller, model, what or [], given_items, clustering, top or TOP, as_json, report, jobs)
        return
    with counted_warnings():
        if task == "nodes":
            form = None if format is None else graphs.Format(format)
            graph = graphs.read_graph(node_files or [], edges, form, tables, labeller, bool(known_ids))
            labels = nodes.known_argument(known, known_ids, graph)
            answer = labeller.explain(graph, node=node, report=report, known=labels)
        else:
            (file,) = what or ["-"]
            corpus = tokens.read_corpus(labeller, file, tokens.Format(format or "conll"), scheme, separator)
            answer = labeller.explain(corpus, document=document, token=token, report=report)
    report_page(report)
    if as_json:
        show_json(_plain(answer))
    elif not isinstance(answer, list):  # a list is every token of a document: the page has them
        show([str(answer)])


def _check_explains(model: Any, path: Path) -> None:
    """An error that names what there is in Python, where the model explains nothing, or needs what no file holds."""
    name = type(model).__name__
    if model.KIND == "layer":
        what = "token" if name == "TokenLayer" else "node"
        raise InputError(
            f"{name} explains what it made of the probabilities of another model, which no file holds: in Python "
            f"`layer.explain(X, probabilities, {what})`",
            str(path),
        )
    if hasattr(model, "explain"):
        return
    instead = "`predict_candidates` has what its parts say"
    if hasattr(model, "state_features_"):
        instead = "`state_features_` and `transition_features_` have its weights"
    raise InputError(f"{name} explains nothing; in Python {instead}", str(path))


def _check_given(
    task: str, given: dict[str, dict[str, Any]], shared: set[str], what: Sequence[str] | None, format: Format | None,
    model: Path, report: Path | None,
) -> None:  # fmt: skip
    """Everything that one task needs is there, and nothing of the others."""
    does = "links mentions or records" if task == "mentions" else f"labels {task}"
    usage = f"{model} {does}; give {', '.join(NEEDED[task])}"
    for other in given.keys() - {task}:
        foreign = (name for name, value in given[other].items() if value is not None and name not in shared)
        if (strange := next(foreign, None)) is not None:
            raise SettingError.saying(f"{usage}, not {strange}")
    if task == "nodes" and what:
        raise SettingError.saying(f"{usage}, not FILE")
    if format is not None and format not in FORMATS[task]:
        allowed = f"must be {' or '.join(FORMATS[task])}, got {format}" if FORMATS[task] else "is for tokens and nodes"
        raise SettingError.saying(f"{usage}; --format {allowed}")
    if task == "mentions":
        return
    here = given[task] | ({"FILE": what or None} if task == "tokens" else {})
    needed = [name for name in NEEDED[task] if not (name == "--token" and report is not None)]
    missing = next((name for name in needed if here[name] is None), None)
    if missing is not None:
        hint = f"; e.g. kinfolk explain {model} {EXAMPLES[task]}"
        if missing == "--token":
            hint = ", or --report PAGE.html for the whole document"
        raise SettingError.saying(f"{usage}: there is no {missing}{hint}")
    if task == "tokens" and len(what or []) > 1:
        raise SettingError.saying(f"{usage}: expected one file, got {len(what or [])}")


def _plain(answer: Any, classes: Sequence[str] = ()) -> Any:
    """An explanation in plain numbers; a distribution over the classes has their names."""
    classes = getattr(answer, "classes", classes)
    if is_dataclass(answer):
        return {f.name: _plain(getattr(answer, f.name), classes) for f in fields(answer) if f.name != "classes"}
    if isinstance(answer, list | tuple):
        return [_plain(one, classes) for one in answer]
    if hasattr(answer, "tolist"):
        values = answer.tolist()
        by_class = isinstance(values, list) and len(values) == len(classes) and not isinstance(values[0], list)
        return dict(zip(classes, values, strict=True)) if by_class else values
    return answer
