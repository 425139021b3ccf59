"""Loopy belief propagation, group by group: messages along the edges of a pairwise model.

    m_{a→b}(y) ∝ Σ_x exp( node_a[x] + ψ_ab[x, y] ) Π_{c ≠ b} m_{c→a}(x)        (max instead of Σ for max-product)

Messages are kept as logarithms, their best entry 0. With B_a = node_a + Σ_c log m_{c→a} the cavity of b is
B_a - log m_{b→a}: one sum a node, not one an edge; with E = exp(ψ) a message costs L exponentials and L² products.

Schedules:
    sequential   nodes in order, each tells its later neighbours; then in reverse, each tells its earlier ones. On a
                 chain one round is forward-backward. A node speaks again only after it has heard something new, so what
                 has settled costs nothing.
    synchronous  all messages at once, from those of the round before
"""

from __future__ import annotations

import math

import numpy as np

from kinfolk.core.kernels import njit

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
