"""kinfolk: label things by the company they keep.

Public names are loaded when first used, so `import kinfolk` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinfolk.data.corpus import Column as Column
    from kinfolk.data.corpus import Corpus as Corpus
    from kinfolk.data.graph import Graph as Graph
    from kinfolk.data.newswire import generate_newswire as generate_newswire
    from kinfolk.data.newswire import newswire_split as newswire_split
    from kinfolk.data.relational import Relational as Relational
    from kinfolk.data.vocabulary import Vocabulary as Vocabulary
    from kinfolk.errors import KinfolkError as KinfolkError
    from kinfolk.features.edges import edge_feature as edge_feature
    from kinfolk.features.skips import SameWord as SameWord
    from kinfolk.features.skips import SkipFunction as SkipFunction
    from kinfolk.io.conll import read_conll as read_conll
    from kinfolk.io.conll import write_conll as write_conll
    from kinfolk.io.gazetteers import read_gazetteer as read_gazetteer
    from kinfolk.io.linqs import read_linqs as read_linqs
    from kinfolk.io.plaintext import read_text as read_text
    from kinfolk.io.webkb import read_webkb as read_webkb
    from kinfolk.metrics.entities import entity_scores as entity_scores
    from kinfolk.models.crf import LinearChainCRF as LinearChainCRF
    from kinfolk.models.link import LinkModel as LinkModel
    from kinfolk.models.maxent import MaxEnt as MaxEnt
    from kinfolk.models.memm import MEMM as MEMM
    from kinfolk.models.mixture import MixtureOfParents as MixtureOfParents
    from kinfolk.models.persistence import load_model as load_model
    from kinfolk.models.skip_chain import SkipChainCRF as SkipChainCRF

_HOME = {
    "Column": "data.corpus",
    "Corpus": "data.corpus",
    "Graph": "data.graph",
    "KinfolkError": "errors",
    "LinearChainCRF": "models.crf",
    "LinkModel": "models.link",
    "MEMM": "models.memm",
    "MaxEnt": "models.maxent",
    "MixtureOfParents": "models.mixture",
    "Relational": "data.relational",
    "SameWord": "features.skips",
    "SkipChainCRF": "models.skip_chain",
    "SkipFunction": "features.skips",
    "Vocabulary": "data.vocabulary",
    "edge_feature": "features.edges",
    "entity_scores": "metrics.entities",
    "generate_newswire": "data.newswire",
    "load_model": "models.persistence",
    "newswire_split": "data.newswire",
    "read_conll": "io.conll",
    "read_gazetteer": "io.gazetteers",
    "read_linqs": "io.linqs",
    "read_text": "io.plaintext",
    "read_webkb": "io.webkb",
    "write_conll": "io.conll",
}

__version__ = "0.1.0"
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kinfolk' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"kinfolk.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
