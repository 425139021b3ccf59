"""Figure 2 of the mixture-of-parents paper: named entities of CoNLL-2003 English."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from kinfolk.datasets.webkb import read_webkb
from kinfolk.graph.graph import Graph
from kinfolk.graph.link_model import LinkModel
from kinfolk.graph.mixture import MixtureNodes
from kinfolk.papers.data import Conll, Split, by_group, choose, read, rows
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.text.chain import MEMM, LinearChainCRF, MaxEnt
from kinfolk.text.mixture import MixtureTagger
from kinfolk.text.skip_chain import SkipChainCRF
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.tagger import Tagger

# -- Chain models on CoNLL-2003 English: the chain rows of Figure 2 of the mixture-of-parents paper ----

# A loose tolerance stops early, which regularises too: how long to train is chosen like the ridge.
GRID: dict[str, tuple[Any, ...]] = {"l2": (0.01, 0.1), "encoding": ("BIO", "IOBES"), "tolerance": (0.3, 1.5e-4)}
Variants = dict[str, dict[str, Any]]  # model of the table -> how it decodes
METHODS: list[tuple[type[Tagger], str, Variants]] = [
    (MaxEnt, "sentence", {"MaxEnt": {}}),
    (MEMM, "sentence", {"MEMM Viterbi": {"decode": "viterbi"}, "MEMM posterior": {"decode": "posterior"}}),
    (LinearChainCRF, "sentence", {"linear-chain CRF": {}}),
    (LinearChainCRF, "document", {"linear-chain CRF, document features": {}}),
]
CHAIN_CONLL_PAPER = {
    ("conll2003", "MEMM Viterbi", "testa"): {"f1": 89.8, "fp": 9.0, "fn": 11.4},
    ("conll2003", "MEMM posterior", "testa"): {"f1": 89.9, "fp": 9.2, "fn": 10.9},
    ("conll2003", "linear-chain CRF", "testa"): {"f1": 90.6, "fp": 8.5, "fn": 10.3},
}


def chain_conll(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Chain models on CoNLL-2003 English: the chain rows of Figure 2 of the mixture-of-parents paper.

    Ridge, tag encoding and when to stop are chosen on the last fifth of the training documents, by a model trained
    on the first four fifths; the chosen model is then trained on all of eng.train and scored once on each test
    file.

    All rows; `data` has the layout of the data folder (tokens/conll2003/eng.train, ...).
    """
    began = time.perf_counter()
    found: list[Row] = []
    chosen: dict[str, Any] = {}
    corpora = read(data)
    for method, templates, variants in METHODS:
        chosen[f"{method.__name__}, {templates}"] = settings = best_settings(method, templates, corpora, tell, n_jobs)
        found += chain_rows(method, settings, variants, corpora, tell, n_jobs)
    used = {"chosen on the last fifth of eng.train": chosen, "grid": {k: list(v) for k, v in GRID.items()}}
    return Report("chain-conll", found, time.perf_counter() - began, used, ("f1", "fp", "fn"), CHAIN_CONLL_PAPER)


def best_settings(method: type[Tagger], templates: str, data: Conll, tell: Tell, n_jobs: int) -> dict[str, Any]:
    grid = ({"templates": templates, **dict(zip(GRID, values, strict=True))} for values in product(*GRID.values()))
    return choose(method, data, grid, tell, n_jobs)[0]


def chain_rows(
    method: type[Tagger], settings: dict[str, Any], variants: Variants, data: Conll, tell: Tell, n_jobs: int
) -> list[Row]:
    """Train on all of eng.train; a row for each variant and test file."""
    model = method(n_jobs=n_jobs, **settings).fit(data.train)
    return [row for name, decoding in variants.items() for row in rows(model.set_params(**decoding), name, data, tell)]


# -- mixture ---------------------------------------------------------------------------------------

FEATURES = "sentence"
TRAINING = ({"l2": 0.01, "tolerance": 0.3}, {"l2": 0.1, "tolerance": 0.3}, {"l2": 0.1, "tolerance": 1.5e-4})
SKIPS: tuple[dict[str, Any], ...] = ({}, {"skip_edges": SameWord(ignore_case=True)})
EDGES: tuple[dict[str, Any], ...] = (
    {},
    {"edge_features": "default"},
    {"mixing": "learned"},
    {"mixing": "learned", "edge_features": "default"},
)
SKIP_CHAIN: tuple[dict[str, Any], ...] = (
    {},
    {"decode": "map"},
    {"edge_features": "default"},
    {"edge_features": "default", "decode": "map"},
)
BEYOND = ({"order": "both"}, {"templates": "document"}, {"templates": "document", "order": "both"})
MOP_CONLL_PAPER = {
    **CHAIN_CONLL_PAPER,
    ("conll2003", "mixture separate", "testa"): {"f1": 90.5, "fp": 8.7, "fn": 10.3},
    ("conll2003", "mixture joint", "testa"): {"f1": 90.9, "fp": 8.5, "fn": 9.8},
    ("conll2003", "skip-chain CRF", "testa"): {"f1": 91.2},
}
BASELINE = "MEMM posterior"


def mop_conll(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Figure 2 of the mixture-of-parents paper: named entities of CoNLL-2003 English.

    All settings are chosen on the last fifth of the training documents: for the chain models as in chain-conll, for the
    others one after the other (ridge and when to stop; which words skip edges join; features of edges, mixing weights
    or decoding; for the best configuration of the library also the order and the feature set). The chosen models are
    trained on all of eng.train and scored once on each test file. "As in the paper": identical words, uniform
    weights, no features of edges. The improvement columns are the paper's: how many percent of the false positives
    and false negatives of the posterior MEMM are gone.

    All rows; `data` has the layout of the data folder (tokens/conll2003/eng.train, ...).
    """
    began = time.perf_counter()
    corpora = read(data)
    found: list[Row] = []
    chosen: dict[str, Any] = {}
    trials: list[dict[str, Any]] = []
    for method, templates, variants in METHODS:
        if method in (MEMM, LinearChainCRF) and templates == FEATURES:
            settings = best_settings(method, templates, corpora, tell, n_jobs)
            chosen[method.__name__] = settings
            found += chain_rows(method, settings, variants, corpora, tell, n_jobs)
    best: tuple[dict[str, Any], float] = ({}, -1.0)
    for training in ("separate", "joint"):
        plain, _ = search(corpora, {"training": training}, (TRAINING,), tell, n_jobs, trials)
        settings, score = search(corpora, plain, (SKIPS, EDGES), tell, n_jobs, trials)
        for name, chosen_settings in (
            (f"mixture {training}", settings),
            (f"mixture {training}, as in the paper", plain),
        ):
            chosen[name] = chosen_settings
            found += mixture_rows(name, chosen_settings, corpora, tell, n_jobs)
        if score > best[1]:
            best = settings, score
    settings, _ = search(corpora, {}, (TRAINING, SKIPS, SKIP_CHAIN), tell, n_jobs, trials, SkipChainCRF)
    chosen["skip-chain CRF"] = settings
    found += _skip_chain_rows(settings, corpora, tell, n_jobs)
    settings, _ = search(corpora, best[0], (({}, *BEYOND),), tell, n_jobs, trials)
    chosen["mixture, best configuration"] = settings
    found += mixture_rows("mixture, best configuration", settings, corpora, tell, n_jobs)
    used = {"chosen on the last fifth of eng.train": chosen, "held-out F1 of all that was tried": trials}
    shown = ("f1", "fp", "fn", "fp_improvement", "fn_improvement")
    return Report("mop-conll", _with_improvement(found), time.perf_counter() - began, used, shown, MOP_CONLL_PAPER)


def search(
    data: Conll,
    settings: dict[str, Any],
    stages: Iterable[Iterable[dict[str, Any]]],
    tell: Tell,
    n_jobs: int,
    trials: list[dict[str, Any]],
    method: type[Tagger] = MixtureTagger,
) -> tuple[dict[str, Any], float]:
    """Stage after stage, the best choice of each is kept for the next."""
    score = -1.0
    for stage in stages:
        grid = [{**settings, **choice} for choice in stage]
        settings, score = choose(method, data, grid, tell, n_jobs, trials)
    return settings, score


def mixture_rows(name: str, settings: dict[str, Any], data: Conll, tell: Tell, n_jobs: int) -> list[Row]:
    return rows(MixtureTagger(n_jobs=n_jobs, **settings).fit(data.train), name, data, tell)


def _skip_chain_rows(settings: dict[str, Any], data: Conll, tell: Tell, n_jobs: int) -> list[Row]:
    """With the number of documents in which belief propagation did not settle."""
    model = SkipChainCRF(n_jobs=n_jobs, **settings).fit(data.train)
    found = rows(model, "skip-chain CRF", data, tell)
    for row, test in zip(found, (data.testa, data.testb), strict=True):
        report = model.inference_report(test)
        row["not_converged"], row["documents"] = len(report.not_converged), len(report.converged)
        tell(f"skip-chain CRF, {row['split']}: {report}")
    return found


def _with_improvement(found: list[Row]) -> list[Row]:
    """Percent of the baseline's false positives and false negatives that are gone."""
    base = {row["split"]: row for row in found if row["model"] == BASELINE}
    for row in found:
        for error in ("fp", "fn"):
            row[f"{error}_improvement"] = 100 * (1 - row[error] / base[row["split"]][error])
    return found


# -- Figure 3 of the mixture-of-parents paper: pages of four computer science departments, one left out at a time ---

Stages = tuple[tuple[dict[str, Any], ...], ...]
RIDGE = ({"l2": 0.3}, {"l2": 1.0}, {"l2": 3.0}, {"l2": 10.0})
MIXING = ({"mixing": "uniform"}, {"mixing": "learned"})
MODELS: dict[str, tuple[Any, dict[str, Any], Stages]] = {
    "node": (MixtureNodes, {"relations": [], "training": "separate"}, (RIDGE,)),
    "link": (LinkModel, {}, (RIDGE,)),
    "mixture separate": (MixtureNodes, {"training": "separate"}, (RIDGE, MIXING)),
    "mixture joint": (MixtureNodes, {"training": "joint"}, (RIDGE, MIXING)),
}
MOP_WEBKB_PAPER = {
    ("webkb", "node", "mean"): {"error": 16.9},
    ("webkb", "link", "mean"): {"error": 13.6},
    ("webkb", "mixture separate", "mean"): {"error": 13.1},
    ("webkb", "mixture joint", "mean"): {"error": 13.3},
}


def mop_webkb(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Figure 3 of the mixture-of-parents paper: pages of four computer science departments, one left out at a time.

    For each school the models are trained on the other three. Settings are chosen among those three alone, again
    leaving one out at a time; the school that is scored has no say. The node model is the same library's log-linear
    model without any relation. The improvement is the paper's: percent of the node model's error that is gone.

    All rows; `data` has the layout of the data folder (nodes/webkb_raw_cmu/webkb.tar.gz).
    """
    began = time.perf_counter()
    graph = read_webkb(data / "nodes" / "webkb_raw_cmu" / "webkb.tar.gz")
    tell(f"{graph}")
    rows: list[Row] = []
    chosen: dict[str, Any] = {}
    for name, (method, base, stages) in MODELS.items():
        for school, train, _, test, _ in by_group(graph):
            settings = _choose(method, train, base, stages, tell, n_jobs)
            chosen[f"{name}, {school}"] = settings
            model = method(n_jobs=n_jobs, **settings).fit(train)
            error = 100 * (1 - model.score(test))
            row: Row = {"model": name, "dataset": "webkb", "split": school, "error": error}
            if method is LinkModel:  # belief propagation may not settle
                row["not_converged"] = len(model.inference_report(test).not_converged)
            rows.append(row)
            tell(f"{name}, {school}, {settings}: error {error:.2f}")
        mean = float(np.mean([row["error"] for row in rows if row["model"] == name]))
        unsettled = [row["not_converged"] for row in rows if row["model"] == name and "not_converged" in row]
        total = {"not_converged": sum(unsettled)} if unsettled else {}
        rows.append({"model": name, "dataset": "webkb", "split": "mean", "error": mean, **total})
        tell(f"{name}, mean: error {mean:.2f}")
    node = {row["split"]: row["error"] for row in rows if row["model"] == "node"}
    for row in rows:
        row["improvement"] = 100 * (1 - row["error"] / node[row["split"]])
    used = {"chosen by leaving out each of the three training schools": chosen, "pages": graph.n_nodes}
    return Report("mop-webkb", rows, time.perf_counter() - began, used, ("error", "improvement"), MOP_WEBKB_PAPER)


def _error(method: Any, split: Split, settings: dict[str, Any], n_jobs: int) -> float:
    return 100 * (1 - float(method(n_jobs=n_jobs, **settings).fit(split.fit).score(split.target)))


def _choose(
    method: Any, train: Graph, settings: dict[str, Any], stages: Stages, tell: Tell, n_jobs: int
) -> dict[str, Any]:
    """Stage after stage, the choice with the least mean error is kept for the next."""
    for stage in stages:
        errors = []
        for choice in stage:
            tried = {**settings, **choice}
            errors.append(np.mean([_error(method, split, tried, n_jobs) for split in by_group(train)]))
            tell(f"  {tried}: error {errors[-1]:.2f} on held-out schools")
        settings = {**settings, **stage[int(np.argmin(errors))]}
    return settings
