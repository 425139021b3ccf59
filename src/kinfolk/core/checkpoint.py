"""Long work that goes on: one file has what a run came to, and a run that was stopped ends as if it never had been.

Work is a tree of named steps. A step that is finished left its result; one in progress left the state it goes on from;
whoever does the same work again asks for the same steps by the same names in the same order, takes results as they
are, and goes on with what was in progress:

    with going_on("run.kinfolk-run", model, data):      # `fit` opens the run of a model, its settings and its data
        step = running().step("optimise", start)        # whoever has long work, however deep, asks for the next step
        if step.finished:
            return step.kept
        ...
        step.keep(lambda: state)                        # between two iterations; written when it is time
        return step.finish(result)                      # what was kept of it, and of the steps within it, goes

Steps are numbered by name in the order they are asked for within the step that is running, so work that is done in
threads opens a step of its own name in each: `with outer.step("fold 3"):`. Without a checkpoint all of it does nothing.

Same seed, same answer: all work is a function of settings and data, whatever was written when. A state is written at
most EVERY seconds after the one before, all or nothing, as model files are, with their checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import struct
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from scipy import sparse

from kinfolk.core.modelfile import LIBRARY_VERSION, check_writable, read_model_file, write_model_file
from kinfolk.errors import CheckpointError, CheckpointWarning, ModelFileError, SettingError, warn

log = logging.getLogger("kinfolk")
PathLike = str | os.PathLike[str]
T = TypeVar("T")
KIND = "run"
EVERY = 15.0  # seconds from one state to the next at most, where a step offers one
SHARE = 0.05  # of the time that may go to writing, as long as that keeps to EVERY
BEGIN_ANEW = "delete the file to begin anew, or name another"
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")  # whose versions may change the last digits
ASIDE = ("n_jobs", "verbose", "engine")  # settings that have no part in the answer


# -- a run, step by step ------------------------------------------------------------------------------------


class Record(NamedTuple):
    """What is kept of a step: a digest of what it starts from, whether it is finished, and its state or result."""

    given: str
    finished: bool
    packed: Packed


@dataclass(eq=False)
class Step:
    """A piece of work within a run; of no run, and without effect, where there is no checkpoint.

    kept       what it left when it was stopped, a tree of dicts, lists, numbers, texts and arrays; None: nothing
    finished   whether that is its result
    """

    run: Run | None = None
    path: str = ""
    given: str = ""
    _named: dict[str, int] = field(default_factory=dict)
    _beside: dict[str, Callable[[], Any]] = field(default_factory=dict)
    _tokens: list[Token[Step]] = field(default_factory=list)

    def step(self, name: str, *given: Any) -> Step:
        """The next step of this name within; `given`: what it starts from, which has to be what it was before."""
        if self.run is None:
            return self
        number = self._named[name] = self._named.get(name, 0) + 1
        return self.run.opened(f"{self.path}/{name} {number}", digest(given))

    @property
    def active(self) -> bool:
        """Whether anything is kept."""
        return self.run is not None

    @property
    def _record(self) -> Record | None:
        return None if self.run is None else self.run.records.get(self.path)

    @property
    def finished(self) -> bool:
        return self._record is not None and self._record.finished

    @property
    def kept(self) -> Any:
        return None if self._record is None else self._record.packed.tree()["own"]

    def beside(self, name: str, state: Callable[[], Any], restore: Callable[[Any], None]) -> None:
        """What another has to go on with together with the step: it is set to what was kept, and kept along."""
        if self.run is not None:
            self._beside[name] = state
            if self._record is not None:
                restore(self._record.packed.tree()["beside"][name])

    def keep(self, state: Callable[..., Any], *arguments: Any) -> None:
        """The state that `state(*arguments)` gives, if it is time to write one."""
        if self.run is not None and self.run.due:
            self._put(state(*arguments), finished=False)

    def finish(self, result: T) -> T:
        """The result, which is kept; steps within it are no longer needed."""
        if self.run is not None:
            self.run.drop_within(self.path)
            self._put(result, finished=True)
        return result

    def _put(self, own: Any, finished: bool) -> None:
        assert self.run is not None
        tree = {"own": own, "beside": {name: state() for name, state in self._beside.items()}}
        self.run.put(self.path, Record(self.given, finished, Packed.of(tree)))

    def once(self, work: Callable[[], T]) -> T:
        """The result of the work, or that which was kept of it."""
        if self.finished:
            return self.kept  # type: ignore[no-any-return]
        with self:
            return self.finish(work())

    def __enter__(self) -> Self:
        if self.run is not None:
            self._tokens.append(_running.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        if self.run is not None:
            _running.reset(self._tokens.pop())


ALONE = Step()  # work without a checkpoint
_running: ContextVar[Step] = ContextVar("running", default=ALONE)


def running() -> Step:
    """The step that is running in this thread; one without effect where there is no checkpoint."""
    return _running.get()


class Run:
    """The file and its records; steps of several threads may put theirs."""

    def __init__(self, path: PathLike, head: dict[str, Any], records: dict[str, Record]) -> None:
        self.path, self.head, self.records = path, head, records
        self._lock = threading.RLock()
        self._unwritten, self._written, self._cost, self._failed = False, time.monotonic(), 0.0, False

    def opened(self, path: str, given: str) -> Step:
        record = self.records.get(path)
        if record is not None and record.given != given:
            what = f"{path.strip('/')} does not start from what it started from when it was stopped"
            raise CheckpointError(f"{os.fspath(self.path)}: {what}: {BEGIN_ANEW}")
        return Step(self, path, given)

    @property
    def due(self) -> bool:
        """Whether it is time to write: the sooner the less it costs."""
        return time.monotonic() - self._written >= min(EVERY, self._cost / SHARE)

    def put(self, path: str, record: Record) -> None:
        with self._lock:
            self.records[path], self._unwritten = record, True
            if self.due:
                self.write()

    def drop_within(self, path: str) -> None:
        with self._lock:
            for name in [name for name in self.records if name.startswith(f"{path}/")]:
                del self.records[name]

    def write(self) -> None:
        """What goes wrong is told, and no reason to stop: what was written before still stands."""
        with self._lock:
            began = time.monotonic()
            try:
                self._write()
            except ModelFileError as error:
                self._failed = True
                warn(f"the checkpoint could not be written, and work goes on without: {error}", CheckpointWarning)
            self._unwritten, self._written = False, time.monotonic()
            self._cost = self._written - began

    def _write(self) -> None:
        steps: list[Any] = []
        arrays: dict[str, np.ndarray] = {}
        for i, (path, record) in enumerate(self.records.items()):
            steps.append([path, record.given, record.finished, record.packed.form, len(record.packed.arrays)])
            arrays |= {f"{i}.{k}": array for k, array in enumerate(record.packed.arrays)}
        write_model_file(self.path, {"kind": KIND, **self.head, "steps": steps}, arrays)

    def begin(self) -> None:
        """Written once before any work is done: a path that cannot be written to is told at once."""
        try:
            self._write()
        except ModelFileError as error:
            raise CheckpointError(f"the checkpoint cannot be written: {error}") from None

    def end(self) -> None:
        """Whatever was not written yet."""
        with self._lock:
            if self._unwritten or self._failed:
                self.write()


def check_checkpoint(path: PathLike | None) -> None:
    """Fail before anything is done where a checkpoint cannot be written."""
    if path is None:
        return
    if not isinstance(path, str | os.PathLike):
        raise SettingError("checkpoint", path, "the path of a file, or None")
    try:
        check_writable(path)
    except ModelFileError as error:
        raise CheckpointError(f"the checkpoint cannot be written: {error}") from None


@contextlib.contextmanager
def going_on(path: PathLike | None, model: Any, *given: Any, seeded: bool = True) -> Iterator[Step]:
    """The run of a model on what it is given, from the file at `path` if there is one. Without a path it is part of the
    run that is going on, if there is one. `seeded`: whether the work draws anything.

    The file stays when the work is done, so that nothing is lost before its result is saved: the same work then takes
    every step from it.
    """
    if path is None:
        yield running()
        return
    check_checkpoint(path)
    if seeded:
        check_seed(model)
    run = Run(path, fingerprint(model, given), {})
    if os.path.exists(path):
        run.records = _records(path, run.head)
        log.info("%s: goes on with %d steps that were kept", os.fspath(path), len(run.records))
    else:
        run.begin()
    try:
        with Step(run) as step:
            yield step
    finally:
        run.end()


def remove_checkpoint(path: PathLike | None) -> None:
    """Once the result is saved."""
    if path is None:
        return
    try:
        os.remove(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        why = f"{os.fspath(path)} cannot be removed ({error.strerror})"
        warn(f"all is done, but the checkpoint {why}: delete it", CheckpointWarning)


def _records(path: PathLike, head: dict[str, Any]) -> dict[str, Record]:
    """Those of a file, which has to be of the same work."""
    name = os.fspath(path)
    try:
        file = read_model_file(path)
    except ModelFileError as error:
        raise CheckpointError(f"{error}. It was to be a checkpoint: {BEGIN_ANEW}") from None
    try:
        found = file.header
        if found.get("kind") != KIND:
            raise CheckpointError(f"{name}: a model file, not a checkpoint: name another file for the checkpoint")
        other = [line for part in head for line in differences(part, found[part], head[part])]
        if other:
            remedy = f"give what it was begun with, {BEGIN_ANEW}"
            raise CheckpointError(f"{name}: the checkpoint is of other work: {'; '.join(other[:3])}: {remedy}")
        records = {}
        for i, (step, given, finished, form, n_arrays) in enumerate(found["steps"]):
            arrays = [file.arrays[f"{i}.{k}"] for k in range(n_arrays)]
            records[str(step)] = Record(str(given), bool(finished), Packed(form, arrays))
            records[str(step)].packed.tree()  # whole
        return records
    except CheckpointError:
        raise
    except Exception as error:  # the file is whole, but it is not what was written
        raise CheckpointError(f"{name}: the checkpoint cannot be read ({error}): {BEGIN_ANEW}") from error


# -- trees of plain things, as a file holds them ------------------------------------------------------------


class Packed(NamedTuple):
    """A tree as JSON, with arrays apart, bit by bit the same: NaN and infinities, which files of models refuse, too."""

    form: Any
    arrays: list[np.ndarray]

    @classmethod
    def of(cls, tree: Any) -> Packed:
        """Arrays are copied: work goes on with them."""
        arrays: list[np.ndarray] = []
        return cls(_formed(tree, arrays), arrays)

    def tree(self) -> Any:
        """Made anew, so that nobody's arrays are another's."""
        return _unformed(self.form, self.arrays)


def _formed(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        flat = np.array(value, value.dtype.newbyteorder("<"), order="C").reshape(-1)
        arrays.append(flat.view(f"<u{flat.itemsize}") if flat.dtype.kind == "f" else flat)
        return {"array": len(arrays) - 1, "dtype": flat.dtype.str, "shape": list(value.shape)}
    if isinstance(value, float):
        return {"float": struct.pack("<d", value).hex()}
    if isinstance(value, Mapping):
        return {"dict": {name: _formed(inner, arrays) for name, inner in value.items()}}
    if isinstance(value, list | tuple):
        return [_formed(inner, arrays) for inner in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def _unformed(form: Any, arrays: Sequence[np.ndarray]) -> Any:
    if isinstance(form, list):
        return [_unformed(inner, arrays) for inner in form]
    if not isinstance(form, dict):
        return form
    if "float" in form:
        return struct.unpack("<d", bytes.fromhex(form["float"]))[0]
    if "dict" in form:
        return {name: _unformed(inner, arrays) for name, inner in form["dict"].items()}
    flat = arrays[form["array"]]
    return flat.view(np.dtype(form["dtype"])).reshape(form["shape"]).astype(np.dtype(form["dtype"]).newbyteorder("="))


# -- which work it is: a fingerprint of model, settings, data and versions ----------------------------------


def fingerprint(model: Any, given: Sequence[Any]) -> dict[str, Any]:
    """What has to be the same, in parts: each name with a digest, and of settings with what a reader can tell by. A
    name may stand for work that is no model's."""
    name, settings = (model, {}) if isinstance(model, str) else (type(model).__name__, model.get_params(deep=True))
    settings = {name: value for name, value in settings.items() if name.split("__")[-1] not in ASIDE}
    versions = {"kinfolk": LIBRARY_VERSION} | {name: metadata.version(name) for name in PACKAGES}
    return {
        "model": {"class": [name, name]},
        "setting": {name: [repr(value)[:80], digest(value)] for name, value in settings.items()},
        "version": {name: [version, version] for name, version in versions.items()},
        "data": {"all": ["", digest(given)]},
    }


def learned(model: Any) -> tuple[Any, ...]:
    """What a trained model answers by, to be given to a run of its answers."""
    state = model.to_state()
    return _answering(state.header), state.arrays, state.strings


def _answering(header: Any) -> Any:
    if isinstance(header, Mapping):
        return {name: _answering(value) for name, value in header.items() if name not in ASIDE}
    return [_answering(value) for value in header] if isinstance(header, list | tuple) else header


def differences(part: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not as it was, a line each."""
    if part == "data":
        return [] if before == now else ["the data are not those it was begun with"]
    names = [name for name in {**before, **now} if before.get(name, ["", ""])[1] != now.get(name, ["", ""])[1]]
    shown = {name: [of.get(name, ["absent"])[0] for of in (before, now)] for name in names}
    what = "" if part == "model" else f"{part} "
    return [f"{what}{name} was {was}, and is {now}" for name, (was, now) in shown.items()]


def check_seed(model: Any) -> None:
    """A run that is drawn anew each time cannot go on."""
    seeds = {"": model} | {name: one for name, one in model.get_params(deep=True).items() if hasattr(one, "DECLARED")}
    for one in seeds.values():
        if getattr(one, "random_state", 0) is None:
            raise SettingError("random_state", None, "a number for a run with a checkpoint", owner=type(one).__name__)


def digest(value: Any) -> str:
    """SHA-256 of what a value says: arrays, tables, texts, settings, and objects by their class and fields."""
    sha = hashlib.sha256()
    _feed(sha, value, set())
    return sha.hexdigest()


def _feed(sha: Any, value: Any, above: set[int]) -> None:
    """`above`: those that the value is a part of, should one be a part of itself."""

    def tell(kind: str, *words: Any) -> None:
        sha.update(f"<{kind} {words!r}>".encode("utf-8", "surrogatepass"))

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | range):
        tell(type(value).__name__, value)
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
        tell("array", value.dtype.str, value.shape)
        sha.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif isinstance(value, type):
        tell("type", value.__module__, value.__qualname__)
    elif isinstance(value, list | tuple) and value and all(type(one) is str for one in value):
        tell("texts", len(value))
        lengths = np.fromiter(map(len, value), np.int64, len(value))
        sha.update(lengths.tobytes() + "".join(value).encode("utf-8", "surrogatepass"))
    elif id(value) in above:
        tell("above")
    else:
        kind, parts = _parts(value)
        tell(kind, len(parts))
        for part in parts:
            _feed(sha, part, above | {id(value)})


def _parts(value: Any) -> tuple[str, list[Any]]:
    """Its kind, and the parts that make it up; an object may tell them itself, by a method `told`."""
    home = f"{type(value).__module__}.{type(value).__qualname__}"
    if not isinstance(value, type) and hasattr(value, "told"):
        return home, [value.told()]
    if isinstance(value, np.ndarray):  # of objects
        return "objects", [value.shape, value.ravel().tolist()]
    if sparse.issparse(value):
        table = sparse.csr_array(value)
        return "sparse", [table.shape, table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data]
    if isinstance(value, Mapping):
        return "mapping", [part for pair in value.items() for part in pair]
    if isinstance(value, Set):
        return "set", sorted(map(digest, value))
    if isinstance(value, list | tuple):
        return "list", list(value)
    if isinstance(value, re.Pattern):
        return "pattern", [value.pattern, value.flags]
    if isinstance(value, partial):
        return "partial", [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return "method", [value.__func__, value.__self__]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return "function", [value.__module__, value.__qualname__, value.__code__, value.__defaults__, cells]
    if isinstance(value, types.CodeType):
        return "code", [value.co_code, value.co_names, value.co_consts]
    if hasattr(value, "get_params"):
        return home, [{name: one for name, one in value.get_params(deep=False).items() if name not in ASIDE}]
    if is_dataclass(value):
        return home, [getattr(value, one.name, None) for one in fields(value)]
    if any("__reduce__" in vars(one) for one in type(value).__mro__[:-1]):  # how it is copied
        made = value.__reduce__()
        return home, [made if isinstance(made, str) else list(made[1:3])]
    if hasattr(value, "__dict__"):
        return home, [vars(value)]
    return home, [] if " at 0x" in repr(value) else [repr(value)]
