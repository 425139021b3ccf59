"""Figures 2 and 3: the form of their rows on small generated worlds, some of their figures on the real data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import kinfolk as kf
from kinfolk.cli.main import app
from kinfolk.papers import mixture as chain_conll
from kinfolk.papers import mixture as mop_conll
from kinfolk.papers import mixture as mop_webkb

CONLL_MODELS = [
    "MEMM Viterbi",
    "MEMM posterior",
    "linear-chain CRF",
    "mixture separate",
    "mixture separate, as in the paper",
    "mixture joint",
    "mixture joint, as in the paper",
    "mixture crossfit",
    "linear chain of the skip-chain CRF",
    "skip-chain CRF",
    "mixture, best configuration",
]


@pytest.fixture
def small_conll(small_world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(chain_conll, "GRID", {"l2": (0.1,), "tolerance": (0.3,)})
    monkeypatch.setattr(mop_conll, "TRAINING", ({"l2": 0.1, "tolerance": 0.3},))
    monkeypatch.setattr(mop_conll, "EDGES", ({}, {"edge_features": "default"}))
    monkeypatch.setattr(mop_conll, "SKIP_CHAIN", ({}, {"scores": "own"}))
    monkeypatch.setattr(mop_conll, "BEYOND", ({"order": "both"},))
    return small_world


def test_rows_of_figure_2(small_conll: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    result = CliRunner().invoke(
        app, ["reproduce", "mop-conll", "--data", str(small_conll), "--json", str(out), "--jobs", "1"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(out.read_text())
    assert list(dict.fromkeys(row["model"] for row in report["rows"])) == CONLL_MODELS
    assert [row["split"] for row in report["rows"]] == ["testa", "testb"] * len(CONLL_MODELS)
    base = next(row for row in report["rows"] if row["model"] == "MEMM posterior")
    assert base["fp_improvement"] == base["fn_improvement"] == 0
    assert [row["not_converged"] for row in report["rows"] if row["model"] == "skip-chain CRF"] == [0, 0]
    chosen = report["settings"]["chosen on the last fifth of eng.train"]
    for training in ("separate", "joint"):
        printed = chosen[f"mixture {training}, as in the paper"]
        assert printed["constrain"] is False and "mixing" not in printed and "edge_features" not in printed
    assert {**chosen["mixture crossfit"], "training": "separate"} == chosen["mixture separate"], "the same but training"
    gains = [row["gain"] for row in report["rows"] if row["model"] == "mixture crossfit"]
    assert len(gains) == 2 and all(0 < row["log_loss"] < 5 for row in report["rows"] if "mixture" in row["model"])
    trials = report["settings"]["held-out F1 of all that was tried"]
    assert any("ignore_case=True" in str(trial["settings"]) for trial in trials)
    assert "90.9" in result.output  # the paper's figure stands beside ours


def tiny_school_world(seed: int = 0) -> kf.Graph:
    """Two classes at four schools: words that tell six pages in ten apart, links mostly among equals."""
    rng = np.random.default_rng(seed)
    n = 40
    labels, groups, links = [], [], []
    for school in range(4):
        own = rng.integers(0, 2, n)
        for i in range(n):
            likely = np.where(own == own[i], 4.0, 1.0)
            links += [(school * n + i, school * n + j) for j in rng.choice(n, 3, p=likely / likely.sum())]
        labels += [("course", "student")[y] for y in own]
        groups += [("cornell", "texas", "washington", "wisconsin")[school]] * n
    known = rng.random(4 * n) < 0.6
    words = np.array([[known[i] and y == "course", known[i] and y == "student", 1.0] for i, y in enumerate(labels)])
    return kf.Graph(words.astype(float), labels, {"links": np.array(links)}, groups=groups)


@pytest.mark.filterwarnings("ignore::kinfolk.errors.ConvergenceWarning")  # belief propagation on tiny graphs
def test_rows_of_figure_3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mop_webkb, "read_webkb", lambda path: tiny_school_world())
    monkeypatch.setattr(mop_webkb, "RIDGE", ({"l2": 0.1},))
    loose = {"l2": 1.0, "tolerance": 0.1}
    models = {name: model._replace(stages=((loose,),)) for name, model in mop_webkb.MODELS.items()}
    monkeypatch.setattr(mop_webkb, "MODELS", models)
    report = mop_webkb.mop_webkb(tmp_path, lambda line: None, n_jobs=1)
    assert [row["split"] for row in report.rows] == ["cornell", "texas", "washington", "wisconsin", "mean"] * 6
    mean = {row["model"]: row["error"] for row in report.rows if row["split"] == "mean"}
    schools = [row["error"] for row in report.rows if row["model"] == "node" and row["split"] != "mean"]
    assert mean["node"] == pytest.approx(np.mean(schools))
    assert max(mean["mixture separate"], mean["mixture joint"]) < 0.8 * mean["node"]
    assert sum("not_converged" in row for row in report.rows) == 10
    over = {row["model"]: row.get("gain_over") for row in report.rows if row["split"] == "mean"}
    assert over["node"] is over["node, degrees"] is None
    assert over["link"] == "node" and over["link, degrees"] == "node, degrees"


@pytest.mark.data
def test_skip_edges_beat_the_posterior_memm(conll2003: Path) -> None:
    """A fifth of the training documents is enough to see it."""
    train = kf.read_conll(conll2003 / "eng.train").documents(0, 190)
    test = kf.read_conll(conll2003 / "eng.testa")
    settings = {"l2": 0.1, "n_jobs": 1, "tolerance": 0.3}
    memm = kf.MEMM(decode="posterior", **settings).fit(train).score(test)
    mixture = kf.MixtureTagger(training="separate", **settings).fit(train).score(test)
    assert mixture > memm + 0.005


@pytest.mark.data
def test_links_beat_the_node_model(data_folder: Path) -> None:
    graph = kf.read_webkb(data_folder / "nodes" / "webkb_raw_cmu" / "webkb.tar.gz")
    train, test = graph.subset(graph.group_codes != 0), graph.subset(graph.group_codes == 0)
    settings = {"training": "separate", "l2": 1.0, "n_jobs": 1, "tolerance": 0.1}
    node = 1 - kf.MixtureNodes(relations=[], **settings).fit(train).score(test)
    mixture = 1 - kf.MixtureNodes(predict_orders=20, **settings).fit(train).score(test)
    assert mixture < 0.9 * node
