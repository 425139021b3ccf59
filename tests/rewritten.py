"""Test modules as pytest rewrites them, kept for the workers, each of which would rewrite all of them for itself.

By the means that pytest's own import hook has; where another version of pytest has others, nothing is kept here.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def keep_rewritten(config: pytest.Config, folder: Path) -> None:
    """Those of a folder that are not kept yet."""
    try:
        from _pytest.assertion.rewrite import (
            PYC_TAIL,
            _read_pyc,
            _rewrite_test,
            _write_pyc,
            assertstate_key,
            get_cache_dir,
        )
    except ImportError:
        return
    for file in sorted(folder.rglob("test_*.py")):
        kept = get_cache_dir(file) / f"{file.stem}{PYC_TAIL}"
        if _read_pyc(file, kept) is None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            stamp, code = _rewrite_test(file, config)
            _write_pyc(config.stash[assertstate_key], code, stamp, kept)
