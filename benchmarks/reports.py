"""How long a click in a report takes to answer, measured inside Chromium: a document of 3,000 tokens and more.

    python benchmarks/reports.py [--tokens 3000] [--chromium PATH]

The time is from the event to the frame after it: the handler, styles, layout and painting.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import kinfolk as kf
from kinfolk.datasets.newswire import newswire_split
from kinfolk.text.batch import Batch

CLICKS = 50
MEASURE = """async (clicks) => {
  const tokens = [...document.querySelectorAll(".token")], times = [];
  for (let k = 0; k < clicks; k++) {
    const token = tokens[Math.floor((k + 0.5) / clicks * tokens.length)];
    token.scrollIntoView({block: "center"});
    await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
    const began = performance.now();
    token.click();
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next, 0)));
    if (!document.querySelector(".doc-panel h3").innerText.includes(token.innerText)) throw new Error("no answer");
    times.push(performance.now() - began);
  }
  return times;
}"""


def one_large_document(n_tokens: int) -> kf.Corpus:
    """Documents of the generated newswire world, joined until there are tokens enough."""
    _, world = newswire_split(1, max(1, n_tokens // 80), seed=1)
    rows, labels, pos = world.rows(), world.label_rows(), world.rows("pos")
    total, kept = 0, 0
    while kept < len(rows) and total < n_tokens:
        total, kept = total + len(rows[kept]), kept + 1
    return kf.Corpus.from_sentences(rows[:kept], labels[:kept], documents=[kept], pos=pos[:kept])


def measured(page: Path, chromium: str) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-drawn=yes]")
        drawn = tab.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
        times = tab.evaluate(MEASURE, CLICKS)
        browser.close()
    return {"drawn": drawn, "times": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=3000)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    given = parser.parse_args()
    train, _ = newswire_split(100, 1, seed=0)
    document = one_large_document(given.tokens)
    models = (kf.MixtureTagger(order="both"), kf.LinearChainCRF())
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            page = Path(folder) / "page.html"
            model.fit(train).explain(document, document=0, report=page)
            found = measured(page, given.chromium)
            times = sorted(found["times"])
            edges = len(model._long_edges(Batch(document)))
            size, middle, slowest = page.stat().st_size / 1e6, statistics.median(times), times[-1]
            print(f"{type(model).__name__}: {document.n_tokens} tokens, {edges} long edges, {size:.1f} MB; drawn in "
                  f"{found['drawn']:.0f} ms; click to answer, {CLICKS} words: median {middle:.0f} ms, slowest "
                  f"{slowest:.0f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
