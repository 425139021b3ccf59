"""A file layer that fails on purpose: the n-th call that writes, syncs, renames or removes within a folder.

    with failing(folder, at=3, how="full") as calls:      from the third call on the disk is full
        model.save(folder / "m.kinfolk")
    calls                                                  what was asked of the layer, in order: ["open", "write", ...]

It stands between Python and the system, below the buffers of `open`, whoever calls. Ways to fail (`WAYS`):

    once      this call fails (EIO), those after it do not
    full      from here on nothing more can be written (ENOSPC; of what is written now the first half arrives); what is
              there can still be removed and renamed
    gone      from here on everything fails (EIO), removing too: what is half done stays
    killed    half of what is written now arrives, and the process is dead (SIGKILL)
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

WAYS = ("once", "full", "gone", "killed")
TAKES_ROOM = ("open", "write", "fsync", "mkdir")  # what a full disk refuses
_OPEN, _OS = builtins.open, {name: getattr(os, name) for name in ("open", "write", "fsync", "close")}


class Layer:
    def __init__(self, folder: Path, at: int | None, how: str) -> None:
        assert how in WAYS
        self.folder, self.at, self.how = os.path.realpath(folder), at, how
        self.calls: list[str] = []

    def concerns(self, path: Any) -> bool:
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        return f"{os.path.realpath(os.fspath(path))}{os.sep}".startswith(self.folder + os.sep)

    def asked(self, what: str, half: Callable[[], object] = lambda: None) -> None:
        """One more call; `half`: does half of it."""
        self.calls.append(what)
        number = len(self.calls)
        if self.at is None or number < self.at or (self.how == "once" and number > self.at):
            return
        if self.how == "killed":
            half()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how != "full":
            self.fail(errno.EIO)
        if what in TAKES_ROOM:
            if number == self.at:
                half()
            self.fail(errno.ENOSPC)

    def fail(self, number: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    # -- what takes the place of the system's own -----------------------------------------------------

    def open(
        self, file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
        newline: str | None = None, closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        if not set(mode) & set("wxa+") or isinstance(file, int) or not self.concerns(file):
            return _OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if opener is None:  # else it opens the file by `os.open`
            self.asked("open")
        raw = _File(self, file, mode.replace("b", "").replace("t", ""), opener)
        if buffering == 0:
            return raw
        stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return stream if "b" in mode else io.TextIOWrapper(stream, encoding, errors, newline)

    def os_open(self, path: Any, flags: int, *given: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and self.concerns(path):
            self.asked("open")
        return int(_OS["open"](path, flags, *given, **named))

    def os_write(self, fd: int, data: Any) -> int:
        if self.concerns(fd):
            self.asked("write", lambda: _OS["write"](fd, bytes(data)[: len(data) // 2]))
        return int(_OS["write"](fd, data))

    def of_a_path(self, name: str) -> Callable[..., Any]:
        """Or of a descriptor."""
        plain = getattr(os, name)

        def call(path: Any, *given: Any, **named: Any) -> Any:
            if self.concerns(path):
                self.asked(name)
            return plain(path, *given, **named)

        return call


class _File(io.FileIO):
    """Every write below the buffer."""

    def __init__(self, layer: Layer, path: Any, mode: str, opener: Any) -> None:
        super().__init__(path, mode, opener=opener)
        self._layer = layer

    def write(self, data: Any) -> int:
        whole = bytes(data)
        self._layer.asked("write", lambda: super(_File, self).write(whole[: len(whole) // 2]))
        return super().write(whole)

    def truncate(self, size: int | None = None) -> int:
        self._layer.asked("truncate")
        return super().truncate(size)


@contextmanager
def failing(folder: Path, at: int | None = None, how: str = "once") -> Iterator[list[str]]:
    """Within it the `at`-th call concerning the folder fails; None: none, they are only counted."""
    layer = Layer(folder, at, how)
    paths = ("replace", "rename", "unlink", "remove", "chmod", "mkdir", "link", "symlink", "truncate")
    patched: dict[str, Any] = {name: layer.of_a_path(name) for name in paths}
    patched |= {name: layer.of_a_path(name) for name in ("fsync", "fdatasync", "ftruncate") if hasattr(os, name)}
    patched |= {"open": layer.os_open, "write": layer.os_write}
    with mock.patch.multiple(os, **patched), mock.patch("builtins.open", layer.open), mock.patch("io.open", layer.open):
        yield layer.calls


def every_call(
    folder: Path, begin: Callable[[], None], work: Callable[[], object], how: str
) -> Iterator[tuple[int, str]]:
    """The work again and again, with the first, second, ... of its calls failing, until one more than it makes is
    asked for. Yields the number and the error that came of it ("" if it went well), when it is time to look at what is
    there. `begin` makes the folder what it was. A process that is killed is a fork of this one."""
    with failing(folder) as calls:
        begin()
        del calls[:]
        work()
        n_calls = len(calls)
    for at in range(1, n_calls + 1):
        begin()
        yield at, _killed(folder, at, work) if how == "killed" else _failed(folder, at, work, how)


def _failed(folder: Path, at: int, work: Callable[[], object], how: str) -> str:
    with failing(folder, at, how) as calls:
        try:
            work()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        else:
            told = ""
    assert len(calls) >= at, "same work, same calls"
    return told


def _killed(folder: Path, at: int, work: Callable[[], object]) -> str:
    child = os.fork()
    if child == 0:
        try:
            with failing(folder, at, "killed"):
                work()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    return "killed"
