"""Estimators from a model file are looked over before they are asked anything.

skops builds nothing but known types, yet some of them hold arrays that compiled code follows without a look: the nodes
of a tree, the indices of a sparse matrix. A forged one would read memory not its own, so these are checked first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.errors import ModelFileError

# Types that skops does not trust by itself and that are safe once looked over, or that only hold numbers.
TRUSTED = (
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
)
MOST_PARTS = 1_000_000
ANY_NUMBER = 1 << 62
NO_FEATURE = "a tree asks for a feature that is not there"


def check_sound(estimator: Any) -> None:
    """Raise a ModelFileError if a tree or a sparse matrix in an estimator points outside itself, or a tree asks for
    features that the rows it will be given do not have."""
    for part, features in _parts(estimator):
        kind = type(part).__name__
        if sparse.issparse(part):
            _check_matrix(part)
        elif kind == "TreePredictor":
            _check_boosted(part, features)
        elif kind == "Tree" and hasattr(part, "children_left"):
            _require(part.node_count >= 1, "a tree is empty")
            inner = np.flatnonzero(part.children_left != -1)
            _check_children(part.children_left, part.children_right, inner, part.node_count)
            _require(_below(part.feature[inner], min(part.n_features, features)), NO_FEATURE)


def _parts(whole: Any) -> Iterator[tuple[Any, int]]:
    """Everything an object holds, itself first, each once; and how many features rows have there: what the estimator
    checks when it is asked, which its own parts do not check again."""
    waiting, seen = [(whole, ANY_NUMBER)], set()
    while waiting:
        part, features = waiting.pop()
        if id(part) in seen or isinstance(part, str | bytes | int | float | bool | type(None)):
            continue
        seen.add(id(part))
        _require(len(seen) < MOST_PARTS, "the base has too many parts")
        own = getattr(part, "n_features_in_", None)
        features = min(features, int(own)) if isinstance(own, int | np.integer) else features
        yield part, features
        if hasattr(part, "steps"):
            features = ANY_NUMBER  # a step may make other features
        inside: list[Any] = []
        if isinstance(part, dict):
            inside = [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset) or (
            isinstance(part, np.ndarray) and part.dtype == object and part.ndim
        ):
            inside = list(part)
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            inside = list(vars(part).values())
        waiting += [(one, features) for one in inside]


def _check_matrix(matrix: Any) -> None:
    try:
        matrix.check_format(full_check=True)
    except (ValueError, AttributeError) as error:
        raise ModelFileError(f"a sparse matrix in the base is broken ({error}); save the model again") from None


def _check_boosted(tree: Any, features: int) -> None:
    nodes = tree.nodes
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    _check_children(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), inner, len(nodes))
    cut = inner[nodes["is_categorical"][inner] != 0]
    sets = min(len(tree.raw_left_cat_bitsets), len(tree.binned_left_cat_bitsets))
    _require(_below(nodes["bitset_idx"][cut], sets), "a tree asks for a set of categories that is not there")
    _require(_below(nodes["feature_idx"][inner], features), NO_FEATURE)
    _require(len(nodes) >= 1, "a tree is empty")


def _check_children(left: Any, right: Any, inner: Any, count: int) -> None:
    """Children come after their parent, so that every way down ends."""
    for children in (left[inner], right[inner]):
        _require(_below(children, count) and bool((children > inner).all()), "a tree points outside itself")


def _below(numbers: Any, count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


def _require(sound: bool | np.bool_, what: str) -> None:
    if not sound:
        raise ModelFileError(f"{what}: the file was altered or is broken; save the model again")
