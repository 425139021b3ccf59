"""Answers about pairs of records in a CSV file that grows by a line an answer, on disk before the next question.

    left,right,match,probability,together
    a7,a12,yes,0.6312,0

`match` is yes, no or unsure; `probability` and `together` are what the model thought before it knew. `fit(pairs=...)`
and `records train --pairs` read the file as it stands: a pair has one line, for an answer that is changed takes the
place of the former one (a new file under the old name, all or nothing), and one that is taken back is cut off the end.
A line that was only half written when its program was killed is whole from `match` on, or it is no answer yet.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kinfolk.core.files import BYTE_ORDER_MARK, replace_file
from kinfolk.core.table import cells_of
from kinfolk.errors import InputError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pair_labels import label_of

log = logging.getLogger("kinfolk")
HEADER = ("left", "right", "match", "probability", "together")
NEEDED = HEADER[:3]
MATCH: Mapping[bool | None, str] = {True: "yes", False: "no", None: "unsure"}
_FIELD = rb'(?:"(?:[^"]|"")*"[^,\n]*|[^",\n][^,\n]*|)'
_LINE = re.compile(_FIELD + b"(?:," + _FIELD + b")*\n")  # quoted cells may hold line breaks


class Answer(NamedTuple):
    """Whether items left < right match, None = unsure; and the model's probability and clusters when it was asked,
    None = not known."""

    left: int
    right: int
    match: bool | None
    probability: float | None = None
    together: bool | None = None

    @property
    def pair(self) -> tuple[int, int]:
        return self.left, self.right


class AnswerFile:
    """The answers in a file, in the order of its lines."""

    def __init__(self, path: str | os.PathLike[str], items: Mentions) -> None:
        self.path, self.answers = Path(path), list[Answer]()
        self._ids = [items.name(i) for i in range(items.n_items)]
        self._first_table = items.first_table
        self._starts: list[int] = []  # where the line of each answer begins
        self._header: Sequence[str] = HEADER
        if self.path.exists() and not self.path.is_file():
            raise InputError("expected a file, got a directory, device or pipe; name another file", str(path))
        try:
            data = self.path.read_bytes() if self.path.exists() else b""
            if HEAD_LINE.startswith(data):  # nothing yet, or killed before the first line was whole
                replace_file(self.path, HEAD_LINE)
            else:
                self._read(data)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}; name another file", str(path)) from error

    def close(self) -> None:
        os.close(self._file)

    def add(self, answer: Answer) -> None:
        """Append an answer; it is on disk when this returns. Former answers about the pair go."""
        if any(one.pair == answer.pair for one in self.answers):
            self._rewrite([one for one in self.answers if one.pair != answer.pair])
        line, end = self._line(answer), os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError("the disk is full")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, end)
            reason = f"the answer cannot be written: {error.strerror or error}; make room and answer again"
            raise InputError(reason, str(self.path)) from error
        self.answers.append(answer)
        self._starts.append(end)

    def take_back(self) -> Answer:
        """Cut off the last answer."""
        os.ftruncate(self._file, self._starts.pop())
        os.fsync(self._file)
        return self.answers.pop()

    def _rewrite(self, answers: Sequence[Answer]) -> None:
        lines = [_csv_line(self._header), *map(self._line, answers)]
        replace_file(self.path, b"".join(lines), self.path.stat().st_mode)
        if hasattr(self, "_file"):
            os.close(self._file)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        ends = [sum(map(len, lines[: k + 1])) for k in range(len(lines))]
        self.answers, self._starts = list(answers), ends[:-1]

    def _line(self, answer: Answer) -> bytes:
        left, right, match, probability, together = answer
        cells = {"left": self._ids[left], "right": self._ids[right], "match": MATCH[match]}
        cells["probability"] = "" if probability is None else f"{probability:.6g}"
        cells["together"] = "" if together is None else str(int(together))
        return _csv_line([cells.get(name, "") for name in self._header])

    # -- reading back ---------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        lines = list(_lines(data))
        head = _cells(lines[0][1].removeprefix(BYTE_ORDER_MARK), str(self.path))
        if not set(NEEDED) <= set(head):
            remedy = "name another file, or put such a line before the others"
            raise InputError(f"expected the columns left, right and match, got {head}; {remedy}", str(self.path), 1)
        self._header = head
        number = {one: i for i, one in enumerate(self._ids)}
        seen: dict[tuple[int, int], tuple[bool, int]] = {}
        at = 1 + lines[0][1].count(b"\n")
        for start, line, half in lines[1:]:
            row = dict(zip(head, _cells(line, str(self.path)), strict=False))
            if half and row.get("match") not in MATCH.values():
                self._drop(start, line, at)
                return
            if row:
                answer = self._answer(row, number, at)
                self._check_again(answer, seen, at)
                self.answers.append(answer._replace(probability=None, together=None) if half else answer)
                self._starts.append(start)
            if half:
                self._rewrite(self.answers)
            at += line.count(b"\n")

    def _drop(self, start: int, line: bytes, at: int) -> None:
        if line.count(b"\n") > sum(name.count("\n") for name in self._ids):
            raise InputError("a quotation mark is opened and never closed; close it", str(self.path), at)
        log.warning("%s, line %d: a half-written answer is left out; its pair is asked again", self.path, at)
        os.truncate(self.path, start)

    def _answer(self, row: Mapping[str, str], number: Mapping[str, int], at: int) -> Answer:
        missing = [name for name in NEEDED if name not in row]
        if missing:
            wrong = f"expected a cell in each of {', '.join(NEEDED)}, got none in {', '.join(missing)}"
            raise InputError(f"{wrong}; fill it in, or take the line out", str(self.path), at)
        found = []
        for side in ("left", "right"):
            item = number.get(row[side])
            if item is None:
                wrong = f"no record has the id {row[side]!r}; correct it or take the line out"
                raise InputError(f"{wrong}: are these answers about other records?", str(self.path), at)
            found.append(item)
        label = label_of(row["match"])
        if label not in (1, 0, -1):
            raise InputError(f"expected yes, no or unsure, got {row['match']!r}", str(self.path), at)
        low, high = min(found), max(found)
        if low == high or (self._first_table is not None and not low < self._first_table <= high):
            which = "two different records" if self._first_table is None else "a record of each table"
            raise InputError(f"expected {which}, got {row['left']!r} and {row['right']!r}", str(self.path), at)
        together = row.get("together", "")
        return Answer(
            low, high, {1: True, 0: False}.get(int(label)), _number(row), None if not together else together == "1"
        )

    def _check_again(self, answer: Answer, seen: dict[tuple[int, int], tuple[bool, int]], at: int) -> None:
        """A pair may be in several lines of a file that somebody put together, if they agree."""
        if answer.match is None:
            return
        before, line = seen.setdefault(answer.pair, (answer.match, at))
        if before != answer.match:
            pair = " and ".join(repr(self._ids[one]) for one in answer.pair)
            raise InputError(f"{pair} are a match and none: line {line} says otherwise; keep one", str(self.path), at)


def _number(row: Mapping[str, str]) -> float | None:
    try:
        value = float(row.get("probability", ""))
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def _lines(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Where each line begins, the line, and whether it lacks its end, as the last may."""
    at = 0
    while at < len(data):
        found = _LINE.match(data, at)
        end = len(data) if found is None else found.end()
        yield at, data[at:end], found is None
        at = end


def _cells(line: bytes, name: str) -> list[str]:
    return [cell.strip() for cell in cells_of(line.decode("utf-8", "replace").rstrip("\r\n"), ",", name)]


def _csv_line(cells: Sequence[str]) -> bytes:
    quoted = ('"' + cell.replace('"', '""') + '"' if re.search('[,"\r\n]', cell) else cell for cell in cells)
    return (",".join(quoted) + "\n").encode()


HEAD_LINE = _csv_line(HEADER)
