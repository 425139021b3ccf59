"""Labels that training never saw: nobody can guess them, so they count as misses, and the score is still a score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import kinfolk as kf
from kinfolk.errors import InputError
from small_world import QUICK, TAGGERS

EVERY_TAGGER = pytest.mark.parametrize("new", TAGGERS.values(), ids=TAGGERS)
TOLD = "labels that training never saw count as misses: "
WORDS = [["Kim", "left", "for", "Rome", "again"]] * 4
TAGS = [["B-PER", "O", "O", "B-LOC", "O"]] * 4
NEW_WORDS = [WORDS[0], ["Acme", "left", "for", "Rome", "again"]]
NEW_TAGS = [TAGS[0], ["B-ORG", "O", "O", "B-LOC", "O"]]


def dicts(rows: list[list[str]]) -> list[list[dict[str, str]]]:
    return [[{"w": word} for word in row] for row in rows]


@EVERY_TAGGER
def test_an_entity_of_a_new_type_is_missed(new: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path):
    model = new().fit(dicts(WORDS), TAGS)
    scores, accuracy = model.evaluate(dicts(NEW_WORDS), NEW_TAGS, report=tmp_path / "page.html")
    assert f"{TOLD}'B-ORG'" in caplog.text
    assert scores.gold == 4 and scores.types["ORG"].gold == 1 and scores.types["ORG"].correct == 0
    assert scores.correct == 3 and accuracy == pytest.approx(90)
    assert model.score(dicts(NEW_WORDS), NEW_TAGS) == scores.f1 / 100 and "ORG" in (tmp_path / "page.html").read_text()


@EVERY_TAGGER
@pytest.mark.parametrize("names", [("N", "V", "P"), (1, 2, 3)], ids=["strings", "numbers"])
def test_a_new_label_that_is_no_span_is_missed(new: Any, names: tuple[Any, ...], caplog: pytest.LogCaptureFixture):
    a, b, c = names
    model = new().fit(dicts([["u"], ["v"]] * 4), [[a], [b]] * 4)
    assert model.score(dicts([["u"], ["v"], ["w"], ["u"]]), [[a], [b], [c], [a]]) == 0.75
    assert f"{TOLD}{str(c)!r}" in caplog.text


@pytest.mark.parametrize("new", [v for k, v in TAGGERS.items() if k != "StackedTagger"])
def test_held_out_data_with_a_new_label(new: Any, caplog: pytest.LogCaptureFixture):
    model = new().set_params(dev_every=1).fit(dicts(WORDS), TAGS, dicts(NEW_WORDS), NEW_TAGS)
    assert max(model.convergence_.dev_scores.values()) == pytest.approx(model.score(dicts(NEW_WORDS), NEW_TAGS))
    assert model.score(dicts(NEW_WORDS), NEW_TAGS) < 1 and caplog.text.count(TOLD) == 3, "told once while training"
    assert model.classes_.tolist() == ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]


def test_every_fold_has_a_score():
    """A label that stands in one fold only is absent from the training part when that fold is scored."""
    X, y = dicts([*WORDS, *WORDS, *NEW_WORDS]), [*TAGS, *TAGS, *NEW_TAGS]
    scores = cross_val_score(kf.MaxEnt(**QUICK), X, y, cv=KFold(5), error_score="raise")
    assert np.isfinite(scores).all() and scores[:4].tolist() == [1] * 4 and 0 < scores[4] < 1
    search = GridSearchCV(kf.MaxEnt(**QUICK), {"min_count": [1000, 1]}, cv=KFold(5)).fit(X, y)
    assert search.best_params_ == {"min_count": 1} and np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_document_with_a_new_label_is_explained(tmp_path: Path):
    crf = kf.LinearChainCRF(**QUICK).fit(WORDS, TAGS)
    corpus = kf.Corpus.from_sentences(NEW_WORDS, NEW_TAGS, documents=[2])
    assert len(crf.explain(corpus, document=0, report=tmp_path / "why.html")) == 10
    assert "B-ORG" in (tmp_path / "why.html").read_text()


def test_forced_labels_have_to_be_known():
    crf = kf.LinearChainCRF(**QUICK).fit(WORDS, TAGS)
    with pytest.raises(InputError, match="label 'B-ORG' was never seen in training"):
        crf.predict(kf.Corpus.from_sentences(NEW_WORDS, NEW_TAGS), forced=True)


def test_scores_without_any_label():
    crf = kf.LinearChainCRF(**QUICK).fit(WORDS, TAGS)
    for y in (None, [[None] * 5] * 2):
        with pytest.raises(InputError, match="scoring needs labels, and there are none"):
            crf.score(NEW_WORDS, y)
    with pytest.raises(InputError, match="scoring needs labels, and y_dev has none that is known"):
        kf.MaxEnt().fit(WORDS, TAGS, NEW_WORDS, [[None] * 5] * 2)


@pytest.mark.parametrize("new", [
    lambda: kf.MixtureNodes(orders=2, predict_orders=2, **QUICK), lambda: kf.LinkModel(training="pseudo", n_jobs=1),
    lambda: kf.StackedNodes(effort="fast", n_jobs=1),
    lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=3, n_jobs=1),
    lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=3, n_jobs=1, known="ceiling"),
    lambda: kf.DependencyNetwork(LogisticRegression(), sweeps=5, burn_in=2, n_jobs=1),
], ids=["MixtureNodes", "LinkModel", "StackedNodes", "levels", "ceiling", "DependencyNetwork"])  # fmt: skip
def test_nodes_with_a_new_label_are_missed(new: Any, caplog: pytest.LogCaptureFixture):
    kinds = np.arange(24) % 2
    links = {"near": [(i, (i + 2) % 24) for i in range(24)]}
    graph = kf.Graph(3.0 * np.eye(2)[kinds], kinds + 1, links)
    model = new().fit(graph)
    other = kf.Graph(graph.features, [7, *(kinds[1:] + 1)], links)
    assert model.score(other) == pytest.approx(23 / 24) and f"{TOLD}'7'" in caplog.text
    if hasattr(model, "patience"):
        assert model.fit(graph, X_dev=other).score(other) == pytest.approx(23 / 24)
