"""Objectives to weights: products, L-BFGS, warm start, cross-fitting; knows no task."""
