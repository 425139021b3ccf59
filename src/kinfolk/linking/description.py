"""What a trained linker says of itself: every comparison with its levels and weights, in plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from kinfolk.core.modelfile import name_in_file
from kinfolk.linking.blocking import as_rules
from kinfolk.linking.certain import as_certain
from kinfolk.linking.clusterers import Clusterer

IN_WORDS = {
    "records": "records alone, no labels",
    "pairs": "labelled pairs, and from records without labels",
    "clusters": "true clusters",
    "clusters and pairs": "true clusters and labelled pairs",
    "some clusters": "true clusters of some records, and from the others without labels",
    "some clusters and pairs": "true clusters of some records and labelled pairs, and from the others without labels",
}


def described(linker: Any) -> dict[str, Any]:
    """What `Linker.to_dict` answers.

    The log-odds of a pair are the sum of one weight a comparison (and conjunction); `base` is their mean over the pairs
    trained on. A level's `share` is that of the training pairs that have it, so the mean of a comparison is the sum of
    weight times share, and `difference` what the level moves a pair from there. `calibration` maps these log-odds
    (after ranking those of the probabilities) to the ones shown, straight between its knots.
    """
    head = linker.head()
    return {
        "model": head["method"],
        "settings": _plain(head["settings"]),
        "base": float((linker.weights_ * linker.shares_).sum()),
        "comparisons": comparisons(linker),
        "conjunctions": conjunctions(linker),
        "blocking": None if linker.blocking is None else [str(rule) for rule in as_rules(linker.blocking)],
        "rules": [str(rule) for rule in as_certain(linker.rules)],
        "clusterer": {"name": name_in_file(linker.clusterer_, Clusterer), **_plain(linker.clusterer_.get_params())},
        "calibration": {**linker.calibration_.for_file(), "knots": linker.calibration_.knots.tolist()},
        "training": _training(linker),
    }


def comparisons(linker: Any) -> list[dict[str, Any]]:
    """Each column of comparisons: its name, what it was made by, numbers it learned of the training table (whether days
    come first in dates, how many entities were counted), and its levels, "missing" first."""
    learned = linker.pair_set_
    made = [feature for feature in learned.features for _ in feature.columns]
    found = []
    for k, (column, feature) in enumerate(zip(learned.columns, made, strict=True)):
        part = slice(int(learned.offsets[k]), int(learned.offsets[k + 1]))
        levels = _levels(linker, part, list(column.values))
        known = feature.statistics()
        learned_of = {} if known is None or not known.numbers else {"learned": _plain(dict(known.numbers))}
        found.append({"name": column.name, "comparison": _plain(feature.spec()), **learned_of, "levels": levels})
    return found


def conjunctions(linker: Any) -> list[dict[str, Any]]:
    """Pairs of columns with weights together; levels that no training pair has are left out, as their weights are 0."""
    learned = linker.pair_set_
    names = learned.weight_names()
    found = []
    parts = list(pairwise(learned.offsets.tolist()))[len(learned.columns) :]
    for (a, b), (first, last) in zip(learned.joined, parts, strict=True):
        levels = _levels(linker, slice(first, last), names[first:last])
        columns = [learned.columns[a].name, learned.columns[b].name]
        found.append({"columns": columns, "levels": [level for level in levels if level["share"] or level["weight"]]})
    return found


def _levels(linker: Any, part: slice, names: list[str]) -> list[dict[str, Any]]:
    weights, shares = linker.weights_[part], linker.shares_[part]
    mean = float((weights * shares).sum())
    ranked = linker.antecedent_weights_[part] if linker.training == "combined" else None
    levels = []
    for k, name in enumerate(names):
        level = {"level": name, "weight": float(weights[k]), "difference": float(weights[k]) - mean}
        level |= {"share": float(shares[k])}
        levels.append(level if ranked is None else {**level, "antecedent_weight": float(ranked[k])})
    return levels


def _training(linker: Any) -> dict[str, Any]:
    """How it was trained, and how that went."""
    rounds = [{"number": one.number, "links": one.positives, "scores": one.scores} for one in linker.rounds_]
    gain = getattr(linker, "gain_", None)
    told = {
        "way": linker.training,
        "learned_from": getattr(linker, "learned_from_", None),
        "rounds": rounds,
        "best_round": linker.best_round_,
        **linker.convergence_.brief(),
        "gain": None if gain is None else asdict(gain),
    }
    return {name: _plain(value) for name, value in told.items()}


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers of NumPy as Python's, no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


# -- in words -----------------------------------------------------------------------------------------


def weight_rows(told: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """comparison, level, weight, difference and share of every level, as `records show` prints them."""
    rows = []
    for one in told["comparisons"]:
        for k, level in enumerate(one["levels"]):
            share = f"{100 * level['share']:.2f}"
            name = "" if k else one["name"]
            rows.append((name, level["level"], f"{level['weight']:+.2f}", f"{level['difference']:+.2f}", share))
    return rows


def source_in_words(learned_from: str | None) -> str:
    """What `learned_from_` says, for a reader."""
    return IN_WORDS.get(learned_from or "clusters", str(learned_from))


def head_lines(told: dict[str, Any]) -> list[str]:
    """The model in a few lines."""
    clusterer = dict(told["clusterer"])
    name = clusterer.pop("name")
    settings = ", ".join(f"{key}={value}" for key, value in clusterer.items() if value is not None)
    rules = ", ".join(told["blocking"] or ["all pairs, or those given"])
    levels = sum(len(one["levels"]) for one in told["comparisons"])
    pairs = sum(len(one["levels"]) for one in told["conjunctions"])
    return [
        f"{told['model']}: {len(told['comparisons'])} comparisons with {levels} levels"
        + (f", {pairs} levels of conjunctions" if pairs else ""),
        f"training {told['training']['way']}, round {told['training']['best_round']} kept",
        f"learned from {source_in_words(told['training']['learned_from'])}",
        f"blocking {rules}",
        *([f"for certain: {', '.join(told['rules'])}"] if told["rules"] else []),
        f"clusterer {name}({settings})",
        f"log-odds of a pair: {told['base']:+.2f} on average in training, plus the difference of each level it has",
    ]
