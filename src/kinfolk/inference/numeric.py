"""Settings of floating-point arithmetic that all kernels share."""

# Reassociation lets short sums run in vector registers; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}

# Totals outside (TINY, 1 / TINY) are too near the ends of float64 to go on with.
TINY = 1e-200

# A factor or a share in (0, FAINT) is not carried on as a float: a later factor might make it count, and the
# product of two must stay above the least float64.
FAINT = 1e-140
FAINT_SINGLE = 1e-30  # what is below may have lost digits in float32
