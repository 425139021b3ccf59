"""The guides as a site, opened from its folder: the search finds, the reference is whole, nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf

SITE = Path(__file__).parents[2] / "site"
READY = "!/initializing/i.test(document.querySelector('.md-search-result__meta').textContent)"
pytestmark = pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="no site: `make test-docs` builds it")


@pytest.fixture
def guide(browser: Any, watch: Any) -> Iterator[Any]:
    """A page of the site in a browser; errors, and requests beyond the folder, fail the test."""
    faults: list[str] = []
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    watch(page, faults, (SITE.as_uri(),))
    page.goto((SITE / "tokens.html").as_uri())
    yield page
    page.close()
    assert not faults, faults


@pytest.mark.browser
@pytest.mark.parametrize(("words", "where"), [("Gibbs sampling", "dependency.html"), ("LinearChainCRF", "api.html")])
def test_the_search_finds_without_a_server(guide: Any, words: str, where: str) -> None:
    guide.click("input.md-search__input")  # the index is read when one begins to search
    guide.wait_for_function(READY)
    guide.keyboard.type(words)
    guide.wait_for_selector(".md-search-result__item a")
    found = [link.get_attribute("href") for link in guide.query_selector_all(".md-search-result__item a")]
    assert any(where in address for address in found), found
    guide.click(".md-search-result__item a")
    guide.wait_for_load_state()
    assert guide.url.startswith(SITE.as_uri()) and "tokens.html" not in guide.url.partition("?")[0]


@pytest.mark.parametrize("name", sorted({*kf.__all__} - {"__version__", "text", "graph", "linking"}))
def test_the_reference_tells_of_every_public_name(name: str) -> None:
    page = (SITE / "api.html").read_text(encoding="utf-8")
    assert re.search(rf'id="kinfolk\.(\w+\.)*{name}"', page), f"{name} has no heading"
