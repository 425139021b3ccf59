"""Every mistake ends in exit status 2 and one line that names the place, and leaves nothing half-written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core import modelfile

GOOD = "Kim NNP B-PER\nleft VBD O\n\nRome NNP B-LOC\n"


def assert_refused(answer: Any, *parts: object) -> None:
    """One line on standard error that holds all the parts, status 2, nothing on standard output."""
    assert answer.status == 2, answer
    assert answer.out == "" and "Traceback" not in answer.err
    assert answer.err.startswith("error: ") and answer.err.count("\n") == 1, answer.err
    for part in parts:
        assert str(part) in answer.err


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "ragged columns": (
        GOOD.encode() + b"He PRP\n", "line 5: expected 3 columns (word, pos, label) as in line 1, got 2",
    ),
    "an unknown tag": (GOOD.encode() + b"\nKim NNP PER\n", "line 6: 'PER' is not a tag"),
    "an empty file": (b"", "no tokens"),
    "only blank lines": (b"\n\n\n", "no tokens"),
    "only document marks": (b"-DOCSTART- -X- O\n\n", "no tokens"),
    "bytes that are not UTF-8": (b"Kim NNP B-PER\nM\xfcller NNP O\n", "line 2: not UTF-8 at byte 15 (0xfc"),
    "a gzip file cut short": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03+I", "gzip data is truncated or damaged"),
    "nothing labelled": (b"Kim NNP ?\n", "training needs labels"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_files_that_cannot_be_trained_on(kinfolk: Any, tmp_path: Path, content: bytes, message: str):
    (tmp_path / "bad.conll").write_bytes(content)
    answer = kinfolk("tokens", "train", "--train", tmp_path / "bad.conll", "--out", tmp_path / "m")
    assert_refused(answer, tmp_path / "bad.conll", message)
    assert os.listdir(tmp_path) == ["bad.conll"]


@pytest.mark.parametrize("name", [n for n in BAD_FILES if n != "nothing labelled"])
@pytest.mark.parametrize("verb", ["tag", "evaluate"])
def test_files_that_cannot_be_tagged_or_evaluated(kinfolk: Any, world: Path, tmp_path: Path, verb: str, name: str):
    content, message = BAD_FILES[name]
    (tmp_path / "bad.conll").write_bytes(content)
    where = ["-o", tmp_path / "out.conll", "--forced"] if verb == "tag" else []  # other labels are not looked at
    answer = kinfolk("tokens", verb, world / "crf.kinfolk", tmp_path / "bad.conll", *where)
    assert_refused(answer, tmp_path / "bad.conll", message)
    assert os.listdir(tmp_path) == ["bad.conll"]


def test_faults_of_standard_input_say_so(kinfolk: Any, world: Path):
    assert_refused(kinfolk("tokens", "tag", world / "crf.kinfolk", stdin=b"a b c d e\n"), "<stdin>, line 1: expected")
    assert_refused(kinfolk("tokens", "tag", world / "crf.kinfolk"), "<stdin>: no tokens")
    assert_refused(kinfolk("tokens", "tag", world / "crf.kinfolk", stdin=b"\xff\n"), "<stdin>, line 1: not UTF-8")


def test_a_label_never_seen_in_training(kinfolk: Any, world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """It cannot be kept; where answers are compared with it, it counts as a miss."""
    (tmp_path / "new.conll").write_text("Kim NNP B-PER\nAspirin NNP B-DRUG\n")
    forced = kinfolk("tokens", "tag", "--forced", world / "crf.kinfolk", tmp_path / "new.conll")
    assert_refused(forced, f"{tmp_path / 'new.conll'}, line 2: label 'B-DRUG' was never seen in training")
    told = "labels that training never saw count as misses: 'B-DRUG'"
    scored = kinfolk("tokens", "evaluate", world / "crf.kinfolk", tmp_path / "new.conll")
    assert scored.status == 0 and told in caplog.text and "DRUG" in scored.out
    caplog.clear()
    files = ["--train", world / "train.conll", "--dev", tmp_path / "new.conll", "--out", tmp_path / "m"]
    trained = kinfolk("tokens", "train", *files)
    assert trained.status == 0 and told in caplog.text and (tmp_path / "m").exists()


def test_scoring_needs_labels(kinfolk: Any, world: Path, tmp_path: Path):
    (tmp_path / "bare.conll").write_text("Kim NNP\n")
    answer = kinfolk("tokens", "evaluate", world / "crf.kinfolk", tmp_path / "bare.conll")
    assert_refused(answer, "bare.conll: scoring needs labels")


@pytest.mark.filterwarnings("always::kinfolk.errors.DataWarning")
def test_forced_labels_that_no_tagging_keeps(kinfolk: Any, world: Path, tmp_path: Path):
    (tmp_path / "odd.conll").write_text("Kim NNP B-PER\n\nhe PRP O\nleft VBD I-PER\nso RB ?\n")
    answer = kinfolk("tokens", "tag", world / "crf.kinfolk", tmp_path / "odd.conll", "--forced", "-o", tmp_path / "o")
    (refused,) = answer.err.splitlines()
    assert refused.startswith(f"error: {tmp_path / 'odd.conll'}, line 3: ") and answer.status == 2
    assert "break the tag scheme, so no valid labelling keeps them" in refused
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("verb", ["tag", "evaluate"])
def test_files_that_are_not_there(kinfolk: Any, world: Path, tmp_path: Path, verb: str):
    missing = tmp_path / "missing"
    assert_refused(kinfolk("tokens", verb, world / "crf.kinfolk", missing), missing, "no such file")
    assert_refused(
        kinfolk("tokens", verb, missing, world / "test.conll"), missing, "no such file (looked in ", "); check the path"
    )
    assert_refused(kinfolk("tokens", verb, world / "crf.kinfolk", tmp_path), tmp_path, "directory")
    assert_refused(kinfolk("tokens", verb, tmp_path, world / "test.conll"), tmp_path, "directory")
    assert_refused(kinfolk("tokens", "train", "--train", missing, "--out", tmp_path / "m"), missing, "no such file")


def test_a_place_to_write_is_looked_for_before_training(kinfolk: Any, world: Path, tmp_path: Path, monkeypatch: Any):
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(kf.LinearChainCRF, "fit", never)
    target = tmp_path / "no" / "m"
    answer = kinfolk("tokens", "train", "--train", world / "train.conll", "--out", target)
    assert_refused(answer, target, "create it first")
    assert_refused(kinfolk("tokens", "train", "--train", world / "train.conll", "--out", tmp_path), tmp_path)
    full = kinfolk("tokens", "train", "--train", world / "train.conll", "--out", "/dev/full")
    assert_refused(full, "/dev/full", "device")


def test_a_full_disk_while_saving_the_model(kinfolk: Any, world: Path, tmp_path: Path, monkeypatch: Any):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "m").write_bytes(b"the old model")
    monkeypatch.setattr(os, "fsync", full)
    answer = kinfolk("tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", "--quiet")
    assert_refused(answer, tmp_path / "m", "No space left on device")
    assert os.listdir(tmp_path) == ["m"] and (tmp_path / "m").read_bytes() == b"the old model"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
@pytest.mark.parametrize("form", [[], ["--entities"], ["--k-best", "2"]], ids=["conll", "entities", "k-best"])
def test_a_full_disk_while_tagging(kinfolk: Any, world: Path, form: list[str]):
    answer = kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll", "-o", "/dev/full", *form)
    assert_refused(answer, "/dev/full: cannot write: No space left on device")


def test_a_pipe_that_is_closed_ends_a_command_in_silence(kinfolk: Any, world: Path, monkeypatch: pytest.MonkeyPatch):
    def closed(pieces: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("kinfolk.core.files._write_stdout", closed)
    monkeypatch.setattr("kinfolk.cli.main._drop_output", lambda: None)  # the test reads what is left in it
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll")
    assert (told.status, told.out, told.err) == (0, "", "")


def test_model_files_that_are_cut_altered_or_something_else(kinfolk: Any, world: Path, tmp_path: Path):
    whole = (world / "crf.kinfolk").read_bytes()
    altered = bytearray(whole)
    altered[-100] ^= 4
    made = {"cut": whole[: len(whole) // 2], "altered": bytes(altered), "empty": b"", "text": GOOD.encode()}
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
        for verb in ("tag", "evaluate"):
            answer = kinfolk("tokens", verb, tmp_path / name, world / "test.conll")
            assert_refused(answer, tmp_path / name, "damaged, altered or not a kinfolk model")


def test_a_model_of_a_newer_version(kinfolk: Any, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as later:
        later.setattr(modelfile, "FORMAT_VERSION", modelfile.FORMAT_VERSION + 1)
        kf.MaxEnt(n_jobs=1).fit([["Kim"]], [["B-PER"]]).save(tmp_path / "new")
    answer = kinfolk("tokens", "tag", tmp_path / "new", world / "test.conll")
    assert_refused(answer, tmp_path / "new", "upgrade kinfolk")


BAD_SETTINGS = {
    "a negative ridge": (["--l2", "-1"], "l2"),
    "no ridge at all": (["--l2", "nan"], "l2"),
    "a negative lasso": (["--l1", "-1"], "l1"),
    "an unknown encoding": (["--encoding", "FOO"], "--encoding must be 'auto', 'IOB1', 'BIO', 'IOBES' or 'BILOU'"),
    "unknown templates": (["--templates", "page"], "templates"),
    "an unknown scheme": (["--scheme", "FOO"], "scheme"),
    "no iterations": (["--max-iterations", "0"], "--max-iterations must be"),
    "a negative tolerance": (["--tolerance", "-1"], "tolerance"),
    "no patience": (["--patience", "0"], "patience"),
    "no count": (["--min-count", "0"], "--min-count must be"),
    "a negative seed": (["--seed", "-1"], "--seed must be"),
    "no threads": (["--jobs", "0"], "--jobs must be"),
    "decoding of a CRF": (["--decode", "posterior"], "--decode is for --model memm"),
    "an unknown way to decode": (["--model", "memm", "--decode", "greedy"], "decode"),
    "a weight without number": (["--class-weight", "PER"], "--class-weight takes label=number"),
    "a weight of no label": (["--class-weight", "DRUG=2"], "class_weight names 'DRUG'"),
    "columns without words": (["--columns", "a,b,c"], "columns"),
    "too few columns": (["--columns", "word,label"], "expected 2 columns (word, label), got 3"),
    "a label column that is not there": (["--label", "ner"], "label must name one of the columns"),
}


@pytest.mark.parametrize(("options", "name"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_settings_outside_their_range(kinfolk: Any, world: Path, tmp_path: Path, options: list[str], name: str):
    answer = kinfolk("tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", *options)
    assert_refused(answer, name)
    assert os.listdir(tmp_path) == []


USAGE = {
    "an unknown model": (["train", "--train", "x", "--out", "y", "--model", "x"], "'--model'"),
    "a number that is none": (["train", "--train", "x", "--out", "y", "--l2", "much"], "'--l2'"),
    "nothing to train on": (["train", "--out", "y"], "'--train'"),
    "no model": (["tag"], "'MODEL'"),
    "an unknown format": (["tag", "m", "f", "--format", "xml"], "'--format'"),
    "an unknown option": (["tag", "m", "f", "--colour"], "--colour"),
    "an unknown verb": (["guess"], "'guess'"),
}


@pytest.mark.parametrize(("words", "name"), USAGE.values(), ids=USAGE.keys())
def test_commands_that_are_not_understood(kinfolk: Any, words: list[str], name: str):
    answer = kinfolk("tokens", *words)
    assert answer.status == 2 and answer.out == "" and "Traceback" not in answer.err
    assert "Usage: " in answer.err and name.lower() in answer.err.splitlines()[-1].lower()


@pytest.mark.parametrize(("options", "message"), [
    (["--k-best", "0"], "k must be a whole number of 1 or more"),
    (["--k-best", "2", "--entities"], "--entities and --k-best are two forms of output"),
    (["--scheme", "FOO"], "scheme must be auto, None or one of"),
    (["--jobs", "0"], "--jobs must be"),
])  # fmt: skip
def test_wrong_ways_to_tag(kinfolk: Any, world: Path, options: list[str], message: str):
    assert_refused(kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll", *options), message)


def test_questions_a_model_cannot_answer(kinfolk: Any, world: Path):
    answer = kinfolk("tokens", "tag", world / "maxent.kinfolk", world / "test.conll", "--k-best", "2")
    assert_refused(answer, "--k-best needs a crf, memm, mop or stacked model")
    answer = kinfolk("tokens", "tag", world / "crf.kinfolk", "--format", "text", stdin=b"Kim left.\n")
    assert_refused(answer, "reads column 'pos', which the corpus does not have")


@pytest.fixture
def dicts(tmp_path: Path) -> Path:
    X, y = [[{"w": "Kim"}, {"w": "left"}]], [["B-PER", "O"]]
    kf.text.crfsuite.CRF(n_jobs=1).fit(X, y).save(tmp_path / "crfsuite.kinfolk")
    kf.LinearChainCRF(n_jobs=1, tolerance=0.1).fit(X, y).save(tmp_path / "chain.kinfolk")
    return tmp_path


@pytest.mark.parametrize("name", ["crfsuite.kinfolk", "chain.kinfolk"])
def test_a_model_of_feature_dicts_reads_no_files(kinfolk: Any, world: Path, dicts: Path, name: str):
    message = "was trained on feature dicts, but was given words"
    for verb in ("tag", "evaluate"):
        assert_refused(kinfolk("tokens", verb, dicts / name, world / "test.conll"), message)
    assert_refused(kinfolk("tokens", "tag", dicts / name, "--format", "text", stdin=b"Kim left\n"), message)
    assert_refused(kinfolk("tokens", "tag", dicts / name, "--text", stdin=b"Kim left\n"), "trained on feature dicts")


@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_what_explains_nothing_in_the_shell(kinfolk: Any, world: Path, dicts: Path):
    answer = kinfolk("explain", dicts / "crfsuite.kinfolk", world / "test.conll", "--document", "0", "--token", "0")
    assert_refused(answer, "CRF explains nothing; in Python `state_features_` and `transition_features_` have its")
    corpus, crf = kf.read_conll(world / "test.conll"), kf.load_model(world / "crf.kinfolk")
    layer = kf.TokenLayer(n_jobs=1).fit(corpus, crf.predict_proba(corpus), classes=crf.classes_)
    layer.save(dicts / "layer.kinfolk")
    answer = kinfolk("explain", dicts / "layer.kinfolk", world / "test.conll", "--document", "0")
    assert_refused(answer, "in Python `layer.explain(X, probabilities, token)`")


def test_entities_of_labels_that_are_no_spans(kinfolk: Any, tmp_path: Path):
    (tmp_path / "t.conll").write_text("Kim NN\nleft VB\n")
    kf.MaxEnt(n_jobs=1).fit([["Kim", "left"]], [["NN", "VB"]]).save(tmp_path / "m")
    answer = kinfolk("tokens", "tag", tmp_path / "m", tmp_path / "t.conll", "--entities")
    assert_refused(answer, "trained on labels that are no entities (NN, VB)")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_feature_values_that_are_not_finite_are_named(value: float):
    """Files hold no numbers; through Python they may come."""
    with pytest.raises(kf.KinfolkError, match=r"sentence 1, token 0: .* 'size' is "):
        kf.LinearChainCRF(n_jobs=1).fit([[{"size": 1.0}], [{"size": value}]], [["O"], ["B-PER"]])


def test_who_gives_up_is_told_that_nothing_was_written(kinfolk: Any, world: Path, tmp_path: Path, monkeypatch: Any):
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kf.LinearChainCRF, "fit", interrupted)
    answer = kinfolk("tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m")
    assert (answer.status, answer.err) == (130, "interrupted; nothing was written\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", [["nodes", "predict"], ["nodes", "evaluate"], ["explain"]], ids=" ".join)
def test_a_model_of_numbers_is_for_python(kinfolk: Any, tmp_path: Path, command: list[str]):
    graph = kf.Graph(np.arange(6.0)[:, None], None, {"r": [(0, 1), (2, 3)]}, feature_names=["x"])
    kf.NodeRegressor(effort="fast", n_jobs=1).fit(graph, [1.0, 2.0, 3.0, 4.0, None, None]).save(tmp_path / "m")
    (tmp_path / "n.csv").write_text("id,x\na,1\n")
    (tmp_path / "e.csv").write_text("source,target\n")
    node = ["--node", "a"] if command == ["explain"] else []
    answer = kinfolk(*command, tmp_path / "m", "--nodes", tmp_path / "n.csv", "--edges", tmp_path / "e.csv", *node)
    assert_refused(answer, "NodeRegressor", "n Python")
