"""Compiled kernels: where they are kept, what becomes of damaged ones, what is said before the first is compiled.

A folder that cannot be written to is one whose place is taken by a file: this keeps the superuser out too.
"""

from __future__ import annotations

import importlib
import os
import runpy
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numba
import pytest

import kinfolk as kf
from kinfolk.core import kernels

SOURCE = Path(kf.__file__).parent
FIRST_USE = "first use: compiling"
BESIDE = """
import scipy.sparse as sparse, numpy as np
from kinfolk.collective import aggregate as rows
made = rows.side_by_side(sparse.csr_array(np.eye(2, dtype=np.float32)), np.arange(2), np.ones((2, 1), np.float32))
print(made.toarray().tolist(), sum(rows._fill.stats.cache_hits.values()))
"""
ANSWER = "[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]"


class Places:
    """An installation, a home and a folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.installation, self.home, self.temporary = folder / "site", folder / "home", folder / "tmp"
        shutil.copytree(SOURCE, self.installation / "kinfolk", ignore=shutil.ignore_patterns("__pycache__"))
        self.temporary.mkdir()

    def close(self) -> None:
        """Nothing can be written beside the sources, nor at home."""
        for package in ("collective", "inference", "learning", "linking", "text"):
            (self.installation / "kinfolk" / package / "__pycache__").touch()
        self.home.touch()

    @property
    def kernels(self) -> Path:
        return self.temporary / f"kinfolk-kernels-{os.getuid()}"

    def run(self, program: str) -> tuple[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
        own = {"PYTHONPATH": self.installation, "HOME": self.home, "TMPDIR": self.temporary}
        ran = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=120,
            env={**kept, **{name: str(path) for name, path in own.items()}},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip(), ran.stderr


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_kernels_are_kept_beside_the_sources(places: Places):
    out, told = places.run(BESIDE)
    assert out == f"{ANSWER} 0" and told.count("\n") == 1 and told.startswith(FIRST_USE)
    assert not list(places.temporary.iterdir()) and not places.home.exists()
    assert places.run(BESIDE) == (f"{ANSWER} 1", ""), "later runs load them, and say nothing"


def test_where_nothing_can_be_written_they_are_kept_in_a_temporary_folder_of_the_user_alone(places: Places):
    places.close()
    out, told = places.run(BESIDE)
    assert out == f"{ANSWER} 0"
    assert told.startswith(FIRST_USE) and told.count("\n") == 1, "one line"
    assert str(places.kernels) in told and "NUMBA_CACHE_DIR" in told
    assert stat.S_IMODE(places.kernels.stat().st_mode) == 0o700
    assert places.run(BESIDE) == (f"{ANSWER} 1", "")


@pytest.mark.parametrize("taken", ["open to others", "a file", "a link"])
def test_a_temporary_folder_that_others_may_have_filled_is_not_used(places: Places, taken: str):
    """What is kept there is run: it has to be the user's own."""
    places.close()
    if taken == "a file":
        places.kernels.touch()
    elif taken == "a link":
        (places.temporary / "elsewhere").mkdir(mode=0o700)
        places.kernels.symlink_to(places.temporary / "elsewhere")
    else:
        places.kernels.mkdir()
        places.kernels.chmod(0o777)
    for _ in range(2):
        out, told = places.run(BESIDE)
        assert out == f"{ANSWER} 0"
        assert told.startswith(FIRST_USE) and "compiles them again" in told and "NUMBA_CACHE_DIR" in told
    assert not list(places.temporary.rglob("*.nb?"))


# -- damage, in a store of its own within this process ------------------------------------------------

KERNEL = """
from kinfolk.core.kernels import njit

@njit(nogil=True, cache=True)
def doubled(x):
    return x + x
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel whose module can be started again and again."""

    source: Path
    folder: Path

    def asked(self, number: float) -> tuple[float, int]:
        """The answer of a new start, and how much of it was loaded."""
        kernel = runpy.run_path(str(self.source))["doubled"]
        return kernel(number), sum(kernel.stats.cache_hits.values())

    def files(self, ending: str) -> list[Path]:
        return sorted(self.folder.rglob(f"*.{ending}"))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(kernels, "KERNELS", [])  # `kinfolk warm` counts those of the library
    (tmp_path / "kernel.py").write_text(KERNEL)
    return Kernel(tmp_path / "kernel.py", tmp_path / "kernels")


def flipped(content: bytes) -> bytes:
    """One bit of the machine code, or of the names of it."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGE = {
    "garbage": lambda content: b"garbage\n",
    "emptied": lambda content: b"",
    "cut short": lambda content: content[: len(content) // 2],
    "one bit": flipped,
}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_kernels_are_compiled_anew(kernel: Kernel, damage: str, ending: str, caplog: pytest.LogCaptureFixture):
    assert kernel.asked(2.0) == (4.0, 0) and kernel.asked(2.0) == (4.0, 1)
    for path in kernel.files(ending):
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
    caplog.clear()
    assert kernel.asked(2.0) == (4.0, 0)
    assert "damaged" in caplog.text and str(kernel.folder) in caplog.text and "compiled anew" in caplog.text
    caplog.clear()
    assert kernel.asked(2.0) == (4.0, 1) and not caplog.text, "and kept again"


def test_a_change_to_the_shared_kernels_is_seen_by_those_that_call_them(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
):
    kernel.source.write_text(
        KERNEL.replace("import njit", "import log_sum, njit").replace("x + x", "x + log_sum((x, x))")
    )
    first, _ = kernel.asked(2.0)
    assert kernel.asked(2.0) == (first, 1)
    monkeypatch.setattr(kernels, "_own_stamp", lambda: "the file has changed")
    assert kernel.asked(2.0) == (first, 0)


def test_a_change_to_an_imported_kernel_is_seen_however_far_away(kernel: Kernel, monkeypatch: pytest.MonkeyPatch):
    """numba looks at the file of a kernel alone."""
    folder = kernel.source.parent
    monkeypatch.syspath_prepend(folder)
    far = KERNEL.replace("doubled", "far")
    (folder / "far_kernel.py").write_text(far)
    (folder / "near_kernel.py").write_text(
        "from far_kernel import far\n" + KERNEL.replace("doubled", "near").replace("x + x", "far(x)")
    )
    kernel.source.write_text("from near_kernel import near\n" + KERNEL.replace("x + x", "near(x)"))

    def asked() -> tuple[float, int]:
        for name in ("far_kernel", "near_kernel"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return kernel.asked(2.0)

    assert asked() == (4.0, 0) and asked() == (4.0, 1)
    (folder / "far_kernel.py").write_text(far.replace("x + x", "x + x + 1"))
    assert asked() == (5.0, 0) and asked() == (5.0, 1)


def test_another_kernel_in_the_place_of_one_is_not_run(kernel: Kernel):
    """Two processes that keep a kernel for different types at one moment may leave the code of one under the name of
    the other."""
    kernel.asked(2)
    whole = {path: path.read_bytes() for path in kernel.files("nbc")}
    for path in [*kernel.files("nbc"), *kernel.files("nbi")]:
        path.unlink()
    kernel.asked(0.5)
    assert kernel.files("nbc") == [*whole]
    for path, content in whole.items():
        path.write_bytes(content)
    assert kernel.asked(0.5) == (1.0, 0)
    assert kernel.asked(0.5) == (1.0, 1)


def test_kernels_that_cannot_be_kept_are_run_all_the_same(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert kernel.asked(2.0) == (4.0, 0) and kernel.asked(2.0) == (4.0, 0)
    assert caplog.text.count("No space left on device") == 1, "told once"
    assert f"compiled kernels cannot be kept in {kernel.folder}" in caplog.text


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.kinfolk"
    kf.MaxEnt(n_jobs=1).fit([["Kim", "left"]], [["B", "O"]]).save(path)
    return path


def test_damaged_kernels_are_not_blamed_on_a_model(places: Places, saved: Path):
    loading = f"import kinfolk as kf\nprint(kf.load_model({str(saved)!r}))"
    assert places.run(loading)[1].startswith(FIRST_USE)
    kept = list(places.installation.rglob("*.nbi"))
    assert kept, "loading a tagger fills a hash table"
    for path in kept:
        path.write_bytes(b"garbage\n")
    out, told = places.run(loading)
    assert out == "MaxEnt(n_jobs=1)" and "damaged" in told and "model" not in told


def test_running_out_of_memory_is_not_blamed_on_a_model(saved: Path, monkeypatch: pytest.MonkeyPatch):
    def short(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("kinfolk.core.modelfile.restored", short)
    with pytest.raises(MemoryError):
        kf.load_model(saved)


def test_a_cold_command_tells_that_it_compiles_before_it_does(places: Places, saved: Path):
    """Once, not only in training."""
    (words := places.temporary / "new.conll").write_text("Kim\nleft\n")
    tagging = ["kinfolk", "tokens", "tag", str(saved), str(words), "--jobs", "1"]
    out, told = places.run(f"import sys\nsys.argv = {tagging}\nfrom kinfolk.cli.main import run\nrun()")
    assert out == "Kim B\nleft O"
    assert told.startswith(f"warning: {FIRST_USE}") and told.count("\n") == 1
