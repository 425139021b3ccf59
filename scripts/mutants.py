"""`make mutants`: does a test fail when a line of the code is wrong?

`tests/mutants/*.txt` is a fixed list of small mistakes. Each names a file and the tests that should notice, and has a
line as it stands and as it would be wrong:

    @ learning/ridge.py | tests/learning/test_ridge.py
    - gram[j, j] += penalty
    + gram[j, j] -= penalty

The line has to stand in the file once; white space before it does not count. One mistake at a time is made in a copy of
the sources, and its tests run there until the first that fails. A mistake that no test notices is a survivor: write the
test, or take the line from the list if the mistake changes nothing that can be seen, and say why in the list.

First every set of tests runs without a mistake, in a copy and with a store of compiled kernels that all of these runs
share. Each of `--jobs` workers then has a copy of its own, a share of the cores, and for every mistake a new store of
hard links to the faultless one and a file of a new time: only the kernels of the changed file (of all files, where that
is core/kernels.py) are compiled, and nothing that a mistake compiled is ever seen by another.

Lines of results come as they are found. At the end stand the survivors, in the order of the list, and for each file
a line `file PATH NOTICED/ASKED`. The status is 1 if a mistake lives, or tests fail without one.

    python scripts/mutants.py                    all of them
    python scripts/mutants.py --jobs 4           four at a time
    python scripts/mutants.py --only learning    those of files with this in their path
    python scripts/mutants.py --every 10         every tenth
    python scripts/mutants.py --without test_frames,test_records   none that are asked of these tests
    python scripts/mutants.py --folder build/b   in a folder of its own, beside another run
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests" / "mutants"
PATIENCE = 90  # seconds of work for a mistake, beside three times what its tests take without one: some never end


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
    parser.add_argument("--without", default="", help="none with one of these in the paths of their tests, by commas")
    parser.add_argument("--every", type=int, default=1, help="every so-manieth of the list")
    parser.add_argument("--check", action="store_true", help="only whether every line of the list is in the code")
    parser.add_argument("--line", default="", help="those with this in the line as it would be wrong")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where they are made and run")
    given = parser.parse_args()
    without = [part for part in given.without.split(",") if part]
    asked = (one for one in read_lists() if any(part in one.file for part in given.only.split(",")))
    asked = (one for one in asked if not any(part in test for part in without for test in one.tests))
    mutants = [one for one in asked if given.line in one.new][:: given.every]
    sources = {one.file: (ROOT / "src" / "kinfolk" / one.file).read_text(encoding="utf-8") for one in mutants}
    for one in mutants:
        compile(one.applied(sources[one.file]), one.place, "exec")
    say(f"{len(mutants)} mutants in {len(sources)} files")
    if not given.check:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is ended, too
        sys.exit(run_all(mutants, sources, given.folder.resolve(), given.jobs))


# -- all of them, some at a time --------------------------------------------------------------------------


def run_all(mutants: list[Mutant], sources: dict[str, str], folder: Path, jobs: int) -> int:
    sets = dict.fromkeys(one.tests for one in mutants)
    workers: SimpleQueue[Worker] = SimpleQueue()
    sound = Tree(folder / "tree")
    for number in range(jobs):
        workers.put(Worker(Tree(folder / f"tree-{number}"), sound, folder / f"kernels-{number}"))
    noticed: dict[Mutant, bool] = {}
    broken = []

    def faultless(tests: tuple[str, ...]) -> Ran:
        return sound.run(tests, folder / "kernels", None)

    def attempt(one: Mutant, number: int, usual: float) -> Ran:
        worker = workers.get()
        try:
            return worker.attempt(one, sources[one.file], number, folder / "kernels", PATIENCE + 3 * usual)
        finally:
            workers.put(worker)

    with ThreadPoolExecutor(jobs, initializer=take_share, initargs=(shares(jobs),)) as pool:
        try:
            # the pool takes them in this order: no mistake is tried while tests still wait for their faultless run
            soundly = {pool.submit(faultless, tests): tests for tests in sets}
            trying: dict[Future[Ran], tuple[int, Mutant]] = {}
            for done in as_completed(soundly):
                tests, ran = soundly[done], done.result()
                if ran.code:
                    broken.append(tests)
                    say(f"{' '.join(tests)}: these fail without any mistake, {ran.why}\n{ran.end_of_output()}")
                    continue
                say(f"     {ran.wall:5.0f} s without a mistake: {' '.join(tests)}")
                for number, one in enumerate(mutants, 1):
                    if one.tests == tests:
                        trying[pool.submit(attempt, one, number, ran.work)] = number, one
            for done in as_completed(trying):
                (number, one), ran = trying[done], done.result()
                noticed[one] = ran.code != 0
                word = f"noticed  {ran.wall:5.0f} s" if ran.code else f"SURVIVES {ran.wall:5.0f} s"
                say(f"{number:4} {word}  {one.file}: {one.new}" + (f"  [{ran.why}]" if ran.code else ""))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for session in list(RUNNING):
                end(session)
            raise
    return told(mutants, noticed, broken)


def told(mutants: list[Mutant], noticed: dict[Mutant, bool], broken: list[tuple[str, ...]]) -> int:
    for one in mutants:
        if not noticed.get(one, True):
            say(f"\nsurvivor ({one.place}), {one.file}, by {' '.join(one.tests)}:\n- {one.old}\n+ {one.new}")
    say("")
    asked, found = Counter(one.file for one in noticed), Counter(one.file for one in noticed if noticed[one])
    for file in dict.fromkeys(one.file for one in mutants):
        say(f"file {file} {found[file]}/{asked[file]}")
    say(f"{found.total()} of {asked.total()} noticed")
    if broken:
        say(f"{len(mutants) - len(noticed)} not asked: {len(broken)} sets of tests fail without any mistake")
    return 1 if broken or found != asked else 0


def shares(jobs: int) -> SimpleQueue[set[int]]:
    """Cores for each worker: some of its own while there are enough."""
    cores = sorted(os.sched_getaffinity(0))
    queue: SimpleQueue[set[int]] = SimpleQueue()
    for number in range(jobs):
        queue.put(set(cores[number::jobs]) or {cores[number % len(cores)]})
    return queue


def take_share(queue: SimpleQueue[set[int]]) -> None:
    """For this thread, and so for the processes that it starts: else each would begin a thread for every core."""
    os.sched_setaffinity(0, queue.get())


# -- one of them ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """What became of a run of tests."""

    code: int
    why: str  # it did not pass
    wall: float  # seconds
    work: float  # of the processor, children included
    output: str

    def end_of_output(self) -> str:
        return "\n".join(f"    {line}" for line in self.output.rstrip().splitlines()[-30:])


class Tree:
    """A copy of the sources and tests."""

    def __init__(self, folder: Path) -> None:
        """With the times that the files have, which the store of kernels looks at."""
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("src", "tests"):
            without = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / name, ignore=without)
        shutil.copy2(ROOT / "pyproject.toml", folder)

    def source(self, file: str) -> Path:
        return self._folder / "src" / "kinfolk" / file

    def kept_in(self, kernels: Path) -> dict[str, Path]:
        """By package of ours, where numba keeps its kernels in a store: the path of the sources is part of the name."""
        packages = [path for path in self.source("").rglob("*") if path.is_dir() and path.name != "__pycache__"]
        hashed = {path: hashlib.sha1(str(path).encode(), usedforsecurity=False).hexdigest() for path in packages}
        return {
            str(path.relative_to(self._folder)): kernels / f"{path.name}_{number}" for path, number in hashed.items()
        }

    def run(self, tests: tuple[str, ...], kernels: Path, limit: float | None) -> Ran:
        """The tests, until the first that fails; a limit is one of work, and twice that of time."""
        given = os.environ.get("PYTHONPATH")
        paths = [str(self._folder / "src"), str(self._folder / "tests"), *([given] if given else [])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "NUMBA_CACHE_DIR": str(kernels),
            "HYPOTHESIS_PROFILE": "first",
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        allowed = "unlimited" if limit is None else str(math.ceil(limit))
        began = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["sh", "-c", f'ulimit -t {allowed}; exec "$@"', "sh", *command],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            RUNNING.add(process.pid)
            try:
                code, work, in_time = wait(process, None if limit is None else began + 2 * limit)
            finally:
                end(process.pid)  # and what its tests have started
            wall = time.monotonic() - began
            output.seek(0)
            said = output.read().decode(errors="replace")
        if code in (4, 5):  # no such test, or none chosen
            return Ran(code, "there are no such tests", wall, work, said)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        if not in_time or code in (-signal.SIGXCPU, -signal.SIGKILL):
            return Ran(1, "it did not end", wall, work, said)
        return Ran(code, failed[1] if failed else f"status {code}", wall, work, said)


RUNNING: set[int] = set()  # sessions of processes


def wait(process: subprocess.Popen[bytes], until: float | None) -> tuple[int, float, bool]:
    """Its status, its seconds of work with those of its children, and whether it ended in time."""
    in_time = True
    while True:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, used.ru_utime + used.ru_stime, in_time
        if until is not None and time.monotonic() > until:
            os.killpg(process.pid, signal.SIGKILL)
            in_time = False
        time.sleep(0.05)


def end(session: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
    RUNNING.discard(session)


class Worker:
    """One of those that make mistakes: its copy of the sources, and the store of what a mistake compiles."""

    def __init__(self, tree: Tree, sound: Tree, kernels: Path) -> None:
        self._tree, self._sound, self._kernels = tree, sound, kernels

    def attempt(self, one: Mutant, source: str, number: int, kernels: Path, limit: float) -> Ran:
        path = self._tree.source(one.file)
        before = path.stat()
        self._link(kernels)
        path.write_text(one.applied(source), encoding="utf-8")
        os.utime(path, (before.st_atime, before.st_mtime + number))  # else a store may take it for the file it was
        try:
            return self._tree.run(one.tests, self._kernels, limit)
        finally:
            path.write_text(source, encoding="utf-8")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _link(self, kernels: Path) -> None:
        """What is in the faultless store. Files are replaced there, never written into, even while this goes on."""
        shutil.rmtree(self._kernels, ignore_errors=True)
        mine = self._tree.kept_in(self._kernels)
        for package, folder in self._sound.kept_in(kernels).items():
            mine[package].mkdir(parents=True)
            for file in folder.iterdir() if folder.is_dir() else ():
                with contextlib.suppress(FileNotFoundError):  # its name while it was being written
                    os.link(file, mine[package] / file.name)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
