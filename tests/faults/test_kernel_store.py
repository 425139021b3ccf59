"""The store of compiled kernels under faults: whatever is in the folder, the answer is that of the source.

Each start of a module of kernels is one of a program that uses it, in this process or in a fork that may be killed.
"""

from __future__ import annotations

import logging
import os
import pickle
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest
from failing import every_call
from killing import killed_after

from kinfolk.core import kernels

SOURCE = """
from kinfolk.core.kernels import njit

@njit(nogil=True, cache=True)
def scaled(x):
    return x * {factor}
"""


class Program:
    """A kernel that multiplies by a factor, a store for it, and starts of it."""

    def __init__(self, folder: Path) -> None:
        self.source, self.store = folder / "program.py", folder / "kernels"
        self.store.mkdir()

    def asked(self, factor: float, number: Any = 1.0) -> tuple[float, int]:
        """The answer of a new start, and how many kernels it found compiled."""
        if not self.source.exists() or self.source.read_text() != SOURCE.format(factor=factor):
            self.source.write_text(SOURCE.format(factor=factor))
        kernel = runpy.run_path(str(self.source))["scaled"]
        return kernel(number), sum(kernel.stats.cache_hits.values())

    def files(self) -> list[Path]:
        return sorted(path for path in self.store.rglob("*") if path.is_file())

    def empty(self) -> None:
        for path in self.files():
            path.unlink()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(kernels, "KERNELS", [])  # `kinfolk warm` counts those of the library
    return Program(tmp_path)


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What a new process would say: everything once more."""
    for name in ("_warn_damage", "_warn_not_kept", "_warn_unreadable"):
        getattr(kernels, name).cache_clear()
    monkeypatch.setattr(kernels, "warn_first_use", lambda kept: kernels.log.warning("first use; %s", kept))
    with caplog.at_level(logging.WARNING):
        yield caplog


@pytest.mark.parametrize("how", ["once", "full", "killed"])
def test_every_call_of_keeping_a_kernel_may_fail(program: Program, how: str, told: pytest.LogCaptureFixture):
    """After a change of the source, too: of the old kernel nothing may be found under the new list. (The byte code is
    the same with another constant.)"""

    def begin() -> None:
        program.empty()
        assert program.asked(2.0) == (2.0, 0)

    n_calls = 0
    for number, error in every_call(program.store, begin, lambda: program.asked(3.0), how):
        n_calls = number
        assert error in ("", "killed"), "a kernel that cannot be kept is run all the same"
        assert program.asked(3.0)[0] == 3.0
        assert program.asked(3.0) == (3.0, 1), "and the next one keeps it"
        assert {path.suffix for path in program.files()} == {".nbi", ".nbc"}, "without litter"
    assert n_calls >= 6, "an index and a kernel, each opened, written and put in its place"
    if how != "killed":
        assert "cannot be kept" in told.text and "damaged" not in told.text


def test_a_kernel_of_another_version_is_not_run(program: Program, monkeypatch: pytest.MonkeyPatch):
    """Of numba: the list says so, and the kernel itself, should it be another's under a list of this version."""
    program.asked(2.0)
    [kernel] = program.store.rglob("*.nbc")
    old = kernel.read_bytes()
    monkeypatch.setattr(numba, "__version__", "0.0")
    assert program.asked(2.0) == (2.0, 0) and program.asked(2.0) == (2.0, 1)
    kernel.write_bytes(old)
    assert program.asked(2.0) == (2.0, 0) and program.asked(2.0) == (2.0, 1)


def test_files_that_are_sound_but_hold_something_else_are_compiled_anew(
    program: Program, told: pytest.LogCaptureFixture
):
    """As a later kinfolk may write them: whole, with a checksum, and not to be understood."""
    program.asked(2.0)
    for ending in ("nbi", "nbc"):
        for content in (pickle.dumps("something else"), b"\x80\x05cno_such_module\nname\n."):
            [path] = program.store.rglob(f"*.{ending}")
            sealed = (pickle.dumps(numba.__version__) if ending == "nbi" else b"") + content
            path.write_bytes(sealed + kernels.hashlib.sha256(sealed).digest())
            kernels._warn_damage.cache_clear()
            told.clear()
            assert program.asked(2.0) == (2.0, 0)
            assert "damaged, and are compiled anew" in told.text
            assert program.asked(2.0) == (2.0, 1)


def test_a_file_that_cannot_be_read_is_told_as_such(program: Program, told: pytest.LogCaptureFixture):
    program.asked(2.0)
    [index] = program.store.rglob("*.nbi")
    index.unlink()
    index.mkdir()
    told.clear()
    assert program.asked(2.0) == (2.0, 0)
    assert "cannot be read (Is a directory)" in told.text and "cannot be kept" in told.text
    assert "damaged" not in told.text


# -- folders that cannot be written to: read-only for everybody, the superuser included ----------------------

START = """
import logging, sys
sys.path.insert(0, {folder!r})
logging.basicConfig(format="%(message)s")
from program import scaled
print(scaled(1.0), *({others}))
print(sum(scaled.stats.cache_hits.values()))
"""
CLOSED = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 77; exec "$@"'


class Starts:
    """A module of a kernel, imported by processes of their own that keep it in a folder of that name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "kernels"
        self.store.mkdir()
        (folder / "tmp").mkdir()
        (folder / "program.py").write_text(SOURCE.format(factor=2.0))

    def run(self, others: str = "", closed: bool = False) -> tuple[list[str], str]:
        """What was said, in lines, and told. `closed`: with a store that is read-only for this process."""
        words = [sys.executable, "-B", "-c", START.format(folder=str(self.folder), others=others)]
        places = {"NUMBA_CACHE_DIR": "kernels", "XDG_CACHE_HOME": "home", "TMPDIR": "tmp"}
        own = {name: str(self.folder / place) for name, place in places.items()}
        if closed:
            words = ["unshare", "--mount", "--map-root-user", "sh", "-c", CLOSED, str(self.store), *words]
        try:
            ran = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, **own})
        except FileNotFoundError:
            pytest.skip("no `unshare` here, which mounts a folder read-only for one process")
        if closed and (ran.returncode == 77 or "unshare" in ran.stderr):
            pytest.skip(f"no mounts for one process here: {ran.stderr.strip()}")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.split("\n")[:-1], ran.stderr.strip()


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


def test_kernels_in_a_folder_that_cannot_be_written_to_are_used_and_others_kept_elsewhere(starts: Starts):
    """As in an image of a container."""
    assert starts.run()[0] == ["2.0", "0"]
    before = sorted(starts.store.rglob("*"))
    out, told = starts.run("[scaled(3)]", closed=True)
    assert out == ["2.0 6.0", "1"], "one was there, one was compiled"
    assert told.startswith("first use") and told.endswith(f"names {starts.store}, which cannot be written to")
    assert starts.run("[scaled(3)]", closed=True) == (["2.0 6.0", "2"], ""), "one here, one there"
    assert sorted(starts.store.rglob("*")) == before


def test_kernels_in_a_folder_that_cannot_be_written_to_are_used_where_nothing_can_be(starts: Starts):
    starts.run()
    for place in ("__pycache__", "home", f"tmp/kinfolk-kernels-{os.getuid()}", "tmp/kinfolk-kernels-0"):
        (starts.folder / place).touch()
    out, told = starts.run("[scaled(3)]", closed=True)
    assert out == ["2.0 6.0", "1"]
    assert told.startswith("first use") and "every run compiles them again" in told and "\n" not in told


# -- two at once ------------------------------------------------------------------------------------------


def test_processes_that_compile_at_once_do_not_disturb_each_other(program: Program):
    """Same and different types, all at one moment; then every type has its own kernel, and nothing else is left."""
    numbers = [1.0, 1, True, 1.0]
    for _ in range(2):
        program.empty()
        program.source.write_text(SOURCE.format(factor=3))
        begin, ready = os.pipe()
        children = []
        for number in numbers:
            child = os.fork()
            if child == 0:
                right = False
                try:
                    os.close(ready)
                    os.read(begin, 1)  # until all are there
                    right = program.asked(3, number)[0] == 3 * number
                finally:
                    os._exit(0 if right else 1)
            children.append(child)
        os.close(begin)
        os.close(ready)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(numbers)
        for number in numbers:
            assert program.asked(3, number)[0] == 3 * number
        assert [program.asked(3, number) for number in numbers] == [(3 * number, 1) for number in numbers]
        assert {path.suffix for path in program.files()} == {".nbi", ".nbc"}


def test_a_process_killed_while_it_compiles_leaves_nothing_wrong(program: Program):
    for moment in (0.02, 0.06, 0.1, 0.14):
        program.empty()
        killed_after(moment, lambda: program.asked(2.0))
        assert program.asked(2.0)[0] == 2.0 and program.asked(2.0) == (2.0, 1)
        assert {path.suffix for path in program.files()} == {".nbi", ".nbc"}
