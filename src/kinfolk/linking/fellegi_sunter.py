"""The mixture of Fellegi and Sunter (1969), learned without labels: pairs are matches or not, and what two records
agree on says which.

A pair is a row of codes, one a field: 0 for a missing value, higher codes for closer agreement. With λ the share of
matches and m, u the frequencies of the codes of a field among matches and among others, its log-odds are

    s = log λ/(1 - λ) + Σ_k c_k log m_k(code_k) / u_k(code_k),      a missing value counts 0

EM: the probability r = 1 / (1 + e^-s) of each row counts its pairs to m and 1 - r to u, and λ is their mean. Three
things keep it to what matches are. Closer agreement never speaks against a match: the share of matches among the pairs
of a code may not fall from code to code (isotonic regression), so no other division of the pairs, such as by town, has
a way in. Beside the candidate pairs, which agree on something or they would be none, u counts as many pairs drawn at
random as there are matches: so what all candidates agree on is evidence too. And fields that say the same thing twice,
a full name and its parts, count less: with ρ_jk the correlation of their terms, c_k = 1 / Σ_j max(ρ_jk, 0)²; two equal
fields count one half each. Evidence for a match, log m/u > 0, misleads where fields agree together by chance: ρ among
pairs that are no matches, or among random ones, whichever is larger. Evidence against it misleads where matches differ
in several fields at once, as another edition does in year and pages: ρ of the negative terms among matches.
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
    """log λ/(1 - λ); of each field the terms of its codes, c included; the share of matches among the candidates; c of
    evidence for a match; and whether EM settled."""

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


class CodedRows(NamedTuple):
    """Rows of codes (R, K), and how many pairs each has."""

    codes: Array
    counts: Array


def fellegi_sunter(pairs: CodedRows, sizes: Array, start: Array, drawn: CodedRows | None = None) -> FieldWeights:
    """EM from the probability of each row of candidate pairs, `start`. sizes: how many codes each field has; drawn:
    random pairs that are no candidates, and so no matches."""
    counts = np.asarray(pairs.counts, np.float64)
    n_fields = pairs.codes.shape[1]
    codes, at_random = pairs.codes, np.zeros(len(counts))
    if drawn is not None and len(drawn.counts):
        codes = np.concatenate([codes, drawn.codes])
        at_random = np.concatenate([at_random, drawn.counts / drawn.counts.sum()])
        counts = np.concatenate([counts, np.zeros(len(drawn.counts))])
    r = np.concatenate([np.asarray(start, np.float64), np.zeros(len(counts) - len(start))])
    found = FieldWeights(0.0, [np.zeros(int(size)) for size in sizes], 0.5, np.ones(n_fields), False)
    for _ in range(ITERATIONS):
        matches = counts * r
        others = counts * (1.0 - r) + at_random * matches.sum()
        share = (matches.sum() + PRIOR) / (matches.sum() + others.sum() + 2 * PRIOR)
        terms = [field_terms(codes[:, k], matches, others, int(size)) for k, size in enumerate(sizes)]
        by_row = np.stack([terms[k][codes[:, k]] for k in range(n_fields)], axis=1)
        agree, differ = counts_for(by_row, others), counts_for(np.minimum(by_row, 0.0), matches)
        if at_random.any():
            agree = np.minimum(agree, counts_for(by_row, at_random))
        terms = [one * np.where(one > 0, agree[k], differ[k]) for k, one in enumerate(terms)]
        of_candidates = float((matches.sum() + PRIOR) / (counts.sum() + 2 * PRIOR))
        found = FieldWeights(float(np.log(share) - np.log1p(-share)), terms, of_candidates, agree, False)
        new = 1.0 / (1.0 + np.exp(-np.clip(found.scores(codes), -500, 500)))
        moved, r = float(np.abs(new - r) @ counts), new
        if moved < SETTLED:
            return found._replace(settled=True)
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


def counts_for(by_row: Array, among: Array) -> NDArray[np.float64]:
    """c of each field, by the correlations of terms (R, K) among some of the pairs."""
    weight = among / max(float(among.sum()), 1e-12)
    apart = by_row - weight @ by_row
    covariance = (apart * weight[:, None]).T @ apart
    width = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    alike = np.maximum(covariance / np.outer(width, width), 0.0) ** 2
    np.fill_diagonal(alike, 1.0)
    return np.asarray(1.0 / alike.sum(axis=1))
