"""Settings of floating-point arithmetic that all kernels share."""

# Reassociation lets short sums run in vector registers; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}

# Totals outside (TINY, 1 / TINY) are too near the ends of float64 to go on with.
TINY = 1e-200
