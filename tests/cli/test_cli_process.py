"""The command as the shell sees it: its own process, real pipes, real exit statuses."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-c", "from kinfolk.cli.main import run; run()"]


def kinfolk(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, timeout=120, **options)


def kinfolk_in_a_shell(*words: object, redirected: str) -> subprocess.CompletedProcess[bytes]:
    program = ["sh", "-c", f'exec "$@" {redirected}', "sh", *COMMAND, *map(str, words)]
    return subprocess.run(program, capture_output=True, timeout=120)


def test_training_and_tagging(world: Path, tmp_path: Path):
    """Without a terminal there is no progress to see, only the summary; a warning is one line."""
    options = ["--max-iterations", "2", "--jobs", "1"]
    done = kinfolk("tokens", "train", "--train", world / "train.conll", "--out", tmp_path / "m", *options)
    assert (done.returncode, done.stdout) == (0, b"")
    lines = done.stderr.decode().splitlines()
    assert lines[0].startswith("warning: training hit the iteration limit") and lines[-1] == f"wrote {tmp_path / 'm'}"
    assert len(lines) == 4
    text = (world / "test.conll").read_bytes()
    tagged = kinfolk("tokens", "tag", tmp_path / "m", "--jobs", "1", input=text)
    assert (tagged.returncode, tagged.stderr) == (0, b"")
    assert tagged.stdout.count(b"\n") == text.count(b"\n")


def test_utf8_whatever_the_locale(world: Path):
    told = kinfolk(
        "tokens", "tag", world / "words.kinfolk", "--jobs", "1", input="Łódź\n".encode(),
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )  # fmt: skip
    assert told.returncode == 0 and told.stdout.startswith("Łódź ".encode())


def test_a_mistake_is_one_line_and_status_2(tmp_path: Path):
    (tmp_path / "bad.conll").write_text("Kim NNP B-PER\nleft\n")
    told = kinfolk("tokens", "train", "--train", tmp_path / "bad.conll", "--out", tmp_path / "m")
    assert (told.returncode, told.stdout) == (2, b"")
    assert told.stderr.startswith(f"error: {tmp_path / 'bad.conll'}, line 2: expected 3 columns".encode())
    assert told.stderr.count(b"\n") == 1


def test_slips_of_tags_are_one_line_and_no_fault(world: Path, tmp_path: Path):
    text = (world / "train.conll").read_text().replace(" B-", " I-", 30)
    (tmp_path / "slips.conll").write_text(text)
    options = ["--out", tmp_path / "m", "--jobs", "1", "--scheme", "BIO", "--quiet"]
    told = kinfolk("tokens", "train", "--train", tmp_path / "slips.conll", *options)
    assert (told.returncode, told.stdout, told.stderr.count(b"\n")) == (0, b"", 1)
    assert b"slips.conll, line" in told.stderr and b"tags break the scheme; training and scores repair" in told.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["tokens", "tag", "crf.kinfolk", "test.conll"], ["tokens", "tag", "crf.kinfolk", "test.conll", "--entities"],
        ["tokens", "tag", "crf.kinfolk", "test.conll", "--json"], ["tokens", "evaluate", "crf.kinfolk", "test.conll"],
        ["tokens", "evaluate", "crf.kinfolk", "test.conll", "--json"],
        ["explain", "crf.kinfolk", "test.conll", "--document", "0", "--token", "0"],
        ["--version"], ["--help"], ["nodes", "--help"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_standard_output_that_is_closed_is_told(world: Path, words: list[str]):
    told = kinfolk_in_a_shell(*(world / word if "." in word else word for word in words), redirected=">&-")
    assert told.returncode == 2, told
    assert told.stderr == b"error: standard output: it is closed; send it to a file or a pipe\n"


def test_who_writes_nothing_needs_no_standard_output(world: Path, tmp_path: Path):
    files = [world / "crf.kinfolk", world / "test.conll", "-o", tmp_path / "x"]
    told = kinfolk_in_a_shell("tokens", "tag", *files, redirected=">&-")
    assert (told.returncode, told.stderr) == (0, b"") and (tmp_path / "x").exists()


def test_a_standard_input_that_is_closed_is_told(world: Path):
    told = kinfolk_in_a_shell("tokens", "tag", world / "crf.kinfolk", redirected="<&-")
    assert (told.returncode, told.stdout) == (2, b"")
    assert told.stderr == b"error: <stdin>: it is closed; name a file, or pipe one in\n"


def test_a_reader_that_goes_away_is_no_fault(world: Path, tmp_path: Path):
    """As `head` does: no message, no traceback."""
    (tmp_path / "long.conll").write_text((world / "test.conll").read_text() * 12)  # more than a pipe holds
    tagging = subprocess.Popen(
        [*COMMAND, "tokens", "tag", str(world / "crf.kinfolk"), str(tmp_path / "long.conll"), "--jobs", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert tagging.stdout is not None and tagging.stderr is not None
    assert tagging.stdout.readline().startswith(b"-DOCSTART-")
    tagging.stdout.close()
    assert tagging.stderr.read() == b""
    tagging.stderr.close()
    assert tagging.wait(60) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
@pytest.mark.parametrize("verb", ["tag", "evaluate"])
def test_a_full_disk_behind_standard_output(world: Path, verb: str):
    with open("/dev/full", "wb") as full:
        told = subprocess.run(
            [*COMMAND, "tokens", verb, str(world / "crf.kinfolk"), str(world / "test.conll"), "--jobs", "1"],
            stdout=full, stderr=subprocess.PIPE, timeout=120,
        )  # fmt: skip
    assert (told.returncode, told.stderr) == (2, b"error: standard output: No space left on device\n")


INTERRUPTED = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["kinfolk", *{words!r}]
{start}
"""
STARTS = {
    "kinfolk": "import kinfolk.__main__ as entry; entry.start()",
    "python -m kinfolk": "runpy.run_module('kinfolk', run_name='__main__', alter_sys=True)",
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("module", "command"), [
    ("kinfolk.cli.main", "--version"), ("typer", "--version"), ("numpy", "tokens --help"),
    ("kinfolk.cli.reproduce", "reproduce --help"),
])  # fmt: skip
def test_an_interruption_while_modules_are_loaded_is_quiet(module: str, command: str, start: str):
    program = INTERRUPTED.format(module=module, words=command.split(), start=STARTS[start])
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    said = b"" if command == "--version" else b"interrupted; nothing was written\n"  # a command had begun
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", said)


def test_an_interruption_that_the_shell_has_us_ignore_is_ignored():
    """As `kinfolk ... &` in a script."""
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    program += INTERRUPTED.format(module="typer", words=["--version"], start=STARTS["kinfolk"])
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"") and ended.stdout.startswith(b"kinfolk ")


def test_the_installed_command_starts_there():
    told = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert told["project"]["scripts"] == {"kinfolk": "kinfolk.__main__:start"}
