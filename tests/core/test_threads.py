"""How work is cut into chunks and spread over threads."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kinfolk.core.threads import even_bounds, resolve_jobs, run_chunks
from kinfolk.errors import SettingError

quick = settings(max_examples=200, database=None)


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_resolve_jobs(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {*range(cores)}, raising=False)
    assert resolve_jobs(None) == 1
    assert resolve_jobs(1) == 1
    assert resolve_jobs(7) == 7
    assert resolve_jobs(-1) == cores
    assert resolve_jobs(-2) == max(1, cores - 1)
    assert resolve_jobs(-1000) == 1


def test_every_core_that_the_process_may_use() -> None:
    """In a process of its own, where nothing of the suite is patched; without a list of cores, their number."""
    asked = "from kinfolk.core.threads import resolve_jobs; import os; "
    counted = "len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()"
    uncounted = "vars(os).pop('sched_getaffinity', 0)"
    code = f"{asked}assert resolve_jobs(-1) == {counted}; {uncounted}; assert resolve_jobs(-1) == os.cpu_count()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("wrong", [0, 1.0, 2.5, "2", True, False, [1]])
def test_resolve_jobs_refuses(wrong: object) -> None:
    with pytest.raises(SettingError, match="n_jobs"):
        resolve_jobs(wrong)  # type: ignore[arg-type]


@quick
@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 40), st.integers(0, 5))
def test_even_bounds_cover_all_items_once(costs: list[int], n_chunks: int, offset: int) -> None:
    cumulative = offset + np.cumsum([0, *costs])
    bounds = even_bounds(cumulative, n_chunks)
    assert bounds.dtype == np.int64
    assert bounds[0] == 0
    assert bounds[-1] == len(costs)
    assert (np.diff(bounds) > 0).all()
    assert len(bounds) - 1 <= n_chunks


@quick
@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(1, 40))
def test_even_bounds_balance(costs: list[int], n_chunks: int) -> None:
    """A run never costs more than an even share and one item."""
    bounds = even_bounds(np.cumsum([0, *costs]), n_chunks)
    runs = [sum(costs[a:b]) for a, b in itertools.pairwise(bounds)]
    assert max(runs) <= sum(costs) / n_chunks + 1 + max(costs)


@pytest.mark.parametrize(
    ("costs", "n_chunks", "expected"),
    [
        ([], 4, [0]),
        ([5], 4, [0, 1]),
        ([0], 4, [0, 1]),
        ([0, 0, 0], 4, [0, 3]),
        ([1, 1, 1], 8, [0, 1, 2, 3]),
        ([1, 1, 1, 1], 2, [0, 2, 4]),
        ([100, 1, 1], 3, [0, 1, 3]),
        ([3, 2, 1], 1, [0, 3]),
    ],
)
def test_even_bounds_by_hand(costs: list[int], n_chunks: int, expected: list[int]) -> None:
    assert_array_equal(even_bounds(np.cumsum([0, *costs]), n_chunks), expected)


def test_even_bounds_of_large_counts() -> None:
    """Costs beyond 32 bits, in the integers of a sparse table."""
    assert_array_equal(even_bounds(np.array([0, 2**40, 2**41], np.int64), 2), [0, 1, 2])
    assert_array_equal(even_bounds(np.array([0, 2**30, 2**31 - 1], np.int32), 32)[[0, -1]], [0, 2])


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n_chunks", [0, 1, 2, 50])
def test_run_chunks_answers_in_order(n_jobs: int, n_chunks: int) -> None:
    assert run_chunks(lambda chunk: chunk * chunk, n_chunks, n_jobs) == [c * c for c in range(n_chunks)]


def test_run_chunks_keeps_order_when_later_chunks_finish_first() -> None:
    last_done = threading.Event()

    def task(chunk: int) -> int:
        if chunk == 0:
            assert last_done.wait(timeout=30)
        else:
            last_done.set()
        return chunk

    assert run_chunks(task, 2, 2) == [0, 1]


def test_run_chunks_with_one_job_stays_on_the_calling_thread() -> None:
    here = threading.get_ident()
    assert run_chunks(lambda _: threading.get_ident(), 3, 1) == [here] * 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_run_chunks_passes_errors_on(n_jobs: int) -> None:
    def task(chunk: int) -> int:
        if chunk == 3:
            raise ValueError("chunk 3")
        return chunk

    with pytest.raises(ValueError, match="chunk 3"):
        run_chunks(task, 6, n_jobs)
    assert run_chunks(lambda chunk: chunk, 3, n_jobs) == [0, 1, 2]  # the pool is still there
