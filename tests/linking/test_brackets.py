"""Brackets of a coreference column: the ways corpora write them, what is wrong with some, and back again."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import InputError, SettingError
from kinfolk.linking.coref import BracketSpans, LabelledSpan, parse_brackets

Plain = tuple[int, int, str]


def spans(*cells: str) -> list[Plain]:
    parsed = parse_brackets(cells)
    assert parsed.n_unmatched == 0
    return [(start, end, label) for start, end, label in parsed.spans]


# How cells are written


@pytest.mark.parametrize("nothing", ["-", "_", ""])
def test_cells_without_brackets(nothing: str) -> None:
    assert spans() == []
    assert spans(nothing, nothing) == []
    assert spans(nothing, "(0", nothing, "0)") == [(1, 4, "0")]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["(0", "0)"], [(0, 2, "0")]),
        (["(0)"], [(0, 1, "0")]),
        (["(0|(1)", "0)"], [(0, 2, "0"), (0, 1, "1")]),
        (["(0", "(1", "1)|0)"], [(0, 3, "0"), (1, 3, "1")]),
        (["(0|(0)", "0)|(0)"], [(0, 2, "0"), (0, 1, "0"), (1, 2, "0")]),
        (["(0", "0)|(0", "0)"], [(0, 2, "0"), (1, 3, "0")]),
        (["(0|", "|0)"], [(0, 2, "0")]),
    ],
)
def test_brackets_with_bars(cells: list[str], expected: list[Plain]) -> None:
    assert spans(*cells) == expected


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["(1(1", "1)1)"], [(0, 2, "1"), (0, 2, "1")]),
        (["(3(1)", "(1", "3)1)"], [(0, 3, "3"), (0, 1, "1"), (1, 3, "1")]),
        (["(1", "1)(2)", "(3)"], [(0, 2, "1"), (1, 2, "2"), (2, 3, "3")]),
        (
            ["(person-10-Charles_Bolden(organization-1-NASA)", "person-10-Charles_Bolden)"],
            [(0, 2, "person-10-Charles_Bolden"), (0, 1, "organization-1-NASA")],
        ),
        (["(event-2", "(event-3", "event-2)event-3)"], [(0, 3, "event-2"), (1, 3, "event-3")]),
    ],
)
def test_brackets_in_a_row(cells: list[str], expected: list[Plain]) -> None:
    assert spans(*cells) == expected


def test_spans_cross_and_labels_are_matched_in_full() -> None:
    assert spans("(1", "(11", "1)", "11)") == [(0, 3, "1"), (1, 4, "11")]
    assert spans("(0", "(0", "0)", "0)") == [(0, 4, "0"), (1, 3, "0")], "the latest opened is closed first"


@pytest.mark.parametrize(
    "label",
    [
        "abstract-109-Opposite_%28semantics%29",
        "organization-10-Manchester_City_F.C.",
        "person-35-Tiémoué_Bakayoko",
        "object-3-Schindler's_List,_the_film",
        "place-2-東京",
        'a+b&c="d"/e:f;g!h?i*j[k]{l}',
        "-",
        "_",
    ],
)
def test_labels_may_be_odd(label: str) -> None:
    assert spans(f"({label}(x)", f"(y){label})") == [(0, 2, label), (0, 1, "x"), (1, 2, "y")]


def test_a_bar_tells_an_opening_and_a_closing_bracket_from_a_span_of_one_token() -> None:
    assert spans("(1", "(0|1)", "0)") == spans("(1", "1)(0", "0)") == [(0, 2, "1"), (1, 3, "0")]
    assert parse_brackets(["(1", "(01)", "0)"], unmatched="drop").spans == (LabelledSpan(1, 2, "01"),)


# What may be wrong


def test_duplicates_are_reported_and_dropped_on_request() -> None:
    cells = ["(1(2(1", "1)1)2)", "(2)|(2)"]
    again = (LabelledSpan(0, 2, "2"), LabelledSpan(0, 2, "1"), LabelledSpan(2, 3, "2"))
    first = (LabelledSpan(0, 2, "1"), LabelledSpan(2, 3, "2"))
    assert parse_brackets(cells, duplicates="drop") == BracketSpans(first, again, 0)
    kept = parse_brackets(cells)
    assert kept.duplicates == again and kept.spans == (first[0], *again[:2], first[1], again[2])


@pytest.mark.parametrize(
    ("cells", "line", "message"),
    [
        (["(0", "-"], 10, r"the bracket \(0 is never closed in its document; correct it"),
        (["-", "0)"], 12, r"the bracket 0\) is never opened before in its document; correct it"),
        (["-", "0)", "(0"], 12, r"the bracket 0\) is never opened before in its document \(and 1 more\)"),
        (["(0", "(0", "0)"], 10, r"the bracket \(0 is never closed"),
        (["(person-1-X", "person-1)"], 10, r"the bracket \(person-1-X is never closed in its document \(and 1 more\)"),
    ],
)
def test_unmatched_brackets(cells: list[str], line: int, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_brackets(cells, path="some.conll", lines=[10, 12, 13][: len(cells)])
    assert (caught.value.path, caught.value.line) == ("some.conll", line)
    assert str(caught.value).startswith(f"some.conll, line {line}: ")
    with pytest.raises(InputError, match=f"{'token 0' if line == 10 else 'token 1'} is never"):
        parse_brackets(cells)


def test_unmatched_brackets_are_dropped_on_request() -> None:
    parsed = parse_brackets(["0)(1", "(2(2", "1)3)", "2)"], unmatched="drop")
    assert parsed.n_unmatched == 3
    assert parsed.spans == (LabelledSpan(0, 3, "1"), LabelledSpan(1, 4, "2"))


@pytest.mark.parametrize(
    "cell",
    ["1", "1(1", "(1)2", "(", ")", "()", "((1)", "(1))", "1)2", "(1 (2)", "(1) ", "|", "*", "B-PER", "(a_(b))", "(1|2"],
)
@pytest.mark.parametrize("unmatched", ["raise", "drop"])
def test_other_text_is_refused(cell: str, unmatched: str) -> None:
    with pytest.raises(InputError, match="expected brackets such as") as caught:
        parse_brackets(["-", cell], unmatched=unmatched, path="x.conll", lines=[1, 5])
    assert repr(cell) in str(caught.value) and caught.value.line == 5


def test_settings_are_checked() -> None:
    with pytest.raises(SettingError, match="unmatched must be one of raise, drop"):
        parse_brackets([], unmatched="ignore")
    with pytest.raises(SettingError, match="duplicates one of keep, drop"):
        parse_brackets([], duplicates="merge")
    with pytest.raises(InputError, match="a line number a cell, 2; got 1"):
        parse_brackets(["-", "-"], lines=[1])


# There and back


def written(found: list[Plain], n_tokens: int, bar: str) -> list[str]:
    """Cells of these spans, openings in the order given, after the closings where no bar keeps them apart."""
    openings: list[list[str]] = [[] for _ in range(n_tokens)]
    closings: list[list[str]] = [[] for _ in range(n_tokens)]
    for start, end, label in found:
        openings[start].append(f"({label})" if end == start + 1 else f"({label}")
        if end > start + 1:
            closings[end - 1].append(f"{label})")
    pairs = zip(openings, closings, strict=True)
    return [bar.join(opened + closed if bar else closed + opened) or "-" for opened, closed in pairs]


def crosses(one: Plain, other: Plain) -> bool:
    """Whether two spans overlap with neither inside the other."""
    (a, b, _), (c, d, _) = sorted([one, other])
    return a < c < b < d


@st.composite
def span_lists(draw: st.DrawFn) -> tuple[list[Plain], int]:
    """Spans in order of opening; those of one label do not cross, as brackets cannot say which of them ends."""
    n_tokens = draw(st.integers(1, 8))
    label = st.text(st.characters(exclude_characters="()|", exclude_categories=("Z", "C")), min_size=1, max_size=4)
    labels = draw(st.lists(label, min_size=1, max_size=3))
    kept: list[Plain] = []
    for _ in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, n_tokens - 1))
        span = start, draw(st.integers(start + 1, n_tokens)), draw(st.sampled_from(labels))
        if not any(crosses(span, other) for other in kept if other[2] == span[2]):
            kept.append(span)
    return sorted(kept, key=lambda span: (span[0], -span[1])), n_tokens


@given(span_lists(), st.sampled_from(["", "|"]))
def test_what_is_written_is_read(case: tuple[list[Plain], int], bar: str) -> None:
    found, n_tokens = case
    parsed = parse_brackets(written(found, n_tokens, bar))
    assert [tuple(span) for span in parsed.spans] == found
    repeated = [span for i, span in enumerate(found) if any(span[:2] == other[:2] for other in found[:i])]
    assert [tuple(span) for span in parsed.duplicates] == repeated
    alone = parse_brackets(written(found, n_tokens, bar), duplicates="drop")
    assert Counter(alone.spans) + Counter(alone.duplicates) == Counter(parsed.spans)
    assert len({span[:2] for span in alone.spans}) == len(alone.spans)


@given(st.lists(st.text("()|12", max_size=6), max_size=5))
def test_any_text_is_read_or_refused(cells: list[str]) -> None:
    """Brackets are used up once: by a span, or as unmatched ones."""
    try:
        parsed = parse_brackets(cells, unmatched="drop")
    except InputError:
        return
    text = "".join(cells)
    assert 2 * len(parsed.spans) + parsed.n_unmatched == text.count("(") + text.count(")")
    assert all(0 <= start < end <= len(cells) for start, end, _ in parsed.spans)


# Corpora


def columns_of(archive: Path, folder: str) -> Iterator[tuple[str, list[str], list[int]]]:
    """Name, last column and line numbers of the documents of an archive."""
    with tarfile.open(archive) as files:
        for member in files:
            content = files.extractfile(member) if member.name.startswith(folder) else None
            if content is None:
                continue
            lines = content.read().decode("utf-8").split("\n")
            tokens = [i for i, line in enumerate(lines) if line and not line.startswith("#")]
            yield member.name, [lines[i].split("\t")[-1] for i in tokens], [i + 1 for i in tokens]


@pytest.mark.data
@pytest.mark.parametrize(
    ("archive", "folder", "expected"),
    [
        ("litbank/litbank.tar.gz", "coref/conll/", (100, 210_532, 29_103, 7_927, 2_164, 633_660)),
        ("gum/gum.tar.gz", "coref/gum/conll/", (281, 268_089, 75_697, 39_399, 10_794, 335_999)),
    ],
)
def test_counts_of_corpora(data_folder: Path, archive: str, folder: str, expected: tuple[int, ...]) -> None:
    """Documents, tokens, mentions, entities, entities of two mentions or more, coreferent pairs; nothing is amiss."""
    path = data_folder / "mentions" / archive
    if not path.is_file():
        pytest.skip(f"no archive at {path}; set KINFOLK_DATA")
    documents = tokens = 0
    entities: Counter[tuple[str, str]] = Counter()
    for name, cells, lines in columns_of(path, folder):
        parsed = parse_brackets(cells, path=name, lines=lines)
        assert not parsed.duplicates, name
        documents, tokens = documents + 1, tokens + len(cells)
        entities.update((name, span.label) for span in parsed.spans)
    sizes = entities.values()
    pairs = sum(size * (size - 1) // 2 for size in sizes)
    assert (documents, tokens, sum(sizes), len(sizes), sum(size > 1 for size in sizes), pairs) == expected
