"""Temporary files of processes that were killed are removed by the next one that writes there, and no others."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinfolk.core import files


def test_temporary_files_of_the_dead_are_removed_and_of_the_living_are_not(tmp_path: Path):
    """A lock tells which; a file of another name, a folder, a pipe and a link stay whatever they are."""
    (tmp_path / ".kinfolk-0123456789abcdef.tmp").write_text("half of so")
    others = [tmp_path / name for name in ("a.tmp", ".kinfolk-0123456789abcde.tmp", ".kinfolk-1123456789abcdef.tmp")]
    others[0].touch()
    others[1].touch()
    others[2].mkdir()
    os.mkfifo(tmp_path / ".kinfolk-2123456789abcdef.tmp")
    (tmp_path / ".kinfolk-3123456789abcdef.tmp").symlink_to(others[0])
    others += [tmp_path / ".kinfolk-2123456789abcdef.tmp", tmp_path / ".kinfolk-3123456789abcdef.tmp"]
    with files.replacing(tmp_path / "m") as (temporary, stream):
        stream.write(b"one")
        files.replace_file(tmp_path / "n", b"two")
        assert sorted(tmp_path.iterdir()) == sorted([*others, temporary, tmp_path / "n"])
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "m", tmp_path / "n"])
    assert (tmp_path / "m").read_bytes() == b"one" and (tmp_path / "n").read_bytes() == b"two"


def test_a_temporary_file_taken_for_a_dead_one_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In the moment between its making and its lock."""
    taken = []

    def slow(file: Any, how: int):
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()

    monkeypatch.setattr(files.fcntl, "flock", slow)
    files.replace_file(tmp_path / "m", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["m"] and (tmp_path / "m").read_bytes() == b"whole"


def test_where_there_are_no_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def unknown(file: Any, how: int):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(files.fcntl, "flock", unknown)
    (tmp_path / ".kinfolk-0123456789abcdef.tmp").write_text("perhaps somebody's")
    files.replace_file(tmp_path / "m", b"whole")
    assert len(list(tmp_path.iterdir())) == 2 and (tmp_path / "m").read_bytes() == b"whole"


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_after_the_next_write(tmp_path: Path):
    script = (
        "import os, signal; from pathlib import Path; from kinfolk.core.files import replace_file\n"
        "def data():\n    yield b'x'\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"replace_file(Path({str(tmp_path / 'model')!r}), data())"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -9 and len(os.listdir(tmp_path)) == 1
    files.replace_file(tmp_path / "model", b"whole")
    assert os.listdir(tmp_path) == ["model"]
