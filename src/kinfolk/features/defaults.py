"""Default feature sets for named entities: within the sentence, and with the document."""

from __future__ import annotations

from collections.abc import Sequence

from kinfolk.features.attributes import chunk, lower, pos, prefix, shape, short_shape, suffix, word
from kinfolk.features.templates import Template, bag, elsewhere
from kinfolk.features.tokens import Templates, flatten

SENTENCE: Templates = [
    word.window(-2, 2),
    lower.window(-1, 1),
    shape.window(-2, 2),
    short_shape.window(-1, 1),
    [prefix(n)[0] for n in (1, 2, 3, 4, 5)],
    [suffix(n)[0] for n in (1, 2, 3, 4, 5)],
    [prefix(n)[o] for n in (3, 4) for o in (-1, 1)],
    [suffix(n)[o] for n in (3, 4) for o in (-1, 1)],
    word[-1] & word[0],
    word[0] & word[1],
    shape[-1] & shape[0],
    shape[0] & shape[1],
    shape[-1] & shape[0] & shape[1],
    pos.window(-2, 2),
    pos[-1] & pos[0],
    pos[0] & pos[1],
    chunk.window(-1, 1),
    bag(lower, -4, 4),
]

DOCUMENT: Templates = [
    SENTENCE,
    elsewhere(lower[-1]),
    elsewhere(lower[1]),
]
