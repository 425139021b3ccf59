"""What the library and scikit-learn say, told in the words of a shell, a line each.

The library speaks of settings (folds=3), a shell of options (--folds 3).
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from kinfolk.cli.options import option_name
from kinfolk.errors import InputError, KinfolkError, ModelFileError, SettingError

log = logging.getLogger("kinfolk")

# A setting with its value; not after a bracket, where it is an argument in code
_SETTING = re.compile(r"(?<![\w(.])([a-z][a-z_0-9]*)=(?:'([^']*)'|(\d+)\b|True\b|\.\.\.|\[([^]]*)\]|\{[^}]*\})")
_TRUSTED = re.compile(r"name them: load_model\(path, trusted=\[(.*)\]\)")
_IN_A_SHELL = re.compile(r"\S+ \((--[a-z-]+) on the command line\)")  # forced=True (--known-ids on the command line)
_RAISE = re.compile(r"(?<=\bRaise )[a-z0-9_, ]+(?=\.)")  # advice after training that did not converge
RAISED = ("max_iterations", "tolerance", "damping", "max_rounds", "l2")


def in_shell_words(text: str, known: Collection[str], instead: Mapping[str, str] | None = None) -> str:
    """A message with settings of these names told as options; `instead`: words for settings that are none here."""
    told = _IN_A_SHELL.sub(r"\1", text)
    told = _SETTING.sub(lambda found: (instead or {}).get(found[1]) or _as_option(found, known), told)
    return _TRUSTED.sub(lambda found: f"say {_as_trust(found[1])}", told)


@contextmanager
def in_options(*known: str, **instead: str) -> Iterator[None]:
    """Errors of the library in the words of a shell; see `in_shell_words`."""
    try:
        yield
    except KinfolkError as error:
        told = in_shell_words(str(error), known, instead)
        if told == str(error):
            raise
        kind = next((k for k in (SettingError, ModelFileError) if isinstance(error, k)), InputError)
        raise kind(told) from error


def _as_option(found: re.Match[str], known: Collection[str]) -> str:
    name, word, number, inner = found.groups()
    if name not in known:
        return found[0]
    value = word or number or ",".join(re.findall(r"'([^']*)'", inner or ""))
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
def counted_warnings(*known: str) -> Iterator[None]:
    """Warnings at the end, each once and in a line, however many models of a stack gave them; settings of these names
    are told as options."""
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield
        finally:
            counts = Counter(_one_line(one.message) for one in caught)
    for text, number in counts.items():
        text = in_shell_words(text, known)
        text = _RAISE.sub(lambda found: " ".join(map(_raised, found[0].split(" "))), text)
        typer.echo(f"warning: {text}" + (f" ({number} times)" if number > 1 else ""), err=True)


def _raised(word: str) -> str:
    name = word.rstrip(",")
    return option_name(name) + word[len(name) :] if name in RAISED else word


def _one_line(message: object) -> str:
    """The first paragraph."""
    return " ".join(str(message).strip().split("\n\n")[0].split())


# -- what the library logs ----------------------------------------------------------------------------


class InShellWords(logging.Formatter):
    """Warnings are called so, and speak of options where the library speaks of settings."""

    def __init__(self, known: Collection[str]) -> None:
        super().__init__("%(message)s")
        self.known = known

    def format(self, record: logging.LogRecord) -> str:
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        return mark + in_shell_words(super().format(record), self.known)


def listen(context: typer.Context, verbose: bool) -> None:
    """From here on what is logged goes to standard error: warnings and, if wanted, everything."""
    name = context.invoked_subcommand or ""
    group = getattr(context.command, "commands", {}).get(name)
    commands = getattr(group, "commands", {name: group}).values()
    handler = logging.StreamHandler()  # of the standard error there is now
    handler.setFormatter(InShellWords({one.name for command in commands for one in getattr(command, "params", ())}))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[handler])
    logging.getLogger("numba").setLevel(logging.WARNING)  # it tells of every step of its compiler
    if verbose:
        level = log.level
        log.setLevel(logging.DEBUG)
        context.call_on_close(lambda: log.setLevel(level))


def is_verbose() -> bool:
    return log.isEnabledFor(logging.DEBUG)


@contextmanager
def hushed(*words: str) -> Iterator[None]:
    """Without the warnings of the library that hold one of these."""

    def wanted(record: logging.LogRecord) -> bool:
        return not any(one in record.getMessage() for one in words)

    log.addFilter(wanted)
    try:
        yield
    finally:
        log.removeFilter(wanted)
