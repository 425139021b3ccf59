"""Opening and replacing text files: bytes in and out, and every failure a sentence.

Reading takes a path, "-" for standard input or an open file, and unpacks gzip by its magic bytes. What is packed, or
has no end that can be seen beforehand, is read up to a limit (`most_unpacked`).
Writing goes to a temporary file beside the target that then takes its place, so a full disk or an
interrupt leaves what was there before.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import secrets
import stat
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

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


def checked_utf8(data: bytes, name: str) -> bytes:
    """The bytes of a text without a byte order mark."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 at byte {error.start} (0x{data[error.start]:02x}: {error.reason}); convert the file, "
            "e.g. with iconv -f latin1 -t utf-8",
            name,
            data.count(b"\n", 0, error.start) + 1,
        ) from None
    return data.removeprefix(BYTE_ORDER_MARK)


def write_utf8(target: str | os.PathLike[str], pieces: Iterable[str]) -> None:
    """Write the pieces in full or not at all; "-" is standard output, a name in .gz is compressed."""
    name = os.fspath(target)
    if name == "-":
        _write_stdout(pieces)
        return
    data = "".join(pieces).encode("utf-8")
    if name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=6, mtime=0)  # no clock in the file: same text, same bytes
    try:
        _replace(Path(os.path.realpath(name)), data)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}; nothing was changed", name) from error


def _raw(source: Source) -> tuple[bytes, str]:
    if source == "-":
        if sys.stdin is None:
            raise InputError("it is closed; name a file, or pipe one in", "<stdin>")
        return _read_open(getattr(sys.stdin, "buffer", sys.stdin), "<stdin>")
    if not isinstance(source, str | os.PathLike):
        return _read_open(source, str(getattr(source, "name", "<file>")))
    name = os.fspath(source)
    try:
        with open(name, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(), name
            return _read_open(file, name)
    except FileNotFoundError:
        raise InputError(f"no such file (looked in {os.getcwd()}); check the path", name) from None
    except IsADirectoryError:
        raise InputError("expected a file, got a directory; name a file in it", name) from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", name) from error


def _read_open(file: IO[Any], name: str) -> tuple[bytes, str]:
    """What is left in an open file, text or binary; devices and pipes need not have an end."""
    try:
        return _joined(file, "it has", name, most_unpacked()), name
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


def unpacked(data: bytes, name: str, most: int | None = None) -> bytes:
    """The bytes, unpacked if they are gzip; `most` of them, by default as many as may be."""
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return _joined(file, "gzip data unpack to", name, most_unpacked() if most is None else most)
    except (EOFError, OSError, zlib.error) as error:
        reason = str(error).rstrip(".") or "bad data"
        raise InputError(f"gzip data is truncated or damaged ({reason}); fetch it again", name) from None


def _write_stdout(pieces: Iterable[str]) -> None:
    """UTF-8 whatever the locale says, where standard output has bytes underneath."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write("".join(pieces).encode("utf-8"))
    else:
        sys.stdout.writelines(pieces)
    sys.stdout.flush()


def _replace(path: Path, data: bytes) -> None:
    """Put the data in the place of the file, keeping its permissions. Devices and pipes are written to."""
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        path.write_bytes(data)
    else:
        replace_file(path, data, mode)


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """All or nothing, by a temporary file beside it. The umask decides who may read it, where no mode is given."""
    temporary = path.with_name(f".kinfolk-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


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
