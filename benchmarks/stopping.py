"""When to stop training a tagger: held-out F1, held-out loss and CPU seconds, by corpus and setting.

    python benchmarks/stopping.py                     every labelled corpus of tokens in the data folder, three folds
    python benchmarks/stopping.py --corpus conll/4    one of them; /4: a quarter of its documents
    python benchmarks/stopping.py --model MEMM        another tagger
    python benchmarks/stopping.py --quick             a smoke test on generated newswire
    python benchmarks/stopping.py --json FILE         write all figures

Of CoNLL-2003 the training file alone is read. Each fold holds a fifth of the documents out; the loss is that of their
labels, token by token. CPU seconds are of the whole process, features included, kernels compiled before.
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
from kinfolk.papers.stacking import Documents, document_folds

CORPORA = ("conll", "conll/4", "enron", "aimed", "genia/4", "genia")
OPTIMUM = 1.5e-4
SETTINGS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "early": {"tolerance": "early"},
    **{f"optimum, l2 {l2:g}": {"tolerance": OPTIMUM, "l2": l2} for l2 in (0.1, 0.01, 1.0)},
    **{f"tolerance 0.3, l2 {l2:g}": {"tolerance": 0.3, "l2": l2} for l2 in (0.1, 0.01)},
}
LEAST = 1e-9  # probability of a label that was not expected at all


def corpus(folder: Path, name: str) -> kf.Corpus:
    which, _, share = name.partition("/")
    tokens = folder / "tokens"
    if which == "conll":
        whole = kf.read_conll(tokens / "conll2003" / "eng.train")
    elif which == "enron":
        archive = tokens / "enron_person" / "enron_person.tar.gz"
        whole = kf.Corpus.joined([kf.read_mail(archive, split) for split in ("training", "test")])
    elif which == "aimed":
        whole = kf.read_aimed([tokens / "aimed_ppi" / f"AIMed-{part}.xml" for part in ("train", "test")])
    else:
        whole = kf.read_genia(tokens / "genia" / "GENIAcorpus3.02.tgz", tokenise="words")
    kept = np.random.default_rng(1).permutation(whole.n_documents)[: whole.n_documents // int(share or 1)]
    return whole.select(np.sort(kept))


def measured(make: Any, fold: Documents, settings: dict[str, Any]) -> dict[str, float]:
    began = time.process_time()
    model = make(n_jobs=1, **settings).fit(fold.train)
    seconds, gold = time.process_time() - began, model.coding_.known(fold.test)
    table = np.concatenate(model.predict_proba(fold.test))
    rows = np.flatnonzero(gold >= 0)
    loss = -np.log(np.maximum(table[rows, gold[rows]], LEAST)).mean()
    return {"f1": 100 * model.score(fold.test), "loss": float(loss), "cpu": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("KINFOLK_DATA", "../shared/data")))
    parser.add_argument("--corpus", action="append")
    parser.add_argument("--model", default="LinearChainCRF", choices=["MaxEnt", "MEMM", "LinearChainCRF"])
    parser.add_argument("--encoding", default="auto")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    make, figures = getattr(kf, asked.model), {}
    make(n_jobs=1, tolerance=0.1).fit(kf.generate_newswire(4))  # compiles what is not yet
    for name in ("newswire",) if asked.quick else asked.corpus or CORPORA:
        whole = kf.generate_newswire(30) if asked.quick else corpus(asked.data, name)
        folds = list(document_folds(whole, 5))[: asked.folds]
        print(f"{name}: {whole.n_tokens} tokens, {asked.model}", flush=True)
        for title, settings in SETTINGS.items():
            rows = [measured(make, fold, {**settings, "encoding": asked.encoding}) for fold in folds]
            mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
            figures[f"{name}, {title}"] = mean
            print(f"  {title:24} F1 {mean['f1']:.2f}  loss {mean['loss']:.4f}  CPU {mean['cpu']:.2f} s", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
