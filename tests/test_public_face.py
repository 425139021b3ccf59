"""What a user sees first: the names, the cost of importing them, and settings as scikit-learn keeps them."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

import kinfolk as kf
from kinfolk.errors import KinfolkError, NotFittedError, SettingError
from kinfolk.text.attributes import lower, word

MODELS = [kf.MaxEnt, kf.MEMM, kf.LinearChainCRF]
EVERY_MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda cls: cls.__name__)
SENTENCES, LABELS = [["Kim", "left"]], [["B-PER", "O"]]

# One value other than the default for every setting, all of them sound.
OTHER: dict[str, Any] = {
    "templates": [word[0], lower.window(-1, 1)], "min_count": 2, "l2": 1.5, "l1": 0.25, "scheme": "BIO",
    "encoding": "IOBES", "transition_templates": [lower[0]], "class_weight": {"PER": 2.0}, "constrain": False,
    "max_iterations": 7,
    "tolerance": 0.01, "patience": 2, "dev_every": 3, "warm_start": True, "random_state": 5, "n_jobs": 1,
    "verbose": 1, "decode": "posterior", "outside_penalty": 0.5, "calibrate": True,
    "vector_l2": 3.0,
}  # fmt: skip

WRONG: list[tuple[str, Any]] = [
    ("l2", -1), ("l2", math.nan), ("l2", math.inf), ("l2", "1"), ("l2", True), ("l2", None),
    ("vector_l2", -1), ("vector_l2", None),
    ("l1", -0.5), ("l1", math.inf), ("tolerance", -1e-9), ("tolerance", math.nan),
    ("min_count", 0), ("min_count", 1.5), ("max_iterations", 0), ("max_iterations", "many"),
    ("patience", 0), ("dev_every", 0), ("constrain", "yes"), ("warm_start", 1),
    ("random_state", -1), ("random_state", 0.5), ("n_jobs", 0), ("n_jobs", "all"),
    ("encoding", "FOO"), ("encoding", None), ("scheme", "FOO"), ("templates", "paragraph"), ("templates", []),
    ("templates", ["word[0]"]), ("templates", [word[0], 3]), ("class_weight", "even"),
    ("class_weight", {"NOBODY": 2.0}), ("class_weight", {"PER": -1.0}), ("class_weight", {"PER": math.nan}),
]  # fmt: skip


def in_a_new_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", kf.__all__)
def test_every_public_name_loads(name: str):
    value = getattr(kf, name)
    assert value is getattr(kf, name), "loaded once, then kept"
    assert name in dir(kf)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SuperTagger'"):
        _ = kf.SuperTagger


def test_star_import_gives_the_public_names():
    names = in_a_new_process("from kinfolk import *; print(' '.join(n for n in dir() if n[0] != '_'))")
    assert set(names.split()) == {name for name in kf.__all__ if not name.startswith("_")}


def test_importing_kinfolk_imports_nothing_heavy():
    program = "import sys, kinfolk; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = set(in_a_new_process(program).split())
    assert "kinfolk" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite", "scipy", "sklearn", "numpy", "rich", "typer"})


def test_models_do_without_scikit_learn():
    program = "import sys, kinfolk; kinfolk.LinearChainCRF(); print('sklearn' in sys.modules)"
    assert in_a_new_process(program) == "False"


def test_the_command_line_starts_without_the_engine():
    program = "import sys, kinfolk.cli.main; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    assert set(in_a_new_process(program).split()).isdisjoint({"numba", "scipy", "sklearn"})


@EVERY_MODEL
def test_defaults_are_stored_untouched_and_listed(model: Any):
    settings = model().get_params()
    own = {kf.MEMM: {"decode"}, kf.LinearChainCRF: {"outside_penalty"}}
    others = set().union(*own.values()) - own.get(model, set())
    assert set(settings) == set(OTHER) - others
    assert settings["l2"] > 0 and settings["constrain"] is True


@EVERY_MODEL
def test_settings_go_in_and_come_out_as_they_were(model: Any):
    given = {name: OTHER[name] for name in model().get_params()}
    made = model(**given)
    assert all(made.get_params()[name] is value for name, value in given.items())
    assert model().set_params(**given).get_params() == given


@EVERY_MODEL
def test_set_params_returns_the_model(model: Any):
    made = model()
    assert made.set_params(l2=3.0) is made
    assert made.l2 == 3.0


@EVERY_MODEL
def test_clone_copies_settings_and_nothing_learned(model: Any):
    fitted = model(l2=0.5, encoding="IOBES", n_jobs=1).fit(SENTENCES, LABELS)
    copy = clone(fitted)
    assert type(copy) is model and copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(SENTENCES)


@EVERY_MODEL
def test_scikit_learn_knows_what_it_is_looking_at(model: Any):
    made = model(n_jobs=1)
    assert isinstance(made.__sklearn_tags__(), Tags)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(made)
    check_is_fitted(made.fit(SENTENCES, LABELS))


def test_cross_validation_and_grids_work_on_feature_dicts():
    corpus = kf.generate_newswire(4)
    X = [[{"word": w, "capital": w[0].isupper(), "bias": 1.0} for w in s] for s in corpus.rows()]
    y = corpus.label_rows()
    scores = cross_val_score(kf.MaxEnt(n_jobs=1), X, y, cv=2)
    assert scores.shape == (2,) and (scores > 0.1).all()
    grid = GridSearchCV(kf.MaxEnt(n_jobs=1), {"l2": np.array([0.1, 1000.0])}, cv=2).fit(X, y)
    assert grid.best_params_ == {"l2": 0.1}


@EVERY_MODEL
def test_repr_shows_what_differs_from_the_defaults(model: Any):
    assert repr(model()) == f"{model.__name__}()"
    assert repr(model(l2=0.5, n_jobs=2)) == f"{model.__name__}(l2=0.5, n_jobs=2)"
    same = float(str(model().l2))  # equal, but another object
    assert repr(model(l2=same)) == f"{model.__name__}()"


@EVERY_MODEL
def test_an_unknown_setting_is_named_with_the_known_ones(model: Any):
    with pytest.raises(SettingError, match=r"no setting 'penalty'.*l2"):
        model().set_params(penalty=1)
    with pytest.raises(TypeError):
        model(penalty=1)


@pytest.mark.parametrize(("setting", "value"), WRONG, ids=lambda v: repr(v)[:30])
@EVERY_MODEL
def test_a_wrong_setting_is_named_before_training(model: Any, setting: str, value: Any):
    made = model(**{"n_jobs": 1, setting: value})  # storing it is no fault: `fit` checks
    with pytest.raises(SettingError, match=setting if setting != "templates" else "template") as caught:
        made.fit(SENTENCES, LABELS)
    assert isinstance(caught.value, KinfolkError) and isinstance(caught.value, ValueError)
    assert not hasattr(made, "weights_")


@EVERY_MODEL
def test_numbers_of_numpy_are_numbers(model: Any, tmp_path):
    """A grid of settings is often made with numpy; the model file must hold them too."""
    settings = dict(l2=np.float32(0.5), tolerance=np.float64(1e-3), min_count=np.int64(1), random_state=np.int32(3))
    fitted = model(**settings, class_weight={"PER": np.float32(2)}, n_jobs=1).fit(SENTENCES, LABELS)
    fitted.save(tmp_path / "m.kinfolk")
    loaded = kf.load_model(tmp_path / "m.kinfolk")
    assert loaded.get_params() == fitted.get_params()
    assert {type(loaded.l2), type(loaded.min_count)} == {float, int}


def test_a_wrong_way_to_decode_is_named():
    with pytest.raises(SettingError, match=r"decode.*'viterbi' or 'posterior'"):
        kf.MEMM(decode="greedy").fit(SENTENCES, LABELS)


def test_maxent_refuses_features_of_label_pairs():
    with pytest.raises(SettingError, match="transition_templates"):
        kf.MaxEnt(transition_templates=[lower[0]], n_jobs=1).fit(SENTENCES, LABELS)


@EVERY_MODEL
@pytest.mark.parametrize("question", ["predict", "predict_proba", "predict_entities", "score", "evaluate"])
def test_nothing_is_answered_before_fit(model: Any, question: str):
    with pytest.raises(NotFittedError, match="call fit, or load a model file"):
        getattr(model(), question)(SENTENCES)


@EVERY_MODEL
def test_an_untrained_model_has_nothing_to_save_and_no_classes(model: Any, tmp_path):
    with pytest.raises(NotFittedError):
        model().save(tmp_path / "m.kinfolk")
    assert not hasattr(model(), "classes_")
    assert list(tmp_path.iterdir()) == []
