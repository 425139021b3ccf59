"""`kinfolk demo`: a generated newswire world, three chain models, one table."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer


def demo(
    documents: Annotated[int, typer.Option(help="Training documents; half as many are tested.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the world.")] = 0,
) -> None:
    """Generate a small newswire world, train, tag, evaluate, and print a table."""
    from rich.console import Console
    from rich.table import Table

    from kinfolk.data.newswire import newswire_split
    from kinfolk.io.conll import read_conll, write_conll
    from kinfolk.models.crf import LinearChainCRF
    from kinfolk.models.maxent import MaxEnt
    from kinfolk.models.memm import MEMM
    from kinfolk.models.mixture import MixtureOfParents
    from kinfolk.models.persistence import load_model

    console = Console()
    train, test = newswire_split(documents, max(1, documents // 2), seed=seed)
    console.print(f"a world of names that mean different things in different documents: {train.n_tokens} tokens to "
                  f"train on, {test.n_tokens} to tag")  # fmt: skip
    mixture = MixtureOfParents(order="both", verbose=1)
    new = (MaxEnt(), MEMM(), MEMM(decode="posterior"), LinearChainCRF(), MixtureOfParents())
    for first in new:  # compiles kernels if they are new
        first.fit(train.documents(0, 1)).predict(test.documents(0, 1))
    rows = [
        ("MaxEnt", "sentence", MaxEnt(verbose=1)),
        ("MEMM, Viterbi", "sentence", MEMM(verbose=1)),
        ("MEMM, posterior", "sentence", MEMM(decode="posterior", verbose=1)),
        ("linear-chain CRF", "sentence", LinearChainCRF(verbose=1)),
        ("mixture of parents", "sentence", mixture),
        ("linear-chain CRF", "document", LinearChainCRF(templates="document", verbose=1)),
        ("mixture of parents", "document", MixtureOfParents(templates="document", order="both", verbose=1)),
    ]
    table = Table("model", "features", "precision", "recall", "F1", "train s", "tokens/s", pad_edge=False)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "test.conll"
        write_conll(test, file)
        for name, features, model in rows:
            began = time.perf_counter()
            model.fit(train).save(Path(folder) / "model.kinfolk")
            trained = time.perf_counter() - began
            loaded, unseen = load_model(Path(folder) / "model.kinfolk"), read_conll(file)
            began = time.perf_counter()
            loaded.predict(unseen)
            rate = unseen.n_tokens / (time.perf_counter() - began)
            scores, _ = loaded.evaluate(unseen)
            assert scores is not None
            figures = (f"{v:.2f}" for v in (scores.precision, scores.recall, scores.f1))
            table.add_row(name, features, *figures, f"{trained:.1f}", f"{rate:,.0f}")
    console.print(table)
    console.print("Names are introduced clearly once and repeated where the sentence does not tell their type: "
                  "only the document does.")  # fmt: skip
