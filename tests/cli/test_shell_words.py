"""What a shell is told: labels in summaries, doubts about them, warnings in options, and help that fits."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf
from kinfolk.cli.main import COMMANDS
from kinfolk.cli.options import RUNNING, InShellWords, ShellWords, counted_warnings, hushed
from kinfolk.cli.output import link_outcome
from kinfolk.errors import InputError, SettingError, UntrustedError
from kinfolk.text.cli import label_line, label_summary, question_of_labels

TAGS = "NNP VBZ DT NN IN JJ".split()


def corpus_of(labels: list[str]) -> kf.Corpus:
    return kf.Corpus.from_sentences([["w"] * len(labels)], [labels])


# -- labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "line"), [
    (["B-PER", "I-PER", "O", "B-LOC"], "4 labels (BIO): LOC, PER"),
    (["B", "I", "O"], "3 labels (BIO)"),
    ([".", "NN", "VB"], "3 labels: NN, VB, ."),
    ([f"L{i:02d}" for i in range(13)], "13 labels: " + ", ".join(f"L{i:02d}" for i in range(12)) + ", ..."),
    (["\x1b[2J"], "1 label: \N{REPLACEMENT CHARACTER}[2J"),
], ids=str)  # fmt: skip
def test_labels_are_told(labels: list[str], line: str):
    corpus = corpus_of(labels)
    assert label_line(corpus) == line
    assert label_summary(corpus) == {"labels": sorted(labels), "scheme": corpus.scheme}


def test_a_corpus_without_labels_has_none_to_tell():
    bare = corpus_of(["A"]).with_labels(None, None)
    assert label_line(bare) == "0 labels" and question_of_labels(bare) is None


@pytest.mark.parametrize(("labels", "doubtful"), [
    (TAGS, True), ([f"L{i}" for i in range(13)], True), (["NOUN", "VERB", "x"], True),
    ([f"L{i}" for i in range(12)], False), (["NN", "VB"], False), (["IN", "OUT", "AWAY"], False),
    (["B-PER", "I-PER", "O"], False), ([f"B-{i}" for i in range(30)], False),
], ids=str)  # fmt: skip
def test_labels_are_doubted(labels: list[str], doubtful: bool):
    told = question_of_labels(corpus_of(labels))
    assert (told is not None) == doubtful
    if told is not None:
        shown = ", ".join(labels[:2])
        assert told == (
            f"the last column has {len(labels)} labels that are no spans ({shown}, ...); is it the label column? "
            "--label names another"
        )


def test_a_file_without_labels(kinfolk: Any, tmp_path: Path):
    (tmp_path / "new.conll").write_text("".join(f"w{i} {tag}\n" for i, tag in enumerate(TAGS)) + "\nand CC\n")
    command = ["tokens", "train", "--train", tmp_path / "new.conll", "--out", tmp_path / "m"]
    warning = "warning: the last column has 7 labels that are no spans (NNP, VBZ, ...); is it the label column?"
    summary = "; 7 labels: CC, DT, IN, JJ, NN, NNP, VBZ"
    done = kinfolk(*command)
    assert done.status == 0 and done.err.startswith(warning) and done.err.splitlines()[1].endswith(summary)
    silent = kinfolk(*command, "--quiet", "--json")
    assert silent.err.startswith(warning) and silent.err.count("\n") == 1
    told = json.loads(silent.out)
    assert (told["labels"], told["scheme"]) == (["CC", "DT", "IN", "JJ", "NN", "NNP", "VBZ"], None)
    for known in (["--label", "label"], ["--scheme", "none"], ["--columns", "word,pos"]):
        honest = kinfolk(*command, *known)
        assert honest.status == 0 and "warning" not in honest.err and summary in honest.err


def test_entities_in_the_summary(kinfolk: Any, world: Path, tmp_path: Path):
    corpus = kf.read_conll(world / "train.conll")
    command = ["tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", "--tolerance", "0.01"]
    assert corpus.labels is not None
    told = f"; {len(corpus.labels.values)} labels (BIO): LOC, MISC, ORG, PER"
    assert kinfolk(*command).err.splitlines()[0].endswith(told)
    plain = json.loads(kinfolk(*command, "--quiet", "--json").out)
    assert plain["labels"] == sorted(corpus.labels.values) and plain["scheme"] == "BIO"


# -- settings as options ------------------------------------------------------------------------------


@pytest.fixture
def words() -> Iterator[ShellWords]:
    """Those of a command with four options."""
    options = {"text": "--text", "features": "--features", "separator": "--separator", "tolerance": "--tolerance"}
    token = RUNNING.set(ShellWords(options))
    yield RUNNING.get()
    RUNNING.reset(token)


@pytest.mark.parametrize(("text", "shown"), [
    ("`text=['title']` does, and `features=[...]` without it", "--text title does, and --features without it"),
    ("`text=['a', 'b']`", "--text a,b"), ("`separator='; '`", "--separator ; "),
    ("correct `columns=...` or `separator=...`", "correct `columns=...` or --separator"),
    ("raise `tolerance`, or say `tolerance=0.1`", "raise --tolerance, or say --tolerance 0.1"),
    ("features=[...] of `Graph(text=...)`", "features=[...] of `Graph(text=...)`"),
    ("a ` in `text=...", "a ` in `text=..."), ("`text=[]` or `separator=None`", "--text none or --separator none"),
], ids=str)  # fmt: skip
def test_settings_become_options(words: ShellWords, text: str, shown: str):
    assert words.text(text) == shown


def test_errors_name_options(words: ShellWords):
    wrong = SettingError("tolerance", -1, "0 or more", "say `text='a'`", owner="LinearChainCRF")
    assert str(wrong) == "LinearChainCRF(tolerance=...) must be 0 or more; got -1; say `text='a'`"
    assert words.error(wrong) == "--tolerance must be 0 or more; got -1; say --text a"
    assert words.error(SettingError("l2", -1, "0 or more")) == "l2 must be 0 or more; got -1"
    strange = UntrustedError("types not known", ["a.B", "c.D"])
    assert str(strange).endswith("name them: `load_model(path, trusted=['a.B', 'c.D'])`")
    assert words.error(strange) == "types not known. If you trust the file, say --trust a.B --trust c.D"


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(("options", "told"), [
    (["--model", "mop", "--l2", "1e6"], "The local model is that of --skip none"),
    (["--model", "skip-chain", "--decode", "map", "--l2", "1e6"],
     "The local model is that of --skip none"),
    (["--model", "mop", "--skip", "none"], "--guard 2 has nothing to compare: there are no skip edges"),
], ids=str)  # fmt: skip
def test_the_local_model_of_a_tagger_is_named_as_an_option(
    kinfolk: Any, world: Path, tmp_path: Path, options: list[str], told: str
):
    command = ["tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", "--guard", "2"]
    done = kinfolk(*command, "--tolerance", "0.1", "--jobs", "1", *options)
    assert done.status == 0 and told in done.err and "`" not in done.err, done.err


def test_other_words_for_what_is_no_option_here(words: ShellWords):
    words.instead["columns"] = "the file"
    assert words.error(InputError("correct `columns=...` or `separator=...`")) == "correct the file or --separator"


def test_only_warnings_are_called_so(words: ShellWords):
    form = InShellWords("%(message)s")
    for level, shown in ((logging.WARNING, "warning: say --text a"), (logging.INFO, "say --text a")):
        record = logging.LogRecord("kinfolk", level, "", 0, "say `text=[%r]`", ("a",), None)
        assert form.format(record) == shown


@pytest.mark.filterwarnings("always")
def test_advice_after_training_names_options(words: ShellWords, capsys: pytest.CaptureFixture[str]):
    with counted_warnings():
        for _ in range(2):
            warnings.warn("training stalled. Raise `tolerance`.", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: training stalled. Raise --tolerance. (2 times)\n"


def test_some_warnings_are_hushed(caplog: pytest.LogCaptureFixture):
    log = logging.getLogger("kinfolk")
    with hushed("of each"):
        log.warning("one %s", "of each")
        log.warning("another")
    log.warning("one of each")
    assert [record.getMessage() for record in caplog.records] == ["another", "one of each"]


def test_columns_and_separators(kinfolk: Any, world: Path, tmp_path: Path):
    (tmp_path / "ragged").write_text("Kim NNP O\nleft VBD\n")
    ragged = kinfolk("tokens", "train", "--train", tmp_path / "ragged", "--out", tmp_path / "m")
    assert ragged.status == 2 and ragged.err.endswith("or pass --separator if cells hold blanks\n")
    many = kinfolk("tokens", "train", "--train", world / "train.conll", "--columns", "word,x", "--out", tmp_path / "m")
    assert many.status == 2 and many.err.endswith("; correct --columns or --separator\n")
    few = kinfolk("tokens", "tag", world / "crf.kinfolk", stdin=b"Kim\n")
    told = "got 1; correct the file (the model was trained on these columns) or --separator\n"
    assert few.status == 2 and few.err.endswith(told) and "expected 2 columns (word, pos)" in few.err


def test_warnings_of_the_library_in_a_shell(tmp_path: Path):
    """In a process of its own, where nobody else listens to what is logged."""
    topics = "".join(f"n{i},t{i} x,{'uv'[i % 2]}\n" for i in range(120))
    (tmp_path / "n.csv").write_text(f"id,title,kind\n{topics}")
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 2) % 120}\n" for i in range(120)))
    (tmp_path / "none.csv").write_text("from,to\n")

    def kinfolk(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        given = [*words, "--nodes", "n.csv", "--label", "kind", "--jobs", "1"]
        run = [sys.executable, "-m", "kinfolk", "nodes", verb, *given]
        return subprocess.run(run, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    trained = kinfolk("train", "--edges", "e.csv", "--model", "stacked", "--depth", "0", "--out", "m")
    warning, first, second, last = trained.stderr.splitlines()
    assert warning.startswith("warning: n.csv: column 'title' has 120 different values among 120 nodes")
    assert warning.endswith("--text title makes features of its words, and --features without it leaves it out")
    assert first == "trained on 120 nodes, 120 of them with labels to learn from; 120 features"
    assert (second, last) == ("LogisticRegression on own features; no links used", "wrote m")
    scored = kinfolk("evaluate", "m", "--edges", "e.csv")
    assert scored.returncode == 0 and "title" not in scored.stderr, "there is nothing left to choose"
    empty = kinfolk("train", "--edges", "none.csv", "--features", "title", "--out", "m")
    assert empty.returncode == 2 and "no column 'source'" in empty.stderr and "has no links" not in empty.stderr


# -- the rest -----------------------------------------------------------------------------------------


def test_local_training_has_no_score_to_tell():
    class Trained:
        training, learned_from_ = "local", "clusters"
        folds_, best_round_, convergence_ = 2, 0, "converged"
        clusterer_ = type("C", (), {"threshold": 0.25})()
        pair_set_ = type("P", (), {"columns": [type("One", (), {"name": "exact(a)"})]})
        rounds_ = (type("Round", (), {"scores": {}, "number": 0}),)

    items: Any = type("Items", (), {"corpus": None})
    assert list(link_outcome(Trained(), items, "2 records", 1, False)) == [
        "trained on 2 records",
        "1 field, 1 comparison",
        "C, its threshold 0.250 and the round chosen on unseen training pairs",
        "local training: converged",
    ]


def test_short_texts_fit_and_stand_in_order(kinfolk: Any):
    listed = {}
    for group in ([], ["tokens"], ["nodes"], ["records"]):
        told = kinfolk(*group, "--help").out.partition("Commands:\n")[2].partition("\n\n")[0]
        listed[" ".join(group)] = [line.split()[0] for line in told.splitlines()]
        assert "..." not in told
    assert listed[""] == list(COMMANDS) == ["tokens", "nodes", "records", "explain", "demo", "warm", "reproduce"]
    shown = kinfolk("--help").out
    assert all(f"kinfolk {task} train" in shown for task in list(COMMANDS)[:3])


@pytest.mark.parametrize("command", [["tokens", "tag"], ["nodes", "predict"], ["records", "cluster"]], ids=" ".join)
def test_help_says_that_json_comes_in_lines(kinfolk: Any, command: list[str]):
    assert "One JSON object a line" in " ".join(kinfolk(*command, "--help").out.split())


def test_reproducing_without_data(kinfolk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("KINFOLK_DATA", raising=False)
    told = kinfolk("reproduce", "chain-conll")
    assert (
        told.status == 2 and told.err.endswith("; pass --data DIR or set KINFOLK_DATA\n") and "shared" not in told.err
    )
    monkeypatch.setenv("KINFOLK_DATA", "nowhere")
    named = kinfolk("reproduce", "chain-conll")
    assert named.err == "error: nowhere: no such data folder; pass --data DIR or set KINFOLK_DATA\n"
