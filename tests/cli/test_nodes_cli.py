"""`kinfolk nodes train | predict | evaluate`: files in, model, labels and tables out, and every mistake one line."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core.files import read_utf8
from kinfolk.datasets.linqs import read_linqs

FEW = ["--orders", "2", "--predict-orders", "3", "--jobs", "1"]


def write_web(folder: Path, name: str, n: int, seed: int) -> None:
    """Two classes; words tell them in most nodes, and links mostly stay within a class."""
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n)
    words = rng.binomial(1, np.where(label[:, None] == np.arange(6) % 2, 0.7, 0.2))
    lines = [f"{name}{i}\t" + "\t".join(map(str, words[i])) + f"\t{'XY'[label[i]]}\n" for i in range(n)]
    (folder / f"{name}.content").write_text("".join(lines))
    near = label[:, None] == label
    pairs = np.argwhere((rng.random((n, n)) < np.where(near, 0.15, 0.01)) & ~np.eye(n, dtype=bool))
    (folder / f"{name}.cites").write_text("".join(f"{name}{i} {name}{j}\n" for i, j in pairs))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a.content, a.cites, b.content, b.cites, and a model of a: a.kinfolk."""
    folder = tmp_path_factory.mktemp("web")
    write_web(folder, "a", 40, 0)
    write_web(folder, "b", 30, 1)
    graph = read_linqs(folder / "a.content", folder / "a.cites")
    kf.MixtureNodes(orders=2, predict_orders=3, n_jobs=1).fit(graph).save(folder / "a.kinfolk")
    return folder


def files(web: Path, *names: str) -> list[object]:
    return [part for n in names for part in ("--nodes", web / f"{n}.content", "--edges", web / f"{n}.cites")]


def assert_refused(answer: Any, *parts: object) -> None:
    """One line on standard error that holds all the parts, status 2, nothing on standard output."""
    assert answer.status == 2 and answer.out == "", answer
    assert answer.err.startswith("error: ") and answer.err.count("\n") == 1, answer.err
    for part in parts:
        assert str(part) in answer.err


def test_training_writes_the_model_the_library_would(kinfolk: Any, web: Path, tmp_path: Path):
    done = kinfolk("nodes", "train", *files(web, "a"), "--out", tmp_path / "m", *FEW)
    assert (done.status, done.out) == (0, "")
    first, second, last = done.err.splitlines()
    assert first.startswith("trained on 40 nodes, 40 of them with labels to learn from; 6 features; ")
    assert "links 'cites'" in first and second.startswith("converged after ") and last == f"wrote {tmp_path / 'm'}"
    graph = read_linqs(web / "b.content", web / "b.cites")
    one, other = (kf.load_model(path).predict_proba(graph) for path in (web / "a.kinfolk", tmp_path / "m"))
    assert (one == other).all()


def test_every_setting_reaches_the_model(kinfolk: Any, web: Path, tmp_path: Path):
    done = kinfolk(
        "nodes", "train", *files(web, "a"), "--out", tmp_path / "m", *FEW, "--training", "conditional",
        "--relations", "cited_by, cites", "--parent-features", "shared", "--mixing", "learned", "--everybody-starts",
        "--l2", "0.5", "--class-weight", "X=2", "--max-iterations", "250", "--tolerance", "0.001", "--seed", "7",
        "--model", "mop", "--quiet",
    )  # fmt: skip
    assert (done.status, done.out, done.err) == (0, "", "")
    model = kf.load_model(tmp_path / "m", kind="nodes")
    wanted = {
        "training": "conditional", "relations": ["cited_by", "cites"], "parent_features": "shared",
        "mixing": "learned", "everybody_starts": True, "l2": 0.5, "class_weight": {"X": 2.0}, "max_iterations": 250,
        "tolerance": 0.001, "random_state": 7, "orders": 2, "predict_orders": 3,
    }  # fmt: skip
    assert {name: model.get_params()[name] for name in wanted} == wanted
    assert model.parents_.links == ("cited_by", "cites")


def test_only_the_labels_of_listed_nodes_are_used(kinfolk: Any, web: Path, tmp_path: Path):
    (tmp_path / "ids").write_text("".join(f"a{i}\r\n" for i in range(30)) + "\n")
    done = kinfolk("nodes", "train", *files(web, "a"), "--out", tmp_path / "m", "--train-ids", tmp_path / "ids", *FEW)
    assert done.status == 0 and "40 nodes, 30 of them with labels" in done.err
    graph = read_linqs(web / "a.content", web / "a.cites")
    wanted = kf.MixtureNodes(orders=2, predict_orders=3, n_jobs=1).fit(graph, train=np.arange(30))
    assert (kf.load_model(tmp_path / "m").predict_proba(graph) == wanted.predict_proba(graph)).all()
    (tmp_path / "ids").write_text("a1\n\nzebra\n")
    for verb in (["train", "--out", tmp_path / "n", "--train-ids"], ["evaluate", web / "a.kinfolk", "--ids"]):
        answer = kinfolk("nodes", *verb, tmp_path / "ids", *files(web, "a"))
        assert_refused(answer, f"{tmp_path / 'ids'}, line 3: expected the id of a node, got 'zebra'")
    (tmp_path / "ids").write_text("\n")
    answer = kinfolk("nodes", "evaluate", web / "a.kinfolk", "--ids", tmp_path / "ids", *files(web, "a"))
    assert_refused(answer, f"{tmp_path / 'ids'}: no ids")


def test_answers_for_the_nodes_that_are_named(kinfolk: Any, web: Path, tmp_path: Path):
    (tmp_path / "new").write_text("b7\nb2\n")
    command = ["nodes", "predict", web / "a.kinfolk", *files(web, "b"), "--jobs", "1"]
    whole = dict(line.split("\t") for line in kinfolk(*command).out.splitlines())
    told = kinfolk(*command, "--only", tmp_path / "new")
    assert told.status == 0 and told.out == "".join(f"{key}\t{whole[key]}\n" for key in ("b7", "b2"))
    as_json = kinfolk(*command, "--json", "--only", tmp_path / "new").out.splitlines()
    assert [json.loads(line)["id"] for line in as_json] == ["b7", "b2"]
    scored = kinfolk("nodes", "evaluate", web / "a.kinfolk", *files(web, "b"), "--only", tmp_path / "new", "--json")
    assert json.loads(scored.out)["nodes"] == 2
    (tmp_path / "new").write_text("b7\nzebra\n")
    assert_refused(kinfolk(*command, "--only", tmp_path / "new"), "line 2: expected the id of a node, got 'zebra'")
    engine = kinfolk(*command, "--only", tmp_path / "new", "--engine", "duckdb", "-o", tmp_path / "x.parquet")
    assert_refused(engine, "--only cannot be had from an engine")


def test_several_graphs_are_read_together(kinfolk: Any, web: Path, tmp_path: Path):
    done = kinfolk("nodes", "train", *files(web, "a", "b"), "--out", tmp_path / "m", *FEW)
    assert done.status == 0 and "trained on 70 nodes" in done.err
    told = kinfolk("nodes", "predict", tmp_path / "m", *files(web, "b", "a"), "--jobs", "1")
    assert [line.split("\t")[0] for line in told.out.splitlines()] == [
        *(f"b{i}" for i in range(30)), *(f"a{i}" for i in range(40)),
    ]  # fmt: skip


def test_labels_probabilities_and_json(kinfolk: Any, web: Path, tmp_path: Path):
    graph = read_linqs(web / "b.content", web / "b.cites")
    table = kf.load_model(web / "a.kinfolk").set_params(n_jobs=1).predict_proba(graph)
    labels = ["XY"[best] for best in table.argmax(axis=1)]
    command = ["nodes", "predict", web / "a.kinfolk", *files(web, "b"), "--jobs", "1"]
    plain = kinfolk(*command)
    assert plain.status == 0
    assert plain.out == "".join(f"{key}\t{label}\n" for key, label in zip(graph.ids, labels, strict=True))
    with_chances = [line.split("\t") for line in kinfolk(*command, "--proba").out.splitlines()]
    assert [row[1] for row in with_chances] == labels
    assert np.allclose([[float(one) for one in row[2:]] for row in with_chances], table, atol=1e-6)
    assert "columns: id, label, probability_X, probability_Y\n" in kinfolk(*command, "--proba").err
    assert kinfolk(*command, "--output", tmp_path / "out.tsv").out == ""
    assert (tmp_path / "out.tsv").read_text() == plain.out
    for name, more, head in (
        ("out.csv", [], "id,label"),
        ("out.CSV.gz", ["--proba"], "id,label,probability_X,probability_Y"),
    ):
        assert kinfolk(*command, *more, "-o", tmp_path / name).out == ""
        text = read_utf8(tmp_path / name)[0].decode()
        first, *rows = csv.reader(text.splitlines())
        assert text.startswith(f"{head}\n") and first == head.split(",") and "\r" not in text
        assert [row[:2] for row in rows] == [list(pair) for pair in zip(graph.ids, labels, strict=True)]
        assert [row[2:] for row in rows] == [row[2:] if more else [] for row in with_chances]
    objects = [json.loads(line) for line in kinfolk(*command, "--json").out.splitlines()]
    assert [o["id"] for o in objects] == list(graph.ids) and [o["label"] for o in objects] == labels
    assert [list(o["probabilities"].values()) for o in objects] == table.tolist()


def test_forced_labels_are_kept_and_seen(kinfolk: Any, web: Path, tmp_path: Path):
    lines = (web / "b.content").read_text().splitlines()
    flip = {"X": "Y", "Y": "X"}
    gaps = [line[:-1] + (flip[line[-1]] if i % 3 else "?") for i, line in enumerate(lines)]
    (tmp_path / "gaps.content").write_text("\n".join(gaps))
    command = ["nodes", "predict", web / "a.kinfolk", "--nodes", tmp_path / "gaps.content", "--edges", web / "b.cites"]
    forced = kinfolk(*command, "--forced", "--proba", "--jobs", "1").out.splitlines()
    free = kinfolk(*command, "--proba", "--jobs", "1").out.splitlines()
    for i, (line, told) in enumerate(zip(gaps, forced, strict=True)):
        certain = ["1.000000", "0.000000"] if line[-1] == "X" else ["0.000000", "1.000000"]
        assert not i % 3 or told.split("\t")[1:] == [line[-1], *certain]
    assert forced[::3] != free[::3], "neighbours see them"


def test_a_graph_without_labels_can_be_predicted(kinfolk: Any, web: Path, tmp_path: Path):
    bare = [line[:-1] + "?" for line in (web / "b.content").read_text().splitlines()]
    (tmp_path / "bare.content").write_text("\n".join(bare))
    where = ["--nodes", tmp_path / "bare.content", "--edges", web / "b.cites", "--jobs", "1"]
    whole = kinfolk("nodes", "predict", web / "a.kinfolk", *files(web, "b"), "--jobs", "1").out
    for options in ([], ["--forced"]):
        assert kinfolk("nodes", "predict", web / "a.kinfolk", *where, *options).out == whole
    assert_refused(kinfolk("nodes", "evaluate", web / "a.kinfolk", *where), "scoring needs labels")
    assert_refused(kinfolk("nodes", "train", *where, "--out", tmp_path / "m"), "training needs labels")
    assert not (tmp_path / "m").exists()


def test_nodes_without_features(kinfolk: Any, web: Path, tmp_path: Path):
    """Links and classes alone."""
    lines = (line.split("\t") for line in (web / "a.content").read_text().splitlines())
    (tmp_path / "bare.content").write_text("".join(f"{cells[0]}\t{cells[-1]}\n" for cells in lines))
    where = ["--nodes", tmp_path / "bare.content", "--edges", web / "a.cites"]
    assert kinfolk("nodes", "train", *where, "--out", tmp_path / "m", *FEW).status == 0
    told = kinfolk("nodes", "predict", tmp_path / "m", *where, "--forced", "--jobs", "1")
    assert told.status == 0 and len(told.out.splitlines()) == 40
    assert_refused(
        kinfolk("nodes", "predict", tmp_path / "m", *files(web, "a"), "--jobs", "1"), "expected 0 features, got 6"
    )


def test_scores_over_all_or_some_nodes(kinfolk: Any, web: Path, tmp_path: Path):
    graph = read_linqs(web / "b.content", web / "b.cites")
    model = kf.load_model(web / "a.kinfolk").set_params(n_jobs=1)
    right = model.predict(graph) == np.array(graph.labels)
    command = ["nodes", "evaluate", web / "a.kinfolk", *files(web, "b"), "--jobs", "1"]
    whole = kinfolk(*command)
    head, first, second = whole.out.splitlines()
    assert (
        head
        == f"30 nodes; accuracy {100 * right.mean():.2f} %"
        == f"30 nodes; accuracy {model.evaluate(graph).accuracy:.2f} %"
    )
    assert first.startswith("X  precision ") and second.startswith("Y  precision ")
    (tmp_path / "ids").write_text("b3\nb4\nb4\nb17\n")
    part = json.loads(kinfolk(*command, "--ids", tmp_path / "ids", "--json").out)
    assert part["nodes"] == 3 and part["accuracy"] == pytest.approx(100 * right[[3, 4, 17]].mean())
    assert sum(c["gold"] for c in part["classes"].values()) == 3
    assert sum(c["correct"] for c in part["classes"].values()) == right[[3, 4, 17]].sum()


def test_pages_of_webkb(kinfolk: Any, tmp_path: Path):
    rng = np.random.default_rng(0)
    for kind, word in (("student", "hobby"), ("course", "homework")):
        folder = tmp_path / "webkb" / kind / "texas"
        folder.mkdir(parents=True)
        for i in range(6):
            other = f"http://t.edu/{kind}{rng.integers(6)}.html"
            text = f"<title>{word}</title>" + f"{word} page of texas " * 5 + f"<a href={other}>{word}</a>"
            (folder / f"http:^^t.edu^{kind}{i}.html").write_text(f"Server: x\n\n{text}")
    where = ["--format", "webkb", "--nodes", tmp_path / "webkb", "--jobs", "1"]
    done = kinfolk("nodes", "train", *where, "--out", tmp_path / "m", "--orders", "2", "--predict-orders", "2")
    assert done.status == 0 and "trained on 12 nodes" in done.err and "links 'links'" in done.err
    told = kinfolk("nodes", "evaluate", tmp_path / "m", *where)
    assert told.out.startswith("12 nodes; accuracy 100.00 %\n")
    same = kinfolk("nodes", "evaluate", tmp_path / "m", *where[2:])
    assert same == told, "a folder tells the format"
    assert_refused(kinfolk("nodes", "predict", tmp_path / "m", *where, "--edges", "x"), "--edges is for tables")
    assert_refused(kinfolk("nodes", "predict", tmp_path / "m", *where, "--nodes", "x"), "webkb takes one --nodes")


BAD_SETTINGS = {
    "a negative ridge": (["--l2", "-1"], "l2"),
    "no orders": (["--orders", "0"], "orders"),
    "a negative seed": (["--seed", "-1"], "--seed must be"),
    "no threads": (["--jobs", "0"], "--jobs must be"),
    "a relation that is not there": (["--relations", "likes"], "there is no relation 'likes' here"),
    "a weight without number": (["--class-weight", "X"], "--class-weight takes label=number"),
    "a weight of no class": (["--class-weight", "Z=2"], "'Z'"),
}


@pytest.mark.parametrize(("options", "message"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_settings_outside_their_range(kinfolk: Any, web: Path, tmp_path: Path, options: list[str], message: str):
    assert_refused(kinfolk("nodes", "train", *files(web, "a"), "--out", tmp_path / "m", *options), message)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("options", [["--model", "crf"], ["--training", "x"], ["--mixing", "given"], ["--format", "x"]])
def test_words_that_are_not_understood(kinfolk: Any, web: Path, options: list[str]):
    answer = kinfolk("nodes", "train", *files(web, "a"), "--out", "m", *options)
    assert answer.status == 2 and "Traceback" not in answer.err and options[0] in answer.err.splitlines()[-1]


def test_faults_of_the_files(kinfolk: Any, web: Path, tmp_path: Path):
    train = ["nodes", "train", "--out", tmp_path / "m"]
    assert_refused(kinfolk(*train, "--nodes", web / "a.content"), "needs --edges")
    missing = kinfolk(*train, "--nodes", tmp_path / "no", "--edges", web / "a.cites")
    assert_refused(missing, tmp_path / "no", "no such file")
    uneven = kinfolk(*train, *files(web, "a"), "--edges", web / "b.cites")
    assert_refused(uneven, "got 1 of nodes and 2 of links")
    (tmp_path / "bad.content").write_text("a\t1\tX\nb\tmany\tX\n")
    bad = kinfolk(*train, "--nodes", tmp_path / "bad.content", "--edges", web / "a.cites")
    assert_refused(bad, f"{tmp_path / 'bad.content'}, line 2: expected a number")
    (tmp_path / "new.content").write_text((web / "b.content").read_text() + "new\t0\t0\t0\t0\t0\t0\tZ\n")
    where = ["--nodes", tmp_path / "new.content", "--edges", web / "b.cites", "--jobs", "1"]
    answer = kinfolk("nodes", "predict", "--forced", web / "a.kinfolk", *where)
    assert answer.status == 2 and "label 'Z' of node 'new' was never seen in training" in answer.err
    answer = kinfolk("nodes", "evaluate", web / "a.kinfolk", *where)
    assert answer.status == 0 and "labels that training never saw count as misses: Z" in answer.err
    assert sorted(os.listdir(tmp_path)) == ["bad.content", "new.content"]


def test_a_place_to_write_is_looked_for_before_training(kinfolk: Any, web: Path, tmp_path: Path, monkeypatch: Any):
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(kf.MixtureNodes, "fit", never)
    target = tmp_path / "no" / "m"
    assert_refused(kinfolk("nodes", "train", *files(web, "a"), "--out", target), target, "create it first")
    over = kinfolk("nodes", "train", *files(web, "a"), "--out", web / ".." / web.name / "a.cites")
    assert_refused(over, "would overwrite the data it is trained on")


def test_models_of_the_other_kind(kinfolk: Any, web: Path, world: Path):
    for verb in ("predict", "evaluate"):
        answer = kinfolk("nodes", verb, world / "crf.kinfolk", *files(web, "a"))
        assert_refused(answer, world / "crf.kinfolk", "expected a model of kind 'nodes'")
    for verb in ("tag", "evaluate"):
        answer = kinfolk("tokens", verb, web / "a.kinfolk", world / "test.conll")
        assert_refused(answer, web / "a.kinfolk", "expected a model of kind 'tokens'")


def test_known_labels_are_seen_and_not_scored(kinfolk: Any, web: Path, tmp_path: Path):
    graph = read_linqs(web / "b.content", web / "b.cites")
    (tmp_path / "known").write_text("\n".join(graph.ids[::2]))
    told = kinfolk("nodes", "evaluate", web / "a.kinfolk", *files(web, "b"), "--known-ids", tmp_path / "known",
                   "--jobs", "1", "--json")  # fmt: skip
    partly = graph.with_labels([y if i % 2 == 0 else None for i, y in enumerate(graph.labels)])
    predicted = kf.load_model(web / "a.kinfolk").predict(partly, forced=True)
    right = [predicted[i] == graph.labels[i] for i in range(1, 30, 2)]
    answer = json.loads(told.out)
    assert answer["nodes"] == 15 and answer["accuracy"] == pytest.approx(100 * np.mean(right))


def test_a_model_of_the_nodes_alone(kinfolk: Any, web: Path, tmp_path: Path):
    done = kinfolk("nodes", "train", *files(web, "a"), "--out", tmp_path / "m", "--relations", "none", *FEW)
    assert done.status == 0 and kf.load_model(tmp_path / "m").parents_.links == ()
