"""What English words tell about a mention: pronouns, determiners, titles, words and names that have a gender."""

from __future__ import annotations

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
PLURAL_PRONOUNS = frozenset("these those yourselves others both all some many several few".split())

DEFINITE, DEMONSTRATIVE, INDEFINITE, POSSESSIVE, QUANTIFIED = 1, 2, 3, 4, 5
_DETERMINERS = {
    DEFINITE: "the th'",
    DEMONSTRATIVE: "this that these those",
    INDEFINITE: "a an some any another no",
    POSSESSIVE: "my your his her its our their thy mine whose",
    QUANTIFIED: "every each all both many few several two three four five six seven eight nine ten most such",
}
DETERMINERS = {word: kind for kind, words in _DETERMINERS.items() for word in words.split()}
PLURAL_DETERMINERS = frozenset(
    """
    these those many few several two three four five six seven eight nine ten both all
    """.split()
)

MALE_TITLES = frozenset("mr mr. mister sir lord king prince duke count baron master monsieur m. father uncle".split())
FEMALE_TITLES = frozenset(
    """
    mrs mrs. miss ms ms. lady madam madame mme. mademoiselle queen princess duchess aunt
    """.split()
)
TITLES = (
    MALE_TITLES
    | FEMALE_TITLES
    | frozenset("dr dr. doctor professor prof. captain capt. colonel col. general major president senator rev.".split())
)
MALE_NOUNS = frozenset(
    """
    man men boy boys father son sons brother brothers husband uncle nephew grandfather gentleman gentlemen king
    prince lord sir fellow lad lads boyfriend papa dad daddy grandson god priest monk bridegroom widower actor
    waiter emperor duke count baron knight clergyman policeman businessman chairman guy guys bloke landlord master
    """.split()
)
FEMALE_NOUNS = frozenset(
    """
    woman women girl girls mother daughter daughters sister sisters wife wives aunt niece grandmother lady ladies
    queen princess madam miss maid mistress widow lass girlfriend mamma mama mum mom mommy granddaughter goddess
    nun bride actress waitress empress duchess countess housekeeper governess landlady heroine nurse
    """.split()
)
PERSON_NOUNS = frozenset(
    """
    person people child children friend friends doctor teacher student students servant servants stranger soldier
    soldiers officer captain author writer president minister director scientist researchers players player user
    users parent parents baby cousin guest guests neighbour neighbor speaker members member leader
    """.split()
)
MALE_NAMES = frozenset(
    """
    john william james george charles thomas henry robert edward richard joseph frank samuel david peter paul
    michael daniel andrew walter arthur fred frederick albert alfred harry jack tom bill bob jim joe sam ben louis
    philip stephen steven mark luke matthew simon martin hugh ralph edgar edmund ernest oliver oscar adam
    alexander anthony benjamin christopher francis gilbert godfrey harold herbert isaac jacob jerry jonathan
    joshua julian laurence lawrence leonard lewis nathaniel nicholas patrick percy roger roland rupert sidney
    silas stanley theodore timothy victor vincent archibald bernard brian kevin eric donald ronald kenneth gary
    scott barack vladimir ivan
    """.split()
)
FEMALE_NAMES = frozenset(
    """
    mary elizabeth anne ann anna jane margaret sarah emma alice catherine katherine kate charlotte caroline helen
    ellen emily lucy martha maria marie julia rose ruth susan susanna rebecca rachel rosa dorothea dorothy diana
    eleanor eliza ella esther eva eve fanny florence frances georgiana gertrude grace hannah harriet hester isabel
    isabella ida jenny jessie josephine kitty laura lily lizzie louisa lydia mabel madeline marian matilda may
    minnie miriam molly nancy nell nora olivia pamela patricia penelope peggy polly sally sophia sophie stella
    sylvia teresa ursula victoria viola virginia winifred barbara carol jennifer jessica karen linda lisa michelle
    amy angela hillary
    """.split()
)
PREPOSITIONS = frozenset(
    """
    of in on at by for with from to into upon about over under between among against before behind near who whom
    whose which that where , ; : - -- ( as
    """.split()
)
PERSONAL_TYPES = frozenset({"per", "person"})  # entity types of the corpora read
OPENING_QUOTES, CLOSING_QUOTES, EITHER_QUOTES = (
    frozenset({"“", "``", "«"}),
    frozenset({"”", "''", "»"}),
    frozenset({'"'}),
)
