"""What a Linker may be set to, and what it can learn from."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from kinfolk.data.mentions import Mentions
from kinfolk.errors import InputError, SettingError
from kinfolk.models.bias import Bias
from kinfolk.models.link_scores import metric

log = logging.getLogger("kinfolk")


def check_items(items: Any) -> None:
    if not isinstance(items, Mentions):
        told = f"expected Mentions (read_coref, read_records); got {type(items).__name__}"
        is_frame = hasattr(items, "columns")
        raise InputError(told + ("; for a data frame: kf.records_from_frames(df, cluster=...)" if is_frame else ""))


def check_linker(linker: Any, items: Any) -> None:
    check_items(items)
    for name, allowed in linker.CHOICES.items():
        if getattr(linker, name) not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {getattr(linker, name)!r}")
    if linker.bias is not None:
        if not isinstance(linker.bias, Bias):
            raise SettingError(f'bias must be None or Bias("all" or "closest", factor); got {linker.bias!r}')
        linker.bias.check()
    if not isinstance(linker.rounds, int | np.integer) or linker.rounds < 1:
        raise SettingError(f"rounds must be 1 or more; got {linker.rounds!r}")
    if linker.folds is not None and not (isinstance(linker.folds, int | np.integer) and linker.folds > 1):
        raise SettingError(f"folds must be 2 or more, or None; got {linker.folds!r}")
    for name, least in (("l2", 0), ("tolerance", 0), ("max_iterations", 1)):
        value = getattr(linker, name)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= least:
            raise SettingError(f"{name} must be a number, {least} or more; got {value!r}")
    if not selected(linker):
        raise SettingError("select must name a metric, such as 'pair_f1'; got none")
    for name in selected(linker):
        metric(name)


def selected(linker: Any) -> list[str]:
    """The metrics of `select`, the first of which chooses."""
    return [linker.select] if isinstance(linker.select, str) else list(linker.select)


def trainable(items: Mentions) -> Mentions:
    """The items with known clusters, if their pairs can teach anything."""
    if items.clusters is None:
        raise InputError("training needs items with true clusters; give cluster=... or truth=... to read_records")
    known = items.clusters >= 0
    if not known.all():
        log.info("%d items without a known cluster are left out of training", int((~known).sum()))
    kept = items if known.all() else items.take(known)
    if not kept.n_pairs:
        raise InputError("no candidate pair to learn from; choose wider blocking rules")
    labels = kept.pair_labels
    if not (labels == 1).any() or not (labels == 0).any():
        which = "a true link" if not (labels == 1).any() else "two different entities"
        raise InputError(f"none of {kept.n_pairs} candidate pairs is {which}; look at blocking and truth")
    return kept


def item_pairs(items: Mentions, given: Any) -> Any:
    """Pairs of item numbers from pairs of numbers or names; None stays None."""
    if given is None:
        return None
    return np.array([[items.number(one) for one in pair] for pair in np.asarray(given).tolist()], np.int64).reshape(
        -1, 2
    )
