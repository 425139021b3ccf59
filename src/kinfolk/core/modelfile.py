"""One file per model: a safetensors file with a checked JSON header, and nothing in it that can run.

The header stands in safetensors' own metadata. A checksum covers it and the name, type, shape and bytes of
every array, so an altered file is refused before anything in it is used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import inspect
import itertools
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save as encode_tensors

from kinfolk.core.files import LIMIT_NAME, most_unpacked, replace_file, try_folder
from kinfolk.core.settings import JOBS, NONE, VERBOSE, Settings, check_settings, setting, whole
from kinfolk.errors import ModelFileError, SettingError, UntrustedError

FORMAT = "kinfolk-model"
FORMAT_VERSION = 1
LIBRARY_VERSION: str = importlib.import_module("kinfolk").__version__
MAX_HEADER_BYTES = 32 * 2**20  # parsed JSON takes many times its size in memory
_CODES = "BOOL:? U8:u1 U16:<u2 U32:<u4 U64:<u8 I8:i1 I16:<i2 I32:<i4 I64:<i8 F32:<f4 F64:<f8"
_CODE_OF = {np.dtype(name): code for code, name in (pair.split(":") for pair in _CODES.split())}
_DAMAGED = "damaged, altered or not a kinfolk model: copy it again, or train and save the model again"
_ADVICE = {errno.ENOSPC: "free some space or use another path", errno.EACCES: "change the rights on the path"}


@dataclass(frozen=True, eq=False)
class ModelFile:
    """What a model file holds, or will hold: the state of a model.

    header    what JSON can hold
    arrays    by name
    strings   lists of them, by name
    """

    header: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    strings: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    library_version: str = ""

    def part(self, prefix: str, header: dict[str, Any] | None = None) -> ModelFile:
        """The arrays and strings whose names begin with `prefix`, without it: the state of a part of the model."""
        begin = f"{prefix}."
        arrays, strings = (
            {name.removeprefix(begin): value for name, value in held.items() if name.startswith(begin)}
            for held in (self.arrays, self.strings)
        )
        return replace(self, header=header or {}, arrays=arrays, strings=strings)

    def add(self, prefix: str, state: ModelFile) -> dict[str, Any]:
        """Hold the arrays and strings of a part under names that begin with `prefix`; returns its header."""
        self.arrays.update({f"{prefix}.{name}": array for name, array in state.arrays.items()})
        self.strings.update({f"{prefix}.{name}": texts for name, texts in state.strings.items()})
        return state.header

    def array(self, name: str, shape: tuple[int, ...], dtype: type[np.generic] = np.float32) -> np.ndarray:
        """An array of weights, that has to have a shape and a type."""
        found = self.arrays[name]
        if found.dtype != dtype:
            raise ModelFileError(f"{name!r} is of {found.dtype}; the model asks for {np.dtype(dtype)}")
        if found.shape != shape:
            raise ModelFileError(f"{name!r} has shape {found.shape}; the model asks for {shape}")
        return found


def write_model_file(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    strings: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write all or nothing: whatever goes wrong, a file already at `path` stays as it was."""
    with _naming(path, "cannot save the model"):
        target = os.path.realpath(path)
        data = _encode(dict(header), arrays, strings or {})
        _refuse_irregular(target)
        replace_file(Path(target), data)


def fits(finite: bool | np.bool_) -> None:
    """For what has to hold between the parts of a model that was read."""
    if not finite:
        raise ModelFileError("the parts of the model do not fit together; save it again with this version of kinfolk")


MOST = {8: 1e100, 4: 1e18}  # by bytes: beyond it sums of products end in infinity, and their differences in NaN


def moderate(*arrays: Any) -> bool:
    """Whether all numbers of a model that was read can be multiplied and added up; no NaN can."""
    return all(bool((np.abs(one) <= MOST.get(one.dtype.itemsize, 0)).all()) for one in arrays)


def names_in(kept: Any) -> tuple[str, ...]:
    """A list of names in a header."""
    fits(isinstance(kept, list | tuple) and all(isinstance(name, str) for name in kept))
    return tuple(kept)


def check_size(n_bytes: int, what: str) -> None:
    """Refuse to take more memory for part of a model than may be: a header of a few bytes can name any number."""
    if n_bytes > most_unpacked():
        remedy = f"set the environment variable {LIMIT_NAME} to more bytes if the model is that large"
        raise ModelFileError(f"{what} would take {n_bytes:,} bytes, more than {most_unpacked():,}; {remedy}")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Fail now rather than after hours of training: is there a directory to write into?"""
    with _naming(path, "cannot write there"):
        target = os.path.realpath(path)
        _refuse_irregular(target)
        try:
            try_folder(os.path.dirname(target))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            raise ModelFileError("the directory does not exist or cannot be written to: create it first") from None


def read_model_file(path: str | os.PathLike[str], expected_kind: str | None = None) -> ModelFile:
    """Read and verify; `expected_kind` is compared with "kind" in the header."""
    with _naming(path, _DAMAGED):
        _refuse_irregular(path)
        try:
            size = os.path.getsize(path)
        except FileNotFoundError:
            raise ModelFileError(f"no such file (looked in {os.getcwd()}); check the path") from None
        if size == 0:
            raise ValueError("the file is empty")
        with safe_open(path, framework="numpy") as tensors:
            return _decode(tensors, os.fspath(path), expected_kind)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str], trouble: str) -> Iterator[None]:
    """Every fault, foreseen or not, becomes a `ModelFileError` naming the file; the cause stays chained."""
    try:
        yield
    except ModelFileError as fault:
        raise ModelFileError(f"{os.fspath(path)}: {fault}") from None
    except OSError as fault:
        advice = _ADVICE.get(fault.errno or 0, "check the path, its directory and the disk")
        raise ModelFileError(f"{os.fspath(path)}: {fault.strerror or fault}: {advice}") from fault
    except Exception as fault:
        raise ModelFileError(f"{os.fspath(path)}: {trouble} ({str(fault)[:200] or type(fault)})") from fault


def _encode(header: dict[str, Any], arrays: Mapping[str, np.ndarray], strings: Mapping[str, Sequence[str]]) -> bytes:
    _check_json(header, "header")
    _check_json([dict.fromkeys(arrays), dict.fromkeys(strings)], "names")
    blocks: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<") if isinstance(array, np.ndarray | np.generic) else type(array)
        if dtype not in _CODE_OF:
            raise ValueError(f"array {name!r} is of {dtype}, expected bool, integers, float32 or float64")
        blocks[f"array/{name}"] = np.asarray(array, dtype, order="C")
        _check_values(name, blocks[f"array/{name}"])
    for name, texts in strings.items():
        blocks[f"strings/{name}/utf8"], blocks[f"strings/{name}/offsets"] = _pack_strings(name, texts)
    body = {"format": FORMAT, "format_version": FORMAT_VERSION, "library_version": LIBRARY_VERSION}
    body |= {"header": header, "strings": {name: len(texts) for name, texts in strings.items()}}
    sealed = json.dumps(body | {"sha256": _checksum(body, blocks)})
    if len(sealed) > MAX_HEADER_BYTES:
        raise ValueError(f"header of {len(sealed)} bytes, limit {MAX_HEADER_BYTES}: use `strings` for lists")
    return encode_tensors(blocks, {"kinfolk": sealed})


def _pack_strings(name: str, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(texts, str):
        raise ValueError(f"string list {name!r} is a single str, expected a sequence of str")
    try:
        encoded = list(map(str.encode, texts))
    except (TypeError, UnicodeEncodeError):  # only now is it worth the time to find the item at fault
        _check_json(list(texts), f"string list {name!r}: item ")
        raise ValueError(f"string list {name!r} has items that are not str") from None
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def _refuse_irregular(path: str | os.PathLike[str]) -> None:
    """Reading a device or pipe might never end, and a rename would put a file in its place."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelFileError("expected a file, found a directory, device or pipe: give the path of a file")


def _decode(tensors: Any, name: str, expected_kind: str | None) -> ModelFile:
    text = (tensors.metadata() or {}).get("kinfolk")
    if text is None:
        raise ModelFileError("a safetensors file, but not a kinfolk model: give one saved by kinfolk")
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"header of {len(text)} characters, limit {MAX_HEADER_BYTES}")
    body = json.loads(text, object_pairs_hook=_unique)
    version, writer = body["format_version"], body["library_version"]
    if body["format"] != FORMAT or type(version) is not int or version < 1:
        raise ValueError(f"expected format {FORMAT!r} with a version")
    if version > FORMAT_VERSION:  # judged early: a later format may differ in all that follows
        here = f"this is kinfolk {LIBRARY_VERSION}, which reads up to {FORMAT_VERSION}: upgrade kinfolk"
        raise ModelFileError(f"written by kinfolk {_shown(writer)[1:-1]}, format {version}; {here}")
    blocks = {key: tensors.get_tensor(key) for key in tensors.keys()}
    if json.dumps(body) != text or body.pop("sha256") != _checksum(body, blocks):  # to the letter
        raise ValueError("the checksum does not match the content")
    header, table = body["header"], body["strings"]
    if not isinstance(header, dict) or not isinstance(table, dict) or not isinstance(writer, str):
        raise ValueError("expected a header, a table of string lists and a library version")
    _check_json([body, dict.fromkeys(blocks)], "header")
    if expected_kind is not None and header.get("kind") != expected_kind:
        found = f"this is of kind {_shown(header.get('kind'))}: load it as that, or give another file"
        raise ModelFileError(f"expected a model of kind {expected_kind!r}; {found}")
    arrays = {key[6:]: blocks.pop(key) for key in list(blocks) if key.startswith("array/")}
    if blocks.keys() != {f"strings/{key}/{part}" for key in table for part in ("utf8", "offsets")}:
        raise ValueError("the string lists are not those that the header names")
    for key, array in arrays.items():
        _check_values(key, array)
    strings = {key: _unpack_strings(key, count, blocks) for key, count in table.items()}
    return ModelFile(header, arrays, strings, name, writer)


def _unpack_strings(name: str, count: int, blocks: Mapping[str, np.ndarray]) -> list[str]:
    data, offsets = blocks[f"strings/{name}/utf8"], blocks[f"strings/{name}/offsets"]
    if data.dtype != np.uint8 or data.ndim != 1 or offsets.dtype != np.int64 or offsets.shape != (count + 1,):
        raise ValueError(f"string list {_shown(name)} is of the wrong type or length")
    if offsets[0] != 0 or offsets[-1] != data.size or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"string list {_shown(name)} has offsets out of order or out of range")
    raw = data.tobytes()
    return [raw[begin:end].decode() for begin, end in itertools.pairwise(offsets.tolist())]


def _checksum(body: dict[str, Any], blocks: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(body).encode() + b"\n")
    for key in sorted(blocks):
        digest.update(json.dumps([key, _CODE_OF[blocks[key].dtype], blocks[key].shape]).encode() + b"\n")
        digest.update(np.ascontiguousarray(blocks[key]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _check_values(name: str, array: np.ndarray) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"array {_shown(name)} has NaN or infinite values, expected finite ones: retrain")
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError(f"array {_shown(name)} has values that are neither true nor false")


def _check_json(value: Any, where: str) -> None:
    """Refuse what would not come back the same; only tuples pass, which come back as lists."""
    if isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict) and not isinstance(key, str):
                raise ValueError(f"{where}: the key {_shown(key)} is not a str, as JSON needs")
            _check_json(key, f"{where}, a key")
            _check_json(item, f"{where}[{_shown(key)}]")
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError(f"{where}: {_shown(value)} has a lone surrogate, not valid in UTF-8: clean it")
    elif not isinstance(value, int | None) and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError(f"{where} is {_shown(value)}, a {type(value).__name__} JSON cannot hold: convert it")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _shown(value: object) -> str:
    """Text from a file may be long or hold terminal codes; a message must not."""
    return ascii(value) if len(ascii(value)) <= 60 else ascii(value)[:57] + "..."


# -- models and their files ---------------------------------------------------------------------------

KINDS = ("tokens", "nodes", "mentions", "layer")
Functions = Mapping[str, Callable[..., Any]]
# Before the two tasks had two classes: (method, kind) to the class of today.
FORMER = {
    ("MixtureOfParents", "tokens"): "MixtureTagger",
    ("MixtureOfParents", "nodes"): "MixtureNodes",
    ("StackedGraphical", "tokens"): "StackedTagger",
    ("StackedGraphical", "nodes"): "StackedNodes",
}
# Public classes whose names stand in a module of their own, since other libraries have them too.
ELSEWHERE = {"CRF": "kinfolk.text.crfsuite"}


def class_named(name: Any, base: type) -> Any:
    """The class under `base` that a file names, or None: a public one, else one of those defined so far, of several the
    newest. A file never has a module imported: whoever wrote a class imports it before loading."""
    public = importlib.import_module("kinfolk")
    if isinstance(name, str) and name in public.__all__:
        found = [getattr(public, name)]
    elif isinstance(name, str) and name in ELSEWHERE:
        found = [getattr(importlib.import_module(ELSEWHERE[name]), name)]
    else:
        found = [one for one in _all_under(base) if one.__name__ == name and not inspect.isabstract(one)]
    return next((one for one in reversed(found) if isinstance(one, type) and issubclass(one, base)), None)


def _all_under(base: type[Any]) -> list[type[Any]]:
    return [one for below in base.__subclasses__() for one in (below, *_all_under(below))]


def class_in_file(name: Any, base: type, what: str) -> Any:
    """The same, where a file needs it; `what`: the beginning of the message where there is none."""
    found = class_named(name, base)
    if found is None:
        remedy = "import the module that defines it, or upgrade kinfolk"
        raise ModelFileError(f"{what} this version does not know: {_shown(name)}; {remedy}")
    return found


def name_in_file(one: object, base: type) -> str:
    """The name by which a file keeps the class of an object."""
    name, home = type(one).__name__, type(one).__module__
    found = class_named(name, base)
    if found is None or found.__module__ != home:
        other = "kinfolk" if found is None else found.__module__
        raise ModelFileError(f"a file keeps the name of a class alone, and {other} has a {name!r} too: rename yours")
    return name


def given_again(name: str, functions: Functions, kind: str) -> Callable[..., Any]:
    """A user's function on load: a model file keeps its name alone."""
    if name not in functions:
        raise ModelFileError(
            f"the model uses {kind} named {name!r}, which a file cannot hold; pass it in again: "
            f"`load_model(path, functions={{{name!r}: ...}})`. Given: {', '.join(functions) or 'none'}"
        )
    return functions[name]


@dataclass(kw_only=True, eq=False, repr=False)
class Saved(Settings, ABC):
    """Abstract: a model that a file can hold, as settings and as what `fit` learned.

    KIND      what it labels: "tokens", "nodes" or "mentions"
    GONE      settings that files of earlier versions have, and that mean nothing any more
    """

    KIND: ClassVar[str]
    GONE: ClassVar[tuple[str, ...]] = ()

    random_state: int | None = setting(0, "seed: the same one gives the same answers for every n_jobs", whole(0) | NONE)
    n_jobs: int | None = setting(-1, "threads; -1: every core", JOBS)
    verbose: int = setting(0, "1: progress, on a terminal or in a notebook", VERBOSE)

    @abstractmethod
    def to_state(self) -> ModelFile:
        """What a file keeps of the model; `head` begins it."""

    @abstractmethod
    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        """Set what `to_state` kept, settings apart."""

    @classmethod
    def from_state(cls, file: ModelFile, functions: Functions, trusted: Sequence[str] = ()) -> Self:
        """The model that `to_state` described; `functions` are a user's own, by name."""
        kept = {name: value for name, value in file.header["settings"].items() if name not in cls.GONE}
        strange = [name for name in kept if name not in cls.DECLARED or not cls.DECLARED[name].in_file]
        if strange:
            raise ModelFileError(f"{cls.__name__} keeps no setting {strange[0]!r} in a file: altered, or newer")
        model = cls().set_params(**kept)
        model._restore(file, functions, trusted)
        try:
            model._check_settings()
        except SettingError as error:
            raise ModelFileError(f"{error}. The file was altered; train and save the model again") from None
        return model

    def head(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name, one in self.DECLARED.items() if one.in_file}
        return {"kind": self.KIND, "method": name_in_file(self, Saved), "settings": kept}

    def _check_settings(self) -> None:
        """Settings from a file are checked as `fit` checks them."""
        check_settings(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one model file; `kinfolk.load_model(path)` reads it back."""
        self._require_fitted()
        state = self.to_state()
        write_model_file(path, _plain(state.header), state.arrays, state.strings)


def load_model(
    path: str | os.PathLike[str],
    functions: Functions | None = None,
    kind: str | None = None,
    trusted: Sequence[str] = (),
) -> Any:
    """A model from a file. `functions` gives a user's own functions (features, skip edges) again, by name.

    kind     "tokens", "nodes" or "mentions", where only such a model will do
    trusted  names of types in a scikit-learn base that are not looked over on loading, and that you trust
    """
    if functions is not None and not isinstance(functions, Mapping):
        given = type(functions).__name__
        raise SettingError.saying(f"functions must map names to functions, {{'name': function}}; got a {given}")
    file = read_model_file(path, expected_kind=kind)
    try:
        return restored(file, functions or {}, trusted)
    except UntrustedError as error:
        raise UntrustedError(f"{os.fspath(path)}: {error.what}", error.types) from None
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:  # the file is whole, but its parts do not fit: whatever comes of that
        raise ModelFileError(
            f"{os.fspath(path)}: the parts of the model do not fit together ({type(error).__name__}: {error}); "
            "save the model again with this version of kinfolk"
        ) from error


def restored(file: ModelFile, functions: Functions, trusted: Sequence[str] = ()) -> Any:
    """The model in a file, or in a part of one, of the class it names."""
    kind = file.header["kind"]
    if kind not in KINDS:
        raise ModelFileError(f"a model of kind {_shown(kind)} is not known; expected {', '.join(KINDS)}")
    method = file.header["method"]
    name = FORMER.get((method, kind), method) if isinstance(method, str) else method
    found = class_in_file(name, Saved, f"a model of {kind}")
    if found.KIND != kind:
        raise ModelFileError(f"{found.__name__} is a model of {found.KIND}, not of {kind}: the file was altered")
    return found.from_state(file, functions, trusted)


def _plain(value: Any) -> Any:
    """The header as JSON can hold it: numpy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value
