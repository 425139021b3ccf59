"""`kinfolk tokens train --model mop` and `kinfolk explain`."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.datasets.linqs import read_linqs


@pytest.fixture(scope="module")
def mop(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tokens.kinfolk, words.kinfolk (word only), nodes.kinfolk with g.content and g.cites."""
    folder = tmp_path_factory.mktemp("mop")
    train = kf.read_conll(world / "train.conll")
    quick = {"n_jobs": 1, "training": "separate"}
    kf.MixtureTagger(**quick).fit(train).save(folder / "tokens.kinfolk")
    words = replace(train, columns={"word": train.columns["word"]})
    kf.MixtureTagger(**quick).fit(words).save(folder / "words.kinfolk")
    lines = [f"n{i}\t{i % 2}\t1\t{'XY'[i % 2]}\n" for i in range(12)]
    (folder / "g.content").write_text("".join(lines))
    (folder / "g.cites").write_text("".join(f"n{i} n{(i + 2) % 12}\n" for i in range(12)))
    graph = read_linqs(folder / "g.content", folder / "g.cites")
    kf.MixtureNodes(**quick, predict_orders=4).fit(graph).save(folder / "nodes.kinfolk")
    return folder


def assert_refused(answer: Any, *parts: object) -> None:
    assert answer.status == 2 and answer.out == "", answer
    assert answer.err.startswith("error: ") and answer.err.count("\n") == 1, answer.err
    for part in parts:
        assert str(part) in answer.err


def train(kinfolk: Any, world: Path, out: Path, *options: object) -> Any:
    return kinfolk("tokens", "train", "--train", world / "train.conll", "--out", out, *options)


def test_training_tagging_and_scoring(kinfolk: Any, world: Path, tmp_path: Path):
    done = train(kinfolk, world, tmp_path / "m", "--model", "mop", "--dev", world / "test.conll")
    assert (done.status, done.out) == (0, "") and "held-out score" in done.err
    model = kf.load_model(tmp_path / "m")
    assert isinstance(model, kf.MixtureTagger) and model.skip_edges == kf.SameWord()
    assert model.get_params()["training"] == "joint" and model.edge_features is None
    test = kf.read_conll(world / "test.conll")
    told = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll").out
    blocks = [block for block in told.split("\n\n") if block.strip() and not block.startswith("-DOCSTART-")]
    rows = [[line.split()[-1] for line in block.split("\n")] for block in blocks]
    assert rows == model.predict(test)
    scores = json.loads(kinfolk("tokens", "evaluate", tmp_path / "m", world / "test.conll", "--json").out)
    assert scores["f1"] == pytest.approx(100 * model.score(test))
    entities = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll", "--entities").out.splitlines()
    assert len(entities) == scores["predicted"]
    best = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll", "--k-best", "2").out.splitlines()
    assert [json.loads(line)[0]["labels"] for line in best] == rows


def test_every_option_reaches_the_model(kinfolk: Any, world: Path, tmp_path: Path):
    done = train(
        kinfolk, world, tmp_path / "m", "--model", "mop", "--training", "separate", "--skip", "same-word",
        "--most-recent", "2", "--max-document-frequency", "0", "--order", "both", "--edge-features", "--quiet",
    )  # fmt: skip
    assert (done.status, done.err) == (0, "")
    model = kf.load_model(tmp_path / "m")
    assert (model.training, model.order, model.mixing) == ("separate", "both", "uniform")
    assert model.skip_edges == kf.SameWord(most_recent=2, max_document_frequency=None)
    assert model.edge_features
    options = [
        "--model",
        "mop",
        "--skip",
        "none",
        "--mixing",
        "learned",
        "--no-edge-features",
        "--training",
        "conditional",
    ]
    assert train(kinfolk, world, tmp_path / "n", *options).status == 0
    model = kf.load_model(tmp_path / "n")
    assert (model.training, model.mixing, model.skip_edges, model.edge_features) == (
        "conditional",
        "learned",
        None,
        None,
    )


OPTIONS = [
    ["--training", "joint"], ["--skip", "none"], ["--most-recent", "5"], ["--max-document-frequency", "100"],
    ["--mixing", "uniform"], ["--order", "forward"], ["--edge-features"], ["--no-edge-features"],
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options[0])
def test_options_of_a_mixture_are_refused_for_other_models(kinfolk: Any, world: Path, tmp_path: Path, options: Any):
    for model in ("crf", "memm", "maxent"):
        answer = train(kinfolk, world, tmp_path / "m", "--model", model, *options)
        name = options[0].replace("--no-", "--")
        assert_refused(answer, f"{name} is for --model mop; leave it out for --model {model}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("options", "message"), [
    (["--decode", "posterior"], "--decode is for --model memm"),
    (["--most-recent", "-1"], "--most-recent must be a whole number of 1 or more"),
    (["--max-document-frequency", "-1"], "--max-document-frequency must be"),
    (["--skip", "none", "--most-recent", "3"], "--most-recent is for --skip same-word"),
])  # fmt: skip
def test_settings_of_a_mixture_that_do_not_hold(kinfolk: Any, world: Path, tmp_path: Path, options: Any, message: str):
    assert_refused(train(kinfolk, world, tmp_path / "m", "--model", "mop", *options), message)


@pytest.mark.parametrize("options", [["--training", "x"], ["--skip", "all"], ["--mixing", "given"], ["--order", "x"]])
def test_words_that_are_not_understood(kinfolk: Any, world: Path, tmp_path: Path, options: list[str]):
    answer = train(kinfolk, world, tmp_path / "m", "--model", "mop", *options)
    assert answer.status == 2 and "Traceback" not in answer.err and options[0] in answer.err.splitlines()[-1]


def test_explaining_a_token(kinfolk: Any, world: Path, mop: Path):
    test = kf.read_conll(world / "test.conll")
    wanted = kf.load_model(mop / "tokens.kinfolk").explain(test, document=2, token=7)
    where = [mop / "tokens.kinfolk", world / "test.conll", "--document", 2, "--token", 7, "--jobs", 1]
    assert kinfolk("explain", *where).out == f"{wanted}\n"
    told = json.loads(kinfolk("explain", *where, "--json").out)
    assert (told["instance"], told["label"], told["name"]) == (7, wanted.label, wanted.name)
    assert list(told["marginal"].values()) == wanted.marginal.tolist()
    assert sum(c["share"] for c in told["contributions"]) == pytest.approx(1)
    for c, given in zip(told["contributions"], wanted.contributions, strict=True):
        assert (c["parent"], c["relation"], c["weight"]) == (given.parent, given.relation, given.weight)
        assert list(c["predicted"].values()) == given.predicted.tolist()
    read = kinfolk("explain", *where[:1], "-", *where[2:], stdin=(world / "test.conll").read_bytes())
    assert read.out == f"{wanted}\n"


def test_explaining_plain_text_whatever_the_letters(kinfolk: Any, mop: Path):
    words = ["--format", "text", "--document", "0", "--token", "0", "--jobs", "1"]
    told = kinfolk("explain", mop / "words.kinfolk", "-", *words, stdin="Łódź waits .\n".encode())
    assert told.status == 0 and told.out.startswith("Łódź (0): ")


def test_explaining_a_node(kinfolk: Any, mop: Path):
    graph = read_linqs(mop / "g.content", mop / "g.cites")
    wanted = kf.load_model(mop / "nodes.kinfolk").explain(graph, node="n4")
    where = ["--nodes", mop / "g.content", "--edges", mop / "g.cites", "--node", "n4", "--jobs", "1"]
    assert kinfolk("explain", mop / "nodes.kinfolk", *where).out == f"{wanted}\n"
    told = json.loads(kinfolk("explain", mop / "nodes.kinfolk", *where, "--json", "--format", "linqs").out)
    assert told["name"] == "n4" and {c["name"] for c in told["contributions"]} <= {"n2", "n6", "(start)"}
    starts = [c for c in told["contributions"] if c["parent"] is None]
    assert all(c["marginal"] is None and c["name"] == "(start)" for c in starts)
    assert np.isclose(sum(c["share"] for c in told["contributions"]), 1)


def test_features_explain_the_other_models(kinfolk: Any, world: Path):
    where = [world / "crf.kinfolk", world / "test.conll", "--document", "0", "--token", "0"]
    wanted = kf.load_model(where[0]).explain(kf.read_conll(where[1]), document=0, token=0)
    assert kinfolk("explain", *where).out == f"{wanted}\n"
    told = json.loads(kinfolk("explain", *where, "--json").out)
    assert told["contributions"][0] == vars(wanted.contributions[0]) and told["label"] == wanted.label
    assert told["marginal"][wanted.label] == told["probability"]


def test_a_page_about_a_document_and_a_node(kinfolk: Any, world: Path, mop: Path, tmp_path: Path):
    page = tmp_path / "why.html"
    whole = kinfolk("explain", mop / "tokens.kinfolk", world / "test.conll", "--document", "1", "--report", page)
    assert whole.out == "" and f"wrote {page}" in whole.err and "document 1" in page.read_text()
    where = [mop / "tokens.kinfolk", world / "test.conll", "--document", "1", "--token", "2"]
    one = kinfolk("explain", *where, "--report", page)
    assert "with probability" in one.out
    graph = ["--nodes", mop / "g.content", "--edges", mop / "g.cites", "--node", "n4"]
    told = kinfolk("explain", mop / "nodes.kinfolk", *graph, "--report", page)
    assert "with probability" in told.out and "n4" in page.read_text()
    nowhere = kinfolk("explain", mop / "nodes.kinfolk", *graph, "--report", tmp_path / "no" / "why.html")
    assert_refused(nowhere, "no", "why.html")
    over = kinfolk("explain", mop / "nodes.kinfolk", *graph, "--report", mop / "g.content")
    assert_refused(over, "would overwrite a file that this command reads")


def test_questions_that_cannot_be_answered(kinfolk: Any, world: Path, mop: Path, tmp_path: Path):
    tokens, nodes, text = mop / "tokens.kinfolk", mop / "nodes.kinfolk", world / "test.conll"
    graph = ["--nodes", mop / "g.content", "--edges", mop / "g.cites"]
    place = ["--document", "0", "--token", "0"]
    assert_refused(kinfolk("explain", tokens, text), "labels tokens; give FILE, --document, --token", "no --document")
    assert_refused(kinfolk("explain", tokens, *place), "there is no FILE")
    assert_refused(kinfolk("explain", tokens, text, *place, *graph), "labels tokens", "not --nodes")
    assert_refused(kinfolk("explain", nodes, *graph), "labels nodes; give --nodes, --node: there is no --node")
    assert_refused(kinfolk("explain", nodes, text, *graph, "--node", "n1"), "labels nodes", "not FILE")
    assert_refused(kinfolk("explain", nodes, *graph[:2], "--node", "n1"), "needs --edges")
    wrong = kinfolk("explain", tokens, text, *place, "--format", "linqs")
    assert_refused(wrong, "--format must be conll or text, got linqs")
    far = kinfolk("explain", tokens, text, "--document", "0", "--token", "9999", "--jobs", "1")
    assert_refused(far, "document 0 has no token 9999")
    assert_refused(kinfolk("explain", tokens, text, "--document", "99", "--token", "0"), "give a document from 0 to 5")
    missing = kinfolk("explain", nodes, *graph, "--node", "zebra", "--jobs", "1")
    assert_refused(missing, "there is no node 'zebra' in this graph")
    gone = kinfolk("explain", tmp_path / "no", text, *place)
    assert_refused(gone, tmp_path / "no", "no such file (looked in ", "); check the path")
    bare, example = (
        kinfolk("explain", tokens),
        f"e.g. kinfolk explain {tokens} FILE --document 0 --token 3, or --report",
    )
    assert_refused(bare, "give FILE, --document, --token: there is no FILE; ", example)
    assert_refused(
        kinfolk("explain", nodes), "there is no --nodes; e.g. kinfolk explain", "--edges LINKS.csv --node ID"
    )


def test_help(kinfolk: Any):
    for command in (["nodes"], ["nodes", "train"], ["nodes", "predict"], ["nodes", "evaluate"], ["explain"]):
        told = kinfolk(*command, "--help")
        assert told.status == 0 and told.out.startswith("Usage: ") and "--help" in told.out
