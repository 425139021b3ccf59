"""The layer of tokens over probabilities that another model gave."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.collective.given import Given
from kinfolk.errors import DataWarning, InputError, NotFittedError
from kinfolk.text.attributes import shape
from kinfolk.text.layer import said_of_parents

CLASSES = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]


def world(n_documents: int, seed: int) -> tuple[kf.Corpus, Any]:
    """Documents in which a name is said four times, always with one label, and a model that sees it clearly once."""
    rng = np.random.default_rng(seed)
    words, tags, rows, sizes = [], [], [], []
    for d in range(n_documents):
        label = "B-PER" if rng.random() < 0.5 else "B-LOC"
        other = "B-LOC" if label == "B-PER" else "B-PER"
        clear = rng.integers(4)
        for place in range(4):
            words.append(["the", f"Name{d % 7}x{d}", "said", "."])
            tags.append(["O", label, "O", "O"])
            table = np.full((4, 5), 0.01)
            table[[0, 2, 3], 4] = 0.96
            if place == clear:
                table[1, CLASSES.index(label)] = 0.96
            else:
                wrong = rng.random() < 0.45
                table[1, CLASSES.index(other if wrong else label)] = 0.56
                table[1, CLASSES.index(label if wrong else other)] = 0.41
            rows.append(table / table.sum(axis=1, keepdims=True))
        sizes.append(4)
    return kf.Corpus.from_sentences(words, tags, sizes), rows


@pytest.fixture(scope="module")
def trained() -> kf.TokenLayer:
    corpus, rows = world(60, 0)
    return kf.TokenLayer(features=False, n_jobs=1).fit(corpus, rows, classes=CLASSES)


def f1_of_given(corpus: kf.Corpus, rows: list[Any]) -> float:
    labels = [[CLASSES[k] for k in table.argmax(axis=1)] for table in rows]
    return kf.entity_scores(corpus.label_rows(), labels).f1 / 100


def test_company_mends_what_a_model_is_unsure_of(trained: kf.TokenLayer):
    corpus, rows = world(40, 1)
    given = f1_of_given(corpus, rows)
    assert given < 0.75
    assert trained.score(corpus, rows) > given + 0.2
    assert trained.weights_["company"] > 0 and trained.gain_ is not None and trained.gain_.lower > 0


def test_answers_are_those_of_other_taggers(trained: kf.TokenLayer):
    corpus, rows = world(5, 2)
    labels, tables = trained.predict(corpus, rows), trained.predict_proba(corpus, rows)
    assert [len(row) for row in labels] == [4] * 20 == [len(table) for table in tables]
    assert list(trained.classes_) == CLASSES
    np.testing.assert_allclose(np.concatenate(tables).sum(axis=1), 1)
    entities = trained.predict_entities(corpus, rows)
    assert len(entities) == 20 and all(0 < one.confidence <= 1 and not one.exact for one in entities)
    scores, accuracy = trained.evaluate(corpus, rows)
    assert scores is not None and scores.f1 / 100 == pytest.approx(trained.score(corpus, rows)) and accuracy > 80


def test_every_form_that_probabilities_come_in(trained: kf.TokenLayer):
    corpus, rows = world(4, 3)
    pandas = pytest.importorskip("pandas", reason="data frames")
    whole = np.concatenate(rows)
    turned = [4, 2, 0, 3, 1]
    known = trained.predict_proba(corpus, rows)
    dicts = [[dict(zip(CLASSES, token, strict=True)) for token in table] for table in rows]
    for form, classes in (
        (whole, CLASSES),
        (whole[:, turned], [CLASSES[k] for k in turned]),
        (whole.astype(np.float32), None),
        (dicts, None),
        (pandas.DataFrame(whole[:, turned], columns=[CLASSES[k] for k in turned]), None),
    ):
        found = trained.predict_proba(corpus, form, classes=classes)
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(known), atol=1e-5)


def test_rows_of_a_frame_that_are_numbered_in_another_order_are_refused(trained: kf.TokenLayer):
    corpus, rows = world(4, 3)
    pandas = pytest.importorskip("pandas", reason="data frames")
    frame = pandas.DataFrame(np.concatenate(rows), columns=CLASSES)
    shuffled = frame.sample(frac=1, random_state=0)
    with pytest.raises(InputError, match=r"the index of the data frame of probabilities goes .* frame.sort_index"):
        trained.predict(corpus, shuffled)
    with pytest.raises(InputError, match="the index of the data frame of probabilities goes"):
        kf.TokenLayer(features=False).fit(corpus, shuffled)
    right = trained.predict(corpus, frame)
    named = frame.set_axis([f"token {k}" for k in range(len(frame))])
    cut = np.split(np.arange(len(frame)), np.cumsum([len(one) for one in rows])[:-1])
    parts = [frame.iloc[one] for one in cut]  # which keep their numbers in the whole
    for given in (shuffled.sort_index(), named, parts):
        assert trained.predict(corpus, given) == right
    with pytest.raises(InputError, match="the index of data frame 1 of probabilities goes"):
        trained.predict(corpus, [parts[0], parts[1].iloc[::-1], *parts[2:]])


def test_a_saved_layer_says_the_same(trained: kf.TokenLayer, tmp_path: Any):
    corpus, rows = world(4, 4)
    trained.save(tmp_path / "layer.kinfolk")
    again = kf.load_model(tmp_path / "layer.kinfolk")
    assert isinstance(again, kf.TokenLayer) and again.weights_ == trained.weights_
    assert again.gain_ == trained.gain_
    for one, other in zip(again.predict_proba(corpus, rows), trained.predict_proba(corpus, rows), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_an_explanation_has_what_each_candidate_says(trained: kf.TokenLayer):
    corpus, rows = world(4, 5)
    found = trained.explain(corpus, rows, 1)
    tables = trained.predict_proba(corpus, rows)
    assert found.probability == pytest.approx(max(tables[0][1]), abs=1e-6)
    assert {one.candidate for one in found.candidates} == {name for name, w in trained.weights_.items() if w > 0}
    assert "weight" in str(found) and found.label in str(found)
    with pytest.raises(InputError, match="numbered from 0 to 63"):
        trained.explain(corpus, rows, 64)


def test_where_company_says_nothing_what_was_given_stays(caplog: pytest.LogCaptureFixture):
    """Right of nearly all, and no word stands twice."""
    rng = np.random.default_rng(0)
    labels = rng.choice(["a", "b", "c"], (80, 3)).tolist()
    words = [[f"w{s}x{t}" for t in range(3)] for s in range(80)]
    rows = []
    for row in labels:
        table = np.full((3, 3), 0.02)
        for t, label in enumerate(row):
            table[t, "abc".index(label if rng.random() < 0.95 else "a")] = 0.96
        rows.append(table)
    corpus = kf.Corpus.from_sentences(words, labels, [2] * 40)
    layer = kf.TokenLayer(n_jobs=1).fit(corpus, rows, classes=list("abc"))
    before = np.mean([["abc"[k] for k in table.argmax(1)] == row for table, row in zip(rows, labels, strict=True)])
    after = np.mean([found == row for found, row in zip(layer.predict(corpus, rows), labels, strict=True)])
    assert layer.weights_["given"] > 0 and after >= before


@pytest.mark.parametrize("scheme", ["IOB1", "BIO", "IOBES"])
def test_probabilities_in_another_scheme_than_the_labels(scheme: str):
    """Labels in BIO; the model given speaks its own scheme."""
    corpus, _ = world(20, 6)
    tagger = kf.LinearChainCRF(templates=[shape[0]], encoding=scheme, n_jobs=1).fit(corpus)
    layer = kf.TokenLayer(features=False, n_jobs=1).fit(corpus, tagger.predict_proba(corpus), classes=tagger.classes_)
    assert layer.pool_.coding_.inner == scheme
    assert {label for row in layer.predict(corpus, tagger.predict_proba(corpus)) for label in row} <= {*CLASSES}


def test_feature_dicts_have_no_words_and_need_none():
    corpus, rows = world(12, 7)
    dicts = [[{"w": word} for word in ("the", "N", "said", ".")] for _ in rows]
    layer = kf.TokenLayer(n_jobs=1).fit(dicts, rows, corpus.label_rows(), classes=CLASSES)
    assert len(layer.predict(dicts, rows)) == len(rows)


# -- out-of-fold ----------------------------------------------------------------------------------------


def test_out_of_fold_never_sees_a_label():
    """A model that learns words by heart is at a loss about those of another document."""
    corpus, _ = world(10, 8)
    found = kf.out_of_fold(kf.MaxEnt(templates=["sentence"], n_jobs=1), corpus, folds=5)
    assert found.probabilities.shape == (corpus.n_tokens, len(found.classes)) == (160, 5)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)
    again = kf.out_of_fold(kf.MaxEnt(templates=["sentence"], n_jobs=1), corpus, folds=5)
    np.testing.assert_array_equal(found.probabilities, again.probabilities)
    assert tuple(found.model.classes_) == found.classes


def test_out_of_fold_of_rows_and_of_sentences():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    table, labels = rng.normal(size=(60, 2)), rng.integers(12, size=60)
    found = kf.out_of_fold(LogisticRegression(), table, labels, folds=3)
    assert found.classes == tuple(sorted(set(labels.tolist()))), "in the order of the model, not of strings"
    fresh = LogisticRegression()
    dealt = np.random.default_rng(0).permutation(60) % 3
    fresh.fit(table[dealt != 1], labels[dealt != 1])
    place = [found.classes.index(one) for one in fresh.classes_]
    np.testing.assert_allclose(found.probabilities[dealt == 1][:, place], fresh.predict_proba(table[dealt == 1]))
    sentences, tags = [["a", "b"], ["c"], ["a"], ["b", "c"]], [["X", "Y"], ["X"], ["X"], ["Y", "X"]]
    grouped = kf.out_of_fold(kf.MaxEnt(n_jobs=1), sentences, tags, groups=["d", "d", "e", "e"])
    assert grouped.probabilities.shape == (6, 2)
    with pytest.raises(InputError, match="only one"):
        kf.out_of_fold(kf.MaxEnt(), sentences, tags, groups=["d"] * 4)
    with pytest.raises(InputError, match="labels are missing"):
        kf.out_of_fold(kf.MaxEnt(), sentences)


@pytest.mark.parametrize("labels", [[3, 12], [False, True], [0.5, 1.0], ["no", "yes"]])
def test_classes_out_of_fold_are_labels(labels: list[Any]):
    """In the type of the labels, and a layer knows them by name."""
    codes = np.arange(60) % 2
    y, table = np.array(labels)[codes], codes[:, None]
    found = kf.out_of_fold(_ByHalf(), table, y)
    assert found.classes == tuple(labels) and [type(one) for one in found.classes] == [type(one) for one in labels]
    assert (np.array(found.classes)[found.probabilities.argmax(axis=1)] == y).all()
    corpus = kf.Corpus.from_sentences([["w"]] * 60, [[label] for label in y.tolist()])
    mild = 0.6 * found.probabilities + 0.2
    layer = kf.TokenLayer(features=False, n_jobs=1).fit(corpus, mild, classes=found.classes)
    assert [row[0] for row in layer.predict(corpus, mild)] == y.tolist()


class _ByHalf:
    """A model of two labels by the side of a half that a column is on."""

    def fit(self, X: Any, y: Any) -> _ByHalf:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.where(X[:, :1] > 0.5, [[0.1, 0.9]], [[0.9, 0.1]])


def test_out_of_fold_of_several_corpora():
    corpus, _ = world(6, 8)
    tagger = kf.MaxEnt(templates=["sentence"], n_jobs=1)
    known = kf.out_of_fold(tagger, corpus, folds=3)
    for several in ([corpus[:2], corpus[2:]], list(corpus)):
        found = kf.out_of_fold(tagger, several, folds=3)
        np.testing.assert_array_equal(found.probabilities, known.probabilities)
        assert found.classes == known.classes
    with pytest.raises(InputError, match="leave `y` and `groups` out"):
        kf.out_of_fold(tagger, corpus, corpus.label_rows())


def test_probabilities_of_a_model_that_saw_the_labels_are_noticed(trained: kf.TokenLayer):
    corpus, _ = world(60, 9)
    known = np.concatenate([[CLASSES.index(label) for label in row] for row in corpus.label_rows()])
    sure = np.full((corpus.n_tokens, 5), 0.001)
    sure[np.arange(corpus.n_tokens), known] = 0.996
    with pytest.warns(DataWarning, match="has seen these"):
        layer = kf.TokenLayer(features=False, n_jobs=1).fit(corpus, sure, classes=CLASSES)
    with pytest.warns(DataWarning, match="of doubt"):
        layer.predict(corpus, 0.6 * sure + 0.08)


# -- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "classes", "said"),
    [
        (np.ones((4, 2)), None, "have no names"),
        (np.ones((4, 2)) / 2, ["O"], "1 classes are named"),
        (np.ones((4, 2)) / 2, ["O", "O"], "two columns .* named 'O'"),
        (np.ones((3, 2)) / 2, ["O", "X"], "expected probabilities of 4 tokens; got 3 rows"),
        (np.ones((4, 2)), ["O", "X"], "add up to 2"),
        (np.array([[0.5, 0.5]] * 3 + [[np.nan, 1]]), ["O", "X"], "token 3 are no numbers"),
        ([["a"]], ["O"], "must be numbers"),
        (np.ones(4), ["O"], "a row a token"),
        ([np.ones((2, 2)) / 2, np.ones((2, 3)) / 3], ["O", "X"], "columns; one each"),
    ],
)
def test_probabilities_that_are_none(table: Any, classes: Any, said: str):
    with pytest.raises(InputError, match=said):
        Given.of(table, 4, classes)


@pytest.mark.parametrize("form", ["arrays", "dicts", "frames"])
def test_probabilities_of_sentences_have_their_lengths(trained: kf.TokenLayer, form: str):
    """Right in all is not right: they would be those of other words."""

    def of(*lengths: int) -> Any:
        tables = [np.full((n, 5), 0.2) for n in lengths]
        if form == "arrays":
            return tables
        if form == "dicts":
            return [[dict(zip(CLASSES, row, strict=True)) for row in table] for table in tables]
        pandas = pytest.importorskip("pandas", reason="data frames")
        return [pandas.DataFrame(table, columns=CLASSES) for table in tables]

    sentences = [["a"] * 4, [], ["b"] * 9]
    assert [len(row) for row in trained.predict(sentences, of(4, 0, 9))] == [4, 0, 9]
    with pytest.raises(InputError, match="sentence 0 has 4 tokens, and 9 rows of probabilities"):
        trained.predict(sentences, of(9, 0, 4))
    with pytest.raises(InputError, match="sentence 0 has 4 tokens, and 0 rows"):
        trained.predict(sentences, of(0, 4, 9))
    with pytest.raises(InputError, match="there are 3 sentences in 3 documents, and probabilities of 4"):
        trained.predict(sentences, of(4, 4, 4, 1))
    corpus = kf.Corpus.from_sentences([["a"] * 4, [], ["b"] * 9, ["c"]], [["O"] * n for n in (4, 0, 9, 1)], [3, 1])
    for fine in (of(4, 9, 1), of(4, 0, 9, 1), of(13, 1)):  # by sentence, with the empty one, by document
        assert [len(row) for row in trained.predict(corpus, fine)] == [4, 9, 1]
    with pytest.raises(InputError, match="document 0 has 13 tokens, and 12 rows"):
        trained.predict(corpus, of(12, 2))
    with pytest.raises(InputError, match="sentence 1 has 9 tokens, and 1 rows"):
        kf.TokenLayer(n_jobs=1).fit(corpus, of(4, 1, 9), classes=CLASSES)


def test_probabilities_of_several_corpora(trained: kf.TokenLayer):
    """As taggers answer a list of corpora, or as those of one."""
    corpus, rows = world(4, 3)
    dicts = [[dict(zip(CLASSES, row, strict=True)) for row in table] for table in rows]
    several, known = [corpus[:1], corpus[1:]], np.concatenate(trained.predict_proba(corpus, rows))
    for form in (rows, [rows[:4], rows[4:]], [dicts[:4], dicts[4:]], dicts, [table.tolist() for table in rows]):
        found = [table for part in trained.predict_proba(several, form) for table in part]
        np.testing.assert_allclose(np.concatenate(found), known, atol=1e-6)
    with pytest.raises(InputError, match=r"of \[4, 12\] sentences; got \[12, 4\]"):
        trained.predict(several, [rows[4:], rows[:4]])
    with pytest.raises(InputError, match="must be numbers"):
        trained.predict(corpus, [rows[:4], [*rows[4:-1], rows[-1][:2]]])


def test_frames_of_sentences_are_read_by_the_names_of_their_columns(trained: kf.TokenLayer):
    pandas = pytest.importorskip("pandas", reason="data frames")
    corpus, rows = world(2, 3)
    frames = [pandas.DataFrame(table, columns=CLASSES) for table in rows]
    frames[1] = frames[1][CLASSES[::-1]]
    found, known = trained.predict_proba(corpus, frames), trained.predict_proba(corpus, rows)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(known), atol=1e-6)
    with pytest.raises(InputError, match="data frame 1 has the columns 'O'"):
        trained.predict(corpus, [frames[0], frames[1][["O"]], *frames[2:]])


def test_labels_with_gaps_stay_in_their_scheme():
    words, classes = [["a", "b"]] * 6, ["B-ING", "I-ING", "O"]
    corpus = kf.Corpus.from_sentences(words, [[None, "B-ING"], ["B-ING", "O"]] * 3, [2] * 3)
    even = [np.full((2, 3), 1 / 3)] * 6
    layer = kf.TokenLayer(features=False, n_jobs=1).fit(corpus, even, classes=classes)
    assert layer.pool_.coding_.inner == "BIO" and [len(row) for row in layer.predict(words, even)] == [2] * 6
    with pytest.raises(InputError, match=r"from BIO to IOBES, .* give probabilities of BIO tags .*S-"):
        kf.TokenLayer(n_jobs=1).fit(corpus, even, classes=["S-ING", "B-ING", "O"])


def test_documents_without_any_label_do_not_hide_those_with_labels():
    """Two of twelve documents have labels: no fold is to have both."""
    corpus, rows = world(12, 12)
    tags = [row if s // 4 in (3, 7) else [None] * 4 for s, row in enumerate(corpus.label_rows())]
    partly = kf.Corpus.from_sentences(corpus.rows(), tags, [4] * 12)
    for seed in range(4):
        layer = kf.TokenLayer(features=False, n_jobs=1, random_state=seed).fit(partly, rows, classes=CLASSES)
        assert len(layer.predict(corpus, rows)) == 48
    one = kf.Corpus.from_sentences(corpus.rows(), [tags[12 + s] if s < 4 else [None] * 4 for s in range(48)], [4] * 12)
    with pytest.raises(InputError, match="one document is too little"):
        kf.TokenLayer(n_jobs=1).fit(one, rows, classes=CLASSES)


def test_tags_that_only_the_scheme_adds_are_not_missed():
    """No entity has two words, so nobody knows of I-PER."""
    corpus, rows = world(12, 13)
    kept = [0, 1, 4]
    narrow = [table[:, kept] / table[:, kept].sum(axis=1, keepdims=True) for table in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        kf.TokenLayer(features=False, n_jobs=1).fit(corpus, narrow, classes=[CLASSES[k] for k in kept])


def test_classes_that_are_others():
    corpus, rows = world(6, 10)
    with pytest.raises(InputError, match="none of the classes given"):
        kf.TokenLayer(n_jobs=1).fit(corpus, rows, classes=list("vwxyz"))
    wide = [np.concatenate([table * 0.9, np.full((4, 1), 0.1)], axis=1) for table in rows]
    with pytest.warns(DataWarning, match="'B-DATE' of the classes given are no labels of the data; .* 10.0% of all"):
        kf.TokenLayer(features=False, n_jobs=1).fit(corpus, wide, classes=[*CLASSES, "B-DATE"])
    narrow = [table[:, 1:] / table[:, 1:].sum(axis=1, keepdims=True) for table in rows]
    with pytest.warns(DataWarning, match="knows nothing of 'B-LOC'"):
        kf.TokenLayer(features=False, n_jobs=1).fit(corpus, narrow, classes=CLASSES[1:])


def test_too_little_to_learn_from():
    corpus, rows = world(1, 11)
    with pytest.raises(InputError, match="one document is too little"):
        kf.TokenLayer(n_jobs=1).fit(corpus, rows, classes=CLASSES)
    with pytest.raises(InputError, match="needs labels"):
        kf.TokenLayer(n_jobs=1).fit(corpus.with_labels(None, None), rows, classes=CLASSES)
    with pytest.raises(NotFittedError):
        kf.TokenLayer().predict(corpus, rows)


def test_no_tokens_at_all(trained: kf.TokenLayer):
    assert trained.predict([], np.zeros((0, 5))) == [] == trained.predict([], [])
    assert trained.predict([[]], [np.zeros((0, 5))]) == [[]] == trained.predict([[]], [[]])
    with pytest.raises(InputError, match="expected probabilities of 1 tokens; got 0 rows"):
        trained.predict([["a"]], [])
    assert trained.predict_entities([[]], np.zeros((0, 5))) == []


# -- a mixture of parents as a candidate ------------------------------------------------------------------


def test_a_mixture_of_parents_follows_those_with_the_same_word(tmp_path: Any):
    corpus, rows = world(60, 0)
    layer = kf.TokenLayer(features=False, mixture=True, n_jobs=1).fit(corpus, rows, classes=CLASSES)
    assert {*layer.weights_} == {"given", "company", "mixture"}
    layer.pool_.weights_ = layer.weights_ = {"given": 0.0, "company": 0.0, "mixture": 1.0}
    test, given = world(40, 1)
    assert layer.score(test, given) > f1_of_given(test, given) + 0.1
    assert {*layer.pool_.tables(layer._batch(test, given, None, None))} == {"given", "mixture"}
    layer.save(tmp_path / "layer.kinfolk")
    again = kf.load_model(tmp_path / "layer.kinfolk")
    assert again.mixture and again.predict(test, given) == layer.predict(test, given)


def test_what_parents_of_a_token_say():
    corpus = kf.Corpus.from_sentences([["a", "b", "a"], ["a"], ["b"]], documents=[2, 1])
    table = np.arange(15, dtype=float).reshape(5, 3)
    before, behind, same = said_of_parents(corpus, table)
    np.testing.assert_array_equal(before, [[0] * 3, table[0], table[1], [0] * 3, [0] * 3])
    np.testing.assert_array_equal(behind, [table[1], table[2], [0] * 3, [0] * 3, [0] * 3])
    expected = [(table[2] + table[3]) / 2, [0] * 3, (table[0] + table[3]) / 2, (table[0] + table[2]) / 2, [0] * 3]
    np.testing.assert_allclose(same, expected)
    assert [one.shape for one in said_of_parents(corpus.select([]), np.zeros((0, 3)))] == [(0, 3)] * 3
