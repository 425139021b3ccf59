"""`kinfolk tokens train | tag | evaluate`: files, standard streams, every form of output."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf


def last_column(text: str) -> list[list[str]]:
    """The labels of each sentence in what `tag` wrote."""
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [[line.split(" ")[-1] for line in block] for block in blocks if not block[0].startswith("-DOCSTART-")]


def test_train_tag_evaluate_round_trip(kinfolk: Any, world: Path, tmp_path: Path):
    model, tagged = tmp_path / "m.kinfolk", tmp_path / "tagged.conll"
    trained = kinfolk("tokens", "train", "--train", world / "train.conll", "--out", model)
    assert trained.status == 0 and trained.out == ""
    lines = trained.err.splitlines()
    assert lines[0].startswith("trained on 12 documents, ") and lines[1].startswith("converged after ")
    assert lines[-1] == f"wrote {model}"
    assert kinfolk("tokens", "tag", model, world / "test.conll", "-o", tagged).status == 0
    test = kf.read_conll(world / "test.conll")
    expected = kf.load_model(model).predict(test)
    assert last_column(tagged.read_text()) == expected
    again = kf.read_conll(tagged, columns=["word", "pos", "gold", "label"])
    assert again.rows() == test.rows() and again.rows("gold") == test.label_rows()
    assert again.document_starts.tolist() == test.document_starts.tolist()
    told = kinfolk("tokens", "evaluate", model, world / "test.conll")
    assert told.status == 0 and told.err == ""
    scores, accuracy = kf.load_model(model).evaluate(test)
    assert told.out == f"{test.n_tokens} tokens; accuracy {accuracy:.2f} %\n{scores.table()}\n"


@pytest.mark.parametrize(("method", "kind"), [("crf", "LinearChainCRF"), ("memm", "MEMM"), ("maxent", "MaxEnt")])
def test_every_method_and_setting_reaches_the_model(kinfolk: Any, world: Path, tmp_path: Path, method: str, kind: str):
    model = tmp_path / "m.kinfolk"
    options = "--l2 0.7 --l1 0.01 --min-count 2 --encoding IOBES --class-weight PER=2 --class-weight B-LOC=0.5 "
    options += "--seed 3 --tolerance 0.01 --patience 2 --max-iterations 50 --templates document --quiet"
    more = ["--decode", "posterior"] if method == "memm" else []
    done = kinfolk(
        "tokens", "train", "--model", method, "--train", world / "train.conll", "--out", model, *options.split(), *more
    )
    assert (done.status, done.out, done.err) == (0, "", "")
    loaded = kf.load_model(model)
    assert type(loaded).__name__ == kind
    told = {
        "l2": 0.7,
        "l1": 0.01,
        "min_count": 2,
        "encoding": "IOBES",
        "random_state": 3,
        "tolerance": 0.01,
        "patience": 2,
        "max_iterations": 50,
        "templates": "document",
        "class_weight": {"PER": 2.0, "B-LOC": 0.5},
    }
    assert {name: loaded.get_params()[name] for name in told} == told
    assert loaded.coding_.inner == "IOBES" and getattr(loaded, "decode", "posterior") == "posterior"


def test_the_same_command_writes_the_same_model(kinfolk: Any, world: Path, tmp_path: Path):
    for name, jobs in (("a", 1), ("b", 2)):
        kinfolk("tokens", "train", "--train", world / "train.conll", "--out", tmp_path / name, "--jobs", jobs)
    one, two = (kf.load_model(tmp_path / name) for name in "ab")
    assert all((x == y).all() for x, y in zip(one.weights_, two.weights_, strict=True))


def test_held_out_data_and_balanced_classes(kinfolk: Any, world: Path, tmp_path: Path):
    done = kinfolk(
        "tokens", "train", "--train", world / "train.conll", "--dev", world / "test.conll.gz", "--out", tmp_path / "m",
        "--class-weight", "balanced", "--patience", "1",
    )  # fmt: skip
    assert done.status == 0
    score = float(next(line for line in done.err.splitlines() if line.startswith("held-out score")).split()[-1])
    model = kf.load_model(tmp_path / "m")
    assert model.class_weight == "balanced"
    assert 100 * model.score(kf.read_conll(world / "test.conll")) == pytest.approx(score, abs=0.01)


def test_standard_streams(kinfolk: Any, world: Path, tmp_path: Path):
    train, test = (world / "train.conll").read_bytes(), (world / "test.conll").read_bytes()
    model = tmp_path / "m"
    assert kinfolk("tokens", "train", "--train", "-", "--out", model, stdin=train).status == 0
    from_file = kinfolk("tokens", "tag", model, world / "test.conll")
    assert kinfolk("tokens", "tag", model, stdin=test) == from_file
    assert kinfolk("tokens", "tag", model, "-", "-o", "-", stdin=test) == from_file
    assert kinfolk("tokens", "tag", model, stdin=gzip.compress(test)) == from_file
    scores = kinfolk("tokens", "evaluate", model, world / "test.conll")
    assert kinfolk("tokens", "evaluate", model, stdin=test) == scores


def test_compressed_files(kinfolk: Any, world: Path, tmp_path: Path):
    plain = kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll")
    assert kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll.gz") == plain
    kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll", "-o", tmp_path / "out.gz")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == plain.out


def test_evaluate_as_json(kinfolk: Any, world: Path):
    told = json.loads(kinfolk("tokens", "evaluate", world / "crf.kinfolk", world / "test.conll", "--json").out)
    test = kf.read_conll(world / "test.conll")
    scores, accuracy = kf.load_model(world / "crf.kinfolk").evaluate(test)
    assert told["tokens"] == test.n_tokens and told["accuracy"] == accuracy
    assert (told["f1"], told["gold"], set(told["types"])) == (scores.f1, scores.gold, {"LOC", "MISC", "ORG", "PER"})


def test_entities_are_json_lines(kinfolk: Any, world: Path):
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll", "--entities")
    found = [json.loads(line) for line in told.out.splitlines()]
    entities = kf.load_model(world / "crf.kinfolk").predict_entities(kf.read_conll(world / "test.conll"))
    assert found == [vars(entity) for entity in entities] and len(found) > 20
    assert set(found[0]) == {"sentence", "start", "end", "type", "confidence", "text", "exact"}


def test_k_best_lists_are_json_lines(kinfolk: Any, world: Path):
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", world / "test.conll", "--k-best", "3")
    rows = [json.loads(line) for line in told.out.splitlines()]
    test = kf.read_conll(world / "test.conll")
    assert len(rows) == test.n_sentences
    assert [row[0]["labels"] for row in rows] == kf.load_model(world / "crf.kinfolk").predict(test)
    assert all(sum(math.exp(best["log_probability"]) for best in row) <= 1 + 1e-9 for row in rows)


def test_plain_text(kinfolk: Any, world: Path, tmp_path: Path):
    text = "President Kim left Łódź.\nHe said so.\n\nRome (AP)\n"
    (tmp_path / "new.txt").write_text(text, encoding="utf-8")
    told = kinfolk("tokens", "tag", world / "words.kinfolk", tmp_path / "new.txt", "--format", "text")
    assert told.status == 0
    words = [line.split(" ")[0] for line in told.out.splitlines() if line and not line.startswith("-DOCSTART-")]
    assert words == "President Kim left Łódź . He said so . Rome ( AP )".split()
    assert told.out.count("-DOCSTART- O\n") == 2
    piped = kinfolk("tokens", "tag", world / "words.kinfolk", "--format", "text", stdin=text.encode())
    assert piped.out == told.out


def test_running_text_gives_entities_with_their_characters(kinfolk: Any, world: Path, tmp_path: Path):
    text = "\ufeffPresident Kim left Łódź. He said so\nin Rome.\n\nKim slept."
    (tmp_path / "new.txt").write_text(text, encoding="utf-8")
    told = kinfolk("tokens", "tag", world / "words.kinfolk", tmp_path / "new.txt", "--text")
    assert told.status == 0
    found = [json.loads(line) for line in told.out.splitlines()]
    model = kf.load_model(world / "words.kinfolk")
    assert found == [vars(entity) for entity in model.entities(text[1:])] and found
    assert all(text[1:][e["start_char"] : e["end_char"]].split() == e["text"].split() for e in found)
    piped = kinfolk("tokens", "tag", world / "words.kinfolk", "-", "--text", stdin=text.encode())
    assert piped.out == told.out
    rows = kinfolk("tokens", "tag", world / "words.kinfolk", "-", "--text", "--json", stdin=text.encode()).out
    assert [json.loads(line)["words"][0] for line in rows.splitlines()] == ["President", "He", "Kim"]
    best = kinfolk("tokens", "tag", world / "words.kinfolk", "-", "--text", "--k-best", "2", stdin=text.encode()).out
    assert [len(json.loads(line)) for line in best.splitlines()] == [2, 2, 2]
    nothing = kinfolk("tokens", "tag", world / "words.kinfolk", "-", "--text", stdin=b"\n")
    assert nothing.status == 0 and nothing.out == ""


def test_running_text_that_the_model_cannot_read_is_refused(kinfolk: Any, world: Path):
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", "-", "--text", stdin=b"Kim left.")
    assert told.status == 2 and "the column 'pos', which a text does not have" in told.err
    both = kinfolk("tokens", "tag", world / "words.kinfolk", "-", "--text", "--format", "text", stdin=b"Kim left.")
    assert both.status == 2 and "leave it out with --text" in both.err


def test_forced_labels_are_kept_and_gaps_filled(kinfolk: Any, world: Path, tmp_path: Path):
    (tmp_path / "gaps.conll").write_text("Kim NNP B-LOC\nleft VBD ?\n\nRome NNP ?\n")
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", tmp_path / "gaps.conll", "--forced")
    assert told.status == 0
    assert told.out.startswith("Kim NNP B-LOC B-LOC\n")
    assert "?" not in [row[-1] for row in last_column(told.out)]
    free = kinfolk("tokens", "tag", world / "crf.kinfolk", tmp_path / "gaps.conll")
    assert free.out != told.out


def test_files_without_labels_can_be_tagged(kinfolk: Any, world: Path, tmp_path: Path):
    test = kf.read_conll(world / "test.conll")
    kf.write_conll(test.with_labels(None, None), tmp_path / "bare.conll")
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", tmp_path / "bare.conll")
    assert last_column(told.out) == kf.load_model(world / "crf.kinfolk").predict(test)


def test_labels_that_are_not_spans(kinfolk: Any, tmp_path: Path):
    (tmp_path / "pos.conll").write_text("the DT\ncat NN\n\nthe DT\ndog NN\n" * 3)
    assert kinfolk("tokens", "train", "--train", tmp_path / "pos.conll", "--out", tmp_path / "m").status == 0
    told = kinfolk("tokens", "evaluate", tmp_path / "m", tmp_path / "pos.conll")
    assert told.out == "12 tokens; accuracy 100.00 %\n"
    assert kinfolk("tokens", "tag", tmp_path / "m", tmp_path / "pos.conll", "--entities").out == ""


def test_named_columns_and_a_label_column_of_choice(kinfolk: Any, tmp_path: Path):
    (tmp_path / "odd.conll").write_text("NNP B-PER Kim\nVBD O left\n" * 2)
    done = kinfolk(
        "tokens", "train", "--train", tmp_path / "odd.conll", "--out", tmp_path / "m",
        "--columns", "pos, ner, word", "--label", "ner",
    )  # fmt: skip
    assert done.status == 0
    assert kf.load_model(tmp_path / "m").columns_ == ("pos", "word")
    told = kinfolk("tokens", "tag", tmp_path / "m", stdin=b"NNP Kim\nVBD left\n")
    assert last_column(told.out) == [["B-PER", "O"]]


def test_documents_without_sentences_are_kept_but_for_a_marker_at_the_end(kinfolk: Any, world: Path, tmp_path: Path):
    text = "-DOCSTART- -X- O\n\n-DOCSTART- -X- O\n\nKim NNP B-PER\n\n-DOCSTART- -X- O\n"
    (tmp_path / "empty.conll").write_text(text)
    told = kinfolk("tokens", "tag", world / "crf.kinfolk", tmp_path / "empty.conll")
    assert told.status == 0 and told.out.count("-DOCSTART-") == 2
    assert kinfolk("tokens", "train", "--train", tmp_path / "empty.conll", "--out", tmp_path / "m").status == 0
    assert kinfolk("tokens", "evaluate", world / "crf.kinfolk", tmp_path / "empty.conll").status == 0


def test_help_and_version(kinfolk: Any):
    assert kinfolk("--version").out == f"kinfolk {kf.__version__}\n"
    for command in ([], ["tokens"], ["tokens", "train"], ["tokens", "tag"], ["tokens", "evaluate"], ["demo"]):
        told = kinfolk(*command, "--help")
        assert told.status == 0 and told.out.startswith("Usage: ") and "--help" in told.out


def test_a_pattern_that_may_take_for_ever_is_trusted_by_name(kinfolk: Any, world: Path, tmp_path: Path):
    from kinfolk.text.attributes import matches, word

    templates, model = [word[0], matches("joined", r"(?:\w+-)*\w+")], tmp_path / "own.kinfolk"
    kf.MaxEnt(templates=templates, n_jobs=1, tolerance=0.1).fit(kf.generate_newswire(3)).save(model)
    refused = kinfolk("tokens", "tag", model, world / "test.conll")
    assert refused.status == 2 and r"If you trust the file, say --trust '(?:\w+-)*\w+'" in refused.err
    assert kinfolk("tokens", "tag", model, world / "test.conll", "--trust", r"(?:\w+-)*\w+").status == 0
