"""Descriptions of machines."""

from parley_server.platform.description import (
    GroupDescription,
    MemoryDescription,
    PartitionDescription,
    PlatformDescription,
    uniform,
)
from parley_server.platform.reading import guessed, read_platform

__all__ = [
    "GroupDescription",
    "MemoryDescription",
    "PartitionDescription",
    "PlatformDescription",
    "guessed",
    "read_platform",
    "uniform",
]
