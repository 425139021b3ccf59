"""The arrows between the packages, read off the imports, and the habits every module keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "kinfolk"
MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))

EVERYWHERE = {"errors", "kernels", "memory", "threads"}
ALL = {"data", "io", "features", "inference", "learning", "models", "metrics", "explain", "experiments", "cli"}
# What a package may import of the others. Its own modules and EVERYWHERE always are; "" is kinfolk itself.
ARROWS = {
    "data": set(),
    "io": {"data"},
    "features": {"data"},
    "inference": set(),
    "learning": set(),
    "metrics": set(),
    "explain": set(),
    "models": {"data", "io", "features", "inference", "learning", "metrics", "explain"},
    "experiments": ALL - {"cli"} | {""},
    "cli": ALL | {""},
}
GLOBAL_RANDOM = {"default_rng", "Generator", "SeedSequence", "BitGenerator", "PCG64"}  # the rest is global state


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((SOURCE / module).read_text(encoding="utf-8"), module)


def package_of(module: str) -> str:
    """The layer a module is in; "" for those beside the packages."""
    return module.split("/")[0] if "/" in module else ""


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every imported module, absolute, wherever the statement stands; `from a import b` may name module a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are written in full"
            yield node, node.module or ""
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def siblings(module: str) -> set[str]:
    """Packages and top-level modules of kinfolk that a module imports; "" for names of kinfolk itself."""
    known = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py"} | ALL
    found = set()
    for _, name in imports(parsed(module)):
        if name.split(".")[0] == "kinfolk" and "." in name:
            second = name.split(".")[1]
            found.add(second if second in known else "")
    return found


def test_every_package_has_its_place():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages <= set(ARROWS), "a new package needs its arrows in this test"
    assert len(MODULES) > 40, "the modules were not found"


@pytest.mark.parametrize("module", [m for m in MODULES if package_of(m)])
def test_imports_follow_the_arrows(module: str):
    own = package_of(module)
    assert siblings(module) - {own} - EVERYWHERE <= ARROWS[own]


@pytest.mark.parametrize("module", ["errors.py", "kernels.py", "memory.py", "threads.py"])
def test_what_everyone_imports_imports_no_package(module: str):
    assert siblings(module) <= EVERYWHERE


def test_the_public_face_names_each_home_truly():
    """The lazy table and the names for type checkers say the same."""
    import kinfolk

    told = {
        alias.asname: (node.module, alias.name)
        for node in ast.walk(parsed("__init__.py"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kinfolk.")
        for alias in node.names
    }
    assert told == {name: (f"kinfolk.{home}", name) for name, home in kinfolk._HOME.items()}


@pytest.mark.parametrize("module", MODULES)
def test_no_drawer_for_odds_and_ends(module: str):
    assert Path(module).stem not in {"utils", "util", "misc", "common", "base", "helpers", "helper", "tools"}


@pytest.mark.parametrize("module", MODULES)
def test_modules_say_what_they_are_for(module: str):
    assert module.endswith("__init__.py") or ast.get_docstring(parsed(module)), "a module says what it is for"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_prints(module: str):
    calls = [node.func for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)]
    assert not [f.lineno for f in calls if isinstance(f, ast.Name) and f.id == "print"]


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_pickled(module: str):
    found = imports(parsed(module))
    roots = {name.split(".")[0] for _, name in found}
    assert roots.isdisjoint({"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"})
    for node in ast.walk(parsed(module)):  # joblib runs things in parallel; what it writes is pickled
        if isinstance(node, ast.ImportFrom) and node.module == "joblib":
            assert {name.name for name in node.names} <= {"Parallel", "delayed"}
        assert not (isinstance(node, ast.Import) and any(name.name.split(".")[0] == "joblib" for name in node.names))


@pytest.mark.parametrize("module", MODULES)
def test_no_global_random_state(module: str):
    roots = {name for _, name in imports(parsed(module))}
    assert "random" not in roots
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            owner = node.value
            if owner.attr == "random" and isinstance(owner.value, ast.Name) and owner.value.id in {"np", "numpy"}:
                assert node.attr in GLOBAL_RANDOM, f"line {node.lineno}: np.random.{node.attr}"


@pytest.mark.parametrize("module", MODULES)
def test_scikit_learn_is_imported_only_where_it_is_used(module: str):
    """It costs a second at the start of every program, and most programs need none of it."""
    outer = {node for node in ast.walk(parsed(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    inside = {id(node) for function in outer for node in ast.walk(function)}
    at_module_level = [name for node, name in imports(parsed(module)) if id(node) not in inside]
    assert not [name for name in at_module_level if name.split(".")[0] in {"sklearn", "skops"}]


@pytest.mark.parametrize("module", [module for module in MODULES if module != "kernels.py"])
def test_kernels_are_compiled_in_one_place(module: str):
    """Which knows where they are kept, and tells before the first is compiled."""
    assert "numba" not in {name.split(".")[0] for _, name in imports(parsed(module))}
