"""Mistakes and odd wishes of first days: each ends in a right answer or in a clear message."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import kinfolk as kf
from kinfolk.errors import InputError

WORDS = [["Kim", "left", "Paris"], ["Paris", "slept"]] * 3
LABELS = [["B-PER", "O", "B-LOC"], ["B-LOC", "O"]] * 3
MODELS = [kf.MaxEnt(n_jobs=1), kf.MEMM(n_jobs=1), kf.LinearChainCRF(n_jobs=1)]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("size", [1.0, 1e8, 1e12])
def test_probabilities_of_huge_features_add_up(model: kf.LinearChainCRF, size: float) -> None:
    model.fit([[{"w": 1}, {"c": 1}]], [["B-PER", "O"]])
    (table,) = model.predict_proba([[{"w": size}, {"c": 1}]])
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert model.predict([[{"w": size}, {"c": 1}]]) == [["B-PER", "O"]]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([{"w": "a"}, {"w": "b"}], ["A", "B"], "got a list of dicts"),
        (["Kim left"], [["A"]], "got a list of strings"),
        ([["Kim", "left"]], ["AB"], "got a string"),
    ],
)
def test_a_level_of_lists_forgotten(X: list[object], y: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kf.LinearChainCRF().fit(X, y)


def test_forced_labels_hold_for_entities_and_k_best() -> None:
    crf = kf.LinearChainCRF(n_jobs=1).fit(WORDS, LABELS)
    given = kf.Corpus.from_sentences([["Kim", "left", "Paris"]], [[None, None, "B-PER"]], scheme="BIO")
    found = crf.predict_entities(given, forced=True)
    assert [(e.text, e.type) for e in found][-1] == ("Paris", "PER")
    assert found[-1].confidence == pytest.approx(1)
    listed = crf.predict_k_best(given, 100, forced=True)[0]
    assert all(labels[-1] == "B-PER" for labels, _ in listed)
    assert sum(np.exp(log_p) for _, log_p in listed) == pytest.approx(1)


def test_schemes_of_lists_are_found() -> None:
    assert kf.Corpus.from_sentences(WORDS, LABELS).scheme == "BIO"
    assert kf.Corpus.from_sentences([["a"]], [["NN"]]).scheme is None


def test_numbers_for_ids() -> None:
    """Ids that look like numbers are strings; a number counts from 0, or is the id where it can be nothing else."""
    X, ids = np.eye(6), [str(100 + i) for i in range(6)]
    graph = kf.Graph(X, ["a", "b"] * 3, {"r": [(i, i + 1) for i in range(5)]}, ids=ids)
    model = kf.MixtureNodes(n_jobs=1, orders=1, predict_orders=1, training="separate").fit(graph)
    assert model.explain(graph, node="101").name == model.explain(graph, node=1).name == "101"
    for node in (101, np.int64(101)):
        assert model.explain(graph, node=node).name == "101"
    with pytest.raises(InputError, match=r"got 99$"):
        model.explain(graph, node=99)


def test_a_data_frame_where_records_are_expected() -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "name": ["Kim", "Kym"]})
    told = r"expected Mentions .*; got DataFrame; for a data frame: `kf\.records_from_frames\("
    with pytest.raises(InputError, match=told):
        kf.Linker().fit(frame)
    with pytest.raises(InputError, match=r"expected Mentions .*; got list$"):
        kf.Linker().fit([1])  # type: ignore[arg-type]
    assert kf.Linker(n_jobs=1).fit(kf.records_from_frames(frame)).learned_from_ == "records"


def test_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "kinfolk", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"kinfolk {kf.__version__}"
