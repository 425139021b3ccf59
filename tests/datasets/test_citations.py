"""The generated citations: the same for a seed, homophilous as asked for, told by titles in part only."""

from __future__ import annotations

import csv
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.datasets.citations import CitationTables, citation_graph, citation_tables, silent_share
from kinfolk.datasets.words import ANY, CITATION_FILLERS, SUBJECTS, TEMPLATES, TOPICS
from kinfolk.errors import SettingError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "citations.py"


def same_topic(tables: CitationTables) -> float:
    topic = dict(zip(tables.papers["id"], tables.papers["topic"], strict=True))
    ends = zip(tables.cites["source"], tables.cites["target"], strict=True)
    return float(np.mean([topic[a] == topic[b] for a, b in ends]))


@pytest.fixture(scope="module")
def drawn() -> CitationTables:
    return citation_tables(3000, seed=3)


def test_same_seed_same_library() -> None:
    first, again, other = (citation_tables(200, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.papers["title"] != other.papers["title"]


def test_papers_drawn_do_not_depend_on_how_many_are_asked_for() -> None:
    few, many = citation_tables(50, seed=4), citation_tables(90, seed=4)
    assert few.papers["title"] == many.papers["title"][:50]
    assert few.cites["target"] == many.cites["target"][: len(few.cites["target"])]


def test_no_global_random_state() -> None:
    state = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]  # noqa: NPY002
    citation_tables(30)
    assert np.array_equal(np.random.get_state()[1], state)  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("homophily", [0.0, 0.4, 0.8, 1.0])
def test_homophily_is_as_asked_for(homophily: float) -> None:
    assert same_topic(citation_tables(1500, homophily=homophily, seed=5)) == pytest.approx(homophily, abs=0.03)


def test_citations_go_to_earlier_papers_and_are_told_once(drawn: CitationTables) -> None:
    ends = [(int(a[1:]), int(b[1:])) for a, b in zip(drawn.cites["source"], drawn.cites["target"], strict=True)]
    assert all(a > b for a, b in ends)
    assert len(set(ends)) == len(ends)
    assert len(ends) / 3000 == pytest.approx(2.0, abs=0.15)  # a little below: the first papers find few to cite


def test_some_papers_are_hubs(drawn: CitationTables) -> None:
    often = Counter(drawn.cites["target"]).most_common()
    assert often[0][1] > 20 and often[len(often) // 2][1] <= 3


def test_titles_can_be_read(drawn: CitationTables) -> None:
    assert all(title[0].isupper() and "%" not in title and "  " not in title for title in drawn.papers["title"])
    assert set(drawn.papers["topic"]) == set(TOPICS)
    assert len(set(drawn.papers["title"])) > 2500
    named = Counter(name for names in SUBJECTS.values() for name in names)
    assert max(named.values()) == 1, "a subject stands in one list; its words may stand in several"
    slots = {token for template in TEMPLATES for token in template if token[0] == "%"}
    assert slots == {"%subject", *(f"%{name}" for name in CITATION_FILLERS)}


def test_the_graph_has_what_the_tables_say(drawn: CitationTables) -> None:
    graph = citation_graph(drawn)
    assert graph.ids[17] == "p17" and graph.labels == drawn.papers["topic"]
    assert set(graph.relations) == {"cites", "cited_by"}
    assert (graph.relations["cites"] != graph.relations["cited_by"].T).nnz == 0
    assert graph.relations["cites"].nnz == len(drawn.cites["source"])
    assert graph.feature_names is not None
    words = {graph.feature_names[i] for i in graph.features[[17]].indices}
    assert graph.titles == tuple(drawn.papers["title"])
    told = graph.titles[17].lower().replace(",", "").replace(":", "").replace("-", " ")
    assert words == {f"title:{word}" for word in told.split()}


def test_features_are_those_of_the_same_tables_read_as_frames() -> None:
    pandas = pytest.importorskip("pandas")
    tables, made = citation_tables(40, seed=2), kf.generate_citations(40, seed=2)
    read = kf.Graph.from_frames(
        pandas.DataFrame(tables.papers), pandas.DataFrame(tables.cites), label="topic", text="title", link="cites",
        inverse="cited_by",
    )  # fmt: skip
    assert read.feature_names == made.feature_names and (read.features != made.features).nnz == 0
    assert (read.relations["cites"] != made.relations["cites"]).nnz == 0 and read.titles == made.titles


def test_titles_alone_tell_something_but_not_enough() -> None:
    graph = kf.generate_citations(1200, seed=6)
    base = LogisticRegression(C=0.3, max_iter=1000).fit(graph.features[:600], graph.label_codes[:600])
    right = base.score(graph.features[600:], graph.label_codes[600:])
    assert 0.5 < right < 1 - silent_share() * (1 - 1 / len(TOPICS))


def test_silent_titles_are_as_many_as_computed(drawn: CitationTables) -> None:
    own = {topic: [name.lower() for name in SUBJECTS[topic]] for topic in TOPICS}
    without = np.mean([
        not any(name in title.lower() for name in own[topic])
        for title, topic in zip(drawn.papers["title"], drawn.papers["topic"], strict=True)
    ])  # fmt: skip
    # drawn without regard to the topic, a subject is still one of the topic's own in 1/2 * 1/6 of the cases
    expected = np.mean([(0.4 * 11 / 12) ** template.count("%subject") for template in TEMPLATES])
    assert without == pytest.approx(expected, abs=0.03)
    assert silent_share(0.0) == 0.0 and silent_share(1.0) == 1.0 and silent_share() > expected


def test_ambiguous_words_are_drawn_without_regard_to_the_topic() -> None:
    tables = citation_tables(2000, ambiguity=1.0, seed=1)
    shared = [any(name in title.lower() for name in SUBJECTS[ANY]) for title in tables.papers["title"]]
    of_topic = {t: np.mean([s for s, o in zip(shared, tables.papers["topic"], strict=True) if o == t]) for t in TOPICS}
    assert max(of_topic.values()) - min(of_topic.values()) < 0.12


@pytest.mark.parametrize("n", [0, 1, 2])
def test_very_few(n: int) -> None:
    graph = kf.generate_citations(n, citations=5.0)
    assert graph.n_nodes == n and len(graph.labels) == n
    assert graph.relations["cites"].nnz <= max(n - 1, 0)


def test_no_citations_at_all() -> None:
    assert kf.generate_citations(20, citations=0.0).relations["cites"].nnz == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_papers": -1}, {"n_papers": 1.5}, {"homophily": 1.1}, {"homophily": -0.1}, {"citations": -1},
        {"citations": 101}, {"ambiguity": 2}, {"ambiguity": float("nan")}, {"seed": -1}, {"seed": 0.5},
    ],
)  # fmt: skip
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        kf.generate_citations(**{"n_papers": 10, **wrong})


def test_the_example_writes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE))
    with open("papers.csv", newline="", encoding="utf-8") as file:
        papers = list(csv.DictReader(file))
    asked = Path("test.txt").read_text(encoding="utf-8").split()
    assert [row["id"] for row in papers if not row["topic"]] == asked and len(asked) == 500
    graph = kf.read_tables("truth.csv", "cites.csv", label="topic", text=["title"])
    assert graph.n_nodes == 1500 and None not in graph.labels
    assert len(Path("train.txt").read_text(encoding="utf-8").split()) == 1000
