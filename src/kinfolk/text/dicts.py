"""Sequences of feature dicts, as python-crfsuite and sklearn-crfsuite take them, to a sparse table.

An item (token) is a dict or a list of strings:

    {"lower": "hague", "bias": 1.0, "title": True, "near": ["the", "in"], "w": {"-1": "the"}}

    str     feature "lower:hague" = 1          bool    "title" = 1, left out when False
    number  feature "bias" = 1.0               list    "near:the" = 1, "near:in" = 1; of strings, or a set of them
    dict    "w:-1:the" = 1                     a list of strings instead of a dict: each = 1

Anything else, a vector above all, is refused by `check_items`, which sees everything that comes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import BOUNDS, LARGEST_VALUE, Vocabulary
from kinfolk.errors import InputError
from kinfolk.text.vectors import APART, VectorColumns

PLAIN = frozenset([str, bool])  # types of values that need no further look
SHORT = frozenset([str, bool, float, int])
Item = Mapping[str, Any] | Iterable[str]


class DictFeatures:
    """The feature set of a model trained on dicts: names frozen by `learn`, used by `rows`. Items have to have passed
    `check_items`.

    min_count   features of fewer items in training are left out
    false       whether False is a feature of value 0 in training, as it is to CRFsuite: nothing to a score, but the
                feature then stands at the label of its token
    """

    def __init__(self, min_count: int = 1, false: bool = False) -> None:
        self.min_count, self.false = min_count, false
        self.vocabulary = Vocabulary(())
        self.vectors: VectorColumns | None = None  # dense columns that come after them, put here by who has them

    @property
    def n_features(self) -> int:
        return len(self.vocabulary) + (0 if self.vectors is None else self.vectors.width)

    def learn(self, sequences: Sequence[Sequence[Item]], n_jobs: int = 1) -> sparse.csr_array:
        """Freeze the names that occur in at least `min_count` items and return the rows (n, F)."""
        numbers: dict[str, int] = {}
        indptr, indices, values = _collect(sequences, lambda name: numbers.setdefault(name, len(numbers)), self.false)
        counts = np.bincount(indices, minlength=len(numbers))
        kept = np.flatnonzero(counts >= self.min_count)
        self.vocabulary = Vocabulary(np.array(list(numbers), object)[kept].tolist())
        table = sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, len(numbers)))
        return table if len(kept) == len(numbers) else table[:, kept]

    def rows(self, sequences: Sequence[Sequence[Item]], n_jobs: int = 1) -> sparse.csr_array:
        """Rows (n, F) of other sequences; names never met in training are left out."""
        indptr, indices, values = _collect(sequences, self.vocabulary.get)
        return sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, len(self.vocabulary)))

    def names(self) -> list[str]:
        return [*self.vocabulary.names, *([] if self.vectors is None else self.vectors.feature_names())]

    def spec(self) -> dict[str, Any]:
        return {"dicts": True, "min_count": self.min_count}

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Sequence[str]]]:
        arrays, strings = ({}, {}) if self.vectors is None else self.vectors.state()
        return arrays, {"features.names": self.vocabulary.names, **strings}

    def restore(self, arrays: Mapping[str, NDArray[Any]], strings: Mapping[str, Sequence[str]]) -> None:
        self.vocabulary = Vocabulary(strings["features.names"])
        self.vectors = VectorColumns.restored(arrays, strings)


def _collect(
    sequences: Sequence[Sequence[Item]], number: Any, false: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """CSR parts; features numbered -1 are left out, repeats within an item are added up.

    Most of what comes are dicts of strings, numbers and truth values: those go the short way, with each (name, string)
    looked up once, in half of the time.
    """
    indptr, indices, values = [0], [], []
    met: dict[tuple[str, str], int] = {}
    for sequence in sequences:
        for item in sequence:
            row: dict[int, float] = {}
            pairs: Iterable[tuple[Any, Any]] = item.items() if type(item) is dict else ((_pairs, item),)
            for name, value in pairs:
                kind = type(value)
                if type(name) is not str or kind not in SHORT:
                    for one, amount in _pairs(item, false) if name is _pairs else _expand(_text(name), value, false):
                        if (feature := number(one)) >= 0:
                            row[feature] = row.get(feature, 0.0) + amount
                    continue
                if kind is str:
                    found = met.get((name, value))
                    feature = met[name, value] = number(f"{name}:{value}") if found is None else found
                    value = 1.0
                elif value or false or kind is not bool:
                    feature = number(name)
                else:
                    continue
                if feature >= 0:
                    row[feature] = row.get(feature, 0.0) + float(value)
            indices += sorted(row)
            values += [row[feature] for feature in sorted(row)]
            indptr.append(len(indices))
    return np.array(indptr, np.int64), np.array(indices, np.int32), np.array(values, np.float32)


def _pairs(item: Item, false: bool) -> Iterator[tuple[str, float]]:
    if isinstance(item, Mapping):
        for name, value in item.items():
            yield from _expand(_text(name), value, false)
    else:
        for name in _in_order(item):
            yield _text(name), 1.0


def _expand(name: str, value: Any, false: bool) -> Iterator[tuple[str, float]]:
    if isinstance(value, str | bytes):
        yield f"{name}:{_text(value)}", 1.0
    elif isinstance(value, bool | np.bool_):
        if value or false:
            yield name, float(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _expand(f"{name}:{_text(key)}", inner, false)
    elif _is_number(value):
        yield name, float(value)
    else:
        for inner in _in_order(value):
            yield f"{name}:{_text(inner)}", 1.0


def _in_order(strings: Iterable[str]) -> Iterable[str]:
    """Sets sorted: theirs is another order in every process."""
    return sorted(strings, key=_text) if isinstance(strings, Set) else strings


def _text(name: Any) -> str:
    return name.decode("utf-8") if isinstance(name, bytes) else str(name)


def _is_number(value: Any) -> bool:
    """One number, also as an array or a tensor without dimensions."""
    return isinstance(value, Real | Decimal) or (getattr(value, "shape", None) == () and hasattr(value, "__float__"))


# -- what comes in ------------------------------------------------------------------------------------


def check_items(sentences: Iterable[Iterable[Any]]) -> None:
    """Refuses what is no item, with its sentence, token and feature."""
    for s, sentence in enumerate(sentences):
        for t, item in enumerate(sentence):
            if (fault := _fault_of_item(item)) is not None:
                raise InputError(f"sentence {s}, token {t}: {fault}")


def _fault_of_item(item: Any) -> str | None:
    if isinstance(item, Mapping):
        for name, value in item.items():
            if type(value) not in PLAIN and (fault := _fault_of_value(name, value)) is not None:
                return fault
        return None
    expected = "expected a dict of features or a list of strings"
    if isinstance(item, str) or not isinstance(item, Iterable):
        return f"{expected}; got {_described(item)}"
    return _fault_of_list(item, expected)


def _fault_of_value(name: object, value: Any) -> str | None:
    if isinstance(value, str | bool | np.bool_) or (type(value) in (float, int) and abs(value) <= LARGEST_VALUE):
        return None
    if isinstance(value, list) and all(type(inner) is str for inner in value):
        return None
    if isinstance(value, Mapping):
        faults = (_fault_of_value(f"{_text(name)}:{_text(key)}", inner) for key, inner in value.items())
        return next((fault for fault in faults if fault is not None), None)
    expected = f"expected a string, number, truth value, list of strings or dict as the value of {_text(name)!r}"
    if _is_number(value):
        if _is_within(value):
            return None
        return f"{BOUNDS}; {_text(name)!r} is {value}. Scale them down, and leave out what is missing"
    if isinstance(value, bytes):
        return _fault_of_list([value], expected)
    if not isinstance(value, Iterable):
        return f"{expected}; got {_described(value)}" + (". Leave the feature out" if value is None else "")
    return _fault_of_list(value, expected)


def _is_within(value: Any) -> bool:
    try:
        return abs(float(value)) <= LARGEST_VALUE
    except (OverflowError, ValueError, TypeError):  # too long for a float, or an array that holds no number
        return False


def _fault_of_list(value: Iterable[Any], expected: str) -> str | None:
    if isinstance(value, Iterator):
        return f"{expected}; got {_described(value)}, which can be read but once; make it a list"
    for inner in value:
        if isinstance(inner, str):
            continue
        if isinstance(inner, bytes):
            try:
                inner.decode("utf-8")
            except UnicodeDecodeError:
                return f"{expected}; got bytes that are not UTF-8: {inner[:20]!r}; decode them"
        elif _is_number(inner) or getattr(inner, "shape", ()) != ():
            return f"{expected}; got a vector: {_described(value)}. {APART}"
        else:
            return f"{expected}; got {_described(value)} with {_described(inner)} in it"
    return None


def _described(value: Any) -> str:
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    if shape is not None:
        return f"{kind} of shape {tuple(shape)}"
    if isinstance(value, Real | None):
        return f"{kind} ({value})" if value is not None else "None"
    return f"{kind} of {len(value)}" if isinstance(value, list | tuple) else kind
