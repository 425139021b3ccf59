"""Relational templates as a set: a user's functions among them, names, and the rows they make together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective import templates as neighbours
from kinfolk.collective.aggregate import padded
from kinfolk.collective.neighbourhood import Neighbourhood
from kinfolk.collective.relations import Relation
from kinfolk.collective.templates import Concat, Count, NeighbourTemplate, Over
from kinfolk.collective.window import Window
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.text.skip_edges import LearnedSkips, SkipBuilder, given_again, learned_skips

Array = NDArray[Any]
KINDS: dict[str, type[Over]] = {
    name: getattr(neighbours, name) for name in ("Count", "LogCount", "Exists", "Proportion", "Mean", "Max", "Concat")
}
WRITTEN = "count:cites, log-count:cites, mean:cites @ cites, mean:cites:features, max:cites:hard or window:3"

VoteFunction = Callable[[Array, Mapping[str, Any]], Array]


@dataclass(frozen=True, init=False)
class NeighbourFunction(NeighbourTemplate):
    """A user's rule: `function(votes, relations)` takes votes (n, classes) and name -> CSR (n, n), and returns (n, q).

    Row i must not depend on votes[i], or an instance is told of itself. The model file keeps the name (that of the
    function unless given); the function is passed in again on load. q has to be the same for every graph.
    """

    function: VoteFunction
    label: str
    columns: int = 0

    def __init__(self, function: VoteFunction, name: str | None = None, columns: int = 0) -> None:
        if isinstance(function, type) or not callable(function):
            raise SettingError(f"NeighbourFunction takes a function of votes and relations; got {function!r}")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "label", name or getattr(function, "__name__", type(function).__name__))
        object.__setattr__(self, "columns", columns)

    @property
    def name(self) -> str:
        return self.label

    def learn(self, hood: Neighbourhood) -> Self:
        width = self._answer(hood, np.zeros((hood.n, hood.n_votes))).shape[1]
        return type(self)(self.function, self.label, width)

    def width(self, n_votes: int) -> int:
        return self.columns

    def column_names(self, votes: list[str]) -> list[str]:
        return [f"{self.name}[{i}]" for i in range(self.columns)]

    def write(self, hood: Neighbourhood, votes: Array, rows: Array, out: Array) -> None:
        answer = self._answer(hood, votes)
        if answer.shape[1] != self.columns:
            raise InputError(f"{self.name!r} returned {self.columns} columns in training and {answer.shape[1]} now")
        out[:] = answer[rows]

    def _answer(self, hood: Neighbourhood, votes: Array) -> Array:
        shown = votes.view() if hood.order is None else votes[np.argsort(hood.order)]
        shown.flags.writeable = False  # others are told of the same votes
        answer = np.asarray(self.function(shown, hood.relations_as_given()))
        if answer.ndim == 1:
            answer = answer[:, None]
        if answer.ndim != 2 or len(answer) != hood.n or answer.dtype.kind not in "fiub":
            got = f"{answer.dtype} of shape {answer.shape}"
            raise InputError(f"{self.name!r} must return one row of numbers an instance ({hood.n}); got {got}")
        if not np.isfinite(answer).all():
            raise InputError(f"{self.name!r} must return finite numbers; got {answer[~np.isfinite(answer)][0]}")
        return answer if hood.order is None else answer[hood.order]

    def spec(self) -> dict[str, Any]:
        return {"template": "NeighbourFunction", "name": self.label, "columns": self.columns}


@dataclass(frozen=True)
class Company:
    """Templates after training: the columns they add to an instance's own features."""

    templates: tuple[NeighbourTemplate, ...]
    n_votes: int

    @classmethod
    def learn(cls, templates: Iterable[NeighbourTemplate], hood: Neighbourhood) -> Company:
        return cls(tuple(template.learn(hood) for template in templates), hood.n_votes)

    @property
    def told(self) -> list[NeighbourTemplate]:
        """The templates of predictions, which change from level to level."""
        return [template for template in self.templates if template.of == "predictions"]

    @property
    def width(self) -> int:
        """Columns of predictions."""
        return sum(template.width(self.n_votes) for template in self.told)

    @property
    def by_rows(self) -> bool:
        """Whether some rows cost less than all: a user's function tells everybody or nobody."""
        return all(isinstance(template, Over) for template in self.told)

    def relation_names(self) -> list[str]:
        """The relations of the data that templates name."""
        rules = [t.rule for t in self.templates if isinstance(t, Over)]
        return list(dict.fromkeys(name for rule in rules if isinstance(rule, Relation) for name in rule.names()))

    def names(self, votes: Sequence[str], features: Sequence[str]) -> list[str]:
        """Of all columns: first of features, as `fixed` gives them, then of predictions."""
        fixed = [t for t in self.templates if t.of == "features"]
        return [name for t in [*fixed, *self.told] for name in t.column_names(list(features if t in fixed else votes))]

    def fixed(self, hood: Neighbourhood) -> list[Any]:
        """Tables (n, F) of the neighbours' features, CSR or dense as the features are."""
        return [t.of_features(hood) for t in self.templates if isinstance(t, Over) and t.of == "features"]

    def prepare(self, hood: Neighbourhood) -> None:
        """Work out the links that templates ask for, before threads do."""
        for template in self.templates:
            if isinstance(template, Over):
                hood.links(template.rule)

    def rows(self, hood: Neighbourhood, votes: Array, rows: Array, own: Array | None = None) -> Array:
        """(len(rows), width): what these instances are told of their neighbours' votes (n, classes); with `own` (n,
        classes) their own come last."""
        votes = padded(votes)  # once for all templates
        out, at = np.empty((len(rows), self.width + (0 if own is None else own.shape[1])), votes.dtype), 0
        for template in self.told:
            width = template.width(self.n_votes)
            template.write(hood, votes, rows, out[:, at : at + width])
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
            raise SettingError(f"two templates are the same: {template.name}; leave one out, or name functions apart")
        found.append(template)
    if not found:
        raise SettingError("templates must name at least one relational template, such as Count('cites')")
    return found


def _as_template(item: Any) -> NeighbourTemplate:
    if isinstance(item, str):
        return parse_template(item)
    if isinstance(item, SkipBuilder):
        return Count(item)
    if isinstance(item, NeighbourTemplate):
        return item
    if isinstance(item, type) or not callable(item):
        raise SettingError(f"a relational template was expected, such as Count('cites') or Window(3); got {item!r}")
    return NeighbourFunction(item)


def parse_template(text: str) -> NeighbourTemplate:
    """KIND:RELATION[:features|:hard] or window:SIZE, as the command line takes them."""
    kind, _, rest = text.partition(":")
    name = {"log-count": "LogCount"}.get(kind.strip().lower(), kind.strip().capitalize())
    if name == "Window":
        size = rest.strip()
        return Window(int(size) if size.isdecimal() else size)  # type: ignore[arg-type]
    relation, _, word = rest.partition(":")
    if name not in KINDS or not relation.strip() or word.strip() not in ("", "features", "hard"):
        raise SettingError(f"cannot read the template {text!r}; write it as {WRITTEN}")
    return KINDS[name](
        relation.strip(), "features" if word.strip() == "features" else "predictions", word.strip() == "hard"
    )


def rebuilt_template(
    spec: Mapping[str, Any], strings: Sequence[str], functions: Mapping[str, Callable[..., Any]]
) -> NeighbourTemplate:
    """What `spec` describes; `strings` are what a rule for tokens learned, `functions` a user's, by name."""
    kind = spec["template"]
    if kind == "Window":
        told = spec.get("told")
        return Window(spec["size"], None if told is None else rebuilt_template(told, strings, functions))
    if kind == "NeighbourFunction":
        function = given_again(spec["name"], functions, "a neighbour function")
        return NeighbourFunction(function, spec["name"], spec["columns"])
    if kind not in KINDS:
        raise ModelFileError(f"the model uses a relational template this version does not know: {kind!r}")
    relation = spec["relation"]
    rule: Any = relation if isinstance(relation, str) else learned_skips(relation, strings, functions)
    return KINDS[kind](rule, spec["of"], spec["hard"], **({"slots": spec["slots"]} if KINDS[kind] is Concat else {}))


def learned_strings(template: NeighbourTemplate) -> list[str]:
    """The words a rule for tokens leaves out, to be kept beside its `spec`."""
    if isinstance(template, Window) and template.told is not None:
        return learned_strings(template.told)
    rule = getattr(template, "relation", None)
    return rule.state() if isinstance(rule, LearnedSkips) else []
