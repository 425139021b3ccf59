"""What a page about clusters holds: items, pairs, and where the log-odds of each pair come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.certain import Always, Decided, Never, as_certain
from kinfolk.linking.clusterers import why_not_joined
from kinfolk.linking.explain import (
    CALIBRATED,
    ClusterExplanation,
    Split,
    field_value,
    field_values,
    pair_shares,
    short,
    shown_clusters,
    spanning_pairs,
    strengths,
    two_items,
    verdict,
    weakest_link,
)
from kinfolk.linking.mention_table import PRONOUNS
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.scores import all_scores, pairs_after, pairs_before
from kinfolk.linking.training import item_pairs
from kinfolk.report.page import Part, PathLike, write_report
from kinfolk.report.scores import (
    MOST_MISTAKES,
    Confusion,
    calibration,
    chart,
    matrix_part,
    score_part,
    write_scores,
)
from kinfolk.text.corpus import in_context, words_in_context

Array = NDArray[Any]
# What a page holds at most, so that it opens at once.
FEW, MANY = (80, 120), (30, 45)  # items and pairs of a cluster, on a page of one or two clusters, and of more
STEPS = 12  # contributions of a pair; the rest is summed up
SURE = 0.05  # probabilities within so little of 0 or 1 are taken as sure
REFUSED = 6  # pairs of a cluster with items of others
GIVEN = 10  # must-links, and cannot-links, of a cluster
FIELDS = 24
LETTERS = 160  # of a value
AROUND = 18  # words of the sentence on each side of a mention


def link_payload(linked: Linked, splits: Sequence[Split], pair: tuple[int, ...] = ()) -> dict[str, Any]:
    """Everything the page shows. `pair`: two items it opens with, which need be no candidates."""
    page = LinkPage(linked)
    if pair:
        page.pair(pair[0], pair[1])
    limits = FEW if len(splits) <= 2 else MANY
    clusters = [page.cluster(split, *limits, pair) for split in splits]
    items = linked.items
    return {
        "text": items.corpus is not None,
        "fields": page.fields,
        "tables": items.first_table is not None,
        "threshold": linked.threshold,
        "total": linked.n_clusters,
        "opened": 0 if pair else None,  # the number of the pair
        "clusters": clusters,
        "items": [page.item_data(i) for i in page.items],
        **page.pair_data(),
    }


class LinkPage:
    """Items and pairs of the page, each once, numbered as they come."""

    def __init__(self, linked: Linked) -> None:
        self.linked = linked
        self.items: dict[int, int] = {}
        self.pairs: dict[tuple[int, int], int] = {}
        self._candidates: list[int] = []  # the candidate pair of each, -1: it is none
        columns = linked.items.columns
        hidden = {"text"} if linked.items.corpus is not None else set()  # it stands in its sentence
        self.fields = [name for name in columns if name not in hidden][:FIELDS]

    def item(self, number: int) -> int:
        return self.items.setdefault(int(number), len(self.items))

    def pair(self, low: int, high: int, candidate: int | None = None) -> int:
        key = (int(low), int(high))
        if key not in self.pairs:
            self.item(low), self.item(high)
            self.pairs[key] = len(self.pairs)
            self._candidates.append(self.linked.candidate(low, high) if candidate is None else candidate)
        return self.pairs[key]

    def cluster(self, split: Split, most_items: int, most_pairs: int, asked: tuple[int, ...]) -> dict[str, Any]:
        linked, items = self.linked, self.linked.items
        refused = self._refused(split.members)
        must, cannot = (
            links[np.isin(links, split.members).any(axis=1)][:GIVEN] for links in (linked.must, linked.cannot)
        )
        wanted = (*asked, *items.left[refused], *items.right[refused], *must.ravel(), *cannot.ravel())
        shown = self._shown_items(split, most_items, wanted)
        inside = self._shown_pairs(split, shown, most_pairs)
        place = dict(zip(split.members.tolist(), range(len(split.members)), strict=True))
        local = {int(k): self.pair(items.left[k], items.right[k], int(k)) for k in (*inside, *refused)}
        within, across = ([local[int(k)] for k in pairs] for pairs in (inside, refused))
        if asked and any(i in place for i in asked):
            own = within if all(i in place for i in asked) else across
            own += [self.pairs[asked[0], asked[1]]] * (self.pairs[asked[0], asked[1]] not in own)
        truth = None if items.clusters is None else items.clusters[split.members]
        return {
            "name": _cluster_name(items, split.members),
            "size": len(split.members),
            "items": [self.item(i) for i in shown],
            "sides": None if split.side is None else [int(not split.side[place[int(i)]]) for i in shown],
            "parts": [] if split.side is None else [int(split.side.sum()), int((~split.side).sum())],
            "weakest": None if split.weakest is None else local[split.weakest],
            "inside": within,
            "pairs": len(split.inside),
            "holding": [local[int(k)] for k in split.holding if int(k) in local],
            "held": len(split.holding),
            "refused": across,
            "must": [[self.item(i) for i in link] for link in must],
            "cannot": [[self.item(i) for i in link] for link in cannot],
            "truths": None if truth is None or (truth < 0).any() else len({*truth.tolist()}),
        }

    def _shown_items(self, split: Split, most: int, wanted: Sequence[int]) -> Array:
        """Members, in order: those wanted, the ends of the weakest link, some of the smaller part, then the first."""
        items, own = self.linked.items, {*split.members.tolist()}
        first = [int(item) for item in wanted if item in own]
        if split.weakest is not None and split.side is not None:
            first += [int(items.left[split.weakest]), int(items.right[split.weakest])]
            parts = sorted((split.members[split.side], split.members[~split.side]), key=len)
            first += parts[0][: most // 2].tolist()
        return np.array(sorted([*dict.fromkeys([*first, *split.members.tolist()])][:most]), np.int64)

    def _shown_pairs(self, split: Split, shown: Array, most: int) -> Array:
        """Pairs among the items shown: the weakest link, what holds the parts together, the spanning tree from its
        weakest pair on, the least probable pairs."""
        items, p = self.linked.items, self.linked.probability
        there = np.isin(items.left[split.inside], shown) & np.isin(items.right[split.inside], shown)
        inside = split.inside[there]
        tree = inside[spanning_pairs(items.n_items, items.left[inside], items.right[inside], p[inside])]
        weakest = [] if split.weakest is None else [split.weakest]
        holding = split.holding[np.isin(split.holding, inside)][: most // 3]
        others = inside[np.argsort(p[inside], kind="stable")]
        order = [*weakest, *holding.tolist(), *tree.tolist(), *others.tolist()]
        chosen = np.array([*dict.fromkeys(order)][:most], np.int64)
        return chosen[np.argsort(-p[chosen], kind="stable")]

    def _refused(self, members: Array) -> Array:
        """The most probable candidate pairs with items of other clusters."""
        items, p = self.linked.items, self.linked.probability
        own = np.isin(np.arange(items.n_items), members)
        across = np.flatnonzero(own[items.left] != own[items.right])
        return across[np.argsort(-p[across], kind="stable")[:REFUSED]]

    def item_data(self, number: int) -> dict[str, Any]:
        items = self.linked.items
        values = [field_value(items, name, number) for name in self.fields]
        data: dict[str, Any] = {"id": items.name(number)}
        data["values"] = [None if value is None else short(value, LETTERS) for value in values]
        if items.group_names is not None:
            data["document"] = items.group_name(int(items.groups[number]))
        if items.first_table is not None:
            data["table"] = 1 + int(number >= items.first_table)
        if items.clusters is not None and items.clusters[number] >= 0:
            data["truth"] = int(items.clusters[number])
        if items.corpus is not None and items.spans is not None:  # a mention within its sentence
            start, end = map(int, items.spans[number])
            before, mention, after = in_context(items.corpus, start, end, AROUND)
            data |= {"before": before, "mention": short(mention, 2 * LETTERS), "after": after}
        return data

    def pair_data(self) -> dict[str, Any]:
        """base, features (the names of weights), pairs: score = base + Σ steps + rest."""
        linked, linker = self.linked, self.linked.linker
        left, right = np.array([*self.pairs], np.int32).reshape(-1, 2).T
        learned = linker.pair_set_, linker.weights_, linker.shares_
        found = pair_shares(*learned, linked.items, left, right, linker._probabilities.of_log_odds)
        names, numbers = [*linker.pair_set_.weight_names(), CALIBRATED], dict[int, int]()
        pairs = []
        for k, (low, high) in enumerate(self.pairs):
            order = np.argsort(-np.abs(found.shares[k]), kind="stable")
            steps = [(numbers.setdefault(int(found.on[k, m]), len(numbers)), found.shares[k, m]) for m in order[:STEPS]]
            number = self._candidates[k]
            known = number >= 0
            p = float(linked.probability[number]) if known else linker.explain(linked.items, low, high).probability
            together = bool(linked.clusters[low] == linked.clusters[high])
            one = {"a": self.items[low], "b": self.items[high], "p": p, "score": found.score[k], "steps": steps}
            if len(order) > STEPS:
                one |= {"others": len(order) - STEPS, "rest": found.shares[k, order[STEPS:]].sum()}
            pairs.append({**one, "together": together, "verdict": linked.verdict(low, high, number)})
        return {"base": found.base, "features": [names[w] for w in numbers], "pairs": pairs}


def _cluster_name(items: Mentions, members: Array) -> str:
    """Mentions: the text that most of them have, pronouns aside; records: what most have in the first two fields."""
    text = items.columns.get("text")
    if items.corpus is not None and isinstance(text, Column):
        return short(_commonest([text.values[code] for code in text.codes[members] if code >= 0], PRONOUNS))
    fields = ([field_value(items, name, int(i)) for i in members] for name in [*items.columns][:2])
    common = (short(_commonest([value for value in values if value is not None])) for values in fields)
    return " ".join(filter(None, common)) or items.name(int(members[0]))


def _commonest(texts: list[str], but: Any = ()) -> str:
    """The text that is there most often, the earlier of two; one of `but` only if there is no other."""
    counted = Counter(text for text in texts if text.lower() not in but) or Counter(texts)
    return counted.most_common(1)[0][0] if counted else ""


# -- Explanations of the clusters a linker finds, as answers and as pages to look at -------------------


@dataclass(frozen=True, eq=False)
class Linked:
    """What a linker made of items. `clusters` are numbered from 0; `must`, `cannot` are the links given (m, 2)."""

    linker: Any  # a fitted Linker, which imports this module
    items: Mentions
    probability: Array
    clusters: Array
    must: Array
    cannot: Array

    @classmethod
    def of(
        cls, linker: Any, items: Mentions, probability: Any = None, clusters: Any = None, must: Any = None,
        cannot: Any = None,
    ) -> Linked:  # fmt: skip
        """With the probabilities and clusters given, or as the linker finds them."""
        if probability is None and clusters is None:
            paired, p, found = linker.linked(items, must, cannot)
        elif probability is None:
            (paired, p), found = linker.compared(items), clusters
        else:
            paired, p = linker.candidates(items), np.asarray(probability)
            found = linker.cluster(paired, p, must, cannot) if clusters is None else clusters
        numbered = np.unique(found, return_inverse=True)[1]
        given = (item_pairs(paired, () if links is None else links) for links in (must, cannot))
        return cls(linker, paired, p, numbered, *given)

    @property
    def n_clusters(self) -> int:
        return int(self.clusters.max(initial=-1)) + 1

    @property
    def threshold(self) -> float:
        return float(self.linker.clusterer_.threshold)

    def split(self, cluster: int) -> Split:
        """The weakest link of a cluster; pairs above the threshold hold it together."""
        items, clusters = self.items, self.clusters
        members = np.flatnonzero(clusters == cluster)
        inside = np.flatnonzero((clusters[items.left] == cluster) & (clusters[items.right] == cluster))
        left, right, p = items.left[inside], items.right[inside], self.probability[inside]
        weakest = weakest_link(members, left, right, p)
        if weakest is None:
            return Split(members, inside)
        pair, side = weakest
        one = np.isin(np.arange(items.n_items), members[side])
        crossing = np.flatnonzero((one[left] != one[right]) & (p > self.threshold))
        crossing = crossing[np.argsort(-p[crossing], kind="stable")]
        return Split(members, inside, int(inside[pair]), side, inside[crossing])

    def explained(self, split: Split) -> ClusterExplanation:
        """The same in the names of the items."""
        items, title = self.items, self.items.title

        def named(numbers: Array) -> tuple[str, ...]:
            return tuple(title(int(i)) for i in numbers)

        names, weakest, side = named(split.members), split.weakest, split.side
        if weakest is None or side is None:
            return ClusterExplanation(names, None, None, (), ())
        (a, b, p), *holding = [
            (title(int(items.left[k])), title(int(items.right[k])), float(self.probability[k]))
            for k in (weakest, *split.holding)
        ]
        parts = named(split.members[side]), named(split.members[~side])
        return ClusterExplanation(names, (a, b), p, parts, tuple(holding))

    def candidate(self, low: int, high: int) -> int:
        """The number of a candidate pair; -1: it is none."""
        found = np.flatnonzero((self.items.left == low) & (self.items.right == high))
        return int(found[0]) if len(found) else -1

    def verdict(self, low: int, high: int, candidate: int) -> str:
        """What became of two items, low < high, in words, and why where the clustering had the last one."""
        p = float(self.probability[candidate]) if candidate >= 0 else 0.0
        together = bool(self.clusters[low] == self.clusters[high])
        ruled = self._by_rule(low, high, together)
        if ruled:
            return ruled
        reason = ""
        if p > self.threshold and not together:
            clusterer = self.linker.clusterer_
            reason = why_not_joined(clusterer, self.items, self.probability, self.clusters, low, high, self.cannot)
        return verdict(p, self.threshold, candidate >= 0, together, reason)

    def _by_rule(self, low: int, high: int, together: bool) -> str:
        """Where a rule had the last word: which."""
        if self.linker.rules is None:
            return ""
        decided = Decided(as_certain(self.linker.rules), self.items)
        wanted = Always if together else Never
        own = next((reason for rule, reason in decided.reasons(low, high) if isinstance(rule, wanted)), "")
        if own:
            return f"{'linked' if together else 'kept apart'} by a rule: {own}"
        if together:
            return ""
        mine, other = (np.flatnonzero(self.clusters == self.clusters[one]) for one in (low, high))
        found = decided.forbidden_between(mine, other)
        if found is None:
            return ""
        a, b = map(self.items.title, found[:2])
        return f"kept apart by a rule, as {a} and {b} in their clusters have {found[2]}"

    def explain(self, item: int | str, report: PathLike | None = None) -> ClusterExplanation:
        """The cluster of an item."""
        number = self.items.number(item)
        if not 0 <= number < self.items.n_items:
            raise InputError(f"expected an item among {self.items.n_items}, counted from 0; got {item!r}")
        split = self.split(int(self.clusters[number]))
        if report is not None:
            _write(report, f"The cluster of {self.items.title(number)}", self, [split])
        return self.explained(split)

    def explain_many(self, most: int, report: PathLike | None = None) -> list[ClusterExplanation]:
        """The most uncertain, the largest and the most nearly joined clusters, at most `most` in all."""
        if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
            raise SettingError("most", most, "a number of clusters, 1 or more")
        splits = self.splits(int(most))
        if report is not None:
            kind = "records" if self.items.corpus is None else "mentions"
            _write(report, f"Clusters of {self.items.n_items:,} {kind}", self, splits)
        return [self.explained(split) for split in splits]

    def splits(self, most: int) -> list[Split]:
        """Of the clusters most worth looking at."""
        weakest, nearest = strengths(self.items, self.probability, self.clusters)
        sizes = np.bincount(self.clusters)
        return [self.split(cluster) for cluster in shown_clusters(weakest, nearest, sizes, most)]

    def payload(self, most: int) -> dict[str, Any]:
        """What a report shows of them."""
        return link_payload(self, self.splits(most))

    def write_pair(self, left: int | str, right: int | str, report: PathLike) -> None:
        """A page about two items: the cluster or clusters they are in, opened at the pair."""
        low, high = two_items(self.items, left, right)
        splits = [self.split(int(c)) for c in dict.fromkeys([self.clusters[low], self.clusters[high]])]
        title = f"{self.items.title(low)} and {self.items.title(high)}"
        _write(report, title, self, splits, (low, high))


def _write(path: PathLike, title: str, linked: Linked, splits: Sequence[Split], pair: tuple[int, ...] = ()) -> None:
    items, linker = linked.items, linked.linker
    documents = f"{items.n_groups:,} document{'s' * (items.n_groups != 1)}"
    kind = "records" if items.corpus is None else f"mentions in {documents}"
    pairs, clusters = f"{items.n_pairs:,} candidate pairs", f"{linked.n_clusters:,} clusters by {linker.clusterer_!r}"
    about = f"{items.n_items:,} {kind}, {pairs}, {clusters}."
    heading = "Clusters" if len(splits) > 1 else "The cluster"
    write_report(path, title, [Part("links", heading, link_payload(linked, splits, pair))], about)


# -- scores -------------------------------------------------------------------------------------------

UNCERTAIN = 0.01  # pairs with a probability from here to 1 minus this are shown by themselves
FEW_PAIRS = 4  # pairs shown of each kind but the first
LARGEST = 300  # items of a cluster among whose pairs examples are looked for


def evaluate_pairs(
    linker: Any, items: Mentions, probability: Array, clusters: Array, report: PathLike | None
) -> dict[str, Any]:
    """What `Linker.evaluate` answers; with `report` also a page."""
    answer = all_scores(items, clusters, probability > 0.5)
    answer["calibration"] = calibration_scores(probability, items.pair_labels)
    if report is not None:
        what = "records" if items.corpus is None else f"mentions in {items.n_groups} documents"
        size = f"{items.n_items} {what}, {items.n_pairs} candidate pairs"
        write_scores(report, linker, pair_part(items, probability, clusters, answer), size)
    return answer


def calibration_scores(probability: Array, labels: Array) -> dict[str, float]:
    """How far probabilities of pairs can be believed, of those whose truth is known: the expected calibration error in
    ten bins of equal width, Σ_b n_b / n · |share of matches - mean probability|; the same of pairs that are not sure,
    between 5 % and 95 %; and their mean squared error (Brier)."""
    known = labels >= 0
    p, y = probability[known], labels[known] == 1
    unsure = (p > SURE) & (p < 1 - SURE)
    return {
        "error": _expected_error(p, y),
        "error of unsure": _expected_error(p[unsure], y[unsure]),
        "unsure": float(unsure.mean()) if len(p) else 0.0,
        "brier": float(((p - y) ** 2).mean()) if len(p) else 0.0,
    }


def _expected_error(p: Array, y: Array, bins: int = 10) -> float:
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, p, bins) - np.bincount(place, y, bins)  # of the sums in each bin
    return float(np.abs(gap).sum() / max(len(p), 1))


def pair_part(items: Mentions, probability: Array, clusters: Array, scores: dict[str, Any]) -> Part:
    labels = items.pair_labels
    known = labels >= 0
    uncertain = known & (probability >= UNCERTAIN) & (probability <= 1 - UNCERTAIN)
    found = [calibration(probability[chosen], labels[chosen] == 1) for chosen in (uncertain, known)]
    charts = [
        chart("Uncertain pairs", "each candidate pair with a probability from 1 % to 99 %", found[0]),
        chart("All candidate pairs", "each candidate pair", found[1]),
    ]
    if len(np.unique(np.round(50 * found[1].predicted))) <= 2:  # with nearly all pairs at 0 there is nothing to see
        charts.pop()
    charts = [{**curve, "right": "belong together"} for curve in charts]
    after, before = pairs_after(items, clusters), pairs_before(items, probability > 0.5)
    matrices = [
        matrix_part("After clustering", "All pairs of items, candidates or not.", _two_by_two(after)),
        matrix_part(
            "Before clustering", "Candidates each on its own, and true pairs that are none.", _two_by_two(before)
        ),
    ]
    headline = [
        ["pair F1", after.f1, "pairs put together, after clustering"],
        ["precision", after.precision, f"of {after.true_positives + after.false_positives} pairs put together"],
        ["recall", after.recall, f"of {after.true_positives + after.false_negatives} true pairs"],
        ["cluster F1", scores["clusters"]["f1"], "clusters that are right as a whole"],
    ]
    rates = {name: found if isinstance(found, dict) else {"f1": found} for name, found in scores.items()}  # means of F1
    rates.pop("calibration", None)  # it has curves
    rows = [[name, *(found.get(key) for key in ("recall", "precision", "f1"))] for name, found in rates.items()]
    headings = ["metric", "recall", "precision", "F1"]
    table = {"title": "By metric", "headings": headings, "rows": rows, "share": [1, 2, 3]}
    mistakes = pair_mistakes(items, probability, clusters)
    return score_part(headline, table, charts, matrices, "pairs", mistakes.pop("rows"), **mistakes)


def _two_by_two(scores: Any) -> Confusion:
    right, wrong, missed = scores.true_positives, scores.false_positives, scores.false_negatives
    counts = np.array([[scores.pairs - right - wrong - missed, wrong], [missed, right]], np.int64)
    return Confusion(("apart", "together"), counts)


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
    n_split, refused, accepted = (
        int(chosen.sum()) for chosen in (split, (truth == 1) & ~linked & ~together, (truth == 0) & linked & together)
    )
    unseen, joined = after.false_negatives - n_split - refused, after.false_positives - accepted
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

    others = [
        ("True pairs that were never candidates", unseen and found(true, clusters, keys)),
        ("True pairs that were accepted, and split by the clustering", rows(split, FEW_PAIRS)),
        ("Different ones, joined by way of others", joined and found(clusters, true, keys[linked])),
    ]
    shown = [{"title": title, "rows": pairs} for title, pairs in others if pairs]
    before = _before(items.n_pairs, int(wrong.sum()), int((wrong & ((truth == 1) == together)).sum()))
    missed = {
        "never candidates, as blocking left them out": unseen,
        "decided wrongly": refused,
        "accepted, but split by the clustering": n_split,
    }
    mixed = {"decided wrongly": accepted, "joined by way of others": joined}
    counts = f"{_sum('true pair', 'missed', missed)}, and {_sum('pair', 'wrongly together', mixed)}"
    return {"told": f"{before} After clustering {counts}.", "rows": rows(wrong, MOST_MISTAKES), "others": shown}


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
        if len(found) >= FEW_PAIRS:
            break
    return found


def _before(pairs: int, wrong: int, right_after: int) -> str:
    if not wrong:
        return f"All {pairs:,} candidate pairs are decided rightly, each on its own."
    decided = f"{wrong:,} {'are' if wrong > 1 else 'is'} decided wrongly, each on its own"
    return f"Of {pairs:,} candidate pairs {decided}; clustering set {right_after:,} right."


def _sum(what: str, word: str, parts: dict[str, int]) -> str:
    total = sum(parts.values())
    if not total:
        return f"no {what} is {word}"
    counts = "; ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{total:,} {what}{'s are' if total > 1 else ' is'} {word} ({counts})"


def both_items(items: Mentions, low: int, high: int) -> dict[str, Any]:
    """Two mentions in their sentences, or the fields of two records."""
    if items.corpus is not None and items.spans is not None:
        texts = [words_in_context(items.corpus, *map(int, items.spans[i])) for i in (low, high)]
        return {"texts": texts, "where": items.group_name(int(items.groups[low]))}
    return {"fields": [[name, *values] for name, *values in field_values(items, low, high)]}
