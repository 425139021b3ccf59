"""Opening and replacing text files: bytes in and out, and every failure a sentence.

Reading takes a path, "-" for standard input or an open file, and unpacks gzip by its magic bytes; all at once, or block
by block where it may be longer than memory. What is packed, or has no end that can be seen beforehand, is read up to a
limit where it is read all at once (`most_unpacked`). Writing goes to a temporary file beside the target that then takes
its place, so a full disk or an interrupt leaves what was there before.
"""

from __future__ import annotations

import errno
import fcntl
import fnmatch
import glob
import gzip
import io
import os
import re
import secrets
import stat
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, Self

from kinfolk.errors import InputError, SettingError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Source = str | os.PathLike[str] | IO[Any]


MOST_UNPACKED = 1 << 30  # bytes that gzip, tar and pipes may come to, unless the environment says otherwise
LIMIT_NAME = "KINFOLK_MOST_UNPACKED"
PIECE = 1 << 20  # bytes read at a time


def most_unpacked() -> int:
    """Bytes that what is packed or without a known end may come to: one kilobyte of gzip can hold a megabyte."""
    given = os.environ.get(LIMIT_NAME)
    if given is None:
        return MOST_UNPACKED
    if not re.fullmatch("[0-9]{1,18}", given):
        raise SettingError.saying(f"the environment variable {LIMIT_NAME} must be a number of bytes; got {given!r}")
    return int(given)


def too_large(what: str, name: str) -> InputError:
    """Of more than may be unpacked; `what`: the beginning of the message."""
    limit = f"more than {most_unpacked():,} bytes"
    remedy = f"unpack it and take what you need, or set the environment variable {LIMIT_NAME} to more bytes"
    return InputError(f"{what} {limit}, which may be more than memory holds; {remedy}", name)


@contextmanager
def about(name: str | None) -> Iterator[None]:
    """Whatever is found wrong with what was read is said of the file."""
    try:
        yield
    except InputError as error:
        if name is None or error.path is not None:
            raise
        raise InputError(str(error), name) from error


def read_bytes(source: Source) -> tuple[bytes, str]:
    """The bytes, gzip unpacked; and a name for messages."""
    data, name = _raw(source)
    return unpacked(data, name), name


def read_utf8(source: Source) -> tuple[bytes, str]:
    """The bytes of a text, checked to be UTF-8, without a byte order mark; and a name for messages."""
    data, name = read_bytes(source)
    return checked_utf8(data, name), name


def checked_utf8(data: bytes, name: str, before: int = 0, lines: int = 0) -> bytes:
    """The bytes of a text without a byte order mark; `before`, `lines`: how many came before these."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 at byte {before + error.start} (0x{data[error.start]:02x}: {error.reason}); convert the file, "
            "e.g. with iconv -f latin1 -t utf-8",
            name,
            lines + data.count(b"\n", 0, error.start) + 1,
        ) from None
    return data if before else data.removeprefix(BYTE_ORDER_MARK)


def write_utf8(target: str | os.PathLike[str], pieces: Iterable[str]) -> None:
    """Write the pieces as they come, in full or not at all; "-" is standard output, where those before a fault have
    gone out; a name in .gz is compressed."""
    name = os.fspath(target)
    if name == "-":
        _write_stdout(pieces)
        return
    data: Iterable[bytes] = (piece.encode("utf-8") for piece in pieces)
    with writing(name):
        _replace(Path(os.path.realpath(name)), _compressed(data) if name.endswith(".gz") else data)


def refuse_empty(name: str) -> None:
    """A file of a table, without a byte in it."""
    if os.path.isfile(name) and not os.path.getsize(name):
        raise InputError("no columns: expected a line with their names, found nothing", name)


def put_in_place(part: Path, target: Path) -> None:
    """A file that is whole in the place of another, as `write_utf8` would have written it."""
    with writing(target):
        if target.name.endswith(".gz"):
            with open(part, "rb") as stream:
                _replace(target, _compressed(iter(lambda: stream.read(PIECE), b"")))
            part.unlink()
            return
        if target.exists():
            os.chmod(part, stat.S_IMODE(target.stat().st_mode))
        os.replace(part, target)


def check_target(target: str | os.PathLike[str]) -> None:
    """Fail before the work rather than after it: can the file be written? Nothing is left there."""
    name = os.fspath(target)
    if name == "-":  # standard output
        return
    with writing(name):
        path = os.path.realpath(name)
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.path.exists(path) or os.path.isfile(path):  # devices and pipes are written to
            try_folder(os.path.dirname(path))
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def try_folder(folder: str) -> None:
    """Make a file in a folder, and take it away: rights alone do not say whether that can be done."""
    temporary, stream = _locked_temporary(Path(folder))
    with stream:
        temporary.unlink(missing_ok=True)


def read_among(target: str | os.PathLike[str], sources: Iterable[Any], folders: bool = True) -> str | None:
    """The path, glob or (with `folders`) folder among what is read that a file is, matches or lies in: to write it
    would change what is read, now or the next time."""
    if "://" in os.fspath(target):
        return next((os.fspath(one) for one in sources if is_path(one) and os.fspath(one) == os.fspath(target)), None)
    own = os.path.realpath(target)
    for source in sources:
        name: str = os.fspath(source) if is_path(source) else "-"
        if name == "-" or "://" in name:
            continue
        there = [os.path.realpath(one) for one in (name, *glob.glob(name, recursive=True))]
        inside = folders and any(own.startswith(one + os.sep) for one in there if os.path.isdir(one))
        if own in there or inside:
            return name
        if _matches(own.split(os.sep), there[0].split(os.sep)):
            return name
    return None


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Whether a path matches a glob, both in parts."""
    if not parts or not pattern:
        return not parts and pattern in ([], ["**"])
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or _matches(parts[1:], pattern)
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


@contextmanager
def writing(target: str | os.PathLike[str]) -> Iterator[None]:
    """What goes wrong when a file is written, in a sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}; nothing was changed", os.fspath(target)) from error


def _compressed(data: Iterable[bytes]) -> Iterator[bytes]:
    """As gzip has it, without a clock: same text, same bytes."""
    packer = zlib.compressobj(6, wbits=zlib.MAX_WBITS | 16)
    for piece in data:
        yield packer.compress(piece)
    yield packer.flush()


def _raw(source: Source) -> tuple[bytes, str]:
    file, name = _opened(source)
    if not isinstance(source, str | os.PathLike) or source == "-":
        return _read_open(file, name), name
    with file, _reading(name):
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(), name
        return _read_open(file, name), name


def _opened(source: Source) -> tuple[IO[Any], str]:
    """The file, and a name for messages."""
    if source == "-":
        if sys.stdin is None:
            raise InputError("it is closed; name a file, or pipe one in", "<stdin>")
        return getattr(sys.stdin, "buffer", sys.stdin), "<stdin>"
    if not isinstance(source, str | os.PathLike):
        return source, str(getattr(source, "name", "<file>"))
    name = os.fspath(source)
    with _reading(name):
        return open(name, "rb"), name


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What goes wrong when a file is opened or read, in a sentence."""
    try:
        yield
    except FileNotFoundError:
        looked = f"no such file (looked in {os.getcwd()})"
        if glob.has_magic(name) and glob.glob(name, recursive=True):
            several = "the files of a glob are read by an engine: kf.DuckDB(), --engine duckdb"
            raise InputError(f"{looked}; {several}", name) from None
        raise InputError(f"{looked}; check the path", name) from None
    except IsADirectoryError:
        raise InputError("expected a file, got a directory; name a file in it", name) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _bad_gzip(error, name) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", name) from error


def _read_open(file: IO[Any], name: str) -> bytes:
    """What is left in an open file, text or binary; devices and pipes need not have an end."""
    try:
        return _joined(file, "it has", name, most_unpacked())
    except UnicodeError as error:
        raise InputError(f"text that is not UTF-8 ({error}); open the file in binary mode", name) from error


def _joined(file: IO[Any] | gzip.GzipFile, what: str, name: str, most: int) -> bytes:
    """All of a file, piece by piece, if it has no more than so many bytes."""
    found, size = [], 0
    while piece := file.read(PIECE):
        found.append(piece.encode("utf-8") if isinstance(piece, str) else piece)
        size += len(found[-1])
        if size > most:
            raise too_large(what, name)
    return b"".join(found)


class Blocks:
    """The bytes of a source, gzip unpacked, block by block; for use in `with`.

    A file is read from its start again by `rewind`, once `keep` was called; what cannot be read twice, such as a pipe,
    is then copied to a temporary file.
    """

    def __init__(self, source: Source) -> None:
        file, self.name = _opened(source)
        self._owned = file if isinstance(source, str | os.PathLike) and source != "-" else None
        if not isinstance(file, io.BufferedReader):  # text, or a kind of file that may lack all but `read`
            file = io.BytesIO(_read_open(file, self.name))
        with _reading(self.name):
            self._start = file.tell() if file.seekable() else None
        self._file: IO[bytes] = file
        self._copy: IO[bytes] | None = None
        self._begin()

    def _begin(self) -> None:
        """At the first byte."""
        with _reading(self.name):
            self._ahead = self._file.read(len(GZIP_MAGIC))
        self._stream = self._file
        if self._ahead == GZIP_MAGIC:
            joined = io.BufferedReader(_Joined(self._ahead, self._file))
            self._stream, self._ahead = gzip.GzipFile(fileobj=joined), b""  # type: ignore[assignment]

    def read(self, size: int) -> bytes:
        """As many bytes, less at the end only."""
        ahead, self._ahead = self._ahead[:size], self._ahead[size:]
        with _reading(self.name):
            return ahead + self._stream.read(size - len(ahead)) if size > len(ahead) else ahead

    def unread(self, data: bytes) -> None:
        """Put what was read last back."""
        self._ahead = data + self._ahead

    def keep(self) -> None:
        """Call it before anything is read, or with all of that put back."""
        if self._start is not None:
            return
        self._copy, most = tempfile.TemporaryFile(), most_unpacked()
        while block := self.read(PIECE):
            self._copy.write(block)
            if self._copy.tell() > most:
                raise too_large("it has", self.name)
        self._file, self._start = self._copy, 0
        self.rewind()

    def rewind(self) -> None:
        assert self._start is not None
        self._file.seek(self._start)
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self._copy, self._owned):
            if file is not None:
                file.close()


class _Joined(io.RawIOBase):
    """Bytes, and then those of a file."""

    def __init__(self, first: bytes, file: IO[bytes]) -> None:
        self._first, self._file = first, file

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        data, self._first = self._first or self._file.read(len(into)), b""
        into[: len(data)] = data
        return len(data)


def unpacked(data: bytes, name: str, most: int | None = None) -> bytes:
    """The bytes, unpacked if they are gzip; `most` of them, by default as many as may be."""
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return _joined(file, "gzip data unpack to", name, most_unpacked() if most is None else most)
    except (EOFError, OSError, zlib.error) as error:
        raise _bad_gzip(error, name) from None


def _bad_gzip(error: Exception, name: str) -> InputError:
    reason = str(error).rstrip(".") or "bad data"
    return InputError(f"gzip data is truncated or damaged ({reason}); fetch it again", name)


def _write_stdout(pieces: Iterable[str]) -> None:
    """UTF-8 whatever the locale says, where standard output has bytes underneath."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.buffer.write(piece.encode("utf-8"))
    else:
        sys.stdout.writelines(pieces)
    sys.stdout.flush()


def _replace(path: Path, data: Iterable[bytes]) -> None:
    """Put the data in the place of the file, keeping its permissions. Devices and pipes are written to."""
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as stream:
            stream.writelines(data)
    else:
        replace_file(path, data, mode)


def replace_file(path: Path, data: bytes | Iterable[bytes], mode: int | None = None, synced: bool = True) -> None:
    """Put the data in the place of a file, all or nothing."""
    with replacing(path, mode, synced) as (_, stream):
        stream.writelines([data] if isinstance(data, bytes) else data)


@contextmanager
def replacing(path: Path, mode: int | None = None, synced: bool = True) -> Iterator[tuple[Path, IO[bytes]]]:
    """A temporary file beside a file, its path and stream, which takes its place if all goes well.

    The umask decides who may read it, where no mode is given. What is not `synced` may be lost or damaged by a crash of
    the machine, and costs no waiting for the disk.

    Who writes to a temporary file holds a lock on it, which ends with its process: one that can be locked is of a
    process that was killed, and whoever next writes to the folder removes it.
    """
    _remove_abandoned(path.parent)
    temporary, stream = _locked_temporary(path.parent)
    with stream:
        try:
            yield temporary, stream
            stream.flush()
            if synced:
                os.fsync(stream.fileno())
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # what went wrong first is told; the next one to write removes the file
                temporary.unlink(missing_ok=True)
            with suppress(OSError):  # what could not be written would be tried again
                stream.close()
            raise
    if synced:
        _sync_folder(path.parent)


_TEMPORARY = re.compile(r"\.kinfolk-[0-9a-f]{16}\.tmp")


def _locked_temporary(folder: Path) -> tuple[Path, IO[bytes]]:
    while True:
        temporary = folder / f".kinfolk-{secrets.token_hex(8)}.tmp"
        stream = open(temporary, "xb")
        with suppress(OSError):  # a file system without locks, where nothing is removed
            fcntl.flock(stream, fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink:
            return temporary, stream
        stream.close()  # taken for abandoned in the moment before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Temporary files of processes that were killed."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if _TEMPORARY.fullmatch(name):
                with suppress(OSError):
                    _remove_unless_locked(folder / name)


def _remove_unless_locked(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    finally:
        os.close(file)


def _sync_folder(folder: Path) -> None:
    """A name in a folder is on disk when the folder is; some file systems know no such thing."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


# -- The files of a data set, wherever they lie: in a folder, in a tar archive, or one file by itself ---

LARGEST_MEMBER = 1 << 28  # bytes; the largest file of the data sets read has 10 MB
Place = str | os.PathLike[str]


class File(NamedTuple):
    """A file, gzip unpacked: where it is inside the folder or archive, its name for messages, its content."""

    inner: PurePosixPath
    name: str
    data: bytes


def files_in(
    path: Place,
    wanted: Callable[[PurePosixPath], bool] = lambda inner: True,
    largest: int | None = None,
    what: str = "text",
) -> list[File]:
    """The wanted files, numbers in their names in order of size; one file by itself is always wanted.

    Those in an archive are read one by one and never unpacked, so their names can do no harm; one of more than
    `largest` bytes is not `what` it should be.
    """
    folder = Path(path)
    if folder.is_dir():
        found = _in_folder(folder, wanted)
    else:
        found = _in_file(folder, wanted, LARGEST_MEMBER if largest is None else largest, what)
    return sorted(found, key=lambda file: _natural(str(file.inner)))


def _in_folder(folder: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[File]:
    left = most_unpacked()
    for file in folder.rglob("*"):
        inner = PurePosixPath(file.relative_to(folder).as_posix())
        if wanted(inner) and file.is_file():
            packed, name = _raw(file)
            data = unpacked(packed, name, left)
            left -= len(data) if data is not packed else 0
            yield File(inner, name, data)


def _in_file(path: Path, wanted: Callable[[PurePosixPath], bool], largest: int, what: str) -> Iterator[File]:
    data, name = read_bytes(path)
    try:
        archive = tarfile.open(fileobj=io.BytesIO(data), mode="r:")
    except tarfile.TarError:  # no archive, so the file itself
        yield File(PurePosixPath(path.name), name, data)
        return
    except Exception as error:  # tarfile raises what a forged header leads to
        raise _damaged_tar(error, name) from None
    left = most_unpacked()
    try:
        for member in archive:
            inner = PurePosixPath(member.name)
            if member.isreg() and wanted(inner):
                if member.size > largest:
                    raise InputError(f"{_shown(member.name)} has {member.size} bytes, too many for a {what}", name)
                if member.size > left:  # of a sparse one the archive need not hold the bytes
                    raise too_large("the tar archive unpacks to", name)
                content, full = archive.extractfile(member), f"{name}/{member.name}"
                packed = content.read() if content else b""
                unpacked_ = unpacked(packed, full, left)
                left -= max(len(packed), len(unpacked_))
                yield File(inner, full, unpacked_)
    except InputError:
        raise
    except Exception as error:
        raise _damaged_tar(error, name) from None


def _damaged_tar(error: Exception, name: str) -> InputError:
    return InputError(f"the tar archive is truncated or damaged ({str(error)[:200]}); fetch it again", name)


def _shown(name: str) -> str:
    return repr(name) if len(name) <= 100 else repr(name[:97] + "...")


def _natural(name: str) -> list[str | tuple[int, str]]:
    """A key that puts 9 before 10: texts and numbers, by length and then by digits, take turns."""
    parts = re.split("([0-9]+)", name)
    return [(len(part.lstrip("0")), part.lstrip("0")) if i % 2 else part for i, part in enumerate(parts)]
