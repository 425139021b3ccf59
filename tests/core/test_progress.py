"""Progress of training: where it is shown, what it says, and a guess at the time left that comes true."""

from __future__ import annotations

import io
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import kinfolk as kf
from kinfolk.core.training import WINDOW, Description, Progress, RemainingTime
from kinfolk.text.crfsuite import CRF
from small_world import TAGGERS, TINY, TINY_LABELS


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


class OutStream(io.StringIO):
    """The standard error of a notebook: not a terminal, and known by where its class lives."""

    __module__ = "ipykernel.iostream"

    def isatty(self) -> bool:
        return False


def shown(monkeypatch: pytest.MonkeyPatch, stream: Any, model: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    model.fit(TINY, TINY_LABELS)
    return str(stream.getvalue())


def test_a_notebook_has_a_line_that_is_written_over_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    model = kf.LinearChainCRF(n_jobs=1, verbose=1)
    text = shown(monkeypatch, OutStream(), model)
    assert text.startswith("\r") and text.endswith("\n") and text.count("\n") == 1
    last = text.rstrip().split("\r")[-1]
    found = model.convergence_
    assert last.startswith(f"optimise {found.iterations} · objective {found.objective:.6g} · ")
    assert "\x1b" not in text, "no escape sequences: not every front end knows them"
    assert shown(monkeypatch, OutStream(), kf.LinearChainCRF(n_jobs=1)) == ""


@pytest.mark.parametrize("name", [*TAGGERS, "CRF"])
def test_every_tagger_shows_something_in_a_notebook(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    new = TAGGERS.get(name, lambda: CRF(n_jobs=1))
    X = [[{"w": word} for word in sentence] for sentence in TINY]
    beside = {} if name == "CRF" else {"words": TINY, "documents": [len(TINY)]}
    X, y, beside = X * 2, TINY_LABELS * 2, {key: value * 2 for key, value in beside.items()}
    for verbose in (1, 0):
        stream = OutStream()
        monkeypatch.setattr(sys, "stderr", stream)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new().set_params(verbose=verbose).fit(X, y, **beside)
        assert bool(stream.getvalue().strip()) == bool(verbose) and "\x1b" not in stream.getvalue()


def test_a_kernel_is_known_by_its_shell_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some front ends have a standard error of their own."""
    for shell, told in ((SimpleNamespace(kernel=object()), True), (SimpleNamespace(), False), (None, False)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        text = shown(monkeypatch, io.StringIO(), kf.LinearChainCRF(n_jobs=1, verbose=1))
        assert bool(text) == told


def test_a_notebook_is_told_of_every_level_of_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    base = kf.LinearChainCRF(n_jobs=1)
    text = shown(monkeypatch, OutStream(), kf.StackedTagger(base, kf.Window(1), folds=2, n_jobs=1, verbose=1))
    assert [line.split(":")[0] for line in text.splitlines()] == ["level 0 of 1", "level 1 of 1"]
    assert shown(monkeypatch, OutStream(), kf.StackedTagger(base, kf.Window(1), folds=2, n_jobs=1)) == ""


@pytest.mark.parametrize("stream", ["a pipe", "none", "closed", "without isatty"])
def test_nothing_is_shown_where_nobody_looks(monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    closed = io.StringIO()
    closed.close()
    streams: dict[str, Any] = {"a pipe": io.StringIO(), "none": None, "closed": closed, "without isatty": object()}
    monkeypatch.setattr(sys, "stderr", streams[stream])
    model = kf.LinearChainCRF(n_jobs=1, verbose=1).fit(TINY, TINY_LABELS)
    assert model.predict(TINY) == TINY_LABELS
    if stream == "a pipe":
        assert streams[stream].getvalue() == ""


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = shown(monkeypatch, stream, kf.LinearChainCRF(n_jobs=1, verbose=1))
    assert "optimise" in text and "objective" in text and "\x1b[" in text
