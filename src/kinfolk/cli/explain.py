"""`kinfolk explain`: who spoke for a label, and how much of the answer came from it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli import graphs, tokens
from kinfolk.cli.options import given_options, spread
from kinfolk.errors import SettingError

if TYPE_CHECKING:
    from kinfolk.explain.parents import Explanation


class Format(StrEnum):
    conll = "conll"
    text = "text"
    tables = "tables"
    linqs = "linqs"
    webkb = "webkb"


FORMATS = {"tokens": (Format.conll, Format.text), "nodes": (Format.tables, Format.linqs, Format.webkb)}
NEEDED = {"tokens": ("FILE", "--document", "--token"), "nodes": ("--nodes", "--node")}


@spread
def explain(
    *,
    model: Annotated[Path, typer.Argument(help="Model file of a mop model.")],
    file: Annotated[str | None, typer.Argument(help="Tokens: the file; - = standard input.")] = None,
    document: Annotated[int | None, typer.Option(help="Tokens: number of the document, from 0.")] = None,
    token: Annotated[int | None, typer.Option(help="Tokens: number within the document, from 0.")] = None,
    node: Annotated[str | None, typer.Option(help="Nodes: id of the node.")] = None,
    nodes: Annotated[list[str] | None, typer.Option(help="Nodes: as in nodes predict.")] = None,
    edges: Annotated[list[str] | None, typer.Option(help="Nodes: as in nodes predict.")] = None,
    tables: graphs.TableOptions,
    format: Annotated[
        Format | None, typer.Option(help="Default: conll for tokens; as the names of the files tell for nodes.")
    ] = None,
    scheme: tokens.Scheme = "auto",
    separator: tokens.Separator = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every distribution.")] = False,
    jobs: tokens.Jobs = -1,
) -> None:
    """Explain the label of one token or node: each parent, its weight, what it predicts, its share of the answer.

    kinfolk explain MODEL FILE --document 0 --token 12

    kinfolk explain MODEL --nodes FILE --edges FILE --node ID
    """
    from kinfolk.io.textfiles import write_utf8
    from kinfolk.models.linker import Linker
    from kinfolk.models.persistence import load_model

    labeller = load_model(model).set_params(n_jobs=jobs)
    if isinstance(labeller, Linker):
        raise SettingError(f"{model} links mentions or records: ask kinfolk mentions explain")
    if not hasattr(labeller, "explain"):
        raise SettingError(f"explain needs a mop model; {model} is a {type(labeller).__name__}")
    task = str(labeller.task_)
    given: dict[str, dict[str, Any]] = {
        "tokens": {"FILE": file, "--document": document, "--token": token},
        "nodes": {"--nodes": nodes or None, "--node": node, "--edges": edges or None, **given_options(tables)},
    }
    _check_given(task, given, format, model)
    if task == "nodes":
        form = None if format is None else graphs.Format(format)
        graph = graphs.read_graph(nodes or [], edges, form, tables, labeller.node_columns_, labels=False)
        answer = labeller.explain(graph, node=node)
    else:
        corpus = tokens.read_corpus(labeller, file or "-", tokens.Format(format or "conll"), scheme, separator)
        answer = labeller.explain(corpus, document=document, token=token)
    text = json.dumps(_plain(answer), indent=2, ensure_ascii=False) if as_json else str(answer)
    write_utf8("-", [text, "\n"])


def _check_given(task: str, given: dict[str, dict[str, Any]], format: Format | None, model: Path) -> None:
    """Everything that one task needs is there, and nothing of the other."""
    usage = f"{model} labels {task}; give {', '.join(NEEDED[task])}"
    other = given["nodes" if task == "tokens" else "tokens"]
    strange = next((name for name, value in other.items() if value is not None), None)
    if strange is not None:
        raise SettingError(f"{usage}, not {strange}")
    missing = next((name for name in NEEDED[task] if given[task][name] is None), None)
    if missing is not None:
        raise SettingError(f"{usage}: there is no {missing}")
    if format is not None and format not in FORMATS[task]:
        raise SettingError(f"{model} labels {task}; --format must be {' or '.join(FORMATS[task])}, got {format}")


def _plain(answer: Explanation) -> dict[str, Any]:
    """The explanation in plain numbers, distributions by class."""

    def by_class(distribution: Any) -> dict[str, float] | None:
        return None if distribution is None else dict(zip(answer.classes, distribution.tolist(), strict=True))

    contributions = [
        {"parent": c.parent, "name": c.name, "relation": c.relation, "weight": c.weight, "share": c.share,
         "marginal": by_class(c.marginal), "predicted": by_class(c.predicted)}
        for c in answer.contributions
    ]  # fmt: skip
    return {
        "instance": answer.instance,
        "name": answer.name,
        "label": answer.label,
        "probability": answer.probability,
        "marginal": by_class(answer.marginal),
        "contributions": contributions,
    }
