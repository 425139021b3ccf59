"""Model files: a fitted model to header, arrays and strings, and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kinfolk.data.vocabulary import Vocabulary
from kinfolk.errors import ModelFileError
from kinfolk.features.dicts import DictFeatures
from kinfolk.features.rebuild import feature_set
from kinfolk.features.tokens import TokenFeatures
from kinfolk.io.modelfile import ModelFile, read_model_file, write_model_file
from kinfolk.learning.loglinear import Shape, Weights
from kinfolk.models.crf import LinearChainCRF
from kinfolk.models.labels import LabelCoding
from kinfolk.models.maxent import MaxEnt
from kinfolk.models.memm import MEMM
from kinfolk.models.optimise import Convergence
from kinfolk.models.tagger import Tagger

KIND = "tokens"
METHODS: dict[str, type[Tagger]] = {cls.__name__: cls for cls in (MaxEnt, MEMM, LinearChainCRF)}


def save_model(model: Tagger, path: str | os.PathLike[str]) -> None:
    """Write a fitted model. Settings that are templates are kept as what they became: the feature set."""
    settings = {n: v for n, v in model.get_params().items() if n not in ("templates", "transition_templates")}
    pairs = model.transition_features_
    arrays = {f"weights.{name}": array for name, array in model.weights_._asdict().items()}
    strings: dict[str, Any] = {}
    for prefix, features in (("node", model.features_), ("pair", pairs)):
        if features is not None:
            own_arrays, own_strings = features.state()
            arrays.update({f"{prefix}.{name}": array for name, array in own_arrays.items()})
            strings.update({f"{prefix}.{name}": names for name, names in own_strings.items()})
    outcome = model.convergence_
    header = {
        "kind": KIND,
        "method": type(model).__name__,
        "settings": settings,
        "templates_name": model.templates if isinstance(model.templates, str) else None,
        "columns": list(model.columns_),
        "labels": {"outer": model.coding_.outer, "inner": model.coding_.inner, "classes": list(model.coding_.classes)},
        "features": model.features_.spec(),
        "transition_features": None if pairs is None else pairs.spec(),
        "convergence": {"status": outcome.status, "objective": outcome.objective, "iterations": outcome.iterations,
                        "evaluations": outcome.evaluations, "seconds": outcome.seconds},
    }  # fmt: skip
    write_model_file(path, _plain(header), arrays, strings)


def _plain(value: Any) -> Any:
    """The header as JSON can hold it: numpy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def load_model(path: str | os.PathLike[str], functions: Mapping[str, Callable[..., Any]] | None = None) -> Tagger:
    """A model from a file. `functions` gives a user's own feature functions again, by name."""
    file = read_model_file(path, expected_kind=KIND)
    try:
        return _restore(file, functions or {})
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except Exception as error:  # the file is sound, what it holds is not: whatever comes of that is its fault
        raise ModelFileError(
            f"{os.fspath(path)}: the parts of the model do not fit together ({type(error).__name__}: {error}); "
            "save the model again with this version of kinfolk"
        ) from error


def _restore(file: ModelFile, functions: Mapping[str, Callable[..., Any]]) -> Tagger:
    header = file.header
    if header["method"] not in METHODS:
        raise ModelFileError(f"method {header['method']!r} is not one of {', '.join(METHODS)}: upgrade kinfolk")
    model = METHODS[header["method"]]().set_params(**header["settings"])
    node = _features(file, "node", header["features"], functions)
    pair = (
        None
        if header["transition_features"] is None
        else _features(file, "pair", header["transition_features"], functions)
    )
    assert pair is None or isinstance(pair, TokenFeatures)
    labels = header["labels"]
    model.columns_ = tuple(header["columns"])
    model.coding_ = LabelCoding(labels["outer"], labels["inner"], Vocabulary(labels["classes"]))
    model.features_, model.transition_features_ = node, pair
    model.templates = header["templates_name"] or (node.templates if isinstance(node, TokenFeatures) else "sentence")
    model.transition_templates = None if pair is None else pair.templates
    model.weights_ = _checked_weights(
        file, Shape(node.n_features, len(model.coding_.classes), pair.n_features if pair else 0)
    )
    model.convergence_ = Convergence(**header["convergence"])
    return model


def _features(
    file: ModelFile, prefix: str, spec: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> TokenFeatures | DictFeatures:
    arrays = {n.removeprefix(f"{prefix}."): a for n, a in file.arrays.items() if n.startswith(f"{prefix}.")}
    strings = {n.removeprefix(f"{prefix}."): s for n, s in file.strings.items() if n.startswith(f"{prefix}.")}
    features = feature_set(spec, functions, strings)
    features.restore(arrays, strings)
    return features


def _checked_weights(file: ModelFile, shape: Shape) -> Weights:
    f, n, g = shape
    expected = Weights((f, n), (n,), (n, n), (g, n * n))._asdict()  # type: ignore[arg-type]
    arrays = {name: file.arrays[f"weights.{name}"] for name in expected}
    for name, array in arrays.items():
        if array.shape != expected[name]:
            raise ModelFileError(f"weights {name!r} have shape {array.shape}; the features ask for {expected[name]}")
    return Weights(**arrays)
