"""The layer of nodes over probabilities that another model gave."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError, ModelFileError, NotFittedError, SettingError
from kinfolk.learning.pooling import pooled

NAMES = ["a", "b", "c"]
N = 150
TRAIN = np.arange(N) % 3 > 0


def world(
    seed: int = 0, alike: bool = True, isolated: int = 10, n: int = N, width: int = 3
) -> tuple[kf.Graph, Any, Any]:
    """Nodes linked among equals (or anyhow), the last of them with nobody; what a model says of them that is right of
    two thirds, never sure; and their kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=n)
    pairs = rng.integers(n - isolated, size=(4 * n, 2))
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    if alike:
        pairs = pairs[(kinds[pairs[:, 0]] == kinds[pairs[:, 1]]) | (rng.random(len(pairs)) < 0.1)]
    said = np.where(rng.random(n) < 0.65, kinds, rng.integers(3, size=n))
    table = np.full((n, 3), 0.2)
    table[np.arange(n), said] = 0.6
    table = table + rng.random((n, 3)) * 0.05
    features = rng.normal(size=(n, width))
    graph = kf.Graph(features, [NAMES[k] for k in kinds], {"cites": pairs}, ids=[f"p{i}" for i in range(n)])
    return graph, table / table.sum(axis=1, keepdims=True), kinds


GRAPH, GIVEN, KINDS = world()


def new(**changed: Any) -> kf.NodeLayer:
    return kf.NodeLayer(**{"n_jobs": 1, "features": False, **changed})


@pytest.fixture(scope="module")
def trained() -> kf.NodeLayer:
    return new().fit(GRAPH, GIVEN, train=TRAIN, classes=NAMES)


def test_company_mends_what_a_model_is_unsure_of(trained: kf.NodeLayer):
    before = (GIVEN.argmax(axis=1) == KINDS)[~TRAIN].mean()
    assert trained.score(GRAPH, GIVEN) > before + 0.1
    assert trained.gain_ is not None and trained.gain_.lower > 0
    assert any(weight > 0 for name, weight in trained.weights_.items() if name != "given")


def test_answers_are_those_of_other_models(trained: kf.NodeLayer):
    table, labels = trained.predict_proba(GRAPH, GIVEN), trained.predict(GRAPH, GIVEN)
    assert list(trained.classes_) == NAMES and labels.tolist() == [NAMES[k] for k in table.argmax(axis=1)]
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert (labels == np.array(NAMES)[KINDS])[TRAIN].all(), "labels that are known stay"
    free = trained.predict_proba(GRAPH, GIVEN, known="none")
    assert (free[TRAIN].max(axis=1) < 1).all()
    some = trained.predict(GRAPH, GIVEN, nodes=["p9", "p0"])
    assert some.tolist() == [labels[9], labels[0]] == trained.predict(GRAPH.nodes_at([9, 0]), GIVEN).tolist()
    scores = trained.evaluate(GRAPH, GIVEN)
    assert scores.accuracy / 100 == pytest.approx(trained.score(GRAPH, GIVEN)) and scores.nodes == (~TRAIN).sum()


def test_the_answer_is_the_pool_of_the_candidates(trained: kf.NodeLayer):
    tables = trained.predict_candidates(GRAPH, GIVEN)
    assert next(iter(tables)) == "given"
    np.testing.assert_allclose(tables["given"], GIVEN, atol=1e-6)
    carrying = {name: weight for name, weight in trained.weights_.items() if weight > 0}
    expected = pooled([tables[name] for name in carrying], list(carrying.values()))
    links = GRAPH.relations["cites"]
    asked = ~TRAIN & ((np.diff(links.indptr) > 0) | (np.bincount(links.indices, minlength=N) > 0))
    assert asked.sum() > 40
    found = trained.predict_proba(GRAPH, GIVEN)
    np.testing.assert_allclose(found[asked], expected[asked], atol=1e-6)


def test_who_has_no_neighbour_keeps_what_was_given(trained: kf.NodeLayer):
    isolated = ~TRAIN & (np.arange(N) >= N - 10)
    np.testing.assert_allclose(trained.predict_proba(GRAPH, GIVEN)[isolated], GIVEN[isolated], atol=1e-7)
    said = trained.explain(GRAPH, GIVEN, f"p{np.flatnonzero(isolated)[0]}")
    assert said.probability == pytest.approx(GIVEN[np.flatnonzero(isolated)[0]].max())


@drawn(st.integers(0, 10_000), st.booleans(), st.integers(0, 3))
def test_a_graph_without_links_leaves_what_was_given(seed: int, features: bool, width: int):
    graph, table, _ = world(seed, n=24, isolated=0, width=width)
    graph = kf.Graph(graph.features, graph.labels, {"cites": np.zeros((0, 2), int)})
    with pytest.warns(DataWarning, match="no labelled node has a neighbour"):
        layer = new(features=features).fit(graph, table, train=np.arange(24) < 16, classes=NAMES)
    assert layer.weights_ == {"given": 1.0} and layer.gain_ is None
    np.testing.assert_allclose(layer.predict_proba(graph, table, known="none"), table, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("features", [False, True])
def test_links_that_say_nothing_do_no_harm(seed: int, features: bool):
    """Of 200 nodes not trained on; by chance alone answers may differ a little."""
    graph, table, kinds = world(seed, alike=False, n=400)
    train = np.arange(400) % 2 == 0
    layer = new(features=features).fit(graph, table, train=train, classes=NAMES)
    before = (table.argmax(axis=1) == kinds)[~train].mean()
    assert layer.score(graph, table) >= before - 0.01


def test_known_labels_are_hidden_from_the_fold_they_are_learned_in():
    """Labels drawn at random, links both ways: whoever saw their own label by a neighbour would look perfect."""
    rng = np.random.default_rng(5)
    kinds, pairs = rng.integers(2, size=120), np.arange(120).reshape(-1, 2)
    graph = kf.Graph(None, kinds, {"twin": np.concatenate([pairs, pairs[:, ::-1]])}, ids=[f"q{i}" for i in range(120)])
    table = np.full((120, 2), 0.5)
    layer = new().fit(graph, table, classes=[0, 1])
    assert layer.gain_ is not None and layer.gain_.collective < 65


def test_every_class_of_graph_is_asked_about_its_own_nodes(trained: kf.NodeLayer):
    """In another order of nodes, of classes, in a frame by id."""
    pandas = pytest.importorskip("pandas", reason="data frames")
    known = trained.predict_proba(GRAPH, GIVEN)
    turned = [2, 0, 1]
    found = trained.predict_proba(GRAPH, GIVEN[:, turned], classes=[NAMES[k] for k in turned])
    np.testing.assert_allclose(found, known, atol=1e-6)
    order = np.random.default_rng(0).permutation(N)
    frame = pandas.DataFrame(GIVEN[order], columns=NAMES, index=[f"p{i}" for i in order])
    np.testing.assert_allclose(trained.predict_proba(GRAPH, frame), known, atol=1e-6)
    again = new().fit(GRAPH, frame, train=TRAIN)
    assert again.weights_ == trained.weights_


def test_a_saved_layer_says_the_same(trained: kf.NodeLayer, tmp_path: Path):
    for layer in (trained, new(features=True, known="crossfit").fit(GRAPH, GIVEN, train=TRAIN, classes=NAMES)):
        layer.save(tmp_path / "layer.kinfolk")
        again = kf.load_model(tmp_path / "layer.kinfolk")
        assert isinstance(again, kf.NodeLayer) and again.weights_ == layer.weights_ and again.gain_ == layer.gain_
        assert again.features is layer.features and again.names_ == layer.names_
        np.testing.assert_allclose(again.predict_proba(GRAPH, GIVEN), layer.predict_proba(GRAPH, GIVEN), atol=1e-6)


def test_a_forged_file_is_refused(trained: kf.NodeLayer, tmp_path: Path):
    from kinfolk.core.modelfile import read_model_file, write_model_file

    trained.save(tmp_path / "layer.kinfolk")
    file = read_model_file(tmp_path / "layer.kinfolk")
    for forge in ("known", "doubt"):
        header = {**file.header, "pool": {**file.header["pool"]}}
        header["pool"]["layer"] = {**header["pool"]["layer"], forge: "always" if forge == "known" else 7.0}
        write_model_file(tmp_path / "forged.kinfolk", header, file.arrays, file.strings)
        with pytest.raises(ModelFileError):
            kf.load_model(tmp_path / "forged.kinfolk")


def test_nodes_of_all_labels_and_a_new_graph():
    """Every node is labelled, so neighbours give predictions, in training as in a graph of others."""
    layer = new().fit(GRAPH, GIVEN, classes=NAMES)
    assert layer.pool_.known_ == "crossfit"
    other, table, kinds = world(9)
    other = kf.Graph(other.features, other.labels, other.relations, ids=[f"r{i}" for i in range(N)])
    assert layer.score(other, table) >= (table.argmax(axis=1) == kinds).mean()


def test_an_explanation_has_candidates_and_neighbours(trained: kf.NodeLayer, tmp_path: Path):
    node = int(np.flatnonzero(~TRAIN)[0])
    said = trained.explain(GRAPH, GIVEN, f"p{node}", report=tmp_path / "page.html")
    assert said.probability == pytest.approx(trained.predict_proba(GRAPH, GIVEN)[node].max(), abs=1e-6)
    assert "what the model given says" in str(said) and "neighbour" in str(said)
    assert (tmp_path / "page.html").exists()


def test_probabilities_over_out_of_fold():
    """Whole: a classifier of features, out of fold, and the layer over it."""
    rng = np.random.default_rng(3)
    graph, _, kinds = world(4, n=300)
    features = rng.normal(size=(300, 4)) + np.eye(3, 4)[kinds]
    graph = kf.Graph(features, graph.labels, graph.relations, ids=graph.ids)
    rows = np.flatnonzero(np.arange(300) % 2 == 0)
    found = kf.out_of_fold(LogisticRegression(), features[rows], np.array(NAMES)[kinds[rows]])
    table = found.model.predict_proba(features)
    table[rows] = found.probabilities
    layer = new().fit(graph, table, train=rows, classes=found.classes)
    rest = np.setdiff1d(np.arange(300), rows)
    assert layer.score(graph, table) > (table.argmax(axis=1) == kinds)[rest].mean() + 0.05


def test_probabilities_of_a_model_that_saw_the_labels_are_noticed():
    sure = GIVEN.copy()
    sure[TRAIN] = np.full((TRAIN.sum(), 3), 0.001)
    rows = np.flatnonzero(TRAIN)
    sure[rows, np.where(rows % 10 > 0, KINDS[TRAIN], (KINDS[TRAIN] + 1) % 3)] = 0.998
    with pytest.warns(DataWarning, match="of doubt"):
        new().fit(GRAPH, sure, train=TRAIN, classes=NAMES)


def test_the_same_for_every_number_of_threads(trained: kf.NodeLayer):
    two = new(n_jobs=2).fit(GRAPH, GIVEN, train=TRAIN, classes=NAMES)
    np.testing.assert_array_equal(two.predict_proba(GRAPH, GIVEN), trained.predict_proba(GRAPH, GIVEN))


@pytest.mark.parametrize(
    ("table", "classes", "said"),
    [
        (GIVEN, None, "have no names"),
        (GIVEN[:-1], NAMES, "150 nodes; got 149"),
        (GIVEN, ["x", "y", "z"], "none of the classes given"),
        (3 * GIVEN, NAMES, "add up to"),
        (np.where(np.arange(3) == 0, np.nan, GIVEN), NAMES, "no numbers"),
    ],
)
def test_what_is_refused(table: Any, classes: Any, said: str):
    with pytest.raises(InputError, match=said):
        new().fit(GRAPH, table, train=TRAIN, classes=classes)


def test_a_frame_is_read_by_its_ids_or_by_its_rows(trained: kf.NodeLayer):
    """Never by a guess: an index that is more than numbers of rows has to have every id, once."""
    pandas = pytest.importorskip("pandas", reason="data frames")
    known, ids = trained.predict_proba(GRAPH, GIVEN), [f"p{i}" for i in range(N)]
    order = np.random.default_rng(1).permutation(N)
    frame = pandas.DataFrame(GIVEN, columns=NAMES, index=ids)
    for fine in (frame, frame.iloc[order], frame.reset_index(drop=True)):
        np.testing.assert_allclose(trained.predict_proba(GRAPH, fine), known, atol=1e-6)
    refused = {
        r"has 'q7' \(row \d+\), which is no node": frame.rename(index={"p7": "q7"}).iloc[order],
        r"has 0 \(row 0\), which is no node .*reset_index\(drop=True\)": frame.set_axis(np.arange(N) * 2),
        r"has 'p7' twice \(rows 7 and 8\)": frame.rename(index={"p8": "p7"}),
        r"lacks the node 'p149', of 150": frame.iloc[:-1],
        r"150 nodes; got 149": frame.iloc[:-1].reset_index(drop=True),
    }
    for said, wrong in refused.items():
        with pytest.raises(InputError, match=said):
            trained.predict(GRAPH, wrong)
        with pytest.raises(InputError, match=said):
            new().fit(GRAPH, wrong, train=TRAIN)


def test_rows_of_a_frame_are_no_ids(trained: kf.NodeLayer):
    """Ids that are 0 to n - 1 in another order."""
    pandas = pytest.importorskip("pandas", reason="data frames")
    order = np.random.default_rng(2).permutation(N)
    graph = kf.Graph(GRAPH.features, GRAPH.labels, GRAPH.relations, ids=order.tolist())
    frame = pandas.DataFrame(GIVEN, columns=NAMES)
    known = trained.predict_proba(graph, GIVEN, known="none")
    np.testing.assert_array_equal(trained.predict_proba(graph, frame, known="none"), known)
    by_id = frame.set_index(pandas.Index(order, name="id")).sample(frac=1, random_state=0)
    np.testing.assert_array_equal(trained.predict_proba(graph, by_id, known="none"), known)


def test_settings_are_checked(trained: kf.NodeLayer):
    with pytest.raises(NotFittedError):
        new().predict(GRAPH, GIVEN)
    with pytest.raises(SettingError, match="features"):
        new(features="document").fit(GRAPH, GIVEN, classes=NAMES)
    with pytest.raises(SettingError, match="known"):
        new(known="always").fit(GRAPH, GIVEN, classes=NAMES)
    with pytest.raises(InputError, match="expected a Graph"):
        trained.predict([[1]], GIVEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained.predict(GRAPH, GIVEN)
