"""The mixture-of-parents maximum entropy Markov model (Rosenberg, Klein and Taskar, 2007) over tokens.

p(y_k | parents) = Σ_j α_kj p(y_k | y_j, x): each token follows one of its parents, the token before it or an earlier
one with the same word, so labels far apart in a document reach each other, and marginals stay exact.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective import mixture as collective
from kinfolk.collective.explain import Component, Explanation, explanation
from kinfolk.collective.mixture import (
    LocalModel,
    Mixes,
    MixtureSettings,
    Sample,
)
from kinfolk.collective.templates import set_known
from kinfolk.core.modelfile import Functions, ModelFile, fits, names_in
from kinfolk.core.settings import one_of, setting
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import combined, warn_unless_converged
from kinfolk.errors import SettingError
from kinfolk.inference.chain import expected_correct, k_best
from kinfolk.inference.dag import Dag, build_dag
from kinfolk.inference.mixture import beliefs
from kinfolk.inference.mixture_spans import LabelledSpan, SpanProbabilities, mixture_span_probabilities
from kinfolk.learning.loglinear import TableWeights, inherit_mixture
from kinfolk.text.batch import Batch, Confidence
from kinfolk.text.chain import FittedDecoder, check_possible, only_known
from kinfolk.text.corpus import Corpus
from kinfolk.text.gain import GuardedTagger
from kinfolk.text.k_best import KBest, k_best_answers
from kinfolk.text.schemes import Span
from kinfolk.text.skip_edges import (
    EDGE_FEATURES,
    SAME_WORD,
    SKIP_EDGES,
    EdgeFeature,
    EdgeFeatures,
    LearnedSkips,
    as_builders,
    edge_feature_set,
    edge_features,
    put_skips,
    restored_skips,
    skip_settings,
    warn_without_edges,
)
from kinfolk.text.tagger import Tagger, TrainingSet, extra_columns

# -- Who the parents of a token are: the token before it and, by skip edges, earlier tokens of its document ---
#
# From right to left (`backward`) everything is mirrored: the token behind it, and later tokens.

log = logging.getLogger("kinfolk")
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
    def layout(self) -> collective.Layout:
        """Sentence starts share the table of the chain: a token's features mean the same there."""
        n_edge = 0 if self.edge_features is None else len(self.edge_features.names())
        chain = collective.RelationLayout(self.names[0], "none", self.n_pair_features)
        rest = (collective.RelationLayout(name, self.parent_features, n_edge) for name in self.names[1:])
        return collective.Layout((chain, *rest), start_table=0)

    @property
    def n_gates(self) -> int:
        """Weights of the gate."""
        if self.gate_features is None:
            return 0
        return len(collective.gate_names(self.names, [[], *([self.gate_features.names()] * len(self.skips))]))

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
        edge, gate = (edge_features(spec[name], functions) for name in ("edge_features", "gate_features"))
        skips = restored_skips(file.part(f"mixture.{d}"), spec["skips"], functions)
        flags, shares = (spec["backward"], spec["parent_features"]), collective.taken_shares(file, d, spec)
        return cls(skips, *flags, edge, gate, shares, spec["pair_features"], names_in(spec["untrained"]))

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
    ) -> tuple[Sample, list[collective.EdgeData], NDArray[np.int64]]:
        """A sample; and for separate training the edges of each relation, and the starts."""
        edges, first = self.edges(corpus)
        start = np.zeros(corpus.n_tokens, bool)
        start[first] = True
        dag = build_dag(edges, corpus.token_documents, start, self.names)
        on_chain = None if pair_rows is None else pair_rows[edges[0][:, 0]]
        pairs = [on_chain, *(self._on_edges(self.edge_features, corpus, e) for e in edges[1:])]
        layout = self.layout
        gates = self._gates(corpus, dag, edges, pairs, uncertainty)
        given = None if self.shares is None else [collective.shared_weights(dag, self.shares)]
        sample = Sample(layout, rows, collective.wire(layout, [dag], [pairs]), [gates], given)
        data = [
            collective.EdgeData(e, relation.parent_features, p)
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
        return collective.gate_rows(dag, len(edges), uncertain, by_relation)

    @staticmethod
    def _on_edges(features: EdgeFeatures | None, corpus: Corpus, edges: Array) -> Any:
        return None if features is None else features.rows(corpus, edges[:, 0], edges[:, 1])


# -- A fitted mixture of parents seen from the side of prediction, for tokens --------------------------


class Direction(NamedTuple):
    """One model of one direction: its rule for parents, its weights."""

    parents: TokenParents
    weights: TableWeights


@dataclass(frozen=True, eq=False)
class MixtureDecoder(FittedDecoder):
    """Marginals are the mean over directions; labels are read off them."""

    directions: tuple[Direction, ...]
    local: LocalModel | None

    def samples(self, batch: Batch) -> Iterator[tuple[Direction, Sample]]:
        """For each direction the compiled tokens."""
        rows, pair_features = batch.rows(self.model.features_, self.n_jobs), self.model.pair_features_
        pair_rows = None if pair_features is None else batch.rows(pair_features, self.n_jobs, pairs=True)
        uncertainty = None if self.local is None else self.local.uncertainty(rows, self.n_jobs)
        for direction in self.directions:
            sample, _, _ = direction.parents.compile(batch.corpus, rows, pair_rows, uncertainty)
            yield direction, sample

    def marginals(self, batch: Batch, forced: bool) -> Array:
        """(n, L). Forced labels are certain, and are seen by whoever looks at their token; others are not revised."""
        labels = self.forced_labels(batch, forced)
        table = np.zeros((batch.corpus.n_tokens, len(self.coding.classes)))
        for direction, sample in self.samples(batch):
            table += sample.beliefs(direction.weights, labels, self.n_jobs)[0].marginals / len(self.directions)
        if labels is not None:
            set_known(table, labels)
        return table

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        """The valid labelling with the greatest expected number of right labels; without `constrain`, the arg-max."""
        return self.best_valid(batch, self.marginals(batch, forced), forced)

    def span_probabilities(
        self, batch: Batch, path: NDArray[np.int32], found: Sequence[Span], continues: Array, forced: bool
    ) -> Confidence:
        """The mean over directions; exact where it is from every side."""
        ends = {*batch.corpus.sentence_starts.tolist()}
        spans = [LabelledSpan(s.start, path[s.start : s.end], s.end not in ends) for s in found]
        values, exact, _ = self._probabilities(batch, spans, continues, forced)
        return Confidence(values, exact)

    def _probabilities(
        self, batch: Batch, spans: Sequence[LabelledSpan], continues: Array, forced: bool
    ) -> SpanProbabilities:
        labels = self.forced_labels(batch, forced)
        n, share = len(spans), 1 / len(self.directions)
        values, exact, logs = np.zeros(n), np.ones(n, bool), np.full(n, -np.inf)
        for direction, sample in self.samples(batch):
            wirings, scores = sample.wired.wirings, sample.scores(direction.weights, self.n_jobs)
            alphas = sample.alphas(direction.weights.gate)
            (known,) = beliefs(wirings, scores, alphas, labels, self.n_jobs)
            part = mixture_span_probabilities(
                wirings[0], scores, alphas[0], known, spans, continues, labels, n_jobs=self.n_jobs
            )
            values += share * part.values
            exact &= part.exact
            logs = np.logaddexp(logs, np.log(share) + part.logs)
        return SpanProbabilities(values, exact, logs)

    def k_best(self, batch: Batch, k: int, forced: bool) -> list[list[tuple[Array, float]]]:
        """For each sentence the k valid labellings with most expected right labels, best first, and of each the log of
        its probability, whatever the labels of other sentences are: a span that is the sentence."""
        labels, starts = self.forced_labels(batch, forced), batch.corpus.sentence_starts
        potentials = expected_correct(self.marginals(batch, forced), starts, *self.allowed())
        found = k_best(only_known(potentials, labels), k, self.n_jobs)
        best = np.array([max(scores, default=-np.inf) for _, scores in found])
        check_possible(best, 0, starts, batch.corpus)
        spans = [
            LabelledSpan(int(first), path, False) for first, (paths, _) in zip(starts[:-1], found, strict=True)
            for path in paths
        ]  # fmt: skip
        n_labels = len(self.coding.classes)
        _, exact, logs = self._probabilities(batch, spans, np.zeros((n_labels, n_labels), bool), forced)
        if not exact.all():
            log.warning(
                "MixtureTagger: %d of %d probabilities of k best labellings are approximated, with tokens of other "
                "sentences as if independent of each other; exactly they would take too much work",
                (~exact).sum(), len(exact),
            )  # fmt: skip
        log_p = iter(logs.tolist())
        return [[(path, next(log_p)) for path in paths] for paths, _ in found]

    def components(self, batch: Batch, tokens: Sequence[int]) -> list[list[Component]]:
        """Who speaks for each token, in every direction; weights of all sum to 1."""
        spoken: list[list[Component]] = [[] for _ in tokens]
        for direction, sample in self.samples(batch):
            shares = sample.components(direction.weights, direction.parents.names, tokens, self.n_jobs)
            for components, own in zip(spoken, shares, strict=True):
                components += [replace(component, weight=component.weight / len(self.directions)) for component in own]
        return spoken


# -- Training a mixture of parents on tokens, from the left, from the right, or both -------------------

BACKWARD = {"forward": (False,), "backward": (True,), "both": (False, True)}


def token_parents(model: Any, corpus: Corpus, n_pair_features: int) -> tuple[TokenParents, ...]:
    """The rules for parents that the settings of a model ask for, one a direction."""
    if model.mixing == "given":
        raise SettingError.saying(
            "`mixing='given'` takes the weights of a Relational; for tokens give a share for each relation"
        )
    skips = tuple(builder.learn(corpus) for builder in as_builders(model.skip_edges))
    edge = edge_feature_set(model.edge_features)
    gate = edge_feature_set(model.edge_features or "default") if model.mixing == "learned" else None
    return tuple(
        TokenParents(
            skips, backward, model.parent_features, edge, gate, _shares(model.mixing, skips, backward), n_pair_features
        )
        for backward in BACKWARD[model.order]
    )


def _shares(mixing: Any, skips: tuple[LearnedSkips, ...], backward: bool) -> Any:
    """Fixed mixing weights by relation; "previous" and "next" name the chain of either direction."""
    if not isinstance(mixing, Mapping):
        return None
    if {*CHAIN.values()} <= {*mixing}:
        raise SettingError.saying("mixing names 'previous' and 'next'; name one of them, it serves both orders")
    names = [CHAIN[backward], *(skip.name for skip in skips)]
    return collective.checked_shares(
        {names[0] if n in CHAIN.values() else n: s for n, s in mixing.items()}, names, names[0]
    )


# -- the model ----------------------------------------------------------------------------------------

EdgeFeatureList = list[str | EdgeFeature] | tuple[str | EdgeFeature, ...] | str | None


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MixtureTagger(Mixes, GuardedTagger):
    """Tokens labelled with an eye to others of their document, with exact marginals.

    `predict` gives the valid labelling with the greatest expected number of right labels; with constrain=False the
    arg-max of each marginal. With forced labels, whoever looks at a labelled token sees its label; tokens before it
    are not revised.
    """

    LOCAL: ClassVar[str] = "that of `skip_edges=None`"
    GONE: ClassVar[tuple[str, ...]] = ("relations", "orders", "predict_orders", "everybody_starts")

    skip_edges: Any = setting(SAME_WORD, SKIP_EDGES, in_file=False)
    edge_features: EdgeFeatureList = setting(None, EDGE_FEATURES, in_file=False)
    order: str = setting(
        "forward",
        'parents are earlier tokens ("forward") or later ones ("backward"); "both": the mean of two models',
        one_of(*BACKWARD),
    )

    parents_: tuple[TokenParents, ...] = field(init=False)
    local_: LocalModel | None = field(init=False)
    weights_: tuple[TableWeights, ...] = field(init=False)

    @property
    def skips_(self) -> tuple[LearnedSkips, ...]:
        """The rules for skip edges, as `fit` settled them."""
        return self.parents_[0].skips

    # -- learning -------------------------------------------------------------------------------------

    def _local(self) -> Tagger:
        return self._anew(skip_edges=None, edge_features=None, mixing="uniform")

    def _train(self, training_set: TrainingSet) -> None:
        """One direction after the other; with a learned gate first a local model that says how sure one can be."""
        data, pair_rows, plan, callback = (
            training_set.data, training_set.pair_rows, training_set.plan, training_set.callback,
        )  # fmt: skip
        held_out, n_labels = training_set.held_out, len(data.classes)
        settings, jobs = MixtureSettings.of(self, held_out), resolve_jobs(self.n_jobs)
        rules = token_parents(self, training_set.corpus, 0 if pair_rows is None else pair_rows.shape[1])
        fold, local, uncertainty = None, None, None
        if self.mixing == "learned" or self.training == "crossfit":
            fold = collective.folds_by_group(data.groups, max(2, settings.gate_folds), plan.seed)
        if fold is not None and self.mixing == "learned":
            local, uncertainty = collective.train_local(
                data.features, data.labels, training_set.weights, fold, n_labels, plan, callback
            )
        directions, outcomes = [], []
        for number, parents in enumerate(rules):
            sample, edges, starts = parents.compile(training_set.corpus, data.features, pair_rows, uncertainty)
            if number == 0:
                joined = [relation.edges for relation in edges[1:]]
                warn_without_edges(parents.names[1:], joined, training_set.corpus, training_set.dicts)
            examples = collective.Examples(sample, data.labels, training_set.weights, n_labels, edges, starts)
            start, score = None, None
            if training_set.before is not None:
                names, shape = self.features_.names(), collective.shape_of(sample, n_labels)
                start = inherit_mixture(training_set.before, number, names, data.classes, shape)
            if held_out is not None:  # each direction is stopped by its own score
                score = partial(self._score_direction, held_out, jobs, parents, local)
            weights, outcome = collective.train_mixture(examples, settings, fold, start, plan, score, callback)
            untrained = collective.untrained_relations(parents.names, edges, data.labels)
            directions.append(Direction(replace(parents, untrained=untrained), weights))
            outcomes.append(outcome)
        self.parents_, self.weights_ = zip(*directions, strict=True)
        self.local_, self.convergence_ = local, combined(outcomes, ("forward: {}", "backward: {}"))
        if held_out is not None and len(directions) > 1:
            score_of_both = self._score_path(held_out, self._decoder().paths(held_out, forced=False))
            last = self.convergence_.iterations
            self.convergence_ = replace(self.convergence_, dev_scores={last: score_of_both}, best_iteration=last)
        warn_unless_converged(self.convergence_)

    def _score_direction(
        self, held_out: Batch, jobs: int, parents: TokenParents, local: LocalModel | None, weights: TableWeights
    ) -> float:
        """F1 of one direction on held-out data, for given weights."""
        decoder = MixtureDecoder(self, jobs, (Direction(parents, weights),), local)
        return self._score_path(held_out, decoder.paths(held_out, forced=False))

    # -- prediction -----------------------------------------------------------------------------------

    def _decoder(self, weights: Any = None) -> MixtureDecoder:
        found = self.weights_ if weights is None else weights
        directions = tuple(map(Direction, self.parents_, found))
        return MixtureDecoder(self, resolve_jobs(self.n_jobs), directions, self.local_)

    def predict_k_best(self, X: Any, k: int, forced: bool = False, *, vectors: Any = None) -> KBest:
        """For each sentence k valid labellings, (labels, log-probability), best first in the sense of `predict`: by the
        expected number of right labels, Σ_t p(y_t), of which these are exactly the k greatest.

        The log-probability is that of the labelling as a whole, under the mixture and whatever the labels of other
        sentences are; so it need not fall along the list. It is exact but where skip edges would take too much work,
        of which the log tells (see `predict_entities`); with `order="both"` of the mean of both models.
        """
        return k_best_answers(self, X, k, forced, vectors)

    # -- explanation ----------------------------------------------------------------------------------

    def _explanations(self, batch: Batch, path: Any, marginals: Any, tokens: Sequence[int]) -> list[Explanation]:
        words, names = batch.corpus.columns["word"].strings(), self.coding_.classes.names
        return [
            explanation(t, components, names, lambda i: f"{words[i]} ({i})", int(path[t]))
            for t, components in zip(tokens, self._decoder().components(batch, tokens), strict=True)
        ]

    def _long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        found = []
        for rule in self.parents_:
            for name, pairs in zip(rule.names[1:], rule.edges(batch.corpus)[0][1:], strict=True):
                found += [(child, parent, name) for child, parent in pairs.tolist()]
        return found

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["extra"] = self.n_extra
        state.header["mixture"] = {"parents": [rule.spec() for rule in self.parents_], "local": self.local_ is not None}
        collective.put_mixture(state, self.parents_, self.weights_, self.local_)
        for d, rule in enumerate(self.parents_):
            put_skips(state, f"mixture.{d}", rule.skips)
        return state

    @property
    def n_extra(self) -> int:
        return len(self.weights_[0].tables[0]) - self.features_.n_features

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        specs = file.header["mixture"]["parents"]
        n_features, n_labels = self.features_.n_features + extra_columns(file), len(self.coding_.classes)
        fits(len(specs) == len(BACKWARD[self.order]))
        self.parents_ = tuple(TokenParents.from_spec(file, d, spec, functions) for d, spec in enumerate(specs))
        fits(all(rule.backward is way for rule, way in zip(self.parents_, BACKWARD[self.order], strict=True)))
        n_pair = 0 if self.pair_features_ is None else self.pair_features_.n_features
        fits(all(type(rule.n_pair_features) is int and rule.n_pair_features == n_pair for rule in self.parents_))
        self.weights_ = tuple(
            collective.taken_weights(file, d, rule, n_features, n_labels) for d, rule in enumerate(self.parents_)
        )
        self.local_ = collective.taken_local(file, n_features, n_labels)
        self.skip_edges, self.edge_features = skip_settings(self.parents_[0].skips, self.parents_[0].edge_features)
