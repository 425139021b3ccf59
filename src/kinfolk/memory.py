"""Handing free memory back to the system."""

from __future__ import annotations

import ctypes


def release_free_memory() -> None:
    """Give back what is free inside the process, where the C library can be asked to (glibc).

    Feature extraction and the warm start free tens of megabytes that the allocator would keep for itself, on top of
    which training would then grow. Does nothing on other systems.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # no glibc
        return
