"""Changes bytes that someone reads: characters, lines and cells, packed or not, cut off or many times over."""

from __future__ import annotations

import gzip
import io
import tarfile
from random import Random

PIECES = (
    b"", b"\0", b"\r", b"\n", b"\r\n", b"\n\n", b"\t", b" ", b",", b";", b"|", b'"', b"'", b"\\", b"(", b")", b"<",
    b">", b"&", b"&lt;", b"-", b"_", b"?", b"O", b"B-", b"I-PER", b"-DOCSTART-", b"#", b"# begin document", b"nan",
    b"NaN", b"inf", b"-1", b"0", b"1e999", b"1_000", b"9" * 5000, b"\xff", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80",
    b"\x1f\x8b", b"PAR1", "\u2028".encode(), "\u0130".encode(), b"\x1a", b"true", b"NA", b"x" * 3000,
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
)  # fmt: skip


def mangled(data: bytes, rng: Random) -> bytes:
    """With one to four changes, and now and then packed."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = _changed(data, rng)[: 1 << 20]
    way = rng.random()
    if way < 0.04:
        data = gzip.compress(data, mtime=0)
    elif way < 0.06:
        data = _changed(gzip.compress(data, mtime=0), rng)
    elif way < 0.065:
        data = gzip.compress(bytes(rng.choice((10**6, 3 * 10**8))), 1, mtime=0)
    return data


def _changed(data: bytes, rng: Random) -> bytes:
    at, way = rng.randrange(len(data) + 1), rng.randrange(12)
    if way == 0:
        return data[:at] + rng.choice(PIECES) + data[at:]
    if way == 1:
        end = min(len(data), at + rng.choice((1, 1, 2, 5, 50)))
        return data[:at] + data[end:]
    if way == 2 and at < len(data):
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if way == 3:
        return data[:at]
    if way == 4:
        return data + data
    if way == 5:
        return rng.choice((b"", b"\n", b"\xef\xbb\xbf", b"\0" * 600, rng.randbytes(50)))
    lines = data.split(b"\n")
    line = rng.randrange(len(lines))
    if way == 6:
        del lines[line]
    elif way == 7:
        lines.insert(line, rng.choice(lines))
    elif way == 8:
        rng.shuffle(lines)
    elif way == 9:
        lines[line] = lines[line][: 1 << 14] * rng.choice((2, 3, 1000))
    elif way == 10:
        divider = rng.choice((b"\t", b",", b" "))
        cells = lines[line].split(divider)
        cell = rng.randrange(len(cells))
        cells[cell : cell + rng.randrange(3)] = [rng.choice((*PIECES, *cells))]
        lines[line] = divider.join(cells)
    else:
        return data[: 1 << 14].replace(rng.choice((b"\n", b"\t", b",", b" ")), rng.choice(PIECES))
    return b"\n".join(lines)


def archive(files: dict[str, bytes], rng: Random) -> bytes:
    """The files in a tar archive, which may then be changed itself."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=rng.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name if rng.random() < 0.95 else f"{name}{'9' * rng.choice((5, 200, 5000))}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    data = out.getvalue()
    if rng.random() < 0.5:
        for _ in range(rng.choice((1, 3))):
            data = _other_header(data, rng)
    return gzip.compress(data, 1, mtime=0) if rng.random() < 0.5 else data


def _other_header(data: bytes, rng: Random) -> bytes:
    """Another byte, type, size or name in the header of a member, with the right checksum."""
    at = 512 * rng.randrange(max(1, len(data) // 512))
    header = bytearray(data[at : at + 512].ljust(512, b"\0"))
    way = rng.randrange(4)
    if way == 0:
        header[156:157] = rng.choice((b"L", b"K", b"x", b"g", b"S", b"1", b"2", b"5", b"V", b"\0"))
    elif way == 1:
        header[124:136] = rng.choice(
            (b"77777777777\0", b"00000000000\0", b"\x80" + b"\0" * 10 + b"\xff", b"\xff" * 12, b"x" * 12)
        )
    elif way == 2:
        header[rng.randrange(512)] = rng.randrange(256)
    else:
        header[386:512] = rng.randbytes(126)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return data[:at] + bytes(header) + data[at + 512 :]
