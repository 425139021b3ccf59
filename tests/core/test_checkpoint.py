"""Steps of a run: what they keep comes back bit by bit, by the same names in the same order, and of the same work."""

from __future__ import annotations

import functools
import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import kinfolk as kf
from kinfolk.core.checkpoint import ALONE, Packed, digest, going_on, remove_checkpoint, running
from kinfolk.core.data import Classes, Vocabulary
from kinfolk.errors import CheckpointError, CheckpointWarning, ModelFileError
from stopped import Killed, after_kills, killed_after

MODEL = kf.MEMM()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ARRAYS = hnp.arrays(
    st.sampled_from([np.dtype(name) for name in "bool int8 int32 int64 uint8 float32 float64".split()]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | ARRAYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Bit by bit, NaN too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@settings(max_examples=200, database=None)
@given(TREES)
def test_what_is_packed_comes_back(tree: Any):
    packed = Packed.of(tree)
    read = Packed(json.loads(json.dumps(packed.form)), packed.arrays)
    assert same(read.tree(), tree)


def test_arrays_that_are_kept_are_nobody_elses():
    """Work goes on with those that it gave, and with those that it took."""
    own = [np.arange(3.0), np.arange(3)]
    packed = Packed.of(own)
    for array in (*own, *packed.tree()):
        array += 1
    assert same(packed.tree(), [np.arange(3.0), np.arange(3)])


@settings(max_examples=30, database=None, deadline=None)
@given(st.lists(TREES, max_size=4))
def test_a_file_has_what_steps_kept(tmp_path_factory: pytest.TempPathFactory, trees: list[Any]):
    path = tmp_path_factory.mktemp("runs") / "run"
    with going_on(path, MODEL):
        for tree in trees:
            assert running().step("one").finish(tree) is tree
    with going_on(path, MODEL):
        steps = [running().step("one") for _ in trees]
        assert all(step.finished and same(step.kept, tree) for step, tree in zip(steps, trees, strict=True))
        more = running().step("one")
        assert not more.finished and more.kept is None


def test_without_a_checkpoint_steps_do_nothing():
    assert running() is ALONE
    with going_on(None, MODEL) as step:
        assert step is ALONE
        one = step.step("one", object())
        one.keep(lambda: pytest.fail("nobody keeps it"))
        one.beside("it", lambda: pytest.fail("nobody keeps it"), lambda kept: pytest.fail("nothing was kept"))
        with one:
            assert one.finish(3) == 3 and not one.finished and one.kept is None
        assert step.step("two").once(lambda: 4) == 4


def test_inner_work_is_part_of_the_run_that_goes_on(tmp_path: Path):
    with going_on(tmp_path / "run", MODEL) as outer, going_on(None, MODEL) as inner:
        assert inner is outer and running() is outer
    assert running() is ALONE


def test_steps_within_a_finished_one_are_dropped(tmp_path: Path):
    with going_on(tmp_path / "run", MODEL) as run:
        with run.step("fold") as fold:
            running().step("optimise").finish(1.0)
            fold.finish(2.0)
        running().step("optimise").finish(3.0)
        assert run.run is not None and [*run.run.records] == ["/fold 1", "/optimise 1"]


def test_a_finished_step_drops_none_of_a_name_that_begins_alike(tmp_path: Path):
    with going_on(tmp_path / "run", MODEL) as run:
        folds = [run.step("fold") for _ in range(11)]
        for k in reversed(range(11)):
            folds[k].finish(k)
    with going_on(tmp_path / "run", MODEL) as run:
        assert [run.step("fold").kept for _ in range(11)] == [*range(11)]


def counted(path: Path, n: int = 6) -> tuple[int, list[int]]:
    """1 + 2 + ... + n, one at a time, twice: the sum of both, and what had to be added."""
    added: list[int] = []
    total = 0
    with going_on(path, MODEL, n):
        for _ in range(2):
            step, here = running().step("sum", n), {"number": 0, "sum": 0}
            curve: list[int] = []
            step.beside("curve", lambda c=curve: c, lambda kept, c=curve: c.extend(kept))
            if step.finished:
                total += step.kept
                assert curve == [*range(1, n + 1)]
                continue
            here = step.kept or here
            assert curve == [*range(1, here["number"] + 1)]
            for number in range(here["number"] + 1, n + 1):
                added.append(number)
                curve.append(number)
                here = {"number": number, "sum": here["sum"] + number}
                step.keep(lambda here=here: here)
            total += step.finish(here["sum"])
    return total, added


def test_work_goes_on_after_the_last_state(tmp_path: Path):
    for kills in ([1], [2], [7], [8], [9, 1, 1], [14], [15]):
        path = tmp_path / f"run-{kills}"
        total, added = after_kills(counted, path, kills)
        done = (
            sum(kills) - 1
        )  # states, after the first write, which is of nothing: six of a sum, and that it is finished
        assert total == 42
        assert len(added) == 12 - min(done, 6) - min(max(done - 7, 0), 6)


def test_states_are_written_when_it_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr("kinfolk.core.checkpoint.time.monotonic", lambda: now[0])
    writes: list[int] = []
    with going_on(tmp_path / "run", MODEL) as run:
        assert run.run is not None
        monkeypatch.setattr(run.run, "_write", lambda: (writes.append(len(writes)), now.__setitem__(0, now[0] + 1.0)))
        step = run.step("one")
        step.keep(lambda: 1)  # nothing is known of what it costs
        assert len(writes) == 1
        for wait, due in ((14.0, False), (1.0, True), (14.9, False), (0.2, True)):
            now[0] += wait
            step.keep(lambda: 1 if due else pytest.fail("not yet"))  # noqa: B023
        assert len(writes) == 3
        step.finish(2)
        assert len(writes) == 3
    assert len(writes) == 4  # what was not written is, at the end


def test_what_could_not_be_written_is_written_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails() -> None:
        monkeypatch.undo()
        raise ModelFileError("No space left")

    with going_on(tmp_path / "run", MODEL) as run:
        monkeypatch.setattr(run.run, "_write", fails)
        with pytest.warns(CheckpointWarning, match="No space left"):
            run.step("one").finish(1)
    with going_on(tmp_path / "run", MODEL) as run:
        assert run.step("one").kept == 1


def test_threads_put_their_steps(tmp_path: Path):
    def work(path: Path) -> list[float]:
        with going_on(path, MODEL) as run:
            found = [0.0] * 8

            def one(k: int) -> None:
                with run.step(f"fold {k}"):
                    found[k] = running().step("optimise", k).once(lambda: k / 7)

            threads = [threading.Thread(target=one, args=(k,)) for k in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return found

    expected = [k / 7 for k in range(8)]
    with killed_after(None):
        assert work(tmp_path / "run") == expected
        with going_on(tmp_path / "run", MODEL) as run:
            for k in reversed(range(8)):
                with run.step(f"fold {k}"):
                    assert running().step("optimise", k).kept == expected[k]


def test_a_step_that_starts_from_something_else_is_refused(tmp_path: Path):
    with going_on(tmp_path / "run", MODEL) as run:
        run.step("one", np.zeros(3)).finish(1)
    with going_on(tmp_path / "run", MODEL) as run, pytest.raises(CheckpointError, match="one 1 does not start from"):
        run.step("one", np.ones(3))


class Settings:
    """A model of nothing but settings."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def get_params(self, deep: bool) -> dict[str, Any]:
        return self._settings


def test_settings_without_a_part_in_the_answer_may_change_also_within(tmp_path: Path):
    begun = {"base__l2": 1.0, "base__n_jobs": 1, "verbose": 0}
    with going_on(tmp_path / "run", Settings(**begun)) as run:
        run.step("one").finish(1)
    with going_on(tmp_path / "run", Settings(**begun | {"base__n_jobs": 2, "verbose": 1})) as run:
        assert run.step("one").kept == 1
    with pytest.raises(CheckpointError, match=r"setting base__l2 was 1\.0, and is 2\.0"):
        going_on(tmp_path / "run", Settings(**begun | {"base__l2": 2.0})).__enter__()


def test_settings_may_differ_behind_what_is_shown_of_them(tmp_path: Path):
    begin = "x" * 100
    with going_on(tmp_path / "run", Settings(templates=begin + "a")):
        pass
    with pytest.raises(CheckpointError, match="setting templates was 'xxx"):
        going_on(tmp_path / "run", Settings(templates=begin + "b")).__enter__()


def test_an_error_leaves_what_was_finished(tmp_path: Path):
    path = tmp_path / "run"
    with pytest.raises(ZeroDivisionError), going_on(path, MODEL) as run:
        run.step("one").finish(1)
        raise ZeroDivisionError
    assert running() is ALONE
    with going_on(path, MODEL) as run:
        assert run.step("one").kept == 1
    remove_checkpoint(path)
    remove_checkpoint(path)
    remove_checkpoint(None)
    assert not path.exists()


def test_a_file_that_was_forged_is_told(tmp_path: Path):
    from kinfolk.core.modelfile import read_model_file, write_model_file

    path = tmp_path / "run"
    with going_on(path, MODEL) as run:
        run.step("one").finish(np.zeros(2))
    file = read_model_file(path)
    for steps in (
        None,
        [["x"]],
        [["/one 1", "", True, {"array": 5, "dtype": "<f8", "shape": [2]}, 1]],
        [[1, 2, 3, 4, 5]],
    ):
        write_model_file(path, {**file.header, "steps": steps}, file.arrays)
        with (
            pytest.raises(CheckpointError, match=r"the checkpoint cannot be read .*delete the file"),
            going_on(path, MODEL),
        ):
            pytest.fail("it was read")


def test_a_tree_holds_plain_things_alone():
    with pytest.raises(TypeError, match="a checkpoint cannot hold a set"):
        Packed.of({"x": {1, 2}})


# -- digests --------------------------------------------------------------------------------------------


@dataclass
class Plain:
    a: Any
    b: Any = 3


class Odd:
    def __init__(self, x: Any) -> None:
        self.x = x


def _itself() -> Odd:
    one = Odd(3)
    one.x = one
    return one


TOLD: list[Any] = [
    None, 0, 1, True, 1.0, 2.0, "1", b"1", [], [1], [1, 2], [[1], 2], ["ab", "c"], ["a", "bc"], {"a": 1}, {"b": 1},
    {1, 2}, {1, 3}, np.zeros(2), np.zeros(3), np.zeros(2, np.float32), np.array([None, 1], object), Plain(1), Plain(2),
    Odd(1), Odd(2), sparse.csr_array(np.eye(2)), sparse.csr_array(np.eye(3)), re.compile("a"), re.compile("a", re.I),
    int, float, len, digest, functools.partial(digest, 1), functools.partial(digest, 2), lambda x: x, lambda x: x + 1,
    Vocabulary(["a"]), Vocabulary(["b"]), Classes.of([1]), kf.MEMM(), kf.MEMM(l2=3), kf.MaxEnt(), Path("a"), _itself(),
    np.random.RandomState(1), np.random.RandomState(2), Plain(1).__repr__, Odd(1).__init__,
]  # fmt: skip


def test_digests_tell_things_apart():
    found = [digest(value) for value in TOLD]
    twice = [(TOLD[i], TOLD[j]) for i in range(len(TOLD)) for j in range(i) if found[i] == found[j]]
    assert twice == []


def test_digests_are_of_what_is_said_and_not_of_who_says_it():
    assert [digest(value) for value in TOLD] == [digest(value) for value in TOLD]
    names = Vocabulary(["a", "b"])
    before = digest(names)
    assert names.get("b") == 1  # which makes an index of it
    assert digest(names) == before == digest(Vocabulary(["a", "b"]))
    assert digest(Plain([1])) == digest(Plain([1])) and digest(Odd([1])) == digest(Odd([1]))
    assert digest(kf.MEMM(n_jobs=3, verbose=1)) == digest(kf.MEMM())
    assert digest({2, 1, 3}) == digest({3, 2, 1})
    assert digest(np.zeros((2, 3)).T) == digest(np.zeros((3, 2)))


@settings(max_examples=100, database=None)
@given(TREES, TREES)
def test_trees_have_the_same_digest_only_if_they_are_the_same(one: Any, other: Any):
    assert (digest(one) == digest(other)) == same(one, other) or str(one) == str(other)
    assert digest(Packed.of(one).tree()) == digest(one)


def test_killed_is_no_error_that_anybody_catches():
    assert not issubclass(Killed, Exception)
