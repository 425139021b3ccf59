"""The page itself: drawn without errors, nothing runs or loads that is not ours."""

from __future__ import annotations

import numpy as np
import pytest

from kinfolk.report.page import KINDS, Part, plain, report_html

HOSTILE = (
    "<script>alert(1)</script>", "</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>",
    "<!--<script>", "&lt;b&gt;", "javascript:alert(4)", "'\"><svg onload=alert(5)>", "\u2028\x00\ud800", "{{7*7}}",
)  # fmt: skip


BREAK_IN = """() => {
    const seen = [];
    window.ran = seen;
    window.addEventListener("securitypolicyviolation", (event) => seen.push(event.violatedDirective));
    const script = document.createElement("script");
    script.textContent = "window.ran.push('script')";
    const image = document.createElement("div");
    image.innerHTML = "<img src=x: onerror=\\"window.ran.push('handler')\\">";
    document.body.append(script, image);
    return new Promise((done) => setTimeout(() => done(seen), 300));
}"""


def test_no_text_leaves_its_block() -> None:
    page = report_html(HOSTILE[0], [Part("text", HOSTILE[1], {"paragraphs": HOSTILE})], HOSTILE[2])
    assert page.count("<script") == 2 and page.count("</script") == 2
    assert "<img" not in page and "alert(3)>" not in page and "<!--" not in page
    page.encode("utf-8")  # lone surrogates stay escaped
    report_html("\ud800", []).encode("utf-8")


def test_numbers_become_plain() -> None:
    given = {"a": np.array([[1.0, np.nan]]), 2: np.float32(0.5), "b": (np.int64(3), np.inf, True, None, 0.123456789)}
    assert plain(given) == {"a": [[1.0, None]], "2": 0.5, "b": [3, None, True, None, 0.123457]}


def test_every_asset_is_there() -> None:
    for kind in KINDS:
        assert "default-src 'none'" in report_html("t", [Part(kind, "t", {})])


@pytest.mark.browser
def test_hostile_text_is_shown_as_text(open_page) -> None:
    parts = [Part("text", text, {"paragraphs": [text], "facts": [[text, text]]}) for text in HOSTILE]
    parts.append(Part("table", HOSTILE[0], {"headings": HOSTILE[:2], "rows": [HOSTILE[2:4]], "note": HOSTILE[0]}))
    page = open_page(report_html(HOSTILE[1], parts, HOSTILE[2]))
    assert page.locator("h1").text_content() == HOSTILE[1]
    assert page.locator("section p").first.text_content() == HOSTILE[0]
    assert page.locator("img, main script, main svg").count() == 0
    assert page.locator("th").first.text_content() == HOSTILE[0]


@pytest.mark.browser
def test_a_script_that_came_in_would_not_run(open_page) -> None:
    """The second wall: markup put into the page by force, past the first."""
    page = open_page(report_html("t", [Part("text", "p", {"paragraphs": ["x"]})]))
    ran = page.evaluate(BREAK_IN)
    assert "script" not in ran and "handler" not in ran and any(one.startswith("script-src") for one in ran)
    assert open_page.faults and all("Content Security Policy" in fault or fault == "x:" for fault in open_page.faults)
    open_page.faults.clear()


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
def test_pages_fit_a_phone(open_page, dark: bool) -> None:
    rows = [["a long name of a model " * 3, 1.5]] * 3
    html = report_html("w" * 200, [Part("table", "t", {"headings": ["m", "f"], "rows": rows})])
    page = open_page(html, width=360, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 24, 29)") == dark
