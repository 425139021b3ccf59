"""Vectors of tokens on CoNLL-2003: training with 300 dense columns a token beside the same without, and beside
python-crfsuite, which is given them as 300 numbers.

    python benchmarks/vectors.py                  both
    python benchmarks/vectors.py --sentences 500  fewer sentences for the second, 2,000 unless said
    python benchmarks/vectors.py --rounds 3       each so often, in turn; the median is shown

Columns are vectors of a token and of the two beside it, 100 each, as in benchmarks/layer.py. Seconds are of the
processor, on one thread, so that ratios hold on a machine that others use too. The first table is `LinearChainCRF` with
its defaults, from a corpus to a model. The second trains on the first sentences, with a word, its case and its suffix
in feature dicts: from dicts and vectors to a model. Both sides have the same numbers (standardised), the same ridge
(l2 = 2 · c2 for all weights) and stop by the same rule (five iterations that lower it by less than 1.5e-4).
Data are read from the folder named by KINFOLK_DATA, or ../shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pycrfsuite
from layer import VectorModel, folder, word_vectors

import kinfolk as kf

L2, DELTA, PERIOD = 1.0, 1.5e-4, 5
Answer = tuple[float, str]  # seconds, and what came of them


def main() -> None:
    parser = argparse.ArgumentParser(description="vectors of tokens: what they cost")
    parser.add_argument("--sentences", type=int, default=2000, help="sentences that python-crfsuite is trained on")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is trained")
    options = parser.parse_args()
    corpora = [kf.read_conll(folder() / f"eng.{part}") for part in ("train", "testa", "testb")]
    model = VectorModel(word_vectors(corpora))
    train, test = (corpus.with_vectors(model._rows(corpus)) for corpus in corpora[:2])
    assert train.vectors is not None and test.vectors is not None
    kf.LinearChainCRF(tolerance=0.5, n_jobs=1).fit(train[:3])  # kernels are compiled
    title = f"eng.train, {train.n_tokens:,} tokens, templates"
    plain = [corpus.with_vectors(None) for corpus in (train, test)]
    compared(
        title,
        {"alone": lambda: crf_of(*plain), f"with {train.vectors.shape[1]} columns": lambda: crf_of(train, test)},
        options.rounds,
    )
    sentences, columns = first_sentences(train, options.sentences), standardised(train.vectors, train.vectors)
    asked, other = first_sentences(test, options.sentences), standardised(test.vectors, train.vectors)
    compared(
        f"first {options.sentences:,} sentences, feature dicts with {columns.shape[1]} numbers",
        {
            "kinfolk": lambda: kinfolk_of(sentences, columns, asked, other),
            "python-crfsuite": lambda: crfsuite_of(sentences, columns, asked, other),
        },
        options.rounds,
    )


def compared(title: str, runs: dict[str, Callable[[], Answer]], rounds: int) -> None:
    """Seconds of each, and how many times those of the first."""
    found: dict[str, list[Answer]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run())
    seconds = {name: median(one for one, _ in answers) for name, answers in found.items()}
    print(title)
    for name, answers in found.items():
        ratio = seconds[name] / next(iter(seconds.values()))
        print(f"  {name:20} {seconds[name]:7.1f} s  {ratio:5.1f} times  {answers[0][1]}", flush=True)


def crf_of(train: kf.Corpus, test: kf.Corpus) -> Answer:
    began = time.process_time()
    model = kf.LinearChainCRF(n_jobs=1).fit(train)
    seconds = time.process_time() - began
    return seconds, f"{model.convergence_.iterations} iterations, F1 of testa {100 * model.score(test):.2f}"


Sentences = tuple[list[list[dict[str, Any]]], list[list[str]]]


def first_sentences(corpus: kf.Corpus, n: int) -> Sentences:
    X = [
        [{"word": word, "title": word.istitle(), "upper": word.isupper(), "end": word[-3:]} for word in row]
        for row in corpus.rows()[:n]
    ]
    return X, corpus.label_rows()[:n]


def standardised(vectors: Any, like: Any) -> Any:
    return ((vectors - like.mean(axis=0)) / like.std(axis=0)).astype(np.float32)


def by_sentence(X: list[Any], columns: Any) -> list[Any]:
    ends = np.cumsum([len(row) for row in X])
    return np.split(columns[: ends[-1]], ends[:-1])


def kinfolk_of(train: Sentences, columns: Any, test: Sentences, other: Any) -> Answer:
    began = time.process_time()
    model = kf.LinearChainCRF(l2=L2, vector_l2=L2, n_jobs=1).fit(*train, vectors=by_sentence(train[0], columns))
    seconds = time.process_time() - began
    predicted = model.predict(test[0], vectors=by_sentence(test[0], other))
    return seconds, f"{model.convergence_.iterations} iterations, F1 {kf.entity_scores(test[1], predicted).f1:.2f}"


def crfsuite_of(train: Sentences, columns: Any, test: Sentences, other: Any) -> Answer:
    began = time.process_time()
    trainer = pycrfsuite.Trainer("lbfgs", {"c2": L2 / 2, "delta": DELTA, "period": PERIOD}, verbose=False)
    for row, labels, vectors in zip(*train, by_sentence(train[0], columns), strict=True):
        trainer.append(with_numbers(row, vectors), labels)
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch) / "model")
        trainer.train(path)
        seconds, tagger = time.process_time() - began, pycrfsuite.Tagger()
        tagger.open(path)
        both = zip(test[0], by_sentence(test[0], other), strict=True)
        predicted = [tagger.tag(with_numbers(row, vectors)) for row, vectors in both]
    done = trainer.logparser.last_iteration["num"]
    return seconds, f"{done} iterations, F1 {kf.entity_scores(test[1], predicted).f1:.2f}"


def with_numbers(row: list[dict[str, Any]], vectors: Any) -> Any:
    return pycrfsuite.ItemSequence(
        [
            item | {f"v{j}": value for j, value in enumerate(one)}
            for item, one in zip(row, vectors.tolist(), strict=True)
        ]
    )


if __name__ == "__main__":
    main()
