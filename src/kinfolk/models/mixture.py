"""The mixture-of-parents maximum entropy Markov model (Rosenberg, Klein and Taskar, 2007).

p(y_k | parents) = Σ_j α_kj p(y_k | y_j, x): each instance follows one of its parents, so labels far apart, of the same
word in a document or of linked pages, reach each other, and marginals stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from kinfolk.errors import InputError, SettingError
from kinfolk.explain.parents import Explanation, explanation
from kinfolk.features.edges import DEFAULT, EdgeFeature, EdgeFeatures
from kinfolk.features.skips import SameWord, as_builders
from kinfolk.learning.tables import MixtureWeights
from kinfolk.models.batch import Batch
from kinfolk.models.gate import LocalModel, checked_shares, train_local
from kinfolk.models.gate_training import folds_by_group, train_gate
from kinfolk.models.inheritance import inherit_mixture
from kinfolk.models.joint import Examples, shape_of, train_relations, train_together
from kinfolk.models.mixture_decoder import Direction, MixtureDecoder
from kinfolk.models.optimise import Convergence, combined
from kinfolk.models.tagger import Lesson, Tagger
from kinfolk.models.token_parents import CHAIN, TokenParents
from kinfolk.threads import resolve_jobs

BACKWARD = {"forward": (False,), "backward": (True,), "both": (False, True)}
EdgeFeatureList = list[str | EdgeFeature] | tuple[str | EdgeFeature, ...] | str | None


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MixtureOfParents(Tagger):
    """Labels by the company they keep, with exact marginals. Settings: see `Tagger`, and

    training         "separate": each relation's model on its own edges; "conditional": then all together by the
                     conditional log-likelihood L_C; "joint": then all together by the marginal log-likelihood L_M
    skip_edges       which earlier tokens a token looks at besides its neighbour: `SameWord(...)`, a function of a
                     one-document Corpus that returns (later, earlier) pairs, a list of these, or None
    parent_features  on skip edges the features of the parent count with weights of their "own", with those of the
                     child ("shared"), or not at all ("none")
    edge_features    features of skip edges that speak of label pairs: "default", a list, or None
    mixing           weights of parents: "uniform"; "learned" by a gate (joint or conditional training); or a share for
                     each relation, e.g. {"previous": 2, "same word": 1}
    gate_l2          strength of the ridge that draws a learned gate towards uniform weights
    gate_folds       the gate is learned on documents that the models of the relations have not seen, in so many folds;
                     0: on the training data itself, together with them
    order            "forward": parents are earlier tokens; "backward": later ones; "both": the mean of two models

    `predict` gives the valid labelling with the greatest expected number of right labels; with constrain=False the
    arg-max of each marginal. With forced labels, whoever looks at a labelled token sees its label; tokens before it
    are not revised.
    """

    training: str = "joint"
    skip_edges: Any = field(default_factory=SameWord)
    parent_features: str = "own"
    edge_features: EdgeFeatureList = None
    mixing: str | Mapping[str, float] = "uniform"
    gate_l2: float = 1.0
    gate_folds: int = 3
    order: str = "forward"

    parents_: tuple[TokenParents, ...] = field(init=False)
    local_: LocalModel | None = field(init=False)
    weights_: tuple[MixtureWeights, ...] = field(init=False)

    # -- learning -------------------------------------------------------------------------------------

    def _train(self, lesson: Lesson) -> None:
        n_labels = len(lesson.data.classes)
        if self.mixing == "learned" and self.training == "separate" and not self.gate_folds:
            raise SettingError(
                "a learned gate needs training='joint' or 'conditional'; separate training has no weights"
            )
        skips = tuple(builder.learn(lesson.corpus) for builder in as_builders(self.skip_edges))
        self.parents_ = tuple(self._parents(skips, backward, lesson) for backward in BACKWARD[self.order])
        self.local_, doubt, fold = None, None, None
        if self.mixing == "learned":
            fold = folds_by_group(lesson.data.groups, max(2, self.gate_folds), lesson.plan.seed)
            data, plan = lesson.data, lesson.plan
            self.local_, doubt = train_local(data.features, data.labels, lesson.weights, fold, n_labels, plan)
        weights, outcomes = [], []
        for number, parents in enumerate(self.parents_):
            sample, edges, starts = parents.compile(lesson.corpus, lesson.data.features, lesson.pair_rows, doubt)
            examples = Examples(sample, lesson.data.labels, lesson.weights, n_labels, edges, starts)
            found, outcome = self._train_direction(examples, parents, number, fold, lesson)
            weights.append(found)
            outcomes.append(outcome)
        self.weights_, self.convergence_ = tuple(weights), combined(outcomes)

    def _parents(self, skips: Any, backward: bool, lesson: Lesson) -> TokenParents:
        names = [CHAIN[backward], *(skip.name for skip in skips)]
        shares = None
        if isinstance(self.mixing, Mapping):
            given = {CHAIN[backward] if name in CHAIN.values() else name: s for name, s in self.mixing.items()}
            shares = checked_shares(given, names, names[0])
        return TokenParents(
            skips,
            backward,
            self.parent_features,
            None if self.edge_features is None else EdgeFeatures(_listed(self.edge_features)),
            EdgeFeatures(_listed(self.edge_features or "default")) if self.mixing == "learned" else None,
            shares,
            0 if lesson.pair_rows is None else lesson.pair_rows.shape[1],
        )

    def _train_direction(
        self, examples: Examples, parents: TokenParents, number: int, fold: Any, lesson: Lesson
    ) -> tuple[MixtureWeights, Convergence]:
        """Separately, or from what an earlier fit found; then together."""
        shape = shape_of(examples.sample, examples.n_labels)
        start = None if lesson.before is None else inherit_mixture(lesson.before, number, self, shape)
        outcome = None
        if start is None or self.training == "separate":
            start, outcomes = train_relations(examples, lesson.plan, lesson.callback)
            outcome = combined(outcomes)
        plan = replace(lesson.plan, stage=self.training)
        held_out, score = lesson.held_out, None
        if held_out is not None:

            def score(weights: MixtureWeights) -> float:
                decoder = self._mixture_decoder((Direction(parents, weights),))
                return self._score_path(held_out, decoder.paths(held_out, forced=False))

        if fold is not None and self.gate_folds:
            gate = train_gate(examples, fold, float(self.gate_l2), lesson.plan, lesson.callback)
            start = start._replace(gate=gate.astype(np.float32))
        if self.training == "separate":
            assert outcome is not None
            return start, outcome
        clamp, together = self.training == "conditional", not self.gate_folds
        return train_together(examples, start, clamp, together, float(self.gate_l2), plan, score, lesson.callback)

    # -- prediction -----------------------------------------------------------------------------------

    def _decoder(self, weights: Any = None) -> MixtureDecoder:
        found = self.weights_ if weights is None else weights
        return self._mixture_decoder(tuple(Direction(p, w) for p, w in zip(self.parents_, found, strict=True)))

    def _mixture_decoder(self, directions: tuple[Direction, ...]) -> MixtureDecoder:
        return MixtureDecoder(
            directions, self.local_, self.features_, self.transition_features_, self.coding_, self.constrain,
            resolve_jobs(self.n_jobs),
        )  # fmt: skip

    def explain(self, X: Any, document: int, token: int) -> Explanation:
        """Why a token has its marginal: each parent, its weight, what it predicts, its exact share of the answer.

        `document` and `token` count from 0, the token within its document. Parents are numbered the same way.
        """
        self._require_fitted()
        batch = Batch.of(X)
        corpus = batch.corpus
        if not 0 <= document < corpus.n_documents:
            raise InputError(f"there is no document {document}: there are {corpus.n_documents}, numbered from 0")
        one = corpus.documents(document, document + 1)
        if not 0 <= token < one.n_tokens:
            raise InputError(f"document {document} has no token {token}: it has {one.n_tokens}, numbered from 0")
        if batch.items is not None:
            first, last = corpus.document_starts[document : document + 2]
            batch = Batch(one, batch.items[first:last])
        else:
            batch = Batch(one)
        words = one.columns["word"].strings()
        name_of = lambda t: f"{words[t]} ({t})"  # noqa: E731
        return explanation(token, self._decoder().voices(batch, token), self.coding_.classes.names, name_of)


def _listed(features: EdgeFeatureList) -> Any:
    return DEFAULT if features == "default" else features


def top_gate_weights(names: list[str], gate: np.ndarray[Any, Any], n: int = 10) -> list[tuple[str, float]]:
    """The gate features with the greatest weights, for people."""
    order = np.argsort(-np.abs(gate))[:n]
    return [(names[i], float(gate[i])) for i in order]
