"""Files written piece by piece: one that was stopped goes on behind its last piece, and ends with the same bytes."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.checkpoint import Run
from kinfolk.core.files import write_utf8
from kinfolk.core.piecewise import write_pieces
from kinfolk.errors import CheckpointError, InputError, SettingError
from kinfolk.text.streams import tag_file
from stopped import Killed, after_kills, killed_after, number_of_writes

MODEL = kf.MEMM()
WORDS = ["one", "two", "three\n", "", "four", "fünf"]


class Work:
    """Words in capitals, and how often that had to be done."""

    def __init__(self, into: Path, words: list[str] = WORDS) -> None:
        self.into, self.words, self.worked = into, words, 0

    def lines(self, pieces: Any) -> Iterator[str]:
        for word in pieces:
            self.worked += 1
            yield word[:1].upper()
            yield word[1:].upper()

    def __call__(self, path: Path) -> bytes:
        write_pieces(self.into, self.lines, self.words, path, MODEL)
        return self.into.read_bytes()


def expected(words: list[str]) -> bytes:
    return "".join(words).upper().encode()


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_a_file_goes_on_behind_its_last_piece(tmp_path: Path, name: str):
    plain = tmp_path / f"plain-{name}"
    write_utf8(plain, iter([expected(WORDS).decode()]))
    for kills in ([1], [2], [4], [3, 1], [7], [8]):
        work = Work(tmp_path / name)
        assert after_kills(work, tmp_path / "run", kills) == plain.read_bytes()
        done = sum(kills) - 1
        assert work.worked == len(WORDS) if done == 0 else work.worked <= 2 * len(WORDS)
        assert sorted(os.listdir(tmp_path)) == sorted([name, plain.name])
        (tmp_path / name).unlink()
    if name.endswith(".gz"):
        assert gzip.decompress(plain.read_bytes()) == expected(WORDS)


def test_pieces_that_are_done_are_not_worked_on_again(tmp_path: Path):
    work = Work(tmp_path / "out")
    with killed_after(4), pytest.raises(Killed):  # the first, and three pieces
        work(tmp_path / "run")
    assert work.worked == 3 and not (tmp_path / "out").exists()
    work.worked = 0
    assert work(tmp_path / "run") == expected(WORDS) and work.worked == 3


@settings(max_examples=30, database=None, deadline=None)
@given(st.lists(st.text(max_size=4), max_size=6), st.data())
def test_any_pieces_stopped_anywhere(tmp_path_factory: pytest.TempPathFactory, words: list[str], data: st.DataObject):
    words = [word.encode("utf-8", "ignore").decode() for word in words]
    folder = tmp_path_factory.mktemp("pieces")
    n = number_of_writes_of(words, folder)
    kills = data.draw(st.lists(st.integers(1, n), max_size=2).filter(lambda kills: sum(kills) <= n))
    assert after_kills(Work(folder / "out", words), folder / "run", kills) == expected(words)
    assert os.listdir(folder) == ["out"]


def number_of_writes_of(words: list[str], folder: Path) -> int:
    with killed_after(None) as counted:
        Work(folder / "out", words)(folder / "run")
    (folder / "out").unlink()
    return counted[0]


def test_half_a_piece_that_was_written_is_cut_off(tmp_path: Path):
    with killed_after(3), pytest.raises(Killed):
        Work(tmp_path / "out")(tmp_path / "run")
    part = tmp_path / ".kinfolk-out.part"
    part.write_bytes(part.read_bytes() + b"THR")
    assert Work(tmp_path / "out")(tmp_path / "run") == expected(WORDS)


def test_output_that_was_altered_is_told(tmp_path: Path):
    part = tmp_path / ".kinfolk-out.part"
    for spoil in (lambda: part.write_bytes(b"X" + part.read_bytes()[1:]), lambda: part.write_bytes(b"O"), part.unlink):
        with killed_after(3), pytest.raises(Killed):
            Work(tmp_path / "out")(tmp_path / "run")
        spoil()
        with pytest.raises(CheckpointError, match="is not there as it was left: delete the file to begin anew"):
            Work(tmp_path / "out")(tmp_path / "run")
        (tmp_path / "run").unlink()


def test_other_pieces_are_told(tmp_path: Path):
    for words in (["ONE", *WORDS[1:]], WORDS[:1], []):
        with killed_after(3), pytest.raises(Killed):
            Work(tmp_path / "out")(tmp_path / "run")
        with pytest.raises(CheckpointError, match="the data are not those it was begun with"):
            Work(tmp_path / "out", words)(tmp_path / "run")
        assert not (tmp_path / "out").exists()
        (tmp_path / "run").unlink()


def test_another_output_is_other_work(tmp_path: Path):
    with killed_after(3), pytest.raises(Killed):
        Work(tmp_path / "out")(tmp_path / "run")
    with pytest.raises(CheckpointError, match="of other work"):
        Work(tmp_path / "other")(tmp_path / "run")


def test_stopped_between_the_last_piece_and_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Before the file is in its place, and after that, when the checkpoint is still there."""
    for name, left in (("put_in_place", ["run", ".kinfolk-out.part"]), ("remove_checkpoint", ["run", "out"])):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(f"kinfolk.core.piecewise.{name}", lambda *_: (_ for _ in ()).throw(Killed))
            Work(tmp_path / "out")(tmp_path / "run")
        assert sorted(os.listdir(tmp_path)) == sorted(left)
        work = Work(tmp_path / "out")
        assert work(tmp_path / "run") == expected(WORDS) and work.worked == 0
        assert os.listdir(tmp_path) == ["out"]
        (tmp_path / "out").unlink()


def test_a_file_that_is_replaced_keeps_its_rights_and_its_content_until_then(tmp_path: Path):
    out = tmp_path / "out"
    out.write_text("before")
    out.chmod(0o600)
    with killed_after(3), pytest.raises(Killed):
        Work(out)(tmp_path / "run")
    assert out.read_text() == "before"
    assert Work(out)(tmp_path / "run") == expected(WORDS)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_what_cannot_go_on_is_told(tmp_path: Path):
    with pytest.raises(SettingError, match="needs a file to write to"):
        write_pieces("-", Work(tmp_path).lines, WORDS, tmp_path / "run", MODEL)
    with pytest.raises(SettingError, match="needs a file to write to"):
        write_pieces(tmp_path, Work(tmp_path).lines, WORDS, tmp_path / "run", MODEL)
    with pytest.raises(InputError, match="the directory does not exist"):
        write_pieces(tmp_path / "no" / "out", Work(tmp_path).lines, WORDS, tmp_path / "run", MODEL)
    assert os.listdir(tmp_path) == []


def test_without_a_checkpoint_it_is_written_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Run, "_write", lambda self: pytest.fail("there is no checkpoint"))
    write_pieces(tmp_path / "out", Work(tmp_path).lines, WORDS, None, MODEL)
    assert (tmp_path / "out").read_bytes() == expected(WORDS)


# -- tokens ---------------------------------------------------------------------------------------------


def test_tagging_goes_on_and_ends_with_the_same_bytes(tmp_path: Path):
    corpus = kf.generate_newswire(8)
    model = kf.MEMM(n_jobs=1, tolerance=0.03).fit(corpus)
    kf.write_conll(corpus, tmp_path / "in.conll")
    model.tag_file(tmp_path / "in.conll", tmp_path / "plain.conll")
    how: dict[str, Any] = {"text": False, "forced": False, "scheme": "auto", "separator": None, "documents": "auto"}

    def tag(path: Path) -> bytes:
        tag_file(model, tmp_path / "in.conll", tmp_path / "out.conll", piece=2000, checkpoint=path, **how)
        return (tmp_path / "out.conll").read_bytes()

    n = number_of_writes(lambda path: (tag(path), path.touch()), tmp_path / "count")
    assert n > 4
    for kills in ([1], [n // 2], [n - 1], [2, 2]):
        assert after_kills(tag, tmp_path / "run", kills) == (tmp_path / "plain.conll").read_bytes()
    with killed_after(3), pytest.raises(Killed):
        tag(tmp_path / "run")
    how["forced"] = True
    with pytest.raises(CheckpointError, match="of other work"):
        tag(tmp_path / "run")
    how["forced"] = False
    model.weights_.start[0] += 1
    with pytest.raises(CheckpointError, match="of other work"):
        tag(tmp_path / "run")
