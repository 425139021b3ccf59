"""The page about a node, in a browser: neighbours are clicked, levels switched, and no name becomes markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.graph.page import Neighbour, NodeExplanation, mixture_node_part, write_node_report

pytestmark = pytest.mark.browser
CLASSES = ("<script>alert(1)</script>", "<img src=x onerror=alert(2)>", "theory")
RELATIONS = ("</script><script>alert(3)</script>", "'\"><svg onload=alert(4)>")
TITLE = "</p><script>alert(8)</script><img src=x onerror=alert(9)>"
WORDS = ["<b onclick=alert(5)>word</b>", "javascript:alert(6)", "&lt;i&gt;", "{{7*7}}"]


def a_graph(n: int = 60, hostile: bool = False) -> kf.Graph:
    """Features are weak, links are between equals: the levels differ."""
    rng = np.random.default_rng(5)
    codes = np.arange(n) % 3
    features = (rng.random((n, 4)) < 0.3 + 0.4 * np.eye(4)[codes]).astype(float)
    pairs = np.argwhere((codes[:, None] == codes) & (rng.random((n, n)) < 0.18) & ~np.eye(n, dtype=bool))
    cites, author = pairs[::2], pairs[1::2]
    names = RELATIONS if hostile else ("cites", "same author")
    classes = CLASSES if hostile else ("database", "learning", "theory")
    labels = [None if i % 2 else classes[c] for i, c in enumerate(codes)]
    ids = [f"<script>alert({i})</script>" if hostile else f"p{i}" for i in range(n)]
    words = WORDS if hostile else ["query", "network", "proof", "common"]
    relations = dict(zip(names, (cites, author), strict=True))
    titles = [TITLE] * n if hostile else None
    return kf.Graph(features, labels, relations, ids=ids, feature_names=words, classes=classes, titles=titles)


def titled(graph: kf.Graph) -> kf.Graph:
    """p1 and half of the others have titles, and that of p1 is too long."""
    titles = [f"On\npapers {i}" if i % 4 else None for i in range(graph.n_nodes)]
    titles[1] = "A study of " + "very " * 30 + "long titles"
    return kf.Graph(
        graph.features, graph.labels, dict(graph.relations), graph.ids, classes=graph.classes, titles=titles
    )


def a_report(folder: Path, graph: kf.Graph, node: int = 1, **settings: Any) -> tuple[Path, NodeExplanation]:
    model = kf.StackedNodes(LogisticRegression(), depth=2, cross_fitting="paper", n_jobs=1, **settings).fit(graph)
    path = folder / "why.html"
    return path, model.explain(graph, node=node, report=path)


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def neighbour_at(page: Any, one: Neighbour) -> Any:
    return page.locator(f".node[aria-label^='{one.name}:']")


def test_a_neighbour_is_clicked(open_page: Any, tmp_path: Path) -> None:
    path, answer = a_report(tmp_path, a_graph())
    page = open_page(path)
    assert page.locator("h1").text_content() == f"Why p1 is {answer.label}"
    assert page.locator(".node").count() == 1 + len({one.node for one in answer.neighbours})
    one = answer.neighbours[-1]
    neighbour_at(page, one).click()
    panel = page.locator(".panel")
    assert panel.locator("h3").text_content() == one.name
    told = int(one.votes[-1].argmax())
    assert f"{one.relation} gives {answer.classes[told]} {percent(one.votes[-1, told])}" in panel.text_content()
    assert neighbour_at(page, one).get_attribute("aria-pressed") == "true"
    page.locator(".node.centre").click()
    assert "the node in question" in panel.text_content()


def test_levels_are_switched(open_page: Any, tmp_path: Path) -> None:
    graph = a_graph()
    path, answer = a_report(tmp_path, graph)
    page = open_page(path)
    for number, level in enumerate(answer.levels):
        page.locator(".switches button").nth(number).click()
        best = int(level.distribution.argmax())
        assert page.locator(".node.centre").get_attribute("data-class") == answer.classes[best]
        assert percent(level.distribution[best]) in page.locator(".panel .bars").text_content()
        names = page.locator(".effect-name").all_text_contents()
        assert names == [one.name for one in level.aggregates] + ["all aggregates"] * bool(level.aggregates)
    shown = page.locator(".effect-value").all_text_contents()
    effects = [*(one.effect for one in answer.levels[-1].aggregates), answer.levels[-1].together]
    assert shown == [f"{'−' if x < 0 else '+'}{abs(100 * x):.1f} points" for x in effects]
    page.locator(".stack-row").first.click()  # the rows of the panel switch too
    assert page.locator(".switches button").first.get_attribute("aria-pressed") == "true"
    assert page.locator(".effect").count() == 0


def test_titles_are_shown_where_there_are_any(open_page: Any, tmp_path: Path) -> None:
    path, answer = a_report(tmp_path, titled(a_graph()))
    page = open_page(path)
    own = "A study of " + "very " * 21 + "ver…"  # 120 characters
    assert page.locator("h1").text_content() == f"Why p1 is {answer.label}"
    assert page.locator(".about").text_content().startswith(f"“{own}”\nStackedNodes. ") and len(own) == 120
    assert page.locator(".panel .node-title").text_content() == own
    one = next(one for one in answer.neighbours if one.node % 4 and one.node != 1)
    neighbour_at(page, one).click()
    neighbour_at(page, one).hover()
    assert page.locator(".panel .node-title").text_content() == f"On papers {one.node}"
    assert page.locator(".tip .node-title").text_content() == f"On papers {one.node}"
    without = next(one for one in answer.neighbours if one.node % 4 == 0)
    neighbour_at(page, without).click()
    neighbour_at(page, without).hover()
    assert page.locator(".panel h3").text_content() == without.name and page.locator(".node-title").count() == 0
    assert open_page(path, width=360).evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_hover_and_keyboard(open_page: Any, tmp_path: Path) -> None:
    path, answer = a_report(tmp_path, a_graph())
    page = open_page(path)
    one = answer.neighbours[0]
    neighbour_at(page, one).hover()
    assert one.name in page.locator(".tip").text_content() and "%" in page.locator(".tip").text_content()
    neighbour_at(page, one).focus()
    page.keyboard.press("Enter")
    assert page.locator(".panel h3").text_content() == one.name


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_redraws(open_page: Any, tmp_path: Path, dark: bool) -> None:
    path, _ = a_report(tmp_path, a_graph(150))
    page = open_page(path, width=360, dark=dark)
    fits = "document.documentElement.scrollWidth <= window.innerWidth"
    assert page.evaluate(fits)
    assert page.locator(".board svg").bounding_box()["width"] <= 360
    page.set_viewport_size({"width": 1000, "height": 800})
    width = 0.0
    for _ in range(100):  # it is drawn anew a moment later; the policy of the page lets no condition be sent into it
        box = page.locator(".board svg").bounding_box()  # None in between
        width = box["width"] if box else 0.0
        if width > 400:
            break
        page.wait_for_timeout(50)
    assert width > 400 and page.evaluate(fits)


def test_many_neighbours_are_drawn_in_part_and_listed(open_page: Any, tmp_path: Path) -> None:
    n = 200
    graph = kf.Graph(
        np.eye(n)[:, :3], [("a", "b", "c")[i % 3] for i in range(n)], {"knows": [(0, i) for i in range(1, n)]}
    )
    path, _ = a_report(tmp_path, graph, node=0)
    page = open_page(path)
    assert page.locator(".node").count() == 41
    assert page.get_by_text("159 more neighbours").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_hostile_names_stay_text(open_page: Any, tmp_path: Path) -> None:
    path, answer = a_report(tmp_path, a_graph(hostile=True))
    text = path.read_text(encoding="utf-8")
    assert text.count("<script") == 2 and "<img" not in text and "<svg" not in text
    page = open_page(path)
    for number in range(1 + len({one.node for one in answer.neighbours})):
        page.locator(f"[data-node='{number}']").click()
        page.locator(f"[data-node='{number}']").hover()
        assert page.locator(".panel h3").text_content().startswith("<script>alert(")
        assert page.locator(".panel .node-title").text_content() == page.locator(".tip .node-title").text_content()
        assert page.locator(".panel .node-title").text_content() == TITLE
    assert TITLE in page.locator(".about").text_content()
    for button in page.locator(".switches button").all():
        button.click()
    shown = page.locator("main").text_content()
    assert RELATIONS[0] in shown and CLASSES[0] in shown and WORDS[0] in shown
    assert page.locator("main script, main img, main b, main i").count() == 0
    assert open_page(path, width=360).evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_node_without_neighbours_and_a_base_alone(open_page: Any, tmp_path: Path) -> None:
    graph = a_graph()
    lonely = kf.Graph(graph.features, graph.labels, {"cites": [(2, 3), (3, 4)]}, ids=graph.ids, classes=graph.classes)
    path, _ = a_report(tmp_path, lonely, node=9)
    page = open_page(path)
    assert page.locator(".node").count() == 1 and "It has no neighbours." in page.locator(".lead").text_content()
    kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1).fit(graph).explain(graph, node=1, report=path)
    page = open_page(path)
    assert page.locator(".switches").count() == 0 and page.locator(".effect").count() == 0
    page.locator(".node").first.click()
    assert page.locator(".panel h4").count() >= 2


@pytest.mark.parametrize("hostile", [False, True])
def test_parents_of_a_mixture_with_their_shares(open_page: Any, tmp_path: Path, hostile: bool) -> None:
    graph = a_graph(hostile=True) if hostile else titled(a_graph())
    model = kf.MixtureNodes(training="separate", predict_orders=4, tolerance=1e-2, n_jobs=1).fit(graph)
    answer = model.explain(graph, node=1)
    path = tmp_path / "why.html"
    part = mixture_node_part(model._nodes(graph), answer, model.predict_proba(graph))
    write_node_report(path, part, "MixtureNodes")
    page = open_page(path)
    assert page.locator(".effect-value").all_text_contents() == [percent(one.share) for one in answer.contributions]
    first = next(one for one in answer.contributions if one.parent is not None)
    page.locator(".effect[role=button]").first.click()
    assert page.locator(".panel h3").text_content() == first.name
    assert page.locator(".panel .node-title").all_text_contents() == (
        page.locator(".effect[role=button]").first.locator(".node-title").all_text_contents()
    )
    assert page.locator(".effect .node-title").count() > 0 and page.locator(".switches").count() == 0
    assert page.locator("main script, main img").count() == 0
