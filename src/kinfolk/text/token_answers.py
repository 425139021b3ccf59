"""What `tokens tag` writes as JSON, one value a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def entity_lines(tagger: Any, corpus: Any, forced: bool) -> Iterator[str]:
    """An object for each entity."""
    for entity in tagger.predict_entities(corpus, forced=forced):
        yield json.dumps(vars(entity), ensure_ascii=False) + "\n"


def k_best_lines(tagger: Any, corpus: Any, k: int, forced: bool) -> Iterator[str]:
    """A list for each sentence: its best labellings."""
    for row in tagger.predict_k_best(corpus, k, forced=forced):
        yield json.dumps([{"labels": y, "log_probability": p} for y, p in row]) + "\n"


def sentence_lines(tagger: Any, corpus: Any, forced: bool) -> Iterator[str]:
    """An object for each sentence: words, labels, and the probability of each label by itself."""
    place = {label: i for i, label in enumerate(tagger.classes_)}
    documents = corpus.token_documents[corpus.sentence_starts[:-1]].tolist()
    told = zip(
        documents, corpus.rows(), tagger.predict(corpus, forced=forced), tagger.predict_proba(corpus, forced=forced),
        strict=True,
    )  # fmt: skip
    for number, (document, words, labels, chances) in enumerate(told):
        own = [float(row[place[label]]) for row, label in zip(chances, labels, strict=True)]
        answer = {"document": document, "sentence": number, "words": words, "labels": labels, "probabilities": own}
        yield json.dumps(answer, ensure_ascii=False) + "\n"
