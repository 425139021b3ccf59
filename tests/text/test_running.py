"""Running text in, entities with their characters out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, NotFittedError, SettingError
from kinfolk.text.attributes import lower, pos, shape, word
from kinfolk.text.running import Cut, text_corpus
from kinfolk.text.tokenise import WAYS, Cutter, pieces, token_spans, way_of

TEXT = st.text() | st.text(st.sampled_from("aB3 .,-_'’()\"%!?$\n\r\té"), max_size=30)
SENTENCES = [
    "Mr. Bill Washington left Boston .".split(),
    "Washington met Kim Lee of Acme Corp. on Monday .".split(),
    "Kim Lee slept in Boston .".split(),
]
LABELS = [
    "O B-PER I-PER O B-LOC O".split(),
    "B-PER O B-PER I-PER O B-ORG I-ORG O O O".split(),
    "B-PER I-PER O O B-LOC O".split(),
]


def trained(model=None, **columns):
    corpus = kf.Corpus.from_sentences(SENTENCES, LABELS, documents=[2, 1], **columns)
    return (kf.LinearChainCRF(n_jobs=1, tolerance=0.1) if model is None else model).fit(corpus)


@pytest.fixture(scope="module")
def crf():
    return trained()


def test_a_text_gives_its_entities_with_their_characters(crf):
    text = "Mr. Washington left\nBoston. Washington met  Kim  Lee of Acme Corp. on Monday."
    found = crf.entities(text)
    assert [(e.type, text[e.start_char : e.end_char], e.text) for e in found] == [
        ("PER", "Washington", "Washington"),
        ("LOC", "Boston", "Boston"),
        ("PER", "Washington", "Washington"),
        ("PER", "Kim  Lee", "Kim Lee"),
        ("ORG", "Acme Corp.", "Acme Corp."),
    ]
    assert [e.sentence for e in found] == [0, 0, 1, 1, 1] and {e.document for e in found} == {0}
    assert all(0 < e.confidence <= 1 and e.exact for e in found)


def test_entities_are_those_of_the_words(crf):
    found = crf.entities("Mr. Bill Washington left Boston. Kim Lee slept in Boston.")
    by_words = crf.predict_entities([SENTENCES[0], SENTENCES[2]])
    same = "sentence", "start", "end", "type", "confidence", "text", "exact"
    assert [[getattr(e, name) for name in same] for e in found] == [[getattr(e, n) for n in same] for e in by_words]


def test_a_list_of_texts_gives_a_list_for_each(crf):
    texts = ["Kim Lee slept. Kim Lee left.", "", "  \n", "Mr. Washington left."]
    found = crf.entities(texts)
    assert [len(one) for one in found] == [2, 0, 0, 1]
    assert [(e.document, e.sentence, e.start_char) for one in found for e in one] == [(0, 0, 0), (0, 1, 15), (3, 0, 4)]
    for text, one in zip(texts, found, strict=True):
        alone = crf.entities(text)
        assert [(e.sentence, e.start_char, e.end_char, e.confidence) for e in alone] == [
            (e.sentence, e.start_char, e.end_char, e.confidence) for e in one
        ]
    assert crf.entities([]) == [] and crf.entities("") == [] and crf.entities(("", "")) == [[], []]


@pytest.mark.parametrize(
    "model",
    [
        kf.MaxEnt(n_jobs=1, tolerance=0.1),
        kf.MEMM(n_jobs=1, tolerance=0.1),
        kf.MixtureTagger(n_jobs=1, tolerance=0.1, skip_edges=kf.SameWord(max_document_frequency=None)),
        kf.SkipChainCRF(n_jobs=1, tolerance=0.1),
        kf.StackedTagger(kf.LinearChainCRF(n_jobs=1, tolerance=0.1), n_jobs=1, folds=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_tagger_answers_and_keeps_documents_whole(model):
    texts = ["Kim Lee slept in Boston. Mr. Washington met Kim Lee.", "Washington left."]
    found, corpus = trained(model).entities(texts), text_corpus(model, texts)
    assert corpus.n_documents == 2 and corpus.n_sentences == 3
    flat = [(e.document, e.start_char, e.end_char, e.type, e.confidence) for one in found for e in one]
    as_corpus = model.predict_entities(corpus)
    assert flat == [(e.document, e.start_char, e.end_char, e.type, e.confidence) for e in as_corpus]


def test_what_text_does_not_have_is_refused_with_what_to_do():
    tags = [["X"] * len(sentence) for sentence in SENTENCES]
    with_pos = trained(kf.LinearChainCRF(n_jobs=1, tolerance=0.1), pos=tags)
    with pytest.raises(InputError, match=r"column 'pos', which a text does not have.*Train on words"):
        with_pos.entities("Kim left.")
    unread = trained(kf.LinearChainCRF(n_jobs=1, tolerance=0.1, templates=[word[0]]), pos=tags)
    assert [e.text for e in unread.entities("Kim Lee slept")] == ["Kim Lee"], (
        "a column that nothing reads is not missed"
    )
    stacked = kf.StackedTagger(
        kf.LinearChainCRF(templates=[word[0], pos[0]], n_jobs=1, tolerance=0.1), folds=2, n_jobs=1
    )
    with pytest.raises(InputError, match="'pos'"):
        trained(stacked, pos=tags).entities("Kim left.")
    dicts = kf.MaxEnt(n_jobs=1).fit([[{"w": "Kim"}, {"w": "left"}]], [["B-PER", "O"]])
    with pytest.raises(InputError, match="trained on feature dicts"):
        dicts.entities("Kim left.")
    parts = kf.MaxEnt(n_jobs=1).fit([["Kim", "left"]], [["NNP", "VBD"]])
    with pytest.raises(InputError, match="no entities"):
        parts.entities("Kim left.")
    for scheme in (None, "auto"):
        crf = kf.text.crfsuite.CRF(scheme=scheme).fit([[{"w": "Kim"}, {"w": "left"}]], [["B-PER", "O"]])
        with pytest.raises(InputError, match="trained on feature dicts"):
            crf.entities("Kim left.")
    as_they_are = kf.MaxEnt(n_jobs=1, scheme=None).fit([["Kim", "left"]], [["B-PER", "O"]])
    for ask in (as_they_are.entities, lambda text: as_they_are.predict_entities([text.split()])):
        with pytest.raises(InputError, match=r"\(B-PER, O\), by `scheme=None`.*scheme='auto'"):
            ask("Kim left.")
    with pytest.raises(NotFittedError):
        kf.LinearChainCRF().entities("Kim left.")


def test_what_is_no_text_is_refused(crf):
    for wrong in (b"Kim", None, 3, [["Kim", "left"]], ["Kim", None], {"text": "Kim"}, crf):
        with pytest.raises(InputError, match="expected a text, or a list of texts"):
            crf.entities(wrong)
    with pytest.raises(InputError, match="predict_entities"):
        crf.entities([["Kim", "left"]])
    with pytest.raises(SettingError, match="tokenise"):
        crf.entities("Kim", tokenise="letters")


# -- text is cut as the words of training are ---------------------------------------------------------


def cut(text: str, cutter: Cutter) -> str:
    return " ".join(Cut.of([text], cutter).words)


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (["Kim", "'s", "IL-2"], "penn"),
        (["IL", "-", "2", "3.5", "..."], "fine"),
        (["IL-2", "-", "binds"], "words"),
        (["Kim", "left"], "words"),
        ([], "words"),
    ],
)
def test_the_way_of_training_words(words, way):
    assert way_of(words) == way


def test_penn_cuts_what_is_written_to_a_word():
    text = "Kim's dogs' don't cost US$5, we'll \"see\" (they’re U.S. 's n't)."
    assert cut(text, Cutter("penn")) == (
        "Kim 's dogs ' do n't cost US$ 5 , we 'll \" see \" ( they ’re U.S. 's n't ) ."
    )


def test_full_stops_stay_with_words_that_training_has_them_with():
    known = {"Mr.", "Corp.", "No.", "No", "left"}.__contains__
    assert cut("Mr. Kim left. Acme Corp.", Cutter("words", known)) == "Mr. Kim left . Acme Corp."
    assert cut("No. 5 said No.", Cutter("words", known)) == "No. 5 said No ."
    assert cut("Mr. Kim left. Acme Corp.", Cutter("words")) == "Mr . Kim left . Acme Corp ."
    assert cut("(Corp.), yes", Cutter("words", known)) == "( Corp. ) , yes"


@pytest.mark.parametrize("way", WAYS)
@given(TEXT)
def test_a_cutter_that_knows_no_words_cuts_as_its_way(way, text):
    cutter = Cutter(way)
    for _ in range(2):  # words it has met, too
        assert [text[a:b] for a, b in cutter.spans(text, 0, len(text))] == pieces(text, token_spans(text, way))


@given(TEXT, st.sets(st.sampled_from(["a.", "B.", "aB.", "a", "'s"])))
def test_tokens_are_the_text_without_blanks_whatever_is_known(text, known):
    spans = Cut.of([text], Cutter("words", known.__contains__))
    assert "".join(spans.words) == "".join(text.split())
    assert [text[a:b] for a, b in spans.offsets] == spans.words


def test_training_words_are_known_in_lower_case_too():
    model = trained(kf.LinearChainCRF(n_jobs=1, tolerance=0.1, templates=[lower[0], lower[-1]]))
    assert model.entities("Kim Lee slept in MR. Boston.")[0].text == "Kim Lee"
    assert text_corpus(model, ["MR. Kim"]).rows() == [["MR.", "Kim"]]
    without = trained(kf.LinearChainCRF(n_jobs=1, tolerance=0.1, templates=[shape[0]]))
    assert text_corpus(without, ["Mr. Kim"]).rows() == [["Mr", ".", "Kim"]]


# -- offsets of words that were cut elsewhere ----------------------------------------------------------


def test_offsets_of_sentences_lead_entities_back_to_characters(crf):
    text = "Kim Lee slept."
    corpus = kf.Corpus.from_sentences(
        [[], ["Kim", "Lee", "slept", "."]], offsets=[[], [(0, 3), (4, 7), (8, 13), (13, 14)]]
    )
    (entity,) = crf.predict_entities(corpus)
    assert text[entity.start_char : entity.end_char] == "Kim Lee"
    assert kf.Corpus.from_sentences([[], []], offsets=[[], []]).offsets.shape == (0, 2)
    for wrong in ([[(0, 3)]], [[(0, 3), (4, 7, 8)]], [[0, 3]], 5, [[(0, 3), 4]]):
        with pytest.raises(InputError, match="offsets"):
            kf.Corpus.from_sentences([["Kim", "Lee"]], offsets=wrong)
    with pytest.raises(InputError, match="start <= end"):
        kf.Corpus.from_sentences([["Kim"]], offsets=[[(3, 0)]])
