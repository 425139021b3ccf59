"""What the experiments on CoNLL-2003 English share: the files, the choice of settings, a row of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.templates import Concat, Count, Exists, Max, Mean
from kinfolk.datasets.linqs import read_linqs
from kinfolk.datasets.slif import SIDES, read_slif
from kinfolk.datasets.webkb import read_webkb
from kinfolk.graph.graph import Graph
from kinfolk.papers.harness import Row, Tell
from kinfolk.text.conll import read_conll
from kinfolk.text.corpus import Corpus
from kinfolk.text.tagger import Tagger

HELD_OUT = 0.2  # the last fifth of the training documents


class Conll(NamedTuple):
    train: Corpus
    testa: Corpus
    testb: Corpus

    def held_out(self) -> tuple[Corpus, Corpus]:
        """Training documents to fit on, and to choose settings on."""
        cut = round(self.train.n_documents * (1 - HELD_OUT))
        return self.train.documents(0, cut), self.train.documents(cut, self.train.n_documents)


def read(data: Path) -> Conll:
    """`data` has the layout of the data folder (tokens/conll2003/eng.train, ...)."""
    folder = data / "tokens" / "conll2003"
    return Conll(*(read_conll(folder / f"eng.{part}") for part in ("train", "testa", "testb")))


def choose(
    method: type[Tagger], data: Conll, grid: Iterable[dict[str, Any]], tell: Tell, n_jobs: int,
    trials: list[dict[str, Any]] | None = None,
) -> tuple[dict[str, Any], float]:  # fmt: skip
    """The settings of the grid with the best F1 on held-out training documents, and that F1.

    `trials` is told the F1 of all of them, and spares what was tried before.
    """
    known = {repr(trial["settings"]): trial["f1"] for trial in trials or () if trial["method"] == method.__name__}
    fit, held_out = data.held_out()
    best: tuple[dict[str, Any], float] = ({}, -1.0)
    for settings in grid:
        score = known.get(repr(settings))
        if score is None:
            score = 100 * method(n_jobs=n_jobs, **settings).fit(fit).score(held_out)
            tell(f"{method.__name__}, {settings}: held-out F1 {score:.2f}")
            if trials is not None:
                trials.append({"method": method.__name__, "settings": settings, "f1": score})
        if score > best[1]:
            best = settings, score
    return best


def rows(model: Any, name: str, data: Conll, tell: Tell) -> list[Row]:
    """One row for each test file."""
    found: list[Row] = []
    for split, test in (("testa", data.testa), ("testb", data.testb)):
        scores, accuracy = model.evaluate(test)
        assert scores is not None
        figures = {key: getattr(scores, key) for key in ("f1", "fp", "fn", "precision", "recall")}
        found.append({"model": name, "dataset": "conll2003", "split": split, **figures, "accuracy": accuracy})
        tell(f"{name}, {split}: F1 {found[-1]['f1']:.2f}")
    return found


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
SLIF_WIDE = [  # all that a region's surroundings could tell
    *(Concat(side, slots=1) for side in SIDES),
    *(make(relation) for make in (Mean, Max) for relation in ("competitor", ANY_SIDE)),
    Mean(f"component({ANY_SIDE})"),
    Mean("figure"),
]


class Problem(NamedTuple):
    """A graph, what its nodes are told of their neighbours, and its folds."""

    name: str
    graph: Graph
    templates: list[Any]
    splits: list[Split]


def slif(data: Path) -> Problem:
    """Text regions; the neighbour on each side has a slot, competitors of the panel are asked whether any is one."""
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


def cora(data: Path) -> Problem:
    return citations(data, "cora")


def citeseer(data: Path) -> Problem:
    return citations(data, "citeseer")


PROBLEMS: dict[str, Callable[[Path], Problem]] = {"slif": slif, "webkb": webkb, "cora": cora, "citeseer": citeseer}
