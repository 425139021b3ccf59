"""Training a mixture of parents: objectives against enumeration, stages, gate, settings, warm starts, stopping."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import kinfolk as kf
import mixture_oracle as oracle
from kinfolk.collective import mixture as joint
from kinfolk.collective.mixture import (
    Couplings,
    EdgeData,
    Examples,
    Layout,
    LocalModel,
    RelationLayout,
    Sample,
    checked_shares,
    fold_models,
    folds_by_group,
    gate_names,
    gate_rows,
    shape_of,
    shared_weights,
    train_gate,
    train_local,
    train_relations,
    train_together,
    wire,
)
from kinfolk.core.training import Progress, TrainingPlan
from kinfolk.errors import ConvergenceWarning, InputError, NotFittedError, SettingError
from kinfolk.inference.dag import build_dag
from kinfolk.inference.mixture import uniform_weights
from kinfolk.learning.loglinear import TableShape, TableWeights
from kinfolk.text.attributes import capitalised, lower, shape, word
from mixture_oracle import worlds
from oracles import finite_difference_gradient, ridge
from small_world import TEST, TINY, TINY_LABELS, TRAIN

FEW = [word[0], lower.window(-1, 1), shape[0], capitalised[0]]
SHORT = TRAIN.documents(0, 6)
HOW = ("none", "own", "shared")


def mixture(**changed: Any) -> kf.MixtureTagger:
    return kf.MixtureTagger(**{"templates": FEW, "n_jobs": 1, **changed})


def assert_same_weights(one: Any, other: Any) -> None:
    for a, b in zip(one.weights_, other.weights_, strict=True):
        for x, y in zip([*a.tables, *a[1:]], [*b.tables, *b[1:]], strict=True):
            np.testing.assert_array_equal(x, y)


# -- worlds of the oracle as examples


def plan(**changed: Any) -> TrainingPlan:
    return TrainingPlan(**{"l2": 0.3, "l1": 0.0, "max_iterations": 400, "tolerance": 1e-12, "patience": 5,
                           "dev_every": 5, "seed": 0, "n_jobs": 1, **changed})  # fmt: skip


def examples_of(world: oracle.World, how: list[str], start_table: int | None = None) -> Examples:
    """The world the way the library holds it; `how` tells for each relation what the features of the parent do."""
    kinds = [RelationLayout(f"r{r}", how[r], rel.edge_features.shape[1]) for r, rel in enumerate(world.relations)]
    layout = Layout(tuple(kinds), start_table)
    dag = build_dag([relation.edges for relation in world.relations], world.groups, world.start)
    pairs = [sparse.csr_array(relation.edge_features) for relation in world.relations]
    given = None if world.given is None else [world.given]
    sample = Sample(layout, sparse.csr_array(world.X), wire(layout, [dag], [pairs]), [world.gate_features], given)
    edges = [EdgeData(r.edges, h, p) for r, h, p in zip(world.relations, how, pairs, strict=True)]
    labels = world.labels.astype(np.int32)
    return Examples(sample, labels, world.weights, world.n_labels, edges, np.flatnonzero(world.start))


def in_single_precision(world: oracle.World) -> oracle.World:
    """The library keeps features in 32 bits."""
    return replace(world, X=world.X.astype(np.float32).astype(np.float64))


def oracle_world(world: oracle.World, how: list[str]) -> oracle.World:
    relations = [replace(r, parent_features=h != "none") for r, h in zip(world.relations, how, strict=True)]
    return replace(world, relations=relations)


def parameters(weights: TableWeights, layout: Layout, n_labels: int) -> oracle.Parameters:
    """The weights of the library as those of the oracle; tables that are shared turn up twice."""
    numbers = range(len(layout.relations))
    tables = [layout.parent_table(r) for r in numbers]
    edge = [weights.rows[layout.pair_columns(r)].reshape(-1, n_labels, n_labels) for r in numbers]
    return oracle.Parameters(
        [weights.tables[layout.child_table(r)] for r in numbers],
        [np.zeros((0, n_labels)) if t is None else weights.tables[t] for t in tables],
        list(weights.pair),
        edge,
        weights.tables[layout.own_start_table],
        weights.start,
        weights.gate,
    )


def brute_force(world: oracle.World, layout: Layout, sizes: TableShape, which: str, l2: float, gate_l2: float) -> Any:
    """The objective as a function of the flat weights, by listing all labellings."""

    def value(flat: np.ndarray) -> float:
        weights = sizes.split(flat)
        loss = oracle.objective(world, parameters(weights, layout, world.n_labels), which)
        return loss + ridge(flat[: len(flat) - sizes.gate], l2) + ridge(weights.gate, gate_l2)

    return value


def objective_of_training(examples: Examples, clamp: bool, l2: float, gate_l2: float, flat: np.ndarray) -> Any:
    """The value and the gradient that `train_together` goes by, at `flat`, in double precision."""
    sizes, caught = shape_of(examples.sample, examples.n_labels), {}

    def catch(objective: Any, start: np.ndarray, plan: Any, watch: Any, began: float) -> Any:
        caught["objective"] = objective
        return start, None

    start = sizes.split(flat)
    original, joint.optimise = joint.optimise, catch
    try:
        train_together(examples, start, clamp, True, gate_l2, plan(l2=l2), None, None)
    finally:
        joint.optimise = original
    objective = caught["objective"]
    used = [np.unique(examples.sample.rows[rows].indices) for rows in examples.sample.wired.rows]
    small = start._replace(tables=[table[columns] for table, columns in zip(start.tables, used, strict=True)])
    packed = objective.shape.join(small, np.float64)
    gradient = np.zeros(len(packed))
    value = objective(packed, gradient)
    parts = objective.shape.split(gradient)
    wide = sizes.split(l2 * flat)  # features that a table never sees have the ridge alone
    for table, columns, part in zip(wide.tables, used, parts.tables, strict=True):
        table[columns] = part
    hidden = sum(ridge(np.delete(t, c, axis=0).ravel(), l2) for t, c in zip(start.tables, used, strict=True))
    return value + hidden, sizes.join(TableWeights(wide.tables, *parts[1:]), np.float64)


@settings(max_examples=20)
@given(worlds(max_nodes=5, max_relations=2, with_edge_features=True, with_gate=True, unknown=True),
       st.lists(st.sampled_from(HOW), min_size=2, max_size=2), st.sampled_from([None, 0]), st.booleans(),
       st.integers(0, 2**16))  # fmt: skip
def test_training_together_goes_by_the_exact_objective(drawn: Any, how: Any, start_table: Any, clamp: bool, seed: int):
    world = in_single_precision(drawn[0])
    how = how[: len(world.relations)]
    if clamp and (world.labels < 0).any():
        return  # the oracle knows L_C of labels that are all known
    start_table = start_table if world.relations else None
    world = oracle_world(world, how)
    examples = examples_of(world, how, start_table)
    sizes = shape_of(examples.sample, world.n_labels)
    flat = np.random.default_rng(seed).standard_normal(sizes.size)
    which = "conditional" if clamp else "marginal"
    expected = brute_force(world, examples.sample.layout, sizes, which, 0.3, 0.7)
    value, gradient = objective_of_training(examples, clamp, 0.3, 0.7, flat)
    assert value == pytest.approx(expected(flat), rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(gradient, finite_difference_gradient(expected, flat), rtol=1e-6, atol=1e-6)


@settings(max_examples=10)
@given(worlds(max_nodes=5, max_relations=2, min_nodes=2, min_relations=1), st.integers(0, 2**16))
def test_several_orders_count_with_their_mean(drawn: Any, seed: int):
    world, rng = replace(in_single_precision(drawn[0]), given=None), np.random.default_rng(seed)
    how = ["own" if r.parent_features else "none" for r in world.relations]
    orders = []
    for rate in (0.0, 0.5, 1.0):
        relations = [replace(r, edges=r.edges[rng.random(len(r.edges)) >= rate]) for r in world.relations]
        relations = [replace(r, edge_features=np.zeros((len(r.edges), 0))) for r in relations]
        linked = np.isin(np.arange(len(world.X)), np.concatenate([r.edges[:, 0] for r in relations]))
        alone = replace(world, relations=relations, start=world.start | ~linked, gate_features=np.zeros((0, 0)))
        orders.append(replace(alone, gate_features=np.zeros((len(oracle.components(alone)), 0))))
    layout = examples_of(world, how).sample.layout
    dags = [build_dag([r.edges for r in one.relations], one.groups, one.start) for one in orders]
    gates = [one.gate_features for one in orders]
    sample = Sample(layout, sparse.csr_array(world.X), wire(layout, dags), gates)
    examples = Examples(sample, world.labels.astype(np.int32), world.weights, world.n_labels, [], np.empty(0, int))
    sizes = shape_of(sample, world.n_labels)
    flat = rng.standard_normal(sizes.size)
    each = [brute_force(one, layout, sizes, "marginal", 0.2, 0.0) for one in orders]
    value, gradient = objective_of_training(examples, False, 0.2, 0.0, flat)
    assert value == pytest.approx(np.mean([f(flat) for f in each]), rel=1e-9)
    expected = finite_difference_gradient(lambda x: float(np.mean([f(x) for f in each])), flat)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=12)
@given(worlds(max_nodes=6, max_relations=2, min_nodes=2, with_edge_features=True, unknown=True),
       st.lists(st.sampled_from(HOW), min_size=2, max_size=2), st.sampled_from([None, 0]))  # fmt: skip
def test_separate_training_ends_at_the_optimum_of_every_relation(drawn: Any, how: Any, start_table: Any):
    world = in_single_precision(drawn[0])
    how = how[: len(world.relations)]
    if start_table == 0 and (not world.relations or how[0] != "none"):
        start_table = None  # starts share the table of a relation that looks at the child alone
    world = oracle_world(world, how)
    examples = examples_of(world, how, start_table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding ends the search
        weights, _ = train_relations(examples, plan(), None)
    sizes = shape_of(examples.sample, world.n_labels)
    value = brute_force(world, examples.sample.layout, sizes, "separate", 0.3, 0.0)
    flat = sizes.join(weights, np.float64)
    np.testing.assert_allclose(finite_difference_gradient(value, flat), 0, atol=5e-3)


@settings(max_examples=10)
@given(worlds(max_nodes=5, min_nodes=3, max_relations=2, min_relations=1, with_gate=True), st.integers(2, 3))
def test_the_gate_is_the_best_for_models_that_did_not_see_the_fold(drawn: Any, n_folds: int):
    world = in_single_precision(drawn[0])
    how = ["own" if r.parent_features else "none" for r in world.relations]
    examples = examples_of(world, how)
    fold = np.arange(len(world.X)) % n_folds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gate, _ = train_gate(examples, fold_models(examples, fold, plan(), None), 0.5, plan(), None)
        parts = []
        for number in range(n_folds):
            held = fold == number
            seen, unseen = (np.where(mask, -1, world.labels).astype(np.int32) for mask in (held, ~held))
            weights, _ = train_relations(replace(examples, labels=seen), plan(), None)
            parts.append((replace(world, labels=unseen), weights))

    def value(flat: np.ndarray) -> float:
        layout, n = examples.sample.layout, world.n_labels
        losses = (oracle.objective(w, parameters(m._replace(gate=flat), layout, n), "marginal") for w, m in parts)
        return sum(losses) + ridge(flat, 0.5)

    np.testing.assert_allclose(finite_difference_gradient(value, gate.astype(np.float64)), 0, atol=0.03)
    assert value(gate) <= value(np.zeros(len(gate))) + 1e-9


# -- the gate and mixing weights


@settings(max_examples=10)
@given(worlds(max_nodes=5, min_nodes=2, max_relations=2, min_relations=1, with_gate=True, with_edge_features=True),
       st.integers(2, 3), st.integers(0, 2**16))  # fmt: skip
def test_cross_fitted_training_goes_by_the_likelihood_of_folds_that_models_did_not_see(
    drawn: Any, n_folds: int, seed: int
):
    world = in_single_precision(drawn[0])
    how = ["own" if relation.parent_features else "none" for relation in world.relations]
    examples = examples_of(world, how)
    fold = folds_by_group(np.arange(len(world.labels)), n_folds, 0)
    models = fold_models(examples, fold, plan(tolerance=1e-3, warns=False), None)
    sizes, rng = shape_of(examples.sample, world.n_labels), np.random.default_rng(seed)
    objective = Couplings(examples, models, sizes.split(np.zeros(sizes.size)), 0.7, 1)

    def expected(flat: np.ndarray) -> float:
        change, total = objective.split(flat), 0.7 / 2 * float(flat @ flat)
        for one in models:
            w = one.weights
            tables = [np.asarray(t, np.float64) * np.exp(s) for t, s in zip(w.tables, change.scale, strict=True)]
            sums = [getattr(w, name).astype(np.float64) + getattr(change, name) for name in ("start", "pair", "rows")]
            params = parameters(TableWeights(tables, *sums, change.gate), examples.sample.layout, world.n_labels)
            unseen = replace(world, labels=np.where(one.held, world.labels, -1))
            total -= oracle.marginal_log_likelihood(unseen, params)
        return total

    flat, gradient = rng.standard_normal(objective.size), np.zeros(objective.size)
    assert objective(flat, gradient) == pytest.approx(expected(flat), rel=1e-5, abs=1e-5)  # scores of 32 bits
    differences = finite_difference_gradient(expected, flat)
    np.testing.assert_allclose(gradient, differences, rtol=1e-3, atol=1e-4)
    value = lambda at: objective(at, np.zeros(objective.size))  # noqa: E731
    np.testing.assert_allclose(gradient, finite_difference_gradient(value, flat), rtol=1e-6, atol=1e-6)


def test_cross_fitted_training_betters_what_models_that_have_not_seen_a_document_say_of_it():
    separate, crossfit = (mixture(training=t).fit(TRAIN) for t in ("separate", "crossfit"))
    labels = separate.coding_.encode(TEST)

    def loss(model: Any) -> float:
        return -float(np.log(np.concatenate(model.predict_proba(TEST))[np.arange(len(labels)), labels]).mean())

    assert loss(crossfit) < 0.98 * loss(separate)
    assert crossfit.score(TEST) > separate.score(TEST) - 0.02
    assert crossfit.convergence_.stages[-1].name == "crossfit"
    scaled = crossfit.weights_[0].tables[0] / np.where(
        separate.weights_[0].tables[0] == 0, 1, separate.weights_[0].tables[0]
    )
    used = separate.weights_[0].tables[0] != 0
    assert np.ptp(scaled[used]) < 1e-3, "the weights of features are those of separate training, but for a factor"


def test_a_strong_ridge_leaves_separate_training_as_it_is():
    separate, crossfit = (mixture(training=t, gate_l2=1e9).fit(SHORT) for t in ("separate", "crossfit"))
    for a, b in zip(separate.weights_[0][1:], crossfit.weights_[0][1:], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    np.testing.assert_allclose(separate.weights_[0].tables[0], crossfit.weights_[0].tables[0], atol=1e-4)


def test_cross_fitted_training_needs_folds_and_takes_no_held_out_data():
    with pytest.raises(SettingError, match="needs gate_folds of 2 or more"):
        mixture(training="crossfit", gate_folds=0).fit(SHORT)
    with pytest.raises(InputError, match="leave X_dev out"):
        mixture(training="crossfit").fit(SHORT, X_dev=TEST)


def test_gate_features_tell_what_their_names_say():
    """0 -> 1 -> 2 and 0 -> 2, two kinds of edges, the second with a feature of its own."""
    dag = build_dag([np.array([[1, 0], [2, 1]]), np.array([[2, 0], [2, 1]])], np.zeros(3, int))
    edge = sparse.csr_array(np.array([[7.0], [9.0]]))
    names = gate_names(["near", "far"], [[], ["weight"]])
    table = gate_rows(dag, 2, np.array([0.1, 0.2, 0.4]), [None, edge])
    assert table.shape == (dag.n_components, len(names))
    told = [{n: round(float(v), 9) for n, v in zip(names, row, strict=True) if v} for row in table]
    assert told == [
        {"relation: start": 1, "child doubted: start": 0.1},
        {"relation: near": 1, "child doubted: near": 0.2, "parent doubted: near": 0.1},
        {"relation: near": 1, "child doubted: near": 0.4, "parent doubted: near": 0.2},
        {"relation: far": 1, "log number: far": round(np.log(2), 9), "child doubted: far": 0.4,
         "parent doubted: far": 0.1, "far: weight": 7},
        {"relation: far": 1, "log number: far": round(np.log(2), 9), "child doubted: far": 0.4,
         "parent doubted: far": 0.2, "far: weight": 9},
    ]  # fmt: skip


def test_shares_are_split_among_the_components_of_a_relation():
    dag = build_dag([np.array([[1, 0], [2, 1]]), np.array([[2, 0], [2, 1]])], np.zeros(3, int))
    weights = shared_weights(dag, np.array([1.0, 3.0, 5.0]))
    np.testing.assert_allclose(weights, [1, 1, 0.25, 0.375, 0.375])


def test_shares_by_name():
    assert checked_shares({"near": 2, "far": np.float32(1)}, ["near", "far"], "near").tolist() == [2, 1, 2]
    assert checked_shares({"near": 2, "far": 1, "start": 9}, ["near", "far"], "near").tolist() == [2, 1, 9]
    assert checked_shares({"near": 2, "far": 1}, ["near", "far"], None).tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"previous": 1, "same": 1}, r"mixing names relation 'same'; there are 'previous', 'same word', 'start'"),
        ({"previous": 1}, r"no weight for relation 'same word'; name all of previous, same word"),
        ({"previous": 0, "same word": 1}, r"mixing\['previous'\] must be a positive number; got 0"),
        ({"previous": True, "same word": 1}, "must be a positive number; got True"),
        ({"previous": 1, "same word": float("nan")}, "must be a positive number; got nan"),
        ({"previous": 1, "same word": "2"}, "must be a positive number; got '2'"),
        ({}, "no weight for relation 'previous'"),
    ],
)
def test_shares_that_cannot_be(shares: Any, message: str):
    with pytest.raises(SettingError, match=message):
        mixture(mixing=shares).fit(TINY, TINY_LABELS)


def test_shares_of_tokens_weigh_the_relations():
    """A heavy share of the chain ends at the chain alone."""
    chain = mixture(skip_edges=None, training="separate").fit(SHORT)
    heavy = mixture(mixing={"previous": 1e9, "same word": 1, "start": 1e9}, training="separate").fit(SHORT)
    for a, b in zip(chain.predict_proba(TEST), heavy.predict_proba(TEST), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    backward = mixture(order="backward", mixing={"previous": 2, "same word": 1}).fit(TINY, TINY_LABELS)
    assert backward.parents_[0].names == ("next", "same word") and backward.parents_[0].shares.tolist() == [2, 1, 2]


def test_folds_are_of_whole_groups():
    groups = np.repeat(np.arange(10), 3)
    fold = folds_by_group(groups, 3, 0)
    assert all(len(set(fold[groups == g])) == 1 for g in range(10)) and set(fold) == {0, 1, 2}
    assert set(folds_by_group(np.zeros(7, int), 3, 0)) == {0, 1, 2}, "too few groups: single instances"
    assert len(folds_by_group(np.empty(0, int), 3, 0)) == 0
    np.testing.assert_array_equal(fold, folds_by_group(groups, 3, 0))


def test_doubts_are_those_of_models_that_did_not_see_the_instance():
    """Feature i is of instance i alone: whoever has not seen it knows only how common the labels are: nothing."""
    rows, labels = sparse.csr_array(np.eye(6, dtype=np.float32)), np.array([0, 1, 0, 1, 0, 1], np.int32)
    model, uncertainty = train_local(rows, labels, np.ones(6), np.arange(6) % 3, 2, plan(l2=0.01, tolerance=1e-6), None)
    np.testing.assert_allclose(uncertainty, 0.5, atol=1e-6)
    assert (model.uncertainty(rows, 1) < 0.1).all()
    clueless = LocalModel(np.zeros((3, 4), np.float32))
    assert clueless.uncertainty(sparse.csr_array((2, 3), dtype=np.float32), 1).tolist() == [0.75, 0.75]


@pytest.mark.parametrize("training", ["separate", "conditional", "joint"])
@pytest.mark.parametrize("folds", [0, 3])
def test_a_learned_gate(training: str, folds: int):
    model = mixture(mixing="learned", gate_folds=folds, training=training)
    if training == "separate" and not folds:
        with pytest.raises(SettingError, match="needs gate_folds of 2 or more"):
            model.fit(SHORT)
        return
    model.fit(SHORT)
    for weights in model.weights_:
        assert np.isfinite(weights.gate).all() and np.abs(weights.gate).max() > 1e-3
    assert model.score(TEST) > 0.4 and model.local_ is not None
    tight = mixture(mixing="learned", gate_folds=folds, training=training, gate_l2=1e9).fit(SHORT)
    assert np.abs(tight.weights_[0].gate).max() < 1e-3, "the ridge draws to uniform weights"
    uniform = mixture(training=training).fit(SHORT)
    for a, b in zip(tight.predict_proba(TEST), uniform.predict_proba(TEST), strict=True):
        np.testing.assert_allclose(a, b, atol=0.02)


def test_without_a_gate_weights_are_uniform():
    model = mixture().fit(SHORT)
    assert model.local_ is None and len(model.weights_[0].gate) == 0
    sample, _, _ = model.parents_[0].compile(TEST, model.features_.rows(TEST, 1), None, None)
    (alpha,) = sample.alphas(model.weights_[0].gate)
    np.testing.assert_array_equal(alpha, uniform_weights(sample.wired.wirings[0].dag))


# -- the same seed, the same answer; stages


@pytest.mark.parametrize(
    "settings_",
    [{}, {"training": "separate"}, {"mixing": "learned", "edge_features": "default"}, {"order": "both", "l1": 0.05},
     {"parent_features": "shared"}, {"training": "crossfit", "mixing": "learned"}],
    ids=["joint", "separate", "gate", "both", "shared", "crossfit"],
)  # fmt: skip
def test_weights_do_not_depend_on_the_number_of_threads(settings_: Any):
    one, two = (mixture(**settings_, n_jobs=n, tolerance=0.1).fit(SHORT) for n in (1, 2))
    assert_same_weights(one, two)
    assert one.convergence_.objective == two.convergence_.objective
    for a, b in zip(one.predict_proba(TEST), two.predict_proba(TEST), strict=True):
        np.testing.assert_array_equal(a, b)


def test_joint_training_starts_from_separate_training_and_betters_its_objective():
    """L_M of the training labels, ridge included, is no worse after it than before."""
    separate, together = (mixture(training=t, tolerance=1e-5).fit(SHORT) for t in ("separate", "joint"))
    rows = separate.features_.rows(SHORT, 1)
    (parents,) = separate.parents_
    sample, _, _ = parents.compile(SHORT, rows, None, None)
    labels = separate.coding_.encode(SHORT)

    def loss(weights: TableWeights) -> float:
        table = sample.beliefs(weights)[0].marginals
        parts = [*weights.tables, *weights[1:]]
        return -np.log(table[np.arange(len(labels)), labels]).sum() + 0.05 * sum(float((p**2).sum()) for p in parts)

    assert loss(together.weights_[0]) < loss(separate.weights_[0])
    assert together.convergence_.objective == pytest.approx(loss(together.weights_[0]), rel=1e-4)


def test_the_lasso_makes_exact_zeros():
    ridge_, lasso = (mixture(l1=l1).fit(SHORT).weights_[0] for l1 in (0.0, 0.1))
    share = [float(np.mean([(t == 0).mean() for t in w.tables])) for w in (ridge_, lasso)]
    assert share[1] > share[0] and share[1] > 0.5


def test_labels_that_are_not_known():
    gaps = [[None if (s + t) % 4 == 0 else y for t, y in enumerate(r)] for s, r in enumerate(SHORT.label_rows())]
    corpus = SHORT.with_labels(kf.Column.from_strings(label for row in gaps for label in row), "BIO")
    for training in ("separate", "conditional", "joint"):
        model = mixture(training=training).fit(corpus)
        assert model.score(TEST) > 0.2 and all(None not in row for row in model.predict(corpus))


@pytest.mark.parametrize("training", ["separate", "joint"])
def test_a_label_whose_neighbours_are_unknown_is_enough(training: str):
    model = mixture(training=training).fit([["a", "Kim", "b"]], [[None, "B-PER", None]])
    assert model.predict([["Kim"]]) == [["B-PER"]]


# -- warm start, stopping, held-out data


def test_a_warm_start_goes_on_from_what_was_learned():
    settings_ = {"tolerance": 1e-5, "edge_features": "default"}
    cold, warm = mixture(**settings_).fit(SHORT), mixture(**settings_, warm_start=True).fit(SHORT)
    assert_same_weights(cold, warm)
    warm.fit(SHORT)
    assert warm.convergence_.iterations < cold.convergence_.iterations
    assert warm.convergence_.objective <= cold.convergence_.objective * (1 + 1e-6)


def test_a_warm_start_finds_features_and_labels_by_their_names():
    model = mixture(templates=[word[0]], warm_start=True, order="both").fit(TINY, TINY_LABELS)
    old, names, classes = model.weights_, model.features_.names(), list(model.classes_)
    model.set_params(max_iterations=1)
    model.fit([["left", "Bonn", "Kim"]], [["O", "B-ORG", "B-PER"]], callback=lambda progress: True)
    assert "word[0]=Bonn" in model.features_.names() and "B-ORG" in model.classes_
    for d in range(2):
        moved = model.weights_[d].tables[0][model.features_.names().index("word[0]=Kim")]
        before = old[d].tables[0][names.index("word[0]=Kim")]
        kept = [(moved[list(model.classes_).index(c)], before[classes.index(c)]) for c in ("O", "B-PER")]
        assert max(abs(a - b) for a, b in kept) < 1.5


def test_a_warm_start_from_other_relations_starts_anew():
    model = mixture(skip_edges=None, warm_start=True).fit(SHORT)
    model.set_params(skip_edges=kf.SameWord())
    fresh = mixture().fit(SHORT)
    assert model.fit(SHORT).convergence_.objective == pytest.approx(fresh.convergence_.objective, rel=1e-6)


@pytest.mark.parametrize("stage", ["warm start", "previous", "same word", "joint"])
def test_a_callback_is_told_of_every_stage(stage: str):
    seen: list[Progress] = []
    model = mixture().fit(SHORT, callback=seen.append)
    assert stage in {p.stage for p in seen} and model.convergence_.status == "converged"
    assert all(p.seconds >= 0 and np.isfinite(p.objective) for p in seen)


@pytest.mark.parametrize(
    "stage",
    ["warm start", "previous", "same word", "joint"],
)
def test_a_callback_may_stop(stage: str):
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return progress.stage == stage and progress.iteration == 2

    model = mixture().fit(SHORT, callback=watch)
    assert model.convergence_.status == "stopped"
    assert (seen[-1].stage, seen[-1].iteration) == (stage, 2), "one word is enough"
    assert len(model.predict(TEST)) == TEST.n_sentences


def test_a_callback_that_always_stops_leaves_a_model_that_works():
    model = mixture(mixing="learned", order="both").fit(SHORT, callback=lambda progress: True)
    assert model.convergence_.status == "stopped" and len(model.predict(TEST)) == TEST.n_sentences


def test_held_out_data_keep_the_best_weights():
    model = mixture(dev_every=1, patience=2, tolerance=0, l2=0.001)
    model.fit(SHORT, X_dev=TEST)
    outcome = model.convergence_
    best = max(outcome.dev_scores.values())
    assert outcome.dev_scores[outcome.best_iteration] == best == pytest.approx(model.score(TEST))
    assert outcome.status == "stopped" and outcome.iterations == outcome.best_iteration + 2


def test_held_out_data_are_used_or_refused_by_separate_training():
    try:
        model = mixture(training="separate").fit(SHORT, X_dev=TEST)
    except (InputError, SettingError):
        return
    assert model.convergence_.dev_scores


def test_the_limit_is_a_warning_at_the_line_that_called_fit():
    with pytest.warns(ConvergenceWarning, match=r"hit the iteration limit.*Raise `max_iterations`") as told:
        model = mixture(max_iterations=2, tolerance=0).fit(SHORT)
    assert {w.filename for w in told} == {__file__} and model.convergence_.status == "limit"


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    def interrupt(progress: Progress) -> None:
        if progress.stage == "joint":
            raise KeyError("stop")

    fresh = mixture()
    with pytest.raises(KeyError):
        fresh.fit(SHORT, callback=interrupt)
    assert not hasattr(fresh, "weights_")
    model = mixture().fit(TINY, TINY_LABELS)
    with pytest.raises(KeyError):
        model.fit(SHORT, callback=interrupt)
    assert model.predict(TINY) == TINY_LABELS


# -- weights of classes and sentences


def test_a_heavier_class_is_found_more_often():
    plain = mixture().fit(SHORT).evaluate(TEST)[0].types["ORG"]
    heavy = mixture(class_weight={"ORG": 20.0}).fit(SHORT).evaluate(TEST)[0].types["ORG"]
    assert heavy.predicted > plain.predicted and heavy.recall >= plain.recall


@pytest.mark.parametrize("training", ["separate", "conditional", "joint"])
def test_a_document_of_weight_zero_has_no_say(training: str):
    """Other words, other labels, no weight: the answers for the rest stay."""
    rows, labels = SHORT.rows()[:20], SHORT.label_rows()[:20]
    settings_ = {"training": training, "templates": [word[0]], "tolerance": 1e-8, "encoding": "BIO"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = mixture(**settings_).fit(rows, labels)
        strange = [*rows, ["Zork", "said"]], [*labels, ["O", "B-PER"]]
        more = mixture(**settings_).fit(*strange, sample_weight=[1] * 20 + [0])
    assert list(plain.classes_) == list(more.classes_)
    for a, b in zip(plain.predict_proba(rows), more.predict_proba(rows), strict=True):
        np.testing.assert_allclose(a, b, atol=0.01)


# -- settings


BAD = {
    "training": ("both", "'separate', 'conditional', 'joint' or 'crossfit'; got 'both'"),
    "parent_features": (None, "'none', 'own' or 'shared'; got None"),
    "order": ("left", "'forward', 'backward' or 'both'; got 'left'"),
    "gate_l2": (-1, "0, or a number from 1e-12 to 1e+12; got -1"),
    "gate_folds": (1, "a whole number of 2 or more, or 0; got 1"),
    "orders": (0, "a whole number from 1 to 100000; got 0"),
    "predict_orders": (2.5, "a whole number from 1 to 100000; got 2.5"),
    "everybody_starts": ("yes", "True or False; got 'yes'"),
    "mixing": ("equal", "'uniform', 'learned', 'given' or a dict of shares by relation; got 'equal'"),
    "l2": (-1.0, "0, or a number from 1e-12"),
    "max_iterations": (0, "a whole number of 1 or more"),
    "random_state": (-1, "a whole number of 0 or more, or None"),
}
GRAPH = kf.Graph(np.eye(4), ["a", "b", "a", "b"], {"cites": [(0, 1), (2, 3)]})


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", [kf.MixtureTagger, kf.MixtureNodes])
def test_settings_that_cannot_be(name: str, kind: Any):
    value, message = BAD[name]
    if name not in kind().get_params():  # of the other task
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            kind(**{name: value})
        return
    model = kind(**{name: value})
    with pytest.raises(SettingError) as caught:
        model.fit(*((TINY, TINY_LABELS) if kind is kf.MixtureTagger else (GRAPH,)))
    assert str(caught.value).startswith(f"{kind.__name__}({name}=...) must be ") and message in str(caught.value)
    assert not hasattr(model, "weights_")


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"skip_edges": "same word"}, r"skip_edges must be None, a builder such as SameWord\(\)"),
        ({"skip_edges": kf.SameWord}, "skip_edges must be None, a builder"),
        ({"skip_edges": [kf.SameWord(), kf.SameWord(most_recent=1)]}, "two skip edges are named 'same word'"),
        ({"edge_features": ["same colour"]}, "an edge feature is edge_feature.*got 'same colour'"),
        ({"edge_features": 3}, "edge features must be a list of names"),
        ({"mixing": "given"}, "`mixing='given'` takes the weights of a Relational; for tokens give a share"),
        ({"n_jobs": 0}, r"n_jobs=...\) must be a positive number"),
        ({"templates": "best"}, "templates must be 'sentence', 'document' or 'letters'"),
    ],
)
def test_settings_of_tokens_that_cannot_be(settings_: Any, message: str):
    with pytest.raises(SettingError, match=message):
        mixture(**settings_).fit(TINY, TINY_LABELS)


def test_a_setting_that_is_not_there():
    with pytest.raises(TypeError):
        kf.MixtureTagger(depth=3)
    with pytest.raises(SettingError, match=r"MixtureTagger has no setting 'depth'; it has: .*skip_edges"):
        mixture().set_params(depth=3)


def test_settings_come_back_as_given():
    skips, shares = [kf.SameWord(most_recent=1)], {"previous": 1, "same word": 2}
    model = mixture(skip_edges=skips, mixing=shares, order="both")
    told = model.get_params()
    assert told["skip_edges"] is skips and told["mixing"] is shares and told["order"] == "both"
    twin = clone(model)
    assert twin.get_params()["mixing"] == shares and twin.get_params()["skip_edges"] == skips
    assert clone(mixture().fit(TINY, TINY_LABELS)).__sklearn_is_fitted__() is False
    assert model.set_params(order="backward") is model and model.order == "backward"


def test_only_changed_settings_are_shown():
    assert repr(kf.MixtureTagger()) == "MixtureTagger()"
    model = kf.MixtureTagger(training="separate", skip_edges=None, l2=1.0)
    assert repr(model) == "MixtureTagger(l2=1.0, training='separate', skip_edges=None)"
    assert repr(kf.MixtureTagger(skip_edges=kf.SameWord())) == "MixtureTagger()"


def test_nothing_is_predicted_before_training():
    model = mixture()
    calls = (model.predict, model.predict_proba, model.predict_entities, model.score, model.evaluate)
    for call in (*calls, lambda X: model.explain(X, 0, 0), lambda X: model.save("nowhere"), lambda X: model.classes_):
        with pytest.raises(NotFittedError, match="MixtureTagger is not trained yet"):
            call(TINY)
    nodes = kf.MixtureNodes()
    for call in (nodes.predict, nodes.predict_proba, nodes.score, lambda X: nodes.explain(X, node=0)):
        with pytest.raises(NotFittedError, match="MixtureNodes is not trained yet"):
            call(GRAPH)
