"""How far probabilities of entities under skip edges are off where they are approximated: CoNLL-2003, MixtureTagger.

    python benchmarks/entity_probabilities.py

Most are exact sums (`Entity.exact`). Where a sum would be too long, parents outside the entity count as independent of
each other. So two figures: of entities whose probability is exact, by how much the approximation would miss it; and of
those that are approximated, by how much the share of SAMPLES labellings, drawn from the model one token after the
other, misses it (which is itself off by `noise`, one standard error). All settings are defaults.
Data are read from the folder named by KINFOLK_DATA, or ../shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

import kinfolk as kf
from kinfolk.inference.mixture import beliefs
from kinfolk.inference.mixture_spans import LabelledSpan, mixture_span_probabilities
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, found_spans

SAMPLES = 20_000


def folder() -> Path:
    return Path(os.environ.get("KINFOLK_DATA", "../shared/data")) / "tokens" / "conll2003"


def conditional(wiring: Any, scores: Any, c: int, n_labels: int) -> Any:
    """(L, L), p_c(y | i) of one component, written anew."""
    table = scores.pair[wiring.dag.relation[c]].astype(np.float64) + scores.ends[wiring.child_slot[c]]
    if wiring.parent_slot[c] >= 0:
        table = table + scores.ends[wiring.parent_slot[c]]
    indptr, indices, values = wiring.pair_rows
    if len(indptr):
        here = slice(indptr[c], indptr[c + 1])
        table = table + (values[here] @ scores.rows[indices[here]].astype(np.float64)).reshape(n_labels, n_labels)
    return special.softmax(table, axis=1)


def sampled(sample: Any, scores: Any, alpha: Any, known: Any, span: LabelledSpan, continues: Any, rng: Any) -> float:
    """The share of drawn labellings of the document in which the very entity is there."""
    wiring, n_labels = sample.wired.wirings[0], len(scores.start)
    dag = wiring.dag
    group = int(np.searchsorted(dag.group_starts, span.first, side="right")) - 1
    first, size = int(dag.group_starts[group]), int(dag.group_starts[group + 1] - dag.group_starts[group])
    drawn = np.zeros((size, SAMPLES), np.int64)
    last = span.first + len(span.labels) + span.follower
    for k in dag.order[first : first + size].tolist():
        if k >= last:
            continue  # behind the entity: nobody of it looks there
        table = np.zeros((SAMPLES, n_labels))
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            parent = dag.parent[c]
            if parent < 0:
                table += alpha[c] * known.predicted[c]
            else:
                table += alpha[c] * conditional(wiring, scores, c, n_labels)[drawn[parent - first]]
        drawn[k - first] = (table.cumsum(axis=1) < rng.random((SAMPLES, 1))).sum(axis=1).clip(max=n_labels - 1)
    at = span.first - first
    there = (drawn[at : at + len(span.labels)] == np.asarray(span.labels)[:, None]).all(axis=0)
    if span.follower:
        there &= ~continues[span.labels[-1]][drawn[at + len(span.labels)]]
    return float(there.mean())


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    train, *tests = (kf.read_conll(folder() / f"eng.{name}") for name in ("train", "testa", "testb"))
    model, rng = kf.MixtureTagger().fit(train), np.random.default_rng(0)
    decoder = model._decoder()
    for part, corpus in zip(("testa", "testb"), tests, strict=True):
        batch = Batch.of(corpus)
        path = decoder.paths(batch, False)
        continues, ends = schemes.continuations(decoder.coding.classes.names), {*corpus.sentence_starts.tolist()}
        spans = [
            LabelledSpan(one.start, path[one.start : one.end], one.end not in ends)
            for one in found_spans(batch, decoder.coding, path)
        ]
        ((direction, sample),) = decoder.samples(batch)
        wirings, scores = sample.wired.wirings, sample.scores(direction.weights, decoder.n_jobs)
        alphas = sample.alphas(direction.weights.gate)
        (known,) = beliefs(wirings, scores, alphas, None, decoder.n_jobs)
        exact, rough = (
            mixture_span_probabilities(wirings[0], scores, alphas[0], known, spans, continues, **more)
            for more in ({}, {"work": 0})
        )
        missed = np.abs(exact.values - rough.values)[exact.exact & ~rough.exact]
        hard = np.flatnonzero(~exact.exact).tolist()
        drawn = np.array([sampled(sample, scores, alphas[0], known, spans[i], continues, rng) for i in hard])
        off = np.abs(drawn - exact.values[hard])
        row = {
            "part": part, "entities": len(spans), "approximated": len(hard),
            "of exact ones": {
                "compared": len(missed), "mean": round(float(missed.mean()), 4),
                "99 of 100 within": round(float(np.quantile(missed, 0.99)), 4), "most": round(float(missed.max()), 4),
            },
            "of approximated ones": {
                "mean": round(float(off.sum() / max(len(hard), 1)), 4), "most": round(float(off.max(initial=0)), 4),
                "noise": round(float(np.sqrt(drawn * (1 - drawn) / SAMPLES).max(initial=0)), 4),
            },
        }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
