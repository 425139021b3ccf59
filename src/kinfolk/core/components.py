"""Connected components of a table of links, in an engine: label, hook, jump, and contract, a table a round.

Every node points to its smallest neighbour or itself, pointers are followed until they settle, nodes become what they
point to, and links within one node fall away. A chain whose nodes are numbered in order takes one round, in which the
pointers double their reach log n times. Once the links that are left are few, they are brought together in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.core.engine import Engine

FEW = 1_000_000  # links


def components(engine: Engine, links: str, into: str, few: int = FEW) -> None:
    """Make a table of `node` and `component`, the smallest node of it, for every node that has a link.

    links   a query: `low` and `high`
    few     so many links, or fewer, are read into memory
    """
    engine.make("kf_links", f"SELECT low, high FROM ({links}) WHERE low <> high")
    if _n_links(engine) <= few:
        found = _in_memory(engine)
        engine.fill(into, found.schema, [found])
    else:
        nodes = "SELECT low AS node FROM kf_links UNION SELECT high FROM kf_links"
        engine.make(into, f"SELECT node, node AS component FROM ({nodes})")
        while _n_links(engine) > few:
            _round(engine, into)
        found = _in_memory(engine).rename_columns(["node", "root"])
        engine.fill("kf_hooks", found.schema, [found])
        _relabel(engine, into)
    engine.drop("kf_links", "kf_hooks")


def _n_links(engine: Engine) -> int:
    return int(engine.rows("SELECT count(*) FROM kf_links")[0][0])


def _round(engine: Engine, into: str) -> None:
    both = "SELECT low AS node, high AS other FROM kf_links UNION ALL SELECT high, low FROM kf_links"
    least = "CASE WHEN min(other) < node THEN min(other) ELSE node END"
    engine.make("kf_hooks", f"SELECT node, {least} AS root FROM ({both}) GROUP BY node")
    _jump(engine)
    _relabel(engine, into)
    engine.make(
        "kf_links",
        "SELECT DISTINCT a.root AS low, b.root AS high FROM kf_links l "
        "JOIN kf_hooks a ON a.node = l.low JOIN kf_hooks b ON b.node = l.high WHERE a.root <> b.root",
    )


def _jump(engine: Engine) -> None:
    """Follow pointers until all of them lead to nodes that point to themselves."""
    while engine.rows("SELECT 1 FROM kf_hooks h JOIN kf_hooks g ON g.node = h.root WHERE g.root <> g.node LIMIT 1"):
        jumped = "SELECT h.node AS node, g.root AS root FROM kf_hooks h JOIN kf_hooks g ON g.node = h.root"
        engine.make("kf_hooks", jumped)


def _relabel(engine: Engine, into: str) -> None:
    engine.make(
        into,
        "SELECT c.node AS node, coalesce(h.root, c.component) AS component "
        f"FROM {into} c LEFT JOIN kf_hooks h ON h.node = c.component",
    )


def _in_memory(engine: Engine) -> Any:
    """The components of the links that are left, as an Arrow table."""
    import pyarrow
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = engine.arrow("SELECT low, high FROM kf_links")
    ends = np.stack([links.column(name).to_numpy() for name in ("low", "high")])
    nodes, place = np.unique(ends, return_inverse=True)
    low, high = place.reshape(2, -1)
    joined = coo_array((np.ones(len(low), np.int8), (low, high)), shape=(len(nodes), len(nodes)))
    label = connected_components(joined, directed=False)[1] if len(nodes) else np.zeros(0, np.int32)
    first = np.unique(label, return_index=True)[1]  # the smallest of a component, as nodes are in order
    schema = pyarrow.schema([("node", "int64"), ("component", "int64")])
    return pyarrow.table({"node": nodes, "component": nodes[first[label]]}, schema)
