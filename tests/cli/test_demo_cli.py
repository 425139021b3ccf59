"""`kinfolk demo` on small data: the company gains in each, and the figures come as a table or as JSON."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from kinfolk.cli import demo as demo_module
from kinfolk.cli.demo import TINY, TRY, Comparison, Sizes, Summary, Trained, trained
from kinfolk.cli.main import app

SMALL = Sizes(16, 400, 300)
RUN = Comparison("tokens", "entity F1", "one", "other", 80.0, 84.0, 1.0)


@pytest.fixture(scope="module")
def models() -> Trained:
    return trained(1, SMALL)


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, models: Trained) -> list[int]:
    """A folder of its own, and models that are trained already; the seeds that were asked for."""
    asked: list[int] = []

    def found(seed: int, *_: Any) -> Trained:
        asked.append(seed)
        return models

    monkeypatch.setattr(demo_module, "trained", found)
    monkeypatch.chdir(tmp_path)
    return asked


def test_the_collective_model_gains_in_every_task(models: Trained) -> None:
    assert [run.task for run in models.comparisons] == ["tokens", "nodes", "records"]
    for run in models.comparisons:
        assert 50 < run.local_score < run.collective_score <= 100, run


def test_figures_are_those_of_the_models_kept(models: Trained) -> None:
    tokens, nodes, records = models.comparisons
    assert 100 * models.tagger.score(models.corpus) == pytest.approx(tokens.collective_score)
    asked = [i for i, label in enumerate(models.graph.labels) if label is None]
    found = models.stacked.predict(models.graph)
    right = sum(found[i] == models.truth.labels[i] for i in asked)
    assert 100 * right / len(asked) == pytest.approx(nodes.collective_score) and len(asked) == 200
    assert 100 * models.linker.score(models.records) == pytest.approx(records.collective_score)


def test_nobody_is_tested_on_what_was_trained_on(models: Trained) -> None:
    assert models.records.clusters is not None
    assert {*(models.records.clusters % 2).tolist()} == {1}


def test_a_table_for_readers(kinfolk: Any, ready: list[int]) -> None:
    told = kinfolk("demo", "--seed", "3")
    assert told.status == 0 and told.err == "" and ready[-1] == 3
    for words in ("task", "with company", "gain", "entity F1", "accuracy", "pairwise F1", "kinfolk-demo.html", *TRY):
        assert all(line in told.out for line in words.splitlines())
    assert "\x1b" not in told.out and "max - min" not in told.out


def test_several_seeds_show_the_spread(kinfolk: Any, ready: list[int]) -> None:
    told = kinfolk("demo", "--seed", "5", "--seeds", "2")
    assert told.status == 0 and ready[-2:] == [5, 6]
    assert "mean gain" in told.out and "max - min" in told.out and "st. dev." in told.out


def test_json(kinfolk: Any, ready: list[int], models: Trained, tmp_path: Path) -> None:
    told = kinfolk("demo", "--json", "--seed", "4", "--report", tmp_path / "page.html")
    answer = json.loads(told.out)
    assert told.status == 0 and answer["seeds"] == [4] and answer["report"] == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    named = zip(models.graph.ids, models.truth.titles or (), strict=True)
    assert any(f"paper {key}, \\u201c{title}\\u201d" in page for key, title in named)
    assert [task["task"] for task in answer["tasks"]] == ["tokens", "nodes", "records"]
    for task in answer["tasks"]:
        assert task["gain"] == pytest.approx(task["company"]["score"] - task["local"]["score"])
        assert task["gains"] == [task["gain"]] and task["spread"] == 0 and task["seconds"] > 0


def test_the_same_seed_gives_the_same_figures(kinfolk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[Trained] = []

    def kept(*settings: Any) -> Trained:
        found.append(trained(*settings))
        return found[-1]

    monkeypatch.setattr(demo_module, "trained", kept)
    monkeypatch.setattr(demo_module, "SIZES", TINY)  # so what compiles kernels first trains on the same data
    monkeypatch.chdir(tmp_path)
    told = kinfolk("demo", "--json")
    assert told.status == 0 and len(json.loads(told.out)["tasks"]) == 3
    first, again = ([replace(run, seconds=0.0) for run in models.comparisons] for models in found)
    assert first == again


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--seed", "-1"], ["--report", "no/such/folder/page.html"]])
def test_mistakes_are_told_before_anything_is_trained(kinfolk: Any, ready: list[int], wrong: list[str]) -> None:
    told = kinfolk("demo", *wrong)
    assert told.status == 2 and told.out == "" and told.err and not ready


def test_spread_over_seeds() -> None:
    summary = Summary([RUN, replace(RUN, collective_score=86.0), replace(RUN, local_score=81.0, collective_score=86.0)])
    assert summary.gains == [4.0, 6.0, 5.0] and summary.spread == 2.0 and summary.deviation == 1.0
    assert summary.mean("gain") == 5.0 and Summary([RUN]).deviation == 0.0


@pytest.mark.parametrize("command", TRY, ids=lambda line: line.split()[1])
def test_the_commands_to_try_are_understood(command: str) -> None:
    program, *words = shlex.split(command.replace("\\\n", " "))
    assert program == "kinfolk"
    group: Any = typer.main.get_command(app)
    verb = group.get_command(None, words[0]).commands[words[1]]
    assert verb.make_context(verb.name, words[2:]).params["out"] is not None
