"""Every chain model: what fit and predict promise, in every tag scheme, in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
from conlleval_oracle import count
from kinfolk.errors import InputError, SettingError
from kinfolk.text.attributes import capitalised, lower, shape, suffix, word
from kinfolk.text.schemes import SCHEMES
from small_world import MODELS, TAGGERS, TEST, TINY, TINY_LABELS, TRAIN, in_scheme, is_valid, randomised

EVERY_MODEL = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
FEW = [word[0], lower.window(-1, 1), shape[0], suffix(2)[0], capitalised[0]]  # quick to extract and to train


@EVERY_MODEL
def test_fit_returns_the_model_and_learns_what_it_says(make: Any):
    model = make(n_jobs=1)
    assert model.fit(TRAIN) is model
    assert list(model.classes_) == [f"{letter}-{t}" for letter in "BI" for t in ("LOC", "MISC", "ORG", "PER")] + ["O"]
    assert model.convergence_.status == "converged" and model.convergence_.iterations > 3
    assert model.weights_.node.shape == (model.features_.n_features, 9)
    assert model.columns_ == ("word", "pos")


def test_predictions_have_the_shape_of_the_corpus_and_learned_something(fitted: Any):
    rows = fitted.predict(TEST)
    assert [len(row) for row in rows] == np.diff(TEST.sentence_starts).tolist()
    assert {label for row in rows for label in row} <= set(fitted.classes_)
    assert is_valid(rows, "BIO")
    assert fitted.score(TEST) > 0.55 and fitted.score(TRAIN) > 0.95


def test_probabilities_sum_to_one(fitted: Any):
    tables = fitted.predict_proba(TEST)
    assert [table.shape for table in tables] == [(n, 9) for n in np.diff(TEST.sentence_starts)]
    for table in tables:
        assert (table >= 0).all() and (table <= 1 + 1e-9).all()
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)


def test_score_is_that_of_conlleval(fitted: Any):
    gold, guess = TEST.label_rows(), fitted.predict(TEST)
    counts = count(gold, guess)
    right, total = counts.correct.total(), counts.gold.total() + counts.predicted.total()
    assert fitted.score(TEST) == pytest.approx(2 * right / total, abs=1e-12)
    scores, accuracy = fitted.evaluate(TEST)
    assert (scores.gold, scores.predicted, scores.correct) == (
        counts.gold.total(), counts.predicted.total(), right,
    )  # fmt: skip
    for name, own in scores.types.items():
        assert (own.gold, own.correct) == (counts.gold[name], counts.correct[name])
    pairs = [(a, b) for x, y in zip(gold, guess, strict=True) for a, b in zip(x, y, strict=True)]
    assert accuracy == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))


@EVERY_MODEL
@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_come_back_in_the_scheme_of_the_data(make: Any, scheme: str):
    """And the score does not depend on it: the model works in the same classes up to renaming."""
    train, test = in_scheme(TRAIN, scheme), in_scheme(TEST, scheme)
    model = make(templates=FEW, n_jobs=1).fit(train)
    assert model.coding_.inner == {"IOB1": "BIO"}.get(scheme, scheme)
    rows = model.predict(test)
    assert is_valid(rows, scheme)
    counts = count(test.label_rows(), rows)
    expected = 2 * counts.correct.total() / (counts.gold.total() + counts.predicted.total())
    assert model.score(test) == pytest.approx(expected) and expected > 0.5
    assert model.score(TEST) == pytest.approx(expected), "gold labels may be in any scheme"


@EVERY_MODEL
@pytest.mark.parametrize("encoding", SCHEMES)
@pytest.mark.parametrize("scheme", ["BIO", "IOB1"])
def test_a_model_may_work_in_another_scheme(make: Any, encoding: str, scheme: str):
    train = in_scheme(TRAIN.documents(0, 8), scheme)
    model = make(templates=FEW, encoding=encoding, n_jobs=1).fit(train)
    letters = {name[0] for name in model.classes_}
    assert letters == set("O" + {"IOBES": "IBES", "BILOU": "IBLU"}.get(encoding, "IB"))
    rows = model.predict(in_scheme(TEST, scheme))
    assert is_valid(rows, scheme)
    assert model.score(TEST) > 0.4


@pytest.mark.parametrize("encoding", SCHEMES)
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.0, 0.3, 3.0, 300.0]))
def test_no_weights_whatever_give_an_invalid_tagging(name: str, encoding: str, seed: int, scale: float):
    model = randomised(bare_model(name, encoding), seed, scale)
    corpus = TEST.documents(0, 2)
    assert is_valid(model.predict(corpus), "BIO")
    for table in model.predict_proba(corpus):
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-6)
    if hasattr(model, "predict_k_best"):
        assert is_valid([labels for best in model.predict_k_best(corpus, 3) for labels, _ in best], "BIO")


_BARE: dict[tuple[str, str], Any] = {}


def bare_model(name: str, encoding: str) -> Any:
    key = (name, encoding)
    if key not in _BARE:
        _BARE[key] = MODELS[name](templates=[lower[0]], encoding=encoding, n_jobs=1).fit(TRAIN.documents(0, 3))
    return _BARE[key]


def test_without_constraint_random_weights_do_break_the_scheme():
    """The test above would be empty if they did not."""
    model = randomised(bare_model("LinearChainCRF", "BIO"), 0).set_params(constrain=False)
    assert not is_valid(model.predict(TEST), "BIO")


@EVERY_MODEL
def test_a_type_seen_only_as_single_tokens_may_be_long(make: Any):
    model = make(n_jobs=1, encoding="IOBES").fit([["Kim", "left"]] * 3, [["B-PER", "O"]] * 3)
    assert list(model.classes_) == ["B-PER", "E-PER", "I-PER", "O", "S-PER"]
    assert model.predict([["Kim"]]) == [["B-PER"]]


@EVERY_MODEL
def test_labels_that_are_not_spans_are_scored_by_accuracy(make: Any):
    words, tags = TRAIN.rows(), TRAIN.rows("pos")
    model = make(templates=FEW, n_jobs=1).fit(words, tags)
    assert model.coding_.inner is None and set(model.classes_) == {t for row in tags for t in row}
    guess, gold = model.predict(TEST.rows()), TEST.rows("pos")
    pairs = [(a, b) for x, y in zip(gold, guess, strict=True) for a, b in zip(x, y, strict=True)]
    share = sum(a == b for a, b in pairs) / len(pairs)
    assert model.score(TEST.rows(), gold) == pytest.approx(share) and share > 0.8
    entities, accuracy = model.evaluate(TEST.rows(), gold)
    assert entities is None and accuracy == pytest.approx(100 * share)
    with pytest.raises(InputError, match="labels that are no entities"):
        model.predict_entities(TEST.rows())


@EVERY_MODEL
def test_bare_letters_are_entities_without_a_type(make: Any):
    model = make(n_jobs=1).fit([["Kim", "Lee", "left"]] * 2, [["B", "I", "O"]] * 2)
    assert model.predict([["Kim", "Lee", "left"]]) == [["B", "I", "O"]]
    (entity,) = model.predict_entities([["Kim", "Lee", "left"]])
    assert (entity.type, entity.text, entity.start, entity.end) == ("", "Kim Lee", 0, 2)


@EVERY_MODEL
def test_one_class_only(make: Any):
    model = make(n_jobs=1).fit([["a", "b"]], [["N", "N"]])
    assert model.predict([["c"]]) == [["N"]] and model.predict_proba([["c"]])[0].tolist() == [[1.0]]


@EVERY_MODEL
def test_entities_are_those_of_the_labels(make: Any, fitted_models: Any):
    model = fitted_models[next(n for n, m in MODELS.items() if m is make)]
    entities = model.predict_entities(TEST)
    rows = TEST.rows()
    tags = [["O"] * len(row) for row in rows]
    for e in entities:
        assert e.text == " ".join(rows[e.sentence][e.start : e.end]) and 0 <= e.confidence <= 1 + 1e-9
        tags[e.sentence][e.start : e.end] = [f"B-{e.type}", *[f"I-{e.type}"] * (e.end - e.start - 1)]
    assert tags == model.predict(TEST)
    assert entities == sorted(entities, key=lambda e: (e.sentence, e.start))


# -- the forms of input


@EVERY_MODEL
def test_words_in_lists_are_a_corpus_of_single_sentences(make: Any):
    from_lists = make(n_jobs=1).fit(TINY, TINY_LABELS)
    from_corpus = make(n_jobs=1).fit(kf.Corpus.from_sentences(TINY, TINY_LABELS, scheme="BIO"))
    assert from_lists.features_.names() == from_corpus.features_.names()
    for one, other in zip(from_lists.weights_, from_corpus.weights_, strict=True):
        np.testing.assert_array_equal(one, other)
    as_arrays = make(n_jobs=1).fit([np.array(s) for s in TINY], [np.array(y) for y in TINY_LABELS])
    assert as_arrays.predict(TINY) == from_lists.predict(TINY) == TINY_LABELS


@EVERY_MODEL
def test_sentences_without_tokens_keep_their_place(make: Any):
    X = [[], TINY[0], [], [], TINY[1], []]
    y = [[], TINY_LABELS[0], [], [], TINY_LABELS[1], []]
    model = make(n_jobs=1).fit(X, y, sample_weight=[9, 1, 9, 9, 1, 9])
    np.testing.assert_array_equal(model.weights_.node, make(n_jobs=1).fit(TINY, TINY_LABELS).weights_.node)
    assert model.predict(X) == y
    assert [table.shape for table in model.predict_proba(X)] == [(len(s), 5) for s in X]
    assert [e.sentence for e in model.predict_entities(X)] == [1, 1]
    if hasattr(model, "predict_k_best"):
        found = model.predict_k_best(X, 2)
        assert found[0] == [([], 0.0)] and found[1][0][0] == TINY_LABELS[0]


def test_nothing_to_predict(fitted: Any):
    for nothing in ([], kf.Corpus.from_sentences([])):
        assert fitted.predict(nothing) == [] and fitted.predict_proba(nothing) == []
        assert fitted.predict_entities(nothing) == []
    assert fitted.predict([[], []]) == [[], []]


@EVERY_MODEL
def test_feature_dicts_as_sklearn_crfsuite_takes_them(make: Any):
    def items(sentences: Any) -> Any:
        return [[{"w": w, "cap": w[0].isupper(), "end": w[-2:], "bias": 1.0} for w in s] for s in sentences]

    X, y = items(TRAIN.rows()), TRAIN.label_rows()
    model = make(n_jobs=1).fit(X, y)
    assert {"w:the", "cap", "bias"} <= set(model.features_.names())
    assert is_valid(model.predict(items(TEST.rows())), "BIO")
    assert model.score(items(TEST.rows()), TEST.label_rows()) > 0.3
    assert model.predict([]) == [] and model.predict([[]]) == [[]]
    lists = [[[f"w={w}", f"end={w[-2:]}", "bias"] for w in s] for s in TRAIN.rows()]
    assert len(make(n_jobs=1).fit(lists, y).predict(lists)) == len(y)


@EVERY_MODEL
def test_dicts_equal_templates_that_say_the_same(make: Any):
    """One feature a token, the word: dicts and template give the same table, so the same weights."""
    X, y = TRAIN.rows(), TRAIN.label_rows()
    dicts = make(n_jobs=1).fit([[{"word[0]": w} for w in s] for s in X], y)
    words = make(n_jobs=1, templates=[word[0]]).fit(X, y)
    assert [n.replace(":", "=", 1) for n in dicts.features_.names()] == words.features_.names()
    np.testing.assert_array_equal(dicts.weights_.node, words.weights_.node)


INPUTS = {
    "a string": ("Kim left", "expected a Corpus or a list of sentences; got str"),
    "strings": (["Kim left"], "each a list of tokens; got a list of strings"),
    "nothing at all": (None, "got NoneType"),
    "a generator": ((s for s in TINY), "got generator"),
    "dicts": ([[{"w": "Kim"}]], "trained on words, but was given feature dicts"),
    "documents": ([TINY, TINY], r"nested one level too deep: .* \[sentence for document in documents for"),
    "documents of dicts": ([[[{"w": "Kim"}]]], "nested one level too deep"),
    "a string among sentences": ([["Kim"], "left"], "expected a list of tokens as sentence 1; got str"),
    "a generator among sentences": ([["Kim"], (w for w in ["left"])], "sentence 1; got generator; make it a list"),
    "a data frame": ([pd.DataFrame({"w": ["Kim"]})], r"sentence 0; got DataFrame. .*to_dict\('records'\)"),
    "a sparse table": ([sparse.eye_array(3)], "sentence 0; got .*_array. Give vectors apart"),
    "vectors": (np.zeros((2, 3, 4)), r"sentence 0, token 0: .*got a vector: ndarray of shape \(4,\)"),
    "numbers": ([[], [1, 2]], r"words must be strings .*; sentence 1, token 0 is 1, a int"),
    "nothing as a word": ([[None, "Kim"]], "words must be strings .*; sentence 0, token 0 is None, a NoneType"),
    "words and dicts": ([["Kim"], ["left", {"w": "Kim"}]], "sentence 1, token 1 is a dict"),
}


@pytest.mark.parametrize(("given_input", "message"), INPUTS.values(), ids=INPUTS.keys())
def test_inputs_of_a_wrong_kind(given_input: Any, message: str):
    model = kf.MaxEnt(n_jobs=1).fit(TINY, TINY_LABELS)
    with pytest.raises(InputError, match=message):
        model.predict(given_input)


def test_documents_to_learn_from_are_nested_too_deep():
    with pytest.raises(InputError, match="nested one level too deep"):
        kf.MaxEnt(n_jobs=1).fit([TINY, TINY], [TINY_LABELS, TINY_LABELS])


@pytest.mark.parametrize("make", TAGGERS.values(), ids=TAGGERS.keys())
@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_a_column_of_pandas_is_taken_like_a_list(make: Any):
    sentences, labels = TINY * 4, TINY_LABELS * 4
    model = make().fit(pd.Series(sentences, index=range(8, 16)), pd.Series(labels))
    assert model.predict(pd.Series(sentences)) == make().fit(sentences, labels).predict(sentences)


def test_words_for_a_model_of_dicts():
    model = kf.MaxEnt(n_jobs=1).fit([[{"w": "Kim"}, {"w": "left"}]], [["B-PER", "O"]])
    for wrong, message in (([["Kim"]], "trained on feature dicts, but was given words"),
                           ([[{"w": "x"}], ["Kim"]], "sentence 1, token 0")):  # fmt: skip
        with pytest.raises(InputError, match=message):
            model.predict(wrong)


def test_vectors_are_refused_wherever_they_come_in():
    """Not taken for names, one feature a number; sentences without tokens count too."""
    X, y = [[{"w": "Kim"}, {"w": "left"}], [{"w": "left"}]], [["B-PER", "O"], ["O"]]
    vectors = [[], X[0], [{"w": "left", "vec": np.array([0.25, 0.5])}]]
    told = r"sentence 2, token 0: .*'vec'; got a vector: ndarray of shape \(2,\)\. .*Give vectors apart"
    model = kf.LinearChainCRF(n_jobs=1).fit(X, y)
    for ask in (model.predict, model.predict_proba, model.predict_entities,
                lambda given: model.score(given, [[], *y]), lambda given: model.explain(given, 0, 0),
                lambda given: kf.LinearChainCRF(n_jobs=1).fit(given, [[], *y]),
                lambda given: kf.LinearChainCRF(n_jobs=1).fit(X, y, given, [[], *y]),
                lambda given: kf.StackedTagger(kf.LinearChainCRF(n_jobs=1)).fit(given, [[], *y])):  # fmt: skip
        with pytest.raises(InputError, match=told):
            ask(vectors)


LABELLINGS = {
    "none": (None, "training needs labels"),
    "all unknown": ([[None] * 4, [None] * 2], "training needs labels"),
    "a sentence short": (TINY_LABELS[:1], "X has 2 sentences, y has 1"),
    "a label short": ([TINY_LABELS[0], ["O"]], "sentence 1 has 2 tokens in X but 1 labels in y"),
    "a tag among tags that is none": ([["B-PER", "I-PER", "O", "LOC"], ["O", "B-LOC"]], "'LOC' is not a tag"),
}


@pytest.mark.parametrize(("labels", "message"), LABELLINGS.values(), ids=LABELLINGS.keys())
def test_labels_that_do_not_fit(labels: Any, message: str):
    with pytest.raises(InputError, match=message):
        kf.LinearChainCRF(n_jobs=1).fit(TINY, labels)


def test_labels_that_cannot_be_scored(fitted: Any):
    with pytest.raises(InputError, match="scoring needs labels"):
        fitted.score(TEST.with_labels(None, None))
    with pytest.raises(InputError, match=r"no entity tags.*trained on BIO"):
        fitted.score(TEST.with_labels(TEST.columns["pos"], None))


def test_a_corpus_without_the_columns_of_training(fitted: Any):
    with pytest.raises(InputError, match=r"reads column 'pos'.*it has: word"):
        fitted.predict(TEST.rows())


# -- a penalty of O


def test_a_penalty_of_o_moves_labels_and_leaves_probabilities():
    """Of all labellings, the one whose log-probability less the penalty of each O is greatest."""
    train, test = kf.newswire_split(4, 2)
    short = [sentence[:3] for sentence in test.rows()][:20]
    model = kf.LinearChainCRF(templates=FEW, l2=3.0).fit(train)
    table, plain, entities = model.predict_proba(short), model.predict(short), []
    for penalty in (-2.0, 0.0, 1.0, 3.0):
        model.set_params(outside_penalty=penalty)
        found = model.predict(short)
        entities.append(sum(label != "O" for labels in found for label in labels))
        for labels, ways in zip(found, model.predict_k_best(short, 10_000), strict=True):
            scores = {tuple(way): log_p - penalty * way.count("O") for way, log_p in ways}
            assert scores[tuple(labels)] == pytest.approx(max(scores.values()))
        for before, after in zip(table, model.predict_proba(short), strict=True):
            np.testing.assert_array_equal(before, after)
    assert entities == sorted(entities) and entities[0] < entities[-1]
    assert model.set_params(outside_penalty=0.0).predict(short) == plain


def test_a_penalty_of_o_where_there_is_no_o_does_nothing():
    sentences, labels = [["a", "b"], ["b"]] * 5, [["X", "Y"], ["Y"]] * 5
    model = kf.LinearChainCRF(outside_penalty=5.0).fit(sentences, labels)
    assert model.predict([["a", "b"]]) == [["X", "Y"]]


def test_a_model_file_keeps_the_penalty_of_o(tmp_path: Path):
    train, _ = kf.newswire_split(2, 1)
    model = kf.LinearChainCRF(templates=FEW, outside_penalty=0.3).fit(train)
    model.save(tmp_path / "m.kinfolk")
    assert kf.load_model(tmp_path / "m.kinfolk").outside_penalty == 0.3
    with pytest.raises(SettingError, match=r"outside_penalty.*must be a number from -100 to 100"):
        kf.LinearChainCRF(outside_penalty=float("nan")).fit(train)
