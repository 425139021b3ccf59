"""Opening and replacing text files: bytes in and out, and every failure a sentence.

Reading takes a path, "-" for standard input or an open file, and unpacks gzip by its magic bytes.
Writing goes to a temporary file beside the target that then takes its place, so a full disk or an
interrupt leaves what was there before.
"""

from __future__ import annotations

import gzip
import os
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

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
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 at byte {error.start} (0x{data[error.start]:02x}: {error.reason}); convert the file, "
            "e.g. with iconv -f latin1 -t utf-8",
            name,
            data.count(b"\n", 0, error.start) + 1,
        ) from None
    return data.removeprefix(BYTE_ORDER_MARK), name


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
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        if mode is not None:
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
