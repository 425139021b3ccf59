"""Web pages taken apart: places of words, links, addresses; broken markup costs words, never an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.datasets.webkb import Page, bag_rows, fold_address, parse_page, plain_address, split_header, words_of

HOME = "http://www.cs.school.edu/~ann/index.html"


def parsed(text: str, address: str = HOME) -> Page:
    return parse_page(text, address)


def targets(text: str, address: str = HOME) -> list[str]:
    return [link.target for link in parsed(text, address).links]


def test_each_word_is_in_its_place():
    page = parsed(
        "<html><head><title>Ann's Page</title></head><body><h1>Ann Lee</h1>I teach <a href=cs1.html>CS 1</a>."
        "<h2>Links</h2><ul><li><a href='http://b.edu/'>Bob</a></ul></body></html>"
    )
    assert page.title == ("ann", "s", "page")
    assert page.headings == ("ann", "lee", "links")
    assert page.text == ("ann", "lee", "i", "teach", "cs", "0", "links", "bob")
    assert [(link.target, link.words, link.heading) for link in page.links] == [
        ("http://www.cs.school.edu/~ann/cs1.html", ("cs", "0"), ("ann", "lee")),
        ("http://b.edu/", ("bob",), ("links",)),
    ]


def test_words_are_lower_case_runs_with_digits_as_zeros():
    assert words_of("CS537, Fall_1996: R&amp;D caf&eacute; &#65;") == ("cs000", "fall", "0000", "r", "d", "café", "a")
    assert words_of("") == ()


def test_what_is_not_shown_is_not_read():
    page = parsed("<style>p {x}</style>a<!-- no <b>no</b> --><SCRIPT>if (1 < 2) no()</Script>b<!WA0><!doctype no> c")
    assert page.text == ("a", "b", "c")


def test_images_speak_by_their_alternative_text():
    page = parsed('<a href="x.html"><img src=x.gif alt="Home page"></a>')
    assert page.links[0].words == ("home", "page") == page.text


BROKEN = {
    "open tag at the end": ("one <a href=", ("one",)),
    "open comment": ("one <!-- two > three", ("one", "three")),
    "open script": ("one <script> two", ("one",)),
    "open title": ("<title>one<body>two", ("two",)),
    "less-than in text": ("1 < 2 and <3", ("0", "0", "and", "0")),
    "stray ends": ("</a></h1></title></table>one", ("one",)),
    "nothing": ("", ()),
    "marked section": ("<![if foo]>one<![endif]>", ("one",)),
    "nul bytes": ("one\0two", ("one", "two")),
}


@pytest.mark.parametrize(("text", "words"), BROKEN.values(), ids=list(BROKEN))
def test_broken_markup(text: str, words: tuple[str, ...]):
    assert parsed(text).text == words


def test_places_left_open_end_with_their_block():
    page = parsed("<h2>Staff<p>Ann <h2><hr>Courses<ul>list</ul> <a href=x>one<li>two <a href=y>three<p>four")
    assert page.headings == ("staff", "courses")
    assert [(link.words, link.heading) for link in page.links] == [(("one",), ("courses",)), (("three",), ("courses",))]


def test_a_heading_without_words_leaves_the_last_one_standing():
    page = parsed("<h2>Staff</h2><h2><img src=line.gif></h2><a href=x>Ann</a>")
    assert page.links[0].heading == ("staff",)


LINKS = {
    "relative": ("<a href=bob.html>", "http://www.cs.school.edu/~ann/bob.html"),
    "up": ("<a href='../~bob/'>", "http://www.cs.school.edu/~bob/"),
    "above the root": ("<a href='../../../x'>", "http://www.cs.school.edu/x"),
    "from the root": ('<A HREF = "/courses/">', "http://www.cs.school.edu/courses/"),
    "fragment": ("<a href='bob.html#top'>", "http://www.cs.school.edu/~ann/bob.html"),
    "entity": ("<a href='x?a=1&amp;b=2'>", "http://www.cs.school.edu/~ann/x?a=1&b=2"),
    "broken over lines": ("<a\nhref='bo\n b.html'\n>", "http://www.cs.school.edu/~ann/bob.html"),
    "quote left open": ('<a href="bob.html>Bob</a>', "http://www.cs.school.edu/~ann/bob.html"),
    "other attributes": ('<a name="x" title=\'y\' href="bob.html">', "http://www.cs.school.edu/~ann/bob.html"),
    "twice": ("<a href=bob.html href=eve.html>", "http://www.cs.school.edu/~ann/bob.html"),
    "frame": ("<frame src=bob.html>", "http://www.cs.school.edu/~ann/bob.html"),
    "area": ("<area shape=rect href=bob.html>", "http://www.cs.school.edu/~ann/bob.html"),
    "base": ("<base href='http://b.edu/d/'><a href=bob.html>", "http://b.edu/d/bob.html"),
    "mail": ("<a href='mailto:ann@b.edu'>", "mailto:ann@b.edu"),
}


@pytest.mark.parametrize(("text", "target"), LINKS.values(), ids=list(LINKS))
def test_where_links_lead(text: str, target: str):
    assert targets(text) == [target]


@pytest.mark.parametrize("text", ["<a name=top>", "<a href=''>", "<a href='#top'>", "<a href='http://[bad/'>", "</a>"])
def test_what_is_no_link(text: str):
    assert targets(text) == []


def test_words_after_a_link_are_not_its_words():
    assert [link.words for link in parsed("<a href=x>in</a> out <a name=y>not</a>").links] == [("in",)]


HEADER = b"Date: Mon, 02 Dec 1996\r\nServer: NCSA/1.4\r\nContent-type: text/html\r\n\r\n"


def test_the_header_is_split_off():
    fields, body = split_header(HEADER + b"<html>")
    assert fields["server"] == "NCSA/1.4" and body == b"<html>"
    assert split_header(b"HTTP/1.0 200 OK\nServer: x\n\nbody") == ({"server": "x"}, b"body")
    moved, _ = split_header(b"WWW Alert:  Redirection\nDate: now\nLocation: http://b.edu/\n\n<html>")
    assert moved["location"] == "http://b.edu/"


@pytest.mark.parametrize("data", [b"", b"<html>Date: x\n\n", b"Note: a page\n\nof text", b"Server", b"\xff\xfe: x\n\n"])
def test_what_is_no_header_stays(data: bytes):
    assert split_header(data) == ({}, data)


def test_plain_addresses_differ_in_nothing_a_server_tells_apart():
    assert plain_address("HTTP://WWW.CS.School.edu:80/%7Eann/A.html#top") == "http://www.cs.school.edu/~ann/A.html"
    assert plain_address("http://b.edu:8080/x?y=1") == "http://b.edu:8080/x?y=1"
    assert plain_address("http://b.edu/d") != plain_address("http://b.edu/d/")
    assert plain_address("http://[bad/") == ""


def test_folded_addresses():
    same = ["http://www.b.edu/~x/", "http://b.edu/~x", "http://B.EDU:80/%7ex/index.html", "http://b.edu/~x/Welcome.htm"]
    assert {fold_address(address) for address in same} == {"http://b.edu/~x"}
    assert fold_address("http://www.b.edu/") == fold_address("http://b.edu") == "http://b.edu"
    assert fold_address("http://b.edu/reindex.html") == "http://b.edu/reindex.html"


def test_bags_become_rows():
    rows, names = bag_rows([["b", "a", "b"], [], ["a"], ["c"]], min_count=1)
    assert names == ("a", "b", "c")
    assert rows.toarray().tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1]]
    rows, names = bag_rows([["b", "a", "b"], [], ["a"], ["c"]], min_count=2)
    assert names == ("a",) and rows.shape == (4, 1) and rows.dtype == np.float32
    assert bag_rows([])[0].shape == (0, 0)


@given(
    st.lists(st.sampled_from(["<", ">", "<a href=", "<h1>", "<!--", "-->", "</", "'", '"', "x", " ", "<title>", "&#"]))
)
def test_any_text_is_a_page(pieces: list[str]):
    page = parsed("".join(pieces))
    assert all(word.islower() or word == "0" for word in page.text)


@pytest.mark.parametrize(
    ("piece", "links"),
    [("<!-- ", 0), ("<a href=", 1), ("<h1><p>", 0), ("<a href=x><p>", 30_000), ("<", 0), ("<script>", 0), ("&#", 0)],
)
def test_long_nonsense_comes_to_an_end(piece: str, links: int):
    """Anything worse than linear in the length would be felt here; `benchmarks/reading.py` has the figures."""
    page = parsed(piece * 30_000)
    assert page.text == page.title == page.headings == () and len(page.links) == links
