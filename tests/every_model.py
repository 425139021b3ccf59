"""Every public model with small data that it learns in a moment: what the battery of `contract/` goes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import kinfolk as kf

LOOSE: dict[str, Any] = {"n_jobs": 1, "tolerance": 0.01}
CORPUS = kf.generate_newswire(6)
PEOPLE = kf.generate_customers(80, seed=1)
BLOCKING = ["key(postcode)", "key(surname)", "key(given_name)", "key(date_of_birth)"]


def small_graph() -> kf.Graph:
    rng = np.random.default_rng(0)
    kinds = np.arange(36) % 3
    near = (rng.random((36, 36)) < 0.15) & (kinds[:, None] == kinds) & ~np.eye(36, dtype=bool)
    return kf.Graph(
        np.eye(3)[kinds] + rng.normal(0, 0.5, (36, 3)), ["abc"[i] for i in kinds], {"near": np.argwhere(near)}
    )


GRAPH = small_graph()
NUMBERED = kf.Graph(
    GRAPH.features, (3 * np.asarray(GRAPH.features)[:, 0] + GRAPH.label_codes).tolist(), dict(GRAPH.relations)
)

# name (what follows a comma says which kind) -> a new model, and data to train it on
MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "MaxEnt": (lambda: kf.MaxEnt(**LOOSE), CORPUS),
    "MEMM": (lambda: kf.MEMM(**LOOSE), CORPUS),
    "LinearChainCRF": (lambda: kf.LinearChainCRF(**LOOSE), CORPUS),
    "SkipChainCRF": (lambda: kf.SkipChainCRF(n_jobs=1, tolerance=0.3), CORPUS),
    "MixtureTagger": (lambda: kf.MixtureTagger(**LOOSE), CORPUS),
    "StackedTagger": (lambda: kf.StackedTagger(kf.LinearChainCRF(**LOOSE), folds=3, n_jobs=1), CORPUS),
    "MixtureNodes": (lambda: kf.MixtureNodes(orders=2, predict_orders=2, **LOOSE), GRAPH),
    "LinkModel": (lambda: kf.LinkModel(**LOOSE), GRAPH),
    "StackedNodes": (lambda: kf.StackedNodes(effort="fast", n_jobs=1), GRAPH),
    "StackedNodes, levels": (lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=3, n_jobs=1), GRAPH),
    "DependencyNetwork": (lambda: kf.DependencyNetwork(LogisticRegression(), sweeps=5, burn_in=2, n_jobs=1), GRAPH),
    "NodeRegressor": (lambda: kf.NodeRegressor(effort="fast", n_jobs=1), NUMBERED),
    "MultiLabelNodes": (lambda: kf.MultiLabelNodes(effort="fast", n_jobs=1), GRAPH),
    "Linker": (lambda: kf.Linker(blocking=BLOCKING, n_jobs=1), PEOPLE),
}
