"""The mixture of Fellegi and Sunter (1969), learned without labels: pairs are matches or not, and what two records
agree on says which.

A pair is a row of codes, one a field: 0 for a missing value, higher codes for closer agreement. With λ the share of
matches and m, u the frequencies of the codes of a field among matches and among others, its log-odds are

    s = log λ/(1 - λ) + Σ_k c_k log m_k(code_k) / u_k(code_k),      a missing value counts 0

EM: the probability r = 1 / (1 + e^-s) of each row counts its pairs to m and 1 - r to u, and λ is their mean. Two
things keep it to what matches are. Closer agreement never speaks against a match: the share of matches among the pairs
of a code may not fall from code to code (isotonic regression), so no other division of the pairs, such as by town, has
a way in. And fields that say the same thing twice, a full name and its parts, count less: with ρ_jk the correlation of
their terms among pairs that are no matches, c_k = 1 / Σ_j max(ρ_jk, 0)²; two equal fields count one half each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PRIOR = 0.1  # pairs that every code is taken to have had before, as matches and as others
ITERATIONS = 300
SETTLED = 1e-3  # matches by which an iteration changes the rows, in all, below which it is the last


class FieldWeights(NamedTuple):
    """log λ/(1 - λ); of each field the terms of its codes, c included; λ; c; and whether EM settled."""

    bias: float
    terms: list[NDArray[np.float64]]
    share: float
    counts_for: NDArray[np.float64]
    settled: bool

    def scores(self, codes: Array) -> NDArray[np.float64]:
        """Log-odds of rows of codes."""
        found = np.full(len(codes), self.bias)
        for k, terms in enumerate(self.terms):
            found += terms[codes[:, k]]
        return found


def fellegi_sunter(codes: Array, counts: Array, sizes: Array, start: Array) -> FieldWeights:
    """EM from the probability of each row, `start`. codes: (R, K); counts: how many pairs each row has."""
    r, n_fields = np.asarray(start, np.float64), codes.shape[1]
    counts = np.asarray(counts, np.float64)
    found = FieldWeights(0.0, [np.zeros(int(size)) for size in sizes], 0.5, np.ones(n_fields), False)
    for _ in range(ITERATIONS):
        matches, others = counts * r, counts * (1.0 - r)
        share = (matches.sum() + PRIOR) / (matches.sum() + others.sum() + 2 * PRIOR)
        terms = [field_terms(codes[:, k], matches, others, int(size)) for k, size in enumerate(sizes)]
        by_row = np.stack([terms[k][codes[:, k]] for k in range(n_fields)], axis=1)
        once = _counts_for(by_row, others)
        bias = float(np.log(share) - np.log1p(-share))
        new = 1.0 / (1.0 + np.exp(-np.clip(bias + by_row @ once, -500, 500)))
        moved, r = float(np.abs(new - r) @ counts), new
        found = FieldWeights(bias, [c * one for c, one in zip(once, terms, strict=True)], share, once, moved < SETTLED)
        if found.settled:
            break
    return found


def field_terms(codes: Array, matches: Array, others: Array, size: int) -> NDArray[np.float64]:
    """log m/u of each code of a field; a code that no pair has is as the next lower one that some have."""
    from scipy.optimize import isotonic_regression

    m: Array
    u: Array
    m, u = (np.bincount(codes, of, minlength=size) for of in (matches, others))
    there = np.flatnonzero(np.bincount(codes, minlength=size)[1:]) + 1
    terms = np.zeros(size)
    if len(there) < 2:
        return terms
    m, u = m[there] + PRIOR, u[there] + PRIOR
    share = isotonic_regression(m / (m + u), weights=m + u).x
    m, u = share * (m + u), (1.0 - share) * (m + u)
    own = np.log(m / m.sum()) - np.log(u / u.sum())
    terms[1:] = own[np.maximum(np.searchsorted(there, np.arange(1, size), side="right") - 1, 0)]
    return terms


def _counts_for(by_row: Array, others: Array) -> NDArray[np.float64]:
    """c of each field, by the correlations of terms among pairs that are no matches."""
    weight = others / max(float(others.sum()), 1e-12)
    apart = by_row - weight @ by_row
    covariance = (apart * weight[:, None]).T @ apart
    width = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    alike = np.maximum(covariance / np.outer(width, width), 0.0) ** 2
    np.fill_diagonal(alike, 1.0)
    return np.asarray(1.0 / alike.sum(axis=1))
