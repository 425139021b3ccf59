"""`kinfolk explain` for mentions and records: why two are linked, and what holds a cluster together."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinfolk.cli.output import show, show_json
from kinfolk.cli.pages import tell_page
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.cli_files import ClusterOptions, SourceOptions
from kinfolk.linking.mention_files import in_words, items_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinfolk.linking.explain import LinkExplanation
    from kinfolk.linking.mentions import Mentions


def explain_links(
    linker: Any,
    model: Path,
    ids: list[str],
    source: SourceOptions,
    clustering: ClusterOptions,
    top: int,
    as_json: bool,
    report: Path | None,
    jobs: int,
) -> None:
    """Two ids: their pair. One: the cluster it is in. None: a page about many clusters."""
    from kinfolk.linking.cluster_files import item_ids

    if len(ids) > 2:
        raise SettingError(f"explain takes one id or two; got {len(ids)}")
    if not ids and report is None:
        raise SettingError("give one id or two; or --report PAGE.html, for a page about the clusters")
    items, _ = items_for(linker, model, source, clustering, jobs)
    chosen = _chosen(items, ids)
    items, probability = linker.compared(items)
    with in_words():
        found = linker.cluster(items, probability)
    named = replace(items, names=item_ids(items))
    answer = _Answer(linker, named, probability, found, report)
    told, plain = answer.pair(chosen[0], chosen[1], top) if len(chosen) == 2 else answer.clusters(*chosen)
    tell_page(report)
    if as_json:
        show_json(plain)
    elif told:
        show([told])


def _chosen(items: Mentions, ids: list[str]) -> list[int]:
    """The numbers of the items asked for, in rising order."""
    from kinfolk.linking.cluster_files import item_number, item_places

    place = item_places(items) if ids else {}
    chosen = [item_number(key, place) for key in ids]
    if len({*chosen}) < len(chosen):
        raise InputError(f"expected two different items; got {ids[0]!r} twice")
    if len({*items.groups[chosen]}) > 1:
        raise InputError(f"{ids[0]!r} and {ids[1]!r} are in different documents, whose mentions are never linked")
    return sorted(chosen)


class _Answer:
    """What is told, in words and plainly for JSON; a page is written on the way."""

    def __init__(
        self, linker: Any, items: Mentions, probability: NDArray[Any], clusters: NDArray[Any], report: Path | None
    ) -> None:
        self.linker, self.items, self.report = linker, items, report
        self.known = {"probability": probability, "clusters": clusters}

    def pair(self, low: int, high: int, top: int) -> tuple[str, Any]:
        from kinfolk.linking.link_report import Linked

        items, clusters = self.items, self.known["clusters"]
        answer = self.linker.explain(items, low, high, **self.known, report=self.report)
        linked = Linked.of(self.linker, items, **self.known)
        number = linked.candidate(low, high)
        candidate, together = number >= 0, bool(clusters[low] == clusters[high])
        became = linked.verdict(low, high, number)
        plain = asdict(replace(answer, left=items.name(low), right=items.name(high)))
        return f"{_shortened(answer, top)}\n{became}", {**plain, "candidate": candidate, "together": together}

    def clusters(self, item: int | None = None) -> tuple[str, Any]:
        bare = replace(self.items, columns={})  # ids alone, without texts
        if item is None:
            self.linker.explain_clusters(self.items, **self.known, report=self.report)
            return "", [asdict(one) for one in self.linker.explain_clusters(bare, **self.known)]
        answer = self.linker.explain_cluster(self.items, item, **self.known, report=self.report)
        return str(answer), asdict(self.linker.explain_cluster(bare, item, **self.known))


def _shortened(answer: LinkExplanation, top: int) -> LinkExplanation:
    """The largest contributions, and the sum of the others as one more."""
    from kinfolk.linking.explain import Contribution

    shown, others = answer.contributions[:top], answer.contributions[top:]
    rest = (Contribution(f"{len(others)} others", sum(one.share for one in others)),) if others else ()
    return replace(answer, contributions=(*shown, *rest))
