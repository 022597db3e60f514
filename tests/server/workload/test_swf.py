"""The reader of the Standard Workload Format: every line is a job, a comment, or counted."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
from collections import Counter
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley_server.errors import InputError, UsageError
from parley_server.workload import (
    EstimateMissing,
    ReadingRules,
    RequestMode,
    Select,
    SwfSource,
    parse_estimate,
)
from parley_server.workload.files import open_workload
from tests.support import SECOND, shared, swf_line, write_swf

MOST_ON_THE_WIRE = 2**53 - 1

COMPRESS = {"plain": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}

KEPT_IN_ARCHIVE = {
    "CEA-Curie-2011-2.1-cln": 312_807,
    "HPC2N-2002-2.2-cln": 202_871,
    "KTH-SP2-1996-2.1-cln": 28_475,
    "LANL-CM5-1994-4.1-cln": 122_057,
    "LPC-EGEE-2004-1.2-cln": 220_695,
    "NASA-iPSC-1993-3.1-cln": 18_239,
    "SDSC-SP2-1998-4.2-cln": 54_044,
    "RICC-2010-2": 447_794,
    "lublin_256": 10_000,
}
"""Jobs that the Parallel Workloads Archive's own cleaning leaves of each trace."""

# ---------------------------------------------------------------------- traces to read

microseconds = st.integers(0, 10**7) | st.integers(0, 10**6).map(lambda s: s * SECOND)


@st.composite
def descriptions(draw, most=12):
    """Return (submit, runtime, processors, requested time or None), times in microseconds."""
    submits = sorted(draw(st.lists(microseconds, min_size=1, max_size=most)))
    return [
        (
            submit,
            draw(microseconds),
            draw(st.integers(1, 2000)),
            draw(st.none() | microseconds.filter(bool)),
        )
        for submit in submits
    ]


def seconds_text(value, decimals=6):
    """Return microseconds as a trace has them: `1.5`, `1.500000`, or `2`."""
    if value is None:
        return "-1"
    whole, rest = divmod(value, SECOND)
    return f"{whole}.{rest:06d}"[: len(str(whole)) + 1 + decimals] if rest else str(whole)


def text_of(jobs):
    """Return the trace of such descriptions, numbered from 1."""
    return "".join(
        f"{swf_line(number, *map(seconds_text, (submit, runtime)), size, seconds_text(limit))}\n"
        for number, (submit, runtime, size, limit) in enumerate(jobs, 1)
    )


@st.composite
def line_soups(draw):
    """Return lines of every sort, in any order, each with the word for what becomes of it."""
    sorts = {
        "comment": st.sampled_from(["", "   ", ";", "; Key: value", ";no colon", ";;; a: b: c"]),
        "malformed": st.sampled_from(["1 2 3", "x " * 18, "1 " * 19, "\x00", "1_0 " * 18]),
        "no_runtime": st.integers(0, 50).map(lambda at: swf_line(900, at, -1, 4)),
        "no_processors": st.integers(0, 50).map(lambda at: swf_line(901, at, 5, -1)),
        "status": st.integers(2, 4).map(lambda status: swf_line(902, 60, 5, 4, status=status)),
        "out_of_order": st.just(swf_line(903, 99, 5, 4)),
        "kept": st.just(None),
    }  # fmt: skip
    soup, submit = [("kept", swf_line(1, 100, 5, 4))], 100
    for sort in draw(st.lists(st.sampled_from(sorted(sorts)), max_size=25)):
        line = draw(sorts[sort])
        if line is None:
            submit += draw(st.integers(0, 5))
            line = swf_line(len(soup) + 1, submit, 5, 4)
        soup.append((sort, line))
    return soup


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traces")


def trace_in(folder, content, name="trace.swf"):
    """Write a trace, text or bytes, and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def remaining(source):
    """Return the jobs that a reader still gives."""
    jobs = []
    while (job := source.next()) is not None:
        jobs.append(job)
    return jobs


@contextmanager
def opened(path, **rules):
    """Open a trace, and close it whatever comes of it: a leak has a test of its own."""
    source = SwfSource(path, ReadingRules(**rules))
    try:
        yield source
    finally:
        source.close()


def read(path, **rules):
    """Return the jobs of a trace and what became of its lines."""
    with opened(path, **rules) as source:
        return remaining(source), source.report


def plain(job):
    """Return what can be compared of a job: everything."""
    request = [
        (group.chunks, group.shape.per_chunk, group.shape.exclusive) for group in job.request
    ]
    fields = ("number", "name", "submit", "runtime", "walltime", "walltime_source")
    owners = ("user", "group", "queue", "partition", "attributes")
    return [request, *(getattr(job, field) for field in fields + owners)]


def one(folder, line, **rules):
    """Return the only job of a trace of one line."""
    jobs, _ = read(trace_in(folder, line), **rules)
    assert len(jobs) == 1
    return jobs[0]


def refusal(path, **rules):
    """Return what a reader says when it refuses a trace."""
    with pytest.raises(InputError) as caught:
        read(path, **rules)
    return str(caught.value)


# ---------------------------------------------------------------------- laws


@given(
    jobs=descriptions(), missing=st.sampled_from([EstimateMissing.RUNTIME, EstimateMissing.NONE])
)
def test_what_is_written_is_read(folder, jobs, missing):
    read_back, report = read(trace_in(folder, text_of(jobs)), estimate_missing=missing)

    filled = missing is EstimateMissing.RUNTIME
    assert [
        (job.submit, job.runtime, job.request[0].chunks, job.walltime) for job in read_back
    ] == [
        (submit, runtime, size, (runtime if filled else None) if limit is None else limit)
        for submit, runtime, size, limit in jobs
    ]
    assert [job.number for job in read_back] == list(range(len(jobs)))
    assert [job.name for job in read_back] == [str(number) for number in range(1, len(jobs) + 1)]
    assert (report.lines, report.kept) == (len(jobs), len(jobs))


@given(soup=line_soups(), select=st.sampled_from(Select))
def test_every_line_is_a_comment_a_job_or_counted_by_the_rule_that_dropped_it(folder, soup, select):
    path = trace_in(folder, "\n".join(line for _, line in soup) + "\n")

    jobs, report = read(path, select=select)

    expected = Counter(sort for sort, _ in soup)
    if select is Select.ALL:
        # A line of a part is then a job like another, and these come too early.
        expected["out_of_order"] += expected.pop("status", 0)
    assert report.comments == expected.pop("comment", 0)
    assert report.kept == len(jobs) == expected.pop("kept")
    assert report.dropped == {rule: count for rule, count in expected.items() if count}
    assert report.lines == report.comments + report.kept + sum(report.dropped.values())


@given(jobs=descriptions(), compression=st.sampled_from(sorted(COMPRESS)), data=st.data())
def test_a_damaged_file_raises_nothing_but_an_input_error(folder, jobs, compression, data):
    content = bytearray(COMPRESS[compression](text_of(jobs).encode()))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path = trace_in(folder, bytes(content))

    try:
        kept, report = read(path)
    except InputError as error:
        assert path.name in str(error)  # noqa: PT017 - it need not be raised
    else:
        assert report.kept == len(kept) > 0
        assert report.lines == report.comments + report.kept + sum(report.dropped.values())


@given(content=st.binary(max_size=200))
@example(content=b"\x1f\x8b")
@example(content=b"BZh9")
@example(content=b"\xfd7zXZ\x00")
def test_any_bytes_raise_nothing_but_an_input_error(folder, content):
    try:
        kept, _ = read(trace_in(folder, content))
    except InputError:
        kept = []

    assert all(job.runtime >= 0 for job in kept)


number_texts = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.decimals().map(str),
    st.sampled_from(
        ["1e400", "-1e-400", "sNaN", "0x10", "1e999999999", "+5", "--5", "9" * 5000, "."]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=4),
)


@given(fields=st.lists(number_texts, min_size=18, max_size=18))
def test_a_job_of_any_line_can_be_told_to_a_dispatcher(folder, fields):
    try:
        jobs, _ = read(trace_in(folder, " ".join(fields)))
    except InputError:
        jobs = []

    for job in jobs:
        assert 0 <= job.submit <= MOST_ON_THE_WIRE
        assert 0 <= job.runtime <= MOST_ON_THE_WIRE
        assert 0 <= job.walltime <= MOST_ON_THE_WIRE
        assert int(job.name) >= 0


@given(
    jobs=descriptions(),
    compression=st.sampled_from(sorted(COMPRESS)),
    limit=st.none() | st.integers(1, 15),
    cuts=st.tuples(st.integers(0, 12), st.integers(0, 12)),
)
def test_reopening_anywhere_gives_the_same_jobs_and_leaves_the_first_reader_alone(
    folder, jobs, compression, limit, cuts
):
    path = trace_in(folder, COMPRESS[compression](b"; Note: n\n" + text_of(jobs).encode()))
    expected, report = read(path, limit=limit)
    source = SwfSource(path, ReadingRules(limit=limit))
    first = [job for _ in range(cuts[0]) if (job := source.next()) is not None]
    position = source.position()
    further = [job for _ in range(cuts[1]) if (job := source.next()) is not None]

    twin = source.reopen(position)
    again = remaining(twin)

    rest = further + remaining(source)
    assert [plain(job) for job in again] == [plain(job) for job in rest]
    assert [plain(job) for job in first + rest] == [plain(job) for job in expected]
    assert twin.report == source.report == report
    assert twin.header == source.header == {"Note": "n"}


@given(jobs=descriptions(), before=st.integers(0, 12))
def test_one_position_can_be_reopened_often(folder, jobs, before):
    source = SwfSource(trace_in(folder, text_of(jobs)))
    for _ in range(before):
        source.next()
    position = source.position()

    first, second = remaining(source.reopen(position)), remaining(source.reopen(position))

    assert [plain(job) for job in first] == [plain(job) for job in second]
    assert [plain(job) for job in second] == [plain(job) for job in remaining(source)]


@given(jobs=descriptions(), limit=st.integers(1, 15))
def test_a_limit_gives_the_first_jobs_and_no_others(folder, jobs, limit):
    path = trace_in(folder, text_of(jobs))

    limited, report = read(path, limit=limit)

    everything, _ = read(path)
    assert [plain(job) for job in limited] == [plain(job) for job in everything[:limit]]
    assert report.kept == min(limit, len(jobs))


@given(
    jobs=descriptions(),
    factor=st.fractions(Fraction(1, 1000), 1000, max_denominator=10**6),
    cut=st.booleans(),
)
def test_an_estimate_is_the_factor_times_the_runtime_rounded_up(folder, jobs, factor, cut):
    estimate = parse_estimate(f"factor:{factor}")

    read_back, _ = read(trace_in(folder, text_of(jobs)), estimate=estimate, cut_at_walltime=cut)

    for job, (_, runtime, _, limit) in zip(read_back, jobs, strict=True):
        seen = min(runtime, limit) if cut and limit is not None else runtime
        assert job.runtime == seen
        assert job.walltime == math.ceil(factor * seen)


@given(jobs=descriptions(), factor=st.integers(1, 10**30))
def test_no_estimate_is_beyond_what_a_dispatcher_can_be_told(folder, jobs, factor):
    path = trace_in(folder, text_of(jobs))
    try:
        read_back, _ = read(path, estimate=parse_estimate(f"factor:{factor}"))
    except (InputError, UsageError):
        read_back = []

    assert all(job.walltime <= MOST_ON_THE_WIRE for job in read_back)


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("name", ["trace.swf", "trace.swf.gz", "trace.txt.bz2", "trace"])
def test_the_content_tells_how_a_file_is_compressed_not_its_name(tmp_path, compression, name):
    text = text_of([(0, SECOND, 4, None), (5 * SECOND, SECOND, 2, None)])
    path = trace_in(tmp_path, COMPRESS[compression](text.encode()), name)

    jobs, _ = read(path)

    assert [job.submit for job in jobs] == [0, 5 * SECOND]


@pytest.mark.parametrize("compression", ["gzip", "bz2", "xz"])
def test_a_compressed_file_that_is_cut_off_is_an_error_that_says_how_far_it_went(
    tmp_path, compression
):
    lines = [swf_line(n, n * 7919 % 10**6, n * 104729 % 9973, n % 64 + 1) for n in range(1, 2001)]
    content = COMPRESS[compression](
        "\n".join(sorted(lines, key=lambda x: int(x.split()[1]))).encode()
    )
    path = trace_in(tmp_path, content[:-100])

    message = refusal(path)

    assert str(path) in message
    assert "cut off" in message


@pytest.mark.parametrize("compression", ["gzip", "bz2", "xz"])
def test_a_compressed_file_that_is_damaged_is_an_error(tmp_path, compression):
    content = bytearray(COMPRESS[compression](text_of([(0, SECOND, 4, None)] * 99).encode()))
    content[len(content) // 2] ^= 0xFF
    path = trace_in(tmp_path, bytes(content))

    message = refusal(path)

    assert str(path) in message


def test_a_file_that_is_not_there_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"none\.swf: cannot be read"):
        SwfSource(tmp_path / "none.swf")


def test_a_directory_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        open_workload(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("; Version: 2.2\n\n", "none of its 2 lines is a job"),
        (swf_line(1, 0, -1, 4) + "\n1 2\n", r"no line is a job .*1 malformed, 1 no_runtime"),
    ],
)
def test_a_file_without_a_job_is_an_error_that_says_what_it_holds(tmp_path, content, said):
    path = trace_in(tmp_path, content)

    with pytest.raises(InputError, match=said):
        read(path)


def test_a_last_line_without_an_end_is_a_line(tmp_path):
    path = trace_in(tmp_path, swf_line(1, 0, 1, 1) + "\n" + swf_line(2, 0, 1, 1))

    jobs, _ = read(path)

    assert len(jobs) == 2


def test_lines_may_end_as_on_windows(tmp_path):
    path = trace_in(tmp_path, f"; Key: value\r\n\r\n{swf_line(1, 0, 1, 1)}\r\n")

    jobs, report = read(path)

    assert len(jobs) == 1
    assert (report.lines, report.comments) == (3, 2)


@pytest.mark.parametrize("tail", ["x", swf_line(9, 0, 1, 1)], ids=["noise", "a job's fields"])
def test_a_comment_is_one_line_however_long(tmp_path, tail):
    comment = ";" + " " * 65_535 + tail
    path = trace_in(tmp_path, f"{comment}\n{swf_line(1, 0, 1, 1)}\n")

    jobs, report = read(path)

    assert [job.name for job in jobs] == ["1"]
    assert (report.lines, report.comments, report.dropped) == (2, 1, {})


def test_a_malformed_line_is_one_line_however_long(tmp_path):
    path = trace_in(tmp_path, f"{'7 ' * 100_000}\n{swf_line(1, 0, 1, 1)}\n")

    jobs, report = read(path)

    assert len(jobs) == 1
    assert (report.lines, report.dropped) == (2, {"malformed": 1})


@pytest.mark.parametrize("width", [65_535, 65_536, 131_072])
def test_a_field_too_many_makes_a_line_malformed_however_far_out_it_stands(tmp_path, width):
    line = swf_line(9, 0, 1, 1).ljust(width) + "19th"
    path = trace_in(tmp_path, f"{line}\n{swf_line(1, 0, 1, 1)}\n")

    jobs, report = read(path)

    assert [job.name for job in jobs] == ["1"]
    assert (report.lines, report.dropped) == (2, {"malformed": 1})


def test_a_reader_that_has_ended_stays_at_its_end(tmp_path):
    source = SwfSource(write_swf(tmp_path / "t.swf", [(0, 1, 1)]))
    remaining(source)

    assert source.next() is None
    assert source.next() is None


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_reader_at_its_limit_leaves_no_file_open(tmp_path, compression):
    path = trace_in(tmp_path, COMPRESS[compression](text_of([(0, 1, 1, None)] * 3).encode()))
    source = SwfSource(path, ReadingRules(limit=2))

    remaining(source)

    assert source.closed


TROUBLE = {
    "a line dropped under strict rules": (swf_line(2, 0, -1, 1), True),
    "a malformed line under strict rules": ("2 0", True),
    "a job that stands twice": (swf_line(1, 0, 1, 1), False),
}


@pytest.mark.parametrize(("line", "strict"), TROUBLE.values(), ids=TROUBLE)
def test_a_reader_that_refuses_its_trace_leaves_no_file_open(tmp_path, line, strict):
    path = trace_in(tmp_path, f"{swf_line(1, 0, 1, 1)}\n{line}\n{swf_line(3, 0, 1, 1)}\n")
    with opened(path, strict=strict) as source:
        with pytest.raises(InputError):
            remaining(source)

        assert source.closed


def test_a_reader_of_a_file_that_is_cut_off_leaves_no_file_open(tmp_path):
    with opened(trace_in(tmp_path, gzip.compress(b"; comment\n" * 9)[:-9])) as source:
        with pytest.raises(InputError):
            remaining(source)

        assert source.closed


def test_a_position_of_something_else_is_refused(tmp_path):
    path = write_swf(tmp_path / "t.swf", [(0, 1, 1)])

    with opened(path) as source, pytest.raises(TypeError):
        source.reopen(0)


# ---------------------------------------------------------------------- header


def test_directives_before_the_first_job_are_the_header(tmp_path):
    lines = [
        ";   Version: 2.2",
        "; UnixStartTime:  1027839845",
        ";Note: a: b",
        "; Note: another",
        ";",
        "; no directive",
        swf_line(1, 0, 1, 1),
        "; Late: yes",
        swf_line(2, 0, 1, 1),
    ]
    source = SwfSource(trace_in(tmp_path, "\n".join(lines)))

    remaining(source)

    assert source.header == {"Version": "2.2", "UnixStartTime": "1027839845", "Note": "a: b"}
    assert source.report.comments == 7


def test_a_header_that_is_not_text_is_no_error(tmp_path):
    path = trace_in(tmp_path, b"; Installation: Universit\xe9\n" + swf_line(1, 0, 1, 1).encode())
    source = SwfSource(path)

    remaining(source)

    assert source.header["Installation"].startswith("Universit")


def test_times_are_the_trace_s_own(tmp_path):
    path = trace_in(tmp_path, "; UnixStartTime: 1000\n" + swf_line(1, 500, 1, 1))

    jobs, _ = read(path)

    assert jobs[0].submit == 500 * SECOND


# ---------------------------------------------------------------------- what is dropped


DROPPED = {
    "no_runtime": swf_line(2, 50, -1, 4),
    "no_processors": swf_line(2, 50, 5, -1),
    "malformed": "2 50",
    "out_of_order": swf_line(2, 9, 5, 4),
}


@pytest.mark.parametrize("rule", DROPPED)
def test_a_line_that_cannot_be_simulated_is_dropped_and_counted(tmp_path, rule):
    lines = [swf_line(1, 10, 5, 4), DROPPED[rule], swf_line(3, 60, 5, 4)]
    path = trace_in(tmp_path, "\n".join(lines))

    jobs, report = read(path)

    assert [job.name for job in jobs] == ["1", "3"]
    assert [job.number for job in jobs] == [0, 1]
    assert report.dropped == {rule: 1}


@pytest.mark.parametrize("rule", DROPPED)
def test_strict_makes_a_dropped_line_an_error_that_names_it(tmp_path, rule):
    lines = ["; Key: value", swf_line(1, 10, 5, 4), "", DROPPED[rule]]
    path = trace_in(tmp_path, "\n".join(lines))

    message = refusal(path, strict=True)

    assert f"{path}: line 4" in message


def test_strict_reads_a_trace_without_fault(tmp_path):
    path = trace_in(tmp_path, text_of([(0, 0, 1, None), (0, SECOND, 2, SECOND)]))

    jobs, _ = read(path, strict=True)

    assert len(jobs) == 2


@pytest.mark.parametrize("status", range(-1, 7))
def test_only_the_archive_s_selection_drops_lines_of_parts(tmp_path, status):
    path = trace_in(tmp_path, swf_line(1, 0, 5, 4) + "\n" + swf_line(2, 0, 5, 4, status=status))

    _, everything = read(path, select=Select.ALL)
    _, archive = read(path, select=Select.ARCHIVE)

    assert everything.dropped == {}
    assert archive.dropped == ({"status": 1} if status in {2, 3, 4} else {})


def test_a_strict_archive_selection_refuses_lines_of_parts(tmp_path):
    path = trace_in(tmp_path, swf_line(1, 0, 5, 4) + "\n" + swf_line(2, 0, 5, 4, status=3))

    message = refusal(path, strict=True, select=Select.ARCHIVE)

    assert "line 2" in message
    assert "status" in message


def test_a_dropped_line_does_not_move_the_clock(tmp_path):
    lines = [swf_line(1, 10, 5, 4), swf_line(2, 99, -1, 4), swf_line(3, 20, 5, 4)]
    path = trace_in(tmp_path, "\n".join(lines))

    jobs, report = read(path)

    assert [job.name for job in jobs] == ["1", "3"]
    assert report.dropped == {"no_runtime": 1}


def test_a_runtime_of_zero_is_a_runtime(tmp_path):
    job = one(tmp_path, swf_line(1, 0, 0, 4))

    assert job.runtime == 0


MALFORMED = {
    "too few fields": " ".join(swf_line(1, 0, 5, 4).split()[:-1]),
    "too many fields": swf_line(1, 0, 5, 4) + " 1",
    "a word for a number": swf_line("one", 0, 5, 4),
    "an underscore": swf_line(1, "1_0", 5, 4),
    "an underscore in a fraction": swf_line(1, "1_0.5", 5, 4),
    "hexadecimal": swf_line(1, "0x10", 5, 4),
    "infinity": swf_line(1, 0, "inf", 4),
    "not a number": swf_line(1, 0, "nan", 4),
    "a negative submission": swf_line(1, -5, 5, 4),
    "a negative job number": swf_line(-1, 0, 5, 4),
    "half a processor": swf_line(1, 0, 5, 1.5),
    "half a job number": swf_line(1.5, 0, 5, 4),
    "a submission beyond all time": swf_line(1, 2**53, 5, 4),
    "a runtime beyond all time": swf_line(1, 0, "1e300", 4),
    "a requested time beyond all time": swf_line(1, 0, 5, 4, 2**60),
    "processors beyond all machines": swf_line(1, 0, 5, 2**40),
    "a number beyond all exponents": swf_line(1, "1e999999999", 5, 4),
    "zero bytes": "\0" * 100,
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_a_line_of_the_format_is_malformed(tmp_path, line):
    path = trace_in(tmp_path, f"{line}\n{swf_line(2, 0, 5, 4)}\n")

    jobs, report = read(path)

    assert [job.name for job in jobs] == ["2"]
    assert report.dropped == {"malformed": 1}
    assert report.first_malformed.startswith("line 1: ")


def test_the_first_malformed_line_is_the_one_that_is_told(tmp_path):
    lines = [swf_line(1, 0, 5, 4), swf_line(2, "early", 5, 4), "2 3"]
    path = trace_in(tmp_path, "\n".join(lines))

    _, report = read(path)

    assert report.first_malformed.startswith("line 2: field 2, the submit time, is 'early'")


# ---------------------------------------------------------------------- job numbers


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_job_that_stands_twice_is_an_error_that_names_both_lines(tmp_path, compression):
    lines = ["; Note: n", swf_line(6, 0, 5, 4), swf_line(7, 0, -1, 4), swf_line(7, 1, 5, 4)]
    lines += ["garbage", swf_line(8, 2, 5, 4), swf_line(7, 3, 5, 4)]
    path = trace_in(tmp_path, COMPRESS[compression]("\n".join(lines).encode()))

    message = refusal(path)

    assert "job 7 stands in line 4 and again in line 7" in message


def test_the_parts_of_a_job_suggest_the_archive_s_selection(tmp_path):
    path = trace_in(tmp_path, swf_line(7, 0, 5, 4) + "\n" + swf_line(7, 1, 5, 4, status=2))

    message = refusal(path)
    jobs, _ = read(path, select=Select.ARCHIVE)

    assert "--select archive" in message
    assert len(jobs) == 1


@given(numbers=st.lists(st.integers(0, 2**70) | st.integers(0, 9000), unique=True, min_size=1))
def test_numbers_that_differ_are_different_jobs(folder, numbers):
    path = trace_in(folder, "\n".join(swf_line(number, 0, 5, 4) for number in numbers))

    jobs, _ = read(path)

    assert [job.name for job in jobs] == [str(number) for number in numbers]


# ---------------------------------------------------------------------- size, walltime, owner


@pytest.mark.parametrize(
    ("requested", "allocated", "size"), [(4, 8, 4), (4, -1, 4), (0, 8, 8), (-1, 8, 8), (-1, 1, 1)]
)
def test_a_job_has_the_size_it_asked_for_or_else_was_given(tmp_path, requested, allocated, size):
    job = one(tmp_path, swf_line(1, 0, 5, requested, allocated=allocated))

    assert [group.chunks for group in job.request] == [size]


@pytest.mark.parametrize(("requested", "allocated"), [(-1, -1), (0, 0), (0, -1), (-5, 0)])
def test_a_job_of_no_size_is_dropped(tmp_path, requested, allocated):
    lines = [swf_line(1, 0, 5, 1), swf_line(2, 0, 5, requested, allocated=allocated)]
    path = trace_in(tmp_path, "\n".join(lines))

    _, report = read(path)

    assert report.dropped == {"no_processors": 1}


ESTIMATES = [
    # estimate, kill, runtime, requested time -> runtime, walltime, where the walltime is from
    ("trace", False, 50, 30, (50, 30, "trace")),
    ("trace", True, 50, 30, (50, 30, "trace")),
    ("trace", False, 50, -1, (50, 50, "runtime")),
    ("trace", False, 50, 0, (50, 50, "runtime")),
    ("exact", False, 50, 30, (50, 50, "exact")),
    ("exact", True, 50, 30, (30, 30, "exact")),
    ("exact", True, 50, -1, (50, 50, "exact")),
    ("factor:2", False, 50, 30, (50, 100, "factor:2")),
    ("factor:2", True, 50, 30, (30, 60, "factor:2")),
    ("factor:0.5", False, 50, 80, (50, 25, "factor:0.5")),
]


@pytest.mark.parametrize(("estimate", "kill", "runtime", "requested", "expected"), ESTIMATES)
def test_walltimes_come_from_where_the_rules_say(
    tmp_path, estimate, kill, runtime, requested, expected
):
    line = swf_line(1, 0, runtime, 1, requested)

    job = one(tmp_path, line, estimate=parse_estimate(estimate), cut_at_walltime=kill)

    assert (job.runtime // SECOND, job.walltime // SECOND, job.walltime_source) == expected


def test_a_job_that_asks_for_no_time_may_be_without_limit(tmp_path):
    job = one(tmp_path, swf_line(1, 0, 50, 1), estimate_missing=EstimateMissing.NONE)

    assert job.walltime is None
    assert job.walltime_source == "none"


def test_an_exact_estimate_is_the_runtime_even_of_jobs_without_limit(tmp_path):
    rules = {"estimate": parse_estimate("exact"), "estimate_missing": EstimateMissing.NONE}

    job = one(tmp_path, swf_line(1, 0, 50, 1), cut_at_walltime=True, **rules)

    assert job.runtime == job.walltime == 50 * SECOND


@pytest.mark.parametrize("missing", [EstimateMissing.RUNTIME, EstimateMissing.NONE])
def test_walltimes_that_were_filled_in_are_counted(tmp_path, missing):
    path = write_swf(tmp_path / "t.swf", [(0, 5, 1), (0, 5, 1, 9), (0, 5, 1)])

    _, report = read(path, estimate_missing=missing)

    assert report.filled == {f"walltime_{missing.value}": 2}


@pytest.mark.parametrize("text", ["", "exakt", "factor", "factor:", "factor:0", "factor:-1", "factor:x", "factor:1/0", "trace:1", "factor:inf", "factor:nan"])  # fmt: skip  # noqa: E501
def test_what_is_no_estimate_is_wrong_usage(text):
    with pytest.raises(UsageError):
        parse_estimate(text)


@pytest.mark.parametrize("text", ["factor:2\n", "factor: 2", "factor:2 "])
def test_the_name_of_an_estimate_holds_no_space_or_line_end(text):
    try:
        name = parse_estimate(text).name
    except UsageError:
        name = ""

    assert name.split() in ([name], [])


def test_the_last_column_before_a_limit_counts_jobs_not_lines(tmp_path):
    lines = ["; a", "bad", swf_line(1, 0, -1, 1), swf_line(2, 0, 1, 1), "bad", swf_line(3, 0, 1, 1)]
    path = trace_in(tmp_path, "\n".join([*lines, "bad", swf_line(4, 0, 1, 1)]))

    jobs, report = read(path, limit=2)

    assert [job.name for job in jobs] == ["2", "3"]
    assert report.lines == 6
    assert report.dropped == {"malformed": 2, "no_runtime": 1}


def test_a_processor_may_be_a_node_of_its_own(tmp_path):
    job = one(tmp_path, swf_line(1, 0, 5, 4), per_node={"memory": 9, "core": 2})

    (group,) = job.request
    assert (group.chunks, group.shape.exclusive) == (4, True)
    assert group.shape.per_chunk == (("core", 2), ("memory", 9))


def test_a_processor_may_be_a_chunk_that_shares_its_node(tmp_path):
    rules = {"request": RequestMode.PROCESSORS, "per_node": {"core": 8}}

    job = one(tmp_path, swf_line(1, 0, 5, 4), per_processor={"core": 2}, **rules)

    (group,) = job.request
    assert (group.chunks, group.shape.exclusive) == (4, False)
    assert group.shape.per_chunk == (("core", 2),)


def test_owners_are_text_and_missing_ones_are_none(tmp_path):
    fields = "5 0 -1 9 4 -1 -1 4 9 -1 1 0 12 -1 3 -1 -1 -1"

    job = one(tmp_path, fields)

    assert (job.user, job.group, job.queue, job.partition) == ("0", "12", "3", None)


def test_nothing_known_only_afterwards_reaches_a_job(tmp_path):
    job = one(tmp_path, swf_line(1, 0, 5, 4, 9))

    for secret in ("777777", "888888", "999999"):
        assert secret not in repr(plain(job))


def test_fields_without_effect_are_counted(tmp_path):
    lines = [
        "1 0 -1 9 4 -1 -1 4 9 -1 1 1 1 1 1 1 -1 -1",
        "2 0 -1 9 4 -1 -1 4 9 -1 1 1 1 1 1 1 1 60",
    ]
    path = trace_in(tmp_path, "\n".join(lines))

    _, report = read(path)

    assert report.ignored == {"preceding_job": 1, "think_time": 1}


@pytest.mark.parametrize("text", ["1.5", "1.50", "15e-1", "1.5000004", "+1.5"])
def test_fractions_of_a_second_are_read_to_the_microsecond(tmp_path, text):
    job = one(tmp_path, swf_line(1, text, text, 4, text))

    assert {job.submit, job.runtime, job.walltime} == {int(Decimal("1.5") * SECOND)}


# ---------------------------------------------------------------------- the archive


@pytest.mark.shared
@pytest.mark.long
@pytest.mark.parametrize("name", KEPT_IN_ARCHIVE)
def test_the_archive_s_selection_keeps_what_the_archive_counts(name):
    jobs = 0
    source = SwfSource(shared("traces", f"{name}.swf.gz"), ReadingRules(select=Select.ARCHIVE))

    while source.next() is not None:
        jobs += 1

    report = source.report
    assert jobs == report.kept == KEPT_IN_ARCHIVE[name]
    assert report.lines == report.comments + report.kept + sum(report.dropped.values())
    assert "malformed" not in report.dropped
