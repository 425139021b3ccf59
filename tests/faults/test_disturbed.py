"""Work that is disturbed: killed, interrupted, on a full or read-only disk, two at once.

Every call of the file layer fails in `test_failed_calls.py`; what becomes of compiled kernels is in
`test_kernel_store.py`; standard output and input that are closed are in `cli/test_cli_process.py`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from killing import signalled, started
from phases import OLD
from works import command, kinfolk

import kinfolk as kf
from kinfolk.learning import lbfgs

HERE = Path(__file__).parent


def test_nothing_is_lost_by_kills():
    """The quick form of `make faults`."""
    words = ["--kills", "12", "--seed", "3", "--size", "1", "--processes", "1"]
    words += ["--only", "saving", "tagging", "training crf"]
    ran = subprocess.run([sys.executable, str(HERE / "faults.py"), *words], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search("1[0-9] kills, seed 3: 0 losses, 0 litter", ran.stdout), ran.stdout


def test_a_full_and_a_read_only_disk(files: Path, tmp_path: Path):
    """Of every size up to the one that is enough."""
    pyarrow = pytest.importorskip("pyarrow", reason="tables need pyarrow")
    from pyarrow import csv, parquet

    texts = csv.ConvertOptions(
        column_types=dict.fromkeys(csv.read_csv(files / "customers.csv").schema.names, pyarrow.string())
    )
    parquet.write_table(csv.read_csv(files / "customers.csv", convert_options=texts), files / "customers.parquet")
    words = ["unshare", "--mount", "--map-root-user", sys.executable, str(HERE / "small_disk.py"), files, tmp_path]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        pytest.skip("no `unshare` here, which gives a process file systems of its own")
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip(f"no file systems for one process here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    told = dict(line.split(": refused ") for line in ran.stdout.splitlines())
    assert set(told) == {"save", "tag", "cluster", "table"} and min(map(int, told.values())) >= 1


def interrupted_at(step: int, work: Callable[[], object]) -> None:
    """The work, whose search for weights is interrupted before its n-th step."""
    along, taken = lbfgs._LineSearch.along, count(1)

    def stepping(search: lbfgs._LineSearch, *given: Any) -> bool:
        if next(taken) == step:
            os.kill(os.getpid(), signal.SIGINT)
        return along(search, *given)

    lbfgs._LineSearch.along = stepping
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have work in the background ignore it
    work()


@pytest.mark.filterwarnings("ignore:training hit the iteration limit")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_of_training_is_one_line_and_leaves_what_was_there(tmp_path: Path, jobs: int):
    """SIGINT, as Ctrl-C sends it, at three steps of the search. (While modules are loaded it is quiet:
    cli/test_cli_process.py.)"""
    target, said = tmp_path / "out" / "m.kinfolk", tmp_path / "said.txt"
    target.parent.mkdir()
    kf.write_conll(kf.newswire_split(train=40, test=1)[0], tmp_path / "train.conll")
    words = ["tokens", "train", "--train", tmp_path / "train.conll", "--out", target, "--jobs", jobs, "--quiet"]
    words += ["--tolerance", "0", "--max-iterations"]
    kinfolk(*words, 1)  # loads all modules and kernels
    target.write_bytes(OLD)
    for step in (1, 2, 9):
        said.write_bytes(b"")
        child = started(lambda step=step: interrupted_at(step, lambda: command(*words, 100)), said)
        assert signalled(child, None) == 130
        assert said.read_text() == "interrupted; nothing was written\n"
        assert target.read_bytes() == OLD and [*target.parent.iterdir()] == [target]


def test_two_writers_at_once_leave_one_of_two_whole_models(files: Path, tmp_path: Path):
    target, enough = tmp_path / "out" / "m.kinfolk", tmp_path / "enough"
    target.parent.mkdir()
    models = [kf.load_model(files / f"{name}.kinfolk") for name in ("crf", "mixture-tokens")]
    contents = []
    for model in models:
        model.save(target)
        contents.append(target.read_bytes())

    def saving(model: kf.LinearChainCRF) -> None:
        n_saved = 0
        while n_saved < 25 or not enough.exists():
            model.save(target)
            n_saved += 1

    running = {started(lambda model=model: saving(model)) for model in models}
    before, n_seen, n_changed = b"", 0, 0
    while running:
        found = target.read_bytes()
        assert found in contents
        n_seen, n_changed, before = n_seen + 1, n_changed + (found != before), found
        if n_seen > 10 and n_changed > 3:  # however seldom a busy machine lets this process look
            enough.touch()
        for child in [*running]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                assert status == 0, "nobody's temporary file was taken away"
                running.remove(child)
    assert [*target.parent.iterdir()] == [target]
    assert type(kf.load_model(target)) in {type(model) for model in models}
