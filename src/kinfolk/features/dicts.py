"""Sequences of feature dicts, as python-crfsuite and sklearn-crfsuite take them, to a sparse table.

An item (token) is a dict or a list of strings:

    {"lower": "hague", "bias": 1.0, "title": True, "near": ["the", "in"], "w": {"-1": "the"}}

    str     feature "lower:hague" = 1          bool    "title" = 1, left out when False
    number  feature "bias" = 1.0               list    "near:the" = 1, "near:in" = 1
    dict    "w:-1:the" = 1                     a list of strings instead of a dict: each = 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.data.vocabulary import Vocabulary
from kinfolk.errors import InputError

LARGEST = float(np.finfo(np.float32).max)  # values are kept as float32
Item = Mapping[str, Any] | Iterable[str]


class DictFeatures:
    """The feature set of a model trained on dicts: names frozen by `learn`, used by `rows`."""

    def __init__(self, min_count: int = 1) -> None:
        self.min_count = min_count
        self.vocabulary = Vocabulary(())

    @property
    def n_features(self) -> int:
        return len(self.vocabulary)

    def learn(self, sequences: Sequence[Sequence[Item]], n_jobs: int = 1) -> sparse.csr_array:
        """Freeze the names that occur in at least `min_count` items and return the rows (n, F)."""
        numbers: dict[str, int] = {}
        indptr, indices, values = _collect(sequences, lambda name: numbers.setdefault(name, len(numbers)))
        counts = np.bincount(indices, minlength=len(numbers))
        kept = np.flatnonzero(counts >= self.min_count)
        self.vocabulary = Vocabulary(np.array(list(numbers), object)[kept].tolist())
        table = sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, len(numbers)))
        return table if len(kept) == len(numbers) else table[:, kept]

    def rows(self, sequences: Sequence[Sequence[Item]], n_jobs: int = 1) -> sparse.csr_array:
        """Rows (n, F) of other sequences; names never met in training are left out."""
        indptr, indices, values = _collect(sequences, self.vocabulary.get)
        return sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))

    def names(self) -> list[str]:
        return list(self.vocabulary.names)

    def spec(self) -> dict[str, Any]:
        return {"dicts": True, "min_count": self.min_count}

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Sequence[str]]]:
        return {}, {"features.names": self.vocabulary.names}

    def restore(self, arrays: Mapping[str, NDArray[Any]], strings: Mapping[str, Sequence[str]]) -> None:
        self.vocabulary = Vocabulary(strings["features.names"])


def _collect(
    sequences: Sequence[Sequence[Item]], number: Any
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """CSR parts; features numbered -1 are left out, repeats within an item are added up."""
    indptr, indices, values = [0], [], []
    for s, sequence in enumerate(sequences):
        for t, item in enumerate(sequence):
            row: dict[int, float] = {}
            for name, value in _pairs(item, s, t):
                if (feature := number(name)) >= 0:
                    row[feature] = row.get(feature, 0.0) + value
            indices += sorted(row)
            values += [row[feature] for feature in sorted(row)]
            indptr.append(len(indices))
    return np.array(indptr, np.int64), np.array(indices, np.int32), np.array(values, np.float32)


def _pairs(item: Item, s: int, t: int) -> Iterator[tuple[str, float]]:
    if isinstance(item, Mapping):
        for name, value in item.items():
            yield from _expand(str(name), value, s, t)
    elif isinstance(item, Iterable) and not isinstance(item, str):
        for name in item:
            yield str(name), 1.0
    else:
        raise _unusable(item, s, t, "a dict of features or a list of strings")


def _expand(name: str, value: Any, s: int, t: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, str):
        yield f"{name}:{value}", 1.0
    elif isinstance(value, bool | np.bool_):
        if value:
            yield name, 1.0
    elif isinstance(value, Real):
        if not abs(value) <= LARGEST:  # type: ignore[operator]
            raise InputError(
                f"feature values must be finite (and fit 32 bits); sequence {s}, item {t} has {name!r} = {value}. "
                "Replace or drop missing values."
            )
        yield name, float(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _expand(f"{name}:{key}", inner, s, t)
    elif isinstance(value, Iterable):
        for inner in value:
            yield f"{name}:{inner}", 1.0
    else:
        raise _unusable(value, s, t, f"a string, number, boolean, list or dict as the value of {name!r}")


def _unusable(value: object, s: int, t: int, expected: str) -> InputError:
    return InputError(f"sequence {s}, item {t}: expected {expected}; got {type(value).__name__}")
