"""Training that was stopped goes on: every model with a checkpoint ends as one that was never stopped, bit by bit."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from every_model import BLOCKING, GRAPH, LOOSE, MODELS, PEOPLE
from kinfolk.core.modelfile import read_model_file
from kinfolk.errors import CheckpointError, CheckpointWarning, SettingError
from kinfolk.text.attributes import shape
from kinfolk.text.crfsuite import CRF
from stopped import Killed, after_kills, killed_after, number_of_writes, same_state

CORPUS = kf.generate_newswire(6)
FEW = PEOPLE.take(range(50))


class Own(LogisticRegression):
    """A type that a file is not trusted with."""


GOES_ON: dict[str, tuple[Callable[[], Any], Any]] = {
    **MODELS,
    **{name: (MODELS[name][0], CORPUS[:3]) for name in ("SkipChainCRF", "StackedTagger")},  # take longest
    "Linker": (MODELS["Linker"][0], FEW),
    "passes that do not do": (lambda: kf.LinearChainCRF(templates=[shape[0]], n_jobs=1, tolerance="early"), CORPUS),
    "l1": (lambda: kf.LinearChainCRF(l1=0.1, n_jobs=1, tolerance=0.03), CORPUS),
    "calibrated": (lambda: kf.MEMM(calibrate=True, **LOOSE), CORPUS),
    "guarded": (lambda: kf.MixtureTagger(guard=2, n_jobs=1, tolerance=0.1), CORPUS[:3]),
    "gated": (lambda: kf.MixtureTagger(mixing="learned", training="crossfit", gate_folds=2, **LOOSE), CORPUS[:3]),
    "all of a skip chain": (
        lambda: kf.SkipChainCRF(update="all", held_out=0.0, n_jobs=1, tolerance=0.1, message_tolerance=1e-3), CORPUS,
    ),
    "learned gate of nodes": (lambda: kf.MixtureNodes(mixing="learned", gate_folds=2, orders=2, **LOOSE), GRAPH),
    "guarded links": (lambda: kf.LinkModel(guard=2, n_jobs=1, tolerance=0.1), GRAPH),
    "a pool of a base": (lambda: kf.StackedNodes(LogisticRegression(), effort="fast", n_jobs=1), GRAPH),
    "a pool in threads": (lambda: kf.StackedNodes(effort="fast", n_jobs=2, guard=True), GRAPH),
    "levels in threads": (lambda: kf.StackedNodes(Own(), depth=1, folds=3, n_jobs=2, guard=True), GRAPH),
    "a guarded linker": (lambda: kf.Linker(blocking=BLOCKING, rounds=1, guard=2, n_jobs=1), FEW),
    "a linker that ranks": (lambda: kf.Linker(blocking=BLOCKING, training="combined", n_jobs=1), FEW),
    "a stack that chooses": (lambda: kf.StackedTagger(kf.MEMM(**LOOSE), depth=None, folds=2, n_jobs=1), CORPUS[:4]),
    "a guarded stack": (lambda: kf.StackedTagger(kf.MaxEnt(**LOOSE), folds=3, guard=True, calibrate=True), CORPUS[:3]),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES_ON)
@pytest.mark.filterwarnings("ignore::kinfolk.errors.GainWarning", "ignore::kinfolk.errors.ConvergenceWarning")
def test_a_run_that_was_stopped_ends_with_the_same_model(name: str, tmp_path: Path):
    make, data = GOES_ON[name]
    loose = {key: 0.1 for key, value in make().get_params().items() if key.endswith("tolerance") and value == 0.01}

    def fit(path: Path | None) -> Any:
        return make().set_params(**loose).fit(data, checkpoint=path)

    undisturbed = fit(None)
    n = number_of_writes(fit, tmp_path / "count.kinfolk-run")
    assert n >= 3
    # Where two end at once, they have one state in the place of two: so at each kill in threads.
    last = [n - 1 - n // 2, 1] if "threads" not in name else [n - 3 - n // 2]
    for i, kills in enumerate([[1, n // 3], [n // 2, *(max(1, writes) for writes in last)]]):
        path = tmp_path / f"{i}.kinfolk-run"
        assert same_state(after_kills(fit, path, kills), undisturbed), kills
        with killed_after(1):  # nothing is left to do, nor to be written
            assert same_state(fit(path), undisturbed)
    assert not [file for file in os.listdir(tmp_path) if file.endswith(".tmp")]


def layer_of_tokens(path: Path | None) -> Any:
    corpus = CORPUS[:4]
    rows = np.random.default_rng(0).dirichlet(np.ones(len(corpus.labels.values)), corpus.n_tokens)
    layer = kf.TokenLayer(folds=2, n_jobs=1, mixture=True)
    return layer.fit(corpus, rows, classes=list(corpus.labels.values), checkpoint=path)


def layer_of_nodes(path: Path | None) -> Any:
    rows = np.random.default_rng(0).dirichlet(np.ones(3), GRAPH.n_nodes)
    return kf.NodeLayer(folds=2, n_jobs=1).fit(GRAPH, rows, classes=list("abc"), checkpoint=path)


def as_in_crfsuite(path: Path | None) -> Any:
    rows = [[{"word": word} for word in sentence] for sentence in CORPUS.rows()]
    return CRF(max_iterations=20, n_jobs=1).fit(rows, CORPUS.label_rows(), checkpoint=path)


@pytest.mark.parametrize("fit", [layer_of_tokens, layer_of_nodes, as_in_crfsuite])
@pytest.mark.filterwarnings("ignore::kinfolk.errors.ConvergenceWarning", "ignore::kinfolk.errors.DataWarning")
def test_layers_and_the_face_of_crfsuite_go_on(fit: Any, tmp_path: Path):
    undisturbed, n = fit(None), number_of_writes(fit, tmp_path / "count")
    for kills in ([n // 2], [2, n // 4]):
        assert same_state(after_kills(fit, tmp_path / f"run-{kills}", kills), undisturbed)


def test_held_out_data_stop_a_run_that_was_stopped_at_the_same_iteration(tmp_path: Path):
    train, dev = CORPUS[:4], CORPUS[4:]

    def fit(path: Path | None) -> Any:
        return kf.LinearChainCRF(n_jobs=1, dev_every=1, patience=3).fit(train, X_dev=dev, checkpoint=path)

    undisturbed = fit(None)
    assert undisturbed.convergence_.best_iteration is not None
    n = number_of_writes(fit, tmp_path / "count")
    for k in (n // 2, n - 2):
        found = after_kills(fit, tmp_path / f"{k}", [k])
        assert same_state(found, undisturbed)
        assert found.convergence_.dev_scores == undisturbed.convergence_.dev_scores


def test_other_threads_end_with_the_same_model(tmp_path: Path):
    path, jobs = tmp_path / "run", iter([1, 2, 2])

    def fit(path: Path) -> Any:
        return kf.LinearChainCRF(n_jobs=next(jobs), tolerance=0.01).fit(CORPUS, checkpoint=path)

    found = after_kills(fit, path, [9, 12])
    undisturbed = kf.LinearChainCRF(n_jobs=2, tolerance=0.01).fit(CORPUS)
    assert same_state(found, undisturbed)


def test_a_callback_that_stopped_training_has_stopped_it(tmp_path: Path):
    def stop(progress: kf.text.tagger.Any) -> bool:
        return bool(progress.stage == "previous" and progress.iteration == 2)

    def fit(path: Path | None) -> Any:
        return kf.MixtureTagger(**LOOSE).fit(CORPUS, callback=stop, checkpoint=path)

    assert same_state(after_kills(fit, tmp_path / "run", [20]), fit(None))


# -- what is refused ------------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The checkpoint of a run that was stopped."""
    path = tmp_path / "run.kinfolk-run"
    with killed_after(20), pytest.raises(Killed):
        kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=path)
    return path


def test_other_settings_are_refused(begun: Path):
    before = begun.read_bytes()
    with pytest.raises(CheckpointError, match=r"of other work: setting l2 was 0\.1, and is 0\.2: .*delete the file"):
        kf.MEMM(l2=0.2, **LOOSE).fit(CORPUS, checkpoint=begun)
    with pytest.raises(CheckpointError, match="class was MEMM, and is MaxEnt"):
        kf.MaxEnt(**LOOSE).fit(CORPUS, checkpoint=begun)
    assert begun.read_bytes() == before


def test_other_data_are_refused(begun: Path):
    message = "the data are not those it was begun with"
    with pytest.raises(CheckpointError, match=message):
        kf.MEMM(**LOOSE).fit(CORPUS[:5], checkpoint=begun)
    with pytest.raises(CheckpointError, match=message):
        kf.MEMM(**LOOSE).fit(CORPUS, sample_weight=np.full(CORPUS.n_sentences, 2.0), checkpoint=begun)
    with pytest.raises(CheckpointError, match=message):
        kf.MEMM(**LOOSE).fit(CORPUS, X_dev=CORPUS[:1], checkpoint=begun)


def test_another_version_is_refused(begun: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kinfolk.core.checkpoint.LIBRARY_VERSION", "9.9")
    with pytest.raises(CheckpointError, match=r"version kinfolk was .*, and is 9\.9"):
        kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=begun)


@pytest.mark.parametrize("place", [0, 7, 200, 0.3, 0.9, -1])
def test_a_damaged_checkpoint_is_told(begun: Path, place: float):
    whole = bytearray(begun.read_bytes())
    at = int(place * len(whole)) if isinstance(place, float) else place
    whole[at] ^= 1
    begun.write_bytes(whole)
    with pytest.raises(CheckpointError, match="delete the file to begin anew, or name another"):
        kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=begun)
    assert begun.read_bytes() == whole
    begun.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="delete the file"):
        kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=begun)


def test_a_model_file_is_no_checkpoint_and_stays(tmp_path: Path):
    path = tmp_path / "m.kinfolk"
    model = kf.MEMM(**LOOSE).fit(CORPUS)
    model.save(path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="a model file, not a checkpoint"):
        kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=path)
    assert path.read_bytes() == before


def test_a_checkpoint_is_no_model(begun: Path):
    with pytest.raises(kf.KinfolkError, match="'run' is not known"):
        kf.load_model(begun)
    assert read_model_file(begun).header["kind"] == "run"


def test_where_nothing_can_be_written_is_told_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kf.text.tagger.Batch, "learn", lambda *_: pytest.fail("features were extracted"))
    for path in (tmp_path / "no" / "run", tmp_path):
        with pytest.raises(CheckpointError, match=r"the checkpoint cannot be written: .*: "):
            kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=path)
    with pytest.raises(SettingError, match="checkpoint must be the path of a file, or None; got 3"):
        kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=3)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="rights do not hold for the superuser")
def test_a_folder_that_is_read_only_is_told_before_training(tmp_path: Path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(CheckpointError, match="the checkpoint cannot be written"):
            kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=tmp_path / "run")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_run_without_seed_cannot_go_on(tmp_path: Path):
    with pytest.raises(SettingError, match=r"random_state=.* must be a number for a run with a checkpoint; got None"):
        kf.MEMM(random_state=None, **LOOSE).fit(CORPUS, checkpoint=tmp_path / "run")
    stack = kf.StackedTagger(kf.MEMM(random_state=None, **LOOSE), folds=2)
    with pytest.raises(SettingError, match="a number for a run with a checkpoint"):
        stack.fit(CORPUS, checkpoint=tmp_path / "run")


def test_a_disk_that_is_full_on_the_way_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What was written before still stands; the model is trained."""
    path, written = tmp_path / "run", []

    def full(*_: Any) -> None:
        written.append(1)
        raise OSError(28, "No space left on device")

    with killed_after(20), pytest.raises(Killed):
        kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(CheckpointWarning, match="could not be written, and work goes on without: .*No space left"):
        found = kf.MEMM(**LOOSE).fit(CORPUS, checkpoint=path)
    assert written and path.read_bytes() == before and os.listdir(tmp_path) == ["run"]
    assert same_state(found, kf.MEMM(**LOOSE).fit(CORPUS))
