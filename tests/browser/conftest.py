"""A real browser for the reports: every page is watched for errors, dialogs and requests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run", "--disable-quic", "--disable-dev-shm-usage"]  # fmt: skip
Open = Callable[..., Any]


@pytest.fixture(scope="session")
def chromium() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on the path; install one or set CHROMIUM")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        opened.close()


Watch = Callable[[Any, list[str], tuple[str, ...]], None]


@pytest.fixture(scope="session")
def watch() -> Watch:
    """watch(page, faults, own): errors, warnings, dialogs and requests to other than `own` addresses become faults."""

    def watched(page: Any, faults: list[str], own: tuple[str, ...]) -> None:
        page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda r: faults.append(r.url) if not r.url.startswith(own) else None)

    return watched


@pytest.fixture
def open_page(browser: Any, watch: Watch, tmp_path: Path) -> Iterator[Open]:
    """open_page(html or path, width=..., dark=...) -> a page that was drawn; what is in `open_page.faults` at the end
    (errors, warnings, dialogs, requests) fails the test."""
    contexts: list[Any] = []
    faults: list[str] = []

    def opened(source: str | Path, width: int = 1200, height: int = 900, dark: bool = False) -> Any:
        path = source if isinstance(source, Path) else tmp_path / f"page{len(contexts)}.html"
        if isinstance(source, str):
            path.write_text(source, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        watch(page, faults, ("file:", "data:"))
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("html[data-drawn=yes]", timeout=60_000)
        return page

    opened.faults = faults  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert faults == []
