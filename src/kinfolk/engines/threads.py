"""Threads: everything in the memory of this process, as without an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final


@final
@dataclass(frozen=True)
class Threads:
    """Tables in memory, computed on by as many threads as the model's `n_jobs` says: what models do by default."""

    in_memory: ClassVar[bool] = True
