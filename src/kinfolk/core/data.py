"""The core object: instances with features, labels, typed relations and groups.

Every task compiles to this, and every model works on it. Frozen, checked once when built; the arrays
are read-only afterwards.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from numbers import Integral, Real
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.core.beside import Beside
from kinfolk.errors import InputError, ModelFileError, SettingError

log = logging.getLogger("kinfolk")
T = TypeVar("T", bound=Any)

# -- A frozen two-way map between names and consecutive integers ---------------------------------------


class Vocabulary:
    """Names numbered 0, 1, 2, ... in the order given; nothing can be added later.

    >>> Vocabulary(["O", "B-PER"]).encode(["B-PER", "B-LOC"]).tolist()
    [1, -1]
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._numbers: dict[str, int] | None = None
        if len(set(self._names)) < len(self._names):
            twice = next(name for i, name in enumerate(self._names) if self._index[name] != i)
            raise InputError(f"a vocabulary needs distinct names; {twice!r} stands in it twice")

    @property
    def _index(self) -> dict[str, int]:
        """Made when first used: training never looks names up, and the map is most of the memory."""
        if self._numbers is None:
            self._numbers = {name: i for i, name in enumerate(self._names)}
        return self._numbers

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def told(self) -> tuple[Any, ...]:
        """What it holds, for a digest."""
        return self._names, getattr(self, "type", "")

    def get(self, name: str) -> int:
        """The number of `name`, or -1."""
        return self._index.get(name, -1)

    def encode(self, names: Sequence[str]) -> NDArray[np.int32]:
        """Numbers of many names, -1 where a name is unknown."""
        get = self._index.get
        return np.fromiter((get(name, -1) for name in names), np.int32, len(names))

    def codes(self, names: Iterable[str | None]) -> list[int]:
        """1 + the number of each name, -1 where a name is unknown, or there is none."""
        get = self._index.get
        return [-1 if (number := get(name, -1)) < 0 else number + 1 for name in names]  # type: ignore[arg-type]

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        head = ", ".join(map(repr, islice(self, 5)))
        return f"{type(self).__name__}([{head}{', ...' if len(self) > 5 else ''}], {len(self)} names)"


# -- Labels as people write them, and the names they go by inside: strings, whole numbers, numbers, truth values ---
#
# Models, tag schemes and reports work with names, which are strings; a label of another type is written as one and read
# back where answers leave the library, so that what comes out is of the type of what went in. One set of labels has one
# type. A number has one name whatever holds it: 1, 1.0 and numpy's 1 are all "1", so that a column that became
# fractional because a value is missing still has the labels a model was trained on. Members of an Enum go by their
# values where these are labels themselves, else by their own names; a model file keeps no class, and has those.

TYPES = ("str", "int", "float", "bool")
LARGEST_WHOLE = 1e15  # numbers below it are written without a fraction where they have none; float64 holds them exactly
MISSING = ("NAType", "NaTType")  # pandas' own, known by name: pandas is not imported here


class Members(str):
    """The type of labels that are members of an Enum: to all others that of what stands for them in a file."""

    enum: type[Enum]
    members: dict[str, Enum]

    def __new__(cls, enum: type[Enum]) -> Members:
        values = [member.value for member in enum]
        try:
            kind, names = label_type(values), [label_name(value) for value in values]
        except InputError:  # tuples, or several types
            kind, names = "str", [member.name for member in enum]
        made = super().__new__(cls, kind)
        made.enum, made.members = enum, dict(zip(names, enum, strict=True))
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.enum,)


@functools.cache
def _names_of(enum: type[Enum]) -> dict[str, str]:
    """Of the members of an Enum: their own names, and those they go by."""
    return {member.name: name for name, member in Members(enum).members.items()}


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
    enums = [kind for kind in found if issubclass(kind, Enum)]
    if len(enums) == len(found) == 1:
        return Members(enums[0])
    return common_type({_type_of(label): label for label in found.values()})


def common_type(types: Iterable[str]) -> str:
    """The type of labels of several types; a mapping has an example of each."""
    given = list(types)
    if given and all(isinstance(one, Members) and one.enum is getattr(given[0], "enum", None) for one in given):
        return given[0]
    known = dict.fromkeys(str.__str__(one) for one in given)
    if not known:
        return "str"
    if known.keys() == {"int", "float"}:
        return "float"
    if len(known) > 1:
        shown = {one: f" ({types[one]!r})" if isinstance(types, dict) else "" for one in known}
        found = " and ".join(one + shown[one] for one in known)
        raise InputError(f"labels must be of one type; got {found}: turn them all into one, such as strings")
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
    if isinstance(label, Enum):  # one beside labels of another type
        return type(label).__name__
    got = f"got {label!r}, a {type(label).__name__}: turn it into a string"
    raise InputError(f"labels must be strings, numbers or truth values, None where unknown; {got}")


def label_name(label: Any) -> str:
    """The name that a label goes by."""
    if isinstance(label, Enum):
        return _names_of(type(label))[label.name]
    if isinstance(label, str):
        return str.__str__(label)  # a plain string also of numpy's strings
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
    """The label of a type that goes by a name: `label_name` turned round. A tag that a scheme adds to those of an Enum
    is no member of it, and stays what its name is."""
    if isinstance(kind, Members) and name in kind.members:
        return kind.members[name]
    if kind == "str":
        return name
    if kind == "bool":
        return {"False": False, "True": True}[name]
    return int(name) if kind == "int" else float(name)


class Classes(Vocabulary):
    """The labels of a model: names numbered 0, 1, 2, ..., and their type.

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
        plain = str.__str__(type)  # members of an Enum have no order, their names do
        return cls(sorted(names, key=lambda name: label_of(name, plain)), type)

    def part(self, numbers: Iterable[int]) -> Classes:
        """Some of the classes, numbered anew."""
        return Classes([self.names[i] for i in numbers], self.type)

    def plain(self) -> Classes:
        """The labels as files and tables hold them: members of an Enum as what they go by."""
        return Classes(self.names, str.__str__(self.type)) if isinstance(self.type, Members) else self

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels as they were written."""
        return self._labels

    def array(self) -> NDArray[Any]:
        """The labels as an array of their type: strings and members of an Enum as objects, numbers as int64 or float64,
        truth values."""
        if isinstance(self.type, Members):
            return np.fromiter(self._labels, object, len(self._labels))
        wide = self.type == "int" and any(not -(2**63) <= label < 2**63 for label in self._labels)
        dtype = {"str": object, "int": object if wide else np.int64, "float": np.float64, "bool": bool}[self.type]
        return np.array(self._labels, dtype)

    def as_written(self, answer: T) -> T:
        """An explanation, made with names, with labels of the type they were trained in."""
        if self.type == "str" and not isinstance(self.type, Members):
            return answer
        return replace(answer, label=self[self.get(answer.label)], classes=self.labels)  # type: ignore[type-var]

    def to_state(self) -> dict[str, Any]:
        """What a model file keeps."""
        return {"classes": list(self.names), "type": str.__str__(self.type)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Classes:
        """A file without a type is of the time when all labels were strings."""
        names, kind = state["classes"], state.get("type", "str")
        if kind not in TYPES:
            raise ModelFileError(f"labels of type {kind!r} are not known; expected {', '.join(TYPES)}: upgrade kinfolk")
        found = cls(names, kind)
        if not all(map(str.__eq__, names, map(label_name, found))):
            raise ModelFileError("labels are not of the type that the file says they are")
        return found

    def get(self, name: Any) -> int:
        """The number of a label, or of the name of one; -1 if there is none."""
        plain = isinstance(name, str) and not isinstance(name, Enum)
        return self._index.get(name if plain else label_name(name), -1)

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


MOST_LABELS = 2_000  # of a model with label pairs: a table of L × L weights, and as much work an instance


def check_labels(n_labels: int, remedy: str) -> None:
    """An error where there are more labels than a model with weights for pairs of them can be trained with."""
    if n_labels > MOST_LABELS:
        raise InputError(
            f"a model in which labels speak of each other takes at most {MOST_LABELS:,} labels, as it has a weight for "
            f"every pair and looks at all pairs for every instance; got {n_labels:,}. Are these labels, and not ids? "
            f"Merge rare ones, or {remedy}"
        )


LARGEST_WEIGHT = 1e9  # beyond it everything else is rounding
LEAST_WEIGHT = 1e-30  # what is below it counts for nothing: sums of such numbers, and 1 over them, are none


def class_weights(
    labels: NDArray[np.int32], classes: Classes, class_weight: Mapping[Any, float] | str | None
) -> NDArray[np.float64]:
    """(L,). "balanced" gives every class that occurs the same total; a key may be a label or an entity type."""
    weights = np.ones(len(classes))
    if class_weight is None:
        return weights
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(labels[labels >= 0], minlength=len(classes))
        return np.where(counts > 0, counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1)), 1.0)
    if not isinstance(class_weight, Mapping):
        raise SettingError("class_weight", class_weight, "a dict, 'balanced' or None")
    for key, weight in class_weight.items():
        hit = [i for i, name in enumerate(classes.names) if i == classes.get(key) or name[1:] == f"-{key}"]
        if not hit:
            there = ", ".join(classes.names)
            raise SettingError.saying(f"class_weight names {key!r}, which is no label or type; there are {there}")
        if not isinstance(weight, Real) or not 0 <= float(weight) <= LARGEST_WEIGHT:
            raise SettingError.saying(
                f"class_weight[{key!r}] must be a number from 0 to {LARGEST_WEIGHT:g}; got {weight!r}"
            )
        weights[hit] = float(weight)
    return weights


def sample_weights(given: Any, n: int, unit: str) -> NDArray[np.float64]:
    """(n,) as float64: numbers from 0 to LARGEST_WEIGHT, one a `unit`; those below LEAST_WEIGHT are 0."""
    try:
        weights: NDArray[np.float64] = np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"sample_weight must hold numbers, one a {unit}") from None
    if weights.shape != (n,):
        raise InputError(f"sample_weight must have one number a {unit} ({n}); got {weights.shape}")
    wrong = np.flatnonzero(~((weights >= 0) & (weights <= LARGEST_WEIGHT)))
    if len(wrong):
        raise InputError(
            f"sample_weight must be finite, not negative, and at most {LARGEST_WEIGHT:g}; {unit} {wrong[0]} has "
            f"{weights[wrong[0]]:g}. Divide all of them by the largest"
        )
    return np.where(weights < LEAST_WEIGHT, 0.0, weights)


NO_WEIGHT = "sample_weight must have a number above 0 among what is learned from, not all zeros"


def warn_unseen(names: Sequence[str]) -> None:
    if names:
        log.warning("labels that training never saw count as misses: %s", ", ".join(map(repr, names)))


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


# -- data ------------------------------------------------------------------------------------------


class Relational:
    """n instances, with features, labels, relations and groups.

    features   CSR (n, F), dense (n, F) or a CSR with dense columns beside it (`Beside`), finite numbers
    labels     int32 (n,), -1 = unknown, else an index into `classes`
    classes    the labels: strings, numbers or truth values, of one type
    relations  name -> CSR (n, n); row i lists the instances that i looks at; entries are weights
    groups     int32 (n,), the document or graph of each instance: consecutive groups 0, 1, 2, ...
    missing    whether features may be NaN, which few models take
    """

    __slots__ = ("_paths", "classes", "features", "groups", "labels", "missing", "relations")

    _paths: dict[str, Any]

    features: Any
    labels: NDArray[np.int32]
    classes: Classes
    relations: Mapping[str, Any]
    groups: NDArray[np.int32]
    missing: bool

    def __init__(
        self,
        features: Any,
        labels: ArrayLike | None = None,
        classes: Sequence[Any] | Vocabulary = (),
        relations: Mapping[str, Any] | None = None,
        groups: ArrayLike | None = None,
        missing: bool = False,
    ) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen below)
        put("features", _checked_features(features, missing))
        put("missing", missing)
        n = self.features.shape[0]
        put("classes", Classes.of(classes))
        put("labels", _checked_labels(labels, n, self.classes))
        put("groups", _checked_groups(groups, n))
        checked = {name: _checked_relation(name, r, n) for name, r in (relations or {}).items()}
        put("relations", MappingProxyType(checked))
        put("_paths", {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Relational is frozen: build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Relational is frozen: it keeps {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent to other processes by building it anew."""
        return Relational, (
            self.features, self.labels, self.classes, dict(self.relations), self.groups, self.missing
        )  # fmt: skip

    @property
    def paths(self) -> dict[str, Any]:
        """Links that were made of its relations (two steps, unions), by name: kept by who makes them, made once."""
        return self._paths

    @property
    def n_instances(self) -> int:
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    def __len__(self) -> int:
        return self.n_instances

    def __repr__(self) -> str:
        links = ", ".join(f"{name} {r.nnz}" for name, r in self.relations.items()) or "none"
        n_groups = int(self.groups[-1]) + 1 if len(self.groups) else 0
        return (
            f"Relational({self.n_instances} instances, {self.n_features} features, "
            f"{len(self.classes)} classes, relations: {links}, {n_groups} groups)"
        )


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of the array that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def _frozen_csr(matrix: Any) -> Any:
    shallow = sparse.csr_array(matrix, copy=False)
    if not shallow.has_canonical_format:
        shallow = shallow.copy()  # the arrays are the caller's: sorting them would change his matrix
        shallow.sum_duplicates()
    if max(shallow.nnz, *shallow.shape) <= np.iinfo(np.int32).max:  # half the memory, and what scikit-learn takes
        shallow.indices, shallow.indptr = (a.astype(np.int32, copy=False) for a in (shallow.indices, shallow.indptr))
    for part in ("data", "indices", "indptr"):
        setattr(shallow, part, read_only(getattr(shallow, part)))
    return shallow


ROWS = 4096  # of a dense table looked over together: a block stays in cache


def _checked_features(features: Any, missing: bool) -> Any:
    right = _no_infinity if missing else np.isfinite
    if isinstance(features, Beside):
        return Beside(_checked_features(features.sparse, missing), _checked_features(features.dense, missing))
    if sparse.issparse(features) and features.dtype.kind in "fiub":
        csr = _frozen_csr(features)
        if not right(csr.data).all():
            entry = int(np.flatnonzero(~right(csr.data))[0])
            row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
            raise InputError(_not_finite(csr.data[entry], row, int(csr.indices[entry])))
        return csr
    dense = features if sparse.issparse(features) else np.asarray(features)
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise InputError(f"features must be a numeric table (n, F); got shape {dense.shape} and type {dense.dtype}")
    if dense.dtype.kind == "f" and not all(right(dense[at : at + ROWS]).all() for at in range(0, len(dense), ROWS)):
        row, column = (int(i) for i in np.argwhere(~right(dense))[0])
        raise InputError(_not_finite(dense[row, column], row, column))
    return read_only(dense)


def _no_infinity(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(~np.isinf(values))


def _not_finite(value: float, row: int, column: int) -> str:
    return (
        f"features must be finite; instance {row} has {value} in feature {column}. "
        "Replace or drop missing values before fitting."
    )


def _whole_numbers(name: str, values: ArrayLike, n: int, note: str = "") -> NDArray[Any]:
    array = np.asarray(values if np.size(values) else np.empty(0, np.int32))
    if array.shape != (n,) or array.dtype.kind not in "iu":
        got = f"got shape {array.shape} and type {array.dtype}"
        raise InputError(f"{name} must be {n} whole numbers, one an instance{note}; {got}")
    return array


def _checked_labels(labels: ArrayLike | None, n: int, classes: Classes) -> NDArray[np.int32]:
    if labels is None:
        return read_only(np.full(n, -1, np.int32))
    array = _whole_numbers("labels", labels, n, " (-1 = unknown)")
    wrong = np.flatnonzero((array < -1) | (array >= len(classes)))
    if len(wrong):
        limits = f"labels must lie between -1 and {len(classes) - 1} (the classes)"
        raise InputError(f"{limits}; instance {wrong[0]} has {array[wrong[0]]}")
    return read_only(array.astype(np.int32, copy=False))


def _checked_groups(groups: ArrayLike | None, n: int) -> NDArray[np.int32]:
    array = _whole_numbers("groups", np.zeros(n, np.int32) if groups is None else groups, n)
    if n and (array.min() < 0 or (np.diff(array) < 0).any()):
        raise InputError("groups must be numbered from 0 and stand in order: sort the instances by group")
    return read_only(array.astype(np.int32, copy=False))


def _checked_relation(name: str, relation: Any, n: int) -> Any:
    if not sparse.issparse(relation):
        raise InputError(f"relation {name!r} must be a SciPy sparse matrix (n, n); got {type(relation).__name__}")
    if relation.shape != (n, n):
        raise InputError(f"relation {name!r} must have shape ({n}, {n}); got {relation.shape}")
    csr = _frozen_csr(relation)
    wrong = ~(np.abs(csr.data) <= LARGEST_VALUE) if csr.dtype.kind in "fiu" else np.zeros(0, bool)
    if wrong.any():
        entry = int(wrong.argmax())
        row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
        raise InputError(
            f"weights of links must be finite and lie within ±{LARGEST_VALUE:g}; relation {name!r} has "
            f"{csr.data[entry]:g} from {row} to {csr.indices[entry]}, a weight that is not finite or too large. Scale "
            "them down"
        )
    return csr


# -- A column of strings, one a token; of labels of any type, their names ------------------------------
#
# It stores each distinct string once and a number per token, so whatever depends on the string alone (lower case,
# shape, affixes) is computed once a word type and spread by indexing.


@dataclass(frozen=True, eq=False)
class Column:
    """Token t holds `values[codes[t]]`; a code of -1 means no value is known there.

    type   of labels: what the values are names of, "str", "int", "float", "bool" or `Members`; see `labels`
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
        return self._spread([*self.values, None])

    def labels(self) -> list[Any]:
        """One label (or None) a token, of the type the labels came in."""
        return self._spread([*(label_of(name, self.type) for name in self.values), None])

    def _spread(self, table: list[Any]) -> list[Any]:
        """The object of each code, of which -1 points to the last."""
        objects = np.empty(len(table), object)
        objects[:] = table
        found: list[Any] = objects[self.codes].tolist()
        return found

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


# -- How large the value of a feature may be, in training and in prediction alike ----------------------

LARGEST_VALUE = 1e12  # beyond it squares and sums of float32 scores lose all meaning
BOUNDS = f"feature values must be finite and lie within ±{LARGEST_VALUE:g}"


# -- The last wall: no label is read off probabilities, or scores, that are not numbers ----------------

Array = NDArray[Any]


def finite(table: Array, whose: str) -> Array:
    """A table with a row an instance, of probabilities, of scores or of logarithms (-inf: impossible); an error where
    an entry is NaN, or a score so large that its probability would be. `whose`: who gave it."""
    wrong = ~(table < np.inf)
    if wrong.any():
        rows = int(wrong.reshape(len(table), -1).any(axis=1).sum())
        raise InputError(
            f"{whose} gave NaN for probabilities of {rows} row{'s' * (rows > 1)}; no label can be read off them. Look "
            "for very large features and, in a model, for weights that are not finite"
        )
    return table
