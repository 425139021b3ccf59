"""The arrows between the rooms, read off the imports, and the habits every module keeps."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "kinfolk"
MODULES = sorted(path.relative_to(SOURCE).with_suffix("").as_posix() for path in SOURCE.rglob("*.py"))

# What a room may import of the others; its own modules and errors always. A task's commands may import two modules
# of the command line, linking one of text.
COMMON = ("core",)
METHODS = (*COMMON, "inference", "learning")
TASK = (*METHODS, "collective", "report", "cli/options", "cli/output")
ALL = ("core", "inference", "learning", "collective", "text", "graph", "linking", "report", "engines", "datasets")
ARROWS = {
    "core": (),
    "inference": COMMON,
    "learning": COMMON,
    "collective": METHODS,
    "text": TASK,
    "graph": TASK,
    "linking": (*(room for room in TASK if room != "collective"), "text/corpus"),
    "report": COMMON,
    "engines": COMMON,
    "datasets": ("core", "text", "graph", "linking"),
    "papers": ALL,
    "cli": (*ALL, "papers"),
}
GLOBAL_RANDOM = {"default_rng", "Generator", "SeedSequence", "BitGenerator", "PCG64"}  # the rest is global state


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"), module)


@cache
def nodes(module: str) -> list[ast.AST]:
    return [*ast.walk(parsed(module))]


def imports(module: str) -> Iterator[tuple[ast.stmt, str]]:
    """Every imported module, absolute, wherever the statement stands; `from a import b` may name module a.b."""
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are written in full"
            yield node, node.module or ""
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def rooms_of(module: str) -> set[str]:
    """Modules of kinfolk that one imports, as room/module."""
    names = {name.replace(".", "/").removeprefix("kinfolk/") for _, name in imports(module)}
    return names & {*MODULES} - {module}


def breaches(module: str) -> list[str]:
    """The imports of a module that break an arrow."""
    room = module.partition("/")[0]
    if room not in ARROWS:
        return []
    allowed = {room, *ARROWS[room], "errors"}
    found = (name for name in rooms_of(module) if not {name, name.partition("/")[0]} & allowed)
    return [f"{module} -> {name}" for name in sorted(found)]


def faults(check: Callable[[str], object]) -> dict[str, object]:
    """What a check finds, by module."""
    return {module: found for module in MODULES if (found := check(module))}


def test_imports_follow_the_arrows():
    assert len(MODULES) > 40, "the modules were not found"
    assert {module.partition("/")[0] for module in MODULES if "/" in module} <= set(ARROWS), "a room without arrows"
    found = {breach for module in MODULES for breach in breaches(module)}
    assert not found, "arrows lead from tasks to methods to what is common"


def test_public_names_have_their_homes():
    """At the top and in the rooms of the tasks: the same objects."""
    import kinfolk

    rooms = (kinfolk, kinfolk.text, kinfolk.graph, kinfolk.linking)
    assert all(len(room.__all__) > 10 for room in rooms)
    for room in rooms:
        for name in {*room.__all__} - {"__version__", "text", "graph", "linking", "crfsuite"}:
            assert getattr(room, name) is getattr(kinfolk, name), name
            assert hasattr(importlib.import_module(room._HOMES[name]), name), name


def test_modules_have_a_subject_and_say_it():
    drawers = {"utils", "util", "misc", "common", "base", "helpers", "helper", "tools"}
    assert not [module for module in MODULES if Path(module).stem in drawers]
    assert not [module for module in MODULES if not ast.get_docstring(parsed(module))]


def test_nothing_prints():
    def prints(module: str) -> list[int]:
        calls = [node.func for node in nodes(module) if isinstance(node, ast.Call)]
        return [f.lineno for f in calls if isinstance(f, ast.Name) and f.id == "print"]

    assert not faults(prints)


def test_nothing_is_pickled():
    def pickles(module: str) -> list[str]:
        names = [name for _, name in imports(module)]
        kinds = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}
        parallel = {"joblib", "joblib.Parallel", "joblib.delayed"}  # what else of joblib writes is pickled
        strange = [name for name in names if name.split(".")[0] == "joblib" and name not in parallel]
        return strange + [name for name in names if name.split(".")[0] in kinds]

    assert not faults(pickles)


def test_no_global_random_state():
    def random(module: str) -> list[str]:
        found = [name for _, name in imports(module) if name == "random"]
        for node in nodes(module):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                owner = node.value
                if owner.attr == "random" and isinstance(owner.value, ast.Name) and owner.value.id in {"np", "numpy"}:
                    found += [f"line {node.lineno}: np.random.{node.attr}"] * (node.attr not in GLOBAL_RANDOM)
        return found

    assert not faults(random)


def test_scikit_learn_is_imported_only_where_it_is_used():
    """It costs a second at the start of every program, and most programs need none of it."""

    def at_start(module: str) -> list[str]:
        asked = [(node, name) for node, name in imports(module) if name.split(".")[0] in {"sklearn", "skops"}]
        outer = [node for node in nodes(module) if asked and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {id(node) for function in outer for node in ast.walk(function)}
        return [name for node, name in asked if id(node) not in inside]

    assert not faults(at_start)


def test_kernels_are_compiled_in_one_place():
    """Which knows where they are kept, and tells before the first is compiled."""
    numba = faults(lambda module: "numba" in {name.split(".")[0] for _, name in imports(module)})
    assert list(numba) == ["core/kernels"]
