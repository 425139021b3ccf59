"""Where the reports of models go: one HTML file each."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kinfolk.core.files import write_utf8
from kinfolk.core.modelfile import check_writable
from kinfolk.errors import ModelFileError, SettingError
from kinfolk.report.page import Part, report_html

PathLike = str | os.PathLike[str]


def check_report(path: PathLike | None) -> None:
    """Fail before the work, not after it."""
    if path is None:
        return
    try:
        check_writable(path)
    except ModelFileError as error:  # a report is no model
        raise SettingError(str(error)) from None


def write_report(path: PathLike, title: str, parts: Sequence[Part], about: str = "") -> None:
    """`about` is a sentence under the title."""
    write_utf8(path, [report_html(title, parts, about)])
