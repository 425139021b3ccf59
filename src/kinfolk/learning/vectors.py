"""Passes over long vectors: inner products and combinations, in fixed chunks, on threads.

Sums are taken chunk by chunk in float64 and added in chunk order: the same for every `n_jobs`. Within a
chunk the kernels go block by block, so what is combined stays in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import run_chunks

Vector = NDArray[Any]
Table = NDArray[Any]  # (m, n): m vectors
CHUNKS = 32
BLOCK = 2048
FAST = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=FAST)
def _block_dot(a, b, begin, end):
    """Inner product over one block, in the precision of the vectors: blocks are short, their sum is float64."""
    total = a.dtype.type(0)
    for i in range(begin, end):
        total += a[i] * b[i]
    return np.float64(total)


@njit(nogil=True, cache=True, fastmath=FAST)
def _dots(table, vector, first, last, sums):
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for j in range(len(table)):
            sums[j] += _block_dot(table[j], vector, begin, end)


@njit(nogil=True, cache=True, fastmath=FAST)
def _products(left, on_left, right, on_right, inverse, first, last, sums):
    """sums[0, j] = left_j · on_left, sums[1, j] = right_j · on_right, sums[2, j] = right_j · inverse on_left."""
    weighted = np.empty(BLOCK, on_left.dtype)
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for i in range(begin, end):
            weighted[i - begin] = inverse[i] * on_left[i]
        for j in range(len(left)):
            sums[0, j] += _block_dot(left[j], on_left, begin, end)
            if len(on_right):
                sums[1, j] += _block_dot(right[j], on_right, begin, end)
            sums[2, j] += _block_dot(right[j, begin:end], weighted, 0, end - begin)


@njit(nogil=True, cache=True, fastmath=FAST)
def _combine(steps, on_steps, changes, on_changes, gradient, on_gradient, inverse, first, last, out):
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for i in range(begin, end):
            out[i] = on_gradient * gradient[i]
        for j in range(len(changes)):
            for i in range(begin, end):
                out[i] += on_changes[j] * changes[j, i]
        for i in range(begin, end):
            out[i] *= inverse[i]
        for j in range(len(steps)):
            for i in range(begin, end):
                out[i] += on_steps[j] * steps[j, i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _linear(a, scale, b, first, last, out):
    for i in range(first, last):
        out[i] = a[i] + scale * b[i]


def _over_chunks(task: Callable[[int, int], Any], n: int, n_jobs: int) -> list[Any]:
    bounds = np.linspace(0, n, CHUNKS + 1).astype(np.int64)
    return run_chunks(lambda c: task(bounds[c], bounds[c + 1]), CHUNKS, n_jobs)


def dot(a: Vector, b: Vector, n_jobs: int) -> float:
    def part(first: int, last: int) -> float:
        sums = np.zeros(1)
        _dots(a[None], b, first, last, sums)
        return float(sums[0])

    return float(sum(_over_chunks(part, len(a), n_jobs)))


def products(
    steps: Table, changes: Table, vector: Vector, other: Vector | None, inverse: Vector, n_jobs: int
) -> NDArray[np.float64]:
    """In one pass (3, m): steps_j · vector, changes_j · other (0 without), changes_j · inverse vector."""
    by = np.empty(0, vector.dtype) if other is None else other

    def part(first: int, last: int) -> NDArray[np.float64]:
        sums = np.zeros((3, len(steps)))
        _products(steps, vector, changes, by, inverse, first, last, sums)
        return sums

    return np.asarray(sum(_over_chunks(part, len(vector), n_jobs), np.zeros((3, len(steps)))))


def linear(a: Vector, scale: float, b: Vector, n_jobs: int, out: Vector | None = None) -> Vector:
    """a + scale · b."""
    result = np.empty_like(a) if out is None else out
    number = a.dtype.type(scale)
    _over_chunks(lambda first, last: _linear(a, number, b, first, last, result), len(a), n_jobs)
    return result


def combine(
    steps: Table, on_steps: Vector, changes: Table, on_changes: Vector,
    gradient: Vector, on_gradient: float, inverse: Vector, n_jobs: int, out: Vector,
) -> Vector:  # fmt: skip
    """out = Σ on_steps_j steps_j + inverse · (Σ on_changes_j changes_j + on_gradient · gradient)."""
    kind = gradient.dtype
    a, b, c = on_steps.astype(kind), on_changes.astype(kind), kind.type(on_gradient)
    _over_chunks(
        lambda first, last: _combine(steps, a, changes, b, gradient, c, inverse, first, last, out),
        len(out),
        n_jobs,
    )
    return out


def absolute_sum(vector: Vector) -> float:
    return float(np.abs(vector).sum(dtype=np.float64))


def pseudo_gradient(at: Vector, gradient: Vector, l1: float) -> Vector:
    """The steepest slope of f + l1 |w|₁: at zero, the nearer one-sided slope, or 0 if neither descends."""
    l1 = gradient.dtype.type(l1)
    shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0)
    return np.where(at == 0, shrunk, gradient + l1 * np.sign(at))


def keep_descent(direction: Vector, slope: Vector) -> None:
    """Zero the parts of a direction that do not go down the slope."""
    direction[direction * slope >= 0] = 0
