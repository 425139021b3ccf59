"""kinfolk: label things by the company they keep.

Public names are loaded when first used, so `import kinfolk` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinfolk.collective.relations import Relation as Relation
    from kinfolk.collective.templates import Concat as Concat
    from kinfolk.collective.templates import Count as Count
    from kinfolk.collective.templates import Exists as Exists
    from kinfolk.collective.templates import LogCount as LogCount
    from kinfolk.collective.templates import Max as Max
    from kinfolk.collective.templates import Mean as Mean
    from kinfolk.collective.templates import NeighbourFunction as NeighbourFunction
    from kinfolk.collective.templates import Proportion as Proportion
    from kinfolk.collective.templates import Window as Window
    from kinfolk.core.data import Column as Column
    from kinfolk.core.data import Relational as Relational
    from kinfolk.core.data import Vocabulary as Vocabulary
    from kinfolk.core.modelfile import load_model as load_model
    from kinfolk.datasets.citations import generate_citations as generate_citations
    from kinfolk.datasets.corpora import read_aimed as read_aimed
    from kinfolk.datasets.corpora import read_genia as read_genia
    from kinfolk.datasets.corpora import read_mail as read_mail
    from kinfolk.datasets.corpora import read_yapex as read_yapex
    from kinfolk.datasets.customers import generate_customers as generate_customers
    from kinfolk.datasets.linqs import read_linqs as read_linqs
    from kinfolk.datasets.newswire import generate_newswire as generate_newswire
    from kinfolk.datasets.newswire import newswire_split as newswire_split
    from kinfolk.datasets.webkb import read_webkb as read_webkb
    from kinfolk.errors import KinfolkError as KinfolkError
    from kinfolk.graph.dependency import DependencyNetwork as DependencyNetwork
    from kinfolk.graph.diffusion import choose_alpha as choose_alpha
    from kinfolk.graph.diffusion import diffused as diffused
    from kinfolk.graph.files import read_tables as read_tables
    from kinfolk.graph.graph import Graph as Graph
    from kinfolk.graph.link_model import LinkModel as LinkModel
    from kinfolk.graph.mixture import MixtureNodes as MixtureNodes
    from kinfolk.graph.stacked import StackedNodes as StackedNodes
    from kinfolk.linking.blocking import Key as Key
    from kinfolk.linking.blocking import RareTokens as RareTokens
    from kinfolk.linking.blocking import SortedNeighbourhood as SortedNeighbourhood
    from kinfolk.linking.blocking import block as block
    from kinfolk.linking.blocking import blocked as blocked
    from kinfolk.linking.clusterers import AverageLink as AverageLink
    from kinfolk.linking.clusterers import BestLink as BestLink
    from kinfolk.linking.clusterers import BestMatch as BestMatch
    from kinfolk.linking.clusterers import CompleteLink as CompleteLink
    from kinfolk.linking.clusterers import Correlation as Correlation
    from kinfolk.linking.clusterers import OneToOne as OneToOne
    from kinfolk.linking.clusterers import SingleLink as SingleLink
    from kinfolk.linking.comparisons import BestOf as BestOf
    from kinfolk.linking.comparisons import DateDifference as DateDifference
    from kinfolk.linking.comparisons import Edit as Edit
    from kinfolk.linking.comparisons import Exact as Exact
    from kinfolk.linking.comparisons import JaroWinkler as JaroWinkler
    from kinfolk.linking.comparisons import NumberDifference as NumberDifference
    from kinfolk.linking.comparisons import Numbers as Numbers
    from kinfolk.linking.comparisons import PairFunction as PairFunction
    from kinfolk.linking.comparisons import SharedCodes as SharedCodes
    from kinfolk.linking.comparisons import TfidfCosine as TfidfCosine
    from kinfolk.linking.comparisons import TokenOverlap as TokenOverlap
    from kinfolk.linking.coref import read_coref as read_coref
    from kinfolk.linking.coreference import CoreferencePairs as CoreferencePairs
    from kinfolk.linking.linker import Linker as Linker
    from kinfolk.linking.mentions import Mentions as Mentions
    from kinfolk.linking.objective import Bias as Bias
    from kinfolk.linking.records import read_records as read_records
    from kinfolk.linking.records import records_from_frames as records_from_frames
    from kinfolk.linking.scores import coreference_scores as coreference_scores
    from kinfolk.text.batch import entity_scores as entity_scores
    from kinfolk.text.chain import MEMM as MEMM
    from kinfolk.text.chain import LinearChainCRF as LinearChainCRF
    from kinfolk.text.chain import MaxEnt as MaxEnt
    from kinfolk.text.conll import read_conll as read_conll
    from kinfolk.text.conll import read_gazetteer as read_gazetteer
    from kinfolk.text.conll import read_text as read_text
    from kinfolk.text.conll import write_conll as write_conll
    from kinfolk.text.corpus import Corpus as Corpus
    from kinfolk.text.mixture import MixtureTagger as MixtureTagger
    from kinfolk.text.skip_chain import SkipChainCRF as SkipChainCRF
    from kinfolk.text.skip_edges import SameWord as SameWord
    from kinfolk.text.skip_edges import SkipFunction as SkipFunction
    from kinfolk.text.skip_edges import edge_feature as edge_feature
    from kinfolk.text.stacked import StackedTagger as StackedTagger

_HOME = {
    "AverageLink": "linking.clusterers",
    "BestLink": "linking.clusterers",
    "BestMatch": "linking.clusterers",
    "BestOf": "linking.comparisons",
    "Bias": "linking.objective",
    "Column": "core.data",
    "CompleteLink": "linking.clusterers",
    "Concat": "collective.templates",
    "CoreferencePairs": "linking.coreference",
    "Corpus": "text.corpus",
    "Correlation": "linking.clusterers",
    "Count": "collective.templates",
    "DateDifference": "linking.comparisons",
    "DependencyNetwork": "graph.dependency",
    "Edit": "linking.comparisons",
    "Exact": "linking.comparisons",
    "Exists": "collective.templates",
    "Graph": "graph.graph",
    "JaroWinkler": "linking.comparisons",
    "Key": "linking.blocking",
    "KinfolkError": "errors",
    "LinearChainCRF": "text.chain",
    "LinkModel": "graph.link_model",
    "Linker": "linking.linker",
    "LogCount": "collective.templates",
    "MEMM": "text.chain",
    "Max": "collective.templates",
    "MaxEnt": "text.chain",
    "Mean": "collective.templates",
    "Mentions": "linking.mentions",
    "MixtureNodes": "graph.mixture",
    "MixtureTagger": "text.mixture",
    "NeighbourFunction": "collective.templates",
    "NumberDifference": "linking.comparisons",
    "Numbers": "linking.comparisons",
    "OneToOne": "linking.clusterers",
    "PairFunction": "linking.comparisons",
    "Proportion": "collective.templates",
    "RareTokens": "linking.blocking",
    "Relation": "collective.relations",
    "Relational": "core.data",
    "SameWord": "text.skip_edges",
    "SharedCodes": "linking.comparisons",
    "SingleLink": "linking.clusterers",
    "SkipChainCRF": "text.skip_chain",
    "SkipFunction": "text.skip_edges",
    "SortedNeighbourhood": "linking.blocking",
    "StackedNodes": "graph.stacked",
    "StackedTagger": "text.stacked",
    "TfidfCosine": "linking.comparisons",
    "TokenOverlap": "linking.comparisons",
    "Vocabulary": "core.data",
    "Window": "collective.templates",
    "block": "linking.blocking",
    "blocked": "linking.blocking",
    "choose_alpha": "graph.diffusion",
    "coreference_scores": "linking.scores",
    "diffused": "graph.diffusion",
    "edge_feature": "text.skip_edges",
    "entity_scores": "text.batch",
    "generate_citations": "datasets.citations",
    "generate_customers": "datasets.customers",
    "generate_newswire": "datasets.newswire",
    "load_model": "core.modelfile",
    "newswire_split": "datasets.newswire",
    "read_aimed": "datasets.corpora",
    "read_conll": "text.conll",
    "read_coref": "linking.coref",
    "read_gazetteer": "text.conll",
    "read_genia": "datasets.corpora",
    "read_linqs": "datasets.linqs",
    "read_mail": "datasets.corpora",
    "read_records": "linking.records",
    "read_tables": "graph.files",
    "read_text": "text.conll",
    "read_webkb": "datasets.webkb",
    "read_yapex": "datasets.corpora",
    "records_from_frames": "linking.records",
    "write_conll": "text.conll",
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
