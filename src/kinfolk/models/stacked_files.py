"""What a model file keeps of a stacked model or a dependency network, and the model from it again.

scikit-learn estimators go through skops, which runs no code on load and refuses types it does not know unless they are
trusted by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import ModelFileError
from kinfolk.features.company import Company, learned_strings, rebuilt_template
from kinfolk.io.modelfile import ModelFile
from kinfolk.models.learners import Learner
from kinfolk.models.sound_parts import TRUSTED, check_sound
from kinfolk.models.stacked_nodes import Memory

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


def node_parts(model: Any, learners: Sequence[Learner]) -> Parts:
    """Of a model of nodes over scikit-learn classifiers."""
    arrays: dict[str, Array] = {}
    for i, learner in enumerate(learners):
        arrays[f"level.{i}.columns"] = learner.columns
        if learner.estimator is not None:
            arrays[f"level.{i}.skops"] = np.frombuffer(_dumps(learner.estimator), np.uint8)
    memory = model.memory_
    if memory is not None:
        arrays["memory.nodes"], arrays["memory.labels"] = memory.nodes, memory.labels
        arrays.update({f"memory.votes.{k}": votes for k, votes in enumerate(memory.votes)})
    header, strings = company_parts(model.company_)
    header.update(
        levels=len(learners), known=model.known_, unused=list(model.unused_), dense=bool(model.dense_),
        memory=None if memory is None else {"fingerprint": memory.fingerprint, "votes": len(memory.votes)},
    )  # fmt: skip
    return header, arrays, strings


def restore_nodes(
    model: Any, spec: Mapping[str, Any], file: ModelFile, functions: Functions, trusted: Sequence[str]
) -> list[Learner]:
    """Set what both models of nodes have; returns the learners."""
    model.company_ = restored_company(spec, file, functions)
    model.templates = list(model.company_.templates)
    model.known_, model.unused_, model.dense_ = spec["known"], tuple(spec["unused"]), bool(spec["dense"])
    memory = spec["memory"]
    model.memory_ = None
    if memory is not None:
        votes = [file.arrays[f"memory.votes.{k}"] for k in range(memory["votes"])]
        nodes, labels = file.arrays["memory.nodes"], file.arrays["memory.labels"]
        model.memory_ = Memory(memory["fingerprint"], nodes, labels, votes)
    n_labels = len(model.coding_.classes)
    return [_restored_learner(file, i, n_labels, trusted) for i in range(int(spec["levels"]))]


def _restored_learner(file: ModelFile, level: int, n_labels: int, trusted: Sequence[str]) -> Learner:
    columns = np.asarray(file.arrays[f"level.{level}.columns"], np.int64)
    if len(columns) and not 0 <= columns.min() <= columns.max() < n_labels:
        raise ModelFileError(f"level {level} speaks of classes the model does not have")
    packed = file.arrays.get(f"level.{level}.skops")
    learner = Learner.__new__(Learner)
    learner.n_labels, learner.columns = n_labels, columns
    learner.estimator = None if packed is None else _loads(packed.tobytes(), trusted)
    return learner


def _dumps(estimator: Any) -> bytes:
    from skops.io import dumps

    try:
        return bytes(dumps(estimator))
    except Exception as error:  # skops raises what its parts raise
        raise ModelFileError(
            f"{type(estimator).__name__} cannot be written by skops ({error}); build the base of scikit-learn's parts"
        ) from error


def _loads(data: bytes, trusted: Sequence[str]) -> Any:
    from skops.io import get_untrusted_types, loads

    found = get_untrusted_types(data=data)
    unknown = sorted({*found} - {*trusted, *TRUSTED})
    if unknown:
        raise ModelFileError(
            f"the base holds types that are not known to be safe: {', '.join(unknown)}. If you trust the file, name "
            f"them: load_model(path, trusted={unknown!r})"
        )
    estimator = loads(data, trusted=found)
    check_sound(estimator)
    return estimator
