"""A column of strings, one a token; of labels of any type, their names.

It stores each distinct string once and a number per token, so whatever depends on the string alone (lower case, shape,
affixes) is computed once a word type and spread by indexing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.labels import common_type, label_names, label_of
from kinfolk.errors import InputError


@dataclass(frozen=True, eq=False)
class Column:
    """Token t holds `values[codes[t]]`; a code of -1 means no value is known there.

    type   of labels: what the values are names of, "str", "int", "float" or "bool"; see `labels`
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]
    type: str = "str"

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes, np.int32)
        if codes.ndim != 1 or (len(codes) and not -1 <= codes.min() <= codes.max() < len(self.values)):
            raise InputError(f"column codes must be one row of numbers from -1 to {len(self.values) - 1}")
        object.__setattr__(self, "codes", read_only(codes))

    @classmethod
    def from_strings(cls, strings: Iterable[str | None]) -> Column:
        """Number the distinct strings in order of appearance; None becomes -1."""
        given = list(strings)
        strange = next((s for s in given if not isinstance(s, str | None)), None)
        if strange is not None:
            raise InputError(f"expected strings; got {strange!r}, a {type(strange).__name__}")
        values = [s for s in dict.fromkeys(given) if s is not None]
        numbers: dict[str | None, int] = {s: i for i, s in enumerate(values)}
        numbers[None] = -1
        return cls(np.fromiter(map(numbers.__getitem__, given), np.int32, len(given)), tuple(values))

    @classmethod
    def from_labels(cls, labels: Iterable[Any]) -> Column:
        """A column of labels: strings, whole numbers, numbers or truth values, all of one type; None and NaN become
        -1."""
        given = list(labels)
        if {*map(type, given)} <= {str, NoneType}:
            return cls.from_strings(given)
        names, kind = label_names(given)
        return replace(cls.from_strings(names), type=kind)

    def strings(self) -> list[str | None]:
        """One string (or None) a token."""
        table = [*self.values, None]
        return [table[code] for code in self.codes]

    def labels(self) -> list[Any]:
        """One label (or None) a token, of the type the labels came in."""
        table = [*(label_of(name, self.type) for name in self.values), None]
        return [table[code] for code in self.codes]

    def __len__(self) -> int:
        return len(self.codes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent to other processes by building it anew, so the copy is read-only too."""
        return Column, (self.codes, self.values, self.type)

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """Columns one after the other, each distinct string once."""
        kind = common_type(column.type for column in columns if column.values)
        if all(column.values is columns[0].values for column in columns):  # parts of one column
            return cls(np.concatenate([column.codes for column in columns]), columns[0].values, kind)
        number: dict[str, int] = {}
        codes = []
        for column in columns:
            table = [number.setdefault(value, len(number)) for value in column.values]
            codes.append(np.array([*table, -1], np.int32)[column.codes])
        return cls(np.concatenate(codes), tuple(number), kind)

    def take(self, tokens: NDArray[Any]) -> Column:
        """The values of some tokens, without the strings that none of them has."""
        codes = self.codes[tokens]
        used = np.unique(codes[codes >= 0])
        if len(used) == len(self.values):
            return replace(self, codes=codes)
        number = np.full(len(self.values) + 1, -1, np.int32)
        number[used] = np.arange(len(used), dtype=np.int32)
        return Column(number[codes], tuple(self.values[code] for code in used.tolist()), self.type)

    def slice(self, start: int, stop: int) -> Column:
        return replace(self, codes=self.codes[start:stop])
