"""Writes what every measured process reads: the corpora as files, and the templates as a plan.

    python prepare.py FOLDER WORLD DOCUMENTS

WORLD is "conll" or "newswire"; DOCUMENTS is how many training documents to keep, 0 for all. In FOLDER:
train.txt and test.txt in BIO, and plan.json with the templates, their columns and the strength of the ridge.
Before it answers it checks, on a sample of sentences, that the plan gives python-crfsuite the very features
that kinfolk extracts. Where the data is absent the answer is empty.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from peer_features import PeerFeatures

from kinfolk import Corpus, LinearChainCRF, newswire_split, read_conll, write_conll
from kinfolk.text.extraction import TokenFeatures, for_corpus
from kinfolk.text.schemes import convert
from kinfolk.text.templates import Attribute, Bag, Conjunction, Template

SAMPLE = 400
NEWSWIRE = (500, 150)


def main(folder: Path, world: str, documents: int) -> dict[str, Any]:
    if world == "conll" and not (data_folder() / "eng.train").exists():
        return {}
    parts = _conll() if world == "conll" else newswire_split(*NEWSWIRE)
    train, test = (_as_bio(_first(part, documents)) for part in parts)
    templates = for_corpus("sentence", train)
    model = LinearChainCRF()
    plan = {
        "columns": list(train.columns),
        "templates": [_described(template) for template in templates],
        "l2": model.l2,
        "c2": model.l2 / 2,  # CRFsuite adds c2 |w|^2 to the loss, kinfolk l2/2 |w|^2
    }
    check_agreement(templates, plan, train)
    for name, corpus in (("train", train), ("test", test)):
        write_conll(corpus, folder / f"{name}.txt")
    (folder / "plan.json").write_text(json.dumps(plan))
    sizes = {"sentences": train.n_sentences, "tokens": train.n_tokens, "test_tokens": test.n_tokens}
    return {"fingerprint": _fingerprint(folder), "checked_sentences": min(SAMPLE, train.n_sentences), **sizes}


def data_folder() -> Path:
    """The folder named by KINFOLK_DATA, else ../shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("KINFOLK_DATA") or beside) / "tokens" / "conll2003"


def _conll() -> tuple[Corpus, Corpus]:
    return read_conll(data_folder() / "eng.train"), read_conll(data_folder() / "eng.testa")


def _first(corpus: Corpus, documents: int) -> Corpus:
    return corpus.documents(0, min(documents, corpus.n_documents)) if documents else corpus


def _as_bio(corpus: Corpus) -> Corpus:
    assert corpus.labels is not None and corpus.scheme is not None
    return corpus.with_labels(convert(corpus.labels, corpus.sentence_starts, corpus.scheme, "BIO"), "BIO")


def _described(template: Template) -> dict[str, Any]:
    """A template as plain lists: terms (label, attribute, offset), and the window if it is a bag."""
    if isinstance(template, Conjunction):
        return {"terms": [_term(f"{a}[{offset}]", a, offset) for a, offset in template.terms]}
    if isinstance(template, Bag):
        terms = [_term(str(template), template.attribute, 0)]
        return {"terms": terms, "bag": [template.first, template.last]}
    raise SystemExit(f"the template {template} has no counterpart for python-crfsuite: add one to the plan")


def _term(label: str, attribute: Attribute, offset: int) -> list[Any]:
    return [f"{label}=", attribute.spec(), offset]


def check_agreement(templates: list[Template], plan: dict[str, Any], corpus: Corpus) -> None:
    """Stop unless both sides give every token of a sample of sentences the same set of feature names."""
    step = max(1, corpus.n_sentences // SAMPLE)
    columns = {name: corpus.rows(name)[::step] for name in corpus.columns}
    sample = Corpus.from_sentences(columns.pop("word"), **columns)  # type: ignore[arg-type]
    features = TokenFeatures(templates)
    table, names = features.learn(sample), features.names()
    ours = [{names[i] for i in indices} for indices in np.split(table.indices, table.indptr[1:-1])]
    peer, rows = PeerFeatures(plan["templates"]), {name: sample.rows(name) for name in sample.columns}
    theirs: list[list[str]] = []
    for i in range(sample.n_sentences):
        theirs += peer.rows({name: values[i] for name, values in rows.items()})
    for token, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine != set(other) or len(mine) != len(other):
            raise SystemExit(f"features differ at token {token} of the sample: {sorted(mine ^ set(other))}")


def _fingerprint(folder: Path) -> str:
    """Names the training data, the features and the ridge, on which the optimum depends."""
    content = b"".join((folder / name).read_bytes() for name in ("train.txt", "plan.json"))
    return hashlib.sha256(content).hexdigest()[:16]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
