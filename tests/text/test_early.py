"""Training that stops early: when it does, what it answers, and where the optimiser runs in any case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinfolk as kf
from kinfolk.collective import sequences
from kinfolk.collective.sequences import PASSES
from kinfolk.core.training import Progress
from kinfolk.errors import SettingError
from kinfolk.text import tagger
from kinfolk.text.attributes import shape, word

TRAIN, TEST = kf.newswire_split(train=60, test=30, seed=5)
CHAINS = [kf.MaxEnt, kf.MEMM, kf.LinearChainCRF]


def trained(model: Any, **given: Any) -> Any:
    return model.fit(TRAIN, **given)


@pytest.mark.parametrize("make", CHAINS)
def test_a_few_passes_score_as_the_optimum_does(make: Any) -> None:
    early, optimum = (trained(make(tolerance=tolerance, n_jobs=1)) for tolerance in ("early", 1.5e-4))
    assert early.score(TEST) > optimum.score(TEST) - 0.01
    assert early.convergence_.status == "stopped" and early.convergence_.iterations == PASSES
    (stage,) = early.convergence_.stages
    assert len(stage.warm) == PASSES and stage.warm[-1] < 0.1 * stage.warm[0]
    assert optimum.convergence_.status == "converged"


@pytest.mark.parametrize("make", [*CHAINS, kf.MixtureTagger, kf.SkipChainCRF])
def test_threads_do_not_change_the_weights_and_files_keep_them(make: Any, tmp_path: Path) -> None:
    few = TRAIN.documents(0, 20 if make in CHAINS else 8)
    one, two = (make(tolerance="early", n_jobs=jobs).fit(few) for jobs in (1, 2))
    assert one.predict(TEST) == two.predict(TEST)
    for a, b in zip(one.predict_proba(TEST), two.predict_proba(TEST), strict=True):
        assert_array_equal(a, b)
    one.save(tmp_path / "model.kf")
    again = kf.load_model(tmp_path / "model.kf")
    assert again.tolerance == "early" and again.predict(TEST) == one.predict(TEST)


def test_by_itself_it_stops_early_on_many_tokens_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few = TRAIN.documents(0, 4)
    assert kf.LinearChainCRF(n_jobs=1).fit(few).convergence_.status == "converged"
    monkeypatch.setattr(tagger, "LARGE_CORPUS", few.n_tokens)
    assert kf.LinearChainCRF(n_jobs=1).fit(few).convergence_.status == "converged"
    monkeypatch.setattr(tagger, "LARGE_CORPUS", few.n_tokens - 1)
    assert kf.LinearChainCRF(n_jobs=1).fit(few).convergence_.status == "stopped"
    assert kf.LinearChainCRF(tolerance=0.01, n_jobs=1).fit(few).convergence_.status == "converged"
    assert not kf.SkipChainCRF().stops_early(10**6), "links are learned over the optimum of the chain"


def test_few_features_are_left_to_the_optimiser() -> None:
    """Passes stay far from what they could learn."""
    few: dict[str, Any] = {"templates": [shape[0]], "n_jobs": 1}
    early, optimum = (kf.LinearChainCRF(tolerance=stop, **few).fit(TRAIN) for stop in ("early", 1.5e-4))
    assert early.convergence_.status == "converged"
    assert_array_equal(early.weights_.node, optimum.weights_.node)
    (stage,) = early.convergence_.stages
    stopped = kf.LinearChainCRF(tolerance="early", **few).fit(TRAIN, callback=lambda p: p.iteration == 2)
    assert stopped.convergence_.status == "stopped" and stopped.convergence_.iterations == 2
    assert stage.warm == optimum.convergence_.stages[0].warm, "of the training that counts"


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({"l1": 0.1}, {}),
        ({"transition_templates": [word[0]]}, {}),
        ({}, {"vectors": np.random.default_rng(0).standard_normal((TRAIN.documents(0, 8).n_tokens, 3))}),
        ({}, {"X_dev": TEST}),
    ],
)
def test_what_passes_cannot_learn_is_left_to_the_optimiser(settings: Any, given: Any) -> None:
    model = kf.LinearChainCRF(tolerance="early", n_jobs=1, **settings).fit(TRAIN.documents(0, 8), **given)
    assert model.convergence_.evaluations > 5


def test_vectors_take_passes_and_then_a_few_iterations() -> None:
    rng = np.random.default_rng(0)
    gold = np.array([label for row in TRAIN.label_rows() for label in row])
    others = np.array([label for row in TEST.label_rows() for label in row])
    means = {label: rng.standard_normal(20) for label in sorted({*gold, *others})}
    train, test = (
        corpus.with_vectors(
            (np.stack([means[one] for one in names]) + 2 * rng.standard_normal((len(names), 20))).astype("f4")
        )
        for corpus, names in ((TRAIN, gold), (TEST, others))
    )
    early, same, optimum = (
        kf.LinearChainCRF(tolerance=tolerance, n_jobs=jobs).fit(train)
        for tolerance, jobs in (("early", 1), ("early", 2), (1.5e-4, 1))
    )
    assert early.convergence_.status == "stopped" and optimum.convergence_.status == "converged"
    assert 0 < early.convergence_.iterations < optimum.convergence_.iterations
    assert early.score(test) > optimum.score(test) - 0.01
    assert_array_equal(np.concatenate(early.predict_proba(test)), np.concatenate(same.predict_proba(test)))


def test_passes_that_end_worse_than_knowing_nothing_are_not_kept() -> None:
    """Values whose root mean square is that of one huge one: the optimiser finds its way."""
    X = [[{"x": 1e8 if i == 0 else 1e-8, "y": float(i % 2)}] for i in range(40)]
    y = [[str(i % 2)] for i in range(40)]
    model = kf.LinearChainCRF(tolerance="early", min_count=1, scheme=None, n_jobs=1).fit(X, y)
    assert np.isfinite(model.weights_.node).all() and model.predict(X[1:]) == y[1:]


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e4])
def test_units_of_features_and_of_weights_do_not_matter(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for rounding: columns are evened out, and so are weights of sentences."""
    monkeypatch.setattr(sequences, "LEARNED", 1.0)  # three features are few
    rng = np.random.default_rng(1)
    table = rng.standard_normal((200, 3))
    y = [[str(int(row[0] + row[1] > 0))] for row in table]

    def answers(by: float, weight: float) -> Any:
        X = [[{"a": float(by * a), "b": float(b), "c": float(c)}] for a, b, c in table]
        model = kf.LinearChainCRF(tolerance="early", l2=0.0, scheme=None, n_jobs=1)
        return np.concatenate(model.fit(X, y, sample_weight=np.full(200, weight)).predict_proba(X))

    plain = answers(1.0, 1.0)
    assert_allclose(answers(scale, 1.0), plain, atol=1e-3)
    assert_allclose(answers(1.0, scale), plain, atol=1e-3)


def test_a_callback_sees_the_passes_and_may_stop_them() -> None:
    seen: list[Progress] = []
    trained(kf.LinearChainCRF(tolerance="early", n_jobs=1), callback=seen.append)
    assert [(p.stage, p.iteration, p.limit) for p in seen] == [("warm start", i, PASSES) for i in range(1, PASSES + 1)]
    model = kf.LinearChainCRF(tolerance="early", n_jobs=1).fit(TRAIN, callback=lambda p: p.iteration == 2)
    assert model.convergence_.status == "stopped" and model.convergence_.iterations == 2
    assert model.score(TEST) > 0.5


def test_it_goes_on_from_the_weights_of_an_earlier_fit() -> None:
    few = TRAIN.documents(0, 10)
    cold = kf.LinearChainCRF(tolerance="early", n_jobs=1).fit(few)
    warm = kf.LinearChainCRF(tolerance="early", warm_start=True, n_jobs=1).fit(few).fit(few)
    first, second = (model.convergence_.stages[0].warm[0] for model in (cold, warm))
    assert second < 0.5 * first


def test_a_tolerance_of_another_word_is_refused() -> None:
    with pytest.raises(SettingError, match="'auto' or 'early'"):
        kf.LinearChainCRF(tolerance="late").fit(TRAIN)
