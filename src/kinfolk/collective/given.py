"""Probabilities that some other model gave, in the forms they come in, brought to one table whose columns have names.

array (n, C)                      of all tokens or nodes, with `classes=[...]`
list of arrays                    one a sentence or document, with `classes=[...]`
list of lists of dicts            {label: probability} a token, as `predict_marginals` of sklearn-crfsuite gives them
data frame                        a column a class
list of data frames               one a sentence or document, each with the same columns in any order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Classes, label_name
from kinfolk.errors import DataWarning, InputError, warn

Array = NDArray[Any]
ROUNDING = 1e-2  # by which rows may miss 1, in half precision too
TOO_SURE = 0.998  # a share of right answers that a model seldom has but of what it was trained on
SURER = 3.0  # so many times as little doubt in training as later gives in-sample probabilities away


@dataclass(frozen=True, eq=False)
class Given:
    """A table (n, C) of probabilities, float64, and the names of its columns."""

    table: Array
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, probabilities: Any, n: int, classes: Any = None, what: str = "token",
        lengths: Mapping[str, Sequence[int]] | None = None,
    ) -> Given:  # fmt: skip
        """Of n tokens or nodes; `classes` names columns that have no names of their own. `lengths` are those of
        sentences, of documents: probabilities in parts have to have the same."""
        table, names, parts = _read(probabilities)
        if names is None:
            if classes is None:
                raise InputError("the columns of the probabilities have no names; name them: `classes=model.classes_`")
            names = tuple(map(name_of, np.asarray(classes).tolist() if hasattr(classes, "__array__") else classes))
            if not table.size and not table.shape[1]:  # of no tokens at all
                table = np.zeros((len(table), len(names)))
            if len(names) != table.shape[1]:
                raise InputError(f"{len(names)} classes are named, and the probabilities have {table.shape[1]} columns")
        if len({*names}) < len(names):
            twice = next(name for k, name in enumerate(names) if name in names[:k])
            raise InputError(f"two columns of the probabilities are named {twice!r}; give each class one")
        if parts is not None and lengths is not None:
            _check_parts(parts, lengths)
        if len(table) != n:
            remedy = "give a row for each, in the same order"
            raise InputError(f"expected probabilities of {n} {what}s; got {len(table)} rows: {remedy}")
        return cls(_checked(table, what), names)

    def aligned(self, classes: Classes, tells: bool = True, seen: Sequence[str] | None = None) -> Array:
        """(n, L) in the order of the classes; what is given to others is spread over these. `seen`: those that the data
        have, where a tag scheme adds some."""
        place = {name: k for k, name in enumerate(classes.names)}
        shared = [k for k, name in enumerate(self.names) if name in place]
        if not shared:
            known, got = ", ".join(classes.names[:8]), ", ".join(self.names[:8])
            raise InputError(f"none of the classes given ({got}) is a label of the data ({known}); name them alike")
        if tells:
            self._tell(place, classes.names if seen is None else seen)
        table = np.zeros((len(self.table), len(classes)))
        table[:, [place[self.names[k]] for k in shared]] = self.table[:, shared]
        total = table.sum(axis=1, keepdims=True)
        return np.where(total > 0, table / np.where(total > 0, total, 1), 1 / len(classes))

    def _tell(self, place: Mapping[str, int], seen: Sequence[str]) -> None:
        strange = [name for name in self.names if name not in place]
        if strange:
            lost = float(self.table[:, [self.names.index(name) for name in strange]].sum() / max(len(self.table), 1))
            what = f"{_listed(strange)} of the classes given are no labels of the data"
            warn(f"{what}; their probability, {lost:.1%} of all, is spread over the others", DataWarning)
        lacking = [name for name in seen if name not in self.names]
        if lacking:
            warn(f"the model given knows nothing of {_listed(lacking)}: their probability is 0 to it", DataWarning)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def name_of(label: Any) -> str:
    """The name that a label goes by in a model; of what cannot be a label, what is written."""
    try:
        return label_name(label)
    except (InputError, TypeError, ValueError):
        return str(label)


def _check_parts(parts: Sequence[int], lengths: Mapping[str, Sequence[int]]) -> None:
    """Refuses parts of other lengths than the sentences, or the documents, have; empty ones may be left out."""
    for known in lengths.values():
        if [*parts] == [*known] or (len(parts) != len(known) and [*filter(None, parts)] == [*filter(None, known)]):
            return
    unit = next((unit for unit, known in lengths.items() if len(known) == len(parts)), None)
    if unit is None:
        there, first = " in ".join(f"{len(known)} {unit}s" for unit, known in lengths.items()), next(iter(lengths))
        raise InputError(f"there are {there}, and probabilities of {len(parts)}: give one array a {first}")
    k = next(k for k, length in enumerate(lengths[unit]) if length != parts[k])
    raise InputError(
        f"{unit} {k} has {lengths[unit][k]} tokens, and {parts[k]} rows of probabilities: give one row a token, "
        "without padding and special tokens"
    )


def _read(probabilities: Any) -> tuple[Array, tuple[str, ...] | None, list[int] | None]:
    """A table, the names of its columns where they have any, and the lengths of its parts where it comes in parts."""
    if hasattr(probabilities, "detach"):
        probabilities = probabilities.detach().cpu().numpy()
    if hasattr(probabilities, "columns") and hasattr(probabilities, "to_numpy"):
        return _numbers(probabilities.to_numpy()), tuple(map(name_of, probabilities.columns)), None
    if not isinstance(probabilities, list | tuple):
        return _numbers(probabilities), None, None
    if not probabilities:
        return np.zeros((0, 0)), None, None
    parts = [one.detach().cpu().numpy() if hasattr(one, "detach") else one for one in probabilities]
    if all(hasattr(one, "columns") and hasattr(one, "to_numpy") for one in parts):
        return _of_frames(parts)
    lengths = [len(part) if hasattr(part, "__len__") else 1 for part in parts]
    first = next((token for part in parts if isinstance(part, list | tuple) for token in part), None)
    if isinstance(first, Mapping):
        rows = [row for part in parts for row in part]
        names = {label: name_of(label) for label in {label: None for row in rows for label in row}}
        place = {name: k for k, name in enumerate(sorted({*names.values()}))}
        table = np.zeros((len(rows), len(place)))
        for i, row in enumerate(rows):
            for label, value in row.items():
                table[i, place[names[label]]] = value
        return table, tuple(place), lengths
    if all(length == 0 or _is_table(part) for part, length in zip(parts, lengths, strict=True)):
        filled = [_numbers(part) for part in parts if len(part)]
        widths = {part.shape[1] for part in filled}
        if len(widths) > 1:
            raise InputError(
                f"the parts of the probabilities have {_listed(sorted(map(str, widths)))} columns; one each"
            )
        return (np.concatenate(filled) if filled else np.zeros((0, 0))), None, lengths
    return _numbers(parts), None, None


def _is_table(part: Any) -> bool:
    try:
        return bool(np.ndim(part) == 2)
    except ValueError:  # rows of several lengths
        return False


def _of_frames(frames: Sequence[Any]) -> tuple[Array, tuple[str, ...], list[int]]:
    """Columns in the order of those of the first."""
    names, tables = tuple(map(name_of, frames[0].columns)), []
    for k, frame in enumerate(frames):
        place = {name_of(name): c for c, name in enumerate(frame.columns)}
        if {*place} != {*names} or len(frame.columns) != len(names):
            raise InputError(
                f"data frame {k} has the columns {_listed([*place])}, the first {_listed(names)}; as there"
            )
        tables.append(_numbers(frame.to_numpy())[:, [place[name] for name in names]])
    return np.concatenate(tables), names, [len(table) for table in tables]


def _numbers(table: Any) -> Array:
    try:
        found = np.asarray(table, np.float64)
    except (TypeError, ValueError):
        raise InputError("probabilities must be numbers, a row a token or node and a column a class") from None
    if found.ndim != 2:
        raise InputError(f"probabilities must have a row a token or node and a column a class; got {found.shape}")
    return found


def _checked(table: Array, what: str) -> Array:
    """Rows that add up to 1, exactly."""
    wrong = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(wrong):
        raise InputError(f"the probabilities of {what} {wrong[0]} are no numbers (one of {len(wrong)}); fill them in")
    if not len(table):
        return table
    with np.errstate(over="ignore"):
        total = table.sum(axis=1)
    wrong = np.flatnonzero((np.abs(total - 1) > ROUNDING) | (table < -ROUNDING).any(axis=1))
    if len(wrong):
        k = int(wrong[0])
        remedy = "of logits give scipy.special.softmax(logits, axis=1); of several labels at once there is one a node"
        raise InputError(f"the probabilities of {what} {k} add up to {total[k]:.4g} (one of {len(wrong)}); {remedy}")
    table = np.clip(table, 0, None)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


# -- whether they were made without the labels they are to be trained on ---------------------------------


def doubt(table: Array) -> float:
    """Mean of what is left beside the most probable class."""
    return float(1 - table.max(axis=1).mean()) if len(table) else 0.0


def warn_of_in_sample(table: Array, labels: Array) -> None:
    """Of probabilities that are nearly always right of labels that are not all one."""
    known = np.flatnonzero(labels >= 0)
    usual = np.bincount(labels[known]).argmax() if len(known) else -1
    rare = known[labels[known] != usual]
    if len(rare) < 50:
        return
    right = float((table[rare].argmax(axis=1) == labels[rare]).mean())
    if right > TOO_SURE:
        warn(
            f"the probabilities given are right of {right:.1%} of the labels they are trained on: were they made by a "
            "model that has seen these? A layer then learns to trust what it should not; give those of models that "
            "have not, by `kf.out_of_fold(model, ...)`",
            DataWarning,
        )


def warn_of_less_sure(before: float, table: Array) -> None:
    """Of probabilities with far more doubt than those trained on."""
    now = doubt(table)
    if len(table) >= 50 and now > SURER * before + 0.005:
        warn(
            f"the probabilities given leave {now:.2%} of doubt, and those trained on left {before:.2%}: were these by "
            "a model that had seen the labels? Train on those of `kf.out_of_fold(model, ...)`",
            DataWarning,
        )
