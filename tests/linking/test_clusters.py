"""Metrics of clusterings against the cases of the official CoNLL scorer, and against their definitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cluster_oracle as oracle
from kinfolk.errors import InputError
from kinfolk.linking import scores as coreference
from kinfolk.linking.coref import parse_brackets
from kinfolk.linking.scores import (
    PairScores,
    Score,
    b_cubed,
    blanc,
    ceaf_e,
    ceaf_m,
    cluster_scores,
    compare,
    coreference_scores,
    decision_scores,
    lea,
    muc,
    pair_scores,
)

Arrays = tuple[list[int], list[int], list[int]]
Span = tuple[int, int]


def of_arrays(metric: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays, **settings: metric(compare(*arrays), **settings)


RATIO_METRICS = {one.__name__: of_arrays(one) for one in (muc, b_cubed, ceaf_m, ceaf_e, lea)}
METRICS = {**RATIO_METRICS, "blanc": of_arrays(blanc)}
OFFICIAL_NAMES = {"muc": "muc", "bcub": "b_cubed", "ceafm": "ceaf_m", "ceafe": "ceaf_e", "blanc": "blanc"}
OFFICIAL_CASES = [
    *(f"A{i}" for i in range(1, 14)),
    *(f"{letter}1" for letter in "BCDEFGHIJKL"),
    *(f"{letter}{i}" for letter in "MN" for i in range(1, 7)),
]


def clusterings(*, absent: bool = True) -> st.SearchStrategy[Arrays]:
    """Up to 10 mentions in up to 3 documents, with a few cluster numbers that the documents share."""
    ids = st.integers(-1 if absent else 0, 4)
    groups = st.sampled_from([0, 0, 0, 0, 1, 2])  # mostly one document, so that it holds enough
    rows = st.lists(st.tuples(ids, ids, groups), max_size=10)
    return rows.map(lambda rows: ([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]))


def rates(score: Score) -> tuple[float, float, float]:
    return score.recall, score.precision, score.f1


# The official scorer


@pytest.fixture(scope="session")
def scorer_cases(data_folder: Path) -> Path:
    folder = data_folder / "mentions" / "conll_scorer_tests"
    if not (folder / "expected_values.json").is_file():
        pytest.skip(f"no cases of the CoNLL scorer in {folder}; set KINFOLK_DATA")
    return folder


def read_spans(path: Path) -> dict[Span, str]:
    """The last column of a file of one document; a span given twice counts once, as the first that was opened."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    parsed = parse_brackets([row[-1] for row in rows if row], duplicates="drop", path=str(path))
    return {(span.start, span.end): span.label for span in parsed.spans}


def side_by_side(key: dict[Span, str], response: dict[Span, str]) -> tuple[list[int], list[int]]:
    """Both sides over the mentions of either."""
    mentions = sorted(key.keys() | response.keys())
    first, second = ([int(side.get(mention, -1)) for mention in mentions] for side in (key, response))
    return first, second


@pytest.mark.data
@pytest.mark.parametrize("name", OFFICIAL_CASES)
def test_official_cases(scorer_cases: Path, name: str) -> None:
    cases = {case["id"]: case for case in json.loads((scorer_cases / "expected_values.json").read_text("utf-8"))}
    assert list(cases) == OFFICIAL_CASES
    case = cases[name]
    key, response = side_by_side(read_spans(scorer_cases / case["key"]), read_spans(scorer_cases / case["response"]))
    scores = coreference_scores(key, response)
    for metric, expected in case["expected"].items():
        assert rates(getattr(scores, OFFICIAL_NAMES[metric])) == pytest.approx(expected, abs=6e-6), metric


@pytest.mark.data
def test_official_cases_as_documents_of_one_corpus(scorer_cases: Path) -> None:
    """Sums over documents: those of each case alone, although all use the same numbers."""
    cases = json.loads((scorer_cases / "expected_values.json").read_text("utf-8"))
    sides = [side_by_side(read_spans(scorer_cases / c["key"]), read_spans(scorer_cases / c["response"])) for c in cases]
    groups = np.repeat(np.arange(len(sides)), [len(key) for key, _ in sides])
    key, response = (np.concatenate([side[i] for side in sides]) for i in (0, 1))
    for metric in RATIO_METRICS.values():
        alone = [metric(*side) for side in sides]
        together = metric(key, response, groups)
        assert together.recall_ratio == pytest.approx(np.array([s.recall_ratio for s in alone], float).sum(axis=0))
        assert together.precision_ratio == pytest.approx(
            np.array([s.precision_ratio for s in alone], float).sum(axis=0)
        )


# Definitions


@pytest.mark.parametrize("name", RATIO_METRICS)
@given(arrays=clusterings())
def test_sums_are_those_of_the_definition(name: str, arrays: Arrays) -> None:
    score = RATIO_METRICS[name](*arrays)
    expected = tuple(map(float, oracle.four_sums(getattr(oracle, name), oracle.documents(*arrays))))
    assert score.recall_ratio is not None and score.precision_ratio is not None
    assert (*score.recall_ratio, *score.precision_ratio) == pytest.approx(expected)
    recall, precision = (part / whole if whole else 0.0 for part, whole in (expected[:2], expected[2:]))
    f1 = 2 * recall * precision / (recall + precision) if recall + precision else 0.0
    assert rates(score) == pytest.approx((recall, precision, f1))


@given(clusterings())
def test_blanc_is_that_of_enumerated_links(arrays: Arrays) -> None:
    assert rates(METRICS["blanc"](*arrays)) == pytest.approx(oracle.blanc(oracle.documents(*arrays)))


@given(clusterings())
def test_pairs_are_those_enumerated(arrays: Arrays) -> None:
    scores = pair_scores(compare(*arrays))
    assert scores == PairScores(*oracle.pair_counts(oracle.documents(*arrays)))


@given(clusterings(), st.booleans())
def test_whole_clusters(arrays: Arrays, singletons: bool) -> None:
    score = cluster_scores(compare(*arrays), 1 if singletons else 2)
    sums = list(map(int, oracle.four_sums(oracle.exact(1 if singletons else 2), oracle.documents(*arrays))))
    assert (score.recall_ratio, score.precision_ratio) == ((sums[0], sums[1]), (sums[2], sums[3]))


@given(clusterings())
def test_large_components_are_matched_as_sparse_graphs(arrays: Arrays) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coreference, "LARGEST_MATRIX", 0)
        sparse = ceaf_m(compare(*arrays)), ceaf_e(compare(*arrays))
    for score, dense in zip(sparse, (ceaf_m(compare(*arrays)), ceaf_e(compare(*arrays))), strict=True):
        assert rates(score) == pytest.approx(rates(dense))


# Properties


@given(clusterings(absent=False), st.permutations(range(5)))
def test_a_clustering_equals_itself_by_any_names(arrays: Arrays, names: list[int]) -> None:
    key, _, groups = arrays
    scores = coreference_scores(key, [names[cluster] for cluster in key], groups)
    table = compare(key, key, groups)
    always = [scores.mentions, scores.b_cubed, scores.ceaf_m, scores.ceaf_e, scores.lea, scores.clusters]
    assert [rates(score) for score in always] == [pytest.approx((1.0, 1.0, 1.0) if key else (0.0, 0.0, 0.0))] * 6
    linked = bool((table.key_sizes > 1).any())
    assert rates(scores.muc) == ((1.0, 1.0, 1.0) if linked else (0.0, 0.0, 0.0))
    assert scores.pairs.error == 0 and scores.pairs.f1 == float(linked)
    assert rates(scores.blanc) == ((1.0, 1.0, 1.0) if (table.all_in_group > 1).any() else (0.0, 0.0, 0.0))


@pytest.mark.parametrize("name", METRICS)
@given(arrays=clusterings())
def test_recall_is_precision_with_the_sides_swapped(name: str, arrays: Arrays) -> None:
    key, response, groups = arrays
    docs = oracle.documents(*arrays)
    kinds = [any(oracle.links(side)[kind] for side in sides) for sides in zip(*docs, strict=True) for kind in (0, 1)]
    if name == "blanc" and not all(kinds):
        return  # a kind of links that the key lacks does not count, so the sides are not alike
    there, back = METRICS[name](key, response, groups), METRICS[name](response, key, groups)
    assert (there.recall, there.precision, there.f1) == pytest.approx((back.precision, back.recall, back.f1))


@given(clusterings(), st.integers(0, 10**6))
def test_order_and_names_do_not_matter(arrays: Arrays, seed: int) -> None:
    key, response, groups = (np.array(ids, np.int64) for ids in arrays)
    order = np.random.default_rng(seed).permutation(len(key))
    renamed = np.where(key < 0, -1, 10**12 - key)
    moved = coreference_scores(renamed[order], response[order], 7 - 3 * groups[order])
    expected = coreference_scores(*arrays)
    assert [row[1:] for row in moved.rows()] == [pytest.approx(row[1:]) for row in expected.rows()]


@given(clusterings())
def test_mentions_of_neither_side_change_nothing(arrays: Arrays) -> None:
    key, response, groups = arrays
    padded = coreference_scores([*key, -1, -1], [*response, -1, -1], [*groups, 0, 9])
    assert padded == coreference_scores(*arrays)


# By hand


def test_pairs_by_hand() -> None:
    scores = pair_scores(compare([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 3]))
    assert scores == PairScores(pairs=15, true_positives=1, false_positives=1, false_negatives=3)
    assert (scores.error, scores.precision, scores.recall) == (4 / 15, 1 / 2, 1 / 4)
    assert scores.f1 == pytest.approx(1 / 3)


def test_a_million_records_are_no_trouble() -> None:
    key = np.arange(1_000_000) // 4
    scores = pair_scores(compare(key, key // 2))
    assert (scores.recall, scores.true_positives) == (1.0, 250_000 * 6)
    assert scores.precision == pytest.approx(12 / 28)
    assert scores.pairs == 499_999_500_000


def test_one_large_document() -> None:
    """100 thousand mentions in 40 thousand clusters: a matrix of all of them would take 13 GB."""
    rng = np.random.default_rng(0)
    key = rng.integers(0, 40_000, 100_000)
    response = np.where(rng.random(100_000) < 0.05, rng.integers(0, 40_000, 100_000), key)
    scores = coreference_scores(key, response)
    assert 0.85 < scores.ceaf_e.f1 < scores.ceaf_m.f1 < 0.97


def test_decisions_count_what_blocking_missed() -> None:
    scores = decision_scores([True, True, False, False, False], [True, False, True, False, False], missed=2)
    assert scores == PairScores(pairs=7, true_positives=1, false_positives=1, false_negatives=3)
    assert (scores.precision, scores.recall, scores.error) == (1 / 2, 1 / 4, 4 / 7)
    assert decision_scores([True], [False]).error == 1.0
    nothing = decision_scores([], [])
    assert (nothing.precision, nothing.recall, nothing.f1, nothing.error) == (0.0, 0.0, 0.0, 0.0)


def test_singletons_of_lea() -> None:
    """Key {a} {b} {c, d}, response {a} {b, c, d}: a is resolved, b is not, c and d are linked."""
    score = lea(compare([0, 1, 2, 2], [0, 1, 1, 1]))
    assert score.recall_ratio == (3.0, 4) and score.precision_ratio == (2.0, 4)


def test_empty_clusterings_score_nothing() -> None:
    for arrays in (([], []), ([-1], [-1])):
        plain = coreference_scores(*arrays).as_dict()
        assert plain.pop("conll") == 0.0
        assert all(value == 0 for score in plain.values() for value in score.values())


def test_plain_numbers_and_table() -> None:
    scores = coreference_scores([0, 0, 1, 1, 1, -1], [0, 0, 1, 2, 2, 2])
    plain = json.loads(json.dumps(scores.as_dict()))
    assert plain["conll"] == pytest.approx((scores.muc.f1 + scores.b_cubed.f1 + scores.ceaf_e.f1) / 3)
    assert plain["mentions"] == {"recall": 1.0, "precision": pytest.approx(5 / 6), "f1": pytest.approx(10 / 11)}
    lines = scores.table().splitlines()
    assert lines[2] == "      muc   66.67      66.67   66.67"
    assert [line.split()[0] for line in lines[1:]] == [name for name, *_ in scores.rows()] + ["conll"]
    assert len({len(line) for line in lines}) == 1


FAULTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: compare([0, 1], [0]), "got 2, 1 and 2"),
    (lambda: compare([0], [0], [0, 1]), "got 1, 1 and 2"),
    (lambda: compare([0.5], [0]), "key must be a row of whole numbers; got float64"),
    (lambda: compare([0], [[0]]), r"response must be a row of whole numbers; got int64 of shape \(1, 1\)"),
    (lambda: compare([0], [-2]), "response must hold clusters from 0 on"),
    (lambda: decision_scores([True], [True, False]), r"\(1,\); got \(2,\)"),
    (lambda: decision_scores([True], [1]), "must hold booleans; got bool and int64"),
]


@pytest.mark.parametrize(("call", "message"), FAULTS)
def test_input_that_makes_no_sense(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
