"""The quick form of `make fuzz`: some hundred tries, the same in every run, in processes that may die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TRIES = 300


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and time are those of Linux")
def test_nothing_is_found():
    program = Path(__file__).with_name("fuzz.py")
    words = [sys.executable, str(program), "--only", "quick", "--tries", str(TRIES), "--seed", "5"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{TRIES} tries of " in ran.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and time are those of Linux")
def test_what_goes_wrong_is_found(tmp_path: Path):
    """A process that dies, one that never ends, one that eats memory, an error of another kind, an answer of NaN."""
    program = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[1])!r}]
import os, signal, tries
from pathlib import Path
tries.SECONDS = 0.1
def kill(rng, folder): os.kill(os.getpid(), signal.SIGSEGV)
def spin(rng, folder):
    while True: pass
def eat(rng, folder): bytearray(2 << 30)
def err(rng, folder): {{}}["x"]
def nan(rng, folder): raise tries.Wrong("an answer with nan in it")
def well(rng, folder): pass
targets = [tries.Target(one.__name__, one) for one in (kill, spin, eat, err, nan, well)]
for found in tries.run(targets, 0, range(30), Path({str(tmp_path)!r})):
    print(found.target, found.what.partition(":")[0])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.splitlines()) == {
        "kill signal SIGSEGV", "spin more than 0.1 seconds of work", "eat MemoryError at elsewhere",
        "err KeyError at elsewhere", "nan wrong",
    }  # fmt: skip
