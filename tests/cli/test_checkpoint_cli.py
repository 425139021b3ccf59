"""`--checkpoint`: a command that was stopped goes on, and leaves nothing behind when it is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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
