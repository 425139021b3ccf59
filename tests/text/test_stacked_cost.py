"""What keeps stacks cheap on many tokens: levels that stop early, and a depth chosen by as few folds as tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.collective import sequences
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
    """A base, three without a fold, a level above; and to choose the depth by, for each fold asked two bases and a
    level above that know nothing of it."""
    base = kf.LinearChainCRF(tolerance=0.1, n_jobs=1)
    whole = kf.StackedTagger(base, n_jobs=1).fit(NEWS).gain_
    assert len(trainings) == 5 + 3 * 3 and whole is not None
    trainings.clear()
    monkeypatch.setattr(stacked, "LARGE_CORPUS", 100)
    model = kf.StackedTagger(base, n_jobs=1).fit(NEWS)
    part = model.gain_
    model.save(tmp_path / "model")
    assert len(trainings) == 5 + 3 and part is not None and kf.load_model(tmp_path / "model").gain_ == part
    assert part.n < whole.n == NEWS.n_documents


@pytest.mark.parametrize(("sizes", "asked"), [((3, 3, 3), 3), ((30, 30, 30), 2), ((60, 1, 1), 1), ((0, 60, 1), 2)])
def test_as_many_folds_as_it_takes(sizes: tuple[int, ...], asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "LARGE_CORPUS", 50)
    fold = np.append(np.repeat(np.arange(3), sizes), [-1, -1])
    training: Any = SimpleNamespace(scheme=SimpleNamespace(n_folds=3))
    instances: Any = SimpleNamespace(fold=fold)
    assert stacked.folds_to_choose_by(training, instances) == asked


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """Of each CRF that is trained: how many documents it sees, and how many passes do; None: as many as usual."""
    seen: list[tuple[int, int | None]] = []
    fit = kf.LinearChainCRF.fit

    def watched(self: Any, X: Any, *given: Any, **named: Any) -> Any:
        seen.append((Batch.of(X).corpus.n_documents, self._passes))
        return fit(self, X, *given, **named)

    monkeypatch.setattr(kf.LinearChainCRF, "fit", watched)
    return seen


def test_where_training_stops_early_two_folds_and_fewer_passes_do(
    passes: list[tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagger, "LARGE_CORPUS", NEWS.n_tokens - 1)
    model = kf.StackedTagger(kf.LinearChainCRF(n_jobs=1), n_jobs=1).fit(NEWS)
    assert sorted({*model.folds_.tolist()}) == [0, 1]
    assert [of for of in passes if of[0] == 9] == [(9, None), (9, sequences.ABOVE)], "the levels that are kept"
    assert {few for documents, few in passes if documents < 9} == {sequences.FEWER}
    assert [level.convergence_.iterations for level in model.levels_] == [sequences.PASSES, sequences.ABOVE]
    assert model.gain_ is not None and model.gain_.folds == 2


def test_models_of_folds_are_trained_as_far_as_others_where_passes_do_not_do(
    passes: list[tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagger, "LARGE_CORPUS", NEWS.n_tokens - 1)
    monkeypatch.setattr(sequences, "LEARNED", 0.0)
    kf.StackedTagger(kf.LinearChainCRF(n_jobs=1), depth=1, n_jobs=1).fit(NEWS)
    assert len(passes) == 4 and not any(few for _, few in passes)


def test_another_base_above_is_trained_as_far_as_usual(
    passes: list[tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether passes alone do for it is not known beforehand."""
    monkeypatch.setattr(tagger, "LARGE_CORPUS", NEWS.n_tokens - 1)
    bases = [kf.LinearChainCRF(templates=templates, n_jobs=1) for templates in ("document", "sentence")]
    kf.StackedTagger(bases, depth=1, n_jobs=1).fit(NEWS)
    assert [of for of in passes if of[0] == 9] == [(9, None), (9, None)]


def across(votes: Any, relations: Any) -> Any:
    """The vote of the token that stands first in the corpus."""
    return np.repeat(votes[:1], len(votes), axis=0)


@pytest.mark.parametrize("settings", [{"guard": True}, {"depth": 2}, {"templates": [across]}])
def test_more_than_two_folds_where_two_are_hidden_at_a_time(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagger, "LARGE_CORPUS", NEWS.n_tokens - 1)
    model = kf.StackedTagger(kf.LinearChainCRF(n_jobs=1), n_jobs=1, **settings).fit(NEWS)
    assert sorted({*model.folds_.tolist()}) == [0, 1, 2]


def test_too_few_documents_to_choose_by_leave_the_level_above() -> None:
    """One document beside the hidden one cannot be halved."""
    model = kf.StackedTagger(kf.LinearChainCRF(tolerance=0.1, n_jobs=1), n_jobs=1).fit(kf.generate_newswire(2))
    assert model.gain_ is None and len(model.levels_) == 2


def test_what_chooses_the_depth_never_saw_the_documents_it_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """With labels of one fold's documents changed, what is said of them stays as it is: neither the level that is asked
    nor the models it learned to listen to have seen them."""
    base, said = kf.LinearChainCRF(tolerance=0.1, n_jobs=1), []

    def kept(training: Any, instances: Any, labelled: Any, mine: Any) -> Any:
        found = by_level(training, instances, labelled, mine)
        if instances.fold[labelled[mine]][0] == 0:
            said.append((labelled[mine], found))
        return found

    by_level = stacked._hidden_by_level
    monkeypatch.setattr(stacked, "_hidden_by_level", kept)
    fold = kf.StackedTagger(base, n_jobs=1).fit(NEWS).folds_
    labels = NEWS.labels
    turned = labels.codes.copy()
    hidden = np.flatnonzero(fold == 0)
    turned[hidden] = labels.values.index("O")
    kf.StackedTagger(base, n_jobs=1).fit(NEWS.with_labels(replace(labels, codes=turned), NEWS.scheme))
    (one, first), (other, second) = said
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("unlabelled", [0, 1])
def test_rows_made_at_once_are_those_made_fold_by_fold(unlabelled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = NEWS.labels.codes.copy()
    codes[NEWS.token_documents < unlabelled] = -1
    model = kf.StackedTagger(kf.LinearChainCRF(tolerance=0.1, n_jobs=1), depth=2, own=True, n_jobs=1)
    corpus = NEWS.with_labels(replace(NEWS.labels, codes=codes), NEWS.scheme)
    instances, depth = model._prepared(corpus, None, None, None, None, None, False)
    training = model._trained(instances, "crossfit", depth)
    assert training.scheme.same_for_all
    index = np.flatnonzero(instances.fold >= 0)
    found = [training.training_rows(level, index) for level in (1, 2)]
    monkeypatch.setattr(type(training.scheme), "same_for_all", False)
    for level, rows in zip((1, 2), found, strict=True):
        np.testing.assert_array_equal(rows, training.training_rows(level, index))
