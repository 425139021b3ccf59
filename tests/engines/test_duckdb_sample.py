"""Records drawn in an engine to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import InputError, SettingError

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")

RULES = ["key(id_number)", "key(postcode + surname[:2])"]


@pytest.fixture(scope="module")
def engine(small_duckdb: DuckDB) -> DuckDB:
    return small_duckdb


@pytest.fixture(scope="module")
def table() -> Any:
    items = kf.generate_customers(3000, seed=2)
    columns: dict[str, Any] = {"id": [f"r{k}" for k in range(items.n_items)]}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    return pyarrow.table({**columns, "entity": pyarrow.array(items.clusters)})


def test_whole_clusters_are_drawn(engine: DuckDB, table: Any):
    found = kf.sample_records(table, engine=engine, most=600, cluster="entity")
    assert 450 < found.n_items < 750 and found.clusters is not None
    entity = dict(zip(table.column("id").to_pylist(), table.column("entity").to_pylist(), strict=True))
    drawn = {entity[name] for name in found.names or ()}
    assert {name for name, one in entity.items() if one in drawn} == {*(found.names or ())}
    assert set(found.columns) == set(table.column_names) - {"id", "entity"}


def test_the_same_are_drawn_in_any_order_and_pieces_and_others_by_another_seed(
    engine: DuckDB, table: Any, tmp_path: Path
):
    from pyarrow import parquet

    order = np.random.default_rng(0).permutation(table.num_rows)
    for k in range(3):
        parquet.write_table(table.take(order[k::3]), tmp_path / f"{k}.parquet")
    known = kf.sample_records(table, engine=engine, most=500, blocking=RULES)
    found = kf.sample_records(str(tmp_path / "*.parquet"), engine=engine, most=500, blocking=RULES)
    assert {*(known.names or ())} == {*(found.names or ())}
    other = kf.sample_records(table, engine=engine, most=500, blocking=RULES, seed=1)
    assert {*(known.names or ())} != {*(other.names or ())}


def test_without_clusters_records_are_drawn_with_their_candidates_and_teach_a_linker(engine: DuckDB, table: Any):
    found = kf.sample_records(table.drop_columns(["entity"]), engine=engine, most=1000, blocking=RULES)
    assert 700 < found.n_items <= 1200
    linker = kf.Linker(blocking=RULES, n_jobs=1, engine=engine).fit(found)
    clusters = linker.cluster_frame(table.drop_columns(["entity"])).column("cluster").to_numpy()
    entity = table.column("entity").to_numpy()
    found_pairs, true_pairs, right = (
        sum(n * (n - 1) for n in np.unique(of, axis=0, return_counts=True)[1].tolist())
        for of in (clusters, entity, np.stack([clusters, entity], axis=1))
    )
    assert 2 * right / (found_pairs + true_pairs) > 0.9


def test_a_small_table_is_taken_whole_and_what_cannot_be_drawn_is_refused(engine: DuckDB, table: Any):
    assert kf.sample_records(table.slice(0, 50), engine=engine, cluster="entity").n_items == 50
    with pytest.raises(SettingError, match="give the rules of the linker"):
        kf.sample_records(table, engine=engine)
    with pytest.raises(SettingError, match="2 or more"):
        kf.sample_records(table, engine=engine, most=1, cluster="entity")
    with pytest.raises(InputError, match="no column 'entty'"):
        kf.sample_records(table, engine=engine, cluster="entty")
    place = table.column_names.index("entity")
    empty = table.set_column(place, "entity", pyarrow.nulls(table.num_rows, "int64"))
    with pytest.raises(InputError, match="no record has a cluster"):
        kf.sample_records(empty, engine=engine, most=100, cluster="entity")


@pytest.mark.parametrize("most", [500, 100_000])
@pytest.mark.parametrize("cluster", [None, "entity"])
def test_rules_are_looked_at_however_small_the_table(engine: DuckDB, table: Any, most: int, cluster: str | None):
    for rule, message in (("key(plz)", r"reads the column 'plz'; the records have"), ("key(postcode", "key")):
        with pytest.raises((InputError, SettingError), match=message):
            kf.sample_records(table, engine=engine, most=most, cluster=cluster, blocking=[rule])
