"""Every call of the file layer may fail, in every way: what was there is there, or what was to come, never a part.

What a fault leaves behind is gone after the next run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from failing import WAYS, every_call, failing
from works import kinfolk

import kinfolk as kf
from kinfolk.core.checkpoint import Run
from kinfolk.text.streams import tag_file


def check_every_call(target: Path, how: str, work: Callable[[], object], errors: tuple[str, ...]) -> int:
    """Of work that puts a file in the place of another one; the number of its calls."""
    n_calls, old = 0, b"what was there before"

    def begin() -> None:
        target.write_bytes(old)

    begin()
    work()
    new = target.read_bytes()
    assert new != old
    for number, error in every_call(target.parent, begin, work, how):
        n_calls, found = number, target.read_bytes()
        assert found in (old, new), f"call {number}: neither the old file nor the new one"
        if how != "killed":
            assert (found == new) == (error == ""), f"call {number}: told {error!r}"
            assert not error or (error.startswith(errors) and target.name in error.splitlines()[-1]), error
        work()
        assert [path.name for path in target.parent.iterdir()] == [target.name], f"call {number}: litter"
        assert target.read_bytes() == new
    return n_calls


@pytest.mark.parametrize("how", WAYS)
def test_every_call_of_a_save(files: Path, folder: Path, how: str):
    model = kf.load_model(files / "crf.kinfolk")
    saving = lambda: model.save(folder / "m.kinfolk")  # noqa: E731
    assert check_every_call(folder / "m.kinfolk", how, saving, ("ModelFileError",)) >= 4


TAGGED = "tokens tag {files}/crf.kinfolk {files}/test.conll --jobs 1 -o {folder}/tagged.conll"
CLUSTERED = "records cluster --quiet {files}/linker.kinfolk --records {files}/customers.csv -o {folder}/clusters.csv"
PAGE = "tokens evaluate {files}/crf.kinfolk {files}/test.conll --jobs 1 --report {folder}/page.html"
COMMANDS = {
    "tagging": (TAGGED, "tagged.conll"),
    "tagging, packed": (f"{TAGGED}.gz", "tagged.conll.gz"),
    "clustering": (CLUSTERED, "clusters.csv"),
    "a page": (PAGE, "page.html"),
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_call_of_a_command_that_writes_a_file(files: Path, folder: Path, name: str, how: str):
    words, target = COMMANDS[name]
    working = lambda: kinfolk(*words.format(files=files, folder=folder).split())  # noqa: E731
    assert check_every_call(folder / target, how, working, ("Refused: ",)) >= 4


# -- checkpoints: what fails is told, and work goes on; what is killed goes on in the next run ---------------


def check_every_call_of_going_on(folder: Path, how: str, work: Callable[[], Any], left: set[str]) -> int:
    """Of work that goes on from what is in a folder, where it leaves files of these names; the number of its calls."""
    n_calls = 0

    def begin() -> None:
        for path in folder.iterdir():
            path.unlink()

    begin()
    undisturbed = work()
    for number, error in every_call(folder, begin, work, how):
        n_calls = number
        if how != "killed":
            assert not error or error.startswith(("CheckpointError", "InputError")), f"call {number}: {error}"
        assert work() == undisturbed, f"call {number}: another answer"
        assert {path.name for path in folder.iterdir()} == left, f"call {number}: litter"
    return n_calls


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock says, it is time for a state now and then: two times of eight that a run is asked, which it
    is before a state is made and before it is written."""
    monkeypatch.setattr(Run, "due", property(lambda run: next(vars(run).setdefault("asked", count())) % 8 < 2))


@pytest.mark.filterwarnings("ignore::kinfolk.errors.CheckpointWarning", "ignore:training hit the iteration limit")
@pytest.mark.parametrize("how", WAYS)
def test_every_call_of_a_checkpoint_of_training(files: Path, folder: Path, how: str, often: None):
    corpus = kf.read_conll(files / "train.conll")[:1]

    def training() -> dict[str, bytes]:
        model = kf.LinearChainCRF(n_jobs=1, max_iterations=2).fit(corpus, checkpoint=folder / "run")
        return {name: array.tobytes() for name, array in model.to_state().arrays.items()}

    assert check_every_call_of_going_on(folder, how, training, {"run"}) >= 15


@pytest.mark.filterwarnings("ignore::kinfolk.errors.CheckpointWarning")
@pytest.mark.parametrize("how", WAYS)
def test_every_call_of_a_checkpoint_of_tagging(files: Path, folder: Path, how: str, often: None):
    model, text = kf.load_model(files / "crf.kinfolk").set_params(n_jobs=1), files / "three.conll"
    text.write_text((files / "test.conll").read_text() * 3)

    def tagging() -> bytes:
        form: dict[str, Any] = dict(text=False, forced=False, scheme="auto", separator=None, documents="auto")
        tag_file(model, text, folder / "tagged", **form, piece=2000, checkpoint=folder / "run")
        return (folder / "tagged").read_bytes()

    assert check_every_call_of_going_on(folder, how, tagging, {"tagged"}) >= 15


# -- the layer itself -------------------------------------------------------------------------------------


def test_the_layer_sees_every_way_to_write(tmp_path: Path):
    with failing(tmp_path) as calls:
        with open(tmp_path / "a", "w", encoding="utf-8") as text:
            text.write("x" * 100_000)
        (tmp_path / "b").write_bytes(b"y")
        fd = os.open(tmp_path / "c", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"z")
        os.fsync(fd)
        os.close(fd)
        os.replace(tmp_path / "a", tmp_path / "d")
        (tmp_path / "b").unlink()
        (tmp_path / "d").read_text()
    assert calls[:2] == ["open", "write"] and calls[-7:] == [
        "open",
        "write",
        "open",
        "write",
        "fsync",
        "replace",
        "unlink",
    ]
    assert set(calls[1:-7]) == {"write"}
    assert (tmp_path / "d").read_text() == "x" * 100_000 and (tmp_path / "c").read_bytes() == b"z"


def test_the_layer_leaves_other_folders_alone(tmp_path: Path):
    (tmp_path / "watched").mkdir()
    with failing(tmp_path / "watched", 1, "gone") as calls:
        (tmp_path / "a").write_text("here")
        with pytest.raises(OSError):
            (tmp_path / "watched" / "a").write_text("there")
    assert (tmp_path / "a").read_text() == "here" and calls == ["open"]


def test_a_full_disk_takes_the_first_half(tmp_path: Path):
    with (
        failing(tmp_path, 2, "full"),
        pytest.raises(OSError, match="No space left"),
        open(tmp_path / "a", "wb", 0) as file,
    ):
        file.write(b"12345678")
    assert (tmp_path / "a").read_bytes() == b"1234"
    with failing(tmp_path, 1, "full"):
        (tmp_path / "a").unlink()
