"""The dependency network (Heckerman and others; Neville and Jensen for relations): what stacking is measured against.

P(y_i | x_i, y of the neighbours) is learned from true labels (pseudo-likelihood, Definition 2 of the stacking paper),
and inference is Gibbs sampling: each label is drawn anew, given its neighbours' current ones, sweep after sweep.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.aggregate import side_by_side
from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.stacking import drawn
from kinfolk.collective.templates import (
    Concat,
    Count,
    Exists,
    LogCount,
    Max,
    Mean,
    Over,
    Proportion,
    TemplateSet,
    set_known,
)
from kinfolk.core.checkpoint import check_checkpoint, going_on, running
from kinfolk.core.data import finite
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.settings import MANY, MOST_REPEATS, one_of, setting, whole_to
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import speaker
from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.graph.candidates import BASE
from kinfolk.graph.explain import explained_sampling, finished
from kinfolk.graph.gain import GuardedNodes
from kinfolk.graph.learners import Learner, check_base, check_enough, predict_in_blocks
from kinfolk.graph.model import NeighbourModel
from kinfolk.graph.nodes import (
    TRAIN,
    Known,
    Memory,
    Nodes,
    ReadyGraph,
    default_templates,
    node_weights,
    warn_of_negative,
)
from kinfolk.graph.page import NodeExplanation
from kinfolk.graph.some_nodes import whole_graph
from kinfolk.graph.targets import ClassTarget
from kinfolk.inference.gibbs import Chain, Network
from kinfolk.report.page import PathLike

# -- A log-linear conditional model as tables of scores, for the Gibbs kernel --------------------------

Array = NDArray[Any]
ADDS_UP = (Count, Mean, Proportion, Concat)  # of labels that are all known: linear in what each neighbour says
ASKS_ANY = (Exists, Max)


def is_log_linear(learner: Learner, template_set: TemplateSet) -> bool:
    """Whether a conditional model can be written as tables."""
    linear = learner.softmax is not None and bool(template_set.of_predictions)
    return linear and all(type(template) in ADDS_UP + ASKS_ANY for template in template_set.of_predictions)


def network_of(learner: Learner, template_set: TemplateSet, neighbourhood: Neighbourhood, table: Any) -> Network:
    """The network of a graph; `table` (n, F) holds the features that stand before those of neighbours' labels."""
    n_labels, width = learner.n_labels, table.shape[1]
    assert learner.softmax is not None
    weights, bias = learner.softmax
    if len(weights) != width + template_set.width:
        raise InputError(f"the model has weights for {len(weights)} columns; there are {width + template_set.width}")
    own = finite(np.asarray(table @ weights[:width]) + bias, "the conditional model")
    tables: list[Array] = []
    links: list[tuple[Array, Array, Array, Array]] = []  # looked at, looks, table, weight
    at = width
    for template in template_set.of_predictions:
        assert isinstance(template, Over)
        graph, size = neighbourhood.links(template.rule), template.width(template_set.n_votes)
        reader = np.repeat(np.arange(neighbourhood.n), np.diff(graph.indptr))
        which, scale = _placed(template, graph, reader)
        kept = which >= 0
        links.append((graph.indices[kept], reader[kept], len(tables) + which[kept], scale[kept]))
        tables.extend(weights[at : at + size].reshape(-1, n_labels, n_labels))
        at += size
    looked_at, reader, which, scale = (np.concatenate(parts) for parts in zip(*links, strict=True))
    order = np.argsort(looked_at, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(looked_at, minlength=neighbourhood.n))]).astype(np.int64)
    any_ = [isinstance(t, ASKS_ANY) for t in template_set.of_predictions for _ in range(t.width(1))]
    finite(np.array(tables), "the conditional model")
    return Network(
        np.ascontiguousarray(own, np.float64), indptr, reader[order].astype(np.int64), which[order].astype(np.int64),
        scale[order].astype(np.float64), np.ascontiguousarray(tables, np.float64), np.array(any_, bool),
    )  # fmt: skip


def _placed(template: Over, graph: Any, reader: Array) -> tuple[Array, Array]:
    """For each link the number of its table within the template (-1: it is left out), and its weight."""
    zeros = np.zeros(len(reader), np.int64)
    if isinstance(template, Concat):
        assert template.slots is not None
        slot = np.arange(len(reader)) - graph.indptr[reader]
        return np.where(slot < template.slots, slot, -1), np.ones(len(reader))
    if isinstance(template, Mean | Proportion):
        totals = np.asarray(graph.sum(axis=1)).ravel()
        return zeros, graph.data / np.where(totals == 0, 1.0, totals)[reader]
    return zeros, graph.data if isinstance(template, Count) else np.ones(len(reader))


# -----------------------------------------------------------------------------------------------------
# The dependency network (Heckerman and others; Neville and Jensen for relations): what stacking is measured against.

log = logging.getLogger("kinfolk")


@final
@dataclass(eq=False, repr=False)
class DependencyNetwork(GuardedNodes, NeighbourModel):
    """Nodes of a Graph, each drawn again and again given its neighbours.

    `base` is any scikit-learn classifier: trained once on the nodes' own features, once with neighbours' true labels.

    Learned by `fit`: `classes_`, `local_`, `conditional_`, `template_set_`, `gain_`.
    """

    LOCAL: ClassVar[str] = "its base on own features, as `StackedNodes` with `depth=0`"

    GONE: ClassVar[tuple[str, ...]] = ("known",)  # what is known is said when predicting

    base: Any = setting(None, "a scikit-learn classifier", in_file=False)
    templates: Any = setting(
        None,
        "what a node receives of its neighbours, as in StackedNodes; None: Proportion over every relation, which means "
        "the same in training, where only labelled neighbours count, and in sampling, where all do (Count where links "
        "have weights below 0)",
        in_file=False,
    )
    start: str = setting(
        "local",
        'labels to begin with: "local", those of the model of own features; or "random", as where there are none',
        one_of("local", "random"),
    )
    burn_in: int = setting(50, "sweeps that are not counted", whole_to(0, MOST_REPEATS))
    sweeps: int = setting(
        100, "sweeps after them; probabilities are the mean of the conditionals that labels were drawn from", MANY
    )
    chains: int = setting(1, "runs from different draws, averaged; they run in parallel", MANY)
    mode: str = setting(
        "auto",
        '"fast": a kernel that keeps scores up to date, each label drawn given the newest others; for '
        'LogisticRegression and templates Count, Mean, Proportion, Exists, Max and Concat. "plain": asks the '
        "conditional model anew for all nodes at every sweep, for any base (Definition 1 of the paper: all labels at "
        'once, given the last sweep\'s). "auto": fast where it can be',
        one_of("auto", "fast", "plain"),
    )

    local_: Learner = field(init=False)
    conditional_: Learner = field(init=False)

    @property
    def _learners(self) -> list[Learner]:
        return [self.local_, self.conditional_]

    # -- learning -------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        train: Any = None,
        *,
        checkpoint: PathLike | None = None,
    ) -> Self:
        """Train on a Graph (or a Relational). Neighbours without a label say nothing.

        sample_weight  one number a node
        train          a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        checkpoint     a file that `fit` goes on from if it was stopped, as in `StackedNodes.fit`
        """
        check_checkpoint(checkpoint)
        check_base(self.base)
        X, y = whole_graph(X, y)
        nodes, labels, classes = self._begin(X, y, train)
        jobs = resolve_jobs(self.n_jobs)
        index = np.flatnonzero(labels >= 0)
        check_enough(classes)
        weights = None
        if sample_weight is not None:
            weights = node_weights(nodes, labels, classes, None, sample_weight)[index]
        templates = default_templates(self.templates, nodes, Proportion)
        ready = ReadyGraph.of(nodes, templates, len(classes), True, jobs)
        warn_of_negative(nodes, ready.template_set.relation_names())
        if self.templates is not None:
            _warn_of_sums(ready, labels)
        votes = np.zeros((len(labels), len(classes)))
        set_known(votes, labels)
        rows = side_by_side(ready.wide, index, ready.template_set.rows(ready.neighbourhood, votes, index))

        def learned(name: str, rows: Any) -> Learner:
            step, target = running().step(name), ClassTarget(classes)
            if step.finished:
                return target.unpacked(step.kept, BASE)  # type: ignore[no-any-return]
            learner = Learner(self.base, classes).fit(rows, labels[index], weights)
            if step.active and (packed := target.packed(learner, BASE)) is not None:
                step.finish(packed)
            return learner

        with going_on(checkpoint, self, nodes, labels, weights), self._all_or_nothing():
            self.local_, self.conditional_ = learned("local", ready.alone[index]), learned("conditional", rows)
            memory = Memory.of(nodes, labels, ready.template_set.relation_names())
            self._keep(nodes, ready.template_set, classes, memory)
            if self.mode == "fast":
                self._fast()  # an error now if it cannot be had
            self.gain_ = self._measured(X, train, sample_weight=sample_weight)
        self._tell_gain()
        return self

    def _alone(self, fitted: Self, X: Any, how: Mapping[str, Any]) -> Array:
        nodes = fitted._nodes(X)
        best = fitted._by_features(fitted._ready(nodes)).argmax(axis=1)
        return nodes.to_nodes(fitted.classes_[best])

    # -- prediction -----------------------------------------------------------------------------------

    def _probabilities(self, nodes: Nodes, known: Known) -> Array:
        """(n, L) by row, the mean over sweeps and chains; labels that are known stay."""
        from joblib import Parallel, delayed

        ready, kept = self._ready(nodes), known.labels
        tasks = (delayed(self._mean)(ready, kept, number) for number in range(self.chains))
        found = Parallel(n_jobs=resolve_jobs(self.n_jobs), prefer="threads")(tasks)
        table = np.asarray(sum(found) / len(found))
        set_known(table, kept)
        return table

    def trace(self, X: Any, sweeps: int, forced: bool = False, chain: int = 0, known: Any = TRAIN) -> Iterator[Array]:
        """The prediction after each sweep of one chain, (n, L): the mean of the conditionals so far, none left out."""
        nodes = self._nodes(X)
        ready, kept = self._ready(nodes), self._known(nodes, known, forced).labels
        sweep, sums = self._chain(ready, kept, chain).sweep, np.zeros((ready.neighbourhood.n, len(self.labels_)))
        for number in range(1, sweeps + 1):
            sweep(sums)
            mean = sums / number
            set_known(mean, kept)
            yield nodes.to_nodes(mean)

    def _fast(self) -> bool:
        can = is_log_linear(self.conditional_, self.template_set_)
        if self.mode == "fast" and not can:
            raise SettingError.saying(
                "`mode='fast'` needs LogisticRegression as base and templates Count, Mean, Proportion, Exists, Max or "
                "Concat of predictions; use `mode='plain'`"
            )
        return can and self.mode != "plain"

    def _mean(self, ready: ReadyGraph, known: Array, chain: int) -> Array:
        sweep, shape = self._chain(ready, known, chain).sweep, (ready.neighbourhood.n, len(self.labels_))
        left_out, kept = np.zeros(shape), np.zeros(shape)
        sweeps, began = self.burn_in + self.sweeps, time.perf_counter()
        for number in range(sweeps):
            sweep(left_out if number < self.burn_in else kept)
        report = speaker(self.verbose)
        report(f"chain {chain + 1} of {self.chains}: {sweeps} sweeps in {time.perf_counter() - began:.1f} s")
        return kept / self.sweeps

    def _chain(self, ready: ReadyGraph, known: Array, number: int) -> Chain | PlainChain:
        """A chain at its start. Labels that are `known` (n,) are kept; -1: none is."""
        rng = np.random.default_rng(None if self.random_state is None else [self.random_state, 2, number])
        n, n_labels = ready.neighbourhood.n, len(self.labels_)
        labels = rng.integers(n_labels, size=n)
        if self.start == "local" and ready.alone.shape[1]:  # without features it would say the same of all
            labels = self._by_features(ready).argmax(axis=1)
        labels = np.where(known >= 0, known, labels)
        if self._fast():
            network = network_of(self.conditional_, self.template_set_, ready.neighbourhood, ready.wide)
            return Chain(network, labels, known >= 0, rng)
        return PlainChain(self.conditional_, ready, labels, known, rng)

    def _by_features(self, ready: ReadyGraph) -> Array:
        """(n, L) by own features alone."""
        return predict_in_blocks(self.local_, ready.alone, np.arange(ready.neighbourhood.n), None, 1)

    # -- explanation ----------------------------------------------------------------------------------

    def _explanation(self, nodes: Nodes, node: int, known: Known, report: PathLike | None) -> NodeExplanation:
        """What its own features say, what sampling says, and what each aggregate of the neighbours' labels changed, on
        the mean over all sweeps counted."""
        ready, names = self._ready(nodes), self.labels_.names
        kept, alone, sums = known.labels, self._by_features(ready), np.zeros((ready.neighbourhood.n, len(names)))
        states, features = self._states(ready, kept, node, sums), self._feature_names()
        explained = explained_sampling(ready, alone, self.conditional_, node, kept, states, sums, names, features)
        return finished(explained, report, type(self).__name__, self.labels_)

    def _states(self, ready: ReadyGraph, known: Array, node: int, sums: Array) -> Iterator[Array]:
        """The labels (n,) of all whenever the node is drawn anew in a sweep that counts; `sums` (n, L) gathers the
        conditionals."""
        left_out = np.zeros_like(sums)
        for number in range(self.chains):
            chain = self._chain(ready, known, number)
            newest = np.arange(len(sums)) < (node if isinstance(chain, Chain) else 0)  # drawn before it in its sweep
            for sweep in range(self.burn_in + self.sweeps):
                before = chain.labels.copy()
                chain.sweep(left_out if sweep < self.burn_in else sums)
                if sweep >= self.burn_in:
                    yield np.where(newest, chain.labels, before)

    # -- model files ----------------------------------------------------------------------------------

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        self.local_, self.conditional_ = self._restored_learners(file, trusted, own=False, features=True)


def _warn_of_sums(ready: ReadyGraph, labels: Array) -> None:
    """Sums over neighbours some of whom have no label are larger in sampling than in training."""
    sums = [one for one in ready.template_set.of_predictions if isinstance(one, Count | LogCount)]
    seen = [labels[ready.neighbourhood.links(one.rule)[labels >= 0].indices] >= 0 for one in sums]
    unlabelled, all_ = sum(int((~one).sum()) for one in seen), sum(map(len, seen))
    if unlabelled:
        names, some = ", ".join(one.name for one in sums), f"{unlabelled} of the {all_} links of training nodes"
        warn(
            f"{names}: {some} lead to nodes without a label, which add nothing in training and something in sampling; "
            "Proportion (proportion:...) means the same in both",
            DataWarning,
        )


class PlainChain:
    """A running chain of any conditional model, asked anew for all nodes at every sweep: `labels` (n,) are where it
    stands. Those `known` (n,), -1 for none, stay."""

    def __init__(
        self, conditional: Learner, ready: ReadyGraph, labels: Array, known: Array, rng: np.random.Generator
    ) -> None:
        self.labels, self._known, self._rng = labels, known, rng
        self._conditional, self._ready = conditional, ready
        self._votes = np.zeros((len(labels), conditional.n_labels))
        set_known(self._votes, labels)

    def sweep(self, sums: Array) -> None:
        """One pass; the conditional probabilities it drew from are added to `sums` (n, L)."""
        everyone = np.arange(len(self.labels))
        aggregates = self._ready.template_set.rows(self._ready.neighbourhood, self._votes, everyone)
        table = predict_in_blocks(self._conditional, self._ready.wide, everyone, aggregates.__getitem__, 1)
        sums += table
        self._votes = drawn(table, self._rng)
        set_known(self._votes, self._known)
        self.labels = self._votes.argmax(axis=1)
