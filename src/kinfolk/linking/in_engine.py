"""Records of a table in an engine, clustered as `Linker.predict` clusters them in memory.

    keys and pairs      joins (`linking.blocking_sql`)
    log-odds of pairs   by the model, a run of pairs with their records at a time
    components          of the pairs above the clusterer's threshold: no cluster reaches beyond one (`core.components`)
    clusters            of whole components, by the model: closure, rules and clusterer as in memory

What a clusterer makes of a component depends on nothing outside it, so the clusters are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.components import components
from kinfolk.core.data import Column
from kinfolk.core.engine import ROW, Engine
from kinfolk.core.sending import Sent
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.clustering import log_odds
from kinfolk.linking.blocking_sql import BlockingTables
from kinfolk.linking.clustered import membership, needed_fields
from kinfolk.linking.comparisons import BestOf
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.probabilities import RANKS

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
LIMIT = 2_000_000_000  # pairs


def cluster_in(engine: Engine, linker: Any, source: Any, id: str | None = "id", limit: int = LIMIT) -> None:
    """Make a table kf_clusters: of each row of the source the number of its cluster, from 0 in order of first records,
    and how surely it belongs there."""
    check_in_pieces(linker)
    engine.read(source, "kf_records", ROW)
    fields = _fields(linker, engine, id)
    blocking = BlockingTables.of(engine, "kf_records", linker.blocking, id)
    blocking.make_keys()
    blocking.make_pairs(limit)

    pairs = "SELECT low, high FROM kf_pairs"
    engine.units(pairs, "kf_records", fields, PairScores(Sent(linker), fields), "kf_scored", scored(), whole=False)
    engine.drop("kf_pairs")
    _clusters(engine, linker, fields)


def scored() -> Any:
    """The schema of pairs with their log-odds."""
    import pyarrow

    return pyarrow.schema([("low", "int64"), ("high", "int64"), ("score", "float64")])


@dataclass(frozen=True, eq=False)
class PairScores:
    """The log-odds of pairs."""

    linker: Sent
    fields: Sequence[str]

    def __call__(self, records: Any, pairs: Any) -> Any:
        import pyarrow

        items, order = mentions_of(records, pairs, self.fields)
        score = np.empty(items.n_pairs)
        score[order] = self.linker.model.decision_function(items)
        ends = {name: pairs.column(name) for name in ("low", "high")}
        return pyarrow.table({**ends, "score": score}, scored())


def _clusters(engine: Engine, linker: Any, fields: Sequence[str]) -> None:
    threshold = linker.clusterer_.threshold
    if linker.closure:
        threshold = min(threshold, 0.5)  # likely clusters, inside which more pairs are compared, are those above it
    likely = f"score > {float(log_odds(np.array([threshold]))[0])!r}" if threshold > 0 else "true"
    components(engine, f"SELECT low, high FROM kf_scored WHERE {likely}", "kf_components")
    inside = (
        "SELECT s.low AS low, s.high AS high, a.component AS unit FROM kf_scored s "
        "JOIN kf_components a ON a.node = s.low JOIN kf_components b ON b.node = s.high "
        "WHERE a.component = b.component"
    )
    kernel = ComponentClusters(Sent(linker), fields)
    engine.units(inside, "kf_records", fields, kernel, "kf_several", several(), whole=True)
    ends = "SELECT low AS node, score FROM kf_scored UNION ALL SELECT high, score FROM kf_scored"
    best = f"SELECT node, max(score) AS score FROM ({ends}) GROUP BY node"
    placed = f"SELECT r.{ROW} AS {ROW}, coalesce(s.first, r.{ROW}) AS first, s.surely AS surely "
    placed += f"FROM kf_records r LEFT JOIN kf_several s ON s.{ROW} = r.{ROW}"
    engine.number("kf_firsts", f"SELECT DISTINCT first FROM ({placed})", "first", "cluster")
    engine.make(
        "kf_clusters",
        f"SELECT p.{ROW} AS {ROW}, f.cluster AS cluster, "
        "coalesce(p.surely, 1.0 - 1.0 / (1.0 + exp(-b.score)), 1.0) AS probability "
        f"FROM ({placed}) p JOIN kf_firsts f ON f.first = p.first LEFT JOIN ({best}) b ON b.node = p.{ROW}",
    )
    engine.drop("kf_firsts")


def several() -> Any:
    """The schema of records that are in a cluster with others: the first of it, and how surely they belong to it."""
    import pyarrow

    return pyarrow.schema([(ROW, "int64"), ("first", "int64"), ("surely", "float64")])


@dataclass(frozen=True, eq=False)
class ComponentClusters:
    """The clusters of whole components."""

    linker: Sent
    fields: Sequence[str]

    def __call__(self, records: Any, pairs: Any) -> Any:
        import pyarrow

        items, _ = mentions_of(records, pairs, self.fields)
        paired, probability, found = self.linker.model.linked(items)
        rows = records.column(ROW).to_numpy()
        first, size = np.unique(found, return_index=True)[1], np.bincount(found)
        kept = np.flatnonzero(size[found] > 1)
        surely = membership(paired, probability, found)[kept]
        return pyarrow.table({ROW: rows[kept], "first": rows[first[found[kept]]], "surely": surely}, several())


def mentions_of(records: Any, pairs: Any, fields: Sequence[str]) -> tuple[Mentions, NDArray[np.int64]]:
    """Items of Arrow tables, and the order in which their pairs are those of the table."""
    rows = records.column(ROW).to_numpy()
    columns = {name: _attribute(records.column(name)) for name in fields}
    low, high = (np.searchsorted(rows, pairs.column(name).to_numpy()).astype(np.int32) for name in ("low", "high"))
    order = np.lexsort((low, high))
    return Mentions(columns, np.zeros(len(rows), np.int32), low[order], high[order], blocked=True), order


def _attribute(column: Any) -> Any:
    """A column of Arrow as items have it: strings by number, or numbers."""
    import pyarrow

    if pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type):
        return column.cast(pyarrow.float64()).fill_null(np.nan).to_numpy()
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pyarrow.ChunkedArray) else coded
    values = coded.dictionary.to_pylist()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    if "" in values:  # an empty string is missing, as in memory
        codes = np.where(codes == values.index(""), -1, codes).astype(np.int32)
    return Column(codes, values)


def check_in_pieces(linker: Any) -> None:
    """Refuse what looks at more than a pair and its records at a time."""
    if linker.training in RANKS:
        remedy = "'local' or 'structured'"
        raise SettingError(
            "training", linker.training, f"{remedy} in an engine: an antecedent competes with all others"
        )
    wide = [str(one.columns[0].name) for one in linker.pair_set_.features if isinstance(one, BestOf)]
    if wide:
        remedy = "leave it out of `features`"
        raise SettingError("features", wide[0], "comparisons of single pairs in an engine", remedy)
    if linker.blocking is None:
        raise SettingError("blocking", None, "given in an engine, such as ['key(postcode)']")


def _fields(linker: Any, engine: Engine, id: str | None) -> list[str]:
    there = engine.columns("kf_records")
    if id is not None and id not in there:
        raise InputError(f"the records have no column {id!r}; name the column of ids with `id=...`, or `id=None`")
    wanted = needed_fields(linker)
    fields = [name for name in there if name not in (ROW, id)] if wanted is None else wanted
    lacking = next((name for name in fields if name not in there), None)
    if lacking is not None:
        raise InputError(f"the records have no column {lacking!r}; the model compares by it: add the column")
    return fields
