"""Options of `nodes train` that are settings of a model; whose each is, `methods` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kinfolk.cli.bases import SHORT
from kinfolk.cli.methods import Mixing, ParentFeatures
from kinfolk.cli.options import one_of


@dataclass(frozen=True)
class NodeOptions:
    """None: not given, so the model's own default."""

    base: Annotated[
        str | None,
        typer.Option(
            help=f"stacked, dependency-network: classifier of scikit-learn: {', '.join(SHORT)}, or any by its class "
            "name. Default: logistic.",
            autocompletion=one_of(*SHORT),
        ),
    ] = None
    base_setting: Annotated[
        list[str] | None,
        typer.Option(help="Setting of the base, e.g. C=0.1 or class_weight=balanced; may be repeated."),
    ] = None
    template: Annotated[
        list[str] | None,
        typer.Option(
            help="stacked, dependency-network: what a node is told of its neighbours, e.g. count:cites, "
            "'mean:cites @ cites', mean:cites:features, max:cites:hard; may be repeated. Default, of every "
            "relation: stacked: count; dependency-network: proportion."
        ),
    ] = None
    known: Annotated[
        str | None,
        typer.Option(
            help="stacked only: what a neighbour trained on gives: auto (default), true (its label), crossfit (what "
            "others say of it) or ceiling."
        ),
    ] = None
    depth: Annotated[int | None, typer.Option(help="stacked only: levels above the base's own. Default: 1.")] = None
    folds: Annotated[int | None, typer.Option(help="stacked only: folds of cross-fitting. Default: 5.")] = None
    predictions: Annotated[
        str | None, typer.Option(help="stacked only: neighbours give proba (default), label or sample.")
    ] = None
    own: Annotated[bool | None, typer.Option("--own", help="stacked only: a node is told its own prediction too.")] = (
        None
    )
    cross_fitting: Annotated[
        str | None, typer.Option(help="stacked only: strict (default), paper (fewer models) or none.")
    ] = None
    split: Annotated[
        str | None, typer.Option(help="stacked only: folds by group or instance. Default: auto, by group if there are.")
    ] = None
    start: Annotated[
        str | None, typer.Option(help="dependency-network only: first labels: local (default) or random.")
    ] = None
    burn_in: Annotated[int | None, typer.Option(help="dependency-network only: sweeps not counted. Default: 50.")] = (
        None
    )
    sweeps: Annotated[int | None, typer.Option(help="dependency-network only: sweeps counted. Default: 100.")] = None
    chains: Annotated[int | None, typer.Option(help="dependency-network only: runs, averaged. Default: 1.")] = None
    mode: Annotated[
        str | None, typer.Option(help="dependency-network only: auto (default), fast or plain (any base).")
    ] = None
    training: Annotated[
        str | None,
        typer.Option(
            help="What is optimised. mop: separate, conditional or joint (default); "
            "link: bethe (default), pseudo or piecewise.",
            autocompletion=one_of("separate", "conditional", "joint", "bethe", "pseudo", "piecewise"),
        ),
    ] = None
    relations: Annotated[
        str | None, typer.Option(help="mop, link: links to use, e.g. cites; none: no links. Default: all.")
    ] = None
    parent_features: Annotated[
        ParentFeatures | None, typer.Option(help="mop only: weights for the features of a neighbour. Default: own.")
    ] = None
    mixing: Annotated[Mixing | None, typer.Option(help="mop only: weights of neighbours. Default: uniform.")] = None
    orders: Annotated[
        int | None, typer.Option(help="mop only: random orders of the nodes to train on. Default: 10.")
    ] = None
    predict_orders: Annotated[
        int | None, typer.Option(help="mop only: random orders to average predictions over. Default: 50.")
    ] = None
    everybody_starts: Annotated[
        bool | None,
        typer.Option("--everybody-starts", help="mop only: nodes with neighbours speak for themselves too."),
    ] = None
    damping: Annotated[
        float | None, typer.Option(help="link only: share of an old message kept, 0 to below 1. Default: 0.3.")
    ] = None
    max_rounds: Annotated[
        int | None, typer.Option(help="link only: limit of rounds of belief propagation. Default: 200.")
    ] = None
    l2: Annotated[float | None, typer.Option(help="mop, link: strength of the ridge.")] = None
    class_weight: Annotated[
        list[str] | None, typer.Option(help="mop, link: class=weight, may be repeated; or: balanced.")
    ] = None
    max_iterations: Annotated[
        int | None, typer.Option(help="mop, link: limit of optimiser iterations. Default: 300.")
    ] = None
    tolerance: Annotated[
        float | None,
        typer.Option(help="mop, link: stop when the objective falls by less, relative. Default: 0.00015."),
    ] = None
