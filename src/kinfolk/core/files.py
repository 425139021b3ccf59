"""Opening and replacing text files: bytes in and out, and every failure a sentence.

Reading takes a path, "-" for standard input or an open file, and unpacks gzip by its magic bytes.
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
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from kinfolk.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Source = str | os.PathLike[str] | IO[Any]


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
        return Path(name).read_bytes(), name
    except FileNotFoundError:
        raise InputError(f"no such file (looked in {os.getcwd()}); check the path", name) from None
    except IsADirectoryError:
        raise InputError("expected a file, got a directory; name a file in it", name) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", name) from error


def _read_open(file: IO[Any], name: str) -> tuple[bytes, str]:
    """What is left in an open file, text or binary."""
    try:
        data = file.read()
        return (data.encode("utf-8") if isinstance(data, str) else data), name
    except UnicodeError as error:
        raise InputError(f"text that is not UTF-8 ({error}); open the file in binary mode", name) from error


def unpacked(data: bytes, name: str) -> bytes:
    """The bytes, unpacked if they are gzip."""
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
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
    for file in folder.rglob("*"):
        inner = PurePosixPath(file.relative_to(folder).as_posix())
        if wanted(inner) and file.is_file():
            data, name = read_bytes(file)
            yield File(inner, name, data)


def _in_file(path: Path, wanted: Callable[[PurePosixPath], bool], largest: int, what: str) -> Iterator[File]:
    data, name = read_bytes(path)
    try:
        archive = tarfile.open(fileobj=io.BytesIO(data), mode="r:")
    except tarfile.TarError:  # no archive, so the file itself
        yield File(PurePosixPath(path.name), name, data)
        return
    try:
        for member in archive:
            inner = PurePosixPath(member.name)
            if member.isreg() and wanted(inner):
                if member.size > largest:
                    raise InputError(f"{member.name!r} has {member.size} bytes, too many for a {what}", name)
                content, full = archive.extractfile(member), f"{name}/{member.name}"
                yield File(inner, full, unpacked(content.read() if content else b"", full))
    except tarfile.TarError as error:
        raise InputError(f"the tar archive is truncated or damaged ({error}); fetch it again", name) from None


def _natural(name: str) -> list[str | int]:
    """A key that puts 9 before 10: texts and numbers take turns."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]
