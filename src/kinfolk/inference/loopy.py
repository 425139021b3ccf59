"""Pairwise models on any graph: marginals, the best labelling and the Bethe free energy by loopy belief propagation.

    score(y) = Σ_i node[i, y_i] + Σ_e ψ_e[y_a, y_b]

Exact on trees (and so on chains); elsewhere the fixed point of sum-product, when it is reached, is a stationary point
of the Bethe free energy, whose value stands for -log Z:

    log Z_Bethe = Σ_e ( E_b[ψ_e + node_a + node_b] + H(b_e) ) - Σ_i (d_i - 1) ( E_b[node_i] + H(b_i) )
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks

# -- Loopy belief propagation, group by group: messages along the edges of a pairwise model ------------
#
#     m_{a→b}(y) ∝ Σ_x exp( node_a[x] + ψ_ab[x, y] ) Π_{c ≠ b} m_{c→a}(x)        (max instead of Σ for max-product)
#
# Messages are kept as logarithms, their best entry 0. With B_a = node_a + Σ_c log m_{c→a} the cavity of b is
# B_a - log m_{b→a}: one sum a node, not one an edge; with E = exp(ψ) a message costs L exponentials and L² products.
#
# Schedules:
#     sequential   nodes in order, each tells its later neighbours; then in reverse, each tells its earlier ones. On a
#                  chain one round is forward-backward. A node speaks again only after it has heard something new, so
# what
#                  has settled costs nothing.
#     synchronous  all messages at once, from those of the round before

SEQUENTIAL, SYNCHRONOUS = 0, 1
TINY = 1e-290  # a smaller sum has lost its digits
SLIGHT = 0.1  # share of the tolerance below which a change is not passed on


@njit(nogil=True, cache=True)
def _log_entry(belief, back, log_table, transposed, y):
    """One entry of a message, with logarithms throughout."""
    top = -math.inf
    for x in range(len(belief)):
        if belief[x] > -math.inf:
            top = max(top, belief[x] - back[x] + (log_table[y, x] if transposed else log_table[x, y]))
    if top == -math.inf:
        return top
    total = 0.0
    for x in range(len(belief)):
        if belief[x] > -math.inf:
            total += math.exp(belief[x] - back[x] + (log_table[y, x] if transposed else log_table[x, y]) - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def _message(belief, back, table, log_table, transposed, maximise, cavity, out):
    """log of one message from the belief of its sender, less what the receiver had told; its best entry is 0.

    table, log_table  (L, L), exp(ψ) and ψ, as [label of the edge's first end, label of its second]
    """
    n_labels = len(belief)
    top = -math.inf
    for x in range(n_labels):
        cavity[x] = belief[x] - back[x] if belief[x] > -math.inf else -math.inf
        top = max(top, cavity[x])
    best = -math.inf
    if top == -math.inf:  # nothing is possible at the sender: say nothing
        for y in range(n_labels):
            out[y] = 0.0
        return
    if maximise:
        for y in range(n_labels):
            out[y] = -math.inf
        for x in range(n_labels):
            for y in range(n_labels):
                score = log_table[y, x] if transposed else log_table[x, y]
                out[y] = max(out[y], cavity[x] - top + score)
    else:
        for x in range(n_labels):
            cavity[x] = math.exp(cavity[x] - top)
        for y in range(n_labels):
            out[y] = 0.0
        if transposed:
            for y in range(n_labels):
                for x in range(n_labels):
                    out[y] += table[y, x] * cavity[x]
        else:
            for x in range(n_labels):
                for y in range(n_labels):
                    out[y] += table[x, y] * cavity[x]
        for y in range(n_labels):
            if out[y] > TINY:
                out[y] = math.log(out[y])
            else:  # impossible, or scores too far apart for exp
                out[y] = _log_entry(belief, back, log_table, transposed, y) - top
    for y in range(n_labels):
        best = max(best, out[y])
    for y in range(n_labels):
        if best > -math.inf:
            out[y] -= best
        else:
            out[y] = 0.0


@njit(nogil=True, cache=True)
def _add_up(k, node, starts, links, messages, belief):
    """belief = node_k + all incoming messages. `links` names for each link of k the message that comes in by it."""
    for y in range(len(belief)):
        belief[y] = node[k, y]
    for at in range(starts[k], starts[k + 1]):
        for y in range(len(belief)):
            belief[y] += messages[links[at], y]


@njit(nogil=True, cache=True)
def _change(new, old):
    """The largest difference of two messages as probabilities; impossible and nearly impossible are the same."""
    largest = 0.0
    for y in range(len(new)):
        largest = max(largest, abs(math.exp(new[y]) - math.exp(old[y])))
    return largest


@njit(nogil=True, cache=True)
def _replace(old, new, damping):
    """old ← (1 - damping) · new + damping · old, as probabilities when damped."""
    for y in range(len(old)):
        if damping > 0:
            mixed = (1 - damping) * math.exp(new[y]) + damping * math.exp(old[y])
            old[y] = math.log(mixed) if mixed > 0 else -math.inf
        else:
            old[y] = new[y]


@njit(nogil=True, cache=True)
def _tell(link, graph, tables, log_tables, maximise, messages, belief, cavity, out):
    """The message that goes out by a link, into `out`; returns its number."""
    links, table_of, flipped = graph[1], graph[3], graph[4]
    half, incoming = len(messages) // 2, links[link]
    t = table_of[link]
    _message(belief, messages[incoming], tables[t], log_tables[t], flipped[link], maximise, cavity, out)
    return incoming + half if incoming < half else incoming - half


@njit(nogil=True, cache=True)
def _round_at_once(first, last, node, graph, tables, log_tables, maximise, damping, messages, spare, work):
    """One synchronous round; returns the largest change."""
    starts, links = graph[0], graph[1]
    belief, cavity, out = work
    for k in range(first, last):
        _add_up(k, node, starts, links, messages, belief)
        for link in range(starts[k], starts[k + 1]):
            sent = _tell(link, graph, tables, log_tables, maximise, messages, belief, cavity, out)
            for y in range(len(out)):
                spare[sent, y] = out[y]
    largest = 0.0
    for k in range(first, last):
        for link in range(starts[k], starts[k + 1]):
            largest = max(largest, _change(spare[links[link]], messages[links[link]]))
            _replace(messages[links[link]], spare[links[link]], damping)
    return largest


@njit(nogil=True, cache=True)
def _round_in_order(first, last, node, graph, tables, log_tables, maximise, damping, slight, messages, fresh, work):
    """One round there and back; returns the largest change. fresh[0], fresh[1] (n,): who has something to tell to
    later and to earlier neighbours."""
    starts, links, other = graph[0], graph[1], graph[2]
    belief, cavity, out = work
    largest = 0.0
    for way in range(2):
        for step in range(last - first):
            k = first + step if way == 0 else last - 1 - step
            if not fresh[way, k]:
                continue
            fresh[way, k] = False
            _add_up(k, node, starts, links, messages, belief)
            for link in range(starts[k], starts[k + 1]):
                j = other[link]
                if (j > k) != (way == 0):
                    continue
                sent = _tell(link, graph, tables, log_tables, maximise, messages, belief, cavity, out)
                change = _change(out, messages[sent])
                largest = max(largest, change)
                _replace(messages[sent], out, damping)
                if change > slight:
                    # what j hears from k matters to j's other neighbours alone
                    later = graph[5][j] - (k > j)
                    fresh[0, j] = fresh[0, j] or later > 0
                    fresh[1, j] = fresh[1, j] or starts[j + 1] - starts[j] - graph[5][j] - (k < j) > 0
                    if damping > 0:  # not all of it was said: k has to say it again
                        fresh[way, k] = True
    return largest


@njit(nogil=True, cache=True)
def propagate_group(
    first, last, node, graph, tables, log_tables, schedule, maximise, damping, tolerance, limit, messages, spare, fresh
):
    """Messages of the nodes first, ..., last - 1 to their fixed point; returns (rounds, largest change of the last).

    graph     starts (n + 1,), and by link: links (the message that comes in), other (the neighbour), table_of, flipped
              (whether the node is the second end of the edge); n_later (n,), links to later nodes.
              Messages 0..E-1 go from first to second end, E..2E-1 back.
    spare     like messages, scratch of the synchronous schedule
    fresh     bool (2, n): who has something to tell, at first everybody
    """
    n_labels = node.shape[1]
    work = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    change, rounds = 0.0, 0
    while rounds < limit:
        rounds += 1
        if schedule == SYNCHRONOUS:
            change = _round_at_once(
                first, last, node, graph, tables, log_tables, maximise, damping, messages, spare, work
            )
            if change <= tolerance:
                break
        else:
            slight = SLIGHT * tolerance
            change = _round_in_order(
                first, last, node, graph, tables, log_tables, maximise, damping, slight, messages, fresh, work
            )
            waiting = False
            for k in range(first, last):
                waiting = waiting or fresh[0, k] or fresh[1, k]
            if not waiting:
                change = 0.0  # nobody has anything to add: what the last messages changed was said to all
            if not waiting or change <= tolerance:
                break
    return rounds, change


# -----------------------------------------------------------------------------------------------------
# Pairwise models on any graph: marginals, the best labelling and the Bethe free energy by loopy belief propagation.

Array = NDArray[Any]
CHUNKS = 32
SCHEDULES = {"sequential": SEQUENTIAL, "synchronous": SYNCHRONOUS}


@dataclass(frozen=True, eq=False)
class PairGraph:
    """E undirected edges between n nodes, ready for messages.

    edges   int64 (E, 2), first and second end        table    int64 (E,), number of the edge's table of pair scores
    groups  int (n,), rising; no edge leaves its group
    Tables 0, ..., n_shared - 1 may serve many edges, each of the others serves one.
    """

    edges: NDArray[np.int64]
    table: NDArray[np.int64]
    groups: NDArray[np.integer]
    group_starts: NDArray[np.int64]
    links: tuple[Array, ...]  # as the kernels take them
    n_shared: int

    @property
    def n_nodes(self) -> int:
        return len(self.groups)

    @property
    def degree(self) -> NDArray[np.int64]:
        return np.diff(self.links[0])


def pair_graph(edges: Array, table: Array, groups: Array, n_shared: int | None = None) -> PairGraph:
    """Links of each node, from a list of edges. n_shared None: every table may serve many edges."""
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    n, half = len(groups), len(edges)
    # link 2e belongs to the first end of edge e, link 2e + 1 to the second; the message that comes in goes towards it
    node = edges.reshape(-1)
    other = edges[:, ::-1].reshape(-1)
    number = np.arange(half)
    incoming = np.stack([number + half, number], axis=1).reshape(-1)
    flipped = np.tile([False, True], half)
    tables = np.repeat(np.asarray(table, np.int64), 2)
    by = np.lexsort((other, node))
    starts = np.concatenate([[0], np.cumsum(np.bincount(node, minlength=n))]).astype(np.int64)
    later = np.bincount(node[other > node], minlength=n).astype(np.int64)
    group_starts = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), n).astype(np.int64)
    links = (starts, incoming[by], other[by], tables[by], flipped[by], later)
    shared = int(np.max(table, initial=-1)) + 1 if n_shared is None else n_shared
    return PairGraph(edges, np.asarray(table, np.int64), groups, group_starts, links, shared)


class Propagation(NamedTuple):
    """schedule: "sequential" or "synchronous"; damping 0 (none) to 1; stop when no message changes by more than the
    tolerance, as a probability, or after `limit` rounds."""

    schedule: str = "sequential"
    damping: float = 0.0
    tolerance: float = 1e-6
    limit: int = 100


DEFAULT = Propagation()


class Fixed(NamedTuple):
    """Where propagation ended: log messages (2E, L), and by group rounds and the last change."""

    messages: Array
    rounds: NDArray[np.int64]
    change: NDArray[np.float64]

    def converged(self, tolerance: float) -> NDArray[np.bool_]:
        return self.change <= tolerance


@njit(nogil=True, cache=True)
def _propagate_groups(
    group_starts, first, last, node, graph, tables, log_tables, schedule, maximise, damping, tolerance, limit,
    messages, spare, fresh, rounds, change,
):  # fmt: skip
    for g in range(first, last):
        rounds[g], change[g] = propagate_group(
            group_starts[g], group_starts[g + 1], node, graph, tables, log_tables, schedule, maximise, damping,
            tolerance, limit, messages, spare, fresh,
        )  # fmt: skip


def propagate(
    graph: PairGraph, node: Array, tables: Array, settings: Propagation = DEFAULT, maximise: bool = False,
    messages: Array | None = None, n_jobs: int = 1,
) -> Fixed:  # fmt: skip
    """Messages to their fixed point, groups in parallel. Those of an earlier call are a warm start, and are changed."""
    n_labels, half = node.shape[1], len(graph.edges)
    log_tables = np.asarray(tables, np.float64)
    scores = np.asarray(node, np.float64)
    tops, exp_tables = _exponentials(log_tables)  # what is common to a table changes no message
    log_tables = log_tables - tops[:, None, None]
    found = np.zeros((2 * half, n_labels)) if messages is None else messages
    spare = np.empty_like(found) if settings.schedule == "synchronous" else found
    fresh = np.ones((2, graph.n_nodes), bool)
    n_groups = len(graph.group_starts) - 1
    rounds, change = np.zeros(n_groups, np.int64), np.zeros(n_groups)
    bounds = even_bounds(graph.links[0][graph.group_starts] + graph.group_starts, CHUNKS)
    schedule = SCHEDULES[settings.schedule]

    def run(chunk: int) -> None:
        _propagate_groups(
            graph.group_starts, bounds[chunk], bounds[chunk + 1], scores, graph.links, exp_tables, log_tables, schedule,
            maximise, settings.damping, settings.tolerance, settings.limit, found, spare, fresh, rounds, change,
        )  # fmt: skip

    if n_groups:
        run_chunks(run, len(bounds) - 1, n_jobs)
    return Fixed(found, rounds, change)


class PairBeliefs(NamedTuple):
    """node (n, L); edge beliefs b added up by table (tables, L, L); log Z of Bethe by group; the sums of b (1 - b)."""

    node: Array
    pair: Array
    log_partition: Array
    spread: Array


@njit(nogil=True, cache=True)
def _node_beliefs(first, last, node, graph, messages, log_beliefs):
    """log b_i, b_i ∝ exp(node_i + Σ messages)."""
    starts, links = graph[0], graph[1]
    n_labels = node.shape[1]
    for k in range(first, last):
        top = -np.inf
        for y in range(n_labels):
            log_beliefs[k, y] = node[k, y]
            for link in range(starts[k], starts[k + 1]):
                log_beliefs[k, y] += messages[links[link], y]
            top = max(top, log_beliefs[k, y])
        total = 0.0
        for y in range(n_labels):
            if top == -np.inf:
                log_beliefs[k, y] = 0.0  # nothing is possible: everything is as likely
            else:
                log_beliefs[k, y] -= top
            total += np.exp(log_beliefs[k, y])
        for y in range(n_labels):
            log_beliefs[k, y] -= np.log(total)


@njit(nogil=True, cache=True)
def _cavity(log_belief, message, log_cavity, cavity):
    """What one end believes without the other: exp(log b - log m), its best entry 1."""
    top = -np.inf
    for x in range(len(log_belief)):
        log_cavity[x] = log_belief[x] - message[x] if log_belief[x] > -np.inf else -np.inf
        top = max(top, log_cavity[x])
    for x in range(len(log_belief)):
        log_cavity[x] = log_cavity[x] - top if top > -np.inf else 0.0
        cavity[x] = np.exp(log_cavity[x])


@njit(nogil=True, cache=True)
def _edge_belief(e, edges, log_beliefs, messages, exp_table, work, out):
    """b_e ∝ exp(ψ) · (cavity of first end) · (cavity of second end); returns log of what it was divided by."""
    half, n_labels = len(edges), exp_table.shape[0]
    a, b = edges[e]
    log_first, first, log_second, second = work
    _cavity(log_beliefs[a], messages[half + e], log_first, first)  # what each end had heard from the other
    _cavity(log_beliefs[b], messages[e], log_second, second)
    total = 0.0
    for x in range(n_labels):
        for y in range(n_labels):
            out[x, y] = first[x] * second[y] * exp_table[x, y]
            total += out[x, y]
    for x in range(n_labels):
        for y in range(n_labels):
            out[x, y] = out[x, y] / total if total > 0 else np.exp(log_beliefs[a, x] + log_beliefs[b, y])
    return np.log(total) if total > 0 else -np.inf


@njit(nogil=True, cache=True)
def _edge_beliefs(
    first, last, edges, table_of, group_of, weights, node, tops, exp_tables, log_beliefs, messages,
    shared, pair, spread, log_z,
):  # fmt: skip
    """Beliefs added up by table: those of `shared` tables into it, those of one edge alone into `pair`; and by group

    E_b[ψ + node_a + node_b] + H(b) = log total + Σ_x b(x) (node_a - log cavity_a)[x] + Σ_y b(y) (node_b - ...)[y]
    """
    n_labels = node.shape[1]
    own = np.empty((n_labels, n_labels))
    work = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    for e in range(first, last):
        t = table_of[e]
        a, b = edges[e]
        weight = weights[group_of[a]]
        value = _edge_belief(e, edges, log_beliefs, messages, exp_tables[t], work, own) + tops[t]
        for x in range(n_labels):
            for y in range(n_labels):
                p = own[x, y]
                if p > 0:
                    value += p * (node[a, x] - work[0][x] + node[b, y] - work[2][y])
                if t < shared.shape[1]:
                    shared[0, t, x, y] += weight * p
                    shared[1, t, x, y] += weight * p * (1 - p)
                else:
                    pair[t, x, y] = weight * p
                    spread[t, x, y] = weight * p * (1 - p)
        log_z[group_of[a]] += value


def node_beliefs(graph: PairGraph, node: Array, messages: Array, n_jobs: int = 1) -> Array:
    """Logarithms (n, L) of the beliefs of nodes, from messages at rest."""
    scores = np.asarray(node, np.float64)
    out = np.empty(scores.shape)
    cuts = np.linspace(0, graph.n_nodes, CHUNKS + 1).astype(np.int64)

    def run(chunk: int) -> None:
        _node_beliefs(cuts[chunk], cuts[chunk + 1], scores, graph.links, messages, out)

    run_chunks(run, CHUNKS, n_jobs)
    return out


def pair_beliefs(
    graph: PairGraph, node: Array, tables: Array, messages: Array, weights: Array | None = None, n_jobs: int = 1
) -> PairBeliefs:
    """Node beliefs, edge beliefs added up by table, and the Bethe log Z of each group, from messages at rest.

    weights   (groups,), how often the edges of a group count; None: once
    """
    scores = np.asarray(node, np.float64)
    n_groups = len(graph.group_starts) - 1
    counts = np.ones(n_groups) if weights is None else np.asarray(weights, np.float64)
    group_of = np.repeat(np.arange(n_groups), np.diff(graph.group_starts))
    log_beliefs = node_beliefs(graph, scores, messages, n_jobs)
    beliefs = np.exp(log_beliefs)
    # (1 - d_i) (E[node_i] + H(b_i)); a label that is impossible has no part in it
    possible = beliefs > 0
    inside = np.where(possible, scores - np.where(possible, log_beliefs, 0), 0)
    value = (beliefs * inside).sum(axis=1) * (1 - graph.degree)
    log_z = np.bincount(group_of, weights=value, minlength=n_groups).astype(np.float64)  # integers for nobody
    tops, exp_tables = _exponentials(tables)
    total, spread = np.zeros(exp_tables.shape), np.zeros(exp_tables.shape)
    shape = (2, min(graph.n_shared, len(total)), *total.shape[1:])
    cuts = np.linspace(0, len(graph.edges), CHUNKS + 1).astype(np.int64)

    def edges(chunk: int) -> tuple[Array, Array]:
        shared, value = np.zeros(shape), np.zeros(n_groups)
        _edge_beliefs(
            cuts[chunk], cuts[chunk + 1], graph.edges, graph.table, group_of, counts, scores, tops, exp_tables,
            log_beliefs, messages, shared, total, spread, value,
        )  # fmt: skip
        return shared, value

    for shared, value in run_chunks(edges, CHUNKS, n_jobs):
        total[: shape[1]] += shared[0]
        spread[: shape[1]] += shared[1]
        log_z += value
    return PairBeliefs(beliefs, total, log_z, spread)


def _exponentials(tables: Array) -> tuple[Array, Array]:
    """The best entry of each table (0 if all is forbidden), and exp of the rest."""
    scores = np.asarray(tables, np.float64)
    tops = scores.max(axis=(1, 2), initial=-np.inf)
    tops = np.where(np.isfinite(tops), tops, 0.0)
    return tops, np.exp(scores - tops[:, None, None])


def edge_beliefs(graph: PairGraph, tables: Array, log_beliefs: Array, messages: Array, wanted: Array) -> Array:
    """(wanted, L, L), the beliefs of some edges."""
    n_labels = log_beliefs.shape[1]
    out = np.empty((len(wanted), n_labels, n_labels))
    _, exp_tables = _exponentials(np.asarray(tables)[graph.table[wanted]])
    work = tuple(np.empty(n_labels) for _ in range(4))
    for at, e in enumerate(wanted):
        _edge_belief(int(e), graph.edges, log_beliefs, messages, exp_tables[at], work, out[at])
    return out
