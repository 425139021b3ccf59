"""Tokens in documents: corpora, readers, templates, taggers, their scores, explanations and commands."""

from kinfolk.collective.templates import Window as Window
from kinfolk.text import crfsuite as crfsuite
from kinfolk.text.chain import MEMM as MEMM
from kinfolk.text.chain import LinearChainCRF as LinearChainCRF
from kinfolk.text.chain import MaxEnt as MaxEnt
from kinfolk.text.conll import read_conll as read_conll
from kinfolk.text.conll import read_gazetteer as read_gazetteer
from kinfolk.text.conll import read_text as read_text
from kinfolk.text.conll import write_conll as write_conll
from kinfolk.text.corpus import Corpus as Corpus
from kinfolk.text.layer import TokenLayer as TokenLayer
from kinfolk.text.mixture import MixtureTagger as MixtureTagger
from kinfolk.text.pieces import words_from_pieces as words_from_pieces
from kinfolk.text.scores import EntityScores as EntityScores
from kinfolk.text.scores import entity_scores as entity_scores
from kinfolk.text.skip_chain import SkipChainCRF as SkipChainCRF
from kinfolk.text.skip_edges import SameWord as SameWord
from kinfolk.text.skip_edges import SkipFunction as SkipFunction
from kinfolk.text.skip_edges import edge_feature as edge_feature
from kinfolk.text.stacked import StackedTagger as StackedTagger
from kinfolk.text.streams import stream_conll as stream_conll
from kinfolk.text.streams import stream_text as stream_text
