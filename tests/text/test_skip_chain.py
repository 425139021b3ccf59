"""The skip-chain CRF: a chain without skip edges, enumeration where there is no loop, training, honesty, decoding."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import kinfolk as kf
import pairwise_oracle as oracle
from kinfolk.collective import pairwise
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.core.training import Progress
from kinfolk.errors import ConvergenceWarning, InputError, ModelFileError, NotFittedError, SettingError
from kinfolk.learning.loglinear import TableWeights
from kinfolk.text import schemes
from kinfolk.text.attributes import lower, shape, word
from kinfolk.text.batch import Batch
from small_world import TEST, TINY, TINY_LABELS, TRAIN, in_scheme, is_valid, randomised, with_sizes

# weights that are drawn need not settle; tests of what is said look for it themselves
pytestmark = pytest.mark.filterwarnings("ignore:belief propagation did not settle")

SHORT, FEW = TRAIN.documents(0, 6), TEST.documents(0, 3)
BARE = [lower[0], shape[0]]
WORDS = ["Kim", "Rome", "left", "the", "of", "unseen"]
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=3)
DOCUMENTS = st.lists(SENTENCES, min_size=1, max_size=3)
SEEDS = st.integers(0, 2**32 - 1)
TRAININGS = ("bethe", "pseudo", "piecewise")
ALL = {"update": "all", "held_out": 0}
LINKS = {"update": "links", "held_out": 0}
TWO_TYPES = [["O" if y[2:] in ("ORG", "MISC", "LOC") else y for y in row] for row in SHORT.label_rows()]
_FITTED: dict[str, Any] = {}


def skip(**changed: Any) -> kf.SkipChainCRF:
    """All weights are learned, until the tolerance, unless the test says otherwise."""
    return kf.SkipChainCRF(**{"templates": BARE, "n_jobs": 1, **ALL, **changed})


def linear(**changed: Any) -> kf.LinearChainCRF:
    return kf.LinearChainCRF(**{"templates": BARE, "n_jobs": 1, **changed})


def fit(model: Any, *data: Any, **more: Any) -> Any:
    """Fitted, whatever the optimiser says of how it ended: small worlds with loops may stall."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*(data or (SHORT,)), **more)


def trained(**changed: Any) -> Any:
    """A model of SHORT, made once."""
    if repr(changed) not in _FITTED:
        _FITTED[repr(changed)] = fit(skip(**changed))
    return _FITTED[repr(changed)]


def with_weights(model: Any, weights: TableWeights, **changed: Any) -> Any:
    twin = type(model)(**{**model.get_params(), **changed})
    vars(twin).update({name: value for name, value in vars(model).items() if name.endswith("_")})
    twin.weights_ = weights
    return twin


def drawn(model: Any, seed: int, scale: float = 0.7, **changed: Any) -> Any:
    """A copy with random weights: nothing is certain, nothing ties."""
    rng, w = np.random.default_rng(seed), model.weights_
    new = lambda part: (scale * rng.standard_normal(part.shape)).astype(np.float32)  # noqa: E731
    return with_weights(model, TableWeights([new(t) for t in w.tables], *map(new, w[1:])), **changed)


def corpus_of(documents: list[list[list[str]]], labels: Any = None) -> kf.Corpus:
    sentences = [sentence for document in documents for sentence in document]
    corpus = kf.Corpus.from_sentences(sentences, labels, scheme="BIO" if labels else None)
    return with_sizes(corpus, documents)


def assert_close(one: Any, other: Any, atol: float) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


def assert_same_weights(one: Any, other: Any) -> None:
    a, b = one.weights_, other.weights_
    for x, y in zip([*a.tables, *a[1:]], [*b.tables, *b[1:]], strict=True):
        np.testing.assert_array_equal(x, y)


def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `train_pairwise` begins with, filled in by the next fit."""
    caught: dict[str, Any] = {}
    original = pairwise.optimise

    def catch(objective: Any, start: Any, plan: Any, watch: Any, began: float) -> Any:
        caught.update(objective=objective, start=objective.shape.split(start.copy()), plan=plan)
        caught["value"] = objective(start, np.zeros_like(start))
        return original(objective, start, plan, watch, began)

    monkeypatch.setattr(pairwise, "optimise", catch)
    return caught


# -- without skip edges it is a linear chain


def as_skip_chain(chain: Any, **changed: Any) -> Any:
    """A skip chain without skip edges with the weights of a linear chain of the same features."""
    none = {"skip_edges": None, "constrain": chain.constrain, "training": "piecewise", "max_iterations": 1}
    model = fit(skip(**none))
    assert model.features_.names() == chain.features_.names()
    w, nothing = chain.weights_, np.zeros((0, len(chain.classes_) ** 2), np.float32)
    return with_weights(model, TableWeights([w.node], w.start, w.pair[None], nothing, np.zeros(0)), **changed)


@pytest.mark.parametrize("schedule", ["sequential", "synchronous"])
@pytest.mark.parametrize("constrain", [True, False])
def test_with_the_weights_of_a_linear_chain_it_gives_its_answers(constrain: bool, schedule: str):
    chain = linear(constrain=constrain).fit(SHORT)
    for model in (chain, randomised(chain, 1, 0.5)):
        twin = as_skip_chain(model, schedule=schedule, message_tolerance=1e-12)
        assert_close(twin.predict_proba(TEST), model.predict_proba(TEST), 1e-5)
        best = with_weights(twin, twin.weights_, decode="map")
        assert best.predict(TEST) == model.predict(TEST)
        ours, theirs = best.predict_entities(TEST), model.predict_entities(TEST)
        assert [replace(e, confidence=0) for e in ours] == [replace(e, confidence=0) for e in theirs]
        np.testing.assert_allclose([e.confidence for e in ours], [e.confidence for e in theirs], atol=1e-5)
        assert twin.inference_report(TEST).converged.all()
        assert schedule == "synchronous" or (twin.inference_report(TEST).rounds == 1).all()


def test_forced_labels_on_a_chain():
    chain = linear().fit(SHORT)
    known = [[y if (i + k) % 3 == 0 else None for k, y in enumerate(row)] for i, row in enumerate(TEST.label_rows())]
    corpus = TEST.with_labels(kf.Column.from_strings(y for row in known for y in row), "BIO")
    twin = as_skip_chain(chain, decode="map")
    assert_close(twin.predict_proba(corpus, forced=True), chain.predict_proba(corpus, forced=True), 1e-5)
    assert twin.predict(corpus, forced=True) == chain.predict(corpus, forced=True)
    ours, theirs = twin.predict_entities(corpus, forced=True), chain.predict_entities(corpus, forced=True)
    np.testing.assert_allclose([e.confidence for e in ours], [e.confidence for e in theirs], atol=1e-5)


def test_the_objective_without_skip_edges_is_that_of_a_chain(monkeypatch: pytest.MonkeyPatch):
    chain, caught = linear().fit(SHORT), started(monkeypatch)
    model = fit(skip(skip_edges=None))
    assert caught["value"] == pytest.approx(chain.convergence_.objective, rel=1e-6)
    np.testing.assert_array_equal(caught["start"].tables[0], chain.weights_.node)
    assert model.convergence_.objective <= chain.convergence_.objective
    assert model.training_report_.converged.all() and len(model.training_report_.converged) == SHORT.n_documents


def test_trained_without_skip_edges_it_is_a_linear_chain():
    settings_ = {"tolerance": 1e-9, "max_iterations": 2000}
    chain, model = fit(linear(**settings_)), fit(skip(skip_edges=None, decode="map", **settings_))
    assert model.convergence_.objective == pytest.approx(chain.convergence_.objective, rel=1e-5)
    assert_close(model.predict_proba(TEST), chain.predict_proba(TEST), 3e-3)
    assert model.score(TEST) == pytest.approx(chain.score(TEST), abs=0.02)


WEIGHTED: dict[str, dict[str, Any]] = {"class_weight": {"class_weight": {"PER": 5.0}}, "sample_weight": {}}


def test_weights_of_documents_count_as_they_do_in_a_chain(monkeypatch: pytest.MonkeyPatch):
    """Sentences of a list are a document each."""
    rows, labels = SHORT.rows()[:20], SHORT.label_rows()[:20]
    more = {"sample_weight": 1 + np.arange(20) % 3}
    chain, caught = linear(class_weight="balanced").fit(rows, labels, **more), started(monkeypatch)
    fit(skip(skip_edges=None, class_weight="balanced"), rows, labels, **more)
    assert caught["value"] == pytest.approx(chain.convergence_.objective, rel=1e-6)


# -- where skip edges close no loop, all is as enumeration says

TREES = [
    [[["Kim", "left"], ["the", "Kim", "of"]]],
    [[["Kim", "of"], ["Kim"], ["Rome", "the"]], [["Rome"], ["Rome"]]],
    [[["the", "Kim", "Rome"], ["Rome", "left"]]],
]


def as_world(model: Any, corpus: kf.Corpus) -> oracle.PairwiseWorld:
    """Scores by hand from the weights, with what the tag scheme forbids at -inf."""
    rows = Batch.of(corpus).rows(model.features_, 1)
    w, n = model.weights_, len(model.classes_)
    node = rows.toarray().astype(np.float64) @ w.tables[0].astype(np.float64)
    node[corpus.sentence_starts[:-1]] += w.start
    scheme = model.coding_.inner if model.constrain else None
    follows, starts, stops = schemes.transitions(model.coding_.classes.names, scheme)
    node[corpus.sentence_starts[:-1]] += np.where(starts, 0.0, -np.inf)
    node[corpus.sentence_starts[1:] - 1] += np.where(stops, 0.0, -np.inf)
    later = np.delete(np.arange(corpus.n_tokens), corpus.sentence_starts[:-1])
    parts = [np.stack([later - 1, later], axis=1), *(skip.edges(corpus)[:, ::-1] for skip in model.skips_)]
    edges, relation = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    extra = np.zeros((len(edges), n, n))
    extra[relation == 0] += np.where(follows, 0.0, -np.inf)
    if model.edge_features_ is not None:
        later, earlier = edges[relation > 0][:, ::-1].T
        features = model.edge_features_.rows(corpus, later, earlier).toarray()
        extra[relation > 0] += (features @ w.rows.astype(np.float64)).reshape(-1, n, n)
    pair = w.pair.astype(np.float64)
    codes = np.zeros(len(node), np.int64)
    return oracle.PairwiseWorld(node, edges, relation, pair, extra, corpus.token_documents, codes)


@pytest.mark.parametrize("edge_features", [None, ["same sentence", "nearest parent"]], ids=["plain", "edge features"])
@pytest.mark.parametrize(("constrain", "beliefs"), [(True, "bethe"), (False, "bethe"), (True, "trw")])
@settings(max_examples=6)
@given(documents=st.sampled_from(TREES), seed=SEEDS)
def test_without_loops_all_is_exact(edge_features: Any, constrain: bool, beliefs: str, documents: Any, seed: int):
    key = f"trees {edge_features}"
    if key not in _FITTED:
        _FITTED[key] = fit(skip(edge_features=edge_features, max_iterations=1), SHORT, TWO_TYPES)
    how = {"constrain": constrain, "beliefs": beliefs, "message_tolerance": 1e-10}
    model, corpus = drawn(_FITTED[key], seed, **how), corpus_of(documents)
    world = as_world(model, corpus)
    assert oracle.is_tree(world) and (world.relation == 1).any()
    np.testing.assert_allclose(np.concatenate(model.predict_proba(corpus)), oracle.node_marginals(world), atol=1e-5)
    best = with_weights(model, model.weights_, decode="map")
    classes = list(model.classes_)
    path = np.array([[classes.index(y) for row in best.predict(corpus) for y in row]])
    assert oracle.scores(world, path)[0] == pytest.approx(oracle.best(world)[1], abs=1e-4)
    for entity in model.predict_entities(corpus):
        first = int(corpus.sentence_starts[entity.sentence])
        allowed = np.ones(world.node.shape, bool)
        for t in range(entity.start, entity.end):
            tag = "B-PER" if t == entity.start else "I-PER"
            found = model.predict(corpus)[entity.sentence][t]
            assert found == tag or not constrain
            allowed[first + t] = [c == found for c in classes]
        if first + entity.end < corpus.sentence_starts[entity.sentence + 1]:
            allowed[first + entity.end] = [c != "I-PER" for c in classes]
        only = replace(world, node=np.where(allowed, world.node, -np.inf))
        expected = np.exp(oracle.log_partition(only) - oracle.log_partition(world))
        assert entity.confidence == pytest.approx(expected, abs=1e-5)


# -- training


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("settings_", [{}, {"edge_features": "default"}, {"l1": 0.1}], ids=repr)
def test_training_starts_from_the_chain_and_lowers_the_objective(
    training: str, settings_: Any, monkeypatch: pytest.MonkeyPatch
):
    caught = started(monkeypatch)
    model = fit(skip(training=training, **settings_))
    chain = linear(l1=settings_.get("l1", 0.0)).fit(SHORT)
    start = caught["start"]
    for ours, theirs in ((start.tables[0], chain.weights_.node), (start.start, chain.weights_.start)):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(start.pair[0], chain.weights_.pair)
    assert not start.pair[1:].any() and not start.rows.any() and start.pair.shape[0] == 2
    lasso = settings_.get("l1", 0.0) * sum(np.abs(part).sum() for part in (start.tables[0], start.start, start.pair))
    assert model.convergence_.objective < caught["value"] + lasso
    assert np.abs(model.weights_.pair[1]).max() > 0.01 and len(model.predict(TEST)) == TEST.n_sentences
    assert (model.training_report_ is None) == (training != "bethe")


@pytest.mark.parametrize("documents", [4, 6, 20])
def test_training_does_not_stall(documents: int):
    assert fit(skip(), TRAIN.documents(0, documents)).convergence_.status == "converged"


def test_the_objective_that_is_told_is_that_of_the_weights(monkeypatch: pytest.MonkeyPatch):
    """Points that were tried in vain leave no trace: whoever searches along a line counts on that."""
    caught = started(monkeypatch)
    model = fit(skip())
    flat = caught["objective"].shape.join(model.weights_)
    assert caught["objective"](flat, np.zeros_like(flat)) == pytest.approx(model.convergence_.objective, rel=1e-4)


@pytest.mark.parametrize("training", ["bethe", "pseudo"])
def test_an_edge_feature_may_be_negative(training: str):
    """1 or -1 everywhere: the same model, with weights of the other sign."""
    found = []
    for sign in (1.0, -1.0):
        feature = kf.edge_feature("sign", lambda corpus, child, parent, s=sign: np.full(len(child), s))
        found.append(fit(skip(edge_features=[feature], training=training), TRAIN).convergence_.objective)
    assert found[0] == pytest.approx(found[1], rel=1e-3)


@pytest.mark.parametrize(
    "settings_", [{"training": t} for t in TRAININGS] + [{"edge_features": "default", "beliefs": "trw"}], ids=repr
)
def test_weights_do_not_depend_on_the_number_of_threads(settings_: Any):
    one, two = (fit(skip(**settings_, n_jobs=n, max_iterations=15)) for n in (1, 2))
    assert_same_weights(one, two)
    assert_close(one.predict_proba(TEST), two.predict_proba(TEST), 0)


def test_a_warm_start_goes_on_from_what_was_learned(monkeypatch: pytest.MonkeyPatch):
    settings_ = {"tolerance": 1e-5, "edge_features": ["same sentence"], "training": "pseudo"}
    cold, warm = fit(skip(**settings_)), fit(skip(**settings_, warm_start=True))
    assert_same_weights(cold, warm)
    before, caught, stages = warm.weights_, started(monkeypatch), []
    fit(warm, SHORT, callback=lambda progress: stages.append(progress.stage))
    for ours, theirs in zip(
        [*caught["start"].tables, *caught["start"][1:]], [*before.tables, *before[1:]], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert set(stages) == {"pseudo"} and warm.convergence_.iterations < cold.convergence_.iterations
    assert warm.convergence_.objective <= cold.convergence_.objective * (1 + 1e-6)


def test_a_warm_start_finds_features_and_labels_by_their_names():
    model = fit(skip(templates=[word[0]], warm_start=True), TINY, TINY_LABELS)
    old, names, classes = model.weights_, model.features_.names(), list(model.classes_)
    model.set_params(max_iterations=1)
    fit(model, [["left", "Bonn", "Kim"]], [["O", "B-ORG", "B-PER"]], callback=lambda progress: True)
    moved = model.weights_.tables[0][model.features_.names().index("word[0]=Kim")]
    before = old.tables[0][names.index("word[0]=Kim")]
    kept = [(moved[list(model.classes_).index(c)], before[classes.index(c)]) for c in ("O", "B-PER")]
    assert max(abs(a - b) for a, b in kept) < 1.5


def test_a_warm_start_from_other_relations_starts_from_the_chain(monkeypatch: pytest.MonkeyPatch):
    model = fit(skip(skip_edges=None, warm_start=True))
    model.set_params(skip_edges=kf.SameWord())
    caught = started(monkeypatch)
    fit(model)
    np.testing.assert_array_equal(caught["start"].tables[0], linear().fit(SHORT).weights_.node)


@pytest.mark.parametrize("training", TRAININGS)
def test_held_out_data_keep_the_best_weights(training: str):
    model = fit(skip(dev_every=1, patience=2, tolerance=0, training=training), SHORT, X_dev=TEST)
    outcome = model.convergence_
    best = max(outcome.dev_scores.values())
    assert outcome.dev_scores[outcome.best_iteration] == best == pytest.approx(model.score(TEST))
    if outcome.status == "stopped":
        assert outcome.iterations == outcome.best_iteration + 2


def test_a_callback_is_told_of_every_stage():
    seen: list[Progress] = []
    fit(skip(), callback=seen.append)
    assert [*dict.fromkeys(p.stage for p in seen)] == ["warm start", "linear chain", "bethe"]
    assert all(p.seconds >= 0 and np.isfinite(p.objective) for p in seen)


@pytest.mark.parametrize("stage", ["warm start", "linear chain", "pseudo"])
def test_a_callback_may_stop(stage: str):
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return progress.stage == stage and progress.iteration == 2

    model = fit(skip(training="pseudo"), callback=watch)
    assert model.convergence_.status == "stopped" and len(model.predict(TEST)) == TEST.n_sentences
    assert (seen[-1].stage, seen[-1].iteration) == (stage, 2), "one word is enough"


def test_a_callback_that_always_stops_leaves_a_model_that_works():
    model = fit(skip(), callback=lambda progress: True)
    assert model.convergence_.status == "stopped" and len(model.predict(TEST)) == TEST.n_sentences


def test_the_limit_is_one_warning_at_the_line_that_called_fit():
    with pytest.warns(ConvergenceWarning, match=r"hit the iteration limit.*Raise `max_iterations`") as told:
        model = skip(max_iterations=2, tolerance=0, training="pseudo").fit(SHORT)
    assert [w.filename for w in told] == [__file__] and model.convergence_.status == "limit"


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    def interrupt(progress: Progress) -> None:
        if progress.stage == "bethe":
            raise KeyError("stop")

    fresh = skip()
    with pytest.raises(KeyError):
        fit(fresh, callback=interrupt)
    assert not hasattr(fresh, "weights_") and not hasattr(fresh, "skips_")
    model = fit(skip(), TINY, TINY_LABELS)
    with pytest.raises(KeyError):
        fit(model, callback=interrupt)
    assert model.predict(TINY) == TINY_LABELS


def test_unknown_labels_are_left_open():
    for training in TRAININGS:
        model = fit(skip(training=training), [["a", "Kim", "b"]], [[None, "B-PER", None]])
        assert model.predict([["Kim"]]) == [["B-PER"]]


def test_a_heavier_class_is_found_more_often():
    settings_ = {"training": "pseudo"}
    plain = fit(skip(**settings_)).evaluate(TEST)[0].types["ORG"]
    heavy = fit(skip(class_weight={"ORG": 20.0}, **settings_)).evaluate(TEST)[0].types["ORG"]
    assert heavy.predicted > plain.predicted


# -- links on top of the chain, learned for as long as documents that were kept back are better with them


def chain_part(model: Any) -> list[Any]:
    w = model.weights_
    return [w.tables[0], w.start, w.pair[0]]


@pytest.mark.parametrize("beliefs", ["bethe", "trw"])
@pytest.mark.parametrize("edge_features", [None, "default"])
def test_learning_links_leaves_the_chain_as_it_is(beliefs: str, edge_features: Any, monkeypatch: pytest.MonkeyPatch):
    caught = started(monkeypatch)
    model = fit(skip(beliefs=beliefs, edge_features=edge_features, **LINKS))
    chain = linear().fit(SHORT).weights_
    for ours, theirs in zip(chain_part(model), (chain.node, chain.start, chain.pair), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert model.convergence_.objective < caught["value"] and np.abs(model.weights_.pair[1]).max() > 0.01


@pytest.mark.parametrize("training", ["bethe", "pseudo"])
def test_the_gradient_by_links_is_that_of_finite_differences(training: str, monkeypatch: pytest.MonkeyPatch):
    caught = started(monkeypatch)
    fit(skip(training=training, edge_features=["same sentence"], max_iterations=1, **LINKS), SHORT, TWO_TYPES)
    objective, rng = caught["objective"], np.random.default_rng(0)
    at = rng.normal(scale=0.2, size=objective.shape.size)
    at[: objective.shape.labels] = 0  # weights of the start of a sentence are the chain's
    slope, unused = np.zeros_like(at), np.zeros_like(at)
    objective(at, slope)
    assert not slope[: objective.shape.labels].any()
    for place in rng.choice(np.arange(objective.shape.labels, len(at)), 8, replace=False):
        step = 1e-4 * (np.arange(len(at)) == place)
        change = objective(at + step, unused) - objective(at - step, unused)
        assert slope[place] == pytest.approx(change / 2e-4, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("settings_", [{}, {"beliefs": "trw", "edge_features": "default"}, {"update": "all"}], ids=repr)
def test_where_no_iteration_is_better_the_answer_is_the_chain_s(settings_: Any, monkeypatch: pytest.MonkeyPatch):
    likes_none = lambda self, batch, rows=None: lambda weights: -float(np.abs(weights.pair[1]).sum())  # noqa: E731
    monkeypatch.setattr(kf.SkipChainCRF, "_scorer", likes_none)
    model, chain = fit(skip(**{"update": "links", "held_out": 0.2, **settings_})), linear().fit(SHORT)
    assert not model.weights_.pair[1].any() and not model.weights_.rows.any()
    assert model.convergence_.iterations == 0 and model.convergence_.status == "stopped"
    assert_close(model.predict_proba(TEST), chain.predict_proba(TEST), 1e-5)


@pytest.mark.parametrize("scores", ["cross-fitted", "own"])
def test_links_are_learned_for_as_long_as_kept_back_documents_gain(scores: str):
    model = fit(skip(**{**LINKS, "held_out": 0.25, "scores": scores}), TRAIN)
    curves = [dict(stage.held_out) for stage in model.convergence_.stages if stage.name == "kept back: bethe"]
    assert len(curves) == 4 and all(0 in curve for curve in curves)
    assert model.convergence_.iterations == pairwise.best_steps(curves) > 0
    assert model.score(TEST) >= linear().fit(TRAIN).score(TEST)


def test_the_iteration_with_the_best_mean_is_chosen():
    assert pairwise.best_steps([{0: 0.5, 1: 0.7, 2: 0.6}, {0: 0.5, 1: 0.5, 2: 0.7, 3: 0.7}]) == 2
    assert pairwise.best_steps([{0: 0.5, 1: 0.5}]) == 0, "the first of equal ones"
    assert pairwise.best_steps([{0: 0.5, 1: 0.6}, {0: 0.5}]) == 1, "what has ended stays"


@given(n=st.integers(0, 30), share=st.floats(0, 0.99), size=st.sampled_from([100, 100_000]))
def test_parts_that_are_kept_back(n: int, share: float, size: int):
    """Each unit once, in parts of about the share, none of them everything; one is scored where there is much."""
    parts, scored = pairwise.KeptBack.of(np.arange(n), share, size, 0)
    if parts:
        assert sorted(np.concatenate(parts).tolist()) == list(range(n)) and max(map(len, parts)) < n
        assert len(scored) == (1 if size > 50_000 else len(parts))
        assert len(parts) == n if share * n <= 1 else round(1 / share)
    else:
        assert n < 2 or share == 0 or round(1 / share) < 2


def learned_on(monkeypatch: pytest.MonkeyPatch, labels: Any) -> Any:
    """The scores that links are learned on at last."""
    caught, original = [], pairwise.train_pairwise
    monkeypatch.setattr(
        pairwise, "train_pairwise", lambda *given: (caught.append(given[4].scores), original(*given))[1]
    )
    fit(skip(**{**LINKS, "held_out": 0.34, "max_iterations": 2}), SHORT, labels)
    return caught[-1]


def test_scores_of_a_document_do_not_depend_on_its_labels(monkeypatch: pytest.MonkeyPatch):
    rows = SHORT.label_rows()
    inside = [s < SHORT.document_starts[1] for s in range(SHORT.n_sentences)]
    without = [["O"] * len(row) if own else row for row, own in zip(rows, inside, strict=True)]
    one, other = learned_on(monkeypatch, rows), learned_on(monkeypatch, without)
    first = SHORT.token_documents == 0
    np.testing.assert_array_equal(one[first], other[first])
    assert not np.array_equal(one[~first], other[~first])


def test_as_it_comes_threads_change_nothing_and_held_out_data_may_be_given():
    one, two = (fit(skip(**{**LINKS, "held_out": 0.2, "n_jobs": n})) for n in (1, 2))
    assert_same_weights(one, two)
    model = fit(skip(**{**LINKS, "held_out": 0.2, "dev_every": 1}), SHORT, X_dev=FEW)
    outcome = model.convergence_
    assert 0 in outcome.dev_scores and model.score(FEW) == pytest.approx(max(outcome.dev_scores.values()))
    assert not any(stage.name == "kept back: bethe" for stage in outcome.stages)


def test_a_warm_start_of_the_chain_learns_links_anew():
    model = fit(skip(**LINKS, warm_start=True, tolerance=1e-4))
    before = {stage.name: len(stage.objective) for stage in model.convergence_.stages}
    fit(model)
    after = {stage.name: len(stage.objective) for stage in model.convergence_.stages}
    assert after["linear chain"] <= before["linear chain"] and after["bethe"] > 0


# -- whether belief propagation settled is told


LOOPS = corpus_of([[["Kim", "of", "Rome"], ["Kim", "of", "Rome"]], [["left"]], [["Kim", "Rome"], ["Rome", "Kim"]]])


def test_a_report_tells_of_every_document():
    model = drawn(trained(), 0, 2.0)
    report = model.inference_report(LOOPS)
    assert report.converged.shape == report.rounds.shape == report.change.shape == (3,)
    assert report.converged.all() and not len(report.not_converged) and report.rounds[1] == 1
    assert str(report).startswith("belief propagation settled in 3 of 3 groups; ")
    each = [model.inference_report(LOOPS.documents(d, d + 1)) for d in range(3)]
    assert report.rounds.tolist() == [int(r.rounds[0]) for r in each]
    assert str(model.inference_report([])) == "belief propagation settled in 0 of 0 groups; nothing to do"


def test_what_did_not_settle_is_told_by_name_once_a_call(tmp_path: Path):
    """However often messages are sent for the answer: labels, entities and what a page shows."""
    model = drawn(trained(), 0, 2.0, max_rounds=1)
    for call in (model.predict, model.predict_proba, model.predict_entities):
        with pytest.warns(ConvergenceWarning) as caught:
            call(LOOPS)
        (told,) = (str(one.message) for one in caught)
        assert told.startswith("belief propagation did not settle in 2 of 3 groups (0, 2; largest change")
        assert "Raise `damping`" in told and caught[0].filename == __file__
    page = tmp_path / "page.html"
    for call in (lambda: model.explain(LOOPS, 0, 1, report=page), lambda: model.evaluate(SHORT, report=page)):
        with pytest.warns(ConvergenceWarning, match="did not settle") as caught:
            call()
        assert len(caught) == 1
    report = model.inference_report(LOOPS)
    assert report.not_converged.tolist() == [0, 2] and (report.change[[0, 2]] > 1e-4).all()
    assert str(report) == "belief propagation settled in 1 of 3 groups; 1.0 rounds on average, 1 at most"


def test_what_settled_is_not_told(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "kinfolk"), warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(trained(), 0, 2.0).predict(LOOPS)
    assert not caplog.records


def test_training_that_did_not_settle_is_told_once():
    with pytest.warns(ConvergenceWarning) as caught:
        model = skip(max_rounds=1, max_iterations=2).fit(SHORT)
    told = [str(one.message) for one in caught if "did not settle in" in str(one.message)]
    bad = model.training_report_.not_converged
    assert len(bad) and len(model.training_report_.converged) == SHORT.n_documents
    assert len(told) == 1 and f"did not settle in {len(bad)} of 6 groups ({bad[0]}" in told[0]


def test_a_report_counts_sentences_as_they_are_given():
    report = drawn(trained(), 0).inference_report([[], ["Kim", "left"], ["Rome"]])
    assert len(report.converged) == 3


def frustrated(document: kf.Corpus) -> list[tuple[int, int]]:
    return [(b, a) for b in range(document.n_tokens) for a in range(b)]


def test_damping_helps_where_messages_oscillate():
    """Everybody wants to differ from everybody else."""
    model = fit(skip(skip_edges=frustrated, max_iterations=1), [["Kim", "the", "Rome", "of"]], [["O", "A", "O", "A"]])
    w = model.weights_
    pair = np.tile(np.array([[-3.0, 3.0], [3.0, -3.0]], np.float32), (2, 1, 1))
    pair[0] = 0
    weights = w._replace(tables=[0.1 * w.tables[0]], pair=pair)
    wild = with_weights(model, weights, schedule="synchronous", max_rounds=300)
    assert wild.inference_report([["Kim", "the", "Rome", "of"]]).not_converged.tolist() == [0]
    calm = with_weights(model, weights, schedule="synchronous", max_rounds=3000, damping=0.7)
    assert calm.inference_report([["Kim", "the", "Rome", "of"]]).converged.all()


# -- decoding


@pytest.mark.parametrize("decode", ["posterior", "map"])
@settings(max_examples=15)
@given(documents=DOCUMENTS, seed=SEEDS, scale=st.sampled_from([0.5, 5.0, 100.0]))
def test_no_weights_whatever_give_an_invalid_tagging(decode: str, documents: Any, seed: int, scale: float):
    model, corpus = drawn(trained(), seed, scale, decode=decode, max_rounds=20), corpus_of(documents)
    assert is_valid(model.predict(corpus), "BIO")
    assert all(-1e-12 <= e.confidence <= 1 + 1e-9 for e in model.predict_entities(corpus))


@pytest.mark.parametrize("scheme", ["IOB1", "IOBES", "BILOU"])
def test_labels_come_back_in_the_scheme_of_the_data(scheme: str):
    model = fit(skip(training="pseudo"), in_scheme(SHORT, scheme))
    assert is_valid(model.predict(TEST), scheme) and model.score(in_scheme(TEST, scheme)) > 0.2


@settings(max_examples=12)
@given(documents=DOCUMENTS, seed=SEEDS, scale=st.sampled_from([0.5, 5.0, 100.0]))
def test_rows_of_probabilities_sum_to_one_and_their_best_is_predicted(documents: Any, seed: int, scale: float):
    model, corpus = drawn(trained(), seed, scale, constrain=False), corpus_of(documents)
    for table, labels in zip(model.predict_proba(corpus), model.predict(corpus), strict=True):
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
        chosen = [list(model.classes_).index(y) for y in labels]
        np.testing.assert_allclose(table[np.arange(len(chosen)), chosen], table.max(axis=1), atol=1e-12)  # ties


def test_very_large_scores_can_be_decoded():
    for seed in range(6):
        assert is_valid(drawn(trained(), seed, 1000.0, decode="map").predict(FEW), "BIO")


def test_very_large_weights_of_pairs_are_no_different_from_a_chain():
    chain = randomised(linear().fit(SHORT), 1, 1.0)
    chain.weights_ = chain.weights_._replace(pair=1000 * chain.weights_.pair, node=300 * chain.weights_.node)
    assert_close(as_skip_chain(chain).predict_proba(FEW), chain.predict_proba(FEW), 1e-3)


@pytest.mark.parametrize("decode", ["posterior", "map"])
@settings(max_examples=12)
@given(documents=DOCUMENTS, seed=SEEDS, data=st.data())
def test_forced_labels_are_kept(decode: str, documents: Any, seed: int, data: Any):
    sizes = [len(s) for d in documents for s in d]
    labels = [data.draw(st.lists(st.sampled_from([None, "O", "B-PER"]), min_size=k, max_size=k)) for k in sizes]
    model, corpus = drawn(trained(), seed, decode=decode), corpus_of(documents, labels)
    found, tables = model.predict(corpus, forced=True), model.predict_proba(corpus, forced=True)
    classes = list(model.classes_)
    for row, table, given_ in zip(found, tables, labels, strict=True):
        for y, p, known in zip(row, table, given_, strict=True):
            if known is not None:
                assert y == known
                np.testing.assert_allclose(p, [float(c == known) for c in classes], atol=1e-12)
    assert is_valid(found, "BIO")
    plain = with_sizes(kf.Corpus.from_sentences(corpus.rows()), documents)
    assert model.predict(corpus) == model.predict(plain), "labels are looked at only when forced"


def test_a_forced_label_reaches_mentions_before_and_behind():
    """Kim ... Kim ... Kim, the middle one forced."""
    words, labels = [["Kim", "left"], ["Kim", "left"], ["Kim", "left"]], [[None, None], ["B-LOC", None], [None, None]]
    model = drawn(trained(skip_edges=kf.SameWord(most_recent=1)), 3)
    corpus = corpus_of([words], labels)
    free, forced = model.predict_proba(corpus), model.predict_proba(corpus, forced=True)
    for sentence in (0, 2):
        assert np.abs(free[sentence][0] - forced[sentence][0]).max() > 1e-3


@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_forced_labels_that_break_the_scheme():
    corpus = corpus_of([[["Kim", "Lee"]]], [["O", "I-PER"]])
    for decode in ("posterior", "map"):
        for call in (trained(decode=decode).predict, trained(decode=decode).predict_entities):
            with pytest.raises(InputError, match="labels given in sentence 0 break the tag scheme"):
                call(corpus, forced=True)
    assert with_weights(trained(), trained().weights_, constrain=False).predict(corpus, forced=True) == [["O", "I-PER"]]


@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_probabilities_given_labels_that_break_the_scheme():
    with pytest.raises(InputError, match="labels given in sentence 0 break the tag scheme"):
        trained().predict_proba(corpus_of([[["Kim", "Lee"]]], [["O", "I-PER"]]), forced=True)


@settings(max_examples=12)
@given(documents=DOCUMENTS, seed=SEEDS)
def test_a_document_does_not_know_of_the_others(documents: Any, seed: int):
    for model in (drawn(trained(), seed), drawn(trained(edge_features="default"), seed)):
        corpus = corpus_of(documents)
        alone = [model.predict_proba(corpus.documents(d, d + 1)) for d in range(len(documents))]
        assert_close(model.predict_proba(corpus), [table for tables in alone for table in tables], 1e-12)


def test_entities_are_those_of_the_labels():
    model = trained()
    found, labels, words = model.predict_entities(TEST), model.predict(TEST), TEST.rows()
    assert len(found) == sum(y.startswith("B-") for row in labels for y in row) > 20
    for e in found:
        assert labels[e.sentence][e.start] == f"B-{e.type}" and e.text == " ".join(words[e.sentence][e.start : e.end])
    sure = model.predict_entities(TEST, forced=True)
    np.testing.assert_allclose([e.confidence for e in sure], 1, atol=1e-6)


# -- skip edges


def test_skip_edges_carry_what_one_mention_tells_to_the_others():
    """Fixed seed; 0.60 for the chain, 0.71 to 0.78 for the skip chain, by the fixed point that is found."""
    chain, model = linear().fit(TRAIN).score(TEST), fit(skip(), TRAIN).score(TEST)
    assert model > chain + 0.02


def two_back(document: kf.Corpus) -> list[tuple[int, int]]:
    return [(k, k - 2) for k in range(2, document.n_tokens)]


def test_several_builders_are_several_relations():
    skips = [kf.SameWord(most_recent=1), kf.SkipFunction(two_back, name="near")]
    model = fit(skip(skip_edges=skips, training="pseudo"))
    assert [s.name for s in model.skips_] == ["same word", "near"] and model.weights_.pair.shape[0] == 3
    assert model.score(TEST) > 0.3


def test_skip_edges_between_neighbours():
    """Kim Kim: a skip edge beside an edge of the chain."""
    model, corpus = drawn(trained(), 2), corpus_of([[["Kim", "Kim", "left"]]])
    table = np.concatenate(model.predict_proba(corpus))
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    assert is_valid(model.predict(corpus), "BIO") and len(model.inference_report(corpus).converged) == 1


# -- data and settings that cannot be


ONE = corpus_of([[["Kim", "Lee", "left", "Rome"], ["Lee", "left"]]])


@pytest.mark.parametrize("training", TRAININGS)
def test_features_of_edges_that_are_not_there(training: str):
    model = fit(skip(edge_features="default", training=training), TINY, TINY_LABELS)
    assert model.predict(TINY) == TINY_LABELS and not model.weights_.rows.any()


def test_nothing_to_predict():
    model = fit(skip(edge_features="default"), ONE, TINY_LABELS)
    for nothing in ([], kf.Corpus.from_sentences([])):
        assert model.predict(nothing) == [] and model.predict_proba(nothing) == []
        assert model.predict_entities(nothing) == []
    assert [len(row) for row in model.predict([[], ["Kim"], []])] == [0, 1, 0]
    assert model.predict_proba([[], ["Kim"]])[0].shape == (0, 5)


def test_feature_dicts_work_as_words_do():
    items = [[{"w": w, "up": w[0].isupper()} for w in sentence] for sentence in TINY]
    model = fit(skip(), items, TINY_LABELS)
    assert model.predict(items) == TINY_LABELS
    with pytest.raises(InputError, match="trained on feature dicts"):
        model.predict(TINY)


def test_one_class_and_labels_that_are_not_spans():
    model = fit(skip(), TINY, [["O"] * 4, ["O"] * 2])
    assert model.predict(TINY) == [["O"] * 4, ["O"] * 2]
    np.testing.assert_allclose(np.concatenate(model.predict_proba(TINY)), 1)
    labels = [["NN", "NN", "VB", "NN"], ["PR", "VB"]]
    model = fit(skip(), TINY, labels)
    assert model.predict(TINY) == labels and model.score(TINY, labels) == 1
    with pytest.raises(InputError, match="no entities"):
        model.predict_entities(TINY)


def test_data_that_cannot_be_trained_on_or_scored():
    with pytest.raises(InputError, match="training needs labels"):
        skip().fit(TINY)
    with pytest.raises(InputError, match="expected a Corpus or a list of sentences"):
        skip().fit(kf.Graph(np.eye(2), ["a", "b"]))
    with pytest.raises(InputError, match="scoring needs labels"):
        skip().fit(SHORT, X_dev=TINY)
    with pytest.raises(InputError, match="sample_weight must have one number a sentence"):
        skip().fit(TINY, TINY_LABELS, sample_weight=[1])


BAD = {
    "training": ("joint", "'bethe', 'pseudo' or 'piecewise'; got 'joint'"),
    "decode": ("viterbi", "'posterior' or 'map'; got 'viterbi'"),
    "schedule": ("random", "'sequential' or 'synchronous'; got 'random'"),
    "damping": (1.0, "a number from 0 to below 1; got 1.0"),
    "max_rounds": (0, "a whole number from 1 to 100000; got 0"),
    "message_tolerance": (-1e-3, "got -0.001"),
    "l2": (-1.0, "got -1.0"),
    "l1": (float("nan"), "got nan"),
    "constrain": (1, "True or False; got 1"),
    "max_iterations": (0, "a whole number of 1 or more"),
    "patience": (2.5, "a whole number of 1 or more"),
    "min_count": (0, "a whole number of 1 or more, or 'auto'"),
    "random_state": (-1, "a whole number of 0 or more, or None"),
}


@pytest.mark.parametrize("name", BAD)
def test_settings_that_cannot_be(name: str):
    value, message = BAD[name]
    model = skip(**{name: value})
    with pytest.raises(SettingError) as caught:
        model.fit(TINY, TINY_LABELS)
    assert str(caught.value).startswith(f"SkipChainCRF({name}=...) must be ") and message in str(caught.value)
    assert not hasattr(model, "weights_")


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"skip_edges": "same word"}, r"skip_edges must be None, a builder such as SameWord\(\)"),
        ({"skip_edges": [kf.SameWord(), kf.SameWord(most_recent=1)]}, "two skip edges are named 'same word'"),
        ({"skip_edges": lambda document: [(0, 1)]}, r"'<lambda>', document 0 .*swap them"),
        ({"edge_features": ["same colour"]}, "an edge feature is edge_feature.*got 'same colour'"),
        ({"transition_templates": [shape[0]]}, "SkipChainCRF takes no transition_templates"),
        ({"class_weight": {"XYZ": 1.0}}, "class_weight names 'XYZ'"),
        ({"n_jobs": 0}, r"n_jobs=...\) must be a positive number"),
        ({"encoding": "BMEWO"}, "encoding=...\\) must be 'auto', 'IOB1'"),
    ],
)
def test_more_settings_that_cannot_be(settings_: Any, message: str):
    model = skip(**settings_)
    with pytest.raises(SettingError, match=message):
        model.fit(TINY, TINY_LABELS)
    assert not hasattr(model, "weights_") and not hasattr(model, "skips_")


def test_settings_come_back_as_given():
    skips = [kf.SameWord(most_recent=1)]
    model = skip(skip_edges=skips, damping=0.5)
    assert model.get_params()["skip_edges"] is skips and clone(model).get_params()["damping"] == 0.5
    assert repr(kf.SkipChainCRF()) == "SkipChainCRF()" and repr(kf.SkipChainCRF(l2=1.0)) == "SkipChainCRF(l2=1.0)"
    with pytest.raises(SettingError, match=r"SkipChainCRF has no setting 'depth'; it has: .*message_tolerance"):
        model.set_params(depth=3)


def test_nothing_is_predicted_before_training():
    model = skip()
    calls = (model.predict, model.predict_proba, model.predict_entities, model.score, model.inference_report)
    for call in (*calls, model.evaluate, lambda X: model.save("nowhere"), lambda X: model.classes_):
        with pytest.raises(NotFittedError, match="SkipChainCRF is not trained yet"):
            call(TINY)


# -- files

FILE = "m.kinfolk"
SAVED: dict[str, dict[str, Any]] = {
    "plain": {},
    "settings": {"decode": "map", "training": "pseudo", "damping": np.float64(0.3), "schedule": "synchronous"},
    "chain": {"skip_edges": None, "edge_features": "default", "encoding": "IOBES"},
    "functions": {"skip_edges": [kf.SameWord(False, None, 2), kf.SkipFunction(two_back, "near")],
                  "edge_features": ["same sentence"], "templates": "document"},
}  # fmt: skip


@pytest.mark.parametrize("settings_", SAVED.values(), ids=SAVED.keys())
def test_a_model_comes_back_as_it_was(settings_: Any, tmp_path: Path):
    model = fit(skip(max_iterations=5, **settings_))
    model.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, functions={"near": two_back}, kind="tokens")
    assert type(loaded) is kf.SkipChainCRF and str(loaded.convergence_) == str(model.convergence_)
    assert loaded.predict(FEW) == model.predict(FEW) and loaded.predict_entities(FEW) == model.predict_entities(FEW)
    assert_close(loaded.predict_proba(FEW), model.predict_proba(FEW), 0)
    assert loaded.inference_report(FEW).rounds.tolist() == model.inference_report(FEW).rounds.tolist()
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / FILE).read_bytes()
    objects = {"templates", "skip_edges", "edge_features"}
    assert all(loaded.get_params()[k] == v for k, v in model.get_params().items() if k not in objects)
    fit(loaded.set_params(warm_start=True))
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(tmp_path / FILE, functions={"near": two_back}, kind="nodes")
    if settings_ is SAVED["functions"]:
        with pytest.raises(ModelFileError, match=r"'near'.*pass it in again"):
            kf.load_model(tmp_path / FILE)


def _shorter(name: str) -> Any:
    return lambda header, arrays, strings: arrays.update({name: arrays[name][1:]})


CHANGES: dict[str, Any] = {
    **{f"{part} too short": _shorter(f"pairwise.{part}") for part in ("table", "start", "pair", "rows")},
    "no pairs": lambda h, a, s: a.pop("pairwise.pair"),
    "nothing pairwise": lambda h, a, s: h.pop("pairwise"),
    "a relation too many": lambda h, a, s: h["pairwise"]["skips"].append({"same_word": {}}),
    "skips of the future": lambda h, a, s: h["pairwise"].update(skips=[{"same_sound": {}}]),
    "no skips": lambda h, a, s: h["pairwise"].update(skips=[]),
    "no edge features": lambda h, a, s: h["pairwise"].update(edge_features=None),
    "a class missing": lambda h, a, s: h["labels"]["classes"].pop(),
    "another method": lambda h, a, s: h.update(method="LinearChainCRF"),
    "a model of nodes": lambda h, a, s: h.update(method="LinkModel"),
    "another kind": lambda h, a, s: h.update(kind="nodes"),
    "words without a list": lambda h, a, s: s.pop("pairwise.skip.0"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / FILE
    fit(skip(edge_features=["same sentence"]), ONE, TINY_LABELS).save(path)
    return path


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_parts_that_do_not_fit_together(change: Any, saved: Path, tmp_path: Path):
    file = read_model_file(saved)
    header, arrays, strings = file.header, dict(file.arrays), dict(file.strings)
    change(header, arrays, strings)
    write_model_file(tmp_path / FILE, header, arrays, strings)
    with pytest.raises(ModelFileError, match=str(tmp_path / FILE)) as caught:
        kf.load_model(tmp_path / FILE)
    assert "\n" not in str(caught.value)
