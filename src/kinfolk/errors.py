"""What kinfolk raises when the fault lies in what it was given.

Every message says what was expected, what came, and what to do about it. The command line shows the
message alone and exits with status 2; a program can catch `KinfolkError` and be sure it is not a bug.
"""

from __future__ import annotations


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
