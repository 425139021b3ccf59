"""Work in a process of its own that is killed (kill -9) after so much work, by the clock of its own time of work: the
same moment on a busy machine."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path


def started(work: Callable[[], object], said: Path | None = None) -> int:
    """A fork of this process that does the work; its number. Standard output and errors go to a file, or nowhere.
    Exit status: that of SystemExit, 1 after an error."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        sink = os.open(said or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", buffering=1, closefd=False) for fd in (1, 2))
        try:
            work()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def worked(process: int) -> float:
    """Seconds of work of a process so far, all its threads together."""
    return time.clock_gettime((~process << 3) | 2)  # the kernel's number for the clock of another process


def signalled(process: int, seconds: float | None, number: int = signal.SIGKILL) -> int:
    """Send a signal after so many seconds of work, None: never, and wait. Exit status, negative for a signal, as of
    subprocess."""
    sent = seconds is None
    while True:
        ended, status = os.waitpid(process, 0 if sent else os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        assert seconds is not None
        left = seconds - worked(process)
        if left <= 0:
            os.kill(process, number)
            sent = True
        else:
            time.sleep(min(max(left / 2, 0.0002), 0.02))


def killed_after(seconds: float, work: Callable[[], object], said: Path | None = None) -> bool:
    """Whether it was killed; it may have been ready before, which has to be well."""
    status = signalled(started(work, said), seconds)
    assert status in (0, -signal.SIGKILL), f"ended with {status}: {said.read_text() if said else ''}"
    return status != 0
