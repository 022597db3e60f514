"""AccaSim 1.1.3 in an environment of its own, to be timed in turn with Parley.

Its simulator runs in one process and is told to write nothing. Its classes inherit from
`collections.Mapping`, which Python 3.10 has dropped: put back, nothing else is changed. Its
backfilling divides by what a job asks for of each resource of the machine, so that it gets the
trace with its memory fields set to -1 and a machine of cores alone; the other dispatchers get the
trace as it is, and a machine that has memory.

Source: Galleguillos et al., AccaSim: a customizable workload management simulator for job
dispatching research in HPC systems, Cluster Computing 23, 2020.
"""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
import venv
from pathlib import Path

VERSION = "1.1.3"

DRIVER = """
import collections, collections.abc, sys
collections.Mapping = collections.abc.Mapping
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut, JobVerification
from accasim.base.simulator_class import Simulator
policy, trace, machine, results = sys.argv[1:]
dispatcher = {
    "reject": lambda: FirstInFirstOut(FirstFit(), job_check=JobVerification.REJECT),
    "fifo": lambda: FirstInFirstOut(FirstFit()),
    "easy": lambda: EASYBackfilling(FirstFit()),
}[policy]()
Simulator(
    trace, machine, dispatcher, scheduling_output=False, statistics_output=False,
    pprint_output=False, show_statistics=False, RESULTS_FOLDER_NAME=results,
).start_simulation()
"""

_MEMORY_FIELDS = (6, 9)


class AccaSim:
    """What it takes to run it.

    Args:
        folder: Where the environment and the files are made.
        trace: In the Standard Workload Format, gzipped or plain.
        nodes: Of the machine, each with as many cores as *cores*.
    """

    def __init__(self, folder: Path, trace: Path, *, nodes: int, cores: int) -> None:
        self._folder = folder
        self._python = folder / "venv" / "bin" / "python"
        if not self._python.exists():
            venv.create(folder / "venv", with_pip=True)
            install = [str(self._python), "-m", "pip", "install", "-q", f"accasim=={VERSION}"]
            subprocess.run(install, check=True)
        (folder / "driver.py").write_text(DRIVER)
        self._machines = {
            bare: folder / f"machine_{'without' if bare else 'with'}_memory.json"
            for bare in (False, True)
        }
        for bare, path in self._machines.items():
            machine = {
                "groups": {"g0": {"core": cores, **({} if bare else {"mem": 1_048_576})}},
                "resources": {"g0": nodes},
                "equivalence": {"processor": {"core": 1}},
                "start_time": 0,
            }
            path.write_text(json.dumps(machine))
        self._traces = {False: folder / "trace.swf", True: folder / "without_memory.swf"}
        self._write(trace)

    def _write(self, trace: Path) -> None:
        compressed = trace.read_bytes()
        text = gzip.decompress(compressed) if trace.suffix == ".gz" else compressed
        self._traces[False].write_bytes(text)
        with self._traces[True].open("wb") as bare:
            bare.writelines(map(_without_memory, text.splitlines(keepends=True)))

    def command(self, policy: str) -> list[str]:
        """Return the command of a run with `reject`, `fifo` or `easy`."""
        return [
            *(str(self._python), str(self._folder / "driver.py"), policy),
            *(str(self._traces[policy == "easy"]), str(self._machines[policy == "easy"])),
            str(self._folder / "results"),
        ]


def _without_memory(line: bytes) -> bytes:
    fields = line.split()
    if not fields or line.startswith(b";"):
        return line
    for field in _MEMORY_FIELDS:
        fields[field] = b"-1"
    return b" ".join(fields) + b"\n"


def cores_of(flags: list[str]) -> int:
    """Return the cores of a node that flags of `parley run` describe; one, if they say nothing."""
    for flag, value in itertools.pairwise(flags):
        if flag == "--per-node" and value.startswith("core="):
            return int(value.removeprefix("core=").split(",")[0])
    return 1


if __name__ == "__main__":
    sys.exit("this is a part of bench.py: python tests/benchmarks/bench.py --against accasim")
