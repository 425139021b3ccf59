"""Hypothesis strategies for chains, masks and small training sets.

Hypothesis draws sizes, options and a seed; the numbers come from ``np.random.default_rng(seed)``. That keeps
the examples fast and varied, and leaves global random state alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from oracles import BoolArray, ChainSequence, FloatArray, IntArray, chain_k_best

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)


class Chain(NamedTuple):
    """The potentials of one sequence, in the order of the oracles: ``chain_best(*chain)``."""

    node: FloatArray  # (T, L)
    pair: FloatArray  # (L, L) or (T, L, L)
    start: FloatArray  # (L,)
    end: FloatArray  # (L,)


class ChainDataset(NamedTuple):
    """Sequences and parameters, in the order of ``crf_loss(*dataset)``."""

    sequences: list[ChainSequence]
    W: FloatArray  # (F, L)
    T: FloatArray  # (L, L)
    start: FloatArray  # (L,)
    end: FloatArray  # (L,)
    U: FloatArray | None  # (G, L, L)


@st.composite
def chains(
    draw: st.DrawFn,
    max_tokens: int = 5,
    max_labels: int = 4,
    allow_forbidden: bool = True,
    min_tokens: int = 1,
    no_dead_ends: bool = False,
) -> Chain:
    """Potentials with at least one possible labelling.

    ``min_tokens=0`` asks for empty sequences too. ``pair`` is shared or per-token; a per-token ``pair[0]``
    holds numbers that must not matter. Scales run from 0 (everything ties) to 400 (exp overflows); scores
    are sometimes whole numbers (some labellings tie). With ``no_dead_ends`` every label has a possible
    successor at every position, as a locally normalised model needs.
    """
    T = draw(st.integers(min_tokens, max_tokens))
    L = draw(st.integers(1, max_labels))
    per_token = draw(st.booleans())
    scale = draw(st.sampled_from([1.0, 0.0, 3.0, 50.0, 400.0]))
    whole = draw(st.booleans())
    forbidden_rate = draw(st.sampled_from([0.0, 0.1, 0.4, 0.8])) if allow_forbidden else 0.0
    rng = np.random.default_rng(draw(SEEDS))

    shapes = [(T, L), (T, L, L) if per_token else (L, L), (L,), (L,)]
    scores = [scale * rng.standard_normal(shape) for shape in shapes]
    if whole:
        scores = [np.round(array) for array in scores]
    node, pair, start, end = scores
    node_off, pair_off, start_off, end_off = (rng.random(shape) < forbidden_rate for shape in shapes)

    kept = rng.integers(L, size=T)  # this labelling stays possible
    for t in range(T):
        node_off[t, kept[t]] = False
        if t > 0:
            before = slice(None) if no_dead_ends else kept[t - 1]
            (pair_off[t] if per_token else pair_off)[before, kept[t]] = False
    if T > 0:
        start_off[kept[0]] = False
        end_off[kept[-1]] = False

    node[node_off] = -np.inf
    pair[pair_off] = -np.inf
    start[start_off] = -np.inf
    end[end_off] = -np.inf
    return Chain(node, pair, start, end)


@st.composite
def allowed_masks(draw: st.DrawFn, n_tokens: int, n_labels: int, keep: Sequence[int] | None = None) -> BoolArray:
    """A (T, L) mask whose rows are unknown (all True), forced (one True) or any non-empty subset.

    ``keep`` is a labelling the mask must permit; by default any may be ruled out.
    """
    kinds = [draw(st.sampled_from(["unknown", "forced", "subset"])) for _ in range(n_tokens)]
    rng = np.random.default_rng(draw(SEEDS))
    mask = np.ones((n_tokens, n_labels), dtype=bool)
    for t, kind in enumerate(kinds):
        if kind == "forced":
            mask[t] = False
        elif kind == "subset":
            mask[t] = rng.random(n_labels) < 0.5
        mask[t, rng.integers(n_labels) if keep is None else keep[t]] = True
    return mask


@st.composite
def masked_chains(
    draw: st.DrawFn,
    max_tokens: int = 5,
    max_labels: int = 4,
    allow_forbidden: bool = True,
    min_tokens: int = 1,
    no_dead_ends: bool = False,
) -> tuple[Chain, BoolArray]:
    """A chain and a mask that permits at least one of its possible labellings: (chain, allowed)."""
    chain = draw(chains(max_tokens, max_labels, allow_forbidden, min_tokens, no_dead_ends))
    T, L = chain.node.shape
    possible = chain_k_best(*chain, L**T)
    keep, _ = possible[draw(st.integers(0, len(possible) - 1))]
    return chain, draw(allowed_masks(T, L, keep))


def _draw_labels(rng: np.random.Generator, T: int, L: int, unknown_rate: float) -> IntArray:
    labels = rng.integers(L, size=T)
    labels[rng.random(T) < unknown_rate] = -1
    return labels


def _draw_weight(rng: np.random.Generator, allow_zero: bool) -> float:
    """Zero one time in ten when allowed, else 1 or a number in [0.1, 3)."""
    if allow_zero and rng.random() < 0.1:
        return 0.0
    return float(rng.choice([1.0, rng.uniform(0.1, 3.0)]))


@st.composite
def chain_datasets(
    draw: st.DrawFn,
    max_sequences: int = 3,
    max_tokens: int = 4,
    max_labels: int = 3,
    max_features: int = 3,
    max_pair_features: int = 2,
    allow_unknown: bool = True,
    allow_zero_weights: bool = True,
    min_tokens: int = 1,
) -> ChainDataset:
    """One or more sequences with features, labels and weights, and finite parameters to score them with.

    Labels are all known, partly known or all unknown (-1), sequence by sequence. Features are sparse,
    and all binary or all real. U is None, and so is every Z, when no pair features are drawn
    (``max_pair_features=0`` never draws any).
    """
    n_sequences = draw(st.integers(1, max_sequences))
    L = draw(st.integers(1, max_labels))
    F = draw(st.integers(1, max_features))
    G = draw(st.integers(0, max_pair_features))
    lengths = [draw(st.integers(min_tokens, max_tokens)) for _ in range(n_sequences)]
    unknown_rates = [0.0, 0.4, 1.0] if allow_unknown else [0.0]
    scale = draw(st.sampled_from([1.0, 0.0, 3.0]))
    binary = draw(st.booleans())
    rng = np.random.default_rng(draw(SEEDS))

    def features(T: int, width: int) -> FloatArray:
        values = np.ones((T, width)) if binary else rng.standard_normal((T, width))
        values[rng.random((T, width)) < 0.4] = 0.0
        return values

    sequences: list[ChainSequence] = [
        {
            "X": features(T, F),
            "labels": _draw_labels(rng, T, L, float(rng.choice(unknown_rates))),
            "weight": _draw_weight(rng, allow_zero_weights),
            "Z": features(T, G) if G > 0 else None,
        }
        for T in lengths
    ]
    return ChainDataset(
        sequences,
        W=scale * rng.standard_normal((F, L)),
        T=scale * rng.standard_normal((L, L)),
        start=scale * rng.standard_normal(L),
        end=scale * rng.standard_normal(L),
        U=scale * rng.standard_normal((G, L, L)) if G > 0 else None,
    )
