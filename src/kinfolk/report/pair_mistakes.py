"""Where a linker errs: pairs decided wrongly, never looked at, split by the clustering, or joined by way of others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.linking.link_scores import pairs_after
from kinfolk.linking.mentions import Mentions
from kinfolk.report.mistakes import MOST, both_items

Array = NDArray[Any]
FEW = 4  # pairs shown of each kind but the first
LARGEST = 300  # items of a cluster among whose pairs examples are looked for


def pair_mistakes(items: Mentions, probability: Array, clusters: Array) -> dict[str, Any]:
    """{told, rows, others}: the numbers in words, candidates decided wrongly, and a few pairs of each other kind.

    What is missed after clustering was never a candidate, or decided wrongly, or split by the clustering; what is
    wrongly together was decided wrongly, or joined by way of others. The five numbers add up to the two of the table.
    """
    true = np.asarray(items.clusters)
    truth, linked = items.pair_labels, probability > 0.5
    together = clusters[items.left] == clusters[items.right]
    wrong = (truth >= 0) & ((truth == 1) != linked)
    after = pairs_after(items, clusters)
    split = (truth == 1) & linked & ~together
    refused = int(((truth == 1) & ~linked & ~together).sum())
    accepted = int(((truth == 0) & linked & together).sum())
    unseen = after.false_negatives - int(split.sum()) - refused
    joined = after.false_positives - accepted
    sure = np.maximum(probability, 1 - probability)
    keys = items.left.astype(np.int64) * items.n_items + items.right  # of candidates

    def rows(chosen: Array, most: int) -> list[dict[str, Any]]:
        best = np.flatnonzero(chosen)
        best = best[np.argsort(-sure[best], kind="stable")][:most].tolist()
        return [_row(items, clusters, int(items.left[k]), int(items.right[k]), probability[k]) for k in best]

    def found(one: Array, other: Array, but: Array) -> list[dict[str, Any]]:
        pairs = _examples(items, one, other, but)
        given = [probability[keys == a * items.n_items + b] for a, b in pairs]
        return [_row(items, clusters, a, b, p[0] if len(p) else None) for (a, b), p in zip(pairs, given, strict=True)]

    numbers = (unseen, refused, int(split.sum()), accepted, joined)
    right_after = int((wrong & ((truth == 1) == together)).sum())
    others = [
        ("True pairs that were never candidates", unseen and found(true, clusters, keys)),
        ("True pairs that were accepted, and split by the clustering", rows(split, FEW)),
        ("Different ones, joined by way of others", joined and found(clusters, true, keys[linked])),
    ]
    told = [_told(items.n_pairs, int(wrong.sum()), right_after), _after(*numbers)]
    shown = [{"title": title, "rows": pairs} for title, pairs in others if pairs]
    return {"told": " ".join(told), "rows": rows(wrong, MOST), "others": shown}


def _row(items: Mentions, clusters: Array, low: int, high: int, probability: float | None) -> dict[str, Any]:
    return {
        "names": [items.name(low), items.name(high)],
        "together": bool(items.clusters[low] == items.clusters[high]),  # type: ignore[index]
        "probability": probability,
        "clustered": bool(clusters[low] == clusters[high]),
        **both_items(items, low, high),
    }


def _examples(items: Mentions, one: Array, other: Array, but: Array) -> list[tuple[int, int]]:
    """A few pairs that are alike in the one clustering and not in the other, at most one a cluster; none of `but`."""
    n, known = items.n_items, items.clusters >= 0  # type: ignore[operator]
    key = one.astype(np.int64) * (int(other.max(initial=0)) + 2) + other
    of_one = one[np.unique(np.where(known, key, -1), return_index=True)[1]]  # once for each part of each cluster
    mixed, parts = np.unique(of_one, return_counts=True)
    found: list[tuple[int, int]] = []
    for cluster in mixed[parts > 1].tolist():
        members = np.flatnonzero(known & (one == cluster))[:LARGEST]
        a, b = (members[side] for side in np.triu_indices(len(members), 1))
        fits = (other[a] != other[b]) & (items.groups[a] == items.groups[b]) & ~np.isin(a * n + b, but)
        if items.first_table is not None:
            fits &= (a < items.first_table) != (b < items.first_table)
        place = np.flatnonzero(fits)[:1]
        found += zip(a[place].tolist(), b[place].tolist(), strict=True)
        if len(found) >= FEW:
            break
    return found


def _told(pairs: int, wrong: int, right_after: int) -> str:
    if not wrong:
        return f"All {pairs:,} candidate pairs are decided rightly, each on its own."
    told = f"Of {pairs:,} candidate pairs {wrong:,} {'are' if wrong > 1 else 'is'} decided wrongly, each on its own"
    return f"{told}; clustering set {right_after:,} right."


def _after(unseen: int, refused: int, split: int, accepted: int, joined: int) -> str:
    missed = {
        "never candidates, as blocking left them out": unseen,
        "decided wrongly": refused,
        "accepted, but split by the clustering": split,
    }
    wrong = {"decided wrongly": accepted, "joined by way of others": joined}
    return f"After clustering {_sum('true pair', 'missed', missed)}, and {_sum('pair', 'wrongly together', wrong)}."


def _sum(what: str, word: str, parts: dict[str, int]) -> str:
    total = sum(parts.values())
    if not total:
        return f"no {what} is {word}"
    told = "; ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{total:,} {what}{'s are' if total > 1 else ' is'} {word} ({told})"
