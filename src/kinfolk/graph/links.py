"""Links told by tables, files or other libraries, to relations: what is left out is counted and told once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.errors import InputError, SettingError

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
    duplicates  a link told twice: "merge" (one link; weights, where there are any, are added) or "refuse"
    directed    True: a relation and its inverse; False: one relation, both ways; None: as the links themselves are,
                one relation if every link is there from both ends with the same weight
    link        name of the relation, of links that have no names of their own
    inverse     name of its inverse, or name -> name of the inverse; None: no inverses. Links with names of their own
                have inverses "<name>_inverse" unless they are told.
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
                raise SettingError(f"{name} must be one of {listed}; got {getattr(self, name)!r}")
        pairs = self.inverse.items() if isinstance(self.inverse, Mapping) else [(self.link, self.inverse)]
        for name, inverse in pairs:
            if name == inverse:
                raise SettingError(f"link and inverse must have two names; both are {name!r}")

    def inverse_of(self, name: str) -> str | None:
        if self.inverse is None or isinstance(self.inverse, str):
            own = name == self.link
            if not own and self.inverse not in (None, INVERSE):
                told = f"inverse={{{name!r}: ...}}"
                raise SettingError(f"links with names need {told}, a name for each; got inverse={self.inverse!r}")
            return self.inverse if own or self.inverse is None else f"{name}_inverse"
        return self.inverse.get(name, f"{name}_inverse")


@dataclass
class LeftOut:
    """Links that were told and are not there, counted; and the first that leads nowhere."""

    dangling: int = 0
    loops: int = 0
    repeated: int = 0
    added: int = 0  # repeated too, but their weights count
    first: str = ""

    def log(self, nodes: str) -> None:
        """One warning if there is anything to tell; `nodes` is where the nodes are told."""
        first = f" (the first: {self.first})" if self.first else ""
        kinds = ((self.dangling, f"with an end that is not in {nodes}{first}"), (self.loops, "from a node to itself"))
        dropped = [f"{n} {what}" for n, what in (*kinds, (self.repeated, "repeated")) if n]
        told = [f"links dropped: {', '.join(dropped)}"] if dropped else []
        if self.added:
            told.append(f"links merged: {self.added} repeated, their weights added")
        if told:
            log.warning("%s", "; ".join(told))

    def again(self, count: int, weighted: bool) -> None:
        """So many links were told before."""
        self.added += count * weighted
        self.repeated += count * (not weighted)


class LinkRows(NamedTuple):
    """Links as one table or file tells them, none left out yet.

    source, target  numbers of the nodes, -1 where there is no such node
    weights         None: all 1
    fault           message, row or None -> the error with the place of that row
    place           row -> its place, in words
    end             row -> the id at the end of a link that leads nowhere, or at the source of another
    remedy          what to do if no link joins two nodes
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    fault: Callable[[str, int | None], InputError]
    place: Callable[[int], str]
    end: Callable[[int], str]
    remedy: Callable[[], str]
    weights: NDArray[np.float64] | None = None


Part = tuple[LinkRows, NDArray[np.int64]]  # and which of its rows


class LinkCollector:
    """Links from as many tables as there are, put together into relations of n nodes."""

    def __init__(self, n: int, rules: LinkRules) -> None:
        self.n, self.rules, self.left_out = n, rules, LeftOut()
        self._parts: dict[str, list[Part]] = {}

    def add(self, rows: LinkRows, nodes: str, names: str | Sequence[str] | None = None) -> None:
        """Links whose ends should be in `nodes`; with the name of all, with one for each, or without any."""
        kept = self._kept(rows, nodes)
        if names is None or isinstance(names, str):
            self._parts.setdefault(names or self.rules.link, []).append((rows, kept))
            return
        number = {name: i for i, name in enumerate(dict.fromkeys(names))}
        codes = np.fromiter(map(number.__getitem__, names), np.int64, len(names))[kept]
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(number) + 1))
        for name, i in number.items():
            self._parts.setdefault(name, []).append((rows, kept[order[starts[i] : starts[i + 1]]]))

    def _kept(self, rows: LinkRows, nodes: str) -> NDArray[np.int64]:
        """The rows that join two different nodes; the others are refused or counted."""
        lost = (rows.source < 0) | (rows.target < 0)
        if lost.any():
            row, count = int(lost.argmax()), int(lost.sum())
            if lost.all():
                raise rows.fault(f"none of the {count} links joins two nodes of {nodes}; {rows.remedy()}", None)
            if self.rules.dangling == "refuse":
                what = f"{rows.end(row)!r} is not in {nodes}, and {count} links have such an end"
                raise rows.fault(f"{what}; add the nodes, or drop the links with dangling='drop'", row)
            self.left_out.dangling += count
            self.left_out.first = self.left_out.first or f"{rows.end(row)!r} in {rows.place(row)}"
        loops = ~lost & (rows.source == rows.target)
        if loops.any():
            row, count = int(loops.argmax()), int(loops.sum())
            if self.rules.self_loops == "refuse":
                what = f"a link from {rows.end(row)!r} to itself, one of {count}"
                raise rows.fault(f"{what}; take them out, or drop them with self_loops='drop'", row)
            self.left_out.loops += count
        return np.flatnonzero(~(lost | loops))

    def relations(self, nodes: str) -> dict[str, Any]:
        """Name -> CSR (n, n) for the links of each name, and for their inverses. One warning tells what is left out."""
        found: dict[str, Any] = {}
        for name, parts in self._parts.items():
            links = _merged(parts, self.n, self.rules, self.left_out)
            both_ways = not self.rules.directed and _is_symmetric(links)
            if self.rules.directed is False and not both_ways:
                links, both_ways = _from_both_ends(links, parts, self.n, self.rules, self.left_out), True
            inverse = None if both_ways else self.rules.inverse_of(name)
            if inverse in self._parts or inverse in found:
                raise SettingError(f"two relations would be named {inverse!r}; name the inverses by inverse={{...}}")
            found[name] = links
            if inverse is not None:
                found[inverse] = links.T.tocsr()
        self.left_out.log(nodes)
        return found


def _merged(parts: Sequence[Part], n: int, rules: LinkRules, left_out: LeftOut) -> Any:
    source, target = _ends(parts)
    weighted = any(rows.weights is not None for rows, _ in parts)
    told = [np.ones(len(at)) if rows.weights is None else rows.weights[at] for rows, at in parts]
    weights = np.concatenate([np.empty(0), *told])
    links = sparse.csr_array((weights, (source, target)), shape=(n, n))  # repeated entries are added up
    if links.nnz < len(source):
        _repeated(parts, source * n + target, rules)
        left_out.again(len(source) - links.nnz, weighted)
    if not weighted:
        links.data[:] = 1.0
    links.eliminate_zeros()  # a weight of 0 is no link
    return links


def _from_both_ends(links: Any, parts: Sequence[Part], n: int, rules: LinkRules, left_out: LeftOut) -> Any:
    """Links without a direction: from a to b and from b to a are the same link told twice."""
    back = links.T.tocsr()
    both = sparse.csr_array(links + back)
    twice = links.astype(bool).multiply(back.astype(bool)).nnz // 2
    weighted = any(rows.weights is not None for rows, _ in parts)
    if twice:
        source, target = _ends(parts)
        _repeated(parts, np.minimum(source, target) * n + np.maximum(source, target), rules)
        left_out.again(twice, weighted)
    if not weighted:
        both.data[:] = 1.0
    return both


def _is_symmetric(links: Any) -> bool:
    return int((links != links.T.tocsr()).nnz) == 0


def _ends(parts: Sequence[Part]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    none = np.empty(0, np.int64)
    source = np.concatenate([none, *(rows.source[at] for rows, at in parts)])
    return source, np.concatenate([none, *(rows.target[at] for rows, at in parts)])


def _repeated(parts: Sequence[Part], links: NDArray[np.int64], rules: LinkRules) -> None:
    """Refuse the first link that comes again, if that is the rule."""
    if rules.duplicates == "merge":
        return
    order = np.argsort(links, kind="stable")
    again = order[1:][links[order[1:]] == links[order[:-1]]]
    row = int(again.min())
    for rows, at in parts:
        if row < len(at):
            what = f"a link that was told before, one of {len(again)}"
            raise rows.fault(f"{what}; take them out, or merge them with duplicates='merge'", int(at[row]))
        row -= len(at)
