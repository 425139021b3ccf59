"""The mixture-of-parents maximum entropy Markov model (Rosenberg, Klein and Taskar, 2007) over tokens.

p(y_k | parents) = Σ_j α_kj p(y_k | y_j, x): each token follows one of its parents, the token before it or an earlier
one with the same word, so labels far apart in a document reach each other, and marginals stay exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.explain import Component, Explanation, explanation
from kinfolk.collective.mixture import (
    PARENT_FEATURES,
    EdgeData,
    Examples,
    Layout,
    LocalModel,
    MixtureSettings,
    RelationLayout,
    Sample,
    checked_shares,
    folds_by_group,
    gate_names,
    gate_rows,
    put_mixture,
    shape_of,
    shared_weights,
    taken_local,
    taken_shares,
    taken_weights,
    train_local,
    train_mixture,
    untrained_relations,
    wire,
)
from kinfolk.collective.templates import set_known
from kinfolk.core.modelfile import Functions, ModelFile, fits
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Convergence, combined, warn_unless_converged
from kinfolk.errors import SettingError
from kinfolk.inference.mixture import Dag, LabelledSpan, beliefs, build_dag, mixture_span_probabilities
from kinfolk.learning.loglinear import TableWeights, inherit_mixture
from kinfolk.report.page import PathLike
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, Entity, FeatureSet, entity_list, found_spans
from kinfolk.text.chain import allowed_steps, most_expected
from kinfolk.text.corpus import Corpus
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.skip_edges import (
    SAME_WORD,
    EdgeFeature,
    EdgeFeatures,
    LearnedSkips,
    as_builders,
    edge_feature_set,
    put_skips,
    restored_edge_features,
    restored_skips,
    skip_settings,
    warn_without_edges,
)
from kinfolk.text.tagger import Tagger, TrainingSet

# -- Who the parents of a token are: the token before it and, by skip edges, earlier tokens of its document ---
#
# From right to left (`backward`) everything is mirrored: the token behind it, and later tokens.

Array = NDArray[Any]
CHAIN = {False: "previous", True: "next"}


@dataclass(frozen=True, eq=False)
class TokenParents:
    """The rule after training, for one direction.

    skips            skip edges, a relation each
    parent_features  features of the parent on skip edges: "none", with weights of their "own", or "shared" ones
    edge_features    features of label pairs on skip edges, or None
    gate_features    edge features that the gate sees, None: no gate
    shares           fixed mixing weights by relation (R + 1,), the last for start; None: uniform or gated
    untrained        relations without a labelled edge in training: they have nothing to say, and are left out
    """

    skips: tuple[LearnedSkips, ...]
    backward: bool
    parent_features: str
    edge_features: EdgeFeatures | None
    gate_features: EdgeFeatures | None
    shares: Array | None
    n_pair_features: int = 0  # features of label pairs on the chain (transition templates)
    untrained: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (CHAIN[self.backward], *(skip.name for skip in self.skips))

    @property
    def layout(self) -> Layout:
        """Sentence starts share the table of the chain: a token's features mean the same there."""
        n_edge = 0 if self.edge_features is None else len(self.edge_features.names())
        chain = RelationLayout(self.names[0], "none", self.n_pair_features)
        rest = (RelationLayout(name, self.parent_features, n_edge) for name in self.names[1:])
        return Layout((chain, *rest), start_table=0)

    @property
    def n_gates(self) -> int:
        """Weights of the gate."""
        if self.gate_features is None:
            return 0
        return len(gate_names(self.names, [[], *([self.gate_features.names()] * len(self.skips))]))

    def spec(self) -> dict[str, Any]:
        """What a model file says of the rule; `skips` keep words beside it."""
        return {
            "skips": [skip.spec() for skip in self.skips],
            "backward": self.backward,
            "parent_features": self.parent_features,
            "edge_features": None if self.edge_features is None else self.edge_features.spec(),
            "gate_features": None if self.gate_features is None else self.gate_features.spec(),
            "pair_features": self.n_pair_features,
            "shares": self.shares is not None,
            "untrained": list(self.untrained),
        }

    @classmethod
    def from_spec(cls, file: ModelFile, d: int, spec: Mapping[str, Any], functions: Functions) -> TokenParents:
        edge, gate = (restored_edge_features(spec[name], functions) for name in ("edge_features", "gate_features"))
        skips = restored_skips(file.part(f"mixture.{d}"), spec["skips"], functions)
        flags, shares = (spec["backward"], spec["parent_features"]), taken_shares(file, d, spec)
        return cls(skips, *flags, edge, gate, shares, spec["pair_features"], tuple(spec["untrained"]))

    def edges(self, corpus: Corpus) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """(child, parent) of each relation, and the tokens that start a sentence (from this side)."""
        first = corpus.sentence_starts[1:] - 1 if self.backward else corpus.sentence_starts[:-1]
        child = np.delete(np.arange(corpus.n_tokens), first)
        chain = np.stack([child, child + (1 if self.backward else -1)], axis=1)
        nothing = np.empty((0, 2), np.int64)
        skips = (nothing if s.name in self.untrained else s.edges(corpus, self.backward) for s in self.skips)
        return [chain, *skips], first

    def compile(
        self, corpus: Corpus, rows: sparse.csr_array, pair_rows: sparse.csr_array | None, uncertainty: Array | None
    ) -> tuple[Sample, list[EdgeData], NDArray[np.int64]]:
        """A sample; and for separate training the edges of each relation, and the starts."""
        edges, first = self.edges(corpus)
        start = np.zeros(corpus.n_tokens, bool)
        start[first] = True
        dag = build_dag(edges, corpus.token_documents, start, self.names)
        on_chain = None if pair_rows is None else pair_rows[edges[0][:, 0]]
        pairs = [on_chain, *(self._on_edges(self.edge_features, corpus, e) for e in edges[1:])]
        layout = self.layout
        gates = self._gates(corpus, dag, edges, pairs, uncertainty)
        given = None if self.shares is None else [shared_weights(dag, self.shares)]
        sample = Sample(layout, rows, wire(layout, [dag], [pairs]), [gates], given)
        data = [
            EdgeData(e, relation.parent_features, p)
            for e, relation, p in zip(edges, layout.relations, pairs, strict=True)
        ]
        return sample, data, first

    def _gates(
        self, corpus: Corpus, dag: Dag, edges: list[Array], pairs: list[Any], uncertainty: Array | None
    ) -> Array:
        if self.gate_features is None:
            return np.zeros((dag.n_components, 0))
        if self.gate_features == self.edge_features:  # the same rows serve label pairs and the gate
            by_relation = [None, *pairs[1:]]
        else:
            by_relation = [None, *(self._on_edges(self.gate_features, corpus, e) for e in edges[1:])]
        uncertain = np.zeros(corpus.n_tokens) if uncertainty is None else uncertainty
        return gate_rows(dag, len(edges), uncertain, by_relation)

    @staticmethod
    def _on_edges(features: EdgeFeatures | None, corpus: Corpus, edges: Array) -> Any:
        return None if features is None else features.rows(corpus, edges[:, 0], edges[:, 1])


# -- A fitted mixture of parents seen from the side of prediction, for tokens --------------------------


@dataclass(frozen=True, eq=False)
class Direction:
    """One model of one direction: its rule for parents, its weights."""

    parents: TokenParents
    weights: TableWeights


@dataclass(frozen=True, eq=False)
class MixtureDecoder:
    """Marginals are the mean over directions; labels are read off them."""

    directions: tuple[Direction, ...]
    local: LocalModel | None
    features: FeatureSet
    pair_features: FeatureSet | None
    coding: LabelCoding
    constrain: bool
    n_jobs: int

    def samples(self, batch: Batch) -> Iterator[tuple[Direction, Sample]]:
        """For each direction the compiled tokens."""
        rows = batch.rows(self.features, self.n_jobs)
        pair_rows = None if self.pair_features is None else batch.rows(self.pair_features, self.n_jobs, pairs=True)
        uncertainty = None if self.local is None else self.local.uncertainty(rows, self.n_jobs)
        for direction in self.directions:
            sample, _, _ = direction.parents.compile(batch.corpus, rows, pair_rows, uncertainty)
            yield direction, sample

    def marginals(self, batch: Batch, forced: bool) -> Array:
        """(n, L). Forced labels are certain, and are seen by whoever looks at their token; others are not revised."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        table = np.zeros((batch.corpus.n_tokens, len(self.coding.classes)))
        for direction, sample in self.samples(batch):
            table += sample.beliefs(direction.weights, labels, self.n_jobs)[0].marginals / len(self.directions)
        if labels is not None:
            set_known(table, labels)
        return table

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        """The valid labelling with the greatest expected number of right labels; without `constrain`, the arg-max."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        allowed = allowed_steps(self.coding, self.constrain)
        return most_expected(batch.corpus, self.marginals(batch, forced), allowed, labels, self.n_jobs)

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]:
        """The entities of a labelling, each with the probability that exactly it is there (mean over directions)."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        found = found_spans(batch, self.coding, path)
        if not found:
            return []
        continues = schemes.continuations(self.coding.classes.names)
        ends = batch.corpus.sentence_starts[1:]
        last = ends[np.searchsorted(ends, [s.start for s in found], side="right")]
        spans = [
            LabelledSpan(s.start, path[s.start : s.end], bool(s.end < end)) for s, end in zip(found, last, strict=True)
        ]
        confidence = np.zeros(len(found))
        for direction, sample in self.samples(batch):
            wirings, scores = sample.wired.wirings, sample.scores(direction.weights, self.n_jobs)
            alphas = sample.alphas(direction.weights.gate)
            (known,) = beliefs(wirings, scores, alphas, labels, self.n_jobs)
            part = mixture_span_probabilities(wirings[0], scores, alphas[0], known, spans, continues, labels)
            confidence += part / len(self.directions)
        return entity_list(batch, found, confidence)

    def components(self, batch: Batch, tokens: Sequence[int]) -> list[list[Component]]:
        """Who speaks for each token, in every direction; weights of all sum to 1."""
        spoken: list[list[Component]] = [[] for _ in tokens]
        for direction, sample in self.samples(batch):
            names = direction.parents.names
            for components, own in zip(
                spoken, sample.components(direction.weights, names, tokens, self.n_jobs), strict=True
            ):
                components += [replace(component, weight=component.weight / len(self.directions)) for component in own]
        return spoken

    def long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        """(token, token it looks at, relation) of all skip edges."""
        found = []
        for direction in self.directions:
            edges, _ = direction.parents.edges(batch.corpus)
            for name, pairs in zip(direction.parents.names[1:], edges[1:], strict=True):
                found += [(child, parent, name) for child, parent in pairs.tolist()]
        return found


# -- Training a mixture of parents on tokens, from the left, from the right, or both -------------------

BACKWARD = {"forward": (False,), "backward": (True,), "both": (False, True)}


class FittedTokens(NamedTuple):
    """What training on tokens learns: a rule for parents and weights for each direction."""

    parents: tuple[TokenParents, ...]
    weights: tuple[TableWeights, ...]
    local: LocalModel | None
    convergence: Convergence


def token_parents(model: Any, corpus: Corpus, n_pair_features: int) -> tuple[TokenParents, ...]:
    """The rules for parents that the settings of a model ask for, one a direction."""
    if model.mixing == "given":
        raise SettingError.saying(
            "`mixing='given'` takes the weights of a Relational; for tokens give a share for each relation"
        )
    skips = tuple(builder.learn(corpus) for builder in as_builders(model.skip_edges))
    edge, gate = model.edge_features, None
    if model.mixing == "learned":
        gate = edge_feature_set(edge or "default")
    return tuple(
        TokenParents(
            skips, backward, model.parent_features, None if edge is None else edge_feature_set(edge), gate,
            _shares(model.mixing, skips, backward), n_pair_features,
        )
        for backward in BACKWARD[model.order]
    )  # fmt: skip


def _shares(mixing: Any, skips: tuple[LearnedSkips, ...], backward: bool) -> Any:
    """Fixed mixing weights by relation; "previous" and "next" name the chain of either direction."""
    if not isinstance(mixing, Mapping):
        return None
    if {*CHAIN.values()} <= {*mixing}:
        raise SettingError.saying("mixing names 'previous' and 'next'; name one of them, it serves both orders")
    names = [CHAIN[backward], *(skip.name for skip in skips)]
    return checked_shares({names[0] if n in CHAIN.values() else n: s for n, s in mixing.items()}, names, names[0])


def fit_tokens(
    model: Any, training_set: TrainingSet, settings: MixtureSettings,
    scorer: Callable[[TokenParents, LocalModel | None], Callable[[TableWeights], float] | None],
) -> FittedTokens:  # fmt: skip
    """One direction after the other; with a learned gate first a local model that tells how sure one can be."""
    data, n_labels = training_set.data, len(training_set.data.classes)
    rules = token_parents(
        model, training_set.corpus, 0 if training_set.pair_rows is None else training_set.pair_rows.shape[1]
    )
    callback = training_set.callback
    fold, local, uncertainty = None, None, None
    if model.mixing == "learned":
        fold = folds_by_group(data.groups, max(2, settings.gate_folds), training_set.plan.seed)
        local, uncertainty = train_local(
            data.features, data.labels, training_set.weights, fold, n_labels, training_set.plan, callback
        )
    weights, outcomes, learned = [], [], []
    for number, parents in enumerate(rules):
        sample, edges, starts = parents.compile(training_set.corpus, data.features, training_set.pair_rows, uncertainty)
        if number == 0:
            warn_without_edges(parents.names[1:], [d.edges for d in edges[1:]], training_set.corpus, training_set.dicts)
        examples = Examples(sample, data.labels, training_set.weights, n_labels, edges, starts)
        start = None
        if training_set.before is not None:
            names, shape = model.features_.names(), shape_of(sample, n_labels)
            start = inherit_mixture(training_set.before, number, names, data.classes, shape)
        score = scorer(parents, local)
        found, outcome = train_mixture(examples, settings, fold, start, training_set.plan, score, callback)
        weights.append(found)
        outcomes.append(outcome)
        learned.append(replace(parents, untrained=untrained_relations(parents.names, edges, data.labels)))
    return FittedTokens(tuple(learned), tuple(weights), local, combined(outcomes, ("forward: {}", "backward: {}")))


# -- the model ----------------------------------------------------------------------------------------

EdgeFeatureList = list[str | EdgeFeature] | tuple[str | EdgeFeature, ...] | str | None


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MixtureTagger(Tagger):
    """Tokens labelled with an eye to others of their document, with exact marginals. Settings: see `Tagger`, and

    training         "separate": each relation's model on its own edges; "conditional": then all together by the
                     conditional log-likelihood L_C; "joint": then all together by the marginal log-likelihood L_M
    skip_edges       which earlier tokens a token looks at besides its neighbour: `SameWord(...)`, a function of a
                     one-document Corpus that returns (later, earlier) pairs, a list of these, or None
    parent_features  on skip edges the features of the parent count with weights of their "own", with those of the
                     child ("shared"), or not at all ("none")
    edge_features    features of skip edges that speak of label pairs: "default", a list, or None
    mixing           weights of parents: "uniform"; "learned" by a gate; or a share for each relation, e.g.
                     {"previous": 2, "same word": 1}
    gate_l2          strength of the ridge that draws a learned gate towards uniform weights
    gate_folds       the gate is learned on documents that the models of the relations have not seen, in so many folds;
                     0: on the training data itself, together with them
    order            parents are earlier tokens ("forward") or later ones ("backward"); "both": the mean of two models

    `predict` gives the valid labelling with the greatest expected number of right labels; with constrain=False the
    arg-max of each marginal. With forced labels, whoever looks at a labelled token sees its label; tokens before it
    are not revised.
    """

    OBJECTS: ClassVar[tuple[str, ...]] = (*Tagger.OBJECTS, "skip_edges", "edge_features")
    GONE: ClassVar[tuple[str, ...]] = ("relations", "orders", "predict_orders", "everybody_starts")
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "training": ("separate", "conditional", "joint"),
        "parent_features": PARENT_FEATURES,
        "order": tuple(BACKWARD),
    }

    training: str = "joint"
    skip_edges: Any = SAME_WORD
    parent_features: str = "own"
    edge_features: EdgeFeatureList = None
    mixing: str | Mapping[str, float] = "uniform"
    gate_l2: float = 1.0
    gate_folds: int = 3
    order: str = "forward"

    parents_: tuple[TokenParents, ...] = field(init=False)
    local_: LocalModel | None = field(init=False)
    weights_: tuple[TableWeights, ...] = field(init=False)

    @property
    def skips_(self) -> tuple[LearnedSkips, ...]:
        """The rules for skip edges, as `fit` settled them."""
        return self.parents_[0].skips

    # -- learning -------------------------------------------------------------------------------------

    def _train(self, training_set: TrainingSet) -> None:
        held_out = training_set.held_out
        stages = MixtureSettings.of(self, held_out)
        fitted = fit_tokens(self, training_set, stages, partial(self._scorer, held_out))
        self.parents_, self.weights_, self.local_, self.convergence_ = fitted
        if held_out is not None and len(self.weights_) > 1:  # each direction was stopped by its own score
            score = self._score_path(held_out, self._decoder().paths(held_out, forced=False))
            last = self.convergence_.iterations
            self.convergence_ = replace(self.convergence_, dev_scores={last: score}, best_iteration=last)
        warn_unless_converged(self.convergence_)

    def _scorer(self, held_out: Batch | None, parents: TokenParents, local: LocalModel | None) -> Any:
        """F1 on held-out data of one direction for given weights; None without such data."""
        if held_out is None:
            return None

        def score(weights: TableWeights) -> float:
            decoder = self._mixture_decoder((Direction(parents, weights),), local)
            return self._score_path(held_out, decoder.paths(held_out, forced=False))

        return score

    # -- prediction -----------------------------------------------------------------------------------

    def _decoder(self, weights: Any = None) -> MixtureDecoder:
        found = self.weights_ if weights is None else weights
        directions = tuple(Direction(p, w) for p, w in zip(self.parents_, found, strict=True))
        return self._mixture_decoder(directions, self.local_)

    def _mixture_decoder(self, directions: tuple[Direction, ...], local: LocalModel | None) -> MixtureDecoder:
        return MixtureDecoder(
            directions, local, self.features_, self.transition_features_, self.coding_, self.constrain,
            resolve_jobs(self.n_jobs),
        )  # fmt: skip

    # -- explanation ----------------------------------------------------------------------------------

    def explain(
        self, X: Any, document: int | None = None, token: int | None = None, *, report: PathLike | None = None
    ) -> Any:
        """Why a token has its label: each parent, its weight, what it predicts, its exact share of the answer.

        document, token   numbers from 0, the token within its document (None: all of them, as a list); parents are
                          numbered the same way
        report            also write a page about the document, to look at and click through
        """
        return super().explain(X, document, token, report=report)

    def _explanations(self, batch: Batch, path: Any, marginals: Any, tokens: Sequence[int]) -> list[Explanation]:
        words, names = batch.corpus.columns["word"].strings(), self.coding_.classes.names
        return [
            explanation(t, components, names, lambda i: f"{words[i]} ({i})", int(path[t]))
            for t, components in zip(tokens, self._decoder().components(batch, tokens), strict=True)
        ]

    def _long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        return self._decoder().long_edges(batch)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["mixture"] = {"parents": [rule.spec() for rule in self.parents_], "local": self.local_ is not None}
        put_mixture(state, self.parents_, self.weights_, self.local_)
        for d, rule in enumerate(self.parents_):
            put_skips(state, f"mixture.{d}", rule.skips)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        specs = file.header["mixture"]["parents"]
        n_features, n_labels = self.features_.n_features, len(self.coding_.classes)
        fits(len(specs) == len(BACKWARD[self.order]))
        self.parents_ = tuple(TokenParents.from_spec(file, d, spec, functions) for d, spec in enumerate(specs))
        self.weights_ = tuple(
            taken_weights(file, d, rule, n_features, n_labels) for d, rule in enumerate(self.parents_)
        )
        self.local_ = taken_local(file, n_features, n_labels)
        self.skip_edges, self.edge_features = skip_settings(self.parents_[0].skips, self.parents_[0].edge_features)
