"""How large the value of a feature may be, in training and in prediction alike."""

from __future__ import annotations

LARGEST_VALUE = 1e12  # beyond it squares and sums of float32 scores lose all meaning
BOUNDS = f"feature values must be finite and lie within ±{LARGEST_VALUE:g}"
