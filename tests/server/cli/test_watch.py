"""A run can be watched from another terminal, and does not notice."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import jsonschema
import pytest

from parley_server.api import load_scenario, run, run_scenario
from parley_server.host.publication import Publication, Subscription
from parley_server.results.status import StatusFile, read_status
from parley_server.results.summary import RunDescription
from parley_server.running import RunOptions
from parley_server.scenario import settings_of
from tests.support import PARLEY, PROJECT, jobs_of, parley, simulation_of, write_swf
from tests.surviving import PATIENCE, Watched, results_of, run_arguments, wait_for, workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOW = """
import time

class Slow:
    '''First come, first served, by somebody who needs a while; Source: none.'''

    ask = "actionable"

    def decide(self, view):
        time.sleep(0.002)
        for job in view.queue:
            if not view.start(job):
                break
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return workload(tmp_path_factory.mktemp("workload"))


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "slow.py"
    path.write_text(SLOW)
    return f"{path}:Slow"


@contextmanager
def going_on(trace: Path, out: Path, policy: str, *more: object) -> Iterator[Watched]:
    """A run of some ten seconds."""
    server = Watched(*run_arguments(trace, out, "--policy", policy, *more))
    try:
        wait_for((out / "status.json").is_file)
        yield server
    finally:
        server.close()


class Terminal:
    """A command that sees a terminal of eighty columns."""

    def __init__(self, *arguments: object) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [*PARLEY, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def read_until(self, pattern: str) -> re.Match[str]:
        give_up = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.plain())) is None:
            assert time.monotonic() < give_up, self.plain()[-2000:]
            assert self._read(), self.plain()[-2000:]
        return found

    def read_all(self) -> str:
        while self._read():
            pass
        return self.plain()

    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown)

    def close(self) -> int:
        self.process.kill()
        os.close(self._master)
        return self.process.wait()

    def _read(self) -> bool:
        if not select.select([self._master], [], [], PATIENCE)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


def test_a_terminal_shows_how_a_run_stands_until_it_is_over(trace, slow, tmp_path):
    out = tmp_path / "out"
    with going_on(trace, out, slow, "--limit", 900) as server:
        terminal = Terminal("watch", out, "--interval", 0.2)
        first = terminal.read_until(r"finished\s+([\d,]+) jobs; ([\d,]+) a second")
        terminal.read_until(r"running\s+\d+ jobs")
        terminal.read_until(r"queued\s+\d+ jobs")
        terminal.read_until(r"core\s+\S+\s+\d+\.\d%: \d+ of 240")
        terminal.read_until(r"asked [\d,]+ times; [\d.,]+ ms each lately")
        terminal.read_until(r"simulated time\s+day \d")
        everything = terminal.read_all()
        assert server.wait() == 0
        assert terminal.process.wait(PATIENCE) == 0
        terminal.close()

    done = [
        int(text.replace(",", "")) for text in re.findall(r"finished\s+([\d,]+) jobs", everything)
    ]
    assert done == sorted(done)
    assert done[-1] > int(first[1].replace(",", ""))
    assert "ended at" in everything.splitlines()[-1]
    assert "completed" in everything.splitlines()[-1]


def test_ctrl_c_leaves_the_page_and_not_the_run(trace, slow, tmp_path):
    out = tmp_path / "out"
    with going_on(trace, out, slow) as server:
        terminal = Terminal("watch", out)
        terminal.read_until(r"queued")
        terminal.process.send_signal(signal.SIGINT)
        everything = terminal.read_all()
        status = terminal.process.wait(PATIENCE)
        terminal.close()

        assert status == 0
        assert "Traceback" not in everything
        assert server.process.poll() is None


def test_a_run_that_is_watched_leaves_what_one_leaves_that_is_not(trace, tmp_path):
    alone, watched, told = tmp_path / "alone", tmp_path / "watched", f"ipc://{tmp_path}/told"
    assert parley(*run_arguments(trace, alone, "--limit", 1500)).returncode == 0
    looks = 0
    with going_on(trace, watched, "easy", "--limit", 1500, "--watch-at", told) as server:
        heard = Subscription(told)
        while server.process.poll() is None:
            looks += read_status(watched / "status.json") is not None
            looks += heard.receive(0.01) is not None
        heard.close()

        assert server.wait() == 0
    assert looks
    assert results_of(watched) == results_of(alone)
    assert {path.name for path in watched.iterdir()} == {path.name for path in alone.iterdir()}


@pytest.mark.long
def test_an_endpoint_tells_the_same_as_the_directory_and_how_it_ended(trace, slow, tmp_path):
    endpoint = f"ipc://{tmp_path}/told"
    out = tmp_path / "out"
    with going_on(trace, out, slow, "--watch-at", endpoint, "--limit", 1800):
        heard = json.loads(parley("watch", endpoint, "--json").stdout)
        read = json.loads(parley("watch", out, "--json").stdout)

        (told,), (written,) = heard, read
        assert told["directory"] == written["directory"] == str(out)
        assert told["process"]["pid"] == written["process"]["pid"]
        assert written["jobs"]["ended"] >= told["jobs"]["ended"]
        assert parley("watch", endpoint, "--once").stdout.startswith("trace ")
        assert parley("watch", endpoint).stdout.splitlines()[-1] == f"{out}: ended: completed"


def test_a_status_is_what_its_schema_says(trace, slow, tmp_path):
    schema = json.loads((PROJECT / "schemas" / "status.schema.json").read_text())
    with going_on(trace, tmp_path / "out", slow):
        (status,) = json.loads(parley("watch", tmp_path / "out", "--json").stdout)

    jsonschema.validate(status, schema, cls=jsonschema.Draft202012Validator)
    jobs = status["jobs"]
    assert jobs["submitted"] == jobs["ended"] + jobs["running"] + jobs["pending"]
    assert 0 <= status["resources"]["core"]["held"] <= status["resources"]["core"]["capacity"]


class _Confused:
    """Requeues what does not run, and then starts it."""

    ask = "always"

    def decide(self, view):
        for job in list(view.queue):
            view.requeue(job)
            view.start(job)


def test_what_was_refused_last_is_told(tmp_path):
    trace = write_swf(tmp_path / "t.swf", [(second, 5, 4, 9) for second in range(0, 300, 2)])
    scenario = load_scenario(None, settings_of(swf=trace, nodes=4, out=tmp_path / "out"))
    told = []

    run_scenario(scenario, RunOptions(publish=told.append), policy=_Confused())

    last = told[-1]
    assert last["end"] == "completed"
    assert last["jobs"]["completed"] == 150
    assert last["refused"] >= 150
    assert len(last["refusals"]) == 5
    assert {refusal["code"] for refusal in last["refusals"]} == {"job.not_running"}
    assert last["refusals"][-1]["instant"] > last["refusals"][0]["instant"]


def test_a_run_that_was_killed_is_said_to_be_gone(trace, slow, tmp_path):
    out = tmp_path / "out"
    with going_on(trace, out, slow) as server:
        server.process.kill()
        server.wait()

    answer = parley("watch", out)
    assert (out / "status.json").is_file()
    assert answer.returncode == 0
    assert answer.stdout.splitlines()[-1].endswith("it was broken off, or just began")


def test_a_finished_run_tells_how_it_ended(tmp_path):
    trace = write_swf(tmp_path / "t.swf", [(0, 5, 1)])
    run(swf=trace, nodes=4, out=tmp_path / "out")

    answer = parley("watch", tmp_path / "out")

    assert answer.stdout == f"{tmp_path}/out: ended at 5 s: completed\n"
    assert not (tmp_path / "out" / "status.json").exists()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: None, "no directory of a run"),
        (lambda path: path.mkdir(), "holds no run"),
        (lambda path: path.write_text(""), "no directory of a run"),
    ],
)
def test_what_is_no_run_is_said_in_one_line(tmp_path, make, told):
    make(tmp_path / "x")

    answer = parley("watch", tmp_path / "x")

    assert answer.returncode == 2
    assert told in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 5}', "\x00\xff"])
def test_a_damaged_status_is_said_in_one_line(tmp_path, content):
    trace = write_swf(tmp_path / "t.swf", [(0, 5, 1)])
    run(swf=trace, nodes=4, out=tmp_path / "out")
    (tmp_path / "out" / "status.json").write_text(content)

    answer = parley("watch", tmp_path / "out", "--once")

    assert answer.returncode == 2
    assert answer.stderr.endswith("status.json: not the status of a run\n")


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("tcp://nowhere", "is no endpoint"),
        ("udp://127.0.0.1:1", "is no endpoint"),
        pytest.param("tcp://127.0.0.1:9", "nothing was heard", marks=pytest.mark.long),
    ],
)
def test_an_endpoint_at_which_nothing_is_heard_is_said_in_one_line(endpoint, told):
    answer = parley("watch", endpoint, "--once")

    assert answer.returncode == 2
    assert told in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_strangers_on_other_machines_hear_nothing(tmp_path):
    trace = write_swf(tmp_path / "t.swf", [(0, 5, 1)])
    flags = ("--swf", trace, "--nodes", 2, "--out", tmp_path / "out")

    answer = parley("run", *flags, "--watch-at", "tcp://0.0.0.0:*")

    assert answer.returncode == 2
    assert "can be reached from other machines" in answer.stderr
    assert not (tmp_path / "out").exists()


def test_a_listener_that_does_not_listen_holds_nobody_up():
    published = Publication("tcp://127.0.0.1:*")
    deaf = Subscription(published.endpoint)
    began = time.monotonic()
    for _ in range(2000):
        published.send([{"text": "x" * 10_000}])
    took = time.monotonic() - began
    deaf.close()
    published.close()

    assert took < 10


def test_a_directory_that_cannot_be_written_on_costs_the_status_alone(tmp_path):
    """The name of the status is taken by a directory: the results come all the same."""
    trace = write_swf(tmp_path / "t.swf", [(0, 5, 1)])
    (tmp_path / "out" / "status.json" / "x").mkdir(parents=True)

    answer = parley("run", "--swf", trace, "--nodes", 2, "--out", tmp_path / "out", "-q")

    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "out" / "summary.json").is_file()


@pytest.mark.long
def test_all_sessions_of_a_server_are_told_at_once(trace, slow, tmp_path):
    scenario = tmp_path / "s.toml"
    scenario.write_text(f'[platform]\nnodes = 240\n[workload]\nswf = "{trace}"\nlimit = 1800\n')
    endpoint = f"ipc://{tmp_path}/told"
    flags = ("--bind", "tcp://127.0.0.1:*", "--out", tmp_path / "out", "--watch-at", endpoint)
    server = Watched("serve", scenario, *flags, "--sessions", 2)
    clients = []
    heard = []
    listening = Subscription(endpoint)
    try:
        bound = server.first_line().removeprefix("listening at ").strip()
        heard.append(json.loads(listening.receive(PATIENCE)))
        command = [sys.executable, "-m", "parley_client", "--connect", bound, "--policy", slow]
        clients += [subprocess.Popen(command) for _ in range(2)]
        while (message := listening.receive(3)) is not None:
            heard.append(json.loads(message))
        assert [client.wait(PATIENCE) for client in clients] == [0, 0]
        assert server.wait() == 0
    finally:
        for client in clients:
            client.kill()
        listening.close()
        server.close()

    told = [{status["directory"]: status.get("end") for status in statuses} for statuses in heard]
    first, second = (str(tmp_path / "out" / number) for number in "12")
    assert told[0] == {}
    assert any({first, second} == standing.keys() for standing in told)
    for directory in (first, second):
        assert [standing[directory] for standing in told if directory in standing][
            -1
        ] == "completed"


def test_telling_how_it_stands_takes_far_less_than_three_hundredths_of_the_time(tmp_path):
    simulation = simulation_of(jobs_of([(0, 1, 5)] * 1000), nodes=1000)
    simulation.advance()
    description = RunDescription("x", "", "w", "", [], {}, {"policy": "p"}, {"core": 1000}, 1000)
    status = StatusFile(tmp_path, description)
    refusals = [(1, 2, "job.not_pending", "job 3 is running already")] * 5
    began = time.thread_time()
    for _ in range(50):
        status.write(simulation, requests=5, dispatcher_us=7, refused=9, refusals=refusals)
    # It is told once a second.
    share = (time.thread_time() - began) / 50

    assert share < 0.01
    assert read_status(tmp_path / "status.json")["refused"] == 9


def test_reading_a_status_that_is_not_there_gives_none(tmp_path):
    assert read_status(tmp_path / "status.json") is None
