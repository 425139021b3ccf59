"""Linker: pairs decided by a log-linear model and clustered, trained for the clusters that come of it."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.checkpoint import check_checkpoint, going_on, learned
from kinfolk.core.engine import ENGINE
from kinfolk.core.modelfile import Functions, ModelFile, class_in_file, fits, name_in_file
from kinfolk.core.settings import (
    FLAG,
    NONE,
    NOT_NEGATIVE,
    Rule,
    an_object,
    check_settings,
    one_of,
    setting,
    whole,
    whole_to,
)
from kinfolk.core.threads import release_free_memory, resolve_jobs
from kinfolk.core.training import Callback, Convergence, TrainingPlan, observed
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.antecedents import Shares, antecedent_shares, together
from kinfolk.inference.clustering import E_STEPS
from kinfolk.learning.gain import Guarded
from kinfolk.linking.additions import link_frames
from kinfolk.linking.blocking import BlockingReport, as_rules, blocked
from kinfolk.linking.calibration import Calibration
from kinfolk.linking.certain import Decided, as_certain, with_room
from kinfolk.linking.charts import write_linker_report
from kinfolk.linking.choosing import (
    calibrated_by,
    candidates_beside,
    choose_clusterer,
    folds_for,
    round_kept,
    unseen_rounds,
    usual_for,
)
from kinfolk.linking.clustered import Answer, cluster_frame
from kinfolk.linking.clusterers import FORMER_NAMES, Clusterer
from kinfolk.linking.comparisons import as_comparisons, default_comparisons, rebuilt_comparison, with_bests
from kinfolk.linking.coreference import CONJUNCTIONS, CoreferencePairs
from kinfolk.linking.description import described
from kinfolk.linking.explain import (
    AntecedentExplanation,
    ClusterExplanation,
    LinkExplanation,
    antecedents_of,
    explain_antecedents,
    explain_link,
    two_items,
    with_exact,
)
from kinfolk.linking.gain import linker_gain
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.objective import Bias
from kinfolk.linking.page import Linked, evaluate_pairs
from kinfolk.linking.pair_labels import pair_labels
from kinfolk.linking.pair_scores import score_pairs
from kinfolk.linking.pair_table import MANY, MAX_BINS, Coder, PairSet
from kinfolk.linking.pairs import PairFeature
from kinfolk.linking.probabilities import RANKS, Probabilities
from kinfolk.linking.scores import METRICS_OF_PAIRS, Metric, labelled_scores, metric
from kinfolk.linking.supervision import (
    Matcher,
    Supervision,
    check_enough,
    check_items,
    check_pairs,
    supervised,
    warn_of_blocking,
    warn_of_one_answer,
)
from kinfolk.linking.training import (
    RIDGES,
    PairData,
    PairTrainer,
    RankingTrainer,
    Round,
    before_labels,
    best_ridge,
    best_round,
    closed,
    item_folds,
    item_pairs,
    learned_shares,
    left_out,
    places_among,
    still_to_learn,
    tell_closure,
    train_rounds,
    with_added,
)
from kinfolk.linking.unlabelled import field_matches
from kinfolk.report.page import PathLike, check_report

Array = NDArray[Any]
log = logging.getLogger("kinfolk")


@final
@dataclass(eq=False, repr=False)
class Linker(Guarded):
    """Decides which items belong together: mentions of an entity, records of a customer."""

    LOCAL: ClassVar[str] = "that of `training='local'` and `folds=5`"
    NOTHING: ClassVar[str] = "`training='local'` is the local model itself"

    pair_set_: PairSet = field(init=False)  # the columns of a pair, as learned
    weights_: Array = field(init=False)  # a weight for each value of each column
    shares_: Array = field(init=False)  # for which share of the training pairs each weight is on
    antecedent_weights_: Array | None = field(init=False)  # those of ranking, where antecedents were learned
    learned_from_: str = field(init=False)  # "clusters", "some clusters", "pairs", "clusters and pairs"; or "records"
    l2_: float = field(init=False)  # the ridge trained with
    folds_: int | None = field(init=False)  # how many there were in training
    calibration_: Calibration = field(init=False)  # of log-odds, or of the probabilities of ranking

    KIND: ClassVar[str] = "mentions"

    features: Any = setting(
        None,
        'pair features, or words for them ("jaro_winkler(name)"); None: those of coreference for mentions of a text, '
        "else comparisons that suit each column",
        in_file=False,
    )
    blocking: Any = setting(
        None,
        'rules ("key(postcode)") that make the candidate pairs of items that come without any; None: all pairs, up to '
        "two million",
        in_file=False,
    )
    training: str = setting(
        "structured",
        '"local": learn to decide pairs; "structured": learn the decisions the clustering needs (SLT of the paper); '
        '"ranking": learn which earlier item each one follows, or none (a mixture of parents over clusters); '
        '"combined": local and ranking, whose probabilities are averaged',
        one_of("local", "structured", *RANKS),
    )
    e_step: str = setting(
        "nearest",
        '"nearest" (Algorithm 2), "spanning" (Algorithm 1) or "exact": see docs/structured.md',
        one_of(*E_STEPS),
    )
    rounds: int = setting(5, "structured rounds after the local one", whole(1))
    bias: Bias | None = setting(
        None, "a lean towards linking", an_object("Bias('all' or 'closest', factor)", Bias) | NONE, in_file=False
    )
    clusterer: Clusterer | str | None = setting(
        "auto",
        "how decisions become clusters: SingleLink(), AverageLink(), CompleteLink(), BestLink(), Correlation(), "
        "OneToMany(), OneToOne() or, for ranking, ClusterSum(); None, the usual one: for mentions of a text ClusterSum "
        "after ranking, average link after combined and single link after other training; average link for records of "
        "one table; for two tables one to one where the true clusters are, else the best match of each record; "
        '"auto": for records whose clusters are known the one of these that does best on unseen training pairs, where '
        "it is better than the usual one with 90 % confidence",
        in_file=False,
    )
    closure: bool = setting(
        True,
        "whether pairs inside likely clusters of records that blocking left out are compared too, so that they do not "
        'count as "no" (clusterers that look at all pairs of a cluster; up to 200 records each)',
        FLAG,
    )
    rules: Any = setting(
        None,
        'what decides for certain, whatever the model says: Always("tax_number") puts records with the same value '
        'together, Never("country") those with different ones apart; or words for them ("always(tax_number)"). '
        "`predict` keeps to them; training does not know them",
        in_file=False,
    )
    select: str | Sequence[str] = setting(
        "pair_f1",
        "the metric, on the training data after clustering, by which the round kept is chosen; of several the first "
        "chooses, and the others are reported in `rounds_`",
        Rule("the name of a metric, or several", lambda value: True, str),
    )
    keep_local: bool = setting(True, "whether the local round may be the one kept; the paper leaves it out", FLAG)
    folds: int | str | None = setting(
        "auto",
        "into how many folds training is dealt to choose the threshold of the clusterer (see `clusterer_`) and the "
        "round, by `select` on pairs that models have not seen, and to calibrate probabilities on them. None: the "
        "clusterer's own threshold, the round by the pairs trained on, and probabilities as they are. "
        '"auto": 5 where the clusterer is chosen by them too (records with known clusters, 30 true pairs or more), and '
        "the clusterer's own threshold stays, and so does the local round, unless another is better with 90 % "
        "confidence; else None",
        one_of("auto") | (whole(2) | NONE),
    )
    l2: float | str = setting(
        "auto",
        'strength of the ridge, l2/2 · |w|²; "auto": where entities are large, of 1, 10 and 100 the one with the '
        "least log-loss of unseen training pairs (local and structured training with `folds`), else 1",
        one_of("auto") | NOT_NEGATIVE,
    )
    bins: int = setting(8, "into how many bins numbers go", whole_to(1, MAX_BINS))
    binning: str = setting(
        "learned",
        '"learned": bins where labels change (of fewer than 40 labelled pairs with a value, thirds and the best single '
        'cut), "quantile": of equal numbers',
        one_of("learned", "quantile"),
    )
    conjunctions: Any = setting(
        "default", '"default", "all", None, or pairs of column names whose values have a weight together', in_file=False
    )
    max_iterations: int = setting(200, "limit of optimiser iterations of an M-step", whole(1))
    tolerance: float = setting(
        1e-4, "an M-step ends when five iterations lower its objective by a smaller share than this", NOT_NEGATIVE
    )
    engine: Any = setting(
        None,
        "where `cluster_frame` keeps tables and what makes pairs of them: None or Threads(), memory and threads; "
        "DuckDB(memory_limit='2GB'), a database on disk; Spark(session), a cluster (docs/engines.md)",
        ENGINE,
        in_file=False,
    )

    def fit(
        self,
        items: Mentions,
        y: Any = None,
        callback: Callback | None = None,
        *,
        pairs: Any = None,
        left: str | None = None,
        right: str | None = None,
        match: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from items with true clusters, but not those whose cluster is not known (-1); from labelled pairs; or,
        for records, from nothing but how far their fields agree (see `learned_from_`, docs/unlabelled.md), which the
        clusters of a few records, and labelled pairs, then move. Where clusters are known, they are right; pairs tell
        of records without a known one.

        pairs               labels of some pairs, candidates or not: a table of pandas, polars, Arrow or DuckDB, or a
                            list of (id, id, match). Without clusters they move the model that is learned without labels
        left, right, match  its columns: two ids, and yes or no (truth values, 1 and 0, words) or the probability of a
                            match, which draws to itself; missing: not known
        checkpoint          a file that what was done so far is written to: `fit` with the same one goes on where it was
                            stopped, to the same model. It stays there when `fit` is done; delete it once the model is
                            saved
        """
        return self._fit(items, callback, (pairs, left, right, match), checkpoint=checkpoint)

    def _fit(
        self, items: Mentions, callback: Callback | None, pairs: Any, match: Matcher = field_matches,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:  # fmt: skip
        """The same; `match` says what fields do without labels, and may have kept it."""
        check_checkpoint(checkpoint)
        check_items(items)
        check_enough(items)
        self.check()
        labels = None if pairs[0] is None else pair_labels(items, *pairs)
        with (
            going_on(checkpoint, self, items, labels),
            self._all_or_nothing(),
            observed(callback, self.verbose, self.tolerance) as watch,
        ):
            check_pairs(items, labels, self.training)
            if self.rules is not None:
                self._decided(items)  # their fields are there
            paired, report = self._blocked(items)
            jobs = resolve_jobs(self.n_jobs)
            few = self.training not in RANKS and self.guard is None and {*self._metrics} <= {*METRICS_OF_PAIRS}
            taught = supervised(paired, labels, self._features, jobs, match, few)
            if taught.complete:
                warn_of_blocking(taught.items, self.blocking, report)
            values = {name: taught.value(name) for name in self._metrics}
            self.pair_set_ = self._learned_columns(taught)
            self.calibration_ = Calibration()
            self.clusterer_ = self._clusterer(taught)
            self.clusterer_.check()
            self.folds_ = folds_for(self.folds, taught.items, taught.complete, self.clusterer == "auto")
            plan = self._plan(jobs)
            data = self._training_pairs(taught, plan, watch)
            if self.folds_ is not None and self.l2 == "auto" and self.training not in RANKS:
                fold = item_folds(data.items, self.folds_, self.random_state)
                plan = best_ridge(PairTrainer(data, plan, self.bias, watch), self.clusterer_, fold)
            self.l2_ = plan.l2
            trainer = self._trainer(taught, data, plan, watch)
            ranking = RankingTrainer(data, plan, None, watch) if self.training == "combined" else None
            self._train(trainer, ranking, values)
            self.weights_ = self.round_weights_[self.best_round_]
            self.shares_ = learned_shares(data)
            self.antecedent_weights_ = self.weights_ if self.training == "ranking" else None
            if ranking is not None:
                self.antecedent_weights_, _ = ranking.fit(data.truth, np.zeros(data.n_weights))
            if taught.guess is None:
                warn_of_one_answer(data.scores(self.weights_, jobs))
            self.convergence_ = self.rounds_[self.best_round_].convergence
            self.learned_from_ = taught.source
            self.gain_ = linker_gain(self, items, taught.complete)
        self._tell_gain()
        return self

    def _learned_columns(self, taught: Supervision) -> PairSet:
        features = [feature.learn(taught.whole) for feature in self._features(taught.items)]
        return PairSet.learn(
            features,
            taught.items,
            taught.likely(taught.items),
            bins=self.bins,
            binning=self.binning,
            conjunctions=self._conjunctions(features),
            seed=self.random_state,
        )

    def _plan(self, n_jobs: int) -> TrainingPlan:
        l2 = RIDGES[0] if isinstance(self.l2, str) else self.l2
        return TrainingPlan(l2, 0.0, self.max_iterations, self.tolerance, 0, 1, None, n_jobs)

    def _training_pairs(self, taught: Supervision, plan: TrainingPlan, watch: Callback | None) -> PairData:
        """The pairs that teach; where a threshold is chosen, it is to suit those that `predict` clusters."""
        items, jobs = with_bests(taught.items, self.pair_set_.features), plan.n_jobs
        data = PairData.of(self.pair_set_, items, taught.labels(items), jobs, taught.certainty(items))
        if self.folds_ is not None and self._closes:
            weights, _ = PairTrainer(data, plan, self.bias, watch).fit(data.truth, np.zeros(data.n_weights))
            score = data.scores(weights, jobs)
            items, _ = closed(items, score, lambda more: self._scores(weights, more, jobs), n_jobs=jobs)
            data = data.with_more(self.pair_set_, items, taught.labels(items), jobs, taught.certainty(items))
        log.info("%d candidate pairs, %d distinct rows", items.n_pairs, len(data.rows.codes))
        return data

    def _trainer(self, taught: Supervision, data: PairData, plan: TrainingPlan, watch: Callback | None) -> PairTrainer:
        """That of the pair model; a few labels move the weights that the guess has taught."""
        if not taught.moves_guess:
            return (RankingTrainer if self.training == "ranking" else PairTrainer)(data, plan, self.bias, watch)
        assert taught.guess is not None
        likely = PairTrainer(replace(data, truth=taught.likely(data.items), certainty=None), plan, None, watch)
        by_guess, rounds = partial(metric("pair_f1"), taught.guess.items), self._structured_rounds
        start = before_labels(likely, self.clusterer_, self.e_step, rounds, self.keep_local, by_guess)
        left = still_to_learn(data, start, self.clusterer_, plan.n_jobs)
        return PairTrainer(left, plan, self.bias, watch, start)

    def _train(self, trainer: PairTrainer, ranking: RankingTrainer | None, values: Mapping[str, Metric]) -> None:
        """All rounds, of which one is kept: by unseen pairs, where there are folds, and then threshold, clusterer and
        calibration are chosen by them too."""
        value, rounds, unseen, seed = values[self._metrics[0]], self._structured_rounds, None, self.random_state
        candidates, guarded = [self.clusterer_], self.folds == "auto"
        if self.folds_ is not None:
            if self.clusterer == "auto":
                candidates = candidates_beside(self.clusterer_, trainer.data.items)
            said = trainer, ranking, self.clusterer_, self.e_step, rounds, value, self.folds_
            self.clusterer_, unseen = unseen_rounds(*said, self._probabilities, seed, guarded)
        self.round_weights_, self.rounds_ = train_rounds(
            trainer,
            self.clusterer_,
            self.e_step,
            rounds,
            lambda clusters: {name: of(clusters) for name, of in values.items()},
        )
        if unseen is None:
            self.best_round_ = best_round([one.score for one in self.rounds_], self.keep_local)
            return
        data = trainer.data
        n = len(self.rounds_)
        self.best_round_ = round_kept(data.items, unseen, n, self.keep_local, value, seed, guarded=guarded)
        if self.bias is None and not candidates[0].of_shares:  # what a bias leans to is not to be taken back
            self.calibration_ = calibrated_by(data, unseen, self.best_round_, self._probabilities)
        score = self._probabilities.of_log_odds(unseen.log_odds[self.best_round_])
        probability = self._probabilities.value(data.items, score, unseen.ranked, self.clusterer_.of_shares)
        jobs = trainer.plan.n_jobs
        self.clusterer_, choice = choose_clusterer(
            data.items, probability, candidates, value, seed, guarded=guarded, n_jobs=jobs
        )
        log.info("%s", choice)

    def candidates(self, items: Mentions) -> Mentions:
        """The items with candidate pairs: those they come with or, if none were chosen yet, those of `blocking`."""
        return self._blocked(items)[0]

    def _blocked(self, items: Mentions) -> tuple[Mentions, BlockingReport | None]:
        """The candidates, and how far each rule goes, where rules made them."""
        check_items(items)
        if items.blocked or items.n_items < 2:
            return items, None
        found, report = blocked(items, self.blocking, n_jobs=self.n_jobs)
        log.info("%s", report)
        return found, report

    def decision_function(self, items: Mentions) -> NDArray[np.float64]:
        """Log-odds of each candidate pair; after ranking, its score as an antecedent, where a new cluster has 0."""
        self._require_fitted()
        return self._log_odds(self.candidates(items))

    def _log_odds(self, paired: Mentions, coded: Coder | None = None) -> NDArray[np.float64]:
        jobs = resolve_jobs(self.n_jobs)
        score = self._scores(self.weights_, paired, jobs, coded)
        return self._probabilities.of_log_odds(score, out=score)

    def predict_proba(self, items: Mentions) -> NDArray[np.float64]:
        """The probability that a pair belongs together, float64 (P,), one a pair of `candidates(items)`.

        After ranking it is exact under the model, summed over all ways to follow antecedents; where more than 1,024
        items hang together by candidate pairs, to about 1e-5.
        """
        self._require_fitted()
        paired = self.candidates(items)
        return self._probability(paired, self.decision_function(paired))

    def antecedent_shares(self, items: Mentions) -> Shares:
        """After ranking: of each pair of `candidates(items)` how probably the later item follows the earlier one, and
        of each item how probably it starts a cluster; those of an item sum to 1."""
        self._require_fitted()
        paired = self.candidates(items)
        if self.antecedent_weights_ is None:
            raise SettingError("training", self.training, "'ranking' or 'combined' for shares of antecedents")
        score = self._scores(self.antecedent_weights_, paired, resolve_jobs(self.n_jobs))
        return antecedent_shares(paired.n_items, paired.right, score)

    def predict(
        self, items: Mentions, must_link: ArrayLike | None = None, cannot_link: ArrayLike | None = None
    ) -> NDArray[np.int32]:
        """The cluster of each item, int32 (n,).

        must_link, cannot_link   pairs of items (m, 2) that have to be, or must not be, together, by number or by name
        """
        paired, score, _ = self._compared(items)
        value = self._value(paired, score)
        return self._clusters(self.clusterer_, paired, value, must_link, cannot_link)

    def compared(self, items: Mentions) -> tuple[Mentions, NDArray[np.float64]]:
        """The items with all pairs that are compared, and the probability of each: what `predict` clusters.

        These are the candidates, pairs that `rules` put together and, with `closure`, the pairs inside likely clusters
        that blocking left out.
        """
        paired, score, _ = self._compared(items)
        return paired, self._probability(paired, score)

    def _comparing_on(self, checkpoint: str | os.PathLike[str] | None, items: Mentions) -> Any:
        """What the trained model makes of the pairs of items, with a checkpoint."""
        if checkpoint is None:
            return nullcontext()
        self._require_fitted()
        return going_on(checkpoint, self, learned(self), items, seeded=False)

    def _compared(self, items: Mentions, told: bool = True) -> tuple[Mentions, NDArray[np.float64], int]:
        """The same with log-odds, and how many pairs there were before closure, which is told."""
        self._require_fitted()
        paired = with_bests(self.candidates(items), self.pair_set_.features)
        if self.rules is not None:
            paired = self._decided(paired).with_pairs()
        coded = self.pair_set_.coder(paired)  # what is done once an item is done once for all pairs
        score, n_before = self._log_odds(paired, coded), paired.n_pairs
        if self._closes:
            if paired.n_pairs > MANY:
                release_free_memory()  # what comparisons took on their way
            threshold, jobs = min(self.clusterer_.threshold, 0.5), resolve_jobs(self.n_jobs)
            added, their_score = left_out(paired, score, lambda more: self._log_odds(more, coded), threshold, jobs)
            del coded  # what is no longer needed goes before there are more pairs
            if paired.n_pairs > MANY:
                release_free_memory()
            if added.n_pairs:
                places = places_among(paired.left, paired.right, added)
                score = np.insert(score, places, their_score)
                paired = with_added(paired, added, places)
            if told:
                tell_closure(n_before, paired.n_pairs)
        return paired, score, n_before

    def linked(
        self,
        items: Mentions,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> tuple[Mentions, NDArray[np.float64], NDArray[np.int32]]:
        """What `compared` gives, and the clusters that `predict` makes of it: pairs are scored once for all.

        checkpoint   a file that comparisons are kept in as they are made: the same call with the same one goes on
                     behind the last of them. It stays there; delete it once what came of it is saved
        """
        with self._comparing_on(checkpoint, items):
            paired, score, _ = self._compared(items)
        del items  # its pairs, if nobody else has them: there are others now
        return paired, *self._clustered(paired, score, must_link, cannot_link)

    def _linked_part(self, items: Mentions) -> tuple[Mentions, NDArray[np.float64], NDArray[np.int32], int]:
        """As `linked`, of items among others; and how many pairs there were before closure."""
        paired, score, n_before = self._compared(items, told=False)
        return paired, *self._clustered(paired, score, None, None), n_before

    def _clustered(
        self, paired: Mentions, score: Array, must_link: ArrayLike | None, cannot_link: ArrayLike | None
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The probabilities of pairs and the clusters, from log-odds."""
        probability = self._probability(paired, score)
        value = self._value(paired, score) if self.clusterer_.of_shares else probability
        return probability, self._clusters(self.clusterer_, paired, value, must_link, cannot_link)

    def cluster(
        self,
        items: Mentions,
        probability: Array,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        clusterer: Clusterer | None = None,
    ) -> NDArray[np.int32]:
        """Clusters from probabilities that are already there, one a candidate pair; `clusterer`: another one.

        Only the pairs of these items count; `compared` gives those of `predict`. ClusterSum takes shares, for which
        pairs are scored again: `linked` does both at once.
        """
        self._require_fitted()
        paired, by = self.candidates(items), clusterer or self.clusterer_
        if len(probability) != paired.n_pairs:
            raise InputError(f"expected a probability for each of {paired.n_pairs} pairs; got {len(probability)}")
        if not by.of_shares:
            return self._clusters(by, paired, probability, must_link, cannot_link)
        share = self.antecedent_shares(paired).antecedent
        own = self._probabilities.believed(
            together(paired.n_items, paired.left, paired.right, share, resolve_jobs(self.n_jobs))
        )
        if not np.allclose(own, probability, rtol=0, atol=1e-6):
            what = f"{type(by).__name__} goes by the model's own shares of antecedents"
            raise SettingError.saying(
                f"{what}, and these probabilities are not the model's; take another `clusterer=...`"
            )
        return self._clusters(by, paired, share, must_link, cannot_link)

    def _clusters(
        self, clusterer: Clusterer, items: Mentions, value: Array, must_link: Any, cannot_link: Any
    ) -> NDArray[np.int32]:
        """Clusters from what the clusterer takes of each pair."""
        must, cannot = (item_pairs(items, given) for given in (must_link, cannot_link))
        if self.rules is not None:
            least = 0.0 if clusterer.of_shares else clusterer.threshold
            must, cannot = self._decided(items).links(value, least, must, cannot)
            clusterer = with_room(clusterer, items.n_items, must)
        given = items.n_items, items.left, items.right, value, must, cannot, items.first_table
        return clusterer.cluster(*given, n_jobs=resolve_jobs(self.n_jobs))

    def _decided(self, items: Mentions) -> Decided:
        """The pairs that rules decide."""
        return Decided(as_certain(self.rules), items)

    def _ranked(self, items: Mentions) -> NDArray[np.float64] | None:
        """Scores of antecedents, where they are averaged with."""
        if self.training != "combined":
            return None
        assert self.antecedent_weights_ is not None
        return self._scores(self.antecedent_weights_, items, resolve_jobs(self.n_jobs))

    def _probability(self, items: Mentions, score: Array) -> NDArray[np.float64]:
        return self._probabilities.of(items, score, self._ranked(items))

    def _value(self, items: Mentions, score: Array) -> NDArray[np.float64]:
        """What the clusterer takes: probabilities, or shares of antecedents."""
        return self._probabilities.value(items, score, self._ranked(items), self.clusterer_.of_shares)

    def cluster_frame(
        self,
        frame: Any,
        other: Any = None,
        *,
        id: str | None = "id",
        named_by: str = "number",
        cluster: str = "cluster",
        probability: str = "probability",
        pairs: bool = False,
        least: float = 0.0,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        into: Any = None,
        limit: int | None = None,
    ) -> Any:
        """The table that came, its rows and columns as they were, with the cluster of each record and how surely it
        belongs there; of two tables both, as a tuple.

        frame, other            as in `records_from_frames`: pandas (the index is kept), polars, Arrow, DuckDB, a dict
                                of lists; what goes out is of the kind that came
        id                      the column of ids; None: the numbers of the rows
        named_by                "number": clusters are numbers from 0, in order of their first records; "id": they have
                                the id of their first record
        cluster, probability    names of the two new columns, which the table must not have
        pairs                   whether to give the pairs compared too, as a second answer: a table of id_left,
                                id_right, probability and together; `least`: only those of this probability or more
        must_link, cannot_link  as in `predict`
        into                    with an `engine`: a Parquet file to write (of two tables, two), in the place of an
                                answer. With an engine tables may be files, too: "people/*.parquet", "people.csv"
        limit                   how many candidate pairs there may be, by default 200 million in memory and two billion
                                with an `engine`; more are refused before one is made, with what each rule makes, or
                                the rule that makes most

        The probability of a record is the mean over its compared pairs with the other records of its cluster; of one
        that is alone, 1 minus the highest of any of its pairs.
        """
        self._require_fitted()
        answer = Answer(cluster, probability, named_by, into)
        return cluster_frame(self, frame, other, id, answer, pairs, least, must_link, cannot_link, limit)

    def link(
        self,
        new: Any,
        base: Any,
        *,
        id: str | None = "id",
        cluster: str = "cluster",
        probability: str = "probability",
        also: str = "also",
        pairs: bool = False,
        least: float = 0.0,
        into: Any = None,
        limit: int | None = None,
    ) -> Any:
        """New records beside a clustered base, which stays as it is: the table `new` as it came, with the cluster of
        each record, how surely it belongs there and, in `also`, the next cluster of the base it would have joined.

        new, base           tables as in `cluster_frame`; `base` has the column `cluster`
        cluster             the column of clusters: that of the base, and the new one
        probability, also   names of the other two new columns
        id, pairs, least    as in `cluster_frame`; names of records that both tables number are "first:0" and "second:0"
        into, limit         as in `cluster_frame`; `into` with an `engine`

        A record joins the cluster of the base that the clusterer finds nearest, or makes new clusters with other new
        ones; two clusters of the base are never joined. Only pairs with a new record are compared.
        """
        self._require_fitted()
        return link_frames(self, new, base, id, (cluster, probability, also), pairs, least, into, limit)

    def score_pairs(
        self, pairs: Any, *, suffixes: tuple[str, str] = ("_l", "_r"), probability: str = "probability"
    ) -> Any:
        """A table of pairs with both records in a row, as it came, with the probability that they belong together.

        pairs         a table as in `cluster_frame`: for every field that is compared, `name_l` and `name_r`
        suffixes      how the columns of the two records end
        probability   name of the new column
        """
        self._require_fitted()
        return score_pairs(self, pairs, suffixes, probability)

    def score(self, items: Mentions, y: Any = None) -> float:
        """The metric `select` of the clusters predicted."""
        return metric(self._metrics[0])(items, self.predict(items))

    def at_round(self, number: int) -> Self:
        """The model as it was after a round of training, 0 being the local one; not kept in model files."""
        self._require_fitted()
        if not 0 <= number < len(getattr(self, "round_weights_", ())):
            raise SettingError.saying(
                f"expected a round of this training, 0 to {len(self.rounds_) - 1}; got {number!r}"
            )
        model = copy.copy(self)
        model.best_round_, model.weights_ = number, self.round_weights_[number]
        model.convergence_ = self.rounds_[number].convergence
        if number != self.best_round_:
            model.calibration_ = Calibration()  # it is of the round kept
        return model

    def evaluate(
        self,
        items: Mentions,
        report: PathLike | None = None,
        *,
        pairs: Any = None,
        left: str | None = None,
        right: str | None = None,
        match: str | None = None,
    ) -> dict[str, Any]:
        """All metrics, before and after clustering; `report`: also write a page about them, and about training.

        pairs   labelled pairs as in `fit`, in the place of true clusters: scores are of these pairs alone
        """
        check_report(report)
        labels = None if pairs is None else pair_labels(items, pairs, left, right, match)
        if labels is not None and report is not None:
            raise SettingError.saying("a page of scores needs true clusters; leave out `report=...` for labelled pairs")
        paired, probability, clusters = self.linked(items)
        if labels is not None:
            return labelled_scores(labels, paired, clusters, probability > 0.5)
        return evaluate_pairs(self, paired, probability, clusters, report)

    def explain(
        self,
        items: Mentions,
        left: int | str,
        right: int | str,
        probability: Array | None = None,
        clusters: Array | None = None,
        report: PathLike | None = None,
    ) -> LinkExplanation:
        """Why two items, by number or name, are linked or not, candidates or not; `report`: also write a page.

        `probability` and `clusters` save working them out again.
        """
        self._require_fitted()
        check_report(report)
        paired = self.candidates(items)
        answer = explain_link(
            self.pair_set_, self.weights_, self.shares_, paired, left, right, self._probabilities.of_log_odds
        )
        if self.training in RANKS:
            pair = two_items(paired, left, right)
            answer = with_exact(answer, paired, pair, probability, self.antecedent_shares, self._probabilities)
        if self.rules is not None:
            said = self._decided(paired).reasons(*two_items(paired, left, right))
            answer = replace(answer, rules=tuple(reason for _, reason in said))
        if report is not None:
            Linked.of(self, paired, probability, clusters).write_pair(left, right, report)
        return answer

    def explain_antecedents(self, items: Mentions, item: int | str) -> AntecedentExplanation:
        """After ranking: which earlier items one follows, by number or name, with shares that sum to 1."""
        own = antecedents_of(self.candidates(items), item)
        return explain_antecedents(own, self.antecedent_shares(own), item)

    def explain_cluster(
        self,
        items: Mentions,
        item: int | str,
        probability: Array | None = None,
        clusters: Array | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        report: PathLike | None = None,
    ) -> ClusterExplanation:
        """The weakest link of the cluster an item is in, and what would split it; `report`: also write a page.

        `probability` and `clusters` save working them out again.
        """
        self._require_fitted()
        check_report(report)
        return Linked.of(self, items, probability, clusters, must_link, cannot_link).explain(item, report)

    def explain_clusters(
        self,
        items: Mentions,
        most: int = 50,
        probability: Array | None = None,
        clusters: Array | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        report: PathLike | None = None,
    ) -> list[ClusterExplanation]:
        """The same of many: by turns the most uncertain cluster, the largest, the most nearly joined to another."""
        self._require_fitted()
        check_report(report)
        return Linked.of(self, items, probability, clusters, must_link, cannot_link).explain_many(most, report)

    def report(
        self,
        items: Mentions,
        path: PathLike,
        most: int = 20,
        *,
        pairs: Any = None,
        left: str | None = None,
        right: str | None = None,
        match: str | None = None,
    ) -> None:
        """Write a page about the items and what the model makes of them, with or without truth: what columns hold, what
        each blocking rule keeps, match weights, what other thresholds would do, and `most` of the clusters.

        pairs   labelled pairs as in `fit`, by which precision and recall are measured in the place of true clusters
        """
        self._require_fitted()
        check_report(path)
        labels = None if pairs is None else pair_labels(items, pairs, left, right, match)
        paired, told = self._blocked(items)
        write_linker_report(self, Linked.of(self, paired), told, path, most, labels)

    def to_dict(self) -> dict[str, Any]:
        """What was learned, in plain values for JSON: every comparison with its levels, their weights and how many
        training pairs have each; blocking, clusterer, settings, and how training went."""
        self._require_fitted()
        return described(self)

    def _features(self, items: Mentions) -> Sequence[PairFeature]:
        if self.features is not None:
            return as_comparisons(self.features)
        return [CoreferencePairs()] if items.corpus is not None else default_comparisons(items)

    def _conjunctions(self, features: Sequence[PairFeature]) -> Any:
        if not (isinstance(self.conjunctions, str) and self.conjunctions == "default"):
            return self.conjunctions
        return CONJUNCTIONS if any(isinstance(f, CoreferencePairs) for f in features) else None

    def _clusterer(self, taught: Supervision) -> Clusterer:
        if self.clusterer is None or self.clusterer == "auto":
            if taught.guess is not None:
                return taught.guess.clusterer
            return usual_for(taught.known, self.training, taught.complete, self.clusterer == "auto")
        if not isinstance(self.clusterer, Clusterer):
            raise SettingError("clusterer", self.clusterer, "'auto', SingleLink(), AverageLink(), ...")
        return self.clusterer

    @property
    def _closes(self) -> bool:
        """Whether pairs that blocking left out are compared where they would count as "no" inside a likely cluster."""
        return self.closure and self.clusterer_.every_pair

    @property
    def _structured_rounds(self) -> int:
        return self.rounds if self.training == "structured" else 0

    @property
    def _probabilities(self) -> Probabilities:
        return Probabilities(self.training, self.calibration_, resolve_jobs(self.n_jobs))

    def _scores(self, weights: Array, items: Mentions, n_jobs: int, coded: Coder | None = None) -> NDArray[np.float64]:
        """Of each pair the sum of its weights; `coded`: the coder of the same items, whose pairs may be others."""
        return self.pair_set_.scores(weights, items, n_jobs, coded)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        columns = self.pair_set_.for_file()
        header = {
            **columns.header,
            "bias": None if self.bias is None else vars(self.bias),
            "clusterer": [name_in_file(self.clusterer_, Clusterer), self.clusterer_.get_params()],
            "auto": self.clusterer == "auto",
            "blocking": None if self.blocking is None else [str(rule) for rule in as_rules(self.blocking)],
            "rules": [str(rule) for rule in as_certain(self.rules)],
            "calibration": self.calibration_.for_file(),
            "learned_from": self.learned_from_,
            "best_round": self.best_round_,
            "rounds": [{**vars(r), "convergence": r.convergence.for_file()} for r in self.rounds_],
        }
        arrays = {"weights": self.weights_, "shares": self.shares_}
        if len(self.calibration_.knots):
            arrays["calibration"] = self.calibration_.knots
        if self.training == "combined":
            arrays["antecedent_weights"] = np.asarray(self.antecedent_weights_)
        return ModelFile({**self.head(), "linker": header}, arrays | columns.arrays, columns.strings)

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        spec = file.header["linker"]
        self.pair_set_ = PairSet.from_file(file, spec, lambda one: _rebuilt_feature(one, functions))
        weights, shares = file.arrays["weights"], file.arrays["shares"]
        fits(weights.shape == (self.pair_set_.n_weights,) and shares.shape == weights.shape)
        fits(bool(np.isfinite(weights).all() and np.isfinite(shares).all()))
        self.weights_, self.shares_ = weights.astype(np.float64), shares.astype(np.float64)
        self.antecedent_weights_ = self.weights_ if self.training == "ranking" else None
        if self.training == "combined":
            ranked = file.arrays["antecedent_weights"]
            fits(ranked.shape == weights.shape and bool(np.isfinite(ranked).all()))
            self.antecedent_weights_ = ranked.astype(np.float64)
        self.calibration_ = Calibration.from_file(spec.get("calibration"), file.arrays.get("calibration"))
        self.features = list(self.pair_set_.features)
        names = [column.name for column in self.pair_set_.columns]
        self.conjunctions = [(names[a], names[b]) for a, b in self.pair_set_.joined] or None
        self.bias = None if spec["bias"] is None else Bias(**spec["bias"])
        name, settings = spec["clusterer"]
        self.clusterer_ = class_in_file(FORMER_NAMES.get(name, name), Clusterer, "the model uses a clusterer")(
            **settings
        )
        self.clusterer = "auto" if spec.get("auto") else self.clusterer_
        self.blocking = spec["blocking"]
        self.rules = as_certain(spec.get("rules")) or None  # files of before have none
        self.rounds_ = [Round(**{**r, "convergence": Convergence.from_file(r["convergence"])}) for r in spec["rounds"]]
        self.best_round_ = int(spec["best_round"])
        self.learned_from_ = str(spec.get("learned_from", "clusters"))
        self.convergence_ = self.rounds_[self.best_round_].convergence

    def _check_settings(self) -> None:
        self.check()
        self.clusterer_.check()

    def check(self) -> None:
        """Raise a SettingError for the first setting outside its range."""
        if not isinstance(self.select, str | Sequence) or not self._metrics:
            raise SettingError("select", self.select, "a metric, such as 'pair_f1', or a list of them")
        for name in self._metrics:
            try:
                metric(name)
            except SettingError as error:
                raise SettingError.saying(f"select: {error}") from None
        check_settings(self)
        as_certain(self.rules)
        if self.bias is not None:
            self.bias.check()
            if self.training in RANKS:
                raise SettingError("bias", self.bias, f"None with `training={self.training!r}`")
        if isinstance(self.clusterer, Clusterer) and self.clusterer.of_shares and self.training != "ranking":
            remedy = "AverageLink() takes probabilities"
            raise SettingError("clusterer", self.clusterer, "another one unless `training='ranking'`", remedy)

    @property
    def _metrics(self) -> list[str]:
        """Those of `select`, the first of which chooses."""
        return [self.select] if isinstance(self.select, str) else list(self.select)


def _rebuilt_feature(spec: Mapping[str, Any], functions: Functions) -> PairFeature:
    return CoreferencePairs() if "coreference" in spec else rebuilt_comparison(spec, functions)
