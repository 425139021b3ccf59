"""What a Linker may be set to, and what it can learn from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.mentions import Mentions
from kinfolk.data.pair_labels import PairLabels
from kinfolk.errors import InputError, SettingError
from kinfolk.models.bias import Bias
from kinfolk.models.link_scores import METRICS_OF_PAIRS, labelled_pairs_after, metric

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


def check_items(items: Any) -> None:
    if not isinstance(items, Mentions):
        told = f"expected Mentions (read_coref, read_records); got {type(items).__name__}"
        is_frame = hasattr(items, "columns")
        raise InputError(told + ("; for a data frame: kf.records_from_frames(df, cluster=...)" if is_frame else ""))


def check_linker(linker: Any, items: Any) -> None:
    check_items(items)
    for name, allowed in linker.CHOICES.items():
        if getattr(linker, name) not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {getattr(linker, name)!r}")
    if linker.bias is not None:
        if not isinstance(linker.bias, Bias):
            raise SettingError(f'bias must be None or Bias("all" or "closest", factor); got {linker.bias!r}')
        linker.bias.check()
    if not isinstance(linker.rounds, int | np.integer) or linker.rounds < 1:
        raise SettingError(f"rounds must be 1 or more; got {linker.rounds!r}")
    if linker.folds is not None and not (isinstance(linker.folds, int | np.integer) and linker.folds > 1):
        raise SettingError(f"folds must be 2 or more, or None; got {linker.folds!r}")
    for name, least in (("l2", 0), ("tolerance", 0), ("max_iterations", 1)):
        value = getattr(linker, name)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= least:
            raise SettingError(f"{name} must be a number, {least} or more; got {value!r}")
    if not selected(linker):
        raise SettingError("select must name a metric, such as 'pair_f1'; got none")
    for name in selected(linker):
        metric(name)


def selected(linker: Any) -> list[str]:
    """The metrics of `select`, the first of which chooses."""
    return [linker.select] if isinstance(linker.select, str) else list(linker.select)


class Lesson(NamedTuple):
    """What a linker learns from.

    items    with candidate pairs, and with clusters as far as they are known
    labels   int8 (P,): 1 or 0, and -1 for pairs that teach nothing
    value    a metric by name -> a number for clusters of the items
    whole    the items that statistics of comparisons are learned from
    """

    items: Mentions
    labels: NDArray[np.int8]
    value: Callable[[str], Callable[[Array], float]]
    whole: Mentions


def lesson_of_clusters(items: Mentions) -> Lesson:
    """Every candidate pair of two items whose clusters are known teaches."""
    known = trainable(items)
    return Lesson(known, known.pair_labels, lambda name: lambda clusters: metric(name)(known, clusters), items)


def lesson_of_pairs(items: Mentions, labels: PairLabels) -> Lesson:
    """Labelled pairs alone teach, candidates or not; clusters are those that matches join."""
    _check_both(labels)
    keys, own = (
        right.astype(np.int64) << 32 | left for left, right in ((items.left, items.right), (labels.left, labels.right))
    )
    added = int((~np.isin(own, keys)).sum())
    if added:
        log.info("%d of %d labelled pairs are no candidates; for training they are added to them", added, len(labels))
    if items.clusters is not None:
        log.warning("the records have clusters, but only the %d labelled pairs teach", len(labels))
    every = np.union1d(keys, own)
    taught = np.full(len(every), -1, np.int8)
    taught[np.searchsorted(every, own)] = labels.match
    told = "%d matches and %d others teach; of %d other candidate pairs nothing is known"
    log.info(told, labels.n_yes, len(labels) - labels.n_yes, len(every) - len(labels))
    left, right = (every & 0xFFFFFFFF).astype(np.int32), (every >> 32).astype(np.int32)
    known = replace(items, left=left, right=right, blocked=True, clusters=labels.joined(items.n_items))

    def value(name: str) -> Callable[[Array], float]:
        if name not in METRICS_OF_PAIRS:
            wanted = " or ".join(map(repr, METRICS_OF_PAIRS))
            raise SettingError(
                f"select must be {wanted} where labelled pairs teach: no clusters are known; got {name!r}"
            )
        return lambda clusters: METRICS_OF_PAIRS[name](labelled_pairs_after(labels, clusters))

    return Lesson(known, taught, value, known)


def _check_both(labels: PairLabels) -> None:
    n, yes = len(labels), labels.n_yes
    if not n:
        raise InputError("no labelled pair says yes or no, so there is nothing to learn from; label some")
    if not yes:
        raise InputError(
            f"none of {n} labelled pairs is a match; label some that are, candidates that look alike first"
        )
    if yes == n:
        told = f"all {n} labelled pairs are matches, so nothing tells them from others"
        remedy = "label candidates that are no matches too, those that look alike first"
        whole = "should these be all the matches there are, read the records with them, truth=..."
        raise InputError(f"{told}; {remedy}; {whole}")


def trainable(items: Mentions) -> Mentions:
    """The items with known clusters, if their pairs can teach anything."""
    if items.clusters is None:
        remedy = "give cluster=... or truth=... to read_records, or labelled pairs to fit, pairs=..."
        raise InputError(f"training needs items with true clusters; {remedy}")
    known = items.clusters >= 0
    if not known.all():
        log.info("%d items without a known cluster are left out of training", int((~known).sum()))
    kept = items if known.all() else items.take(known)
    if not kept.n_pairs:
        raise InputError("no candidate pair to learn from; choose wider blocking rules")
    labels = kept.pair_labels
    if not (labels == 1).any() or not (labels == 0).any():
        which = "a true link" if not (labels == 1).any() else "two different entities"
        raise InputError(f"none of {kept.n_pairs} candidate pairs is {which}; look at blocking and truth")
    return kept


def item_pairs(items: Mentions, given: Any) -> Any:
    """Pairs of item numbers from pairs of numbers or names; None stays None."""
    if given is None:
        return None
    return np.array([[items.number(one) for one in pair] for pair in np.asarray(given).tolist()], np.int64).reshape(
        -1, 2
    )
