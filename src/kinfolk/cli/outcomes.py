"""How training went: lines for a reader, and an object for `--json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinfolk.linking.mentions import Mentions

SCORES = {"pair_f1": "pairwise F1"}  # metrics that have a plainer name


def outcome(model: Any) -> Iterator[str]:
    """How training went, a line each: skip edges, the optimiser, the held-out score, belief propagation, where there
    are such."""
    if hasattr(model, "company_"):
        yield from _of_company(model)
        return
    convergence = model.convergence_
    yield from _settled(model)
    yield str(convergence)
    if convergence.best_iteration is not None:
        yield f"held-out score {100 * convergence.dev_scores[convergence.best_iteration]:.2f}"
    report = getattr(model, "training_report_", None)
    if report is not None:
        yield str(report)


def _of_company(model: Any) -> Iterator[str]:
    """The same of models that are told of their neighbours by templates."""
    told = ", ".join(template.name for template in model.company_.templates) or "nothing"
    levels = getattr(model, "levels_", ())
    base, above = type(model.base).__name__, len(levels) - 1
    if not levels:
        yield f"{base}, told of neighbours: {told}"
    elif not above:
        yield f"{base} on own features; no links used"
    else:
        yield f"{base} on own features, then {_counted(above, 'level')} told of neighbours: {told}"
    if above > 0:
        yield from _settled(model)
    for number, level in enumerate(levels):
        if hasattr(level, "convergence_"):
            yield f"level {number}: {level.convergence_}"


def skip_edges(model: Any) -> list[Any]:
    """The rules by which a model of tokens looks beyond the sentence, as `fit` settled them."""
    if hasattr(model, "company_"):
        rules = (getattr(template, "relation", None) for template in model.company_.templates)
        return [rule for rule in rules if hasattr(rule, "builder")]
    parents = getattr(model, "parents_", ())
    return list(getattr(parents[0], "skips", ()) if parents else getattr(model, "skips_", ()))


def _settled(model: Any) -> Iterator[str]:
    """Which words are linked, where that was left to the training data."""
    settled = [str(skip) for skip in skip_edges(model) if skip.capitalised is not None]
    if settled:
        yield f"links of tokens: {', '.join(settled)}"


def link_outcome(linker: Any, items: Mentions, size: str, fields: int, verbose: bool) -> Iterator[str]:
    """The same of a linker: what it compared by, and how well it does; `verbose`: every name, and the round kept."""
    yield f"trained on {size}"
    names = [column.name for column in linker.pair_set_.columns]
    if items.corpus is None:
        brief = f"{_counted(fields, 'field')}, {_counted(len(names), 'comparison')}"
        yield f"compared by {', '.join(names)}" if verbose else brief
    kept = linker.rounds_[linker.best_round_]
    if linker.folds is not None:
        yield f"threshold {linker.clusterer_.threshold:.3f} and the round chosen on unseen training pairs"
    if kept.scores and not verbose:
        for name, score in kept.scores.items():
            yield f"{SCORES.get(name, name)} on the training data {100 * score:.1f} %"
        return
    rounds = f"round {kept.number} of 0 (local) to {len(linker.rounds_) - 1}" if kept.scores else "local training"
    scores = "".join(f"{name} {score:.4f} on the training data; " for name, score in kept.scores.items())
    yield f"kept {rounds}: {scores}{linker.convergence_}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


# -- JSON ---------------------------------------------------------------------------------------------


def summary(model: Any, out: Path, trained_on: dict[str, int], **more: Any) -> dict[str, Any]:
    """What `train --json` prints: the model, what it was trained on, how training ended, and the file."""
    return {
        "model": type(model).__name__,
        "trained_on": trained_on,
        **more,
        "convergence": _convergence(model),
        **_parts(model),
        "path": str(out),
    }


def _convergence(model: Any) -> dict[str, Any] | None:
    """None: a base of scikit-learn, which does not tell."""
    ended = getattr(model, "convergence_", None)
    if ended is None:
        return None
    held_out = None if ended.best_iteration is None else ended.dev_scores[ended.best_iteration]
    return {**ended.brief(), "best_iteration": ended.best_iteration, "held_out_score": held_out}


def _parts(model: Any) -> dict[str, Any]:
    """What only some models have: skip edges, levels of a stack, rounds of a linker, belief propagation."""
    parts: dict[str, Any] = {}
    if skips := skip_edges(model):
        parts["skip_edges"] = list(map(str, skips))
    if hasattr(model, "levels_"):
        parts["levels"] = [_convergence(level) for level in model.levels_]
    if hasattr(model, "rounds_"):
        parts["rounds"] = [{"number": r.number, "links": r.positives, "scores": r.scores} for r in model.rounds_]
        parts["best_round"] = model.best_round_
        parts["threshold"] = model.clusterer_.threshold
    report = getattr(model, "training_report_", None)
    if report is not None:
        parts["belief_propagation"] = {
            "groups": len(report.converged),
            "settled": int(report.converged.sum()),
            "most_rounds": int(report.rounds.max(initial=0)),
        }
    return parts
