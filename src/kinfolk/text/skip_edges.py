"""Skip edges for text: which earlier tokens a token looks at besides its neighbour.

A builder is a setting; `learn` freezes on the training corpus what it must know of a whole collection, so
the edges of a document never depend on which other documents are in the file. An edge is a row
(child, parent) of token offsets within one document, the parent before the child: taken from left to right,
every parent is done before its children, and inference is one pass. For a model that runs from right to
left (`backward`) the two change roles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.collective.relations import LinkRule
from kinfolk.core.data import read_only
from kinfolk.core.memory import check_memory
from kinfolk.core.modelfile import Functions, ModelFile, given_again
from kinfolk.core.settings import NONE, whole, whole_to
from kinfolk.errors import DataWarning, InputError, ModelFileError, SettingError, warn
from kinfolk.text.attributes import capitalised, is_capitalised, lower, sentence_all_caps
from kinfolk.text.corpus import Corpus, of_words, shifted
from kinfolk.text.templates import TokenView

log = logging.getLogger("kinfolk")
MOST_AROUND = 100  # words before and after that have to be the same
BYTES_A_PAIR = 64  # two numbers, as they are found, put together, sorted and looked up
MOSTLY = 0.8  # from this share of capitalised words on, entities are names
OFTEN, HALF = 5, 0.5  # uses of a word that suffice to judge it, and the share of them within entities
RESERVED = ("previous", "next", "start")  # relations that every model of tokens has
Pairs = NDArray[np.int64]  # (E, 2)
PairFunction = Callable[[Corpus], Iterable[tuple[int, int]]]


class SkipBuilder(LinkRule):
    """A rule that links tokens of one document."""

    def learn(self, corpus: Corpus) -> LearnedSkips:
        """The rule with what it needs to know of the training corpus."""
        return LearnedSkips(self)

    def pairs(self, corpus: Corpus, learned: LearnedSkips) -> Pairs:
        """(later, earlier) token offsets, in any order; `learned` is what `learn` found."""
        raise NotImplementedError


@dataclass(frozen=True)
class LearnedSkips(LinkRule):
    """A builder after training.

    left_out     the words it never links
    capitalised  what capitalised="auto" of `SameWord` came to; None: it was not asked
    """

    builder: SkipBuilder
    left_out: frozenset[str] = field(default=frozenset(), repr=False)
    capitalised: bool | None = None

    @property
    def name(self) -> str:
        return self.builder.name

    def __str__(self) -> str:
        which = {None: "", True: ", capitalised words", False: ", words of any case"}[self.capitalised]
        return self.name + which

    def edges(self, corpus: Corpus, backward: bool = False) -> Pairs:
        """int64 (E, 2), rows (child, parent) sorted, each once; `backward` makes the later token the parent."""
        pairs = self.builder.pairs(corpus, self)
        child, parent = pairs.T[::-1] if backward else pairs.T
        keys = np.sort(child * corpus.n_tokens + parent)
        keys = keys[np.diff(keys, prepend=-1) > 0]
        return np.stack(np.divmod(keys, max(1, corpus.n_tokens)), axis=1)

    def spec(self) -> dict[str, Any]:
        """A JSON description; `learned_skips` makes the edges again from it and `state`."""
        return self.builder.spec() | ({} if self.capitalised is None else {"capitalised": self.capitalised})

    def state(self) -> list[str]:
        return sorted(self.left_out)


@dataclass(frozen=True)
class SameWord(SkipBuilder):
    """Links each token to the nearest earlier tokens of its document with the identical word.

    capitalised             True: only words that begin with an upper-case letter; False: every token. "auto" follows
                            the labels of the training data: as True if at least 80 % of the words of entities (of those
                            with another label than most, where labels are no spans) are capitalised (names of people
                            and places), or if there are none; else, as for
                            diseases and chemicals, words of any case, without those that training has seen 5 times or
                            more and less than half of the time within an entity, and without numbers and marks
    max_document_frequency  leaves out words found in more training documents than this: common words are easy
                            to label, and would make most of the edges; None = no limit
    most_recent             parents a token has at most, the nearest ones; None = all
    ignore_case             CLINTON in a headline is the same word as Clinton
    before, after           how many words before and after it have to be the same too
    """

    capitalised: bool | str = "auto"
    max_document_frequency: int | None = 100
    most_recent: int | None = 5
    ignore_case: bool = False
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        for setting in ("before", "after"):
            whole_to(0, MOST_AROUND).check(setting, getattr(self, setting), "SameWord")
        if not (isinstance(self.capitalised, bool | np.bool_) or self.capitalised == "auto"):
            raise SettingError("capitalised", self.capitalised, "True, False or 'auto'", owner="SameWord")
        if not isinstance(self.ignore_case, bool | np.bool_):
            raise SettingError("ignore_case", self.ignore_case, "True or False", owner="SameWord")
        for setting in ("max_document_frequency", "most_recent"):
            (whole(1) | NONE).check(setting, getattr(self, setting), "SameWord")

    @property
    def name(self) -> str:
        return "same word"

    def learn(self, corpus: Corpus) -> LearnedSkips:
        """Of the training corpus how often words occur and, for "auto", which of them are parts of entities."""
        found, common = None, np.zeros(0, np.int64)
        if self.capitalised == "auto":
            inside = entity_tokens(corpus)
            share = capitalised_share(corpus, inside)
            found = share is None or share >= MOSTLY
            reason = "no entities" if share is None else f"{100 * share:.0f} % of the words of entities capitalised"
            log.info("same word: %s, so %s are linked", reason, "capitalised words" if found else "words of any case")
            if not found:
                common = self._outside(corpus, inside)
        everything = LearnedSkips(self, capitalised=found)
        words = corpus.columns["word"]
        if self.max_document_frequency is not None:
            n_words, pairs = len(words.values), np.unique(self._groups(corpus, everything)[0])  # (document, word)
            frequency = np.bincount(pairs % max(1, n_words), minlength=n_words)
            common = np.union1d(common, np.flatnonzero(frequency > self.max_document_frequency))
        return replace(everything, left_out=frozenset(self._key(words.values[i]) for i in common))

    def _outside(self, corpus: Corpus, inside: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Numbers of the words that are mostly outside entities, where they were seen often enough to judge."""
        numbers, words = self._numbers(corpus), corpus.columns["word"].values
        uses, within = (np.bincount(n, minlength=len(words)) for n in (numbers, numbers[inside]))
        linked = np.array([_has_letter(word) for word in words], bool)
        return np.flatnonzero(linked & (uses >= OFTEN) & (within < HALF * uses))

    def pairs(self, corpus: Corpus, learned: LearnedSkips) -> Pairs:
        """The r-th nearest earlier occurrence stands r places before in a list ordered by (group, offset)."""
        groups, tokens = self._groups(corpus, learned)
        if self.before or self.after:
            groups = self._phrases(corpus, groups, tokens)
        order = np.argsort(groups, kind="stable")
        groups, tokens = groups[order], tokens[order]
        self._check_room(groups)
        found, r = [np.empty((0, 2), np.int64)], 0
        at = np.arange(len(tokens))
        while len(at) and (self.most_recent is None or r < self.most_recent):
            r += 1
            at = at[at >= r]
            at = at[groups[at] == groups[at - r]]  # who has no r-th has no (r + 1)-th
            found.append(np.stack([tokens[at], tokens[at - r]], axis=1))
        return np.concatenate(found)

    def _check_room(self, groups: NDArray[np.int64]) -> None:
        """A word that a document has k times makes k (k - 1) / 2 pairs, or k r - r (r + 1) / 2 where r < k are asked
        for: an error before there is no memory for them."""
        times = np.unique(groups, return_counts=True)[1].astype(np.float64)
        r = times - 1 if self.most_recent is None else np.minimum(times - 1, self.most_recent)
        pairs = float((times * r - r * (r + 1) / 2).sum())
        check_memory(
            pairs * BYTES_A_PAIR,
            f"links between the same words would be {pairs:,.0f}, as one stands in a document "
            f"{times.max(initial=0):,.0f} times",
            "Link the nearest ones alone, `SameWord(most_recent=5)`, or cut the documents",
        )

    def _groups(self, corpus: Corpus, learned: LearnedSkips) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens that may be linked, in order, and for each the number of its (document, word)."""
        words = corpus.columns["word"]
        test: Callable[[str], bool] = bool if learned.capitalised is None else _has_letter
        if learned.capitalised or (learned.capitalised is None and self.capitalised):
            test = is_capitalised
        tokens = np.flatnonzero(of_words(corpus, lambda v: test(v) and self._key(v) not in learned.left_out))
        documents = corpus.token_documents[tokens].astype(np.int64)
        return documents * len(words.values) + self._numbers(corpus)[tokens], tokens

    def _numbers(self, corpus: Corpus) -> NDArray[np.int64]:
        """(n,), one number a string: a column may hold one under two."""
        words = corpus.columns["word"]
        first: dict[str, int] = {}
        codes = np.array([first.setdefault(self._key(v), i) for i, v in enumerate(words.values)], np.int64)
        return codes[words.codes]

    def _phrases(self, corpus: Corpus, groups: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The groups, divided by the words around; beyond a sentence there is none, which counts as a word."""
        numbers = self._numbers(corpus) + 1
        for offset in [*range(-self.before, 0), *range(1, self.after + 1)]:
            around = shifted(numbers, corpus, offset)[tokens]
            groups = np.unique(np.stack([groups, around]), axis=1, return_inverse=True)[1].reshape(-1)
        return groups

    def _key(self, word: str) -> str:
        return word.lower() if self.ignore_case else word

    def spec(self) -> dict[str, Any]:
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in vars(self).items()}
        return {"same_word": plain}


@dataclass(frozen=True, init=False)
class SkipFunction(SkipBuilder):
    """A user's rule: `function(document)` takes a Corpus of one document and returns (later, earlier) pairs.

    The pairs are token offsets within the document, which comes without labels. The model file keeps the
    name (that of the function unless given); the function is passed in again on load.
    """

    function: PairFunction
    label: str

    def __init__(self, function: PairFunction, name: str | None = None) -> None:
        if isinstance(function, type) or not callable(function):
            raise SettingError.saying(f"SkipFunction takes a function of a one-document Corpus; got {function!r}")
        if name is not None and not (isinstance(name, str) and name):
            raise SettingError("name", name, "a string that is not empty", owner="SkipFunction")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "label", name or getattr(function, "__name__", type(function).__name__))

    @property
    def name(self) -> str:
        return self.label

    def pairs(self, corpus: Corpus, learned: LearnedSkips) -> Pairs:
        unlabelled = corpus.with_labels(None, None)  # edges are drawn where no labels are known
        bounds = corpus.sentence_starts[corpus.document_starts].tolist()
        found = [np.empty((0, 2), np.int64)]
        for number, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                document = unlabelled.documents(number, number + 1)
                found.append(first + self._checked(self.function(document), document, number))
        return np.concatenate(found)

    def _checked(self, answer: Any, document: Corpus, number: int) -> Pairs:
        says = f"skip function {self.name!r}, document {number} (counted from 0)"
        if isinstance(answer, str | Mapping) or not isinstance(answer, Iterable) or getattr(answer, "ndim", 1) == 0:
            raise SettingError.saying(f"{says}: expected pairs (later token, earlier token); got {answer!r}")
        n = document.n_tokens
        if not (isinstance(answer, np.ndarray) and answer.dtype.kind in "iu" and answer.shape[1:] == (2,)):
            answer = list(answer)
            for pair in answer:
                if not (isinstance(pair, Sequence | np.ndarray) and len(pair) == 2 and all(map(_whole, pair))):
                    raise SettingError.saying(
                        f"{says}: expected two whole numbers (later token, earlier token); got {pair!r}"
                    )
            answer = np.array([[int(i) for i in pair] for pair in answer], object).reshape(-1, 2)  # of any size
        outside = answer[((answer < 0) | (answer >= n)).any(axis=1)]
        if len(outside):
            pair = tuple(map(int, outside[0]))
            raise SettingError.saying(f"{says}: tokens are numbered 0 to {n - 1} within the document; got {pair}")
        pairs: Pairs = answer.astype(np.int64)
        wrong = pairs[pairs[:, 0] <= pairs[:, 1]]
        if len(wrong):
            words = document.columns["word"]
            later, earlier = (f"{i} ({words.values[words.codes[i]]!r})" for i in wrong[0])
            if wrong[0, 0] == wrong[0, 1]:
                raise SettingError.saying(f"{says}: token {later} is linked to itself; leave such pairs out")
            raise SettingError.saying(
                f"{says}: the pair {tuple(wrong[0].tolist())} names token {later} as the later one, yet it stands "
                f"before token {earlier}; swap them: edges must point back, so that inference is one pass"
            )
        return pairs

    def spec(self) -> dict[str, Any]:
        return {"skip_function": self.name}


def entity_tokens(corpus: Corpus) -> NDArray[np.bool_]:
    """bool (n,), the tokens that are labelled as part of an entity; where labels are no spans, those that have another
    label than most."""
    if corpus.labels is None:
        return np.zeros(corpus.n_tokens, bool)
    codes, values = corpus.labels.codes, corpus.labels.values
    most = int(np.bincount(codes[codes >= 0], minlength=1).argmax())
    inside = [value != "O" if corpus.scheme is not None else i != most for i, value in enumerate(values)]
    return np.asarray(np.array([*inside, False], bool)[codes])


def capitalised_share(corpus: Corpus, tokens: NDArray[np.bool_]) -> float | None:
    """The share of capitalised words among those of the tokens that have a letter; None where none has."""
    tokens = tokens & of_words(corpus, _has_letter)
    return float(of_words(corpus, is_capitalised)[tokens].mean()) if tokens.any() else None


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def as_builders(skip_edges: Any) -> list[SkipBuilder]:
    """None, one builder or function, or a list of them, as a list of builders with distinct names."""
    given = [] if skip_edges is None else skip_edges if isinstance(skip_edges, list | tuple) else [skip_edges]
    builders: dict[str, SkipBuilder] = {}
    for item in given:
        if isinstance(item, type) or not (isinstance(item, SkipBuilder) or callable(item)):
            raise SettingError(
                "skip_edges",
                item,
                "None, a builder such as SameWord(), a function of a one-document Corpus, or a list of these",
            )
        builder = item if isinstance(item, SkipBuilder) else SkipFunction(item)
        if builder.name in RESERVED:
            raise SettingError.saying(
                f"skip edges cannot be named {builder.name!r}: every mixture has that relation already"
            )
        if builder.name in builders:
            raise SettingError.saying(
                f"two skip edges are named {builder.name!r}: give one SameWord, and functions names of their own, "
                "as in `SkipFunction(function, name='...')`"
            )
        builders[builder.name] = builder
    return list(builders.values())


def learned_skips(spec: Mapping[str, Any], strings: Sequence[str], functions: Functions) -> LearnedSkips:
    """What `LearnedSkips.spec` and `state` describe; `functions` gives a user's functions again, by name."""
    if "same_word" in spec:
        return LearnedSkips(SameWord(**spec["same_word"]), frozenset(strings), spec.get("capitalised"))
    if "skip_function" not in spec:
        raise ModelFileError(f"the model uses skip edges this version does not know: {sorted(spec)}")
    name = spec["skip_function"]
    return LearnedSkips(SkipFunction(given_again(name, functions, "a skip function"), name))


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


SKIP_EDGES = (
    "which earlier tokens a token looks at besides its neighbour: `SameWord(...)`, a function of a one-document Corpus "
    "that returns (later, earlier) pairs, a list of these, or None"
)
EDGE_FEATURES = 'features of skip edges that speak of label pairs: "default", a list, or None'
SAME_WORD = SameWord()  # the default of models


# -- Features of an edge (child token, parent token) that are read off the text alone ------------------
#
# For a gate that learns which parents to trust, and for weights of label pairs. Nothing is learned here: the
# columns are fixed by the names. The neighbours of a token end with its sentence; the place beyond is a value of
# its own, so two tokens that both begin a sentence have the same previous word.

Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]
EdgeFunction = Callable[[Corpus, Offsets, Offsets], ArrayLike]


class _Text:
    """What the built-in features ask of tokens: arrays (n,)."""

    def __init__(self, corpus: Corpus) -> None:
        view = TokenView(corpus, {}, learning=True)
        self.previous, self.next = view.codes(lower, -1), view.codes(lower, 1)
        self.capital_before, self.capital_after = (view.codes(capitalised, offset) > 0 for offset in (-1, 1))
        self.capital_beside = self.capital_before | self.capital_after
        self.upper = of_words(corpus, str.isupper)
        self.in_upper_sentence = view.codes(sentence_all_caps, 0) > 0
        self.sentence = corpus.token_sentences
        self.starts_sentence = np.diff(self.sentence, prepend=-1) > 0
        self.in_first_sentence = self.sentence == corpus.document_starts[corpus.token_documents]

    def apart(self, child: Offsets, parent: Offsets) -> Offsets:
        sentences: Offsets = np.abs(self.sentence[child] - self.sentence[parent])
        return sentences

    def nearest(self, child: Offsets, parent: Offsets) -> Mask:
        distance = np.abs(child - parent)
        least = np.full(len(self.sentence), len(self.sentence))
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
            raise SettingError.saying(
                f"edge_feature takes a name and a function; got {self.name!r} and {self.function!r}"
            )

    def values(self, corpus: Corpus, child: Offsets, parent: Offsets) -> NDArray[np.float32]:
        answer = self.function(corpus, child, parent)
        try:
            array = np.asarray(answer)
        except ValueError:  # rows of different lengths
            array = np.empty((), object)
        if array.shape != child.shape or array.dtype.kind not in "biuf":
            got = f"a {type(answer).__name__}" if array.dtype == object else f"{array.dtype} of shape {array.shape}"
            raise SettingError.saying(
                f"edge feature {self.name!r} must return one number or truth value an edge, {len(child)} in one row; "
                f"got {got}"
            )
        with np.errstate(over="ignore"):
            values = array.astype(np.float32)
        strange = np.flatnonzero(~np.isfinite(values))
        if len(strange):
            edge = int(strange[0])
            raise SettingError.saying(
                f"edge feature {self.name!r} must return finite numbers that fit 32 bits; for the edge from token "
                f"{child[edge]} to token {parent[edge]} it returned {array[edge]}"
            )
        return values


edge_feature = EdgeFeature  # as settings are written: edge_features=[edge_feature("same title", function)]


@dataclass(frozen=True, init=False)
class EdgeFeatures:
    """A list of edge features: names of built-in ones (all of them by default) and a user's own."""

    features: tuple[str | EdgeFeature, ...]

    def __init__(self, features: Iterable[str | EdgeFeature] = DEFAULT) -> None:
        given = (features,) if isinstance(features, str | EdgeFeature) else features
        if not isinstance(given, Iterable):
            raise SettingError.saying(f"edge features must be a list of names and edge_feature(...); got {features!r}")
        given = tuple(given)
        for feature in given:
            if not (isinstance(feature, EdgeFeature) or (isinstance(feature, str) and feature in _BUILT_IN)):
                raise SettingError.saying(
                    f"an edge feature is edge_feature(name, function) or one of {', '.join(map(repr, DEFAULT))}; "
                    f"got {feature!r}"
                )
        object.__setattr__(self, "features", given)
        twice = [name for i, name in enumerate(self.names()) if name in self.names()[:i]]
        if twice:
            raise SettingError.saying(f"two edge features are named {twice[0]!r}: name them apart")

    def names(self) -> list[str]:
        """The name of each column."""
        return [feature if isinstance(feature, str) else feature.name for feature in self.features]

    def rows(self, corpus: Corpus, child: ArrayLike, parent: ArrayLike) -> sparse.csr_array:
        """CSR float32 (E, G): row e has the features of the edge from token child[e] to token parent[e]."""
        ends = _checked_offsets(child, corpus.n_tokens), _checked_offsets(parent, corpus.n_tokens)
        if len(ends[0]) != len(ends[1]):
            raise InputError(f"each edge has a child and a parent; got {len(ends[0])} and {len(ends[1])}")
        table = np.zeros((len(ends[0]), len(self.features)), np.float32)
        if len(table):
            unlabelled, text = corpus.with_labels(None, None), _Text(corpus)
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


def edge_features(spec: Mapping[str, Any] | None, functions: Functions) -> EdgeFeatures | None:
    """What `EdgeFeatures.spec` describes, None for none; `functions` gives a user's functions again, by name."""
    if spec is None:
        return None
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


# -- Documents of one sentence: a token there has no neighbours beyond its sentence --------------------
#
# Where nearly all of the training data are such documents, a warning says that links across sentences teach nothing.
# Where few are, a level of a stack that learned to count on neighbours misses them in one: it takes a word for one that
# its document has but once. In generated newswire F1 on lone sentences falls by 5.5 below the base's where none of the
# training documents was one, by 3.2 where a fifth of the sentences were; where half were, it is the base's.

NEARLY_ALL, FEW = 0.9, 0.5  # of the sentences


def alone(corpus: Corpus) -> NDArray[np.bool_]:
    """bool (D,), the documents without a second sentence."""
    return np.diff(corpus.document_starts) <= 1


def alone_share(corpus: Corpus) -> float:
    """The share of sentences that are documents of their own."""
    return float((np.diff(corpus.document_starts) == 1).sum() / max(1, corpus.n_sentences))


def without_neighbours(corpus: Corpus) -> bool:
    return corpus.n_sentences > 1 and alone_share(corpus) >= NEARLY_ALL


def warn_without_neighbours(corpus: Corpus, consequence: str, *, dicts: bool = False, otherwise: str = "") -> None:
    """Of training data where nearly every sentence is a document; `otherwise`: what else could be done."""
    count = round(alone_share(corpus) * corpus.n_sentences)
    how = "`words=...` and `documents=...` beside the feature dicts" if dicts else (
        "-DOCSTART- or two blank lines in files, `documents=...` in Corpus.from_sentences"
    )  # fmt: skip
    warn(
        f"{count:,} of {corpus.n_sentences:,} sentences of the training data are documents of their own: "
        f"{consequence}. Mark documents ({how}){otherwise}",
        DataWarning,
    )


def warn_without_edges(names: Sequence[str], edges: Sequence[NDArray[Any]], corpus: Corpus, dicts: bool) -> None:
    """Skip edges that join nothing are most often a misunderstanding, and so are documents of one sentence."""
    if not names or not corpus.n_tokens:
        return
    unused = ", ".join(repr(name) for name, pairs in zip(names, edges, strict=True) if not len(pairs))
    nothing = f"skip edges {unused} join no two tokens of the training data, so they are not used"
    if without_neighbours(corpus):
        reason = nothing if unused else "skip edges stay within a document"
        warn_without_neighbours(corpus, reason, dicts=dicts)
    elif unused:
        case = "; where it joins capitalised words alone, SameWord(capitalised=False) joins words of any case"
        warn(nothing + (case if "'same word'" in unused else ""), DataWarning)


# -- skip edges of models: settings to rules, and to files and back -------------------------------------


def edge_feature_set(wanted: Any) -> EdgeFeatures | None:
    """What the setting `edge_features` asks for."""
    if wanted is None:
        return None
    return EdgeFeatures(DEFAULT if isinstance(wanted, str) and wanted == "default" else wanted)


def put_skips(state: ModelFile, prefix: str, skips: Sequence[LearnedSkips]) -> None:
    """The words that rules never link."""
    state.strings.update({f"{prefix}.skip.{s}": skip.state() for s, skip in enumerate(skips)})


def restored_skips(
    file: ModelFile, specs: Sequence[Mapping[str, Any]], functions: Functions
) -> tuple[LearnedSkips, ...]:
    return tuple(learned_skips(spec, file.strings[f"skip.{s}"], functions) for s, spec in enumerate(specs))


def skip_settings(skips: Sequence[LearnedSkips], features: EdgeFeatures | None) -> tuple[Any, Any]:
    """The settings `skip_edges` and `edge_features` that became these rules."""
    builders = [skip.builder for skip in skips]
    return builders[0] if len(builders) == 1 else builders or None, None if features is None else features.features
