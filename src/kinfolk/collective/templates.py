"""Relational templates: what an instance is told of its neighbours' predictions, or of their features.

With w_ij the weight of the link from i to j (1 unless given), v_j the votes of j (its label probabilities, or 1 for its
label and 0 for the others) and one number a class:

    Count        Σ_j w_ij v_j                    how many neighbours have the label
    LogCount     log(1 + Count)                  the second neighbour says less than the first
    Mean         Σ_j w_ij v_j / Σ_j w_ij
    Proportion   Σ_j w_ij v_j / their sum        as Mean, but neighbours who say nothing do not count
    Max          max_j v_j
    Exists       1 - Π_j (1 - v_j)               whether any has it (for probabilities: were they independent)
    Concat       v_j one after the other         one slot a neighbour, absent = 0

An instance without neighbours gets zeros. Nobody is his own neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregate import ANY, LARGEST, MEAN, SHARE, SUM, aggregate, lay_out, sparse_aggregate
from kinfolk.collective.neighbourhood import Neighbourhood, Rule
from kinfolk.collective.relations import Relation
from kinfolk.errors import InputError, SettingError
from kinfolk.text.skip_edges import LearnedSkips, SkipBuilder

Array = NDArray[Any]
OF = ("predictions", "features")


class NeighbourTemplate:
    """A rule that tells an instance of its neighbours. `of` says of what: "predictions" change from level to level,
    "features" are theirs once and for all."""

    of: str = "predictions"

    @property
    def name(self) -> str:
        raise NotImplementedError

    def learn(self, hood: Neighbourhood) -> Self:
        """The rule with what it needs to know of the training data."""
        return self

    def width(self, n_votes: int) -> int:
        """How many columns it has when there are `n_votes` classes."""
        return n_votes

    def column_names(self, votes: list[str]) -> list[str]:
        return [f"{self.name} {vote}" for vote in votes]

    def write(self, hood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        """Fill `out` (rows, width) from the votes (n, classes)."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """A JSON description; `rebuilt_template` reads it."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Over(NeighbourTemplate):
    """Abstract: a template over a relation.

    relation   its name in the data ("cites"), a path or union ("cites @ cites", "cites | cited_by"), or for tokens a
               rule that links them (SameWord())
    of         "predictions" of the neighbours, or for Mean and Count their "features"
    hard       predictions as labels: 1 for the most probable, 0 for the others
    """

    relation: str | Relation | SkipBuilder | LearnedSkips
    of: str = "predictions"
    hard: bool = False

    KIND: ClassVar[int] = SUM
    OF: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        if self.of not in self.OF:
            raise SettingError(f"{type(self).__name__}: of must be one of {', '.join(self.OF)}; got {self.of!r}")
        if not isinstance(self.hard, bool):
            raise SettingError(f"{type(self).__name__}: hard must be True or False; got {self.hard!r}")
        if not isinstance(self.relation, SkipBuilder | LearnedSkips):
            object.__setattr__(self, "relation", Relation.parse(self.relation))

    def __repr__(self) -> str:
        rule = repr(str(self.rule)) if isinstance(self.rule, Relation) else repr(self.rule)
        options = [f", of={self.of!r}"] * (self.of != "predictions") + [", hard=True"] * self.hard
        slots = getattr(self, "slots", None)
        options += [f", slots={slots}"] * (slots is not None)
        return f"{type(self).__name__}({rule}{''.join(options)})"

    @property
    def rule(self) -> Rule:
        assert not isinstance(self.relation, str)
        return self.relation

    @property
    def name(self) -> str:
        shown = self.rule.name if isinstance(self.rule, SkipBuilder | LearnedSkips) else str(self.rule)
        return f"{type(self).__name__.lower()}({shown}{', hard' if self.hard else ''})"

    def learn(self, hood: Neighbourhood) -> Self:
        if isinstance(self.rule, SkipBuilder):
            return replace(self, relation=self.rule.learn(hood.tokens(self.name)))
        hood.links(self.rule)  # tells now if it is not there
        return self

    def write(self, hood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        aggregate(self.KIND, hood.links(self.rule), as_labels(votes) if self.hard else votes, rows, out, hood.n_jobs)

    def of_features(self, hood: Neighbourhood) -> Any:
        """CSR or dense (n, F) for of="features"."""
        links, table = hood.links(self.rule), hood.features
        if sparse.issparse(table):
            table = table.astype(np.result_type(table.dtype, np.float32), copy=False)  # a mean of counts is no count
            return sparse_aggregate(self.KIND, links, table, hood.n_jobs)
        out = np.empty(table.shape, np.result_type(table.dtype, np.float32))
        aggregate(self.KIND, links, table, np.arange(len(table)), out, hood.n_jobs)
        return out

    def spec(self) -> dict[str, Any]:
        rule = self.rule.spec() if isinstance(self.rule, SkipBuilder | LearnedSkips) else str(self.rule)
        return {"template": type(self).__name__, "relation": rule, "of": self.of, "hard": self.hard}


class Count(Over):
    """How many neighbours have each label, by the weights of the links: Σ_j w_ij v_j."""

    OF = OF


class LogCount(Over):
    """log(1 + Count), for weights that are not negative."""

    def learn(self, hood: Neighbourhood) -> Self:
        learned = super().learn(hood)
        if (hood.links(learned.rule).data < 0).any():
            raise InputError(f"{self.name} needs weights that are not negative; use Count")
        return learned

    def write(self, hood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        super().write(hood, votes, rows, out)
        np.log1p(out, out=out)


class Mean(Over):
    """The mean of the neighbours' votes, or of their features: Σ_j w_ij v_j / Σ_j w_ij."""

    KIND = MEAN
    OF = OF


class Proportion(Over):
    """The share each label has in what the neighbours say; they who say nothing do not count."""

    KIND = SHARE


class Max(Over):
    """The largest vote any neighbour gives the label."""

    KIND = LARGEST


class Exists(Over):
    """Whether at least one neighbour has the label; for probabilities 1 - Π_j (1 - v_j)."""

    KIND = ANY


@dataclass(frozen=True, repr=False)
class Concat(Over):
    """One slot a neighbour, in the order of their numbers; absent = 0.

    slots   how many; None = as many as the training instance with most neighbours has. Others are left out.
    """

    slots: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slots is not None:
            at_least_one("Concat: slots", self.slots)

    def learn(self, hood: Neighbourhood) -> Self:
        learned = super().learn(hood)
        if self.slots is not None:
            return learned
        most = int(np.diff(hood.links(learned.rule).indptr).max(initial=1))
        return replace(learned, slots=max(1, most))

    def width(self, n_votes: int) -> int:
        assert self.slots is not None
        return self.slots * n_votes

    def column_names(self, votes: list[str]) -> list[str]:
        return [f"{self.name}[{slot}] {vote}" for slot in range(self.slots or 0) for vote in votes]

    def write(self, hood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        assert self.slots is not None
        lay_out(hood.links(self.rule), as_labels(votes) if self.hard else votes, rows, self.slots, out, hood.n_jobs)

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "slots": None if self.slots is None else int(self.slots)}


def as_labels(votes: Array) -> Array:
    """1 for the most probable class (the first of equals), 0 for the others; who says nothing still says nothing."""
    hard = np.zeros_like(votes)
    hard[np.arange(len(votes)), votes.argmax(axis=1) if votes.shape[1] else 0] = 1.0
    hard[~votes.any(axis=1)] = 0.0
    return hard


def set_known(votes: Array, known: Array) -> None:
    """In votes (n, L) those whose label is known (n,), -1 for none, say it with certainty; in place."""
    sure = np.flatnonzero(known >= 0)
    votes[sure] = 0.0
    votes[sure, known[sure]] = 1.0


def at_least_one(what: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise SettingError(f"{what} must be a whole number of 1 or more; got {value!r}")
