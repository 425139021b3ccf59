"""Chain models on CoNLL-2003 English: the chain rows of Figure 2 of the mixture-of-parents paper.

Ridge, tag encoding and when to stop are chosen on the last fifth of the training documents, by a model trained on the
first four fifths; the chosen model is then trained on all of eng.train and scored once on each test file.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

from kinfolk.data.corpus import Corpus
from kinfolk.experiments.report import Report, Row, Tell
from kinfolk.io.conll import read_conll
from kinfolk.models.crf import LinearChainCRF
from kinfolk.models.maxent import MaxEnt
from kinfolk.models.memm import MEMM
from kinfolk.models.tagger import Tagger

# A loose tolerance stops early, which regularises too: how long to train is chosen like the ridge.
GRID: dict[str, tuple[Any, ...]] = {"l2": (0.01, 0.1), "encoding": ("BIO", "IOBES"), "tolerance": (0.3, 1.5e-4)}
HELD_OUT = 0.2
# (model of the table, feature set) -> the method, and how its rows decode
METHODS: list[tuple[type[Tagger], str, dict[str, dict[str, Any]]]] = [
    (MaxEnt, "sentence", {"MaxEnt": {}}),
    (MEMM, "sentence", {"MEMM Viterbi": {"decode": "viterbi"}, "MEMM posterior": {"decode": "posterior"}}),
    (LinearChainCRF, "sentence", {"linear-chain CRF": {}}),
    (LinearChainCRF, "document", {"linear-chain CRF, document features": {}}),
]
PAPER = {
    ("MEMM Viterbi", "testa"): {"f1": 89.8, "fp": 9.0, "fn": 11.4},
    ("MEMM posterior", "testa"): {"f1": 89.9, "fp": 9.2, "fn": 10.9},
    ("linear-chain CRF", "testa"): {"f1": 90.6, "fp": 8.5, "fn": 10.3},
}


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (tokens/conll2003/eng.train, ...)."""
    began = time.perf_counter()
    folder = data / "tokens" / "conll2003"
    train, *tests = (read_conll(folder / f"eng.{part}") for part in ("train", "testa", "testb"))
    rows: list[Row] = []
    chosen = {}
    for method, templates, variants in METHODS:
        settings = _choose(method, templates, train, tell, n_jobs)
        model = method(templates=templates, n_jobs=n_jobs, **settings).fit(train)
        chosen[f"{method.__name__}, {templates}"] = settings
        for name, decoding in variants.items():
            model.set_params(**decoding)
            for split, test in zip(("testa", "testb"), tests, strict=True):
                rows.append(_row(model, name, split, test))
                tell(f"{name}, {split}: F1 {rows[-1]['f1']:.2f}")
    settings_used = {
        "chosen on the last fifth of eng.train": chosen,
        "grid": {k: list(v) for k, v in GRID.items()},
    }
    return Report("chain-conll", rows, time.perf_counter() - began, settings_used, ("f1", "fp", "fn"), PAPER)


def _choose(method: type[Tagger], templates: str, train: Corpus, tell: Tell, n_jobs: int) -> dict[str, Any]:
    """The settings of the grid with the best F1 on held-out training documents."""
    cut = round(train.n_documents * (1 - HELD_OUT))
    fit, held_out = train.documents(0, cut), train.documents(cut, train.n_documents)
    scores: dict[tuple[Any, ...], float] = {}
    for values in product(*GRID.values()):
        settings: dict[str, Any] = dict(zip(GRID, values, strict=True))
        scores[values] = method(templates=templates, n_jobs=n_jobs, **settings).fit(fit).score(held_out)
        tell(f"{method.__name__}, {templates}, {settings}: held-out F1 {100 * scores[values]:.2f}")
    best = max(scores, key=lambda values: scores[values])
    return dict(zip(GRID, best, strict=True))


def _row(model: Tagger, name: str, split: str, test: Corpus) -> Row:
    scores, accuracy = model.evaluate(test)
    assert scores is not None
    figures = {key: getattr(scores, key) for key in ("f1", "fp", "fn", "precision", "recall")}
    return {"model": name, "dataset": "conll2003", "split": split, **figures, "accuracy": accuracy}
