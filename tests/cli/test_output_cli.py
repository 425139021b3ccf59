"""What comes out: tables for people and for pipes, JSON for programs, and the exit status for shells."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.cli import output as tables
from kinfolk.cli.output import Table, link_lines, link_table, show, show_json, summary

WIDE = Table(
    ("data", "model", "F1"), [("world", "a model with a name of many words " * 6, "90.10"), ("w", "m", "1.00")], 2
)


def on_a_terminal(*words: object, **settings: str) -> str:
    """What a command prints to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", "kinfolk", *map(str, words)],
        stdout=theirs, stderr=subprocess.PIPE, env={**kept, "TERM": "xterm-256color", "COLUMNS": "100", **settings},
    )  # fmt: skip
    os.close(theirs)
    told = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError as error:  # how Linux says that nobody writes there any more
            assert error.errno == errno.EIO
            break
        if not piece:
            break
        told += piece
    assert process.stderr is not None
    wrong = process.stderr.read()
    process.stderr.close()
    os.close(ours)
    assert (process.wait(60), wrong) == (0, b"")
    return told.decode().replace("\r\n", "\n")


# -- tables -------------------------------------------------------------------------------------------


def test_a_pipe_gets_whole_lines(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    show(["two rows"], WIDE)
    first, head, wide, narrow = capfd.readouterr().out.splitlines()
    assert first == "two rows" and head.split() == ["data", "model", "F1"]
    assert wide.startswith("world  " + WIDE.rows[0][1]) and wide.endswith("  90.10")
    assert narrow.split() == ["w", "m", "1.00"] and len(narrow) == len(wide) == len(head)
    assert "\x1b" not in head + wide + narrow


def test_a_terminal_gets_colours(world: Path):
    told = on_a_terminal("tokens", "evaluate", world / "crf.kinfolk", world / "test.conll", "--jobs", "1")
    assert "\x1b[1m" in told and "\x1b[36m" in told, "a bold head, and names in a colour"
    scores, accuracy = kf.load_model(world / "crf.kinfolk").evaluate(kf.read_conll(world / "test.conll"))
    assert f" tokens; accuracy {accuracy:.2f} %\n" in told and f"{scores.f1:.2f}" in told
    for name in ("type", "precision", "recall", "F1", "entities", "predicted", "correct", "overall", *scores.types):
        assert name in told


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    told = {}
    for value in ("", "1"):  # empty counts as not set
        monkeypatch.setenv("NO_COLOR", value)
        show([], WIDE)
        told[value] = capsys.readouterr().out
    assert "\x1b[36m" in told[""] and "\x1b" not in told["1"]
    assert "90.10" in told["1"] and "world" in told["1"]


def test_labels_cannot_give_orders_to_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    hostile = Table(("[bold]class[/bold]", "F1"), [("\x1b[2J[red]X[/red]", "1.00")])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    show(["\x07title"], hostile)
    told = capsys.readouterr().out
    assert "\x1b" not in told and "\x07" not in told
    assert "[red]X[/red]" in told and "[bold]class[/bold]" in told, "brackets are no markup"


def test_links_keep_their_columns():
    scores = {"conll": 0.5, "mentions": {}, "pairs": {"recall": 1.0, "precision": 0.25, "f1": 0.4, "error": 0.125}}
    table = link_table(scores)
    assert table.rows == [("conll", "", "", "50.00", ""), ("pairs", "100.00", "25.00", "40.00", "12.50")]
    assert list(link_lines(table)) == [
        "              recall  precision      F1   error",
        "       conll" + " " * 22 + "50.00",
        "       pairs  100.00      25.00   40.00   12.50",
    ]


def test_commands_share_one_module_for_tables():
    folder = Path(tables.__file__).parents[1]
    for name in ("text/cli", "graph/cli", "linking/cli", "cli/reproduce"):
        text = (folder / f"{name}.py").read_text(encoding="utf-8")
        assert "from kinfolk.cli.output import" in text and "import rich" not in text and "from rich" not in text


# -- JSON ---------------------------------------------------------------------------------------------


def test_json_has_no_numbers_that_are_none(capfd: pytest.CaptureFixture[str]):
    show_json({"a": [float("nan"), 1.5], "b": {"c": (float("inf"), "ä")}})
    told = capfd.readouterr().out
    assert json.loads(told, parse_constant=lambda name: pytest.fail(name)) == {
        "a": [None, 1.5],
        "b": {"c": [None, "ä"]},
    }
    assert "ä" in told


def test_training_tokens_as_json(kinfolk: Any, world: Path, tmp_path: Path):
    command = ["tokens", "train", "--train", world / "train.conll", "--dev", world / "test.conll", "--json"]
    done = kinfolk(*command, "--out", tmp_path / "m")
    assert (done.status, done.err) == (0, "")
    told, corpus = json.loads(done.out), kf.read_conll(world / "train.conll")
    size = {"documents": 12, "sentences": corpus.n_sentences, "tokens": corpus.n_tokens}
    assert told["model"] == "LinearChainCRF" and told["trained_on"] == size and told["path"] == str(tmp_path / "m")
    model = kf.load_model(tmp_path / "m")
    assert told["features"] == model.features_.n_features
    ended = told["convergence"]
    assert ended["status"] in ("converged", "stopped") and ended["iterations"] > 0
    assert 0 < ended["held_out_score"] <= 1 and ended["best_iteration"] <= ended["iterations"]
    assert ended["objective"] == model.convergence_.objective


def test_training_a_stack_and_a_skip_chain_as_json(kinfolk: Any, world: Path, tmp_path: Path):
    command = ["tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", "--json", "--quiet"]
    stacked = json.loads(kinfolk(*command, "--model", "stacked", "--folds", "2").out)
    assert stacked["model"] == "StackedTagger" and [level["status"] for level in stacked["levels"]] == ["converged"] * 2
    skip_chain = json.loads(kinfolk(*command, "--model", "skip-chain").out)
    assert skip_chain["belief_propagation"]["groups"] == skip_chain["belief_propagation"]["settled"] == 12


def test_training_records_and_nodes_as_json(kinfolk: Any, tmp_path: Path):
    (tmp_path / "r.csv").write_text("id,name,entity\n" + "".join(f"{i},n{i // 2},{i // 2}\n" for i in range(20)))
    done = kinfolk("records", "train", "--records", tmp_path / "r.csv", "--cluster", "entity", "--out", tmp_path / "m",
                   "--json", "--quiet", "--jobs", "1")  # fmt: skip
    told = json.loads(done.out)
    assert (done.status, told["model"], told["trained_on"]) == (0, "Linker", {"items": 20, "candidate_pairs": 190})
    assert told["rounds"][told["best_round"]]["scores"] and told["convergence"]["status"] and 0 < told["threshold"] < 1
    (tmp_path / "n.csv").write_text("id,x,kind\n" + "".join(f"a{i},{i % 2},{'uv'[i % 2]}\n" for i in range(12)))
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"a{i},a{(i + 2) % 12}\n" for i in range(12)))
    command = ["nodes", "train", "--nodes", tmp_path / "n.csv", "--edges", tmp_path / "e.csv", "--label", "kind"]
    for model, name in (("mop", "MixtureNodes"), ("stacked", "StackedNodes")):
        done = kinfolk(*command, "--model", model, "--out", tmp_path / "m", "--json", "--quiet", "--jobs", "1")
        told = json.loads(done.out)
        assert (done.status, told["model"], told["trained_on"]) == (0, name, {"nodes": 12, "labelled": 12})
        assert told["features"] == 1 and set(told["links"].values()) == {12} and told["trust"] == []
        assert (told["convergence"] is None) == (model == "stacked"), "scikit-learn does not tell"


def test_a_model_without_optimiser_has_no_convergence():
    class Base:
        levels_ = (object(),)

    assert summary(Base(), Path("m"), {"nodes": 1}) == {
        "model": "Base", "trained_on": {"nodes": 1}, "convergence": None, "levels": [None], "path": "m",
    }  # fmt: skip


@pytest.mark.parametrize("forced", [False, True])
def test_tagging_as_json(kinfolk: Any, world: Path, forced: bool):
    options = ["--json", *(["--forced"] if forced else [])]
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll", *options)
    sentences = [json.loads(line) for line in told.out.splitlines()]
    model, corpus = kf.load_model(world / "crf.kinfolk"), kf.read_conll(world / "test.conll")
    assert [s["words"] for s in sentences] == corpus.rows()
    assert [s["labels"] for s in sentences] == model.predict(corpus, forced=forced)
    assert [s["sentence"] for s in sentences] == list(range(corpus.n_sentences))
    assert sorted({s["document"] for s in sentences}) == list(range(6))
    place = list(model.classes_).index
    for one, table in zip(sentences, model.predict_proba(corpus, forced=forced), strict=True):
        own = [row[place(label)] for row, label in zip(table, one["labels"], strict=True)]
        np.testing.assert_allclose(one["probabilities"], own)


# -- exit statuses ------------------------------------------------------------------------------------


def test_a_fault_of_the_program_is_1_and_asks_for_a_report(world: Path):
    program = (
        "import kinfolk, kinfolk.cli.main as m\n"
        "def broken(*_, **__): raise RuntimeError('boom')\n"
        "kinfolk.LinearChainCRF.predict = broken\n"
        "m.run()"
    )
    words = ["tokens", "tag", str(world / "crf.kinfolk"), str(world / "test.conll"), "--jobs", "1"]
    ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "RuntimeError: boom" in ran.stderr and ran.stderr.splitlines()[-1].startswith("This is a fault of kinfolk")


def test_0_and_2(kinfolk: Any, world: Path):
    assert kinfolk("tokens", "evaluate", world / "crf.kinfolk", world / "test.conll").status == 0
    assert kinfolk("--help").status == kinfolk("--version").status == 0
    for words in (["tokens", "tag", "nowhere"], ["tokens", "tag"], ["--nonsense"], ["guess"], ["reproduce", "x"]):
        assert kinfolk(*words).status == 2, words


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_interrupted_is_130(world: Path, tmp_path: Path):
    """The program is known to be at work when it has opened its input, here a pipe that nobody fills."""
    os.mkfifo(tmp_path / "in.conll")
    command = ["tokens", "tag", world / "crf.kinfolk", tmp_path / "in.conll", "-o", tmp_path / "out", "--jobs", "1"]
    process = subprocess.Popen([sys.executable, "-m", "kinfolk", *map(str, command)], stderr=subprocess.PIPE)
    writer = None
    while writer is None:
        assert process.poll() is None, "ended before it read anything"
        try:
            writer = os.open(tmp_path / "in.conll", os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:  # not opened for reading yet
            assert error.errno == errno.ENXIO
            time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, told) == (130, b"interrupted; nothing was written\n")
    assert not (tmp_path / "out").exists()
