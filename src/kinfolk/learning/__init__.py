"""Objectives to weights. Takes arrays and callables; knows no files, features or models."""
