"""Training a mixture of parents on tokens, from the left, from the right, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kinfolk.collective.gate import LocalModel, checked_shares, train_local
from kinfolk.collective.joint import Examples, shape_of
from kinfolk.collective.mixture_training import MixtureSettings, folds_by_group, train_mixture, untrained_relations
from kinfolk.core.training import Convergence, combined
from kinfolk.errors import SettingError
from kinfolk.learning.inheritance import inherit_mixture
from kinfolk.learning.tables import TableWeights
from kinfolk.text.corpus import Corpus
from kinfolk.text.documents import warn_without_edges
from kinfolk.text.edges import DEFAULT, EdgeFeatures
from kinfolk.text.lesson import Lesson
from kinfolk.text.skip_edges import LearnedSkips, as_builders
from kinfolk.text.token_parents import CHAIN, TokenParents

BACKWARD = {"forward": (False,), "backward": (True,), "both": (False, True)}


class FittedTokens(NamedTuple):
    """What training on tokens learns: a rule for parents and weights for each direction."""

    parents: tuple[TokenParents, ...]
    weights: tuple[TableWeights, ...]
    local: LocalModel | None
    convergence: Convergence


def token_parents(model: Any, corpus: Corpus, n_pair_features: int) -> tuple[TokenParents, ...]:
    """The rules for parents that the settings of a model ask for, one a direction."""
    if model.mixing == "given":
        raise SettingError(
            "mixing='given' takes the weights of a Relational; for tokens give a share for each relation"
        )
    skips = tuple(builder.learn(corpus) for builder in as_builders(model.skip_edges))
    edge, gate = model.edge_features, None
    if model.mixing == "learned":
        gate = edge_feature_set(edge or "default")
    return tuple(
        TokenParents(
            skips, backward, model.parent_features, None if edge is None else edge_feature_set(edge), gate,
            _shares(model.mixing, skips, backward), n_pair_features,
        )
        for backward in BACKWARD[model.order]
    )  # fmt: skip


def edge_feature_set(wanted: Any) -> EdgeFeatures:
    return EdgeFeatures(DEFAULT if isinstance(wanted, str) and wanted == "default" else wanted)


def _shares(mixing: Any, skips: tuple[LearnedSkips, ...], backward: bool) -> Any:
    """Fixed mixing weights by relation; "previous" and "next" name the chain of either direction."""
    if not isinstance(mixing, Mapping):
        return None
    if {*CHAIN.values()} <= {*mixing}:
        raise SettingError("mixing names 'previous' and 'next'; name one of them, it serves both orders")
    names = [CHAIN[backward], *(skip.name for skip in skips)]
    return checked_shares({names[0] if n in CHAIN.values() else n: s for n, s in mixing.items()}, names, names[0])


def fit_tokens(
    model: Any, lesson: Lesson, settings: MixtureSettings,
    scorer: Callable[[TokenParents, LocalModel | None], Callable[[TableWeights], float] | None],
) -> FittedTokens:  # fmt: skip
    """One direction after the other; with a learned gate first a local model that tells how sure one can be."""
    data, n_labels = lesson.data, len(lesson.data.classes)
    rules = token_parents(model, lesson.corpus, 0 if lesson.pair_rows is None else lesson.pair_rows.shape[1])
    callback = lesson.callback
    fold, local, doubt = None, None, None
    if model.mixing == "learned":
        fold = folds_by_group(data.groups, max(2, settings.gate_folds), lesson.plan.seed)
        local, doubt = train_local(data.features, data.labels, lesson.weights, fold, n_labels, lesson.plan, callback)
    weights, outcomes, learned = [], [], []
    for number, parents in enumerate(rules):
        sample, edges, starts = parents.compile(lesson.corpus, data.features, lesson.pair_rows, doubt)
        if number == 0:
            warn_without_edges(parents.names[1:], [d.edges for d in edges[1:]], lesson.corpus, lesson.dicts)
        examples = Examples(sample, data.labels, lesson.weights, n_labels, edges, starts)
        start = None
        if lesson.before is not None:
            names, shape = model.features_.names(), shape_of(sample, n_labels)
            start = inherit_mixture(lesson.before, number, names, data.classes, shape)
        score = scorer(parents, local)
        found, outcome = train_mixture(examples, settings, fold, start, lesson.plan, score, callback)
        weights.append(found)
        outcomes.append(outcome)
        learned.append(replace(parents, untrained=untrained_relations(parents.names, edges, data.labels)))
    return FittedTokens(tuple(learned), tuple(weights), local, combined(outcomes, ("forward: {}", "backward: {}")))
