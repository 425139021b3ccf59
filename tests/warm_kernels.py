"""Compiles what most tests need, before the tests begin: two processes, each with models of its own.

Left to themselves both workers would compile the same kernels at the same time. Models that share kernels are either
in one list, or far from each other in the two.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LISTS = (
    ("LinearChainCRF", "MEMM", "MaxEnt", "SkipChainCRF", "StackedTagger"),
    ("Linker", "DependencyNetwork", "StackedNodes", "LinkModel", "MixtureNodes", "MixtureTagger"),
)


def warm_up(folder: Path) -> None:
    """Kernels in the folder, unless some are there; what goes wrong here is found again by the tests."""
    if not folder.exists():
        sources = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": sources}
        started = [
            subprocess.Popen([sys.executable, __file__, *names], env=environment, stderr=subprocess.DEVNULL)
            for names in LISTS
        ]
        for one in started:
            one.wait()


def use(name: str) -> None:
    from every_model import MODELS

    new, data = MODELS[name]
    model: Any = new().fit(data)
    model.predict(data)
    model.predict_proba(data)
    if name == "LinearChainCRF":
        model.predict_k_best(data, 2)
    if hasattr(model, "predict_entities"):
        model.predict_entities(data)
        model.explain(data, document=0, token=0)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        use(name)
