"""Why a link model gives a node its label: what it believes with links cut.

Belief propagation has no levels and no aggregates, but the same questions can be asked: what the features say without
any link, what neighbours are thought to be when the links of the node are cut (so that nobody hears his own echo), and
what is believed of the node without its links of one relation. Each is inference run again on the graph so changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.graph.explain import ALONE, EACH_ALONE, NodeStory, neighbours
from kinfolk.graph.nodes import Nodes
from kinfolk.graph.page import LABEL, PREDICTION, Told, level_answer, node_explanation

Array = NDArray[Any]
Cut = Callable[[str, Array], Array]  # name of a relation and its pairs (E, 2) to which of them are cut (E,)
Beliefs = Callable[[Cut | None], Array]  # (n, L), with links cut or as they are


def link_story(
    nodes: Nodes, node: int, relations: Sequence[str], beliefs: Beliefs, known: NDArray[np.int32],
    classes: Sequence[str],
) -> NodeStory:  # fmt: skip
    """`known` (n,): labels that are certain, -1 for none; not that of the node."""
    links = {name: _both_ways(nodes.relations[name]) for name in relations if name in nodes.relations}
    together, alone = beliefs(None), beliefs(lambda _, pairs: np.ones(len(pairs), bool))
    apart = beliefs(lambda _, pairs: (pairs == node).any(axis=1))
    answer = int(together[node].argmax())
    told = [_told(name, table, node, apart, beliefs, classes) for name, table in links.items()]
    heard = [one for one in told if one is not None]
    levels = [
        level_answer(ALONE, alone[node], answer),
        level_answer("belief propagation", together[node], answer, heard, apart[node] if heard else None),
    ]
    notes = [
        EACH_ALONE,
        f"All nodes and links together. What a neighbour tells is what is believed of it with the links of "
        f"{nodes.ids[node]} cut.",
    ]
    around = neighbours(nodes, node, links, [apart], len(classes), lambda j: LABEL if known[j] >= 0 else PREDICTION)
    explained = node_explanation(node, nodes.ids[node], classes, answer, levels, around)
    return NodeStory(nodes, explained, [alone, together], known, links, notes)


def _told(name: str, links: Any, node: int, apart: Array, beliefs: Beliefs, classes: Sequence[str]) -> Told | None:
    """What neighbours by one relation are believed to be, added up by the number of links; None without any."""
    at = slice(links.indptr[node], links.indptr[node + 1])
    if at.start == at.stop:
        return None
    values = links.data[at] @ apart[links.indices[at]]
    without = beliefs(lambda other, pairs: (pairs == node).any(axis=1) & (other == name))
    return Told(f"links({name})", "predictions", tuple(classes), values, without[node])


def _both_ways(links: Any) -> sparse.csr_array:
    """How many links there are between two nodes, whichever way: they are heard at both ends."""
    there = sparse.csr_array(links != 0).astype(np.float64)
    return sparse.csr_array(there + there.T)
