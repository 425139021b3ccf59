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
from kinfolk.core.frames import targets
from kinfolk.core.modelfile import check_writable
from kinfolk.errors import InputError, ModelFileError, SettingError


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


# -- looked at before the work -----------------------------------------------------------------------------


def test_a_place_that_cannot_be_written_to_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files.check_target(tmp_path / "new")
    (tmp_path / "old").write_text("as it was")
    files.check_target(tmp_path / "old")
    files.check_target("-")
    files.check_target(os.devnull)
    with pytest.raises(InputError, match="no/new: cannot write: No such file or directory"):
        files.check_target(tmp_path / "no" / "new")
    with pytest.raises(InputError, match="cannot write: Is a directory"):
        files.check_target(tmp_path)

    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files, "open", refused, raising=False)  # a superuser may write anywhere
    for target in ("new", "old"):
        with pytest.raises(InputError, match=f"{target}: cannot write: Permission denied; nothing was changed"):
            files.check_target(tmp_path / target)
    with pytest.raises(ModelFileError, match="create it first"):
        check_writable(tmp_path / "new")
    with pytest.raises(InputError, match="cannot write: Permission denied"):
        targets([{}], tmp_path / "new.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and (tmp_path / "old").read_text() == "as it was"


def test_what_is_read_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.parquet").touch()
    (tmp_path / "link.parquet").symlink_to(tmp_path / "in" / "a.parquet")
    own = str(tmp_path / "in")
    for target, source in [
        ("in/a.parquet", "in/a.parquet"),
        ("in/a.parquet", f"{own}/*.parquet"),
        ("in/b.parquet", "in/*.parquet"),  # would be read the next time
        ("in/deep/b.parquet", "**/*.parquet"),
        ("b.parquet", "**/*.parquet"),
        ("link.parquet", "in/?.parquet"),
        ("in/a.parquet", "link.parquet"),
        ("in/b.parquet", "in"),
    ]:
        assert files.read_among(target, [{}, source]) == source, (target, source)
        with pytest.raises(InputError, match=r"would be written over what is read.*name another"):
            targets([{}], target, [Path(source)])
    for target, source in [("in/deep/a.parquet", "in/*.parquet"), ("b.parquet", "in"), ("b.parquet", "-")]:
        assert files.read_among(target, [source]) is None, (target, source)
    assert files.read_among("in/b.parquet", ["in"], folders=False) is None
    with pytest.raises(SettingError, match="two different files"):
        targets([{}, {}], ["b.parquet", "in/../b.parquet"])
