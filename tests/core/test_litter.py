"""Temporary files of processes that were killed are removed by the next one that writes there, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kinfolk.core import files
from kinfolk.core.files import _place, remove_litter, replace_file


def dead_process() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_what_the_dead_have_left_is_removed_when_something_is_written(tmp_path: Path):
    left = tmp_path / f".kinfolk-{_place()}-{dead_process()}-{'a' * 16}.tmp"
    left.write_bytes(b"half")
    replace_file(tmp_path / "model", b"whole")
    assert os.listdir(tmp_path) == ["model"]


def test_nothing_else_is_removed(tmp_path: Path):
    dead, place, other = dead_process(), _place(), "0" * 12
    kept = [
        f".kinfolk-{place}-{os.getpid()}-{'a' * 16}.tmp",  # written to now
        f".kinfolk-{place}-{os.getppid()}-{'a' * 16}.tmp",
        f".kinfolk-{place}-1-{'a' * 16}.tmp",  # another's, perhaps
        f".kinfolk-{other}-{dead}-{'a' * 16}.tmp",  # of another machine
        f".kinfolk-{place}-{dead}-{'a' * 15}.tmp",
        f".kinfolk-{place}-{dead}-{'a' * 16}.tmp.old",
        f"x.kinfolk-{place}-{dead}-{'a' * 16}.tmp",
        f".kinfolk-{place}-9999999999-{'a' * 16}.tmp",  # no number of a process
        ".kinfolk-0123456789abcdef.tmp",  # of a former version, whose process nobody knows
        ".kinfolk-out.part",
    ]
    for name in kept:
        (tmp_path / name).touch()
    folder = tmp_path / f".kinfolk-{place}-{dead}-{'b' * 16}.tmp"
    folder.mkdir()
    link = tmp_path / f".kinfolk-{place}-{dead}-{'c' * 16}.tmp"
    link.symlink_to(tmp_path / kept[0])
    remove_litter(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, folder.name, link.name])
    remove_litter(tmp_path / "no")


def test_of_another_user_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    left = tmp_path / f".kinfolk-{_place()}-{dead_process()}-{'a' * 16}.tmp"
    left.touch()
    monkeypatch.setattr(files.os, "getuid", lambda: left.stat().st_uid + 1)
    remove_litter(tmp_path)
    assert left.exists()


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_after_the_next_write(tmp_path: Path):
    script = (
        "import os, signal; from pathlib import Path; from kinfolk.core.files import replace_file\n"
        "def data():\n    yield b'x'\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"replace_file(Path({str(tmp_path / 'model')!r}), data())"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -9 and len(os.listdir(tmp_path)) == 1
    replace_file(tmp_path / "model", b"whole")
    assert os.listdir(tmp_path) == ["model"]
