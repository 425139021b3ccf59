"""Counts of true against predicted labels, against counting one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import InputError
from kinfolk.report.scores import Confusion, confusion

LABELS = ("a", "b", "c", "d")
PAIRS = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), max_size=40)


@given(PAIRS)
def test_counts_and_rates_are_their_definitions(pairs):
    found = confusion([t for t, _ in pairs], [p for _, p in pairs], LABELS)
    for i in range(4):
        for j in range(4):
            assert found.counts[i, j] == sum(pair == (i, j) for pair in pairs)
        true, guessed = sum(t == i for t, _ in pairs), sum(t >= 0 and p == i for t, p in pairs)
        both = found.counts[i, i]
        assert found.recall[i] == pytest.approx(both / true if true else 0)
        assert found.precision[i] == pytest.approx(both / guessed if guessed else 0)
        assert found.f1[i] == pytest.approx(2 * both / (true + guessed) if true + guessed else 0)
    known = [(t, p) for t, p in pairs if t >= 0]
    assert found.total == len(known)
    assert found.accuracy == pytest.approx(sum(t == p for t, p in known) / max(len(known), 1))


@given(PAIRS, st.lists(st.sampled_from("xyz"), min_size=4, max_size=4))
def test_merging_counts_is_counting_merged_labels(pairs, names: list[str]):
    found = confusion([t for t, _ in pairs], [p for _, p in pairs], LABELS).merged(names)
    assert found.labels == tuple(dict.fromkeys(names))
    for i, true in enumerate(found.labels):
        for j, guess in enumerate(found.labels):
            assert found.counts[i, j] == sum(t >= 0 and names[t] == true and names[p] == guess for t, p in pairs)


@given(PAIRS, st.integers(2, 5))
def test_the_rest_is_one_label(pairs, most: int):
    whole = confusion([t for t, _ in pairs], [p for _, p in pairs], LABELS)
    found = whole.largest(most)
    assert len(found.labels) == min(most, 4) and found.total == whole.total
    if most < 4:
        assert found.labels[-1] == "(rest)" and list(found.labels[:-1]) == sorted(found.labels[:-1])
        size = dict(zip(LABELS, (whole.counts.sum(axis=0) + whole.counts.sum(axis=1)).tolist(), strict=True))
        assert min(size[name] for name in found.labels[:-1]) >= max(
            size[name] for name in LABELS if name not in found.labels
        )


def test_what_makes_no_sense_is_refused():
    for truth, predicted in (([0], [0, 1]), ([4], [0]), ([0], [4]), ([-2], [0])):
        with pytest.raises(InputError, match="expected"):
            confusion(truth, predicted, LABELS)
    with pytest.raises(InputError, match="a name for each"):
        Confusion(LABELS, np.zeros((4, 4), np.int64)).merged(["x"])


def test_plain_numbers():
    assert confusion([0, 1], [1, 1], "ab").as_dict() == {"labels": ["a", "b"], "counts": [[0, 1], [0, 1]]}
