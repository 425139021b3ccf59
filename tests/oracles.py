"""Brute-force answers to the questions the library answers cleverly.

Everything here lists the labellings of one short sequence and adds up, picks or sorts their scores. No
dynamic programming, no shared code with the library: a disagreement is a bug in one of the two.

Throughout, for T >= 0 tokens and L >= 1 labels:

* ``node`` (T, L), ``start`` (L,), ``end`` (L,) are log scores;
* ``pair`` is (L, L), shared by all tokens, or (T, L, L), where ``pair[t, i, j]`` scores label i at t - 1
  followed by label j at t; ``pair[0]`` is never read;
* an entry of ``-inf`` forbids; no entry may be nan or +inf (``pair[0]`` aside);
* ``allowed`` (T, L) bool, when given, keeps only the labellings with ``allowed[t, y_t]`` for every t.

Where labellings tie, the first in lexicographic order comes first: compare scores, not labellings, unless
ties are ruled out. A question without an answer (the marginals or the best of no possible labelling) raises
ValueError.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Labelling = tuple[int, ...]


class ChainSequence(TypedDict):
    """One training sequence: features of tokens, labels (-1 is unknown), weight, features of label pairs."""

    X: FloatArray  # (T, F)
    labels: IntArray  # (T,)
    weight: float
    Z: FloatArray | None  # (T, G), row 0 is never read


# ---------------------------------------------------------------------------------------------- small tools


def log_sum_exp(values: FloatArray) -> float:
    """log sum_i exp(values_i); -inf for no values or only impossible ones."""
    top = float(values.max(initial=-np.inf))
    if top == -np.inf:
        return -np.inf
    return top + float(np.log(np.exp(values - top).sum()))


def enumerate_labellings(T: int, L: int, allowed: BoolArray | None = None) -> IntArray:
    """All labellings of T tokens with L labels that ``allowed`` permits: (N, T), in lexicographic order.

    T = 0 has one labelling, the empty one: shape (1, 0).
    """
    if allowed is None:
        allowed = np.ones((T, L), dtype=bool)
    if allowed.shape != (T, L):
        raise ValueError(f"allowed has shape {allowed.shape}, expected {(T, L)}")
    choices = [[label for label in range(L) if allowed[t, label]] for t in range(T)]
    labellings = list(itertools.product(*choices))
    return np.array(labellings, dtype=np.int64).reshape(len(labellings), T)


def pair_at(pair: FloatArray, t: int) -> FloatArray:
    """The (L, L) scores of the labels at t - 1 and t, from shared or per-token ``pair``."""
    return pair if pair.ndim == 2 else pair[t]


def known_labels_mask(labels: IntArray, L: int) -> BoolArray:
    """The (T, L) mask of the labellings consistent with ``labels``: one True where known, all True at -1."""
    mask = np.ones((len(labels), L), dtype=bool)
    for t, label in enumerate(labels):
        if not -1 <= label < L:
            raise ValueError(f"label {label} at {t} is neither -1 nor below {L}")
        if label >= 0:
            mask[t] = False
            mask[t, label] = True
    return mask


def _check_shapes(node: FloatArray, pair: FloatArray, *edges: FloatArray) -> tuple[int, int]:
    """(T, L), after refusing arrays whose shapes would only fit by broadcasting."""
    T, L = node.shape
    if pair.shape not in ((L, L), (T, L, L)):
        raise ValueError(f"pair has shape {pair.shape} for {T} tokens and {L} labels")
    for edge in edges:
        if edge.shape != (L,):
            raise ValueError(f"start or end has shape {edge.shape} for {L} labels")
    return T, L


def _as_labelling(row: Iterable[int]) -> Labelling:
    return tuple(int(label) for label in row)


def _ranked(labellings: IntArray, scores: FloatArray, k: int) -> list[tuple[Labelling, float]]:
    """The k possible labellings of greatest score, by falling score."""
    order = np.argsort(-scores, kind="stable")
    possible = [n for n in order if scores[n] > -np.inf]
    return [(_as_labelling(labellings[n]), float(scores[n])) for n in possible[:k]]


def _first(ranked: list[tuple[Labelling, float]]) -> tuple[Labelling, float]:
    if not ranked:
        raise ValueError("no possible labelling")
    return ranked[0]


def _node_sums(labellings: IntArray, mass: FloatArray, L: int) -> FloatArray:
    """(T, L): entry [t, j] is the mass of the labellings with y_t = j."""
    T = labellings.shape[1]
    sums = np.zeros((T, L))
    for t in range(T):
        for j in range(L):
            sums[t, j] = mass[labellings[:, t] == j].sum()
    return sums


def _pair_sums(labellings: IntArray, mass: FloatArray, L: int) -> FloatArray:
    """(T, L, L): entry [t, i, j] is the mass of the labellings with y_{t-1} = i, y_t = j; zero at t = 0."""
    T = labellings.shape[1]
    sums = np.zeros((T, L, L))
    for t in range(1, T):
        for i in range(L):
            for j in range(L):
                sums[t, i, j] = mass[(labellings[:, t - 1] == i) & (labellings[:, t] == j)].sum()
    return sums


# ------------------------------------------------------------------- the globally normalised chain (CRF)


def chain_score(
    node: FloatArray, pair: FloatArray, start: FloatArray, end: FloatArray, labelling: Sequence[int]
) -> float:
    """start[y_0] + sum_t node[t, y_t] + sum_{t>=1} pair[t, y_{t-1}, y_t] + end[y_{T-1}]; 0 when T = 0."""
    T, _ = _check_shapes(node, pair, start, end)
    if len(labelling) != T:
        raise ValueError(f"{len(labelling)} labels for {T} tokens")
    if T == 0:
        return 0.0
    score = float(start[labelling[0]])
    for t in range(T):
        score += float(node[t, labelling[t]])
    for t in range(1, T):
        score += float(pair_at(pair, t)[labelling[t - 1], labelling[t]])
    return score + float(end[labelling[T - 1]])


def chain_scores(
    node: FloatArray, pair: FloatArray, start: FloatArray, end: FloatArray, labellings: IntArray
) -> FloatArray:
    """``chain_score`` of each row of ``labellings`` (N, T)."""
    T, _ = _check_shapes(node, pair, start, end)
    scores = np.zeros(len(labellings))
    if T == 0:
        return scores
    scores += start[labellings[:, 0]]
    for t in range(T):
        scores += node[t, labellings[:, t]]
    for t in range(1, T):
        scores += pair_at(pair, t)[labellings[:, t - 1], labellings[:, t]]
    return scores + end[labellings[:, T - 1]]


def _chain_table(
    node: FloatArray,
    pair: FloatArray,
    start: FloatArray,
    end: FloatArray,
    allowed: BoolArray | None,
) -> tuple[IntArray, FloatArray]:
    """All allowed labellings and their scores."""
    T, L = node.shape
    labellings = enumerate_labellings(T, L, allowed)
    return labellings, chain_scores(node, pair, start, end, labellings)


def _probabilities(scores: FloatArray) -> FloatArray:
    """exp(score_n) / sum_m exp(score_m)."""
    total = log_sum_exp(scores)
    if total == -np.inf:
        raise ValueError("no possible labelling")
    return np.exp(scores - total)


def chain_log_partition(
    node: FloatArray,
    pair: FloatArray,
    start: FloatArray,
    end: FloatArray,
    allowed: BoolArray | None = None,
) -> float:
    """log sum_y exp(score(y)) over the allowed labellings; -inf when none is possible."""
    _, scores = _chain_table(node, pair, start, end, allowed)
    return log_sum_exp(scores)


def chain_node_marginals(
    node: FloatArray,
    pair: FloatArray,
    start: FloatArray,
    end: FloatArray,
    allowed: BoolArray | None = None,
) -> FloatArray:
    """(T, L): P(y_t = j), where P(y) is proportional to exp(score(y)) over the allowed labellings."""
    labellings, scores = _chain_table(node, pair, start, end, allowed)
    return _node_sums(labellings, _probabilities(scores), node.shape[1])


def chain_pair_marginals(
    node: FloatArray,
    pair: FloatArray,
    start: FloatArray,
    end: FloatArray,
    allowed: BoolArray | None = None,
) -> FloatArray:
    """(T, L, L): P(y_{t-1} = i, y_t = j), zero at t = 0."""
    labellings, scores = _chain_table(node, pair, start, end, allowed)
    return _pair_sums(labellings, _probabilities(scores), node.shape[1])


def chain_best(
    node: FloatArray,
    pair: FloatArray,
    start: FloatArray,
    end: FloatArray,
    allowed: BoolArray | None = None,
) -> tuple[Labelling, float]:
    """argmax_y score(y) over the allowed labellings, and its score."""
    return _first(chain_k_best(node, pair, start, end, 1, allowed))


def chain_k_best(
    node: FloatArray,
    pair: FloatArray,
    start: FloatArray,
    end: FloatArray,
    k: int,
    allowed: BoolArray | None = None,
) -> list[tuple[Labelling, float]]:
    """The k allowed labellings of greatest score, by falling score; fewer when fewer have score > -inf."""
    labellings, scores = _chain_table(node, pair, start, end, allowed)
    return _ranked(labellings, scores, k)


def chain_span_probability(
    node: FloatArray,
    pair: FloatArray,
    start: FloatArray,
    end: FloatArray,
    span_start: int,
    labels: Sequence[int],
    forbidden_next: Collection[int],
    allowed: BoolArray | None = None,
) -> float:
    """P(y_s .. y_{s+m-1} = labels and (s + m = T or y_{s+m} not in forbidden_next)), s = span_start."""
    T = node.shape[0]
    span_end = span_start + len(labels)
    if not 0 <= span_start <= span_end <= T:
        raise ValueError(f"span [{span_start}, {span_end}) does not lie within {T} tokens")
    labellings, scores = _chain_table(node, pair, start, end, allowed)
    probability = 0.0
    for row, mass in zip(labellings, _probabilities(scores), strict=True):
        y = _as_labelling(row)
        matches = y[span_start:span_end] == tuple(labels)
        closes = span_end == T or y[span_end] not in forbidden_next
        if matches and closes:
            probability += float(mass)
    return probability


def chain_max_expected_correct(
    node_marginals: FloatArray,
    pair_allowed: BoolArray,
    start_allowed: BoolArray,
    end_allowed: BoolArray,
) -> tuple[Labelling, float]:
    """The valid labelling with the greatest sum_t node_marginals[t, y_t], and that sum.

    Valid: start_allowed[y_0], end_allowed[y_{T-1}] and pair_allowed[y_{t-1}, y_t] for every t >= 1.
    """
    T, L = node_marginals.shape
    best: tuple[Labelling, float] | None = None
    for row in enumerate_labellings(T, L):
        y = _as_labelling(row)
        edges_valid = T == 0 or bool(start_allowed[y[0]] and end_allowed[y[-1]])
        if not edges_valid or not all(pair_allowed[i, j] for i, j in itertools.pairwise(y)):
            continue
        total = float(sum(node_marginals[t, y[t]] for t in range(T)))
        if best is None or total > best[1]:
            best = (y, total)
    if best is None:
        raise ValueError("no valid labelling")
    return best


# --------------------------------------------------------------------------------------- the CRF objective


def linear_potentials(
    sequence: ChainSequence, W: FloatArray, T: FloatArray, U: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """node[t, j] = sum_f X[t, f] W[f, j]; pair[t, i, j] = T[i, j] + sum_g Z[t, g] U[g, i, j].

    ``pair`` stays (L, L) when the sequence has no Z or the model no U.
    """
    node = sequence["X"] @ W
    Z = sequence["Z"]
    if U is None or Z is None:
        return node, T
    pair = np.zeros((len(node), *T.shape))
    for t in range(len(node)):
        pair[t] = T
        for g in range(len(U)):
            pair[t] += Z[t, g] * U[g]
    return node, pair


def crf_loss(
    sequences: Iterable[ChainSequence],
    W: FloatArray,
    T: FloatArray,
    start: FloatArray,
    end: FloatArray,
    U: FloatArray | None = None,
) -> float:
    """sum_s weight_s * (log partition over all labellings - log partition over the consistent ones).

    Consistent: equal to the labels of s wherever they are known (not -1). +inf when known labels are
    impossible; a sequence of weight 0 adds nothing.
    """
    loss = 0.0
    for sequence in sequences:
        if sequence["weight"] == 0:
            continue
        node, pair = linear_potentials(sequence, W, T, U)
        free = chain_log_partition(node, pair, start, end)
        if free == -np.inf:
            raise ValueError("no possible labelling")
        mask = known_labels_mask(sequence["labels"], W.shape[1])
        loss += sequence["weight"] * (free - chain_log_partition(node, pair, start, end, mask))
    return loss


# -------------------------------------------------------------------- the locally normalised chain (MEMM)


def memm_log_probabilities(node: FloatArray, pair: FloatArray, start: FloatArray, labellings: IntArray) -> FloatArray:
    """log P(y) of each row of ``labellings`` (N, T), where P(y) = P(y_0) prod_{t>=1} P(y_t | y_{t-1}).

    P(y_0 = j) = exp(node[0, j] + start[j]) / sum_j' exp(node[0, j'] + start[j']);
    P(y_t = j | y_{t-1} = i) = exp(node[t, j] + pair[t, i, j]) / sum_j' exp(node[t, j'] + pair[t, i, j']).

    The sums run over all L labels. ValueError when a label that can be reached has no possible successor:
    the second formula is then 0 / 0.
    """
    T, L = _check_shapes(node, pair, start)
    log_probabilities = np.zeros(len(labellings))
    for t in range(T):
        for i in range(L) if t > 0 else [None]:
            scores = node[t] + (start if i is None else pair_at(pair, t)[i])
            follows = np.full(len(labellings), True) if i is None else labellings[:, t - 1] == i
            reached = follows & (log_probabilities > -np.inf)
            if not reached.any():
                continue
            total = log_sum_exp(scores)
            if total == -np.inf:
                raise ValueError(f"no possible label at {t} after label {i}")
            log_probabilities[reached] += scores[labellings[reached, t]] - total
    return log_probabilities


def memm_joint(node: FloatArray, pair: FloatArray, start: FloatArray) -> dict[Labelling, float]:
    """P(y) of every labelling; the probabilities sum to 1."""
    labellings = enumerate_labellings(*node.shape)
    probabilities = np.exp(memm_log_probabilities(node, pair, start, labellings))
    return {_as_labelling(row): float(p) for row, p in zip(labellings, probabilities, strict=True)}


def _memm_table(
    node: FloatArray, pair: FloatArray, start: FloatArray, allowed: BoolArray | None
) -> tuple[IntArray, FloatArray]:
    """The allowed labellings and their log P(y), normalised as if every label were allowed."""
    T, L = node.shape
    labellings = enumerate_labellings(T, L, allowed)
    return labellings, memm_log_probabilities(node, pair, start, labellings)


def memm_log_total(node: FloatArray, pair: FloatArray, start: FloatArray, allowed: BoolArray | None = None) -> float:
    """log sum P(y) over the allowed labellings; 0 when all are allowed."""
    _, log_probabilities = _memm_table(node, pair, start, allowed)
    return log_sum_exp(log_probabilities)


def memm_marginals(
    node: FloatArray, pair: FloatArray, start: FloatArray, allowed: BoolArray | None = None
) -> FloatArray:
    """(T, L): P(y_t = j | y is allowed)."""
    labellings, log_probabilities = _memm_table(node, pair, start, allowed)
    return _node_sums(labellings, _probabilities(log_probabilities), node.shape[1])


def memm_best(
    node: FloatArray, pair: FloatArray, start: FloatArray, allowed: BoolArray | None = None
) -> tuple[Labelling, float]:
    """argmax_y P(y) over the allowed labellings, and its log P(y)."""
    return _first(memm_k_best(node, pair, start, 1, allowed))


def memm_k_best(
    node: FloatArray, pair: FloatArray, start: FloatArray, k: int, allowed: BoolArray | None = None
) -> list[tuple[Labelling, float]]:
    """The k allowed labellings of greatest P(y), with log P(y), by falling log P(y); fewer if fewer exist."""
    labellings, log_probabilities = _memm_table(node, pair, start, allowed)
    return _ranked(labellings, log_probabilities, k)


def memm_loss(
    sequences: Iterable[ChainSequence],
    W: FloatArray,
    T: FloatArray,
    start: FloatArray,
    U: FloatArray | None = None,
) -> float:
    """-sum_s weight_s * log (sum of P(y) over the labellings consistent with the known labels of s).

    +inf when known labels are impossible; a sequence of weight 0 adds nothing.
    """
    loss = 0.0
    for sequence in sequences:
        if sequence["weight"] == 0:
            continue
        node, pair = linear_potentials(sequence, W, T, U)
        mask = known_labels_mask(sequence["labels"], W.shape[1])
        loss -= sequence["weight"] * memm_log_total(node, pair, start, mask)
    return loss


# ------------------------------------------------------------------------------ maximum entropy, penalties


def maxent_loss(X: FloatArray, labels: IntArray, W: FloatArray, weights: FloatArray | None = None) -> float:
    """-sum_n weights_n * log (exp(X_n W[:, y_n]) / sum_j exp(X_n W[:, j])); rows with y_n = -1 add nothing.

    Weights default to 1.
    """
    if weights is None:
        weights = np.ones(len(labels))
    loss = 0.0
    for x, label, weight in zip(X, labels, weights, strict=True):
        if label >= 0:
            scores = x @ W
            loss -= float(weight) * (float(scores[label]) - log_sum_exp(scores))
    return loss


def ridge(w: FloatArray, l2: float) -> float:
    """l2 / 2 * sum_i w_i^2."""
    return l2 / 2 * float((w**2).sum())


def lasso(w: FloatArray, l1: float) -> float:
    """l1 * sum_i |w_i|."""
    return l1 * float(np.abs(w).sum())


# ------------------------------------------------------------------------------------------------ gradients


def finite_difference_gradient(f: Callable[[FloatArray], float], x: FloatArray, step: float = 1e-5) -> FloatArray:
    """df/dx_i ~ (f(x - 2h e_i) - 8 f(x - h e_i) + 8 f(x + h e_i) - f(x + 2h e_i)) / 12h, for flat x.

    The error is about h^4 from the formula plus 1e-16 |f| / h from rounding.
    """
    gradient = np.zeros(len(x))
    for i in range(len(x)):
        h = np.zeros(len(x))
        h[i] = step
        gradient[i] = (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * step)
    return gradient


def flatten(*arrays: FloatArray) -> FloatArray:
    """All entries of the arrays, one array after another, as one vector."""
    return np.concatenate([array.ravel() for array in arrays])


def unflatten(x: FloatArray, *shapes: tuple[int, ...]) -> list[FloatArray]:
    """The inverse of ``flatten``: arrays of these shapes, read off x in order."""
    arrays: list[FloatArray] = []
    used = 0
    for shape in shapes:
        size = int(np.prod(shape))
        arrays.append(x[used : used + size].reshape(shape))
        used += size
    if used != len(x):
        raise ValueError(f"shapes hold {used} entries, the vector {len(x)}")
    return arrays
