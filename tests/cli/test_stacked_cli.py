"""`nodes train --model stacked | dependency-network` over any base, and `tokens train --model stacked`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from table_world import COLUMNS, TABLES, assert_refused, papers, write, write_papers

import kinfolk as kf
from kinfolk.cli.options import SHORT, new_base
from kinfolk.errors import SettingError
from kinfolk.graph.files import read_tables

UNKNOWN = ["sklearn.metrics._dist_metrics.EuclideanDistance64", "sklearn.neighbors._kd_tree.KDTree"]
QUICK = {
    "mlp": ["--base-setting", "hidden_layer_sizes=[4]", "--base-setting", "tol=0.01"],
    "hist-gradient-boosting": ["--base-setting", "max_iter=3"],
    "random-forest": ["--base-setting", "n_estimators=5"],
    "extra-trees": ["--base-setting", "n_estimators=5"],
}
NETWORK = ["--model", "dependency-network"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a*.csv and b*.csv of `write_papers`."""
    folder = tmp_path_factory.mktemp("shelf")
    write_papers(folder, "a", 60, 0)
    write_papers(folder, "b", 45, 1)
    return folder


def where(shelf: Path, name: str, kind: str = "") -> list[object]:
    return ["--nodes", shelf / f"{name}{kind}.csv", "--edges", shelf / f"{name}_links.csv", *TABLES, "--label", "topic"]


def graph(shelf: Path, name: str) -> kf.Graph:
    return read_tables(shelf / f"{name}.csv", shelf / f"{name}_links.csv", label="topic", **COLUMNS)


def train(kinfolk: Any, shelf: Path, out: Path, *options: object, model: str = "stacked") -> Any:
    return kinfolk("nodes", "train", *where(shelf, "a"), "--model", model, "--out", out, "--jobs", "1", *options)


def predicted(kinfolk: Any, shelf: Path, model: Path, *options: object) -> np.ndarray:
    told = kinfolk("nodes", "predict", model, *where(shelf, "b"), "--json", "--jobs", "1", *options)
    assert told.status == 0, told
    return np.array([list(json.loads(line)["probabilities"].values()) for line in told.out.splitlines()])


# -- models -------------------------------------------------------------------------------------------


FOLDS = {"stacked": ["--folds", "3"], "dependency-network": []}


@pytest.mark.parametrize("model", ["stacked", "dependency-network"])
def test_a_guard_tells_the_gain_over_the_local_model(kinfolk: Any, shelf: Path, tmp_path: Path, model: str):
    done = train(kinfolk, shelf, tmp_path / "m", *FOLDS[model], "--guard", "3", "--seed", "3", model=model)
    gain = kf.load_model(tmp_path / "m").gain_
    assert done.status == 0 and str(gain) in done.err.splitlines()
    assert ("its local model" in done.err) == (not gain.beats)
    command = [*FOLDS[model], "--guard", "3", "--seed", "3", "--json"]
    as_json = train(kinfolk, shelf, tmp_path / "m", *command, model=model)
    assert json.loads(as_json.out)["gain"] == pytest.approx(vars(gain))
    assert "gain" not in json.loads(train(kinfolk, shelf, tmp_path / "m", "--json", model=model).out)


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(("options", "told"), [
    (["--model", "stacked", "--depth", "1", "--guard", "3"],
     "error: --guard must be True or 5, the number of --folds, by which a stack is measured; got 3; set --guard 5, or "
     "--folds 3 too"),
    (["--model", "stacked", "--guard", "5", "--depth", "0"],
     "warning: --guard 5 has nothing to compare: there is no level above the base"),
    (["--model", "mop", "--guard", "2", "--relations", "none"],
     "warning: --guard 2 has nothing to compare: no links are used"),
    (["--model", "mop", "--guard", "2", "--l2", "1e9"], "The local model is that of --relations none"),
    (["--model", "dependency-network", "--guard", "2", "--base-setting", "C=1e-9"],
     "The local model is its base on own features, as --model stacked with --depth 0"),
    (["--model", "stacked", "--depth", "1", "--guard", "2", "--folds", "2", "--cross-fitting", "paper",
      "--base-setting", "C=1e-9"], "The local model is that of --depth 0, the base alone"),
], ids=str)  # fmt: skip
def test_what_is_said_of_the_gain_names_options_with_their_values(
    kinfolk: Any, shelf: Path, tmp_path: Path, options: list[str], told: str
):
    done = kinfolk("nodes", "train", *where(shelf, "a"), "--out", tmp_path / "m", "--jobs", "1", *options)
    assert told in done.err and "`" not in done.err


def test_every_setting_reaches_a_stacked_model(kinfolk: Any, shelf: Path, tmp_path: Path):
    done = train(
        kinfolk, shelf, tmp_path / "m", "--template", "mean:cites", "--template", "count:cites @ cites:hard",
        "--template", "mean:cited_by:features", "--depth", "2", "--folds", "4", "--predictions", "label", "--own",
        "--known", "crossfit", "--cross-fitting", "paper", "--split", "instance", "--seed", "3",
        "--base-setting", "C=0.5", "--quiet",
    )  # fmt: skip
    assert (done.status, done.out, done.err) == (0, "", "")
    model = kf.load_model(tmp_path / "m")
    wanted = {
        "depth": 2, "folds": 4, "predictions": "label", "own": True, "known": "crossfit", "cross_fitting": "paper",
        "split": "instance", "random_state": 3, "base__C": 0.5, "base__max_iter": 1000, "base__random_state": 3,
    }  # fmt: skip
    assert {name: model.get_params()[name] for name in wanted} == wanted
    templates = [kf.Mean("cites"), kf.Count("cites @ cites", hard=True), kf.Mean("cited_by", of="features")]
    assert model.templates == templates
    base = LogisticRegression(max_iter=1000, C=0.5, random_state=3)
    settings = {name: value for name, value in wanted.items() if not name.startswith("base__")}
    same = kf.StackedNodes(base, templates, **settings, n_jobs=1).fit(graph(shelf, "a"))
    assert np.array_equal(predicted(kinfolk, shelf, tmp_path / "m"), same.predict_proba(graph(shelf, "b")))


def test_every_setting_reaches_a_dependency_network(kinfolk: Any, shelf: Path, tmp_path: Path):
    settings: dict[str, Any] = {
        "start": "random", "burn_in": 3, "sweeps": 7, "chains": 2, "mode": "plain", "random_state": 5,
    }  # fmt: skip
    names = {"random_state": "--seed"}
    options = [w for n, v in settings.items() for w in (names.get(n, f"--{n.replace('_', '-')}"), v)]
    done = train(kinfolk, shelf, tmp_path / "m", *options, "--template", "mean:cites", model="dependency-network")
    assert (done.status, done.out) == (0, "")
    assert done.err.splitlines()[1] == "LogisticRegression, with neighbours by mean(cites)"
    model = kf.load_model(tmp_path / "m")
    assert {name: model.get_params()[name] for name in settings} == settings
    base = LogisticRegression(max_iter=1000, random_state=5)
    same = kf.DependencyNetwork(base, [kf.Mean("cites")], **settings, n_jobs=1).fit(graph(shelf, "a"))
    table = same.predict_proba(graph(shelf, "b"))
    assert np.array_equal(predicted(kinfolk, shelf, tmp_path / "m"), table)
    scores = json.loads(kinfolk("nodes", "evaluate", tmp_path / "m", *where(shelf, "b"), "--json", "--jobs", "1").out)
    assert scores["accuracy"] == pytest.approx(same.evaluate(graph(shelf, "b")).accuracy) and scores["nodes"] == 45


@pytest.mark.parametrize("model", ["stacked", "dependency-network"])
def test_the_graph_it_was_trained_on(kinfolk: Any, shelf: Path, tmp_path: Path, model: str):
    """Labels of --train-ids are remembered, also where the table of the second time has none."""
    (tmp_path / "train").write_text("\n".join(f"p{i}" for i in range(40)))
    (tmp_path / "rest").write_text("\n".join(f"p{i}" for i in range(40, 60)))
    done = train(kinfolk, shelf, tmp_path / "m", "--train-ids", tmp_path / "train", model=model)
    assert "60 nodes, 40 of them with labels" in done.err
    kinds = {"stacked": kf.StackedNodes, "dependency-network": kf.DependencyNetwork}
    whole = graph(shelf, "a")
    same = kinds[model](LogisticRegression(max_iter=1000, random_state=0), n_jobs=1).fit(whole, train=np.arange(40))
    right = same.predict(whole) == np.array(whole.labels)
    command = ["nodes", "evaluate", tmp_path / "m", *where(shelf, "a"), "--jobs", "1", "--json"]
    told = kinfolk(*command, "--ids", tmp_path / "rest")
    assert told.err == "" and json.loads(told.out)["accuracy"] == pytest.approx(100 * right[40:].mean())
    told = kinfolk(*command)
    assert told.err == "40 nodes were trained on: their labels are known, and they are not scored\n"
    assert json.loads(told.out)["nodes"] == 20
    nodes, _ = papers(60, 0)
    bare = write(tmp_path / "bare.csv", [{n: row[n] for n in ("paper", "length", "age")} for row in nodes])
    told = kinfolk("nodes", "predict", tmp_path / "m", "--nodes", bare, *where(shelf, "a")[2:-2], "--jobs", "1")
    assert [line.split("\t")[1] for line in told.out.splitlines()] == same.predict(whole).tolist()


@pytest.mark.parametrize("model", ["stacked", "dependency-network", "mop", "link"])
def test_tables_of_ids_and_labels_alone(kinfolk: Any, tmp_path: Path, model: str):
    """From training to a page about a node: links and known labels are all there is."""
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 2
    labels = [("cat", "dog")[k] if i < 40 else "" for i, k in enumerate(kind)]
    (tmp_path / "nodes.csv").write_text("id,topic\n" + "".join(f"n{i},{y}\n" for i, y in enumerate(labels)))
    pairs = {(i, j) for i, j in rng.integers(0, 60, (500, 2)).tolist() if i != j and kind[i] == kind[j]}
    (tmp_path / "links.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in sorted(pairs)))
    place = ["--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "links.csv", "--label", "topic"]
    more = ["--training", "pseudo"] if model == "link" else []
    out = tmp_path / "m.kinfolk"
    assert kinfolk("nodes", "train", *place, "--model", model, *more, "--out", out, "--jobs", "1").status == 0
    told = kinfolk("nodes", "predict", out, *place, "--forced", "--jobs", "1")
    answers = dict(line.split("\t") for line in told.out.splitlines())
    assert np.mean([answers[f"n{i}"] == ("cat", "dog")[kind[i]] for i in range(40, 60)]) > 0.8
    page = tmp_path / "node.html"
    assert kinfolk("explain", out, *place[:4], "--node", "n50", "--report", page).status == 0 and page.exists()


def test_the_same_command_gives_the_same_model(kinfolk: Any, shelf: Path, tmp_path: Path):
    forest = ["--base", "random-forest", "--base-setting", "n_estimators=5"]
    for name, jobs in (("a", "1"), ("b", "2")):
        train(kinfolk, shelf, tmp_path / name, *forest, "--jobs", jobs)
    one, two = (predicted(kinfolk, shelf, tmp_path / name) for name in "ab")
    assert np.array_equal(one, two)


# -- bases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT)
def test_every_short_name_from_table_to_scores(kinfolk: Any, shelf: Path, tmp_path: Path, name: str):
    done = train(kinfolk, shelf, tmp_path / "m", "--base", name, *QUICK.get(name, []), "--depth", "1", "--folds", "3")
    assert done.status == 0 and SHORT[name][1] in done.err
    told = predicted(kinfolk, shelf, tmp_path / "m")
    model = kf.load_model(tmp_path / "m").set_params(n_jobs=1)
    assert np.array_equal(told, model.predict_proba(graph(shelf, "b"))) and np.allclose(told.sum(axis=1), 1)
    again = kinfolk("nodes", "evaluate", tmp_path / "m", *where(shelf, "b"), "--jobs", "1", "--json")
    assert json.loads(again.out)["accuracy"] == pytest.approx(model.evaluate(graph(shelf, "b")).accuracy)


def test_a_pool_tells_its_weights(kinfolk: Any, shelf: Path, tmp_path: Path):
    done = train(kinfolk, shelf, tmp_path / "m", "--folds", "3")
    model = kf.load_model(tmp_path / "m")
    said = next(line for line in done.err.splitlines() if line.startswith("a pool of "))
    assert done.status == 0 and all((f"{name} {w:.2f}" in said) == (w > 0) for name, w in model.weights_.items())
    told = train(kinfolk, shelf, tmp_path / "m", "--folds", "3", "--json")
    assert json.loads(told.out)["weights"] == model.weights_


@pytest.mark.parametrize("levels", [[], ["--depth", "1"]], ids=["pool", "levels"])
def test_what_is_not_known_to_be_safe_is_named(kinfolk: Any, shelf: Path, tmp_path: Path, levels: list[str]):
    options = ["--base", "KNeighborsClassifier", "--base-setting", "algorithm=kd_tree", "--folds", "3", *levels]
    trust = [word for one in UNKNOWN for word in ("--trust", one)]
    done = train(kinfolk, shelf, tmp_path / "m", *options)
    assert f"to be read with {' '.join(trust)}\n" in done.err
    refused = kinfolk("nodes", "predict", tmp_path / "m", *where(shelf, "b"))
    assert_refused(refused, f"not known to be safe: {', '.join(UNKNOWN)}. If you trust the file, say")
    assert np.allclose(predicted(kinfolk, shelf, tmp_path / "m", *trust).sum(axis=1), 1)


@pytest.mark.parametrize("name", SHORT)
def test_every_short_name_on_words(kinfolk: Any, shelf: Path, tmp_path: Path, name: str):
    """Features are sparse here; what to trust, training says."""
    options = ["--base", name, *QUICK.get(name, []), "--folds", "3", "--text", "title", "--jobs", "1"]
    command = ["nodes", "train", *where(shelf, "a", "_words"), "--model", "stacked", "--out", tmp_path / "m"]
    done = kinfolk(*command, *options)
    assert done.status == 0, done.err
    said = next((line for line in done.err.splitlines() if line.startswith("to be read with ")), "")
    trust = said.removeprefix("to be read with ").split()
    told = kinfolk("nodes", "evaluate", tmp_path / "m", *where(shelf, "b", "_words"), *trust, "--jobs", "1")
    assert told.status == 0, told.err


def test_bases_by_class_name_and_settings():
    base = new_base("LogisticRegression", ["C=0.1", "class_weight=balanced", "fit_intercept=false"], 7)
    assert base.get_params()["max_iter"] == 100, "a class name is the class as it is"
    assert (base.C, base.class_weight, base.fit_intercept, base.random_state) == (0.1, "balanced", False, 7)
    assert new_base("logistic", ["random_state=3", "max_iter=9"], 7).get_params()["random_state"] == 3
    assert new_base("MLPClassifier", ["hidden_layer_sizes=[3, 2]"], 0).hidden_layer_sizes == [3, 2]
    assert new_base("GaussianNB", [], 0).get_params()["priors"] is None


WRONG_BASES = {
    "a short name mistyped": ("randomforest", [], "did you mean random-forest or RandomForestClassifier"),
    "a class mistyped": ("logisticregression", [], "did you mean LogisticRegression"),
    "nothing like it": ("zzz", [], "there are: logistic, naive-bayes, "),
    "a regressor": ("LinearRegression", [], "must be a classifier, and scikit-learn's LinearRegression is none"),
    "a transformer": ("StandardScaler", [], "must be a classifier"),
    "built of others": ("VotingClassifier", [], "built of other classifiers"),
    "built of others without saying so": ("SelfTrainingClassifier", [], "built of other classifiers"),
    "no value": ("logistic", ["C"], "--base-setting takes name=value, e.g. C=0.1"),
    "no name": ("logistic", ["=1"], "--base-setting takes name=value"),
    "a setting mistyped": ("logistic", ["maxiter=3"], "has no setting 'maxiter'; did you mean max_iter?"),
    "no such setting": ("naive-bayes", ["qqq=3"], "has no setting 'qqq'; there are: "),
}  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "message"), WRONG_BASES.values(), ids=WRONG_BASES.keys())
def test_bases_that_are_not_there(kinfolk: Any, shelf: Path, tmp_path: Path, name: str, settings: Any, message: str):
    with pytest.raises(SettingError, match="--base"):
        new_base(name, settings, 0)
    options = ["--base", name, *(word for one in settings for word in ("--base-setting", one))]
    assert_refused(train(kinfolk, shelf, tmp_path / "m", *options), message)
    assert_refused(train(kinfolk, shelf, tmp_path / "m", *options, model="dependency-network"), message)
    assert os.listdir(tmp_path) == []


def test_what_a_base_refuses_is_one_line(kinfolk: Any, shelf: Path, tmp_path: Path):
    bad = train(kinfolk, shelf, tmp_path / "m", "--base-setting", "C=-1")
    assert_refused(bad, "the base LogisticRegression refuses: The 'C' parameter of LogisticRegression must be")
    negative = train(kinfolk, shelf, tmp_path / "m", "--base", "MultinomialNB")
    assert_refused(negative, "the base MultinomialNB refuses: Negative values")
    few = train(kinfolk, shelf, tmp_path / "m", "--base", "knn", "--base-setting", "n_neighbors=55")
    assert_refused(few, "the base KNeighborsClassifier refuses: Expected n_neighbors <= n_samples_fit")
    assert os.listdir(tmp_path) == []


@pytest.mark.filterwarnings("default")
def test_a_warning_of_many_bases_is_told_once(kinfolk: Any, shelf: Path, tmp_path: Path):
    done = train(kinfolk, shelf, tmp_path / "m", "--base-setting", "max_iter=2")
    assert done.status == 0
    told = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert len(told) == 1 and "failed to converge" in told[0] and told[0].endswith(" times)")
    assert len(done.err.splitlines()) == 4


# -- mistakes -----------------------------------------------------------------------------------------

MISTAKES = {
    "a relation that is not there": (["--template", "count:likes"], "there is no relation 'likes' here; there are: '"),
    "a template nobody can read": (["--template", "sum:cites"], "cannot read the template 'sum:cites'; write it as"),
    "a template for tokens": (["--template", "window:3"], "is about tokens in sentences, and this is a graph"),
    "a template twice": (["--template", "count:cites", "--template", "count:cites"], "two templates are the same"),
    "more folds than nodes": (["--folds", "99"], "needs as many labelled instances; there are 60: set --folds 60"),
    "too few folds": (["--folds", "1"], "--folds must be 2 or more"),
    "too few folds for the depth": (["--folds", "2", "--depth", "3"], "--cross-fitting paper"),
    "a negative depth": (["--depth", "-1"], "--depth must be a whole number of 0 or more"),
    "no such predictions": (["--predictions", "vote"], "--predictions must be"),
    "no such knowledge": (["--known", "none"], "--known must be"),
    "no such way to cross-fit": (["--cross-fitting", "lax"], "--cross-fitting must be"),
    "a negative seed": (["--seed", "-1"], "--seed must be"),
    "fast for any base": ([*NETWORK, "--base", "naive-bayes", "--mode", "fast"], "--mode fast needs LogisticReg"),
    "no such start": ([*NETWORK, "--start", "warm"], "--start must be"),
    "no sweeps": ([*NETWORK, "--sweeps", "0"], "--sweeps must be"),
    "what stacks know": ([*NETWORK, "--known", "crossfit"], "--known is for --model stacked; leave it out for"),
    "depth of a network": ([*NETWORK, "--depth", "1"], "--depth is for --model stacked; leave it out for"),
    "sweeps of a stack": (["--sweeps", "9"], "--sweeps is for --model dependency-network"),
    "ridge of a stack": (["--l2", "1"], "--l2 is for --model mop; leave it out for --model stacked (link has it too)"),
    "base of a mixture": (["--model", "mop", "--base", "knn"], "--base is for --model stacked; leave it out for"),
    "relations of a stack": (["--relations", "cites"], "--relations is for --model mop"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line(kinfolk: Any, shelf: Path, tmp_path: Path, options: list[str], message: str):
    done = train(kinfolk, shelf, tmp_path / "m", *options)
    assert_refused(done, message)
    assert os.listdir(tmp_path) == []


def test_labels_that_cannot_be_learned_from(kinfolk: Any, shelf: Path, tmp_path: Path):
    nodes, _ = papers(60, 0)
    one = write(tmp_path / "one.csv", [{**row, "topic": "ML"} for row in nodes])
    none = write(tmp_path / "none.csv", [{**row, "topic": ""} for row in nodes])
    few = write(tmp_path / "few.csv", [{**row, "topic": row["topic"] if i < 3 else ""} for i, row in enumerate(nodes)])
    for model in ("stacked", "dependency-network"):
        for file, told in ((one, "all training labels are 'ML'"), (none, "training needs labels")):
            command = ["nodes", "train", "--nodes", file, *where(shelf, "a")[2:], "--text", "title", "--model", model]
            assert_refused(kinfolk(*command, "--out", tmp_path / "m"), told)
    command = ["nodes", "train", "--nodes", few, *where(shelf, "a")[2:], "--text", "title", "--model", "stacked"]
    command += ["--depth", "1"]
    assert_refused(kinfolk(*command, "--out", tmp_path / "m"), "there are 3: set --folds 3 or fewer")


# -- tokens -------------------------------------------------------------------------------------------


def test_a_stacked_tagger(kinfolk: Any, world: Path, tmp_path: Path):
    command = ["tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", "--model", "stacked"]
    done = kinfolk(*command, "--l2", "0.5", "--folds", "3", "--depth", "1", "--seed", "2", "--tolerance", "0.01")
    first, second, third, fourth, last = done.err.splitlines()
    assert (done.status, done.out) == (0, "") and first.startswith("trained on 12 documents, ")
    assert second == "LinearChainCRF on own features, then 1 level with neighbours by window(3), count(same word)"
    assert third.startswith("level 0: converged after ") and fourth.startswith("level 1: converged after ")
    assert last == f"wrote {tmp_path / 'm'}"
    model, test = kf.load_model(tmp_path / "m", kind="tokens"), kf.read_conll(world / "test.conll")
    assert (model.depth, model.folds, model.random_state, model.base.l2) == (1, 3, 2, 0.5)
    crf = kf.LinearChainCRF(l2=0.5, random_state=2, tolerance=0.01, n_jobs=1)
    same = kf.StackedTagger(crf, folds=3, random_state=2, n_jobs=1).fit(kf.read_conll(world / "train.conll"))
    told = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll").out
    blocks = [block for block in told.split("\n\n") if block.strip() and not block.startswith("-DOCSTART-")]
    assert [[line.split()[-1] for line in block.split("\n")] for block in blocks] == same.predict(test)
    scores = json.loads(kinfolk("tokens", "evaluate", tmp_path / "m", world / "test.conll", "--json").out)
    assert scores["f1"] == pytest.approx(100 * same.score(test))
    found = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll", "--entities").out.splitlines()
    assert len(found) == scores["predicted"]
    best = kinfolk("tokens", "tag", tmp_path / "m", world / "test.conll", "--k-best", "2").out.splitlines()
    assert [json.loads(line)[0]["labels"] for line in best] == same.predict(test)
    asked = kinfolk("explain", tmp_path / "m", world / "test.conll", "--document", "0", "--token", "0")
    assert "with probability" in asked.out and "window(3)" in asked.out  # what neighbours told has a name


@pytest.mark.filterwarnings("always::kinfolk.errors.DataWarning")
def test_a_stacked_tagger_of_words_alone(kinfolk: Any, tmp_path: Path):
    """Plain text, labels that are kept, files without labels."""
    text = (
        "-DOCSTART- O\n\nKim B-PER\nleft O\n\n-DOCSTART- O\n\nRome B-LOC\nslept O\n\n-DOCSTART- O\n\nKim B-PER\nran O\n"
    )
    (tmp_path / "t.conll").write_text(text)
    done = kinfolk("tokens", "train", "--train", tmp_path / "t.conll", "--out", tmp_path / "m", "--model", "stacked",
                   "--folds", "3", "--quiet")  # fmt: skip
    assert done.status == 0 and done.err.count("\n") == 1
    assert done.err.startswith("warning: 3 of 3 sentences of the training data are documents of their own")
    told = kinfolk("tokens", "tag", tmp_path / "m", "--format", "text", stdin=b"Kim left Rome .\n")
    assert told.status == 0
    assert [line.split()[0] for line in told.out.splitlines() if line.endswith(("O", "PER", "LOC"))][-4:] == [
        "Kim", "left", "Rome", ".",
    ]  # fmt: skip
    forced = kinfolk("tokens", "tag", tmp_path / "m", "--forced", stdin=b"Kim B-LOC\nleft ?\n")
    assert forced.out.startswith("Kim B-LOC B-LOC\n")


@pytest.mark.parametrize(("options", "message"), [
    (["--model", "crf", "--depth", "2"], "--depth is for --model stacked; leave it out for --model crf"),
    (["--model", "memm", "--folds", "2"], "--folds is for --model stacked"),
    (["--depth", "-1"], "--depth must be"),
    (["--folds", "1"], "--folds must be 2 or more"),
    (["--skip", "none"], "--skip is for --model mop"),
    (["--l2", "-1"], "l2"),
])  # fmt: skip
def test_mistakes_with_a_stacked_tagger(kinfolk: Any, world: Path, tmp_path: Path, options: list[str], message: str):
    command = ["tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", "--model", "stacked"]
    assert_refused(kinfolk(*command, *options), message)
    assert os.listdir(tmp_path) == []


def test_a_stacked_tagger_is_stopped_by_held_out_data(kinfolk: Any, world: Path, tmp_path: Path):
    command = ["tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", "--model", "stacked"]
    done = kinfolk(*command, "--dev", world / "test.conll", "--tolerance", "0.1", "--quiet")
    assert done.status == 0
    levels = kf.load_model(tmp_path / "m").levels_
    assert all(level.convergence_.dev_scores for level in levels)


def test_one_document_is_not_enough_to_stack(kinfolk: Any, tmp_path: Path):
    (tmp_path / "one.conll").write_text("-DOCSTART- O\n\nKim B-PER\nleft O\n\nRome B-LOC\n")
    command = ["tokens", "train", "--train", tmp_path / "one.conll", "--out", tmp_path / "m", "--model", "stacked"]
    assert_refused(kinfolk(*command), "needs 2 labelled documents or more; there is 1", "or set --depth 0")
    assert kinfolk(*command, "--depth", "0").status == 0
