"""Records of one long text each: seconds to train on all pairs and to cluster them, beside a commit of before.

    python benchmarks/long_texts.py                       40 texts of 170,000 characters, 780 pairs
    python benchmarks/long_texts.py --before HEAD~1       the same with the sources of that commit, and the ratio
    python benchmarks/long_texts.py --feature "edit(text)" --characters 20000

Texts come in pairs, of which a word in twenty differs. Kernels are compiled before the clock starts. Seconds are those
of the processor, of one thread: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np

WORDS = 20_000  # Zipf-distributed


def main() -> None:
    options = _options()
    if not options.before:
        print(f"{seconds(options):.2f} s")
        return
    again = [sys.executable, __file__, *(f"--{key}={getattr(options, key)}" for key in ("texts", "characters"))]
    again += [f"--feature={options.feature}"] if options.feature else []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(__file__).resolve().parents[1]
        packed = subprocess.run(["git", "archive", options.before, "src"], cwd=here, capture_output=True, check=True)
        tarfile.open(fileobj=io.BytesIO(packed.stdout)).extractall(folder, filter="data")
        found = {}
        for name, source in ((options.before, Path(folder, "src")), ("now", here / "src")):
            compiled = Path(folder, "kernels", "before" if name == options.before else "now")
            settings = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(compiled)}
            done = subprocess.run(again, env=settings, capture_output=True, text=True, check=True)
            found[name] = float(done.stdout.split()[0])
            print(f"{name}: {found[name]:.2f} s", flush=True)
    print(f"before / now: {found[options.before] / found['now']:.1f}")


def seconds(options: argparse.Namespace) -> float:
    import kinfolk as kf

    def records(characters: int) -> kf.Mentions:
        none, n = np.empty(0, np.int32), options.texts
        return kf.Mentions(
            {"text": texts(n, characters)},
            np.zeros(n, np.int32),
            none,
            none,
            clusters=np.arange(n, dtype=np.int32) // 2,
        )

    features = [options.feature] if options.feature else None
    for items in (records(300), records(options.characters)):
        began = time.process_time()
        kf.Linker(features, training="local", n_jobs=1).fit(items).predict(items)
        took = time.process_time() - began
    return took


def texts(n: int, characters: int) -> list[str]:
    rng = np.random.default_rng(0)
    letters = list("etaoinshrdlucmfwypvbgk")
    words = np.array(["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(WORDS)])
    share = 1.0 / np.arange(1, WORDS + 1)
    made = []
    for _ in range(0, n, 2):
        text = rng.choice(words, characters // 4, p=share / share.sum())
        for _ in range(2):
            other = text.copy()
            other[rng.integers(0, len(text), len(text) // 20)] = rng.choice(words, len(text) // 20)
            made.append(" ".join(other)[:characters])
    return made[:n]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--characters", type=int, default=170_000)
    parser.add_argument("--feature", help="one comparison; by default those chosen for such texts")
    parser.add_argument("--before", help="a commit to compare with")
    return parser.parse_args()


if __name__ == "__main__":
    main()
