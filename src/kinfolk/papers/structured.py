"""What the tables of structured local training share: the settings of a row, training them, and the paper's figures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinfolk.core.files import read_utf8
from kinfolk.errors import InputError
from kinfolk.linking.blocking import blocked
from kinfolk.linking.clusterers import AverageLink, Clusterer, OneToOne
from kinfolk.linking.coref import read_coref
from kinfolk.linking.linker import Linker
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.objective import Bias
from kinfolk.linking.records import read_records
from kinfolk.papers.harness import Report, Row, Tell

# -----------------------------------------------------------------------------------------------------
# What the tables of structured local training share: the settings of a row, training them, and the paper's figu

BIASES = [("P1", 1.5), ("P1", 3.0), ("Pa", 1.5), ("Pa", 3.0)]
KINDS = {"P1": "closest", "Pa": "all"}
SHOWN = ("stage", "error", "recall", "precision", "f1", "muc_recall", "muc_precision", "muc_f1", "chosen")

# Choi and Cardie (2007), Tables 1 to 3: error, recall, precision, F1 of pairs, then recall, precision, F1 of MUC.
_AFTER = {
    ("MUC6", "BASE"): (1.50, 59.2, 56.2, 57.7, 59.0, 75.8, 66.4),
    ("MUC6", "SLT"): (1.28, 49.8, 67.3, 57.2, 56.3, 77.8, 65.3),
    ("MUC6", "SLT P1 1.5"): (1.19, 52.8, 70.6, 60.4, 59.3, 74.6, 66.1),
    ("MUC6", "SLT P1 3.0"): (1.42, 63.5, 57.9, 60.6, 67.5, 70.7, 69.1),
    ("MUC6", "SLT Pa 1.5"): (1.43, 58.6, 58.5, 58.5, 64.0, 73.6, 68.5),
    ("MUC6", "SLT Pa 3.0"): (1.71, 65.2, 50.3, 56.8, 70.5, 69.3, 69.9),
    ("MPQA", "BASE"): (9.83, 75.8, 57.0, 65.1, 75.6, 81.5, 78.4),
    ("MPQA", "SLT"): (6.39, 62.1, 80.6, 70.2, 69.1, 88.2, 77.5),
    ("MPQA", "SLT P1 1.5"): (6.54, 64.9, 77.4, 70.6, 72.2, 84.5, 77.9),
    ("MPQA", "SLT P1 3.0"): (9.09, 77.2, 59.6, 67.3, 78.4, 79.5, 78.9),
    ("MPQA", "SLT Pa 1.5"): (6.74, 65.2, 75.7, 70.1, 72.4, 87.2, 79.1),
    ("MPQA", "SLT Pa 3.0"): (14.71, 78.2, 43.9, 56.2, 80.5, 73.8, 77.0),
}
_BEFORE = {
    ("MUC6", "BASE"): (1.18, 38.0, 85.6, 52.6, 59.0, 75.8, 66.4),
    ("MUC6", "SLT"): (1.35, 26.4, 84.3, 40.2),
    ("MUC6", "BASE P1 1.5"): (1.20, 38.9, 82.1, 52.8, 64.2, 71.8, 67.8),
    ("MUC6", "BASE P1 3.0"): (1.32, 46.9, 71.3, 56.6, 68.9, 64.3, 66.5),
    ("MUC6", "BASE Pa 1.5"): (1.15, 44.2, 79.9, 56.9, 62.1, 68.7, 65.2),
    ("MUC6", "BASE Pa 3.0"): (1.44, 52.5, 62.9, 57.2, 70.9, 60.5, 65.3),
    ("MPQA", "BASE"): (7.05, 52.1, 83.4, 64.1, 75.6, 81.5, 78.4),
    ("MPQA", "SLT"): (7.39, 43.7, 90.1, 58.9),
    ("MPQA", "BASE P1 1.5"): (7.18, 54.6, 79.6, 64.8, 77.7, 76.5, 77.1),
    ("MPQA", "BASE P1 3.0"): (7.22, 59.9, 75.4, 66.8, 83.3, 71.7, 77.1),
    ("MPQA", "BASE Pa 1.5"): (7.65, 59.7, 72.2, 65.4, 79.8, 73.2, 76.4),
    ("MPQA", "BASE Pa 3.0"): (8.22, 69.2, 65.1, 67.1, 85.8, 67.8, 75.7),
}


def paper_rows() -> list[Row]:
    """The paper's own rows, marked as such by their split."""
    names = ("error", "recall", "precision", "f1", "muc_recall", "muc_precision", "muc_f1")
    return [
        {
            "dataset": dataset,
            "model": model,
            "split": "paper",
            "stage": stage,
            **dict(zip(names, figures, strict=False)),
        }
        for stage, table in (("before", _BEFORE), ("after", _AFTER))
        for (dataset, model), figures in table.items()
    ]


def tables(name: str, parts: Iterable[tuple[str, Mentions, Mentions]], tell: Tell, jobs: int) -> Report:
    """Tables 1 to 3 for each (data set, training documents, test documents), and the paper's below."""
    began = time.perf_counter()
    rows: list[Row] = []
    for dataset, train, test in parts:
        tell(f"{dataset}: {train.n_pairs} training pairs, {test.n_pairs} test pairs")
        rows += _mark_chosen([row for model in _models() for row in _rows(dataset, model, train, test, tell, jobs)])
    settings = {
        "l2": 1.0, "rounds": 5, "e_step": "nearest", "clusterer": "SingleLink", "bias_form": "weight, or as named",
        "round": "of rounds 1 to 5: by pair F1 in training for the figures of pairs, by MUC F1 for those of MUC",
        "chosen": "the structured setting, and among the biased ones, with the best such score in training",
    }  # fmt: skip
    return Report(name, [*rows, *paper_rows()], time.perf_counter() - began, settings, SHOWN)


def _models() -> list[tuple[str, str, Bias | None]]:
    """(name, training, bias) of each row."""
    local: list[tuple[str, str, Bias | None]] = [("BASE", "local", None)]
    local += [(f"BASE {kind} {factor}", "local", Bias(KINDS[kind], factor)) for kind, factor in BIASES]
    structured: list[tuple[str, str, Bias | None]] = [("SLT", "structured", None)]
    for form in ("weight", "margin"):
        told = "" if form == "weight" else f" {form}"
        structured += [(f"SLT {k} {f}{told}", "structured", Bias(KINDS[k], f, form)) for k, f in BIASES]
    return [*local, *structured]


def _rows(
    dataset: str, model: tuple[str, str, Bias | None], train: Mentions, test: Mentions, tell: Tell, jobs: int
) -> list[Row]:
    name, training, bias = model
    began = time.perf_counter()
    linker = Linker(training=training, bias=bias, select=("pair_f1", "muc_f1"), keep_local=False, n_jobs=jobs)
    linker.fit(train)
    by_pairs = linker.evaluate(test)
    by_muc, muc_round = by_pairs, 0
    if training == "structured":
        rounds = range(1, len(linker.rounds_))  # none if the local round left nothing to ask for
        muc_round = max(rounds, key=lambda k: linker.rounds_[k].scores["muc_f1"], default=0)
        by_muc = linker.at_round(muc_round).evaluate(test)
    muc = {f"muc_{key}": 100 * by_muc["muc"][key] for key in ("recall", "precision", "f1")}
    explained = [{"round": one.number, "positives": one.positives, **one.scores} for one in linker.rounds_]
    found = f"pair F1 {100 * by_pairs['pairs']['f1']:.2f}, MUC F1 {muc['muc_f1']:.2f}"
    tell(f"{dataset}, {name}: {time.perf_counter() - began:.0f} s, {found}")
    rows = []
    for stage, measured in (("before", by_pairs["pairs before"]), ("after", by_pairs["pairs"])):
        figures = {key: 100 * measured[key] for key in ("error", "recall", "precision", "f1")}
        row: Row = {"dataset": dataset, "model": name, "split": "test", "stage": stage, **figures}
        if stage == "after":
            row |= {**muc, "rounds": explained, "pair_round": linker.best_round_, "muc_round": muc_round}
        rows.append(row)
    return rows


def _mark_chosen(rows: list[Row]) -> list[Row]:
    """Mark, for each metric, the structured setting and the structured and biased one that did best in training."""
    structured = [row for row in rows if row["model"].startswith("SLT") and row["stage"] == "after"]
    for metric, which in (("pair_f1", "pair_round"), ("muc_f1", "muc_round")):
        for told, group in (
            ("structured", structured),
            ("biased", [row for row in structured if row["model"] != "SLT"]),
        ):
            best = max(group, key=lambda row: _trained(row, which, metric))
            best["chosen"] = " ".join(filter(None, [best.get("chosen", ""), f"{told}:{metric}"]))
    return rows


def _trained(row: dict[str, Any], which: str, metric: str) -> float:
    return float(row["rounds"][row[which]][metric])


# -- Tables 1 to 3 of the paper on GUM, by its own split, without reddit, whose words are not given; news alone too ---


def slt_gum(data: Path, tell: Tell, jobs: int) -> Report:
    """Tables 1 to 3 of the paper on GUM, by its own split, without reddit, whose words are not given; news alone too.

    `data` has the layout of the data folder.
    """
    folder = data / "mentions" / "gum"
    everything = read_coref(folder / "gum.tar.gz")
    split = read_split(folder / "splits.md")

    def part(name: str, genre: str = "") -> Mentions:
        wanted = [d for d in split[name] if "_reddit_" not in d and f"_{genre}" in d]
        names = [str(n) for n in everything.group_names or ()]
        missing = next((document for document in wanted if document not in names), None)
        if missing is not None:
            raise InputError(f"no document {missing!r}, which splits.md asks for", str(folder / "gum.tar.gz"))
        return everything.take_groups(names.index(document) for document in wanted)

    parts = [("GUM", part("train"), part("test")), ("GUM news", part("train", "news"), part("test", "news"))]
    return tables("slt-gum", parts, tell, jobs)


def read_split(path: Path) -> dict[str, list[str]]:
    """The documents under each heading of GUM's splits.md."""
    text = read_utf8(path)[0].decode()
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if heading := re.match(r"##\s+(\w+)", line):
            found[heading[1]] = []
        elif (document := re.match(r"\s*\*\s+(\S+)", line)) and found:
            found[next(reversed(found))].append(document[1])
    if not {"train", "test"} <= set(found):
        raise InputError(f"expected headings train and test; got {', '.join(found) or 'none'}", str(path))
    return found


# -- Tables 1 to 3 of the paper on LitBank: the first 80 documents by file name train, the last 20 test ---

TRAINING = 80


def slt_litbank(data: Path, tell: Tell, jobs: int) -> Report:
    """Tables 1 to 3 of the paper on LitBank: the first 80 documents by file name train, the last 20 test.

    `data` has the layout of the data folder.
    """
    everything = read_coref(data / "mentions" / "litbank" / "litbank.tar.gz")
    train = everything.take_groups(range(TRAINING))
    test = everything.take_groups(range(TRAINING, everything.n_groups))
    return tables("slt-litbank", [("LitBank", train, test)], tell, jobs)


# -----------------------------------------------------------------------------------------------------
# Record linkage: structured beside local training on seven sets, half the entities for training and half for the
# test.

SPLITS = 3
FOLDS = 5
RECORD_METRICS = ("stage", "error", "recall", "precision", "f1", "cluster_f1", "completeness")
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


def slt_records(data: Path, tell: Tell, jobs: int) -> Report:
    """Record linkage: structured beside local training on seven sets, half the entities for training and half for
    the test.

    Entities are never split: all records of one are in the same half. The threshold of the clusterer is chosen by
    cross-validation inside the training half, and the round by training pairs; nothing looks at the test half.

    `data` has the layout of the data folder.
    """
    began = time.perf_counter()
    rows = [row for one in SETS for row in _record_rows(one, data / "mentions" / "records", tell, jobs)]
    settings = {
        "splits": SPLITS, "folds": FOLDS, "blocking": {one.name: one.rules for one in SETS},
        "clusterer": {one.name: one.clusterer.__name__ for one in SETS},
    }  # fmt: skip
    return Report("slt-records", rows, time.perf_counter() - began, settings, RECORD_METRICS)


def _record_rows(one: RecordSet, folder: Path, tell: Tell, jobs: int) -> list[Row]:
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
            for key in RECORD_METRICS[1:]:
                if key in chosen[0]:
                    mean[key] = float(np.mean([row[key] for row in chosen]))
            found.append({key: value for key, value in mean.items() if key not in ("threshold", "kept_round")})
    return found
