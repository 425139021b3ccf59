"""What a Linker can learn from: true clusters, labels of some pairs, or nothing but the records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.inference.clustering import single_link
from kinfolk.linking.blocking import BlockingReport, as_rules, wide_rules
from kinfolk.linking.mentions import Mentions, pair_keys, pairs_of
from kinfolk.linking.pair_labels import PairLabels
from kinfolk.linking.pairs import PairFeature
from kinfolk.linking.probabilities import RANKS
from kinfolk.linking.scores import METRICS_OF_PAIRS, Metric, labelled_pairs_after, metric
from kinfolk.linking.some_clusters import clusters_and_pairs, corrected, few_known, labels_of_clusters
from kinfolk.linking.training import sigmoid
from kinfolk.linking.unlabelled import MANY_LEFT_OUT, NO_EVIDENCE, WEAK, Agreement, FieldMatches, Guess, field_matches

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


class Supervision(NamedTuple):
    """What a linker learns from.

    items      with candidate pairs, and with clusters as far as they are known
    labels     of the pairs of these items, candidates or others: int8 (P,), 1 or 0, and -1 where nothing is known
    value      a metric by name -> a number for clusters of the items
    whole      the items that statistics of comparisons are learned from
    complete   whether the clusters are known, not a few pairs alone
    guess      clusters by how far fields agree, where true ones are not known
    """

    items: Mentions
    labels: Callable[[Mentions], NDArray[np.int8]]
    value: Callable[[str], Metric]
    whole: Mentions
    complete: bool
    guess: Guess | None = None
    uncertain: PairLabels | None = None  # labels of which some are probabilities
    several: str | None = None  # what the labels are from, if clusters of a few records or pairs beside clusters are
    sure: NDArray[np.bool_] | None = None  # the items whose clusters are known, not joined by pairs alone; None: all

    @property
    def known(self) -> Mentions:
        """The items whose clusters are known as a whole: what pairs alone join may belong to more."""
        return self.items if self.sure is None else self.items.take(self.sure)

    @property
    def source(self) -> str:
        """What the labels are from: clusters, pairs or, without any, the records themselves."""
        if self.several is not None:
            return self.several
        return "clusters" if self.complete else "pairs" if self.guess is None or self.guess.labelled else "records"

    @property
    def moves_guess(self) -> bool:
        """Whether labels, a few, move what the guess teaches."""
        return self.guess is not None and self.guess.labelled

    def certainty(self, items: Mentions) -> NDArray[np.float64] | None:
        """How certain the labels of the pairs of these items are; None: all are."""
        if self.uncertain is None or self.uncertain.probability is None:
            return None
        return self.uncertain.looked_up(self.uncertain.certainty, items.left, items.right, 1.0)

    def likely(self, items: Mentions) -> NDArray[np.int8]:
        """Labels of the pairs of these items; where nothing is known for certain, those of the guess."""
        labels, certainty = self.labels(items), self.certainty(items)
        if self.guess is None:
            return labels
        if certainty is not None:
            labels = np.where(certainty == 1.0, labels, np.int8(-1))
        together = replace(items, clusters=self.guess.items.clusters).pair_labels
        return np.where(labels >= 0, labels, together).astype(np.int8)


def check_items(items: Any) -> None:
    if not isinstance(items, Mentions):
        remedy = "; for a data frame: `kf.records_from_frames(df, cluster=...)`" if hasattr(items, "columns") else ""
        raise InputError(f"expected Mentions (read_coref, read_records); got {type(items).__name__}{remedy}")


def check_pairs(items: Mentions, labels: PairLabels | None, training: str) -> None:
    if labels is not None and training in RANKS and not all_known(items):
        remedy = "give the records their clusters, or train otherwise: `training='local'`"
        what = f"`training={training!r}` has to know the clusters, and labelled pairs are not enough"
        raise SettingError.saying(f"{what}: a record without a known match may have one; {remedy}")


def all_known(items: Mentions) -> bool:
    """Whether the cluster of every item is known."""
    return items.clusters is not None and bool((items.clusters >= 0).all())


def check_enough(items: Mentions) -> None:
    if items.n_items < 2:
        what = "a table of one record" if items.n_items else "an empty table"
        raise InputError(f"training needs pairs of items, and there are none in {what}")


Matcher = Callable[[Mentions, Sequence[PairFeature], int], FieldMatches]


def supervised(
    items: Mentions,
    labels: PairLabels | None,
    features: Callable[[Mentions], Sequence[PairFeature]],
    n_jobs: int,
    match: Matcher = field_matches,
    few: bool = True,
) -> Supervision:
    """What there is to learn from; records whose clusters are not known are guessed first, by the comparisons that
    `features` gives for items.

    Comparisons learn their statistics twice, here and in `Linker.fit`: how often a value occurs is counted in records
    for the guess, which knows no clusters, and then once a cluster (`entities_of`), as with true ones.

    few   whether clusters of a few records may be labels of pairs, which move the guess
    """
    if labels is not None and items.clusters is not None and not (items.clusters >= 0).any():
        items = replace(items, clusters=None)
    if few and few_known(items, labels) and Agreement.of(features(items)).fields:
        said = labels_of_clusters(items, labels)
        taught = supervised(replace(items, clusters=None), said, features, n_jobs, match)
        return taught._replace(several="some clusters" if labels is None else "some clusters and pairs")
    if items.corpus is not None or items.clusters is not None:
        return supervision_of_clusters(items) if labels is None else supervision_of_both(items, labels)
    if labels is None:
        return supervision_of_guess(match(items, features(items), n_jobs).guess())
    labels = labels.without_contradictions(items.n_items)
    check_some(labels)
    # labels have no part in what fields say, unless there are no other pairs
    bare = items if items.n_pairs else replace(supervision_of_pairs(items, labels).items, clusters=None)
    compared = features(bare)
    if Agreement.of(compared).fields:
        return supervision_moving(match(bare, compared, n_jobs).guess(labels), labels)
    check_both(labels)  # nothing but labels to learn from
    return supervision_of_pairs(items, labels)


def supervision_moving(guess: Guess, labels: PairLabels) -> Supervision:
    """A few labels, which move what the guess teaches: all else is learned from the guess as without them, so labels
    that agree with it change nothing."""
    taught = supervision_of_pairs(replace(guess.items, clusters=None), labels)
    items = replace(taught.items, clusters=guess.items.clusters)
    return taught._replace(items=items, whole=guess.items, guess=guess)


def supervision_of_clusters(items: Mentions) -> Supervision:
    """Every candidate pair of two items whose clusters are known teaches."""
    known = trainable(items)
    return Supervision(known, lambda items: items.pair_labels, partial(value_of_clusters, known), items, True)


def value_of_clusters(known: Mentions, name: str) -> Metric:
    """A metric of clusters of items whose true ones are known; `kept`: of these alone."""
    truth = np.asarray(known.clusters)

    def of(clusters: Array, kept: Array | None = None) -> float:
        if kept is None:
            return metric(name)(known, clusters)
        first = None if known.first_table is None else int(kept[: known.first_table].sum())
        none = np.empty(0, np.int32)
        part = Mentions({}, known.groups[kept], none, none, clusters=truth[kept], first_table=first)
        return metric(name)(part, clusters[kept])

    return of


def supervision_of_both(items: Mentions, labels: PairLabels) -> Supervision:
    """Clusters teach, and labelled pairs of records whose clusters are not known; clusters are measured by those that
    are known."""
    if all_known(items):
        corrected(items, labels)  # for its warning: there is nothing that labels could add
        return supervision_of_clusters(items)
    whole = clusters_and_pairs(items, labels)
    if not whole.n_labels:
        return supervision_of_clusters(items)
    log.info("%d labelled pairs of records without a known cluster teach, too", whole.n_labels)
    taught = whole.taught()
    check_teach(taught.items, taught.labels(taught.items))

    def value(name: str) -> Metric:
        by = value_of_clusters(taught.items, name)
        return lambda clusters, kept=None: by(clusters, taught.known if kept is None else taught.known & kept)  # type: ignore[misc]

    names = "clusters and pairs"
    return Supervision(taught.items, taught.labels, value, whole.items, True, None, taught.extra, names, taught.known)


def supervision_of_guess(guess: Guess) -> Supervision:
    """Nothing is known but what the fields of the records say."""
    items = guess.items
    labels = items.pair_labels
    log.warning(
        "no labels are given: learned from the records alone, of which %s. How good that is cannot be known without "
        "labels; `ActiveLinker`, or `kinfolk records label` in a shell, asks for the most useful ones",
        guess,
    )
    if guess.chance > NO_EVIDENCE:
        why = "chance alone makes as many pairs agree so closely: there may be no duplicates, or too few fields"
        log.warning("%s. Nothing is linked; labels of some pairs (`pairs=...`) would decide", why)
    elif guess.chance > WEAK:
        share = f"{100 * guess.chance:.0f}"
        log.warning("chance makes %s pairs agree as closely as the closest 100 matches do: check some", share)
    elif not (labels == 1).any():
        log.warning("no two records agree closely enough for a match: every record is a cluster of its own")
    elif guess.left_out > MANY_LEFT_OUT:
        why = "pairs that agree as closely as these matches do are more frequent outside the candidate pairs"
        log.warning("%s: the fields are too few to tell records apart, or blocking is too narrow; check some", why)

    def value(name: str) -> Metric:
        return lambda clusters, kept=None: metric(name)(items, clusters)  # type: ignore[misc]

    return Supervision(items, lambda items: items.pair_labels, value, items, False, guess)


def supervision_of_pairs(items: Mentions, labels: PairLabels) -> Supervision:
    """Labelled pairs alone teach, candidates or not; clusters are those that matches join."""
    keys, own = pair_keys(items.left, items.right), pair_keys(labels.left, labels.right)
    added = int((~np.isin(own, keys)).sum())
    if added:
        log.info("%d of %d labelled pairs are no candidates; for training they are added to them", added, len(labels))
    every = np.union1d(keys, own)
    message = "%d matches and %d others teach; of %d other candidate pairs nothing is known"
    log.info(message, labels.n_yes, len(labels) - labels.n_yes, len(every) - len(labels))
    left, right = pairs_of(every)
    known = replace(items, left=left, right=right, blocked=True, clusters=labels.joined(items.n_items))

    def labels_of(items: Mentions) -> NDArray[np.int8]:
        return labels.looked_up(labels.match, items.left, items.right, -1).astype(np.int8)

    def value(name: str) -> Metric:
        if name not in METRICS_OF_PAIRS:
            wanted = " or ".join(map(repr, METRICS_OF_PAIRS))
            raise SettingError("select", name, f"{wanted} where labelled pairs teach: no clusters are known")

        def of(clusters: Array, kept: Array | None = None) -> float:
            part = labels if kept is None else labels.take(kept[labels.left] & kept[labels.right])
            return METRICS_OF_PAIRS[name](labelled_pairs_after(part, clusters))

        return of

    return Supervision(known, labels_of, value, known, False, None, labels)


def check_some(labels: PairLabels) -> None:
    if not len(labels):
        raise InputError("no labelled pair says yes or no, so there is nothing to learn from; label some")


def check_both(labels: PairLabels) -> None:
    """Labels that alone teach have to say yes and no."""
    n, yes = len(labels), labels.n_yes
    if not yes:
        remedy = "label some that are, candidates that look alike first"
        raise InputError(f"none of {n} labelled pairs is a match; {remedy}")
    if yes == n:
        remedy = "label candidates that are no matches too, those that look alike first"
        whole = "should these be all the matches there are, read the records with them, `truth=...`"
        raise InputError(f"all {n} labelled pairs are matches, so nothing tells them from others; {remedy}; {whole}")


def trainable(items: Mentions) -> Mentions:
    """The items with known clusters, if their pairs can teach anything."""
    if items.clusters is None:
        remedy = "give `cluster=...` or `truth=...` to read_records, or labelled pairs to fit, `pairs=...`"
        raise InputError(f"training needs items with true clusters; {remedy}")
    known = items.clusters >= 0
    if not known.all():
        log.info("%d items without a known cluster are left out of training", int((~known).sum()))
    kept = items if known.all() else items.take(known)
    check_teach(kept, kept.pair_labels)
    return kept


def check_teach(items: Mentions, labels: NDArray[np.int8]) -> None:
    """Some pairs have to be links, and some none."""
    if not items.n_pairs:
        raise InputError("no candidate pair to learn from; choose wider blocking rules")
    if not (labels == 1).any() or not (labels == 0).any():
        which = "a true link" if not (labels == 1).any() else "two different entities"
        raise InputError(f"none of {items.n_pairs} candidate pairs is {which}; look at blocking and truth")


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
        named = f" ({', '.join(parts)}{' each' * (len(parts) > 1)} by itself)"
    else:
        named = "" if rules is None else f" ({', '.join(map(str, as_rules(rules)))})"
    warn(
        f"blocking{named} puts only {100 * share:.1f} % of the true pairs of the training data within reach, directly "
        f"or through other records; no model can link the rest: add a rule for them, such as {wide_rules(items)}",
        DataWarning,
    )


ALIKE = 0.1  # log-odds that lie within so little are the same for all that matters


def warn_of_one_answer(score: Array) -> None:
    """Warn where a trained model does not distinguish pairs; `score` are log-odds of the pairs."""
    if len(score) > 1 and np.ptp(score) < ALIKE:
        warn(
            f"the trained model gives all {len(score):,} pairs of the training data practically the same probability, "
            f"{sigmoid(score).mean():.3f}, so their records fall together all or none: nothing that is compared tells "
            "the labelled pairs apart. Compare other fields, or label more pairs",
            DataWarning,
        )
