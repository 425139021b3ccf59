"""Shares of features add up to the score they are shares of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.text.explain import SHOWN, FeatureExplanation, FeatureShare

WORDS = [["Kim", "left", "Rome"], ["Rome", "fell"], ["Kim", "Lee", "met", "Kim"], ["so"]]
LABELS = [["P", "O", "L"], ["L", "O"], ["P", "P", "O", "P"], ["O"]]
CORPUS = kf.Corpus.from_sentences(WORDS, LABELS, documents=[1, 3], scheme=None)


def test_without_a_chain_the_shares_are_the_whole_answer() -> None:
    model = kf.MaxEnt(n_jobs=1, min_count=1).fit(CORPUS)
    tables = [row for table in model.predict_proba(CORPUS) for row in table]
    for answer, p in zip([*model.explain(CORPUS, 0), *model.explain(CORPUS, 1)], tables, strict=True):
        assert answer.label == model.classes_[p.argmax()] and answer.probability == pytest.approx(p.max())
        whole = np.log(p.max()) - np.log(p).mean()
        assert sum(one.share for one in answer.contributions) == pytest.approx(whole, abs=1e-4)
        sizes = [abs(one.share) for one in answer.contributions]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("model", "beside"),
    [(kf.MEMM(), {"the label before"}), (kf.LinearChainCRF(), {"the label before", "the label behind"}),
     (kf.SkipChainCRF(skip_edges=None), {"the label before", "the label behind"})],
)  # fmt: skip
def test_labels_beside_have_their_say(model: Any, beside: set[str]) -> None:
    answers = model.set_params(n_jobs=1).fit(CORPUS).explain(CORPUS, document=0)
    both = {"the label before", "the label behind"}
    told = [both & {one.feature for one in answer.contributions} for answer in answers]
    assert told == [beside - {"the label before"}, beside, beside - {"the label behind"}]
    before = next(one for one in answers[1].contributions if one.feature == "the label before")
    pair = model.weights_.pair if hasattr(model.weights_, "node") else model.weights_.pair[0]
    m, label = model.predict_proba(CORPUS)[0][0], list(model.classes_).index(answers[1].label)
    assert before.share == pytest.approx(sum(m[y] * (pair[y, label] - pair[y].mean()) for y in range(3)), abs=1e-5)


def test_feature_dicts_and_what_stacking_tells_have_names() -> None:
    items = [[{"w": word} for word in sentence] for sentence in WORDS]
    answer = kf.LinearChainCRF(n_jobs=1).fit(items, LABELS).explain(items, document=0, token=0)
    assert {one.feature for one in answer.contributions} == {"w:Kim", "the label behind"}
    stacked = kf.StackedTagger(kf.MEMM(n_jobs=1), kf.Window(1), folds=2, own=True, n_jobs=1).fit(CORPUS)
    told = {one.feature for one in stacked.explain(CORPUS, document=1, token=3).contributions}
    assert any(name.startswith("own prediction=") for name in told) and any("window" in name for name in told)


def test_many_contributions_are_summed_up() -> None:
    shares = tuple(FeatureShare(f"f{i}", 1.0 / (i + 1)) for i in range(SHOWN + 3))
    lines = str(FeatureExplanation(0, "x", "A", 0.5, ("A", "B"), np.array([0.5, 0.5]), shares)).splitlines()
    assert len(lines) == SHOWN + 2 and lines[-1].endswith("3 others together")
    assert float(lines[-1].split()[0]) == pytest.approx(sum(one.share for one in shares[SHOWN:]), abs=0.01)
