"""Graphs held in arrays, to what `Graph` is built of: SciPy's matrices, and the data objects of PyTorch Geometric.

Nodes are numbered by their rows. Neither torch nor PyTorch Geometric is imported: data are known by their attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.errors import InputError
from kinfolk.graph.links import LinkCollector, LinkRows, LinkRules


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


def _features(table: Any, n: int) -> dict[str, Any]:
    return {"features": np.zeros((n, 0)), "feature_names": ()} if table is None else {"features": table}


def _checked_matrix(name: str, given: Any) -> Any:
    matrix = given if sparse.issparse(given) else np.asarray(given)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise InputError(f"relation {name!r} must be a matrix of numbers (n, n); got {matrix.dtype} {matrix.shape}")
    return sparse.coo_array(sparse.csr_array(matrix))  # repeated entries are added up


def _matrix_rows(name: str, matrix: Any) -> LinkRows:
    source, target = (ends.astype(np.int64) for ends in matrix.coords)
    weights = None if matrix.dtype.kind == "b" else matrix.data.astype(np.float64)
    place = lambda row: f"relation {name!r}, entry ({source[row]}, {target[row]})"  # noqa: E731
    return _link_rows(source, target, place, weights)


def _link_rows(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    place: Callable[[int], str],
    weights: NDArray[np.float64] | None,
) -> LinkRows:
    fault = lambda message, row: InputError(message if row is None else f"{place(row)}: {message}")  # noqa: E731
    if weights is not None and not np.isfinite(weights).all():
        row = int((~np.isfinite(weights)).argmax())
        raise fault(f"expected a finite number as weight, got {weights[row]}; replace it", row)
    return LinkRows(source, target, fault, place, lambda row: str(source[row]), str, weights)


def pyg_parts(data: Any, relation: str | None, weight: str | None, rules: LinkRules) -> dict[str, Any]:
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
    weights = None if weight is None else _per_edge(data, weight, edges.shape[1]).astype(np.float64)
    names = None if relation is None else [str(kind) for kind in _per_edge(data, relation, edges.shape[1]).tolist()]
    source, target = edges.astype(np.int64)
    links = LinkCollector(n, rules)
    links.add(_link_rows(source, target, lambda row: f"edge_index, column {row}", weights), "x", names)
    groups = None if batch is None else batch.tolist()
    return {**_features(x, n), "labels": y, "relations": links.relations("x"), "groups": groups}


def _array(data: Any, name: str) -> NDArray[Any] | None:
    """An attribute as an array, None if it is not there; tensors are taken off their device."""
    value: Any = getattr(data, name, None)
    if getattr(value, "is_sparse", False):
        value = value.to_dense()
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return None if value is None else np.asarray(value)


def _per_edge(data: Any, name: str, n_edges: int) -> NDArray[Any]:
    values = _array(data, name)
    if values is None:
        raise InputError(f"no attribute {name!r}; name one that the edges have, or None")
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if flat.shape != (n_edges,) or flat.dtype.kind not in "fiub":
        raise InputError(f"{name} must be a number an edge ({n_edges},); got {flat.dtype} {values.shape}")
    return flat
