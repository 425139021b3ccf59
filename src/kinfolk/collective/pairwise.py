"""A pairwise conditional random field over typed relations: what the skip-chain CRF and the link model share.

    score(y) = Σ_i x_i · W[:, y_i] + Σ_{i starts} a[y_i] + Σ_e ( T_r[y_a, y_b] + z_e · U[:, y_a, y_b] )

T_r is a table of label pairs for each relation, z_e are features of an edge, where its relation has any.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.beside import Table
from kinfolk.core.data import finite
from kinfolk.core.modelfile import ModelFile
from kinfolk.core.settings import MANY, SMALLEST, Settings, number, one_of, setting
from kinfolk.core.training import Callback, Convergence, TrainingPlan
from kinfolk.errors import ConvergenceWarning, warn
from kinfolk.inference.loopy import Fixed, PairGraph, Propagation, forest_shares, node_beliefs, pair_graph, propagate
from kinfolk.inference.loopy_losses import BetheLoss, PairResiduals, piecewise_loss, pseudo_loss
from kinfolk.learning.lbfgs import Iteration, Minimum, Watch, optimise
from kinfolk.learning.loglinear import Answer, Tables, TableShape, TableWeights
from kinfolk.learning.sparse import SparseRows

# -- Instances and edges of a pairwise model, and which table of label pairs scores which edge ---------
#
# Two nodes may be joined more than once: a link there and one back, a skip edge beside the chain. Belief propagation
# would count parallel edges twice, so they are merged into one; its table is the sum of theirs, each the right way
# round:
#
#     table_k = Σ_r ( there_kr T_r + back_kr T_rᵀ ),      and for an edge with features of its own  + z_e · U
#
# Edges with the same combination k share a table; an edge with features has one of its own.

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PairSample:
    """rows (n, F), CSR or one with dense columns beside it; the graph; combinations there, back (K, R); instances that
    get the start score; for edges with a table of their own the combination of each, and rows of features CSR (own, G),
    or None."""

    rows: Table
    graph: PairGraph
    there: Array
    back: Array
    starts: NDArray[np.int64]
    owners: NDArray[np.int64]
    edge_rows: Any = None
    turned_rows: Any = None  # of the edges among them that lead from the higher to the lower instance

    @property
    def n_relations(self) -> int:
        return int(self.there.shape[1])

    @property
    def n_edge_features(self) -> int:
        return 0 if self.edge_rows is None else int(self.edge_rows.shape[1])

    @property
    def overlap(self) -> float:
        """How many features an edge has on average, the table of its relation included."""
        return 1.0 if self.edge_rows is None else 1.0 + self.edge_rows.nnz / max(1, self.edge_rows.shape[0])

    def shape(self, n_labels: int) -> TableShape:
        return TableShape((self.rows.shape[1],), n_labels, self.n_relations, self.n_edge_features)

    def node_scores(self, ends: Array, start: Array) -> Array:
        scores = np.array(ends, np.float64)
        scores[self.starts] += start
        return scores

    def tables(self, pair: Array, rows: Array) -> Array:
        """(K + edges with features, L, L)."""
        scores = np.asarray(pair, np.float64)
        n_labels = scores.shape[1] if scores.ndim == 3 else 0
        shared = np.einsum("kr,rxy->kxy", self.there, scores) + np.einsum("kr,ryx->kxy", self.back, scores)
        if self.edge_rows is None:
            return np.asarray(shared)
        size, weights = (len(self.owners), n_labels, n_labels), np.asarray(rows, np.float64)
        own = np.asarray(self.edge_rows @ weights).reshape(size)
        own = own + np.asarray(self.turned_rows @ weights).reshape(size).transpose(0, 2, 1)
        return np.concatenate([shared, shared[self.owners] + own])

    def with_forbidden(self, tables: Array, forbidden: Array) -> Array:
        """Tables with (L, L) added wherever the first relation has a part: 0 or -inf."""
        chained = self.there[:, 0] > 0 if self.n_relations else np.zeros(len(self.there), bool)
        parts = np.concatenate([chained, chained[self.owners]]) if len(tables) > len(chained) else chained
        return np.where(parts[:, None, None], tables + forbidden, tables)

    def pair_gradient(self, by_table: Array, squared: bool = False) -> tuple[Array, Array]:
        """Derivatives by T and by U, from those by table; with `squared`, of second derivatives."""
        n_labels = by_table.shape[1]
        shared = by_table[: len(self.there)].copy()
        own = by_table[len(self.there) :]
        np.add.at(shared, self.owners, own)
        there, back = (self.there**2, self.back**2) if squared else (self.there, self.back)
        pair = np.einsum("kr,kxy->rxy", there, shared) + np.einsum("kr,kyx->rxy", back, shared)
        if self.edge_rows is None:
            return pair, np.zeros((0, n_labels * n_labels))
        total = np.zeros((self.n_edge_features, n_labels * n_labels))
        for features, by_edge in ((self.edge_rows, own), (self.turned_rows, own.transpose(0, 2, 1))):
            used = features.power(2) if squared else features
            total += used.T @ by_edge.reshape(len(own), n_labels * n_labels)
        return pair, total

    def find_edges(self, first: Array, second: Array) -> NDArray[np.int64]:
        """Numbers of the edges between given pairs of instances, first < second."""
        n = max(1, self.graph.n_nodes)
        keys = self.graph.edges[:, 0] * n + self.graph.edges[:, 1]  # edges stand in this order
        found: NDArray[np.int64] = np.searchsorted(keys, np.asarray(first) * n + np.asarray(second))
        return found


def pair_sample(
    rows: Table, edges: list[Array], edge_rows: list[Any], groups: Array, starts: Array,
    beliefs: str = "bethe",
) -> PairSample:  # fmt: skip
    """`edges` (E, 2) of each relation; `edge_rows`: CSR (E, G) or None, the same G for all; `beliefs` as the setting
    says."""
    n, n_relations = len(groups), len(edges)
    joined = np.concatenate([np.empty((0, 2), np.int64), *(np.asarray(e, np.int64).reshape(-1, 2) for e in edges)])
    relation = np.repeat(np.arange(n_relations), [len(e) for e in edges]).astype(np.int64)
    turned = (joined[:, 0] > joined[:, 1]).astype(np.int64)
    low, high = joined.min(axis=1, initial=n), joined.max(axis=1, initial=-1)
    keys, edge = np.unique(low * max(1, n) + high, return_inverse=True)
    counts = np.zeros((len(keys), 2 * n_relations))
    np.add.at(counts, (edge, relation + n_relations * turned), 1)
    combinations, table = np.unique(counts, axis=0, return_inverse=True)
    table = table.reshape(-1)
    owners, features, turned_features = np.empty(0, np.int64), None, None
    featured = [r for r, own in enumerate(edge_rows) if own is not None]
    if featured:
        has = np.isin(relation, featured)
        stacked = sparse.vstack([edge_rows[r] for r in featured], format="csr")
        mine, place = np.unique(edge[has], return_inverse=True)  # an edge may have features of two relations
        at = place.reshape(-1), np.arange(len(place))
        straight, around = (
            sparse.csr_array((use.astype(np.float64), at), shape=(len(mine), len(place)))
            for use in (turned[has] == 0, turned[has] == 1)
        )
        features, turned_features, owners = straight @ stacked, around @ stacked, table[mine]
        table = table.copy()
        table[mine] = len(combinations) + np.arange(len(mine))
    pairs = np.stack(np.divmod(keys, max(1, n)), axis=1) if len(keys) else np.empty((0, 2), np.int64)
    share = forest_shares(pairs, n) if beliefs == "trw" else None
    graph = pair_graph(pairs, table, groups, len(combinations), share)
    there, back = combinations[:, :n_relations], combinations[:, n_relations:]
    own = owners.astype(np.int64), features, turned_features
    return PairSample(rows, graph, there, back, np.asarray(starts, np.int64), *own)


# -- pairwise --------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")
TRAINING_TOLERANCE = 1e-8  # messages half at rest would make the objective rough; from a warm start it costs little
LINK_TOLERANCE = 1.5e-4
UPDATE = (
    '"links": weights of links (skip edges) alone are learned, on top of the model without links as it was trained; '
    '"all": all weights, from there'
)
HELD_OUT = (
    "share of the training documents, graphs or nodes that are kept back to choose for how many iterations links are "
    "learned: none if they are no better with links; 0: until the tolerance. Not used with X_dev"
)
DAMPING = "share of an old message that is kept, from 0 to below 1"


@dataclass(kw_only=True, eq=False, repr=False)
class Propagates(Settings):
    """Abstract: a pairwise model, whose sums belief propagation approximates."""

    training: str = setting(
        "bethe",
        '"bethe": the likelihood with belief propagation in the place of exact sums; "pseudo": each label given its '
        'neighbours\'; "piecewise": each factor on its own. All start from the model without links (the linear chain)',
        one_of("bethe", "pseudo", "piecewise"),
    )
    update: str = setting("links", UPDATE, one_of("links", "all"))
    scores: str = setting(
        "cross-fitted",
        'what links learn on. "cross-fitted": on scores that the model without links gives to documents, graphs or '
        'nodes it was not trained on, with `held_out` as the share of a fold; "own": on those of the model trained on '
        'everything, which is too sure of them. Only with `update="links"`',
        one_of("cross-fitted", "own"),
    )
    held_out: float = setting(0.2, HELD_OUT, number(0, 1, below=True))
    schedule: str = setting(
        "sequential", "of messages; sequential was measured 5 times as fast", one_of("sequential", "synchronous")
    )
    beliefs: str = setting(
        "bethe",
        '"bethe": those of plain belief propagation; "trw": tree-reweighted, with one fixed point whatever the '
        "weights, an upper bound of log Z, and less certain",
        one_of("bethe", "trw"),
    )
    damping: float = setting(0.0, DAMPING, number(0, 1, below=True))
    max_rounds: int = setting(100, "limit of rounds of belief propagation", MANY)
    message_tolerance: float = setting(1e-4, "messages have settled when they change by less", number(SMALLEST, 1))


@dataclass(frozen=True, eq=False)
class InferenceReport:
    """How belief propagation went: by group whether it settled, after how many rounds, the last change."""

    converged: NDArray[np.bool_]
    rounds: NDArray[np.int64]
    change: NDArray[np.float64]

    @property
    def not_converged(self) -> NDArray[np.int64]:
        """Numbers of the groups (documents, graphs) whose messages did not settle."""
        return np.flatnonzero(~self.converged)

    def __str__(self) -> str:
        n, bad = len(self.converged), len(self.not_converged)
        rounds = f"{self.rounds.mean():.1f} rounds on average, {self.rounds.max()} at most" if n else "nothing to do"
        return f"belief propagation settled in {n - bad} of {n} groups; {rounds}"

    @classmethod
    def of(cls, fixed: Fixed, tolerance: float) -> InferenceReport:
        return cls(fixed.converged(tolerance), fixed.rounds, fixed.change)

    def by_document(self, has_tokens: NDArray[np.bool_]) -> InferenceReport:
        """With an entry for documents without tokens too: there is nothing to settle in them."""
        if len(has_tokens) == len(self.converged):
            return self
        converged, rounds, change = (
            np.ones(len(has_tokens), bool),
            *(np.zeros(len(has_tokens), t) for t in (int, float)),
        )
        converged[has_tokens], rounds[has_tokens], change[has_tokens] = self.converged, self.rounds, self.change
        return InferenceReport(converged, rounds, change)

    def warn(self, remedy: str) -> None:
        """Never silent: what did not settle is reported."""
        bad = self.not_converged
        if len(bad):
            shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
            many, change = f"{len(bad)} of {len(self.converged)} groups", float(self.change[bad].max())
            message = f"belief propagation did not settle in {many} ({shown}; largest change {change:.2g}): {remedy}"
            warn(message, ConvergenceWarning)


JUMPED = "Belief propagation did not settle, or went to another fixed point: raise damping, max_rounds or l2."
REMEDY = "their probabilities are not a fixed point. Raise `damping` (0.5) or `max_rounds`"


@dataclass(frozen=True)
class PairTraining:
    """training: "bethe", "pseudo" or "piecewise"; how belief propagation runs.

    links   the first relation that is a link, where the weights of links alone are learned; None: all weights are
    steps   after how many iterations to stop; None: by the tolerance
    scores  (n, L) of the instances by their features, where links are learned on others than those of the start
    """

    training: str
    settings: Propagation
    links: int | None = None
    steps: int | None = None
    scores: Array | None = None


@dataclass(frozen=True, eq=False)
class _Free:
    """The weights that are learned: all of them, or those of links with all else as it is at the start."""

    sample: PairSample
    start: TableWeights
    links: int | None

    @property
    def shape(self) -> TableShape:
        whole = self.sample.shape(len(self.start.start))
        return whole if self.links is None else replace(whole, features=(), relations=whole.relations - self.links)

    @property
    def blocks(self) -> list[SparseRows]:
        return [SparseRows(self.sample.rows)] if self.links is None else []

    def whole(self, found: TableWeights) -> TableWeights:
        """All weights, from those that are learned."""
        if self.links is None:
            return found
        return self.start._replace(pair=np.concatenate([self.start.pair[: self.links], found.pair]), rows=found.rows)

    def split(self, flat: Array) -> TableWeights:
        return self.whole(self.shape.split(flat))

    def join(self) -> Array:
        """The start as one flat vector."""
        if self.links is None:
            return self.shape.join(self.start)
        nothing = np.zeros_like(self.start.start)
        return self.shape.join(TableWeights([], nothing, self.start.pair[self.links :], self.start.rows, np.zeros(0)))


def train_pairwise(
    sample: PairSample, labels: NDArray[np.int32], weights: Array, n_labels: int, how: PairTraining,
    start: TableWeights, plan: TrainingPlan, score_dev: Callable[[TableWeights], float] | None,
    callback: Callback | None,
) -> tuple[TableWeights, Convergence, InferenceReport | None]:  # fmt: skip
    """From given weights; with "bethe", also how belief propagation goes with the weights found."""
    began, free = time.perf_counter(), _Free(sample, start, how.links)
    evaluate, first = _losses(sample, labels, weights, how, plan.n_jobs), how.links or 0
    as_it_is = how.scores
    if as_it_is is None and how.links is not None:
        as_it_is = SparseRows(sample.rows).scores(start.tables[0], plan.n_jobs)

    def loss(ends: Array, found: TableWeights) -> Answer:
        now = free.whole(found)
        answer = evaluate(
            sample.node_scores(ends if as_it_is is None else as_it_is, now.start), sample.tables(now.pair, now.rows)
        )
        pair, rows = sample.pair_gradient(answer.pair)
        curvature = None
        if answer.curvature is not None:
            by_pair, by_row = sample.pair_gradient(answer.curvature, squared=True)
            curvature = by_pair[first:], by_row * sample.overlap  # features that fire together step together
        node, by_start = answer.node.astype(ends.dtype), answer.node[sample.starts].sum(axis=0)
        if as_it_is is not None:
            node, by_start = ends, np.zeros_like(by_start)
        return Answer(answer.loss, node, pair[first:], by_start, rows, np.zeros(0), curvature)

    if how.training == "bethe":
        plan = replace(plan, stall=JUMPED)
    if how.links is not None:  # a loose one, which stops early, is meant for the model without links
        plan = replace(plan, tolerance=min(plan.tolerance, LINK_TOLERANCE))
    objective = Tables(free.blocks, free.shape, loss, plan.l2, 0.0, plan.n_jobs, plan.dense_l2)
    watch = _StepWatch(free, plan, score_dev, callback, began)
    watch.loss, watch.steps = evaluate if isinstance(evaluate, BetheLoss) else None, how.steps
    watch.tolerance = how.settings.tolerance
    watch.stopped, flat = how.steps == 0, free.join()
    watch.score(0, flat)  # without links it may be best
    flat, convergence = optimise(objective, flat, plan, watch, began)
    found = free.split(flat)
    report = None if how.training != "bethe" else infer(sample, found, how.settings, plan.n_jobs)[1]
    return found, convergence, report


class _StepWatch(Watch):
    """Tells a loss which of the points it was tried at is the one to go on from; stops after so many steps, or where
    messages no longer settle: what the objective says from there on is no fixed point's."""

    loss: BetheLoss | None = None
    steps: int | None = None
    tolerance = 0.0
    restless = False

    def state(self) -> dict[str, Any]:
        return super().state() | ({} if self.loss is None else {"loss": self.loss.state(), "restless": self.restless})

    def restore(self, kept: Mapping[str, Any]) -> None:
        super().restore(kept)
        if self.loss is not None:
            self.loss.restore(kept["loss"])
            self.restless = kept["restless"]

    def after_iteration(self, iteration: Iteration) -> bool:
        if self.loss is not None:
            self.loss.accept(iteration.objective)
            self.restless = self.loss.restless(self.tolerance)
        return super().after_iteration(iteration) or iteration.number == self.steps or self.restless

    def finished(self, found: Minimum, began: float) -> tuple[Array, Convergence]:
        return super().finished(replace(found, status="stalled") if self.restless else found, began)


# -- for how many iterations links are learned ---------------------------------------------------------
#
# Weights of links are learned on documents whose labels the model without links knows almost by heart. So how far to go
# is asked of documents that neither has seen: a part is kept back, both are learned on the others, and the part is
# scored after each iteration. What is best there is how long links are learned on everything; where no iteration is
# better than none, they are not. With cross-fitted scores each part in turn has those of a model of the others.

LARGE = 50_000  # instances; beyond it one part is scored, else each in turn


class KeptBack(NamedTuple):
    """The parts of the units (documents, graphs, nodes) that are kept back in turn, and those of them to be scored."""

    parts: list[Array]
    scored: list[Array]

    @classmethod
    def of(cls, units: Array, share: float, n_instances: int, seed: int | None) -> KeptBack:
        """None of fewer than two units."""
        n = len(units)
        n_parts = round(1 / max(share, 1 / n)) if share > 0 and n > 1 else 0
        if n_parts < 2:
            return cls([], [])
        drawn = np.random.default_rng(seed).permutation(units)
        parts = [np.sort(drawn[k::n_parts]) for k in range(n_parts)]
        return cls(parts, parts if n_instances <= LARGE else parts[:1])


def kept_back_plan(plan: TrainingPlan, stage: str) -> TrainingPlan:
    """Training that is scored after each iteration, and whose end is no news."""
    return replace(plan, dev_every=1, warns=False, stage=f"kept back: {stage}")


def best_steps(curves: Sequence[Mapping[int, float]]) -> int:
    """The iteration of the best mean score of all parts, the first of equal ones. What has ended stays as it was."""
    last = max((max(curve) for curve in curves), default=0)
    means = [np.mean([curve[min(n, max(curve))] for curve in curves]) for n in range(last + 1)]
    steps = int(np.argmax(means))
    log.info("links are learned for %d iterations: %.4f on what was kept back, %.4f without links",
             steps, means[steps], means[0])  # fmt: skip
    return steps


def _losses(
    sample: PairSample, labels: NDArray[np.int32], weights: Array, how: PairTraining, n_jobs: int
) -> Callable[[Array, Array], PairResiduals]:
    graph = sample.graph
    if how.training == "pseudo":
        return lambda node, tables: pseudo_loss(graph, labels, weights, node, tables, n_jobs)
    if how.training == "piecewise":
        return lambda node, tables: piecewise_loss(graph, labels, weights, node, tables, n_jobs)
    # a group counts with the mean weight of its labelled instances; a weight of 0 is no label
    labels = np.where(weights > 0, labels, -1).astype(np.int32)
    known = labels >= 0
    counts = np.bincount(graph.group_of[known], minlength=graph.n_groups)
    sums = np.bincount(graph.group_of[known], weights=weights[known], minlength=graph.n_groups)
    settled = how.settings._replace(tolerance=min(how.settings.tolerance, TRAINING_TOLERANCE), when_needed=True)
    return BetheLoss(graph, labels, sums / np.maximum(counts, 1), settled, n_jobs)


def infer(
    sample: PairSample, weights: TableWeights, settings: Propagation, n_jobs: int, maximise: bool = False,
    forbid: tuple[Array, Array] | None = None,
) -> tuple[Array, InferenceReport, tuple[Array, Array, Fixed]]:  # fmt: skip
    """Logarithms (n, L) of the beliefs of new instances; and the scores and messages they come from.

    forbid   (n, L) and (L, L) added to node scores and to the tables of the first relation: 0 or -inf
    """
    ends = SparseRows(sample.rows).scores(weights.tables[0], n_jobs)
    node, tables = sample.node_scores(ends, weights.start), sample.tables(weights.pair, weights.rows)
    for scores in (node, tables):
        finite(scores, "the model")
    if forbid is not None:
        node, tables = node + forbid[0], sample.with_forbidden(tables, forbid[1])
    fixed = propagate(sample.graph, node, tables, settings, maximise, None, n_jobs)
    found = finite(node_beliefs(sample.graph, node, fixed.messages, n_jobs), "belief propagation")
    return found, InferenceReport.of(fixed, settings.tolerance), (node, tables, fixed)


# -- model files --------------------------------------------------------------------------------------


def put_pairwise(state: ModelFile, weights: TableWeights) -> None:
    state.arrays["pairwise.table"] = weights.tables[0]
    for name in ("start", "pair", "rows"):
        state.arrays[f"pairwise.{name}"] = getattr(weights, name)


def as_trained(model: Propagates, file: ModelFile) -> None:
    """Files of before learned all weights until the tolerance: so do they when they are trained again."""
    if "update" not in file.header["settings"]:
        model.update, model.held_out = "all", 0.0


def taken_pairwise(file: ModelFile, n_features: int, n_labels: int, n_relations: int, n_edge: int) -> TableWeights:
    """What `put_pairwise` kept, for rows of n_features and n_edge features of label pairs."""
    n = n_labels
    shapes = {"table": (n_features, n), "start": (n,), "pair": (n_relations, n, n), "rows": (n_edge, n * n)}
    table, start, pair, rows = (file.array(f"pairwise.{name}", shape) for name, shape in shapes.items())
    return TableWeights([table], start, pair, rows, np.zeros(0))
