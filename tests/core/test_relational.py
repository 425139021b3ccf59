"""Relational: checked when built, read-only afterwards, and the caller's arrays left alone."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kinfolk import Relational, Vocabulary
from kinfolk.errors import InputError

X = np.arange(6.0).reshape(3, 2)
LINKS = sparse.csr_array(([1.0, 0.5], ([1, 2], [0, 1])), shape=(3, 3))


def small(**changed: Any) -> Relational:
    parts: dict[str, Any] = {
        "features": X,
        "labels": [0, -1, 1],
        "classes": ["no", "yes"],
        "relations": {"cites": LINKS},
        "groups": [0, 0, 1],
    }
    return Relational(**{**parts, **changed})


WRONG = {
    "one-dimensional features": ({"features": np.zeros(3)}, r"numeric table.*shape \(3,\)"),
    "text features": ({"features": np.array([["a"], ["b"], ["c"]])}, "numeric table"),
    "complex sparse features": ({"features": sparse.csr_array(X + 1j)}, "numeric table.*complex"),
    "nan, dense": ({"features": np.where(X == 3, np.nan, X)}, "instance 1 has nan in feature 1"),
    "infinity, dense": ({"features": np.where(X == 4, np.inf, X)}, "instance 2 has inf in feature 0"),
    "nan, sparse": ({"features": sparse.csr_array(np.where(X == 3, np.nan, X))}, "instance 1 has nan in feature 1"),
    "nan, sparse by column": (
        {"features": sparse.csc_array(np.where(X == 5, np.nan, X))},
        "instance 2 has nan in feature 1",
    ),
    "too few labels": ({"labels": [0, 1]}, "labels must be 3 whole numbers"),
    "labels as names": ({"labels": ["no", "yes", "no"]}, "labels must be 3 whole numbers"),
    "labels as fractions": ({"labels": [0.0, 1.0, 0.0]}, "whole numbers.*float64"),
    "a label beyond the classes": ({"labels": [0, 2, 0]}, "between -1 and 1.*instance 1 has 2"),
    "a label below -1": ({"labels": [0, 0, -2]}, "instance 2 has -2"),
    "a class twice": ({"classes": ["no", "yes", "no"]}, "'no' stands in it twice"),
    "too few groups": ({"groups": [0, 1]}, "groups must be 3 whole numbers"),
    "groups out of order": ({"groups": [0, 1, 0]}, "sort the instances by group"),
    "a negative group": ({"groups": [-1, 0, 0]}, "numbered from 0"),
    "a dense relation": ({"relations": {"cites": np.eye(3)}}, "'cites' must be a SciPy sparse matrix.*ndarray"),
    "a relation of another size": (
        {"relations": {"cites": sparse.csr_array((3, 2))}},
        r"'cites' must have shape \(3, 3\); got \(3, 2\)",
    ),
    "an infinite weight": (
        {"relations": {"cites": LINKS * np.inf}},
        "'cites' has inf from 1 to 0, a weight that is not finite",
    ),
}


@pytest.mark.parametrize(("changed", "message"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_cannot_be_used_is_named(changed: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        small(**changed)


def test_what_was_given_is_there():
    data = small()
    assert (data.n_instances, data.n_features, len(data)) == (3, 2, 3)
    assert data.labels.tolist() == [0, -1, 1] and data.labels.dtype == np.int32
    assert data.groups.tolist() == [0, 0, 1] and data.groups.dtype == np.int32
    assert data.classes == Vocabulary(["no", "yes"])
    assert data.relations["cites"].toarray().tolist() == LINKS.toarray().tolist()
    assert repr(data) == "Relational(3 instances, 2 features, 2 classes, relations: cites 2, 2 groups)"


def test_features_alone_are_enough():
    data = Relational(X)
    assert data.labels.tolist() == [-1, -1, -1] and data.groups.tolist() == [0, 0, 0]
    assert len(data.classes) == 0 and dict(data.relations) == {}


@pytest.mark.parametrize("features", [np.zeros((0, 4)), sparse.csr_array((0, 4))], ids=["dense", "sparse"])
def test_no_instances_are_no_fault(features: Any):
    data = Relational(features, [], ["a"], {"r": sparse.csr_array((0, 0))}, [])
    assert len(data) == 0 and data.n_features == 4
    assert repr(data).endswith("0 groups)")


def test_nothing_can_be_set_added_or_deleted():
    data = small()
    for change in (
        lambda: setattr(data, "labels", [0, 0, 0]),
        lambda: setattr(data, "extra", 1),
        lambda: delattr(data, "labels"),
    ):
        with pytest.raises(AttributeError, match="frozen"):
            change()
    with pytest.raises(TypeError):
        data.relations["more"] = LINKS
    assert data.labels.tolist() == [0, -1, 1]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_arrays_cannot_be_written_through(kind: Any):
    data = small(features=kind(X))
    arrays = [data.labels, data.groups, data.relations["cites"].data, data.relations["cites"].indices]
    csr = sparse.issparse(data.features)
    arrays += [data.features.data, data.features.indices, data.features.indptr] if csr else [data.features]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@given(st.integers(0, 2**32 - 1))
def test_the_callers_matrix_stays_as_it_was(seed: int):
    """Duplicates and disorder are put right in a copy, not in place."""
    rng = np.random.default_rng(seed)
    indptr = np.array([0, 4, 4, 9])
    given_matrix = sparse.csr_array((rng.normal(size=9), rng.integers(0, 4, 9), indptr), shape=(3, 4))
    before = [part.copy() for part in (given_matrix.data, given_matrix.indices, given_matrix.indptr)]
    dense = np.zeros((3, 4))
    for row in range(3):
        for at in range(indptr[row], indptr[row + 1]):
            dense[row, before[1][at]] += before[0][at]
    held = Relational(given_matrix).features
    np.testing.assert_allclose(held.toarray(), dense)
    assert held.has_canonical_format
    for part, old in zip((given_matrix.data, given_matrix.indices, given_matrix.indptr), before, strict=True):
        assert part.tolist() == old.tolist() and part.flags.writeable


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_copies_are_equal_and_frozen_too(way: Any, kind: Any):
    data = small(features=kind(X))
    twin = way(data)
    assert repr(twin) == repr(data) and twin.labels.tolist() == data.labels.tolist()
    assert (twin.features != data.features).sum() == 0
    assert (twin.relations["cites"] != data.relations["cites"]).nnz == 0
    with pytest.raises(ValueError, match="read-only"):
        twin.labels[0] = 1
