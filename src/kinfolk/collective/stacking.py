"""Stacked graphical learning, level by level (Figures 1 and 2 of the paper), for whatever the instances are.

Which model votes for whom is `learning.crossfit`'s; what a row is and how a base learns, the instances'.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.templates import (
    Over,
    RestoredRule,
    TemplateSet,
    Window,
    as_labels,
    learned_strings,
    rebuilt_template,
    set_known,
)
from kinfolk.core.checkpoint import Step, running
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.settings import FLAG, NONE, Rule, one_of, setting, whole
from kinfolk.core.training import speaker
from kinfolk.errors import InputError, SettingError
from kinfolk.learning.crossfit import NOTHING, CrossFitting, Hidden, assign_folds
from kinfolk.learning.gain import Guarded

Array = NDArray[Any]
FOLDS = Rule("a whole number of 2 or more, or the fold of each instance", lambda value: True, int)  # by the data


@dataclass(eq=False)
class Instances:
    """Abstract, what is learned from: n instances with labels (-1 unknown), labels that their neighbours receive (-1:
    none, then predictions are), folds (-1: without label) and weights; who their neighbours are, and what is aggregated
    of them; and the base of each level."""

    labels: NDArray[np.int32]
    revealed: NDArray[np.int32]
    fold: NDArray[np.int32]
    weights: Array | None
    n_jobs: int  # models to train at once
    neighbourhood: Neighbourhood
    templates: TemplateSet
    bases: Sequence[Any]

    @property
    def n_votes(self) -> int:
        return self.templates.n_votes

    def learn(self, level: int, index: Array, aggregates: Array | None) -> Any:
        """The base of a level, trained on instances by number with their aggregates (m, q)."""
        raise NotImplementedError

    def proba(self, model: Any, index: Array, aggregates: Array | None) -> Array:
        """(m, L), what a trained base says of instances by number, with their aggregates (m, q)."""
        raise NotImplementedError

    def packed(self, model: Any) -> Any:
        """A trained base as a checkpoint can keep it; None: what it was trained by is kept, and it is trained again."""
        return None

    def unpacked(self, kept: Any) -> Any:
        """The trained base again."""
        raise NotImplementedError

    def aggregates(self, votes: Array, own: Array | None, index: Array) -> Array:
        """(m, q): what instances receive of the votes (n, L) of others, and of their own where there are such."""
        return self.templates.rows(self.neighbourhood, votes, index, own)


class Ask(NamedTuple):
    """How votes are made of probabilities: "proba" as they are, "label" 1 for the most probable, "sample" drawn; and
    whether an instance receives its own."""

    predictions: str
    own: bool
    seed: int | None


def as_votes(table: Array, ask: Ask, *place: int) -> Array:
    """The votes that probabilities (m, L) stand for; `place` sets one draw apart from another."""
    if ask.predictions == "label":
        return as_labels(table)
    if ask.predictions == "sample":
        return drawn(table, np.random.default_rng(None if ask.seed is None else [ask.seed, len(place), *place]))
    return table


def drawn(table: Array, rng: np.random.Generator) -> Array:
    """(m, L), 1 for a class drawn from each row of probabilities, 0 for the others."""
    cumulative = table.cumsum(axis=1)
    chosen = (rng.random((len(table), 1)) * cumulative[:, -1:] >= cumulative).sum(axis=1)
    votes = np.zeros_like(table)
    votes[np.arange(len(table)), np.minimum(chosen, table.shape[1] - 1)] = 1.0
    return votes


@dataclass
class Training:
    """One run: `models` are those trained on everything, one a level; `pieces` what models with hidden folds said, as
    votes; `alone` what those of the base said, as probabilities."""

    instances: Instances
    scheme: CrossFitting
    depth: int
    ask: Ask
    report: Callable[[str], None]
    models: list[Any] = field(default_factory=list)
    pieces: list[dict[Hidden, tuple[Array, Array]]] = field(default_factory=list)
    alone: dict[Hidden, tuple[Array, Array]] = field(default_factory=dict)

    going_on: Step = field(default_factory=running)

    def run(self) -> Training:
        from joblib import Parallel, delayed
        from threadpoolctl import threadpool_limits

        for level in range(self.depth + 1):
            sets, began = self.scheme.hidden_sets(level, self.depth), time.perf_counter()
            tasks = (delayed(self._one)(level, hidden) for hidden in sets)
            with threadpool_limits(1 if self.instances.n_jobs > 1 else None):  # one kind of threads at a time
                found = Parallel(n_jobs=self.instances.n_jobs, prefer="threads")(tasks)
            self.models.append(found[0][0])
            self.pieces.append({hidden: piece for hidden, (_, piece) in zip(sets, found, strict=True)})
            self.report(f"level {level} of {self.depth}: {len(sets)} models in {time.perf_counter() - began:.1f} s")
        return self

    def _one(self, level: int, hidden: Hidden) -> tuple[Any, tuple[Array, Array]]:
        """M(level, hidden), and its predictions for the instances whose labels it has not seen. A checkpoint keeps
        models for their predictions alone, but for those that stay."""
        step = self.going_on.step(" ".join([f"level {level}", *(f"without {fold}" for fold in sorted(hidden))]))
        if step.finished:
            kept = step.kept
            model = self.instances.unpacked(kept["model"]) if not hidden else None
        else:
            with step:
                model, kept = self._learned(level, hidden)
                kept["model"] = self.instances.packed(model) if step.active and not hidden else None
                if hidden or kept["model"] is not None:
                    step.finish(kept)
        if level == 0 and self.scheme.estimate:
            self.alone[hidden] = kept["asked"], kept["said"]
        return model, (kept["asked"], kept["votes"])

    def _learned(self, level: int, hidden: Hidden) -> tuple[Any, dict[str, Any]]:
        """The model, whom it is asked about, what it says, and the votes that this makes."""
        fold = self.instances.fold
        unseen = np.isin(fold, list(hidden))
        index = np.flatnonzero((fold >= 0) & ~unseen)
        model = self.instances.learn(level, index, self._training_aggregates(level, hidden, index))
        asked = np.arange(len(fold)) if self.scheme.kind == "none" else np.flatnonzero(unseen | (fold < 0))
        if level == self.depth and not self.scheme.estimate:
            asked = asked[:0]
        votes = NOTHING if self.scheme.kind == "paper" else hidden
        said = np.zeros((0, self.instances.n_votes))
        if len(asked):
            said = self.instances.proba(model, asked, self._aggregates(level, votes, asked))
        as_asked = as_votes(said, self.ask, level, *sorted(hidden)) if level < self.depth and len(asked) else said
        return model, {"asked": asked, "said": said, "votes": as_asked}

    def training_rows(self, level: int, index: Array) -> Array | None:
        """What instances with labels received when a level was trained on all of them."""
        return self._training_aggregates(level, NOTHING, index)

    def _training_aggregates(self, level: int, hidden: Hidden, index: Array) -> Array | None:
        """Rows of training instances; those of a fold share the votes they are made of."""
        if level == 0:
            return None
        folds = self.instances.fold[index]
        if not hidden and self.scheme.same_for_all and (self.instances.fold >= 0).all():
            return self._aggregates(level, NOTHING, index)
        sources: dict[Hidden, list[int]] = {}
        for fold in np.unique(folds).tolist():
            sources.setdefault(self.scheme.votes_for(fold, hidden), []).append(fold)
        out = None
        for votes, members in sources.items():
            rows = np.flatnonzero(np.isin(folds, members))
            part = self._aggregates(level, votes, index[rows])
            assert part is not None
            if len(sources) == 1:
                return part
            out = np.empty((len(index), part.shape[1]), part.dtype) if out is None else out
            out[rows] = part
        return out

    def _aggregates(self, level: int, hidden: Hidden, index: Array) -> Array | None:
        if level == 0:
            return None
        own = self.votes(level - 1, hidden, true_labels=False) if self.ask.own else None
        return self.instances.aggregates(self.votes(level - 1, hidden), own, index)

    def votes(self, level: int, hidden: Hidden, true_labels: bool = True) -> Array:
        """V(level, hidden), (n, L): zeros where no model may vote, which nobody asks for."""
        votes = self._gathered(self.pieces[level], hidden)
        if true_labels:
            unseen = np.isin(self.instances.fold, list(hidden))
            set_known(votes, np.where(unseen, -1, self.instances.revealed))
        return votes

    def _gathered(self, pieces: Mapping[Hidden, tuple[Array, Array]], hidden: Hidden) -> Array:
        """(n, L), of each instance what the model that may vote for it said."""
        fold = self.instances.fold
        found = np.zeros((len(fold), self.instances.n_votes))
        for number in range(-1, self.scheme.n_folds):
            voter = self.scheme.voter(number, hidden)
            if voter in pieces:
                asked, table = pieces[voter]
                mine = fold[asked] == number
                found[asked[mine]] = table[mine]
        return found

    def estimate(self) -> Array:
        """(n, L), predictions of the last level for the labelled instances by models that never saw their labels."""
        return self.votes(self.depth, NOTHING, true_labels=False)

    def estimate_alone(self) -> Array:
        """(n, L), the same of the base alone; of a training with an estimate."""
        return self._gathered(self.alone, NOTHING)


# -- what stacked models share, whatever is stacked ------------------------------------------------------


@dataclass(eq=False, repr=False)
class StackedModel(Guarded):
    """Abstract: levels of bases, each above the first with what templates give it of the predictions of the one before.

    Learned by `fit`: `levels_` (trained bases), `folds_`, `gain_`.
    """

    LOCAL: ClassVar[str] = "that of `depth=0`, the base alone"
    NOTHING: ClassVar[str] = "there is no level above the base"

    base: Any = setting(
        None, "the model of an instance alone; a list of depth + 1 gives each level its own", in_file=False
    )
    templates: Any = setting(
        None,
        'what an instance receives of others: Count("cites"), Mean("cites @ cites"), Window(3), Count(SameWord()), a '
        "function, or a list of these",
        in_file=False,
    )
    depth: int | None = setting(1, "levels above the base's own; 0 is the base alone", whole(0))
    folds: int | Sequence[int] | None = setting(
        5, "number of folds of cross-fitting, or the fold of each instance", FOLDS
    )
    predictions: str = setting(
        "proba",
        'what others give: "proba" their probabilities, "label" the most probable label, "sample" one drawn (the '
        "idealised learner of the paper)",
        one_of("proba", "label", "sample"),
    )
    own: bool = setting(False, "whether an instance receives its own prediction of the level before too", FLAG)
    cross_fitting: str = setting(
        "strict",
        '"strict": no label, nor a model trained on it, has a part in its own features; "paper": Figure 2 of the '
        'paper, fewer models; "none": in-sample votes, to see what goes wrong. See docs/stacked.md',
        one_of("strict", "paper", "none"),
    )

    _: KW_ONLY
    guard: int | bool | None = setting(
        None,
        "True: the cross-fitting by `folds` also tells whether the levels beat the base (`gain_`, with an interval; a "
        "warning where they are not shown to), with one to three times as many models to train. A number has to be "
        "that of `folds`. None or False: not measured",
        whole(2) | FLAG | NONE,
    )

    levels_: list[Any] = field(init=False)
    folds_: NDArray[np.int32] = field(init=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "levels_")

    @property
    def _ask(self) -> Ask:
        return Ask(self.predictions, bool(self.own), self.random_state)

    @property
    def n_levels(self) -> int:
        """How many levels there are above the base's own, also where `depth` does not say."""
        return 1 if self.depth is None else int(self.depth)

    @property
    def dealt(self) -> Any:
        """`folds`, also where they are not set."""
        return self.folds

    def _bases(self) -> list[Any]:
        """The base of each level: one for all, or a list of depth + 1."""
        if not isinstance(self.base, list | tuple):
            return [self.base] * (self.n_levels + 1)
        if len(self.base) != self.n_levels + 1:
            raise SettingError("base", len(self.base), f"one, or a list of depth + 1 = {self.n_levels + 1}")
        return list(self.base)

    def _trained(self, instances: Instances, known: str, depth: int, estimate: bool = False) -> Training:
        """All levels. `known`: what labelled neighbours give, "true" (or "ceiling") labels or "crossfit" predictions;
        `estimate`: for predictions on the training instances, too."""
        if estimate and known == "ceiling":
            raise SettingError.saying("a ceiling knows the labels it is scored on: cross_fit needs `known='crossfit'`")
        kind = "none" if known == "ceiling" else self.cross_fitting
        n_folds = int(instances.fold.max(initial=0)) + 1
        crossing = looks_across(instances) if kind == "strict" else True
        scheme = CrossFitting(kind, n_folds, known in ("true", "ceiling"), crossing, estimate)
        most = scheme.most_hidden(depth)
        if most >= n_folds and kind != "none":
            raise SettingError.saying(
                f"`depth={depth}` with {kind} cross-fitting hides {most} folds at a time, and there are {n_folds}; set "
                f"`folds={most + 1}` or more"
                + (", `cross_fitting='paper'` or `split='instance'`" if kind == "strict" else "")
            )
        return Training(instances, scheme, depth, self._ask, speaker(self.verbose)).run()

    def _guards(self, known: str, depth: int) -> bool:
        """Whether the levels are to be compared with the base; an error where nothing is cross-fitted."""
        if not self.guard or depth == 0:
            return False
        dealt = self.dealt
        folds = int(dealt) if isinstance(dealt, int | np.integer) else len(np.unique(np.asarray(dealt)))
        if not isinstance(self.guard, bool) and self.guard != folds:
            what = f"True or {folds}, the number of `folds`, by which a stack is measured"
            raise SettingError("guard", self.guard, what, f"set `guard={folds}`, or `folds={self.guard}` too")
        if known == "ceiling" or self.cross_fitting == "none":
            which = "known='ceiling'" if known == "ceiling" else "cross_fitting='none'"
            raise SettingError.saying(f"`guard={self.guard}` compares cross-fitted predictions, and `{which}` has none")
        return True

    def at_depth(self, depth: int) -> Self:
        """The model with its first levels alone, up to `depth`: 0 is the base."""
        self._require_fitted()
        if not 0 <= depth < len(self.levels_):
            raise SettingError("depth", depth, f"from 0 to {len(self.levels_) - 1}, the levels there are")
        shallow = copy(self)
        shallow.depth, shallow.levels_ = depth, self.levels_[: depth + 1]
        shallow.gain_ = self.gain_ if depth == self.n_levels else None
        shallow.base = list(self.base)[: depth + 1] if isinstance(self.base, list | tuple) else self.base
        return shallow

    def head(self) -> dict[str, Any]:
        """A file keeps the number of folds, also of those given by instance."""
        head = super().head()
        if not isinstance(self.dealt, int | np.integer):
            head["settings"]["folds"] = int(self.folds_.max()) + 1
        return head

    def _check_settings(self) -> None:
        super()._check_settings()
        whole(1).check("folds", self.dealt)


def looks_across(instances: Any) -> bool:
    """Whether any template leads from one fold to another."""
    fold = instances.fold
    for template in instances.templates.of_predictions:
        template = template.template if isinstance(template, Window) else template
        if template is None:  # the window itself stays in its sentence
            continue
        if not isinstance(template, Over):
            return True  # a function may do anything
        links = instances.neighbourhood.links(template.rule)
        here = np.repeat(fold, np.diff(links.indptr))
        there = fold[links.indices]
        if ((here != there) & (here >= 0) & (there >= 0)).any():
            return True
    return False


def folds_of(
    model: Any,
    labels: Array,
    groups: Array,
    split: str,
    order: Array | None = None,
    unit: str = "instances",
    dealt: Any = None,
) -> NDArray[np.int32]:
    """The fold of each instance; -1 for those without label. `order`: the node of the caller's in each row; `unit`:
    what instances are called; `dealt`: how many folds, or of each instance its own, in the place of the model's."""
    labelled, dealt = labels >= 0, model.dealt if dealt is None else dealt
    if not isinstance(dealt, int | np.integer):
        return _given_folds(dealt, labelled, order)
    n_groups = len(np.unique(groups[labelled]))
    by_group = split == "group" or (split == "auto" and n_groups > 1)
    n_units = n_groups if by_group else int(labelled.sum())
    n_folds = int(dealt)
    if n_folds < 2:
        raise SettingError("folds", n_folds, "2 or more")
    if by_group and split == "auto":
        n_folds = min(n_folds, n_groups)
    if model.n_levels and n_units < n_folds:
        remedy = f"set `folds={n_units}` or fewer" if n_units >= 2 else "label more, or set `depth=0`"
        if unit == "documents":  # "auto" deals as few folds as there are, so there is one document, or none
            there = "there is 1" if n_units else "there is none"
            raise InputError(f"cross-fitting needs 2 labelled documents or more; {there}: {remedy}")
        unit = "groups" if by_group else unit
        raise InputError(f"`folds={n_folds}` needs as many labelled {unit}; there are {n_units}: {remedy}")
    rng = np.random.default_rng(model.random_state)
    return assign_folds(labels, groups if by_group else None, n_folds, rng)


def _given_folds(folds: Any, labelled: Array, order: Array | None) -> NDArray[np.int32]:
    given = np.asarray(folds)
    if given.shape != labelled.shape or given.dtype.kind not in "iu":
        raise SettingError.saying(
            f"folds must be a number, or one fold an instance ({len(labelled)}); got shape {given.shape}"
        )
    given = given if order is None else given[order]
    numbers = np.unique(given[labelled])
    if len(numbers) < 2 or numbers[0] < 0:
        raise SettingError.saying("folds given by instance must be numbered from 0, and two or more must hold labels")
    return np.where(labelled, np.searchsorted(numbers, given), -1).astype(np.int32)


# -- model files --------------------------------------------------------------------------------------


def put_templates(state: ModelFile, template_set: TemplateSet, **more: Any) -> None:
    """Add what a model file keeps of templates after training, and `more` about the levels over them."""
    templates = template_set.templates
    state.strings.update({f"template.{i}": learned_strings(t) for i, t in enumerate(templates)})
    state.header["stacked"] = {"templates": [t.spec() for t in templates], "votes": template_set.n_votes, **more}


def restored_templates(file: ModelFile, functions: Functions, rules: RestoredRule | None = None) -> TemplateSet:
    spec = file.header["stacked"]
    templates = [
        rebuilt_template(t, file.strings.get(f"template.{i}", []), functions, rules)
        for i, t in enumerate(spec["templates"])
    ]
    return TemplateSet(tuple(templates), int(spec["votes"]))
