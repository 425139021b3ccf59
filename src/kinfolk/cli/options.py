"""Options that several commands have, kept together in one dataclass and spread over each command."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, get_type_hints

from kinfolk.errors import SettingError


def option_name(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def given_settings(group: Any) -> dict[str, Any]:
    """Field -> value of the options that were given: the others are None, or an empty list."""
    values = {one.name: getattr(group, one.name) for one in fields(group)}
    return {name: value for name, value in values.items() if value is not None and value != []}


def given_options(group: Any) -> dict[str, Any]:
    """Option -> value of those that were given."""
    return {option_name(name): value for name, value in given_settings(group).items()}


def refuse_overwriting(
    out: str | Path, option: str, *files: str | Path | None, what: str = "a file that this command reads or writes"
) -> None:
    """An output that is one of these files would destroy it; "-" is standard input or output, and no file."""
    named = [os.path.realpath(file) for file in files if file is not None and str(file) != "-"]
    if str(out) != "-" and os.path.realpath(out) in named:
        raise SettingError(f"{option} {out} would overwrite {what}: name another")


def names_in(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Completion of an option whose words the library checks."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]  # the name is typer's


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of a dataclass, each an option, in the place of a parameter of that type.

    An option that two of them have is one option, and both are given its value.
    """
    groups: dict[str, Any] = {}
    listed: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if not is_dataclass(one.annotation):
            listed.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[one.name] = one.annotation
        types = get_type_hints(one.annotation, include_extras=True)
        known = {parameter.name for parameter in listed}
        listed += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
            for f in fields(one.annotation)
            if f.name not in known
        ]

    @wraps(command)
    def called(**given: Any) -> None:
        built = {name: kind(**{f.name: given[f.name] for f in fields(kind)}) for name, kind in groups.items()}
        spent = {f.name for kind in groups.values() for f in fields(kind)}
        command(**{name: value for name, value in given.items() if name not in spent}, **built)

    called.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in listed}
    return called
