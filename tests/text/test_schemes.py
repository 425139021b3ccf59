"""Tag schemes against a port of conlleval, brute-force validity, and the real files."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conlleval_oracle as oracle
from kinfolk.core.data import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.text.conll import read_conll
from kinfolk.text.schemes import SCHEMES, TagError, convert, detect, not_tags, slips, spans, tag, transitions

TYPES = ("PER", "LOC", "")
ANY_TAG = ["O", None, *(f"{letter}-{kind}" for letter in "BIESLU" for kind in ("PER", "LOC")), "B", "I", "E"]
LETTERS = {"IOB1": "IB", "BIO": "IB", "IOBES": "IBES", "BILOU": "IBLU"}

Rows = list[list[str | None]]


def column(rows: Rows) -> tuple[Column, np.ndarray]:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Column.from_strings(itertools.chain.from_iterable(rows)), starts


def parse(text: str) -> tuple[Column, np.ndarray]:
    """Sentences divided by |, tags by blanks, ? for unknown."""
    return column([[None if t == "?" else t for t in part.split()] for part in text.split("|")])


def strings(labels: Column) -> list[str]:
    return ["?" if text is None else text for text in labels.strings()]


any_rows = st.lists(st.lists(st.sampled_from(ANY_TAG), max_size=8), max_size=5)


@st.composite
def entities(draw: st.DrawFn) -> tuple[list[tuple[int, int, str]], np.ndarray]:
    """Entities in sentences, often touching, and the sentence starts."""
    found, starts = [], [0]
    piece = st.tuples(st.integers(1, 3), st.sampled_from([*TYPES, None]))
    for pieces in draw(st.lists(st.lists(piece, max_size=5), max_size=6)):
        t = starts[-1]
        for length, kind in pieces:
            if kind is not None:
                found.append((t, t + length, kind))
            t += length
        starts.append(t)
    return found, np.array(starts)


@given(any_rows, st.sampled_from(SCHEMES))
def test_spans_are_those_of_conlleval_valid_or_not(rows: Rows, scheme: str) -> None:
    assert spans(*column(rows), scheme) == oracle.chunks(rows)


@given(any_rows, st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_conversion_keeps_spans_and_unknowns_and_is_valid(rows: Rows, source: str, target: str) -> None:
    labels, starts = column(rows)
    converted = convert(labels, starts, source, target)
    assert spans(converted, starts, target) == spans(labels, starts, source)
    assert ((converted.codes < 0) == (labels.codes < 0)).all()
    assert slips(converted, starts, target, found=False) is None
    same = Column.from_strings(converted.strings())
    assert same.values == converted.values and (same.codes == converted.codes).all()


@given(entities(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_tags_come_back_from_any_scheme(drawn, source: str, target: str) -> None:
    found, starts = drawn
    labels = tag(found, starts, source)
    assert spans(labels, starts, source) == found
    there = convert(labels, starts, source, target)
    assert there.strings() == tag(found, starts, target).strings()
    assert convert(there, starts, target, source).strings() == labels.strings()


@given(entities(), st.sampled_from(SCHEMES))
def test_detection_finds_the_scheme_tags_were_written_in(drawn, scheme: str) -> None:
    found, starts = drawn
    labels = tag([e for e in found if e[2]], starts, scheme)
    settled = detect(labels, starts)
    if any(kind for _, _, kind in found):
        assert settled == scheme
    else:
        assert settled == ("BIO" if starts[-1] else None)


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOB1", "I-PER I-PER B-PER I-LOC O I-LOC | I-PER"),
        ("BIO", "B-PER I-PER B-PER B-LOC O B-LOC | B-PER"),
        ("IOBES", "B-PER E-PER S-PER S-LOC O S-LOC | S-PER"),
        ("BILOU", "B-PER L-PER U-PER U-LOC O U-LOC | U-PER"),
    ],
)
def test_the_same_entities_in_each_scheme(scheme: str, tags: str) -> None:
    labels, starts = parse(tags)
    expected = [(0, 2, "PER"), (2, 3, "PER"), (3, 4, "LOC"), (5, 6, "LOC"), (6, 7, "PER")]
    assert spans(labels, starts, scheme) == expected
    assert detect(labels, starts) == scheme
    assert slips(labels, starts, scheme) is None
    from_bio = convert(*parse("B-PER I-PER B-PER B-LOC O B-LOC | B-PER"), "BIO", scheme)
    assert from_bio.strings() == labels.strings()


@pytest.mark.parametrize("text", ["DT NN VBZ O .", "N V A I B", "PER LOC O O", "S L S", "I-PER NN NN", "?"])
def test_labels_that_are_not_tags(text: str) -> None:
    assert detect(*parse(text)) is None


def test_bare_letters_and_lone_outsides_are_tags() -> None:
    assert detect(*parse("O B I O")) == "BIO"
    assert detect(*parse("O I I O")) == "IOB1"
    assert detect(*parse("O O ?")) == "BIO"


@pytest.mark.parametrize("strange", ["OO", "B_PER", "X-PER", "B-", "PER"])
def test_a_strange_tag_among_tags_is_told_by_its_token(strange: str) -> None:
    with pytest.raises(TagError, match=f"{strange!r} is not a tag") as caught:
        detect(*parse(f"O B-PER I-PER O {strange}"))
    assert caught.value.fault.token == 4


@given(entities(), st.sampled_from(SCHEMES), st.data())
def test_unknown_labels_do_not_change_the_scheme_and_break_none(drawn, scheme: str, data: st.DataObject) -> None:
    found, starts = drawn
    rows = tag([e for e in found if e[2]], starts, scheme).strings()
    hidden = data.draw(st.sets(st.integers(0, max(0, len(rows) - 1))))
    labels = Column.from_strings([None if t in hidden else name for t, name in enumerate(rows)])
    assert slips(labels, starts, scheme, found=False) is None
    assert convert(labels, starts, scheme, scheme).strings() == labels.strings(), "valid where it is known"
    settled = detect(labels, starts)
    if settled not in (scheme, None):  # only where what is left would be valid in the other scheme too
        assert slips(labels, starts, settled, found=False) is None


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("B-PER ? O | ? I-PER O | B-LOC O ? I-LOC I-LOC", "BIO"),
        ("? I-PER ? I-LOC O | ? I-PER | B-PER", "BIO"),
        ("I-PER I-PER O | ? I-PER ? B-PER O", "IOB1"),
        ("B-PER ? | ? E-PER O S-LOC", "IOBES"),
        ("O I-PER ? | ? I-PER | B-LOC I-LOC ? B-LOC", "BIO"),
        ("O ? I-PER", "IOB1"),
    ],
)
def test_the_tag_beside_an_unknown_label_says_nothing_of_the_scheme(text: str, scheme: str) -> None:
    assert detect(*parse(text)) == scheme


@pytest.mark.parametrize(
    ("text", "scheme", "count", "token"),
    [
        ("B-PER E-PER O S-LOC | O O B-LOC I-LOC O", "IOBES", 1, 8),
        ("B-LOC I-LOC O | B-LOC O B-PER E-PER", "BIO", 1, 6),
        ("B-PER L-PER O U-LOC | S-PER O", "BILOU", 1, 4),
        ("S-PER | U-LOC", "IOBES", 1, 1),
        ("B-PER I-PER O B-LOC | O I-LOC O", "BIO", 1, 5),
        ("B-PER I-LOC | I-LOC B-LOC | B-LOC", "BIO", 2, 1),
        ("I-PER I-PER O I-LOC | O B-LOC O", "IOB1", 1, 5),
        ("I-PER O | B-PER O", "BIO", 1, 0),
    ],
)
def test_tags_that_do_not_follow_the_others_are_counted(text: str, scheme: str, count: int, token: int) -> None:
    labels, starts = parse(text)
    assert detect(labels, starts) == scheme
    found = slips(labels, starts, scheme)
    assert found is not None and (found[0], found[1].token) == (count, token)
    repaired = convert(labels, starts, scheme, scheme)
    assert slips(repaired, starts, scheme) is None
    rows = [labels.strings()[a:b] for a, b in itertools.pairwise(starts)]
    assert spans(repaired, starts, scheme) == spans(labels, starts, scheme) == oracle.chunks(rows)


def test_one_percent_of_odd_starts_is_borne_in_iob1() -> None:
    """They mean the same; the files of CoNLL-2003 have two. A named IOB1 takes any number of them."""
    few, many = parse("I-PER O " * 99 + "B-PER"), parse("I-PER O " * 98 + "B-PER")
    assert detect(*few) == detect(*many) == "IOB1"
    assert slips(*few, "IOB1") is None
    assert slips(*many, "IOB1") is not None and slips(*many, "IOB1", found=False) is None
    assert slips(*parse("B-PER O " * 999 + "I-PER"), "BIO") is not None


@pytest.mark.parametrize(
    ("scheme", "text", "token", "reason"),
    [
        ("BIO", "O I-PER", 1, "I-PER cannot follow O"),
        ("BIO", "B-LOC I-PER", 1, "I-PER cannot follow B-LOC"),
        ("BIO", "O | I-PER", 1, "I-PER cannot start a sentence"),
        ("BIO", "B-PER ? I-PER | I-PER", 3, "I-PER cannot start a sentence"),
        ("BIO", "O S-PER", 1, "'S-PER' is not a tag of BIO; expected O, I-TYPE, B-TYPE"),
        ("IOBES", "B-PER O", 1, "O cannot follow B-PER"),
        ("IOBES", "O B-PER | O", 1, "B-PER cannot end a sentence"),
        ("IOBES", "S-PER E-PER", 1, "E-PER cannot follow S-PER"),
        ("BILOU", "B-PER I-PER E-PER", 2, "'E-PER' is not a tag of BILOU"),
    ],
)
def test_slips_tell_the_first_and_why(scheme: str, text: str, token: int, reason: str) -> None:
    found = slips(*parse(text), scheme)
    assert found is not None and found[1].token == token and found[1].reason.startswith(reason)


def test_iob1_takes_every_well_formed_tag() -> None:
    assert slips(*parse("B-PER O B-LOC I-PER | B-PER"), "IOB1", found=False) is None
    fault = not_tags(parse("O OO")[0], "IOB1")
    assert fault is not None and fault.token == 1 and fault.reason.startswith("'OO' is not a tag of IOB1")
    assert not_tags(parse("O ? I-PER")[0], "IOB1") is None


def permitted(path: tuple[int, ...], tables: tuple[np.ndarray, np.ndarray, np.ndarray]) -> bool:
    allowed, start, end = tables
    return bool(start[path[0]] and end[path[-1]] and all(allowed[a, b] for a, b in itertools.pairwise(path)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_transitions_permit_exactly_the_canonical_taggings(scheme: str) -> None:
    classes = ["O", *(f"{letter}-{kind}" for letter in LETTERS[scheme] for kind in ("X", "Y"))]
    tables = transitions(classes, scheme)
    for length in (1, 2, 3):
        for path in itertools.product(range(len(classes)), repeat=length):
            labels, starts = column([[classes[i] for i in path]])
            canonical = convert(labels, starts, scheme, scheme).strings() == labels.strings()
            assert permitted(path, tables) == canonical, labels.strings()


@given(st.sets(st.sampled_from(["O", *"IBES", "I-X", "B-X", "E-X", "S-X"]), min_size=1))
def test_every_class_set_leaves_each_label_usable_and_each_length_possible(names: set[str]) -> None:
    for scheme in SCHEMES:
        letters = str.maketrans("ES", "LU") if scheme == "BILOU" else {}
        classes = [name.translate(letters) for name in sorted(names)]
        classes = [name for name in classes if name[0] in LETTERS[scheme] + "O"]
        if not classes:
            continue
        tables = transitions(classes, scheme)
        every = (path for n in (1, 2, 3) for path in itertools.product(range(len(classes)), repeat=n))
        paths = [path for path in every if permitted(path, tables)]
        assert {len(path) for path in paths} == {1, 2, 3}
        assert {i for path in paths for i in path} == set(range(len(classes)))


def test_transitions_without_scheme_and_with_foreign_labels() -> None:
    assert all(table.all() for table in transitions(["DT", "NN"], None))
    assert [table.shape for table in transitions([], "BIO")] == [(0, 0), (0,), (0,)]
    with pytest.raises(InputError, match="'DT' is not a tag of BIO"):
        transitions(["O", "DT"], "BIO")


def test_settings_and_shapes_are_checked() -> None:
    labels, starts = parse("O B-PER")
    with pytest.raises(SettingError, match="scheme must be one of IOB1"):
        spans(labels, starts, "IOB2")
    with pytest.raises(InputError, match="must end with the number of labels, 2"):
        spans(labels, [0, 3], "BIO")
    with pytest.raises(InputError, match="'NN' is not a tag"):
        spans(*parse("NN"), "BIO")
    for wrong in [(0, 0, "X"), (1, 3, "X"), (-1, 1, "X"), (3, 5, "X")]:
        with pytest.raises(InputError, match="leaves its sentence"):
            tag([wrong], [0, 2, 4], "BIO")
    with pytest.raises(InputError, match="overlaps"):
        tag([(0, 2, "X"), (1, 2, "Y")], [0, 2], "BIO")


@pytest.mark.data
def test_eng_train_is_converted_and_back(conll2003: Path) -> None:
    corpus = read_conll(conll2003 / "eng.train")
    assert corpus.labels is not None and corpus.scheme == "IOB1"
    found = spans(corpus.labels, corpus.sentence_starts, "IOB1")
    bio = convert(corpus.labels, corpus.sentence_starts, "IOB1", "BIO")
    assert found == oracle.chunks(corpus.label_rows())
    assert slips(bio, corpus.sentence_starts, "BIO") is None
    back = strings(convert(bio, corpus.sentence_starts, "BIO", "IOB1"))
    changed = [i for i, (a, b) in enumerate(zip(back, strings(corpus.labels), strict=True)) if a != b]
    assert corpus.lines is not None and corpus.lines[changed].tolist() == [152428, 175436]  # B-MISC after O


@pytest.mark.parametrize(("text", "scheme", "kinds"), [
    ("I-PER O I-LOC | I-PER | B-PER I-LOC I-LOC", "BIO",
     {"I-PER at the start of a sentence": 2, "I-LOC after B-PER": 1, "I-LOC after O": 1}),
    ("B-PER O | B-LOC | S-PER | U-LOC | S-LOC", "IOBES",
     {"B-LOC at the end of a sentence": 1, "O after B-PER": 1, "U-LOC, no tag of IOBES": 1}),
    ("I-PER O I-PER O I-PER O B-PER", "IOB1", {"B-PER after O": 1}),
])  # fmt: skip
def test_slips_are_counted_by_kind(text: str, scheme: str, kinds: dict[str, int]) -> None:
    labels, starts = parse(text)
    found = slips(labels, starts, scheme)
    assert found is not None and found.kinds == kinds and [*found.kinds] == [*kinds], "those met most often come first"
    assert sum(kinds.values()) == found.total
    assert found.in_words() == ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    first, count = next(iter(kinds.items()))
    others = f", {found.total - count} others" if len(kinds) > 1 else ""
    assert found.in_words(1) == f"{count} {first}{others}"
