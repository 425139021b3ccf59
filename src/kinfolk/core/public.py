"""Public names, loaded when they are first used, so that `import kinfolk` itself costs next to nothing.

Each is declared once, in the stub beside the package (`__init__.pyi`), which type checkers read too:
`from kinfolk.text.corpus import Corpus as Corpus`; `from kinfolk import text as text` names a room.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

DECLARED = re.compile(r"^from (kinfolk[\w.]*) import (\w+) as \2$", re.MULTILINE)


def public_names(package: str, file: str) -> tuple[dict[str, str], Callable[[str], Any], Callable[[], list[str]]]:
    """Name -> module of the names that the stub of a package declares; its `__getattr__` and its `__dir__`."""
    with open(f"{file}i", encoding="utf-8") as stub:
        homes = {name: home for home, name in DECLARED.findall(stub.read())}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = (
            importlib.import_module(f"{home}.{name}")
            if home == package
            else getattr(importlib.import_module(home), name)
        )
        setattr(sys.modules[package], name, value)
        return value

    return homes, load, lambda: sorted({*homes, *vars(sys.modules[package])})
