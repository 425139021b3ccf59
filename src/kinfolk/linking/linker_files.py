"""What a model file keeps of a Linker, and the Linker from it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kinfolk.core.modelfile import ModelFile, fits
from kinfolk.core.training import Convergence
from kinfolk.errors import ModelFileError
from kinfolk.linking.bias import Bias
from kinfolk.linking.blocking import as_rules
from kinfolk.linking.clusterers import CLUSTERERS
from kinfolk.linking.comparisons import rebuilt_comparison
from kinfolk.linking.coreference import CoreferencePairs
from kinfolk.linking.linker import Linker
from kinfolk.linking.pair_table import CodedColumn, PairSet
from kinfolk.linking.pairs import PairColumn, PairFeature, Statistics
from kinfolk.linking.training import Round

Functions = Mapping[str, Callable[..., Any]]
OBJECTS = ("features", "blocking", "bias", "clusterer", "conjunctions")  # settings that are kept as what they became


def linker_parts(model: Linker) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(header, arrays, strings) of a fitted Linker."""
    learned = model.pair_set_
    statistics = [feature.statistics() for feature in learned.features]
    clusterer = model.clusterer_
    if CLUSTERERS.get(type(clusterer).__name__) is not type(clusterer):
        raise ModelFileError(f"a file cannot hold a clusterer of your own, {type(clusterer).__name__}; save without it")
    header = {
        "features": [feature.spec() for feature in learned.features],
        "statistics": [None if one is None else dict(one.numbers) for one in statistics],
        "columns": [len(column.values) if column.edges is None else None for column in learned.columns],
        "joined": [list(pair) for pair in learned.joined],
        "bias": None if model.bias is None else vars(model.bias),
        "clusterer": [type(clusterer).__name__, clusterer.get_params()],
        "blocking": None if model.blocking is None else [str(rule) for rule in as_rules(model.blocking)],
        "best_round": model.best_round_,
        "rounds": [{**vars(r), "convergence": r.convergence.for_file()} for r in model.rounds_],
    }
    arrays = {"weights": model.weights_, "shares": model.shares_}
    for k, column in enumerate(learned.columns):
        if column.edges is not None:
            arrays[f"edges.{k}"] = column.edges
    strings: dict[str, Any] = {"column_names": [column.name for column in learned.columns]}
    for k, column in enumerate(learned.columns):
        if column.edges is None:
            strings[f"values.{k}"] = list(column.values)
    for k, one in enumerate(statistics):
        arrays |= {} if one is None else {f"statistics.{k}.{name}": array for name, array in one.arrays.items()}
        strings |= {} if one is None else {f"statistics.{k}.{name}": texts for name, texts in one.strings.items()}
    return header, arrays, strings


def restore_linker(model: Linker, file: ModelFile, functions: Functions) -> None:
    spec = file.header["linker"]
    features = [_feature(one, functions) for one in spec["features"]]
    if "statistics" in spec:  # files of before have none: their features go by the items at hand
        told = zip(features, spec["statistics"], strict=True)
        features = [one if kept is None else _with_statistics(one, kept, file, k) for k, (one, kept) in enumerate(told)]
    names = file.strings["column_names"]
    answered = [column for feature in features for column in feature.columns]
    fits([column.name for column in answered] == list(names))  # codes must be those that the weights are for
    columns = [_column(file, k, *told) for k, told in enumerate(zip(answered, spec["columns"], strict=True))]
    joined = [(int(a), int(b)) for a, b in spec["joined"]]
    fits(all(0 <= k < len(columns) for pair in joined for k in pair))
    fits(all(a.values == (c.values if c.edges is None else None) for a, c in zip(answered, columns, strict=True)))
    model.pair_set_ = PairSet(features, columns, joined)
    weights, shares = file.arrays["weights"], file.arrays["shares"]
    fits(weights.shape == (model.pair_set_.n_weights,) and shares.shape == weights.shape)
    fits(bool(np.isfinite(weights).all() and np.isfinite(shares).all()))
    model.weights_, model.shares_ = weights.astype(np.float64), shares.astype(np.float64)
    model.features = features
    model.conjunctions = [(names[a], names[b]) for a, b in joined] or None
    model.bias = None if spec["bias"] is None else Bias(**spec["bias"])
    name, settings = spec["clusterer"]
    if name not in CLUSTERERS:
        raise ModelFileError(f"clusterer {name!r} is not one of {', '.join(CLUSTERERS)}: upgrade kinfolk")
    model.clusterer_ = model.clusterer = CLUSTERERS[name](**settings)
    model.blocking = spec["blocking"]
    model.rounds_ = [Round(**{**r, "convergence": Convergence.from_file(r["convergence"])}) for r in spec["rounds"]]
    model.best_round_ = int(spec["best_round"])
    model.convergence_ = model.rounds_[model.best_round_].convergence


def _feature(spec: Mapping[str, Any], functions: Functions) -> PairFeature:
    return CoreferencePairs() if "coreference" in spec else rebuilt_comparison(spec, functions)


def _with_statistics(feature: PairFeature, numbers: Mapping[str, Any], file: ModelFile, k: int) -> PairFeature:
    def own(parts: Mapping[str, Any]) -> dict[str, Any]:
        begin = f"statistics.{k}."
        return {name.removeprefix(begin): part for name, part in parts.items() if name.startswith(begin)}

    return feature.with_statistics(Statistics(numbers, own(file.arrays), own(file.strings)))


def _column(file: ModelFile, k: int, answered: PairColumn, size: int | None) -> CodedColumn:
    if size is None:
        edges = file.arrays[f"edges.{k}"]
        fits(edges.ndim == 1 and len(edges) < 255 and (np.diff(edges) > 0).all())
        return CodedColumn.binned(answered.name, edges, answered.words)
    values = tuple(file.strings[f"values.{k}"])
    fits(len(values) == size)
    return CodedColumn(answered.name, values)
