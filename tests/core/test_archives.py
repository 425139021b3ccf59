"""Files of a data set in a folder, an archive, or by themselves."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from kinfolk.core import files as archives
from kinfolk.core.files import files_in
from kinfolk.errors import InputError

CONTENT = {
    "set/10.xml": b"<ten/>",
    "set/9.xml": b"<nine/>",
    "set/more/1.xml.gz": gzip.compress(b"<one/>"),
    "a.txt": b"no",
}


def packed(path: Path, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        archive.addfile(tarfile.TarInfo("set"))  # an empty file that no one wants
        for name, data in CONTENT.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("set/link.xml")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return path


def wanted(inner) -> bool:
    return ".xml" in inner.suffixes


def test_a_folder_and_its_archives_hold_the_same(tmp_path: Path):
    folder = tmp_path / "folder"
    for name, data in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    expected = [("set/9.xml", b"<nine/>"), ("set/10.xml", b"<ten/>"), ("set/more/1.xml.gz", b"<one/>")]
    for place in (folder, packed(tmp_path / "a.tgz"), packed(tmp_path / "b.tar", "w")):
        found = files_in(place, wanted)
        assert [(str(file.inner), file.data) for file in found] == expected
        assert all(file.name.startswith(str(place)) for file in found)


def test_one_file_by_itself_is_always_wanted(tmp_path: Path):
    for name, data in {"a.xml": b"<a/>", "b": gzip.compress(b"<a/>")}.items():
        (tmp_path / name).write_bytes(data)
        (file,) = files_in(tmp_path / name, wanted=lambda inner: False)
        assert (str(file.inner), file.name, file.data) == (name, str(tmp_path / name), b"<a/>")


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match="nowhere: no such file"):
        files_in(tmp_path / "nowhere")
    whole = packed(tmp_path / "a.tar", "w").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:1100])  # within the content of the second member
    with pytest.raises(InputError, match=r"cut.tar: the tar archive is truncated or damaged .* fetch it again"):
        files_in(tmp_path / "cut.tar")
    zipped = packed(tmp_path / "a.tgz").read_bytes()
    (tmp_path / "cut.tgz").write_bytes(zipped[: len(zipped) // 2])
    with pytest.raises(InputError, match=r"cut.tgz: gzip data is truncated or damaged"):
        files_in(tmp_path / "cut.tgz")
    monkeypatch.setattr(archives, "LARGEST_MEMBER", 6)
    with pytest.raises(InputError, match=r"'./set/9.xml' has 7 bytes, too many for a text"):
        files_in(tmp_path / "a.tar", wanted)
