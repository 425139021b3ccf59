"""The files that the guide to extending shows are added as it says, and used by the public face alone."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from every_model import BLOCKING, GRAPH, PEOPLE
from kinfolk.collective.relations import Neighbourhood
from kinfolk.errors import ModelFileError, SettingError
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
    spread, star = importlib.import_module("spread"), importlib.import_module("star")
    models = {
        "spread": stacked(spread.Spread("near")).fit(GRAPH, train=range(24)),
        "star": kf.Linker(blocking=BLOCKING, clusterer=star.Star(), training="local", n_jobs=1).fit(PEOPLE),
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
