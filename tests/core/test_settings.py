"""A setting is declared once: what is made of the declaration."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core.settings import FLAG, NONE, NOT_NEGATIVE, Settings, check_settings, number, one_of, setting, whole
from kinfolk.errors import SettingError

MODELS = [
    kf.MaxEnt, kf.MEMM, kf.LinearChainCRF, kf.SkipChainCRF, kf.MixtureTagger, kf.StackedTagger, kf.MixtureNodes,
    kf.StackedNodes, kf.DependencyNetwork, kf.LinkModel, kf.Linker, kf.SingleLink, kf.AverageLink, kf.BestLink,
    kf.OneToMany,
]  # fmt: skip


@dataclass(eq=False, repr=False)
class Above(Settings):
    """Abstract."""

    rate: float = setting(0.5, "a share", number(0, 1, below=True))
    size: int | None = setting(None, "a limit; None: no limit", whole(1) | NONE)


@dataclass(eq=False, repr=False)
class Below(Above):
    """What a reader sees first."""

    kind: str = setting("a", "a word", one_of("a", "b", "c"))
    rate: float = setting(0.25, "another share", number(0, 1))
    fast: bool = setting(False, "whether it is fast", FLAG)
    base: Any = setting(None, "an object", in_file=False)


def test_a_class_has_its_own_declarations_and_those_above():
    assert list(Below.DECLARED) == ["kind", "rate", "fast", "base", "size"]
    assert Below.DECLARED["rate"].default == 0.25 and Above.DECLARED["rate"].default == 0.5
    assert Below().get_params() == {"rate": 0.25, "size": None, "kind": "a", "fast": False, "base": None}
    assert [name for name, one in Below.DECLARED.items() if not one.in_file] == ["base"]


def test_the_docstring_ends_with_the_table():
    first, _, table = (Below.__doc__ or "").partition("\n\nSettings\n--------\n")
    assert first == "What a reader sees first."
    assert table.splitlines() == [
        "kind  a word (default: 'a')",
        "rate  another share (default: 0.25)",
        "fast  whether it is fast (default: False)",
        "base  an object",
        "size  a limit; None: no limit",
    ]


@pytest.mark.parametrize(("given", "expected"), [
    ({"rate": 1.5}, "Below(rate=...) must be a number from 0 to 1; got 1.5"),
    ({"rate": True}, "Below(rate=...) must be a number from 0 to 1; got True"),
    ({"rate": float("nan")}, "Below(rate=...) must be a number from 0 to 1; got nan"),
    ({"size": 0}, "Below(size=...) must be a whole number of 1 or more, or None; got 0"),
    ({"size": 1.0}, "Below(size=...) must be a whole number of 1 or more, or None; got 1.0"),
    ({"kind": "d"}, "Below(kind=...) must be 'a', 'b' or 'c'; got 'd'"),
    ({"kind": ["a"]}, "Below(kind=...) must be 'a', 'b' or 'c'; got ['a']"),
    ({"fast": 1}, "Below(fast=...) must be True or False; got 1"),
], ids=str)  # fmt: skip
def test_the_check_names_setting_value_and_rule(given: dict[str, Any], expected: str):
    with pytest.raises(SettingError) as caught:
        check_settings(Below(**given))
    error, (name, value) = caught.value, next(iter(given.items()))
    assert str(error) == expected and (error.setting, error.owner) == (name, "Below")
    assert error.value is value and error.expected in expected


@pytest.mark.parametrize(
    "given", [{"rate": 1}, {"rate": np.float32(0.5)}, {"size": np.int64(3)}, {"kind": "c"}], ids=str
)
def test_what_may_be_is_let_through(given: dict[str, Any]):
    check_settings(Below(**given))


def test_rules_joined():
    assert (whole(1) | one_of("auto")).expected == "a whole number of 1 or more, or 'auto'"
    assert (one_of("auto", "BIO") | NONE).expected == "'auto', 'BIO' or None"
    assert NOT_NEGATIVE.expected == "0, or a number from 1e-12 to 1e+12" and NOT_NEGATIVE.reads is float
    assert (whole(2) | NONE).reads is int and (one_of("a") | whole(1)).reads is int


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_setting_of_a_model_is_declared_and_explained(model: Any):
    taken = [name for name in inspect.signature(model).parameters if name != "self"]
    assert sorted(taken) == sorted(model.DECLARED)
    for name, one in model.DECLARED.items():
        assert one.help and f"\n{name} " in model.__doc__, name
    check_settings(model())
