"""The page about a linker and its items: what its charts are drawn from, counted again by hand."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.data import Column
from kinfolk.errors import NotFittedError, SettingError
from kinfolk.linking import charts
from kinfolk.linking.description import head_lines

RULES = ["key(postcode)", "key(date_of_birth)", "sorted(surname, 5)"]
PROBABILITIES = st.lists(st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75, 0.99, 1.0]), max_size=8)


@functools.cache
def linker() -> kf.Linker:
    return kf.Linker(blocking=RULES, rounds=1, n_jobs=1).fit(kf.generate_customers(300, seed=1))


def data_in(path: Path) -> dict[str, Any]:
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert block is not None
    return {part["kind"]: part["data"] for part in json.loads(block[1])["parts"]}


@given(PROBABILITIES, st.lists(st.booleans(), min_size=8, max_size=8), st.integers(0, 3))
def test_measured_rates_are_those_of_counting(p: list[float], truth: list[bool], missed: int):
    true = truth[: len(p)]
    thresholds = np.array([0.0, 0.25, 0.5, 0.99, 1.0])
    found = charts.rates(np.array(p), np.array(true, float), missed, thresholds)
    for k, threshold in enumerate(thresholds):
        linked = [y for q, y in zip(p, true, strict=True) if q > threshold]
        assert found.linked[k] == len(linked)
        whole = sum(true) + missed
        expected = (sum(linked) / len(linked) if linked else np.nan, sum(linked) / whole if whole else np.nan)
        np.testing.assert_allclose((found.precision[k], found.recall[k]), expected)


@given(PROBABILITIES)
def test_expected_rates_take_probabilities_at_their_word(p: list[float]):
    found = charts.rates(np.array(p), np.array(p), 0.0, np.array([0.3]))
    linked = [q for q in p if q > 0.3]
    np.testing.assert_allclose(found.precision[0], np.mean(linked) if linked else np.nan)
    np.testing.assert_allclose(found.recall[0], sum(linked) / sum(p) if sum(p) else np.nan)


@given(PROBABILITIES)
def test_bins_hold_every_pair_once(p: list[float]):
    bins = charts.probability_bins(np.array(p))
    assert len(bins) == charts.BINS and sum(one[2] for one in bins) == len(p)
    assert sum(one[3] for one in bins) == pytest.approx(sum(p))
    for low, high, count, _ in bins:
        assert count == sum(low <= q < high or (high == 1 and q == 1) for q in p)


@given(st.lists(st.integers(1, 300), max_size=10))
def test_sizes_are_grouped(sizes: list[int]):
    groups = charts.size_groups(np.array(sizes, np.int64))
    assert sum(one[1] for one in groups) == len(sizes) and sum(one[2] for one in groups) == sum(sizes)
    for words, clusters, _ in groups:
        low, _, high = words.replace(" or more", " to 999").partition(" to ")
        assert clusters == sum(int(low) <= size <= int(high or low) for size in sizes)


def test_columns_say_what_they_hold():
    names = Column.from_strings(["a", "b", "a", None, "c" * 200, "a"])
    facts = charts.column_facts("name", names)
    assert (facts["known"], facts["n"], facts["distinct"]) == (5, 6, 3)
    assert facts["top"][0] == ["a", 3] and len(facts["top"][2][0]) == charts.LETTERS
    numbers = charts.column_facts("price", np.array([3.0, np.nan, 1.0, 1.0]))
    assert (numbers["known"], numbers["distinct"], numbers["range"]) == (3, 2, [1.0, 1.0, 3.0])
    assert charts.column_facts("none", np.empty(0))["range"] is None


def test_the_page_has_every_chart(tmp_path: Path):
    people = kf.generate_customers(200, seed=3)
    linker().report(people, tmp_path / "all.html", most=5)
    found = data_in(tmp_path / "all.html")
    assert list(found) == ["records", "blocking", "weights", "thresholds", "links", "training"]
    assert [one["rule"] for one in found["blocking"]["rules"]] == [*RULES, "all rules"]
    assert found["blocking"]["matches"] == people.n_true_pairs
    assert {*found["thresholds"]["curves"]} == {"expected", "measured"}
    told = {one["name"] for one in linker().to_dict()["comparisons"]}
    assert {one["name"] for one in found["weights"]["comparisons"]} == told
    own = next(one for one in found["thresholds"]["clusters"] if one["threshold"] == found["thresholds"]["chosen"])
    assert own["clusters"] == found["records"]["tiles"][3][1] == len({*linker().predict(people).tolist()})
    assert own["f1"] == pytest.approx(linker().score(people), abs=1e-5)
    least, most = found["thresholds"]["clusters"][0], found["thresholds"]["clusters"][-1]
    assert least["clusters"] <= own["clusters"] <= most["clusters"]


def test_without_truth_rates_are_expected_ones(tmp_path: Path):
    people = replace(kf.generate_customers(200, seed=3), clusters=None)
    linker().report(people, tmp_path / "page.html")
    found = data_in(tmp_path / "page.html")
    assert {*found["thresholds"]["curves"]} == {"expected"} and found["blocking"]["matches"] is None
    assert all("f1" not in one for one in found["thresholds"]["clusters"])
    paired, p = linker().compared(people)
    assert found["records"]["tiles"][2][1] == pytest.approx(p.sum(), abs=0.06)
    assert found["records"]["tiles"][1][1] == paired.n_pairs


def test_labelled_pairs_measure_where_there_are_no_clusters(tmp_path: Path):
    people = kf.generate_customers(200, seed=3)
    paired, p = linker().compared(people)
    known = dict(zip(zip(paired.left.tolist(), paired.right.tolist(), strict=True), p.tolist(), strict=True))
    rng = np.random.default_rng(0)
    some = [tuple(sorted(map(int, rng.choice(200, 2, replace=False)))) for _ in range(30)] + [*known][:30]
    labels = [(people.name(a), people.name(b), int(k % 3 == 0)) for k, (a, b) in enumerate(dict.fromkeys(some))]
    linker().report(replace(people, clusters=None), tmp_path / "page.html", pairs=labels)
    found = data_in(tmp_path / "page.html")["thresholds"]
    assert found["labelled"] == len(labels)
    for k, threshold in ((0, 0.0), (50, 0.5)):
        linked = [m for (a, b), (_, _, m) in zip(dict.fromkeys(some), labels, strict=True)
                  if known.get((a, b), -1.0) > threshold]  # fmt: skip
        yes = sum(m for _, _, m in labels)
        measured = found["curves"]["measured"]
        assert measured["recall"][k] == pytest.approx(sum(linked) / yes, abs=1e-5)
        assert measured["precision"][k] == pytest.approx(sum(linked) / len(linked), abs=1e-5)


@pytest.mark.parametrize("n", [0, 1])
def test_few_records_have_a_page(n: int, tmp_path: Path):
    linker().report(kf.generate_customers(10, seed=3).take(np.arange(n)), tmp_path / "few.html")
    assert data_in(tmp_path / "few.html")["records"]["tiles"][0][1] == n


def test_pairs_that_were_chosen_have_no_rules_to_show(tmp_path: Path):
    chosen = kf.block(kf.generate_customers(60, seed=3), "key(postcode)")
    linker().report(chosen, tmp_path / "page.html")
    assert "blocking" not in data_in(tmp_path / "page.html")


def test_large_tables_stay_small(tmp_path: Path):
    """Two tables of which one has ten times the records: the pages differ by little."""
    sizes = []
    for n in (200, 2_000):
        linker().report(kf.generate_customers(n, seed=4), tmp_path / "page.html", most=3)
        sizes.append((tmp_path / "page.html").stat().st_size)
    assert sizes[1] < 1.5 * sizes[0]


def test_mentions_have_a_page_too(tmp_path: Path):
    rows = [("Emma", "(0)"), ("saw", "-"), ("Kim", "(1)"), ("She", "(0)"), ("left", "-"), ("Kim", "(1)")]
    lines = [f"letter\t0\t{i}\t{word}\t{cell}" for i, (word, cell) in enumerate(rows)]
    text = "".join("\n".join([f"#begin document (l{k}); part 0", *lines, "", "#end document", ""]) for k in range(3))
    (tmp_path / "letters.conll").write_text(text)
    docs = kf.read_coref(tmp_path / "letters.conll")
    for training in ("structured", "ranking"):
        kf.Linker(training=training, n_jobs=1).fit(docs).report(docs, tmp_path / "page.html")
        found = data_in(tmp_path / "page.html")
        assert found["weights"]["conjunctions"] > 0 and "blocking" not in found
        assert len(found["thresholds"]["clusters"]) == (1 if training == "ranking" else 12)


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path):
    with pytest.raises(SettingError):
        linker().report(kf.generate_customers(10, seed=3), tmp_path / "no" / "page.html")
    with pytest.raises(NotFittedError):
        kf.Linker().report(kf.generate_customers(10, seed=3), tmp_path / "page.html")


def test_it_is_said_what_a_model_was_learned_from(tmp_path: Path):
    records = replace(kf.generate_customers(150, seed=1), clusters=None)
    alone = kf.Linker(blocking=RULES, rounds=1, n_jobs=1).fit(records)
    for model, words in ((alone, "records alone, no labels"), (linker(), "true clusters")):
        model.report(records, tmp_path / "page.html")
        assert f"The model was learned from {words}." in (tmp_path / "page.html").read_text()
        assert f"learned from {words}" in head_lines(model.to_dict())
