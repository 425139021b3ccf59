"""Why the tokens of one document have their labels: by parents for a mixture, by features for the other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.explain import Answer, Contribution, Explanation
from kinfolk.core.beside import apart
from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.report.page import Part, PathLike, check_report, write_report
from kinfolk.text.batch import Batch, Entity
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.vectors import VectorColumns

if TYPE_CHECKING:
    from kinfolk.text.tagger import Tagger

# -- What the features of a token (and the labels beside it) say for its label, in a log-linear model ---
#
# The score of a label y is a sum over features, Σ_f x_f · w_f,y. Only differences between labels mean anything, so a
# feature's share is what it adds for the answer beyond what it adds on average over all labels:
#
#     share = x_f · (w_f,y − mean over labels of w_f)
#
# A label beside the token speaks through its distribution m: share = Σ_y' m(y') · (T_y',y − mean over labels of
# T_y',·).

Array = NDArray[Any]


@dataclass(frozen=True)
class FeatureShare:
    """What one feature adds to the score of the answer, beyond the mean over labels."""

    feature: str
    share: float


@dataclass(frozen=True)
class FeatureExplanation(Answer):
    """The answer for one instance, and what its features add to it, the greatest first by absolute value.

    Shares are parts of a score, not of a probability: in a chain the labels around decide too.
    """

    contributions: tuple[FeatureShare, ...]

    def __str__(self) -> str:
        lines = [self.head()]
        lines += [f"  {one.share:+7.2f}  {one.feature}" for one in self.contributions[:SHOWN]]
        rest = self.contributions[SHOWN:]
        if rest:
            lines.append(f"  {sum(one.share for one in rest):+7.2f}  {len(rest)} others together")
        return "\n".join(lines)


SHOWN = 12  # contributions that are printed


# -- explain ---------------------------------------------------------------------------------------


def one_document(batch: Batch, document: Any, token: Any) -> Batch:
    """The document to be explained; numbers count from 0, and a token of None stands for all."""
    corpus = batch.corpus
    whole = isinstance(document, int | np.integer) and isinstance(token, int | np.integer | None)
    if not whole or not 0 <= document < corpus.n_documents:
        last = corpus.n_documents - 1
        raise InputError(
            f"give a document from 0 to {last} and a token; got `document={document!r}`, `token={token!r}`"
        )
    one = corpus.documents(int(document), int(document) + 1)
    if token is not None and not 0 <= token < one.n_tokens:
        raise InputError(f"document {document} has no token {token}: it has {one.n_tokens}, numbered from 0")
    if batch.items is None:
        return Batch(one)
    first, last = corpus.document_starts[document : document + 2]
    return Batch(one, batch.items[first:last])


def explain_document(
    tagger: Tagger, batch: Batch, document: Any, token: Any, report: PathLike | None, method: str
) -> Any:
    """The explanation of a token, or of all as a list; with `report` the document is written as a page too."""
    check_report(report)
    labelled = label_document(tagger, batch, range(batch.corpus.n_tokens) if token is None or report else [int(token)])
    if report is not None:
        about = f"{method}: {batch.corpus.n_tokens} tokens, {len(labelled.entities)} entities. Click a word to see why."
        part = document_part(labelled, f"The text of document {document}", token)
        write_report(report, f"Why these labels: document {document}", [part], about)
    answers = [tagger.coding_.classes.as_written(answer) for answer in labelled.answers]
    return answers if token is None else answers[int(token) if report is not None else 0]


@dataclass(frozen=True, eq=False)
class LabelledDocument:
    """One document, labelled, with all that is known of why; what a page alone shows is worked out when asked for."""

    tagger: Tagger
    decoder: Any  # its TokenDecoder
    batch: Batch
    path: NDArray[np.int32]
    marginals: Array
    answers: Sequence[Any]

    @cached_property
    def entities(self) -> Sequence[Entity]:
        found: Sequence[Entity] = self.decoder.entities(self.batch, self.path, False)
        return found

    @cached_property
    def long_edges(self) -> Sequence[tuple[int, int, str]]:
        return self.tagger._long_edges(self.batch)


def label_document(tagger: Tagger, batch: Batch, tokens: Sequence[int]) -> LabelledDocument:
    """`tokens` are those to explain."""
    batch, decoder = replace(batch, kept_rows={}), tagger._decoder()
    path, marginals = decoder.paths(batch, False), decoder.marginals(batch, False)
    answers = tagger._explanations(batch, path, marginals, tokens)
    return LabelledDocument(tagger, decoder, batch, path, marginals, answers)


class NamedFeatures(NamedTuple):
    """What a log-linear model scores tokens by: features (n, F) and the names of the sparse ones, what it knows of the
    dense ones, weights (F, L), scores (L, L) of the label before or behind (rows) with the answer; None: it has no
    say."""

    rows: Any
    names: Sequence[str]
    vectors: VectorColumns | None
    weights: Array
    before: Array | None
    behind: Array | None


def by_features(
    batch: Batch, path: NDArray[np.int32], marginals: Array, tokens: Sequence[int], model: NamedFeatures,
    coding: LabelCoding,
) -> list[FeatureExplanation]:  # fmt: skip
    """By the features of each token, and by the labels beside it. Vectors are one contribution, or one a name."""
    rows, dense = apart(model.rows)
    groups, group = ([], np.empty(0, np.int64)) if model.vectors is None else model.vectors.groups()
    by_vectors = model.weights[rows.shape[1] :].astype(np.float64)
    words, classes = batch.corpus.columns["word"].strings(), coding.classes.names
    sentence = [-1, *batch.corpus.token_sentences.tolist(), -1]
    answers = []
    for t in tokens:
        label, on = int(path[t]), slice(rows.indptr[t], rows.indptr[t + 1])
        columns, weights = rows.indices[on], model.weights[rows.indices[on]].astype(np.float64)
        added = rows.data[on] * (weights[:, label] - weights.mean(axis=1))
        shares = [FeatureShare(model.names[f], float(share)) for f, share in zip(columns, added, strict=True) if share]
        together = np.bincount(group, dense[t] * (by_vectors[:, label] - by_vectors.mean(axis=1)), len(groups))
        shares += [FeatureShare(name, float(share)) for name, share in zip(groups, together, strict=True)]
        for name, beside, step in (
            ("the label before", t - 1, model.before),
            ("the label behind", t + 1, model.behind),
        ):
            if step is not None and sentence[beside + 1] == sentence[t + 1]:
                share = marginals[beside] @ (step[:, label] - step.mean(axis=1))
                shares.append(FeatureShare(name, float(share)))
        ordered, sure = tuple(sorted(shares, key=lambda one: -abs(one.share))), float(marginals[t, label])
        answers.append(FeatureExplanation(t, f"{words[t]} ({t})", classes[label], sure, classes, marginals[t], ordered))
    return answers


# -- The report of a document: its entities, how sure each label is, who looks at whom, and what each of them said ---

MOST_FEATURES = 8  # of a token, shown on a click


def document_part(labelled: LabelledDocument, title: str, chosen: int | None = None) -> Part:
    """All of it as numbers: words and classes are named once. Every token has to be explained."""
    corpus, coding, answers = labelled.batch.corpus, labelled.tagger.coding_, labelled.answers
    starts, edges = corpus.sentence_starts, labelled.long_edges
    by_parents = [answer.contributions if isinstance(answer, Explanation) else () for answer in answers]
    relations = [*(one.relation for parents in by_parents for one in parents), *(name for _, _, name in edges)]
    number = {name: i for i, name in enumerate(dict.fromkeys(relations))}
    gold = coding.gold(corpus) if corpus.is_labelled else Column(labelled.path, coding.classes.names)
    impossible = np.zeros((corpus.n_tokens, len(gold.values) - len(coding.classes)))  # labels training never saw
    data = {
        "words": [str(word) for word in corpus.columns["word"].strings()],
        "sentences": starts,
        "classes": list(gold.values),
        "labels": labelled.path,
        "gold": gold.codes if corpus.is_labelled else None,
        "marginals": np.round(np.hstack([labelled.marginals, impossible]), 4),
        "entities": [_placed(entity, starts) for entity in labelled.entities],
        "relations": list(number),
        "edges": [[child, parent, number[name]] for child, parent, name in edges],
        "voices": [
            [_parent(one, number, answer.classes.index(answer.label)) for one in parents]
            for answer, parents in zip(answers, by_parents, strict=True)
        ],
        "features": [
            [[one.feature, one.share] for one in answer.contributions[:MOST_FEATURES] if isinstance(one, FeatureShare)]
            for answer in answers
        ],
        "chosen": _worth_a_look(labelled) if chosen is None else int(chosen),
    }
    return Part("tokens", title, data)


def _worth_a_look(labelled: LabelledDocument) -> int:
    """The token for whom those far away speak loudest; failing that, the first of an entity; -1 if there is neither."""
    far = {name for _, _, name in labelled.long_edges}
    shares = [
        sum(one.share for one in answer.contributions if isinstance(one, Contribution) and one.relation in far)
        for answer in labelled.answers
    ]
    if shares and max(shares) > 0:
        return int(np.argmax(shares))
    starts = labelled.batch.corpus.sentence_starts
    return int(_placed(labelled.entities[0], starts)[0]) if labelled.entities else -1


def _placed(entity: Entity, starts: NDArray[np.int64]) -> list[Any]:
    first = int(starts[entity.sentence])
    return [first + entity.start, first + entity.end, entity.type, entity.confidence]


def _parent(one: Contribution, number: dict[str, int], label: int) -> list[Any]:
    """[parent or -1, relation, share, weight, what it predicts and how surely, what it is itself and how surely, how
    surely it predicts the label]."""
    own = (-1, 0.0) if one.marginal is None else (int(one.marginal.argmax()), float(one.marginal.max()))
    predicted = int(one.predicted.argmax()), float(one.predicted.max()), *own, float(one.predicted[label])
    return [-1 if one.parent is None else one.parent, number[one.relation], one.share, one.weight, *predicted]
