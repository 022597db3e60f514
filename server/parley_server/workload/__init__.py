"""Where jobs come from: recorded traces, read as a stream and by written rules."""

from parley_server.workload.report import ReadReport
from parley_server.workload.rules import (
    Estimate,
    EstimateMissing,
    ReadingRules,
    RequestMode,
    Select,
    parse_estimate,
)
from parley_server.workload.source import SwfSource, WorkloadSource

__all__ = [
    "Estimate",
    "EstimateMissing",
    "ReadReport",
    "ReadingRules",
    "RequestMode",
    "Select",
    "SwfSource",
    "WorkloadSource",
    "parse_estimate",
]
