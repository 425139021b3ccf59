"""Columns about pairs of mentions beside a slow reference that tells values, not codes; what a mention is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.linking.coreference import COLUMNS, CONJUNCTIONS, CoreferencePairs
from kinfolk.linking.mention_table import AT, mention_table
from kinfolk.linking.mentions import Mentions
from kinfolk.text.corpus import Corpus

EXAMPLES = settings(max_examples=60, deadline=None)


class Kind(NamedTuple):
    """What is known of a phrase, by hand. Number: 1, 2 or None; gender m, f, n; person True, False or None."""

    form: str
    number: int | None
    gender: str | None
    person: bool | None
    head: str
    core: tuple[str, ...]
    content: frozenset[str] = frozenset()
    determiner: str = "none"
    pronoun: str = "none"
    acronym: str | None = None
    initials: str | None = None


def pronoun(word, kind, number, gender, person):
    return Kind("pronoun", number, gender, person, word, (word,), pronoun=kind)


PHRASES = {
    "he": pronoun("he", "he", 1, "m", True),
    "Him": pronoun("him", "he", 1, "m", True),
    "she": pronoun("she", "she", 1, "f", True),
    "it": pronoun("it", "it", 1, "n", False),
    "they": pronoun("they", "they", 2, None, True),
    "I": pronoun("i", "I", 1, None, True),
    "who": pronoun("who", "relative", None, None, None),
    "everyone": pronoun("everyone", "indefinite", None, None, True),
    "those": pronoun("those", "demonstrative", 2, None, True)._replace(core=("those",)),
    "Mr. Smith": Kind("name", 1, "m", True, "smith", ("mr.", "smith"), frozenset({"mr.", "smith"}), initials="ms"),
    "Smith": Kind("name", 1, None, None, "smith", ("smith",), frozenset({"smith"})),
    "Jane 's": Kind("name", 1, "f", None, "jane", ("jane", "'s"), frozenset({"jane"})),
    "Big Blue Machine": Kind("name", 1, None, None, "machine", ("big", "blue", "machine"),
                             frozenset({"big", "blue", "machine"}), initials="bbm"),
    "BBM": Kind("name", 1, None, None, "bbm", ("bbm",), frozenset({"bbm"}), acronym="bbm"),
    "B.B.M.": Kind("name", 1, None, None, "b.b.m.", ("b.b.m.",), frozenset({"b.b.m."}), acronym="bbm"),
    "the old house": Kind("noun", 1, None, None, "house", ("old", "house"), frozenset({"old", "house"}), "definite"),
    "a house": Kind("noun", 1, None, None, "house", ("house",), frozenset({"house"}), "indefinite"),
    "houses": Kind("noun", 2, None, None, "houses", ("houses",), frozenset({"houses"})),
    "these women": Kind("noun", 2, "f", True, "women", ("women",), frozenset({"women"}), "demonstrative"),
    "his sisters": Kind("noun", 2, "f", True, "sisters", ("sisters",), frozenset({"sisters"}), "possessive"),
    "every friend": Kind("noun", 1, None, True, "friend", ("friend",), frozenset({"friend"}), "quantified"),
    "the king of France": Kind("noun", 1, "m", True, "king", ("king", "of", "france"),
                               frozenset({"king", "france"}), "definite"),
    "France": Kind("name", 1, None, None, "france", ("france",), frozenset({"france"})),
    "the son and the heir": Kind("noun", 2, None, None, "heir", ("son", "and", "heir"),
                                 frozenset({"son", "and", "heir"}), "definite"),
}  # fmt: skip
FILLERS = ["said", ",", "is", "was", "and", '"', "“", "”", "saw", "that", ";"]
OPENS_CLAUSE = {"and", "but", "that", "when", "if", "because", "as", ",", ";", "”", '"', "while", "for"}
INSIDE = {"the king of France": [(3, 4, "France")], "Mr. Smith": [(1, 2, "Smith")]}


class Mention(NamedTuple):
    document: int
    sentence: int
    start: int
    end: int
    kind: Kind


class Text(NamedTuple):
    documents: list[list[list[str]]]
    mentions: list[Mention]

    @property
    def words(self):
        return [word for document in self.documents for sentence in document for word in sentence]

    def items(self):
        sentences = [sentence for document in self.documents for sentence in document]
        starts = np.cumsum([0, *map(len, sentences)])
        corpus = Corpus({"word": Column.from_strings(self.words)}, starts, np.cumsum([0, *map(len, self.documents)]))
        spans = np.array([(m.start, m.end) for m in self.mentions], np.int64).reshape(-1, 2)
        return Mentions.from_groups([m.document for m in self.mentions], {}, corpus=corpus, spans=spans)


@st.composite
def texts(draw, max_documents=2, max_sentences=4):
    """Every sentence opens with "Then": a word that begins a sentence would be no name by its capital alone."""
    documents, mentions = [], []
    token = sentence = 0
    for d in range(draw(st.integers(0, max_documents))):
        document, found = [], []
        for _ in range(draw(st.integers(0, max_sentences))):
            words = ["Then"]
            for part in draw(st.lists(st.sampled_from([*PHRASES, *FILLERS, *FILLERS]), max_size=6)):
                if part in PHRASES:
                    at = token + len(words)
                    found.append(Mention(d, sentence, at, at + len(part.split()), PHRASES[part]))
                    for a, b, inner in INSIDE.get(part, []):
                        if draw(st.booleans()):
                            found.append(Mention(d, sentence, at + a, at + b, PHRASES[inner]))
                words += part.split()
            document.append(words)
            token += len(words)
            sentence += 1
        mentions += sorted(found, key=lambda m: (m.start, -m.end))
        documents.append(document)
    return Text(documents, mentions)


# -- the reference ------------------------------------------------------------------------------------


def ranged(value, *bounds):
    """The range a number falls in: up to each bound, or more."""
    low = None
    for bound in bounds:
        if value <= bound:
            first = bound if low is None else low + 1
            return str(bound) if first == bound else f"{first}-{bound}"
        low = bound
    return f"{bounds[-1] + 1} or more"


def agreement(a, b):
    return "unknown" if a is None or b is None else "agree" if a == b else "differ"


def quotation(text, mention):
    """The number of the opening quote the mention stands after, or None."""
    words = text.words
    begins = sum(len(sentence) for document in text.documents[: mention.document] for sentence in document)
    opened = None
    for t in range(begins, mention.start + 1):
        if words[t] == "“" or (words[t] == '"' and opened is None):
            opened = t
        elif words[t] in ("”", '"'):
            opened = None
    return opened


def role(text, mention):
    return "subject" if text.words[mention.start - 1].lower() in OPENS_CLAUSE else "other"


def is_embedded(text, one):
    return any(
        m is not one and m.document == one.document and m.start <= one.start and one.end <= m.end for m in text.mentions
    )


def overlap(i, j):
    both = i.content & j.content
    if not both:
        return "none shared"
    if i.content == j.content:
        return "equal"
    return "i within j" if both == i.content else "j within i" if both == j.content else "some shared"


def reference(text, i, j):
    """One value a column."""
    a, b = text.mentions[i], text.mentions[j]
    x, y = a.kind, b.kind
    between = text.mentions[i + 1 : j]
    alike = {"pronoun": "pronouns", "name": "names", "noun": "nouns"}[x.form] if x.form == y.form else "other"
    pronouns = "pronoun" in (x.form, y.form)
    fits = [
        m for m in between
        if "differ" not in (agreement(m.kind.number, y.number), agreement(m.kind.gender, y.gender),
                            agreement(m.kind.person, y.person))
    ]  # fmt: skip
    same = [m for m in between if m.kind.form == "pronoun" and m.kind.pronoun == y.pronoun]
    firsts = ["differ", "first word", "last word", "both"][(x.core[0] == y.core[0]) + 2 * (x.core[-1] == y.core[-1])]
    in_context = [quotation(text, m) for m in (a, b)]
    if None not in in_context:
        quote = "the same" if in_context[0] == in_context[1] else "two"
    else:
        quote = "only i" if in_context[0] is not None else "only j" if in_context[1] is not None else "neither"
    follows = a.sentence == b.sentence and b.start >= a.end
    before = text.words[b.start - 1].lower()
    embedded = is_embedded(text, a), is_embedded(text, b)
    group = [m for m in text.mentions if m.document == a.document]
    no_pronoun = "j no pronoun"
    latest = x.head == y.head and not any(m.kind.head == y.head for m in between)
    return {
        "sentences apart": ranged(b.sentence - a.sentence, 0, 1, 2, 3, 5, 10, 20, 50),
        "mentions between": ranged(len(between), 0, 1, 2, 4, 8, 16, 32, 64, 128),
        "forms": f"{x.form}, {y.form}",
        "pronouns": f"{x.pronoun}, {y.pronoun}",
        "same text": alike if x.core == y.core else "no",
        "same head": "pronoun" if pronouns else alike if x.head == y.head else "no",
        "words": "pronoun" if pronouns else overlap(x, y),
        "ends": "pronoun" if pronouns else firsts,
        "number": agreement(x.number, y.number),
        "gender": agreement(x.gender, y.gender),
        "person or thing": agreement(x.person, y.person),
        "entity type": "unknown",
        "determiner of i": x.determiner,
        "determiner of j": y.determiner,
        "alias": "yes" if {x.acronym, y.acronym} & {x.initials, y.initials} - {None} else "no",
        "apposition": "yes" if follows and b.start == a.end + 1 and before == "," else "no",
        "predicate": "yes" if follows and b.start <= a.end + 2 and before in ("is", "was", "'s") else "no",
        "quotation": quote,
        "nested": "j in i" if b.end <= a.end else "no",
        "embedded": {(0, 0): "neither", (0, 1): "j", (1, 0): "i", (1, 1): "both"}[embedded],
        "roles": f"{role(text, a)}, {role(text, b)}",
        "agreeing mentions between": ranged(len(fits), 0, 1, 2, 5) if y.form == "pronoun" else no_pronoun,
        "same pronoun between": ranged(len(same), 0, 1, 2, 5) if y.form == "pronoun" else no_pronoun,
        "latest with this head": "pronoun" if y.form == "pronoun" else "yes" if latest else "no",
        "mentions of i's text": ranged(sum(m.kind.core == x.core for m in group), 1, 3, 9),
        "mentions of j's text": ranged(sum(m.kind.core == y.core for m in group), 1, 3, 9),
    }


def values(codes):
    """Codes as the values they stand for."""
    return [
        {column.name: column.values[code] for column, code in zip(COLUMNS, row, strict=True)} for row in codes.tolist()
    ]


@EXAMPLES
@given(text=texts())
def test_every_column_beside_the_reference(text):
    items = text.items()
    codes = CoreferencePairs().of(items)(items.left, items.right)
    assert codes.dtype == np.uint8 and codes.shape == (items.n_pairs, len(COLUMNS))
    for i, j, found in zip(items.left, items.right, values(codes), strict=True):
        assert found == reference(text, i, j)


@EXAMPLES
@given(text=texts(), seed=st.integers(0, 1000))
def test_pairs_are_coded_alike_in_any_company(text, seed):
    items = text.items()
    answer = CoreferencePairs().of(items)
    whole = answer(items.left, items.right)
    for k in range(items.n_pairs):
        np.testing.assert_array_equal(answer(items.left[[k]], items.right[[k]]), whole[[k]])
    for bounds in np.sort(np.random.default_rng(seed).integers(0, items.n_pairs + 1, (3, 2))):
        part = slice(*bounds)
        np.testing.assert_array_equal(answer(items.left[part], items.right[part]), whole[part])
    some = np.random.default_rng(seed).random(items.n_pairs) < 0.5
    fewer = items.with_pairs(items.left[some], items.right[some])
    np.testing.assert_array_equal(CoreferencePairs().of(fewer)(fewer.left, fewer.right), whole[some])


@EXAMPLES
@given(text=texts(max_documents=3))
def test_documents_do_not_mix(text):
    """A document by itself has the codes it has beside others."""
    items = text.items()
    whole = CoreferencePairs().of(items)(items.left, items.right)
    for g in range(items.n_groups):
        alone = items.take_groups([g])
        codes = CoreferencePairs().of(alone)(alone.left, alone.right)
        np.testing.assert_array_equal(codes, whole[items.groups[items.left] == g])


def test_far_apart():
    """Ranges of distances, and of how often a text comes."""
    sentences = [["Then", "he", "saw", "a", "house"] for _ in range(60)]
    mentions = []
    for s in range(60):
        mentions.append(Mention(0, s, 5 * s + 1, 5 * s + 2, PHRASES["he"]))
        mentions.append(Mention(0, s, 5 * s + 3, 5 * s + 5, PHRASES["a house"]))
    text = Text([sentences], mentions)
    items = text.items()
    codes = CoreferencePairs().of(items)(items.left, items.right)
    at = np.random.default_rng(0).choice(items.n_pairs, 300, replace=False)
    for k, found in zip(at, values(codes[at]), strict=True):
        assert found == reference(text, items.left[k], items.right[k])
    assert set(codes[:, 0]) == set(range(9)) and set(codes[:, 1]) == set(range(9))


# -- what a mention is --------------------------------------------------------------------------------


def corpus_of(sentences, **columns):
    words = [word for sentence in sentences for word in sentence]
    starts = np.cumsum([0, *map(len, sentences)])
    return Corpus(
        {"word": Column.from_strings(words), **{n: Column.from_strings(c) for n, c in columns.items()}},
        starts,
        np.array([0, len(sentences)]),
    )


def mentions_of(corpus, *spans, **columns):
    told = {name: Column.from_strings(values) for name, values in columns.items()}
    return Mentions.from_groups(np.zeros(len(spans), np.int32), told, corpus=corpus, spans=np.array(spans, np.int64))


def told(items, field):
    return mention_table(items).values[:, AT[field]].tolist()


def coded(items):
    return values(CoreferencePairs().of(items)(items.left, items.right))


def test_types_and_forms_that_are_given_count():
    corpus = corpus_of([["Then", "Paris", "saw", "the", "ship", "and", "it", "sank"]])
    spans = (1, 2), (3, 5), (6, 7)
    items = mentions_of(corpus, *spans, type=["PER", "VEH", None], form=["PROP", "NOM", "PRON"])
    assert told(items, "form") == [1, 2, 0]
    assert told(items, "personal") == [1, 2, 2], "by type; a pronoun without one by its gender"
    assert told(items, "gender") == [0, 3, 3]
    first, second, third = coded(items)  # (0, 1), (0, 2), (1, 2)
    assert first["entity type"] == "differ" and first["person or thing"] == "differ"
    assert second["entity type"] == third["entity type"] == "unknown"
    assert third["gender"] == "agree"
    same = mentions_of(corpus, *spans, type=["place", "place", "place"], form=["NOM", "PROP", "other"])
    assert told(same, "form") == [2, 1, 2]
    assert {pair["entity type"] for pair in coded(same)} == {"agree"}


def test_pronouns_the_lists_do_not_know():
    """A mention may be a pronoun by annotation alone; nouns between it and another are not the same pronoun."""
    corpus = corpus_of([["Then", "yeh", "saw", "the", "ship", "and", "yeh", "sank"]])
    items = mentions_of(corpus, (1, 2), (3, 5), (6, 7), form=["PRON", "NOM", "PRON"])
    pair = coded(items)[1]
    assert pair["pronouns"] == "none, none" and pair["forms"] == "pronoun, pronoun"
    assert pair["same pronoun between"] == "0" and pair["same text"] == "pronouns"


def test_a_parse_tells_heads_roles_and_numbers():
    words = ["The", "sheep", "that", "we", "saw", "left", "Springs"]
    corpus = corpus_of(
        [words],
        head=["2", "6", "5", "5", "2", "0", "6"],
        deprel=["det", "nsubj:pass", "obj", "nsubj", "acl:relcl", "root", "obl"],
        upos=["DET", "NOUN", "PRON", "PRON", "VERB", "VERB", "PROPN"],
        feats=["_", "Number=Plur", "_", "_", "_", "_", "Case=Nom|Number=Sing"],
    )
    items = mentions_of(corpus, (0, 5), (1, 2), (3, 4), (6, 7))
    heads = told(items, "head")
    assert heads[0] == heads[1] and len(set(heads)) == 3, "the sheep that we saw is a sheep"
    assert told(items, "role") == [1, 1, 1, 3] and told(items, "form") == [2, 2, 0, 1]
    assert told(items, "number") == [2, 2, 2, 1]
    assert told(items, "embedded") == [0, 1, 1, 0]
    assert coded(items)[0]["nested"] == "j in i" and coded(items)[0]["roles"] == "subject, subject"


def test_heads_without_a_parse():
    corpus = corpus_of([["Then", "the", "man", "with", "a", "hat", "saw", "Jane", "'s", "dog"]])
    items = mentions_of(corpus, (1, 6), (2, 3), (4, 6), (5, 6), (7, 9), (7, 8))
    heads = told(items, "head")
    assert heads[0] == heads[1] and heads[2] == heads[3] and heads[4] == heads[5]


def test_a_word_that_opens_a_sentence_is_no_name_by_its_capital():
    corpus = corpus_of([["Ships", "left"], ["Old", "Ships", "left"]])
    assert told(mentions_of(corpus, (0, 1), (2, 4)), "form") == [2, 1]
    assert told(mentions_of(corpus, (0, 1), (2, 4)), "role") == [1, 1]


def test_quotations_end_with_the_document():
    words = [['"', "I", "left"], ["he", "left"]]
    corpus = Corpus(
        {"word": Column.from_strings(w for s in words for w in s)}, np.array([0, 3, 5]), np.array([0, 1, 2])
    )
    spans = np.array([(1, 2), (3, 4)])
    items = Mentions.from_groups([0, 1], {}, corpus=corpus, spans=spans)
    assert told(items, "quote") == [1, 0]


def test_empty_words_do_no_harm():
    corpus = corpus_of([["", "", "the", ""]])
    items = mentions_of(corpus, (0, 1), (0, 2), (2, 4), (3, 4))
    assert len(coded(items)) == 6


def test_mentions_without_text():
    items = Mentions.from_groups([0, 0], {})
    with pytest.raises(InputError, match="coreference features need the text around the mentions"):
        CoreferencePairs().of(items)


@pytest.mark.parametrize("spans", [[(1, 1)], [(0, 9)], [(-1, 1)], [(0, 1), (1, 2)]])
def test_spans_that_do_not_fit(spans):
    corpus = corpus_of([["a", "b"]])
    items = Mentions.from_groups([0], {}, corpus=corpus, spans=np.array(spans))
    with pytest.raises(InputError, match=r"expected a span of tokens for each of 1 mentions, start < end <= 2; got"):
        mention_table(items)


def test_no_mentions():
    items = Text([], []).items()
    assert CoreferencePairs().of(items)(items.left, items.right).shape == (0, len(COLUMNS))
    one = mentions_of(corpus_of([["a"]]), (0, 1))
    assert CoreferencePairs().of(one)(one.left, one.right).shape == (0, len(COLUMNS))


def test_columns_have_names_of_their_own():
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names) and all(name in names for pair in CONJUNCTIONS for name in pair)
    assert all(len(set(column.values)) == len(column.values) < 256 for column in COLUMNS)
