"""Pages of scores and training in a real browser: drawn without errors, values under the pointer, hostile names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinfolk.report.page import Part, report_html
from kinfolk.report.scores import calibration, confusion

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
LABELS = (HOSTILE, "short", "a very long name of a class that does not fit anywhere at all")


def scores_part(of: str = "nodes", rows: Any = None) -> Part:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    matrix = confusion(rng.integers(3, size=200), rng.integers(3, size=200), LABELS)
    table = [[name, 0.5, None, 0.25, 10, 12345] for name in LABELS]
    data = {
        "headline": [[HOSTILE, 0.875, HOSTILE], ["accuracy", 0.5, "of 200"]],
        "classes": {
            "title": HOSTILE,
            "headings": ["label", "precision", "recall", "F1", "true", "predicted"],
            "rows": table,
            "share": [1, 2, 3],
        },
        "calibration": [
            {**calibration(p, rng.random(500) < p).as_dict(), "title": HOSTILE, "what": HOSTILE},
            {**calibration([], []).as_dict(), "title": "none", "what": "nothing"},
        ],
        "confusion": [{**matrix.as_dict(), "title": "Confusion", "what": HOSTILE}],
        "mistakes": {"of": of, "rows": rows or []},
    }
    return Part("scores", "Scores", data)


def training_part(**more: Any) -> Part:
    stage = {
        "name": HOSTILE, "status": "converged", "seconds": 1.25, "warm": [900.0, 300.0, 120.0], "best": 20,
        "objective": [list(range(1, 41)), [100 / i + 20 for i in range(1, 41)]],
        "held_out": [[10, 20, 30, 40], [0.5, 0.75, 0.7, 0.6]],
    }  # fmt: skip
    empty = {**stage, "name": "empty", "warm": [], "objective": [], "held_out": [], "best": None}
    single = {**empty, "name": "single", "objective": [[1], [3.0]]}
    data = {"facts": [["training", HOSTILE]], "stages": [stage, single, empty], "score": "entity F1", **more}
    return Part("training", "Training", data)


SCORES = [[0.5, 0.4], [0.75, 0.6], [0.7, 0.65]]
ROUNDS = {"metrics": [HOSTILE, "muc_f1"], "scores": SCORES, "links": [3, 4, 5], "best": 1}
MISTAKES = {
    "tokens": {
        "before": "…", "words": HOSTILE, "after": "x", "where": "document 0, token 3",
        "labels": [[HOSTILE, HOSTILE, "O", 0.99]],
    },
    "nodes": {"node": HOSTILE, "truth": HOSTILE, "predicted": "b", "sure": 0.9, "of_truth": 0.05},
    "pairs": {
        "names": [HOSTILE, "q"], "together": True, "probability": 0.01, "clustered": False,
        "fields": [[HOSTILE, HOSTILE, "w" * 60]],
    },
}  # fmt: skip


def test_values_stand_under_the_pointer(open_page) -> None:
    page = open_page(report_html("t", [training_part(rounds=ROUNDS), scores_part()]))
    charts = page.locator(".part-training svg.chart")
    assert charts.count() == 4  # rounds, objective, held-out, the single point
    field = charts.nth(1).locator("rect.field")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 14, box["y"] + box["height"] / 2)
    assert page.locator(".tip").text_content() == "iteration 40objective: 22.5"
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    assert page.locator(".tip").text_content() == "warm-up pass 1loss of warm-up passes, without the penalty: 900"
    spot = page.locator(".spot").first
    spot.scroll_into_view_if_needed()
    spot.hover()
    assert "50 answers" in page.locator(".tip").text_content()
    cell = page.locator("td.cell").first
    cell.scroll_into_view_if_needed()
    cell.hover()
    told = page.locator(".tip").text_content()
    assert f"truth: {HOSTILE}predicted: {HOSTILE}" in told and "of the row" in told


@pytest.mark.parametrize("of", list(MISTAKES))
@pytest.mark.parametrize("dark", [False, True])
def test_hostile_names_are_text_and_phones_do_not_scroll(open_page, of: str, dark: bool) -> None:
    parts = [scores_part(of, [MISTAKES[of]] * 2), training_part(rounds=ROUNDS)]
    page = open_page(report_html(HOSTILE, parts, HOSTILE), width=360, dark=dark)
    assert page.locator("img, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator(".mistakes li").count() == 2 and HOSTILE in page.locator(".mistakes li").first.text_content()
    assert page.locator(".tile .what").first.text_content() == HOSTILE
    assert page.locator(".part-training h3").nth(1).text_content() == HOSTILE
    ink, paper = page.locator(".chart text").first.evaluate(
        "e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]"
    )
    assert ink != paper


def test_nothing_to_show_is_said(open_page) -> None:
    page = open_page(report_html("t", [scores_part(), Part("training", "T", {"facts": [], "stages": [], "score": ""})]))
    assert "every answer is right" in page.locator(".part-scores").text_content()
    assert "nothing to compare" in page.locator(".part-scores").text_content()
    assert "There are no curves" in page.locator(".part-training").text_content()


def test_a_wide_matrix_is_seen_whole_or_says_that_it_scrolls(open_page) -> None:
    names = [f"a long class {i}" for i in range(6)]
    rng = np.random.default_rng(0)
    part = scores_part()
    matrix = confusion(rng.integers(6, size=200), rng.integers(6, size=200), names)
    part.data["confusion"] = [{**matrix.as_dict(), "title": "Confusion", "what": "Nodes."}]
    for width, whole in ((1200, True), (360, False)):
        page = open_page(report_html("t", [part]), width=width)
        box = page.locator(".matrices .scroll")
        assert box.evaluate("e => e.scrollWidth <= e.clientWidth + 1") == whole
        assert page.locator(".matrices .more").is_visible() != whole
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_few_answers_are_too_few_to_tell(open_page) -> None:
    part = scores_part()
    page = open_page(report_html("t", [part]))
    assert "too few" not in page.locator(".part-scores").text_content()
    few = calibration(np.linspace(0.1, 0.9, 30), np.ones(30)).as_dict()
    part.data["calibration"] = [{**few, "title": "few", "what": "each"}]
    told = open_page(report_html("t", [part])).locator(".part-scores").text_content()
    assert "30 are too few to tell" in told and "on the whole" not in told and "Pink bars" in told


def test_mistakes_of_pairs_are_told_by_kind(open_page) -> None:
    part = scores_part("pairs", [MISTAKES["pairs"]])
    missed = {**MISTAKES["pairs"], "probability": None}
    split, joined = {**missed, "probability": 0.9}, {**missed, "together": False, "clustered": True}
    others = [{"title": HOSTILE, "rows": [missed, split, joined]}]
    part.data["mistakes"] |= {"told": "2 true pairs are missed.", "others": others}
    page = open_page(report_html("t", [part]))
    assert page.locator(".counted").text_content() == "2 true pairs are missed."
    cards = page.locator(".mistakes li").all_text_contents()
    ends = ("did not set this right.", "no blocking rule brings them together.", "kept them apart.", "them together.")
    assert [card.endswith(end) for card, end in zip(cards, ends, strict=True)] == [True] * 4
    assert "undefined" not in page.locator("main").text_content() and "no candidate pair" in cards[1]


def test_warm_up_has_no_negative_iterations(open_page) -> None:
    part = training_part()
    part.data["stages"][0] |= {"learned": HOSTILE, "warm": [900.0 / i for i in range(1, 17)]}
    page = open_page(report_html("t", [part]))
    ticks = page.locator(".part-training svg.chart").first.locator("text").all_text_contents()
    assert "warm-up" in ticks and not any(tick.startswith(("-", "−")) for tick in ticks)
    assert page.locator(".learned").text_content() == HOSTILE


def test_bins_can_be_read_without_a_pointer(open_page) -> None:
    page = open_page(report_html("t", [scores_part()]))
    page.locator("details summary").first.press("Enter")
    assert page.locator("details table tbody tr").count() == 10
    assert page.locator("details table").first.is_visible()
