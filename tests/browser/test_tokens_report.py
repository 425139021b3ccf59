"""The report of a document, in a browser: words tell their probabilities, and whose word they followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.report.page import Part, report_html

HOSTILE = "<script>alert(1)</script>"
SENTENCES = [
    ["Kim", "met", "Clinton", "in", "Rome"],
    ["Clinton", "left"],
    ["The", "Clinton", "plan"],
    [HOSTILE, "</script><img", "src=x", "onerror=alert(2)>"],
]
LABELS = [["B-PER", "O", "B-PER", "O", "B-LOC"], ["B-PER", "O"], ["O", "B-PER", "O"], ["B-" + HOSTILE, "O", "O", "O"]]
CLICK_AND_LOOK = """() => {
    document.querySelectorAll(".token")[2990].click();
    return document.querySelector(".doc-panel").innerText;
}"""
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def corpus() -> kf.Corpus:
    return kf.Corpus.from_sentences(SENTENCES, labels=LABELS, documents=[4])


@pytest.fixture(scope="module")
def mixture(corpus: kf.Corpus) -> kf.MixtureTagger:
    skips = kf.SameWord(max_document_frequency=None)
    return kf.MixtureTagger(skip_edges=skips, order="both", n_jobs=1).fit(corpus)


def test_a_click_tells_whose_word_was_followed(open_page, corpus, mixture, tmp_path: Path) -> None:
    answers = mixture.explain(corpus, document=0, report=tmp_path / "why.html")
    page = open_page(tmp_path / "why.html")
    token = page.locator(".token", has_text="Clinton").nth(1)
    far = [sum(one.share for one in answer.contributions if one.relation == "same word") for answer in answers]
    assert page.locator(".token.chosen").get_attribute("data-i") == str(int(np.argmax(far)))  # it opens with an answer
    token.click()
    answer = answers[5]
    assert answer.label in page.locator(".doc-panel h3").first.text_content()
    shares = [float(text.split()[0]) for text in page.locator(".voice .share").all_text_contents()]
    assert shares == pytest.approx([100 * one.share for one in answer.contributions], abs=0.06)
    assert sum(shares) == pytest.approx(100, abs=0.3)
    said = " ".join(page.locator(".voice .quote").first.text_content().split())
    assert {"Kim met Clinton in Rome", "Clinton left", "The Clinton plan"} & {said}
    assert page.locator(".arc").count() == sum(5 in edge[:2] for edge in mixture._long_edges(_batch(corpus)))
    page.locator(".voice[role=button]").first.press("Enter")
    assert page.locator(".token.chosen").get_attribute("data-i") != "5"


def test_pointing_shows_the_probabilities(open_page, corpus, mixture, tmp_path: Path) -> None:
    mixture.explain(corpus, document=0, report=tmp_path / "why.html")
    page = open_page(tmp_path / "why.html")
    page.locator(".token", has_text="Rome").hover()
    best = mixture.predict_proba(corpus)[0][4].max()
    assert f"{100 * best:.1f} %" in page.locator(".tip").text_content()
    page.locator(".token", has_text="Kim").click()
    page.locator(".doc-text").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".token.chosen").text_content() == "met"


def test_words_and_labels_stay_text(open_page, corpus, mixture, tmp_path: Path) -> None:
    mixture.explain(corpus, document=0, report=tmp_path / "why.html")
    page = open_page(tmp_path / "why.html", width=360)
    page.locator(".token", has_text=HOSTILE).click()
    assert page.locator(".token", has_text=HOSTILE).text_content() == HOSTILE
    assert page.locator("main script, main img").count() == 0
    assert HOSTILE in page.locator(".doc-panel h3").first.text_content()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("model", [kf.LinearChainCRF(), kf.SkipChainCRF(), kf.StackedTagger(kf.MEMM(), folds=2)])
def test_other_models_show_what_features_say(open_page, model: Any, tmp_path: Path) -> None:
    words, tags = [SENTENCES[0], SENTENCES[1]] * 2, [LABELS[0], LABELS[1]] * 2
    corpus = kf.Corpus.from_sentences(words, labels=tags, documents=[2, 2])
    answers = model.fit(corpus).explain(corpus, document=1, report=tmp_path / "why.html")
    page = open_page(tmp_path / "why.html", dark=True)
    page.locator(".token", has_text="Clinton").first.click()
    told = page.locator(".feature code").all_text_contents()
    assert told == [one.feature for one in answers[2].contributions[:8]]


def test_a_large_document_answers_at_once(open_page) -> None:
    """The panel has changed when the click was handled: nothing is put off. The time: `benchmarks/reports.py`."""
    page = open_page(report_html("large", [large_part(3000, 500)]))
    told = page.evaluate(CLICK_AND_LOOK)
    assert "w2990" in told and "Whose word it followed" in told
    assert page.locator(".arc-faint").get_attribute("d").count("M") == 500


def test_an_empty_document(open_page) -> None:
    page = open_page(report_html("none", [large_part(0, 0)]))
    assert "no words" in page.locator(".doc-panel").text_content()


def test_lines_can_be_hidden(open_page) -> None:
    page = open_page(report_html("large", [large_part(1200, 20)]))
    assert page.locator(".doc-panel").text_content() == "Click a word to see why it has its label."
    page.get_by_role("button", name="hide the lines of 20 long edges").click()
    assert not page.locator(".arc-faint").is_visible()
    page.get_by_role("button", name="show the lines of 20 long edges").click()
    assert page.locator(".arc-faint").is_visible()


def large_part(n: int, n_edges: int) -> Part:
    """A part as `token_report` makes them, by hand."""
    rng = np.random.default_rng(0)
    classes = ["B-LOC", "B-PER", "I-PER", "O"]
    marginals = rng.dirichlet(np.ones(4), n) if n else np.empty((0, 4))
    edges = [[i, i - 1 - int(rng.integers(min(i, 900))), 1] for i in rng.integers(1000, max(n, 1001), n_edges).tolist()]
    voice = [0.5, 0.5, 3, 0.9, 3, 0.8, 0.7]
    return Part("tokens", "large", {
        "words": [f"w{i}" for i in range(n)], "sentences": [*range(0, n, 25), n], "classes": classes,
        "labels": marginals.argmax(axis=1), "gold": None, "marginals": marginals,
        "entities": [[i, i + 1, "PER", 0.9] for i in range(0, n, 7)], "relations": ["previous", "same word"],
        "edges": edges, "voices": [[[max(i - 1, 0), 0, *voice], [i // 2, 1, *voice]] for i in range(n)],
        "features": [[] for _ in range(n)], "chosen": -1,
    })  # fmt: skip


def _batch(corpus: kf.Corpus) -> Any:
    from kinfolk.text.batch import Batch

    return Batch(corpus)
