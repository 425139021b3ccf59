"""What the tables of structured local training share: the settings of a row, training them, and the paper's figures."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kinfolk.linking.linker import Linker
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.objective import Bias
from kinfolk.papers.harness import Report, Row, Tell

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
    story = [{"round": one.number, "positives": one.positives, **one.scores} for one in linker.rounds_]
    found = f"pair F1 {100 * by_pairs['pairs']['f1']:.2f}, MUC F1 {muc['muc_f1']:.2f}"
    tell(f"{dataset}, {name}: {time.perf_counter() - began:.0f} s, {found}")
    rows = []
    for stage, measured in (("before", by_pairs["pairs before"]), ("after", by_pairs["pairs"])):
        figures = {key: 100 * measured[key] for key in ("error", "recall", "precision", "f1")}
        row: Row = {"dataset": dataset, "model": name, "split": "test", "stage": stage, **figures}
        if stage == "after":
            row |= {**muc, "rounds": story, "pair_round": linker.best_round_, "muc_round": muc_round}
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
