"""The page that `kinfolk demo` writes about its three worlds: what the company adds, and a case of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kinfolk.cli.demo_worlds import Comparison, DemoWorlds
    from kinfolk.report.page import Part

ABOUT = (
    "Three generated worlds. In each, one model looks at things one by one, another also at the company they keep; "
    "both learned from the same part with the same features, and are scored on the rest."
)
CLUSTERS = 12
DOCUMENTS = 10  # among the first so many the one with the most long edges is shown


def write_demo_report(path: Path, worlds: DemoWorlds) -> Path:
    """Write one page about the trained models and what they say of their test data; its path."""
    from kinfolk.report.report_files import write_report
    from kinfolk.report.training import training_part

    parts = [_gains(worlds.comparisons), _document(worlds), _node(worlds), _clusters(worlds)]
    trained = training_part(worlds.tagger)
    write_report(path, "What the company adds", [*parts, *([trained] if trained else [])], ABOUT)
    return path


def _gains(comparisons: tuple[Comparison, ...]) -> Part:
    from kinfolk.report.page import Part

    headings = ["task", "gain", "alone", "with company", "measured by"]
    rows = [
        [one.task, f"{one.gain:+.1f}", f"{one.local_score:.1f}, {one.local}", f"{one.company_score:.1f}, {one.company}",
         f"{one.measured}; {one.seconds:.0f} s"]
        for one in comparisons
    ]  # fmt: skip
    note = "Percent, on what neither model has seen. kinfolk demo --seeds 5 tells how much the gains differ by world."
    data = {"headings": headings, "rows": rows, "number": [1], "note": note}
    return Part("table", "Alone and with company", data)


def _document(worlds: DemoWorlds) -> Part:
    """The text with the most names that look at each other."""
    from kinfolk.text.batch import Batch
    from kinfolk.text.explain import label_document, one_document
    from kinfolk.text.token_report import document_part

    batch, tagger = Batch.of(worlds.corpus), worlds.tagger
    first = [one_document(batch, d, None) for d in range(min(DOCUMENTS, worlds.corpus.n_documents))]
    chosen = max(range(len(first)), key=lambda d: len(tagger._long_edges(first[d])))
    labelled = label_document(tagger, first[chosen], range(first[chosen].corpus.n_tokens))
    return document_part(labelled, f"Tokens: document {chosen} of the newswire")


def _node(worlds: DemoWorlds) -> Part:
    """A paper whose words alone mislead, and whose company sets it right; failing that, the first one asked about."""
    from dataclasses import replace

    from kinfolk.graph.explain import stacked_story, story_part

    stacked, graph, truth = worlds.stacked, worlds.graph, worlds.truth
    levels = stacked.predict_levels(graph)
    gold = np.array(truth.labels, object)
    alone, company = (stacked.classes_[level.argmax(axis=1)] for level in (levels[0], levels[-1]))
    unknown = graph.label_codes < 0
    changed = np.flatnonzero(unknown & (alone != gold) & (company == gold))
    sure = levels[-1].max(axis=1)
    node = int(changed[sure[changed].argmax()]) if len(changed) else int(np.flatnonzero(unknown)[0])
    names = stacked.coding_.classes.names
    story = stacked_story(stacked._predictor(graph), 1, node, names, list(graph.feature_names or ()))
    part = story_part(story)
    return replace(part, title=f"Nodes: paper {graph.ids[node]}, “{part.data['nodes'][0]['title']}”")


def _clusters(worlds: DemoWorlds) -> Part:
    from kinfolk.linking.link_report import Linked
    from kinfolk.report.page import Part

    linked = Linked.of(worlds.linker, worlds.records)
    return Part("links", "Records: the most doubtful and the largest clusters of customers", linked.payload(CLUSTERS))
