"""The WebKB reader on tiny archives and folders, and the counts of the real data."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kinfolk.datasets.webkb import read_webkb
from kinfolk.errors import InputError, SettingError

HEADER = "Date: Monday\r\nServer: NCSA\r\nContent-type: text/html\r\n\r\n"
MOVED = "WWW Alert:  Redirection\nDate: now\nLocation: http://www.t.edu/ann/\n\n<title>Moved</title>"
FILL = "one two three four five six seven eight nine ten eleven "
T, C = "http://www.t.edu/", "http://www.c.edu/"
PAGES = {
    ("student", "texas", T + "ann.html"): HEADER
    + f"<title>Ann</title><h1>Student</h1>{FILL}<a href=cs1.html>my course</a>",
    ("student", "texas", T + "moved"): MOVED,
    ("student", "texas", T + "short.html"): "<title>Short</title>under construction",
    (
        "faculty",
        "texas",
        T + "bob.html",
    ): f"<p>{FILL} caf\xe9 <a href='{T}bob.html'>me</a> <a href='{C}dan.html'>Dan</a>",
    ("course", "texas", T + "cs1.html"): HEADER
    + f"{FILL}<a href=bob.html#office>Bob</a><a href='./bob.html'>again</a>",
    ("project", "cornell", C + "dan.html"): f"{FILL} <a href='{C}DIR/index.html'>dir</a>",
    ("staff", "cornell", C + "DIR/"): FILL * 2,
    ("department", "texas", T): FILL * 2,
    ("other", "texas", T + "list.html"): f"{FILL}<h2>People</h2><a href=ann.html>Ann Lee</a><a href=bob.html>Bob</a>"
    "<h2>Courses</h2><a href=cs1.html>CS 1</a>",
    ("other", "texas", T + "few.html"): f"{FILL}<a href=ann.html>1</a><a href=bob.html>2</a><a href=short.html>3</a>",
    ("other", "misc", "http://www.m.edu/x.html"): FILL * 2,
}


def file_name(address: str) -> str:
    return address.replace("/", "^")


def as_folder(root: Path) -> Path:
    for (kind, school, address), text in PAGES.items():
        folder = root / "webkb" / kind / school
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file_name(address)).write_bytes(text.encode("latin-1"))
    return root / "webkb"


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def as_archive(root: Path) -> Path:
    path = root / "webkb.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for (kind, school, address), text in reversed(PAGES.items()):
            add(archive, f"webkb/{kind}/{school}/{file_name(address)}", text.encode("latin-1"))
    return path


@pytest.mark.parametrize("form", [as_archive, as_folder, lambda root: as_folder(root).parent])
def test_archive_and_folder_read_the_same(form, tmp_path: Path):
    graph = read_webkb(form(tmp_path), min_count=1)
    assert graph.ids == (C + "dan.html", T + "ann.html", T + "bob.html", T + "cs1.html", T + "list.html")
    assert graph.labels == ["research-project", "student", "faculty", "course", "other"]
    assert graph.group_names == ("cornell", "texas") and graph.group_codes.tolist() == [0, 1, 1, 1, 1]
    links = [(int(i), int(j)) for i, j in zip(*graph.relations["links"].nonzero(), strict=True)]
    assert links == [(1, 3), (3, 2), (4, 1), (4, 2), (4, 3)]
    assert graph.relations["links"].data.tolist() == [1] * 5


def words(graph, node: str, field: str) -> set[str]:
    columns = graph.features[[graph.ids.index(node)]].nonzero()[1]
    named = (graph.feature_names[c].split(":", 1) for c in columns)
    return {word for prefix, word in named if prefix == field}


def test_words_carry_their_field(tmp_path: Path):
    graph = read_webkb(as_archive(tmp_path), min_count=1, fields=("title", "heading", "anchor", "above", "address"))
    assert words(graph, T + "ann.html", "title") == {"ann"} and words(graph, T + "ann.html", "heading") == {"student"}
    assert words(graph, T + "ann.html", "anchor") == {"ann", "lee", "0"}, "pages left out speak of others too"
    assert words(graph, T + "ann.html", "above") == {"people"}
    assert words(graph, T + "cs1.html", "above") == {"courses", "student"}
    assert words(graph, T + "cs1.html", "address") == {"cs0", "html"}
    assert "café" in words(read_webkb(as_archive(tmp_path), min_count=1), T + "bob.html", "text")


def test_rare_words_are_left_out(tmp_path: Path):
    names = read_webkb(as_archive(tmp_path), min_count=5, fields=["text"]).feature_names
    assert set(names) == {f"text:{word}" for word in FILL.split()}


def test_all_pages_of_the_schools(tmp_path: Path):
    graph = read_webkb(as_folder(tmp_path), subset=None)
    assert len(graph) == len(PAGES) - 1, "misc is no school"
    assert {"staff", "department", "other"} < set(graph.labels)


def test_folded_addresses_find_more_links(tmp_path: Path):
    exact, folded = (read_webkb(as_folder(tmp_path), subset=None, addresses=how) for how in ("exact", "folded"))
    extra = (folded.relations["links"] - exact.relations["links"]).tocoo()
    found = [(exact.ids[i], exact.ids[j]) for i, j in zip(*extra.coords, strict=True) if extra.toarray()[i, j]]
    assert found == [(C + "dan.html", C + "DIR/")]


def test_hostile_members_are_passed_over_and_nothing_is_unpacked(tmp_path: Path):
    path = tmp_path / "evil.tar.gz"
    page = (FILL * 2).encode()
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "/etc/passwd", page)
        add(archive, "../../student/texas2/x", page)
        add(archive, "..", page)
        add(archive, "/student/texas/http:^^t.edu^..^..^x", page)
        link = tarfile.TarInfo("webkb/student/texas/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    graph = read_webkb(path)
    assert graph.ids == ("http://t.edu/../../x",)
    assert [p.name for p in tmp_path.iterdir()] == ["evil.tar.gz"]


def test_names_that_are_not_text(tmp_path: Path):
    path = tmp_path / "names.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        add(archive, "student/texas/http:^^t.edu^\udcff", (FILL * 2).encode())
    assert read_webkb(path).ids[0].encode("utf-8"), "an id can be written out"


def broken(root: Path, data: bytes) -> Path:
    path = root / "broken.tar.gz"
    path.write_bytes(data)
    return path


def test_files_that_cannot_be_used(tmp_path: Path):
    whole = as_archive(tmp_path).read_bytes()
    with pytest.raises(InputError, match=r"nowhere: no such file"):
        read_webkb(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"gzip data is truncated or damaged.*fetch"):
        read_webkb(broken(tmp_path, whole[: len(whole) // 2]))
    for data in (b"", b"plain text", whole[:-300] + b"?" * 300):
        with pytest.raises(InputError, match=r"broken\.tar\.gz: "):
            read_webkb(broken(tmp_path, data))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no pages: expected files webkb/<class>/<school>/"):
        read_webkb(tmp_path / "empty")
    with tarfile.open(tmp_path / "empty.tar.gz", "w:gz"):
        pass
    with pytest.raises(InputError, match=r"no pages.*cornell, texas"):
        read_webkb(tmp_path / "empty.tar.gz")


def test_a_subset_without_pages(tmp_path: Path):
    folder = tmp_path / "webkb" / "staff" / "texas"
    folder.mkdir(parents=True)
    (folder / file_name(T)).write_text(FILL)
    with pytest.raises(InputError, match="none of the 1 pages is in the subset; pass subset=None"):
        read_webkb(tmp_path)


def test_pages_too_large(tmp_path: Path):
    path = tmp_path / "large.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "webkb/student/texas/x", bytes((1 << 24) + 1))
    with pytest.raises(InputError, match="too many for a page"):
        read_webkb(path)


SETTINGS = {
    "subset": ({"subset": "all"}, "subset must be 'taskar' or None"),
    "addresses": ({"addresses": "any"}, "addresses must be one of exact, folded"),
    "a field": ({"fields": ["text", "body"]}, "fields must be a list of some of text, title"),
    "one field as a string": ({"fields": "text"}, "fields must be a list"),
    "no field": ({"fields": []}, "fields must be a list"),
    "min_count": ({"min_count": 0}, "min_count must be 1 or more"),
}


@pytest.mark.parametrize(("setting", "message"), SETTINGS.values(), ids=list(SETTINGS))
def test_settings_are_checked_before_reading(setting, message: str):
    with pytest.raises(SettingError, match=message):
        read_webkb("nowhere", **setting)


@pytest.mark.data
def test_the_counts_told_in_the_module(data_folder: Path):
    path = data_folder / "nodes" / "webkb_raw_cmu" / "webkb.tar.gz"
    if not path.is_file():
        pytest.skip(f"no WebKB pages at {path}")
    graph = read_webkb(path)
    assert Counter(graph.labels) == {
        "course": 237,
        "faculty": 148,
        "other": 332,
        "research-project": 83,
        "student": 542,
    }
    assert graph.group_names == ("cornell", "texas", "washington", "wisconsin")
    assert np.bincount(graph.group_codes).tolist() == [284, 296, 310, 452]
    sources, targets = graph.relations["links"].nonzero()
    assert np.bincount(graph.group_codes[sources]).tolist() == [586, 586, 731, 1638]
    assert (graph.group_codes[sources] == graph.group_codes[targets]).all()
