"""New records beside a clustered base: each joins a cluster of the base, or new ones form clusters of their own.

The base stays as it is: its records keep their clusters, and no two of these are ever joined. Only pairs with a new
record are compared. What joins whom is decided by the linker's clusterer, told that the records of a base cluster must
be together and two base clusters must not.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.frames import Values, opened
from kinfolk.core.table import frame_table
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.clustering import LARGEST, Constraints, agglomerate, single_link
from kinfolk.linking.blocking import within
from kinfolk.linking.certain import Always, Decided, as_certain, with_room
from kinfolk.linking.clustered import membership, pair_frame, records_for, refuse_files
from kinfolk.linking.clusterers import AverageLink, BestLink, Clusterer, CompleteLink, OneToMany, OneToOne, SingleLink
from kinfolk.linking.comparisons import with_bests
from kinfolk.linking.mentions import Mentions, pair_keys, pairs_of
from kinfolk.linking.records import EXACT, WHOLE, numbered

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
ROUNDS = 2  # of closure
MOST_APART = 50_000_000  # pairs of base clusters that likely pairs bring within reach of each other
MOST = LARGEST**2  # pairs of new records within a likely cluster, above which they are left alone


@dataclass(frozen=True, eq=False)
class Base:
    """`clusters` int32 (m,): the cluster of each record of the base, numbered from 0; records come before new ones."""

    clusters: NDArray[np.int32]

    @property
    def n(self) -> int:
        return len(self.clusters)

    @property
    def n_clusters(self) -> int:
        return int(self.clusters.max(initial=-1)) + 1


# -- which records join which cluster -----------------------------------------------------------------


class Held(NamedTuple):
    """The items that can be joined at all, and what is given of them."""

    items: Array  # numbers of items: records of base clusters within reach, and all new ones; rising
    left: Array  # pairs among them, as places in `items`
    right: Array
    probability: Array
    must: NDArray[np.int32]
    cannot: NDArray[np.int32]


class Links(NamedTuple):
    """Pairs of items (m, 2), one of them new, that have to be together, or must not be."""

    must: Array
    cannot: Array


NONE = Links(np.empty((0, 2), np.int64), np.empty((0, 2), np.int64))


def held(
    base: Base, n: int, left: Array, right: Array, probability: Array, threshold: float, links: Links = NONE
) -> Held:
    """A join needs a pair above the threshold, so base clusters without one are out of reach; and two base clusters can
    only meet where such pairs connect them."""
    near = np.concatenate([left[(probability > threshold) & (left < base.n)], links.must[links.must < base.n]])
    reached = np.zeros(base.n_clusters, bool)
    reached[base.clusters[near]] = True
    kept = np.concatenate([reached[base.clusters], np.ones(n - base.n, bool)])
    number = np.cumsum(kept) - 1
    inside = kept[left] & kept[right]
    a, b, p = number[left[inside]], number[right[inside]], probability[inside]
    clusters = base.clusters[kept[: base.n]]
    order = np.argsort(clusters, kind="stable")
    same = np.diff(clusters[order]) == 0
    chains = np.stack([order[:-1][same], order[1:][same]], axis=1)
    must = np.concatenate([chains, number[links.must]]).astype(np.int32)
    items = np.flatnonzero(kept)
    component = single_link(len(items), a, b, p, threshold, Constraints(must))
    firsts = np.unique(clusters, return_index=True)[1]
    reachable = links.cannot[kept[links.cannot].all(axis=1)]
    cannot = np.concatenate([_pairs_in(component[firsts], firsts), number[reachable]]).astype(np.int32)
    return Held(items, a.astype(np.int32), b.astype(np.int32), p, must, cannot)


def _pairs_in(component: Array, firsts: Array) -> NDArray[np.int32]:
    """Every two of `firsts` of one component, (m, 2)."""
    order = np.argsort(component, kind="stable")
    members, place = component[order], np.arange(len(order))
    before = place - np.searchsorted(members, members)
    if before.sum() > MOST_APART:
        hang = f"over {MOST_APART:,} pairs of clusters of the base hang together by likely pairs of new records"
        raise SettingError.saying(f"{hang}; the model links too much: raise the clusterer's `threshold`")
    right = np.repeat(place, before)
    ends = np.cumsum(before)
    left = np.arange(len(right)) - np.repeat(ends - before, before) + np.repeat(place - before, before)
    return np.stack([firsts[order[left]], firsts[order[right]]], axis=1).astype(np.int32)


def joined(
    base: Base, n: int, left: Array, right: Array, probability: Array, clusterer: Clusterer, links: Links = NONE
) -> NDArray[np.int32]:
    """The cluster of each of n items, int32 (n,): those of the base as they were, then new ones numbered on."""
    found = held(base, n, left, right, probability, clusterer.threshold, links)
    roomy = with_room(clusterer, len(found.items), found.must) if len(links.must) else clusterer
    clusters = roomy.cluster(len(found.items), found.left, found.right, found.probability, found.must, found.cannot)
    of_base = found.items < base.n
    home = np.full(int(clusters.max(initial=-1)) + 1, -1, np.int64)
    home[clusters[of_base]] = base.clusters[found.items[of_base]]
    fresh = np.flatnonzero(home < 0)  # numbered by their first items, as all clusters are
    home[fresh] = base.n_clusters + np.arange(len(fresh))
    return np.concatenate([base.clusters, home[clusters[~of_base]]]).astype(np.int32)


def closeness(base: Base, n: int, left: Array, right: Array, probability: Array, clusterer: Clusterer) -> Any:
    """(item, cluster, value) of new items and base clusters with a pair: how near the clusterer finds the item alone.

    The best pair, the worst of all, or the mean over all pairs; those not compared count as 0.
    """
    across = left < base.n
    key = right[across].astype(np.int64) * max(base.n_clusters, 1) + base.clusters[left[across]]
    distinct, at, count = np.unique(key, return_inverse=True, return_counts=True)
    item, cluster = np.divmod(distinct, max(base.n_clusters, 1))
    p, sizes = probability[across], np.bincount(base.clusters, minlength=1)[cluster] if len(cluster) else count
    if isinstance(clusterer, SingleLink | BestLink):
        value = np.zeros(len(distinct))
        np.maximum.at(value, at, p)
    elif isinstance(clusterer, CompleteLink):
        value = np.ones(len(distinct))
        np.minimum.at(value, at, p)
        value = np.where(count == sizes, value, 0.0)
    else:
        value = np.bincount(at, p, minlength=len(distinct)) / sizes
    return item, cluster, value


def also_near(near: Any, clusters: Array, threshold: float, n: int) -> NDArray[np.int32]:
    """Of each of n items the nearest base cluster it would have joined, but did not; -1: none."""
    item, cluster, value = near
    other = np.flatnonzero((value > threshold) & (clusters[item] != cluster))
    other = other[np.lexsort((-cluster[other], value[other]))]  # the nearest last; of equals the earlier cluster
    found = np.full(n, -1, np.int32)
    found[item[other]] = cluster[other]
    return found


# -- comparing ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Additions:
    """Base records and then new ones, with the pairs compared; `clusters` (n,) as `joined` numbers them; `also` (n,):
    the next base cluster that a record would have joined, -1: none."""

    items: Mentions
    probability: NDArray[np.float64]
    clusters: NDArray[np.int32]
    also: NDArray[np.int32]


def add(linker: Any, items: Mentions, base: Base, limit: int | None = None) -> Additions:
    """`items` are those of the base and then the new ones, without pairs; `limit`: how many of these there may be."""
    check_training(linker)
    largest = int(np.bincount(base.clusters, minlength=1).max())
    paired = within(limit, items, linker.blocking, linker.n_jobs, after=base.n)
    return added(linker, with_bests(paired, linker.pair_set_.features), base, suited(linker.clusterer_, largest))


def check_training(linker: Any) -> None:
    if linker.training in ("ranking", "combined"):
        what = f"`training={linker.training!r}` goes by the order of all items"
        raise SettingError.saying(
            f"{what}, so a base cannot stay as it is; train a linker with `training='structured'`"
        )


def added(linker: Any, paired: Mentions, base: Base, clusterer: Clusterer) -> Additions:
    """The same of items with their candidate pairs, each of which has a new one."""
    decided = None if linker.rules is None else Decided(as_certain(linker.rules), paired)
    if decided is not None:
        more = decided.with_pairs()  # also of the base alone, which are left out again
        new = more.right >= base.n
        paired = replace(more, left=more.left[new], right=more.right[new], blocked=True)
    probability = linker.predict_proba(paired)
    if linker.closure and clusterer.every_pair:
        paired, probability = _closed(linker, paired, probability, base, min(clusterer.threshold, 0.5))
    pairs = paired.n_items, paired.left, paired.right, probability
    links = NONE if decided is None else _certain(decided.rules, paired, probability, base, clusterer.threshold)
    clusters = joined(base, *pairs, clusterer, links)
    near = closeness(base, *pairs, clusterer)
    return Additions(paired, probability, clusters, also_near(near, clusters, clusterer.threshold, paired.n_items))


def _certain(rules: Any, items: Mentions, probability: Array, base: Base, threshold: float) -> Links:
    """What rules decide about new records; of the base they decide nothing."""
    decided = Decided([rule for rule, _ in rules], items)
    must = _bound(decided, base)
    chains = np.argsort(base.clusters, kind="stable")
    same = np.diff(base.clusters[chains]) == 0
    bound = np.concatenate([np.stack([chains[:-1][same], chains[1:][same]], axis=1), must])
    cannot = decided.apart(probability, threshold, bound)
    cannot = cannot[(cannot >= base.n).any(axis=1)]
    decided.check(bound, cannot)
    return Links(must, cannot)


def _bound(decided: Decided, base: Base) -> NDArray[np.int64]:
    """Must-links of new records with the same certain value: with each other, and with the base cluster that has most
    records of it. A link that would join two base clusters by way of others is left out."""
    home: dict[int, Any] = {}  # of the root of new records that are bound together: their base cluster
    parent = list(range(decided.items.n_items))

    def root(item: int) -> int:
        while parent[item] != item:
            item = parent[item]
        return item

    links = []
    for rule, values in decided.rules:
        if not isinstance(rule, Always):
            continue
        fresh = np.flatnonzero(values[base.n :] >= 0) + base.n
        own = np.flatnonzero(np.isin(values[: base.n], values[fresh]) & (values[: base.n] >= 0))
        places: dict[int, list[int]] = {}
        for item in [*own.tolist(), *fresh.tolist()]:
            places.setdefault(int(values[item]), []).append(item)
        for members in places.values():
            old, new = [i for i in members if i < base.n], [i for i in members if i >= base.n]
            if old:
                count = np.bincount(base.clusters[old])
                old = [next(i for i in old if base.clusters[i] == count.argmax())]
            for a, b in pairwise([*old, *new]):
                at, to = root(a), root(b)
                ours = home.get(at, base.clusters[a] if a < base.n else None)
                theirs = home.get(to)
                if at == to or (ours is not None and theirs is not None and ours != theirs):
                    continue
                links.append((a, b))
                parent[to] = at
                home[at] = theirs if ours is None else ours
    return np.array(links, np.int64).reshape(-1, 2)


def suited(clusterer: Clusterer, largest: int) -> Clusterer:
    """Those of two tables do not join new records with each other: average link does, at the same threshold.

    largest   how many records the largest cluster of the base has
    """
    if isinstance(clusterer, OneToOne | OneToMany):
        clusterer = AverageLink(threshold=clusterer.threshold, max_size=clusterer.max_size)
    if clusterer.max_size is not None and largest > clusterer.max_size:
        message = "the base has a cluster of %d records, where clusters have %d at most: no limit is kept to"
        log.warning(message, largest, clusterer.max_size)
        clusterer = type(clusterer)(**{**clusterer.get_params(), "max_size": None})
    return clusterer


def _closed(
    linker: Any, items: Mentions, probability: Array, base: Base, threshold: float
) -> tuple[Mentions, NDArray[np.float64]]:
    """With the pairs of new records inside likely clusters that blocking left out, so that they do not count as no."""
    for _ in range(ROUNDS):
        found = held(base, items.n_items, items.left, items.right, probability, threshold)
        rules = Constraints(found.must, found.cannot)
        likely = agglomerate(len(found.items), found.left, found.right, found.probability, "compared", threshold, rules)
        missing = _missing(found, likely, base, items)
        if not len(missing):
            break
        more = replace(items, left=(sides := pairs_of(missing))[0], right=sides[1], blocked=True)
        keys = np.concatenate([pair_keys(items.left, items.right), missing])
        order = np.argsort(keys, kind="stable")
        probability = np.concatenate([probability, linker.predict_proba(more)])[order]
        left, right = pairs_of(keys[order])
        items = replace(items, left=left, right=right, blocked=True)
    return items, probability


def _missing(found: Held, likely: Array, base: Base, items: Mentions) -> NDArray[np.int64]:
    """Keys of pairs within likely clusters, of a new record, that were not compared; rising."""
    sizes = np.bincount(likely, minlength=1)
    new = np.bincount(likely, found.items >= base.n, minlength=1).astype(np.int64)
    looked_into = (sizes > 1) & (new > 0) & (new * sizes <= MOST)
    too_large = int(((sizes > 1) & (new * sizes > MOST)).sum())
    if too_large:
        message = "%d likely clusters have over %d pairs of new records; those that blocking left out count as no"
        log.warning(message, too_large, MOST)
    order = np.argsort(likely, kind="stable")
    order = order[looked_into[likely[order]]]
    starts = np.flatnonzero(np.diff(likely[order], prepend=-1))
    keys = [np.empty(0, np.int64)]
    for members in np.split(found.items[order], starts[1:]) if len(order) else ():
        a, b = np.triu_indices(len(members), 1)
        later = members[b] >= base.n
        keys.append(pair_keys(members[a[later]], members[b[later]]))
    return np.setdiff1d(np.concatenate(keys), pair_keys(items.left, items.right))


# -- tables in and out --------------------------------------------------------------------------------


def link_frames(
    linker: Any,
    new: Any,
    base: Any,
    id: str | None,
    columns: tuple[str, str, str],
    pairs: bool,
    least: float,
    into: Any,
    limit: int | None,
) -> Any:
    """What `Linker.link` answers."""
    if linker.engine is not None and not linker.engine.in_memory:
        from kinfolk.linking.link_in_engine import link_frames_in

        if pairs:
            raise SettingError.saying("`pairs` cannot be had from an engine; leave it out, or the engine")
        return link_frames_in(linker.engine, linker, new, base, id, columns, into, limit)
    refuse_files((new, base), into)
    if not 0 <= least <= 1:
        raise SettingError("least", least, "a probability from 0 to 1")
    given, old = opened(new, "new"), opened(base, "base")
    given.check_free(False, cluster=columns[0])  # the base has the name too
    given.check_free(cluster=columns[0], probability=columns[1], also=columns[2])
    names, whole = _named_clusters(old.readable, columns[0])
    own = Base(numbered(names))
    both = records_for(linker, old.readable, given.readable, id)
    _check_apart(both, id)
    found = add(linker, replace(both, first_table=None), own, limit)
    fresh = slice(own.n, None)
    shown = _cluster_names(found, own, names, whole)
    also = [None if k < 0 else str(shown[k]) for k in found.also[fresh]]
    _tell(found, own, also)
    values = [shown[k] for k in found.clusters[fresh]]
    surely = membership(found.items, found.probability, found.clusters)[fresh]
    kept: Values = np.array(values, np.int64) if whole else [str(one) for one in values]
    answer = given.with_columns({columns[0]: kept, columns[1]: surely, columns[2]: also})
    if not pairs:
        return answer
    return answer, pair_frame(given, found.items, found.probability, found.clusters, least)


def _named_clusters(base: Any, column: str) -> tuple[list[str], bool]:
    """The cluster of each record of the base, as a name; and whether they are whole numbers: by their type, or floats
    as pandas makes of these."""
    table = frame_table(base, "base")
    found = table.column(column, "cluster")
    names = table.names(column, "cluster")
    if None in names:
        raise table.fault(no_cluster(column), names.index(None))
    if found.kind == "number":
        values = np.asarray(found.values, np.float64)
        odd = np.flatnonzero((np.floor(values) != values) | (np.abs(values) > EXACT))
        if len(odd):
            raise table.fault(odd_cluster(column, float(values[odd[0]])), int(odd[0]))
    return [str(name) for name in names], found.kind in ("whole", "number") or not names


def no_cluster(column: str) -> str:
    return f"no cluster in column {column!r}: every record of the base must be in one"


def odd_cluster(column: str, value: float) -> str:
    """Of a float that is not whole, or so large that others are lost between it and the next."""
    remedy = "turn clusters into whole numbers or strings"
    return f"the cluster in column {column!r} is {value!r}, and floats must be whole, up to {EXACT}; {remedy}"


def _check_apart(both: Mentions, id: str | None) -> None:
    """Ids that both tables have were given the tables' words: a record cannot be new and in the base."""
    first, names = both.first_table or 0, both.names or ()
    if id is None or not 0 < first < len(names) or not str(names[0]).startswith("first:"):
        return
    old = {str(name).removeprefix("first:") for name in names[:first]}
    twice = [key for name in names[first:] if (key := str(name).removeprefix("second:")) in old]
    if twice:
        more = f", and so have {len(twice) - 1:,} others" if len(twice) > 1 else ""
        raise InputError(
            f"new: the record {twice[0]!r} is in the base already{more}; leave it out, or give it another id"
        )


def _cluster_names(found: Additions, base: Base, names: list[str], whole: bool) -> list[Any]:
    """What each cluster is called: as in the base; new ones by the next numbers where all are whole numbers, else by
    the id of their first record."""
    shown: list[Any] = list(dict.fromkeys(names))
    n_new = int(found.clusters.max(initial=-1)) + 1 - base.n_clusters
    if all(WHOLE.fullmatch(name) for name in shown):
        first = max([-1, *map(int, shown)]) + 1
        numbers = [*map(int, shown), *range(first, first + n_new)]
        return numbers if whole else [*shown, *map(str, numbers[len(shown) :])]
    taken = {*shown}
    firsts = np.unique(found.clusters, return_index=True)[1][base.n_clusters :]
    for item in firsts.tolist():
        name = found.items.name(item)
        shown.append(next(one for k in range(len(taken) + 1) if (one := f"{name}_{k}" if k else name) not in taken))
        taken.add(shown[-1])
    return shown


def _tell(found: Additions, base: Base, also: list[str | None]) -> None:
    """How many new records joined the base, and how many would have joined two of its clusters."""
    new = found.clusters[base.n :]
    joining = int((new < base.n_clusters).sum())
    fresh = int(found.clusters.max(initial=-1)) + 1 - base.n_clusters
    log.info("%d of %d new records join the base; the others make %d new clusters", joining, len(new), fresh)
    between = [k for k, one in enumerate(also) if one is not None]
    if between:
        name = found.items.name(base.n + between[0])
        records = f"{len(between)} new record{'s' * (len(between) != 1)}"
        log.warning(
            "%s would have joined two clusters of the base and took the better, such as %r, near %s too",
            *(records, name, also[between[0]]),
        )
