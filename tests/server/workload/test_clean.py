"""Cleaning rules: what each drops, in the words of the archive's headers."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley_server.errors import InputError, UsageError
from parley_server.workload.clean import FIELD_NAMES, Clock, header_filters, parse_rule
from parley_server.workload.entry import Entry
from parley_server.workload.flurry import FlurryDetector, Thresholds
from parley_server.workload.formats import WorkloadFile
from parley_server.workload.report import ReadReport
from parley_server.workload.rules import ReadingRules, parse_zero_runtime
from tests.support import SECOND, shared, swf_line

DAY = 86_400 * SECOND


def entry(**values):
    base = {
        "name": 1,
        "submit": 0,
        "runtime": SECOND,
        "allocated": 4,
        "requested": 4,
        "walltime": 60 * SECOND,
        "memory": -1,
        "status": 1,
        "user": "3",
        "group": None,
        "application": "1",
        "queue": None,
        "partition": None,
        "preceding": -1,
        "think": -1,
        "wait": b"5",
        "cpu": b"-1",
        "used_memory": b"-1",
    }
    return Entry(**{**base, **values})


RULES = [
    ("user=3 and proc=4 and app=1", {}, True),
    ("user=3 and proc=1 and app=1", {}, False),
    ("user=3 and proc=1 and app=1 (24025 jobs removed)", {"requested": 1}, True),
    ("user=60 and (job>=254200 and job<=271542)", {"user": "60", "name": 254200}, True),
    ("user=60 and (job>=254200 and job<=271542)", {"user": "60", "name": 271543}, False),
    ("job<=14", {"name": 14}, True),
    ("status=0,5", {"status": 5}, True),
    ("status=-1", {"status": -1}, True),
    ("status!=1", {}, False),
    ("runtime<1m", {"runtime": 59 * SECOND}, True),
    ("runtime<1m", {"runtime": 60 * SECOND}, False),
    ("runtime=0 or walltime<=0", {"walltime": -SECOND}, True),
    ("not (user=3 or user=4)", {"user": "5"}, True),
    ("user=ada", {"user": "ada"}, True),
    ('user="ada l."', {"user": "ada l."}, True),
    ("user=-1", {"user": None}, True),
    ("group!=1", {"group": None}, True),
    ("user>2", {"user": "ada"}, False),
    ("wait>4.5", {}, True),
    ("queue=1", {"queue": "1"}, True),
    ("keep user=3", {}, False),
    ("keep user=4", {}, True),
    ("drop user=3", {}, True),
    ("window 1d 2d", {"submit": DAY}, False),
    ("window 1d 2d", {"submit": 2 * DAY}, True),
    ("submit<=2012-02-03 00:00:00", {"submit": 0}, True),
    ("submit>2012-02-03T01:00", {"submit": DAY * 400}, True),
    ("USER=3 AND Proc=4", {}, True),
]


@pytest.mark.parametrize(("text", "values", "expected"), RULES)
def test_a_rule_drops_the_lines_for_which_it_holds(text, values, expected):
    rule = parse_rule(text, Clock(1296571124, "Europe/Paris"))

    assert rule.drops(entry(**values)) is expected


def test_a_date_is_local_to_the_trace():
    rule = parse_rule("submit<=2012-02-03 00:00:00", Clock(1296571124, "Europe/Paris"))
    midnight = (1328223600 - 1296571124) * SECOND

    assert rule.drops(entry(submit=midnight))
    assert not rule.drops(entry(submit=midnight + 1))


@pytest.mark.parametrize(
    "text",
    ["", " ", "user", "user=", "=3", "user=3 and", "(user=3", "user=3)", "usr=3", "user~3",
     "user=3 user=4", "runtime=x", "window 1", "window 2 1", "window a b", "sample 0", "sample 2",
     "sample x", "keep", "submit<2012-13-01", "(" * 200 + "user=3" + ")" * 200, "status=1h"],
)  # fmt: skip
def test_what_is_no_rule_is_wrong_usage_in_one_line(text):
    with pytest.raises(UsageError) as caught:
        parse_rule(text)

    assert "\n" not in str(caught.value)


def test_a_misspelt_field_is_told_with_the_likely_one():
    with pytest.raises(UsageError, match="did you mean 'status'"):
        parse_rule("statsu=1")


@given(
    text=st.text(max_size=30)
    | st.lists(
        st.sampled_from([*FIELD_NAMES, "and", "or", "not", "(", ")", "=", "<=", "3", "1d", ","]),
        max_size=8,
    ).map(" ".join)
)
@example("user=3,")
def test_any_text_is_a_rule_or_wrong_usage(text):
    try:
        rule = parse_rule(text)
    except UsageError:
        return

    assert rule.drops(entry()) in (True, False)


@given(share=st.sampled_from(["0.1", "0.5", "0.9"]), seed=st.integers(0, 99))
def test_a_sample_is_the_same_every_time_and_about_its_share(share, seed):
    rule = parse_rule(f"sample {share} seed {seed}")

    kept = [not rule.drops(entry(name=name)) for name in range(2000)]

    again = parse_rule(f"sample {share}", seed=seed)
    assert [not again.drops(entry(name=name)) for name in range(2000)] == kept
    assert abs(sum(kept) / 2000 - float(share)) < 0.06


def test_rules_are_tried_in_order_and_every_line_is_counted_once(tmp_path):
    path = tmp_path / "t.swf"
    path.write_text("".join(swf_line(n, n, n % 3, 1, user=n % 4) + "\n" for n in range(1, 41)))
    rules = ReadingRules(drop=("user=0", "user=0,1", "runtime=0"))
    source = WorkloadFile(path).source(rules)

    kept = list(iter(source.next, None))

    assert source.report.dropped == {"user=0": 10, "user=0,1": 10, "runtime=0": 7}
    assert len(kept) == 13


@pytest.mark.parametrize(
    ("rule", "runtimes", "dropped", "filled"),
    [
        ("keep", [0, 5], {}, {}),
        ("drop", [5], {"zero_runtime": 1}, {}),
        ("raise", [1, 5], {}, {"zero_runtime": 1}),
        ("raise:10s", [10, 5], {}, {"zero_runtime": 1}),
    ],
)
def test_runtimes_of_zero_are_kept_dropped_or_raised(tmp_path, rule, runtimes, dropped, filled):
    path = tmp_path / "t.swf"
    path.write_text(swf_line(1, 0, 0, 1, 9) + "\n" + swf_line(2, 0, 5, 1, 9))
    source = WorkloadFile(path).source(ReadingRules(zero_runtime=parse_zero_runtime(rule)))

    jobs = list(iter(source.next, None))

    assert [job.runtime // SECOND for job in jobs] == runtimes
    assert (source.report.dropped, source.report.filled) == (dropped, filled)


# ---------------------------------------------------------------------- headers


def test_the_filters_of_a_header_are_rules():
    notes = [
        ("Note", "THIS IS A CLEANED VERSION OF THE LOG!"),
        ("", "The filters used to produce it were"),
        ("", "submit<=2012-02-03 00:00:00 (272392 jobs removed)"),
        ("submit<=2012-02-03 00", "00:00 (3 jobs removed)"),
        ("", "user=204 and (job>=274118 and job<=303564) (28878 jobs removed)"),
    ]

    assert header_filters(notes) == [
        "submit<=2012-02-03 00:00:00",
        "submit<=2012-02-03 00:00:00",
        "user=204 and (job>=274118 and job<=303564)",
    ]


def test_a_header_without_filters_is_an_input_error():
    with pytest.raises(InputError, match="names no filters"):
        header_filters([("Note", "nothing")])


ARCHIVE = {
    "CEA-Curie-2011-2.1-cln": 5,
    "HPC2N-2002-2.2-cln": 4,
    "KTH-SP2-1996-2.1-cln": 1,
    "LANL-CM5-1994-4.1-cln": 3,
    "LLNL-Atlas-2006-2.1-cln": 6,
    "NASA-iPSC-1993-3.1-cln": 1,
    "SDSC-SP2-1998-4.2-cln": 5,
}


@pytest.mark.shared
@pytest.mark.parametrize("name", ARCHIVE)
def test_the_archive_s_own_filters_are_understood_and_drop_nothing_of_what_they_left(name):
    reader = WorkloadFile(shared("traces", f"{name}.swf.gz")).open(ReadReport())
    first = reader.read()
    filters = header_filters(reader.notes)
    rules = [parse_rule(text, Clock.of(reader.header)) for text in filters]

    # Some thousands of lines are enough: the flurries lay anywhere.
    seen = [first, *(reader.read() for _ in range(5000))]
    reader.close()

    assert len(rules) == ARCHIVE[name]
    assert not any(rule.drops(line) for rule in rules for line in seen)


# ---------------------------------------------------------------------- flurries


def weeks_of_users(flurry=None, *, weeks=6, users=8):
    """Return entries of an even workload, with a flurry of (user, week, jobs) in it."""
    draw = random.Random(3)
    entries = []
    for week in range(weeks):
        for user in range(users):
            entries += [
                entry(user=str(user), submit=week * 7 * DAY + draw.randrange(7 * DAY))
                for _ in range(draw.randrange(5, 20))
            ]
    if flurry is not None:
        user, week, jobs = flurry
        entries += [
            entry(user=user, submit=week * 7 * DAY + draw.randrange(DAY), requested=1)
            for _ in range(jobs)
        ]
    return sorted(entries, key=lambda line: line.submit)


def found_in(entries, thresholds=None):
    detector = FlurryDetector(thresholds)
    for line in entries:
        detector.add(line)
    return detector.flurries()


def test_an_even_workload_has_no_flurry():
    assert found_in(weeks_of_users()) == []


def test_a_flurry_is_found_and_its_rule_drops_it():
    entries = weeks_of_users(("5", 3, 900))

    (flurry,) = found_in(entries)

    assert flurry.user == "5"
    assert flurry.jobs >= 900
    rule = parse_rule(flurry.rule)
    assert 900 <= sum(rule.drops(line) for line in entries) == flurry.jobs


@pytest.mark.parametrize(
    "thresholds",
    [Thresholds(share=0.99), Thresholds(factor=200), Thresholds(minimum=2000)],
    ids=["share", "factor", "minimum"],
)
def test_every_threshold_has_to_be_passed(thresholds):
    assert found_in(weeks_of_users(("5", 3, 900)), thresholds) == []
