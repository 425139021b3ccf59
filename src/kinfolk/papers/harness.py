"""The harness of the experiments: to declare one, to score models on folds, to run all and keep what they find.

Each result is kept in a file at once; one that is there already is taken as it is, if the same code found it in the
same data.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib
import json
import logging
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from functools import cache, wraps
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk import __version__
from kinfolk.core.checkpoint import going_on, remove_checkpoint
from kinfolk.core.files import write_utf8
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import CheckpointError, KinfolkError
from kinfolk.papers.manifest import data_digest
from kinfolk.report.page import Part, report_html

# "model", "dataset", "split", then metrics; percentages run 0-100. Of the first metric shown: "lower" and "upper", its
# 95 % interval; "gain", "gain_lower", "gain_upper", what it is above its local row on the same folds or documents. Of
# another metric, as "conll", alike: "conll_lower", "conll_gain", ... "gain_over" names the local row, "p_against" the
# row that a t-test of "p_value" has on the other side.
# "chosen_on": on what the settings of this row were chosen, where that is not what the experiment says of all rows.
Row = dict[str, Any]
Paper = dict[tuple[str, str, str], dict[str, float]]  # (dataset, model, split) -> the metrics the paper prints
Log = Callable[[str], None]  # where an experiment writes what it is doing
Interval = tuple[float, float]  # lower and upper end, 95 %; nan where there is no spread to tell it by
Array = NDArray[np.float64]

# -- An experiment, and the form every one reports in: rows of metrics, the paper's figures beside them, JSON ---


@dataclass(frozen=True)
class Report:
    """What an experiment found. `shown` are the metrics of the printed table, in order (JSON has all); `draw` writes
    the figure, where there is one, to a file."""

    experiment: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    paper: Paper = field(default_factory=dict)
    draw: Callable[[Path], None] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("experiment", "rows", "seconds", "settings")}


@dataclass
class Run:
    """One run of an experiment: what it is given, and what it leaves beside its rows.

    data      has the layout of the data folder
    settings  what it used and chose, for the report; `shown` and `draw` as in a report
    counts    of (dataset, model, split), what was counted in each document: for intervals of differences
    """

    data: Path
    log: Log
    n_jobs: int
    settings: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    draw: Callable[[Path], None] | None = None
    counts: dict[tuple[str, str, str], Array] = field(default_factory=dict)


Experiment = Callable[[Path, Log, int], Report]


def experiment(name: str, shown: tuple[str, ...], paper: Paper | None = None) -> Callable[[Callable[[Run], Any]], Any]:
    """Declares a function that makes all rows of a run: it becomes one from (data, log, n_jobs) to a report."""

    def declared(rows_of: Callable[[Run], list[Row]]) -> Experiment:
        @wraps(rows_of)
        def made(data: Path, log: Log, n_jobs: int = -1) -> Report:
            began = time.perf_counter()
            run = Run(data, log, n_jobs, shown=shown)
            rows = rows_of(run)
            return Report(name, rows, time.perf_counter() - began, run.settings, run.shown, paper or {}, run.draw)

        return made

    return declared


def printed(dataset: str, models: Sequence[str], figures: Sequence[float], metric: str = "accuracy") -> Paper:
    """The paper's means over the folds, one a model."""
    return {(dataset, name, "mean"): {metric: figure} for name, figure in zip(models, figures, strict=True)}


# -- 95 % intervals: over documents by the bootstrap, over folds by Student's t ------------------------------


def bootstrap(
    counts: ArrayLike, statistic: Callable[[Array], float], seed: int = 0, rounds: int = 1000, beside: Any = None
) -> Interval:
    """The percentile interval of `statistic` over documents drawn with replacement.

    counts     (documents, k), or (documents,): what was counted in each; `statistic` is of their sums (k,), as F1 is
    beside     the same counts of another model on the same documents: the interval of the difference to it, each
               round drawing the same documents for both
    """
    tables = [_by_document(one) for one in (counts, beside) if one is not None]
    n = len(tables[0])
    if any(table.shape != tables[0].shape for table in tables):
        raise ValueError(f"expected counts of the same documents; got shapes {[table.shape for table in tables]}")
    if n < 2:
        return float("nan"), float("nan")
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), rounds)  # times each document was drawn
    found = [np.array([statistic(sums) for sums in drawn @ table]) for table in tables]
    values = found[0] if beside is None else found[0] - found[1]
    lower, upper = np.quantile(values, (0.025, 0.975))
    return float(lower), float(upper)


def _by_document(counts: ArrayLike) -> Array:
    table = np.asarray(counts, np.float64)
    return table[:, None] if table.ndim == 1 else table


def t_interval(values: ArrayLike) -> Interval:
    """The interval of a mean over folds: mean ± t · s / √n, with n - 1 degrees of freedom.

    Folds share training data, so it is a rough guide, as the t-test is.
    """
    from scipy.stats import t

    own = np.asarray(values, np.float64)
    if len(own) < 2:
        return float("nan"), float("nan")
    half = float(t.ppf(0.975, len(own) - 1) * own.std(ddof=1) / np.sqrt(len(own)))
    return float(own.mean()) - half, float(own.mean()) + half


def spread(interval: Interval, of: str = "") -> Row:
    """The interval as entries of a row, "lower" and "upper" (of "gain": "gain_lower", ...); none where it is nan."""
    names = [f"{of}_{end}".lstrip("_") for end in ("lower", "upper")]
    return {} if np.isnan(interval).any() else dict(zip(names, interval, strict=True))


def mean_row(
    dataset: str, model: str, scores: ArrayLike, metric: str, local: ArrayLike | None = None, over: str = "local"
) -> Row:
    """The mean over folds with its interval; with `local`, the scores of the local model, `over`, also the gain."""
    own = np.asarray(scores, np.float64)
    row: Row = {"model": model, "dataset": dataset, "split": "mean", metric: float(own.mean())}
    row |= spread(t_interval(own))
    if local is not None:
        gains = own - np.asarray(local, np.float64)
        row |= {"gain": float(gains.mean()), **spread(t_interval(gains), "gain"), "gain_over": over}
    return row


def counted_row(
    run: Run, place: tuple[str, str, str], metric: str, counts: ArrayLike, statistic: Callable[[Array], float],
    local: str | None = None,
) -> Row:  # fmt: skip
    """A row of (dataset, model, split) from what was counted in each document, with its interval.

    `local` is a model whose row of the same documents was made by this function before: the gain over it is
    bootstrapped over the same draws.
    """
    dataset, model, split = place
    run.counts[place] = own = _by_document(counts)
    value = statistic(own.sum(axis=0))
    row: Row = {"model": model, "dataset": dataset, "split": split, metric: value, **spread(bootstrap(own, statistic))}
    if local is not None and local != model:
        other = run.counts[dataset, local, split]
        row["gain"] = value - statistic(other.sum(axis=0))
        row |= {**spread(bootstrap(own, statistic, beside=other), "gain"), "gain_over": local}
    return row


# -- Folds, each in a process of its own where there are cores ---------------------------------------------


def each_fold(task: Callable[[Any, int], Any], folds: Sequence[Any], n_jobs: int) -> Iterator[Any]:
    """task(fold, threads) of each fold, in order; a few large fits side by side keep more cores busy than threads."""
    from joblib import Parallel, delayed

    cores = resolve_jobs(n_jobs)
    workers = max(1, min(len(folds), cores))
    yield from Parallel(workers, return_as="generator")(delayed(task)(fold, cores // workers) for fold in folds)


# -- Models by name on the folds of a data set: a row each, then the means, with a test of their differences ---


def scored(
    run: Run, dataset: str, splits: Iterable[Any], scores_of: Callable[[Any], dict[str, float]], reference: str,
    metric: str = "accuracy", suffix: str = "", local: str | None = None,
) -> list[Row]:  # fmt: skip
    """The rows of every fold; `scores_of` a fold are its scores by model, and `suffix` ends the names of models."""
    found: dict[str, list[float]] = {}
    names = []
    for split in splits:
        for model, score in scores_of(split).items():
            found.setdefault(model + suffix, []).append(score)
        names.append(split.name)
        run.log(f"{dataset}, {split.name}: " + ", ".join(f"{model} {of[-1]:.2f}" for model, of in found.items()))
    return table(dataset, names, found, reference + suffix, metric, None if local is None else local + suffix)


def table(
    dataset: str, splits: Sequence[str], found: dict[str, list[float]], reference: str, metric: str = "accuracy",
    local: str | None = None,
) -> list[Row]:  # fmt: skip
    """Rows of scores by fold, then their means with intervals, and p-values of a paired t-test against `reference`.

    Gains are over `local`, by default the first model.
    """
    rows: list[Row] = []
    for name, scores in found.items():
        for split, score in zip(splits, scores, strict=True):
            rows.append({"model": name, "dataset": dataset, "split": split, metric: score})
    local = next(iter(found), None) if local is None else local
    for name, scores in found.items():
        beside = None if local in (None, name) else found[str(local)]
        mean = mean_row(dataset, name, scores, metric, beside, str(local))
        if name != reference:
            mean |= {"p_value": paired_t_test(scores, found[reference]), "p_against": reference}
        rows.append(mean)
    return rows


def paired_t_test(first: ArrayLike, second: ArrayLike) -> float:
    """The two-sided p-value of Student's t-test on the differences; 1 where all are zero, nan for a single pair.

    Folds share training data, so the test is a rough guide, as in the paper it is taken from.
    """
    from scipy.stats import ttest_rel

    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"expected two rows of scores of the same folds; got shapes {a.shape} and {b.shape}")
    if len(a) < 2:
        return float("nan")
    difference = a - b
    if np.ptp(difference) <= 1e-14 * abs(difference.mean()):  # no spread to divide by: SciPy would say NaN, or warn
        return float(not difference.any())
    return float(ttest_rel(a, b).pvalue)


# -- All experiments one after the other, and what is kept of each ---

logger = logging.getLogger("kinfolk")


@dataclass(frozen=True)
class Result(Report):
    """What is kept of an experiment: the report, its figure as the data: address of a PNG; or why there is none."""

    about: str = ""  # what it is, by its own words
    details: str = ""  # the rest of these
    figure: str | None = None
    cores: int = 1
    version: str = __version__
    code: str = ""  # digest of the code that found it
    data: str = ""  # digest of the data it was found in
    fault: str | None = None
    expected: bool = True  # whether the fault is one of the input, as data that are not there
    from_before: bool = False

    KEPT: ClassVar = (
        "experiment", "about", "details", "seconds", "cores", "version", "code", "data", "settings", "shown", "figure"
    )  # fmt: skip

    @classmethod
    def of(cls, report: Report, about: str, **known: Any) -> Result:
        figure = None if report.draw is None else _as_address(report.draw)
        kept = {one.name: getattr(report, one.name) for one in fields(report)}
        return cls(**kept, about=about, figure=figure, **known)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        paper = [[*place, figures] for place, figures in self.paper.items()]
        return {**{name: getattr(self, name) for name in self.KEPT}, "paper": paper, "rows": self.rows}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Result:
        paper = {(dataset, model, split): figures for dataset, model, split, figures in kept["paper"]}
        same = {name: kept[name] for name in (*cls.KEPT, "rows")}
        return cls(**{**same, "shown": tuple(kept["shown"])}, paper=paper, from_before=True)


def load(place: str) -> Experiment:
    """The experiment at a place, "module.function" of `kinfolk.papers`."""
    module, _, function = place.rpartition(".")
    found: Experiment = getattr(importlib.import_module(f"kinfolk.papers.{module}"), function)
    return found


def about(experiment: Any) -> str:
    """The first paragraph of what an experiment says of itself."""
    return _paragraphs(experiment)[0]


def _paragraphs(experiment: Any) -> list[str]:
    return [" ".join(text.split()) for text in (experiment.__doc__ or "").strip().split("\n\n")]


# No figure depends on these, folders and files by their path or name: what shows results, and engines, for experiments
# run in memory.
PRESENTATION = {"cli", "report", "cli.py", "page.py", "papers/evidence.py", "papers/manifest.py"}
PRESENTATION |= {"engines", "in_engine.py", "link_in_engine.py"}


@cache
def code_digest(place: str) -> str:
    """Twelve digits that stand for the code of the experiment at a place, "module.function" of `kinfolk.papers`.

    That is its module, what that imports, and so on, but for comments, docstrings, what only presents results, and
    engines.
    """
    root, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(reached(root, root / "papers" / f"{place.partition('.')[0]}.py")):
        source = bare_code(path.read_text(encoding="utf-8"))
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + source.encode())
    return found.hexdigest()[:12]


def reached(root: Path, first: Path) -> set[Path]:
    """The files of the package `root` that one imports, directly or by way of others, and itself."""
    found: set[Path] = set()
    waiting = [first]
    while waiting:
        path = waiting.pop()
        place = path.relative_to(root)
        if path in found or not path.is_file() or {*place.parts, place.as_posix()} & PRESENTATION:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
            parts = (name.split(".")[1:] for name in names if name.partition(".")[0] == "kinfolk")
            waiting += [root.joinpath(*of).with_suffix(".py") for of in parts if of]
    return found


def bare_code(source: str) -> str:
    """Python source without comments, docstrings and empty lines."""
    lines = source.splitlines()
    tokens = [one for one in tokenize.generate_tokens(StringIO(source).readline) if one.type != tokenize.NL]
    code = [one for one in tokens if one.type != tokenize.COMMENT]
    left_out = [one for one in tokens if one.type == tokenize.COMMENT]
    breaks = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for i, one in enumerate(code):  # a string that is a statement by itself
        starts = i == 0 or code[i - 1].type in breaks
        if one.type == tokenize.STRING and starts and code[i + 1].type == tokenize.NEWLINE:
            left_out.append(one)
    for one in sorted(left_out, key=lambda one: one.start, reverse=True):
        (first, start), (last, end) = one.start, one.end
        lines[first - 1 : last] = [lines[first - 1][:start] + lines[last - 1][end:]]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def run_all(
    experiments: Mapping[str, str], data: Path, folder: Path, log: Log, jobs: int, again: bool,
    checkpoint: Path | None = None,
) -> Iterator[Result]:  # fmt: skip
    """Each experiment in turn, its result kept in `folder`. One that fails is a result with a `fault`. Each has a
    checkpoint of its own, by its name behind that of the `checkpoint`."""
    folder.mkdir(exist_ok=True)
    for name, place in experiments.items():
        file, digest = folder / f"{name}.json", data_digest(name, data)
        kept = None if again else kept_result(file)
        if kept is not None and (kept.experiment, kept.code, kept.data) == (name, code_digest(place), digest):
            log(f"{name}: kept from before in {file}; --again runs it anew")
            yield kept
            continue
        log(f"{name}: running")
        own = None if checkpoint is None else checkpoint.with_name(f"{checkpoint.name}.{name}")
        try:
            with kept_on(own, name, place, digest):
                result = _one(name, place, data, log, jobs, digest)
        except CheckpointError:
            raise
        except Exception as error:  # whatever is wrong with one, the others are run
            logger.debug("%s failed", name, exc_info=True)
            expected = isinstance(error, KinfolkError | OSError)
            fault = str(error) if expected else f"{type(error).__name__}: {error}"
            log(f"{name}: failed: {fault}")
            remove_checkpoint(own)
            yield Result(name, fault=fault, expected=expected)
            continue
        write_utf8(file, [as_json(result.as_dict())])
        remove_checkpoint(own)
        yield result


def kept_on(checkpoint: Path | None, name: str, place: str, digest: str) -> AbstractContextManager[Any]:
    """The run of an experiment, by its code and the digest of its data, with a checkpoint; every `fit` within it is a
    part of it, but for those in processes of their own."""
    if checkpoint is None:
        return nullcontext()
    return going_on(checkpoint, name, code_digest(place), digest, seeded=False)


def _one(name: str, place: str, data: Path, log: Log, jobs: int, digest: str) -> Result:
    run = load(place)
    report = run(data, lambda line: log(f"{name}: {line}"), jobs)
    first, *others = _paragraphs(run)
    known = {"details": "\n\n".join(others), "cores": resolve_jobs(jobs), "code": code_digest(place), "data": digest}
    return Result.of(report, first, **known)


def kept_result(file: Path) -> Result | None:
    """What a file holds, whatever code found it; None if there is none or it is damaged."""
    try:
        return Result.from_dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def as_json(content: Mapping[str, Any]) -> str:
    """A line for each entry, and for each thing of a list: differences between two files can be read."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list) and value:
            text = "[\n" + ",\n".join(f"  {_compact(one)}" for one in value) + "\n]"
        else:
            text = _compact(value)
        lines.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, default=repr)


def _as_address(draw: Callable[[Path], None]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.png"
        draw(path)
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


# -- One page about experiments: their tables with the papers' figures beside them, and the figures ----

DIGITS = {"p_value": 4}
LONG = 80  # rows; of longer tables that a figure shows already, only the last row of each model stands here


def page(results: Sequence[Result], title: str = "Experiments") -> str:
    """The page, whatever there is so far; several experiments have a table of contents before them."""
    parts = [overview(results)] if len(results) > 1 else []
    parts += [part for result in results for part in parts_of(result)]
    return report_html(title, parts, f"kinfolk {__version__}. Percentages; the papers' figures stand beside ours.")


def overview(results: Sequence[Result]) -> Part:
    rows = [[result.experiment, state(result), f"{result.seconds:.0f} s" * (not result.fault)] for result in results]
    return Part("table", "Overview", {"headings": ["experiment", "state", "time"], "rows": rows, "number": [2]})


def state(result: Result) -> str:
    if result.fault is not None:
        return f"failed: {result.fault}"
    return f"{len(result.rows)} rows" + (" (kept from before)" if result.from_before else "")


def parts_of(result: Result) -> list[Part]:
    """The figure, where there is one, and the table of an experiment; nothing of one that failed."""
    if result.fault is not None:
        return []
    parts = []
    if result.figure is not None:
        parts.append(Part("figure", result.experiment, {"image": result.figure, "note": result.about}))
    title = result.experiment if result.figure is None else f"{result.experiment}, in numbers"
    return [*parts, Part("table", title, _table(result))]


def metrics_of(result: Report) -> list[str]:
    """The columns of metrics: those shown that a row has; intervals and gains stand beside what they are of."""
    ends = ("lower", "upper", "gain")
    return [key for key in result.shown if key.split("_")[-1] not in ends and any(key in row for row in result.rows)]


def main_metric(result: Report) -> str | None:
    """The metric of "lower", "upper" and "gain": the first one shown that is a number."""
    numbers = (key for key in metrics_of(result) if any(isinstance(row.get(key), int | float) for row in result.rows))
    return next(numbers, None)


def figure(result: Report, row: Row, metric: str) -> str:
    """A metric of a row with its interval; a p-value with the model it is against."""
    if metric == "p_value" and "p_against" in row and metric in row:
        return f"{cell(row[metric], metric)} against {row['p_against']}"
    return cell(row.get(metric), metric) + _interval(row, "" if metric == main_metric(result) else f"{metric}_", ".2f")


def gain(result: Report, row: Row, metric: str) -> str:
    """What the metric is above the local row, with its interval; empty where that is not known."""
    name = gain_name(result, metric)
    return f"{row[name]:+.2f}{_interval(row, f'{name}_', '+.2f')}" if name in row else ""


def gain_name(result: Report, metric: str) -> str:
    return "gain" if metric == main_metric(result) else f"{metric}_gain"


def _interval(row: Row, of: str, form: str) -> str:
    ends = [row.get(f"{of}{end}") for end in ("lower", "upper")]
    return "" if None in ends else f" [{ends[0]:{form}}, {ends[1]:{form}}]"


def _table(result: Result) -> dict[str, Any]:
    metrics = metrics_of(result)
    in_paper = [key for key in metrics if any(key in figures for figures in result.paper.values())]
    rows = result.rows
    if len(rows) > LONG and result.figure is not None:
        rows = list({(row["dataset"], row["model"]): row for row in rows}.values())
    gains = {key: any(gain(result, row, key) for row in rows) for key in metrics}
    headings = ["data", "model", "split"]
    for key in metrics:
        name = key.replace("_", " ")
        headings += (
            [name] + [gain_name(result, key).replace("_", " ")] * gains[key] + [f"paper: {name}"] * (key in in_paper)
        )
    note = [result.about] * (result.figure is None) + [f"{result.seconds:.0f} s."]
    if len(rows) < len(result.rows):
        note.append(f"The last row of each model; all {len(result.rows)} are in the JSON.")
    cells = []
    for row in rows:
        place = row["dataset"], row["model"], row["split"]
        own = [str(name) for name in place]
        for key in metrics:
            printed = cell(result.paper.get(place, {}).get(key), key, 1)
            own += [figure(result, row, key)] + [gain(result, row, key)] * gains[key] + [printed] * (key in in_paper)
        cells.append(own)
    return {"headings": headings, "rows": cells, "number": list(range(3, len(headings))), "note": " ".join(note)}


def cell(value: Any, metric: str, digits: int = 2) -> str:
    """A cell of a table."""
    if value is None or isinstance(value, str):
        return value or ""
    if metric == "p_value" and value < 1e-4:
        return "below 0.0001"
    return f"{value:.{DIGITS.get(metric, digits)}f}"
