"""What differs between two texts: the words that only one has, and within a word that changed its characters.

What is not marked is the same on both sides, in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Pieces = list[tuple[str, bool]]  # parts of a text one after the other, and whether each differs
WORD = re.compile(r"\s+|\w+|[^\w\s]")
LONGEST = 400  # words; matching takes their square
ALIKE = 0.5  # words of one place that share so much are one word, changed


def differences(left: str, right: str) -> tuple[Pieces, Pieces]:
    """The pieces of both; texts of more than LONGEST words differ as a whole beyond those."""
    both = [WORD.findall(text) for text in (left, right)]
    marked: tuple[Pieces, Pieces] = ([], [])
    for same, *parts in _runs(*(words[:LONGEST] for words in both)):
        texts = ["".join(part) for part in parts]
        inner = [[(text, not same)] for text in texts]
        if not same and all(texts) and SequenceMatcher(None, texts[0], texts[1], autojunk=False).ratio() >= ALIKE:
            inner = [[], []]
            for alike, *letters in _runs(*texts):
                for side in (0, 1):
                    inner[side].append(("".join(letters[side]), not alike))
        for side in (0, 1):
            marked[side].extend(inner[side])
    for side in (0, 1):
        marked[side].append(("".join(both[side][LONGEST:]), True))
    return _joined(marked[0]), _joined(marked[1])


def _runs(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[bool, Sequence[str], Sequence[str]]]:
    for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        yield tag == "equal", a[i:j], b[k:m]


def _joined(pieces: Pieces) -> Pieces:
    """Neighbours of one kind as one piece."""
    joined: Pieces = []
    for text, differs in pieces:
        if text and joined and joined[-1][1] == differs:
            joined[-1] = joined[-1][0] + text, differs
        elif text:
            joined.append((text, differs))
    return joined
