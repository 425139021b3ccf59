"""Biased potentials: training that leans towards linking, for all true pairs or for the closest ones.

The paper multiplies the potential of a biased pair by β. On both labels that cancels, and on the true label alone it
does the opposite of what it is for: with ψ(1) = β φ(1) in training, p(1) = β eˢ / (β eˢ + 1), so a biased pair is
satisfied with a *lower* score, and at test time, where nothing is biased, fewer pairs are linked. The forms that raise
recall:

    weight     p(1)^β: the pair counts β times (in a log-linear model the potentials of both labels and their sum, to
               the β)
    margin     ψ(0) = β φ(0): the wrong label is made stronger, so the score has to exceed it by log β more
    exponent   ψ = φ^β: the score counts β times
    factor     the reading above, kept for comparison

So the M-step learns by one of these forms (recall rises most, and for both kinds, with "weight"). The E-step decides
with ψ(1) = β φ(1) as the paper writes it: a biased pair counts as linked if β φ(1) > φ(0), and stays to be learned so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError
from kinfolk.linking.objective import Tilt

KINDS = ("all", "closest")
FORMS = ("weight", "margin", "exponent", "factor")


@dataclass(frozen=True)
class Bias:
    """kind    "all" true pairs (the paper's Pa), or of each item the "closest" antecedent of its cluster (P1)
    factor  β; above 1 for more recall, 1 for none
    form    what β does, as above
    """

    kind: str = "all"
    factor: float = 1.5
    form: str = "weight"

    def check(self) -> None:
        if self.kind not in KINDS:
            raise SettingError(f"the kind of a bias must be one of {', '.join(KINDS)}; got {self.kind!r}")
        if self.form not in FORMS:
            raise SettingError(f"the form of a bias must be one of {', '.join(FORMS)}; got {self.form!r}")
        if not (isinstance(self.factor, int | float) and math.isfinite(self.factor) and self.factor > 0):
            raise SettingError(f"the factor of a bias must be a number above 0; got {self.factor!r}")

    @property
    def tilt(self) -> Tilt:
        if self.form == "weight":
            return Tilt(weight=self.factor)
        if self.form == "exponent":
            return Tilt(scale=self.factor)
        return Tilt(shift=math.log(self.factor) * (1 if self.form == "factor" else -1))

    @property
    def lean(self) -> float:
        """What a biased pair's log-odds gain when the E-step decides: log β."""
        return math.log(self.factor)

    def biased(self, right: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
        """The pairs that the bias is for; pairs come in order of right and then left."""
        true = np.asarray(truth == 1)
        if self.kind == "all":
            return true
        at = np.flatnonzero(true)
        last = np.append(np.diff(right[at]) != 0, True)[: len(at)]  # the last true pair of an item is the closest
        chosen = np.zeros(len(truth), bool)
        chosen[at[last]] = True
        return chosen
