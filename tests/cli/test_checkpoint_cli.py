"""`--checkpoint`: a command that was stopped goes on, and leaves nothing behind when it is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from stopped import Killed, killed_after, same_state


def train(world: Path, out: Path, *more: object) -> list[object]:
    return ["tokens", "train", "--train", world / "train.conll", "--out", out, "--model", "memm", *more]


def test_training_of_tokens_goes_on(kinfolk: Any, world: Path, tmp_path: Path):
    undisturbed, out, run = tmp_path / "a.kinfolk", tmp_path / "b.kinfolk", tmp_path / "run.kinfolk-run"
    assert kinfolk(*train(world, undisturbed)).status == 0
    with killed_after(25), pytest.raises(Killed):
        kinfolk(*train(world, out, "--checkpoint", run))
    assert run.exists() and not out.exists()
    done = kinfolk(*train(world, out, "--checkpoint", run))
    assert done.status == 0 and done.err.startswith(f"goes on from {run}\n")
    assert same_state(kf.load_model(undisturbed), kf.load_model(out))
    assert sorted(os.listdir(tmp_path)) == ["a.kinfolk", "b.kinfolk"]


def test_other_settings_are_told_as_options(kinfolk: Any, world: Path, tmp_path: Path):
    out, run = tmp_path / "m.kinfolk", tmp_path / "run"
    with killed_after(25), pytest.raises(Killed):
        kinfolk(*train(world, out, "--checkpoint", run))
    told = kinfolk(*train(world, out, "--checkpoint", run, "--l2", "3"))
    assert told.status == 2 and "of other work: setting l2 was 0.1, and is 3.0" in told.err
    assert run.exists() and not out.exists()


def test_a_checkpoint_may_be_no_other_file_of_the_command(kinfolk: Any, world: Path, tmp_path: Path):
    out = tmp_path / "m.kinfolk"
    for other in (world / "train.conll", out):
        told = kinfolk(*train(world, out, "--checkpoint", other))
        assert told.status == 2 and "--checkpoint" in told.err and "would overwrite" in told.err
    told = kinfolk(*train(world, out, "--checkpoint", tmp_path / "no" / "run"))
    assert told.status == 2 and "the checkpoint cannot be written" in told.err
    assert os.listdir(tmp_path) == []


def goes_on(kinfolk: Any, tmp_path: Path, command: list[object], writes: int) -> None:
    """The same model, whether the command was stopped or not; and nothing beside it."""
    undisturbed, out, run = tmp_path / "a.kinfolk", tmp_path / "b.kinfolk", tmp_path / "run"
    assert kinfolk(*command, "--out", undisturbed, "--jobs", "1", "--quiet").status == 0
    with killed_after(writes), pytest.raises(Killed):
        kinfolk(*command, "--out", out, "--jobs", "1", "--quiet", "--checkpoint", run)
    assert run.exists() and not out.exists()
    done = kinfolk(*command, "--out", out, "--jobs", "1", "--quiet", "--checkpoint", run)
    assert (done.status, done.err) == (0, "")
    assert same_state(kf.load_model(undisturbed), kf.load_model(out))
    assert not run.exists() and not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("model", ["mop", "stacked"])
def test_training_of_nodes_goes_on(kinfolk: Any, tmp_path: Path, model: str):
    rng, kinds = np.random.default_rng(0), np.arange(40) % 2
    features = (rng.random((40, 5)) < 0.3 + 0.4 * np.eye(5)[kinds]).astype(int)
    rows = [f"n{i}\t" + "\t".join(map(str, features[i])) + f"\t{'ab'[kinds[i]]}" for i in range(40)]
    (tmp_path / "w.content").write_text("\n".join(rows) + "\n")
    (tmp_path / "w.cites").write_text("".join(f"n{i}\tn{(i + 2) % 40}\n" for i in range(40)))
    files = ["--nodes", tmp_path / "w.content", "--edges", tmp_path / "w.cites"]
    goes_on(kinfolk, tmp_path, ["nodes", "train", *files, "--model", model], 5)
    told = kinfolk("nodes", "train", *files, "--model", "stacked", "--engine", "duckdb", "--checkpoint", tmp_path / "r",
                   "--out", tmp_path / "c")  # fmt: skip
    assert told.status == 2 and "--checkpoint cannot be had from an engine" in told.err


def test_training_of_records_goes_on(kinfolk: Any, tmp_path: Path):
    people = kf.generate_customers(80, seed=1)
    columns = {name: people.columns[name].strings() for name in ("given_name", "surname", "postcode")}
    lines = [",".join([str(i), *(column[i] or "" for column in columns.values()), str(people.clusters[i])])
             for i in range(people.n_items)]  # fmt: skip
    (tmp_path / "p.csv").write_text("\n".join([f"id,{','.join(columns)},entity", *lines]) + "\n")
    command = ["records", "train", "--records", tmp_path / "p.csv", "--cluster", "entity", "--block", "key(surname)",
               "--block", "key(given_name)", "--block", "key(postcode)"]  # fmt: skip
    goes_on(kinfolk, tmp_path, command, 6)
    command = ["records", "cluster", tmp_path / "a.kinfolk", "--records", tmp_path / "p.csv", "--quiet", "--jobs", "1"]
    plain, out, run = tmp_path / "plain", tmp_path / "out", tmp_path / "run"
    assert kinfolk(*command, "-o", plain).status == 0
    with killed_after(2), pytest.raises(Killed):
        kinfolk(*command, "-o", out, "--checkpoint", run)
    assert run.exists() and not out.exists()
    assert kinfolk(*command, "-o", out, "--checkpoint", run).status == 0
    assert out.read_bytes() == plain.read_bytes() and not run.exists()


@pytest.mark.parametrize("form", [[], ["--entities"], ["--k-best", "2"], ["--json"]])
def test_tagging_goes_on(kinfolk: Any, world: Path, tmp_path: Path, form: list[str]):
    command = ["tokens", "tag", world / "crf.kinfolk", world / "test.conll", *form]
    plain, out, run = tmp_path / "plain", tmp_path / "out", tmp_path / "run"
    assert kinfolk(*command, "-o", plain).status == 0
    with killed_after(2), pytest.raises(Killed):
        kinfolk(*command, "-o", out, "--checkpoint", run)
    assert not out.exists()
    assert kinfolk(*command, "-o", out, "--checkpoint", run).status == 0
    assert out.read_bytes() == plain.read_bytes() and sorted(os.listdir(tmp_path)) == ["out", "plain"]
    told = kinfolk(*command, "--checkpoint", run)
    assert told.status == 2 and "--checkpoint needs a file to write to" in told.err.replace(" ...", "")
