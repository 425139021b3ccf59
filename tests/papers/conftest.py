"""A small generated world in the place of CoNLL-2003."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinfolk as kf


@pytest.fixture
def small_world(tmp_path: Path) -> Path:
    """A data folder with tokens/conll2003/eng.train, eng.testa and eng.testb."""
    folder = tmp_path / "tokens" / "conll2003"
    folder.mkdir(parents=True)
    train, test = kf.newswire_split(8, 4)
    for name, corpus in {"train": train, "testa": test, "testb": test.documents(0, 2)}.items():
        kf.write_conll(corpus, folder / f"eng.{name}")
    return tmp_path
