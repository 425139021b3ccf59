"""Record linkage: structured beside local training on seven sets, half the entities for training and half for the test.

Entities are never split: all records of one are in the same half. The threshold of the clusterer is chosen by
cross-validation inside the training half, and the round by training pairs; nothing looks at the test half.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinfolk.linking.blocking import blocked
from kinfolk.linking.clusterers import AverageLink, Clusterer, OneToOne
from kinfolk.linking.linker import Linker
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.records import read_records
from kinfolk.papers.harness import Report, Row, Tell

SPLITS = 3
FOLDS = 5
SHOWN = ("stage", "error", "recall", "precision", "f1", "cluster_f1", "completeness")
PEOPLE = (
    "rare(given_name + surname + street_number + address_1 + address_2 + suburb + postcode, 200, 2)",
    "key(postcode + surname[:1])",
    "key(soundex(given_name) + soundex(surname))",
    "key(date_of_birth)",
    "key(soc_sec_id)",
    "key(given_name + suburb)",
)


@dataclass(frozen=True)
class RecordSet:
    name: str
    read: Callable[[Path], Mentions]
    rules: tuple[str, ...]
    clusterer: Callable[[], Clusterer]


def _febrl(number: int) -> Callable[[Path], Mentions]:
    def read(folder: Path) -> Mentions:
        file = folder / "febrl" / f"dataset{number}.csv"
        return read_records(file, id="rec_id", cluster_from_id=r"rec-(\d+)-")

    return read


def _cora(folder: Path) -> Mentions:
    return read_records(
        folder / "cora" / "cora.csv", id="Entity Id", truth=folder / "cora" / "cora_gt.csv", delimiter="|"
    )


def _restaurants(folder: Path) -> Mentions:
    place = folder / "restaurant"
    return read_records(place / "restaurantProfiles.csv", truth=place / "duplicates.csv", delimiter="|")


def _two(place: str, first: str, second: str, delimiter: str) -> Callable[[Path], Mentions]:
    def read(folder: Path) -> Mentions:
        own = folder / place
        return read_records(own / f"{first}.csv", own / f"{second}.csv", truth=own / "gt.csv", delimiter=delimiter)

    return read


SETS = (
    RecordSet("FEBRL 1", _febrl(1), PEOPLE, AverageLink),
    RecordSet("FEBRL 2", _febrl(2), PEOPLE, AverageLink),
    RecordSet("FEBRL 3", _febrl(3), PEOPLE, AverageLink),
    RecordSet("restaurants", _restaurants, ("rare(name + addr, 20)", "key(digits(phone))"), AverageLink),
    RecordSet(
        "Cora references", _cora, ("rare(title, 130, 2)", "rare(author, 130, 2)", "sorted(title, 20)"), AverageLink
    ),
    RecordSet(
        "DBLP-ACM",
        _two("dblp_acm", "dblp", "acm", "%"),
        ("rare(title, 50, 2)", "sorted(title, 5)", "rare(authors, 50, 2)"),
        OneToOne,
    ),
    RecordSet(
        "Abt-Buy", _two("abt_buy", "abt", "buy", "|"), ("rare(name, 100)", "rare(name + description, 50)"), OneToOne
    ),
)


def run(data: Path, tell: Tell, jobs: int) -> Report:
    """`data` has the layout of the data folder."""
    began = time.perf_counter()
    rows = [row for one in SETS for row in _rows(one, data / "mentions" / "records", tell, jobs)]
    settings = {
        "splits": SPLITS, "folds": FOLDS, "blocking": {one.name: one.rules for one in SETS},
        "clusterer": {one.name: one.clusterer.__name__ for one in SETS},
    }  # fmt: skip
    return Report("slt-records", rows, time.perf_counter() - began, settings, SHOWN)


def _rows(one: RecordSet, folder: Path, tell: Tell, jobs: int) -> list[Row]:
    items = one.read(folder)
    rows: list[Row] = []
    for seed in range(SPLITS):
        (train, _), (test, report) = (blocked(half, one.rules) for half in halves(items, seed))
        for training in ("local", "structured"):
            began = time.perf_counter()
            linker = Linker(training=training, clusterer=one.clusterer(), folds=FOLDS, n_jobs=jobs).fit(train)
            found = linker.evaluate(test)
            for stage, measured in (("before", found["pairs before"]), ("after", found["pairs"])):
                figures = {key: 100 * measured[key] for key in ("error", "recall", "precision", "f1")}
                row = {"dataset": one.name, "model": training, "split": f"seed {seed}", "stage": stage, **figures}
                rows.append({**row, "completeness": 100 * (report.pair_completeness or 0.0)})
            rows[-1] |= {"cluster_f1": 100 * found["clusters"]["f1"], "threshold": linker.clusterer_.threshold}
            rows[-1]["kept_round"] = linker.best_round_
            seconds = time.perf_counter() - began
            tell(f"{one.name}, {training}, seed {seed}: {seconds:.1f} s, F1 {100 * found['pairs']['f1']:.2f}")
    return [*rows, *_means(rows)]


def halves(items: Mentions, seed: int) -> tuple[Mentions, Mentions]:
    """Half the entities, those of one record among them, and the other half."""
    assert items.clusters is not None
    entities = np.random.default_rng(seed).permutation(np.unique(items.clusters))
    first = np.isin(items.clusters, entities[: len(entities) // 2])
    return items.take(first), items.take(~first)


def _means(rows: list[Row]) -> list[Row]:
    """A row for the mean over the splits, by model and stage."""
    found: list[Row] = []
    for model in ("local", "structured"):
        for stage in ("before", "after"):
            chosen = [row for row in rows if row["model"] == model and row["stage"] == stage]
            mean: dict[str, Any] = {**chosen[0], "split": "mean"}
            for key in SHOWN[1:]:
                if key in chosen[0]:
                    mean[key] = float(np.mean([row[key] for row in chosen]))
            found.append({key: value for key, value in mean.items() if key not in ("threshold", "kept_round")})
    return found
