"""Training by ranking antecedents: the loss beside its definition, its gradient beside differences, the Linker."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_linker import FEATURES, world

import kinfolk as kf
from kinfolk.errors import GainWarning, InputError, SettingError
from kinfolk.inference.antecedents import together
from kinfolk.linking.pair_table import GroupedRows
from kinfolk.linking.ranking import RankingObjective

EXAMPLES = settings(max_examples=60, deadline=None)
L2 = 0.3


class Ranked(NamedTuple):
    n: int
    left: np.ndarray
    right: np.ndarray
    true: np.ndarray
    index: np.ndarray  # (rows, columns), the weights that are on
    row: np.ndarray  # of each pair
    weights: np.ndarray


@st.composite
def ranked(draw) -> Ranked:
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    n = draw(st.integers(0, 5))
    pairs = [(i, j) for j in range(n) for i in range(j) if draw(st.booleans())]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    starts = np.concatenate([[0], np.cumsum(widths)])
    rows = draw(st.integers(1, 4))
    index = np.stack([rng.integers(a, b, rows) for a, b in itertools.pairwise(starts)], axis=1).astype(np.int32)
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T
    cluster = rng.integers(2, size=n)
    return Ranked(
        n, left, right, cluster[left] == cluster[right], index, rng.integers(rows, size=len(pairs)),
        rng.normal(size=starts[-1]),
    )  # fmt: skip


def objective(one: Ranked, jobs: int = 1) -> RankingObjective:
    on = GroupedRows.of(one.index, len(one.weights), limit=4)
    return RankingObjective(on, one.row, one.right, one.true, one.n, L2, jobs)


def loss(one: Ranked, weights: np.ndarray) -> float:
    """By the definition, item by item."""
    total = 0.5 * L2 * float(weights @ weights)
    for j in range(one.n):
        own = [p for p in range(len(one.right)) if one.right[p] == j]
        score = {p: sum(weights[w] for w in one.index[one.row[p]]) for p in own}
        right = [p for p in own if one.true[p]]
        total += np.log(1 + sum(np.exp(s) for s in score.values()))
        total -= np.log(sum(np.exp(score[p]) for p in right) if right else 1.0)
    return float(total)


@EXAMPLES
@given(ranked())
def test_the_loss_is_the_definition_for_any_number_of_threads(one: Ranked):
    gradient = np.empty(len(one.weights))
    values = [objective(one, jobs)(one.weights, gradient) for jobs in (1, 3)]
    assert values[0] == values[1] == pytest.approx(loss(one, one.weights), abs=1e-10)


@EXAMPLES
@given(ranked())
def test_the_gradient_is_that_of_differences(one: Ranked):
    gradient = np.empty(len(one.weights))
    objective(one)(one.weights, gradient)
    step = 1e-6 * np.eye(len(one.weights))
    wanted = [(loss(one, one.weights + e) - loss(one, one.weights - e)) / 2e-6 for e in step]
    assert gradient == pytest.approx(wanted, abs=1e-6)


@EXAMPLES
@given(ranked())
def test_the_curvature_counts_every_pair_with_a_times_one_minus_a(one: Ranked):
    given = objective(one)
    given(one.weights, np.empty(len(one.weights)))
    score = one.weights[one.index].sum(axis=1)[one.row]
    bend = np.full(len(one.weights), L2)
    for j in range(one.n):
        own = np.flatnonzero(one.right == j)
        share = np.exp(score[own]) / (1 + np.exp(score[own]).sum())
        for p, a in zip(own, share, strict=True):
            bend[one.index[one.row[p]]] += a * (1 - a)
    assert given.inverse_curvature() == pytest.approx(1 / bend)


def test_weights_far_out_give_a_finite_loss():
    one = Ranked(
        2, np.array([0]), np.array([1]), np.array([True]), np.array([[0]], np.int32), np.array([0]), np.ones(1)
    )
    gradient = np.empty(1)
    for far in (-5000.0, 5000.0):
        assert np.isfinite(objective(one)(np.array([far]), gradient)) and np.isfinite(gradient).all()


# -- the Linker ---------------------------------------------------------------------------------------


def linker(**changed: Any) -> kf.Linker:
    return kf.Linker(**{"features": FEATURES, "conjunctions": "all", "training": "ranking", "n_jobs": 1, **changed})


@pytest.fixture(scope="module")
def ranking() -> kf.Linker:
    return linker(clusterer=kf.ClusterSum()).fit(world())


def test_ranking_learns_and_its_probabilities_are_those_of_the_recursion(ranking: kf.Linker):
    fresh = world(1)
    assert ranking.score(world()) > 0.8 and ranking.score(fresh) > 0.7
    shares = ranking.antecedent_shares(fresh)
    probability = together(fresh.n_items, fresh.left, fresh.right, shares.antecedent)
    assert ranking.predict_proba(fresh) == pytest.approx(probability)
    assert ranking.predict_proba(fresh) != pytest.approx(1 / (1 + np.exp(-ranking.decision_function(fresh))))


def test_clusters_are_the_same_from_scores_and_from_probabilities_given(ranking: kf.Linker):
    fresh = world(1)
    assert ranking.cluster(*ranking.compared(fresh)).tolist() == ranking.predict(fresh).tolist()


def test_cluster_sum_takes_no_probabilities_of_another_model(ranking: kf.Linker):
    fresh = world(1)
    with pytest.raises(SettingError, match="own shares of antecedents"):
        ranking.cluster(fresh, np.full(fresh.n_pairs, 0.3))
    with pytest.raises(InputError, match=r"sum to 1 at most; those of item 3 sum to 1\.2"):
        kf.ClusterSum().cluster(4, np.array([0, 1, 2]), np.array([3, 3, 3]), np.full(3, 0.4))


def test_its_probabilities_serve_every_clusterer_of_one_table(ranking: kf.Linker):
    fresh = world(1)
    paired, probability = ranking.compared(fresh)
    for clusterer in (kf.SingleLink(), kf.AverageLink(), kf.CompleteLink(), kf.BestLink(), kf.Correlation()):
        clusters = ranking.cluster(paired, probability, clusterer=clusterer)
        assert kf.linking.scores.metric("pair_f1")(fresh, clusters) > 0.6


def test_combined_is_the_mean_of_local_and_ranking(ranking: kf.Linker):
    fresh, own = world(1), {"clusterer": kf.AverageLink()}
    combined, local = (linker(training=name, **own).fit(world()) for name in ("combined", "local"))
    wanted = (local.predict_proba(fresh) + ranking.predict_proba(fresh)) / 2
    assert combined.predict_proba(fresh) == pytest.approx(wanted)
    assert combined.decision_function(fresh) == pytest.approx(local.decision_function(fresh))


def test_the_local_part_of_combined_is_unmoved_by_the_other():
    chosen = [linker(training="combined", folds=3).fit(world()), linker(training="local", folds=3).fit(world())]
    assert chosen[0].weights_ == pytest.approx(chosen[1].weights_)


@pytest.mark.parametrize("training", ["ranking", "combined"])
def test_the_same_answer_for_any_number_of_threads_and_after_saving(training: str, tmp_path: Path):
    fresh = world(1)
    models = [linker(training=training, n_jobs=jobs).fit(world()) for jobs in (1, 2)]
    answers = [model.predict_proba(fresh) for model in models]
    assert answers[0].tobytes() == answers[1].tobytes()
    models[0].save(tmp_path / "m.kinfolk")
    back = kf.load_model(tmp_path / "m.kinfolk")
    assert back.predict_proba(fresh).tobytes() == answers[0].tobytes()
    assert back.predict(fresh).tolist() == models[0].predict(fresh).tolist()


def test_folds_choose_the_threshold_of_ranking_too():
    model = linker(clusterer=kf.AverageLink(threshold=0.999), folds=4).fit(world(entities=40))
    assert model.clusterer_.threshold < 0.999


def test_across_two_tables_being_together_is_following():
    """Items of the first table have no antecedents, so nothing is together by way of others."""
    items = world(tables=2)
    model = linker().fit(items)
    assert model.predict_proba(items) == pytest.approx(model.antecedent_shares(items).antecedent)
    assert model.score(items) > 0.8


def test_whom_an_item_follows_sums_to_one(ranking: kf.Linker):
    items = world(1)
    answer = ranking.explain_antecedents(items, 7)
    assert answer.new + sum(share for _, share in answer.antecedents) == pytest.approx(1)
    shares = [share for _, share in answer.antecedents]
    assert shares == sorted(shares, reverse=True) and len(shares) == 7
    assert str(answer).startswith("7 follows\n")
    first = ranking.explain_antecedents(items, 0)
    assert first.new == 1 and first.antecedents == ()
    with pytest.raises(InputError, match="expected an item among"):
        ranking.explain_antecedents(items, 10_000)


@pytest.mark.parametrize("training", ["ranking", "combined"])
def test_a_pair_is_explained_with_the_probability_it_has(training: str):
    items = world(1)
    model = linker(training=training).fit(world())
    answer = model.explain(items, 2, 7)
    at = int(np.flatnonzero((items.left == 2) & (items.right == 7))[0])
    assert answer.probability == pytest.approx(model.predict_proba(items)[at])
    assert answer.share == pytest.approx(model.antecedent_shares(items).antecedent[at])
    assert f"followed with {answer.share:.3f}; score of this pair alone" in str(answer)


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs a Linker scores, a number each time."""
    sizes: list[int] = []
    plain = kf.Linker._scores

    def counting(self: kf.Linker, weights: Any, items: Any, *given: Any) -> Any:
        sizes.append(items.n_pairs)
        return plain(self, weights, items, *given)

    monkeypatch.setattr(kf.Linker, "_scores", counting)
    return sizes


@pytest.mark.parametrize("training", ["local", "ranking", "combined"])
def test_pairs_are_scored_once_for_probabilities_and_clusters(training: str, scored: list[int]):
    items, model = world(1), linker(training=training).fit(world())
    paired, probability = model.compared(items)
    expected = probability, model.cluster(paired, probability), model.predict(items)
    scored.clear()
    again, p, clusters = model.linked(items)
    assert scored == [items.n_pairs] * (2 if training == "combined" else 1)
    assert again.n_pairs == paired.n_pairs and p.tobytes() == expected[0].tobytes()
    assert clusters.tolist() == expected[1].tolist() == expected[2].tolist()
    known = {"probability": p, "clusters": clusters}
    plain, followed = model.explain(items, 2, 7), training != "local" and model.explain_antecedents(items, 7)
    scored.clear()
    assert model.explain(paired, 2, 7, **known) == plain
    assert training == "local" or (model.explain_antecedents(items, 7) == followed and followed.antecedents)
    assert sum(scored) <= 2 * 7, "the pairs of the item alone"


def test_a_pair_that_is_no_candidate_may_be_together_by_way_of_others(ranking: kf.Linker):
    items = world(1)
    kept = ~((items.left == 2) & (items.right == 7))
    fewer = items.with_pairs(items.left[kept], items.right[kept])
    answer = ranking.explain(fewer, 2, 7)
    assert answer.share == 0 and 0 < answer.probability < 1


def test_the_guard_compares_ranking_with_local_decisions():
    for clusterer in (None, kf.ClusterSum()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GainWarning)  # whether it gains is not the question here
            model = linker(clusterer=clusterer, guard=3).fit(world(entities=30))
        assert model.gain_ is not None and min(model.gain_.local, model.gain_.collective) > 50


def test_what_ranking_cannot_do_is_refused():
    items = world()
    with pytest.raises(SettingError, match="`training='ranking'` has to know the clusters"):
        linker().fit(replace(items, clusters=None), pairs=[("0", "1", True), ("2", "3", False)])
    with pytest.raises(SettingError, match=r"bias.*None with `training='ranking'`"):
        linker(bias=kf.Bias()).fit(items)
    for training in ("local", "structured", "combined"):
        with pytest.raises(SettingError, match="unless `training='ranking'`"):
            linker(training=training, clusterer=kf.ClusterSum()).fit(items)
    with pytest.raises(SettingError, match="'ranking' or 'combined' for shares"):
        linker(training="local").fit(items).antecedent_shares(items)
