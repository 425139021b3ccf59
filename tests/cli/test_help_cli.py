"""What a newcomer types first: `--help` whose examples work, `--version`, `python -m kinfolk`, the Tab key."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_world import write as write_table
from typer.main import get_command

import kinfolk as kf
from kinfolk.cli.main import app
from kinfolk.cli.reproduce import EXPERIMENTS
from kinfolk.datasets.citations import citation_tables

NOT_RUN = {"demo", "warm", "reproduce"}  # they take minutes, or real data
ORDER = [*"train tag predict cluster link show report evaluate explain label".split()]  # a model before what needs it


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group, as it is typed."""
    here = get_command(app) if group is None else group
    yield path
    for name in here.list_commands(None) if hasattr(here, "list_commands") else ():
        yield from commands(here.get_command(None, name), (*path, name))


COMMANDS = list(commands())


def help_of(path: tuple[str, ...]) -> str:
    command = get_command(app)
    for name in path:
        command = command.get_command(None, name)  # type: ignore[attr-defined]
    return str(command.epilog)


def examples_of(path: tuple[str, ...]) -> list[list[str]]:
    """The examples of a help page, as the shell would cut them."""
    block = help_of(path).partition("Examples:\n")[2].partition("\n\n")[0]
    return [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]


DOCUMENT = """#begin document ({name}); part 000
0\t{who}\t(1)
1\tsaw\t-
2\t{what}\t(2)
3\t.\t-

0\tShe\t(1)
1\tlikes\t-
2\t{what}\t(2)
3\t.\t-

#end document
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("desk")
    train, rest = kf.newswire_split(12, 9)
    new = rest.documents(6, 9).with_labels(None, None)
    for name, corpus in (("train", train), ("dev", rest.documents(0, 3)), ("test", rest.documents(3, 6)), ("new", new)):
        kf.write_conll(corpus, folder / f"{name}.conll")
    papers, cites = citation_tables(45, seed=0)
    for name, seen in (("papers", 30), ("truth", 45)):
        topics = [topic if i < seen else "" for i, topic in enumerate(papers["topic"])]
        _write_columns({**papers, "topic": topics}, folder / f"{name}.csv")
    _write_columns(cites, folder / "cites.csv")
    for name, first in (("train", 0), ("test", 30)):
        (folder / f"{name}.txt").write_text("".join(f"p{i}\n" for i in range(first, first + 30) if i < 45))
        (folder / "litbank" / name).mkdir(parents=True)
        told = (
            DOCUMENT.format(name=f"d{i}", who=w, what=t) for i, (w, t) in enumerate([("Ann", "Rome"), ("Eva", "it")])
        )
        (folder / "litbank" / name / "a.conll").write_text("".join(told))
    for seed, name in enumerate(("customers", "test", "new")):
        _write_people(kf.generate_customers(60, seed=seed), folder / f"{name}.csv", truth=name != "new")
    later = kf.generate_customers(20, seed=3)
    _write_people(replace(later, names=[f"later-{i}" for i in range(20)]), folder / "later.csv", False, "later-0")
    (folder / "people").mkdir()
    _write_parquet(folder / "new.csv", folder / "people" / "1.parquet")
    (folder / "papers").mkdir()
    _write_parquet(folder / "papers.csv", folder / "papers" / "1.parquet")
    _write_parquet(folder / "cites.csv", folder / "cites.parquet")
    (folder / "corpus").mkdir()
    tokens = {"document": new.token_documents, "sentence": new.token_sentences}
    tokens |= {name: new.columns[name].strings() for name in new.columns}
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    parquet.write_table(pyarrow.table(tokens), folder / "corpus" / "1.parquet")
    new_people = kf.block(kf.generate_customers(60, seed=2), ["key(postcode)"])
    first = np.flatnonzero(new_people.left > 0)[:40]  # the id of the record before is another
    told = [(new_people.name(new_people.left[k]), new_people.name(new_people.right[k]), k % 2) for k in first]
    (folder / "labels.csv").write_text("left,right,match\n" + "".join(f"{a},{b},{m}\n" for a, b, m in told))
    return folder


def _write_parquet(source: Path, target: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
    with open(source, newline="", encoding="utf-8") as file:
        parquet.write_table(pyarrow.Table.from_pylist(list(csv.DictReader(file))), target)


def _write_columns(table: dict[str, list[str]], path: Path) -> None:
    rows = zip(*table.values(), strict=True)
    write_table(path, [dict(zip(table, row, strict=True)) for row in rows])


def _write_people(people: kf.Mentions, path: Path, truth: bool, first: str = "rec-742-dup-0") -> None:
    columns = {name: column.strings() for name, column in people.columns.items()}
    if truth:
        columns["entity"] = list(map(str, people.clusters))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *columns])
        for i, values in enumerate(zip(*columns.values(), strict=True)):
            name = people.name(i) if i else first  # as in the files of examples/customers.py
            writer.writerow([name, *(value or "" for value in values)])


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_ends_with_examples_as_they_were_typed(kinfolk: Any, path: tuple[str, ...]):
    told = kinfolk(*path, "--help")
    assert told.status == 0 and told.err == "" and "\x1b" not in told.out
    assert told.out.startswith(f"Usage: {' '.join(['kinfolk', *path])} ")
    typed = help_of(path).partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert typed, "no examples"
    assert "\n".join(["  Examples:", *(f"  {line}" for line in typed)]) in told.out, "a line was broken elsewhere"
    assert all(len(line) < 86 and line.startswith("  ") for line in typed)


@pytest.mark.filterwarnings("ignore:blocking")  # the tables of the desk are small
def test_the_examples_work(kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch):
    """Each ends in status 0, in a folder with the files it names; models are trained by the examples themselves."""
    monkeypatch.chdir(desk)
    found = {tuple(words) for path in COMMANDS if path and path[0] not in NOT_RUN for words in examples_of(path)}
    found |= {tuple(words) for words in examples_of(())}
    assert len(found) > 20 and all(words[0] == "kinfolk" for words in found)

    def place(words: tuple[str, ...]) -> int:
        return next(i for i, verb in enumerate(ORDER) if verb in words[1:3])

    for words in sorted(found, key=lambda words: (place(words), words)):
        if words[1:3] == ("records", "label"):
            words = (*words, "--terminal")  # a page would wait; here the input ends at once
        few = (
            [] if words[1] == "tokens" or words[2:3] == ("show",) else ["--jobs", "1"] if "--help" not in words else []
        )
        answer = kinfolk(*words[1:], *few)
        assert answer.status == 0, (words, answer.err)


def test_the_examples_that_take_long_name_what_there_is():
    assert examples_of(("demo",)) == [["kinfolk", "demo"]]
    for words in examples_of(("reproduce",)):
        assert words[1] == "reproduce" and {"--data", "--check-data"} & set(words)
        assert words[2] in {*EXPERIMENTS, "all"} or words[2] == "--check-data"


def test_the_statuses_are_told(kinfolk: Any):
    told = kinfolk("--help").out
    listed = re.findall(r"^    (\d+) +(\w.*)$", told.partition("Exit status:\n")[2], re.MULTILINE)
    assert [status for status, _ in listed] == ["0", "1", "2", "130"]
    assert "_KINFOLK_COMPLETE=source_bash" in told and "--install-completion" in told


def test_the_module_is_the_command():
    for words in (["--version"], ["tokens", "--help"]):
        ran = subprocess.run([sys.executable, "-m", "kinfolk", *words], capture_output=True, text=True, timeout=60)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.startswith(
            f"kinfolk {kf.__version__}\n" if words == ["--version"] else "Usage: kinfolk tokens "
        )


# -- completion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "offered"), [
    (["kinfolk", "to"], ["tokens"]),
    (["kinfolk", "nodes", ""], ["train", "predict", "evaluate"]),
    (["kinfolk", "tokens", "train", "--model", "m"], ["memm", "maxent", "mop"]),
    (["kinfolk", "tokens", "train", "--max-"], ["--max-iterations", "--max-rounds", "--max-document-frequency"]),
    (["kinfolk", "tokens", "tag", "--scheme", "B"], ["BIO", "BILOU"]),
    (["kinfolk", "nodes", "train", "--base", "r"], ["random-forest"]),
    (["kinfolk", "records", "train", "--clusterer", "one"], ["one-to-many", "one-to-one"]),
    (["kinfolk", "tokens", "train", "--train", ""], []),  # the shell offers files
], ids=lambda value: " ".join(value))  # fmt: skip
def test_words_are_completed(kinfolk: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], offered: list[str]):
    """What bash would offer for the last word."""
    asked = {"_KINFOLK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    told = kinfolk()
    assert (told.status, told.err) == (0, "") and told.out.split() == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this system")
def test_bash_completes_with_the_script(tmp_path: Path):
    """The script that `_KINFOLK_COMPLETE=source_bash kinfolk` prints, in a real bash."""
    command = tmp_path / "kinfolk"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kinfolk "$@"\n')
    command.chmod(0o755)
    program = """eval "$(_KINFOLK_COMPLETE=source_bash kinfolk)" && complete -p kinfolk &&
        COMP_WORDS=(kinfolk tokens train --model s) COMP_CWORD=4 &&
        _kinfolk_completion kinfolk && echo "${COMPREPLY[*]}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}
    )
    assert ran.returncode == 0 and ran.stderr == ""
    assert ran.stdout.splitlines() == ["complete -o default -F _kinfolk_completion kinfolk", "skip-chain stacked"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "pwsh"])
def test_scripts_for_every_shell(kinfolk: Any, shell: str, monkeypatch: pytest.MonkeyPatch):
    import shellingham

    monkeypatch.setattr(shellingham, "detect_shell", lambda *_, **__: (shell, shell))
    told = kinfolk("--show-completion")
    assert (told.status, told.err) == (0, "") and "_KINFOLK_COMPLETE" in told.out


def test_completion_is_installed(kinfolk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import shellingham

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(shellingham, "detect_shell", lambda *_, **__: ("bash", "/bin/bash"))
    told = kinfolk("--install-completion")
    assert told.status == 0 and "completion installed" in told.out
    written = tmp_path / ".bash_completions" / "kinfolk.sh"
    assert "_KINFOLK_COMPLETE" in written.read_text() and str(written) in (tmp_path / ".bashrc").read_text()


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_a_shell_that_is_not_known_is_a_mistake_with_a_way_out(kinfolk: Any, option: str, monkeypatch: Any):
    import shellingham

    def unknown(*_: Any, **__: Any) -> tuple[str, str]:
        raise shellingham.ShellDetectionFailure

    monkeypatch.setattr(shellingham, "detect_shell", unknown)
    told = kinfolk(option)
    assert told.status == 2 and "Traceback" not in told.err
    assert told.err.splitlines()[-1].startswith("error: name the shell: _KINFOLK_COMPLETE=source_bash kinfolk")


def test_help_names_every_set_of_templates(kinfolk: Any):
    from kinfolk.text.extraction import NAMED

    found = " ".join(kinfolk("tokens", "train", "--help").out.split())
    assert f"feature set: {', '.join(NAMED)}." in found
