"""Tables of no records, or of one: nothing to learn from, and an answer for each record that there is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kinfolk as kf
from kinfolk.errors import InputError
from kinfolk.linking.clusterers import CLUSTERERS

FIELDS = ["name", "born", "price", "note"]
COMPARISONS = [
    "exact(name)", "jaro_winkler(name)", "edit(name)", "token_overlap(name)", "tfidf_cosine(name + note)",
    "tfidf_cosine(name, 3)", "number_difference(price)", "date_difference(born)", "shared_codes(note)", "numbers(note)",
    "best_of(edit(name))",
]  # fmt: skip


def shop(n: int) -> kf.Mentions:
    names = ["red ant", "red aunt", "blue bee", "blue bees", "grey cat", "gray cat"]
    frame = pd.DataFrame({
        "id": range(6), "name": names, "born": ["1990-01-02"] * 6, "price": [1.5, 1.5, 2.0, 2.0, 3.0, 3.5],
        "note": ["x1 2", "x1", "y2 3", "y2", None, "z9"], "who": [0, 0, 1, 1, 2, 2],
    })  # fmt: skip
    return kf.records_from_frames(frame.iloc[:n], cluster="who")


@functools.cache
def model() -> kf.Linker:
    return kf.Linker(COMPARISONS, n_jobs=1).fit(shop(6))


@pytest.mark.parametrize("rule", [None, "key(name[:1])", "sorted(name, 3)", "rare(name, 5)"])
@pytest.mark.parametrize("n", [0, 1])
def test_every_record_has_an_answer(n: int, rule: str | None):
    told, few = model(), shop(n) if rule is None else kf.block(shop(n), rule)
    assert told.predict_proba(few).shape == (0,) and told.decision_function(few).dtype == np.float64
    assert told.predict(few).tolist() == list(range(n)) and told.predict(few).dtype == np.int32
    assert told.candidates(few).n_pairs == 0
    assert len(told.explain_clusters(few)) == n


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("kind", [name for name in CLUSTERERS if name not in ("OneToOne", "ClusterSum")])
def test_every_clusterer_takes_few_items(kind: str, n: int):
    found = model().cluster(shop(n), np.empty(0), clusterer=CLUSTERERS[kind]())
    assert found.tolist() == list(range(n))
    assert kf.ClusterSum().cluster(n, *np.empty((2, 0), np.int32), np.empty(0)).tolist() == list(range(n))


@pytest.mark.parametrize("sizes", [(0, 0), (0, 2), (2, 0), (1, 1)])
def test_two_tables_of_which_one_may_be_empty(sizes: tuple[int, int]):
    frame = pd.DataFrame({"id": range(6), "name": ["ant", "bee", "cat", "dog", "eel", "fox"]})
    same = pd.DataFrame({"a": range(6), "b": range(6)})
    told = kf.Linker(["edit(name)"], clusterer=kf.OneToOne(), n_jobs=1).fit(
        kf.records_from_frames(frame, frame, truth=same)
    )
    both = kf.records_from_frames(frame.iloc[: sizes[0]], frame.iloc[: sizes[1]])
    assert told.predict_proba(both).shape == (sizes[0] * sizes[1],)
    assert told.predict(both).shape == (sum(sizes),)


@pytest.mark.parametrize(("n", "got"), [(0, "an empty table"), (1, "a table of one record")])
def test_there_is_nothing_to_learn_from(n: int, got: str):
    with pytest.raises(InputError, match=f"training needs pairs of items, and there are none in {got}"):
        kf.Linker().fit(shop(n))


def test_there_is_nothing_to_score():
    for asked in (model().evaluate, model().score):
        with pytest.raises(InputError, match="no items to score; is the table empty"):
            asked(shop(0))
    scores: Any = model().evaluate(shop(1))
    assert scores["pairs"]["pairs"] == 0 and scores["clusters"]["f1"] == 1.0


def test_a_field_nobody_has_a_value_of_counts_as_missing(caplog: pytest.LogCaptureFixture):
    """As in a small table it may be."""
    one = kf.records_from_frames(
        pd.DataFrame({"id": [1, 2], "name": ["red ant", "red aunt"], **dict.fromkeys(FIELDS[1:])})
    )
    other = kf.records_from_frames(
        pd.DataFrame({"id": [1, 2], "name": ["red ant", "red aunt"], **dict.fromkeys(FIELDS[1:], "")})
    )
    np.testing.assert_array_equal(model().predict_proba(one), model().predict_proba(other))
    assert "the field 'price' is empty in every record" in caplog.text


def test_a_table_of_ids_alone_has_nothing_to_compare():
    for n in (0, 2):
        with pytest.raises(InputError, match="no fields to compare: expected at least one column besides ids"):
            kf.records_from_frames(pd.DataFrame({"id": range(n)}))
