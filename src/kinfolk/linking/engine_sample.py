"""A sample of the records in an engine to train on, small enough for memory.

Whole clusters are drawn where they are known. Without clusters, records are drawn together with all that the blocking
rules bring them together with: of single records drawn at random hardly two would belong together. What is drawn goes
by a hash of clusters or ids, so it is the same in any engine, in whatever pieces and order the table comes.
"""

from __future__ import annotations

import logging
from typing import Any

from kinfolk.core.engine import ROW, Engine, literal, quoted
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.blocking import as_rules
from kinfolk.linking.blocking_sql import BlockingTables
from kinfolk.linking.engine_records import RecordTables
from kinfolk.linking.in_engine import LIMIT
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.records import records_from_frames

log = logging.getLogger("kinfolk")
DIGITS = 8  # of the hash that are looked at


def sample_records(
    source: Any,
    *,
    engine: Engine,
    most: int = 100_000,
    id: str = "id",
    cluster: str | None = None,
    blocking: Any = None,
    seed: int = 0,
) -> Mentions:
    """Records drawn from a table in an engine, to `fit` a Linker on.

    source     files, globs and tables as in `Linker.cluster_frame`
    most       about how many records; a smaller table is taken whole
    id         the column of ids
    cluster    the column of true clusters, of which whole ones are drawn; None: they are not known
    blocking   without clusters: the rules of the linker; records are drawn with their candidates
    seed       another one draws others
    """
    if most < 2:
        raise SettingError("most", most, "2 or more records")
    if cluster is None and blocking is None:
        remedy = "give the rules of the linker, such as `blocking=['key(postcode)']`"
        raise SettingError("cluster", None, "the column of true clusters, or rules beside it", remedy)
    rules = None if blocking is None else as_rules(blocking)
    fields = [] if cluster is None else [cluster]
    needed = fields if blocking is None or cluster is not None else None
    tables = RecordTables.read(engine, [source], id, needed)
    if rules is not None:  # wrong ones are told of small tables too, which no rule looks at
        BlockingTables.of(engine, tables.given[0], rules, id)
    n = tables.sizes[0]
    if n > most:
        chosen = (
            _clusters(tables, cluster, most / n, seed) if cluster is not None else _drawn(tables, rules, most, seed)
        )
        engine.make("kf_chosen", chosen)
        query = f"SELECT g.* FROM {tables.given[0]} g JOIN kf_chosen c ON c.{ROW} = g.{ROW} ORDER BY g.{ROW}"
    else:
        query = f"SELECT * FROM {tables.given[0]} ORDER BY {ROW}"
    found = engine.arrow(query).drop_columns([ROW])
    engine.drop("kf_chosen", "kf_near", "kf_records", *tables.given)
    log.info("%s of %s records are drawn to train on", f"{found.num_rows:,}", f"{n:,}")
    return records_from_frames(found, id=id, cluster=cluster)


def _below(text: str, share: float, seed: int) -> str:
    """An expression: whether the hash of a text is among the first of all hashes, by this share."""
    bound = f"{min(int(share * 16**DIGITS), 16**DIGITS - 1):0{DIGITS}x}"
    return f"substr(md5({text} || {literal(f' {seed}')}), 1, {DIGITS}) < {literal(bound)}"


def _clusters(tables: RecordTables, cluster: str, share: float, seed: int) -> str:
    column = quoted(cluster)
    named = tables.engine.rows(f"SELECT 1 FROM {tables.given[0]} WHERE {column} IS NOT NULL LIMIT 1")
    if not named:
        raise InputError(f"no record has a cluster in column {cluster!r}; leave out `cluster=...`")
    known = _below(f"CAST({column} AS STRING)", share, seed)
    return f"SELECT {ROW} FROM {tables.given[0]} WHERE {column} IS NOT NULL AND {known}"


def _drawn(tables: RecordTables, blocking: Any, most: int, seed: int) -> str:
    """Records, and all that rules bring them together with; fewer at first, where these are many."""
    engine, n = tables.engine, tables.sizes[0]
    rules = BlockingTables.of(engine, tables.records, blocking, tables.id)
    rules.make_keys()
    rules.make_pairs(LIMIT)
    id = f"CAST(r.{quoted(str(tables.id))} AS STRING)"
    share = most / n
    while True:
        engine.make("kf_seeds", f"SELECT r.{ROW} AS {ROW} FROM {tables.records} r WHERE {_below(id, share, seed)}")
        near = (
            f"SELECT {ROW} FROM kf_seeds UNION SELECT p.high FROM kf_pairs p JOIN kf_seeds s ON s.{ROW} = p.low "
            f"UNION SELECT p.low FROM kf_pairs p JOIN kf_seeds s ON s.{ROW} = p.high"
        )
        engine.make("kf_near", near)
        size = int(engine.rows("SELECT count(*) FROM kf_near")[0][0])
        if size <= 1.2 * most:
            break
        share *= max(most / size, 0.05)
    engine.drop("kf_pairs", "kf_keys", "kf_seeds")
    return f"SELECT {ROW} FROM kf_near"
