"""Compiled kernels shared by all workers, the longest tests first, where the real data are, small fitted models."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies

from rewritten import keep_rewritten
from warm_kernels import warm_up

REPOSITORY = Path(__file__).resolve().parents[1]
# One place for compiled kernels, of all workers and of the commands that tests run. Set before numba is imported.
os.environ.setdefault("NUMBA_CACHE_DIR", str(REPOSITORY / ".numba_cache"))
# Workers share the cores: threads of BLAS and OpenMP that wait for each other in a loop cost up to ten times the work.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")
# What tests write is in memory, where there is room: a disk is waited for at some ten thousand syncs and removals.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # look again
# Looking for what may be freed at every 700 objects, as Python does, takes a tenth of the time of the tests.
gc.set_threshold(20_000, 20, 20)
# Every process that a test starts loads the sources, and every worker the tests: they are compiled once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Quick by default; HYPOTHESIS_PROFILE=thorough looks at twenty times as many examples where a test names no number.
# The same examples in every run, so that a run fails by what was changed; `HYPOTHESIS_PROFILE=thorough` looks further.
settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=500)
# `make mutants` asks only whether a test fails, not for the least example that it fails by.
as_found = (Phase.explicit, Phase.generate)
settings.register_profile("first", deadline=None, max_examples=25, derandomize=True, phases=as_found)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

LONGEST = ("test_blocks_run_and_show_what_they_say",)  # begun first: no worker waits for another at the end


def pytest_configure(config: pytest.Config) -> None:
    """Before the workers of the whole suite start: kernels that they share are compiled, tests rewritten, once."""
    is_one_of_several = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if not is_one_of_several and config.args == config.getini("testpaths") and not config.option.collectonly:
        warm_up(Path(os.environ["NUMBA_CACHE_DIR"]), meanwhile=lambda: keep_rewritten(config, REPOSITORY / "tests"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: getattr(item, "originalname", "") not in LONGEST)


def pytest_collection_finish() -> None:
    """Half a million objects are there now, of libraries and tests, and stay: looking through them again and again for
    what may be freed takes a twentieth of the time of the tests.

    At its first example Hypothesis asks who refers to numpy's generator, which it cannot see of objects put aside."""
    settings(max_examples=1, database=None)(given(strategies.none())(lambda nothing: None))()
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # libraries that count what is left at the end find nothing


@pytest.fixture(scope="session", autouse=True)
def kernels_may_be_cold() -> Iterator[None]:
    """Which test compiles the first kernel is chance: in this process nothing is said of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinfolk.core.kernels.warn_first_use", lambda kept: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_core_a_worker() -> Iterator[None]:
    """Where workers share the cores, a model that is not told its number of threads has one: more would only wait for
    each other, and take half as much time again. Tests of threads ask for two."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTEST_XDIST_WORKER" in os.environ:
            patch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
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
