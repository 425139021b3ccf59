"""Tries to break kinfolk: forged model files, mangled inputs of readers, commands with any arguments.

    make fuzz TRIES=100000             or, for some of it,
    python tests/fuzz/fuzz.py --tries 500 --seed 7 --only readers
    python tests/fuzz/fuzz.py --first 1234 --tries 1 --seed 7 --only readers      one try again

Says what it found, and ends with status 1 if that is anything.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "graph"), str(TESTS / "fuzz")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(TESTS.parent / ".numba_cache"))
os.environ["KINFOLK_MOST_UNPACKED"] = str(1 << 27)
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # a process that forks must not have others

import models  # noqa: E402
import readers  # noqa: E402
from tries import Finding, Target, run  # noqa: E402

PARTS = ("all", "quick", "models", "estimators", "readers", "commands")


def all_targets(folder: Path, only: str) -> list[Target]:
    """What there is to try; "quick" is what is there without training anything."""
    if only == "quick":
        files = models.net_files(folder)
        return [*models.targets_of(files), *readers.reader_targets(), *readers.command_targets(folder)]
    found: list[Target] = []
    if only in ("all", "models"):
        from every_model import MODELS

        files = [*models.net_files(folder), *models.new_files(folder, MODELS), *models.layer_files(folder)]
        for _, path, ask in files:
            models.loaded_and_asked(path, ask)  # as it is; kernels are compiled before the first fork
        found += models.targets_of(files)
    if only in ("all", "estimators"):
        found += models.estimator_targets()
    if only in ("all", "readers"):
        found += readers.reader_targets()
    if only in ("all", "commands"):
        models.net_files(folder)
        found += readers.command_targets(folder)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--only", choices=("all", "quick", "models", "estimators", "readers", "commands"), default="all"
    )
    given = parser.parse_args()
    logging.getLogger("kinfolk").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        targets = all_targets(folder, given.only)
        numbers = range(given.first, given.first + given.tries)
        kinds: Counter[str] = Counter()
        for finding in run(targets, given.seed, numbers, folder):
            kinds[f"{finding.what.partition(':')[0]}"] += 1
            say(shown(finding))
        say(f"{given.tries} tries of {len(targets)} targets, seed {given.seed}: {kinds.total()} found")
    return int(bool(kinds))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def shown(finding: Finding) -> str:
    return f"try {finding.number} ({finding.target}): {finding.what}"


if __name__ == "__main__":
    sys.exit(main())
