"""The same feature dicts and settings given to python-crfsuite and to kinfolk's `CRF`: seconds, objective, labels.

    python benchmarks/crfsuite_names.py [--data ../shared/data] [--sentences 5000]

CoNLL-2003: trained on the first sentences of eng.train, features and settings of sklearn-crfsuite's tutorial, and asked
about eng.testa. Both get the dicts ready made.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import pycrfsuite

import kinfolk as kf
from kinfolk.text.crfsuite import CRF, flat_accuracy_score

SETTINGS: list[dict[str, Any]] = [
    {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "all_possible_transitions": True},
    {"c2": 1.0},
]
TO_CRFSUITE = {"all_possible_transitions": "feature.possible_transitions"}
AROUND = ("lower", "title", "upper", "pos")


def token(word: str, pos: str) -> dict[str, Any]:
    return {
        "lower": word.lower(), "suffix3": word[-3:], "suffix2": word[-2:], "upper": word.isupper(),
        "title": word.istitle(), "digit": word.isdigit(), "pos": pos, "pos2": pos[:2],
    }  # fmt: skip


def dicts(corpus: kf.Corpus) -> list[list[dict[str, Any]]]:
    out = []
    for words, tags in zip(corpus.rows(), corpus.rows("pos"), strict=True):
        own = [token(word, pos) for word, pos in zip(words, tags, strict=True)]
        sentence: list[dict[str, Any]] = [{"bias": 1.0, **one} for one in own]
        for t, item in enumerate(sentence):
            for at, edge in ((t - 1, "BOS"), (t + 1, "EOS")):
                if 0 <= at < len(own):
                    item.update({f"{at - t:+d}:{name}": own[at][name] for name in AROUND})
                else:
                    item[edge] = True
        out.append(sentence)
    return out


def by_crfsuite(X: Any, y: Any, settings: dict[str, Any], asked: Any) -> tuple[float, float, int, list[list[str]]]:
    began = time.perf_counter()
    trainer = pycrfsuite.Trainer(verbose=False, params={TO_CRFSUITE.get(k, k): v for k, v in settings.items()})
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        seconds, tagger = time.perf_counter() - began, pycrfsuite.Tagger()
        tagger.open(f"{folder}/model")
        last = trainer.logparser.last_iteration
        return seconds, last["loss"], last["num"], [tagger.tag(items) for items in asked]


def by_kinfolk(X: Any, y: Any, settings: dict[str, Any], asked: Any) -> tuple[float, float, int, list[list[str]]]:
    began = time.perf_counter()
    crf = CRF(**settings).fit(X, y)
    seconds, last = time.perf_counter() - began, crf.training_log_.last_iteration
    assert last is not None
    return seconds, last["loss"], last["num"], crf.predict(asked)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--data", type=Path, default=Path("../shared/data"))
    asked.add_argument("--sentences", type=int, default=5000)
    given = asked.parse_args()
    train, test = (kf.read_conll(next(given.data.rglob(name))) for name in ("eng.train", "eng.testa"))
    X, y = dicts(train)[: given.sentences], train.label_rows()[: given.sentences]
    new, gold = dicts(test), test.label_rows()
    CRF().fit(X[:50], y[:50])  # compiles
    print(f"{len(X):,} sentences, {sum(map(len, X)):,} tokens; asked about {sum(map(len, new)):,}")
    for settings in SETTINGS:
        found = {"python-crfsuite": by_crfsuite(X, y, settings, new), "CRF": by_kinfolk(X, y, settings, new)}
        print(settings)
        for name, (seconds, loss, iterations, labels) in found.items():
            f1 = kf.entity_scores(gold, labels).f1
            print(f"  {name:16} {seconds:6.1f} s  {iterations:4} iterations  objective {loss:9.2f}  F1 {f1:.2f}")
        same = flat_accuracy_score(*(labels for *_, labels in found.values()))
        print(f"  the same label for {100 * same:.3f} % of the tokens of eng.testa")


if __name__ == "__main__":
    main()
