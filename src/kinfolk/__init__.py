"""kinfolk: label things by the company they keep. The public names are declared in `__init__.pyi`."""

from kinfolk.core.public import public_names

__version__ = "0.2.0"
_HOMES, __getattr__, __dir__ = public_names(__name__, __file__)
__all__ = ["__version__", *sorted(_HOMES)]
