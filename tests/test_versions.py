"""One version in every place that names it, and bounds of dependencies that are those tested (`make test-lowest`)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import kinfolk as kf

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BOUND = re.compile(r"(?P<name>[\w.-]+)(?:\[\w+\])?>=(?P<version>[\d.]+)")


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return {name.lower(): version for name, _, version in (line.partition("==") for line in lines if "==" in line)}


def bounds(needed: list[str]) -> dict[str, str]:
    return {found["name"].lower(): found["version"] for found in map(BOUND.match, needed) if found}


def test_one_version_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {kf.__version__}\n" in citation
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None and newest[1] == kf.__version__
    assert PROJECT["dynamic"] == ["version"], "pyproject.toml takes it from kinfolk.__version__"


def test_every_dependency_has_a_lower_bound_which_is_tested() -> None:
    told = bounds(PROJECT["dependencies"])
    assert len(told) == len(PROJECT["dependencies"]), "each is written name>=version"
    lowest = pins("constraints-lowest.txt")
    assert {name: lowest.get(name) for name in told} == told


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_bounds_of_extras_are_those_tested(extra: str) -> None:
    lowest = pins("constraints-lowest.txt")
    told = bounds(PROJECT["optional-dependencies"][extra])
    assert [name for name in told if lowest.get(name, told[name]) != told[name]] == []


def test_what_make_installs_is_not_below_the_bounds() -> None:
    used = pins("constraints.txt")
    for name, bound in bounds(PROJECT["dependencies"]).items():
        assert number(used[name]) >= number(bound), name


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
