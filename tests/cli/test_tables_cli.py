"""`kinfolk nodes` over tables: which files and columns make the graph, and every mistake in them one line."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_world import COLUMNS, TABLES, assert_refused, papers, without, write, write_papers

import kinfolk as kf
from kinfolk.graph.cli_files import link_file
from kinfolk.graph.files import read_tables

STACKED = ["--model", "stacked", "--depth", "1", "--jobs", "1"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a*.csv and b*.csv of `write_papers`; words.kinfolk, trained on a's venues, titles and numbers."""
    folder = tmp_path_factory.mktemp("shelf")
    write_papers(folder, "a", 60, 0)
    write_papers(folder, "b", 45, 1)
    graph = read_tables(folder / "a_words.csv", folder / "a_links.csv", label="topic", text="title", **COLUMNS)
    kf.StackedNodes(base(), depth=1, n_jobs=1).fit(graph).save(folder / "words.kinfolk")
    return folder


def base() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000, random_state=0)


def where(shelf: Path, name: str = "a", kind: str = "") -> list[object]:
    return ["--nodes", shelf / f"{name}{kind}.csv", "--edges", shelf / f"{name}_links.csv", *TABLES]


def labels(told: Any) -> dict[str, str]:
    assert told.status == 0, told
    return dict(line.split("\t") for line in told.out.splitlines())


def test_from_tables_to_scores(kinfolk: Any, shelf: Path, tmp_path: Path):
    done = kinfolk(
        "nodes", "train", *where(shelf, kind="_words"), "--label", "topic", "--text", "title", *STACKED,
        "--out", tmp_path / "m",
    )  # fmt: skip
    first, second, last = done.err.splitlines()
    assert (done.status, done.out) == (0, "")
    assert first.startswith("trained on 60 nodes, 60 of them with labels to learn from; 11 features; ")
    assert "links 'cites'" in first and "links 'cited_by'" in first
    told = "LogisticRegression on own features, then 1 level with neighbours by count(cites), count(cited_by)"
    assert second == told
    assert last == f"wrote {tmp_path / 'm'}"
    graph = read_tables(shelf / "b_words.csv", shelf / "b_links.csv", label="topic", text="title", **COLUMNS)
    model = kf.load_model(tmp_path / "m")
    wanted = model.predict_proba(graph)
    assert np.array_equal(wanted, kf.load_model(shelf / "words.kinfolk").predict_proba(graph))
    told = kinfolk("nodes", "predict", tmp_path / "m", *where(shelf, "b", "_words"), "--json", "--jobs", "1")
    answers = [json.loads(line) for line in told.out.splitlines()]
    assert [a["id"] for a in answers] == list(graph.ids)
    assert [list(a["probabilities"].values()) for a in answers] == wanted.tolist()
    command = ["nodes", "evaluate", tmp_path / "m", *where(shelf, "b", "_words"), "--label", "topic", "--jobs", "1"]
    assert kinfolk(*command).out.startswith(f"45 nodes; accuracy {model.evaluate(graph).accuracy:.2f} %\n")
    (tmp_path / "ids").write_text("q3\nq4\n")
    assert json.loads(kinfolk(*command, "--ids", tmp_path / "ids", "--json").out)["nodes"] == 2


@pytest.mark.parametrize("suffix", ["tsv", "parquet", "csv.gz"])
def test_other_tables_give_the_same(kinfolk: Any, shelf: Path, tmp_path: Path, suffix: str):
    nodes, links = papers(45, 1)
    files = [tmp_path / f"nodes.{suffix}", tmp_path / f"links.{suffix}"]
    for file, rows in zip(files, (nodes, links), strict=True):
        if suffix == "csv.gz":
            file.write_bytes(gzip.compress(write(tmp_path / "plain.csv", rows).read_bytes()))
        else:
            write(file, rows, "\t" if suffix == "tsv" else ",")
    told = kinfolk("nodes", "predict", shelf / "words.kinfolk", "--nodes", files[0], "--edges", files[1], *TABLES)
    assert told == kinfolk("nodes", "predict", shelf / "words.kinfolk", *where(shelf, "b", "_words"))
    trained = kinfolk(
        "nodes", "train", "--nodes", files[0], "--edges", files[1], *TABLES, "--label", "topic", "--text", "title",
        *STACKED, "--out", tmp_path / "m",
    )  # fmt: skip
    assert trained.status == 0 and "45 nodes" in trained.err


def test_a_table_without_labels_can_be_predicted(kinfolk: Any, shelf: Path, tmp_path: Path):
    """With or without --label; and columns the model does not know, the labels among them, have no part in it."""
    nodes, _ = papers(45, 1)
    wanted = kinfolk("nodes", "predict", shelf / "words.kinfolk", *where(shelf, "b", "_words")).out
    bare = write(tmp_path / "bare.csv", without(nodes, "topic"))
    odd = write(tmp_path / "odd.csv", [{"odd": "", **row} for row in nodes])
    for file in (bare, odd):
        for more in ([], ["--label", "topic"], ["--label", "nowhere"]):
            command = ["--nodes", file, *where(shelf, "b")[2:], *more]
            assert kinfolk("nodes", "predict", shelf / "words.kinfolk", *command).out == wanted
    needs = ["--nodes", bare, *where(shelf, "b")[2:]]
    for words in (["predict", shelf / "words.kinfolk", "--forced"], ["evaluate", shelf / "words.kinfolk"]):
        assert_refused(kinfolk("nodes", *words, *needs), "tables need --label")
        refused = kinfolk("nodes", *words, *needs, "--label", "topic")
        assert_refused(refused, bare, "no column 'topic' (label)", "name one with --label")


def test_known_labels_are_kept_and_seen(kinfolk: Any, shelf: Path, tmp_path: Path):
    (tmp_path / "known").write_text("\n".join(f"q{i}" for i in range(0, 45, 2)))
    command = ["nodes", "predict", shelf / "words.kinfolk", *where(shelf, "b", "_words"), "--label", "topic"]
    nodes, _ = papers(45, 1)
    told = labels(kinfolk(*command, "--known-ids", tmp_path / "known"))
    assert all(told[row["paper"]] == row["topic"] for row in nodes[::2])
    assert labels(kinfolk(*command, "--forced")) == {row["paper"]: row["topic"] for row in nodes}


def test_features_by_name(kinfolk: Any, shelf: Path, tmp_path: Path):
    """Chosen in training, in an order of one's own; found again in a table whose columns stand in another."""
    train = ["nodes", "train", *where(shelf, kind="_words"), "--label", "topic", "--features", "venue, age", *STACKED]
    assert "5 features" in kinfolk(*train, "--out", tmp_path / "m").err
    nodes, _ = papers(60, 0)
    write(tmp_path / "turned.csv", [dict(reversed(row.items())) for row in nodes])
    wanted = kinfolk("nodes", "predict", tmp_path / "m", *where(shelf, kind="_words"), "--proba").out
    turned = ["--nodes", tmp_path / "turned.csv", *where(shelf)[2:], "--proba"]
    assert kinfolk("nodes", "predict", tmp_path / "m", *turned).out == wanted
    assert kinfolk("nodes", "predict", tmp_path / "m", *turned, "--features", "venue,age").out == wanted
    lacking = kinfolk("nodes", "predict", tmp_path / "m", *where(shelf))
    assert_refused(lacking, shelf / "a.csv", "no column for the feature 'venue=", "the columns are 'paper', 'length'")


def test_columns_that_changed_their_kind(kinfolk: Any, shelf: Path, tmp_path: Path):
    nodes, _ = papers(45, 1)
    words = write(tmp_path / "words.csv", [{**row, "age": "old"} for row in nodes])
    numbers = write(tmp_path / "numbers.csv", [{**row, "venue": 3} for row in nodes])
    for file, told in ((words, "'age' held numbers in training"), (numbers, "'venue' held strings in training")):
        answer = kinfolk("nodes", "predict", shelf / "words.kinfolk", "--nodes", file, *where(shelf, "b")[2:])
        assert_refused(answer, file, told)


def test_missing_values(kinfolk: Any, shelf: Path, tmp_path: Path):
    nodes, _ = papers(60, 0)
    gaps = write(
        tmp_path / "gaps.csv", [{**row, "age": "" if i % 4 == 0 else row["age"]} for i, row in enumerate(nodes)]
    )
    rest = [*where(shelf)[2:], "--label", "topic", "--text", "title", *STACKED, "--out", tmp_path / "m"]
    refused = kinfolk("nodes", "train", "--nodes", gaps, *rest)
    assert_refused(refused, f"{gaps}, line 2: 'age' of node 'p0' is missing", "by --missing flag")
    assert "12 features" in kinfolk("nodes", "train", "--nodes", gaps, *rest, "--missing", "flag").err
    for file, links in ((gaps, where(shelf)[2:]), (shelf / "b_words.csv", where(shelf, "b")[2:])):
        assert kinfolk("nodes", "predict", tmp_path / "m", "--nodes", file, *links).status == 0


def test_named_relations(kinfolk: Any, shelf: Path, tmp_path: Path):
    _, links = papers(60, 0)
    half = write(tmp_path / "x=half.csv", links[: len(links) // 2])  # a name like NAME=FILE
    columns = ["--id", "paper", "--source", "citing", "--target", "cited", "--label", "topic", *STACKED]
    train = ["nodes", "train", "--nodes", shelf / "a.csv", *columns, "--out", tmp_path / "m"]
    named = ["--edges", f"all={shelf / 'a_links.csv'}", "--edges", f"some={half}"]
    told = "with neighbours by count(all), count(all_inverse), count(some), count(some_inverse)"
    assert told in kinfolk(*train, *named).err
    told = "with neighbours by count(all), count(back), count(some), count(some_inverse)"
    assert told in kinfolk(*train, *named, "--inverse", "all=back").err
    assert "with neighbours by count(all), count(some)\n" in kinfolk(*train, *named, "--undirected").err
    assert "with neighbours by count(all), count(some)\n" in kinfolk(*train, *named, "--inverse", "none").err
    column = write(tmp_path / "typed.csv", [{**row, "kind": "xy"[i % 2]} for i, row in enumerate(links)])
    typed = kinfolk(*train, "--edges", column, "--relation", "kind", "--inverse", "none")
    assert "with neighbours by count(x), count(y)\n" in typed.err
    assert "with neighbours by count(links_to), count(linked_from)\n" in kinfolk(*train, "--edges", half).err
    assert_refused(kinfolk(*train, *named, "--edges", half), "give every --edges a name, as in all=FILE")
    assert_refused(kinfolk(*train, *named, "--link", "z"), "--link names links without names")
    assert_refused(kinfolk(*train, *named, *named[:2]), "two --edges are named 'all'")
    assert_refused(kinfolk(*train, *named, "--inverse", "back"), "links with names need --inverse")
    assert_refused(kinfolk(*train, *named, "--inverse", "a", "--inverse", "b=c"), "--inverse may be repeated as NAME=")


def test_files_and_names_of_edges(tmp_path: Path):
    assert link_file("cites.csv") == (None, "cites.csv")
    assert link_file("cites=a=b.csv") == ("cites", "a=b.csv")
    assert link_file("data/year=2001/cites.csv") == (None, "data/year=2001/cites.csv")
    assert link_file("cites=") == (None, "cites=") and link_file("=a.csv") == (None, "=a.csv")


def test_weights_and_groups(kinfolk: Any, shelf: Path, tmp_path: Path):
    """Groups are kept whole, and nodes come out as they stand in the table."""
    nodes, links = papers(60, 0)
    files = [
        "--nodes", write(tmp_path / "n.csv", [{**row, "year": i % 6} for i, row in enumerate(nodes)]),
        "--edges", write(tmp_path / "e.csv", [{**row, "times": 1 + i % 3} for i, row in enumerate(links)]),
        *TABLES, "--weight", "times", "--group", "year",
    ]  # fmt: skip
    done = kinfolk("nodes", "train", *files, "--label", "topic", "--text", "title", *STACKED, "--out", tmp_path / "m")
    assert done.status == 0, done.err
    told = labels(kinfolk("nodes", "predict", tmp_path / "m", *files))
    assert list(told) == [row["paper"] for row in nodes]


def test_rules_for_links(kinfolk: Any, shelf: Path, tmp_path: Path):
    _, links = papers(60, 0)
    train = [
        "nodes",
        "train",
        "--nodes",
        shelf / "a.csv",
        *TABLES,
        "--label",
        "topic",
        *STACKED,
        "--out",
        tmp_path / "m",
    ]
    wrong = {
        "dangling": {"citing": "p1", "cited": "zebra"}, "self-loops": {"citing": "p1", "cited": "p1"},
        "duplicates": links[0],
    }  # fmt: skip
    for option, row in wrong.items():
        file = write(tmp_path / f"{option}.csv", [*links, row])
        assert kinfolk(*train, "--edges", file).status == 0
        kept = "merge" if option == "duplicates" else "drop"
        answer = kinfolk(*train, "--edges", file, f"--{option}", "refuse")
        assert_refused(answer, f"{file}, line {len(links) + 2}: ", f"with --{option} {kept}")
        assert_refused(kinfolk(*train, "--edges", file, f"--{option}", "keep"), "must be one of", "got 'keep'")


def test_mixtures_and_link_models_read_tables_too(kinfolk: Any, shelf: Path, tmp_path: Path):
    """And explain, which finds the features again."""
    train = ["nodes", "train", *where(shelf, kind="_words"), "--label", "topic", "--text", "title", "--jobs", "1"]
    few = ["--orders", "2", "--predict-orders", "2"]
    assert kinfolk(*train, *few, "--out", tmp_path / "mop").status == 0
    assert kinfolk(*train, "--model", "link", "--tolerance", "0.01", "--out", tmp_path / "link").status == 0
    for model in ("mop", "link"):
        told = kinfolk("nodes", "evaluate", tmp_path / model, *where(shelf, "b", "_words"), "--label", "topic")
        assert told.status == 0 and told.out.startswith("45 nodes; accuracy ")
    told = kinfolk("explain", tmp_path / "mop", *where(shelf, kind="_words"), "--node", "p7", "--jobs", "1")
    assert told.status == 0 and told.out.startswith("p7: ")


# -- which format it is -------------------------------------------------------------------------------


def test_names_that_tell_nothing(kinfolk: Any, shelf: Path, tmp_path: Path):
    nodes = tmp_path / "papers"
    nodes.write_bytes((shelf / "b_words.csv").read_bytes())
    links = tmp_path / "links"
    links.write_bytes((shelf / "b_links.csv").read_bytes())
    predict = ["nodes", "predict", shelf / "words.kinfolk", "--nodes", nodes, "--edges"]
    wanted = kinfolk("nodes", "predict", shelf / "words.kinfolk", *where(shelf, "b", "_words"))
    assert kinfolk(*predict, links, *TABLES) == wanted, "--id and the like speak of tables"
    assert kinfolk(*predict, shelf / "b_links.csv", *TABLES) == wanted
    assert_refused(
        kinfolk(*predict, links), f"the name of {nodes} does not tell what it is; say --format tables, linqs"
    )
    assert_refused(kinfolk(*predict, links, "--format", "tables"), "no column 'id' (id)", "name one with --id")
    piped = kinfolk(*predict[:4], "-", *where(shelf, "b")[2:], stdin=nodes.read_bytes())
    assert piped.out == wanted.out


def test_options_of_another_format(kinfolk: Any, shelf: Path, tmp_path: Path):
    (tmp_path / "g.content").write_text("a\t1\tX\nb\t0\tY\n" * 1)
    (tmp_path / "g.cites").write_text("a b\n")
    linqs = ["--nodes", tmp_path / "g.content", "--edges", tmp_path / "g.cites"]
    train = ["nodes", "train", "--out", tmp_path / "m"]
    assert_refused(
        kinfolk(*train, *linqs, "--label", "topic"), "--label is for tables; leave it out for --format linqs"
    )
    named = ["--nodes", tmp_path / "g.content", "--edges", f"cites={tmp_path / 'g.cites'}"]
    assert_refused(kinfolk(*train, *named), "--edges NAME=FILE is for tables")
    renamed = kinfolk(*train, *linqs, "--link", "to", "--inverse", "from", *STACKED, "--folds", "2", "--depth", "0",
                      "--template", "count:from")  # fmt: skip
    told = "; 1 links 'from'\nLogisticRegression on own features; no links used\n"
    assert renamed.status == 0 and told in renamed.err
    assert [template.name for template in kf.load_model(tmp_path / "m").template_set_.templates] == ["count(from)"]
    assert_refused(kinfolk(*train, "--nodes", tmp_path, "--weight", "w"), "--weight is for tables", "--format webkb")
    assert_refused(kinfolk(*train, "--nodes", shelf / "a.csv", "--label", "topic"), "--format tables needs --edges")
    assert_refused(kinfolk(*train, *where(shelf)), "tables need --label")
    twice = kinfolk(*train, *where(shelf), "--nodes", shelf / "b.csv", "--label", "topic")
    assert_refused(twice, "--format tables takes one --nodes; got 2")
    over = kinfolk("nodes", "train", "--nodes", shelf / "a.csv", "--edges", f"x={shelf / 'a_links.csv'}", "--out",
                   shelf / "a_links.csv")  # fmt: skip
    assert_refused(over, "would overwrite the data it is trained on")


# -- mistakes -----------------------------------------------------------------------------------------

MISTAKES = {
    "no such label": (["--label", "subject"], ["a.csv: no column 'subject' (label)", "name one with --label"]),
    "no such id": (["--label", "topic", "--id", "key"], ["a.csv: no column 'key' (id)", "name one with --id"]),
    "no such end": (["--label", "topic", "--source", "from"], ["a_links.csv: no column 'from' (source)", "--source"]),
    "no such feature": (["--label", "topic", "--features", "size"], ["no column 'size' (features)", "--features"]),
    "no such text": (["--label", "topic", "--text", "body"], ["no column 'body' (text)"]),
    "no such weight": (["--label", "topic", "--weight", "w"], ["no column 'w' (weight)"]),
    "ids that do not match": (["--label", "topic", "--id", "age"], ["ids must be distinct"]),
    "the label as a feature": (["--label", "topic", "--features", "topic"], ["'topic' is the label"]),
    "a word nobody knows": (["--label", "topic", "--missing", "guess"], ["missing must be one of refuse, flag"]),
}


@pytest.mark.parametrize(("options", "parts"), MISTAKES.values(), ids=MISTAKES.keys())
def test_columns_that_are_not_there(kinfolk: Any, shelf: Path, tmp_path: Path, options: list[str], parts: list[str]):
    answer = kinfolk("nodes", "train", *where(shelf), *options, *STACKED, "--out", tmp_path / "m")
    assert_refused(answer, *parts)
    assert not (tmp_path / "m").exists()


def test_faults_of_the_files(kinfolk: Any, shelf: Path, tmp_path: Path):
    train = ["nodes", "train", *TABLES, "--label", "topic", *STACKED, "--out", tmp_path / "m"]
    empty, only_names = tmp_path / "empty.csv", tmp_path / "names.csv"
    empty.write_text("")
    only_names.write_text("paper,age,topic\n")
    links = ["--edges", shelf / "a_links.csv"]
    assert_refused(kinfolk(*train, "--nodes", empty, *links), empty, "no columns")
    assert_refused(kinfolk(*train, "--nodes", only_names, *links), only_names, "no nodes")
    assert_refused(kinfolk(*train, "--nodes", shelf / "a.csv", "--edges", empty), empty, "no columns")
    assert_refused(kinfolk(*train, "--nodes", tmp_path / "no.csv", *links), tmp_path / "no.csv", "no such file")
    other = write(tmp_path / "other.csv", [{"citing": f"q{i}", "cited": f"q{i + 1}"} for i in range(9)])
    answer = kinfolk(*train, "--nodes", shelf / "a.csv", "--edges", other)
    assert_refused(answer, other, "none of the 9 links joins two nodes", "do the tables belong together")
    predict = ["nodes", "predict", shelf / "words.kinfolk", *TABLES]
    assert_refused(kinfolk(*predict, "--nodes", empty, *links), empty, "no columns")


def test_parquet_without_pyarrow(kinfolk: Any, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nodes = write(tmp_path / "n.parquet", papers(45, 1)[0])
    (tmp_path / "bad.parquet").write_bytes(nodes.read_bytes()[:200])
    files = ["--edges", shelf / "b_links.csv", *TABLES]
    broken = kinfolk("nodes", "predict", shelf / "words.kinfolk", "--nodes", tmp_path / "bad.parquet", *files)
    assert_refused(broken, tmp_path / "bad.parquet", "truncated or damaged")
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = "a Parquet file, which needs pyarrow, and that is not installed: pip install 'kinfolk[tables]'"
    predicted = kinfolk("nodes", "predict", shelf / "words.kinfolk", "--nodes", nodes, *files)
    assert_refused(predicted, nodes, told)
    options = ["--label", "topic", *STACKED, "--out", tmp_path / "m"]
    assert_refused(kinfolk("nodes", "train", "--nodes", nodes, *files, *options), nodes, told)


def test_labels_keep_their_type_in_parquet_and_are_known_again_in_csv(kinfolk: Any, shelf: Path, tmp_path: Path):
    nodes = papers(60, 0)[0]
    numbered = [{**row, "topic": len(row["topic"]) * 10 + ord(row["topic"][0])} for row in without(nodes, "title")]
    files = [write(tmp_path / f"n.{kind}", numbered) for kind in ("parquet", "csv")]
    edges = ["--edges", shelf / "a_links.csv", *TABLES]
    train = kinfolk(
        "nodes", "train", "--nodes", files[0], *edges, "--label", "topic", *STACKED, "--out", tmp_path / "m"
    )
    assert train.status == 0, train
    told = kinfolk("nodes", "predict", tmp_path / "m", "--nodes", files[0], *edges, "--json", "--jobs", "1")
    answers = [json.loads(line) for line in told.out.splitlines()]
    assert {answer["label"] for answer in answers} == {row["topic"] for row in numbered}
    assert [*answers[0]["probabilities"]] == ["88", "93", "97"]
    scored = ["nodes", "evaluate", tmp_path / "m", *edges, "--label", "topic", "--jobs", "1", "--nodes"]
    one, other = (kinfolk(*scored, file) for file in files)
    share = np.mean([answer["label"] == row["topic"] for answer, row in zip(answers, numbered, strict=True)])
    assert one.status == 0 and one.out == other.out and one.out.startswith(f"60 nodes; accuracy {100 * share:.2f} %")
    assert share > 0.6 and "never saw" not in one.err + other.err
    page = kinfolk(*scored, files[0], "--report", tmp_path / "page.html")
    assert page.status == 0 and page.out == one.out


@pytest.mark.parametrize("method", ["stacked", "mop", "link", "dependency-network"])
def test_how_tables_were_read_is_remembered(kinfolk: Any, shelf: Path, tmp_path: Path, method: str):
    """Names of links, their inverse, ids and labels: told once, in training."""
    train = [*where(shelf), "--label", "topic", "--model", method, "--jobs", "1", "--quiet", "--out", tmp_path / "m"]
    assert kinfolk("nodes", "train", *train).status == 0
    plain = ["--nodes", shelf / "b.csv", "--edges", shelf / "b_links.csv", "--jobs", "1"]
    for command in (["predict"], ["evaluate"]):
        told = kinfolk("nodes", *command, tmp_path / "m", *plain)
        asked = [*where(shelf, "b"), "--label", "topic", "--jobs", "1"]
        again = kinfolk("nodes", *command, tmp_path / "m", *asked)
        assert told.status == 0 and told.out == again.out
    assert kinfolk("explain", tmp_path / "m", *plain, "--node", "q3").status == 0


def test_links_by_another_name_are_no_silent_loss(kinfolk: Any, shelf: Path, tmp_path: Path):
    train = [*where(shelf), "--label", "topic", *STACKED, "--quiet", "--out", tmp_path / "m"]
    assert kinfolk("nodes", "train", *train).status == 0
    other = ["--nodes", shelf / "b.csv", "--edges", shelf / "b_links.csv", "--link", "quotes", "--inverse", "quoted_by"]
    told = kinfolk("nodes", "predict", tmp_path / "m", *other, "--jobs", "1")
    assert_refused(told, "trained on the links", "'quotes' and 'quoted_by'", "is missing", "as in training")


def test_columns_of_links(kinfolk: Any, tmp_path: Path):
    """What training read is remembered: the columns, and where numbers are cut."""
    nodes, links = papers(60, 0)
    told = [{**link, "pages": 1 + i % 7, "tone": ("kind", "harsh")[i % 2]} for i, link in enumerate(links)]
    own, model = write(tmp_path / "p.csv", nodes), tmp_path / "m"
    every, few = write(tmp_path / "l.csv", told), write(tmp_path / "few.csv", [one for one in told if one["pages"] < 4])
    more = ["--label", "topic", "--text", "title", "--link-features", "pages,tone", *STACKED]
    done = kinfolk("nodes", "train", "--nodes", own, "--edges", every, *TABLES, *more, "--out", model)
    assert done.status == 0 and "links 'cites[pages=low]'" in done.err and "links 'cited_by[tone=harsh]'" in done.err
    columns: dict[str, Any] = {"label": "topic", "text": "title", **COLUMNS}
    cuts = read_tables(own, every, link_features=["pages", "tone"], **columns).link_features
    assert cuts == {"pages": (3.0, 5.0), "tone": None}
    for file in (every, few):
        wanted = kf.load_model(model).predict(read_tables(own, file, link_features=cuts, **columns), known="none")
        found = labels(kinfolk("nodes", "predict", model, "--nodes", own, "--edges", file, "--known", "none"))
        assert list(found.values()) == wanted.tolist()
    gaps = write(tmp_path / "gaps.csv", [{**one, "pages": "" if i == 2 else 1} for i, one in enumerate(told)])
    refused = kinfolk("nodes", "predict", model, "--nodes", own, "--edges", gaps)
    assert_refused(refused, "gaps.csv, line 4: ", "column 'pages' (link_features): 1 of")


def test_json_has_ids_as_the_table_has_them(kinfolk: Any, tmp_path: Path):
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    nodes, links = papers(30, 0)
    numbers = [{**one, "paper": int(one["paper"][1:])} for one in nodes]
    ends = [{name: int(key[1:]) for name, key in one.items()} for one in links]
    files = ["--nodes", write(tmp_path / "p.parquet", numbers), "--edges", write(tmp_path / "l.parquet", ends)]
    more = ["--label", "topic", "--text", "title", *STACKED, "--out", tmp_path / "m"]
    assert kinfolk("nodes", "train", *files, *TABLES, *more).status == 0
    told = kinfolk("nodes", "predict", tmp_path / "m", *files, "--json", "--known", "none").out
    assert [json.loads(line)["id"] for line in told.splitlines()] == list(range(30))
