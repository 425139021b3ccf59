"""Code in the guides runs as it stands there, shows what it says it shows, and links lead somewhere.

The blocks of a page run in order, in a folder of their own that has `examples/` and `.venv/bin` in it:

    python     in one namespace a page
    sh         by the shell, `kinfolk` and `python` being those that run the tests
    console    the lines after "$ ", as sh; the others are what they print
    text       after another block: what that prints

Of what is printed the words count, not the numbers, and a line "..." stands for any lines. Commands that take minutes,
or data that nobody may hand on (`reproduce`, `demo`, a placeholder DIR), and commands about the repository (`make`) are
read and not run: their options have to be there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

import kinfolk as kf
from kinfolk.cli.main import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
READ = [*PAGES, ROOT / "README.md"]
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"\bkinfolk (reproduce|demo)\b|\bDIR\b|--(show|install)-completion")
PROGRAMS = ("kinfolk", "python", "cat", "head", "grep", "echo", "printf", "cut")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
each_page = pytest.mark.parametrize("page", READ, ids=lambda page: page.stem)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of its first line in the page

    def steps(self) -> Iterator[tuple[str, str | None]]:
        """Commands, each with what is printed by it if the block tells."""
        if self.language == "sh":
            yield self.text, None
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command = re.match(r"(?:[^\n]*\\\n)*[^\n]*", part)
            assert command is not None
            yield command[0], part[command.end() :].strip("\n") or None

    def is_run(self) -> bool:
        asked = [Path(words[0]).name for step, _ in self.steps() for words in commands(step)]
        return not NOT_RUN.search(self.text) and all(name in PROGRAMS for name in asked)


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in FENCED.finditer(text)]


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


@each_page
def test_blocks_run_and_show_what_they_say(page: Path, folder: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    printed = ""
    for block in blocks(page):
        place = f"{page.name}, line {block.line}"
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
            printed = out.getvalue()
        elif block.language in ("sh", "console") and block.is_run():
            for command, shown in block.steps():
                printed = by_the_shell(command, folder, place)
                assert shown is None or is_shown(shown, printed), f"{place} prints:\n{printed}"
        elif block.language == "text":
            assert is_shown(block.text, printed), f"{place} prints:\n{printed}"
    assert isinstance(names, dict)


def by_the_shell(command: str, folder: Path, place: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "HOME": str(folder)}
    done = subprocess.run(["sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{place}: {command}\n{done.stderr}"
    return done.stdout


def is_shown(shown: str, printed: str) -> bool:
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in plain(shown)]
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in plain(printed))) is not None


def plain(text: str) -> list[str]:
    """Lines without numbers, blanks and drawn lines."""
    lines = [re.sub(r"-?\d[\d,.]*", "#", line) for line in text.splitlines()]
    told = [" ".join(re.sub(r"([─━])\1+", r"\1", line).split()) for line in lines]
    return [line for line in told if line]


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
        assert words[0] in command.commands, f"no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    if "--help" not in words:
        command.make_context("kinfolk", [*words])
    return True


def test_the_reference_has_every_public_name() -> None:
    told = re.findall(r"^::: kinfolk\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted(name for name in kf.__all__ if name != "__version__")


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
