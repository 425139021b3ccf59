"""Type checkers see the library: the marker is shipped, every public function is annotated, a user's program passes."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import kinfolk as kf

# What mypy learned of files that are still the same holds in the next run, which then takes a second.
CACHE = Path(__file__).parents[1] / ".mypy_cache" / "program"
PROGRAM = """
from __future__ import annotations

import kinfolk as kf

train, test = kf.newswire_split(4, 2)
crf: kf.LinearChainCRF = kf.LinearChainCRF(l2=0.5, n_jobs=1).fit(train)
labels: list[list[str]] = crf.predict(test)
score: float = crf.score(test)
entities, accuracy = crf.evaluate(test)
if entities is not None:
    print(entities.f1 + accuracy)
linker: kf.Linker = kf.Linker(blocking=["key(postcode)"]).fit(kf.generate_customers(10))
stacked = kf.StackedTagger(kf.LinearChainCRF(), depth=2).fit(train)
stacked.set_params(depth=1).save("m.kinfolk")
wrong: int = crf.predict(test)  # type: ignore[assignment]
also_wrong: str = kf.read_linqs("cora.content", "cora.cites")  # type: ignore[assignment]
kf.LinearChainCRF(no_such_setting=1)  # type: ignore[call-arg]
"""


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions, and methods and properties of classes, of the public names."""
    for name in kf.__all__:
        value = getattr(kf, name)
        if inspect.isfunction(value):
            yield name, value
        if not inspect.isclass(value):
            continue
        for attribute in dir(value):
            found: Any = inspect.getattr_static(value, attribute)
            found = getattr(found, "__func__", getattr(found, "fget", found))
            private = attribute.startswith("_") and attribute != "__init__"
            if not private and inspect.isfunction(found) and found.__module__.startswith("kinfolk"):
                yield f"{name}.{attribute}", found


def test_every_public_function_is_annotated():
    found = dict(public_functions())
    assert len(found) > 200 and "LinearChainCRF.fit" in found and "Corpus.n_tokens" in found
    bare = []
    for name, function in found.items():
        signature = inspect.signature(function)
        given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
        bare += [f"{name}({p.name})" for p in given if p.annotation is p.empty]
        bare += [f"{name} ->"] if signature.return_annotation is signature.empty else []
    assert bare == []


def test_the_marker_is_shipped():
    assert files("kinfolk").joinpath("py.typed").is_file()
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["kinfolk"]


def test_a_program_of_a_user_passes_a_strict_check(tmp_path: Path):
    """Its mistakes are seen too: a strict check complains of an `ignore` where there is nothing to ignore."""
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", CACHE, "program.py"],
        capture_output=True, text=True, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "Success: no issues found in 1 source file\n"), ran.stdout
