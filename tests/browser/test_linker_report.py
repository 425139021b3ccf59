"""The page about a linker in a browser: match weights, thresholds, blocking, columns; hostile names; a phone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf
from kinfolk.report.page import Part, report_html

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
LONG = "a very long name of a comparison that does not fit anywhere at all, however wide the page may be"


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    rules = ["key(postcode)", "key(date_of_birth)", "key(surname)"]
    return kf.Linker(blocking=rules, rounds=1, n_jobs=1).fit(kf.generate_customers(300, seed=1))


@pytest.fixture(scope="module")
def pages(linker: kf.Linker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """truth.html, with true clusters; bare.html, without; empty.html, of no records."""
    folder = tmp_path_factory.mktemp("pages")
    people = kf.generate_customers(300, seed=2)
    linker.report(people, folder / "truth.html", most=4)
    linker.report(replace(people, clusters=None), folder / "bare.html", most=4)
    linker.report(people.take([]), folder / "empty.html")
    return folder


def hostile_parts() -> list[Part]:
    columns = [
        {"name": HOSTILE, "known": 3, "n": 4, "distinct": 2, "top": [[HOSTILE, 2], [LONG, 1]], "range": None},
        {"name": LONG, "known": 0, "n": 0, "distinct": 0, "top": [], "range": None},
        {"name": "price", "known": 4, "n": 4, "distinct": 4, "top": [], "range": [1.5, 2.0, 1e9]},
    ]
    levels = [["missing", 0.0, 0.0, 0.0], [HOSTILE, -3.5, -1.0, 0.25], [LONG, 2.25, 3.0, 0.75]]
    size = {"clusters": 3, "largest": 2, "sizes": [2, 1]}
    curve = {"precision": [0.5, None], "recall": [1.0, 0.0]}
    return [
        Part("records", HOSTILE, {
            "tiles": [[HOSTILE, 4, HOSTILE]], "columns": columns, "more_columns": 2, "threshold": 0.5,
            "probabilities": [[0.0, 0.5, 100, 3.2], [0.5, 1.0, 0, 0.0]], "sizes": [["1", 2, 2], ["2", 1, 2]],
        }),
        Part("blocking", "Blocking", {
            "rules": [{"rule": HOSTILE, "pairs": 5, "true": 1}, {"rule": LONG, "pairs": 0, "true": 0}],
            "possible": 6, "matches": 2,
        }),
        Part("weights", "Weights", {
            "comparisons": [{"name": name, "levels": levels, "more": 3} for name in (HOSTILE, LONG)],
            "base": -4.5, "more": 1, "conjunctions": 2,
        }),
        Part("thresholds", "Thresholds", {
            "thresholds": [0.0, 0.5], "pairs": [5, 0], "curves": {"expected": curve, "measured": curve},
            "chosen": 0.5, "labelled": 12, "clusterer": HOSTILE, "clusters": [{"threshold": 0.5, **size}],
        }),
    ]  # fmt: skip


def test_every_level_of_every_comparison_has_a_bar(open_page: Any, pages: Path, linker: kf.Linker) -> None:
    page = open_page(pages / "truth.html")
    told = {one["name"]: one for one in linker.to_dict()["comparisons"]}
    assert page.locator(".part-weights .comparison").count() == len(told)
    first = page.locator(".part-weights .comparison").first
    levels = told[first.locator("h3").text_content()]["levels"]
    assert first.locator(".measure-name").all_text_contents() == [level["level"] for level in levels]
    shown = [float(text.replace("−", "-")) for text in first.locator(".measure-value").all_text_contents()]
    assert shown == [pytest.approx(level["difference"], abs=0.006) for level in levels]
    widths = [bar.evaluate("b => b.getBoundingClientRect().width") for bar in first.locator(".measure-fill").all()]
    longest = max(range(len(levels)), key=lambda k: abs(levels[k]["difference"]))
    assert widths[longest] == max(widths) > 0
    line = first.locator(".measure").nth(longest)
    line.scroll_into_view_if_needed()
    line.hover()
    assert f"weight {levels[longest]['weight']:+.2f}".replace("-", "−") in page.locator(".tip").text_content()


def test_rates_stand_under_the_pointer(open_page: Any, pages: Path) -> None:
    page = open_page(pages / "truth.html")
    charts = page.locator(".part-thresholds svg.chart")
    assert charts.count() == 3  # pairs, how many, after clustering
    field = charts.first.locator("rect.field")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    told = page.locator(".tip").text_content()
    assert all(one in told for one in ("pairs above", "precision, expected", "recall, measured"))
    assert page.locator(".part-thresholds tr.best").count() == 1
    assert page.locator(".part-thresholds tbody tr").count() == 12
    bare = open_page(pages / "bare.html")
    assert bare.locator(".part-thresholds svg.chart").count() == 2
    assert "measured" not in bare.locator(".part-thresholds .legend").first.text_content()


def test_rules_columns_and_clusters_are_drawn(open_page: Any, pages: Path) -> None:
    page = open_page(pages / "truth.html")
    assert page.locator(".part-blocking .card").count() == 2
    assert page.locator(".part-blocking .measure").count() == 8
    assert page.locator(".part-blocking .measure.best .measure-name").first.text_content() == "all rules"
    assert page.locator(".part-records .column-facts tbody tr").count() == 9
    assert page.locator(".part-records .tile").count() == 4
    assert page.locator(".part-links .cluster").count() == 4
    bare = open_page(pages / "bare.html")
    assert bare.locator(".part-blocking .card").count() == 1


def test_no_records_and_one(open_page: Any, pages: Path) -> None:
    page = open_page(pages / "empty.html")
    assert page.locator(".part-records .big").first.text_content() == "0"
    assert page.locator(".part-weights .comparison").count() > 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1200])
def test_pages_fit_and_names_stay_text(open_page: Any, pages: Path, width: int, dark: bool) -> None:
    for source in (report_html(HOSTILE, hostile_parts()), pages / "truth.html"):
        page = open_page(source, width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("img, main script").count() == 0
    page = open_page(report_html("t", hostile_parts()), width=width)
    assert page.locator(".part-weights h3").first.text_content() == HOSTILE
    assert page.locator(".part-blocking .measure-name").first.text_content() == HOSTILE
