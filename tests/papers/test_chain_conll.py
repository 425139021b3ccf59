"""The chain rows of Figure 2: their form on a small generated world, their figures on the real data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kinfolk as kf
from kinfolk.cli.main import app
from kinfolk.papers import mixture as chain_conll

MODELS = {"MaxEnt", "MEMM Viterbi", "MEMM posterior", "linear-chain CRF", "linear-chain CRF, document features"}


@pytest.fixture(autouse=True)
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_conll, "GRID", {"l2": (0.1, 1.0), "encoding": ("BIO",)})


def test_rows_and_settings(small_world: Path) -> None:
    told: list[str] = []
    report = chain_conll.chain_conll(small_world, told.append, n_jobs=1)
    assert {row["model"] for row in report.rows} == MODELS
    assert [row["split"] for row in report.rows] == ["testa", "testb"] * len(MODELS)
    for row in report.rows:
        assert row["fp"] == pytest.approx(100 - row["precision"])
        assert 0 < row["f1"] <= 100
    chosen = report.settings["chosen on the last fifth of eng.train"]
    assert all(settings["l2"] in (0.1, 1.0) for settings in chosen.values())
    assert sum("held-out" in line for line in told) == 2 * len(chain_conll.METHODS)


def test_command_writes_the_same_as_json(small_world: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    result = CliRunner().invoke(
        app, ["reproduce", "chain-conll", "--data", str(small_world), "--json", str(out), "--jobs", "1"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(out.read_text())
    assert report["experiment"] == "chain-conll" and report["seconds"] > 0
    assert {row["model"] for row in report["rows"]} == MODELS


@pytest.mark.data
def test_default_crf_reaches_the_paper(conll2003: Path) -> None:
    train, test = kf.read_conll(conll2003 / "eng.train"), kf.read_conll(conll2003 / "eng.testa")
    crf = kf.LinearChainCRF(n_jobs=1).fit(train)
    assert crf.convergence_.status == "stopped", "by the default, early"
    assert crf.score(test) >= 0.908
