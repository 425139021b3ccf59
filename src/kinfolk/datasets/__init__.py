"""Generated data, and readers of single research corpora."""

from __future__ import annotations

from math import inf
from numbers import Integral

from kinfolk.errors import SettingError


def checked_number(name: str, value: float, most: float = inf, whole: bool = False) -> float:
    """A setting of what is generated: a number from 0 to `most`."""
    if not 0 <= value <= most or (whole and not isinstance(value, Integral)):
        limits = f"from 0 to {most:,g}" if most < inf else "from 0 on"
        raise SettingError(name, value, f"{'a whole number' if whole else 'a number'} {limits}")
    return value
