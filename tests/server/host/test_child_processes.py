"""A dispatcher that the server starts: what it is given, and that it never outlives its run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support import PARLEY, parley, rows, summary_of, write_swf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 10.0

JOBS = [(0, 10, 2, 20), (5, 10, 2, 20), (6, 10, 1, 20)]

PREAMBLE = """\
import json, os, signal, subprocess, sys, time
from pathlib import Path
from parley_conformance import ScriptedDispatcher

HERE = Path(__file__).parent


def note(name, content=""):
    \"\"\"Make a file whose content is there as soon as it is.\"\"\"
    part = HERE / (name + ".part")
    part.write_text(str(content))
    part.rename(HERE / name)


def connect():
    return ScriptedDispatcher(os.environ["PARLEY_ENDPOINT"], timeout=30)


def go_on(peer, request):
    while request["type"] == "decision.request":
        events = request["body"]["events"]
        jobs = [event["job"]["job"] for event in events if event["kind"] == "job.submitted"]
        request = peer.reply(request, [{"kind": "start", "job": job} for job in jobs])


note("pid", os.getpid())
"""

COMPLETE = """
peer = connect()
go_on(peer, peer.open())
"""

HANG = """
peer = connect()
peer.open()
note("asked")
time.sleep(600)
"""

DEAF = """
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
"""


@pytest.fixture
def trace(tmp_path):
    return write_swf(tmp_path / "trace.swf", JOBS)


@pytest.fixture
def started():
    """Processes to be ended with their groups, come what may."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def scripted(folder: Path, body: str) -> list[str]:
    """Return the command of a dispatcher that does what *body* says."""
    script = folder / "dispatcher.py"
    script.write_text(PREAMBLE + body)
    return [sys.executable, str(script)]


def in_a_shell(command: list[str]) -> list[str]:
    """Return a command that runs another and stays in between."""
    return ["sh", "-c", f"{' '.join(command)}; true"]


def run_arguments(trace: Path, *more: object) -> list[str]:
    out = trace.with_name("out")
    return ["run", "--swf", *map(str, (trace, "--nodes", 8, "--out", out, "-q", *more))]


def start(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PARLEY, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        **options,
    )


def wait_until(condition: Callable[[], object]) -> bool:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def pid_in(folder: Path, name: str = "pid") -> int:
    assert wait_until((folder / name).exists)
    return int((folder / name).read_text())


def runs(pid: int) -> bool:
    """Whether there is such a process; one that is dead and not yet buried is none."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_gone(pid: int) -> None:
    """The process ends soon; it is ended for the sake of the others if it does not."""
    gone = wait_until(lambda: not runs(pid))
    if not gone:
        os.kill(pid, signal.SIGKILL)
    assert gone


# ---------------------------------------------------------------------- nobody is left behind


LINGER = "time.sleep(600)\n"


@pytest.mark.parametrize(
    ("body", "wrap", "status"),
    [
        pytest.param(COMPLETE, list, 0, id="after-the-end"),
        pytest.param(COMPLETE, in_a_shell, 0, id="after-the-end-in-a-shell"),
        pytest.param(DEAF + COMPLETE + LINGER, in_a_shell, 0, id="though-it-lingers-and-is-deaf"),
        pytest.param("connect().hello(versions=['9'])\n" + LINGER, list, 1, id="refused"),
        pytest.param(HANG, in_a_shell, 1, id="after-a-missed-deadline"),
        pytest.param(DEAF + LINGER, list, 1, id="without-a-hello"),
    ],
)
def test_no_dispatcher_outlives_its_run(trace, tmp_path, body, wrap, status):
    command = wrap(scripted(tmp_path, body))

    process = parley(*run_arguments(trace, "--deadline", "2s", "--"), *command)

    assert process.returncode == status
    assert_gone(pid_in(tmp_path))


def test_what_a_dispatcher_has_started_does_not_outlive_the_run_either(trace, tmp_path):
    body = "note('grandchild', subprocess.Popen(['sleep', '600']).pid)\n" + COMPLETE

    process = parley(*run_arguments(trace, "--"), *scripted(tmp_path, body))

    assert process.returncode == 0
    assert_gone(pid_in(tmp_path, "grandchild"))


@pytest.mark.parametrize("wrap", [list, in_a_shell], ids=["direct", "in-a-shell"])
@pytest.mark.parametrize("body", [HANG, DEAF + HANG], ids=["polite", "deaf"])
def test_no_dispatcher_outlives_a_server_that_is_killed(trace, tmp_path, started, body, wrap):
    server = start(run_arguments(trace, "--", *wrap(scripted(tmp_path, body))))
    started.append(server)
    pid = pid_in(tmp_path)
    assert wait_until((tmp_path / "asked").exists)
    assert runs(pid)
    server.kill()

    assert_gone(pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
@pytest.mark.parametrize("body", [HANG, DEAF + HANG], ids=["polite", "deaf"])
def test_no_dispatcher_outlives_a_server_that_is_interrupted(
    trace, tmp_path, started, body, number
):
    server = start(run_arguments(trace, "--", *scripted(tmp_path, body)))
    started.append(server)
    pid = pid_in(tmp_path)
    assert wait_until((tmp_path / "asked").exists)
    server.send_signal(number)
    status = server.wait(PATIENCE)

    assert status == 130
    assert_gone(pid)


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
    ids=lambda number: number.name,
)
def test_no_dispatcher_outlives_a_signal_to_the_whole_process_group(
    trace, tmp_path, started, number
):
    # So do terminals, `timeout` and batch systems end what they have started.
    server = start(
        run_arguments(trace, "--", *scripted(tmp_path, HANG)),
        start_new_session=True,
        # Under nohup the tests would hand down a SIGHUP that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    started.append(server)
    pid = pid_in(tmp_path)
    assert wait_until((tmp_path / "asked").exists)
    os.killpg(server.pid, number)
    server.wait(PATIENCE)

    assert_gone(pid)


# ---------------------------------------------------------------------- what it is given


def test_a_dispatcher_gets_no_standard_input(trace, tmp_path):
    command = scripted(tmp_path, "note('input', repr(sys.stdin.read()))\n" + COMPLETE)

    process = parley(*run_arguments(trace, "--"), *command, input="for parley, not for it\n")

    assert process.returncode == 0
    assert (tmp_path / "input").read_text() == "''"


def test_a_dispatcher_is_told_the_endpoint_in_its_arguments_and_in_its_environment(trace, tmp_path):
    told = "note('told', json.dumps([sys.argv[1:], os.environ['PARLEY_ENDPOINT']]))\n"
    command = scripted(tmp_path, told + COMPLETE)

    process = parley(
        *run_arguments(trace, "--"), *command, "{endpoint}", "--at={endpoint}!", "{}", "--", "$HOME"
    )

    assert process.returncode == 0
    arguments, endpoint = json.loads((tmp_path / "told").read_text())
    assert endpoint.startswith("tcp://127.0.0.1:")
    assert int(endpoint.rpartition(":")[2]) > 0
    assert arguments == [endpoint, f"--at={endpoint}!", "{}", "--", "$HOME"]


def test_what_a_dispatcher_prints_goes_to_standard_error(trace, tmp_path):
    body = "print('on its stdout', flush=True)\nprint('on its stderr', file=sys.stderr)\n"

    process = parley(*run_arguments(trace, "--"), *scripted(tmp_path, body + COMPLETE))

    assert process.returncode == 0
    assert process.stdout == ""
    assert process.stderr.splitlines() == ["on its stdout", "on its stderr"]


def test_a_dispatcher_that_prints_without_end_does_not_hold_up_the_run(trace, tmp_path):
    body = "print('x' * 1_000_000, file=sys.stderr, flush=True)\n" + COMPLETE

    process = parley(*run_arguments(trace, "--"), *scripted(tmp_path, body))

    assert process.returncode == 0
    assert len(process.stderr) == 1_000_001


def test_the_exit_status_of_a_dispatcher_counts_for_nothing_once_the_run_is_complete(
    trace, tmp_path
):
    process = parley(*run_arguments(trace, "--"), *scripted(tmp_path, COMPLETE + "os._exit(7)\n"))

    assert process.returncode == 0
    assert summary_of(tmp_path / "out")["end"]["reason"] == "completed"


# ---------------------------------------------------------------------- in process or not


@pytest.fixture(scope="module")
def contended(tmp_path_factory):
    """A workload on which jobs wait, leave holes, and take different nodes by chance."""
    jobs = [(i * 3, 20 + i * 37 % 61, 1 + i * i % 7, 90) for i in range(150)]
    return write_swf(tmp_path_factory.mktemp("contended") / "trace.swf", jobs)


def results(trace: Path, out: Path, *more: object) -> Iterator[bytes]:
    """Run and yield everything that must not depend on how the dispatcher was reached."""
    process = parley("run", "--swf", trace, "--nodes", 16, "--out", out, "-q", *more)
    assert process.stderr == ""
    assert process.returncode == 0
    yield (out / "jobs.csv").read_bytes()
    yield (out / "decisions.csv").read_bytes()


@pytest.mark.parametrize(
    ("allocator", "seed"),
    [("first-fit", 0), ("random", 0), ("random", 1), ("random", 2**53 - 1)],
)
def test_a_policy_decides_the_same_in_process_and_in_a_child(contended, tmp_path, allocator, seed):
    named = ["--policy", "fifo", "--allocator", allocator]
    client = [sys.executable, "-m", "parley_client", "--connect", "{endpoint}"]

    inside = list(results(contended, tmp_path / "a", "--seed", seed, *named))
    external = list(results(contended, tmp_path / "b", "--seed", seed, *named, "--external"))
    command = list(results(contended, tmp_path / "c", "--seed", seed, "--", *client, *named))

    assert external == inside
    assert command == inside
    assert len(rows(tmp_path / "a" / "jobs.csv")) == 150


def test_another_seed_gives_other_nodes(contended, tmp_path):
    random = ["--allocator", "random"]

    first = list(results(contended, tmp_path / "a", "--seed", 1, *random, "--external"))
    second = list(results(contended, tmp_path / "b", "--seed", 2, *random, "--external"))

    assert first != second
