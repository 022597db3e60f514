"""The mutants, and which cases each of them must fail: the table of `mutants.toml`.

python -m tests.conformance.table            runs them all, and prints the figures
python -m tests.conformance.table NAMES...   runs some of them, and prints why cases fail
"""

from __future__ import annotations

import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from parley_conformance.cases import ALL_CASES
from parley_conformance.dispatchers import DISPATCHER_CASES
from parley_conformance.runner import Options, judge_dispatcher, judge_server
from parley_conformance.servers import SERVER_CASES
from parley_conformance.stage import Patience
from parley_conformance.verdicts import Verdict
from tests.conformance.mutants.nursery import Nursery

TABLE = Path(__file__).with_name("mutants.toml")

PATIENCE = Patience(hello=5.0, message=3.0, leave=1.0)

SIDE_BY_SIDE = 2
"""Mutants at a time; each has dialogues side by side as well."""

_FAILS = {Verdict.FAIL, Verdict.NON_STRICT}


@cache
def table() -> dict[str, dict[str, list[str]]]:
    """Return for each side the mutants, and the cases that each must fail."""
    return tomllib.loads(TABLE.read_text())


def mutants() -> list[tuple[str, str]]:
    """Return side and name of each mutant."""
    return [(side, name) for side, rows in table().items() for name in rows]


def results_of(nursery: Nursery, side: str, name: str) -> list[Any]:
    """Return what comes of each case for a mutant."""
    options = Options(workers=8, patience=PATIENCE)
    if side == "dispatcher":
        return judge_dispatcher(nursery.program("dispatcher", name), DISPATCHER_CASES, options)
    program = nursery.program("server", name, "{endpoint}", "{scenarios}")
    with tempfile.TemporaryDirectory() as scratch:
        return judge_server(program, SERVER_CASES, options, Path(scratch))


def failed(results: list[Any]) -> list[str]:
    """Return the ids of the cases that failed, in their order."""
    return [result.case.id for result in results if result.verdict in _FAILS]


def faults(results: list[Any]) -> list[str]:
    """Return what the kit itself did wrong."""
    return [
        f"{result.case.id}: {result.finding.reason}"
        for result in results
        if result.verdict is Verdict.ERROR
    ]


def main(names: list[str]) -> int:
    """Run mutants; return 0 if each fails exactly what it must."""
    chosen = [(side, name) for side, name in mutants() if not names or name in names]
    began, wrong = time.monotonic(), 0
    killed: set[str] = set()
    with Nursery() as nursery, ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs = pool.map(lambda one: results_of(nursery, *one), chosen)
        for (side, name), results in zip(chosen, runs, strict=True):
            given, due = failed(results), table()[side][name]
            killed |= set(given)
            well = given == due and not faults(results)
            wrong += not well
            if not well or names:
                print(f"{side} {name}: {' '.join(given) or 'nothing fails'}")
                print(f"    missing {sorted(set(due) - set(given))}")
                print(f"    not due {sorted(set(given) - set(due))}", *faults(results))
            if names:
                for result in results:
                    if result.verdict in _FAILS:
                        print(f"    {result.case.id}: {result.finding.reason}")
    faulty = [one for one in chosen if table()[one[0]][one[1]]]
    print(
        f"{len(faulty)} mutants and {len(chosen) - len(faulty)} right programs in "
        f"{time.monotonic() - began:.0f} s: {wrong} not as the table has it; {len(killed)} of "
        f"{len(ALL_CASES)} cases kill one"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
