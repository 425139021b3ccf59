"""Options of `mentions`: where the items are, how pairs are learned, how decisions become clusters."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import given_options, given_settings
from kinfolk.errors import SettingError

if TYPE_CHECKING:
    from kinfolk.linking.bias import Bias
    from kinfolk.linking.clusterers import Clusterer


class Unmatched(StrEnum):
    refuse = "raise"
    drop = "drop"


class Giant(StrEnum):
    keep = "keep"
    skip = "skip"


class Training(StrEnum):
    structured = "structured"
    local = "local"


class EStep(StrEnum):
    nearest = "nearest"
    spanning = "spanning"
    exact = "exact"


class Conjunctions(StrEnum):
    default = "default"
    all = "all"
    none = "none"


class Clustering(StrEnum):
    single = "single-link"
    average = "average-link"
    complete = "complete-link"
    best = "best-link"
    best_match = "best-match"
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
    """Labels of pairs of records, in the place of clusters."""

    pairs: Annotated[
        str | None,
        typer.Option(help="Records: file of labelled pairs, two ids and yes or no a line. Nothing else is known."),
    ] = None
    left: Annotated[str | None, typer.Option(help="--pairs: column of the first id. Default: left.")] = None
    right: Annotated[str | None, typer.Option(help="--pairs: column of the second id. Default: right.")] = None
    match: Annotated[
        str | None, typer.Option(help="--pairs: column of yes or no, 1 or 0; empty: not known. Default: match.")
    ] = None


@dataclass(frozen=True)
class ClusterOptions:
    """None: not given, so as trained."""

    clusterer: Annotated[
        Clustering | None,
        typer.Option(
            help="How decisions become clusters. Default: average-link; documents single-link; two tables one-to-one "
            "if the truth is, else best-match."
        ),
    ] = None
    threshold: Annotated[
        float | None, typer.Option(help="Probability a pair has to exceed. Default: 0.5, or as trained.")
    ] = None
    max_size: Annotated[int | None, typer.Option(help="Most items of a cluster. Default: no limit, or as trained.")] = (
        None
    )


@dataclass(frozen=True)
class LinkerOptions:
    """None: not given, so the model's own default."""

    compare: Annotated[
        list[str] | None,
        typer.Option(
            help="Records: comparison, e.g. 'jaro_winkler(surname)' or exact:postcode; may be repeated. Default: by "
            "what columns hold."
        ),
    ] = None
    training: Annotated[
        Training | None, typer.Option(help="Learn what the clustering needs, or each pair for itself.")
    ] = None
    e_step: Annotated[EStep | None, typer.Option(help="structured: what is asked of pairs. Default: nearest.")] = None
    rounds: Annotated[int | None, typer.Option(help="structured: rounds after the local one. Default: 5.")] = None
    bias: Annotated[
        str | None,
        typer.Option(help="Lean towards links: all:FACTOR or closest:FACTOR, e.g. closest:1.5. Default: none."),
    ] = None
    select: Annotated[
        str | None, typer.Option(help="structured: metric that chooses the round kept. Default: pair_f1.")
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(help="Folds of training data by which the threshold is chosen. Default: the clusterer's own."),
    ] = None
    l2: Annotated[float | None, typer.Option(help="Strength of the ridge. Default: 1.")] = None
    bins: Annotated[int | None, typer.Option(help="Bins of numbers. Default: 8.")] = None
    conjunctions: Annotated[Conjunctions | None, typer.Option(help="Pairs of columns that have weights together.")] = (
        None
    )
    max_iterations: Annotated[int | None, typer.Option(help="Limit of optimiser iterations. Default: 200.")] = None
    tolerance: Annotated[
        float | None, typer.Option(help="Stop when the objective falls by less, relative. Default: 0.0001.")
    ] = None


def check_source(source: SourceOptions, *more: str) -> None:
    """Either documents or records, with no option of the other; `more` are options for records given besides."""
    if (source.documents is None) == (source.records is None):
        got = "neither" if source.documents is None else "both"
        raise SettingError(f"give either --documents PATH or --records FILE; got {got}")
    given = [*given_options(source), *more]
    of_documents = ("--documents", "--unmatched")
    strange = next((option for option in given if option not in of_documents), None)
    if source.documents is not None and strange is not None:
        raise SettingError(f"{strange} is for records; leave it out for --documents")
    if source.records is not None and source.unmatched is not None:
        raise SettingError("--unmatched is for documents; leave it out for --records")


def check_truth(source: SourceOptions, labels: LabelOptions, what: str) -> None:
    strange = next(iter(given_options(labels)), None)
    if labels.pairs is None and strange is not None:
        raise SettingError(f"{strange} names a column of the file of labelled pairs; give it with --pairs")
    given = source.cluster or source.truth or source.cluster_from_id or labels.pairs
    if source.records is not None and not given:
        remedy = (
            "name their column with --cluster, a file of all matches with --truth, or of labelled pairs with --pairs"
        )
        raise SettingError(f"{what} needs the true clusters of records; {remedy}")


def read_by(source: SourceOptions, labels: LabelOptions | None = None) -> list[str | None]:
    """The files that a source names."""
    return [source.documents, source.records, source.other, source.truth, labels.pairs if labels else None]


def linker_settings(options: LinkerOptions) -> dict[str, Any]:
    """The settings of a Linker that were given, each checked before any file is read."""
    from kinfolk.linking.comparisons import as_comparisons
    from kinfolk.linking.link_scores import metric

    told = given_settings(options).items()
    given = {name: str(value) if isinstance(value, StrEnum) else value for name, value in told}
    if "compare" in given:
        given["features"] = as_comparisons(given.pop("compare"))
    if "bias" in given:
        given["bias"] = bias_of(given["bias"])
    if "select" in given:
        metric(given["select"])
    if given.get("conjunctions") == "none":
        given["conjunctions"] = None
    return given


def bias_of(text: str) -> Bias:
    """all:FACTOR or closest:FACTOR."""
    from kinfolk.linking.bias import KINDS, Bias

    kind, divider, number = text.partition(":")
    try:
        if kind not in KINDS:
            raise ValueError
        bias = Bias(kind, float(number)) if divider else Bias(kind)
        bias.check()
    except ValueError:  # a SettingError is one too
        raise SettingError(f"--bias takes all:FACTOR or closest:FACTOR, a number above 0; got {text!r}") from None
    return bias


def clusterer_of(options: ClusterOptions, trained: Clusterer) -> Clusterer:
    """The clusterer asked for; what is not said is as it was trained with."""
    from kinfolk.linking.clusterers import CLUSTERERS

    given = given_settings(options)
    if not given:
        return trained
    threshold = given.get("threshold", 0.5)
    if not 0 <= threshold < 1:
        raise SettingError(f"--threshold must be a probability from 0 up to but not including 1; got {threshold}")
    if given.get("max_size", 1) < 1:
        raise SettingError(f"--max-size must be 1 or more; got {given['max_size']}")
    name = given.pop("clusterer", None)
    if name is None:
        return type(trained)(**{**trained.get_params(), **given})
    kind = CLUSTERERS["".join(word.capitalize() for word in name.split("-"))]
    settings = {key: value for key, value in trained.get_params().items() if key in ("threshold", "max_size")}
    return kind(**{**settings, **given})


SETTINGS = tuple(
    one.name for group in (SourceOptions, LabelOptions, ClusterOptions, LinkerOptions) for one in fields(group)
)
