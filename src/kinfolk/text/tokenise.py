"""Text into sentences and tokens, as where they begin and end.

Every function gives rows (start, end), end exclusive, in the order of the text: text[start:end] is the piece, so
what is found in tokens leads back to characters. Three ways to cut tokens:

    blanks  what stands between blanks
    words   as blanks, but quotes, brackets and .,;:!?% at the ends of a word are tokens of their own; a full stop
            stays with U.S., e.g. and J., a row of stops (...) and a word of nothing but marks stay whole, and
            nothing inside a word is touched
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
_CLOSE = re.compile(r"\.+|.")
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
    r"(?P<stop>[.!?]+)[\"'”’)\]}]*\s+(?=[\"'“‘(\[{]*(?P<next>\w+))"
    r"|(?P<blank>(?:\r\n?|\n)[^\S\r\n]*(?:\r\n?|\n))\s*"
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
    """(n, 2), where the tokens begin and end; `way` is "blanks", "words" or "fine", see above."""
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
    cuts = [match.end() for match in _END.finditer(text) if match["blank"] or _ends_sentence(text, match)]
    return _trimmed(text, zip([0, *cuts], [*cuts, len(text)], strict=True))


def line_spans(text: str) -> Ints:
    """(n, 2), where the lines that are not blank begin and end, without blanks around them.

    The unit for e-mail: headers, signatures, lists and quoted replies have a line to themselves and no full
    stop, so a sentence splitter would run them together. Prose loses what stands across a line end, which costs
    little where names seldom do.
    """
    return _trimmed(text, (match.span() for match in _LINE.finditer(text)))


def _words(text: str) -> Ints:
    """Each distinct word is cut once; the pieces of a word follow each other without a gap."""
    found = text.split()
    outer = _matches(_BLANKS, text)
    lengths_of = {word: tuple(map(len, _parts(word))) for word in set(found)}
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
    "words": _words,
    "fine": partial(_matches, _FINE),
}


def _parts(word: str) -> list[str]:
    """The word with the marks at its ends apart."""
    match = _WORD.fullmatch(word)
    if match is None:  # marks only
        return [word]
    return [*match["open"], match["core"], *_CLOSE.findall(match["close"])]


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


def _trimmed(text: str, spans: Iterable[tuple[int, int]]) -> Ints:
    """The spans without blanks at their ends; those of nothing else are dropped."""
    kept = []
    for start, end in spans:
        piece = text[start:end].strip()
        if piece:
            start = text.index(piece[0], start)  # the first character that is no blank
            kept.append((start, start + len(piece)))
    return np.array(kept, np.int64).reshape(-1, 2)
