"""Model files written by version 0.1 before its modules were moved, and the answers they gave then.

`models.tar.xz` holds a file of every model and, for nodes, of every kind of base, the data they were asked about, and
their probabilities to six digits. Old files keep loading and keep their answers.
"""

from __future__ import annotations

import json
import tarfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf

ARCHIVE = Path(__file__).with_name("models.tar.xz")
with tarfile.open(ARCHIVE) as archive:
    ANSWERS: dict[str, Any] = json.loads(archive.extractfile("answers.json").read())  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("net")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(found, filter="data")
    return found


@cache
def asked(folder: Path, task: str) -> Any:
    """What the models of a task were asked about."""
    if task == "nodes":
        parts = np.load(folder / "graph.npz")
        relations = {name[2:]: parts[name] for name in parts.files if name.startswith("r_")}
        return kf.Graph(parts["features"], parts["labels"], relations, ids=[f"p{i}" for i in range(60)])
    if task == "records":
        return kf.read_records(folder / "customers.csv", cluster="entity")
    corpus = kf.read_conll(folder / "test.conll")
    if task == "tokens":
        return corpus
    words, starts = corpus.columns["word"], corpus.sentence_starts
    sentences = [[words.values[k] for k in words.codes[a:b]] for a, b in pairwise(starts)]
    return [[{"w": word.lower(), "cap": word[:1].isupper()} for word in sentence] for sentence in sentences]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of what scikit-learn is to change
@pytest.mark.parametrize("name", ANSWERS)
def test_old_files_load_and_answer_as_before(name: str, folder: Path):
    answers, told = np.load(folder / "answers.npz"), ANSWERS[name]
    model, data = kf.load_model(folder / f"{name}.kinfolk"), asked(folder, told["task"])
    model.set_params(n_jobs=1)
    found = model.predict_proba(data)
    table = np.concatenate([np.asarray(part) for part in found]) if isinstance(found, list) else np.asarray(found)
    np.testing.assert_allclose(table, answers[name], atol=1.5e-6)
    if told["task"] == "nodes":
        np.testing.assert_allclose(model.predict_proba(data, known="none"), answers[f"{name}/none"], atol=1.5e-6)
    labels = model.predict(data)
    as_told = (
        [list(map(str, part)) for part in labels]
        if isinstance(found, list)
        else [*map(type(told["labels"][0]), labels)]
    )
    assert as_told == told["labels"]
