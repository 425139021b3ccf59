"""Docstrings list their settings as "name    what it means" in two columns; the site shows them as definition lists."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ENTRY = re.compile(r"^(?P<name>\S(?: ?\S)*?) {2,}(?P<text>\S.*)$")
UNDERLINE = re.compile(r"^-{3,}$")


class DefinitionLists(Extension):
    """Rewrites the docstring of everything that is shown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Two-column entries as definition lists, underlined words as bold ones, indented formulas as code."""
    lines, out, i = text.split("\n"), [], 0
    while i < len(lines):
        line = lines[i]
        entry = ENTRY.match(line)
        if i + 1 < len(lines) and UNDERLINE.match(lines[i + 1]):
            out += ["", f"**{line}**", ""]
            i += 2
        elif entry is not None:
            words, i = [entry["text"]], i + 1
            while i < len(lines) and lines[i].startswith("  ") and lines[i].strip():  # the entry goes on
                words.append(lines[i].strip())
                i += 1
            out += ["", f"`{entry['name']}`", f":   {' '.join(words)}"]
        else:
            out += ["", line] if out and out[-1].startswith(":   ") and line.strip() else [line]
            i += 1
    return "\n".join(out)
