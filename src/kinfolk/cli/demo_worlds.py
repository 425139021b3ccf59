"""The three generated worlds of `kinfolk demo`: in each, a model that looks at things one by one and a model that also
looks at their company learn from the same part, with the same features, and are scored on the rest.

tokens    names in newswire. A name is introduced clearly once and repeated where the sentence does not tell its type.
nodes     topics of papers that cite each other; the topics of half of them are known.
records   customers who filled in a short form several times, in a hurry: typos, blank fields, no number of a passport.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinfolk.graph.graph import Graph
    from kinfolk.graph.stacked import StackedGraphical
    from kinfolk.linking.linker import Linker
    from kinfolk.linking.mentions import Mentions
    from kinfolk.text.corpus import Corpus
    from kinfolk.text.mixture import MixtureOfParents

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

    tagger: MixtureOfParents
    corpus: Corpus
    stacked: StackedGraphical
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


def _tokens(seed: int, documents: int, tell: Tell) -> tuple[MixtureOfParents, Corpus, Comparison]:
    from kinfolk.datasets.newswire import newswire_split
    from kinfolk.text.crf import LinearChainCRF
    from kinfolk.text.mixture import MixtureOfParents

    train, test = newswire_split(documents, documents, seed=seed)
    tell(f"tokens: {train.n_tokens:,} words of newswire to train on")
    began = time.perf_counter()
    alone, company = LinearChainCRF(verbose=1), MixtureOfParents(mixing="learned", verbose=1)
    before, after = (100 * model.fit(train).score(test) for model in (alone, company))
    told = ("tokens", "entity F1", "linear-chain CRF", "mixture of parents")
    return company, test, Comparison(*told, before, after, time.perf_counter() - began)


def _nodes(seed: int, papers: int, tell: Tell) -> tuple[StackedGraphical, Graph, Graph, Comparison]:
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from kinfolk.datasets.citations import citation_graph, citation_tables
    from kinfolk.graph.stacked import StackedGraphical

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
    company = StackedGraphical(base, depth=2, random_state=seed).fit(graph)
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
