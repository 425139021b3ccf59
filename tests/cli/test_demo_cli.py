"""`kinfolk demo` in small worlds: the company gains in each, and the figures come as a table or as JSON."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from kinfolk.cli import demo as demo_module
from kinfolk.cli.demo import TINY, TRY, Comparison, DemoWorlds, Sizes, Summary, demo_worlds
from kinfolk.cli.main import app

SMALL = Sizes(16, 400, 300)
RUN = Comparison("tokens", "entity F1", "one", "other", 80.0, 84.0, 1.0)


@pytest.fixture(scope="module")
def worlds() -> DemoWorlds:
    return demo_worlds(1, SMALL)


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worlds: DemoWorlds) -> list[int]:
    """A folder of its own, and worlds that are there already; the seeds that were asked for."""
    asked: list[int] = []

    def found(seed: int, *_: Any) -> DemoWorlds:
        asked.append(seed)
        return worlds

    monkeypatch.setattr(demo_module, "demo_worlds", found)
    monkeypatch.chdir(tmp_path)
    return asked


def test_the_company_gains_in_every_world(worlds: DemoWorlds) -> None:
    assert [run.task for run in worlds.comparisons] == ["tokens", "nodes", "records"]
    for run in worlds.comparisons:
        assert 50 < run.local_score < run.company_score <= 100, run


def test_figures_are_those_of_the_models_kept(worlds: DemoWorlds) -> None:
    tokens, nodes, records = worlds.comparisons
    assert 100 * worlds.tagger.score(worlds.corpus) == pytest.approx(tokens.company_score)
    asked = [i for i, label in enumerate(worlds.graph.labels) if label is None]
    found = worlds.stacked.predict(worlds.graph)
    right = sum(found[i] == worlds.truth.labels[i] for i in asked)
    assert 100 * right / len(asked) == pytest.approx(nodes.company_score) and len(asked) == 200
    assert 100 * worlds.linker.score(worlds.records) == pytest.approx(records.company_score)


def test_nobody_is_tested_on_what_was_trained_on(worlds: DemoWorlds) -> None:
    assert worlds.records.clusters is not None
    assert {*(worlds.records.clusters % 2).tolist()} == {1}


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


def test_json(kinfolk: Any, ready: list[int], worlds: DemoWorlds, tmp_path: Path) -> None:
    told = kinfolk("demo", "--json", "--seed", "4", "--report", tmp_path / "page.html")
    answer = json.loads(told.out)
    assert told.status == 0 and answer["seeds"] == [4] and answer["report"] == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    named = zip(worlds.graph.ids, worlds.truth.titles or (), strict=True)
    assert any(f"paper {key}, \\u201c{title}\\u201d" in page for key, title in named)
    assert [task["task"] for task in answer["tasks"]] == ["tokens", "nodes", "records"]
    for task in answer["tasks"]:
        assert task["gain"] == pytest.approx(task["company"]["score"] - task["local"]["score"])
        assert task["gains"] == [task["gain"]] and task["spread"] == 0 and task["seconds"] > 0


def test_the_same_seed_gives_the_same_figures(kinfolk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[DemoWorlds] = []

    def kept(*settings: Any) -> DemoWorlds:
        found.append(demo_worlds(*settings))
        return found[-1]

    monkeypatch.setattr(demo_module, "demo_worlds", kept)
    monkeypatch.setattr(demo_module, "SIZES", TINY)  # so what compiles kernels first has the same worlds
    monkeypatch.chdir(tmp_path)
    told = kinfolk("demo", "--json")
    assert told.status == 0 and len(json.loads(told.out)["tasks"]) == 3
    first, again = ([replace(run, seconds=0.0) for run in worlds.comparisons] for worlds in found)
    assert first == again


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--seed", "-1"], ["--report", "no/such/folder/page.html"]])
def test_mistakes_are_told_before_anything_is_trained(kinfolk: Any, ready: list[int], wrong: list[str]) -> None:
    told = kinfolk("demo", *wrong)
    assert told.status == 2 and told.out == "" and told.err and not ready


def test_spread_over_seeds() -> None:
    summary = Summary([RUN, replace(RUN, company_score=86.0), replace(RUN, local_score=81.0, company_score=86.0)])
    assert summary.gains == [4.0, 6.0, 5.0] and summary.spread == 2.0 and summary.deviation == 1.0
    assert summary.mean("gain") == 5.0 and Summary([RUN]).deviation == 0.0


@pytest.mark.parametrize("command", TRY, ids=lambda line: line.split()[1])
def test_the_commands_to_try_are_understood(command: str) -> None:
    program, *words = shlex.split(command.replace("\\\n", " "))
    assert program == "kinfolk"
    group: Any = typer.main.get_command(app)
    verb = group.commands[words[0]].commands[words[1]]
    assert verb.make_context(verb.name, words[2:]).params["out"] is not None
