"""Links of tables, files or other libraries, to relations: one warning counts what is left out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Vocabulary
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.link_features import (
    Cuts,
    LinkColumn,
    Wanted,
    aggregated,
    cuts_of,
    given_cuts,
    split_by_value,
    with_columns,
)

log = logging.getLogger("kinfolk")

LINK, INVERSE = "links_to", "linked_from"
CHOICES = {
    "dangling": ("drop", "refuse"),
    "self_loops": ("drop", "refuse"),
    "duplicates": ("merge", "refuse"),
    "directed": (True, False, None),
}


@dataclass(frozen=True)
class LinkRules:
    """What links become.

    dangling    links with an end that is no node: "drop" or "refuse"
    self_loops  links from a node to itself: "drop" or "refuse"
    duplicates  a link that comes twice: "merge" (one link; weights, where there are any, are added) or "refuse"
    directed    True: a relation and its inverse; False: one relation, both ways; None: as the links themselves are,
                one relation if every link is there from both ends with the same weight
    link        name of the relation, of links that have no names of their own
    inverse     name of its inverse, or name -> name of the inverse; None: no inverses. Links with names of their own
                have inverses "<name>_inverse" unless these are given.
    """

    dangling: str = "drop"
    self_loops: str = "drop"
    duplicates: str = "merge"
    directed: bool | None = True
    link: str = LINK
    inverse: str | Mapping[str, str] | None = INVERSE

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                listed = ", ".join(map(str, allowed))
                raise SettingError(name, getattr(self, name), f"one of {listed}")
        pairs = self.inverse.items() if isinstance(self.inverse, Mapping) else [(self.link, self.inverse)]
        for name, inverse in pairs:
            if name == inverse:
                raise SettingError.saying(f"link and inverse must have two names; both are {name!r}")

    def inverse_of(self, name: str) -> str | None:
        if self.inverse is None or isinstance(self.inverse, str):
            own = name == self.link
            if not own and self.inverse not in (None, INVERSE):
                needed = f"`inverse={{{name!r}: ...}}`"
                raise SettingError.saying(
                    f"links with names need {needed}, a name for each; got `inverse={self.inverse!r}`"
                )
            return self.inverse if own or self.inverse is None else f"{name}_inverse"
        return self.inverse.get(name, f"{name}_inverse")


@dataclass
class LeftOut:
    """Links that came and are left out, counted; and the first that leads nowhere."""

    dangling: int = 0
    loops: int = 0
    repeated: int = 0
    added: int = 0  # repeated too, but their weights count
    first: str = ""

    def log(self, nodes: str) -> None:
        """One warning if there are any; `nodes` is where the nodes come from."""
        first = f" (the first: {self.first})" if self.first else ""
        kinds = ((self.dangling, f"with an end that is not in {nodes}{first}"), (self.loops, "from a node to itself"))
        dropped = [f"{n} {what}" for n, what in (*kinds, (self.repeated, "repeated")) if n]
        parts = [f"links dropped: {', '.join(dropped)}"] * bool(dropped)
        parts += [f"links merged: {self.added} repeated, their weights added"] * bool(self.added)
        if parts:
            log.warning("%s", "; ".join(parts))


class LinkRows(NamedTuple):
    """Links as one table or file has them, none left out yet.

    source, target  numbers of the nodes, -1 where there is no such node
    weights         None: all 1
    fault           message, row or None -> the error with the place of that row
    place           row -> its place, in words
    end             row -> the id at the end of a link that leads nowhere, or at the source of another
    remedy          what to do if no link joins two nodes
    columns         features of links by name
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    fault: Callable[[str, int | None], InputError]
    place: Callable[[int], str]
    end: Callable[[int], str]
    remedy: Callable[[], str]
    weights: NDArray[np.float64] | None = None
    columns: Mapping[str, LinkColumn] = MappingProxyType({})


Part = tuple[LinkRows, NDArray[np.int64]]  # and which of its rows


class LinkCollector:
    """Links from as many tables as there are, put together into relations of n nodes."""

    def __init__(self, n: int, rules: LinkRules, link_features: Wanted = None) -> None:
        self.n, self.rules, self.left_out = n, rules, LeftOut()
        self.cuts: dict[str, Cuts] = {}
        self._given_cuts = given_cuts(link_features)
        self._parts: dict[str, list[Part]] = {}
        self._ways: dict[str, Sequence[str]] = {}  # of each relation: at which ends a link counts among its features

    def add(self, rows: LinkRows, nodes: str, names: str | Sequence[str] | None = None) -> None:
        """Links whose ends should be in `nodes`; with the name of all, with one for each, or without any."""
        kept = self._kept(rows, nodes)
        if names is None or isinstance(names, str):
            self._parts.setdefault(names or self.rules.link, []).append((rows, kept))
            return
        known = Vocabulary(dict.fromkeys(names))
        codes = known.encode(names)[kept]
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(1, len(known)))
        for name, own in zip(known, np.split(kept[order], ends), strict=False):
            self._parts.setdefault(name, []).append((rows, own))

    def _kept(self, rows: LinkRows, nodes: str) -> NDArray[np.int64]:
        """The rows that join two different nodes; the others are refused or counted."""
        lost = (rows.source < 0) | (rows.target < 0)
        if lost.any():
            row, count = int(lost.argmax()), int(lost.sum())
            if lost.all():
                raise rows.fault(f"none of the {count} links joins two nodes of {nodes}; {rows.remedy()}", None)
            if self.rules.dangling == "refuse":
                what = f"{rows.end(row)!r} is not in {nodes}, and {count} links have such an end"
                raise rows.fault(f"{what}; add the nodes, or drop the links with `dangling='drop'`", row)
            self.left_out.dangling += count
            self.left_out.first = self.left_out.first or f"{rows.end(row)!r} in {rows.place(row)}"
        loops = ~lost & (rows.source == rows.target)
        if loops.any():
            row, count = int(loops.argmax()), int(loops.sum())
            if self.rules.self_loops == "refuse":
                what = f"a link from {rows.end(row)!r} to itself, one of {count}"
                raise rows.fault(f"{what}; take them out, or drop them with `self_loops='drop'`", row)
            self.left_out.loops += count
        return np.flatnonzero(~(lost | loops))

    def relations(self, nodes: str) -> dict[str, Any]:
        """Name -> CSR (n, n) for the links of each name and their inverses, then for those of each value of a feature
        of links. One warning counts what is left out."""
        found: dict[str, Any] = {}
        split: dict[str, Any] = {}
        self.cuts = cuts_of([part for parts in self._parts.values() for part in parts], self._given_cuts)
        for name, parts in self._parts.items():
            links = self._merged(parts)
            both_ways = not self.rules.directed and (links != links.T.tocsr()).nnz == 0
            self._ways[name] = ("",) if both_ways else ("out", "in")
            if self.rules.directed is False and not both_ways:
                links, both_ways = self._from_both_ends(links, parts), True
                self._ways[name] = ("both",)
            inverse = None if both_ways else self.rules.inverse_of(name)
            if inverse in self._parts or inverse in found:
                raise SettingError.saying(
                    f"two relations would be named {inverse!r}; name the inverses by `inverse={{...}}`"
                )
            found[name] = links
            if inverse is not None:
                found[inverse] = links.T.tocsr()
            split |= self._split(name, parts, both_ways, inverse)
        self.left_out.log(nodes)
        again = next((name for name in split if name in found), None)
        if again is not None:
            raise SettingError.saying(f"two relations would be named {again!r}, one by link_features; rename the other")
        return found | split

    def _split(self, name: str, parts: Sequence[Part], both_ways: bool, inverse: str | None) -> dict[str, Any]:
        """Relations by the values of features of links; what is left out was counted in the whole."""
        quiet, found = LinkCollector(self.n, replace(self.rules, duplicates="merge")), {}
        for value, own in split_by_value(parts, self.cuts):
            links = quiet._merged(own)
            if both_ways and (links != links.T.tocsr()).nnz:
                links = quiet._from_both_ends(links, own)
            found[name + value] = links
            if inverse is not None:
                found[inverse + value] = links.T.tocsr()
        return found

    def made(self, parts: Mapping[str, Any], nodes: str) -> dict[str, Any]:
        """Arguments of `Graph`: these with the relations, and with features that numbers of links make of nodes."""
        relations = self.relations(nodes)
        return {**with_columns(parts, *self.features()), "relations": relations, "link_features": self.cuts}

    def features(self) -> tuple[list[str], NDArray[np.float64]]:
        """Names and columns (n, f) of what numbers of links make of nodes; known once `relations` are made."""
        made = [aggregated(parts, self.n, name, self._ways[name]) for name, parts in self._parts.items()]
        rows = np.hstack([np.zeros((self.n, 0)), *(columns for _, columns in made)])
        return [name for names, _ in made for name in names], rows

    def _merged(self, parts: Sequence[Part]) -> Any:
        source, target = _ends(parts)
        weights = [np.ones(len(at)) if rows.weights is None else rows.weights[at] for rows, at in parts]
        ends = (np.concatenate([np.empty(0), *weights]), (source, target))
        links = sparse.csr_array(ends, shape=(self.n, self.n))  # repeated entries are added up
        if links.nnz < len(source):
            self._repeated(parts, source * self.n + target, len(source) - links.nnz)
        return self._weighed(links, parts)

    def _from_both_ends(self, links: Any, parts: Sequence[Part]) -> Any:
        """Links without a direction: from a to b and from b to a are the same link."""
        back = links.T.tocsr()
        twice = links.astype(bool).multiply(back.astype(bool)).nnz // 2
        if twice:
            source, target = _ends(parts)
            self._repeated(parts, np.minimum(source, target) * self.n + np.maximum(source, target), twice)
        return self._weighed(sparse.csr_array(links + back), parts)

    def _repeated(self, parts: Sequence[Part], links: NDArray[np.int64], count: int) -> None:
        """Count links that come again, or refuse the first of them, if that is the rule."""
        if self.rules.duplicates == "merge":
            self.left_out.added += count * _weighted(parts)
            self.left_out.repeated += count * (not _weighted(parts))
            return
        order = np.argsort(links, kind="stable")
        again = order[1:][links[order[1:]] == links[order[:-1]]]
        row = int(again.min())
        for rows, at in parts:
            if row < len(at):
                what = f"a link that was there before, one of {len(again)}"
                raise rows.fault(f"{what}; take them out, or merge them with `duplicates='merge'`", int(at[row]))
            row -= len(at)

    def _weighed(self, links: Any, parts: Sequence[Part]) -> Any:
        """All links weigh 1, unless weights were given; a weight of 0 is no link."""
        if not _weighted(parts):
            links.data[:] = 1.0
        links.eliminate_zeros()
        return links


def _weighted(parts: Sequence[Part]) -> bool:
    return any(rows.weights is not None for rows, _ in parts)


def _ends(parts: Sequence[Part]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    none = np.empty(0, np.int64)
    source = np.concatenate([none, *(rows.source[at] for rows, at in parts)])
    return source, np.concatenate([none, *(rows.target[at] for rows, at in parts)])
