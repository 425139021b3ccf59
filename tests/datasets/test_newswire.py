"""The generated newswire: the same for a seed, consistent in a document, silent as often as computed."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest

from kinfolk.datasets import words as wire
from kinfolk.datasets.newswire import (
    TYPE_PRIOR,
    WireSentence,
    generate_newswire,
    newswire_documents,
    newswire_split,
    silent_share,
)
from kinfolk.errors import SettingError
from kinfolk.text.corpus import Corpus

AMBIGUOUS = {name.lower() for name in wire.NAMES["ANY"]}


def texts(corpus: Corpus) -> list[str]:
    """One text a document, labels included."""
    rows = [f"{words} {labels}" for words, labels in zip(corpus.rows(), corpus.label_rows(), strict=True)]
    return ["\n".join(rows[a:b]) for a, b in pairwise(corpus.document_starts)]


def types_by_name(document: list[WireSentence]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for sentence in document:
        for word, label in zip(sentence.words, sentence.labels, strict=True):
            if label != "O":
                found[word.lower()].add(label[2:])
    return found


@pytest.fixture(scope="module")
def drawn() -> list[list[WireSentence]]:
    return list(newswire_documents(1000, seed=3))


def test_same_seed_same_corpus() -> None:
    first, again, other = (generate_newswire(20, seed=seed) for seed in (1, 1, 2))
    assert texts(first) == texts(again)
    assert first.rows("pos") == again.rows("pos")
    assert not set(texts(first)) & set(texts(other))


def test_documents_drawn_do_not_depend_on_how_many_are_asked_for() -> None:
    assert texts(generate_newswire(5, seed=4)) == texts(generate_newswire(9, seed=4))[:5]


def test_split_shares_no_document_and_no_table_of_words() -> None:
    train, test = newswire_split(200, 100, seed=5)
    assert (train.n_documents, test.n_documents) == (200, 100)
    assert not set(texts(train)) & set(texts(test))
    unseen = set(test.columns["word"].values) - set(train.columns["word"].values)
    assert len(unseen) > 100
    assert texts(train) + texts(test) == texts(generate_newswire(300, seed=5))


def test_columns_and_scheme() -> None:
    corpus = generate_newswire(3)
    assert set(corpus.columns) == {"word", "pos"}
    assert corpus.scheme == "BIO"
    assert corpus.labels is not None
    kinds = ("PER", "LOC", "ORG", "MISC")
    assert set(corpus.labels.values) <= {"O", *(f"{p}-{kind}" for p in "BI" for kind in kinds)}


def test_labels_are_valid_bio(drawn: list[list[WireSentence]]) -> None:
    for document in drawn:
        for sentence in document:
            for before, label in pairwise(["O", *sentence.labels]):
                assert label[0] != "I" or before[1:] == label[1:]


def test_a_name_keeps_its_type_in_a_document(drawn: list[list[WireSentence]]) -> None:
    for document in drawn:
        assert all(len(types) == 1 for types in types_by_name(document).values())


def test_ambiguous_names_take_several_types_and_other_names_one(drawn: list[list[WireSentence]]) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for document in drawn:
        for name, types in types_by_name(document).items():
            found[name] |= types
    assert all(2 <= len(found[name]) and found[name] <= set(TYPE_PRIOR) for name in AMBIGUOUS)
    for kind in TYPE_PRIOR:
        assert all(found[name.lower()] <= {kind} for name in wire.NAMES[kind])


def test_every_name_is_introduced_by_a_sentence_that_is_not_silent(drawn: list[list[WireSentence]]) -> None:
    for document in drawn:
        silent = {s.words[t].lower() for s in document for t in s.silent}
        clear = {word.lower() for s in document for t, word in enumerate(s.words) if t not in s.silent}
        assert silent <= clear


def test_silent_mentions_are_as_frequent_as_computed(drawn: list[list[WireSentence]]) -> None:
    ambiguous_only = list(newswire_documents(500, ambiguity=1.0, seed=6))
    silent = sum(len(s.silent) for document in ambiguous_only for s in document)
    clear = 500 * 4  # one for each entity
    assert silent / (silent + clear) == pytest.approx(silent_share(1.0), abs=0.02)
    few = sum(len(s.silent) for document in drawn for s in document) / len(drawn)
    assert few == pytest.approx(0.5 * silent / 500, rel=0.1)


def test_the_sentence_does_not_tell_the_type_of_a_silent_mention(drawn: list[list[WireSentence]]) -> None:
    """The best guess learnt from the neighbouring words does no better than the prior on new documents."""

    def context(s: WireSentence, t: int) -> tuple[str, ...]:
        padded = ["", *s.words, ""]
        return padded[t].lower(), padded[t + 2].lower()

    seen: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    right = total = 0
    for k, document in enumerate(drawn):
        for s in document:
            for t in s.silent:
                label = s.labels[t][2:]
                if k < 500:
                    seen[context(s, t)][label] += 1
                else:
                    guesses = seen[context(s, t)] or Counter({"PER": 1})
                    right += guesses.most_common(1)[0][0] == label
                    total += 1
    assert total > 1500
    assert right / total < max(TYPE_PRIOR.values()) + 0.04


def test_the_rest_of_the_document_tells_it() -> None:
    """Every silent name also has a clear mention with the same label, wherever it comes."""
    for first in (0.0, 1.0):
        for document in newswire_documents(50, introduction_first=first, seed=7):
            labels = {w: y for s in document for t, (w, y) in enumerate(zip(s.words, s.labels, strict=True))
                      if t not in s.silent and y != "O"}  # fmt: skip
            for s in document:
                assert all(labels[s.words[t].capitalize()][2:] == s.labels[t][2:] for t in s.silent)


@pytest.mark.parametrize(("introduction_first", "low", "high"), [(0.0, 0, 0), (0.8, 0.75, 0.85), (1.0, 1, 1)])
def test_introduction_comes_first_as_often_as_asked(introduction_first: float, low: float, high: float) -> None:
    firsts = []
    for document in newswire_documents(300, ambiguity=1.0, introduction_first=introduction_first, seed=8):
        body = [s for s in document if not all(map(str.isupper, filter(str.isalpha, s.words)))]
        names = {s.words[t] for s in body for t in s.silent}
        clear: dict[str, list[bool]] = {name: [] for name in names}
        for s in body:
            for t, word in enumerate(s.words):
                if word in names:
                    clear[word].append(t not in s.silent)
        assert all(sum(mentions) == 1 for mentions in clear.values())
        firsts += [mentions[0] for mentions in clear.values()]
    assert low <= np.mean(firsts) <= high


def test_rough_statistics(drawn: list[list[WireSentence]]) -> None:
    sizes = [len(document) for document in drawn]
    lengths = [len(s.words) for document in drawn for s in document]
    assert min(sizes) >= 3
    assert 10 <= np.mean(sizes) <= 20
    assert 5 <= min(lengths) < 8 <= np.mean(lengths) <= 20 < max(lengths) <= 32
    counts = Counter(label[2:] for d in drawn for s in d for label in s.labels if label[0] == "B")
    assert all(counts[kind] > 2000 for kind in ("PER", "LOC", "ORG", "MISC"))
    headlines = [d[0] for d in drawn if all(word == word.upper() for word in d[0].words)]
    assert 0.75 < len(headlines) / len(drawn) < 0.85


def test_there_are_many_templates_and_all_their_slots_are_known() -> None:
    blocks = [*wire.CLEAR.values(), wire.NEUTRAL, wire.PAIRS, wire.HEADLINES, wire.OTHER, wire.REPORTED]
    templates = [line.split()[1:] for block in blocks for line in block.strip().splitlines()]
    phrases = [phrase.split() for choices in wire.FILLERS.values() for phrase in choices]
    known = {*wire.FILLERS, *wire.NUMBERS, *wire.MISC, "person", "place", "company"}
    assert len(templates) >= 60
    assert {t[1:] for row in templates + phrases for t in row if t[0] == "%"} <= known


def test_composed_names_tell_exactly_what_their_ending_says() -> None:
    listed = {name for names in wire.NAMES.values() for name in names}
    assert len(listed) == sum(map(len, wire.NAMES.values()))
    composed = {kind: {"".join(parts).capitalize() for parts in product(wire.SYLLABLES, wire.SYLLABLES, ends)}
                for kind, ends in wire.ENDINGS.items()}  # fmt: skip
    assert not any(composed[a] & composed[b] for a, b in combinations(composed, 2))
    assert not listed & set().union(*composed.values())
    endings = [(kind, end) for kind, ends in wire.ENDINGS.items() for end in ends]
    assert not [(a, b) for (k, a), (m, b) in product(endings, endings) if k != m and a.endswith(b)]


@pytest.mark.parametrize("ambiguity", [0.0, 1.0])
@pytest.mark.parametrize("other", [0.0, 1.0])
def test_extreme_settings(ambiguity: float, other: float) -> None:
    world = {"ambiguity": ambiguity, "repeats": 3 * other, "introduction_first": other, "unknown": other}
    documents = list(newswire_documents(40, seed=9, **world))
    assert all(len(document) >= 3 for document in documents)
    assert all(max(map(len, types_by_name(document).values())) == 1 for document in documents)
    silent = sum(len(s.silent) for document in documents for s in document)
    assert (silent > 0) == (ambiguity > 0)
    words = {word.lower() for document in documents for s in document for word in s.words}
    assert bool(words & AMBIGUOUS) == (ambiguity > 0 and other == 0)
    assert silent_share(ambiguity, 3 * other) == pytest.approx(ambiguity * (12.8 / 16.8 if other else 0.8 / 4.8))


def test_no_documents() -> None:
    empty = generate_newswire(0)
    assert (empty.n_documents, empty.n_sentences, empty.n_tokens) == (0, 0, 0)
    train, test = newswire_split(2, 0)
    assert (train.n_documents, test.n_documents) == (2, 0)


@pytest.mark.parametrize(
    "setting",
    [
        {"documents": -1},
        {"documents": 1.5},
        {"seed": -1},
        {"ambiguity": -0.1},
        {"ambiguity": 1.1},
        {"introduction_first": 2.0},
        {"unknown": float("nan")},
        {"repeats": -1.0},
        {"repeats": float("inf")},
    ],
)
def test_settings_out_of_range(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(setting))):
        generate_newswire(**setting)


@pytest.mark.parametrize("setting", [{"train": -1, "test": 5}, {"test": -1}, {"unknown": 3.0}])
def test_split_settings_out_of_range(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="must be"):
        newswire_split(**setting)
