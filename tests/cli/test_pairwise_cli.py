"""`kinfolk tokens train --model skip-chain` and `kinfolk nodes train --model link`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.datasets.linqs import read_linqs
from kinfolk.graph.link_model import LinkModel
from kinfolk.text.skip_chain import SkipChainCRF

QUICK = ["--tolerance", "0.01"]
SETTLED = "belief propagation settled in "


@pytest.fixture(scope="module")
def chained(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A skip-chain model of the small world."""
    file = tmp_path_factory.mktemp("chained") / "skip.kinfolk"
    SkipChainCRF(tolerance=0.01, n_jobs=1).fit(kf.read_conll(world / "train.conll")).save(file)
    return file


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """g.content and g.cites: twelve nodes, every third one without a word; link.kinfolk, a model of them."""
    folder = tmp_path_factory.mktemp("ring")
    lines = [f"n{i}\t{int(i % 3 > 0 and i % 2)}\t{int(i % 3 > 0 and not i % 2)}\t{'XY'[i % 2]}\n" for i in range(12)]
    (folder / "g.content").write_text("".join(lines))
    (folder / "g.cites").write_text("".join(f"n{i} n{(i + 2) % 12}\n" for i in range(12)))
    graph = read_linqs(folder / "g.content", folder / "g.cites")
    LinkModel(tolerance=0.01, n_jobs=1).fit(graph).save(folder / "link.kinfolk")
    return folder


def files(ring: Path) -> list[object]:
    return ["--nodes", ring / "g.content", "--edges", ring / "g.cites"]


def train_tokens(kinfolk: Any, world: Path, out: Path, *options: object) -> Any:
    return kinfolk("tokens", "train", "--train", world / "train.conll", "--out", out, *options)


def train_nodes(kinfolk: Any, ring: Path, out: Path, *options: object) -> Any:
    return kinfolk("nodes", "train", *files(ring), "--out", out, "--jobs", "1", *options)


def assert_refused(answer: Any, *parts: object) -> None:
    assert answer.status == 2 and answer.out == "", answer
    assert answer.err.startswith("error: ") and answer.err.count("\n") == 1, answer.err
    for part in parts:
        assert str(part) in answer.err


# -- tokens -------------------------------------------------------------------------------------------


def test_a_skip_chain_from_file_to_scores(kinfolk: Any, world: Path, chained: Path, tmp_path: Path):
    done = train_tokens(kinfolk, world, tmp_path / "m", "--model", "skip-chain", *QUICK)
    assert (done.status, done.out) == (0, "")
    first, linked, second, third, last = done.err.splitlines()
    assert first.startswith("trained on 12 documents, ") and second.startswith("stopped early after ")
    assert linked == "links of tokens: same word, capitalised words"
    assert third.startswith(f"{SETTLED}12 of 12 groups; ") and last == f"wrote {tmp_path / 'm'}"
    model, test = kf.load_model(tmp_path / "m").set_params(n_jobs=1), kf.read_conll(world / "test.conll")
    assert isinstance(model, SkipChainCRF) and model.skip_edges == kf.SameWord() and model.edge_features is None
    for name in ("training", "decode", "damping", "max_rounds"):
        assert getattr(model, name) == getattr(SkipChainCRF(), name)
    same = kf.load_model(chained).predict_proba(test)
    assert all((a == b).all() for a, b in zip(model.predict_proba(test), same, strict=True))
    told = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll").out
    blocks = [block for block in told.split("\n\n") if block.strip() and not block.startswith("-DOCSTART-")]
    assert [[line.split()[-1] for line in block.split("\n")] for block in blocks] == model.predict(test)
    scores = json.loads(kinfolk("tokens", "evaluate", tmp_path / "m", world / "test.conll", "--json").out)
    assert scores["f1"] == pytest.approx(100 * model.score(test))
    entities = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll", "--entities").out.splitlines()
    assert len(entities) == scores["predicted"]
    assert_refused(
        kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll", "--k-best", "2"),
        "crf, memm, mop or stacked model",
    )


def test_every_option_reaches_the_skip_chain(kinfolk: Any, world: Path, tmp_path: Path):
    done = train_tokens(
        kinfolk, world, tmp_path / "m", "--model", "skip-chain", "--training", "bethe", "--skip", "same-word-any-case",
        "--most-recent", "2", "--max-document-frequency", "0", "--edge-features", "--decode", "map", "--damping",
        "0.25", "--max-rounds", "150", *QUICK, "--quiet",
    )  # fmt: skip
    assert (done.status, done.err) == (0, "")
    model = kf.load_model(tmp_path / "m")
    assert (model.training, model.decode, model.damping, model.max_rounds) == ("bethe", "map", 0.25, 150)
    assert model.skip_edges == kf.SameWord(most_recent=2, max_document_frequency=None, ignore_case=True)
    assert model.edge_features


@pytest.mark.parametrize("training", ["pseudo", "piecewise"])
def test_training_without_belief_propagation_reports_none(kinfolk: Any, world: Path, tmp_path: Path, training: str):
    options = ["--model", "skip-chain", "--training", training, "--skip", "none", "--no-edge-features", *QUICK]
    done = train_tokens(kinfolk, world, tmp_path / "m", *options, "--dev", world / "test.conll")
    assert done.status == 0 and "held-out score" in done.err and SETTLED not in done.err
    model = kf.load_model(tmp_path / "m")
    assert (model.training, model.skip_edges, model.edge_features) == (training, None, None)


def test_decoding_is_the_models_own_unless_told(kinfolk: Any, world: Path, tmp_path: Path):
    assert train_tokens(kinfolk, world, tmp_path / "m", "--model", "memm").status == 0
    assert kf.load_model(tmp_path / "m").decode == "viterbi"


FOREIGN_TO_TOKENS = [
    ("skip-chain", ["--mixing", "uniform"], "--mixing is for --model mop"),
    ("skip-chain", ["--order", "forward"], "--order is for --model mop"),
    ("mop", ["--damping", "0"], "--damping is for --model skip-chain"),
    ("mop", ["--max-rounds", "9"], "--max-rounds is for --model skip-chain"),
    ("mop", ["--decode", "map"], "--decode is for --model memm"),
    ("crf", ["--damping", "0.1"], "--damping is for --model skip-chain"),
    ("crf", ["--decode", "viterbi"], "(skip-chain has it too)"),
    ("memm", ["--max-rounds", "9"], "--max-rounds is for --model skip-chain"),
    ("maxent", ["--training", "bethe"], "(skip-chain has it too)"),
]


@pytest.mark.parametrize(("model", "options", "message"), FOREIGN_TO_TOKENS)
def test_options_of_other_token_models_are_refused(
    kinfolk: Any, world: Path, tmp_path: Path, model: str, options: list[str], message: str
):
    answer = train_tokens(kinfolk, world, tmp_path / "m", "--model", model, *options)
    assert_refused(answer, message, f"leave it out for --model {model}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("options", "message"), [
    (["--decode", "viterbi"], "--decode must be 'posterior' or 'map'; got 'viterbi'"),
    (["--damping", "1"], "--damping must be a number from 0 to below 1"),
    (["--max-rounds", "0"], "--max-rounds must be a whole number from 1 to 100000"),
    (["--most-recent", "-1"], "--most-recent must be a whole number of 1 or more"),
    (["--skip", "none", "--max-document-frequency", "3"], "--max-document-frequency is for --skip same-word"),
])  # fmt: skip
def test_settings_of_a_skip_chain_that_do_not_hold(
    kinfolk: Any, world: Path, tmp_path: Path, options: list[str], message: str
):
    assert_refused(train_tokens(kinfolk, world, tmp_path / "m", "--model", "skip-chain", *options), message)
    assert os.listdir(tmp_path) == []


# -- nodes --------------------------------------------------------------------------------------------


def test_a_link_model_from_file_to_scores(kinfolk: Any, ring: Path, tmp_path: Path):
    done = train_nodes(kinfolk, ring, tmp_path / "m", "--model", "link", *QUICK)
    assert (done.status, done.out) == (0, "")
    first, second, third, last = done.err.splitlines()
    assert first.startswith("trained on 12 nodes, 12 of them with labels to learn from; 2 features; 12 links ")
    assert second.startswith("converged after ") and third.startswith(f"{SETTLED}1 of 1 groups; ")
    assert last == f"wrote {tmp_path / 'm'}"
    graph = read_linqs(ring / "g.content", ring / "g.cites")
    model = kf.load_model(tmp_path / "m", kind="nodes").set_params(n_jobs=1)
    assert isinstance(model, LinkModel)
    for name in ("training", "l2", "damping", "max_rounds"):
        assert getattr(model, name) == getattr(LinkModel(), name)
    table = model.predict_proba(graph)
    assert np.array_equal(table, kf.load_model(ring / "link.kinfolk").predict_proba(graph))
    told = kinfolk("nodes", "predict", tmp_path / "m", *files(ring), "--json", "--jobs", "1").out.splitlines()
    assert [list(json.loads(line)["probabilities"].values()) for line in told] == table.tolist()
    scores = json.loads(kinfolk("nodes", "evaluate", tmp_path / "m", *files(ring), "--json", "--jobs", "1").out)
    assert scores["accuracy"] == pytest.approx(model.evaluate(graph).accuracy)


def test_every_option_reaches_the_link_model(kinfolk: Any, ring: Path, tmp_path: Path):
    done = train_nodes(
        kinfolk, ring, tmp_path / "m", "--model", "link", "--training", "pseudo", "--relations", "cites",
        "--damping", "0.5", "--max-rounds", "50", "--l2", "0.5", "--class-weight", "X=2", "--seed", "7", "--quiet",
    )  # fmt: skip
    assert (done.status, done.err) == (0, "")
    wanted = {
        "training": "pseudo", "relations": ["cites"], "damping": 0.5, "max_rounds": 50, "l2": 0.5,
        "class_weight": {"X": 2.0}, "random_state": 7,
    }  # fmt: skip
    params = kf.load_model(tmp_path / "m").get_params()
    assert {name: params[name] for name in wanted} == wanted


FOREIGN_TO_NODES = [
    ("link", ["--parent-features", "own"]), ("link", ["--mixing", "uniform"]), ("link", ["--orders", "10"]),
    ("link", ["--predict-orders", "50"]), ("link", ["--everybody-starts"]), ("mop", ["--damping", "0.3"]),
    ("mop", ["--max-rounds", "200"]),
]  # fmt: skip


@pytest.mark.parametrize(("model", "options"), FOREIGN_TO_NODES)
def test_options_of_the_other_node_model_are_refused(
    kinfolk: Any, ring: Path, tmp_path: Path, model: str, options: list[str]
):
    other = {"link": "mop", "mop": "link"}[model]
    answer = train_nodes(kinfolk, ring, tmp_path / "m", "--model", model, *options)
    assert_refused(answer, f"{options[0]} is for --model {other}; leave it out for --model {model}")
    assert os.listdir(tmp_path) == []


# -- both ---------------------------------------------------------------------------------------------


def test_what_may_be_optimised_is_the_models_to_say(kinfolk: Any, world: Path, ring: Path, tmp_path: Path):
    tokens, nodes = (train_tokens, world), (train_nodes, ring)
    cases = [(tokens, "skip-chain", "joint"), (tokens, "mop", "bethe"), (nodes, "link", "joint"), (nodes, "mop", "x")]
    for (train, place), model, word in cases:
        answer = train(kinfolk, place, tmp_path / "m", "--model", model, "--training", word)
        assert_refused(answer, "--training must be '", f"got '{word}'")
    assert os.listdir(tmp_path) == []


def test_pairwise_models_explain(kinfolk: Any, world: Path, chained: Path, ring: Path):
    answer = kinfolk("explain", chained, world / "test.conll", "--document", "0", "--token", "0")
    wanted = kf.load_model(chained).explain(kf.read_conll(world / "test.conll"), document=0, token=0)
    assert answer.out == f"{wanted}\n" and "the label behind" in answer.out
    answer = kinfolk("explain", ring / "link.kinfolk", *files(ring), "--node", "n1")
    assert answer.status == 0 and answer.out.startswith("n1: ") and "with probability" in answer.out


def test_models_of_the_other_kind(kinfolk: Any, world: Path, chained: Path, ring: Path):
    answer = kinfolk("nodes", "predict", chained, *files(ring))
    assert_refused(answer, chained, "expected a model of kind 'nodes'")
    answer = kinfolk("tokens", "tag", ring / "link.kinfolk", world / "test.conll")
    assert_refused(answer, ring / "link.kinfolk", "expected a model of kind 'tokens'")


def test_help_names_the_words_of_both(kinfolk: Any):
    for command in ("tokens", "nodes"):
        told = " ".join(kinfolk(command, "train", "--help").out.split())
        assert "joint" in told and "bethe" in told and "--max-rounds" in told
