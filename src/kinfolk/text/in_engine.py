"""Tokens of a table in an engine, labelled as a tagger labels them in memory: documents whole, a run of them at a time.

A tagger looks no further than a document, so runs of whole documents get the labels that the corpus gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinfolk.core.data import Column
from kinfolk.core.engine import ROW, Engine, quoted
from kinfolk.core.sending import Sent
from kinfolk.errors import InputError
from kinfolk.text.corpus import Corpus
from kinfolk.text.tagger import TokenModel

TOKENS = "kf_tokens"


def tag_in(
    engine: Engine,
    model: TokenModel,
    tokens: Any,
    *,
    word: str = "word",
    sentence: str | None = "sentence",
    document: str | None = "document",
    into: str = "kf_tags",
) -> None:
    """Make a table of every token's row `kf_row` and its `label`, as `predict` gives it.

    tokens     files and globs, frames, relations: a row a token, in the order of the text; other columns ("pos", ...)
               are those of the corpus
    sentence   the column in which another value begins another sentence; None: a document is one sentence
    document   the column that names the document of a token; None: each sentence is a document of its own
    into       the name of the table
    """
    model._require_fitted()
    engine.drop(TOKENS)
    engine.view(tokens, TOKENS, ROW)
    there = [name for name in engine.columns(TOKENS) if name != ROW]
    for name, setting in ((word, "word"), (sentence, "sentence"), (document, "document")):
        if name is not None and name not in there:
            known = ", ".join(map(repr, there)) or "none at all"
            raise InputError(f"the tokens have no column {name!r} ({setting}); there are {known}: name one with "
                             f"`{setting}=...`" + ", or None" * (setting != "word"))  # fmt: skip
    kernel = TaggedRun(Sent(model), word, sentence, tuple(name for name in there if name not in (sentence, document)))
    engine.map_units(_by_document(engine, sentence, document), kernel, into, kernel.schema)
    engine.drop(TOKENS)


def _by_document(engine: Engine, sentence: str | None, document: str | None) -> str:
    """Tokens with the first row of their document as `unit`."""
    unit = document if document is not None else sentence
    if unit is None:
        raise InputError("`sentence=None` and `document=None` leave nothing to divide the tokens by; name one of them")
    name = quoted(unit)
    first = engine.rows(f"SELECT min({ROW}) FROM {TOKENS} WHERE {name} IS NULL")[0][0]
    if first is not None:
        raise InputError(f"the token in row {first} has no {unit!r}; fill it in or leave the row out")
    firsts = f"SELECT {name} AS kf_unit, min({ROW}) AS unit FROM {TOKENS} GROUP BY {name}"
    return f"SELECT u.unit AS unit, t.* FROM {TOKENS} t JOIN ({firsts}) u ON u.kf_unit = t.{name}"


@dataclass(frozen=True, eq=False)
class TaggedRun:
    """The labels of a run of whole documents; `columns`: those of the corpus."""

    model: Sent
    word: str
    sentence: str | None
    columns: tuple[str, ...]

    @property
    def schema(self) -> Any:
        import pyarrow

        kind = pyarrow.array(self.model.model.classes_.tolist()).type
        return pyarrow.schema([(ROW, "int64"), ("label", kind)])

    def __call__(self, run: Any) -> Any:
        import pyarrow

        if not run.num_rows:
            return self.schema.empty_table()
        labels = [label for row in self.model.model.predict(self._corpus(run)) for label in row]
        return pyarrow.table({ROW: run.column(ROW), "label": pyarrow.array(labels)}).cast(self.schema)

    def _corpus(self, run: Any) -> Corpus:
        unit = run.column("unit").to_numpy()
        begins = np.diff(unit, prepend=-1) != 0
        starts = begins if self.sentence is None else begins | _changes(run.column(self.sentence))
        sentences = np.append(np.flatnonzero(starts), len(unit))
        documents = np.searchsorted(sentences, np.append(np.flatnonzero(begins), len(unit)))
        columns = {name if name != self.word else "word": _column(run, name) for name in self.columns}
        return Corpus(columns, sentences, documents)


def _changes(column: Any) -> Any:
    """Where a value is another than that before it."""
    codes = _coded(column)[0]
    return np.diff(codes, prepend=-2) != 0


def _coded(column: Any) -> tuple[Any, list[Any]]:
    """Numbers of the values of a column of Arrow, -1 for none, and the values."""
    coded = column.combine_chunks().dictionary_encode()
    return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32), coded.dictionary.to_pylist()


def _column(run: Any, name: str) -> Column:
    codes, values = _coded(run.column(name))
    if (codes < 0).any():
        raise InputError(f"the token in row {run.column(ROW)[int((codes < 0).argmax())]} has no {name!r}; fill it in")
    return Column(codes, tuple(map(str, values)))
