"""Scores to answers: arrays in, arrays out; knows no task."""
