"""One fresh process of kinfolk: read, features, load, train, tag; answers with one JSON object.

python run_kinfolk.py '{"folder": ..., "settings": {...}, "tag": true}'
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

from measure import Stopwatch, entity_f1, request, timed_tagging

BEGAN = time.perf_counter()

from kinfolk import Corpus, LinearChainCRF, load_model, read_conll  # noqa: E402
from kinfolk.core.training import Progress  # noqa: E402
from kinfolk.errors import ConvergenceWarning  # noqa: E402
from kinfolk.text.extraction import TokenFeatures  # noqa: E402

IMPORTED = time.perf_counter() - BEGAN


def main(folder: Path, settings: dict[str, Any], tag: bool) -> dict[str, Any]:
    watch = Stopwatch()
    watch.seconds["import"] = IMPORTED
    with watch.stage("read"):
        corpus = read_conll(folder / "train.txt")
    model, history = LinearChainCRF(**settings), []
    _time_features(watch)

    def note(progress: Progress) -> None:
        if progress.stage == "optimise":
            history.append((progress.seconds, progress.objective))

    with watch.stage("fit"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is reported
        model.fit(corpus, callback=note)
    fit, ended = watch.seconds.pop("fit"), model.convergence_
    watch.seconds["train"] = ended.seconds
    watch.seconds["load"] = fit - ended.seconds - watch.seconds["features"]
    answer = {
        "objective": ended.objective, "status": ended.status, "iterations": ended.iterations,
        "history": history, "features": model.features_.n_features,
    }  # fmt: skip
    if tag:
        answer |= _tagged(model, corpus, folder, watch)
    return answer | {"seconds": dict(watch.seconds)}


def _time_features(watch: Stopwatch) -> None:
    """Let the time of `TokenFeatures.learn`, which `fit` calls, count as a stage of its own."""
    learn = TokenFeatures.learn

    def timed(self: TokenFeatures, corpus: Corpus, n_jobs: int = 1) -> Any:
        with watch.stage("features"):
            return learn(self, corpus, n_jobs)

    TokenFeatures.learn = timed  # type: ignore[method-assign]


def _tagged(model: LinearChainCRF, corpus: Corpus, folder: Path, watch: Stopwatch) -> dict[str, Any]:
    """Save, load, tag: the peak of memory is of all that, the score is counted after it."""
    file = folder / "kinfolk.model"
    with watch.stage("save"):
        model.save(file)
    n_jobs = model.n_jobs
    del model, corpus
    loaded = load_model(file)
    loaded.set_params(n_jobs=n_jobs)
    test = read_conll(folder / "test.txt")
    figures, predicted = timed_tagging(lambda: loaded.predict(test), test.n_tokens)
    return {**figures, "f1": entity_f1(folder / "test.txt", predicted)}


if __name__ == "__main__":
    print(json.dumps(main(**request())))
