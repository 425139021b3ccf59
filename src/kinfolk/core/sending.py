"""A model on its way to another process: the bytes of its model file travel, never a pickle of it."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from kinfolk.core.modelfile import load_model
from kinfolk.errors import UntrustedError


@dataclass(frozen=True, eq=False)
class Sent:
    """A fitted model, as part of a kernel that an engine may send to its workers.

    Within the process it is the model itself. Sent, it is the bytes of its model file, which a worker reads once, and
    computes with a single thread: engines run a worker a core.
    """

    model: Any

    @cached_property
    def _bytes(self) -> tuple[bytes, tuple[str, ...]]:
        """Made once, however many kernels it is part of and however often these are sent."""
        return packed(self.model)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, self._bytes


def packed(model: Any) -> tuple[bytes, tuple[str, ...]]:
    """The bytes of the model's file, and the types in it that are to be trusted, being those of a model at hand."""
    with tempfile.TemporaryDirectory(prefix="kinfolk-") as folder:
        path = Path(folder) / "model.kinfolk"
        trusted: list[str] = []
        model.save(path)
        while True:
            try:
                load_model(path, trusted=trusted)
                return path.read_bytes(), tuple(trusted)
            except UntrustedError as error:
                if set(error.types) <= set(trusted):
                    raise
                trusted += error.types


def unpacked(data: bytes, trusted: Sequence[str] = ()) -> Any:
    """The model of the bytes of a model file."""
    with tempfile.TemporaryDirectory(prefix="kinfolk-") as folder:
        path = Path(folder) / "model.kinfolk"
        path.write_bytes(data)
        return load_model(path, trusted=trusted)


@lru_cache(maxsize=4)
def _received(data: bytes, trusted: tuple[str, ...]) -> Sent:
    found = Sent(unpacked(data, trusted).set_params(n_jobs=1))
    gc.freeze()  # workers collect garbage after every task: they need not walk through the model and all modules again
    return found
