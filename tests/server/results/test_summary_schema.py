"""Every summary is what its schema says, however the run ended."""

from __future__ import annotations

import json
import signal
import subprocess

import jsonschema
import pytest

from parley_server.api import run
from parley_server.errors import ParleyError
from tests.support import PARLEY, PROJECT, summary_of, write_swf
from tests.surviving import PATIENCE, wait_for

JOBS = [(0, 10, 2, 20), (5, 30, 2, 20), (6, 0, 1, 20), (8, 10, 9, 20)]

SCHEMA = json.loads((PROJECT / "schemas" / "summary.schema.json").read_text())


def check(summary):
    jsonschema.validate(summary, SCHEMA, cls=jsonschema.Draft202012Validator)


class Idle:
    ask = "always"

    def decide(self, view):
        pass


class Broken:
    ask = "always"

    def decide(self, view):
        raise ValueError("no idea")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "completed"),
        ({"on_overrun": "kill", "policy": "easy", "parameters": {"depth": 2}}, "completed"),
        ({"estimate": "factor:2", "select": "archive", "drop": ["user=8"]}, "completed"),
        ({"per_node": {"core": 4, "gpu": 1}, "request": "processors"}, "completed"),
        ({"policy": Idle()}, "stalled"),
        ({"policy": Broken()}, "dispatcher_failed"),
        ({"strict": True}, "input_error"),
        ({"command": ["true"]}, "dispatcher_exited"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_summary_is_what_its_schema_says(tmp_path, options, reason):
    trace = write_swf(tmp_path / "t.swf", JOBS)
    try:
        run(swf=trace, nodes=4, out=tmp_path / "out", **options)
    except (ParleyError, ValueError):
        assert reason != "completed"
    summary = summary_of(tmp_path / "out")

    check(summary)
    assert summary["end"]["reason"] == reason


def test_a_summary_of_a_run_that_was_interrupted_is_what_its_schema_says(tmp_path):
    trace = write_swf(tmp_path / "t.swf", JOBS)
    flags = ("--swf", trace, "--nodes", 4, "--out", tmp_path / "out", "--", "sleep", "100")
    process = subprocess.Popen([*PARLEY, "run", *map(str, flags)], stderr=subprocess.PIPE)
    wait_for((tmp_path / "out" / "jobs.csv").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)

    summary = summary_of(tmp_path / "out")
    check(summary)
    assert summary["end"]["reason"] == "interrupted"


def test_a_key_that_is_not_described_is_noticed(tmp_path):
    trace = write_swf(tmp_path / "t.swf", JOBS)
    summary = dict(run(swf=trace, nodes=4, out=tmp_path / "out").summary)
    check(summary)

    for place in (summary, summary["jobs"], summary["measured"], summary["wait"]):
        place["surprise"] = 1
        with pytest.raises(jsonschema.ValidationError):
            check(summary)
        del place["surprise"]
