"""The items that a command of `mentions` names, and their candidate pairs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import typer

from kinfolk.cli.options import names_in, option_name
from kinfolk.cli.told import InShellWords, in_options
from kinfolk.errors import InputError, KinfolkError, SettingError
from kinfolk.linking.cli_files import SETTINGS, ClusterOptions, LabelOptions, SourceOptions, check_source, clusterer_of

if TYPE_CHECKING:
    from kinfolk.linking.blocking import BlockingReport
    from kinfolk.linking.mentions import Mentions
    from kinfolk.linking.pair_labels import PairLabels


# Settings as messages of the library quote them: giant="skip"; or name them, if no other word looks like it
_QUOTED = re.compile(r'\b(unmatched|giant)="(\w+)"')
_NAMED = re.compile(r"\b(?:max_pairs|match_columns|must_link|cannot_link|max_size|cluster_from_id)\b=?")
_ITEMS = re.compile(r"\bitems (\d+) and (\d+)\b")


@contextmanager
def in_words(ids: Sequence[str] = ()) -> Iterator[None]:
    """Errors of the library with settings told as options and, with ids, numbers of items as those."""
    try:
        with in_options(*SETTINGS):
            yield
    except KinfolkError as error:
        told = _QUOTED.sub(lambda found: f"{option_name(found[1])} {found[2]}", str(error))
        told = _NAMED.sub(lambda found: option_name(found[0].rstrip("=")), told)
        if ids:
            told = _ITEMS.sub(lambda found: f"items {ids[int(found[1])]!r} and {ids[int(found[2])]!r}", told)
        if told == str(error):
            raise
        raise (SettingError if isinstance(error, SettingError) else InputError)(told) from error


# -- items --------------------------------------------------------------------------------------------


def loaded(
    path: Path, source: SourceOptions, clustering: ClusterOptions, jobs: int
) -> tuple[Any, Mentions, BlockingReport | None]:
    """A trained model and the items it is asked about; of records, how the rules did too."""
    from kinfolk.core.persistence import load_model

    check_source(source)
    linker = load_model(path, kind="mentions").set_params(n_jobs=jobs)
    return linker, *items_for(linker, path, source, clustering, jobs)


def items_for(
    linker: Any, path: Path, source: SourceOptions, clustering: ClusterOptions, jobs: int
) -> tuple[Mentions, BlockingReport | None]:
    """The items that the linker of a file is asked about; it then clusters as the options say."""
    check_source(source)
    if (source.documents is not None) != of_texts(linker):
        wanted = "documents: give --documents" if of_texts(linker) else "records: give --records"
        raise SettingError(f"{path} was trained on {wanted}")
    linker.clusterer_ = clusterer_of(clustering, linker.clusterer_)
    rules = source.block or linker.blocking or ()
    needed = fields_of(linker.pair_set_.features, rules)
    try:
        items = read_items(source, needed or None)
    except InputError as error:
        lacking = next((name for name in needed if f"no column {name!r}" in str(error)), None)
        if lacking is None or source.fields is not None:
            raise
        told = f"{str(error).partition(';')[0]}; the model compares by it: add the column, with empty cells if need be"
        raise InputError(told) from error
    check_fits(items, linker.pair_set_.features, linker.clusterer_)
    return with_candidates(items, source, rules, jobs)


def of_texts(linker: Any) -> bool:
    """Whether a trained linker compares mentions of a text."""
    from kinfolk.linking.coreference import CoreferencePairs

    return any(isinstance(feature, CoreferencePairs) for feature in linker.pair_set_.features)


def fields_of(features: Sequence[Any], rules: Sequence[str] = ()) -> list[str]:
    """The columns that comparisons and blocking rules look at."""
    from kinfolk.linking.blocking import as_rules
    from kinfolk.linking.keys import parse_key

    inner = [getattr(feature, "comparison", feature) for feature in features]  # BestOf has one within
    found = [field for feature in inner for field in getattr(feature, "fields", ())]
    rule: Any
    for rule in as_rules(list(rules)) if rules else ():
        found += rule.fields if hasattr(rule, "fields") else [part.field for part in parse_key(rule.expression)]
    return list(dict.fromkeys(found))


def read_items(source: SourceOptions, needed: Sequence[str] | None = None) -> Mentions:
    """The items; records have no candidate pairs yet. `needed`: the fields, unless others are asked for."""
    from kinfolk.linking.coref import read_coref
    from kinfolk.linking.io_records import read_records

    with in_words():
        if source.documents is not None:
            return read_coref(source.documents, unmatched=str(source.unmatched or "raise"))
        fields = needed if source.fields is None else names_in(source.fields)
        return read_records(
            source.records or "-",
            source.other,
            id=None if source.id == "none" else source.id or "id",
            truth=source.truth,
            cluster=source.cluster,
            cluster_from_id=source.cluster_from_id,
            fields=fields,
            match_columns=None if source.match_columns is None else names_in(source.match_columns),
            delimiter=_delimiter(source),
        )


def _delimiter(source: SourceOptions) -> str | None:
    return "\t" if source.delimiter == "tab" else source.delimiter


def read_labels(labels: LabelOptions, items: Mentions, source: SourceOptions) -> PairLabels | None:
    """The labelled pairs, if there are any."""
    from kinfolk.linking.io_records import read_pair_labels

    if labels.pairs is None:
        return None
    named = {"left": labels.left, "right": labels.right, "match": labels.match}
    with in_words():
        return read_pair_labels(labels.pairs, items, **named, delimiter=_delimiter(source))


def with_candidates(
    items: Mentions, source: SourceOptions, rules: Sequence[str], jobs: int
) -> tuple[Mentions, BlockingReport | None]:
    """Records with the pairs that rules bring together; without rules all pairs."""
    from kinfolk.linking.blocking import blocked

    if source.documents is not None:
        return items, None
    settings: dict[str, Any] = {"giant": str(source.giant or "keep")}
    if source.max_pairs is not None:
        settings["max_pairs"] = source.max_pairs
    with in_words():
        return blocked(items, list(rules) or None, n_jobs=jobs, **settings)


def check_fits(items: Mentions, features: Sequence[Any], clusterer: Any) -> None:
    """The fields compared are there, and two tables if matching needs them: told before any pair is made."""
    from kinfolk.linking.clusterers import BestMatch, OneToOne
    from kinfolk.linking.pairs import attribute

    for field in fields_of(features):
        attribute(items, field)
    if isinstance(clusterer, OneToOne | BestMatch) and items.first_table is None:
        name = "one-to-one" if isinstance(clusterer, OneToOne) else "best-match"
        raise SettingError(f"--clusterer {name} links two tables: give the second with --other")


def table_names(source: SourceOptions) -> tuple[str, str] | None:
    """What two tables are called in results: their files, as in ids that both have."""
    if source.records is None or source.other is None:
        return None
    names = [PurePath("<stdin>" if f == "-" else f).name.partition(".")[0] for f in (source.records, source.other)]
    return (names[0], names[1]) if names[0] != names[1] else ("1", "2")


# -- what is told -------------------------------------------------------------------------------------


def size(items: Mentions) -> str:
    """How many items and pairs there are, in words."""
    count = f"{items.n_items:,} records"
    if items.corpus is not None:
        count = f"{len(items.group_names or ()):,} documents, {items.n_items:,} mentions"
    return f"{count}; {items.n_pairs:,} candidate pairs"


@contextmanager
def told_as_it_goes(wanted: bool) -> Iterator[None]:
    """What the library logs, on standard error: warnings and, with --verbose, its progress."""
    if not wanted:
        yield
        return

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not record.getMessage().startswith("training "):  # the round tells it again
                typer.echo(self.format(record), err=True)

    log, handler = logging.getLogger("kinfolk"), Told()
    handler.setFormatter(InShellWords(SETTINGS))
    propagates = log.propagate
    log.addHandler(handler)
    log.propagate = False  # not told twice
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
