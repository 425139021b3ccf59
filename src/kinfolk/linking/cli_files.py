"""Options of `records`: where the items are, how pairs are learned, how decisions become clusters."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import (
    InShellWords,
    ModelOption,
    ModelOptions,
    given_options,
    given_settings,
    names_in,
)
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.certain import as_certain
from kinfolk.linking.clustered import fields_of
from kinfolk.linking.comparisons import as_comparisons
from kinfolk.linking.linker import Linker

if TYPE_CHECKING:
    from kinfolk.linking.blocking import BlockingReport
    from kinfolk.linking.clusterers import Clusterer
    from kinfolk.linking.mentions import Mentions
    from kinfolk.linking.objective import Bias
    from kinfolk.linking.pair_labels import PairLabels


class Unmatched(StrEnum):
    refuse = "raise"
    drop = "drop"


class Giant(StrEnum):
    keep = "keep"
    skip = "skip"


CONJUNCTIONS = ("default", "all", "none")


class Clustering(StrEnum):
    single = "single-link"
    average = "average-link"
    complete = "complete-link"
    best = "best-link"
    one_to_many = "one-to-many"
    cluster_sum = "cluster-sum"
    correlation = "correlation"
    one_to_one = "one-to-one"


@dataclass(frozen=True)
class SourceOptions:
    """Documents, or one or two tables of records."""

    documents: Annotated[
        str | None, typer.Option(help="File, folder or tar archive of CoNLL columns, mentions in the last.")
    ] = None
    unmatched: Annotated[
        Unmatched | None, typer.Option(help="Documents: a bracket without counterpart: raise (default) or drop.")
    ] = None
    records: Annotated[
        str | None, typer.Option(help="Table of records (CSV, TSV, Parquet), in place of --documents.")
    ] = None
    other: Annotated[
        str | None, typer.Option(help="Records: second table; records of the first are linked with its own.")
    ] = None
    id: Annotated[
        str | None, typer.Option(help="Records: column of ids; none: the numbers of the rows. Default: id.")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(help="Records: what divides cells: one character, or tab. Default: as the files show.")
    ] = None
    fields: Annotated[
        str | None, typer.Option(help="Records: columns to compare, a,b,c. Default: all that are nothing else.")
    ] = None
    cluster: Annotated[
        str | None, typer.Option(help="Records: column of true clusters, in the table or in the file of --truth.")
    ] = None
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth",
            "--matches",
            help="Records: file of all matches, two ids a line, others being none; with --cluster of ids and clusters.",
        ),
    ] = None
    match_columns: Annotated[
        str | None, typer.Option(help="Records: the two columns of ids in --truth, a,b, should it have more.")
    ] = None
    cluster_from_id: Annotated[
        str | None, typer.Option(help="Records: regular expression whose group is the true cluster in an id; or febrl.")
    ] = None
    block: Annotated[
        list[str] | None,
        typer.Option(
            help="Records: rule that makes candidate pairs, 'key(surname[:3] + suburb)', 'sorted(surname, 5)' or "
            "'rare(name, 50)'; may be repeated. Default: those trained with; all pairs of small tables."
        ),
    ] = None
    max_pairs: Annotated[
        int | None, typer.Option(help="Records: refuse rules that could make more pairs. Default: 200000000.")
    ] = None
    giant: Annotated[
        Giant | None, typer.Option(help="Records: blocks of more than a million pairs: keep (default) or skip.")
    ] = None


@dataclass(frozen=True)
class LabelOptions:
    """Labels of pairs of records, in the place of clusters or beside them."""

    pairs: Annotated[
        str | None,
        typer.Option(
            help="Records: file of labelled pairs, two ids and yes or no a line. Known clusters win against them."
        ),
    ] = None
    left: Annotated[str | None, typer.Option(help="--pairs: column of the first id. Default: left.")] = None
    right: Annotated[str | None, typer.Option(help="--pairs: column of the second id. Default: right.")] = None
    match: Annotated[
        str | None,
        typer.Option(help="--pairs: column of yes or no, 1 or 0, or a probability; empty: not known. Default: match."),
    ] = None


@dataclass(frozen=True)
class ClusterOptions:
    """None: not given, so as trained."""

    clusterer: Annotated[
        Clustering | None,
        typer.Option(
            help="How decisions become clusters. Default: chosen by unseen training pairs, first average-link; "
            "two tables one-to-one if the truth is, else one-to-many; documents single-link (after ranking "
            "cluster-sum, after combined average-link)."
        ),
    ] = None
    threshold: Annotated[
        float | None, typer.Option(help="Probability a pair has to exceed. Default: 0.5, or as trained.")
    ] = None
    max_size: Annotated[int | None, typer.Option(help="Most items of a cluster. Default: no limit, or as trained.")] = (
        None
    )


OPTIONS = ModelOptions(
    {"linker": Linker.DECLARED},
    {
        "compare": ModelOption(
            list[str],
            "Records: comparison, e.g. 'jaro_winkler(surname)' or exact:postcode; may be repeated. Default: by what "
            "columns hold.",
            "features",
        ),
        "always": ModelOption(
            list[str],
            "Records: field, or several joined by +, whose same value puts records together for certain; may be "
            "repeated. Kept in the model.",
            "rules",
        ),
        "never": ModelOption(
            list[str],
            "Records: field, or several joined by +, whose different values keep records apart for certain; may be "
            "repeated. Kept in the model.",
            "rules",
        ),
        "bias": ModelOption(
            str, "Lean towards links: all:FACTOR or closest:FACTOR, e.g. closest:1.5. Default: none.", "bias"
        ),
        "conjunctions": ModelOption(
            str, "Pairs of columns that have weights together: default, all or none.", "conjunctions", CONJUNCTIONS
        ),
    },
)
LinkerOptions = OPTIONS.group()


def check_source(source: SourceOptions, *more: str) -> None:
    """Either documents or records, with no option of the other; `more` are options for records given besides."""
    if (source.documents is None) == (source.records is None):
        got = "neither" if source.documents is None else "both"
        raise SettingError.saying(f"give either --documents PATH or --records FILE; got {got}")
    given = [*given_options(source), *more]
    of_documents = ("--documents", "--unmatched")
    strange = next((option for option in given if option not in of_documents), None)
    if source.documents is not None and strange is not None:
        raise SettingError.saying(f"{strange} is for records; leave it out for --documents")
    if source.records is not None and source.unmatched is not None:
        raise SettingError.saying("--unmatched is for documents; leave it out for --records")


def check_labels(labels: LabelOptions) -> None:
    strange = next(iter(given_options(labels)), None)
    if labels.pairs is None and strange is not None:
        raise SettingError.saying(f"{strange} names a column of the file of labelled pairs; give it with --pairs")


def check_truth(source: SourceOptions, labels: LabelOptions, what: str) -> None:
    check_labels(labels)
    given = source.cluster or source.truth or source.cluster_from_id or labels.pairs
    if source.records is not None and not given:
        remedy = (
            "name their column with --cluster, a file of all matches with --truth, or of labelled pairs with --pairs"
        )
        raise SettingError.saying(f"{what} needs the true clusters of records; {remedy}")


def read_by(source: SourceOptions, labels: LabelOptions | None = None) -> list[str | None]:
    """The files that a source names."""
    return [source.documents, source.records, source.other, source.truth, labels.pairs if labels else None]


def linker_settings(options: Any) -> dict[str, Any]:
    """The settings of a Linker that were given, each checked before any file is read."""
    given = OPTIONS.given("linker", options)
    if "compare" in given:
        given["features"] = as_comparisons(given.pop("compare"))
    rules = [f"{kind}({fields})" for kind in ("always", "never") for fields in given.pop(kind, ())]
    if rules:
        given["rules"] = as_certain(rules)
    if "bias" in given:
        given["bias"] = bias_of(given["bias"])
    if given.get("conjunctions", "default") not in CONJUNCTIONS:
        raise SettingError("conjunctions", given["conjunctions"], f"one of {', '.join(CONJUNCTIONS)}")
    if given.get("conjunctions") == "none":
        given["conjunctions"] = None
    Linker(**given).check()
    return given


def bias_of(text: str) -> Bias:
    """all:FACTOR or closest:FACTOR."""
    from kinfolk.linking.objective import KINDS, Bias

    kind, divider, number = text.partition(":")
    try:
        if kind not in KINDS:
            raise ValueError
        bias = Bias(kind, float(number)) if divider else Bias(kind)
        bias.check()
    except ValueError:  # a SettingError is one too
        raise SettingError.saying(
            f"--bias takes all:FACTOR or closest:FACTOR, a number above 0; got {text!r}"
        ) from None
    return bias


def clusterer_of(options: ClusterOptions, trained: Clusterer) -> Clusterer:
    """The clusterer asked for; what is not said is as it was trained with."""
    from kinfolk.linking.clusterers import CLUSTERERS

    given = given_settings(options)
    if not given:
        return trained
    threshold = given.get("threshold", 0.5)
    if not 0 <= threshold < 1:
        raise SettingError.saying(
            f"--threshold must be a probability from 0 up to but not including 1; got {threshold}"
        )
    if given.get("max_size", 1) < 1:
        raise SettingError.saying(f"--max-size must be 1 or more; got {given['max_size']}")
    name = given.pop("clusterer", None)
    if name is None:
        return type(trained)(**{**trained.get_params(), **given})
    kind = CLUSTERERS["".join(word.capitalize() for word in name.split("-"))]
    settings = {key: value for key, value in trained.get_params().items() if key in ("threshold", "max_size")}
    return kind(**{**settings, **given})


# -- The items that a command of `records` names, and their candidate pairs ---------------------------


def loaded(
    path: Path, source: SourceOptions, clustering: ClusterOptions, jobs: int
) -> tuple[Any, Mentions, BlockingReport | None]:
    """A trained model and the items it is asked about; of records, how the rules did too."""
    from kinfolk.core.modelfile import load_model

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
        raise SettingError.saying(f"{path} was trained on {wanted}")
    linker.clusterer_ = clusterer_of(clustering, linker.clusterer_)
    rules = source.block or linker.blocking or ()
    needed = fields_of([*linker.pair_set_.features, *as_certain(linker.rules)], rules)
    try:
        items = read_items(source, needed or None)
    except InputError as error:
        lacking = next((name for name in needed if f"no column {name!r}" in str(error)), None)
        if lacking is None or source.fields is not None:
            raise
        text = f"{str(error).partition(';')[0]}; the model compares by it: add the column, with empty cells if need be"
        raise InputError(text) from error
    check_fits(items, linker.pair_set_.features, linker.clusterer_)
    return with_candidates(items, source, rules, jobs)


def of_texts(linker: Any) -> bool:
    """Whether a trained linker compares mentions of a text."""
    from kinfolk.linking.coreference import CoreferencePairs

    return any(isinstance(feature, CoreferencePairs) for feature in linker.pair_set_.features)


def read_items(source: SourceOptions, needed: Sequence[str] | None = None) -> Mentions:
    """The items; records have no candidate pairs yet. `needed`: the fields, unless others are asked for."""
    from kinfolk.linking.coref import read_coref
    from kinfolk.linking.records import read_records

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
        delimiter=delimiter_of(source),
    )


def delimiter_of(source: SourceOptions) -> str | None:
    return "\t" if source.delimiter == "tab" else source.delimiter


def read_labels(labels: LabelOptions, items: Mentions, source: SourceOptions) -> PairLabels | None:
    """The labelled pairs, if there are any."""
    from kinfolk.linking.records import read_pair_labels

    if labels.pairs is None:
        return None
    named = {"left": labels.left, "right": labels.right, "match": labels.match}
    return read_pair_labels(labels.pairs, items, **named, delimiter=delimiter_of(source))


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
    return blocked(items, list(rules) or None, n_jobs=jobs, **settings)


def check_fits(items: Mentions, features: Sequence[Any], clusterer: Any) -> None:
    """The fields compared are there, and two tables if matching needs them, checked before any pair is made."""
    from kinfolk.linking.clusterers import OneToMany, OneToOne
    from kinfolk.linking.pairs import attribute

    for field in fields_of(features):
        attribute(items, field)
    if isinstance(clusterer, OneToOne | OneToMany) and items.first_table is None:
        name = "one-to-one" if isinstance(clusterer, OneToOne) else "one-to-many"
        raise SettingError.saying(f"--clusterer {name} links two tables: give the second with --other")


def table_names(source: SourceOptions) -> tuple[str, str] | None:
    """What two tables are called in results: their files, as in ids that both have."""
    if source.records is None or source.other is None:
        return None
    names = [PurePath("<stdin>" if f == "-" else f).name.partition(".")[0] for f in (source.records, source.other)]
    return (names[0], names[1]) if names[0] != names[1] else ("1", "2")


# -- what is reported -------------------------------------------------------------------------------------


def size(items: Mentions) -> str:
    """How many items and pairs there are, in words."""
    count = f"{items.n_items:,} records"
    if items.corpus is not None:
        count = f"{len(items.group_names or ()):,} documents, {items.n_items:,} mentions"
    return f"{count}; {items.n_pairs:,} candidate pairs"


@contextmanager
def logged_as_it_goes(wanted: bool, progress: bool = False) -> Iterator[None]:
    """What the library logs, on standard error: warnings and, with --verbose or `progress`, its progress."""
    if not wanted:
        yield
        return

    class Echo(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not record.getMessage().startswith("training "):  # the round tells it again
                typer.echo(self.format(record), err=True)

    log, handler = logging.getLogger("kinfolk"), Echo()
    handler.setFormatter(InShellWords("%(message)s"))
    propagates, level = log.propagate, log.level
    log.addHandler(handler)
    log.propagate = False  # not shown twice
    if progress:
        log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
        log.setLevel(level)
