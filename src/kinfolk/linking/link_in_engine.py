"""New records beside a clustered base in an engine, as `Linker.link` adds them in memory (`linking.additions`).

Pairs with a new record are made and scored as in `linking.in_engine`. A base cluster is one node of the components of
likely pairs; a component goes to the model whole, with all records of the base clusters that it reaches.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.components import components
from kinfolk.core.engine import ROW, Engine, quoted
from kinfolk.core.files import is_path
from kinfolk.core.frames import opened, targets
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.clustering import log_odds
from kinfolk.linking.additions import Base, added, check_training, no_cluster, odd_cluster, suited
from kinfolk.linking.blocking_sql import BlockingTables
from kinfolk.linking.clustered import membership, needed_fields
from kinfolk.linking.clusterers import Clusterer
from kinfolk.linking.engine_records import RecordTables
from kinfolk.linking.in_engine import (
    LIMIT,
    PAIRS,
    Compared,
    PairScores,
    check_in_pieces,
    make_certain,
    scored,
    with_best_values,
)
from kinfolk.linking.records import EXACT

log = logging.getLogger("kinfolk")
HOME = "kf_home"  # of a record of the base, the first row of its cluster


def link_frames_in(
    engine: Engine,
    linker: Any,
    new: Any,
    base: Any,
    id: str | None,
    columns: tuple[str, str, str],
    into: Any,
    limit: int | None,
) -> Any:
    """What `Linker.link` answers where it has an engine."""
    check_training(linker)
    check_in_pieces(linker)
    target = targets([new], into, [base])[0]
    held = None if target is not None or is_path(new) or engine.is_own(new) else opened(new, "new")
    sources = [base, new if held is None else held.readable]
    tables = RecordTables.read(engine, sources, id, needed_fields(linker), ("base", "new"))
    _check(tables, columns)
    clusterer = _make_homes(tables, columns[0], linker.clusterer_)
    blocking = BlockingTables.of(engine, tables.records, linker.blocking, tables.id, base=tables.sizes[0])
    blocking.make_keys()
    blocking.make_pairs(LIMIT if limit is None else limit)
    compared = with_best_values(linker, tables, None)
    engine.units(PAIRS, compared.table, compared.columns, PairScores(compared), "kf_scored", scored(), whole=False)
    engine.drop("kf_pairs")
    _make_reached(linker, tables, blocking, clusterer)
    _make_added(tables, compared, clusterer)
    name, also = _names(tables, columns[0])
    query = _answer(tables, columns, (name, also), with_all=held is None)
    if held is None and target is None:
        answer: Any = engine.frame(query)
    elif target is not None:
        engine.write(query, target)
        answer = target
    else:
        found = engine.arrow(query)
        assert held is not None
        values = {one: _values(found.column(one)) for one in columns}
        answer = held.with_columns(values)
    engine.drop("kf_added", "kf_homes", "kf_fresh", "kf_records", "kf_compared", *tables.given)
    return answer


def _check(tables: RecordTables, columns: Sequence[str]) -> None:
    """The base has clusters, new records have other ids, and new columns other names."""
    engine, (base, new) = tables.engine, tables.given
    cluster = quoted(columns[0])
    if columns[0] not in engine.columns(base):
        raise InputError(f"base: there is no column {columns[0]!r} (cluster); name it with `cluster=...`")
    floats = _is_float(engine, base, cluster)
    absent = f"{cluster} IS NULL" + (f" OR isnan(CAST({cluster} AS DOUBLE))" if floats else "")
    missing = engine.rows(f"SELECT {ROW} FROM {base} WHERE {absent} ORDER BY {ROW} LIMIT 1")
    if missing:
        raise InputError(f"base, row {missing[0][0]}: {no_cluster(columns[0])}")
    if floats:
        _make_whole(engine, base, columns[0])
    if len({*columns}) < len(columns):
        raise SettingError.saying(f"new columns must have different names; got {', '.join(columns)}")
    for name in columns:
        if name in engine.columns(new):
            raise InputError(f"new: there is a column {name!r} already, and nothing is overwritten; rename it")
    if tables.id is None:
        return
    key = quoted(tables.id)
    a, b = (f"CAST({side}.{key} AS STRING)" for side in "ab")
    twice = engine.rows(f"SELECT {b} FROM {base} a JOIN {new} b ON {a} = {b} ORDER BY b.{ROW} LIMIT 1")
    if twice:
        remedy = "leave it out, or give it another id"
        raise InputError(f"new: the record {twice[0][0]!r} is in the base already; {remedy}")


def _is_float(engine: Engine, table: str, column: str) -> bool:
    import pyarrow

    kind = engine.arrow(f"SELECT {column} FROM {table} LIMIT 0").schema.field(0).type
    return bool(pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind))


def _make_whole(engine: Engine, table: str, cluster: str) -> None:
    """Clusters that are floats as the whole numbers they are."""
    value = f"CAST({quoted(cluster)} AS DOUBLE)"
    odd = engine.rows(
        f"SELECT {ROW}, {value} FROM {table} WHERE floor({value}) <> {value} OR abs({value}) > {EXACT} "
        f"ORDER BY {ROW} LIMIT 1"
    )
    if odd:
        raise InputError(f"base, row {odd[0][0]}: {odd_cluster(cluster, float(odd[0][1]))}")
    kept = [quoted(one) for one in engine.columns(table) if one != cluster]
    whole = f"CAST({quoted(cluster)} AS BIGINT) AS {quoted(cluster)}"
    engine.make(table, f"SELECT {', '.join([*kept, whole])} FROM {table}")


def _make_homes(tables: RecordTables, cluster: str, clusterer: Clusterer) -> Clusterer:
    """The table kf_homes of base records and the first rows of their clusters; the clusterer that suits the base."""
    engine, base, name = tables.engine, tables.given[0], quoted(cluster)
    firsts = f"SELECT {name} AS cluster, min({ROW}) AS {HOME}, count(*) AS n FROM {base} GROUP BY {name}"
    largest = engine.rows(f"SELECT coalesce(max(n), 0) FROM ({firsts})")[0][0]
    engine.make(
        "kf_homes",
        f"SELECT b.{ROW} AS {ROW}, f.{HOME} AS {HOME} FROM {base} b JOIN ({firsts}) f ON f.cluster = b.{name}",
    )
    return suited(clusterer, int(largest))


def _make_reached(linker: Any, tables: RecordTables, blocking: BlockingTables, clusterer: Clusterer) -> None:
    """The table kf_inside of pairs within components of new records and base clusters; with the base's own records of
    these, each with the next, so that all are there."""
    engine, threshold = tables.engine, clusterer.threshold
    if linker.closure:
        threshold = min(threshold, 0.5)
    least = float(log_odds(np.array([threshold]))[0])
    bound = make_certain(linker, blocking)
    likely = "SELECT low, high FROM kf_scored" + (f" WHERE score > {least!r}" if threshold > 0 else "")
    linked = likely if bound is None else f"{likely} UNION ALL {bound}"
    components(engine, _contracted(linked), "kf_components")
    after = f"SELECT {ROW} AS low, lead({ROW}) OVER (PARTITION BY {HOME} ORDER BY {ROW}) AS high FROM kf_homes"
    chains = f"SELECT low, high FROM ({after}) WHERE high IS NOT NULL"
    every = " UNION ".join(["SELECT low, high FROM kf_scored", chains, *([] if bound is None else [bound])])
    engine.make(
        "kf_inside",
        f"SELECT p.low AS low, p.high AS high, a.component AS unit FROM ({_contracted(every, ends=True)}) p "
        "JOIN kf_components a ON a.node = p.one JOIN kf_components b ON b.node = p.other "
        "WHERE a.component = b.component",
    )
    engine.drop("kf_components", "kf_certain")


def _contracted(pairs: str, ends: bool = False) -> str:
    """Pairs, whose records of the base stand for their clusters; with `ends`, beside themselves."""
    low, high = f"coalesce(a.{HOME}, p.low)", f"coalesce(b.{HOME}, p.high)"
    chosen = f"p.low AS low, p.high AS high, {low} AS one, {high} AS other" if ends else f"{low} AS low, {high} AS high"
    homes = f"LEFT JOIN kf_homes a ON a.{ROW} = p.low LEFT JOIN kf_homes b ON b.{ROW} = p.high"
    return f"SELECT {chosen} FROM ({pairs}) p {homes}"


def _make_added(tables: RecordTables, compared: Compared, clusterer: Clusterer) -> None:
    """The table kf_added of new records in components."""
    engine, base = tables.engine, tables.sizes[0]
    columns = [f"r.{quoted(name)} AS {quoted(name)}" for name in (ROW, *compared.columns)]
    engine.make(
        "kf_housed",
        f"SELECT {', '.join(columns)}, h.{HOME} AS {HOME} FROM {compared.table} r "
        f"LEFT JOIN kf_homes h ON h.{ROW} = r.{ROW}",
    )
    kernel = AddedRecords(replace(compared, table="kf_housed"), clusterer, base)
    inside = "SELECT low, high, unit FROM kf_inside"
    engine.units(inside, "kf_housed", [*compared.columns, HOME], kernel, "kf_placed", placed(), whole=True)
    ends = "SELECT low AS node, score FROM kf_scored UNION ALL SELECT high, score FROM kf_scored"
    best = f"SELECT node, max(score) AS score FROM ({ends}) GROUP BY node"
    alone = "least(coalesce(p.surely, 1.0), coalesce(1.0 - 1.0 / (1.0 + exp(-b.score)), 1.0))"
    engine.make(
        "kf_added",
        f"SELECT r.{ROW} AS {ROW}, p.home AS home, coalesce(p.first, r.{ROW}) AS first, p.also AS also, "
        f"CASE WHEN coalesce(p.alone, true) THEN {alone} ELSE p.surely END AS probability "
        f"FROM {tables.records} r LEFT JOIN kf_placed p ON p.{ROW} = r.{ROW} LEFT JOIN ({best}) b ON b.node = r.{ROW} "
        f"WHERE r.{ROW} >= {base}",
    )
    engine.number("kf_fresh", "SELECT DISTINCT first FROM kf_added WHERE home IS NULL", "first", "number")
    joining, total = engine.rows("SELECT count(home), count(*) FROM kf_added")[0]
    fresh = engine.rows("SELECT count(*) FROM kf_fresh")[0][0]
    log.info("%d of %d new records join the base; the others make %d new clusters", joining, total, fresh)
    engine.drop("kf_housed", "kf_placed", "kf_inside", "kf_scored")


def placed() -> Any:
    """The schema of new records in components: the base cluster each joins, by its first row, or the first record of a
    new one; the next base cluster it would have joined; how surely it belongs there; whether it is alone."""
    import pyarrow

    rows = [(name, "int64") for name in (ROW, "home", "first", "also")]
    return pyarrow.schema([*rows, ("surely", "float64"), ("alone", "bool")])


@dataclass(frozen=True, eq=False)
class AddedRecords:
    """New records of whole components, and the clusters they join; the first `base` rows are of the base."""

    compared: Compared
    clusterer: Clusterer
    base: int

    def __call__(self, records: Any, pairs: Any) -> Any:
        import pyarrow

        items, _ = self.compared.items(records, pairs)
        rows = records.column(ROW).to_numpy()
        n = int(np.searchsorted(rows, self.base))
        homes, own = np.unique(records.column(HOME).slice(0, n).to_numpy().astype(np.int64), return_inverse=True)
        new = items.right >= n
        paired = replace(items, left=items.left[new], right=items.right[new], blocked=True)
        base = Base(own.astype(np.int32))
        found = added(self.compared.linker.model, paired, base, self.clusterer)
        clusters = found.clusters[n:]
        joins = clusters < base.n_clusters
        firsts = np.unique(found.clusters, return_index=True)[1]
        surely = membership(found.items, found.probability, found.clusters)[n:]
        alone = np.bincount(found.clusters)[clusters] == 1
        return pyarrow.table(
            {
                ROW: rows[n:],
                "home": _known(homes, clusters, joins),
                "first": rows[firsts[clusters]],
                "also": _known(homes, found.also[n:], found.also[n:] >= 0),
                "surely": surely,
                "alone": alone,
            },
            placed(),
        )


def _known(values: NDArray[np.int64], number: NDArray[Any], known: NDArray[np.bool_]) -> Any:
    import pyarrow

    found = np.zeros(len(number), np.int64)
    found[known] = values[number[known]]
    return pyarrow.array(found, mask=~known)


# -- what clusters are called ----------------------------------------------------------------------------


def _names(tables: RecordTables, cluster: str) -> tuple[str, str]:
    """Expressions for the name of a record's cluster, and of the next one: as in the base; new ones by the next numbers
    where all are whole numbers, else by the id of their first record."""
    engine, base, name = tables.engine, tables.given[0], quoted(cluster)
    kind = engine.arrow(f"SELECT {name} FROM {base} LIMIT 0").schema.field(0).type
    import pyarrow

    whole, text = pyarrow.types.is_integer(kind), f"CAST({name} AS STRING)"
    also = f"CAST(o.{name} AS STRING)"
    digits = engine.matches(text, "-?[0-9]+")
    if not engine.rows(f"SELECT 1 FROM {base} WHERE NOT ({digits}) LIMIT 1"):
        last = engine.rows(f"SELECT coalesce(max(CAST({text} AS BIGINT)), -1) FROM {base}")[0][0]
        after = f"CAST({int(last) + 1} + k.number AS BIGINT)"
        if whole or not tables.sizes[0]:
            return f"coalesce(CAST(h.{name} AS BIGINT), {after})", also
        return f"coalesce(h.{name}, CAST({after} AS STRING))", also
    if tables.id is None:
        return f"coalesce({_of('h', name)}, CAST(f.{ROW} - {tables.sizes[0]} AS STRING))", also
    key = f"CAST(f.{quoted(tables.id)} AS STRING)"
    clash = engine.rows(
        f"SELECT {key} FROM kf_fresh k JOIN {tables.given[1]} f ON f.{ROW} + {tables.sizes[0]} = k.first "
        f"JOIN {base} b ON CAST(b.{name} AS STRING) = {key} LIMIT 1"
    )
    if clash:
        remedy = "give the clusters of the base other names, such as numbers"
        raise InputError(
            f"a new cluster is named by its first record, {clash[0][0]!r}, as one of the base is; {remedy}"
        )
    return f"coalesce({_of('h', name)}, {key})", also


def _of(table: str, name: str) -> str:
    return f"CAST({table}.{name} AS STRING)"


def _answer(tables: RecordTables, columns: Sequence[str], names: tuple[str, str], with_all: bool) -> str:
    """A query for new records, in their order, with the new columns; `with_all`: and their own before these."""
    engine, (base, new), n = tables.engine, tables.given, tables.sizes[0]
    own = [f"g.{quoted(one)} AS {quoted(one)}" for one in engine.columns(new) if one != ROW] if with_all else []
    made = [f"{names[0]} AS {quoted(columns[0])}", f"a.probability AS {quoted(columns[1])}"]
    made.append(f"{names[1]} AS {quoted(columns[2])}")
    source = (
        f"{new} g JOIN kf_added a ON a.{ROW} = g.{ROW} + {n} "
        f"LEFT JOIN {base} h ON h.{ROW} = a.home LEFT JOIN {base} o ON o.{ROW} = a.also "
        f"LEFT JOIN kf_fresh k ON k.first = a.first AND a.home IS NULL "
        f"LEFT JOIN {new} f ON f.{ROW} + {n} = a.first AND a.home IS NULL"
    )
    return engine.in_order([*own, *made], source, f"g.{ROW}", tables.sizes[1])


def _values(column: Any) -> Any:
    import pyarrow

    numbers = pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)
    return column.to_numpy() if numbers else column.to_pylist()
