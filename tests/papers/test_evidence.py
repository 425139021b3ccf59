"""The page of results and README's excerpt of it: what stands in them, and that the two kept here agree."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kinfolk.cli.reproduce import EXPERIMENTS
from kinfolk.errors import InputError
from kinfolk.papers import evidence, harness
from kinfolk.papers.evidence import (
    BEGIN,
    END,
    EXCERPT,
    HEADINGS,
    NOT_RUN,
    SPEED_BEGIN,
    SPEED_END,
    Line,
    excerpt,
    figures,
    main_rows,
    page,
    refreshed,
    speed,
    strangers,
)
from kinfolk.papers.harness import Result, as_json, bare_code, code_digest, kept_result, table

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "docs" / "results.md"
OTHER_CODE = "**Found by other code"
CODE = "c0de12345678"


@pytest.fixture(autouse=True)
def the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page takes the code there is for; how a digest is found has a test of its own."""
    monkeypatch.setattr(evidence, "code_digest", lambda place: CODE)


def small_result(**more: Any) -> Result:
    rows = table("cora", ["1", "2", "3"], {"local": [70.0, 72.0, 74.0], "stacked": [74.0, 75.0, 79.0]}, "stacked")
    rows[-1]["chosen_on"] = "training papers"
    paper = {("cora", "stacked", "mean"): {"accuracy": 73.8, "recall": 50.0}}
    known = {"about": "Cora.", "details": "Five folds.", "cores": 2, "code": CODE, "data": "d1", **more}
    return Result("stacked-cora", rows, 12.3, {"C": 1.0, "tried": ["x" * 700]}, ("accuracy", "p_value"), paper, **known)


SMALL = {"stacked-cora": "stacking.stacked_cora", "stacked-slif": "stacking.stacked_slif"}


def section(text: str, name: str) -> str:
    return text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


# -- the page ------------------------------------------------------------------------------------------


def test_a_section_has_what_it_is_its_command_rows_with_intervals_and_how_it_was_found():
    found = section(page(SMALL, {"stacked-cora": small_result()}), "stacked-cora")
    assert "Cora.\n\n`kinfolk reproduce stacked-cora --data DIR`\n\nFive folds." in found
    head, _, local, stacked = [line for line in found.splitlines() if line.startswith("|")]
    assert head == "| data | model | split | accuracy | gain | p value | paper | chosen on |"
    assert local.startswith("| cora | local | mean | 72.00 [67.03, 76.97] |  | 0.0202 against stacked |")
    own, beside = "76.00 [69.43, 82.57] | +4.00 [+1.52, +6.48]", "73.8, recall 50.0 | training papers"
    assert stacked == f"| cora | stacked | mean | {own} |  | {beside} |"
    assert "\nGains are over local.\n" in found
    assert "- C: `1.0`" in found and "- tried: in `results/stacked-cora.json`" in found
    assert f"12 s on 2 cores; kinfolk {harness.__version__}, code {CODE}, data d1." in found
    assert "6 more rows are in `results/stacked-cora.json`" in found


def test_what_was_not_run_and_what_other_code_found_is_said():
    text = page(SMALL, {"stacked-cora": small_result(code="0123456789ab")})
    assert "**Incomplete.** Not run yet: stacked-slif." in text
    assert "Not run yet: `kinfolk reproduce stacked-slif --data DIR" in section(text, "stacked-slif")
    assert f"{OTHER_CODE} (0123456789ab) than there was" in section(text, "stacked-cora")
    whole = page({"stacked-cora": SMALL["stacked-cora"]}, {"stacked-cora": small_result()})
    assert "Incomplete" not in whole and "other code (" not in whole


def test_rows_of_folds_are_left_out_and_long_series_end_in_one_row():
    rows = [{"dataset": "d", "model": m, "split": f"iteration {i}", "accuracy": i} for m in "ab" for i in range(60)]
    result = Result("x", rows, shown=("accuracy",))
    assert [row["split"] for row in main_rows(result)] == ["iteration 59"] * 2
    few = Result("x", rows[:5], shown=("accuracy",))
    assert main_rows(few) == rows[:5]
    pages = [*small_result().rows, {"dataset": "cora", "model": "stacked", "split": "all pages", "accuracy": 1.0}]
    assert [row["split"] for row in main_rows(Result("x", pages))] == ["mean", "mean", "all pages"]


def test_intervals_are_of_the_first_number_that_is_shown():
    rows = [{"dataset": "d", "model": "m", "split": "test", "stage": "after", "f1": 50.0, "lower": 40, "upper": 60}]
    found = page({"x": ""}, {"x": Result("x", rows, shown=("stage", "f1", "absent"))})
    assert (
        "| data | model | split | stage | f1 |\n" in found
        and "| d | m | test | after | 50.00 [40.00, 60.00] |" in found
    )


def test_other_metrics_may_have_intervals_and_gains_of_their_own():
    row = {
        "dataset": "d",
        "model": "m",
        "split": "test",
        "f1": 50.0,
        "conll": 70.0,
        "conll_lower": 69,
        "conll_upper": 71,
    }
    row |= {"conll_gain": 1.5, "conll_gain_lower": 0.5, "conll_gain_upper": 2.5, "gain": -1.0}
    result = Result("x", [row], shown=("f1", "conll", "conll_gain", "conll_gain_lower", "conll_gain_upper"))
    found = page({"x": ""}, {"x": result})
    assert "| data | model | split | f1 | gain | conll | conll gain |\n" in found
    assert "| d | m | test | 50.00 | -1.00 | 70.00 [69.00, 71.00] | +1.50 [+0.50, +2.50] |" in found
    result.rows.append({**row, "model": "local", "conll": 68.5})
    result.rows[0]["gain_over"] = "local"
    line = Line("what", "x", "d", "local", "m", "test", "conll")
    assert figures(line, {"x": result}) == ["68.50", "m 70.00", "+1.50 [+0.50, +2.50]"]


def test_where_rows_gain_over_different_models_each_names_its_own():
    place = {"dataset": "d", "split": "test", "f1": 50.0, "gain": 1.0}
    rows = [{**place, "model": model, "gain_over": over} for model, over in (("mixture", "MEMM"), ("skip", "CRF"))]
    found = page({"x": ""}, {"x": Result("x", rows, shown=("f1",))})
    assert "| d | skip | test | 50.00 | +1.00 | CRF |" in found and "Gains are over" not in found


def test_a_cell_cannot_break_the_table():
    rows = [{"dataset": "a|b", "model": "<b>", "split": "test", "f1": 1.0}]
    assert "| a\\|b | &lt;b> | test | 1.00 |" in page({"x": ""}, {"x": Result("x", rows, shown=("f1",))})


# -- what is kept, and when it is taken for the same ---------------------------------------------------


def test_a_result_is_kept_whole(tmp_path: Path):
    file = tmp_path / "a.json"
    file.write_text(as_json(small_result().as_dict()))
    found = kept_result(file)
    assert found is not None and found.from_before
    assert json.dumps(found.as_dict()) == json.dumps(small_result().as_dict())
    assert len(file.read_text().splitlines()) > len(found.rows)
    assert kept_result(tmp_path / "none.json") is None


SOURCE = '''"""A module."""
# a comment
def f(a):  # another
    """What
    it does."""

    "not needed"
    return a + "# no comment" + """
    text"""
'''


def test_comments_and_docstrings_are_no_part_of_the_code_and_all_else_is():
    assert bare_code(SOURCE) == 'def f(a):\n    return a + "# no comment" + """\n    text"""'
    assert bare_code(SOURCE.replace("comment", "remark").replace("What", "How")) != bare_code(SOURCE)
    assert bare_code(SOURCE.replace("a comment", "a remark").replace("What", "How")) == bare_code(SOURCE)
    assert bare_code(SOURCE.replace("a + ", "a - ")) != bare_code(SOURCE)
    assert bare_code("") == ""


def test_the_digest_of_the_code_follows_what_computes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def digest(**files: str) -> str:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.with_suffix(".py").parent.mkdir(exist_ok=True)
            path.with_suffix(".py").write_text(text)
        return code_digest.__wrapped__("one.table")

    monkeypatch.setattr(harness, "__file__", str(tmp_path / "papers" / "harness.py"))
    one = "from kinfolk.core import a\ndef f():\n    from kinfolk.core.b import c\n    import kinfolk.cli.main\n"
    first = digest(papers__one=one, core__a="x = 1\n", core__b="c = 1\n", core__d="d = 1\n", cli__main="y = 1\n")
    assert digest(core__a="# same\nx = 1\n", cli__main="y = 2\n", core__d="d = 2\n") == first, "not computed with"
    assert digest(core__a="from kinfolk.core.d import d\nx = 1\n") not in (first, digest(core__d="d = 3\n"))
    assert digest(core__a="x = 1\n") == first
    assert digest(core__b="c = 2\n") != first
    assert len(first) == 12


# -- the excerpt ---------------------------------------------------------------------------------------

README = f"# x\n\n{BEGIN}\n| old | table |\n{END}\n\nrest | of it |\n{SPEED_BEGIN}\n{SPEED_END}\n"
CORA = Line("papers", "stacked-cora", "cora", "local", "stacked", "mean", "accuracy")


@pytest.fixture
def one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "EXCERPT", (CORA, CORA._replace(task="other", experiment="stacked-slif")))


def test_an_excerpt_has_local_collective_and_gain_from_the_results_and_nothing_else_changes(one_line: None):
    found = refreshed(README, {"stacked-cora": small_result()})
    head, _, cora, slif = found.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    assert head == f"| {' | '.join(HEADINGS)} |" and found.startswith(README.partition(BEGIN)[0])
    command = "`kinfolk reproduce stacked-cora`"
    assert cora == f"| papers | 72.00 | stacked 76.00 | +4.00 [+1.52, +6.48] | {command} |"
    assert slif == f"| other | {NOT_RUN} |  |  | `kinfolk reproduce stacked-slif` |"
    assert refreshed(found, {"stacked-cora": small_result()}) == found and "rest | of it |" in found
    assert NOT_RUN in found.partition(SPEED_BEGIN)[2]


def test_an_experiment_without_the_rows_of_a_line_is_told(one_line: None):
    """Also where the collective row gains over another than the local row of the line."""
    assert strangers({}) == [] == strangers({"stacked-cora": small_result()})
    wrong = small_result()
    wrong.rows[-1]["gain_over"] = "another"
    assert strangers({"stacked-cora": wrong}) == ["stacked-cora: cora, stacked over local, mean"]
    assert figures(CORA._replace(local="unheard of"), {"stacked-cora": small_result()})[0] == NOT_RUN


def test_the_speed_of_inference_comes_from_the_results():
    assert speed({}).endswith(f"(`kinfolk reproduce gibbs-speed`): {NOT_RUN}.")
    row = {"dataset": "all four", "model": "stacked k=1", "split": "mean", "speedup_100": 80.04}
    result = Result("gibbs-speed", [{**row, "fast_speedup_100": 4.06}])
    assert speed({"gibbs-speed": result}).endswith(
        ": 80.0 times as fast as through the same code, 4.1 times as fast as the fastest kernel."
    )
    printed = {("all four", "stacked k=1", "mean"): {"speedup_100": 84.8}}
    assert "the paper's, of its own: 84.8." in speed({"gibbs-speed": replace(result, paper=printed)})


def test_the_line_beside_other_libraries_comes_from_the_results_and_theirs_stay():
    place = {"dataset": "restaurants", "model": "structured", "split": "mean"}
    rows = [{**place, "stage": "before", "f1": 1.0}, {**place, "stage": "after", "f1": 95.04}]
    text = f"{README}| kinfolk | old |\n| Splink | 95.9 |\n"
    found = refreshed(text, {"slt-records": Result("slt-records", rows, shown=("f1",))}).splitlines()
    others = " | ".join([NOT_RUN] * 3)
    assert found[-2:] == [f"| kinfolk | {NOT_RUN} | 95.0 | {others} |", "| Splink | 95.9 |"]


def test_lines_of_the_excerpt_are_one_a_data_set_by_one_rule():
    """Of stacks k=1 always, never the better of two depths."""
    assert len({(one.experiment, one.dataset) for one in EXCERPT}) == len({one.task for one in EXCERPT}) == len(EXCERPT)
    assert {one.collective for one in EXCERPT if one.experiment.startswith("stacked")} == {"stacked k=1"}
    expected = {name for name in EXPERIMENTS if name.startswith(("stacked", "slt"))}
    assert {one.experiment for one in EXCERPT} == expected, "losses are shown too"


def test_an_excerpt_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"README.md: no excerpt of the results; it stands between"):
        refreshed("# x\n", {})
    with pytest.raises(InputError, match=r"speed of docs/results\.md"):
        refreshed(README.replace(SPEED_END, ""), {})


# -- the ones of this repository -----------------------------------------------------------------------


def kept_here() -> dict[str, Result]:
    found = {name: kept_result(RESULTS.with_suffix("") / f"{name}.json") for name in EXPERIMENTS}
    return {name: result for name, result in found.items() if result is not None}


def test_the_page_here_was_written_by_its_command_from_the_results_beside_it():
    text, kept = RESULTS.read_text(encoding="utf-8"), kept_here()
    assert evidence.COMMAND in text.split("\n\n")[1] and len(text) < 1_000_000
    known = {EXPERIMENTS[name]: one.code for name, one in kept.items() if OTHER_CODE not in section(text, name)}
    assert kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "code_digest", lambda place: known.get(place, ""))  # as when it was written
        again = page(EXPERIMENTS, kept)
    for name in kept:
        assert section(text, name) == section(again, name) != "", f"to be written anew: {evidence.COMMAND}"


def test_every_figure_of_readme_is_one_of_the_page():
    """A figure in README's excerpt stands in the row of the page that its line names."""
    text, kept = (REPOSITORY / "README.md").read_text(encoding="utf-8"), kept_here()
    assert refreshed(text, kept) == text, f"to be written anew: {evidence.COMMAND}"
    if strangers(kept):  # may be of results that other code found
        current = {name: one for name, one in kept.items() if one.code == code_digest(EXPERIMENTS[name])}
        assert not strangers(current)
    results, lines = RESULTS.read_text(encoding="utf-8"), excerpt(kept).splitlines()[2:]
    shown = 0
    for one, line in zip(EXCERPT, lines, strict=True):
        local, collective, gain = figures(one, kept)
        assert f"| {one.task} | {local} | {collective} | {gain} |" in line
        rows = section(results, one.experiment).splitlines()
        for model, cell, more in ((one.local, local, ""), (one.collective, collective, gain)):
            if cell in (NOT_RUN, ""):
                continue
            place, figure = f"| {one.dataset} | {model} | {one.split} |", cell.rpartition(" ")[2]
            assert any(place in row and f"| {figure} [" in row and more in row for row in rows), line
            shown += 1
    assert shown
