"""Text into tokens and sentences, and back to the characters they stand on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import SettingError
from kinfolk.text.tokenise import WAYS, Cutter, Ints, line_spans, pieces, sentence_spans, token_spans

# Plain text alone would seldom have marks, digits and blanks side by side.
TEXT = st.text() | st.text(st.sampled_from("aB3 .,-_'„“»«‚‘()\"%!?\n\r\t\u0301é\u00a0"), max_size=30)
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


def cut(text: str, way: str = "fine") -> str:
    return " ".join(pieces(text, token_spans(text, way)))


def sentences(text: str) -> list[str]:
    return pieces(text, sentence_spans(text))


def assert_in_order(text: str, spans: Ints) -> None:
    """Spans are not empty, rise, do not overlap, and have nothing but blanks around them."""
    assert spans.dtype == np.int64 and spans.shape == (len(spans), 2)
    edges = [0, *spans.reshape(-1).tolist(), len(text)]
    assert edges == sorted(edges)
    assert all(pieces(text, spans))
    between = np.array(edges, np.int64).reshape(-1, 2)
    assert not any(gap.strip() for gap in pieces(text, between))


@EVERY_WAY
@given(TEXT)
def test_tokens_are_the_text_without_its_blanks(way: str, text: str):
    spans = token_spans(text, way)
    assert_in_order(text, spans)
    assert not any(set(token) & set(" \t\r\n\u00a0") for token in pieces(text, spans))
    assert "".join(pieces(text, spans)) == "".join(text.split())


@given(TEXT)
def test_words_between_blanks_are_those_of_split(text: str):
    assert pieces(text, token_spans(text, "blanks")) == text.split()


@pytest.mark.parametrize("spans", [sentence_spans, line_spans])
@given(TEXT)
def test_sentences_and_lines_leave_out_blanks_alone(spans, text: str):
    found = spans(text)
    assert_in_order(text, found)
    assert all(piece == piece.strip() for piece in pieces(text, found))


@given(TEXT)
def test_lines_are_those_between_line_ends(text: str):
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    assert pieces(text, line_spans(text)) == [line for line in lines if line]


@EVERY_WAY
@pytest.mark.parametrize("text", ["", " ", "\r\n\t\u00a0"])
def test_nothing_has_no_tokens(way: str, text: str):
    assert token_spans(text, way).shape == (0, 2)
    assert sentence_spans(text).shape == line_spans(text).shape == (0, 2)


FINE = {
    "IL-2-induced": "IL - 2 - induced",
    "NF-kappa B/Rel (p50)": "NF - kappa B / Rel ( p50 )",
    "IL-1beta, 3.5 nM; 10,000 U/ml": "IL - 1beta , 3.5 nM ; 10,000 U / ml",
    "1,25-dihydroxyvitamin D3": "1 , 25 - dihydroxyvitamin D3",
    "a 10.5kDa band": "a 10.5kDa band",
    "Ca2+ ((CD4+))": "Ca2 + ( ( CD4 + ) )",
    "john_smith@enron.com": "john _ smith @ enron . com",
    "-----Original Message-----": "----- Original Message -----",
    ">> Tel: 713.853.1234 ...": ">> Tel : 713.853.1234 ...",
    "e\u0301te\u0301's": "e\u0301te\u0301 ' s",
    "TGF-β1→Smad": "TGF - β1 → Smad",
}


@pytest.mark.parametrize(("text", "tokens"), FINE.items())
def test_fine_tokens(text: str, tokens: str):
    assert cut(text) == tokens


def test_words_keep_what_stands_inside_them():
    assert cut('"I\'m in the U.S., (really)..." IL-2-induced.', "words") == (
        '" I\'m in the U.S. , ( really ) ... " IL-2-induced .'
    )


GERMAN = {
    "„Erde“": "„ Erde “",
    "die „Grüne Erde“, sagt": "die „ Grüne Erde “ , sagt",
    "»Grüne Erde«.": "» Grüne Erde « .",
    "(‚Erde‘)": "( ‚ Erde ‘ )",
    "„Komm.“ „Wohin?“ „J.“": "„ Komm . “ „ Wohin ? “ „ J. “",
    "„Der ‚Erde‘-Laden“!": "„ Der ‚ Erde‘-Laden “ !",
}


@pytest.mark.parametrize("way", ["words", "penn"])
@pytest.mark.parametrize(("text", "tokens"), GERMAN.items())
def test_german_quotes(way: str, text: str, tokens: str):
    assert cut(text, way) == tokens
    spans = Cutter(way).spans(text, 0, len(text))
    assert " ".join(text[a:b] for a, b in spans) == tokens


def test_marks_by_themselves_and_quotes_of_others_stay_as_they_were():
    for text in ("“ ‘ « »", "“. », «»", "“Yes”", "‘Yes’", "«oui»", "rock ’n’ roll", "12,99€"):
        expected = {"“Yes”": "“ Yes ”", "‘Yes’": "‘ Yes ’", "«oui»": "« oui »", "“. », «»": "“ . », « »"}
        expected["rock ’n’ roll"] = "rock ’n ’ roll"
        assert cut(text, "words") == expected.get(text, text)


def test_a_word_of_very_many_quotes_is_cut():
    text = "a" + "“." * 20_000
    assert "".join(pieces(text, token_spans(text, "words"))) == text


def test_a_sentence_ends_at_a_german_quote():
    assert sentences("Er rief: „Komm.“ Dann ging er. „Wohin?“ »Heim.« Sie kam.") == [
        "Er rief: „Komm.“", "Dann ging er.", "„Wohin?“", "»Heim.«", "Sie kam."
    ]  # fmt: skip


def test_an_unknown_way_is_named():
    with pytest.raises(SettingError, match="must be one of blanks, words, penn, fine; got 'coarse'"):
        token_spans("a", "coarse")


SENTENCES = {
    "two": ["We cloned it.", "It was new."],
    "questions and shouts": ["Is it so?", "Yes!", "(No.)", '"Why?"', "3 cells died."],
    "abbreviations": ["Dr. Kim et al. (cf. Fig. 2) vs. Lee left, e.g. In Rome on No. 5."],
    "initials": ["Ask J. Smith of the U.S. Army.", "He knows."],
    "a name that ends in a letter": ["It binds NF-kappa B.", "The p50 subunit does not."],
    "lower case goes on": ["It rose by 3 mo. with age and 2.5 fold."],
}


@pytest.mark.parametrize("expected", SENTENCES.values(), ids=SENTENCES.keys())
def test_sentences_of_prose(expected: list[str]):
    assert sentences(" ".join(expected)) == expected
    assert sentences("\n".join(expected)) == expected


@pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n", "\n \t\n\n", "\r\r"])
def test_a_blank_line_ends_a_sentence(gap: str):
    assert sentences(f" title without a stop{gap}and the text\n") == ["title without a stop", "and the text"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", " \r\n "])
def test_one_line_end_of_any_make_ends_no_sentence(end: str):
    text = f"Anna kauft Grüne{end}Erde"
    assert sentences(text) == [text]
    assert pieces(text, token_spans(text, "words")) == ["Anna", "kauft", "Grüne", "Erde"]


def test_lines_of_a_mail():
    text = "From: Kim\r\n\r\n  Hi Lee,\r\nsee you\rthere\n-- \n"
    assert pieces(text, line_spans(text)) == ["From: Kim", "Hi Lee,", "see you", "there", "--"]
