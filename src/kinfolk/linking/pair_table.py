"""Pair features after training: numbers in bins, conjunctions of columns, and a weight for every value.

Code 0 of a binned column is "missing", code b > 0 the b-th bin. A conjunction of two columns has a weight for every
pair of their values. Rows of codes turn into rows of weight numbers, one a column and one a conjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.core.kernels import njit, slot_of, slot_of_row
from kinfolk.core.modelfile import ModelFile, fits
from kinfolk.core.threads import release_free_memory, run_chunks
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Items, PairColumn, PairFeature, Statistics

MISSING = "missing"
SAMPLE = 200_000  # pairs from which bins are learned
MAX_BINS = 200
MANY = 100_000  # items, or pairs, for which what they took on their way is worth giving back
Coder = Callable[[Items, Items], NDArray[np.uint8]]  # pairs -> a row of codes each
SMALLEST = 10  # labelled pairs in a learned bin
FEW = 4 * SMALLEST  # from fewer labels the tree learns next to nothing


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as the model sees it; `edges` (rising) divide the numbers of a binned one."""

    name: str
    values: tuple[str, ...]
    edges: NDArray[np.float64] | None = None

    @classmethod
    def binned(cls, name: str, edges: NDArray[np.float64], words: tuple[str, str] | None = None) -> CodedColumn:
        if words is not None and len(edges) == 1:
            return cls(name, (MISSING, *words), edges)
        marks = [f"{edge:.3g}" for edge in edges]
        inner = [f"{a} to {b}" for a, b in pairwise(marks)]
        ranges = [f"below {marks[0]}", *inner, f"{marks[-1]} or more"] if marks else ["known"]
        return cls(name, (MISSING, *ranges), edges)


class PairSet:
    """Which features, how their numbers are binned, which columns are joined."""

    def __init__(
        self, features: Sequence[PairFeature], columns: Sequence[CodedColumn], joined: Sequence[tuple[int, int]]
    ) -> None:
        self.features, self.columns, self.joined = tuple(features), tuple(columns), tuple(joined)
        sizes = np.array([len(column.values) for column in self.columns], np.int64)
        widths = [*sizes, *(sizes[a] * sizes[b] for a, b in self.joined)]
        self.sizes, self.offsets = sizes, np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)

    @classmethod
    def learn(
        cls,
        features: Sequence[PairFeature],
        items: Mentions,
        labels: NDArray[np.int8] | None = None,
        *,
        bins: int | str = 8,
        binning: str = "learned",
        conjunctions: Any = None,
        seed: int | None = 0,
    ) -> PairSet:
        """Bins from (a sample of) the pairs of `items`, whose labels "learned" bins follow; None: those of clusters."""
        columns: list[CodedColumn] = []
        left, right, labels = _sample(items, items.pair_labels if labels is None else labels, seed)
        for feature in features:
            if feature.columns[0].values is not None:
                columns += [CodedColumn(column.name, column.values or ()) for column in feature.columns]
                continue
            numbers = feature.of(items)(left, right)
            for k, column in enumerate(feature.columns):
                edges = _edges(numbers[:, k], labels, int(bins), binning)
                edges = edges if column.words is None else edges[:1]  # two values have one cut
                columns.append(CodedColumn.binned(column.name, edges, column.words))
        names = [column.name for column in columns]
        twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
        if twice is not None:
            raise SettingError.saying(f"two pair features are named {twice!r}; leave one out or name it otherwise")
        return cls(features, columns, joined_columns(conjunctions, names))

    @property
    def n_weights(self) -> int:
        return int(self.offsets[-1])

    def rows(self, items: Mentions, n_jobs: int, coded: Coder | None = None) -> PairRows:
        """The distinct rows of the pairs, by the coder of the items, made here if it is not given."""
        return distinct_rows(coded or self.coder(items), items.left, items.right, self.sizes, n_jobs)

    def scores(
        self, weights: NDArray[np.float64], items: Mentions, n_jobs: int, coded: Coder | None = None
    ) -> NDArray[np.float64]:
        """Of each pair the sum of its weights. Distinct rows are for what is gone over many times, as in training."""
        return pair_scores(coded or self.coder(items), items.left, items.right, self, weights, n_jobs)

    def coder(self, items: Mentions) -> Coder:
        """A function from pairs to codes, uint8 (m, columns)."""
        answers: list[tuple[PairFeature, Answer]] = [(feature, feature.of(items)) for feature in self.features]
        if items.n_items > MANY:
            release_free_memory()  # what the work once an item took on its way

        def coded(left: Items, right: Items) -> NDArray[np.uint8]:
            codes = np.empty((len(left), len(self.columns)), np.uint8)
            at = 0
            for feature, answer in answers:
                found = answer(left, right)
                for k in range(len(feature.columns)):
                    codes[:, at] = _codes(found[:, k], self.columns[at])
                    at += 1
            return codes

        return coded

    def weights_on(self, codes: NDArray[np.uint8]) -> NDArray[np.int32]:
        """int32 (R, columns + conjunctions): the number of the weight that is on for each."""
        index = np.empty((len(codes), len(self.columns) + len(self.joined)), np.int32)
        n = len(self.columns)
        index[:, :n] = codes + self.offsets[:n]
        for k, (a, b) in enumerate(self.joined, n):
            index[:, k] = codes[:, a].astype(np.int32) * self.sizes[b] + codes[:, b] + self.offsets[k]
        return index

    def column_means(self, weighted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the values of each column and conjunction of something given a weight."""
        return np.array([weighted[a:b].sum() for a, b in pairwise(self.offsets.tolist())])

    def weight_names(self) -> list[str]:
        """`same text: names` or `forms: name, name & words: equal`."""
        names = [[f"{column.name}: {value}" for value in column.values] for column in self.columns]
        names += [[f"{x} & {y}" for x in names[a] for y in names[b]] for a, b in self.joined]
        return [name for column in names for name in column]

    # -- what a model file keeps --------------------------------------------------------------------------

    def for_file(self) -> ModelFile:
        """Features with their statistics, values or edges of columns, and which are joined."""
        statistics = [feature.statistics() for feature in self.features]
        header = {
            "features": [feature.spec() for feature in self.features],
            "statistics": [None if one is None else dict(one.numbers) for one in statistics],
            "columns": [len(column.values) if column.edges is None else None for column in self.columns],
            "joined": [list(pair) for pair in self.joined],
        }
        arrays: dict[str, Any] = {}
        strings: dict[str, Any] = {"column_names": [column.name for column in self.columns]}
        for k, column in enumerate(self.columns):
            if column.edges is not None:
                arrays[f"edges.{k}"] = column.edges
            else:
                strings[f"values.{k}"] = list(column.values)
        for k, one in enumerate(statistics):
            if one is not None:
                arrays |= {f"statistics.{k}.{name}": array for name, array in one.arrays.items()}
                strings |= {f"statistics.{k}.{name}": texts for name, texts in one.strings.items()}
        return ModelFile(header, arrays, strings)

    @classmethod
    def from_file(cls, file: ModelFile, spec: Mapping[str, Any], rebuilt: Callable[[Any], PairFeature]) -> PairSet:
        """What `for_file` kept; `spec` is its header, and `rebuilt` makes a feature of what is kept of it."""
        features = [rebuilt(one) for one in spec["features"]]
        if "statistics" in spec:  # files of before have none: their features go by the items at hand
            learned = enumerate(zip(features, spec["statistics"], strict=True))
            features = [one if kept is None else _with_statistics(one, kept, file, k) for k, (one, kept) in learned]
        answered = [column for feature in features for column in feature.columns]
        names = list(file.strings["column_names"])
        fits([column.name for column in answered] == names)  # codes must be those that the weights are for
        columns = [_column(file, k, *both) for k, both in enumerate(zip(answered, spec["columns"], strict=True))]
        joined = [(int(a), int(b)) for a, b in spec["joined"]]
        fits(all(0 <= k < len(columns) for pair in joined for k in pair))
        fits(all(a.values == (c.values if c.edges is None else None) for a, c in zip(answered, columns, strict=True)))
        return cls(features, columns, joined)


def _with_statistics(feature: PairFeature, numbers: Mapping[str, Any], file: ModelFile, k: int) -> PairFeature:
    own = file.part(f"statistics.{k}")
    return feature.with_statistics(Statistics(numbers, own.arrays, own.strings))


def _column(file: ModelFile, k: int, answered: PairColumn, size: int | None) -> CodedColumn:
    if size is None:
        edges = file.arrays[f"edges.{k}"]
        fits(edges.ndim == 1 and len(edges) < 255 and (np.diff(edges) > 0).all())
        return CodedColumn.binned(answered.name, edges, answered.words)
    values = tuple(file.strings[f"values.{k}"])
    fits(len(values) == size)
    return CodedColumn(answered.name, values)


def joined_columns(given: Any, names: Sequence[str]) -> list[tuple[int, int]]:
    """None: no conjunctions; "all": every two columns; or pairs of column names."""
    if given is None:
        return []
    if given != "all" and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise SettingError("conjunctions", given, 'None, "all" or a list of pairs of column names')
    if isinstance(given, str):
        return [(a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
    number = {name: k for k, name in enumerate(names)}
    unknown = [name for pair in given for name in pair if name not in number]
    if unknown:
        raise SettingError.saying(f"no column {unknown[0]!r} for a conjunction; the columns are {', '.join(names)}")
    return [(number[a], number[b]) for a, b in given]


def _codes(found: NDArray[Any], column: CodedColumn) -> NDArray[Any]:
    if column.edges is None:
        return found
    codes = np.empty(len(found), np.uint8)
    _bin(found, column.edges, codes)
    return codes


@njit(nogil=True, cache=True)
def _bin(values: Array, edges: Array, out: Array) -> None:
    """1 + how many edges a value has reached; 0 for NaN. Edges are few, so each is looked at."""
    for i in range(len(values)):
        code = np.uint8(not np.isnan(values[i]))
        for edge in edges:
            code += np.uint8(values[i] >= edge)
        out[i] = code


def _sample(items: Mentions, labels: NDArray[np.int8], seed: int | None) -> tuple[Items, Items, NDArray[np.int8]]:
    """At most SAMPLE pairs; of the pairs of one cluster, which are few, up to half of them."""
    known = np.flatnonzero(labels >= 0) if items.clusters is not None else np.arange(items.n_pairs)
    if not len(known):
        raise InputError("there is no candidate pair with a known answer to learn from; look at the blocking and truth")
    rng = np.random.default_rng(seed)
    chosen = known
    if len(known) > SAMPLE:
        positive = known[labels[known] == 1]
        if len(positive) > SAMPLE // 2:
            positive = rng.choice(positive, SAMPLE // 2, replace=False)
        rest = rng.choice(known, SAMPLE - len(positive), replace=False)
        chosen = np.unique(np.concatenate([positive, rest]))
    return items.left[chosen], items.right[chosen], labels[chosen]


def _edges(values: NDArray[Any], labels: NDArray[np.int8], bins: int, binning: str) -> NDArray[np.float64]:
    """Where bins end: between the leaves of a small tree that separates the labels, or at quantiles.

    Few labels fill no leaves, and a tree with small ones follows accidents: they are cut into thirds, and where the
    best single cut lies. A bin that this leaves between the values of yes and of no, with no label in it, says nothing,
    as it should. With 4, 8, 12 and 18 labels of restaurants, half of them yes, the mean F1 of ten draws is
    86, 88, 86 and 86 this way, 77, 84, 76 and 85 with leaves of a quarter of the labels, 80, 88, 84 and 87 with
    quantiles.
    """
    if not 1 <= bins <= MAX_BINS:
        raise SettingError.saying(f"bins must lie between 1 and {MAX_BINS}; got {bins}")
    known = np.abs(values) <= np.finfo(np.float32).max  # what a tree cannot hold goes into the first and last bin
    there, answers = values[known].astype(np.float64), labels[known]
    if bins == 1 or not len(there) or there.min() == there.max():
        return np.empty(0)
    if binning not in ("learned", "quantile"):
        raise SettingError("binning", binning, '"learned" or "quantile"')
    if binning == "quantile":
        edges = _quantiles(there, bins)
        return edges if len(edges) else np.unique(there)[1:2]  # or the others than the least value
    if len(there) < FEW:
        return np.union1d(_quantiles(there, min(bins - 1, 3)), _splits(there, answers, 2, 1))
    return _splits(there, answers, bins, SMALLEST)


def _quantiles(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    middle = np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1])
    return np.unique(middle[middle > values.min()])


def _splits(values: NDArray[np.float64], labels: NDArray[np.int8], bins: int, smallest: int) -> NDArray[np.float64]:
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(
        max_leaf_nodes=bins, min_samples_leaf=smallest, class_weight="balanced", random_state=0
    )
    tree.fit(values[:, None], labels)
    inner = tree.tree_.children_left >= 0
    return np.unique(tree.tree_.threshold[inner])


# -----------------------------------------------------------------------------------------------------
# Pairs as distinct rows of codes with a number a pair: pairs repeat, so training and scoring cost what the rows cost.
#
# The codes of a row are packed into 64-bit words, and a hash table numbers the distinct rows in order of appearance
# (2 million rows of two words, 100,000 of them distinct: 0.13 s; NumPy's lexsort takes 0.78, its unique 3.4).
# Pairs are worked through in chunks, so what is held for all of them is one 32-bit number each.

CHUNK = 1 << 17  # pairs at a time and thread
WAVE = 1  # chunks a thread between two looks at whether a checkpoint is due


@dataclass(frozen=True, eq=False)
class PairRows:
    """codes: uint8 (R, K), the distinct rows; row: int32 (P,), the row of each pair."""

    codes: NDArray[np.uint8]
    row: NDArray[np.int32]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.bincount(self.row, minlength=len(self.codes))

    def totals(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of a value given a pair, by row."""
        return np.asarray(np.bincount(self.row, weights, minlength=len(self.codes)), np.float64)


def distinct_rows(
    coded: Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.uint8]],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    sizes: Iterable[int],
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
) -> PairRows:
    """The rows of all pairs; `sizes` are the numbers of values of the columns, `coded` gives uint8 (m, K).

    Chunks are coded in threads and numbered in their order, so the answer is the same for every `n_jobs`.
    """
    layout = _Layout(sizes)
    numbered = _Numbered(layout.n_words)
    row = np.empty(len(left), np.int32)
    n_chunks, done = -(-len(left) // CHUNK), 0
    step = running().step("rows of pairs", left, right)
    if (kept := step.kept) is not None:  # words that come in their order have the same numbers again
        done = kept["chunks"]
        row[: len(kept["row"])] = kept["row"]
        numbered.add(kept["words"], np.empty(len(kept["words"]), np.int32))

    def packed(chunk: int) -> NDArray[np.uint64]:
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        return layout.pack(coded(left[part], right[part]))

    for first in range(done, n_chunks, n_jobs):
        wave = run_chunks(lambda i, first=first: packed(first + i), min(n_jobs, n_chunks - first), n_jobs)  # type: ignore[misc]
        for chunk, words in enumerate(wave, first):
            numbered.add(words, row[chunk * CHUNK : (chunk + 1) * CHUNK])
        done = min(n_chunks, first + n_jobs)
        tick(min(len(left), done * CHUNK))
        step.keep(_standing, numbered, row, done)
    if step.active and not step.finished:
        step.finish(_standing(numbered, row, n_chunks))
    return PairRows(layout.unpack(numbered.words), row)


def pair_scores(
    coded: Coder,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    columns: PairSet,
    weights: NDArray[np.float64],
    n_jobs: int = 1,
) -> NDArray[np.float64]:
    """Σ of the weights that are on for each pair, in the order of the columns and then of the conjunctions."""
    score = np.empty(len(left))
    n_chunks, done = -(-len(left) // CHUNK), 0
    joined = np.array(columns.joined, np.int64).reshape(-1, 2)
    step = running().step("scores of pairs", left, right)
    if (kept := step.kept) is not None:
        done = kept["chunks"]
        score[: len(kept["score"])] = kept["score"]

    def work(chunk: int) -> None:
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        codes = coded(left[part], right[part])
        _score_codes(codes, columns.offsets, joined, columns.sizes, weights, score[part])

    wave = WAVE * n_jobs if step.active else max(n_chunks, 1)
    for first in range(done, n_chunks, wave):
        run_chunks(lambda i, first=first: work(first + i), min(wave, n_chunks - first), n_jobs)  # type: ignore[misc]
        done = min(n_chunks, first + wave)
        step.keep(_scored, score, done)
    if step.active and not step.finished:
        step.finish(_scored(score, n_chunks))
    return score


def _scored(score: NDArray[np.float64], chunks: int) -> dict[str, Any]:
    """After so many chunks, as a checkpoint keeps it."""
    return {"score": score[: chunks * CHUNK], "chunks": chunks}


@njit(nogil=True, cache=True)
def _score_codes(codes, offsets, joined, sizes, weights, out):
    n = codes.shape[1]
    for i in range(codes.shape[0]):
        total = 0.0
        for k in range(n):
            total += weights[offsets[k] + codes[i, k]]
        for k in range(len(joined)):
            a, b = joined[k]
            total += weights[offsets[n + k] + codes[i, a] * sizes[b] + codes[i, b]]
        out[i] = total


def _standing(numbered: _Numbered, row: NDArray[np.int32], chunks: int) -> dict[str, Any]:
    """After so many chunks, as a checkpoint keeps it."""
    return {"words": numbered.words, "row": row[: chunks * CHUNK], "chunks": chunks}


class _Layout:
    """Where the code of each column stands among the bits of a row's words."""

    def __init__(self, sizes: Iterable[int]) -> None:
        bits = [max(int(size) - 1, 0).bit_length() for size in sizes]
        self.word: NDArray[np.int64] = np.zeros(len(bits), np.int64)
        self.shift: NDArray[np.uint64] = np.zeros(len(bits), np.uint64)
        self.mask = np.array([(1 << b) - 1 for b in bits], np.uint64)
        word = at = 0
        for column, width in enumerate(bits):
            if at + width > 64:
                word, at = word + 1, 0
            self.word[column], self.shift[column] = word, at
            at += width
        self.n_words = word + 1

    def pack(self, codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
        words = np.zeros((len(codes), self.n_words), np.uint64)
        _pack(np.ascontiguousarray(codes), self.word, self.shift, words)
        return words

    def unpack(self, words: NDArray[np.uint64]) -> NDArray[np.uint8]:
        codes = np.empty((len(words), len(self.word)), np.uint8)
        for k, (word, shift, mask) in enumerate(zip(self.word, self.shift, self.mask, strict=True)):
            codes[:, k] = (words[:, word] >> shift) & mask
        return codes


class _Numbered:
    """A growing open-addressed hash table of packed rows."""

    def __init__(self, n_words: int) -> None:
        self._slots = np.full(1 << 12, -1, np.int32)
        self._store = np.empty((1 << 11, n_words), np.uint64)
        self._n = 0

    @property
    def words(self) -> NDArray[np.uint64]:
        return self._store[: self._n]

    def add(self, words: NDArray[np.uint64], row: NDArray[np.int32]) -> None:
        """Number `words` (m, W) into `row` (m,)."""
        done = 0
        while True:
            done, self._n = _number(words, done, self._slots, self._store, self._n, row)
            if done == len(words):
                return
            self._grow()

    def _grow(self) -> None:
        self._store = np.concatenate([self._store, np.empty_like(self._store)])
        self._slots = np.full(2 * len(self._slots), -1, np.int32)
        _fill(self._store, self._n, self._slots)


@njit(nogil=True, cache=True)
def _pack(codes, word, shift, words):
    for i in range(codes.shape[0]):
        for k in range(codes.shape[1]):
            words[i, word[k]] |= np.uint64(codes[i, k]) << shift[k]


@njit(nogil=True, cache=True)
def _number(words, done, slots, store, n, row):
    """Number rows from `done` on; stops when the store is full. Returns how far it came and how many rows there are."""
    for i in range(done, words.shape[0]):
        at = slot_of_row(words, i, slots, store)
        if slots[at] < 0:
            if n == store.shape[0]:
                return i, n
            for w in range(words.shape[1]):  # a row at once is compiled for a second and a half
                store[n, w] = words[i, w]
            slots[at] = n
            n += 1
        row[i] = slots[at]
    return words.shape[0], n


@njit(nogil=True, cache=True)
def _fill(store, n, slots):
    for i in range(n):
        slots[slot_of_row(store, i, slots, store)] = i


# -- Rows of weight numbers, stored by groups of columns: what repeats within a group is worked out once ---
#
# Rows that are distinct as a whole repeat in parts: of LitBank's 893,000 rows with 26 columns, columns taken eight at a
# time have a few thousand different values. So a row is one number a group, the sum of a group's weights is taken
# once an entry, and a row's score is the sum of a few entries instead of many weights; derivatives go the same way
# back. Passes over the rows take a third of the time.

Array = NDArray[Any]
ENTRIES = 8192  # of a group at most, so that its sums stay in the processor's cache


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """ids       uint16 (int32 where a group is larger) (G, R), the entry of each row in each group, counted within it
    starts    int64 (G + 1,), where the entries of each group begin when all stand in one line
    weights_on  for each group int32 (entries, columns), the weights that are on in an entry
    """

    ids: NDArray[np.uint16 | np.int32]
    starts: NDArray[np.int64]
    weights_on: tuple[NDArray[np.int32], ...]
    n_weights: int

    @classmethod
    def of(cls, index: NDArray[np.int32], n_weights: int, limit: int = ENTRIES) -> GroupedRows:
        """From int32 (R, M), the weights that are on in each row; columns are taken in order."""
        n_rows, n_columns = index.shape
        ids: list[Array] = []
        groups: list[list[int]] = []
        entries: list[int] = []
        for column in range(n_columns):
            tried = np.empty(n_rows, np.int32)
            found = _number_groups(ids[-1], index[:, column], limit, tried) if groups else -1
            if found >= 0:
                ids[-1], entries[-1] = tried, found
                groups[-1].append(column)
            else:  # a group of its own, however many entries that takes
                found = _number_groups(np.zeros(n_rows, np.int32), index[:, column], n_rows + 1, tried)
                ids.append(tried)
                entries.append(found)
                groups.append([column])
        starts = np.concatenate([[0], np.cumsum(entries)]).astype(np.int64)
        on = tuple(_entries(index, *group) for group in zip(groups, ids, entries, strict=True))
        stacked = np.stack(ids) if ids else np.empty((0, n_rows), np.int32)
        narrow = max(entries, default=0) <= np.iinfo(np.uint16).max  # passes over the rows cost what their ids cost
        return cls(stacked.astype(np.uint16) if narrow else stacked, starts, on, n_weights)

    @property
    def n_rows(self) -> int:
        return int(self.ids.shape[1])

    def sums(self, weights: Array) -> NDArray[np.float64]:
        """Σ of the weights of each entry, all groups in one line."""
        parts = [weights[on].sum(axis=1) for on in self.weights_on]
        return np.concatenate([np.empty(0), *parts])

    def spread(self, values: Array) -> NDArray[np.float64]:
        """What is given an entry, added up by weight: the other way of `sums`."""
        total = np.zeros(self.n_weights)
        for on, start in zip(self.weights_on, self.starts, strict=False):
            own = values[start : start + len(on)]
            for column in range(on.shape[1]):
                total += np.bincount(on[:, column], own, minlength=self.n_weights)
        return total


def _entries(index: NDArray[np.int32], columns: Sequence[int], ids: Array, n_entries: int) -> NDArray[np.int32]:
    """The weights of each entry, read off a row that has it."""
    row = np.zeros(n_entries, np.int64)
    row[ids] = np.arange(len(ids))
    return np.ascontiguousarray(index[row][:, columns]) if n_entries else np.empty((0, len(columns)), np.int32)


@njit(nogil=True, cache=True)
def _number_groups(first, second, limit, out):
    """Number the distinct pairs of two columns in order of appearance; -1 if there are more than `limit`."""
    size = 16
    while size < 3 * min(limit, len(first) + 1):
        size *= 2
    slots = np.full(size, -1, np.int32)
    keys = np.empty(min(limit, len(first)), np.int64)
    n = 0
    for i in range(len(first)):
        key = np.int64(first[i]) << 32 | np.int64(second[i])
        at = slot_of(key, slots, keys)
        if slots[at] < 0:
            if n == limit:
                return -1
            slots[at] = n
            keys[n] = key
            n += 1
        out[i] = slots[at]
    return n
