"""How much memory there is, asked before much of it is taken: a system that has promised more than it has ends the
process, without a word."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from kinfolk.errors import InputError

GIGABYTE = 1e9
SYSTEM = Path("/proc/meminfo")  # kilobytes
CONTAINER = Path("/sys/fs/cgroup/memory.max")  # bytes, or "max"


def available_memory() -> float:
    """Bytes that this process may still take, as far as is known: the least of what the system has, of what a container
    may have, and of the limit on the process (ulimit -v); infinite where none of them is told."""
    found = [float("inf")]
    if SYSTEM.exists():
        told = {line.split(":")[0]: line.split() for line in SYSTEM.read_text().splitlines() if ":" in line}
        found.append(sum(1024.0 * int(told[name][1]) for name in ("MemAvailable", "SwapFree") if name in told))
    elif "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        found.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    if CONTAINER.exists() and (told_max := CONTAINER.read_text().strip()).isdigit():
        found.append(float(told_max))
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        found.append(float(limit))
    return min(found)


def check_memory(needed: float, what: str, remedy: str) -> None:
    """An error where there is not as much memory as `what` takes."""
    if needed > (there := available_memory()):
        raise InputError(
            f"{what}: that takes {needed / GIGABYTE:,.1f} GB of memory, and there are {there / GIGABYTE:,.1f} GB. "
            f"{remedy}"
        )
