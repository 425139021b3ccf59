"""What a mixture of parents costs: one evaluation of L_M with its gradient beside one of a linear-chain CRF.

    python benchmarks/mixture.py               the comparison, then growth with edges and labels, and memory
    python benchmarks/mixture.py --quick       a smoke test on a few documents
    python benchmarks/mixture.py --jobs 1      threads, 2 unless told
    python benchmarks/mixture.py --json FILE   write all figures

World: CoNLL-2003 (eng.train) where the data folder named by KINFOLK_DATA, or ../shared/data beside the checkout,
has it, else a generated newswire. Objectives are the very ones `fit` hands to the optimiser, at the weights it starts
from. They take turns in one process, so that whatever else the machine does falls on all; a ratio is the median of
the ratios of all rounds, beside it that of CPU time. Growth is measured on the inference alone
(`kinfolk.inference.mixture.residuals`) with random scores and labels; the extra edges join tokens that have skip edges
already. "dense" is what a table (L, L) for every edge, chain included, would take.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import Stopwatch
from prepare import data_folder

from kinfolk import Corpus, LinearChainCRF, generate_newswire, read_conll
from kinfolk.collective.mixture import wire
from kinfolk.core.training import Convergence
from kinfolk.inference.dag import build_dag
from kinfolk.inference.mixture import Scores, residuals, uniform_weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.text.mixture import MixtureTagger, TokenParents

CRF, JOINT, CONDITIONAL, SEPARATE = "CRF", "L_M (joint)", "L_C (conditional)", "separate"
STAGES = ("scores", "inference", "gradient")
FACTORS, LABELS = (0, 1, 2, 4, 8), (5, 9, 17, 33)
MOST = {"L_M / CRF": 2.0, "8x skip edges / 1x": 10.0}
QUICK_DOCUMENTS, NEWSWIRE_DOCUMENTS = 30, 500
WARM_UP, ROUNDS, QUICK_ROUNDS = 2, 15, 3

Answer = dict[str, Any]
Runs = dict[Any, dict[str, list[float]]]  # by contender, by stage: seconds of each round
WATCH = Stopwatch()


def main() -> None:
    options = _options()
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    name, corpus = world(QUICK_DOCUMENTS if options.quick else None)
    contenders, parents, facts = compile_objectives(corpus, options.jobs)
    edges = parents.edges(corpus)[0][1]
    facts |= {"skip_edges": len(edges), "components": corpus.n_tokens + len(edges)}  # one is on the chain or a start
    figures: Answer = {"world": name, "rounds": rounds, "load_average": os.getloadavg()[0], **facts}
    print(f"{name}: " + ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in facts.items()))
    figures["evaluations"] = compare(contenders, rounds)
    del contenders
    case = partial(inference_case, corpus, parents, options.jobs)
    by_edges = {factor: case(some, facts["labels"]) for factor, some in multiplied(corpus, edges).items()}
    figures["by_edges"] = growth_with_edges(by_edges, rounds)
    figures["by_labels"] = growth_with_labels({n: case(edges, n) for n in LABELS}, rounds)
    found = figures["evaluations"][JOINT]["ratio"], figures["by_edges"][8]["ratio"]
    figures["bars"] = [{"what": w, "most": m, "found": f} for (w, m), f in zip(MOST.items(), found, strict=True)]
    print("\n" + "\n".join("{what}: {found:.2f}; wanted: at most {most:g}".format(**bar) for bar in figures["bars"]))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what an evaluation of a mixture of parents costs")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_DOCUMENTS} documents, {QUICK_ROUNDS} rounds")
    parser.add_argument("--jobs", type=int, default=2, help="threads (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    return parser.parse_args()


def world(documents: int | None) -> tuple[str, Corpus]:
    file = data_folder() / "eng.train"
    if not file.exists():
        return "generated newswire", generate_newswire(documents or NEWSWIRE_DOCUMENTS)
    corpus = read_conll(file)
    return "CoNLL-2003, eng.train", corpus.documents(0, documents or corpus.n_documents)


def compile_objectives(corpus: Corpus, jobs: int) -> tuple[dict[str, Callable[[], Any]], TokenParents, Answer]:
    """What evaluates each objective, the parents of the mixture, and counts."""
    settings: Answer = {"templates": "sentence", "min_count": 2, "n_jobs": jobs}
    for stage in ("scores", "gradient"):
        setattr(SparseRows, stage, staged(stage, getattr(SparseRows, stage)))
    crf = objectives_of(LinearChainCRF(**settings), corpus)
    model = MixtureTagger(training="joint", **settings)
    *separate, joint = objectives_of(model, corpus)
    conditional = objectives_of(MixtureTagger(training="conditional", **settings), corpus)[-1]
    parts = {CRF: crf, JOINT: [joint], CONDITIONAL: [conditional], SEPARATE: separate}
    facts = {
        "documents": corpus.n_documents, "tokens": corpus.n_tokens, "features": model.features_.n_features,
        "labels": len(model.classes_), "crf_weights": len(crf[0][1]), "mixture_weights": len(joint[1]), "threads": jobs,
    }  # fmt: skip
    run = lambda some: [objective(start, out) for objective, start, out in some]  # noqa: E731
    return {name: partial(run, some) for name, some in parts.items()}, model.parents_[0], facts


def staged(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        with WATCH.stage(stage):
            return function(*arguments, **named)

    return timed


def objectives_of(model: Any, corpus: Corpus) -> list[tuple[Any, Any, Any]]:
    """Each (objective, start, room for a gradient) that fitting hands to the optimiser, which gives the start back."""
    met = []

    def note(objective: Any, start: Any, *_: Any) -> tuple[Any, Convergence]:
        loss = "residuals" if hasattr(objective, "residuals") else "loss"  # LogLinear or Tables
        setattr(objective, loss, staged("inference", getattr(objective, loss)))
        met.append((objective, start.copy(), np.empty_like(start)))
        return start, Convergence("converged", 0.0, 0, 0, 0.0)

    with patch("kinfolk.collective.sequences.optimise", note), patch("kinfolk.collective.mixture.optimise", note):
        model.fit(corpus)
    return met


def alternate(contenders: dict[Any, Callable[[], Any]], rounds: int) -> Runs:
    """Contenders take turns; the first rounds do not count."""
    runs: Runs = {name: {} for name in contenders}
    for number in range(WARM_UP + rounds):
        for name, run in contenders.items():
            WATCH.seconds.clear()
            began = time.process_time()
            with WATCH.stage("total"):
                run()
            WATCH.seconds["cpu"] = time.process_time() - began  # of all threads
            for stage, seconds in WATCH.seconds.items() if number >= WARM_UP else ():
                runs[name].setdefault(stage, []).append(seconds)
    return runs


def compare(contenders: dict[str, Callable[[], Any]], rounds: int) -> Answer:
    """Median seconds by stage ("rest": the ridge), ratios to the CRF, and what one evaluation allocates at its peak."""
    runs, rows = alternate(contenders, rounds), {}
    _print_row("ms, median", "total", *STAGES, "rest", "/ CRF", "CPU / CRF", "peak MB")
    for name, run in runs.items():
        run["rest"] = [total - sum(parts) for total, *parts in zip(*(run[s] for s in ("total", *STAGES)), strict=True)]
        row: Answer = {stage: median(seconds) for stage, seconds in run.items()}
        row["ratio"] = median(a / b for a, b in zip(run["total"], runs[CRF]["total"], strict=True))
        row["cpu_ratio"] = row["cpu"] / median(runs[CRF]["cpu"])
        row["peak_bytes"] = peak_bytes(contenders[name])
        rows[name] = row | {"rounds": run["total"]}
        times = (1e3 * row[stage] for stage in ("total", *STAGES, "rest"))
        _print_row(name, *times, row["ratio"], row["cpu_ratio"], row["peak_bytes"] / 1e6)
    return rows


def inference_case(corpus: Corpus, parents: TokenParents, jobs: int, skip: Any, n_labels: int) -> Answer:
    """What runs the inference with given skip edges, its counts, and bytes: its peak, and that of dense tables."""
    (chain, _), first = parents.edges(corpus)
    start = np.zeros(corpus.n_tokens, bool)
    start[first] = True
    dag, rng = build_dag([chain, skip], corpus.token_documents, start), np.random.default_rng(0)
    wired = wire(parents.layout, [dag])
    shapes = (sum(map(len, wired.rows)), n_labels), (2, n_labels, n_labels), (n_labels,), (0, n_labels**2)
    scores = Scores(*(rng.normal(scale=2, size=shape).astype(np.float32) for shape in shapes))
    labels = rng.integers(n_labels, size=corpus.n_tokens).astype(np.int32)
    ones, alphas = np.ones(corpus.n_tokens), [uniform_weights(dag)]
    run = partial(residuals, wired.wirings, scores, alphas, labels, ones, clamp=False, n_jobs=jobs)
    sizes = {"skip_edges": len(skip), "components": dag.n_components, "peak_bytes": peak_bytes(run)}
    return {"run": run, **sizes, "dense_bytes": (len(chain) + len(skip)) * n_labels**2 * 8}


def peak_bytes(run: Callable[[], Any]) -> int:
    """The most that one run held beyond what there was before: NumPy and the kernels both tell tracemalloc."""
    run()  # what a first run leaves behind does not count
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def multiplied(corpus: Corpus, edges: Any) -> dict[int, Any]:
    """No skip edges, those there are, and several times as many: the children with other earlier parents at random.

    Where a document has too few such pairs, some stand twice: parallel edges cost as much as any.
    """
    child, parent = np.unique(edges[:, 0]), np.unique(edges[:, 1])
    begins = corpus.sentence_starts[corpus.document_starts][corpus.token_documents[child]]
    first, last = np.searchsorted(parent, begins), np.searchsorted(parent, child)  # parents before it in its document
    nth = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    pairs = np.stack([np.repeat(child, last - first), parent[nth]], axis=1)
    new = pairs[~np.isin(pairs @ [corpus.n_tokens, 1], edges @ [corpus.n_tokens, 1])]
    every = np.concatenate([edges, np.random.default_rng(0).permutation(new)])
    return {factor: np.resize(every, (factor * len(edges), 2)) for factor in FACTORS}


def growth_with_edges(cases: dict[int, Answer], rounds: int) -> Answer:
    """Seconds of the edges alone: each round's time less that without skip edges."""
    runs = alternate({factor: case.pop("run") for factor, case in cases.items()}, rounds)
    alone = {f: [median(np.subtract(run[k], runs[0][k]).tolist()) for k in ("total", "cpu")] for f, run in runs.items()}
    _print_row("skip edges", "ms, median", "edges only", "/ 1x", "CPU / 1x", "peak MB", "dense MB")
    for f, case in cases.items():
        case |= {"seconds": median(runs[f]["total"]), "edge_seconds": alone[f][0], "edge_cpu_seconds": alone[f][1]}
        case["ratio"], case["cpu_ratio"] = (a / b for a, b in zip(alone[f], alone[1], strict=True))
        times = 1e3 * case["seconds"], 1e3 * case["edge_seconds"], case["ratio"], case["cpu_ratio"]
        _print_row(f"{case['skip_edges']:,}", *times, case["peak_bytes"] / 1e6, case["dense_bytes"] / 1e6)
    return cases


def growth_with_labels(cases: dict[int, Answer], rounds: int) -> Answer:
    """Time of the inference by L², and by component."""
    runs = alternate({n: case.pop("run") for n, case in cases.items()}, rounds)
    _print_row("labels", "ms, median", "us / L²", "ns / C L²", "peak MB", "dense MB")
    for n, case in cases.items():
        case["seconds"] = median(runs[n]["total"])
        case["seconds_by_squared_labels"] = each = case["seconds"] / n**2
        times = 1e3 * case["seconds"], 1e6 * each, 1e9 * each / case["components"]
        _print_row(str(n), *times, case["peak_bytes"] / 1e6, case["dense_bytes"] / 1e6)
    return cases


def _print_row(name: str, *cells: float | str) -> None:
    """A heading, where all cells are words, stands below an empty line."""
    heading = all(isinstance(cell, str) for cell in cells)
    shown = (f"{cell:>12}" if isinstance(cell, str) else f"{cell:12.2f}" for cell in cells)
    print(f"{chr(10) * heading}{name:>18}" + "".join(shown))


if __name__ == "__main__":
    main()
