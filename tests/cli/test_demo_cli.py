"""`kinfolk demo` on small data: the company gains in each, and the figures come as a table or as JSON."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from kinfolk.cli import demo as demo_module
from kinfolk.cli.demo import TINY, TRY, WORLDS, Comparison, Found, Sizes, Summary, tokens, tokens_alone
from kinfolk.cli.main import app

SMALL = Sizes(16, 400, 300)
RUN = Comparison("tokens", "entity F1", "one", "other", 80.0, 84.0, 1.0)


@pytest.fixture(scope="module")
def worlds() -> dict[str, Any]:
    return {name: world(1, SMALL, lambda text: None) for name, world in WORLDS.items()}


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worlds: dict[str, Any]) -> list[int]:
    """A folder of its own, and models that are trained already; the seeds that were asked for."""
    asked: list[int] = []

    def found(seeds: range, sizes: Sizes) -> dict[str, Found]:
        asked.extend(seeds)
        return {name: ([world.comparison] * len(seeds), world.parts()) for name, world in worlds.items()}

    monkeypatch.setattr(demo_module, "all_worlds", found)
    monkeypatch.chdir(tmp_path)
    return asked


def test_the_collective_model_gains_in_every_task(worlds: dict[str, Any]) -> None:
    assert [world.comparison.task for world in worlds.values()] == ["tokens", "nodes", "records"]
    for world in worlds.values():
        run = world.comparison
        assert 50 < run.local_score < run.collective_score <= 100, run


def test_figures_are_those_of_the_models_kept(worlds: dict[str, Any]) -> None:
    words, nodes, records = worlds.values()
    assert 100 * words.tagger.score(words.corpus) == pytest.approx(words.comparison.collective_score)
    asked = [i for i, label in enumerate(nodes.graph.labels) if label is None]
    found = nodes.stacked.predict(nodes.graph)
    right = sum(found[i] == nodes.truth.labels[i] for i in asked)
    assert 100 * right / len(asked) == pytest.approx(nodes.comparison.collective_score) and len(asked) == 200
    assert 100 * records.linker.score(records.records) == pytest.approx(records.comparison.collective_score)


def test_a_local_model_that_was_trained_elsewhere_is_not_trained_again(worlds: dict[str, Any]) -> None:
    score, seconds = tokens_alone(1, SMALL)
    assert score == worlds["tokens"].comparison.local_score and seconds > 0
    told = tokens(0, TINY, lambda text: None, alone=(12.0, 1000.0)).comparison
    assert told.local_score == 12 and told.seconds > 1000


def test_nobody_is_tested_on_what_was_trained_on(worlds: dict[str, Any]) -> None:
    people = worlds["records"].records
    assert people.clusters is not None
    assert {*(people.clusters % 2).tolist()} == {1}


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


def test_json(kinfolk: Any, ready: list[int], worlds: dict[str, Any], tmp_path: Path) -> None:
    told = kinfolk("demo", "--json", "--seed", "4", "--report", tmp_path / "page.html")
    answer = json.loads(told.out)
    assert told.status == 0 and answer["seeds"] == [4] and answer["report"] == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    named = zip(worlds["nodes"].graph.ids, worlds["nodes"].truth.titles or (), strict=True)
    assert any(f"paper {key}, \\u201c{title}\\u201d" in page for key, title in named)
    assert [task["task"] for task in answer["tasks"]] == ["tokens", "nodes", "records"]
    for task in answer["tasks"]:
        assert task["gain"] == pytest.approx(task["company"]["score"] - task["local"]["score"])
        assert task["gains"] == [task["gain"]] and task["spread"] == 0 and task["seconds"] > 0


def told(answer: Any) -> list[Any]:
    """What was measured, but for the time it took."""
    return [{name: value for name, value in task.items() if name != "seconds"} for task in json.loads(answer)["tasks"]]


def test_two_processes_find_what_one_finds(kinfolk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo_module, "SIZES", TINY)
    monkeypatch.chdir(tmp_path)
    answers = []
    for cores in ({0}, {0, 1}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: cores)
        answers.append(told(kinfolk("demo", "--json", "--seeds", "2").out))
    assert answers[0] == answers[1] and len(answers[0]) == 3


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
