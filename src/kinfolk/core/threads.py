"""Run nogil kernels over fixed chunks of work with plain threads.

Chunks depend on the work alone, never on the number of threads, and results come back in chunk
order. A sum over chunks therefore has the same rounding whatever `n_jobs` is: same seed, same answer.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError, SettingError

T = TypeVar("T")
MOST_THREADS = 64  # where there are not more cores: a thread takes memory of its own


def resolve_jobs(n_jobs: int | None) -> int:
    """Number of threads meant by `n_jobs`: None is 1, -1 is every core, -2 all but one, and so on."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise SettingError("n_jobs", n_jobs, "a positive number, or -1 for every core")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(int(n_jobs), max(MOST_THREADS, cores)) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


@lru_cache(maxsize=4)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, so a forked process (another number) gets a pool of its own."""
    return ThreadPoolExecutor(workers, thread_name_prefix="kinfolk")


def run_chunks(task: Callable[[int], T], n_chunks: int, n_jobs: int) -> list[T]:
    """`[task(0), ..., task(n_chunks - 1)]`, on up to `n_jobs` threads (a resolved number).

    A task must not call `run_chunks` itself: it would wait for the thread it runs on.
    """
    if n_jobs <= 1 or n_chunks <= 1:
        return [task(chunk) for chunk in range(n_chunks)]
    return list(_pool(n_jobs, os.getpid()).map(task, range(n_chunks)))


def even_bounds(cumulative: NDArray[np.integer], n_chunks: int) -> NDArray[np.int64]:
    """Bounds (chunks + 1,) that cut items into runs of about equal cost.

    `cumulative` (items + 1,) holds the running cost, as an `indptr` does. Empty runs are dropped.
    """
    if len(cumulative) <= 2:  # one item, or none
        return np.arange(len(cumulative))
    total = cumulative[-1] - cumulative[0]
    targets = cumulative[0] + (np.arange(n_chunks + 1) * total) // n_chunks
    bounds = np.searchsorted(cumulative, targets, side="left").astype(np.int64)
    bounds[0], bounds[-1] = 0, len(cumulative) - 1
    return np.unique(bounds)


# -- Handing free memory back to the system, and not asking for more than there can be -----------------

DENSE_LIMIT = 2 << 30  # bytes of a dense table that may be made of a sparse one


def dense(table: Any, dtype: Any, what: str, remedy: str) -> Any:
    """A sparse table filled in, of a type of number; refused with its size where that is beyond the limit. `what`
    takes it, as "12 nodes with 3 features take"; what to do about it is `remedy`."""
    n_bytes = table.shape[0] * table.shape[1] * dtype.itemsize
    if n_bytes > DENSE_LIMIT:
        size, most = (f"{one / (1 << 30):,.3g} GiB" for one in (n_bytes, DENSE_LIMIT))
        raise InputError(f"{what} {size} as a dense table, more than the {most} that are filled in; {remedy}")
    return table.astype(dtype, copy=False).toarray()


def release_free_memory() -> None:
    """Give back what is free inside the process, where the C library can be asked to (glibc).

    Feature extraction and the warm start free tens of megabytes that the allocator would keep for itself, on top of
    which training would then grow. So does reading a table of Arrow, whose allocator is another. Does nothing on other
    systems.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # no glibc
        return
