"""`make mutants`: does a test fail when a line of the code is wrong?

`tests/mutants/*.txt` is a fixed list of small mistakes. Each names a file and the tests that should notice, and has a
line as it stands and as it would be wrong:

    @ learning/ridge.py | tests/learning/test_ridge.py
    - gram[j, j] += penalty
    + gram[j, j] -= penalty

The line has to stand in the file once; white space before it does not count. One mistake at a time is made in a copy of
the sources, and its tests run there until the first that fails. A mistake that no test notices is a survivor: write the
test, or take the line from the list if the mistake changes nothing that can be seen, and say why in the list.

Compiled kernels: the copy has a store of its own, which the first, faultless run of the tests fills. Every mistake
starts with hard links to these files and a file of a new time, so that only the kernels of the changed file (of all
files, where that is core/kernels.py) are compiled, and nothing that a mistake compiled is ever seen by another.

    python scripts/mutants.py                    all of them
    python scripts/mutants.py --only learning    those of files with this in their path
    python scripts/mutants.py --every 10         every tenth
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests" / "mutants"
WORK = ROOT / "build" / "mutants"
TREE, KERNELS = WORK / "tree", WORK / "kernels"
PATIENCE = 60  # seconds for a mistake, beside ten times what its tests take without one: some never end


@dataclass(frozen=True)
class Mutant:
    """A mistake: `old` is `new`, in a file; `tests` should notice."""

    file: str
    tests: tuple[str, ...]
    old: str
    new: str
    place: str  # in the list

    def applied(self, source: str) -> str:
        """The source with the mistake."""
        lines = source.split("\n")
        found = [i for i, line in enumerate(lines) if line.strip() == self.old]
        if len(found) != 1:
            sys.exit(f"{self.place}: {self.file} has {len(found)} lines {self.old!r}, expected one; correct the list")
        indent = lines[found[0]][: -len(lines[found[0]].lstrip())] if lines[found[0]][:1] == " " else ""
        lines[found[0]] = indent + self.new
        return "\n".join(lines)


def read_lists() -> Iterator[Mutant]:
    for path in sorted(LISTS.glob("*.txt")):
        file, tests, old = "", (), ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            sign, text, place = line[:2], line[2:].strip(), f"{path.name}, line {number}"
            if sign == "@ ":
                file, _, told = (part.strip() for part in text.partition("|"))
                tests = tuple(told.split())
            elif sign == "- ":
                old = text
            elif sign == "+ ":
                yield Mutant(file, tests, old, text, place)
            elif line.strip() and not line.startswith("#"):
                sys.exit(f"{place}: expected a line that begins with '@ ', '- ', '+ ' or '#'; got {line!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Small mistakes in the code, and whether tests notice.")
    parser.add_argument("--only", default="", help="those of files with this in their path")
    parser.add_argument("--every", type=int, default=1, help="every so-manieth of the list")
    parser.add_argument("--check", action="store_true", help="only whether every line of the list is in the code")
    given = parser.parse_args()
    mutants = [one for one in read_lists() if given.only in one.file][:: given.every]
    sources = {one.file: (ROOT / "src" / "kinfolk" / one.file).read_text(encoding="utf-8") for one in mutants}
    for one in mutants:
        compile(one.applied(sources[one.file]), one.place, "exec")
    say(f"{len(mutants)} mutants in {len(sources)} files")
    if not given.check:
        sys.exit(run_all(mutants, sources))


def run_all(mutants: list[Mutant], sources: dict[str, str]) -> int:
    copy_tree()
    usual = {tests: faultless(tests) for tests in dict.fromkeys(one.tests for one in mutants)}
    survivors = []
    for number, one in enumerate(mutants, 1):
        began = time.monotonic()
        noticed = try_mutant(one, sources[one.file], number, PATIENCE + 10 * usual[one.tests])
        took = time.monotonic() - began
        say(f"{number:4} {'noticed ' if noticed else 'SURVIVES'} {took:5.0f} s  {one.file}: {one.new}")
        if not noticed:
            survivors.append(one)
    say(f"{len(mutants) - len(survivors)} of {len(mutants)} noticed")
    for one in survivors:
        say(f"\nsurvivor ({one.place}), {one.file}, by {' '.join(one.tests)}:\n- {one.old}\n+ {one.new}")
    return 1 if survivors else 0


def copy_tree() -> None:
    """Sources and tests with the times they have, which the store of kernels looks at."""
    shutil.rmtree(TREE, ignore_errors=True)
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, TREE / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy2(ROOT / "pyproject.toml", TREE)


def faultless(tests: tuple[str, ...]) -> float:
    """Seconds that the tests take, kernels compiled; they have to pass, or nothing could be noticed."""
    if run_tests(tests, KERNELS, None) != 0:  # compiles
        sys.exit(f"the tests {' '.join(tests)} fail without any mistake")
    began = time.monotonic()
    run_tests(tests, KERNELS, None)
    return time.monotonic() - began


def try_mutant(one: Mutant, source: str, number: int, limit: float) -> bool:
    path = TREE / "src" / "kinfolk" / one.file
    before, kernels = path.stat(), WORK / "kernels-of-mutant"
    shutil.rmtree(kernels, ignore_errors=True)
    shutil.copytree(KERNELS, kernels, copy_function=os.link)  # files are replaced, never written into
    path.write_text(one.applied(source), encoding="utf-8")
    os.utime(path, (before.st_atime, before.st_mtime + number))  # else a store may take it for the file it was
    try:
        return run_tests(one.tests, kernels, limit) != 0
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def run_tests(tests: tuple[str, ...], kernels: Path, limit: float | None) -> int:
    paths = os.pathsep.join(str(TREE / name) for name in ("src", "tests"))
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(kernels), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    try:
        ran = subprocess.run(
            command, cwd=TREE, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return 1
    if ran.returncode in (4, 5):  # no such test, or none chosen
        sys.exit(f"{' '.join(tests)}: there are no such tests")
    return ran.returncode


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
