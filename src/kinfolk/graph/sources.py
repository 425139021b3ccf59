"""Where users keep their graphs: the ways to a `Graph` from data frames, networkx, SciPy and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from kinfolk.core.table import Table, frame_table, is_lists
from kinfolk.graph.frames import LinkColumns, NodeColumns, graph_parts
from kinfolk.graph.from_arrays import pyg_parts, scipy_parts
from kinfolk.graph.from_networkx import networkx_parts
from kinfolk.graph.links import INVERSE, LINK, LinkRules


class GraphSources:
    """What `Graph` can be made of; every way ends in the same checks."""

    __slots__ = ()

    @classmethod
    def _made(cls, parts: Mapping[str, Any]) -> Self:
        build: Any = cls
        return build(**parts)  # type: ignore[no-any-return]

    @classmethod
    def from_frames(
        cls,
        nodes: Any,
        edges: Any,
        *,
        id: str | None = "id",
        label: str | None = None,
        features: str | Sequence[str] | None = None,
        text: str | Sequence[str] | None = None,
        group: str | None = None,
        missing: str = "refuse",
        source: str = "source",
        target: str = "target",
        relation: str | None = None,
        weight: str | None = None,
        directed: bool | None = True,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        dangling: str = "drop",
        self_loops: str = "drop",
        duplicates: str = "merge",
    ) -> Self:
        """The graph in a table of nodes and one of links: pandas, polars, Arrow or another that narwhals knows, or a
        dict of lists, {"id": [...], ...}.

        nodes      one row a node; the graph has them in that order
        edges      one row a link: its source looks at its target; or a list of such tables; or name -> table, each
                   with the links of one name

        Of `nodes` these are columns; an empty string counts as missing everywhere:

        id         strings or whole numbers, kept as strings, so 1 and "1" are the same; None: the numbers of the rows
        label      missing = unknown; strings, numbers or truth values, and predictions are of the same type
        features   default: all columns that nothing else is said of. Numbers stay, truth values are 0 and 1, strings
                   make a feature "column=value" of every value. Dense, or CSR as soon as there are strings.
        text       features "column:word" for the words of a text, in lower case. The texts themselves, joined by ", ",
                   are the titles of the nodes that reports show, up to 500 characters.
        group      the graph a node belongs to, in any order
        missing    of features: "refuse", or "flag": 0 and, where any is missing, a feature "column is missing"

        Of `edges` these are columns:

        source, target   ids of nodes
        relation         names the link, so that there are several relations; None: all are named `link`
        weight           None: all 1; a weight of 0 is no link

        directed   True: every relation has an inverse. Its name is `inverse`, and "<name>_inverse" for links with names
                   of their own, unless inverse={name: name} tells another; inverse=None: no inverses. False: one
                   relation, both ways; links that are all told from both ends are taken as they are, otherwise each
                   counts both ways. None: False if all links are told from both ends, else True.
        dangling   links with an end that is not in `nodes`: "drop" or "refuse"
        self_loops links from a node to itself: "drop" or "refuse"
        duplicates the same link again: "merge", which adds weights if there are any, or "refuse"

        What is dropped or merged is counted in one warning of the logger "kinfolk".
        """
        rules = LinkRules(dangling, self_loops, duplicates, directed, link, inverse)
        columns = NodeColumns(id, label, features, text, group, missing)
        ends = LinkColumns(source, target, relation, weight)
        return cls._made(graph_parts(frame_table(nodes, "nodes"), edge_tables(edges), columns, ends, rules))

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        label: str | None = "label",
        features: str | Sequence[str] | None = None,
        text: str | Sequence[str] | None = None,
        group: str | None = None,
        missing: str = "refuse",
        relation: str | None = None,
        weight: str | None = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
        duplicates: str = "merge",
    ) -> Self:
        """A graph of networkx, directed as it is; the nodes are known by their names as strings.

        label, features, text, group   attributes of nodes, as the columns of `from_frames`; by default every attribute
                                       but `label` is a feature
        relation, weight               attributes of edges; an edge without a weight weighs 1 where others have one

        The rest is as in `from_frames`; edges of a multigraph between the same nodes are duplicates.
        """
        directed = bool(graph.is_directed()) if hasattr(graph, "is_directed") else True
        rules = LinkRules("drop", self_loops, duplicates, directed, link, inverse)
        columns = NodeColumns(None, label, features, text, group, missing)
        return cls._made(networkx_parts(graph, columns, relation, weight, rules))

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        features: Any = None,
        labels: Any = None,
        ids: Iterable[str | int] | None = None,
        *,
        groups: Any = None,
        feature_names: Iterable[str] | None = None,
        classes: Iterable[Any] | None = None,
        directed: bool | None = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
    ) -> Self:
        """A matrix (n, n), sparse or dense, or name -> matrix; entry (i, j) is the weight with which i looks at j.

        features   (n, F), sparse or dense; None: no features
        labels     as in `Graph`: strings, numbers or truth values; None, NaN and -1 = unknown
        directed   None: a symmetric matrix is one relation, any other has an inverse; else as in `from_frames`

        The rest is as in `Graph` and `from_frames`.
        """
        rules = LinkRules("drop", self_loops, "merge", directed, link, inverse)
        parts = scipy_parts(adjacency, features, rules)
        told = {"labels": labels, "ids": ids, "groups": groups}
        if feature_names is not None:
            told["feature_names"] = feature_names
        return cls._made({**parts, **told, "classes": classes})

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        feature_names: Iterable[str] | None = None,
        relation: str | None = None,
        weight: str | None = None,
        directed: bool | None = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
    ) -> Self:
        """A `Data` object of PyTorch Geometric: x, edge_index, y, and batch if it holds several graphs.

        y                  labels, -1 and NaN = unknown; predictions are of the same type
        edge_index         row 0 looks at row 1. PyTorch Geometric keeps a link without direction from both ends: if all
                           are there from both ends, they make one relation (directed=None)
        relation, weight   names of attributes (E,) of the data, e.g. "edge_type" and "edge_weight"

        Masks stay with the data: fit(graph, train=data.train_mask.numpy()).
        """
        rules = LinkRules("drop", self_loops, "merge", directed, link, inverse)
        parts = pyg_parts(data, relation, weight, rules)
        return cls._made(parts if feature_names is None else {**parts, "feature_names": feature_names})


def edge_tables(edges: Any) -> list[tuple[str | None, Table]]:
    """One data frame, a list of them, or name -> frame."""
    if isinstance(edges, Mapping) and not is_lists(edges):
        return [(name, frame_table(frame, f"edges[{name!r}]")) for name, frame in edges.items()]
    if isinstance(edges, list | tuple):
        return [(None, frame_table(frame, f"edges[{i}]")) for i, frame in enumerate(edges)]
    return [(None, frame_table(edges, "edges"))]
