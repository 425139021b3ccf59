"""Files that cannot be read or written, and what is left of them."""

from __future__ import annotations

import errno
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from kinfolk.core import files
from kinfolk.core.files import read_utf8, write_utf8
from kinfolk.errors import InputError

TEXT = "EU NNP I-ORG\nMünchen NNP I-LOC\n" * 5


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no such file .* check the path"):
        read_utf8(tmp_path / "nowhere")
    with pytest.raises(InputError, match="expected a file, got a directory"):
        read_utf8(tmp_path)
    whole = gzip.compress(TEXT.encode())
    for cut in (3, 12, len(whole) // 2, len(whole) - 4):
        (tmp_path / "cut.gz").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"cut.gz: gzip data is truncated or damaged .* fetch it again"):
            read_utf8(tmp_path / "cut.gz")
    (tmp_path / "bent.gz").write_bytes(whole[:-8] + b"\0\0\0\0" + whole[-4:])
    with pytest.raises(InputError, match="truncated or damaged"):
        read_utf8(tmp_path / "bent.gz")


def test_text_that_is_not_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(TEXT.encode() + "Köln".encode("latin-1"))
    with pytest.raises(InputError, match="latin, line 11: ") as caught:
        read_utf8(tmp_path / "latin")
    assert caught.value.line == 11


def test_gzip_by_suffix_and_permissions_kept(tmp_path: Path) -> None:
    target = tmp_path / "out.gz"
    write_utf8(target, [TEXT])
    assert target.read_bytes()[:2] == b"\x1f\x8b"
    assert read_utf8(target) == (TEXT.encode(), str(target))
    target.chmod(0o640)
    write_utf8(target, [TEXT])
    assert target.stat().st_mode & 0o777 == 0o640
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    write_utf8(link, [TEXT])
    assert link.is_symlink() and (tmp_path / "real").is_file()


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="out: cannot write: No space left on device; nothing was changed"):
        write_utf8(target, [TEXT])
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and target.read_text() == "before"
    with pytest.raises(InputError, match="cannot write: No such file or directory"):
        write_utf8(tmp_path / "nowhere" / "out", [TEXT])
    with pytest.raises(InputError, match="cannot write: Is a directory"):
        write_utf8(tmp_path, [TEXT])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_device() -> None:
    with pytest.raises(InputError, match="/dev/full: cannot write: No space left"):
        write_utf8("/dev/full", [TEXT])


# -- temporary files ----------------------------------------------------------------------------------------


def test_temporary_files_of_the_dead_are_removed_and_of_the_living_are_not(tmp_path: Path) -> None:
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


def test_a_temporary_file_taken_for_a_dead_one_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the moment between its making and its lock."""
    taken = []

    def slow(file: Any, how: int) -> None:
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()

    monkeypatch.setattr(files.fcntl, "flock", slow)
    files.replace_file(tmp_path / "m", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["m"] and (tmp_path / "m").read_bytes() == b"whole"


def test_where_there_are_no_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(file: Any, how: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(files.fcntl, "flock", unknown)
    (tmp_path / ".kinfolk-0123456789abcdef.tmp").write_text("perhaps somebody's")
    files.replace_file(tmp_path / "m", b"whole")
    assert len(list(tmp_path.iterdir())) == 2 and (tmp_path / "m").read_bytes() == b"whole"
