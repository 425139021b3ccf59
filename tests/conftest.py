"""Where the real data are, for tests marked `data`; Hypothesis without a clock, as machines differ."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]
# Each worker keeps compiled kernels of its own: two processes that compile one kernel for different types at
# the same moment would overwrite each other's, and compile it again. Set before numba is imported; commands run by
# tests inherit it, and so do the workers, who then choose anew.
KERNELS = REPOSITORY / ".numba_cache"
if os.environ.get("NUMBA_CACHE_DIR", str(KERNELS / "main")) == str(KERNELS / "main"):
    os.environ["NUMBA_CACHE_DIR"] = str(KERNELS / os.environ.get("PYTEST_XDIST_WORKER", "main"))

# Quick by default; HYPOTHESIS_PROFILE=thorough looks at twenty times as many examples where a test names no number.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session", autouse=True)
def kernels_may_be_cold() -> Iterator[None]:
    """Which test compiles the first kernel is chance: in this process nothing is said of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinfolk.core.kernels.tell_first_use", lambda kept: None)
        yield


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder named by KINFOLK_DATA, else ../shared/data beside the repository."""
    folder = Path(os.environ.get("KINFOLK_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set KINFOLK_DATA")
    return folder


@pytest.fixture(scope="session")
def conll2003(data_folder: Path) -> Path:
    """The folder with eng.train, eng.testa and eng.testb."""
    folder = data_folder / "tokens" / "conll2003"
    if not (folder / "eng.train").is_file():
        pytest.skip(f"no CoNLL-2003 files in {folder}; set KINFOLK_DATA")
    return folder


# -- a small world and four fitted taggers, made once for all tests of a worker ------------------------------


@pytest.fixture(scope="session")
def world() -> tuple[Any, Any]:
    """A generated newswire: 20 documents to train on, 10 to test on."""
    from small_world import TEST, TRAIN

    return TRAIN, TEST


@pytest.fixture(scope="session")
def fitted_models() -> dict[str, Any]:
    from small_world import MODELS, TRAIN

    return {name: make(n_jobs=1).fit(TRAIN) for name, make in MODELS.items()}


@pytest.fixture(params=("MaxEnt", "MEMM", "LinearChainCRF", "MEMM posterior"))
def fitted(request: pytest.FixtureRequest, fitted_models: dict[str, Any]) -> Any:
    """Each model in turn; not to be changed by a test."""
    return fitted_models[request.param]
