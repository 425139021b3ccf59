"""`kinfolk mentions train | cluster | evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli import examples
from kinfolk.cli.options import given_options, refuse_overwriting, spread
from kinfolk.cli.outcomes import link_outcome, summary
from kinfolk.cli.output import show, show_json
from kinfolk.cli.pages import Page, check_page, tell_page
from kinfolk.cli.scores import link_lines, link_table
from kinfolk.cli.told import counted_warnings, is_verbose
from kinfolk.errors import SettingError
from kinfolk.linking.cli_files import (
    ClusterOptions,
    LabelOptions,
    LinkerOptions,
    SourceOptions,
    check_source,
    check_truth,
    clusterer_of,
    linker_settings,
    read_by,
)
from kinfolk.linking.mention_files import (
    check_fits,
    fields_of,
    in_words,
    loaded,
    read_items,
    read_labels,
    size,
    table_names,
    told_as_it_goes,
    with_candidates,
)
from kinfolk.text.cli import Jobs

if TYPE_CHECKING:
    from kinfolk.linking.mentions import Mentions
    from kinfolk.linking.pair_labels import PairLabels

app = typer.Typer(
    help="Link mentions of one entity, or records of one thing.",
    epilog=examples.MENTIONS,
    no_args_is_help=True,
)

Model = Annotated[Path, typer.Argument(help="Model file.")]
Links = Annotated[str | None, typer.Option(help="File of links that are given: two ids a line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]


@app.command(epilog=examples.MENTIONS_TRAIN)
@spread
def train(
    *,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    source: SourceOptions,
    labels: LabelOptions,
    options: LinkerOptions,
    clustering: ClusterOptions,
    seed: Annotated[int, typer.Option(help="Seed of whatever is random.")] = 0,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, to standard output.")] = False,
) -> None:
    """Train a model on true clusters and write one model file.

    The clusters are of mentions in documents, or of records in tables; or there are labelled pairs of records, --pairs.
    """
    from kinfolk.core.modelfile import check_writable
    from kinfolk.linking.blocking import as_rules
    from kinfolk.linking.clusterers import AverageLink, BestMatch, SingleLink
    from kinfolk.linking.linker import Linker

    check_writable(out)
    check_source(source, *(["--compare"] if options.compare else []), *given_options(labels))
    refuse_overwriting(out, "--out", *read_by(source, labels))
    if source.block:
        as_rules(source.block)
    settings = linker_settings(options)
    usual = SingleLink() if source.documents is not None else AverageLink() if source.other is None else BestMatch()
    asked = clusterer_of(clustering, usual)
    clusterer = None if asked is usual else asked  # None: the linker chooses by its data
    if options.folds is not None and clustering.threshold is not None:
        raise SettingError("--folds chooses the threshold; leave out --threshold")
    check_truth(source, labels, "training")
    items = read_items(source)
    labelled = read_labels(labels, items, source)
    linker = Linker(**settings, blocking=source.block or None, clusterer=clusterer, random_state=seed, n_jobs=jobs)
    check_fits(items, settings.get("features", ()), clusterer)
    items, report = with_candidates(items, source, source.block or (), jobs)
    if not quiet:
        typer.echo(size(items) if report is None else str(report), err=True)
    with in_words(), told_as_it_goes(not quiet), counted_warnings():
        linker.fit(items, pairs=labelled)
    linker.save(out)
    if as_json:
        show_json(summary(linker, out, {**_sizes(items), **_counts(labelled)}))
    elif not quiet:
        fields = len(fields_of(linker.pair_set_.features))
        for line in link_outcome(linker, items, size(items), fields, is_verbose()):
            typer.echo(line, err=True)
        if labelled is not None:
            typer.echo(
                "learned from {matches:,} matches and {non_matches:,} others".format(**_counts(labelled)), err=True
            )
        typer.echo(f"wrote {out}", err=True)


@app.command(epilog=examples.MENTIONS_CLUSTER)
@spread
def cluster(
    *,
    model: Model,
    source: SourceOptions,
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write; - = standard output.")] = "-",
    pairs: Annotated[str | None, typer.Option(help="File for the pairs compared and their probabilities.")] = None,
    least: Annotated[float, typer.Option(help="--pairs: only pairs of this probability or more.")] = 0.0,
    must_link: Links = None,
    cannot_link: Annotated[str | None, typer.Option(help="File of links that must not be: two ids a line.")] = None,
    clustering: ClusterOptions,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each item.")] = False,
    jobs: Jobs = -1,
    quiet: Quiet = False,
) -> None:
    """Cluster items. Records: a line with id and cluster for each; documents: their columns, clusters in the last."""
    from kinfolk.linking.closure import closure_line
    from kinfolk.linking.cluster_files import item_ids, read_id_pairs, write_clusters, write_coref, write_pairs

    if not 0 <= least <= 1:
        raise SettingError(f"--least must be a probability from 0 to 1; got {least}")
    refuse_overwriting(output, "--output", *read_by(source), pairs, must_link, cannot_link)
    if pairs is not None:
        refuse_overwriting(pairs, "--pairs", *read_by(source), must_link, cannot_link)
    linker, items, report = loaded(model, source, clustering, jobs)
    must, cannot = (None if file is None else read_id_pairs(file, items) for file in (must_link, cannot_link))
    if report is not None and not quiet:
        typer.echo(str(report), err=True)
    candidates = items.n_pairs
    items, probability = linker.compared(items)
    if items.n_pairs > candidates and not quiet:
        typer.echo(closure_line(candidates, items.n_pairs), err=True)
    with in_words(item_ids(items)):
        found = linker.cluster(items, probability, must, cannot)
    if pairs is not None:
        write_pairs(pairs, items, probability, found, least)
    if source.documents is not None and not as_json:
        write_coref(output, source.documents, items, found, unmatched=str(source.unmatched or "raise"))
    else:
        write_clusters(output, items, found, tables=table_names(source), as_json=as_json)


@app.command(epilog=examples.MENTIONS_EVALUATE)
@spread
def evaluate(
    *,
    model: Model,
    source: SourceOptions,
    labels: LabelOptions,
    clustering: ClusterOptions,
    as_json: AsJson = False,
    page: Page = None,
    jobs: Jobs = -1,
) -> None:
    """Compare pairs and clusters with the true ones.

    Pairs are scored before and after clustering, clusters by all metrics; with --pairs, labelled pairs alone.
    """
    check_source(source, *given_options(labels))
    check_truth(source, labels, "scoring")
    check_page(page, model, *read_by(source, labels))
    linker, items, report = loaded(model, source, clustering, jobs)
    labelled = read_labels(labels, items, source)
    with in_words():
        scores = linker.evaluate(items, report=page, pairs=labelled)
    tell_page(page)
    if as_json:
        answer: dict[str, Any] = {"items": items.n_items, "candidate_pairs": items.n_pairs}
        if report is not None:
            answer |= {"reduction_ratio": report.reduction_ratio, "pair_completeness": report.pair_completeness}
        show_json({**answer, "scores": scores})
        return
    told = [size(items) if labelled is None else f"{size(items)}; {len(labelled):,} labelled pairs"]
    if report is not None and report.pair_completeness is not None:
        told[0] += f" ({report.reduction_ratio:.2%} of all left out); pair completeness {report.pair_completeness:.2%}"
    table = link_table(scores)
    show(told, table, link_lines(table))


def _sizes(items: Mentions) -> dict[str, int]:
    """What `size` says, in numbers."""
    documents = {} if items.corpus is None else {"documents": len(items.group_names or ())}
    return {**documents, "items": items.n_items, "candidate_pairs": items.n_pairs}


def _counts(labelled: PairLabels | None) -> dict[str, int]:
    """How many pairs were labelled."""
    return {} if labelled is None else {"matches": labelled.n_yes, "non_matches": len(labelled) - labelled.n_yes}
