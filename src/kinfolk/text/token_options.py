"""Options of `tokens train` that are settings of some models; whose each is, `methods` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kinfolk.cli.methods import Mixing, Order, Skip
from kinfolk.cli.options import one_of


@dataclass(frozen=True)
class TokenOptions:
    """None: not given, so the model's own default."""

    decode: Annotated[
        str | None,
        typer.Option(
            help="memm: viterbi (default) or posterior; skip-chain: posterior (default) or map.",
            autocompletion=one_of("viterbi", "posterior", "map"),
        ),
    ] = None
    training: Annotated[
        str | None,
        typer.Option(
            help="What is optimised. mop: separate, conditional or joint (default); "
            "skip-chain: bethe (default), pseudo or piecewise.",
            autocompletion=one_of("separate", "conditional", "joint", "bethe", "pseudo", "piecewise"),
        ),
    ] = None
    skip: Annotated[Skip | None, typer.Option(help="mop, skip-chain: edges to earlier tokens. Default: same-word.")] = (
        None
    )
    most_recent: Annotated[int | None, typer.Option(help="mop, skip-chain: edges a token, 0 = all. Default: 5.")] = None
    max_document_frequency: Annotated[
        int | None,
        typer.Option(help="mop, skip-chain: no edges for words in more documents, 0 = no limit. Default: 100."),
    ] = None
    edge_features: Annotated[bool | None, typer.Option(help="mop, skip-chain: features of edges. Default: no.")] = None
    mixing: Annotated[Mixing | None, typer.Option(help="mop only: weights of parents. Default: uniform.")] = None
    order: Annotated[Order | None, typer.Option(help="mop only: where parents stand. Default: forward.")] = None
    damping: Annotated[
        float | None, typer.Option(help="skip-chain only: share of an old message kept, 0 to below 1. Default: 0.")
    ] = None
    max_rounds: Annotated[
        int | None, typer.Option(help="skip-chain only: limit of rounds of belief propagation. Default: 100.")
    ] = None
    depth: Annotated[
        int | None,
        typer.Option(help="stacked only: CRFs above the first, each told what the one below said. Default: 1."),
    ] = None
    folds: Annotated[int | None, typer.Option(help="stacked only: folds of documents to cross-fit by. Default: 5.")] = (
        None
    )
