"""The core object: instances with features, labels, typed relations and groups.

Every task compiles to this, and every model works on it. Frozen, checked once when built; the arrays
are read-only afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.core.labels import Classes
from kinfolk.core.vocabulary import Vocabulary
from kinfolk.errors import InputError


class Relational:
    """n instances, each labelled by itself and by the company it keeps.

    features   CSR (n, F) or dense (n, F), finite numbers
    labels     int32 (n,), -1 = unknown, else an index into `classes`
    classes    the labels: strings, numbers or truth values, of one type
    relations  name -> CSR (n, n); row i lists the instances that i looks at; entries are weights
    groups     int32 (n,), the document or graph of each instance: consecutive groups 0, 1, 2, ...
    """

    __slots__ = ("_paths", "classes", "features", "groups", "labels", "relations")

    _paths: dict[str, Any]

    features: Any
    labels: NDArray[np.int32]
    classes: Classes
    relations: Mapping[str, Any]
    groups: NDArray[np.int32]

    def __init__(
        self,
        features: Any,
        labels: ArrayLike | None = None,
        classes: Sequence[Any] | Vocabulary = (),
        relations: Mapping[str, Any] | None = None,
        groups: ArrayLike | None = None,
    ) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen below)
        put("features", _checked_features(features))
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
        return Relational, (self.features, self.labels, self.classes, dict(self.relations), self.groups)

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


def _checked_features(features: Any) -> Any:
    if sparse.issparse(features) and features.dtype.kind in "fiub":
        csr = _frozen_csr(features)
        if not np.isfinite(csr.data).all():
            entry = int(np.flatnonzero(~np.isfinite(csr.data))[0])
            row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
            raise InputError(_not_finite(csr.data[entry], row, int(csr.indices[entry])))
        return csr
    dense = features if sparse.issparse(features) else np.asarray(features)
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise InputError(f"features must be a numeric table (n, F); got shape {dense.shape} and type {dense.dtype}")
    if dense.dtype.kind == "f" and not np.isfinite(dense).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(dense))[0])
        raise InputError(_not_finite(dense[row, column], row, column))
    return read_only(dense)


def _not_finite(value: float, row: int, column: int) -> str:
    return (
        f"features must be finite; instance {row} has {value} in feature {column}. "
        "Replace or drop missing values before fitting."
    )


def _checked_labels(labels: ArrayLike | None, n: int, classes: Classes) -> NDArray[np.int32]:
    if labels is None:
        return read_only(np.full(n, -1, np.int32))
    array = np.asarray(labels if np.size(labels) else np.empty(0, np.int32))
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise InputError(
            f"labels must be {n} whole numbers, one an instance (-1 = unknown); "
            f"got shape {array.shape} and type {array.dtype}"
        )
    wrong = np.flatnonzero((array < -1) | (array >= len(classes)))
    if len(wrong):
        raise InputError(
            f"labels must lie between -1 and {len(classes) - 1} (the classes); "
            f"instance {wrong[0]} has {array[wrong[0]]}"
        )
    return read_only(array.astype(np.int32, copy=False))


def _checked_groups(groups: ArrayLike | None, n: int) -> NDArray[np.int32]:
    if groups is None:
        return read_only(np.zeros(n, np.int32))
    array = np.asarray(groups if np.size(groups) else np.empty(0, np.int32))
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise InputError(f"groups must be {n} whole numbers, one an instance; got shape {array.shape}")
    if n and (array.min() < 0 or (np.diff(array) < 0).any()):
        raise InputError("groups must be numbered from 0 and stand in order: sort the instances by group")
    return read_only(array.astype(np.int32, copy=False))


def _checked_relation(name: str, relation: Any, n: int) -> Any:
    if not sparse.issparse(relation):
        raise InputError(f"relation {name!r} must be a SciPy sparse matrix (n, n); got {type(relation).__name__}")
    if relation.shape != (n, n):
        raise InputError(f"relation {name!r} must have shape ({n}, {n}); got {relation.shape}")
    csr = _frozen_csr(relation)
    if not np.isfinite(csr.data).all():
        raise InputError(f"relation {name!r} has a weight that is not finite")
    return csr
