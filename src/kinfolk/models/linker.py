"""Linker: pairs decided by a log-linear model and clustered, trained for the clusters that come of it."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.data.mentions import Mentions
from kinfolk.errors import InputError, SettingError
from kinfolk.explain.links import ClusterExplanation, LinkExplanation, contributions, weakest_link
from kinfolk.features.comparisons import as_comparisons, default_comparisons
from kinfolk.features.coreference import CONJUNCTIONS, CoreferencePairs
from kinfolk.features.pair_rows import distinct_rows
from kinfolk.features.pair_set import PairSet
from kinfolk.features.pairs import PairFeature
from kinfolk.inference.e_steps import E_STEPS
from kinfolk.learning.pairs import row_scores
from kinfolk.models.bias import Bias
from kinfolk.models.clusterers import Clusterer, SingleLink
from kinfolk.models.link_scores import all_scores, metric
from kinfolk.models.optimise import Callback, TrainingPlan
from kinfolk.models.progress import observed
from kinfolk.models.settings import Settings
from kinfolk.models.structured import PairData, PairTrainer, learned_shares, sigmoid, train_rounds
from kinfolk.models.threshold import best_threshold, item_folds, unseen_scores
from kinfolk.threads import resolve_jobs

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


class Linker(Settings):
    """Decides which items belong together: mentions of an entity, records of a customer.

    features      pair features, or words for them ("jaro_winkler(name)"); None: those of coreference for mentions of a
                  text, else comparisons that suit each column
    training      "local": learn to decide pairs; "structured": learn the decisions that the clustering needs (the
                  paper's SLT)
    e_step        "nearest" (Algorithm 2), "spanning" (Algorithm 1) or "exact": see `inference.e_steps`
    rounds        structured rounds after the local one
    bias          a `Bias` towards linking; None: none
    clusterer     how decisions become clusters: SingleLink(), AverageLink(), CompleteLink(), BestLink(), Correlation(),
                  OneToOne()
    select        the metric, on the training data after clustering, by which the round kept is chosen; of several the
                  first chooses, and the others are told in `rounds_`
    keep_local    whether the local round may be the one kept; the paper leaves it out
    threshold_folds  into how many folds training is dealt to choose the clusterer's threshold, by `select` on pairs
                  that models have not seen (`threshold_` tells it); None: the clusterer's own
    l2            strength of the ridge ½ l2 |w|²
    bins, binning into how many bins numbers go; "learned": where labels change, "quantile": equal numbers
    conjunctions  "default", "all", None, or pairs of column names whose values have a weight together
    """

    CHOICES: ClassVar = {"training": ("local", "structured"), "e_step": E_STEPS, "binning": ("learned", "quantile")}

    def __init__(
        self,
        features: Any = None,
        training: str = "structured",
        e_step: str = "nearest",
        rounds: int = 5,
        bias: Bias | None = None,
        clusterer: Clusterer | None = None,
        select: str | Sequence[str] = "pair_f1",
        keep_local: bool = True,
        threshold_folds: int | None = None,
        l2: float = 1.0,
        bins: int = 8,
        binning: str = "learned",
        conjunctions: Any = "default",
        max_iterations: int = 200,
        tolerance: float = 1e-5,
        random_state: int = 0,
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.training = training
        self.e_step = e_step
        self.rounds = rounds
        self.bias = bias
        self.clusterer = clusterer
        self.select = select
        self.keep_local = keep_local
        self.threshold_folds = threshold_folds
        self.l2 = l2
        self.bins = bins
        self.binning = binning
        self.conjunctions = conjunctions
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, items: Mentions, y: Any = None, callback: Callback | None = None) -> Self:
        """Learn from items with true clusters; those whose cluster is not known (-1) are left out."""
        self._check(items)
        with self._all_or_nothing(), observed(callback, self.verbose, self.tolerance) as watch:
            known = self._known(items)
            jobs = resolve_jobs(self.n_jobs)
            features = self._features(known)
            self.pair_set_ = PairSet.learn(
                features,
                known,
                bins=self.bins,
                binning=self.binning,
                conjunctions=self._conjunctions(features),
                seed=self.random_state,
            )
            data = self._data(known, jobs)
            log.info("%d candidate pairs, %d distinct rows", known.n_pairs, len(data.rows.codes))
            plan = TrainingPlan(self.l2, 0.0, self.max_iterations, self.tolerance, 0, 1, None, jobs)
            trainer = PairTrainer(data, plan, self.bias, watch)
            values = {name: metric(name) for name in self._selected()}
            self.threshold_ = self._chosen_threshold(trainer, values[self._selected()[0]])
            self.round_weights_, self.rounds_, self.best_round_ = train_rounds(
                trainer,
                self._clusterer(known),
                self.e_step,
                self.rounds if self.training == "structured" else 0,
                lambda clusters: {name: value(known, clusters) for name, value in values.items()},
                self.keep_local,
            )
            self.weights_ = self.round_weights_[self.best_round_]
            self.shares_ = learned_shares(data)
            self.convergence_ = self.rounds_[self.best_round_].convergence
        return self

    def decision_function(self, items: Mentions) -> NDArray[np.float64]:
        """Log-odds of each candidate pair."""
        self._require_fitted()
        jobs = resolve_jobs(self.n_jobs)
        rows = distinct_rows(self.pair_set_.coder(items), items.left, items.right, self.pair_set_.sizes, jobs)
        return row_scores(self.weights_, self.pair_set_.weights_on(rows.codes), jobs)[rows.row]

    def predict_proba(self, items: Mentions) -> NDArray[np.float64]:
        """The probability that a candidate pair belongs together, float64 (P,), before clustering."""
        return sigmoid(self.decision_function(items))

    def predict(
        self, items: Mentions, must_link: ArrayLike | None = None, cannot_link: ArrayLike | None = None
    ) -> NDArray[np.int32]:
        """The cluster of each item, int32 (n,). `must_link` and `cannot_link` are pairs of item numbers (m, 2)."""
        return self.cluster(items, self.predict_proba(items), must_link, cannot_link)

    def cluster(
        self,
        items: Mentions,
        probability: Array,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> NDArray[np.int32]:
        """Clusters from probabilities that are already there."""
        must, cannot = (None if given is None else np.asarray(given) for given in (must_link, cannot_link))
        found = self._clusterer(items).cluster(items.n_items, items.left, items.right, probability, must, cannot)
        return found

    def score(self, items: Mentions, y: Any = None) -> float:
        """The metric `select` of the clusters predicted."""
        return metric(self._selected()[0])(items, self.predict(items))

    def at_round(self, number: int) -> Self:
        """The model as it was after a round of training, 0 being the local one; not kept in model files."""
        self._require_fitted()
        if not 0 <= number < len(getattr(self, "round_weights_", ())):
            raise SettingError(f"expected a round of this training, 0 to {len(self.rounds_) - 1}; got {number!r}")
        model = copy.copy(self)
        model.best_round_, model.weights_ = number, self.round_weights_[number]
        model.convergence_ = self.rounds_[number].convergence
        return model

    def evaluate(self, items: Mentions) -> dict[str, Any]:
        """All metrics, before and after clustering."""
        probability = self.predict_proba(items)
        return all_scores(items, self.cluster(items, probability), probability > 0.5)

    def explain(self, items: Mentions, left: int, right: int) -> LinkExplanation:
        """Why two items (by number) are linked or not, candidates or not."""
        self._require_fitted()
        low, high = _two(items, left, right)
        codes = self.pair_set_.coder(items)(np.array([low], np.int32), np.array([high], np.int32))
        on = self.pair_set_.weights_on(codes)[0]
        names = self.pair_set_.weight_names()
        base, shares = contributions(
            self.weights_, on, self.pair_set_.column_means(self.shares_ * self.weights_), names
        )
        score = float(self.weights_[on].sum())
        probability = float(sigmoid(np.array(score)))
        return LinkExplanation(items.title(low), items.title(high), probability, score, base, shares)

    def explain_cluster(
        self, items: Mentions, item: int, probability: Array | None = None, clusters: Array | None = None
    ) -> ClusterExplanation:
        """The weakest link of the cluster an item is in, and what would split it.

        `probability` and `clusters` save working them out again.
        """
        self._require_fitted()
        if not 0 <= item < items.n_items:
            raise InputError(f"expected an item among {items.n_items}, counted from 0; got {item!r}")
        p = self.predict_proba(items) if probability is None else probability
        found = self.cluster(items, p) if clusters is None else clusters
        members = np.flatnonzero(found == found[item])
        inside = np.flatnonzero((found[items.left] == found[item]) & (found[items.right] == found[item]))
        left, right, p = items.left[inside], items.right[inside], p[inside]
        names = tuple(items.title(int(i)) for i in members)
        weakest = weakest_link(members, left, right, p)
        if weakest is None:
            return ClusterExplanation(names, None, None, (), ())
        pair, side = weakest
        one = np.isin(np.arange(items.n_items), members[side])
        crossing = np.flatnonzero((one[left] != one[right]) & (p > self._clusterer(items).threshold))
        crossing = crossing[np.argsort(-p[crossing], kind="stable")]
        holding = tuple((items.title(int(left[k])), items.title(int(right[k])), float(p[k])) for k in crossing)
        parts = tuple(tuple(items.title(int(i)) for i in members[chosen]) for chosen in (side, ~side))
        ends = (items.title(int(left[pair])), items.title(int(right[pair])))
        return ClusterExplanation(names, ends, float(p[pair]), parts, holding)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `kf.load_model` reads."""
        from kinfolk.models.persistence import save_model  # here, as it knows every model

        self._require_fitted()
        save_model(self, path)

    def _check(self, items: Mentions) -> None:
        if not isinstance(items, Mentions):
            raise InputError(f"expected Mentions (read_coref, read_records); got {type(items).__name__}")
        for name, allowed in self.CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}")
        if self.bias is not None:
            if not isinstance(self.bias, Bias):
                raise SettingError(f'bias must be None or Bias("all" or "closest", factor); got {self.bias!r}')
            self.bias.check()
        if not isinstance(self.rounds, int | np.integer) or self.rounds < 1:
            raise SettingError(f"rounds must be 1 or more; got {self.rounds!r}")
        if self.threshold_folds is not None and not (
            isinstance(self.threshold_folds, int) and self.threshold_folds > 1
        ):
            raise SettingError(f"threshold_folds must be 2 or more, or None; got {self.threshold_folds!r}")
        for name, least in (("l2", 0), ("tolerance", 0), ("max_iterations", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= least:
                raise SettingError(f"{name} must be a number, {least} or more; got {value!r}")
        if not self._selected():
            raise SettingError("select must name a metric, such as 'pair_f1'; got none")
        for name in self._selected():
            metric(name)

    def _selected(self) -> list[str]:
        return [self.select] if isinstance(self.select, str) else list(self.select)

    def _known(self, items: Mentions) -> Mentions:
        if items.clusters is None:
            raise InputError("training needs items with true clusters; read them with truth")
        known = items.clusters >= 0
        if not known.all():
            log.info("%d items without a known cluster are left out of training", int((~known).sum()))
        kept = items if known.all() else items.take(known)
        if not kept.n_pairs:
            raise InputError("no candidate pair to learn from; block(items, rules) makes candidates of records")
        labels = kept.pair_labels
        if not (labels == 1).any() or not (labels == 0).any():
            which = "a true link" if not (labels == 1).any() else "two different entities"
            raise InputError(f"none of {kept.n_pairs} candidate pairs is {which}; look at blocking and truth")
        return kept

    def _features(self, items: Mentions) -> Sequence[PairFeature]:
        if self.features is not None:
            return as_comparisons(self.features)
        return [CoreferencePairs()] if items.corpus is not None else default_comparisons(items)

    def _conjunctions(self, features: Sequence[PairFeature]) -> Any:
        if not (isinstance(self.conjunctions, str) and self.conjunctions == "default"):
            return self.conjunctions
        return CONJUNCTIONS if any(isinstance(f, CoreferencePairs) for f in features) else None

    def _clusterer(self, items: Mentions) -> Clusterer:
        clusterer = SingleLink() if self.clusterer is None else self.clusterer
        if not isinstance(clusterer, Clusterer):
            raise SettingError(f"clusterer must be SingleLink(), AverageLink(), ...; got {clusterer!r}")
        if getattr(self, "threshold_", None) is None or self.threshold_folds is None:
            return clusterer
        return type(clusterer)(**{**clusterer.get_params(), "threshold": self.threshold_})

    def _chosen_threshold(self, trainer: PairTrainer, value: Callable[[Mentions, Array], float]) -> float | None:
        """By models that have not seen the pairs they score; None: the clusterer's own is kept."""
        self.threshold_ = None
        if self.threshold_folds is None:
            return None
        items = trainer.data.items
        fold = item_folds(items, self.threshold_folds, self.random_state)
        scores = unseen_scores(trainer, fold, self.threshold_folds)
        found, tried = best_threshold(items, scores, self._clusterer(items), lambda clusters: value(items, clusters))
        log.info("threshold %.3f: %.4f on unseen training pairs", found, tried[found])
        return found

    def _data(self, items: Mentions, n_jobs: int) -> PairData:
        learned = self.pair_set_
        rows = distinct_rows(learned.coder(items), items.left, items.right, learned.sizes, n_jobs)
        return PairData(items, rows, learned.weights_on(rows.codes), learned.n_weights, items.pair_labels)


def _two(items: Mentions, left: int, right: int) -> tuple[int, int]:
    low, high = sorted((int(left), int(right)))
    if not 0 <= low < high < items.n_items:
        raise InputError(f"expected two different items among {items.n_items}, counted from 0; got {left} and {right}")
    return low, high
