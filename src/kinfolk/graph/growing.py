"""A graph that grows: new nodes and their links behind the nodes it has, which keep their place and their ids.

A model that was trained before knows the old nodes again by their ids, so their labels are known when the grown graph
is predicted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Classes, Coded
from kinfolk.core.table import Ids, NodeIds, Table, TableColumn, frame_table, listed
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.graph.asked import numbered, numbers_or_ids, rows_named
from kinfolk.graph.graph import Graph, checked_links
from kinfolk.graph.link_features import part_of, with_columns
from kinfolk.graph.links import LinkCollector
from kinfolk.graph.table_graphs import GraphColumns, TableParts, edge_tables, link_rows, node_parts
from kinfolk.graph.trained_columns import columns_as_trained

log = logging.getLogger("kinfolk")


def with_nodes(
    graph: Graph,
    features: Any,
    relations: Mapping[str, Any] | None,
    ids: Iterable[Any] | None,
    labels: Any,
    groups: Any,
    feature_names: Iterable[str] | None,
    titles: Any,
) -> Graph:
    """What `Graph.with_nodes` does."""
    ids = ids if ids is None or isinstance(ids, Ids) else list(ids)
    new = Graph(features, labels, None, ids, groups, feature_names, titles=titles)
    known = Ids(graph.ids, graph.node_ids).followed_by(_new_ids(graph, new, ids is not None))
    names = known.names
    rows = _new_rows(graph, new)
    stacked = sparse.issparse(graph.features) or sparse.issparse(rows)
    table = sparse.vstack([graph.features, rows], "csr") if stacked else np.concatenate([graph.features, rows])
    links = _grown_links(graph, relations or {}, names)
    masks = {name: _longer(mask, len(new)) for name, mask in graph.masks.items()}
    shown = None
    if graph.titles is not None or new.titles is not None:
        shown = [title for one in (graph, new) for title in one.titles or [""] * len(one)]
    return Graph(
        table, _all_labels(graph, new), links, known, _all_groups(graph, new, groups), graph.feature_names,
        titles=shown, masks=masks, link_features=graph.link_features,
    )  # fmt: skip


def _longer(mask: NDArray[np.bool_], m: int) -> NDArray[np.bool_]:
    return np.concatenate([mask, np.zeros((m, *mask.shape[1:]), bool)])


def _new_ids(graph: Graph, new: Graph, given: bool) -> Ids:
    n = graph.n_nodes
    if not given:
        if not numbered(graph.ids):
            example = graph.ids[0]
            raise InputError(f"new nodes need `ids=[...]`: the graph knows its nodes by ids, such as {example!r}")
        return Ids.of(map(str, range(n, n + len(new))), np.arange(n, n + len(new)))
    place = {key: i for i, key in enumerate(graph.ids)}
    again = next((i for i, key in enumerate(new.ids) if key in place), None)
    if again is not None:
        key = new.ids[again]
        what = f"ids must be distinct; {key!r}, new node {again}, is node {place[key]} of the graph already"
        raise InputError(f"{what}: give new nodes alone, or another id")
    return Ids(new.ids, new.node_ids)


def _new_rows(graph: Graph, new: Graph) -> Any:
    """Their features, in the columns of the graph."""
    if new.feature_names is not None and graph.feature_names is not None:
        return new.feature_rows(graph.feature_names)
    if new.n_features != graph.n_features:
        raise InputError(
            f"new nodes must have the {graph.n_features} features of the graph; got {new.n_features}: give them all, "
            "in the same order, or name them with `feature_names=[...]` in both"
        )
    return new.features


def _all_labels(graph: Graph, new: Graph) -> Coded:
    """The classes stay as they are, unless there are new ones."""
    before, here = graph.classes, new.classes
    if not len(here):
        return Coded(np.concatenate([graph.label_codes, new.label_codes]), before)
    if len(before) and before.type != here.type:
        raise InputError(
            f"labels must be of one type; those of the graph are {before.type}, those of new nodes {here.type}: turn "
            "one into the other"
        )
    more = {*here.names} - {*before.names}
    classes = before if not more else Classes.sorted({*before.names, *more}, here.type)
    parts = []
    for one in (graph, new):
        table = np.append(classes.encode(one.classes.names), np.int32(-1)).astype(np.int32)
        parts.append(table[one.label_codes])
    return Coded(np.concatenate(parts), classes)


def _all_groups(graph: Graph, new: Graph, given: Any) -> list[str]:
    if given is None and graph.n_groups > 1:
        some = ", ".join(map(repr, graph.group_names[:3]))
        raise InputError(
            f"the graph has {graph.n_groups} groups ({some}, ...): say whose new nodes are, `groups=[...]`"
        )
    before = [graph.group_names[code] for code in graph.group_codes.tolist()]
    if given is None:
        return before + [graph.group_names[0] if graph.n_groups else "0"] * len(new)
    return before + [new.group_names[code] for code in new.group_codes.tolist()]


# -- links --------------------------------------------------------------------------------------------


def _grown_links(graph: Graph, given: Mapping[str, Any], ids: Sequence[str]) -> dict[str, Any]:
    strange = next((name for name in given if name not in graph.relations), None)
    if strange is not None:
        here = ", ".join(map(repr, graph.relations)) or "none"
        raise InputError(
            f"there is no relation {strange!r} in this graph; there are: {here}. Name links as the graph does (of "
            "tables by `link=...` and `inverse=...`); new kinds of links come in by graph.with_relations"
        )
    n = len(ids)
    found = {}
    for name, links in graph.relations.items():
        wider = sparse.csr_array((links.data, links.indices, _more_rows(links.indptr, n)), shape=(n, n))
        found[name] = wider if name not in given else _added(name, wider, given[name], ids)
    _warn_of_one_way(graph, found)
    return found


def _more_rows(indptr: NDArray[Any], n: int) -> NDArray[Any]:
    return np.concatenate([indptr, np.full(n + 1 - len(indptr), indptr[-1], indptr.dtype)])


def _added(name: str, links: Any, given: Any, ids: Sequence[str]) -> Any:
    """Links from pairs count once, those that are there already not again; weights of a matrix are added."""
    if sparse.issparse(given):
        return sparse.csr_array(links + checked_links(name, given, len(ids), "drop"))
    more = checked_links(name, _pairs(name, given, ids), len(ids), "drop")
    again = more.multiply(links.astype(bool))
    if again.nnz:
        log.warning("relation %r: %d links were there already, and stay as they were", name, again.nnz)
    total = sparse.csr_array(links + more - again)
    total.eliminate_zeros()
    return total


def _pairs(name: str, given: Any, ids: Sequence[str]) -> NDArray[np.int64]:
    """Ends by number in the grown graph, new nodes after the others, or by id."""
    pairs = np.asarray(given if np.size(given) else np.empty((0, 2), np.int64), None)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iuOUT":
        wanted = "pairs (source, target) of numbers or ids, or a SciPy sparse matrix of the grown graph"
        raise InputError(f"relation {name!r} must be {wanted}; got {pairs.dtype} {pairs.shape}")
    what, flat = f"relation {name!r}", pairs.ravel()
    if pairs.dtype.kind in "iu":
        return numbers_or_ids(flat, ids, what).reshape(-1, 2)
    return rows_named([end for pair in given for end in pair], ids, what).reshape(-1, 2)


def _warn_of_one_way(graph: Graph, grown: Mapping[str, Any]) -> None:
    """Two relations that were each other's inverse, or one that went both ways, and no longer do."""
    names = list(graph.relations)
    for i, one in enumerate(names):
        for other in names[i:]:
            if one.partition("[")[2] != other.partition("[")[2]:
                continue  # parts by different values, "pays[kind=card]" and "paid_by[kind=cash]"
            before = graph.relations[one], graph.relations[other]
            if before[0].nnz and _inverse(*before) and not _inverse(grown[one], grown[other]):
                was = f"relation {one!r} had every link both ways"
                if one != other:
                    was = f"relations {one!r} and {other!r} were each other's inverse"
                warn(f"{was}, and with the new links that is no longer so; give these both ways too", DataWarning)


def _inverse(one: Any, other: Any) -> bool:
    return bool(one.nnz == other.nnz and (one.astype(bool) != sparse.csr_array(other.T).astype(bool)).nnz == 0)


def _of_known_values(graph: Graph, relations: Mapping[str, Any]) -> dict[str, Any]:
    """Without the links of a value that no link of the graph has; the whole has them."""
    found = {}
    for name, links in relations.items():
        part = part_of(name)
        if part is not None and name not in graph.relations and any(part_of(one) == part for one in graph.relations):
            log.warning("relation %r is not in the graph, and is left out; %r has its links too", name, part[0])
            continue
        found[name] = links
    return found


# -- tables -------------------------------------------------------------------------------------------


def with_frames(graph: Graph, nodes: Any, edges: Any, columns: GraphColumns) -> Graph:
    """What `Graph.with_frames` does."""
    table, parts = frame_table(nodes, "nodes"), TableParts.of(columns)
    which = parts.columns
    if graph.feature_names is not None:
        which = columns_as_trained(which, graph.feature_names, list(table.columns))
    new = NodeIds(table, which.id).ids
    new_ids = new.names
    place = {key: i for i, key in enumerate(graph.ids)}
    again = next((row for row, key in enumerate(new_ids) if key in place), None)
    if again is not None:
        what = f"{new_ids[again]!r} is node {place[new_ids[again]]} of the graph already"
        raise table.fault(f"{what}; leave out the rows of nodes that are known", again)
    made = node_parts(table, new_ids, which)
    known = [*graph.ids, *new_ids]
    ids = NodeIds(Table("the graph", {"id": lambda: TableColumn("text", known, "strings")}, len(known)), "id")
    cuts = {**dict.fromkeys(listed(parts.ends.link_features)), **graph.link_features}
    wanted = {name: cuts[name] for name in listed(parts.ends.link_features)}
    links = LinkCollector(len(known), parts.rules, wanted)
    for name, frame in edge_tables(edges):
        names = name if parts.ends.relation is None else frame.full_names(parts.ends.relation, "relation")
        links.add(link_rows(frame, ids, parts.ends), "the graph and the new nodes", names)
    relations = _of_known_values(graph, links.relations("the graph and the new nodes"))
    names_of_links, of_links = links.features()
    made = with_columns(made, names_of_links, of_links[graph.n_nodes :])
    labels, titles = made["labels"] if which.label is not None else None, made["titles"]
    return with_nodes(graph, made["features"], relations, new, labels, made["groups"], made["feature_names"], titles)
