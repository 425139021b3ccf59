"""Scores to answers: arrays in, arrays out."""
