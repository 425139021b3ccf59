"""Relational templates: what an instance receives of its neighbours' predictions, or of their features.

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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregate import ANY, LARGEST, MEAN, SHARE, SUM, aggregate, lay_out, padded, sparse_aggregate
from kinfolk.collective.relations import LinkRule, Neighbourhood, Relation, Rule
from kinfolk.core.kernels import njit
from kinfolk.core.modelfile import Functions, class_in_file, class_named, given_again, name_in_file
from kinfolk.core.settings import whole_to
from kinfolk.errors import InputError, ModelFileError, SettingError

Array = NDArray[Any]
OF = ("predictions", "features")
MOST_SLOTS, MOST_AROUND = 100_000, 1_000  # neighbours with a slot each; tokens on each side


class NeighbourTemplate:
    """A rule that gives an instance numbers about its neighbours: `of` their "predictions", which change from level to
    level, or of their "features", which are the same at all."""

    of: str = "predictions"

    @property
    def name(self) -> str:
        raise NotImplementedError

    def learn(self, neighbourhood: Neighbourhood) -> Self:
        """The rule with what it needs to know of the training data."""
        return self

    def width(self, n_votes: int) -> int:
        """How many columns it has when there are `n_votes` classes."""
        return n_votes

    def column_names(self, votes: list[str]) -> list[str]:
        return [f"{self.name} {vote}" for vote in votes]

    def write(self, neighbourhood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
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

    relation: str | Relation | LinkRule
    of: str = "predictions"
    hard: bool = False

    KIND: ClassVar[int] = SUM
    OF: ClassVar[tuple[str, ...]] = ("predictions",)

    def __post_init__(self) -> None:
        if self.of not in self.OF:
            raise SettingError("of", self.of, f"one of {', '.join(self.OF)}", owner=type(self).__name__)
        if not isinstance(self.hard, bool):
            raise SettingError("hard", self.hard, "True or False", owner=type(self).__name__)
        if not isinstance(self.relation, LinkRule):
            object.__setattr__(self, "relation", Relation.parse(self.relation))

    def __repr__(self) -> str:
        rule = repr(str(self.rule)) if isinstance(self.rule, Relation) else repr(self.rule)
        defaults = {one.name: one.default for one in fields(self)}
        changed = [f"{name}={value!r}" for name, value in self._settings().items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join([rule, *changed])})"

    @property
    def rule(self) -> Rule:
        assert not isinstance(self.relation, str)
        return self.relation

    @property
    def name(self) -> str:
        shown = self.rule.name if isinstance(self.rule, LinkRule) else str(self.rule)
        return f"{type(self).__name__.lower()}({shown}{', hard' if self.hard else ''})"

    def learn(self, neighbourhood: Neighbourhood) -> Self:
        if isinstance(self.rule, LinkRule):
            return replace(self, relation=self.rule.learn(neighbourhood.tokens(self.name)))
        neighbourhood.links(self.rule)  # an error now if it is not there
        return self

    def write(self, neighbourhood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        given = as_labels(votes) if self.hard else votes
        aggregate(self.KIND, neighbourhood.links(self.rule), given, rows, out, neighbourhood.n_jobs)

    def aggregated_features(self, neighbourhood: Neighbourhood) -> Any:
        """CSR or dense (n, F) for of="features"."""
        links, table = neighbourhood.links(self.rule), neighbourhood.features
        if sparse.issparse(table):
            table = table.astype(np.result_type(table.dtype, np.float32), copy=False)  # a mean of counts is no count
            return sparse_aggregate(self.KIND, links, table, neighbourhood.n_jobs)
        out = np.empty(table.shape, np.result_type(table.dtype, np.float32))
        aggregate(self.KIND, links, table, np.arange(len(table)), out, neighbourhood.n_jobs)
        return out

    def spec(self) -> dict[str, Any]:
        rule = self.rule.spec() if isinstance(self.rule, LinkRule) else str(self.rule)
        return {"template": name_in_file(self, Over), "relation": rule, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        """All but the relation, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)[1:]}


class Count(Over):
    """How many neighbours have each label, by the weights of the links: Σ_j w_ij v_j."""

    OF = OF


class LogCount(Over):
    """log(1 + Count), for weights that are not negative."""

    def learn(self, neighbourhood: Neighbourhood) -> Self:
        learned = super().learn(neighbourhood)
        if (neighbourhood.links(learned.rule).data < 0).any():
            raise InputError(f"{self.name} needs weights that are not negative; use Count")
        return learned

    def write(self, neighbourhood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        super().write(neighbourhood, votes, rows, out)
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
            whole_to(1, MOST_SLOTS).check("slots", self.slots, "Concat")
            object.__setattr__(self, "slots", int(self.slots))  # numpy's numbers too

    def learn(self, neighbourhood: Neighbourhood) -> Self:
        learned = super().learn(neighbourhood)
        if self.slots is not None:
            return learned
        most = int(np.diff(neighbourhood.links(learned.rule).indptr).max(initial=1))
        return replace(learned, slots=max(1, most))

    def width(self, n_votes: int) -> int:
        assert self.slots is not None
        return self.slots * n_votes

    def column_names(self, votes: list[str]) -> list[str]:
        return [f"{self.name}[{slot}] {vote}" for slot in range(self.slots or 0) for vote in votes]

    def write(self, neighbourhood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        assert self.slots is not None
        lay_out(neighbourhood.links(self.rule), as_labels(votes) if self.hard else votes, rows, self.slots, out)


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


# -- What tokens near by predict, or receive --------------------------------------------------------------


@dataclass(frozen=True)
class Window(NeighbourTemplate):
    """For tokens: the votes of the `size` tokens before and after, in the same sentence; absent = 0.

    With it alone stacking is stacked sequential learning (Cohen and Carvalho).

    template   instead of their votes, the aggregates it gives them: Window(3, Max(SameWord())) shows a token how the
               words around it are labelled elsewhere in the document
    """

    size: int = 3
    template: NeighbourTemplate | None = None

    def __post_init__(self) -> None:
        whole_to(1, MOST_AROUND).check("size", self.size, "Window")
        if self.template is not None and (
            not isinstance(self.template, NeighbourTemplate) or self.template.of != "predictions"
        ):
            raise SettingError("template", self.template, "a template of predictions, such as Max(...)", owner="Window")

    @property
    def name(self) -> str:
        return f"window({self.size})" if self.template is None else f"window({self.size}, {self.template.name})"

    @property
    def offsets(self) -> list[int]:
        return [*range(-self.size, 0), *range(1, self.size + 1)]

    def learn(self, neighbourhood: Neighbourhood) -> Self:
        neighbourhood.tokens(self.name)
        return self if self.template is None else replace(self, template=self.template.learn(neighbourhood))

    def width(self, n_votes: int) -> int:
        return 2 * self.size * (n_votes if self.template is None else self.template.width(n_votes))

    def column_names(self, votes: list[str]) -> list[str]:
        inner = votes if self.template is None else self.template.column_names(votes)
        return [f"{self.name}[{offset:+d}] {name}" for offset in self.offsets for name in inner]

    def write(self, neighbourhood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        corpus, said = neighbourhood.tokens(self.name), votes
        if self.template is not None:
            said = np.empty((neighbourhood.n, self.template.width(votes.shape[1])), votes.dtype)
            self.template.write(neighbourhood, votes, np.arange(neighbourhood.n), said)
        starts, offsets = corpus.sentence_starts, np.array(self.offsets, np.int64)
        sentences = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
        _write_window(said, starts, sentences, rows, offsets, out)

    def spec(self) -> dict[str, Any]:
        inner = {} if self.template is None else {"told": self.template.spec()}
        return {"template": "Window", "size": int(self.size), **inner}


@njit(cache=True, nogil=True)
def _write_window(said, starts, sentences, rows, offsets, out):  # type: ignore[no-untyped-def]
    """What is said at each offset within the sentence, side by side; 0 beyond it."""
    width = said.shape[1]
    for i in range(len(rows)):
        first, last = starts[sentences[rows[i]]], starts[sentences[rows[i]] + 1]
        for slot in range(len(offsets)):
            there = rows[i] + offsets[slot]
            inside = first <= there < last
            for c in range(width):
                out[i, slot * width + c] = said[there, c] if inside else 0.0


# -- Relational templates as a set: a user's functions among them, names, and the rows they make together ---

WRITTEN = "count:cites, log-count:cites, mean:cites @ cites, mean:cites:features, max:cites:hard or window:3"

VoteFunction = Callable[[Array, Mapping[str, Any]], Array]


@dataclass(frozen=True, init=False)
class NeighbourFunction(NeighbourTemplate):
    """A user's rule: `function(votes, relations)` takes votes (n, classes) and name -> CSR (n, n), and returns (n, q).

    Row i must not depend on votes[i], or an instance receives its own. The model file keeps its name (the function's
    unless given); the function is passed in again on load. q has to be the same for every graph.
    """

    function: VoteFunction
    label: str
    columns: int = 0

    def __init__(self, function: VoteFunction, name: str | None = None, columns: int = 0) -> None:
        if isinstance(function, type) or not callable(function):
            raise SettingError.saying(f"NeighbourFunction takes a function of votes and relations; got {function!r}")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "label", name or getattr(function, "__name__", type(function).__name__))
        object.__setattr__(self, "columns", columns)

    @property
    def name(self) -> str:
        return self.label

    def learn(self, neighbourhood: Neighbourhood) -> Self:
        width = self._answer(neighbourhood, np.zeros((neighbourhood.n, neighbourhood.n_votes))).shape[1]
        return type(self)(self.function, self.label, width)

    def width(self, n_votes: int) -> int:
        return self.columns

    def column_names(self, votes: list[str]) -> list[str]:
        return [f"{self.name}[{i}]" for i in range(self.columns)]

    def write(self, neighbourhood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        answer = self._answer(neighbourhood, votes)
        if answer.shape[1] != self.columns:
            raise InputError(f"{self.name!r} returned {self.columns} columns in training and {answer.shape[1]} now")
        out[:] = answer[rows]

    def _answer(self, neighbourhood: Neighbourhood, votes: Array) -> Array:
        shown = votes.view() if neighbourhood.order is None else votes[np.argsort(neighbourhood.order)]
        shown.flags.writeable = False  # other templates read the same votes
        answer = np.asarray(self.function(shown, neighbourhood.relations_as_given()))
        if answer.ndim == 1:
            answer = answer[:, None]
        if answer.ndim != 2 or len(answer) != neighbourhood.n or answer.dtype.kind not in "fiub":
            got = f"{answer.dtype} of shape {answer.shape}"
            raise InputError(f"{self.name!r} must return one row of numbers an instance ({neighbourhood.n}); got {got}")
        if not np.isfinite(answer).all():
            raise InputError(f"{self.name!r} must return finite numbers; got {answer[~np.isfinite(answer)][0]}")
        return answer if neighbourhood.order is None else answer[neighbourhood.order]

    def spec(self) -> dict[str, Any]:
        return {"template": "NeighbourFunction", "name": self.label, "columns": self.columns}


@dataclass(frozen=True)
class TemplateSet:
    """Templates after training: the columns they add to an instance's own features."""

    templates: tuple[NeighbourTemplate, ...]
    n_votes: int

    @classmethod
    def learn(cls, templates: Iterable[NeighbourTemplate], neighbourhood: Neighbourhood) -> TemplateSet:
        return cls(tuple(template.learn(neighbourhood) for template in templates), neighbourhood.n_votes)

    @property
    def of_predictions(self) -> list[NeighbourTemplate]:
        """The templates of predictions, which change from level to level."""
        return [template for template in self.templates if template.of == "predictions"]

    @property
    def of_features(self) -> list[NeighbourTemplate]:
        """The templates of features, which are the same at every level."""
        return [template for template in self.templates if template.of == "features"]

    @property
    def width(self) -> int:
        """Columns of predictions."""
        return sum(template.width(self.n_votes) for template in self.of_predictions)

    @property
    def by_rows(self) -> bool:
        """Whether some rows cost less than all: a user's function answers for all at once."""
        return all(isinstance(template, Over) for template in self.of_predictions)

    def relation_names(self) -> list[str]:
        """The relations of the data that templates name."""
        rules = [t.rule for t in self.templates if isinstance(t, Over)]
        return list(dict.fromkeys(name for rule in rules if isinstance(rule, Relation) for name in rule.names()))

    def names(self, votes: Sequence[str], features: Sequence[str]) -> list[str]:
        """Of all columns: first of features, as `fixed` gives them, then of predictions."""
        fixed = self.of_features
        return [
            name
            for t in [*fixed, *self.of_predictions]
            for name in t.column_names(list(features if t in fixed else votes))
        ]

    def fixed(self, neighbourhood: Neighbourhood) -> list[Any]:
        """Tables (n, F) of the neighbours' features, CSR or dense as the features are."""
        return [t.aggregated_features(neighbourhood) for t in self.of_features if isinstance(t, Over)]

    def prepare(self, neighbourhood: Neighbourhood) -> None:
        """Work out the links that templates ask for, before threads do."""
        for template in self.templates:
            if isinstance(template, Over):
                neighbourhood.links(template.rule)

    def rows(self, neighbourhood: Neighbourhood, votes: Array, rows: Array, own: Array | None = None) -> Array:
        """(len(rows), width): what these instances receive of their neighbours' votes (n, classes); with `own` (n,
        classes) their own come last."""
        votes = padded(votes)  # once for all templates
        out, at = np.empty((len(rows), self.width + (0 if own is None else own.shape[1])), votes.dtype), 0
        for template in self.of_predictions:
            width = template.width(self.n_votes)
            template.write(neighbourhood, votes, rows, out[:, at : at + width])
            at += width
        if own is not None:
            out[:, at:] = own[rows]
        return out


def as_templates(given: Any) -> list[NeighbourTemplate]:
    """One template or a list of them; a rule for tokens (SameWord()) stands for its Count, a function for itself, a
    string is read by `parse_template`."""
    found: list[NeighbourTemplate] = []
    for item in given if isinstance(given, list | tuple) else [given]:
        template = _as_template(item)
        same_name = isinstance(template, NeighbourFunction) and template.name in {other.name for other in found}
        if template in found or same_name:
            raise SettingError.saying(
                f"two templates are the same: {template.name}; leave one out, or name functions apart"
            )
        found.append(template)
    if not found:
        raise SettingError.saying("templates must name at least one relational template, such as Count('cites')")
    return found


def _as_template(item: Any) -> NeighbourTemplate:
    if isinstance(item, str):
        return parse_template(item)
    if isinstance(item, LinkRule):
        return Count(item)
    if isinstance(item, NeighbourTemplate):
        return item
    if isinstance(item, type) or not callable(item):
        raise SettingError.saying(
            f"a relational template was expected, such as Count('cites') or Window(3); got {item!r}"
        )
    return NeighbourFunction(item)


def parse_template(text: str) -> NeighbourTemplate:
    """KIND:RELATION[:features|:hard] or window:SIZE, as the command line takes them."""
    kind, _, rest = text.partition(":")
    name = "".join(word.capitalize() for word in kind.strip().split("-"))
    if name == "Window":
        size = rest.strip()
        return Window(int(size) if size.isdecimal() else size)  # type: ignore[arg-type]
    relation, _, word = rest.partition(":")
    found = class_named(name, Over)
    if found is None or not relation.strip() or word.strip() not in ("", "features", "hard"):
        raise SettingError.saying(f"cannot read the template {text!r}; write it as {WRITTEN}")
    template: Over = found(relation.strip(), OF[word.strip() == "features"], word.strip() == "hard")
    return template


RestoredRule = Callable[[Mapping[str, Any], Sequence[str], Functions], LinkRule]


def rebuilt_template(
    spec: Mapping[str, Any], strings: Sequence[str], functions: Functions, rules: RestoredRule | None = None
) -> NeighbourTemplate:
    """What `spec` describes; `strings` are what a task's rule learned, `functions` a user's, by name, and `rules` makes
    such a rule again."""
    kind = spec["template"]
    if kind == "Window":
        inner = spec.get("told")
        return Window(spec["size"], None if inner is None else rebuilt_template(inner, strings, functions, rules))
    if kind == "NeighbourFunction":
        function = given_again(spec["name"], functions, "a neighbour function")
        return NeighbourFunction(function, spec["name"], spec["columns"])
    found = class_in_file(kind, Over, "the model uses a relational template")
    relation, settings = spec["relation"], {name: spec[name] for name in spec if name not in ("template", "relation")}
    if not isinstance(relation, str) and rules is None:
        raise ModelFileError(f"the model uses a rule for links this task does not know: {sorted(relation)}")
    rule: Any = relation if isinstance(relation, str) or rules is None else rules(relation, strings, functions)
    template: Over = found(rule, **settings)
    return template


def learned_strings(template: NeighbourTemplate) -> list[str]:
    """The words a rule for tokens leaves out, to be kept beside its `spec`."""
    if isinstance(template, Window) and template.template is not None:
        return learned_strings(template.template)
    rule = getattr(template, "relation", None)
    return rule.state() if isinstance(rule, LinkRule) else []
