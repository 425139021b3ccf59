"""What taggers gain by looking beyond the sentence, cross-fitted by document."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from conlleval_oracle import count
from kinfolk.errors import GainWarning
from kinfolk.text.attributes import lower
from kinfolk.text.batch import Batch
from kinfolk.text.gain import document_counts

LOOSE: dict[str, Any] = {"templates": [lower.window(-1, 1)], "tolerance": 0.02, "n_jobs": 1}
MODELS: dict[str, Any] = {
    "MixtureTagger": lambda: kf.MixtureTagger(training="separate", guard=2, **LOOSE),
    "SkipChainCRF": lambda: kf.SkipChainCRF(guard=3, held_out=0.5, tolerance=0.01, n_jobs=1),
    "StackedTagger": lambda: kf.StackedTagger(kf.LinearChainCRF(**LOOSE), folds=3, guard=True, n_jobs=1),
}
NEWS = kf.generate_newswire(30)
EACH = pytest.mark.parametrize("name", MODELS)


def five_before(document: kf.Corpus) -> np.ndarray:
    """Edges that mean nothing."""
    later = np.arange(5, document.n_tokens)
    return np.stack([later, later - 5], axis=1)


@EACH
def test_in_documents_the_gain_is_above_0(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error", GainWarning)
        gain = MODELS[name]().fit(NEWS).gain_
    assert gain.beats and (gain.metric, gain.unit, gain.n) == ("entity F1", "documents", 30)


@pytest.mark.parametrize("name", ["MixtureTagger", "SkipChainCRF"])
def test_where_edges_mean_nothing_it_warns_and_names_the_local_model(name: str):
    with pytest.warns(GainWarning, match=rf"^{name} (is|answers) .* its local model.*: entity F1 .* is .*"):
        gain = MODELS[name]().set_params(skip_edges=five_before).fit(NEWS).gain_
    assert gain.lower <= 0


@pytest.mark.parametrize("name", ["MixtureTagger", "SkipChainCRF"])
def test_without_skip_edges_there_is_nothing_to_measure_and_that_is_said(name: str):
    with pytest.warns(GainWarning, match="^`guard=[23]` has nothing to compare: there are no skip edges$"):
        assert MODELS[name]().set_params(skip_edges=None).fit(NEWS).gain_ is None


@pytest.mark.parametrize("decode", ["posterior", "map"])
def test_the_local_model_of_a_skip_chain_is_its_chain_decoded_alike_so_that_decoding_is_no_gain(decode: str):
    local = MODELS["SkipChainCRF"]().set_params(l2=0.7, decode=decode)._local()
    assert type(local) is kf.SkipChainCRF and local.skip_edges is None and local.guard is None
    assert (local.l2, local.tolerance, local.decode) == (0.7, 0.01, decode)


def test_documents_in_another_order_gain_the_same():
    order = np.random.default_rng(5).permutation(NEWS.n_documents)
    one, other = (MODELS["MixtureTagger"]().fit(data).gain_ for data in (NEWS, NEWS.select(order)))
    assert (one.local, one.collective, one.lower) == pytest.approx((other.local, other.collective, other.lower), abs=2)


def test_counts_of_documents_add_up_to_those_of_conlleval():
    model = kf.LinearChainCRF(**LOOSE).fit(NEWS.select(range(4)))
    path = model._decoder().paths(Batch.of(NEWS), forced=False)
    found = document_counts(model.coding_, NEWS, path)
    assert found.shape == (30, 2)
    truth = count(NEWS.label_rows(), model.predict(NEWS))
    assert found.sum(axis=0).tolist() == [2 * truth.correct.total(), truth.gold.total() + truth.predicted.total()]


def test_labels_that_are_no_spans_are_scored_by_tokens():
    words, labels = NEWS.rows(), [["cap" if w[:1].isupper() else "low" for w in row] for row in NEWS.rows()]
    corpus = kf.Corpus.from_sentences(words, labels, [document.n_sentences for document in NEWS], scheme=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GainWarning)
        gain = MODELS["MixtureTagger"]().fit(corpus, sample_weight=np.ones(len(words))).gain_
    assert gain.metric == "accuracy" and gain.collective > 90
