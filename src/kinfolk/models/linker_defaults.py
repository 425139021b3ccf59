"""What a Linker takes where nothing was chosen: it depends on whether the items are mentions of a text or records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kinfolk.data.mentions import Mentions
from kinfolk.errors import SettingError
from kinfolk.features.comparisons import as_comparisons, default_comparisons
from kinfolk.features.coreference import CONJUNCTIONS, CoreferencePairs
from kinfolk.features.pairs import PairFeature
from kinfolk.models.clusterers import AverageLink, Clusterer, SingleLink

if TYPE_CHECKING:
    from kinfolk.models.linker import Linker


def features_for(linker: Linker, items: Mentions) -> Sequence[PairFeature]:
    if linker.features is not None:
        return as_comparisons(linker.features)
    return [CoreferencePairs()] if items.corpus is not None else default_comparisons(items)


def conjunctions_for(linker: Linker, features: Sequence[PairFeature]) -> Any:
    if not (isinstance(linker.conjunctions, str) and linker.conjunctions == "default"):
        return linker.conjunctions
    return CONJUNCTIONS if any(isinstance(f, CoreferencePairs) for f in features) else None


def clusterer_for(linker: Linker, items: Mentions) -> Clusterer:
    if linker.clusterer is None:
        return SingleLink() if items.corpus is not None else AverageLink()
    if not isinstance(linker.clusterer, Clusterer):
        raise SettingError(f"clusterer must be SingleLink(), AverageLink(), ...; got {linker.clusterer!r}")
    return linker.clusterer
