"""Whatever a user or a dispatcher does wrong: one clear line, the right status, whole rows."""

from __future__ import annotations

import csv
import gzip
import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import PARLEY, parley, rows, summary_of, swf_line, unmeasured, write_swf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COLUMNS = 26
PATIENCE = 20.0

JOBS = [(0, 10, 2, 20), (5, 10, 2, 20), (6, 10, 1, 20), (40, 10, 3, 20)]

PREAMBLE = """\
import json, os, signal, sys, time
from pathlib import Path
from parley_conformance import ScriptedDispatcher

HERE = Path(__file__).parent


def starts(request):
    events = request["body"]["events"]
    return [
        {"kind": "start", "job": event["job"]["job"]}
        for event in events
        if event["kind"] == "job.submitted"
    ]


def go_on(peer, request):
    while request["type"] == "decision.request":
        request = peer.reply(request, starts(request))
    return request


peer = ScriptedDispatcher(os.environ["PARLEY_ENDPOINT"], timeout=30)
"""


@pytest.fixture
def trace(tmp_path):
    return write_swf(tmp_path / "trace.swf", JOBS)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def run(trace: object, out: object, *more: object, nodes: object = 8, **options: Any):
    """Run a trace; jobs of `JOBS` never wait on eight nodes."""
    return parley("run", "--swf", trace, "--nodes", nodes, "--out", out, "-q", *more, **options)


def scripted(folder: Path, body: str) -> tuple[str, ...]:
    """Return the command of a dispatcher that does what *body* says."""
    script = folder / "dispatcher.py"
    script.write_text(PREAMBLE + body)
    return ("--", sys.executable, str(script))


def assert_told(process: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """The command ended so, with one clear line that holds these words."""
    lines = process.stderr.splitlines()
    assert len(lines) == 1, process.stderr
    assert lines[0].startswith("parley: ")
    assert "Traceback" not in process.stderr
    assert "fault of our own" not in process.stderr
    for word in words:
        assert word in lines[0]
    assert process.returncode == status


def assert_ended(out: Path, reason: str) -> list[dict[str, str]]:
    """The run says why it ended and has left whole rows; return them."""
    end = summary_of(out)["end"]
    assert end["reason"] == reason
    assert end["complete"] is (reason == "completed")
    assert_whole_rows(out / "jobs.csv", COLUMNS)
    return rows(out / "jobs.csv")


def assert_whole_rows(path: Path, columns: int) -> None:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    assert b"\0" not in content
    table = list(csv.reader(content.decode().splitlines()))
    assert {len(row) for row in table} == {columns}


def states(table: list[dict[str, str]]) -> list[str]:
    return [row["final_state"] for row in table]


# ---------------------------------------------------------------------- workloads


def test_a_workload_that_is_missing_is_told_before_anything_is_written(tmp_path, out):
    process = run(tmp_path / "none.swf", out)

    assert_told(process, 2, "none.swf", "No such file")
    assert not out.exists()


def test_a_folder_in_the_place_of_a_workload_is_told_before_anything_is_written(tmp_path, out):
    process = run(tmp_path, out)

    assert_told(process, 2, str(tmp_path), "directory")
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", ["empty"], id="empty"),
        pytest.param(b"; Version: 2.2\n\n", ["is a job"], id="comments-only"),
        pytest.param(bytes(range(256)) * 40, ["no line is a job"], id="binary"),
        pytest.param(b"\x7fELF" + bytes(100_000), ["text file"], id="zero-bytes"),
        pytest.param(b"\x1f\x8b", ["damaged"], id="gzip-magic-alone"),
        pytest.param(gzip.compress(b"1 2 3\n" * 99)[:-30], ["damaged"], id="gzip-cut"),
        pytest.param(
            gzip.compress(swf_line(1, 0, 1, 1).encode() + b"\n")[:-9] + b"\0" * 9,
            ["damaged"],
            id="gzip-wrong-checksum",
        ),
        pytest.param(b"BZh91AY&SY" + b"\x55" * 64, [], id="bzip2-damaged"),
        pytest.param(b"\xfd7zXZ\x00" + b"\x55" * 64, ["damaged"], id="xz-damaged"),
        pytest.param(b"a b c d e f g h i j k l m n o p q r\n", ["line 1", "'a'"], id="letters"),
    ],
)
def test_a_workload_without_a_readable_job_is_unusable_input(tmp_path, out, content, words):
    path = tmp_path / "bad.swf"
    path.write_bytes(content)

    process = run(path, out)

    assert_told(process, 2, "bad.swf", *words)
    assert assert_ended(out, "input_error") == []


def test_the_jobs_before_the_cut_of_a_workload_keep_their_whole_rows(tmp_path, out):
    plain = write_swf(
        tmp_path / "long.swf", [(i, 3, 1 + i * i % 3, 9 + i % 89) for i in range(9000)]
    )
    packed = gzip.compress(plain.read_bytes())
    cut = tmp_path / "cut.swf.gz"
    cut.write_bytes(packed[: len(packed) // 2])

    process = run(cut, out)

    assert_told(process, 2, "cut.swf.gz", "cut off", "after line")
    table = assert_ended(out, "input_error")
    assert 1000 < len(table) < 9000
    assert states(table).count("COMPLETED_SUCCESSFULLY") > 1000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param(b"9 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", ["17 fields"], id="17-fields"),
        pytest.param(swf_line(9, 1, 1, 1).encode() + b" 1", ["19 fields"], id="19-fields"),
        pytest.param(swf_line(9, "soon", 1, 1).encode(), ["submit time", "'soon'"], id="letters"),  # type: ignore[arg-type]
        pytest.param(swf_line(9, 1, 1, "1_0").encode(), ["processors"], id="underscore"),  # type: ignore[arg-type]
        pytest.param(swf_line(9, 1, float("nan"), 1).encode(), ["run time"], id="nan"),
        pytest.param(b"\x00\xff\xfe\x80" * 9, [], id="binary"),
        pytest.param(b"9" * 5000 + b" 1" * 17, ["job number"], id="endless-number"),
    ],
)
def test_a_malformed_line_is_skipped_counted_and_told(tmp_path, out, line, words):
    path = tmp_path / "odd.swf"
    path.write_bytes(
        swf_line(1, 0, 5, 1).encode() + b"\n" + line + b"\n" + swf_line(2, 3, 5, 1).encode()
    )

    process = run(path, out)

    assert_told(process, 0, "odd.swf", "1 malformed", "line 2", *words)
    assert [row["job_id"] for row in assert_ended(out, "completed")] == ["1", "2"]
    assert summary_of(out)["dropped"]["malformed"] == 1


def test_under_strict_rules_a_malformed_line_is_an_error(tmp_path, out):
    path = tmp_path / "odd.swf"
    path.write_text(swf_line(1, 0, 5, 1) + "\n1 2 3\n")

    process = run(path, out, "--strict")

    assert_told(process, 2, "odd.swf", "line 2", "3 fields")
    assert_ended(out, "input_error")


def test_a_job_number_that_stands_twice_is_an_error_that_names_both_lines(tmp_path, out):
    path = tmp_path / "twice.swf"
    numbers = [1, 2, 3, 2]
    path.write_text("; a comment\n" + "".join(f"{swf_line(n, 0, 5, 1)}\n" for n in numbers))

    process = run(path, out)

    assert_told(process, 2, "twice.swf", "job 2", "line 3", "line 5")
    assert_ended(out, "input_error")


def test_a_job_larger_than_the_machine_is_rejected_and_the_run_goes_on(tmp_path, out):
    path = write_swf(tmp_path / "large.swf", [(0, 5, 1), (1, 5, 9), (2, 5, 8)])

    process = run(path, out)

    assert_told(process, 0, "1 jobs rejected", "more than the empty machine")
    table = assert_ended(out, "completed")
    assert {row["job_id"]: row["final_state"] for row in table}["2"] == "REJECTED"
    assert sorted(states(table)) == ["COMPLETED_SUCCESSFULLY"] * 2 + ["REJECTED"]


def test_under_strict_rules_a_job_larger_than_the_machine_is_an_error(tmp_path, out):
    path = write_swf(tmp_path / "large.swf", [(0, 5, 1), (1, 5, 9), (2, 5, 8)])

    process = run(path, out, "--strict")

    assert_told(process, 2, "--strict", "machine")
    assert_ended(out, "input_error")


# ---------------------------------------------------------------------- scenarios and flags

GOOD = '[platform]\nnodes = 8\n[workload]\nswf = "trace.swf"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(GOOD + "[run]\nsede = 1\n", ["run.sede", "did you mean 'seed'"], id="key"),
        pytest.param(GOOD + "[rum]\nseed = 1\n", ["rum", "did you mean 'run'"], id="table"),
        pytest.param("platform: {nodes: 8}\n", ["not TOML", "line 1"], id="yaml"),
        pytest.param("a = " + "[" * 100_000, ["not TOML"], id="nested-without-end"),
        pytest.param("a = " + "9" * 5_000, ["TOML"], id="endless-number"),
        pytest.param("\0", ["not TOML"], id="zero-byte"),
        pytest.param(GOOD.replace("8", "0"), ["platform.nodes"], id="no-nodes"),
        pytest.param(GOOD.replace("8", "nan"), ["platform.nodes"], id="nan-nodes"),
        pytest.param(GOOD.replace("8", "'8'"), ["platform.nodes"], id="text-for-a-number"),
        pytest.param(GOOD.replace("nodes = 8\n", ""), ["platform"], id="no-machine"),
        pytest.param(GOOD.replace("trace.swf", "a\\u0000b"), ["workload"], id="zero-byte-path"),
        pytest.param(GOOD + "[run]\ndeadline = 'soon'\n", ["run.deadline"], id="deadline"),
        pytest.param(GOOD + "[dispatcher]\npolicy = 'fofi'\n", ["'fofi'", "fifo"], id="policy"),
        pytest.param(GOOD + "[dispatcher]\ncommand = []\n", ["dispatcher.command"], id="command"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_told_in_one_line(trace, out, text, words):
    path = trace.with_name("scenario.toml")
    path.write_text(text)

    process = parley("run", path, "--out", out)

    assert_told(process, 2, *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, ["No such file"], id="missing"),
        pytest.param(b"\xff\xfe\x00", ["not a text file"], id="binary"),
    ],
)
def test_a_scenario_that_cannot_be_read_is_told_in_one_line(tmp_path, out, content, words):
    path = tmp_path / "scenario.toml"
    if content is not None:
        path.write_bytes(content)

    process = parley("run", path, "--out", out)

    assert_told(process, 2, "scenario.toml", *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        pytest.param(("--nodes", 0), ["nodes", "0"], id="no-nodes"),
        pytest.param(("--nodes", -1), ["nodes", "-1"], id="negative-nodes"),
        pytest.param(("--per-node", "core"), ["'core'"], id="per-node"),
        pytest.param(("--limit", 0), ["limit"], id="limit"),
        pytest.param(("--seed", -1), ["seed"], id="seed"),
        pytest.param(("--deadline", "0s"), ["deadline"], id="deadline"),
        pytest.param(("--estimate", "factor:x"), ["estimate"], id="estimate"),
        pytest.param(("--on-overrun", "maybe"), ["on_overrun"], id="on-overrun"),
        pytest.param(("--policy", "fifoo"), ["fifo", "there are"], id="policy"),
        pytest.param(("--allocator", "firstfit"), ["first-fit", "random"], id="allocator"),
        pytest.param(("--external", "--policy", "sjff"), ["'sjff'", "fifo"], id="external-policy"),
        pytest.param(("--policy", "fifo", "--", "true"), ["policy"], id="policy-and-command"),
        pytest.param(("--",), ["command"], id="nothing-behind-the-dashes"),
    ],
)
def test_a_flag_that_makes_no_sense_is_told_in_one_line(trace, out, flags, words):
    process = run(trace, out, *flags)

    assert_told(process, 2, *words)
    assert not out.exists()


@pytest.mark.parametrize("name", ["policy", "allocator"])
def test_an_unknown_name_lists_all_that_exist(trace, out, name):
    from parley_client.allocators import ALLOCATORS
    from parley_client.policies import POLICIES

    process = run(trace, out, f"--{name}", "nothing-of-that-name")

    assert_told(process, 2, *(POLICIES if name == "policy" else ALLOCATORS))


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--bogus"),
        ("run", "--nodes", "many", "--swf", "x"),
        ("run", "--swf"),
        ("bogus",),
        ("serve",),
        ("serve", "x.toml", "--sessions", "0", "--out", "x"),
    ],
    ids=" ".join,
)
def test_what_the_command_line_does_not_know_is_wrong_usage(tmp_path, arguments):
    process = parley(*arguments, cwd=tmp_path)

    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert "fault of our own" not in process.stderr
    assert process.stdout == ""


# ---------------------------------------------------------------------- output folders


def test_an_output_folder_below_a_file_is_wrong_usage(trace, tmp_path):
    (tmp_path / "file").write_text("precious")

    process = run(trace, tmp_path / "file" / "x")

    assert_told(process, 2, str(tmp_path / "file" / "x"), "cannot be written")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_file_in_the_place_of_the_output_folder_is_wrong_usage(trace, tmp_path):
    (tmp_path / "file").write_text("precious")

    process = run(trace, tmp_path / "file", "--force")

    assert_told(process, 2, str(tmp_path / "file"), "is a file")
    assert (tmp_path / "file").read_text() == "precious"


def test_another_run_is_not_replaced_unasked(trace, out):
    run(trace, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    process = run(trace, out)

    assert_told(process, 2, str(out), "another run", "--force")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_with_force_another_run_is_replaced_and_nothing_else_touched(trace, out, tmp_path):
    run(trace, out)
    (out / "notes.txt").write_text("precious")
    other = write_swf(tmp_path / "other.swf", JOBS[:1])

    process = run(other, out, "--force")

    assert process.stderr == ""
    assert process.returncode == 0
    assert [row["workload_name"] for row in assert_ended(out, "completed")] == ["other"]
    assert (out / "notes.txt").read_text() == "precious"


# ---------------------------------------------------------------------- commands


def test_a_command_that_does_not_exist_is_wrong_usage(trace, out):
    process = run(trace, out, "--", "no-such-dispatcher-anywhere")

    assert_told(process, 2, "'no-such-dispatcher-anywhere'")
    assert not out.exists()


def test_a_file_that_is_not_executable_is_wrong_usage(trace, out, tmp_path):
    script = tmp_path / "dispatcher.py"
    script.write_text("print('hello')\n")
    script.chmod(0o644)

    process = run(trace, out, "--", script)

    assert_told(process, 2, str(script), "cannot be executed")
    assert not out.exists()


def test_a_dispatcher_that_exits_at_once_fails_the_run(trace, out):
    process = run(trace, out, "--", "true")

    assert_told(process, 1, "'true'", "status 0")
    assert assert_ended(out, "dispatcher_exited") == []


def test_the_exit_status_of_a_dispatcher_that_fails_is_told(trace, out):
    process = run(trace, out, "--", "sh", "-c", "exit 3")

    assert_told(process, 1, "'sh'", "status 3")
    assert assert_ended(out, "dispatcher_exited") == []


def test_a_dispatcher_that_is_killed_in_the_middle_leaves_whole_rows(trace, out, tmp_path):
    body = """
request = peer.open()
while len(request["body"]["events"]) == 0 or request["body"]["now_us"] < 6_000_000:
    request = peer.reply(request, starts(request))
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = run(trace, out, *scripted(tmp_path, body))

    assert_told(process, 1, "SIGKILL")
    table = assert_ended(out, "dispatcher_exited")
    assert states(table) == ["RUNNING", "RUNNING", "SUBMITTED"]


# ---------------------------------------------------------------------- conversations


def test_one_garbled_reply_is_refused_and_the_run_completes(trace, out, tmp_path):
    body = """
request = peer.open()
peer.send_bytes(b"\\xc1 what is this")
(HERE / "answer.json").write_text(json.dumps(peer.receive()))
go_on(peer, request)
"""
    process = run(trace, out, *scripted(tmp_path, body))

    assert process.stderr == ""
    assert process.returncode == 0
    assert states(assert_ended(out, "completed")) == ["COMPLETED_SUCCESSFULLY"] * 4
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["body"]["code"] == "encoding.malformed"


def test_a_dispatcher_that_replies_garbage_only_fails_the_run(trace, out, tmp_path):
    body = """
peer.open()
for _ in range(3):
    peer.send_bytes(os.urandom(3) + b"\\xc1")
    peer.receive()
time.sleep(60)
"""
    process = run(trace, out, *scripted(tmp_path, body))

    assert_told(process, 1, "dispatcher", "decoded")
    assert assert_ended(out, "protocol_error") == []


def test_a_dispatcher_that_never_says_hello_but_garbage_fails_the_run(trace, out, tmp_path):
    body = """
for _ in range(3):
    peer.send_bytes(b"\\xc1")
    peer.receive()
time.sleep(60)
"""
    process = run(trace, out, *scripted(tmp_path, body))

    assert_told(process, 1, "dispatcher", "decoded")
    assert assert_ended(out, "protocol_error") == []


@pytest.mark.parametrize(
    ("version", "words"),
    [
        pytest.param("7.0", ["7.0", "1.0"], id="plain"),
        pytest.param("7\nparley: all is well\x1b[2J", [], id="with-line-ends"),
    ],
)
def test_a_dispatcher_of_another_version_is_told_in_one_line(trace, out, tmp_path, version, words):
    process = run(trace, out, *scripted(tmp_path, f"peer.hello(versions=[{version!r}])\n"))

    assert_told(process, 1, "dispatcher", *words)
    assert "\x1b" not in process.stderr
    assert summary_of(out)["end"]["reason"] in {"protocol_error", "refused"}


def test_a_reply_that_does_not_come_fails_the_run_at_the_deadline(trace, out, tmp_path):
    body = "peer.reply(request := peer.open())\ntime.sleep(60)\n"
    began = time.monotonic()

    process = run(trace, out, "--deadline", "3s", *scripted(tmp_path, body))

    assert 3 <= time.monotonic() - began < PATIENCE
    assert_told(process, 1, "no reply within 3 s", "--deadline")
    assert states(assert_ended(out, "deadline_missed")) == ["SUBMITTED"]


def test_a_dispatcher_that_is_never_ready_fails_the_run_at_the_deadline(trace, out, tmp_path):
    body = "peer.hello()\ntime.sleep(60)\n"

    process = run(trace, out, "--deadline", "3s", *scripted(tmp_path, body))

    assert_told(process, 1, "no ready within 3 s", "--deadline")
    assert assert_ended(out, "deadline_missed") == []


def test_a_dispatcher_that_never_connects_fails_the_run_at_the_deadline(trace, out):
    process = run(trace, out, "--deadline", "1s", "--", "sleep", "60")

    assert_told(process, 1, "'sleep'", "no hello within 1 s", "--deadline")
    assert assert_ended(out, "deadline_missed") == []


def test_a_dispatcher_that_says_bye_fails_the_run(trace, out, tmp_path):
    body = "peer.reply(peer.open())\npeer.say('bye', {})\n"

    process = run(trace, out, *scripted(tmp_path, body))

    assert_told(process, 1, "bye")
    assert states(assert_ended(out, "dispatcher_left")) == ["SUBMITTED"]


# ---------------------------------------------------------------------- decisions


@pytest.mark.parametrize(
    ("decisions", "codes"),
    [
        pytest.param([{"kind": "start", "job": 0}] * 2, [None, "job.not_pending"], id="twice"),
        pytest.param(
            [
                {"kind": "start", "job": 0, "allocation": [[[0, 1, 1]]]},
                {"kind": "start", "job": 1, "allocation": [[[1, 2, 1]]]},
                {"kind": "start", "job": 1, "allocation": [[[2, 3, 1]]]},
            ],
            [None, "node.busy", None],
            id="busy-node",
        ),
        pytest.param(
            [{"kind": "start", "job": 99}, {"kind": "start", "job": 0}],
            ["job.unknown", None],
            id="unknown-job",
        ),
        pytest.param(
            [{"kind": "start", "job": 0, "allocation": [[[7, 8, 1]]]}, {"kind": "start", "job": 0}],
            ["node.unknown", None],
            id="unknown-node",
        ),
        pytest.param(
            [{"kind": "dance", "job": 0}, {"kind": "start", "job": 0}],
            ["decision.unsupported", None],
            id="unknown-kind",
        ),
    ],
)
def test_a_bad_decision_is_reported_with_its_code_and_the_run_goes_on(
    out, tmp_path, decisions, codes
):
    path = write_swf(tmp_path / "two.swf", [(0, 5, 2, 9), (0, 5, 2, 9), (20, 5, 2, 9)])
    body = f"""
request = peer.reply(peer.open())
request = peer.reply(request, {decisions!r})
(HERE / "outcomes.json").write_text(json.dumps(request["body"]["outcomes"]))
left = [] if any(d["job"] == 1 for d in {decisions!r}) else [{{"kind": "start", "job": 1}}]
go_on(peer, peer.reply(request, left + starts(request)))
"""
    process = run(path, out, *scripted(tmp_path, body))

    assert process.stderr == ""
    assert process.returncode == 0
    assert states(assert_ended(out, "completed")) == ["COMPLETED_SUCCESSFULLY"] * 3
    outcomes = json.loads((tmp_path / "outcomes.json").read_text())
    assert [outcome.get("code") for outcome in outcomes] == codes


def test_a_dispatcher_that_never_starts_anything_stalls_the_run(trace, out, tmp_path):
    body = """
request = peer.open()
while request["type"] == "decision.request":
    request = peer.reply(request)
"""
    process = run(trace, out, *scripted(tmp_path, body))

    assert_told(process, 1, "stalled", "40 s", "4 pending jobs", "1, 2, 3, 4")
    table = assert_ended(out, "stalled")
    assert states(table) == ["SUBMITTED"] * 4
    assert {row["starting_time"] + row["finish_time"] for row in table} == {""}


def test_a_dispatcher_whose_decisions_are_all_refused_stalls_the_run(trace, out, tmp_path):
    body = """
request = peer.open()
while request["type"] == "decision.request":
    request = peer.reply(request, [{"kind": "start", "job": 99}])
"""
    process = run(trace, out, *scripted(tmp_path, body))

    assert_told(process, 1, "stalled")
    assert states(assert_ended(out, "stalled")) == ["SUBMITTED"] * 4


# ---------------------------------------------------------------------- a full disk


def at_most(size: int) -> Callable[[], None]:
    """Return what limits the size of every file that a child process writes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("where", [[], ["--external"]], ids=["in process", "over the wire"])
def test_a_file_that_cannot_grow_ends_the_run_with_whole_rows(tmp_path, out, where):
    path = write_swf(tmp_path / "long.swf", [(i, 3, 1, 9) for i in range(3000)])

    process = run(path, out, *where, preexec_fn=at_most(150_000), env=unmeasured())

    if where:
        # The dispatcher is told, and says so, too.
        told, process.stderr = process.stderr.split("\n", 1)
        assert "the server says server.failed: " in told
    assert_told(process, 1, "jobs.csv", "cannot be written")
    table = assert_ended(out, "output_error")
    assert 1000 <= len(table) < 3000
    assert [row["job_id"] for row in table] == [str(i + 1) for i in range(len(table))]
    assert_whole_rows(out / "decisions.csv", 7)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[str]:
    """A disk of that size, to be mounted by a command that sees it alone; skip without."""
    folder.mkdir()
    mount = f"mount -t tmpfs -o size={size} none {folder}"
    unshare = shutil.which("unshare")
    if (
        unshare is None
        or subprocess.run([unshare, "-m", "sh", "-c", mount], check=False).returncode
    ):
        pytest.skip("a small disk cannot be mounted here")
    yield mount


@pytest.mark.parametrize("size", ["64k", "150k", "250k"])
def test_a_disk_that_is_full_ends_the_run_with_whole_rows(tmp_path, out, size):
    jobs = [(i, 10 + i % 7, 1 + i % 3, 40) for i in range(5000)]
    path = write_swf(tmp_path / "long.swf", jobs)
    disk = tmp_path / "disk"
    command = f"{' '.join(PARLEY)} run --swf {path} --nodes 12 -q --out {disk}/full"
    run(path, out, nodes=12)

    with small_disk(disk, size) as mount:
        process = subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{mount}; {command}; s=$?; cp -r {disk}/* .; exit $s"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )

    assert_told(process, 1, "cannot be written")
    assert_whole_rows(tmp_path / "full" / "jobs.csv", COLUMNS)
    assert_whole_rows(tmp_path / "full" / "decisions.csv", 7)
    done = [row for row in rows(tmp_path / "full" / "jobs.csv") if row["success"] == "1"]
    assert done == rows(out / "jobs.csv")[: len(done)]


def test_rows_after_a_block_that_did_not_fit_leave_no_hole(tmp_path):
    # A disk that was full may have room again by the time the last rows are written.
    script = """
import resource
from pathlib import Path
from parley_server.errors import OutputError
from parley_server.results.rows import RowFile

rows = RowFile(Path("rows.csv"), "a,b")
rows.flush()
everything = resource.RLIM_INFINITY
resource.setrlimit(resource.RLIMIT_FSIZE, (20, everything))
rows.write("1,1" * 20)
try:
    rows.flush()
except OutputError:
    resource.setrlimit(resource.RLIMIT_FSIZE, (everything, everything))
    rows.write("2,2")
    rows.close()
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)

    assert (tmp_path / "rows.csv").read_bytes() in {b"a,b\n", b"a,b\n2,2\n"}


# ---------------------------------------------------------------------- interrupts


def interrupted(arguments: list[str], number: int, ready: Callable[[], bool]):
    """Start the command, send it a signal once it is ready, and return how it ended."""
    process = subprocess.Popen(
        [*PARLEY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        give_up = time.monotonic() + PATIENCE
        while not ready() and process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)
        was_running = process.poll() is None
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert was_running, "the run was over before it could be interrupted"
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)


@SIGNALS
def test_a_run_in_process_that_is_interrupted_leaves_whole_rows(tmp_path, out, number):
    path = write_swf(tmp_path / "long.swf", [(i, 30, 1 + i % 3, 99) for i in range(60_000)])
    arguments = ["run", "--swf", str(path), "--nodes", "64", "--out", str(out), "-q"]

    process = interrupted(arguments, number, lambda: grown(out / "jobs.csv", 5000))

    assert_told(process, 130, "interrupted")
    table = assert_ended(out, "interrupted")
    assert 40 < len(table) < 60_000
    assert set(states(table)) <= {"COMPLETED_SUCCESSFULLY", "RUNNING", "SUBMITTED"}


@SIGNALS
def test_a_run_with_a_child_that_is_interrupted_leaves_whole_rows(trace, out, tmp_path, number):
    body = """
request = peer.reply(peer.open(), [])
while request["body"]["now_us"] < 6_000_000:
    request = peer.reply(request, starts(request))
(HERE / "asleep").touch()
time.sleep(60)
"""
    command = scripted(tmp_path, body)
    arguments = ["run", "--swf", str(trace), "--nodes", "8", "--out", str(out), "-q", *command]

    process = interrupted(arguments, number, (tmp_path / "asleep").exists)

    assert_told(process, 130, "interrupted")
    assert states(assert_ended(out, "interrupted")) == ["RUNNING", "RUNNING", "SUBMITTED"]


def grown(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size > size
