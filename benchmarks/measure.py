"""What both measured processes share: a stopwatch by stage, peak memory, and the score of predictions."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TAGGING_RUNS = 3


class Stopwatch:
    """Seconds by stage; a stage entered many times adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began


def peak_megabytes() -> float:
    """The most memory this process has held, in units of 10^6 bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def timed_tagging(run: Callable[[], list[list[str]]], n_tokens: int) -> tuple[dict[str, float], list[list[str]]]:
    """Tokens a second, in the first run and in the best of several, with peak memory so far; and the answer."""
    rates = []
    for _ in range(TAGGING_RUNS):
        began = time.perf_counter()
        answer = run()
        rates.append(n_tokens / (time.perf_counter() - began))
    return {"tag_first": rates[0], "tag_best": max(rates), "peak_mb": peak_megabytes()}, answer


def entity_f1(test: Path, predicted: Sequence[Sequence[str]]) -> float:
    """F1 in percent as conlleval counts it. Called after memory was measured: it loads kinfolk."""
    from kinfolk import entity_scores, read_conll

    return entity_scores(read_conll(test), predicted).f1


def request() -> dict[str, Any]:
    """What to do, from the command line: one JSON object."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    return asked | {"folder": Path(asked["folder"])}


def table_of_seconds(headings: Sequence[str], rows: dict[str, tuple[float, float]]) -> None:
    """One line a name: its seconds, its peer's, and their ratio."""
    print("  ".join((f"{headings[0]:<36}", *headings[1:])))
    for name, (own, peer) in rows.items():
        print(f"{name:<36}  {own:>7.3f}  {peer:>30.3f}  {own / peer if peer else float('nan'):>5.2f}")
