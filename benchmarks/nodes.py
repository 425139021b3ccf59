"""Models of nodes on all graphs there are, beside their peers: accuracy and CPU seconds.

    python benchmarks/nodes.py                      everything: seven graphs of files, thirteen generated
    python benchmarks/nodes.py --quick              a smoke test: three generated graphs, one seed, no network
    python benchmarks/nodes.py --graphs cora cliques --splits 10% --contestants local pool sage --seeds 5
    python benchmarks/nodes.py --before FILE ...    runs that a FILE (of --json) has are taken from there
    python benchmarks/nodes.py --json FILE          write all figures, after every cell
    python benchmarks/nodes.py --markdown FILE      write the table for the documentation

Graphs, splits and contestants are described in node_graphs.py and node_peers.py. The data are looked for in
KINFOLK_DATA, else in ../shared/data; where they are not, only generated graphs are run. The networks need
`pip install -e '.[peers-graph]'`; where they are not installed they are left out.

Accuracy is the mean over seeds, folds or schools, ± its standard error over them. "Below by more than one standard
error" is of one run: the difference of the two accuracies over the test nodes, in pairs.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from node_graphs import GENERATED, NAMES, SPLITS, Cell, cells, data_folder, splits_of
from node_peers import CONTESTANTS, STANDS_ON, Answer, Problem

Row = dict[str, Any]
NETWORKS = ("sage", "gcn")
POOLS = ("pool", "fast")
QUICK = {"graphs": ["homophilous", "cliques", "random links"], "seeds": 1}


# -- One run ------------------------------------------------------------------------------------------


def problem_of(cell: Cell) -> Problem:
    one = cell.world
    labels = np.where(cell.train, one.labels, -1)
    return Problem(one.features, one.relations, labels, cell.train, one.n_classes, cell.seed, one.groups)


def run(name: str, cell: Cell, problem: Problem, before: dict[str, Row]) -> Row | None:
    """A row of figures; None where the contestant does not take part. `before`: the rows of this cell so far."""
    other = STANDS_ON.get(name, "")
    spared = before[other]["cpu_seconds"] if other in problem.kept and other in before else 0.0
    began, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = CONTESTANTS[name](problem)
    took, wall = time.process_time() - began, time.perf_counter() - wall
    if found is None:
        return None
    answer = found if isinstance(found, Answer) else Answer(found, dict)
    right, loss = judged(answer.table, cell)
    row: Row = {
        "graph": cell.graph, "split": cell.split, "seed": cell.seed, "contestant": name,
        "accuracy": 100 * float(right.mean()), "log_loss": loss, "cpu_seconds": took + spared, "seconds": wall,
        "right": packed(right),
    }  # fmt: skip
    if candidates := answer.candidates():
        row["candidates"] = {name: 100 * float(judged(one, cell)[0].mean()) for name, one in candidates.items()}
    if answer.chosen is not None:
        row["chosen"] = str(answer.chosen)
    return row


def judged(table: np.ndarray, cell: Cell) -> tuple[np.ndarray, float]:
    """Which test nodes are right, and the mean log-loss over them."""
    truth, rows = cell.world.labels[cell.test], table[cell.test]
    loss = -np.log(np.maximum(rows[np.arange(len(rows)), truth], 1e-12)).mean()
    return rows.argmax(axis=1) == truth, float(loss)


def packed(right: np.ndarray) -> str:
    """One bit a test node, as hexadecimal digits, so that two runs can be compared in pairs later."""
    return f"{len(right)}:{np.packbits(right).tobytes().hex()}"


def unpacked(text: str) -> np.ndarray:
    n, _, bits = text.partition(":")
    return np.unpackbits(np.frombuffer(bytes.fromhex(bits), np.uint8))[: int(n)].astype(bool)


# -- All runs -----------------------------------------------------------------------------------------


def key(row: Row) -> tuple[str, str, int, str]:
    return row["graph"], row["split"], row["seed"], row["contestant"]


def asked_cells(graphs: Sequence[str], splits: Sequence[str], seeds: int) -> Iterator[Cell]:
    there = (data_folder() / "nodes").exists()
    for graph in graphs:
        if graph in GENERATED or there:
            for split in splits_of(graph):
                if split in splits:
                    yield from cells(graph, split, seeds)


def all_rows(given: argparse.Namespace, contestants: Sequence[str], log: Any) -> Iterator[tuple[Cell, list[Row]]]:
    """Cell by cell the rows of all contestants, those of earlier runs among them; who fails is named, and has none."""
    earlier = {key(row): row for file in given.before for row in json.loads(file.read_text())["rows"]}
    for cell in asked_cells(given.graphs, given.splits, given.seeds):
        problem, found = problem_of(cell), {}
        for name in CONTESTANTS:
            row = earlier.get((*cell[:3], name))
            if row is None and name in contestants:
                try:
                    row = run(name, cell, problem, found)
                except Exception as error:  # hours of others' figures should not be lost
                    log(f"FAILED {name} on {cell.graph}, {cell.split}, {cell.seed}: {type(error).__name__}: {error}")
            if row is not None:
                found[name] = row
        said = "  ".join(f"{name} {row['accuracy']:.1f} ({row['cpu_seconds']:.1f} s)" for name, row in found.items())
        log(f"{cell.graph}, {cell.split}, {cell.seed}: {said}")
        yield cell, list(found.values())


# -- Tables and summaries -----------------------------------------------------------------------------


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return float(np.mean(values)), float(error)


def by_cell(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, list[Row]]]:
    table: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        table.setdefault((row["graph"], row["split"]), {}).setdefault(row["contestant"], []).append(row)
    return table


def markdown(rows: Sequence[Row]) -> str:
    """Accuracy ± standard error by graph, split and contestant, the best in bold, and the mean CPU seconds."""
    names = [name for name in CONTESTANTS if any(row["contestant"] == name for row in rows)]
    lines = [f"| graph | labels | {' | '.join(names)} |", f"|---|---|{'---:|' * len(names)}"]
    seconds = [f"| CPU seconds | labels | {' | '.join(names)} |", lines[1]]
    for (graph, split), of in by_cell(rows).items():
        figures = {name: mean_and_error([row["accuracy"] for row in of[name]]) for name in names if name in of}
        best = max(mean for mean, _ in figures.values())
        lines.append(f"| {graph} | {split} | {' | '.join(shown(figures.get(name), best) for name in names)} |")
        times = [f"{np.mean([row['cpu_seconds'] for row in of[name]]):.1f}" if name in of else "" for name in names]
        seconds.append(f"| {graph} | {split} | {' | '.join(times)} |")
    return "\n".join([*lines, "", *seconds, ""])


def shown(figure: tuple[float, float] | None, best: float) -> str:
    if figure is None:
        return ""
    mean, error = figure
    text = f"**{mean:.1f}**" if mean == best else f"{mean:.1f}"
    return text if np.isnan(error) else f"{text} ±{error:.1f}"


def difference(own: Row, other: Row) -> tuple[float, float]:
    """Percent points that one run is above another on the same test nodes, and the standard error, in pairs."""
    apart = unpacked(own["right"]).astype(float) - unpacked(other["right"])
    return 100 * float(apart.mean()), 100 * float(apart.std(ddof=1) / np.sqrt(len(apart)))


def summary(rows: Sequence[Row]) -> list[str]:
    """How each of kinfolk's models stands to the tuned local model, to the networks, and to its best candidate."""
    found = {key(row): row for row in rows}
    lines = []
    for name in ("stacked", *POOLS):
        own = [row for row in rows if row["contestant"] == name]
        if not own:
            continue
        lines += [against(name, own, found, other) for other in CONTESTANTS if other != name]
        lines += regret(name, own)
    return [line for line in lines if line]


def against(name: str, own: Sequence[Row], found: dict[Any, Row], other: str) -> str:
    pairs = [(row, found[*key(row)[:3], other]) for row in own if (*key(row)[:3], other) in found]
    if not pairs:
        return ""
    gaps = [difference(*pair) for pair in pairs]
    wins, losses = sum(gap > 0 for gap, _ in gaps), sum(gap < 0 for gap, _ in gaps)
    lost = [sum(gap < -errors * error for gap, error in gaps) for errors in (1, 2)]
    worst = min(zip(gaps, pairs, strict=True), key=lambda one: one[0][0])
    where = ", ".join(map(str, key(worst[1][0])[:3]))
    times = np.median([a["cpu_seconds"] / max(b["cpu_seconds"], 1e-3) for a, b in pairs])
    mean = np.mean([gap for gap, _ in gaps])
    return (
        f"{name} beside {other}: {len(pairs)} runs, {mean:+.2f} points on average; above in {wins}, below in {losses}; "
        f"below by more than one standard error in {100 * lost[0] / len(pairs):.1f} %, by more than two in "
        f"{100 * lost[1] / len(pairs):.1f} %; the worst {worst[0][0]:+.1f} ± {worst[0][1]:.1f} ({where}); "
        f"{times:.2g} times its CPU time (median)"
    )


def regret(name: str, own: Sequence[Row]) -> list[str]:
    """Of the pool to the candidate that is best on the test nodes of a run, which nobody could know."""
    gaps = [max(row["candidates"].values()) - row["accuracy"] for row in own if row.get("candidates")]
    if not gaps:
        return []
    mean, error = mean_and_error(gaps)
    return [
        f"{name}: mean regret to its best candidate on test {mean:.2f} ± {error:.2f} points, the most {max(gaps):.1f}"
    ]


# -- The command --------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=NAMES, default=NAMES, metavar="GRAPH")
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--before", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.graphs, given.seeds = QUICK["graphs"], QUICK["seeds"]
        given.contestants = [name for name in given.contestants if name not in NETWORKS]
    return given


def main() -> None:
    logging.getLogger("kinfolk").setLevel(logging.ERROR)
    given = arguments()
    contestants = given.contestants
    if find_spec("torch_geometric") is None and {*NETWORKS} & {*contestants}:
        print(f"without {' and '.join(NETWORKS)}: they need `pip install -e '.[peers-graph]'`")
        contestants = [name for name in contestants if name not in NETWORKS]
    rows: list[Row] = []
    for _, more in all_rows(given, contestants, lambda text: print(text, flush=True)):
        rows += more
        if given.json:
            given.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    text = markdown(rows)
    print(text, *summary(rows), sep="\n")
    if given.markdown:
        given.markdown.write_text(text)


if __name__ == "__main__":
    main()
