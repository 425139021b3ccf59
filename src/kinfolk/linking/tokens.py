"""Comparisons of texts as sets of tokens, numbers or codes, and as vectors of weighted words or characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.kernels import njit, scrambled
from kinfolk.errors import SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import (
    Answer,
    Comparison,
    Items,
    Statistics,
    Texts,
    Together,
    as_column,
    entities_of,
    one_of,
    texts_of,
)

Array = NDArray[Any]
OVERLAPS = ("jaccard", "containment")
JACCARD, CONTAINMENT, DOT = range(3)
AHEAD = 64  # pairs whose rows are fetched together
CODE = re.compile(r"\w+(?:[-_]\w+)*")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
WIDE_BLANK = re.compile(r"[^\S\x00-\x7f]")  # between words of `str.split`, and not ASCII
THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")


class Bags(NamedTuple):
    """Row r holds the tokens indices[starts[r]:starts[r + 1]], rising, with their weights."""

    starts: Array
    indices: Array
    weights: Array


@njit(nogil=True, cache=True)
def _compare_rows(kind: int, starts: Array, indices: Array, weights: Array, a: Array, b: Array, out: Array) -> float:
    """Walk down two rows of rising tokens: shared / all, shared / smaller, or Σ w_a w_b. NaN: a row is -1 or empty."""
    fetched = 0.0
    for i in range(len(a)):
        if i % AHEAD == 0:  # what the next pairs have to wait for, looked at all at once
            for k in range(i, min(i + AHEAD, len(a))):
                p, q = starts[max(a[k], 0)], starts[max(b[k], 0)]
                if p < len(indices) and q < len(indices):
                    fetched += indices[p] + indices[q] + weights[p] + weights[q]
        out[i] = np.nan
        if a[i] < 0 or b[i] < 0:
            continue
        p, last_p, q, last_q = starts[a[i]], starts[a[i] + 1], starts[b[i]], starts[b[i] + 1]
        n_p, n_q = last_p - p, last_q - q
        if n_p == 0 or n_q == 0:
            continue
        shared, dot = 0, 0.0
        while p < last_p and q < last_q:
            x, y = indices[p], indices[q]
            if x == y:
                shared += 1
                dot += weights[p] * weights[q]
            p += x <= y
            q += y <= x
        if kind == JACCARD:
            out[i] = shared / (n_p + n_q - shared)
        elif kind == CONTAINMENT:
            out[i] = shared / min(n_p, n_q)
        else:
            out[i] = min(dot, 1.0)
    return fetched


def _answer(kind: int, codes: Array, bags: Bags) -> Answer:
    def answer(left: Items, right: Items) -> Array:
        out = np.empty(len(left))
        _compare_rows(kind, *bags, codes[left], codes[right], out)
        return as_column(out)

    return answer


# -- rows of tokens -----------------------------------------------------------------------------------

# Several comparisons look at the same tokens, when they learn, in training and in prediction: rows of long texts take
# longer to make than to compare, so they are kept while the texts are.
_KNOWN: WeakKeyDictionary[Texts, dict[Any, tuple[Bags, list[str]]]] = WeakKeyDictionary()
KEPT = 1 << 22  # tokens of a field whose rows are kept at most: 32 MB
TABLE = 1 << 24  # numbers up to which a table says which are there, in the place of sorting


def bags_in(texts: Texts, tokens: Callable[[str], Sequence[str]] | int) -> tuple[Bags, list[str]]:
    """Counts of the tokens of each text, found by a function or, for a number, its runs of so many characters."""
    known = _KNOWN.setdefault(texts, {})
    if tokens in known:
        return known[tokens]
    if isinstance(tokens, int):
        made = bags_of_ngrams(texts.values, tokens)
    elif tokens is str.split:
        made = _bags_of_words(texts.values)
    else:
        made = bags_of_tokens(map(tokens, texts.values))
    if len(made[0].indices) <= KEPT:
        known[tokens] = made
    return made


def bags_of_tokens(rows: Iterable[Sequence[str]]) -> tuple[Bags, list[str]]:
    """Counts of tokens; and the distinct ones, by number: in order, so that a row has the same sum in any table."""
    tokens, starts, words = _numbered(rows)
    return _counted(tokens, starts, len(words)), words


def _numbered(rows: Iterable[Sequence[str]]) -> tuple[NDArray[np.int32], NDArray[np.int64], list[str]]:
    """The tokens of row r are tokens[starts[r]:starts[r + 1]], numbers of words in order."""
    listed = list(rows)
    words = sorted(set(chain.from_iterable(listed)))
    numbers = dict(zip(words, range(len(words)), strict=True))
    starts = np.cumsum([0, *map(len, listed)], dtype=np.int64)
    tokens = np.fromiter(map(numbers.__getitem__, chain.from_iterable(listed)), np.int32, int(starts[-1]))
    return tokens, starts, words


def _bags_of_words(texts: Sequence[str]) -> tuple[Bags, list[str]]:
    """The same of what `str.split` makes of texts. The words of texts of several fields are those of the fields."""
    if not isinstance(texts, Together):
        tokens, starts, words = _words_in(texts)
        return _counted(tokens, starts, len(words)), words
    tokens, starts, words = _words_in([text for own in texts.fields for text in own])
    before = np.cumsum([0, *map(len, texts.fields)])[:-1]
    rows = np.where(texts.rows < 0, -1, texts.rows + before).astype(np.int32)
    tokens, starts = _put_together(tokens, starts, rows)
    return _counted(tokens, starts, len(words)), words


def _words_in(texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64], list[str]]:
    """As `_numbered` with the words of texts, told apart by their bytes, so that only distinct ones become strings."""
    whole = "\0".join([*texts, ""])
    if whole.count("\0") > len(texts) or (not whole.isascii() and WIDE_BLANK.search(whole)):
        return _numbered(text.split() for text in texts)
    letters = np.frombuffer(whole.encode("utf-8", "surrogatepass"), np.uint8)
    del whole
    tokens, starts, places, sizes = _number_words(letters, len(texts))
    kept = letters.tobytes()
    ends = zip(places.tolist(), (places + sizes).tolist(), strict=True)
    words = [kept[at:end].decode("utf-8", "surrogatepass") for at, end in ends]
    order = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words), np.int32)
    rank[order] = np.arange(len(words), dtype=np.int32)
    return rank[tokens], starts, [words[k] for k in order]


@njit(nogil=True, cache=True)
def _twice(values: Array) -> Array:
    """With as much room again: np.append takes numba most of a second to compile."""
    longer = np.empty(2 * len(values), values.dtype)
    for i in range(len(values)):
        longer[i] = values[i]
    return longer


@njit(nogil=True, cache=True)
def _number_words(letters: Array, n_texts: int) -> tuple[Array, Array, Array, Array]:
    """Words of texts that end in 0, numbered as they appear; starts of the texts; place and size of each word."""
    starts = np.zeros(n_texts + 1, np.int64)
    tokens = np.empty(len(letters) // 2 + 1, np.int32)
    slots, hashes = np.full(1 << 12, -1, np.int32), np.empty(1 << 11, np.uint64)
    places, sizes = np.empty(1 << 11, np.int64), np.empty(1 << 11, np.int64)
    n, at, text, begin = 0, 0, 0, -1
    mixed = np.uint64(0)
    for p in range(len(letters)):
        letter = letters[p]
        if not (letter <= 32 and (letter == 32 or letter == 0 or 9 <= letter <= 13 or letter >= 28)):
            if begin < 0:
                begin, mixed = p, np.uint64(0)
            mixed = (mixed ^ np.uint64(letter)) * np.uint64(0x100000001B3)
            continue
        if begin >= 0:
            mask = np.uint64(len(slots) - 1)
            slot = scrambled(mixed) & mask
            while slots[slot] >= 0:
                known = slots[slot]
                if hashes[known] == mixed and sizes[known] == p - begin:
                    k = 0
                    while k < p - begin and letters[places[known] + k] == letters[begin + k]:
                        k += 1
                    if k == p - begin:
                        break
                slot = (slot + np.uint64(1)) & mask
            if slots[slot] < 0:
                if n == len(places):  # twice the room
                    places, sizes, hashes = _twice(places), _twice(sizes), _twice(hashes)
                    slots = np.full(2 * len(slots), -1, np.int32)
                    mask = np.uint64(len(slots) - 1)
                    for known in range(n):
                        slot = scrambled(hashes[known]) & mask
                        while slots[slot] >= 0:
                            slot = (slot + np.uint64(1)) & mask
                        slots[slot] = known
                    slot = scrambled(mixed) & mask
                    while slots[slot] >= 0:
                        slot = (slot + np.uint64(1)) & mask
                slots[slot], hashes[n], places[n], sizes[n] = n, mixed, begin, p - begin
                n += 1
            tokens[at] = slots[slot]
            at += 1
            begin = -1
        if letter == 0:
            text += 1
            starts[text] = at
    return tokens[:at].copy(), starts, places[:n].copy(), sizes[:n].copy()


@njit(nogil=True, cache=True)
def _put_together(tokens: Array, starts: Array, rows: Array) -> tuple[Array, Array]:
    """The tokens of several rows, -1 = none, as those of one."""
    ends = np.zeros(len(rows) + 1, np.int64)
    for r in range(len(rows)):
        ends[r + 1] = ends[r]
        for part in rows[r]:
            if part >= 0:
                ends[r + 1] += starts[part + 1] - starts[part]
    found, at = np.empty(ends[-1], np.int32), 0
    for r in range(len(rows)):
        for part in rows[r]:
            if part >= 0:
                for p in range(starts[part], starts[part + 1]):
                    found[at] = tokens[p]
                    at += 1
    return found, ends


def bags_of_ngrams(texts: Sequence[str], n: int) -> tuple[Bags, list[str]]:
    """The same of all runs of n characters, with a blank before and after each text.

    A run is the number whose digits are its characters, so runs are in the order of their numbers. Of 40 texts of
    170,000 characters this takes 0.2 s, as strings in Python they take 2.3.
    """
    whole = "".join(f" {text} " for text in texts)
    sizes = np.array([len(text) + 2 for text in texts], np.int64)
    starts = np.cumsum(np.maximum(sizes - n + 1, 0))
    if len(whole) < n:
        return _counted(np.empty(0, np.int32), np.zeros(len(texts) + 1, np.int64), 0), []
    letters, n_letters = ranks(np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), np.uint32))
    size, last = n_letters, len(whole) - n + 1
    runs = letters[:last] if n_letters**n < 1 << 31 else letters[:last].astype(np.int64)
    for k in range(1, n):
        if size > (1 << 62) // n_letters:
            narrow, size = ranks(runs)
            runs = narrow.astype(np.int64)
        runs = runs * runs.dtype.type(n_letters) + letters[k : last + k]
        size *= n_letters
    inside = np.ones(len(whole), bool)  # where a run starts that ends in the same text
    ends = np.cumsum(sizes)
    for k in range(1, n):
        inside[np.maximum(ends - k, ends - sizes)] = False
    places = np.flatnonzero(inside[:last])
    tokens, count = ranks(runs[places])
    first = np.empty(count, np.int64)
    first[tokens[::-1]] = places[::-1]
    bags = _counted(tokens, np.concatenate([[0], starts]), count)
    return bags, [whole[at : at + n] for at in first.tolist()]


def ranks(values: Array) -> tuple[NDArray[np.int32], int]:
    """Numbers from 0 in the order of whole numbers from 0 on; and how many there are."""
    size = int(values.max()) + 1 if len(values) else 0
    if size > max(TABLE, len(values)):
        distinct, numbers = np.unique(values, return_inverse=True)
        return numbers.astype(np.int32), len(distinct)
    there = np.zeros(size, bool)
    there[values] = True
    rank = np.cumsum(there, dtype=np.int32)
    return (rank - 1)[values], int(rank[-1]) if size else 0


def _counted(tokens: NDArray[np.int32], starts: NDArray[np.int64], n_tokens: int) -> Bags:
    """Rows of tokens in any order, one a text, as rising distinct ones with their counts."""
    rows, indices = np.zeros_like(starts), np.empty_like(tokens)
    counts = np.empty(len(tokens), np.float32)
    n = _count_rows(tokens, starts, np.zeros(n_tokens, np.int32), rows, indices, counts)
    made = sparse.csr_array((counts[:n], indices[:n], rows), (len(starts) - 1, n_tokens), copy=True)
    made.sort_indices()  # sorting within the kernel takes numba most of a second to compile
    return Bags(rows, made.indices.astype(np.int32, copy=False), made.data)


@njit(nogil=True, cache=True)
def _count_rows(tokens: Array, starts: Array, seen: Array, rows: Array, indices: Array, counts: Array) -> int:
    """Of each text its distinct tokens, as they appear, with their counts."""
    at = 0
    for r in range(len(starts) - 1):
        first = at
        for p in range(starts[r], starts[r + 1]):
            token = tokens[p]
            if seen[token] == 0:
                indices[at] = token
                at += 1
            seen[token] += 1
        for k in range(first, at):
            counts[k] = seen[indices[k]]
            seen[indices[k]] = 0
        rows[r + 1] = at
    return at


# -- sets ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Overlap(Comparison):
    """How many tokens two texts share, of all ("jaccard") or of the smaller text ("containment")."""

    kind: str = "jaccard"
    SETTINGS: ClassVar[tuple[str, ...]] = ("kind",)
    TOKENS: ClassVar[Callable[[str], Sequence[str]]] = staticmethod(str.split)
    RAW: ClassVar[bool] = False  # whether tokens are found in the text as it is written

    def __post_init__(self) -> None:
        one_of(f"{type(self).__name__}: kind", self.kind, OVERLAPS)
        super().__post_init__()

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, self.normalise and not self.RAW)
        bags, _ = bags_in(texts, type(self).TOKENS)
        return _answer(OVERLAPS.index(self.kind), texts.codes, bags)


@dataclass(frozen=True)
class TokenOverlap(_Overlap):
    """Shared words of all words of the two texts, |A ∩ B| / |A ∪ B|, or of the shorter one, |A ∩ B| / min(|A|, |B|)."""


def codes_in(text: str) -> list[str]:
    """Tokens with a digit, hyphens taken out: "Sony PS-LX350H" -> ["pslx350h"]."""
    tokens = (token.replace("-", "").replace("_", "") for token in CODE.findall(text.lower()))
    return [token for token in tokens if any(map(str.isdigit, token))]


@dataclass(frozen=True)
class SharedCodes(_Overlap):
    """Shared tokens that have a digit in them, such as model numbers; a text without any is missing."""

    kind: str = "containment"
    TOKENS: ClassVar[Callable[[str], Sequence[str]]] = staticmethod(codes_in)
    RAW: ClassVar[bool] = True


def numbers_in(text: str) -> list[str]:
    """The numbers in a text, each written in one way: "1,250.50" -> "1250.5"; 2,5 is read as 2.5."""
    found = (THOUSANDS.sub("", number).replace(",", ".") for number in NUMBER.findall(text))
    # 10.12.1999 has two points: not one number but three
    whole = chain.from_iterable(number.split(".") if number.count(".") > 1 else [number] for number in found)
    return [f"{float(number):.15g}" for number in whole]


@dataclass(frozen=True)
class Numbers(_Overlap):
    """Shared numbers in two texts; a text without any is missing."""

    TOKENS: ClassVar[Callable[[str], Sequence[str]]] = staticmethod(numbers_in)
    RAW: ClassVar[bool] = True


# -- vectors ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """Of n entities with a text, how many have each token that two of them have at least."""

    n: int
    tokens: Sequence[str]
    counts: NDArray[np.int64]


@dataclass(frozen=True, init=False)
class TfidfCosine(Comparison):
    """Σ_t a_t b_t of two texts, where a_t = tf(t) (1 + log((1 + n)/(1 + df(t)))), scaled to length 1.

    field   one, or several whose texts are put together
    ngram   None: t are words; a number: all runs of so many characters, blanks included; a shorter text
            counts as missing

    n is the number of entities in training with a text, df(t) how many of them have t, 1 if none has: rare words count
    for more. All items of a true cluster are one entity, an item whose cluster is not known is one by itself: were
    words counted by item, those of an entity with many items would be common in training, and rare in a new table. A
    comparison that has not learned takes the items at hand.
    """

    ngram: int | None = None
    counted: TokenCounts | None = field(default=None, repr=False, compare=False)
    SETTINGS: ClassVar[tuple[str, ...]] = ("ngram",)

    def __init__(self, field: str | Sequence[str], ngram: int | None = None, *, normalise: bool = True) -> None:
        whole = isinstance(ngram, Integral) and not isinstance(ngram, bool)
        if ngram is not None and not (whole and 1 <= ngram <= 10):
            raise SettingError("ngram", ngram, "from 1 to 10, or None for words", owner="TfidfCosine")
        one = field if isinstance(field, str) else tuple(field)
        if not isinstance(one, str) and not (one and all(isinstance(name, str) and name for name in one)):
            raise SettingError.saying(f"TfidfCosine takes the name of a field or a list of names; got {field!r}")
        joined = one if isinstance(one, str) else one[0] if len(one) == 1 else " + ".join(one)
        object.__setattr__(self, "_fields", (one,) if isinstance(one, str) else one)
        for key, value in (("field", joined), ("ngram", ngram), ("normalise", normalise), ("counted", None)):
            object.__setattr__(self, key, value)
        super().__post_init__()

    @property
    def fields(self) -> tuple[str, ...]:
        return self._fields  # type: ignore[attr-defined,no-any-return]

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "field": list(self.fields)}

    def of(self, items: Mentions) -> Answer:
        texts, counted = texts_of(items, self.fields, self.normalise), self.counted
        bags, tokens = bags_in(texts, str.split if self.ngram is None else int(self.ngram))
        if counted is None:
            n, frequency = _entities_with(bags, len(tokens), texts.codes, np.arange(items.n_items))
        else:
            known = dict(zip(counted.tokens, counted.counts.tolist(), strict=True))
            n, frequency = counted.n, np.array([known.get(token, 1) for token in tokens], np.int64)
        return _answer(DOT, texts.codes, _weighted(bags, frequency, n))

    def learn(self, items: Mentions) -> Self:
        texts = texts_of(items, self.fields, self.normalise)
        bags, tokens = bags_in(texts, str.split if self.ngram is None else int(self.ngram))
        n, frequency = _entities_with(bags, len(tokens), texts.codes, entities_of(items))
        often = np.flatnonzero(frequency > 1)  # a token of one entity is as good as one that none has
        return self._knowing(counted=TokenCounts(n, [tokens[k] for k in often.tolist()], frequency[often]))

    def statistics(self) -> Statistics | None:
        known = self.counted
        return None if known is None else Statistics({"n": known.n}, {"counts": known.counts}, {"tokens": known.tokens})

    def with_statistics(self, kept: Statistics) -> Self:
        n, tokens, counts = int(kept.numbers["n"]), kept.strings["tokens"], kept.arrays["counts"]
        finite = len(set(tokens)) == len(tokens) and counts.shape == (len(tokens),) and counts.dtype == np.int64
        if not finite or (self.ngram is not None and any(len(token) != self.ngram for token in tokens)):
            raise ValueError(f"{self.name}: expected distinct tokens with a count each")
        if ((counts < 2) | (counts > n)).any():
            raise ValueError(f"{self.name}: expected counts from 2 to {n}, the number of entities")
        return self._knowing(counted=TokenCounts(n, tokens, counts))


def _entities_with(bags: Bags, n_tokens: int, codes: Array, entities: Array) -> tuple[int, NDArray[np.int64]]:
    """How many entities have a text, and how many have each token in any of theirs."""
    known = codes >= 0
    keys = np.unique(entities[known].astype(np.int64) << 32 | codes[known])  # an entity and one of its texts
    owner, text = keys >> 32, keys & 0xFFFFFFFF
    first, count = bags.starts[text], np.diff(bags.starts)[text]
    tokens = bags.indices[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
    seen = np.unique(np.repeat(owner, count) << 32 | tokens) & 0xFFFFFFFF
    return len(np.unique(owner)), np.bincount(seen, minlength=n_tokens)


def _weighted(bags: Bags, frequency: Array, n: int) -> Bags:
    """tf-idf rows of length 1."""
    weights = np.empty(len(bags.indices), np.float32)
    _weigh(*bags, 1.0 + np.log((1.0 + n) / (1.0 + frequency)), weights)
    return Bags(bags.starts, bags.indices, weights)


@njit(nogil=True, cache=True)
def _weigh(starts: Array, indices: Array, counts: Array, weight: Array, out: Array) -> None:
    for r in range(len(starts) - 1):
        total = 0.0
        for k in range(starts[r], starts[r + 1]):
            total += (counts[k] * weight[indices[k]]) ** 2
        length = np.sqrt(total)
        for k in range(starts[r], starts[r + 1]):
            out[k] = counts[k] * weight[indices[k]] / length
