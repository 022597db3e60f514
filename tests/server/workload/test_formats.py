"""Every format gives the jobs that the equal SWF gives, and nothing raises but the one error."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley_server import run
from parley_server.engine import ChunkGroup, Shape
from parley_server.errors import InputError, UsageError
from parley_server.workload.entry import MOST_SECONDS, NOTHING_MORE, Entry, More
from parley_server.workload.files import OneWay, _zstd
from parley_server.workload.formats import WorkloadFile, detect
from parley_server.workload.report import ReadReport
from parley_server.workload.rules import ReadingRules, parse_order
from parley_server.workload.sorting import Sorted
from parley_server.workload.tables import Columns
from parley_server.workload.write import Output
from tests.excerpts import (
    ATTRIBUTES,
    COLUMNS,
    COMPRESSIONS,
    FORMATS,
    ROWS,
    Row,
    csv,
    flags,
    parquet,
    swf,
)
from tests.support import SECOND, rows, swf_line

TABLE = Columns(COLUMNS, ATTRIBUTES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


def workload_in(folder, kind, some=ROWS):
    """Write a workload in a format; return it."""
    given = flags(folder, kind, some)
    columns = TABLE if kind in ("csv", "parquet") else Columns()
    return WorkloadFile(given.get("workload"), given.get("format", "auto"), columns)


def entries_of(workload, **options):
    """Return all entries of a workload, and the report."""
    reader = workload.open(ReadReport(), **options)
    try:
        return list(iter(reader.read, None)), reader.report
    finally:
        reader.close()


def jobs_of(source):
    try:
        return list(iter(source.next, None))
    finally:
        source.close()


def outline(job):
    groups = [(g.chunks, g.shape.per_chunk, g.shape.exclusive) for g in job.request]
    return (job.number, job.name, job.submit, job.runtime, job.walltime, job.user, groups)


# ---------------------------------------------------------------------- equal schedules


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("policy", ["fifo", "reject"])
def test_every_format_gives_the_schedule_of_the_equal_swf(tmp_path, kind, policy):
    plain = tmp_path / "plain.swf"
    plain.write_text(swf())
    expected = run(swf=plain, nodes=4, policy=policy, out=tmp_path / "expected")

    result = run(**flags(tmp_path, kind), nodes=4, policy=policy, out=tmp_path / "run")

    differ = {"workload_name", "queue", "profile"}
    assert [
        {name: value for name, value in row.items() if name not in differ}
        for row in rows(result.files.jobs)
    ] == [
        {name: value for name, value in row.items() if name not in differ}
        for row in rows(expected.files.jobs)
    ]
    assert result.files.decisions.read_bytes() == expected.files.decisions.read_bytes(), (
        "instant by instant"
    )


@pytest.mark.parametrize("kind", ["batsim", "sacct"])
def test_every_tested_schedule_has_jobs_that_wait_for_others(tmp_path, kind):
    result = run(**flags(tmp_path, kind), nodes=4, policy="fifo", out=tmp_path / "run")

    starts = {row["job_id"]: float(row["starting_time"]) for row in rows(result.files.jobs)}
    assert starts == {"1": 0, "2": 50, "3": 150, "4": 180, "5": 180, "6": 180, "7": 3600}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_of_any_format_is_repeated_by_its_scenario(tmp_path, kind):
    first = run(**flags(tmp_path, kind), nodes=4, out=tmp_path / "first")

    second = run(first.files.directory / "scenario.toml", out=tmp_path / "second")

    assert first.files.jobs.read_bytes() == second.files.jobs.read_bytes()
    assert first.summary["scenario"]["digest"] == second.summary["scenario"]["digest"]


@pytest.mark.parametrize("kind", FORMATS)
def test_reopening_anywhere_gives_the_rest(tmp_path, kind):
    workload = workload_in(tmp_path, kind)
    everything = [outline(job) for job in jobs_of(workload.source())]

    for cut in range(len(ROWS) + 1):
        source = workload.source()
        for _ in range(cut):
            source.next()
        twin = source.reopen(source.position())
        assert [outline(job) for job in jobs_of(twin)] == everything[cut:]
        assert [outline(job) for job in jobs_of(source)] == everything[cut:]
        assert twin.report == source.report


@pytest.mark.parametrize("kind", sorted(set(FORMATS) - {"own"}))
def test_the_content_tells_the_format(tmp_path, kind):
    path = workload_in(tmp_path, kind).path
    hidden = tmp_path / "workload"
    hidden.write_bytes(path.read_bytes())

    assert detect(hidden) == detect(path) == kind.partition(",")[0]


@pytest.mark.parametrize("kind", ["swf", "batsim", "sacct", "jsonl", "csv"])
@pytest.mark.parametrize("compression", [*COMPRESSIONS, "zst"])
def test_every_text_may_be_compressed(tmp_path, kind, compression):
    workload = workload_in(tmp_path, kind)
    compress = COMPRESSIONS.get(compression) or _zstd().compress
    packed = tmp_path / "packed"
    packed.write_bytes(compress(workload.path.read_bytes()))

    found, _ = entries_of(WorkloadFile(packed, columns=workload.columns))

    assert found == entries_of(workload)[0]


@pytest.mark.parametrize("kind", ["swf", "batsim", "sacct", "jsonl", "csv"])
@pytest.mark.parametrize("compression", [*COMPRESSIONS, "zst"])
def test_a_file_that_is_cut_off_is_an_input_error(tmp_path, kind, compression):
    compress = COMPRESSIONS.get(compression) or _zstd().compress
    draw = random.Random(1)
    many = [
        Row(n, n, draw.randrange(10**6), draw.randrange(1, 9), draw.randrange(1, 10**6))
        for n in range(1, 9000)
    ]
    workload = workload_in(tmp_path, kind, many)
    packed = compress(workload.path.read_bytes())
    cut = tmp_path / "cut"
    cut.write_bytes(packed[: len(packed) - 200])

    with pytest.raises(InputError, match=r"cut: (cut off|not a workload of Batsim)"):
        entries_of(WorkloadFile(cut, kind, workload.columns))


# ---------------------------------------------------------------------- round trips

times = st.integers(0, 10**6).map(lambda s: s * SECOND) | st.integers(0, MOST_SECONDS * SECOND)
counts = st.just(-1) | st.integers(0, 2**31)
names = st.none() | st.integers(0, 10**6).map(str)
raw = st.just(b"-1") | st.integers(0, 10**9).map(lambda n: str(n).encode()) | st.just(b"552.21")
plain_entries = st.builds(
    Entry,
    name=st.integers(0, 2**62),
    submit=times,
    runtime=times | st.just(-SECOND),
    allocated=counts,
    requested=counts,
    walltime=times | st.just(-SECOND),
    memory=st.just(-1) | st.integers(0, 2**50),
    status=st.integers(-1, 5),
    user=names,
    group=names,
    application=names,
    queue=names,
    partition=names,
    preceding=st.just(-1) | st.integers(0, 10**9),
    think=st.just(-1) | st.integers(0, 10**6),
    wait=raw,
    cpu=raw,
    used_memory=raw,
    more=st.just(NOTHING_MORE),
)
words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
told = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
requests = st.none() | st.tuples(
    st.builds(
        ChunkGroup,
        st.integers(1, 2**31),
        st.builds(
            lambda amounts, exclusive: Shape.of(amounts, exclusive=exclusive),
            st.dictionaries(words, st.integers(1, 2**40), min_size=1, max_size=3),
            st.booleans(),
        ),
    )
)
rich_entries = st.builds(
    lambda entry, name, user, more: entry._replace(name=name, user=user, more=more),
    plain_entries,
    st.integers(0, 2**62) | words.filter(lambda text: not text.isdigit()),
    st.none() | words.filter(lambda text: text != "-1"),
    st.builds(
        More,
        requests,
        st.dictionaries(words, words, max_size=2),
        st.dictionaries(words, told, max_size=3),
    ),
)


def written(path, kind, entries, header=None):
    output = Output(path, kind)
    output.begin(header or {})
    for entry in entries:
        output.add(entry)
    output.end()
    return path


def comparable(entry):
    more = entry.more
    asked = None
    if more.request is not None:
        (group,) = more.request
        asked = (group.chunks, group.shape.per_chunk, group.shape.exclusive)
    return (*entry[:-1], asked, dict(more.constraints), dict(more.attributes))


@given(entries=st.lists(plain_entries, max_size=8))
def test_jobs_to_swf_to_jobs_are_the_same(folder, entries):
    path = written(folder / "round.swf", "swf", entries)

    found, report = entries_of(WorkloadFile(path, "swf"))

    assert found == entries
    assert report.dropped == {}


@given(entries=st.lists(rich_entries, max_size=8), header=st.dictionaries(words, words, max_size=3))
def test_jobs_to_json_lines_to_jobs_are_the_same(folder, entries, header):
    path = written(folder / "round.jsonl", "jsonl", entries, header)
    expected = [
        # A request says how many processors there are where nothing else does.
        entry._replace(requested=entry.more.request[0].chunks)
        if entry.requested < 0 and entry.more.request
        else entry
        for entry in entries
    ]

    reader = WorkloadFile(path, "jsonl").open(ReadReport())
    found = list(iter(reader.read, None))
    reader.close()

    assert [comparable(entry) for entry in found] == [comparable(entry) for entry in expected]
    assert reader.header == header
    assert reader.report.dropped == {}


@given(entries=st.lists(plain_entries, min_size=1, max_size=8))
def test_the_jobs_of_a_workload_are_those_of_its_conversions(folder, entries):
    unique = list({entry.name: entry for entry in entries}.values())
    rules = ReadingRules(order=parse_order("sort"))
    sources = [
        WorkloadFile(written(folder / f"both.{kind}", kind, unique)).source(rules)
        for kind in ("swf", "jsonl")
    ]

    found = []
    for source in sources:
        with suppress(InputError):
            found.append([outline(job) for job in jobs_of(source)])

    assert len(found) != 1
    assert not found or found[0] == found[1]


def test_names_get_numbers_in_swf_and_what_stands_for_what_is_written_there(tmp_path):
    workload = workload_in(tmp_path, "jsonl", [Row(1, 0, 5, 1, user="ada"), Row(2, 1, 5, 1)])
    found, _ = entries_of(workload)

    path = written(tmp_path / "out.swf", "swf", [found[0]._replace(name="a/b"), found[1]])

    lines = path.read_text().splitlines()
    assert lines[0] == f"; User: {10**12 + 1} ada"
    assert [line.split()[0] for line in lines[1:]] == [str(10**12 + 1), "2"]


def test_a_partition_keeps_its_name_on_the_way_through_swf(tmp_path):
    workload = workload_in(tmp_path, "jsonl")
    found, _ = entries_of(workload)
    named = [entry._replace(partition=f"p {index}") for index, entry in enumerate(found)]
    path = written(tmp_path / "out.swf", "swf", named)

    reader = WorkloadFile(path).open(ReadReport())
    numbers = [entry.partition for entry in iter(reader.read, None)]
    reader.close()

    assert [reader.partition_names[number] for number in numbers] == [
        entry.partition for entry in named
    ]


# ---------------------------------------------------------------------- mutated files


MUTABLE = sorted(set(FORMATS) - {"own"})


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(kind=st.sampled_from(MUTABLE), data=st.data(), strict=st.booleans())
def test_a_mutated_file_raises_nothing_but_the_documented_error(folder, kind, data, strict):
    workload = workload_in(folder, kind)
    content = bytearray(workload.path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        junk = st.binary(max_size=4) | st.sampled_from(
            [b'"', b"{", b"}", b"[", b"|", b",", b"\n", b"1e999", b"-", b"null", b"NaN", b"\xff"]
        )
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(junk)
    path = folder / f"mutated-{workload.path.name}"
    path.write_bytes(content)
    mutated = WorkloadFile(path, detect(workload.path), workload.columns)

    source = None
    try:
        source = mutated.source(ReadingRules(strict=strict))
        jobs = list(iter(source.next, None))
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017 - it need not be raised
        assert "\n" not in str(error)  # noqa: PT017
    else:
        report = source.report
        assert report.lines == report.comments + report.kept + sum(report.dropped.values())
        assert all(0 <= job.runtime < 2**53 > job.submit >= 0 for job in jobs)
    finally:
        if source is not None:
            source.close()


@settings(deadline=None)
@given(
    content=st.binary(max_size=120),
    kind=st.sampled_from(["batsim", "sacct", "jsonl", "csv", "parquet"]),
)
def test_any_bytes_raise_nothing_but_an_input_error(folder, content, kind):
    path = folder / "bytes"
    path.write_bytes(content)

    with suppress(InputError):
        entries_of(WorkloadFile(path, kind))
    with suppress(InputError):
        entries_of(WorkloadFile(path, detect(path)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(values=st.dictionaries(st.sampled_from(["id", "submit", "runtime", "processors", "walltime", "memory", "user", "request", "constraints", "attributes", "think_time", "wait", "status", "preceding"]), json_values))  # fmt: skip  # noqa: E501
def test_whatever_stands_in_a_field_is_a_job_or_malformed(folder, values):
    path = folder / "values.jsonl"
    path.write_text(json.dumps({"id": 1, "submit": 0, "runtime": 1, "processors": 1} | values))

    found, report = entries_of(WorkloadFile(path, "jsonl"))

    assert len(found) + report.dropped.get("malformed", 0) == 1


# ---------------------------------------------------------------------- what is told of bad lines

BAD = {
    "swf": ("9 1 2", "line 3: 3 fields where the format has 18"),
    "swf, tabs": ("9\t1\t2", "line 3: 3 fields where the file has 19"),
    "swf, nodes": (swf_line(9, 1, 1, 1), "line 3: 18 fields where the file has 21"),
    "sacct": (
        "9|7|soon|x|1|00:01:00|1|1|COMPLETED||",
        "line 4: field 'Submit' is 'soon': expected",
    ),
    "jsonl": ('{"id": 9, "submit": 0, "runtime": "x"}', "line 4: field 'runtime' is 'x': expected"),
    "csv": ("9,1,1,half,1,7,1,p,1", "line 4: field 'n' is 'half': expected a whole number"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_is_told_with_its_field_and_what_was_expected(tmp_path, kind):
    workload = workload_in(tmp_path, kind)
    line, said = BAD[kind]
    lines = workload.path.read_text().splitlines()
    at = int(said.split()[1].rstrip(":")) - 1
    workload.path.write_text("\n".join([*lines[:at], line, *lines[at:]]) + "\n")

    found, report = entries_of(workload)

    assert len(found) == len(ROWS)
    assert report.dropped == {"malformed": 1}
    assert report.first_malformed.startswith(said)
    with pytest.raises(InputError) as caught:
        entries_of(workload, strict=True)
    assert str(caught.value).startswith(f"{workload.path}: {said}")


def test_what_of_batsim_cannot_be_simulated_is_named(tmp_path):
    document = {
        "nb_res": 4,
        "jobs": [
            {"id": 1, "subtime": 0, "res": 1, "profile": "d", "walltime": 9},
            {"id": 2, "subtime": 0, "res": 1, "profile": "m"},
            {"id": 3, "subtime": 0, "res": 1, "profile": "nowhere"},
            {"id": 4, "subtime": 0, "res": 1, "profile": "s"},
        ],
        "profiles": {
            "d": {"type": "delay", "delay": 2.5},
            "m": {"type": "parallel", "cpu": [1], "com": [0]},
            "s": {"type": "composed", "repeat": 3, "seq": ["d", "d"]},
        },
    }
    path = tmp_path / "w.json"
    path.write_text(json.dumps(document))

    found, report = entries_of(WorkloadFile(path))

    assert [(entry.name, entry.runtime) for entry in found] == [(1, 2_500_000), (4, 15_000_000)]
    assert report.dropped == {"profile parallel": 1, "malformed": 1}
    assert report.first_malformed.startswith("jobs[2]: field 'profile' is 'nowhere'")


SACCT = [
    # fields, what comes of them
    ({"State": "RUNNING"}, {"runtime": -SECOND}),
    ({"State": "CANCELLED by 1000", "Start": "Unknown"}, {"runtime": -SECOND, "status": 5}),
    ({"State": "CANCELLED", "ElapsedRaw": "0"}, {"runtime": -SECOND}),
    ({"State": "COMPLETED", "ElapsedRaw": "0"}, {"runtime": 0}),
    ({"State": "CANCELLED+"}, {"runtime": 60 * SECOND, "status": 5}),
    ({"State": "TIMEOUT"}, {"status": 0}),
    ({"Timelimit": "1-00:00:00"}, {"walltime": 86_400 * SECOND}),
    ({"Timelimit": "2-12"}, {"walltime": 60 * 3600 * SECOND}),
    ({"Timelimit": "UNLIMITED"}, {"walltime": -SECOND}),
    ({"Timelimit": "", "TimelimitRaw": "90"}, {"walltime": 5400 * SECOND}),
    ({"ReqMem": "2Gc"}, {"memory": 2 * 1024**2}),
    ({"ReqMem": "2Gn", "NNodes": "2"}, {"memory": 1024**2}),
    ({"ReqMem": "10M"}, {"memory": 2560}),
    ({"JobID": "12_3"}, {"name": "12_3"}),
    ({"Submit": "1700000000"}, {"submit": 1_700_000_000 * SECOND}),
    ({"Constraints": "ib&gpu"}, {"constraints": {"ib": "true", "gpu": "true"}}),
    ({"ElapsedRaw": "", "Elapsed": "01:00:01.5"}, {"runtime": 3_601_500_000}),
]


@pytest.mark.parametrize(("fields", "expected"), SACCT)
def test_accounting_is_read_as_slurm_writes_it(tmp_path, fields, expected):
    row = {
        "JobID": "12",
        "Submit": "2024-05-01T12:00:00",
        "Start": "2024-05-01T12:00:05",
        "ElapsedRaw": "60",
        "Timelimit": "01:00:00",
        "ReqCPUS": "4",
        "State": "COMPLETED",
        **fields,
    }
    path = tmp_path / "acct"
    path.write_text("|".join(row) + "\n" + "|".join(row.values()) + "\n")

    (entry,), _ = entries_of(WorkloadFile(path, "sacct"))

    seen = {"constraints": dict(entry.more.constraints), **entry._asdict()}
    assert {key: seen[key] for key in expected} == expected


# ---------------------------------------------------------------------- tables and own readers


def test_a_column_that_is_not_there_is_told_with_those_that_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(csv())

    with pytest.raises(InputError, match=r"no column 'jib'.*did you mean 'job'.*job, when"):
        entries_of(WorkloadFile(path, columns=Columns({"id": "jib"})))
    with pytest.raises(InputError, match=r"which column is 'id'\? say it with --column id=NAME"):
        entries_of(WorkloadFile(path))


@pytest.mark.parametrize("column", ["waited", "took"])
def test_a_column_known_only_afterwards_is_no_attribute(column):
    with pytest.raises(UsageError, match="known only afterwards"):
        Columns(COLUMNS, [column]).require_sensible()


def test_only_the_columns_that_are_named_travel(tmp_path):
    found, _ = entries_of(workload_in(tmp_path, "csv"))

    assert {json.dumps(dict(entry.more.attributes)) for entry in found} == {'{"project": "p, 1"}'}


def test_parquet_without_its_library_is_one_clear_line(tmp_path, monkeypatch):
    path = parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(InputError, match=r"pip install 'parley-sim\[parquet\]'"):
        entries_of(WorkloadFile(path, columns=TABLE))


OWN = {
    "raises": ("def read():\n    raise ValueError('no such row')\n", "ValueError: no such row"),
    "no iterable": ("def read():\n    return 5\n", "TypeError"),
    "bad jobs": ("def read():\n    yield 5\n", "none of its 1|malformed"),
    "unknown keys": (
        "def read():\n    yield {'id': 1, 'submitted': 5}\n",
        "'submitted' is unknown",
    ),
}


@pytest.mark.parametrize(("code", "said"), OWN.values(), ids=OWN)
def test_what_a_reader_of_ones_own_does_wrong_is_told_in_one_line(tmp_path, code, said):
    path = tmp_path / "reader.py"
    path.write_text(code)

    with pytest.raises(InputError, match=said) as caught:
        jobs_of(WorkloadFile(None, f"{path}:read").source())

    assert "reader.py" in str(caught.value)


@pytest.mark.parametrize("code", ["", "x = (", "raise SystemError\n", "read = 5\n"])
def test_a_reader_that_is_none_is_wrong_usage(tmp_path, code):
    path = tmp_path / "reader.py"
    path.write_text(code)

    with pytest.raises(UsageError, match=r"reader\.py"):
        WorkloadFile(None, f"{path}:read").source()


def test_a_generator_says_that_it_is_read_once(tmp_path):
    path = tmp_path / "reader.py"
    path.write_text(
        "def read():\n    yield {'id': 1, 'submit': 0, 'runtime': 1, 'processors': 1}\n"
    )
    source = WorkloadFile(None, f"{path}:read").source()
    source.next()

    with pytest.raises(OneWay, match="read once"):
        source.position()
    source.close()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("csv", "id,submit,runtime,processors\n1,0,1,1\n2,0,1,1\n"),
        ("jsonl", '{"id": 1, "submit": 0, "runtime": 1, "processors": 1}\n'),
    ],
)
def test_a_pipe_says_that_it_is_read_once(form, text):
    program = (
        "from parley_server.workload.files import OneWay\n"
        "from parley_server.workload.formats import WorkloadFile\n"
        "from pathlib import Path\n"
        f"source = WorkloadFile(Path('-'), {form!r}).source()\n"
        "source.next()\n"
        "try:\n    source.position()\nexcept OneWay as error:\n    print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (told.returncode, told.stderr) == (0, "")
    assert "read once" in told.stdout


# ---------------------------------------------------------------------- order


@given(
    submits=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    run_length=st.integers(1, 7),
)
def test_sorting_outside_memory_is_sorting(submits, run_length):
    base = Entry(0, 0, 0, 1, 1, 0, -1, 1, None, None, None, None, None, -1, -1, b"", b"", b"")
    entries = [base._replace(name=n, submit=submit) for n, submit in enumerate(submits)]
    ordered = Sorted(iter(entries), run_length=run_length)

    found = list(iter(ordered.next, None))
    ordered.close()

    assert found == sorted(entries, key=lambda entry: entry.submit)


@given(data=st.data(), size=st.integers(1, 30), window=st.integers(1, 10))
def test_a_window_finds_the_place_of_every_line_that_is_late_by_no_more(folder, data, size, window):
    # Nobody overtakes more than *window* others.
    delays = data.draw(st.lists(st.integers(0, window), min_size=size, max_size=size))
    late = sorted(range(size), key=lambda n: (n + delays[n], n))
    path = folder / "late.swf"
    path.write_text("".join(swf_line(n + 1, n * 10, 5, 1) + "\n" for n in late))
    rules = ReadingRules(order=parse_order(f"window:{window}"), strict=True)

    jobs = jobs_of(WorkloadFile(path).source(rules))

    assert [job.submit for job in jobs] == [n * 10 * SECOND for n in range(size)]
    assert [job.number for job in jobs] == list(range(size))


@pytest.mark.parametrize(
    ("order", "names", "dropped"),
    [
        ("as-is", ["1", "2"], {"out_of_order": 2}),
        ("window:1", ["1", "3", "2"], {"out_of_order": 1}),
        ("window:2", ["1", "4", "3", "2"], {}),
        ("sort", ["1", "4", "3", "2"], {}),
    ],
)
def test_lines_out_of_order_are_dropped_or_find_their_place(tmp_path, order, names, dropped):
    path = tmp_path / "t.swf"
    submits = [(1, 0), (2, 30), (3, 20), (4, 10)]
    path.write_text("".join(swf_line(n, at, 5, 1) + "\n" for n, at in submits))
    source = WorkloadFile(path).source(ReadingRules(order=parse_order(order)))

    found = [job.name for job in jobs_of(source)]

    assert found == names
    assert source.report.dropped == dropped


@pytest.mark.parametrize("order", ["window:2", "sort"])
def test_a_source_that_puts_lines_in_order_can_be_reopened(tmp_path, order):
    path = tmp_path / "t.swf"
    path.write_text("".join(swf_line(n, 100 - n % 3, 5, 1) + "\n" for n in range(1, 20)))
    for cut in range(15):
        source = WorkloadFile(path).source(ReadingRules(order=parse_order(order)))
        for _ in range(cut):
            source.next()
        twin = source.reopen(source.position())
        assert [outline(job) for job in jobs_of(twin)] == [outline(job) for job in jobs_of(source)]
        assert twin.report == source.report


def test_an_instant_of_the_trace_may_be_time_zero(tmp_path):
    path = tmp_path / "t.swf"
    path.write_text(swf(start=1_000_000))
    source = WorkloadFile(path).source(ReadingRules(origin=1_000_010 * SECOND))

    jobs = jobs_of(source)

    assert [job.submit // SECOND for job in jobs] == [0, 0, 80, 85, 3590]
    assert source.report.dropped == {"before_origin": 2}


# ---------------------------------------------------------------------- blocks


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8),
    odd=st.sampled_from(["; comment", "", "1 2 3", "0.5 " * 18]),
)
@settings(deadline=None, max_examples=25)
def test_where_a_block_ends_makes_no_difference(folder, sizes, odd):
    numbers = itertools.count(1)
    lines = []
    for size in sizes:
        lines += [
            swf_line(n, n, 5, 1).replace(" ", " " * 9) for n in itertools.islice(numbers, size)
        ]
        lines.append(odd)
    path = folder / "blocks.swf"
    path.write_text("\n".join(lines))

    found, report = entries_of(WorkloadFile(path))

    assert [entry.name for entry in found] == list(range(1, len(lines) - len(sizes) + 1))
    # A last line without an end, and with nothing in it, is no line.
    assert report.lines == len(lines) - (not odd)
