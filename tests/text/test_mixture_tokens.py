"""A mixture of parents on tokens: what it becomes without skip edges, confidences, decoding, what skip edges carry."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
import mixture_oracle as oracle
from kinfolk.collective.mixture import Layout, RelationLayout, Sample, wire
from kinfolk.errors import ConvergenceWarning, InputError, SettingError
from kinfolk.inference.dag import build_dag
from kinfolk.inference.mixture import beliefs, uniform_weights
from kinfolk.inference.mixture_spans import LabelledSpan, mixture_span_probabilities
from kinfolk.learning.loglinear import TableWeights
from kinfolk.text.attributes import lower, shape, word
from small_world import TEST, TINY, TINY_LABELS, TRAIN, in_scheme, is_valid, randomised, with_sizes

SHORT = TRAIN.documents(0, 6)
BARE = [lower[0], shape[0]]
WORDS = ["Kim", "Rome", "left", "the", "of", "unseen"]
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=3)
DOCUMENTS = st.lists(SENTENCES, min_size=1, max_size=3)
SEEDS = st.integers(0, 2**32 - 1)
_FITTED: dict[str, Any] = {}


def mixture(**changed: Any) -> kf.MixtureTagger:
    return kf.MixtureTagger(**{"templates": BARE, "n_jobs": 1, **changed})


def trained(**changed: Any) -> Any:
    """A model of SHORT, made once."""
    if repr(changed) not in _FITTED:
        _FITTED[repr(changed)] = mixture(**changed).fit(SHORT)
    return _FITTED[repr(changed)]


def drawn(model: Any, seed: int, scale: float = 0.7) -> Any:
    """A copy with random weights: nothing is certain, nothing ties."""
    rng, twin = np.random.default_rng(seed), type(model)(**model.get_params())
    vars(twin).update(vars(model))
    new = lambda part: (scale * rng.standard_normal(part.shape)).astype(np.float32)  # noqa: E731
    twin.weights_ = tuple(TableWeights([new(t) for t in w.tables], *map(new, w[1:])) for w in model.weights_)
    return twin


def corpus_of(documents: list[list[list[str]]], labels: Any = None) -> kf.Corpus:
    sentences = [sentence for document in documents for sentence in document]
    corpus = kf.Corpus.from_sentences(sentences, labels, scheme="BIO" if labels else None)
    return with_sizes(corpus, documents)


def assert_close(one: Any, other: Any, atol: float) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


# -- without skip edges it is an MEMM


def as_mixture(memm: Any, **changed: Any) -> Any:
    """A mixture without skip edges with the weights of an MEMM of the same features."""
    changed = {"skip_edges": None, "transition_templates": memm.transition_templates, **changed}
    model = mixture(templates=memm.templates, **changed).fit(SHORT)
    assert model.features_.names() == memm.features_.names()
    w = memm.weights_
    model.weights_ = (TableWeights([w.node], w.start, w.pair[None], w.pair_features, np.zeros(0, np.float32)),)
    return model


@pytest.mark.parametrize("pairs", [None, [shape[0]]], ids=["plain", "pair features"])
@pytest.mark.parametrize("constrain", [True, False])
def test_with_the_weights_of_an_memm_it_gives_its_answers(pairs: Any, constrain: bool):
    memm = kf.MEMM(templates=BARE, transition_templates=pairs, decode="posterior", constrain=constrain, n_jobs=1)
    for model in (memm.fit(SHORT), randomised(memm, 1, 0.5)):
        twin = as_mixture(model, constrain=constrain)
        assert_close(twin.predict_proba(TEST), model.predict_proba(TEST), 1e-5)
        assert twin.predict(TEST) == model.predict(TEST)
        ours, theirs = twin.predict_entities(TEST), model.predict_entities(TEST)
        assert [replace(e, confidence=0) for e in ours] == [replace(e, confidence=0) for e in theirs]
        np.testing.assert_allclose([e.confidence for e in ours], [e.confidence for e in theirs], atol=1e-5)


@pytest.mark.parametrize("training", ["separate", "conditional"])
def test_trained_without_skip_edges_it_is_an_memm(training: str):
    settings_ = {"templates": BARE, "tolerance": 1e-9, "max_iterations": 2000, "n_jobs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding
        memm = kf.MEMM(decode="posterior", **settings_).fit(SHORT)
        model = kf.MixtureTagger(skip_edges=None, training=training, **settings_).fit(SHORT)
    assert_close(model.predict_proba(TEST), memm.predict_proba(TEST), 3e-3)
    np.testing.assert_allclose(model.weights_[0].tables[0], memm.weights_.node, atol=0.02)
    ours, theirs = (np.concatenate(m.predict(TEST)) for m in (model, memm))
    assert (ours == theirs).mean() > 0.995 and model.score(TEST) == pytest.approx(memm.score(TEST), abs=0.02)


def mirrored(corpus: kf.Corpus) -> kf.Corpus:
    """Each document from its end: last sentence first, last token first. Labels are taken as they are."""

    def turn(rows: Any) -> Any:
        return [rows[s][::-1] for a, b in pairwise(corpus.document_starts) for s in range(b - 1, a - 1, -1)]

    sizes = np.diff(corpus.document_starts).tolist()
    return kf.Corpus.from_sentences(turn(corpus.rows()), turn(corpus.label_rows()), sizes, scheme=None)


def bare_labels(corpus: kf.Corpus) -> kf.Corpus:
    """Types without B and I, as a scheme does not survive the mirror."""
    return corpus.with_labels(kf.Column.from_strings(y.split("-")[-1] for y in corpus.labels.strings()), None)


@pytest.mark.parametrize("settings_", [{}, {"skip_edges": None}, {"edge_features": ["same sentence"]}], ids=repr)
def test_backward_is_forward_in_the_mirror(settings_: Any):
    train, test = bare_labels(SHORT), bare_labels(TEST.documents(0, 4))
    settings_ = {"training": "separate", "templates": [word[0], shape[0]], "tolerance": 1e-8, **settings_}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        backward = mixture(**settings_, order="backward").fit(train)
        forward = mixture(**settings_).fit(mirrored(train))
    assert sorted(backward.features_.names()) == sorted(forward.features_.names())
    place = [list(forward.classes_).index(c) for c in backward.classes_]
    ours = np.concatenate(backward.predict_proba(test))
    theirs = np.concatenate([table[::-1, place] for table in forward.predict_proba(mirrored(test))])
    order = np.concatenate([np.full(len(row), i) for i, row in enumerate(mirrored(test).rows())])
    back: list[Any] = []
    for a, b in pairwise(test.document_starts):
        back += [np.flatnonzero(order == s) for s in range(b - 1, a - 1, -1)]
    np.testing.assert_allclose(ours, theirs[np.concatenate(back)], atol=5e-3)


def test_both_orders_are_the_mean_of_the_two():
    both, forward, backward = (mixture(order=o).fit(SHORT) for o in ("both", "forward", "backward"))
    tables = zip(both.predict_proba(TEST), forward.predict_proba(TEST), backward.predict_proba(TEST), strict=True)
    for mean, one, other in tables:
        np.testing.assert_allclose(mean, (one + other) / 2, atol=1e-9)
    assert [p.backward for p in both.parents_] == [False, True] and len(both.weights_) == 2


# -- marginals against enumeration


def as_oracle(model: Any, corpus: kf.Corpus) -> tuple[oracle.World, oracle.Parameters]:
    """One direction of a model with parents' features of their own or none, and a one-document corpus."""
    (parents,), (weights,) = model.parents_, model.weights_
    edges, first = parents.edges(corpus)
    rows = model.features_.rows(corpus, 1)
    n, n_labels = corpus.n_tokens, len(model.classes_)
    relations = []
    for r, pairs in enumerate(edges):
        on_edge = r > 0 and parents.edge_features is not None
        width = parents.edge_features.rows(corpus, *pairs.T).toarray() if on_edge else np.zeros((len(pairs), 0))
        relations.append(oracle.Relation(pairs, parents.layout.relations[r].parent_features != "none", width))
    start = np.zeros(n, bool)
    start[first] = True
    linked = np.isin(np.arange(n), np.concatenate([e[:, 0] for e in edges]))
    X, groups = rows.toarray().astype(np.float64), np.zeros(n, int)
    labels, ones = np.zeros(n, int), np.ones(n)
    world = oracle.World(X, n_labels, relations, start | ~linked, labels, ones, np.zeros((0, 0)), None, groups)
    world.gate_features = np.zeros((len(oracle.components(world)), 0))
    layout = parents.layout
    tables = [np.asarray(t, np.float64) for t in weights.tables]
    numbers = range(len(edges))
    parent = [layout.parent_table(r) for r in numbers]
    return world, oracle.Parameters(
        [tables[layout.child_table(r)] for r in numbers],
        [np.zeros((0, n_labels)) if t is None else tables[t] for t in parent],
        [np.asarray(p, np.float64) for p in weights.pair],
        [weights.rows[layout.pair_columns(r)].reshape(-1, n_labels, n_labels).astype(np.float64) for r in numbers],
        tables[layout.own_start_table],
        weights.start.astype(np.float64),
        np.zeros(0),
    )


TWO_TYPES = [["O" if y[2:] in ("ORG", "MISC", "LOC") else y for y in row] for row in SHORT.label_rows()]


@pytest.mark.parametrize("how", ["none", "own", "shared"])
@pytest.mark.parametrize("order", ["forward", "backward"])
@settings(max_examples=8)
@given(words=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), min_size=1, max_size=3), seed=SEEDS)
def test_marginals_are_sums_over_labellings(how: str, order: str, words: Any, seed: int):
    key = f"oracle {how} {order}"
    if key not in _FITTED:
        small = mixture(parent_features=how, order=order, edge_features=["same sentence", "nearest parent"])
        _FITTED[key] = small.fit(SHORT.rows(), TWO_TYPES)
    model = drawn(_FITTED[key], seed)
    corpus = corpus_of([words])
    expected = oracle.marginals(*as_oracle(model, corpus))
    np.testing.assert_allclose(np.concatenate(model.predict_proba(corpus)), expected, atol=1e-5)


# -- how probable spans are


@st.composite
def spans_with_roots(draw: Any) -> Any:
    """Roots, then a span with or without a follower; each root is the parent of one of them, or of nobody."""
    size, follower = draw(st.integers(1, 3)), draw(st.booleans())
    inner = size + follower
    outside = draw(st.lists(st.integers(0, inner - 1), max_size=3))
    n, n_labels = len(outside) + inner, draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(SEEDS))
    first = len(outside)
    edges = [(first + v, root) for root, v in enumerate(outside)]
    edges += [(first + b, first + a) for b in range(inner) for a in range(b) if a == b - 1 or rng.random() < 0.3]
    return n, n_labels, first, size, follower, np.array(sorted(edges), np.int64).reshape(-1, 2), rng


@settings(max_examples=40)
@given(spans_with_roots())
def test_spans_with_independent_parents_outside_are_exact(drawn_: Any):
    n, n_labels, first, size, follower, edges, rng = drawn_
    X, groups, start = rng.standard_normal((n, 2)), np.zeros(n, int), rng.random(n) < 0.3
    X = oracle.few_digits(X, 16)
    Z = rng.standard_normal((len(edges), 1))
    start |= ~np.isin(np.arange(n), edges[:, 0])
    relation = oracle.Relation(edges, True, Z)
    world = oracle.World(X, n_labels, [relation], start, np.zeros(n, int), np.ones(n), np.zeros((0, 0)), None, groups)
    world.gate_features = np.zeros((len(oracle.components(world)), 0))
    new = lambda *shape_: rng.standard_normal(shape_)  # noqa: E731
    *tables, a = [oracle.few_digits(new(*one, n_labels), 256).astype(np.float32) for one in [(2,), (2,), (2,), ()]]
    pair = new(1, n_labels, n_labels)
    rows = new(1, n_labels**2)
    params = oracle.Parameters(
        [tables[0]], [tables[1]], [pair[0]], [rows.reshape(1, n_labels, n_labels)], tables[2], a, np.zeros(0)
    )
    layout = Layout((RelationLayout("links", "own", 1),))
    dag = build_dag([edges], groups, start)
    wired = wire(layout, [dag], [[sparse.csr_array(Z)]])
    sample = Sample(layout, sparse.csr_array(X), wired, [world.gate_features])
    weights = TableWeights(tables, a, pair, rows, np.zeros(0))
    assert sample.scores(weights, 1).ends.dtype == np.float32
    scores, alpha = sample.scores(weights, 1), uniform_weights(dag)
    (found,) = beliefs(wired.wirings[:1], scores, [alpha])
    labels, continues = rng.integers(n_labels, size=size), rng.random((n_labels, n_labels)) < 0.5
    span = LabelledSpan(first, labels, follower)
    (probability,), _, _ = mixture_span_probabilities(wired.wirings[0], scores, alpha, found, [span], continues)
    allowed = np.ones((n, n_labels), bool)
    allowed[first : first + size] = np.eye(n_labels, dtype=bool)[labels]
    if follower:
        allowed[first + size] = ~continues[labels[-1]]
    assert probability == pytest.approx(oracle.probability_of(world, params, allowed), abs=1e-10)


@pytest.mark.parametrize("order", ["forward", "backward"])
@settings(max_examples=10)
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), seed=SEEDS)
def test_confidences_on_a_chain_are_exact_from_both_ends(order: str, words: Any, seed: int):
    key = f"chain {order}"
    if key not in _FITTED:
        _FITTED[key] = mixture(skip_edges=None, order=order).fit(SHORT.rows(), TWO_TYPES)
    model = drawn(_FITTED[key], seed, 1.0)
    corpus = corpus_of([[words]])
    world, params = as_oracle(model, corpus)
    classes = list(model.classes_)
    for entity in model.predict_entities(corpus):
        allowed = np.ones(world.X.shape[:1] + (len(classes),), bool)
        for t in range(entity.start, entity.end):
            allowed[t] = [c == ("B-PER" if t == entity.start else "I-PER") for c in classes]
        if entity.end < len(words):
            allowed[entity.end] = [c != "I-PER" for c in classes]
        assert entity.confidence == pytest.approx(oracle.probability_of(world, params, allowed), abs=1e-5)


def one_side(model: Any, d: int) -> Any:
    """The model of one direction of two, or of the only one."""
    twin = type(model)(**model.get_params())
    vars(twin).update(vars(model), parents_=model.parents_[d : d + 1], weights_=model.weights_[d : d + 1])
    return twin


@pytest.mark.parametrize("order", ["forward", "backward", "both"])
@settings(max_examples=10)
@given(names=st.lists(st.lists(st.sampled_from(WORDS[:3]), min_size=1, max_size=3), min_size=2, max_size=3), seed=SEEDS)
def test_confidences_under_skip_edges_are_sums_over_labellings(order: str, names: Any, seed: int):
    key = f"skip edges {order}"
    if key not in _FITTED:
        skips = kf.SameWord(capitalised=False, max_document_frequency=None)
        _FITTED[key] = mixture(order=order, skip_edges=skips).fit(SHORT.rows(), TWO_TYPES)
    model = drawn(_FITTED[key], seed, 1.0)
    corpus, classes = corpus_of([names]), list(model.classes_)
    sides = [as_oracle(one_side(model, d), corpus) for d in range(len(model.parents_))]
    for entity in model.predict_entities(corpus):
        first = int(corpus.sentence_starts[entity.sentence])
        allowed = np.ones((corpus.n_tokens, len(classes)), bool)
        for t in range(entity.start, entity.end):
            allowed[first + t] = [c == ("B-PER" if t == entity.start else "I-PER") for c in classes]
        if entity.end < len(names[entity.sentence]):
            allowed[first + entity.end] = [c != "I-PER" for c in classes]
        wanted = np.mean([oracle.probability_of(*side, allowed) for side in sides])
        assert entity.exact and entity.confidence == pytest.approx(wanted, abs=1e-5)


def test_an_entity_that_would_take_too_much_work_is_marked(monkeypatch: pytest.MonkeyPatch):
    model = trained()
    exact = model.predict_entities(TEST)
    little = partial(mixture_span_probabilities, work=0)
    monkeypatch.setattr("kinfolk.text.mixture.mixture_span_probabilities", little)
    rough = model.predict_entities(TEST)
    assert all(e.exact for e in exact) and not any(e.exact for e in rough)
    assert [replace(e, exact=True, confidence=0) for e in rough] == [replace(e, confidence=0) for e in exact]
    np.testing.assert_allclose([e.confidence for e in rough], [e.confidence for e in exact], atol=0.1)


@settings(max_examples=15)
@given(documents=DOCUMENTS, seed=SEEDS, scale=st.sampled_from([0.5, 3.0, 30.0]))
def test_confidences_are_probabilities(documents: Any, seed: int, scale: float):
    model = drawn(trained(order="both"), seed, scale)
    assert all(-1e-12 <= e.confidence <= 1 + 1e-9 for e in model.predict_entities(corpus_of(documents)))


def test_entities_are_those_of_the_labels():
    model = trained()
    found = model.predict_entities(TEST)
    labels, words = model.predict(TEST), TEST.rows()
    assert len(found) == sum(y.startswith("B-") for row in labels for y in row) > 20
    for e in found:
        assert labels[e.sentence][e.start] == f"B-{e.type}" and e.text == " ".join(words[e.sentence][e.start : e.end])


def test_an_entity_whose_labels_are_forced_is_certain():
    found = trained().predict_entities(TEST, forced=True)
    np.testing.assert_allclose([e.confidence for e in found], 1, atol=1e-6)


# -- decoding


@pytest.mark.parametrize("order", ["forward", "both"])
@settings(max_examples=15)
@given(documents=DOCUMENTS, seed=SEEDS, scale=st.sampled_from([0.5, 5.0]))
def test_no_weights_whatever_give_an_invalid_tagging(order: str, documents: Any, seed: int, scale: float):
    model, corpus = drawn(trained(order=order), seed, scale), corpus_of(documents)
    assert is_valid(model.predict(corpus), "BIO")


@pytest.mark.parametrize("scheme", ["IOB1", "IOBES", "BILOU"])
def test_labels_come_back_in_the_scheme_of_the_data(scheme: str):
    model = mixture().fit(in_scheme(SHORT, scheme))
    assert is_valid(model.predict(TEST), scheme) and model.score(in_scheme(TEST, scheme)) > 0.2


@settings(max_examples=15)
@given(documents=DOCUMENTS, seed=SEEDS, scale=st.sampled_from([0.5, 5.0, 100.0]))
def test_rows_of_probabilities_sum_to_one_and_their_best_is_predicted(documents: Any, seed: int, scale: float):
    model, corpus = drawn(trained(), seed, scale), corpus_of(documents)
    model.set_params(constrain=False)
    for table, labels in zip(model.predict_proba(corpus), model.predict(corpus), strict=True):
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
        chosen = [list(model.classes_).index(y) for y in labels]
        np.testing.assert_allclose(table[np.arange(len(chosen)), chosen], table.max(axis=1), atol=1e-12)  # ties


@settings(max_examples=15)
@given(documents=DOCUMENTS, seed=SEEDS, data=st.data())
def test_forced_labels_are_kept_and_seen_by_children(documents: Any, seed: int, data: Any):
    sizes = [len(s) for d in documents for s in d]
    labels = [data.draw(st.lists(st.sampled_from([None, "O", "B-PER"]), min_size=k, max_size=k)) for k in sizes]
    model = drawn(trained(), seed)
    corpus = corpus_of(documents, labels)
    found, tables = model.predict(corpus, forced=True), model.predict_proba(corpus, forced=True)
    classes = list(model.classes_)
    for row, table, given_ in zip(found, tables, labels, strict=True):
        for y, p, known in zip(row, table, given_, strict=True):
            if known is not None:
                assert y == known and p.tolist() == [float(c == known) for c in classes]
    assert is_valid(found, "BIO")
    plain = with_sizes(kf.Corpus.from_sentences(corpus.rows()), documents)
    assert model.predict(corpus) == model.predict(plain), "labels are looked at only when forced"


def test_a_forced_label_reaches_the_next_mention_but_not_the_one_before():
    """Kim ... Kim ... Kim, the middle one forced."""
    words, labels = [["Kim", "left"], ["Kim", "left"], ["Kim", "left"]], [[None, None], ["B-LOC", None], [None, None]]
    corpus = corpus_of([words], labels)
    forward, backward = drawn(trained(), 3), drawn(trained(order="backward"), 3)
    for model, before, after in ((forward, 0, 2), (backward, 2, 0)):
        free, forced = model.predict_proba(corpus), model.predict_proba(corpus, forced=True)
        np.testing.assert_array_equal(free[before], forced[before])
        assert np.abs(free[after][0] - forced[after][0]).max() > 1e-4


@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_forced_labels_that_break_the_scheme():
    corpus = corpus_of([[["Kim", "Lee"]]], [["O", "I-PER"]])
    with pytest.raises(InputError, match="labels given in sentence 0 break the tag scheme"):
        trained().predict(corpus, forced=True)
    assert trained(constrain=False).predict(corpus, forced=True) == [["O", "I-PER"]]


def test_labels_that_are_not_spans():
    labels = [["NN", "NN", "VB", "NN"], ["PR", "VB"]]
    model = mixture().fit(TINY, labels)
    assert model.predict(TINY) == labels
    with pytest.raises(InputError, match="no entities"):
        model.predict_entities(TINY)
    entities, accuracy = model.evaluate(TINY, labels)
    assert entities is None and accuracy == 100 and model.score(TINY, labels) == 1


def test_nothing_to_predict():
    model = mixture(order="both", edge_features="default", mixing="learned").fit(TINY, TINY_LABELS)
    for nothing in ([], kf.Corpus.from_sentences([])):
        assert model.predict(nothing) == [] and model.predict_proba(nothing) == []
        assert model.predict_entities(nothing) == []
    assert [len(row) for row in model.predict([[], ["Kim"], []])] == [0, 1, 0]
    assert model.predict_proba([[], ["Kim"]])[0].shape == (0, 5)


def test_feature_dicts_work_as_words_do():
    items = [[{"w": w, "up": w[0].isupper()} for w in sentence] for sentence in TINY]
    model = mixture(edge_features="default", mixing="learned", order="both").fit(items, TINY_LABELS)
    assert model.predict(items) == TINY_LABELS
    with pytest.raises(InputError, match="trained on feature dicts"):
        model.predict(TINY)


def test_one_class_only():
    model = mixture().fit(TINY, [["O"] * 4, ["O"] * 2])
    assert model.predict(TINY) == [["O"] * 4, ["O"] * 2]
    np.testing.assert_allclose(np.concatenate(model.predict_proba(TINY)), 1)


# -- skip edges


def test_skip_edges_carry_what_one_mention_tells_to_the_others():
    train, test = kf.newswire_split(30, 20)
    settings_ = {"templates": [word[0], lower.window(-2, 2), shape[0]], "n_jobs": 1}
    memm = kf.MEMM(decode="posterior", **settings_).fit(train).score(test)
    model = kf.MixtureTagger(**settings_).fit(train).score(test)
    assert model > memm + 0.02


@settings(max_examples=12)
@given(documents=DOCUMENTS, seed=SEEDS)
def test_a_document_does_not_know_of_the_others(documents: Any, seed: int):
    for name in ({"order": "both"}, {"mixing": "learned", "edge_features": "default"}):
        model = drawn(trained(**name), seed)
        corpus = corpus_of(documents)
        alone = [model.predict_proba(corpus.documents(d, d + 1)) for d in range(len(documents))]
        assert_close(model.predict_proba(corpus), [table for tables in alone for table in tables], 1e-12)


def test_a_document_does_not_know_of_the_others_with_real_weights():
    model = mixture(mixing="learned", gate_folds=2, templates="document", training="separate")
    model.fit(SHORT.documents(0, 3))
    alone = [t for d in range(TEST.n_documents) for t in model.predict_proba(TEST.documents(d, d + 1))]
    assert_close(model.predict_proba(TEST), alone, 1e-9)


def test_the_first_mention_reaches_other_sentences_of_its_document_only():
    model = drawn(trained(), 5)
    together, apart = ([["Kim", "of"], ["the", "Kim"]], [["Kim", "of"]]), ([["Kim", "of"]], [["the", "Kim"]])
    linked = model.predict_proba(corpus_of([together[0]]))[1]
    alone = model.predict_proba(corpus_of(list(apart)))[1]
    assert np.abs(linked[1] - alone[1]).max() > 1e-4
    np.testing.assert_allclose(linked[0], alone[0], atol=1e-12)


def two_back(document: kf.Corpus) -> list[tuple[int, int]]:
    return [(k, k - 2) for k in range(2, document.n_tokens)]


def nothing(document: kf.Corpus) -> list[tuple[int, int]]:
    return []


def test_a_user_s_function_draws_skip_edges():
    model = mixture(skip_edges=two_back).fit(SHORT)
    assert model.parents_[0].names == ("previous", "two_back")
    edges, _ = model.parents_[0].edges(corpus_of([[["a", "b"], ["c"]], [["d", "e", "f"]]]))
    assert edges[1].tolist() == [[2, 0], [5, 3]]
    assert model.score(TEST) > 0.2
    none = mixture(skip_edges=nothing).fit(SHORT)
    assert_close(none.predict_proba(TEST), mixture(skip_edges=None).fit(SHORT).predict_proba(TEST), 1e-3)


def test_several_builders_are_several_relations():
    skips = [kf.SameWord(most_recent=1), kf.SkipFunction(two_back, name="near")]
    model = mixture(skip_edges=skips, mixing={"previous": 3, "same word": 2, "near": 1}, order="both").fit(SHORT)
    assert model.parents_[0].names == ("previous", "same word", "near")
    assert model.parents_[1].names == ("next", "same word", "near")
    assert model.weights_[0].pair.shape[0] == 3 and len(model.weights_[0].tables) == 5
    assert model.score(TEST) > 0.3


def test_a_function_that_returns_nonsense_is_told_so():
    with pytest.raises(SettingError, match=r"'<lambda>', document 0 .*swap them"):
        mixture(skip_edges=lambda document: [(0, 1)]).fit(SHORT)


@pytest.mark.parametrize(
    ("rule", "edges"),
    [
        (kf.SameWord(), [[3, 0], [5, 0], [5, 3]]),
        (kf.SameWord(most_recent=1), [[3, 0], [5, 3]]),
        (kf.SameWord(capitalised=False), [[3, 0], [4, 1], [5, 0], [5, 3]]),
        (kf.SameWord(max_document_frequency=1), []),
    ],
)
def test_settings_of_same_word(rule: kf.SameWord, edges: list[list[int]]):
    corpus = corpus_of([[["Kim", "left", "."], ["Kim", "left", "Kim"]], [["Kim"]]], [["B-PER", "O", "O"]] * 2 + [["O"]])
    model = mixture(skip_edges=rule).fit(corpus)
    assert model.parents_[0].edges(corpus)[0][1].tolist() == edges


def test_a_user_s_edge_feature_is_used():
    seen: list[Any] = []

    def distance(corpus: kf.Corpus, child: Any, parent: Any) -> Any:
        seen.append(corpus.labels)
        return np.abs(child - parent) / 10

    model = mixture(edge_features=["same sentence", kf.edge_feature("distance", distance)]).fit(SHORT)
    assert model.weights_[0].rows.shape == (2, len(model.classes_) ** 2) and np.abs(model.weights_[0].rows).max() > 0.01
    assert seen and all(labels is None for labels in seen), "no labels to peep at"


def test_parent_features_have_tables_of_their_own_or_not():
    for how, number in {"none": 2, "own": 3, "shared": 2}.items():
        assert len(mixture(parent_features=how).fit(TINY, TINY_LABELS).weights_[0].tables) == number
