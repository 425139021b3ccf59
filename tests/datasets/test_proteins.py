"""Protein names of GENIA, AIMed and Yapex: small files of every kind, and the counts of the real ones."""

from __future__ import annotations

import gzip
import io
import logging
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kinfolk import Corpus, read_aimed, read_genia, read_yapex
from kinfolk.errors import InputError, SettingError
from kinfolk.text import schemes
from kinfolk.text.tokenise import sentence_spans

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\r\n<!DOCTYPE set SYSTEM "gpml.dtd">\r\n'
COORDINATED = (
    '<cons lex="(AND alpha_subunit beta_subunit)" sem="(AND G#protein_subunit G#protein_subunit)"><cons lex="alpha*">'
    '<cons lex="alpha" sem="G#protein_molecule">alpha</cons></cons> and <cons lex="beta*">beta</cons> '
    '<cons lex="*subunit">subunits</cons></cons>'
)
GENIA = f"""{HEAD}<set>
<import resource="GENIAontology.daml" prefix="G"></import>
<article><articleinfo><bibliomisc>MEDLINE:1</bibliomisc></articleinfo>
<title><sentence><cons lex="IL-2_gene" sem="G#DNA_N/A"><cons lex="IL-2" sem="G#protein_molecule">IL-2</cons>
gene</cons> &lt; <cons sem="G#protein_complex"><cons sem="G#protein_N/A">β1</cons> dimer</cons>.</sentence></title>
<abstract>
<sentence>The {COORDINATED}.</sentence><sentence> </sentence>
<sentence><cons sem="G#protein_N/A">p50</cons>/<cons lex="p65" sem="G#protein_molecule">p65</cons></sentence>
</abstract></article>
<article><title><sentence>None here.</sentence></title><abstract/></article>
</set>""".replace("\n", "\r\n")

AIMED = """<?xml version="1.0" encoding="UTF-8"?>\r<corpus source="AIMed">\r<document id="d0">\r
<sentence charOffset="0-15" id="s0" text="A &lt; TGF-β1 &amp; B.">
<entity charOffset="4-10" text="TGF-β1" type="protein" /><entity charOffset="4-7" text="TGF" type="protein" />
<interaction e1="e0" e2="e1" /></sentence>
<sentence charOffset="16-16" id="s1" text=""></sentence>
<sentence charOffset="17-23" id="s2" text="p53/p21"><entity charOffset="0-3" text="p53" type="protein" />
<entity charOffset="4-7" type="protein" /></sentence>
</document><document id="d1"></document></corpus>"""

YAPEX = """<PubmedArticle>
<MedlineID>2</MedlineID><PMID>1</PMID>
<ArticleTitle>Role of <Protname>importin beta1</Protname></ArticleTitle>
<AbstractText>It binds <Protname>Ran</Protname>GTP. <Protname>Ran</Protname> &gt; all.</AbstractText>
</PubmedArticle>"""


def written(folder: Path, text: str, name: str = "a.xml") -> Path:
    (folder / name).write_bytes(text.encode())
    return folder / name


def names(corpus: Corpus, text: str) -> list[str]:
    """The entities of a corpus of one document, cut from its text by their offsets."""
    assert corpus.labels is not None and corpus.offsets is not None
    assert [text[a:b] for a, b in corpus.offsets.tolist()] == corpus.columns["word"].strings()
    found = schemes.spans(corpus.labels, corpus.sentence_starts, "BIO")
    return [text[corpus.offsets[s.start, 0] : corpus.offsets[s.end - 1, 1]] for s in found]


GENIA_TEXT = "IL-2\ngene < β1 dimer.\nThe alpha and beta subunits.\n \np50/p65"


def test_genia_by_hand(tmp_path: Path):
    corpus = read_genia(written(tmp_path, GENIA))
    assert corpus.document_starts.tolist() == [0, 3, 4] and corpus.scheme == "BIO"
    assert corpus.rows()[0] == ["IL", "-", "2", "gene", "<", "β1", "dimer", "."]
    assert names(corpus.documents(0, 1), GENIA_TEXT) == ["IL-2", "β1 dimer", "alpha", "p50", "p65"]
    assert names(corpus.documents(1, 2), "None here.") == []
    assert set(corpus.labels.values) == {"O", "B-protein", "I-protein"}


def test_genia_terms_that_share_words_may_be_labelled_as_one(tmp_path: Path):
    corpus = read_genia(written(tmp_path, GENIA), coordinated=True).documents(0, 1)
    assert names(corpus, GENIA_TEXT) == ["IL-2", "β1 dimer", "alpha and beta subunits", "p50", "p65"]
    mixed = GENIA.replace("(AND G#protein_subunit G#protein_subunit)", "(AND G#protein_subunit (OR G#DNA_N/A G#lipid))")
    corpus = read_genia(written(tmp_path, mixed), ["protein", "DNA"], coordinated=True).documents(0, 1)
    assert names(corpus, GENIA_TEXT) == ["IL-2\ngene", "β1 dimer", "alpha", "p50", "p65"]


def test_genia_types_are_beginnings_of_classes(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = written(tmp_path, GENIA)
    corpus = read_genia(path, ["DNA", "protein", "protein_complex"]).documents(0, 1)
    assert names(corpus, GENIA_TEXT)[:2] == ["IL-2\ngene", "β1 dimer"]
    labels = [label for row in corpus.label_rows() for label in row if label.startswith("B")]
    assert labels == ["B-DNA", "B-protein_complex", "B-protein", "B-protein", "B-protein"]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "kinfolk"):
        read_genia(path, ["prot"])
    assert caplog.messages == [f"{path}: no term of the type 'prot' is labelled"]
    for types in ("protein", []):
        with pytest.raises(SettingError, match="types must be a list of classes"):
            read_genia(path, types)


def test_genia_wherever_it_lies(tmp_path: Path):
    (tmp_path / "GENIA_term_3.02").mkdir()
    places = [written(tmp_path / "GENIA_term_3.02", GENIA), tmp_path / "GENIA_term_3.02", tmp_path / "g.gz"]
    places[2].write_bytes(gzip.compress(GENIA.encode()))
    with tarfile.open(tmp_path / "g.tgz", "w:gz") as archive:
        archive.add(tmp_path / "GENIA_term_3.02", "GENIA_term_3.02")
        archive.addfile(tarfile.TarInfo("GENIA_term_3.02/gpml.dtd"), io.BytesIO())
    expected = read_genia(places[0])
    for place in [*places, tmp_path / "g.tgz"]:
        corpus = read_genia(str(place))
        assert corpus.rows() == expected.rows() and corpus.label_rows() == expected.label_rows()
        assert corpus.source == str(place)


def test_aimed_by_hand(tmp_path: Path):
    path = written(tmp_path, AIMED)
    corpus = read_aimed(path)
    assert corpus.document_starts.tolist() == [0, 2, 2]
    assert names(corpus, "A < TGF-β1 & B.  p53/p21") == ["TGF-β1", "p53", "p21"]
    twice = read_aimed([path, str(path)])
    assert twice.rows() == corpus.rows() * 2 and twice.source == f"{path}, {path}"


def test_yapex_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    text = "Role of importin beta1\nIt binds RanGTP. Ran > all."
    for name, content in {"10.txt": YAPEX, "9.txt": f"<Set>{YAPEX}{YAPEX}</Set>", "README.txt": "no XML"}.items():
        written(tmp_path, content, name)
    with caplog.at_level(logging.WARNING, "kinfolk"):
        corpus = read_yapex(tmp_path / "10.txt")
    assert caplog.messages == [f"{tmp_path / '10.txt'}: 3 of 3 names are labelled (1 widened)"]
    assert names(corpus, text) == ["importin beta1", "RanGTP", "Ran"]
    assert corpus.n_sentences == 3, "the title has no stop, yet ends"
    assert read_yapex(tmp_path).n_documents == 3


BROKEN: dict[str, tuple[Any, str, str]] = {
    "GENIA cut short": (read_genia, GENIA[:-20], r"a.xml, line \d+: broken XML"),
    "GENIA without a sentence": (
        read_genia,
        "<set><article><title>\nKim</title></article></set>",
        "line 1: expected all text in <sentence>; got 'Kim' outside",
    ),
    "GENIA with another file's content": (read_genia, AIMED, "no abstracts: expected <article> of <sentence>"),
    "laughs": (read_genia, '<!DOCTYPE set [\n<!ENTITY a "b">]><set/>', "line 2: declares the entity 'a'"),
    "AIMed beyond the text": (
        read_aimed,
        AIMED.replace('"4-7" type', '"4-8" type'),
        "line 9: expected 0 <= start < end <= 7; got 4 to 8",
    ),
    "AIMed with inclusive ends": (
        read_aimed,
        AIMED.replace('"0-3"', '"0-2"'),
        "line 8: characters 0 to 2 are 'p5', but the file says 'p53'",
    ),
    "AIMed in pieces": (read_aimed, AIMED.replace('"0-3"', '"0-1,2-3"'), "got '0-1,2-3'"),
    "AIMed with a very long number": (read_aimed, AIMED.replace('"0-3"', f'"0-{"3" * 5000}"'), "two whole numbers"),
    "AIMed without an offset": (read_aimed, AIMED.replace('charOffset="0-3"', ""), "needs the attribute 'charOffset'"),
    "AIMed without a text": (
        read_aimed,
        '<c><document><sentence id="s"/></document></c>',
        "attribute 'text'; it has id",
    ),
    "Yapex of another file": (read_yapex, "<a/>", "no abstracts: expected <PubmedArticle>"),
    "Yapex with tags that cross": (read_yapex, YAPEX.replace("</Protname>", "", 1), "mismatched tag"),
}


@pytest.mark.parametrize(("read", "text", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_files_that_cannot_be_used(read: Any, text: str, message: str, tmp_path: Path):
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("read", [read_genia, read_aimed, read_yapex])
def test_files_that_are_not_there(read: Any, tmp_path: Path):
    with pytest.raises(InputError, match=r"nowhere.xml: no such file"):
        read(tmp_path / "nowhere.xml")
    with pytest.raises(InputError, match="no abstracts"):
        read(tmp_path)  # an empty folder


def test_marks_in_odd_places_are_no_crash(tmp_path: Path):
    article = '<article><cons sem="G#protein_x"><sentence>a</sentence></cons></article>'
    odd = f'<cons sem="G#protein_x"><set>{article}</set></cons>'
    assert read_genia(written(tmp_path, odd)).label_rows() == [["B-protein"]]


# -- the real files -------------------------------------------------------------------------------------


def real(data_folder: Path, *parts: str) -> Path:
    path = data_folder.joinpath("tokens", *parts)
    if not path.exists():
        pytest.skip(f"no data at {path}; set KINFOLK_DATA")
    return path


def entities(corpus: Corpus) -> int:
    assert corpus.labels is not None
    return len(schemes.spans(corpus.labels, corpus.sentence_starts, "BIO"))


@pytest.mark.data
def test_genia_has_its_counts(data_folder: Path, caplog: pytest.LogCaptureFixture):
    """Of 34264 protein terms 32236 lie in no other. Seven of these share a token with a longer neighbour, written
    without a blank: p70|I kappa B gamma (4), NF-Y|A subunit (2), deltaNFkappaB|deltaSpl234. Each neighbour is widened
    (7), as are four more: proteins|may, 2x|NFKappaB, Ran|GTP (2)."""
    path = real(data_folder, "genia", "GENIAcorpus3.02.tgz")
    with caplog.at_level(logging.WARNING, "kinfolk"):
        corpus = read_genia(path)
    assert caplog.messages == [f"{path}: 32229 of 34264 names are labelled (2028 nested, 7 overlapping, 11 widened)"]
    assert 34264 - 2028 == 32236 and entities(corpus) == 32236 - 7
    assert (corpus.n_documents, corpus.n_sentences, corpus.n_tokens) == (2000, 18546, 558647)


@pytest.mark.data
def test_sentences_found_are_mostly_genias(data_folder: Path):
    """What it misses ends in a bracket or a letter (NF-kappa B.), or is followed by a small one (p53 ...)."""
    corpus = read_genia(real(data_folder, "genia", "GENIAcorpus3.02.tgz"))
    right = found = 0
    for d in range(corpus.n_documents):
        document = corpus.documents(d, d + 1)
        text = [" "] * int(document.offsets[-1, 1])
        for (start, end), word in zip(document.offsets.tolist(), document.columns["word"].strings(), strict=True):
            text[start:end] = word
        given = document.offsets[document.sentence_starts[:-1], 0].tolist()
        starts = sentence_spans("".join(text))[:, 0].tolist()
        right, found = right + len(set(given) & set(starts)), found + len(starts)
    assert right / found > 0.99 and right / corpus.n_sentences > 0.98


@pytest.mark.data
def test_aimed_has_its_counts(data_folder: Path, caplog: pytest.LogCaptureFixture):
    """Of 4202 names the 157 inside others are lost. Eight are widened, mostly slips of the marking: X protei|n."""
    paths = [real(data_folder, "aimed_ppi", f"AIMed-{part}.xml") for part in ("train", "test")]
    with caplog.at_level(logging.WARNING, "kinfolk"):
        corpus = read_aimed(paths)
    assert caplog.messages[0].endswith("4045 of 4202 names are labelled (157 nested, 8 widened)")
    assert (corpus.n_documents, corpus.n_sentences, entities(corpus)) == (224, 1943, 4202 - 157)
    assert [(c.n_documents, c.n_sentences) for c in map(read_aimed, paths)] == [(180, 1554), (44, 389)]


@pytest.mark.data
def test_yapex_has_its_counts(data_folder: Path):
    """All 153 names are kept; Ran|GTP is widened."""
    corpus = read_yapex(real(data_folder, "yapex_sample7"))
    assert (corpus.n_documents, entities(corpus)) == (7, 153)
