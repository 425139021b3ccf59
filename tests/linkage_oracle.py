"""Brute-force oracles for clustering from pairwise decisions and for structured local training.

Items are ``0 .. n-1``. Candidate pairs are two int sequences ``left`` and ``right`` with ``left[k] < right[k]`` and no
pair twice; every other per-pair sequence (``probability``, ``decided``, ``truth``, ...) runs along them. A clustering
is a list of one id per item, of which only the same-cluster relation counts: compare ``partition(ids)``.
Everything is by definition and enumeration: meant for n <= 7 items and <= 15 pairs. Where several answers are equally
good (within ``TOLERANCE``), all of them are returned.
"""

import itertools
import math

TOLERANCE = 1e-9


# ---------------------------------------------------------------------------------------------------------------------
# Clusterings
# ---------------------------------------------------------------------------------------------------------------------


def partition(ids):
    """The same-cluster relation of ``ids``: the frozenset of the clusters, each a frozenset of items."""
    ids = list(ids)
    return frozenset(frozenset(i for i in range(len(ids)) if ids[i] == name) for name in ids)


def ids_of(n, clusters):
    """Ids numbered by first appearance, for disjoint ``clusters`` that cover ``0 .. n-1``."""
    ordered = sorted((sorted(cluster) for cluster in clusters), key=lambda members: members[0])
    assert sorted(itertools.chain.from_iterable(ordered)) == list(range(n))
    return [next(k for k, members in enumerate(ordered) if i in members) for i in range(n)]


def all_partitions(n):
    """Every clustering of n items once, as restricted growth strings: ids[0] = 0, ids[i] <= 1 + max(ids[:i])."""
    found = [()]
    for _ in range(n):
        found = [ids + (k,) for ids in found for k in range(max(ids, default=-1) + 2)]
    return [list(ids) for ids in found]


def logit(p):
    """log(p / (1 - p))."""
    return math.log(p / (1.0 - p))


def pairs_of(left, right):
    """The candidate pairs as tuples of ints; ValueError unless left < right and no pair comes twice."""
    pairs = [(int(i), int(j)) for i, j in zip(left, right, strict=True)]
    if any(i >= j for i, j in pairs) or len(set(pairs)) < len(pairs):
        raise ValueError("pairs need left < right and no repeats")
    return pairs


def _closure(n, pairs):
    """Connected components of ``pairs``: start from singletons and merge until no pair joins two clusters."""
    clusters = [frozenset([i]) for i in range(n)]
    changed = True
    while changed:
        changed = False
        for i, j in pairs:
            first = next(cluster for cluster in clusters if i in cluster)
            second = next(cluster for cluster in clusters if j in cluster)
            if first != second:
                clusters = [cluster for cluster in clusters if cluster not in (first, second)] + [first | second]
                changed = True
    return frozenset(clusters)


def single_link(n, left, right, decided):
    """Single-link clustering of 0/1 decisions: the transitive closure of the pairs decided 1."""
    chosen = [pair for pair, d in zip(pairs_of(left, right), decided, strict=True) if d]
    return ids_of(n, _closure(n, chosen))


def closed_decisions(n, left, right, decided):
    """h' of h*: 1 for a candidate pair whose items lie in one cluster of ``single_link``, else 0."""
    ids = single_link(n, left, right, decided)
    return tuple(int(ids[i] == ids[j]) for i, j in pairs_of(left, right))


def is_transitive(n, left, right, truth):
    """Whether 0/1 labels equal their own closure: no candidate pair labelled 0 inside a component of the 1s."""
    return closed_decisions(n, left, right, truth) == tuple(int(y) for y in truth)


# ---------------------------------------------------------------------------------------------------------------------
# Clustering from probabilities
# ---------------------------------------------------------------------------------------------------------------------


def _permitted(cluster, cannot_link, max_size):
    """Whether a cluster holds no cannot-link pair and has at most ``max_size`` items."""
    apart = all(not (i in cluster and j in cluster) for i, j in cannot_link)
    return apart and (max_size is None or len(cluster) <= max_size)


def _start(n, must_link, cannot_link, max_size):
    """The closure of the must-link pairs; ValueError if that already breaks a cannot-link pair or ``max_size``."""
    clusters = _closure(n, must_link)
    if not all(_permitted(cluster, cannot_link, max_size) for cluster in clusters):
        raise ValueError("contradictory constraints")
    return clusters


def linkage(n, left, right, probability, first, second, kind, n_left=None):
    """Similarity of two clusters A, B over ALL |A| |B| cross pairs, a non-candidate pair counting as probability 0.

    "average": sum of p(i,j) / (|A| |B|); "complete": minimum of p(i,j); "compared": mean over the candidates alone.
    With two tables (items below ``n_left`` and the others) only pairs across the tables are pairs at all.
    """
    known = dict(zip(pairs_of(left, right), map(float, probability), strict=True))
    cross = [(min(i, j), max(i, j)) for i in first for j in second]
    cross = [(i, j) for i, j in cross if n_left is None or i < n_left <= j]
    if kind == "compared":
        cross = [pair for pair in cross if pair in known]
    values = [known.get(pair, 0.0) for pair in cross]
    if not values:
        return -math.inf
    if kind in ("average", "compared"):
        return math.fsum(values) / len(values)
    if kind == "complete":
        return min(values)
    raise ValueError(f"unknown linkage {kind!r}")


def agglomerate(
    n, left, right, probability, threshold=0.5, kind="average", must_link=(), cannot_link=(), max_size=None, n_left=None
):
    """Greedy agglomeration, every similarity computed anew before every merge.

    Start from singletons with the must-link pairs merged. Among the pairs of clusters whose union is permitted (no
    cannot-link pair inside, at most ``max_size`` items) merge the one with the highest ``linkage``, as long as that is
    > threshold (strictly). Ties: the pair (min A, min B), min A < min B, that comes first in lexicographic order.
    """
    clusters = list(_start(n, must_link, cannot_link, max_size))
    while True:
        clusters.sort(key=min)
        best = None
        for first, second in itertools.combinations(clusters, 2):
            if not _permitted(first | second, cannot_link, max_size):
                continue
            value = linkage(n, left, right, probability, first, second, kind, n_left)
            if value > threshold and (best is None or value > best[0]):
                best = (value, first, second)
        if best is None:
            return ids_of(n, clusters)
        _, first, second = best
        clusters = [cluster for cluster in clusters if cluster not in (first, second)] + [first | second]


def missing_pairs(n, left, right, probability, threshold=0.5, largest=200, n_left=None):
    """Pairs inside the clusters of "compared" agglomeration of at most ``largest`` items that are no candidates,
    across the tables where there are two, by j and then i; and the number of larger clusters."""
    ids = agglomerate(n, left, right, probability, threshold, "compared", n_left=n_left)
    known = set(pairs_of(left, right))
    found = [
        (i, j)
        for j in range(n)
        for i in range(j)
        if ids[i] == ids[j]
        and ids.count(ids[i]) <= largest
        and (i, j) not in known
        and (n_left is None or i < n_left <= j)
    ]
    return found, sum(ids.count(c) > largest for c in set(ids))


def best_match(n, left, right, probability, each="both", threshold=0.5):
    """Every item of one side ("first": the left items) or of both sides is joined to its most probable partner above
    the threshold, the first of equals: the closure of those links."""
    scored = [(i, j, float(p)) for (i, j), p in zip(pairs_of(left, right), probability, strict=True) if p > threshold]
    links = set()
    for side in {"first": (0,), "second": (1,), "both": (0, 1)}[each]:
        for item in range(n):
            own = [one for one in scored if one[side] == item]
            if own:
                i, j, _ = min(own, key=lambda one: (-one[2], one[1 - side]))
                links.add((i, j))
    return ids_of(n, _closure(n, sorted(links)))


def average_link(n, left, right, probability, threshold=0.5, must_link=(), cannot_link=(), max_size=None):
    """``agglomerate`` by the mean over all cross pairs (non-candidates 0)."""
    return agglomerate(n, left, right, probability, threshold, "average", must_link, cannot_link, max_size)


def complete_link(n, left, right, probability, threshold=0.5, must_link=(), cannot_link=(), max_size=None):
    """``agglomerate`` by the minimum over all cross pairs (non-candidates 0)."""
    return agglomerate(n, left, right, probability, threshold, "complete", must_link, cannot_link, max_size)


def constrained_single_link(n, left, right, probability, threshold=0.5, must_link=(), cannot_link=(), max_size=None):
    """Single link under constraints: start from the closure of the must-link pairs, take the candidate pairs with
    p > threshold in descending p (ties: (left, right) order), and unite their clusters unless the union is not
    permitted (a cannot-link pair inside, or more than ``max_size`` items)."""
    clusters = list(_start(n, must_link, cannot_link, max_size))
    scored = sorted((-float(p), pair) for p, pair in zip(probability, pairs_of(left, right), strict=True))
    for negated, (i, j) in scored:
        if not -negated > threshold:
            continue
        first = next(cluster for cluster in clusters if i in cluster)
        second = next(cluster for cluster in clusters if j in cluster)
        if first != second and _permitted(first | second, cannot_link, max_size):
            clusters = [cluster for cluster in clusters if cluster not in (first, second)] + [first | second]
    return ids_of(n, clusters)


def antecedents(n, left, right, probability, threshold=0.5, kind="best"):
    """Per item j its antecedent i < j among the candidate pairs (i, j) with p > threshold, or None.

    kind="closest": the largest i; kind="best": the highest p, ties to the largest i.
    """
    if kind not in ("closest", "best"):
        raise ValueError(f"unknown kind {kind!r}")
    chosen = []
    for j in range(n):
        eligible = [
            (float(p), i)
            for p, (i, k) in zip(probability, pairs_of(left, right), strict=True)
            if k == j and float(p) > threshold
        ]
        if not eligible:
            chosen.append(None)
        elif kind == "closest":
            chosen.append(max(i for _, i in eligible))
        else:
            chosen.append(max(eligible)[1])
    return chosen


def best_link(n, left, right, probability, threshold=0.5, kind="best"):
    """The closure of the links (antecedent of j, j) over the items j; see ``antecedents``."""
    chosen = antecedents(n, left, right, probability, threshold, kind)
    return ids_of(n, _closure(n, [(i, j) for j, i in enumerate(chosen) if i is not None]))


def correlation_objective(ids, left, right, probability, threshold=0.5, penalty=0.0):
    """Sum over the candidate pairs within a cluster of logit(p) - logit(threshold), minus ``penalty`` for every
    non-candidate pair within a cluster."""
    known = dict(zip(pairs_of(left, right), map(float, probability), strict=True))
    terms = []
    for i, j in itertools.combinations(range(len(ids)), 2):
        if ids[i] == ids[j]:
            terms.append(logit(known[i, j]) - logit(threshold) if (i, j) in known else -penalty)
    return math.fsum(terms)


def correlation_clustering(
    n, left, right, probability, threshold=0.5, penalty=0.0, must_link=(), cannot_link=(), max_size=None
):
    """(best value, set of all partitions that reach it) of ``correlation_objective``, over all partitions that keep
    must-link pairs together, cannot-link pairs apart and clusters at ``max_size`` items or fewer.

    ValueError if no partition does. Without a penalty, ties are common: parts joined only by non-candidate pairs may
    be together or apart at the same value.
    """
    values = {}
    for ids in all_partitions(n):
        clusters = partition(ids)
        together = all(ids[i] == ids[j] for i, j in must_link)
        if together and all(_permitted(cluster, cannot_link, max_size) for cluster in clusters):
            values[clusters] = correlation_objective(ids, left, right, probability, threshold, penalty)
    if not values:
        raise ValueError("contradictory constraints")
    best = max(values.values())
    return best, {clusters for clusters, value in values.items() if value >= best - TOLERANCE}


def matching_value(matching, left, right, probability, threshold=0.5):
    """Sum over the pairs (i, j) of a matching of logit(p) - logit(threshold)."""
    known = dict(zip(pairs_of(left, right), map(float, probability), strict=True))
    return math.fsum(logit(known[pair]) - logit(threshold) for pair in matching)


def one_to_one(n, n_left, left, right, probability, threshold=0.5):
    """(best value, set of all best matchings, each a frozenset of pairs (i, j)).

    Items < n_left are table A, the rest table B. A matching is a set of candidate pairs across the tables with
    p > threshold in which no item comes twice (candidate pairs inside one table are never matched); its value is
    ``matching_value``.
    """
    eligible = [
        (i, j)
        for p, (i, j) in zip(probability, pairs_of(left, right), strict=True)
        if float(p) > threshold and i < n_left <= j < n
    ]
    values = {}
    for size in range(len(eligible) + 1):
        for chosen in itertools.combinations(eligible, size):
            used = list(itertools.chain.from_iterable(chosen))
            if len(set(used)) == len(used):
                values[frozenset(chosen)] = matching_value(chosen, left, right, probability, threshold)
    best = max(values.values())
    return best, {matching for matching, value in values.items() if value >= best - TOLERANCE}


def spanning_trees(members, pairs):
    """Every set of len(members) - 1 of the ``pairs`` (both items in members) that connects ``members``."""
    members = sorted(members)
    place = {item: k for k, item in enumerate(members)}
    inside = [(i, j) for i, j in pairs if i in place and j in place]
    for tree in itertools.combinations(inside, len(members) - 1):
        if len(_closure(len(members), [(place[i], place[j]) for i, j in tree])) == 1:
            yield tree


def weakest_link(left, right, probability, members):
    """(strength, splits) of the weakest link that holds a single-link cluster together.

    strength: the largest t for which the pairs inside ``members`` with p >= t still connect them; with only p > t
    they fall apart. It is the smallest p on any maximum spanning tree.
    splits: the set of all acceptable answers (link, sides): over all maximum spanning trees and all their edges of the
    smallest p, that edge (i, j) and the frozenset of the two parts its removal leaves. One element when the
    probabilities are distinct.
    ValueError for fewer than two members, or members that the candidate pairs do not connect.
    """
    members = sorted(int(i) for i in members)
    known = dict(zip(pairs_of(left, right), map(float, probability), strict=True))
    place = {item: k for k, item in enumerate(members)}

    def parts(pairs):
        groups = _closure(len(members), [(place[i], place[j]) for i, j in pairs])
        return frozenset(frozenset(members[k] for k in group) for group in groups)

    inside = [(i, j) for i, j in known if i in place and j in place]
    if len(members) < 2 or len(parts(inside)) > 1:
        raise ValueError("a split needs two or more members, connected by candidate pairs")
    strength = max(t for t in known.values() if len(parts([pair for pair in inside if known[pair] >= t])) == 1)
    trees = list(spanning_trees(members, inside))
    totals = [math.fsum(known[pair] for pair in tree) for tree in trees]
    splits = set()
    for tree, total in zip(trees, totals, strict=True):
        if total < max(totals) - TOLERANCE:
            continue
        for link in tree:
            if known[link] == min(known[pair] for pair in tree):
                splits.add((link, parts([pair for pair in tree if pair != link])))
    return strength, splits


# ---------------------------------------------------------------------------------------------------------------------
# E-steps of structured local training
# ---------------------------------------------------------------------------------------------------------------------


def nearest(truth, h_star, h_prime):
    """Algorithm 2: y'_i = h*_i where h'_i = y*_i, else y'_i = y*_i."""
    return tuple(int(h if c == y else y) for y, h, c in zip(truth, h_star, h_prime, strict=True))


def spanning_forests(n, pairs):
    """Every acyclic subset of ``pairs`` with the same connected components as all of ``pairs``.

    A forest with the components of G has exactly n - (number of components) edges, and that many edges with those
    components have no cycle.
    """
    goal = _closure(n, pairs)
    for forest in itertools.combinations(pairs, n - len(goal)):
        if _closure(n, forest) == goal:
            yield frozenset(forest)


def spanning(n, left, right, truth, h_star, h_prime, phi0):
    """Algorithm 1: the set of all y' that come from some minimum spanning forest M.

    G has the pairs with y*_i = 1 as edges; the cost of an edge is phi(h'_i, x_i) where h'_i != y*_i (there h'_i = 0, so
    the potential ``phi0`` of "not coreferent"), and 0 where h'_i = y*_i. M minimises the total cost over all spanning
    forests of G. Then y'_i = h*_i where h'_i = y*_i; elsewhere y'_i = 1 if pair i is in M, else 0.
    """
    pairs = pairs_of(left, right)
    rows = list(zip(pairs, map(int, truth), map(int, h_star), map(int, h_prime), map(float, phi0), strict=True))
    cost = {pair: 0.0 if c == y else f for pair, y, _, c, f in rows if y == 1}
    totals = {forest: math.fsum(cost[pair] for pair in forest) for forest in spanning_forests(n, list(cost))}
    least = min(totals.values())
    return {
        tuple(h if c == y else int(pair in forest) for pair, y, h, c, _ in rows)
        for forest, total in totals.items()
        if total <= least + TOLERANCE
    }


def recovers_truth(n, left, right, truth, labels):
    """Whether single_link(labels) equals the components of the truth."""
    return partition(single_link(n, left, right, labels)) == partition(single_link(n, left, right, truth))


def labelling_log_probability(probability, labels):
    """Sum of log p_i where y'_i = 1 and log(1 - p_i) where y'_i = 0."""
    return math.fsum(math.log(p if y else 1.0 - p) for p, y in zip(map(float, probability), labels, strict=True))


def exact_viterbi(n, left, right, truth, probability):
    """(log-probability, set of all y' that reach it): the most probable of all 0/1 vectors y' with
    single_link(y') = components of the truth, by enumeration. This is argmax_h P(h | y*, x)."""
    pairs = pairs_of(left, right)
    goal = partition(single_link(n, left, right, truth))
    values = {
        labels: labelling_log_probability(probability, labels)
        for labels in itertools.product((0, 1), repeat=len(pairs))
        if _closure(n, list(itertools.compress(pairs, labels))) == goal
    }
    best = max(values.values())
    return best, {labels for labels, value in values.items() if value >= best - TOLERANCE}


# ---------------------------------------------------------------------------------------------------------------------
# Biased potentials
# ---------------------------------------------------------------------------------------------------------------------

BIAS_FORMS = ("both", "factor", "margin", "weight", "exponent")


def closest_coreferent(left, right, truth):
    """P1 flags, 0/1 per pair: 1 iff y*(i, j) = 1 and no candidate pair (k, j) with y* = 1 has k > i."""
    true_pairs = {pair for pair, y in zip(pairs_of(left, right), truth, strict=True) if y}
    return tuple(
        int((i, j) in true_pairs and all((k, j) not in true_pairs for k in range(i + 1, j)))
        for i, j in pairs_of(left, right)
    )


def biased_potentials(score, label, biased, beta, form):
    """(psi(0), psi(1)) from phi(1) = e^(s/2), phi(0) = e^(-s/2), where s = log phi(1) - log phi(0).

    Not biased: psi = phi. Biased: "both" psi(y) = beta phi(y) for both y; "factor" psi = beta phi for the true label
    only; "margin" psi = beta phi for the wrong label only; "exponent" psi = phi^beta; "weight" psi = phi (there the
    likelihood is raised to the power beta instead).
    """
    if form not in BIAS_FORMS:
        raise ValueError(f"unknown form {form!r}")
    psi = [math.exp(-score / 2.0), math.exp(score / 2.0)]
    if biased:
        for y in (0, 1):
            if form == "both" or (form == "factor" and y == label) or (form == "margin" and y != label):
                psi[y] *= beta
            elif form == "exponent":
                psi[y] **= beta
    return tuple(psi)


def biased_nll(score, label, biased, beta, form):
    """-log(psi(label) / (psi(0) + psi(1))), times beta for a biased pair under "weight". Needs beta > 0."""
    psi = biased_potentials(score, label, biased, beta, form)
    loss = -math.log(psi[int(label)] / (psi[0] + psi[1]))
    return beta * loss if biased and form == "weight" else loss


def biased_objective(weights, features, labels, biased, beta, form, l2=1.0):
    """Sum over pairs of ``biased_nll`` at score s = sum_k w_k f_k, plus l2 / 2 * sum_k w_k^2.

    ``features`` has one row of 0/1 values per pair; there is no separate intercept.
    """
    total = 0.0
    for row, label, flag in zip(features, labels, biased, strict=True):
        score = 0.0
        for w, f in zip(weights, row, strict=True):
            score += float(w) * float(f)
        total += biased_nll(score, int(label), bool(flag), beta, form)
    for w in weights:
        total += l2 / 2.0 * float(w) ** 2
    return total
