"""Many tries in processes that may die: each with random numbers of its own, so that any can be made again.

A try ends well in an answer or in an error of kinfolk's own. It ends badly in a signal, after ten seconds of work,
after a gigabyte of memory more than there was before, or in any other error; which is a `Finding`.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from kinfolk.errors import KinfolkError

SECONDS = 10  # of work, whatever else the machine has to do
WAITING = 120  # seconds without a word: it waits for something that does not come
MEMORY = 1 << 30
TOGETHER = 500  # tries in one process, so that what they leave behind does not add up


class Finding(NamedTuple):
    """What went wrong: the number of the try, the target, and how it ended."""

    number: int
    target: str
    what: str


class Wrong(Exception):
    """An answer or a message that must not be."""


class Target(NamedTuple):
    """Something to try: `attempt` gets random numbers and an empty place for files."""

    name: str
    attempt: Callable[[Random, Path], None]


def chosen(targets: Sequence[Target], seed: int, number: int) -> tuple[Target, Random]:
    rng = Random(f"{seed}:{number}")
    return targets[rng.randrange(len(targets))], rng


def run(targets: Sequence[Target], seed: int, numbers: range, folder: Path) -> Iterator[Finding]:
    """Go through the tries of these numbers; what was found."""
    at = numbers.start
    while at < numbers.stop:
        stop = min(at + TOGETHER, numbers.stop)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(targets, seed, range(at, stop), folder, writing)
        os.close(writing)
        ended = None
        with os.fdopen(reading, "rb") as said:
            while ended is None and select.select([said], [], [], WAITING)[0]:
                line = said.readline()
                if not line:
                    ended = "the end"
                    break
                number, what = json.loads(line)
                at = number + 1
                if what:
                    yield Finding(number, chosen(targets, seed, number)[0].name, what)
        if ended is None:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if at < stop:
            code = os.waitstatus_to_exitcode(status)
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            if code == -signal.SIGPROF:
                how = f"more than {SECONDS} seconds of work"
            yield Finding(at, chosen(targets, seed, at)[0].name, how if ended else "waits for ever")
            at += 1


def _work(targets: Sequence[Target], seed: int, numbers: range, folder: Path, writing: int) -> None:
    """In a process of its own, which says how each try ended."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        target, rng = chosen(targets, seed, number)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        what = ended(target, rng, folder)
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(writing, json.dumps([number, what]).encode() + b"\n")
    sys.stdout.flush()
    os._exit(0)


def ended(target: Target, rng: Random, folder: Path) -> str:
    """How a try ended, "" if well."""
    try:
        target.attempt(rng, folder)
    except Wrong as error:
        return f"wrong: {error}"
    except KinfolkError as error:
        return f"an error that was not expected here: {error!r}"
    except BaseException as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if "kinfolk" in frame.filename]
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "elsewhere"
        return f"{type(error).__name__} at {where}: {str(error)[:300]}"
    return ""
