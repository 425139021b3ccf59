"""Words of a text with what stands around them, as reports quote them."""

from __future__ import annotations

import numpy as np

from kinfolk.text.corpus import Corpus


def quoted(corpus: Corpus, start: int, end: int, around: int) -> tuple[str, str, str]:
    """Words before, of and behind tokens start, ..., end - 1: at most `around` on a side, as far as their sentence
    goes; "…" where it goes on."""
    sentences = np.searchsorted(corpus.sentence_starts, [start, end - 1], side="right") - 1
    first, last = int(corpus.sentence_starts[sentences[0]]), int(corpus.sentence_starts[sentences[1] + 1])
    low, high = max(first, start - around), min(last, end + around)
    word = corpus.columns["word"]

    def words(a: int, b: int) -> list[str]:
        return [str(word.values[code]) for code in word.codes[a:b]]

    before, after = ["…"] * (low > first) + words(low, start), words(end, high) + ["…"] * (high < last)
    return " ".join(before), " ".join(words(start, end)), " ".join(after)
