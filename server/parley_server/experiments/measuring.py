"""Computes the metrics of a cell, in a process of its own: a metric of a user's may do anything.

python -m parley_server.experiments.measuring DIRECTORY WARMUP COOLDOWN [METRIC ...]

The numbers go to standard output, as one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from parley_server.errors import ExitStatus, ParleyError, one_line
from parley_server.experiments.store import finite
from parley_server.results.measures import measures
from parley_server.results.run_directory import open_run
from parley_server.results.sample import Window


def main(arguments: list[str]) -> int:
    """Print the metrics of a run; return the exit status."""
    directory, warmup, cooldown, *extra = arguments
    try:
        run = open_run(Path(directory))
        found = measures(run, window=Window(warmup, cooldown), extra=extra)
    except ParleyError as error:
        print(f"parley: {one_line(str(error))}", file=sys.stderr)  # noqa: T201 - a command
        return error.exit_status
    json.dump({name: finite(value) for name, value in found.items()}, sys.stdout)
    return ExitStatus.COMPLETE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
