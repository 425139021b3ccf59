"""conlleval on strings, tag by tag: the slow twin of `kinfolk.text.schemes` and `kinfolk.text.scores`.

The two tables of letter pairs are those of the evaluation script of the CoNLL shared tasks, with S for an
entity of one token as its later versions have it; L and U are other names of E and S.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

ENDS = {"BB", "BS", "BO", "IB", "IS", "IO"} | {first + second for first in "ES" for second in "BIESO"}
STARTS = {"EE", "EI", "SE", "SI", "OE", "OI"} | {first + second for first in "BIESO" for second in "BS"}

Sentences = Sequence[Sequence[str | None]]


class Counts(NamedTuple):
    gold: Counter[str]
    predicted: Counter[str]
    correct: Counter[str]


def split(tag: str | None) -> tuple[str, str]:
    """Letter and type; an unknown tag is outside."""
    letter, _, kind = (tag or "O").partition("-")
    return {"L": "E", "U": "S"}.get(letter, letter), kind


def ends(before: tuple[str, str], now: tuple[str, str]) -> bool:
    """Whether a chunk ends between two tags."""
    return before[0] + now[0] in ENDS or (before[0] != "O" and before[1] != now[1])


def starts(before: tuple[str, str], now: tuple[str, str]) -> bool:
    """Whether a chunk starts between two tags."""
    return before[0] + now[0] in STARTS or (now[0] != "O" and before[1] != now[1])


def chunks(sentences: Sentences) -> list[tuple[int, int, str]]:
    """(start, end, type) of every chunk, offsets over all sentences."""
    found, offset, start = [], 0, 0
    for sentence in sentences:
        before = ("O", "")
        for i, now in enumerate([*map(split, sentence), ("O", "")]):
            if ends(before, now):
                found.append((start, offset + i, before[1]))
            if starts(before, now):
                start = offset + i
            before = now
        offset += len(sentence)
    return found


def count(gold: Sentences, predicted: Sentences) -> Counts:
    """The script's own loop over two columns of tags, one chunk at a time."""
    counts = Counts(Counter(), Counter(), Counter())
    for true_tags, guessed_tags in zip(gold, predicted, strict=True):
        last_true = last_guess = ("O", "")
        agreeing = False  # inside a chunk that both columns started together
        pairs = zip([*true_tags, "O"], [*guessed_tags, "O"], strict=True)
        for true, guess in ((split(a), split(b)) for a, b in pairs):
            if agreeing:
                over, over_guess = ends(last_true, true), ends(last_guess, guess)
                if over and over_guess and last_true[1] == last_guess[1]:
                    agreeing = False
                    counts.correct[last_true[1]] += 1
                elif over != over_guess or true[1] != guess[1]:
                    agreeing = False
            if starts(last_true, true) and starts(last_guess, guess) and true[1] == guess[1]:
                agreeing = True
            counts.gold[true[1]] += starts(last_true, true)
            counts.predicted[guess[1]] += starts(last_guess, guess)
            last_true, last_guess = true, guess
    return counts
