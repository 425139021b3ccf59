"""Brute force for stacked graphical learning and for Gibbs sampling in dependency networks (Kou and Cohen 2007).

Plain loops over small dense arrays, written from the paper; no code shared with the library.

* A relation is a dense (n, n) array: i looks at j where [i, j] != 0, the entry is the weight of the link, > 0. An
  entry on the diagonal is taken at its word: i looks at itself.
* Votes are (n, L): probabilities, or one-hot labels; a row of zeros is an instance nobody knows anything about.
* A distribution over labellings is (L ** n,), the labellings in lexicographic order, the last node fastest.


Theorem 1, and what is true of it
---------------------------------

The theorem says that in the limit of infinite data the parameters of level i make Q^i the argmin of KL(Q || pi) over
the distributions that share the levels before. The proof takes the likelihood of y given y' for the likelihood of y,
and the two directions of KL for each other. Write Q' for Q^{i-1}(y' | x). Level i >= 1 maximises

    J(theta) = E_x sum_{y, y'} pi(y | x) Q'(y' | x) log P(y | x, y'; theta)

where y and y' are independent given x, as y' is drawn from x alone. Hence, exactly and for every theta:

(a) -J(theta) - H(Y | X) = E_x KL( pi(y | x) Q'(y' | x)  ||  Q'(y' | x) P(y | x, y'; theta) )
                         = E_x E_{y' ~ Q'} KL( pi(. | x) || P(. | x, y'; theta) ),
    the joint divergence. The greedy step minimises this, the KL of the law of the pair (y, y'), from pi to the model.
(b) joint divergence = E_x KL(pi || Q^i) + E_x E_{y ~ pi} KL( Q'(y' | x) || Q'(y' | x) P(y | x, y') / Q^i(y | x) ).
    The second term, the gap, is >= 0 and is 0 only if y tells nothing of y': the joint divergence is an upper bound
    of KL(pi || Q^i), loose by as much as the model uses y'.
(c) P factorises over nodes, so the joint divergence = KL(pi || product of its marginals) + the sum over nodes of
    E KL(pi_i || P_i(. | x, y')). The step sees nothing of pi but its marginals by node. Nothing in it rewards a
    dependence between labels; the best conceivable P_i(. | x, y') is pi_i(. | x), which ignores y'. The votes y' help
    only where the class cannot say pi_i(. | x) by itself: they carry the x of other nodes to node i.
(d) At level 0 there is no y', and the joint divergence is KL(pi || Q^0) itself.
(e) If the class has a parameter that ignores y' and equals level 0's choice without it, then for every i
    KL(pi || Q^i) <= joint divergence <= KL(pi || Q^0): no level is worse than level 0.
    No such thing holds between levels i and i + 1.

``check_greedy`` asserts all five. The literal theorem fails in three ways (``literal_failures`` lists them):

* KL(Q^0 || pi) at level 0: maximum likelihood minimises KL(pi || Q). See ``direction_counterexample``.
* KL(pi || Q^i) of the marginal, the theorem with its direction put right: ``marginal_counterexample`` has pi itself
  in the class of level 1, after a correct level 0, and the greedy step prefers another.
* KL(Q^i || pi) at level i >= 1: the same world, as the minimum is 0 in both directions and only at pi.

Both worlds meet the assumption pi in P_M^K. With K = 0 that assumption makes the theorem true: both minima are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from oracles import FloatArray, IntArray, enumerate_labellings

Predict = Callable[[FloatArray], FloatArray]  # rows (m, F) -> probabilities (m, L)
Learn = Callable[[FloatArray, IntArray], Predict]  # rows (m, F), labels (m,), all known
Aggregate = Callable[[FloatArray], FloatArray]  # votes (n, L) -> features (n, q)
Conditional = Callable[[int, IntArray], FloatArray]  # node i, labels (n,) -> (L,); it should not read labels[i]

# ----------------------------------------------------------------------------------------------- aggregations


def neighbours(relation: FloatArray, i: int) -> list[int]:
    """The instances that i looks at, by number."""
    return [j for j in range(len(relation)) if relation[i, j] != 0]


def count(relation: FloatArray, votes: FloatArray) -> FloatArray:
    """(n, L): the sum over neighbours of weight * vote."""
    result = np.zeros((len(relation), votes.shape[1]))
    for i in range(len(relation)):
        for j in neighbours(relation, i):
            for label in range(votes.shape[1]):
                result[i, label] += relation[i, j] * votes[j, label]
    return result


def exists(relation: FloatArray, votes: FloatArray) -> FloatArray:
    """(n, L): the probability that a neighbour has the label, were they independent. Weights do not matter.

    With one-hot votes: 1 if a neighbour has the label, else 0.
    """
    result = np.zeros((len(relation), votes.shape[1]))
    for i in range(len(relation)):
        for label in range(votes.shape[1]):
            nobody = 1.0
            for j in neighbours(relation, i):
                nobody *= 1.0 - votes[j, label]
            result[i, label] = 1.0 - nobody
    return result


def proportion(relation: FloatArray, votes: FloatArray) -> FloatArray:
    """(n, L): count divided by its row sum; zeros where that is 0. Unknown neighbours (rows of zeros) do not matter."""
    result = count(relation, votes)
    for i in range(len(relation)):
        total = sum(result[i])
        if total > 0:
            result[i] /= total
    return result


def mean(relation: FloatArray, values: FloatArray) -> FloatArray:
    """(n, L): the mean of the neighbours' votes, or features, by weight; zeros without neighbours.

    Unknown neighbours (rows of zeros) count in the denominator: there it differs from ``proportion``.
    """
    result = np.zeros((len(relation), values.shape[1]))
    for i in range(len(relation)):
        total = 0.0
        for j in neighbours(relation, i):
            result[i] += relation[i, j] * values[j]
            total += relation[i, j]
        if total > 0:
            result[i] /= total
    return result


def maximum(relation: FloatArray, votes: FloatArray) -> FloatArray:
    """(n, L): the largest vote of a neighbour, whatever its weight; zeros without neighbours."""
    result = np.zeros((len(relation), votes.shape[1]))
    for i in range(len(relation)):
        for label in range(votes.shape[1]):
            result[i, label] = max((votes[j, label] for j in neighbours(relation, i)), default=0.0)
    return result


def concat(relation: FloatArray, votes: FloatArray, slots: int) -> FloatArray:
    """(n, slots * L): slot s has the votes of the s-th neighbour by number, zeros if there is none.

    Neighbours beyond the last slot are left out; weights do not matter.
    """
    L = votes.shape[1]
    result = np.zeros((len(relation), slots * L))
    for i in range(len(relation)):
        for s, j in enumerate(neighbours(relation, i)[:slots]):
            result[i, s * L : (s + 1) * L] = votes[j]
    return result


def compose(first: FloatArray, second: FloatArray) -> FloatArray:
    """Neighbours of neighbours: i looks at k by way of every j, with weight sum_j first[i, j] * second[j, k].

    Never at itself: the diagonal is 0.
    """
    n = len(first)
    result = np.zeros((n, n))
    for i in range(n):
        for j in neighbours(first, i):
            for k in neighbours(second, j):
                if k != i:
                    result[i, k] += first[i, j] * second[j, k]
    return result


def window(votes: FloatArray, sentences: Sequence[int], k: int) -> FloatArray:
    """(n, 2 k L): the votes at offsets -k, .., -1, 1, .., k in the same sentence, zeros beyond its ends.

    The tokens of a sentence are the instances with its number in ``sentences``, in the order of the instances.
    """
    n, L = votes.shape
    offsets = [*range(-k, 0), *range(1, k + 1)]
    result = np.zeros((n, len(offsets) * L))
    for i in range(n):
        tokens = [j for j in range(n) if sentences[j] == sentences[i]]
        t = tokens.index(i)
        for s, offset in enumerate(offsets):
            if 0 <= t + offset < len(tokens):
                result[i, s * L : (s + 1) * L] = votes[tokens[t + offset]]
    return result


def same_word(votes: FloatArray, words: Sequence[str], documents: Sequence[int]) -> FloatArray:
    """(n, L): the sum of the votes of the other tokens with the same word in the same document."""
    n = len(votes)
    result = np.zeros(votes.shape)
    for i in range(n):
        for j in range(n):
            if j != i and words[j] == words[i] and documents[j] == documents[i]:
                result[i] += votes[j]
    return result


# --------------------------------------------------------------------------------------------------- stacking


@dataclass
class StackedLevel:
    """Level k as learnt on a training graph of n instances."""

    rows: FloatArray  # x^k: (n, F) at level 0, (n, F + q) above
    predict: Predict  # f^k, learnt from all labelled rows
    full: FloatArray  # (n, L): f^k(x^k), labelled instances too
    crossfit: FloatArray | None  # (n, L): by fold for the labelled, ``full`` for the others; None without folds
    votes: FloatArray | None  # (n, L): what the neighbours see at level k + 1; None if they cannot be told


def as_votes(table: FloatArray, kind: str) -> FloatArray:
    """Probabilities (n, L) as they are ("proba"), or one-hot at the most probable label, the first of equals."""
    if kind == "proba":
        return table.copy()
    if kind != "label":
        raise ValueError(f'votes are "proba" or "label", not {kind!r}')
    result = np.zeros(table.shape)
    for i, row in enumerate(table):
        best = 0
        for label in range(1, len(row)):
            if row[label] > row[best]:
                best = label
        result[i, best] = 1.0
    return result


def cross_fitted(
    learn: Learn, rows: FloatArray, labels: IntArray, folds: Sequence[int], full: FloatArray
) -> FloatArray:
    """Figure 2: (n, L), a labelled instance predicted by the model of the labelled rows outside its fold.

    Unlabelled instances, whose fold is never read, keep their row of ``full``.
    """
    labelled = [i for i in range(len(labels)) if labels[i] >= 0]
    result = full.copy()
    for fold in sorted({folds[i] for i in labelled}):
        inside = [i for i in labelled if folds[i] == fold]
        outside = [i for i in labelled if folds[i] != fold]
        if not outside:
            raise ValueError("one fold has all labelled instances: nothing to learn from")
        result[inside] = learn(rows[outside], labels[outside])(rows[inside])
    return result


def _votes_of(table: FloatArray, kind: str, labels: IntArray, known: str) -> FloatArray:
    """The table as votes, with the true labels in place of the labelled rows if ``known`` says "true"."""
    result = as_votes(table, kind)
    if known == "true":
        for i, label in enumerate(labels):
            if label >= 0:
                result[i] = 0.0
                result[i, label] = 1.0
    return result


def learn_stacked(
    learn: Learn,
    features: FloatArray,
    labels: IntArray,
    aggregate: Aggregate,
    folds: Sequence[Sequence[int]],
    depth: int,
    votes: str = "proba",
    known: str = "crossfit",
) -> list[StackedLevel]:
    """Figure 1: the levels 0 .. depth, in one graph whose labels (n,) may be -1, unknown.

    Level k is learnt from the labelled rows of x^k = (x, aggregate(votes of level k - 1)). ``folds[k]`` (n,) splits
    level k for its cross-fitted predictions: needed below ``depth`` if ``known`` is "crossfit", welcome at ``depth``.

    ``known`` says what a labelled instance votes: "crossfit", its cross-fitted prediction, or "true", its label. An
    unlabelled one votes the prediction of the level's full model. ``votes`` ("proba", "label") see ``as_votes``; a
    true label is one-hot either way.
    """
    if known not in ("crossfit", "true"):
        raise ValueError(f'known is "crossfit" or "true", not {known!r}')
    labelled = [i for i in range(len(labels)) if labels[i] >= 0]
    levels: list[StackedLevel] = []
    for k in range(depth + 1):
        rows = features
        if k > 0:
            seen = levels[k - 1].votes
            if seen is None:
                raise ValueError(f"level {k} needs the folds of level {k - 1}")
            rows = np.hstack([features, aggregate(seen)])
        predict = learn(rows[labelled], labels[labelled])
        full = predict(rows)
        crossfit = cross_fitted(learn, rows, labels, folds[k], full) if k < len(folds) else None
        spoken = None
        if known == "true":
            spoken = _votes_of(full, votes, labels, "true")
        elif crossfit is not None:
            spoken = _votes_of(crossfit, votes, labels, "crossfit")
        levels.append(StackedLevel(rows, predict, full, crossfit, spoken))
    return levels


def predict_stacked(
    models: Sequence[Predict],
    features: FloatArray,
    aggregate: Aggregate,
    votes: str = "proba",
    labels: IntArray | None = None,
    crossfit: Sequence[FloatArray] | None = None,
) -> list[FloatArray]:
    """Figure 1's inference: the tables (n, L) of f^0 .. f^K on a graph, ``aggregate`` being that graph's.

    ``labels`` (n,), -1 unknown, are known at prediction: those instances vote their label, or, given ``crossfit``,
    their row of ``crossfit[k]`` at level k (the training graph again, its levels' cross-fitted tables). They get
    predictions all the same.
    """
    if labels is None:
        labels = np.full(len(features), -1)
    tables = [models[0](features)]
    for k in range(1, len(models)):
        spoken = tables[k - 1].copy()
        if crossfit is not None:
            for i, label in enumerate(labels):
                if label >= 0:
                    spoken[i] = crossfit[k - 1][i]
        seen = _votes_of(spoken, votes, labels, "true" if crossfit is None else "crossfit")
        tables.append(models[k](np.hstack([features, aggregate(seen)])))
    return tables


# ------------------------------------------------------------------------------------------------------ Gibbs
#
# A known label is a conditional that puts all its probability there, whatever the other labels are.


def sweep_matrix(conditional: Conditional, n: int, L: int, order: Sequence[int] | None = None) -> FloatArray:
    """(L ** n, L ** n): [a, b] is the probability that one sweep leads from labelling a to labelling b.

    The nodes are drawn one after the other, 0 .. n - 1 or in the given order, each given the newest labels.
    """
    labellings = enumerate_labellings(n, L)
    result = np.zeros((len(labellings), len(labellings)))
    for a, old in enumerate(labellings):
        for b, new in enumerate(labellings):
            probability = 1.0
            current = old.copy()
            for i in range(n) if order is None else order:
                probability *= conditional(i, current.copy())[new[i]]
                current[i] = new[i]
            if (current == new).all():  # else a node that the order leaves out would have changed
                result[a, b] = probability
    return result


def synchronous_matrix(conditional: Conditional, n: int, L: int) -> FloatArray:
    """The same for a step of Definition 1 as it stands: every node is drawn given the labels of the step before."""
    labellings = enumerate_labellings(n, L)
    result = np.ones((len(labellings), len(labellings)))
    for a, old in enumerate(labellings):
        for b, new in enumerate(labellings):
            for i in range(n):
                result[a, b] *= conditional(i, old.copy())[new[i]]
    return result


def independent(table: FloatArray) -> FloatArray:
    """The distribution over labellings of independent nodes, ``table`` (n, L) their probabilities."""
    n, L = table.shape
    result = np.ones(L**n)
    for a, labelling in enumerate(enumerate_labellings(n, L)):
        for i in range(n):
            result[a] *= table[i, labelling[i]]
    return result


def marginals(distribution: FloatArray, n: int, L: int) -> FloatArray:
    """(n, L): the probability of each label at each node."""
    result = np.zeros((n, L))
    for labelling, probability in zip(enumerate_labellings(n, L), distribution, strict=True):
        for i in range(n):
            result[i, labelling[i]] += probability
    return result


def stationary(matrix: FloatArray, initial: FloatArray | None = None) -> FloatArray:
    """The distribution that the chain leaves unchanged, by 2 ** 60 steps of the lazy chain (matrix + 1) / 2.

    The lazy chain has the same stationary distributions and no period. Where there are several, the answer is the one
    reached from ``initial``, uniform if not given.
    """
    size = len(matrix)
    power = (matrix + np.eye(size)) / 2
    for _ in range(60):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return (np.full(size, 1.0 / size) if initial is None else initial) @ power


def after_sweeps(initial: FloatArray, matrix: FloatArray, sweeps: int) -> FloatArray:
    """The distribution after that many steps from ``initial``, a distribution too."""
    distribution = initial
    for _ in range(sweeps):
        distribution = distribution @ matrix
    return distribution


def averaged_marginals(
    initial: FloatArray, matrix: FloatArray, n: int, L: int, burn_in: int, sweeps: int
) -> FloatArray:
    """(n, L): the mean of the marginals after sweeps burn_in + 1 .. sweeps.

    The expectation of the label frequencies of a sampler, and of the mean of the conditionals it drew from.
    """
    if not 0 <= burn_in < sweeps:
        raise ValueError(f"no sweep is left: burn_in {burn_in} of {sweeps}")
    total = np.zeros((n, L))
    for t in range(burn_in + 1, sweeps + 1):
        total += marginals(after_sweeps(initial, matrix, t), n, L)
    return total / (sweeps - burn_in)


def inhomogeneous(start: FloatArray, conditionals: Sequence[Conditional]) -> list[FloatArray]:
    """Definition 3: Q^0 .. Q^K; ``start`` (n, L) is P_i(. | x; theta^0), ``conditionals`` levels 1 .. K."""
    n, L = start.shape
    levels = [independent(start)]
    for conditional in conditionals:
        levels.append(levels[-1] @ synchronous_matrix(conditional, n, L))
    return levels


# ------------------------------------------------------------------------------------------------ divergences


def expected_log_likelihood(p: FloatArray, q: FloatArray) -> float:
    """sum p log q, 0 log 0 = 0; -inf where q lacks something of p."""
    total = 0.0
    for probability, model in zip(p.ravel(), q.ravel(), strict=True):
        if probability > 0:
            total += probability * (math.log(model) if model > 0 else -math.inf)
    return total


def kl(p: FloatArray, q: FloatArray) -> float:
    """KL(p || q) = sum p log(p / q); inf where q lacks something of p."""
    total = 0.0
    for probability, model in zip(p.ravel(), q.ravel(), strict=True):
        if probability > 0:
            total += probability * (math.log(probability / model) if model > 0 else math.inf)
    return total


# ------------------------------------------------------------------------------------------------- tiny worlds

Theta = tuple[float, float, float]  # b, w, c


@dataclass
class TinyWorld:
    """A few configurations x of n nodes with binary labels, the truth pi, and a class of models to list.

    P_i(1 | x, y'; b, w, c) = sigmoid(b + w x_i + c sum_j relation[i, j] (2 y'_j - 1)); without y' the sum is left out.
    """

    x: FloatArray  # (X, n)
    x_probability: FloatArray  # (X,)
    relation: FloatArray  # (n, n), zero diagonal
    grid: list[Theta]
    pi: FloatArray  # (X, 2 ** n): pi(y | x)


@dataclass
class IdealLevel:
    """A level of idealised stacked learning."""

    chosen: int  # of the grid; the first of those within 1e-12 of the best
    criteria: FloatArray  # (number of thetas,): J of each
    q: FloatArray  # (X, 2 ** n): Q^k(y | x)


TIE = 1e-12


def node_probability(world: TinyWorld, theta: Theta, x: int, i: int, votes: IntArray | None) -> FloatArray:
    """(2,): P_i(. | x, votes; theta), or P_i(. | x; theta) without votes."""
    b, w, c = theta
    score = b + w * world.x[x, i]
    if votes is not None:
        for j in neighbours(world.relation, i):
            score += c * world.relation[i, j] * (2 * votes[j] - 1)
    one = 1.0 / (1.0 + math.exp(-score))
    return np.array([1.0 / (1.0 + math.exp(score)), one])


def start_table(world: TinyWorld, theta: Theta, x: int) -> FloatArray:
    """(n, 2): P_i(. | x; theta)."""
    return np.array([node_probability(world, theta, x, i, None) for i in range(world.x.shape[1])])


def conditional_of(world: TinyWorld, theta: Theta, x: int) -> Conditional:
    """P_i(. | x, y; theta) as a conditional."""
    return lambda i, labels: node_probability(world, theta, x, i, labels)


def transition(world: TinyWorld, theta: Theta, x: int) -> FloatArray:
    """(2 ** n, 2 ** n): [y', y] is P(y | x, y'; theta)."""
    return synchronous_matrix(conditional_of(world, theta, x), world.x.shape[1], 2)


def q_table(world: TinyWorld, thetas: Sequence[Theta]) -> FloatArray:
    """(X, 2 ** n): Q^k(y | x; theta^0 .. theta^k), ``thetas`` being k + 1 of them."""
    rows = []
    for x in range(len(world.x)):
        later = [conditional_of(world, theta, x) for theta in thetas[1:]]
        rows.append(inhomogeneous(start_table(world, thetas[0], x), later)[-1])
    return np.array(rows)


def q_next(world: TinyWorld, before: FloatArray | None, theta: Theta) -> FloatArray:
    """(X, 2 ** n): Q^k from Q^{k-1} and theta^k; ``before`` None stands for k = 0."""
    if before is None:
        return q_table(world, [theta])
    return np.array([before[x] @ transition(world, theta, x) for x in range(len(world.x))])


def random_world(
    rng: np.random.Generator, n: int = 3, configurations: int = 2, depth: int = 1, thetas: int = 6
) -> TinyWorld:
    """A world with pi in P_M^depth: pi is Q^depth of parameters drawn from the grid. Some may ignore votes (c = 0)."""
    x = rng.choice([-1.0, 0.0, 1.0], size=(configurations, n))
    shares = rng.random(configurations) + 0.1
    relation = (rng.random((n, n)) < 0.6).astype(np.float64)
    np.fill_diagonal(relation, 0.0)
    choices = np.array([-2.0, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 2.0])
    grid = [(float(b), float(w), float(c)) for b, w, c in rng.choice(choices, size=(thetas, 3))]
    world = TinyWorld(x, shares / shares.sum(), relation, grid, np.zeros((configurations, 2**n)))
    world.pi = q_table(world, [grid[int(g)] for g in rng.integers(thetas, size=depth + 1)])
    return world


def _star(grid: list[Theta], truth: Sequence[Theta]) -> TinyWorld:
    """One configuration without features; nodes 0 and 1 look at 2, which looks at nobody. pi is Q of ``truth``."""
    relation = np.zeros((3, 3))
    relation[0, 2] = relation[1, 2] = 1.0
    world = TinyWorld(np.zeros((1, 3)), np.ones(1), relation, grid, np.zeros((1, 8)))
    world.pi = q_table(world, truth)
    return world


def marginal_counterexample() -> TinyWorld:
    """Level 1 prefers another to pi itself, though pi is in its class.

    Thetas: 0 ignores the votes, 1 lets nodes 0 and 1 copy the vote of node 2, right 9 times in 10. Level 0 is uniform
    with either, as in the truth, pi = Q^1(0, 1): nodes 0 and 1 agree in 82 of 100. The greedy step compares each
    label with a vote that is independent of it: ignoring scores 3 log(1/2) = -2.08, copying log(1/2) + log 0.9 +
    log 0.1 = -3.10. It ignores, and Q^1 is uniform: KL(pi || Q^1) = 0.22 and KL(Q^1 || pi) = 0.26 nats, both 0 for
    copying.
    """
    ignore, copy = (0.0, 0.0, 0.0), (0.0, 0.0, math.log(9.0))
    return _star([ignore, copy], [ignore, copy])


def direction_counterexample() -> TinyWorld:
    """Level 0 minimises KL(pi || Q^0), not KL(Q^0 || pi).

    The truth copies harder, right 99 times in 100: pi has nearly all its mass where nodes 0 and 1 agree. Thetas 0
    (uniform) and 2 (every label is 1 9 times in 10) differ at level 0. Maximum likelihood takes the uniform, which
    has the right marginals; KL(Q || pi) is smaller for the other, which is seldom where pi is not.
    """
    uniform, copy, ones = (0.0, 0.0, 0.0), (0.0, 0.0, math.log(99.0)), (math.log(9.0), 0.0, 0.0)
    return _star([uniform, copy, ones], [uniform, copy])


# --------------------------------------------------------------------------------- idealised stacked learning


def criterion(world: TinyWorld, before: FloatArray | None, theta: Theta) -> float:
    """J(theta) in the limit: E log P(y | x, y'; theta), y ~ pi, y' ~ ``before`` = Q^{k-1}; E log P(y | x) if None."""
    n = world.x.shape[1]
    labellings = enumerate_labellings(n, 2)
    total = 0.0
    for x, share in enumerate(world.x_probability):
        for a, y in enumerate(labellings):
            for v, votes in enumerate(labellings):
                weight = share * world.pi[x, a]
                if before is not None:
                    weight *= before[x, v]
                elif v > 0:
                    continue
                for i in range(n):
                    seen = None if before is None else votes
                    total += weight * math.log(node_probability(world, theta, x, i, seen)[y[i]])
    return total


def pseudo_likelihood(world: TinyWorld, theta: Theta) -> float:
    """E sum_i log P_i(y_i | x, y; theta), y ~ pi: what Definition 2 maximises for theta^+ in the limit."""
    n = world.x.shape[1]
    total = 0.0
    for x, share in enumerate(world.x_probability):
        for a, y in enumerate(enumerate_labellings(n, 2)):
            for i in range(n):
                total += share * world.pi[x, a] * math.log(node_probability(world, theta, x, i, y)[y[i]])
    return total


def _first_best(values: Sequence[float]) -> int:
    """The first within TIE of the largest."""
    return next(g for g, value in enumerate(values) if value >= max(values) - TIE)


def learn_idealised(world: TinyWorld, depth: int) -> list[IdealLevel]:
    """Definition 4 in the limit of infinite data: levels 0 .. depth, each the argmax of J over the grid."""
    levels: list[IdealLevel] = []
    for k in range(depth + 1):
        before = levels[-1].q if k > 0 else None
        criteria = [criterion(world, before, theta) for theta in world.grid]
        chosen = _first_best(criteria)
        levels.append(IdealLevel(chosen, np.array(criteria), q_next(world, before, world.grid[chosen])))
    return levels


def forward_divergence(world: TinyWorld, q: FloatArray) -> float:
    """E_x KL(pi || q), q (X, 2 ** n)."""
    return float(sum(share * kl(world.pi[x], q[x]) for x, share in enumerate(world.x_probability)))


def reverse_divergence(world: TinyWorld, q: FloatArray) -> float:
    """E_x KL(q || pi): the theorem's."""
    return float(sum(share * kl(q[x], world.pi[x]) for x, share in enumerate(world.x_probability)))


def joint_divergence(world: TinyWorld, before: FloatArray, theta: Theta) -> float:
    """E_x KL(pi(y) Q'(y') || Q'(y') P(y | y'; theta)), from the two tables over pairs (y', y)."""
    total = 0.0
    for x, share in enumerate(world.x_probability):
        truth = np.outer(before[x], world.pi[x])
        model = before[x][:, np.newaxis] * transition(world, theta, x)
        total += share * kl(truth, model)
    return total


def posterior_gap(world: TinyWorld, before: FloatArray, theta: Theta) -> float:
    """E_x E_{y ~ pi} KL(Q'(y') || the model's posterior of y' given y): what the joint divergence adds."""
    total = 0.0
    for x, share in enumerate(world.x_probability):
        model = before[x][:, np.newaxis] * transition(world, theta, x)
        for y in range(len(world.pi[x])):
            if world.pi[x, y] > 0:
                total += share * world.pi[x, y] * kl(before[x], model[:, y] / sum(model[:, y]))
    return total


def check_greedy(world: TinyWorld, depth: int, tolerance: float = 1e-9) -> list[IdealLevel]:
    """Assert (a) to (e) of the module's docstring at every level and for every theta; the levels."""
    n = world.x.shape[1]
    entropy = sum(s * -expected_log_likelihood(p, p) for s, p in zip(world.x_probability, world.pi, strict=True))
    apart = [independent(marginals(p, n, 2)) for p in world.pi]  # pi without its dependences
    dependence = sum(s * kl(p, q) for s, p, q in zip(world.x_probability, world.pi, apart, strict=True))
    blurred_entropy = sum(s * -expected_log_likelihood(q, q) for s, q in zip(world.x_probability, apart, strict=True))
    blurred = TinyWorld(world.x, world.x_probability, world.relation, world.grid, np.array(apart))
    levels = learn_idealised(world, depth)

    for k, level in enumerate(levels):
        before = levels[k - 1].q if k > 0 else None
        divergences = []
        for g, theta in enumerate(world.grid):
            forward = forward_divergence(world, q_next(world, before, theta))
            if before is None:
                divergence = forward
            else:
                divergence = joint_divergence(world, before, theta)
                assert forward <= divergence + tolerance, f"level {k}, theta {g}: not a bound"
                gap = posterior_gap(world, before, theta)
                assert abs(forward + gap - divergence) <= tolerance, f"level {k}, theta {g}: (b) fails"
            assert abs(divergence - (-level.criteria[g] - entropy)) <= tolerance, f"level {k}, theta {g}: (a) fails"
            by_node = -criterion(blurred, before, theta) - blurred_entropy  # KL to a product, so the sum over nodes
            assert abs(dependence + by_node - divergence) <= tolerance, f"level {k}, theta {g}: (c) fails"
            divergences.append(divergence)
        assert divergences[level.chosen] <= min(divergences) + tolerance, f"level {k}: not the greedy choice"

    b, w, _ = world.grid[levels[0].chosen]
    if (b, w, 0.0) in world.grid:
        for k, level in enumerate(levels):
            worst = forward_divergence(world, levels[0].q) + tolerance
            assert forward_divergence(world, level.q) <= worst, f"level {k} is worse than level 0"
    return levels


@dataclass
class LiteralFailure:
    """A level at which another theta has the smaller divergence of the marginal Q^k."""

    level: int
    direction: str  # "reverse", KL(Q || pi), as the theorem is written, or "forward", KL(pi || Q)
    chosen: int
    better: int
    chosen_divergence: float
    better_divergence: float


def literal_failures(world: TinyWorld, depth: int, margin: float = 1e-6) -> list[LiteralFailure]:
    """Where Theorem 1 fails as it is written, or with only its direction put right, by more than ``margin``."""
    levels = learn_idealised(world, depth)
    failures = []
    for k, level in enumerate(levels):
        before = levels[k - 1].q if k > 0 else None
        for direction, divergence in (("reverse", reverse_divergence), ("forward", forward_divergence)):
            values = [divergence(world, q_next(world, before, theta)) for theta in world.grid]
            better = _first_best([-value for value in values])
            if values[better] < values[level.chosen] - margin:
                found = (values[level.chosen], values[better])
                failures.append(LiteralFailure(k, direction, level.chosen, better, *found))
    return failures
