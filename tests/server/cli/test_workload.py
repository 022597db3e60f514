"""The commands on workloads and machines, as users run them: files, pipes, bad input."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import threading

import pytest

from parley_server.toolbox import (
    CleaningSettings,
    cleaned,
    information,
    merged_into,
    scaled_to,
    tiled_to,
)
from parley_server.workload.formats import WorkloadFile
from parley_server.workload.report import ReadReport
from tests.excerpts import FORMATS, flags
from tests.support import PARLEY, SECOND, parley, rows, swf_line

HEADER = "; MaxNodes: 4\n; MaxProcs: 16\n; UnixStartTime: 1000\n"


def trace_in(folder, count=40, name="t.swf"):
    path = folder / name
    lines = [swf_line(n, n * 100, n % 7, n % 5 + 1, 60, user=n % 3) for n in range(1, count + 1)]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return path


def entries_in(path, kind="auto"):
    reader = WorkloadFile(path, kind).open(ReadReport())
    found = list(iter(reader.read, None))
    reader.close()
    return found


def told(answer, *words, status=2):
    assert answer.returncode == status, answer.stderr
    lines = answer.stderr.splitlines()
    assert len(lines) == 1, answer.stderr
    assert lines[0].startswith("parley: ")
    assert "fault of our own" not in lines[0]
    for word in words:
        assert word in lines[0]


# ---------------------------------------------------------------------- info


def test_info_says_in_words_what_it_says_in_json(tmp_path):
    path = trace_in(tmp_path)

    words = parley("workload", "info", path, "--platform", "guess")
    table = json.loads(parley("workload", "info", path, "--platform", "guess", "--json").stdout)

    assert words.returncode == 0
    assert "jobs                              40\n" in words.stdout
    assert table["jobs"] == 40
    assert table["met"]["runtime_zero"] == 5
    assert table["users"] == 3
    assert table["span"] == 3900
    work = sum(n % 7 * (n % 5 + 1) for n in range(1, 41))
    assert table["load"] == pytest.approx(work / (3900 * 16))


@pytest.mark.parametrize("kind", sorted(set(FORMATS) - {"own"}))
def test_info_reads_every_format(tmp_path, kind):
    given = flags(tmp_path, kind)
    columns = [
        option
        for field, column in (given.get("columns") or {}).items()
        for option in ("--column", f"{field}={column}")
    ]

    answer = parley("workload", "info", given["workload"], "--json", *columns)

    assert json.loads(answer.stdout)["jobs"] == 7


def test_a_pipe_is_a_workload_compressed_or_not(tmp_path):
    path = trace_in(tmp_path)
    packed = gzip.compress(path.read_bytes())
    expected = json.loads(parley("workload", "info", path, "--json").stdout)

    for content in (path.read_bytes(), packed):
        answer = subprocess.run(
            [*PARLEY, "workload", "info", "-", "--json"],
            input=content,
            capture_output=True,
            check=True,
        )
        found = json.loads(answer.stdout)
        assert found == {**expected, "name": "standard input"}


def test_a_run_takes_its_workload_from_a_pipe(tmp_path):
    path = trace_in(tmp_path)
    line = " ".join(PARLEY)
    script = (
        f"{line} workload tile {path} - --jobs 100 -q | "
        f"{line} run --swf - --nodes 8 -q --out {tmp_path / 'piped'}"
    )
    subprocess.run(["bash", "-o", "pipefail", "-c", script], check=True)
    parley("workload", "tile", path, tmp_path / "tile.swf", "--jobs", 100)

    answer = parley(
        "run", "--swf", tmp_path / "tile.swf", "--nodes", 8, "-q", "--out", tmp_path / "run"
    )

    assert answer.returncode == 0, answer.stderr
    piped, filed = (
        [
            {k: v for k, v in row.items() if k != "workload_name"}
            for row in rows(directory / "jobs.csv")
        ]
        for directory in (tmp_path / "piped", tmp_path / "run")
    )
    assert len(piped) == 100
    assert piped == filed


def test_whoever_closes_the_pipe_ends_the_command_without_a_traceback(tmp_path):
    path = trace_in(tmp_path, 5000)
    line = " ".join(PARLEY)

    answer = subprocess.run(
        ["bash", "-c", f"{line} workload tile {path} - --times 50 -q | head -3"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(answer.stdout.splitlines()) == 3
    assert "Traceback" not in answer.stderr
    assert "fault" not in answer.stderr


def test_long_work_shows_on_a_terminal_how_far_it_is(tmp_path):
    path = trace_in(tmp_path, 20_000)
    leader, follower = pty.openpty()
    seen = bytearray()

    def listen():
        try:
            while part := os.read(leader, 4096):
                seen.extend(part)
        except OSError:
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    subprocess.run(
        [*PARLEY, "workload", "tile", str(path), str(tmp_path / "out.swf"), "--times", "12"],
        stderr=follower,
        check=True,
    )
    os.close(follower)
    listener.join(5)
    os.close(leader)

    assert b"jobs/s" in seen


# ---------------------------------------------------------------------- clean, convert


def test_clean_drops_by_rules_and_writes_what_each_dropped(tmp_path):
    path, out = trace_in(tmp_path), tmp_path / "out.swf"

    answer = parley(
        *("workload", "clean", path, out, "--rules", "user=1", "--rules", "runtime=0"),
        *("--rules", "status=9"),
    )

    assert answer.returncode == 0
    assert answer.stderr.splitlines() == [
        f"23 jobs written to {out}",
        "14 dropped: user=1",
        "3 dropped: runtime=0",
        "0 dropped: status=9",
    ]
    assert out.read_text().startswith(HEADER)
    assert "; Note: user=1 (14 jobs removed)" in out.read_text()
    assert {entry.user for entry in entries_in(out)} == {"0", "2"}


def test_what_a_clean_workload_says_of_itself_cleans_the_first_one_again(tmp_path):
    path, once, twice = trace_in(tmp_path), tmp_path / "once.swf", tmp_path / "twice.swf"
    parley("workload", "clean", path, once, "--rules", "user=1 and proc>=2", "-q")

    parley("workload", "clean", path, twice, "--rules", f"header:{once}", "-q")

    assert twice.read_bytes() == once.read_bytes()


def test_a_run_names_the_version_of_its_trace_and_how_it_was_cleaned(tmp_path):
    path = tmp_path / "t.swf"
    filters = ["user=3 and proc=1 and app=1 (24025 jobs removed)", "job<=10 (5 jobs removed)"]
    path.write_text(
        "; Version: 2.2\n; Note: THIS IS A CLEANED VERSION OF THE LOG!\n"
        + "".join(f";         {text}\n" for text in filters)
        + swf_line(1, 0, 5, 1)
    )

    parley("run", "--swf", path, "--nodes", 2, "-q", "--out", tmp_path / "run")

    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["lines"]["trace"] == {"Version": "2.2", "filters": filters}


def test_rules_may_stand_in_a_file(tmp_path):
    path, out, rules = trace_in(tmp_path), tmp_path / "out.swf", tmp_path / "rules"
    rules.write_text("# mine\nuser=1\n\nuser=2 # and his\n")

    parley("workload", "clean", path, out, "--rules", f"@{rules}", "-q")

    assert {entry.user for entry in entries_in(out)} == {"0"}


def test_a_cleaned_workload_gives_the_run_that_the_same_rules_give(tmp_path):
    path, out = trace_in(tmp_path), tmp_path / "clean" / "t.swf"
    out.parent.mkdir()
    parley("workload", "clean", path, out, "--rules", "user=1", "--zero-runtime", "raise:3s")

    for swf, more, to in (
        (out, (), "a"),
        (path, ("--drop", "user=1", "--zero-runtime", "raise:3s"), "b"),
    ):
        answer = parley("run", "--swf", swf, "--nodes", 8, *more, "-q", "--out", tmp_path / to)
        assert answer.returncode == 0

    assert (tmp_path / "a" / "jobs.csv").read_bytes() == (tmp_path / "b" / "jobs.csv").read_bytes()
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert summary["dropped"] == {"user=1": 14}


def test_what_each_rule_dropped_is_told_on_the_terminal(tmp_path):
    path = trace_in(tmp_path)

    answer = parley(
        "run", "--swf", path, "--nodes", 8, "--drop", "user=1", "--out", tmp_path / "run"
    )

    assert "lines dropped by rule: 14 user=1" in answer.stderr


def test_there_and_back_again_is_the_same_file(tmp_path):
    path, other, back = trace_in(tmp_path), tmp_path / "t.jsonl.zst", tmp_path / "back.swf"

    parley("workload", "convert", path, other)
    parley("workload", "convert", other, back)

    assert entries_in(back) == entries_in(path)
    assert back.read_text().splitlines()[:3] == HEADER.splitlines()


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_the_ending_compresses_and_the_same_jobs_give_the_same_bytes(tmp_path, ending):
    path = trace_in(tmp_path)
    one, two = tmp_path / f"a.swf{ending}", tmp_path / f"b.swf{ending}"

    for out in (one, two):
        assert parley("workload", "convert", path, out, "-q").returncode == 0

    assert one.read_bytes() == two.read_bytes()
    assert entries_in(one) == entries_in(path)


def test_head_writes_the_first_jobs_to_the_terminal(tmp_path):
    path = trace_in(tmp_path)

    answer = parley("workload", "head", path, "-n", 3)

    assert answer.stdout == "".join(path.read_text().splitlines(keepends=True)[:6])


# ---------------------------------------------------------------------- made of others


def test_scale_multiplies_the_load(tmp_path):
    path, out = trace_in(tmp_path), tmp_path / "out.swf"
    from fractions import Fraction

    scaled_to(WorkloadFile(path), out, None, Fraction(5, 4))

    before, after = (information(WorkloadFile(name), processors=16) for name in (path, out))
    assert after["load"] == pytest.approx(before["load"] * 1.25)
    assert after["first_submit"] == before["first_submit"]


def test_a_tile_keeps_the_hour_of_every_job_and_no_number_stands_twice(tmp_path):
    path, out = trace_in(tmp_path), tmp_path / "out.swf"

    report = tiled_to(WorkloadFile(path), out, None, times=3)

    once, tiled = entries_in(path), entries_in(out)
    assert report.written == len(tiled) == 120
    day = 86_400 * SECOND
    assert [entry.submit % day for entry in tiled] == [entry.submit % day for entry in once] * 3
    assert len({entry.name for entry in tiled}) == 120
    assert [entry.submit for entry in tiled] == sorted(entry.submit for entry in tiled)


def test_merging_keeps_all_jobs_in_order_and_users_apart_if_wanted(tmp_path):
    one, two = trace_in(tmp_path), trace_in(tmp_path, 20, "u.swf")
    files = [WorkloadFile(one), WorkloadFile(two)]

    merged_into(files, tmp_path / "same.swf", None)
    merged_into(files, tmp_path / "apart.swf", None, apart=True)

    same, apart = entries_in(tmp_path / "same.swf"), entries_in(tmp_path / "apart.swf")
    assert [entry.name for entry in same] == list(range(1, 61))
    assert [entry.submit for entry in same] == sorted(entry.submit for entry in same)
    assert {entry.user for entry in same} == {"0", "1", "2"}
    assert len({entry.user for entry in apart}) == 6


def test_the_detector_s_flurries_are_dropped(tmp_path):
    path, out = tmp_path / "t.swf", tmp_path / "out.swf"
    lines = [swf_line(n, n * 20_000, 5, 1, user=n % 9) for n in range(1, 400)]
    lines += [swf_line(1000 + n, 4_000_000 + n, 5, 1, user=5) for n in range(500)]
    path.write_text("\n".join(sorted(lines, key=lambda line: int(line.split()[1]))))

    report = cleaned(WorkloadFile(path), out, None, CleaningSettings(flurries=True))

    ((rule, count),) = report.dropped.items()
    assert rule.startswith("user=5 and (submit>=")
    assert count >= 500
    assert report.written == 899 - count


# ---------------------------------------------------------------------- platform info


def test_platform_info_says_in_words_what_it_says_in_json(tmp_path):
    path = tmp_path / "machine"
    path.write_text("NodeName=n[1-4] CPUs=8 Feature=ib\nPartitionName=p Nodes=ALL Default=YES\n")

    words, table = parley("platform", "info", path), parley("platform", "info", path, "--json")

    assert words.stdout.splitlines() == [
        "platform (slurm): 4 nodes, 32 core",
        "  0-3  n1 to n4: 4 nodes of 8 core; ib = True",
        "partition p (default): n1 to n4",
    ]
    found = json.loads(table.stdout)
    assert (found["format"], found["node_count"], found["capacity"]) == ("slurm", 4, {"core": 32})


def test_a_guess_is_told_as_a_guess(tmp_path):
    answer = parley("platform", "info", "--guess", trace_in(tmp_path))

    assert "note: a guess from the header" in answer.stdout


# ---------------------------------------------------------------------- bad input

NOTHING = [
    ("info", "{none}", "none.swf", "cannot be read"),
    ("info", "{empty}", "empty.swf", "the file is empty"),
    ("info", "{binary}", "binary.swf", "none of its"),
    ("info", "{cut}", "cut.swf.gz", "cut off or damaged after line"),
    ("info", "{good} --format nosuch", "'nosuch' is no format"),
    ("info", "{good} --column x", "'x' is no column"),
    ("info", "{good} --format csv --column zz=x", "'zz' is no field"),
    ("info", "{bad} --strict", "bad.swf: line 2: 3 fields where the format has 18"),
    ("info", "{good} --platform {none}", "none.swf", "cannot be read"),
    ("clean", "{good} {out} --rules 'usr=3'", "expected a field", "did you mean 'user'"),
    ("clean", "{good} {out} --rules 'user=1' --strict", "line 4 is dropped by the rule 'user=1'"),
    ("clean", "{good} {out} --rules 'header:{bad}'", "names no filters"),
    ("clean", "{good} {out} --rules '@{none}'", "cannot be read"),
    ("clean", "{good} {out} --zero-runtime zap", "'zap'"),
    ("clean", "- {out} --flurries", "standard input is read once"),
    ("clean", "{good} {good}", "that is the workload that is read"),
    ("convert", "{good} {out} --to xml", "'xml' cannot be written"),
    ("convert", "{good} {out}.dat", "which format?"),
    ("convert", "{good} /nowhere/out.swf", "/nowhere/out.swf: cannot be written"),
    ("convert", "{empty} {out}", "the file is empty"),
    ("scale", "{good} {out} --load 0", "'0' is no load factor"),
    ("scale", "{good} {out} --load 1e9", "'1e9' is no load factor"),
    ("tile", "{good} {out}", "give one of --jobs and --times"),
    ("tile", "- {out} --times 2", "standard input"),
    ("merge", "{good} {out}", "merge takes two workloads or more"),
    ("merge", "{good} {late} {out}", "late.swf: line 2 is submitted before the line before it"),
]


@pytest.mark.parametrize(("command", "arguments", "said"), [(c, a, w) for c, a, *w in NOTHING])
def test_what_cannot_be_done_is_told_in_one_line(tmp_path, command, arguments, said):
    import shlex

    good = trace_in(tmp_path, name="good.swf")
    files = {"good": good, "out": tmp_path / "out.swf", "none": tmp_path / "none.swf"}
    contents = {
        "empty.swf": b"",
        "binary.swf": bytes(range(256)) * 10,
        "cut.swf.gz": gzip.compress(good.read_bytes())[:-40],
        "bad.swf": swf_line(1, 0, 1, 1).encode() + b"\n1 2 3\n",
        "late.swf": f"{swf_line(1, 9, 1, 1)}\n{swf_line(2, 0, 1, 1)}\n".encode(),
    }
    for name, content in contents.items():
        files[name.partition(".")[0]] = tmp_path / name
        (tmp_path / name).write_bytes(content)

    answer = parley(
        *("workload", command, *shlex.split(arguments.format(**files))),
        **({"input": good.read_text()} if "-" in arguments.split() else {}),
    )

    expected_status = 1 if "/nowhere" in arguments else 2
    told(answer, *said, status=expected_status)


def test_a_bad_line_is_counted_told_and_skipped(tmp_path):
    path = tmp_path / "t.swf"
    path.write_text(f"{swf_line(1, 0, 1, 1)}\n1 2 3\n{swf_line(2, 0, 1, 1)}\n")

    answer = parley("workload", "convert", path, tmp_path / "out.swf")

    assert answer.returncode == 0
    assert answer.stderr.splitlines()[1:] == [
        "1 dropped: malformed",
        "first malformed: line 2: 3 fields where the format has 18",
    ]
