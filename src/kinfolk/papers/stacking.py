"""Table 1 of the stacked graphical learning paper: graphs, names in text, and CoNLL-2003 English beside them.

p_value is of a paired t-test against stacked k=1 over the folds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse

from kinfolk.collective.stacking import folds_of
from kinfolk.collective.templates import Count, LogCount, Max, Mean, Window
from kinfolk.datasets.corpora import read_aimed, read_genia, read_mail
from kinfolk.datasets.linqs import read_linqs
from kinfolk.datasets.webkb import SCHOOLS
from kinfolk.errors import DataWarning
from kinfolk.graph.dependency import DependencyNetwork
from kinfolk.graph.diffusion import diffused
from kinfolk.graph.graph import Graph
from kinfolk.graph.nodes import Nodes, training_labels
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers import mixture as mixture_paper
from kinfolk.papers.data import CHOSEN, SLIF_WIDE, Conll, Split, by_group, citations, search, slif, webkb
from kinfolk.papers.harness import Row, Run, each_fold, experiment, printed, scored
from kinfolk.text.batch import Batch
from kinfolk.text.chain import LinearChainCRF
from kinfolk.text.clusters import cluster_templates, word_clusters
from kinfolk.text.corpus import Corpus
from kinfolk.text.extraction import for_corpus
from kinfolk.text.mixture import MixtureTagger
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.stacked import StackedTagger

SHOWN = ("accuracy", "p_value")
REFERENCE = "stacked k=1"

# -- Graphs ---------------------------------------------------------------------------------------------
#
# Five models on the same folds: the base alone (local), the dependency network, stacking with one and two levels, and
# the ceiling, which sees the true labels of neighbours.

PAPER_ROWS = ("local", "dependency network", REFERENCE, "stacked k=2", "ceiling")


def maxent(c: float = 1.0) -> Any:
    """The paper's base: maximum entropy with a ridge."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=2000)


NOTHING = "nothing: C is scikit-learn's default of 1, the templates are the paper's"


def chosen(rows: list[Row], on: str) -> list[Row]:
    """The rows, with a word on what their settings were chosen on."""
    return [{**row, "chosen_on": on} for row in rows]


def paper_network(split: Split, templates: Any, **settings: Any) -> DependencyNetwork:
    """The dependency network of the paper, trained on a fold; it counts, also neighbours without a label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return DependencyNetwork(maxent(), templates, **settings).fit(split.fit, train=split.train)


def five_models(split: Split, templates: Any, known: str, n_jobs: int) -> dict[str, float]:
    """Accuracies of the models of Table 1 on a fold; `known`: "crossfit" or "true"."""
    levels = level_accuracies(split, StackedNodes(maxent(), templates, depth=2, known=known, n_jobs=n_jobs))
    rival = paper_network(split, templates, burn_in=100, sweeps=200, n_jobs=n_jobs)
    given = "train" if known == "true" else "none"
    network = split.accuracy(rival.predict_proba(split.target, known=given), rival.classes_)
    ceiling = level_accuracies(split, StackedNodes(maxent(), templates, known="ceiling", n_jobs=n_jobs))[-1]
    return dict(zip(PAPER_ROWS, (levels[0], network, levels[1], levels[2], ceiling), strict=True))


def folds_by_rows(model: StackedNodes, split: Split) -> StackedNodes:
    """The model, told to cross-fit by the folds that all figures of the experiments rest on: dealt out by the rows of
    the data set, and not by its ids."""
    nodes = Nodes.of(split.fit)
    labels, _ = training_labels(nodes, split.train)
    return model.set_params(folds=nodes.to_nodes(folds_of(model, labels, nodes.groups, model.split)))


def level_accuracies(split: Split, model: StackedNodes) -> list[float]:
    """Train on a fold; accuracies by level, from the base alone."""
    folds_by_rows(model, split).fit(split.fit, train=split.train)
    return [split.accuracy(table, model.classes_) for table in model.predict_levels(split.target)]


def compared(
    run: Run, dataset: str, splits: Sequence[Split], templates: Any, known: str = "crossfit", suffix: str = ""
) -> list[Row]:
    """The models of Table 1 on every fold, with means and p-values; `suffix` sets their names apart from others'."""
    models = lambda split: five_models(split, templates, known, run.n_jobs)  # noqa: E731
    return chosen(scored(run, dataset, splits, models, REFERENCE, suffix=suffix), NOTHING)


# -- Cora and CiteSeer: papers, their words, and who cites whom ----------------------------------------
#
# Three parts, all on the same five folds:
#
# - the paper's models, with binary words and counts of citing and cited papers by class; neighbours give predictions
#   only
# - the same where neighbours that were trained on give their true labels (model names end in ", known labels")
# - "stacked best, known labels": words weighted by how rare they are and smoothed along citations (`diffused`), and
#   above that model one level that has its own prediction and the labels of neighbours, one and two steps away. How far
#   words travel and C are chosen for each fold on its training papers, by three folds of them; the level above has
#   scikit-learn's C. "local best" is chosen alike, with words that stay where they are.

NEAR = "cites | cited_by"
FAR = f"({NEAR}) @ ({NEAR})"
ALPHAS = (0.1, 0.15, 0.2, 0.3)
CS = (1.0, 3.0, 10.0)
LOCAL_BEST, BEST = "local best", "stacked best, known labels"
ON_PAPERS = "how far words travel and C by three folds of the training papers; templates and words by hand"


@experiment("stacked-cora", SHOWN, printed("cora", PAPER_ROWS, (63.9, 72.9, 73.8, 73.9, 76.9)))
def stacked_cora(run: Run) -> list[Row]:
    """Table 1, Cora: 2,708 papers of seven subjects, five folds."""
    return citation_rows(run, "cora")


@experiment("stacked-citeseer", SHOWN, printed("citeseer", PAPER_ROWS, (55.3, 58.7, 59.8, 59.8, 62.3)))
def stacked_citeseer(run: Run) -> list[Row]:
    """Table 1, CiteSeer: 3,312 papers of six subjects, five folds."""
    return citation_rows(run, "citeseer")


def citation_rows(run: Run, name: str) -> list[Row]:
    problem = citations(run.data, name)
    run.log(f"{problem.graph}")
    rows = compared(run, name, problem.splits, problem.templates)
    rows += compared(run, name, problem.splits, problem.templates, "true", ", known labels")
    words = weighted(problem.graph)
    smooth = {alpha: unit_rows(diffused(words, NEAR, alpha, scale=False)) for alpha in ALPHAS}
    found: dict[str, dict[str, float]] = {}

    def best(split: Split) -> dict[str, float]:
        """The best model, beside the model of smoothed words that it stands on, and that of the words as they are."""
        _, own = _best_words({0.0: words}, split.train)
        alpha, c = _best_words(smooth, split.train)
        found[split.name] = {"alpha": alpha, "C": c, "C of local best": own}
        (local,) = level_accuracies(_on(words, split), StackedNodes(maxent(own), [Mean(NEAR)], 0, n_jobs=run.n_jobs))
        levels = level_accuracies(_on(smooth[alpha], split), best_model(c, run.n_jobs))
        return dict(zip((LOCAL_BEST, "smoothed words", BEST), (local, *levels), strict=True))

    run.settings |= {"base": repr(maxent()), "chosen on training papers": found}
    return rows + chosen(scored(run, name, problem.splits, best, BEST), ON_PAPERS)


def best_model(c: float, n_jobs: int) -> StackedNodes:
    templates = [Mean(NEAR), Mean(FAR)]
    return StackedNodes([maxent(c), maxent()], templates, own=True, features=False, known="true", n_jobs=n_jobs)


def weighted(graph: Graph) -> Graph:
    """Words times log((1 + n) / (1 + papers with the word)) + 1, rows of unit length."""
    from sklearn.feature_extraction.text import TfidfTransformer

    words = sparse.csr_array(graph.features, dtype=np.float64)
    return graph.with_features(sparse.csr_array(TfidfTransformer().fit_transform(words)), graph.feature_names)


def unit_rows(graph: Graph) -> Graph:
    """Rows of length 1, so that one C serves words however far they travelled."""
    from sklearn.preprocessing import normalize

    return graph.with_features(normalize(graph.features), graph.feature_names)


def _best_words(smooth: dict[float, Graph], train: Any) -> tuple[float, float]:
    """How far words travel, and C: what classifies held-out training papers best, by three folds."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores: dict[tuple[float, float], float] = {}
    for (alpha, graph), c in product(smooth.items(), CS):
        rows, codes = graph.features[train], graph.label_codes[train]
        scores[alpha, c] = float(cross_val_score(maxent(c), rows, codes, cv=folds).mean())
    return max(scores, key=lambda choice: scores[choice])


# -- SLIF: regions of figures ---------------------------------------------------------------------------

BY_HAND = "templates by hand, on these figures; C is scikit-learn's default of 1"


@experiment("stacked-slif", SHOWN, printed("slif", PAPER_ROWS, (77.2, 86.7, 90.1, 90.1, 96.3)))
def stacked_slif(run: Run) -> list[Row]:
    """Table 1, SLIF: which candidate regions of a figure are text.

    The public sample's own features already hold what OCR read in the neighbours, so the local model knows most of
    what one step along the links could add. Five folds, by instance and by figure; by instance in two settings:
    neighbours give predictions, or those trained on give true labels (", known labels"; no link leads out of a
    figure, so by figure there is nothing to know). "stacked wide" has more aggregates: of competitors, of all four
    sides together, of everybody linked by any number of steps, of the figure, and its own prediction, two levels.
    "stacked order" adds how many regions of the panel come before this one in the ids: in this sample the first is
    text in 87 of 100 cases, which may be an artefact of how ids were given; it is shown for what it is.
    """
    problem = slif(run.data)
    rows: list[Row] = []
    folds: dict[str, Callable[[Graph], list[Split]]] = {
        "slif": lambda graph: [_on(graph, split) for split in problem.splits],
        "slif by figure": lambda graph: list(by_figure(graph)),
    }
    for dataset, of in folds.items():
        splits = of(problem.graph)
        rows += compared(run, dataset, splits, problem.templates)
        if dataset == "slif":
            rows += compared(run, dataset, splits, problem.templates, "true", ", known labels")
            rows += wide_rows(run, dataset, "stacked wide", splits, "true", ", known labels")
        rows += wide_rows(run, dataset, "stacked wide", splits)
        rows += wide_rows(run, dataset, "stacked order", of(with_order(problem.graph)))
    run.settings |= {"base": repr(maxent()), "wide templates": [repr(template) for template in SLIF_WIDE]}
    return rows


def wide_rows(
    run: Run, dataset: str, name: str, splits: Sequence[Split], known: str = "crossfit", suffix: str = ""
) -> list[Row]:
    """More templates and the own prediction, by depth."""
    names = [name.replace("stacked", "local"), f"{name} k=1", f"{name} k=2"]

    def models(split: Split) -> dict[str, float]:
        model = StackedNodes(maxent(), SLIF_WIDE, 2, own=True, known=known, n_jobs=run.n_jobs)
        return dict(zip(names, level_accuracies(split, model), strict=True))

    return chosen(scored(run, dataset, splits, models, names[-1], suffix=suffix), BY_HAND)


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


# -- WebKB: pages of four departments, each left out in turn -------------------------------------------

TOGETHER = ("cited_by @ cites", "cites @ cited_by")  # linked from one page; linking to one page
RELATIONS = (("cites", "cited_by"), ("cites", "cited_by", TOGETHER[0]), ("cites", "cited_by", *TOGETHER))
WORDS = ("binary", "weighted")
WORD_CS = (0.01, 0.1, 1.0, 10.0)
DEPTH = 2
ON_SCHOOLS = "words, C, relations and depth by leaving out each of the three training schools"


class Choice(NamedTuple):
    words: str
    c: float
    relations: tuple[str, ...]
    depth: int


@experiment("stacked-webkb", (*SHOWN, "fewer_errors"), printed("webkb", PAPER_ROWS, (58.3, 74.2, 73.2, 72.1, 73.6)))
def stacked_webkb(run: Run) -> list[Row]:
    """Table 1, WebKB: pages of four departments, each left out in turn, and the 877 pages of LINQS's form.

    On the raw pages (six classes, as in the paper) the models of Table 1. On LINQS's form, beside them, "stacked
    best": log counts over links, and over pages that are linked together; words as they are or weighted by how rare
    they are, relations and depth chosen for each school by leaving out the other three in turn. So is C, for each kind
    of words by the model without links. "local best" is the best of these models without links.
    """
    problem = webkb(run.data)
    run.log(f"{problem.graph}")
    rows = compared(run, "webkb", problem.splits, problem.templates)
    _add_error_reduction(rows)
    graph = linqs_pages(run.data)
    rows += compared(run, "webkb-linqs", list(by_group(graph)), [Count("cites"), Count("cited_by")])
    run.settings["base"] = repr(maxent())
    return rows + best_webkb_rows(run, graph)


def linqs_pages(data: Path) -> Graph:
    folder = data / "nodes" / "webkb_linqs"
    return read_linqs([folder / f"{s}.content" for s in SCHOOLS], [folder / f"{s}.cites" for s in SCHOOLS])


def _add_error_reduction(rows: list[Row]) -> None:
    """To the mean rows: percent of the local model's errors that are gone."""
    means = {row["model"]: row for row in rows if row["split"] == "mean"}
    for row in means.values():
        errors = 100 - means["local"]["accuracy"]
        row["fewer_errors"] = 100 * (1 - (100 - row["accuracy"]) / errors) if errors else 0.0


def best_webkb_rows(run: Run, graph: Graph) -> list[Row]:
    """The choices that do best when each of the three training schools is left out in turn, on the fourth."""
    kinds = {"binary": graph, "weighted": weighted(graph)}
    found: dict[str, Any] = {}

    def best(split: Split) -> dict[str, float]:
        scores: dict[Choice, float] = {}
        folds = {words: next(one for one in by_group(kinds[words]) if one.name == split.name) for words in WORDS}
        for words in WORDS:
            inner = list(by_group(folds[words].fit))
            by_c = {c: np.mean([_levels(run, one, c, RELATIONS[0], 0) for one in inner]) for c in WORD_CS}
            c = max(by_c, key=lambda c: by_c[c])
            for relations in RELATIONS:
                tried = np.mean([_levels(run, one, c, relations, DEPTH) for one in inner], axis=0)
                scores.update({Choice(words, c, relations, depth): float(a) for depth, a in enumerate(tried)})
        accuracies = {}
        for name, depths in (("local best", (0,)), ("stacked best", range(DEPTH + 1))):
            choice = max((one for one in scores if one.depth in depths), key=lambda one: scores[one])
            found.setdefault(split.name, {})[name] = choice._asdict()
            run.log(f"webkb-linqs, {split.name}, {name}: {choice}, held-out {scores[choice]:.2f}")
            levels = _levels(run, folds[choice.words], choice.c, choice.relations, choice.depth)
            accuracies[name] = levels[choice.depth]
        return accuracies

    rows = scored(run, "webkb-linqs", by_group(graph), best, "stacked best")
    pages = np.bincount(graph.group_codes)
    run.settings["chosen by leaving out each of the three training schools"] = found
    for mean in [row for row in rows if row["split"] == "mean"]:
        schools = [row["accuracy"] for row in rows if row["model"] == mean["model"] and row["split"] != "mean"]
        place = {key: mean[key] for key in ("model", "dataset")}
        rows.append({**place, "split": "all pages", "accuracy": float(pages @ schools / graph.n_nodes)})
    return chosen(rows, ON_SCHOOLS)


def _levels(run: Run, split: Split, c: float, relations: tuple[str, ...], depth: int) -> list[float]:
    templates = [LogCount(relation) for relation in relations]
    how: dict[str, Any] = {"own": True, "cross_fitting": "paper", "known": "crossfit"}
    return level_accuracies(split, StackedNodes(maxent(c), templates, depth, **how, n_jobs=run.n_jobs))


# -- Names in text --------------------------------------------------------------------------------------
#
# Five folds of documents; the local model is a CRF. Three parts, all with the same folds:
#
# - the paper's models (names end in ", as in the paper"): a token receives the labels predicted for the three tokens on
#   each side (the stacked sequential CRF), and how often the same word has which label in its document (the stacked
#   graphical CRF)
# - the same with probabilities in the place of labels; "stacked" also has the words of the same document in another
#   case, with the same word before or after, and how the words around a token are labelled elsewhere. These templates
#   were chosen on held-out abstracts of GENIA, among the training documents of the first fold, which are test documents
#   of the other folds
# - "local best" and "stacked best": features, tag encoding, ridge, templates, and what is taken off the score of O when
#   labels are read off (a CRF finds too few names), chosen for each fold on a fifth of its training documents; among
#   the features are clusters of the words of all documents, those to be scored included, which need no labels
#
# The ridge of the first two is chosen on that fifth too.

FOLDS = 5
EVERY_WORD = SameWord(capitalised=False, max_document_frequency=None, most_recent=None)
ANY_CASE = replace(EVERY_WORD, ignore_case=True)
PHRASES = (replace(EVERY_WORD, before=1), replace(EVERY_WORD, after=1))
SEQUENTIAL = (Window(3),)
SAME_WORD = (Window(3), Count(EVERY_WORD))
GRAPHICAL = (
    Window(3),
    *(make(rule) for rule in (EVERY_WORD, ANY_CASE, *PHRASES) for make in (Count, Max)),
    Window(3, Mean(EVERY_WORD)),
    Window(3, Max(EVERY_WORD)),
)
STACKS = {"window and same word": SAME_WORD, "all templates": GRAPHICAL}
PENALTIES = (0.0, 0.15, 0.3, 0.45, 0.6)  # of O, when labels are read off
TOLERANCE = 1e-3
RIVAL = "stacked sequential CRF"
NAME_ROWS = ("local", RIVAL, "stacked k=1", "stacked k=2", "ceiling")
PRINTED = ", as in the paper"
PRINTED_ROWS = ("local", *(name + PRINTED for name in NAME_ROWS[1:]))
NAMES_BEST = ("local best", "stacked best")
NAMES_SHOWN = ("f1", "p_value")
ON_FIFTH = "ridge by a fifth of the training documents"
BEST_ON_FIFTH = "features, encoding, ridge, penalty of O by a fifth of the training documents; clusters of all words"
NAMES_CHOSEN = {
    **{name: ON_FIFTH for name in ("local", RIVAL)},
    **{name + PRINTED: f"{ON_FIFTH}; templates are the paper's" for name in NAME_ROWS[1:]},
    **{name: f"{ON_FIFTH}; templates by training abstracts of GENIA's fold 0" for name in NAME_ROWS[2:]},
    NAMES_BEST[0]: BEST_ON_FIFTH,
    NAMES_BEST[1]: f"templates, {BEST_ON_FIFTH}",
}


def feature_sets(corpus: Corpus) -> dict[str, dict[str, Any]]:
    """What "best" is chosen among: sets of features, all but the first with a tag for the end of a name.

    Clusters are of the words of all documents, also of those to be scored, whose labels are not looked at.
    """
    clusters = cluster_templates(word_clusters(corpus.with_labels(None, None)))
    how = {"encoding": "IOBES", "tolerance": 10 * TOLERANCE}  # with so many features the last digits cost most
    return {
        "sentence": {},
        "letters": {"templates": "letters", **how},
        "letters and clusters": {"templates": [for_corpus("letters", corpus), clusters], **how},
    }


class Documents(NamedTuple):
    """One fold: documents to train on, documents to score."""

    name: str
    train: Corpus
    test: Corpus


@dataclass(kw_only=True, eq=False, repr=False)
class SharedCRF(LinearChainCRF):  # type: ignore[misc]  # users have no need of another CRF; here stacks share levels
    """A CRF that is trained once on the same tokens: the stacks of a fold have one first level."""

    STORE: ClassVar[dict[tuple[Any, ...], dict[str, Any]]] = {}

    def fit(self, X: Any, y: Any = None, *args: Any, **given: Any) -> Self:
        batch = Batch.of(X, y, self.scheme)
        if batch.extra is not None or given.get("sample_weight") is not None:  # a level above
            return super().fit(batch, None, *args, **given)
        words, labels = batch.corpus.columns["word"], batch.corpus.labels
        assert labels is not None
        parts = (words.codes, labels.codes, batch.corpus.sentence_starts)
        key = (repr(self), words.values, labels.values, *(array.tobytes() for array in parts))
        if key not in self.STORE:
            super().fit(batch, None, *args, **given)
            self.STORE[key] = vars(self).copy()
        vars(self).update(self.STORE[key])
        return self


def crf(l2: float, n_jobs: int, **settings: Any) -> LinearChainCRF:
    return SharedCRF(**{"l2": l2, "tolerance": TOLERANCE, "n_jobs": n_jobs, **settings})


def document_folds(corpus: Corpus, n_folds: int) -> Iterator[Documents]:
    """Drawn with a fixed seed; scikit-learn's KFold would draw others than those the figures of the guides are of."""
    fold = np.random.default_rng(0).permutation(corpus.n_documents) % n_folds
    for number in range(n_folds):
        train, test = (corpus.select(np.flatnonzero(part)) for part in (fold != number, fold == number))
        yield Documents(f"fold {number}", train, test)


def best_on_fifth(
    run: Run, train: Corpus, models: Mapping[str, Any], penalties: Sequence[float] = (0.0,)
) -> tuple[str, float]:
    """The model that does best on a fifth of the training documents, by name, and its penalty of O."""
    _, fit, held = next(document_folds(train, 5))
    scores: dict[tuple[str, float], float] = {}
    for name, model in models.items():
        trained = copy(model).fit(fit)
        scores |= {(name, penalty): penalised(trained, penalty).score(held) for penalty in penalties}
    found = ", ".join(f"{name}, penalty {penalty:g}: {100 * f1:.2f}" for (name, penalty), f1 in scores.items())
    run.log(f"  held-out F1: {found}")
    return max(scores, key=lambda choice: scores[choice])


def penalised(model: Any, penalty: float) -> Any:
    """The trained model with a penalty of O, which has no part in training; of a stack, on its last level."""
    last = model.levels_[-1] if isinstance(model, StackedTagger) else model
    last.set_params(outside_penalty=penalty)
    return model


def chosen_crf(run: Run, train: Corpus, ridges: Sequence[float], **settings: Any) -> LinearChainCRF:
    """The CRF with the ridge that does best on a fifth of the training documents."""
    models = {f"ridge {l2:g}": crf(l2, run.n_jobs, **settings) for l2 in ridges}
    return models[best_on_fifth(run, train, models)[0]]


class FoldOfNames(NamedTuple):
    """What is found on a fold: scores by model, what was chosen, and the lines of its log."""

    scores: dict[str, float]
    best: dict[str, float]
    choices: tuple[Any, ...]
    lines: list[str]


def name_rows(run: Run, dataset: str, corpus: Corpus, ridges: Sequence[float]) -> list[Row]:
    """All rows of one corpus."""
    run.log(f"{corpus}")
    chosen: dict[str, dict[str, Any]] = {"ridge": {}, "base of best": {}, "templates of best": {}}
    found: dict[str, FoldOfNames] = {}
    folds = list(document_folds(corpus, FOLDS))
    task = partial(fold_of_names, features=feature_sets(corpus), ridges=ridges)
    for fold, one in zip(folds, each_fold(task, folds, run.n_jobs), strict=True):
        found[fold.name] = one
        for line in one.lines:
            run.log(line)
        for by_fold, choice in zip(chosen.values(), one.choices, strict=True):
            by_fold[fold.name] = choice
    run.settings["chosen on a fifth of the training documents"] = chosen
    run.settings["templates"] = [repr(template) for template in GRAPHICAL]
    rows = scored(run, dataset, folds, lambda fold: found[fold.name].scores, REFERENCE, "f1")
    rows += scored(run, dataset, folds, lambda fold: found[fold.name].best, NAMES_BEST[1], "f1")
    return [{**row, "chosen_on": NAMES_CHOSEN[row["model"]]} for row in rows]


def fold_of_names(
    fold: Documents, n_jobs: int, features: Mapping[str, dict[str, Any]], ridges: Sequence[float]
) -> FoldOfNames:
    lines: list[str] = []
    run = Run(Path(), lines.append, n_jobs)
    SharedCRF.STORE.clear()
    bases = {}
    for name, settings in features.items():  # the more features, the stronger the ridge they want
        tried = [(3 * l2 if settings else l2) for l2 in ridges]
        bases[name] = chosen_crf(run, fold.train, tried, **settings)
    better, low = best_on_fifth(run, fold.train, bases, PENALTIES)
    base = bases[better]
    stacks = {name: StackedTagger(base, list(rules), n_jobs=n_jobs) for name, rules in STACKS.items()}
    which, high = best_on_fifth(run, fold.train, stacks, PENALTIES)
    plain = next(iter(bases.values()))
    choices = (plain.l2, f"{better}, ridge {base.l2:g}, penalty {low:g}", f"{which}, penalty {high:g}")
    trained = (penalised(copy(base).fit(fold.train), low), penalised(stacks[which].fit(fold.train), high))
    best = {name: 100 * one.score(fold.test) for name, one in zip(NAMES_BEST, trained, strict=True)}
    return FoldOfNames(taggers(fold, plain, n_jobs), best, choices, lines)


def taggers(fold: Documents, base: LinearChainCRF, n_jobs: int) -> dict[str, float]:
    """Entity F1 of the CRF and of the stacks over it, the paper's and ours."""
    found: dict[str, float] = {}
    for names, templates, votes in ((NAME_ROWS, GRAPHICAL, "proba"), (PRINTED_ROWS, SAME_WORD, "label")):
        how: dict[str, Any] = {"predictions": votes, "n_jobs": n_jobs}
        stacked = StackedTagger(base, list(templates), depth=2, cross_fitting="paper", **how).fit(fold.train)
        rival = StackedTagger(base, list(SEQUENTIAL), **how).fit(fold.train)
        top = StackedTagger(base, list(templates), known="ceiling", n_jobs=n_jobs).fit(fold.train)
        models = (stacked.at_depth(0), rival, stacked.at_depth(1), stacked, top)
        found |= {name: 100 * model.score(fold.test) for name, model in zip(names, models, strict=True)}
    return found


@experiment("stacked-genia", NAMES_SHOWN, printed("genia", PRINTED_ROWS, (72.0, 77.1, 77.9, 78.0, 80.3), "f1"))
def stacked_genia(run: Run) -> list[Row]:
    """Table 1, Genia: protein names in 2,000 abstracts, five folds.

    Tokens are words as blanks and marks divide them, as is usual for this corpus (IL-2 is one): a name that ends
    within a word (IL-2-induced) is widened to all of it.
    """
    corpus = read_genia(run.data / "tokens" / "genia" / "GENIAcorpus3.02.tgz", tokenise="words")
    return name_rows(run, "genia", corpus, (1.0, 3.0, 10.0))


@experiment("stacked-aimed", NAMES_SHOWN, printed("aimed", PRINTED_ROWS, (73.1, 76.8, 78.3, 78.4, 80.5), "f1"))
def stacked_aimed(run: Run) -> list[Row]:
    """Table 1, UT: protein names in abstracts, five folds. AIMed's 224 abstracts stand in for the 748 of the paper."""
    folder = run.data / "tokens" / "aimed_ppi"
    corpus = read_aimed([folder / "AIMed-train.xml", folder / "AIMed-test.xml"])
    return name_rows(run, "aimed", corpus, (0.3, 1.0, 3.0))


@experiment("stacked-enron", NAMES_SHOWN, printed("enron", PRINTED_ROWS, (80.3, 81.2, 82.5, 82.4, 84.6), "f1"))
def stacked_enron(run: Run) -> list[Row]:
    """Table 1, CSpace: person names in e-mail, five folds. 652 Enron messages stand in for the 216 of the paper."""
    archive = run.data / "tokens" / "enron_person" / "enron_person.tar.gz"
    corpus = Corpus.joined([read_mail(archive, split) for split in ("training", "test")])
    return name_rows(run, "enron", corpus, (0.3, 1.0, 3.0))


# -- CoNLL-2003 English ------------------------------------------------------------------------------------


@experiment("stacked-conll", ("f1", "fp", "fn"), mixture_paper.MOP_CONLL_PAPER)
def stacked_conll(run: Run) -> list[Row]:
    """A stacked CRF on CoNLL-2003 English, beside the linear-chain CRF it stands on and the mixture of parents.

    For sentence features and for document features. Settings of the chain are chosen on the last fifth of the training
    documents, as in chain-conll, and every level of the stack has them; those of the mixture as in mop-conll, separate
    training. The templates are those of the protein names (stacked-genia).
    """
    data = Conll.read(run.data)
    best: dict[str, Any] = {}
    found: list[Row] = []
    for templates, suffix in (("sentence", ""), ("document", ", document features")):
        settings = mixture_paper.best_settings(run, LinearChainCRF, templates, data)
        best[f"linear-chain CRF{suffix}"] = settings
        base = LinearChainCRF(n_jobs=run.n_jobs, **settings)
        stack = StackedTagger(base, list(GRAPHICAL), DEPTH, cross_fitting="paper", n_jobs=run.n_jobs).fit(data.train)
        for depth in range(DEPTH + 1):  # the CRF alone and with levels above it, from one training
            name = f"stacked k={depth}" if depth else "linear-chain CRF"
            found += data.rows(run, stack.at_depth(depth), name + suffix, f"linear-chain CRF{suffix}")
    stages = (mixture_paper.TRAINING, mixture_paper.SKIPS, mixture_paper.EDGES)
    mixture, _ = search(data.held_out_f1(run, MixtureTagger, []), {"training": "separate"}, stages)
    best["mixture separate"] = mixture
    found += mixture_paper.mixture_rows(run, "mixture separate", mixture, data)
    run.settings |= {CHOSEN: best, "templates": [repr(template) for template in GRAPHICAL]}
    return chosen(found, "settings by the last fifth of eng.train; templates of stacks by abstracts of GENIA")
