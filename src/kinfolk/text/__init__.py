"""Tokens in documents: corpora, readers, templates, taggers, their scores, explanations and commands."""
