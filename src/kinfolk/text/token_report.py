"""The report of a document: its entities, how sure each label is, who looks at whom, and what each of them said."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.report.page import Part
from kinfolk.report.report_files import PathLike, write_report
from kinfolk.text.entities import Entity
from kinfolk.text.explain import LabelledDocument
from kinfolk.text.own_features import FeatureExplanation
from kinfolk.text.parents import Contribution, Explanation

MOST_FEATURES = 8  # of a token, shown on a click


def write_token_report(
    path: PathLike, labelled: LabelledDocument, document: int, method: str, chosen: int | None = None
) -> None:
    """`chosen` is the token that is explained when the page opens."""
    n_tokens, n_entities = labelled.batch.corpus.n_tokens, len(labelled.entities)
    about = f"{method}: {n_tokens} tokens, {n_entities} entities. Click a word to see why."
    part = document_part(labelled, f"The text of document {document}", chosen)
    write_report(path, f"Why these labels: document {document}", [part], about)


def document_part(labelled: LabelledDocument, title: str, chosen: int | None = None) -> Part:
    """All of it as numbers: words and classes are named once. Every token has to be explained."""
    corpus, coding, answers = labelled.batch.corpus, labelled.coding, labelled.answers
    starts, edges = corpus.sentence_starts, labelled.long_edges
    relations = {name: None for answer in answers for name in _relations(answer)}
    relations |= {name: None for _, _, name in edges}
    number = {name: i for i, name in enumerate(relations)}
    has_gold = corpus.labels is not None and bool((corpus.labels.codes >= 0).any())
    gold = coding.gold(corpus) if has_gold else Column(labelled.path, coding.classes.names)
    impossible = np.zeros((corpus.n_tokens, len(gold.values) - len(coding.classes)))  # labels training never saw
    data = {
        "words": [str(word) for word in corpus.columns["word"].strings()],
        "sentences": starts,
        "classes": list(gold.values),
        "labels": labelled.path,
        "gold": gold.codes if has_gold else None,
        "marginals": np.round(np.hstack([labelled.marginals, impossible]), 4),
        "entities": [_placed(entity, starts) for entity in labelled.entities],
        "relations": list(relations),
        "edges": [[child, parent, number[name]] for child, parent, name in edges],
        "voices": [_voices(answer, number) for answer in answers],
        "features": [_features(answer) for answer in answers],
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


def _relations(answer: Explanation | FeatureExplanation) -> list[str]:
    return [one.relation for one in answer.contributions] if isinstance(answer, Explanation) else []


def _voices(answer: Explanation | FeatureExplanation, number: dict[str, int]) -> list[list[Any]]:
    """[parent or -1, relation, share, weight, what it predicts and how surely, what it is itself and how surely,
    how surely it predicts the answer] of each parent."""
    if not isinstance(answer, Explanation):
        return []
    label = answer.classes.index(answer.label)
    return [[*_voice(one, number), float(one.predicted[label])] for one in answer.contributions]


def _voice(one: Contribution, number: dict[str, int]) -> list[Any]:
    own = (-1, 0.0) if one.marginal is None else (int(one.marginal.argmax()), float(one.marginal.max()))
    said = int(one.predicted.argmax()), float(one.predicted.max())
    return [-1 if one.parent is None else one.parent, number[one.relation], one.share, one.weight, *said, *own]


def _features(answer: Explanation | FeatureExplanation) -> list[list[Any]]:
    if isinstance(answer, Explanation):
        return []
    return [[one.feature, one.share] for one in answer.contributions[:MOST_FEATURES]]
