"""Which folds, which clusterer and at which threshold, which map of probabilities: what is chosen by unseen pairs.

Every candidate clusters the training items by probabilities of models that have not seen the pairs, at each of some
thirty thresholds. The first candidate is the usual one; another is taken only if it is better with 90 % confidence, by
the jackknife over entities (see `best_threshold`): the best of many always looks good on the pairs it was chosen by.
So are another threshold and a structured round in the place of the local one, unless folds were asked for, which is to
ask for the best.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.clustering import log_odds
from kinfolk.linking.calibration import FEWEST, Calibration, calibrated
from kinfolk.linking.chains import connected
from kinfolk.linking.clusterers import (
    AverageLink,
    Clusterer,
    CompleteLink,
    Correlation,
    OneToMany,
    OneToOne,
    SingleLink,
    usual_clusterer,
)
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.probabilities import RANKS, Probabilities
from kinfolk.linking.scores import Metric
from kinfolk.linking.training import (
    LOG_ODDS,
    WIDTH,
    PairData,
    PairTrainer,
    RankingTrainer,
    ThresholdChoice,
    Unseen,
    at_threshold,
    at_thresholds,
    best_round,
    best_threshold,
    clusters_of,
    gain_of,
    item_folds,
    sigmoid,
    slack,
    unseen_scores,
)

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
FOLDS = 5  # of `folds="auto"`
CALIBRATED_BY = 10  # parts of the entities, by which maps of probabilities are compared
MOST_PAIRS = 200_000  # that a clusterer is chosen by; of more, those of components drawn at random
LIKELY = 0.05  # probability of the pairs by which components hang together


# -- What models say of pairs that they have not seen ---------------------------------------------------


def folds_for(given: int | str | None, items: Mentions, complete: bool, auto: bool) -> int | None:
    """Into how many parts training is dealt; "auto": FOLDS where the clusterer is `auto` too, clusters are known
    (`complete`, not a few pairs alone) and there are enough of them."""
    if not isinstance(given, str):
        return given
    enough = complete and items.corpus is None and int((items.pair_labels == 1).sum()) >= FEWEST
    return FOLDS if enough and auto else None


def unseen_rounds(
    trainer: PairTrainer,
    ranking: RankingTrainer | None,
    clusterer: Clusterer,
    kind: str,
    rounds: int,
    value: Metric,
    folds: int,
    by: Probabilities,
    seed: int | None,
    guarded: bool,
) -> tuple[Clusterer, Unseen]:
    """What models say of training pairs that they have not seen, and the clusters of each round by that.

    Structured rounds cluster by the threshold that suits the local one: the clusterer at that. `ranking`: to be
    averaged with. `guarded`: see `best_threshold`.
    """
    items, jobs = trainer.data.items, trainer.plan.n_jobs
    fold, part = (item_folds(items, n, seed) for n in (folds, CALIBRATED_BY))
    learned: dict[int, Any] = {}
    local = unseen_scores(trainer, clusterer, kind, 0, fold, learned)[0]
    ranked = None if ranking is None else unseen_scores(ranking, clusterer, kind, 0, fold)[0]
    probability = by.value(items, local, ranked, clusterer.of_shares)
    threshold, choice = best_threshold(items, probability, clusterer, value, seed, guarded=guarded, n_jobs=jobs)
    clusterer = at_threshold(clusterer, threshold)
    if not rounds:
        return clusterer, Unseen(part, [local], ranked, [])
    log.info("for structured rounds: %s", choice)
    scores = unseen_scores(trainer, clusterer, kind, rounds, fold, learned)
    clusters = [clusters_of(items, sigmoid(score), clusterer) for score in scores]
    return clusterer, Unseen(part, scores, ranked, clusters)


def round_kept(
    items: Mentions, unseen: Unseen, n: int, keep_local: bool, value: Metric, seed: int | None, *, guarded: bool
) -> int:
    """Which of n rounds is best on unseen pairs. `guarded`: the local one stays, if it may, unless the best is better
    with 90 % confidence: the best of five always looks better on the pairs it was chosen by."""
    clusters = unseen.clusters[:n]
    best = best_round([value(found) for found in clusters], keep_local, slack(items)) if clusters else 0
    if not best or not keep_local or not guarded:
        return best
    gain, error = gain_of(items, clusters[best], clusters[0], value, seed)
    surely = gain > WIDTH * error
    verdict = "kept" if surely else "not enough to leave the local one"
    log.info("round %d has %+.4f ± %.4f on unseen training pairs: %s", best, gain, WIDTH * error, verdict)
    return best if surely else 0


def calibrated_by(data: PairData, unseen: Unseen, round_: int, by: Probabilities) -> Calibration:
    """The map of probabilities, learned on unseen pairs, of the round that is kept."""
    items, score, known = data.items, unseen.log_odds[round_], data.truth >= 0
    if data.certainty is not None:
        known &= data.certainty == 1.0  # what is uncertain itself shows no probability to be right or wrong
    raw = log_odds(by.of(items, score, unseen.ranked)) if by.training in RANKS else score
    found = calibrated(raw[known], data.truth[known] == 1, unseen.part[items.left[known]])
    log.info("%s", found)
    return found


# -- Which clusterer ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClustererChoice:
    """What each candidate scores at the best of its thresholds; the gain of the best over the usual one, and how
    uncertain it is."""

    chosen: Clusterer
    usual: Clusterer
    best: Clusterer
    tried: tuple[tuple[Clusterer, float], ...]
    gain: float
    half_width: float
    threshold: ThresholdChoice  # of the usual one

    def __str__(self) -> str:
        scores = ", ".join(f"{_name(one)} {score:.4f}" for one, score in self.tried)
        head = f"clusters of unseen training pairs: {scores}"
        if len(self.tried) == 1:
            return str(self.threshold)
        if self.best is self.usual:
            return f"{head}; {_name(self.usual)}, the usual one, is taken"
        verdict = "taken" if self.chosen is self.best else f"not enough to leave {_name(self.usual)}"
        return f"{head}; {_name(self.best)} has {self.gain:+.4f} ± {self.half_width:.4f}: {verdict}"


def _name(clusterer: Clusterer) -> str:
    return repr(replace(clusterer, threshold=round(clusterer.threshold, 3)))


def usual_for(items: Mentions, training: str, complete: bool, auto: bool) -> Clusterer:
    """The clusterer of items, where none is set; `auto`: it may go by how large the known clusters are."""
    if items.first_table is not None and complete:
        return across_tables(items)
    if auto and complete and items.corpus is None and items.in_pairs:
        return AverageLink(max_size=2)
    return usual_clusterer(training, items.corpus is not None, items.first_table is not None)


ALONE = 0.05  # share of matched records with several matches up to which they are taken to have one at most


def across_tables(items: Mentions) -> Clusterer:
    """One to one where the true clusters are; else every record of the side that has one match at most takes its best.

    Where only some pairs are labelled, a record's other matches may be unknown: then every record takes its best match.
    """
    assert items.first_table is not None and items.clusters is not None
    ours, theirs = items.clusters[: items.first_table], items.clusters[items.first_table :]
    n = int(items.clusters.max(initial=-1)) + 1
    first, second = np.bincount(ours, minlength=n), np.bincount(theirs, minlength=n)
    matched = (first > 0) & (second > 0)
    several_of_second = first[matched & (second > 1)].sum() / max(first[matched].sum(), 1)
    several_of_first = second[matched & (first > 1)].sum() / max(second[matched].sum(), 1)
    if several_of_second <= ALONE and several_of_first <= ALONE:
        return OneToOne()
    return OneToMany(each="first" if several_of_second <= ALONE else "second" if several_of_first <= ALONE else "both")


def candidates_beside(usual: Clusterer, items: Mentions) -> list[Clusterer]:
    """The usual clusterer and others that may suit the items; mentions of a text have the usual one alone."""
    if items.corpus is not None or usual.of_shares:
        return [usual]
    others: list[Clusterer] = [AverageLink(), AverageLink(of="log-odds"), SingleLink(), CompleteLink(), Correlation()]
    if usual.max_size is not None:
        others = [AverageLink(), *(replace(one, max_size=usual.max_size) for one in others)]
    if items.first_table is not None:
        others = [OneToOne(), *(OneToMany(each=side) for side in ("first", "second", "both")), AverageLink()]
    return [usual, *(one for one in others if repr(one) != repr(usual))]


def choose_clusterer(
    items: Mentions,
    probability: Array,
    candidates: Sequence[Clusterer],
    value: Metric,
    seed: int | None = 0,
    *,
    guarded: bool = True,
    n_jobs: int = 1,
) -> tuple[Clusterer, ClustererChoice]:
    """The clusterer, at its threshold, by a metric of clusters.

    probability   of every pair of the items, by models that have not seen it
    candidates    the first one is the usual one, which stays unless another is surely better
    value         the metric of clusters of the items; `value(clusters, kept)` is by some items alone
    guarded       whether the usual one keeps its own threshold, too, unless another is surely better
    """
    kept, pairs = _drawn(items, probability, seed) if len(candidates) > 1 else (None, slice(None))
    part = items if kept is None else items.with_pairs(items.left[pairs], items.right[pairs])
    own, by = probability[pairs], value if kept is None else _by_these(value, kept)
    threshold, tuned = best_threshold(part, own, candidates[0], by, seed, guarded=guarded, n_jobs=n_jobs)
    usual = at_threshold(candidates[0], threshold)
    tried = [(usual, tuned.tried[threshold])]
    for other in candidates[1:]:
        clusters = at_thresholds(part, own, other, _thresholds(other), n_jobs)
        scores = {t: by(found) for t, found in clusters.items()}
        most = max(scores.values())
        good = [t for t, score in scores.items() if score >= most - slack(part)]
        nearest = min(good, key=lambda t: abs(t - other.threshold))
        tried.append((at_threshold(other, nearest), scores[nearest]))
    best, score = max(tried, key=lambda one: one[1])  # of equals the first
    if best is usual or score <= tried[0][1] + slack(part):
        return usual, ClustererChoice(usual, usual, usual, tuple(tried), 0.0, 0.0, tuned)
    better, before = (clusters_of(part, own, one) for one in (best, usual))
    gain, error = gain_of(part, better, before, by, seed)
    chosen = best if gain > WIDTH * error else usual
    return chosen, ClustererChoice(chosen, usual, best, tuple(tried), gain, WIDTH * error, tuned)


def _thresholds(clusterer: Clusterer) -> list[float]:
    """Its own, and every second of those that the usual one is tried with."""
    return [clusterer.threshold, *map(float, sigmoid(LOG_ODDS[::2]))]


def _by_these(value: Metric, kept: Array) -> Metric:
    own = kept

    def of(clusters: Array, kept: Array | None = None) -> float:
        return value(clusters, own if kept is None else own & kept)

    return of


def _drawn(items: Mentions, probability: Array, seed: int | None) -> tuple[Array | None, Any]:
    """Items of components drawn until they have MOST_PAIRS pairs, and their pairs; None: all.

    Components hang together by likely pairs and true ones: clusterers join hardly any two of them, so the clusters
    within are those made of everything.
    """
    if items.n_pairs <= MOST_PAIRS:
        return None, slice(None)
    likely = probability > LIKELY
    left, right, n = items.left[likely], items.right[likely], items.n_items
    if items.clusters is not None:
        known = np.flatnonzero(items.clusters >= 0)
        names, number = np.unique(items.clusters[known], return_inverse=True)
        left, right, n = np.append(left, known), np.append(right, n + number.ravel()), n + len(names)
    component = connected(left, right, n)[: items.n_items]
    sizes = np.bincount(component[items.right], minlength=int(component.max()) + 1)
    order = np.random.default_rng(seed).permutation(len(sizes))
    fits = np.cumsum(sizes[order]) - sizes[order] < MOST_PAIRS
    chosen = np.zeros(len(sizes), bool)
    chosen[order[fits]] = True
    kept = chosen[component]
    return kept, np.flatnonzero(kept[items.left] & kept[items.right])
