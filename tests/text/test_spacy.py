"""Documents and components of spaCy: the corpus that Docs are, and the entities that pipelines get."""

from __future__ import annotations

import importlib
import pickle
import re
import tomllib
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError, KinfolkError, ModelFileError
from kinfolk.text import schemes
from kinfolk.text.attributes import shape, word
from kinfolk.text.layer import TokenLayer

spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'kinfolk[spacy]'")

from spacy.tokens import Doc, DocBin, Span  # noqa: E402
from spacy.training import Example  # noqa: E402
from spacy.training.iob_utils import doc_to_biluo_tags  # noqa: E402

from kinfolk.text.spacy import KinfolkConsistency, KinfolkNER  # noqa: E402

NLP = spacy.blank("en")
TYPES = ["LOC", "MISC", "ORG", "PER"]


def doc_of(corpus: kf.Corpus, labelled: bool = True) -> Doc:
    """A corpus of one document as spaCy has it."""
    rows = corpus.rows()
    starts = [k == 0 for row in rows for k in range(len(row))]
    doc = Doc(NLP.vocab, [one for row in rows for one in row], sent_starts=starts)
    if labelled:
        assert corpus.labels is not None and corpus.scheme is not None
        found = schemes.spans(corpus.labels, corpus.sentence_starts, corpus.scheme)
        doc.ents = [Span(doc, one.start, one.end, one.type) for one in found]
    return doc


def found_in(doc: Doc) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label_) for span in doc.ents]


@pytest.fixture(scope="module")
def world() -> tuple[kf.Corpus, kf.Corpus]:
    train, test = (replace(one, columns={"word": one.columns["word"]}) for one in kf.newswire_split(8, 4))
    return train, test


@pytest.fixture(scope="module")
def crf(world: tuple[kf.Corpus, kf.Corpus]) -> kf.LinearChainCRF:
    return kf.LinearChainCRF(tolerance=0.1, n_jobs=1).fit(world[0])


@pytest.fixture(scope="module")
def file(crf: kf.LinearChainCRF, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "names.kinfolk"
    crf.save(path)
    return str(path)


@pytest.fixture
def unread(world: tuple[kf.Corpus, kf.Corpus]) -> list[Doc]:
    return [doc_of(one, labelled=False) for one in world[1]]


# -- Docs as a corpus ------------------------------------------------------------------------------------


@st.composite
def annotated(draw: st.DrawFn, blanks: bool) -> Doc:
    """A Doc of a few tokens, with sentences, entities, and tokens of which nothing is known."""
    words = draw(st.lists(st.sampled_from(["Kim", "left", ".", *([" ", "\n"] if blanks else [])]), max_size=8))
    starts = [k == 0 or draw(st.booleans()) for k in range(len(words))]
    doc = Doc(NLP.vocab, words, sent_starts=starts)
    spans, unknown, place = [], [], 0
    while place < len(words):
        end = place + draw(st.integers(1, 3))
        kind = draw(st.sampled_from(["PER", "LOC", "O", "?"]))
        if end <= len(words) and kind != "O":
            (unknown if kind == "?" else spans).append(Span(doc, place, end, "" if kind == "?" else kind))
        place = end
    doc.set_ents(spans, missing=unknown)
    return doc


@pytest.mark.filterwarnings("ignore:.*(within an entity|but blanks):kinfolk.errors.DataWarning")
@given(st.lists(annotated(blanks=False), max_size=3))
def test_labels_are_those_that_spacy_writes(docs: list[Doc]):
    corpus = kf.Corpus.from_docs(docs)
    words = [token.text for doc in docs for token in doc]
    assert [one for row in corpus.rows() for one in row] == words and corpus.n_documents == len(docs)
    both = ((token, tag) for doc in docs for token, tag in zip(doc, doc_to_biluo_tags(doc), strict=True))
    tags = [tag if token.ent_iob else None for token, tag in both]  # to spaCy's function O and unknown are one
    assert [tag for row in corpus.label_rows() for tag in row] == tags
    for doc, own in zip(docs, corpus, strict=True):
        starts = {token.i for token in doc if token.is_sent_start and token.ent_iob != 1}
        assert {int(k) for k in own.sentence_starts[:-1]} == starts | ({0} if len(doc) else set())
        assert own.offsets is not None
        assert [doc.text[a:b] for a, b in own.offsets.tolist()] == [token.text for token in doc]


@pytest.mark.filterwarnings("ignore:.*(within an entity|but blanks):kinfolk.errors.DataWarning")
@given(annotated(blanks=True), st.sampled_from(["BIO", "IOBES", "BILOU"]))
def test_blank_tokens_are_left_out_and_entities_are_not(doc: Doc, scheme: str):
    corpus = kf.Corpus.from_docs([doc], scheme=scheme)
    places = [token.i for token in doc if not token.is_space]
    assert [one for row in corpus.rows() for one in row] == [doc[k].text for k in places]
    wanted = {(span.label_, *(k for k in places if span.start <= k < span.end)) for span in doc.ents}
    found = set()
    if corpus.labels is not None:
        spans = schemes.spans(corpus.labels, corpus.sentence_starts, scheme)
        found = {(span.type, *(places[k] for k in range(span.start, span.end))) for span in spans}
    assert found == {one for one in wanted if len(one) > 1}


def test_a_document_without_sentences_is_one_and_is_told():
    doc = NLP("Kim left. Lee stayed.")
    with pytest.warns(
        DataWarning, match=r"1 of 2 documents has no sentence boundaries: .* one sentence; .*sentencizer"
    ):
        corpus = kf.Corpus.from_docs([doc, NLP("")])
    assert corpus.n_sentences == 1 and corpus.document_starts.tolist() == [0, 1, 1] and corpus.labels is None


def test_an_entity_across_sentences_joins_them_and_is_told():
    doc = Doc(NLP.vocab, ["St.", "Louis", "won"], sent_starts=[True, True, False])
    doc.ents = [Span(doc, 0, 2, "ORG")]
    with pytest.warns(DataWarning, match="1 border of sentences lies within an entity"):
        corpus = kf.Corpus.from_docs([doc])
    assert corpus.label_rows() == [["B-ORG", "L-ORG", "O"]]


def test_an_entity_of_blanks_alone_is_told():
    doc = Doc(NLP.vocab, ["\n", "Kim"], sent_starts=[True, False])
    doc.ents = [Span(doc, 0, 1, "ORG")]
    with pytest.warns(DataWarning, match="1 entity holds nothing but blanks"):
        assert kf.Corpus.from_docs([doc]).label_rows() == [["O"]]


def test_entities_may_be_a_group_of_spans_that_do_not_overlap():
    doc = Doc(NLP.vocab, ["Bank", "of", "England", "left"], sent_starts=[True, False, False, False])
    doc.spans["sc"] = [Span(doc, 2, 3, "LOC")]
    assert kf.Corpus.from_docs([doc], spans="sc").label_rows() == [["O", "O", "U-LOC", "O"]]
    doc.spans["sc"] = [Span(doc, 2, 3, "LOC"), Span(doc, 0, 3, "ORG")]
    with pytest.raises(InputError, match=r"document 0: spans of 'sc' overlap, 'Bank of England' \(ORG\) and 'England'"):
        kf.Corpus.from_docs([doc], spans="sc")
    with pytest.raises(InputError, match="no document has spans named 'ents'; there are 'sc'"):
        kf.Corpus.from_docs([doc], spans="ents")


def test_other_columns_are_attributes_of_tokens():
    doc = Doc(NLP.vocab, ["Kim", "left"], tags=["NNP", "VBD"], sent_starts=[True, False])
    assert kf.Corpus.from_docs([doc], columns={"pos": "TAG"}).rows("pos") == [["NNP", "VBD"]]
    with pytest.raises(InputError, match="document 0 has no LEMMA; add the component"):
        kf.Corpus.from_docs([doc], columns={"lemma": "LEMMA"})
    with pytest.raises(InputError, match=r"expected an attribute .*TAG.*; got 'IDX'"):
        kf.Corpus.from_docs([doc], columns={"place": "IDX"})


def test_what_is_no_docs_is_refused():
    for wrong, message in (
        (["Kim left"], "as number 0; got a str"),
        ("Kim left", "got a str: `nlp.pipe"),
        (DocBin(), "got a DocBin: give `docs.get_docs"),
        (3, "got a int"),
    ):
        with pytest.raises(InputError, match=message):
            kf.Corpus.from_docs(wrong)
    doc = NLP("Kim")
    assert kf.Corpus.from_docs(doc).rows() == kf.Corpus.from_docs([Example(NLP("x"), doc)]).rows() == [["Kim"]]


def test_a_corpus_of_docs_trains_the_model_that_the_corpus_does(world: tuple[kf.Corpus, kf.Corpus]):
    train, test = world
    from_docs = kf.Corpus.from_docs([doc_of(one) for one in train], scheme="BIO")
    one, other = (kf.LinearChainCRF(tolerance=0.1, n_jobs=1).fit(corpus) for corpus in (train, from_docs))
    assert from_docs.rows() == train.rows() and one.predict(test) == other.predict(test)


# -- a tagger in a pipeline ----------------------------------------------------------------------------------


def test_spacy_finds_the_components_that_the_package_names():
    named = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    entries = named["project"]["entry-points"]["spacy_factories"]
    assert {one.name: one.value for one in entry_points(group="spacy_factories")}.items() >= entries.items()
    for name, place in entries.items():
        module, _, attribute = place.partition(":")
        assert getattr(importlib.import_module(module), attribute) is not None and spacy.blank("de").has_factory(name)


def test_a_model_file_in_a_pipeline_finds_what_the_model_finds(
    world: tuple[kf.Corpus, kf.Corpus], crf: kf.LinearChainCRF, file: str, unread: list[Doc]
):
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("kinfolk_ner", config={"model": file})
    assert nlp.pipe_labels["kinfolk_ner"] == TYPES == list(pipe.labels)
    for doc, one in zip(nlp.pipe(unread, batch_size=3), world[1], strict=True):
        wanted = crf.predict_entities(one)
        starts = one.sentence_starts[[entity.sentence for entity in wanted]].tolist()
        assert found_in(doc) == [(a + e.start, a + e.end, e.type) for a, e in zip(starts, wanted, strict=True)]
        sure = [span._.probability for span in doc.ents]
        assert np.allclose(sure, [entity.confidence for entity in wanted]) and wanted
    alone = [pipe(doc_of(one, labelled=False)) for one in world[1]]
    assert [*map(found_in, alone)] == [*map(found_in, unread)]
    scores = nlp.evaluate([Example(doc_of(one, labelled=False), doc_of(one)) for one in world[1]])
    assert scores["ents_f"] == pytest.approx(crf.score(world[1]))


def test_text_with_blanks_gets_entities_over_them(file: str):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("kinfolk_ner", config={"model": file})
    doc = nlp("President Bill  Washington\n left Boston .")
    assert [span.text for span in doc.ents if "Washington" in span.text] == ["Bill  Washington"]
    for text in ("", " \n ", "."):
        assert nlp(text).text == text


def test_sentences_that_lack_are_told_once(file: str):
    nlp = spacy.blank("en")
    nlp.add_pipe("kinfolk_ner", config={"model": file})
    with pytest.warns(DataWarning, match=r"kinfolk_ner: 1 of 1 documents has no sentence .*sentencizer"):
        nlp("Kim left Boston.")
    nlp("Kim left Boston.")  # warnings are errors here


@pytest.mark.parametrize("scheme", ["BIO", "BILOU"])
def test_entities_that_are_there_are_kept(world: tuple[kf.Corpus, kf.Corpus], scheme: str):
    model = kf.LinearChainCRF(tolerance=0.1, n_jobs=1, encoding=scheme).fit(world[0])
    pipe = KinfolkNER()
    pipe.model = model
    gold = doc_of(world[1][0])
    other = {"PER": "ORG", "LOC": "DATE"}  # a type that the model takes for another, one that it does not have
    mine = [(a, b, other[kind]) for a, b, kind in found_in(gold) if kind in other][:8]
    assert {kind for *_, kind in mine} == {"ORG", "DATE"}
    doc = doc_of(world[1][0], labelled=False)
    doc.set_ents([Span(doc, *one) for one in mine], default="missing")
    pipe(doc)
    assert {*mine} < {*found_in(doc)}
    told = {(span.start, span.end, span.label_): span._.probability for span in doc.ents}
    assert all((told[one] is None) == (one in mine) for one in told)
    alone, plain = doc.copy(), doc_of(world[1][1], labelled=False)
    together = [doc_of(world[1][0], labelled=False), plain.copy()]
    together[0].set_ents([Span(together[0], *one) for one in mine], default="missing")
    assert [found_in(one) for one in pipe.pipe(together)] == [found_in(alone), found_in(pipe(plain))]
    pipe.overwrite_ents = True
    assert found_in(pipe(doc)) == found_in(pipe(doc_of(world[1][0], labelled=False)))


def test_what_is_known_speaks_for_the_rest(crf: kf.LinearChainCRF):
    """Labels before and behind a kept entity are those that are likeliest given it, as `forced` gives them."""
    pipe = KinfolkNER()
    pipe.model = crf
    words = ["Bill", "Washington", "left", "Boston"]
    doc = Doc(NLP.vocab, words, sent_starts=[True, False, False, False])
    doc.set_ents([Span(doc, 0, 1, "LOC")], default="missing")
    known = kf.Corpus.from_sentences([words], [["B-LOC", None, None, None]], scheme="BIO")
    wanted = [(one.start, one.end, one.type) for one in crf.predict_entities(known, forced=True)]
    assert {*found_in(pipe(doc))} == {(0, 1, "LOC")} | {one for one in wanted if one[0] > 0}
    doc = Doc(NLP.vocab, words, sent_starts=[True, False, False, False])
    doc.set_ents([], blocked=[doc[0:4]])
    assert found_in(pipe(doc)) == []


def test_a_pipeline_is_kept_on_disk_and_in_bytes_without_its_file(file: str, unread: list[Doc], tmp_path: Path):
    copy = tmp_path / "names.kinfolk"
    copy.write_bytes(Path(file).read_bytes())
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("kinfolk_ner", config={"model": str(copy), "overwrite_ents": True})
    wanted = [found_in(doc) for doc in nlp.pipe(doc.copy() for doc in unread)]
    nlp.to_disk(tmp_path / "pipeline")
    data = nlp.to_bytes()
    assert nlp.get_pipe("kinfolk_ner").to_bytes() == copy.read_bytes()
    copy.unlink()
    again = spacy.load(tmp_path / "pipeline")
    assert again.get_pipe("kinfolk_ner").overwrite_ents and again.pipe_labels["kinfolk_ner"] == TYPES
    assert [found_in(doc) for doc in again.pipe(doc.copy() for doc in unread)] == wanted
    other = spacy.blank("en")
    other.add_pipe("sentencizer")
    other.add_pipe("kinfolk_ner")
    other.from_bytes(data)
    assert [found_in(doc) for doc in other.pipe(doc.copy() for doc in unread)] == wanted
    sent = pickle.loads(pickle.dumps(again.get_pipe("kinfolk_ner")))  # as for the processes of nlp.pipe(n_process=2)
    assert [found_in(doc) for doc in sent.pipe(doc.copy() for doc in unread)] == wanted
    assert sent.overwrite_ents and sent.model.n_jobs == 1


def test_a_file_that_is_not_there_is_said_when_it_is_needed(tmp_path: Path):
    nlp = spacy.blank("en")
    nlp.add_pipe("kinfolk_ner", config={"model": str(tmp_path / "none.kinfolk")})
    with pytest.raises(ModelFileError, match=r"none\.kinfolk: no such file"):
        nlp("Kim left")
    nlp = spacy.blank("en")
    nlp.add_pipe("kinfolk_ner")
    with pytest.raises(InputError, match=r'kinfolk_ner has no model: `config=\{"model": "names.kinfolk"\}`'):
        nlp("Kim left")
    assert spacy.blank("en").from_bytes(nlp.to_bytes(), exclude=["kinfolk_ner"]) is not None


def test_only_models_of_entities_are_taken(crf: kf.LinearChainCRF, tmp_path: Path):
    pipe, sentences = KinfolkNER(), [["Kim", "left"]]
    quick: dict[str, Any] = {"tolerance": 0.1, "n_jobs": 1}
    speech = kf.LinearChainCRF(**quick).fit(sentences, [["NNP", "VBD"]])
    untyped = kf.LinearChainCRF(**quick).fit(sentences, [["B", "O"]])
    dicts = kf.LinearChainCRF(**quick).fit([[{"w": "Kim"}, {"w": "left"}]], [["B-PER", "O"]])
    tagged = kf.Corpus.from_sentences(sentences, [["B-PER", "O"]], pos=[["NNP", "VBD"]])
    with_pos = kf.LinearChainCRF(**quick).fit(tagged)
    for model, message in (
        (speech, "no entities"),
        (untyped, "have no type"),
        (dicts, "feature dicts"),
        (with_pos, r"no column 'pos'.*config=\{\"columns\": \{\"pos\": \"TAG\"\}\}"),
        (kf.LinearChainCRF(), "not fitted|fit"),
        ("names.kinfolk", "expected a tagger of kinfolk; got a str"),
    ):
        with pytest.raises(KinfolkError, match=message):
            pipe.model = model
    pos = KinfolkNER(columns={"pos": "TAG"})
    pos.model = with_pos
    doc = Doc(NLP.vocab, ["Kim", "left"], tags=["NNP", "VBD"], sent_starts=[True, False])
    assert found_in(pos(doc)) == [(0, 1, "PER")]
    with pytest.raises(InputError, match="document 0 has no TAG"):
        pos(NLP("Kim left"))


def test_a_component_is_trained_on_docs_and_on_examples(world: tuple[kf.Corpus, kf.Corpus]):
    docs = [doc_of(one) for one in world[0]]
    quick = kf.LinearChainCRF(tolerance=0.1, n_jobs=1)
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("kinfolk_ner")
    assert pipe.fit(docs, quick) is pipe and pipe.model is quick and pipe.labels == tuple(TYPES)
    config = {"tagger": "LinearChainCRF", "settings": {"tolerance": 0.1, "n_jobs": 1}}
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("kinfolk_ner")
    nlp.config["initialize"]["components"]["kinfolk_ner"] = config
    nlp.initialize(lambda: [Example(NLP.make_doc(doc.text), doc) for doc in docs])
    test = [doc_of(one, labelled=False) for one in world[1]]
    corpus = kf.Corpus.from_docs(test)
    assert pipe.model.predict(corpus) == quick.predict(corpus)
    trained = pipe.model
    nlp.initialize(lambda: [Example(NLP.make_doc("x"), NLP.make_doc("x"))])
    assert pipe.model is trained, "one that has a model keeps it"
    with pytest.raises(InputError, match="no document says what its entities are"):
        KinfolkNER().fit([doc_of(one, labelled=False) for one in world[0]])
    with pytest.raises(KinfolkError, match="the name of a tagger of kinfolk"):
        KinfolkNER().initialize(lambda: [], tagger="Linker")


def test_a_document_at_fault_does_not_take_others_with_it(crf: kf.LinearChainCRF):
    pipe = KinfolkNER(columns={"pos": "TAG"})
    pipe.model = crf
    good = Doc(NLP.vocab, ["Kim", "left"], tags=["NNP", "VBD"], sent_starts=[True, False])
    seen: list[Any] = []
    pipe.set_error_handler(lambda name, component, docs, error: seen.append((name, docs, str(error))))
    wrong = NLP("Kim left")
    assert list(pipe.pipe([good, wrong, NLP("")])) != [] and [one[1] for one in seen] == [[wrong]]
    assert "has no TAG" in seen[0][2]


# -- a layer in a pipeline -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weak(world: tuple[kf.Corpus, kf.Corpus]) -> KinfolkNER:
    """Stands for a component of spaCy: what it says comes without probabilities."""
    pipe = KinfolkNER(probability=None)
    pipe.model = kf.LinearChainCRF(templates=[word[0], shape[0]], tolerance=0.1, n_jobs=1).fit(world[0].documents(0, 2))
    return pipe


@pytest.fixture(scope="module")
def examples(world: tuple[kf.Corpus, kf.Corpus], weak: KinfolkNER) -> list[Example]:
    return [Example(weak(doc_of(one, labelled=False)), doc_of(one)) for one in world[0].documents(2, 8)]


@pytest.fixture(scope="module")
def consistent(examples: list[Example]) -> KinfolkConsistency:
    return KinfolkConsistency().fit(examples, TokenLayer(features=False, folds=2, n_jobs=1))


def smoothed(doc: Doc, classes: tuple[str, ...], smoothing: float = 0.1) -> np.ndarray:
    tags = doc_to_biluo_tags(doc)
    return np.array(
        [[1 - smoothing if name == tag else smoothing / (len(classes) - 1) for name in classes] for tag in tags]
    )


def test_a_layer_sees_hard_labels_smoothed(
    world: tuple[kf.Corpus, kf.Corpus], weak: KinfolkNER, examples: list[Example], consistent: KinfolkConsistency
):
    train = kf.Corpus.from_docs([one.reference for one in examples])
    classes = ("O", *(f"{letter}-{name}" for name in TYPES for letter in "BILU"))
    table = np.concatenate([smoothed(one.predicted, classes) for one in examples])
    layer = TokenLayer(features=False, folds=2, n_jobs=1).fit(train, table, classes=classes)
    docs = [weak(doc_of(one, labelled=False)) for one in world[1]]
    given = np.concatenate([smoothed(doc, classes) for doc in docs])
    corpus = kf.Corpus.from_docs(docs).with_labels(None, None)
    wanted = layer.predict_entities(corpus, given)
    got = [span for doc in consistent.pipe(docs) for span in doc.ents]
    assert [(span.text, span.label_) for span in got] == [(one.text, one.type) for one in wanted] and wanted
    assert np.allclose([span._.probability for span in got], [one.confidence for one in wanted])


def test_types_that_the_layer_does_not_know_stay(consistent: KinfolkConsistency):
    doc = Doc(NLP.vocab, ["Kim", "left", "on", "Monday"], sent_starts=[True, False, False, False])
    doc.ents = [Span(doc, 3, 4, "DATE", kb_id="Q105")]
    with pytest.warns(DataWarning, match="the layer knows no entities of type DATE; they stay as they are"):
        consistent(doc)
    assert (3, 4, "DATE") in found_in(doc) and doc.ents[-1].kb_id_ == "Q105"
    for text in ("", " "):
        assert found_in(consistent(NLP(text))) == [] or text


def test_a_layer_in_front_of_everything_is_told(consistent: KinfolkConsistency, file: str):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    pipe = nlp.add_pipe("kinfolk_consistency")
    pipe.model = consistent.model
    with pytest.warns(DataWarning, match="no component before has set the entities of 1 of 1 documents"):
        nlp("Kim left Boston.")


def test_a_layer_is_kept_with_its_pipeline(
    consistent: KinfolkConsistency, weak: KinfolkNER, unread: list[Doc], tmp_path: Path
):
    nlp = spacy.blank("en")
    nlp.add_pipe("kinfolk_ner").model = weak.model
    nlp.add_pipe("kinfolk_consistency", config={"smoothing": 0.1}).model = consistent.model
    nlp.to_disk(tmp_path / "both")
    wanted = [found_in(doc) for doc in nlp.pipe(doc.copy() for doc in unread)]
    assert [found_in(doc) for doc in spacy.load(tmp_path / "both").pipe(unread)] == wanted and any(wanted)


def test_tokens_of_the_truth_may_be_cut_otherwise(examples: list[Example], consistent: KinfolkConsistency):
    cut = []
    for one in examples:
        whole = [token.text for token in one.reference]
        parts = Doc(NLP.vocab, [*whole[:-1], *whole[-1]], [True] * (len(whole) - 1) + [False] * len(whole[-1]))
        parts.ents = [Span(parts, *span) for span in found_in(one.reference) if span[1] < len(whole)]
        cut.append(Example(one.predicted, parts))
    assert any(len(one.predicted) != len(one.reference) for one in cut) or all(len(d.reference[-1]) == 1 for d in cut)
    again = KinfolkConsistency().fit(cut, TokenLayer(features=False, folds=2, n_jobs=1))
    assert again.labels == consistent.labels


def test_probabilities_of_a_component_are_taken_where_it_gives_them(
    world: tuple[kf.Corpus, kf.Corpus], weak: KinfolkNER, examples: list[Example]
):
    classes = [str(name) for name in weak.model.classes_]
    config = {"probabilities": "token_probabilities", "classes": classes}
    pipe = spacy.blank("en").add_pipe("kinfolk_consistency", config=config)

    def given(doc: Doc) -> Doc:
        table = np.concatenate(weak.model.predict_proba(kf.Corpus.from_docs([doc]).with_labels(None, None)))
        doc.user_data["token_probabilities"] = table
        return doc

    pairs = [Example(given(one.predicted), one.reference) for one in examples]
    pipe.fit(pairs, TokenLayer(features=False, folds=2, n_jobs=1))
    doc = pipe(given(doc_of(world[1][0], labelled=False)))
    corpus = kf.Corpus.from_docs([doc]).with_labels(None, None)
    wanted = pipe.model.predict_entities(corpus, weak.model.predict_proba(corpus))
    assert [span.text for span in doc.ents] == [one.text for one in wanted] and wanted
    with pytest.raises(InputError, match=r"document 0: doc.user_data\['token_probabilities'\] must be .*\(2, 9\)"):
        pipe(Doc(NLP.vocab, ["Kim", "left"], sent_starts=[True, False]))


def test_what_a_layer_cannot_be_trained_on(crf: kf.LinearChainCRF, world: tuple[kf.Corpus, kf.Corpus]):
    pipe, gold = KinfolkConsistency(), doc_of(world[1][0])
    with pytest.raises(InputError, match="expected a TokenLayer; got a LinearChainCRF, which kinfolk_ner may take"):
        pipe.model = crf
    with pytest.raises(InputError, match=r"expected Examples, .* got a Doc"):
        pipe.fit([gold])
    bare = doc_of(world[1][0], labelled=False)
    with pytest.raises(InputError, match="nothing was predicted for the examples"):
        pipe.fit([Example(bare, gold)])
    with pytest.raises(InputError, match="no reference says what its entities are"):
        pipe.fit([Example(gold, bare)])
    for wrong in ({"smoothing": 0.0}, {"smoothing": 0.7}, {"classes": ["O"]}):
        with pytest.raises(KinfolkError, match=r"smoothing|go together"):
            KinfolkConsistency(**wrong)


# -- the guide -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*right of .* of the labels:kinfolk.errors.DataWarning")
def test_code_of_the_guide_runs(
    world: tuple[kf.Corpus, kf.Corpus],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """That which needs spaCy: other tests of the guides do without."""
    monkeypatch.chdir(tmp_path)
    for name, part in zip(("train", "dev"), world, strict=True):
        DocBin(docs=[doc_of(one) for one in part[:4]]).to_disk(f"{name}.spacy")
    page = (Path(__file__).parents[2] / "docs" / "from_spacy.md").read_text("utf-8")
    blocks = [
        one for one in re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "load_dataset" not in one
    ]
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 4 and "Washington" in capsys.readouterr().out
    assert (tmp_path / "consistent" / "kinfolk_consistency" / "model.kinfolk").is_file()
