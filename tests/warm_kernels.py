"""Compiles what most tests need, before the tests begin: what `kinfolk warm` does, in a folder of the tests.

Left to themselves both workers would compile the same kernels at the same time. What it was is noted in the folder, for
the test that says nothing is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

NOTE = "warmed.json"
WARM = "import json; from kinfolk.cli.warm import warmed; print(json.dumps(warmed(2)))"


def warm_up(folder: Path, meanwhile: Callable[[], None]) -> None:
    """Kernels in the folder, unless some are there; what goes wrong here is found again by the tests."""
    if not folder.exists():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
        with subprocess.Popen(
            [sys.executable, "-c", WARM], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as warming:  # fmt: skip
            meanwhile()
            told = warming.communicate()[0]
        folder.mkdir(exist_ok=True)
        (folder / NOTE).write_bytes(told)
