"""What a mention of a text is by itself: form, number, gender, head, place. Worked out once a mention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.linking.mentions import Mentions
from kinfolk.text.corpus import Corpus

# -- What English words say about a mention: pronouns, determiners, titles, words and names that have a gender ---


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MALE, FEMALE, NEUTER = 1, 2, 3  # 0 = not known, as for the rest
SINGULAR, PLURAL = 1, 2

PRONOUN_CLASSES = ("none", "I", "you", "he", "she", "it", "we", "they", "relative", "demonstrative", "indefinite")

_FORMS = {
    "I": "i me my mine myself",
    "you": "you your yours yourself yourselves thou thee thy thine thyself ye",
    "he": "he him his himself",
    "she": "she her hers herself",
    "it": "it its itself 't",
    "we": "we us our ours ourselves",
    "they": "they them their theirs themselves 'em",
    "relative": "who whom whose which what whoever whomever where",
    "demonstrative": "this that these those here there",
    "indefinite": "one ones another other others each both all none some someone somebody everyone everybody anyone "
    "anybody nobody oneself one's either neither something everything nothing anything few many several such",
}
PRONOUNS = {word: PRONOUN_CLASSES.index(name) for name, words in _FORMS.items() for word in words.split()}
# Person, number and gender of each class of pronouns.
PERSON = (0, 1, 2, 3, 3, 3, 1, 3, 0, 3, 3)
PRONOUN_NUMBER = (0, 1, 0, 1, 1, 1, 2, 2, 0, 0, 0)
PRONOUN_GENDER = (0, 0, 0, MALE, FEMALE, NEUTER, 0, 0, 0, 0, 0)
PLURAL_PRONOUNS = _words("these those yourselves others both all some many several few")

DEFINITE, DEMONSTRATIVE, INDEFINITE, POSSESSIVE, QUANTIFIED = 1, 2, 3, 4, 5
_DETERMINERS = {
    DEFINITE: "the th'",
    DEMONSTRATIVE: "this that these those",
    INDEFINITE: "a an some any another no",
    POSSESSIVE: "my your his her its our their thy mine whose",
    QUANTIFIED: "every each all both many few several two three four five six seven eight nine ten most such",
}
DETERMINERS = {word: kind for kind, words in _DETERMINERS.items() for word in words.split()}
PLURAL_DETERMINERS = _words("these those many few several two three four five six seven eight nine ten both all")

MALE_TITLES = _words("mr mr. mister sir lord king prince duke count baron master monsieur m. father uncle")
FEMALE_TITLES = _words("mrs mrs. miss ms ms. lady madam madame mme. mademoiselle queen princess duchess aunt")
TITLES = (
    MALE_TITLES
    | FEMALE_TITLES
    | _words("dr dr. doctor professor prof. captain capt. colonel col. general major president senator rev.")
)
MALE_NOUNS = _words("""
    man men boy boys father son sons brother brothers husband uncle nephew grandfather gentleman gentlemen king
    prince lord sir fellow lad lads boyfriend papa dad daddy grandson god priest monk bridegroom widower actor
    waiter emperor duke count baron knight clergyman policeman businessman chairman guy guys bloke landlord master
""")
FEMALE_NOUNS = _words("""
    woman women girl girls mother daughter daughters sister sisters wife wives aunt niece grandmother lady ladies
    queen princess madam miss maid mistress widow lass girlfriend mamma mama mum mom mommy granddaughter goddess
    nun bride actress waitress empress duchess countess housekeeper governess landlady heroine nurse
""")
PERSON_NOUNS = _words("""
    person people child children friend friends doctor teacher student students servant servants stranger soldier
    soldiers officer captain author writer president minister director scientist researchers players player user
    users parent parents baby cousin guest guests neighbour neighbor speaker members member leader
""")
MALE_NAMES = _words("""
    john william james george charles thomas henry robert edward richard joseph frank samuel david peter paul
    michael daniel andrew walter arthur fred frederick albert alfred harry jack tom bill bob jim joe sam ben louis
    philip stephen steven mark luke matthew simon martin hugh ralph edgar edmund ernest oliver oscar adam
    alexander anthony benjamin christopher francis gilbert godfrey harold herbert isaac jacob jerry jonathan
    joshua julian laurence lawrence leonard lewis nathaniel nicholas patrick percy roger roland rupert sidney
    silas stanley theodore timothy victor vincent archibald bernard brian kevin eric donald ronald kenneth gary
    scott barack vladimir ivan
""")
FEMALE_NAMES = _words("""
    mary elizabeth anne ann anna jane margaret sarah emma alice catherine katherine kate charlotte caroline helen
    ellen emily lucy martha maria marie julia rose ruth susan susanna rebecca rachel rosa dorothea dorothy diana
    eleanor eliza ella esther eva eve fanny florence frances georgiana gertrude grace hannah harriet hester isabel
    isabella ida jenny jessie josephine kitty laura lily lizzie louisa lydia mabel madeline marian matilda may
    minnie miriam molly nancy nell nora olivia pamela patricia penelope peggy polly sally sophia sophie stella
    sylvia teresa ursula victoria viola virginia winifred barbara carol jennifer jessica karen linda lisa michelle
    amy angela hillary
""")
PREPOSITIONS = _words("""
    of in on at by for with from to into upon about over under between among against before behind near who whom
    whose which that where , ; : - -- ( as
""")
PERSONAL_TYPES = frozenset({"per", "person"})  # entity types of the corpora read
OPENING_QUOTES, CLOSING_QUOTES, EITHER_QUOTES = _words("“ `` «"), _words("” '' »"), _words('"')
OPENING_WORDS = _words('and but that when if because as , ; ” " while for')  # before the subject of a clause
COPULAS = _words("is was are were be been am 's 'm")


# -- mention table ---------------------------------------------------------------------------------

PRONOUN, PROPER, NOMINAL = 0, 1, 2
FORMS = {"PRON": PRONOUN, "PROP": PROPER, "NOM": NOMINAL}
NO_ROLE, SUBJECT, OBJECT, OTHER_ROLE = 0, 1, 2, 3
ROLES = {"nsubj": SUBJECT, "csubj": SUBJECT, "obj": OBJECT, "iobj": OBJECT}

# The columns of the integer table, in order. String numbers are equal when the strings are.
FIELDS = (
    "form pronoun number gender personal definite type sentence start end head core first last acronym "
    "initials quote role embedded appositive copula"
).split()
AT = {name: i for i, name in enumerate(FIELDS)}


@dataclass(frozen=True, eq=False)
class MentionTable:
    """values int32 (n, fields); mention i has content words words[word_starts[i]:word_starts[i + 1]], each once."""

    values: NDArray[np.int32]
    words: NDArray[np.int32]
    word_starts: NDArray[np.int64]


def mention_table(items: Mentions) -> MentionTable:
    """The attributes of every mention; needs the text the mentions were read from."""
    corpus, spans = items.corpus, items.spans
    if corpus is None or spans is None:
        wanted = "coreference features need the text around the mentions"
        raise InputError(f"{wanted}: read documents with read_coref, or give Mentions a corpus and spans")
    astray = np.flatnonzero((spans[:, 0] < 0) | (spans[:, 0] >= spans[:, 1]) | (spans[:, 1] > corpus.n_tokens))
    if len(spans) != items.n_items or len(astray):
        wanted = f"expected a span of tokens for each of {items.n_items} mentions, start < end <= {corpus.n_tokens}"
        raise InputError(f"{wanted}; got {spans[astray[0]].tolist() if len(astray) else len(spans)}")
    reader = _Reader(corpus, items)
    rows = [reader.row(i, int(a), int(b)) for i, (a, b) in enumerate(spans)]
    values = np.array(rows, np.int32).reshape(len(rows), len(FIELDS))
    values[:, AT["embedded"]] = _embedded(items.groups, spans)
    starts = np.concatenate([[0], np.cumsum([len(w) for w in reader.content])]).astype(np.int64)
    words = np.fromiter((w for ws in reader.content for w in sorted(ws)), np.int32, int(starts[-1]))
    return MentionTable(values, words, starts)


class _Reader:
    """Reads one mention after the other; numbers strings as they come."""

    def __init__(self, corpus: Corpus, items: Mentions) -> None:
        self.words = [w or "" for w in corpus.columns["word"].strings()]
        self.lower = [w.lower() for w in self.words]
        self.sentences = corpus.token_sentences
        self.sentence_starts = corpus.sentence_starts
        self.heads = _dependency_heads(corpus)
        self.roles, self.tags, self.features = (_strings(corpus, name) for name in ("deprel", "upos", "feats"))
        self.quotes = _quotes(self.words, corpus)
        self.forms, self.types = _codes(items, "form"), _codes(items, "type")
        self.content: list[set[int]] = []
        self._numbers: dict[str, int] = {}

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def row(self, item: int, start: int, end: int) -> list[int]:
        words, low = self.words[start:end], self.lower[start:end]
        head = self._head(start, end)
        pronoun = self._pronoun(low, start)
        form = self._form(item, words, head, pronoun)
        if form != PRONOUN:
            pronoun = 0
        kind = self.types[item]
        core = [w for w in low if w not in DETERMINERS] or low
        content = {self._number(w) for w in core if w not in PREPOSITIONS and w[:1].isalnum()}
        self.content.append(content if form != PRONOUN else set())
        personal = self._personal(kind, pronoun, low, head)
        capitals = [w for w in words if w[:1].isupper()]
        acronym = words[0].replace(".", "") if len(words) == 1 and words[0].isupper() and len(words[0]) > 1 else ""
        initials = "".join(w[0] for w in capitals) if len(capitals) > 1 else ""
        before = self.lower[start - 1] if start else ""
        return [
            form,
            pronoun,
            self._plural(low, head, pronoun),
            self._gender(low, head, pronoun, personal),
            personal,
            DETERMINERS.get(low[0], 0) if form != PRONOUN else 0,
            -1 if kind is None else self._number("\0" + kind),
            int(self.sentences[start]),
            start,
            end,
            self._number(self.lower[head]),
            self._number(" ".join(core)),
            self._number(core[0]),
            self._number(core[-1]),
            self._number(acronym.lower()) if acronym else -1,
            self._number(initials.lower()) if initials else -2,
            self.quotes[start],
            self._role(start, head),
            0,
            int(before == ","),
            int(before in COPULAS),
        ]

    def _head(self, start: int, end: int) -> int:
        """The token whose governor lies outside; without a parse the last word before a preposition or comma."""
        if self.heads is not None:
            inside = [t for t in range(start, end) if not start <= self.heads[t] < end]
            return inside[0] if inside else end - 1
        for t in range(start + 1, end):
            if self.lower[t] in PREPOSITIONS:
                return t - 1
        return end - 2 if end - start > 1 and self.lower[end - 1] in ("'s", "’s", "'") else end - 1

    def _pronoun(self, low: list[str], start: int) -> int:
        if len(low) > 1 and not (len(low) == 2 and low[1] in ("own", "self")):
            return 0
        if low[0] == "i" and self.words[start] == "i":
            return 0
        return PRONOUNS.get(low[0], 0)

    def _form(self, item: int, words: list[str], head: int, pronoun: int) -> int:
        given = self.forms[item]
        if given is not None:
            return FORMS.get(given, NOMINAL)
        if pronoun:
            return PRONOUN
        if self.tags is not None:
            return {"PROPN": PROPER, "PRON": PRONOUN}.get(self.tags[head], NOMINAL)
        at_start = head == self.sentence_starts[self.sentences[head]]
        return PROPER if self.words[head][:1].isupper() and not (at_start and len(words) == 1) else NOMINAL

    def _personal(self, kind: str | None, pronoun: int, low: list[str], head: int) -> int:
        """1 a person, 2 none, 0 not known."""
        if kind is not None:
            return 1 if kind.lower() in PERSONAL_TYPES else 2
        if pronoun:
            return 2 if PRONOUN_GENDER[pronoun] == NEUTER else 1 if PERSON[pronoun] else 0
        named = self.lower[head] in PERSON_NOUNS | MALE_NOUNS | FEMALE_NOUNS
        return 1 if named or low[0] in TITLES else 0

    def _plural(self, low: list[str], head: int, pronoun: int) -> int:
        if pronoun:
            return PLURAL if low[0] in PLURAL_PRONOUNS else PRONOUN_NUMBER[pronoun]
        if self.features is not None and "Number=" in self.features[head]:
            return PLURAL if "Number=Plur" in self.features[head] else SINGULAR
        word = self.lower[head]
        if "and" in low or low[0] in PLURAL_DETERMINERS or word in ("men", "women", "children", "people"):
            return PLURAL
        if word.endswith("s") and not word.endswith(("ss", "us", "is")) and not self.words[head][:1].isupper():
            return PLURAL
        return SINGULAR

    def _gender(self, low: list[str], head: int, pronoun: int, personal: int) -> int:
        if pronoun:
            return PRONOUN_GENDER[pronoun]
        word = self.lower[head]
        given = low[1] if low[0] in TITLES and len(low) > 1 else low[0]
        if low[0] in MALE_TITLES or word in MALE_NOUNS or given in MALE_NAMES:
            return MALE
        if low[0] in FEMALE_TITLES or word in FEMALE_NOUNS or given in FEMALE_NAMES:
            return FEMALE
        return NEUTER if personal == 2 else 0

    def _role(self, start: int, head: int) -> int:
        """Of the parse; without one, a mention that opens its sentence or clause is taken for a subject."""
        if self.roles is not None:
            return ROLES.get(self.roles[head].split(":")[0], OTHER_ROLE)
        opens = start == self.sentence_starts[self.sentences[start]]
        before = "" if opens else self.lower[start - 1]
        return SUBJECT if opens or before in OPENING_WORDS else OTHER_ROLE


def _strings(corpus: Corpus, name: str) -> list[str] | None:
    column = corpus.columns.get(name)
    return None if column is None else [s or "" for s in column.strings()]


def _codes(items: Mentions, name: str) -> list[str | None]:
    column = items.columns.get(name)
    return column.strings() if isinstance(column, Column) else [None] * items.n_items


def _dependency_heads(corpus: Corpus) -> list[int] | None:
    """The token that governs each token, -1 for roots; files number tokens from 1 within a sentence."""
    column = _strings(corpus, "head")
    if column is None:
        return None
    base = corpus.sentence_starts[corpus.token_sentences]
    return [-1 if not h.isdigit() or h == "0" else int(b) + int(h) - 1 for h, b in zip(column, base, strict=True)]


def _quotes(words: list[str], corpus: Corpus) -> list[int]:
    """The number of the quotation each token stands in, 0 outside; none reaches into the next document."""
    bounds = set(corpus.sentence_starts[corpus.document_starts].tolist())
    found, inside, number = [], False, 0
    for t, word in enumerate(words):
        if t in bounds:
            inside = False
        if word in OPENING_QUOTES or (word in EITHER_QUOTES and not inside):
            inside, number = True, number + 1
        elif word in CLOSING_QUOTES or word in EITHER_QUOTES:
            inside = False
        found.append(number if inside else 0)
    return found


def _embedded(groups: NDArray[np.int32], spans: NDArray[np.int64]) -> NDArray[np.int32]:
    """1 where a mention lies within another: some mention that starts no later ends no earlier."""
    order = np.lexsort((-spans[:, 1], spans[:, 0], groups))
    inside = np.zeros(len(spans), np.int32)
    furthest, group = -1, -1
    for i in order:
        if groups[i] != group:
            furthest, group = -1, groups[i]
        inside[i] = spans[i, 1] <= furthest
        furthest = max(furthest, int(spans[i, 1]))
    return inside
