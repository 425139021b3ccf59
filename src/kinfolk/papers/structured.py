"""Structured local training: Tables 1 to 3 of the paper on GUM and LitBank, and record linkage."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from kinfolk.core.files import read_utf8
from kinfolk.errors import InputError
from kinfolk.linking.blocking import blocked
from kinfolk.linking.clusterers import AverageLink, Clusterer, ClusterSum, OneToOne, SingleLink
from kinfolk.linking.coref import read_coref
from kinfolk.linking.gain import unit_counts
from kinfolk.linking.linker import Linker
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.objective import Bias
from kinfolk.linking.records import read_records
from kinfolk.linking.scores import PairScores, Score, all_scores, b_cubed, ceaf_e, compare, muc, pair_scores
from kinfolk.linking.supervision import supervision_of_clusters
from kinfolk.linking.training import at_threshold, best_threshold, clusters_of
from kinfolk.papers.harness import Row, Run, bootstrap, counted_row, experiment, spread

# -- What Tables 1 to 3 share: the settings of a row, training them, and the paper's figures ----------

BIASES = [("P1", 1.5), ("P1", 3.0), ("Pa", 1.5), ("Pa", 3.0)]
KINDS = {"P1": "closest", "Pa": "all"}
FIGURES = ("error", "recall", "precision", "f1")  # of pairs
SHOWN = ("f1", "conll", "conll_gain", "conll_gain_lower", "conll_gain_upper", "error", "recall", "precision",
         "muc_recall", "muc_precision", "muc_f1", "stage", "chosen")  # fmt: skip

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
    rows: list[Row] = []
    for stage, table in (("before", _BEFORE), ("after", _AFTER)):
        for (dataset, model), figures in table.items():
            place = {"dataset": dataset, "model": model, "split": "paper", "stage": stage}
            rows.append({**place, **dict(zip(names, figures, strict=False))})
    return rows


def tables(run: Run, parts: Iterable[tuple[str, Mentions, Mentions]]) -> list[Row]:
    """Tables 1 to 3 for each (data set, training documents, test documents), then ways with settings tuned on training
    documents, and the paper's rows below. Gains are over local training with its threshold tuned (`local_beside`)."""
    rows: list[Row] = []
    for dataset, train, test in parts:
        run.log(f"{dataset}: {train.n_pairs} training pairs, {test.n_pairs} test pairs")
        table = Table(run, dataset, train, test)
        tuned = table.tuned_rows()
        rows += _mark_chosen([row for model in _models() for row in table.paper_like(model)]) + tuned
    run.settings |= {
        "given": "true mentions, their entity types and, in LitBank, their kinds (name, noun, pronoun)",
        "l2": 1.0, "rounds": 5, "e_step": "nearest", "clusterer": "SingleLink", "bias_form": "weight, or as named",
        "round": "of rounds 1 to 5, by pair F1 in training; a row of its own where MUC F1 in training chooses another",
        "chosen": "the structured setting, and among the biased ones, with the best such score in training",
        "gain": "over local training with the same clusterer, tuned alike; by the bootstrap over documents",
        **{name: repr(linker) for name, linker in TUNED.items()},
    }  # fmt: skip
    return [*rows, *paper_rows()]


Model = tuple[str, str, Bias | None]  # name, training, bias


def _models() -> list[Model]:
    """Those of the rows."""
    found: list[Model] = [("BASE", "local", None)]
    found += [(f"BASE {kind} {factor}", "local", Bias(KINDS[kind], factor)) for kind, factor in BIASES]
    found.append(("SLT", "structured", None))
    for form, suffix in (("weight", ""), ("margin", " margin")):
        found += [(f"SLT {k} {f}{suffix}", "structured", Bias(KINDS[k], f, form)) for k, f in BIASES]
    return found


# -- Settings tuned on training documents: what structure is worth beside local training that is tuned alike ---

LOCAL = "local, average link, tuned"
SINGLE = "local, single link, tuned"
SINGLE_BY_PAIRS = "local, single link, tuned by pair F1"
BEST_LOCAL = "local, best tuned"
BY_FOLDS = "threshold by CoNLL F1 of five folds of the training documents"
CONLL: dict[str, Any] = {"folds": 5, "select": "conll_f1"}
TUNED = {
    LOCAL: Linker(training="local", clusterer=AverageLink(), **CONLL),
    SINGLE: Linker(training="local", clusterer=SingleLink(), **CONLL),
    SINGLE_BY_PAIRS: Linker(training="local", clusterer=SingleLink(), folds=5),
    "SLT, single link, tuned": Linker(training="structured", clusterer=SingleLink(), **CONLL),
    "SLT, single link, tuned by pair F1": Linker(training="structured", clusterer=SingleLink(), folds=5),
    "ranking": Linker(training="ranking", clusterer=ClusterSum()),
    "ranking, average link, tuned": Linker(training="ranking", clusterer=AverageLink(), **CONLL),
    "ranking and local, tuned": Linker(training="combined", clusterer=AverageLink(), **CONLL),
}
TWO_LOCAL = "two local models, tuned"
NOTHING = "link nothing"


def local_beside(model: str) -> str | None:
    """The row that a model gains over: local training with the same clusterer, its threshold tuned by the same metric.

    Rows named as in the paper have single link, and pair F1 chooses their round. Ranking has a clusterer that local
    training cannot have, so it gains over the best of the tuned local ones, as linking nothing does.
    """
    if model in (SINGLE, SINGLE_BY_PAIRS, LOCAL, BEST_LOCAL):
        return None
    if model == "SLT, single link, tuned":
        return SINGLE
    if model.startswith(("BASE", "SLT")):
        return SINGLE_BY_PAIRS
    return BEST_LOCAL if model in ("ranking", NOTHING) else LOCAL


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one data set, a model each, scored after clustering on its test documents."""

    run: Run
    dataset: str
    train: Mentions
    test: Mentions

    def row(self, model: str, clusters: Any, **more: Any) -> Row:
        """All metrics of some clusters, with intervals over documents; `local_beside` it has a row already."""
        counts, over = document_counts(self.test, clusters), local_beside(model)
        figures = counted_row(self.run, (self.dataset, model, "test"), "f1", counts, pair_f1, over)
        figures |= spread(bootstrap(counts, conll_f1), "conll")
        if over is not None:
            local = self.run.counts[self.dataset, over, "test"]
            figures["conll_gain"] = conll_f1(counts.sum(axis=0)) - conll_f1(local.sum(axis=0))
            figures |= spread(bootstrap(counts, conll_f1, beside=local), "conll_gain")
        own = {"dataset": self.dataset, "model": model, "split": "test", "stage": "after"}
        scores = rates(counts.sum(axis=0))
        self.run.log(f"{self.dataset}, {model}: pair F1 {scores['f1']:.2f}, CoNLL {scores['conll']:.2f}")
        return {**own, **scores, **figures, **more}

    def tuned_rows(self) -> list[Row]:
        """Rows of settings tuned on training documents, of two local models averaged, and of linking nothing."""
        from sklearn.base import clone

        rows = [self._local_tuned(BEST_LOCAL, [None], [AverageLink(), SingleLink()])]
        for name, settings in TUNED.items():
            linker = clone(settings).set_params(n_jobs=self.run.n_jobs).fit(self.train)
            chosen_on = BY_FOLDS.replace("CoNLL", _METRICS[linker.select]) if linker.folds_ else "nothing chosen"
            if linker.training == "structured":
                chosen_on += f"; so is the round, {linker.best_round_} (0 is local training)"
            threshold = linker.clusterer_.threshold
            rows.append(self.row(name, linker.predict(self.test), chosen_on=chosen_on, threshold=threshold))
        rows.append(self._local_tuned(TWO_LOCAL, [None, Bias("closest", 3.0)], [AverageLink()]))
        return [*rows, self.row(NOTHING, np.arange(self.test.n_items), chosen_on="nothing chosen")]

    def _local_tuned(self, name: str, biases: list[Bias | None], clusterers: list[Clusterer]) -> Row:
        """The mean of local models, one a bias, with the clusterer and threshold that do best on unseen documents.

        Of two models: what averaging is worth without structure.
        """

        def mean(train: Mentions, items: Mentions) -> Any:
            made = (Linker(training="local", bias=bias, n_jobs=self.run.n_jobs) for bias in biases)
            return np.mean([linker.fit(train).predict_proba(items) for linker in made], axis=0)

        train = self.train
        fold = (np.random.default_rng(0).permutation(train.n_groups) % 5)[train.groups]
        unseen = np.empty(train.n_pairs)
        for k in np.unique(fold):
            inside = fold == k
            unseen[inside[train.right]] = mean(train.take(~inside), train.take(inside))
        best = best_clusterer(train, unseen, clusterers)
        what = f"clusterer, {type(best).__name__}, and {BY_FOLDS}" if len(clusterers) > 1 else BY_FOLDS
        clusters = clusters_of(self.test, mean(train, self.test), best)
        return self.row(name, clusters, chosen_on=what, threshold=best.threshold)

    def paper_like(self, model: Model) -> list[Row]:
        """Pairs as they were scored, and after clustering; a further row where MUC F1 chooses another round."""
        name, training, bias = model
        linker = Linker(
            training=training, bias=bias, select=("pair_f1", "muc_f1"), keep_local=False, n_jobs=self.run.n_jobs
        )
        linker.fit(self.train)
        place = {"dataset": self.dataset, "model": name, "split": "test"}
        before, _ = _stages(place, linker.evaluate(self.test))
        rounds = [{"round": one.number, "positives": one.positives, **one.scores} for one in linker.rounds_]
        local = training == "local"
        chosen_on = "nothing chosen" if local else "round by pair F1 of the training documents themselves"
        before["chosen_on"] = chosen_on
        known = {"rounds": rounds, "chosen_on": chosen_on}
        after = self.row(name, linker.predict(self.test), round=linker.best_round_, **known)
        later = range(1, len(rounds))  # none if the local round left nothing to change
        by_muc = max(later, key=lambda k: linker.rounds_[k].scores["muc_f1"], default=linker.best_round_)
        if by_muc == linker.best_round_:
            return [before, after]
        clusters = linker.at_round(by_muc).predict(self.test)
        known["chosen_on"] = chosen_on.replace("pair", "MUC")
        return [before, after, self.row(f"{name}, round by MUC", clusters, round=by_muc, **known)]


def best_clusterer(items: Mentions, unseen: NDArray[np.float64], clusterers: Sequence[Clusterer]) -> Clusterer:
    """The one, with its threshold, of the largest CoNLL F1; `unseen` of every pair is by models that never saw it."""
    value = supervision_of_clusters(items).value("conll_f1")
    scores, found = [], []
    for clusterer in clusterers:
        threshold, choice = best_threshold(items, unseen, clusterer, value, guarded=False)
        scores.append(choice.tried[threshold])
        found.append(at_threshold(clusterer, threshold))
    return found[int(np.argmax(scores))]


_METRICS = {"conll_f1": "CoNLL", "pair_f1": "pair"}
_COUNTED = (muc, b_cubed, ceaf_e)


def document_counts(items: Mentions, clusters: Any) -> NDArray[np.float64]:
    """(documents, 16): pairs in all, linked rightly, wrongly and missed; then, of MUC, B³ and CEAF-e, numerator and
    denominator of recall and of precision."""
    truth, found = np.asarray(items.clusters), []
    bounds = np.searchsorted(items.groups, np.arange(items.n_groups + 1))
    for start, stop in pairwise(bounds.tolist()):
        table = compare(truth[start:stop], np.asarray(clusters)[start:stop])
        pairs = pair_scores(table)
        own = [pairs.pairs, pairs.true_positives, pairs.false_positives, pairs.false_negatives]
        for score in (measure(table) for measure in _COUNTED):
            own += [*(score.recall_ratio or (0, 0)), *(score.precision_ratio or (0, 0))]
        found.append(own)
    return np.array(found, np.float64).reshape(-1, 4 + 4 * len(_COUNTED))


def pair_f1(counts: NDArray[np.float64]) -> float:
    return 100 * float(PairScores(*counts[:4]).f1)  # type: ignore[arg-type]


def conll_f1(counts: NDArray[np.float64]) -> float:
    """The mean F1 of MUC, B³ and CEAF-e."""
    return float(np.mean([100 * score.f1 for score in _ratios(counts)]))


def _ratios(counts: NDArray[np.float64]) -> list[Score]:
    return [Score.from_ratios((a, b), (c, d)) for a, b, c, d in counts[4:].reshape(-1, 4).tolist()]


def rates(counts: NDArray[np.float64]) -> Row:
    """All metrics of a row, from counts over all documents."""
    pairs, (of_muc, *_) = PairScores(*counts[:4]), _ratios(counts)  # type: ignore[arg-type]
    found: Row = {key: 100 * float(getattr(pairs, key)) for key in FIGURES}
    found |= {f"muc_{key}": 100 * value for key, value in of_muc.as_dict().items()}
    return {**found, "conll": conll_f1(counts)}


def _stages(place: Row, found: dict[str, Any]) -> list[Row]:
    """Two rows: of pairs as they were scored, and after clustering."""
    stages = (("before", found["pairs before"]), ("after", found["pairs"]))
    return [{**place, "stage": stage, **{key: 100 * of[key] for key in FIGURES}} for stage, of in stages]


def _mark_chosen(rows: list[Row]) -> list[Row]:
    """Mark, for each metric, the structured setting and the structured and biased one that did best in training."""
    structured = [row for row in rows if row["model"].startswith("SLT") and row["stage"] == "after"]
    biased = [row for row in structured if row["model"].partition(",")[0] != "SLT"]
    for metric in ("pair_f1", "muc_f1"):
        trained = lambda row, metric=metric: row["rounds"][row["round"]][metric]  # noqa: E731
        for name, group in (("structured", structured), ("biased", biased)):
            best = max(group, key=trained)
            best["chosen"] = " ".join(filter(None, [best.get("chosen", ""), f"{name}:{metric}"]))
    return rows


@experiment("slt-gum", SHOWN)
def slt_gum(run: Run) -> list[Row]:
    """Tables 1 to 3 of the paper on GUM, by its own split, without reddit (its words are not given); news alone too.

    Boundaries of mentions, their entity types, parts of speech and dependencies are the annotators', and all models are
    given them. Rows as in slt-litbank.
    """
    folder = run.data / "mentions" / "gum"
    everything = read_coref(folder / "gum.tar.gz")
    split = read_split(folder / "splits.md")

    def part(name: str, genre: str = "") -> Mentions:
        wanted = [d for d in split[name] if "_reddit_" not in d and f"_{genre}" in d]
        names = [str(n) for n in everything.group_names or ()]
        missing = next((document for document in wanted if document not in names), None)
        if missing is not None:
            raise InputError(f"no document {missing!r}, which splits.md names", str(folder / "gum.tar.gz"))
        return everything.take_groups(names.index(document) for document in wanted)

    parts = [("GUM", part("train"), part("test")), ("GUM news", part("train", "news"), part("test", "news"))]
    return tables(run, parts)


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


@experiment("slt-litbank", SHOWN)
def slt_litbank(run: Run) -> list[Row]:
    """Tables 1 to 3 of the paper on LitBank: the first 80 documents by file name train, the last 20 test.

    Boundaries of mentions, their entity types and their kinds (name, noun, pronoun) are the annotators', and all models
    are given them. Rows named as in the paper are as in the paper: single link at 0.5, the round of structured training
    by the training documents. Rows with "tuned" have their threshold chosen by folds of the training documents, "local,
    best tuned" its clusterer too. A row gains over local training with the same clusterer, tuned by the same metric:
    rows as in the paper over "local, single link, tuned by pair F1". "ranking" follows antecedents and sums their
    shares, which local training has not, and gains over "local, best tuned"; "ranking and local" is the mean of its
    probabilities and local ones, "two local models" that of two local ones. A structured row that is equal to its local
    one kept the local round, because no other did better on unseen training documents.
    The paper's own figures (MUC6, MPQA) are of other corpora.
    """
    everything = read_coref(run.data / "mentions" / "litbank" / "litbank.tar.gz")
    train, test = everything.take_groups(range(80)), everything.take_groups(range(80, everything.n_groups))
    return tables(run, [("LitBank", train, test)])


# -- Record linkage -------------------------------------------------------------------------------------

SPLITS = 3
TRAININGS = ("local", "structured", "ranking", "combined")
RECORD_METRICS = ("f1", "stage", "error", "recall", "precision", "cluster_f1", "completeness")
STAGES = [(NOTHING, "after"), *product(TRAININGS, ("before", "after"))]
ALL = "all seven"
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
    clusterer: Callable[[], Clusterer]  # what suits the table, where nothing is known of its clusters


def _files(folder: str, *names: str, **settings: Any) -> Callable[[Path], Mentions]:
    """Reads tables of a folder; `truth` among the settings is a file of it too."""

    def read(data: Path) -> Mentions:
        own = data / folder
        truth = {"truth": own / settings["truth"]} if "truth" in settings else {}
        return read_records(*(own / name for name in names), **{**settings, **truth})

    return read


def _febrl(number: int) -> RecordSet:
    read = _files("febrl", f"dataset{number}.csv", id="rec_id", cluster_from_id=r"rec-(\d+)-")
    return RecordSet(f"FEBRL {number}", read, PEOPLE, AverageLink)


SETS = (
    _febrl(1),
    _febrl(2),
    _febrl(3),
    RecordSet(
        "restaurants",
        _files("restaurant", "restaurantProfiles.csv", truth="duplicates.csv", delimiter="|"),
        ("rare(name + addr, 20)", "key(digits(phone))"),
        AverageLink,
    ),
    RecordSet(
        "Cora references",
        _files("cora", "cora.csv", id="Entity Id", truth="cora_gt.csv", delimiter="|"),
        ("rare(title, 130, 2)", "rare(author, 130, 2)", "sorted(title, 20)"),
        AverageLink,
    ),
    RecordSet(
        "DBLP-ACM",
        _files("dblp_acm", "dblp.csv", "acm.csv", truth="gt.csv", delimiter="%"),
        ("rare(title, 50, 2)", "sorted(title, 5)", "rare(authors, 50, 2)"),
        OneToOne,
    ),
    RecordSet(
        "Abt-Buy",
        _files("abt_buy", "abt.csv", "buy.csv", truth="gt.csv", delimiter="|"),
        ("rare(name, 100)", "rare(name + description, 50)"),
        OneToOne,
    ),
)


@experiment("slt-records", RECORD_METRICS)
def slt_records(run: Run) -> list[Row]:
    """Record linkage: structured training, ranking, and ranking with local decisions, beside local training, on seven
    sets, half the entities for training and half for the test.

    Entities are never split: all records of one are in the same half. All else is as by default: the clusterer, its
    threshold and the round are chosen by cross-validation inside the training half, and the usual clusterer, its own
    threshold and the local round stay unless another is better with 90 % confidence. By which rules pairs are blocked
    was set by hand for each table as a whole, for all trainings alike. Figures are means over three ways of halving;
    intervals are over true entities drawn with replacement (the bootstrap), each drawn for all three alike, so they do
    not say how much another training half would change. A wrong link counts half for each of the two entities. "all
    seven" is the mean over the sets.
    """
    run.settings |= {
        "splits": SPLITS, "folds": "auto", "blocking": {one.name: one.rules for one in SETS},
        "clusterer": "auto",
    }  # fmt: skip
    rows = [row for one in SETS for row in _record_rows(run, one)]
    return [*rows, *_over_all(run, rows)]


def _record_rows(run: Run, one: RecordSet) -> list[Row]:
    items = one.read(run.data / "mentions" / "records")
    rows: list[Row] = []
    counts = {model: EntityCounts(items) for model in (NOTHING, *TRAININGS)}
    for seed in range(SPLITS):
        (train, _), (test, report) = (blocked(half, one.rules) for half in halves(items, seed))
        counts[NOTHING].add(test, np.arange(test.n_items))
        nobody = all_scores(test, np.arange(test.n_items))["pairs"]
        place = {"dataset": one.name, "model": NOTHING, "split": f"seed {seed}", "stage": "after"}
        rows.append({**place, **{key: 100 * nobody[key] for key in FIGURES}})
        for training in TRAININGS:
            began = time.perf_counter()
            linker = Linker(training=training, n_jobs=run.n_jobs).fit(train)
            found = linker.evaluate(test)
            counts[training].add(test, linker.predict(test))
            own = _stages({"dataset": one.name, "model": training, "split": f"seed {seed}"}, found)
            rows += [{**row, "completeness": 100 * (report.pair_completeness or 0.0)} for row in own]
            rows[-1] |= {"cluster_f1": 100 * found["clusters"]["f1"], "threshold": linker.clusterer_.threshold}
            rows[-1] |= {"kept_round": linker.best_round_, "clusterer": type(linker.clusterer_).__name__}
            rows[-1]["calibration_error"] = 100 * found["calibration"]["error"]
            seconds = time.perf_counter() - began
            run.log(f"{one.name}, {training}, seed {seed}: {seconds:.1f} s, F1 {100 * found['pairs']['f1']:.2f}")
    return [*rows, *_means(run, rows, {model: np.hstack(one.tables) for model, one in counts.items()})]


def halves(items: Mentions, seed: int) -> tuple[Mentions, Mentions]:
    """Half the entities, those of one record among them, and the other half."""
    assert items.clusters is not None
    entities = np.random.default_rng(seed).permutation(np.unique(items.clusters))
    first = np.isin(items.clusters, entities[: len(entities) // 2])
    return items.take(first), items.take(~first)


class EntityCounts:
    """What is counted in each true entity of all, in one half after the other; zero where it is not in the half."""

    def __init__(self, items: Mentions) -> None:
        assert items.clusters is not None
        self.entities = np.unique(items.clusters)
        self.tables: list[NDArray[np.float64]] = []

    def add(self, test: Mentions, clusters: Any) -> None:
        assert test.clusters is not None
        own = np.zeros((len(self.entities), 2))
        own[np.searchsorted(self.entities, np.unique(test.clusters))] = unit_counts(test, clusters, test.clusters)
        self.tables.append(own)


def mean_f1(sums: NDArray[np.float64]) -> float:
    """The mean pair F1 over halves, of twice the pairs rightly together and of those together on either side."""
    right, together = sums.reshape(-1, 2).T
    return 100 * float(np.mean(np.divide(right, together, out=np.zeros_like(right), where=together > 0)))


def _means(run: Run, rows: list[Row], counts: dict[str, NDArray[np.float64]]) -> list[Row]:
    """A row for the mean over the halves, by model and stage; after clustering with intervals over entities."""
    found: list[Row] = []
    for model, stage in STAGES:
        own, local = ([row for row in rows if (row["model"], row["stage"]) == (m, stage)] for m in (model, "local"))
        dataset, over = own[0]["dataset"], None if model in ("local", NOTHING) else "local"
        numbers = [key for key in RECORD_METRICS if key != "stage" and key in own[0]]
        means: Row = {key: float(np.mean([row[key] for row in own])) for key in numbers}
        if stage == "after":
            means |= counted_row(run, (dataset, model, "mean"), "f1", counts[model], mean_f1, over)
        elif over is not None:
            means |= {"gain": means["f1"] - float(np.mean([row["f1"] for row in local])), "gain_over": over}
        chosen_on = "nothing chosen" if model == NOTHING else "clusterer and threshold by folds of the training half"
        place = {"dataset": dataset, "model": model, "split": "mean", "stage": stage}
        found.append({**place, **means, "chosen_on": chosen_on})
    return found


def _over_all(run: Run, rows: list[Row]) -> list[Row]:
    """The means over the sets, with intervals over the entities of all."""
    found = []
    for model, stage in STAGES:
        if stage == "before":
            continue
        own = [row for row in rows if (row["model"], row["stage"], row["split"]) == (model, stage, "mean")]
        counts = block_diag(*(run.counts[row["dataset"], model, "mean"] for row in own))
        over = None if model in ("local", NOTHING) else "local"
        means = {key: float(np.mean([row[key] for row in own])) for key in FIGURES}
        figures = counted_row(run, (ALL, model, "mean"), "f1", counts, mean_f1, over)
        place = {"dataset": ALL, "model": model, "split": "mean", "stage": stage}
        found.append({**place, **means, **figures, "chosen_on": own[0]["chosen_on"]})
    return found
