"""The E-steps of structured local training: the labels of pairs that a local model should learn.

h* are the decisions of the local model, h' those after clustering, y* the truth, all 0 or 1 a pair. What comes back,
y', asks the local model for no more than the clustering needs:

    nearest    y' = h* where h' = y*, else y*                                      (Algorithm 2 of the paper)
    spanning   y' = h* where h' = y*; of the true pairs that h' misses, those of a minimum spanning forest over all
               true pairs are 1, with cost φ(0) for missed ones and 0 for the others (Algorithm 1)
    exact      the most probable y' whose transitive closure is y*: true pairs that h* has, and the most probable
               others that join what is still apart

The first two may ask for too little: with h* joining 0-2 and 1-2 falsely, h' = y* on the true pair 0-1, which then
stays 0 though nothing else holds it. "exact" is what Algorithm 1 stands for, and it always closes to the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.clustering import forest

Array = NDArray[Any]
E_STEPS = ("nearest", "spanning", "exact")


def e_step(
    kind: str, n: int, left: Array, right: Array, truth: Array, decided: Array, clustered: Array, score: Array
) -> NDArray[np.int8]:
    """y' int8 (P,). `score` is log φ(1) - log φ(0): the lower φ(0), the higher it is: forests take high ones first."""
    right_after = clustered == truth
    if kind == "nearest":
        return np.where(right_after, decided, truth).astype(np.int8)
    true = np.flatnonzero(truth == 1)
    free = right_after[true] if kind == "spanning" else decided[true] == 1
    order = np.lexsort((-score[true], ~free))  # free pairs first, then by score; stable, so ties keep their order
    chosen = true[order][forest(n, left[true[order]], right[true[order]])]
    labels = np.where(right_after, decided, 0).astype(np.int8)
    if kind == "spanning":
        labels[chosen[~right_after[chosen]]] = 1
        return labels
    labels[:] = 0
    labels[true[free]] = 1
    labels[chosen] = 1
    return labels
