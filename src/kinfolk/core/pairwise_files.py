"""What a model file keeps of a skip-chain CRF or a link model, and the model from it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.modelfile import ModelFile
from kinfolk.errors import ModelFileError
from kinfolk.graph.link_model import LinkModel
from kinfolk.learning.tables import TableWeights
from kinfolk.text.edges import edge_features
from kinfolk.text.mixture_files import restored_skips, set_rules

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
