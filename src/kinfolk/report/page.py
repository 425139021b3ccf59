"""A report: one HTML file that holds all it needs, and into which nothing foreign gets.

Parts are plain data. They travel as JSON in a block that browsers do not run, and scripts of our own (`assets/`) draw
them, text only ever as text. Should a mistake of ours ever let markup through, the policy of the page forbids every
script but the one whose hash it names, every style but ours, and every connection.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from kinfolk.core.files import write_utf8
from kinfolk.core.modelfile import check_writable
from kinfolk.errors import ModelFileError, SettingError

# What can be drawn -> the scripts and styles that draw it, beside those of every page.
KINDS: Mapping[str, tuple[str, ...]] = {
    "tokens": ("tokens.js", "tokens.css"),
    "nodes": ("nodes.js", "nodes.css"),
    "links": ("links.js", "links.css"),
    "records": ("charts.js", "bars.js", "records.js", "charts.css", "linkage.css"),
    "blocking": ("charts.js", "bars.js", "blocking.js", "charts.css", "linkage.css"),
    "weights": ("bars.js", "weights.js", "charts.css", "linkage.css"),
    "thresholds": ("charts.js", "thresholds.js", "charts.css"),
    "training": ("charts.js", "training.js", "charts.css"),
    "scores": ("charts.js", "scores.js", "charts.css"),
    "table": ("tables.js",),
    "figure": ("tables.js",),
    "label": ("label.js", "label.css"),
    "text": (),
}
SKELETON = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="kinfolk">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This report is drawn by a script inside this file; allow scripts to see it. Nothing is loaded.</noscript>
<main id="report"></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


@dataclass(frozen=True)
class Part:
    """One section of a report: what draws it, its heading, and its content as JSON can hold it (NumPy is welcome)."""

    kind: str
    title: str
    data: Mapping[str, Any]


def report_html(title: str, parts: Sequence[Part], about: str = "", connects: bool = False) -> str:
    """The page. `about` is a sentence under the title; `connects`: it may talk to the server it comes from."""
    needed = dict.fromkeys(name for part in parts for name in KINDS[part.kind])
    script = _assets("report.js", "parts.js", *(name for name in needed if name.endswith(".js")))
    script += "\nkinfolk.draw();\n"
    style = _assets("report.css", *(name for name in needed if name.endswith(".css")))
    own = "connect-src 'self'; " if connects else ""
    shown = [{"kind": part.kind, "title": part.title, "data": part.data} for part in parts]
    return SKELETON.format(
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        f"{own}base-uri 'none'; form-action 'none'",
        title=html.escape(title).encode("ascii", "xmlcharrefreplace").decode(),  # a lone surrogate cannot be written
        style=style,
        data=_escaped_json({"title": title, "about": about, "parts": shown}),
        script=script,
    )


def policy_of(page: str) -> str:
    """What a page allows, for a server that says it once more."""
    return html.unescape(page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0])


def _assets(*names: str) -> str:
    folder = files("kinfolk.report") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _escaped_json(value: Any) -> str:
    """JSON without a character that means something to HTML, so that no text can end the block it stands in."""
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(value: Any) -> Any:
    """What JSON can hold: numbers of NumPy as Python's, rounded to what can be seen; no number becomes null."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def _rounded(value: float) -> float | None:
    """Six significant digits: a report is looked at, not computed with."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


# -- Where the reports of models go: one HTML file each ------------------------------------------------

PathLike = str | os.PathLike[str]


def check_report(path: PathLike | None) -> None:
    """Fail before the work, not after it."""
    if path is None:
        return
    try:
        check_writable(path)
    except ModelFileError as error:  # a report is no model
        raise SettingError.saying(str(error)) from None


def write_report(path: PathLike, title: str, parts: Sequence[Part], about: str = "") -> None:
    """`about` is a sentence under the title."""
    write_utf8(path, [report_html(title, parts, about)])
