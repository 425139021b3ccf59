"""What a page about clusters holds: it adds up, stays small, and shows what matters."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.linking import page as link_page
from kinfolk.linking.explain import shown_clusters, spanning_pairs, strengths, verdict, weakest_link
from kinfolk.linking.mentions import pairs_within
from kinfolk.linking.page import Linked, link_payload

RULES = ["key(postcode)", "key(date_of_birth)", "key(surname)"]
SENTENCES = [
    "Kim saw the house .".split(), "She likes the house .".split(), ["Lee", "left", *["far"] * 40, "Kim", "."],
]  # fmt: skip


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    return kf.Linker(blocking=RULES, rounds=1, n_jobs=1).fit(kf.generate_customers(300, seed=1))


@pytest.fixture(scope="module")
def records(linker: kf.Linker) -> kf.Mentions:
    return linker.candidates(kf.generate_customers(300, seed=2))


@pytest.fixture(scope="module")
def linked(linker: kf.Linker, records: kf.Mentions) -> Linked:
    return Linked.of(linker, records)


def mentions(documents: int = 4, group_names: bool = True) -> kf.Mentions:
    """Kim three times and the house twice in every document, the last time in a long sentence."""
    corpus = kf.Corpus.from_sentences(SENTENCES * documents, documents=[3] * documents)
    length = sum(map(len, SENTENCES))
    spans = [(0, 1), (2, 4), (5, 6), (7, 9), (10, 11), (length - 2, length - 1)]
    words = [word for sentence in SENTENCES for word in sentence]
    text = [" ".join(words[a:b]) for a, b in spans]
    return kf.Mentions.from_groups(
        np.repeat(np.arange(documents, dtype=np.int32), 6),
        {"text": kf.Column.from_strings(text * documents)},
        clusters=np.concatenate([3 * d + np.array([0, 1, 0, 1, 2, 0]) for d in range(documents)]),
        names=[f"{a}-{b - 1}" for a, b in spans] * documents,
        group_names=[f"d{d}" for d in range(documents)] if group_names else None,
        corpus=corpus,
        spans=np.array([(a + d * length, b + d * length) for d in range(documents) for a, b in spans]),
    )


def payload_of(path: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])["parts"][0]["data"]


def many(linked: Linked, most: int = 50) -> dict[str, Any]:
    numbers = shown_clusters(*strengths(linked.items, linked.probability, linked.clusters),
                             np.bincount(linked.clusters), most)  # fmt: skip
    return link_payload(linked, [linked.split(c) for c in numbers])


# -- what it says -------------------------------------------------------------------------------------


def test_contributions_add_up(linked: Linked):
    page = many(linked)
    assert len(page["pairs"]) > 100
    pairs = zip(linked.items.left.tolist(), linked.items.right.tolist(), strict=True)
    of_pair = dict(zip(pairs, linked.probability, strict=True))
    names = {linked.items.name(i): i for i in range(linked.items.n_items)}
    for pair in page["pairs"]:
        whole = page["base"] + sum(share for _, share in pair["steps"]) + pair.get("rest", 0)
        assert whole == pytest.approx(pair["score"])
        assert pair["p"] == pytest.approx(1 / (1 + np.exp(-pair["score"])))
        assert len(pair["steps"]) <= link_page.STEPS
        low, high = (names[page["items"][pair[end]]["id"]] for end in "ab")
        assert of_pair[low, high] == pytest.approx(pair["p"])
    told = linked.linker.explain(linked.items, low, high)
    assert [page["features"][f] for f, _ in pair["steps"]] == [
        one.feature for one in told.contributions[: link_page.STEPS]
    ]
    np.testing.assert_allclose([share for _, share in pair["steps"]], [
        one.share for one in told.contributions[: link_page.STEPS]])  # fmt: skip


def test_clusters_are_those_explained(linked: Linked, linker: kf.Linker, records: kf.Mentions, tmp_path: Path):
    told = linker.explain_clusters(records, 20, report=tmp_path / "all.html")
    page = payload_of(tmp_path / "all.html")
    assert len(told) == len(page["clusters"]) == 20 and page["total"] == linked.clusters.max() + 1
    for one, cluster in zip(told, page["clusters"], strict=True):
        ids = [page["items"][i]["id"] for i in cluster["items"]]
        assert one.items == tuple(ids) and cluster["size"] == len(ids)
        if one.weakest is None:
            assert cluster["weakest"] is None and cluster["sides"] is None
            continue
        weakest = page["pairs"][cluster["weakest"]]
        assert one.weakest == tuple(page["items"][weakest[end]]["id"] for end in "ab")
        assert weakest["p"] == pytest.approx(one.probability, rel=1e-5) and cluster["held"] == len(one.holding)
        for side, part in enumerate(one.parts):
            assert part == tuple(i for i, s in zip(ids, cluster["sides"], strict=True) if s == side)
        assert cluster["weakest"] in cluster["inside"] and {*cluster["holding"]} <= {*cluster["inside"]}
        for k in cluster["refused"]:
            pair = page["pairs"][k]
            assert (pair["a"] in cluster["items"]) != (pair["b"] in cluster["items"])
    assert told[0] == linker.explain_cluster(records, told[0].items[0])


def test_strengths_beside_clusters_one_by_one(linked: Linked):
    items, p, clusters = linked.items, linked.probability, linked.clusters
    weakest, nearest = strengths(items, p, clusters)
    for cluster in range(0, len(weakest), 3):
        split = linked.split(cluster)
        expected = np.nan if split.weakest is None else p[split.weakest]
        np.testing.assert_equal(weakest[cluster], expected)
        across = (clusters[items.left] == cluster) != (clusters[items.right] == cluster)
        np.testing.assert_equal(nearest[cluster], p[across].max(initial=-1) if across.any() else np.nan)


def test_the_spanning_tree_ends_with_the_weakest_link():
    rng = np.random.default_rng(0)
    for n in (2, 5, 9):
        left, right = pairs_within(np.zeros(n, np.int32))
        p = rng.integers(1, 6, len(left)) / 6  # with ties
        tree = spanning_pairs(n, left, right, p)
        assert len(tree) == n - 1 and (np.diff(p[tree]) >= 0).all()
        found = weakest_link(np.arange(n), left, right, p)
        assert found is not None and found[0] == tree[0]


def test_the_doubtful_the_large_and_the_nearly_joined_take_turns():
    weakest, nearest = np.array([0.9, 0.6, np.nan, 0.99, np.nan]), np.array([np.nan, 0.1, 0.4, 0.2, np.nan])
    sizes = np.array([2, 3, 1, 7, 1])
    assert shown_clusters(weakest, nearest, sizes, 3) == [1, 3, 2]
    assert shown_clusters(weakest, nearest, sizes, 9) == [1, 3, 2, 0, 4]
    assert shown_clusters(np.empty(0), np.empty(0), np.empty(0, int), 3) == []


@pytest.mark.parametrize(("p", "candidate", "together", "word"), [
    (0.9, True, True, "linked"), (0.2, True, True, "in one cluster by way of others"), (0.2, True, False, "not linked"),
    (0.9, True, False, "not joined by the clustering"), (0.9, False, True, "no candidate pair"),
])  # fmt: skip
def test_verdicts(p: float, candidate: bool, together: bool, word: str):
    assert verdict(p, 0.5, candidate, together).startswith(word)
    assert ("because" in verdict(p, 0.5, candidate, together, "because")) == (word.startswith("not joined"))


# Items 0, 1, 2; the pair (0, 2) is no candidate unless given.
CHAIN = [(0, 1, 0.99), (1, 2, 0.9)]


@pytest.mark.parametrize(("clusterer", "pairs", "cannot", "reason"), [
    (kf.AverageLink(), CHAIN, [], "is above 50 %, and it is 45.0 %, as 1 of 2 is no candidate and counts as no. Add"),
    (kf.AverageLink(), [*CHAIN, (0, 2, 0.02)], [], "is above 50 %, and it is 46.0 % over 2 pairs"),
    (kf.AverageLink(), [(0, 1, 0.9999), (1, 2, 0.9998)], [], "is above 50 %, and it is just below, as 1 of 2"),
    (kf.AverageLink(of="log-odds"), CHAIN, [], "the mean of log-odds over all pairs between the two clusters is above"),
    (kf.CompleteLink(), CHAIN, [], "every pair between the two clusters is above 50 %; 1 of 2 is no candidate"),
    (kf.CompleteLink(), [*CHAIN, (0, 2, 0.02)], [], "is above 50 %, and 1 of 2 is not"),
    (kf.Correlation(), [*CHAIN, (0, 2, 0.001)], [], "of the 2 candidate pairs between the two clusters sum to -"),
    (kf.SingleLink(max_size=2), CHAIN, [], "together they would be 3 items, where max_size allows 2"),
    (kf.SingleLink(), CHAIN, [(2, 0)], "it was given that 2 and 0 must not be linked"),
])  # fmt: skip
def test_why_the_clustering_kept_a_pair_apart(clusterer: Any, pairs: Any, cannot: Any, reason: str):
    told = apart_because(clusterer, 3, pairs, (1, 2), cannot)
    assert told.startswith("not joined by the clustering: ") and reason in told


@pytest.mark.parametrize(("clusterer", "pairs", "asked", "reason"), [
    (kf.OneToOne(), [(0, 2, 0.99), (0, 3, 0.9)], (0, 3), "one-to-one gives every record one partner at most: 0 has 2"),
    (kf.BestLink(), [(0, 2, 0.8), (1, 2, 0.9)], (0, 2), "the most probable above 50 %: 2 goes with 1"),
    (kf.BestLink(kind="closest"), [(0, 2, 0.9), (1, 2, 0.8)], (0, 2), "the closest above 50 %: 2 goes with 1"),
])  # fmt: skip
def test_why_another_one_was_preferred(clusterer: Any, pairs: Any, asked: Any, reason: str):
    assert reason in apart_because(clusterer, 4, pairs, asked)


def test_two_tables_and_clusters_of_another_hand():
    pairs = [(0, 2, 0.9), (0, 3, 0.1), (1, 2, 0.8), (1, 3, 0.1)]
    told = apart_because(kf.AverageLink(), 4, pairs, (1, 2), first_table=2, clusters=[0, 1, 0, 1])
    assert "and it is 45.0 % over 2 pairs" in told, "pairs of one table do not count"
    told = apart_because(kf.OneToMany(each="second"), 3, [(0, 2, 0.9), (1, 2, 0.8)], (1, 2), first_table=2)
    assert "one-to-many joins a record to its most probable partner alone: 2 has 0" in told
    assert apart_because(kf.AverageLink(), 2, [(0, 1, 0.9)], (0, 1), clusters=[0, 1]) == "not joined by the clustering"


def apart_because(
    clusterer: Any, n: int, pairs: Any, asked: tuple[int, int], cannot: Any = (), clusters: Any = None, **more: Any
) -> str:
    """The verdict on a pair, of a linker that has nothing but this clusterer."""
    pairs = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    left, right, p = (np.array(column) for column in zip(*pairs, strict=True))
    items = kf.Mentions({}, np.zeros(n, np.int32), [], [], None, **more).with_pairs(left, right)
    links = np.array(cannot, np.int64).reshape(-1, 2)
    found = clusterer.cluster(n, items.left, items.right, p, None, links) if clusters is None else np.array(clusters)
    linked = Linked(SimpleNamespace(rules=None, clusterer_=clusterer), items, p, found, links[:0], links)
    return linked.verdict(*asked, linked.candidate(*asked))


# -- mentions -----------------------------------------------------------------------------------------


def test_mentions_stand_in_their_sentences(tmp_path: Path):
    items = mentions()
    linker = kf.Linker(n_jobs=1, training="local").fit(items)
    linker.explain_cluster(items, 0, clusters=items.clusters, report=tmp_path / "why.html")
    page = payload_of(tmp_path / "why.html")
    (cluster,) = page["clusters"]
    assert page["text"] and cluster["name"] == "Kim" and cluster["truths"] == 1  # of Kim, She, Kim
    first, second, third = (page["items"][i] for i in cluster["items"])
    assert (first["before"], first["mention"], first["after"]) == ("", "Kim", "saw the house .")
    assert first["document"] == "d0" and second["mention"] == "She" and second["values"] == []
    assert third["before"].startswith("… far far") and third["before"].count("far") == link_page.AROUND
    linker.explain_clusters(mentions(group_names=False), report=tmp_path / "why.html")
    assert "document" not in payload_of(tmp_path / "why.html")["items"][0]


# -- odd cases ----------------------------------------------------------------------------------------


def test_a_pair_that_is_no_candidate(linker: kf.Linker, records: kf.Mentions, linked: Linked, tmp_path: Path):
    known = {*zip(records.left.tolist(), records.right.tolist(), strict=True)}
    low, high = next((0, j) for j in range(1, 300) if (0, j) not in known and linked.clusters[j] != linked.clusters[0])
    told = linker.explain(records, high, low, report=tmp_path / "why.html")
    assert told == linker.explain(records, low, high)
    page = payload_of(tmp_path / "why.html")
    pair = page["pairs"][page["opened"]]
    assert pair["verdict"].startswith("no candidate pair") and len(page["clusters"]) == 2
    assert pair["p"] == pytest.approx(told.probability, rel=1e-5)
    for cluster in page["clusters"]:
        assert page["opened"] in cluster["refused"]


def test_links_that_were_given(linker: kf.Linker, records: kf.Mentions, tmp_path: Path):
    few = records.with_pairs([0], [1])
    told = linker.explain_cluster(few, 3, must_link=[(2, 3)], cannot_link=[(3, 9)], report=tmp_path / "why.html")
    assert len(told.items) == 2 and told.weakest is None
    page = payload_of(tmp_path / "why.html")
    (cluster,) = page["clusters"]
    assert cluster["weakest"] is None and cluster["inside"] == [] and cluster["size"] == 2
    ids = [[page["items"][i]["id"] for i in link] for link in (*cluster["must"], *cluster["cannot"])]
    assert ids == [[few.name(2), few.name(3)], [few.name(3), few.name(9)]]


def test_nothing_to_show(linker: kf.Linker, records: kf.Mentions, tmp_path: Path):
    page = tmp_path / "why.html"
    alone = replace(records.take([0]), clusters=None)
    assert len(linker.explain_clusters(alone, report=page)) == 1
    (cluster,) = payload_of(page)["clusters"]
    assert cluster["size"] == 1 and cluster["pairs"] == 0 and cluster["truths"] is None
    assert linker.explain_clusters(records.take([]), report=page) == []
    assert payload_of(page)["clusters"] == []
    unpaired = records.take([0, 1, 2]).with_pairs([], [])
    assert len(linker.explain_clusters(unpaired, report=page)) == 3
    assert payload_of(page)["pairs"] == [] and payload_of(page)["features"] == []


def test_numbers_two_tables_and_missing_values(tmp_path: Path):
    rng = np.random.default_rng(0)
    names = ["anna", "berta", "carl", "dora", "emil", "fritz"] * 2
    size = np.where(rng.random(12) < 0.2, np.nan, np.tile(rng.random(6), 2))
    left, right = np.divmod(np.arange(36), 6)
    columns = {"name": kf.Column.from_strings([None, *names[1:]]), "size": size}
    truth = np.tile(np.arange(6), 2)
    items = kf.Mentions(columns, np.zeros(12, np.int32), [], [], truth, first_table=6).with_pairs(left, right + 6)
    compared = ["exact(name)", "number_difference(size)"]
    linker = kf.Linker(compared, clusterer=kf.OneToOne(), n_jobs=1, training="local").fit(items)
    linker.explain_clusters(items, report=tmp_path / "why.html")
    page = payload_of(tmp_path / "why.html")
    assert page["tables"] and {item["table"] for item in page["items"]} == {1, 2}
    by_id = {item["id"]: item["values"] for item in page["items"]}
    assert by_id["0"][0] is None and by_id["1"][0] == "berta"
    assert by_id["1"][1] == (None if np.isnan(size[1]) else f"{size[1]:g}")


# -- size and files -----------------------------------------------------------------------------------


def test_a_giant_cluster_makes_a_small_page(linker: kf.Linker, tmp_path: Path):
    items = kf.generate_customers(400, seed=3)
    left, right = pairs_within(np.zeros(400, np.int32))
    items = items.with_pairs(left, right)
    one = np.zeros(400, np.int32)
    linker.explain_cluster(items, 0, clusters=one, report=tmp_path / "why.html")
    page = payload_of(tmp_path / "why.html")
    (cluster,) = page["clusters"]
    most_items, most_pairs = link_page.FEW
    assert cluster["size"] == 400 and cluster["pairs"] == 400 * 399 // 2
    assert len(cluster["items"]) == most_items and len(cluster["inside"]) == most_pairs
    assert cluster["weakest"] in cluster["inside"]
    ends = {page["pairs"][cluster["weakest"]][end] for end in "ab"}
    assert ends <= {*cluster["items"]} and (tmp_path / "why.html").stat().st_size < 200_000
    linker.explain_clusters(items, clusters=np.arange(400) // 40, report=tmp_path / "why.html")
    page = payload_of(tmp_path / "why.html")
    assert [len(c["items"]) for c in page["clusters"]] == [link_page.MANY[0]] * 10
    assert max(len(c["inside"]) for c in page["clusters"]) <= link_page.MANY[1]
    assert (tmp_path / "why.html").stat().st_size < 500_000


def test_long_values_are_cut(linker: kf.Linker, records: kf.Mentions, tmp_path: Path):
    column = records.columns["surname"]
    assert isinstance(column, kf.Column)
    long = records.with_columns(surname=kf.Column.from_strings(["x" * 100_000] * records.n_items))
    linker.explain_cluster(long, 0, report=tmp_path / "why.html")
    assert (tmp_path / "why.html").stat().st_size < 200_000
    assert max(len(v or "") for v in payload_of(tmp_path / "why.html")["items"][0]["values"]) == link_page.LETTERS


def test_what_cannot_be_asked_or_written(linker: kf.Linker, records: kf.Mentions, tmp_path: Path):
    for most in (0, 1.5, True, "all"):
        with pytest.raises(SettingError, match="most must be a number of clusters"):
            linker.explain_clusters(records, most)  # type: ignore[arg-type]
    nowhere = tmp_path / "none" / "why.html"
    for ask in (
        lambda: linker.explain(records, 0, 1, report=nowhere),
        lambda: linker.explain_cluster(records, 0, report=nowhere),
        lambda: linker.explain_clusters(records, report=nowhere),
    ):
        with pytest.raises(SettingError, match=r"why\.html: .*create it first"):
            ask()
    with pytest.raises(InputError, match="expected two different items"):
        linker.explain(records, 1, 1, report=tmp_path / "why.html")
    assert [*tmp_path.iterdir()] == []
