"""Kills kinfolk (kill -9) at random moments of saving, tagging, clustering and training, and says what came of it.

    make faults KILLS=300 SEED=0            or, for some of it,
    python tests/faults/faults.py --kills 50 --seed 7 --only tagging --size 2

The moments are drawn from the seed, by the clock of the work that is killed. Ends with status 1 if anything was lost,
half written, different from what it would have been, or left lying about. The other faults, of which every one is
tried in each run of the tests, are in the files `test_*.py` beside this one.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from random import Random

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "faults")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(TESTS.parent / ".numba_cache"))
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # a process that forks must not have others

from phases import Tally, disturbed, interrupting, saving, works, write_world  # noqa: E402
from works import small_files  # noqa: E402

# phase -> its share of the kills, and how often a run is killed before it comes to its end
SHARES = {
    "training crf": (0.09, 16), "training mop": (0.09, 16), "training stacked tokens": (0.07, 16),
    "training nodes": (0.06, 12), "training stacked nodes": (0.06, 12), "training records": (0.07, 12),
    "tagging": (0.17, 3), "clustering": (0.17, 3), "saving": (0.20, 0), "interrupting": (0.02, 0),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=50, help="about how many seconds a training takes")
    parser.add_argument("--only", nargs="*", default=[""], help="phases whose names begin so")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    logging.getLogger("kinfolk").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        chosen = [name for name in SHARES if name.startswith(tuple(given.only))]
        world, files = write_world(folder / "world", given.size, chosen), small_files(folder)
        total = sum(SHARES[name][0] for name in chosen)

        def one(name: str) -> Tally:
            share, per_run = SHARES[name]
            rng, kills = Random(f"{given.seed}:{name}"), max(1, round(given.kills * share / total))
            if name == "saving":
                return saving(folder / name, kills, rng, [files / "crf.kinfolk", files / "mixture-tokens.kinfolk"])
            if name == "interrupting":
                return interrupting(folder / name, kills, rng, world / "train.conll")
            return disturbed(works(world, given.size)[name], folder / name, kills, rng, per_run)

        tallies = in_processes(one, chosen, given.processes, folder)
    for tally in tallies:
        for what in tally.losses + tally.litter:
            say(f"  {tally.phase}: {what}")
    kills = sum(tally.kills for tally in tallies)
    lost, litter = (sum(len(getattr(tally, what)) for tally in tallies) for what in ("losses", "litter"))
    say(f"{kills} kills, seed {given.seed}: {lost} losses, {litter} litter")
    return int(bool(lost or litter or not kills))


def in_processes(one, names: list[str], n_processes: int, folder: Path) -> list[Tally]:  # type: ignore[no-untyped-def]
    """The phases, so many at a time, each told as it ends."""
    waiting, running, found = list(names), dict[int, str](), list[Tally]()
    while waiting or running:
        while waiting and len(running) < n_processes:
            name = waiting.pop(0)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    (folder / f"{name}.json").write_text(json.dumps(asdict(one(name))))
                    status = 0
                finally:
                    os._exit(status)
            running[child] = name
        ended, status = os.wait()
        name = running.pop(ended)
        if status:
            tally = Tally(name, losses=[f"the phase itself ended with status {status}"])
        else:
            tally = Tally(**json.loads((folder / f"{name}.json").read_text()))
        say(tally.line())
        found.append(tally)
    return found


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
