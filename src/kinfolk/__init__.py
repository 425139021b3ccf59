"""kinfolk: label things by the company they keep.

Public names are loaded when first used, so `import kinfolk` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinfolk.data.citations import generate_citations as generate_citations
    from kinfolk.data.column import Column as Column
    from kinfolk.data.corpus import Corpus as Corpus
    from kinfolk.data.customers import generate_customers as generate_customers
    from kinfolk.data.graph import Graph as Graph
    from kinfolk.data.mentions import Mentions as Mentions
    from kinfolk.data.newswire import generate_newswire as generate_newswire
    from kinfolk.data.newswire import newswire_split as newswire_split
    from kinfolk.data.records import records_from_frames as records_from_frames
    from kinfolk.data.relational import Relational as Relational
    from kinfolk.data.vocabulary import Vocabulary as Vocabulary
    from kinfolk.errors import KinfolkError as KinfolkError
    from kinfolk.features.best_of import BestOf as BestOf
    from kinfolk.features.blocking import Key as Key
    from kinfolk.features.blocking import RareTokens as RareTokens
    from kinfolk.features.blocking import SortedNeighbourhood as SortedNeighbourhood
    from kinfolk.features.blocking import block as block
    from kinfolk.features.blocking import blocked as blocked
    from kinfolk.features.company import NeighbourFunction as NeighbourFunction
    from kinfolk.features.comparisons import DateDifference as DateDifference
    from kinfolk.features.comparisons import Edit as Edit
    from kinfolk.features.comparisons import Exact as Exact
    from kinfolk.features.comparisons import JaroWinkler as JaroWinkler
    from kinfolk.features.comparisons import NumberDifference as NumberDifference
    from kinfolk.features.comparisons import Numbers as Numbers
    from kinfolk.features.comparisons import PairFunction as PairFunction
    from kinfolk.features.comparisons import SharedCodes as SharedCodes
    from kinfolk.features.comparisons import TfidfCosine as TfidfCosine
    from kinfolk.features.comparisons import TokenOverlap as TokenOverlap
    from kinfolk.features.coreference import CoreferencePairs as CoreferencePairs
    from kinfolk.features.diffusion import diffused as diffused
    from kinfolk.features.edges import edge_feature as edge_feature
    from kinfolk.features.neighbours import Concat as Concat
    from kinfolk.features.neighbours import Count as Count
    from kinfolk.features.neighbours import Exists as Exists
    from kinfolk.features.neighbours import LogCount as LogCount
    from kinfolk.features.neighbours import Max as Max
    from kinfolk.features.neighbours import Mean as Mean
    from kinfolk.features.neighbours import Proportion as Proportion
    from kinfolk.features.paths import Relation as Relation
    from kinfolk.features.skips import SameWord as SameWord
    from kinfolk.features.skips import SkipFunction as SkipFunction
    from kinfolk.features.window import Window as Window
    from kinfolk.io.conll import read_conll as read_conll
    from kinfolk.io.conll import write_conll as write_conll
    from kinfolk.io.coref import read_coref as read_coref
    from kinfolk.io.gazetteers import read_gazetteer as read_gazetteer
    from kinfolk.io.linqs import read_linqs as read_linqs
    from kinfolk.io.mail import read_mail as read_mail
    from kinfolk.io.plaintext import read_text as read_text
    from kinfolk.io.proteins import read_aimed as read_aimed
    from kinfolk.io.proteins import read_genia as read_genia
    from kinfolk.io.proteins import read_yapex as read_yapex
    from kinfolk.io.records import read_records as read_records
    from kinfolk.io.tables import read_tables as read_tables
    from kinfolk.io.webkb import read_webkb as read_webkb
    from kinfolk.metrics.coreference import coreference_scores as coreference_scores
    from kinfolk.models.bias import Bias as Bias
    from kinfolk.models.clusterers import AverageLink as AverageLink
    from kinfolk.models.clusterers import BestLink as BestLink
    from kinfolk.models.clusterers import BestMatch as BestMatch
    from kinfolk.models.clusterers import CompleteLink as CompleteLink
    from kinfolk.models.clusterers import Correlation as Correlation
    from kinfolk.models.clusterers import OneToOne as OneToOne
    from kinfolk.models.clusterers import SingleLink as SingleLink
    from kinfolk.models.crf import LinearChainCRF as LinearChainCRF
    from kinfolk.models.dependency import DependencyNetwork as DependencyNetwork
    from kinfolk.models.diffusion_choice import choose_alpha as choose_alpha
    from kinfolk.models.entities import entity_scores as entity_scores
    from kinfolk.models.link import LinkModel as LinkModel
    from kinfolk.models.linker import Linker as Linker
    from kinfolk.models.maxent import MaxEnt as MaxEnt
    from kinfolk.models.memm import MEMM as MEMM
    from kinfolk.models.mixture import MixtureOfParents as MixtureOfParents
    from kinfolk.models.persistence import load_model as load_model
    from kinfolk.models.skip_chain import SkipChainCRF as SkipChainCRF
    from kinfolk.models.stacked import StackedGraphical as StackedGraphical

_HOME = {
    "AverageLink": "models.clusterers",
    "BestLink": "models.clusterers",
    "BestMatch": "models.clusterers",
    "BestOf": "features.best_of",
    "Bias": "models.bias",
    "Column": "data.column",
    "CompleteLink": "models.clusterers",
    "Concat": "features.neighbours",
    "CoreferencePairs": "features.coreference",
    "Corpus": "data.corpus",
    "Correlation": "models.clusterers",
    "Count": "features.neighbours",
    "DateDifference": "features.comparisons",
    "DependencyNetwork": "models.dependency",
    "Edit": "features.comparisons",
    "Exact": "features.comparisons",
    "Exists": "features.neighbours",
    "Graph": "data.graph",
    "JaroWinkler": "features.comparisons",
    "Key": "features.blocking",
    "KinfolkError": "errors",
    "LinearChainCRF": "models.crf",
    "LinkModel": "models.link",
    "Linker": "models.linker",
    "LogCount": "features.neighbours",
    "MEMM": "models.memm",
    "Max": "features.neighbours",
    "MaxEnt": "models.maxent",
    "Mean": "features.neighbours",
    "Mentions": "data.mentions",
    "MixtureOfParents": "models.mixture",
    "NeighbourFunction": "features.company",
    "NumberDifference": "features.comparisons",
    "Numbers": "features.comparisons",
    "OneToOne": "models.clusterers",
    "PairFunction": "features.comparisons",
    "Proportion": "features.neighbours",
    "RareTokens": "features.blocking",
    "Relation": "features.paths",
    "Relational": "data.relational",
    "SameWord": "features.skips",
    "SharedCodes": "features.comparisons",
    "SingleLink": "models.clusterers",
    "SkipChainCRF": "models.skip_chain",
    "SkipFunction": "features.skips",
    "SortedNeighbourhood": "features.blocking",
    "StackedGraphical": "models.stacked",
    "TfidfCosine": "features.comparisons",
    "TokenOverlap": "features.comparisons",
    "Vocabulary": "data.vocabulary",
    "Window": "features.window",
    "block": "features.blocking",
    "blocked": "features.blocking",
    "choose_alpha": "models.diffusion_choice",
    "coreference_scores": "metrics.coreference",
    "diffused": "features.diffusion",
    "edge_feature": "features.edges",
    "entity_scores": "models.entities",
    "generate_citations": "data.citations",
    "generate_customers": "data.customers",
    "generate_newswire": "data.newswire",
    "load_model": "models.persistence",
    "newswire_split": "data.newswire",
    "read_aimed": "io.proteins",
    "read_conll": "io.conll",
    "read_coref": "io.coref",
    "read_gazetteer": "io.gazetteers",
    "read_genia": "io.proteins",
    "read_linqs": "io.linqs",
    "read_mail": "io.mail",
    "read_records": "io.records",
    "read_tables": "io.tables",
    "read_text": "io.plaintext",
    "read_webkb": "io.webkb",
    "read_yapex": "io.proteins",
    "records_from_frames": "data.records",
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
