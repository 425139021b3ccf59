"""How models are kept in files, and what those that label things show of themselves: their classes."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from kinfolk.core.settings import Settings
from kinfolk.text.labels import LabelCoding


class Saved(Settings):
    """Abstract: a model that `load_model` can read back."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one model file; `kinfolk.load_model(path)` reads it back."""
        from kinfolk.core.persistence import save_model  # here, as it knows every model

        self._require_fitted()
        save_model(self, path)


class Labeller(Saved):
    """Abstract: a model whose `fit` learns a `coding_`."""

    coding_: LabelCoding

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that columns of `predict_proba` stand for, of the type of the labels trained on and sorted; of
        entity tags in the scheme the model works in."""
        self._require_fitted()
        return self.coding_.classes.array()
