"""A corpus of rows of sentences, each with a list of tokens and one of tags, as `datasets` and Parquet files have them.

    tokens     list<string>
    ner_tags   list<int64>, numbers of names that the rows bring along; or list<string>

Columns of Arrow are taken whole, without a look at single tokens: each distinct string is read once. Names of numbered
tags come from the argument, from `features` of a `datasets.Dataset`, or from what that library writes into the schema
of an Arrow table or a Parquet file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.arrow_files import read_files
from kinfolk.core.data import Column, is_unknown, label_names, label_of
from kinfolk.core.files import is_path
from kinfolk.core.frames import opened
from kinfolk.core.table import is_lists
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.text.corpus import Corpus, starts_of

Ints = NDArray[np.int64]
UNKNOWN = (-1, -100)  # numbers that stand for no label: that of `datasets`, and that of losses which leave a token out


class Lists(NamedTuple):
    """A column of lists: the length of each, -1 where there is no list, and what stands in them, in order."""

    lengths: Ints
    held: Column


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory.

    columns   their names
    lists     the column of lists that has a name
    single    the column of single values that has a name, numbered
    known     name -> names of the numbers in that column, where the rows bring them
    """

    columns: Sequence[str]
    lists: Callable[[str], Lists]
    single: Callable[[str], Column]
    known: Mapping[str, Sequence[str]]

    def check(self, argument: str, name: str, remedy: str = "") -> str:
        if name not in self.columns:
            there = ", ".join(map(repr, self.columns)) or "none at all"
            raise InputError(f"the rows have no column {name!r} (`{argument}`); there are {there}{remedy}")
        return name


def corpus_from_rows(
    rows: Any,
    tokens: str = "tokens",
    tags: str | None = "ner_tags",
    names: Sequence[str] | Mapping[Any, str] | None = None,
    document: str | None = None,
    scheme: str | None = "auto",
    columns: Mapping[str, str] | None = None,
) -> Corpus:
    """What `Corpus.from_rows` gives."""
    wanted = [tokens, tags, document, *(columns or {}).values()]
    given = _rows(rows, [name for name in wanted if name is not None])
    words = given.lists(given.check("tokens", tokens))
    _refuse_gaps(words, tokens)
    if words.held.type != "str":
        raise InputError(f"the lists of {tokens!r} must hold words; got values of type {words.held.type}")
    lengths = words.lengths
    more: dict[str, Column] = {}
    for own, name in (columns or {}).items():
        found = _beside(given.lists(given.check(own, name)), lengths, name)
        _refuse_gaps(found, name)
        more[own] = replace(_named(found, given.known.get(name), name, numbers=True), type="str")
    labels = None
    if tags is not None:
        given.check("tags", tags, "; of rows without labels `tags=None`")
        labels = _named(
            _beside(given.lists(tags), lengths, tags),
            given.known.get(tags) if names is None else names, tags, numbers=scheme is None,
        )  # fmt: skip
    per_document = np.ones(len(lengths), np.int64)
    if document is not None:
        per_document = _sizes(given.single(given.check("document", document)), document)
    kept = starts_of(lengths > 0)
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        first = f"{len(empty):,} row{'s have' if len(empty) > 1 else ' has'} no tokens, the first being row {empty[0]}"
        warn(f"{first}: a corpus has no sentence for them, and predictions have no entry", DataWarning)
    corpus = Corpus(
        {"word": words.held, **more},
        starts_of(lengths[lengths > 0]),
        kept[starts_of(per_document)],
        labels,
        source=os.fspath(rows) if is_path(rows) else None,
    )
    return corpus.with_scheme(scheme, np.flatnonzero(lengths))


# -- the forms that rows come in ------------------------------------------------------------------------


def _rows(rows: Any, wanted: Sequence[str]) -> Rows:
    """`wanted`: names of columns, which no row at all would tell."""
    if is_path(rows):
        return _of_arrow(read_files(os.fspath(rows)), {})
    if hasattr(rows, "features") and hasattr(rows, "with_format"):  # the rows chosen of a Dataset, not its whole table
        if not hasattr(rows, "__len__"):
            raise InputError("a dataset that streams has no table; give what is to be read: `list(dataset.take(1000))`")
        known = {} if rows.features is None else {name: _feature_names(one) for name, one in rows.features.items()}
        return _of_arrow(rows.with_format("arrow")[:], {name: found for name, found in known.items() if found})
    if isinstance(rows, Mapping) and not is_lists(rows):
        there = ", ".join(map(repr, rows))
        raise InputError(f"expected rows; got a {type(rows).__name__} of {there or 'nothing'}: choose one of these")
    if isinstance(rows, list | tuple):
        return _of_lists(_columns(rows, wanted))
    frame = opened(rows, "rows")
    if isinstance(frame.held, Mapping):
        return _of_lists(frame.held)
    try:
        table = frame.held.to_arrow()
    except (ImportError, ValueError, TypeError):  # no pyarrow; lists of several types: the check of lists says where
        return _of_lists({name: frame.held.get_column(name).to_list() for name in frame.columns})
    return _of_arrow(table, {})


def _columns(rows: Sequence[Any], wanted: Sequence[str]) -> dict[str, list[Any]]:
    strange = next((k for k, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if strange is not None:
        got = type(rows[strange]).__name__
        raise InputError(f"expected a dict as row {strange}, {{'tokens': [...], 'ner_tags': [...]}}; got a {got}")
    names = dict.fromkeys((name for row in rows for name in row) if rows else wanted)
    return {str(name): [row.get(name) for row in rows] for name in names}


def _of_lists(columns: Mapping[str, Any]) -> Rows:
    def lists(name: str) -> Lists:
        rows = [None if is_unknown(row) else row for row in columns[name]]
        for k, row in enumerate(rows):
            if row is not None and (isinstance(row, str | Mapping) or not hasattr(row, "__len__")):
                raise _no_list(name, f"row {k} has {row!r}, a {type(row).__name__}")
        flat = list(chain.from_iterable(row for row in rows if row is not None))
        try:
            held = Column.from_labels(flat)
        except (InputError, TypeError) as error:
            raise InputError(f"the lists of {name!r} must hold values of one type: {error}") from None
        return Lists(np.array([-1 if row is None else len(row) for row in rows], np.int64), held)

    return Rows(list(columns), lists, lambda name: Column.from_labels(columns[name]), {})


def _of_arrow(table: Any, known: Mapping[str, Sequence[str]]) -> Rows:
    import pyarrow.compute as pc
    from pyarrow import types

    def lists(name: str) -> Lists:
        column = table.column(name)
        kind = column.type
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            raise _no_list(name, f"it is of {kind}")
        lengths = pc.list_value_length(column).fill_null(-1).to_numpy().astype(np.int64)
        return Lists(lengths, _numbered(pc.list_flatten(column), name))

    return Rows(
        table.column_names, lists, lambda name: _numbered(table.column(name), name), {**_in_schema(table), **known}
    )


def _numbered(values: Any, name: str) -> Column:
    """A chunked array of Arrow, each distinct value once, in order of appearance."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if "view" in str(values.type):  # which Arrow does not number
        values = values.cast(pyarrow.large_string())
    if types.is_null(values.type):
        return Column(np.full(len(values), -1, np.int32), ())
    try:
        coded = values.dictionary_encode().unify_dictionaries()
    except pyarrow.ArrowException:
        raise InputError(f"expected strings or numbers in {name!r}; it holds {values.type}") from None
    codes = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in coded.chunks]
    distinct = coded.chunk(0).dictionary.to_pylist() if coded.num_chunks else []
    try:
        labels, kind = label_names(distinct)
    except (InputError, TypeError):
        raise InputError(f"expected strings or numbers in {name!r}; it holds {values.type}") from None
    table = np.array([*(-1 if one is None else k for k, one in enumerate(labels)), -1], np.int32)  # NaN is no value
    place = np.concatenate([np.empty(0, np.int32), *codes])
    return Column(table[place], tuple("" if one is None else one for one in labels), kind)


# -- the names of numbered tags --------------------------------------------------------------------------


def _feature_names(feature: Any) -> Sequence[str]:
    """Of a feature of `datasets`: a list of class labels, in the several ways that versions write one."""
    if isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    inner = feature.get("feature", feature) if isinstance(feature, Mapping) else getattr(feature, "feature", feature)
    names = inner.get("names") if isinstance(inner, Mapping) else getattr(inner, "names", None)
    if isinstance(names, Mapping):  # as YAML has them: {"0": "O", "1": "B-PER"}
        numbered = names
        in_order = all(_is_number(number) for number in numbered)  # "10" does not stand before "2"
        names = [numbered[number] for number in (sorted(numbered, key=int) if in_order else numbered)]
    is_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return list(names) if names is not None and is_names else []


def _in_schema(table: Any) -> dict[str, Sequence[str]]:
    """The names that `datasets` wrote into the schema of a table or of a Parquet file."""
    try:
        told = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        features = told.get("info", {}).get("features") or {}
        found = {str(name): _feature_names(feature) for name, feature in features.items()}
    except (AttributeError, ValueError):  # of another make: tags then need `names`
        return {}
    return {name: names for name, names in found.items() if names}


def _named(lists: Lists, names: Sequence[str] | Mapping[Any, str] | None, column: str, numbers: bool) -> Column:
    """What stands in the lists as strings; `numbers`: without names they are what they are. Strings are names
    themselves, but for digits (["0", "3"], of a CSV file) where there are names for numbers."""
    held = lists.held
    known = None if names is None else _by_number(names)
    if known is None or (held.type == "str" and not _are_numbers(held, known, column)):
        if held.type != "str" and not numbers:
            raise InputError(
                f"{column!r} holds numbers, and nothing says what they stand for; give their names in order, "
                "`names=['O', 'B-PER', ...]`, or take them as labels that are no spans with `scheme=None`"
            )
        return held
    if held.type not in ("int", "str"):
        raise InputError(f"{column!r} must hold whole numbers, each the place of a name, or strings; got {held.type}")
    number: dict[str, int] = {}
    place = np.full(len(held.values) + 1, -1, np.int32)
    for k, value in enumerate(label_of(name, "int") for name in held.values):
        if value in known:
            place[k] = number.setdefault(known[value], len(number))
        elif value not in UNKNOWN and (held.codes == k).any():
            row, token = _place(lists, int((held.codes == k).argmax()))
            expected = f"0 to {len(known) - 1}, the places of the names"
            if set(known) != set(range(len(known))):
                expected = f"a number that has a name ({', '.join(map(str, sorted(known)))})"
            expected = f"expected {expected}, or -1 where the label is unknown"
            raise InputError(f"row {row}, token {token}: {column!r} has {value}; {expected}")
    return Column(place[held.codes], tuple(number))


def _by_number(names: Sequence[str] | Mapping[Any, str]) -> dict[int, str]:
    """Number -> name: of names in order, or of a dict such as `id2label`, whose keys may be strings."""
    if isinstance(names, Mapping):
        if not all(_is_number(number) and isinstance(name, str) for number, name in names.items()):
            raise InputError(
                "names must be a list of names in order, or a dict number -> name, {0: 'O', 1: 'B-PER'}; got a dict "
                f"with {dict(list(names.items())[:1])}. Of label2id give {{number: name for name, number in ...}}"
            )
        return {int(number): name for number, name in names.items()}
    if isinstance(names, str):
        raise InputError(f"names must be a list of names, ['O', 'B-PER', ...]; got the string {names!r}")
    return dict(enumerate(map(str, names)))


def _are_numbers(held: Column, known: Mapping[int, str], column: str) -> bool:
    """Whether strings are numbers of names, and not names."""
    used = {held.values[code] for code in np.unique(held.codes).tolist() if code >= 0} - set(known.values())
    digits = sorted(value for value in used if _is_number(value))
    if digits and len(digits) < len(used):
        other = min(used - set(digits))
        raise InputError(f"{column!r} must hold numbers of names, or names; it holds both, {digits[0]!r} and {other!r}")
    return bool(digits)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value.removeprefix("-").isdecimal()
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


# -- what has to fit together ----------------------------------------------------------------------------


def _no_list(name: str, got: str) -> InputError:
    return InputError(f"{name!r} must hold a list for each row; {got}. Text is read by `kf.read_text`")


def _refuse_gaps(lists: Lists, name: str) -> None:
    if (lists.lengths < 0).any():
        row = int((lists.lengths < 0).argmax())
        raise InputError(f"row {row} has no {name!r}; fill it in or leave the row out")
    if (lists.held.codes < 0).any():
        row, token = _place(lists, int((lists.held.codes < 0).argmax()))
        raise InputError(f"row {row}, token {token} of {name!r} is missing; fill it in or leave the row out")


def _place(lists: Lists, entry: int) -> tuple[int, int]:
    """The row and the place in it of an entry."""
    starts = starts_of(np.maximum(lists.lengths, 0))
    row = int(np.searchsorted(starts, entry, side="right")) - 1
    return row, entry - int(starts[row])


def _beside(lists: Lists, lengths: Ints, name: str) -> Lists:
    """As many entries as there are tokens; where a row has no list at all, none is known."""
    absent = lists.lengths < 0
    wrong = np.flatnonzero(~absent & (lists.lengths != lengths))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"row {row} has {lengths[row]} tokens and {lists.lengths[row]} entries in {name!r}")
    if not absent.any():
        return lists
    codes = np.full(int(lengths.sum()), -1, np.int32)
    codes[np.repeat(~absent, lengths)] = lists.held.codes
    return Lists(lengths, replace(lists.held, codes=codes))


def _sizes(documents: Column, name: str) -> Ints:
    """How many rows each document has."""
    codes = documents.codes
    if (codes < 0).any():
        raise InputError(f"row {int((codes < 0).argmax())} has no {name!r}; fill it in or leave the row out")
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    runs = codes[begins]
    if len(np.unique(runs)) < len(runs):
        seen = np.bincount(runs)
        again = documents.values[int(runs[seen[runs] > 1][0])]
        raise InputError(f"the rows of a document must stand together; those of {again!r} come in several places: sort")
    return np.diff(np.append(begins, len(codes))).astype(np.int64)
