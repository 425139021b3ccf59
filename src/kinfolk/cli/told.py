"""What the library and scikit-learn say, told in the words of a shell, a line each.

The library speaks of settings (folds=3), a shell of options (--folds 3).
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from kinfolk.cli.options import option_name
from kinfolk.errors import InputError, KinfolkError, ModelFileError, SettingError

log = logging.getLogger("kinfolk")

# A setting with its value; not after a bracket, where it is an argument in code
_SETTING = re.compile(r"(?<![\w(.])([a-z][a-z_0-9]*)=(?:'([^']*)'|(\d+)\b|True\b|\.\.\.|\[[^]]*\]|\{[^}]*\})")
_TRUSTED = re.compile(r"name them: load_model\(path, trusted=\[(.*)\]\)")


@contextmanager
def in_options(*known: str) -> Iterator[None]:
    """Errors of the library with settings of these names told as options."""
    try:
        yield
    except KinfolkError as error:
        told = _SETTING.sub(lambda found: _as_option(found, known), str(error))
        told = _TRUSTED.sub(lambda found: f"say {_as_trust(found[1])}", told)
        if told == str(error):
            raise
        kind = next((k for k in (SettingError, ModelFileError) if isinstance(error, k)), InputError)
        raise kind(told) from error


def _as_option(found: re.Match[str], known: tuple[str, ...]) -> str:
    name, word, number = found.groups()
    if name not in known:
        return found[0]
    value = word or number
    return option_name(name) + (f" {value}" if value else "")


def _as_trust(types: str) -> str:
    return " ".join(f"--trust {name}" for name in re.findall(r"'([^']*)'", types))


@contextmanager
def told_by_the_base(model: Any) -> Iterator[None]:
    """What the scikit-learn base of a model refuses is a mistake like any other, told in its own words."""
    try:
        yield
    except KinfolkError:
        raise
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        base = getattr(model, "base", None)
        if base is None:
            raise
        log.debug("%s failed", type(base).__name__, exc_info=True)
        raise InputError(f"the base {type(base).__name__} refuses: {_one_line(error)}") from error


@contextmanager
def counted_warnings() -> Iterator[None]:
    """Warnings at the end, each once and in a line, however many models of a stack gave them."""
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield
        finally:
            counts = Counter(_one_line(one.message) for one in caught)
    for text, number in counts.items():
        typer.echo(f"warning: {text}" + (f" ({number} times)" if number > 1 else ""), err=True)


def _one_line(message: object) -> str:
    """The first paragraph."""
    return " ".join(str(message).strip().split("\n\n")[0].split())
