"""Settings of the chain models, checked when `fit` is called: what each may be, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from kinfolk.errors import SettingError
from kinfolk.text.schemes import SCHEMES


def _whole(least: int) -> tuple[str, Callable[[Any], bool]]:
    return f"a whole number of {least} or more", lambda v: _is_int(v) and v >= least


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)  # numpy's numbers too


def _one_of(*words: str) -> tuple[str, Callable[[Any], bool]]:
    return " or ".join(map(repr, words)), lambda v: isinstance(v, str) and v in words


LARGEST, SMALLEST = 1e12, 1e-12  # beyond them weights in single precision lose all meaning
_NOT_NEGATIVE = (
    f"0, or a number from {SMALLEST:g} to {LARGEST:g}",
    lambda v: isinstance(v, Real) and not isinstance(v, bool) and (v == 0 or SMALLEST <= float(v) <= LARGEST),
)
_YES_NO = ("True or False", lambda v: isinstance(v, bool))
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "l2": _NOT_NEGATIVE,
    "l1": _NOT_NEGATIVE,
    "tolerance": _NOT_NEGATIVE,
    "min_count": ("a whole number of 1 or more, or 'auto'", lambda v: v == "auto" or (_is_int(v) and v >= 1)),
    "scheme": (
        f"'auto', None or one of {', '.join(SCHEMES)}",
        lambda v: v is None or (isinstance(v, str) and v in ("auto", *SCHEMES)),
    ),
    "max_iterations": _whole(1),
    "patience": _whole(1),
    "dev_every": _whole(1),
    "constrain": _YES_NO,
    "warm_start": _YES_NO,
    "random_state": ("a whole number of 0 or more, or None", lambda v: v is None or (_is_int(v) and v >= 0)),
    "schedule": _one_of("sequential", "synchronous"),
    "damping": ("a number from 0 to below 1", lambda v: _NOT_NEGATIVE[1](v) and float(v) < 1),
    "max_rounds": _whole(1),
    "message_tolerance": (
        f"a number from {SMALLEST:g} to 1",
        lambda v: isinstance(v, Real) and not isinstance(v, bool) and SMALLEST <= float(v) <= 1,
    ),
    "gate_l2": _NOT_NEGATIVE,
    "gate_folds": ("0, or a whole number of 2 or more", lambda v: _is_int(v) and (v == 0 or v >= 2)),
    "relations": (
        "a list of names, or None for all",
        lambda v: v is None or (isinstance(v, list | tuple) and all(isinstance(name, str) for name in v)),
    ),
    "orders": _whole(1),
    "depth": _whole(0),
    "own": _YES_NO,
    "features": _YES_NO,
    "samples": _whole(1),
    "burn_in": _whole(0),
    "sweeps": _whole(1),
    "chains": _whole(1),
    "predict_orders": _whole(1),
    "everybody_starts": _YES_NO,
    "mixing": (
        "'uniform', 'learned', 'given' or a dict of shares by relation",
        lambda v: isinstance(v, Mapping) or v in ("uniform", "learned", "given"),
    ),
}


def check_settings(model: Any) -> None:
    """Raise a SettingError for the first setting outside its range."""
    for name, value in model.get_params().items():
        rule = _RULES.get(name)
        if name in type(model).CHOICES:
            rule = _one_of(*type(model).CHOICES[name])
        if rule is not None and not rule[1](value):
            raise SettingError(f"{type(model).__name__}({name}=...) must be {rule[0]}; got {value!r}")
