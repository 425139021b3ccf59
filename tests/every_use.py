"""What users do first, with other data and settings than `kinfolk warm` has; prints which kernels that took, as JSON.

Run as a process of its own, whose kernels are those of these uses alone.
"""

from __future__ import annotations

import contextlib
import csv
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import kinfolk as kf
from every_model import BLOCKING, CORPUS, MODELS, PEOPLE
from kinfolk.cli import demo
from kinfolk.cli.main import app
from kinfolk.core.kernels import warmth


def models() -> None:
    for make, data in MODELS.values():
        model = make().fit(data)
        model.predict(data)
        if hasattr(model, "predict_proba"):
            model.predict_proba(data)


def write(path: str, head: list[str], rows: list[list[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])


def commands() -> None:
    kf.write_conll(CORPUS, "train.conll")
    people = kf.generate_customers(80, seed=3)
    names = ["given_name", "surname", "postcode", "date_of_birth"]
    rows = zip(people.clusters, *(people.columns[name].strings() for name in names), strict=True)
    write("people.csv", ["id", "entity", *names], [[i, *row] for i, row in enumerate(rows)])
    write("nodes.csv", ["id", "title", "topic"], [[f"n{i}", f"{'ab'[i % 2]} {i % 5}", "xy"[i % 2]] for i in range(40)])
    write("edges.csv", ["source", "target"], [[f"n{i}", f"n{(i + 2) % 40}"] for i in range(40)])
    blocks = [word for rule in BLOCKING for word in ("--block", rule)]
    tagger = ["tokens", "train", "--train", "train.conll", "--tolerance", "0.3", "--jobs", "1"]
    of_graph = ["--nodes", "nodes.csv", "--edges", "edges.csv"]
    for words in (
        [*tagger, "--out", "crf.kinfolk"],
        [*tagger, "--model", "mop", "--mixing", "learned", "--out", "mop.kinfolk"],
        ["tokens", "tag", "crf.kinfolk", "train.conll", "-o", "tagged.conll"],
        ["tokens", "evaluate", "mop.kinfolk", "train.conll"],
        ["explain", "mop.kinfolk", "train.conll", "--document", "0"],
        ["nodes", "train", *of_graph, "--label", "topic", "--text", "title", "--model", "stacked", "--depth", "1",
         "--out", "nodes.kinfolk"],
        ["nodes", "predict", "nodes.kinfolk", *of_graph, "-o", "topics.csv"],
        ["records", "train", "--records", "people.csv", "--cluster", "entity", *blocks, "--out", "records.kinfolk"],
        ["records", "cluster", "records.kinfolk", "--records", "people.csv", "-o", "clusters.csv"],
    ):  # fmt: skip
        app(words, prog_name="kinfolk", standalone_mode=False)


def worlds() -> None:
    for world in demo.WORLDS.values():
        world(1, demo.TINY, lambda text: None)


def rankings() -> None:
    kf.Linker(blocking=BLOCKING, training="ranking", n_jobs=1).fit(PEOPLE).predict(PEOPLE)


USES: tuple[Callable[[], None], ...] = (models, commands, worlds, rankings)


def kernels_used() -> dict[str, Any]:
    logging.getLogger("kinfolk").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            for use in USES:
                use()
    return warmth()._asdict()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(kernels_used()))
