"""`kinfolk demo`: three generated worlds, each with and without the company, in one table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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

# -- examples at the end of help pages -----------------------------------------------------------------

DEMO = examples("kinfolk demo")


# -----------------------------------------------------------------------------------------------------
# The three generated worlds of `kinfolk demo`: in each, a model that looks at things one by one and a model that also.
#
# looks at their company learn from the same part, with the same features, and are scored on the rest.
#
# tokens    names in newswire. A name is introduced clearly once and repeated where the sentence does not tell its type.
# nodes     topics of papers that cite each other; the topics of half of them are known.
# records   customers who filled in a short form several times, in a hurry: typos, blank fields, no number of a
# passport.

FORM = ("given_name", "surname", "address", "postcode")
CARELESS = {"duplicates": 0.8, "typos": 5.0, "missing": 0.2}  # five records a customer on average
RIDGE = 0.3  # C of the logistic regression: the best of 0.1, 0.3, 1 and 3 for the one that stands alone

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """documents to train on, with as many to test; papers, half of them to test; records, half to test."""

    documents: int = 100
    papers: int = 1500
    records: int = 1000


SIZES, TINY = Sizes(), Sizes(3, 40, 40)


@dataclass(frozen=True)
class Comparison:
    """What the company adds in one world: scores in percent on what neither model has seen, seconds for both models."""

    task: str
    measured: str
    local: str
    company: str
    local_score: float
    company_score: float
    seconds: float

    @property
    def gain(self) -> float:
        return self.company_score - self.local_score


@dataclass(frozen=True)
class DemoWorlds:
    """The trained models with what they were tested on, for a report.

    tagger, corpus    the mixture of parents, and documents it has not seen, with their true labels
    stacked, graph    the stacked model, and the papers as it saw them: without the topics of those to be predicted
    truth             the papers with all topics
    linker, records   the linker, and records of customers it has not seen, with their true clusters
    """

    tagger: MixtureTagger
    corpus: Corpus
    stacked: StackedNodes
    graph: Graph
    truth: Graph
    linker: Linker
    records: Mentions
    comparisons: tuple[Comparison, ...]


def demo_worlds(seed: int = 0, sizes: Sizes = SIZES, tell: Tell = lambda text: None) -> DemoWorlds:
    """Generate, train and compare, telling what happens."""
    tagger, corpus, tokens = _tokens(seed, sizes.documents, tell)
    stacked, graph, truth, nodes = _nodes(seed, sizes.papers, tell)
    linker, customers, links = _records(seed, sizes.records, tell)
    return DemoWorlds(tagger, corpus, stacked, graph, truth, linker, customers, (tokens, nodes, links))


def _tokens(seed: int, documents: int, tell: Tell) -> tuple[MixtureTagger, Corpus, Comparison]:
    from kinfolk.datasets.newswire import newswire_split
    from kinfolk.text.chain import LinearChainCRF
    from kinfolk.text.mixture import MixtureTagger

    train, test = newswire_split(documents, documents, seed=seed)
    tell(f"tokens: {train.n_tokens:,} words of newswire to train on")
    began = time.perf_counter()
    alone, company = LinearChainCRF(verbose=1), MixtureTagger(mixing="learned", verbose=1)
    before, after = (100 * model.fit(train).score(test) for model in (alone, company))
    told = ("tokens", "entity F1", "linear-chain CRF", "mixture of parents")
    return company, test, Comparison(*told, before, after, time.perf_counter() - began)


def _nodes(seed: int, papers: int, tell: Tell) -> tuple[StackedNodes, Graph, Graph, Comparison]:
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from kinfolk.datasets.citations import citation_graph, citation_tables
    from kinfolk.graph.stacked import StackedNodes

    tables = citation_tables(papers, seed=seed)
    truth = citation_graph(tables)
    tell(f"nodes: {papers:,} papers, {len(tables.cites['source']):,} citations")
    began = time.perf_counter()
    asked = np.zeros(papers, bool)
    asked[np.random.default_rng(seed).permutation(papers)[: papers // 2]] = True
    graph = truth.with_labels(np.where(asked, -1, truth.label_codes))
    gold = np.array(truth.labels, object)
    base = LogisticRegression(C=RIDGE, max_iter=1000)
    alone = LogisticRegression(C=RIDGE, max_iter=1000).fit(truth.features[~asked], gold[~asked].astype(str))
    company = StackedNodes(base, depth=2, random_state=seed).fit(graph)
    answers = alone.predict(truth.features[asked]), company.predict(graph)[asked]
    before, after = (100 * float((answer == gold[asked]).mean()) for answer in answers)
    told = ("nodes", "accuracy", "logistic regression", "stacked, 2 levels")
    return company, graph, truth, Comparison(*told, before, after, time.perf_counter() - began)


def _records(seed: int, records: int, tell: Tell) -> tuple[Linker, Mentions, Comparison]:
    from kinfolk.datasets.customers import generate_customers
    from kinfolk.linking.linker import Linker

    drawn = generate_customers(records, seed=seed, **CARELESS)
    people = replace(drawn, columns={name: drawn.columns[name] for name in FORM})
    assert people.clusters is not None
    train, test = (people.take(people.clusters % 2 == half) for half in (0, 1))  # no customer is in both
    alone = Linker(training="local", verbose=1)
    test = alone.candidates(test)  # all pairs: what blocking misses is not the question here
    tell(f"records: {train.n_items:,} to train on, {test.n_pairs:,} pairs to decide")
    began = time.perf_counter()
    company = Linker(folds=5, random_state=seed, verbose=1)
    before: dict[str, Any] = alone.fit(train).evaluate(test)["pairs before"]  # each pair by itself
    after: dict[str, Any] = company.fit(train).evaluate(test)["pairs"]
    told = ("records", "pairwise F1", "pairs one by one", "clustered pairs")
    return company, test, Comparison(*told, 100 * before["f1"], 100 * after["f1"], time.perf_counter() - began)


# -- The page that `kinfolk demo` writes about its three worlds: what the company adds, and a case of each ---

ABOUT_PAGE = (
    "Three generated worlds. In each, one model looks at things one by one, another also at the company they keep; "
    "both learned from the same part with the same features, and are scored on the rest."
)
CLUSTERS = 12
DOCUMENTS = 10  # among the first so many the one with the most long edges is shown


def write_demo_report(path: Path, worlds: DemoWorlds) -> Path:
    """Write one page about the trained models and what they say of their test data; its path."""
    from kinfolk.report.page import write_report
    from kinfolk.report.training import training_part

    parts = [_gains(worlds.comparisons), _document(worlds), _node(worlds), _clusters(worlds)]
    trained = training_part(worlds.tagger)
    write_report(path, "What the company adds", [*parts, *([trained] if trained else [])], ABOUT_PAGE)
    return path


def _gains(comparisons: tuple[Comparison, ...]) -> Part:
    from kinfolk.report.page import Part

    headings = ["task", "gain", "alone", "with company", "measured by"]
    rows = [
        [one.task, f"{one.gain:+.1f}", f"{one.local_score:.1f}, {one.local}", f"{one.company_score:.1f}, {one.company}",
         f"{one.measured}; {one.seconds:.0f} s"]
        for one in comparisons
    ]  # fmt: skip
    note = "Percent, on what neither model has seen. kinfolk demo --seeds 5 tells how much the gains differ by world."
    data = {"headings": headings, "rows": rows, "number": [1], "note": note}
    return Part("table", "Alone and with company", data)


def _document(worlds: DemoWorlds) -> Part:
    """The text with the most names that look at each other."""
    from kinfolk.text.batch import Batch
    from kinfolk.text.explain import document_part, label_document, one_document

    batch, tagger = Batch.of(worlds.corpus), worlds.tagger
    first = [one_document(batch, d, None) for d in range(min(DOCUMENTS, worlds.corpus.n_documents))]
    chosen = max(range(len(first)), key=lambda d: len(tagger._long_edges(first[d])))
    labelled = label_document(tagger, first[chosen], range(first[chosen].corpus.n_tokens))
    return document_part(labelled, f"Tokens: document {chosen} of the newswire")


def _node(worlds: DemoWorlds) -> Part:
    """A paper whose words alone mislead, and whose company sets it right; failing that, the first one asked about."""
    from dataclasses import replace

    from kinfolk.graph.explain import explained_part
    from kinfolk.graph.stacked import explained_levels

    stacked, graph, truth = worlds.stacked, worlds.graph, worlds.truth
    levels = stacked.predict_levels(graph)
    gold = np.array(truth.labels, object)
    alone, company = (stacked.classes_[level.argmax(axis=1)] for level in (levels[0], levels[-1]))
    unknown = graph.label_codes < 0
    changed = np.flatnonzero(unknown & (alone != gold) & (company == gold))
    sure = levels[-1].max(axis=1)
    node = int(changed[sure[changed].argmax()]) if len(changed) else int(np.flatnonzero(unknown)[0])
    nodes = stacked._nodes(graph)
    predictor = stacked._predictor(nodes, stacked._known(nodes, "train", forced=False, tell=False))
    part = explained_part(explained_levels(predictor, 1, node, stacked.labels_.names, list(graph.feature_names or ())))
    return replace(part, title=f"Nodes: paper {graph.ids[node]}, “{part.data['nodes'][0]['title']}”")


def _clusters(worlds: DemoWorlds) -> Part:
    from kinfolk.linking.page import Linked
    from kinfolk.report.page import Part

    linked = Linked.of(worlds.linker, worlds.records)
    return Part("links", "Records: the most doubtful and the largest clusters of customers", linked.payload(CLUSTERS))


# -- demo ------------------------------------------------------------------------------------------

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
            "company": {"model": run.company, "score": self.mean("company_score")},
            "gain": self.mean("gain"),
            "gains": self.gains,
            "spread": self.spread,
            "standard_deviation": self.deviation,
            "seconds": self.mean("seconds"),
        }


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the worlds, and the first of several.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run, to see by how much gains differ.")] = 1,
    report: Annotated[Path, typer.Option(help="Page to write, about the first seed.")] = Path("kinfolk-demo.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Generate three small worlds, train with and without the company things keep, and show what it adds."""
    from kinfolk.core.modelfile import check_writable

    check_writable(report)
    _tell("getting ready: the first time, numeric kernels are compiled, which takes about a minute")
    demo_worlds(0, TINY)
    found: list[tuple[Comparison, ...]] = []
    for number in range(seed, seed + seeds):
        worlds = demo_worlds(number, SIZES, _tell)
        found.append(worlds.comparisons)
        if number == seed:
            write_demo_report(report, worlds)
    summaries = [Summary(runs) for runs in zip(*found, strict=True)]
    if as_json:
        tasks = [summary.as_dict() for summary in summaries]
        show_json({"seeds": [*range(seed, seed + seeds)], "tasks": tasks, "report": str(report)})
        return
    told = "What the company adds: scores in percent, on what the models have not seen"
    show([*ABOUT, "", told], _table(summaries))
    commands = [f"  {line}" for command in TRY for line in command.splitlines()]
    show(["", f"To look closer, open {report}", "", "On your own files:", *commands, EXAMPLES])


def _table(summaries: Sequence[Summary]) -> Table:
    several = len(summaries[0].runs) > 1
    over = ["mean gain", "max - min", "st. dev."] if several else ["gain"]
    head = ["task", "measured", "alone", "with company", "alone", "company", *over, "seconds"]
    rows = []
    for summary in summaries:
        run = summary.runs[0]
        figures = [f"{summary.mean('local_score'):.1f}", f"{summary.mean('company_score'):.1f}"]
        figures.append(f"{summary.mean('gain'):+.1f}")
        figures += [f"{summary.spread:.1f}", f"{summary.deviation:.1f}"] if several else []
        words = [run.task, run.measured, run.local, run.company]
        rows.append([*words, *figures, f"{summary.mean('seconds'):.1f}"])
    return Table(head, rows, words=4)


def _tell(text: str) -> None:
    """Progress, for somebody who is looking."""
    if sys.stderr.isatty():
        typer.echo(text, err=True)
