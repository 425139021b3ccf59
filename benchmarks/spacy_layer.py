"""What kinfolk adds to a pipeline of spaCy whose own NER was trained on the same documents.

    python benchmarks/spacy_layer.py         120 documents of eng.train, scored on eng.testa
    python benchmarks/spacy_layer.py 946     all of them

spaCy's NER is trained from nothing, without vectors, sentence by sentence. The layer learns from what two such NERs say
of the half of the documents that the other was trained on, and then stands behind the NER of all documents. Settings
are defaults, and nothing is chosen on testa. Data are read from the folder named by KINFOLK_DATA, or ../shared/data
beside the checkout.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch

import kinfolk as kf
from kinfolk.text import schemes

EPOCHS = 12


def doc_of(nlp: spacy.Language, corpus: kf.Corpus, labelled: bool = True) -> Doc:
    rows = corpus.rows()
    starts = [k == 0 for row in rows for k in range(len(row))]
    doc = Doc(nlp.vocab, [word for row in rows for word in row], sent_starts=starts)
    if labelled:
        found = schemes.spans(corpus.labels, corpus.sentence_starts, corpus.scheme)
        doc.ents = [Span(doc, one.start, one.end, one.type) for one in found]
    return doc


def trained(corpus: kf.Corpus) -> spacy.Language:
    """A pipeline with spaCy's NER, by sentences, as it is usually trained."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    docs = [doc_of(nlp, one) for one in corpus]
    examples = [Example(Doc(nlp.vocab, [token.text for token in sentence]), sentence.as_doc())
                for doc in docs for sentence in doc.sents]  # fmt: skip
    optimizer, order = nlp.initialize(lambda: examples), random.Random(0)
    for _ in range(EPOCHS):
        order.shuffle(examples)
        for batch in minibatch(examples, 32):
            nlp.update(batch, drop=0.2, sgd=optimizer)
    return nlp


def predicted(nlp: spacy.Language, corpus: kf.Corpus) -> list[Example]:
    docs = [doc_of(nlp, one, labelled=False) for one in corpus]
    return [Example(doc, doc_of(nlp, one)) for doc, one in zip(nlp.pipe(docs), corpus, strict=True)]


def main(n_documents: int = 120) -> None:
    started = time.perf_counter()
    folder = Path(os.environ.get("KINFOLK_DATA", "../shared/data")) / "tokens" / "conll2003"
    train, test = (kf.read_conll(folder / name) for name in ("eng.train", "eng.testa"))
    train = train.documents(0, n_documents)
    halves = [train[range(k, n_documents, 2)] for k in (0, 1)]
    nlp = trained(train)
    unseen = [one for own, other in (halves, halves[::-1]) for one in predicted(trained(own), other)]
    print(f"spaCy's NER trained three times: {time.perf_counter() - started:.0f} s")
    ner = nlp.get_pipe("ner")
    print(f"spaCy's NER             {100 * ner.score(predicted(nlp, test))['ents_f']:.2f}")
    layer = nlp.add_pipe("kinfolk_consistency", config={"probability": None})
    started = time.perf_counter()
    layer.fit(unseen)
    print(f"layer trained: {time.perf_counter() - started:.0f} s; {layer.model.weights_}; {layer.model.gain_}")
    print(f"with the layer          {100 * ner.score(predicted(nlp, test))['ents_f']:.2f}")
    layer.fit(unseen, kf.TokenLayer(features=False))
    print(f"without own features    {100 * ner.score(predicted(nlp, test))['ents_f']:.2f}")
    alone = spacy.blank("en")
    tagger = alone.add_pipe("kinfolk_ner").fit([doc_of(alone, one) for one in train])
    print(f"kinfolk_ner alone       {100 * tagger.score(predicted(alone, test))['ents_f']:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
