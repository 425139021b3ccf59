"""Default feature sets for named entities: within the sentence, and with the document.

Every template stands for itself: those that read a column the corpus lacks may be left out.
"""

from __future__ import annotations

from kinfolk.text.attributes import lower, pos, prefix, shape, short_shape, suffix, word
from kinfolk.text.document import document_start
from kinfolk.text.extraction import Templates
from kinfolk.text.templates import bag, elsewhere

SENTENCE: Templates = [
    # the word and its neighbours
    word[0],
    lower.window(-2, 2),
    lower[-1] & lower[0],
    lower[0] & lower[1],
    # how they are written
    shape.window(-1, 1),
    short_shape.window(-1, 1),
    short_shape[-1] & short_shape[0],
    short_shape[0] & short_shape[1],
    short_shape[-1] & short_shape[0] & short_shape[1],
    # how they begin and end
    [prefix(n)[0] for n in (1, 2, 3, 4, 5)],
    [suffix(n)[0] for n in (1, 2, 3, 4, 5)],
    prefix(4)[-1],
    prefix(4)[1],
    suffix(3)[-1],
    suffix(3)[1],
    # parts of speech
    pos.window(-2, 2),
    pos[-1] & pos[0],
    pos[0] & pos[1],
    # what the sentence is about
    bag(lower, -4, 4),
]

DOCUMENT: Templates = [
    SENTENCE,
    # what stands beside the other occurrences of this capitalised word in the document
    elsewhere(lower[-1]),
    elsewhere(lower[1]),
    elsewhere(pos[-1]),
    elsewhere(pos[0]),
    elsewhere(pos[1]),
    # the topic: reports of one sport open with the same word
    document_start & short_shape,
]
