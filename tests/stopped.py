"""Runs with a checkpoint that are stopped as by a kill: right after a state was written, with nothing done after it."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinfolk.core import checkpoint
from kinfolk.core.checkpoint import Run


class Killed(BaseException):
    """As no part of the library catches."""


@contextmanager
def killed_after(writes: int | None) -> Iterator[list[int]]:
    """It is always time for a state; after so many the run ends, None: never. Yields a list, in the end of how many.

    Of those written one over the other only the last counts, so only that is.
    """
    counted = [0]
    with pytest.MonkeyPatch.context() as patch:
        write = Run._write

        def counting(self: Run) -> None:
            counted[0] += 1
            if counted[0] == writes:
                write(self)
                patch.setattr(Run, "end", lambda self: None)
                raise Killed

        patch.setattr(Run, "_write", counting)
        patch.setattr(Run, "end", write)
        patch.setattr(checkpoint, "EVERY", 0.0)
        patch.setattr(os, "fsync", lambda file: None)  # which takes all the time, and changes nothing here
        yield counted


def number_of_writes(work: Callable[[Path], Any], path: Path) -> int:
    """How many a run that is never stopped has, the first included; the file is removed."""
    with killed_after(None) as counted:
        work(path)
    path.unlink()
    return counted[0]


def after_kills(work: Callable[[Path], Any], path: Path, kills: list[int]) -> Any:
    """What work comes to that is stopped after so many states, each time it goes on."""
    for writes in kills:
        with killed_after(writes), pytest.raises(Killed):
            work(path)
    with killed_after(None):
        return work(path)


def same_state(one: Any, other: Any) -> bool:
    """Whether two models say and hold the same, bit by bit, but for how long their training took."""
    a, b = one.to_state(), other.to_state()
    if a.arrays.keys() != b.arrays.keys() or a.strings.keys() != b.strings.keys():
        return False
    arrays = all(_content(name, a.arrays[name]) == _content(name, b.arrays[name]) for name in a.arrays)
    strings = all(list(a.strings[name]) == list(b.strings[name]) for name in a.strings)
    return arrays and strings and _timeless(a.header) == _timeless(b.header)


def _content(name: str, array: np.ndarray) -> Any:
    """Of an estimator that skops wrote, whose parts it numbers by where they are in memory: arrays, and how many."""
    if not name.endswith(".skops"):
        return array.dtype, array.shape, array.tobytes()
    with zipfile.ZipFile(io.BytesIO(array.tobytes())) as packed:
        return sorted(packed.read(member) for member in packed.namelist() if member.endswith(".npy"))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(inner) for name, inner in value.items() if name != "seconds"}
    return [_timeless(inner) for inner in value] if isinstance(value, list | tuple) else value
