"""Handing free memory back to the system, and not asking for more than there can be."""

from __future__ import annotations

import ctypes
from typing import Any

from kinfolk.errors import InputError

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
    which training would then grow. Does nothing on other systems.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # no glibc
        return
