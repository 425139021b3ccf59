"""What kinfolk raises when the fault lies in what it was given.

Every message says what was expected, what came, and what to do about it. The command line shows the
message alone and exits with status 2; a program can catch `KinfolkError` and be sure it is not a bug.
"""

from __future__ import annotations

import sys
import warnings


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
    """A setting of a model or a reader with a value outside what it accepts."""


class ModelFileError(KinfolkError):
    """A model file that is missing, truncated, altered, too new, or could not be written."""


class NotFittedError(KinfolkError, ValueError, AttributeError):
    """Asked to predict before `fit` or before a model was loaded."""


class ConvergenceWarning(UserWarning):
    """Training stopped for another reason than having reached its tolerance."""


class DataWarning(UserWarning):
    """Data that could be used, though not quite as they stood, or not as they may have been meant."""


def warn(message: str, category: type[Warning]) -> None:
    """A warning at the line outside this library that led to it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "kinfolk":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
