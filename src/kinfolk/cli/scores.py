"""The tables of `evaluate`: entities by type, nodes by class, links by metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kinfolk.cli.output import Table

if TYPE_CHECKING:
    from kinfolk.text.scores import EntityCounts, EntityScores


def entity_table(scores: EntityScores) -> Table:
    """In a pipe these are printed by `scores.table()`, as conlleval does."""
    rows = [("overall", scores), *scores.types.items()]
    head = ("type", "precision", "recall", "F1", "entities", "predicted", "correct")
    return Table(head, [(name, *_rates(c), str(c.gold), str(c.predicted), str(c.correct)) for name, c in rows])


def class_table(scores: EntityScores) -> Table:
    """Nodes are spans of length one, so their scores are those of entities."""
    head = ("class", "precision", "recall", "F1", "nodes", "predicted")
    return Table(head, [(name, *_rates(c), str(c.gold), str(c.predicted)) for name, c in scores.types.items()])


def class_lines(scores: EntityScores) -> Iterator[str]:
    """The same for a pipe: every figure says what it is."""
    width = max(map(len, scores.types))
    for name, c in scores.types.items():
        rates = f"precision {c.precision:6.2f}  recall {c.recall:6.2f}  F1 {c.f1:6.2f}"
        yield f"{name:>{width}}  {rates}  nodes {c.gold}  predicted {c.predicted}"


def link_table(scores: Mapping[str, Any]) -> Table:
    """Rates in percent; what is no set of rates has one number, its score, in the column of F1."""
    rows: list[tuple[str, ...]] = []
    for name, one in scores.items():
        if name == "mentions":  # they are given
            continue
        if isinstance(one, Mapping):
            rates = (f"{100 * one[rate]:.2f}" for rate in ("recall", "precision", "f1"))
            rows.append((name, *rates, f"{100 * one['error']:.2f}" if "error" in one else ""))
        else:
            rows.append((name, "", "", f"{100 * one:.2f}", ""))
    return Table(("", "recall", "precision", "F1", "error"), rows)


def link_lines(table: Table) -> Iterator[str]:
    """The same for a pipe: names end below each other too."""
    for name, recall, precision, f1, error in [table.head, *table.rows]:
        yield f"{name:>12}  {recall:>6}  {precision:>9}  {f1:>6}  {error:>6}".rstrip()


def _rates(counts: EntityCounts) -> tuple[str, str, str]:
    return f"{counts.precision:.2f}", f"{counts.recall:.2f}", f"{counts.f1:.2f}"
