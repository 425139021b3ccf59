"""A generated newswire in which one mention of a name often shows the type of all the others.

An article introduces "President Bill Washington" once and then writes "Washington declined to comment":
the second sentence alone does not say whether a person, a place or an organisation declined. Each document
is drawn independently:

1. It has 3, 4 or 5 entities, equally likely; each gets a type from TYPE_PRIOR, independently.
2. With probability `ambiguity` its name is drawn without regard to the type: from one list for all types
   (Washington, Chelsea, Santos) or, with probability `unknown`, composed of syllables. Otherwise the name
   shows the type: it comes from a list of that type or, with probability `unknown`, ends as only that type
   does (-enko, -ville, -soft). Names in a document are distinct; most composed ones are new in a test.
3. It has one clear mention, in a template of its type ("the city of @ ..."), and Poisson(`repeats`) unclear
   ones, in templates drawn without regard to its type ("talks with @ ..."). The clear one is the first with
   probability `introduction_first`, else one of the later ones, equally likely.
4. The mentions of all entities are shuffled, each entity's own order kept. Two unclear mentions in a row of
   different entities share a sentence with probability PAIRED.
5. With probability HEADLINED a headline in capitals, with one more unclear mention of any entity, and a line
   with the reporter's name come first. Poisson(PLAIN_SENTENCES) sentences about other things are put in
   anywhere. Every sentence may also hold names that show their type, nationalities and events.

An unclear mention of an ambiguous name is *silent*: given all its sentence, its type has the distribution
TYPE_PRIOR, so no tagger of single sentences gets more than max(TYPE_PRIOR) of them right, while the clear
mention elsewhere in the document shows it for certain. `silent_share` gives their share exactly.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import TypeVar

import numpy as np

from kinfolk.datasets import checked_number
from kinfolk.datasets import words as wire
from kinfolk.text.corpus import Corpus

TYPE_PRIOR = {"PER": 0.4, "LOC": 0.3, "ORG": 0.3}
ENTITY_COUNTS = (3, 4, 5)
PAIRED = 0.3
HEADLINED = 0.8
PLAIN_SENTENCES = 3.0

T = TypeVar("T")


@dataclass(frozen=True)
class WireEntity:
    """A name with its type in one document; `ambiguous` when the name does not show the type."""

    name: str
    type: str
    ambiguous: bool


@dataclass(slots=True)
class WireSentence:
    """One sentence as it is written; `silent` holds the positions of its silent mentions."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)

    def add(self, text: str, tag: str, label: str = "O") -> None:
        self.words.append(text)
        self.tags.append(tag)
        self.labels.append(label)

    def add_name(self, text: str, entity_type: str, tag: str = "NNP") -> None:
        for k, part in enumerate(text.split()):
            self.add(part, tag, ("I-" if k else "B-") + entity_type)


def generate_newswire(
    documents: int = 200,
    *,
    ambiguity: float = 0.5,
    repeats: float = 2.0,
    introduction_first: float = 0.8,
    unknown: float = 0.4,
    seed: int = 0,
) -> Corpus:
    """A corpus of `documents` articles with columns word and pos and BIO labels PER, LOC, ORG, MISC."""
    settings = dict(ambiguity=ambiguity, repeats=repeats, introduction_first=introduction_first, unknown=unknown)
    return _corpus(list(newswire_documents(documents, seed=seed, **settings)))


def newswire_split(train: int = 200, test: int = 100, *, seed: int = 0, **settings: float) -> tuple[Corpus, Corpus]:
    """The first `train` documents and the `test` after them; `settings` as in `generate_newswire`."""
    checked_number("train", train, whole=True)
    checked_number("test", test, whole=True)
    drawn = list(newswire_documents(train + test, seed=seed, **settings))
    return _corpus(drawn[:train]), _corpus(drawn[train:])


def newswire_documents(documents: int, *, seed: int = 0, **settings: float) -> Iterator[list[WireSentence]]:
    """The documents `generate_newswire` makes a corpus of, with the places of the silent mentions."""
    checked_number("documents", documents, whole=True)
    checked_number("seed", seed, whole=True)
    reporter = _Reporter(np.random.default_rng(seed), **settings)
    return (_document(reporter) for _ in range(documents))


def silent_share(ambiguity: float = 0.5, repeats: float = 2.0) -> float:
    """Expected silent mentions over expected mentions of the documents' entities, exactly.

    With E entities and H headlines expected a document: ambiguity (E repeats + H) / (E (1 + repeats) + H).
    Whoever reads single sentences gets the types of at most 1 - silent_share (1 - max(TYPE_PRIOR)) of these
    mentions right in expectation; whoever reads documents can get them all.
    """
    entities = sum(ENTITY_COUNTS) / len(ENTITY_COUNTS)
    unclear = entities * checked_number("repeats", repeats, 100) + HEADLINED
    return checked_number("ambiguity", ambiguity, 1) * unclear / (entities + unclear)


def _document(reporter: _Reporter) -> list[WireSentence]:
    rng, cast, sentences = reporter.rng, reporter.cast(), []
    waiting = reporter.mentions(cast)[::-1]
    while waiting:
        entity, clear = waiting.pop()
        if clear:
            sentences.append(reporter.write(wire.CLEAR[entity.type], entity))
            sentences[-1].silent.clear()
        elif waiting and waiting[-1][0] is not entity and not waiting[-1][1] and rng.random() < PAIRED:
            sentences.append(reporter.write(wire.PAIRS, entity, waiting.pop()[0]))
        else:
            sentences.append(reporter.write(wire.NEUTRAL, entity))
    for _ in range(rng.poisson(PLAIN_SENTENCES)):
        sentences.insert(int(rng.random() * (len(sentences) + 1)), reporter.write(wire.OTHER))
    if rng.random() >= HEADLINED:
        return sentences
    headline = reporter.write(wire.HEADLINES, reporter.pick(cast))
    headline.words = [word.upper() for word in headline.words]
    return [headline, reporter.write(wire.REPORTED), *sentences]


@dataclass(frozen=True)
class _Reporter:
    """Draws entities, their mentions and the words of sentences."""

    rng: np.random.Generator
    ambiguity: float = 0.5
    repeats: float = 2.0
    introduction_first: float = 0.8
    unknown: float = 0.4

    def __post_init__(self) -> None:
        checked_number("repeats", self.repeats, 100)
        for name in ("ambiguity", "introduction_first", "unknown"):
            checked_number(name, getattr(self, name), 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.random() * len(choices))]

    def cast(self) -> list[WireEntity]:
        """The entities of a document, no two with one name."""
        entities: dict[str, WireEntity] = {}
        for _ in range(self.pick(ENTITY_COUNTS)):
            kind = tuple(TYPE_PRIOR)[bisect(list(accumulate(TYPE_PRIOR.values()))[:-1], self.rng.random())]
            ambiguous = self.rng.random() < self.ambiguity
            while (name := self.name("ANY" if ambiguous else kind)) in entities:
                pass
            entities[name] = WireEntity(name, kind, ambiguous)
        return list(entities.values())

    def name(self, kind: str) -> str:
        if self.rng.random() >= self.unknown:
            return self.pick(wire.NAMES[kind])
        return "".join(map(self.pick, (wire.SYLLABLES, wire.SYLLABLES, wire.ENDINGS[kind]))).capitalize()

    def mentions(self, cast: Sequence[WireEntity]) -> list[tuple[WireEntity, bool]]:
        """Every mention outside the headline in order, with whether it is the clear one."""
        placed: list[tuple[float, WireEntity, bool]] = []
        for entity in cast:
            unclear = int(self.rng.poisson(self.repeats))
            late = unclear > 0 and self.rng.random() >= self.introduction_first
            clear = 1 + int(self.rng.random() * unclear) if late else 0
            times = sorted(self.rng.random(1 + unclear).tolist())
            placed += [(time, entity, k == clear) for k, time in enumerate(times)]
        return [(entity, clear) for _, entity, clear in sorted(placed, key=lambda mention: mention[0])]

    def write(self, source: str, *named: WireEntity) -> WireSentence:
        """Fill one of the templates; every mention of an ambiguous name is marked silent."""
        templates, bounds = _templates(source)
        sentence = WireSentence()
        self.fill(templates[bisect(bounds, self.rng.random() * bounds[-1])], named, sentence)
        sentence.words[0] = sentence.words[0][0].upper() + sentence.words[0][1:]
        return sentence

    def fill(self, template: Sequence[str], named: Sequence[WireEntity], sentence: WireSentence) -> None:
        opened = 0
        for token in template:
            if token == "[":
                opened = len(sentence.words)
            elif token == "]":
                inside = len(sentence.words) - opened - 1
                sentence.labels[opened:] = ["B-" + named[0].type, *["I-" + named[0].type] * inside]
            elif token in ("@", "@2"):
                entity = named[len(token) - 1]
                if entity.ambiguous:
                    sentence.silent.append(len(sentence.words))
                sentence.add_name(entity.name, entity.type)
            elif token[0] != "%":
                sentence.add(token, wire.TAGS.get(token.lower(), "NNP" if token[0].isupper() else "NN"))
            elif token[1:] in wire.FILLERS:
                self.fill(self.pick(wire.FILLERS[token[1:]]).split(), (), sentence)
            elif token[1:] in wire.NUMBERS:
                low, high, form = wire.NUMBERS[token[1:]]
                sentence.add(form.format(*(low + (high - low) * self.rng.random(2))), "CD")
            else:
                self.fill_name(token[1:], sentence)

    def fill_name(self, slot: str, sentence: WireSentence) -> None:
        if slot in wire.MISC:
            sentence.add_name(self.pick(wire.MISC[slot]), "MISC", "JJ" if slot == "nation" else "NNP")
            return
        kind = {"person": "PER", "place": "LOC", "company": "ORG"}[slot]
        first = self.pick(wire.FILLERS["first"]) + " " if kind == "PER" else ""
        sentence.add_name(first + self.name(kind), kind)


@cache
def _templates(source: str) -> tuple[list[list[str]], list[float]]:
    """Templates as tokens, and the running sums of their weights."""
    rows = [line.split() for line in source.strip().splitlines()]
    return [row[1:] for row in rows], list(accumulate(float(row[0]) for row in rows))


def _corpus(drawn: Sequence[list[WireSentence]]) -> Corpus:
    sentences = [sentence for document in drawn for sentence in document]
    return Corpus.from_sentences(
        [sentence.words for sentence in sentences],
        [sentence.labels for sentence in sentences],
        [str(number) for number, document in enumerate(drawn) for _ in document],
        "BIO",
        pos=[sentence.tags for sentence in sentences],
    )
