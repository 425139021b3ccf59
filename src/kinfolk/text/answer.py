"""What every explanation of a label begins with: the instance, its label, and how probable each label is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Answer:
    """The answer for one instance; `marginal` (L,) by class."""

    instance: int
    name: str
    label: Any
    probability: float
    classes: tuple[Any, ...]
    marginal: NDArray[Any]

    def head(self) -> str:
        return f"{self.name}: {self.label} with probability {self.probability:.3f}"
