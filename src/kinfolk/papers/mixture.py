"""The mixture-of-parents paper: Figure 2, names of CoNLL-2003 English, and Figure 3, pages of four departments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kinfolk.datasets.webkb import read_webkb
from kinfolk.graph.degrees import with_degrees
from kinfolk.graph.graph import Graph
from kinfolk.graph.link_model import LinkModel
from kinfolk.graph.mixture import MixtureNodes
from kinfolk.papers.data import CHOSEN, Conll, Settings, by_group, search
from kinfolk.papers.harness import Row, Run, experiment, mean_row, printed
from kinfolk.text.chain import MEMM, LinearChainCRF, MaxEnt
from kinfolk.text.corpus import Corpus
from kinfolk.text.mixture import MixtureTagger
from kinfolk.text.skip_chain import SkipChainCRF
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.tagger import Tagger

Stages = tuple[tuple[Settings, ...], ...]

# -- Figure 2, its chain models -----------------------------------------------------------------------

# A loose tolerance stops early, which regularises too: how long to train is chosen like the ridge.
GRID: dict[str, tuple[Any, ...]] = {"l2": (0.01, 0.1), "encoding": ("BIO", "IOBES"), "tolerance": (0.3, 1.5e-4)}
Variants = dict[str, Settings]  # model of the table -> how it decodes
METHODS: list[tuple[type[Tagger], str, Variants]] = [
    (MaxEnt, "sentence", {"MaxEnt": {}}),
    (
        MEMM,
        "sentence",
        {f"MEMM {name}": {"decode": name.lower(), "constrain": False} for name in ("Viterbi", "posterior")},
    ),
    (LinearChainCRF, "sentence", {"linear-chain CRF": {}}),
    (LinearChainCRF, "document", {"linear-chain CRF, document features": {}}),
]
CHAIN_PAPER = {
    ("conll2003", "MEMM Viterbi", "testa"): {"f1": 89.8, "fp": 9.0, "fn": 11.4},
    ("conll2003", "MEMM posterior", "testa"): {"f1": 89.9, "fp": 9.2, "fn": 10.9},
    ("conll2003", "linear-chain CRF", "testa"): {"f1": 90.6, "fp": 8.5, "fn": 10.3},
}


@experiment("chain-conll", ("f1", "fp", "fn"), CHAIN_PAPER)
def chain_conll(run: Run) -> list[Row]:
    """Chain models on CoNLL-2003 English: the chain rows of Figure 2 of the mixture-of-parents paper.

    Ridge, tag encoding and when to stop are chosen on the last fifth of the training documents, by a model trained
    on the first four fifths; the chosen model is then trained on all of eng.train and scored once on each test
    file. The MEMM decodes as in the paper, without regard to the tag scheme.
    """
    data, found = Conll.read(run.data), []
    chosen: dict[str, Settings] = {}
    for method, templates, variants in METHODS:
        chosen[f"{method.__name__}, {templates}"] = settings = best_settings(run, method, templates, data)
        found += chain_rows(run, method, settings, variants, data)
    run.settings |= {CHOSEN: chosen, "grid": {name: list(values) for name, values in GRID.items()}}
    return found


def best_settings(run: Run, method: type[Tagger], templates: str, data: Conll) -> Settings:
    grid = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    return search(data.held_out_f1(run, method), {"templates": templates}, [grid])[0]


def chain_rows(run: Run, method: type[Tagger], settings: Settings, variants: Variants, data: Conll) -> list[Row]:
    """Train on all of eng.train; a row for each variant and test file."""
    model = method(n_jobs=run.n_jobs, **settings).fit(data.train)
    return [row for name, decoding in variants.items() for row in data.rows(run, model.set_params(**decoding), name)]


# -- Figure 2, all of it -------------------------------------------------------------------------------

FEATURES = "sentence"
TRAINING = ({"l2": 0.01, "tolerance": 0.3}, {"l2": 0.1, "tolerance": 0.3}, {"l2": 0.1, "tolerance": 1.5e-4})
SKIPS: tuple[Settings, ...] = ({}, {"skip_edges": SameWord(ignore_case=True)})
EDGES: tuple[Settings, ...] = (
    {},
    {"edge_features": "default"},
    {"mixing": "learned"},
    {"mixing": "learned", "edge_features": "default"},
)
SKIP_CHAIN: tuple[Settings, ...] = (
    {},
    {"edge_features": "default"},
    {"edge_features": "default", "scores": "own"},
    {"edge_features": "default", "update": "all"},
)
OF_CHAINS = ("l2", "tolerance", "templates", "encoding")  # settings that the skip-chain CRF shares with its chain
BEYOND = ({"order": "both"}, {"templates": "document"}, {"templates": "document", "order": "both"})
MOP_CONLL_PAPER = {
    **CHAIN_PAPER,
    ("conll2003", "mixture separate, as in the paper", "testa"): {"f1": 90.5, "fp": 8.7, "fn": 10.3},
    ("conll2003", "mixture joint, as in the paper", "testa"): {"f1": 90.9, "fp": 8.5, "fn": 9.8},
    ("conll2003", "skip-chain CRF", "testa"): {"f1": 91.2},
}
# The paper's own setting: identical capitalised words that are in 100 documents at most, the five nearest; features of
# both ends; uniform weights; nothing known of an edge; the arg-max of each marginal.
AS_IN_THE_PAPER: Settings = {
    "skip_edges": SameWord(capitalised=True, most_recent=5, max_document_frequency=100),
    "parent_features": "own",
    "constrain": False,
}
BASELINE, CHAIN = "MEMM posterior", "linear chain of the skip-chain CRF"  # of the mixture, and of the skip-chain CRF


@experiment("mop-conll", ("f1", "fp", "fn", "fp_improvement", "fn_improvement"), MOP_CONLL_PAPER)
def mop_conll(run: Run) -> list[Row]:
    """Figure 2 of the mixture-of-parents paper: named entities of CoNLL-2003 English.

    All settings are chosen on the last fifth of the training documents: for the chain models as in chain-conll, for the
    others one after the other (ridge and when to stop; which words skip edges join; features of edges, mixing weights
    or decoding; for the best configuration of the library also the order and the feature set). The chosen models are
    trained on all of eng.train and scored once on each test file. "As in the paper": identical words, uniform
    weights, no features of edges, the arg-max of each marginal; there ridge and stopping alone are chosen, for these
    rows and for the others. "Crossfit" has the settings of separate training, and its gain is over that; its F1 on
    the held-out fifth is in the JSON beside all that was tried. The improvement columns are the paper's: how many
    percent of the false positives and false negatives of the posterior MEMM are gone.
    """
    data, found = Conll.read(run.data), []
    chosen: dict[str, Settings] = {}
    trials: list[dict[str, Any]] = []
    for method, templates, variants in METHODS:
        if method in (MEMM, LinearChainCRF) and templates == FEATURES:
            chosen[method.__name__] = settings = best_settings(run, method, templates, data)
            found += chain_rows(run, method, settings, variants, data)
    f1 = data.held_out_f1(run, MixtureTagger, trials)
    best: tuple[Settings, float] = ({}, -1.0)
    for training in ("separate", "joint"):
        as_printed, _ = search(f1, {"training": training, **AS_IN_THE_PAPER}, (TRAINING,))
        full = search(f1, {name: as_printed[name] for name in ("training", *TRAINING[0])}, (SKIPS, EDGES))
        for name, settings in ((f"mixture {training}", full[0]), (f"mixture {training}, as in the paper", as_printed)):
            chosen[name] = settings
            found += mixture_rows(run, name, settings, data)
        best = max(best, full, key=lambda one: one[1])
    name = "mixture crossfit"
    chosen[name] = {**chosen["mixture separate"], "training": "crossfit"}
    found += mixture_rows(run, name, chosen[name], data, "mixture separate")
    f1(chosen[name])  # among what was tried
    settings, _ = search(data.held_out_f1(run, SkipChainCRF, trials), {}, (TRAINING, SKIPS, SKIP_CHAIN))
    chosen["skip-chain CRF"] = settings
    found += _skip_chain_rows(run, settings, data)
    name = "mixture, best configuration"
    chosen[name], _ = search(f1, best[0], (({}, *BEYOND),))
    found += mixture_rows(run, name, chosen[name], data)
    run.settings |= {CHOSEN: chosen, "held-out F1 of all that was tried": trials}
    return _with_improvement(found, BASELINE, {"fp": "fp_improvement", "fn": "fn_improvement"})


def mixture_rows(run: Run, name: str, settings: Settings, data: Conll, local: str = BASELINE) -> list[Row]:
    """With what is gained over another model, the MEMM unless named, where it was scored before; and with the mean of
    -log p of the true label of a token, in nats."""
    model = MixtureTagger(n_jobs=run.n_jobs, **settings).fit(data.train)
    found = data.rows(run, model, name, local if ("conll2003", local, "testa") in run.counts else None)
    for row, test in zip(found, (data.testa, data.testb), strict=True):
        row["log_loss"] = log_loss(model, test)
        run.log(f"{name}, {row['split']}: log-loss {row['log_loss']:.4f}")
    return found


def log_loss(model: MixtureTagger, test: Corpus) -> float:
    """The mean over tokens whose label training knows."""
    codes, table = model.coding_.encode(test), np.concatenate(model.predict_proba(test))
    known = np.flatnonzero(codes >= 0)
    return float(-np.log(np.maximum(table[known, codes[known]], 1e-12)).mean())


def _skip_chain_rows(run: Run, settings: Settings, data: Conll) -> list[Row]:
    """Beside a linear chain with the same features and the same stopping; with the number of documents in which belief
    propagation did not settle."""
    shared = {name: value for name, value in settings.items() if name in OF_CHAINS}
    chain = data.rows(run, LinearChainCRF(n_jobs=run.n_jobs, **shared).fit(data.train), CHAIN)
    model = SkipChainCRF(n_jobs=run.n_jobs, **settings).fit(data.train)
    found = data.rows(run, model, "skip-chain CRF", CHAIN)
    for row, test in zip(found, (data.testa, data.testb), strict=True):
        report = model.inference_report(test)
        row["not_converged"], row["documents"] = len(report.not_converged), len(report.converged)
        run.log(f"skip-chain CRF, {row['split']}: {report}")
    return [*chain, *found]


def _with_improvement(rows: list[Row], baseline: str, names: dict[str, str]) -> list[Row]:
    """With the percent of the baseline's errors that are gone, of each kind by name."""
    base = {row["split"]: row for row in rows if row["model"] == baseline}
    for row in rows:
        for error, name in names.items():
            row[name] = 100 * (1 - row[error] / base[row["split"]][error])
    return rows


# -- Figure 3 ------------------------------------------------------------------------------------------

RIDGE = ({"l2": 0.3}, {"l2": 1.0}, {"l2": 3.0}, {"l2": 10.0})
PARENT_FEATURES = ({"parent_features": "own"}, {"parent_features": "shared"}, {"parent_features": "none"})
MIXING = ({"mixing": "uniform"}, {"mixing": "learned"})


class Compared(NamedTuple):
    """A model, what is given of its settings, and stages of choices; whether it has the numbers of links as features,
    and the model its gain is over."""

    method: Any
    base: Settings
    stages: Stages
    degrees: bool = False
    over: str = "node"


MODELS: dict[str, Compared] = {
    "node": Compared(MixtureNodes, {"relations": [], "training": "separate"}, (RIDGE,)),
    "link": Compared(LinkModel, {}, (RIDGE,)),
    "mixture separate": Compared(MixtureNodes, {"training": "separate"}, (RIDGE, PARENT_FEATURES, MIXING)),
    "mixture joint": Compared(MixtureNodes, {"training": "joint"}, (RIDGE, PARENT_FEATURES, MIXING)),
}
MOP_WEBKB_PAPER = printed("webkb", list(MODELS), (16.9, 13.6, 13.1, 13.3), "error")
# Classes differ in how many links they have: the same models told the numbers of links, which the paper has not.
COUNTED = "node, degrees"
MODELS |= {f"{name}, degrees": MODELS[name]._replace(degrees=True, over=COUNTED) for name in ("node", "link")}


@experiment("mop-webkb", ("error", "improvement"), MOP_WEBKB_PAPER)
def mop_webkb(run: Run) -> list[Row]:
    """Figure 3 of the mixture-of-parents paper: pages of four computer science departments, one left out at a time.

    For each school the models are trained on the other three. Settings (ridge; of mixtures also what features of the
    parent count, and mixing weights) are chosen among those three alone, again leaving one out at a time; the school
    that is scored has no say. The node model is the same library's log-linear model without any relation. The
    improvement is the paper's: percent of the node model's error that is gone. Rows ending in "degrees" have the
    logarithms of 1 + the numbers of links out and in as features, which the paper has not; their gain is over the node
    model that has them too. Numbers of links tell much here, not least because pages of the class other are in the
    data only if they link to three others or more.
    """
    graph = read_webkb(run.data / "nodes" / "webkb_raw_cmu" / "webkb.tar.gz")
    run.log(f"{graph}")
    graphs = {False: graph, True: with_degrees(graph)}
    rows: list[Row] = []
    chosen: dict[str, Settings] = {}
    errors: dict[str, list[float]] = {}
    for name, (method, base, stages, degrees, over) in MODELS.items():
        own: list[Row] = []
        for school, train, _, test, _ in by_group(graphs[degrees]):
            settings, _ = search(_right(run, method, train), base, stages)
            chosen[f"{name}, {school}"] = settings
            model = method(n_jobs=run.n_jobs, **settings).fit(train)
            row: Row = {"model": name, "dataset": "webkb", "split": school, "error": 100 * (1 - model.score(test))}
            if method is LinkModel:  # belief propagation may not settle
                row["not_converged"] = len(model.inference_report(test).not_converged)
            own.append(row)
            run.log(f"{name}, {school}, {settings}: error {row['error']:.2f}")
        errors[name] = [row["error"] for row in own]
        local = None if name == over else errors[over]
        mean = mean_row("webkb", name, errors[name], "error", local, over)
        if method is LinkModel:
            mean["not_converged"] = sum(row["not_converged"] for row in own)
        rows += [*own, mean]
    run.settings |= {"chosen by leaving out each of the three training schools": chosen, "pages": graph.n_nodes}
    for row in rows:
        names = dict.fromkeys(key for stage in MODELS[row["model"]].stages for choice in stage for key in choice)
        row["chosen_on"] = f"{', '.join(names)} by leaving out each of the three training schools"
    return _with_improvement(rows, "node", {"error": "improvement"})


def _right(run: Run, method: Any, train: Graph) -> Callable[[Settings], float]:
    """From settings to minus the mean error on the training schools, each left out in turn."""

    def score(settings: Settings) -> float:
        errors = [
            100 * (1 - float(method(n_jobs=run.n_jobs, **settings).fit(split.fit).score(split.target)))
            for split in by_group(train)
        ]
        run.log(f"  {settings}: error {np.mean(errors):.2f} on held-out schools")
        return -float(np.mean(errors))

    return score
