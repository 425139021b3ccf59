"""The page of evidence, docs/results.md, from what was kept of the experiments, and README's excerpt of it.

A row of the page is a data set, a model and a split. The excerpt is a table between two marks whose lines name such
rows; `refreshed` writes their figures anew, so that README says what the page says and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kinfolk import __version__
from kinfolk.errors import InputError
from kinfolk.papers.harness import (
    LONG,
    Result,
    Row,
    about,
    code_digest,
    figure,
    gain,
    gain_name,
    load,
    main_metric,
    metrics_of,
)  # fmt: skip

COMMAND = "kinfolk reproduce all --data DIR --markdown docs/results.md --readme README.md"
HEAD = f"""# Results

<!-- Written by `{COMMAND}` and by nothing else: do not edit. -->

Every experiment, as `{COMMAND}` found it. Each section names the command that prints its table alone; how to get the
data is said in [The data of the experiments](data.md).

- Figures are percentages unless they are named otherwise. In brackets: 95 % intervals, over documents by the bootstrap
  where there is one test set, over folds by Student's t where there are several. Folds share training data, so
  the latter are a rough guide.
- *Gain* is the difference to the local model of the same table, on the same documents or folds, with its own interval.
  Of errors, below 0 is better.
- *Paper* is the paper's own figure, beside the row with the paper's setting. Where the paper's data are not public
  others stand in for them, and the two figures are of different data.
- *Code* is a digest of the code that an experiment reaches, without comments and docstrings. A result that other code
  found than there was when this page was written says so.
- Rows of single folds, and all that was tried when settings were chosen, are in `results/EXPERIMENT.json`.

"""


def page(experiments: Mapping[str, str], kept: Mapping[str, Result]) -> str:
    """The whole page; `kept` has what there is of the experiments, whatever code found it."""
    missing = [name for name in experiments if name not in kept]
    text = [HEAD, f"kinfolk {__version__}.\n"]
    if missing:
        text.append(f"\n**Incomplete.** Not run yet: {', '.join(missing)}.\n")
    text.append("\n| experiment | rows | time | code |\n|---|---|---|---|\n")
    text += [f"| [{one.experiment}](#{one.experiment}) | {len(one.rows)} | {_time(one)} | {one.code} |\n"
             for one in _in_order(experiments, kept)]  # fmt: skip
    for name, place in experiments.items():
        text.append(_section(kept[name], code_digest(place)) if name in kept else _not_run(name, about(load(place))))
    return "".join(text)


def _in_order(experiments: Mapping[str, str], kept: Mapping[str, Result]) -> Iterator[Result]:
    return (kept[name] for name in experiments if name in kept)


def _not_run(name: str, what: str) -> str:
    return f"\n## {name}\n\n{what}\n\nNot run yet: `kinfolk reproduce {name} --data DIR --markdown docs/results.md`.\n"


def _time(result: Result) -> str:
    took = f"{result.seconds:.0f} s" if result.seconds < 300 else f"{result.seconds / 60:.0f} min"
    return f"{took} on {result.cores} core{'s' * (result.cores != 1)}"


def _section(result: Result, code: str) -> str:
    parts = [f"## {result.experiment}", result.about, f"`kinfolk reproduce {result.experiment} --data DIR`"]
    if result.code != code:
        when = "than there was when this page was written: to be run again"
        parts.append(f"**Found by other code ({result.code}) {when}.**")
    parts += [result.details, _table(result), _settings(result)]
    left_out = len(result.rows) - len(main_rows(result))
    note = f" {left_out} more rows are in `results/{result.experiment}.json`." if left_out else ""
    parts.append(f"{_time(result)}; kinfolk {result.version}, code {result.code}, data {result.data}.{note}")
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


# -- The table of an experiment -------------------------------------------------------------------------


def main_rows(result: Result) -> list[Row]:
    """Without single folds, which stand before their mean; of a long series, the last row of each model."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in result.rows:
        groups.setdefault((row["dataset"], row["model"], str(row.get("stage", ""))), []).append(row)
    kept = []
    for group in groups.values():
        mean = next((i for i, row in enumerate(group) if row["split"] == "mean"), None)
        kept += group[mean:] if mean is not None else group[-1:] if len(result.rows) > LONG else group
    wanted = {id(row) for row in kept}
    return [row for row in result.rows if id(row) in wanted]


def _table(result: Result) -> str:
    rows, columns = main_rows(result), [(name, _text(name)) for name in ("dataset", "model", "split")]
    for key in metrics_of(result):
        columns.append((key, partial(figure, result, metric=key)))
        columns.append((gain_name(result, key), partial(gain, result, metric=key)))
    columns += [("gain over", _text("gain_over"))] * (len(_local(rows)) > 1)
    columns += [("paper", partial(paper, result)), ("chosen on", _text("chosen_on"))]
    shown = [(name, of) for name, of in columns if any(of(row) for row in rows)]
    head = ["data" if name == "dataset" else name.replace("_", " ") for name, _ in shown]
    lines = [head, ["---"] * len(head), *([of(row) for _, of in shown] for row in rows)]
    note = [f"\nGains are over {name}." for name in _local(rows)]
    return "\n".join([*(_line(cells) for cells in lines), *note * (len(note) == 1)])


def _local(rows: Sequence[Row]) -> list[str]:
    """The rows that others gain over."""
    return list(dict.fromkeys(row["gain_over"] for row in rows if "gain_over" in row))


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: str(row.get(key, ""))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(one.replace("|", "\\|").replace("<", "&lt;") for one in cells) + " |"


def paper(result: Result, row: Row) -> str:
    """The paper's figures of this row, named where they are of another metric than the main one."""
    found = result.paper.get((row["dataset"], row["model"], row["split"]), {})
    main = main_metric(result)
    return ", ".join(f"{value:.1f}" if key == main else f"{key.replace('_', ' ')} {value:.1f}"
                     for key, value in found.items())  # fmt: skip


LONGEST = 600  # characters of a setting that is shown


def _settings(result: Result) -> str:
    lines = []
    for name, value in result.settings.items():
        text = value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
        form = f"in `results/{result.experiment}.json`" if len(text) > LONGEST else f"`{text}`"
        lines.append(f"- {name}: {form}")
    return "\n".join(["Settings:", "", *lines]) if lines else ""


# -- The excerpt in README: lines that name rows of the page, and their figures ------------------------------

BEGIN, END = "<!-- excerpt of docs/results.md: begin -->", "<!-- excerpt of docs/results.md: end -->"
HEADINGS = ["what", "experiment", "data", "model", "split", "metric", "figure", "gain", "paper"]
NOT_RUN = "not run yet"


def refreshed(text: str, kept: Mapping[str, Result], name: str = "README.md") -> str:
    """The text with the figures of its excerpt as they are in the results. The other cells are the author's."""
    found = re.search(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", text, re.DOTALL)
    if found is None:
        raise InputError(f"no excerpt of the results; it stands between {BEGIN!r} and {END!r}", name)
    lines = [line if _cells(line) is None else _refreshed(line, kept, name) for line in found[1].splitlines()]
    return text[: found.start(1)] + "\n".join(lines) + "\n" + text[found.end(1) :]


def strangers(text: str, kept: Mapping[str, Result]) -> list[str]:
    """Lines of the excerpt whose experiment was run and has no such row."""
    cells = [_cells(line) for line in text.partition(BEGIN)[2].partition(END)[0].splitlines()]
    return [", ".join(one[1:6]) for one in cells if one and one[1] in kept and one[6] == NOT_RUN]


def _cells(line: str) -> list[str] | None:
    """The cells of a line that names a row; None of any other line."""
    cells = [one.strip() for one in line.strip().strip("|").split("|")]
    is_row = line.startswith("|") and set(line) - set("|- ") and cells != HEADINGS
    return cells if is_row else None


def _refreshed(line: str, kept: Mapping[str, Result], name: str) -> str:
    cells = _cells(line)
    if cells is None or len(cells) != len(HEADINGS):
        raise InputError(f"expected the cells {', '.join(HEADINGS)} in a line of the excerpt; got {line!r}", name)
    what, experiment, dataset, model, split, metric, *_ = cells
    return _line(
        [what, experiment, dataset, model, split, metric, *excerpt(kept, experiment, dataset, model, split, metric)]
    )


def excerpt(
    kept: Mapping[str, Result], experiment: str, dataset: str, model: str, split: str, metric: str
) -> list[str]:
    """Figure, gain and paper's figure of one row of the page; of rows before and after clustering, those after."""
    result = kept.get(experiment)
    place = (dataset, model, split)
    rows = [row for row in result.rows if (row["dataset"], row["model"], row["split"]) == place] if result else []
    row: dict[str, Any] = next((row for row in reversed(rows) if metric.replace(" ", "_") in row), {})
    if result is None or not row:
        return [NOT_RUN, "", ""]
    key = metric.replace(" ", "_")
    printed = result.paper.get(place, {}).get(key)
    return [figure(result, row, key), gain(result, row, key), "" if printed is None else f"{printed:.1f}"]
