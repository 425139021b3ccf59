"""The labelling loop: what answers to chosen pairs are worth, and how long the next question takes.

    python benchmarks/labelling.py                        both parts
    python benchmarks/labelling.py learn --sets restaurants --seeds 1 --labels 0 25
    python benchmarks/labelling.py page --records 50000 --answers 40
    python benchmarks/labelling.py --quick                a smoke test of both
    python benchmarks/labelling.py --json FILE            write all figures

Learn   answers are simulated from the truth, on the training half of each set; pairwise F1 on the other half after 0,
        25, 50 and 100 answers, of pairs that the loop chose and beside it of as many candidates drawn at random; "all"
        is training on the clusters of the whole half. Means over seeds, each with halves of its own
Page    generated customers in a CSV file, `kinfolk records label` as a process of its own, and Chromium: milliseconds
        from a key to the next pair on the page, with the model trained again in the background every ten answers; then
        the process is killed, and the file has every answer

Data sets are read from the folder named by KINFOLK_DATA, or ../shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

import kinfolk as kf
from kinfolk.linking.blocking import blocked
from kinfolk.papers.structured import SETS, RecordSet, halves

PARTS = ("learn", "page")
LABELS, SEEDS, RECORDS, ANSWERS = (0, 25, 50, 100), 3, 50_000, 40
NAMES = [one.name for one in SETS]
RULES = ["key(postcode + surname[:1])", "key(date_of_birth)", "sorted(surname + given_name, 5)"]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
Answer = dict[str, Any]


def main() -> None:
    options = _options()
    figures: Answer = {}
    for part in options.parts or PARTS:
        figures[part] = {"learn": learn, "page": page}[part](options)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; both if none is named")
    parser.add_argument("--quick", action="store_true", help="everything small")
    parser.add_argument("--sets", nargs="+", metavar="SET", choices=NAMES, help="data sets of learn")
    parser.add_argument("--seeds", type=int, metavar="N", help=f"halves and seeds of learn ({SEEDS})")
    parser.add_argument("--labels", type=int, nargs="+", metavar="N", help="numbers of answers of learn")
    parser.add_argument("--records", type=int, metavar="N", help=f"customers of page ({RECORDS})")
    parser.add_argument("--answers", type=int, metavar="N", help=f"of page ({ANSWERS})")
    parser.add_argument("--jobs", type=int, default=1, help="threads of kinfolk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    options = parser.parse_args()
    strange = [part for part in options.parts if part not in PARTS]
    if strange:
        parser.error(f"no part {strange[0]!r}; there are {', '.join(PARTS)}")
    quick = options.quick
    options.sets = options.sets or (["restaurants"] if quick else NAMES)
    options.seeds = options.seeds or (1 if quick else SEEDS)
    options.labels = sorted(options.labels or ((0, 25) if quick else LABELS))
    options.records = options.records or (2_000 if quick else RECORDS)
    options.answers = options.answers or (15 if quick else ANSWERS)
    return options


# -- learn --------------------------------------------------------------------------------------------


def learn(options: argparse.Namespace) -> Answer:
    folder = Path(os.environ.get("KINFOLK_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    head = [f"{n} {how}" for how in ("chosen", "random") for n in options.labels] + ["all"]
    print("pairwise F1 on the test half".ljust(30), *(name.rjust(11) for name in head))
    figures: Answer = {}
    for one in (found for found in SETS if found.name in options.sets):
        items = one.read(folder / "mentions" / "records")
        rows = [_curves(one, items, seed, options) for seed in range(options.seeds)]
        figures[one.name] = {name: [row[name] for row in rows] for name in rows[0]}
        print(one.name.ljust(30), *(f"{mean(figures[one.name][name]):11.2f}" for name in head), flush=True)
    return figures


def _curves(one: RecordSet, items: kf.Mentions, seed: int, options: argparse.Namespace) -> Answer:
    (train, _), (test, _) = (blocked(half, one.rules) for half in halves(items, seed))
    settings: Any = {"blocking": one.rules, "clusterer": one.clusterer(), "n_jobs": options.jobs}
    found: Answer = {}
    loop = kf.ActiveLinker(kf.Linker(**settings), train, random_state=seed)
    for n in options.labels:
        while sum(loop.counts.values()) < n and (question := loop.ask()) is not None:
            loop.tell(question, _truth(train, question.left, question.right))
        if n and n % 10:
            loop.update()
        found[f"{n} chosen"] = 100 * loop.linker.score(test)
    bare = loop.linker.candidates(kf.linking.mentions.replace(train, clusters=None))
    drawn = np.random.default_rng(seed).permutation(train.n_pairs)
    for n in options.labels:
        pairs = [(train.name(int(train.left[k])), train.name(int(train.right[k]))) for k in drawn[:n]]
        labels = [(a, b, _truth(train, a, b)) for a, b in pairs]
        linker = kf.Linker(**settings)
        found[f"{n} random"] = 100 * (linker.fit(bare, pairs=labels) if labels else linker.fit(bare)).score(test)
    found["all"] = 100 * kf.Linker(**settings).fit(train).score(test)
    return found


def _truth(items: kf.Mentions, left: str, right: str) -> bool:
    assert items.clusters is not None
    return bool(items.clusters[items.number(left)] == items.clusters[items.number(right)])


# -- page ---------------------------------------------------------------------------------------------


def page(options: argparse.Namespace) -> Answer:
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    people = kf.generate_customers(options.records, seed=1)
    assert people.clusters is not None
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = Path(scratch)
        _write(people, folder / "people.csv")
        part = people.take(people.clusters % 20 == 0)  # a model to begin with
        kf.Linker(blocking=RULES, n_jobs=options.jobs).fit(part).save(folder / "start.kinfolk")
        began = time.perf_counter()
        server = _serve(folder, options.jobs)
        try:
            address = _address(server)
            opened = time.perf_counter() - began
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            taken, updates = _answer(browser.new_page(), address, people, options.answers)
            browser.close()
        finally:
            server.kill()  # kill -9: nothing that was answered may be lost
            server.wait()
        kept = (folder / "labels.csv").read_text().count("\n") - 1
    figures = {
        "records": options.records, "seconds to the page": opened, "answers": options.answers, "kept": kept,
        "updates seen": updates, "median ms": median(taken), "largest ms": max(taken), "ms": taken,
    }  # fmt: skip
    print(
        f"{options.records:,} records: page after {opened:.1f} s; from a key to the next pair {median(taken):.1f} ms "
        f"(median), {max(taken):.1f} ms (largest of {len(taken)}, {updates} updates); {kept} answers kept after a kill"
    )
    return figures


def _write(people: kf.Mentions, path: Path) -> None:
    columns: Any = {name: column.strings() for name, column in people.columns.items()}  # type: ignore[union-attr]
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *columns])
        for i, values in enumerate(zip(*columns.values(), strict=True)):
            rows.writerow([people.name(i), *(value or "" for value in values)])


def _serve(folder: Path, jobs: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kinfolk", "records", "label", "start.kinfolk", "--records", "people.csv"]
    command += ["-o", "labels.csv", "--no-open", "--jobs", str(jobs)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    for line in server.stderr:
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
        if found:
            return found[0]
    raise SystemExit("the page was not served")


def _answer(window: Any, address: str, people: kf.Mentions, answers: int) -> tuple[list[float], int]:
    """Milliseconds from each key to the next pair, and how often the model was updated meanwhile."""
    window.goto(address)
    taken: list[float] = []
    for number in range(1, answers + 1):
        left, right = window.locator("th.label-id").all_text_contents()
        window.keyboard.press("y" if _truth(people, left, right) else "n")
        section = window.wait_for_selector(f"section[data-answers='{number}'][data-milliseconds]")
        taken.append(float(section.get_attribute("data-milliseconds")))
        time.sleep(0.2)  # somebody reads; training goes on
    return taken, int(section.get_attribute("data-updates"))


if __name__ == "__main__":
    main()
