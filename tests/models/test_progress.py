"""What the progress bar says: the description, and a guess at the time left that comes true on a known run."""

from __future__ import annotations

import pytest

from kinfolk.models.optimise import Progress
from kinfolk.models.progress import WINDOW, Description, RemainingTime


def geometric(n: int) -> Progress:
    """Iteration n of a run whose gap to the optimum halves every window, a second an iteration."""
    return Progress("optimise", n, 1000, 100 * (1 + 0.5 ** (n / WINDOW)), float(n))


def test_remaining_time_of_a_geometric_run() -> None:
    tolerance = 1e-4
    ends = next(n for n in range(1000) if 0.5 ** (n / WINDOW) / (1 + 0.5 ** (n / WINDOW)) <= tolerance)
    remaining = RemainingTime(tolerance)
    guesses = {n: remaining(geometric(n)) for n in range(1, 41)}
    assert all(guesses[n] is None for n in range(1, 2 * WINDOW + 1))
    assert guesses[40] == pytest.approx(ends - 40, abs=2 * WINDOW)


def test_no_guess_without_progress_or_while_warming() -> None:
    remaining = RemainingTime(1e-4)
    assert remaining(Progress("warm start", 1, 12, 5.0, 0.1)) is None
    assert all(remaining(Progress("optimise", n, 100, 7.0, float(n))) is None for n in range(1, 30))


def test_description_keeps_the_last_held_out_score() -> None:
    told = Description()
    first = told(Progress("optimise", 5, 100, 1234.5, 1.0, 0.8931))
    assert first == "optimise 5 · objective 1234.5 · held-out score 89.31"
    assert told(Progress("optimise", 6, 100, 1200.0, 1.2)).endswith("held-out score 89.31")
