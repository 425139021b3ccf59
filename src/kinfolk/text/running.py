"""Running text to entities: sentences and tokens are made on the way, documents kept whole.

Tokens are cut as those that the model was trained on (`text.tokenise`), and what is found leads back to characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from kinfolk.core.data import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.text.batch import Batch, PlacedEntity
from kinfolk.text.corpus import Corpus, as_list
from kinfolk.text.extraction import TokenFeatures
from kinfolk.text.tokenise import WAYS, Cutter, sentence_list, way_of

AUTO = "auto"


class Cut(NamedTuple):
    """Documents in sentences and tokens; what stands where in its text."""

    words: list[str]
    offsets: list[tuple[int, int]]
    sentence_starts: list[int]
    document_starts: list[int]

    @classmethod
    def of(cls, texts: Iterable[str], cutter: Cutter) -> Cut:
        cut = cls([], [], [0], [0])
        for text in texts:
            for start, end in sentence_list(text):
                spans = cutter.spans(text, start, end)
                if spans:
                    cut.words.extend([text[a:b] for a, b in spans])
                    cut.offsets.extend(spans)
                    cut.sentence_starts.append(len(cut.words))
            cut.document_starts.append(len(cut.sentence_starts) - 1)
        return cut

    def corpus(self, source: str | None = None) -> Corpus:
        offsets = np.array(self.offsets, np.int64).reshape(-1, 2)
        starts = np.array(self.sentence_starts, np.int64), np.array(self.document_starts, np.int64)
        return Corpus({"word": Column.from_strings(self.words)}, *starts, source=source, offsets=offsets)


def text_corpus(model: Any, texts: Sequence[str], tokenise: str = AUTO, source: str | None = None) -> Corpus:
    """The texts, a document each, as a trained model reads them."""
    return Cut.of(texts, cutter_for(model, tokenise)).corpus(source)


def text_entities(model: Any, X: Any, tokenise: str) -> list[Any]:
    """What `TokenModel.entities` answers."""
    texts = [X] if isinstance(X, str) else _checked(X)
    cutter_for(model, tokenise)  # what a text lacks is said before what is said of labels
    check_finds_entities(model)
    corpus = text_corpus(model, texts, tokenise)
    found = model._entities(Batch(corpus), forced=False) if corpus.n_tokens else []
    if isinstance(X, str):
        return list(found)
    first = corpus.document_starts.tolist()
    answers: list[list[PlacedEntity]] = [[] for _ in texts]
    for entity in found:
        answers[entity.document].append(replace(entity, sentence=entity.sentence - first[entity.document]))
    return answers


def check_finds_entities(model: Any) -> None:
    """A model of labels that are no spans would find none in any text."""
    if model.coding_.inner is None:
        classes = model.coding_.classes.names
        names = ", ".join(classes[:5])
        if any(name.startswith(("B-", "I-")) for name in classes):
            raise InputError(
                f"the model was trained on labels taken as they are ({names}), by `scheme=None`, and knows no "
                "entities: train with `scheme='auto'`, or on a Corpus with a scheme"
            )
        raise InputError(
            f"the model was trained on labels that are no entities ({names}): `predict` labels words with them; for "
            "entities train on tags such as B-PER"
        )


def _checked(X: Any) -> list[str]:
    texts = as_list(X)
    if not isinstance(texts, list | tuple | np.ndarray) or not all(isinstance(one, str) for one in texts):
        got = type(X).__name__
        if isinstance(texts, list | tuple | np.ndarray):
            number, one = next((i, one) for i, one in enumerate(texts) if not isinstance(one, str))
            got = f"{type(one).__name__} as text {number}"
        remedy = "; for words or a Corpus there is predict_entities" if isinstance(X, list | tuple | Corpus) else ""
        raise InputError(f"expected a text, or a list of texts; got {got}{remedy}")
    return list(texts)


# -- how a model cuts its text ------------------------------------------------------------------------

_CUTTERS: WeakKeyDictionary[TokenFeatures, Cutter] = WeakKeyDictionary()  # by what a model was trained on
_WORDS_ALONE: WeakSet[TokenFeatures] = WeakSet()  # those that read nothing but words


def cutter_for(model: Any, tokenise: str = AUTO) -> Cutter:
    """As the training words were cut, or in a way that is named; an error where text alone is not enough."""
    features = _first_features(model)
    if tokenise != AUTO:
        if tokenise not in WAYS:
            raise SettingError("tokenise", tokenise, f"'{AUTO}' or one of {', '.join(WAYS)}")
        return Cutter(tokenise)
    cutter = _CUTTERS.get(features)
    if cutter is None:
        cutter = _CUTTERS[features] = _like_training(features)
    return cutter


def _first_features(model: Any) -> TokenFeatures:
    """Those of the model, or of the first level of a stack, once all levels are known to be content with words."""
    sets: list[Any] = [level.features_ for level in getattr(model, "levels_", [model]) if hasattr(level, "features_")]
    if not sets or not all(isinstance(one, TokenFeatures) for one in sets):
        raise InputError(
            "the model was trained on feature dicts or on probabilities, which cannot be made of a text: make them for "
            "its tokens, and use `predict_entities`"
        )
    for features in sets:
        if features in _WORDS_ALONE:
            continue
        columns = {name for template in features.templates for name in template.needs()} - {"word"}
        if columns:
            named = ", ".join(map(repr, sorted(columns)))
            raise InputError(
                f"the model reads of every token, beside its word, the column {named}, which a text does not have. "
                "Train on words and labels alone (a file of two columns), or give a Corpus with the column to "
                "`predict_entities`"
            )
        _WORDS_ALONE.add(features)
    first: TokenFeatures = sets[0]
    return first


def _like_training(features: TokenFeatures) -> Cutter:
    """By the words that features were learned from, where some template looks at them as they are or in lower case."""
    if (words := features.vocabularies.get("word")) is not None:
        return Cutter(way_of(words), words.__contains__)
    if (lower := features.vocabularies.get("lower")) is not None:
        return Cutter(way_of(lower), lambda word: word.lower() in lower)
    return Cutter("words")
