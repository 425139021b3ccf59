"""`kinfolk nodes train` and `predict` with an engine, and limits of samples and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kinfolk.cli.options import counted_warnings, refusals_of_the_base
from kinfolk.cli.output import outcome, show_json, summary
from kinfolk.core.settings import whole
from kinfolk.errors import SettingError
from kinfolk.graph.cli_files import Format
from kinfolk.graph.stacked import StackedNodes

if TYPE_CHECKING:
    from kinfolk.graph.graph import Graph

Tables = tuple[str, Any, dict[str, Any]]  # of nodes, of links, and what their columns are


def refuse_with_engine(format: Format | None, given: Mapping[str, Any], model: Any) -> None:
    """Files, options and models that no engine has."""
    if format not in (None, Format.tables):
        raise SettingError.saying(f"--engine reads tables, Parquet or CSV; got --format {format}")
    strange = next((option for option, value in given.items() if value is not None), None)
    if strange is not None:
        raise SettingError.saying(f"{strange} cannot be had from an engine; leave it out, or --engine")
    if not isinstance(model, StackedNodes):
        raise SettingError.saying(f"--engine is for --model stacked; this is a {type(model).__name__}")


def train_with(engine: Any, model: StackedNodes, tables: Tables, sample: int | None, most_links: int | None) -> None:
    nodes, edges, columns = tables
    with refusals_of_the_base(model), counted_warnings():
        model.set_params(engine=engine).fit_tables(nodes, edges, sample=sample, most_links=most_links, **columns)


def tell_trained(model: StackedNodes, out: Path, to_trust: Sequence[str], quiet: bool, as_json: bool) -> None:
    """What `train` prints at its end, where the graph was never in memory as a whole."""
    labelled = 0 if model.memory_ is None else len(model.memory_.ids)
    if as_json:
        show_json(summary(model, out, {"labelled": labelled}, features=model._n_features, trust=list(to_trust)))
    elif not quiet:
        typer.echo(f"trained on {labelled} nodes with labels; {model._n_features} features", err=True)
        for line in outcome(model):
            typer.echo(line, err=True)
        if to_trust:
            typer.echo(f"to be read with {' '.join(f'--trust {name}' for name in to_trust)}", err=True)
        typer.echo(f"wrote {out}", err=True)


def predict_with(engine: Any, model: StackedNodes, tables: Tables, output: str, given: Mapping[str, Any]) -> None:
    nodes, edges, columns = tables
    with refusals_of_the_base(model), counted_warnings():
        model.set_params(engine=engine).predict_tables(nodes, edges, into=output, **given, **columns)


# -- limits, of graphs in memory ------------------------------------------------------------------------


def limited(graph: Graph, most_links: int | None) -> Graph:
    from kinfolk.graph.tables import with_most_links

    if most_links is None:
        return graph
    whole(1).check("most_links", most_links)
    return with_most_links(graph, most_links)


def chosen_nodes(graph: Graph, train: Sequence[int] | None, sample: int | None, seed: int) -> Any:
    """The nodes whose labels may be used, as `fit` takes them: those named, or a sample; None: all."""
    from kinfolk.graph.tables import sampled

    if sample is None:
        return train
    whole(1).check("sample", sample)
    if train is not None:
        raise SettingError.saying("--sample and --train-ids both say whose labels are used; give one of them")
    return sampled(graph, sample, seed)
