"""Model files: a fitted model to header, arrays and strings, and back."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import TYPES, Classes, label_name
from kinfolk.core.modelfile import ModelFile, fits, read_model_file, write_model_file
from kinfolk.core.settings import check_settings
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Convergence
from kinfolk.errors import ModelFileError, SettingError
from kinfolk.graph.dependency import DependencyNetwork
from kinfolk.graph.link_model import LinkModel
from kinfolk.graph.nodes import memory_parts, restored_memory
from kinfolk.graph.stacked import (
    StackedGraphical,
    check_token_levels,
    company_parts,
    node_parts,
    restore_nodes,
    restored_company,
)
from kinfolk.learning.loglinear import Shape, TableWeights, Weights
from kinfolk.linking.linker import OBJECTS, Linker, linker_parts, restore_linker
from kinfolk.linking.training import check_linker_settings
from kinfolk.text.attributes import Context, Derived, Gazetteer, PerWord, Raw, matches, prefix, suffix
from kinfolk.text.batch import class_weights
from kinfolk.text.chain import MEMM, ChainTagger, LinearChainCRF, MaxEnt
from kinfolk.text.dicts import DictFeatures
from kinfolk.text.extraction import TokenFeatures
from kinfolk.text.mixture import MixtureOfParents, mixture_parts, restore_mixture, restored_skips, set_rules
from kinfolk.text.schemes import SCHEMES, LabelCoding, check_encoding
from kinfolk.text.skip_chain import SkipChainCRF
from kinfolk.text.skip_edges import edge_features
from kinfolk.text.tagger import Tagger
from kinfolk.text.templates import Attribute, Conjunction, Elsewhere, PerToken, Template, bag

# -- What a model file keeps of a skip-chain CRF or a link model, and the model from it again ----------

Array = NDArray[Any]
Functions = Mapping[str, Callable[..., Any]]


def pairwise_parts(model: Any) -> tuple[dict[str, Any], dict[str, Array], dict[str, Any]]:
    """(header, arrays, strings)."""
    weights = model.weights_
    arrays = {"pairwise.table": weights.tables[0]}
    arrays |= {f"pairwise.{name}": getattr(weights, name) for name in ("start", "pair", "rows")}
    if isinstance(model, LinkModel):
        return {"links": list(model.links_), "not_used": list(model.not_used_)}, arrays, {}
    edge = model.edge_features_
    header: dict[str, Any] = {
        "skips": [skip.spec() for skip in model.skips_],
        "edge_features": None if edge is None else edge.spec(),
    }
    return header, arrays, {f"pairwise.skip.{s}": skip.state() for s, skip in enumerate(model.skips_)}


def restore_pairwise(model: Any, file: ModelFile, n_features: int, functions: Functions) -> None:
    """Set what `pairwise_parts` kept; the table is for rows of n_features."""
    header = file.header["pairwise"]
    if isinstance(model, LinkModel):
        model.links_, model.not_used_ = tuple(header["links"]), tuple(header["not_used"])
        n_relations, n_edge = len(model.links_), 0
    else:
        model.skips_ = restored_skips(file, "pairwise", header["skips"], functions)
        spec = header["edge_features"]
        model.edge_features_ = None if spec is None else edge_features(spec, functions)
        set_rules(model, model.skips_, model.edge_features_)
        n_relations = 1 + len(model.skips_)
        n_edge = 0 if model.edge_features_ is None or not model.skips_ else len(model.edge_features_.names())
    n = len(model.coding_.classes)
    shapes = {"table": (n_features, n), "start": (n,), "pair": (n_relations, n, n), "rows": (n_edge, n * n)}
    found = {name: file.arrays[f"pairwise.{name}"] for name in shapes}
    for name, array in found.items():
        if array.shape != shapes[name]:
            raise ModelFileError(f"'pairwise.{name}' has shape {array.shape}; the model asks for {shapes[name]}")
    model.weights_ = TableWeights([found["table"]], found["start"], found["pair"], found["rows"], np.zeros(0))
    model.training_report_ = None


# -- Feature templates from the JSON description in a model file ---------------------------------------
#
# A user's functions are not in the file: it keeps their names, and they are passed in again.

_CHECKED: dict[str, Callable[..., Attribute]] = {"prefix": prefix, "suffix": suffix, "matches": matches}
Strings = Mapping[str, Sequence[str]]


def feature_set(spec: Mapping[str, Any], functions: Functions, strings: Strings) -> TokenFeatures | DictFeatures:
    """The feature set described by `TokenFeatures.spec()` or `DictFeatures.spec()`, without its tables."""
    if spec.get("dicts"):
        return DictFeatures(spec["min_count"])
    rebuild = _Rebuild(functions, strings)
    return TokenFeatures([rebuild.template(t) for t in spec["templates"]], spec["min_count"])


class _Rebuild:
    def __init__(self, functions: Functions, strings: Strings) -> None:
        self._functions, self._strings = functions, strings

    def template(self, spec: Mapping[str, Any]) -> Template:
        if "conjunction" in spec:
            return self._conjunction(spec)
        if "bag" in spec:
            return bag(self.attribute(spec["bag"]), int(spec["first"]), int(spec["last"]))
        if "elsewhere" in spec:
            return Elsewhere(self._conjunction(spec["elsewhere"]))
        if "per_token" in spec:
            return PerToken(spec["per_token"], self._function(spec["per_token"]))
        raise _unknown(spec)

    def _conjunction(self, spec: Mapping[str, Any]) -> Conjunction:
        return Conjunction(tuple((self.attribute(a), int(offset)) for a, offset in spec["conjunction"]))

    def attribute(self, spec: Mapping[str, Any]) -> Attribute:
        if "column" in spec:
            return Raw(spec["column"])
        if "kind" in spec:
            make = _CHECKED.get(spec["kind"], functools.partial(Derived, spec["kind"], ()))
            return make(*spec["arguments"], of=self.attribute(spec["of"]))
        if "function" in spec:
            return PerWord(spec["function"], self._function(spec["function"]))
        if "document" in spec:
            return Context(spec["document"])
        if "gazetteer" in spec:
            entries = self._strings[f"gazetteer.{spec['gazetteer']}"]
            return Gazetteer(spec["gazetteer"], frozenset(entries), spec["ignore_case"])
        raise _unknown(spec)

    def _function(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            given = ", ".join(self._functions) or "none"
            raise ModelFileError(
                f"the model uses a feature function named {name!r}, which a file cannot hold; pass it in again: "
                f"load_model(path, functions={{{name!r}: ...}}). Given: {given}"
            )
        return self._functions[name]


def _unknown(spec: Mapping[str, Any]) -> ModelFileError:
    return ModelFileError(f"the model uses a feature template this version does not know: {sorted(spec)}")


# -- Model files: a fitted model to header, arrays and strings, and back -------------------------------

KINDS = ("tokens", "nodes", "mentions")
METHODS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        MaxEnt, MEMM, LinearChainCRF, MixtureOfParents, SkipChainCRF, LinkModel, StackedGraphical, DependencyNetwork,
        Linker,
    )
}  # fmt: skip
# Settings that are objects are kept as what they became: feature sets, rules for parents.
NOT_KEPT = ("templates", "transition_templates", "skip_edges", "edge_features", "base")
GONE = {"DependencyNetwork": ("known",)}  # settings that files of before have; what is known is said when predicting


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model."""
    header, arrays, strings = _parts(model)
    write_model_file(path, _plain(header), arrays, strings)


def _parts(model: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(header, arrays, strings) of a fitted model."""
    if isinstance(model, Linker):
        own, arrays, strings = linker_parts(model)
        return {**_head(model), "linker": own}, arrays, strings
    header = {**_head(model), "labels": _label_parts(model.coding_)}
    arrays = {}
    strings = {}
    if isinstance(model, StackedGraphical | DependencyNetwork):
        _put_stacked(model, header, arrays, strings)
        return header, arrays, strings
    header["convergence"] = model.convergence_.for_file()
    if header["kind"] == "tokens":
        _put_features(model, header, arrays, strings)
    else:
        _put_nodes(model, header, arrays, strings)
    if isinstance(model, ChainTagger):
        header["extra"] = model.weights_.node.shape[0] - model.features_.n_features
        arrays.update({f"weights.{name}": array for name, array in model.weights_._asdict().items()})
    else:
        is_mixture = isinstance(model, MixtureOfParents)
        own_header, own_arrays, own_strings = (mixture_parts if is_mixture else pairwise_parts)(model)
        header["mixture" if is_mixture else "pairwise"] = own_header
        arrays.update(own_arrays)
        strings.update(own_strings)
    return header, arrays, strings


def _label_parts(coding: LabelCoding) -> dict[str, Any]:
    classes = coding.classes
    return {"outer": coding.outer, "inner": coding.inner, "classes": list(classes.names), "type": classes.type}


def _restored_labels(labels: Mapping[str, Any]) -> LabelCoding:
    """A file without a type is of the time when all labels were strings."""
    names, kind = labels["classes"], labels.get("type", "str")
    if kind not in TYPES:
        raise ModelFileError(f"labels of type {kind!r} are not known; expected {', '.join(TYPES)}: upgrade kinfolk")
    fits({labels["outer"], labels["inner"]} <= {None, *SCHEMES})
    classes = Classes(names, kind)
    fits(all(map(str.__eq__, names, map(label_name, classes))))
    return LabelCoding(labels["outer"], labels["inner"], classes)


def _head(model: Any) -> dict[str, Any]:
    settings = model.get_params(deep=False).items()
    objects = OBJECTS if isinstance(model, Linker) else NOT_KEPT
    kept = {name: value for name, value in settings if name not in objects}
    if isinstance(weights := kept.get("class_weight"), Mapping):
        kept["class_weight"] = {label_name(label): weight for label, weight in weights.items()}
    return {"kind": kind_of(model), "method": type(model).__name__, "settings": kept}


def _put_stacked(model: Any, header: dict[str, Any], arrays: dict[str, Any], strings: dict[str, Any]) -> None:
    """Templates, and the trained bases: scikit-learn's by skops, kinfolk's as models within the model."""
    if header["kind"] == "nodes":
        _put_nodes(model, header, arrays, strings)
        header["stacked"], own_arrays, own_strings = node_parts(model)
        arrays.update(own_arrays)
        strings.update(own_strings)
    else:
        header["stacked"], own_strings = company_parts(model.company_)
        strings.update(own_strings)
        header["stacked"].update(known=model.known_, alone=model.alone_, levels=[])
        for i, level in enumerate(model.levels_):
            parts = _parts(level)
            header["stacked"]["levels"].append(parts[0])
            for kept, own in ((arrays, parts[1]), (strings, parts[2])):
                kept.update({f"level.{i}.{name}": value for name, value in own.items()})
    header["stacked"]["bases"] = isinstance(model.base, list | tuple)
    if "folds" in header["settings"] and not isinstance(model.folds, int | np.integer):
        header["settings"]["folds"] = int(model.folds_.max()) + 1  # given by instance: those of the training data


def kind_of(model: Any) -> str:
    """What a model labels."""
    if isinstance(model, Linker):
        return "mentions"
    if isinstance(model, MixtureOfParents | StackedGraphical):
        return model.task_
    return "nodes" if isinstance(model, LinkModel | DependencyNetwork) else "tokens"


def _put_features(model: Tagger, header: dict[str, Any], arrays: dict[str, Any], strings: dict[str, Any]) -> None:
    pairs = model.transition_features_
    header["templates_name"] = model.templates if isinstance(model.templates, str) else None
    header["columns"] = list(model.columns_)
    header["features"] = model.features_.spec()
    header["transition_features"] = None if pairs is None else pairs.spec()
    for part, features in (("node", model.features_), ("pair", pairs)):
        if features is not None:
            own_arrays, own_strings = features.state()
            arrays.update({f"{part}.{name}": array for name, array in own_arrays.items()})
            strings.update({f"{part}.{name}": names for name, names in own_strings.items()})


def _plain(value: Any) -> Any:
    """The header as JSON can hold it: numpy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def load_model(
    path: str | os.PathLike[str],
    functions: Functions | None = None,
    kind: str | None = None,
    trusted: Sequence[str] = (),
) -> Any:
    """A model from a file. `functions` gives a user's own functions (features, skip edges) again, by name.

    kind     "tokens", "nodes" or "mentions", where only such a model will do
    trusted  names of types in a scikit-learn base that are not looked over on loading, and that you trust
    """
    if functions is not None and not isinstance(functions, Mapping):
        told = type(functions).__name__
        raise SettingError(f"functions must map names to functions, {{'name': function}}; got a {told}")
    file = read_model_file(path, expected_kind=kind)
    try:
        return _restore(file, functions or {}, trusted)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:  # the file is sound, what it holds is not: whatever comes of that is its fault
        raise ModelFileError(
            f"{os.fspath(path)}: the parts of the model do not fit together ({type(error).__name__}: {error}); "
            "save the model again with this version of kinfolk"
        ) from error


def _restore(file: ModelFile, functions: Functions, trusted: Sequence[str]) -> Any:
    header = file.header
    if header["kind"] not in KINDS:
        raise ModelFileError(f"a model of kind {header['kind']!r} is not known; expected {', '.join(KINDS)}")
    if header["method"] not in METHODS:
        raise ModelFileError(f"method {header['method']!r} is not one of {', '.join(METHODS)}: upgrade kinfolk")
    model = METHODS[header["method"]]().set_params(**_kept_settings(METHODS[header["method"]], header["settings"]))
    if isinstance(model, Linker):
        restore_linker(model, file, functions)
        _check_kept(model)
        return model
    model.coding_ = _restored_labels(header["labels"])
    classes, weights = model.coding_.classes, header["settings"].get("class_weight")
    if isinstance(weights, Mapping) and classes.type != "str":
        model.class_weight = {classes[classes.get(name)]: weight for name, weight in weights.items()}
    _check_kept(model)
    if isinstance(model, StackedGraphical | DependencyNetwork):
        _set_stacked(model, file, functions, trusted)
        return model
    width = _set_features(model, file, functions) if header["kind"] == "tokens" else _set_nodes(model, file)
    if isinstance(model, MixtureOfParents):
        model.task_ = header["kind"]
        restore_mixture(model, file, width, functions)
    elif isinstance(model, SkipChainCRF | LinkModel):
        restore_pairwise(model, file, width, functions)
    else:
        pairs = model.transition_features_
        shape = Shape(width + int(header["extra"]), len(model.coding_.classes), pairs.n_features if pairs else 0)
        model.weights_ = _checked_weights(file, shape)
    model.convergence_ = Convergence.from_file(header["convergence"])
    return model


def _kept_settings(method: Any, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    objects, gone = OBJECTS if method is Linker else NOT_KEPT, GONE.get(method.__name__, ())
    settings = {name: value for name, value in settings.items() if name not in gone}
    strange = [name for name in settings if name in objects or name not in method._setting_names()]
    if strange:
        raise ModelFileError(f"{method.__name__} keeps no setting {strange[0]!r} in a file: altered, or newer")
    return settings


def _check_kept(model: Any) -> None:
    """Settings from a file are checked as `fit` checks them."""
    try:
        if isinstance(model, Linker):
            check_linker_settings(model)
            model.clusterer_.check()
        else:
            check_settings(model)
            if hasattr(model, "encoding"):
                check_encoding(model.encoding)
            if hasattr(model, "class_weight"):
                classes = model.coding_.classes
                class_weights(np.arange(len(classes), dtype=np.int32), classes, model.class_weight)
            if hasattr(model, "folds") and not (isinstance(model.folds, int) and model.folds >= 1):
                raise SettingError(f"folds must be a whole number of 1 or more; got {model.folds!r}")
        resolve_jobs(model.n_jobs)
        if not isinstance(model.verbose, int | None):
            raise SettingError(f"verbose must be a whole number; got {model.verbose!r}")
    except SettingError as error:
        raise ModelFileError(f"{error}. The file was altered; train and save the model again") from None


def _set_stacked(model: Any, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
    from sklearn.base import clone

    spec, kind = file.header["stacked"], file.header["kind"]
    if isinstance(model, StackedGraphical):
        fits(spec["known"] in {*model.CHOICES["known"]} - {"auto"})
    learners: list[Any]
    if kind == "nodes":
        width = _set_nodes(model, file)
        learners = list(restore_nodes(model, file, width, functions, trusted))
        bases = [None if learner.estimator is None else clone(learner.estimator) for learner in learners]
    else:
        levels = enumerate(spec["levels"])
        learners = [_restore(_inner(file, i, level), functions, trusted) for i, level in levels]
        model.company_ = restored_company(spec, file, functions)
        model.templates, model.known_ = list(model.company_.templates), spec["known"]
        model.alone_ = spec.get("alone", "last")  # files of an earlier make do not say
        check_token_levels(model, learners)
        bases = [type(level)(**level.get_params()) for level in learners]
    model.base = bases if spec["bases"] else bases[-1]
    if isinstance(model, DependencyNetwork):
        model.local_, model.conditional_ = learners
    else:
        model.task_, model.levels_ = kind, learners


def _inner(file: ModelFile, level: int, header: dict[str, Any]) -> ModelFile:
    """A model within a model."""
    prefix = f"level.{level}."
    arrays = {name.removeprefix(prefix): a for name, a in file.arrays.items() if name.startswith(prefix)}
    strings = {name.removeprefix(prefix): s for name, s in file.strings.items() if name.startswith(prefix)}
    return replace(file, header=header, arrays=arrays, strings=strings)


def _set_features(model: Tagger, file: ModelFile, functions: Functions) -> int:
    """Set the feature sets of a token model; returns the number of features."""
    header = file.header
    node = _features(file, "node", header["features"], functions)
    pair = None
    if header["transition_features"] is not None:
        pair = _features(file, "pair", header["transition_features"], functions)
    assert pair is None or isinstance(pair, TokenFeatures)
    model.columns_ = tuple(header["columns"])
    model.features_, model.transition_features_ = node, pair
    model.templates = header["templates_name"] or (node.templates if isinstance(node, TokenFeatures) else "sentence")
    model.transition_templates = None if pair is None else pair.templates
    return node.n_features


def _put_nodes(model: Any, header: dict[str, Any], arrays: dict[str, Any], strings: dict[str, Any]) -> None:
    """The features a model of nodes knows, by name, or how many; and the nodes it was trained on."""
    named = not isinstance(model.node_columns_, int)
    header["columns"] = None if named else model.node_columns_
    if named:
        strings["columns"] = list(model.node_columns_)
    if getattr(model, "reading_", None):
        header["reading"] = dict(model.reading_)
    header["memory"], own_arrays, own_strings = memory_parts(model.memory_)
    arrays.update(own_arrays)
    strings.update(own_strings)


def _set_nodes(model: Any, file: ModelFile) -> int:
    """Set the columns of a model of nodes, and the nodes trained on; returns the number of columns."""
    model.memory_ = restored_memory(file, len(model.coding_.classes))
    known = file.header["columns"]
    model.node_columns_ = tuple(file.strings["columns"]) if known is None else int(known)
    reading = file.header.get("reading", {})  # how the shell read the tables of training
    fits(isinstance(reading, dict) and all(isinstance(value, str | bool | list) for value in reading.values()))
    model.reading_ = reading
    return len(file.strings["columns"]) if known is None else int(known)


def _features(
    file: ModelFile, prefix: str, spec: Mapping[str, Any], functions: Functions
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
