"""Blocking in an engine: the same rules and the same pairs as in memory (`linking.blocking`).

Each record has a key a rule: for `key(...)` a number that stands for the text, a rank for `sorted(...)`, a list of
words for `rare(...)`. Of `key(...)` the engine hands out whole blocks, whose pairs a kernel makes
(`linking.block_pairs`); the other rules are joins of SQL. Each leaves out the pairs of those before it, the joins being
last, so every pair is made once.

Numbers of keys are hashes of 64 bits. Where two keys have the same, which of a million keys happens once in 30 million
tables, their records are compared for nothing; no pair is lost.

What a key is made of runs in the engine where SQL does exactly what Python does: strings of ASCII, slices from either
end, `lower`, `digits`, `first`, `last`. For other values (accents, `soundex`, numbers) the parts of keys are worked out
by `linking.keys`, once a distinct value, and joined in.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinfolk.core.engine import ROW, Engine, literal, quoted
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.block_pairs import NONE, PairsOfBlocks, pairs_schema
from kinfolk.linking.blocking import Blocking, Key, RareTokens, SortedNeighbourhood, as_rules
from kinfolk.linking.keys import Function, Part, Slice, parse_key
from kinfolk.linking.pairs import normalised

log = logging.getLogger("kinfolk")
BETWEEN = "\x01"  # parts of a key; below every letter, so that keys are in the order of their first parts
NAMED = 3


@dataclass(frozen=True)
class Blocks:
    """What a rule does, before it is done: how many pairs it would make, and its largest blocks."""

    rule: str
    n_pairs: int
    largest: tuple[tuple[str, int], ...]  # key, records

    def __str__(self) -> str:
        blocks = "; ".join(f"{key!r} {size:,}" for key, size in self.largest)
        return f"{self.rule}: {self.n_pairs:,} pairs" + (f"; largest blocks: {blocks}" if blocks else "")


@dataclass(frozen=True)
class BlockingTables:
    """Records of a table in an engine, brought together by rules.

    records   a table with a column `kf_row` that numbers its rows
    names     the column of ids, by which `sorted(...)` orders equal keys; None: by the rows
    first     how many rows, from the start, are of the first of two tables, whose pairs cross them; None: one table
    base      how many rows, from the start, are of a base that stays as it is: pairs have another record; None: none is
    """

    engine: Engine
    records: str
    rules: Sequence[Blocking]
    names: str | None = None
    first: int | None = None
    base: int | None = None

    @classmethod
    def of(
        cls,
        engine: Engine,
        records: str,
        rules: Any,
        names: str | None = None,
        first: int | None = None,
        base: int | None = None,
    ) -> BlockingTables:
        made = cls(engine, records, tuple(as_rules(rules)), names, first, base)
        there = engine.columns(records)
        for rule in made.rules:
            lacking = next((one for one in rule.columns if one not in there), None)
            if lacking is not None:
                known = ", ".join(repr(one) for one in there if one != ROW)
                raise InputError(f"the blocking rule {rule} reads the column {lacking!r}; the records have {known}")
            if not isinstance(rule, Key | SortedNeighbourhood | RareTokens):
                raise SettingError("blocking", str(rule), "key(...), sorted(...) or rare(...) in an engine")
        return made

    # -- keys -----------------------------------------------------------------------------------------

    def make_keys(self) -> None:
        """The table kf_keys: of each record its row and a key a rule, k0, k1, ..."""
        engine = self.engine
        parts = [(k, place, part, rule.normalise) for k, rule in enumerate(self.rules)
                 for place, part in enumerate(_parts(rule))]  # fmt: skip
        joins, made, kinds = [], {}, engine.columns(self.records)
        for k, place, part, normalise in parts:
            text = engine.is_text(kinds[part.field])
            made[k, place], join = self._part(part, normalise, text, f"kf_part_{k}_{place}")
            joins += join
        texts, keys = [f"r.{ROW} AS {ROW}"], [ROW]
        for k, rule in enumerate(self.rules):
            own = [made[k, place] for place in range(len(_parts(rule)))]
            if isinstance(rule, RareTokens):
                whole = "concat_ws(' ', " + ", ".join(own) + ")"
                texts.append(f"nullif({whole}, '') AS k{k}")
            else:
                texts.append(f" || {literal(BETWEEN)} || ".join(own) + f" AS k{k}")  # NULL where a part is
            number = (
                f"CASE WHEN k{k} IS NOT NULL THEN coalesce(nullif({engine.hashed(f'k{k}')}, {NONE}), 1) END AS k{k}"
            )
            keys.append(number if isinstance(rule, Key) else f"k{k}")
        done = all(isinstance(rule, Key) for rule in self.rules)
        plain = f"SELECT {', '.join(texts)} FROM {self.records} r {' '.join(joins)}"
        engine.make_passing("kf_keys" if done else "kf_plain", f"SELECT {', '.join(keys)} FROM ({plain})")
        if not done:
            self._ranked()

    def _part(self, part: Part, normalise: bool, text: bool, table: str) -> tuple[str, list[str]]:
        """An expression for a part of a key, NULL where it is empty, and the joins it needs."""
        engine, column = self.engine, f"r.{quoted(part.field)}"
        expression = _in_sql(engine, column, part, normalise) if text else None
        wanted = f"{quoted(part.field)} IS NOT NULL"
        if expression is not None:
            wanted += f" AND NOT ({engine.is_ascii(quoted(part.field))})"
        self._worked_out(part, normalise, text, wanted, table)
        if expression is None:
            return f"{table}.made", [f"LEFT JOIN {table} ON {table}.given = {column}"]
        either = f"CASE WHEN {engine.is_ascii(column)} THEN nullif({expression}, '') ELSE {table}.made END"
        if not engine.rows(f"SELECT 1 FROM {table} LIMIT 1"):
            return f"nullif({expression}, '')", []
        return either, [f"LEFT JOIN {table} ON {table}.given = {column}"]

    def _worked_out(self, part: Part, normalise: bool, text: bool, wanted: str, table: str) -> None:
        """A table of distinct values and what Python makes of them."""
        import pyarrow

        kind = pyarrow.string() if text else pyarrow.float64()
        schema = pyarrow.schema([("given", kind), ("made", pyarrow.string())])
        of = quoted(part.field) if text else f"CAST({quoted(part.field)} AS DOUBLE)"
        query = f"SELECT DISTINCT {of} AS given FROM {self.records} WHERE {wanted}"
        self.engine.map(query, PartsOfKeys(part, normalise), table, schema)

    def _ranked(self) -> None:
        """Ranks for sorted neighbourhoods, and lists of rare words."""
        engine, columns, joins = self.engine, [], []
        for k, rule in enumerate(self.rules):
            if isinstance(rule, SortedNeighbourhood):
                name = f"CAST(r.{quoted(self.names)} AS STRING)" if self.names is not None else "0"
                keyed = f"SELECT p.{ROW} AS {ROW}, p.k{k} AS key, {name} AS name "
                keyed += f"FROM kf_plain p JOIN {self.records} r ON r.{ROW} = p.{ROW} WHERE p.k{k} IS NOT NULL"
                engine.number(f"kf_rank_{k}", keyed, f"key, name, {ROW}", "place")
                columns.append(f"kf_rank_{k}.place AS k{k}")
                joins.append(f"LEFT JOIN kf_rank_{k} ON kf_rank_{k}.{ROW} = p.{ROW}")
            elif isinstance(rule, RareTokens):
                words = f"SELECT DISTINCT {ROW}, {engine.each(engine.words(f'k{k}'))} AS word FROM kf_plain"
                engine.make(f"kf_words_{k}", f"{words} WHERE k{k} IS NOT NULL")
                engine.make(
                    f"kf_rare_{k}",
                    f"SELECT w.{ROW} AS {ROW}, w.word AS word "
                    f"FROM kf_words_{k} w JOIN (SELECT word FROM kf_words_{k} GROUP BY word "
                    f"HAVING count(*) BETWEEN 2 AND {rule.max_frequency}) f ON f.word = w.word",
                )
                listed = f"SELECT {ROW}, array_agg(word) AS words FROM kf_rare_{k} GROUP BY {ROW}"
                columns.append(f"kf_list_{k}.words AS k{k}")
                joins.append(f"LEFT JOIN ({listed}) kf_list_{k} ON kf_list_{k}.{ROW} = p.{ROW}")
            else:
                columns.append(f"p.k{k}")
        chosen = ", ".join([f"p.{ROW} AS {ROW}", *columns])
        engine.make_passing("kf_keys", f"SELECT {chosen} FROM kf_plain p {' '.join(joins)}")
        engine.drop("kf_plain")

    # -- pairs ----------------------------------------------------------------------------------------

    def blocks(self) -> list[Blocks]:
        """What each rule would do."""
        return [self._blocks(k, rule) for k, rule in enumerate(self.rules)]

    def _blocks(self, k: int, rule: Blocking) -> Blocks:
        if isinstance(rule, SortedNeighbourhood):
            n = int(self.engine.rows(f"SELECT count(k{k}) FROM kf_keys")[0][0])
            window = min(rule.window, n)
            return Blocks(str(rule), sum(n - step for step in range(1, window)), ())
        table, key = (f"kf_rare_{k}", "word") if isinstance(rule, RareTokens) else ("kf_keys", f"k{k}")
        if self.base is not None:
            ours, twice = f"sum(CASE WHEN {ROW} < {self.base} THEN 1 ELSE 0 END)", "n * (n - 1) - a * (a - 1)"
        elif self.first is None:
            ours, twice = "0", "n * (n - 1)"
        else:
            ours, twice = f"sum(CASE WHEN {ROW} < {self.first} THEN 1 ELSE 0 END)", "2 * a * (n - a)"
        sizes = f"SELECT {key} AS key, count(*) AS n, {ours} AS a FROM {table} WHERE {key} IS NOT NULL GROUP BY {key}"
        largest = f"SELECT key, n FROM sizes ORDER BY n DESC, key LIMIT {NAMED}"
        total = f"SELECT NULL AS key, coalesce(sum({twice}), 0) AS n FROM sizes"
        large = f"WITH sizes AS ({sizes} HAVING count(*) > 1)"
        found = self.engine.rows(f"{large} SELECT * FROM ({largest}) UNION ALL {total}")
        pairs = next(int(n) for key, n in found if key is None) // 2
        blocks = {key: int(n) for key, n in found if key is not None}
        words = self._words(k, rule, list(blocks)) if isinstance(rule, Key) and blocks else {key: key for key in blocks}
        named = sorted(((words[key], n) for key, n in blocks.items()), key=lambda one: (-one[1], one[0]))
        return Blocks(str(rule), pairs, tuple(named))

    def _words(self, k: int, rule: Key, numbers: Sequence[int]) -> dict[int, str]:
        """The keys that numbers stand for."""
        parts, listed = _parts(rule), ", ".join(map(str, numbers))
        having = f"SELECT k{k} AS key, min({ROW}) AS one FROM kf_keys WHERE k{k} IN ({listed}) GROUP BY k{k}"
        shown = ", ".join(f"r.{quoted(part.field)}" for part in parts)
        found = self.engine.rows(f"SELECT e.key, {shown} FROM ({having}) e JOIN {self.records} r ON r.{ROW} = e.one")
        own = [(key, zip(parts, values, strict=True)) for key, *values in found]
        return {key: " + ".join(part.of(_clean(one, rule.normalise)) for part, one in both) for key, both in own}

    def make_pairs(self, limit: int) -> None:
        """The table kf_pairs of lefts and rights, each pair once; an error, before any is made, beyond `limit`."""
        found = self.blocks()
        total = sum(one.n_pairs for one in found)
        for one in found:
            log.info("%s", one)
        if total > limit:
            worst = max(found, key=lambda one: one.n_pairs)
            remedy = "narrow the rule, or raise `limit`"
            raise InputError(f"up to {total:,} pairs, where `limit` allows {limit:,}; {worst}; {remedy}")
        # Pairs of a block lie together: then few records are in many pairs of a run, and what is worked out once a
        # record is worked out for few.
        keys = [k for k, rule in enumerate(self.rules) if isinstance(rule, Key)]
        asked = []
        for k in keys:
            before = tuple(f"k{j}" for j in keys if j < k)
            shown = ", ".join([ROW, f"k{k} AS unit", *before])
            blocks = f"SELECT {shown} FROM kf_keys WHERE k{k} IS NOT NULL"
            asked.append((blocks, PairsOfBlocks(before, self.first, self.base or 0)))
        self.engine.map_units(asked, "kf_pairs", pairs_schema())
        for k, rule in enumerate(self.rules):
            if not isinstance(rule, Key):
                self.engine.add("kf_pairs", self._join(k, [*keys, *(j for j in range(k) if j not in keys)]))

    def _join(self, k: int, others: Sequence[int]) -> str:
        """The pairs of a rule that none of these others has."""
        rule, cross = self.rules[k], self._crossing()
        before = [f"NOT coalesce({self._holds(j)}, false)" for j in others]
        conditions = " AND ".join([cross, *before])
        if isinstance(rule, RareTokens):
            shared = (
                f"SELECT a.{ROW} AS low, b.{ROW} AS high FROM kf_rare_{k} a JOIN kf_rare_{k} b "
                f"ON a.word = b.word AND a.{ROW} < b.{ROW} GROUP BY 1, 2 HAVING count(*) >= {rule.min_shared}"
            )
            return (
                f"SELECT l.{ROW} AS low, r.{ROW} AS high FROM ({shared}) s JOIN kf_keys l ON l.{ROW} = s.low "
                f"JOIN kf_keys r ON r.{ROW} = s.high WHERE {conditions}"
            )
        assert isinstance(rule, SortedNeighbourhood)
        steps = self.engine.each(self.engine.listed(*map(str, range(1, rule.window))))
        from_each = f"SELECT {ROW}, k{k} AS place, {steps} AS step FROM kf_keys WHERE k{k} IS NOT NULL"
        near = f"({from_each}) a JOIN kf_keys b ON b.k{k} = a.place + a.step"
        ends = f"least(a.{ROW}, b.{ROW}) AS low, greatest(a.{ROW}, b.{ROW}) AS high"
        return (
            f"SELECT low, high FROM (SELECT {ends} FROM {near}) p JOIN kf_keys l ON l.{ROW} = p.low "
            f"JOIN kf_keys r ON r.{ROW} = p.high WHERE {conditions} ORDER BY l.k{k}"
        )

    def same(self, fields: Sequence[str], normalise: bool) -> str:
        """A query: `low` and `high` of records that are next to each other among those with the same values."""
        kinds, made = self.engine.columns(self.records), []
        joins: list[str] = []
        for place, name in enumerate(fields):
            text = self.engine.is_text(kinds[name])
            expression, join = self._part(Part(name, ()), normalise, text, f"kf_same_{place}")
            made.append(expression)
            joins += join
        known = " AND ".join(f"({one}) IS NOT NULL" for one in made)
        value = f" || {literal(BETWEEN)} || ".join(f"({one})" for one in made)
        values = f"SELECT r.{ROW} AS low, {value} AS value FROM {self.records} r {' '.join(joins)} WHERE {known}"
        after = f"SELECT low, lead(low) OVER (PARTITION BY value ORDER BY low) AS high FROM ({values})"
        return f"SELECT low, high FROM ({after}) WHERE high IS NOT NULL"

    def _crossing(self) -> str:
        if self.base is not None:
            return f"l.{ROW} < r.{ROW} AND r.{ROW} >= {self.base}"
        if self.first is None:
            return f"l.{ROW} < r.{ROW}"
        return f"l.{ROW} < {self.first} AND r.{ROW} >= {self.first}"

    def _holds(self, k: int) -> str:
        """Whether a rule brings l and r together."""
        rule = self.rules[k]
        if isinstance(rule, SortedNeighbourhood):
            return f"abs(l.k{k} - r.k{k}) < {rule.window}"
        if isinstance(rule, RareTokens):
            return f"{self.engine.shared(f'l.k{k}', f'r.k{k}')} >= {rule.min_shared}"
        return f"l.k{k} = r.k{k}"


def _parts(rule: Blocking) -> list[Part]:
    if isinstance(rule, RareTokens):
        return [Part(name, ()) for name in rule.columns]
    assert isinstance(rule, Key | SortedNeighbourhood)
    return parse_key(rule.expression)


def _in_sql(engine: Engine, column: str, part: Part, normalise: bool) -> str | None:
    """What a part makes of a string of ASCII; None: not in SQL."""
    if normalise:
        bare = engine.replaced(f"lower({column})", "['`]", "")
        clean = f"trim({engine.replaced(bare, '[^a-z0-9]+', ' ')})"
        text = f"CASE WHEN {engine.matches(column, '[a-z0-9]+')} THEN {column} ELSE {clean} END"  # most are plain
    else:
        text = f"{engine.replaced(column, WHITE_AROUND, '')}"
    for step in part.steps:
        made = _step(engine, text, step)
        if made is None:
            return None
        text = made
    if not part.steps:
        return text
    return f"trim({text})" if normalise else engine.replaced(text, WHITE_AROUND, "")


WHITE_AROUND = r"^[\t-\r\x1c-\x1f ]+|[\t-\r\x1c-\x1f ]+$"  # what str.strip() takes of ASCII


def _step(engine: Engine, text: str, step: Function | Slice) -> str | None:
    if isinstance(step, Function):
        if step.name == "lower":
            return f"lower({text})"
        if step.name == "digits":
            return engine.replaced(text, "[^0-9]+", "")
        return None
    start, stop = step.start or 0, step.stop
    if start >= 0 and (stop is None or stop >= 0):
        return f"substr({text}, {start + 1}{'' if stop is None else f', {max(stop - start, 0)}'})"
    if start < 0 and stop is None:
        return f"right({text}, {-start})"
    return None


def _clean(value: Any, normalise: bool) -> str:
    """What parts of keys are made of."""
    text = value if isinstance(value, str) else f"{float(value):.15g}"
    return normalised(text) if normalise else text.strip()


@dataclass(frozen=True)
class PartsOfKeys:
    """What Python makes of values."""

    part: Part
    normalise: bool

    def __call__(self, batch: Any) -> Any:
        import pyarrow

        given = batch.column(0)
        made = [self.part.of(_clean(value, self.normalise)) or None for value in given.to_pylist()]
        return pyarrow.table({"given": given, "made": pyarrow.array(made, pyarrow.string())})
