"""What differs between two texts is marked, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kinfolk.linking.differences import LONGEST, Pieces, differences

TEXTS = st.text(alphabet="ab é,\n", max_size=30)


def unmarked(pieces: Pieces) -> str:
    return "".join(text for text, differs in pieces if not differs)


@given(TEXTS, TEXTS)
def test_pieces_make_up_the_texts_and_what_is_not_marked_is_the_same(left: str, right: str) -> None:
    a, b = differences(left, right)
    assert "".join(text for text, _ in a) == left and "".join(text for text, _ in b) == right
    assert unmarked(a) == unmarked(b)
    assert all(text for text, _ in a + b)


@given(TEXTS)
def test_nothing_is_marked_in_equal_texts(text: str) -> None:
    assert differences(text, text) == (([(text, False)] if text else []),) * 2


def test_letters_are_marked_in_a_word_that_changed_and_words_that_are_others() -> None:
    a, b = differences("12 webunes street", "12 wcbunes road")
    assert a == [("12 w", False), ("e", True), ("bunes ", False), ("street", True)]
    assert b == [("12 w", False), ("c", True), ("bunes ", False), ("road", True)]


def test_a_long_text_is_marked_as_a_whole_beyond_its_first_words() -> None:
    long = "word " * 40_000
    a, b = differences(long, long + "more")
    assert unmarked(a) == unmarked(b) == "word " * (LONGEST // 2)
