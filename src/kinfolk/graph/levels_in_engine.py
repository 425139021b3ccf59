"""The levels of a stacked model over nodes of tables in an engine, one after the other.

    level 0     by the model, a run of nodes with their features at a time
    aggregates  of the votes of the level before, by GROUP BY over the links (`collective.aggregates_sql`)
    level k     by the model, a run of nodes with their features and aggregates at a time

Of the nodes nothing but a run is ever in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregates_sql import HARD, Links, make_sums, received, related, sums
from kinfolk.collective.stacking import as_votes
from kinfolk.collective.templates import Over, TemplateSet, set_known
from kinfolk.core.engine import ROW, Beside
from kinfolk.core.sending import Sent
from kinfolk.core.threads import resolve_jobs
from kinfolk.graph.engine_graph import NODES, EngineGraph, NodeFeatures, feature_expressions, numbered
from kinfolk.graph.known_in_engine import CODE, KNOWN, KnownNodes
from kinfolk.graph.learners import one_table, predict_in_blocks
from kinfolk.graph.stacked import StackedNodes

Array = NDArray[Any]
VOTES = "kf_votes"
CELLS, RUN_ROWS = 1_000_000, (4_096, 100_000)  # of a run of nodes: some tens of megabytes


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums over one relation, of votes or of features: their table, and the columns that a kernel sees."""

    relation: str
    links: Links
    table: str
    columns: dict[str, str]

    @property
    def beside(self) -> Beside:
        return Beside(self.table, {f"{self.table}_{name}": name for name in self.columns}, 0.0)


class Asked(NamedTuple):
    """What a level is asked: columns of nodes, tables beside them, the kernel that sees both, and rows at a time."""

    seen: tuple[list[str], list[Beside], NodeLevel]
    n_rows: int

    @property
    def kernel(self) -> NodeLevel:
        return self.seen[2]


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a model over a graph in an engine, one after the other."""

    graph: EngineGraph
    model: StackedNodes
    known: KnownNodes
    sent: Sent = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sent", Sent(self.model))  # its bytes are made once for all levels

    def make(self, into: str) -> None:
        """A table of every node's row, its label and probabilities."""
        asked = self._below()
        self.graph.engine.map_with(NODES, *asked.seen, into, asked.kernel.schema, asked.n_rows)

    def query(self, keep: Sequence[str], new: Mapping[str, str], into: str) -> str:
        """A query of the nodes in order, as `Engine.answered` gives it: of the last level's `label` and `p0`, ..., or
        `best`, the largest of these."""
        asked, graph = self._below(), self.graph
        columns, others, kernel = asked.seen
        kernel = replace(kernel, best="best" in new.values())
        return graph.engine.answered(
            NODES, keep, new, columns, others, kernel, into, kernel.schema, graph.n, asked.n_rows
        )  # fmt: skip

    def drop(self) -> None:
        """Remove what the levels looked at."""
        tables = [one for part in self._plans for one in part]
        votes = [f"{VOTES}_{level}" for level in range(len(self.model.levels_))]
        given = [f"kf_given_{level}" for level in range(self.known.given)]
        self.graph.engine.drop(*votes, *(one.table for one in tables), *{one.links.table for one in tables}, *given)

    @cached_property
    def _plans(self) -> tuple[list[Sums], list[Sums]]:
        return ([], []) if len(self.model.levels_) == 1 else self._planned()

    def _below(self) -> Asked:
        """Run all levels below the last; what that is asked."""
        engine, last = self.graph.engine, len(self.model.levels_) - 1
        plan, fixed = self._plans
        for level in range(last + 1):
            if level == 1:
                for one in fixed:
                    make_sums(engine, one.table, one.links, NODES, one.columns)
            for one in plan if level else ():
                make_sums(engine, one.table, one.links, f"{VOTES}_{level - 1}", one.columns)
            asked = self._asked(level, [*fixed, *plan] if level else [])
            if level < last:
                engine.map_with(NODES, *asked.seen, f"{VOTES}_{level}", asked.kernel.schema, asked.n_rows)
                engine.drop(*([f"{VOTES}_{level - 1}"] if level else []))
        return asked

    def _planned(self) -> tuple[list[Sums], list[Sums]]:
        """What to add up over which links: of votes, and of features."""
        set_, named = self.model.template_set_, {k: v for k, v in self.graph.relations.items() if v is not None}
        links: dict[str, Links] = {}
        for template in set_.templates:
            assert isinstance(template, Over)
            key = str(template.rule)
            if key not in links:
                table = f"kf_path_{len(links)}"
                links[key] = related(self.graph.engine, template.rule, named, table)  # type: ignore[arg-type]
        plan, fixed = [], []
        for number, (key, found) in enumerate(links.items()):
            mine = [t for t in set_.of_predictions if isinstance(t, Over) and str(t.rule) == key]
            if mine:
                plan.append(Sums(key, found, f"kf_sums_{number}", sums(mine, found, set_.n_votes)))
            theirs = [t for t in set_.of_features if isinstance(t, Over) and str(t.rule) == key]
            if theirs:
                fixed.append(Sums(key, found, f"kf_fixed_{number}", self._feature_sums(found)))
        return plan, fixed

    def _feature_sums(self, links: Links) -> dict[str, str]:
        weight = "l.weight * " if links.weighted else ""
        found = {
            f"s{i}": f"sum({weight}({expression}))"
            for i, expression in enumerate(feature_expressions(self.graph, self.model.node_columns_, "v"))
        }
        return found | {"weight": "sum(l.weight)" if links.weighted else "CAST(count(*) AS DOUBLE)"}

    def _asked(self, level: int, sums_here: Sequence[Sums]) -> Asked:
        graph, n_votes, last = self.graph, len(self.model.labels_), level == len(self.model.levels_) - 1
        others = [one.beside for one in sums_here]
        if self.known.known and (self.known.keeps if last else self.known.reveals):
            others.append(Beside(KNOWN, {CODE: CODE}, -1))
        if level < self.known.given:
            others.append(Beside(f"kf_given_{level}", {f"kf_g{c}": f"g{c}" for c in range(n_votes)}))
        if level and self.model.own:
            others.append(Beside(f"{VOTES}_{level - 1}", {f"kf_o{c}": f"o{c}" for c in range(n_votes)}))
        features = NodeFeatures(graph.columns, tuple(graph.fields), graph.title)
        tables = {one.relation + " of features" * one.table.startswith("kf_fixed"): one.table for one in sums_here}
        width = len(graph.shown) + sum(len(one.columns) for one in others)
        n_rows = int(np.clip(CELLS // max(width, 1), *RUN_ROWS))
        return Asked((graph.shown, others, NodeLevel(self.sent, level, features, tables)), n_rows)


@dataclass(frozen=True, eq=False)
class NodeLevel:
    """What a level of a model says of a run of nodes: votes for the next level, or labels and probabilities.

    tables   relation, or relation of features -> the prefix of the sums over it
    best     of probabilities the largest alone
    """

    model: Sent
    level: int
    features: NodeFeatures
    tables: Mapping[str, str]
    best: bool = False

    @property
    def is_last(self) -> bool:
        return bool(self.level == len(self.model.model.levels_) - 1)

    @property
    def schema(self) -> Any:
        import pyarrow

        model = self.model.model
        n_votes = len(model.labels_)
        if self.is_last:
            labels = pyarrow.array(model.labels_.plain().array().tolist()).type
            probabilities = ["best"] if self.best else [f"p{c}" for c in range(n_votes)]
            return pyarrow.schema([(ROW, "int64"), ("label", labels), *((one, "float64") for one in probabilities)])
        own = [(f"o{c}", "float64") for c in range(n_votes)] if model.own else []
        votes = [(f"v{c}", "float64") for c in range(n_votes)]
        return pyarrow.schema([(ROW, "int32"), (HARD, "int32"), *votes, *own])

    def __call__(self, batch: Any) -> Any:
        import pyarrow

        model: StackedNodes = self.model.model
        run = pyarrow.Table.from_batches([batch]) if isinstance(batch, pyarrow.RecordBatch) else batch
        found = self._said(model, run)
        code = run.column(CODE).to_numpy() if CODE in run.schema.names else np.full(len(found), -1, np.int32)
        rows = run.column(ROW).to_numpy()
        if self.is_last:
            set_known(found, code)
            labels = pyarrow.array(model.labels_.plain().array().tolist()).take(pyarrow.array(found.argmax(axis=1)))
            each = {"best": found.max(axis=1)} if self.best else numbered("p", found)
            return pyarrow.table({ROW: rows, "label": labels, **each}, self.schema)
        votes = own = as_votes(found, model._ask, self.level, 0, 1)
        if "kf_g0" in run.schema.names:
            given = _stacked(run, [f"kf_g{c}" for c in range(found.shape[1])])
            votes = own = np.where(np.isnan(given), votes, given)
        if (code >= 0).any():
            votes = votes.copy()
            set_known(votes, code)
        hard = np.where(votes.any(axis=1), votes.argmax(axis=1), -1).astype(np.int32)
        mine = numbered("o", own) if model.own else {}
        return pyarrow.table({ROW: rows.astype(np.int32), HARD: hard, **numbered("v", votes), **mine}, self.schema)

    def _said(self, model: StackedNodes, run: Any) -> Array:
        """(m, L), the probabilities of this level."""
        alone = self.features.of(run, model.node_columns_)
        if not self.level:
            return predict_level(model, 0, alone, None)
        parts = [alone] * model.features
        for template in model.template_set_.of_features:
            assert isinstance(template, Over)
            parts.append(self._received(template, alone.shape[1], run, f"{template.rule} of features"))
            if sparse.issparse(alone):
                parts[-1] = sparse.csr_array(parts[-1])
        wide = one_table(parts) if parts else np.zeros((run.num_rows, 0))
        block = self._aggregates(model.template_set_, run)
        if model.own:
            block = np.concatenate([block, _stacked(run, [f"kf_o{c}" for c in range(len(model.labels_))])], axis=1)
        return predict_level(model, self.level, wide, block)

    def _aggregates(self, templates: TemplateSet, run: Any) -> Array:
        parts = [np.zeros((run.num_rows, 0))]
        for template in templates.of_predictions:
            assert isinstance(template, Over)
            parts.append(self._received(template, templates.n_votes, run, str(template.rule)))
        return np.concatenate(parts, axis=1)

    def _received(self, template: Over, n_votes: int, run: Any, sums_of: str) -> Array:
        prefix, width = self.tables[sums_of], n_votes if template.of == "features" else template.width(n_votes)
        out = np.empty((run.num_rows, width))
        received(template, n_votes, lambda name: run.column(f"{prefix}_{name}").to_numpy(), out)
        return out


def _stacked(run: Any, names: Sequence[str]) -> Array:
    """Columns of numbers side by side, NaN where there is none."""
    return np.stack([run.column(name).to_numpy().astype(np.float64) for name in names], axis=1)


def predict_level(model: StackedNodes, level: int, rows: Any, aggregates: Array | None) -> Array:
    """(m, L): what a level says of nodes.

    rows         their features (m, F), dense or CSR; above the base what stands before the votes of neighbours: these,
                 if the levels see them, and what templates give of the features of neighbours
    aggregates   (m, q), what they receive of the predictions of the level before; None: of the base
    """
    everyone, block = np.arange(rows.shape[0]), None if aggregates is None else aggregates.__getitem__
    return predict_in_blocks(model.levels_[level], rows, everyone, block, resolve_jobs(model.n_jobs))
