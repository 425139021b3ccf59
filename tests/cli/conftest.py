"""The command line run in this process, and a folder with a small world and a model trained on it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import kinfolk as kf
from kinfolk.cli.main import run


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def kinfolk(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """`kinfolk("tokens", "tag", ..., stdin=b"...")`: exit status and what was printed. One thread unless told."""

    def call(*arguments: object, stdin: bytes = b"") -> Answer:
        words = [str(argument) for argument in arguments]
        if words[:1] == ["tokens"] and not {"--jobs", "--help"} & set(words):
            words += ["--jobs", "1"]
        monkeypatch.setattr(sys, "argv", ["kinfolk", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Answer(int(ended.value.code or 0), out.decode("utf-8"), err.decode("utf-8"))

    return call


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.conll, test.conll, test.conll.gz, and models crf.kinfolk, maxent.kinfolk, words.kinfolk (word only)."""
    folder = tmp_path_factory.mktemp("world")
    train, test = kf.newswire_split(12, 6)
    kf.write_conll(train, folder / "train.conll")
    for name in ("test.conll", "test.conll.gz"):
        kf.write_conll(test, folder / name)
    kf.LinearChainCRF(n_jobs=1).fit(train).save(folder / "crf.kinfolk")
    kf.MaxEnt(n_jobs=1).fit(train).save(folder / "maxent.kinfolk")
    words = kf.LinearChainCRF(n_jobs=1).fit(train.rows(), train.label_rows())
    words.save(folder / "words.kinfolk")
    assert words.predict(test), "commands in processes of their own find compiled kernels, and say nothing of them"
    return folder
