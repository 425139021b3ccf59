"""Compiles what most tests need, before the tests begin: what `kinfolk warm` does, in a folder of the tests.

Left to themselves both workers would compile the same kernels at the same time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def warm_up(folder: Path) -> None:
    """Kernels in the folder, unless some are there; what goes wrong here is found again by the tests."""
    if not folder.exists():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
        command = [sys.executable, "-m", "kinfolk", "warm", "--processes", "2"]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
