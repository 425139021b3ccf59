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
    python scripts/mutants.py --folder build/b   in a folder of its own, beside another run
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests" / "mutants"
PATIENCE = 60  # seconds for a mistake, beside three times what its tests take without one: some never end


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
    parser.add_argument("--only", default="", help="those of files with one of these in their path, by commas")
    parser.add_argument("--every", type=int, default=1, help="every so-manieth of the list")
    parser.add_argument("--check", action="store_true", help="only whether every line of the list is in the code")
    parser.add_argument("--line", default="", help="those with this in the line as it would be wrong")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where they are made and run")
    given = parser.parse_args()
    asked = (one for one in read_lists() if any(part in one.file for part in given.only.split(",")))
    mutants = [one for one in asked if given.line in one.new][:: given.every]
    sources = {one.file: (ROOT / "src" / "kinfolk" / one.file).read_text(encoding="utf-8") for one in mutants}
    for one in mutants:
        compile(one.applied(sources[one.file]), one.place, "exec")
    say(f"{len(mutants)} mutants in {len(sources)} files")
    if not given.check:
        sys.exit(run_all(mutants, sources, Copy(given.folder.resolve())))


def run_all(mutants: list[Mutant], sources: dict[str, str], copy: Copy) -> int:
    copy.make()
    usual: dict[tuple[str, ...], float] = {}
    survivors = []
    for number, one in enumerate(mutants, 1):
        if one.tests not in usual:
            usual[one.tests] = copy.faultless(one.tests)
        began = time.monotonic()
        noticed = copy.try_mutant(one, sources[one.file], number, PATIENCE + 3 * usual[one.tests])
        took = time.monotonic() - began
        say(f"{number:4} {'noticed ' if noticed else 'SURVIVES'} {took:5.0f} s  {one.file}: {one.new}")
        if not noticed:
            survivors.append(one)
    say(f"{len(mutants) - len(survivors)} of {len(mutants)} noticed")
    for one in survivors:
        say(f"\nsurvivor ({one.place}), {one.file}, by {' '.join(one.tests)}:\n- {one.old}\n+ {one.new}")
    return 1 if survivors else 0


class Copy:
    """Sources and tests, in which mistakes are made, and the store of their kernels."""

    def __init__(self, folder: Path) -> None:
        self._tree, self._kernels, self._of_mutant = (
            folder / name for name in ("tree", "kernels", "kernels-of-mutant")
        )

    def make(self) -> None:
        """With the times that the files have, which the store of kernels looks at."""
        shutil.rmtree(self._tree, ignore_errors=True)
        for name in ("src", "tests"):
            without = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, self._tree / name, ignore=without)
        shutil.copy2(ROOT / "pyproject.toml", self._tree)

    def faultless(self, tests: tuple[str, ...]) -> float:
        """Seconds that the tests take, compiling included; they have to pass, or nothing could be noticed."""
        began = time.monotonic()
        if self._run(tests, self._kernels, None) != 0:
            sys.exit(f"the tests {' '.join(tests)} fail without any mistake")
        return time.monotonic() - began

    def try_mutant(self, one: Mutant, source: str, number: int, limit: float) -> bool:
        path = self._tree / "src" / "kinfolk" / one.file
        before = path.stat()
        shutil.rmtree(self._of_mutant, ignore_errors=True)
        # files are replaced, never written into
        shutil.copytree(self._kernels, self._of_mutant, copy_function=os.link)
        path.write_text(one.applied(source), encoding="utf-8")
        os.utime(path, (before.st_atime, before.st_mtime + number))  # else a store may take it for the file it was
        try:
            return self._run(one.tests, self._of_mutant, limit) != 0
        finally:
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _run(self, tests: tuple[str, ...], kernels: Path, limit: float | None) -> int:
        paths = os.pathsep.join(str(self._tree / name) for name in ("src", "tests"))
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "NUMBA_CACHE_DIR": str(kernels),
            "HYPOTHESIS_PROFILE": "first",
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        process = subprocess.Popen(
            command,
            cwd=self._tree,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and what its tests have started
            process.wait()
            return 1
        if code in (4, 5):  # no such test, or none chosen
            sys.exit(f"{' '.join(tests)}: there are no such tests")
        return code


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
