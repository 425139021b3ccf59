"""What a checkpoint costs, and whether training that is killed goes on to the same weights, on CoNLL-2003's eng.train.

    python benchmarks/checkpoint.py                     CPU time with and without, size and time of a state
    python benchmarks/checkpoint.py --kills 5           so many times kill -9 at random moments of one run, then on
    python benchmarks/checkpoint.py --model stacked     crf, mixture or stacked

`--tolerance` makes training longer than it is by default. Data are read from the folder named by KINFOLK_DATA, or
../shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kinfolk as kf
from kinfolk.core.checkpoint import Run

MODELS: dict[str, Any] = {
    "crf": lambda **how: kf.LinearChainCRF(templates="document", **how),
    "mixture": lambda **how: kf.MixtureTagger(**how),
    "stacked": lambda **how: kf.StackedTagger(kf.LinearChainCRF(**how)),
}


def train(model: str, tolerance: float, checkpoint: Path | None) -> str:
    """The digest of what was learned."""
    folder = Path(os.environ.get("KINFOLK_DATA", "../shared/data")) / "tokens" / "conll2003"
    found = MODELS[model](tolerance=tolerance).fit(kf.read_conll(folder / "eng.train"), checkpoint=checkpoint)
    arrays = found.to_state().arrays
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


def cost(model: str, tolerance: float, folder: Path) -> None:
    train(model, 0.5, None)  # kernels are compiled
    written: list[float] = []
    write = Run._write

    def timed(self: Run) -> None:
        began = time.perf_counter()
        write(self)
        written.append(time.perf_counter() - began)

    Run._write = timed  # type: ignore[method-assign]
    spent = {}
    for name, path in (("without", None), ("with", folder / "run")):
        wall, cpu = time.perf_counter(), time.process_time()
        digest = train(model, tolerance, path)
        spent[name] = time.process_time() - cpu
        print(f"{name}: {time.perf_counter() - wall:.1f} s, {spent[name]:.1f} s CPU, {digest[:12]}")
    size = (folder / "run").stat().st_size
    print(f"CPU time with a checkpoint: {spent['with'] / spent['without']:.3f} times that without")
    print(f"{len(written)} states, {size / 1e6:.0f} MB in the end, {max(written):.2f} s at most to write one")


def kills(model: str, tolerance: float, times: int, seed: int, folder: Path) -> None:
    """A process is killed after a random share of what a run takes, again and again, and then let go on."""
    began = time.perf_counter()
    expected = train(model, tolerance, None)
    whole, rng = time.perf_counter() - began, random.Random(seed)
    again = [sys.executable, __file__, "--model", model, "--tolerance", str(tolerance), "--run", str(folder / "run")]
    for number in range(times):
        process = subprocess.Popen(again, stdout=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.1, 1.0) * whole)
            print(f"kill {number}: it was done before")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    found = subprocess.run(again, check=True, capture_output=True, text=True).stdout.strip()
    same = "the same" if found == expected else "OTHER"
    print(f"a run takes {whole:.1f} s; after {times} kills: {same} weights, beside them {sorted(os.listdir(folder))}")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--model", choices=MODELS, default="crf")
    words.add_argument("--tolerance", type=float, default=1e-5)
    words.add_argument("--kills", type=int, default=0)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--run", type=Path, help="only train, with this checkpoint")
    given = words.parse_args()
    if given.run is not None:
        print(train(given.model, given.tolerance, given.run))
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.kills:
            kills(given.model, given.tolerance, given.kills, given.seed, Path(folder))
        else:
            cost(given.model, given.tolerance, Path(folder))


if __name__ == "__main__":
    main()
