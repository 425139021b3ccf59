"""Vectors of tokens beside templates and feature dicts, in every tagger."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import ConvergenceWarning, InputError, ModelFileError
from kinfolk.text.attributes import lower, word
from kinfolk.text.batch import Batch
from kinfolk.text.vectors import VectorColumns
from strategies import SEEDS

CORPUS = kf.generate_newswire(6)
OTHERS = kf.generate_newswire(3, seed=5)
WORDS: list[Any] = [word[0], lower[-1]]
LOOSE: dict[str, Any] = {"templates": WORDS, "tolerance": 0.1, "n_jobs": 1}
CLOSE: dict[str, Any] = {"templates": WORDS, "tolerance": 1e-8, "max_iterations": 1000, "l2": 0.5, "n_jobs": 1}
FOUR = ("glove", "glove", "p(PER)", "glove")


def vectors_of(corpus: kf.Corpus, width: int = 4, seed: int = 0) -> np.ndarray:
    """Columns that say something of the label and differ in place and scale; the last is constant."""
    rng = np.random.default_rng(seed)
    assert corpus.labels is not None
    told = (corpus.labels.codes[:, None] == np.arange(width)) + rng.standard_normal((corpus.n_tokens, width))
    told[:, -1] = 0.1
    return (told * [10.0**j for j in range(width)] + 3).astype(np.float32)


WITH, OTHER = CORPUS.with_vectors(vectors_of(CORPUS)), OTHERS.with_vectors(vectors_of(OTHERS, seed=1))

TAGGERS: dict[str, Callable[..., Any]] = {
    "MaxEnt": kf.MaxEnt,
    "MEMM": kf.MEMM,
    "LinearChainCRF": kf.LinearChainCRF,
    "SkipChainCRF": kf.SkipChainCRF,
    "MixtureTagger": kf.MixtureTagger,
    "StackedTagger": lambda **settings: kf.StackedTagger(kf.LinearChainCRF(**settings), folds=2, depth=1, n_jobs=1),
}


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    return {name: make(**LOOSE).fit(WITH) for name, make in TAGGERS.items()}


def standardised(vectors: np.ndarray, like: np.ndarray) -> np.ndarray:
    mean, deviation = like.mean(axis=0, dtype=np.float64), like.std(axis=0, dtype=np.float64)
    return np.where(deviation > 1e-4, (vectors - mean) / np.where(deviation > 1e-4, deviation, 1), 0)


# -- as other columns ---------------------------------------------------------------------------------

ALONE = ["MaxEnt", "MEMM", "LinearChainCRF", "SkipChainCRF", "MixtureTagger"]
SLOW: dict[str, Any] = {
    "SkipChainCRF": {"update": "all", "training": "pseudo", "held_out": 0.0},
    "MixtureTagger": {"training": "conditional"},
}


@pytest.mark.parametrize("name", ALONE)
def test_vectors_are_columns_that_are_standardised_with_a_ridge_of_their_own(name: str) -> None:
    """l2/2 |u|² of weights u of columns √(l2 / vector_l2) x is vector_l2/2 |w|² of weights w = √(l2 / vector_l2) u of
    x."""
    vector_l2 = 2.0
    root = np.sqrt(CLOSE["l2"] / vector_l2)
    columns = [root * standardised(array, WITH.vectors) for array in (WITH.vectors, OTHER.vectors)]
    model = TAGGERS[name](**CLOSE, vector_l2=vector_l2, **SLOW.get(name, {})).fit(WITH)
    oracle = TAGGERS[name](**CLOSE, **SLOW.get(name, {})).fit(Batch(CORPUS, extra=columns[0].astype(np.float32)))
    assert_allclose(model.convergence_.objective, oracle.convergence_.objective, rtol=1e-4)
    found = model._decoder().marginals(Batch(OTHER), False)
    expected = oracle._decoder().marginals(Batch(OTHERS, extra=columns[1].astype(np.float32)), False)
    assert_allclose(found, expected, atol=0.02)
    without = kf.MaxEnt(**CLOSE).fit(CORPUS)._decoder().marginals(Batch(OTHERS), False)
    assert np.abs(found - without).max() > 0.1


def test_vectors_beside_dicts_are_number_features() -> None:
    rng = np.random.default_rng(3)
    words = CORPUS.rows()[:40]
    y = CORPUS.label_rows()[:40]
    X = [[{"w": word} for word in sentence] for sentence in words]
    vectors = [rng.standard_normal((len(sentence), 3)) * [1, 5, 0.1] for sentence in words]
    scaled = standardised(np.concatenate(vectors), np.concatenate(vectors))
    rows = iter(scaled)
    numbers = [[{**item, **{f"v{j}": v for j, v in enumerate(next(rows))}} for item in sentence] for sentence in X]
    close = {"tolerance": 1e-8, "max_iterations": 1000, "l2": 0.5, "vector_l2": 0.5}
    model = kf.LinearChainCRF(**close).fit(X, y, vectors=vectors)
    oracle = kf.LinearChainCRF(**close).fit(numbers, y)
    for found, expected in zip(model.predict_proba(X, vectors=vectors), oracle.predict_proba(numbers), strict=True):
        assert_allclose(found, expected, atol=0.01)
    assert_allclose(model.score(X, y, vectors=np.concatenate(vectors)), oracle.score(numbers, y))
    assert model.features_.names()[-3:] == ["vectors[0]", "vectors[1]", "vectors[2]"]
    assert len(model.weights_.node) == len(model.features_.names())


@pytest.mark.parametrize("name", TAGGERS)
def test_all_that_is_asked_of_a_tagger_takes_vectors(name: str, trained: dict[str, Any]) -> None:
    model, words = trained[name], OTHERS.rows()
    alone = {"vectors": np.split(OTHER.vectors, OTHERS.sentence_starts[1:-1])}
    labels = model.predict(OTHER)
    other = kf.Corpus.from_sentences(words, OTHERS.label_rows(), pos=OTHERS.rows("pos"), scheme=OTHERS.scheme)
    single = model.predict(other.with_vectors(OTHER.vectors))
    assert model.predict(words, **alone) == single == model.predict(other, **alone)
    assert model.predict(words, vectors=OTHER.vectors.astype(np.float64)) == single
    assert model.predict([*OTHER])[1] == labels[len(OTHERS[0].sentence_starts) - 1 :][: OTHERS[1].n_sentences]
    assert [len(table) for table in model.predict_proba(words, **alone)] == [len(row) for row in words]
    assert model.predict_entities(words, **alone) == model.predict_entities(other.with_vectors(OTHER.vectors))
    assert model.score(other, **alone) == model.score(words, OTHERS.label_rows(), **alone)
    assert model.evaluate(other, **alone) == model.evaluate(other.with_vectors(OTHER.vectors))
    assert str(model.explain(words, 0, 1, **alone)) == str(model.explain(other.with_vectors(OTHER.vectors), 0, 1))
    assert model.predict([]) == []


def test_methods_of_some_taggers_take_vectors(trained: dict[str, Any]) -> None:
    words, given = OTHERS.rows(), {"vectors": OTHER.vectors}
    for name in ("MEMM", "LinearChainCRF"):
        best = trained[name].predict_k_best(words, 2, **given)
        assert [labels for (labels, _), *_ in best] == trained[name].predict(words, **given)
    assert len(trained["SkipChainCRF"].inference_report(OTHER).converged) == OTHERS.n_documents
    assert len(trained["SkipChainCRF"].inference_report(words, **given).converged) == len(words)
    stacked = kf.StackedTagger(kf.MaxEnt(**LOOSE), folds=3, depth=1)
    assert_array_equal(stacked.cross_fit(WITH), stacked.cross_fit(CORPUS, vectors=WITH.vectors))


def test_held_out_data_have_vectors_too() -> None:
    settings = {"templates": WORDS, "max_iterations": 5, "tolerance": 0.0, "dev_every": 1}
    with pytest.warns(ConvergenceWarning):
        one = kf.MaxEnt(**settings).fit(WITH, X_dev=OTHER)
    with pytest.warns(ConvergenceWarning):
        two = kf.MaxEnt(**settings).fit(
            CORPUS, X_dev=OTHERS.rows(), y_dev=OTHERS.label_rows(), vectors=WITH.vectors, vectors_dev=OTHER.vectors
        )
    assert one.convergence_.dev_scores and one.convergence_.dev_scores == two.convergence_.dev_scores
    with pytest.raises(InputError, match="trained with vectors of 4 columns, and was given none"):
        kf.MaxEnt(**settings).fit(WITH, X_dev=OTHERS)


def test_guards_calibration_gates_and_a_warm_start_keep_vectors_with_their_tokens() -> None:
    assert kf.LinearChainCRF(**LOOSE, calibrate=True).fit(WITH).temperature_ > 0
    mixture = kf.MixtureTagger(**LOOSE, mixing="learned", training="separate", guard=2, parent_features="shared")
    with warnings.catch_warnings():  # guards warn where no gain is shown
        warnings.simplefilter("ignore")
        assert mixture.fit(WITH).gain_ is not None
    again = kf.LinearChainCRF(**CLOSE, warm_start=True).fit(WITH)
    before = again.convergence_.iterations
    assert again.fit(WITH).convergence_.iterations < before


def test_threads_change_nothing() -> None:
    one, two = (kf.LinearChainCRF(**{**LOOSE, "n_jobs": jobs}).fit(WITH) for jobs in (1, 2))
    assert_array_equal(one.weights_.node, two.weights_.node)


# -- standardised -------------------------------------------------------------------------------------


@given(SEEDS, st.integers(0, 30), st.integers(1, 4))
def test_columns_have_mean_0_and_deviation_1_or_are_constant(seed: int, n: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-6, 7, width)
    vectors = (rng.standard_normal((n, width)) * scale + scale * rng.integers(-3, 4, width)).astype(np.float32)
    vectors[:, 0] = rng.choice([0.0, 0.1, 1e9])
    learned = VectorColumns.learn(vectors, None)
    found = learned.rows(vectors, None)
    assert_allclose(found[:, 0], 0, atol=1e-3)
    if n > 1:
        assert_allclose(found.mean(axis=0), 0, atol=1e-3)
        assert_allclose(found[:, 1:].std(axis=0), 1, atol=1e-3)


@pytest.mark.parametrize(("place", "scale"), [(6e5, 1.0), (1.7e9, 1000.0), (-4e6, 3.0)])
def test_columns_far_from_0_for_their_size_are_no_constants(place: float, scale: float) -> None:
    """Unix seconds, say: as long as float32 tells them apart."""
    vectors = (place + scale * np.random.default_rng(0).standard_normal((400, 1))).astype(np.float32)
    found = VectorColumns.learn(vectors, None).rows(vectors, None)
    assert_allclose(found.std(), 1, rtol=1e-3)
    assert_allclose(found.mean(), 0, atol=0.2)  # the mean is a number of float32 too
    beside = np.full((400, 1), np.float32(place))
    beside[::2] = np.nextafter(beside[::2], np.float32(0))
    assert np.ptp(VectorColumns.learn(beside, None).rows(beside, None)) < 1e-3, "neighbours are rounding"


# -- explanations, files ------------------------------------------------------------------------------


def test_an_explanation_has_vectors_as_one_contribution_or_by_name() -> None:
    for names, told in ((None, {"vectors"}), (FOUR, {"glove", "p(PER)"})):
        model = kf.LinearChainCRF(**LOOSE).fit(CORPUS.with_vectors(WITH.vectors, names))
        answer = model.explain(OTHER, 1, 3)
        shares = {one.feature: one.share for one in answer.contributions}
        assert told <= {*shares}
        token = OTHERS[0].n_tokens + 3
        x = standardised(OTHER.vectors, WITH.vectors)[token]
        weights, label = model.weights_.node[-4:], list(model.classes_).index(answer.label)
        each = x * (weights[:, label] - weights.mean(axis=1))
        expected = each.sum() if names is None else each[2]
        assert_allclose(shares["vectors" if names is None else "p(PER)"], expected, rtol=1e-3, atol=1e-4)
        assert_allclose(sum(shares[name] for name in told), each.sum(), rtol=1e-3, atol=1e-4)
        assert len(model.features_.names()) == len(model.weights_.node)


@pytest.mark.parametrize("name", TAGGERS)
def test_a_file_keeps_what_is_known_of_vectors(name: str, trained: dict[str, Any], tmp_path: Path) -> None:
    model = trained[name]
    model.save(tmp_path / "model.kinfolk")
    again = kf.load_model(tmp_path / "model.kinfolk")
    assert again.predict(OTHER) == model.predict(OTHER)
    for one, two in zip(again.predict_proba(OTHER), model.predict_proba(OTHER), strict=True):
        assert_array_equal(one, two)
    page = tmp_path / "page.html"
    assert str(again.explain(OTHER, 0, 2, report=page)) == str(model.explain(OTHER, 0, 2))
    assert page.exists()
    with pytest.raises(InputError, match="trained with vectors of 4 columns, and was given none"):
        again.predict(OTHERS)


def test_a_file_keeps_names_and_the_ridge(tmp_path: Path) -> None:
    model = kf.MaxEnt(**LOOSE, vector_l2=7.0).fit(CORPUS.with_vectors(WITH.vectors, FOUR))
    model.save(tmp_path / "model.kinfolk")
    again = kf.load_model(tmp_path / "model.kinfolk")
    assert again.vector_l2 == 7.0 and again.features_.vectors.names == FOUR
    assert again.features_.names() == model.features_.names()
    assert again.features_.names()[-4:] == ["glove[0]", "glove[1]", "p(PER)", "glove[3]"]


@pytest.mark.parametrize(
    "change", [{"mean": np.zeros(3, np.float32)}, {"scale": np.zeros(4, np.float32)}, {"mean": np.zeros((4, 1))}]
)
def test_a_file_whose_vectors_do_not_fit_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.kinfolk"
    kf.MaxEnt(**LOOSE).fit(WITH).save(path)
    file = read_model_file(path)
    for name, array in change.items():
        file.arrays[f"node.vectors.{name}"] = array
    write_model_file(path, file.header, file.arrays, file.strings)
    with pytest.raises(ModelFileError, match="do not fit together"):
        kf.load_model(path)


# -- a corpus keeps them with their tokens ------------------------------------------------------------


def test_all_that_a_corpus_is_cut_into_keeps_vectors_with_their_tokens() -> None:
    number = np.arange(CORPUS.n_tokens, dtype=np.float32)[:, None]
    corpus = CORPUS.with_vectors(number, ["n"])
    words = np.array(CORPUS.columns["word"].strings())

    def check(part: kf.Corpus) -> None:
        assert part.vectors is not None and part.vectors.dtype == np.float32
        assert part.vectors.shape == (part.n_tokens, 1) and part.vector_names == ("n",)
        assert words[part.vectors[:, 0].astype(int)].tolist() == part.columns["word"].strings()
        with pytest.raises(ValueError, match="read-only"):
            part.vectors[:] = 0

    parts = [corpus.documents(1, 3), corpus.select([4, 0, 0]), corpus[-1], corpus[1:4], corpus[[2, 1]], corpus[[]]]
    parts += [*corpus, kf.Corpus.joined([corpus[3], corpus[:2]]), pickle.loads(pickle.dumps(corpus[2:]))]
    parts += [copy.deepcopy(corpus), corpus.with_labels(None, None), corpus.with_scheme("BIO")]
    for part in parts:
        check(part)
    assert "vectors of 1 columns" in repr(corpus) and "vectors" not in repr(CORPUS)
    assert corpus.with_vectors(None).vectors is None and corpus.with_vectors(None).vector_names is None


def test_corpora_are_joined_with_the_same_vectors_or_none() -> None:
    for other in (OTHERS, OTHERS.with_vectors(np.zeros((OTHERS.n_tokens, 3)))):
        with pytest.raises(InputError, match="vectors of the same number of columns, or none; got 4, "):
            kf.Corpus.joined([WITH, other])
    with pytest.raises(InputError, match="same names of columns"):
        kf.Corpus.joined([WITH, OTHERS.with_vectors(OTHER.vectors, FOUR)])


def test_a_layer_of_probabilities_takes_a_corpus_with_vectors() -> None:
    given = np.full((CORPUS.n_tokens, 2), 0.5)
    corpus = WITH.with_labels(None, None)
    labels = [["y" if word.istitle() else "n" for word in row] for row in CORPUS.rows()]
    layer = kf.TokenLayer(features=WORDS, folds=2).fit(corpus, given, labels, classes=["n", "y"])
    assert [len(row) for row in layer.predict(corpus, given)] == [len(row) for row in CORPUS.rows()]


# -- what cannot be used ------------------------------------------------------------------------------

N = OTHERS.n_tokens
BAD: dict[str, tuple[Any, str]] = {
    "too few rows": (np.zeros((N - 1, 4)), f"one row a token: there are {N} tokens and {N - 1} rows. `words_from_piec"),
    "one dimension": (np.zeros(N), r"one row a token; got shape \(\d+,\)"),
    "NaN": (
        np.where(np.arange(N)[:, None] == 7, np.nan, np.zeros((N, 4))),
        "token 7 has nan in column 0. Where a word",
    ),
    "infinite": (np.where(np.arange(N)[:, None] == 9, np.inf, np.zeros((N, 4))), "token 9 has inf in column 0"),
    "huge": (np.full((N, 4), 1e300), r"within ±1e\+12; the vector of token 0 has 1e\+300"),
    "strings": (np.full((N, 4), "a"), "must be numbers; got an array of <U1"),
    "no columns": (np.zeros((N, 0)), "at least one column"),
    "a string": ("glove.txt", r"an array \(tokens, columns\); got a str"),
    "a number": (3, "got a int"),
    "ragged": ([[1.0, 2.0], [1.0]], "does not become one|shape"),
    "sparse": (sparse.csr_array((N, 4)), r"sparse matrix of SciPy: give matrix\.toarray\(\)"),
    "sparse sentences": ([sparse.csr_array((2, 4))], r"matrix\.toarray\(\)"),
    "None": (
        [None if i == 3 else [1.0, 2.0] for i in range(N)],
        "there is None at place 3. Where a word has no vector",
    ),
    "None in a sentence": ([[[1.0], None]], "there is None at place 1"),
    "infinite in float16": (np.full((N, 4), np.inf, np.float16), "token 0 has inf in column 0"),
    "too few sentences": ([np.zeros((2, 4))], rf"there are {OTHERS.n_sentences} sentences, and vectors of 1"),
    "padded": (np.zeros((OTHERS.n_sentences, 99, 4)), r"sentence 0 has \d+ tokens, and vectors of shape \(99, 4\)"),
    "several widths": (
        [np.zeros((len(row), 3 + (i == 2))) for i, row in enumerate(OTHERS.rows())],
        r"the same number of columns; got \[3, 4\]",
    ),
}


@pytest.mark.parametrize(("vectors", "message"), BAD.values(), ids=BAD.keys())
def test_what_are_no_vectors_of_the_tokens_is_refused(vectors: Any, message: str, trained: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=message):
        OTHERS.with_vectors(vectors)
    with pytest.raises(InputError, match=message):
        trained["MaxEnt"].predict(OTHERS.rows(), vectors=vectors)


def test_float16_is_taken_without_a_warning() -> None:
    half = np.linspace(-6e4, 6e4, 4 * N).reshape(N, 4).astype(np.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = OTHERS.with_vectors(half).vectors
    assert found is not None and found.dtype == np.float32 and (found == half).all()


def test_held_out_data_need_their_labels() -> None:
    model, words, labels = kf.MaxEnt(n_jobs=1, tolerance=0.1), OTHERS.rows(), OTHERS.label_rows()
    for one in (model, kf.StackedTagger(model, n_jobs=1)):
        with pytest.raises(InputError, match="needs labels, and X_dev has none: give them as `y_dev`"):
            one.fit(OTHERS, X_dev=words)
        with pytest.raises(InputError, match="`y_dev` is given without `X_dev`"):
            one.fit(OTHERS, y_dev=labels)
        with pytest.raises(InputError, match="y must be a list with a list of labels for each sentence; got generator"):
            one.fit(words, (row for row in labels))


def test_a_corpus_is_built_with_vectors_that_are_looked_over() -> None:
    parts = (OTHERS.columns, OTHERS.sentence_starts, OTHERS.document_starts)
    with pytest.raises(InputError, match="token 0 has nan"):
        kf.Corpus(*parts, vectors=np.full((N, 2), np.nan))
    assert kf.Corpus(*parts, vectors=np.zeros((N, 2)), vector_names=("a", "b")).vector_names == ("a", "b")
    for names, got in ((["a"], "1"), ("ab", "a string"), ([1, 2], "2")):
        with pytest.raises(InputError, match=f"one string for each of the 2 columns of the vectors; got {got}"):
            OTHERS.with_vectors(np.zeros((N, 2)), names)


@pytest.mark.parametrize("name", TAGGERS)
def test_prediction_has_the_vectors_that_training_had(name: str, trained: dict[str, Any]) -> None:
    model = trained[name]
    with pytest.raises(InputError, match="vectors of 4 columns, and was given none: give `vectors=array`"):
        model.predict(OTHERS)
    with pytest.raises(InputError, match="vectors of 4 columns, and was given 3: make them as for training"):
        model.predict(OTHERS, vectors=np.zeros((N, 3)))
    plain = TAGGERS[name](**{**LOOSE, "templates": [word[0]], "tolerance": 0.5}).fit(CORPUS[:3])
    with pytest.raises(InputError, match="trained without vectors, and was given some: train it with vectors, or leav"):
        plain.predict(OTHER)
    with pytest.raises(InputError, match="given twice"):
        model.predict(OTHER, vectors=OTHER.vectors)


def test_a_table_has_no_vectors(trained: dict[str, Any]) -> None:
    table = {"word": ["a", "b"], "sentence": [0, 0], "document": [0, 0]}
    for model in trained.values():
        with pytest.raises(InputError, match="trained with vectors, and a table has none: give a corpus to `predict"):
            model.tag(table)


def test_columns_keep_their_names_and_order() -> None:
    model = kf.MaxEnt(**LOOSE).fit(CORPUS.with_vectors(WITH.vectors, list("abcd")))
    assert model.predict(OTHER) == model.predict(OTHERS.with_vectors(OTHER.vectors, list("abcd")))
    with pytest.raises(InputError, match="column 1 of the vectors is named 'c', and was 'b' in training"):
        model.predict(OTHERS.with_vectors(OTHER.vectors, list("acbd")))


SENTENCES: dict[str, Any] = {
    "a list of tables": [np.zeros((3, 4)), np.zeros((2, 4))],
    "a cube": np.zeros((2, 3, 4)),
    "lists of numbers": [[[0.1, 0.2], [0.3, 0.4]]],
    "a table": np.zeros((3, 4)),
}


@pytest.mark.parametrize("X", SENTENCES.values(), ids=SENTENCES.keys())
def test_vectors_in_the_place_of_sentences_are_refused_with_the_remedy(X: Any) -> None:
    for model in (kf.LinearChainCRF(), kf.StackedTagger(kf.MaxEnt())):
        with pytest.raises(InputError, match=r"Give vectors apart|expected a (list|dict)"):
            model.fit(X, [["O"] * len(row) for row in X])


def test_sentences_without_tokens_have_no_vectors() -> None:
    X, y = [["Kim", "slept"], [], ["Rome"]], [["A", "B"], [], ["A"]]
    vectors = [np.ones((2, 3)), [], np.zeros((1, 3))]
    model = kf.MaxEnt().fit(X, y, vectors=vectors)
    assert model.predict(X, vectors=np.concatenate([vectors[0], vectors[2]])) == model.predict(X, vectors=vectors)
    assert model.predict(X, vectors=vectors)[1] == []


def test_rows_and_columns_of_a_data_frame_go_by_their_names():
    pandas = pytest.importorskip("pandas", reason="data frames")
    array = vectors_of(CORPUS)
    frame = pandas.DataFrame(array, columns=["a", "b", "c", "d"])
    model = kf.LinearChainCRF(**LOOSE).fit(CORPUS, vectors=frame)
    assert CORPUS.with_vectors(frame).vector_names == ("a", "b", "c", "d") == model.features_.vectors.names
    assert model.predict(CORPUS, vectors=frame) == model.predict(CORPUS, vectors=array)
    starts = CORPUS.sentence_starts
    parts = [frame.iloc[a:b] for a, b in itertools.pairwise(starts)]
    assert model.predict(CORPUS, vectors=parts) == model.predict(CORPUS, vectors=array)
    with pytest.raises(InputError, match="column 0 of the vectors is named 'b', and was 'a' in training"):
        model.predict(CORPUS, vectors=frame[["b", "a", "c", "d"]])
    with pytest.raises(InputError, match="the index of the data frame of vectors goes"):
        model.predict(CORPUS, vectors=frame.sample(frac=1, random_state=0))
    with pytest.raises(InputError, match="data frame 1 of vectors has other columns than the first"):
        model.predict(CORPUS, vectors=[parts[0], parts[1][["b", "a", "c", "d"]], *parts[2:]])
    numbered = pandas.DataFrame(array)
    assert CORPUS.with_vectors(numbered).vector_names is None
    with pytest.raises(InputError, match="the columns of vectors are numbered 1, 0, 2, 3"):
        CORPUS.with_vectors(numbered[[1, 0, 2, 3]])
