"""`make test COVERAGE=95`: which statements of `src` do the tests run?

A tracer makes all of Python slower, not only what is traced. Here every statement of kinfolk has a probe before it,

    __seen__[1234] = 1

which costs some thirty nanoseconds, and nothing else is touched: kernels (machine code, which cannot be traced) and
other libraries run as they are. `__seen__` is one file of zeros mapped into the memory of all processes: pytest's
workers, commands that tests start, what is forked, and what is killed on the way.

    python scripts/probes place FOLDER              compiles the sources with probes, into a folder
    KINFOLK_PROBES=FOLDER PYTHONPATH=scripts/probes python -m pytest ...    `sitecustomize` there loads them instead
    python scripts/probes report FOLDER --least 95  the table of coverage.py, which says what a statement is; fails
                                                    below so many per cent
"""

from __future__ import annotations

import argparse
import ast
import json
import marshal
import shutil
import sys
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "kinfolk"


def main() -> None:
    parser = argparse.ArgumentParser(description="Which statements do the tests run?")
    parser.add_argument("step", choices=("place", "report"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--least", type=float, default=0, help="per cent")
    given = parser.parse_args()
    if given.step == "place":
        place(given.folder)
    else:
        sys.exit(report(given.folder, given.least))


def place(folder: Path) -> None:
    """`seen`: a byte for each line of all files; `code`: what is run; `files.json`: by file, its place in both."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "code").mkdir(parents=True)
    files, size = {}, 0
    for number, path in enumerate(sorted(SOURCES.rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        probed = Probes(size).visit(ast.parse(text, str(path)))
        code = compile(ast.fix_missing_locations(probed), str(path), "exec", dont_inherit=True)
        (folder / "code" / str(number)).write_bytes(marshal.dumps(code))
        files[str(path)] = number, size
        size += text.count("\n") + 2  # lines begin with 1
    (folder / "seen").write_bytes(bytes(size))
    (folder / "files.json").write_text(json.dumps(files), encoding="utf-8")


def report(folder: Path, least: float) -> int:
    seen = (folder / "seen").read_bytes()
    starts = {path: start for path, (_, start) in json.loads((folder / "files.json").read_bytes()).items()}
    ends = dict(zip(starts, [*list(starts.values())[1:], len(seen)], strict=True))
    data = coverage.CoverageData(str(folder / "data"))
    data.add_lines(
        {path: [line for line, one in enumerate(seen[start : ends[path]]) if one] for path, start in starts.items()}
    )
    data.write()
    told = coverage.Coverage(str(folder / "data"), config_file=str(ROOT / "pyproject.toml"))
    told.load()
    share = told.report()
    if share < least:
        sys.stdout.write(f"{share:.1f} % of the statements are run by the tests, expected {least:g} at the least\n")
    return int(share < least)


class Probes(ast.NodeTransformer):
    """Before every statement; for the line of an `except`, where it is asked what it catches."""

    def __init__(self, start: int) -> None:
        self._start = start

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):  # that of a lambda is an expression
                kept = block[:1] if block and _is_text(block[0]) else []  # a docstring
                setattr(node, name, kept + [part for one in block[len(kept) :] for part in self._probed(one)])
        if isinstance(node, ast.match_case):  # its own line, where it is the one that matches
            node.body.insert(0, self._probe(node.pattern.lineno, node.pattern))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if any(_is_njit(one) for one in node.decorator_list) else self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        if node.type is not None:
            place = ast.Constant(self._start + node.lineno)
            seen = ast.Call(ast.Attribute(_seen(), "__setitem__", ast.Load()), [place, ast.Constant(1)], [])
            both = ast.Tuple([seen, node.type], ast.Load())
            node.type = ast.copy_location(ast.Subscript(both, ast.Constant(1), ast.Load()), node.type)
        return node

    def _probed(self, node: ast.stmt) -> list[ast.stmt]:
        lines = [*(one.lineno for one in getattr(node, "decorator_list", ())), node.lineno]
        probes = [self._probe(line, node) for line in lines]
        comes_first = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        return [node, *probes] if comes_first else [*probes, node]

    def _probe(self, line: int, node: ast.AST) -> ast.stmt:
        target = ast.Subscript(_seen(), ast.Constant(self._start + line), ast.Store())
        return ast.copy_location(ast.Assign([target], ast.Constant(1)), node)


def _seen() -> ast.expr:
    return ast.Name("__seen__", ast.Load())


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_njit(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "njit"


if __name__ == "__main__":
    main()
