"""Which version this is."""

from importlib.metadata import version

__version__ = version("parley-sim")
