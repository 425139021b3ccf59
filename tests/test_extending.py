"""The files that the guide to extending shows are added as it says, and used by the public face alone."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from every_model import BLOCKING, CORPUS, GRAPH, PEOPLE
from kinfolk.collective.relations import Neighbourhood
from kinfolk.errors import InputError, ModelFileError, NotFittedError, SettingError
from kinfolk.inference.chain import Potentials, viterbi
from kinfolk.text.attributes import word
from test_docs import DOCS, blocks

FILES = {block.title: block.text for block in blocks(DOCS / "extending.md") if block.title is not None}
LONGEST = 60  # lines; a class that needs more has a base class that does too little


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where Python looks for modules, with the files of the guide."""
    place = tmp_path_factory.mktemp("own")
    for name, text in FILES.items():
        (place / name).write_text(text, encoding="utf-8")
    sys.path.insert(0, str(place))
    yield place
    sys.path.remove(str(place))


@pytest.fixture
def added(folder: Path, request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def own(name: str) -> Any:
    return pytest.mark.parametrize("added", [name], indirect=True)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_short(name: str) -> None:
    assert len(FILES[name].splitlines()) <= LONGEST


# -- a relational template ----------------------------------------------------------------------------


def stacked(*templates: Any) -> kf.StackedNodes:
    return kf.StackedNodes(LogisticRegression(), list(templates), folds=3, n_jobs=1)


@own("spread")
def test_a_template(added: ModuleType, tmp_path: Path) -> None:
    template = added.Spread("near")
    assert repr(template) == "Spread('near')" and template.name == "spread(near)"
    model = stacked(kf.Mean("near"), template, "spread:near:hard").fit(GRAPH, train=range(24))
    assert model.templates[2] == "spread:near:hard" and model.template_set_.templates[2] == added.Spread(
        "near", hard=True
    )
    model.save(tmp_path / "model")
    again = kf.load_model(tmp_path / "model")
    assert again.template_set_ == model.template_set_
    np.testing.assert_array_equal(again.predict_proba(GRAPH), model.predict_proba(GRAPH))
    assert "spread(near)" in str(model.explain(GRAPH, node=30))
    with pytest.raises(SettingError, match=r"Spread\(of=...\) must be"):
        added.Spread("near", of="features")


@own("spread")
def test_the_template_is_the_variance(added: ModuleType) -> None:
    votes = np.random.default_rng(0).dirichlet([1, 1, 1], GRAPH.n_nodes)
    links = GRAPH.relations["near"]
    out = np.empty_like(votes)
    neighbourhood = Neighbourhood(GRAPH.n_nodes, 3, GRAPH.relations)
    added.Spread("near").write(neighbourhood, votes, np.arange(GRAPH.n_nodes), out)
    for i in range(GRAPH.n_nodes):
        around = votes[links.indices[links.indptr[i] : links.indptr[i + 1]]]
        np.testing.assert_allclose(out[i], around.var(axis=0) if len(around) else 0, atol=1e-6)


@own("spread")
def test_a_dependency_network_takes_the_template(added: ModuleType) -> None:
    network = kf.DependencyNetwork(LogisticRegression(), [added.Spread("near")], sweeps=3, burn_in=1, n_jobs=1)
    assert network.fit(GRAPH).predict_proba(GRAPH, known="none").shape == (36, 3)
    with pytest.raises(SettingError, match="mode='fast'"):
        network.set_params(mode="fast").fit(GRAPH)


# -- a clusterer --------------------------------------------------------------------------------------


@own("star")
def test_a_clusterer(added: ModuleType, tmp_path: Path) -> None:
    linker = kf.Linker(blocking=BLOCKING, clusterer=added.Star(by="probability"), n_jobs=1).fit(PEOPLE)
    linker.save(tmp_path / "model")
    again = kf.load_model(tmp_path / "model")
    assert again.clusterer_.get_params() == linker.clusterer_.get_params()
    np.testing.assert_array_equal(again.predict(PEOPLE), linker.predict(PEOPLE))
    assert linker.score(PEOPLE) > 0.8
    with pytest.raises(SettingError, match=r"Star\(by=...\) must be 'links' or 'probability'; got 'size'"):
        kf.Linker(blocking=BLOCKING, clusterer=added.Star(by="size")).fit(PEOPLE)


@own("star")
@pytest.mark.parametrize("by", ["links", "probability"])
def test_the_clusters_are_stars(added: ModuleType, by: str) -> None:
    rng = np.random.default_rng(3)
    right, left = (ends.astype(np.int32) for ends in np.nonzero(np.tri(30, k=-1)))
    p = rng.random(len(left)) ** 3
    sure = np.zeros((30, 30), bool)
    sure[left, right] = sure[right, left] = p > 0.5
    found = added.Star(by=by).cluster(30, left, right, p)
    for number in range(found.max() + 1):
        items = np.flatnonzero(found == number)
        assert any(sure[centre, items[items != centre]].all() for centre in items)
    assert np.bincount(added.Star(by=by, max_size=2).cluster(30, left, right, p)).max() == 2
    ruled = added.Star(by=by).cluster(30, left, right, p, must_link=[(0, 1)], cannot_link=[(2, 3)])
    assert ruled[0] == ruled[1] and ruled[2] != ruled[3]


# -- a model of nodes ---------------------------------------------------------------------------------


@own("centroids")
def test_a_model_of_nodes(added: ModuleType, tmp_path: Path) -> None:
    model = added.Centroids(smoothing=0.7).fit(GRAPH, train=range(24))
    found = model.predict_proba(GRAPH)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (model.predict(GRAPH)[:24] == np.array(GRAPH.labels)[:24]).all() and (found[:24].max(axis=1) == 1).all()
    assert model.predict_proba(GRAPH, known="none")[:24].max() < 1
    scores = model.evaluate(GRAPH, report=tmp_path / "scores.html")
    assert scores.nodes == 12 and model.score(GRAPH) == scores.accuracy / 100 > 0.7
    assert "Centroids" in (tmp_path / "scores.html").read_text()
    model.save(tmp_path / "model")
    again = kf.load_model(tmp_path / "model")
    assert type(again) is added.Centroids and again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict_proba(GRAPH), found)
    assert str(again.explain(GRAPH, node=30)) == str(model.explain(GRAPH, node=30))


@own("centroids")
def test_the_model_of_nodes_is_what_it_says(added: ModuleType) -> None:
    model, labels = added.Centroids(smoothing=0.3, temperature=2.0).fit(GRAPH), np.array(GRAPH.labels)
    x, links = np.asarray(GRAPH.features), GRAPH.relations["near"].toarray()
    links = links + links.T
    around = [row @ x / row.sum() if row.any() else own for row, own in zip(links, x, strict=True)]
    z = 0.7 * x + 0.3 * np.array(around)
    means = {label: z[labels == label].mean(axis=0) for label in "abc"}
    variance = np.mean([(row - means[label]) ** 2 for row, label in zip(z, labels, strict=True)])
    scores = [
        [np.log((labels == label).mean()) - ((row - means[label]) ** 2).sum() / (4 * variance) for label in "abc"]
        for row in z
    ]
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(GRAPH, known="none"), expected, rtol=1e-4)


@own("centroids")
def test_a_model_of_nodes_explains(added: ModuleType, tmp_path: Path) -> None:
    """Without a word in its file: what is predicted with links cut."""
    model = added.Centroids().fit(GRAPH, train=range(24))
    answer = model.explain(GRAPH, node=30, report=tmp_path / "node.html")
    alone, together = (level.distribution for level in answer.levels)
    np.testing.assert_allclose(together, model.predict_proba(GRAPH)[30])
    lonely = kf.Graph(GRAPH.features, GRAPH.labels, {"near": np.empty((0, 2), int)}, ids=GRAPH.ids)
    np.testing.assert_allclose(alone, model.predict_proba(lonely, known="none")[30])
    (links,) = answer.levels[1].aggregates
    np.testing.assert_allclose(links.without, alone)
    np.testing.assert_allclose(links.effect, together.max() - alone[together.argmax()])
    assert links.name == "links(near)" and {one.source for one in answer.neighbours} <= {"label", "prediction"}
    assert "Centroids" in (tmp_path / "node.html").read_text()


@own("centroids")
def test_settings_and_errors_of_a_model_of_nodes(added: ModuleType, tmp_path: Path) -> None:
    model = added.Centroids(smoothing=0.4)
    assert clone(model).get_params() == model.get_params() and repr(model) == "Centroids(smoothing=0.4)"
    assert "smoothing" in added.Centroids.__doc__ and "random_state" in added.Centroids.__doc__
    with pytest.raises(NotFittedError, match="this Centroids is not trained yet"):
        model.predict(GRAPH)
    for wrong in (1.5, "much"):
        with pytest.raises(SettingError, match=r"Centroids\(smoothing=...\) must be a number from 0 to 1"):
            added.Centroids(smoothing=wrong).fit(GRAPH)
    model.fit(GRAPH)
    with pytest.raises(SettingError, match="smoothing"):
        model.set_params(smoothing=-1).fit(GRAPH)
    with pytest.raises(SettingError, match="smoothing"):
        model.predict(GRAPH)
    model.set_params(smoothing=0.4)
    other = kf.Graph(GRAPH.features, GRAPH.labels, {"far": [(0, 1)]})
    with pytest.raises(InputError, match="'near' is missing"):
        model.predict(other)
    with pytest.raises(SettingError, match="smoothing"):
        model.set_params(smoothing=-1).save(tmp_path / "model")


# -- a tagger -----------------------------------------------------------------------------------------


@own("perceptron")
def test_a_tagger(added: ModuleType, tmp_path: Path) -> None:
    model = added.Perceptron().fit(CORPUS)
    assert model.convergence_.status == "converged" and model.score(CORPUS) > 0.95
    entities, accuracy = model.evaluate(CORPUS, report=tmp_path / "scores.html")
    assert entities.f1 / 100 == model.score(CORPUS) and accuracy > 95
    for table in model.predict_proba(CORPUS):
        np.testing.assert_allclose(table.sum(axis=1), 1)
    found = model.predict_entities(CORPUS)
    assert found and all(0 < one.confidence <= 1 for one in found)
    assert model.predict(CORPUS, forced=True) == CORPUS.label_rows()
    assert str(model.explain(CORPUS, 0, 1, report=tmp_path / "document.html"))
    model.save(tmp_path / "model")
    again = kf.load_model(tmp_path / "model")
    assert type(again) is added.Perceptron and again.predict_entities(CORPUS) == found
    assert {**again.get_params(), "templates": "sentence"} == model.get_params()


@own("perceptron")
def test_the_tagger_is_the_mean_over_all_steps(added: ModuleType) -> None:
    model = added.Perceptron(max_iterations=2, class_weight={"PER": 2.0}, templates="document").fit(CORPUS)
    starts, coding = CORPUS.sentence_starts, model.coding_
    rows, labels, n_labels = model.features_.rows(CORPUS, 1).toarray(), coding.encode(CORPUS), len(coding.classes)
    person = np.array([2.0 if name.endswith("PER") else 1.0 for name in coding.classes.names])[labels]
    node, pair, start = np.zeros((rows.shape[1], n_labels)), np.zeros((n_labels, n_labels)), np.zeros(n_labels)
    sums: list[Any] = [0.0, 0.0, 0.0]
    order = np.random.default_rng(0)
    for i in [*order.permutation(len(starts) - 1), *order.permutation(len(starts) - 1)]:
        at = slice(starts[i], starts[i + 1])
        x, right, size = rows[at], labels[at], person[at].mean()
        best, _ = viterbi(Potentials.of(x @ node, pair, [0, len(x)], start))
        for path, sign in ((right, size), (best, -size)):
            node += sign * x.T @ np.eye(n_labels)[path]
            start[path[0]] += sign
            for before, after in pairwise(path):
                pair[before, after] += sign
        sums = [total + part for total, part in zip(sums, (node, pair, start), strict=True)]
    for total, part in zip(sums, (model.weights_.node, model.weights_.pair, model.weights_.start), strict=True):
        np.testing.assert_allclose(part, total / (2 * (len(starts) - 1)), atol=1e-4)


@own("perceptron")
def test_settings_and_errors_of_a_tagger(added: ModuleType) -> None:
    model = added.Perceptron(temperature=2.0, n_jobs=1)
    assert clone(model).get_params() == model.get_params() and repr(model) == "Perceptron(n_jobs=1, temperature=2.0)"
    with pytest.raises(NotFittedError, match="this Perceptron is not trained yet"):
        model.predict(CORPUS)
    for setting, value in (("temperature", 0), ("max_iterations", 0), ("l2", -1)):
        with pytest.raises(SettingError, match=rf"Perceptron\({setting}=...\) must be"):
            clone(model).set_params(**{setting: value}).fit(CORPUS)
    with pytest.raises(SettingError, match="Perceptron has no features of label pairs"):
        clone(model).set_params(transition_templates=[word[0]]).fit(CORPUS)
    words, labels = [["Kim", "left"], ["Kim", "Lee", "won"], ["rain"]], [["B-PER", "O"], ["B-PER", None, "O"], [None]]
    assert model.fit(words, labels).predict([["Kim", "left"]]) == [["B-PER", "O"]]
    seen: list[int] = []
    model.fit(CORPUS, X_dev=CORPUS, callback=lambda progress: seen.append(progress.iteration) or len(seen) == 2)
    assert seen == [1, 2] and model.convergence_.status == "stopped" and model.convergence_.best_iteration == 2


@own("perceptron")
def test_a_tagger_is_a_base(added: ModuleType, tmp_path: Path) -> None:
    model = kf.StackedTagger(added.Perceptron(max_iterations=3), folds=2, n_jobs=1).fit(CORPUS)
    assert [type(level) for level in model.levels_] == [added.Perceptron] * 2
    assert model.score(CORPUS) > 0.9
    model.save(tmp_path / "model")
    again = kf.load_model(tmp_path / "model")
    assert again.base.get_params()["max_iterations"] == 3 and again.predict(CORPUS) == model.predict(CORPUS)
    for one, other in zip(again.predict_proba(CORPUS), model.predict_proba(CORPUS), strict=True):
        np.testing.assert_array_equal(one, other)


# -- names in files -----------------------------------------------------------------------------------


@own("star")
def test_a_name_that_kinfolk_has_is_refused(added: ModuleType, tmp_path: Path) -> None:
    namesake = type("SingleLink", (added.Star,), {})
    linker = kf.Linker(blocking=BLOCKING, clusterer=namesake(), training="local", n_jobs=1).fit(PEOPLE)
    with pytest.raises(ModelFileError, match=r"kinfolk.linking.clusterers has a 'SingleLink' too: rename yours"):
        linker.save(tmp_path / "model")
    linker.clusterer_ = type("Graph", (added.Star,), {})()  # a public name of something else
    with pytest.raises(ModelFileError, match="kinfolk has a 'Graph' too: rename yours"):
        linker.save(tmp_path / "model")


def test_a_file_imports_nothing(folder: Path, tmp_path: Path) -> None:
    """Even though the modules could be found."""
    spread, star, centroids, perceptron = map(importlib.import_module, ("spread", "star", "centroids", "perceptron"))
    models = {
        "spread": stacked(spread.Spread("near")).fit(GRAPH, train=range(24)),
        "star": kf.Linker(blocking=BLOCKING, clusterer=star.Star(), training="local", n_jobs=1).fit(PEOPLE),
        "centroids": centroids.Centroids().fit(GRAPH),
        "perceptron": kf.StackedTagger(perceptron.Perceptron(max_iterations=2), folds=2, n_jobs=1).fit(CORPUS),
    }
    for name, model in models.items():
        model.save(tmp_path / name)
    program = f"""
import importlib, sys
import kinfolk as kf
for name in {list(models)}:
    try:
        kf.load_model({str(tmp_path)!r} + "/" + name)
    except kf.KinfolkError as error:
        print(error)
    assert name not in sys.modules
    importlib.import_module(name)
    print(type(kf.load_model({str(tmp_path)!r} + "/" + name)).__name__)
"""
    found = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": found}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1::2] == [type(model).__name__ for model in models.values()]
    for line in lines[::2]:
        assert "this version does not know" in line and "import the module that defines it" in line
