"""Exact inference in a mixture of parents (Rosenberg, Klein and Taskar, 2007), and the derivatives of its losses.

Each instance k is a mixture of what its components c say, and a component looks at one parent j at most:

    p(y_k | parents) = Σ_c α_c p_c(y_k | y_j),      p_c(y | i) ∝ exp( T[i, y] + s[y] ),   s = scores of both ends

so the marginals follow from those of the parents in one pass, parents first (section 2.3):

    m_k = Σ_c α_c π_c,      π_c[y] = Σ_i m_j[i] p_c(y | i)

With E = exp(T) and e = exp(s - max), p_c(y | i) = E[i, y] e[y] / Z[i] and Z = E e: L exponentials a component.

The reverse sweep (section 3.2, appendix A) takes g_k = ∂loss/∂m_k from the last instance to the first:

    ∂loss/∂m_j[i] += α_c c[i],                        c[i] = Σ_y p_c(y | i) g_k[y]
    ∂loss/∂score[i, y] = α_c m_j[i] p_c(y | i) (g_k[y] - c[i])
    ∂loss/∂α_c = Σ_y π_c[y] g_k[y]

Losses:  marginal      -Σ_k w_k log m_k[y_k]
         conditional   the same, where children see the known label of a parent instead of its marginal
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import FAST, Csr, njit, softmax
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import InputError
from kinfolk.inference.dag import Dag

Array = NDArray[Any]

TINY = 1e-200  # a smaller normaliser has lost its digits: that component is done again with logarithms
LEAST = 1e-300  # probability below which the logarithm is cut off
CHUNKS = 32
LEAST_CHUNK = 1 << 12  # components: levels of less are narrow
NO_ROWS = Csr(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))


class Scores(NamedTuple):
    """What the log-linear models say, before it is normalised.

    ends   (S, L), scores of the ends of components: `Wiring` tells which row is whose
    pair   (R, L, L), T of each relation: [label of the parent, label of the child]
    start  (L,)
    rows   (G, L²), weights of features of label pairs
    """

    ends: Array
    pair: Array
    start: Array
    rows: Array


class Wiring(NamedTuple):
    """A Dag, and where in the scores its components find theirs.

    child_slot, parent_slot   int64 (C,), rows of `Scores.ends`; a parent_slot of -1: the parent's features are no part
    pair_rows                 features of label pairs, a row a component, or no rows
    """

    dag: Dag
    child_slot: NDArray[np.int64]
    parent_slot: NDArray[np.int64]
    pair_rows: Csr = NO_ROWS

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Runs of whole groups, of about equal cost."""
        cost = self.dag.indptr[self.dag.group_starts]  # components before each group
        wanted = min(CHUNKS, max(1, self.dag.n_components // LEAST_CHUNK))
        return list(pairwise(even_bounds(cost, wanted).tolist())) if len(cost) > 1 else []


class Model(NamedTuple):
    """Scores as the kernels take them. T is less the best of its row, which changes no conditional; the last table has
    the start scores in every row, so a start component is one of a last relation, whatever its parent's label.

    ends      (S, L), as they were given        exp_ends  (S, L), e of each end, its best being 1
    pair      (R + 1, L, L), T                  rows      (G, L²)
    exp_pair  (R + 1, W, W), E, with zeros from L on to W, a multiple of four;  turned  the same, [child, parent]
    """

    ends: Array
    exp_ends: Array
    pair: Array
    exp_pair: Array
    turned: Array
    start: Array
    rows: Array

    @classmethod
    def of(cls, scores: Scores, n_jobs: int = 1) -> Model:
        start, n_labels = scores.start.astype(np.float64), len(scores.start)
        pair = np.empty((len(scores.pair) + 1, n_labels, n_labels))
        pair[:-1], pair[-1] = scores.pair, start
        pair -= pair.max(axis=2, keepdims=True, initial=-math.inf) if pair.size else 0
        width = -(-n_labels // TOGETHER) * TOGETHER
        exp_pair = np.zeros((len(pair), width, width))
        exp_pair[:, :n_labels, :n_labels] = np.exp(pair)
        turned = np.ascontiguousarray(exp_pair.transpose(0, 2, 1))
        rows = np.ascontiguousarray(scores.rows, np.float64)
        return cls(scores.ends, _exponentials(scores.ends, n_jobs), pair, exp_pair, turned, start, rows)


def _exponentials(ends: Array, n_jobs: int) -> NDArray[np.float64]:
    """exp(s - max s) of each row."""
    out, n_chunks = np.empty(ends.shape), min(CHUNKS, 1 + len(ends) // LEAST_CHUNK)
    cuts = np.linspace(0, len(ends), n_chunks + 1).astype(np.int64)

    def work(chunk: int) -> None:
        part = out[cuts[chunk] : cuts[chunk + 1]]
        _less_the_best(ends, cuts[chunk], cuts[chunk + 1], out)
        np.exp(part, out=part)

    run_chunks(work, n_chunks if out.size else 0, n_jobs)
    return out


@njit(nogil=True, cache=True)
def _less_the_best(ends, first, last, out):
    for row in range(first, last):
        top = -math.inf
        for y in range(ends.shape[1]):
            top = max(top, ends[row, y])
        for y in range(ends.shape[1]):
            out[row, y] = ends[row, y] - top


class Observed(NamedTuple):
    """labels int32 (n,), -1 unknown; weights (n,); clamp: children see a parent's known label, not its marginal."""

    labels: NDArray[np.int32]
    weights: Array
    clamp: bool


class Derivatives(NamedTuple):
    """Of the loss, by

    slope   (n, L)             marginals (zero before)
    ends    (S, L)             scores of ends
    gate    (C,)               logits of the mixing weights: α_c (∂loss/∂α_c - Σ α ∂loss/∂α)
    pair    (R + 1, L, L)      T, the last one that of start components
    outer   (R + 1, W, W)      the same by [child, parent], but for the factor E, common to all components
    rows    (G, L²)            label-pair weights
    """

    slope: Array
    ends: Array
    gate: Array
    pair: Array
    outer: Array
    rows: Array


class Scratch(NamedTuple):
    """Of one component: belief about its parent, c = E[g], derivative by s, Σ_i belief / Z c E, all (L,); and T and
    p(y | i) of one that has features of label pairs or scores beyond the fast way, (L, L)."""

    belief: Array
    expected: Array
    change: Array
    within: Array
    table: Array
    conditional: Array


@njit(nogil=True, cache=True)
def scratch_of(n_labels):
    rows, tables = np.empty((4, n_labels)), np.empty((2, n_labels, n_labels))
    return Scratch(rows[0], rows[1], rows[2], rows[3], tables[0], tables[1])


@njit(nogil=True, cache=True)
def _entries(rows, c):
    """Where the features of label pairs of a component begin and end."""
    return (rows.indptr[c], rows.indptr[c + 1]) if len(rows.indptr) > 1 else (0, 0)


@njit(nogil=True, cache=True, fastmath=FAST)
def local_scores(ends, child, parent, out):
    """Scores of both ends of a component, by their slots; returns the best."""
    top = -math.inf
    for y in range(len(out)):
        out[y] = ends[child, y]
        if parent >= 0:
            out[y] += ends[parent, y]
        top = max(top, out[y])
    return top


@njit(nogil=True, cache=True, fastmath=FAST)
def _predict_slowly(conditional, belief, out):
    for y in range(len(out)):
        out[y] = 0.0
    for i in range(len(out)):
        for y in range(len(out)):
            out[y] += belief[i] * conditional[i, y]


@njit(nogil=True, cache=True)
def conditional_of(c, wiring, model, local, scratch):
    """p_c(y | i), from the scores of both ends and T: that of the relation, and the weights of the component's own
    features of label pairs. Works for scores of any size."""
    table, rows, n_labels = scratch.table, wiring.pair_rows, len(local)
    local_scores(model.ends, wiring.child_slot[c], wiring.parent_slot[c], local)
    r = wiring.dag.relation[c]
    for i in range(n_labels):
        for y in range(n_labels):
            table[i, y] = model.pair[r, i, y]
    begin, end = _entries(rows, c)
    for p in range(begin, end):
        value = rows.values[p] if len(rows.values) else 1.0
        for i in range(n_labels):
            for y in range(n_labels):
                table[i, y] += value * model.rows[rows.indices[p], i * n_labels + y]
    for i in range(n_labels):
        for y in range(n_labels):
            table[i, y] += local[y]
        softmax(table[i], scratch.conditional[i])


# -- Who is worked on side by side ---------------------------------------------------------------------
#
# Instances of one level look at earlier levels alone, so their components can be taken in any order. Those of one
# relation share E, and go side by side in blocks of up to LANES: what the kernels do for one component, vectors do for
# all of a block. Runs of whole groups are swept together, so that levels are wide where groups are small.

LANES = 64
TOGETHER = 4  # vectors that are added up at once: the sum is read and written once for all
RUN = 1 << 14  # components swept together, where groups are smaller
ALONE = -2  # the "relation" of components with features of label pairs, which share no E


class Schedule(NamedTuple):
    """In what order a run of groups is swept: levels of blocks of components.

    component  int64 (C',)                         child   int64 (C',), the instance it belongs to
    start      int64 (blocks + 1,), of components   kind    int64 (blocks,), the relation of all, START or ALONE
    level      int64 (levels + 1,), of blocks
    member     int64 (n',), instances              members int64 (levels + 1,), of `member`
    """

    component: NDArray[np.int64]
    child: NDArray[np.int64]
    start: NDArray[np.int64]
    kind: NDArray[np.int64]
    level: NDArray[np.int64]
    member: NDArray[np.int64]
    members: NDArray[np.int64]


@njit(nogil=True, cache=True)
def _schedule(dag, pairs, counts, first_group, last_group, n_relations):
    """Of the groups that count; `pairs` is where features of label pairs begin, as in `Csr`. Components are sorted by
    level and kind, and stay in order within."""
    indptr, parent, relation, order, group_starts = dag.indptr, dag.parent, dag.relation, dag.order, dag.group_starts
    n_kinds, first, base = n_relations + 2, group_starts[first_group], indptr[group_starts[first_group]]
    last = group_starts[last_group]
    level, key = np.full(last - first, -1), np.empty(indptr[last] - base, np.int64)
    n_levels = 0
    for g in range(first_group, last_group):
        if not counts[g]:
            continue
        for place in range(group_starts[g], group_starts[g + 1]):
            k, own = order[place], 0
            for c in range(indptr[k], indptr[k + 1]):
                if parent[c] >= 0:
                    own = max(own, level[parent[c] - first] + 1)
            level[k - first] = own
            n_levels = max(n_levels, own + 1)
            for c in range(indptr[k], indptr[k + 1]):
                alone = len(pairs) > 1 and pairs[c + 1] > pairs[c]
                key[c - base] = own * n_kinds + (n_relations if alone else relation[c]) + 1
    at, members = np.zeros(n_levels * n_kinds + 1, np.int64), np.zeros(n_levels + 1, np.int64)
    for k in range(first, last):
        if level[k - first] >= 0:
            members[level[k - first] + 1] += 1
            for c in range(indptr[k], indptr[k + 1]):
                at[key[c - base] + 1] += 1
    n_blocks = 0
    for own in range(n_levels * n_kinds):
        n_blocks += -(-at[own + 1] // LANES)
        at[own + 1] += at[own]
    start, kind = np.empty(n_blocks + 1, np.int64), np.empty(n_blocks, np.int64)
    levels, block = np.zeros(n_levels + 1, np.int64), 0
    for own in range(n_levels):
        for one in range(n_kinds):
            for begin in range(at[own * n_kinds + one], at[own * n_kinds + one + 1], LANES):
                start[block], kind[block] = begin, one - 1 if one <= n_relations else ALONE
                block += 1
        levels[own + 1] = block
        members[own + 1] += members[own]
    start[n_blocks] = at[-1]
    component, child = np.empty(at[-1], np.int64), np.empty(at[-1], np.int64)
    member, ats = np.empty(members[-1], np.int64), members.copy()
    for k in range(first, last):
        own = level[k - first]
        if own >= 0:
            member[ats[own]] = k
            ats[own] += 1
            for c in range(indptr[k], indptr[k + 1]):
                to = at[key[c - base]]
                component[to], child[to] = c, k
                at[key[c - base]] = to + 1
    return Schedule(component, child, start, kind, levels, member, members)


class Chunk(NamedTuple):
    """Of a wiring: groups of about equal cost, in runs that are swept one after the other."""

    wiring: int
    runs: list[Schedule]


def chunks_of(
    wirings: Sequence[Wiring], n_relations: int, labels: NDArray[np.int32] | None = None, weights: Array | None = None
) -> list[Chunk]:
    """With labels and weights, groups without a label that counts are left out: they have no loss."""
    found = []
    for w, wiring in enumerate(wirings):
        dag = wiring.dag
        counts = np.ones(len(dag.group_starts) - 1, bool)
        if labels is not None and weights is not None and len(counts):
            counts = np.add.reduceat((labels >= 0) & (weights > 0), dag.group_starts[:-1], dtype=np.int64) > 0
        for first, last in wiring.chunks:
            cost = dag.indptr[dag.group_starts[first : last + 1]]
            cuts = first + even_bounds(cost, max(1, int((cost[-1] - cost[0]) // RUN)))
            runs = [pair for pair in pairwise(cuts.tolist()) if counts[slice(*pair)].any()]
            found.append(
                Chunk(w, [_schedule(dag, wiring.pair_rows.indptr, counts, *pair, n_relations) for pair in runs])
            )
    return found


# -- forward, and back -------------------------------------------------------------------------------


class Kept(NamedTuple):
    """What the forward sweep leaves for the way back: flat, vectors (W, m) over the m components of each block. Kernels
    take them whole with `at`, where the block begins: views would cost more than the work of a small block.

    predicted   π        local   e, then zeros       share   belief / Z, then zeros
    inverse     1 / Z, or -1 first: that component is done the slow way, and its belief counts as none
    """

    predicted: Array
    local: Array
    share: Array
    inverse: Array


@njit(nogil=True, cache=True)
def _kept(room):
    return Kept(room[0], room[1], room[2], room[3])


@njit(nogil=True, cache=True)
def _width(n_labels):
    return -(-n_labels // TOGETHER) * TOGETHER


# Places in flat vectors are unsigned: an index that might be negative, counted from the end, keeps loops from vectors.


@njit(nogil=True, cache=True, fastmath=FAST)
def _combine(table, values, at, m, n, out, to):
    """out[i] = Σ_y table[i, y] values[y] for i < n, vectors of m, which begin `at` in `values` and `to` in `out`."""
    m, row = np.uint64(m), np.uint64(to)
    for i in range(n):
        a = np.uint64(at)
        for y in range(0, table.shape[1], TOGETHER):
            p, q, r, s = table[i, y], table[i, y + 1], table[i, y + 2], table[i, y + 3]
            b = a + m
            c = b + m
            d = c + m
            if y:
                for k in range(m):
                    out[row + k] += p * values[a + k] + q * values[b + k] + r * values[c + k] + s * values[d + k]
            else:
                for k in range(m):
                    out[row + k] = p * values[a + k] + q * values[b + k] + r * values[c + k] + s * values[d + k]
            a = d + m
        row += m


@njit(nogil=True, cache=True)
def _gather(schedule, first, last, wiring, model, observed, marginals, kept, at):
    """e of the components of a block, and what they see of their parents, in the place of their shares."""
    n_labels, component, exp_ends, known = marginals.shape[1], schedule.component, model.exp_ends, observed.labels
    parents, children, looks, clamp = wiring.parent_slot, wiring.child_slot, wiring.dag.parent, observed.clamp
    local, belief, m = kept.local, kept.share, np.uint64(last - first)
    for k in range(np.uint64(at + n_labels * (last - first)), np.uint64(at + _width(n_labels) * (last - first))):
        local[k] = belief[k] = 0.0
    for lane in range(last - first):
        c, to = component[first + lane], np.uint64(at + lane)
        j, child, parent = looks[c], children[c], parents[c]
        if parent >= 0:
            for y in range(n_labels):
                local[to] = exp_ends[child, y] * exp_ends[parent, y]
                to += m
        else:
            for y in range(n_labels):
                local[to] = exp_ends[child, y]
                to += m
        to = np.uint64(at + lane)
        if j >= 0 and not (clamp and known[j] >= 0):
            for y in range(n_labels):
                belief[to] = marginals[j, y]
                to += m
        else:
            label = 0 if j < 0 else known[j]  # all rows of E are the same for a start component
            for y in range(n_labels):
                belief[to] = 1.0 if y == label else 0.0
                to += m


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")  # 1 / 0 is for `_is_sound` to see
def _predict(exp_pair, turned, n_labels, m, kept, at):
    """π[y] = e[y] Σ_i belief[i] / Z[i] · E[i, y] of the components of a block; False if some Z is too small."""
    predicted, local, share, inverse = kept
    _combine(exp_pair, local, at, m, n_labels, inverse, at)
    base, size, least = np.uint64(at), np.uint64(n_labels * m), math.inf
    for k in range(size):
        least = min(least, inverse[base + k])
    for k in range(size):
        inverse[base + k] = 1.0 / inverse[base + k]
        share[base + k] *= inverse[base + k]
    _combine(turned, share, at, m, n_labels, predicted, at)
    for k in range(size):
        predicted[base + k] *= local[base + k]
    return least > TINY


@njit(nogil=True, cache=True)
def _predict_alone(c, wiring, model, observed, marginals, kept, at, m, scratch):
    """The same of one component, by the table of its conditionals; it is the one `at` in its block of m."""
    _see_parent(wiring.dag.parent[c], observed, marginals, scratch.belief)
    conditional_of(c, wiring, model, scratch.change, scratch)
    _predict_slowly(scratch.conditional, scratch.belief, scratch.expected)
    for y in range(marginals.shape[1]):
        kept.predicted[at + y * m] = scratch.expected[y]
        kept.share[at + y * m] = kept.inverse[at + y * m] = 0.0
    kept.inverse[at] = -1.0


@njit(nogil=True, cache=True)
def _see_parent(j, observed, marginals, belief):
    """What children see of a parent: its marginal, or the label it is known to have."""
    known = j < 0 or (observed.clamp and observed.labels[j] >= 0)
    label = 0 if j < 0 else observed.labels[j]
    for y in range(len(belief)):
        belief[y] = (1.0 if y == label else 0.0) if known else marginals[j, y]


@njit(nogil=True, cache=True)
def _forward(schedule, wiring, model, alpha, observed, marginals, predicted, kept, keeps, scratch):
    """Marginals of the instances of a schedule, and where `predicted` has room what each component predicts."""
    component, children, start, member, pi = schedule[0], schedule[1], schedule[2], schedule.member, kept.predicted
    n_labels, width = marginals.shape[1], model.exp_pair.shape[1]
    for level in range(len(schedule.level) - 1):
        for p in range(schedule.members[level], schedule.members[level + 1]):
            for y in range(n_labels):
                marginals[member[p], y] = 0.0
        for b in range(schedule.level[level], schedule.level[level + 1]):
            first, last, kind = start[b], start[b + 1], schedule.kind[b]
            m, at = last - first, first * width if keeps else 0
            sound = False
            if kind != ALONE:
                _gather(schedule, first, last, wiring, model, observed, marginals, kept, at)
                sound = _predict(model.exp_pair[kind], model.turned[kind], n_labels, m, kept, at)
            for lane in range(m):
                c, k, of = component[first + lane], children[first + lane], np.uint64(at + lane)
                if not sound and (kind == ALONE or not _is_sound(kept.inverse, at + lane, m, n_labels)):
                    _predict_alone(c, wiring, model, observed, marginals, kept, at + lane, m, scratch)
                weight = alpha[c]
                for y in range(n_labels):
                    marginals[k, y] += weight * pi[of]
                    of += np.uint64(m)
                if len(predicted):
                    for y in range(n_labels):
                        predicted[c, y] = pi[at + y * m + lane]


@njit(nogil=True, cache=True)
def _is_sound(inverse, at, m, n_labels):
    for i in range(n_labels):
        if not inverse[at + i * m] < 1 / TINY:
            return False
    return True


class Back(NamedTuple):
    """Of a block on the way back, (W, m) flat, zeros below the labels: g, e g, c = E[g], belief / Z c,
    Σ_i belief / Z c E, the derivative by s; and the mixing weights (m,)."""

    slope: Array
    weighted: Array
    expected: Array
    part: Array
    within: Array
    change: Array
    alpha: Array


@njit(nogil=True, cache=True, fastmath=FAST)
def _back(exp_pair, turned, n_labels, m, kept, at, back, outer):
    """c and the derivative by s of the components of a block; adds to `outer`, which lacks the factor E."""
    predicted, local, share, inverse = kept
    slope, weighted, expected, part, within, change, alpha = back
    base, size, lanes = np.uint64(at), np.uint64(n_labels * m), np.uint64(m)
    for k in range(size):
        weighted[k] = local[base + k] * slope[k]
    for k in range(size, np.uint64(len(exp_pair) * m)):
        weighted[k] = part[k] = 0.0
    _combine(exp_pair, weighted, 0, m, n_labels, expected, 0)
    for k in range(size):
        expected[k] *= inverse[base + k]
        part[k] = expected[k] * share[base + k]
    _combine(turned, part, 0, m, n_labels, within, 0)
    row = np.uint64(0)
    for _ in range(n_labels):
        own = base + row
        for k in range(lanes):
            change[row + k] = alpha[k] * (slope[row + k] * predicted[own + k] - local[own + k] * within[row + k])
            share[own + k] *= alpha[k]
            part[row + k] *= alpha[k]
        row += lanes
    row = np.uint64(0)
    for i in range(n_labels):
        own, a = base + row, np.uint64(0)
        for y in range(0, len(exp_pair), TOGETHER):  # Σ α belief / Z · e (g - c)
            p = q = r = s = 0.0
            b = a + lanes
            c = b + lanes
            d = c + lanes
            e, f, g, h = base + a, base + b, base + c, base + d
            for k in range(lanes):
                p += share[own + k] * weighted[a + k] - part[row + k] * local[e + k]
                q += share[own + k] * weighted[b + k] - part[row + k] * local[f + k]
                r += share[own + k] * weighted[c + k] - part[row + k] * local[g + k]
                s += share[own + k] * weighted[d + k] - part[row + k] * local[h + k]
            outer[i, y] += p
            outer[i, y + 1] += q
            outer[i, y + 2] += r
            outer[i, y + 3] += s
            a = d + lanes
        row += lanes


@njit(nogil=True, cache=True)
def _back_slowly(c, wiring, alpha, slope, scratch, out):
    """The same from the table of conditionals; adds to the derivatives by T and by features of label pairs."""
    rows, conditional, n_labels = wiring.pair_rows, scratch.conditional, len(slope)
    expected, change, pair = scratch.expected, scratch.change, out.pair[wiring.dag.relation[c]]
    begin, end = _entries(rows, c)
    change[:] = 0.0
    for i in range(n_labels):
        expected[i] = 0.0
        for y in range(n_labels):
            expected[i] += conditional[i, y] * slope[y]
        for y in range(n_labels):
            step = alpha * scratch.belief[i] * conditional[i, y] * (slope[y] - expected[i])
            change[y] += step
            pair[i, y] += step
            for p in range(begin, end):
                out.rows[rows.indices[p], i * n_labels + y] += step * (rows.values[p] if len(rows.values) else 1.0)


@njit(nogil=True, cache=True)
def _backward(schedule, wiring, model, alpha, observed, marginals, kept, scratch, out):
    """The loss of the instances of a schedule; its derivatives are added to `out`."""
    looks, child_slot, parent_slot, labels = wiring.dag.parent, wiring.child_slot, wiring.parent_slot, observed.labels
    component, children, start, member, pi = schedule[0], schedule[1], schedule[2], schedule.member, kept.predicted
    n_labels, width, slopes, ends, clamp = (
        marginals.shape[1],
        model.exp_pair.shape[1],
        out.slope,
        out.ends,
        observed.clamp,
    )
    base, loss = member.min(), 0.0  # of a run, which is whole groups
    mean, room = np.zeros(member.max() + 1 - base), np.empty((7, width * LANES))
    back = Back(room[0], room[1], room[2], room[3], room[4], room[5], room[6])
    slope, expected, change = back.slope, back.expected, back.change
    for level in range(len(schedule.level) - 2, -1, -1):
        for p in range(schedule.members[level], schedule.members[level + 1]):
            k = member[p]
            if labels[k] >= 0 and observed.weights[k] > 0:  # weight · -log p, and its derivative by p
                own = max(marginals[k, labels[k]], LEAST)
                loss -= observed.weights[k] * math.log(own)
                slopes[k, labels[k]] -= observed.weights[k] / own
            for y in range(n_labels):
                mean[k - base] += marginals[k, y] * slopes[k, y]  # Σ_c α_c ∂loss/∂α_c
        for b in range(schedule.level[level], schedule.level[level + 1]):
            first, last, kind = start[b], start[b + 1], schedule.kind[b]
            at, m = first * width, np.uint64(last - first)
            for lane in range(last - first):
                c, k, to, of = component[first + lane], children[first + lane], np.uint64(lane), np.uint64(at + lane)
                by_alpha = 0.0
                for y in range(n_labels):
                    slope[to] = slopes[k, y]
                    by_alpha += pi[of] * slopes[k, y]
                    to += m
                    of += m
                back.alpha[lane] = alpha[c]
                out.gate[c] = alpha[c] * (by_alpha - mean[k - base])
            if kind != ALONE:
                _back(model.exp_pair[kind], model.turned[kind], n_labels, last - first, kept, at, back, out.outer[kind])
            for lane in range(last - first):
                c, k = component[first + lane], children[first + lane]
                j, child, parent, weight = looks[c], child_slot[c], parent_slot[c], alpha[c]
                if kept.inverse[at + lane] < 0:
                    _see_parent(j, observed, marginals, scratch.belief)
                    conditional_of(c, wiring, model, scratch.change, scratch)
                    _back_slowly(c, wiring, weight, slopes[k], scratch, out)
                    for y in range(n_labels):
                        to = y * (last - first) + lane
                        expected[to], change[to] = scratch.expected[y], scratch.change[y]
                if j >= 0 and not (clamp and labels[j] >= 0):
                    of = np.uint64(lane)
                    for i in range(n_labels):
                        slopes[j, i] += weight * expected[of]
                        of += m
                of = np.uint64(lane)
                for y in range(n_labels):
                    ends[child, y] += change[of]
                    of += m
                if parent >= 0:
                    of = np.uint64(lane)
                    for y in range(n_labels):
                        ends[parent, y] += change[of]
                        of += m
    return loss


# -- a whole data set, on threads ---------------------------------------------------------------------


class Beliefs(NamedTuple):
    """marginals (n, L), and predicted (C, L): the distribution each component gives its instance."""

    marginals: Array
    predicted: Array


class MixtureResiduals(NamedTuple):
    """Loss, and its derivatives by the scores and by the logits of the mixing weights (C,)."""

    loss: float
    scores: Scores
    gate: Array


def uniform_weights(dag: Dag) -> Array:
    """(C,), 1 / (number of components of the instance)."""
    counts = np.diff(dag.indptr)
    return np.repeat(1.0 / np.maximum(counts, 1), counts)


def gated_weights(dag: Dag, logits: Array) -> Array:
    """(C,), the softmax of the logits among the components of each instance."""
    if not dag.n_components:
        return np.empty(0)
    counts, firsts = np.diff(dag.indptr), dag.indptr[:-1]  # every instance has a component
    weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, firsts), counts))
    return np.asarray(weights / np.repeat(np.add.reduceat(weights, firsts), counts))


def check_weights(dag: Dag, weights: Array) -> Array:
    """Mixing weights from outside: one a component, none negative, those of an instance sum to 1."""
    weights = np.asarray(weights, np.float64)
    if weights.shape != (dag.n_components,):
        raise InputError(f"expected {dag.n_components} mixing weights, one a component; got shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise InputError(
            f"mixing weights must be finite and not negative; that of instance {dag.child[wrong[0]]} for parent "
            f"{dag.parent[wrong[0]]} is {weights[wrong[0]]:g}"
        )
    sums = np.add.reduceat(weights, dag.indptr[:-1]) if len(weights) else weights
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-6)
    if len(wrong):
        raise InputError(
            f"the mixing weights of an instance must sum to 1; those of instance {wrong[0]} sum to "
            f"{sums[wrong[0]]:.6g}. Divide them by their sum."
        )
    return weights


@njit(nogil=True, cache=True)
def _forward_run(schedule, wiring, model, alpha, observed, marginals, predicted):
    n_labels = marginals.shape[1]
    kept = _kept(np.empty((4, LANES * _width(n_labels))))
    _forward(schedule, wiring, model, alpha, observed, marginals, predicted, kept, False, scratch_of(n_labels))


@njit(nogil=True, cache=True)
def _both_ways(schedule, wiring, model, alpha, observed, marginals, out, room):
    kept, scratch, nothing = _kept(room), scratch_of(marginals.shape[1]), np.empty((0, marginals.shape[1]))
    _forward(schedule, wiring, model, alpha, observed, marginals, nothing, kept, True, scratch)
    return _backward(schedule, wiring, model, alpha, observed, marginals, kept, scratch, out)


def beliefs(
    wirings: Sequence[Wiring],
    scores: Scores,
    alphas: Sequence[Array],
    labels: NDArray[np.int32] | None = None,
    n_jobs: int = 1,
    predictions: bool = True,
) -> list[Beliefs]:
    """Exact marginals for each wiring (each order of the same instances), orders and groups in parallel.

    With `labels` (-1 unknown), whoever looks at a labelled instance sees its label. Without `predictions` those of
    components are left out (0, L).
    """
    model, n_labels = Model.of(scores, n_jobs), len(scores.start)
    shapes = [(wiring.dag.n_instances, wiring.dag.n_components * predictions) for wiring in wirings]
    found = [Beliefs(*(np.empty((size, n_labels)) for size in shape)) for shape in shapes]
    chunks = chunks_of(wirings, len(scores.pair))

    def run(task: int) -> None:
        w, runs = chunks[task]
        known = np.full(shapes[w][0], -1, np.int32) if labels is None else labels
        observed = Observed(read_only(known), np.empty(0), labels is not None)
        for one in runs:
            _forward_run(one, wirings[w], model, alphas[w], observed, *found[w])

    run_chunks(run, len(chunks), n_jobs)
    return found


class Sweeps:
    """Losses of the same wirings (each an order of the same instances) and labels, for one set of scores after another.

    clamp   False: marginal log-likelihood L_M; True: conditional log-likelihood L_C

    What the sweeps write to is taken once: fresh memory costs nearly as much as they do. So derivatives stay as they
    are until the next scores.
    """

    def __init__(
        self, wirings: Sequence[Wiring], n_relations: int, labels: NDArray[np.int32], weights: Array, clamp: bool
    ) -> None:
        self.wirings, self.observed = wirings, Observed(read_only(labels), weights, clamp)
        self.chunks = chunks_of(wirings, n_relations, labels, weights)
        self.outs: list[Derivatives] = []
        self.marginals: list[Array] = []
        self.rooms: list[Array] = []  # those that no thread is in

    def _prepare(self, scores: Scores, model: Model) -> None:
        shape, sums = (len(self.observed.labels), len(scores.start)), [model.pair, model.exp_pair, scores.rows]
        if not self.marginals:
            self.marginals = [np.empty(shape) for _ in self.wirings]
            self.outs = [
                Derivatives(
                    np.empty(shape), np.empty_like(scores.ends), np.empty(wiring.dag.n_components),
                    *(np.empty(table.shape) for table in sums),
                )
                for wiring in self.wirings
            ]  # fmt: skip
        for out in self.outs:
            for table in out:
                table[:] = 0

    def _room(self, n_labels: int) -> Array:
        try:
            return self.rooms.pop()
        except IndexError:
            most = max(len(one.component) for chunk in self.chunks for one in chunk.runs)
            return np.empty((4, max(1, most) * _width(n_labels)))

    def __call__(self, scores: Scores, alphas: Sequence[Array], n_jobs: int = 1) -> list[MixtureResiduals]:
        """For each wiring the loss and its derivatives."""
        model, n_labels = Model.of(scores, n_jobs), len(scores.start)
        self._prepare(scores, model)

        def run(task: int) -> tuple[float, Derivatives]:
            w, runs = self.chunks[task]
            shared = self.outs[w]
            own = Derivatives(*shared[:3], *map(np.zeros_like, shared[3:]))  # groups have rows of their own in these
            if not runs:
                return 0.0, own
            room, inside = self._room(n_labels), (self.wirings[w], model, alphas[w], self.observed, self.marginals[w])
            loss = sum(_both_ways(one, *inside, own, room) for one in runs)
            self.rooms.append(room)
            return float(loss), own

        losses = [0.0] * len(self.wirings)
        done = run_chunks(run, len(self.chunks), n_jobs)
        for (w, _), (loss, own) in zip(self.chunks, done, strict=True):
            losses[w] += loss
            for total, part in zip(self.outs[w][3:], own[3:], strict=True):
                total += part
        found = []
        for loss, out in zip(losses, self.outs, strict=True):
            pair = out.pair + (out.outer * model.exp_pair)[:, :n_labels, :n_labels]
            found.append(MixtureResiduals(loss, Scores(out.ends, pair[:-1], pair[-1].sum(axis=0), out.rows), out.gate))
        return found


def residuals(
    wirings: Sequence[Wiring],
    scores: Scores,
    alphas: Sequence[Array],
    labels: NDArray[np.int32],
    weights: Array,
    clamp: bool,
    n_jobs: int = 1,
) -> list[MixtureResiduals]:
    """What `Sweeps` tell of one set of scores."""
    return Sweeps(wirings, len(scores.pair), labels, weights, clamp)(scores, alphas, n_jobs)
