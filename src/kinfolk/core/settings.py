"""Settings the way scikit-learn keeps them: arguments of `__init__`, stored untouched under their own names.

Each is declared once, in its class, `l2: float = setting(0.1, "strength of the ridge", NUMBER)`: that is its default,
its line in the docstring, its check when `fit` is called, a file is loaded or an answer is asked for, and its option in
the shell.

`get_params`, `set_params`, `sklearn.base.clone`, pipelines and grids work, and notebooks show models as they show those
of scikit-learn; which itself is not imported for it: that would cost every start of the program most of a second.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, field
from numbers import Integral, Real
from textwrap import fill
from typing import Any, ClassVar, Self

from kinfolk.errors import NotFittedError, SettingError

# -- what a setting may be ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """What a setting may be: as the end of a sentence, as a check, and of what type a shell reads it, None: not at all.
    `words` are those there are."""

    expected: str
    holds: Callable[[Any], bool]
    reads: type | None = None
    words: tuple[str, ...] = ()

    def check(self, setting: str, value: Any, owner: str = "") -> None:
        """Raise a SettingError for a value it does not hold of."""
        if not self.holds(value):
            raise SettingError(setting, value, self.expected, owner=owner)

    def __or__(self, other: Rule) -> Rule:
        mine, others = self.holds, other.holds
        listed = ", ".join(map(repr, self.words)) + " or " if self.words else f"{self.expected}, or "
        reads = self.reads if self.reads in (int, float) else other.reads or self.reads
        return Rule(
            listed + other.expected, lambda value: mine(value) or others(value), reads, self.words + other.words
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)  # numpy's numbers too


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def whole(least: int) -> Rule:
    return Rule(f"a whole number of {least} or more", lambda value: _is_int(value) and value >= least, int)


def whole_to(least: int, most: int) -> Rule:
    holds = whole(least).holds
    return Rule(f"a whole number from {least} to {most}", lambda value: holds(value) and value <= most, int)


def number(least: float, most: float, below: bool = False) -> Rule:
    """From the least to the most, or to below it."""
    limits = f"a number from {least:g} to {'below ' if below else ''}{most:g}"
    return Rule(limits, lambda v: _is_number(v) and (least <= float(v) < most or (v == most and not below)), float)


def one_of(*words: str) -> Rule:
    listed = " or ".join(filter(None, [", ".join(map(repr, words[:-1])), repr(words[-1])]))
    return Rule(listed, lambda value: isinstance(value, str) and value in words, str, words)


def an_object(expected: str, *kinds: type) -> Rule:
    """Something only Python can give."""
    return Rule(expected, lambda value: isinstance(value, kinds or object))


NONE = Rule("None", lambda value: value is None)
FLAG = Rule("True or False", lambda value: isinstance(value, bool), bool)
MOST_REPEATS = 100_000  # of what an answer takes: a file that asks for a billion would never answer
MANY = whole_to(1, MOST_REPEATS)
LARGEST, SMALLEST = 1e12, 1e-12  # beyond them weights in single precision lose all meaning
ZERO = Rule("0", lambda value: _is_number(value) and value == 0, float)
NOT_NEGATIVE = ZERO | number(SMALLEST, LARGEST)
JOBS = Rule("a positive number, or -1 for every core", lambda v: v is None or v == -1 or (_is_int(v) and v >= 1), int)
VERBOSE = Rule("a whole number", lambda value: value is None or isinstance(value, Integral))
NAMES = Rule("a list of names", lambda v: isinstance(v, list | tuple) and all(isinstance(name, str) for name in v))
SCHEMES = ("IOB1", "BIO", "IOBES", "BILOU")  # ways to write spans as tags


# -- declarations ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Declared:
    """What stands beside a setting; `in_file` says whether a model file keeps it as it is, or what it became."""

    default: Any
    help: str
    rule: Rule | None
    in_file: bool


def setting(
    default: Any, help: str, rule: Rule | None = None, in_file: bool = True, kw_only: bool | None = None
) -> Any:
    """A field of a dataclass that is a setting. Without a rule its meaning is checked where it is used. `kw_only`: None
    leaves to the class whether it is given by name alone."""
    alone: Any = {} if kw_only is None else {"kw_only": kw_only}
    return field(default=default, metadata={"declared": Declared(default, help, rule, in_file)}, **alone)


class Settings:
    """Mixin: the arguments of `__init__` are the settings; what `fit` learns ends in an underscore."""

    DECLARED: ClassVar[Mapping[str, Declared]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Collects what is declared in the class and above it, and adds a table of it to the docstring."""
        super().__init_subclass__(**more)
        own = {name: value.metadata for name, value in vars(cls).items() if isinstance(value, Field)}
        found = {name: facts["declared"] for name, facts in own.items() if "declared" in facts}
        for base in cls.__mro__[1:]:
            found |= {name: one for name, one in vars(base).get("DECLARED", {}).items() if name not in found}
        cls.DECLARED = found
        if cls.DECLARED:
            width = max(map(len, cls.DECLARED)) + 2
            lines = [_line(name, one, width) for name, one in cls.DECLARED.items()]
            cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), "", "Settings", "--------", *lines])

    @classmethod
    def _setting_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings; with `deep` those of models among them too, as base__C."""
        found = {name: getattr(self, name) for name in self._setting_names()}
        inner = {name: value for name, value in found.items() if deep and hasattr(value, "get_params")}
        for name, value in inner.items():
            if not isinstance(value, type):
                found.update({f"{name}__{key}": setting for key, setting in value.get_params(deep=True).items()})
        return found

    def set_params(self, **settings: Any) -> Self:
        known = self._setting_names()
        for name, value in settings.items():
            outer, _, inner = name.partition("__")
            if outer not in known or (inner and not hasattr(getattr(self, outer), "set_params")):
                raise SettingError.saying(f"{type(self).__name__} has no setting {name!r}; it has: {', '.join(known)}")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        # Not "classifier": cross-validation would try to stratify by sequences of labels, and fail.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, string=True, dict=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Should learning fail or be interrupted, the model stays what it was."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _require_fitted(self) -> None:
        """Before every answer: the model is trained, and settings that were changed since are what they may be."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit, or load a model file")
        check_settings(self)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{n}={v!r}" for n, v in self.get_params(deep=False).items() if repr(v) != repr(defaults[n].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str | None:
        """How a notebook shows the model: the diagram that scikit-learn draws of its own, which escapes all text.

        None, so that the notebook prints `repr`, where scikit-learn was told so: `set_config(display="text")`.
        """
        from sklearn import get_config
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self)) if get_config()["display"] == "diagram" else None

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """All forms at once, for notebooks that choose."""
        html = self._repr_html_()
        return {"text/plain": repr(self), **({} if html is None else {"text/html": html})}


def _line(name: str, one: Declared, width: int) -> str:
    """A setting in the table of a docstring."""
    default = "" if one.default is None else f" (default: {one.default!r})"
    text = f"{name.ljust(width)}{one.help}{default}"
    return fill(text, 110, subsequent_indent=" " * width, break_long_words=False, break_on_hyphens=False)


def check_settings(model: Settings) -> None:
    """Raise a SettingError for the first setting outside its range."""
    for name, one in model.DECLARED.items():
        if one.rule is not None:
            one.rule.check(name, getattr(model, name), type(model).__name__)
