"""Work on a disk that is too small, and on one that is read-only: a file system of its own, for this process alone.

    unshare --mount --map-root-user python small_disk.py FOLDER PLACE

FOLDER has the files of `works.small_files`; PLACE is an empty folder to mount on. Prints a line for each work: at how
many sizes of the disk it was refused before it fitted. Exit status 77: nothing can be mounted here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
from works import Refused, kinfolk  # noqa: E402

import kinfolk as kf  # noqa: E402

OLD = b"what was there before"
PAGE = 4096


def mount(place: Path, how: str) -> None:
    if subprocess.run(["mount", *how.split(), "tmpfs", str(place)]).returncode:
        sys.exit(77)


def works(files: Path, place: Path) -> dict[str, tuple[str, Callable[[], object]]]:
    crf, linker = kf.load_model(files / "crf.kinfolk"), files / "linker.kinfolk"
    tagging = ["tokens", "tag", files / "crf.kinfolk", files / "test.conll", "--jobs", "1", "-o"]
    clustering = ["records", "cluster", linker, "--records", files / "customers.csv", "--quiet", "-o"]
    table = [
        *clustering[:3],
        "--engine",
        "duckdb",
        "--records",
        files / "customers.parquet",
        "--block",
        "key(suburb)",
        "-o",
    ]
    found: dict[str, tuple[str, Callable[[], object]]] = {
        "save": ("m.kinfolk", lambda: crf.save(place / "m.kinfolk")),
        "tag": ("tagged.conll", lambda: kinfolk(*tagging, place / "tagged.conll")),
        "cluster": ("clusters.csv", lambda: kinfolk(*clustering, place / "clusters.csv")),
    }
    if (files / "customers.parquet").exists():
        found["table"] = ("clusters.parquet", lambda: kinfolk(*table, place / "clusters.parquet"))
    return found


def check(place: Path, target: str, work: Callable[[], object]) -> bool:
    """Whether it fitted; if not, all is as it was, and that was told."""
    try:
        work()
    except (Refused, kf.KinfolkError) as error:
        assert target in str(error), error
        assert "No space left" in str(error) or "Read-only" in str(error) or "ENOSPC" in str(error), error
        assert (place / target).read_bytes() == OLD, "the old file"
        fitted = False
    else:
        assert (place / target).read_bytes() != OLD
        fitted = True
    assert [path.name for path in place.iterdir()] == [target], "no litter"
    return fitted


def main() -> None:
    files, place = map(Path, sys.argv[1:])
    for name, (target, work) in works(files, place).items():
        pages, refused = 1, 0
        while True:
            mount(place, f"-t tmpfs -o size={PAGE * pages}")
            (place / target).write_bytes(OLD)
            fitted = check(place, target, work)
            if fitted:
                subprocess.run(["umount", str(place)], check=True)
                break
            refused += 1
            if refused == 1:
                mount(place, "-o remount,ro")
                assert not check(place, target, work), "read-only"
            subprocess.run(["umount", str(place)], check=True)
            pages += max(1, pages // 2)
        sys.stdout.write(f"{name}: refused {refused}\n")


if __name__ == "__main__":
    main()
