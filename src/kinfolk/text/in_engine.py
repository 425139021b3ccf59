"""Tokens of a table, labelled: in memory, or in an engine, documents whole, a run of them at a time.

A tagger looks no further than a document, so runs of whole documents get the labels that the corpus gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.arrow_files import read_files, write_parquet
from kinfolk.core.data import Column, is_unknown
from kinfolk.core.engine import ENGINE, ROW, Engine, Missing
from kinfolk.core.files import is_path
from kinfolk.core.frames import OpenedFrame, opened, targets
from kinfolk.core.sending import Sent
from kinfolk.errors import InputError, SettingError
from kinfolk.text.batch import Batch
from kinfolk.text.corpus import Corpus
from kinfolk.text.extraction import TokenFeatures
from kinfolk.text.tagger import TokenModel

TOKENS, TAGS = "kf_tokens", "kf_tags"
Array = NDArray[Any]


class TokenTable(NamedTuple):
    """What the columns of a table of tokens are.

    sentence   the column in which another value begins another sentence; None: a document is one sentence
    document   the column that names the document of a token; None: each sentence is a document of its own
    """

    word: str = "word"
    sentence: str | None = "sentence"
    document: str | None = "document"

    def check(self) -> None:
        if self.sentence is None and self.document is None:
            remedy = "leave nothing to divide the tokens by; name one of them"
            raise InputError(f"`sentence=None` and `document=None` {remedy}")

    @property
    def unit(self) -> str:
        """The column whose values are what is labelled as a whole."""
        return str(self.document if self.document is not None else self.sentence)


class NewColumns(NamedTuple):
    """The names of the columns that are added; None: no such column."""

    label: str = "label"
    probability: str | None = None

    def named(self) -> dict[str, str]:
        """Setting -> name."""
        return {setting: name for setting, name in self._asdict().items() if name is not None}


def tag_tokens(
    model: TokenModel, tokens: Any, table: TokenTable, new: NewColumns, engine: Engine | None, into: Any
) -> Any:
    """What `tag` answers."""
    model._require_fitted()
    table.check()
    (target,) = targets([tokens], into)
    ENGINE.check("engine", engine)
    if engine is None or engine.in_memory:
        return _tag_in_memory(model, tokens, table, new, target)
    return _tag_in_engine(engine, model, tokens, table, new, target)


# -- In memory --------------------------------------------------------------------------------------------


def _tag_in_memory(model: TokenModel, tokens: Any, table: TokenTable, new: NewColumns, into: Any) -> Any:
    if hasattr(tokens, "sparkSession"):
        raise InputError("the tokens are a DataFrame of Spark; tag them there: `engine=kf.Spark(session)`")
    frame = opened(read_files(str(tokens)) if is_path(tokens) else tokens, "tokens")
    frame.check_free(True, **new.named())
    columns = corpus_columns(model, frame.columns, table)
    coded = {name: _numbered(_values(frame, column)) for name, column in columns.items()}
    unit, _ = _numbered(_values(frame, table.unit))
    sentence = None if table.sentence is None else _numbered(_values(frame, table.sentence))[0]
    asked = [*((columns[name], codes) for name, (codes, _) in coded.items()), (table.unit, unit)]
    for name, codes in asked if sentence is None else [*asked, (str(table.sentence), sentence)]:
        if (codes < 0).any():
            raise _gap(int((codes < 0).argmax()), name, table.sentence)
    order = np.argsort(unit, kind="stable")  # documents whole, in order of their first tokens
    made = {name: Column(codes[order], tuple(map(str, values))) for name, (codes, values) in coded.items()}
    corpus = corpus_of(made, unit[order], None if sentence is None else sentence[order])
    found, surely = answers(model, corpus, new.probability is not None)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    more: dict[str, Any] = {new.label: _typed(model, found.labels(), back)}
    if new.probability is not None and surely is not None:
        more[new.probability] = surely[back]
    if into is None:
        return frame.with_columns(more)
    write_parquet(_arrow(frame, more), into)
    return into


def _values(frame: OpenedFrame, name: str) -> list[Any]:
    held = frame.held
    return list(held[name] if isinstance(held, Mapping) else held.get_column(name).to_list())


def _numbered(values: Iterable[Any]) -> tuple[NDArray[np.int32], list[Any]]:
    """Numbers of values in order of appearance, -1 for none, and the values."""
    given = list(values)
    known = [value for value in dict.fromkeys(given) if not is_unknown(value)]
    numbers = {value: k for k, value in enumerate(known)}
    return np.fromiter((numbers.get(value, -1) for value in given), np.int32, len(given)), known


def _gap(row: int, name: str, sentence: str | None) -> InputError:
    remedy = "fill it in or leave the row out"
    if name == sentence:  # which some write on the first token alone
        remedy = "give every token that of its sentence, as frame[...].ffill() does where the first alone has it"
    return InputError(f"the token in row {row} has no {name!r}; {remedy}")


def _typed(model: TokenModel, labels: Sequence[Any], order: Array) -> Any:
    """Labels in another order, as an array unless they are strings."""
    dtype = model.coding_.classes.plain().array().dtype
    return np.array(labels, dtype)[order] if dtype.kind in "ifb" else [labels[k] for k in order]


def _arrow(frame: OpenedFrame, more: Mapping[str, Any]) -> Any:
    import pyarrow

    held = pyarrow.table(dict(frame.held)) if isinstance(frame.held, Mapping) else frame.held.to_arrow()
    for name, values in more.items():
        none = isinstance(values, list) and not values  # which says nothing of its type
        held = held.append_column(name, pyarrow.array(values, pyarrow.string() if none else None))
    return held


# -- What a tagger sees of the tokens, and what it says of them -----------------------------------------------


def corpus_columns(model: TokenModel, there: Sequence[str], table: TokenTable) -> dict[str, str]:
    """Columns of the corpus -> those of the table. All that the model was trained on are taken, where they are there; a
    template's must be."""
    for setting, name in table._asdict().items():
        if name is not None and name not in there:
            known = ", ".join(map(repr, there)) or "none at all"
            raise InputError(f"the tokens have no column {name!r} ({setting}); there are {known}: name one with "
                             f"`{setting}=...`" + ", or None" * (setting != "word"))  # fmt: skip
    taggers: Sequence[Any] = getattr(model, "levels_", None) or [getattr(model, "chain_", model)]
    features = [one for each in taggers for one in (each.features_, each.pair_features_) if one is not None]
    if not all(isinstance(one, TokenFeatures) for one in features):
        raise InputError("the model was trained on feature dicts, and a table has words; give them to `predict`")
    if any(one.vectors is not None for one in features):
        raise InputError(
            "the model was trained with vectors, and a table has none: give a corpus to "
            "`predict(corpus, vectors=array)`"
        )
    needed = {name: t for one in features for t in one.templates for name in t.needs() if name != "word"}
    lacking = next((name for name in needed if name not in there), None)
    if lacking is not None:
        known = ", ".join(map(repr, there))
        raise InputError(
            f"the tokens have no column {lacking!r}, which the model's feature {str(needed[lacking])!r} reads; there "
            f"are {known}: add it, or rename one"
        )
    trained_on = dict.fromkeys([*taggers[0].columns_, *needed])
    return {"word": table.word} | {name: name for name in trained_on if name != "word" and name in there}


def corpus_of(columns: Mapping[str, Column], unit: Array, sentence: Array | None) -> Corpus:
    """A corpus of tokens in order; `unit`, `sentence`: numbers that change where a document, a sentence begins."""
    begins = np.diff(unit, prepend=-1) != 0
    starts = begins if sentence is None else begins | (np.diff(sentence, prepend=-2) != 0)
    sentences = np.append(np.flatnonzero(starts), len(unit))
    documents = np.searchsorted(sentences, np.append(np.flatnonzero(begins), len(unit)))
    return Corpus(columns, sentences, documents)


def answers(model: TokenModel, corpus: Corpus, probability: bool) -> tuple[Column, NDArray[np.float64] | None]:
    """Of every token the label that `predict` gives, and on wish its probability by itself."""
    if not corpus.n_tokens:
        return Column(np.empty(0, np.int32), ()), np.empty(0)
    batch, decoder = replace(Batch.of(corpus), kept_rows={}), model._decoder()  # asked for twice, extracted once
    path = decoder.paths(batch, forced=False)
    labels = model.coding_.decode(path, corpus.sentence_starts)
    labels = replace(labels, type=model.coding_.classes.plain().type)
    if not probability:
        return labels, None
    return labels, np.asarray(decoder.marginals(batch, forced=False)[np.arange(len(path)), path], np.float64)


# -- In an engine -----------------------------------------------------------------------------------------


def _tag_in_engine(
    engine: Engine, model: TokenModel, tokens: Any, table: TokenTable, new: NewColumns, into: Any
) -> Any:
    """The table as it came with more columns: written as Parquet, in the engine, or as what came."""
    held = None if into is not None or is_path(tokens) or engine.is_own(tokens) else opened(tokens, "tokens")
    source = tokens if held is None else held.readable
    engine.drop(TOKENS)
    engine.view(Path(source) if is_path(source) else source, TOKENS, ROW)
    there = [name for name in engine.columns(TOKENS) if name != ROW]
    _check_free(there, new)
    kernel, asked = tagging(model, there, table, new)
    try:
        query = engine.labelled(
            TOKENS, [] if held else there, table.unit, asked, kernel, kernel.full(table.unit), TAGS, kernel.schema
        )
    except Missing as gap:
        raise _gap(gap.row, gap.column, table.sentence) from None
    answer = into
    if held is not None:
        found = engine.arrow(query)
        labels, order = found.column(new.label).to_pylist(), np.arange(found.num_rows)
        more: dict[str, Any] = {new.label: _typed(model, labels, order)}
        if new.probability is not None:
            more[new.probability] = found.column(new.probability).to_numpy()
        answer = held.with_columns(more)
    elif into is None:
        answer = engine.frame(query)
    else:
        engine.write(query, into)
    engine.drop(TOKENS, TAGS)
    return answer


def _check_free(there: Sequence[str], new: NewColumns) -> None:
    given = new.named()
    if len({*given.values()}) < len(given):
        raise SettingError.saying(f"new columns must have different names; got {', '.join(given.values())}")
    for setting, name in given.items():
        if name in there:
            remedy = f"rename it, or name the new one with `{setting}=...`"
            raise InputError(f"tokens: there is a column {name!r} already, and nothing is overwritten; {remedy}")


def tagging(
    model: TokenModel, there: Sequence[str], table: TokenTable, new: NewColumns
) -> tuple[TaggedRun, Sequence[str]]:
    """The kernel that labels runs of documents, and the columns it sees."""
    columns = corpus_columns(model, there, table)
    seen = list(dict.fromkeys([*columns.values(), *([] if table.sentence is None else [table.sentence])]))
    return TaggedRun(Sent(model), tuple(columns.items()), table.sentence, new), seen


@dataclass(frozen=True, eq=False)
class TaggedRun:
    """The labels of a run of whole documents.

    columns    those of the corpus, and of the table: the run has them, and `sentence`, as kf_column_0, 1, ...
    """

    model: Sent
    columns: tuple[tuple[str, str], ...]
    sentence: str | None
    new: NewColumns

    @property
    def schema(self) -> Any:
        import pyarrow

        kind = pyarrow.array(self.model.model.coding_.classes.plain().array().tolist()).type
        kinds = {"label": kind, "probability": "float64"}
        return pyarrow.schema([(name, kinds[one]) for one, name in self.new.named().items()])

    def full(self, unit: str) -> list[str]:
        """Columns in which nothing may be missing."""
        of_sentences = [] if self.sentence is None else [self.sentence]
        return list(dict.fromkeys([*(name for _, name in self.columns), unit, *of_sentences]))

    def __call__(self, run: Any) -> Any:
        import pyarrow

        if not run.num_rows:
            return self.schema.empty_table()
        labels, surely = answers(self.model.model, self._corpus(run), self.new.probability is not None)
        found = {self.new.label: pyarrow.array(labels.labels())}
        if self.new.probability is not None:
            found[self.new.probability] = pyarrow.array(surely)
        return pyarrow.table(found).cast(self.schema)

    def _corpus(self, run: Any) -> Corpus:
        tables = dict.fromkeys(
            [*(name for _, name in self.columns), *([] if self.sentence is None else [self.sentence])]
        )
        place = {name: f"kf_column_{k}" for k, name in enumerate(tables)}
        columns = {name: _column(run, place[own], own) for name, own in self.columns}
        sentence = None if self.sentence is None else _coded(run.column(place[self.sentence]))[0]
        return corpus_of(columns, run.column("unit").to_numpy(), sentence)


def _coded(column: Any) -> tuple[NDArray[np.int32], list[Any]]:
    """Numbers of the values of a column of Arrow, -1 for none, and the values."""
    coded = column.combine_chunks().dictionary_encode()
    codes, values = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
    known = np.array([-1 if is_unknown(value) else k for k, value in enumerate(values)] + [-1], np.int32)
    return known[codes], values


def _column(run: Any, column: str, name: str) -> Column:
    codes, values = _coded(run.column(column))
    if (codes < 0).any():
        raise _gap(int(run.column(ROW)[int((codes < 0).argmax())].as_py()), name, None)
    return Column(codes, tuple(map(str, values)))
