"""Nodes of tables in an engine, labelled where their ids and links are small enough to be put in order in this process.

    links    as in memory (`graph.links`), of the columns that name their ends; those of a stretch of nodes are a piece
    level k  by the model, a run of nodes with their features at a time, wherever the engine has them: those who compute
             see the pieces with the links of their nodes, and the votes of all nodes at the level before, and add up
             what neighbours say as in memory

Larger tables are joined and grouped by queries (`graph.levels_in_engine`), as are paths of several links and features
of neighbours, of which nobody knows before how large they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.aggregate import padded
from kinfolk.collective.aggregates_sql import HARD
from kinfolk.collective.relations import Neighbourhood, Relation
from kinfolk.collective.templates import Over, TemplateSet
from kinfolk.core.engine import ROW
from kinfolk.graph.engine_graph import NODES
from kinfolk.graph.known_in_engine import CODE
from kinfolk.graph.levels_in_engine import VOTES, Asked, Levels, NodeLevel
from kinfolk.graph.stacked import StackedNodes

Array = NDArray[Any]
LEAST_PIECE, MOST_PIECES = 50_000, 32  # nodes of a piece of the links, and pieces


def may_be_held(model: StackedNodes) -> bool:
    """Whether levels look at nothing that is much larger than links and votes."""
    set_ = model.template_set_
    return not set_.of_features and not any(isinstance(t, Over) and "@" in str(t.rule) for t in set_.of_predictions)


@dataclass(frozen=True, eq=False)
class Seen:
    """What a level sees of nodes beside a run of them.

    known   (n,), numbers of the classes that are known, -1 for none; None: nobody's
    given   (n, L), votes of nodes trained on, NaN for others; None: nobody's
    votes   (n, L), of the level before
    own     (n, L), the same of each node by itself, where the model looks at them
    """

    known: Array | None = None
    given: Array | None = None
    votes: Array | None = None
    own: Array | None = None

    def beside(self, run: Any) -> Any:
        """The run with the columns that a kernel would see of tables beside that of the nodes."""
        import pyarrow

        rows = run.column(ROW).to_numpy()
        columns = dict(zip(run.schema.names, run.columns, strict=True))
        if self.known is not None:
            columns[CODE] = self.known[rows]
        for prefix, table in (("kf_g", self.given), ("kf_o", self.own)):
            if table is not None:
                columns |= {f"{prefix}{c}": table[rows, c] for c in range(table.shape[1])}
        return pyarrow.table(columns)


@dataclass(frozen=True, eq=False)
class HeldLevel(NodeLevel):
    """A level of a model where links and votes are at hand.

    seen    what it sees beside a run
    links   of each piece: relation, as templates name it -> CSR (m, n)
    size    nodes of a piece, but the last
    """

    seen: Any = None
    links: Sequence[Any] = ()
    size: int = 1

    def __call__(self, batch: Any) -> Any:
        return super().__call__(self.seen.value.beside(batch))

    def _aggregates(self, templates: TemplateSet, run: Any) -> Array:
        rows, votes = run.column(ROW).to_numpy(), padded(self.seen.value.votes)
        piece, out = rows // self.size, np.empty((len(rows), templates.width))
        for number in np.unique(piece).tolist():
            mine = piece == number
            around = Neighbourhood(len(votes), templates.n_votes, {}, worked_out=self.links[number].value)
            out[mine] = templates.rows(around, votes, rows[mine] - number * self.size)
        return out


@dataclass(frozen=True, eq=False)
class HeldLevels(Levels):
    """The levels of a model over a graph whose links are in this process."""

    shared: list[Any] = field(default_factory=list, init=False)

    def drop(self) -> None:
        for one in self.shared:
            one.destroy()

    def _below(self) -> Asked:
        graph, last, seen = self.graph, len(self.model.levels_) - 1, Seen()
        for level in range(last + 1):
            asked = self._asked_of(level, seen)
            if level < last:
                new = {name: name for name in asked.kernel.schema.names if name not in (ROW, HARD)}
                table = f"{VOTES}_{level}"
                found = graph.engine.arrow(
                    graph.engine.answered(
                        NODES, [], new, *asked.seen, table, asked.kernel.schema, graph.n, asked.n_rows
                    )
                )
                seen = Seen(votes=_columns(found, "v"), own=_columns(found, "o") if self.model.own else None)
                graph.engine.drop(table)
        return asked

    def _asked_of(self, level: int, seen: Seen) -> Asked:
        asked = self._asked(level, ())
        known, given = self.known.held(level, len(self.model.levels_) - 1)
        mine = self._share(replace(seen, known=known, given=given))
        links = self._links if level else ()
        kernel = HeldLevel(self.sent, level, asked.kernel.features, {}, seen=mine, links=links, size=self._size)
        return Asked((asked.seen[0], [], kernel), asked.n_rows)

    def _share(self, value: Any) -> Any:
        self.shared.append(self.graph.engine.handed_out(value))
        return self.shared[-1]

    @property
    def _size(self) -> int:
        return max(LEAST_PIECE, -(-self.graph.n // MOST_PIECES))

    @cached_property
    def _links(self) -> Sequence[Any]:
        """Pieces of all relations that templates name."""
        rules = [one.rule for one in self.model.template_set_.of_predictions if isinstance(one, Over)]
        named = {str(rule): rule for rule in rules if isinstance(rule, Relation)}
        links, size = {key: rule.links(self.graph.relations) for key, rule in named.items()}, self._size
        return [
            self._share({key: one[start : start + size] for key, one in links.items()})
            for start in range(0, self.graph.n, size)
        ]


def _columns(found: Any, prefix: str) -> Array:
    """(n, L): the columns v0, v1, ..."""
    names = [name for name in found.schema.names if name[:1] == prefix]
    table = np.empty((found.num_rows, len(names)))
    for k, name in enumerate(names):
        table[:, k] = found.column(name).to_numpy()
    return table
