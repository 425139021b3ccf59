"""The mixture of parents whose own component was given, against its definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.collective.given_mixture import FAINT, GivenMixture, loss

SEEDS = st.integers(0, 2**31)


def some(seed: int, n: int, n_labels: int, n_relations: int):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(n_labels, 0.5), n)
    parents = [rng.dirichlet(np.ones(n_labels), n) * (rng.random((n, 1)) < 0.7) for _ in range(n_relations)]
    model = GivenMixture(
        rng.normal(size=(n_relations, n_labels, n_labels)),
        rng.normal(1, 0.5, n_relations),
        rng.normal(size=(n_relations, 3)),
    )
    return model, table, parents, rng.integers(n_labels, size=n)


def enumerated(model: GivenMixture, own, parents) -> list[float]:
    """Of one instance: over who is followed, and that one's label."""
    there = [r for r, row in enumerate(parents) if row.any()]
    scores = {None: 0.0}
    for r in there:
        b, c, d = model.gate[r]
        scores[r] = b + c * (1 - own.max()) + d * (1 - parents[r].max())
    total = sum(np.exp(score) for score in scores.values())
    found = [np.exp(scores[None]) / total * p for p in own]
    for r, i in product(there, range(len(own))):
        terms = [max(p, FAINT) ** model.power[r] * np.exp(model.pair[r, i, y]) for y, p in enumerate(own)]
        for y, term in enumerate(terms):
            found[y] += np.exp(scores[r]) / total * parents[r][i] * term / sum(terms)
    return found


@given(SEEDS, st.integers(0, 4), st.integers(2, 4), st.integers(1, 3))
def test_probabilities_are_those_of_the_definition(seed: int, n: int, n_labels: int, n_relations: int):
    model, table, parents, _ = some(seed, n, n_labels, n_relations)
    found = model.proba(table, parents)
    assert found.shape == (n, n_labels)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    for t in range(n):
        np.testing.assert_allclose(found[t], enumerated(model, table[t], [one[t] for one in parents]))


@given(SEEDS, st.integers(1, 5), st.integers(2, 3), st.integers(1, 2))
def test_derivatives_are_those_of_finite_differences(seed: int, n: int, n_labels: int, n_relations: int):
    model, table, parents, labels = some(seed, n, n_labels, n_relations)
    table = 0.9 * table + 0.1 / n_labels
    flat, step = model.flat, 1e-6

    def value(at: np.ndarray) -> float:
        return loss(GivenMixture.split(at, n_relations, n_labels), table, parents, labels)[0]

    _, slope = loss(model, table, parents, labels)
    for k in range(len(flat)):
        shift = np.eye(len(flat))[k] * step
        assert slope[k] == pytest.approx((value(flat + shift) - value(flat - shift)) / (2 * step), abs=1e-4, rel=1e-4)


def test_who_has_no_parent_keeps_what_was_given():
    model, table, parents, _ = some(3, 6, 3, 2)
    np.testing.assert_allclose(model.proba(table, [np.zeros_like(one) for one in parents]), table)


def test_it_learns_to_follow_a_parent_that_knows_better():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    unsure = np.full((600, 3), 1 / 3)
    parent = np.eye(3)[(labels + 1) % 3] * 0.9 + 0.1 / 3  # always the next class
    nothing = rng.dirichlet(np.ones(3), 600)
    model = GivenMixture.fit(unsure, [parent, nothing], labels, 0)
    found = model.proba(unsure, [parent, nothing])
    assert (found.argmax(axis=1) == labels).mean() > 0.99
    assert model.weights(unsure, [parent, nothing])[:, 1].mean() > 0.8
