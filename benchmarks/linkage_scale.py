"""One measured process of kinfolk for linkage.py: records in growing numbers, or the speed of training.

    python linkage_scale.py '{"what": "scale", "records": 100000, "jobs": 2}'
    python linkage_scale.py '{"what": "whole", "records": 1000000, "labels": false, "jobs": 2}'
    python linkage_scale.py '{"what": "kinfolk", "documents": 80, "conjunctions": false, "rounds": 5, ...}'
    python linkage_scale.py '{"what": "sklearn", "fits": 6, "form": "dense", "jobs": 2, "folder": ...}'
    python linkage_scale.py '{"what": "ranking", "documents": 80, "times": 7, "data": ...}'

The last line it prints is its answer, as JSON. Seconds inside a call of the library are told by stage with functions of
its modules put under a stopwatch; whatever they call counts as theirs.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import Stopwatch, peak_megabytes

from kinfolk.linking.linker import Linker
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pair_table import distinct_rows
from kinfolk.linking.training import PairTrainer

Answer = dict[str, Any]
TRAINED_ON = 0.05  # of the entities
PEOPLE = (
    "key(id_number)",
    "key(date_of_birth + given_name[:1])",
    "key(postcode + surname[:2])",
    "sorted(surname + given_name, 8)",
)
FOLDS = "folds"  # what is done in there is told apart
# where a stage of fit or predict is done: module, function or method, name of the stage
STAGES = (
    ("kinfolk.linking.linker", "default_comparisons", "choosing comparisons"),
    ("kinfolk.linking.linker", "PairSet.learn", "bins"),
    ("kinfolk.linking.linker", "PairSet.coder", "once an item"),
    ("kinfolk.linking.pair_table", "pair_scores", "comparing and scoring pairs"),
    ("kinfolk.linking.pair_table", "distinct_rows", "coding and distinct rows"),
    ("kinfolk.linking.linker", "PairSet.weights_on", "weights on"),
    ("kinfolk.linking.training", "GroupedRows.of", "grouping rows"),
    ("kinfolk.linking.choosing", "unseen_scores", FOLDS),
    ("kinfolk.linking.choosing", "best_threshold", "choosing the threshold"),
    ("kinfolk.linking.training", "PairTrainer.fit", "fits"),
    ("kinfolk.linking.training", "_wanted", "E-steps"),
    ("kinfolk.linking.clusterers", "Clusterer.cluster", "clustering"),
    ("kinfolk.linking.scores", "pairs_after", "scores"),
)


class Stages:
    """Seconds spent in functions of the library, each without what others of them spent inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner: list[float] = [0.0]
        self._folds = 0
        for module, name, stage in STAGES:
            owner = importlib.import_module(module)
            *holder, last = name.split(".")
            for part in holder:
                owner = getattr(owner, part)
            found = vars(owner)[last]
            if isinstance(found, classmethod):
                setattr(owner, last, classmethod(self._watched(found.__func__, stage)))
            else:
                setattr(owner, last, self._watched(found, stage))

    def _watched(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def watched(*given: Any, **settings: Any) -> Any:
            began = time.perf_counter()
            name = f"{FOLDS}: {stage}" if self._folds else stage
            self._folds += stage == FOLDS
            self._inner.append(0.0)
            try:
                return function(*given, **settings)
            finally:
                self._folds -= stage == FOLDS
                took = time.perf_counter() - began
                self.seconds[name] += took - self._inner.pop()
                self._inner[-1] += took

        return watched

    def taken(self) -> dict[str, float]:
        """The seconds since the last call."""
        found, self.seconds = dict(self.seconds), defaultdict(float)
        return found


def scale(records: int, jobs: int, training: str = "structured", seed: int = 0) -> Answer:
    """Generate, block, learn from a sample of the entities, predict and cluster everything."""
    from kinfolk.datasets.customers import generate_customers
    from kinfolk.linking.blocking import block, blocked
    from kinfolk.linking.clusterers import AverageLink
    from kinfolk.linking.scores import METRICS

    warm_up(jobs)
    watch, stages, peaks = Stopwatch(), Stages(), {"start": peak_megabytes()}
    with watch.stage("generate"):
        plain = generate_customers(records, seed=seed)
    peaks["generate"], busy = peak_megabytes(), time.process_time()
    with watch.stage("block"):
        items, report = blocked(plain, list(PEOPLE), n_jobs=jobs)
    peaks["block"] = peak_megabytes()
    assert items.clusters is not None
    with watch.stage("sample"):  # blocked for itself: few pairs of strangers are in the sample both
        chosen = np.random.default_rng(seed).random(int(items.clusters.max()) + 1) < TRAINED_ON
        train = block(plain.take(chosen[items.clusters]), list(PEOPLE), n_jobs=jobs)
    linker = Linker(training=training, clusterer=AverageLink(), folds=5, n_jobs=jobs)
    stages.taken()
    with watch.stage("fit"):
        linker.fit(train)
    within_fit, peaks["fit"] = stages.taken(), peak_megabytes()
    with watch.stage("predict"):
        items, probability = linker.compared(items)
    within_predict, peaks["predict"] = stages.taken(), peak_megabytes()
    with watch.stage("cluster"):
        clusters = linker.cluster(items, probability)
    peaks["cluster"], cpu = peak_megabytes(), time.process_time() - busy
    return {
        "records": records, "cpu_seconds": cpu, "pairs": items.n_pairs, "train_pairs": train.n_pairs,
        "seconds": dict(watch.seconds), "within_fit": within_fit, "within_predict": within_predict, "peaks": peaks,
        "completeness": report.pair_completeness, "pair_f1": METRICS["pair_f1"](items, clusters),
        "cluster_f1": METRICS["cluster_f1"](items, clusters), "threshold": linker.clusterer_.threshold,
        "kept_round": linker.best_round_,
    }  # fmt: skip


def whole(records: int, labels: bool, jobs: int, seed: int = 0) -> Answer:
    """Learn from every record, with true clusters or without any, as it comes; time with blocking, memory in all."""
    from kinfolk.datasets.customers import generate_customers
    from kinfolk.linking.scores import METRICS

    warm_up(jobs)
    plain = generate_customers(records, seed=seed)
    before, watch = peak_megabytes(), Stopwatch()
    linker = Linker(blocking=list(PEOPLE), n_jobs=jobs)
    with watch.stage("fit"):
        linker.fit(plain if labels else replace(plain, clusters=None))
    peak = peak_megabytes()
    clusters = linker.predict(replace(plain, clusters=None))
    f1 = METRICS["pair_f1"](plain, clusters)
    return {
        "records": records, "labels": labels, "seconds": watch.seconds["fit"], "peak_mb": peak, "before_mb": before,
        "pair_f1": f1,
    }  # fmt: skip


def warm_up(jobs: int) -> None:
    """Load and, the first time ever, compile what is measured."""
    from kinfolk.datasets.customers import generate_customers
    from kinfolk.linking.blocking import block
    from kinfolk.linking.clusterers import AverageLink

    items = block(generate_customers(400, seed=1), list(PEOPLE))
    Linker(clusterer=AverageLink(), folds=2, n_jobs=jobs).fit(items).predict(items)


# -- speed --------------------------------------------------------------------------------------------


def litbank(data: str, documents: int) -> Mentions:
    from kinfolk.linking.coref import read_coref

    return read_coref(Path(data) / "mentions" / "litbank" / "litbank.tar.gz").take_groups(range(documents))


def kinfolk(data: str, folder: str, documents: int, conjunctions: bool, rounds: int, jobs: int) -> Answer:
    """Local training and structured rounds on pairs of mentions; every fit is kept for the other side to repeat."""
    items = litbank(data, documents)
    settings: dict[str, Any] = {"training": "structured", "rounds": rounds, "keep_local": False, "n_jobs": jobs}
    settings["conjunctions"] = "default" if conjunctions else None
    Linker(**settings).fit(items.take_groups(range(2)))  # compiled and loaded
    fits: list[tuple[Any, Any]] = []
    fit = PairTrainer.fit

    def recorded(self: PairTrainer, labels: Any, start: Any) -> Any:
        found = fit(self, labels, start)
        fits.append((labels, found[1]))
        return found

    PairTrainer.fit = recorded  # type: ignore[method-assign]
    stages, linker = Stages(), Linker(**settings)
    began, busy = time.perf_counter(), time.process_time()
    linker.fit(items)
    seconds, cpu, peak = time.perf_counter() - began, time.process_time() - busy, peak_megabytes()
    within = stages.taken()
    learned = linker.pair_set_
    rows = distinct_rows(learned.coder(items), items.left, items.right, learned.sizes, jobs)
    ends, optimum = [end for _, end in fits], None
    if not conjunctions:
        found = {f"labels {k}": labels for k, (labels, _) in enumerate(fits)}
        index = learned.weights_on(rows.codes)
        np.savez(Path(folder) / "fits.npz", index=index, row=rows.row, n=[learned.n_weights], **found)
        tight = {"training": "local", "tolerance": 1e-8, "max_iterations": 2000}  # the least value, to many digits
        optimum = Linker(**{**settings, **tight}).fit(items).convergence_.objective
    return {
        "pairs": items.n_pairs, "rows": len(rows.codes), "weights": learned.n_weights, "fits": len(ends),
        "seconds": seconds, "cpu_seconds": cpu, "within": within, "peak_mb": peak,
        **{name: [getattr(end, name) for end in ends] for name in ("iterations", "evaluations", "status")},
        "objectives": [end.objective for end in ends], "fit_seconds": [end.seconds for end in ends],
        "optimum": optimum,
    }  # fmt: skip


def objective(weights: Any, index: Any, row: Any, labels: Any, l2: float) -> float:
    """What both sides minimise, worked out anew."""
    score = np.concatenate([weights[part].sum(axis=1) for part in np.array_split(index, 100)])
    no, yes = (np.bincount(row, labels == y, minlength=len(index)) for y in (0, 1))
    losses = no * np.logaddexp(0.0, score) + yes * np.logaddexp(0.0, -score)
    return float(losses.sum() + 0.5 * l2 * weights @ weights)


def sklearn(folder: str, fits: int, form: str, jobs: int, l2: float = 1.0) -> Answer:
    """The same fits by scikit-learn, on one row a pair: "dense" or "sparse" one-hot columns, float32, warm-started.

    No intercept, as the columns of every row add up to one anyway, so that the objective is the same.
    """
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    kept = np.load(Path(folder) / "fits.npz")
    index, row, n = kept["index"], kept["row"], int(kept["n"][0])
    began = time.perf_counter()
    if form == "dense":
        table: Any = np.zeros((len(row), n), np.float32)
        for start in range(0, len(row), 1 << 18):
            part = index[row[start : start + (1 << 18)]]
            np.put_along_axis(table[start : start + len(part)], part.astype(np.int64), 1.0, axis=1)
    else:
        columns = index[row].ravel()
        ends = np.arange(0, len(columns) + 1, index.shape[1], dtype=np.int32)
        table = csr_array((np.ones(len(columns), np.float32), columns, ends), shape=(len(row), n))
        del columns
    expanding = time.perf_counter() - began
    model = LogisticRegression(C=1 / l2, fit_intercept=False, max_iter=200, warm_start=True, n_jobs=jobs)
    seconds, iterations, objectives, cpu = [], [], [], []
    for k in range(fits):
        labels = kept[f"labels {k}"]
        began, busy = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(table, labels)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - busy)
        iterations.append(int(model.n_iter_[0]))
        objectives.append(objective(model.coef_[0].astype(np.float64), index, row, labels, l2))
        print(f"fit {k}: {seconds[-1]:.1f} s, {iterations[-1]} iterations", file=sys.stderr, flush=True)
    return {
        "columns": n, "expand_seconds": expanding, "fit_seconds": seconds, "cpu_seconds": sum(cpu),
        "iterations": iterations, "objectives": objectives, "peak_mb": peak_megabytes(),
    }  # fmt: skip


def ranking(data: str, documents: int, times: int) -> Answer:
    """CPU seconds of local training and of ranking on one thread, by turns; the first, which compiles, is left out."""
    items = litbank(data, documents)
    found: dict[str, list[float]] = {"local": [], "ranking": []}
    for number in range(times + 1):
        for training, seconds in found.items():
            began = time.process_time()
            Linker(training=training, n_jobs=1).fit(items)
            seconds += [time.process_time() - began] if number else []
    ratios = np.divide(found["ranking"], found["local"])
    return {**found, "ratio": float(np.median(ratios)), "least": float(ratios.min()), "most": float(ratios.max())}


PARTS: dict[str, Callable[..., Answer]] = {
    "scale": scale,
    "kinfolk": kinfolk,
    "sklearn": sklearn,
    "ranking": ranking,
    "whole": whole,
}


def main(what: str, **settings: Any) -> Answer:
    busy = os.getloadavg()[0]
    return {"load_average": busy, **PARTS[what](**settings)}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
