"""`make mutants` can be run: the mistakes of its lists are in lines of the code as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_every_line_of_the_lists_is_in_the_code_once():
    script = ROOT / "scripts" / "mutants.py"
    if not script.exists():
        pytest.skip("scripts are not part of an installation")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" files\n")
