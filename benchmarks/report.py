"""The figures of a run as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

STAGES = ("read", "features", "load", "train", "save")
Row = dict[str, Any]

_console = Console(width=118)


def print_compiling(compiling: Row) -> None:
    if compiling:
        first, later = compiling["first_use"], compiling["later"]
        _console.print(
            f"kinfolk on 10 documents: {first:.1f} s when it compiles its kernels, once a machine, {later:.1f} s ever after"
        )


def print_world(title: str, world: Row) -> None:
    """One column a system; the last ones say how many times less kinfolk takes than the faster peer."""
    rows: dict[str, Row] = world["rows"]
    peer = faster_peer(rows)
    one, two = rows["kinfolk, 1 thread"], rows["kinfolk, 2 threads"]
    table = Table(title=f"{title}: {world['sentences']:,} sentences, {world['tokens']:,} tokens", title_justify="left")
    table.add_column("")
    for name in (*rows, "peer / kinfolk 1", "peer / kinfolk 2"):
        table.add_column(name, justify="right")
    for name, read, form, compared in _quantities():
        ratios = [_ratio(read(rows[peer]), read(own), name) if compared else "" for own in (one, two)]
        table.add_row(name, *(_shown(read(row), form) for row in rows.values()), *ratios)
    _console.print(table)
    _console.print(_remarks(world, peer, one, two))


def faster_peer(rows: dict[str, Row]) -> str:
    """The python-crfsuite row that is sooner near its optimum; one that never is comes last."""
    peers = [name for name in rows if name.startswith("python-crfsuite")]
    return min(peers, key=lambda name: (rows[name]["near"] is None, rows[name]["near"] or total(rows[name])))


def total(row: Row) -> float:
    return float(sum(row["seconds"][stage] for stage in STAGES))


def _quantities() -> list[tuple[str, Callable[[Row], Any], str, bool]]:
    """Name, how to read it, how to show it, whether to divide."""
    stages = [(f"{stage} (s)", _stage(stage), ".2f", True) for stage in ("import", *STAGES)]
    return [
        *stages,
        ("read to save (s)", total, ".2f", True),
        ("train to 0.1 % (s)", lambda row: row["near"], ".2f", True),
        ("iterations", lambda row: row["iterations"], "d", False),
        ("tagging, first (tokens/s)", lambda row: row["tag_first"], ",.0f", True),
        ("tagging, best of 3", lambda row: row["tag_best"], ",.0f", True),
        ("peak memory (MB)", lambda row: row["peak_mb"], ".0f", True),
        ("entity F1", lambda row: row["f1"], ".2f", False),
        ("objective", lambda row: row["objective"], ".2f", False),
        ("above own optimum (%)", lambda row: 100 * row["gap"], ".3f", False),
    ]


def _stage(name: str) -> Callable[[Row], float]:
    return lambda row: float(row["seconds"][name])


def _shown(value: float | None, form: str) -> str:
    return "never" if value is None else format(value, form)


def _ratio(peer: float | None, own: float | None, name: str) -> str:
    """How many times better kinfolk is, whether less (seconds, memory) or more (tokens a second) is better."""
    if not peer or not own:
        return ""
    return f"{own / peer if name.startswith('tagging') else peer / own:.2f}"


def _remarks(world: Row, peer: str, one: Row, two: Row) -> str:
    optima, other = world["optima"], world["rows"][peer]
    speed_up = one["seconds"]["train"] / two["seconds"]["train"]
    lines = [
        f"Ratios are against {peer}, the one that is sooner within 0.1 % of its optimum; above 1 kinfolk is better.",
        f"Training with 2 threads is {speed_up:.2f} times as fast as with 1.",
        f"Optima: kinfolk {optima['kinfolk']:.2f} (every feature with every label), python-crfsuite "
        f"{optima['crfsuite']:.2f} (pairs of feature and label seen in training).",
    ]
    if other["near"] is not None:
        ratios = [other["near"] / row["seconds"]["train"] for row in (one, two)]
        lines.append(
            f"The peer's time to 0.1 % over kinfolk's whole training: {ratios[0]:.2f} with 1 thread, "
            f"{ratios[1]:.2f} with 2."
        )
    return "\n".join(lines) + "\n"
