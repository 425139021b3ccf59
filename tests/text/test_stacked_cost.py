"""What keeps stacks cheap on many tokens: levels that stop early, and a depth chosen by as few folds as tell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.text import stacked, tagger
from kinfolk.text.batch import Batch

NEWS = kf.generate_newswire(9)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, float]]:
    """Of each CRF that is trained: whether it is of a level above the base, and its tolerance."""
    seen: list[tuple[bool, float]] = []
    fit = kf.LinearChainCRF.fit

    def watched(self: Any, X: Any, *given: Any, **named: Any) -> Any:
        seen.append((Batch.of(X).extra is not None, self.tolerance))
        return fit(self, X, *given, **named)

    monkeypatch.setattr(kf.LinearChainCRF, "fit", watched)
    return seen


def test_levels_of_many_tokens_stop_early(trainings: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, folds too, whose tokens may be fewer."""
    monkeypatch.setattr(tagger, "LARGE_CORPUS", NEWS.n_tokens - 1)
    model = kf.StackedTagger(kf.LinearChainCRF(n_jobs=1), n_jobs=1).fit(NEWS)
    assert [tolerance for _, tolerance in trainings].count("auto") == 2, "the levels that are kept"
    assert {tolerance for _, tolerance in trainings} == {"auto", "early"}
    assert {level.tolerance for level in model.levels_} == {"auto"}, "trained anew as this one was"
    assert {level.convergence_.status for level in model.levels_} == {"stopped"}


def test_a_tolerance_of_ones_own_is_obeyed(trainings: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "LARGE_CORPUS", 100)
    kf.StackedTagger(kf.LinearChainCRF(tolerance=0.1, n_jobs=1), n_jobs=1).fit(NEWS)
    assert {tolerance for _, tolerance in trainings} == {0.1}


def test_on_few_tokens_levels_are_trained_to_the_end(trainings: list[Any]) -> None:
    model = kf.StackedTagger(kf.LinearChainCRF(n_jobs=1), depth=1, n_jobs=1).fit(NEWS)
    assert {tolerance for level, tolerance in trainings if level} == {kf.LinearChainCRF().tolerance}
    assert {level.convergence_.status for level in model.levels_} == {"converged"}


def test_one_fold_of_many_tokens_is_asked_and_all_of_few(
    trainings: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A base, three without a fold, a level above; and to choose the depth by, one more level for each fold asked."""
    base = kf.LinearChainCRF(tolerance=0.1, n_jobs=1)
    whole = kf.StackedTagger(base, n_jobs=1).fit(NEWS).gain_
    assert len(trainings) == 5 + 3 and whole is not None
    trainings.clear()
    monkeypatch.setattr(stacked, "LARGE_CORPUS", 100)
    model = kf.StackedTagger(base, n_jobs=1).fit(NEWS)
    part = model.gain_
    model.save(tmp_path / "model")
    assert len(trainings) == 5 + 1 and part is not None and kf.load_model(tmp_path / "model").gain_ == part
    assert part.n < whole.n == NEWS.n_documents


@pytest.mark.parametrize(("sizes", "asked"), [((3, 3, 3), 3), ((30, 30, 30), 2), ((60, 1, 1), 1), ((0, 60, 1), 2)])
def test_as_many_folds_as_it_takes(sizes: tuple[int, ...], asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "LARGE_CORPUS", 50)
    fold = np.append(np.repeat(np.arange(3), sizes), [-1, -1])
    training: Any = SimpleNamespace(scheme=SimpleNamespace(n_folds=3))
    instances: Any = SimpleNamespace(fold=fold)
    assert stacked.folds_to_choose_by(training, instances) == asked
