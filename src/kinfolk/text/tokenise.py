"""Text into sentences and tokens, as where they begin and end.

Every function gives rows (start, end), end exclusive, in the order of the text: text[start:end] is the piece, so
what is found in tokens leads back to characters. Four ways to cut tokens:

    blanks  what stands between blanks
    words   as blanks, but quotes, brackets and .,;:!?% at the ends of a word are tokens of their own; a full stop
            stays with U.S., e.g. and J., a row of stops (...) and a word of nothing but marks stay whole, and
            nothing inside a word is touched; German quotes open with „ ‚ » and close with “ ‘ «
    penn    as words, but what English writes to a word, and the sign of a sum, are tokens of their own, as in the
            Penn Treebank and in CoNLL's files: Kim 's, do n't, we 'll, US$ 5
    fine    words, numbers and every mark by itself, so that names inside compounds can be labelled: IL - 2 - induced,
            NF - kappa B / Rel, john . smith @ enron . com; 3.5 and 10,000 stay whole, as do rows of -=_*.~#<>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError

Ints = NDArray[np.int64]

_OPENING = "\"'`([{<«“‘„‚¿¡"
_CLOSING = "\"'`)]}>»”’,;:!?…%"
# Opening marks one by one, the core, closing marks one by one. A final full stop goes with the closing
# marks unless another stands inside the word (U.S., e.g.) or the word is one capital letter (J.).
_WORD = re.compile(
    rf"(?P<open>[{re.escape(_OPENING)}]*)"
    rf"(?P<core>(?:\w(?:\.\w)+\.|[A-Z]\.|.*?[^.{re.escape(_CLOSING)}]))"
    rf"(?P<close>[.{re.escape(_CLOSING)}]*)"
)
_CLOSING_TOO, _OPENING_TOO = "“‘«", "»"  # at the end, at the start of a word: German („Erde“, ‚Erde‘, »Erde«)
LAYERS = 8  # of marks outside such quotes and inside of them
_CLOSE = re.compile(r"\.+|.")
_CLITIC = re.compile(r"(?P<word>.*?)(?P<clitic>['’](?:s|re|ve|ll|d|m)|n['’]t)", re.IGNORECASE)
_SUM = re.compile(r"(?P<sign>[A-Za-z]*[$£€¥])(?P<sum>\d.*)")
_BLANKS = re.compile(r"\S+")
# A number with what is written to it (10.5kDa), a word with its accents even where they are characters of their
# own, a row of one mark, any other mark. A bracket is never in a row: one of two may belong to a name.
_FINE = re.compile(
    r"\d+(?:\.\d+|,\d{3}(?!\d))*[^\W_]*"
    r"|[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*"
    r"|(?P<row>[-=_*.~#<>])(?P=row)*"
    r"|[^\w\s]"
)

_LINE = re.compile(r"[^\r\n]+")
# The end of a sentence, if what goes before and comes after agrees; or a blank line.
_END = re.compile(
    r"(?P<stop>[.!?]+)[\"'”’“‘«)\]}]*\s+(?=[\"'“‘„‚»(\[{]*(?P<next>\w+))"
    r"|(?P<blank>(?:\r\n|\r(?!\n)|\n)[^\S\r\n]*(?:\r\n?|\n))\s*"  # \r\n is one line end, never two
)
_SHORT = frozenset(
    "al approx assoc bros ca capt cf col corp dept dr drs e.g ed eds eq eqs est etc fig figs gen gov hon i.e inc jr lt "
    "ltd maj messrs mr mrs ms mt op pp prof ref refs rep resp rev sec sen sgt sp spp sr st subsp tab var viz vol "
    "vs".split()
)
# Words that seldom follow an initial, so that NF-kappa B. The ... ends a sentence and J. Smith does not.
_STARTERS = frozenset(
    "A After Although An As At Both But By For From Furthermore He Here However If In It Its Moreover No Our She "
    "Since Such Surprisingly That The Their Then There Therefore These They This Those Thus To Two Using We When "
    "Whereas While With".split()
)


def token_spans(text: str, way: str = "fine") -> Ints:
    """(n, 2), where the tokens begin and end; `way` is "blanks", "words", "penn" or "fine", see above."""
    if way not in WAYS:
        raise SettingError.saying(f"the way to tokenise must be one of {', '.join(WAYS)}; got {way!r}")
    return WAYS[way](text)


def pieces(text: str, spans: Ints) -> list[str]:
    """What the spans hold."""
    return [text[start:end] for start, end in zip(*spans.T.tolist(), strict=True)]


def sentence_spans(text: str) -> Ints:
    """(n, 2), where the sentences of running prose begin and end, without blanks around them.

    A sentence ends at . ! ? before a blank and a capital letter or a digit, and at a blank line; not after common
    abbreviations, nor after an initial (J.) or dotted letters (U.S.) unless a word like The or We follows.
    """
    return _rows(sentence_list(text))


def sentence_list(text: str) -> list[tuple[int, int]]:
    """The same as a list."""
    cuts = [match.end() for match in _END.finditer(text) if match["blank"] or _ends_sentence(text, match)]
    return _trimmed(text, zip([0, *cuts], [*cuts, len(text)], strict=True))


def line_spans(text: str) -> Ints:
    """(n, 2), where the lines that are not blank begin and end, without blanks around them.

    The unit for e-mail: headers, signatures, lists and quoted replies have a line to themselves and no full
    stop, so a sentence splitter would run them together. Prose loses what stands across a line end, which costs
    little where names seldom do.
    """
    return _rows(_trimmed(text, (match.span() for match in _LINE.finditer(text))))


def _words(text: str, parts: Callable[[str], list[str]]) -> Ints:
    """Each distinct word is cut once; the pieces of a word follow each other without a gap."""
    found = text.split()
    outer = _matches(_BLANKS, text)
    lengths_of = {word: tuple(map(len, parts(word))) for word in set(found)}
    cut = list(map(lengths_of.__getitem__, found))
    lengths = np.fromiter(chain.from_iterable(cut), np.int64)
    blanks_before = outer[:, 1] - np.cumsum(outer[:, 1] - outer[:, 0])
    counts = np.fromiter(map(len, cut), np.int64, len(cut))
    ends = np.cumsum(lengths) + np.repeat(blanks_before, counts)
    return np.column_stack([ends - lengths, ends])


def _matches(pattern: re.Pattern[str], text: str) -> Ints:
    flat = chain.from_iterable(match.span() for match in pattern.finditer(text))
    return np.fromiter(flat, np.int64).reshape(-1, 2)


WAYS: dict[str, Callable[[str], Ints]] = {
    "blanks": partial(_matches, _BLANKS),
    "words": lambda text: _words(text, word_parts),
    "penn": lambda text: _words(text, penn_parts),
    "fine": partial(_matches, _FINE),
}


def word_parts(word: str) -> list[str]:
    """The word with the marks at its ends apart."""
    before: list[str] = []
    after: list[str] = []
    for _ in range(LAYERS):
        match = _WORD.fullmatch(word)
        if match is None:  # marks only
            break
        word = match["core"]
        before, after = [*before, *match["open"]], [*_CLOSE.findall(match["close"]), *after]
        inner = word.lstrip(_OPENING_TOO).rstrip(_CLOSING_TOO)
        if inner == word or not any(map(str.isalnum, inner)):
            break
        first = word.index(inner)
        before, after, word = [*before, *word[:first]], [*word[first + len(inner) :], *after], inner
    return [*before, word, *after]


def penn_parts(word: str) -> list[str]:
    """The same with what is written to the word apart. Clitics that stand alone are cut already."""
    if (alone := _CLITIC.fullmatch(word)) is not None and not alone["word"]:
        return [word]
    found = []
    for part in word_parts(word):
        clitic, money = _CLITIC.fullmatch(part), _SUM.fullmatch(part)
        found += [*(clitic or money).groups()] if clitic or money else [part]  # type: ignore[union-attr]
    return [part for part in found if part]


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Whether a stop with a blank and a word behind it is the end of a sentence."""
    first = match["next"][0]
    if not (first.isupper() or first.isdigit()):
        return False
    if match["stop"] != ".":
        return True
    before = text[max(match.start() - 40, 0) : match.start()].split()  # 40: no abbreviation is longer
    last = before[-1].lstrip(_OPENING) if before and not text[match.start() - 1].isspace() else ""
    if last.lower() in _SHORT or (last.lower() in ("no", "nos") and first.isdigit()):
        return False
    initial = (len(last) == 1 and last.isupper()) or re.fullmatch(r"\w(?:\.\w)+", last) is not None
    return not initial or match["next"] in _STARTERS


def _rows(spans: list[tuple[int, int]]) -> Ints:
    return np.array(spans, np.int64).reshape(-1, 2)


def _trimmed(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans without blanks at their ends; those of nothing else are dropped."""
    kept = []
    for start, end in spans:
        piece = text[start:end].strip()
        if piece:
            start = text.index(piece[0], start)  # the first character that is no blank
            kept.append((start, start + len(piece)))
    return kept


# -- Cut as the words of a training set were ------------------------------------------------------------
#
# A text has no tokens, a trained model knows some. What it was trained on says how to cut: a token 's means that
# English is cut as in the Penn Treebank; a hyphen by itself, and never one within a word, that everything is cut. A
# full stop stays with a word that training has it with (Mr., Corp.), unless it ends the sentence and training has the
# word without it too.

MOST_WORDS = 1 << 16  # words whose parts are remembered
_FINE_MARKS = frozenset("-/@_")


def way_of(words: Iterable[str]) -> str:
    """The way in which these distinct words were cut."""
    known = {*words}
    if known & {"'s", "n't", "’s", "n’t"}:
        return "penn"
    if known & _FINE_MARKS and all(_FINE.fullmatch(word) for word in known):
        return "fine"
    return "words"


class Cutter:
    """Cuts sentences in one way, `known` words with their full stop; remembers words it has met."""

    def __init__(self, way: str, known: Callable[[str], bool] = lambda word: False) -> None:
        self.way, self.known = way, known
        self._lengths: dict[tuple[str, bool], tuple[int, ...]] = {}

    def spans(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Where the tokens of the sentence text[start:end] begin and end in the text."""
        if self.way in ("blanks", "fine"):
            pattern = _BLANKS if self.way == "blanks" else _FINE
            return [match.span() for match in pattern.finditer(text, start, end)]
        found, remembered = [], self._lengths
        for match in _BLANKS.finditer(text, start, end):
            at, stop = match.span()
            word = match.group(), stop == end
            lengths = remembered.get(word)
            if lengths is None:
                lengths = self._remember(word)
            for length in lengths:
                found.append((at, at + length))
                at += length
        return found

    def _remember(self, word: tuple[str, bool]) -> tuple[int, ...]:
        if len(self._lengths) >= MOST_WORDS:
            self._lengths = {}
        lengths = self._lengths[word] = tuple(map(len, self._parts(*word)))
        return lengths

    def _parts(self, word: str, last: bool) -> list[str]:
        parts = (penn_parts if self.way == "penn" else word_parts)(word)
        for i in range(len(parts) - 1):
            if parts[i + 1] == "." and self.known(parts[i] + ".") and not (last and self.known(parts[i])):
                return [*parts[:i], parts[i] + ".", *parts[i + 2 :]]
        return parts
