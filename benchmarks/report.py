"""The figures of a run as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

LBFGS, L2SGD = "crfsuite lbfgs", "crfsuite l2sgd"
ONE, TWO, CUT = "kinfolk 1 thread", "kinfolk 2 threads", "kinfolk 2, auto cut"
EARLY = "kinfolk 2, early stop"
STAGES = ("read", "features", "load", "train", "save")
Row = dict[str, Any]

_console = Console(width=118)


def print_compiling(compiling: Row) -> None:
    if compiling:
        first, later = compiling["first_use"], compiling["later"]
        _console.print(f"kinfolk on 10 documents: {first:.1f} s the first time, compiling; {later:.1f} s after that")


def print_world(title: str, world: Row) -> None:
    """One column a system; the last ones compare kinfolk, given the same features, with the better peer."""
    rows: dict[str, Row] = world["rows"]
    heading = f"{title}: {world['sentences']:,} sentences, {world['tokens']:,} tokens"
    table = Table(title=heading, title_justify="left", box=SIMPLE)
    table.add_column("", no_wrap=True)
    for name in (*rows, "peer / 1 thread", "peer / 2 threads"):
        table.add_column(name.replace(" ", "\n", 1), justify="right")
    for name, read, form, compared in _quantities():
        peers = [read(rows[peer]) for peer in (LBFGS, L2SGD)]
        ratios = [_ratio(peers, read(rows[own]), name) if compared else "" for own in (ONE, TWO)]
        table.add_row(name, *(_shown(read(row), form) for row in rows.values()), *ratios)
    _console.print(table)
    _console.print(_remarks(world))


def total(row: Row) -> float:
    return float(sum(row["seconds"][stage] for stage in STAGES))


def _quantities() -> list[tuple[str, Callable[[Row], Any], str, bool]]:
    """Name, how to read it, how to show it, whether to divide."""
    stages = [(f"{stage} (s)", _stage(stage), ".2f", True) for stage in ("import", *STAGES)]
    return [
        *stages,
        ("read to save (s)", total, ".2f", True),
        ("train to 1 % (s)", lambda row: row["close"], ".2f", True),
        ("train to 0.1 % (s)", lambda row: row["near"], ".2f", True),
        ("iterations", lambda row: row["iterations"], "d", False),
        ("tagging, first (tok/s)", lambda row: row["tag_first"], ",.0f", True),
        ("tagging, best of 3", lambda row: row["tag_best"], ",.0f", True),
        ("features", lambda row: row["features"], ",d", False),
        ("peak memory (MB)", lambda row: row["peak_mb"], ".0f", True),
        ("entity F1", lambda row: row["f1"], ".2f", False),
        ("objective", lambda row: row["objective"], ".2f", False),
        ("above own optimum (%)", lambda row: 100 * row["gap"], ".3f", False),
        ("load average before", lambda row: row["load_average"], ".1f", False),
    ]


def _stage(name: str) -> Callable[[Row], float]:
    return lambda row: float(row["seconds"][name])


def _shown(value: float | None, form: str) -> str:
    return "never" if value is None else format(value, form)


def _ratio(peers: list[float | None], own: float | None, name: str) -> str:
    """How many times better kinfolk is than the better peer: fewer seconds, less memory, more tokens a second."""
    known = [value for value in peers if value is not None]
    if not known or not own:
        return ""
    return f"{own / max(known) if name.startswith('tagging') else min(known) / own:.2f}"


def _remarks(world: Row) -> str:
    optima, rows = world["optima"], world["rows"]
    speed_up = rows[ONE]["seconds"]["train"] / rows[TWO]["seconds"]["train"]
    late = [name for name, row in rows.items() if row["near"] is None]
    lines = [
        "Ratios: in each line the better python-crfsuite against kinfolk; above 1 kinfolk is better.",
        f"Training with 2 threads is {speed_up:.2f} times as fast as with 1.",
        f"Optima: kinfolk {optima['kinfolk']:.2f} (every feature with every label), python-crfsuite "
        f"{optima['crfsuite']:.2f} (pairs of feature and label seen in training).",
        f"{CUT}: kinfolk's default leaves rare features out of large corpora; fewer features, so no ratios.",
        f"{EARLY}: the same features, ended as by default: on large corpora after a few passes. Look at its F1.",
    ]
    if late:
        lines.append(f"Stopped by their own rule before they were within 0.1 % of their optimum: {', '.join(late)}.")
    return "\n".join(lines) + "\n"
