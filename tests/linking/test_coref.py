"""Documents with mentions: the ways corpora write them, what is wrong with some, and the counts of LitBank and GUM."""

from __future__ import annotations

import gzip
import io
import logging
import tarfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.errors import InputError


def written(folder: Path, **files: str | bytes) -> Path:
    """Files by name, "__" for the dot before the suffix."""
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def spans(items: kf.Mentions) -> list[tuple[str, int, int, int]]:
    """(document, start, end, cluster) with tokens counted over the corpus."""
    return [
        (items.group_name(g), int(a), int(b), int(c))
        for g, (a, b), c in zip(items.groups.tolist(), items.spans, items.clusters.tolist(), strict=True)
    ]


def words(items: kf.Mentions) -> list[list[list[str]]]:
    column, corpus = items.corpus.columns["word"].strings(), items.corpus
    sentences = [column[a:b] for a, b in pairwise(corpus.sentence_starts)]
    return [sentences[a:b] for a, b in pairwise(corpus.document_starts)]


# CoNLL-2012: columns of blanks, parts, several documents
TWO = """\
#begin document (nw/one); part 000
nw/one   0   0   John   NNP   *   (0)
nw/one   0   1   saw    VBD   *   -
nw/one   0   2   his    PRP   *   (1|(0)
nw/one   0   3   dog    NN    *   1)

nw/one   0   0   It     PRP   *   (1)
nw/one   0   1   ran    VBD   *   -

#end document
#begin document (nw/one); part 001
nw/one   1   0   He     PRP   *   (0)

nw/one   1   0   John   NNP   *   (0)
#end document
"""


def test_conll_2012_with_blanks(tmp_path: Path):
    items = kf.read_coref(written(tmp_path, a__v4_gold_conll=TWO))
    assert items.group_names == ["nw/one", "nw/one part 001"]
    assert words(items) == [[["John", "saw", "his", "dog"], ["It", "ran"]], [["He"], ["John"]]]
    assert spans(items) == [
        ("nw/one", 0, 1, 0),
        ("nw/one", 2, 4, 1),
        ("nw/one", 2, 3, 0),
        ("nw/one", 4, 5, 1),
        ("nw/one part 001", 6, 7, 2),
        ("nw/one part 001", 7, 8, 2),
    ]
    assert items.columns["text"].strings() == ["John", "his dog", "his", "It", "He", "John"]
    assert list(items.columns) == ["text"], "neither types nor forms are told"
    assert items.names == ["0-0", "2-3", "2-2", "4-4", "0-0", "1-1"]
    assert items.n_pairs == 6 + 1 and items.pair_labels.sum() == 3


def test_a_file_by_itself_an_archive_and_gzip(tmp_path: Path):
    folder = written(tmp_path, a__conll=TWO)
    expected = spans(kf.read_coref(folder))
    assert spans(kf.read_coref(folder / "a.conll")) == expected
    (tmp_path / "b.conll.gz").write_bytes(gzip.compress(TWO.encode()))
    assert spans(kf.read_coref(tmp_path / "b.conll.gz")) == expected
    with tarfile.open(tmp_path / "c.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("deep/inside/a.conll")
        member.size = len(TWO.encode())
        archive.addfile(member, io.BytesIO(TWO.encode()))
    assert spans(kf.read_coref(tmp_path / "c.tar.gz")) == expected


def test_line_ends_and_byte_order_marks(tmp_path: Path):
    windows = b"\xef\xbb\xbf" + TWO.replace("\n", "\r\n").encode()
    assert spans(kf.read_coref(written(tmp_path, a__conll=windows))) == spans(
        kf.read_coref(written(tmp_path, a__conll=TWO))
    )


def test_files_come_in_order_of_their_names(tmp_path: Path):
    one = "#begin document (%s)\nx\t(1)\n#end document\n"
    files = {f"{name}__conll": one % name for name in ("b", "a", "c")}
    assert kf.read_coref(written(tmp_path, **files)).group_names == ["a", "b", "c"]


# LitBank: tabs, empty cells, types and forms beside it


LITBANK = "\n".join(
    [
        "#begin document (emma); part 0",
        "emma\t0\t0\tEmma\t_\t_\t_\t_\t_\t_\t_\t_\t(0)",
        "emma\t0\t1\thad\t_\t_\t_\t_\t_\t_\t_\t_\t",
        "emma\t0\t2\ta\t_\t_\t_\t_\t_\t_\t_\t_\t(1",
        "emma\t0\t3\tcomfortable\t_\t_\t_\t_\t_\t_\t_\t_\t",
        "emma\t0\t4\thome\t_\t_\t_\t_\t_\t_\t_\t_\t1)",
        "",
        "emma\t0\t0\tShe\t_\t_\t_\t_\t_\t_\t_\t_\t(0)",
        "emma\t0\t1\tsmiled\t_\t_\t_\t_\t_\t_\t_\t_\t",
        "",
        "#end document",
        "",
    ]
)
ANN = "\n".join(
    [
        "MENTION\tT1\t0\t0\t0\t0\tEmma\tPER\tPROP",
        "MENTION\tT2\t0\t2\t0\t4\ta comfortable home\tFAC\tNOM",
        "MENTION\tT3\t1\t0\t1\t0\tShe\tPER\tPRON",
        "COREF\tT1\tEmma-0",
        "APPOS\tT1\tT2",
        "",
    ]
)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_litbank(tmp_path: Path, ends: str):
    (tmp_path / "tsv").mkdir()
    written(tmp_path / "tsv", emma__ann=ANN.replace("\n", ends))
    items = kf.read_coref(written(tmp_path, emma__conll=LITBANK))
    assert items.group_names == ["emma"]
    assert words(items) == [[["Emma", "had", "a", "comfortable", "home"], ["She", "smiled"]]]
    assert items.columns["text"].strings() == ["Emma", "a comfortable home", "She"]
    assert items.columns["type"].strings() == ["PER", "FAC", "PER"]
    assert items.columns["form"].strings() == ["PROP", "NOM", "PRON"]
    assert items.clusters.tolist() == [0, 1, 0]
    assert items.corpus.columns.keys() == {"word"}


def test_mentions_that_the_notes_leave_out(tmp_path: Path):
    notes = ANN.split("\n")[0] + "\n"
    items = kf.read_coref(written(tmp_path, emma__conll=LITBANK, emma__ann=notes))
    assert items.columns["type"].strings() == ["PER", None, None]
    assert items.columns["form"].strings() == ["PROP", None, None]


# GUM: three columns, typed labels without bars, sentences and more from CoNLL-U


GUM = "\n".join(
    [
        "# begin document GUM_news_nasa",
        "0\tNASA\t(organization-1-NASA)",
        "1\tchief\t(person-10-Charles_Bolden(abstract-2)",
        "2\tresigned\tperson-10-Charles_Bolden)",
        "3\tIt\t(organization-1-NASA)",
        "4\tgoes\t_",
        "# end document",
        "",
    ]
)


def conllu(*sentences: list[tuple[str, str, str, str, str]]) -> str:
    lines = ["# newdoc id = GUM_news_nasa"]
    for sentence in sentences:
        for number, (word, upos, feats, head, deprel) in enumerate(sentence, 1):
            lines.append(f"{number}\t{word}\t{word.lower()}\t{upos}\tX\t{feats}\t{head}\t{deprel}\t_\t_")
        lines.append("")
    return "\n".join(lines)


PARSE = conllu(
    [("NASA", "PROPN", "Number=Sing", "2", "compound"), ("chief", "NOUN", "Number=Sing", "3", "nsubj"),
     ("resigned", "VERB", "_", "0", "root")],
    [("It", "PRON", "_", "2", "nsubj"), ("goes", "VERB", "_", "0", "root")],
)  # fmt: skip


def test_gum(tmp_path: Path):
    (tmp_path / "dep").mkdir()
    written(tmp_path / "dep", GUM_news_nasa__conllu=PARSE)
    items = kf.read_coref(written(tmp_path, GUM_news_nasa__conll=GUM))
    assert items.group_names == ["GUM_news_nasa"]
    assert words(items) == [[["NASA", "chief", "resigned"], ["It", "goes"]]]
    assert [span[1:] for span in spans(items)] == [(0, 1, 0), (1, 3, 1), (1, 2, 2), (3, 4, 0)]
    assert items.columns["type"].strings() == ["organization", "person", "abstract", "organization"]
    told = items.corpus.columns
    assert told["upos"].strings() == ["PROPN", "NOUN", "VERB", "PRON", "VERB"]
    assert told["head"].strings() == ["2", "3", "0", "2", "0"]
    assert told["deprel"].strings()[1] == "nsubj" and told["feats"].strings()[0] == "Number=Sing"


def test_gum_without_its_parse_is_one_sentence(tmp_path: Path):
    items = kf.read_coref(written(tmp_path, GUM_news_nasa__conll=GUM))
    assert words(items) == [[["NASA", "chief", "resigned", "It", "goes"]]]


def test_multiword_tokens_and_empty_nodes_are_no_tokens(tmp_path: Path):
    plain = "\t_" * 8
    more = PARSE.replace("1\tNASA", f"1-2\tNASAchief{plain}\n1\tNASA").replace("\n2\tgoes", f"\n1.1\tx{plain}\n2\tgoes")
    items = kf.read_coref(written(tmp_path, GUM_news_nasa__conll=GUM, GUM_news_nasa__conllu=more.rstrip("\n")))
    assert words(items) == [[["NASA", "chief", "resigned"], ["It", "goes"]]], "the last sentence needs no blank line"


def test_a_parse_for_some_documents_alone_tells_sentences(tmp_path: Path):
    """Columns are kept where all documents have them."""
    files = {"GUM_news_nasa__conll": GUM, "GUM_news_nasa__conllu": PARSE, "other__conll": TWO}
    items = kf.read_coref(written(tmp_path, **files))
    assert len(words(items)[0]) == 2 and items.corpus.columns.keys() == {"word"}


def test_two_columns(tmp_path: Path):
    items = kf.read_coref(written(tmp_path, a__key="#begin document x\nJohn (1)\nran -\n#end document\n"))
    assert items.columns["text"].strings() == ["John"] and items.group_names == ["x"]


def test_a_document_without_a_name_has_that_of_its_file(tmp_path: Path):
    items = kf.read_coref(written(tmp_path, GUM_a__conll="# begin document \n0\tx\t(person-1)\n# end document\n"))
    assert items.group_names == ["GUM_a"]


def test_labels_that_are_no_numbers(tmp_path: Path):
    text = "#begin document (a)\nx\t(e-one)\ny\t(e-one)\nz\t(T3)\n#end document\n"
    assert kf.read_coref(written(tmp_path, a__conll=text)).clusters.tolist() == [0, 0, 1]


# -- nothing there ------------------------------------------------------------------------------------


def test_documents_without_mentions_and_without_tokens(tmp_path: Path):
    text = """\
#begin document (empty)
#end document
#begin document (quiet)
x\t-

y\t-
#end document
#begin document (loud)
x\t(1)
#end document
#begin document (last)
#end document
"""
    items = kf.read_coref(written(tmp_path, a__conll=text))
    assert items.group_names == ["empty", "quiet", "loud", "last"]
    assert words(items) == [[], [["x"], ["y"]], [["x"]], []]
    assert items.groups.tolist() == [2] and items.spans.tolist() == [[2, 3]]
    assert items.take_groups([2]).group_names == ["loud"] and items.take_groups([1, 3]).n_items == 0
    none = kf.read_coref(written(tmp_path, a__conll="#begin document (empty)\n#end document\n"))
    assert none.n_items == none.n_pairs == 0 and none.spans.shape == (0, 2) and none.corpus.n_tokens == 0


def test_documents_that_are_not_ended(tmp_path: Path):
    text = "#begin document (a)\nx\t(1)\n#begin document (b)\ny\t(1)"
    items = kf.read_coref(written(tmp_path, a__conll=text))
    assert items.group_names == ["a", "b"] and items.clusters.tolist() == [0, 1]


def test_coreference_features_of_what_was_read(tmp_path: Path):
    items = kf.read_coref(written(tmp_path, a__conll=TWO))
    assert kf.CoreferencePairs().of(items)(items.left, items.right).shape[0] == items.n_pairs


# -- what is wrong ------------------------------------------------------------------------------------


def of(*lines: str) -> str:
    return "\n".join(["#begin document (a)", *lines, "#end document", ""])


WRONG = {
    "never closed": ({"a__conll": of("x\t-", "y\t(7")}, r"a\.conll.*line 3: the bracket \(7 is never closed"),
    "never opened": ({"a__conll": of("x\t-", "", "y\t7)")}, r"a\.conll.*line 4: the bracket 7\) is never opened"),
    "no bracket": ({"a__conll": of("x\t7")}, r"a\.conll.*line 2: expected brackets such as .*got '7'"),
    "outside": ({"a__conll": "\nx\t-\n" + of()}, r"a\.conll.*line 2: a token outside a document"),
    "after the end": ({"a__conll": of("x\t-") + "y\t-\n"}, r"a\.conll.*line 4: a token outside a document"),
    "one column": ({"a__conll": of("x\t-", "y")}, r"a\.conll.*line 3: expected at least a word and a coref.*'y'"),
    "not UTF-8": ({"a__conll": b"#begin document (a)\nx\t-\n\xff\t-\n"}, r"a\.conll.*line 3: not UTF-8"),
    "another parse": (
        {"a__conll": of("x\t-"), "a__conllu": PARSE},
        r"a\.conllu.*: expected the same tokens; got 5 tokens, where .*a\.conll has 1",
    ),
    "a parse not UTF-8": ({"a__conll": of("x\t-"), "a__conllu": b"# a\n1\t\xff"}, r"a\.conllu.*line 2: not UTF-8"),
    "notes not UTF-8": ({"a__conll": of("x\t-"), "a__ann": b"\xff"}, r"a\.ann.*line 1: not UTF-8"),
    "a note without numbers": (
        {"a__conll": of("x\t-"), "a__ann": "COREF\tx\nMENTION\tT1\ta\t0\t0\t0\tx\tPER\tNOM"},
        r"a\.ann.*line 2: expected MENTION, id, sentence, start.*got 'MENTION",
    ),
    "a note cut short": ({"a__conll": of("x\t-"), "a__ann": "MENTION\tT1\t0\t0"}, r"a\.ann.*line 1: expected MENTION"),
    "a note without form": (
        {"a__conll": of("x\t-"), "a__ann": "MENTION\tT1\t0\t0\t0\t0\tx\tPER"},
        r"a\.ann.*line 1: expected MENTION",
    ),
    "a note about a sentence that is not there": (
        {"a__conll": of("x\t-"), "a__ann": "MENTION\tT1\t9\t0\t9\t0\tx\tPER\tNOM"},
        r"a\.ann.*line 1: expected MENTION",
    ),
}


@pytest.mark.parametrize(("files", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_with_its_place(files: dict[str, str | bytes], message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message) as caught:
        kf.read_coref(written(tmp_path, **files))
    assert "\n" not in str(caught.value)


def test_nothing_there(tmp_path: Path):
    with pytest.raises(InputError, match=r"no coreference file here; expected names that end in \.conll"):
        kf.read_coref(written(tmp_path, a__txt="x", b__conllu="", c__ann=""))
    with pytest.raises(InputError, match="nowhere"):
        kf.read_coref(tmp_path / "nowhere.conll")


def test_unmatched_brackets_may_be_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = written(tmp_path, a__conll=of("x\t(1)|(2", "y\t(1)", "z\t3)"))
    with caplog.at_level(logging.WARNING, "kinfolk"):
        items = kf.read_coref(folder, unmatched="drop")
    assert items.columns["text"].strings() == ["x", "y"] and "2 brackets without counterpart" in caplog.text


def test_repeated_mentions_are_dropped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = written(tmp_path, a__conll=of("the\t(1|(2", "x\t2)|1)", "y\t(2)"))
    with caplog.at_level(logging.WARNING, "kinfolk"):
        items = kf.read_coref(folder)
    assert spans(items) == [("a", 0, 2, 0), ("a", 2, 3, 1)]
    assert "a.conll, line 2: 1 mentions repeat the tokens of another ('the x')" in caplog.text
    caplog.clear()
    kept = kf.read_coref(folder, duplicates="keep")
    assert [s[1:] for s in spans(kept)] == [(0, 2, 0), (0, 2, 1), (2, 3, 1)] and not caplog.text


# -- the corpora --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpora(data_folder: Path) -> Path:
    folder = data_folder / "mentions"
    if not (folder / "litbank" / "litbank.tar.gz").is_file() or not (folder / "gum" / "gum.tar.gz").is_file():
        pytest.skip(f"no LitBank and GUM in {folder}; set KINFOLK_DATA")
    return folder


def counts(items: kf.Mentions) -> dict[str, int]:
    sizes = np.bincount(items.clusters)
    return {
        "documents": len(items.group_names),
        "sentences": len(items.corpus.sentence_starts) - 1,
        "tokens": items.corpus.n_tokens,
        "mentions": items.n_items,
        "entities": len(sizes),
        "chains": int((sizes > 1).sum()),
        "pairs": items.n_pairs,
        "true pairs": items.n_true_pairs,
    }


@pytest.mark.data
def test_counts_of_litbank(corpora: Path):
    items = kf.read_coref(corpora / "litbank" / "litbank.tar.gz")
    assert counts(items) == {
        "documents": 100, "sentences": 8562, "tokens": 210_532, "mentions": 29_103, "entities": 7927, "chains": 2164,
        "pairs": 4_354_026, "true pairs": 633_660,
    }  # fmt: skip
    assert int((items.pair_labels == 1).sum()) == 633_660
    assert set(items.columns["form"].strings()) == {"PROP", "NOM", "PRON"}, "every mention has its note"
    assert None not in items.columns["type"].strings()


@pytest.mark.data
def test_counts_of_gum(corpora: Path):
    items = kf.read_coref(corpora / "gum" / "gum.tar.gz")
    assert counts(items) == {
        "documents": 281, "sentences": 15_492, "tokens": 268_089, "mentions": 75_697, "entities": 39_399,
        "chains": 10_794, "pairs": 11_059_486, "true pairs": 335_999,
    }  # fmt: skip
    assert items.corpus.columns.keys() == {"word", "upos", "feats", "head", "deprel"}
    names = items.group_names
    some = [g for g, name in enumerate(names) if name.startswith("GUM_") and not name.startswith("GUM_reddit")]
    kept = items.take_groups(some)
    assert (kept.n_groups, kept.n_items, kept.n_pairs, kept.n_true_pairs) == (237, 65_473, 9_635_560, 303_576)
    news = items.take_groups(g for g, name in enumerate(names) if name.startswith("GUM_news"))
    assert (news.n_groups, news.n_items, news.n_pairs, news.n_true_pairs) == (24, 5018, 669_646, 13_910)
