"""What models of nodes gain by their neighbours: a warning where links are noise, none where they help."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import GainWarning, SettingError


def world(helps: bool, n: int = 150, groups: int = 1, seed: int = 0) -> kf.Graph:
    """Two kinds of nodes with weak features, linked to their own kind, or to anybody of their graph."""
    rng = np.random.default_rng(seed)
    kind, group = rng.integers(2, size=n), np.arange(n) % groups
    features = (2 * kind[:, None] - 1) * 0.4 + rng.normal(size=(n, 2))
    links = set()
    for i in range(n):
        pool = np.flatnonzero((group == group[i]) & ((kind == kind[i]) | (not helps)) & (np.arange(n) != i))
        links |= {(i, int(j)) for j in rng.choice(pool, 3)}
    named = {"groups": [f"g{g}" for g in group]} if groups > 1 else {}
    ids = [f"n{i}" for i in range(n)]
    return kf.Graph(features, ["ab"[k] for k in kind], {"near": np.array(sorted(links))}, ids=ids, **named)


MODELS: dict[str, Any] = {
    "MixtureNodes": lambda: kf.MixtureNodes(orders=3, predict_orders=5, tolerance=0.01, n_jobs=1, guard=3),
    "LinkModel": lambda: kf.LinkModel(tolerance=0.01, n_jobs=1, guard=3),
    "DependencyNetwork": lambda: kf.DependencyNetwork(LogisticRegression(), burn_in=10, sweeps=20, guard=3, n_jobs=1),
    "StackedNodes": lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=3, guard=3, n_jobs=1),
}
EACH = pytest.mark.parametrize("name", MODELS)
HELPS, NOISE = world(True), world(False)


@EACH
def test_where_links_help_the_gain_is_above_0_and_nothing_is_warned_of(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error", GainWarning)
        gain = MODELS[name]().fit(HELPS).gain_
    assert (
        gain.beats and gain.gain > 5 and (gain.metric, gain.unit, gain.n, gain.folds) == ("accuracy", "nodes", 150, 3)
    )


@EACH
def test_where_links_are_noise_it_warns_and_names_the_local_model(name: str):
    with pytest.warns(GainWarning) as caught:
        gain = MODELS[name]().fit(NOISE).gain_
    (told,) = (str(one.message) for one in caught)
    assert told.startswith(f"{gain.verdict(name)}: accuracy ") and "The local model is " in told and told.count("`") > 1
    assert gain.lower <= 0 and gain.differing > 0 and abs(gain.gain) < 8


@EACH
def test_several_graphs_are_held_out_whole(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GainWarning)  # six of them show little
        gain = MODELS[name]().fit(world(True, groups=6)).gain_
    assert (gain.unit, gain.n) == ("graphs", 6)


@pytest.mark.parametrize("name", ["LinkModel"])
def test_nodes_in_another_order_gain_the_same(name: str):
    """Folds go by id. Not of models that draw orders, samples or folds by the place of a node."""
    order = np.random.default_rng(3).permutation(150)
    place = np.argsort(order)
    links = place[np.transpose(HELPS.relational().relations["near"].nonzero())]
    labels = [HELPS.labels[i] for i in order]
    other = kf.Graph(np.asarray(HELPS.features)[order], labels, {"near": links}, ids=[f"n{i}" for i in order])
    assert MODELS[name]().fit(other).gain_ == MODELS[name]().fit(HELPS).gain_


def test_the_local_score_of_a_stack_is_that_of_its_base_on_the_same_folds():
    model = MODELS["StackedNodes"]().fit(HELPS)
    gold, x = np.array(HELPS.labels), np.asarray(HELPS.features)
    right = [
        (LogisticRegression().fit(x[model.folds_ != f], gold[model.folds_ != f]).predict(x) == gold)[model.folds_ == f]
        for f in range(3)
    ]
    assert model.gain_.local == pytest.approx(100 * np.concatenate(right).mean())
    cross = MODELS["StackedNodes"]().cross_fit(HELPS)
    assert model.gain_.collective == pytest.approx(100 * (np.array(["a", "b"])[cross.argmax(axis=1)] == gold).mean())


@pytest.mark.parametrize("predictions", ["label", "sample"])
def test_the_base_of_a_stack_is_scored_by_its_probabilities_whatever_its_votes(predictions: str):
    one, other = MODELS["StackedNodes"](), MODELS["StackedNodes"]().set_params(predictions=predictions)
    assert one.fit(HELPS).gain_.local == other.fit(HELPS).gain_.local


def test_nothing_is_measured_where_nothing_is_collective_and_that_is_said():
    for name, settings, why in (
        ("MixtureNodes", {"relations": []}, "no links are used"),
        ("LinkModel", {"relations": []}, "no links are used"),
        ("StackedNodes", {"depth": 0}, "there is no level above the base"),
    ):
        with pytest.warns(GainWarning, match=f"^`guard=3` has nothing to compare: {why}$"):
            assert MODELS[name]().set_params(**settings).fit(HELPS).gain_ is None


def test_a_stack_is_measured_by_its_own_folds_and_takes_no_other_number():
    model = MODELS["StackedNodes"]()
    with pytest.raises(SettingError, match=r"True or 3, the number of `folds`, .*; got 5; set `guard=3`, or `folds=5`"):
        model.set_params(guard=5).fit(HELPS)
    numbered = MODELS["StackedNodes"]().fit(HELPS).gain_
    assert model.set_params(guard=True).fit(HELPS).gain_ == numbered
    assert model.set_params(guard=False).fit(HELPS).gain_ is None
    assert model.set_params(guard=3, folds=np.arange(150) % 3).fit(HELPS).gain_.folds == 3
    assert "folds" in kf.StackedNodes.DECLARED["guard"].help and kf.StackedNodes(LogisticRegression()).guard is None


def test_a_model_whose_links_say_nothing_answers_as_its_local_model():
    """A strong ridge holds all weights at 0: both say the label of most nodes."""
    links = np.stack([np.arange(59), np.arange(1, 60)], axis=1)
    features = np.random.default_rng(0).normal(size=(60, 2))
    alike = kf.Graph(features, ["a"] * 40 + ["b"] * 20, {"near": links})
    model = kf.StackedNodes(LogisticRegression(C=1e-12), depth=1, folds=2, cross_fitting="paper", n_jobs=1, guard=True)
    with pytest.warns(GainWarning, match="^StackedNodes answers as its local model does: accuracy .*answer differs"):
        gain = model.fit(alike).gain_
    assert (gain.gain, gain.lower, gain.upper, gain.differing) == (0, 0, 0, 0)
    assert MODELS["StackedNodes"]().fit(HELPS).at_depth(0).gain_ is None


@pytest.mark.parametrize("setting", [{"known": "ceiling"}, {"cross_fitting": "none"}])
def test_a_stack_without_cross_fitting_cannot_be_guarded(setting: dict[str, str]):
    with pytest.raises(SettingError, match="compares cross-fitted predictions, and"):
        MODELS["StackedNodes"]().set_params(**setting).fit(HELPS)


def test_a_part_of_the_nodes_to_train_on_is_all_that_is_measured():
    train = np.arange(150) < 90
    gain = MODELS["LinkModel"]().fit(HELPS, train=train, sample_weight=np.ones(150)).gain_
    assert gain.n == 90


def test_of_forty_graphs_whose_links_are_noise_few_seem_to_gain():
    """The truth is 0: about one in forty intervals should lie above it, and nearly all should hold it."""
    gains = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GainWarning)
        for seed in range(40):
            model = kf.StackedNodes(LogisticRegression(), depth=1, folds=3, guard=3, n_jobs=1, known="crossfit")
            gains.append(model.fit(world(False, n=90, seed=seed)).gain_)
    assert sum(gain.beats for gain in gains) <= 4
    assert sum(gain.lower <= 0 <= gain.upper for gain in gains) >= 34
