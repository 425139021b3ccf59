"""Records in files and frames: tables, truth in all its forms, every fault with its line, and the real record sets."""

from __future__ import annotations

import gzip
import io
import logging
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from kinfolk.core.data import Column
from kinfolk.errors import DataWarning, InputError, SettingError
from kinfolk.linking.blocking import blocked
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.records import read_records, records_from_frames

PEOPLE = 'id, name , born,entity\n1, Ann ,1990-01-02, x\n2,Anne,,x\n\n03," Bo,b ", 19910203 ,\n'


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def writer(text: str | bytes, name: str = "records.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return writer


def told(items: Mentions, field: str) -> list[Any]:
    column = items.columns[field]
    return column.strings() if isinstance(column, Column) else column.tolist()


def clusters(items: Mentions) -> list[int]:
    assert items.clusters is not None
    return items.clusters.tolist()


# -- tables -------------------------------------------------------------------------------------------


def test_one_table(write: Any, caplog: pytest.LogCaptureFixture):
    items = read_records(write(PEOPLE), cluster="entity")
    assert list(items.columns) == ["name", "born"] and items.names == ["1", "2", "03"]
    assert told(items, "name") == ["Ann", "Anne", "Bo,b"] and told(items, "born") == ["1990-01-02", None, "19910203"]
    assert clusters(items) == [0, 0, -1] and items.n_pairs == 0 and items.first_table is None
    assert items.groups.tolist() == [0, 0, 0] and not caplog.records


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "|", "%"])
def test_delimiters_and_packed_files(delimiter: str, write: Any):
    text = "id,a,b\n1,x y,0800\n2,,z\n".replace(",", delimiter)
    path = write(gzip.compress(text.encode()), "r.csv.gz")
    items = read_records(path, delimiter="%" if delimiter == "%" else None)
    assert told(items, "a") == ["x y", None] and told(items, "b") == ["0800", "z"]


def test_open_files_and_standard_input(write: Any, monkeypatch: pytest.MonkeyPatch):
    assert read_records(io.BytesIO(PEOPLE.encode()), cluster="entity").n_items == 3
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PEOPLE.encode())))
    assert read_records("-", cluster="entity").n_items == 3
    with pytest.raises(SettingError, match="only one of the files can be standard input"):
        read_records("-", "-")


def test_parquet(tmp_path: Path):
    frame = pl.DataFrame({"id": [1, 2], "name": [" a ", ""], "price": [1.5, None], "at": [date(2000, 1, 2), None]})
    frame.drop("at").write_parquet(tmp_path / "r.parquet")
    items = read_records(tmp_path / "r.parquet")
    assert told(items, "name") == ["a", None] and told(items, "price")[0] == 1.5 and np.isnan(told(items, "price")[1])


def test_files_without_names(write: Any):
    path = write("A\tk1\t Ann  Lee \nB\tk1\tAnn Lee\nA\tk2\tBo\n")
    items = read_records(path, id=None, header=["side", "key", "text"], table="side", cluster="key")
    assert items.first_table == 2 and told(items, "text") == ["Ann  Lee", "Bo", "Ann Lee"]
    assert clusters(items) == [0, 1, 0] and items.names == ["A:0", "A:1", "B:0"] and list(items.columns) == ["text"]
    with pytest.raises(InputError, match=r"records.csv, line 2: expected 2 cells, as many as columns in header, got 3"):
        read_records(write("a,b\na,b,c\n"), header=["id", "f"])
    with pytest.raises(InputError, match=r"records.csv, line 3: ids must be distinct; 'a' was in .*line 1"):
        read_records(write("a,b\nc,d\na,b\n"), header=["id", "f"])


def test_two_tables(write: Any, caplog: pytest.LogCaptureFixture):
    one, two = write("id,name,age\n1,a,3\n2,b,4\n", "one.csv"), write("name,id,size\nb,2,9\nc,5,9\n", "two.csv")
    items = read_records(one, two)
    assert items.first_table == 2 and list(items.columns) == ["name"] and told(items, "name") == ["a", "b", "b", "c"]
    assert items.names == ["one:1", "one:2", "two:2", "two:5"]  # both have a 2
    assert "one.csv: the other table has no column 'age'" in caplog.text and "no column 'size'" in caplog.text
    with pytest.raises(InputError, match="no column 'age'"):
        read_records(one, two, fields=["name", "age"])
    apart = read_records(one, write("id,name\n7,b\n", "two.csv"))
    assert apart.names == ["1", "2", "7"]


def test_empty_fields_are_told(write: Any, caplog: pytest.LogCaptureFixture):
    """They stay: a model may compare by a field that nobody has a value of in a small table."""
    items = read_records(write("id,a,b\n1,x,\n2,y, \n"))
    assert list(items.columns) == ["a", "b"] and told(items, "b") == [None, None]
    assert "the field 'b' is empty in every record" in caplog.text


@pytest.mark.parametrize("frame", [pd.DataFrame({"id": [], "name": []}), pl.DataFrame({"id": [], "name": []})])
def test_a_table_without_rows_has_no_records(write: Any, frame: Any, caplog: pytest.LogCaptureFixture):
    file, full = write("id,name\n", "empty.csv"), write("id,name\n1,x\n2,y\n")
    for items in (read_records(file), records_from_frames(frame)):
        assert items.n_items == 0 and list(items.columns) == ["name"] and items.names == []
    one_empty = read_records(full, file)
    assert one_empty.first_table == 2 and one_empty.n_items == 2 and one_empty.n_possible_pairs == 0
    assert read_records(file, full).first_table == 0
    more = write("id,name,who\n", "empty.csv")
    assert read_records(more, table="who").first_table == 0 and clusters(read_records(more, cluster="who")) == []
    assert not caplog.records


BAD_TABLES = {
    "empty": ("", {}, "no columns"),
    "no id": ("a,b\n1,2\n", {}, r"no column 'id' \(id\); the columns are 'a', 'b'"),
    "missing id": ("id,a\n1,x\n ,y\n", {}, r"line 3: column 'id' \(id\): the id is missing"),
    "id twice": ("id,a\n1,x\n2,y\n1 ,z\n", {}, "line 4: ids must be distinct; '1' was in .*line 2"),
    "column twice": ("id,a, a\n1,x,y\n", {}, "two columns are named 'a'"),
    "only id": ("id\n1\n", {}, "no fields to compare"),
    "ragged": ("id,a\n1,x,y\n", {}, "line 2: expected 2 cells"),
    "not UTF-8": (b"id,a\n1,\xe9\n", {}, "line 2: not UTF-8"),
    "truncated gzip": (gzip.compress(b"id,a\n1,x\n")[:-9], {}, "gzip data is truncated"),
    "no cluster": ("id,a\n1,x\n", {"cluster": "c"}, r"no column 'c' \(cluster\)"),
    "no such field": ("id,a\n1,x\n", {"fields": "b"}, r"no column 'b' \(fields\)"),
    "three tables": ("id,a,t\n1,x,p\n2,x,q\n3,x,r\n", {"table": "t"}, "must have two values.*got 3: 'p', 'q', 'r'"),
    "id that does not fit": ("id,a\nrec-1-org,x\n7,y\n", {"cluster_from_id": "febrl"}, "line 3: .*no cluster.*'7'"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "options", "message"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_tables_that_cannot_be_read(write: Any, text: str | bytes, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message) as caught, np.errstate(all="raise"):
        read_records(write(text), **options)
    assert "records.csv" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"fields": ["name", "id"]}, {"fields": "entity", "cluster": "entity"}, {"cluster_from_id": "(", },
        {"cluster_from_id": "rec-"}, {"cluster_from_id": "(.)", "cluster": "entity"}, {"delimiter": "ab"},
        {"match_columns": ["a", "b"]}, {"header": "id"}, {"header": ["id", "id"]}, {"delimiter": '"'},
        {"match_columns": "ab", "truth": "t.csv"}, {"table": "entity", "other": "records.csv"},
    ],
)  # fmt: skip
def test_settings_are_checked(write: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(write(PEOPLE).parent)
    with pytest.raises(SettingError):
        read_records("records.csv", **options)


# -- truth --------------------------------------------------------------------------------------------

FIVE = "id,f\na,1\nb,2\nc,3\nd,4\ne,5\n"


@pytest.mark.parametrize("text", ["a,b\nd,e\n", "left,right\na,b\nd,e\n", " a , b\nd,e\nb,a\na,b\n", "\n\na,b\n\nd,e"])
def test_matches_with_and_without_names(write: Any, text: str, caplog: pytest.LogCaptureFixture):
    items = read_records(write(FIVE), truth=write(text, "truth.csv"))
    assert clusters(items) == [0, 0, 1, 2, 2] and items.n_true_pairs == 2 and not caplog.records


@pytest.mark.parametrize("word", ["NA", "N/A", "nan", "NaN", "NULL", "null", "None"])
def test_words_for_missing_among_clusters_are_told(write: Any, word: str):
    text = f"id,name,who\n1,Ann,x\n2,Anne,x\n3,Bob,{word}\n4,Rob, \n"
    with pytest.warns(DataWarning, match=rf"records.csv: column 'who' \(cluster\): '{word}' in 1 row is taken"):
        assert clusters(read_records(write(text), cluster="who")) == [0, 0, 1, -1]
    people, truth = write("id,name\n1,Ann\n2,Bob\n"), write(f"id,who\n1,{word}\n2,x\n", "truth.csv")
    with pytest.warns(DataWarning, match=rf"truth.csv: column 'who' \(cluster\): '{word}' in 1 row"):
        assert clusters(read_records(people, truth=truth, cluster="who")) == [0, 1]


def test_minus_one_among_numbers_of_clusters_is_not_known(write: Any):
    """As `Mentions.clusters` itself has it."""
    items = records_from_frames({"id": list("abcd"), "name": list("abcd"), "who": ["x", "x", None, "y"]}, cluster="who")
    again = {"id": items.names, "name": told(items, "name"), "who": items.clusters}
    assert clusters(records_from_frames(again, cluster="who")) == clusters(items) == [0, 0, -1, 1]
    rows = zip(items.names, told(items, "name"), clusters(items), strict=True)
    file = write("id,name,who\n" + "".join(f"{key},{name},{who}\n" for key, name, who in rows))
    assert clusters(read_records(file, cluster="who")) == [0, 0, -1, 1]
    named = {"id": list("abc"), "name": list("abc"), "who": ["-1", "-1", "x"]}
    assert clusters(records_from_frames(named, cluster="who")) == [0, 0, 1], "a name among names"


def test_named_columns_of_matches(write: Any):
    truth = write("n,two,one\n1,b,a\n", "truth.csv")
    assert clusters(read_records(write(FIVE), truth=truth, match_columns=["one", "two"])) == [0, 0, 1, 2, 3]
    with pytest.raises(InputError, match=r"truth.csv: expected two columns.*match_columns="):
        read_records(write(FIVE), truth=truth)


MANY = "id,f\n" + "".join(f"r{i},{i}\n" for i in range(40))


def test_a_few_matches_are_warned_of(write: Any, caplog: pytest.LogCaptureFixture):
    """Every pair that is not listed is taken for none, which is right only of a whole list."""
    read_records(write(MANY), truth=write("r1,r2\nr3,r4\n", "truth.csv"))
    assert "truth.csv: 2 matches name 4 of 40 records, and every other pair is taken for none" in caplog.text
    assert "give them to fit, `pairs=...`" in caplog.text
    caplog.clear()
    whole = "".join(f"r{i},r{i + 20}\n" for i in range(12))
    read_records(write(MANY), truth=write(whole, "truth.csv"))
    few = write("id,f\nr0,1\nr1,2\nr2,3\n", "few.csv")  # of two tables that with the larger share counts
    read_records(few, write(MANY), truth=write("r0,r0\nr1,r1\n", "truth.csv"))
    assert not caplog.records


SAYS_NO = {
    "a score of 0": ("score\na,b,1\nc,d,0\n", "line 3: the column 'score' says '0', so this is no match, like 0 other"),
    "scores": ("match_probability\na,b,0.9\nc,d,0.02\n", "line 2: .*'0.9'.*make it yes or no and give.*pairs="),
    "a word": ("same\na,b,yes\nc,d,no\n", "'no', so this is no match.*leave out such rows and the column, or give"),
    "not known": ("same\na,b,yes\nc,d,\n", "says ''"),
}


@pytest.mark.parametrize(("text", "message"), SAYS_NO.values(), ids=SAYS_NO.keys())
def test_a_pair_that_a_column_denies_is_no_match(write: Any, text: str, message: str):
    truth = write(f"l,r,{text}", "truth.csv")
    with pytest.raises(InputError, match=message):
        read_records(write(FIVE), truth=truth, match_columns=["l", "r"])
    with pytest.raises(InputError, match=r"truth.csv: expected two columns.*says yes or no.*pairs=\.\.\."):
        read_records(write(FIVE), truth=truth)


@pytest.mark.parametrize("column", ["match\na,b,1\nc,d,1", "n\na,b,0\nc,d,1", "year\na,b,0.5\nc,d,2", "by\na,b,\nc,d,"])
def test_columns_that_deny_nothing(write: Any, column: str):
    truth = write(f"l,r,{column}\n", "truth.csv")
    assert clusters(read_records(write(FIVE), truth=truth, match_columns=["l", "r"])) == [0, 0, 1, 1, 2]


def test_matches_that_are_not_closed(write: Any, caplog: pytest.LogCaptureFixture):
    truth = write("a,b\nb,c\nc,d\n", "truth.csv")
    items = read_records(write(FIVE), truth=truth)
    assert clusters(items) == [0, 0, 0, 0, 1]
    assert "'a' and 'c' match by way of others but are not listed, and so with 3 pairs" in caplog.text
    with pytest.raises(InputError, match=r"'a' and 'c' match by way.*truth_closure=\"close\""):
        read_records(write(FIVE), truth=truth, truth_closure="refuse")
    with pytest.raises(SettingError, match="truth_closure"):
        read_records(write(FIVE), truth=truth, truth_closure="maybe")


def test_matches_of_two_tables(write: Any, caplog: pytest.LogCaptureFixture):
    one, two = write("id,f\n1,x\n2,y\n3,z\n", "one.csv"), write("id,f\n1,x\n2,y\n", "two.csv")
    items = read_records(one, two, truth=write("1,2\n2,2\n", "truth.csv"))
    assert clusters(items) == [0, 0, 1, 2, 0] and items.n_true_pairs == 2 and not caplog.records
    read_records(one, two, truth=write("1,2\n2,2\n1,1\n", "truth.csv"))  # so 2 = 1 across
    assert "'2' and '1' match by way of others" in caplog.text and "with 1 pairs" in caplog.text
    with pytest.raises(InputError, match=r"truth.csv, line 1: no record of .*two.csv has the id '3'; the ids of"):
        read_records(one, two, truth=write("2,3\n", "truth.csv"))


def test_a_table_of_clusters(write: Any):
    truth = write("id,cluster\nb,9\na,9\nd,\n", "truth.csv")
    assert clusters(read_records(write(FIVE), truth=truth, cluster="cluster")) == [0, 0, -1, -1, -1]
    named = write("record,cluster\nb,9\n", "truth.csv")
    assert clusters(read_records(write(FIVE), truth=named, cluster="cluster")) == [-1, 0, -1, -1, -1]
    one, two = write(FIVE, "one.csv"), write("id,f\nx,1\na,1\n", "two.csv")
    joined = write("id,cluster\nb,9\nx,9\n", "truth.csv")
    assert clusters(read_records(one, two, truth=joined, cluster="cluster"))[1::4] == [0, 0]
    with pytest.raises(InputError, match=r"truth.csv, line 3: both tables have a record with the id 'a'"):
        read_records(one, two, truth=write("id,cluster\nb,9\na,9\n", "truth.csv"), cluster="cluster")


BAD_TRUTH = {
    "unknown id": ("a,b\nc,q\n", {}, "truth.csv, line 2: no record of .*records.csv has the id 'q'"),
    "unknown below names": ("l,r\na,b\n\nq,b\n", {}, "truth.csv, line 4: no record of .* has the id 'q'"),
    "missing id": ("a,b\nc,\n", {}, "truth.csv, line 2: .*the id is missing"),
    "one column": ("a\nb\n", {}, "expected two columns with the ids of matches"),
    "three columns": ("a,b,c\n", {}, "expected two columns with the ids of matches"),
    "ragged": ("a,b\nc\n", {}, "truth.csv, line 2: expected 2 cells"),
    "nothing": ("", {}, "truth.csv: no columns"),
    "unknown in clusters": ("id,c\na,1\nq,1\n", {"cluster": "c"}, "truth.csv, line 3: no record has the id 'q'"),
    "twice in clusters": ("id,c\na,1\na,2\n", {"cluster": "c"}, "line 3: the record 'a' was in .*line 2 already"),
    "no cluster": ("id,c\na,1\n", {"cluster": "d"}, r"truth.csv: no column 'd' \(cluster\)"),
}


@pytest.mark.parametrize(("text", "options", "message"), BAD_TRUTH.values(), ids=BAD_TRUTH.keys())
def test_truth_that_cannot_be_read(write: Any, text: str, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        read_records(write(FIVE), truth=write(text, "truth.csv"), **options)


def test_records_matched_with_themselves(write: Any, caplog: pytest.LogCaptureFixture):
    items = read_records(write(FIVE), truth=write("a,a\n", "truth.csv"))
    assert clusters(items) == [0, 1, 2, 3, 4] and "1 rows match a record with itself" in caplog.text
    assert "has no matches" in caplog.text


def test_clusters_in_ids(write: Any):
    path = write("rec_id, f\nrec-7-org, x\nrec-8-org, y\nrec-7-dup-0, x\n")
    assert clusters(read_records(path, id="rec_id", cluster_from_id="febrl")) == [0, 1, 0]
    assert clusters(read_records(path, id="rec_id", cluster_from_id=r".*-(\w+)$")) == [0, 0, 1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8), st.booleans())
def test_clusters_of_matches_are_the_connected_ones(matches: list[tuple[int, int]], two: bool):
    frame = pd.DataFrame({"id": range(6), "f": "x"})
    truth = pd.DataFrame(matches, columns=["a", "b"], dtype=np.int64)
    items = records_from_frames(frame, frame if two else None, truth=truth)
    n = 12 if two else 6
    label = list(range(n))
    for a, b in matches:  # the smaller label wins until nothing changes
        one, other = label[a], label[b + 6 if two else b]
        label = [min(one, other) if value in (one, other) else value for value in label]
    found = clusters(items)
    assert [[found[i] == found[j] for j in range(n)] for i in range(n)] == [[p == q for q in label] for p in label]


# -- frames -------------------------------------------------------------------------------------------

COLUMNS: dict[str, list[Any]] = {
    "id": [10, 11, 12],
    "name": [" a ", "", None],
    "price": [1.5, None, 3.0],
    "count": [1, 2, 3],
    "new": [True, False, True],
    "at": [date(2000, 1, 2), None, date(2001, 3, 4)],
    "entity": ["x", None, "x"],
}


@pytest.mark.parametrize(
    "make",
    [
        pl.DataFrame,
        pa.table,
        lambda columns: pd.DataFrame({**columns, "at": pd.to_datetime(columns["at"])}),
        pd.DataFrame,
        lambda columns: pd.DataFrame({**columns, "at": pd.Series(pd.to_datetime(columns["at"]), dtype=object)}),
    ],
    ids=["polars", "arrow", "pandas", "pandas-dates", "pandas-times"],
)
def test_frames(make: Any):
    items = records_from_frames(make(COLUMNS), cluster="entity")
    assert items.names == ["10", "11", "12"] and clusters(items) == [0, -1, 0]
    assert told(items, "name") == ["a", None, None] and told(items, "at") == ["2000-01-02", None, "2001-03-04"]
    assert told(items, "count") == [1.0, 2.0, 3.0] and np.isnan(told(items, "price")[1])
    assert told(items, "new") == ["True", "False", "True"]


@pytest.mark.parametrize("kind", ["date32", "timestamp[ns]", "timestamp[us]"])
def test_dates_of_parquet_files_are_written_as_those_of_frames(kind: str, tmp_path: Path):
    table = pa.table({**COLUMNS, "at": pa.array(COLUMNS["at"], pa.date32()).cast(kind), "two": [["a"], ["b"], None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    for items in (records_from_frames(table, cluster="entity"), read_records(tmp_path / "t.parquet", cluster="entity")):
        assert told(items, "at") == ["2000-01-02", None, "2001-03-04"] and clusters(items) == [0, -1, 0]
        assert "two" in items.columns
    with pytest.raises(InputError, match=r"t\.parquet.*'nobody'"):
        read_records(tmp_path / "t.parquet", id="nobody")


def test_the_files_of_a_glob_are_one_table(tmp_path: Path):
    rows = [f"{k};n{k} ;" for k in range(6)]
    (tmp_path / "b.csv").write_text("\n".join(["id;name;none", *rows[3:]]))
    (tmp_path / "a.csv").write_text("\n".join(["id;name;none", *rows[:3]]))
    items = read_records(str(tmp_path / "*.csv"))
    assert items.names == [str(k) for k in range(6)] and told(items, "name") == [f"n{k}" for k in range(6)]
    (tmp_path / "c.csv").write_text("id;name;none\n7;x;\n4;y;\n")
    with pytest.raises(
        InputError, match=r"\*\.csv, .*c\.csv, line 3: ids must be distinct; '4' was in .*b\.csv, line 3"
    ):
        read_records(str(tmp_path / "*.csv"))
    (tmp_path / "d.csv").write_text("id;town\n")
    with pytest.raises(InputError, match=r"d\.csv: there is no column 'name', which .*a\.csv has"):
        read_records(str(tmp_path / "*.csv"))
    table = pa.table(COLUMNS)
    parquet.write_table(table.slice(0, 1).set_column(1, "name", pa.nulls(1)), tmp_path / "1.parquet")
    parquet.write_table(table.slice(1), tmp_path / "2.parquet")
    items = read_records(str(tmp_path / "?.parquet"), cluster="entity")
    assert items.names == ["10", "11", "12"] and told(items, "at") == ["2000-01-02", None, "2001-03-04"]
    with pytest.raises(InputError, match=r"is Parquet and .*is not; give one kind at a time"):
        read_records(str(tmp_path / "*"))
    with pytest.raises(InputError, match="no such file"):
        read_records(str(tmp_path / "*.tsv"))


def test_lists_are_a_table_too():
    lists = {**COLUMNS, "count": np.array(COLUMNS["count"])}
    items = records_from_frames(lists, cluster="entity")
    assert items.names == ["10", "11", "12"] and clusters(items) == [0, -1, 0]
    assert told(items, "at") == ["2000-01-02", None, "2001-03-04"] and told(items, "count") == [1.0, 2.0, 3.0]
    matched = records_from_frames(lists, fields="name", truth={"one": ["10"], "two": ["11"]})
    assert clusters(matched) == [0, 0, 1]


def test_lazy_frames_and_relations_are_collected():
    lazy = records_from_frames(pl.LazyFrame(COLUMNS), cluster="entity")
    duckdb = pytest.importorskip("duckdb")
    known = pa.table(COLUMNS)
    with duckdb.connect() as connection:
        relation = connection.from_arrow(known)
        both = records_from_frames(relation, cluster="entity")
        truth = connection.sql("select '10' as one, '11' as two")
        matched = records_from_frames(relation, fields="name", truth=truth)
    for items in (lazy, both):
        assert items.names == ["10", "11", "12"] and clusters(items) == [0, -1, 0]
        assert told(items, "at") == ["2000-01-02", None, "2001-03-04"] and told(items, "count") == [1.0, 2.0, 3.0]
    assert clusters(matched) == [0, 0, 1]
    with pytest.raises(InputError, match=r"expected a table of pandas, polars, Arrow or DuckDB, got _?duckdb"):
        records_from_frames(duckdb.connect())


def test_frames_with_truth_and_another_table():
    one, two = pd.DataFrame({"id": [1, 2], "v": [1, 2]}), pl.DataFrame({"id": ["2", "3"], "v": ["x", "y"]})
    items = records_from_frames(one, two, truth=pl.DataFrame({"l": [2], "r": [3]}))
    assert told(items, "v") == ["1", "2", "x", "y"] and clusters(items) == [0, 1, 2, 1]
    assert items.names == ["first:1", "first:2", "second:2", "second:3"]
    divided = records_from_frames(pd.DataFrame({"t": ["b", "a", "b"], "v": [1.0, 2.0, 3.0]}), id=None, table="t")
    assert divided.first_table == 2 and told(divided, "v") == [1.0, 3.0, 2.0]


def test_numbers_too_large_for_a_float_are_strings():
    items = records_from_frames(pd.DataFrame({"id": [1, 2], "v": [2**60, 2**60 + 1]}))
    assert told(items, "v") == [str(2**60), str(2**60 + 1)]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([1, 2], "expected a table"),
        (pd.DataFrame({"id": [1.5], "v": [1]}), "ids must be strings or whole numbers"),
        (pd.DataFrame({"id": [1], "v": [{"a": 1}]}), "turn it into strings"),
        (pd.DataFrame({"id": [1], "v": [np.inf]}), "infinite"),
    ],
)
def test_frames_that_cannot_be_used(frame: Any, message: str):
    with pytest.raises(InputError, match=message):
        records_from_frames(frame)


# -- real data ----------------------------------------------------------------------------------------

KEYS = ["key(postcode + surname[:1])", "key(soundex(surname) + soundex(given_name))", "key(date_of_birth)"]
FEBRL = {"id": "rec_id", "cluster_from_id": "febrl"}
REAL: dict[str, tuple[list[str], dict[str, Any], tuple[int, int | None, int], Any, float]] = {
    "abt_buy": (["abt.csv", "buy.csv"], {"truth": "gt.csv"}, (2152, 1076, 1076), "rare(name, 50)", 0.94),
    "dblp_acm": (
        ["dblp.csv", "acm.csv"], {"truth": "gt.csv", "delimiter": "%"}, (4910, 2616, 2224), "sorted(title, 5)", 0.97
    ),
    "cora": (
        ["cora.csv"], {"truth": "cora_gt.csv", "id": "Entity Id"}, (1295, None, 17184), "rare(title, 130, 2)", 0.9
    ),
    "restaurant": (
        ["restaurantProfiles.csv"], {"truth": "duplicates.csv"}, (864, None, 112), "rare(name + addr, 20)", 0.99
    ),
    "febrl/1": (["dataset1.csv"], FEBRL, (1000, None, 500), KEYS, 0.97),
    "febrl/2": (["dataset2.csv"], FEBRL, (5000, None, 1934), KEYS, 0.96),
    "febrl/3": (["dataset3.csv"], FEBRL, (5000, None, 6538), KEYS, 0.96),
    "febrl/4": (["dataset4a.csv", "dataset4b.csv"], FEBRL, (10000, 5000, 5000), KEYS, 0.97),
    "census": (
        ["censusText.txt"],
        {"id": None, "table": "relation", "cluster": "key", "header": ["relation", "key", "text"]},
        (841, 449, 327), ["rare(text, 20)", "sorted(text, 10)"], 0.97,
    ),
}  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_records(name: str, data_folder: Path, caplog: pytest.LogCaptureFixture):
    folder = data_folder / "mentions" / "records" / name.partition("/")[0]
    if not folder.is_dir():
        pytest.skip(f"no records in {folder}; set KINFOLK_DATA")
    files, options, counts, rules, completeness = REAL[name]
    if "truth" in options:
        options = {**options, "truth": folder / options["truth"], "truth_closure": "refuse"}  # all are closed
    with caplog.at_level(logging.WARNING, "kinfolk"):
        items = read_records(*(folder / file for file in files), **options)
    assert (items.n_items, items.first_table, items.n_true_pairs) == counts
    assert items.names is not None and len(set(items.names)) == items.n_items
    _, report = blocked(items, rules)
    assert report.pair_completeness is not None and report.pair_completeness >= completeness
    assert report.reduction_ratio > 0.95


CELLS = st.lists(st.sampled_from([None, "", " ", "Ann", " Ann", "ann", "Bo\t", "None", "é"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    CELLS, st.integers(1, 5), st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
)
def test_strings_of_arrow_are_those_of_a_list(cells: list[str | None], piece: int, kind: pa.DataType):
    cells = [*cells, "Ann"]  # a column without a value has no texts
    ids = [f"r{k}" for k in range(len(cells))]
    pieces = [cells[start : start + piece] for start in range(0, len(cells), piece)]
    column = pa.chunked_array([pa.array(one, pa.string()).cast(kind) for one in pieces], kind)
    items = records_from_frames(pa.table({"id": pa.array(ids, pa.string()), "name": column}), fields=["name"])
    stripped = [(cell or "").strip() or None for cell in cells]
    assert items.columns["name"].strings() == stripped
    distinct = [text for text in dict.fromkeys(stripped) if text is not None]
    assert [text for text in items.columns["name"].values if text is not None] == distinct
