"""Instances and how they are linked, as relational templates see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.data.corpus import Corpus
from kinfolk.errors import InputError
from kinfolk.features.paths import Relation
from kinfolk.features.skips import LearnedSkips, SkipBuilder

Rule = Relation | SkipBuilder | LearnedSkips


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """n instances with relations (name -> CSR), features (CSR or dense, or None), and for tokens their corpus.

    Paths and rules are worked out once each.
    """

    n: int
    n_votes: int
    relations: Mapping[str, Any]
    features: Any = None
    corpus: Corpus | None = None
    n_jobs: int = 1
    worked_out: dict[Any, sparse.csr_array] = field(default_factory=dict, repr=False)

    def tokens(self, asked_by: str) -> Corpus:
        """The corpus, for templates that are about tokens."""
        if self.corpus is None:
            raise InputError(f"{asked_by} is about tokens in sentences, and this is a graph; name one of its relations")
        return self.corpus

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
