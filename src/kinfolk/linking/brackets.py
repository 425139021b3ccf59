"""Spans written as brackets in a column, as CoNLL-2012 writes coreference.

A cell holds the brackets of one token: "(7" opens a span labelled 7, "7)" closes one, "(7)" is a span of one token.
Several stand in a row, with "|" between them or without; "-", "_" and an empty cell hold none. A label is any text
without parentheses, "|" and blanks: a number, or "person-10-Charles_Bolden"; GUM writes parentheses of a label as %28
and %29, and they are left so. Spans may cross, so a closing bracket is matched by its label, to the latest open one of
that label. Brackets of a cell are taken from left to right. Without a bar "(a" before "b)" looks like "(ab)", a span of
one token, and is read as one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from kinfolk.errors import InputError, SettingError

NO_BRACKETS = frozenset(("", "-", "_"))
UNMATCHED = ("raise", "drop")
DUPLICATES = ("keep", "drop")

# An opening bracket, closed at once or not, or a closing one; with what may stand between brackets before it.
_BRACKET = re.compile(r"\|*(?:\((?P<opened>[^()|\s]+)(?P<at_once>\)?)|(?P<closed>[^()|\s]+)\))")


class LabelledSpan(NamedTuple):
    """Tokens start to end - 1, counted over the document from 0: the end is exclusive."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class BracketSpans:
    """The spans of a document in the order in which they were opened, and what was wrong with its brackets."""

    spans: tuple[LabelledSpan, ...]
    duplicates: tuple[LabelledSpan, ...]
    """Spans whose tokens an earlier span has too, with whatever label; they are among `spans` unless dropped."""
    n_unmatched: int
    """Brackets that were dropped since they had no counterpart."""


def parse_brackets(
    cells: Sequence[str],
    *,
    unmatched: str = "raise",
    duplicates: str = "keep",
    path: str | None = None,
    lines: Sequence[int] | None = None,
) -> BracketSpans:
    """The spans of one document, from the cells of its tokens.

    unmatched   "raise": a bracket without counterpart is an error; "drop": it is left out and counted
    duplicates  "keep" all spans; "drop" those that have the tokens of one opened earlier
    path        the file, and
    lines       the line of each token in it, for messages
    """
    if unmatched not in UNMATCHED or duplicates not in DUPLICATES:
        raise SettingError(
            f"unmatched must be one of {', '.join(UNMATCHED)} and duplicates one of {', '.join(DUPLICATES)}; "
            f"got {unmatched!r} and {duplicates!r}"
        )
    if lines is not None and len(lines) != len(cells):
        raise InputError(f"expected a line number a cell, {len(cells)}; got {len(lines)}", path)
    starts: list[tuple[int, str]] = []  # token and label of every opening bracket
    ends: dict[int, int] = {}  # which opening bracket ends where
    pending: defaultdict[str, list[int]] = defaultdict(list)  # opening brackets by label, the latest last
    unopened: list[tuple[int, str]] = []
    for token, cell in enumerate(cells):
        if cell in NO_BRACKETS:
            continue
        for opened, at_once, closed in _brackets(cell, path, _line(lines, token)):
            if opened:
                pending[opened].append(len(starts))
                starts.append((token, opened))
            if at_once or closed:
                label = opened or closed
                if pending[label]:
                    ends[pending[label].pop()] = token + 1
                else:
                    unopened.append((token, label))
    unclosed = [start for i, start in enumerate(starts) if i not in ends]
    if unmatched == "raise" and (unopened or unclosed):
        _raise_first(unopened, unclosed, path, lines)
    spans = [LabelledSpan(start, ends[i], label) for i, (start, label) in enumerate(starts) if i in ends]
    first, repeated = _told_apart(spans)
    return BracketSpans(tuple(spans if duplicates == "keep" else first), tuple(repeated), len(unopened) + len(unclosed))


def _brackets(cell: str, path: str | None, line: int | None) -> list[tuple[str, str, str]]:
    """Of each bracket: the label it opens, ")" if it closes at once, the label it closes; "" for what it is not."""
    found = list(_BRACKET.finditer(cell))
    if not found or sum(len(match[0]) for match in found) != len(cell.rstrip("|")):
        raise InputError(
            f"expected brackets such as (7, 7) or (7|(8), or one of - _ for none; got {cell!r}; "
            "correct the cell, or name another column",
            path,
            line,
        )
    return [(match["opened"] or "", match["at_once"] or "", match["closed"] or "") for match in found]


def _raise_first(
    unopened: list[tuple[int, str]], unclosed: list[tuple[int, str]], path: str | None, lines: Sequence[int] | None
) -> NoReturn:
    """Tell of the first bracket without counterpart."""
    token, label = min(unopened + unclosed)
    closing = (token, label) in unopened
    bracket, lack = (f"{label})", "is never opened before") if closing else (f"({label}", "is never closed")
    others = len(unopened) + len(unclosed) - 1
    more = f" (and {others} more)" if others else ""
    place = "" if lines is not None else f", token {token}"
    raise InputError(
        f'the bracket {bracket}{place} {lack} in its document{more}; correct it, or pass unmatched="drop"',
        path,
        _line(lines, token),
    )


def _line(lines: Sequence[int] | None, token: int) -> int | None:
    return None if lines is None else int(lines[token])


def _told_apart(spans: Sequence[LabelledSpan]) -> tuple[list[LabelledSpan], list[LabelledSpan]]:
    """Spans whose tokens no earlier one has, and the others."""
    seen: set[tuple[int, int]] = set()
    first: list[LabelledSpan] = []
    repeated: list[LabelledSpan] = []
    for span in spans:
        (repeated if span[:2] in seen else first).append(span)
        seen.add(span[:2])
    return first, repeated
