"""The files of a data set, wherever they lie: in a folder, in a tar archive, or one file by itself."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kinfolk.core.files import read_bytes, unpacked
from kinfolk.errors import InputError

LARGEST_MEMBER = 1 << 28  # bytes; the largest file of the data sets read has 10 MB
Place = str | os.PathLike[str]


class File(NamedTuple):
    """A file, gzip unpacked: where it is inside the folder or archive, its name for messages, its content."""

    inner: PurePosixPath
    name: str
    data: bytes


def files_in(path: Place, wanted: Callable[[PurePosixPath], bool] = lambda inner: True) -> list[File]:
    """The wanted files, numbers in their names in order of size; one file by itself is always wanted."""
    folder = Path(path)
    found = _in_folder(folder, wanted) if folder.is_dir() else _in_file(folder, wanted)
    return sorted(found, key=lambda file: _natural(str(file.inner)))


def _in_folder(folder: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[File]:
    for file in folder.rglob("*"):
        inner = PurePosixPath(file.relative_to(folder).as_posix())
        if wanted(inner) and file.is_file():
            data, name = read_bytes(file)
            yield File(inner, name, data)


def _in_file(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[File]:
    data, name = read_bytes(path)
    try:
        archive = tarfile.open(fileobj=io.BytesIO(data), mode="r:")
    except tarfile.TarError:  # no archive, so the file itself
        yield File(PurePosixPath(path.name), name, data)
        return
    with archive:
        yield from _in_archive(archive, name, wanted)


def _in_archive(archive: tarfile.TarFile, name: str, wanted: Callable[[PurePosixPath], bool]) -> Iterator[File]:
    try:
        for inner, data in members(archive, name, lambda inner: wanted(PurePosixPath(inner)), LARGEST_MEMBER, "text"):
            full = f"{name}/{inner}"
            yield File(PurePosixPath(inner), full, unpacked(data, full))
    except tarfile.TarError as error:
        raise InputError(f"the tar archive is truncated or damaged ({error}); fetch it again", name) from None


def members(
    archive: tarfile.TarFile, source: str, wanted: Callable[[str], bool], largest: int, what: str
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the wanted files in an archive. They are read one by one and never unpacked, so their
    names can do no harm; one of more than `largest` bytes is not `what` it should be."""
    for member in archive:
        if member.isreg() and wanted(member.name):
            if member.size > largest:
                raise InputError(f"{member.name!r} has {member.size} bytes, too many for a {what}", source)
            content = archive.extractfile(member)
            yield member.name, content.read() if content else b""


def _natural(name: str) -> list[str | int]:
    """A key that puts 9 before 10: texts and numbers take turns."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]
