"""The data of the experiments: CoNLL-2003 English, with the choice of settings on it, and graphs with their folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.templates import Concat, Count, Exists, Max, Mean
from kinfolk.core.checkpoint import running
from kinfolk.datasets.linqs import read_linqs
from kinfolk.datasets.slif import SIDES, read_slif
from kinfolk.datasets.webkb import read_webkb
from kinfolk.graph.graph import Graph
from kinfolk.papers.harness import Row, Run, counted_row
from kinfolk.report.scores import Counts, percent
from kinfolk.text.conll import read_conll
from kinfolk.text.corpus import Corpus
from kinfolk.text.scores import entity_scores
from kinfolk.text.tagger import Tagger

HELD_OUT = 0.2  # the last fifth of the training documents
CHOSEN = "chosen on the last fifth of eng.train"
Settings = dict[str, Any]


class Conll(NamedTuple):
    train: Corpus
    testa: Corpus
    testb: Corpus

    @classmethod
    def read(cls, data: Path) -> Conll:
        folder = data / "tokens" / "conll2003"
        return cls(*(read_conll(folder / f"eng.{part}") for part in cls._fields))

    def held_out_f1(
        self, run: Run, method: type[Tagger], trials: list[dict[str, Any]] | None = None
    ) -> Callable[[Settings], float]:
        """From settings to the F1 on held-out training documents, of a model trained on the others.

        `trials` holds the F1 of all that was tried, and spares what was tried before.
        """
        cut = round(self.train.n_documents * (1 - HELD_OUT))
        fit, held_out = self.train.documents(0, cut), self.train.documents(cut, self.train.n_documents)
        name, seen = method.__name__, [] if trials is None else trials

        def f1(settings: Settings) -> float:
            for trial in seen:
                if (trial["method"], repr(trial["settings"])) == (name, repr(settings)):
                    return float(trial["f1"])

            def scored() -> float:
                return 100 * method(n_jobs=run.n_jobs, **settings).fit(fit).score(held_out)

            score = running().step(f"held-out F1 of {name}", repr(settings)).once(scored)
            run.log(f"{name}, {settings}: held-out F1 {score:.2f}")
            seen.append({"method": name, "settings": settings, "f1": score})
            return score

        return f1

    def rows(self, run: Run, model: Any, name: str, local: str | None = None) -> list[Row]:
        """One row for each test file, with its interval over documents; `local` names the model to gain over."""
        found: list[Row] = []
        for split, test in (("testa", self.testa), ("testb", self.testb)):
            labels = model.predict(test)
            counts = entity_counts(test, labels)
            row = counted_row(run, ("conll2003", name, split), "f1", counts, entity_f1, local)
            correct, predicted, gold = counts.sum(axis=0).tolist()
            scores = Counts(gold, predicted, correct)
            row |= {key: getattr(scores, key) for key in ("fp", "fn", "precision", "recall")}
            right = [a == b for both in zip(labels, test.label_rows(), strict=True) for a, b in zip(*both, strict=True)]
            found.append({**row, "accuracy": percent(sum(right), len(right))})
            run.log(f"{name}, {split}: F1 {row['f1']:.2f}")
        return found


def entity_counts(test: Corpus, labels: list[list[Any]]) -> NDArray[np.int64]:
    """Entities that are right, predicted and there, of each document: (documents, 3)."""
    gold, bounds = test.label_rows(), test.document_starts
    found = [entity_scores(gold[a:b], labels[a:b]) for a, b in pairwise(bounds.tolist())]
    return np.array([(one.correct, one.predicted, one.gold) for one in found], np.int64).reshape(-1, 3)


def entity_f1(sums: NDArray[np.float64]) -> float:
    """In percent, of entities that are right, predicted and there; 0 where there are none."""
    correct, predicted, gold = sums
    return float(200 * correct / (predicted + gold)) if predicted + gold else 0.0


def search(
    score: Callable[[Settings], float], settings: Settings, stages: Iterable[Iterable[Settings]]
) -> tuple[Settings, float]:
    """Stage after stage, the choice with the best score is kept for the next; and the last of these scores."""
    best = -np.inf
    for stage in stages:
        grid = [{**settings, **choice} for choice in stage]
        scores = [score(tried) for tried in grid]
        best = max(scores)
        settings = grid[scores.index(best)]
    return settings, best


# -- The four graphs of Tables 1 and 2 and Figure 4 of the stacking paper, each with its templates and its folds ---


class Split(NamedTuple):
    """One fold: a graph to train on, with the nodes whose labels may be used; a graph to label, with those scored."""

    name: str
    fit: Graph
    train: NDArray[np.int64]
    target: Graph
    test: NDArray[np.int64]

    def accuracy(self, table: NDArray[Any], classes: NDArray[Any]) -> float:
        """Percent of the scored nodes that have their label, from (n, L) probabilities."""
        gold = np.array(self.target.labels, object)[self.test]
        return 100 * float((classes[table[self.test].argmax(axis=1)] == gold).mean())


def by_instance(graph: Graph, n_folds: int = 5) -> Iterator[Split]:
    """Folds of one graph: the nodes to be scored are there, without their labels."""
    from sklearn.model_selection import StratifiedKFold

    codes = graph.label_codes
    for number, (train, test) in enumerate(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(codes, codes)):
        yield Split(f"fold {number}", graph, train, graph, test)


def by_group(graph: Graph) -> Iterator[Split]:
    """Each group in turn: trained on the others, which are other graphs."""
    for number, name in enumerate(graph.group_names):
        inside = graph.group_codes == number
        others, own = graph.subset(~inside), graph.subset(inside)
        yield Split(name, others, np.arange(others.n_nodes), own, np.flatnonzero(own.label_codes >= 0))


ANY_SIDE = " | ".join(SIDES)
SLIF_WIDE = [  # all that a region's surroundings may say
    *(Concat(side, slots=1) for side in SIDES),
    *(make(relation) for make in (Mean, Max) for relation in ("competitor", ANY_SIDE)),
    Mean(f"component({ANY_SIDE})"),
    Mean("figure"),
]


class Problem(NamedTuple):
    """A graph, the templates of its aggregates of neighbours, and its folds."""

    name: str
    graph: Graph
    templates: list[Any]
    splits: list[Split]


def slif(data: Path) -> Problem:
    """Text regions; the neighbour on each side has a slot, competitors of the panel count if any is text."""
    graph = read_slif(data / "nodes" / "slif_sgm_minorthird")
    templates = [*(Concat(side, slots=1) for side in SIDES), Exists("competitor")]
    return Problem("slif", graph, templates, list(by_instance(graph)))


def webkb(data: Path) -> Problem:
    """All pages of the four departments but their four front pages: six classes, words of the page itself."""
    archive = data / "nodes" / "webkb_raw_cmu" / "webkb.tar.gz"
    graph = read_webkb(archive, subset=None, fields=("text", "title"), addresses="folded")
    kept = graph.subset(np.array([label != "department" for label in graph.labels]))
    return Problem("webkb", kept, [Count("links"), Count("~links")], list(by_group(kept)))


def citations(data: Path, name: str) -> Problem:
    """Cora or CiteSeer: papers with words, counts of citing and cited papers by class."""
    folder = data / "nodes" / f"{name}_linqs"
    graph = read_linqs(folder / f"{name}.content.gz", folder / f"{name}.cites")
    return Problem(name, graph, [Count("cites"), Count("cited_by")], list(by_instance(graph)))


PROBLEMS: dict[str, Callable[[Path], Problem]] = {
    "slif": slif,
    "webkb": webkb,
    "cora": partial(citations, name="cora"),
    "citeseer": partial(citations, name="citeseer"),
}
