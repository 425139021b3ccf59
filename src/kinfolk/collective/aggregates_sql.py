"""Relations and templates in an engine: links as tables, and what neighbours say, added up by GROUP BY.

A table of links has `source` and `target`, rows of two instances, and `weight` unless all weigh 1; each pair once, in
order of the sources, so that what belongs together is added up together. Of a relation the engine makes the sums that
its templates need, all classes in one pass:

    s0, s1, ...    Σ_j w_ij v_j         Count, LogCount, Mean, Proportion
    weight         Σ_j w_ij             Mean
    m0, m1, ...    max_j v_j            Max, Exists
    l0, l1, ...    Σ_j log(1 - v_j)     Exists, over v_j < 1
    c0_0, ...      v_j of one slot      Concat
    hs0, hm0, hc0_0, ...                the same of labels instead of probabilities

and `received` makes of them what the templates are (`collective.templates` has the formulas).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.relations import COMPONENT, Relation
from kinfolk.collective.templates import (
    Concat,
    Count,
    Exists,
    LogCount,
    Max,
    Mean,
    NeighbourTemplate,
    Over,
    Proportion,
)
from kinfolk.core.engine import ROW, Engine
from kinfolk.errors import InputError, SettingError

Array = NDArray[Any]
SUMS = (Count, LogCount, Mean, Proportion)
HARD = "kf_hard"  # the column of votes that has the number of the most probable class
SHIFT = 1 << 32  # two rows in one whole number: the first times this, plus the second; found again by bits, not divided


# -- links --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Links:
    """A table of links, and whether they have weights of their own."""

    table: str
    weighted: bool

    def any_weighs(self, engine: Engine) -> bool | None:
        """Whether any has another weight than 1; None: there are no links."""
        if not self.weighted:
            return False if engine.rows(f"SELECT 1 FROM {self.table} LIMIT 1") else None
        found = engine.rows(f"SELECT bool_or(weight <> 1) FROM {self.table} WHERE weight <> 0")[0][0]
        return None if found is None else bool(found)

    @property
    def query(self) -> str:
        weight = "weight" if self.weighted else "1.0e0"
        return f"SELECT source, target, {weight} AS weight FROM {self.table}"


def make_links(engine: Engine, table: str, query: str, weighted: bool) -> Links:
    """A table of the links of a query, each once, in order of their sources; weights are added, and 0 is no link."""
    if weighted:
        added = f"SELECT source, target, sum(weight) AS weight FROM ({query}) GROUP BY source, target"
        engine.make_in_order(table, f"SELECT * FROM ({added}) WHERE weight <> 0", "source, target")
    else:
        packed = f"SELECT CAST(source AS BIGINT) * {SHIFT} + target AS k FROM ({query})"
        ends = f"CAST(k >> 32 AS INT) AS source, CAST(k & {SHIFT - 1} AS INT) AS target"
        engine.arrange(table, packed, "k", ends)
    return Links(table, weighted)


def reversed_links(engine: Engine, table: str, links: Links) -> Links:
    """The same the other way round."""
    weight = ", weight" * links.weighted
    turned = f"SELECT target AS source, source AS target{weight} FROM {links.table}"
    engine.make_turned(table, turned, "source, target")
    return Links(table, links.weighted)


def related(engine: Engine, relation: Relation, named: Mapping[str, Links], table: str) -> Links:
    """The links of a relation, in a table of that name unless it is one of those named."""
    if not relation.parts:
        if relation.name not in named:
            known = ", ".join(map(repr, named)) or "none"
            raise InputError(f"there is no relation {relation.name!r} here; there are: {known}")
        return named[relation.name]
    if relation.name == "~" and not relation.parts[0].parts:
        return reversed_links(engine, table, related(engine, relation.parts[0], named, table))
    kept = f"SELECT * FROM ({_query(relation, named)}) WHERE source <> target AND weight <> 0"
    engine.make_in_order(table, kept, "source, target")
    return Links(table, True)


def _query(relation: Relation, named: Mapping[str, Links]) -> str:
    """Links with weights, each once; those from an instance to itself are part of longer paths."""
    if not relation.parts:
        return named[relation.name].query
    parts = [_query(part, named) for part in relation.parts]
    if relation.name == "~":
        return f"SELECT target AS source, source AS target, weight FROM ({parts[0]})"
    if relation.name == "@":
        return reduce(_path, parts)
    return reduce(_either, parts)


def _path(first: str, second: str) -> str:
    return (
        "SELECT a.source AS source, b.target AS target, sum(a.weight * b.weight) AS weight "
        f"FROM ({first}) a JOIN ({second}) b ON b.source = a.target GROUP BY a.source, b.target"
    )


def _either(first: str, second: str) -> str:
    """Of two weights the larger; where there is one link, the other weighs 0."""
    larger = "CASE WHEN count(*) = 2 OR max(weight) > 0 THEN max(weight) ELSE 0.0e0 END AS weight"
    return f"SELECT source, target, {larger} FROM ({first} UNION ALL {second}) GROUP BY source, target"


def check_relation(relation: Relation) -> None:
    """Refuse what no join can make."""
    if relation.name == COMPONENT and relation.parts:
        remedy = "a path of a few steps, such as 'cites @ cites', or predict in memory"
        raise SettingError("templates", str(relation), "relations, paths and unions in an engine", remedy)
    for part in relation.parts:
        check_relation(part)


# -- sums ---------------------------------------------------------------------------------------------


def check_templates(templates: Iterable[NeighbourTemplate]) -> None:
    """Refuse templates that look at more than sums over links."""
    for template in templates:
        if type(template) not in (*SUMS, Max, Exists, Concat):
            kinds = "Count, LogCount, Mean, Proportion, Max, Exists or Concat in an engine"
            raise SettingError("templates", template.name, kinds, "leave it out, or predict in memory")
        assert isinstance(template, Over) and isinstance(template.rule, Relation)
        check_relation(template.rule)


def sums(templates: Sequence[Over], links: Links, n_votes: int) -> dict[str, str]:
    """Column -> expression, of all that templates of one relation need; links are `l`, votes `v`."""
    found: dict[str, str] = {}
    for template in templates:
        hard = "h" if template.hard else ""
        for c in range(n_votes):
            vote = f"CASE WHEN v.{HARD} = {c} THEN 1.0e0 ELSE 0.0e0 END" if hard else f"v.v{c}"
            if isinstance(template, Concat):
                for slot in range(template.slots or 0):
                    chosen = f"sum(CASE WHEN l.kf_slot = {slot} THEN {vote} ELSE 0.0e0 END)"
                    found[f"{hard}c{slot}_{c}"] = chosen
            elif isinstance(template, SUMS):
                found[f"{hard}s{c}"] = f"sum(l.weight * {vote})" if links.weighted else f"sum({vote})"
            else:
                found[f"{hard}m{c}"] = f"max({vote})"
                if isinstance(template, Exists) and not hard:
                    found[f"l{c}"] = f"sum(CASE WHEN {vote} < 1 THEN ln(1 - {vote}) ELSE 0.0e0 END)"
        if isinstance(template, Mean):
            found["weight"] = "sum(l.weight)" if links.weighted else "CAST(count(*) AS DOUBLE)"
    return found


def make_sums(engine: Engine, table: str, links: Links, votes: str, columns: Mapping[str, str]) -> None:
    """A table of sums of the votes in a table, a row for each instance that has neighbours, in order."""
    listed = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    source = links.table
    if any("kf_slot" in expression for expression in columns.values()):
        slot = "row_number() OVER (PARTITION BY source ORDER BY target) - 1 AS kf_slot"
        source = f"(SELECT *, {slot} FROM {links.table})"
    joined = f"SELECT l.source AS {ROW}, {listed} FROM {source} l JOIN {votes} v ON v.{ROW} = l.target"
    engine.make_in_order(table, f"{joined} GROUP BY l.source", ROW)


def received(template: Over, n_votes: int, column: Callable[[str], Array], out: Array) -> None:
    """Fill `out` (m, width) from the sums, 0 where there are no neighbours."""
    hard = "h" if template.hard else ""
    if isinstance(template, Concat):
        names = [f"c{slot}_{c}" for slot in range(template.slots or 0) for c in range(n_votes)]
    else:
        names = [f"{'s' if isinstance(template, SUMS) else 'm'}{c}" for c in range(n_votes)]
    for at, name in enumerate(names):
        out[:, at] = column(hard + name)
    if isinstance(template, LogCount):
        np.log1p(out, out=out)
    elif isinstance(template, Mean):
        _divide(out, column("weight"))
    elif isinstance(template, Proportion):
        _divide(out, out.sum(axis=1))
    elif isinstance(template, Exists) and not hard:
        for c in range(n_votes):
            out[:, c] = np.where(out[:, c] >= 1, 1.0, -np.expm1(column(f"l{c}")))


def _divide(out: Array, by: Array) -> None:
    np.divide(out, by[:, None], out=out, where=by[:, None] != 0)
