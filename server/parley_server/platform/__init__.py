"""Descriptions of machines."""

from parley_server.platform.description import (
    GroupDescription,
    PlatformDescription,
    read_platform,
    uniform,
)

__all__ = ["GroupDescription", "PlatformDescription", "read_platform", "uniform"]
