"""Every engine labels tokens as memory does, documents whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core.engine import Engine
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import InputError
from kinfolk.text.in_engine import tag_in

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")

WORDS = np.array(["Ann", "Bob", "saw", "the", "river", "Thames", "in", "York", "today", "."])
TAGS = {"Ann": "B-PER", "Bob": "B-PER", "Thames": "B-LOC", "York": "B-LOC"}


def corpus(n_documents: int, seed: int) -> kf.Corpus:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, n_documents).tolist()
    sentences = [rng.choice(WORDS, rng.integers(1, 9)).tolist() for _ in range(sum(sizes))]
    tags = [[TAGS.get(word, "O") for word in sentence] for sentence in sentences]
    return kf.Corpus.from_sentences(sentences, tags, sizes, pos=[[word[:1] for word in one] for one in sentences])


def table_of(tokens: kf.Corpus) -> Any:
    return pyarrow.table(
        {
            "document": [f"d{k}" for k in tokens.token_documents],
            "sentence": tokens.token_sentences,
            "text": tokens.columns["word"].strings(),
            "pos": tokens.columns["pos"].strings(),
        }
    )


@pytest.fixture(scope="module")
def tagger() -> Any:
    return kf.MixtureTagger(n_jobs=1).fit(corpus(40, 0))


def found(engine: Engine, tagger: Any, table: Any, **given: Any) -> list[str]:
    tag_in(engine, tagger, table, word="text", **given)
    answer = engine.arrow("SELECT * FROM kf_tags ORDER BY kf_row")
    assert answer.column("kf_row").to_pylist() == list(range(table.num_rows))
    return answer.column("label").to_pylist()


@pytest.mark.parametrize("n_documents", [1, 60])
def test_tokens_get_the_labels_they_get_in_memory(
    engine: Engine, tagger: Any, n_documents: int, monkeypatch: pytest.MonkeyPatch
):
    whole = DuckDB.batches

    def cut(self: DuckDB, query: str, n_rows: int) -> Any:
        for batch in whole(self, query, n_rows):
            yield from (batch.slice(start, 7) for start in range(0, batch.num_rows, 7))

    monkeypatch.setattr(DuckDB, "batches", cut)  # runs that would cut documents
    tokens = corpus(n_documents, 1)
    expected = [label for row in tagger.predict(tokens) for label in row]
    assert found(engine, tagger, table_of(tokens)) == expected


def test_without_documents_each_sentence_is_one(engine: Engine, tagger: Any):
    tokens = corpus(20, 2)
    starts = tokens.sentence_starts
    alone = kf.Corpus(tokens.columns, starts, np.arange(len(starts)))
    table = table_of(tokens).drop_columns(["document"])
    assert found(engine, tagger, table, document=None) == [one for row in tagger.predict(alone) for one in row]
    assert found(engine, tagger, table.slice(0, 0), document=None) == []


def test_columns_that_are_not_there_and_gaps_are_named(engine: Engine, tagger: Any):
    table = table_of(corpus(3, 3))
    with pytest.raises(InputError, match=r"no column 'word' \(word\); there are 'document'"):
        tag_in(engine, tagger, table)
    gap = table.set_column(0, "document", pyarrow.array([None, *table.column("document").to_pylist()[1:]], "string"))
    with pytest.raises(InputError, match="row 0 has no 'document'"):
        tag_in(engine, tagger, gap, word="text")
