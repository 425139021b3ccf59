"""Labels that are seldom what was meant are told of, once, and no others."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import kinfolk as kf
from kinfolk.cli.main import app
from kinfolk.errors import DataWarning
from kinfolk.text.doubtful_labels import look_like_spans

WORDS = [["Anna", "kauft", "Grüne", "Erde"], ["Bosch", "liefert"]] * 6
MAKES: dict[str, Any] = {
    "LinearChainCRF": lambda: kf.LinearChainCRF(n_jobs=1),
    "MaxEnt": lambda: kf.MaxEnt(n_jobs=1, calibrate=True),
    "MixtureTagger": lambda: kf.MixtureTagger(n_jobs=1, guard=2),
    "StackedTagger": lambda: kf.StackedTagger(kf.MaxEnt(n_jobs=1), folds=2, n_jobs=1),
    "CRF": lambda: kf.text.crfsuite.CRF(max_iterations=5),
}


def corpus(tags: list[list[str]]) -> kf.Corpus:
    return kf.Corpus.from_sentences(WORDS, tags, documents=[2] * 6)


def told(make: Any, tags: list[list[str]]) -> list[str]:
    features: Any = [[{"w": word} for word in sentence] for sentence in WORDS]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = make()
        _ = model.fit(features, tags) if type(model).__name__ == "CRF" else model.fit(corpus(tags))
    return [str(one.message) for one in seen if "label" in str(one.message) and one.category is DataWarning]


@pytest.mark.parametrize("name", MAKES)
def test_labels_that_look_like_spans_are_told_once(name: str):
    found = told(MAKES[name], [["b-brand", "o", "b-brand", "i-brand"], ["b-brand", "o"]] * 6)
    assert len(found) == 1 and found[0].startswith("labels look like spans but are none of IOB1, BIO, IOBES, BILOU")
    assert found[0].endswith("Rename them: 'b-brand' as 'B-brand', 'i-brand' as 'I-brand', 'o' as 'O'")


@pytest.mark.parametrize("name", MAKES)
def test_a_single_label_is_told_once(name: str):
    found = told(MAKES[name], [["O"] * 4, ["O"] * 2] * 6)
    assert len(found) == 1 and found[0].startswith("all tokens have the label 'O': is it the right column?")


@pytest.mark.parametrize(
    ("labels", "tags"),
    [
        (["BRAND-B", "BRAND-I", "O"], {"BRAND-B": "B-BRAND", "BRAND-I": "I-BRAND", "O": "O"}),
        (["B_PER", "I_PER", "O"], {"B_PER": "B-PER", "I_PER": "I-PER", "O": "O"}),
        (["B-PER", "I-PER", "o"], {"B-PER": "B-PER", "I-PER": "I-PER", "o": "O"}),
        (["b-x", "o"], {"b-x": "B-x", "o": "O"}),
        (["b-x", "i-x"], {"b-x": "B-x", "i-x": "I-x"}),
    ],
)
def test_what_looks_like_spans(labels: list[str], tags: dict[str, str]):
    assert look_like_spans(labels) == tags


@pytest.mark.parametrize(
    "labels",
    [
        ["B-PER", "I-PER", "O"],  # meant as they are, by scheme=None
        ["B2B-x", "B2C-x", "o"],
        ["NN", "VBD", "-LRB-", "PRP$", "$(", "X", "."],
        ["in-law", "on-line", "O"],
        ["e-mail", "u-bahn", "s-bahn"],
        ["u-bahn", "s-bahn", "o"],
        ["i-phone", "e-mail", "o"],
        ["vitamin-B", "vitamin-C", "vitamin-D", "O"],
        ["PER", "LOC", "O"],
        ["b", "i", "o"],
        ["yes", "no"],
        ["plan-B", "plan-A"],
    ],
)
def test_no_false_alarms(labels: list[str]):
    assert look_like_spans(labels) == {}


def test_a_column_named_label_holds_the_labels():
    file = "Anna B-P NE\nlacht O V\n\n"
    found = kf.read_conll(io.BytesIO(file.encode()), columns=["word", "label", "pos"])
    assert found.label_rows() == [["B-P", "O"]] and found.rows("pos") == [["NE", "V"]]
    other = kf.read_conll(io.BytesIO(file.encode()), columns=["word", "ner", "pos"])
    assert other.label_rows() == [["NE", "V"]], "the last, where none is named label"
    (piece,) = kf.stream_conll(io.BytesIO(file.encode()), columns=["word", "label", "pos"])
    assert piece.label_rows() == [["B-P", "O"]]


@pytest.mark.filterwarnings("always::kinfolk.errors.DataWarning")
def test_the_shell_asks_for_the_column(tmp_path: Path):
    (tmp_path / "a.conll").write_text("Anna B-P O\nlacht O O\n\nBo B-P O\n\n")
    command = ["tokens", "train", "--train", str(tmp_path / "a.conll"), "--out", str(tmp_path / "m")]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    assert "all tokens have the label 'O': is it the right column? --label names another" in answer.output.replace(
        "\n", " "
    )
