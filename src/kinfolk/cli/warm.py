"""`kinfolk warm`: compile the kernels of all models now, so that no later process has to.

Kernels are compiled for the types they are called with, so every public model is trained on small generated data and
asked for answers. numba compiles one kernel at a time in a process: with two cores two processes share the models.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from kinfolk.cli.options import examples
from kinfolk.cli.output import show, show_json

WARM = examples("kinfolk warm", "kinfolk warm --json")
LOOSE: dict[str, Any] = {"n_jobs": 1, "tolerance": 0.1}
BLOCKING = ["key(postcode)", "key(surname)", "sorted(surname + given_name, 5)"]


# -- What is run: each a model with data of its own, by name ------------------------------------------------


def _tagger(make: Callable[[Any], Any]) -> Callable[[], None]:
    def use() -> None:
        import kinfolk as kf

        corpus = kf.generate_newswire(6)
        model = make(kf).fit(corpus)
        model.predict(corpus)
        model.predict(corpus, forced=True)
        model.predict_proba(corpus)
        model.predict_entities(corpus)
        model.explain(corpus, document=0, token=0)
        if hasattr(model, "predict_k_best"):
            model.predict_k_best(corpus, 2)

    return use


def _nodes(make: Callable[[Any], Any]) -> Callable[[], None]:
    def use() -> None:
        import kinfolk as kf

        graph = kf.generate_citations(60, seed=1)
        model = make(kf).fit(graph)
        model.predict(graph)
        model.predict_proba(graph)

    return use


def _reading() -> None:
    import io

    import kinfolk as kf

    kf.read_conll(io.BytesIO(b"Kim NNP B-PER\nleft VBD O\n"))


def _records() -> None:
    import kinfolk as kf

    people = kf.generate_customers(120, seed=1)
    linker = kf.Linker(blocking=BLOCKING, n_jobs=1).fit(people)
    linker.predict(people)
    linker.evaluate(people)
    kf.Linker(blocking=BLOCKING, n_jobs=1).fit(people.take(range(60))).predict(people)


def _logistic(kf: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


# Models that share kernels are in one list, or far from each other in the two: each process compiles what it needs.
LISTS: tuple[dict[str, Callable[[], None]], ...] = (
    {
        "column files": _reading,
        "LinearChainCRF": _tagger(lambda kf: kf.LinearChainCRF(templates="document", **LOOSE)),
        "MEMM": _tagger(lambda kf: kf.MEMM(**LOOSE)),
        "MaxEnt": _tagger(lambda kf: kf.MaxEnt(**LOOSE)),
        "SkipChainCRF": _tagger(lambda kf: kf.SkipChainCRF(n_jobs=1, tolerance=0.3)),
        "StackedTagger": _tagger(lambda kf: kf.StackedTagger(kf.LinearChainCRF(**LOOSE), folds=3, n_jobs=1)),
    },
    {
        "Linker": _records,
        "DependencyNetwork": _nodes(lambda kf: kf.DependencyNetwork(_logistic(kf), sweeps=5, burn_in=2, n_jobs=1)),
        "StackedNodes": _nodes(lambda kf: kf.StackedNodes(effort="fast", n_jobs=1)),
        "StackedNodes, levels": _nodes(lambda kf: kf.StackedNodes(_logistic(kf), depth=1, folds=3, n_jobs=1)),
        "LinkModel": _nodes(lambda kf: kf.LinkModel(**LOOSE)),
        "MixtureNodes": _nodes(lambda kf: kf.MixtureNodes(orders=2, predict_orders=2, **LOOSE)),
        "MixtureTagger": _tagger(lambda kf: kf.MixtureTagger(**LOOSE)),
    },
)


def use(names: Sequence[str]) -> dict[str, Any]:
    """Run models by name; what has become of the kernels."""
    from kinfolk.core.kernels import warmth

    log = logging.getLogger("kinfolk")
    level = log.level
    log.setLevel(logging.ERROR)  # what models say of six documents is of no matter
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for models in LISTS:
                for name, run in models.items():
                    if name in names:
                        run()
    finally:
        log.setLevel(level)
    return warmth()._asdict()


def warmed(processes: int) -> dict[str, Any]:
    """The same of all models, in as many processes (1 or 2), joined."""
    if processes < 2:
        return use([name for models in LISTS for name in models])
    started = [
        subprocess.Popen([sys.executable, "-m", "kinfolk.cli.warm", *models], stdout=subprocess.PIPE)
        for models in LISTS
    ]
    said = [one.communicate()[0] for one in started]
    if any(one.returncode for one in started):  # the fault is on standard error; one process tells it best
        return use([name for models in LISTS for name in models])
    found = [json.loads(text) for text in said]
    both = {key: {name for one in found for name in one[key]} for key in found[0]}
    used = {name.partition("(")[0] for name in both["compiled"] | both["loaded"]}
    both["loaded"] -= both["compiled"]  # one compiled what the other then found
    both["unused"] -= used
    return {key: sorted(names) for key, names in both.items()}


# -- cli --------------------------------------------------------------------------------------------------

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=WARM)
def warm(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, max=2, help="Processes that compile. Default: 2, or 1 on one core.")
    ] = None,
) -> None:
    """Compile the kernels of all models now, so that no later run has to.

    Every model is trained on small generated data. Kernels that are there are loaded, so a second call takes seconds.
    They are kept in NUMBA_CACHE_DIR, else beside the sources, else in the user's folder for caches. Exit status 2 if
    they could not be kept.
    """
    from kinfolk.core.threads import resolve_jobs
    from kinfolk.errors import InputError

    began = time.perf_counter()
    found = warmed(min(2, resolve_jobs(-1)) if processes is None else processes)
    seconds = time.perf_counter() - began
    folder = os.path.commonpath(found["folders"]) if found["folders"] else None
    counts = {key: len(found[key]) for key in ("compiled", "loaded", "not_kept")}
    if as_json:
        show_json({**counts, "seconds": round(seconds, 2), "folder": folder})
    else:
        lines = [f"{counts['compiled']} kernels compiled, {counts['loaded']} were there; {seconds:.1f} s"]
        show([*lines, f"kept in {folder}" if folder else "kept nowhere"])
    if found["not_kept"]:
        raise InputError(
            f"{counts['not_kept']} compiled kernels could not be kept, and every run will compile them again; let "
            "NUMBA_CACHE_DIR name a folder that can be written to"
        )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(use(sys.argv[1:])))
