"""`kinfolk demo`: three generated data sets, each with and without the company things keep, in one table and on a page.

In each, a local model, which looks at things one by one, and a collective model, which also looks at what they are
related to, learn from the same part, with the same features, and are scored on the rest.

tokens    names in newswire. A name is introduced clearly once and repeated where the sentence does not show its type.
nodes     topics of papers that cite each other; the topics of half of them are known.
records   customers who filled in a short form several times, in a hurry: typos, blank fields, no number of a passport.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from kinfolk.cli.options import examples
from kinfolk.cli.output import Table, show, show_json

if TYPE_CHECKING:
    from kinfolk.graph.graph import Graph
    from kinfolk.graph.stacked import StackedNodes
    from kinfolk.linking.linker import Linker
    from kinfolk.linking.mentions import Mentions
    from kinfolk.report.page import Part
    from kinfolk.text.corpus import Corpus
    from kinfolk.text.mixture import MixtureTagger

DEMO = examples("kinfolk demo")
FORM = ("given_name", "surname", "address", "postcode")
CARELESS = {"duplicates": 0.8, "typos": 5.0, "missing": 0.2}  # five records a customer on average
RIDGE = 0.3  # C of the logistic regression: the best of 0.1, 0.3, 1 and 3 for the one that stands alone

Log = Callable[[str], None]

# -- Training and scoring ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """documents to train on, with twice as many to test; papers, half of them to test; records, half to test."""

    documents: int = 50
    papers: int = 1500
    records: int = 1000


SIZES, TINY = Sizes(), Sizes(2, 40, 40)
LOOSE: dict[str, Any] = {"tolerance": 0.1, "verbose": 1}  # of both taggers: more training changes no gain


@dataclass(frozen=True)
class Comparison:
    """The local and the collective model of a task: scores in percent on what neither has seen, seconds for both."""

    task: str
    measured: str
    local: str
    collective: str
    local_score: float
    collective_score: float
    seconds: float

    @property
    def gain(self) -> float:
        return self.collective_score - self.local_score


@dataclass(frozen=True)
class Tokens:
    """The mixture of parents, and documents it has not seen, with their true labels."""

    tagger: MixtureTagger
    corpus: Corpus
    comparison: Comparison

    def parts(self) -> list[Part]:
        from kinfolk.report.training import training_part

        training = training_part(self.tagger)
        return [_document(self), *([training] if training else [])]


@dataclass(frozen=True)
class Nodes:
    """The stacked model, the papers as it saw them, without the topics of those to be predicted, and with all."""

    stacked: StackedNodes
    graph: Graph
    truth: Graph
    comparison: Comparison

    def parts(self) -> list[Part]:
        return [_node(self)]


@dataclass(frozen=True)
class Records:
    """The linker, and records of customers it has not seen, with their true clusters."""

    linker: Linker
    records: Mentions
    comparison: Comparison

    def parts(self) -> list[Part]:
        return [_clusters(self)]


Alone = tuple[float, float]  # the score of a local model, and the seconds that it took


def tokens_alone(seed: int, sizes: Sizes) -> Alone:
    from kinfolk.text.chain import LinearChainCRF

    train, test = _newswire(seed, sizes)
    began = time.perf_counter()
    score = 100 * LinearChainCRF(**LOOSE).fit(train).score(test)
    return score, time.perf_counter() - began


def tokens(seed: int, sizes: Sizes, log: Log, alone: Alone | None = None) -> Tokens:
    """`alone`: what the local model came to, where it is known; else it is trained first."""
    from kinfolk.text.mixture import MixtureTagger

    train, test = _newswire(seed, sizes)
    log(f"tokens: {train.n_tokens:,} words of newswire to train on")
    before, seconds = alone or tokens_alone(seed, sizes)
    began = time.perf_counter()
    collective = MixtureTagger(mixing="learned", **LOOSE).fit(train)
    after = 100 * collective.score(test)
    names = ("tokens", "entity F1", "linear-chain CRF", "mixture of parents")
    return Tokens(collective, test, Comparison(*names, before, after, seconds + time.perf_counter() - began))


def _newswire(seed: int, sizes: Sizes) -> tuple[Corpus, Corpus]:
    from kinfolk.datasets.newswire import newswire_split

    return newswire_split(sizes.documents, 2 * sizes.documents, seed=seed)


def nodes(seed: int, sizes: Sizes, log: Log) -> Nodes:
    from sklearn.linear_model import LogisticRegression

    from kinfolk.datasets.citations import generate_citations
    from kinfolk.graph.stacked import StackedNodes

    papers = sizes.papers
    truth = generate_citations(papers, seed=seed)
    log(f"nodes: {papers:,} papers, {truth.relations['cites'].nnz:,} citations")
    began = time.perf_counter()
    hidden = np.zeros(papers, bool)
    hidden[np.random.default_rng(seed).permutation(papers)[: papers // 2]] = True
    graph = truth.with_labels(np.where(hidden, -1, truth.label_codes))
    gold = np.array(truth.labels, object)
    local, base = (LogisticRegression(C=RIDGE, max_iter=1000) for _ in range(2))
    local.fit(truth.features[~hidden], gold[~hidden].astype(str))
    collective = StackedNodes(base, depth=2, random_state=seed).fit(graph)
    answers = local.predict(truth.features[hidden]), collective.predict(graph)[hidden]
    before, after = (100 * float((answer == gold[hidden]).mean()) for answer in answers)
    names = ("nodes", "accuracy", "logistic regression", "stacked, 2 levels")
    return Nodes(collective, graph, truth, Comparison(*names, before, after, time.perf_counter() - began))


def records(seed: int, sizes: Sizes, log: Log) -> Records:
    from kinfolk.datasets.customers import generate_customers
    from kinfolk.linking.linker import Linker

    drawn = generate_customers(sizes.records, seed=seed, **CARELESS)
    people = replace(drawn, columns={name: drawn.columns[name] for name in FORM})
    assert people.clusters is not None
    train, test = (people.take(people.clusters % 2 == half) for half in (0, 1))  # no customer is in both
    local, collective = Linker(training="local", verbose=1), Linker(folds=5, random_state=seed, verbose=1)
    test = local.candidates(test)  # all pairs: what blocking misses is not the question here
    log(f"records: {train.n_items:,} to train on, {test.n_pairs:,} pairs to decide")
    began = time.perf_counter()
    before = 100 * local.fit(train).evaluate(test)["pairs before"]["f1"]  # each pair by itself
    after = 100 * collective.fit(train).evaluate(test)["pairs"]["f1"]
    names = ("records", "pairwise F1", "pairs one by one", "clustered pairs")
    return Records(collective, test, Comparison(*names, before, after, time.perf_counter() - began))


# -- The page: what the company adds, and a case of each -----------------------------------------------

ABOUT_PAGE = (
    "Three generated data sets. In each, one model looks at things one by one, another also at the company they keep; "
    "both learned from the same part with the same features, and are scored on the rest."
)
CLUSTERS = 12
DOCUMENTS = 10  # among the first so many the one with the most long edges is shown


def write_demo_report(path: Path, comparisons: Sequence[Comparison], parts: Sequence[Part]) -> None:
    """Write one page about what the trained models say of their test data; how training went comes last."""
    from kinfolk.report.page import write_report

    in_order = sorted(parts, key=lambda part: part.kind == "training")
    write_report(path, "What the company adds", [_gains(comparisons), *in_order], ABOUT_PAGE)


def _gains(comparisons: Sequence[Comparison]) -> Part:
    from kinfolk.report.page import Part

    rows = [
        [one.task, f"{one.gain:+.1f}", f"{one.local_score:.1f}, {one.local}",
         f"{one.collective_score:.1f}, {one.collective}", f"{one.measured}; {one.seconds:.0f} s"]
        for one in comparisons
    ]  # fmt: skip
    note = "Percent, on what neither model has seen. kinfolk demo --seeds 5 shows how much the gains differ by seed."
    headings = ["task", "gain", "alone", "with company", "measured by"]
    data = {"headings": headings, "rows": rows, "number": [1], "note": note}
    return Part("table", "Alone and with company", data)


def _document(models: Tokens) -> Part:
    """The text with the most names that look at each other."""
    from kinfolk.text.batch import Batch
    from kinfolk.text.explain import document_part, label_document, one_document

    batch, tagger = Batch.of(models.corpus), models.tagger
    first = [one_document(batch, d, None) for d in range(min(DOCUMENTS, models.corpus.n_documents))]
    chosen = max(range(len(first)), key=lambda d: len(tagger._long_edges(first[d])))
    labelled = label_document(tagger, first[chosen], range(first[chosen].corpus.n_tokens))
    return document_part(labelled, f"Tokens: document {chosen} of the newswire")


def _node(models: Nodes) -> Part:
    """A paper whose words alone mislead, and which its neighbours set right; failing that, the first unlabelled one."""
    from kinfolk.graph.explain import explained_part
    from kinfolk.graph.stacked import explained_levels

    stacked, graph, truth = models.stacked, models.graph, models.truth
    levels = stacked.predict_levels(graph)
    gold = np.array(truth.labels, object)
    local, collective = (stacked.classes_[level.argmax(axis=1)] for level in (levels[0], levels[-1]))
    unknown = graph.label_codes < 0
    changed = np.flatnonzero(unknown & (local != gold) & (collective == gold))
    sure = levels[-1].max(axis=1)
    node = int(changed[sure[changed].argmax()]) if len(changed) else int(np.flatnonzero(unknown)[0])
    nodes = stacked._nodes(graph)
    predictor = stacked._predictor(nodes, stacked._known(nodes, "train", forced=False, tell=False))
    part = explained_part(explained_levels(predictor, 1, node, stacked.labels_.names, list(graph.feature_names or ())))
    return replace(part, title=f"Nodes: paper {graph.ids[node]}, “{part.data['nodes'][0]['title']}”")


def _clusters(models: Records) -> Part:
    from kinfolk.linking.page import Linked
    from kinfolk.report.page import Part

    linked = Linked.of(models.linker, models.records)
    return Part("links", "Records: the most uncertain and the largest clusters of customers", linked.payload(CLUSTERS))


# -- The command ---------------------------------------------------------------------------------------

ABOUT = (
    "tokens   names in newswire: clear where they are introduced, unclear where they come again",
    "nodes    topics of papers: by their titles, and by what they cite and what cites them",
    "records  customers who filled in a form several times, with typos and blanks",
)
TRY = (
    "kinfolk tokens train --train train.conll --model mop --mixing learned --out names.kinfolk",
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic --text title \\\n"
    "    --model stacked --depth 2 --out topics.kinfolk",
    "kinfolk records train --records customers.csv --cluster entity --block 'key(postcode)' \\\n"
    "    --block 'key(date_of_birth)' --folds 5 --out customers.kinfolk",
)
EXAMPLES = "(examples/newswire.py, examples/citations.py and examples/customers.py write such files)"


@dataclass(frozen=True)
class Summary:
    """One task over the seeds it was run with."""

    runs: Sequence[Comparison]

    @property
    def gains(self) -> list[float]:
        return [run.gain for run in self.runs]

    @property
    def spread(self) -> float:
        """The largest gain less the smallest."""
        return max(self.gains) - min(self.gains)

    @property
    def deviation(self) -> float:
        """The standard deviation of the gain; of a single run there is none."""
        return stdev(self.gains) if len(self.runs) > 1 else 0.0

    def mean(self, what: str) -> float:
        return fmean(getattr(run, what) for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """For --json: scores and gains in percent, means over the seeds."""
        run = self.runs[0]
        return {
            "task": run.task,
            "measured": run.measured,
            "local": {"model": run.local, "score": self.mean("local_score")},
            "company": {"model": run.collective, "score": self.mean("collective_score")},
            "gain": self.mean("gain"),
            "gains": self.gains,
            "spread": self.spread,
            "standard_deviation": self.deviation,
            "seconds": self.mean("seconds"),
        }

    def row(self) -> list[str]:
        """Of the table for readers."""
        run, over = self.runs[0], [self.spread, self.deviation] if len(self.runs) > 1 else []
        scores = [f"{value:.1f}" for value in (self.mean("local_score"), self.mean("collective_score"))]
        gains = [f"{self.mean('gain'):+.1f}", *(f"{value:.1f}" for value in over), f"{self.mean('seconds'):.1f}"]
        return [run.task, run.measured, run.local, run.collective, *scores, *gains]


app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=DEMO)
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data, and the first of several.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run, to see by how much gains differ.")] = 1,
    report: Annotated[Path, typer.Option(help="Page to write, about the first seed.")] = Path("kinfolk-demo.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Generate three small data sets, train with and without the company things keep, and show what it adds."""
    from kinfolk.core.modelfile import check_writable

    check_writable(report)
    found = all_worlds(range(seed, seed + seeds), SIZES)
    comparisons, parts = zip(*found.values(), strict=True)
    write_demo_report(report, [runs[0] for runs in comparisons], [part for some in parts for part in some])
    summaries = [Summary(runs) for runs in comparisons]
    if as_json:
        tasks = [summary.as_dict() for summary in summaries]
        show_json({"seeds": [*range(seed, seed + seeds)], "tasks": tasks, "report": str(report)})
        return
    over = ["mean gain", "max - min", "st. dev."] if seeds > 1 else ["gain"]
    head = ["task", "measured", "alone", "with company", "alone", "company", *over, "seconds"]
    heading = "What the company adds: scores in percent, on what the models have not seen"
    show([*ABOUT, "", heading], Table(head, [summary.row() for summary in summaries], words=4))
    commands = [f"  {line}" for command in TRY for line in command.splitlines()]
    show(["", f"To look closer, open {report}", "", "On your own files:", *commands, EXAMPLES])


def _log(text: str) -> None:
    """Progress, for somebody who is looking."""
    if sys.stderr.isatty():
        typer.echo(text, err=True)


# -- Two worlds at a time ------------------------------------------------------------------------------
#
# Where there are two cores a second process has the records, the nodes and the local model of tokens, and this one the
# mixture of parents. numba compiles one kernel at a time in a process; these have few in common.

WORLDS: dict[str, Callable[[int, Sizes, Log], Tokens | Nodes | Records]] = {
    "tokens": tokens, "nodes": nodes, "records": records,
}  # fmt: skip
BESIDE = ("records", "nodes")
Found = tuple[list[Comparison], list["Part"]]  # of one world: a comparison a seed, and what is shown of the first seed


def all_worlds(seeds: range, sizes: Sizes) -> dict[str, Found]:
    """What came of each."""
    from kinfolk.core.threads import resolve_jobs

    if resolve_jobs(-1) < 2:
        return {name: one_world(name, seeds, sizes) for name in WORLDS}
    given = map(str, [seeds.start, seeds.stop, *astuple(sizes)])
    command = [sys.executable, "-m", "kinfolk.cli.demo", *given]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        runs, parts = one_world("tokens", seeds, sizes, alone=(0.0, 0.0))
        said, _ = other.communicate()
    finally:
        other.kill()
        other.wait()
    if other.returncode:  # what went wrong there is told here
        return {name: one_world(name, seeds, sizes) for name in WORLDS}
    beside, alone = _told(said)
    scored = [replace(run, local_score=score, seconds=seconds + run.seconds)
              for run, (score, seconds) in zip(runs, alone, strict=True)]  # fmt: skip
    return {"tokens": (scored, parts), **{name: beside[name] for name in WORLDS if name in beside}}


def one_world(name: str, seeds: range, sizes: Sizes, **given: Any) -> Found:
    """Kernels are compiled or loaded first, by so little data that the seconds told are those of training."""
    WORLDS[name](0, TINY, lambda text: None, **given)
    first = WORLDS[name](seeds[0], sizes, _log, **given)
    others = (WORLDS[name](seed, sizes, _log, **given) for seed in seeds[1:])
    return [first.comparison, *(one.comparison for one in others)], first.parts()


def _tell(seeds: range, sizes: Sizes) -> str:
    """What the second process has found, as JSON: of what is shown, what a page holds of it."""
    from kinfolk.report.page import plain

    found = {name: one_world(name, seeds, sizes) for name in BESIDE}
    worlds = {name: [[*map(vars, runs)], plain([*map(vars, parts)])] for name, (runs, parts) in found.items()}
    tokens_alone(0, TINY)
    return json.dumps([worlds, [tokens_alone(seed, sizes) for seed in seeds]])


def _told(said: bytes) -> tuple[dict[str, Found], list[Alone]]:
    from kinfolk.report.page import Part

    worlds, alone = json.loads(said)
    found = {name: ([Comparison(**run) for run in runs], [Part(**part) for part in parts])
             for name, (runs, parts) in worlds.items()}  # fmt: skip
    return found, alone


if __name__ == "__main__":
    start, stop, *sizes = map(int, sys.argv[1:])
    sys.stdout.write(_tell(range(start, stop), Sizes(*sizes)))
