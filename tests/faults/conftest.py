"""Files that all tests of faults disturb, and the folder where they do."""

from __future__ import annotations

from pathlib import Path

import pytest
from works import small_files


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_files(tmp_path_factory.mktemp("net"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Empty; in memory, where there is such a place (tests/conftest.py): these tests save some thousand times."""
    return tmp_path
