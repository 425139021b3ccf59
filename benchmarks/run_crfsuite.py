"""One fresh process of python-crfsuite: read, features, load, train, tag; answers with one JSON object.

    python run_crfsuite.py '{"folder": ..., "algorithm": "lbfgs", "params": {...}, "tag": true}'

Features are appended sentence by sentence and not kept. The objective that is reported is not taken from the
log, where l2sgd's is of weights that move during the pass, but worked out from the model file.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from sys import intern
from typing import Any

from measure import Stopwatch, entity_f1, request, timed_tagging
from peer_features import PeerFeatures, Sentence

BEGAN = time.perf_counter()

import pycrfsuite  # noqa: E402

IMPORTED = time.perf_counter() - BEGAN

Labelled = tuple[Sentence, list[str]]


class TimedTrainer(pycrfsuite.Trainer):  # type: ignore[misc]
    """Notes the time at which each stage of training ends, and the loss after each pass."""

    def start(self, model: Path) -> None:
        self.began = time.perf_counter()
        self.prepared = self.optimised = 0.0
        self.history: list[tuple[float, float]] = []
        self.train(str(model))
        self.stored = self.elapsed()

    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    def message(self, message: str) -> None:
        event = self.logparser.feed(message)
        if event == "featgen_end":
            self.prepared = self.elapsed()
        elif event == "iteration":
            self.history.append((self.elapsed() - self.prepared, self.logparser.last_iteration["loss"]))
        elif event == "optimization_end":
            self.optimised = self.elapsed()


def main(folder: Path, algorithm: str, params: dict[str, Any], tag: bool) -> dict[str, Any]:
    plan, watch = json.loads((folder / "plan.json").read_text()), Stopwatch()
    watch.seconds["import"] = IMPORTED
    with watch.stage("read"):
        sentences = read_sentences(folder / "train.txt", plan["columns"])
    trainer, extractor = TimedTrainer(algorithm, {"c2": plan["c2"], **params}), PeerFeatures(plan["templates"])
    for columns, labels in sentences:
        with watch.stage("features"):
            rows = extractor.rows(columns)
        with watch.stage("load"):
            trainer.append(rows, labels)
    del extractor, sentences, rows
    model = folder / f"{algorithm}.model"
    trainer.start(model)
    watch.seconds["load"] += trainer.prepared
    watch.seconds["train"] = trainer.optimised - trainer.prepared
    watch.seconds["save"] = trainer.stored - trainer.optimised
    answer = {"history": trainer.history, "iterations": len(trainer.history), "status": "converged"}
    if len(trainer.history) == params.get("max_iterations"):
        answer["status"] = "limit"
    del trainer
    if tag:
        answer |= _tagged(model, folder, plan)
    exact = true_objective(model, folder, plan)
    return answer | exact | {"seconds": dict(watch.seconds)}


def read_sentences(file: Path, names: list[str]) -> list[Labelled]:
    """Sentences of a column file: columns by name, and the last column, the labels."""
    sentences: list[Labelled] = []
    rows: list[list[str]] = []
    with file.open(encoding="utf-8") as lines:
        for line in (*lines, "\n"):
            if line.startswith("-DOCSTART-"):
                continue
            if cells := line.split():
                rows.append(list(map(intern, cells)))
            elif rows:
                columns = list(map(list, zip(*rows, strict=True)))
                sentences.append((dict(zip(names, columns[:-1], strict=True)), columns[-1]))
                rows = []
    return sentences


def _tagged(model: Path, folder: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """Tag the test file with a loaded model. After the first run the strings of all its words are known."""
    tagger, extractor = pycrfsuite.Tagger(), PeerFeatures(plan["templates"])
    tagger.open(str(model))
    sentences = read_sentences(folder / "test.txt", plan["columns"])
    n = sum(len(labels) for _, labels in sentences)
    figures, predicted = timed_tagging(lambda: [tagger.tag(extractor.rows(columns)) for columns, _ in sentences], n)
    return {**figures, "f1": entity_f1(folder / "test.txt", predicted)}


def true_objective(model: Path, folder: Path, plan: dict[str, Any]) -> dict[str, float]:
    """-log p(labels) + c2 |w|^2 over the training file, with the weights of the model file."""
    tagger, extractor = pycrfsuite.Tagger(), PeerFeatures(plan["templates"])
    tagger.open(str(model))
    info = tagger.info()
    weights = (*info.state_features.values(), *info.transitions.values())
    loss = 0.0
    for columns, labels in read_sentences(folder / "train.txt", plan["columns"]):
        tagger.set(extractor.rows(columns))
        loss -= math.log(tagger.probability(labels))
    return {"objective": loss + plan["c2"] * sum(w * w for w in weights), "features": len(info.attributes)}


if __name__ == "__main__":
    print(json.dumps(main(**request())))
