"""`kf.text.crfsuite.CRF` beside what it stands in for: python-crfsuite is the oracle of weights and marginals."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score

import kinfolk as kf
from kinfolk.errors import InputError, ModelFileError, NotFittedError, SettingError, SettingWarning
from kinfolk.text import crfsuite
from kinfolk.text.crfsuite import CRF

# What sklearn-crfsuite's signature has, in its order.
NAMES = (
    "algorithm min_freq all_possible_states all_possible_transitions c1 c2 max_iterations num_memories epsilon period "
    "delta linesearch max_linesearch calibration_eta calibration_rate calibration_samples calibration_candidates "
    "calibration_max_trials pa_type c error_sensitive averaging variance gamma verbose model_filename keep_tempfiles "
    "trainer_cls"
).split()
CLOSE: dict[str, Any] = {"delta": 1e-8, "n_jobs": 1}
TO_CRFSUITE = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
}


def sentences(n: int = 30, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """Items of every kind that python-crfsuite takes."""
    r = random.Random(seed)

    def item() -> Any:
        made = {
            "w": r.choice("abcdef"), "n": r.random(), "title": r.random() < 0.5, "near": r.sample(["p", "q", "r"], 2),
            "next": {"x": r.choice("uv"), "n": r.random(), "up": r.random() < 0.5},
        }  # fmt: skip
        return made if r.random() < 0.9 else ["bias", f"w:{made['w']}"]

    def label(one: Any) -> str:
        if isinstance(one, list) or r.random() < 0.2:
            return r.choice("ABC")
        return "A" if one["w"] in "ab" else "B" if one["title"] else "C"

    X = [[item() for _ in range(r.randint(1, 7))] for _ in range(n)]
    return X, [[label(one) for one in sentence] for sentence in X]


X, Y = sentences()
KIM = [{"lower": "kim", "title": True}, {"lower": "left"}, {"lower": "rome", "title": True}]
KIM_LABELS = ["PER", "O", "LOC"]


def by_crfsuite(X: Any, y: Any, folder: Path, **given: Any) -> Any:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    wanted = {TO_CRFSUITE.get(name, name): value for name, value in given.items()}
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", params={"delta": 1e-9, "epsilon": 1e-9, **wanted}, verbose=False)
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    trainer.train(str(folder / "oracle.crfsuite"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / "oracle.crfsuite"))
    return tagger, trainer.logparser.last_iteration


def assert_near(ours: dict[Any, float], theirs: dict[Any, float], within: float) -> None:
    assert all(abs(ours.get(key, 0) - theirs.get(key, 0)) < within for key in {*ours, *theirs})


# -- the same weights and marginals -------------------------------------------------------------------


@pytest.mark.parametrize("given", [
    {}, {"c1": 0.3, "c2": 0.05}, {"c2": 0.05}, {"min_freq": 5}, {"min_freq": 2.5, "c1": 0.1},
    {"all_possible_states": True}, {"all_possible_transitions": True, "c2": 0.1},
    {"all_possible_states": True, "all_possible_transitions": True, "c1": 0.1, "c2": 0.1},
    {"all_possible_states": True, "all_possible_transitions": True, "min_freq": 3},
], ids=str)  # fmt: skip
def test_weights_and_marginals_are_those_of_crfsuite(given: dict[str, Any], tmp_path: Path):
    tagger, last = by_crfsuite(X, Y, tmp_path, **given)
    ours, theirs = CRF(**given, **CLOSE).fit(X, Y), tagger.info()
    assert ours.chain_.convergence_.objective == pytest.approx(last["loss"], rel=1e-5)
    assert_near(ours.state_features_, theirs.state_features, 0.01)
    assert_near(ours.transition_features_, theirs.transitions, 0.01)
    if not given.get("c1"):  # with a lasso one that is nearly 0 may be 0
        assert {*ours.state_features_} == {*theirs.state_features} and {*ours.attributes_} == {*theirs.attributes}
    assert {*ours.classes_} == {*tagger.labels()}
    new, _ = sentences(10, seed=1)
    for items, marginals, labels in zip(new, ours.predict_marginals(new), ours.predict(new), strict=True):
        tagger.set(items)
        expected = [{label: tagger.marginal(label, t) for label in tagger.labels()} for t in range(len(items))]
        assert all(m.keys() == e.keys() for m, e in zip(marginals, expected, strict=True))
        assert max(abs(m[k] - e[k]) for m, e in zip(marginals, expected, strict=True) for k in m) < 2e-3
        assert labels == tagger.tag(items)


ITEM = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from(["x", "y", 0.5, 2.0, True, False, ["u", "v"]]), max_size=3
)
TOKEN = st.tuples(ITEM, st.sampled_from("LMN"))


@given(st.lists(st.lists(TOKEN, max_size=4), min_size=1, max_size=4).filter(any), st.sampled_from([0.0, 1.0]))
@settings(deadline=None)
def test_any_small_data_give_the_objective_of_crfsuite(tmp_path_factory: Any, tokens: Any, c1: float):
    """Sentences without tokens, tokens without features and a single label too."""
    X, y = ([[token[part] for token in sentence] for sentence in tokens] for part in (0, 1))
    tagger, _ = by_crfsuite(X, y, tmp_path_factory.mktemp("oracle"), c1=c1, c2=0.5)
    ours = CRF(c1=c1, c2=0.5, **CLOSE).fit(X, y)
    assert_near(ours.state_features_, tagger.info().state_features, 0.02)
    assert_near(ours.transition_features_, tagger.info().transitions, 0.02)


def test_values_below_zero_are_kept(tmp_path: Path):
    """CRFsuite drops weights whose values add up to less than 0, in silence: the one difference in what is learned."""
    X, y = [[{"temperature": -1.0}, {"temperature": 0.5}]] * 2, [["cold", "warm"]] * 2
    tagger, _ = by_crfsuite(X, y, tmp_path)
    assert ("temperature", "cold") not in tagger.info().state_features
    crf = CRF(n_jobs=1).fit(X, y)
    assert crf.state_features_["temperature", "cold"] < 0 < crf.state_features_["temperature", "warm"]


def test_brackets_of_a_chain_have_no_weight():
    crf = CRF(all_possible_states=True, all_possible_transitions=True, n_jobs=1).fit(X, Y)
    assert not crf.chain_.weights_.start.any() and crf.chain_.weights_.node.any() and crf.chain_.weights_.pair.all()


# -- what sklearn-crfsuite's users do -----------------------------------------------------------------


def test_its_names_are_all_there():
    assert {*NAMES} | {"scheme", "random_state", "n_jobs"} == {*CRF().get_params()}
    positional = [name for name in CRF().get_params() if name in NAMES and name != "verbose"]
    assert positional == [name for name in NAMES if name != "verbose"] and CRF("l2sgd", 2.0).min_freq == 2.0


@pytest.mark.filterwarnings("ignore::kinfolk.errors.SettingWarning")
@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", None])
@pytest.mark.parametrize("dev", [False, True])
def test_fit_predict_score_and_marginals(algorithm: str | None, dev: bool):
    crf = CRF(algorithm, verbose=True, n_jobs=1)
    assert crf.fit([KIM] * 4, [KIM_LABELS] * 4, *(([KIM], [KIM_LABELS]) if dev else ())) is crf
    assert crf.predict([KIM]) == [KIM_LABELS] and crf.predict_single(KIM) == KIM_LABELS
    assert crf.score([KIM], [KIM_LABELS]) == 1.0
    (marginals,) = crf.predict_marginals([KIM])
    assert marginals == crf.predict_marginals_single(KIM) and len(marginals) == 3
    assert all({*m} == {"PER", "O", "LOC"} and abs(sum(m.values()) - 1) < 1e-6 for m in marginals)
    assert ("item_accuracy_float" in crf.training_log_.last_iteration) is dev
    assert crf.training_log_.iterations[0]["num"] == 1 and crf.training_log_.last_iteration["loss"] > 0


def test_sentences_without_tokens():
    crf = CRF(n_jobs=1).fit([KIM, []], [KIM_LABELS, []])
    assert crf.predict([[], KIM]) == [[], KIM_LABELS] and crf.predict_single([]) == []
    assert crf.predict_marginals([[], KIM])[0] == [] and crf.predict([]) == []


def test_held_out_data_change_nothing():
    alone, beside = CRF(n_jobs=1).fit(X, Y), CRF(n_jobs=1).fit(X, Y, X[:5], Y[:5])
    assert alone.state_features_ == beside.state_features_
    for one in ({"X_dev": X}, {"y_dev": Y}):
        with pytest.raises(ValueError, match="X_dev and y_dev go together"):
            CRF().fit(X, Y, **one)


def test_asked_before_it_is_trained():
    for ask in (lambda crf: crf.predict([KIM]), lambda crf: crf.classes_, lambda crf: crf.state_features_):
        with pytest.raises(NotFittedError):
            ask(CRF())


@pytest.mark.parametrize("dump", [
    lambda crf, _: pickle.loads(pickle.dumps(crf)),
    lambda crf, file: joblib.dump(crf, file) and joblib.load(file),
    lambda crf, file: (crf.save(file), kf.load_model(file))[1],
], ids=["pickle", "joblib", "save"])  # fmt: skip
def test_it_is_kept_and_comes_back(dump: Any, tmp_path: Path):
    crf = CRF(c1=0.1, c2=0.1, delta=0.01, n_jobs=1).fit(X, Y)
    again = dump(crf, tmp_path / "crf.bin")
    assert type(again) is CRF and again.get_params() == crf.get_params() and again.c1 == 0.1
    assert again.predict_marginals(X) == crf.predict_marginals(X) and again.classes_ == crf.classes_
    assert again.transition_features_ == crf.transition_features_ and again.size_ == crf.size_
    assert again.training_log_ == crf.training_log_


def test_a_file_is_loaded_by_a_python_that_has_not_seen_the_class(tmp_path: Path):
    CRF(n_jobs=1).fit([KIM], [KIM_LABELS]).save(tmp_path / "crf.kinfolk")
    program = f"import kinfolk as kf; print(kf.load_model({str(tmp_path / 'crf.kinfolk')!r}).predict([{KIM!r}]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([KIM_LABELS])


def test_a_model_by_its_file_name(tmp_path: Path):
    path = tmp_path / "model.kinfolk"
    with pytest.raises(NotFittedError):
        CRF(model_filename=path).predict([KIM])
    crf = CRF(model_filename=path, n_jobs=1).fit([KIM], [KIM_LABELS])
    assert path.is_file() and CRF(model_filename=str(path)).score([KIM], [KIM_LABELS]) == 1.0
    assert pickle.loads(pickle.dumps(crf)).score([KIM], [KIM_LABELS]) == 1.0
    kf.MaxEnt(n_jobs=1).fit([KIM], [KIM_LABELS]).save(path)
    with pytest.raises(ModelFileError, match="expected a model of CRF; it holds a MaxEnt"):
        CRF(model_filename=path).predict([KIM])
    path.write_bytes(b"lCRF" + bytes(60))  # CRFsuite's own
    with pytest.raises(ModelFileError, match="not a kinfolk model"):
        CRF(model_filename=path).predict([KIM])
    with pytest.raises(ModelFileError, match="does not exist"):
        CRF(model_filename=tmp_path / "no" / "m").fit([KIM], [KIM_LABELS])


def test_cross_validation_grids_and_clones():
    crf = CRF(c1=0.1, max_iterations=5, n_jobs=1)
    assert clone(crf).get_params() == crf.get_params() and repr(clone(crf)) == repr(crf)
    assert cross_val_score(crf, [KIM] * 6, [KIM_LABELS] * 6, cv=3).tolist() == [1.0] * 3
    found = cross_val_predict(crf, [KIM] * 4, [KIM_LABELS] * 4, cv=2)
    assert found.shape == (4,) and list(found) == [KIM_LABELS] * 4
    exact = make_scorer(lambda y, predicted: np.mean([a == b for a, b in zip(y, predicted, strict=True)]))
    grid = {"c1": [0.1, 50.0], "c2": [0.1]}
    search = GridSearchCV(CRF(max_iterations=5, n_jobs=1), grid, cv=2, scoring=exact).fit(X, Y)
    assert search.best_params_["c1"] == 0.1
    drawn = RandomizedSearchCV(CRF(n_jobs=1), {"c2": [0.1, 1.0, 9.0]}, n_iter=2, cv=2, random_state=0).fit(X, Y)
    assert drawn.best_estimator_.predict(X) and drawn.best_score_ > 0.5


def test_what_it_learned_is_shown():
    crf = CRF(c1=1.0, n_jobs=1).fit(X, Y)
    assert crf.num_attributes_ == len(crf.attributes_) and {a for a, _ in crf.state_features_} == {*crf.attributes_}
    assert crf.size_ > 0 and crf.classes_ == ["A", "B", "C"]
    labels = list(crf.classes_)
    labels.remove("A")
    assert labels == ["B", "C"]


# -- scores of single labels --------------------------------------------------------------------------

ONE, OTHER = [["a", "c", "b"], ["a", "a"]], [["b", "c", "b"], ["a", "b"]]


def test_scores_of_single_labels_are_scikit_learns():
    """Of the labels one behind the other: a c b a a beside b c b a b."""
    flat = (["a", "c", "b", "a", "a"], ["b", "c", "b", "a", "b"])
    assert crfsuite.flat_accuracy_score(ONE, OTHER) == 3 / 5
    for average in ("micro", "macro", "weighted"):
        for name in ("precision_score", "recall_score", "f1_score"):
            found = getattr(crfsuite, f"flat_{name}")(ONE, OTHER, average=average)
            assert found == getattr(sklearn.metrics, name)(*flat, average=average)
        f1 = crfsuite.flat_f1_score(ONE, OTHER, average=average)
        assert crfsuite.flat_fbeta_score(ONE, OTHER, beta=1, average=average) == pytest.approx(f1)
    assert crfsuite.flat_f1_score(ONE, OTHER, average="macro") == pytest.approx(2 / 3)
    assert crfsuite.flat_f1_score([["x", "y"]] * 2, [["x", "y"]] * 2, average="weighted") == 1.0
    report = crfsuite.flat_classification_report(ONE, OTHER, labels=["a", "b"], digits=3)
    assert report == sklearn.metrics.classification_report(*flat, labels=["a", "b"], digits=3)


def test_whole_sentences_that_are_right():
    assert crfsuite.sequence_accuracy_score(ONE, OTHER) == 0 == crfsuite.sequence_accuracy_score([], [])
    assert crfsuite.sequence_accuracy_score([[1, 2], [3], [4]], [[1, 2], [4], [4]]) == pytest.approx(2 / 3)
    assert crfsuite.sequence_accuracy_score([[1, 2], []], [np.array([1, 2]), []]) == 1


def test_scores_are_of_the_same_sentences():
    with pytest.raises(InputError, match="y_true has 2 sentences, y_pred has 1"):
        crfsuite.flat_accuracy_score(ONE, OTHER[:1])
    with pytest.raises(InputError, match="sentence 1 has 2 labels in y_true and 1 in y_pred"):
        crfsuite.sequence_accuracy_score(ONE, [OTHER[0], ["a"]])


# -- settings that mean nothing here, and such as cannot be -------------------------------------------


def test_settings_without_effect_are_told_once():
    crf = CRF(num_memories=6, linesearch="MoreThuente", pa_type=1, keep_tempfiles=True, max_iterations=1000, n_jobs=1)
    with pytest.warns(SettingWarning) as told:
        crf.fit([KIM], [KIM_LABELS])
    (message,) = [str(one.message) for one in told]
    for name in ("num_memories=6", "linesearch='MoreThuente'", "pa_type=1", "keep_tempfiles=True"):
        assert name in message
    with pytest.warns(SettingWarning, match="algorithm='l2sgd' .its objective is minimised by L-BFGS"):
        CRF("l2sgd", n_jobs=1).fit([KIM], [KIM_LABELS])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CRF("lbfgs", c1=0.1, c2=0.1, all_possible_transitions=True, n_jobs=1).fit([KIM], [KIM_LABELS])


@pytest.mark.parametrize(("given", "message"), [
    ({"algorithm": "pa"}, "passive aggressive learning has another objective.*use 'lbfgs' with c1 and c2"),
    ({"algorithm": "ap"}, "averaged perceptron"), ({"algorithm": "arow"}, "AROW"), ({"algorithm": "sgd"}, "got 'sgd'"),
    ({"algorithm": "l2sgd", "c1": 1.0}, "no lasso; got 1.0; use 'lbfgs'"), ({"c1": -1}, "got -1"),
    ({"c2": "1"}, "got '1'"), ({"max_iterations": 0}, "got 0"), ({"trainer_cls": object}, "must be None"),
    ({"scheme": "BIOES"}, "got 'BIOES'"),
])  # fmt: skip
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str):
    with pytest.raises(SettingError, match=message):
        CRF(**given).fit([KIM], [KIM_LABELS])


def test_an_end_by_the_limit_that_was_asked_for_is_told_in_the_log(caplog: pytest.LogCaptureFixture):
    """Every tutorial sets max_iterations=100, and reaches it."""
    with caplog.at_level("INFO", "kinfolk"), warnings.catch_warnings():
        warnings.simplefilter("error")
        crf = CRF(c1=0.01, c2=0.01, max_iterations=2, n_jobs=1).fit(X, Y)
    assert "hit the iteration limit" in caplog.text and crf.training_log_.last_iteration["num"] == 2


def test_words_and_labels_that_are_missing():
    with pytest.raises(InputError, match=r"CRF learns from feature dicts.*LinearChainCRF"):
        CRF().fit([["Kim", "left"]], [["PER", "O"]])
    with pytest.raises(InputError, match="training needs labels"):
        CRF().fit([KIM], None)


# -- beyond it ----------------------------------------------------------------------------------------


def test_labels_are_taken_as_they_are_unless_a_scheme_is_named():
    """I-PER after O is a sequence like any other to CRFsuite."""
    items, tags = [{"w": "a"}, {"w": "b"}], ["O", "I-PER"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CRF(n_jobs=1).fit([items] * 3, [tags] * 3).predict([items]) == [tags]
    in_scheme = CRF(scheme="BIO", n_jobs=1).fit([items] * 3, [["O", "B-PER"]] * 3)
    assert in_scheme.classes_ == ["B-PER", "I-PER", "O"] and in_scheme.predict([items]) == [["O", "B-PER"]]
    assert in_scheme.score([items], [["O", "B-PER"]]) == 1.0


def test_its_settings_go_on_to_a_linear_chain():
    chain = CRF(c1=0.2, c2=0.3, min_freq=2, max_iterations=50, n_jobs=1).linear_chain()
    assert isinstance(chain, kf.LinearChainCRF) and (chain.l1, chain.l2, chain.min_count) == (0.2, 0.6, 2)
    assert chain.set_params(max_iterations=300, tolerance=0.01).fit(X, Y).score(X, Y) > 0.5


def test_where_a_tagger_is_wanted_it_says_what_to_give():
    with pytest.raises(SettingError, match=r"give its `linear_chain\(\)`"):
        kf.StackedTagger(CRF()).fit(X, Y)
    crf = CRF(n_jobs=1).fit([KIM], [KIM_LABELS])
    with pytest.raises(InputError, match="trained on feature dicts, and a table has words"):
        crf.tag({"word": ["Kim"], "sentence": [0], "document": [0]})


def test_its_probabilities_are_taken_out_of_fold():
    found = kf.out_of_fold(CRF(delta=0.01, n_jobs=1), X, Y, folds=2)
    assert found.probabilities.shape == (sum(map(len, X)), 3) and list(found.classes) == ["A", "B", "C"]
    half = CRF(delta=0.01, n_jobs=1).fit(X, Y)
    assert found.model.predict(X) == half.predict(X)
