"""Pairwise models on any graph: marginals, the best labelling and the Bethe free energy by loopy belief propagation.

    score(y) = Σ_i node[i, y_i] + Σ_e ψ_e[y_a, y_b]

Exact on trees (and so on chains); elsewhere the fixed point of sum-product, when it is reached, is a stationary point
of the Bethe free energy, whose value stands for -log Z:

    log Z_Bethe = Σ_e ( E_b[ψ_e + node_a + node_b] + H(b_e) ) - Σ_i (d_i - 1) ( E_b[node_i] + H(b_i) )

It is taken from messages m in a form that has the same value and is stationary in them there, so that messages which
are off by ε put it off by ε² alone; Z_i and Z_e are what beliefs of nodes and edges are divided by:

    log Z_Bethe = Σ_i log Z_i + Σ_e ( log Z_e - log Z_a - log Z_b ),   Z_i = Σ_x exp( node_i[x] + Σ_k log m_{k→i}(x) )

Tree-reweighted (Wainwright, Jaakkola and Willsky, 2005) where edges have shares ρ_e, how often each is in one of
several spanning forests: ψ_e / ρ_e in the place of ψ_e, an edge's part of the sum times ρ_e, Σ_e ρ_e in the place of
d_i. That is never less than log Z, and convex in the scores: one fixed point, for which every start is as good.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import FAST, log_sum, njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import InputError

# -- Loopy belief propagation, group by group: messages along the edges of a pairwise model ------------
#
#     m_{a→b}(y) ∝ Σ_x exp( node_a[x] + ψ_ab[x, y] ) Π_{c ≠ b} m_{c→a}(x)        (max instead of Σ for max-product)
#
# Messages are kept as logarithms, their best entry 0. With B_a = node_a + Σ_c log m_{c→a} the cavity of b is
# B_a - log m_{b→a}: one sum a node, not one an edge; with E = exp(ψ) a message costs L exponentials and L² products.
# Reweighted, B_a = node_a + Σ_c ρ_ca log m_{c→a} and E = exp(ψ / ρ); the cavity is B_a - log m_{b→a} still.
#
# Schedules:
#     sequential   nodes in order, each sends to its later neighbours; then in reverse, each to its earlier ones. On a
#                  chain one round is forward-backward. A node sends again only after it has received something new, so
#                  what has settled costs nothing.
#     synchronous  all messages at once, from those of the round before

Array = NDArray[Any]
CHUNKS = 32
TINY = 1e-200  # a smaller sum has lost its digits
SMALL = 1e-30  # nothing is divided by less
LOOKS = (10, 20, 40, 80, 160)  # rounds after which messages that have not settled are looked at
SHRINKS = 0.98  # a change that is less than this share of the one before shows that messages settle by themselves
SLIGHT = 0.1  # share of the tolerance below which a change is not passed on


class Links(NamedTuple):
    """The graph by node: those of node k are starts[k], ..., starts[k + 1] - 1.

    starts    (n + 1,)
    incoming  the message that comes in by a link; 0..E-1 go from the first to the second end of an edge, E..2E-1 back
    other     the neighbour
    table     its table of pair scores ψ / ρ
    flipped   whether the node is the second end of the edge
    share     ρ of the edge
    n_later   (n,), links to later nodes
    """

    starts: Array
    incoming: Array
    other: Array
    table: Array
    flipped: Array
    share: Array
    n_later: Array


class Model(NamedTuple):
    """Links, scores of nodes (n, L), tables ψ / ρ of pairs (.., L, L) and their exponentials."""

    links: Links
    node: Array
    log_tables: Array
    tables: Array


class Rule(NamedTuple):
    """How messages are sent, and when they have settled."""

    synchronous: bool
    maximise: bool
    damping: float
    when_needed: bool
    tolerance: float
    limit: int


class State(NamedTuple):
    """messages (2E, L) as logarithms and as probabilities, and as many logarithms as scratch of the synchronous
    schedule; fresh bool (2, n): who has something to send to later and to earlier neighbours; by group the rounds and
    the largest change of the last."""

    messages: Array
    chances: Array
    spare: Array
    fresh: Array
    rounds: Array
    change: Array


class Work(NamedTuple):
    """Of a sender: log belief, and exp of it, its best entry 1; its cavity; the message as a probability, and as a
    logarithm where probabilities would lose its digits. (L,) each."""

    belief: Array
    chance: Array
    cavity: Array
    sent: Array
    log_sent: Array


# The innermost kernels take plain arrays: to hand on a tuple of arrays costs more than a message of a few labels.


@njit(nogil=True, cache=True)
def _by_logarithms(incoming, t, flipped, model, maximise, messages, work):
    """A message where exp would lose its digits, or of max-product; its best entry is 0 as a logarithm."""
    belief, cavity, out = work.belief, work.cavity, work.log_sent
    n_labels = len(belief)
    best = -math.inf
    for y in range(n_labels):
        for x in range(n_labels):
            score = model.log_tables[t, y, x] if flipped else model.log_tables[t, x, y]
            cavity[x] = belief[x] - messages[incoming, x] + score if belief[x] > -math.inf else -math.inf
        out[y] = cavity.max() if maximise else log_sum(cavity)
        best = max(best, out[y])
    for y in range(n_labels):
        out[y] = out[y] - best if best > -math.inf else 0.0  # nothing is possible at the sender: no information
        work.sent[y] = math.exp(out[y])


@njit(nogil=True, cache=True, fastmath=FAST)
def _by_chances(incoming, t, flipped, tables, chances, chance, cavity, out):
    """A message by probabilities, its best entry 1; False where a divisor or a sum is too small for that.

    The cavity is a quotient, so there is no exponential in it.
    """
    n_labels = len(chance)
    least = 1.0
    for x in range(n_labels):
        least = min(least, chances[incoming, x])
        cavity[x] = chance[x] / max(chances[incoming, x], SMALL)
        out[x] = 0.0
    if least < SMALL:
        return False
    if flipped:
        for y in range(n_labels):
            total = 0.0
            for x in range(n_labels):
                total += tables[t, y, x] * cavity[x]
            out[y] = total
    else:
        for x in range(n_labels):
            for y in range(n_labels):
                out[y] += tables[t, x, y] * cavity[x]
    least, best = math.inf, 0.0
    for y in range(n_labels):
        least, best = min(least, out[y]), max(best, out[y])
    if least < TINY:
        return False
    scale = 1 / best
    for y in range(n_labels):
        out[y] *= scale
    return True


@njit(nogil=True, cache=True)
def _add_up(first, last, incoming, share, messages, own, belief, chance):
    """The belief of a sender: its own scores + all incoming messages, each with the share of its edge."""
    n_labels, top = len(belief), -math.inf
    for y in range(n_labels):
        belief[y] = own[y]
    for link in range(first, last):
        by, part = incoming[link], share[link]
        for y in range(n_labels):
            belief[y] += part * messages[by, y]
    for y in range(n_labels):
        top = max(top, belief[y])
    for y in range(n_labels):
        chance[y] = math.exp(belief[y] - top) if top > -math.inf else 0.0


@njit(nogil=True, cache=True)
def _replace(number, by_logarithms, damping, messages, chances, sent, log_sent):
    """old ← (1 - damping) · new + damping · old, as probabilities when damped. Returns how far the new one is from the
    old, as probabilities: impossible and nearly impossible are the same."""
    largest = 0.0
    for y in range(len(sent)):
        new = sent[y]
        largest = max(largest, abs(new - chances[number, y]))
        if damping > 0:
            new = (1 - damping) * new + damping * chances[number, y]
        chances[number, y] = new
        if by_logarithms and damping == 0:
            messages[number, y] = log_sent[y]
        else:
            messages[number, y] = math.log(new) if new > 0 else -math.inf
    return largest


@njit(nogil=True, cache=True)
def _round_at_once(first, last, model, rule, state, work):
    """One synchronous round; returns the largest change."""
    starts, incoming, messages, half = model.links.starts, model.links.incoming, state.messages, len(state.spare) // 2
    for k in range(first, last):
        into = starts[k], starts[k + 1]
        _add_up(*into, incoming, model.links.share, messages, model.node[k], work.belief, work.chance)
        for link in range(*into):
            by, t, flipped = incoming[link], model.links.table[link], model.links.flipped[link]
            number = by + half if by < half else by - half
            if not rule.maximise and _by_chances(
                by, t, flipped, model.tables, state.chances, work.chance, work.cavity, work.sent
            ):
                for y in range(len(work.sent)):
                    state.spare[number, y] = math.log(work.sent[y])
            else:
                _by_logarithms(by, t, flipped, model, rule.maximise, messages, work)
                state.spare[number] = work.log_sent
    largest = 0.0
    for k in range(first, last):
        for link in range(starts[k], starts[k + 1]):
            by = incoming[link]
            for y in range(len(work.sent)):
                work.log_sent[y] = state.spare[by, y]
                work.sent[y] = math.exp(work.log_sent[y])
            change = _replace(by, True, rule.damping, messages, state.chances, work.sent, work.log_sent)
            largest = max(largest, change)
    return largest


@njit(nogil=True, cache=True)
def _round_in_order(first, last, model, rule, damping, state, work):
    """One round there and back; returns the largest change."""
    starts, incoming, other, table, flipped, share, n_later = model.links
    messages, chances, fresh, half = state.messages, state.chances, state.fresh, len(state.messages) // 2
    node, tables, maximise, slight = model.node, model.tables, rule.maximise, SLIGHT * rule.tolerance
    belief, chance, cavity, sent, log_sent = work
    largest = 0.0
    for way in range(2):
        for step in range(last - first):
            k = first + step if way == 0 else last - 1 - step
            if not fresh[way, k]:
                continue
            fresh[way, k] = False
            _add_up(starts[k], starts[k + 1], incoming, share, messages, node[k], belief, chance)
            for link in range(starts[k], starts[k + 1]):
                j = other[link]
                if (j > k) != (way == 0):
                    continue
                by, t, turned = incoming[link], table[link], flipped[link]
                number = by + half if by < half else by - half
                exact = not maximise and _by_chances(by, t, turned, tables, chances, chance, cavity, sent)
                if not exact:
                    _by_logarithms(by, t, turned, model, maximise, messages, work)
                change = _replace(number, not exact, damping, messages, chances, sent, log_sent)
                largest = max(largest, change)
                if change > slight:
                    # what j receives from k matters to j's other neighbours alone
                    fresh[0, j] = fresh[0, j] or n_later[j] - (k > j) > 0
                    fresh[1, j] = fresh[1, j] or starts[j + 1] - starts[j] - n_later[j] - (k < j) > 0
                    if damping > 0:  # part of it was held back: k has to send again
                        fresh[way, k] = True
    return largest


@njit(nogil=True, cache=True)
def _propagate_group(first, last, model, rule, rounds, change, state):
    """Messages of the nodes first, ..., last - 1 to their fixed point, after so many rounds with such a change in the
    last; returns (rounds, largest change of the last)."""
    n = model.node.shape[1]
    work = Work(np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    damping = 0.0 if rule.when_needed else rule.damping
    while rounds < rule.limit:
        rounds += 1
        before = change
        if rule.synchronous:
            change = _round_at_once(first, last, model, rule, state, work)
            if change <= rule.tolerance:
                break
        else:
            change = _round_in_order(first, last, model, rule, damping, state, work)
            waiting = False
            for k in range(first, last):
                waiting = waiting or state.fresh[0, k] or state.fresh[1, k]
            if not waiting:
                change = 0.0  # nobody has anything to add: what the last messages changed was sent to all
            if not waiting or change <= rule.tolerance:
                break
            if rounds > 1 and change > SHRINKS * before:
                damping = rule.damping
    return rounds, change


@njit(nogil=True, cache=True)
def _propagate_groups(group_starts, first, last, model, rule, state):
    for g in range(first, last):
        rounds, change = state.rounds[g], state.change[g]
        if rounds == 0 or change > rule.tolerance:
            rounds, change = _propagate_group(group_starts[g], group_starts[g + 1], model, rule, rounds, change, state)
            state.rounds[g], state.change[g] = rounds, change


# -- many groups, on threads --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairGraph:
    """E undirected edges between n nodes, ready for messages.

    edges   int64 (E, 2), first and second end        table    int64 (E,), number of the edge's table of pair scores
    groups  int (n,), rising; no edge leaves its group
    share   float64 (E,), ρ of each edge: 1 for plain belief propagation
    Tables 0, ..., n_shared - 1 may serve many edges, each of the others serves one.

    divided   int64 (E,), for messages: the number of the edge's table ψ / ρ
    division  the table and the share that each of those comes from; None: they are the tables as they stand
    """

    edges: NDArray[np.int64]
    table: NDArray[np.int64]
    groups: NDArray[np.integer]
    group_starts: NDArray[np.int64]
    links: Links
    n_shared: int
    share: NDArray[np.float64]
    divided: NDArray[np.int64]
    division: tuple[NDArray[np.int64], NDArray[np.float64]] | None

    @property
    def n_nodes(self) -> int:
        return len(self.groups)

    def by_share(self, tables: Array) -> Array:
        """The tables ψ / ρ that messages go by."""
        scores = np.asarray(tables, np.float64)
        if self.division is None:
            return scores
        number, share = self.division
        return np.asarray(scores[number] / share[:, None, None])

    @property
    def n_groups(self) -> int:
        return len(self.group_starts) - 1

    @property
    def group_of(self) -> NDArray[np.int64]:
        """(n,), the number of each node's group."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.group_starts))


def pair_graph(
    edges: Array, table: Array, groups: Array, n_shared: int | None = None, share: Array | None = None
) -> PairGraph:
    """Links of each node, from a list of edges. n_shared None: every table may serve many edges; share None: 1."""
    edges, table = np.asarray(edges, np.int64).reshape(-1, 2), np.asarray(table, np.int64)
    n, half = len(groups), len(edges)
    if half and not 0 <= edges.min() <= edges.max() < n:
        raise InputError(f"ends of edges must be numbers from 0 to {n - 1}; got {edges.min()} to {edges.max()}")
    divided, division = table, None
    if share is not None:
        kinds, divided = np.unique(np.stack([table.astype(np.float64), share]), axis=1, return_inverse=True)
        divided, division = divided.reshape(-1).astype(np.int64), (kinds[0].astype(np.int64), kinds[1])
    shares = np.ones(half) if share is None else np.asarray(share, np.float64)
    # link 2e belongs to the first end of edge e, link 2e + 1 to the second; the message that comes in goes towards it
    node = edges.reshape(-1)
    other = edges[:, ::-1].reshape(-1)
    number = np.arange(half)
    incoming = np.stack([number + half, number], axis=1).reshape(-1)
    flipped = np.tile([False, True], half)
    by = np.lexsort((other, node))
    starts = np.concatenate([[0], np.cumsum(np.bincount(node, minlength=n))]).astype(np.int64)
    later = np.bincount(node[other > node], minlength=n).astype(np.int64)
    group_starts = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), n).astype(np.int64)
    links = Links(starts, incoming[by], other[by], divided[by // 2], flipped[by], shares[by // 2], later)
    shared = int(np.max(table, initial=-1)) + 1 if n_shared is None else n_shared
    return PairGraph(edges, table, groups, group_starts, links, shared, shares, divided, division)


# -- how often an edge is in a spanning forest ----------------------------------------------------------

FORESTS = 20  # at the least; more where they do not reach every edge


@njit(nogil=True, cache=True)
def _grow(edges, order, root, count):
    """Edges in the given order, each that joins two trees of the forest: count += 1."""
    for k in range(len(root)):
        root[k] = k
    for e in order:
        a, b = edges[e]
        while root[a] != a:
            root[a] = root[root[a]]
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        if a != b:
            root[b] = a
            count[e] += 1


def forest_shares(edges: Array, n_nodes: int) -> NDArray[np.float64]:
    """(E,), ρ: the share of some spanning forests that each edge is in, above 0; 1 for an edge on no circle.

    Each forest takes the edges first that the forests before it left out most; of equal ones, by lot.
    """
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    count, root, rng = np.zeros(len(edges), np.int64), np.empty(n_nodes, np.int64), np.random.default_rng(0)
    grown = 0
    while grown < FORESTS or not count.all():
        lot = rng.permutation(len(edges))
        _grow(edges, lot[np.argsort(count[lot], kind="stable")], root, count)
        grown += 1
    return count / grown


class Propagation(NamedTuple):
    """schedule: "sequential" or "synchronous"; damping 0 (none) to 1; stop when no message changes by more than the
    tolerance, as a probability, or after `limit` rounds. `when_needed`: messages are damped, when they are sequential,
    from the round on whose changes are no smaller than those of the round before; fixed points are the same."""

    schedule: str = "sequential"
    damping: float = 0.0
    tolerance: float = 1e-6
    limit: int = 100
    when_needed: bool = False


DEFAULT = Propagation()


class Fixed(NamedTuple):
    """Where propagation ended: log messages (2E, L), and by group rounds and the last change."""

    messages: Array
    rounds: NDArray[np.int64]
    change: NDArray[np.float64]

    def converged(self, tolerance: float) -> NDArray[np.bool_]:
        return self.change <= tolerance


def propagate(
    graph: PairGraph, node: Array, tables: Array, settings: Propagation = DEFAULT, maximise: bool = False,
    messages: Array | None = None, n_jobs: int = 1, hopeless: Callable[[Array], bool] | None = None,
) -> Fixed:  # fmt: skip
    """Messages to their fixed point, groups in parallel. Those of an earlier call are a warm start, and are changed.

    hopeless   asked of the messages now and then, where they take long to settle: whether to give them up
    """
    shape = 2 * len(graph.edges), node.shape[1]
    scaled = graph.by_share(tables)
    tops, exp_tables = _exponentials(scaled)  # what is common to a table changes no message
    log_tables = scaled - tops[:, None, None]
    model = Model(graph.links, np.asarray(node, np.float64), log_tables, exp_tables)
    synchronous = settings.schedule == "synchronous"
    found = np.zeros(shape) if messages is None else messages
    spare, fresh = np.empty_like(found) if synchronous else found, np.ones((2, graph.n_nodes), bool)
    state = State(found, np.exp(found), spare, fresh, np.zeros(graph.n_groups, np.int64), np.zeros(graph.n_groups))
    numbers = float(settings.damping), settings.when_needed, float(settings.tolerance)
    bounds = even_bounds(graph.links.starts[graph.group_starts] + graph.group_starts, CHUNKS)
    looks = [] if hopeless is None else [look for look in LOOKS if look < settings.limit]
    for limit in [*looks, settings.limit] if graph.n_groups else []:
        rule = Rule(synchronous, maximise, *numbers, limit)

        def run(chunk: int, rule: Rule = rule) -> None:
            _propagate_groups(graph.group_starts, bounds[chunk], bounds[chunk + 1], model, rule, state)

        run_chunks(run, len(bounds) - 1, n_jobs)
        if (state.change <= settings.tolerance).all() or (limit in looks and hopeless is not None and hopeless(found)):
            break
    return Fixed(found, state.rounds, state.change)


class PairBeliefs(NamedTuple):
    """node (n, L); edge beliefs b added up by table (tables, L, L); log Z of Bethe by group; the sums of b (1 - b)."""

    node: Array
    pair: Array
    log_partition: Array
    spread: Array


@njit(nogil=True, cache=True)
def _node_beliefs(first, last, node, links, messages, log_beliefs, log_totals):
    """log b_i, b_i ∝ exp(node_i + Σ ρ messages), and the logarithms of what they were divided by."""
    n_labels, starts, incoming, share = node.shape[1], links.starts, links.incoming, links.share
    for k in range(first, last):
        for y in range(n_labels):
            log_beliefs[k, y] = node[k, y]
        for link in range(starts[k], starts[k + 1]):
            for y in range(n_labels):
                log_beliefs[k, y] += share[link] * messages[incoming[link], y]
        total = log_totals[k] = log_sum(log_beliefs[k])
        for y in range(n_labels):
            if total > -math.inf:
                log_beliefs[k, y] -= total
            else:
                log_beliefs[k, y] = -math.log(n_labels)  # nothing is possible: everything is as likely


@njit(nogil=True, cache=True)
def _cavity(log_belief, message, cavity):
    """What one end believes without the other: exp(log b - log m), its best entry 1; log of what it was divided by."""
    top = -np.inf
    for x in range(len(log_belief)):
        cavity[x] = log_belief[x] - message[x] if log_belief[x] > -np.inf else -np.inf
        top = max(top, cavity[x])
    for x in range(len(log_belief)):
        cavity[x] = np.exp(cavity[x] - top) if top > -np.inf else 1.0
    return top if top > -np.inf else 0.0


class AtRest(NamedTuple):
    """Where messages ended: edges (E, 2), logarithms of node beliefs (n, L), messages (2E, L)."""

    edges: Array
    log_beliefs: Array
    messages: Array


class OfEdges(NamedTuple):
    """(E,) each: the table that beliefs are added to, the table ψ / ρ, the group, how often it counts, ρ."""

    table: Array
    divided: Array
    group: Array
    weight: Array
    share: Array


class EdgeSums(NamedTuple):
    """Edge beliefs b and b (1 - b) added up by table: of tables that many edges share (2, shared, L, L), of those with
    one edge alone (tables, L, L) each; and what edges add to log Z by group."""

    shared: Array
    pair: Array
    spread: Array
    log_z: Array


@njit(nogil=True, cache=True)
def _edge_belief(e, rest, exp_table, work, out):
    """b_e ∝ exp(ψ / ρ) · (cavity of first end) · (cavity of second end); returns log of what it was divided by.

    work   (2, L): the cavities
    """
    half, n_labels = len(rest.edges), exp_table.shape[0]
    a, b = rest.edges[e]
    tops = _cavity(rest.log_beliefs[a], rest.messages[half + e], work[0])  # each end without the message of the other
    tops += _cavity(rest.log_beliefs[b], rest.messages[e], work[1])
    total = 0.0
    for x in range(n_labels):
        for y in range(n_labels):
            out[x, y] = work[0, x] * work[1, y] * exp_table[x, y]
            total += out[x, y]
    for x in range(n_labels):
        for y in range(n_labels):
            if total > 0:
                out[x, y] = out[x, y] / total
            else:
                out[x, y] = np.exp(rest.log_beliefs[a, x] + rest.log_beliefs[b, y])
    return np.log(total) + tops if total > 0 else -np.inf


@njit(nogil=True, cache=True)
def _edge_beliefs(first, last, rest, tables, of_edge, out):
    """Adds to the sums over edges. `tables`: the best entry of each ψ / ρ, and exp of the rest. By group
    Σ_e ρ_e ( log Z_e - log Z_a - log Z_b ): beliefs of nodes come divided by theirs."""
    tops, exp_tables = tables
    n_labels = exp_tables.shape[1]
    own, work = np.empty((n_labels, n_labels)), np.empty((2, n_labels))
    for e in range(first, last):
        t, d, weight = of_edge.table[e], of_edge.divided[e], of_edge.weight[e]
        value = _edge_belief(e, rest, exp_tables[d], work, own) + tops[d]
        for x in range(n_labels):
            for y in range(n_labels):
                p = own[x, y]
                if t < out.shared.shape[1]:
                    out.shared[0, t, x, y] += weight * p
                    out.shared[1, t, x, y] += weight * p * (1 - p)
                else:
                    out.pair[t, x, y] = weight * p
                    out.spread[t, x, y] = weight * p * (1 - p)
        out.log_z[of_edge.group[e]] += of_edge.share[e] * value


def node_beliefs(graph: PairGraph, node: Array, messages: Array, n_jobs: int = 1) -> Array:
    """Logarithms (n, L) of the beliefs of nodes, from messages at rest."""
    return _divided_beliefs(graph, node, messages, n_jobs)[0]


def _divided_beliefs(graph: PairGraph, node: Array, messages: Array, n_jobs: int) -> tuple[Array, Array]:
    """The same, and the logarithms (n,) of what they were divided by."""
    scores = np.asarray(node, np.float64)
    out, totals = np.empty(scores.shape), np.empty(len(scores))
    cuts = np.linspace(0, graph.n_nodes, CHUNKS + 1).astype(np.int64)

    def run(chunk: int) -> None:
        _node_beliefs(cuts[chunk], cuts[chunk + 1], scores, graph.links, messages, out, totals)

    run_chunks(run, CHUNKS, n_jobs)
    return out, totals


def pair_beliefs(
    graph: PairGraph, node: Array, tables: Array, messages: Array, weights: Array | None = None, n_jobs: int = 1
) -> PairBeliefs:
    """Node beliefs, edge beliefs added up by table, and the Bethe log Z of each group, from messages at rest.

    weights   (groups,), how often the edges of a group count; None: once
    """
    group_of = graph.group_of
    log_beliefs, log_totals = _divided_beliefs(graph, node, messages, n_jobs)
    log_z = np.bincount(group_of, weights=log_totals, minlength=graph.n_groups).astype(np.float64)  # integers: nobody
    by_table = _exponentials(graph.by_share(tables))
    total, spread = np.zeros((2, *np.shape(tables)))
    shape = (2, min(graph.n_shared, len(total)), *total.shape[1:])
    group = group_of[graph.edges[:, 0]]
    counts = np.ones(len(group)) if weights is None else np.asarray(weights, np.float64)[group]
    of_edge = OfEdges(graph.table, graph.divided, group, counts, graph.share)
    rest = AtRest(graph.edges, log_beliefs, messages)
    cuts = np.linspace(0, len(graph.edges), CHUNKS + 1).astype(np.int64)

    def edges(chunk: int) -> EdgeSums:
        out = EdgeSums(np.zeros(shape), total, spread, np.zeros(graph.n_groups))
        _edge_beliefs(cuts[chunk], cuts[chunk + 1], rest, by_table, of_edge, out)
        return out

    for out in run_chunks(edges, CHUNKS, n_jobs):
        total[: shape[1]] += out.shared[0]
        spread[: shape[1]] += out.shared[1]
        log_z += out.log_z
    return PairBeliefs(np.exp(log_beliefs), total, log_z, spread)


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
    _, exp_tables = _exponentials(np.asarray(tables)[graph.table[wanted]] / graph.share[wanted, None, None])
    rest, work = AtRest(graph.edges, log_beliefs, messages), np.empty((2, n_labels))
    for at, e in enumerate(wanted):
        _edge_belief(int(e), rest, exp_tables[at], work, out[at])
    return out
