"""Relations named, composed and joined: whom an instance looks at when a template asks.

    cites                    a relation of the data
    ~cites                   the other way round: who cites me
    cites @ cites            two steps: whom those cite whom I cite
    cites | cited_by         either of the two
    (cites | cited_by) @ cites
    component(cites)         everybody who can be reached, in either direction, by any number of steps
    "work @ home"            in quotes: a relation whose name holds one of these marks

`@` binds before `|`. A path never leads back to where it began, so nobody is his own neighbour, and a weight is the
sum over the ways to get there of the product of their weights. Of two joined relations the larger weight counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.errors import InputError, SettingError

COMPONENT = "component"
MOST_PAIRS = 100_000_000  # links a component relation may have
_WORDS = re.compile(r'\s*("[^"]*"|[@|~()]|[^@|~()"]+)')


@dataclass(frozen=True, repr=False)
class Relation:
    """A relation of the data by its name, or others composed (`a @ b`), joined (`a | b`) or turned round (`~a`)."""

    name: str
    parts: tuple[Relation, ...] = ()

    @classmethod
    def parse(cls, text: str | Relation) -> Relation:
        """From the way it is written above."""
        if isinstance(text, Relation):
            return text
        if not isinstance(text, str):
            raise SettingError.saying(
                f"a relation is named by a string such as 'cites' or 'cites @ cites'; got {text!r}"
            )
        words = [word.strip() for word in _WORDS.findall(text) if word.strip()]
        found, rest = _read(words, text)
        if rest:
            raise SettingError.saying(f"cannot read the relation {text!r}: {rest[0]!r} was not expected there")
        return found

    def __matmul__(self, other: str | Relation) -> Relation:
        return Relation("@", (self, Relation.parse(other)))

    def __rmatmul__(self, other: str) -> Relation:
        return Relation.parse(other) @ self

    def __or__(self, other: str | Relation) -> Relation:
        return Relation("|", (self, Relation.parse(other)))

    def __ror__(self, other: str) -> Relation:
        return Relation.parse(other) | self

    def __invert__(self) -> Relation:
        return Relation("~", (self,))

    def names(self) -> list[str]:
        """The relations of the data it is made of, each once."""
        return list(dict.fromkeys([n for part in self.parts for n in part.names()] if self.parts else [self.name]))

    def component(self) -> Relation:
        """Everybody in the same connected component."""
        return Relation(COMPONENT, (self,))

    def __str__(self) -> str:
        if not self.parts:
            plain = self.name == self.name.strip() and not set(self.name) & set("@|~()")
            return self.name if plain else f'"{self.name}"'
        if self.name == COMPONENT:
            return f"{COMPONENT}({self.parts[0]})"
        bracketed = {"~": "@|", "@": "|"}.get(self.name, "")  # parts that bind less tightly
        inner = [f"({part})" if part.parts and part.name in bracketed else str(part) for part in self.parts]
        return f"~{inner[0]}" if self.name == "~" else f" {self.name} ".join(inner)

    def __repr__(self) -> str:
        return f"Relation({str(self)!r})"

    def links(self, relations: Mapping[str, Any]) -> sparse.csr_array:
        """CSR (n, n) without a diagonal: row i lists whom i looks at."""
        return _without_self(self._links(relations))

    def _links(self, relations: Mapping[str, Any]) -> sparse.csr_array:
        if not self.parts:
            if self.name not in relations:
                known = ", ".join(map(repr, relations)) or "none"
                raise InputError(f"there is no relation {self.name!r} here; there are: {known}")
            links = relations[self.name]
            return links.astype(np.result_type(links.dtype, np.float32), copy=False)  # whole numbers might overflow
        parts = [part._links(relations) for part in self.parts]
        if self.name == "~":
            return sparse.csr_array(parts[0].T)
        if self.name == COMPONENT:
            return _components(parts[0])
        if self.name == "@":
            return sparse.csr_array(reduce(lambda a, b: a @ b, parts)).sorted_indices()
        return sparse.csr_array(reduce(lambda a, b: a.maximum(b), parts))


def _read(words: list[str], text: str, marks: str = "|@") -> tuple[Relation, list[str]]:
    """A relation at the head of the words, and the words after it; each of the marks binds before those to its left."""
    if not marks:
        return _one(words, text)
    found, words = _read(words, text, marks[1:])
    while words and words[0] == marks[0]:
        other, words = _read(words[1:], text, marks[1:])
        found = Relation(marks[0], (found, other))
    return found, words


def _one(words: list[str], text: str) -> tuple[Relation, list[str]]:
    if words and words[0] == "~":
        inner, rest = _one(words[1:], text)
        return ~inner, rest
    if words and words[0] == "(":
        inner, rest = _read(words[1:], text)
        if not rest or rest[0] != ")":
            raise SettingError.saying(f"cannot read the relation {text!r}: a closing bracket is missing")
        return inner, rest[1:]
    if words and words[0] == COMPONENT and words[1:2] == ["("]:
        inner, rest = _one(words[1:], text)
        return inner.component(), rest
    if not words or words[0] in "@|)":
        raise SettingError.saying(
            f"cannot read the relation {text!r}: expected the name of a relation, as in 'cites @ cites'"
        )
    return Relation(words[0].removeprefix('"').removesuffix('"')), words[1:]


def _components(links: Any) -> sparse.csr_array:
    """Everybody linked to everybody of his component."""
    from scipy.sparse import csgraph  # a tenth of a second that few programs need

    n, member = csgraph.connected_components(_without_self(links), directed=False)  # an entry of 0 is no link
    sizes = np.bincount(member, minlength=n).astype(np.int64)
    if (sizes**2).sum() > MOST_PAIRS:
        raise InputError(
            f"the components are too large to link everybody in them (the largest has {sizes.max()} instances): use a "
            "path of a few steps, such as 'cites @ cites'"
        )
    belongs = (np.ones(len(member), np.float32), member, np.arange(len(member) + 1))
    table = sparse.csr_array(belongs, shape=(len(member), n))
    return sparse.csr_array(table @ table.T).sorted_indices()


def _without_self(links: Any) -> sparse.csr_array:
    """The links without those from an instance to itself, and without entries of weight 0."""
    rows = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    kept = (rows != links.indices) & (links.data != 0)
    if kept.all():
        return links
    starts = np.concatenate([[0], np.cumsum(kept)])[links.indptr]
    return sparse.csr_array((links.data[kept], links.indices[kept], starts), shape=links.shape)


# -- Instances and how they are linked, as relational templates see them -------------------------------


class LinkRule:
    """A task's own rule that links its instances by what they are, such as tokens of a document by their words."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    def learn(self, corpus: Any) -> LinkRule:
        """The rule with what it needs to know of the training data; one that has learned is itself."""
        return self

    def edges(self, corpus: Any) -> NDArray[np.int64]:
        """(E, 2), pairs of instances, each once."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """A JSON description, for model files."""
        raise NotImplementedError

    def state(self) -> list[str]:
        """What it learned, for model files."""
        return []


Rule = Relation | LinkRule


class Sentences(Protocol):
    """What templates about tokens ask of a corpus."""

    sentence_starts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """n instances with relations (name -> CSR), features (CSR or dense, or None), and for tokens their corpus.

    Paths and rules are worked out once each. `order`: the instance of the caller's in each row; None: as they came.
    """

    n: int
    n_votes: int
    relations: Mapping[str, Any]
    features: Any = None
    corpus: Any = None
    n_jobs: int = 1
    worked_out: dict[Any, sparse.csr_array] = field(default_factory=dict, repr=False)
    order: NDArray[np.int64] | None = None

    def tokens(self, asked_by: str) -> Sentences:
        """The corpus, for templates that are about tokens."""
        if self.corpus is None:
            raise InputError(f"{asked_by} is about tokens in sentences, and this is a graph; name one of its relations")
        found: Sentences = self.corpus
        return found

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

    def _token_links(self, rule: LinkRule) -> sparse.csr_array:
        """Of a rule that links a token to earlier ones: both look at each other."""
        corpus = self.tokens(rule.name)
        later, earlier = rule.learn(corpus).edges(corpus).T
        ends = np.concatenate([later, earlier]), np.concatenate([earlier, later])
        return sparse.csr_array((np.ones(len(ends[0]), np.float32), ends), shape=(self.n, self.n))
