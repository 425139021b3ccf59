"""Records of tables in an engine, clustered as `Linker.cluster_frame` clusters them in memory.

    records             columns as texts, numbers and lists (`linking.engine_records`)
    keys and pairs      joins (`linking.blocking_sql`)
    log-odds of pairs   by the model, a run of pairs with their records at a time
    components          of the pairs above the clusterer's threshold, and of those that rules put together: no cluster
                        reaches beyond one (`core.components`)
    clusters            of whole components, by the model: closure, rules and clusterer as in memory

What a clusterer makes of a component depends on nothing outside it, so the clusters are the same. Only a component that
is too large for one process (more than LARGEST pairs) is cut first, at a higher threshold, and a warning says so.
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
from kinfolk.core.frames import OpenedFrame, opened, targets
from kinfolk.core.sending import Sent
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.clustering import log_odds
from kinfolk.linking.blocking_sql import BlockingTables
from kinfolk.linking.certain import Always, as_certain
from kinfolk.linking.clustered import Answer, membership, needed_fields
from kinfolk.linking.comparisons import best_values, within_best_of
from kinfolk.linking.engine_records import BEST, RecordTables, mentions_of
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.probabilities import RANKS
from kinfolk.linking.training import tell_closure

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
LIMIT = 2_000_000_000  # pairs
LARGEST = 20_000_000  # pairs of a component; a gigabyte or two while it is clustered
STEP = 1.0  # of log-odds, by which the threshold of larger ones is raised until they fall apart


# -- Clusters -------------------------------------------------------------------------------------------


def cluster_in(
    engine: Engine, linker: Any, source: Any, other: Any = None, id: str | None = "id", limit: int = LIMIT
) -> RecordTables:
    """Make a table kf_clusters: of each record the number of its cluster, from 0 in order of first records, the row of
    its first record, and how surely the record belongs there."""
    sources = [source] if other is None else [source, other]
    return cluster_tables(linker, read_for(engine, linker, sources, id), limit)


def read_for(engine: Engine, linker: Any, sources: Sequence[Any], id: str | None) -> RecordTables:
    """The records that a linker is to cluster."""
    check_in_pieces(linker)
    return RecordTables.read(engine, sources, id, needed_fields(linker))


def cluster_tables(linker: Any, tables: RecordTables, limit: int) -> RecordTables:
    engine = tables.engine
    blocking = BlockingTables.of(engine, tables.records, linker.blocking, tables.id, tables.first)
    blocking.make_keys()
    blocking.make_pairs(limit)
    compared = with_best_values(linker, tables, tables.first)
    engine.units(PAIRS, compared.table, compared.columns, PairScores(compared), "kf_scored", scored(), whole=False)
    engine.drop("kf_pairs")
    _make_inside(linker, tables, blocking)
    _make_clusters(tables, compared)
    engine.drop("kf_compared")
    return tables


PAIRS = "SELECT low, high FROM kf_pairs"


@dataclass(frozen=True, eq=False)
class Compared:
    """The model, and the table and columns of the records that it compares.

    first   how many rows are of the first of two tables; None: one table
    bests   the comparisons within `BestOf`, whose best values the records have
    """

    linker: Sent
    table: str
    fields: tuple[str, ...]
    first: int | None
    bests: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return [*self.fields, *(f"{BEST}{k}" for k in range(len(self.bests)))]

    def items(self, records: Any, pairs: Any) -> tuple[Mentions, NDArray[np.int64]]:
        return mentions_of(records, pairs, self.fields, self.first, self.bests)


def with_best_values(linker: Any, tables: RecordTables, first: int | None) -> Compared:
    """Where comparisons look at all candidates of a record, their best values are worked out first, and joined in."""
    engine, bests = tables.engine, tuple(within_best_of(linker.pair_set_.features))
    plain = Compared(Sent(linker), tables.records, tables.fields, first)
    if not bests:
        return plain
    engine.units(PAIRS, plain.table, plain.columns, BestValues(plain), "kf_values", values(len(bests)), whole=False)
    best = ", ".join(f"max({BEST}{k}) AS {BEST}{k}" for k in range(len(bests)))
    engine.make("kf_bests", f"SELECT {ROW}, {best} FROM kf_values GROUP BY {ROW}")
    columns = [f"r.{quoted(name)} AS {quoted(name)}" for name in (ROW, *tables.fields)]
    columns += [f"b.{BEST}{k} AS {BEST}{k}" for k in range(len(bests))]
    engine.make(
        "kf_compared",
        f"SELECT {', '.join(columns)} FROM {tables.records} r LEFT JOIN kf_bests b ON b.{ROW} = r.{ROW}",
    )
    engine.drop("kf_values", "kf_bests")
    return replace(plain, table="kf_compared", bests=bests)


def values(n: int) -> Any:
    """The schema of the best values of n comparisons."""
    import pyarrow

    return pyarrow.schema([(ROW, "int64"), *((f"{BEST}{k}", "float64") for k in range(n))])


@dataclass(frozen=True, eq=False)
class BestValues:
    """The best values of comparisons among the pairs of a run."""

    compared: Compared

    def __call__(self, records: Any, pairs: Any) -> Any:
        import pyarrow

        items, _ = self.compared.items(records, pairs)
        inner = within_best_of(self.compared.linker.model.pair_set_.features)
        found = {f"{BEST}{k}": best_values(one.of(items), items) for k, one in enumerate(inner.values())}
        return pyarrow.table({ROW: records.column(ROW), **found}, values(len(found)))


def scored() -> Any:
    """The schema of pairs with their log-odds."""
    import pyarrow

    return pyarrow.schema([("low", "int64"), ("high", "int64"), ("score", "float64")])


@dataclass(frozen=True, eq=False)
class PairScores:
    """The log-odds of pairs."""

    compared: Compared

    def __call__(self, records: Any, pairs: Any) -> Any:
        import pyarrow

        items, order = self.compared.items(records, pairs)
        score = np.empty(items.n_pairs)
        score[order] = self.compared.linker.model.decision_function(items)
        ends = {name: pairs.column(name) for name in ("low", "high")}
        return pyarrow.table({**ends, "score": score}, scored())


def _make_inside(linker: Any, tables: RecordTables, blocking: BlockingTables) -> None:
    """The table kf_inside of pairs within components, and the component of each, `unit`."""
    engine, threshold = tables.engine, linker.clusterer_.threshold
    if linker.closure:
        threshold = min(threshold, 0.5)  # likely clusters, inside which more pairs are compared, are those above it
    least = float(log_odds(np.array([threshold]))[0])
    likely = f"SELECT low, high FROM kf_scored WHERE {f'score > {least!r}' if threshold > 0 else 'true'}"
    bound = make_certain(linker, blocking)
    components(engine, likely if bound is None else f"{likely} UNION ALL {bound}", "kf_components")
    engine.make("kf_inside", _inside("kf_scored" if bound is None else _with(bound)))
    while large := engine.rows(_large()):
        least = max(least + STEP, 0.0)
        _cut(engine, large, least, bound)
        if least > MOST_CERTAIN:
            break
    engine.drop("kf_components", "kf_certain")


def make_certain(linker: Any, blocking: BlockingTables) -> str | None:
    """A query for links that rules make for certain: each record and the next of the same value; None: no rule."""
    certain = [rule for rule in as_certain(linker.rules) if isinstance(rule, Always)]
    for k, rule in enumerate(certain):
        made = blocking.engine.add if k else blocking.engine.make
        made("kf_certain", blocking.same(rule.fields, rule.normalise))
    return "SELECT low, high FROM kf_certain" if certain else None


MOST_CERTAIN = 40.0  # log-odds above which no pair is


def _with(bound: str) -> str:
    """The pairs scored and those that rules put together, each once."""
    return f"(SELECT low, high FROM kf_scored UNION {bound})"


def _inside(pairs: str) -> str:
    return (
        f"SELECT s.low AS low, s.high AS high, a.component AS unit FROM {pairs} s "
        "JOIN kf_components a ON a.node = s.low JOIN kf_components b ON b.node = s.high "
        "WHERE a.component = b.component"
    )


def _large() -> str:
    return f"SELECT unit, count(*) AS n FROM kf_inside GROUP BY unit HAVING count(*) > {LARGEST} ORDER BY n DESC"


def _cut(engine: Engine, large: Sequence[tuple[int, int]], least: float, bound: str | None) -> None:
    """Take the largest components apart, by the pairs above higher log-odds."""
    what, (_, most) = f"{len(large)} components of records have", large[0]
    if len(large) == 1:
        what = "a component of records has"
    at = 1.0 / (1.0 + np.exp(-least))
    message = "%s over %s pairs, up to %s: cut by the pairs above a probability of %.3f; narrow the blocking rules"
    log.warning(message, what, f"{LARGEST:,}", f"{most:,}", at)
    units = ", ".join(str(unit) for unit, _ in large)
    engine.make("kf_larger", f"SELECT low, high, unit FROM kf_inside WHERE unit IN ({units})")
    engine.make("kf_inside", f"SELECT low, high, unit FROM kf_inside WHERE unit NOT IN ({units})")
    still = (
        f"SELECT l.low AS low, l.high AS high FROM kf_larger l JOIN kf_scored s ON s.low = l.low AND s.high = l.high "
        f"WHERE s.score > {least!r}"
    )
    components(engine, still if bound is None else f"{still} UNION ALL {_of_larger(bound)}", "kf_components")
    engine.add("kf_inside", _inside("kf_larger"))
    engine.drop("kf_larger")


def _of_larger(bound: str) -> str:
    return f"SELECT l.low AS low, l.high AS high FROM kf_larger l JOIN ({bound}) c ON c.low = l.low AND c.high = l.high"


def _make_clusters(tables: RecordTables, compared: Compared) -> None:
    engine, kernel = tables.engine, ComponentClusters(compared)
    inside = "SELECT low, high, unit FROM kf_inside"
    engine.units(inside, compared.table, compared.columns, kernel, "kf_placed", placed(), whole=True)
    ends = "SELECT low AS node, score FROM kf_scored UNION ALL SELECT high, score FROM kf_scored"
    best = f"SELECT node, max(score) AS score FROM ({ends}) GROUP BY node"
    every = (
        f"SELECT r.{ROW} AS {ROW}, coalesce(s.first, r.{ROW}) AS first, s.surely AS surely, "
        f"coalesce(s.alone, true) AS alone FROM {tables.records} r LEFT JOIN kf_placed s ON s.{ROW} = r.{ROW}"
    )
    engine.number("kf_firsts", f"SELECT DISTINCT first FROM ({every})", "first", "cluster")
    n_clusters = int(engine.rows("SELECT count(*) FROM kf_firsts")[0][0])
    log.info("%s records are %s clusters", f"{sum(tables.sizes):,}", f"{n_clusters:,}")
    alone = "least(coalesce(p.surely, 1.0), coalesce(1.0 - 1.0 / (1.0 + exp(-b.score)), 1.0))"
    engine.make(
        "kf_clusters",
        f"SELECT p.{ROW} AS {ROW}, f.cluster AS cluster, p.first AS first, "
        f"CASE WHEN p.alone THEN {alone} ELSE p.surely END AS probability "
        f"FROM ({every}) p JOIN kf_firsts f ON f.first = p.first LEFT JOIN ({best}) b ON b.node = p.{ROW}",
    )
    _tell_closure(engine, compared.linker.model.rules is not None)
    engine.drop("kf_firsts", "kf_placed", "kf_inside", "kf_scored")


def _tell_closure(engine: Engine, ruled: bool) -> None:
    """How many pairs closure added to all that there were: the candidates, and those that rules put together."""
    of_runs, compared = engine.rows("SELECT coalesce(sum(before), 0), coalesce(sum(compared), 0) FROM kf_placed")[0]
    candidates = engine.rows("SELECT count(*) FROM kf_scored")[0][0]
    if ruled:
        inside = "SELECT count(*) FROM kf_inside i JOIN kf_scored s ON s.low = i.low AND s.high = i.high"
        candidates += of_runs - engine.rows(inside)[0][0]
    tell_closure(int(candidates), int(candidates + compared - of_runs))


def placed() -> Any:
    """The schema of records in components: the first of its cluster, how surely it belongs to it, whether it is alone
    there (then as far as the pairs within the component say); the first record of a run says how many pairs there were
    before closure, and with it."""
    import pyarrow

    counts = [("before", "int64"), ("compared", "int64")]
    return pyarrow.schema([(ROW, "int64"), ("first", "int64"), ("surely", "float64"), ("alone", "bool"), *counts])


@dataclass(frozen=True, eq=False)
class ComponentClusters:
    """The clusters of whole components."""

    compared: Compared

    def __call__(self, records: Any, pairs: Any) -> Any:
        import pyarrow

        items, _ = self.compared.items(records, pairs)
        paired, probability, found, n_before = self.compared.linker.model._linked_part(items)
        rows = records.column(ROW).to_numpy()
        first = np.unique(found, return_index=True)[1]
        surely, alone = membership(paired, probability, found), np.bincount(found)[found] == 1
        pairs = {"before": np.zeros(len(rows), np.int64), "compared": np.zeros(len(rows), np.int64)}
        if len(rows):
            pairs["before"][0], pairs["compared"][0] = n_before, paired.n_pairs
        made = {ROW: rows, "first": rows[first[found]], "surely": surely, "alone": alone}
        return pyarrow.table({**made, **pairs}, placed())


def check_in_pieces(linker: Any) -> None:
    """Refuse what looks at more than a pair and its records at a time."""
    if linker.training in RANKS:
        remedy = "'local' or 'structured'"
        raise SettingError(
            "training", linker.training, f"{remedy} in an engine: an antecedent competes with all others"
        )
    if linker.blocking is None:
        raise SettingError("blocking", None, "given in an engine, such as ['key(postcode)']")


# -- Tables in and out ------------------------------------------------------------------------------------


def cluster_frame_in(
    engine: Engine, linker: Any, frame: Any, other: Any, id: str | None, answer: Answer, limit: int | None
) -> Any:
    """What `Linker.cluster_frame` answers where it has an engine."""
    limit = LIMIT if limit is None else limit
    frames = [frame] if other is None else [frame, other]
    files = targets(frames, answer.into)
    words = ("records",) if other is None else ("first", "second")
    held = [
        None if target is not None or is_path(one) or engine.is_own(one) else opened(one, word)
        for one, word, target in zip(frames, words, files, strict=True)
    ]
    sources = [one if own is None else own.readable for one, own in zip(frames, held, strict=True)]
    tables = read_for(engine, linker, sources, id)
    for word, table in zip(words, tables.given, strict=True):
        _check_free(engine, table, word, answer)
    cluster_tables(linker, tables, limit)
    names = _named(tables, answer.named_by)
    answers = [_given_back(tables, k, names, answer, files[k], held[k]) for k in range(len(frames))]
    engine.drop("kf_clusters", "kf_records", *tables.given)
    return answers[0] if other is None else tuple(answers)


def _check_free(engine: Engine, table: str, word: str, answer: Answer) -> None:
    taken = engine.columns(table)
    for setting, name in (("cluster", answer.cluster), ("probability", answer.probability)):
        if name in taken:
            remedy = f"rename it, or name the new one with `{setting}=...`"
            raise InputError(f"{word}: there is a column {name!r} already, and nothing is overwritten; {remedy}")


def _named(tables: RecordTables, named_by: str) -> tuple[str, str]:
    """An expression for the name of a cluster, and what to join for it."""
    if named_by == "number":
        return "c.cluster", ""
    if tables.id is None:
        return "CAST(c.first AS STRING)", ""
    named = tables.given[0] if tables.first is None else tables.records
    return f"n.{quoted(tables.id)}", f"JOIN {named} n ON n.{ROW} = c.first"


def _given_back(
    tables: RecordTables, k: int, names: tuple[str, str], answer: Answer, target: Any, held: OpenedFrame | None
) -> Any:
    """A table with its clusters: written as Parquet, in the engine, or as what came."""
    engine, table, offset = tables.engine, tables.given[k], sum(tables.sizes[:k])
    name, join = names
    new = [f"{name} AS {quoted(answer.cluster)}", f"c.probability AS {quoted(answer.probability)}"]
    both = f"{table} g JOIN kf_clusters c ON c.{ROW} = g.{ROW} + {offset} {join}", f"g.{ROW}", tables.sizes[k]
    if held is not None:
        found = engine.arrow(engine.in_order(new, *both))
        values: Any = found.column(answer.cluster)
        values = values.to_numpy() if answer.named_by == "number" or _whole(values) else values.to_pylist()
        return held.with_columns(
            {answer.cluster: values, answer.probability: found.column(answer.probability).to_numpy()}
        )
    columns = [f"g.{quoted(one)} AS {quoted(one)}" for one in engine.columns(table) if one != ROW]
    query = engine.in_order([*columns, *new], *both)
    if target is None:
        return engine.frame(query)
    engine.write(query, target)
    return target


def _whole(values: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_integer(values.type))
