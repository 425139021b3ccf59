"""New records beside a clustered base, in an engine: as in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.engines import duckdb as engines
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import InputError, SettingError

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")

RULES = ["key(id_number)", "key(postcode + surname[:2])", "sorted(surname + given_name, 4)"]
N_BASE = 180


@pytest.fixture(scope="module")
def engine(small_duckdb: DuckDB) -> DuckDB:
    return small_duckdb


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    return kf.Linker(blocking=RULES, training="local", n_jobs=1).fit(kf.generate_customers(400, seed=1))


@pytest.fixture(scope="module")
def tables(linker: kf.Linker) -> tuple[Any, Any]:
    """A base with its clusters, and new records."""
    items = kf.generate_customers(300, seed=2)
    columns = {"id": [f"r{k}" for k in range(items.n_items)]}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    table = pyarrow.table({name: pyarrow.array(values, "string") for name, values in columns.items()})
    order = np.random.default_rng(0).permutation(table.num_rows)
    table = table.take(order)
    base = linker.set_params(engine=None).cluster_frame(table.slice(0, N_BASE)).drop_columns(["probability"])
    return base, table.slice(N_BASE)


def check_same(linker: kf.Linker, engine: Any, new: Any, base: Any, **more: Any) -> Any:
    known = linker.set_params(engine=None).link(new, base, **more)
    found = linker.set_params(engine=engine).link(new, base, **more)
    assert found.column_names == known.column_names
    for name in known.column_names:
        if name != "probability":
            assert found.column(name).to_pylist() == known.column(name).to_pylist(), name
    np.testing.assert_allclose(*(one.column("probability").to_numpy() for one in (found, known)), atol=1e-9)
    return found


CLUSTERERS = [kf.AverageLink(), kf.AverageLink(0.2), kf.SingleLink(), kf.CompleteLink(), kf.Correlation(),
              kf.OneToOne(), kf.AverageLink(max_size=2)]  # fmt: skip


@pytest.mark.parametrize("clusterer", CLUSTERERS, ids=str)
def test_new_records_join_the_clusters_they_join_in_memory(
    linker: kf.Linker, engine: DuckDB, tables: Any, clusterer: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(linker, "clusterer_", clusterer)
    monkeypatch.setattr(engines, "PAIRS_AT_A_TIME", 50)
    base, new = tables
    found = check_same(linker, engine, new, base)
    joined = {*found.column("cluster").to_pylist()} & {*base.column("cluster").to_pylist()}
    assert joined and len(joined) < found.num_rows


@pytest.mark.parametrize("names", ["words", "numbers as text"])
def test_clusters_keep_their_names_and_new_ones_get_others(linker: kf.Linker, engine: DuckDB, tables: Any, names: str):
    base, new = tables
    written = [f"c{one}" if names == "words" else f"{7 * one}" for one in base.column("cluster").to_pylist()]
    place = base.column_names.index("cluster")
    check_same(linker, engine, new, base.set_column(place, "cluster", pyarrow.array(written)))


@pytest.mark.parametrize("kind", ["float64", "float32", pyarrow.decimal128(9, 2)])
def test_clusters_that_are_floats_are_the_whole_numbers_they_are(
    linker: kf.Linker, engine: DuckDB, tables: Any, kind: Any, tmp_path: Path
):
    from pyarrow import parquet

    base, new = tables
    place, numbers = base.column_names.index("cluster"), base.column("cluster")
    floats = base.set_column(place, "cluster", numbers.cast("float64").cast(kind))
    found = check_same(linker, engine, new, floats)
    assert found.column("cluster").equals(linker.link(new, base).column("cluster"))
    for value, message in ((0.5, "row 179: .* 0.5, and floats must be whole"), (float("nan"), "row 179: no cluster")):
        odd = pyarrow.array([*numbers.to_pylist()[:-1], value], "float64")
        wrong = base.set_column(place, "cluster", odd)
        parquet.write_table(wrong, tmp_path / "base.parquet")
        with pytest.raises(InputError, match=f"base, {message}"):
            linker.link(new, wrong)
        with pytest.raises(InputError, match=f"base, {message}"):
            linker.link(new, str(tmp_path / "base.parquet"))


def test_rules_and_the_best_of_all_candidates_hold_for_new_records(engine: DuckDB, tables: Any):
    base, new = tables
    train = kf.generate_customers(400, seed=1)
    for more in (
        {"rules": ["always(id_number)"], "training": "local"},
        {"rules": ["never(state)"], "training": "local"},
        {"features": ["best_of(tfidf_cosine(address))", "jaro_winkler(surname)", "exact(postcode)"]},
    ):
        check_same(kf.Linker(blocking=RULES, n_jobs=1, **more).fit(train), engine, new, base)


@pytest.mark.parametrize("sizes", [(0, 40), (60, 0), (0, 0), (1, 1)], ids=str)
def test_empty_tables(linker: kf.Linker, engine: DuckDB, tables: Any, sizes: tuple[int, int]):
    base, new = tables
    check_same(linker, engine, new.slice(0, sizes[1]), base.slice(0, sizes[0]))


def test_files_become_a_parquet_file(linker: kf.Linker, engine: DuckDB, tables: Any, tmp_path: Path):
    from pyarrow import parquet

    base, new = tables
    parquet.write_table(base, tmp_path / "base.parquet")
    for k in range(2):
        parquet.write_table(new.slice(60 * k, 60), tmp_path / f"new-{k}.parquet")
    known = linker.set_params(engine=None).link(new, base)
    linker.set_params(engine=engine)
    target = linker.link(str(tmp_path / "new-*.parquet"), str(tmp_path / "base.parquet"), into=tmp_path / "out.parquet")
    found = parquet.read_table(target)
    assert found.column_names == known.column_names
    assert found.column("cluster").to_pylist() == known.column("cluster").to_pylist()
    assert found.column("also").to_pylist() == known.column("also").to_pylist()


def test_the_base_is_not_written_over(linker: kf.Linker, engine: DuckDB, tables: Any, tmp_path: Path):
    from pyarrow import parquet

    base, new = tables
    path = tmp_path / "base.parquet"
    parquet.write_table(base, path)
    with pytest.raises(InputError, match="would be written over what is read"):
        linker.set_params(engine=engine).link(new, path, into=path)
    assert parquet.read_table(path).equals(base)


def test_what_cannot_be_is_named(linker: kf.Linker, engine: DuckDB, tables: Any):
    base, new = tables
    linker.set_params(engine=engine)
    with pytest.raises(InputError, match="there is no column 'cluster'"):
        linker.link(new, base.drop_columns(["cluster"]))
    with pytest.raises(InputError, match="is in the base already"):
        linker.link(base.drop_columns(["cluster"]), base)
    gaps = pyarrow.array([None, *base.column("cluster").to_pylist()[1:]])
    with pytest.raises(InputError, match="row 0: no cluster in column 'cluster'"):
        linker.link(new, base.set_column(base.column_names.index("cluster"), "cluster", gaps))
    with pytest.raises(InputError, match="already, and nothing is overwritten"):
        linker.link(new.append_column("also", new.column("surname")), base)
    with pytest.raises(SettingError, match="`pairs` cannot be had"):
        linker.link(new, base, pairs=True)
    with pytest.raises(InputError, match="where `limit` allows 3"):
        linker.link(new, base, limit=3)
