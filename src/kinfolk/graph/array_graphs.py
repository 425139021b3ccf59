"""Graphs held in arrays, to what `Graph` is built of: SciPy's matrices, data of PyTorch Geometric, graphs of DGL.

Nodes are numbered by their rows. Neither torch nor these libraries are imported: data are known by their attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.table import listed
from kinfolk.errors import InputError
from kinfolk.graph.link_features import LinkColumn, Wanted, array_columns
from kinfolk.graph.links import LinkCollector, LinkRows, LinkRules

MASKS = ("train", "val", "valid", "test")  # parts of a split, kept as "train_mask", ...
USUAL = {"features": "feat", "label": "label"}  # what DGL's own data sets call them


def scipy_parts(adjacency: Any, features: Any, rules: LinkRules) -> dict[str, Any]:
    """Features and relations of `Graph`: entry (i, j) of a matrix is the weight with which i looks at j."""
    given = dict(adjacency) if isinstance(adjacency, Mapping) else {rules.link: adjacency}
    matrices = {str(name): _checked_matrix(name, matrix) for name, matrix in given.items()}
    if not matrices and features is None:
        raise InputError("expected a matrix of links or features, to know how many nodes there are; got neither")
    table = features if features is None or sparse.issparse(features) else np.asarray(features)
    n = int(next(iter(matrices.values())).shape[0] if table is None else table.shape[0])
    links = LinkCollector(n, rules)
    for name, matrix in matrices.items():
        if matrix.shape != (n, n):
            raise InputError(f"relation {name!r} must have shape ({n}, {n}), a row a node; got {matrix.shape}")
        links.add(_matrix_rows(name, matrix), "the matrix", name)
    return {**_features(table, n), "relations": links.relations("the matrix")}


def _features(table: Any, n: int, names: Iterable[str] | None = None) -> dict[str, Any]:
    found = {"features": np.zeros((n, 0)), "feature_names": ()} if table is None else {"features": table}
    return found if names is None else {**found, "feature_names": list(names)}


def _checked_matrix(name: str, given: Any) -> Any:
    matrix = given if sparse.issparse(given) else np.asarray(given)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise InputError(f"relation {name!r} must be a matrix of numbers (n, n); got {matrix.dtype} {matrix.shape}")
    return sparse.coo_array(sparse.csr_array(matrix))  # repeated entries are added up


def _matrix_rows(name: str, matrix: Any) -> LinkRows:
    source, target = (ends.astype(np.int64) for ends in matrix.coords)
    weights = None if matrix.dtype.kind == "b" else matrix.data.astype(np.float64)
    place = lambda row: f"relation {name!r}, entry ({source[row]}, {target[row]})"  # noqa: E731
    return _array_link_rows(source, target, place, weights)


def _array_link_rows(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    place: Callable[[int], str],
    weights: NDArray[np.float64] | None,
    columns: Mapping[str, LinkColumn] = MappingProxyType({}),
) -> LinkRows:
    fault = lambda message, row: InputError(message if row is None else f"{place(row)}: {message}")  # noqa: E731
    if weights is not None and not np.isfinite(weights).all():
        row = int((~np.isfinite(weights)).argmax())
        raise fault(f"expected a finite number as weight, got {weights[row]}; replace it", row)
    return LinkRows(source, target, fault, place, lambda row: str(source[row]), str, weights, columns)


class EdgeColumns(NamedTuple):
    """The parts that attributes of edges play, in graphs held in arrays."""

    relation: str | None
    weight: str | None
    link_features: Wanted

    def rows(self, data: Any, source: NDArray[np.int64], target: NDArray[np.int64], place: Callable[[int], str]) -> Any:
        """The links, and the name of each, None where they have none."""
        n = len(source)
        weights = None if self.weight is None else _per_edge(data, self.weight, n).astype(np.float64)
        names = None if self.relation is None else [str(one) for one in _per_edge(data, self.relation, n).tolist()]
        columns: dict[str, LinkColumn] = {}
        for name in listed(self.link_features):
            columns |= array_columns(name, _edge_attribute(data, name), n)
        return _array_link_rows(source, target, place, weights, columns), names


def pyg_parts(
    data: Any, feature_names: Iterable[str] | None, of_edges: EdgeColumns, rules: LinkRules
) -> dict[str, Any]:
    """Arguments of `Graph` for a `Data` object: x, edge_index, y, and batch where several graphs were put together."""
    edges, x, y, batch = (_array(data, name) for name in ("edge_index", "x", "y", "batch"))
    if edges is None:
        several = "; turn several kinds of nodes into one with to_homogeneous()" if hasattr(data, "node_types") else ""
        raise InputError(f"expected an object with edge_index (2, E), got {type(data).__name__} without it{several}")
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise InputError(f"edge_index must be whole numbers (2, E); got {edges.dtype} {edges.shape}")
    known = len(x) if x is not None else getattr(data, "num_nodes", None if y is None else len(y))
    if known is None:
        raise InputError("expected x (n, F), y or num_nodes, to know how many nodes there are; got none of them")
    n = int(known)
    outside = np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=0))
    if len(outside):
        source, target = edges[:, outside[0]].tolist()
        got = f"link from {source} to {target}, but there are {n} nodes"
        raise InputError(f"edge_index, column {outside[0]}: {got}; add them or leave out {len(outside)} such links")
    source, target = edges.astype(np.int64)
    rows, names = of_edges.rows(data, source, target, lambda row: f"edge_index, column {row}")
    links = LinkCollector(n, rules, of_edges.link_features)
    links.add(rows, "x", names)
    groups = None if batch is None else batch.tolist()
    masks = {part: mask for part in MASKS if (mask := _array(data, f"{part}_mask")) is not None}
    parts = {**_features(x, n, feature_names), "labels": y, "groups": groups, "masks": _truth(masks, "")}
    return links.made(parts, "x")


def _truth(masks: Mapping[str, NDArray[Any]], where: str) -> dict[str, NDArray[np.bool_]]:
    """Masks as truth values; DGL and others write 0 and 1 as well."""
    found = {}
    for name, mask in masks.items():
        if mask.dtype.kind not in "bui" or (mask.dtype.kind != "b" and not np.isin(mask, (0, 1)).all()):
            raise InputError(f"{where}{name}_mask must hold truth values; got {mask.dtype}; turn it into truth values")
        found[name] = mask.astype(bool)
    return found


def dgl_parts(
    graph: Any,
    features: str | None,
    label: str | None,
    feature_names: Iterable[str] | None,
    of_edges: EdgeColumns,
    rules: LinkRules,
) -> dict[str, Any]:
    """Arguments of `Graph` for a graph of DGL, known by what it can be asked for: its nodes' data, edges, numbers."""
    if not all(hasattr(graph, name) for name in ("ndata", "edata", "edges", "num_nodes")):
        raise InputError(f"expected a graph of DGL, got {type(graph).__module__}.{type(graph).__name__}")
    kinds = list(getattr(graph, "canonical_etypes", ()))
    if len(kinds) > 1 or len(getattr(graph, "ntypes", ())) > 1:
        named = ", ".join(":".join(kind) for kind in kinds[:3])
        raise InputError(
            f"expected a graph with one kind of nodes and of links, got {len(kinds)} kinds of links ({named}): make "
            "one of it with dgl.to_homogeneous(graph, ndata=[...]), and name kinds of links by `relation='_TYPE'`"
        )
    x, y = (None if name is None else _column_of(graph.ndata, name, role) for name, role in
            ((features, "features"), (label, "label")))  # fmt: skip
    x = None if x is None else x[:, None] if x.ndim == 1 else x
    n, (source, target) = int(graph.num_nodes()), (_plain(ends).astype(np.int64) for ends in graph.edges())
    wanted = [of_edges.relation, of_edges.weight, *listed(of_edges.link_features)]
    data = SimpleNamespace(**{name: graph.edata[name] for name in wanted if name is not None and name in graph.edata})
    rows, names = of_edges.rows(data, source, target, lambda row: f"edge {row}")
    links = LinkCollector(n, rules, of_edges.link_features)
    links.add(rows, "the graph", names)
    masks = {part: _plain(graph.ndata[f"{part}_mask"]) for part in MASKS if f"{part}_mask" in graph.ndata}
    groups = None
    if getattr(graph, "batch_size", 1) > 1:
        groups = np.repeat(np.arange(graph.batch_size), _plain(graph.batch_num_nodes())).tolist()
    parts = {**_features(x, n, feature_names), "labels": y, "groups": groups, "masks": _truth(masks, "ndata: ")}
    return links.made(parts, "the graph")


def _column_of(data: Any, name: str, role: str) -> NDArray[Any] | None:
    """What nodes have of a name; None where it is the usual one and they have it not."""
    if name in data:
        return _plain(data[name])
    if name == USUAL[role]:
        return None
    listed = ", ".join(map(repr, data)) or "nothing"
    raise InputError(f"no {name!r} among the nodes' data ({role}); there is {listed}: name one with `{role}=...`")


def _array(data: Any, name: str) -> NDArray[Any] | None:
    """An attribute as an array, None if it is not there."""
    value: Any = getattr(data, name, None)
    return None if value is None else _plain(value)


def _plain(value: Any) -> NDArray[Any]:
    """Tensors are taken off their device."""
    if getattr(value, "is_sparse", False):
        value = value.to_dense()
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _edge_attribute(data: Any, name: str) -> NDArray[Any]:
    values = _array(data, name)
    if values is None:
        raise InputError(f"no attribute {name!r}; name one that the edges have, or None")
    return values


def _per_edge(data: Any, name: str, n_edges: int) -> NDArray[Any]:
    values = _edge_attribute(data, name)
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if flat.shape != (n_edges,) or flat.dtype.kind not in "fiub":
        raise InputError(f"{name} must be a number an edge ({n_edges},); got {flat.dtype} {values.shape}")
    return flat
