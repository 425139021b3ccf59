"""Probabilities that can be believed: maps of log-odds learned on unseen pairs, against optimisers and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import kinfolk as kf
from kinfolk.core.modelfile import ModelFileError, read_model_file, write_model_file
from kinfolk.linking.calibration import KINDS, LEAST_SLOPE, Calibration, beta, calibrated, isotonic, platt
from kinfolk.linking.explain import CALIBRATED
from kinfolk.linking.page import calibration_scores


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def drawn(n: int, seed: int, truth=lambda s: s):
    """Log-odds s of n pairs, and matches with log-odds truth(s)."""
    rng = np.random.default_rng(seed)
    s = rng.normal(-1, 3, n)
    return s, rng.random(n) < sigmoid(truth(s)), rng.integers(0, 10, n)


def counts(s, y):
    order = np.argsort(s)
    return s[order], y[order].astype(int), 1 - y[order].astype(int)


def log_loss(z, y):
    return float(np.sum(np.log1p(np.exp(np.where(y, -z, z)))))


def expected_error(p, y, bins: int = 10) -> float:
    place = np.minimum((p * bins).astype(int), bins - 1)
    parts = [(p[place == k].mean() - y[place == k].mean(), (place == k).mean()) for k in set(place.tolist())]
    return float(sum(abs(gap) * share for gap, share in parts))


# -- each map is what it says ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_platt_minimises_its_loss(seed: int):
    """As a search along directions finds it: Σ log-loss + ((a - 1)² + b²) / 2."""
    s, y, _ = drawn(300, seed, lambda s: 0.5 * s - 1)

    def loss(w):
        return log_loss(w[0] * s + w[1], y) + ((w[0] - 1) ** 2 + w[1] ** 2) / 2

    best = minimize(loss, [1.0, 0.5], method="Powell", options={"xtol": 1e-9, "ftol": 1e-12}).x
    found = Calibration("Platt", platt(*counts(s, y)))
    np.testing.assert_allclose(found(np.array([0.0, 1.0])), [best[1], best[0] + best[1]], atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_beta_minimises_its_loss(seed: int):
    s, y, _ = drawn(400, seed, lambda s: np.where(s > 0, 0.4 * s, 1.3 * s))
    columns = np.stack([np.log(sigmoid(s)), -np.log(sigmoid(-s)), np.ones(len(s))])

    def loss(w):
        return log_loss(w @ columns, y) + float(np.sum((w - [1, 1, 0]) ** 2)) / 2

    bounds = [(LEAST_SLOPE, None), (LEAST_SLOPE, None), (None, None)]
    best = minimize(loss, [1.0, 1.0, 0.0], method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9}).x
    knots = beta(*counts(s, y))
    at = knots[:, 0]
    wanted = best[0] * np.log(sigmoid(at)) - best[1] * np.log(sigmoid(-at)) + best[2]
    near = np.abs(at) <= 8
    np.testing.assert_allclose(knots[near, 1], wanted[near], atol=2e-3)


def test_a_map_of_what_falls_still_rises():
    """Scores that say the opposite of the truth cannot be turned round."""
    s, y, _ = drawn(500, 0, lambda s: -s)
    for learn in KINDS.values():
        assert (np.diff(learn(*counts(s, y)), axis=0) > 0).all()


@given(st.lists(st.tuples(st.integers(-6, 6), st.booleans()), min_size=1, max_size=40))
def test_maps_rise_whatever_they_are_learned_from(pairs):
    values, place = np.unique([float(s) for s, _ in pairs], return_inverse=True)
    y = np.array([match for _, match in pairs])
    yes, no = (np.bincount(place[chosen], minlength=len(values)) for chosen in (y, ~y))
    at = np.linspace(-50, 50, 300)
    for kind, learn in KINDS.items():
        knots = learn(values, yes, no)
        assert np.isfinite(knots).all() and (np.diff(knots, axis=0) > 0).all()
        assert (np.diff(Calibration(kind, knots)(at)) > 0).all()


def test_isotonic_passes_through_the_shares_of_its_groups():
    """Two clear levels: at -2 a tenth are matches, at 2 all but a tenth; each has one pair more of what it says."""
    s = np.array([-2.0, 2.0])
    found = Calibration("isotonic", isotonic(s, np.array([100, 900]), np.array([900, 100])))
    wanted = (np.array([100, 900]) + sigmoid(s)) / 1001
    np.testing.assert_allclose(sigmoid(found(s)), wanted)
    np.testing.assert_allclose(found(np.array([3.0, 5.0])) - found(s[1:]), [1, 3], err_msg="1 at most beyond")


def test_no_map_changes_nothing():
    s = np.array([-3.0, 0.0, 12.5])
    assert Calibration()(s) is not None
    np.testing.assert_array_equal(Calibration()(s), s)


# -- which map is taken -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "truth",
    [lambda s: 0.4 * s, lambda s: s - 2, lambda s: np.where(s > 0, 0.3 * s, s), lambda s: np.clip(s, -1.5, 1.5)],
    ids=["too sure", "too high", "too sure of matches", "never sure"],
)
def test_wrong_probabilities_become_right(truth):
    s, y, part = drawn(6000, 1, truth)
    found = calibrated(s, y, part)
    fresh, matches, _ = drawn(6000, 2, truth)
    assert found.kind != "identity" and found.gain > 0
    assert expected_error(sigmoid(fresh), matches) > 0.04
    assert expected_error(sigmoid(found(fresh)), matches) < 0.025
    assert log_loss(found(fresh), matches) < log_loss(fresh, matches)


@pytest.mark.parametrize("seed", range(5))
def test_right_probabilities_stay_close(seed: int):
    s, y, part = drawn(3000, seed)
    fresh, matches, _ = drawn(3000, seed + 100)
    found = calibrated(s, y, part)
    assert log_loss(found(fresh), matches) < log_loss(fresh, matches) + 3


@pytest.mark.parametrize("matches", [0, 29, 971, 1000])
def test_few_matches_or_few_others_teach_nothing(matches: int):
    s = np.linspace(-3, 3, 1000)
    found = calibrated(s, np.arange(1000) < matches, np.arange(1000) % 10)
    assert found.kind == "identity" and not len(found.knots)
    assert "left as they are" in str(found)


# -- in a Linker --------------------------------------------------------------------------------------------


def customers(seed: int):
    return kf.block(kf.generate_customers(500, seed=seed), ["key(postcode)", "key(surname)", "key(date_of_birth)"])


def overconfident(**settings):
    """A model whose map is known: every log-odds is halved, less a quarter."""
    linker = kf.Linker(["edit(surname)", "edit(given_name)"], n_jobs=1, clusterer=None, **settings).fit(customers(0))
    linker.calibration_ = Calibration("Platt", np.array([[-40.0, -20.25], [40.0, 19.75]]))
    return linker


def test_every_answer_of_a_linker_is_calibrated(tmp_path: Path):
    linker, items = overconfident(training="local"), customers(1)
    raw = linker._scores(linker.weights_, items, 1)
    np.testing.assert_allclose(linker.decision_function(items), raw / 2 - 0.25)
    np.testing.assert_allclose(linker.predict_proba(items), sigmoid(raw / 2 - 0.25))
    paired, probability, clusters = linker.linked(items)
    np.testing.assert_array_equal(linker.cluster(paired, probability), clusters)
    np.testing.assert_array_equal(linker.predict(items), clusters)
    linker.save(tmp_path / "model")
    again = kf.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(items), linker.predict_proba(items))


def test_explanations_add_up_to_the_calibrated_log_odds():
    linker, items = overconfident(training="local"), customers(1)
    at = int(np.argmax(linker.predict_proba(items)))
    one = linker.explain(items, int(items.left[at]), int(items.right[at]))
    assert one.score == pytest.approx(one.base + sum(part.share for part in one.contributions))
    assert one.score == pytest.approx(linker.decision_function(items)[at])
    assert one.probability == pytest.approx(linker.predict_proba(items)[at])
    assert CALIBRATED in [part.feature for part in one.contributions]


@pytest.mark.parametrize("training", ["ranking", "combined"])
def test_ranking_is_calibrated_where_probabilities_come_out(training: str):
    linker, items = overconfident(training=training), customers(1)
    probability = linker.predict_proba(items)
    mapped, linker.calibration_ = linker.calibration_, Calibration()
    raw = linker.predict_proba(items)
    inside = (raw > 1e-6) & (raw < 1 - 1e-6)
    linker.calibration_ = mapped
    np.testing.assert_allclose(probability[inside], sigmoid(np.log(raw / (1 - raw))[inside] / 2 - 0.25))
    at = int(np.argmax(probability))
    one = linker.explain(items, int(items.left[at]), int(items.right[at]))
    assert one.probability == pytest.approx(probability[at])


def test_a_file_without_a_map_leaves_probabilities_as_they_are(tmp_path: Path):
    linker, items = overconfident(training="local"), customers(1)
    linker.save(tmp_path / "model")
    file = read_model_file(tmp_path / "model")
    header, arrays = file.header, dict(file.arrays)
    del header["linker"]["calibration"], arrays["calibration"]
    write_model_file(tmp_path / "old", header, arrays, dict(file.strings))
    raw = linker._scores(linker.weights_, items, 1)
    np.testing.assert_array_equal(kf.load_model(tmp_path / "old").decision_function(items), raw)


@pytest.mark.parametrize("knots", [np.zeros((3, 2)), np.array([[0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.5]])])
def test_a_map_that_does_not_rise_is_refused(knots, tmp_path: Path):
    linker = overconfident(training="local")
    linker.calibration_ = Calibration("Platt", knots)
    linker.save(tmp_path / "model")
    with pytest.raises(ModelFileError):
        kf.load_model(tmp_path / "model")


def test_structured_training_is_calibrated_on_unseen_pairs():
    items, fresh = customers(0), customers(1)
    model = kf.Linker(["edit(surname)", "edit(given_name)"], rounds=2, n_jobs=1).fit(items)
    assert model.folds == "auto" and model.clusterer == "auto"
    paired, probability, _ = model.linked(fresh)
    error = expected_error(probability, paired.pair_labels == 1)
    told = model.evaluate(fresh)["calibration"]
    assert error < 0.03 and told["error"] == pytest.approx(error)
    unsure = (probability > 0.05) & (probability < 0.95)
    assert told["unsure"] == pytest.approx(unsure.mean())
    assert told["error of unsure"] == pytest.approx(
        expected_error(probability[unsure], paired.pair_labels[unsure] == 1)
    )
    assert told["brier"] == pytest.approx(np.mean((probability - paired.pair_labels) ** 2))


def test_a_bias_is_not_taken_back():
    settings = {"training": "local", "folds": 3, "n_jobs": 1}
    leaning = kf.Linker(["edit(surname)"], bias=kf.Bias("all", 3.0), **settings).fit(customers(0))
    assert leaning.calibration_.kind == "identity"


def test_nothing_to_believe_is_no_error():
    assert calibration_scores(np.empty(0), np.empty(0, np.int8)) == {
        "error": 0.0,
        "error of unsure": 0.0,
        "unsure": 0.0,
        "brier": 0.0,
    }
