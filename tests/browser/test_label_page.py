"""The labelling page in a browser: keys, back, reload, a page that is closed and opened again; nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_report_page import BREAK_IN, HOSTILE

import kinfolk as kf
import label_world
from kinfolk.linking.label_server import LabelServer

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


@pytest.fixture
def visit(browser: Any, watch: Any) -> Iterator[Visit]:
    """visit(server) -> the page; errors, dialogs and requests to elsewhere fail the test."""
    contexts: list[Any] = []
    faults: list[str] = []

    def opened(server: LabelServer, width: int = 1200) -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        watch(page, faults, (server.address, "data:"))
        page.goto(server.address)
        page.wait_for_selector("html[data-drawn=yes]")
        return page

    opened.faults = faults  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def ids(page: Any) -> list[str]:
    return [str(one) for one in page.locator("th.label-id").all_text_contents()]


def press(page: Any, key: str, answers: int) -> None:
    page.keyboard.press(key)
    page.wait_for_selector(f"section[data-answers='{answers}']")


def lines(path: Path) -> list[list[str]]:
    return [line.split(",")[:3] for line in path.read_text().splitlines()[1:]]


def test_keys_answer_and_every_answer_is_on_disk(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with label_world.served(path) as server:
        page, wanted = visit(server), []
        for number, (key, word) in enumerate([("y", "yes"), ("n", "no"), ("u", "unsure"), ("Y", "yes")], 1):
            wanted.append([*ids(page), word])
            press(page, key, number)
            assert lines(path) == wanted and ids(page) != wanted[-1][:2]
        assert "4 answers: 2 yes, 1 no, 1 unsure" in page.locator(".label-progress").text_content()
        words = "An estimate needs 10 answers of yes or no; there are 3."
        assert words in page.locator(".label-progress").text_content()
        page.keyboard.press("Control+y")
        page.keyboard.press("x")
        page.locator("button[data-key=n]").click()
        page.wait_for_selector("section[data-answers='5']")
        assert len(lines(path)) == 5
        for number in range(6, 12):
            press(page, "yn"[number % 2], number)
        assert "Estimated pairwise F1" in page.locator(".label-estimate").text_content()


def test_back_asks_again_and_a_reload_or_another_window_goes_on(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with label_world.served(path) as server:
        page = visit(server)
        first = ids(page)
        press(page, "y", 1)
        second = ids(page)
        press(page, "y", 2)
        press(page, "b", 1)
        assert ids(page) == second and lines(path) == [[*first, "yes"]]
        press(page, "b", 0)
        assert ids(page) == first and lines(path) == []
        page.keyboard.press("b")
        page.wait_for_selector(".label-note:has-text('no answer to take back')")
        press(page, "n", 1)
        page.reload()
        page.wait_for_selector("section[data-answers='1']")
        assert ids(page) == second
        page.context.close()  # the browser goes away
        again = visit(server)
        assert ids(again) == second and lines(path) == [[*first, "no"]]
        press(again, "u", 2)
    with label_world.served(path) as server:  # and so does the server
        page = visit(server)
        page.wait_for_selector("section[data-answers='2']")
        assert ids(page) not in (first, second)


def test_a_second_window_cannot_answer_a_question_that_is_gone(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with label_world.served(path) as server:
        one, other = visit(server), visit(server)
        first = ids(one)
        press(one, "y", 1)
        other.keyboard.press("n")
        other.wait_for_selector(".label-note:has-text('nothing was changed')")
        assert ids(other) == ids(one) and lines(path) == [[*first, "yes"]]


def test_the_model_is_updated_while_one_goes_on(visit: Visit, tmp_path: Path) -> None:
    with label_world.served(tmp_path / "labels.csv", every=4) as server:
        page = visit(server)
        for number in range(1, 5):
            press(page, "y" if number % 2 else "n", number)
        page.wait_for_selector("section[data-updates='1']")
        assert page.locator(".label-note").text_content() == "Model updated (1)."
        press(page, "u", 5)


def test_a_late_reply_does_not_bring_an_answered_question_back(visit: Visit, tmp_path: Path) -> None:
    """While the model learns the page asks how far it is; an answer given meanwhile stands."""
    held: list[Any] = []
    with label_world.served(tmp_path / "labels.csv", every=2) as server:
        page = visit(server)
        page.route("**/state", lambda route: held.append(route))
        press(page, "y", 1)
        press(page, "n", 2)
        before = {**server.state(), "updating": True}
        page.route("**/answer", lambda route: route.fulfill(json=before))
        with page.expect_response("**/answer"):
            page.keyboard.press("u")  # the reply says that the model is being trained: the page will ask again
        page.wait_for_timeout(1500)
        page.unroute("**/answer")
        assert held
        press(page, "n", 3)
        shown = ids(page)
        for late in held:
            late.fulfill(json=before)
        page.wait_for_timeout(200)
        assert ids(page) == shown and page.locator("section[data-answers='3']").count() == 1
        page.unroute("**/state")


def test_a_server_that_went_away_is_told(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with label_world.served(path) as server:
        page = visit(server)
        press(page, "y", 1)
    page.keyboard.press("n")
    page.wait_for_selector(".label-note:has-text('still running')")
    assert "all before it are on disk" in page.locator(".label-note").text_content() and len(lines(path)) == 1
    assert all("ERR_CONNECTION_REFUSED" in fault for fault in visit.faults)
    visit.faults.clear()


@pytest.fixture
def hostile() -> kf.Mentions:
    people = label_world.people()
    names = [HOSTILE[i % len(HOSTILE)].encode("utf-8", "replace").decode() for i in range(people.n_items)]
    return people.with_columns(**{HOSTILE[0]: names, "street_number": [f"{i}<b>" for i in range(people.n_items)]})


def test_hostile_text_is_text_and_a_script_that_came_in_would_not_run(visit: Visit, hostile: kf.Mentions) -> None:
    with label_world.served(None, hostile) as server:
        page = visit(server, width=360)
        assert page.locator("img, main script, main b").count() == 0
        assert page.locator("tbody th", has_text=HOSTILE[0]).count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        column = page.locator("tbody tr").last.locator("td").all_text_contents()
        assert all(any(text.strip() == one.replace("\x00", "").strip() for one in HOSTILE) or text for text in column)
        ran = page.evaluate(BREAK_IN)
        assert "script" not in ran and "handler" not in ran
        foreign = page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'went', () => 'refused')")
        assert foreign == "refused"
    assert visit.faults and all("Content Security Policy" in one or one == "x:" for one in visit.faults)
    visit.faults.clear()


def test_what_differs_is_marked(visit: Visit) -> None:
    with label_world.served(None) as server:
        page = visit(server)
        for row in page.locator("tbody tr").all():
            left, right = (
                "".join(
                    cell.evaluate("c => [...c.childNodes].filter(n => n.nodeName !== 'MARK').map(n => n.textContent)")
                )
                for cell in row.locator("td").all()
            )
            missing = row.locator(".label-missing").count()
            assert left == right or missing
            assert (row.locator("mark").count() > 0) == (
                "label-differs" in (row.get_attribute("class") or "")
            ) or missing
