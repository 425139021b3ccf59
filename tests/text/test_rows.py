"""Rows of sentences, from Arrow, `datasets` and lists: the corpus that lists of words give, and faults by their row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError

NAMES = ["O", "B-PER", "I-PER"]
ROWS = [
    {"id": "a", "tokens": ["Kim", "Lee", "left"], "ner_tags": [1, 2, 0], "pos_tags": [0, 0, 1]},
    {"id": "a", "tokens": ["Kim", "slept"], "ner_tags": [1, 0], "pos_tags": [0, 1]},
    {"id": "b", "tokens": ["Rain"], "ner_tags": [0], "pos_tags": [0]},
]
FEATURES = {
    "tokens": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"},
    "ner_tags": {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "Sequence"},
    "pos_tags": [{"names": {"0": "NN", "1": "VB"}, "_type": "ClassLabel"}],
}
TABLE = pa.Table.from_pylist(ROWS)
NAMED = TABLE.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})})


class Stream:
    """What gives a stream of Arrow, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Labels:
    """As ClassLabel is, and a list of it."""

    def __init__(self, names: list[str], inner: Labels | None = None) -> None:
        self.names, self.feature = names, inner


class Dataset:
    """What is needed of a `datasets.Dataset`: some rows may be chosen of the table that it holds."""

    def __init__(self, table: pa.Table, chosen: list[int] | None = None, format: str | None = None) -> None:
        self.table, self.chosen, self.format = table, chosen, format
        self.features = {"tokens": object(), "ner_tags": Labels([], Labels(NAMES))}

    @property
    def data(self) -> Any:
        return self.table

    def with_format(self, format: str) -> Dataset:
        return Dataset(self.table, self.chosen, format)

    def __len__(self) -> int:
        return len(self.table if self.chosen is None else self.chosen)

    def __getitem__(self, rows: slice) -> pa.Table:
        assert self.format == "arrow"
        return self.table if self.chosen is None else self.table.take(self.chosen)


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda table: table,
    "chunks": lambda table: pa.concat_tables([table.slice(k, 1) for k in range(len(table))]),
    "large lists": lambda table: table.set_column(
        1, "tokens", table["tokens"].cast(pa.large_list(pa.large_string()))
    ),
    "dictionaries": lambda table: table.set_column(
        1, "tokens", pa.array(table["tokens"].to_pylist(), pa.list_(pa.dictionary(pa.int8(), pa.string())))
    ),
    "views": lambda table: table.set_column(1, "tokens", table["tokens"].cast(pa.list_(pa.string_view()))),
    "stream": Stream,
    "reader": lambda table: table.to_reader(),
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "polars": pl.from_arrow,
    "lazy": lambda table: pl.from_arrow(table).lazy(),
    "pandas": lambda table: table.to_pandas(),
    "pandas of lists": lambda table: pd.DataFrame(table.to_pylist()),
    "DuckDB": duckdb.from_arrow,
    "dicts": lambda table: table.to_pylist(),
    "lists": lambda table: table.to_pydict(),
    "Dataset": Dataset,
}  # fmt: skip
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def same(one: kf.Corpus, other: kf.Corpus) -> bool:
    words = [corpus.columns["word"] for corpus in (one, other)]
    starts = zip(
        (one.sentence_starts, one.document_starts), (other.sentence_starts, other.document_starts), strict=True
    )
    return (
        one.rows() == other.rows() and one.label_rows() == other.label_rows() and one.scheme == other.scheme
        and all(np.array_equal(a, b) for a, b in starts)
        and words[0].values == words[1].values and np.array_equal(words[0].codes, words[1].codes)
    )  # fmt: skip


def expected(**more: Any) -> kf.Corpus:
    labels = [[NAMES[tag] for tag in row["ner_tags"]] for row in ROWS]
    return kf.Corpus.from_sentences([row["tokens"] for row in ROWS], labels, **more)


@every_form
def test_every_form_gives_the_corpus_of_the_lists(form: Callable[[pa.Table], Any]):
    assert same(kf.Corpus.from_rows(form(TABLE), names=NAMES), expected())
    assert same(kf.Corpus.from_rows(form(TABLE), names=NAMES, document="id"), expected(documents=["a", "a", "b"]))
    unlabelled = kf.Corpus.from_rows(form(TABLE), tags=None)
    assert unlabelled.labels is None and unlabelled.rows() == expected().rows()


def test_tags_may_be_strings_and_other_columns_come_along():
    rows = [
        {**row, "ner_tags": [NAMES[tag] for tag in row["ner_tags"]], "pos": ["X"] * len(row["tokens"])} for row in ROWS
    ]
    for form in (rows, pa.Table.from_pylist(rows)):
        corpus = kf.Corpus.from_rows(form, pos="pos")
        assert same(corpus, expected()) and corpus.rows("pos")[0] == ["X", "X", "X"]


def test_names_come_with_the_schema_and_with_features(tmp_path: Path):
    corpus = kf.Corpus.from_rows(NAMED, pos="pos_tags")
    assert same(corpus, expected()) and corpus.rows("pos")[0] == ["NN", "NN", "VB"]
    assert same(kf.Corpus.from_rows(Dataset(TABLE)), expected())
    pq.write_table(NAMED, tmp_path / "train-0.parquet")
    from_file = kf.Corpus.from_rows(tmp_path / "train-*.parquet")
    assert same(from_file, expected()) and from_file.source == str(tmp_path / "train-*.parquet")
    assert same(kf.Corpus.from_rows(NAMED, names=["O", "B-LOC", "I-LOC"]).documents(0, 0), expected().documents(0, 0))
    assert kf.Corpus.from_rows(NAMED, names=["O", "B-LOC", "I-LOC"]).label_rows()[1] == ["B-LOC", "O"]


def test_rows_chosen_of_a_dataset_are_those_that_count():
    """Its table has them all, in the order before `select`, `shuffle` and `filter`."""
    chosen = kf.Corpus.from_rows(Dataset(TABLE, [2, 0]))
    assert chosen.rows() == [["Rain"], ["Kim", "Lee", "left"]]


@pytest.mark.filterwarnings("ignore:.*no tokens:kinfolk.errors.DataWarning")
@given(
    st.lists(
        st.lists(st.tuples(st.text("abAB", max_size=2), st.sampled_from([0, 1, 2, None, -1, -100])), max_size=4),
        max_size=6,
    ),
    st.integers(1, 3),
)
def test_any_rows_are_as_lists_are(rows: list[list[tuple[str, int | None]]], chunk: int):
    names = ["O", "B-X", "B-Y"]
    words = [[word for word, _ in row] for row in rows]
    labels = [[names[tag] if tag in (0, 1, 2) else None for _, tag in row] for row in rows]
    plain = kf.Corpus.from_sentences(words, labels)
    given = [{"tokens": [word for word, _ in row], "ner_tags": [tag for _, tag in row]} for row in rows]
    schema = pa.schema({"tokens": pa.list_(pa.string()), "ner_tags": pa.list_(pa.int64())})
    parts = [pa.Table.from_pylist(given[k : k + chunk], schema) for k in range(0, len(given), chunk)]
    table = pa.concat_tables([schema.empty_table(), *parts])
    for form in (given, table):
        assert same(kf.Corpus.from_rows(form, names=names), plain)


def test_a_row_without_labels_has_unknown_ones_and_one_without_tokens_is_told():
    rows: list[dict[str, Any]] = [*ROWS, {"id": "b", "tokens": ["So", "?"], "ner_tags": None}]
    for form in (rows, pa.Table.from_pylist(rows), pd.DataFrame(rows)):
        assert kf.Corpus.from_rows(form, names=NAMES).label_rows()[3] == [None, None]
    rows.insert(1, {"id": "a", "tokens": [], "ner_tags": []})
    for form in (rows, pa.Table.from_pylist(rows)):
        with pytest.warns(
            DataWarning, match=r"1 row has no tokens, the first being row 1: .* predictions have no entry"
        ):
            corpus = kf.Corpus.from_rows(form, names=NAMES, document="id")
        assert corpus.n_sentences == 4 and corpus.document_starts.tolist() == [0, 2, 4]


def test_no_rows_are_an_empty_corpus():
    for form in ([], TABLE.slice(0, 0)):
        corpus = kf.Corpus.from_rows(form, names=NAMES, document="id")
        assert (corpus.n_documents, corpus.n_tokens) == (0, 0)
    assert kf.Corpus.from_rows([], "words", None).n_tokens == 0


def changed(**more: Any) -> list[dict[str, Any]]:
    return [ROWS[0], {**ROWS[1], **more}, ROWS[2]]


FAULTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a column": (ROWS, {"tokens": "words"}, r"no column 'words' \(`tokens`\); there are 'id', 'tokens'"),
    "no tags": ([{"tokens": ["a"]}], {}, "of rows without labels `tags=None`"),
    "no names": (ROWS, {"names": None}, r"nothing says what they stand for; .*names=\['O', 'B-PER', \.\.\.\]"),
    "a number": (changed(ner_tags=[1, 7]), {}, "row 1, token 1: 'ner_tags' has 7; expected 0 to 2"),
    "too few": (changed(ner_tags=[1]), {}, "row 1 has 2 tokens and 1 entries in 'ner_tags'"),
    "no list": (changed(tokens=None), {}, "row 1 has no 'tokens'; fill it in"),
    "a gap": (changed(tokens=["Kim", None]), {}, "row 1, token 1 of 'tokens' is missing"),
    "apart": ([*ROWS, ROWS[0]], {"document": "id"}, "those of 'a' come in several places: sort"),
    "no document": (changed(id=None), {"document": "id"}, "row 1 has no 'id'"),
    "a slip": ([{"tokens": ["a"], "ner_tags": ["B-X"]}, {"tokens": ["b", "c"], "ner_tags": ["O", "NN"]}],
               {}, "sentence 1, token 1: 'NN' is not a tag"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named_by_their_row(fault: str):
    rows, more, message = FAULTS[fault]
    for form in (rows, pa.Table.from_pylist(rows)):
        with pytest.raises(InputError, match=message):
            kf.Corpus.from_rows(form, **{"names": NAMES, **more})


@pytest.mark.parametrize("names", [{0: "O", 1: "B-PER", 2: "I-PER"}, {"2": "I-PER", "0": "O", "1": "B-PER"}])
def test_names_may_be_a_dict_as_id2label_is(names: dict[Any, str]):
    wanted = [["B-PER", "I-PER", "O"], ["B-PER", "O"], ["O"]]
    for form in (ROWS, TABLE):
        assert kf.Corpus.from_rows(form, names=names).label_rows() == wanted
    gaps = {0: "O", 1: "B-PER", 5: "I-PER"}
    with pytest.raises(InputError, match=r"has 2; expected a number that has a name \(0, 1, 5\)"):
        kf.Corpus.from_rows(ROWS, names=gaps)
    for wrong in ({"O": 0, "B-PER": 1}, "O"):
        with pytest.raises(InputError, match="names must be a list of names"):
            kf.Corpus.from_rows(ROWS, names=wrong)


def test_names_of_a_schema_are_taken_by_their_numbers():
    names = [f"N{i}" for i in range(12)]
    by_string = {str(i): names[i] for i in sorted(range(12), key=str)}  # 0, 1, 10, 11, 2, ...
    feature = {"feature": {"names": by_string, "_type": "ClassLabel"}, "_type": "List"}
    table = pa.table({"tokens": [["a", "b"]], "ner_tags": [[2, 10]]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})})
    assert kf.Corpus.from_rows(table, scheme=None).label_rows() == [["N2", "N10"]]


def test_strings_of_digits_are_numbers_where_there_are_names():
    rows = [{"tokens": ["Kim", "Lee", "left", "now"], "ner_tags": ["1", "2", "0", "-100"]}]
    for form in (rows, pa.Table.from_pylist(rows)):
        assert kf.Corpus.from_rows(form, names=NAMES).label_rows() == [["B-PER", "I-PER", "O", None]]
    assert kf.Corpus.from_rows(rows[:1], names=["0", "1", "2", "-100"], scheme=None).label_rows() == [
        rows[0]["ner_tags"]
    ]
    with pytest.raises(InputError, match="it holds both, '1' and 'B-LOC'"):
        kf.Corpus.from_rows([{"tokens": ["a", "b"], "ner_tags": ["1", "B-LOC"]}], names=NAMES)


class Streaming:
    """As an `IterableDataset` is."""

    features: Any = None

    def with_format(self, format: str) -> Streaming:
        return self


def test_what_is_no_rows_is_refused():
    with pytest.raises(InputError, match=r"streams has no table; give what is to be read: `list\(dataset"):
        kf.Corpus.from_rows(Streaming())
    with pytest.raises(InputError, match="got a dict of 'train', 'test': choose one of these"):
        kf.Corpus.from_rows({"train": Dataset(TABLE), "test": Dataset(TABLE)})
    with pytest.raises(InputError, match="expected a dict as row 0"):
        kf.Corpus.from_rows([["Kim", "left"]])
    for form in ([{"tokens": "Kim left"}], pa.table({"tokens": ["Kim left"]})):
        with pytest.raises(InputError, match="'tokens' must hold a list for each row"):
            kf.Corpus.from_rows(form, tags=None)
    for form in ([{"tokens": [1, 2]}], pa.table({"tokens": [[1, 2]]})):
        with pytest.raises(InputError, match="'tokens' must hold words; got values of type int"):
            kf.Corpus.from_rows(form, tags=None)
    with pytest.raises(InputError, match="must hold values of one type"):
        kf.Corpus.from_rows([{"tokens": ["a", 1]}], tags=None)


def test_numbers_are_labels_where_they_are_no_spans():
    corpus = kf.Corpus.from_rows(TABLE, scheme=None)
    assert corpus.label_rows()[0] == [1, 2, 0] and corpus.scheme is None


def test_predictions_come_back_as_lists_a_row():
    model = kf.LinearChainCRF(n_jobs=1, tolerance=0.1).fit(kf.Corpus.from_rows(NAMED))
    found = model.predict(kf.Corpus.from_rows(NAMED, tags=None))
    assert [len(row) for row in found] == [len(row["tokens"]) for row in ROWS]
    assert TABLE.append_column("found", pa.array(found))["found"].to_pylist() == list(found)
