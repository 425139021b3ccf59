"""What is tried with model files: every class and base there is, changed by `forge`, loaded and asked.

A file is refused when it is loaded, by a ModelFileError that names it, or it answers: finite numbers, or an error of
kinfolk's own.
"""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from forge import Forged, other_skops
from scipy import sparse
from tries import Target, Wrong

import kinfolk as kf
from kinfolk.errors import KinfolkError, ModelFileError

NET = Path(__file__).parents[1] / "net" / "models.tar.xz"
Ask = Callable[[Any], None]


def targets_of(files: Iterable[tuple[str, Path, Ask]]) -> list[Target]:
    return [Target(f"model {name}", _attempt(Forged.of(path), ask)) for name, path, ask in files]


def _attempt(seed: Forged, ask: Ask) -> Callable[[Random, Path], None]:
    def attempt(rng: Random, folder: Path) -> None:
        path = folder / "forged.kinfolk"
        path.write_bytes(seed.changed(rng).bytes())
        loaded_and_asked(path, ask)

    return attempt


def loaded_and_asked(path: Path, ask: Ask) -> None:
    """Raise unless the file is refused or answers as it should."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = kf.load_model(path)
        except ModelFileError as error:
            if str(path) not in str(error):
                raise Wrong(f"a message without the file: {error}") from None
            return
        try:
            ask(model)
        except KinfolkError:
            return


def check(answer: Any, least: float = -np.inf) -> None:
    tables = answer if isinstance(answer, list) else [answer]
    for table in tables:
        numbers = np.asarray(table.toarray() if sparse.issparse(table) else table)
        if numbers.dtype.kind == "f" and not (np.isfinite(numbers).all() and (numbers >= least - 1e-9).all()):
            raise Wrong(f"an answer with {numbers[~np.isfinite(numbers)][:3]} in it")


# -- what a model is asked --------------------------------------------------------------------------------


def about(data: Any) -> Ask:
    """Labels and probabilities, of tokens entities too, and why."""

    def ask(model: Any) -> None:
        at_most(model, 20)
        check(model.predict_proba(data) if hasattr(model, "predict_proba") else model.predict(data, known="none"))
        answer = model.predict(data)
        if isinstance(answer, np.ndarray):
            check(answer)
        if hasattr(model, "predict_entities") and isinstance(data, kf.Corpus):
            model.predict_entities(data)
            str(model.explain(data, document=0, token=0))
        repr(model)

    return ask


def at_most(model: Any, times: int) -> None:
    """What a setting may be it may be; that it then takes its time is no fault."""
    if model.n_jobs is not None and model.n_jobs > 2:
        model.set_params(n_jobs=2)
    for name in ("sweeps", "burn_in", "chains", "predict_orders", "samples", "max_rounds"):
        if hasattr(model, name):
            model.set_params(**{name: min(getattr(model, name), times)})


def about_given(data: Any, tables: Any) -> Ask:
    """A layer, over probabilities that are given."""

    def ask(model: Any) -> None:
        check(model.predict_proba(data, tables))
        model.predict(data, tables)

    return ask


# -- files of every class and base --------------------------------------------------------------------------


def net_files(folder: Path) -> list[tuple[str, Path, Ask]]:
    """Those that `tests/net` holds: a file of every class and base of version 0.1."""
    with tarfile.open(NET) as archive:
        archive.extractall(folder, filter="data")
    parts = np.load(folder / "graph.npz")
    relations = {name[2:]: parts[name] for name in parts.files if name.startswith("r_")}
    graph = kf.Graph(parts["features"], parts["labels"], relations, ids=[f"p{i}" for i in range(60)])
    corpus = kf.read_conll(folder / "test.conll")
    words, starts = corpus.columns["word"], corpus.sentence_starts
    sentences = [[words.values[k] for k in words.codes[a:b]] for a, b in pairwise(starts)]
    dicts = [[{"w": word.lower(), "cap": word[:1].isupper()} for word in sentence] for sentence in sentences]
    records = kf.read_records(folder / "customers.csv", cluster="entity")
    tasks = {"crf-dicts": dicts, "linker": records, "linker-structured": records}
    tokens = ("crf", "maxent", "memm", "mixture-tokens", "skip-chain", "stacked-tokens")
    data = lambda name: tasks[name] if name in tasks else corpus if name in tokens else graph  # noqa: E731
    return [(path.stem, path, about(data(path.stem))) for path in sorted(folder.glob("*.kinfolk"))]


def new_files(folder: Path, names: Iterable[str]) -> list[tuple[str, Path, Ask]]:
    """Those of the models of `tests/every_model.py`, trained here."""
    from every_model import MODELS

    found = []
    for name in names:
        new, data = MODELS[name]
        path = folder / f"new {name}.kinfolk"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new().fit(data).save(path)
        found.append((f"new {name}", path, about(data)))
    return found


def layer_files(folder: Path) -> list[tuple[str, Path, Ask]]:
    from every_model import CORPUS

    rng, classes = np.random.default_rng(0), sorted(set(CORPUS.labels.values))
    codes = [[classes.index(label) for label in row] for row in CORPUS.label_rows()]
    tables = [0.7 * np.eye(len(classes))[row] + 0.3 * rng.dirichlet(np.ones(len(classes)), len(row)) for row in codes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = kf.TokenLayer(features=False, n_jobs=1).fit(CORPUS, tables, classes=classes)
    layer.save(path := folder / "layer.kinfolk")
    return [("layer", path, about_given(CORPUS, tables))]


# -- trained estimators of scikit-learn by themselves: many more of them than models hold --------------------


def estimator_targets() -> list[Target]:
    """Those of `tests/graph/test_forged_estimators.py`."""
    from skops.io import dumps
    from test_forged_estimators import KNOWN, LABELS, ROWS

    found = []
    for base in KNOWN:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name, data = type(base).__name__, dumps(base.fit(ROWS, LABELS))
        if name == "Pipeline":
            name += f" of {type(base.steps[0][1]).__name__}"
        found.append(Target(f"estimator {name}", _estimator_attempt(data, ROWS)))
    return found


def _estimator_attempt(data: bytes, rows: Any) -> Callable[[Random, Path], None]:
    def attempt(rng: Random, folder: Path) -> None:
        forged = data
        for _ in range(rng.choice((1, 1, 2, 3))):
            forged = other_skops(forged, rng)
        estimator_asked(forged, rows)

    return attempt


def estimator_asked(data: bytes, rows: Any) -> None:
    from kinfolk.graph.learners import Learner, built, predict_in_blocks

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            estimator = built(data, ())
        except ModelFileError:
            return
        columns = np.arange(3)
        try:
            if not np.array_equal(np.asarray(getattr(estimator, "classes_", columns)), columns):
                return
        except Exception:  # as when a model is loaded
            return
        try:
            check(predict_in_blocks(Learner.restored(estimator, columns, 3), rows, np.arange(len(rows)), None, 1), 0.0)
        except KinfolkError:
            return
