"""A log-linear conditional model as tables of scores, for the Gibbs kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.company import Company
from kinfolk.collective.neighbourhood import Neighbourhood
from kinfolk.collective.templates import Concat, Count, Exists, Max, Mean, Over, Proportion
from kinfolk.core.sound_answers import sound
from kinfolk.errors import InputError
from kinfolk.graph.learners import Learner
from kinfolk.inference.gibbs import Network

Array = NDArray[Any]
ADDS_UP = (Count, Mean, Proportion, Concat)  # of labels that are all known: linear in what each neighbour says
ASKS_ANY = (Exists, Max)


def is_log_linear(learner: Learner, company: Company) -> bool:
    """Whether a conditional model can be written as tables."""
    linear = learner.softmax is not None and bool(company.told)
    return linear and all(isinstance(template, ADDS_UP + ASKS_ANY) for template in company.told)


def network_of(learner: Learner, company: Company, hood: Neighbourhood, table: Any) -> Network:
    """The network of a graph; `table` (n, F) holds the features that stand before those of neighbours' labels."""
    n_labels, width = learner.n_labels, table.shape[1]
    assert learner.softmax is not None
    weights, bias = learner.softmax
    if len(weights) != width + company.width:
        raise InputError(f"the model has weights for {len(weights)} columns; there are {width + company.width}")
    own = sound(np.asarray(table @ weights[:width]) + bias, "the conditional model")
    tables: list[Array] = []
    links: list[tuple[Array, Array, Array, Array]] = []  # looked at, looks, table, weight
    at = width
    for template in company.told:
        assert isinstance(template, Over)
        graph, size = hood.links(template.rule), template.width(company.n_votes)
        reader = np.repeat(np.arange(hood.n), np.diff(graph.indptr))
        which, scale = _placed(template, graph, reader)
        kept = which >= 0
        links.append((graph.indices[kept], reader[kept], len(tables) + which[kept], scale[kept]))
        tables.extend(weights[at : at + size].reshape(-1, n_labels, n_labels))
        at += size
    looked_at, reader, which, scale = (np.concatenate(parts) for parts in zip(*links, strict=True))
    order = np.argsort(looked_at, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(looked_at, minlength=hood.n))]).astype(np.int64)
    any_ = [isinstance(t, ASKS_ANY) for t in company.told for _ in range(t.width(1))]
    sound(np.array(tables), "the conditional model")
    return Network(
        np.ascontiguousarray(own, np.float64), indptr, reader[order].astype(np.int64), which[order].astype(np.int64),
        scale[order].astype(np.float64), np.ascontiguousarray(tables, np.float64), np.array(any_, bool),
    )  # fmt: skip


def _placed(template: Over, graph: Any, reader: Array) -> tuple[Array, Array]:
    """For each link the number of its table within the template (-1: it is left out), and its weight."""
    zeros = np.zeros(len(reader), np.int64)
    if isinstance(template, Concat):
        assert template.slots is not None
        slot = np.arange(len(reader)) - graph.indptr[reader]
        return np.where(slot < template.slots, slot, -1), np.ones(len(reader))
    if isinstance(template, Mean | Proportion):
        totals = np.asarray(graph.sum(axis=1)).ravel()
        return zeros, graph.data / np.where(totals == 0, 1.0, totals)[reader]
    return zeros, graph.data if isinstance(template, Count) else np.ones(len(reader))
