"""`kinfolk warm`: what it counts, that a second call compiles nothing, and that it is honest about what is not kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinfolk.cli import warm
from kinfolk.core import kernels
from warm_kernels import NOTE

NAMES = ["MaxEnt"]
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model, in this process."""
    monkeypatch.setattr(warm, "LISTS", ({name: warm.LISTS[0][name] for name in NAMES}, {}))


def test_what_is_compiled_is_there_when_asked_again(kinfolk: Any, few: None) -> None:
    first = json.loads(kinfolk("warm", "--json", "--processes", "1").out)
    again = json.loads(kinfolk("warm", "--json", "--processes", "1").out)
    assert first["loaded"] + first["compiled"] > 10 and first["not_kept"] == 0 and first["folder"]
    assert again["compiled"] == first["compiled"]  # of this process: none more
    assert "kernels compiled" in kinfolk("warm", "--processes", "1").out


def test_two_processes_are_counted_once(kinfolk: Any, few: None) -> None:
    told = json.loads(kinfolk("warm", "--json", "--processes", "2").out)
    assert told["loaded"] + told["compiled"] > 10 and told["not_kept"] == 0


def test_kernels_that_cannot_be_kept_are_a_fault(kinfolk: Any, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = kernels.warmth()._replace(compiled=["a(int64)"], not_kept=["a(int64)"])
    monkeypatch.setattr(kernels, "warmth", lambda: found)
    told = kinfolk("warm", "--processes", "1")
    assert told.status == 2 and "could not be kept" in told.err and "NUMBA_CACHE_DIR" in told.err


def test_every_public_model_has_its_place() -> None:
    """A model that is not warmed compiles at its first use. Layers and pools of other targets share kernels."""
    from every_model import MODELS

    warmed = {name for models in warm.LISTS for name in models}
    assert {*MODELS} - warmed <= {"NodeRegressor", "MultiLabelNodes"}


def test_nothing_is_compiled_after_it() -> None:
    """By the uses of `every_use.py`; asked for the kernels that `kinfolk warm` had before the tests began."""
    note = Path(os.environ["NUMBA_CACHE_DIR"]) / NOTE
    if not note.is_file():
        pytest.skip(f"no {note}: kernels were not compiled by the whole suite, which begins so where there are none")
    warmed, used = json.loads(note.read_bytes()), kernels_of(TESTS / "every_use.py")
    assert len(used) > 60 and used <= {*warmed["compiled"], *warmed["loaded"]}


def kernels_of(script: Path) -> set[str]:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    return {*found["compiled"], *found["loaded"]}
