"""A model file comes back exactly as it was saved, or ends in a `ModelFileError` and nothing else."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load as safetensors_load
from safetensors.numpy import save as safetensors_save

from kinfolk.core import files, modelfile
from kinfolk.core.modelfile import ModelFile, read_model_file, write_model_file
from kinfolk.errors import ModelFileError

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
HEADER = {"kind": "chain", "labels": ["O", "B-é", "\n\0"], "settings": {"l2": 0.1, "n": None, "on": True}}
ARRAYS = {
    "weights": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "counts": np.arange(5, dtype=np.int64),
    "mask": np.array([True, False, True]),
    "scalar": np.array(2.5),
    "none": np.zeros((0, 3), np.int16),
}
STRINGS = {"features": ["w=the", "", "é\n\0", "🎈" * 3], "empty": []}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def some_arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    width = {"float32": 32, "float64": 64}.get(dtype.name)
    finite = st.floats(allow_nan=False, allow_infinity=False, width=width) if width else None  # type: ignore[arg-type]
    return draw(hnp.arrays(dtype, shape, elements=finite))


def assert_same(found: ModelFile, header: Any, arrays: Any, strings: Any) -> None:
    assert found.header == header
    assert list(found.header) == list(header)
    assert found.strings == {name: list(texts) for name, texts in strings.items()}
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].flags.aligned
        assert found.arrays[name].tobytes() == array.tobytes()


def read_model_bytes(raw: bytes, expected_kind: str | None = None, name: str = "m.kinfolk") -> ModelFile:
    """The bytes as a file of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        return read_model_file(path, expected_kind)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.kinfolk"
    write_model_file(path, HEADER, ARRAYS, STRINGS)
    return path


def sealed(
    blocks: dict[str, np.ndarray], header: Any = None, strings: Any = None, drop: str = "", **changes: Any
) -> bytes:
    """A file with a right checksum whatever it holds, made without the code under test."""
    body = {"format": "kinfolk-model", "format_version": 1, "library_version": "0.1.0"}
    body |= {"header": {} if header is None else header, "strings": strings or {}} | changes
    codes = {
        "float64": "F64",
        "float32": "F32",
        "int64": "I64",
        "int32": "I32",
        "uint8": "U8",
        "bool": "BOOL",
    }
    digest = hashlib.sha256(json.dumps(body).encode() + b"\n")
    for name in sorted(blocks):
        described = [name, codes[blocks[name].dtype.name], list(blocks[name].shape)]
        digest.update(json.dumps(described).encode() + b"\n" + blocks[name].tobytes())
    body["sha256"] = digest.hexdigest()
    body.pop(drop, None)
    return safetensors_save(blocks, {"kinfolk": json.dumps(body)})


def packed(texts: bytes, offsets: list[int]) -> dict[str, np.ndarray]:
    return {
        "strings/s/utf8": np.frombuffer(texts, np.uint8).copy(),
        "strings/s/offsets": np.array(offsets, np.int64),
    }


def container(header: str | bytes, data: bytes = b"") -> bytes:
    raw = header.encode() if isinstance(header, str) else header
    return len(raw).to_bytes(8, "little") + raw + data


# What goes in comes out


@settings(max_examples=150, deadline=None)
@given(
    header=st.dictionaries(TEXT, JSON_VALUES, max_size=4),
    arrays=st.dictionaries(TEXT, some_arrays(), max_size=4),
    strings=st.dictionaries(TEXT, st.lists(TEXT, max_size=5), max_size=3),
)
@example(header={}, arrays={}, strings={})
@example(header={"": {"": []}}, arrays={"__metadata__": np.zeros(1)}, strings={"": [""], "a/utf8": ["\0"], "a": []})
@example(header={"kind": None}, arrays={"strings/a/utf8": np.ones(2)}, strings={"a": ["\u2028\r\n"]})
def test_round_trip(tmp_path_factory: Any, header: Any, arrays: Any, strings: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.kinfolk"
    write_model_file(path, header, arrays, strings)
    assert_same(read_model_file(path), header, arrays, strings)
    assert_same(read_model_bytes(path.read_bytes()), header, arrays, strings)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (2, 3, 4)])
def test_every_dtype_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype)
    write_model_file(tmp_path / "m", {}, {"a": array})
    assert_same(read_model_file(tmp_path / "m"), {}, {"a": array}, {})


def test_memory_layout_and_byte_order_do_not_matter(tmp_path: Path) -> None:
    grid = np.arange(24, dtype=np.int32).reshape(4, 6)
    arrays = {
        "turned": grid.T,
        "stepped": grid[::2, ::-1],
        "swapped": grid.astype(">i4"),
        "one": np.float32(1),
    }
    write_model_file(tmp_path / "m", {}, arrays)  # type: ignore[arg-type]
    found = read_model_file(tmp_path / "m").arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=name != "swapped")
    assert found["swapped"].dtype == np.int32


def test_what_the_file_says_of_itself(saved: Path) -> None:
    found = read_model_file(str(saved), "chain")
    assert found.path == str(saved)
    assert found.library_version == modelfile.LIBRARY_VERSION


def test_strings_may_be_any_sequence_and_tuples_in_the_header_become_lists(tmp_path: Path) -> None:
    write_model_file(tmp_path / "m", {"t": (1, (2,))}, {}, {"a": ("x", "y"), "b": np.array(["é", "zz"])})  # type: ignore[dict-item]
    found = read_model_file(tmp_path / "m")
    assert found.header == {"t": [1, [2]]}
    assert found.strings == {"a": ["x", "y"], "b": ["é", "zz"]}


def test_same_content_same_bytes(saved: Path, tmp_path: Path) -> None:
    write_model_file(tmp_path / "again", HEADER, ARRAYS, STRINGS)
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_the_safetensors_package_reads_it(saved: Path) -> None:
    blocks = safetensors_load(saved.read_bytes())
    assert blocks.keys() >= {f"array/{name}" for name in ARRAYS}
    np.testing.assert_array_equal(blocks["array/weights"], ARRAYS["weights"])
    with safe_open(saved, framework="np") as opened:
        assert json.loads(opened.metadata()["kinfolk"])["header"] == HEADER


def test_what_the_safetensors_package_writes_is_read() -> None:
    found = read_model_bytes(sealed({"array/a": np.arange(3.0), **packed("aé".encode(), [0, 1, 3])}, {}, {"s": 2}))
    assert_same(found, {}, {"a": np.arange(3.0)}, {"s": ["a", "é"]})


def test_blocks_out_of_line_are_read_aligned(saved: Path) -> None:
    raw = saved.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8 : 8 + length])
    data, moved = b"", {"__metadata__": entries.pop("__metadata__")}
    for name in sorted(entries, key=lambda name: entries[name]["dtype"]):  # BOOL first puts the rest off
        begin, end = entries[name]["data_offsets"]
        moved[name] = entries[name] | {"data_offsets": [len(data), len(data) + end - begin]}
        data += raw[8 + length + begin : 8 + length + end]
    assert_same(read_model_bytes(container(json.dumps(moved), data)), HEADER, ARRAYS, STRINGS)


# What cannot be saved


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ({"l2": float("nan")}, r"header\['l2'\] is nan"),
        ({"a": {"b": [0, float("inf")]}}, r"header\['a'\]\['b'\]\[1\] is inf"),
        ({"labels": {"O"}}, r"header\['labels'\].* set"),
        ({"n": np.int64(3)}, r"header\['n'\].* int64"),
        ({"w": np.zeros(2)}, r"header\['w'\].* ndarray"),
        ({"raw": b"x"}, r"header\['raw'\].* bytes"),
        ({"a": {1: 2}}, r"header\['a'\]: the key 1 is not a str"),
        ({"name": "x\ud800"}, r"header\['name'\]: .*lone surrogate"),
        ({"\udc00": 1}, "header, a key: .*lone surrogate"),
    ],
)
def test_header_that_json_cannot_hold(tmp_path: Path, header: Any, names: str) -> None:
    with pytest.raises(ModelFileError, match=names) as caught:
        write_model_file(tmp_path / "m", header, {})
    assert str(tmp_path / "m") in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arrays", "names"),
    [
        ({"w": np.array([1.0, np.nan])}, "array 'w' has NaN"),
        ({"w": np.array(-np.inf, np.float32)}, "array 'w' has NaN or infinite"),
        ({"o": np.array([None])}, "array 'o' is of object"),
        ({"c": np.zeros(1, complex)}, "array 'c' is of complex128"),
        ({"u": np.array(["a"])}, "array 'u' is of <U1"),
        ({"r": np.zeros(2, "i4,f4")}, "array 'r' is of"),
        ({"h": np.zeros(1, np.float16)}, "array 'h' is of float16"),
        ({"list": [1, 2]}, "array 'list' is of .*list"),
        ({"b": np.array([0, 2], np.uint8).view(bool)}, "array 'b' has values that are neither"),
        ({"\udfff": np.zeros(1)}, "names.*lone surrogate"),
        ({3: np.zeros(1)}, "names.* key 3 is not a str"),
    ],
)
def test_arrays_that_cannot_be_saved(tmp_path: Path, arrays: Any, names: str) -> None:
    with pytest.raises(ModelFileError, match=names):
        write_model_file(tmp_path / "m", {}, arrays)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["ok", "bad\ud83d"], r"string list 's'.*\[1\].*lone surrogate"),
        (["ok", None], "string list 's' has items that are not str"),
        (["ok", 7], "string list 's' has items that are not str"),
        ([b"ok"], r"string list 's'.*\[0\].*bytes"),
        ("letters", "string list 's' is a single str"),
    ],
)
def test_strings_that_cannot_be_saved(tmp_path: Path, texts: Any, names: str) -> None:
    with pytest.raises(ModelFileError, match=names):
        write_model_file(tmp_path / "m", {}, {}, {"s": texts})
    assert not list(tmp_path.iterdir())


def test_endless_and_oversized_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ModelFileError, match="recursion"):
        write_model_file(tmp_path / "m", {"a": endless}, {})
    with pytest.raises(ModelFileError, match="digits"):
        write_model_file(tmp_path / "m", {"a": 10**5000}, {})
    monkeypatch.setattr(modelfile, "MAX_HEADER_BYTES", 1000)
    with pytest.raises(ModelFileError, match="limit 1000: use `strings`"):
        write_model_file(tmp_path / "m", {"a": "x" * 1000}, {})
    assert not list(tmp_path.iterdir())


# All or nothing


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_previous_file(
    saved: Path, monkeypatch: pytest.MonkeyPatch, step: str, fault: BaseException
) -> None:
    before = saved.read_bytes()

    def fail(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(ModelFileError if isinstance(fault, OSError) else KeyboardInterrupt) as caught:
        write_model_file(saved, {"kind": "other"}, {"a": np.ones(3)})
    if isinstance(fault, OSError):
        assert str(saved) in str(caught.value)
        assert "No space left on device: free some space" in str(caught.value)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_disk_that_fills_while_writing(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()
    real_open = open

    def open_on_full_disk(path: Any, mode: str = "r") -> Any:
        stream = real_open(path, mode)
        if "x" in mode:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, stream.fileno())
            os.close(full)
        return stream

    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    monkeypatch.setattr(files, "open", open_on_full_disk, raising=False)
    for size in (1, 10**6):  # within the buffer, so that only the flush fails, and beyond it
        with pytest.raises(ModelFileError, match="No space left on device: free some space"):
            write_model_file(saved, {}, {"a": np.ones(size)})
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if not sys.platform.startswith("linux"):
        pytest.skip("needs tmpfs")
    libc, place = ctypes.CDLL(None, use_errno=True), tmp_path / "tiny"
    place.mkdir()
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", ctypes.c_ulong(0), b"size=256k") != 0:
        pytest.skip(f"cannot mount a tmpfs: {os.strerror(ctypes.get_errno())}")
    yield place
    libc.umount(os.fsencode(place))


def test_a_real_full_disk(tiny_disk: Path) -> None:
    path = tiny_disk / "m"
    write_model_file(path, HEADER, ARRAYS, STRINGS)
    before = path.read_bytes()
    with pytest.raises(ModelFileError, match="No space left on device"):
        write_model_file(path, HEADER, {"big": np.ones(10**6)})
    assert path.read_bytes() == before
    assert list(tiny_disk.iterdir()) == [path]


def test_a_reader_never_sees_half_a_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real_fsync = os.fsync

    def look(handle: int) -> None:
        seen.append(read_model_file(saved).header)
        real_fsync(handle)

    monkeypatch.setattr(os, "fsync", look)
    write_model_file(saved, {"kind": "new"}, {"a": np.ones(10**6)})
    assert seen == [HEADER, {"kind": "new"}], "before it is in its place, and when the folder is synced"
    assert read_model_file(saved).header == {"kind": "new"}
    assert list(saved.parent.iterdir()) == [saved]


def test_places_that_cannot_hold_a_model(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, reason in {
        tmp_path: "found a directory",
        tmp_path / "missing" / "m": "No such file or directory: check the path, its directory",
        tmp_path / "file" / "m": "Not a directory",
        tmp_path / ("long" * 100): "File name too long",
        tmp_path / "nul\0": "null (byte|character)",
        Path(os.devnull): "device or pipe",
    }.items():
        with pytest.raises(ModelFileError, match=reason) as caught:
            write_model_file(path, {}, {})
        assert str(path) in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_no_permission(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(files, "open", refuse, raising=False)  # a superuser would pass a real chmod
    monkeypatch.setattr(modelfile, "safe_open", refuse)
    for action in (lambda: write_model_file(saved, {}, {}), lambda: read_model_file(saved)):
        with pytest.raises(ModelFileError, match="Permission denied: change the rights"):
            action()


def test_links_are_followed_and_the_umask_kept(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(saved)
    previous = os.umask(0o027)
    try:
        write_model_file(link, {"kind": "new"}, {})
    finally:
        os.umask(previous)
    assert link.is_symlink()
    assert read_model_file(saved).header == {"kind": "new"}
    assert stat.S_IMODE(saved.stat().st_mode) == 0o640


# Files that are not what they should be


def assert_refused(raw: bytes, match: str | None = None) -> None:
    with pytest.raises(ModelFileError, match=match):
        read_model_bytes(raw)


def test_missing_empty_and_irregular_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, reason in {
        "missing": r"no such file \(looked in .*\); check the path",
        "empty": "damaged, altered or not a kinfolk model: .*the file is empty",
        "": "found a directory, device or pipe",
        "pipe": "found a directory, device or pipe",
        "nul\0": "null (byte|character)",
    }.items():
        with pytest.raises(ModelFileError, match=reason) as caught:
            read_model_file(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


@given(st.binary(max_size=200))
@example(b"PK\x03\x04 a zip file of some length")
@example(b"\x80\x04\x95 a pickle that must not be opened")
@example(container("{}"))
@example(container("null"))
@example(container("[]"))
@example(container(b"\xff\xfe"))
def test_random_bytes(raw: bytes) -> None:
    assert_refused(raw)


@settings(max_examples=100, deadline=None)
@given(st.recursive(JSON_VALUES, lambda v: st.dictionaries(TEXT, v)), st.binary(max_size=20))
def test_random_json_headers(value: Any, data: bytes) -> None:
    assert_refused(container(json.dumps(value), data))
    assert_refused(container(json.dumps({"__metadata__": value}), data))
    assert_refused(container(json.dumps({"__metadata__": {"kinfolk": value}}), data))
    assert_refused(container(json.dumps({"__metadata__": {"kinfolk": json.dumps(value)}}), data))


PARTS = st.sampled_from("format format_version library_version header strings sha256".split())
ENTRY = st.fixed_dictionaries(
    {"dtype": st.sampled_from(["F64", "U8", "F16", 3]), "shape": JSON_VALUES, "data_offsets": JSON_VALUES}
)


@settings(max_examples=300, deadline=None)
@given(
    part=PARTS,
    value=JSON_VALUES,
    name=st.sampled_from(["array/weights", "strings/features/utf8", "x"]),
    entry=ENTRY,
)
def test_one_part_replaced(tmp_path_factory: Any, part: str, value: Any, name: str, entry: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "parts.kinfolk"
    write_model_file(path, HEADER, ARRAYS, STRINGS)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    entries, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    assert_refused(container(json.dumps(entries | {name: entry}), data))
    body = json.loads(entries["__metadata__"]["kinfolk"])
    entries["__metadata__"]["kinfolk"] = json.dumps(body | {part: value})
    if value != body[part]:
        assert_refused(container(json.dumps(entries), data))


def test_truncated_anywhere(saved: Path) -> None:
    raw = saved.read_bytes()
    for length in range(len(raw)):
        assert_refused(raw[:length])
    saved.write_bytes(raw[:-1])
    with pytest.raises(ModelFileError, match="damaged"):
        read_model_file(saved)
    assert_refused(raw + b"\0", "damaged, altered")


def test_any_flipped_bit(saved: Path) -> None:
    raw = saved.read_bytes()
    for position in range(len(raw)):
        for bit in range(8):
            flipped = bytearray(raw)
            flipped[position] ^= 1 << bit
            assert_refused(bytes(flipped))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_overwritten_stretches(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "stretch.kinfolk"
    write_model_file(path, HEADER, ARRAYS, STRINGS)
    raw = path.read_bytes()
    start = data.draw(st.integers(0, len(raw) - 1))
    altered = (raw[:start] + data.draw(st.binary(min_size=1, max_size=40)) + raw[start:])[: len(raw)]
    if altered != raw:
        assert_refused(altered)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**40, 32 * 2**20 + 1, 17])
def test_absurd_header_length_costs_no_memory(tmp_path: Path, length: int) -> None:
    path = tmp_path / "m"
    path.write_bytes(length.to_bytes(8, "little") + b"{" + b" " * 15)
    with pytest.raises(ModelFileError, match="damaged, altered"):
        read_model_file(path)
    with path.open("r+b") as stream:
        stream.truncate(2**36)  # sparse: takes no room on the disk, and should take none in memory
    with pytest.raises(ModelFileError):
        read_model_file(path)


def test_deeply_nested_headers() -> None:
    deep = "[" * 10**6 + "]" * 10**6
    assert_refused(container(deep))
    assert_refused(container(json.dumps({"__metadata__": {"kinfolk": deep}})))
    assert_refused(container('{"a":' + "9" * 10**5 + "}"))


def test_other_safetensors_files() -> None:
    assert_refused(safetensors_save({"w": np.zeros(3)}), "a safetensors file, but not a kinfolk model")
    assert_refused(safetensors_save({"w": np.zeros(3)}, {"format": "pt"}), "not a kinfolk model")
    assert_refused(sealed({}, format="other"), "expected format 'kinfolk-model'")


def test_newer_format_asks_for_an_upgrade() -> None:
    here = modelfile.LIBRARY_VERSION
    message = f"written by kinfolk 7.1, format 2; this is kinfolk {here}, which reads up to 1: upgrade kinfolk"
    newer = sealed({}, format_version=2, library_version="7.1", strings=None, drop="sha256")
    with pytest.raises(ModelFileError) as caught:
        read_model_bytes(newer, name="m.kinfolk")
    assert str(caught.value).endswith(f"m.kinfolk: {message}")


def test_wrong_kind(saved: Path) -> None:
    with pytest.raises(ModelFileError, match="expected a model of kind 'network'; this is of kind 'chain'"):
        read_model_file(saved, "network")
    with pytest.raises(ModelFileError, match="this is of kind None"):
        read_model_bytes(sealed({}), "chain")
    hostile = sealed({}, {"kind": "\x1b[2J" * 100})
    with pytest.raises(ModelFileError) as caught:
        read_model_bytes(hostile, "chain")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


ONE = {"array/a": np.zeros(1)}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (sealed({"array/a": np.array([np.nan])}), "array 'a' has NaN"),
        (sealed({"array/a": np.array(np.inf, np.float32)}), "array 'a' has NaN or infinite"),
        (sealed({"array/a": np.array([2], np.uint8).view(bool)}), "neither true nor false"),
        (sealed(packed(b"abc", [0, 2, 1, 3]), strings={"s": 3}), "out of order"),
        (sealed(packed(b"abc", [0, 2, 4]), strings={"s": 2}), "out of range"),
        (sealed(packed(b"abc", [1, 3]), strings={"s": 1}), "out of range"),
        (sealed(packed(b"abc", [-1, 3]), strings={"s": 1}), "out of range"),
        (sealed(packed(b"abc", [0, 2**63 - 1, -(2**63), 3]), strings={"s": 3}), "out of order"),
        (sealed(packed(b"abc", [0, 2]), strings={"s": 1}), "out of range"),
        (sealed(packed(b"abc", []), strings={"s": -1}), "out of range|out of bounds"),
        (sealed(packed(b"abc", [0, 3]), strings={"s": 2}), "wrong type or length"),
        (sealed(packed(b"abc", [0, 3]), strings={"s": "1"}), "damaged"),
        (sealed(packed(b"\xff", [0, 1]), strings={"s": 1}), "utf-8"),
        (sealed(packed("é".encode(), [0, 1, 2]), strings={"s": 2}), "utf-8"),
        (sealed(packed(b"\xed\xa0\x80", [0, 3]), strings={"s": 1}), "utf-8"),
        (sealed(packed(b"abc", [0, 3]) | {"strings/s/utf8": np.zeros(3)}, strings={"s": 1}), "wrong type"),
        (sealed({}, strings={"s": 1}), "not those that the header names"),
        (sealed(packed(b"abc", [0, 3])), "not those that the header names"),
        (sealed({"other": np.zeros(1)}), "not those that the header names"),
        (sealed({}, header=[1]), "expected a header"),
        (sealed({}, library_version=5), "library version"),
        (sealed({}, {"a": float("inf")}), r"\['a'\] is inf"),
        (sealed({}, {"a": "\ud800"}), "lone surrogate"),
        (sealed({}, format_version=0), "expected format"),
        (sealed({}, format_version=True), "expected format"),
        (sealed({}, format_version="1"), "expected format"),
        (sealed(ONE, drop="sha256"), "sha256"),
        (sealed(ONE, drop="format_version"), "format_version"),
    ],
)
def test_files_that_are_wrong_under_a_right_checksum(raw: bytes, reason: str) -> None:
    assert_refused(raw, reason)


LAYOUTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "negative": lambda entry: entry.update(shape=[-1, -1]),
    "too large": lambda entry: entry.update(shape=[2**61, 2**61], data_offsets=[0, 2**125]),
    "empty and too large": lambda entry: entry.update(shape=[0, 2**61, 2**61], data_offsets=[0, 0]),
    "too many dimensions": lambda entry: entry.update(shape=[1] * 65),
    "a flag for a number": lambda entry: entry.update(shape=[True]),
    "a fraction": lambda entry: entry.update(shape=[1.0]),
    "not a list": lambda entry: entry.update(shape="1"),
    "backwards": lambda entry: entry.update(data_offsets=[8, 0]),
    "beyond the end": lambda entry: entry.update(data_offsets=[8, 16]),
    "three offsets": lambda entry: entry.update(data_offsets=[0, 8, 8]),
    "unknown type": lambda entry: entry.update(dtype="PICKLE"),
    "odd type": lambda entry: entry.update(dtype=["F64"]),
    "no type": lambda entry: entry.pop("dtype"),
    "other type of the same size": lambda entry: entry.update(dtype="I64"),
    "other shape of the same size": lambda entry: entry.update(shape=[1, 1]),
}


@pytest.mark.parametrize("change", LAYOUTS.values(), ids=list(LAYOUTS))
def test_layouts_that_do_not_add_up(change: Callable[[dict[str, Any]], Any]) -> None:
    raw = sealed(ONE)
    length = int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8 : 8 + length])
    read_model_bytes(container(json.dumps(entries), raw[8 + length :]))
    change(entries["array/a"])
    assert_refused(container(json.dumps(entries), raw[8 + length :]), "damaged")


def test_names_that_share_bytes() -> None:
    raw = sealed(ONE)
    length = int.from_bytes(raw[:8], "little")
    text, data = raw[8 : 8 + length].decode().rstrip(), raw[8 + length :]
    entry = json.dumps(json.loads(text)["array/a"])
    assert_refused(container(text[:-1] + f',"array/b":{entry}}}', data), "damaged, altered")


def test_writing_and_reading_many_strings_keeps_them(tmp_path: Path) -> None:
    texts = [f"word[{i % 7}]=é{i}" for i in range(500_000)]
    write_model_file(tmp_path / "m", {}, {}, {"features": texts})
    assert read_model_file(tmp_path / "m").strings["features"] == texts


def test_a_file_names_a_class_under_the_one_that_is_asked_for():
    """Not a function, and not a class of another kind, though both are public names."""
    import kinfolk as kf
    from kinfolk.core.modelfile import class_named
    from kinfolk.text.tagger import Tagger

    assert class_named("LinearChainCRF", Tagger) is kf.LinearChainCRF
    assert class_named("read_conll", Tagger) is None
    assert class_named("Linker", Tagger) is None
    assert class_named(None, Tagger) is None
