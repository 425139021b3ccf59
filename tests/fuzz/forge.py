"""Changes model files as a forger would: what is inside is other than it was, and the checksum is right.

    Forged.of(path).changed(rng).bytes()     header, arrays, strings, or what skops packed

The same random numbers make the same file.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from kinfolk.core.modelfile import _checksum

NUMBERS = (0, 1, -1, 2, 3, 7, 255, 1000, -(2**31), 2**31, 2**63, -(2**63), 10**9, 10**18, 10**30)
FLOATS = (0.0, -0.0, 0.5, -1.0, 1e-300, 1e30, -1e30, 1e308, -1e308, float("nan"), float("inf"))
WORDS = (
    "",
    "x",
    "word",
    "O",
    "B-PER",
    "near",
    "str",
    "int",
    "float",
    "(a+)+$",
    "\0",
    "é" * 50,
    "../../etc",
    "9" * 5000,
)
TYPES = ("bool", "u1", "<u2", "<u4", "<u8", "i1", "<i2", "<i4", "<i8", "<f4", "<f8")


class Forged:
    """What stands in a model file: the JSON of its header without the checksum, and every array."""

    def __init__(self, body: dict[str, Any], blocks: dict[str, np.ndarray]) -> None:
        self.body, self.blocks = body, blocks

    @classmethod
    def of(cls, path: Path) -> Forged:
        with safe_open(path, framework="numpy") as tensors:
            body = json.loads(tensors.metadata()["kinfolk"])
            body.pop("sha256")
            return cls(body, {key: tensors.get_tensor(key) for key in tensors.keys()})

    def bytes(self) -> bytes:
        blocks = {key: np.ascontiguousarray(block).reshape(block.shape) for key, block in self.blocks.items()}
        sealed = {**self.body, "sha256": _checksum(self.body, blocks)}
        return save(blocks, {"kinfolk": json.dumps(sealed)})

    def changed(self, rng: Random) -> Forged:
        """With one to three changes."""
        found = Forged(deepcopy(self.body), dict(self.blocks))
        for _ in range(rng.choice((1, 1, 2, 3))):
            packed = [key for key in found.blocks if key.endswith(".skops")]
            ways: list[Callable[[Random], None]] = (
                [found._header] * 4 + [found._array] * 4 + [found._strings, found._resized]
            )
            if packed:
                ways += [found._packed] * 8
            rng.choice(ways)(rng)
        return found

    # -- one change each --------------------------------------------------------------------------------

    def _header(self, rng: Random) -> None:
        where = self.body["header"]
        if rng.random() < 0.3 and isinstance(where, dict) and isinstance(where.get("settings"), dict):
            where = where["settings"]
        change_json(where, rng)

    def _array(self, rng: Random) -> None:
        names = [key for key in self.blocks if not key.endswith(".skops")]
        if not names:
            return
        name, way = rng.choice(names), rng.random()
        if way < 0.05:
            del self.blocks[name]
        elif way < 0.12:
            other = rng.choice(names)
            self.blocks[name], self.blocks[other] = self.blocks[other], self.blocks[name]
        elif way < 0.15:
            self.blocks[name + rng.choice(("x", ".0", ".x"))] = self.blocks[name]
        else:
            self.blocks[name] = other_array(self.blocks[name], rng)

    def _resized(self, rng: Random) -> None:
        """One size everywhere another: of arrays, and as a number in the header."""
        names = [key for key in self.blocks if key.startswith("array/") and not key.endswith(".skops")]
        sizes = sorted({size for key in names for size in self.blocks[key].shape if size > 1})
        if not sizes:
            return
        old = rng.choice(sizes)
        new = rng.choice((old - 1, old + 1, max(1, old // 2)))
        for key in names:
            for axis, size in enumerate(self.blocks[key].shape):
                if size == old:
                    place = np.minimum(np.arange(new), old - 1)
                    self.blocks[key] = np.take(self.blocks[key], place, axis=axis)
        for holder, place in places(self.body["header"]):
            if type(holder[place]) is int and holder[place] == old and rng.random() < 0.7:
                holder[place] = new

    def _strings(self, rng: Random) -> None:
        table = self.body["strings"]
        if not isinstance(table, dict) or not table:
            return
        name = rng.choice(sorted(table))
        data, offsets = (self.blocks.get(f"strings/{name}/{part}") for part in ("utf8", "offsets"))
        if data is None or offsets is None or offsets.ndim != 1 or not len(offsets) or offsets.dtype != np.int64:
            return
        raw, ends = data.tobytes(), np.clip(offsets, 0, len(data.tobytes())).tolist()
        texts = [raw[a:b] for a, b in pairwise(ends)]
        way = rng.randrange(6)
        if way == 0:
            rng.shuffle(texts)
        elif way == 1:
            texts = texts[: rng.randrange(len(texts) + 1)]
        elif way == 2:
            texts += rng.choices(texts or [b""], k=rng.choice((1, 3, 100)))
        elif way == 3 and texts:
            texts[rng.randrange(len(texts))] = rng.choice((b"", b"\0", b"\xff", b"a" * 10000, "é".encode(), b"O"))
        elif way == 4 and texts:
            texts[rng.randrange(len(texts))] = rng.choice(texts)
        elif way == 5:
            texts = []
        ends = np.cumsum([0, *map(len, texts)])
        self.blocks[f"strings/{name}/utf8"] = np.frombuffer(b"".join(texts), np.uint8)
        self.blocks[f"strings/{name}/offsets"] = np.asarray(ends, np.int64)
        table[name] = len(texts)

    def _packed(self, rng: Random) -> None:
        names = [key for key in self.blocks if key.endswith(".skops")]
        if names:
            name = rng.choice(names)
            self.blocks[name] = np.frombuffer(other_skops(self.blocks[name].tobytes(), rng), np.uint8)


# -- JSON -----------------------------------------------------------------------------------------------


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place inside: what holds it, and the key or number there."""
    found, waiting = [], [value]
    while waiting:
        one = waiting.pop()
        keys: Any = one.keys() if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in list(keys):
            found.append((one, key))
            waiting.append(one[key])
    return found


def change_json(value: Any, rng: Random) -> None:
    """Something else in one place of it."""
    there = places(value)
    if not there:
        return
    holder, key = rng.choice(there)
    way = rng.random()
    if way < 0.1:
        del holder[key]
    elif way < 0.2:
        other, place = rng.choice(there)
        holder[key] = deepcopy(other[place]) if len(repr(other[place])) < 10000 else None
    elif way < 0.25 and isinstance(holder, dict):
        holder[rng.choice(WORDS)] = other_value(None, rng)
    elif isinstance(holder[key], list) and way < 0.7:
        holder[key] = other_list(holder[key], rng)
    else:
        holder[key] = other_value(holder[key], rng)


def other_list(given: list[Any], rng: Random) -> list[Any]:
    way = rng.randrange(6)
    if way == 0:
        return given[: rng.randrange(len(given) + 1)]
    if way == 1:
        return given + deepcopy(given)
    if way == 2:
        return rng.sample(given, len(given))
    if way == 3:
        return [other_value(None, rng)] + given
    if way == 4 and len(repr(given)) < 1000:
        return deepcopy(given) * 200
    return [given]


def other_value(given: Any, rng: Random) -> Any:
    if isinstance(given, bool) and rng.random() < 0.5:
        return not given
    if isinstance(given, int) and rng.random() < 0.7:
        return rng.choice((*NUMBERS, given + 1, given - 1, -given, given * 1000))
    if isinstance(given, float) and rng.random() < 0.7:
        return rng.choice((*FLOATS, -given, given * 1e10))
    return rng.choice((None, True, False, [], {}, [[]], [1, 2], {"a": 1}, *NUMBERS, *FLOATS, *WORDS))


# -- arrays ---------------------------------------------------------------------------------------------


def other_array(given: np.ndarray, rng: Random) -> np.ndarray:
    """Another value, type or shape; of structured arrays another value of one field."""
    array = given.copy()
    if array.dtype.names:
        if array.size:
            field = rng.choice(array.dtype.names)
            array[field] = (
                other_array(array[field], rng).reshape(-1)[:1] if rng.random() < 0.2 else _poked(array[field], rng)
            )
        return array if rng.random() < 0.8 else array[: rng.randrange(len(array) + 1)]
    if array.dtype == object:
        return array[: rng.randrange(len(array) + 1)] if array.ndim else array
    way = rng.random()
    if way < 0.55:
        return _poked(array, rng)
    if way < 0.65:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(TYPES)) if array.dtype.kind in "biuf" else array
    shaped: list[Callable[[], np.ndarray]] = [
        lambda: array.reshape(-1),
        lambda: array.reshape(1, *array.shape),
        lambda: array.reshape(*array.shape, 1),
        lambda: array.T,
        lambda: array[..., :-1] if array.ndim else array,
        lambda: array[1:] if array.ndim else array,
        lambda: array[:0] if array.ndim else array,
        lambda: np.concatenate([array, array]) if array.ndim else array,
        lambda: np.concatenate([array, array], axis=-1) if array.ndim else array,
        lambda: array[::-1] if array.ndim else array,
        lambda: np.sort(array, axis=None).reshape(array.shape),
        lambda: np.zeros((), array.dtype),
        lambda: np.zeros_like(array),
        lambda: np.ones_like(array),
        lambda: np.full_like(array, -1) if array.dtype.kind in "if" else array,
    ]
    return np.array(rng.choice(shaped)())


def _poked(array: np.ndarray, rng: Random) -> np.ndarray:
    """Some numbers are others."""
    array = array.copy()
    if not array.size:
        return array
    flat = array.reshape(-1)
    for _ in range(rng.choice((1, 1, 1, 5))):
        place = rng.choice((0, -1, rng.randrange(flat.size)))
        kind = array.dtype.kind
        if kind == "f":
            with np.errstate(all="ignore"):
                flat[place] = rng.choice((*FLOATS, float(flat[place]) * -3))
        elif kind in "iu":
            info = np.iinfo(array.dtype)
            near = int(flat[place])
            value = rng.choice(
                (0, 1, -1, info.max, info.min, near + 1, near - 1, near + 1000, flat.size, 2**31 - 1, -2)
            )
            flat[place] = min(max(value, info.min), info.max)
        elif kind == "b":
            flat[place] = not flat[place]
        elif kind in "US":
            flat[place] = rng.choice(("", "x", "9"))
    return flat.reshape(array.shape)


# -- what skops packs -----------------------------------------------------------------------------------


def other_skops(data: bytes, rng: Random) -> bytes:
    """A zip file of arrays and a schema that says what is made of them."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        schema = json.loads(parts["schema.json"])
    except Exception:  # changed before so that it is none
        return data
    arrays = [name for name in parts if name.endswith(".npy")]
    way, packing = rng.random(), zipfile.ZIP_STORED
    if way < 0.45 and arrays:
        name = rng.choice(arrays)
        try:
            with np.errstate(all="ignore"):
                changed = other_array(np.load(io.BytesIO(parts[name]), allow_pickle=False), rng)
            np.save(out := io.BytesIO(), changed, allow_pickle=False)
            parts[name] = out.getvalue()
        except (ValueError, MemoryError):  # one that promises more than there is
            parts[name] = parts[name][: rng.randrange(len(parts[name]) + 1)]
    elif way < 0.52 and len(arrays) > 1:
        one, other = rng.sample(arrays, 2)
        parts[one], parts[other] = parts[other], parts[one]
    elif way < 0.56 and arrays:
        parts[rng.choice(arrays)] = _promising(rng)
    elif way < 0.58:
        packing = zipfile.ZIP_DEFLATED
        parts[rng.choice(sorted(parts))] = bytes(rng.choice((10**5, 5 * 10**7)))
    else:
        nodes = [one[key] for one, key in places(schema) if isinstance(one[key], dict) and "__loader__" in one[key]]
        node, other = rng.choice([*nodes, schema]), rng.choice([*nodes, schema])
        inner = rng.random()
        if inner < 0.15:
            name = rng.choice(("__loader__", "__class__", "__module__"))
            node[name] = other.get(name)
        elif inner < 0.3:
            node.update({key: other.get(key) for key in ("__loader__", "__class__", "__module__")})
        elif inner < 0.4 and "file" in node and "file" in other:
            node["file"], other["file"] = other["file"], node["file"]
        elif inner < 0.5:
            node["__id__"] = other.get("__id__")
        else:
            change_json(node if rng.random() < 0.8 else schema, rng)
    parts["schema.json"] = json.dumps(schema).encode() if parts["schema.json"][:1] == b"{" else parts["schema.json"]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def _promising(rng: Random) -> bytes:
    """An array whose header names more than is there."""
    shape = rng.choice(((10**12,), (2**31, 2**31), (10**8,), (0, 2**62), (-1,), (1,) * 40))
    kind = rng.choice(("<f8", "|S1000000000", "|V10", "<U99999999", "|O"))
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
