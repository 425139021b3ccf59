"""The figures of docs/scale.md are those that benchmarks/scale.py makes of what was measured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def scale() -> Any:
    path = ROOT / "benchmarks" / "scale.py"
    if not path.exists():
        pytest.skip("the benchmarks are not part of an installation")
    spec = importlib.util.spec_from_file_location("kinfolk_scale", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_figures_of_the_measurements(scale: Any):
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    shown = page.partition(scale.BEGIN)[2].partition(scale.END)[0].strip()
    assert shown == scale.figures(json.loads(scale.MEASURED.read_text()), scale.PRICE)


def test_a_line_through_two_sizes(scale: Any):
    rows = [
        {"units": n, "cpu_seconds": 3.0 + 2e-6 * n, "memory": 1e8 + 50 * n, "tables": 10 * n, "shuffle": 0}
        for n in (1000, 5000)
    ]
    found = scale.fitted(rows)
    assert found["cpu_seconds"] == pytest.approx((3.0, 2e-6))
    assert found["memory"] == pytest.approx((1e8, 50))
    assert found["tables"] == pytest.approx((0.0, 10.0))
    assert found["shuffle"] == (0.0, 0.0)
