"""What loopy belief propagation costs: the skip-chain CRF beside the linear-chain CRF and the mixture of parents.

    python benchmarks/loopy.py               whole training, inference on new text, one evaluation of each objective
    python benchmarks/loopy.py --quick       a smoke test on a few documents
    python benchmarks/loopy.py --jobs 1      threads, 2 unless told
    python benchmarks/loopy.py --json FILE   write all figures

World: CoNLL-2003 (eng.train, eng.testa) where the data folder named by KINFOLK_DATA, or ../shared/data beside the
checkout, has it, else a generated newswire. All models have the same features and settings.

Training     each model once; seconds, and iterations and evaluations of its last stage (before it, the skip chain
             trains a linear chain, the joint mixture its relations separately; for "mix separate" the sums of these)
Inference    from the scores of tokens to marginals, as `predict_proba` has it, features apart. Belief propagation ends
             with messages; "beliefs" is the step from them to marginals, edge beliefs and log Z
Evaluation   objective and gradient as the optimiser asks for them, in turn at points 10 % of the way apart, from its
             start to its end. "cold": messages start from nothing; "warm": from those of the last point, as in training

Contenders take turns in one process, so that whatever else the machine does falls on all; a ratio is the median of the
ratios of all rounds, beside it that of CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from mixture import CRF, QUICK_DOCUMENTS, QUICK_ROUNDS, ROUNDS, _print_row, alternate, compare, staged
from prepare import NEWSWIRE, data_folder

from kinfolk import Corpus, LinearChainCRF, MixtureTagger, newswire_split, read_conll
from kinfolk.inference import chain
from kinfolk.inference.loopy import Propagation, node_beliefs, propagate
from kinfolk.inference.loopy_losses import BetheLoss
from kinfolk.inference.mixture import beliefs
from kinfolk.learning.lbfgs import optimise
from kinfolk.learning.sparse import SparseRows
from kinfolk.text.batch import Batch
from kinfolk.text.skip_chain import SkipChainCRF

SETTINGS: dict[str, Any] = {"templates": "sentence", "min_count": 2, "l2": 0.01, "tolerance": 0.3}
BETHE, PSEUDO, PIECEWISE, SEPARATE, JOINT = "skip bethe", "skip pseudo", "skip piecewise", "mix separate", "mix joint"
CHAIN, SEQUENTIAL, SYNCHRONOUS, BELIEFS = "forward-backward", "sequential", "synchronous", "beliefs"
WHOLE = "seq. + beliefs"
TOLERANCE = 1e-4  # of messages
MOST = 10.0  # sequential / forward-backward
WAY = (0.8, 0.9, 1.0)  # points of an evaluation, between start and end of training
OPTIMISERS = [
    f"kinfolk.{module}.optimise" for module in ("collective.sequences", "collective.mixture", "collective.pairwise")
]

Answer = dict[str, Any]


class Trained(NamedTuple):
    """A fitted model, the objective of its last stage, where that began and ended, its losses with messages."""

    model: Any
    objective: Any
    start: Any
    end: Any
    bethe: list[BetheLoss]
    seconds: float


def main() -> None:
    options = _options()
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    name, train, test = world(QUICK_DOCUMENTS if options.quick else None)
    facts = {"documents": train.n_documents, "tokens": train.n_tokens, "test_tokens": test.n_tokens}
    trained = train_all(train, options.jobs)
    facts |= {"features": trained[CRF].model.features_.n_features, "labels": len(trained[CRF].model.classes_)}
    facts["threads"] = options.jobs
    figures: Answer = {"world": name, "rounds": rounds, "load_average": os.getloadavg()[0], **facts}
    print(f"{name}: " + ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in facts.items()))
    figures["training"] = training_table(trained, test)
    contenders, reports = inference(trained, test, options.jobs)
    figures["inference"] = inference_table(contenders, reports, rounds)
    with patch.multiple(SparseRows, **{s: staged(s, getattr(SparseRows, s)) for s in ("scores", "gradient")}):
        figures["evaluations"] = compare(evaluations(trained), rounds)
    found = {what: figures["inference"][what]["ratio"] for what in (SEQUENTIAL, WHOLE)}
    figures["bars"] = [{"what": f"{what} / {CHAIN}", "most": MOST, "found": ratio} for what, ratio in found.items()]
    print("\n" + "\n".join("{what}: {found:.2f}; wanted: at most {most:g}".format(**bar) for bar in figures["bars"]))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what belief propagation on a skip chain costs")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_DOCUMENTS} documents, {QUICK_ROUNDS} rounds")
    parser.add_argument("--jobs", type=int, default=2, help="threads (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    return parser.parse_args()


def world(documents: int | None) -> tuple[str, Corpus, Corpus]:
    files = [data_folder() / name for name in ("eng.train", "eng.testa")]
    real = all(file.exists() for file in files)
    parts = [read_conll(file) for file in files] if real else newswire_split(*NEWSWIRE)
    train, test = (part.documents(0, min(documents or part.n_documents, part.n_documents)) for part in parts)
    return "CoNLL-2003" if real else "generated newswire", train, test


# -- training -----------------------------------------------------------------------------------------


def train_all(corpus: Corpus, jobs: int) -> dict[str, Trained]:
    settings = SETTINGS | {"n_jobs": jobs}
    models = {
        CRF: partial(LinearChainCRF, **settings),
        BETHE: partial(SkipChainCRF, training="bethe", message_tolerance=TOLERANCE, **settings),
        PSEUDO: partial(SkipChainCRF, training="pseudo", **settings),
        PIECEWISE: partial(SkipChainCRF, training="piecewise", **settings),
        SEPARATE: partial(MixtureTagger, training="separate", **settings),
        JOINT: partial(MixtureTagger, training="joint", **settings),
    }
    for new in models.values():  # compiles kernels if they are new
        new().fit(corpus.documents(0, 3)).predict(corpus.documents(0, 1))
    return {name: fit(new(), corpus) for name, new in models.items()}


def fit(model: Any, corpus: Corpus) -> Trained:
    last: list[Any] = []
    losses: list[BetheLoss] = []

    def note(objective: Any, start: Any, *rest: Any) -> Any:
        began = start.copy()
        end, outcome = optimise(objective, start, *rest)
        last[:] = objective, began, end
        return end, outcome

    class Remembered(BetheLoss):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            losses.append(self)

    first, second, third = (patch(name, note) for name in OPTIMISERS)
    with first, second, third, patch("kinfolk.collective.pairwise.BetheLoss", Remembered):
        began = time.perf_counter()
        model.fit(corpus)
        seconds = time.perf_counter() - began
    return Trained(model, *last, losses, seconds)


def training_table(trained: dict[str, Trained], test: Corpus) -> Answer:
    rows = {}
    _print_row("training", "seconds", "/ CRF", "iterations", "evaluations", "F1 on test")
    for name, one in trained.items():
        outcome, report = one.model.convergence_, getattr(one.model, "training_report_", None)
        row: Answer = {"seconds": one.seconds, "ratio": one.seconds / trained[CRF].seconds, "status": outcome.status}
        row |= {"iterations": outcome.iterations, "evaluations": outcome.evaluations}
        row |= {"f1": 100 * one.model.score(test), "report": None if report is None else str(report)}
        rows[name] = row
        counts = (str(row[key]) for key in ("iterations", "evaluations"))
        _print_row(name, row["seconds"], row["ratio"], *counts, row["f1"])
    print(f"{BETHE}, last evaluation: {rows[BETHE]['report']}")
    return rows


# -- inference ----------------------------------------------------------------------------------------


def inference(trained: dict[str, Trained], test: Corpus, jobs: int) -> tuple[dict[str, Callable[[], Any]], Answer]:
    """What runs each contender on its scores of the same text; how belief propagation goes by schedule."""
    batch, crf = Batch.of(test), trained[CRF].model._decoder()
    chains = [crf._constrained(crf.method.potentials(block, jobs)) for block in crf.blocks(batch)]
    _, _, (node, tables, _), sample = trained[BETHE].model._decoder().run(batch, False)
    graph = sample.graph
    direction, parents = next(trained[SEPARATE].model._decoder().samples(batch))
    scores, alphas = parents.scores(direction.weights, jobs), parents.alphas(direction.weights.gate)
    runs: dict[str, Callable[[], Any]] = {CHAIN: lambda: [chain.marginals(p, jobs) for p in chains]}
    reports = {"documents": test.n_documents, "skip_edges": len(graph.edges) - (test.n_tokens - test.n_sentences)}
    for schedule in (SEQUENTIAL, SYNCHRONOUS):
        how = Propagation(schedule, 0.0, TOLERANCE, trained[BETHE].model.max_rounds)
        runs[schedule] = run = partial(propagate, graph, node, tables, how, False, None, jobs)
        fixed = run()
        unsettled = int((~fixed.converged(TOLERANCE)).sum())
        rounds = {"rounds_mean": float(fixed.rounds.mean()), "rounds_most": int(fixed.rounds.max())}
        reports[schedule] = {**rounds, "not_settled": unsettled}
        if schedule == SEQUENTIAL:
            runs[BELIEFS] = partial(node_beliefs, graph, node, fixed.messages, jobs)
    runs["mixture forward"] = partial(beliefs, parents.wired.wirings, scores, alphas, None, jobs)
    return runs, reports


def inference_table(contenders: dict[str, Callable[[], Any]], reports: Answer, rounds: int) -> Answer:
    runs, rows = alternate(contenders, rounds), {}
    both = {key: np.add(runs[SEQUENTIAL][key], runs[BELIEFS][key]).tolist() for key in ("total", "cpu")}
    base = runs[CHAIN]
    _print_row("inference", "ms, median", "/ fwd-back", "CPU / f-b", "rounds", "at most", "not settled")
    for name, run in (runs | {WHOLE: both}).items():
        row: Answer = {key: median(run[key]) for key in ("total", "cpu")}
        row["ratio"] = median(a / b for a, b in zip(run["total"], base["total"], strict=True))
        row["cpu_ratio"] = row["cpu"] / median(base["cpu"])
        told = reports.get(name, {})
        rows[name] = row | told | {"rounds": run["total"]}
        shown = (told["rounds_mean"], str(told["rounds_most"]), str(told["not_settled"])) if told else ()
        _print_row(name, 1e3 * row["total"], row["ratio"], row["cpu_ratio"], *shown)
    print(f"{reports['documents']:,} documents, {reports['skip_edges']:,} skip edges")
    return rows


# -- evaluation ---------------------------------------------------------------------------------------


def evaluations(trained: dict[str, Trained]) -> dict[str, Callable[[], Any]]:
    """What evaluates each objective at its next point."""

    def at_points(one: Trained, first: int = 0, cold: bool = False) -> Callable[[], Any]:
        points = cycle([((1 - s) * one.start + s * one.end).astype(one.start.dtype) for s in WAY[first:] + WAY[:first]])
        out = np.empty_like(one.start)

        def run() -> Any:
            for loss in one.bethe:
                loss._accepted = {} if cold else loss._accepted
            value = one.objective(next(points), out)
            for loss in one.bethe:
                loss.accept()
            return value

        return run

    for one in trained.values():
        stage = "residuals" if hasattr(one.objective, "residuals") else "loss"  # LogLinear or Tables
        setattr(one.objective, stage, staged("inference", getattr(one.objective, stage)))
    return {
        CRF: at_points(trained[CRF]),
        f"{BETHE}, cold": at_points(trained[BETHE], cold=True),
        f"{BETHE}, warm": at_points(trained[BETHE], first=1),  # with the messages of cold, which is a point behind
        PSEUDO: at_points(trained[PSEUDO]),
        PIECEWISE: at_points(trained[PIECEWISE]),
        "L_M (joint)": at_points(trained[JOINT]),
    }


if __name__ == "__main__":
    main()
