"""Generated papers that cite earlier ones, mostly of their own topic: titles show some of it, citations the rest.

Papers are drawn one after the other:

1. A paper has one of TOPICS, all equally likely.
2. Its title is one of the templates, all equally likely. With probability `ambiguity`, each subject in it is drawn
   without regard to the topic: from those that every topic has or, just as likely, from those of all topics
   together. Otherwise it is one of the topic's own. Which word is whose has to be learned.
3. It cites Poisson(`citations`) times: with probability `homophily` a paper of its own topic, else one of another.
   Among those, papers are drawn in proportion to 1 + the number of papers that cite them already, so some become hubs.
   What is cited again, or not there yet, is left out: the first papers cite less.

A title all of whose subjects were drawn without regard to the topic is *silent*: its words do not show
its topic, so readers of titles get at most 1 - silent_share (1 - 1/6) right in expectation; `silent_share` gives their
share exactly. Papers they cite, and that cite them, show more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from kinfolk.datasets import checked_number
from kinfolk.datasets.webkb import bag_rows
from kinfolk.datasets.words import ANY, CITATION_FILLERS, SUBJECTS, TEMPLATES, TOPICS
from kinfolk.graph.graph import Graph

T = TypeVar("T")
WORD = re.compile(r"\w+")


class CitationTables(NamedTuple):
    """Papers in the order they appeared, and who cites whom: what `examples/citations.py` writes to files.

    papers   id, title, topic: columns of n strings
    cites    source, target: columns of ids; source cites target
    """

    papers: dict[str, list[str]]
    cites: dict[str, list[str]]


def generate_citations(
    n_papers: int, *, homophily: float = 0.8, citations: float = 2.0, ambiguity: float = 0.4, seed: int = 0
) -> Graph:
    """A graph of papers "p0", "p1", ...: labels are topics, features words of titles, relations cites and cited_by.

    homophily   the share of the citations that go to a paper of the same topic
    citations   how many papers a paper cites on average
    ambiguity   the share of the subjects in titles that were drawn without regard to the topic
    """
    settings = dict(homophily=homophily, citations=citations, ambiguity=ambiguity)
    return citation_graph(citation_tables(n_papers, seed=seed, **settings))


def citation_tables(
    n_papers: int, *, homophily: float = 0.8, citations: float = 2.0, ambiguity: float = 0.4, seed: int = 0
) -> CitationTables:
    """The papers of `generate_citations` as tables, with their titles as they are written."""
    checked_number("n_papers", n_papers, whole=True)
    checked_number("seed", seed, whole=True)
    checked_number("citations", citations, 100)
    checked_number("homophily", homophily, 1)
    checked_number("ambiguity", ambiguity, 1)
    library = _Library(np.random.default_rng(seed), homophily, citations)
    papers: dict[str, list[str]] = {"id": [], "title": [], "topic": []}
    cites: dict[str, list[str]] = {"source": [], "target": []}
    for number in range(n_papers):
        topic = _pick(TOPICS, library.rng)
        papers["id"].append(f"p{number}")
        papers["topic"].append(topic)
        papers["title"].append(_title(topic, ambiguity, library.rng))
        cited = library.add(number, topic)
        cites["source"] += [f"p{number}"] * len(cited)
        cites["target"] += [f"p{other}" for other in cited]
    return CitationTables(papers, cites)


def citation_graph(tables: CitationTables) -> Graph:
    """The graph of the tables; features are named as `Graph.from_frames(..., text="title")` names them."""
    ids = tables.papers["id"]
    rows, words = bag_rows(WORD.findall(title.lower()) for title in tables.papers["title"])
    place = {key: i for i, key in enumerate(ids)}
    ends = [[place[key] for key in tables.cites[end]] for end in ("source", "target")]
    links = np.array(ends, np.int64).T.reshape(-1, 2)
    return Graph(
        rows.astype(np.float64),
        tables.papers["topic"],
        {"cites": links, "cited_by": links[:, ::-1]},
        ids,
        feature_names=[f"title:{word}" for word in words],
        classes=TOPICS,
        titles=tables.papers["title"],
    )


def silent_share(ambiguity: float = 0.4) -> float:
    """The expected share of papers whose title says nothing of their topic: the mean over templates of
    ambiguity ** subjects."""
    checked_number("ambiguity", ambiguity, 1)
    return float(np.mean([ambiguity ** template.count("%subject") for template in TEMPLATES]))


class _Library:
    """The papers so far. In the urn of a topic each of its papers lies once, and once more for each that cites it."""

    def __init__(self, rng: np.random.Generator, homophily: float, citations: float) -> None:
        self.rng, self.homophily, self.citations = rng, homophily, citations
        self.urns: dict[str, list[int]] = {topic: [] for topic in TOPICS}
        self.topics: list[str] = []

    def add(self, number: int, topic: str) -> list[int]:
        """The papers that a new one cites, earlier ones first; then it can be cited itself."""
        drawn = {self.draw(topic) for _ in range(self.rng.poisson(self.citations))}
        cited = sorted(other for other in drawn if other is not None)
        for other in cited:
            self.urns[self.topics[other]].append(other)
        self.urns[topic].append(number)
        self.topics.append(topic)
        return cited

    def draw(self, topic: str) -> int | None:
        own = self.rng.random() < self.homophily
        urns = [self.urns[topic]] if own else [urn for other, urn in self.urns.items() if other != topic]
        at = int(self.rng.random() * sum(map(len, urns)))
        for urn in urns:
            if at < len(urn):
                return urn[at]
            at -= len(urn)
        return None  # no such paper yet


def _title(topic: str, ambiguity: float, rng: np.random.Generator) -> str:
    words = (_filled(word[1:], topic, ambiguity, rng) if word[0] == "%" else word for word in _pick(TEMPLATES, rng))
    title = " ".join(words).replace(" :", ":").replace(" ,", ",")
    return title[0].upper() + title[1:]


def _filled(slot: str, topic: str, ambiguity: float, rng: np.random.Generator) -> str:
    if slot != "subject":
        return _pick(CITATION_FILLERS[slot], rng)
    if rng.random() < ambiguity:
        topic = ANY if rng.random() < 0.5 else _pick(TOPICS, rng)
    return _pick(SUBJECTS[topic], rng)


def _pick(choices: Sequence[T], rng: np.random.Generator) -> T:
    return choices[int(rng.random() * len(choices))]
