"""What a Linker gains by training for clusters over deciding pairs alone, cross-fitted, with the same clusterer.

The local model has its threshold chosen by folds of what it is trained on: at a threshold of 0.5 it may be far from its
best, and a gain over that would be one of thresholds.

Documents are dealt to folds whole where there are enough, else true clusters are: records of those held out are linked
among each other. By pair F1 after clustering, whose sums go item by item: of an item, those that are with it in its
true cluster, in its predicted one, in both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.errors import GainWarning, SettingError, warn
from kinfolk.learning.gain import Counted, Gain, check_units, folds_by_name, in_silence
from kinfolk.linking.clusterers import AverageLink, Clusterer
from kinfolk.linking.mentions import Mentions

Array = NDArray[Any]
FOLDS = 5  # that the threshold of the local model is chosen by, unless the model has some


def linker_gain(model: Any, items: Mentions, complete: bool) -> Gain | None:
    """Of a Linker trained on items; None where it is trained to decide pairs, or `guard` is None. `complete`: whether
    their clusters are known, not a few pairs alone."""
    if model.guard is None or model.training == "local":
        return None
    if not complete or items.clusters is None:
        raise SettingError.saying(f"`guard={model.guard}` needs true clusters, and there are no true clusters")
    unit, fold = _folds(items, model.guard, model.random_state)
    by, counted = items.groups if unit == "documents" else items.clusters, Counted()
    as_local = {"training": "local", "clusterer": _local_clusterer(model), "folds": _folds_of(model)}
    with in_silence():
        for number in range(model.guard):
            held, rest = items.take(fold == number), items.take(fold != number)

            def count() -> list[Any]:
                both = [one.fit(rest).predict(held) for one in (model._anew(**as_local), model._anew())]  # noqa: B023
                local, own = (unit_counts(held, clusters, by[fold == number]) for clusters in both)  # noqa: B023
                return [local, own, int((both[0] != both[1]).sum())]  # clusters are numbered by their first items

            counted.add(*running().step("guard").once(count))
    return counted.gain("pair F1", unit, model.guard)


def _folds_of(model: Any) -> int:
    return model.folds if isinstance(model.folds, int) else FOLDS


def _local_clusterer(model: Any) -> Clusterer:
    """That of the model; average link in the place of one that takes shares of antecedents, which pairs have not."""
    own: Clusterer = model.clusterer if isinstance(model.clusterer, Clusterer) else model.clusterer_
    return AverageLink() if own.of_shares else own


def _folds(items: Mentions, folds: int, seed: int | None) -> tuple[str, Array]:
    """The unit, and the fold of each item, -1 where its cluster is not known."""
    assert items.clusters is not None
    known, by_document = items.clusters >= 0, items.n_groups >= folds
    unit, by = ("documents", items.groups) if by_document else ("clusters", items.clusters)
    check_units(folds, len(np.unique(by[known])), unit)
    if not by_document and (items.corpus is not None or items.n_groups > 1):
        warn(
            f"`guard={folds}` needs as many documents; got {items.n_groups}: true clusters are dealt to folds, so that "
            "both models have seen other mentions of a document that they are measured on",
            GainWarning,
        )
    _, number = np.unique(by, return_inverse=True)
    # A document goes by its name, a cluster by those of its items.
    names = [items.group_name(g) if by_document else items.name(i) for i, g in enumerate(items.groups.tolist())]
    first: dict[int, str] = {}
    for one, name in zip(number.tolist(), names, strict=True):
        first[one] = min(first.get(one, name), name)
    ordered = [first[one] for one in range(len(first))]
    return unit, folds_by_name(ordered, np.where(known, 0, -1), number, folds, seed)


def unit_counts(items: Mentions, clusters: Array, unit: Array) -> Array:
    """(units, 2), twice the pairs rightly together and those together in truth or prediction, each once an item of it;
    with two tables only pairs across them. Units are in the order of their numbers."""
    assert items.clusters is not None
    known = items.clusters >= 0
    truth, found, unit = items.clusters[known], np.asarray(clusters)[known], unit[known]
    side = np.arange(items.n_items)[known] < (items.first_table or 0)
    both = np.stack([truth, found], axis=1)
    true, guess, right = (_others(of, side, items.first_table) for of in (truth[:, None], found[:, None], both))
    numbers = np.unique(unit, return_inverse=True)[1]
    n = int(numbers.max(initial=-1)) + 1
    return np.stack([np.bincount(numbers, of, n) for of in (2 * right, true + guess)], axis=1)


def _others(keys: Array, side: NDArray[np.bool_], first_table: int | None) -> Array:
    """For each item how many others have its key, a row of `keys`; with two tables, how many of the other table."""
    place = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    sizes = np.bincount(place)
    if first_table is None:
        return np.asarray(sizes[place] - 1)
    ours = np.bincount(place[side], minlength=len(sizes))
    return np.where(side, (sizes - ours)[place], ours[place])
