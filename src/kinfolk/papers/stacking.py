"""Table 1 of the stacked graphical learning paper, for graphs: what every data set's experiment shares.

Five models on the same folds: the base alone (local), the dependency network, stacking with one and two levels, and the
ceiling, which is told true labels of neighbours. p_value is of a paired t-test against stacked k=1 over the folds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kinfolk.collective.templates import Count, LogCount, Max, Mean, Window
from kinfolk.datasets.corpora import read_aimed, read_genia, read_mail
from kinfolk.datasets.linqs import read_linqs
from kinfolk.datasets.webkb import SCHOOLS
from kinfolk.errors import ConvergenceWarning, DataWarning
from kinfolk.graph.dependency import DependencyNetwork
from kinfolk.graph.diffusion import diffused
from kinfolk.graph.graph import Graph
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers import mixture as mixture_paper
from kinfolk.papers.data import SLIF_WIDE, Conll, Split, by_group, citations, read, rows, slif, webkb
from kinfolk.papers.harness import Report, Row, Tell, paired_t_test
from kinfolk.text.chain import LinearChainCRF, MaxEnt
from kinfolk.text.corpus import Corpus
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.stacked import StackedTagger

REFERENCE = "stacked k=1"
PAPER_ROWS = ("local", "dependency network", REFERENCE, "stacked k=2", "ceiling")


def maxent(c: float = 1.0) -> Any:
    """The paper's base: maximum entropy with a ridge."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=2000)


def paper_network(split: Split, base: Any, templates: Any, **settings: Any) -> DependencyNetwork:
    """The dependency network of the paper, trained on a fold; it counts, also neighbours without a label."""
    network = DependencyNetwork(base, templates, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return network.fit(split.fit, train=split.train)


def five_models(split: Split, base: Any, templates: Any, known: str, folds: int, n_jobs: int) -> dict[str, float]:
    """Accuracies of the models of Table 1 on a fold; `known`: "crossfit" or "true"."""
    stacked = StackedNodes(base, templates, depth=2, folds=folds, known=known, n_jobs=n_jobs)
    stacked.fit(split.fit, train=split.train)
    levels = [split.accuracy(table, stacked.classes_) for table in stacked.predict_levels(split.target)]
    told = "train" if known == "true" else "none"
    rival = paper_network(split, base, templates, burn_in=100, sweeps=200, n_jobs=n_jobs)
    top = StackedNodes(base, templates, known="ceiling", n_jobs=n_jobs).fit(split.fit, train=split.train)
    return {
        "local": levels[0],
        "dependency network": split.accuracy(rival.predict_proba(split.target, known=told), rival.classes_),
        "stacked k=1": levels[1],
        "stacked k=2": levels[2],
        "ceiling": split.accuracy(top.predict_proba(split.target), top.classes_),
    }


def compared(
    dataset: str, splits: Sequence[Split], base: Any, templates: Any, known: str, tell: Tell, n_jobs: int,
    folds: int = 5, suffix: str = "",
) -> list[Row]:  # fmt: skip
    """The models of Table 1 on every fold, with means and p-values; `suffix` sets their names apart from others'."""
    found: dict[str, list[float]] = {}
    for split in splits:
        for name, accuracy in five_models(split, base, templates, known, folds, n_jobs).items():
            found.setdefault(name + suffix, []).append(accuracy)
        last = ", ".join(f"{name} {scores[-1]:.2f}" for name, scores in found.items())
        tell(f"{dataset}, {split.name}: {last}")
    return table(dataset, [split.name for split in splits], found, REFERENCE + suffix)


def table(
    dataset: str, splits: Sequence[str], found: dict[str, list[float]], reference: str, metric: str = "accuracy"
) -> list[Row]:
    """Rows of scores by fold, then their means, with p-values of a paired t-test against `reference`."""
    rows: list[Row] = []
    for name, scores in found.items():
        for split, score in zip(splits, scores, strict=True):
            rows.append({"model": name, "dataset": dataset, "split": split, metric: score})
    for name, scores in found.items():
        mean: Row = {"model": name, "dataset": dataset, "split": "mean", metric: float(np.mean(scores))}
        if name != reference:
            mean["p_value"] = paired_t_test(scores, found[reference])
        rows.append(mean)
    return rows


# -- Table 1 of the stacked graphical learning paper, for names in text: what every corpus's experiment shares ---
#
# Five folds of documents. The local model is a CRF; the competitor a stacked sequential CRF, told the predictions of
# the three tokens on each side; the stacked graphical CRF is told these and how the other tokens of the document with
# the same word were labelled (also those with the same word in another case, and with the same word before or after),
# and how the words around it are labelled elsewhere. The ridge is chosen for each fold on a fifth of its training
# documents; the templates were chosen on held-out abstracts of GENIA, among the training documents of the first fold;
# these are test documents of the other folds, so of GENIA only the first fold had no part in that choice.

FOLDS = 5
RIDGES = (1.0, 3.0, 10.0)
EVERY_WORD = SameWord(capitalised=False, max_document_frequency=None, most_recent=None)
ANY_CASE = replace(EVERY_WORD, ignore_case=True)
PHRASES = (replace(EVERY_WORD, before=1), replace(EVERY_WORD, after=1))
SEQUENTIAL = (Window(3),)
GRAPHICAL = (
    Window(3),
    *(make(rule) for rule in (EVERY_WORD, ANY_CASE, *PHRASES) for make in (Count, Max)),
    Window(3, Mean(EVERY_WORD)),
    Window(3, Max(EVERY_WORD)),
)
TOLERANCE = 1e-3
NAME_ROWS = ("local", "stacked sequential CRF", "stacked k=1", "stacked k=2", "ceiling")


def crf(l2: float, n_jobs: int, **settings: Any) -> LinearChainCRF:
    return LinearChainCRF(l2=l2, tolerance=TOLERANCE, n_jobs=n_jobs, **settings)


def document_folds(n_documents: int, n_folds: int = FOLDS) -> np.ndarray:
    """The fold of each document, drawn with a fixed seed."""
    return np.random.default_rng(0).permutation(n_documents) % n_folds


def chosen_ridge(train: Corpus, ridges: tuple[float, ...], tell: Tell, n_jobs: int) -> float:
    """The ridge whose CRF does best on a fifth of the training documents."""
    parts = document_folds(train.n_documents)
    fit, held = train.select(np.flatnonzero(parts != 0)), train.select(np.flatnonzero(parts == 0))
    scores = [crf(l2, n_jobs).fit(fit).score(held) for l2 in ridges]
    tell("  held-out F1 by ridge: " + ", ".join(f"{r:g} {100 * s:.2f}" for r, s in zip(ridges, scores, strict=True)))
    return ridges[int(np.argmax(scores))]


def one_fold(train: Corpus, test: Corpus, l2: float, n_jobs: int) -> dict[str, float]:
    """Entity F1 of the five models."""
    base = crf(l2, n_jobs)
    stacked = StackedTagger(base, list(GRAPHICAL), depth=2, cross_fitting="paper", n_jobs=n_jobs).fit(train)
    rival = StackedTagger(base, list(SEQUENTIAL), n_jobs=n_jobs).fit(train)
    bases = [MaxEnt(max_iterations=1, n_jobs=n_jobs), base]  # the ceiling never asks its first level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        top = StackedTagger(bases, list(GRAPHICAL), known="ceiling", n_jobs=n_jobs).fit(train)
    models = (stacked.at_depth(0), rival, stacked.at_depth(1), stacked, top)
    return {name: 100 * model.score(test) for name, model in zip(NAME_ROWS, models, strict=True)}


def run_folds(
    experiment: str, dataset: str, corpus: Corpus, paper: dict[str, float], tell: Tell, n_jobs: int,
    ridges: tuple[float, ...] = RIDGES,
) -> Report:  # fmt: skip
    """All rows of one corpus."""
    began = time.perf_counter()
    folds = document_folds(corpus.n_documents)
    found: dict[str, list[float]] = {}
    chosen: dict[str, float] = {}
    tell(f"{corpus}")
    for number in range(FOLDS):
        train, test = (corpus.select(np.flatnonzero(part)) for part in (folds != number, folds == number))
        chosen[f"fold {number}"] = l2 = chosen_ridge(train, ridges, tell, n_jobs)
        for name, f1 in one_fold(train, test, l2, n_jobs).items():
            found.setdefault(name, []).append(f1)
        tell(f"fold {number}: " + ", ".join(f"{name} {scores[-1]:.2f}" for name, scores in found.items()))
    rows: list[Row] = table(dataset, [f"fold {n}" for n in range(FOLDS)], found, "stacked k=1", "f1")
    settings = {
        "ridge chosen on a fifth of the training documents": chosen,
        "templates": [repr(template) for template in GRAPHICAL],
    }
    printed = {(dataset, name, "mean"): {"f1": value} for name, value in paper.items()}
    return Report(experiment, rows, time.perf_counter() - began, settings, ("f1", "p_value"), printed)


# -- Table 1 of the stacked graphical learning paper, Cora and CiteSeer: papers, their words, and who cites whom ---
#
# Three parts, all on the same five folds:
#
# - the paper's models, with binary words and counts of citing and cited papers by class; neighbours give predictions
# only
# - the same where neighbours that were trained on give their true labels (model names end in ", known labels")
# - "stacked best, known labels": words weighted by how rare they are and smoothed along citations (`diffused`), and
# above   that model one level that is told its own prediction and the labels of neighbours, one and two steps away.
# How far   words travel is chosen for each fold on its training papers, by three folds of them.

NEAR = "cites | cited_by"
FAR = f"({NEAR}) @ ({NEAR})"
ALPHAS = (0.1, 0.15, 0.2, 0.3)
BEST = "stacked best, known labels"


def run_citations(name: str, printed: Sequence[float], data: Path, tell: Tell, n_jobs: int) -> Report:
    """All rows of one data set; `printed` are the paper's figures."""
    began = time.perf_counter()
    problem = citations(data, name)
    tell(f"{problem.graph}")
    rows = compared(name, problem.splits, maxent(), problem.templates, "crossfit", tell, n_jobs)
    rows += compared(name, problem.splits, maxent(), problem.templates, "true", tell, n_jobs, suffix=", known labels")
    best, chosen = best_rows(name, problem.splits, tell, n_jobs)
    paper = {(name, model, "mean"): {"accuracy": figure} for model, figure in zip(PAPER_ROWS, printed, strict=True)}
    settings = {"base": repr(maxent()), "alpha chosen on training papers": chosen}
    seconds = time.perf_counter() - began
    return Report(f"stacked-{name}", rows + best, seconds, settings, ("accuracy", "p_value"), paper)


def best_rows(name: str, splits: Sequence[Split], tell: Tell, n_jobs: int) -> tuple[list[Row], dict[str, float]]:
    """The best model, beside the model of smoothed words that it stands on and that of the words alone."""
    found: dict[str, list[float]] = {}
    chosen: dict[str, float] = {}
    words = weighted(splits[0].fit)
    smooth = {alpha: unit_rows(diffused(words, NEAR, alpha, scale=False)) for alpha in ALPHAS}
    for split in splits:
        alpha = chosen[split.name] = _chosen_alpha(smooth, split.train)
        graph = smooth[alpha]
        model = best_model(n_jobs).fit(graph, train=split.train)
        levels = [split.accuracy(p, model.classes_) for p in model.predict_levels(graph)]
        for label, accuracy in zip(("smoothed words", BEST), levels, strict=True):
            found.setdefault(label, []).append(accuracy)
        tell(f"{name}, {split.name}: alpha {alpha}, smoothed words {levels[0]:.2f}, best {levels[1]:.2f}")
    return table(name, [split.name for split in splits], found, BEST), chosen


def best_model(n_jobs: int) -> StackedNodes:
    templates = [Mean(NEAR), Mean(FAR)]
    return StackedNodes([maxent(3.0), maxent(1.0)], templates, own=True, features=False, known="true", n_jobs=n_jobs)


def weighted(graph: Graph) -> Graph:
    """Words times log((1 + n) / (1 + pages with the word)) + 1, rows of unit length."""
    from sklearn.feature_extraction.text import TfidfTransformer

    words = sparse.csr_array(graph.features, dtype=np.float64)
    return graph.with_features(sparse.csr_array(TfidfTransformer().fit_transform(words)), graph.feature_names)


def unit_rows(graph: Graph) -> Graph:
    """Rows of length 1, for which the ridge of the best model was chosen."""
    from sklearn.preprocessing import normalize

    return graph.with_features(normalize(graph.features), graph.feature_names)


def _chosen_alpha(smooth: dict[float, Graph], train: Any) -> float:
    """How far words travel: what classifies held-out training papers best, by three folds."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = []
    for graph in smooth.values():
        rows, codes = graph.features[train], graph.label_codes[train]
        scores.append(cross_val_score(maxent(3.0), rows, codes, cv=folds).mean())
    return list(smooth)[int(np.argmax(scores))]


# -- Table 1, SLIF: which candidate regions of a figure are text ---------------------------------------

SLIF_PAPER = dict(zip(PAPER_ROWS, (77.2, 86.7, 90.1, 90.1, 96.3), strict=True))


def stacked_slif(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Table 1, SLIF: which candidate regions of a figure are text.

    The public sample's own features already hold what OCR read in the neighbours, so the local model knows most of
    what one step along the links could tell it. Five folds, by instance and by figure; by instance in two settings:
    neighbours give predictions, or those trained on give true labels (", known labels"; no link leads out of a
    figure, so by figure there is nothing to know). "stacked wide" is told more: of competitors, of all four sides
    together, of everybody linked by any number of steps, of the figure, and its own prediction, two levels.
    "stacked order" adds how many regions of the panel come before this one in the ids: in this sample the first is
    text in 87 of 100 cases, which may be an artefact of how ids were given; it is shown for what it is.

    All rows; `data` has the layout of the data folder (nodes/slif_sgm_minorthird).
    """
    began = time.perf_counter()
    problem = slif(data)
    rows: list[Row] = []
    ordered = with_order(problem.graph)
    for dataset, splits, same in (
        ("slif", problem.splits, lambda graph: [_on(graph, split) for split in problem.splits]),
        ("slif by figure", list(by_figure(problem.graph)), lambda graph: list(by_figure(graph))),
    ):
        rows += compared(dataset, splits, maxent(), problem.templates, "crossfit", tell, n_jobs)
        if dataset == "slif":
            rows += compared(
                dataset, splits, maxent(), problem.templates, "true", tell, n_jobs, suffix=", known labels"
            )
            rows += wide_rows(dataset, "stacked wide", splits, "true", tell, n_jobs, ", known labels")
        for name, graph in (("stacked wide", problem.graph), ("stacked order", ordered)):
            rows += wide_rows(dataset, name, same(graph), "crossfit", tell, n_jobs)
    paper = {("slif", model, "mean"): {"accuracy": figure} for model, figure in SLIF_PAPER.items()}
    settings = {"base": repr(maxent()), "wide templates": [repr(template) for template in SLIF_WIDE]}
    return Report("stacked-slif", rows, time.perf_counter() - began, settings, ("accuracy", "p_value"), paper)


def wide_rows(
    dataset: str, name: str, splits: list[Split], known: str, tell: Tell, n_jobs: int, suffix: str = ""
) -> list[Row]:
    """More templates and the own prediction, by depth."""
    found: dict[str, list[float]] = {}
    for split in splits:
        model = StackedNodes(maxent(), SLIF_WIDE, 2, own=True, known=known, n_jobs=n_jobs)
        model.fit(split.fit, train=split.train)
        for depth, proba in enumerate(model.predict_levels(split.target)):
            label = f"{name} k={depth}" if depth else name.replace("stacked", "local")
            found.setdefault(label + suffix, []).append(split.accuracy(proba, model.classes_))
    means = ", ".join(f"{label} {np.mean(scores):.2f}" for label, scores in found.items())
    tell(f"{dataset}: {means}")
    return table(dataset, [split.name for split in splits], found, f"{name} k=2{suffix}")


def _on(graph: Graph, split: Split) -> Split:
    """The same fold of a graph with other features."""
    return split._replace(fit=graph, target=graph)


def by_figure(graph: Graph, n_folds: int = 5) -> Iterator[Split]:
    """Folds that never divide a figure: trained on some figures, scored on others."""
    from sklearn.model_selection import GroupKFold

    for number, (train, test) in enumerate(GroupKFold(n_folds).split(graph.ids, groups=graph.group_codes)):
        fit, target = graph.subset(train), graph.subset(test)
        yield Split(f"fold {number}", fit, np.arange(fit.n_nodes), target, np.arange(target.n_nodes))


def with_order(graph: Graph) -> Graph:
    """One more feature: log(1 + regions of the panel that come before this one)."""
    rivals = graph.relations["competitor"]
    numbers = np.array([int(key.rpartition("_")[2].partition(".")[0]) for key in graph.ids])
    here = np.repeat(np.arange(graph.n_nodes), np.diff(rivals.indptr))
    before = np.bincount(here[numbers[rivals.indices] < numbers[here]], minlength=graph.n_nodes)
    column = sparse.csr_array(np.log1p(before)[:, None])
    assert graph.feature_names is not None
    table_ = sparse.csr_array(sparse.hstack([graph.features, column], format="csr"))
    return graph.with_features(table_, [*graph.feature_names, "regions before"])


# -- Table 1, WebKB: pages of four departments, each left out in turn, and the 877 pages of LINQS's form ---

WEBKB_PAPER = dict(zip(PAPER_ROWS, (58.3, 74.2, 73.2, 72.1, 73.6), strict=True))
TOGETHER = ("cited_by @ cites", "cites @ cited_by")  # linked from one page; linking to one page
RELATIONS = (("cites", "cited_by"), ("cites", "cited_by", TOGETHER[0]), ("cites", "cited_by", *TOGETHER))
WORDS = {"binary": 0.01, "weighted": 10.0}  # and the C of their maximum entropy model
DEPTH = 2


class Choice(NamedTuple):
    words: str
    relations: tuple[str, ...]
    depth: int


def stacked_webkb(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Table 1, WebKB: pages of four departments, each left out in turn, and the 877 pages of LINQS's form.

    On the raw pages (six classes, as in the paper) the models of Table 1. On LINQS's form, beside them, "stacked
    best": log counts over links, and over pages that are linked together; words as they are or weighted by how rare
    they are, relations and depth chosen for each school by leaving out the other three in turn.

    All rows; `data` has the layout of the data folder (nodes/webkb_raw_cmu, nodes/webkb_linqs).
    """
    began = time.perf_counter()
    problem = webkb(data)
    tell(f"{problem.graph}")
    rows = compared("webkb", problem.splits, maxent(), problem.templates, "crossfit", tell, n_jobs)
    _add_error_reduction(rows)
    graph = linqs_pages(data)
    counts = [Count("cites"), Count("cited_by")]
    rows += compared("webkb-linqs", list(by_group(graph)), maxent(), counts, "crossfit", tell, n_jobs)
    best, chosen = best_webkb_rows(graph, tell, n_jobs)
    paper = {("webkb", model, "mean"): {"accuracy": figure} for model, figure in WEBKB_PAPER.items()}
    settings = {"base": repr(maxent()), "chosen by leaving out each of the three training schools": chosen}
    shown = ("accuracy", "p_value", "fewer_errors")
    return Report("stacked-webkb", rows + best, time.perf_counter() - began, settings, shown, paper)


def linqs_pages(data: Path) -> Graph:
    folder = data / "nodes" / "webkb_linqs"
    return read_linqs([folder / f"{s}.content" for s in SCHOOLS], [folder / f"{s}.cites" for s in SCHOOLS])


def _add_error_reduction(rows: list[Row]) -> None:
    """To the mean rows: percent of the local model's errors that are gone."""
    means = {row["model"]: row for row in rows if row["split"] == "mean"}
    for row in means.values():
        errors = 100 - means["local"]["accuracy"]
        row["fewer_errors"] = 100 * (1 - (100 - row["accuracy"]) / errors) if errors else 0.0


def best_webkb_rows(graph: Graph, tell: Tell, n_jobs: int) -> tuple[list[Row], dict[str, Any]]:
    """The choice that does best when each of the three training schools is left out in turn, on the fourth."""
    kinds = {"binary": graph, "weighted": weighted(graph)}
    found: list[float] = []
    chosen: dict[str, Any] = {}
    right = 0.0
    for number, school in enumerate(graph.group_names):
        inside = graph.group_codes == number
        scores: dict[Choice, float] = {}
        for words, relations in product(WORDS, RELATIONS):
            others = kinds[words].subset(~inside)
            tried = np.mean([_levels(split, words, relations, n_jobs) for split in by_group(others)], axis=0)
            scores.update({Choice(words, relations, depth): float(a) for depth, a in enumerate(tried)})
        best = max(scores, key=lambda choice: scores[choice])
        split = list(by_group(kinds[best.words]))[number]
        found.append(_levels(split, best.words, best.relations, n_jobs)[best.depth])
        right += found[-1] * inside.sum()
        chosen[school] = best._asdict()
        tell(f"webkb-linqs, {school}: {best}, held-out {scores[best]:.2f}, stacked best {found[-1]:.2f}")
    rows = table("webkb-linqs", list(graph.group_names), {"stacked best": found}, "stacked best")
    pooled: Row = {"model": "stacked best", "dataset": "webkb-linqs", "split": "all pages"}
    return [*rows, {**pooled, "accuracy": right / graph.n_nodes}], chosen


def _levels(split: Split, words: str, relations: tuple[str, ...], n_jobs: int) -> list[float]:
    """Accuracies by depth, from the words alone."""
    templates = [LogCount(relation) for relation in relations]
    base = maxent(WORDS[words])
    model = StackedNodes(base, templates, DEPTH, own=True, cross_fitting="paper", known="crossfit", n_jobs=n_jobs)
    model.fit(split.fit)
    return [split.accuracy(p, model.classes_) for p in model.predict_levels(split.target)]


# -- A stacked CRF on CoNLL-2003 English, beside the linear-chain CRF it stands on and the mixture of parents ---


def stacked_conll(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """A stacked CRF on CoNLL-2003 English, beside the linear-chain CRF it stands on and the mixture of parents.

    For sentence features and for document features. Settings of the chain are chosen on the last fifth of the training
    documents, as in chain-conll, and every level of the stack has them; those of the mixture as in mop-conll, separate
    training. The templates are those of the protein names (stacked-genia).

    All rows; `data` has the layout of the data folder (tokens/conll2003/eng.train, ...).
    """
    began = time.perf_counter()
    corpora = read(data)
    chosen: dict[str, Any] = {}
    found: list[Row] = []
    for templates, suffix in (("sentence", ""), ("document", ", document features")):
        settings = mixture_paper.best_settings(LinearChainCRF, templates, corpora, tell, n_jobs)
        chosen[f"linear-chain CRF{suffix}"] = settings
        found += stacked_rows(settings, suffix, corpora, tell, n_jobs)
    stages = (mixture_paper.TRAINING, mixture_paper.SKIPS, mixture_paper.EDGES)
    mixture, _ = mixture_paper.search(corpora, {"training": "separate"}, stages, tell, n_jobs, [])
    chosen["mixture separate"] = mixture
    found += mixture_paper.mixture_rows("mixture separate", mixture, corpora, tell, n_jobs)
    used = {"chosen on the last fifth of eng.train": chosen, "templates": [repr(t) for t in GRAPHICAL]}
    paper = mixture_paper.MOP_CONLL_PAPER
    return Report("stacked-conll", found, time.perf_counter() - began, used, ("f1", "fp", "fn"), paper)


def stacked_rows(settings: dict[str, Any], suffix: str, data: Conll, tell: Tell, n_jobs: int) -> list[Row]:
    """The CRF alone and with one and two levels above it, from one training."""
    base = LinearChainCRF(n_jobs=n_jobs, **settings)
    model = StackedTagger(base, list(GRAPHICAL), DEPTH, cross_fitting="paper", n_jobs=n_jobs).fit(data.train)
    found: list[Row] = []
    for depth in range(DEPTH + 1):
        name = f"stacked k={depth}" if depth else "linear-chain CRF"
        found += rows(model.at_depth(depth), name + suffix, data, tell)
    return found


# -- Table 1, UT: protein names in abstracts, five folds. AIMed's 224 abstracts stand in for the 748 of the paper ---

AIMED_PAPER = dict(zip(NAME_ROWS, (73.1, 76.8, 78.3, 78.4, 80.5), strict=True))


def stacked_aimed(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Table 1, UT: protein names in abstracts, five folds. AIMed's 224 abstracts stand in for the 748 of the paper.

    All rows; `data` has the layout of the data folder (tokens/aimed_ppi).
    """
    folder = data / "tokens" / "aimed_ppi"
    corpus = read_aimed([folder / "AIMed-train.xml", folder / "AIMed-test.xml"])
    return run_folds("stacked-aimed", "aimed", corpus, AIMED_PAPER, tell, n_jobs, (0.3, 1.0, 3.0))


# -- Table 1, CiteSeer: 3,312 papers of six subjects, five folds ---------------------------------------

CITESEER_PRINTED = (55.3, 58.7, 59.8, 59.8, 62.3)


def stacked_citeseer(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Table 1, CiteSeer: 3,312 papers of six subjects, five folds.

    All rows; `data` has the layout of the data folder (nodes/citeseer_linqs).
    """
    return run_citations("citeseer", CITESEER_PRINTED, data, tell, n_jobs)


# -- Table 1, Cora: 2,708 papers of seven subjects, five folds -----------------------------------------

CORA_PRINTED = (63.9, 72.9, 73.8, 73.9, 76.9)


def stacked_cora(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Table 1, Cora: 2,708 papers of seven subjects, five folds.

    All rows; `data` has the layout of the data folder (nodes/cora_linqs).
    """
    return run_citations("cora", CORA_PRINTED, data, tell, n_jobs)


# -- Table 1, CSpace: person names in e-mail, five folds. 652 Enron messages stand in for the 216 of the paper ---

ENRON_PAPER = dict(zip(NAME_ROWS, (80.3, 81.2, 82.5, 82.4, 84.6), strict=True))


def stacked_enron(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Table 1, CSpace: person names in e-mail, five folds. 652 Enron messages stand in for the 216 of the paper.

    All rows; `data` has the layout of the data folder (tokens/enron_person).
    """
    archive = data / "tokens" / "enron_person" / "enron_person.tar.gz"
    corpus = Corpus.joined([read_mail(archive, split) for split in ("training", "test")])
    return run_folds("stacked-enron", "enron", corpus, ENRON_PAPER, tell, n_jobs, (0.3, 1.0, 3.0))


# -- Table 1, Genia: protein names in 2,000 abstracts, five folds --------------------------------------

GENIA_PAPER = dict(zip(NAME_ROWS, (72.0, 77.1, 77.9, 78.0, 80.3), strict=True))


def stacked_genia(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Table 1, Genia: protein names in 2,000 abstracts, five folds.

    Tokens are words as blanks and marks divide them, as is usual for this corpus (IL-2 is one): a name that ends
    within a word (IL-2-induced) is widened to all of it.

    All rows; `data` has the layout of the data folder (tokens/genia).
    """
    corpus = read_genia(data / "tokens" / "genia" / "GENIAcorpus3.02.tgz", tokenise="words")
    return run_folds("stacked-genia", "genia", corpus, GENIA_PAPER, tell, n_jobs)
