"""`kinfolk records` and `kinfolk explain` on tables and documents: clusters out, mistakes one line."""

from __future__ import annotations

import csv
import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.cli.options import ShellWords
from kinfolk.linking.blocking import blocked

NAMES = "ann bob carla dmitri emma farid grete hana ivan julia karl lena".split()
TOWNS = "bonn delft evora ghent leiden parma siena turku".split()
ONE = ["--jobs", "1"]


def misspelt(word: str, rng: np.random.Generator) -> str:
    i = int(rng.integers(len(word)))
    return word[:i] + "abcdefghij"[rng.integers(10)] + word[i + 1 :]


def people(n: int, seed: int) -> list[list[str]]:
    """Two records an entity, the second misspelt: id, given name, surname, town, year, entity."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(n):
        given, surname = NAMES[rng.integers(12)], NAMES[rng.integers(12)] + NAMES[rng.integers(12)]
        town, year = TOWNS[rng.integers(8)], str(1950 + rng.integers(50))
        rows.append([f"a{e}", given, surname, town, year, f"e{e}"])
        rows.append([f"b{e}", misspelt(given, rng), misspelt(surname, rng), town, year, f"e{e}"])
    return rows


def write(path: Path, rows: list[list[str]], header: str = "id,given,surname,town,year,entity") -> Path:
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


DOCUMENT = """#begin document (d{number}); part 000
0\t{who}\t(3)
1\tsaw\t-
2\tthe\t(5
3\t{what}\t5)
4\t.\t-

0\t{pronoun}\t(3)
1\tlikes\t-
2\tthe\t(5
3\t{what}\t5)
4\t.\t-

0\t{other}\t(8)
1\tleft\t-
2\t{who}\t(3)
3\t.\t-

#end document
"""


def write_documents(path: Path, first: int, last: int) -> Path:
    people_in = [("Kim", "She", "Lee"), ("Tom", "He", "Ann"), ("Eva", "She", "Max")]
    things = ["house", "river", "horse", "garden"]
    told = []
    for n in range(first, last):
        who, pronoun, other = people_in[n % 3]
        told.append(DOCUMENT.format(number=n, who=who, pronoun=pronoun, other=other, what=things[n % 4]))
    path.write_text("".join(told))
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.csv, test.csv; first.csv and second.csv with gt.csv; train.conll, test.conll; and models people, texts."""
    folder = tmp_path_factory.mktemp("mentions")
    write(folder / "train.csv", people(40, 0))
    write(folder / "test.csv", people(30, 1))
    rows = people(30, 2)
    for name, side in (("first", 0), ("second", 1)):
        write(folder / f"{name}.csv", [[row[0][1:], *row[1:5]] for row in rows[side::2]], "id,given,surname,town,year")
    (folder / "gt.csv").write_text("".join(f"{e},{e}\n" for e in range(30)))
    write_documents(folder / "train.conll", 0, 8)
    write_documents(folder / "test.conll", 8, 11)
    items, _ = blocked(kf.read_records(folder / "train.csv", cluster="entity"), ["key(town)", "key(year)"])
    kf.Linker(n_jobs=1).fit(items).save(folder / "people")
    kf.Linker(n_jobs=1).fit(kf.read_coref(folder / "train.conll")).save(folder / "texts")
    return folder


BLOCKS = ["--block", "key(town)", "--block", "key(year)"]


def assert_refused(answer: Any, *parts: object) -> None:
    """One line on standard error that holds all the parts, status 2, nothing on standard output."""
    assert answer.status == 2 and answer.out == "", answer
    assert answer.err.startswith("error: ") and answer.err.count("\n") == 1, answer.err
    for part in parts:
        assert str(part) in answer.err, answer.err


def train(kinfolk: Any, *options: object) -> Any:
    return kinfolk("records", "train", *options, *ONE)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


# -- labelled pairs -----------------------------------------------------------------------------------

BARE = "id,given,surname,town,year"


@pytest.fixture(scope="module")
def labelled(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """records.csv without clusters; labels.csv, and named.csv with other names of columns."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = people(40, 0)
    write(folder / "records.csv", [row[:5] for row in rows], BARE)
    labels = [[f"a{e}", f"b{e}", "yes"] for e in range(30)] + [[f"a{e}", f"b{e + 1}", "no"] for e in range(39)]
    write(folder / "labels.csv", [*labels, ["a0", "b9", ""]], "left,right,match")
    write(folder / "named.csv", [["x", *row] for row in labels], "by,l,r,same")
    return folder


def test_labelled_pairs_teach(kinfolk: Any, labelled: Path, tmp_path: Path):
    data = ["--records", labelled / "records.csv", *BLOCKS]
    done = train(kinfolk, *data, "--pairs", labelled / "labels.csv", "--out", tmp_path / "m")
    assert done.status == 0 and "learned from 30 matches and 39 others" in done.err, done
    items = kf.block(kf.read_records(labelled / "records.csv"), BLOCKS[1::2])
    pairs = [row.split(",") for row in (labelled / "labels.csv").read_text().splitlines()[1:]]
    expected = kf.Linker(n_jobs=1).fit(items, pairs=pairs)
    np.testing.assert_array_equal(kf.load_model(tmp_path / "m").weights_, expected.weights_)
    columns = ["--left", "l", "--right", "r", "--match", "same"]
    named = train(kinfolk, *data, "--pairs", labelled / "named.csv", *columns, "--json", "--out", tmp_path / "n")
    assert named.status == 0, named
    told = json.loads(named.out)["trained_on"]
    assert (told["matches"], told["non_matches"]) == (30, 39)
    np.testing.assert_array_equal(kf.load_model(tmp_path / "n").weights_, expected.weights_)
    scored = kinfolk("records", "evaluate", tmp_path / "m", *data, "--pairs", labelled / "labels.csv", *ONE)
    assert scored.status == 0 and "69 labelled pairs" in scored.out and "pairs before" in scored.out, scored
    assert "b_cubed" not in scored.out


def test_labels_that_a_shell_cannot_use(
    kinfolk: Any, labelled: Path, world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    data, out = ["--records", labelled / "records.csv", *BLOCKS], ["--out", tmp_path / "m"]
    assert_refused(train(kinfolk, *data, "--left", "l", *out), "--left names a column", "--pairs")
    assert_refused(train(kinfolk, *data, "--pairs", labelled / "named.csv", *out), "named.csv", "name one with --left")
    scores = write(tmp_path / "scores.csv", [["a0", "b0", "9.3"]], "left,right,match")
    assert_refused(train(kinfolk, *data, "--pairs", scores, *out), "scores.csv, line 2", "a score beyond 0 and 1")
    likely = write(tmp_path / "likely.csv", [["a0", "b0", "0.93"]], "left,right,match")
    assert train(kinfolk, *data, "--pairs", likely, *out).status == 0, "a probability is a label"
    yes = write(tmp_path / "yes.csv", [["a0", "b0", "1"]], "left,right,match")
    assert train(kinfolk, *data, "--pairs", yes, *out).status == 0, "one answer moves what is learned without any"
    texts = ["--documents", world / "train.conll", "--pairs", yes, *out]
    assert_refused(train(kinfolk, *texts), "--pairs is for records")
    assert_refused(train(kinfolk, *data, "--pairs", yes, "--out", yes), "would overwrite")
    page = ["--pairs", labelled / "labels.csv", "--report", tmp_path / "page.html"]
    assert_refused(kinfolk("records", "evaluate", world / "people", *data, *page, *ONE), "needs true clusters")
    few = write(tmp_path / "few.csv", [["a0", "b0"]], "one,two")
    assert train(kinfolk, *data, "--truth", few, *out).status == 0
    warned = ShellWords({"pairs": "--pairs"}).text(caplog.text)
    assert "1 matches name 2 of 80 records" in warned and "give them to fit, --pairs" in warned


# -- records ------------------------------------------------------------------------------------------


def test_records_from_training_to_clusters(kinfolk: Any, world: Path, tmp_path: Path):
    model, data = tmp_path / "m", ["--records", world / "test.csv"]
    done = train(kinfolk, "--records", world / "train.csv", "--cluster", "entity", *BLOCKS, "--out", model)
    assert (done.status, done.out) == (0, ""), done
    lines = done.err.splitlines()
    assert "of 3,160 pairs are candidates" in lines[0] and "true pairs" in lines[0]
    assert lines[2].startswith("key(town)") and lines[3].startswith("key(year)") and lines[4].startswith("all rules")
    linker = kf.load_model(model)
    score = linker.rounds_[linker.best_round_].scores["pair_f1"]
    fields = kf.read_records(world / "train.csv", cluster="entity").columns
    assert lines[5].startswith("trained on 80 records; ")
    assert lines[6:] == [
        f"{len(fields)} fields, {len(linker.pair_set_.columns)} comparisons",
        "AverageLink, its threshold 0.500 and the round chosen on unseen training pairs",
        f"pairwise F1 on the training data {100 * score:.1f} %",
        f"wrote {model}",
    ]

    items, report = blocked(kf.read_records(world / "test.csv", cluster="entity"), ["key(town)", "key(year)"])
    expected = kf.load_model(model).predict(items)
    found = kinfolk("records", "cluster", model, *data, *ONE)  # the rules are those of the model
    assert found.status == 0 and "key(town)" in found.err
    assert [(row["id"], int(row["cluster"])) for row in rows_of(found.out)] == list(
        zip(items.names or (), expected.tolist(), strict=True)
    )
    quiet = kinfolk("records", "cluster", model, *data, *BLOCKS, "--quiet", *ONE)
    assert quiet.err == "" and quiet.out == found.out

    told = kinfolk("records", "evaluate", model, *data, "--cluster", "entity", *ONE)
    assert (
        told.status == 0 and "60 records; " in told.out and f"completeness {report.pair_completeness:.2%}" in told.out
    )
    for name in ("pairs before", "pairs", "clusters", "b_cubed", "calibration"):
        assert any(line.strip().startswith(name) for line in told.out.splitlines())
    plain = json.loads(kinfolk("records", "evaluate", model, *data, "--cluster", "entity", "--json", *ONE).out)
    assert plain["pair_completeness"] == report.pair_completeness and plain["candidate_pairs"] == items.n_pairs
    assert plain["scores"] == kf.load_model(model).evaluate(items) and plain["scores"]["pairs"]["f1"] > 0.8


def test_training_in_every_detail(kinfolk: Any, world: Path, tmp_path: Path):
    before = logging.getLogger("kinfolk").level
    command = ["records", "train", "--records", world / "train.csv", "--cluster", "entity", *BLOCKS]
    done = kinfolk("--verbose", *command, "--out", tmp_path / "m", *ONE)
    assert (done.status, done.out) == (0, "") and logging.getLogger("kinfolk").level == before
    lines = done.err.splitlines()
    assert any("candidate pairs" in line and line.endswith("distinct rows") for line in lines)
    assert any(line.startswith("clusters of unseen training pairs: AverageLink") for line in lines)
    rounds = [line for line in lines if line.startswith("round ") and " on the training data" in line]
    assert rounds[0].startswith("round 0: ") and "on the training data; " in rounds[0]
    assert any(line.startswith("trained on 80 records; ") for line in lines)
    assert any("jaro_winkler(surname)" in line for line in lines if line.startswith("compared by "))
    assert lines[-2].startswith("kept round ") and "pair_f1 " in lines[-2] and lines[-1] == f"wrote {tmp_path / 'm'}"


def test_the_same_as_the_library_and_again(kinfolk: Any, world: Path, tmp_path: Path):
    data = ["--records", world / "train.csv", "--cluster", "entity"]
    for name in ("m", "n"):
        assert train(kinfolk, *data, *BLOCKS, "--out", tmp_path / name, "--quiet").err == ""
    model, again = (kf.load_model(tmp_path / name) for name in ("m", "n"))
    np.testing.assert_array_equal(model.weights_, kf.load_model(world / "people").weights_)
    np.testing.assert_array_equal(model.weights_, again.weights_)


@pytest.mark.parametrize("training", ["ranking", "combined"])
def test_ranking_in_the_shell(kinfolk: Any, world: Path, tmp_path: Path, training: str):
    options = ["--records", world / "train.csv", "--cluster", "entity", "--training", training, "--out", tmp_path / "m"]
    done = train(kinfolk, *options)
    assert done.status == 0 and "ranking" in done.err
    model, items = kf.load_model(tmp_path / "m"), kf.read_records(world / "test.csv")
    found = kinfolk("records", "cluster", tmp_path / "m", "--records", world / "test.csv", "--quiet", *ONE).out
    assert [int(row["cluster"]) for row in rows_of(found)] == model.predict(items).tolist()
    told = kinfolk("explain", tmp_path / "m", "--records", world / "test.csv", "b3", "--json", *ONE)
    answer = json.loads(told.out)
    assert answer["new"] + sum(share for _, share in answer["antecedents"]) == pytest.approx(1)
    assert "b3 follows" in kinfolk("explain", tmp_path / "m", "--records", world / "test.csv", "b3", *ONE).out
    page = tmp_path / "page.html"
    kinfolk("explain", tmp_path / "m", "--records", world / "test.csv", "a3", "b3", "--report", page, *ONE)
    assert page.stat().st_size > 1000


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(("training", "told"), [
    ("structured", "The local model is that of --training local and --folds 5"),
    ("local", "--guard 2 has nothing to compare: --training local is the local model itself"),
])  # fmt: skip
def test_the_local_model_of_a_linker_is_named_as_options(
    kinfolk: Any, world: Path, tmp_path: Path, training: str, told: str
):
    data = ["--records", world / "train.csv", "--cluster", "entity", *BLOCKS, "--out", tmp_path / "m"]
    done = train(kinfolk, *data, "--training", training, "--guard", "2")
    assert done.status == 0 and told in done.err and "`" not in done.err, done.err


def test_settings_reach_the_model(kinfolk: Any, world: Path, tmp_path: Path):
    options = [
        "--compare", "jaro_winkler(surname)", "--compare", "exact:town", "--e-step", "exact", "--rounds", "2", "--bias",
        "closest:2", "--clusterer", "average-link", "--threshold", "0.4", "--max-size", "3", "--select", "b_cubed_f1",
        "--l2", "0.5", "--bins", "4", "--conjunctions", "none", "--seed", "3",
    ]  # fmt: skip
    done = train(kinfolk, "--records", world / "train.csv", "--cluster", "entity", *options, "--out", tmp_path / "m")
    assert done.status == 0 and "3,160 of 3,160 pairs are candidates" in done.err and "b_cubed_f1" in done.err
    model = kf.load_model(tmp_path / "m")
    assert (model.e_step, model.rounds, model.l2, model.bins, model.random_state) == ("exact", 2, 0.5, 4, 3)
    assert (model.bias.kind, model.bias.factor, model.conjunctions) == ("closest", 2.0, None)
    assert type(model.clusterer).__name__ == "AverageLink" and model.clusterer.get_params()["max_size"] == 3
    assert model.clusterer.threshold == 0.4
    assert [column.name for column in model.pair_set_.columns] == ["jaro_winkler(surname)", "exact(town)"]

    chosen = ["--training", "local", "--folds", "3"]
    done = train(kinfolk, "--records", world / "train.csv", "--cluster", "entity", *chosen, "--out", tmp_path / "m")
    assert "local training: " in done.err and ", its threshold 0." in done.err
    found = kinfolk("records", "cluster", tmp_path / "m", "--records", world / "test.csv", "--quiet", *ONE).out
    items = kf.read_records(world / "test.csv")
    model, items = kf.load_model(tmp_path / "m"), items.with_pairs(*np.triu_indices(60, 1))
    assert [int(row["cluster"]) for row in rows_of(found)] == model.predict(items).tolist()


def test_pairs_with_their_probabilities(kinfolk: Any, world: Path, tmp_path: Path):
    call = ["records", "cluster", world / "people", "--records", world / "test.csv", *BLOCKS, *ONE]
    found = kinfolk(*call, "--pairs", tmp_path / "p.csv", "-o", tmp_path / "c.csv")
    assert found.status == 0 and found.out == ""
    items, _ = blocked(kf.read_records(world / "test.csv"), ["key(town)", "key(year)"])
    pairs = rows_of((tmp_path / "p.csv").read_text())
    cluster = {row["id"]: row["cluster"] for row in rows_of((tmp_path / "c.csv").read_text())}
    chance = kf.load_model(world / "people").predict_proba(items)
    assert [row["probability"] for row in pairs] == [f"{p:.6f}" for p in chance]
    assert all((row["linked"] == "1") == (cluster[row["left"]] == cluster[row["right"]]) for row in pairs)
    kinfolk(*call, "--pairs", tmp_path / "few.csv", "--least", "0.3")
    assert rows_of((tmp_path / "few.csv").read_text()) == [row for row in pairs if float(row["probability"]) >= 0.3]


def test_clustering_may_be_changed_afterwards(kinfolk: Any, world: Path):
    call = ["records", "cluster", world / "people", "--records", world / "test.csv", "--quiet", *ONE]

    def clusters(*options: object) -> list[str]:
        return [row["cluster"] for row in rows_of(kinfolk(*call, *options).out)]

    assert len({*clusters("--threshold", "0.999999")}) > len({*clusters()}) >= len({*clusters("--threshold", "0.001")})
    assert len({*clusters("--max-size", "1")}) == 60
    assert clusters("--clusterer", "complete-link") == clusters("--clusterer", "complete-link", "--threshold", "0.5")


def test_links_that_are_given(kinfolk: Any, world: Path, tmp_path: Path):
    call = ["records", "cluster", world / "people", "--records", world / "test.csv", "--quiet", *ONE]
    (tmp_path / "must").write_text("a0,a1\n\na2\ta3\na4 a5\n")
    (tmp_path / "cannot").write_text("a6,b6\r\n")
    found = kinfolk(*call, "--must-link", tmp_path / "must", "--cannot-link", tmp_path / "cannot")
    cluster = {row["id"]: row["cluster"] for row in rows_of(found.out)}
    assert cluster["a0"] == cluster["a1"] and cluster["a2"] == cluster["a3"] and cluster["a4"] == cluster["a5"]
    assert cluster["a6"] != cluster["b6"]
    (tmp_path / "clash").write_text("a0,a1\n")
    answer = kinfolk(*call, "--must-link", tmp_path / "must", "--cannot-link", tmp_path / "clash")
    assert_refused(answer, "--cannot-link must be free of items that --must-link puts together; got ('a0', 'a1')")


def test_lists_and_vectors_in_files(kinfolk: Any, tmp_path: Path):
    rng = np.random.default_rng(0)
    rows = ["id,entity,phone,picture"]
    for k in range(60):
        way = 2 * np.pi * (k // 2) / 30 + 0.01 * rng.normal()
        rows.append(f"r{k},e{k // 2},{k};{1000 + k // 2},[{np.cos(way):.4f} {np.sin(way):.4f}]")
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    compare = ["--compare", "any_of(exact(phone), ;)", "--compare", "cosine(picture)"]
    table = ["--records", tmp_path / "t.csv", "--cluster", "entity"]
    assert train(kinfolk, *table, *compare, "--out", tmp_path / "m", *ONE).status == 0
    scores = json.loads(kinfolk("records", "evaluate", tmp_path / "m", *table, "--json", *ONE).out)["scores"]
    assert scores["pairs"]["f1"] == 1.0
    (tmp_path / "t.csv").write_text("\n".join(rows).replace("r7,e3,7;1003,[", "r7,e3,7;1003,[3 ") + "\n")
    refused = kinfolk("records", "cluster", tmp_path / "m", "--records", tmp_path / "t.csv", "--quiet", *ONE)
    assert_refused(refused, "'r7' has 3")


def test_rules_that_are_certain(kinfolk: Any, world: Path, tmp_path: Path):
    table = ["--records", world / "train.csv", "--cluster", "entity", "--block", "key(year)", "--compare"]
    rules = ["--always", "surname + town", "--never", "year", "--out", tmp_path / "m", *ONE]
    assert train(kinfolk, *table, "jaro_winkler(surname)", *rules).status == 0
    assert [str(rule) for rule in kf.load_model(tmp_path / "m").rules] == ["always(surname + town)", "never(year)"]
    (tmp_path / "few.csv").write_text("id,surname,town,year\n1,xu,bonn,1950\n2,xu,bonn,\n3,xu,,1960\n4,oe,,1950\n")
    call = [tmp_path / "m", "--records", tmp_path / "few.csv", *ONE]
    found = {row["id"]: row["cluster"] for row in rows_of(kinfolk("records", "cluster", *call, "--quiet").out)}
    assert found["1"] == found["2"] != found["3"]
    assert "compared too" in kinfolk("records", "cluster", *call).err
    told = kinfolk("explain", tmp_path / "m", "1", "2", *call[1:]).out
    assert "rule: same surname and town" in told and "linked by a rule: same surname and town" in told
    (tmp_path / "few.csv").write_text("id,surname,town,year\n1,xu,bonn,1950\n2,xu,bonn,1951\n")
    assert_refused(
        kinfolk("records", "cluster", *call, "--quiet"), "the rules contradict each other: '1' and '2' must be apart",
        "'1' - '2' (same surname and town)",
    )  # fmt: skip
    assert_refused(
        train(kinfolk, *table, "exact(year)", "--never", "a(b", "--out", tmp_path / "n"), "cannot read the rule"
    )


def test_two_tables(kinfolk: Any, world: Path, tmp_path: Path):
    tables = ["--records", world / "first.csv", "--other", world / "second.csv"]
    truth = ["--matches", world / "gt.csv"]
    done = train(kinfolk, *tables, *truth, "--clusterer", "one-to-one", "--block", "key(town)", "--out", tmp_path / "m")
    assert done.status == 0 and "trained on 60 records" in done.err
    rows = rows_of(kinfolk("records", "cluster", tmp_path / "m", *tables, "--quiet", *ONE).out)
    assert rows[0] == {"id": "0", "table": "first", "cluster": "0"}
    assert [row["table"] for row in rows] == ["first"] * 30 + ["second"] * 30
    first = json.loads(kinfolk("records", "cluster", tmp_path / "m", *tables, "--json", *ONE).out.splitlines()[0])
    assert first == {"id": "0", "table": "first", "cluster": 0}
    scores = json.loads(kinfolk("records", "evaluate", tmp_path / "m", *tables, *truth, "--json", *ONE).out)
    assert scores["scores"]["pairs"]["f1"] > 0.8 and "muc" not in scores["scores"]
    told = kinfolk("explain", tmp_path / "m", "first:3", "second:3", *tables, *ONE)
    assert told.status == 0 and told.out.startswith("first:3 - second:3: probability ")
    alone = kinfolk("records", "cluster", tmp_path / "m", "--records", world / "first.csv", *ONE)
    assert_refused(alone, "--clusterer one-to-one links two tables: give the second with --other")


def test_clusters_in_ids_and_rows_without_ids(kinfolk: Any, world: Path, tmp_path: Path):
    data = ["--records", world / "train.csv", "--fields", "given,surname,town", "--out", tmp_path / "m"]
    assert train(kinfolk, *data, "--cluster-from-id", r"[ab](\d+)", "--quiet").status == 0
    kept = kinfolk("records", "cluster", tmp_path / "m", "--records", world / "test.csv", "--id", "none", *ONE)
    assert [row["id"] for row in rows_of(kept.out)][:3] == ["0", "1", "2"]


def test_other_delimiters_and_standard_input(kinfolk: Any, world: Path):
    table = (world / "test.csv").read_text()
    call = ["records", "cluster", world / "people", "--quiet", *ONE]
    plain = kinfolk(*call, "--records", world / "test.csv").out
    assert kinfolk(*call, "--records", "-", stdin=table.encode()).out == plain
    for word, sign in (("tab", "\t"), ("|", "|")):
        changed = table.replace(",", sign).encode()
        assert kinfolk(*call, "--records", "-", "--delimiter", word, stdin=changed).out == plain


def test_a_few_records_that_lack_a_whole_field(kinfolk: Any, world: Path, tmp_path: Path):
    """A model compares fields by name; in a small table one of them may be empty, or all but a record missing."""
    write(tmp_path / "few.csv", [["1", "ann", "karlemma", "", "1960", ""], ["2", "ann", "karlemma", "", "1960", ""]])
    found = kinfolk("records", "cluster", world / "people", "--records", tmp_path / "few.csv", *BLOCKS, *ONE)
    assert found.status == 0 and [row["id"] for row in rows_of(found.out)] == ["1", "2"]
    write(tmp_path / "few.csv", [["1", "ann", "karlemma", "bonn", "1960", ""]])
    found = kinfolk("records", "cluster", world / "people", "--records", tmp_path / "few.csv", *ONE)
    assert found.out == "id,cluster\n1,0\n"


def test_tables_without_records(kinfolk: Any, world: Path, tmp_path: Path):
    empty = write(tmp_path / "empty.csv", [])
    found = kinfolk("records", "cluster", world / "people", "--records", empty, *BLOCKS, "--quiet", *ONE)
    assert (found.status, found.out) == (0, "id,cluster\n"), found
    as_json = kinfolk("records", "cluster", world / "people", "--records", empty, "--json", "--quiet", *ONE)
    assert (as_json.status, as_json.out) == (0, ""), as_json
    asked = ["--records", empty, "--cluster", "entity"]
    assert_refused(train(kinfolk, *asked, "--quiet", "--out", tmp_path / "m"), "training needs pairs", "empty")
    assert_refused(kinfolk("records", "evaluate", world / "people", *asked, *ONE), "no items to score")
    lone = write(tmp_path / "lone.csv", people(1, 0)[:1])
    asked = ["--records", lone, "--cluster", "entity"]
    assert_refused(
        train(kinfolk, *asked, "--quiet", "--out", tmp_path / "m"), "training needs pairs of items, and there are none"
    )
    ids = write(tmp_path / "ids.csv", [["1"]], "id")
    assert_refused(train(kinfolk, "--records", ids, "--truth", ids, "--out", tmp_path / "m"), "no fields to compare")


# -- documents ----------------------------------------------------------------------------------------


def test_documents_from_training_to_clusters(kinfolk: Any, world: Path, tmp_path: Path):
    model, data = tmp_path / "m", ["--documents", world / "test.conll"]
    done = train(kinfolk, "--documents", world / "train.conll", "--out", model, "--select", "conll_f1")
    assert done.status == 0 and done.err.startswith("8 documents, 48 mentions; 120 candidate pairs\n")
    assert "trained on 8 documents" in done.err and "conll_f1" in done.err
    items = kf.read_coref(world / "test.conll")
    expected = kf.load_model(model).predict(items)

    found = kinfolk("records", "cluster", model, *data, "-o", tmp_path / "found.conll", *ONE)
    assert (found.status, found.out, found.err) == (0, "", "")
    again = kf.read_coref(tmp_path / "found.conll")
    assert list(again.names or ()) == list(items.names or ()) and again.clusters is not None
    assert list(again.group_names or ()) == ["d8", "d9", "d10"]
    np.testing.assert_array_equal(again.clusters, expected)
    lines = [json.loads(line) for line in kinfolk("records", "cluster", model, *data, "--json", *ONE).out.splitlines()]
    assert lines[0] == {"id": "d8:0-0", "document": "d8", "text": "Eva", "cluster": 0} and len(lines) == items.n_items
    scores = json.loads(kinfolk("records", "evaluate", model, *data, "--json", *ONE).out)
    assert scores["items"] == 18 and "pair_completeness" not in scores and scores["scores"]["conll"] > 0.5
    assert "3 documents, 18 mentions" in kinfolk("records", "evaluate", model, *data, *ONE).out


def test_brackets_without_counterpart(kinfolk: Any, world: Path, tmp_path: Path):
    text = (world / "test.conll").read_text().replace("(5\n", "(5|(9\n", 1)
    (tmp_path / "odd.conll").write_text(text)
    call = ["records", "cluster", world / "texts", "--documents", tmp_path / "odd.conll", *ONE]
    assert_refused(kinfolk(*call), "odd.conll, line 4: the bracket (9 is never closed", "or pass --unmatched drop")
    dropped = kinfolk(*call, "--unmatched", "drop")
    whole = kinfolk("records", "cluster", world / "texts", "--documents", world / "test.conll", *ONE)
    assert dropped.status == 0 and dropped.out == whole.out


# -- explanations -------------------------------------------------------------------------------------


def test_why_records_are_linked(kinfolk: Any, world: Path):
    call = ["explain", world / "people", "--records", world / "test.csv", *BLOCKS, *ONE]
    told = kinfolk(*call, "a0", "b0", "--top", "3")
    lines = told.out.splitlines()
    assert lines[0].startswith("a0 - b0: probability ") and lines[-1] == "linked" and "others" in lines[-2]
    plain = json.loads(kinfolk(*call, "a0", "b0", "--json").out)
    assert plain["candidate"] and plain["together"] and (plain["left"], plain["right"]) == ("a0", "b0")
    whole = plain["base"] + sum(one["share"] for one in plain["contributions"])
    assert whole == pytest.approx(plain["score"])
    items, _ = blocked(kf.read_records(world / "test.csv"), ["key(town)", "key(year)"])
    pairs = {*zip(items.left.tolist(), items.right.tolist(), strict=True)}
    apart = next(j for j in range(2, 60) if (0, j) not in pairs)
    assert "no candidate pair: no blocking rule" in kinfolk(*call, "a0", items.name(apart)).out
    one = kinfolk(*call, "b0")
    assert "items: a0, b0" in one.out and "weakest link: a0 - b0" in one.out
    plain = json.loads(kinfolk(*call, "b0", "--json").out)
    assert plain["weakest"] == ["a0", "b0"] and plain["holding"][0][:2] == ["a0", "b0"]


def test_why_mentions_are_linked(kinfolk: Any, world: Path, tmp_path: Path):
    call = ["explain", world / "texts", *ONE, "--documents"]
    told = kinfolk(*call, world / "test.conll", "d8:0-0", "d8:12-12")
    assert told.status == 0 and "'Eva' (d8:0-0) - 'Eva' (d8:12-12): probability" in told.out
    plain = json.loads(kinfolk(*call, world / "test.conll", "d8:0-0", "--json").out)
    assert "d8:0-0" in plain["items"]
    (tmp_path / "one.conll").write_text((world / "test.conll").read_text().partition("#begin document (d9)")[0])
    alone = kinfolk(*call, tmp_path / "one.conll", "0-0", "12-12", "--json")
    assert json.loads(alone.out)["right"] == "d8:12-12"
    across = kinfolk(*call, world / "test.conll", "d8:0-0", "d9:0-0")
    assert_refused(across, "'d8:0-0' and 'd9:0-0' are in different documents")
    assert_refused(kinfolk(*call, world / "test.conll", "0-0"), "no item has the id '0-0'; ids look like 'd8:0-0'")
    assert_refused(kinfolk(*call, world / "test.conll", "d8:0-0", "d8:0-0"), "two different items; got 'd8:0-0' twice")
    assert_refused(kinfolk(*call, world / "test.conll", "a", "b", "c"), "one id or two; got 3")


def test_pages_about_links(kinfolk: Any, world: Path, tmp_path: Path):
    call = ["explain", world / "people", "--records", world / "test.csv", *BLOCKS, *ONE]
    page = tmp_path / "why.html"
    for ids, title in ((["a0", "b0"], "a0 and b0"), (["b0"], "The cluster of b0"), ([], "Clusters of 60 records")):
        told = kinfolk(*call, *ids, "--report", page)
        assert told.status == 0 and told.err == f"wrote {page}\n", told
        assert told.out == (kinfolk(*call, *ids).out if ids else "")
        assert f"<title>{title}</title>" in page.read_text(encoding="utf-8")
    many = json.loads(kinfolk(*call, "--report", page, "--json").out)
    assert 30 <= len(many) <= 50 and many[0]["items"]
    texts = kinfolk("explain", world / "texts", "--documents", world / "test.conll", "d8:0-0", "--report", page, *ONE)
    assert texts.status == 0 and "d8:0-0" in page.read_text(encoding="utf-8")
    assert_refused(kinfolk(*call), "give one id or two; or --report PAGE.html")
    assert_refused(kinfolk(*call, "a0", "--report", world / "test.csv"), "--report", "would overwrite")
    assert_refused(kinfolk(*call, "a0", "--report", tmp_path / "no" / "why.html"), "create it first")


# -- mistakes -----------------------------------------------------------------------------------------

BAD_TRAINING: dict[str, tuple[list[str], str]] = {
    "no input": ([], "give either --documents PATH or --records FILE; got neither"),
    "two inputs": (["--records", "train.csv", "--documents", "train.conll"], "got both"),
    "a wrong column of clusters": (
        ["--records", "train.csv", "--cluster", "entty"],
        "no column 'entty' (cluster); the columns are 'id', 'given', 'surname', 'town', 'year', 'entity'",
    ),
    "a wrong column of ids": (["--records", "train.csv", "--cluster", "entity", "--id", "key"], "name one with --id"),
    "a wrong field": (["--records", "train.csv", "--cluster", "entity", "--fields", "nam"], "no column 'nam' (fields)"),
    "a comparison of no column": (
        ["--records", "train.csv", "--cluster", "entity", "--compare", "exact(nam)"],
        "no column 'nam' to compare; the items have 'given', 'surname', 'town', 'year'",
    ),
    "a rule of no column": (
        ["--records", "train.csv", "--cluster", "entity", "--block", "key(nam)"],
        "the blocking rule key(nam) reads the column 'nam'; the items have 'given', 'surname', 'town', 'year'",
    ),
    "no comparison": (["--records", "x", "--cluster", "y", "--compare", "sounds(name)"], "cannot read the comparison"),
    "no rule": (["--records", "x", "--cluster", "y", "--block", "same(name)"], "cannot read the rule"),
    "no metric": (["--records", "x", "--cluster", "y", "--select", "f2"], "no metric 'f2'; there are pair_f1"),
    "no bias": (["--records", "x", "--cluster", "y", "--bias", "some:2"], "--bias takes all:FACTOR or closest:FACTOR"),
    "no factor": (["--records", "x", "--cluster", "y", "--bias", "all:much"], "--bias takes all:FACTOR"),
    "a factor of nothing": (["--records", "x", "--cluster", "y", "--bias", "all:0"], "a number above 0"),
    "a threshold of one": (["--records", "x", "--cluster", "y", "--threshold", "1"], "--threshold must be"),
    "clusters of nobody": (["--records", "x", "--cluster", "y", "--max-size", "0"], "--max-size must be 1 or more"),
    "two thresholds": (
        ["--records", "x", "--cluster", "y", "--threshold", "0.4", "--folds", "3"], "leave out --threshold",
    ),
    "one table to match": (
        ["--records", "train.csv", "--cluster", "entity", "--clusterer", "one-to-one"], "give the second with --other",
    ),
    "no file": (["--records", "none.csv", "--cluster", "y"], "none.csv: no such file"),
    "no rounds": (["--records", "train.csv", "--cluster", "entity", "--rounds", "0"], "--rounds must be"),
    "no ridge": (["--records", "train.csv", "--cluster", "entity", "--l2", "-1"], "--l2 must be"),
    "an option of records": (["--documents", "train.conll", "--block", "key(a)"], "--block is for records"),
    "a comparison for documents": (
        ["--documents", "train.conll", "--compare", "exact(text)"], "--compare is for records",
    ),
    "an option of documents": (["--records", "train.csv", "--unmatched", "drop"], "--unmatched is for documents"),
    "too many pairs": (
        ["--records", "train.csv", "--cluster", "entity", "--block", "key(town)", "--max-pairs", "3"],
        "where --max-pairs allows 3; narrow the rules, leave out giant blocks with --giant skip, or raise --max-pairs",
    ),
    "matches of three columns": (["--records", "train.csv", "--truth", "train.csv"], "name two with --match-columns"),
    "the truth twice": (["--records", "train.csv", "--cluster", "entity", "--cluster-from-id", "febrl"], "given twice"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "message"), BAD_TRAINING.values(), ids=BAD_TRAINING.keys())
def test_training_that_cannot_be(
    kinfolk: Any, world: Path, tmp_path: Path, monkeypatch: Any, options: list[str], message: str
):
    monkeypatch.chdir(world)
    answer = train(kinfolk, *options, "--out", tmp_path / "m", "--quiet")
    assert_refused(answer, message)
    assert os.listdir(tmp_path) == []


def test_large_tables_need_rules(kinfolk: Any, world: Path, tmp_path: Path, monkeypatch: Any):
    from kinfolk.linking import blocking

    monkeypatch.setattr(blocking, "ALL_PAIRS", 1000)
    wanted = "pairs are possible, too many to compare all of them; give blocking rules, such as "
    call = ["--records", world / "train.csv", "--cluster", "entity", "--out", tmp_path / "m"]
    assert_refused(train(kinfolk, *call), f"3,160 {wanted}'sorted(")
    found = kinfolk("records", "cluster", world / "people", "--records", world / "test.csv", *ONE)
    assert_refused(found, f"1,770 {wanted}")


def test_items_the_model_cannot_take(kinfolk: Any, world: Path, tmp_path: Path):
    for verb, more in (("records cluster", []), ("records evaluate", ["--cluster", "entity"]), ("explain", ["a0"])):
        call = [*verb.split(), world / "texts", *more, "--records", world / "test.csv", *ONE]
        assert_refused(kinfolk(*call), "texts was trained on documents: give --documents")
    call = ["records", "cluster", world / "people", *ONE]
    documents = ["--documents", world / "test.conll"]
    assert_refused(kinfolk(*call, *documents), "people was trained on records: give --records")
    write(tmp_path / "other.csv", [["1", "ann"], ["2", "bob"]], "id,name")
    assert_refused(
        kinfolk(*call, "--records", tmp_path / "other.csv"),
        "other.csv: no column 'given' (fields); the model compares by it: add the column",
    )
    assert_refused(kinfolk(*call, "--records", world / "test.csv", "--least", "2"), "--least must be a probability")
    bare = kinfolk("records", "evaluate", world / "people", "--records", world / "test.csv", *ONE)
    assert_refused(bare, "scoring needs the true clusters of records; name their column with --cluster")
    kf.MaxEnt(n_jobs=1).fit([["Kim"]], [["B-PER"]]).save(tmp_path / "tagger")
    tagger = kinfolk("records", "cluster", tmp_path / "tagger", "--records", world / "test.csv", *ONE)
    assert_refused(tagger, "expected a model of kind 'mentions'")


@pytest.mark.parametrize("option", ["--must-link", "--cannot-link"])
def test_files_of_links_that_cannot_be_used(kinfolk: Any, world: Path, tmp_path: Path, option: str):
    call = ["records", "cluster", world / "people", "--records", world / "test.csv", "-o", tmp_path / "o", *ONE]
    bad = {
        "a0,b0\n\na0,nobody\n": "line 3: no item has the id 'nobody'; ids look like 'a0'",
        "a0\n": "line 1: expected",
    }
    bad |= {"a0,a1,a2\n": "line 1: expected two ids", "a0,a0\n": "line 1: expected two different items"}
    for text, message in bad.items():
        (tmp_path / "links").write_text(text)
        assert_refused(kinfolk(*call, option, tmp_path / "links"), f"{tmp_path / 'links'}, {message}")
    across = ["records", "cluster", world / "texts", "--documents", world / "test.conll", *ONE]
    (tmp_path / "links").write_text("d8:0-0 d9:0-0\n")
    assert_refused(kinfolk(*across, option, tmp_path / "links"), "line 1: 'd8:0-0' and 'd9:0-0' are in different")
    assert not (tmp_path / "o").exists()


def test_nothing_is_overwritten_or_half_written(
    kinfolk: Any, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = tmp_path / "t.csv"
    table.write_text((world / "test.csv").read_text())
    before = table.read_text()
    call = ["records", "cluster", world / "people", "--records", table, *ONE]
    assert_refused(kinfolk(*call, "-o", table), "would overwrite")
    assert_refused(kinfolk(*call, "--pairs", table), "--pairs", "would overwrite")
    assert_refused(kinfolk(*call, "-o", tmp_path / "x", "--pairs", tmp_path / "x"), "would overwrite")
    assert_refused(train(kinfolk, "--records", table, "--cluster", "entity", "--out", table), "would overwrite")
    nowhere = kinfolk(*call, "--quiet", "-o", tmp_path / "no" / "x")
    assert_refused(nowhere, tmp_path / "no" / "x", "cannot write")
    assert_refused(kinfolk(*call, "-o", world / "people"), "would overwrite")
    with monkeypatch.context() as patch:  # before the work
        patch.setattr(kf.Linker, "linked", None)
        assert_refused(kinfolk(*call, "-o", tmp_path / "no" / "x"), "no/x: cannot write: No such file or directory")
        assert_refused(kinfolk(*call, "--pairs", tmp_path, "-o", tmp_path / "x"), "cannot write: Is a directory")
    assert_refused(train(kinfolk, "--records", table, "--out", tmp_path / "no" / "m"), "create it first")
    if os.path.exists("/dev/full"):
        assert_refused(kinfolk(*call, "--quiet", "-o", "/dev/full"), "/dev/full: cannot write: No space left on device")
    assert table.read_text() == before and os.listdir(tmp_path) == ["t.csv"]
