"""One small world and four fitted models, made once for all tests of a worker."""

from __future__ import annotations

from typing import Any

import pytest
from small_world import MODELS, TEST, TRAIN


@pytest.fixture(scope="session")
def world() -> tuple[Any, Any]:
    """A generated newswire: 20 documents to train on, 10 to test on."""
    return TRAIN, TEST


@pytest.fixture(scope="session")
def fitted_models() -> dict[str, Any]:
    return {name: make(n_jobs=1).fit(TRAIN) for name, make in MODELS.items()}


@pytest.fixture(params=list(MODELS))
def fitted(request: pytest.FixtureRequest, fitted_models: dict[str, Any]) -> Any:
    """Each model in turn; not to be changed by a test."""
    return fitted_models[request.param]
