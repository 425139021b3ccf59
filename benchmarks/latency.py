"""How long one sentence takes, warm, on one thread: kinfolk's taggers beside python-crfsuite in one run.

    python benchmarks/latency.py                  all rows
    python benchmarks/latency.py --quick          a smoke test
    python benchmarks/latency.py --json FILE      write all figures

One sentence    the same sentence of 11 tokens again and again
New sentences   sentences of 8 to 14 tokens of documents that training has not seen, each once

`entities` has text in and entities with their probabilities and characters out; `predict` a list of words in and labels
out. python-crfsuite has a list of words in, makes the same features (`peer_features.py`), and gives labels alone; or
labels of features that are ready. Milliseconds of a call, the median and the 95th percentile: by the clock, and of
processor time, which other programs on the machine do not lengthen. Models are trained on generated newswire,
words alone, with default templates unless said otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from peer_features import PeerFeatures  # noqa: E402
from prepare import _described  # noqa: E402

import kinfolk as kf  # noqa: E402
from kinfolk.text.extraction import for_corpus  # noqa: E402

SENTENCE = "Mr. Bill Washington of Boston spoke to Kim on Monday ."
CALLS, DOCUMENTS = 2_000, 60
Call = Callable[[Any], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few documents and calls")
    parser.add_argument("--json", type=Path, help="file to write all figures to")
    options = parser.parse_args()
    documents, calls = (6, 20) if options.quick else (DOCUMENTS, CALLS)
    train, test = (_words_alone(part) for part in kf.newswire_split(documents, documents))
    new = [row for row in test.rows() if 8 <= len(row) <= 14]
    figures: dict[str, Any] = {}
    print(f"{'milliseconds a call':40}{'one sentence':^36}{'new sentences':^36}")
    print(f"{'':40}" + f"{'median':>9}{'p95':>9}{'CPU':>9}{'CPU p95':>9}" * 2)
    for name, (call, form) in {**_kinfolk(train), **_crfsuite(train)}.items():
        again, once = (timed(call, [form(row) for row in rows], calls) for rows in ([SENTENCE.split()], new))
        figures[name] = {"one sentence": again, "new sentences": once}
        print(f"{name:40}" + "".join(f"{value:9.3f}" for one in (again, once) for value in one.values()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def timed(call: Call, given: list[Any], calls: int) -> dict[str, float]:
    """Milliseconds, once all is compiled; of one sentence `calls` times, of several each once."""
    for one in given[:3]:
        call(one)
    wall, cpu = [], []
    for one in given * calls if len(given) == 1 else given[3:calls]:
        began, worked = time.perf_counter(), time.thread_time()
        call(one)
        cpu.append(time.thread_time() - worked)
        wall.append(time.perf_counter() - began)
    found = [float(value) * 1e3 for times in (wall, cpu) for value in np.percentile(times, [50, 95])]
    return dict(zip(("median", "p95", "cpu", "cpu_p95"), found, strict=True))


def _kinfolk(train: kf.Corpus) -> dict[str, tuple[Call, Callable[[list[str]], Any]]]:
    loose: dict[str, Any] = {"n_jobs": 1, "tolerance": 0.1}
    crf = kf.LinearChainCRF(**loose).fit(train)
    models = {
        "CRF, templates document": kf.LinearChainCRF(templates="document", **loose),
        "CRF, templates letters": kf.LinearChainCRF(templates="letters", **loose),
        "MEMM": kf.MEMM(**loose),
        "MaxEnt": kf.MaxEnt(**loose),
        "MixtureTagger": kf.MixtureTagger(**loose),
        "StackedTagger": kf.StackedTagger(kf.LinearChainCRF(**loose), n_jobs=1),
        "SkipChainCRF": kf.SkipChainCRF(**loose),
    }
    rows: dict[str, tuple[Call, Callable[[list[str]], Any]]] = {
        "CRF, entities(text)": (crf.entities, _text),
        "CRF, predict([words])": (crf.predict, lambda words: [words]),
        "CRF, predict_proba([words])": (crf.predict_proba, lambda words: [words]),
    }
    for name, model in models.items():
        rows[f"{name}, entities(text)"] = (model.fit(train).entities, _text)
    return rows


def _text(words: list[str]) -> str:
    return " ".join(words).removesuffix(" .") + "."


def _crfsuite(train: kf.Corpus) -> dict[str, tuple[Call, Callable[[list[str]], Any]]]:
    import pycrfsuite

    features = PeerFeatures([_described(template) for template in for_corpus("sentence", train)])
    trainer = pycrfsuite.Trainer("lbfgs", {"c2": 0.5, "max_iterations": 30}, verbose=False)
    for words, labels in zip(train.rows(), train.label_rows(), strict=True):
        trainer.append(features.rows({"word": words}), labels)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        tagger = pycrfsuite.Tagger()
        tagger.open(f"{folder}/model")  # read whole: the file may go
    return {
        "python-crfsuite, words": (lambda words: tagger.tag(features.rows({"word": words})), list),
        "python-crfsuite, features ready": (tagger.tag, lambda words: features.rows({"word": words})),
    }


def _words_alone(corpus: kf.Corpus) -> kf.Corpus:
    names = np.repeat(np.arange(corpus.n_documents), np.diff(corpus.document_starts)).astype(str).tolist()
    return kf.Corpus.from_sentences(corpus.rows(), corpus.label_rows(), names)


if __name__ == "__main__":
    main()
