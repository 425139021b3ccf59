"""Phases of work that are killed at random moments, and what has to hold after each kill.

    saving       models saved over each other in a loop
    tagging      a file of many pieces; goes on from its checkpoint after each kill
    clustering   a table of records; likewise
    training     of every kind of model; likewise, until it is ready

After each kill the file that was there before is whole, or the new one is. A run that was killed and went on, however
often, ends with what one that was never stopped ends with. When it has ended nothing lies beside what it wrote.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from killing import signalled, started
from works import command, kinfolk

OLD = b"what was there before"
RUN = "run.kinfolk-run"


@dataclass
class Tally:
    """What came of the kills of a phase."""

    phase: str
    kills: int = 0
    half: int = 0  # of them: what was half written lay there
    runs: int = 0  # that came to their end
    losses: list[str] = field(default_factory=list)
    litter: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        return not self.losses and not self.litter

    def line(self) -> str:
        said = f"{self.phase:<28} {self.kills:>5} kills, {self.half:>3} while writing; {self.runs:>3} runs to the end"
        return f"{said}; {len(self.losses)} losses, {len(self.litter)} litter"


@dataclass(frozen=True)
class Work:
    """A command that puts a file in the place of another one.

    words       of the command, without `-o` and `--checkpoint`
    out         the option that names what it writes
    target      the name of that
    goes_on     whether it goes on from a checkpoint
    """

    name: str
    words: Sequence[str]
    out: str
    target: str
    goes_on: bool

    def run(self, folder: Path) -> None:
        going_on = ["--checkpoint", folder / RUN] if self.goes_on else []
        command(*self.words, self.out, folder / self.target, *going_on)


def disturbed(work: Work, folder: Path, kills: int, rng: Random, per_run: float) -> Tally:
    """Kill the work so many times, about `per_run` times before it comes to its end, then from the beginning; in the
    end it is left alone."""
    tally, target, said = Tally(work.name), folder / "out" / work.target, folder / "said.txt"
    target.parent.mkdir(parents=True)
    began = os.times()
    status = signalled(started(lambda: work.run(target.parent), said), None)
    ended = os.times()
    seconds = ended.children_user + ended.children_system - began.children_user - began.children_system
    if status != 0:
        tally.losses.append(f"without a kill: status {status}: {said.read_text()[-500:]}")
        return tally
    new = content(target)
    if names(target.parent) != {work.target}:
        tally.litter.append(f"without a kill: {sorted(names(target.parent))}")
    target.write_bytes(OLD)
    for number in itertools.count():
        if len(tally.losses) > 5:
            return tally
        moment = rng.uniform(0, 2 * seconds / per_run if work.goes_on else 1.1 * seconds)
        last = tally.kills >= kills
        said.write_bytes(b"")
        status = signalled(started(lambda: work.run(target.parent), said), None if last else moment)
        where = f"start {number}, {'not killed' if last else f'killed after {moment:.3f} s of work'}"
        found = content(target)
        if found not in (OLD, new):
            tally.losses.append(f"{where}: the file is neither the old one nor the new one")
        if status == -signal.SIGKILL:
            tally.kills += 1
            tally.half += bool(names(target.parent) - {work.target, RUN})
            continue
        tally.runs += 1
        if status != 0 or found != new:
            tally.losses.append(f"{where}: ended with status {status}: {said.read_text()[-500:]}")
        if names(target.parent) != {work.target}:
            tally.litter.append(f"{where}: {sorted(names(target.parent))}")
        if last:
            return tally
        for path in target.parent.iterdir():
            path.unlink()
        target.write_bytes(OLD)
    raise AssertionError("not reached")


def content(path: Path) -> Any:
    """What a file says; of a model without the seconds that its training took, and without the hour and the places in
    memory that archives of estimators in it have."""
    data = path.read_bytes()
    if path.suffix != ".kinfolk" or data == OLD:
        return data
    from kinfolk.core.modelfile import read_model_file

    try:
        file = read_model_file(path)
    except Exception as error:
        return f"cannot be read: {error}"
    arrays = {name: (array.dtype.str, array.shape, _archived(array.tobytes())) for name, array in file.arrays.items()}
    return _timeless(file.header), arrays, file.strings


def _timeless(header: Any) -> Any:
    if isinstance(header, dict):
        return {name: _timeless(value) for name, value in header.items() if "seconds" not in name}
    return [_timeless(value) for value in header] if isinstance(header, list) else header


def _archived(data: bytes) -> Any:
    if not data.startswith(b"PK\x03\x04"):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        read = {name: archive.read(name) for name in archive.namelist()}
    return [re.sub(rb"\d{12,}", b"#", found) if name.endswith(".json") else found for name, found in read.items()]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def saving(folder: Path, kills: int, rng: Random, models: Sequence[Path]) -> Tally:
    """Models saved over each other; whoever saves next leaves nothing else."""
    import kinfolk as kf

    tally, target = Tally("saving"), folder / "out" / "m.kinfolk"
    target.parent.mkdir(parents=True)
    loaded = [kf.load_model(path) for path in models]
    contents = []
    for model in loaded:
        model.save(target)
        contents.append(target.read_bytes())

    def work() -> None:
        for model in itertools.cycle(loaded):
            model.save(target)

    while tally.kills < kills:
        child, moment = started(work), rng.uniform(0, 0.1)
        time.sleep(moment)  # by the clock on the wall: most of the time it waits for the disk
        assert signalled(child, 0.0) == -signal.SIGKILL
        tally.kills += 1
        tally.half += len(names(target.parent)) > 1
        if target.read_bytes() not in contents:
            tally.losses.append(f"kill {tally.kills}, after {moment:.4f} s: no whole model")
        if rng.random() < 0.5:  # the next run saves, or is killed too
            rng.choice(loaded).save(target)
            tally.runs += 1
            if names(target.parent) != {target.name}:
                tally.litter.append(f"kill {tally.kills}: {sorted(names(target.parent))}")
    return tally


START = "import os, kinfolk.__main__ as entry; os.write(1, b'.'); entry.start()"


def interrupting(folder: Path, times: int, rng: Random, train: Path) -> Tally:
    """SIGINT from the first module that is loaded on, in processes that begin with nothing: status 130, one line at the
    most, and the file that was there."""
    tally, target = Tally("interrupting (SIGINT)"), folder / "out" / "m.kinfolk"
    target.parent.mkdir(parents=True)
    target.write_bytes(OLD)
    words = ["tokens", "train", "--train", str(train), "--quiet", "--tolerance", "0", "--max-iterations"]
    kinfolk(*words, 1, "--out", folder / "other.kinfolk")  # kernels are compiled, of which there would be another line
    for _ in range(times):
        moment = rng.uniform(0, 2)
        process = subprocess.Popen(
            [sys.executable, "-c", START, *words, "1000000", "--out", str(target)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None and process.stdout.read(1) == b"."
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        tally.kills += 1
        if process.returncode != 130 or told not in (b"", b"interrupted; nothing was written\n"):
            tally.losses.append(f"after {moment:.3f} s: status {process.returncode}: {told.decode()[-700:]}")
        if target.read_bytes() != OLD or names(target.parent) != {target.name}:
            tally.litter.append(f"after {moment:.3f} s: {sorted(names(target.parent))}")
    return tally


# -- data and commands -----------------------------------------------------------------------------------------


def write_world(folder: Path, size: int, phases: Sequence[str]) -> Path:
    """Data to train on, to tag and to cluster, and models for these, as the phases need: about so many seconds of work
    each. (Training of tokens goes on to the limit of iterations: the work is theirs and not that of reading.)"""
    import kinfolk as kf
    from kinfolk.datasets.citations import citation_tables

    folder.mkdir()
    train, _ = kf.newswire_split(train=12 * size, test=1, seed=1)
    kf.write_conll(train, folder / "train.conll")
    if "tagging" in phases:
        (folder / "new.conll").write_text((folder / "train.conll").read_text() * 100)  # of several pieces
        small, _ = kf.newswire_split(train=20, test=1, seed=1)
        kf.LinearChainCRF(n_jobs=1, tolerance=0.1).fit(small).save(folder / "crf.kinfolk")
    if "clustering" in phases:
        _write_records(folder / "few.csv", 1000, 3)
        _write_records(folder / "others.csv", 1500 * size, 2)
        kinfolk("records", "train", "--records", folder / "few.csv", *RECORDS, "--out", folder / "linker.kinfolk")
    if "training records" in phases:
        _write_records(folder / "customers.csv", 1500 * size, 1)
    if any("nodes" in phase for phase in phases):
        tables = citation_tables(700 * size, seed=1)
        for name, table in (("papers", tables.papers), ("cites", tables.cites)):
            _write_csv(folder / f"{name}.csv", list(table), list(table.values()))
    return folder


def _write_records(path: Path, n_records: int, seed: int) -> None:
    import kinfolk as kf

    records = kf.generate_customers(n_records, seed=seed)
    columns = [[*map(records.name, range(n_records))], records.clusters.tolist()]
    columns += [_cells(column) for column in records.columns.values()]
    _write_csv(path, ["id", "entity", *records.columns], columns)


def _cells(column: Any) -> list[str]:
    return ["" if code < 0 else column.values[code] or "" for code in column.codes.tolist()]


def _write_csv(path: Path, head: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *zip(*columns, strict=True)])


ONE = ["--jobs", "1", "--quiet"]
RECORDS = ["--id", "id", "--cluster", "entity", "--block", "key(postcode)", "--block", "key(date_of_birth)", *ONE]
GOES_ON = ("training", "tagging", "clustering")


def works(world: Path, size: int) -> dict[str, Work]:
    def tokens(model: str, iterations: float) -> list[str]:
        limits = ["--tolerance", "1e-12", "--max-iterations", str(max(20, int(iterations * size)))]
        return ["tokens", "train", "--train", str(world / "train.conll"), "--model", model, *limits, *ONE]

    papers = ["--nodes", str(world / "papers.csv"), "--edges", str(world / "cites.csv"), "--label", "topic"]
    nodes = ["nodes", "train", *papers, "--text", "title", *ONE]
    others = ["--records", str(world / "others.csv"), "--id", "id"]
    found = {
        "training crf": tokens("crf", 10),
        "training mop": tokens("mop", 3),
        "training stacked tokens": tokens("stacked", 3),
        "training nodes": nodes,
        "training stacked nodes": [*nodes, "--model", "stacked", "--base", "logistic"],
        "training records": ["records", "train", "--records", str(world / "customers.csv"), *RECORDS],
        "tagging": ["tokens", "tag", str(world / "crf.kinfolk"), str(world / "new.conll"), "--jobs", "1"],
        "clustering": ["records", "cluster", str(world / "linker.kinfolk"), *others, *ONE],
    }
    targets = {"tagging": ("-o", "tagged.conll"), "clustering": ("-o", "clusters.csv")}
    return {
        name: Work(name, words, *targets.get(name, ("--out", "m.kinfolk")), name.startswith(GOES_ON))
        for name, words in found.items()
    }
