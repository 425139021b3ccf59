"""The index of a data frame of pandas, where what is given goes by the order of its rows.

A frame that was sorted, sampled or filtered keeps the numbers its rows had: these then say that the order is another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.errors import InputError


def is_frame(given: Any) -> bool:
    """Whether it is a data frame, of whatever library."""
    return hasattr(given, "columns") and hasattr(given, "to_numpy")


def index_of(frame: Any) -> Any:
    """The index of a data frame; None where there is none."""
    index = getattr(frame, "index", None) if hasattr(frame, "columns") else None
    return None if callable(index) else index


def is_plain(index: Any) -> bool:
    """Whether it only numbers the rows, as that of a new frame does."""
    ranged = type(index).__name__ == "RangeIndex" and index.name is None
    return ranged and (index.start, index.step) == (0, 1)


def refuse_other_order(given: Any, what: str) -> None:
    """Refuse a data frame whose rows are numbered, but not from 0 on in order; in a list of such, each a part of one,
    numbers have to rise. `what` it holds, a row a token."""
    parts = given if isinstance(given, list | tuple) else [given]
    for number, part in enumerate(parts):
        index = index_of(part)
        if index is None or getattr(getattr(index, "dtype", None), "kind", "O") not in "iu":
            continue
        rows = np.asarray(index)
        in_order = (np.diff(rows) > 0).all() if part is not given else (rows == np.arange(len(rows))).all()
        if not in_order:
            which = f"data frame {number} of {what}" if part is not given else f"the data frame of {what}"
            raise InputError(
                f"the index of {which} goes {', '.join(map(str, rows[:5].tolist()))}{', ...' * (len(rows) > 5)}, and "
                "rows are taken in the order of the tokens: put them in it, by frame.sort_index() where the index "
                "numbers the tokens, then frame.reset_index(drop=True)"
            )
