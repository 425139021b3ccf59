"""Metrics of clusterings by their definitions: sets, enumerated pairs, and all one-to-one matchings tried out.

The slow twin of `kinfolk.linking.scores` and `kinfolk.linking.scores`. A metric is told by its four sums,
(recall numerator, recall denominator, precision numerator, precision denominator).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from typing import NamedTuple

Cluster = frozenset[int]
Link = tuple[int, int]
Four = tuple[Fraction, Fraction, Fraction, Fraction]


class Document(NamedTuple):
    key: list[Cluster]
    response: list[Cluster]


def documents(key: Sequence[int], response: Sequence[int], groups: Sequence[int] | None) -> list[Document]:
    """Mentions are places in the arrays; -1 leaves a mention out of a side."""
    named = [0] * len(key) if groups is None else list(groups)
    return [Document(clusters(key, named, name), clusters(response, named, name)) for name in sorted(set(named))]


def clusters(ids: Sequence[int], groups: Sequence[int], name: int) -> list[Cluster]:
    here = [i for i in range(len(ids)) if groups[i] == name and ids[i] != -1]
    return [frozenset(i for i in here if ids[i] == cluster) for cluster in sorted({ids[i] for i in here})]


def swapped(document: Document) -> Document:
    return Document(document.response, document.key)


def four_sums(one_side: Callable[[Document], tuple[Fraction, Fraction]], docs: list[Document]) -> Four:
    """Sums over documents of a metric given by its recall."""
    recalls, precisions = [one_side(d) for d in docs], [one_side(swapped(d)) for d in docs]
    recall_part, recall_whole = (sum((r[i] for r in recalls), Fraction(0)) for i in (0, 1))
    precision_part, precision_whole = (sum((p[i] for p in precisions), Fraction(0)) for i in (0, 1))
    return recall_part, recall_whole, precision_part, precision_whole


def home(mention: int, side: list[Cluster]) -> Cluster | None:
    return next((cluster for cluster in side if mention in cluster), None)


def muc(document: Document) -> tuple[Fraction, Fraction]:
    """Links missing to join the parts into which the response cuts a key cluster."""
    part = whole = 0
    for cluster in document.key:
        parts = {home(m, document.response) or frozenset({m}) for m in cluster}
        pieces = {piece & cluster for piece in parts}
        assert frozenset().union(*pieces) == cluster
        part += len(cluster) - len(pieces)
        whole += len(cluster) - 1
    return Fraction(part), Fraction(whole)


def b_cubed(document: Document) -> tuple[Fraction, Fraction]:
    """Mention by mention: the share of its key cluster that its response cluster holds."""
    shares = [
        Fraction(len(cluster & (home(mention, document.response) or frozenset())), len(cluster))
        for cluster in document.key
        for mention in cluster
    ]
    return sum(shares, Fraction(0)), Fraction(len(shares))


def best_matching(document: Document, similarity: Callable[[Cluster, Cluster], Fraction]) -> Fraction:
    """Every one-to-one matching of the smaller side into the larger one."""
    small, large = sorted(document, key=len)
    totals = (
        sum((similarity(a, b) for a, b in zip(small, chosen, strict=True)), Fraction(0))
        for chosen in permutations(large, len(small))
    )
    return max(totals)


def ceaf_m(document: Document) -> tuple[Fraction, Fraction]:
    matched = best_matching(document, lambda a, b: Fraction(len(a & b)))
    return matched, Fraction(sum(map(len, document.key)))


def ceaf_e(document: Document) -> tuple[Fraction, Fraction]:
    matched = best_matching(document, lambda a, b: Fraction(2 * len(a & b), len(a) + len(b)))
    return matched, Fraction(len(document.key))


def lea(document: Document) -> tuple[Fraction, Fraction]:
    """Size times the share of links resolved; a singleton is linked to itself, and resolved by a singleton."""
    part = Fraction(0)
    for cluster in document.key:
        if len(cluster) == 1:
            part += cluster in document.response
            continue
        links = list(combinations(cluster, 2))
        resolved = [link for link in links if any(set(link) <= other for other in document.response)]
        part += len(cluster) * Fraction(len(resolved), len(links))
    return part, Fraction(sum(map(len, document.key)))


def exact(smallest: int) -> Callable[[Document], tuple[Fraction, Fraction]]:
    def one_side(document: Document) -> tuple[Fraction, Fraction]:
        large = [cluster for cluster in document.key if len(cluster) >= smallest]
        return Fraction(sum(cluster in document.response for cluster in large)), Fraction(len(large))

    return one_side


def links(side: list[Cluster]) -> tuple[set[Link], set[Link]]:
    """Pairs of mentions of a side in one cluster, and in two."""
    together = {pair for cluster in side for pair in combinations(sorted(cluster), 2)}
    everyone = sorted(mention for cluster in side for mention in cluster)
    return together, set(combinations(everyone, 2)) - together


def blanc(docs: list[Document]) -> tuple[float, float, float]:
    """Luo et al. 2014 with counts added over documents: recall, precision, F1; kinds the key lacks do not count."""
    rates = []
    for kind in (0, 1):
        key = sum(len(links(d.key)[kind]) for d in docs)
        response = sum(len(links(d.response)[kind]) for d in docs)
        both = sum(len(links(d.key)[kind] & links(d.response)[kind]) for d in docs)
        if key:
            rates.append((both / key, both / response if response else 0.0, 2 * both / (key + response)))
    if not rates:
        return 0.0, 0.0, 0.0
    recall, precision, f1 = (sum(column) / len(rates) for column in zip(*rates, strict=True))
    return recall, precision, f1


def pair_counts(docs: list[Document]) -> tuple[int, int, int, int]:
    """Pairs of mentions of either side; linked by both, by the response alone, by the key alone."""
    pairs = right = wrong = missed = 0
    for document in docs:
        mentions = sorted(frozenset().union(*document.key, *document.response))
        for pair in combinations(mentions, 2):
            in_key, in_response = (any(set(pair) <= cluster for cluster in side) for side in document)
            pairs += 1
            right += in_key and in_response
            wrong += in_response and not in_key
            missed += in_key and not in_response
    return pairs, right, wrong, missed
