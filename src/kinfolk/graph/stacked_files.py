"""What a model file keeps of a stacked model or a dependency network, and the model from it again.

scikit-learn estimators go through skops, which runs no code on load and refuses types it does not know unless they are
trusted by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.company import Company, learned_strings, rebuilt_template
from kinfolk.core.modelfile import ModelFile, fits
from kinfolk.errors import ModelFileError
from kinfolk.graph.learners import Learner
from kinfolk.graph.node_company import NodeCompany
from kinfolk.graph.sound_parts import built
from kinfolk.text.chain import ChainTagger

Array = NDArray[Any]
Functions = Mapping[str, Callable[..., Any]]
Parts = tuple[dict[str, Any], dict[str, Array], dict[str, Any]]


def company_parts(company: Company) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, strings) of templates."""
    strings = {f"template.{i}": learned_strings(t) for i, t in enumerate(company.templates)}
    return {"templates": [t.spec() for t in company.templates], "votes": company.n_votes}, strings


def restored_company(spec: Mapping[str, Any], file: ModelFile, functions: Functions) -> Company:
    templates = [
        rebuilt_template(t, file.strings.get(f"template.{i}", []), functions) for i, t in enumerate(spec["templates"])
    ]
    return Company(tuple(templates), int(spec["votes"]))


def node_parts(model: NodeCompany) -> Parts:
    """Of a model of nodes over scikit-learn classifiers."""
    arrays: dict[str, Array] = {}
    learners = model._learners
    for i, learner in enumerate(learners):
        arrays[f"level.{i}.columns"] = learner.columns
        if learner.estimator is not None:
            arrays[f"level.{i}.skops"] = np.frombuffer(_dumps(learner.estimator), np.uint8)
    header, strings = company_parts(model.company_)
    header.update(
        levels=len(learners), known=model.known_, unused=list(model.unused_),
    )  # fmt: skip
    return header, arrays, strings


def restore_nodes(
    model: Any, file: ModelFile, n_features: int, functions: Functions, trusted: Sequence[str]
) -> list[Learner]:
    """Set what both models of nodes have; returns the learners."""
    spec = file.header["stacked"]
    n_labels = len(model.coding_.classes)
    model.company_ = restored_company(spec, file, functions)
    model.templates = list(model.company_.templates)
    model.known_, model.unused_ = spec["known"], tuple(spec["unused"])
    fits(model.memory_ is None or len(model.memory_.votes) in (0, int(spec["levels"]) - 1))
    learners = [_restored_learner(file, i, n_labels, trusted) for i in range(int(spec["levels"]))]
    _check_widths(model, learners, n_features)
    return learners


def _check_widths(model: Any, learners: Sequence[Learner], n_features: int) -> None:
    """Templates, classes and bases have to be about the same columns: kernels follow them without a look."""
    company, n_labels = model.company_, len(model.coding_.classes)
    fits(company.n_votes == n_labels)
    own = n_features if getattr(model, "features", True) else 0
    told = company.width + (n_labels if getattr(model, "own", False) else 0)
    above = own + n_features * (len(company.templates) - len(company.told)) + told
    for level, learner in enumerate(learners):
        width = getattr(learner.estimator, "n_features_in_", None)
        fits(width is None or width == (above if level else n_features))


def check_token_levels(model: Any, taggers: Sequence[Any]) -> None:
    """The same for tokens: levels above the first have weights for what they are told."""
    n_labels = len(model.coding_.classes)
    fits(model.company_.n_votes == n_labels and len(taggers) >= 1)
    told = model.company_.width + (n_labels if model.own else 0)
    for level, tagger in enumerate(taggers):
        fits({*tagger.coding_.classes.names} <= {*model.coding_.classes.names})
        if isinstance(tagger, ChainTagger):
            fits(tagger.weights_.node.shape[0] == tagger.features_.n_features + (told if level else 0))


def _restored_learner(file: ModelFile, level: int, n_labels: int, trusted: Sequence[str]) -> Learner:
    columns = np.asarray(file.arrays[f"level.{level}.columns"], np.int64)
    packed = file.arrays.get(f"level.{level}.skops")
    fits(columns.ndim == 1 and len(columns) >= 1 and (np.diff(columns) > 0).all())
    fits(columns[0] >= 0 and columns[-1] < n_labels and (packed is not None or len(columns) == 1))
    estimator = None if packed is None else built(packed.tobytes(), trusted)
    fits(np.array_equal(np.asarray(getattr(estimator, "classes_", columns)), columns))
    return Learner.restored(estimator, columns, n_labels)


def _dumps(estimator: Any) -> bytes:
    from skops.io import dumps

    try:
        return bytes(dumps(estimator))
    except Exception as error:  # skops raises what its parts raise
        raise ModelFileError(
            f"{type(estimator).__name__} cannot be written by skops ({error}); build the base of scikit-learn's parts"
        ) from error
