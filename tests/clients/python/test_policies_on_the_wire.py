"""Over the wire each policy gives, with each allocator, what it gives in process."""

from __future__ import annotations

import pytest

from parley_client import ALLOCATORS, ORDERS, POLICIES
from parley_server import run
from tests.support import PROJECT, write_swf

RULES = [name for name in POLICIES if name not in ORDERS]
PARAMETERS = {
    "easy": {"order": "wfp3", "depth": 2, "backfill_order": "sjf"},
    "prioritised": {"order": "sjf", "restart": "inf"},
    "timed-run": {"quantum": "2m"},
    "strict": {"order": str(PROJECT / "examples" / "own.py:area"), "interval": "30s"},
}

# Each rule once, with one allocator after another; all pairs where there is time.
PAIRS = [
    pytest.param(
        rule,
        allocator,
        marks=() if rank % len(ALLOCATORS) == place else pytest.mark.long,
    )
    for rank, rule in enumerate(RULES)
    for place, allocator in enumerate(ALLOCATORS)
]


@pytest.mark.parametrize(("policy", "allocator"), PAIRS)
def test_in_process_and_over_the_wire_the_files_are_the_same(tmp_path, policy, allocator):
    rows = [
        (7 * number, 40 + 37 * number % 400, 1 + 5 * number % 7, 60 + 53 * number % 700)
        for number in range(60)
    ]
    trace = write_swf(tmp_path / "trace.swf", rows)
    common = {
        "swf": trace,
        "nodes": 4,
        "per_node": {"core": 4},
        "request": "processors",
        "per_processor": {"core": 2},
        "policy": policy,
        "allocator": allocator,
        "parameters": PARAMETERS.get(policy),
        "seed": 5,
    }
    inside = run(**common, out=tmp_path / "inside")
    outside = run(**common, external=True, out=tmp_path / "outside")

    assert inside.files.jobs.read_bytes() == outside.files.jobs.read_bytes()
    assert inside.files.decisions.read_bytes() == outside.files.decisions.read_bytes()
    repeated = run(tmp_path / "inside" / "scenario.toml", out=tmp_path / "repeated")
    assert repeated.files.jobs.read_bytes() == inside.files.jobs.read_bytes()
