"""What stacking a tagger costs, beside the tagger alone: CPU seconds of training, and entity F1.

    python benchmarks/stacked_tokens.py               CoNLL-2003: the CRF alone, then stacked, with default settings
    python benchmarks/stacked_tokens.py --quick       a smoke test on generated newswire
    python benchmarks/stacked_tokens.py --json FILE   write all figures

CPU seconds are of the whole process, threads together, so that other work on the machine counts little; both models are
trained in one process, one after the other, kernels compiled before.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from kinfolk import Corpus, LinearChainCRF, StackedTagger, newswire_split, read_conll

MOST = 3.5  # times the CPU seconds of the CRF alone
FOLDER = Path("tokens/conll2003")


def data(folder: Path | None) -> tuple[Corpus, dict[str, Corpus]]:
    """What is trained on, and what is scored."""
    if folder is None:
        train, test = newswire_split(train=60, test=30, seed=1)
        return train, {"test": test}
    return read_conll(folder / "eng.train"), {name: read_conll(folder / f"eng.{name}") for name in ("testa", "testb")}


def measured(model: Any, train: Corpus, tests: dict[str, Corpus]) -> dict[str, float]:
    began, wall = time.process_time(), time.perf_counter()
    model.fit(train)
    row = {"cpu": time.process_time() - began, "wall": time.perf_counter() - wall}
    return row | {name: 100 * model.score(corpus) for name, corpus in tests.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("KINFOLK_DATA", "../shared/data")))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="how long each level takes")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.verbose:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
    small, _ = newswire_split(train=8, test=4, seed=1)
    StackedTagger(LinearChainCRF(templates="document", tolerance=0.1)).fit(small)  # compiles what is not yet
    train, tests = data(None if asked.quick else asked.data / FOLDER)
    models = {
        "alone": LinearChainCRF(templates="document"),
        "stacked": StackedTagger(LinearChainCRF(templates="document"), verbose=int(asked.verbose)),
    }
    rows = {}
    for name, model in models.items():
        rows[name] = measured(model, train, tests)
        print(name, ", ".join(f"{key} {value:.2f}" for key, value in rows[name].items()), flush=True)
    ratio = rows["stacked"]["cpu"] / rows["alone"]["cpu"]
    print(f"stacking costs {ratio:.2f} times the CPU seconds of the CRF alone (at most {MOST} is wanted)")
    if asked.json:
        asked.json.write_text(json.dumps({**rows, "ratio": ratio}, indent=2))


if __name__ == "__main__":
    main()
