"""`reproduce all`: every experiment in turn, what fails is told, what was found is kept; one page of it all."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kinfolk as kf
from kinfolk.cli import reproduce
from kinfolk.errors import InputError
from kinfolk.papers import evidence
from kinfolk.papers.evidence import BEGIN, END, SPEED_BEGIN, SPEED_END, Line
from kinfolk.papers.harness import Report
from stopped import Killed, killed_after

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c626001000000ffff030000060005"
    "57bfabd40000000049454e44ae426082"
)
RUNS: list[str] = []


def fake(name: str, doc: str, found: Any) -> ModuleType:
    module = ModuleType(f"kinfolk.papers.{name}")

    def run(data: Path, tell: Any, n_jobs: int) -> Report:
        RUNS.append(name)
        tell("at work")
        return found()

    run.__doc__ = doc
    module.run = run
    return module


def table() -> Report:
    place = {"dataset": "d", "split": "test", "p_value": 0.01234}
    rows = [{**place, "model": model, "f1": f1} for model, f1 in (("<b>x", 80.0), ("y", 90.5))]
    rows[1] |= {"gain": 10.5, "gain_over": "<b>x"}
    paper = {("d", "y", "test"): {"f1": 91.2}}
    return Report("one-table", rows, 1.0, {"l2": 1.0}, ("f1", "p_value", "absent"), paper)


def figure() -> Report:
    steps = [{"dataset": "d", "split": f"iteration {i}", "accuracy": float(i)} for i in range(50)]
    rows = [{**step, "model": model} for model in "ab" for step in steps]
    return Report("one-figure", rows, 2.0, {}, ("accuracy",), draw=lambda path: path.write_bytes(PNG) and None)


def missing() -> Report:
    raise InputError("no such file", "cora.content.gz")


def broken() -> Report:
    raise ZeroDivisionError("division by zero")


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Four of them: a table, one without its data, one that breaks, a figure."""
    RUNS.clear()
    known = {}
    for name, found in (("one-table", table), ("no-data", missing), ("breaks", broken), ("one-figure", figure)):
        module = "fake_" + name.replace("-", "_")
        made = fake(module, f"About {name}.\n\nMore.", found)
        monkeypatch.setitem(sys.modules, f"kinfolk.papers.{module}", made)
        known[name] = f"{module}.run"
    monkeypatch.setattr(reproduce, "EXPERIMENTS", known)
    monkeypatch.setattr(reproduce, "FIGURES", ("one-figure",))
    return known


def parts(page: Path) -> list[dict[str, Any]]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(found[1])["parts"]


def test_what_fails_stops_nothing_and_nothing_is_lost(kinfolk, experiments, tmp_path: Path):
    page, out = tmp_path / "all.html", tmp_path / "all.json"
    command = ("reproduce", "all", "--data", tmp_path, "--report", page, "--json", out)
    answer = kinfolk(*command)
    assert answer.status == 1 and "breaks: failed: ZeroDivisionError: division by zero" in answer.err
    assert "no-data: failed: cora.content.gz: no such file" in answer.err and "one-figure: at work" in answer.err
    assert len(answer.out.splitlines()) == 5 and "one-table" in answer.out
    overview, first, drawn, numbers = parts(page)
    assert [row[0] for row in overview["data"]["rows"]] == list(experiments)
    assert first["data"]["headings"] == ["data", "model", "split", "f1", "gain", "paper: f1", "p value"]
    assert first["data"]["rows"] == [
        ["d", "<b>x", "test", "80.00", "", "", "0.0123"],
        ["d", "y", "test", "90.50", "+10.50", "91.2", "0.0123"],
    ]
    assert "About one-table." in first["data"]["note"] and "More" not in first["data"]["note"]
    assert drawn["kind"] == "figure" and drawn["data"]["image"].startswith("data:image/png;base64,iVBOR")
    assert len(numbers["data"]["rows"]) == 2 and "all 100 are in the JSON" in numbers["data"]["note"]
    told = json.loads(out.read_text())
    assert told["breaks"]["failed"] and len(told["one-figure"]["rows"]) == 100
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == ["one-figure.json", "one-table.json"]


def test_what_is_there_is_not_run_again_unless_asked(kinfolk, experiments, tmp_path: Path):
    page = tmp_path / "all.html"
    command = ("reproduce", "all", "--data", tmp_path, "--report", page)
    kinfolk(*command)
    before = parts(page)
    RUNS.clear()
    answer = kinfolk(*command)
    assert RUNS == ["fake_no_data", "fake_breaks"] and "one-table: kept from before" in answer.err
    assert parts(page)[1:] == before[1:]
    kept = tmp_path / "all" / "one-table.json"
    for change in ({"code": "0123456789ab"}, {"data": "elsewhere"}, {"rows": None}):
        kept.write_text(json.dumps({**json.loads(kept.read_text()), **change}) if "rows" not in change else "{damaged")
        RUNS.clear()
        kinfolk(*command)
        assert RUNS[0] == "fake_one_table", change
    RUNS.clear()
    kinfolk(*command, "--again")
    assert len(RUNS) == 4


def test_missing_data_alone_is_a_mistake_of_input(kinfolk, experiments, tmp_path: Path):
    experiments.pop("breaks")
    assert kinfolk("reproduce", "all", "--data", tmp_path, "--report", tmp_path / "all.html").status == 2
    experiments.pop("no-data")
    assert kinfolk("reproduce", "all", "--data", tmp_path, "--report", tmp_path / "all.html").status == 0


def test_an_interrupt_leaves_what_is_done(kinfolk, experiments, monkeypatch, tmp_path: Path):
    def stop(*_: Any) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["kinfolk.papers.fake_no_data"], "run", stop)
    answer = kinfolk("reproduce", "all", "--data", tmp_path, "--report", tmp_path / "all.html")
    assert answer.status == 130 and "1 results are in" in answer.err
    assert [part["title"] for part in parts(tmp_path / "all.html")] == ["one-table"]


def test_a_page_of_one_experiment(kinfolk, experiments, tmp_path: Path):
    page = tmp_path / "one.html"
    answer = kinfolk("reproduce", "one-table", "--data", tmp_path, "--report", page)
    assert answer.status == 0 and f"wrote {page}" in answer.err and "90.50" in answer.out
    (only,) = parts(page)
    assert only["title"] == "one-table" and len(only["data"]["rows"]) == 2


def test_the_page_of_results_grows_with_each_experiment_and_so_does_the_excerpt(
    kinfolk, experiments, monkeypatch, tmp_path: Path
):
    page, readme = tmp_path / "results.md", tmp_path / "README.md"
    monkeypatch.setattr(evidence, "EXCERPT", (Line("y, F1", "one-table", "d", "<b>x", "y", "test", "f1"),))
    readme.write_text(f"{BEGIN}\n{END}\n{SPEED_BEGIN}\n{SPEED_END}\n")
    command = ("--data", tmp_path, "--markdown", page, "--readme", readme)
    answer = kinfolk("reproduce", "one-figure", *command)
    assert answer.status == 0 and RUNS == ["fake_one_figure"]
    assert "| y, F1 | not run yet |  |  | `kinfolk reproduce one-table` |" in readme.read_text()
    text = page.read_text()
    assert "Not run yet: one-table, no-data, breaks." in text and "| d | a | iteration 49 | 49.00 |" in text
    kinfolk("reproduce", "one-figure", "one-table", *command)
    assert RUNS == ["fake_one_figure", "fake_one_table"]
    assert "| y, F1 | &lt;b>x 80.00 | y 90.50 | +10.50 | `kinfolk reproduce one-table` |" in readme.read_text()
    assert "Not run yet: no-data, breaks." in page.read_text() and not (tmp_path / "experiments.html").exists()
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["one-figure.json", "one-table.json"]
    assert kinfolk("reproduce", "all", *command).status == 1 and "no-data: failed" not in page.read_text()
    before = page.read_text()
    page.unlink()
    RUNS.clear()
    assert kinfolk("reproduce", "--markdown", page).status == 0, "the page alone needs no data"
    assert RUNS == [] and page.read_text() == before


def test_what_other_code_found_is_run_again(kinfolk, experiments, monkeypatch, tmp_path: Path):
    command = ("reproduce", "one-table", "--data", tmp_path, "--markdown", tmp_path / "results.md")
    kinfolk(*command)
    monkeypatch.setattr("kinfolk.papers.harness.code_digest", lambda place: "another")
    monkeypatch.setattr("kinfolk.papers.evidence.code_digest", lambda place: "another")
    assert kinfolk("reproduce", "--markdown", tmp_path / "results.md").status == 0
    assert "**Found by other code" in (tmp_path / "results.md").read_text()
    kinfolk(*command)
    assert RUNS == ["fake_one_table"] * 2 and "**Found by other code" not in (tmp_path / "results.md").read_text()


def test_mistakes_are_told_before_the_work(kinfolk, experiments, tmp_path: Path):
    unmarked = tmp_path / "unmarked.md"
    unmarked.write_text("# x\n")
    for words, told in (
        (("all", "--figure", tmp_path / "f.png"), "all draws figures into its page"),
        (("one-table", "--again"), "--again is for all"),
        (("all", "--report", tmp_path / "no" / "x.html"), "does not exist or"),
        (("all", "--markdown", tmp_path / "no" / "x.md"), "does not exist or"),
        (("all", "--readme", tmp_path / "README.md"), "pass --markdown too"),
        (("all", "--markdown", tmp_path / "x.md", "--readme", unmarked), "no excerpt of the results"),
        ((), "no experiment named; there are: one-table"),
        (("one-table", "other"), "no experiment 'other'"),
        (("one-table", "--report", tmp_path / "no" / "x.html"), "does not exist or"),
    ):
        answer = kinfolk("reproduce", *words, "--data", tmp_path)
        assert answer.status == 2 and told in answer.err
    assert RUNS == []


# -- with a checkpoint ------------------------------------------------------------------------------------


def trained() -> Report:
    """Two models, and how often each was trained to the end."""
    corpus = kf.generate_newswire(4)
    models = [kf.MEMM(n_jobs=1, l2=l2, tolerance=0.03).fit(corpus) for l2 in (0.1, 1.0)]
    scores = [float(model.weights_.node.sum()) for model in models]
    rows = [{"dataset": "d", "split": "test", "model": str(i), "f1": score} for i, score in enumerate(scores)]
    return Report("trained", rows, 1.0, {}, ("f1",))


@pytest.mark.parametrize("names", [["trained"], ["one-table", "no-data", "trained"]])
def test_an_experiment_that_was_stopped_goes_on(
    kinfolk, experiments, tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "kinfolk.papers.fake_trained", fake("fake_trained", "About.\n\nMore.", trained))
    monkeypatch.setitem(experiments, "trained", "fake_trained.run")
    command = ["reproduce", *names, "--data", tmp_path, "--json", tmp_path / "found.json"]
    command += ["--report", tmp_path / "page.html"] if len(names) > 1 else []
    run = tmp_path / ("run" if len(names) == 1 else "run.trained")
    with killed_after(30), pytest.raises(Killed):
        kinfolk(*command, "--checkpoint", tmp_path / "run")
    assert run.exists()
    searches: list[int] = []
    monkeypatch.setattr("kinfolk.core.checkpoint.Step.keep", lambda *_: searches.append(1))
    kinfolk(*command, "--checkpoint", tmp_path / "run")
    assert not [name for name in tmp_path.iterdir() if name.name.startswith("run")]
    found = json.loads((tmp_path / "found.json").read_text())
    rows = found["rows"] if len(names) == 1 else found["trained"]["rows"]
    assert rows == trained().rows
    assert 0 < len(searches) < 60
