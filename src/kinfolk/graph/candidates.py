"""The candidates of a pool: which there are, what each looks at of a graph, and its trained model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.graph.pool_features import Columns, has_missing
from kinfolk.graph.surroundings import Surroundings

Array = NDArray[Any]
OF_TREES, OF_MEANS = 24, 128  # of many columns: the first components that trees and means look at
BLOCK = 1 << 16  # rows predicted at a time
LOUDER = 8.0  # unit rows times this, so that one ridge suits words and means
MOST_CELLS = 20_000_000  # of sparse means over neighbours

PLAIN, OWN, AROUND, TREES, SMOOTH, SMOOTHER = (
    "plain",
    "own",
    "around",
    "trees",
    "smooth",
    "smoother",
)  # what a candidate looks at
LOCAL = "features"  # the name of the local model
LINEAR, TREES_KIND, BASE = "softmax", "trees", "base"  # kinds of models that learn; the first by its name of old
MEAN, CORRECTED = "mean", "corrected"  # and of those that are made of others
SAID, SAID_AROUND, SAID_TREES = "said", "said around", "said trees"  # what was given, and AROUND or TREES beside it
SLIGHT = 0.01  # the least probability whose logarithm counts


class Candidate(NamedTuple):
    """One model of the pool.

    name      what users read
    kind      a linear model, trees, the base of the user's own; the mean of others, another one corrected
    columns   what it looks at of features
    c         of a linear model, as that of scikit-learn's logistic regression
    after     whose predictions neighbours give; of "mean" and "corrected", whose answers they are made of
    pooled    whether it has a weight, or only serves others
    """

    name: str
    kind: str
    columns: str = OWN
    c: float = 1.0
    after: tuple[str, ...] = ()
    pooled: bool = True


def candidates(
    own_base: bool,
    effort: str,
    known: bool,
    wide: bool,
    has_features: bool,
    has_links: bool,
    trees: bool = True,
    correct_local: bool = False,
) -> list[Candidate]:
    """Those of the pool.

    own_base   whether the user's own base takes the place of logistic regressions and trees
    known      whether labels of neighbours will be known, without which nothing is corrected
    wide       whether features are many columns with unit rows, for which a ridge of the same strength is milder
    trees      whether there are few enough nodes to ask trees about
    correct_local   whether what features say alone is corrected in any case, not only with the best effort
    """
    local = Candidate(LOCAL, BASE) if own_base else Candidate(LOCAL, LINEAR, PLAIN if wide else OWN)
    smooth = Candidate("smooth features", LINEAR, SMOOTH, 2.0)
    if own_base:
        found = [local, smooth, Candidate("neighbours", BASE, AROUND, after=(LOCAL,))]
        found += [Candidate("neighbours twice", BASE, AROUND, after=("neighbours",))] * (effort == "best")
        of_errors = [LOCAL, smooth.name]
    elif effort == "fast":
        found = [local, smooth, *_levels(LINEAR, AROUND, LOCAL, 2)]
        if trees:
            found = [local, smooth, *_levels(TREES_KIND, TREES, LOCAL, 1 if wide else 2)]
        found[2:-1] = [one._replace(pooled=False) for one in found[2:-1]]  # a step to the last one
        of_errors = [*[LOCAL] * (correct_local or not has_features), *[smooth.name] * has_features]
    else:
        first = "local"
        found = [local, Candidate("features, strong ridge", LINEAR, c=10.0 if wide else 0.1)]
        found += [Candidate("features, trees", TREES_KIND)] * trees
        alone = [one.name for one in (found if wide else found[:1] + found[2:])]
        found += [Candidate("local", MEAN, after=tuple(alone), pooled=False)]
        found += [smooth, Candidate("smoother features", LINEAR, SMOOTHER, 10.0)]
        found += _levels(LINEAR, AROUND, first, 2)
        found += _levels(TREES_KIND, TREES, first, 2) if trees else []
        of_errors = [*dict.fromkeys([first, LOCAL, smooth.name])]
    found += [Candidate(f"{name}, corrected", CORRECTED, after=(name,)) for name in of_errors if known]
    if not has_links:
        found = [one for one in found if one.columns in (PLAIN, OWN) and one.kind != CORRECTED]
    if not has_features:
        found = [one for one in found if one.columns not in (SMOOTH, SMOOTHER)]
    names = {one.name for one in found}
    return [one for one in found if {*one.after} <= names]


def _levels(kind: str, columns: str, first: str, depth: int) -> list[Candidate]:
    names = ["neighbours", "neighbours twice"]
    names = [f"{name}, trees" for name in names] if kind == TREES_KIND else names
    after = [first, names[0]]
    return [Candidate(names[i], kind, columns, 0.1, (after[i],)) for i in range(depth)]


class Ground:
    """What candidates look at of one graph, each made when it is first asked for."""

    def __init__(
        self, table: Any, columns: Columns, surroundings: Surroundings, unit: bool = True, given: Array | None = None
    ) -> None:
        """`unit`: whether only the direction of smoothed features counts; `given` (n, L): what another model said."""
        self.surroundings, self._raw, self.learned, self._unit = surroundings, table, columns, unit
        self._given = given
        self._made: dict[str, list[Any]] = {}

    @property
    def n(self) -> int:
        return int(self._raw.shape[0])

    @property
    def given(self) -> Array:
        """(n, L), what another model said of nodes."""
        assert self._given is not None
        return self._given

    def blocks(self, columns: str, raw: bool = False) -> list[Any]:
        """Tables side by side; `raw`: features as they came, for a base of the user's."""
        key = columns + " raw" * raw
        if key not in self._made:
            self._made[key] = self._make(columns, raw)
        return self._made[key]

    def _whole_means(self) -> bool:
        """Whether the means of all columns over neighbours are few enough to be kept, so that none need be left out."""
        words, links = np.diff(self.blocks("wide")[0].indptr), self.surroundings.views[0].means
        return int(words[links.indices].sum()) <= MOST_CELLS

    def _make(self, columns: str, raw: bool) -> list[Any]:
        learned, around = self.learned, self.surroundings
        if columns == PLAIN:
            return [learned.plain(self._raw)]
        if columns in (SAID, SAID_AROUND, SAID_TREES):
            surely = np.log(np.maximum(self.given, SLIGHT) / SLIGHT).astype(np.float32)
            beside = {SAID: [around.degrees], SAID_AROUND: AROUND, SAID_TREES: TREES}[columns]
            return [surely, *(self.blocks(beside) if isinstance(beside, str) else beside)]
        if columns == "wide":
            return [learned.wide(self._raw)]
        if columns == "compact":
            return [learned.compact(self.blocks("wide")[0])]
        if columns == "holes":
            return [self._with_holes(self.blocks("compact")[0])]
        own = [self._raw] if raw else self.blocks("wide")
        if columns == OWN:
            return own
        compact = self.blocks("compact")[0]
        if columns in (SMOOTH, SMOOTHER):
            return [around.diffused(compact, 0.8 if columns == SMOOTH else 0.9, self._unit)]
        if columns == "means":
            first = around.added(around.views[0].means, compact[:, :OF_MEANS])
            return [first, around.added(around.views[0].means, first)]
        if columns == AROUND and sparse.issparse(own[0]) and not raw and self._whole_means():
            words = [own[0], sparse.csr_array(around.views[0].means @ own[0])]
            return [sparse.csr_array(table * LOUDER) for table in words] + [around.degrees]
        means = self.blocks("means")
        if columns == AROUND:
            louder = learned.components is not None and not raw  # unit rows, beside columns with entries of about 1
            return [own[0] * LOUDER if louder else own[0], *means, around.degrees]
        width = OF_TREES if learned.components is not None else compact.shape[1]
        return [table[:, :width] for table in (self.blocks("holes")[0], *means)] + [around.degrees]

    def _with_holes(self, compact: Array) -> Array:
        """For trees: few columns with NaN where it was, as they know best what to make of it."""
        if self.learned.components is not None or sparse.issparse(self._raw) or not has_missing(self._raw):
            return compact
        found = compact.copy()
        found[:, : self._raw.shape[1]][np.isnan(self._raw)] = np.nan
        return found


def looked_at(what: Candidate, ground: Ground) -> list[Any]:
    """The tables of a graph that a candidate looks at, but for what neighbours say."""
    if what.kind == TREES_KIND and what.columns == OWN:
        width = OF_TREES if ground.learned.components is not None else None
        return [ground.blocks("holes")[0][:, :width]]
    return ground.blocks(what.columns, what.kind == BASE)
