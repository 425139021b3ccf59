"""What a Linker may be set to, and what it can learn from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.inference.clustering import single_link
from kinfolk.linking.bias import Bias
from kinfolk.linking.blocking import BlockingReport, as_rules
from kinfolk.linking.link_scores import METRICS_OF_PAIRS, Metric, labelled_pairs_after, metric
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pair_labels import PairLabels
from kinfolk.linking.pair_table import MAX_BINS

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


def check_items(items: Any) -> None:
    if not isinstance(items, Mentions):
        told = f"expected Mentions (read_coref, read_records); got {type(items).__name__}"
        is_frame = hasattr(items, "columns")
        raise InputError(told + ("; for a data frame: kf.records_from_frames(df, cluster=...)" if is_frame else ""))


def check_linker(linker: Any, items: Any) -> None:
    check_items(items)
    if items.n_items < 2:
        raise InputError(f"training needs pairs of items; got {items.n_items or 'none'}: is the table empty?")
    check_linker_settings(linker)


def check_linker_settings(linker: Any) -> None:
    """Raise a SettingError for the first setting outside its range."""
    for name, allowed in linker.CHOICES.items():
        if getattr(linker, name) not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {getattr(linker, name)!r}")
    if linker.bias is not None:
        if not isinstance(linker.bias, Bias):
            raise SettingError(f'bias must be None or Bias("all" or "closest", factor); got {linker.bias!r}')
        linker.bias.check()
    if not isinstance(linker.rounds, int | np.integer) or linker.rounds < 1:
        raise SettingError(f"rounds must be 1 or more; got {linker.rounds!r}")
    if not isinstance(linker.bins, int | np.integer) or not 1 <= linker.bins <= MAX_BINS:
        raise SettingError(f"bins must lie between 1 and {MAX_BINS}; got {linker.bins!r}")
    if linker.folds is not None and not (isinstance(linker.folds, int | np.integer) and linker.folds > 1):
        raise SettingError(f"folds must be 2 or more, or None; got {linker.folds!r}")
    for name, least in (("l2", 0), ("tolerance", 0), ("max_iterations", 1)):
        value = getattr(linker, name)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= least:
            raise SettingError(f"{name} must be a number, {least} or more; got {value!r}")
    if not isinstance(linker.closure, bool | np.bool_):
        raise SettingError(f"closure must be True or False; got {linker.closure!r}")
    if not selected(linker):
        raise SettingError("select must name a metric, such as 'pair_f1'; got none")
    for name in selected(linker):
        try:
            metric(name)
        except SettingError as error:
            raise SettingError(f"select: {error}") from None


def selected(linker: Any) -> list[str]:
    """The metrics of `select`, the first of which chooses."""
    return [linker.select] if isinstance(linker.select, str) else list(linker.select)


class Supervision(NamedTuple):
    """What a linker learns from.

    items      with candidate pairs, and with clusters as far as they are known
    labels     of the pairs of these items, candidates or others: int8 (P,), 1 or 0, and -1 where nothing is known
    value      a metric by name -> a number for clusters of the items
    whole      the items that statistics of comparisons are learned from
    complete   whether the clusters are known, not a few pairs alone
    """

    items: Mentions
    labels: Callable[[Mentions], NDArray[np.int8]]
    value: Callable[[str], Metric]
    whole: Mentions
    complete: bool


def supervision_of_clusters(items: Mentions) -> Supervision:
    """Every candidate pair of two items whose clusters are known teaches."""
    known = trainable(items)
    truth = np.asarray(known.clusters)

    def value(name: str) -> Metric:
        def of(clusters: Array, kept: Array | None = None) -> float:
            part = known if kept is None else replace(known, clusters=np.where(kept, truth, -1))
            return metric(name)(part, clusters)

        return of

    return Supervision(known, lambda items: items.pair_labels, value, items, True)


def supervision_of_pairs(items: Mentions, labels: PairLabels) -> Supervision:
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
    told = "%d matches and %d others teach; of %d other candidate pairs nothing is known"
    log.info(told, labels.n_yes, len(labels) - labels.n_yes, len(every) - len(labels))
    left, right = (every & 0xFFFFFFFF).astype(np.int32), (every >> 32).astype(np.int32)
    known = replace(items, left=left, right=right, blocked=True, clusters=labels.joined(items.n_items))

    def labels_of(items: Mentions) -> NDArray[np.int8]:
        keys = items.right.astype(np.int64) << 32 | items.left
        at = np.minimum(np.searchsorted(own, keys), len(own) - 1)
        return np.where(own[at] == keys, labels.match[at], -1).astype(np.int8)

    def value(name: str) -> Metric:
        if name not in METRICS_OF_PAIRS:
            wanted = " or ".join(map(repr, METRICS_OF_PAIRS))
            raise SettingError(
                f"select must be {wanted} where labelled pairs teach: no clusters are known; got {name!r}"
            )

        def of(clusters: Array, kept: Array | None = None) -> float:
            part = labels if kept is None else labels.take(kept[labels.left] & kept[labels.right])
            return METRICS_OF_PAIRS[name](labelled_pairs_after(part, clusters))

        return of

    return Supervision(known, labels_of, value, known, False)


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


LOW_COMPLETENESS = 0.9  # share of true pairs within reach below which blocking is warned of


def warn_of_blocking(items: Mentions, rules: Any, report: BlockingReport | None) -> None:
    """Warn where blocking leaves many true pairs out of reach: not candidates, nor joined through other records."""
    if items.clusters is None or not items.n_true_pairs:
        return
    true = items.pair_labels == 1
    joined = single_link(items.n_items, items.left[true], items.right[true], np.ones(int(true.sum())))
    share = replace(items, clusters=joined).n_true_pairs / items.n_true_pairs
    if share >= LOW_COMPLETENESS:
        return
    if report is not None:
        parts = [f"{one.rule} {100 * (one.n_true or 0) / items.n_true_pairs:.1f} %" for one in report.rules]
        told = f" ({', '.join(parts)} by itself)" if len(parts) == 1 else f" ({', '.join(parts)} each by itself)"
    else:
        told = "" if rules is None else f" ({', '.join(map(str, as_rules(rules)))})"
    warn(
        f"blocking{told} puts only {100 * share:.1f} % of the true pairs of the training data within reach, directly "
        "or through other records; no model can link the rest: add a rule for them, such as "
        "'sorted(name, 10)' or 'rare(name, 50)'",
        DataWarning,
    )


def item_pairs(items: Mentions, given: Any) -> Any:
    """Pairs of item numbers from pairs of numbers or names; None stays None."""
    if given is None:
        return None
    return np.array([[items.number(one) for one in pair] for pair in np.asarray(given).tolist()], np.int64).reshape(
        -1, 2
    )
