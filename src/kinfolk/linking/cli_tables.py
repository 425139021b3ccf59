"""`kinfolk records link`, `show` and `report`, and the answers of `records cluster` in the table that came."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import Jobs, check_output, check_parquet_output, examples, given_options, names_in
from kinfolk.errors import SettingError
from kinfolk.linking.cli_files import (
    ClusterOptions,
    LabelOptions,
    SourceOptions,
    check_labels,
    check_source,
    clusterer_of,
    delimiter_of,
    loaded,
    logged_as_it_goes,
    of_texts,
    read_by,
    read_labels,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinfolk.linking.mentions import Mentions
    from kinfolk.linking.table_files import TableFile

RECORDS_LINK = examples(
    "kinfolk records cluster customers.kinfolk --records new.csv --all-columns \\\n    -o clustered.csv",
    "kinfolk records link customers.kinfolk --base clustered.csv --records later.csv",
)
RECORDS_REPORT = examples("kinfolk records report customers.kinfolk --records new.csv -o records.html")
RECORDS_SHOW = examples("kinfolk records show customers.kinfolk", "kinfolk records show customers.kinfolk --json")


# -- all columns of `records cluster` -----------------------------------------------------------------


def read_whole(source: SourceOptions, output: str, as_json: bool) -> TableFile:
    """The table that `--all-columns` writes again, checked before the work."""
    from kinfolk.core.frames import opened
    from kinfolk.linking.table_files import TableFile

    wrong = {"--documents": source.documents, "--other": source.other, "--json": as_json or None}
    strange = next((option for option, value in wrong.items() if value is not None), None)
    if strange is not None:
        raise SettingError.saying(f"--all-columns writes one table of records again; leave out {strange}")
    if source.records == "-":
        raise SettingError.saying("--all-columns reads the records twice, which standard input cannot; name a file")
    table = TableFile.read(source.records or "-", delimiter_of(source))
    table.check_target(output)
    opened(table.frame, table.name).check_free(False, cluster="cluster", probability="probability")
    return table


def write_whole(
    table: TableFile, output: str, items: Mentions, probability: NDArray[Any], clusters: NDArray[Any]
) -> None:
    """All columns of the records, then the cluster of each and how surely it belongs there."""
    from kinfolk.core.frames import opened
    from kinfolk.linking.clustered import cluster_values, membership

    surely = membership(items, probability, clusters)
    more = {"cluster": cluster_values(items, clusters), "probability": surely}
    table.write(output, opened(table.frame, table.name).with_columns(more))


# -- `records cluster` with an engine -----------------------------------------------------------------


def refuse_with_engine(source: SourceOptions, output: str, given: Mapping[str, Any]) -> None:
    """Options that need the records in memory, and answers that are no Parquet files."""
    taken = ("--records", "--other", "--id", "--block")
    strange = [name for name in given_options(source) if name not in taken]
    strange += [name for name, value in given.items() if value is not None]
    if strange:
        raise SettingError.saying(f"{strange[0]} cannot be had from an engine; leave it out, or --engine")
    check_parquet_output(output, 1 if source.other is None else 2)


def cluster_with(
    engine: Any,
    model: Path,
    source: SourceOptions,
    clustering: ClusterOptions,
    output: str,
    limit: int | None,
    jobs: int,
) -> None:
    """All columns of the records with their clusters, in a Parquet file (of two tables two, with a comma between)."""
    from kinfolk.core.modelfile import load_model

    linker = load_model(model, kind="mentions").set_params(n_jobs=jobs, engine=engine)
    if of_texts(linker):
        raise SettingError.saying(f"{model} was trained on documents, which no engine holds; leave out --engine")
    linker.clusterer_ = clusterer_of(clustering, linker.clusterer_)
    if source.block:
        linker.set_params(blocking=source.block)
    id = {None: "id", "none": None}.get(source.id, source.id)
    tables = [one for one in (source.records, source.other) if one is not None]
    into: Any = output if len(tables) == 1 else names_in(output)
    linker.cluster_frame(*tables, id=id, into=into, limit=limit)


# -- `records link` -----------------------------------------------------------------------------------


def link(
    *,
    model: Annotated[Path, typer.Argument(help="Model file.")],
    base: Annotated[
        str, typer.Option(help="Table of records in clusters, which stay as they are (CSV, TSV, Parquet).")
    ],
    records: Annotated[str, typer.Option(help="Table of new records.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write; - = standard output.")] = "-",
    id: Annotated[str, typer.Option(help="Column of ids, in both tables.")] = "id",
    cluster: Annotated[str, typer.Option(help="Column of clusters, of the base and of the answer.")] = "cluster",
    delimiter: Annotated[
        str | None, typer.Option(help="What divides cells: one character, or tab. Default: as the files show.")
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(help="Rule that makes candidate pairs, as in `cluster`. Default: those trained with."),
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="File for the pairs compared and their probabilities (CSV).")
    ] = None,
    least: Annotated[float, typer.Option(help="--pairs: only pairs of this probability or more.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each new record.")] = False,
    jobs: Jobs = -1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
) -> None:
    """Add new records to a clustered base, which stays as it is.

    Writes the new records, all their columns, then the cluster of each, how surely it belongs there, and in `also` the
    next cluster of the base it would have joined.
    """
    from kinfolk.core.files import write_utf8
    from kinfolk.core.frames import opened
    from kinfolk.core.modelfile import load_model
    from kinfolk.linking.blocking import as_rules
    from kinfolk.linking.cluster_files import json_lines
    from kinfolk.linking.table_files import TableFile

    check_output(output, "--output", model, base, records, pairs)
    if pairs is not None:
        check_output(pairs, "--pairs", model, base, records)
    if base == records:
        raise SettingError.saying(f"--base and --records are two tables; got {base} twice")
    linker = load_model(model, kind="mentions").set_params(n_jobs=jobs)
    if of_texts(linker):
        raise SettingError.saying(f"{model} was trained on documents, whose mentions have no base to be added to")
    if block:
        linker.blocking = [str(rule) for rule in as_rules(block)]
    divider = "\t" if delimiter == "tab" else delimiter
    new, old = TableFile.read(records, divider), TableFile.read(base, divider)
    if not as_json:
        new.check_target(output)
    opened(new.frame, new.name).check_free(False, cluster=cluster, probability="probability", also="also")
    with logged_as_it_goes(not quiet):
        answer, compared = linker.link(new.frame, old.frame, id=id, cluster=cluster, pairs=True, least=least)
    if pairs is not None:
        TableFile(pairs, None, ",").write(pairs, _lists(compared))
    if as_json:
        plain = _lists(answer)
        write_utf8(output, json_lines(list(plain), zip(*plain.values(), strict=True)))
    else:
        new.write(output, answer)


def _lists(table: Any) -> dict[str, list[Any]]:
    return table if isinstance(table, dict) else dict(table.to_pydict())


# -- `records show` -----------------------------------------------------------------------------------


def show(
    *,
    model: Annotated[Path, typer.Argument(help="Model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What a model has learned.

    Every level of every comparison, its weight, and how many training pairs have it; blocking, rules, clusterer.
    """
    from kinfolk.cli.output import Table, show_json
    from kinfolk.cli.output import show as print_out
    from kinfolk.core.modelfile import load_model
    from kinfolk.linking.description import head_lines, weight_rows

    told = load_model(model, kind="mentions").to_dict()
    if as_json:
        show_json(told)
        return
    head = ("comparison", "level", "weight", "difference", "% of pairs")
    print_out(head_lines(told), Table(head, weight_rows(told), words=2))


# -- `records report` ---------------------------------------------------------------------------------


def report(
    *,
    model: Annotated[Path, typer.Argument(help="Model file.")],
    source: SourceOptions,
    labels: LabelOptions,
    clustering: ClusterOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write (HTML).")],
    clusters: Annotated[int, typer.Option(help="How many clusters the page shows, the most doubtful ones.")] = 20,
    jobs: Jobs = -1,
) -> None:
    """Write a page about records and what a model makes of them.

    With or without truth: columns, blocking, match weights, what other thresholds would do, clusters by size, and the
    most doubtful clusters.
    """
    from kinfolk.cli.output import check_page, report_page
    from kinfolk.linking.charts import write_linker_report
    from kinfolk.linking.page import Linked

    if clusters < 0:
        raise SettingError.saying(f"--clusters must be 0 or more; got {clusters}")
    check_source(source, *given_options(labels))
    check_labels(labels)
    check_page(output, model, *read_by(source, labels))
    linker, items, told = loaded(model, source, clustering, jobs)
    labelled = read_labels(labels, items, source)
    write_linker_report(linker, Linked.of(linker, items), told, output, clusters, labelled)
    report_page(output)
