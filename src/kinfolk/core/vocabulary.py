"""A frozen two-way map between names and consecutive integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError


class Vocabulary:
    """Names numbered 0, 1, 2, ... in the order given; nothing can be added later.

    >>> Vocabulary(["O", "B-PER"]).encode(["B-PER", "B-LOC"]).tolist()
    [1, -1]
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._numbers: dict[str, int] | None = None
        if len(set(self._names)) < len(self._names):
            twice = next(name for i, name in enumerate(self._names) if self._index[name] != i)
            raise InputError(f"a vocabulary needs distinct names; {twice!r} stands in it twice")

    @property
    def _index(self) -> dict[str, int]:
        """Made when first asked for: training never looks names up, and the map is most of the memory."""
        if self._numbers is None:
            self._numbers = {name: i for i, name in enumerate(self._names)}
        return self._numbers

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def get(self, name: str) -> int:
        """The number of `name`, or -1."""
        return self._index.get(name, -1)

    def encode(self, names: Sequence[str]) -> NDArray[np.int32]:
        """Numbers of many names, -1 where a name is unknown."""
        get = self._index.get
        return np.fromiter((get(name, -1) for name in names), np.int32, len(names))

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        head = ", ".join(map(repr, islice(self, 5)))
        return f"{type(self).__name__}([{head}{', ...' if len(self) > 5 else ''}], {len(self)} names)"
