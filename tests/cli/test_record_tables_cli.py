"""`kinfolk records cluster --all-columns` and `records link`: tables out as they came in."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kinfolk as kf

ONE = ["--jobs", "1"]
PEOPLE = [
    ["r0", "Ann Lee", "York", "x, y"], ["r1", "Bob Roy", "Bath", ""], ["r2", "Anne Lee", "York", "z"],
    ["r3", "Cora May", "Hull", ""], ["r4", "Rob Roy", "Bath", "q"], ["r5", "Cora Mai", "Hull", ""],
]  # fmt: skip
HEAD = ["id", "name", "town", "remark"]


def write(path: Path, rows: list[list[str]], head: list[str] = HEAD, divider: str = ",") -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=divider).writerows([head, *rows])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """people.csv, people.tsv, people.parquet, base.csv, new.csv, new.parquet and the model `linker`."""
    place = tmp_path_factory.mktemp("tables")
    write(place / "people.csv", PEOPLE)
    write(place / "people.tsv", PEOPLE, divider="\t")
    columns = {name: [row[k] or None for row in PEOPLE] for k, name in enumerate(HEAD)}
    table = pa.table({**columns, "seen": list(range(6))})
    pq.write_table(table, place / "people.parquet")
    write(place / "base.csv", [[*row, who] for row, who in zip(PEOPLE[:2], "73", strict=True)], [*HEAD, "cluster"])
    write(place / "new.csv", PEOPLE[2:])
    pq.write_table(table.slice(2), place / "new.parquet")
    truth = kf.records_from_frames({**columns, "who": [0, 1, 0, 2, 1, 2]}, fields=["name", "town"], cluster="who")
    kf.Linker(["jaro_winkler(name)", "exact(town)"], l2=0.01, n_jobs=1).fit(truth).save(place / "linker")
    return place


def rows_in(text: str, divider: str = ",") -> list[list[str]]:
    return list(csv.reader(text.splitlines(), delimiter=divider))


@pytest.mark.parametrize(("name", "divider"), [("people.csv", ","), ("people.tsv", "\t")])
def test_a_table_of_text_goes_out_with_its_delimiter(kinfolk: Any, folder: Path, name: str, divider: str):
    done = kinfolk("records", "cluster", folder / "linker", "--records", folder / name, "--all-columns", *ONE)
    assert done.status == 0, done
    head, *rows = rows_in(done.out, divider)
    assert head == [*HEAD, "cluster", "probability"]
    assert [row[:4] for row in rows] == PEOPLE
    assert [row[4] for row in rows] == ["0", "1", "0", "2", "1", "2"]
    assert all(0.5 < float(row[5]) <= 1 for row in rows)


def test_parquet_goes_out_as_parquet(kinfolk: Any, folder: Path, tmp_path: Path):
    asked = ["records", "cluster", folder / "linker", "--records", folder / "people.parquet", "--all-columns", *ONE]
    done = kinfolk(*asked, "-o", tmp_path / "out.parquet")
    assert done.status == 0, done
    before, after = pq.read_table(folder / "people.parquet"), pq.read_table(tmp_path / "out.parquet")
    assert after.select(before.column_names).equals(before)
    assert after["cluster"].to_pylist() == [0, 1, 0, 2, 1, 2] and after["probability"].type == pa.float64()
    refused = kinfolk(*asked)
    assert refused.status == 2 and "is a Parquet table, and so is the answer; name a file with --output" in refused.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--json"], "leave out --json"),
        (["--other", "new.csv"], "leave out --other"),
        (["-o", "out.parquet"], "is CSV, and so is the answer"),
    ],
)
def test_what_does_not_go_with_all_columns(kinfolk: Any, folder: Path, options: list[str], said: str):
    asked = ["records", "cluster", folder / "linker", "--records", folder / "people.csv", "--all-columns", *ONE]
    refused = kinfolk(*asked, *(folder / one if one == "new.csv" else one for one in options))
    assert refused.status == 2 and said in refused.err and refused.err.count("\n") == 1, refused


def test_a_column_that_is_there_is_not_overwritten(kinfolk: Any, folder: Path):
    asked = ["records", "cluster", folder / "linker", "--records", folder / "base.csv", "--all-columns", *ONE]
    refused = kinfolk(*asked)
    assert refused.status == 2 and "there is a column 'cluster' already" in refused.err
    assert refused.err.rstrip().endswith("rename it")
    clustered = ["records", "link", folder / "linker", "--base", folder / "base.csv", "--records", folder / "old.csv"]
    write(folder / "old.csv", [[*row, "x"] for row in PEOPLE[2:]], [*HEAD, "also"])
    refused = kinfolk(*clustered, *ONE)
    assert refused.status == 2 and refused.err.rstrip().endswith("rename it") and "'also'" in refused.err


def test_a_model_of_texts_has_no_base(kinfolk: Any, folder: Path, tmp_path: Path):
    rows = [("Emma", "(0)"), ("saw", "-"), ("Kim", "(1)"), ("She", "(0)"), ("left", "-"), ("Kim", "(1)")]
    lines = [f"letter\t0\t{i}\t{word}\t{cell}" for i, (word, cell) in enumerate(rows)]
    text = "".join("\n".join([f"#begin document (l{k}); part 0", *lines, "", "#end document", ""]) for k in range(3))
    (tmp_path / "letters.conll").write_text(text)
    kf.Linker(n_jobs=1).fit(kf.read_coref(tmp_path / "letters.conll")).save(tmp_path / "texts")
    asked = ["--base", folder / "base.csv", "--records", folder / "new.csv", *ONE]
    refused = kinfolk("records", "link", tmp_path / "texts", *asked)
    assert refused.status == 2 and "was trained on documents" in refused.err
    page = ["--documents", tmp_path / "letters.conll", "-o", tmp_path / "page.html", *ONE]
    assert kinfolk("records", "report", tmp_path / "texts", *page).status == 0
    assert "was trained on" not in kinfolk("records", "show", tmp_path / "texts").err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_new_records_are_added_to_a_base(kinfolk: Any, folder: Path, tmp_path: Path, suffix: str):
    out = tmp_path / f"out.{suffix}"
    asked = ["records", "link", folder / "linker", "--base", folder / "base.csv", "--records", folder / f"new.{suffix}"]
    done = kinfolk(*asked, "-o", out, "--pairs", tmp_path / "pairs.csv", "--least", "0.5", *ONE)
    assert done.status == 0, done
    if suffix == "csv":
        head, *rows = rows_in(out.read_text())
        assert head == [*HEAD, "cluster", "probability", "also"] and [row[:4] for row in rows] == PEOPLE[2:]
        found = [row[4] for row in rows]
    else:
        found = pq.read_table(out)["cluster"].to_pylist()
    assert found == ["7", "8", "3", "8"]
    head, *pairs = rows_in((tmp_path / "pairs.csv").read_text())
    assert head == ["id_left", "id_right", "probability", "together"]
    assert ["r0", "r2"] in [pair[:2] for pair in pairs] and ["r0", "r1"] not in [pair[:2] for pair in pairs]


def test_added_records_as_json_and_by_other_rules(kinfolk: Any, folder: Path):
    asked = ["records", "link", folder / "linker", "--base", folder / "base.csv", "--records", folder / "new.csv"]
    done = kinfolk(*asked, "--json", "--block", "key(town)", *ONE)
    assert done.status == 0, done
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(row["id"], row["cluster"], row["also"]) for row in rows] == [
        ("r2", "7", None), ("r3", "8", None), ("r4", "3", None), ("r5", "8", None),
    ]  # fmt: skip


def test_a_base_that_cannot_be_one_is_refused(kinfolk: Any, folder: Path):
    asked = ["records", "link", folder / "linker", "--records", folder / "new.csv", *ONE]
    for base, said in (("new.csv", "twice"), ("people.csv", "no column 'cluster'")):
        refused = kinfolk(*asked, "--base", folder / base)
        assert refused.status == 2 and said in refused.err and refused.err.count("\n") == 1, refused


def test_a_model_is_shown(kinfolk: Any, folder: Path):
    told = kinfolk("records", "show", folder / "linker")
    assert told.status == 0 and told.err == "", told
    assert "Linker: 2 comparisons" in told.out and "clusterer AverageLink(threshold=0.5" in told.out
    head = next(line for line in told.out.splitlines() if line.startswith("comparison"))
    assert head.split()[:4] == ["comparison", "level", "weight", "difference"]
    assert any(line.startswith("exact(town)") and "missing" in line for line in told.out.splitlines())
    plain = kinfolk("records", "show", folder / "linker", "--json")
    assert json.loads(plain.out) == kf.load_model(folder / "linker").to_dict()


def test_a_page_about_records_is_written(kinfolk: Any, folder: Path, tmp_path: Path):
    asked = ["records", "report", folder / "linker", "--records", folder / "people.csv", *ONE]
    done = kinfolk(*asked, "-o", tmp_path / "page.html", "--clusters", "2", "--block", "key(town)")
    assert done.status == 0 and done.out == "" and "wrote" in done.err, done
    text = (tmp_path / "page.html").read_text()
    assert all(f'"kind":"{kind}"' in text for kind in ("records", "blocking", "weights", "thresholds", "links"))
    refused = kinfolk(*asked, "-o", folder / "people.csv")
    assert refused.status == 2 and "would overwrite" in refused.err
    refused = kinfolk(*asked, "-o", tmp_path / "page.html", "--clusters", "-1")
    assert refused.status == 2 and "--clusters must be 0 or more" in refused.err
