"""Whether probabilities of entities come true: expected calibration error on CoNLL-2003, trained on eng.train alone.

    python benchmarks/calibration.py                  every tagger, with `calibrate=True` and without
    python benchmarks/calibration.py --model crf      one of them: crf, stacked, mixture, skip

Of the entities that a tagger predicts, the probability it gives each, and whether the very same entity is there: ten
bins of as many entities each (those of reports) and ten of equal width, and by how much the share that is there misses
the mean probability of its bin, on average over entities. Nothing is chosen on testa or testb.
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
from kinfolk.report.scores import calibration
from kinfolk.text import schemes

MODELS: dict[str, Any] = {
    "crf": lambda calibrate: kf.LinearChainCRF(calibrate=calibrate),
    "document": lambda calibrate: kf.LinearChainCRF(templates="document", calibrate=calibrate),
    "stacked": lambda calibrate: kf.StackedTagger(kf.LinearChainCRF(), calibrate=calibrate),
    "mixture": lambda calibrate: kf.MixtureTagger(calibrate=calibrate),
    "skip": lambda calibrate: kf.SkipChainCRF(calibrate=calibrate),
}


def folder() -> Path:
    return Path(os.environ.get("KINFOLK_DATA", "../shared/data")) / "tokens" / "conll2003"


def entities(model: Any, corpus: kf.Corpus) -> tuple[Any, Any]:
    """Of every predicted entity its probability, and whether it is there."""
    starts, found = corpus.sentence_starts, model.predict_entities(corpus)
    true = {tuple(span) for span in schemes.spans(corpus.labels, starts, corpus.scheme)}
    right = [(one.start + starts[one.sentence], one.end + starts[one.sentence], one.type) in true for one in found]
    return np.array([one.confidence for one in found]), np.array(right, bool)


def in_equal_widths(sure: Any, right: Any, bins: int = 10) -> float:
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps = np.abs(np.bincount(place, sure, bins) - np.bincount(place, right, bins))
    return float(gaps.sum() / max(len(sure), 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=["crf", "stacked"])
    parser.add_argument("--calibrate", choices=("yes", "no", "both"), default="both")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    train, *tests = (kf.read_conll(folder() / f"eng.{name}") for name in ("train", "testa", "testb"))
    rows = []
    for name in options.model:
        for calibrate in {"yes": (True,), "no": (False,), "both": (False, True)}[options.calibrate]:
            began = time.process_time()
            model = MODELS[name](calibrate).fit(train)
            row: dict[str, Any] = {"model": name, "calibrate": calibrate}
            row["seconds"] = round(time.process_time() - began, 1)
            for part, corpus in zip(("testa", "testb"), tests, strict=True):
                sure, right = entities(model, corpus)
                found = calibration(sure, right)
                row[part] = {
                    "F1": round(100 * model.score(corpus), 2), "error": round(found.error, 4),
                    "in equal widths": round(in_equal_widths(sure, right), 4), "brier": round(found.brier, 4),
                    "mean": [round(float(sure.mean()), 4), round(float(right.mean()), 4)],
                    "bins": [[round(p, 3), round(y, 3)] for p, y in zip(found.predicted, found.observed, strict=True)],
                }  # fmt: skip
            rows.append(row)
            print(json.dumps(row), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
