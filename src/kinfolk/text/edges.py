"""Features of an edge (child token, parent token) that are read off the text alone.

For a gate that learns which parents to trust, and for weights of label pairs. Nothing is learned here: the
columns are fixed by the names. The neighbours of a token end with its sentence; the place beyond is a value of
its own, so two tokens that both begin a sentence have the same previous word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.core.data import read_only
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.text.attributes import capitalised, lower
from kinfolk.text.corpus import Corpus
from kinfolk.text.document import Context
from kinfolk.text.skip_edges import given_again
from kinfolk.text.templates import Attribute
from kinfolk.text.view import TokenView

Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]
EdgeFunction = Callable[[Corpus, Offsets, Offsets], ArrayLike]


class _Text:
    """What the built-in features ask of tokens, each worked out once and only if asked; arrays (n,)."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._view = TokenView(corpus, {}, learning=True)

    def _has(self, attribute: Attribute, offset: int = 0) -> Mask:
        return self._view.codes(attribute, offset) > 0

    @cached_property
    def previous(self) -> NDArray[np.int32]:
        return self._view.codes(lower, -1)

    @cached_property
    def next(self) -> NDArray[np.int32]:
        return self._view.codes(lower, 1)

    @cached_property
    def capital_before(self) -> Mask:
        return self._has(capitalised, -1)

    @cached_property
    def capital_after(self) -> Mask:
        return self._has(capitalised, 1)

    @cached_property
    def capital_beside(self) -> Mask:
        return self.capital_before | self.capital_after

    @cached_property
    def upper(self) -> Mask:
        words = self._corpus.columns["word"]
        return np.array([v.isupper() for v in words.values], bool)[words.codes]

    @cached_property
    def in_upper_sentence(self) -> Mask:
        return self._has(Context("sentence_all_caps"))

    @cached_property
    def sentence(self) -> Offsets:
        lengths = np.diff(self._corpus.sentence_starts)
        return np.repeat(np.arange(len(lengths)), lengths)

    @cached_property
    def starts_sentence(self) -> Mask:
        starts = np.zeros(self._corpus.n_tokens, bool)
        starts[self._corpus.sentence_starts[:-1]] = True
        return starts

    @cached_property
    def in_first_sentence(self) -> Mask:
        first: Mask = self.sentence == self._corpus.document_starts[self._corpus.token_documents]
        return first

    def apart(self, child: Offsets, parent: Offsets) -> Offsets:
        sentences: Offsets = np.abs(self.sentence[child] - self.sentence[parent])
        return sentences

    def nearest(self, child: Offsets, parent: Offsets) -> Mask:
        distance = np.abs(child - parent)
        least = np.full(self._corpus.n_tokens, self._corpus.n_tokens)
        np.minimum.at(least, child, distance)
        is_nearest: Mask = distance == least[child]
        return is_nearest


_BUILT_IN: dict[str, Callable[[_Text, Offsets, Offsets], Mask]] = {
    "same previous word": lambda t, c, p: t.previous[c] == t.previous[p],
    "same next word": lambda t, c, p: t.next[c] == t.next[p],
    "same sentence": lambda t, c, p: t.apart(c, p) == 0,
    "1 sentence apart": lambda t, c, p: t.apart(c, p) == 1,
    "2-3 sentences apart": lambda t, c, p: (t.apart(c, p) >= 2) & (t.apart(c, p) <= 3),
    "4-7 sentences apart": lambda t, c, p: (t.apart(c, p) >= 4) & (t.apart(c, p) <= 7),
    "8 or more sentences apart": lambda t, c, p: t.apart(c, p) >= 8,
    "parent in first sentence": lambda t, c, p: t.in_first_sentence[p],
    "parent in upper-case sentence": lambda t, c, p: t.in_upper_sentence[p],
    "child starts sentence": lambda t, c, p: t.starts_sentence[c],
    "parent starts sentence": lambda t, c, p: t.starts_sentence[p],
    "child or parent upper case": lambda t, c, p: t.upper[c] | t.upper[p],
    "capital beside child": lambda t, c, p: t.capital_beside[c],
    "capital beside parent": lambda t, c, p: t.capital_beside[p],
    "capital before both": lambda t, c, p: t.capital_before[c] & t.capital_before[p],
    "capital after both": lambda t, c, p: t.capital_after[c] & t.capital_after[p],
    "capital before one only": lambda t, c, p: t.capital_before[c] != t.capital_before[p],
    "capital after one only": lambda t, c, p: t.capital_after[c] != t.capital_after[p],
    "nearest parent": lambda t, c, p: t.nearest(c, p),  # of the edges given: give all edges of a child at once
}
DEFAULT = tuple(_BUILT_IN)  # all of them; [*DEFAULT, edge_feature(...)] adds one's own


@dataclass(frozen=True)
class EdgeFeature:
    """A user's feature: `function(corpus, child, parent)` takes offsets (E,) and returns E numbers or truths.

    The corpus comes without labels. The model file keeps the name; the function is passed in again on load.
    """

    name: str
    function: EdgeFunction

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name) or not callable(self.function):
            raise SettingError(f"edge_feature takes a name and a function; got {self.name!r} and {self.function!r}")

    def values(self, corpus: Corpus, child: Offsets, parent: Offsets) -> NDArray[np.float32]:
        answer = self.function(corpus, child, parent)
        try:
            array = np.asarray(answer)
        except ValueError:  # rows of different lengths
            array = np.empty((), object)
        if array.shape != child.shape or array.dtype.kind not in "biuf":
            raise SettingError(
                f"edge feature {self.name!r} must return one number or truth value an edge, {len(child)} in one row; "
                f"got {_shown(answer, array)}"
            )
        with np.errstate(over="ignore"):
            values = array.astype(np.float32)
        strange = np.flatnonzero(~np.isfinite(values))
        if len(strange):
            edge = int(strange[0])
            raise SettingError(
                f"edge feature {self.name!r} must return finite numbers that fit 32 bits; for the edge from token "
                f"{child[edge]} to token {parent[edge]} it returned {array[edge]}"
            )
        return values


def edge_feature(name: str, function: EdgeFunction) -> EdgeFeature:
    """A user's function of edges as a feature."""
    return EdgeFeature(name, function)


@dataclass(frozen=True, init=False)
class EdgeFeatures:
    """A list of edge features: names of built-in ones (all of them unless told) and a user's own."""

    features: tuple[str | EdgeFeature, ...]

    def __init__(self, features: Iterable[str | EdgeFeature] = DEFAULT) -> None:
        given = (features,) if isinstance(features, str | EdgeFeature) else features
        if not isinstance(given, Iterable):
            raise SettingError(f"edge features must be a list of names and edge_feature(...); got {features!r}")
        given = tuple(given)
        for feature in given:
            if not (isinstance(feature, EdgeFeature) or (isinstance(feature, str) and feature in _BUILT_IN)):
                raise SettingError(
                    f"an edge feature is edge_feature(name, function) or one of {', '.join(map(repr, DEFAULT))}; "
                    f"got {feature!r}"
                )
        object.__setattr__(self, "features", given)
        twice = [name for i, name in enumerate(self.names()) if name in self.names()[:i]]
        if twice:
            raise SettingError(f"two edge features are named {twice[0]!r}: name them apart")

    def names(self) -> list[str]:
        """The name of each column."""
        return [feature if isinstance(feature, str) else feature.name for feature in self.features]

    def rows(self, corpus: Corpus, child: ArrayLike, parent: ArrayLike) -> sparse.csr_array:
        """CSR float32 (E, G): row e tells of the edge from token child[e] to token parent[e]."""
        ends = _checked_offsets(child, corpus.n_tokens), _checked_offsets(parent, corpus.n_tokens)
        if len(ends[0]) != len(ends[1]):
            raise InputError(f"each edge has a child and a parent; got {len(ends[0])} and {len(ends[1])}")
        unlabelled, text = corpus.with_labels(None, None), _Text(corpus)
        table = np.zeros((len(ends[0]), len(self.features)), np.float32)
        if len(table):
            for g, feature in enumerate(self.features):
                if isinstance(feature, str):
                    table[:, g] = _BUILT_IN[feature](text, *ends)
                else:
                    table[:, g] = feature.values(unlabelled, *ends)
        return sparse.csr_array(table)

    def spec(self) -> dict[str, Any]:
        """A JSON description from which `edge_features` makes the list again."""
        shown = [{"built_in": f} if isinstance(f, str) else {"edge_function": f.name} for f in self.features]
        return {"edge_features": shown}


def edge_features(spec: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> EdgeFeatures:
    """What `EdgeFeatures.spec` describes; `functions` gives a user's functions again, by name."""
    features: list[str | EdgeFeature] = []
    for one in spec["edge_features"]:
        if "edge_function" in one:
            name = one["edge_function"]
            features.append(EdgeFeature(name, given_again(name, functions, "an edge feature")))
        elif one.get("built_in") in _BUILT_IN:
            features.append(one["built_in"])
        else:
            raise ModelFileError(f"the model uses an edge feature this version does not know: {one}")
    return EdgeFeatures(features)


def _checked_offsets(offsets: ArrayLike, n: int) -> Offsets:
    array = np.asarray(offsets)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise InputError(
            f"the ends of edges must be one row of whole numbers; got {array.dtype} of shape {array.shape}"
        )
    if len(array) and not (array.min() >= 0 and array.max() < n):
        raise InputError(
            f"the ends of edges must be token offsets from 0 to {n - 1}; got {array.min()} to {array.max()}"
        )
    return read_only(array.astype(np.int64))


def _shown(answer: Any, array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}" if array.dtype != object else f"a {type(answer).__name__}"
