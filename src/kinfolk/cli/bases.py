"""scikit-learn classifiers by name, for models that are built over one: `--base random-forest`."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from kinfolk.errors import SettingError

# short name -> module of scikit-learn, class, settings that are not its defaults
SHORT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "logistic": ("linear_model", "LogisticRegression", {"max_iter": 1000}),
    "naive-bayes": ("naive_bayes", "GaussianNB", {}),
    "linear-svm": ("svm", "LinearSVC", {}),
    "svm": ("svm", "SVC", {}),
    "knn": ("neighbors", "KNeighborsClassifier", {"algorithm": "brute"}),  # its trees would not be trusted in a file
    "mlp": ("neural_network", "MLPClassifier", {"max_iter": 1000}),
    "hist-gradient-boosting": ("ensemble", "HistGradientBoostingClassifier", {}),
    "decision-tree": ("tree", "DecisionTreeClassifier", {}),
    "random-forest": ("ensemble", "RandomForestClassifier", {}),
    "extra-trees": ("ensemble", "ExtraTreesClassifier", {}),
}
DEFAULT = "logistic"


def new_base(name: str, settings: Sequence[str], seed: int) -> Any:
    """The classifier that --base names, with those of --base-setting, and the seed if it takes one."""
    kind, own = _found(name)
    given = dict(map(_setting, settings))
    known = kind(**own).get_params(deep=False)
    for key in given:
        if key not in known:
            raise SettingError(f"--base-setting: {kind.__name__} has no setting {key!r}; {_near(key, known)}")
    seeded = {"random_state": seed} if "random_state" in known else {}
    return kind(**{**seeded, **own, **given})


def _found(name: str) -> tuple[Any, dict[str, Any]]:
    """The class, and settings to begin with."""
    if name in SHORT:
        module, title, own = SHORT[name]
        return getattr(importlib.import_module(f"sklearn.{module}"), title), own
    from sklearn.utils import all_estimators

    classifiers = dict(all_estimators(type_filter="classifier"))
    if name not in classifiers:
        if name in dict(all_estimators()):
            raise SettingError(f"--base must be a classifier, and scikit-learn's {name} is none")
        short = [*SHORT, "any classifier of scikit-learn by its class name"]
        raise SettingError(f"--base {name} is not known; {_near(name, [*SHORT, *classifiers], short)}")
    parts = [p.name for p in inspect.signature(classifiers[name]).parameters.values() if p.default is p.empty]
    if parts or name == "SelfTrainingClassifier":
        raise SettingError(f"--base {name} is built of other classifiers, which only Python can give it; name another")
    return classifiers[name], {}


def _near(word: str, known: Iterable[str], otherwise: Iterable[str] | None = None) -> str:
    """Names that look like the word; if none does, all of them or others."""
    by_letters = {name.lower(): name for name in known}
    close = [by_letters[name] for name in get_close_matches(word.lower(), by_letters, 4)]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are: {', '.join(otherwise or by_letters.values())}"


def _setting(text: str) -> tuple[str, Any]:
    """name=value, where the value is JSON, or a word as it stands."""
    name, divider, value = text.partition("=")
    if not divider or not name.strip():
        raise SettingError(f"--base-setting takes name=value, e.g. C=0.1 or class_weight=balanced; got {text!r}")
    try:
        return name.strip(), json.loads(value)
    except json.JSONDecodeError:
        return name.strip(), value


def types_to_trust(model: Any) -> list[str]:
    """Types in the trained bases of a model of nodes that `load_model` will only load when they are named."""
    learners = getattr(model, "levels_", None) or [getattr(model, "local_", None), getattr(model, "conditional_", None)]
    estimators = [one for one in (getattr(learner, "estimator", None) for learner in learners) if one is not None]
    if not estimators:
        return []
    from skops.io import dumps

    from kinfolk.graph import sound_parts

    return sorted({name for one in estimators for name in sound_parts.types_to_trust(dumps(one))})
