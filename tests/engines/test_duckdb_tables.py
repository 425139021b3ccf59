"""`Linker.cluster_frame` with an engine: what comes in goes out, as in memory."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kinfolk as kf
from kinfolk.core.arrow_files import read_files
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import InputError, KinfolkError, SettingError
from kinfolk.linking import in_engine

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
duckdb = pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")

RULES = ["key(id_number)", "key(postcode + surname[:2])", "sorted(surname + given_name, 4)"]


@pytest.fixture(scope="module")
def engine(small_duckdb: DuckDB) -> DuckDB:
    return small_duckdb


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    return kf.Linker(blocking=RULES, training="local", n_jobs=1).fit(kf.generate_customers(400, seed=1))


@pytest.fixture(scope="module")
def table() -> Any:
    items = kf.generate_customers(200, seed=2)
    columns = {"id": [f"r{k}" for k in range(items.n_items)]}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    made = pyarrow.table({name: pyarrow.array(values, "string") for name, values in columns.items()})
    return made.append_column("left as it is", pyarrow.array(range(items.n_items), "int16"))


def both(linker: kf.Linker, engine: Any, *frames: Any, **more: Any) -> tuple[Any, Any]:
    return linker.set_params(engine=None).cluster_frame(*frames, **more), (
        linker.set_params(engine=engine).cluster_frame(*frames, **more)
    )


def check_same(known: Any, found: Any) -> None:
    """Columns, rows and clusters are equal, probabilities to 1e-9."""
    assert found.column_names == known.column_names and found.num_rows == known.num_rows
    for name in known.column_names[:-1]:
        assert found.column(name).to_pylist() == known.column(name).to_pylist(), name
    np.testing.assert_allclose(*(one.column(known.column_names[-1]).to_numpy() for one in (found, known)), atol=1e-9)


# -- kinds of tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("named_by", ["number", "id"])
def test_arrow_tables_come_back_as_arrow_tables(linker: kf.Linker, engine: DuckDB, table: Any, named_by: str):
    check_same(*both(linker, engine, table, named_by=named_by))


def test_pandas_keeps_its_index_and_its_types(linker: kf.Linker, engine: DuckDB, table: Any):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = table.to_pandas().set_index(pandas.Index(range(5, 5 + table.num_rows), name="row"))
    known, found = both(linker, engine, frame)
    pandas.testing.assert_frame_equal(known, found, atol=1e-9)


def test_polars_and_dicts_come_back_as_they_came(linker: kf.Linker, engine: DuckDB, table: Any):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.from_arrow(table)
    for one in (frame, frame.lazy()):
        known, found = both(linker, engine, one)
        assert type(found) is type(known)
        check_same(known.lazy().collect().to_arrow(), found.lazy().collect().to_arrow())
    known, found = both(linker, engine, table.to_pydict())
    assert isinstance(found, dict)
    check_same(pyarrow.table(known), pyarrow.table(found))


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_column_without_values_in_a_file_has_the_type_of_the_others(
    linker: kf.Linker, engine: DuckDB, table: Any, tmp_path: Path, empty: int
):
    columns = ("surname", "left as it is")
    for k in range(3):
        own = table.slice(70 * k, 70)
        for name in columns if k == empty else ():
            own = own.set_column(own.column_names.index(name), name, pyarrow.nulls(own.num_rows))
        parquet.write_table(own, tmp_path / f"p{k}.parquet")
    whole = read_files(str(tmp_path / "p*.parquet"))
    assert whole.schema.equals(table.schema)
    target = linker.set_params(engine=engine).cluster_frame(str(tmp_path / "p*.parquet"), into=tmp_path / "o.parquet")
    check_same(linker.set_params(engine=None).cluster_frame(whole), parquet.read_table(target))
    wrong = table.set_column(0, "id", pyarrow.array(range(table.num_rows)))
    parquet.write_table(wrong, tmp_path / "p3.parquet")
    with pytest.raises(InputError, match=r"p3\.parquet: the column 'id' is int64, and in .*p0\.parquet it is string"):
        read_files(str(tmp_path / "p*.parquet"))


def test_gaps_and_categories_are_what_they_are_in_memory(linker: kf.Linker, engine: DuckDB, table: Any):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = table.to_pandas()
    frame["surname"] = frame.surname.mask(frame.index % 5 == 0)
    category = frame.astype({"surname": "category", "state": "category"})
    pandas.testing.assert_frame_equal(*both(linker, engine, category), atol=1e-9)
    known, found = both(linker, engine, frame.to_dict("list"))
    assert found["cluster"] == list(known["cluster"])


def test_relations_of_duckdb_come_back_as_relations(linker: kf.Linker, engine: DuckDB, table: Any):
    with duckdb.connect() as own:
        own.register("people", table)
        known = linker.set_params(engine=None).cluster_frame(table)
        found = linker.set_params(engine=engine).cluster_frame(own.sql("SELECT * FROM people"))
        assert isinstance(found, duckdb.DuckDBPyRelation)
        check_same(known, found.to_arrow_table())


@pytest.mark.parametrize("as_text", [False, True])
def test_files_and_globs_become_a_parquet_file(
    linker: kf.Linker, engine: DuckDB, table: Any, tmp_path: Path, as_text: bool
):
    from pyarrow import csv

    half = table.num_rows // 2
    for name, part in (("a", table.slice(0, half)), ("b", table.slice(half))):
        path = tmp_path / f"{name}.{'csv' if as_text else 'parquet'}"
        csv.write_csv(part, path) if as_text else parquet.write_table(part, path)
    known = linker.set_params(engine=None).cluster_frame(table)
    target = tmp_path / "out.parquet"
    answer = linker.set_params(engine=engine).cluster_frame(
        str(tmp_path / ("*.csv" if as_text else "[ab].parquet")), into=target
    )
    assert answer == target
    found = parquet.read_table(target)
    if as_text:
        place = found.column_names.index("left as it is")
        found = found.set_column(place, "left as it is", found.column(place).cast("int16"))
    check_same(known, found)
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".part")]


# -- two tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("named_by", ["number", "id"])
@pytest.mark.parametrize("shared", [True, False], ids=["ids in common", "ids apart"])
def test_two_tables_come_back_both(engine: DuckDB, table: Any, named_by: str, shared: bool):
    half = table.num_rows // 2
    first, second = table.slice(0, half), table.slice(half)
    if shared:
        second = second.set_column(0, "id", pyarrow.array([f"r{k}" for k in range(second.num_rows)]))
    train = kf.records_from_frames(*(one.select(["id", *FIELDS]) for one in (first, second)))
    for clusterer in (kf.OneToOne(), kf.OneToMany(), kf.AverageLink()):
        model = kf.Linker(blocking=RULES, training="local", clusterer=clusterer, n_jobs=1)
        model = model.fit(train, pairs=labels(train))
        for known, found in zip(*both(model, engine, first, second, named_by=named_by), strict=True):
            check_same(known, found)


FIELDS = ["given_name", "surname", "postcode", "id_number"]


def labels(items: kf.Mentions) -> list[tuple[str, str, int]]:
    """Some pairs, the same where id numbers are."""
    number = items.columns["id_number"].strings()
    first = items.first_table or 0
    pairs = [(i, j) for i in range(first) for j in range(first, items.n_items)]
    some = [(i, j) for i, j in pairs if (i + j) % 7 == 0 or number[i] == number[j]][:400]
    return [(items.name(i), items.name(j), int(number[i] == number[j] is not None)) for i, j in some]


# -- columns of every type ------------------------------------------------------------------------------


def test_dates_numbers_truth_values_lists_and_blanks_are_what_they_are_in_memory(engine: DuckDB):
    rng = np.random.default_rng(0)
    n = 120
    who = rng.integers(0, 50, n)
    day = [datetime.date(1980, 1, 1) + datetime.timedelta(days=int(k) * 37) for k in who]
    columns = {
        "id": pyarrow.array(np.arange(n) * 10),
        "name": pyarrow.array([f" Ann{k} " if k % 3 else f"ann{k}" for k in who]),
        "born": pyarrow.array([None if rng.random() < 0.1 else one for one in day]),
        "seen": pyarrow.array([datetime.datetime(2020, 1, 1, int(k) % 24) for k in who]),
        "height": pyarrow.array([None if rng.random() < 0.1 else 150.5 + int(k) for k in who]),
        "code": pyarrow.array(who * 3 + 2**60),
        "small": pyarrow.array(who.astype(np.int8)),
        "member": pyarrow.array([None if rng.random() < 0.1 else bool(k % 2) for k in who]),
        "words": pyarrow.array([[f"w{k}", "x"] if k % 5 else None for k in who]),
        "blank": pyarrow.array(["  " if k % 2 else "y" for k in who]),
        "price": pyarrow.array([None if k % 7 == 0 else int(k) for k in who]).cast(pyarrow.decimal128(21, 2)),
        "truth": pyarrow.array([str(k) for k in who]),
    }
    table = pyarrow.table(columns)
    train = kf.records_from_frames(table, cluster="truth")
    features = ["exact(name)", "jaro_winkler(name)", "exact(born)", "exact(seen)", "exact(code)", "exact(member)",
                "any_of(exact(words))", "exact(blank)",
                kf.NumberDifference("height"), kf.NumberDifference("price")]  # fmt: skip
    rules = ["key(name[:4])", "key(born)", "key(code)", "key(small)", "sorted(height, 3)", "key(member + small)"]
    linker = kf.Linker(features, blocking=rules, training="local", n_jobs=1).fit(train)
    check_same(*both(linker, engine, table, named_by="id"))


# -- rules that decide for certain ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    [
        ["always(surname)"],
        ["never(postcode)"],
        ["never(state, raw)", "never(postcode + suburb)"],
    ],
    ids=str,
)
def test_rules_put_together_and_keep_apart_as_in_memory(engine: DuckDB, table: Any, rules: list[str]):
    train = kf.generate_customers(400, seed=1)
    linker = kf.Linker(blocking=RULES, training="local", rules=rules, n_jobs=1).fit(train)
    check_same(*both(linker, engine, table))


def test_rules_that_contradict_each_other_are_named_with_rows_of_the_table(engine: DuckDB, table: Any):
    train = kf.generate_customers(400, seed=1)
    rules = ["always(surname + date_of_birth)", "never(state)"]
    linker = kf.Linker(blocking=RULES, training="local", rules=rules, n_jobs=1).fit(train)
    with pytest.raises(KinfolkError, match="contradict each other: 'row 2' and 'row 50' must be apart"):
        linker.set_params(engine=engine).cluster_frame(table)


# -- components that are too large ------------------------------------------------------------------------


def test_large_components_are_cut_at_a_higher_threshold_and_a_warning_says_so(
    engine: DuckDB, linker: kf.Linker, table: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """With one pair a component no clusters of three are left; pairs that are cut are the least probable ones."""
    monkeypatch.setattr(in_engine, "LARGEST", 1)
    known, found = both(linker, engine, table)
    sizes = np.bincount(found.column("cluster").to_numpy())
    assert sizes.max() <= 2 < np.bincount(known.column("cluster").to_numpy()).max()
    assert "cut by the pairs above a probability of" in caplog.text and "narrow the blocking rules" in caplog.text


# -- what is refused ----------------------------------------------------------------------------------------


def test_what_an_engine_cannot_do_is_refused_by_name(linker: kf.Linker, engine: DuckDB, table: Any, tmp_path: Path):
    linker.set_params(engine=engine)
    with pytest.raises(SettingError, match="`pairs` cannot be had from an engine"):
        linker.cluster_frame(table, pairs=True)
    with pytest.raises(SettingError, match="`must_link` cannot be had"):
        linker.cluster_frame(table, must_link=[(0, 1)])
    with pytest.raises(SettingError, match="Parquet file to write"):
        linker.cluster_frame(str(tmp_path / "*.parquet"))
    with pytest.raises(SettingError, match=r"ends in \.parquet"):
        linker.cluster_frame(table, into=tmp_path / "out.csv")
    with pytest.raises(InputError, match="would be written over what is read"):
        linker.cluster_frame(str(tmp_path / "*.parquet"), into=tmp_path / "out.parquet")
    with pytest.raises(InputError, match="there is no folder"):
        linker.cluster_frame(table, into=tmp_path / "none" / "out.parquet")
    with pytest.raises(InputError, match="there is a column 'surname' already"):
        linker.cluster_frame(table, cluster="surname")
    with pytest.raises(InputError, match=r"up to .* pairs, where `limit` allows 10; sorted"):
        linker.cluster_frame(table, limit=10)
    linker.set_params(engine=None)
    with pytest.raises(InputError, match=r"up to .* pairs \(key\(id_number\): .*, where `limit` allows 10; narrow the"):
        linker.cluster_frame(table, limit=10)
    with pytest.raises(SettingError, match="limit"):
        linker.cluster_frame(table, limit=-1)
    check_same(linker.cluster_frame(table), linker.cluster_frame(table, limit=100_000))
    with pytest.raises(InputError, match=r"engine=kf\.DuckDB"):
        linker.cluster_frame("people.parquet")
    with pytest.raises(SettingError, match="into"):
        linker.cluster_frame(table, into="out.parquet")
    with pytest.raises(SettingError, match="an engine: Threads"):
        kf.Linker(engine="duckdb").fit(kf.generate_customers(50, seed=1))


def test_ids_that_repeat_across_files_and_types_that_differ_are_named(
    linker: kf.Linker, engine: DuckDB, table: Any, tmp_path: Path
):
    parquet.write_table(table, tmp_path / "a.parquet")
    parquet.write_table(table.slice(3, 2), tmp_path / "b.parquet")
    linker.set_params(engine=engine)
    target = tmp_path / "out" / "clusters.parquet"
    target.parent.mkdir()
    with pytest.raises(InputError, match=f"row {table.num_rows}: ids must be distinct; 'r3' was in records, row 3"):
        linker.cluster_frame(str(tmp_path / "*.parquet"), into=target)
    place = table.column_names.index("postcode")
    other = table.set_column(place, "postcode", pyarrow.array(range(table.num_rows)))
    parquet.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet.*'postcode'.*BIGINT.*a\.parquet.*VARCHAR"):
        linker.cluster_frame(str(tmp_path / "*.parquet"), into=target)
    parquet.write_table(table.drop_columns(["postcode"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet.*no column 'postcode'"):
        linker.cluster_frame(str(tmp_path / "*.parquet"), into=target)
    missing = table.set_column(0, "id", pyarrow.array([None, *table.column("id").to_pylist()[1:]]))
    with pytest.raises(InputError, match=r"row 0: column 'id' \(id\): the id is missing here and in 0 other rows"):
        linker.cluster_frame(missing)
    assert not target.exists()


IDS: dict[str, Any] = {
    "floats": lambda n: np.arange(n, dtype=float),
    "fractions": lambda n: np.arange(n) + 0.5,
    "floats with a gap": lambda n: np.where(np.arange(n) == 3, np.nan, np.arange(n)),
    "a gap first": lambda n: [None, *(f"r{k}" for k in range(1, n))],
    "gaps among whole numbers": lambda n: pyarrow.array([None if k in (2, 5) else k for k in range(n)], "int64"),
    "an empty one": lambda n: ["" if k == 4 else f"r{k}" for k in range(n)],
    "none at all": lambda n: pyarrow.array([None] * n, "string"),
    "truth values": lambda n: [True] * n,
    "lists": lambda n: [["a"]] * n,
    "one often": lambda n: ["a", "b", "c", "b", "a", "b", *(f"r{k}" for k in range(6, n))],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_are_refused_in_the_words_of_memory(linker: kf.Linker, engine: DuckDB, table: Any, kind: str):
    wrong = table.set_column(0, "id", [IDS[kind](table.num_rows)])
    said = []
    for where in (None, engine):
        with pytest.raises(InputError) as told:
            linker.set_params(engine=where).cluster_frame(wrong)
        said.append(str(told.value))
    assert said[0] == said[1]


def test_an_answer_that_cannot_be_written_leaves_nothing_behind(
    linker: kf.Linker, engine: DuckDB, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "clusters.parquet"
    target.write_bytes(b"what was there before")
    connection = engine.connection

    class Full:
        """The connection, on a disk that is full once an answer was written."""

        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def execute(self, statement: str, *given: Any) -> Any:
            done = connection.execute(statement, *given)
            if statement.startswith("COPY"):
                raise duckdb.IOException("No space left on device")
            return done

    monkeypatch.setattr(DuckDB, "connection", property(lambda self: Full()))
    with pytest.raises(KinfolkError, match="No space left"):
        linker.set_params(engine=engine).cluster_frame(table, into=target)
    assert [one.name for one in tmp_path.iterdir()] == ["clusters.parquet"]
    assert target.read_bytes() == b"what was there before"


def test_copies_of_a_model_share_its_engine_and_files_keep_none(linker: kf.Linker, engine: DuckDB, tmp_path: Path):
    linker.set_params(engine=engine)
    assert clone(linker).engine is engine
    linker.save(tmp_path / "m.kinfolk")
    assert kf.load_model(tmp_path / "m.kinfolk").engine is None
    assert kf.Threads().in_memory and not engine.in_memory
