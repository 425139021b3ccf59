"""What goes to standard output: tables, coloured on a terminal and plain in a pipe; and JSON.

A pipe gets text that `awk` can read: no colours, nothing wrapped or cut, whatever the width of the terminal.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import refuse_overwriting

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from kinfolk.graph.model import NodeScores
    from kinfolk.linking.mentions import Mentions
    from kinfolk.report.scores import Counts
    from kinfolk.text.scores import EntityScores


@dataclass(frozen=True)
class Table:
    """Head and rows. The first `words` columns are words, which begin below each other; the others end so."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def lines(self) -> Iterator[str]:
        """Columns as wide as their widest cell, two blanks between them."""
        cells = [self.head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = (
                cell.ljust(width) if i < self.words else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            yield "  ".join(padded).rstrip()


def show(lines: Sequence[str], table: Table | None = None, plain: Iterable[str] | None = None) -> None:
    """Print lines, and a table below them. `plain`: its lines in a pipe, where they have a form of their own."""
    from kinfolk.core.files import write_utf8

    if table is None or not sys.stdout.isatty():
        below = [] if table is None else table.lines() if plain is None else plain
        write_utf8("-", [line + "\n" for line in [*lines, *below]])
        return
    from rich.console import Console
    from rich.text import Text

    settings: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    console = Console(**settings)
    for line in lines:
        console.print(Text(printable(line)))
    console.print(_coloured(table))


def show_json(answer: Mapping[str, Any] | list[Any]) -> None:
    """Print one JSON object, or a list of them. JSON has no NaN and no infinity: they become null."""
    from kinfolk.core.files import write_utf8

    write_utf8("-", [json.dumps(_finite(answer), indent=2, ensure_ascii=False), "\n"])


def _coloured(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i, name in enumerate(table.head):
        if i < table.words:
            rich.add_column(Text(printable(name)), style="cyan", overflow="fold")
        else:
            rich.add_column(Text(printable(name)), justify="right", overflow="fold")
    for row in table.rows:
        rich.add_row(*(Text(printable(cell)) for cell in row))  # Text: brackets in a label are no markup
    return rich


def printable(text: str) -> str:
    """Without what a terminal would obey: a label may hold anything."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- How training went: lines for a reader, and an object for `--json` ---------------------------------

SCORES = {"pair_f1": "pairwise F1"}  # metrics that have a plainer name


def outcome(model: Any) -> Iterator[str]:
    """How training went, a line each: skip edges, the optimiser, the held-out score, belief propagation, the gain over
    the local model, where there are such."""
    yield from _of_stack(model) if hasattr(model, "template_set_") else _of_optimiser(model)
    yield from _gained(model)


def _gained(model: Any) -> Iterator[str]:
    gain = getattr(model, "gain_", None)
    if gain is not None:
        yield str(gain)


def _of_optimiser(model: Any) -> Iterator[str]:
    convergence = model.convergence_
    yield from _settled(model)
    yield str(convergence)
    if convergence.best_iteration is not None:
        yield f"held-out score {100 * convergence.dev_scores[convergence.best_iteration]:.2f}"
    report = getattr(model, "training_report_", None)
    if report is not None:
        yield str(report)


def _of_stack(model: Any) -> Iterator[str]:
    """The same of models that receive aggregates of their neighbours by templates, or are a pool of candidates."""
    if getattr(model, "pool_", None) is not None:
        carrying = [f"{name} {weight:.2f}" for name, weight in model.weights_.items() if weight > 0]
        yield f"a pool of {len(model.weights_)} candidates, whose weights are: {', '.join(carrying)}"
        return
    received = ", ".join(template.name for template in model.template_set_.templates) or "nothing"
    levels = getattr(model, "levels_", ())
    base, above = type(model.base).__name__, len(levels) - 1
    if not levels:
        yield f"{base}, with neighbours by {received}"
    elif not above:
        yield f"{base} on own features; no links used"
    else:
        yield f"{base} on own features, then {_counted(above, 'level')} with neighbours by {received}"
    if above > 0:
        yield from _settled(model)
    for number, level in enumerate(levels):
        if hasattr(level, "convergence_"):
            yield f"level {number}: {level.convergence_}"


def skip_edges(model: Any) -> list[Any]:
    """The rules by which a model of tokens looks beyond the sentence, as `fit` settled them."""
    if hasattr(model, "template_set_"):
        rules = (getattr(template, "relation", None) for template in model.template_set_.templates)
        return [rule for rule in rules if hasattr(rule, "builder")]
    return list(getattr(model, "skips_", ()))


def _settled(model: Any) -> Iterator[str]:
    """Which words are linked, where that was left to the training data."""
    settled = [str(skip) for skip in skip_edges(model) if skip.capitalised is not None]
    if settled:
        yield f"links of tokens: {', '.join(settled)}"


def link_outcome(linker: Any, items: Mentions, size: str, fields: int, verbose: bool) -> Iterator[str]:
    """The same of a linker: what it compared by, and how well it does; `verbose`: every name, and the round kept."""
    yield f"trained on {size}"
    names = [column.name for column in linker.pair_set_.columns]
    if items.corpus is None:
        brief = f"{_counted(fields, 'field')}, {_counted(len(names), 'comparison')}"
        yield f"compared by {', '.join(names)}" if verbose else brief
    kept = linker.rounds_[linker.best_round_]
    by_truth = linker.learned_from_ in ("clusters", "clusters and pairs")  # others are no truth, or too little of it
    measured = kept.scores if by_truth else {}
    if linker.folds_ is not None:
        name = type(linker.clusterer_).__name__
        yield f"{name}, its threshold {linker.clusterer_.threshold:.3f} and the round chosen on unseen training pairs"
    if kept.scores and not verbose:
        for name, score in measured.items():
            yield f"{SCORES.get(name, name)} on the training data {100 * score:.1f} %"
        yield from _gained(linker)
        return
    rounds = f"kept round {kept.number} of 0 (local) to {len(linker.rounds_) - 1}"
    if not kept.scores:
        rounds = "local decisions, then ranking" if linker.training == "combined" else f"{linker.training} training"
    scores = "".join(f"{name} {score:.4f} on the training data; " for name, score in measured.items())
    yield f"{rounds}: {scores}{linker.convergence_}"
    yield from _gained(linker)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


# -- JSON ---------------------------------------------------------------------------------------------


def summary(model: Any, out: Path, trained_on: dict[str, int], **more: Any) -> dict[str, Any]:
    """What `train --json` prints: the model, what it was trained on, how training ended, and the file."""
    return {
        "model": type(model).__name__,
        "trained_on": trained_on,
        **more,
        "convergence": _convergence(model),
        **_parts(model),
        "path": str(out),
    }


def _convergence(model: Any) -> dict[str, Any] | None:
    """None: a base of scikit-learn, which does not tell."""
    ended = getattr(model, "convergence_", None)
    if ended is None:
        return None
    held_out = None if ended.best_iteration is None else ended.dev_scores[ended.best_iteration]
    return {**ended.brief(), "best_iteration": ended.best_iteration, "held_out_score": held_out}


def _parts(model: Any) -> dict[str, Any]:
    """What only some models have: skip edges, levels of a stack, rounds of a linker, belief propagation."""
    parts: dict[str, Any] = {}
    if skips := skip_edges(model):
        parts["skip_edges"] = list(map(str, skips))
    if getattr(model, "gain_", None) is not None:
        parts["gain"] = asdict(model.gain_)
    if getattr(model, "pool_", None) is not None:
        parts["weights"] = model.weights_
    elif hasattr(model, "levels_"):
        parts["levels"] = [_convergence(level) for level in model.levels_]
    if hasattr(model, "rounds_"):
        parts["rounds"] = [{"number": r.number, "links": r.positives, "scores": r.scores} for r in model.rounds_]
        parts["best_round"] = model.best_round_
        parts["threshold"] = model.clusterer_.threshold
    report = getattr(model, "training_report_", None)
    if report is not None:
        parts["belief_propagation"] = {
            "groups": len(report.converged),
            "settled": int(report.converged.sum()),
            "most_rounds": int(report.rounds.max(initial=0)),
        }
    return parts


# -- The tables of `evaluate`: entities by type, nodes by class, links by metric -----------------------


def entity_table(scores: EntityScores) -> Table:
    """In a pipe these are printed by `scores.table()`, as conlleval does."""
    rows = [("overall", scores), *scores.types.items()]
    head = ("type", "precision", "recall", "F1", "entities", "predicted", "correct")
    return Table(head, [(name, *_rates(c), str(c.gold), str(c.predicted), str(c.correct)) for name, c in rows])


def class_table(scores: NodeScores) -> Table:
    head = ("class", "precision", "recall", "F1", "nodes", "predicted")
    return Table(head, [(name, *_rates(c), str(c.gold), str(c.predicted)) for name, c in scores.classes.items()])


def class_lines(scores: NodeScores) -> Iterator[str]:
    """The same for a pipe: every figure says what it is."""
    width = max(map(len, scores.classes))
    for name, c in scores.classes.items():
        rates = f"precision {c.precision:6.2f}  recall {c.recall:6.2f}  F1 {c.f1:6.2f}"
        yield f"{name:>{width}}  {rates}  nodes {c.gold}  predicted {c.predicted}"


def link_table(scores: Mapping[str, Any]) -> Table:
    """Rates in percent; what is no set of rates has one number, its score, in the column of F1."""
    rows: list[tuple[str, ...]] = []
    for name, one in scores.items():
        if name == "mentions":  # they are given
            continue
        if name == "calibration":
            rows.append((name, "", "", "", f"{100 * one['error']:.2f}"))
        elif isinstance(one, Mapping):
            rates = (f"{100 * one[rate]:.2f}" for rate in ("recall", "precision", "f1"))
            rows.append((name, *rates, f"{100 * one['error']:.2f}" if "error" in one else ""))
        else:
            rows.append((name, "", "", f"{100 * one:.2f}", ""))
    return Table(("", "recall", "precision", "F1", "error"), rows)


def link_lines(table: Table) -> Iterator[str]:
    """The same for a pipe: names end below each other too."""
    for name, recall, precision, f1, error in [table.head, *table.rows]:
        yield f"{name:>12}  {recall:>6}  {precision:>9}  {f1:>6}  {error:>6}".rstrip()


def _rates(counts: Counts) -> tuple[str, str, str]:
    return f"{counts.precision:.2f}", f"{counts.recall:.2f}", f"{counts.f1:.2f}"


# -- The option `--report`: a page to look at beside what is printed -----------------------------------

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


def report_page(page: Path | None) -> None:
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
