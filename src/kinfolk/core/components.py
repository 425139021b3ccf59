"""Connected components of a table of links, in an engine: label, hook, jump, and contract, a table a round.

Every node points to its smallest neighbour or itself, pointers are followed until they settle, nodes become what they
point to, and links within one node fall away. A chain whose nodes are numbered in order takes one round, in which the
pointers double their reach log n times.
"""

from __future__ import annotations

from kinfolk.core.engine import Engine


def components(engine: Engine, links: str, into: str) -> None:
    """Make a table of `node` and `component`, the smallest node of it, for every node that has a link.

    links   a query: `low` and `high`
    """
    engine.make("kf_links", f"SELECT low, high FROM ({links}) WHERE low <> high")
    nodes = "SELECT low AS node FROM kf_links UNION SELECT high FROM kf_links"
    engine.make(into, f"SELECT node, node AS component FROM ({nodes})")
    while engine.rows("SELECT 1 FROM kf_links LIMIT 1"):
        both = "SELECT low AS node, high AS other FROM kf_links UNION ALL SELECT high, low FROM kf_links"
        least = "CASE WHEN min(other) < node THEN min(other) ELSE node END"
        engine.make("kf_hooks", f"SELECT node, {least} AS root FROM ({both}) GROUP BY node")
        _jump(engine)
        engine.make(
            into,
            "SELECT c.node AS node, coalesce(h.root, c.component) AS component "
            f"FROM {into} c LEFT JOIN kf_hooks h ON h.node = c.component",
        )
        engine.make(
            "kf_links",
            "SELECT DISTINCT a.root AS low, b.root AS high FROM kf_links l "
            "JOIN kf_hooks a ON a.node = l.low JOIN kf_hooks b ON b.node = l.high WHERE a.root <> b.root",
        )
    engine.drop("kf_links", "kf_hooks")


def _jump(engine: Engine) -> None:
    """Follow pointers until all of them lead to nodes that point to themselves."""
    while engine.rows("SELECT 1 FROM kf_hooks h JOIN kf_hooks g ON g.node = h.root WHERE g.root <> g.node LIMIT 1"):
        jumped = "SELECT h.node AS node, g.root AS root FROM kf_hooks h JOIN kf_hooks g ON g.node = h.root"
        engine.make("kf_hooks", jumped)
