"""Files that cannot be read or written, and what is left of them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

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
