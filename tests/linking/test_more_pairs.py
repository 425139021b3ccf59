"""Pairs that closure adds in training are compared alone, and the data are those of all pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.linking.comparisons import BestOf, with_bests
from kinfolk.linking.training import PairData

FEATURES = ["edit(surname)", "exact(postcode)", "jaro_winkler(given_name)"]


@pytest.mark.parametrize("features", [FEATURES, [*FEATURES, BestOf(kf.TfidfCosine("address"))]], ids=["own", "best of"])
def test_more_pairs_give_the_data_of_all(features):
    whole = kf.generate_customers(150, seed=0)
    few, many = (kf.block(whole, rules) for rules in (["key(postcode)"], ["key(postcode)", "key(surname)"]))
    model = kf.Linker(features, training="local", clusterer=None, n_jobs=1).fit(many)
    few = with_bests(few, model.pair_set_.features)
    many = replace(many, bests=few.bests)  # more pairs are measured by the candidates there were before
    before, wanted = (PairData.of(model.pair_set_, items, items.pair_labels, 1) for items in (few, many))
    found = before.with_more(model.pair_set_, many, many.pair_labels, 1)
    np.testing.assert_array_equal(found.rows.codes[found.rows.row], wanted.rows.codes[wanted.rows.row])
    weights = np.random.default_rng(0).normal(size=wanted.n_weights)
    np.testing.assert_array_equal(found.scores(weights, 1), wanted.scores(weights, 1))
    assert found.items is many and found.truth is not None
