"""The same input gives the same bytes, wherever and however it is run."""

from __future__ import annotations

import os

import pytest

from tests.support import PROJECT, parley

SURROUNDINGS = [
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "271828", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"},
]


@pytest.mark.parametrize("flags", [(), ("--external",)], ids=["in process", "over the wire"])
@pytest.mark.parametrize("allocator", ["first-fit", "random"])
def test_neither_hashes_nor_place_nor_language_show_in_the_results(tmp_path, flags, allocator):
    shared_nodes = ("--nodes", 5, "--per-node", "core=4,memory=9")
    chunks = ("--request", "processors", "--per-processor", "memory=2,core=1")
    outs = []
    for number, surroundings in enumerate(SURROUNDINGS):
        outs.append(tmp_path / str(number))
        answer = parley(
            *("run", PROJECT / "examples" / "first.toml", *shared_nodes, *chunks, *flags),
            *("--allocator", allocator, "--seed", 3, "--out", outs[-1]),
            env={**os.environ, **surroundings},
        )
        assert answer.returncode == 0, answer.stderr

    for name in ("jobs.csv", "decisions.csv", "scenario.toml"):
        assert (outs[0] / name).read_bytes() == (outs[1] / name).read_bytes()
