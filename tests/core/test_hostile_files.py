"""Files that unpack to more than memory holds, never end, or lead a reader's library to errors of its own."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core.arrow_files import read_files
from kinfolk.core.files import LIMIT_NAME, files_in, read_bytes, read_utf8
from kinfolk.core.table import csv_table, parquet_table
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.table_files import TableFile

LIMIT = 1 << 16
TOO_MUCH = rf"more than 65,536 bytes.*set the environment variable {LIMIT_NAME}"


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_NAME, str(LIMIT))


def tar_of(path: Path, *members: tuple[str, bytes], size: int | None = None) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def sparse_tar(path: Path, size: int, count: int) -> Path:
    """Members that hold nothing and unpack to so many zeros each, as GNU tar writes them."""
    one = bytearray(512)
    one[0:5], one[100:108], one[108:116], one[116:124] = b"a.xml", b"0000644\0", b"0000000\0", b"0000000\0"
    one[124:136], one[136:148], one[156:157], one[257:265] = b"0" * 11 + b"\0", b"0" * 11 + b"\0", b"S", b"ustar  \0"
    one[386:398] = one[398:410] = b"0" * 11 + b"\0"
    one[483:495] = b"%011o\0" % size
    one[148:156] = b" " * 8
    one[148:156] = b"%06o\0 " % sum(one)
    path.write_bytes(bytes(one) * count + bytes(1024))
    return path


def test_gzip_unpacks_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "many.gz"
    path.write_bytes(gzip.compress(bytes(LIMIT)))
    assert read_bytes(path)[0] == bytes(LIMIT)
    path.write_bytes(gzip.compress(bytes(LIMIT // 2)) + gzip.compress(bytes(LIMIT // 2 + 1)))
    with pytest.raises(InputError, match=rf"many.gz: gzip data unpack to {TOO_MUCH}"):
        read_bytes(path)
    monkeypatch.setenv(LIMIT_NAME, str(2 * LIMIT))
    assert len(read_bytes(path)[0]) == LIMIT + 1
    monkeypatch.setenv(LIMIT_NAME, "a lot")
    with pytest.raises(SettingError, match=f"{LIMIT_NAME} must be a number of bytes; got 'a lot'"):
        read_bytes(path)


def test_archives_and_folders_unpack_up_to_a_limit_in_all(tmp_path: Path) -> None:
    zeros = gzip.compress(bytes(LIMIT // 5 * 2))
    (tmp_path / "folder").mkdir()
    for i in range(4):
        (tmp_path / "folder" / f"{i}.gz").write_bytes(zeros)
    with pytest.raises(InputError, match=rf"gzip data unpack to {TOO_MUCH}"):
        files_in(tmp_path / "folder")
    archive = tar_of(tmp_path / "a.tar", *((f"{i}.gz", zeros) for i in range(4)))
    with pytest.raises(InputError, match=rf"a.tar/\d.gz: gzip data unpack to {TOO_MUCH}"):
        files_in(archive)
    assert len(files_in(archive, lambda inner: inner.name < "2")) == 2
    assert len(files_in(sparse_tar(tmp_path / "c.tar", LIMIT // 3, 3))) == 3
    for name, size, count in (("d.tar", LIMIT // 3, 4), ("e.tar", LIMIT + 1, 1)):
        with pytest.raises(InputError, match=rf"{name}: the tar archive unpacks to {TOO_MUCH}"):
            files_in(sparse_tar(tmp_path / name, size, count))


def test_names_in_archives_of_any_length(tmp_path: Path) -> None:
    digits = "9" * 5000
    found = files_in(tar_of(tmp_path / "a.tar", (digits, b"a"), ("1" + digits, b"b"), ("007", b"c"), ("x", b"d")))
    assert [file.data for file in found] == [b"c", b"a", b"b", b"d"]


def test_headers_of_archives_that_lead_nowhere(tmp_path: Path) -> None:
    whole = tar_of(tmp_path / "a.tar", ("n" * 300, b"text")).read_bytes()  # a header for the long name before it
    (tmp_path / "b.tar").write_bytes(whole[:1024] * 3000)  # and one before that, and so on
    with pytest.raises(InputError, match=r"b.tar: the tar archive is truncated or damaged"):
        files_in(tmp_path / "b.tar")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero on this system")
def test_files_without_an_end() -> None:
    with pytest.raises(InputError, match=rf"/dev/zero: it has {TOO_MUCH}"):
        read_bytes("/dev/zero")
    with open("/dev/zero", "rb") as file, pytest.raises(InputError, match=rf"/dev/zero: it has {TOO_MUCH}"):
        read_bytes(file)
    with pytest.raises(InputError, match="/dev/null: no tokens"):
        kf.read_conll("/dev/null")


def test_pipes_are_read_to_their_end() -> None:
    end, begin = os.pipe()
    os.write(begin, "Zürich\n".encode())
    os.close(begin)
    assert read_utf8(f"/dev/fd/{end}")[0].decode() == "Zürich\n" if os.path.exists("/dev/fd") else True
    os.close(end)


def test_names_of_files_that_no_system_takes() -> None:
    with pytest.raises(InputError, match=r"cannot be read: embedded null byte"):
        read_bytes("a\0b")
    with pytest.raises(InputError, match=r"cannot be read: File name too long"):
        read_bytes("a" * 5000)


def test_a_line_of_names_with_many_columns() -> None:
    """In one go over them: the square of this number would take minutes."""
    names = [f"c{i}" for i in range(60_000)]
    table = csv_table(",".join(names).encode() + b"\n", "t.csv", None)
    assert list(table.columns) == names
    with pytest.raises(InputError, match=r"t.csv, line 1: two columns are named 'c7'; rename one"):
        csv_table(",".join([*names, "c7"]).encode() + b"\n", "t.csv", None)


def test_carriage_returns_alone_end_lines(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"id,name\r1,a\r2,b\r3,c\r")
    (tmp_path / "t.csv").write_bytes(b"1,2\r")
    records = kf.read_records(tmp_path / "r.csv", truth=tmp_path / "t.csv")
    assert records.clusters is not None and records.clusters.tolist() == [0, 0, 1]


def test_tables_that_pythons_reader_gives_up(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b'id,name\n1,"a"b\n')
    with pytest.raises(InputError, match=r"r.csv, line 2: not a table: .*correct the quotes and line ends"):
        kf.read_records(tmp_path / "r.csv")


def test_parquet_whose_strings_are_none(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parts = [None, arrow.py_buffer(np.array([0, 2, 5], np.int32)), arrow.py_buffer(b"ab\xf0\xa0c")]
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"id": arrow.Array.from_buffers(arrow.string(), 2, parts)}), path)
    reads = (TableFile.read, read_files, lambda path: parquet_table(Path(path).read_bytes(), path))
    for read in reads:
        with pytest.raises(InputError, match=r"truncated or damaged.*UTF8") as error:
            read(str(path))
        assert str(error.value.path) == str(path)


def test_parquet_that_promises_more_than_it_holds() -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sink = io.BytesIO()
    parquet.write_table(arrow.table({"a": arrow.array([1] * 10**6)}), sink)
    with pytest.raises(InputError, match=rf"t.parquet: Parquet data unpack to {TOO_MUCH}"):
        parquet_table(sink.getvalue(), "t.parquet")
    for cut in (4, 40, len(sink.getvalue()) - 9):
        with pytest.raises(InputError, match=r"t.parquet: Parquet data is truncated or damaged"):
            parquet_table(sink.getvalue()[:cut], "t.parquet")


def test_what_is_wrong_with_a_text_is_said_of_its_file() -> None:
    from kinfolk.text.standoff import Mark, Marked, standoff_corpus

    with pytest.raises(InputError, match=r"^notes.xml: document 0: .* leaves the 5 characters") as told:
        standoff_corpus([Marked("a b c", [Mark(3, 9, "x")])], "notes.xml")
    assert told.value.path == "notes.xml"
