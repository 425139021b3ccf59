"""Brute force for the pieces of a pool of node models, by loops over lists; no code shared with the library.

* Links are a list with a dict for each node i: whom i looks at -> the weight of the link, > 0. A link from a node to
  itself is left out of everything here.
* A table is a list of rows (n, L): probabilities, or one-hot labels. A label is a number from 0, None = unknown.

    M            row means: (M V)[i] = Σ_j w_ij V[j] / Σ_j w_ij, 0 where i looks at nobody
    b_i          Σ_j M_ij N_ji: how likely a walk of two steps, by M and then N, from i is back at i
    votes(V)[i]  [ (M V)[i],  log(1 + d_i (M V)[i]),  ((M M V)[i] - b_i V[i]) / (1 - b_i) ], d_i how many i looks at;
                 the last is 0 where b_i = 1: nobody but i is two steps away
    all links    of relations whose weights are 1 on average, added up, both ways; see `joined`
    S            D^-½ Ã D^-½, Ã = the larger of w_ij and w_ji, and 1 on the diagonal; D its row sums
    diffused     Z <- α S Z + (1 - α) X ten times from Z = X, then rows of unit length
    mixture      weights π on the simplex that maximise mean_i log Σ_c π_c p_c[i, y_i]
    pool         softmax(Σ_c w_c log p_c), w >= 0, with the least mean log-loss + penalty(w)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

Links = list[dict[int, float]]
Row = list[float]
Table = list[Row]
Label = int | None
FLOOR = 1e-12  # the least probability whose logarithm is taken


# -- Links --------------------------------------------------------------------------------------------


def without_loops(links: Links) -> Links:
    return [{j: w for j, w in one.items() if j != i} for i, one in enumerate(links)]


def reversed_links(links: Links) -> Links:
    """Who looks at i."""
    found: Links = [{} for _ in links]
    for i, one in enumerate(links):
        for j, w in one.items():
            found[j][i] = w
    return found


def undirected(relations: Sequence[Links]) -> Links:
    """All relations as one, in both directions: the largest weight that joins two nodes."""
    found: Links = [{} for _ in relations[0]] if relations else []
    for links in relations:
        for i, one in enumerate(links):
            for j, w in one.items():
                found[i][j] = max(found[i].get(j, 0.0), w)
                found[j][i] = max(found[j].get(i, 0.0), w)
    return without_loops(found)


def of_mean_one(links: Links) -> Links:
    """Weights divided by their mean, without loops."""
    links = without_loops(links)
    weights = [w for one in links for w in one.values()]
    return [{j: w * len(weights) / sum(weights) for j, w in one.items()} for one in links]


def ways(relations: Sequence[Links]) -> list[list[Links]]:
    """Every relation that has links and its reverse; alone where it is its own reverse; and only once where its reverse
    is among them too."""
    found: list[list[Links]] = []
    for links in (of_mean_one(links) for links in relations):
        turned = reversed_links(links)
        if not any(links) or any(len(one) == 2 and alike(one[1], links) for one in found):
            continue
        found.append([links] if alike(links, turned) else [links, turned])
    return found


def alike(one: Links, other: Links) -> bool:
    return all(
        a.keys() == b.keys() and all(abs(a[j] - b[j]) < 1e-9 for j in a) for a, b in zip(one, other, strict=True)
    )


def joined(relations: Sequence[Links], n: int) -> Links:
    """All ways of all relations, weights added up."""
    found: Links = [{} for _ in range(n)]
    for links in (way for one in ways(relations) for way in one):
        for i, one in enumerate(links):
            for j, w in one.items():
                found[i][j] = found[i].get(j, 0.0) + w
    return found


# -- What neighbours say ------------------------------------------------------------------------------


def row_means(links: Links, values: Table) -> Table:
    """M V."""
    found = []
    for one in without_loops(links):
        total = sum(one.values())
        width = len(values[0]) if values else 0
        row = [0.0] * width
        for j, w in one.items():
            for c in range(width):
                row[c] += w * values[j][c] / total
        found.append(row)
    return found


def two_hop_return(links: Links, then: Links | None = None) -> Row:
    """b: by the step there, and the step back, where there is one; by links, then by others."""
    links, then = without_loops(links), without_loops(links if then is None else then)
    found = []
    for i, one in enumerate(links):
        b = 0.0
        for j, w in one.items():
            if i in then[j]:
                b += w / sum(one.values()) * then[j][i] / sum(then[j].values())
        found.append(b)
    return found


def beyond(links: Links, then: Links, values: Table) -> Table:
    """(n, L), means two steps away, without oneself."""
    far, back = row_means(links, row_means(then, values)), two_hop_return(links, then)
    found = []
    for i, row in enumerate(far):
        others = 1 - back[i]
        found.append(
            [(x - back[i] * v) / others if others > 1e-12 else 0.0 for x, v in zip(row, values[i], strict=True)]
        )
    return found


def votes(links: Links, values: Table) -> Table:
    """(n, 3 L) of one relation in one direction: means, log counts, means two steps away."""
    near, far = row_means(links, values), beyond(links, links, values)
    found = []
    for i, one in enumerate(without_loops(links)):
        counts = [math.log1p(len(one) * mean) for mean in near[i]]
        found.append([*near[i], *counts, *far[i]])
    return found


def all_votes(relations: Sequence[Links], values: Table) -> Table:
    """(n, q) of several relations: means and log counts over all links and then over each way of each relation, unless
    there is but one that is its own reverse; then means two steps away, by all links, and by every two ways of a
    relation."""
    n, each = len(values), ways(relations)
    everything = joined(relations, n)
    views, paths = [everything], [(everything, everything)]
    if not (len(each) == 1 and len(each[0]) == 1):
        views += [way for one in each for way in one]
        paths += [(a, b) for one in each for a in one for b in one]
    width = len(values[0]) if values else 0
    near = [[row[: 2 * width] for row in votes(links, values)] for links in views]
    far = [beyond(a, b, values) for a, b in paths]
    return [[x for table in near + far for x in table[i]] for i in range(n)]


def votes_in_training(labels: Sequence[Label], fold: Sequence[Label], k: int, without_k: Table) -> Table:
    """V for the rows of fold k: labels of training nodes outside it; all others, those of k among them, what the model
    that was trained without k says. `fold` is None for nodes that are not trained on."""
    found = []
    for label, own, row in zip(labels, fold, without_k, strict=True):
        if own is None or own == k or label is None:
            found.append(list(row))
        else:
            found.append(one_hot(label, len(row)))
    return found


def votes_in_prediction(labels: Sequence[Label], predicted: Table) -> Table:
    """V once all is trained: labels where they are known, else predictions."""
    return [
        list(row) if label is None else one_hot(label, len(row)) for label, row in zip(labels, predicted, strict=True)
    ]


def one_hot(label: int, width: int) -> Row:
    return [1.0 if c == label else 0.0 for c in range(width)]


# -- Smoothing ----------------------------------------------------------------------------------------


def smoothing(links: Links) -> Table:
    """S, every entry of it; `links` may go one way."""
    joined = undirected([links])
    n = len(joined)
    whole = [[1.0 if i == j else joined[i].get(j, 0.0) for j in range(n)] for i in range(n)]
    degree = [sum(row) for row in whole]
    return [[whole[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(n)] for i in range(n)]


def times(matrix: Table, values: Table) -> Table:
    width = len(values[0]) if values else 0
    return [[sum(row[j] * values[j][c] for j in range(len(row))) for c in range(width)] for row in matrix]


def blended(a: float, first: Table, b: float, second: Table) -> Table:
    """a × first + b × second."""
    return [[a * x + b * y for x, y in zip(*rows, strict=True)] for rows in zip(first, second, strict=True)]


def spread(matrix: Table, start: Table, alpha: float, steps: int = 10) -> Table:
    """Z <- α S Z + (1 - α) X."""
    found = start
    for _ in range(steps):
        found = blended(alpha, times(matrix, found), 1 - alpha, start)
    return found


def diffused(links: Links, features: Table, alpha: float = 0.9) -> Table:
    found = []
    for row in spread(smoothing(links), features, alpha):
        length = math.sqrt(sum(x * x for x in row))
        found.append([x / length if length else 0.0 for x in row])
    return found


def correct_and_smooth(
    links: Links,
    labels: Sequence[Label],
    predicted: Table,
    correct: float,
    smooth: float,
    steps: int = 10,
    faint: float = 0.0,
    bounded: bool = False,
) -> Table:
    """Errors of nodes with a label travel, each row is scaled to the mean error of such a node (sums of magnitudes; a
    row of no more than `faint` times that mean becomes zeros), labels are put in, and all is smoothed. Rows need not be
    probabilities; if `bounded` they are: what is corrected is cut off at 0 and 1, what is smoothed is 1e-6 at the
    least, and rows add up to 1."""
    matrix, width = smoothing(links), len(predicted[0]) if predicted else 0
    error = []
    for label, row in zip(labels, predicted, strict=True):
        known = row if label is None else one_hot(label, width)
        error.append([y - p for y, p in zip(known, row, strict=True)])
    sizes = [sum(map(abs, row)) for label, row in zip(labels, error, strict=True) if label is not None]
    mean = sum(sizes) / len(sizes) if sizes else 0.0
    start = []
    for label, row, arrived in zip(labels, predicted, spread(matrix, error, correct, steps), strict=True):
        size = sum(map(abs, arrived))
        moved = [p + (e * mean / size if size > faint * mean else 0.0) for p, e in zip(row, arrived, strict=True)]
        if bounded:
            moved = [min(1.0, max(0.0, x)) for x in moved]
        start.append(moved if label is None else one_hot(label, width))
    found = spread(matrix, start, smooth, steps)
    if bounded:
        found = [[max(1e-6, x) for x in row] for row in found]
        found = [[x / sum(row) for x in row] for row in found]
    return found


# -- Pooling ------------------------------------------------------------------------------------------


def mixture_likelihood(tables: Sequence[Table], labels: Sequence[int], weights: Row) -> float:
    """mean_i log Σ_c π_c p_c[i, y_i]."""
    total = 0.0
    for i, label in enumerate(labels):
        total += math.log(max(FLOOR, sum(w * table[i][label] for w, table in zip(weights, tables, strict=True))))
    return total / len(labels)


def em_mixture(tables: Sequence[Table], labels: Sequence[int], rounds: int = 10_000) -> Row:
    """π_c <- the mean share of candidate c in what the mixture says of the true label, from equal weights."""
    weights = [1 / len(tables)] * len(tables)
    for _ in range(rounds):
        sums = [0.0] * len(tables)
        for i, label in enumerate(labels):
            said = [w * max(FLOOR, table[i][label]) for w, table in zip(weights, tables, strict=True)]
            for c in range(len(tables)):
                sums[c] += said[c] / sum(said)
        before, weights = weights, [s / len(labels) for s in sums]
        if max(abs(a - b) for a, b in zip(before, weights, strict=True)) < 1e-13:
            break
    return weights


def pool_probabilities(tables: Sequence[Table], weights: Row) -> Table:
    found = []
    for rows in zip(*tables, strict=True):
        scores = [
            sum(w * math.log(max(FLOOR, row[c])) for w, row in zip(weights, rows, strict=True))
            for c in range(len(rows[0]))
        ]
        top = max(scores)
        powers = [math.exp(score - top) for score in scores]
        found.append([power / sum(powers) for power in powers])
    return found


def squared(target: Row, strength: float) -> Callable[[Row], float]:
    """A penalty: strength × the squared distance to the target."""
    return lambda weights: strength * sum((w - t) ** 2 for w, t in zip(weights, target, strict=True))


def pool_loss(
    tables: Sequence[Table], labels: Sequence[int], weights: Row, penalty: Callable[[Row], float] | None = None
) -> float:
    """Mean log-loss of the pool + the penalty of its weights."""
    found = pool_probabilities(tables, weights)
    loss = -sum(math.log(max(FLOOR, row[label])) for row, label in zip(found, labels, strict=True)) / len(labels)
    return loss + (penalty(weights) if penalty else 0.0)


def grid(n: int, highest: float, steps: int) -> Iterator[Row]:
    """All weights 0, highest / steps, ..., highest."""
    for numbers in product(range(steps + 1), repeat=n):
        yield [highest * number / steps for number in numbers]


def simplex(n: int, steps: int) -> Iterator[Row]:
    """All weights in steps that sum to 1."""
    for numbers in product(range(steps + 1), repeat=n):
        if sum(numbers) == steps:
            yield [number / steps for number in numbers]


def best_on_grid(
    tables: Sequence[Table],
    labels: Sequence[int],
    penalty: Callable[[Row], float] | None = None,
    highest: float = 3.0,
    steps: int = 60,
) -> tuple[Row, float]:
    """The weights of the least loss among those of a grid, for two or three candidates, and that loss."""
    tried = ((pool_loss(tables, labels, weights, penalty), weights) for weights in grid(len(tables), highest, steps))
    loss, weights = min(tried)
    return weights, loss


def check_optimum(
    tables: Sequence[Table],
    labels: Sequence[int],
    weights: Row,
    penalty: Callable[[Row], float] | None = None,
    within: float = 1e-6,
) -> None:
    """Weights are not negative, and no step of any size along an axis lowers the loss, which is convex in them where
    the penalty is: by more than `within`, that is."""
    assert min(weights) >= 0, weights
    loss = pool_loss(tables, labels, weights, penalty)
    for c in range(len(weights)):
        for step in (1.0, 0.1, 0.01, 0.001):
            for sign in (1, -1):
                moved = [max(0.0, w + sign * step) if d == c else w for d, w in enumerate(weights)]
                assert pool_loss(tables, labels, moved, penalty) >= loss - within, (weights, moved)
