"""A model sent to another process: as the bytes of its model file."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.core.sending import Sent
from kinfolk.errors import NotFittedError


def sent(model: Any) -> Any:
    return pickle.loads(pickle.dumps(Sent(model))).model


def test_here_it_is_the_model_itself():
    model = kf.Linker()
    assert Sent(model).model is model


def test_there_it_answers_the_same_with_a_single_thread_and_is_read_once():
    items = kf.generate_customers(60, seed=1)
    linker = kf.Linker(blocking=["key(postcode)", "key(surname[:2])"], training="local", n_jobs=2).fit(items)
    one, again = (pickle.loads(pickle.dumps(Sent(linker))) for _ in range(2))
    assert one is again, "the same bytes are read once"
    assert one.model is not linker and one.model.n_jobs == 1 and linker.n_jobs == 2
    np.testing.assert_array_equal(one.model.predict(items), linker.predict(items))
    assert b"kinfolk.linking.linker" not in pickle.dumps(Sent(linker)), "the class is not pickled"


@pytest.mark.parametrize(
    "base", [CalibratedClassifierCV(LogisticRegression(), cv=2), ExtraTreesClassifier(5)], ids=repr
)
def test_types_of_a_model_at_hand_are_trusted(base: Any):
    graph = kf.generate_citations(80, seed=1)
    model = kf.StackedNodes(base, depth=1, n_jobs=1).fit(graph)
    np.testing.assert_array_equal(sent(model).predict(graph), model.predict(graph))


def test_its_bytes_are_made_once_however_often_it_travels(monkeypatch: pytest.MonkeyPatch):
    graph = kf.generate_citations(80, seed=1)
    one = Sent(kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1).fit(graph))
    saved: list[Any] = []
    whole = kf.StackedNodes.save
    monkeypatch.setattr(kf.StackedNodes, "save", lambda self, path: (saved.append(path), whole(self, path)))
    assert pickle.dumps(one) == pickle.dumps(one) and len(saved) == 1


def test_a_model_that_is_not_fitted_is_not_sent():
    with pytest.raises(NotFittedError):
        pickle.dumps(Sent(kf.Linker()))
