"""Labels that a model can be trained on, but that are seldom what was meant: told once, in `fit`."""

from __future__ import annotations

import re

import numpy as np

from kinfolk.core.settings import SCHEMES
from kinfolk.errors import DataWarning, warn
from kinfolk.text.corpus import Corpus
from kinfolk.text.schemes import TAG

_LETTER_FIRST = re.compile(r"(?P<letter>[BIESLUbieslu])[-_](?P<type>.+)")
_LETTER_LAST = re.compile(r"(?P<type>.+)[-_](?P<letter>[BIESLU])")


def warn_of_labels(corpus: Corpus) -> None:
    """Of training data all of one label, and of labels that look like spans and are of no scheme."""
    if corpus.labels is None or corpus.labels.type != "str":
        return
    codes = corpus.labels.codes
    names = [corpus.labels.values[code] for code in np.unique(codes[codes >= 0])]
    if len(names) == 1:
        whom = "all tokens have" if (codes >= 0).all() else "all tokens that have a label have"
        warn(
            f"{whom} the label {names[0]!r}: is it the right column? `label=...` names another. Of one label a model "
            "learns nothing, and says it of every token",
            DataWarning,
        )
    elif corpus.scheme is None and (looks := look_like_spans(names)):
        shown = ", ".join(f"{name!r} as {tag!r}" for name, tag in list(looks.items())[:3])
        warn(
            f"labels look like spans but are none of {', '.join(SCHEMES)}, so they are taken as they are, no entities "
            f"are found, and `score` is the accuracy of tokens. Rename them: {shown}",
            DataWarning,
        )


def look_like_spans(names: list[str]) -> dict[str, str]:
    """Label -> what it would be as a tag, where all labels but one at most have a letter and a type; none where this
    may be chance: no type has B and another letter, nor is it B beside o. Tags were meant as they are."""
    if all(map(TAG.fullmatch, names)):
        return {}
    for form in (_LETTER_FIRST, _LETTER_LAST):
        found = {name: match for name in names if (match := form.fullmatch(name))}
        others = [name for name in names if name not in found]
        letters: dict[str, set[str]] = {}
        for match in found.values():
            letters.setdefault(match["type"], set()).add(match["letter"].upper())
        opened = [those for those in letters.values() if "B" in those]
        paired = any(len(those) > 1 for those in opened)
        if len(others) <= 1 and opened and (paired or others in (["o"], ["O"])):
            tags = {name: f"{match['letter'].upper()}-{match['type']}" for name, match in found.items()}
            return tags | dict.fromkeys(others, "O")
    return {}
