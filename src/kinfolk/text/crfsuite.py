"""sklearn-crfsuite's CRF under its own names: the same settings, the same objective, the same weights.

    maximise   Σ log p(y | x) - c1 · Σ|w| - c2 · Σw²,     p(y | x) ∝ exp( Σ_t x_t · W[:, y_t] + Σ_t T[y_{t-1}, y_t] )

CRFsuite has no weights for how a sentence begins, and W and T have entries only for what training data show: attributes
with the labels they stand at, also by a value of 0 or False, and labels with those that follow them
(`all_possible_states`, `all_possible_transitions`: all there could be). `min_freq` leaves out entries whose values add
up to less in the training data. All other entries are 0 and stay 0. tests/text/test_crfsuite.py holds weights and
marginals against python-crfsuite's.

The scores of `sklearn_crfsuite.metrics` are here too, so `from kinfolk.text import crfsuite as metrics` will do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.checkpoint import check_checkpoint
from kinfolk.core.modelfile import Functions, ModelFile, check_writable, fits, load_model, restored
from kinfolk.core.settings import FLAG, NONE, NOT_NEGATIVE, SCHEMES, check_settings, number, one_of, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Callback, Convergence
from kinfolk.errors import InputError, ModelFileError, SettingError, SettingWarning, warn
from kinfolk.inference.chain import Potentials
from kinfolk.learning.loglinear import Shape
from kinfolk.text.batch import Batch, FeatureSet
from kinfolk.text.chain import Block, ChainTagger, Decoder, LinearChainCRF, from_the_top
from kinfolk.text.corpus import Corpus
from kinfolk.text.dicts import DictFeatures
from kinfolk.text.doubtful_labels import warn_of_labels
from kinfolk.text.extraction import TokenFeatures
from kinfolk.text.flat_scores import (
    flat_accuracy_score,
    flat_classification_report,
    flat_f1_score,
    flat_fbeta_score,
    flat_precision_score,
    flat_recall_score,
    sequence_accuracy_score,
)
from kinfolk.text.scores import token_accuracy
from kinfolk.text.tagger import TokenModel, TrainingSet

__all__ = [
    "CRF",
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

Array = NDArray[Any]
WINDOW = 5  # iterations over which kinfolk's optimiser looks at what was gained
UNLIMITED = 100_000  # iterations; CRFsuite's lbfgs has no limit of its own
USUAL = {"c1": 0.0, "c2": 1.0, "delta": 1e-5, "period": 10}  # CRFsuite's own values of settings that are None
OF_OTHERS = {  # the algorithms that are not here, and what only they look at
    "ap": "the averaged perceptron", "pa": "passive aggressive learning", "arow": "AROW",
}  # fmt: skip


# -- the chain with CRFsuite's weights ----------------------------------------------------------------


@final
@dataclass(kw_only=True, eq=False, repr=False)
class CRFsuiteChain(ChainTagger):
    """What a `CRF` learns: a linear chain whose weights are those that CRFsuite has."""

    LOSS: ClassVar[str] = "crf"
    CONDITIONS: ClassVar[bool] = True

    min_freq: float = setting(0.0, "weights whose values add up to less in training are left out", NOT_NEGATIVE)
    all_possible_states: bool = setting(False, "weights of attributes with labels they were never seen with", FLAG)
    all_possible_transitions: bool = setting(False, "weights of labels that never followed each other", FLAG)

    def _new_features(self, batch: Batch) -> tuple[FeatureSet, TokenFeatures | None]:
        return DictFeatures(1, false=True), None

    def _potentials(self, block: Block, n_jobs: int) -> Potentials:
        return Potentials.of(from_the_top(block.node), block.pair, block.starts, block.start)

    def _learned(
        self, training_set: TrainingSet, shape: Shape, start: Array | None, score: Callable[[Any], float] | None
    ) -> tuple[Array, Convergence]:
        """Held-out scores are for the log. An end by a limit that was asked for is told there too, as CRFsuite does."""
        plan = replace(training_set.plan, by_held_out=False, warns=False)
        return super()._learned(replace(training_set, plan=plan), shape, start, score)

    def _at_zero(self, training_set: TrainingSet, shape: Shape) -> NDArray[np.bool_]:
        """All but the weights of pairs that were seen, or could be, often enough."""
        out = np.ones(shape.size, bool)
        weights, labels, n = shape.split(out), training_set.data.labels, shape.labels
        known = np.flatnonzero(labels >= 0)
        at_label = sparse.csr_array((np.ones(len(known)), (known, labels[known])), shape=(len(labels), n))
        rows = training_set.data.features
        there = sparse.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)  # zeros too
        self._leave_out(weights.node, rows.T @ at_label, there.T @ at_label, self.all_possible_states)
        first = np.zeros(len(labels), bool)
        first[training_set.corpus.sentence_starts[:-1]] = True
        after = np.flatnonzero(~first & (labels >= 0) & (np.roll(labels, 1) >= 0))
        follows = (np.ones(len(after)), (labels[after - 1], labels[after]))
        counts = sparse.coo_array(follows, shape=(n, n)).tocsr()
        self._leave_out(weights.pair, counts, counts, self.all_possible_transitions)
        return out

    def _leave_out(self, at_zero: Array, frequency: Any, seen: Any, all_possible: bool) -> None:
        """Mark the weights that there are by False: those seen, or all, with a sum of values of `min_freq` or more.

        CRFsuite also leaves out what adds up to less than 0, without a word and where no cut-off is asked for; here it
        is kept then.
        """
        if all_possible and not self.min_freq:
            at_zero[:] = False
            return
        i, j = seen.nonzero()
        kept = np.ones(len(i), bool)
        if self.min_freq:
            kept = np.asarray(frequency.tocsr()[i, j]).reshape(-1) >= self.min_freq
        at_zero[i[kept], j[kept]] = False


# -- the face -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingLog:
    """How training went: `iterations` have "num", "loss" and, where held-out data were given, "item_accuracy_float";
    at most 200 of them."""

    iterations: tuple[dict[str, Any], ...]

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        return self.iterations[-1] if self.iterations else None


def _unused(what: str) -> Any:
    return setting(None, f"taken and not used: {what}")


OWN = "kinfolk's optimiser has its own"
L2SGD = 'of "l2sgd" in CRFsuite'


@final
@dataclass(eq=False, repr=False)
class CRF(TokenModel):
    """`sklearn_crfsuite.CRF` without CRFsuite: sequences of feature dicts, labels as they are, the same weights.

    None stands for CRFsuite's own default. What has no meaning here is taken, and a `SettingWarning` says once a `fit`
    what is done instead. `score` is the accuracy of single labels, as there.

    Learned by `fit`: `classes_`, `state_features_`, `transition_features_`, `attributes_`, `training_log_`, and
    `chain_`, the tagger itself.
    """

    algorithm: str | None = setting(
        None,
        '"lbfgs" (None), or "l2sgd", which has the same objective and is minimised in the same way here; others are '
        "refused",
        one_of("lbfgs", "l2sgd", *OF_OTHERS) | NONE,
    )
    min_freq: float | None = setting(
        None, "weights whose values add up to less in training are left out; None: none is", NOT_NEGATIVE | NONE
    )
    all_possible_states: bool | None = setting(
        None, "also weights of attributes with labels they were never seen with", FLAG | NONE
    )
    all_possible_transitions: bool | None = setting(
        None, "also weights of labels that never followed each other", FLAG | NONE
    )
    c1: float | None = setting(None, "strength of the lasso, c1 · |w|₁; None: 0", NOT_NEGATIVE | NONE)
    c2: float | None = setting(None, "strength of the ridge, c2 · |w|²; None: 1", NOT_NEGATIVE | NONE)
    max_iterations: int | None = setting(None, 'limit of iterations; None: no limit, 1000 for "l2sgd"', whole(1) | NONE)
    num_memories: int | None = _unused(OWN)
    epsilon: float | None = _unused("`delta` ends training")
    period: int | None = setting(None, "iterations over which `delta` is looked at; None: 10", whole(1) | NONE)
    delta: float | None = setting(
        None,
        'stop when `period` iterations lowered the objective by less, relative; None: 1e-5, 1e-6 for "l2sgd"',
        number(0, 1) | NONE,
    )
    linesearch: str | None = _unused(OWN)
    max_linesearch: int | None = _unused(OWN)
    calibration_eta: float | None = _unused(L2SGD)
    calibration_rate: float | None = _unused(L2SGD)
    calibration_samples: int | None = _unused(L2SGD)
    calibration_candidates: int | None = _unused(L2SGD)
    calibration_max_trials: int | None = _unused(L2SGD)
    pa_type: int | None = _unused('of "pa" in CRFsuite')
    c: float | None = _unused('of "pa" in CRFsuite')
    error_sensitive: bool | None = _unused('of "pa" in CRFsuite')
    averaging: bool | None = _unused('of "pa" in CRFsuite')
    variance: float | None = _unused('of "arow" in CRFsuite')
    gamma: float | None = _unused('of "arow" in CRFsuite')
    model_filename: str | os.PathLike[str] | None = setting(
        None,
        "a model file of kinfolk: `fit` writes it, and where it exists a model that is not trained answers with it",
        in_file=False,
    )
    keep_tempfiles: bool | None = _unused("there are no temporary files")
    trainer_cls: Any = setting(None, "must be None: give `fit` a callback instead", NONE, in_file=False)
    scheme: str | None = setting(
        None,
        'tag scheme of the labels, or "auto": then no predicted sequence breaks it. None: labels are labels, as to '
        "CRFsuite",
        one_of("auto", *SCHEMES) | NONE,
        kw_only=True,
    )

    chain_: CRFsuiteChain = field(init=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "chain_") or (self.model_filename is not None and os.path.isfile(self.model_filename))

    def _require_fitted(self) -> None:
        super()._require_fitted()
        if not hasattr(self, "chain_"):
            assert self.model_filename is not None
            kept = load_model(self.model_filename, kind="tokens")
            if not isinstance(kept, CRF):
                raise ModelFileError(
                    f"{self.model_filename}: expected a model of CRF; it holds a {type(kept).__name__}"
                )
            self.chain_, self.coding_ = kept.chain_, kept.coding_

    @property
    def _scheme(self) -> str | None:
        return self.scheme

    def _decoder(self, weights: Any = None) -> Decoder:
        return Decoder(self.chain_, resolve_jobs(self.n_jobs), self.chain_.weights_ if weights is None else weights)

    # -- learning -------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, X_dev: Any = None, y_dev: Any = None, callback: Callback | None = None,
        *, checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:  # fmt: skip
        """Train on sentences `X` of feature dicts with labels `y`, or on a Corpus that has both.

        X_dev, y_dev   held-out data: scored after each iteration for `training_log_`, and no more than that
        callback       receives a Progress after each pass and iteration; returning True stops
        checkpoint     a file that `fit` goes on from if it was stopped, as in `Tagger.fit`
        """
        check_checkpoint(checkpoint)
        if (X_dev is None) != (y_dev is None) and not isinstance(X_dev, Corpus):
            raise InputError("X_dev and y_dev go together: give both or none")
        self._check()
        if self.model_filename is not None:
            check_writable(self.model_filename)
        batch = _dicts(X, y, self.scheme)
        dev = None if X_dev is None else _dicts(X_dev, y_dev, self.scheme)
        warn_of_labels(batch.corpus)
        chain = self._chain().fit(batch, X_dev=dev, callback=callback, checkpoint=checkpoint)
        with self._all_or_nothing():
            self.chain_, self.coding_ = chain, chain.coding_
            if self.model_filename is not None:
                self.save(self.model_filename)
        return self

    def linear_chain(self) -> LinearChainCRF:
        """A LinearChainCRF with the same c1 and c2, not trained: with a weight for every label and how sentences begin,
        over words or dicts, and as the base of a StackedTagger."""
        self._check()
        least = max(1, math.ceil(self.min_freq or 0))
        return LinearChainCRF(min_count=least, scheme=self.scheme, **self._optimiser())

    def _chain(self) -> CRFsuiteChain:
        return CRFsuiteChain(
            min_freq=float(self.min_freq or 0),
            all_possible_states=bool(self.all_possible_states),
            all_possible_transitions=bool(self.all_possible_transitions),
            scheme=self.scheme,
            dev_every=1,
            verbose=self.verbose,
            **self._optimiser(),
        )

    def _optimiser(self) -> dict[str, Any]:
        """kinfolk's objective is loss + l1 · |w|₁ + l2/2 · |w|², and it looks at what WINDOW iterations gained."""
        given = {name: usual if getattr(self, name) is None else getattr(self, name) for name, usual in USUAL.items()}
        stochastic = self.algorithm == "l2sgd"
        if stochastic and self.delta is None:
            given["delta"] = 1e-6
        limit = (1000 if stochastic else UNLIMITED) if self.max_iterations is None else int(self.max_iterations)
        return {
            "l1": float(given["c1"]), "l2": 2 * float(given["c2"]), "max_iterations": limit,
            "tolerance": float(given["delta"]) * WINDOW / given["period"],
            "random_state": self.random_state, "n_jobs": self.n_jobs,
        }  # fmt: skip

    def _check(self) -> None:
        """Settings that cannot be are refused, those without a meaning here are told."""
        check_settings(self)
        if self.algorithm in OF_OTHERS:
            raise SettingError(
                "algorithm", self.algorithm, "'lbfgs', 'l2sgd' or None",
                f"{OF_OTHERS[self.algorithm]} has another objective, without probabilities: use 'lbfgs' with c1 and c2",
                owner="CRF",
            )  # fmt: skip
        if self.algorithm == "l2sgd" and self.c1:
            raise SettingError("c1", self.c1, "None or 0 with 'l2sgd', which has no lasso", "use 'lbfgs'", owner="CRF")
        told = ["algorithm='l2sgd' (its objective is minimised by L-BFGS)"] if self.algorithm == "l2sgd" else []
        for name, one in self.DECLARED.items():
            value, (what, _, why) = getattr(self, name), one.help.partition(": ")
            if what == "taken and not used" and value not in (None, False):
                told.append(f"{name}={value!r} ({why})")
        if told:
            warn(f"CRF is trained by kinfolk, without effect of {', '.join(told)}", SettingWarning)

    # -- prediction, with CRFsuite's names ------------------------------------------------------------

    def predict_single(self, xseq: Any) -> list[Any]:
        """The labels of one sentence."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: Any) -> list[list[dict[Any, float]]]:
        """For each token of each sentence label -> probability, exact."""
        tables, labels = self.predict_proba(X), self.classes_
        return [[dict(zip(labels, row, strict=True)) for row in table.tolist()] for table in tables]

    def predict_marginals_single(self, xseq: Any) -> list[dict[Any, float]]:
        """The same of one sentence."""
        return self.predict_marginals([xseq])[0]

    def score(self, X: Any, y: Any = None, *, words: Any = None, documents: Any = None, vectors: Any = None) -> float:
        """The share of labels that are right, from 0 to 1, as `sklearn_crfsuite.CRF.score`; labels that are unknown do
        not count. F1 of whole entities: `kf.entity_scores(y, crf.predict(X))`."""
        self._require_fitted()
        batch = Batch.of(X, y, self.scheme, words, documents, vectors)
        gold = self.coding_.gold(batch.corpus, warns=True)
        return token_accuracy(gold.codes, self._decoder().paths(batch, forced=False)) / 100

    # -- what was learned -----------------------------------------------------------------------------

    @property
    def classes_(self) -> list[Any]:  # type: ignore[override]
        """The labels, sorted."""
        self._require_fitted()
        return list(self.coding_.classes.labels)

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """(attribute, label) -> weight, of those that are not 0."""
        self._require_fitted()
        return self.chain_.state_features_

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """(label, next label) -> weight, of those that are not 0."""
        self._require_fitted()
        return self.chain_.transition_features_

    @property
    def attributes_(self) -> list[str]:
        """The attributes that have a weight other than 0."""
        self._require_fitted()
        names = self.chain_.features_.names()
        return [names[i] for i in np.flatnonzero((self.chain_.weights_.node != 0).any(axis=1)).tolist()]

    @property
    def num_attributes_(self) -> int:
        return len(self.attributes_)

    @property
    def size_(self) -> int:
        """Bytes of weights and names of attributes."""
        self._require_fitted()
        names = sum(len(name.encode()) for name in self.chain_.features_.names())
        return names + sum(part.nbytes for part in self.chain_.weights_)

    @property
    def training_log_(self) -> TrainingLog:
        self._require_fitted()
        stages = self.chain_.convergence_.stages
        if not stages:
            return TrainingLog(())
        scores = {n: {"item_accuracy_float": score} for n, score in stages[-1].held_out}
        return TrainingLog(tuple({"num": n, "loss": loss, **scores.get(n, {})} for n, loss in stages[-1].objective))

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = ModelFile(self.head())
        state.header["chain"] = state.add("chain", self.chain_.to_state())
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        chain = restored(file.part("chain", file.header["chain"]), functions, trusted)
        fits(isinstance(chain, CRFsuiteChain))
        self.chain_, self.coding_ = chain, chain.coding_


def _dicts(X: Any, y: Any, scheme: str | None) -> Batch:
    batch = Batch.of(X, y, scheme)
    if batch.items is None and batch.corpus.n_tokens:
        raise InputError(
            "CRF learns from feature dicts, [[{'lower': 'kim'}, ...], ...]; got words. For words there is "
            "LinearChainCRF, whose templates make features of them"
        )
    return batch
