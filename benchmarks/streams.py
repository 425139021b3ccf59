"""What tagging a long file costs: seconds and peak memory of `kinfolk tokens tag`, from a file and from a pipe.

    python benchmarks/streams.py                     a file of four million tokens
    python benchmarks/streams.py --tokens 200000     a smaller one
    python benchmarks/streams.py --source ../before/src    the same by the code of another checkout too, in turn
    python benchmarks/streams.py --json FILE         write all figures

The file is CoNLL-2003's eng.testa repeated, or, without that, generated newswire. Each run is a process of its own:
seconds are its CPU time and its wall time, start and loading of the model included; memory is its peak.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_MEGABYTES = 400
OWN = Path(__file__).parent.parent / "src"
DATA = Path(os.environ.get("KINFOLK_DATA", "../shared/data")) / "tokens" / "conll2003"


def make(folder: Path, tokens: int) -> int:
    """A model and a file to tag in the folder; how many tokens it has."""
    from kinfolk import LinearChainCRF, newswire_split, read_conll, write_conll

    if (DATA / "eng.testa").exists():
        train, test = read_conll(DATA / "eng.testb"), read_conll(DATA / "eng.testa")
    else:
        train, test = newswire_split(train=200, test=200, seed=1)
    LinearChainCRF(templates="document", tolerance=0.02).fit(train).save(folder / "model.kinfolk")
    write_conll(test, folder / "once.conll")
    times = max(1, round(tokens / test.n_tokens))
    once = (folder / "once.conll").read_bytes()
    with open(folder / "long.conll", "wb") as file:
        for _ in range(times):
            file.write(once)
    return times * int(test.n_tokens)


def run(source: Path, folder: Path, into: str, piped: bool) -> dict[str, float]:
    """Seconds and the peak of one process that tags the file."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    asked = [sys.executable, "-m", "kinfolk", "tokens", "tag", "model.kinfolk", "-" if piped else "long.conll"]
    began = time.perf_counter()
    shell = f"cat long.conll | {' '.join(asked)} -o {into}" if piped else " ".join([*asked, "-o", into])
    child = f"import os, resource, sys; os.system({shell!r}) and sys.exit(1); u = resource.getrusage(resource.RUSAGE_CHILDREN); print(u.ru_maxrss, u.ru_utime + u.ru_stime)"  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", child], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    peak, cpu = map(float, done.stdout.split()[-2:])
    unit = 1e-6 if sys.platform == "darwin" else 1024e-6
    return {"cpu": cpu, "wall": time.perf_counter() - began, "peak_mb": peak * unit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4_300_000)
    parser.add_argument("--source", type=Path, help="the src folder of another checkout, to be measured beside this")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), {}
        tokens = make(folder, asked.tokens)
        print(f"{tokens:,} tokens, {(folder / 'long.conll').stat().st_size / 1e6:.0f} MB")
        sources = {"this": OWN} | ({} if asked.source is None else {"other": asked.source.resolve()})
        for piped in (False, True):
            for what, source in sources.items():
                row = run(source, folder, f"{what}.conll", piped)
                rows[f"{what}, {'pipe' if piped else 'file'}"] = row
                print(f"{what:>6} {'pipe' if piped else 'file'}:", ", ".join(f"{k} {v:.1f}" for k, v in row.items()))
        if asked.source is not None:
            same = (folder / "this.conll").read_bytes() == (folder / "other.conll").read_bytes()
            print("the same answers" if same else "OTHER ANSWERS")
    if asked.json:
        asked.json.write_text(json.dumps({"tokens": tokens, **rows}, indent=2))


if __name__ == "__main__":
    main()
