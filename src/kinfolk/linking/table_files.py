"""Tables on disk, out as they came in: CSV with the delimiter it has, or Parquet; all columns, and some more."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinfolk.core.files import Source, checked_utf8, read_bytes, replace_file, write_utf8
from kinfolk.core.table import PARQUET_MAGIC, csv_table, divider_of, parquet_frame, written
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.cluster_files import csv_lines
from kinfolk.linking.records import DELIMITERS


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table of a file; `frame`: a dict of lists of strings (CSV) or an Arrow table (Parquet), as `opened` takes."""

    name: str
    frame: Any
    divider: str | None  # of CSV; None: Parquet

    @classmethod
    def read(cls, source: Source, delimiter: str | None = None) -> TableFile:
        data, name = read_bytes(source)
        if data.startswith(PARQUET_MAGIC):
            return cls(name, parquet_frame(data, name), None)
        text = checked_utf8(data, name)
        divider = divider_of(text, delimiter, DELIMITERS)
        table = csv_table(text, name, None, divider)
        columns = {column: [cell or "" for cell in written(make()) or ()] for column, make in table.columns.items()}
        return cls(name, columns, divider)

    def check_target(self, target: str) -> None:
        """Parquet is no text: it goes to a file, and a file that is named so gets it."""
        if self.divider is None and target == "-":
            raise SettingError.saying(
                f"{self.name} is a Parquet table, and so is the answer; name a file with --output"
            )
        if self.divider is not None and target.lower().endswith((".parquet", ".pq")):
            wrong = f"{self.name} is CSV, and so is the answer; got --output {target}"
            raise SettingError.saying(f"{wrong}: name it .csv, or give the records as Parquet")

    def rows(self, frame: Any) -> Iterator[Sequence[Any]]:
        """The rows of such a table."""
        columns = frame if self.divider is not None else frame.to_pydict()
        return zip(*columns.values(), strict=True)

    def write(self, target: str, frame: Any) -> None:
        """Another table of the same kind of file; `frame` is such as `self.frame`."""
        if self.divider is not None:
            rows = (map(_cell, row) for row in self.rows(frame))
            write_utf8(target, csv_lines(list(frame), rows, self.divider))
            return
        from pyarrow import parquet

        sink = io.BytesIO()
        parquet.write_table(frame, sink)
        try:
            replace_file(Path(os.path.realpath(target)), sink.getvalue())
        except OSError as error:
            raise InputError(f"cannot write: {error.strerror or error}; nothing was changed", target) from error


def _cell(value: Any) -> Any:
    return f"{value:.6f}" if isinstance(value, float) else value
