"""How probable whole spans of labels are under a mixture of parents.

P(span) = E Π_t φ_t(Y_t), with φ_t the indicator of the label of t, and for the instance behind the span that of the
labels that do not carry it on. The latest instance k of such a product follows one parent, so it can be taken out:

    E φ_k(Y_k) Π_t φ_t(Y_t) = Σ_c α_c E ψ_c(Y_j) Π_t φ_t(Y_t),      ψ_c(i) = Σ_y p_c(y | i) φ_k(y)

where j, the parent of c, may be among the t. So the set of instances never grows, it shrinks where two follow the
same one, and E φ(Y_j) of a single instance is φ · m_j. Branches that reach the same set are added up in one table of
its labels (L^m for m instances), the latest first; an instance that shares no ancestor with the others of its set is
taken out by its marginal. All of this is exact. A span that would need more than WORK multiplications is given up:
its instances outside count as independent of each other, an approximation that is marked as such,

    P(span) ≈ Π_v Σ_c α_c ( p_c(l_v | l_j) if the parent j of c is in the span, else π_c(l_v) )

A product over many instances leaves the range of float64: tables are scaled up on the way, and logarithms are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import log_sum, njit, softmax
from kinfolk.core.threads import run_chunks
from kinfolk.inference.mixture import Beliefs, Model, Scores, Wiring, conditional_of, local_scores, scratch_of

Array = NDArray[Any]

WORK = 10_000_000  # multiplications a span
GROUP_WORK = 1_000_000_000  # and for all spans of a group, shared evenly: a group of a million instances ends, too
KEPT = 1 << 24  # numbers in the conditionals of a group that are kept; of a larger one they are worked out anew
SMALL = 1e-100  # tables whose largest number is below are scaled up
ROOM = 1 << 20  # numbers in the tables of a span
MOST_SETS, MOST_LIVE = 8192, 12
LARGE = 4096  # instances of a group beyond which nobody asks who shares an ancestor
# Of this type, as kernels are compiled once more for each plain number that they are given.
NOT_FIXED: Any = np.int64(-1)
NOBODY: Any = np.int64(-1)
USED, ALIVE, NUMBERS, DONE, GIVEN_UP = range(5)  # of `Sets.tally`


class LabelledSpan(NamedTuple):
    """Instances first, ..., first + len(labels) - 1 with these labels; `follower`: whether one more comes behind."""

    first: int
    labels: NDArray[np.integer]
    follower: bool


class SpanProbabilities(NamedTuple):
    """values (m,), whether each of them is exact (m,), and their logarithms (m,), finite where a value is too small for
    float64."""

    values: NDArray[np.float64]
    exact: NDArray[np.bool_]
    logs: NDArray[np.float64]


class Spans(NamedTuple):
    """All spans: labels of span s are labels[starts[s]:starts[s + 1]]; closing (m, L): which labels may follow."""

    first: NDArray[np.int64]
    starts: NDArray[np.int64]
    labels: NDArray[np.int64]
    follower: NDArray[np.bool_]
    closing: NDArray[np.bool_]


class Mixed(NamedTuple):
    """A mixture with what is known of it: rank (n,) of instances, marginals (n, L), labels (n,) that are certain."""

    wiring: Wiring
    model: Model
    alpha: Array
    rank: NDArray[np.int64]
    marginals: Array
    known: NDArray[np.int32]


class Ancestry(NamedTuple):
    """Of one group: its first instance; bits (size, words) of the ancestors of each and itself; conditionals of its
    components and whether they are there yet; room for a single one where they are too many to be kept."""

    first: int
    bits: NDArray[np.uint64]
    conditionals: Array
    there: NDArray[np.bool_]


class Sets(NamedTuple):
    """Sets of instances with a table over their labels.

    members   (MOST_SETS, MOST_LIVE) ranks, the latest first        size    (MOST_SETS,)
    table     (MOST_SETS,), where in `room` its L^size numbers are  after   (MOST_SETS,), the next set with this latest
    head      by the rank of the latest + 1, or 0 without any: the first set, -1: none
    product   as much room for one product of a table
    tally     sets in use, those with something left to take out, numbers in use, multiplications done, 1: given up
    """

    members: NDArray[np.int64]
    size: NDArray[np.int64]
    table: NDArray[np.int64]
    after: NDArray[np.int64]
    head: NDArray[np.int64]
    room: Array
    product: Array
    tally: NDArray[np.int64]


def mixture_span_probabilities(
    wiring: Wiring, scores: Scores, alpha: Array, found: Beliefs, spans: Sequence[LabelledSpan], continues: Array,
    known: NDArray[np.int32] | None = None, work: int = WORK, n_jobs: int = 1,
) -> SpanProbabilities:  # fmt: skip
    """The probability of each span. `continues` (L, L): True where label y behind label i carries a span on.

    known   labels that are certain, -1 for the others
    work    multiplications after which a span is approximated, less where a group has many spans
    """
    dag = wiring.dag
    labels = np.full(dag.n_instances, -1, np.int32) if known is None else known
    mixed = Mixed(wiring, Model.of(scores), alpha, dag.rank, found.marginals, labels)
    firsts = np.array([span.first for span in spans], np.int64)
    by_place, group = np.argsort(firsts, kind="stable"), np.searchsorted(dag.group_starts, firsts, side="right")
    limit = np.minimum(work, GROUP_WORK // np.maximum(1, np.bincount(group)))[group]
    values, logs, exact = np.empty(len(spans)), np.empty(len(spans)), np.ones(len(spans), bool)
    cuts = np.linspace(0, len(spans), min(len(spans), n_jobs) + 1).astype(int)

    def run(part: int) -> None:
        own = by_place[cuts[part] : cuts[part + 1]]
        here = _spans([spans[i] for i in own], continues)
        shares, scale = _exactly(mixed, here, limit[own])
        exact[own] = ~np.isnan(shares)
        _as_if_independent(mixed, found.predicted, here, shares, scale)
        with np.errstate(divide="ignore"):
            logs[own] = np.log(shares) + scale
        values[own] = np.where(scale == 0, shares, np.exp(logs[own]))

    run_chunks(run, len(cuts) - 1, n_jobs)
    return SpanProbabilities(values, exact, logs)


def _spans(spans: Sequence[LabelledSpan], continues: Array) -> Spans:
    labels = np.concatenate([np.empty(0, np.int64), *(span.labels for span in spans)]).astype(np.int64)
    starts = np.cumsum([0, *(len(span.labels) for span in spans)]).astype(np.int64)
    first = np.array([span.first for span in spans], np.int64)
    follower = np.array([span.follower for span in spans], bool)
    return Spans(first, starts, labels, follower, ~continues[labels[starts[1:] - 1]])


@njit(nogil=True, cache=True)
def _exactly(mixed, spans, limit):
    """(m,) and (m,): the probability of a span is value · exp(scale); nan where it would need more work than its
    limit. Spans stand in order of their first instance."""
    dag, n_labels = mixed.wiring.dag, mixed.marginals.shape[1]
    values, scale, sets = np.empty(len(spans.first)), np.empty(len(spans.first)), _no_sets(len(mixed.rank))
    fixed = np.full(len(mixed.rank), NOT_FIXED)  # by instance: the label it has in the span
    group, ancestry, scratch = -1, _ancestry(mixed, np.int64(0), np.int64(0)), scratch_of(n_labels)
    for s in range(len(values)):
        first, labels = spans.first[s], spans.labels[spans.starts[s] : spans.starts[s + 1]]
        own = np.searchsorted(dag.group_starts, first, side="right") - 1
        if own != group:
            group, ancestry = own, _ancestry(mixed, dag.group_starts[own], dag.group_starts[own + 1])
        for v in range(len(labels)):
            fixed[first + v] = labels[v]
        values[s], scale[s] = _one_span(mixed, ancestry, spans, s, fixed, sets, scratch, limit[s])
        fixed[first : first + len(labels)] = NOT_FIXED
    return values, scale


@njit(nogil=True, cache=True)
def _no_sets(n_instances):
    members = np.empty((MOST_SETS, MOST_LIVE), np.int64)
    numbers = np.empty((3, MOST_SETS), np.int64)
    head = np.full(n_instances + 1, -1)
    return Sets(
        members, numbers[0], numbers[1], numbers[2], head, np.empty(ROOM), np.empty(ROOM), np.zeros(5, np.int64)
    )


@njit(nogil=True, cache=True)
def _ancestry(mixed, first, last):
    """Of the instances of a group. A known label depends on nobody."""
    dag, n_labels = mixed.wiring.dag, mixed.marginals.shape[1]
    size = last - first
    if size > LARGE:  # ancestors are not looked up
        size = 0
    n_components = dag.indptr[last] - dag.indptr[first]
    bits = np.zeros((size, (size + 63) // 64), np.uint64)
    for place in range(first, first + size):
        k = dag.order[place]
        if mixed.known[k] >= 0:
            continue
        bits[k - first, (k - first) // 64] |= np.uint64(1) << np.uint64((k - first) % 64)
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            if dag.parent[c] >= 0:
                for word in range(bits.shape[1]):
                    bits[k - first, word] |= bits[dag.parent[c] - first, word]
    kept = n_components if n_components * n_labels**2 <= KEPT else 1
    there = np.zeros(kept, np.bool_)
    return Ancestry(first, bits, np.empty((kept, n_labels, n_labels)), there)


@njit(nogil=True, cache=True, inline="always")
def _one_span(mixed, ancestry, spans, s, fixed, sets, scratch, work):
    """The probability of one span is value · exp(scale); nan if it would need too much work."""
    order, first, size = mixed.wiring.dag.order, spans.first[s], spans.starts[s + 1] - spans.starts[s]
    n_labels, last = mixed.marginals.shape[1], first + size + spans.follower[s]
    top, left, scale = 0, 0, 0.0  # the latest rank; how many instances of the span are still to be taken out
    for k in range(first, last):
        known = mixed.known[k]
        if known >= 0 and (fixed[k] != known if k < first + size else not spans.closing[s, known]):
            return 0.0, 0.0
        left += k < first + size and known < 0
        top = max(top, mixed.rank[k])
    _begin(mixed, sets, first + size, spans.follower[s], spans.closing[s])
    for place in range(top, -1, -1):
        k = order[place]
        if fixed[k] >= 0 and mixed.known[k] < 0:
            _take_fixed(mixed, ancestry, sets, k, fixed, scratch)
            scale += _scaled_up(sets, n_labels)
            left -= 1
        else:
            _take(mixed, ancestry, sets, place, left == 0, fixed, scratch)
        sets.tally[DONE] += 1
        if sets.tally[GIVEN_UP] or sets.tally[DONE] > work:
            _clear(sets)
            return math.nan, 0.0
        if left == 0 and sets.tally[ALIVE] == (sets.head[0] >= 0):
            break
    value = sets.room[sets.table[sets.head[0]]] if sets.head[0] >= 0 else 0.0
    _clear(sets)
    return value, scale


@njit(nogil=True, cache=True)
def _scaled_up(sets, n_labels):
    """Scales the tables of all sets by one factor, should they be small; the logarithm of what was taken out."""
    top = 0.0
    for number in range(sets.tally[USED]):
        if sets.size[number] >= 0:
            for r in range(sets.table[number], sets.table[number] + n_labels ** sets.size[number]):
                top = max(top, sets.room[r])
    if not 0.0 < top < SMALL:
        return 0.0
    for number in range(sets.tally[USED]):
        if sets.size[number] >= 0:
            for r in range(sets.table[number], sets.table[number] + n_labels ** sets.size[number]):
                sets.room[r] /= top
    return math.log(top)


@njit(nogil=True, cache=True)
def _begin(mixed, sets, behind, follower, closing):
    """The one set before anything is taken out: the follower, with the labels that it may have, or nobody."""
    soft = follower and mixed.known[behind] < 0
    number = _set_of(sets, sets.members[0], np.int64(0), mixed.rank[behind] if soft else NOBODY, len(closing))
    at = sets.table[number]
    sets.room[at] = 1.0
    if soft:
        for y in range(len(closing)):
            sets.room[at + y] = 1.0 if closing[y] else 0.0


@njit(nogil=True, cache=True)
def _set_of(sets, members, size, extra, n_labels):
    """The number of the set of these members and one more (-1: none), with a table of zeros if it is new; -1 if there
    is no room for it."""
    tally = sets.tally
    number, total = tally[USED], size + (extra >= 0)
    if number == MOST_SETS or total > MOST_LIVE or tally[NUMBERS] + n_labels**total > ROOM:
        tally[GIVEN_UP] = 1
        return -1
    own = sets.members[number]  # behind the last set: a place to try
    at = 0
    for m in range(size):
        if extra > members[m] and at == m:
            own[at] = extra
            at += 1
        own[at] = members[m]
        at += 1
    if at < total:
        own[at] = extra
    latest = own[0] + 1 if total else 0
    known = sets.head[latest]
    while known >= 0:
        same = sets.size[known] == total
        for m in range(total):
            same = same and sets.members[known, m] == own[m]
        if same:
            return known
        known = sets.after[known]
    sets.size[number], sets.table[number], sets.after[number] = total, tally[NUMBERS], sets.head[latest]
    sets.head[latest] = number
    sets.room[tally[NUMBERS] : tally[NUMBERS] + n_labels**total] = 0.0
    tally[USED], tally[ALIVE], tally[NUMBERS] = number + 1, tally[ALIVE] + 1, tally[NUMBERS] + n_labels**total
    return number


@njit(nogil=True, cache=True)
def _clear(sets):
    for number in range(sets.tally[USED]):
        if sets.size[number] >= 0:
            sets.head[sets.members[number, 0] + 1 if sets.size[number] else 0] = -1
    sets.tally[:] = 0


@njit(nogil=True, cache=True, inline="always")
def _take_fixed(mixed, ancestry, sets, k, fixed, scratch):
    """Take an instance of the span, with its label, out of every set."""
    dag, before = mixed.wiring.dag, sets.tally[USED]
    for number in range(before):
        if sets.size[number] >= 0:
            sets.head[sets.members[number, 0] + 1 if sets.size[number] else 0] = -1
    for number in range(before):
        if sets.size[number] >= 0:
            for c in range(dag.indptr[k], dag.indptr[k + 1]):
                _follow(mixed, ancestry, sets, number, c, fixed, fixed[k], scratch)
            _remove(sets, number)


@njit(nogil=True, cache=True, inline="always")
def _take(mixed, ancestry, sets, place, alone, fixed, scratch):
    """Take the instance at a place of the order out of the sets whose latest it is. `alone`: nothing but the members of
    a set is left, so that one who shares no ancestor with the others is independent of all."""
    dag, k = mixed.wiring.dag, mixed.wiring.dag.order[place]
    number = sets.head[place + 1]
    sets.head[place + 1] = -1
    while number >= 0:
        if alone and _is_independent(dag, ancestry, sets, number):
            _by_marginal(sets, number, mixed.marginals[k])
        else:
            for c in range(dag.indptr[k], dag.indptr[k + 1]):
                _follow(mixed, ancestry, sets, number, c, fixed, NOT_FIXED, scratch)
        _remove(sets, number)
        number = sets.after[number]


@njit(nogil=True, cache=True)
def _remove(sets, number):
    sets.size[number] = -1
    sets.tally[ALIVE] -= 1


@njit(nogil=True, cache=True)
def _is_independent(dag, ancestry, sets, number):
    """Whether the latest of a set shares no ancestor with the others."""
    if sets.size[number] > 1 and not len(ancestry.bits):
        return False
    own = dag.order[sets.members[number, 0]] - ancestry.first
    for m in range(1, sets.size[number]):
        other = dag.order[sets.members[number, m]] - ancestry.first
        for word in range(ancestry.bits.shape[1]):
            if ancestry.bits[own, word] & ancestry.bits[other, word]:
                return False
    return True


@njit(nogil=True, cache=True)
def _by_marginal(sets, number, marginal):
    """Sum the latest of a set out by its marginal."""
    n_labels, size = len(marginal), sets.size[number]
    target = _set_of(sets, sets.members[number, 1:], size - 1, NOBODY, n_labels)
    if target < 0:
        return
    n, source, at = n_labels ** (size - 1), sets.table[number], sets.table[target]
    sets.tally[DONE] += n * n_labels
    for y in range(n_labels):
        for r in range(n):
            sets.room[at + r] += marginal[y] * sets.room[source + y * n + r]


@njit(nogil=True, cache=True)
def _follow(mixed, ancestry, sets, number, c, fixed, label, scratch):
    """One branch of taking an instance out of a set: it follows component c. `label`: that of an instance of the span,
    which is no member of the set; else it is the latest member."""
    dag, n_labels, soft = mixed.wiring.dag, mixed.marginals.shape[1], label < 0
    if mixed.alpha[c] == 0:
        return
    j, rest = dag.parent[c], sets.size[number] - soft
    members = sets.members[number, 1:] if soft else sets.members[number]
    seen, live = NOT_FIXED, NOBODY  # the label its parent is known to have; the rank of one whose label is open
    if j < 0:
        seen = 0  # a start component has one row
    elif mixed.known[j] >= 0:
        seen = mixed.known[j]
    elif fixed[j] >= 0:
        seen = fixed[j]
    else:
        live = mixed.rank[j]
    axis = -1
    for m in range(rest):
        if members[m] == live:
            axis = m
    target = _set_of(sets, members, rest, NOBODY if axis >= 0 else live, n_labels)
    n = n_labels**rest
    sets.tally[DONE] += n * n_labels * (n_labels if soft else 1)
    if target < 0 or n * n_labels > len(sets.product):
        sets.tally[GIVEN_UP] = 1
        return
    table = _known_conditional(mixed, ancestry, c, scratch)
    _push_labels(sets, number, target, table, mixed.alpha[c], label, seen, axis, members, rest, live)


@njit(nogil=True, cache=True)
def _push_labels(sets, number, target, conditional, alpha, label, seen, axis, members, rest, live):
    """Add α Σ_y p(y | i) table[y, r] to the table of the target, at r with i beside it, or where r has label i already:
    r are labels of the others, i is that of the parent."""
    room, n_labels = sets.room, len(conditional)
    n, source, at = n_labels**rest, sets.table[number], sets.table[target]
    place = 0  # the axis of the parent in the target's table
    while place < rest and ((axis < 0 and members[place] > live) or place < axis):
        place += 1
    inner = n_labels ** (rest - place - (axis >= 0))  # how far apart its labels are there
    for i in range(n_labels):
        if seen >= 0 and i != seen:
            continue
        product = sets.product[:n]
        if label >= 0:
            for r in range(n):
                product[r] = alpha * conditional[i, label] * room[source + r]
        else:
            product[:] = 0.0
            for y in range(n_labels):
                share = alpha * conditional[i, y]
                for r in range(n):
                    product[r] += share * room[source + y * n + r]
        for r in range(n):
            if seen >= 0:
                room[at + r] += product[r]
            elif axis >= 0:
                if r // inner % n_labels == i:
                    room[at + r] += product[r]
            else:
                room[at + r // inner * inner * n_labels + i * inner + r % inner] += product[r]


@njit(nogil=True, cache=True)
def _known_conditional(mixed, ancestry, c, scratch):
    """(L, L), p_c(y | i), worked out once where there is room; a start component has one row."""
    kept = len(ancestry.there) > 1
    at = c - mixed.wiring.dag.indptr[ancestry.first] if kept else 0
    table = ancestry.conditionals[at]
    if not ancestry.there[at]:
        ancestry.there[at] = kept
        if mixed.wiring.dag.parent[c] < 0:
            local_scores(mixed.model.ends, mixed.wiring.child_slot[c], -1, scratch.change)
            for y in range(len(table)):
                scratch.change[y] += mixed.model.start[y]
            softmax(scratch.change, table[0])
        else:
            conditional_of(c, mixed.wiring, mixed.model, scratch.change, scratch)
            for i in range(len(table)):
                for y in range(len(table)):
                    table[i, y] = scratch.conditional[i, y]
    return table


@njit(nogil=True, cache=True)
def _as_if_independent(mixed, predicted, spans, shares, scale):
    """Fills in the spans that were given up (nan): a share of 1 and the logarithm of the probability as its scale."""
    scratch = scratch_of(mixed.marginals.shape[1])
    for s in range(len(shares)):
        if math.isnan(shares[s]):
            log_p = _log_if_independent(mixed, predicted, spans, s, scratch)
            shares[s], scale[s] = (1.0, log_p) if log_p > -math.inf else (0.0, 0.0)


@njit(nogil=True, cache=True)
def _log_if_independent(mixed, predicted, spans, s, scratch):
    """log of the formula above, summed over the labels that may follow the span; a single one where nothing does."""
    dag, labels = mixed.wiring.dag, spans.labels[spans.starts[s] : spans.starts[s + 1]]
    first, size, follower = spans.first[s], len(labels), spans.follower[s]
    total = np.zeros(mixed.marginals.shape[1] if follower else 1)
    factor = np.empty(len(total))
    if follower:
        for y in range(len(total)):
            total[y] = 0.0 if spans.closing[s, y] else -math.inf
    for k in range(first, first + size + follower):
        behind = k == first + size
        if mixed.known[k] >= 0:
            for y in range(len(total)):
                if (y if behind else labels[k - first]) != mixed.known[k]:
                    total[y] = -math.inf
            continue
        factor[:] = 0.0
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            inside = dag.parent[c] - first
            within = dag.parent[c] >= 0 and 0 <= inside < size + follower
            if within:
                conditional_of(c, mixed.wiring, mixed.model, scratch.change, scratch)
            for y in range(len(total)):
                own = y if behind else labels[k - first]
                if within:
                    factor[y] += mixed.alpha[c] * scratch.conditional[y if inside == size else labels[inside], own]
                else:
                    factor[y] += mixed.alpha[c] * predicted[c, own]
        for y in range(len(total)):
            total[y] += math.log(factor[y]) if factor[y] > 0 else -math.inf
    return log_sum(total)
