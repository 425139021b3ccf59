"""Instances and how they are linked, as relational templates see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.relations import Relation
from kinfolk.errors import InputError
from kinfolk.text.corpus import Corpus
from kinfolk.text.skip_edges import LearnedSkips, SkipBuilder

Rule = Relation | SkipBuilder | LearnedSkips


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """n instances with relations (name -> CSR), features (CSR or dense, or None), and for tokens their corpus.

    Paths and rules are worked out once each. `order`: the instance of the caller's in each row; None: as they came.
    """

    n: int
    n_votes: int
    relations: Mapping[str, Any]
    features: Any = None
    corpus: Corpus | None = None
    n_jobs: int = 1
    worked_out: dict[Any, sparse.csr_array] = field(default_factory=dict, repr=False)
    order: NDArray[np.int64] | None = None

    def tokens(self, asked_by: str) -> Corpus:
        """The corpus, for templates that are about tokens."""
        if self.corpus is None:
            raise InputError(f"{asked_by} is about tokens in sentences, and this is a graph; name one of its relations")
        return self.corpus

    def relations_as_given(self) -> Mapping[str, Any]:
        """The relations with the instances as the caller has them."""
        if self.order is None:
            return self.relations
        rank = np.argsort(self.order)
        for name, links in self.relations.items():
            if (name, "as given") not in self.worked_out:
                self.worked_out[name, "as given"] = links[rank][:, rank]
        return {name: self.worked_out[name, "as given"] for name in self.relations}

    def links(self, rule: Rule) -> sparse.csr_array:
        """CSR (n, n) without a diagonal: row i lists whom i looks at."""
        key = str(rule) if isinstance(rule, Relation) else rule
        if key not in self.worked_out:
            self.worked_out[key] = rule.links(self.relations) if isinstance(rule, Relation) else self._token_links(rule)
        return self.worked_out[key]

    def _token_links(self, rule: SkipBuilder | LearnedSkips) -> sparse.csr_array:
        """Of a rule that links a token to earlier ones: both look at each other."""
        corpus = self.tokens(rule.name)
        learned = rule.learn(corpus) if isinstance(rule, SkipBuilder) else rule
        later, earlier = learned.edges(corpus).T
        ends = np.concatenate([later, earlier]), np.concatenate([earlier, later])
        return sparse.csr_array((np.ones(len(ends[0]), np.float32), ends), shape=(self.n, self.n))
