"""Where users keep their graphs: the ways to a `Graph` from data frames, networkx, SciPy, PyTorch Geometric and DGL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from kinfolk.core.table import frame_table
from kinfolk.graph.array_graphs import EdgeColumns, dgl_parts, pyg_parts, scipy_parts
from kinfolk.graph.link_features import Wanted
from kinfolk.graph.links import INVERSE, LINK, LinkRules
from kinfolk.graph.networkx_graphs import networkx_parts
from kinfolk.graph.node_features import NodeColumns
from kinfolk.graph.table_graphs import LinkColumns, edge_tables, graph_parts


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
        link_features: Wanted = None,
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

        id         strings or whole numbers, known by what is written, so 1 and "1" are the same, or members of an Enum,
                   known by their values; None: the numbers of the rows. `graph.ids` has strings, `graph.node_ids` what
                   the column has
        label      missing = unknown; strings, numbers or truth values, and predictions are of the same type
        features   default: all columns that nothing else is said of. Numbers stay, truth values are 0 and 1, strings
                   make a feature "column=value" of every value, lists and arrays of numbers, all of one width,
                   features "column[0]", "column[1]", ... Dense, or CSR as soon as there are strings.
        text       features "column:word" for the words of a text, in lower case. The texts themselves, joined by ", ",
                   are the titles of the nodes that reports show, up to 500 characters.
        group      the graph a node belongs to, in any order
        missing    of features: "refuse", or "flag": 0 and, where any is missing, a feature "column is missing"

        Of `edges` these are columns:

        source, target   ids of nodes
        relation         names the link, so that there are several relations; None: all are named `link`
        weight           None: all 1; a weight of 0 is no link
        link_features    what else is told of a link. Strings and truth values, of 12 values at the most, name relations
                         beside the whole: "links_to[kind=card]". Numbers do by thirds, "links_to[amount=high]", and
                         become features of nodes, logarithms of their mean and of their sum over links out and in:
                         "log mean amount of links_to, out". To cut numbers as another graph does give its
                         `graph.link_features`, or column -> where parts end, {"amount": [10, 100], "kind": None}

        directed   True: every relation has an inverse. Its name is `inverse`, and "<name>_inverse" for links with names
                   of their own, unless inverse={name: name} gives another; inverse=None: no inverses. False: one
                   relation, both ways; links that are all there from both ends are taken as they are, otherwise each
                   counts both ways. None: False if all links are there from both ends, else True.
        dangling   links with an end that is not in `nodes`: "drop" or "refuse"
        self_loops links from a node to itself: "drop" or "refuse"
        duplicates the same link again: "merge", which adds weights if there are any, or "refuse"

        What is dropped or merged is counted in one warning of the logger "kinfolk".
        """
        rules = LinkRules(dangling, self_loops, duplicates, directed, link, inverse)
        columns = NodeColumns(id, label, features, text, group, missing)
        ends = LinkColumns(source, target, relation, weight, link_features)
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
        link_features: Wanted = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
        duplicates: str = "merge",
    ) -> Self:
        """A graph of networkx, directed as it is; the nodes are known by their names as strings.

        label, features, text, group   attributes of nodes, as the columns of `from_frames`; by default every attribute
                                       but `label` is a feature
        relation, weight               attributes of edges; an edge without a weight weighs 1 where others have one
        link_features                  attributes of edges, as the columns of `from_frames`

        The rest is as in `from_frames`; edges of a multigraph between the same nodes are duplicates.
        """
        directed = bool(graph.is_directed()) if hasattr(graph, "is_directed") else True
        rules = LinkRules("drop", self_loops, duplicates, directed, link, inverse)
        columns = NodeColumns(None, label, features, text, group, missing)
        return cls._made(networkx_parts(graph, columns, EdgeColumns(relation, weight, link_features), rules))

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
        if feature_names is not None:
            parts["feature_names"] = feature_names
        return cls._made({**parts, "labels": labels, "ids": ids, "groups": groups, "classes": classes})

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        feature_names: Iterable[str] | None = None,
        relation: str | None = None,
        weight: str | None = None,
        link_features: Wanted = None,
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
        link_features      names of attributes (E,) or (E, d), e.g. "edge_attr", as in `from_frames`; truth values name
                           relations, numbers become features behind those of x

        train_mask, val_mask, test_mask become `graph.masks`: fit(graph, train=graph.masks["train"]).
        """
        rules = LinkRules("drop", self_loops, "merge", directed, link, inverse)
        parts = pyg_parts(data, feature_names, EdgeColumns(relation, weight, link_features), rules)
        return cls._made(parts)

    @classmethod
    def from_dgl(
        cls,
        graph: Any,
        *,
        features: str | None = "feat",
        label: str | None = "label",
        feature_names: Iterable[str] | None = None,
        relation: str | None = None,
        weight: str | None = None,
        link_features: Wanted = None,
        directed: bool | None = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
    ) -> Self:
        """A graph of DGL with one kind of nodes; several graphs in a batch are groups.

        features, label    names in `graph.ndata`: (n, F), and labels, -1 and NaN = unknown
        relation, weight   names in `graph.edata`, of one number an edge
        link_features      names in `graph.edata`, as in `from_pyg`
        directed           None: links that are all there from both ends make one relation

        `ndata`'s train_mask, val_mask, test_mask become `graph.masks`: fit(graph, train=graph.masks["train"]).
        """
        rules = LinkRules("drop", self_loops, "merge", directed, link, inverse)
        parts = dgl_parts(graph, features, label, feature_names, EdgeColumns(relation, weight, link_features), rules)
        return cls._made(parts)
