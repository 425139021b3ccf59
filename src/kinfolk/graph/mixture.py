"""The mixture-of-parents maximum entropy Markov model (Rosenberg, Klein and Taskar, 2007) over nodes of a graph.

p(y_k | parents) = Σ_j α_kj p(y_k | y_j, x): each node follows one of its parents, neighbours that come before it in an
order of the nodes, and marginals stay exact. Links may run in circles, so marginals are the mean over random orders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.explain import explanation
from kinfolk.collective.mixture import (
    EdgeData,
    Examples,
    Layout,
    LocalModel,
    Mixes,
    MixtureSettings,
    RelationLayout,
    Sample,
    Wired,
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
from kinfolk.core.beside import Table
from kinfolk.core.checkpoint import check_checkpoint, going_on
from kinfolk.core.data import finite
from kinfolk.core.modelfile import Functions, ModelFile, fits, names_in
from kinfolk.core.settings import FLAG, MANY, NAMES, NONE, one_of, setting
from kinfolk.core.threads import resolve_jobs, run_chunks
from kinfolk.core.training import (
    Callback,
    Convergence,
    Optimised,
    TrainingPlan,
    observed,
    warn_unless_converged,
)
from kinfolk.errors import ConvergenceWarning, InputError, SettingError, warn
from kinfolk.graph.gain import GuardedNodes
from kinfolk.graph.model import RELATIONS
from kinfolk.graph.nodes import (
    Known,
    Memory,
    Nodes,
    check_within_groups,
    node_accuracy,
    node_weights,
    used_links,
    warn_unused_weights,
)
from kinfolk.graph.page import mixture_node_part, write_node_report
from kinfolk.graph.some_nodes import whole_graph
from kinfolk.inference.dag import build_dag, either_way, in_order
from kinfolk.inference.evidence import WeighedOrders, conditioned, weighed
from kinfolk.inference.mixture import Wiring, check_weights
from kinfolk.learning.loglinear import TableWeights, inherit_mixture, named_by
from kinfolk.report.page import PathLike

log = logging.getLogger("kinfolk")

# -- Who the parents of a node are: its neighbours that come before it in an order of the nodes --------
#
# Links may run in circles, so the nodes are put in random orders, and in each order a link leads from the earlier node
# to the later one. Two models serve one kind of link (section 5.2 of the paper): the child has the link to its parent
# ("outgoing"), or the parent has it to the child ("incoming"). Marginals are the mean over many orders.
#
# Relations that are a DAG already (a `Relational`) are taken as they are: row i lists the parents of i.

Array = NDArray[Any]
Pairs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeParents:
    """The rule after training.

    links            names of the relations used
    ordered          True: links put in random orders, two models a relation; False: each relation is a DAG
    parent_features  features of the parent: "none", with weights of their "own", or "shared" ones
    everybody_starts whether nodes with parents have a start component too
    gated, shares, given   mixing weights: by a gate; by fixed shares (R + 1,); by the entries of the relations
    not_used         relations of the training data that were left aside on purpose
    untrained        of `names`, those without a labelled edge in training: they have nothing to say
    """

    links: tuple[str, ...]
    ordered: bool
    parent_features: str
    everybody_starts: bool
    gated: bool = False
    shares: Array | None = None
    given: bool = False
    not_used: tuple[str, ...] = ()
    untrained: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        if not self.ordered:
            return self.links
        return tuple(f"{name} ({side})" for name in self.links for side in ("outgoing", "incoming"))

    @property
    def layout(self) -> Layout:
        return Layout(tuple(RelationLayout(name, self.parent_features) for name in self.names))

    @property
    def n_gates(self) -> int:
        """Weights of the gate."""
        return len(gate_names(self.names, [[]] * len(self.names))) if self.gated else 0

    def spec(self) -> dict[str, Any]:
        """What a model file says of the rule; shares are an array beside it."""
        return {**vars(self), "shares": self.shares is not None}

    @classmethod
    def from_spec(cls, file: ModelFile, spec: Mapping[str, Any]) -> NodeParents:
        flags = ("ordered", "parent_features", "everybody_starts", "gated", "given")
        fits(all(isinstance(spec[name], bool) for name in flags if name != "parent_features"))
        names: dict[str, Any] = {name: names_in(spec[name]) for name in ("links", "not_used", "untrained")}
        return cls(shares=taken_shares(file, 0, spec), **names, **{name: spec[name] for name in flags})

    def edges(self, relations: Mapping[str, Any]) -> list[Pairs]:
        """All (child, parent) pairs of each of `names`, whatever the order."""
        found = []
        for name in self.links:
            links = relations[name].tocoo()
            pairs = np.stack(links.coords, axis=1).astype(np.int64)
            if not self.given:  # an entry of 0 is no link, unless it is a weight
                pairs = pairs[links.data != 0]
            found += [pairs, pairs[:, ::-1]] if self.ordered else [pairs]
        found = [p[:0] if name in self.untrained else p for name, p in zip(self.names, found, strict=True)]
        return [pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))] for pairs in found]

    def compile(
        self, rows: Table, relations: Mapping[str, Any], groups: Array, uncertainty: Array | None,
        n_orders: int, rng: np.random.Generator, first: NDArray[np.bool_] | None = None,
    ) -> tuple[Sample, list[EdgeData]]:  # fmt: skip
        """A sample with one wiring an order; and for separate training all edges, in both directions.

        first   bool (n,): nodes that come before all others in every order
        """
        edges, n, layout = self.edges(relations), rows.shape[0], self.layout
        start = np.full(n, self.everybody_starts)
        wired: Wired
        if self.ordered:
            ranks = np.array([rng.permutation(n) for _ in range(n_orders)], np.int64).reshape(n_orders, n)
            if first is not None:
                ranks += np.where(first, 0, n)
            every = wire(layout, [either_way(edges, groups, self.names)])
            wired = replace(every, wirings=InOrders(every.wirings[0], ranks, start))
        else:
            wired = wire(layout, [build_dag(edges, groups, start, self.names)])
        gates: Sequence[Array] = [np.zeros((0, 0))] * len(wired.wirings)
        uncertain = np.zeros(n) if uncertainty is None else uncertainty
        if self.gated:
            dags = [wiring.dag for wiring in wired.wirings]
            gates = [gate_rows(dag, len(edges), uncertain, [None] * len(edges)) for dag in dags]
        sample = Sample(layout, rows, wired, gates, self._given(wired.wirings, relations))
        return sample, [EdgeData(pairs, self.parent_features) for pairs in edges]

    def _given(self, wirings: Sequence[Wiring], relations: Mapping[str, Any]) -> list[Array] | None:
        if self.shares is not None:
            return [shared_weights(wiring.dag, self.shares) for wiring in wirings]
        if not self.given:
            return None
        dag = wirings[0].dag
        alpha = np.ones(dag.n_components)  # a start component stands alone
        for r, name in enumerate(self.links):
            here = np.flatnonzero(dag.relation == r)
            alpha[here] = relations[name][dag.child[here], dag.parent[here]]
        return [check_weights(dag, alpha)]


@dataclass(frozen=True, eq=False)
class InOrders(Sequence[Wiring]):
    """A wiring for each order, made when it is asked for: of many orders a few at a time are needed.

    every   the wiring of all links in both directions    ranks   (orders, n)    start   as in `build_dag`
    """

    every: Wiring
    ranks: NDArray[np.int64]
    start: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, order: Any) -> Any:
        if isinstance(order, slice):
            return [self[o] for o in range(len(self))[order]]
        dag, kept = in_order(self.every.dag, self.ranks[order], self.start)
        return Wiring(dag, self.every.child_slot[kept], self.every.parent_slot[kept])


def weighed_marginals(
    sample: Sample, weights: TableWeights, labels: NDArray[np.int32], component: NDArray[np.integer], n_jobs: int
) -> WeighedOrders:
    """The mean over orders, each with the probability it gives the known labels of a connected component (n,)."""
    scores, alphas, wirings = sample.scores(weights, n_jobs), sample.alphas(weights.gate), list(sample.wired.wirings)
    found = run_chunks(lambda o: conditioned(wirings[o], scores, alphas[o], labels), len(wirings), n_jobs)
    answer = weighed(found, component)
    finite(answer.marginals, "the mixture of parents")
    return answer


def connected(edges: Sequence[Pairs], n: int) -> NDArray[np.int32]:
    """(n,), the number of each node's connected component."""
    pairs = np.concatenate([np.empty((0, 2), np.int64), *edges])
    links = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return np.asarray(sparse.csgraph.connected_components(links, directed=False)[1])


def node_parents(model: MixtureNodes, nodes: Nodes) -> NodeParents:
    """The rule for parents that the settings of a model ask for."""
    links = used_links(model.relations, nodes.relations, nodes.is_graph)
    mixing = model.mixing
    if mixing == "given" and nodes.is_graph:
        raise InputError(
            "`mixing='given'` needs relations that are a DAG, given as a Relational; a Graph is put in random orders, "
            "and each has other parents"
        )
    if mixing == "given" and model.everybody_starts:
        raise SettingError.saying(
            "`mixing='given'` has no weight for the start components of `everybody_starts=True`: leave one of them out"
        )
    rule = NodeParents(
        links,
        nodes.is_graph,
        model.parent_features,
        model.everybody_starts,
        mixing == "learned",
        None,
        mixing == "given",
        tuple(name for name in nodes.relations if name not in links),
    )
    if not isinstance(mixing, Mapping):
        return rule
    given: dict[str, float] = {}
    for name, share in mixing.items():  # a share for a kind of link serves both of its models
        both = [f"{name} (outgoing)", f"{name} (incoming)"] if name in links and nodes.is_graph else [name]
        given.update(dict.fromkeys(both, share))
    shares = checked_shares(given, rule.names, None)
    return replace(rule, shares=shares)


FEW_ORDERS = 3.0  # effective orders below which their mean says little

# -- the model ----------------------------------------------------------------------------------------


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MixtureNodes(Mixes, GuardedNodes, Optimised):
    """Nodes of a Graph labelled by the company they keep, with exact marginals in each order of them;
    over a graph they are the mean over some random orders, and so an estimate.

    Known labels come first in every order, so in each the others are exactly conditioned on them. In a DAG (a
    `Relational`) a known label is seen by those that look at it and says nothing of its own parents, unless
    evidence="weighed". There, mixing="given" takes the entries of the relations.

    Learned by `fit`: `classes_`, `weights_`, `parents_` (the rule for parents), `convergence_`, `gain_`.
    """

    WEIGHS: ClassVar[bool] = False
    LOCAL: ClassVar[str] = "that of `relations=[]`"
    GONE: ClassVar[tuple[str, ...]] = ("min_count", "scheme", "encoding", "constrain", "order")

    relations: Sequence[str] | None = setting(None, RELATIONS, NAMES | NONE)
    orders: int = setting(10, "random orders of the nodes to train on", MANY)
    predict_orders: int = setting(50, "random orders to average marginals over", MANY)
    evidence: str = setting(
        "first",
        'nodes whose labels are known: "first" in every order, so that all others see them, and no order is more '
        'probable than another; "weighed": anywhere, and orders count with the probability they give these labels, '
        "which then speak of their own parents too: exact where the unknown ancestors of known labels come in small "
        "blocks (65,536 labellings), else an approximation",
        one_of("first", "weighed"),
    )
    everybody_starts: bool = setting(
        False, "whether a node with parents also keeps a component that looks at its own features alone", FLAG
    )
    warm_start: bool = setting(False, "`fit` starts from the weights of the previous `fit`", FLAG)

    parents_: NodeParents = field(init=False)
    weights_: TableWeights = field(init=False)
    local_: LocalModel | None = field(init=False)
    convergence_: Convergence = field(init=False)

    # -- learning -------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, X_dev: Any = None, sample_weight: Any = None,
        callback: Callback | None = None, train: Any = None, *, checkpoint: PathLike | None = None,
    ) -> Self:  # fmt: skip
        """Train on a Graph, or on a Relational whose relations form a DAG.

        X_dev           a held-out graph: scored every `dev_every` iterations; the best weights are kept
        sample_weight   one number a node
        callback        called with a Progress after each pass and iteration; returning True stops
        train           a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        checkpoint      a file that `fit` goes on from if it was stopped, as in `StackedNodes.fit`
        """
        check_checkpoint(checkpoint)
        X, y = whole_graph(X, y)
        nodes, labels, classes = self._begin(X, y, train)
        settings, plan = MixtureSettings.of(self, X_dev), TrainingPlan.of(self, resolve_jobs(self.n_jobs))
        if settings.training in ("joint", "crossfit") and not nodes.table.shape[1]:
            # All nodes then have the same marginals, which say nothing of links, not even their sign.
            log.warning(
                "nodes have no features, so links are learned from labels: `training='conditional'`, not "
                f"{settings.training!r}"
            )
            settings = replace(settings, training="conditional")
        weights = node_weights(nodes, labels, classes, self.class_weight, sample_weight)
        before = None
        if self.warm_start and self.__sklearn_is_fitted__():
            columns = self.node_columns_
            names = list(map(str, range(columns))) if isinstance(columns, int) else list(columns)
            before = named_by((self.weights_,), names, self.labels_)
        dev = None if X_dev is None else Nodes.of(X_dev)
        with (
            going_on(checkpoint, self, nodes, labels, weights, dev, before),
            self._all_or_nothing(),
            observed(callback, self.verbose, self.tolerance) as watcher,
        ):
            self.labels_, self.node_columns_ = classes, nodes.columns
            self.parents_ = parents = node_parents(self, nodes)
            check_within_groups(nodes, parents.links)
            if not parents.given:
                warn_unused_weights(nodes, parents.links, type(self).__name__)
            self.memory_ = Memory.of(nodes, labels, parents.links)
            self.local_, uncertainty, fold = None, None, None
            if parents.gated or settings.training == "crossfit":
                fold = folds_by_group(nodes.groups, max(2, settings.gate_folds), plan.seed)
            if fold is not None and parents.gated:
                self.local_, uncertainty = train_local(
                    nodes.wide_rows, labels, weights, fold, len(classes), plan, watcher
                )
            # Separate training uses every link in both directions; the rest works on so many random orders.
            rng = np.random.default_rng(None if plan.seed is None else [plan.seed, 0])
            sample, edges = parents.compile(
                nodes.wide_rows, nodes.relations, nodes.groups, uncertainty, self.orders, rng
            )
            sample = sample.some(range(len(sample.wired.wirings)))  # each is swept many times
            examples = Examples(sample, labels, weights, len(classes), edges, np.arange(len(labels)))
            shape, start = shape_of(sample, len(classes)), None
            if before is not None:
                start = inherit_mixture(before, 0, nodes.names, classes, shape)
            score = None if X_dev is None else self._scorer(X_dev)
            self.weights_, self.convergence_ = train_mixture(examples, settings, fold, start, plan, score, watcher)
            self.parents_ = replace(parents, untrained=untrained_relations(parents.names, edges, labels))
            self.gain_ = self._measured(X, train, X_dev=X_dev, sample_weight=sample_weight)
        warn_unless_converged(self.convergence_)
        self._tell_gain()
        return self

    def _alone(self, fitted: Self, X: Any, how: Mapping[str, Any]) -> Array:
        return self._anew(relations=[], mixing="uniform").fit(X, **how).predict(X)

    # -- prediction -----------------------------------------------------------------------------------

    def relations_used(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.parents_.links, self.parents_.not_used

    def _scorer(self, X_dev: Any) -> Callable[[TableWeights], float]:
        """Accuracy on a held-out graph for given weights. Its orders are drawn once."""
        dev, known, gold = self._held_out(X_dev)
        sample = self._sample(dev, known)
        return lambda weights: node_accuracy(gold, self._marginals(dev, known, sample, weights)) / 100

    def _sample(self, nodes: Nodes, known: Known) -> Sample:
        """The graph in orders of its own; nodes whose labels are known come first."""
        check_within_groups(nodes, self.parents_.links)
        uncertainty = (
            None if self.local_ is None else self.local_.uncertainty(nodes.wide_rows, resolve_jobs(self.n_jobs))
        )
        rng = np.random.default_rng(None if self.random_state is None else [self.random_state, 1])  # not of training
        first, orders = known.labels >= 0 if known.any and not self._weighs(known) else None, self.predict_orders
        return self.parents_.compile(nodes.wide_rows, nodes.relations, nodes.groups, uncertainty, orders, rng, first)[0]

    def _probabilities(self, nodes: Nodes, known: Known) -> Array:
        """The mean over orders. A DAG as given keeps its order: there a label is known to those that look at it, and
        nothing flows back from it to its parents, unless evidence="weighed"."""
        table = self._marginals(nodes, known, self._sample(nodes, known), self.weights_, tells=True)
        set_known(table, known.labels)
        return table

    def _weighs(self, known: Known) -> bool:
        return self.evidence == "weighed" and known.any

    def _marginals(
        self, nodes: Nodes, known: Known, sample: Sample, weights: TableWeights, tells: bool = False
    ) -> Array:
        """(n, L), by given weights; `tells`: how many orders had a say."""
        jobs = resolve_jobs(self.n_jobs)
        if not self._weighs(known):
            return sample.mean_marginals(weights, known.or_none, jobs)
        component = connected(self.parents_.edges(nodes.relations), len(nodes.labels))
        found = weighed_marginals(sample, weights, known.labels, component, jobs)
        if tells:
            self._tell_orders(found, np.isin(component, component[known.labels >= 0]), len(sample.wired.wirings))
        return found.marginals

    def _tell_orders(self, found: WeighedOrders, touched: NDArray[np.bool_], orders: int) -> None:
        """Of the nodes `touched`, which have a known one in their component."""
        fewest, how = float(found.effective[touched].min()), "exact" if found.exact else "not exact"
        log.info("orders weighed by known labels, %s in each; effective number from %.1f of %d", how, fewest, orders)
        if not found.exact:
            warn(
                "some known labels look at more unknown ancestors than can be summed over: there they are predicted "
                "one by one, an approximation; `evidence='first'` is exact in each order of a graph",
                ConvergenceWarning,
            )
        if orders > 1 and fewest < FEW_ORDERS:
            warn(
                f"of {orders} orders weighed by known labels as few as {fewest:.1f} count: raise `predict_orders`, or "
                "set `evidence='first'`, which needs no weights",
                ConvergenceWarning,
            )

    # -- explanation ----------------------------------------------------------------------------------

    def _explanation(self, nodes: Nodes, node: int, known: Known, report: PathLike | None) -> Any:
        """Each parent, its weight, what it predicts, its exact share of the answer, in every order; where known labels
        speak of their parents, that is no longer all, and links are cut instead."""
        if self._weighs(known.without(node)):
            return super()._explanation(nodes, node, known, report)
        known = known.without(node)
        labels = known.or_none
        sample, names = self._sample(nodes, known), self.labels_.names
        (components,) = sample.components(self.weights_, self.parents_.names, [node], resolve_jobs(self.n_jobs), labels)
        answer = explanation(node, components, names, lambda i: nodes.ids[i])
        if report is not None:
            part = mixture_node_part(nodes, answer, self._probabilities(nodes, known), labels)
            write_node_report(report, part, type(self).__name__)
        said = tuple(
            one if one.parent is None else replace(one, parent=nodes.node_at(one.parent))
            for one in answer.contributions
        )
        return self.labels_.as_written(replace(answer, instance=nodes.node_at(node), contributions=said))

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["convergence"] = self.convergence_.for_file()
        state.header["mixture"] = {"parents": [self.parents_.spec()], "local": self.local_ is not None}
        put_mixture(state, [self.parents_], [self.weights_], self.local_)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        (spec,), n_features, n_labels = file.header["mixture"]["parents"], self._n_features, len(self.labels_)
        self.parents_ = NodeParents.from_spec(file, spec)
        self.weights_ = taken_weights(file, 0, self.parents_, n_features, n_labels)
        self.local_ = taken_local(file, n_features, n_labels)
        self.convergence_ = Convergence.from_file(file.header["convergence"])
