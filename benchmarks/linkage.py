"""Record linkage and coreference: beside Splink, dedupe and scikit-learn, in training speed, and as records grow.

    python benchmarks/linkage.py                          everything
    python benchmarks/linkage.py peers --sets restaurants --seeds 1
    python benchmarks/linkage.py speed --documents 8      fewer documents of LitBank (80 otherwise)
    python benchmarks/linkage.py scale --sizes 10000 20000
    python benchmarks/linkage.py --quick                  a smoke test of all three
    python benchmarks/linkage.py --json FILE              write all figures

Peers   the same records, fields and candidate pairs for everyone; half the entities train and half test, the mean over
        three such halves; "unlabelled" and "EM" learn from the test half itself, without its truth; see
        linkage_peers.py for the settings of each
Speed   pairs of mentions of LitBank: local training and five structured rounds, against the same six fits by
        scikit-learn on one row a pair, dense as asked for, and sparse; ratios count all that kinfolk does, features
        and E-steps and clustering included, and only the fits of scikit-learn; "gap" is how far the objective of the
        local fit ends above its least value
Scale   generated customers: block, learn from 5 % of the entities, predict and cluster all

Each contestant runs in a process of its own, one at a time; peak memory is of that process. Data sets are read from the
folder named by KINFOLK_DATA, or ../shared/data beside the checkout, and left out where they are absent.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any

HERE = Path(__file__).resolve().parent
PARTS = ("peers", "speed", "scale")
SIZES = (100_000, 300_000, 1_000_000)
SETS = ("FEBRL 3", "restaurants", "Cora references", "DBLP-ACM", "Abt-Buy")
DOCUMENTS, ROUNDS, SEEDS, TIMES = 80, 5, 3, 7
MOST_TIME = 0.1  # of scikit-learn's on dense rows
CONTESTANTS = (
    "kinfolk local", "kinfolk structured", "kinfolk unlabelled", "splink", "splink EM", "dedupe", "dedupe tuned",
    "logistic + components", "logistic + average link",
)  # fmt: skip
Answer = dict[str, Any]


def main() -> None:
    options = _options()
    figures: Answer = {"machine": _machine()}
    with tempfile.TemporaryDirectory() as scratch:
        for part in options.parts or PARTS:
            figures[part] = {"peers": peers, "speed": speed, "scale": scale}[part](options, scratch)
            if options.json:
                options.json.write_text(json.dumps(figures, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="everything small")
    parser.add_argument("--sets", nargs="+", metavar="SET", choices=SETS, help="data sets of peers")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", choices=CONTESTANTS, help="of peers")
    parser.add_argument("--seeds", type=int, metavar="N", help=f"halves of peers ({SEEDS})")
    parser.add_argument("--documents", type=int, metavar="N", help=f"documents of LitBank ({DOCUMENTS})")
    parser.add_argument("--skip-sparse", action="store_true", help="leave out scikit-learn's sparse rows")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="numbers of generated records")
    parser.add_argument("--jobs", type=int, default=2, help="threads of kinfolk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    options = parser.parse_args()
    strange = [part for part in options.parts if part not in PARTS]
    if strange:
        parser.error(f"no part {strange[0]!r}; there are {', '.join(PARTS)}")
    options.sets = options.sets or (["restaurants"] if options.quick else list(SETS))
    options.seeds = options.seeds or (1 if options.quick else SEEDS)
    options.documents = options.documents or (3 if options.quick else DOCUMENTS)
    options.sizes = options.sizes or ([5_000, 10_000] if options.quick else list(SIZES))
    return options


def _machine() -> Answer:
    packages = {name: version(name) for name in ("kinfolk", "scikit-learn", "splink", "dedupe", "numpy", "numba")}
    return {"system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count(), **packages}


def data_folder() -> Path:
    return Path(os.environ.get("KINFOLK_DATA") or HERE.parents[1] / "shared" / "data")


def run(script: str, **asked: Any) -> Answer:
    """The answer of one of the scripts beside this one, in a process of its own, with the load it met."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), json.dumps(asked)], capture_output=True, text=True, env=dict(os.environ)
    )
    if done.returncode:
        raise SystemExit(f"{script} {json.dumps(asked)}\n{done.stderr}")
    answer: Answer = json.loads(done.stdout.splitlines()[-1])
    return answer


# -- peers --------------------------------------------------------------------------------------------


def peers(options: argparse.Namespace, scratch: str) -> list[Answer]:
    rows: list[Answer] = []
    if not (data_folder() / "mentions" / "records").is_dir():
        print("peers: skipped, no records here; name the data folder with KINFOLK_DATA")
        return rows
    for name in options.sets:
        shown = False
        for contestant in options.contestants or CONTESTANTS:
            runs = [
                run("linkage_peers.py", set=name, contestant=contestant, seed=seed, jobs=options.jobs,
                    folder=str(data_folder()))
                for seed in range(options.seeds)
            ]  # fmt: skip
            rows += runs
            if not shown:
                facts = f"{mean(r['test_pairs'] for r in runs):,.0f} test pairs, completeness"
                print(f"\n{name}: {mean(r['train_pairs'] for r in runs):,.0f} training and {facts} "
                      f"{mean(100 * r['completeness'] for r in runs):.2f} %")  # fmt: skip
                print(f"{'':<26}{'pair F1':>9}{'precision':>11}{'recall':>8}{'cluster F1':>12}{'fit s':>8}"
                      f"{'predict s':>11}{'peak MB':>9}{'load':>6}")  # fmt: skip
                shown = True
            values = [mean(100 * r[key] for r in runs) for key in ("pair_f1", "precision", "recall", "cluster_f1")]
            cost = [mean(r[key] for r in runs) for key in ("fit_seconds", "predict_seconds", "peak_mb", "load_average")]
            print(f"{contestant:<26}{values[0]:>9.2f}{values[1]:>11.2f}{values[2]:>8.2f}{values[3]:>12.2f}"
                  f"{cost[0]:>8.2f}{cost[1]:>11.2f}{cost[2]:>9.0f}{cost[3]:>6.1f}", flush=True)  # fmt: skip
    return rows


# -- speed --------------------------------------------------------------------------------------------


def speed(options: argparse.Namespace, scratch: str) -> Answer:
    if not (data_folder() / "mentions" / "litbank" / "litbank.tar.gz").exists():
        print("speed: skipped, no LitBank here; name the data folder with KINFOLK_DATA")
        return {}
    asked = {"data": str(data_folder()), "folder": scratch, "documents": options.documents, "rounds": ROUNDS}
    own = {
        told: run("linkage_scale.py", what="kinfolk", conjunctions=joined, jobs=options.jobs, **asked)
        for told, joined in (("kinfolk", False), ("kinfolk, conjunctions", True))
    }
    ours = own["kinfolk"]
    told = f"{ours['pairs']:,} pairs, {ours['rows']:,} distinct rows, {ours['fits']} fits"
    print(f"\nTraining on {options.documents} documents of LitBank: {told}")
    print(f"{'':<26}{'weights':>8}{'features s':>12}{'fits s':>9}{'all s':>9}{'CPU s':>9}{'gap':>10}{'peak MB':>9}"
          f"{'load':>6}")  # fmt: skip
    found: Answer = dict(own)
    for name, one in own.items():
        features = sum(seconds for stage, seconds in one["within"].items() if stage in FEATURES)
        gap = f"{one['objectives'][0] / one['optimum'] - 1:.1e}" if one["optimum"] else ""
        tell_speed(name, one, one["weights"], features, one["within"]["fits"], one["seconds"], gap)
        print(f"{'':<4}{shares(one['within'])}", flush=True)
    for form in ("sparse", "dense")[options.skip_sparse :]:
        one = run("linkage_scale.py", what="sklearn", form=form, fits=ours["fits"], jobs=options.jobs, folder=scratch)
        found[f"scikit-learn, {form}"] = one
        fits, expanding = sum(one["fit_seconds"]), one["expand_seconds"]
        gap = f"{one['objectives'][0] / ours['optimum'] - 1:.1e}"
        tell_speed(f"scikit-learn, {form}", one, one["columns"], expanding, fits, expanding + fits, gap)
        apart = max(abs(a / b - 1) for a, b in zip(one["objectives"], ours["objectives"], strict=True))
        print(f"{'':<4}objectives of the fits differ from kinfolk's by {apart:.1e} at most")
        asked_for = f" (at most {MOST_TIME:g} asked for)" if form == "dense" else ""
        for told, mine in own.items():
            cpu = mine["cpu_seconds"] / one["cpu_seconds"]
            print(f"{'':<4}all of {told} / these fits: {mine['seconds'] / fits:.3f}{asked_for}, CPU {cpu:.3f}; "
                  f"fits alone {mine['within']['fits'] / fits:.3f}", flush=True)  # fmt: skip
    found["ranking"] = one = run("linkage_scale.py", what="ranking", data=str(data_folder()),
                                 documents=options.documents, times=TIMES)  # fmt: skip
    print(f"{'':<4}CPU of ranking / local training, one thread, median of {TIMES}: {one['ratio']:.2f} "
          f"({one['least']:.2f} to {one['most']:.2f})", flush=True)  # fmt: skip
    return found


def tell_speed(name: str, one: Answer, weights: int, features: float, fits: float, whole: float, gap: str) -> None:
    print(f"{name:<26}{weights:>8,}{features:>12.2f}{fits:>9.2f}{whole:>9.2f}{one['cpu_seconds']:>9.2f}{gap:>10}"
          f"{one['peak_mb']:>9.0f}{one['load_average']:>6.1f}", flush=True)  # fmt: skip


FEATURES = ("choosing comparisons", "bins", "once an item", "coding and distinct rows", "weights on", "grouping rows")


# -- scale --------------------------------------------------------------------------------------------


def scale(options: argparse.Namespace, scratch: str) -> list[Answer]:
    print(f"\nGenerated customers, learned from 5 % of them\n{'records':>9}{'pairs':>12}{'block s':>9}{'fit s':>8}"
          f"{'predict s':>11}{'cluster s':>11}{'all s':>8}{'CPU s':>8}{'µs CPU a pair':>15}{'peak MB':>9}"
          f"{'bytes a pair':>14}{'pair F1':>9}{'load':>6}")  # fmt: skip
    rows = []
    for records in options.sizes:
        row = run("linkage_scale.py", what="scale", records=records, jobs=options.jobs)
        rows.append(row)
        took, peaks = row["seconds"], row["peaks"]
        whole, cpu = sum(took.values()) - took["generate"], row["cpu_seconds"]
        added = 1e6 * (peaks["cluster"] - peaks["start"]) / row["pairs"]
        print(f"{records:>9,}{row['pairs']:>12,}{took['block']:>9.2f}{took['fit']:>8.2f}{took['predict']:>11.2f}"
              f"{took['cluster']:>11.2f}{whole:>8.2f}{cpu:>8.2f}{1e6 * cpu / row['pairs']:>15.2f}"
              f"{peaks['cluster']:>9.0f}{added:>14.0f}{100 * row['pair_f1']:>9.2f}{row['load_average']:>6.1f}",
              flush=True)  # fmt: skip
    for row in rows:
        print(f"{row['records']:>9,} fit:     {shares(row['within_fit'])}")
        print(f"{'':>9} predict: {shares(row['within_predict'])}")
    return rows


def shares(seconds: dict[str, float]) -> str:
    """The stages that count, the longest first."""
    whole = sum(seconds.values())
    listed = sorted(seconds.items(), key=lambda one: -one[1])
    return ", ".join(f"{name} {took:.2f} s" for name, took in listed if took > 0.01 * whole)


if __name__ == "__main__":
    main()
