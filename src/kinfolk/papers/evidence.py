"""The page of evidence, docs/results.md, from what was kept of the experiments, and README's excerpt of it.

A row of the page is a data set, a model and a split. The excerpt stands between marks in README: a line of EXCERPT
names two such rows, and `refreshed` writes all of it anew, so that README says what the page says and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

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
  where there is one test set (over true entities for records), over folds by Student's t where there are several. Folds
  share training data, so the latter are a rough guide; they are symmetric, not clipped, and so can pass 0 or 100.
- *Gain* is the difference to the local model of the same table (which one says *gain over*, or the line below the
  table), on the same documents, entities or folds, with its own interval. Of errors, below 0 is better.
- *P value* is of a two-sided paired t-test over the folds, against the model named behind it: in stacking's tables
  stacked k=1, not the local model.
- *Paper* is the paper's own figure, beside the row with the paper's setting. Where the paper's data are not public
  others stand in for them, and the two figures are of different data.
- *Code* is a digest of the code that an experiment reaches, without comments and docstrings. A result that other code
  found than there was when this page was written says so.
- Rows of single folds, and all that was tried when settings were chosen, are in `results/EXPERIMENT.json`.
- The pool of `StackedNodes()` stands beside GraphSAGE, GCN, SGC and others, with its time, in
  [Nodes, measured](nodes_measured.md), which `benchmarks/nodes.py` writes.

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


# -- The excerpt in README: a line a data set, and the speed of inference ----------------------------------


class Line(NamedTuple):
    """A task, and its rows on the page: that of the local model and that of the collective one, which gains over it."""

    task: str
    experiment: str
    dataset: str
    local: str
    collective: str
    split: str
    metric: str


STACKED = ("local", "stacked k=1", "mean")
CRF = ("linear-chain CRF", "stacked k=1", "testb")
RANKING = ("local, best tuned", "ranking", "test")
RECORDS = Line("records: seven sets, pair F1", "slt-records", "all seven", "local", "structured", "mean", "f1")
# Every data set, whether the collective model gains or not, by one rule: of stacks k=1, neighbours predicted (of names
# with the templates set on training abstracts of GENIA, of nodes with the paper's); of mentions `training="ranking"` as
# it is by default; of records the default of Linker. So no line is the better of two.
EXCERPT = (
    Line("names in news: CoNLL-2003, testb, entity F1", "stacked-conll", "conll2003", *CRF, "f1"),
    Line("proteins in abstracts: GENIA, entity F1", "stacked-genia", "genia", *STACKED, "f1"),
    Line("proteins in abstracts: AIMed, entity F1", "stacked-aimed", "aimed", *STACKED, "f1"),
    Line("people in e-mail: Enron, entity F1", "stacked-enron", "enron", *STACKED, "f1"),
    Line("pages of universities: WebKB, accuracy", "stacked-webkb", "webkb", *STACKED, "accuracy"),
    Line("papers: Cora, accuracy", "stacked-cora", "cora", *STACKED, "accuracy"),
    Line("papers: CiteSeer, accuracy", "stacked-citeseer", "citeseer", *STACKED, "accuracy"),
    Line("regions of figures: SLIF, accuracy", "stacked-slif", "slif", *STACKED, "accuracy"),
    Line("mentions in novels: LitBank, CoNLL F1", "slt-litbank", "LitBank", *RANKING, "conll"),
    Line("mentions in many genres: GUM, CoNLL F1", "slt-gum", "GUM", *RANKING, "conll"),
    RECORDS,
)
HEADINGS = ["task", "local", "collective", "gain", "command"]
NOT_RUN = "not run yet"


def _marks(what: str) -> tuple[str, str]:
    return f"<!-- {what} of docs/results.md: begin -->", f"<!-- {what} of docs/results.md: end -->"


BEGIN, END = _marks("excerpt")
SPEED_BEGIN, SPEED_END = _marks("speed")


def refreshed(text: str, kept: Mapping[str, Result], name: str = "README.md") -> str:
    """The text with what stands between the marks as it is in the results."""
    for marks, content in (((BEGIN, END), excerpt(kept)), ((SPEED_BEGIN, SPEED_END), speed(kept))):
        found = re.search(f"{re.escape(marks[0])}\n(.*?){re.escape(marks[1])}", text, re.DOTALL)
        if found is None:
            raise InputError(f"no excerpt of the results; it stands between {marks[0]!r} and {marks[1]!r}", name)
        text = f"{text[: found.start(1)]}{content}\n{text[found.end(1) :]}"
    return re.sub(r"^\| kinfolk \|.*$", lambda _: beside_peers(kept), text, flags=re.MULTILINE)


def excerpt(kept: Mapping[str, Result]) -> str:
    """The table of all lines."""
    rows = [[one.task, *figures(one, kept), f"`kinfolk reproduce {one.experiment}`"] for one in EXCERPT]
    return "\n".join(map(_line, [HEADINGS, ["---"] * len(HEADINGS), *rows]))


def figures(line: Line, kept: Mapping[str, Result]) -> list[str]:
    """The local figure, the collective one and its gain; of rows before and after clustering, those after."""
    result = kept.get(line.experiment)
    local, collective = (_row(line, model, result) for model in (line.local, line.collective))
    if result is None or not local or collective.get("gain_over") != line.local:
        return [NOT_RUN, "", ""]
    named = ["" if row["model"] == "local" else f"{row['model']} " for row in (local, collective)]
    shown = [f"{name}{row[line.metric]:.2f}" for name, row in zip(named, (local, collective), strict=True)]
    return [*shown, gain(result, collective, line.metric)]


def _row(line: Line, model: str, result: Result | None) -> Row:
    place = (line.dataset, model, line.split)
    rows = [row for row in result.rows if (row["dataset"], row["model"], row["split"]) == place] if result else []
    return next((row for row in reversed(rows) if line.metric in row), {})


def strangers(kept: Mapping[str, Result]) -> list[str]:
    """Lines of the excerpt whose experiment was run and has no such rows, or whose gain is over another."""
    lacking = [one for one in EXCERPT if one.experiment in kept and figures(one, kept)[0] == NOT_RUN]
    return [f"{one.experiment}: {one.dataset}, {one.collective} over {one.local}, {one.split}" for one in lacking]


PEERS_SETS = ("FEBRL 3", "restaurants", "Cora references", "DBLP-ACM", "Abt-Buy")


def beside_peers(kept: Mapping[str, Result]) -> str:
    """The line of kinfolk, by the rule of the excerpt, in the table of other libraries on records."""
    result = kept.get(RECORDS.experiment)
    rows = [_row(RECORDS._replace(dataset=name), RECORDS.collective, result) for name in PEERS_SETS]
    return _line(["kinfolk", *(f"{row[RECORDS.metric]:.1f}" if row else NOT_RUN for row in rows)])


def speed(kept: Mapping[str, Result]) -> str:
    """What `gibbs-speed` found, in one sentence."""
    what, command = "Stacked inference beside Gibbs sampling with 100 sweeps", "`kinfolk reproduce gibbs-speed`"
    result = kept.get("gibbs-speed")
    row = next((row for row in result.rows if row["dataset"] == "all four"), None) if result else None
    if result is None or row is None:
        return f"{what} ({command}): {NOT_RUN}."
    printed = result.paper.get(("all four", row["model"], row["split"]), {}).get("speedup_100")
    beside = "" if printed is None else f"; the paper's, of its own: {printed:.1f}"
    plain, fast = row["speedup_100"], row["fast_speedup_100"]
    return (
        f"{what} (one thread, mean over four graphs; {command}): {plain:.1f} times as fast as through the same code, "
        f"{fast:.1f} times as fast as the fastest kernel{beside}."
    )
