"""Code in the guides runs as it stands there, shows what it says it shows, and links lead somewhere.

The blocks of a page run in order, in a folder of their own that has `examples/` and `.venv/bin` in it:

    python     in one namespace a page, in a process of its own, warnings being errors; with title="NAME.py" it is
               written as that file, for the blocks after it to import
    sh         by the shell, `kinfolk` and `python` being those that run the tests
    console    the lines after "$ ", as sh; the others are what they print
    text       after another block: what that prints

Libraries beyond the run-time dependencies cannot be imported there: a reader has none of them. Processes are forked
from a Python that has kinfolk loaded (`loaded_python.py`).

Of what is printed the words count, and numbers about: machines differ in the last digits, and take another time. A line
"..." stands for any lines. Commands that take minutes,
or data that nobody may hand on (`reproduce`, `demo`, a placeholder DIR), and commands about the repository (`make`) are
read and not run: their options have to be there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import typer

import kinfolk as kf
from kinfolk.cli.main import app
from loaded_python import LoadedPython

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
READ = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    *sorted(PAGES, key=lambda page: page.stem not in ("index", "tokens", "records")),
]
FENCED = re.compile(r'^```(\w*)(?: title="(\w+\.py)")?[^\n]*\n(.*?)^```$', re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"\bkinfolk (reproduce|demo|records label)\b|\bDIR\b|--(show|install)-completion")
PROGRAMS = ("kinfolk", "python", "cat", "head", "grep", "echo", "printf", "cut")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
each_page = pytest.mark.parametrize("page", READ, ids=lambda page: page.stem)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of its first line in the page
    title: str | None = None  # the file that it is

    def steps(self) -> Iterator[tuple[str, str | None]]:
        """Commands, each with what is printed by it if the block tells."""
        if self.language == "sh":
            yield from ((line, None) for line in re.findall(r"(?:[^\n]*\\\n)*[^\n]+", self.text))
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command = re.match(r"(?:[^\n]*\\\n)*[^\n]*", part)
            assert command is not None
            yield command[0], part[command.end() :].strip("\n") or None

    def is_run(self) -> bool:
        asked = [Path(words[0]).name for step, _ in self.steps() for words in commands(step)]
        return not NOT_RUN.search(self.text) and all(name in PROGRAMS for name in asked)


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[3], text.count("\n", 0, m.start()) + 1, m[2]) for m in FENCED.finditer(text)]


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command of a script; where its output goes is left out."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(re.sub(r"\d?[<>]+&?\s*\S+", "", line), posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in ("|", "||", "&&", ";"):
                words.append(word)
            elif words:
                yield words
                words = []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# A module that Python loads by itself as it starts.
WITHOUT_OTHERS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {others!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())

# Other tests run beside this one: as many threads as there are cores would only wait for each other.
import os
os.sched_getaffinity = lambda process: {{0}}
"""
OTHERS = {
    "pandas", "polars", "pyarrow", "duckdb", "networkx", "matplotlib", "splink", "dedupe", "pycrfsuite", "sknetwork",
    "sklearn_crfsuite", "torch", "torch_geometric", "spacy", "hypothesis", "pytest", "playwright",
}  # fmt: skip
# Runs what it is sent, a block a line, in one namespace, and sends back what that printed.
READER = """
import contextlib, io, json, sys, traceback
own, names = sys.stdout, {"__name__": "guide"}
for line in sys.stdin:
    code, place, at = json.loads(line)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile("\\n" * at + code, place, "exec"), names)
            fault = None
        except BaseException:
            fault = traceback.format_exc()
    print(json.dumps([out.getvalue(), fault]), file=own, flush=True)
"""


SOURCES = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]

TRAINED: dict[tuple[Any, ...], bytes] = {}  # model files, by the words of the command and what its files held


STARTED: set[str] = set()  # commands that have run, with a Python of their own where they name one


class Loaded(NamedTuple):
    """What has kinfolk loaded, for all guides; PATH leads a shell to it, in `forked` for files that Python runs too."""

    client: Path
    environment: dict[str, str]
    forked: dict[str, str]


@pytest.fixture(scope="session")
def loaded() -> Iterator[Loaded]:
    with TemporaryDirectory() as name:
        folder = Path(name)  # near the root: the address of a socket is short
        (folder / "sitecustomize.py").write_text(WITHOUT_OTHERS.format(others=OTHERS))
        environment = {**os.environ, "COLUMNS": "120", "PYTHONPATH": os.pathsep.join([name, *SOURCES])}
        python = LoadedPython(folder / "python", environment)
        (forks := folder / "forks").mkdir()
        python.command(folder)
        python.files(forks)
        path = [name, str(Path(sys.executable).parent), os.environ["PATH"]]
        environment["PATH"] = os.pathsep.join(path)
        yield Loaded(python.client, environment, {**environment, "PATH": os.pathsep.join([str(forks), *path])})
        python.ends()


class Reader:
    """A person with kinfolk and what it depends on, and nothing else, in a folder."""

    def __init__(self, folder: Path, loaded: Loaded) -> None:
        self.folder, self.loaded = folder, loaded
        self.python: subprocess.Popen[str] | None = None

    def runs_python(self, block: Block, page: Path) -> str:
        if self.python is None:
            self.python = subprocess.Popen(
                [self.loaded.client, "code", READER], cwd=self.folder, text=True,
                env={**self.loaded.environment, "HOME": str(self.folder), "PYTHONWARNINGS": "error"},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        assert self.python.stdin is not None and self.python.stdout is not None
        self.python.stdin.write(json.dumps([block.text, page.name, block.line]) + "\n")
        self.python.stdin.flush()
        printed, fault = json.loads(self.python.stdout.readline())
        assert fault is None, fault
        return str(printed)

    def runs(self, command: str, place: str) -> str:
        """What it prints; a model that another guide has trained with the same words on the same files is copied."""
        words = next(iter(commands(command)), [])
        out = self.folder / words[words.index("--out") + 1] if words[2:3] == ["train"] and "--out" in words else None
        files = [file for word in words if (file := self.folder / word).is_file() and file != out]
        key = (*sorted(words), *(hashlib.sha256(file.read_bytes()).digest() for file in sorted(files)))
        if out is not None and key in TRAINED:
            out.write_bytes(TRAINED[key])
            return ""
        printed = self.shell(command, place)
        if out is not None and out.is_file() and not printed:
            TRAINED[key] = out.read_bytes()
        return printed

    def shell(self, command: str, place: str) -> str:
        """A file that Python runs has one of its own the first time, and a fork from then on."""
        words = str([*commands(command)])
        environment = {
            **(self.loaded.forked if words in STARTED else self.loaded.environment),
            "HOME": str(self.folder),
        }
        STARTED.add(words)
        done = subprocess.run(["sh", "-ec", command], cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{place}: {command}\n{done.stderr}"
        return done.stdout

    def leaves(self) -> None:
        if self.python is not None:
            self.python.communicate()


@pytest.fixture
def reader(folder: Path, loaded: Loaded) -> Iterator[Reader]:
    one = Reader(folder, loaded)
    yield one
    one.leaves()


def test_a_reader_has_the_run_time_dependencies_alone(reader: Reader) -> None:
    there = f"import importlib.util\nprint([n for n in {sorted(OTHERS)} if n in __import__('sys').modules])"
    assert reader.runs_python(Block("python", f"import kinfolk.cli.main\n{there}", 1), Path("none.md")) == "[]\n"
    with pytest.raises(AssertionError, match="No module named 'pandas'"):
        reader.runs_python(Block("python", "import pandas", 1), Path("none.md"))
    assert reader.runs("python -c 'import pandas' 2>&1 || echo none", "here").endswith("none\n")


@each_page
def test_blocks_run_and_show_what_they_say(page: Path, reader: Reader) -> None:
    printed = ""
    for block in blocks(page):
        place = f"{page.name}, line {block.line}"
        if block.title is not None:
            (reader.folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = reader.runs_python(block, page)
        elif block.language in ("sh", "console") and block.is_run():
            for command, shown in block.steps():
                printed = reader.runs(command, place)
                assert shown is None or is_shown(shown, printed), f"{place} prints:\n{printed}"
        elif block.language == "text":
            assert is_shown(block.text, printed), f"{place} prints:\n{printed}"


NUMBER = re.compile(r"-?\d[\d,.]*")


def is_shown(shown: str, printed: str) -> bool:
    """Lines in order, "..." for any; a number may be another by a twentieth."""
    wanted, found = plain(shown), plain(printed)
    if not wanted:
        return not found
    if wanted[0] == "...":
        return any(is_shown("\n".join(wanted[1:]), "\n".join(found[at:])) for at in range(len(found) + 1))
    return bool(found) and is_same(wanted[0], found[0]) and is_shown("\n".join(wanted[1:]), "\n".join(found[1:]))


def plain(text: str) -> list[str]:
    """Lines without blanks and drawn lines."""
    told = [" ".join(re.sub(r"([─━])\1+", r"\1", line).split()) for line in text.splitlines()]
    return [line for line in told if line]


def is_same(shown: str, printed: str) -> bool:
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.finditer(shown), NUMBER.findall(printed), strict=True)
    return all(re.match(r" ?m?s\b", shown[one.end() :]) or is_near(one[0], other) for one, other in pairs)


def is_near(shown: str, printed: str) -> bool:
    try:
        one, other = (float(text.replace(",", "").rstrip(".")) for text in (shown, printed))
    except ValueError:  # a version
        return True
    return abs(one - other) <= 0.02 + 0.05 * max(abs(one), abs(other))


def test_numbers_count_about() -> None:
    assert is_shown("accuracy 0.981", "accuracy 0.983") and not is_shown("accuracy 0.9", "accuracy 0.983")
    assert is_shown("in 3.2 s", "in 7.5 s") and not is_shown("12 matches", "14 matches")
    assert is_shown("a\n...\nz 1", "a\nb\nc\nz  1\n") and not is_shown("a\n...\nz", "a\nz\nb")


@pytest.mark.parametrize("page", READ, ids=lambda page: page.stem)
def test_python_compiles_and_commands_have_their_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    told = [step for block in blocks(page) if block.language in ("sh", "console") for step, _ in block.steps()]
    told += re.findall(r"^ {4}(\S*kinfolk [^\n\\]*(?:\\\n[^\n\\]*)*)", text, re.MULTILINE)  # indented, as in README
    for block in blocks(page):
        if block.language == "python":
            assert compile(block.text, page.name, "exec")
    for words in (words for script in told for words in commands(script)):
        if Path(words[0]).name == "kinfolk":
            assert parsed(words[1:]), words


def parsed(words: list[str]) -> bool:
    """Whether there is such a command with such options; typer ends with an error if not.

    Options of `kinfolk` itself are looked up and never parsed: some act as soon as they are read.
    """
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):
            return all(any(word in option.opts for option in command.params) for word in words)
        found = command.get_command(None, words[0])
        assert found is not None, f"no command {words[0]!r}"
        command, words = found, words[1:]
    if "--help" not in words:
        command.make_context("kinfolk", [*words])
    return True


def test_the_reference_has_every_public_name() -> None:
    told = re.findall(r"^::: kinfolk\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted({*kf.__all__} - {"__version__", "text", "graph", "linking"})


def test_the_page_on_security_names_files_that_are_there() -> None:
    told = re.findall(r"`((?:\w+/)+\w+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert told and [name for name in told if not any((ROOT / at / name).is_file() for at in ("", "src/kinfolk"))] == []


@pytest.mark.parametrize("page", READ, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        address, _, heading = link.partition("#")
        if "://" in address or address.startswith("mailto:"):
            continue
        target = page.parent / address if address else page
        assert target.is_file(), f"{page.name} links to {link}"
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{page.name} links to {link}; there are {anchors(target)}"


def anchors(page: Path) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings]


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r": (\w+\.md)$", contents, re.MULTILINE)
    assert sorted(listed) == [page.name for page in PAGES]
