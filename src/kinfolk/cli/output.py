"""What goes to standard output: tables, coloured on a terminal and plain in a pipe; and JSON.

A pipe gets text that `awk` can read: no colours, nothing wrapped or cut, whatever the width of the terminal.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """Head and rows. The first `words` columns are words, which begin below each other; the others end so."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def lines(self) -> Iterator[str]:
        """Columns as wide as their widest cell, two blanks between them."""
        cells = [self.head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = (
                cell.ljust(width) if i < self.words else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            yield "  ".join(padded).rstrip()


def show(told: Sequence[str], table: Table | None = None, plain: Iterable[str] | None = None) -> None:
    """Print lines, and a table below them. `plain`: its lines in a pipe, where they have a form of their own."""
    from kinfolk.core.files import write_utf8

    if table is None or not sys.stdout.isatty():
        below = [] if table is None else table.lines() if plain is None else plain
        write_utf8("-", [line + "\n" for line in [*told, *below]])
        return
    from rich.console import Console
    from rich.text import Text

    settings: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    console = Console(**settings)
    for line in told:
        console.print(Text(printable(line)))
    console.print(_coloured(table))


def show_json(answer: Mapping[str, Any] | list[Any]) -> None:
    """Print one JSON object, or a list of them. JSON has no NaN and no infinity: they become null."""
    from kinfolk.core.files import write_utf8

    write_utf8("-", [json.dumps(_finite(answer), indent=2, ensure_ascii=False), "\n"])


def _coloured(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i, name in enumerate(table.head):
        if i < table.words:
            rich.add_column(Text(printable(name)), style="cyan", overflow="fold")
        else:
            rich.add_column(Text(printable(name)), justify="right", overflow="fold")
    for row in table.rows:
        rich.add_row(*(Text(printable(cell)) for cell in row))  # Text: brackets in a label are no markup
    return rich


def printable(text: str) -> str:
    """Without what a terminal would obey: a label may hold anything."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
