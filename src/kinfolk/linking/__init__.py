"""Records and mentions into clusters: blocking, comparisons, the Linker, its scores, explanations and commands."""

from kinfolk.core.public import public_names

_HOMES, __getattr__, __dir__ = public_names(__name__, __file__)
__all__ = sorted(_HOMES)
