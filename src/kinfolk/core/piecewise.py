"""A file that is written piece by piece, and goes on behind the last piece that was finished.

What was written so far lies in a file beside the one to be, which takes its place at the end; the checkpoint has how
many pieces it holds, how long it is, and digests of both what was read and what was written. Pieces that are done are
read again, to see that they are the same, and not worked on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from kinfolk.core.checkpoint import (
    BEGIN_ANEW,
    PathLike,
    Step,
    check_checkpoint,
    digest,
    going_on,
    remove_checkpoint,
)
from kinfolk.core.files import PIECE, put_in_place, write_utf8, writing
from kinfolk.errors import CheckpointError, InputError, SettingError

Lines = Callable[[Any], Iterator[str]]


def write_pieces(
    into: PathLike, lines: Lines, pieces: Iterable[Any], checkpoint: PathLike | None, model: Any, *given: Any
) -> None:
    """`lines(pieces)` as they come, in full or not at all, as `write_utf8` writes them. With a checkpoint a run that
    was stopped goes on; it is removed in the end, when the file is there.

    model, given   what the lines depend on beside the pieces
    """
    if checkpoint is None:
        write_utf8(into, lines(pieces))
        return
    target = Path(os.path.realpath(into))
    if os.fspath(into) == "-" or (target.exists() and not target.is_file()):
        raise SettingError.saying("`checkpoint=...` needs a file to write to, which output so far can stand beside")
    check_checkpoint(checkpoint)
    if not target.parent.is_dir():
        raise InputError("cannot write: the directory does not exist: create it first", os.fspath(into))
    with (
        going_on(checkpoint, model, *given, str(target), seeded=False) as run,
        _Growing(target, run.step("pieces"), os.fspath(checkpoint)) as file,
    ):
        if not file.complete:
            for text in lines(_Rest(pieces, file)):
                file.write(text.encode("utf-8"))
            file.finish()
    file.put_in_place()
    remove_checkpoint(checkpoint)


class _Rest:
    """The pieces that are not done yet; in all else as all of them are."""

    def __init__(self, pieces: Any, file: _Growing) -> None:
        self._pieces, self._file = pieces, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pieces, name)

    def __iter__(self) -> Iterator[Any]:
        number = 0
        for number, piece in enumerate(self._pieces, 1):
            self._file.read(piece)
            if number > self._file.done:
                yield piece
                self._file.after(number)  # whoever asks for another has handed out all of this one
            elif number == self._file.done:
                self._file.check_read()
        if number < self._file.done:
            self._file.check_read()


class _Growing:
    """What was written so far, and the state that tells how far that is."""

    def __init__(self, target: Path, step: Step, checkpoint: str) -> None:
        self._target, self._step, self._checkpoint = target, step, checkpoint
        self.part = target.with_name(f".kinfolk-{target.name}.part")
        kept = step.kept
        self.complete, self.done = step.finished, 0 if kept is None else int(kept["pieces"])
        self._read, self._was_read = "", "" if kept is None else kept["read"]
        self._written, self._size = hashlib.sha256(), 0
        self._stream: IO[bytes] | None = None
        if kept is None:
            self._stream = self._opened("wb")
        elif not self.complete or self.part.exists():
            self._stream = self._behind(kept["size"], kept["written"])
        elif not target.exists():
            raise self._lost()

    def _behind(self, size: int, written: str) -> IO[bytes]:
        """The file, cut to what is known to be whole."""
        if not self.part.is_file() or self.part.stat().st_size < size:
            raise self._lost()
        stream = self._opened("r+b")
        while self._size < size and (block := stream.read(min(PIECE, size - self._size))):
            self._count(block)
        if self._written.hexdigest() != written:
            stream.close()
            raise self._lost()
        stream.truncate(size)
        return stream

    def _opened(self, mode: str) -> IO[bytes]:
        with writing(self._target):
            return open(self.part, mode)

    def _lost(self) -> CheckpointError:
        what = f"what was written so far, {self.part}, is not there as it was left"
        return CheckpointError(f"{self._checkpoint}: {what}: {BEGIN_ANEW}")

    def _count(self, data: bytes) -> None:
        self._written.update(data)
        self._size += len(data)

    def write(self, data: bytes) -> None:
        assert self._stream is not None
        with writing(self._target):
            self._stream.write(data)
        self._count(data)

    def read(self, piece: Any) -> None:
        self._read = digest([self._read, piece])

    def check_read(self) -> None:
        """What was read before has to be what is read now."""
        if self._read != self._was_read:
            what = "the data are not those it was begun with"
            raise CheckpointError(f"{self._checkpoint}: the checkpoint is of other work: {what}: {BEGIN_ANEW}")

    def after(self, pieces: int) -> None:
        self._step.keep(self._state, pieces)

    def finish(self) -> None:
        self.complete = True
        self._step.finish(self._state(self.done))

    def _state(self, pieces: int) -> dict[str, Any]:
        assert self._stream is not None
        with writing(self._target):
            self._stream.flush()
            os.fsync(self._stream.fileno())
        return {"pieces": pieces, "size": self._size, "read": self._read, "written": self._written.hexdigest()}

    def put_in_place(self) -> None:
        if self.part.exists():
            put_in_place(self.part, self._target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            with suppress(OSError):  # what counts is synced; what could not be written would be tried again
                self._stream.close()
