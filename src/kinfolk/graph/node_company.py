"""What models of nodes that listen to their neighbours share: templates as a graph teaches them, and any graph
made ready for inference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.company import Company, as_templates
from kinfolk.collective.neighbourhood import Neighbourhood
from kinfolk.collective.relations import Relation
from kinfolk.collective.templates import Count, NeighbourTemplate, Over
from kinfolk.core.labeller import Labeller
from kinfolk.core.labels import Classes
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError
from kinfolk.graph.known_nodes import KnownNodes, Memory
from kinfolk.graph.learners import Learner, one_table
from kinfolk.graph.nodes import Nodes, check_relations
from kinfolk.text.labels import LabelCoding

Array = NDArray[Any]


class World(NamedTuple):
    """A graph ready for learning or inference. `alone` are the features of a node; `wide` what stands before the votes
    of its neighbours: these, unless only what is told counts, and what templates tell of the neighbours' features."""

    nodes: Nodes
    hood: Neighbourhood
    company: Company
    alone: Any
    wide: Any

    @classmethod
    def learn(
        cls, nodes: Nodes, templates: Iterable[NeighbourTemplate], n_votes: int, features: bool, n_jobs: int
    ) -> World:
        """The templates with what they need to know of the training graph, and that graph."""
        relations, paths = nodes.relations, nodes.data.paths
        hood = Neighbourhood(len(nodes.labels), n_votes, relations, nodes.table, None, n_jobs, paths, nodes.order)
        return cls.of(nodes, hood, Company.learn(templates, hood), features)

    @classmethod
    def of(cls, nodes: Nodes, hood: Neighbourhood, company: Company, features: bool) -> World:
        """`features`: whether levels above see a node's own too."""
        parts = [nodes.table] * features + company.fixed(hood)
        return cls(nodes, hood, company, nodes.table, one_table(parts) if parts else np.zeros((hood.n, 0)))


def default_templates(given: Any, nodes: Nodes, kind: type[Over]) -> list[NeighbourTemplate]:
    """The templates given, or one of a kind for every relation; Count where links have weights below 0."""
    if given is not None:
        return as_templates(given)
    if not nodes.relations:
        raise InputError("this graph has no relation, so no node has a neighbour. Give it links")
    return [(Count if (links.data < 0).any() else kind)(Relation(name)) for name, links in nodes.relations.items()]


class NodeCompany(KnownNodes, Labeller):
    """Abstract: a model of nodes over scikit-learn classifiers that are told of neighbours.

    Learned by `fit`: templates, what labelled neighbours give, relations that no template names, the features of a
    node by name or number, and the nodes trained on.
    """

    n_jobs: int | None
    company_: Company
    known_: str
    unused_: tuple[str, ...]
    node_columns_: Sequence[str] | int

    @property
    def _learners(self) -> list[Learner]:
        """The trained bases, that of a node's own features first."""
        raise NotImplementedError

    def _keep(self, nodes: Nodes, company: Company, classes: Classes, known: str, memory: Memory | None) -> None:
        """Set what is learned apart from the bases."""
        used = company.relation_names()
        self.unused_ = tuple(name for name in nodes.relations if name not in used)
        self.coding_, self.node_columns_ = LabelCoding(None, None, classes), nodes.columns
        self.company_, self.known_, self.memory_ = company, known, memory

    def _world(self, X: Any, features: bool = True) -> World:
        nodes = self._nodes(X)
        relations, paths = nodes.relations, nodes.data.paths
        n, n_votes, jobs = len(nodes.labels), len(self.coding_.classes), resolve_jobs(self.n_jobs)
        hood = Neighbourhood(n, n_votes, relations, nodes.table, None, jobs, paths, nodes.order)
        return World.of(nodes, hood, self.company_, features)

    def _nodes(self, X: Any) -> Nodes:
        self._require_fitted()
        nodes = Nodes.of(X, self.node_columns_)
        check_relations(nodes, self.company_.relation_names(), self.unused_)
        return nodes
