"""Why the tokens of one document have their labels: by parents for a mixture, by features for the other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError
from kinfolk.report.report_files import PathLike, check_report
from kinfolk.text.batch import Batch
from kinfolk.text.entities import Entity
from kinfolk.text.labels import LabelCoding
from kinfolk.text.own_features import FeatureExplanation, feature_shares, largest_first, step_share

Array = NDArray[Any]


class Explaining(Protocol):
    """A tagger from the side of explanations."""

    coding_: LabelCoding

    def _decoder(self) -> Any: ...

    def _explanations(self, batch: Batch, path: NDArray[np.int32], marginals: Array, tokens: Sequence[int]) -> Any:
        """One explanation a token of `tokens`."""

    def _long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        """(token, token it looks at, relation), beyond the chain."""


def one_document(batch: Batch, document: Any, token: Any) -> Batch:
    """The document to be explained; numbers count from 0, and a token of None stands for all."""
    corpus = batch.corpus
    whole = _is_number(document) and (token is None or _is_number(token))
    if not whole or not 0 <= document < corpus.n_documents:
        last = corpus.n_documents - 1
        raise InputError(f"give a document from 0 to {last} and a token; got document={document!r}, token={token!r}")
    one = corpus.documents(int(document), int(document) + 1)
    if token is not None and not 0 <= token < one.n_tokens:
        raise InputError(f"document {document} has no token {token}: it has {one.n_tokens}, numbered from 0")
    if batch.items is None:
        return Batch(one)
    first, last = corpus.document_starts[document : document + 2]
    return Batch(one, batch.items[first:last])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer)


def explain_document(
    tagger: Explaining, batch: Batch, document: Any, token: Any, report: PathLike | None, method: str
) -> Any:
    """The explanation of a token, or of all as a list; with `report` the document is written as a page too."""
    from kinfolk.text.token_report import write_token_report

    check_report(report)
    labelled = label_document(tagger, batch, range(batch.corpus.n_tokens) if token is None or report else [int(token)])
    if report is not None:
        write_token_report(report, labelled, document, method, token)
    if token is None:
        return [tagger.coding_.as_written(answer) for answer in labelled.answers]
    return tagger.coding_.as_written(labelled.answers[int(token) if report is not None else 0])


@dataclass(frozen=True, eq=False)
class LabelledDocument:
    """One document, labelled, with all that is known of why; what a page alone shows is worked out when asked for."""

    batch: Batch
    coding: LabelCoding
    path: NDArray[np.int32]
    marginals: Array
    answers: Sequence[Any]
    tagger: Explaining

    @cached_property
    def entities(self) -> Sequence[Entity]:
        found: Sequence[Entity] = self.tagger._decoder().entities(self.batch, self.path, False)
        return found

    @cached_property
    def long_edges(self) -> Sequence[tuple[int, int, str]]:
        return self.tagger._long_edges(self.batch)


def label_document(tagger: Explaining, batch: Batch, tokens: Sequence[int]) -> LabelledDocument:
    """`tokens` are those to explain."""
    batch, decoder = replace(batch, kept_rows={}), tagger._decoder()
    path, marginals = decoder.paths(batch, False), decoder.marginals(batch, False)
    answers = tagger._explanations(batch, path, marginals, tokens)
    return LabelledDocument(batch, tagger.coding_, path, marginals, answers, tagger)


class NamedFeatures(NamedTuple):
    """What a log-linear model says of tokens.

    rows     features of tokens, CSR (n, F)
    weights  (F, L)
    names    of the features
    steps    scores (L, L) of the label before and the answer, and of the label behind and the answer; None: no say
    """

    rows: Any
    weights: Array
    names: Sequence[str]
    steps: tuple[Array | None, Array | None]


def by_features(
    batch: Batch, path: NDArray[np.int32], marginals: Array, tokens: Sequence[int], said: NamedFeatures,
    coding: LabelCoding,
) -> list[FeatureExplanation]:  # fmt: skip
    """By the features of each token, and by the labels beside it."""
    words, classes = batch.corpus.columns["word"].strings(), coding.classes.names
    first = {*batch.corpus.sentence_starts[:-1].tolist()}
    last = {*(batch.corpus.sentence_starts[1:] - 1).tolist()}
    (rows, weights, names, (before, behind)) = said
    answers = []
    for t in tokens:
        label, on = int(path[t]), slice(rows.indptr[t], rows.indptr[t + 1])
        shares = feature_shares(rows.indices[on], rows.data[on], weights, label, names)
        if before is not None and t not in first:
            shares.append(step_share("the label before", marginals[t - 1], before, label))
        if behind is not None and t not in last:
            shares.append(step_share("the label behind", marginals[t + 1], behind, label))
        sure, told = float(marginals[t, label]), largest_first(shares)
        answers.append(FeatureExplanation(t, f"{words[t]} ({t})", classes[label], sure, classes, marginals[t], told))
    return answers
