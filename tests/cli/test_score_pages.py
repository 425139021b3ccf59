"""`--report` of evaluate and train: a page beside what is printed, which stays the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

import kinfolk as kf
from kinfolk.text.conll import write_conll


def parts(page: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    return {part["kind"]: part["data"] for part in json.loads(found[1])["parts"]}


def test_tokens(kinfolk, tmp_path: Path):
    train, test = kf.newswire_split(6, 3)
    for name, corpus in (("train", train), ("test", test)):
        write_conll(corpus, tmp_path / f"{name}.conll")
    model, page = tmp_path / "m.kinfolk", tmp_path / "page.html"
    command = ("tokens", "train", "--train", tmp_path / "train.conll", "--out", model, "--report", page)
    answer = kinfolk(*command)
    assert answer.status == 0 and f"wrote {page}" in answer.err and set(parts(page)) == {"training"}
    answer = kinfolk(*command, "--dev", tmp_path / "test.conll")
    assert answer.status == 0 and set(parts(page)) == {"training", "scores"}
    assert parts(page)["training"]["stages"][0]["held_out"]
    page.unlink()
    plain = kinfolk("tokens", "evaluate", model, tmp_path / "test.conll")
    told = kinfolk("tokens", "evaluate", model, tmp_path / "test.conll", "--report", page)
    assert told.status == 0 and told.out == plain.out and set(parts(page)) == {"training", "scores"}
    refused = kinfolk(*command[:-1], tmp_path / "no" / "page.html")
    assert refused.status == 2 and "does not exist or" in refused.err


def test_nodes_count_only_those_asked_for(kinfolk, tmp_path: Path):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=40)
    rows = [f"n{i},{'ab'[k]},{k + rng.normal():.3f}" for i, k in enumerate(labels)]
    (tmp_path / "nodes.csv").write_text("id,kind,x\n" + "\n".join(rows) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{i + 1}\n" for i in range(39)))
    (tmp_path / "ids.txt").write_text("".join(f"n{i}\n" for i in range(10)))
    (tmp_path / "known.txt").write_text("".join(f"n{i}\n" for i in range(20, 40)))
    graph = ("--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv", "--label", "kind")
    model, page = tmp_path / "m.kinfolk", tmp_path / "page.html"
    assert kinfolk("nodes", "train", *graph, "--model", "mop", "--out", model, "--quiet").status == 0
    asked = ("nodes", "evaluate", model, *graph, "--ids", tmp_path / "ids.txt", "--known-ids", tmp_path / "known.txt")
    plain, told = kinfolk(*asked), kinfolk(*asked, "--report", page)
    assert told.status == 0 and told.out == plain.out, told.err
    assert np.sum(parts(page)["scores"]["confusion"][0]["counts"]) == 10


def test_records(kinfolk, tmp_path: Path):
    header, rows = "id,name,entity\n", [f"r{i},person number {i // 2},{i // 2}\n" for i in range(20)]
    (tmp_path / "people.csv").write_text(header + "".join(rows))
    records = ("--records", tmp_path / "people.csv", "--id", "id", "--cluster", "entity")
    model, page = tmp_path / "m.kinfolk", tmp_path / "page.html"
    trained = kinfolk("records", "train", *records, "--out", model, "--quiet")
    assert trained.status == 0, trained.err
    plain = kinfolk("records", "evaluate", model, *records)
    told = kinfolk("records", "evaluate", model, *records, "--report", page)
    assert told.status == 0 and told.out == plain.out, told.err
    assert set(parts(page)) == {"training", "scores"}


def test_a_page_never_overwrites_what_is_read(kinfolk: Any, world: Path, tmp_path: Path) -> None:
    data = tmp_path / "test.conll"
    data.write_bytes((world / "test.conll").read_bytes())
    for command in (
        ["tokens", "evaluate", world / "crf.kinfolk", data],
        ["tokens", "train", "--train", data, "--out", tmp_path / "m.kinfolk"],
        ["explain", world / "crf.kinfolk", data, "--document", "0"],
    ):
        told = kinfolk(*command, "--report", data)
        assert told.status == 2 and "would overwrite" in told.err and data.read_bytes().startswith(b"-DOCSTART-")
