"""The data of the experiments: what is declared, how a data folder is compared with it, and the page about it."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from kinfolk.cli.reproduce import EXPERIMENTS
from kinfolk.papers import manifest
from kinfolk.papers.manifest import SETS, Contents, DataSet, check, contents, data_digest, markdown, sets_of

REPOSITORY = Path(__file__).resolve().parents[2]


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(path: Path, files: dict[str, bytes], prefix: str = "") -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            one = tarfile.TarInfo(prefix + name)
            one.size = len(content)
            archive.addfile(one, io.BytesIO(content))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with two sets, both fine, and their declaration."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "x.csv").write_bytes(b"1,2\n")
    packed(tmp_path / "b" / "y.tar.gz", {"p/1": b"one", "p/2": b"two"})
    lines = f"{sha(b'one')} p/1\n{sha(b'two')} p/2\n".encode()
    plain = DataSet("A", "a", "home", "none", "As it is.", ("slt-gum",), {"x.csv": Contents(4, sha(b"1,2\n"))})
    archive = DataSet("B", "b", "home", "none", "Packed.", ("slt-records",), {"y.tar.gz": Contents(6, sha(lines))})
    monkeypatch.setattr(manifest, "SETS", (plain, archive))
    return tmp_path


def test_what_is_packed_is_compared_by_its_contents(tmp_path: Path):
    first, second = tmp_path / "a.tar.gz", tmp_path / "b.tgz"
    packed(first, {"p/1": b"one", "p/2": b"two"})
    packed(second, {"p/2": b"two", "p/1": b"one"}, "./")
    assert contents(first) == contents(second)
    packed(second, {"p/2": b"two", "p/3": b"one"})
    assert contents(first) != contents(second)
    for level in (1, 9):
        (tmp_path / "c.gz").write_bytes(gzip.compress(b"words " * 100, level))
        assert contents(tmp_path / "c.gz") == Contents(600, sha(b"words " * 100))


def test_a_set_is_fine_or_missing_or_differs(small: Path):
    states = lambda: [one.state for one in check(small, sets_of())]  # noqa: E731
    assert states() == ["fine", "fine"]
    (small / "a" / "x.csv").write_bytes(b"1,3\n")
    packed(small / "b" / "y.tar.gz", {"p/1": b"one", "p/2": b"other"})
    assert states() == ["differs", "differs"]
    (small / "b" / "y.tar.gz").write_bytes(b"no archive")
    (small / "a" / "x.csv").unlink()
    found = check(small, sets_of())
    assert [one.state for one in found] == ["missing", "differs"]
    assert found[0].faults == ("a/x.csv is not there",) and "cannot be unpacked" in found[1].faults[0]


def test_the_command_says_it_set_by_set(kinfolk, small: Path, tmp_path: Path):
    answer = kinfolk("reproduce", "--check-data", small)
    assert answer.status == 0 and answer.err == "" and answer.out.count("fine") == 2
    (small / "a" / "x.csv").write_bytes(b"1,2,3\n")
    page = tmp_path / "data.md"
    answer = kinfolk("reproduce", "--check-data", small, "--markdown", page)
    assert answer.status == 1 and "differs" in answer.out and "a/x.csv has 6 bytes" in answer.err
    assert "expected 4 bytes" in answer.err and "## A\n" in page.read_text()
    assert kinfolk("reproduce", "slt-records", "--check-data", small).status == 0
    assert kinfolk("reproduce", "slt-gum", "--check-data", small).status == 1
    answer = kinfolk("reproduce", "--check-data", small / "nowhere")
    assert answer.status == 2 and "no such data folder" in answer.err


def test_the_digest_of_data_is_of_the_files_that_an_experiment_reads(small: Path):
    gum, records = (data_digest(name, small) for name in ("slt-gum", "slt-records"))
    assert gum != records and len(gum) == 12
    (small / "a" / "x.csv").write_bytes(b"other")
    assert data_digest("slt-gum", small) != gum and data_digest("slt-records", small) == records
    (small / "b" / "y.tar.gz").unlink()
    assert data_digest("slt-records", small) != records


def test_every_experiment_says_which_data_it_reads():
    assert {name for one in SETS for name in one.experiments} == set(EXPERIMENTS)
    assert len({one.name for one in SETS}) == len(SETS)
    for one in SETS:
        assert one.files and all(len(file.sha256) == 64 and file.size for file in one.files.values())


def test_the_page_about_data_is_what_is_declared():
    text = (REPOSITORY / "docs" / "data.md").read_text(encoding="utf-8")
    assert text == markdown(), f"to be written anew: {manifest.COMMAND}"


def test_the_page_about_data_has_version_and_sizes_of_every_set(small: Path, monkeypatch: pytest.MonkeyPatch):
    """What is packed takes less in the folder than unpacked; of plain files the two are the same."""
    plain, archive = manifest.SETS
    changed = replace(plain, version="1.2"), replace(archive, packed=250_001, version="commit 0a1b2c3")
    monkeypatch.setattr(manifest, "SETS", changed)
    text = markdown()
    assert "| [A](#a) | 1.2 | 0 kB | 0 kB | `a` | slt-gum |" in text
    assert "| [B](#b) | commit 0a1b2c3 | 0.3 MB | 0 kB | `b` | slt-records |" in text
    assert "Had from home. Version: commit 0a1b2c3. Licence: none." in text
    assert "| all |  | 0.3 MB | 0 kB |  |  |" in text


def test_sets_with_packed_files_say_how_large_these_are():
    for one in SETS:
        has_packed = any(name.endswith(("gz", "tgz")) for name in one.files)
        assert has_packed == (one.packed is not None) and one.size <= one.unpacked, one.name


@pytest.mark.data
def test_the_data_are_those_declared(data_folder: Path):
    found = check(data_folder, sets_of())
    assert not [fault for one in found for fault in one.faults]
