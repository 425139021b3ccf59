"""What `nodes predict` writes: a line for each node, divided by tabs, as CSV or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any


def is_csv(output: str) -> bool:
    return output.lower().removesuffix(".gz").endswith(".csv")


def label_rows(ids: Sequence[str], table: Any, classes: Sequence[str], proba: bool) -> Iterator[list[str]]:
    """Id, most probable label and, if asked for, its probability."""
    for key, row in zip(ids, table, strict=True):
        best = int(row.argmax())
        yield [key, classes[best], *([f"{row[best]:.6f}"] if proba else [])]


def tab_lines(rows: Iterator[list[str]]) -> Iterator[str]:
    for row in rows:
        yield "\t".join(row) + "\n"


def csv_lines(rows: Iterator[list[str]], proba: bool) -> Iterator[str]:
    """With a header."""
    head = ["id", "label", *(["probability"] if proba else [])]
    for row in [head, *rows]:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()


def json_lines(ids: Sequence[str], table: Any, classes: Any) -> Iterator[str]:
    """With the probability of every label, by its name."""
    for key, row in zip(ids, table, strict=True):
        chances = dict(zip(classes.names, row.tolist(), strict=True))
        answer = {"id": key, "label": classes[int(row.argmax())], "probabilities": chances}
        yield json.dumps(answer, ensure_ascii=False) + "\n"
