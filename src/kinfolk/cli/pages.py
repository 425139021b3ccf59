"""The option `--report`: a page to look at beside what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kinfolk.cli.options import refuse_overwriting

Page = Annotated[
    Path | None,
    typer.Option("--report", help="Also write a page: scores, calibration, confusion, mistakes, how training went."),
]
TrainingPage = Annotated[
    Path | None,
    typer.Option("--report", help="Also write a page: how training went and, with --dev, scores on that file."),
]


def check_page(page: Path | None, *read: str | Path | None) -> None:
    """Before the work: the page can be written, and is none of the files that are read."""
    from kinfolk.core.modelfile import check_writable

    if page is not None:
        check_writable(page)
        refuse_overwriting(page, "--report", *read)


def tell_page(page: Path | None) -> None:
    if page is not None:
        typer.echo(f"wrote {page}", err=True)


def write_training_page(page: Path | None, model: Any, held_out: Any) -> None:
    """After training: with the scores on held-out data, where there is any."""
    from kinfolk.report.scores import write_training

    if page is None:
        return
    if held_out is None:
        write_training(page, model)
    else:
        model.evaluate(held_out, report=page)


def score_nodes(labeller: Any, graph: Any, gold: dict[int, str], known: Any, page: Path) -> Any:
    """Predicted labels of all nodes; the page is about those in `gold`. `known`: as models take it."""
    import numpy as np

    from kinfolk.graph.nodes import Nodes
    from kinfolk.report.scores import evaluate_nodes

    beliefs = labeller.predict_proba(graph, known=known)
    scored = graph.with_labels([gold.get(i) for i in range(graph.n_nodes)])
    nodes = Nodes.of(scored, labeller.node_columns_)
    evaluate_nodes(labeller, nodes, nodes.to_rows(beliefs), page, np.full(len(nodes.labels), -1))
    return labeller.classes_[beliefs.argmax(axis=1)]
