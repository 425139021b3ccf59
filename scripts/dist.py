"""`make dist`: the sdist, and from it the wheel, tried as a stranger would use it.

The wheel is built from the sdist alone. It has to hold the package, its types and its assets, and nothing else. Then it
is installed into an empty environment, and README's first example, `kinfolk --version` and `kinfolk demo --help` run
there: in another folder, with a path that has no compiler on it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
COMPILERS = ("cc", "gcc", "g++", "clang", "c++", "ld")
FIRST_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)  # the sdist, then the wheel from what is in it
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    check_wheel(wheel)
    check_source(source)
    with tempfile.TemporaryDirectory(prefix="kinfolk-dist-") as folder:
        try_wheel(wheel, Path(folder))
    say(f"dist/{source.name} and dist/{wheel.name} are sound")


def check_wheel(wheel: Path) -> None:
    """The files of src/kinfolk, all of them, beside the metadata."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.endswith("/")}
        metadata = next(archive.read(name).decode() for name in held if name.endswith(".dist-info/METADATA"))
    package = {name for name in held if ".dist-info/" not in name}
    source = ROOT / "src"
    files = (path for path in (source / "kinfolk").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    expect(package == {str(path.relative_to(source)) for path in files}, f"other files than src/kinfolk: {package}")
    expect("kinfolk/py.typed" in package, "the wheel says nothing of its types")
    expect(any(name.endswith("licenses/LICENSE") for name in held), "the wheel has no licence")
    expect(f"Version: {version()}" in metadata and "Requires-Python: >=3.11" in metadata, "the metadata are others")


def check_source(source: Path) -> None:
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("LICENSE", "SECURITY.md", "CITATION.cff", "CHANGELOG.md", "constraints.txt", "tests/conftest.py"):
        expect(name in held, f"the sdist lacks {name}")
    strange = [name for name in held if "__pycache__" in name or name.endswith((".kinfolk", ".conll", ".csv"))]
    expect(not strange, f"the sdist has {strange}")


def try_wheel(wheel: Path, folder: Path) -> None:
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / "bin"
    install = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, "--only-binary", ":all:", "--constraint", ROOT / "constraints.txt", wheel)
    work = folder / "work"
    work.mkdir()
    # Nothing of this checkout and no compiler: a path with the programs of the environment alone.
    environment = {"PATH": str(programs), "HOME": str(folder), "LANG": "C.UTF-8"}
    found = [name for name in COMPILERS if shutil.which(name, path=environment["PATH"])]
    expect(not found, f"the empty environment has a compiler: {found}")
    there: Any = dict(cwd=work, env=environment)
    example = FIRST_EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert example is not None
    (work / "example.py").write_text(example[1], encoding="utf-8")
    home = printed(programs / "python", "-c", "import kinfolk; print(kinfolk.__file__)", **there)
    expect(home.startswith(str(folder)), f"kinfolk comes from {home}")
    expect(printed(programs / "kinfolk", "--version", **there) == f"kinfolk {version()}\n", "another version")
    expect("Usage: kinfolk demo" in printed(programs / "kinfolk", "demo", "--help", **there), "no help")
    told = printed(programs / "python", "-W", "error", "example.py", **there)
    expect("entity F1" in told and (work / "mop.kinfolk").is_file() and (work / "why.html").is_file(), told)
    say(told.splitlines()[0])


def version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/kinfolk/__init__.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def run(*words: Any) -> None:
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def printed(*words: Any, **there: Any) -> str:
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **there).stdout


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"make dist: {otherwise}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
