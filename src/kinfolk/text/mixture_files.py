"""What a model file keeps of a mixture of parents, and the model from it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.gate import LocalModel, gate_names
from kinfolk.collective.mixture import PARENT_FEATURES
from kinfolk.core.modelfile import ModelFile
from kinfolk.errors import ModelFileError
from kinfolk.graph.node_parents import NodeParents
from kinfolk.learning.tables import TableWeights
from kinfolk.text.edges import EdgeFeatures, edge_features
from kinfolk.text.skip_edges import LearnedSkips, learned_skips
from kinfolk.text.token_parents import TokenParents

Array = NDArray[Any]
Functions = Mapping[str, Callable[..., Any]]
Parts = tuple[dict[str, Any], dict[str, Array], dict[str, Any]]


def mixture_parts(model: Any) -> Parts:
    """(header, arrays, strings). Rows of a table that are all zero are left out."""
    arrays: dict[str, Array] = {}
    strings: dict[str, Any] = {}
    for d, weights in enumerate(model.weights_):
        for t, table in enumerate(weights.tables):
            rows = np.flatnonzero(table.any(axis=1))
            arrays[f"mixture.{d}.table.{t}.rows"], arrays[f"mixture.{d}.table.{t}.values"] = rows, table[rows]
        for name in ("start", "pair", "rows", "gate"):
            arrays[f"mixture.{d}.{name}"] = getattr(weights, name)
    if model.local_ is not None:
        arrays["mixture.local"] = model.local_.table
    specs = []
    for d, parents in enumerate(model.parents_):
        if parents.shares is not None:
            arrays[f"mixture.{d}.shares"] = parents.shares
        if isinstance(parents, NodeParents):
            specs.append(_node_spec(parents))
            continue
        specs.append(_token_spec(parents))
        for s, skip in enumerate(parents.skips):
            strings[f"mixture.{d}.skip.{s}"] = skip.state()
    return {"parents": specs, "local": model.local_ is not None}, arrays, strings


def _token_spec(parents: TokenParents) -> dict[str, Any]:
    return {
        "skips": [skip.spec() for skip in parents.skips],
        "backward": parents.backward,
        "parent_features": parents.parent_features,
        "edge_features": None if parents.edge_features is None else parents.edge_features.spec(),
        "gate_features": None if parents.gate_features is None else parents.gate_features.spec(),
        "pair_features": parents.n_pair_features,
        "shares": parents.shares is not None,
        "untrained": list(parents.untrained),
    }


def _node_spec(parents: NodeParents) -> dict[str, Any]:
    return {
        "links": list(parents.links),
        "ordered": parents.ordered,
        "parent_features": parents.parent_features,
        "everybody_starts": parents.everybody_starts,
        "gated": parents.gated,
        "given": parents.given,
        "not_used": list(parents.not_used),
        "untrained": list(parents.untrained),
        "shares": parents.shares is not None,
    }


def restore_mixture(model: Any, file: ModelFile, n_features: int, functions: Functions) -> None:
    """Set what `mixture_parts` kept; tables are for rows of n_features."""
    header, n_labels = file.header["mixture"], len(model.coding_.classes)
    parents, weights = [], []
    directions = 2 if model.task_ == "tokens" and model.order == "both" else 1
    if len(header["parents"]) != directions:
        raise ModelFileError(f"expected {directions} rule(s) for parents; the file has {len(header['parents'])}")
    for d, spec in enumerate(header["parents"]):
        shares = file.arrays[f"mixture.{d}.shares"] if spec["shares"] else None
        if spec["parent_features"] not in PARENT_FEATURES:
            raise ModelFileError(f"parent features {spec['parent_features']!r} are not known: upgrade kinfolk")
        rule = _node_rule(spec, shares) if model.task_ == "nodes" else _token_rule(file, d, spec, shares, functions)
        parents.append(rule)
        weights.append(_weights(file, d, rule, n_features, n_labels))
    model.parents_, model.weights_ = tuple(parents), tuple(weights)
    model.local_ = LocalModel(_shaped(file, "mixture.local", (n_features, n_labels))) if header["local"] else None
    if isinstance(parents[0], TokenParents):
        set_rules(model, parents[0].skips, parents[0].edge_features)


def set_rules(model: Any, skips: Sequence[LearnedSkips], features: EdgeFeatures | None) -> None:
    """The settings that became rules for skip edges, from those."""
    builders = [skip.builder for skip in skips]
    model.skip_edges = builders[0] if len(builders) == 1 else builders or None
    model.edge_features = None if features is None else features.features


def _node_rule(spec: Mapping[str, Any], shares: Array | None) -> NodeParents:
    links = tuple(spec["links"])
    flags = (spec["ordered"], spec["parent_features"], spec["everybody_starts"], spec["gated"])
    return NodeParents(links, *flags, shares, spec["given"], tuple(spec["not_used"]), tuple(spec["untrained"]))


def _token_rule(
    file: ModelFile, d: int, spec: Mapping[str, Any], shares: Array | None, functions: Functions
) -> TokenParents:
    skips = restored_skips(file, f"mixture.{d}", spec["skips"], functions)
    edge, gate = (_edge_features(spec[name], functions) for name in ("edge_features", "gate_features"))
    flags, untrained = (spec["backward"], spec["parent_features"]), tuple(spec["untrained"])
    return TokenParents(skips, *flags, edge, gate, shares, spec["pair_features"], untrained)


def restored_skips(
    file: ModelFile, prefix: str, specs: Sequence[Mapping[str, Any]], functions: Functions
) -> tuple[LearnedSkips, ...]:
    return tuple(learned_skips(spec, file.strings[f"{prefix}.skip.{s}"], functions) for s, spec in enumerate(specs))


def _edge_features(spec: Mapping[str, Any] | None, functions: Functions) -> EdgeFeatures | None:
    return None if spec is None else edge_features(spec, functions)


def _weights(file: ModelFile, d: int, rule: Any, n_features: int, n_labels: int) -> TableWeights:
    layout = rule.layout
    tables = []
    for t in range(layout.n_tables):
        rows = file.arrays[f"mixture.{d}.table.{t}.rows"]
        table = np.zeros((n_features, n_labels), np.float32)
        table[rows] = _shaped(file, f"mixture.{d}.table.{t}.values", (len(rows), n_labels))
        tables.append(table)
    n, n_gates = n_labels, _gate_size(rule)
    if rule.shares is not None and rule.shares.shape != (len(layout.relations) + 1,):
        raise ModelFileError(f"'mixture.{d}.shares' has shape {rule.shares.shape}; the relations ask for another")
    return TableWeights(
        tables,
        _shaped(file, f"mixture.{d}.start", (n,)),
        _shaped(file, f"mixture.{d}.pair", (len(layout.relations), n, n)),
        _shaped(file, f"mixture.{d}.rows", (layout.n_pair_features, n * n)),
        _shaped(file, f"mixture.{d}.gate", (n_gates,)),
    )


def _shaped(file: ModelFile, name: str, shape: tuple[int, ...]) -> Array:
    array = file.arrays[name]
    if array.shape != shape:
        raise ModelFileError(f"{name!r} has shape {array.shape}; the model asks for {shape}")
    return array


def _gate_size(rule: Any) -> int:
    if isinstance(rule, NodeParents):
        return len(gate_names(rule.names, [[]] * len(rule.names))) if rule.gated else 0
    if rule.gate_features is None:
        return 0
    return len(gate_names(rule.names, [[], *([rule.gate_features.names()] * len(rule.skips))]))
