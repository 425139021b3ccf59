"""What tokens near by say, or are told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.neighbourhood import Neighbourhood
from kinfolk.collective.templates import NeighbourTemplate, at_least_one
from kinfolk.errors import SettingError

Array = NDArray[Any]


@dataclass(frozen=True)
class Window(NeighbourTemplate):
    """For tokens: the votes of the `size` tokens before and after, in the same sentence; absent = 0.

    With it alone stacking is stacked sequential learning (Cohen and Carvalho).

    told   instead of their votes, what that template tells them: Window(3, Max(SameWord())) tells a token how the
           words around it are labelled elsewhere in the document
    """

    size: int = 3
    told: NeighbourTemplate | None = None

    def __post_init__(self) -> None:
        at_least_one("Window: size", self.size)
        if self.told is not None and (not isinstance(self.told, NeighbourTemplate) or self.told.of != "predictions"):
            raise SettingError(f"Window: told must be a template of predictions, such as Max(...); got {self.told!r}")

    @property
    def name(self) -> str:
        return f"window({self.size})" if self.told is None else f"window({self.size}, {self.told.name})"

    @property
    def offsets(self) -> list[int]:
        return [*range(-self.size, 0), *range(1, self.size + 1)]

    def learn(self, hood: Neighbourhood) -> Self:
        hood.tokens(self.name)
        return self if self.told is None else replace(self, told=self.told.learn(hood))

    def width(self, n_votes: int) -> int:
        return 2 * self.size * (n_votes if self.told is None else self.told.width(n_votes))

    def column_names(self, votes: list[str]) -> list[str]:
        inner = votes if self.told is None else self.told.column_names(votes)
        return [f"{self.name}[{offset:+d}] {name}" for offset in self.offsets for name in inner]

    def write(self, hood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        corpus, said = hood.tokens(self.name), votes
        if self.told is not None:
            said = np.empty((hood.n, self.told.width(votes.shape[1])), votes.dtype)
            self.told.write(hood, votes, np.arange(hood.n), said)
        width, lengths = said.shape[1], np.diff(corpus.sentence_starts)
        first = np.repeat(corpus.sentence_starts[:-1], lengths)[rows]
        last = np.repeat(corpus.sentence_starts[1:], lengths)[rows]
        for slot, offset in enumerate(self.offsets):
            there = rows + offset
            inside = (there >= first) & (there < last)
            block = out[:, slot * width : (slot + 1) * width]
            block[inside] = said[there[inside]]
            block[~inside] = 0.0

    def spec(self) -> dict[str, Any]:
        inner = {} if self.told is None else {"told": self.told.spec()}
        return {"template": "Window", "size": int(self.size), **inner}
