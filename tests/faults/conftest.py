"""Files that all tests of faults disturb, and a folder where syncing costs nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from works import small_files


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_files(tmp_path_factory.mktemp("net"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Empty; in memory, where there is such a place: these tests save some thousand times."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as place:
        yield Path(place)
