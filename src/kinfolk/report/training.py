"""The part of a report on how a model was trained: its end, and the curves on the way there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kinfolk.core.training import Convergence, Stage, renamed
from kinfolk.report.page import Part

ENDS = {
    "converged": "converged",
    "stopped": "stopped early",
    "stalled": "no step lowered the objective further",
    "limit": "hit the limit of iterations",
}
# What is learned in a stage, by the end of its name; the first that fits.
LEARNED = {
    "optimiser": "All weights of the model.",
    "linear chain": "A chain without skip edges, as the start of what follows.",
    "node model": "Each node from its own features alone, as the start of what follows.",
    "bethe": "All weights together, by a likelihood that belief propagation works out.",
    "pseudo": "All weights together: each label given the true labels beside it.",
    "piecewise": "All weights together: each edge as if it stood alone.",
    "gate": "How much each parent is to be trusted: the mixing weights, the models of the relations held fixed.",
    "conditional": "All relations together, each label given the true labels of its parents.",
    "joint": "All relations together, parents being labelled as the model itself predicts them.",
    "round 0, local": "To decide each pair on its own.",
}


def training_part(model: Any) -> Part | None:
    """None where nothing is known of it, as of a classifier of scikit-learn."""
    rounds = getattr(model, "rounds_", None)
    if rounds is not None:
        return _of_rounds(model, rounds)
    ends, gained = list(_convergences(model)), _gained(model)
    if not ends and not gained:
        return None
    stages = [stage for _, form, convergence in ends for stage in renamed(convergence.stages, form)]
    facts = [[name, str(convergence)] for name, _, convergence in ends]
    report = getattr(model, "training_report_", None)
    if report is not None:
        facts.append(["belief propagation", str(report)])
    facts += gained
    entities = getattr(getattr(model, "coding_", None), "inner", None) is not None  # held-out data is scored by them
    data = {"facts": facts, "stages": list(map(_stage, stages)), "score": "entity F1" if entities else "accuracy"}
    return Part("training", "Training", data)


def _gained(model: Any) -> list[list[str]]:
    """What a guarded model gains over its local one."""
    gain = getattr(model, "gain_", None)
    return [] if gain is None else [["gain", str(gain)]]


def _convergences(model: Any) -> Iterator[tuple[str, str, Convergence]]:
    """(name, how its stages are called, how it ended) of a model, or of each level it is stacked of."""
    if hasattr(model, "convergence_"):
        yield "training", "{}", model.convergence_
    for number, level in enumerate(getattr(model, "levels_", ())):
        if hasattr(level, "convergence_"):
            yield f"level {number}", f"level {number}: {{}}", level.convergence_


def _stage(stage: Stage) -> dict[str, Any]:
    name = stage.name.replace("optimise", "optimiser")  # as callbacks call the only stage of plain models
    shown = {"name": name[:1].upper() + name[1:], "status": ENDS[stage.status], "learned": _learned(name)}
    return {**stage.for_file(), **shown}


def _learned(name: str) -> str:
    """What is learned in a stage, in a line."""
    _, separate, relation = name.rpartition("separate ")
    if separate and relation == "start":
        return "A label from its features alone, where there is no parent."
    if separate:
        return f"A label from its features and from the label of its parent, for the relation “{relation}” alone."
    if name.startswith("round ") and name not in LEARNED:
        return "To decide pairs as the clustering needs them: what it puts right by itself is no longer required."
    return next((line for end, line in LEARNED.items() if name.endswith(end)), "")


def _of_rounds(model: Any, rounds: Sequence[Any]) -> Part:
    """Of a Linker: rounds of structured training, their scores on the training data, the one that was kept."""
    stages: list[Stage] = []
    for one in rounds:
        name = "round 0, local" if one.number == 0 else f"round {one.number}"
        stages += renamed(one.convergence.stages, name)
    kept = rounds[model.best_round_]
    facts = [["training", str(kept.convergence)]]
    if len(rounds) > 1:
        facts.insert(0, ["kept", f"round {kept.number} of 0 (local) to {len(rounds) - 1}"])
    facts += _gained(model)
    table = {
        "metrics": list(kept.scores),
        "scores": [[one.scores.get(name) for name in kept.scores] for one in rounds],
        "links": [one.positives for one in rounds],
        "best": model.best_round_,
    }
    shown = {"facts": facts, "stages": list(map(_stage, stages)), "rounds": table if len(rounds) > 1 else None}
    return Part("training", "Training", {**shown, "score": ""})
