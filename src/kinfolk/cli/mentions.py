"""`kinfolk mentions train | cluster | evaluate | explain`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.mention_files import (
    check_fits,
    in_words,
    loaded,
    read_items,
    size,
    table,
    table_names,
    told_as_it_goes,
    with_candidates,
)
from kinfolk.cli.mention_options import (
    ClusterOptions,
    LinkerOptions,
    SourceOptions,
    check_source,
    check_truth,
    clusterer_of,
    linker_settings,
    refuse_overwriting,
)
from kinfolk.cli.options import spread
from kinfolk.cli.tokens import Jobs
from kinfolk.cli.told import counted_warnings
from kinfolk.errors import InputError, SettingError

if TYPE_CHECKING:
    from kinfolk.data.mentions import Mentions
    from kinfolk.explain.links import LinkExplanation

app = typer.Typer(
    help="Link mentions of an entity, or records of a thing: train a model, cluster, evaluate, explain.",
    no_args_is_help=True,
)

Model = Annotated[Path, typer.Argument(help="Model file.")]
Links = Annotated[str | None, typer.Option(help="File of links that are given: two ids a line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]


@app.command()
@spread
def train(
    *,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    source: SourceOptions,
    options: LinkerOptions,
    clustering: ClusterOptions,
    seed: Annotated[int, typer.Option(help="Seed of whatever is random.")] = 0,
    jobs: Jobs = -1,
    quiet: Quiet = False,
) -> None:
    """Train a model on documents or records with true clusters, and write one model file.

    kinfolk mentions train --documents litbank/train --out litbank.kinfolk

    kinfolk mentions train --records people.csv --cluster entity --block 'key(postcode)' --out people.kinfolk
    """
    from kinfolk.features.blocking import as_rules
    from kinfolk.io.modelfile import check_writable
    from kinfolk.models.clusterers import AverageLink, SingleLink
    from kinfolk.models.linker import Linker

    check_writable(out)
    check_source(source, *(["--compare"] if options.compare else []))
    refuse_overwriting(out, "--out", source)
    if source.block:
        as_rules(source.block)
    settings = linker_settings(options)
    clusterer = clusterer_of(clustering, AverageLink() if source.documents is None else SingleLink())
    if options.folds is not None and clustering.threshold is not None:
        raise SettingError("--folds chooses the threshold; leave out --threshold")
    check_truth(source, "training")
    items = read_items(source)
    linker = Linker(**settings, blocking=source.block or None, clusterer=clusterer, random_state=seed, n_jobs=jobs)
    check_fits(items, settings.get("features", ()), clusterer)
    items, report = with_candidates(items, source, source.block or (), jobs)
    if not quiet:
        typer.echo(size(items) if report is None else str(report), err=True)
    with in_words(), told_as_it_goes(not quiet), counted_warnings():
        linker.fit(items)
    linker.save(out)
    if not quiet:
        for line in _outcome(linker, items):
            typer.echo(line, err=True)
        typer.echo(f"wrote {out}", err=True)


@app.command()
@spread
def cluster(
    *,
    model: Model,
    source: SourceOptions,
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write; - = standard output.")] = "-",
    pairs: Annotated[str | None, typer.Option(help="File for the candidate pairs and their probabilities.")] = None,
    least: Annotated[float, typer.Option(help="--pairs: only pairs of this probability or more.")] = 0.0,
    must_link: Links = None,
    cannot_link: Annotated[str | None, typer.Option(help="File of links that must not be: two ids a line.")] = None,
    clustering: ClusterOptions,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object an item.")] = False,
    jobs: Jobs = -1,
    quiet: Quiet = False,
) -> None:
    """Cluster items. Records: a line with id and cluster for each; documents: their columns, clusters in the last."""
    from kinfolk.io.clusters import item_ids, read_id_pairs, write_clusters, write_coref, write_pairs

    if not 0 <= least <= 1:
        raise SettingError(f"--least must be a probability from 0 to 1; got {least}")
    refuse_overwriting(output, "--output", source, pairs, must_link, cannot_link)
    if pairs is not None:
        refuse_overwriting(pairs, "--pairs", source, must_link, cannot_link)
    linker, items, report = loaded(model, source, clustering, jobs)
    must, cannot = (None if file is None else read_id_pairs(file, items) for file in (must_link, cannot_link))
    if report is not None and not quiet:
        typer.echo(str(report), err=True)
    probability = linker.predict_proba(items)
    with in_words(item_ids(items)):
        found = linker.cluster(items, probability, must, cannot)
    if pairs is not None:
        write_pairs(pairs, items, probability, found, least)
    if source.documents is not None and not as_json:
        write_coref(output, source.documents, items, found, unmatched=str(source.unmatched or "raise"))
    else:
        write_clusters(output, items, found, tables=table_names(source), as_json=as_json)


@app.command()
@spread
def evaluate(
    *,
    model: Model,
    source: SourceOptions,
    clustering: ClusterOptions,
    as_json: AsJson = False,
    jobs: Jobs = -1,
) -> None:
    """Compare pairs and clusters with the true ones, before and after clustering, by all metrics."""
    from kinfolk.io.textfiles import write_utf8

    check_truth(source, "scoring")
    linker, items, report = loaded(model, source, clustering, jobs)
    with in_words():
        scores = linker.evaluate(items)
    if as_json:
        answer: dict[str, Any] = {"items": items.n_items, "candidate_pairs": items.n_pairs}
        if report is not None:
            answer |= {"reduction_ratio": report.reduction_ratio, "pair_completeness": report.pair_completeness}
        write_utf8("-", [json.dumps({**answer, "scores": scores}, indent=2, ensure_ascii=False), "\n"])
        return
    told = [size(items)]
    if report is not None and report.pair_completeness is not None:
        told[0] += f" ({report.reduction_ratio:.2%} of all left out); pair completeness {report.pair_completeness:.2%}"
    write_utf8("-", [line + "\n" for line in [*told, *table(scores)]])


@app.command()
@spread
def explain(
    *,
    model: Model,
    ids: Annotated[list[str], typer.Argument(help="One id or two; of a mention DOCUMENT:FIRST-LAST, its tokens.")],
    source: SourceOptions,
    clustering: ClusterOptions,
    top: Annotated[int, typer.Option(min=1, help="So many contributions; the rest is summed up. JSON has all.")] = 15,
    as_json: AsJson = False,
    jobs: Jobs = -1,
) -> None:
    """Why two items are linked or not; or, of one item, the weakest link of its cluster and what would split it.

    kinfolk mentions explain people.kinfolk r17 r41 --records people.csv

    kinfolk mentions explain litbank.kinfolk emma:12-14 --documents litbank/test
    """
    from kinfolk.io.clusters import item_ids, item_number, item_places
    from kinfolk.io.textfiles import write_utf8

    if len(ids) > 2:
        raise SettingError(f"explain takes one id or two; got {len(ids)}")
    linker, items, _ = loaded(model, source, clustering, jobs)
    chosen = [item_number(key, item_places(items)) for key in ids]
    if len({*chosen}) < len(chosen):
        raise InputError(f"expected two different items; got {ids[0]!r} twice")
    if len({*items.groups[chosen]}) > 1:
        raise InputError(f"{ids[0]!r} and {ids[1]!r} are in different documents, whose mentions are never linked")
    probability = linker.predict_proba(items)
    with in_words():
        found = linker.cluster(items, probability)
    names = item_ids(items)
    named = replace(items, names=names)
    if len(chosen) == 1:
        plainly = replace(named, columns={}) if as_json else named  # ids alone, without texts
        answer = linker.explain_cluster(plainly, chosen[0], probability, found)
        told, plain = str(answer), asdict(answer)
    else:
        low, high = sorted(chosen)
        answer = linker.explain(named, low, high)
        candidate = bool(((items.left == low) & (items.right == high)).any())
        together = bool(found[low] == found[high])
        told = f"{_shortened(answer, top)}\n{_verdict(linker, answer.probability, candidate, together)}"
        answer = replace(answer, left=names[low], right=names[high])
        plain = {**asdict(answer), "candidate": candidate, "together": together}
    write_utf8("-", [json.dumps(plain, indent=2, ensure_ascii=False) if as_json else told, "\n"])


def _outcome(linker: Any, items: Mentions) -> Iterator[str]:
    """How training went, a line each."""
    yield f"trained on {size(items)}"
    if items.corpus is None:
        yield f"compared by {', '.join(column.name for column in linker.pair_set_.columns)}"
    kept = linker.rounds_[linker.best_round_]
    rounds = f"round {kept.number} of 0 (local) to {len(linker.rounds_) - 1}" if kept.scores else "local training"
    scores = "".join(f"{name} {score:.4f} on the training data; " for name, score in kept.scores.items())
    if linker.folds is not None:
        yield f"threshold {linker.clusterer_.threshold:.3f} and the round chosen on unseen training pairs"
    yield f"kept {rounds}: {scores}{linker.convergence_}"


def _shortened(answer: LinkExplanation, top: int) -> LinkExplanation:
    """The largest contributions, and the sum of the others as one more."""
    from kinfolk.explain.links import Contribution

    shown, others = answer.contributions[:top], answer.contributions[top:]
    rest = (Contribution(f"{len(others)} others", sum(one.share for one in others)),) if others else ()
    return replace(answer, contributions=(*shown, *rest))


def _verdict(linker: Any, probability: float, candidate: bool, together: bool) -> str:
    threshold = linker.clusterer_.threshold
    if not candidate:
        why = "no candidate pair: no blocking rule brings them together"
        return f"{why}; {'in one cluster by way of others' if together else 'in different clusters'}"
    if together:
        return "linked" if probability > threshold else "in one cluster by way of others"
    return "not linked" if probability <= threshold else "kept apart by the clustering"
