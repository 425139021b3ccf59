"""Pairs of records that stand side by side in a table, each with the probability that they belong together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kinfolk.core.frames import OpenedFrame, opened
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.clustered import fields_of
from kinfolk.linking.comparisons import within_best_of
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.probabilities import RANKS
from kinfolk.linking.records import records_from_frames


def score_pairs(linker: Any, pairs: Any, suffixes: tuple[str, str], probability: str) -> Any:
    """What `Linker.score_pairs` answers."""
    if linker.training in RANKS:
        expected = "'local' or 'structured' to score single pairs: an antecedent competes with all others"
        raise SettingError("training", linker.training, expected)
    wide = next(iter(within_best_of(linker.pair_set_.features)), None)
    if wide is not None:
        remedy = "train with `features=...` without it"
        raise SettingError("features", f"best_of({wide})", "without best_of(...) to score single pairs", remedy)
    given = opened(pairs, "pairs")
    given.check_free(probability=probability)
    items = _side_by_side(given, fields_of(linker.pair_set_.features), suffixes)
    return given.with_columns({probability: linker.predict_proba(items)})


def _side_by_side(given: OpenedFrame, fields: list[str], suffixes: tuple[str, str]) -> Mentions:
    """The records of both sides, and the pairs of the rows."""
    if not (isinstance(suffixes, tuple | list) and len({*suffixes}) == 2):
        raise SettingError("suffixes", suffixes, "two endings of columns, such as ('_l', '_r')")
    wanted = [field + suffix for suffix in suffixes for field in fields]
    lacking = next((name for name in wanted if name not in given.columns), None)
    if lacking is not None:
        remedy = "name the endings of the two sides with `suffixes=('_l', '_r')`"
        raise InputError(f"pairs: there is no column {lacking!r}, by which the model compares; {remedy}")
    sides = [given.selected({field + suffix: field for field in fields}) for suffix in suffixes]
    both = records_from_frames(*sides, id=None, fields=fields)
    n = both.n_items // 2
    left = np.arange(n, dtype=np.int32)
    return replace(both, first_table=None, left=left, right=left + n, blocked=True)
