"""`parley conform`: its exit statuses, its files, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree as ET

import jsonschema
import psutil
import pytest

from parley_conformance.cases import ALL_CASES
from parley_conformance.reports.html import as_matrix
from parley_conformance.reports.model import read_report, report_schema
from tests.support import PARLEY, PROJECT, parley

MUTANT = [sys.executable, str(PROJECT / "tests" / "conformance" / "mutants" / "dispatcher.py")]
RIGHT = [*MUTANT, "dispatcher"]
WRONG = [*MUTANT, "re-zero"]
SOME = ["--case", "SEQ-*", "--case", "ENV-*"]


def conform(*arguments):
    return parley("conform", *arguments)


def dispatcher(*arguments, command=RIGHT):
    return conform("dispatcher", *arguments, "--", *command)


def test_a_right_dispatcher_is_conformant_and_each_case_is_told():
    done = dispatcher("--strict", *SOME)

    assert (done.returncode, done.stderr) == (0, "")
    assert "PASS       SEQ-RE" in done.stdout
    assert done.stdout.rstrip().endswith("conformant")


def test_a_wrong_dispatcher_is_not_and_the_clause_is_named():
    done = dispatcher(*SOME, command=WRONG)

    assert done.returncode == 1
    assert "FAIL       SEQ-RE" in done.stdout
    assert "re of ready" in done.stdout or "re of decision.reply" in done.stdout
    assert "[R-SEQ-1]" in done.stdout


def test_one_case_alone_is_judged_as_among_all():
    done = dispatcher("--case", "SEQ-RE", "--trace", command=WRONG)

    assert done.returncode == 1
    assert '"type": "welcome"' in done.stderr
    assert '"token": "(masked)"' in done.stderr


@pytest.mark.long
def test_a_missed_should_counts_where_it_is_to_count():
    silent = [*MUTANT, "says-nothing"]

    assert dispatcher("--case", "ERR-SHOWN", command=silent).returncode == 0
    assert dispatcher("--case", "ERR-SHOWN", "--strict", command=silent).returncode == 1


def test_an_expected_failure_is_none_and_one_that_passes_is(tmp_path):
    expected = tmp_path / "expected.txt"
    expected.write_text("SEQ-RE   # it counts from zero\n\n")

    known = dispatcher(*SOME, "--expected-failures", expected, command=WRONG)
    mended = dispatcher(*SOME, "--expected-failures", expected)

    assert known.returncode == 0
    assert "(expected)" in known.stdout
    assert mended.returncode == 1
    assert "SEQ-RE does not fail" in mended.stdout


def test_a_list_of_expected_failures_names_cases_that_there_are(tmp_path):
    expected = tmp_path / "expected.txt"
    expected.write_text("SEQ-RA\n")
    done = dispatcher("--expected-failures", expected)

    assert done.returncode == 2
    assert f"{expected}: line 1: there is no case 'SEQ-RA' (did you mean" in done.stderr


@pytest.mark.parametrize("command", [["true"], ["cat"]])
def test_a_command_that_is_no_dispatcher_cannot_be_judged(command):
    done = dispatcher(command=command)

    assert done.returncode == 2
    assert done.stderr.startswith(f"parley: {command[0]!r} cannot be judged: ")
    assert "says hello" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_command_that_there_is_not_is_named(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text("print(1)")

    missing, plain = dispatcher(command=["./nothing"]), dispatcher(command=[str(script)])

    assert (missing.returncode, plain.returncode) == (2, 2)
    assert "there is no command './nothing'" in missing.stderr
    assert "name its interpreter" in plain.stderr


def test_what_is_missing_where_a_command_stands_is_said(tmp_path):
    (tmp_path / "package.json").write_text("{}")
    script = tmp_path / "mine.py"
    script.write_text("raise SystemExit('cannot find my packages')")

    unbuilt = dispatcher(command=[str(tmp_path / "mine")])
    bare = dispatcher(command=["python3", str(script)])

    assert (unbuilt.returncode, bare.returncode) == (2, 2)
    assert unbuilt.stderr.endswith(f"'; build it: npm install --prefix {tmp_path}\n")
    assert f"{tmp_path}/node_modules is not there; build it: npm install --prefix" in bare.stderr
    assert len(bare.stderr.splitlines()) == 1


def test_a_server_that_is_none_cannot_be_judged():
    done = conform("server", "--", "true", "{endpoint}")

    assert done.returncode == 2
    assert "cannot be judged: no answer to a hello at tcp://127.0.0.1:" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["dispatcher"], "name its command behind --"),
        (["dispatcher", "--case", "SEQ-RA", "--", "true"], "no case of this side"),
        (["dispatcher", "--profile", "cores", "--", "true"], "did you mean 'core'"),
        (["explain", "SEQ-RA"], "did you mean"),
        (["list", "dispatchers"], "for a dispatcher and for a server"),
        (["report", "nothing.json", "--html", "x"], "cannot be read"),
    ],
)
def test_wrong_usage_is_told_in_one_line(arguments, told):
    done = conform(*arguments)

    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_every_case_is_listed_in_one_line_and_can_be_explained():
    listed = conform("list")
    lines = listed.stdout.splitlines()

    assert [line.split("\t")[0] for line in lines] == [case.id for case in ALL_CASES]
    explained = conform("explain", "seq-re").stdout
    assert "[R-SEQ-1] The dispatcher MUST" in explained
    assert "parley conform dispatcher --case SEQ-RE --trace -- COMMAND" in explained


@pytest.mark.long
def test_a_program_that_says_nothing_is_given_up_in_time():
    began = time.monotonic()
    done = dispatcher(command=["sleep", "1000"])

    assert done.returncode == 2
    assert "cannot be judged: nothing came within 10 s" in done.stderr
    assert time.monotonic() - began < 15


def test_the_scenarios_for_a_server_are_written(tmp_path):
    done = conform("scenarios", tmp_path)

    assert done.returncode == 0
    described = json.loads((tmp_path / "full.json").read_text())
    assert described["name"] == "full"
    assert described["node_changes"]
    checked = parley("run", tmp_path / "full.toml", "--dry-run", "--out", tmp_path / "out")
    assert checked.returncode == 0, checked.stderr


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name, command in (("right", RIGHT), ("wrong", WRONG)):
        files = {kind: folder / f"{name}.{kind}" for kind in ("json", "xml", "html", "svg")}
        dispatcher(
            *(*SOME, "--json", files["json"], "--junit", files["xml"], "--html", files["html"]),
            *("--badge", files["svg"]),
            command=command,
        )
    return folder


def test_the_report_keeps_to_its_schema(reports):
    for name in ("right", "wrong"):
        report = json.loads((reports / f"{name}.json").read_text())

        jsonschema.validate(report, report_schema())
        assert report["conformant"] is (name == "right")
    failed = [case for case in report["cases"] if case["verdict"] == "FAIL"]
    assert [case["id"] for case in failed] == ["SEQ-RE"]
    line = report["dialogues"]["plain"]["lines"][failed[0]["line"] - 1]
    assert line["sender"] == "program"
    welcome = next(one for one in report["dialogues"]["plain"]["lines"] if "welcome" in one["text"])
    assert '"token": "(masked)"' in welcome["text"]
    assert (b"*" * 32).hex() in welcome["hex"]


def test_junit_counts_what_failed_and_what_was_not_applicable(reports):
    suites = ET.parse(reports / "wrong.xml").getroot()
    failures = suites.findall(".//failure")

    assert sum(int(suite.get("failures")) for suite in suites) == len(failures) == 1
    assert "[R-SEQ-1]" in failures[0].text
    assert len(suites.findall(".//skipped")) == 1


def test_the_page_needs_nothing_from_outside_and_shows_the_dialogue(reports):
    page = (reports / "wrong.html").read_text()

    for mark in ("http://", "https://", "<script", "<link", "url(", "@import", 'src="'):
        assert mark not in page
    assert page.count("offending") >= 2
    assert "not conformant" in page


def test_what_a_program_says_of_itself_does_not_become_part_of_the_page(reports):
    report = read_report((reports / "right.json").read_text())
    report["program"]["name"] = "<script>alert(1)</script>"

    assert "<script" not in as_matrix([report])


def test_a_badge_says_what_the_report_does(reports):
    assert "conformant, " in (reports / "right.svg").read_text()
    assert "1 of " in (reports / "wrong.svg").read_text()
    target = reports / "badge.json"
    conform("report", reports / "right.json", "--badge", target)
    assert json.loads(target.read_text())["schemaVersion"] == 1


def test_several_reports_make_one_matrix(reports):
    page = reports / "matrix.html"
    done = conform("report", reports / "right.json", reports / "wrong.json", "--html", page)

    assert done.returncode == 0
    text = page.read_text()
    assert text.count("<th>mutant 1</th>") == 2
    assert 'class="FAIL"' in text


def test_a_damaged_report_is_named(tmp_path):
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"report": 1}')
    done = conform("report", damaged, "--html", tmp_path / "x.html")

    assert done.returncode == 2
    assert f"{damaged}: no report of the conformance kit: " in done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_program_is_left_when_the_kit_is_ended(tmp_path, how):
    note = tmp_path / "pids"
    script = f"echo $$ >> {note}; sleep 1000 & echo $! >> {note}; wait"
    kit = subprocess.Popen(
        [*PARLEY, "conform", "dispatcher", "--", "sh", "-c", script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up = time.monotonic() + 20
        while not (note.exists() and len(note.read_text().split()) >= 2):
            assert time.monotonic() < give_up
            time.sleep(0.05)
        os.kill(kit.pid, how)
        kit.wait(20)
        pids = [int(pid) for pid in note.read_text().split()]
        while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < give_up:
            time.sleep(0.05)
    finally:
        kit.kill()
        kit.wait()

    assert not [pid for pid in pids if psutil.pid_exists(pid)]


@pytest.mark.long
def test_the_smallest_dispatcher_passes_the_core():
    script = str(PROJECT / "examples" / "smallest.py")
    done = dispatcher("--profile", "core", command=[sys.executable, script])

    assert done.returncode == 0, done.stdout
