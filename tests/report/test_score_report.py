"""Pages about scores: the same answer as without, what stands in them, and the history of training they draw."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core.training import MOST, Convergence, Stage, combined, thinned
from kinfolk.errors import DataWarning, GainWarning, KinfolkError
from kinfolk.graph.page import node_mistakes
from kinfolk.linking.page import pair_mistakes, pair_part
from kinfolk.linking.scores import all_scores, pairs_after
from kinfolk.report.training import _learned
from kinfolk.text.scores import token_mistakes
from small_world import TEST, TRAIN


def parts(path: Path) -> dict[str, Any]:
    """kind -> data of a page."""
    data = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    return {part["kind"]: part["data"] for part in json.loads(data[1])["parts"]}


def graph(n: int = 60) -> kf.Graph:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=n)
    rows = rng.normal(size=(n, 3))
    rows[:, 0] += 1.5 * labels
    source, target = np.arange(n - 1), np.arange(1, n)
    return kf.Graph(rows, labels=["ab"[k] for k in labels], relations={"next": np.stack([source, target], axis=1)})


# -- tokens -----------------------------------------------------------------------------------------------


def test_tokens_with_a_held_out_part(tmp_path: Path):
    model = kf.LinearChainCRF(n_jobs=1).fit(TRAIN, X_dev=TEST)
    page = tmp_path / "scores.html"
    entities, accuracy = model.evaluate(TEST, report=page)
    assert (entities, accuracy) == model.evaluate(TEST)
    scores, training = parts(page)["scores"], parts(page)["training"]
    assert scores["headline"][0] == ["entity F1", pytest.approx(entities.f1 / 100, abs=1e-5), scores["headline"][0][2]]
    assert [row[0] for row in scores["classes"]["rows"]] == [*entities.types, "all"]
    of_entities, of_tokens = scores["calibration"]
    assert sum(of_entities["counts"]) == entities.predicted and sum(of_tokens["counts"]) == TEST.n_tokens
    assert scores["headline"][-1][:2] == ["calibration error", of_entities["error"]]
    right = np.dot(of_entities["counts"], of_entities["observed"])
    assert right == pytest.approx(entities.correct, abs=1e-2)
    (matrix,) = scores["confusion"]
    assert matrix["labels"][:-1] == list(entities.types) and matrix["labels"][-1] == "O"
    assert np.sum(matrix["counts"]) == TEST.n_tokens
    (stage,) = training["stages"]
    assert stage["objective"][0] == list(range(1, model.convergence_.iterations + 1))
    assert stage["objective"][1][-1] == pytest.approx(model.convergence_.objective, rel=1e-4)
    assert stage["held_out"][0] == list(model.convergence_.dev_scores) and len(stage["warm"]) > 1
    assert stage["best"] == model.convergence_.best_iteration


def test_mistakes_are_runs_with_their_sentence():
    corpus = kf.Corpus.from_sentences(
        [["a", "b", "c", "d"], ["e", "f"]], [["x", "x", "y", "x"], ["x", "y"]], scheme=None
    )
    truth, path = np.array([0, 0, 1, 0, 0, 1]), np.array([0, 1, 0, 0, 1, 0])
    marginals = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.8, 0.2], [0.1, 0.9], [0.5, 0.5]])
    first, second = token_mistakes(corpus, truth, path, marginals, ["x", "y"])
    assert (first["before"], first["words"], first["after"], first["where"]) == ("", "e f", "", "document 1, token 0")
    assert first["labels"] == [["e", "x", "y", 0.9], ["f", "y", "x", 0.5]]
    assert (second["before"], second["words"], second["after"]) == ("a", "b c", "d")
    assert token_mistakes(corpus, path, path, marginals, ["x", "y"]) == []


def test_labels_that_are_not_spans_and_unknown_ones(tmp_path: Path):
    X, y = [["a", "b"], ["b", "a"]] * 5, [["N", "V"], ["V", "N"]] * 5
    model = kf.MaxEnt(n_jobs=1).fit(X, y)
    page = tmp_path / "scores.html"
    assert model.evaluate(X, [["N", None], ["V", "N"]] * 5, report=page) == (None, 100.0)
    scores = parts(page)["scores"]
    assert scores["headline"] == [["accuracy", 1.0, "of 15 tokens"]] and scores["mistakes"]["rows"] == []
    assert [row[0] for row in scores["classes"]["rows"]] == ["N", "V"]


def test_stages_of_a_mixture_are_named(tmp_path: Path):
    few = TRAIN.documents(0, 6)
    model = kf.MixtureTagger(n_jobs=1, mixing="learned", order="both", tolerance=0.5).fit(few)
    names = [stage.name for stage in model.convergence_.stages]
    assert names[:4] == ["forward: separate previous", "forward: separate same word", "forward: gate", "forward: joint"]
    assert names[4] == "backward: separate next" and len(names) == 8
    page, file = tmp_path / "scores.html", tmp_path / "model.kf"
    model.save(file)
    again = kf.load_model(file)
    assert again.convergence_ == model.convergence_
    assert again.evaluate(few, report=page) == model.evaluate(few)
    assert len(parts(page)["training"]["stages"]) == 8


def test_levels_of_a_stack_and_the_start_of_a_skip_chain(tmp_path: Path):
    few = TRAIN.documents(0, 4)
    base = kf.LinearChainCRF(n_jobs=1, tolerance=0.5)
    stacked, page = kf.StackedTagger(base, folds=2, depth=1, n_jobs=1).fit(few), tmp_path / "scores.html"
    assert stacked.evaluate(few, report=page) == stacked.evaluate(few)
    training = parts(page)["training"]
    assert [stage["name"] for stage in training["stages"]] == ["Level 0: optimiser", "Level 1: optimiser"]
    assert [name for name, _ in training["facts"]] == ["level 0", "level 1"]
    chosen = kf.StackedTagger(base, folds=2, n_jobs=1).fit(few)  # by what a level gains on folds not seen
    chosen.evaluate(few, report=page)
    assert dict(parts(page)["training"]["facts"])["gain"] == str(chosen.gain_)
    skip = kf.SkipChainCRF(n_jobs=1, training="piecewise", tolerance=0.5, update="all", held_out=0).fit(few)
    assert [stage.name for stage in skip.convergence_.stages] == ["linear chain", "piecewise"]


def test_a_page_that_cannot_be_written_is_told_first(tmp_path: Path, fitted: Any):
    with pytest.raises(KinfolkError, match="directory does not exist"):
        fitted.evaluate(TEST, report=tmp_path / "nowhere" / "scores.html")


# -- nodes ------------------------------------------------------------------------------------------------


def test_every_node_model_writes_one(tmp_path: Path):
    from sklearn.linear_model import LogisticRegression

    world = graph()
    models = {
        "LinkModel": kf.LinkModel(n_jobs=1),
        "MixtureNodes": kf.MixtureNodes(n_jobs=1, orders=2, predict_orders=2),
        "StackedNodes": kf.StackedNodes(LogisticRegression(), depth=1, folds=2, n_jobs=1),
        "DependencyNetwork": kf.DependencyNetwork(LogisticRegression(), burn_in=2, sweeps=5, n_jobs=1),
    }
    for name, model in models.items():
        page = tmp_path / f"{name}.html"
        model.fit(world, train=np.arange(60) < 40)
        answer = model.evaluate(world, report=page)
        assert answer == model.evaluate(world), name
        told = parts(page)
        assert told["scores"]["headline"][0][1] == pytest.approx(answer.accuracy / 100, abs=1e-5)
        assert np.sum(told["scores"]["confusion"][0]["counts"]) == 20, "those trained on are known"
        assert ("training" in told) == (name in ("LinkModel", "MixtureNodes")), name
    assert [s.name for s in models["LinkModel"].convergence_.stages] == ["node model", "bethe"]


def test_a_guarded_model_shows_its_gain(tmp_path: Path):
    from sklearn.linear_model import LogisticRegression

    for model in (
        kf.StackedNodes(LogisticRegression(), depth=1, folds=3, guard=3, n_jobs=1),
        kf.LinkModel(guard=2, n_jobs=1),
    ):
        with pytest.warns(GainWarning):
            model.fit(graph(), train=np.arange(60) < 40)
        page = tmp_path / "scores.html"
        model.evaluate(graph(), report=page)
        assert parts(page)["training"]["facts"][-1] == ["gain", str(model.gain_)]


def test_labels_that_training_never_saw_are_a_class_of_their_own(tmp_path: Path):
    world = graph()
    model = kf.MixtureNodes(n_jobs=1, orders=2, predict_orders=2).fit(world)
    strange = world.with_labels(["c", *world.labels[1:]], classes=["a", "b", "c"])
    model.evaluate(strange, report=tmp_path / "scores.html")
    (matrix,) = parts(tmp_path / "scores.html")["scores"]["confusion"]
    assert matrix["labels"] == ["a", "b", "(never seen in training)"] and np.sum(matrix["counts"][2]) == 1
    found = node_mistakes(["p", "q"], np.array([2, 0]), np.array([[0.3, 0.7], [0.9, 0.1]]), ["a", "b", "c"])
    assert found == [{"node": "p", "truth": "c", "predicted": "b", "sure": 0.7, "of_truth": 0.0}]


# -- pairs ------------------------------------------------------------------------------------------------


def people(n: int, seed: int) -> kf.Mentions:
    """Little is known of each, so that mistakes are made."""
    items = kf.generate_customers(n, typos=6.0, seed=seed)
    return replace(items, columns={name: items.columns[name] for name in ("given_name", "surname", "suburb")})


def test_a_linker_tells_rounds_and_pairs(tmp_path: Path):
    train, test = people(120, 1), people(80, 2)
    linker, page, file = kf.Linker(n_jobs=1, rounds=2).fit(train), tmp_path / "scores.html", tmp_path / "linker.kf"
    linker.save(file)
    again = kf.load_model(file)
    assert again.rounds_ == linker.rounds_ and again.rounds_[0].convergence.stages[0].objective
    answer = again.evaluate(test, report=page)
    assert answer == linker.evaluate(test)
    told = parts(page)
    after, before = (np.array(m["counts"]) for m in told["scores"]["confusion"])
    for counts, name in ((after, "pairs"), (before, "pairs before")):
        assert counts.sum() == answer[name]["pairs"] and counts[1, 1] == answer[name]["true_positives"]
        assert counts[0, 1] == answer[name]["false_positives"]
    rounds = told["training"]["rounds"]
    assert len(rounds["links"]) == len(linker.rounds_) and rounds["best"] == linker.best_round_
    assert len(linker.rounds_) > 1 and told["scores"]["mistakes"]["rows"]
    for row in told["scores"]["mistakes"]["rows"]:
        assert (row["probability"] > 0.5) != row["together"] and len(row["names"]) == 2 and row["fields"]
    local = kf.Linker(n_jobs=1, training="local").fit(train)
    local.evaluate(test, report=page)
    assert parts(page)["training"]["rounds"] is None and len(parts(page)["training"]["stages"]) == 1


def test_mentions_stand_in_their_sentences():
    corpus = kf.Corpus.from_sentences([["Ann", "met", "Bo"], ["she", "left"]])
    spans = np.array([[0, 1], [2, 3], [3, 4]])
    items = kf.Mentions.from_groups([0, 0, 0], {}, clusters=[0, 1, 0], corpus=corpus, spans=spans)
    first, second = pair_mistakes(items, np.array([0.9, 0.2, 0.1]), np.array([0, 1, 0]))["rows"]
    assert first["names"] == ["0", "1"] and not first["together"] and not first["clustered"]
    assert [(text["before"], text["words"], text["after"]) for text in second["texts"]] == [
        ("", "Ann", "met Bo"),
        ("", "she", "left"),
    ]
    assert second["together"] and second["clustered"] and second["where"] == "0"


def test_mistakes_of_pairs_are_counted_by_kind():
    """Clusters {0 1 2} {3 4} {5} against the truth {0 1 2 3} {4} {5}, where 0 and 2, 1 and 3 are no candidates."""
    left, right = np.array([0, 1, 0, 2, 2, 3, 4]), np.array([1, 2, 3, 3, 4, 4, 5])
    p = np.array([0.9, 0.9, 0.2, 0.8, 0.9, 0.3, 0.1])
    names = kf.Column.from_strings(list("abcdef"))
    items = kf.Mentions({"name": names}, np.zeros(6, np.int32), [], [], [0, 0, 0, 0, 1, 2]).with_pairs(left, right)
    found = pair_mistakes(items, p, np.array([0, 0, 0, 1, 1, 2]))
    assert found["told"] == (
        "Of 7 candidate pairs 2 are decided wrongly, each on its own; clustering set 1 right. After clustering 3 true "
        "pairs are missed (1 never candidates, as blocking left them out; 1 decided wrongly; 1 accepted, but split by "
        "the clustering), and 1 pair is wrongly together (1 joined by way of others)."
    )
    assert [row["names"] for row in found["rows"]] == [["2", "4"], ["0", "3"]]
    kinds = {kind["title"]: kind["rows"] for kind in found["others"]}
    pairs = [[(*row["names"], row["probability"]) for row in rows] for rows in kinds.values()]
    assert pairs == [[("1", "3", None)], [("2", "3", 0.8)], [("3", "4", 0.3)]]
    right_ones = pair_mistakes(items, np.array([1.0, 1, 1, 1, 0, 0, 0]), np.array([0, 0, 0, 0, 1, 2]))
    assert right_ones["rows"] == right_ones["others"] == [] and right_ones["told"] == (
        "All 7 candidate pairs are decided rightly, each on its own. After clustering no true pair is missed, and no "
        "pair is wrongly together."
    )


def test_counts_of_mistakes_are_those_of_the_table():
    test = people(150, 3)
    linker = kf.Linker(n_jobs=1, training="local", blocking=["key(suburb)", "key(surname)"])
    with pytest.warns(
        DataWarning, match=r"within reach.*'sorted\(surname, 10\)'"
    ):  # the mistakes of blocking are what is looked at
        linker.fit(people(150, 4))
    items = linker.candidates(test)
    p = linker.predict_proba(items)
    for clusterer in (kf.AverageLink(), kf.SingleLink()):
        clusters = linker.cluster(items, p, clusterer=clusterer)
        after = pairs_after(items, clusters)
        missed, wrong = after.false_negatives, after.false_positives
        found = pair_mistakes(items, p, clusters)
        assert missed > 0 and f"After clustering {missed} true pair" in found["told"]
        assert (f"{wrong} pair" if wrong else "no pair is wrongly together") in found["told"]
        for kind in found["others"]:
            assert all(row["together"] != row["clustered"] for row in kind["rows"])


def test_stages_say_what_is_learned():
    assert "relation “same word” alone" in _learned("forward: separate same word")
    assert "no parent" in _learned("separate start") and "on its own" in _learned("round 0, local")
    assert "clustering needs" in _learned("round 3") and "mixing weights" in _learned("backward: gate")
    assert _learned("level 1: optimiser") == "All weights of the model." and _learned("something new") == ""


def test_a_calibration_at_two_places_is_left_out():
    items = kf.Mentions.from_groups([0] * 12, {}, clusters=np.arange(12) // 2)
    clusters = np.arange(12) // 2
    sharp = np.where(items.pair_labels == 1, 0.999, 0.001)
    scores = all_scores(items, clusters, sharp > 0.5)
    (uncertainty,) = pair_part(items, sharp, clusters, scores).data["calibration"]
    assert uncertainty["title"] == "Uncertain pairs"
    spread = np.linspace(0.01, 0.99, items.n_pairs)
    assert len(pair_part(items, spread, clusters, scores).data["calibration"]) == 2


# -- history ----------------------------------------------------------------------------------------------


def test_curves_stay_short_and_keep_their_ends():
    curve = [(i, 1.0 / i) for i in range(1, 1001)]
    stage = Stage.of("s", "limit", 1.0, curve, held_out=dict(curve), best=777)
    for points in (stage.objective, stage.held_out):
        assert len(points) <= MOST and points[0] == (1, 1.0) and points[-1] == (1000, 0.001)
    assert 777 in dict(stage.held_out) and thinned([]) == ()
    assert Stage.from_file(json.loads(json.dumps(stage.for_file()))) == stage


def test_stages_of_several_trainings_are_kept_by_name():
    outcomes = [Convergence("converged", 1.0, 2, 3, 0.5, stages=(Stage(n, "converged", 0.5),)) for n in ("a", "b")]
    both = combined(outcomes, "separate {}")
    assert [s.name for s in both.stages] == ["separate a", "separate b"] and both.iterations == 4
    assert [s.name for s in combined(outcomes, ("x: {}", "y: {}")).stages] == ["x: a", "y: b"]
    assert [s.name for s in combined(outcomes[:1], ("x: {}", "y: {}")).stages] == ["a"]
    assert combined([]).stages == ()


def test_files_without_curves_are_read_and_strange_ones_refused():
    brief = Convergence("converged", 1.0, 2, 3, 0.5).brief()
    assert Convergence.from_file(brief) == Convergence("converged", 1.0, 2, 3, 0.5)
    good = Stage("a", "limit", 1.0, ((1, 2.0),)).for_file()
    for change in ({"status": "odd"}, {"objective": [[1], [2.0, 3.0]]}, {"warm": ["x"]}, {"held_out": [[1]]}):
        with pytest.raises(ValueError):
            Convergence.from_file({**brief, "stages": [{**good, **change}]})
