"""Vectors of tokens, such as embeddings: dense columns beside what templates or feature dicts say of a token.

They come as one array (tokens, columns), `corpus.with_vectors(array)` or `fit(X, y, vectors=array)`, or as one array a
sentence. A model learns the mean and the scale of each column in training and sees

    (x - mean) / scale

ever after, so that one ridge (`vector_l2`) suits all columns; a column that is constant in training counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import BOUNDS, LARGEST_VALUE, read_only
from kinfolk.core.modelfile import fits
from kinfolk.core.row_index import is_frame, refuse_other_order
from kinfolk.errors import InputError

ROWS = 4096  # worked on together: a block stays in cache
# A standard deviation below this share of the mean is rounding: values are neighbours among numbers of float32.
CONSTANT = float(np.finfo(np.float32).eps)
FAINT = 1e-30  # and so is one below this, of which float32 has few digits or none
WITHOUT = "Where a word has no vector give zeros, or the mean of the others"
UNNAMED = "vectors"  # what all columns are called where they have no names
APART = (
    "Give vectors apart from words and features, one row a token: `fit(X, y, vectors=array)`, `predict(X, "
    "vectors=array)` with an array (tokens, columns) or one such array a sentence, or `corpus.with_vectors(array)`"
)

Array = NDArray[Any]


# -- what comes in ------------------------------------------------------------------------------------


def as_vectors(given: Any, lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
    """float32 (n, d), read only: of one array for all tokens, or of one a sentence; `lengths`: of the sentences."""
    n = int(sum(lengths))
    if isinstance(given, str | bytes):
        raise InputError(f"vectors must be an array (tokens, columns); got a {type(given).__name__}")
    refuse_other_order(given, "vectors")
    parts = _as_array(given) if hasattr(given, "shape") else [_as_array(one) for one in _listed(given)]
    if isinstance(parts, list):
        parts = _sentences(parts, lengths) if any(part.ndim == 2 for part in parts) else _as_array(parts)
    elif parts.ndim == 3 or (parts.ndim == 1 and parts.dtype == object):
        parts = _sentences([_as_array(one) for one in _listed(parts)], lengths)
    return checked_vectors(parts, n)


def column_names(given: Any) -> tuple[str, ...] | None:
    """Of a data frame, or of those of sentences, the names of its columns; None where it has none of its own."""
    parts = given if isinstance(given, list | tuple) else [given]
    if not len(parts) or not all(map(is_frame, parts)):
        return None
    found = [tuple(map(str, part.columns)) for part in parts]
    other = next((k for k, names in enumerate(found) if names != found[0]), None)
    if other is not None:
        raise InputError(f"data frame {other} of vectors has other columns than the first; give all the same, in order")
    numbers = tuple(map(str, range(len(found[0]))))
    if found[0] != numbers and {*found[0]} == {*numbers}:
        raise InputError(f"the columns of vectors are numbered {', '.join(found[0][:5])}, ...; give them in order")
    return None if found[0] == numbers else found[0]


def checked_vectors(array: Array, n: int) -> NDArray[np.float32]:
    """An array of n rows of finite numbers, as float32 that cannot be written to."""
    if array.ndim != 2:
        raise InputError(f"vectors must be an array (tokens, columns), one row a token; got shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"vectors must be numbers; got an array of {array.dtype}")
    if len(array) != n:
        raise InputError(
            f"vectors must have one row a token: there are {n} tokens and {len(array)} rows. `words_from_pieces` "
            "makes rows of words of those of word pieces; of padded sentences leave out the padding"
        )
    if not array.shape[1]:
        raise InputError("vectors must have at least one column; leave them out if there are none")
    if array.dtype == np.float16:  # in which the bound is infinite
        array = array.astype(np.float32)
    for first, block in _blocks(array):
        wrong = ~(np.abs(block) <= LARGEST_VALUE)
        if wrong.any():
            row, column = map(int, np.argwhere(wrong)[0])
            raise InputError(
                f"{BOUNDS}; the vector of token {first + row} has {block[row, column]} in column {column}. {WITHOUT}"
            )
    return read_only(np.ascontiguousarray(array, np.float32))


def checked_names(names: Any, width: int) -> tuple[str, ...] | None:
    """One string a column; None: they have none."""
    if names is None:
        return None
    found = () if isinstance(names, str) else tuple(names)
    if len(found) != width or not all(isinstance(name, str) for name in found):
        got = "a string" if isinstance(names, str) else f"{len(found)}"
        raise InputError(f"names must be one string for each of the {width} columns of the vectors; got {got}")
    return found


def _listed(given: Any) -> list[Any]:
    try:
        found = list(given)
    except TypeError:
        raise InputError(f"vectors must be an array (tokens, columns); got a {type(given).__name__}") from None
    _refuse_gaps(found)
    return found


def _refuse_gaps(rows: Sequence[Any]) -> None:
    place = next((i for i, one in enumerate(rows) if one is None), None)
    if place is not None:
        raise InputError(f"vectors must be rows of numbers, one a token; there is None at place {place}. {WITHOUT}")


def _as_array(given: Any) -> Array:
    if sparse.issparse(given):
        raise InputError("vectors must be a dense array; got a sparse matrix of SciPy: give matrix.toarray()")
    if isinstance(given, list | tuple):
        _refuse_gaps(given)
    try:
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths; a tensor of a device, or learned
        reason = str(error).split("\n")[0]
        raise InputError(
            f"vectors must be an array (tokens, columns); got a {type(given).__name__} that does not become one "
            f"({reason}). Of a tensor give tensor.detach().cpu().numpy()"
        ) from None


def _sentences(parts: list[Array], lengths: Sequence[int] | NDArray[np.int64]) -> Array:
    """One array of those of sentences; a sentence without tokens may have an empty one of any shape."""
    if len(parts) != len(lengths):
        raise InputError(f"there are {len(lengths)} sentences, and vectors of {len(parts)}: give one array a sentence")
    kept = []
    for s, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if len(part) != length or (length and part.ndim != 2):
            raise InputError(
                f"sentence {s} has {length} tokens, and vectors of shape {part.shape}: give one row a token, without "
                "padding and special tokens"
            )
        kept += [part] if length else []
    widths = {part.shape[1] for part in kept}
    if len(widths) > 1:
        raise InputError(f"vectors of all sentences must have the same number of columns; got {sorted(widths)}")
    return np.concatenate(kept) if kept else np.empty((0, 1), np.float32)


def _blocks(array: Array) -> Iterator[tuple[int, Array]]:
    return ((first, array[first : first + ROWS]) for first in range(0, len(array), ROWS))


# -- what a model has learned of them -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class VectorColumns:
    """mean and scale (d,) of the columns in training, and their names; None: they had none."""

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    names: tuple[str, ...] | None = None

    @classmethod
    def learn(cls, vectors: Array, names: tuple[str, ...] | None) -> VectorColumns:
        n, width = vectors.shape
        mean, square = np.zeros(width), np.zeros(width)
        for _, block in _blocks(vectors):
            mean += block.sum(axis=0, dtype=np.float64)
        mean /= max(1, n)
        for _, block in _blocks(vectors):
            square += ((block - mean) ** 2).sum(axis=0)
        deviation = np.sqrt(square / max(1, n))
        scale = np.where(deviation > np.maximum(CONSTANT * np.abs(mean), FAINT), deviation, np.inf)
        return cls(mean.astype(np.float32), np.minimum(scale, LARGEST_VALUE).astype(np.float32), names)

    @property
    def width(self) -> int:
        return len(self.mean)

    def rows(self, vectors: Array | None, names: tuple[str, ...] | None) -> NDArray[np.float32]:
        """(n, d), standardised; an error unless they are the columns that training had."""
        if vectors is None:
            raise InputError(
                f"the model was trained with vectors of {self.width} columns, and was given none: give "
                "`vectors=array`, or `corpus.with_vectors(array)`"
            )
        if vectors.shape[1] != self.width:
            raise InputError(
                f"the model was trained with vectors of {self.width} columns, and was given {vectors.shape[1]}: make "
                "them as for training"
            )
        if names is not None and self.names is not None and names != self.names:
            j = next(j for j, (a, b) in enumerate(zip(names, self.names, strict=True)) if a != b)
            raise InputError(
                f"column {j} of the vectors is named {names[j]!r}, and was {self.names[j]!r} in training: give the "
                "columns in that order"
            )
        made, per = np.empty(vectors.shape, np.float32), 1 / self.scale
        for first, block in _blocks(vectors):
            out = np.subtract(block, self.mean, out=made[first : first + len(block)])
            with np.errstate(over="ignore"):  # told below
                out *= per
            if max(out.max(initial=0), -out.min(initial=0)) > LARGEST_VALUE:
                row, column = map(int, np.argwhere(np.abs(out) > LARGEST_VALUE)[0])
                raise InputError(
                    f"vectors must be of the scale they had in training; token {first + row} has {block[row, column]} "
                    f"in column {column}, where they deviated by {self.scale[column]:g} from {self.mean[column]:g}. "
                    "Make them as for training"
                )
        return made

    def groups(self) -> tuple[list[str], NDArray[np.int64]]:
        """What columns are called in an explanation, and which of these each column (d,) is: columns of one name are
        one."""
        names = [UNNAMED] * self.width if self.names is None else self.names
        known = list(dict.fromkeys(names))
        number = {name: i for i, name in enumerate(known)}
        return known, np.array([number[name] for name in names], np.int64)

    def feature_names(self) -> list[str]:
        """One a column, with its number unless it has a name of its own."""
        known, group = self.groups()
        alone = np.bincount(group, minlength=len(known)) == 1
        return [
            known[g] if self.names is not None and alone[g] else f"{known[g]}[{j}]"
            for j, g in enumerate(group.tolist())
        ]

    # -- model files ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Array], dict[str, Sequence[str]]]:
        names: dict[str, Sequence[str]] = {} if self.names is None else {"vectors.names": self.names}
        return {"vectors.mean": self.mean, "vectors.scale": self.scale}, names

    @classmethod
    def restored(cls, arrays: Any, strings: Any) -> VectorColumns | None:
        """What `state` said; None where there were no vectors."""
        if "vectors.mean" not in arrays:
            return None
        mean, scale = arrays["vectors.mean"], arrays["vectors.scale"]
        names = None if "vectors.names" not in strings else tuple(strings["vectors.names"])
        fits(mean.ndim == 1 and len(mean) > 0 and mean.shape == scale.shape and bool((scale > 0).all()))
        fits(mean.dtype == np.float32 and scale.dtype == np.float32 and (names is None or len(names) == len(mean)))
        return cls(mean, scale, names)
