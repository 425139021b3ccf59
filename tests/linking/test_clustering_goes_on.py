"""Comparing pairs that was stopped goes on behind the last of them, to the same clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import kinfolk as kf
from every_model import BLOCKING, PEOPLE
from kinfolk.errors import CheckpointError
from kinfolk.linking import pair_table
from stopped import Killed, after_kills, killed_after, number_of_writes


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    return kf.Linker(blocking=BLOCKING, n_jobs=1).fit(PEOPLE)


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_table, "CHUNK", 16)


def test_clusters_are_the_same_wherever_it_was_stopped(linker: kf.Linker, tmp_path: Path):
    others = kf.generate_customers(120, seed=2)
    items, probability, clusters = linker.linked(others)

    def linked(path: Path) -> Any:
        return linker.linked(others, checkpoint=path)

    n = number_of_writes(linked, tmp_path / "count")
    assert n > 8
    for kills in ([1], [n // 3, n // 3], [n - 1]):
        found = after_kills(linked, tmp_path / f"run-{kills}", kills)
        assert_array_equal(found[0].left, items.left)
        assert found[1].tobytes() == probability.tobytes()
        assert_array_equal(found[2], clusters)


def test_pairs_that_were_compared_are_not_again(linker: kf.Linker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    others = kf.generate_customers(120, seed=2)
    with killed_after(6), pytest.raises(Killed):
        linker.linked(others, checkpoint=tmp_path / "run")
    compared: list[int] = []
    made = pair_table.PairSet.coder

    def counting(self: Any, items: Any) -> Any:
        coded = made(self, items)
        return lambda left, right: (compared.append(len(left)), coded(left, right))[1]

    monkeypatch.setattr(pair_table.PairSet, "coder", counting)
    found, _, _ = linker.linked(others, checkpoint=tmp_path / "run")
    assert sum(compared) == found.n_pairs - 5 * 16
    compared.clear()
    linker.linked(others, checkpoint=tmp_path / "run")
    assert compared == []


def test_threads_have_no_part_in_it(linker: kf.Linker, tmp_path: Path):
    others = kf.generate_customers(120, seed=2)
    expected = linker.linked(others)[1]
    jobs = iter([1, 3, 2])

    def linked(path: Path) -> Any:
        return linker.set_params(n_jobs=next(jobs)).linked(others, checkpoint=path)[1]

    assert after_kills(linked, tmp_path / "run", [4, 3]).tobytes() == np.asarray(expected).tobytes()
    linker.set_params(n_jobs=1)


def test_other_items_or_another_model_are_refused(linker: kf.Linker, tmp_path: Path):
    others = kf.generate_customers(120, seed=2)
    with killed_after(4), pytest.raises(Killed):
        linker.linked(others, checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match="the data are not those it was begun with"):
        linker.linked(PEOPLE, checkpoint=tmp_path / "run")
    another = kf.Linker(blocking=BLOCKING, n_jobs=1, rounds=1).fit(PEOPLE)
    with pytest.raises(CheckpointError, match="of other work: setting rounds was"):
        another.linked(others, checkpoint=tmp_path / "run")
