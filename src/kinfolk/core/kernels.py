"""numba's decorator for our kernels, the store where compiled ones are kept from run to run, and the few kernels that
all files may call.

numba keeps them in NUMBA_CACHE_DIR, else beside the sources, else in the user's folder for caches, and fails where none
of these can be written to; it also runs whatever it finds there. Here

- the last resort is a temporary folder of the user alone, or nowhere;
- a folder that cannot be written to is read all the same, before the one that can: kernels of an image, or of another
  user's installation;
- every file ends in a checksum, and damaged ones are compiled anew;
- a kernel is kept together with the types it is for and the version of numba and of its source: of two processes that
  keep one at the same moment each may overwrite the other's file, and one that is killed between its two files leaves
  the new list with the old kernel;
- a kernel is compiled anew when its own file changes, as with numba, or one that this file has imported kernels of,
  which numba does not see, or this one;
- a kernel that is only part of another is typed and lowered there and no more (see `Parts`): it gets no machine code,
  no wrapper for Python and no file of its own, which took a third of the time of compiling.

What is compiled for the first time is reported once, before the seconds that it takes.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import logging
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import caching, codegen, compiler, dispatcher

from kinfolk.core.files import replace_file

log = logging.getLogger(__name__)
SEAL = hashlib.sha256().digest_size


# Reassociation lets short sums run in vector registers; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


KERNELS: list[Any] = []  # all that are defined in modules loaded so far


def njit(*, cache: bool, **options: Any) -> Callable[[Any], Any]:
    """numba's decorator of this name, with the store described above."""
    unwrapped: dict[str, Any] = {**options, "no_cfunc_wrapper": True}  # a second wrapper, for what we have no use for

    def compiled(function: Any) -> Any:
        kernel = numba.njit(**unwrapped)(function)
        if cache and hasattr(kernel, "overloads"):  # a plain function where NUMBA_DISABLE_JIT is set
            kernel._cache = _store(function)
            if numba.version_info.short in PARTS_TRIED:
                _as_part(kernel)
            KERNELS.append(kernel)
        return kernel

    return compiled


# -- kernels as parts of others ----------------------------------------------------------------------------
#
# numba compiles what a kernel calls as if Python were to call it: with wrappers, all passes of LLVM and machine code of
# its own, which nobody runs, as the caller links the code of LLVM in and optimises the whole. So other kernels get a
# twin, which has that code and no more; LLVM comes to the same result, as it looks at what is called first. This needs
# to know numba from inside: versions it was not tried with compile kernels as numba does by itself.

PARTS_TRIED = {(0, 68)}


class PartLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code to be linked into the callers' and optimised there."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


_DISPATCHER: Any = dispatcher


class PartCompiler(_DISPATCHER._FunctionCompiler):  # type: ignore[misc]
    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags: Any = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        typing, target = self.targetdescr.typing_context, self.targetdescr.target_context
        library = PartLibrary(target.codegen(), self.py_func.__qualname__)
        result = compiler.compile_extra(typing, target, self.py_func, args, return_type, flags, self.locals, library)
        entry = result.fndesc.mangled_name  # callers find it by this, where there would be the function for Python
        target.insert_user_function(entry, result.fndesc, [result.library])
        return result._replace(entry_point=entry)


def _as_part(kernel: Any) -> None:
    """Let other kernels find a twin of this one."""
    twin = type(kernel)(kernel.py_func, targetoptions=kernel.targetoptions)
    own = twin._compiler
    twin._compiler = PartCompiler(own.py_func, own.targetdescr, own.targetoptions, own.locals, own.pipeline_class)
    twin._compiling_counter = kernel._compiling_counter  # by which numba sees that a kernel calls itself
    twin.add_overload = lambda result: twin.overloads.__setitem__(tuple(result.signature.args), result)
    kernel.get_call_template, kernel.get_overload = twin.get_call_template, twin.get_overload


def _store(function: Any) -> Any:
    try:
        return Store(function)
    except RuntimeError:  # NUMBA_CACHE_LOCATOR_CLASSES names none that will do
        return NoStore()


class Warmth(NamedTuple):
    """What has become of the kernels in this process, as names with types; and where they are kept.

    compiled   compiled by this process
    loaded     found compiled
    unused     not called at all, and so neither; those that are only ever part of others are among them
    folders    where they were found, or are kept now
    not_kept   what was compiled and could not be kept, so that every process will compile it again
    """

    compiled: list[str]
    loaded: list[str]
    unused: list[str]
    folders: list[str]
    not_kept: list[str]


def warmth() -> Warmth:
    compiled: list[str] = []
    loaded: list[str] = []
    unused: list[str] = []
    not_kept: list[str] = []
    folders: set[str] = set()
    for kernel in KERNELS:
        name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"
        hits, misses = ({f"{name}{types}" for types in found} for found in (kernel._cache_hits, kernel._cache_misses))
        compiled += sorted(misses - hits)
        loaded += sorted(hits)
        if not kernel.overloads:
            unused.append(name)
        if isinstance(kernel._cache, Store):
            folders.update(kernel._cache.used)
            not_kept += sorted(misses) if kernel._cache.failed else []
        else:
            not_kept += sorted(f"{name}{types}" for types in kernel.overloads)
    return Warmth(compiled, loaded, unused, sorted(folders), not_kept)


def is_first_use(module: str) -> bool:
    """Whether no kernel of a module is kept yet."""
    import_module(module)
    mine = [kernel._cache for kernel in KERNELS if kernel.py_func.__module__ == module]
    return not any(store.is_kept() for store in mine)


@cache
def temporary_folder() -> str | None:
    """A folder of this user alone, or None: what is kept there is run, so nobody else may have put it there."""
    user = os.getuid() if hasattr(os, "getuid") else None
    try:
        folder = os.path.join(tempfile.gettempdir(), f"kinfolk-kernels-{'own' if user is None else user}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError:
        return None
    private = user is None or (found.st_uid == user and not stat.S_IMODE(found.st_mode) & 0o077)
    return folder if stat.S_ISDIR(found.st_mode) and private else None


# -- what is reported, each once a process ----------------------------------------------------------------


ON_DISK = "later runs load them from disk"
NOWHERE = "there is nowhere to keep them, so every run compiles them again: let NUMBA_CACHE_DIR name a folder"
ELSEWHERE = "later runs load them from another place, which `kinfolk warm` tells: NUMBA_CACHE_DIR"
TEMPORARY = "later runs load them from %s, as nothing else can be written to (NUMBA_CACHE_DIR names another place)"


@cache
def warn_first_use(kept: str = ON_DISK) -> None:
    log.warning("first use: compiling numeric kernels, about ten seconds; %s", kept)


@cache
def _warn_damage(folder: str) -> None:
    log.warning("compiled kernels in %s are damaged, and are compiled anew; if this comes again, delete them", folder)


@cache
def _warn_unreadable(folder: str, why: str) -> None:
    log.warning("compiled kernels in %s cannot be read (%s), and are compiled anew", folder, why)


@cache
def _warn_not_kept(folder: str, why: str) -> None:
    log.warning("compiled kernels cannot be kept in %s (%s): later runs compile them again", folder, why)


# -- the store: numba's classes, with what they lack --------------------------------------------------

_LOCATORS = caching.CompileResultCacheImpl._locator_classes
_NAMED: Any = next(locator for locator in _LOCATORS if locator.__name__.endswith("UserProvidedCacheLocator"))
_IN_TREE: Any = next(locator for locator in _LOCATORS if locator.__name__.endswith("InTreeCacheLocator"))
_CONFIG: Any = numba.config


class TemporaryLocator(_IN_TREE):  # type: ignore[misc]
    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = os.path.join(str(temporary_folder()), self.get_suitable_cache_subpath(file))

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        return None if temporary_folder() is None else super().from_function(function, file)


class NowhereLocator(_IN_TREE):  # type: ignore[misc]
    """Of kernels that are kept by nobody."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        return cls(function, file)


PLACES: list[Any] = [*_LOCATORS, TemporaryLocator, NowhereLocator]  # the first that can be written to


def _closed_folders(function: Any, chosen: Any) -> list[str]:
    """Those that come before the chosen place and cannot be written to. Not the user's folder for caches: one that the
    user cannot write to is somebody else's."""
    asked = [_NAMED, _IN_TREE] if _CONFIG.CACHE_DIR else [_IN_TREE]
    before = asked[: asked.index(chosen)] if chosen in asked else asked
    folders = [place(function, inspect.getfile(function)).get_cache_path() for place in before]
    return [folder for folder in folders if os.path.isdir(folder)]


class Kept(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = PLACES

    def get_filename_base(self, *names: str) -> str:
        return f"{super().get_filename_base(*names)}-sealed"  # files of numba's own have no checksum


class Damaged(Exception):
    """A file of compiled kernels that is not what was written."""


class SealedFiles(caching.IndexDataCacheFile):  # type: ignore[misc]
    """An index of types, and a file of machine code for each. A checksum at the end: what is read stops before it."""

    @contextlib.contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        yield (whole := io.BytesIO())
        sealed = whole.getvalue() + hashlib.sha256(whole.getvalue()).digest()
        replace_file(Path(path), sealed, synced=False)  # what a crash of the machine leaves, the checksum tells

    def _load_index(self) -> Any:
        with _sound(self._index_path):
            return super()._load_index()

    def _load_data(self, name: str) -> Any:
        with _sound(self._data_path(name)):
            return super()._load_data(name)

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (self._whose(key), data))

    def load(self, key: Any) -> Any:
        whose, data = super().load(key) or (None, None)
        return data if whose == self._whose(key) else None

    def _whose(self, key: Any) -> Any:
        return key, self._version, self._source_stamp

    def drop(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._index_path)


@contextlib.contextmanager
def _sound(path: str) -> Iterator[None]:
    """A file that is read has its seal, and holds what can be read."""
    with contextlib.suppress(FileNotFoundError):  # not kept yet
        with open(path, "rb") as stream:
            whole = stream.read()
        if hashlib.sha256(whole[:-SEAL]).digest() != whole[-SEAL:]:
            raise Damaged(f"{path} is damaged")
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:  # unpickling fails in ways of its own
        raise Damaged(f"{path}: {error!r}") from error


def _sources(function: Any, own: Any) -> list[Any]:
    """Stamps of a kernel's file, and of those that this file has imported kernels of, and so on."""
    stores = (getattr(value, "_cache", None) for value in function.__globals__.values())
    return sorted({own}.union(*(store.sources for store in stores if isinstance(store, Store))))


@cache
def _own_stamp() -> Any:
    """Changes with this file."""
    return Kept(_store).locator.get_source_stamp()


class Store(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = Kept

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.sources = _sources(function, self._impl.locator.get_source_stamp())
        base, stamp = self._impl.filename_base, (*self.sources, _own_stamp())
        self._place = type(self._impl.locator)
        self._cache_file: SealedFiles = SealedFiles(self._cache_path, base, stamp)
        folders = _closed_folders(function, self._place) + [self._cache_path] * (self._place is not NowhereLocator)
        self._files = [SealedFiles(folder, base, stamp) for folder in dict.fromkeys(folders)]
        self.used: set[str] = set()  # folders that a kernel came from, or went to
        self.failed = False  # whether anything could not be kept

    def _load_overload(self, types: Any, context: Any) -> Any:
        key = self._index_key(types, context.codegen())
        for file in self._files:
            try:
                found = file.load(key)
                if found is not None:
                    self.used.add(file._cache_path)
                    return self._impl.rebuild(context, found)
            except MemoryError:
                raise
            except OSError as error:
                _warn_unreadable(file._cache_path, error.strerror or str(error))
            except Exception:  # linking fails in ways of its own, too
                log.debug("%r cannot be loaded", self, exc_info=True)
                _warn_damage(file._cache_path)
                file.drop()
        warn_first_use(self._where_kept())
        return None

    def is_kept(self) -> bool:
        """Whether there is a kernel of this name, for whatever types."""
        return any(os.path.exists(file._index_path) for file in self._files)

    def _where_kept(self) -> str:
        if self._place is NowhereLocator:
            return NOWHERE
        if _CONFIG.CACHE_DIR and self._place is not _NAMED:
            return f"{ELSEWHERE} names {_CONFIG.CACHE_DIR}, which cannot be written to"
        return TEMPORARY % temporary_folder() if self._place is TemporaryLocator else ON_DISK

    def save_overload(self, types: Any, result: Any) -> None:
        if self._place is NowhereLocator:
            self.failed = True
            return
        try:
            super().save_overload(types, result)
            self.used.add(self._cache_path)
        except (OSError, Damaged) as error:
            self.failed = True
            _warn_not_kept(self._cache_path, str(error))


class NoStore(caching.NullCache):  # type: ignore[misc]
    def is_kept(self) -> bool:
        return False

    def load_overload(self, types: Any, context: Any) -> None:
        warn_first_use(NOWHERE)


# -- what kernels of several files share --------------------------------------------------------------


class Csr(NamedTuple):
    """Sparse rows: those of row i are entries indptr[i], ..., indptr[i + 1] - 1. No values: all are 1."""

    indptr: Any
    indices: Any
    values: Any


@njit(nogil=True, cache=True, fastmath=FAST)
def softmax(scores, out):  # type: ignore[no-untyped-def]
    """out[k] = exp(scores[k]) / Z; returns log Z. `out` may be `scores`."""
    top = scores[0]
    for k in range(1, len(scores)):
        top = max(top, scores[k])
    total = 0.0
    for k in range(len(scores)):
        out[k] = math.exp(scores[k] - top)
        total += out[k]
    share = 1 / total
    for k in range(len(scores)):
        out[k] *= share
    return top + math.log(total)


@njit(nogil=True, cache=True)
def log_sum(values):  # type: ignore[no-untyped-def]
    """log Σ exp(values); -inf for no mass."""
    top = -math.inf
    for value in values:
        top = max(top, value)
    if top == -math.inf:
        return -math.inf
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


# -- hash tables -----------------------------------------------------------------------------------------
#
# From keys to consecutive numbers: `slots` holds the number of a key, -1 where there is none, with open addressing and
# linear probing; its length is a power of two, at least twice the number of keys.


@njit(nogil=True, cache=True)
def scrambled(value):  # type: ignore[no-untyped-def]
    """The high bits of a multiplicative hash of 64 bits."""
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed >> np.uint64(32)


@njit(nogil=True, cache=True)
def slot_of(key, slots, keys):  # type: ignore[no-untyped-def]
    """The slot with the number of a key, `keys[slots[slot]] == key`, or the empty one where it belongs."""
    mask = np.uint64(len(slots) - 1)
    at = scrambled(key) & mask
    while slots[at] >= 0 and keys[slots[at]] != key:
        at = (at + np.uint64(1)) & mask
    return at


@njit(nogil=True, cache=True, inline="always")
def slot_of_row(rows, i, slots, keys):  # type: ignore[no-untyped-def]
    """The same for row i of several 64-bit words, among `keys` of as many."""
    mask = np.uint64(len(slots) - 1)
    at = np.uint64(0)
    for w in range(rows.shape[1]):
        at = scrambled(at ^ rows[i, w])
    at &= mask
    while True:
        known = slots[at]
        if known < 0:
            break
        w = 0
        while w < rows.shape[1] and keys[known, w] == rows[i, w]:
            w += 1
        if w == rows.shape[1]:
            break
        at = (at + np.uint64(1)) & mask
    return at
