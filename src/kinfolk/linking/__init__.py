"""Records and mentions into clusters: blocking, comparisons, the Linker, its scores, explanations and commands."""
