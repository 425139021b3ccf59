"""A layer over the probabilities of other models, on CoNLL-2003: entity F1 of what was given, and of the layer.

    python benchmarks/layer.py                  all three models
    python benchmarks/layer.py --given vectors  one of them: words, document, vectors
    python benchmarks/layer.py --without-features
    python benchmarks/layer.py --mixture        with a mixture of parents among the candidates, and by itself

words      a linear-chain CRF that sees a word and its shape alone
document   a linear-chain CRF with document features
vectors    logistic regression on vectors of a word and the two beside it: truncated SVD of how often words stand within
           two tokens of each other, in the text of all three files, without labels

Out-of-fold probabilities by five folds of documents (`kf.out_of_fold`), weights of the pool by two; all settings are
defaults, and nothing is chosen on testa or testb. Differences with 95 % intervals over documents (paired bootstrap).
Data are read from the folder named by KINFOLK_DATA, or ../shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import kinfolk as kf
from kinfolk.text.attributes import shape, word
from kinfolk.text.gain import document_counts
from kinfolk.text.layer import said_of_parents
from kinfolk.text.schemes import LabelCoding

WIDTH, WORDS, SEED = 100, 20_000, 0


def folder() -> Path:
    return Path(os.environ.get("KINFOLK_DATA", "../shared/data")) / "tokens" / "conll2003"


class VectorModel:
    """Logistic regression over the vectors of a token and those beside it, with the face `out_of_fold` asks for."""

    def __init__(self, vectors: dict[str, Any]) -> None:
        self.vectors = vectors

    def _rows(self, corpus: kf.Corpus) -> Any:
        absent = np.zeros(WIDTH, np.float32)
        own = np.stack([self.vectors.get(one.lower(), absent) for one in corpus.columns["word"].strings()])
        starts = corpus.sentence_starts
        before, after = np.roll(own, 1, axis=0), np.roll(own, -1, axis=0)
        before[starts[:-1]], after[starts[1:] - 1] = 0, 0
        return np.concatenate([before, own, after], axis=1)

    def fit(self, corpus: kf.Corpus) -> VectorModel:
        from sklearn.linear_model import LogisticRegression

        coding = LabelCoding.learn(corpus, "auto")
        self.model = LogisticRegression(max_iter=200, C=10.0).fit(self._rows(corpus), coding.encode(corpus))
        self.classes_ = [coding.classes.names[k] for k in self.model.classes_]
        return self

    def predict_proba(self, corpus: kf.Corpus) -> Any:
        return self.model.predict_proba(self._rows(corpus))


def word_vectors(corpora: list[kf.Corpus]) -> dict[str, Any]:
    """Of words by what stands within two tokens of them."""
    from scipy import sparse
    from sklearn.decomposition import TruncatedSVD

    texts = [[one.lower() for one in corpus.columns["word"].strings()] for corpus in corpora]
    counts: dict[str, int] = {}
    for text in texts:
        for one in text:
            counts[one] = counts.get(one, 0) + 1
    place = {one: k for k, one in enumerate(sorted(counts, key=lambda w: (-counts[w], w))[:WORDS])}
    total = sparse.csr_array((len(place), 5 * len(place)), dtype=np.float32)
    for text in texts:
        codes = np.array([place.get(one, -1) for one in text])
        for offset in (-2, -1, 1, 2):
            other = np.roll(codes, offset)
            both = (codes >= 0) & (other >= 0)
            cells = codes[both], other[both] + (offset + 2) * len(place)
            total = total + sparse.coo_array((np.ones(both.sum(), np.float32), cells), total.shape).tocsr()
    total.data = np.log1p(total.data)
    found = TruncatedSVD(WIDTH, random_state=SEED).fit_transform(total)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    return {one: found[k].astype(np.float32) for one, k in place.items()}


def counts_of(layer: kf.TokenLayer, corpus: kf.Corpus, table: Any, alone: bool) -> Any:
    """(documents, 2), of the most probable valid labels of what was given, or of the layer."""
    from dataclasses import replace

    batch = layer._batch(corpus, table, None, None)
    decoder = layer.pool_._decoder()
    beliefs = np.asarray(batch.extra, float) if alone else decoder.marginals(batch, False)
    return document_counts(layer.pool_.coding_, corpus, decoder.best_valid(replace(batch, extra=None), beliefs, False))


def mixture_alone(layer: kf.TokenLayer, corpus: kf.Corpus, table: Any) -> float:
    """F1 of the most probable valid labels by the mixture of parents."""
    batch, pool = layer._batch(corpus, table, None, None), layer.pool_
    given = np.asarray(batch.extra, float)
    said = pool.mixture_.proba(given, said_of_parents(corpus, given))
    path = pool._decoder().best_valid(batch, said, False)
    right, there = document_counts(pool.coding_, corpus, path).sum(axis=0)
    return float(100 * right / there)


def interval(before: Any, after: Any) -> list[float]:
    rng, found = np.random.default_rng(SEED), []
    for _ in range(1000):
        chosen = rng.integers(len(before), size=len(before))
        (a, b), (c, d) = before[chosen].sum(axis=0), after[chosen].sum(axis=0)
        found.append(100 * (c / d - a / b))
    return [round(float(one), 2) for one in np.percentile(found, [2.5, 97.5])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--given", nargs="+", choices=("words", "document", "vectors"))
    parser.add_argument("--mixture", action="store_true")
    parser.add_argument("--without-features", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    train, *tests = (kf.read_conll(folder() / f"eng.{name}") for name in ("train", "testa", "testb"))
    rows = []
    for name in options.given or ("words", "document", "vectors"):
        began = time.process_time()
        if name == "vectors":
            model: Any = VectorModel(word_vectors([train, *tests]))
        else:
            model = kf.LinearChainCRF(templates=[word[0], shape[0]] if name == "words" else "document")
        found = kf.out_of_fold(model, train, random_state=SEED)
        row: dict[str, Any] = {"given": name, "seconds given": round(time.process_time() - began, 1)}
        began = time.process_time()
        layer = kf.TokenLayer(features=not options.without_features, mixture=options.mixture).fit(
            train, found.probabilities, classes=found.classes
        )
        row |= {"seconds layer": round(time.process_time() - began, 1)}
        row["weights"] = {one: round(weight, 2) for one, weight in layer.weights_.items()}
        for part, corpus in zip(("testa", "testb"), tests, strict=True):
            table = found.model.predict_proba(corpus)
            before, after = (counts_of(layer, corpus, table, alone) for alone in (True, False))
            scores = [float(100 * one[:, 0].sum() / one[:, 1].sum()) for one in (before, after)]
            row[part] = {"given": round(scores[0], 2), "layer": round(scores[1], 2), "gain": interval(before, after)}
            if options.mixture:
                row[part]["mixture alone"] = round(mixture_alone(layer, corpus, table), 2)
            if name != "vectors":
                row[part]["given, decoded by itself"] = round(100 * found.model.score(corpus), 2)
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
