"""The mixture-of-parents maximum entropy Markov model (Rosenberg, Klein and Taskar, 2007).

p(y_k | parents) = Σ_j α_kj p(y_k | y_j, x): each instance follows one of its parents, so labels far apart, of the same
word in a document or of linked pages, reach each other, and marginals stay exact.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
    shape_of,
    shared_weights,
    train_local,
    train_mixture,
    untrained_relations,
    wire,
)
from kinfolk.collective.templates import set_known
from kinfolk.core.data import Relational
from kinfolk.core.modelfile import ModelFile
from kinfolk.core.settings import check_settings
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Callback, Convergence, combined, observed, warn_unless_converged
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.mixture import NodeModel, NodeParents, fit_nodes, node_scorer
from kinfolk.graph.nodes import TRAIN, KnownNodes, Nodes, check_relations, no_labels_beside, only_for_nodes
from kinfolk.inference.mixture import Dag, LabelledSpan, beliefs, build_dag, mixture_span_probabilities
from kinfolk.learning.loglinear import TableWeights, inherit_mixture, named_node_weights
from kinfolk.report.page import PathLike, check_report
from kinfolk.report.scores import evaluate_nodes
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, Entity, FeatureSet, entity_list, found_spans
from kinfolk.text.chain import allowed_steps, most_expected
from kinfolk.text.corpus import Corpus
from kinfolk.text.explain import Explanation, Voice, explanation
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.scores import EntityScores
from kinfolk.text.skip_edges import (
    DEFAULT,
    SAME_WORD,
    EdgeFeature,
    EdgeFeatures,
    LearnedSkips,
    as_builders,
    edge_features,
    learned_skips,
    warn_without_edges,
)
from kinfolk.text.tagger import Lesson, Tagger

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

    def edges(self, corpus: Corpus) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """(child, parent) of each relation, and the tokens that start a sentence (from this side)."""
        first = corpus.sentence_starts[1:] - 1 if self.backward else corpus.sentence_starts[:-1]
        child = np.delete(np.arange(corpus.n_tokens), first)
        chain = np.stack([child, child + (1 if self.backward else -1)], axis=1)
        nothing = np.empty((0, 2), np.int64)
        skips = (nothing if s.name in self.untrained else s.edges(corpus, self.backward) for s in self.skips)
        return [chain, *skips], first

    def compile(
        self, corpus: Corpus, rows: sparse.csr_array, pair_rows: sparse.csr_array | None, doubt: Array | None
    ) -> tuple[Sample, list[EdgeData], NDArray[np.int64]]:
        """A sample; and for separate training the edges of each relation, and the starts."""
        edges, first = self.edges(corpus)
        start = np.zeros(corpus.n_tokens, bool)
        start[first] = True
        dag = build_dag(edges, corpus.token_documents, start, self.names)
        on_chain = None if pair_rows is None else pair_rows[edges[0][:, 0]]
        pairs = [on_chain, *(self._on_edges(self.edge_features, corpus, e) for e in edges[1:])]
        layout = self.layout
        gates = self._gates(corpus, dag, edges, pairs, doubt)
        given = None if self.shares is None else [shared_weights(dag, self.shares)]
        sample = Sample(layout, rows, wire(layout, [dag], [pairs]), [gates], given)
        data = [
            EdgeData(e, relation.parent_features, p)
            for e, relation, p in zip(edges, layout.relations, pairs, strict=True)
        ]
        return sample, data, first

    def _gates(self, corpus: Corpus, dag: Dag, edges: list[Array], pairs: list[Any], doubt: Array | None) -> Array:
        if self.gate_features is None:
            return np.zeros((dag.n_components, 0))
        if self.gate_features == self.edge_features:  # the same rows serve label pairs and the gate
            by_relation = [None, *pairs[1:]]
        else:
            by_relation = [None, *(self._on_edges(self.gate_features, corpus, e) for e in edges[1:])]
        uncertain = np.zeros(corpus.n_tokens) if doubt is None else doubt
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
        doubt = None if self.local is None else self.local.doubt(rows, self.n_jobs)
        for direction in self.directions:
            sample, _, _ = direction.parents.compile(batch.corpus, rows, pair_rows, doubt)
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

    def voices(self, batch: Batch, tokens: Sequence[int]) -> list[list[Voice]]:
        """Who speaks for each token, in every direction; weights of all sum to 1."""
        spoken: list[list[Voice]] = [[] for _ in tokens]
        for direction, sample in self.samples(batch):
            names = direction.parents.names
            for voices, own in zip(spoken, sample.voices(direction.weights, names, tokens, self.n_jobs), strict=True):
                voices += [replace(voice, weight=voice.weight / len(self.directions)) for voice in own]
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
        raise SettingError(
            "mixing='given' takes the weights of a Relational; for tokens give a share for each relation"
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


def edge_feature_set(wanted: Any) -> EdgeFeatures:
    return EdgeFeatures(DEFAULT if isinstance(wanted, str) and wanted == "default" else wanted)


def _shares(mixing: Any, skips: tuple[LearnedSkips, ...], backward: bool) -> Any:
    """Fixed mixing weights by relation; "previous" and "next" name the chain of either direction."""
    if not isinstance(mixing, Mapping):
        return None
    if {*CHAIN.values()} <= {*mixing}:
        raise SettingError("mixing names 'previous' and 'next'; name one of them, it serves both orders")
    names = [CHAIN[backward], *(skip.name for skip in skips)]
    return checked_shares({names[0] if n in CHAIN.values() else n: s for n, s in mixing.items()}, names, names[0])


def fit_tokens(
    model: Any, lesson: Lesson, settings: MixtureSettings,
    scorer: Callable[[TokenParents, LocalModel | None], Callable[[TableWeights], float] | None],
) -> FittedTokens:  # fmt: skip
    """One direction after the other; with a learned gate first a local model that tells how sure one can be."""
    data, n_labels = lesson.data, len(lesson.data.classes)
    rules = token_parents(model, lesson.corpus, 0 if lesson.pair_rows is None else lesson.pair_rows.shape[1])
    callback = lesson.callback
    fold, local, doubt = None, None, None
    if model.mixing == "learned":
        fold = folds_by_group(data.groups, max(2, settings.gate_folds), lesson.plan.seed)
        local, doubt = train_local(data.features, data.labels, lesson.weights, fold, n_labels, lesson.plan, callback)
    weights, outcomes, learned = [], [], []
    for number, parents in enumerate(rules):
        sample, edges, starts = parents.compile(lesson.corpus, data.features, lesson.pair_rows, doubt)
        if number == 0:
            warn_without_edges(parents.names[1:], [d.edges for d in edges[1:]], lesson.corpus, lesson.dicts)
        examples = Examples(sample, data.labels, lesson.weights, n_labels, edges, starts)
        start = None
        if lesson.before is not None:
            names, shape = model.features_.names(), shape_of(sample, n_labels)
            start = inherit_mixture(lesson.before, number, names, data.classes, shape)
        score = scorer(parents, local)
        found, outcome = train_mixture(examples, settings, fold, start, lesson.plan, score, callback)
        weights.append(found)
        outcomes.append(outcome)
        learned.append(replace(parents, untrained=untrained_relations(parents.names, edges, data.labels)))
    return FittedTokens(tuple(learned), tuple(weights), local, combined(outcomes, ("forward: {}", "backward: {}")))


# -- The mixture-of-parents maximum entropy Markov model (Rosenberg, Klein and Taskar, 2007) -----------

log = logging.getLogger("kinfolk")
FOR_NODES = ("relations", "orders", "predict_orders", "everybody_starts")
FOR_TOKENS = ("templates", "scheme", "encoding", "transition_templates", "skip_edges", "edge_features", "order")
EdgeFeatureList = list[str | EdgeFeature] | tuple[str | EdgeFeature, ...] | str | None


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MixtureOfParents(KnownNodes, Tagger):
    """Labels by the company they keep, with exact marginals. Settings: see `Tagger`, and

    training         "separate": each relation's model on its own edges; "conditional": then all together by the
                     conditional log-likelihood L_C; "joint": then all together by the marginal log-likelihood L_M
    skip_edges       which earlier tokens a token looks at besides its neighbour: `SameWord(...)`, a function of a
                     one-document Corpus that returns (later, earlier) pairs, a list of these, or None
    parent_features  on skip edges the features of the parent count with weights of their "own", with those of the
                     child ("shared"), or not at all ("none")
    edge_features    features of skip edges that speak of label pairs: "default", a list, or None
    mixing           weights of parents: "uniform"; "learned" by a gate; a share for each relation, e.g.
                     {"previous": 2, "same word": 1}; "given": the entries of a Relational
    gate_l2          strength of the ridge that draws a learned gate towards uniform weights
    gate_folds       the gate is learned on documents that the models of the relations have not seen, in so many folds;
                     0: on the training data itself, together with them
    order            tokens: parents are earlier ("forward") or later ones ("backward"); "both": the mean of two models
    relations        nodes: the links to use; None: all
    orders, predict_orders   nodes: how many random orders to train on, and to average marginals over
    everybody_starts nodes: whether a node with parents also keeps a component that looks at its own features alone

    `predict` gives the valid labelling with the greatest expected number of right labels; with constrain=False the
    arg-max of each marginal. With forced labels, whoever looks at a labelled token sees its label; tokens before it
    are not revised. On a graph known labels come first in every order, so the others are exactly conditioned on them.
    """

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
    relations: Sequence[str] | None = None
    orders: int = 10
    predict_orders: int = 50
    everybody_starts: bool = False

    task_: str = field(init=False)
    parents_: tuple[Any, ...] = field(init=False)
    node_columns_: Sequence[str] | int = field(init=False)
    local_: LocalModel | None = field(init=False)
    weights_: tuple[TableWeights, ...] = field(init=False)

    # -- learning -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, X_dev: Any = None, y_dev: Any = None, sample_weight: Any = None,
            callback: Callback | None = None, train: Any = None) -> Self:  # fmt: skip
        """Train on tokens (a Corpus, or sentences `X` with labels `y`) or on nodes (a Graph, or a Relational whose
        relations form a DAG). The arguments of `Tagger.fit`, and

        train   nodes only: a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        """
        if not isinstance(X, Graph | Relational):
            if train is not None:
                raise InputError("train=... chooses nodes of a graph; for tokens give the documents to train on")
            return super().fit(X, y, X_dev, y_dev, sample_weight, callback)
        no_labels_beside(y)
        no_labels_beside(y_dev)
        check_settings(self)
        self._check_held_out(X_dev)
        self._warn_of_other_settings(FOR_TOKENS, "nodes")
        nodes, plan = Nodes.of(X), self._plan(resolve_jobs(self.n_jobs))
        before = named_node_weights(self) if self.warm_start and self._knows("nodes") else None
        with self._all_or_nothing(), observed(callback, self.verbose, self.tolerance) as watcher:
            fitted = fit_nodes(
                self,
                nodes,
                self._stages(),
                plan,
                sample_weight,
                train,
                partial(node_scorer, X_dev, nodes, self),
                watcher,
                before,
            )
            self.task_, self.node_columns_, self.memory_ = "nodes", nodes.columns, fitted.memory
            self.coding_ = LabelCoding(None, None, fitted.classes)
            self.parents_, self.weights_, self.local_ = (fitted.parents,), (fitted.weights,), fitted.local
            self.convergence_ = fitted.convergence
        warn_unless_converged(self.convergence_)
        return self

    def _check_held_out(self, X_dev: Any) -> None:
        if X_dev is not None and self.training == "separate":
            raise InputError(
                "separate training fits each relation on its own, so held-out data cannot stop it: leave X_dev out, or "
                "set training='joint' or 'conditional'"
            )

    def _knows_tokens(self) -> bool:
        return self._knows("tokens")

    def _knows(self, task: str) -> bool:
        return self.__sklearn_is_fitted__() and self.task_ == task

    def _warn_of_other_settings(self, names: tuple[str, ...], task: str) -> None:
        defaults = inspect.signature(type(self)).parameters
        changed = [name for name in names if repr(getattr(self, name)) != repr(defaults[name].default)]
        if changed:
            log.warning("%s: no meaning for %s, and ignored", ", ".join(changed), task)

    def _train(self, lesson: Lesson) -> None:
        """On tokens."""
        self._warn_of_other_settings(FOR_NODES, "tokens")
        held_out = lesson.held_out
        self._check_held_out(held_out)
        fitted = fit_tokens(self, lesson, self._stages(), partial(self._token_scorer, held_out))
        self.task_, self.parents_, self.weights_, self.local_, self.convergence_ = "tokens", *fitted
        if held_out is not None and len(self.weights_) > 1:  # each direction was stopped by its own score
            score = self._score_path(held_out, self._decoder().paths(held_out, forced=False))
            last = self.convergence_.iterations
            self.convergence_ = replace(self.convergence_, dev_scores={last: score}, best_iteration=last)
        warn_unless_converged(self.convergence_)

    def _token_scorer(self, held_out: Batch | None, parents: TokenParents, local: LocalModel | None) -> Any:
        """F1 on held-out data of one direction for given weights; None without such data."""
        if held_out is None:
            return None

        def score(weights: TableWeights) -> float:
            decoder = self._mixture_decoder((Direction(parents, weights),), local)
            return self._score_path(held_out, decoder.paths(held_out, forced=False))

        return score

    def _stages(self) -> MixtureSettings:
        if self.mixing == "learned" and self.training == "separate" and not self.gate_folds:
            raise SettingError("mixing='learned' with training='separate' needs gate_folds of 2 or more")
        return MixtureSettings(self.training, float(self.gate_l2), self.gate_folds)

    # -- prediction -----------------------------------------------------------------------------------

    def predict(self, X: Any, forced: bool = False, known: Any = TRAIN) -> Any:
        """Tokens: one list of labels a sentence, in the tag scheme of the training data. Nodes: an array of labels.

        forced   instances that have a label keep it, and those that look at them see it
        known    nodes: whose labels are known, kept and seen. "train": nodes trained on, found by their ids; "none":
                 nobody's; truth values or numbers of nodes: those, with the labels X has
        """
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().predict(X, forced)
        return self.classes_[self.predict_proba(X, forced, known).argmax(axis=1)]

    def predict_proba(self, X: Any, forced: bool = False, known: Any = TRAIN) -> Any:
        """Exact marginals; tokens: one array (tokens, classes) a sentence; nodes: one array (nodes, classes), given the
        labels that are known: see `predict`. In a DAG (a `Relational`) a known label is seen by those that look at it
        and says nothing of its own parents.
        """
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().predict_proba(X, forced)
        nodes = self._nodes(X)
        return nodes.to_nodes(self._marginals(nodes, self._known(nodes, known, forced)))

    def _marginals(self, nodes: Nodes, known: NDArray[np.int32]) -> NDArray[Any]:
        """(n, L) by row, given labels that are `known` (n,), -1 for none."""
        return self._node_model().marginals(nodes, known if (known >= 0).any() else None)

    def predict_entities(self, X: Any, forced: bool = False) -> list[Entity]:
        """The predicted entities of tokens, each with the probability that this very entity is there."""
        self._require_task("tokens")
        return super().predict_entities(X, forced)

    def evaluate(
        self, X: Any, y: Any = None, report: PathLike | None = None, known: Any = TRAIN
    ) -> tuple[EntityScores | None, float]:
        """Entity scores (None for nodes, or when labels are not spans) and accuracy, in percent; `report`: a page.

        known    as in `predict`. Nodes whose labels are known do not count.
        """
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().evaluate(X, y, report)
        no_labels_beside(y)
        check_report(report)
        nodes = self._nodes(X)
        kept = self._known_when_scored(nodes, known)
        return evaluate_nodes(self, nodes, self._marginals(nodes, kept), report, kept)

    def score(self, X: Any, y: Any = None, known: Any = TRAIN) -> float:
        """Tokens: entity F1, or accuracy when labels are not spans; nodes: accuracy. From 0 to 1."""
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().score(X, y)
        return self.evaluate(X, y, known=known)[1] / 100

    def _require_task(self, task: str) -> None:
        self._require_fitted()
        if self.task_ != task:
            raise InputError(f"this model was trained on {self.task_}, and is given {task}")

    def _nodes(self, X: Any) -> Nodes:
        self._require_task("nodes")
        nodes = Nodes.of(X, self.node_columns_)
        check_relations(nodes, self.parents_[0].links, self.parents_[0].not_used)
        return nodes

    def _node_model(self) -> NodeModel:
        (parents,), (weights,), jobs = self.parents_, self.weights_, resolve_jobs(self.n_jobs)
        return NodeModel(parents, weights, self.local_, self.predict_orders, self.random_state, jobs)

    def _decoder(self, weights: Any = None) -> MixtureDecoder:
        found = self.weights_ if weights is None else weights
        directions = tuple(Direction(p, w) for p, w in zip(self.parents_, found, strict=True))
        return self._mixture_decoder(directions, self.local_)

    def _mixture_decoder(self, directions: tuple[Direction, ...], local: LocalModel | None) -> MixtureDecoder:
        return MixtureDecoder(
            directions, local, self.features_, self.transition_features_, self.coding_, self.constrain,
            resolve_jobs(self.n_jobs),
        )  # fmt: skip

    def explain(
        self, X: Any, document: int | None = None, token: int | None = None, node: Any = None,
        report: PathLike | None = None, forced: bool = False, known: Any = TRAIN,
    ) -> Any:  # fmt: skip
        """Why an instance has its label: each parent, its weight, what it predicts, its exact share of the answer.

        document, token   numbers from 0, the token within its document (None: all of them, as a list); parents are
                          numbered the same way
        node              of a graph: an id, or a number from 0
        report            also write a page, to look at and click through, about the document or the node
        forced, known     nodes: as in `predict`; the label of the node itself is set aside
        """
        if isinstance(X, Graph | Relational):
            check_report(report)
            nodes = self._nodes(X)
            kept, names = self._known(nodes, known, forced, told=False), self.coding_.classes.names
            return self.coding_.as_written(self._node_model().explain(nodes, node, names, report, kept))
        self._require_task("tokens")
        only_for_nodes(known)
        return super().explain(X, document, token, report=report)

    def _explanations(self, batch: Batch, path: Any, marginals: Any, tokens: Sequence[int]) -> list[Explanation]:
        words, names = batch.corpus.columns["word"].strings(), self.coding_.classes.names
        return [
            explanation(t, voices, names, lambda i: f"{words[i]} ({i})", int(path[t]))
            for t, voices in zip(tokens, self._decoder().voices(batch, tokens), strict=True)
        ]

    def _long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        return self._decoder().long_edges(batch)


# -- What a model file keeps of a mixture of parents, and the model from it again ----------------------

Functions = Mapping[str, Callable[..., Any]]
Parts = tuple[dict[str, Any], dict[str, Array], dict[str, Any]]


def mixture_parts(model: Any) -> Parts:
    """(header, arrays, strings). Rows of a table that are all zero are left out."""
    arrays: dict[str, Array] = {}
    strings: dict[str, Any] = {}
    for d, weights in enumerate(model.weights_):
        for t, table in enumerate(weights.tables):
            rows = np.flatnonzero(table.any(axis=1))
            arrays[f"mixture.{d}.table.{t}.rows"], arrays[f"mixture.{d}.table.{t}.values"] = rows, table[rows]
        for name in ("start", "pair", "rows", "gate"):
            arrays[f"mixture.{d}.{name}"] = getattr(weights, name)
    if model.local_ is not None:
        arrays["mixture.local"] = model.local_.table
    specs = []
    for d, parents in enumerate(model.parents_):
        if parents.shares is not None:
            arrays[f"mixture.{d}.shares"] = parents.shares
        if isinstance(parents, NodeParents):
            specs.append(_node_spec(parents))
            continue
        specs.append(_token_spec(parents))
        for s, skip in enumerate(parents.skips):
            strings[f"mixture.{d}.skip.{s}"] = skip.state()
    return {"parents": specs, "local": model.local_ is not None}, arrays, strings


def _token_spec(parents: TokenParents) -> dict[str, Any]:
    return {
        "skips": [skip.spec() for skip in parents.skips],
        "backward": parents.backward,
        "parent_features": parents.parent_features,
        "edge_features": None if parents.edge_features is None else parents.edge_features.spec(),
        "gate_features": None if parents.gate_features is None else parents.gate_features.spec(),
        "pair_features": parents.n_pair_features,
        "shares": parents.shares is not None,
        "untrained": list(parents.untrained),
    }


def _node_spec(parents: NodeParents) -> dict[str, Any]:
    return {
        "links": list(parents.links),
        "ordered": parents.ordered,
        "parent_features": parents.parent_features,
        "everybody_starts": parents.everybody_starts,
        "gated": parents.gated,
        "given": parents.given,
        "not_used": list(parents.not_used),
        "untrained": list(parents.untrained),
        "shares": parents.shares is not None,
    }


def restore_mixture(model: Any, file: ModelFile, n_features: int, functions: Functions) -> None:
    """Set what `mixture_parts` kept; tables are for rows of n_features."""
    header, n_labels = file.header["mixture"], len(model.coding_.classes)
    parents, weights = [], []
    directions = 2 if model.task_ == "tokens" and model.order == "both" else 1
    if len(header["parents"]) != directions:
        raise ModelFileError(f"expected {directions} rule(s) for parents; the file has {len(header['parents'])}")
    for d, spec in enumerate(header["parents"]):
        shares = file.arrays[f"mixture.{d}.shares"] if spec["shares"] else None
        if spec["parent_features"] not in PARENT_FEATURES:
            raise ModelFileError(f"parent features {spec['parent_features']!r} are not known: upgrade kinfolk")
        rule = _node_rule(spec, shares) if model.task_ == "nodes" else _token_rule(file, d, spec, shares, functions)
        parents.append(rule)
        weights.append(_weights(file, d, rule, n_features, n_labels))
    model.parents_, model.weights_ = tuple(parents), tuple(weights)
    model.local_ = LocalModel(_shaped(file, "mixture.local", (n_features, n_labels))) if header["local"] else None
    if isinstance(parents[0], TokenParents):
        set_rules(model, parents[0].skips, parents[0].edge_features)


def set_rules(model: Any, skips: Sequence[LearnedSkips], features: EdgeFeatures | None) -> None:
    """The settings that became rules for skip edges, from those."""
    builders = [skip.builder for skip in skips]
    model.skip_edges = builders[0] if len(builders) == 1 else builders or None
    model.edge_features = None if features is None else features.features


def _node_rule(spec: Mapping[str, Any], shares: Array | None) -> NodeParents:
    links = tuple(spec["links"])
    flags = (spec["ordered"], spec["parent_features"], spec["everybody_starts"], spec["gated"])
    return NodeParents(links, *flags, shares, spec["given"], tuple(spec["not_used"]), tuple(spec["untrained"]))


def _token_rule(
    file: ModelFile, d: int, spec: Mapping[str, Any], shares: Array | None, functions: Functions
) -> TokenParents:
    skips = restored_skips(file, f"mixture.{d}", spec["skips"], functions)
    edge, gate = (_edge_features(spec[name], functions) for name in ("edge_features", "gate_features"))
    flags, untrained = (spec["backward"], spec["parent_features"]), tuple(spec["untrained"])
    return TokenParents(skips, *flags, edge, gate, shares, spec["pair_features"], untrained)


def restored_skips(
    file: ModelFile, prefix: str, specs: Sequence[Mapping[str, Any]], functions: Functions
) -> tuple[LearnedSkips, ...]:
    return tuple(learned_skips(spec, file.strings[f"{prefix}.skip.{s}"], functions) for s, spec in enumerate(specs))


def _edge_features(spec: Mapping[str, Any] | None, functions: Functions) -> EdgeFeatures | None:
    return None if spec is None else edge_features(spec, functions)


def _weights(file: ModelFile, d: int, rule: Any, n_features: int, n_labels: int) -> TableWeights:
    layout = rule.layout
    tables = []
    for t in range(layout.n_tables):
        rows = file.arrays[f"mixture.{d}.table.{t}.rows"]
        table = np.zeros((n_features, n_labels), np.float32)
        table[rows] = _shaped(file, f"mixture.{d}.table.{t}.values", (len(rows), n_labels))
        tables.append(table)
    n, n_gates = n_labels, _gate_size(rule)
    if rule.shares is not None and rule.shares.shape != (len(layout.relations) + 1,):
        raise ModelFileError(f"'mixture.{d}.shares' has shape {rule.shares.shape}; the relations ask for another")
    return TableWeights(
        tables,
        _shaped(file, f"mixture.{d}.start", (n,)),
        _shaped(file, f"mixture.{d}.pair", (len(layout.relations), n, n)),
        _shaped(file, f"mixture.{d}.rows", (layout.n_pair_features, n * n)),
        _shaped(file, f"mixture.{d}.gate", (n_gates,)),
    )


def _shaped(file: ModelFile, name: str, shape: tuple[int, ...]) -> Array:
    array = file.arrays[name]
    if array.shape != shape:
        raise ModelFileError(f"{name!r} has shape {array.shape}; the model asks for {shape}")
    return array


def _gate_size(rule: Any) -> int:
    if isinstance(rule, NodeParents):
        return len(gate_names(rule.names, [[]] * len(rule.names))) if rule.gated else 0
    if rule.gate_features is None:
        return 0
    return len(gate_names(rule.names, [[], *([rule.gate_features.names()] * len(rule.skips))]))
