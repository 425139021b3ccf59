"""Choosing a feature set by name, for the columns that a corpus has."""

from __future__ import annotations

from kinfolk.errors import SettingError
from kinfolk.text.corpus import Corpus
from kinfolk.text.defaults import DOCUMENT, SENTENCE
from kinfolk.text.extraction import Templates, flatten
from kinfolk.text.templates import Template

NAMED = {"sentence": SENTENCE, "document": DOCUMENT}


def for_corpus(templates: str | Templates, corpus: Corpus) -> list[Template]:
    """A named set without the templates whose columns are missing; a list of templates as it is.

    A template of the user's own that reads a missing column is an error when it is used.
    """
    if not isinstance(templates, str):
        return flatten(templates)
    if templates not in NAMED:
        raise SettingError(f"templates must be {' or '.join(map(repr, NAMED))}, or a list; got {templates!r}")
    return [t for t in flatten(NAMED[templates]) if set(t.needs()) <= set(corpus.columns)]
