"""A pool of candidates for the nodes of a graph, cross-fitted: what `StackedNodes()` is where nothing is chosen, and
what `NodeRegressor` and `MultiLabelNodes` are.

No one model suits every graph: neighbours may be alike, or unlike, or say nothing; features may be words or numbers. So
several are trained (`graph.candidates`), each asked about targets that it has not seen, and pooled by what they said
(`learning.pooling`). A candidate that only looks good on its own training data gets no weight; where links say nothing
the local ones carry all. What kind of target it is, `graph.targets` says.

The rows of fold k of the training nodes T are made by models that have not seen k, of votes (`graph.surroundings`)

    V = targets on T without k (or, for graphs without known ones, cross-fitted predictions), predictions elsewhere

So the whole fold is hidden, as the targets of all nodes to be predicted are. Depth two gets predictions of depth one.
What is hidden is a fold at a time, as in Figure 2 of Kou and Cohen (2007): a model that looks at neighbours is not
trained on the targets of k, but what its rows received, with their own fold hidden, may owe something to them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.layer import GIVEN
from kinfolk.collective.stacking import folds_of
from kinfolk.core.checkpoint import Step, running
from kinfolk.core.modelfile import ModelFile, fits, moderate
from kinfolk.core.threads import run_chunks
from kinfolk.errors import DataWarning, warn
from kinfolk.graph.candidates import (
    AROUND,
    BASE,
    BLOCK,
    CORRECTED,
    LINEAR,
    LOCAL,
    MEAN,
    OWN,
    PLAIN,
    SAID,
    SAID_AROUND,
    SAID_TREES,
    SMOOTH,
    SMOOTHER,
    TREES,
    TREES_KIND,
    Candidate,
    Ground,
    candidates,
    looked_at,
)
from kinfolk.graph.learners import Learner
from kinfolk.graph.nodes import Nodes
from kinfolk.graph.pool_features import MOST_ROWS, Columns, drawn
from kinfolk.graph.surroundings import LARGE, Kind, Shown, Surroundings
from kinfolk.graph.targets import Target

Array = NDArray[Any]
Tell = Callable[[str], None]
SURE = 2.5  # standard errors by which a pool has to beat its local candidate
KEPT = 1 << 28  # bytes of votes that are kept at a time; more are worked out twice


# -- Training ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trained:
    """A candidate and its model; None of those that are made of others."""

    what: Candidate
    model: Any

    def said(self, target: Target, ground: Ground, votes: Array | None) -> Array:
        """(n, width), float32."""
        blocks = looked_at(self.what, ground)
        blocks = blocks if votes is None else [*blocks, votes]
        found = np.empty((ground.n, target.width), np.float32)
        for start in range(0, ground.n, BLOCK):
            rows = slice(start, start + BLOCK)
            found[rows] = target.ask(self.model, [block[rows] for block in blocks])
        return found


def pool_folds(model: Any, nodes: Nodes, labels: Array) -> NDArray[np.int32]:
    """The fold of each node, -1 for those not trained on, whose `labels` are -1. Folds of a pool hide what will be
    hidden: whole graphs where those to be predicted have no label at all, else nodes; unless they are set no more of
    them than there are labels."""
    labelled, split = labels >= 0, model.split
    if split == "auto":
        seen = np.isin(nodes.groups, np.unique(nodes.groups[labelled]))
        within = int((seen & ~labelled).sum())
        split = "instance" if 2 * within > int((~labelled).sum()) else "auto"
    if model.folds is not None:
        return folds_of(model, labels, nodes.groups, split, nodes.order)
    dealt = copy(model)
    most = 2 if len(labels) >= LARGE else int(model.dealt)
    dealt.folds = min(most, int(labelled.sum()))
    return folds_of(dealt, labels, nodes.groups, split, nodes.order)


@dataclass(eq=False)
class PoolTraining:
    """One run over a graph. Folds are numbered from 0 to K - 1; K stands for none hidden.

    labels   (n,) or (n, L), the targets of nodes; whatever it is where there are none
    fold     (n,), -1 for nodes that are not trained on
    known    whether targets of neighbours are known when nodes are predicted
    local    the candidate that the pool is not to lose to
    """

    ground: Ground
    target: Target
    labels: Array
    fold: Array
    counts: Array | None
    known: bool
    base: Any
    seed: int | None
    n_jobs: int
    tell: Tell
    local: str = LOCAL

    @classmethod
    def of(
        cls, nodes: Nodes, target: Target, labels: Array, fold: Array, counts: Array | None, known: bool, base: Any,
        effort: str, seed: int | None, n_jobs: int, tell: Tell,
    ) -> PoolTraining:  # fmt: skip
        """All candidates of an effort, trained on a graph."""
        n = len(labels)
        around = Surroundings.of(nodes.relations, n, target.width, n_jobs=n_jobs)
        columns = Columns.learn(nodes.table, seed)
        has_links, has_features = around.n_links > 0, nodes.table.shape[1] > 0
        if not has_links:
            warn("no node of this graph has a neighbour: only features of nodes themselves are used", DataWarning)
        wide, trees = columns.components is not None, target.asks_trees(n)
        wanted = candidates(base is not None, effort, known, wide, has_features, has_links, trees, target.GUARDED)
        ground = Ground(nodes.table, columns, around, target.UNIT)
        return cls(ground, target, labels, fold, counts, known, base, seed, n_jobs, tell).run(wanted)

    def __post_init__(self) -> None:
        self.train = np.flatnonzero(self.fold >= 0)
        self.n_folds = int(self.fold.max(initial=-1)) + 1
        self.tables: dict[str, list[Array]] = {}  # by name, (n, width) for each hidden fold, and for none
        self.unseen: dict[
            str, Array
        ] = {}  # by name, (|T|, width): of training nodes, by models that have not seen them
        self.models: dict[str, Trained] = {}

    def run(self, wanted: Sequence[Candidate]) -> PoolTraining:
        steps: dict[str, Step] = {}
        for place, what in enumerate(wanted):
            began, step = time.perf_counter(), running().step(what.name)
            steps[what.name] = step
            with step:
                self._train(what, step)
            later = {name for one in wanted[place + 1 :] for name in one.after}
            for name in [name for name in self.tables if name not in later]:
                kept = self.tables.pop(name) is not None
                if kept and all(one.finished for one in steps.values()):  # nobody will ask a checkpoint for them
                    steps[name].finish({**steps[name].kept, "tables": None})
            seconds = time.perf_counter() - began
            self.tell(f"{what.name}: {self.n_folds} folds and all, {seconds:.1f} s")
        return self

    def _train(self, what: Candidate, step: Step) -> None:
        """A candidate, or what a checkpoint has of it."""
        if step.finished:
            kept = step.kept
            model = None if kept["model"] is None else self.target.unpacked(kept["model"], what.kind)
            tables, self.unseen[what.name] = kept["tables"], kept["unseen"]
        else:
            model, tables = self._trained(what)
            self.unseen[what.name] = self._gathered(tables)
            packed = self.target.packed(model, what.kind) if step.active and model is not None else None
            if packed is not None or model is None:
                step.finish({"model": packed, "tables": tables, "unseen": self.unseen[what.name]})
        self.models[what.name], self.tables[what.name] = Trained(what, model), tables

    def _trained(self, what: Candidate) -> tuple[Any, list[Array]]:
        """The model of all training nodes, and what is said of all nodes while each fold is hidden, and none."""
        others = [self.tables[name] for name in what.after]
        if what.kind == GIVEN:  # whoever said it had not seen the labels
            return None, [self.ground.given] * (self.n_folds + 1)
        if what.kind == MEAN:
            return None, [mean_of(self.target, parts) for parts in zip(*others, strict=True)]
        if what.kind == CORRECTED:
            correct, around = self.target.corrected, self.ground.surroundings
            return None, [correct(around, table, self._shown(k)) for k, table in enumerate(others[0])]
        return self._learned(what)

    def _gathered(self, tables: Sequence[Array]) -> Array:
        fold, found = self.fold[self.train], np.empty((len(self.train), self.target.width), np.float32)
        for hidden in range(self.n_folds):
            found[fold == hidden] = tables[hidden][self.train[fold == hidden]]
        return found

    def _shown(self, hidden: int) -> Shown:
        """What may be seen with a fold hidden."""
        return self.target.shown(self.labels, np.flatnonzero((self.fold >= 0) & (self.fold != hidden)))

    def votes(self, name: str, hidden: int) -> Array:
        """(n, q), what nodes receive while a fold is hidden."""
        given = self.tables[name][hidden].copy()
        if self.known:
            self._shown(hidden).put(given)
        else:
            given[self.train] = self.unseen[name]
        return self.ground.surroundings.votes(given)

    def _learned(self, what: Candidate) -> tuple[Any, list[Array]]:
        from threadpoolctl import threadpool_limits

        if what.kind != LINEAR:
            import sklearn.ensemble  # noqa: F401  # before its threads can be limited

        ground, train, fold = self.ground, self.train, self.fold[self.train]
        blocks, kept = looked_at(what, ground), {}
        received = None
        for hidden in range(self.n_folds) if what.after else ():
            votes, mine = self.votes(what.after[0], hidden), fold == hidden
            received = np.empty((len(train), votes.shape[1]), np.float32) if received is None else received
            received[mine] = votes[train[mine]]
            if votes.nbytes * self.n_folds <= KEPT:
                kept[hidden] = votes

        outer = running()

        def one(hidden: int) -> tuple[Any, Array]:
            """The model that stays is that of all; of the others a checkpoint keeps what they say."""
            step = outer.step(f"without {hidden}")
            if step.finished and hidden < self.n_folds:
                return None, step.kept
            model, said = learned(hidden)
            if hidden < self.n_folds:
                step.finish(said)
            return model, said

        def learned(hidden: int) -> tuple[Any, Array]:
            rows = np.flatnonzero(fold != hidden)
            if len(rows) > MOST_ROWS:
                rows = rows[drawn(len(rows), MOST_ROWS, self.seed)]
            own = [block[train[rows]] for block in blocks]
            own = own if received is None else [*own, received[rows]]
            counts = None if self.counts is None else self.counts[train[rows]]
            with threadpool_limits(1):  # of OpenMP this holds for the thread that asks, so each asks
                model = self.target.learn(what, own, self.labels[train[rows]], counts, self.base, self.seed)
                votes = kept.get(hidden)
                if what.after and votes is None:
                    votes = self.votes(what.after[0], hidden)
                return model, Trained(what, model).said(self.target, ground, votes)

        with warnings.catch_warnings():  # scikit-learn's threads set filters back in any order
            found = run_chunks(one, self.n_folds + 1, self.n_jobs if ground.n < LARGE else 1)
        return found[-1][0], [table for _, table in found]

    # -- the pool --------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Of the candidates that have a weight."""
        return [name for name, one in self.models.items() if one.what.pooled]

    def weights(self, hidden: int | None = None) -> Array:
        """Of the candidates, by all training nodes, or without those of a fold."""
        rows = np.flatnonzero(self.fold[self.train] != (-1 if hidden is None else hidden))
        if len(rows) > MOST_ROWS:
            rows = rows[drawn(len(rows), MOST_ROWS, self.seed)]
        counts = None if self.counts is None else self.counts[self.train[rows]]
        tables = [self.unseen[name][rows] for name in self.names()]
        return self.target.weights(tables, self.labels[self.train[rows]], counts)

    def estimate(self) -> Array:
        """(|T|, width), what a pool says of the training nodes whose models and weights have not seen them."""
        names, fold = self.names(), self.fold[self.train]
        found = np.empty((len(fold), self.target.width))
        for hidden in range(self.n_folds):
            mine = fold == hidden
            found[mine] = self.target.pooled([self.unseen[name][mine] for name in names], self.weights(hidden))
        return found

    def finished(self) -> Pool:
        """The pool, of those candidates that have weight and those that they are made of, and the local one."""
        names, weights = self.names(), self.weights()
        if self.target.GUARDED and not self._beats_local():
            weights = np.array([float(name == self.local) for name in names])
        carrying = {name: float(weight) for name, weight in zip(names, weights, strict=True) if weight > 0}
        needed = needed_for([self.local, *carrying], self.models)
        kept = {name: model for name, model in self.models.items() if name in needed}
        votes = {name: self.unseen[name].astype(np.float32) for name in _giving(kept) if not self.known}
        kinds = self.ground.surroundings.kinds
        return Pool(self.target, self.ground.learned, kinds, kept, dict.fromkeys(names, 0.0) | carrying, votes)

    def _beats_local(self) -> bool:
        """Whether the pool is better than the local candidate by SURE standard errors of the difference, both by models
        and weights that have not seen whom they tell of. What is chosen from so many candidates, by few nodes, may
        look better by chance."""
        targets = self.labels[self.train]
        local, together = (self.target.losses(said, targets) for said in (self.unseen[self.local], self.estimate()))
        counts = np.ones(len(targets)) if self.counts is None else self.counts[self.train]
        counts = counts / counts.sum()
        mean = counts @ (local - together)
        return bool(mean > SURE * np.sqrt(np.square(counts) @ np.square(local - together - mean)))


def mean_of(target: Target, parts: Sequence[Array]) -> Array:
    """(n, width), the even pool of several."""
    return target.pooled(parts, [1 / len(parts)] * len(parts)).astype(np.float32)


def needed_for(names: Iterable[str], models: Mapping[str, Trained]) -> set[str]:
    """These and whatever they are made of."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += models[name].what.after
    return found


def _giving(models: Mapping[str, Trained]) -> list[str]:
    """Those whose predictions neighbours give to others, in order."""
    levels = [one.what for one in models.values() if one.what.kind not in (GIVEN, MEAN, CORRECTED)]
    return list(dict.fromkeys(name for what in levels for name in what.after))


# -- What was learned ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pool:
    """Trained candidates and their weights; `votes` of the training nodes by name, cross-fitted, where neighbours give
    predictions and not labels."""

    target: Target
    columns: Columns
    kinds: tuple[Kind, ...]
    models: dict[str, Trained]
    weights: dict[str, float]
    votes: dict[str, Array]

    @property
    def learners(self) -> list[Learner]:
        """Those of its models that are scikit-learn's."""
        found: list[Learner] = []
        for one in self.models.values():
            several = one.model if isinstance(one.model, list) else [one.model]
            found += [model for model in several if isinstance(model, Learner)]
        return found

    def ground(self, table: Any, relations: Mapping[str, Any], n_jobs: int, given: Array | None = None) -> Ground:
        around = Surroundings.of(relations, table.shape[0], self.target.width, self.kinds, n_jobs)
        return Ground(table, self.columns, around, self.target.UNIT, given)

    def tables(
        self, ground: Ground, known: Shown, given: tuple[Array, Mapping[str, Array]] | None, also: Iterable[str] = ()
    ) -> dict[str, Array]:
        """(n, width) by each candidate; `known`: targets that neighbours see; `given`: rows, and their votes by
        candidate, in the place of what is said of them; `also`: asked for whatever their weight."""
        carrying = [name for name, weight in self.weights.items() if weight > 0]
        wanted = needed_for([*carrying, *also], self.models)
        found: dict[str, Array] = {}
        for name in (name for name in self.models if name in wanted):
            one = self.models[name]
            what, parts = one.what, [found[other] for other in one.what.after]
            if what.kind == GIVEN:
                found[name] = ground.given
            elif what.kind == MEAN:
                found[name] = mean_of(self.target, parts)
            elif what.kind == CORRECTED:
                found[name] = self.target.corrected(ground.surroundings, parts[0], known)
            else:
                votes = None
                if parts:
                    votes = parts[0].copy()
                    known.put(votes)
                    if given is not None:
                        votes[given[0]] = given[1][what.after[0]]
                    votes = ground.surroundings.votes(votes)
                found[name] = one.said(self.target, ground, votes)
        return found

    def said(self, tables: Mapping[str, Array]) -> Array:
        """(n, width), the pool of what its candidates say."""
        carrying = {name: weight for name, weight in self.weights.items() if weight > 0}
        return self.target.pooled([tables[name] for name in carrying], list(carrying.values()))

    # -- model files -----------------------------------------------------------------------------------

    def put(self, state: ModelFile) -> None:
        """Add what a model file keeps."""
        listed = [{**one.what._asdict(), "after": list(one.what.after)} for one in self.models.values()]
        kinds = [list(kind) for kind in self.kinds]
        kept = {"candidates": listed, "weights": self.weights, "votes": list(self.votes), "kinds": kinds}
        state.header["pool"] = kept
        for name in ("centre", "scale", "rarity"):
            state.arrays[f"pool.{name}"] = getattr(self.columns, name)
        for name in ("components", "means", "gaps"):
            if getattr(self.columns, name) is not None:
                state.arrays[f"pool.{name}"] = getattr(self.columns, name)
        state.arrays.update({f"pool.votes.{i}": table for i, table in enumerate(self.votes.values())})
        for i, one in enumerate(self.models.values()):
            if one.model is not None:
                self.target.put(state, i, one.model)

    @classmethod
    def restored(
        cls, file: ModelFile, target: Target, n_features: int, links: Sequence[str], trusted: Sequence[str]
    ) -> Pool:
        header = file.header["pool"]
        learned = centre, scale, rarity = tuple(file.arrays[f"pool.{name}"] for name in ("centre", "scale", "rarity"))
        components, means, gaps = (file.arrays.get(f"pool.{name}") for name in ("components", "means", "gaps"))
        fits((means is None) == (gaps is None))
        if means is not None and gaps is not None:
            fits(means.shape == (n_features,) and gaps.ndim == 1 and gaps.dtype.kind == "i")
            fits(bool(((gaps >= 0) & (gaps < n_features)).all()))
            n_features += len(gaps)
        fits(all(one.shape == (n_features,) for one in learned) and moderate(*learned))
        fits(components is None or (components.ndim == 2 and len(components) == n_features))
        fits(components is None or moderate(components))
        models: dict[str, Trained] = {}
        for i, kept in enumerate(header["candidates"]):
            what = Candidate(**{**kept, "after": tuple(kept["after"])})
            fits(what.name not in models and {*what.after} <= {*models} and bool(np.isfinite(what.c)))
            fits(what.columns in (PLAIN, OWN, AROUND, TREES, SMOOTH, SMOOTHER, SAID, SAID_AROUND, SAID_TREES))
            model = None
            if what.kind in (LINEAR, TREES_KIND, BASE):
                model = target.restored(file, i, what.kind, trusted)
            else:
                fits(what.kind == GIVEN or (what.kind in (MEAN, CORRECTED) and bool(what.after)))
            models[what.name] = Trained(what, model)
        weights = {str(name): float(weight) for name, weight in header["weights"].items()}
        carrying = [name for name, weight in weights.items() if weight > 0]
        fits(bool(carrying) and {*carrying} <= {*models} and all(np.isfinite(w) and w >= 0 for w in weights.values()))
        votes = {name: file.arrays[f"pool.votes.{i}"] for i, name in enumerate(header["votes"])}
        fits(all(table.ndim == 2 and table.shape[1] == target.width for table in votes.values()))
        fits(all(table.dtype.kind == "f" for table in votes.values()))
        asked = {one.what.after[0] for one in models.values() if one.model is not None and one.what.after}
        fits(not votes or asked <= {*votes})
        kinds = tuple(Kind(str(name), bool(turned), float(usual)) for name, turned, usual in header["kinds"])
        fits({kind.relation for kind in kinds} <= {*links} and all(0 < kind.usual < np.inf for kind in kinds))
        return cls(target, Columns(centre, scale, rarity, components, means, gaps), kinds, models, weights, votes)
