"""What kinfolk raises when the fault lies in what it was given.

Every message says what was expected, what came, and what to do about it; a setting stands in backticks, `folds=3`. The
command line shows the message alone, with options in the place of settings, and exits with status 2; a program can
catch `KinfolkError` and be sure it is not a bug.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any, Self, cast


class KinfolkError(Exception):
    """Any error whose cause is the input, a setting or a file, not the library."""


class InputError(KinfolkError, ValueError):
    """Data that cannot be used. Carries the file and line when they are known."""

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        place = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(place + message)
        self.path = path
        self.line = line


class SettingError(KinfolkError, ValueError):
    """A setting of a model or a reader with a value outside what it accepts.

    setting, owner   its name, and the class whose it is if that is not plain
    value            what was given
    expected         what it must be, as the end of a sentence
    remedy           what to do
    """

    setting, value, expected, remedy, owner = "", cast(Any, None), "", "", ""

    def __init__(self, setting: str, value: Any, expected: str, remedy: str = "", owner: str = "") -> None:
        self.setting, self.value, self.expected, self.remedy, self.owner = setting, value, expected, remedy, owner
        named = f"{owner}({setting}=...)" if owner else setting
        super().__init__(f"{named} {self.wanted}")

    @property
    def wanted(self) -> str:
        """The message without the name of the setting."""
        return f"must be {self.expected}; got {self.value!r}" + (f"; {self.remedy}" if self.remedy else "")

    @classmethod
    def saying(cls, message: str) -> Self:
        """Of settings that do not go together, or of an expression that cannot be read."""
        error = cls.__new__(cls)
        error.args = (message,)
        return error


class ModelFileError(KinfolkError):
    """A model file that is missing, truncated, altered, too new, or could not be written."""


class UntrustedError(ModelFileError):
    """A model file with types that are only loaded when they are named, because a forged one could do harm."""

    def __init__(self, what: str, types: Sequence[str]) -> None:
        super().__init__(f"{what}. If you trust the file, name them: `load_model(path, trusted={[*types]!r})`")
        self.what, self.types = what, types


class CheckpointError(KinfolkError):
    """A checkpoint of other work, one that is damaged, or one that cannot be written."""


class NotFittedError(KinfolkError, ValueError, AttributeError):
    """Asked to predict before `fit` or before a model was loaded."""


class ConvergenceWarning(UserWarning):
    """Training that stopped for another reason than having reached its tolerance; messages that did not settle, or sums
    over orders that are not exact, when something was predicted."""


class DataWarning(UserWarning):
    """Data that could be used, though not quite as they stood, or not as they may have been meant."""


class SettingWarning(UserWarning):
    """A setting that is taken and has no effect, or another than its name says; the message says what is done."""


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be written while work goes on; what was written before still stands."""


class GainWarning(UserWarning):
    """A collective model that is worse than its local model on its training data, cross-fitted, or the same, or not
    shown to beat it; or whose gain cannot be measured as it was asked for."""


def warn(message: str, category: type[Warning]) -> None:
    """A warning at the line outside this library that led to it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "kinfolk":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
