"""A layer over the probabilities that any model gave: what the company of an instance adds to them.

What was given is pooled with candidates that see it of an instance and of its neighbours, by weights that minimise the
log-loss of labels that neither the model given nor the candidates have seen (`learning.pooling`); where the pool is no
better than what was given, that alone is the answer. So probabilities to train on have to be out-of-fold.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.modelfile import Functions, ModelFile, Saved, fits
from kinfolk.core.settings import NONE, Rule, setting, whole
from kinfolk.learning.gain import Gain
from kinfolk.learning.pooling import pooled

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
GIVEN = "given"  # the candidate that is what was given
OF_FEATURES = Rule("True, False, or feature templates", lambda value: isinstance(value, bool | str | list | tuple))


@dataclass(eq=False, repr=False)
class CollectiveLayer(Saved):
    """Abstract: `TokenLayer` is that of tokens in documents, `NodeLayer` that of nodes in a graph."""

    KIND: ClassVar[str] = "layer"

    features: Any = setting(
        True, "whether a candidate sees features of its own too; of tokens also templates for it", OF_FEATURES,
        in_file=False,
    )  # fmt: skip
    folds: int | None = setting(
        None, "by which candidates are weighed; whole documents stay together. None: 3, of many instances 2",
        whole(2) | NONE,
    )  # fmt: skip

    names_: tuple[str, ...] = field(init=False)  # of the columns that were given
    weights_: dict[str, float] = field(init=False)
    gain_: Gain | None = field(init=False, default=None)

    def _tell(self) -> None:
        """What carries the answer, and what it gains."""
        carrying = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights_.items() if weight > 0)
        log.info("%s: weights: %s; %s", type(self).__name__, carrying, self.gain_)
        if not any(weight for name, weight in self.weights_.items() if name != GIVEN):
            log.warning(
                "%s: company adds nothing to what was given, on folds that candidates have not seen; what was given is "
                "the answer", type(self).__name__,
            )  # fmt: skip

    def to_state(self) -> ModelFile:
        gain = None if self.gain_ is None else asdict(self.gain_)
        return ModelFile({**self.head(), "names": list(self.names_), "gain": gain})

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        self.names_ = tuple(map(str, file.header["names"]))
        fits(len({*self.names_}) == len(self.names_))
        gain = file.header.get("gain")
        self.gain_ = None if gain is None else Gain.from_file(gain)


class Said(NamedTuple):
    """What a candidate says of one instance: its weight, the probabilities of the classes, and what the others say."""

    candidate: str
    weight: float
    probabilities: dict[str, float]
    without: dict[str, float]


@dataclass(frozen=True)
class LayerExplanation:
    """Why an instance has its label."""

    number: int
    label: str
    probability: float
    candidates: tuple[Said, ...]

    def __str__(self) -> str:
        lines = [f"{self.number}: {self.label}, {self.probability:.1%}"]
        width = max((len(one.candidate) for one in self.candidates), default=0)
        for one in self.candidates:
            own, others = one.probabilities[self.label], one.without[self.label]
            best = max(one.probabilities, key=one.probabilities.__getitem__)
            also = "" if best == self.label else f" (says {best}, {one.probabilities[best]:.1%})"
            lines.append(
                f"  {one.candidate.ljust(width)}  weight {one.weight:.2f}  {own:6.1%}; without it {others:6.1%}{also}"
            )
        return "\n".join(lines)


def explained(
    tables: Mapping[str, Array], weights: Mapping[str, float], answer: int, row: int, classes: Sequence[str]
) -> LayerExplanation:
    """Of the instance in one row of the candidates' tables."""
    carrying = {name: weights[name] for name in tables if weights[name] > 0}

    def pool(names: Sequence[str]) -> dict[str, float]:
        found = np.full((1, len(classes)), 1 / len(classes))
        if names:
            found = pooled([tables[name][[row]] for name in names], [carrying[name] for name in names])
        return dict(zip(classes, map(float, found[0]), strict=True))

    said = [
        Said(
            name,
            weight,
            dict(zip(classes, map(float, tables[name][row]), strict=True)),
            pool([other for other in carrying if other != name]),
        )
        for name, weight in carrying.items()
    ]
    label = classes[answer]
    return LayerExplanation(row, label, pool(list(carrying))[label], tuple(said))
