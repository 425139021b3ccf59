"""`kinfolk warm`: compile the kernels of all models now, so that no later process has to.

Kernels are compiled for the types they are called with, so every public model is trained on small generated data, of
each kind that brings types of its own, and asked for answers. numba compiles one kernel at a time in a process: with
two cores two processes share the models.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from kinfolk.cli.options import examples
from kinfolk.cli.output import show, show_json

WARM = examples("kinfolk warm", "kinfolk warm --json")
LOOSE: dict[str, Any] = {"n_jobs": 1, "tolerance": 0.1}
BLOCKING = ["key(postcode)", "key(surname)", "sorted(surname + given_name, 5)"]


# -- What is run: each a model with data of its own, by name ------------------------------------------------


def _tagger(make: Callable[[Any], Any]) -> Callable[[], None]:
    def use() -> None:
        import kinfolk as kf

        corpus = kf.generate_newswire(6)
        model = make(kf).fit(corpus)
        model.predict(corpus)
        model.predict(corpus, forced=True)
        model.predict_proba(corpus)
        model.predict_entities(corpus)
        model.explain(corpus, document=0, token=0)
        if hasattr(model, "predict_k_best"):
            model.predict_k_best(corpus, 2)

    return use


def _nodes(make: Callable[[Any], Any]) -> Callable[[], None]:
    def use() -> None:
        import kinfolk as kf

        graph = kf.generate_citations(60, seed=1)
        model = make(kf).fit(graph)
        model.predict(graph)
        model.predict_proba(graph)

    return use


def _reading() -> None:
    import io

    import kinfolk as kf

    kf.read_conll(io.BytesIO(b"Kim NNP B-PER\nleft VBD O\n"))


def _other_rows() -> None:
    """What taggers are given beside words: texts, feature dicts, numbers in them, and vectors."""
    import numpy as np

    import kinfolk as kf
    from kinfolk.text.attributes import word
    from kinfolk.text.quick import FEW_TOKENS

    sentences, tags = [["Kim", "left"], ["Kim", "saw", "Lee"]] * 4, [["B", "O"], ["B", "O", "B"]] * 4
    words = kf.LinearChainCRF(**LOOSE).fit(sentences, tags)
    words.predict(sentences)
    words.predict(sentences * (FEW_TOKENS // 20 + 1))
    words.entities("Kim left. Kim saw Lee.")
    rows = [[{"word": one, "length": len(one) / 4} for one in sentence] for sentence in sentences]
    vectors = [np.ones((len(sentence), 2), np.float32) for sentence in sentences]
    both: list[dict[str, Any]] = [{}, {"vectors": vectors}]
    for given in both:
        kf.LinearChainCRF(**LOOSE).fit(rows, tags, **given).predict(rows, **given)
    kf.LinearChainCRF(tolerance="early", n_jobs=1).fit(rows, tags)
    for tagger in (kf.LinearChainCRF, kf.MEMM):
        model = tagger(transition_templates=[word[0]], **LOOSE).fit(sentences, tags)
        model.predict(sentences)
        model.predict_entities(sentences)


def _mixed_rows() -> None:
    import kinfolk as kf

    rows, tags = [[{"word": "Kim", "length": 0.75}, {"word": "left", "length": 1.0}]] * 4, [["B", "O"]] * 4
    kf.MixtureTagger(**LOOSE).fit(rows, tags).predict(rows)


def _token_layer() -> None:
    import numpy as np

    import kinfolk as kf

    corpus = kf.generate_newswire(6)
    classes = sorted({label for row in corpus.label_rows() for label in row})
    given = np.random.default_rng(0).dirichlet(np.ones(len(classes)), corpus.n_tokens)
    for features in (True, False):
        layer = kf.TokenLayer(features=features, folds=2, n_jobs=1).fit(corpus, given, classes=classes)
        layer.predict(corpus, given)


def _node_layer() -> None:
    import numpy as np

    import kinfolk as kf

    graph = kf.generate_citations(60, seed=1)
    classes = sorted(set(graph.labels or ()))
    given = np.random.default_rng(0).dirichlet(np.ones(len(classes)), 60)
    kf.NodeLayer(n_jobs=1).fit(graph, given, classes=classes).predict(graph, given)


def _graph_of_numbers() -> Any:
    """Dense features, and weights of links."""
    import numpy as np

    import kinfolk as kf

    rng = np.random.default_rng(0)
    kinds = np.arange(40) % 2
    near = np.triu((rng.random((40, 40)) < 0.2) & (kinds[:, None] == kinds), 1)
    features = np.eye(2)[kinds] + rng.normal(0, 0.5, (40, 2))
    return kf.Graph(features, ["ab"[kind] for kind in kinds], {"near": np.argwhere(near)})


def _dense_nodes() -> None:
    import kinfolk as kf

    graph = _graph_of_numbers()
    for model in (
        kf.StackedNodes(_logistic(kf), depth=1, folds=3, n_jobs=1), kf.StackedNodes(effort="fast", n_jobs=1),
        kf.DependencyNetwork(_logistic(kf), sweeps=5, burn_in=2, n_jobs=1),
        kf.MixtureNodes(orders=2, predict_orders=2, **LOOSE),
        kf.MixtureNodes(orders=2, predict_orders=2, evidence="weighed", **LOOSE),
        kf.StackedNodes(_logistic(kf), templates=["max:near", "exists:near"], depth=1, folds=3, n_jobs=1),
    ):  # fmt: skip
        model.fit(graph).predict_proba(graph)
    kf.MultiLabelNodes(effort="fast", n_jobs=1).fit(graph).predict(graph)
    numbers = kf.Graph(graph.features, graph.label_codes.tolist(), dict(graph.relations))
    kf.NodeRegressor(effort="fast", n_jobs=1).fit(numbers).predict(numbers)


def _links_of_dense_nodes() -> None:
    import kinfolk as kf

    graph = _graph_of_numbers()
    kf.LinkModel(**LOOSE).fit(graph).predict_proba(graph)


def _records() -> None:
    import kinfolk as kf

    people = kf.generate_customers(120, seed=1)
    linker = kf.Linker(blocking=BLOCKING, n_jobs=1).fit(people)
    linker.predict(people)
    linker.evaluate(people)
    linker.explain_clusters(people)
    few = people.take(range(60))
    kf.Linker(blocking=BLOCKING, n_jobs=1).fit(few).predict(people)
    columns: dict[str, Any] = dict(people.columns)
    table = {name: column.strings() for name, column in columns.items()}
    table["id"] = [people.name(i) for i in range(people.n_items)]
    base = linker.cluster_frame({name: values[60:] for name, values in table.items()})
    linker.link({name: values[:60] for name, values in table.items()}, base)
    items, probability = linker.compared(people)
    for clusterer in (kf.SingleLink(), kf.CompleteLink(), kf.BestLink(), kf.Correlation()):
        linker.cluster(items, probability, clusterer=clusterer)
    linker.predict(people, must_link=[(0, 1)], cannot_link=[(2, 3)])


def _rankings() -> None:
    import kinfolk as kf

    people = kf.generate_customers(120, seed=1)
    for training in ("ranking", "combined"):
        linker = kf.Linker(blocking=BLOCKING, training=training, n_jobs=1).fit(people)
        items, probability = linker.compared(people)
        linker.cluster(items, probability)
        linker.predict(people)
        linker.antecedent_shares(items)


def _nested_records() -> None:
    """Lists and vectors as values."""
    import numpy as np

    import kinfolk as kf

    people, rng = kf.generate_customers(120, seed=1), np.random.default_rng(0)
    assert people.clusters is not None
    vectors = rng.normal(size=(int(people.clusters.max()) + 1, 3))[people.clusters]
    people = people.with_columns(picture=vectors + 0.1 * rng.normal(size=vectors.shape))
    comparisons = [
        "cosine(picture)", "exact(postcode)", "edit(given_name)", "jaro_winkler(surname)", "tfidf_cosine(address)",
        "token_overlap(address)", "date_difference(date_of_birth)",
    ]  # fmt: skip
    kf.Linker(comparisons, blocking=BLOCKING, n_jobs=1).fit(people).predict(people)


def _mentions() -> None:
    """Of texts, with the usual comparisons for them."""
    import numpy as np

    import kinfolk as kf

    sentences = [["Kim", "saw", "the", "house"], ["She", "likes", "the", "house"], ["Lee", "and", "Kim", "left"]]
    corpus, n = kf.Corpus.from_sentences(sentences * 4, documents=[3] * 4), 6
    spans = [(0, 1), (2, 4), (4, 5), (6, 8), (8, 9), (10, 11)]
    words = [word for sentence in sentences for word in sentence]
    text = [" ".join(words[a:b]) for a, b in spans]
    items = kf.Mentions.from_groups(
        np.repeat(np.arange(4, dtype=np.int32), n), {"text": kf.Column.from_strings(text * 4)},
        clusters=np.concatenate([3 * d + np.array([0, 1, 0, 1, 2, 0]) for d in range(4)]), corpus=corpus,
        spans=np.array([(a + 12 * d, b + 12 * d) for d in range(4) for a, b in spans]),
    )  # fmt: skip
    for training in ("structured", "ranking"):
        kf.Linker(training=training, n_jobs=1).fit(items).predict(items)


def _what_few_data_do_not_reach() -> None:
    """Tables that grow, long chains of pairs, orders that have to be searched for."""
    import numpy as np

    from kinfolk.inference.antecedents import DENSE, together
    from kinfolk.inference.clustering import Constraints, single_link
    from kinfolk.inference.dag import build_dag
    from kinfolk.linking.pair_table import _Numbered

    numbered, n = _Numbered(1), (1 << 11) + 1
    numbered.add(np.arange(n, dtype=np.uint64)[:, None], np.empty(n, np.int32))
    left, probability = np.arange(DENSE + 1, dtype=np.int32), np.full(DENSE + 1, 0.6)
    together(DENSE + 2, left, left + np.int32(1), probability)
    single_link(DENSE + 2, left, left + np.int32(1), probability, constraints=Constraints(max_size=2))
    build_dag([np.array([[1, 2], [0, 1], [3, 0], [2, 4]])], np.zeros(5, np.int64))


def _pairs_of_engines() -> None:
    """Where pyarrow is there, which the engines need."""
    try:
        import pyarrow
    except ImportError:
        return

    from kinfolk.core.engine import ROW
    from kinfolk.linking.block_pairs import PairsOfBlocks

    list(PairsOfBlocks(("key",))(pyarrow.table({ROW: [0, 1, 2], "unit": [0, 0, 0], "key": [1, 1, 2]})))


def _logistic(kf: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


# Each process compiles what it needs, so models that share long kernels are in one list: passes over chains and beliefs
# of pairwise models in the first, the mixture in the second.
LISTS: tuple[dict[str, Callable[[], None]], ...] = (
    {
        "column files": _reading,
        "MaxEnt": _tagger(lambda kf: kf.MaxEnt(**LOOSE)),
        "LinearChainCRF": _tagger(lambda kf: kf.LinearChainCRF(templates="document", **LOOSE)),
        "MEMM": _tagger(lambda kf: kf.MEMM(**LOOSE)),
        "SkipChainCRF": _tagger(lambda kf: kf.SkipChainCRF(n_jobs=1, tolerance=0.3)),
        "SkipChainCRF, other beliefs": _tagger(lambda kf: kf.SkipChainCRF(beliefs="trw", n_jobs=1, tolerance=0.3)),
        "StackedTagger": _tagger(lambda kf: kf.StackedTagger(kf.LinearChainCRF(**LOOSE), folds=3, n_jobs=1)),
        "other rows": _other_rows,
        "TokenLayer": _token_layer,
        "LinkModel": _nodes(lambda kf: kf.LinkModel(**LOOSE)),
        "LinkModel with numbers": _links_of_dense_nodes,
        "what few data do not reach": _what_few_data_do_not_reach,
        "pairs of engines": _pairs_of_engines,
    },
    {
        "Linker": _records,
        "Linker, ranking": _rankings,
        "Linker, lists and vectors": _nested_records,
        "Linker, mentions": _mentions,
        "DependencyNetwork": _nodes(lambda kf: kf.DependencyNetwork(_logistic(kf), sweeps=5, burn_in=2, n_jobs=1)),
        "StackedNodes": _nodes(lambda kf: kf.StackedNodes(effort="fast", n_jobs=1)),
        "StackedNodes, levels": _nodes(lambda kf: kf.StackedNodes(_logistic(kf), depth=1, folds=3, n_jobs=1)),
        "MixtureNodes": _nodes(lambda kf: kf.MixtureNodes(orders=2, predict_orders=2, **LOOSE)),
        "nodes with numbers": _dense_nodes,
        "NodeLayer": _node_layer,
        "MixtureTagger": _tagger(lambda kf: kf.MixtureTagger(**LOOSE)),
        "MixtureTagger, other rows": _mixed_rows,
    },
)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """numba makes millions of small objects and keeps most: looking for what may be freed at every few hundred of them
    takes a seventh of the time of compiling."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def use(names: Sequence[str]) -> dict[str, Any]:
    """Run models by name; what has become of the kernels."""
    from kinfolk.core.kernels import warmth

    log = logging.getLogger("kinfolk")
    level = log.level
    log.setLevel(logging.ERROR)  # what models say of six documents is of no matter
    try:
        with warnings.catch_warnings(), _seldom_collected():
            warnings.simplefilter("ignore")
            for models in LISTS:
                for name, run in models.items():
                    if name in names:
                        run()
    finally:
        log.setLevel(level)
    return warmth()._asdict()


def warmed(processes: int) -> dict[str, Any]:
    """The same of all models, in as many processes (1 or 2), joined."""
    if processes < 2:
        return use([name for models in LISTS for name in models])
    started = [
        subprocess.Popen([sys.executable, "-m", "kinfolk.cli.warm", *models], stdout=subprocess.PIPE)
        for models in LISTS
    ]
    said = [one.communicate()[0] for one in started]
    if any(one.returncode for one in started):  # the fault is on standard error; one process tells it best
        return use([name for models in LISTS for name in models])
    found = [json.loads(text) for text in said]
    both = {key: {name for one in found for name in one[key]} for key in found[0]}
    used = {name.partition("(")[0] for name in both["compiled"] | both["loaded"]}
    both["loaded"] -= both["compiled"]  # one compiled what the other then found
    both["unused"] -= used
    return {key: sorted(names) for key, names in both.items()}


# -- cli --------------------------------------------------------------------------------------------------

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=WARM)
def warm(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, max=2, help="Processes that compile. Default: 2, or 1 on one core.")
    ] = None,
) -> None:
    """Compile the kernels of all models now, so that no later run has to.

    Every model is trained on small generated data. Kernels that are there are loaded, so a second call takes seconds.
    They are kept in NUMBA_CACHE_DIR, else beside the sources, else in the user's folder for caches. Exit status 2 if
    they could not be kept.
    """
    from kinfolk.core.threads import resolve_jobs
    from kinfolk.errors import InputError

    began = time.perf_counter()
    found = warmed(min(2, resolve_jobs(-1)) if processes is None else processes)
    seconds = time.perf_counter() - began
    folder = os.path.commonpath(found["folders"]) if found["folders"] else None
    counts = {key: len(found[key]) for key in ("compiled", "loaded", "not_kept")}
    if as_json:
        show_json({**counts, "seconds": round(seconds, 2), "folder": folder})
    else:
        lines = [f"{counts['compiled']} kernels compiled, {counts['loaded']} were there; {seconds:.1f} s"]
        show([*lines, f"kept in {folder}" if folder else "kept nowhere"])
    if found["not_kept"]:
        raise InputError(
            f"{counts['not_kept']} compiled kernels could not be kept, and every run will compile them again; let "
            "NUMBA_CACHE_DIR name a folder that can be written to"
        )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(use(sys.argv[1:])))
