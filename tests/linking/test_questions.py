"""Which pairs are asked about, and in which order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.linking.questions import CLOSE, CONTRADICTS, OTHER, Queue, Scored, drawn, questions


def scored(p: list[float], left: list[int], right: list[int], block: list[int] | None = None) -> Scored:
    blocks = [0] * len(p) if block is None else block
    return Scored(np.array(p), np.array(left, np.int32), np.array(right, np.int32), np.array(blocks), 0.5)


def asked(pairs: Scored, rows: list[int], answered: tuple[int, ...] = (), seed: int = 0) -> Queue:
    numbers = np.array(rows, np.int64)
    rng = np.random.default_rng(seed)
    return questions(pairs, lambda some: numbers[some], np.array(answered, np.int64), rng)


PAIRS = st.lists(
    st.tuples(
        st.sampled_from([0.01, 0.2, 0.5, 0.51, 0.8, 0.99]),
        st.integers(0, 3), st.integers(0, 3), st.integers(-1, 2), st.integers(0, 4),
    ),
    max_size=25,
)  # fmt: skip


@given(PAIRS)
def test_every_pair_comes_once_and_alike_ones_last(pairs: list[tuple[float, int, int, int, int]]) -> None:
    p, left, right, block, rows = map(list, zip(*pairs, strict=True)) if pairs else ([], [], [], [], [])
    queue = asked(scored(p, left, right, block), rows)
    assert sorted(queue.pairs.tolist()) == list(range(len(p)))
    order = queue.pairs.tolist()
    new = [
        rows[k] not in {rows[j] for j in order[:at]}
        and {left[k], right[k]} not in [{left[j], right[j]} for j in order[:at]]
        for at, k in enumerate(order)
    ]
    assert new == sorted(new, reverse=True)  # once a row or two clusters repeat, nothing new is left
    for k, kind in zip(order, queue.kinds, strict=True):
        against = p[k] < 0.5 if left[k] == right[k] else p[k] > 0.5
        assert kind == (CONTRADICTS if against else CLOSE if 0.1 <= p[k] <= 0.9 else OTHER)
    same = asked(scored(p, left, right, block), rows)
    assert same.pairs.tolist() == order


def test_contradictions_and_unsure_pairs_take_turns_and_so_do_rules() -> None:
    p = [0.9, 0.8, 0.45, 0.3, 0.99, 0.7]
    left, right = [0, 0, 1, 2, 3, 4], [5, 6, 7, 8, 3, 9]
    pairs = scored(p, left, right, [0, 0, 0, 0, 0, 1])
    order = asked(pairs, list(range(6))).pairs.tolist()
    assert order == [0, 2, 5, 1, 3, 4]  # by turns rule 0: contradicts, unsure; rule 1: contradicts; what is sure last


def test_pairs_together_and_apart_take_turns() -> None:
    p = [0.5, 0.52, 0.54, 0.7, 0.75]
    pairs = scored(p, [0, 1, 2, 6, 7], [3, 4, 5, 6, 7])._replace(threshold=0.55)
    assert asked(pairs, list(range(5))).pairs.tolist() == [3, 2, 4, 1, 0]


def test_of_two_tables_nothing_contradicts() -> None:
    """A probable pair is apart where a better match is there."""
    pairs = scored([0.99, 0.6], [0, 0], [1, 2])
    assert asked(pairs, [0, 1]).pairs.tolist() == [0, 1]
    matched = asked(pairs._replace(matched=True), [0, 1])
    assert matched.pairs.tolist() == [1, 0] and matched.kinds.tolist() == [CLOSE, OTHER]


def test_rows_that_have_an_answer_come_later() -> None:
    pairs = scored([0.6, 0.6, 0.9], [0, 0, 0], [1, 2, 3])
    assert asked(pairs, [7, 8, 8], answered=(1,)).pairs.tolist()[0] == 0


def test_draws_are_of_both_kinds_and_likelier_where_a_match_is() -> None:
    p = np.array([0.9] * 50 + [0.001] * 1000 + [0.4] * 50)
    together = np.arange(1100) < 50
    pairs = Scored(p, np.zeros(1100, np.int32), np.where(together, 0, 1).astype(np.int32), np.zeros(1100, int), 0.5)
    found = drawn(pairs, 10, np.random.default_rng(0)).tolist()
    assert len({*found}) == 20 and all(k < 50 for k in found[::2])
    assert sum(k >= 1050 for k in found[1::2]) >= 8  # 95 % of the weight
    assert not len(drawn(scored([], [], []), 10, np.random.default_rng(0)))
