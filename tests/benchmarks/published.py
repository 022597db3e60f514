"""The mean waits and slowdowns of archive traces under the policies, beside those of others.

    python tests/benchmarks/published.py [--traces FOLDER] [--only KTH ...]

One row per trace and policy on standard output: our figures; those of an independent reference
that shares no code with Parley; and the mean bounded slowdown that a paper printed. Traces lie in
FOLDER, in `PARLEY_SHARED/traces`, or in `../shared/traces`.

Rules: lines with runtime < 0 or without processors, and those of status 2, 3 and 4, are left out;
size is requested processors, else allocated; no estimate means estimate = runtime; a job is
killed at its estimate; N nodes of one processor; slowdowns are bounded at 10 s. Published: by
Gaussier et al., SC'15, whose trace versions and rules differ in details.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_server import run

if TYPE_CHECKING:
    from collections.abc import Mapping

TRACES = {
    "KTH": ("KTH-SP2-1996-2.1-cln.swf.gz", 100, 28_475),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", 240, 202_871),
    "SDSC": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 54_044),
    "lublin": ("lublin_256.swf.gz", 256, 10_000),
}
"""File, nodes and jobs kept, by a short name."""


@dataclass(frozen=True)
class Row:
    """One run and the figures that others computed for it.

    Attributes:
        wait: Mean wait of the reference, seconds.
        slowdown: Mean bounded slowdown of the reference.
        makespan: Of the reference, seconds, where it is known.
        published: Mean bounded slowdown in the paper, where it is there.
        limit: So many jobs from the beginning of the trace; None is all.
    """

    trace: str
    policy: str
    wait: float
    slowdown: float
    makespan: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    estimate: str = "trace"
    published: float | None = None
    limit: int | None = None

    @property
    def name(self) -> str:
        """What the row is called: the trace and what decides."""
        settings = [f"{key}={value}" for key, value in self.parameters.items()]
        if self.estimate != "trace":
            settings.append(f"estimate={self.estimate}")
        if self.limit:
            settings.append(f"limit={self.limit}")
        return " ".join([self.trace, self.policy, *settings])


SJF, LARGEST = {"order": "sjf"}, {"order": "largest"}

ARCHIVE = [
    Row("KTH", "strict", 353943.093, 6825.6663, 28_779_758),
    Row("KTH", "easy", 6837.226, 92.8702, 28_763_776, published=92.6),
    Row("KTH", "easy", 6331.838, 72.0630, estimate="exact", published=71.7),
    Row("HPC2N", "strict", 15842.880, 207.3432, 109_256_855),
    Row("HPC2N", "easy", 10800.794, 89.0387, 109_256_855),
    Row("HPC2N", "easy", 10972.098, 77.9325, 109_256_855, estimate="exact"),
    Row("SDSC", "strict", 1536541.854, 13900.3533, 68_412_579),
    Row("SDSC", "easy", 20572.497, 88.5315, 63_025_323, published=87.9),
    Row("SDSC", "easy", 17320.263, 70.5989, 63_022_769, estimate="exact", published=70.5),
    Row("KTH", "conservative-none", 152921.344, 1274.3501),
    Row("KTH", "conservative", 7136.843, 85.3479),
    Row("KTH", "conservative-submit-order", 7319.826, 89.2136),
    Row("KTH", "prioritised", 6362.848, 70.8529, parameters=SJF),
    Row("KTH", "prioritised", 6985.511, 84.1005, parameters=LARGEST),
    Row("KTH", "easy", 4599.425, 42.3782, parameters=SJF),
    Row("KTH", "strict", 13336.332, 135.3969, parameters=SJF),
]

LUBLIN = [
    Row("lublin", "strict", 2388443.76, 66502.4755, 12_482_549),
    Row("lublin", "easy", 97155.995, 590.0538, 8_730_698),
    Row("lublin", "conservative", 131567.509, 489.2013, 8_729_497),
    Row("lublin", "strict", 275304.223, 53.5435, parameters=SJF),
    Row("lublin", "easy", 59632.195, 40.5596, parameters=SJF),
    Row("lublin", "easy", 87621.61, 606.4873, estimate="factor:2"),
]

_BEGINNING: dict[str, Any] = {"limit": 2000}
_DOUBLED: dict[str, Any] = {"limit": 2000, "estimate": "factor:2"}

BEGINNING = [
    Row("lublin", "easy", 23310.532, 291.0549, **_BEGINNING),
    Row("lublin", "conservative", 26911.357, 291.4079, **_BEGINNING),
    Row("lublin", "strict", 432425.014, 11783.6500, **_DOUBLED),
    Row("lublin", "easy", 22506.417, 353.4556, **_DOUBLED),
    Row("lublin", "conservative", 22661.602, 275.4320, **_DOUBLED),
    Row("lublin", "conservative-submit-order", 24249.492, 340.7680, **_DOUBLED),
    Row("lublin", "conservative-none", 149913.698, 449.3749, **_DOUBLED),
    Row("lublin", "prioritised", 19509.873, 83.4818, parameters=SJF, **_DOUBLED),
    Row("lublin", "prioritised", 24815.361, 379.8710, parameters=LARGEST, **_DOUBLED),
    Row("lublin", "prioritised", 24249.492, 340.7680, **_DOUBLED),
    Row("lublin", "prioritised", 20807.418, 202.4382, parameters={**SJF, "restart": 1}, **_DOUBLED),
    Row(
        *("lublin", "prioritised", 18843.114, 63.2002),
        parameters={**SJF, "restart": "inf"},
        **_DOUBLED,
    ),
    Row(
        *("lublin", "prioritised", 29695.067, 498.3788),
        parameters={**LARGEST, "restart": "inf"},
        **_DOUBLED,
    ),
]


def simulate(row: Row, traces: Path) -> dict[str, Any]:
    """Return the summary of a row's run."""
    file, nodes, _ = TRACES[row.trace]
    with tempfile.TemporaryDirectory() as out:
        result = run(
            swf=traces / file,
            nodes=nodes,
            select="archive",
            on_overrun="kill",
            estimate=row.estimate,
            limit=row.limit,
            policy=row.policy,
            parameters=row.parameters,
            out=Path(out) / "run",
        )
    return dict(result.summary)


def agrees(row: Row, summary: Mapping[str, Any]) -> bool:
    """Whether a run has the figures of the reference, to the digits that are known."""
    digits = len(str(row.wait).partition(".")[2])
    return (
        round(summary["wait"]["mean"], digits) == row.wait
        and round(summary["bounded_slowdown"]["mean"], 4) == row.slowdown
        and row.makespan in {None, summary["makespan"]}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Archive traces: our figures and others'.")
    shared = Path(os.environ.get("PARLEY_SHARED", Path(__file__).parents[2].parent / "shared"))
    parser.add_argument("--traces", type=Path, default=shared / "traces")
    parser.add_argument("--only", nargs="*", choices=sorted(TRACES), default=sorted(TRACES))
    options = parser.parse_args()
    print(
        f"{'run':<64}{'mean wait, s':>16}{'reference':>16}{'slowdown':>12}{'reference':>12}"
        f"{'published':>11}"
    )
    wrong = 0
    for row in (*ARCHIVE, *LUBLIN, *BEGINNING):
        if row.trace not in options.only:
            continue
        summary = simulate(row, options.traces)
        same = agrees(row, summary)
        wrong += not same
        print(
            f"{row.name:<64}{summary['wait']['mean']:>16.3f}{row.wait:>16.3f}"
            f"{summary['bounded_slowdown']['mean']:>12.4f}{row.slowdown:>12.4f}"
            f"{row.published or '':>11}{'' if same else '  differs'}",
            flush=True,
        )
    sys.exit(f"{wrong} rows differ from the reference" if wrong else 0)


if __name__ == "__main__":
    main()
