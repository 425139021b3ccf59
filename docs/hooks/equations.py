"""Equations become MathML while the site is built, so a page needs no script and no network to show them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# what pymdownx.arithmatex makes of $...$ and of $$...$$
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""
    return EQUATION.sub(_equation, content)


def _equation(found: re.Match[str]) -> str:
    tag, bracket, latex = found.groups()
    display = "inline" if bracket == "(" else "block"
    return f'<{tag} class="equation">{convert(html.unescape(latex), display=display)}</{tag}>'
