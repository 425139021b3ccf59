"""`kinfolk records train | cluster | evaluate`; in `cli_tables`: `link`, `show`, `report`; in `cli_label`: `label`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import (
    Checkpoint,
    EngineOptions,
    Jobs,
    check_going_on,
    check_output,
    counted_warnings,
    engine_of,
    examples,
    given_options,
    is_verbose,
    refuse_overwriting,
    spread,
)
from kinfolk.cli.output import (
    Page,
    check_page,
    link_lines,
    link_outcome,
    link_table,
    report_page,
    show,
    show_json,
    summary,
)
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.cli_files import (
    ClusterOptions,
    LabelOptions,
    LinkerOptions,
    SourceOptions,
    check_fits,
    check_labels,
    check_source,
    check_truth,
    clusterer_of,
    items_for,
    linker_settings,
    loaded,
    logged_as_it_goes,
    read_by,
    read_items,
    read_labels,
    size,
    table_names,
    with_candidates,
)
from kinfolk.linking.cli_label import RECORDS_LABEL, label
from kinfolk.linking.cli_tables import (
    RECORDS_LINK,
    RECORDS_REPORT,
    RECORDS_SHOW,
    cluster_with,
    link,
    read_whole,
    refuse_with_engine,
    write_whole,
)
from kinfolk.linking.cli_tables import report as report_records
from kinfolk.linking.cli_tables import show as show_model
from kinfolk.linking.clustered import fields_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinfolk.linking.explain import LinkExplanation
    from kinfolk.linking.mentions import Mentions
    from kinfolk.linking.pair_labels import PairLabels

# -- examples at the end of help pages -----------------------------------------------------------------

RECORDS_TRAIN = examples(
    "kinfolk records train --records customers.csv --cluster entity \\\n"
    "    --block 'key(postcode)' --block 'key(date_of_birth)' --out customers.kinfolk",
    "kinfolk records train --records new.csv --pairs labels.csv \\\n    --block 'key(postcode)' --out labelled.kinfolk",
    "kinfolk records train --records new.csv \\\n"
    "    --block 'key(postcode)' --block 'key(surname)' --out unlabelled.kinfolk",
    "kinfolk records train --documents litbank/train --out litbank.kinfolk",
)
RECORDS_CLUSTER = examples(
    "kinfolk records cluster customers.kinfolk --records new.csv -o clusters.csv",
    "kinfolk records cluster customers.kinfolk --records new.csv --all-columns \\\n    -o clustered.csv",
    "kinfolk records cluster customers.kinfolk --records new.csv --json",
    "kinfolk records cluster customers.kinfolk --records 'people/*.parquet' \\\n"
    "    --engine duckdb --memory-limit 2GB -o clustered.parquet",
    "kinfolk records cluster litbank.kinfolk --documents litbank/test",
)
RECORDS_EVALUATE = examples(
    "kinfolk records evaluate customers.kinfolk --records test.csv --cluster entity",
    "kinfolk records evaluate litbank.kinfolk --documents litbank/test --json",
)
RECORDS = examples(
    "kinfolk records train --records customers.csv --cluster entity \\\n"
    "    --block 'key(postcode)' --block 'key(date_of_birth)' --out customers.kinfolk",
    "kinfolk records cluster customers.kinfolk --records new.csv",
)


# -- cli -------------------------------------------------------------------------------------------

app = typer.Typer(
    help="Link mentions of one entity, or records of one thing.",
    epilog=RECORDS,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Model = Annotated[Path, typer.Argument(help="Model file.")]
Links = Annotated[str | None, typer.Option(help="File of links that are given: two ids a line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]


@app.command(epilog=RECORDS_TRAIN)
@spread(options=LinkerOptions)
def train(
    *,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    source: SourceOptions,
    labels: LabelOptions,
    options: Any,
    clustering: ClusterOptions,
    seed: Annotated[int, typer.Option(help="Seed of whatever is random.")] = 0,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, to standard output.")] = False,
    checkpoint: Checkpoint = None,
) -> None:
    """Train a model, with or without labels, and write one model file.

    Labels are true clusters of mentions in documents or of records in tables, or labelled pairs of records, --pairs;
    records alone, without any, are learned from by how far their fields agree.
    """
    from kinfolk.core.checkpoint import remove_checkpoint
    from kinfolk.core.modelfile import check_writable
    from kinfolk.linking.blocking import as_rules
    from kinfolk.linking.clusterers import usual_clusterer
    from kinfolk.linking.linker import Linker

    check_writable(out)
    of_records = [f"--{name}" for name in ("compare", "always", "never") if getattr(options, name)]
    check_source(source, *of_records, *given_options(labels))
    refuse_overwriting(out, "--out", *read_by(source, labels))
    check_going_on(checkpoint, *read_by(source, labels), out, quiet=quiet)
    if source.block:
        as_rules(source.block)
    settings = linker_settings(options)
    training = settings.get("training", Linker().training)
    usual = usual_clusterer(training, source.documents is not None, source.other is not None)
    asked = clusterer_of(clustering, usual)
    clusterer = "auto" if asked is usual else asked  # "auto": the linker chooses by its data
    if options.folds is not None and clustering.threshold is not None:
        raise SettingError.saying("--folds chooses the threshold; leave out --threshold")
    check_labels(labels)
    items = read_items(source)
    labelled = read_labels(labels, items, source)
    linker = Linker(**settings, blocking=source.block or None, clusterer=clusterer, random_state=seed, n_jobs=jobs)
    check_fits(items, [*settings.get("features", ()), *settings.get("rules", ())], clusterer)
    items, report = with_candidates(items, source, source.block or (), jobs)
    if not quiet:
        typer.echo(size(items) if report is None else str(report), err=True)
    with logged_as_it_goes(not quiet), counted_warnings():
        linker.fit(items, pairs=labelled, checkpoint=checkpoint)
    linker.save(out)
    remove_checkpoint(checkpoint)
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


@app.command(epilog=RECORDS_CLUSTER)
@spread()
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
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all-columns", help="Records: their table again, CSV or Parquet as it is, with cluster and probability."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for each item.")] = False,
    tables: EngineOptions,
    limit: Annotated[int | None, typer.Option(help="--engine: most candidate pairs there may be.")] = None,
    jobs: Jobs = -1,
    quiet: Quiet = False,
    checkpoint: Checkpoint = None,
) -> None:
    """Cluster items. Records: a line with id and cluster for each; documents: their columns, clusters in the last."""
    from kinfolk.core.checkpoint import remove_checkpoint
    from kinfolk.linking.cluster_files import item_ids, read_id_pairs, write_clusters, write_coref, write_pairs
    from kinfolk.linking.clusterers import ConstraintsError
    from kinfolk.linking.training import closure_line

    if not 0 <= least <= 1:
        raise SettingError.saying(f"--least must be a probability from 0 to 1; got {least}")
    refuse_overwriting(output, "--output", *read_by(source), model, pairs, must_link, cannot_link)
    if pairs is not None:
        refuse_overwriting(pairs, "--pairs", *read_by(source), model, must_link, cannot_link)
    check_source(source)
    check_going_on(checkpoint, *read_by(source), model, output, pairs, must_link, cannot_link, quiet=quiet)
    engine = engine_of(tables, jobs)
    if engine is not None:
        given = {"--pairs": pairs, "--must-link": must_link, "--cannot-link": cannot_link, "--json": as_json or None,
                 "--checkpoint": checkpoint}  # fmt: skip
        refuse_with_engine(source, output, given)
        with engine, logged_as_it_goes(not quiet, progress=True):
            cluster_with(engine, model, source, clustering, output, limit, jobs)
        return
    check_output(output, "--output")
    if pairs is not None:
        check_output(pairs, "--pairs")
    if limit is not None:
        raise SettingError.saying("--limit needs --engine duckdb or spark; in memory it is --max-pairs")
    table = read_whole(source, output, as_json) if all_columns else None
    linker, items, report = loaded(model, source, clustering, jobs)
    must, cannot = (None if file is None else read_id_pairs(file, items) for file in (must_link, cannot_link))
    if report is not None and not quiet:
        typer.echo(str(report), err=True)
    candidates = items.n_pairs
    try:
        items, probability, found = linker.linked(items, must, cannot, checkpoint=checkpoint)
    except ConstraintsError as error:
        ids = item_ids(items)
        raise ConstraintsError(*(ids[int(one)] for one in error.items)) from None
    if items.n_pairs > candidates and not quiet:
        typer.echo(closure_line(candidates, items.n_pairs), err=True)
    if pairs is not None:
        write_pairs(pairs, items, probability, found, least)
    if table is not None:
        write_whole(table, output, items, probability, found)
    elif source.documents is not None and not as_json:
        write_coref(output, source.documents, items, found, unmatched=str(source.unmatched or "raise"))
    else:
        write_clusters(output, items, found, tables=table_names(source), as_json=as_json)
    remove_checkpoint(checkpoint)


@app.command(epilog=RECORDS_EVALUATE)
@spread()
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
    scores = linker.evaluate(items, report=page, pairs=labelled)
    report_page(page)
    if as_json:
        answer: dict[str, Any] = {"items": items.n_items, "candidate_pairs": items.n_pairs}
        if report is not None:
            answer |= {"reduction_ratio": report.reduction_ratio, "pair_completeness": report.pair_completeness}
        show_json({**answer, "scores": scores})
        return
    lines = [size(items) if labelled is None else f"{size(items)}; {len(labelled):,} labelled pairs"]
    if report is not None and report.pair_completeness is not None:
        lines[0] += f" ({report.reduction_ratio:.2%} of all left out); pair completeness {report.pair_completeness:.2%}"
    table = link_table(scores)
    show(lines, table, link_lines(table))


app.command(epilog=RECORDS_LINK)(link)
app.command("show", epilog=RECORDS_SHOW)(show_model)
app.command(epilog=RECORDS_LABEL)(spread()(label))
app.command("report", epilog=RECORDS_REPORT)(spread()(report_records))


def _sizes(items: Mentions) -> dict[str, int]:
    """What `size` says, in numbers."""
    documents = {} if items.corpus is None else {"documents": len(items.group_names or ())}
    return {**documents, "items": items.n_items, "candidate_pairs": items.n_pairs}


def _counts(labelled: PairLabels | None) -> dict[str, int]:
    """How many pairs were labelled."""
    return {} if labelled is None else {"matches": labelled.n_yes, "non_matches": len(labelled) - labelled.n_yes}


# -- `kinfolk explain` for mentions and records: why two are linked, and what holds a cluster together ---


def explain_links(
    linker: Any,
    model: Path,
    ids: list[str],
    source: SourceOptions,
    clustering: ClusterOptions,
    top: int,
    as_json: bool,
    report: Path | None,
    jobs: int,
) -> None:
    """Two ids: their pair. One: the cluster it is in. None: a page about many clusters."""
    from kinfolk.linking.cluster_files import item_ids

    if len(ids) > 2:
        raise SettingError.saying(f"explain takes one id or two; got {len(ids)}")
    if not ids and report is None:
        raise SettingError.saying("give one id or two; or --report PAGE.html, for a page about the clusters")
    items, _ = items_for(linker, model, source, clustering, jobs)
    chosen = _chosen(items, ids)
    items, probability, found = linker.linked(items)
    named = replace(items, names=item_ids(items))
    answer = _Answer(linker, named, probability, found, report)
    text, plain = answer.pair(chosen[0], chosen[1], top) if len(chosen) == 2 else answer.clusters(*chosen)
    report_page(report)
    if as_json:
        show_json(plain)
    elif text:
        show([text])


def _chosen(items: Mentions, ids: list[str]) -> list[int]:
    """The numbers of the items asked for, in rising order."""
    from kinfolk.linking.cluster_files import item_number, item_places

    place = item_places(items) if ids else {}
    chosen = [item_number(key, place) for key in ids]
    if len({*chosen}) < len(chosen):
        raise InputError(f"expected two different items; got {ids[0]!r} twice")
    if len({*items.groups[chosen]}) > 1:
        raise InputError(f"{ids[0]!r} and {ids[1]!r} are in different documents, whose mentions are never linked")
    return sorted(chosen)


class _Answer:
    """The answer, in words and plainly for JSON; a page is written on the way."""

    def __init__(
        self, linker: Any, items: Mentions, probability: NDArray[Any], clusters: NDArray[Any], report: Path | None
    ) -> None:
        self.linker, self.items, self.report = linker, items, report
        self.known = {"probability": probability, "clusters": clusters}

    def pair(self, low: int, high: int, top: int) -> tuple[str, Any]:
        from kinfolk.linking.page import Linked

        items, clusters = self.items, self.known["clusters"]
        answer = self.linker.explain(items, low, high, **self.known, report=self.report)
        linked = Linked.of(self.linker, items, **self.known)
        number = linked.candidate(low, high)
        candidate, together = number >= 0, bool(clusters[low] == clusters[high])
        became = linked.verdict(low, high, number)
        plain = asdict(replace(answer, left=items.name(low), right=items.name(high)))
        return f"{_shortened(answer, top)}\n{became}", {**plain, "candidate": candidate, "together": together}

    def clusters(self, item: int | None = None) -> tuple[str, Any]:
        bare = replace(self.items, columns={})  # ids alone, without texts
        if item is None:
            self.linker.explain_clusters(self.items, **self.known, report=self.report)
            return "", [asdict(one) for one in self.linker.explain_clusters(bare, **self.known)]
        answer = str(self.linker.explain_cluster(self.items, item, **self.known, report=self.report))
        plain = asdict(self.linker.explain_cluster(bare, item, **self.known))
        if self.linker.antecedent_weights_ is None:
            return answer, plain
        followed = self.linker.explain_antecedents(self.items, item)
        return f"{answer}\n{followed}", {**plain, "new": followed.new, "antecedents": followed.antecedents}


def _shortened(answer: LinkExplanation, top: int) -> LinkExplanation:
    """The largest contributions, and the sum of the others as one more."""
    from kinfolk.linking.explain import Contribution

    shown, others = answer.contributions[:top], answer.contributions[top:]
    rest = (Contribution(f"{len(others)} others", sum(one.share for one in others)),) if others else ()
    return replace(answer, contributions=(*shown, *rest))
