"""Labels as people write them, and the names they go by inside: strings, whole numbers, numbers, truth values.

Models, tag schemes and reports work with names, which are strings; a label of another type is written as one and read
back where answers leave the library, so that what comes out is of the type of what went in. One set of labels has one
type. A number has one name whatever holds it: 1, 1.0 and numpy's 1 are all "1", so that a column that became fractional
because a value is missing still has the labels a model was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.vocabulary import Vocabulary
from kinfolk.errors import InputError

TYPES = ("str", "int", "float", "bool")
LARGEST_WHOLE = 1e15  # numbers below it are written without a fraction where they have none; float64 holds them exactly
MISSING = ("NAType", "NaTType")  # pandas' own, known by name: pandas is not imported here


def is_unknown(label: Any) -> bool:
    """None, NaN and what pandas writes for a missing value."""
    if label is None or type(label).__name__ in MISSING:
        return True
    return isinstance(label, float | np.floating) and math.isnan(label)


def label_type(labels: Iterable[Any]) -> str:
    """The type of all labels that are known, one of TYPES; "str" where none is. Whole numbers among fractional ones
    count as such; other mixtures are refused: 1 and "1" would become one label."""
    found: dict[type, Any] = {}
    for label in labels:
        if type(label) not in found and not is_unknown(label):
            found[type(label)] = label
    return common_type({_type_of(label): label for label in found.values()})


def common_type(types: Iterable[str]) -> str:
    """The type of labels of several types; a mapping tells an example of each."""
    known = dict.fromkeys(types)
    if not known:
        return "str"
    if known.keys() == {"int", "float"}:
        return "float"
    if len(known) > 1:
        shown = {one: f" ({types[one]!r})" if isinstance(types, dict) else "" for one in known}
        told = " and ".join(one + shown[one] for one in known)
        raise InputError(f"labels must be of one type; got {told}: turn them all into one, such as strings")
    return next(iter(known))


def _type_of(label: Any) -> str:
    if isinstance(label, str):
        return "str"
    if isinstance(label, bool | np.bool_):
        return "bool"
    if isinstance(label, Integral):
        return "int"
    if isinstance(label, Real):
        return "float"
    got = f"got {label!r}, a {type(label).__name__}: turn it into a string"
    raise InputError(f"labels must be strings, numbers or truth values, None where unknown; {got}")


def label_name(label: Any) -> str:
    """The name that a label goes by."""
    if isinstance(label, str):
        return str.__str__(label)  # a plain string also of numpy's strings and of members of an Enum
    kind = _type_of(label)
    if kind == "bool":
        return str(bool(label))
    if kind == "int":
        return str(int(label))
    number = float(label)
    return str(int(number)) if number.is_integer() and abs(number) < LARGEST_WHOLE else repr(number)


def label_names(labels: Sequence[Any]) -> tuple[list[str | None], str]:
    """The names of labels, None where unknown, and their type."""
    kind = label_type(labels)
    name = {label: None if is_unknown(label) else label_name(label) for label in {*labels}}  # once a label
    return [name[label] for label in labels], kind


def label_of(name: str, kind: str) -> Any:
    """The label of a type that goes by a name: `label_name` turned round."""
    if kind == "str":
        return name
    if kind == "bool":
        return {"False": False, "True": True}[name]
    return int(name) if kind == "int" else float(name)


class Classes(Vocabulary):
    """The labels a model tells apart: names numbered 0, 1, 2, ..., and their type.

    Iterating and indexing give labels as they were written, `names` are strings. Labels and names are both found.

    >>> Classes.of([3, 7])[1], Classes.of([3, 7]).names, 7 in Classes.of([3, 7])
    (7, ('3', '7'), True)
    """

    __slots__ = ("_labels", "type")

    def __init__(self, names: Iterable[str], type: str = "str") -> None:
        super().__init__(names)
        self.type = type
        self._labels = tuple(label_of(name, type) for name in self.names)

    @classmethod
    def of(cls, labels: Iterable[Any]) -> Classes:
        """The labels as given, in their order; a plain vocabulary holds strings."""
        if isinstance(labels, Vocabulary):
            return labels if isinstance(labels, Classes) else cls(labels.names)
        given = list(labels)
        return cls(map(label_name, given), label_type(given))

    @classmethod
    def sorted(cls, names: Iterable[str], type: str = "str") -> Classes:
        """Strings in the order of their letters, numbers by their size, False before True."""
        return cls(sorted(names, key=lambda name: label_of(name, type)), type)

    def part(self, numbers: Iterable[int]) -> Classes:
        """Some of the classes, numbered anew."""
        return Classes([self.names[i] for i in numbers], self.type)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels as they were written."""
        return self._labels

    def array(self) -> NDArray[Any]:
        """The labels as an array of their type: strings as objects, numbers as int64 or float64, truth values."""
        wide = self.type == "int" and any(not -(2**63) <= label < 2**63 for label in self._labels)
        dtype = {"str": object, "int": object if wide else np.int64, "float": np.float64, "bool": bool}[self.type]
        return np.array(self._labels, dtype)

    def get(self, name: Any) -> int:
        """The number of a label, or of the name of one; -1 if there is none."""
        return self._index.get(name if isinstance(name, str) else label_name(name), -1)

    def __getitem__(self, number: int) -> Any:
        return self._labels[number]

    def __iter__(self) -> Any:
        return iter(self._labels)

    def __contains__(self, name: object) -> bool:
        return self.get(name) >= 0

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and getattr(other, "type", "str") == self.type

    def __hash__(self) -> int:
        return hash((self.names, self.type))


class Coded(NamedTuple):
    """Labels that were looked up already: numbers of classes (n,), -1 = unknown."""

    codes: NDArray[Any]
    classes: Classes

    @classmethod
    def of(cls, names: Sequence[str | None], classes: Classes) -> Coded:
        """Of names that are all among the classes; None is unknown."""
        number: dict[str | None, int] = {name: i for i, name in enumerate(classes.names)}
        number[None] = -1
        return cls(np.fromiter(map(number.__getitem__, names), np.int32, len(names)), classes)
