"""What the experiments on CoNLL-2003 English share: the files, the choice of settings, a row of a table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kinfolk.papers.harness import Row, Tell
from kinfolk.text.conll import read_conll
from kinfolk.text.corpus import Corpus
from kinfolk.text.tagger import Tagger

HELD_OUT = 0.2  # the last fifth of the training documents


class Conll(NamedTuple):
    train: Corpus
    testa: Corpus
    testb: Corpus

    def held_out(self) -> tuple[Corpus, Corpus]:
        """Training documents to fit on, and to choose settings on."""
        cut = round(self.train.n_documents * (1 - HELD_OUT))
        return self.train.documents(0, cut), self.train.documents(cut, self.train.n_documents)


def read(data: Path) -> Conll:
    """`data` has the layout of the data folder (tokens/conll2003/eng.train, ...)."""
    folder = data / "tokens" / "conll2003"
    return Conll(*(read_conll(folder / f"eng.{part}") for part in ("train", "testa", "testb")))


def choose(
    method: type[Tagger], data: Conll, grid: Iterable[dict[str, Any]], tell: Tell, n_jobs: int,
    trials: list[dict[str, Any]] | None = None,
) -> tuple[dict[str, Any], float]:  # fmt: skip
    """The settings of the grid with the best F1 on held-out training documents, and that F1.

    `trials` is told the F1 of all of them, and spares what was tried before.
    """
    known = {repr(trial["settings"]): trial["f1"] for trial in trials or () if trial["method"] == method.__name__}
    fit, held_out = data.held_out()
    best: tuple[dict[str, Any], float] = ({}, -1.0)
    for settings in grid:
        score = known.get(repr(settings))
        if score is None:
            score = 100 * method(n_jobs=n_jobs, **settings).fit(fit).score(held_out)
            tell(f"{method.__name__}, {settings}: held-out F1 {score:.2f}")
            if trials is not None:
                trials.append({"method": method.__name__, "settings": settings, "f1": score})
        if score > best[1]:
            best = settings, score
    return best


def rows(model: Any, name: str, data: Conll, tell: Tell) -> list[Row]:
    """One row for each test file."""
    found: list[Row] = []
    for split, test in (("testa", data.testa), ("testb", data.testb)):
        scores, accuracy = model.evaluate(test)
        assert scores is not None
        figures = {key: getattr(scores, key) for key in ("f1", "fp", "fn", "precision", "recall")}
        found.append({"model": name, "dataset": "conll2003", "split": split, **figures, "accuracy": accuracy})
        tell(f"{name}, {split}: F1 {found[-1]['f1']:.2f}")
    return found
