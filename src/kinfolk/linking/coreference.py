"""Pairs of mentions of a text: the features of Soon et al. (2001) and of Ng and Cardie (2002) that the data supports.

Numbers (distances, frequencies) are discretised; what a pair cannot have (a head match of pronouns) is a value of its
own. In every column i is the earlier mention (left) and j the later one (right).
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kinfolk.core.data import read_only
from kinfolk.core.kernels import njit
from kinfolk.linking.mention_table import AT, PRONOUN_CLASSES, MentionTable, mention_table
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Items, PairColumn, PairFeature

_SENTENCES, _MENTIONS, _BETWEEN, _TIMES = (
    (0, 1, 2, 3, 5, 10, 20, 50),
    (0, 1, 2, 4, 8, 16, 32, 64, 128),
    (0, 1, 2, 5),
    (1, 3, 9),
)
_AGREE = ("agree", "differ", "unknown")
_DETERMINERS = ("none", "definite", "demonstrative", "indefinite", "possessive", "quantified")
_FORMS = ("pronoun", "name", "noun")
_ROLES = ("none", "subject", "object", "other")


def _ranges(bounds: tuple[int, ...]) -> tuple[str, ...]:
    lows = (bounds[0], *(b + 1 for b in bounds))
    inner = [str(b) if a == b else f"{a}-{b}" for a, b in zip(lows[1:], bounds[1:], strict=False)]
    return (f"{bounds[0]}" if bounds[0] < 2 else f"up to {bounds[0]}", *inner, f"{bounds[-1] + 1} or more")


def _crossed(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{a}, {b}" for a, b in product(values, values))


COLUMNS = (
    PairColumn("sentences apart", _ranges(_SENTENCES)),
    PairColumn("mentions between", _ranges(_MENTIONS)),
    PairColumn("forms", _crossed(_FORMS)),
    PairColumn("pronouns", _crossed(PRONOUN_CLASSES)),
    PairColumn("same text", ("no", "pronouns", "names", "nouns", "other")),
    PairColumn("same head", ("no", "names", "nouns", "other", "pronoun")),
    PairColumn("words", ("pronoun", "none shared", "some shared", "i within j", "j within i", "equal")),
    PairColumn("ends", ("pronoun", "differ", "first word", "last word", "both")),
    PairColumn("number", _AGREE),
    PairColumn("gender", _AGREE),
    PairColumn("person or thing", _AGREE),
    PairColumn("entity type", _AGREE),
    PairColumn("determiner of i", _DETERMINERS),
    PairColumn("determiner of j", _DETERMINERS),
    PairColumn("alias", ("no", "yes")),
    PairColumn("apposition", ("no", "yes")),
    PairColumn("predicate", ("no", "yes")),
    PairColumn("quotation", ("neither", "the same", "two", "only i", "only j")),
    PairColumn("nested", ("no", "j in i", "i in j")),
    PairColumn("embedded", ("neither", "j", "i", "both")),
    PairColumn("roles", _crossed(_ROLES)),
    PairColumn("agreeing mentions between", (*_ranges(_BETWEEN), "j no pronoun")),
    PairColumn("same pronoun between", (*_ranges(_BETWEEN), "j no pronoun")),
    PairColumn("latest with this head", ("no", "yes", "pronoun")),
    PairColumn("mentions of i's text", _ranges(_TIMES)),
    PairColumn("mentions of j's text", _ranges(_TIMES)),
)
_JOINED = {
    "forms": "sentences apart/mentions between/words/gender/number/entity type/roles/quotation/determiner of j",
    "pronouns": "quotation/sentences apart/same pronoun between",
    "same text": "mentions of i's text/determiner of j",
    "same head": "determiner of j/words",
    "words": "gender",
    "agreeing mentions between": "gender",
}
CONJUNCTIONS = tuple((first, second) for first, others in _JOINED.items() for second in others.split("/"))


class CoreferencePairs(PairFeature):
    """The columns above, for mentions read with their text."""

    columns = COLUMNS

    def of(self, items: Mentions) -> Answer:
        table = mention_table(items)
        mentions = Mentioned(table.values, table.words, table.word_starts, _times(items, table))

        def answer(left: Items, right: Items) -> Any:
            codes = np.empty((len(left), len(COLUMNS)), np.uint8)
            _code(read_only(left), read_only(right), mentions, _BOUNDS, codes)
            return codes

        return answer

    def spec(self) -> dict[str, Any]:
        return {"coreference": 1}

    def __repr__(self) -> str:
        return "CoreferencePairs()"


class Bounds(NamedTuple):
    """Upper ends of the bins of each kind of number."""

    sentences: Any
    mentions: Any
    between: Any
    times: Any


class Mentioned(NamedTuple):
    """values: the columns `AT`, a row a mention; words of each, sorted, from word_starts on; times: of its text."""

    values: Any
    words: Any
    word_starts: Any
    times: Any


_BOUNDS = Bounds(*(np.array(b, np.int32) for b in (_SENTENCES, _MENTIONS, _BETWEEN, _TIMES)))
_FORM, _PRONOUN, _NUMBER, _GENDER = AT["form"], AT["pronoun"], AT["number"], AT["gender"]
_PERSONAL, _DEFINITE, _TYPE, _SENTENCE = AT["personal"], AT["definite"], AT["type"], AT["sentence"]
_START, _END, _HEAD, _CORE, _FIRST, _LAST = AT["start"], AT["end"], AT["head"], AT["core"], AT["first"], AT["last"]
_ACRONYM, _INITIALS, _QUOTE, _ROLE = AT["acronym"], AT["initials"], AT["quote"], AT["role"]
_EMBEDDED, _COMMA, _COPULA = AT["embedded"], AT["appositive"], AT["copula"]


def _times(items: Mentions, table: MentionTable) -> Any:
    """How many mentions of its document have a mention's text."""
    keys = items.groups.astype(np.int64) << 32 | table.values[:, _CORE]
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[inverse].astype(np.int32)


@njit(nogil=True, cache=True)
def _bin(value, bounds):
    for b in range(len(bounds)):
        if value <= bounds[b]:
            return b
    return len(bounds)


@njit(nogil=True, cache=True)
def _agreement(a, b):
    if a == 0 or b == 0:
        return 2
    return 0 if a == b else 1


@njit(nogil=True, cache=True)
def _shared(words, starts, i, j):
    """pronoun 0, nothing shared 1, something 2, i's words among j's 3, j's among i's 4, the same words 5."""
    a, a_end, b, b_end = starts[i], starts[i + 1], starts[j], starts[j + 1]
    n_a, n_b, both = a_end - a, b_end - b, 0
    if n_a == 0 or n_b == 0:
        return 1
    while a < a_end and b < b_end:
        if words[a] == words[b]:
            both += 1
            a += 1
            b += 1
        elif words[a] < words[b]:
            a += 1
        else:
            b += 1
    if both == 0:
        return 1
    if both == n_a and both == n_b:
        return 5
    return 3 if both == n_a else 4 if both == n_b else 2


@njit(nogil=True, cache=True)
def _code(left, right, mentions, bounds, codes):
    """A run of pairs with one j is walked from j backwards, so that what stands between is counted once."""
    t = mentions.values
    stop = len(left)
    while stop > 0:
        j = right[stop - 1]
        start = stop
        while start > 0 and right[start - 1] == j:
            start -= 1
        agreeing = same = 0
        head_seen = False
        p = stop - 1
        for i in range(j - 1, left[start] - 1, -1):
            fits = (
                _agreement(t[i, _NUMBER], t[j, _NUMBER]) != 1
                and _agreement(t[i, _GENDER], t[j, _GENDER]) != 1
                and _agreement(t[i, _PERSONAL], t[j, _PERSONAL]) != 1
            )
            if left[p] == i:
                _code_pair(i, j, mentions, codes[p])
                c = codes[p]
                c[0] = _bin(t[j, _SENTENCE] - t[i, _SENTENCE], bounds.sentences)
                c[1] = _bin(j - i - 1, bounds.mentions)
                pronoun = t[j, _FORM] == 0
                c[21] = _bin(agreeing, bounds.between) if pronoun else len(bounds.between) + 1
                c[22] = _bin(same, bounds.between) if pronoun else len(bounds.between) + 1
                c[23] = 2 if pronoun else int(t[i, _HEAD] == t[j, _HEAD] and not head_seen)
                c[24] = _bin(mentions.times[i], bounds.times)
                c[25] = _bin(mentions.times[j], bounds.times)
                p -= 1
                if p < start:
                    break
            agreeing += fits
            same += t[i, _FORM] == 0 and t[i, _PRONOUN] == t[j, _PRONOUN]
            head_seen = head_seen or t[i, _HEAD] == t[j, _HEAD]
        stop = start


@njit(nogil=True, cache=True)
def _code_pair(i, j, mentions, c):
    """The columns that depend on the two mentions alone."""
    t = mentions.values
    form_i, form_j = t[i, _FORM], t[j, _FORM]
    alike = 1 + form_i if form_i == form_j else 4
    pronoun = form_i == 0 or form_j == 0
    c[2] = 3 * form_i + form_j
    c[3] = 11 * t[i, _PRONOUN] + t[j, _PRONOUN]
    c[4] = alike if t[i, _CORE] == t[j, _CORE] else 0
    c[5] = 4 if pronoun else (alike - 1 if t[i, _HEAD] == t[j, _HEAD] else 0)
    c[6] = 0 if pronoun else _shared(mentions.words, mentions.word_starts, i, j)
    c[7] = 0 if pronoun else 1 + (t[i, _FIRST] == t[j, _FIRST]) + 2 * (t[i, _LAST] == t[j, _LAST])
    c[8] = _agreement(t[i, _NUMBER], t[j, _NUMBER])
    c[9] = _agreement(t[i, _GENDER], t[j, _GENDER])
    c[10] = _agreement(t[i, _PERSONAL], t[j, _PERSONAL])
    c[11] = _agreement(t[i, _TYPE] + 1, t[j, _TYPE] + 1)
    c[12] = t[i, _DEFINITE]
    c[13] = t[j, _DEFINITE]
    c[14] = t[i, _ACRONYM] == t[j, _INITIALS] or t[j, _ACRONYM] == t[i, _INITIALS]
    close = t[i, _SENTENCE] == t[j, _SENTENCE] and t[j, _START] >= t[i, _END]
    c[15] = close and t[j, _START] == t[i, _END] + 1 and t[j, _COMMA] == 1
    c[16] = close and t[j, _START] <= t[i, _END] + 2 and t[j, _COPULA] == 1
    quote_i, quote_j = t[i, _QUOTE], t[j, _QUOTE]
    if quote_i > 0 and quote_j > 0:
        c[17] = 1 if quote_i == quote_j else 2
    else:
        c[17] = 3 if quote_i > 0 else 4 if quote_j > 0 else 0
    if t[i, _START] <= t[j, _START] and t[j, _END] <= t[i, _END]:
        c[18] = 1
    else:
        c[18] = 2 if t[j, _START] <= t[i, _START] and t[i, _END] <= t[j, _END] else 0
    c[19] = 2 * t[i, _EMBEDDED] + t[j, _EMBEDDED]
    c[20] = 4 * t[i, _ROLE] + t[j, _ROLE]
