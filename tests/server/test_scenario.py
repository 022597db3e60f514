"""Scenarios: what is not said has a default, flags win, and what is written repeats the run."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from parley_client.policies import POLICIES
from parley_server import run
from parley_server.api import load_scenario
from parley_server.engine import OnOverrun
from parley_server.errors import InputError, UsageError
from parley_server.scenario import read_scenario, scenario_of
from parley_server.workload import EstimateMissing, ReadingRules, RequestMode, Select
from tests.support import PROJECT, SECOND, rows, write_swf

# ---------------------------------------------------------------------- scenarios to read

amounts = st.dictionaries(st.text(max_size=5), st.integers(1, 2**40 - 1), min_size=1, max_size=3)
words = st.text(max_size=8)
arguments = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)

group_tables = st.fixed_dictionaries(
    {"nodes": st.integers(1, 1000), "per_node": amounts}, optional={"name": words}
)
platform_tables = st.fixed_dictionaries(
    {"nodes": st.integers(1, 10**7)}, optional={"per_node": amounts}
) | st.fixed_dictionaries(
    {
        "groups": st.lists(
            group_tables,
            min_size=1,
            max_size=3,
            unique_by=lambda group: group.get("name", "nodes"),
        )
    }
)
request_tables = st.just({"request": "nodes"}) | st.fixed_dictionaries(
    {"request": st.just("processors")}, optional={"per_processor": amounts}
)
workload_tables = st.builds(
    lambda request, others: {**request, **others},
    st.just({}) | request_tables,
    st.fixed_dictionaries(
        {},
        optional={
            "select": st.sampled_from(["all", "archive"]),
            "estimate": st.sampled_from(
                ["trace", "exact", "factor:2", "factor:1.50", "factor:2/3"]
            ),
            "estimate_missing": st.sampled_from(
                ["runtime", "none", "maximum", "maximum:90m", "factor:3", "model:1.50"]
            ),
            "limit": st.integers(1, 2**70),
            "size": st.sampled_from(["requested", "allocated"]),
            "drop": st.lists(st.sampled_from(["user=3", "keep  proc<9", "sample 0.5"]), max_size=2),
            "zero_runtime": st.sampled_from(["keep", "drop", "raise", "raise:1m"]),
            "reorder": st.sampled_from(["as-is", "window:7", "sort"]),
            "origin": st.sampled_from([0, 5, "2d", "1.5s"]),
            "memory": st.just("ignore"),
            "memory_unit": st.sampled_from(["bytes", "kilobytes", "megabytes"]),
        },
    ),
)
run_tables = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "on_overrun": st.sampled_from(["run", "kill"]),
        "seed": st.integers(0, 2**53 - 1),
        "deadline": st.sampled_from([1, "90", "1.5s", "5m", "4h", "2d", "1us"]),
        "strict": st.booleans(),
    },
)
dispatcher_tables = st.fixed_dictionaries(
    {}, optional={"policy": words, "allocator": words, "external": st.booleans()}
) | st.fixed_dictionaries({"command": st.lists(arguments, min_size=1, max_size=3)})

settings_tables = st.fixed_dictionaries(
    {"platform": platform_tables, "workload": workload_tables},
    optional={"run": run_tables, "dispatcher": dispatcher_tables},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenarios")
    write_swf(folder / "trace.swf", [(0, 5, 1)])
    return folder


@pytest.fixture
def trace(tmp_path):
    return write_swf(tmp_path / "trace.swf", [(0, 5, 1), (3, 5, 2)])


def written(folder, tables, name="scenario.toml"):
    """Write a scenario and return its file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tables) if name.endswith(".json") else tomli_w.dumps(tables))
    return path


def small(swf, **tables):
    """Return the tables of a scenario of few words; further ones are merged in."""
    base = {"platform": {"nodes": 4}, "workload": {"swf": str(swf)}}
    return {**base, **{name: {**base.get(name, {}), **table} for name, table in tables.items()}}


def refusal(tables):
    """Return what is said of settings that make no scenario."""
    with pytest.raises(UsageError) as caught:
        scenario_of(tables)
    return str(caught.value)


def everything_about(scenario):
    """Return all of a scenario that its run hangs on."""
    platform = scenario.describe_platform()
    return {
        "digest": scenario.digest(platform),
        "rules": scenario.rules(platform),
        "reading": scenario.reading_rules(platform),
        "groups": platform.node_groups(),
        "names": (scenario.name, scenario.workload_name),
        "overrun": scenario.run.on_overrun,
        "seed": scenario.run.seed,
        "deadline": scenario.deadline_us,
        "strict": scenario.run.strict,
        "dispatcher": (scenario.policy, scenario.allocator, scenario.dispatcher.external),
        "command": scenario.dispatcher.command,
    }


# ---------------------------------------------------------------------- laws


@given(tables=settings_tables)
def test_a_resolved_scenario_repeats_the_run(folder, tables):
    workload = {**tables["workload"], "swf": "trace.swf"}
    scenario = read_scenario(written(folder, {**tables, "workload": workload}))
    resolved = folder / "elsewhere" / "scenario.toml"
    resolved.parent.mkdir(exist_ok=True)
    resolved.write_text(scenario.resolved(scenario.describe_platform()), encoding="utf-8")

    again = read_scenario(resolved)

    assert everything_about(again) == everything_about(scenario)
    assert again.resolved(again.describe_platform()) == resolved.read_text(encoding="utf-8")


@given(tables=settings_tables)
def test_toml_and_json_say_the_same(folder, tables):
    full = {**tables, "workload": {**tables["workload"], "swf": "trace.swf"}}

    from_toml = read_scenario(written(folder, full))
    from_json = read_scenario(written(folder, full, "scenario.json"))

    assert from_toml == from_json


@given(file=settings_tables, flags=settings_tables)
@example(
    file={"platform": {"nodes": 1}, "workload": {}, "dispatcher": {"command": ["./mine"]}},
    flags={"platform": {"nodes": 1}, "workload": {}, "dispatcher": {"policy": ""}},
)
def test_flags_win_over_the_file(folder, file, flags):
    in_file = {**file, "workload": {**file["workload"], "swf": "trace.swf"}}
    path = written(folder, in_file)

    scenario = read_scenario(path, flags)

    given_by_flags = scenario.model_dump(mode="json", exclude_unset=True)
    alone = scenario_of({**flags, "workload": {"swf": "x", **flags["workload"]}})
    for table, settings in alone.model_dump(mode="json", exclude_unset=True).items():
        for key in flags.get(table, {}):
            assert given_by_flags[table][key] == settings[key]


@given(tables=settings_tables)
def test_flags_that_were_not_given_change_nothing(folder, tables):
    path = written(folder, {**tables, "workload": {**tables["workload"], "swf": "trace.swf"}})
    keys = {
        "platform": ["nodes", "per_node", "file"],
        "workload": ["swf", "request", "limit"],
        "run": ["seed", "deadline"],
        "dispatcher": ["policy", "allocator", "external", "command"],
    }

    scenario = read_scenario(path, {table: dict.fromkeys(names) for table, names in keys.items()})

    assert scenario == read_scenario(path)


# ---------------------------------------------------------------------- defaults


def test_everything_but_trace_and_machine_has_its_default(trace):
    scenario = scenario_of(small(trace))

    platform = scenario.describe_platform()
    assert [(group.count, group.capacity) for group in platform.node_groups()] == [(4, {"core": 1})]
    assert scenario.reading_rules(platform) == ReadingRules(
        request=RequestMode.NODES,
        select=Select.ALL,
        estimate_missing=EstimateMissing.RUNTIME,
        per_processor={"core": 1},
        per_node={"core": 1},
        cut_at_walltime=False,
        limit=None,
        strict=False,
    )
    assert scenario.reading_rules(platform).estimate.name == "trace"
    assert scenario.run.on_overrun is OnOverrun.RUN
    assert scenario.run.seed == 0
    assert scenario.deadline_us == 60_000_000
    assert (scenario.policy, scenario.allocator) == ("fifo", "first-fit")
    assert not scenario.dispatcher.external
    assert scenario.dispatcher.command is None
    assert scenario.results.out is None


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("kth.swf", "kth"),
        ("kth.swf.gz", "kth"),
        ("kth.swf.bz2", "kth"),
        ("kth.swf.xz", "kth"),
        ("deep/kth.swf", "kth"),
        ("kth.2.1-cln.swf", "kth.2.1-cln"),
        ("kth", "kth"),
        (".swf", "workload"),
    ],
)
def test_a_scenario_is_called_like_its_trace(file, name):
    assert scenario_of(small(file)).name == name


def test_a_name_of_its_own_wins(trace):
    scenario = scenario_of(small(trace, run={"name": "Monday"}))

    assert (scenario.name, scenario.workload_name) == ("Monday", "trace")


# ---------------------------------------------------------------------- files and flags


def test_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    write_swf(tmp_path / "a" / "t.swf", [(0, 5, 1)])
    group = {"nodes": 3, "per_node": {"core": 1}}
    written(tmp_path, {"groups": [group]}, "a/machine.toml")
    tables = {
        "platform": {"file": "machine.toml"},
        "workload": {"swf": "t.swf"},
        "results": {"out": "out"},
    }
    written(tmp_path, tables, "a/s.toml")
    monkeypatch.chdir(tmp_path)

    scenario = read_scenario(Path("a/s.toml"))

    assert Path(scenario.workload.swf).resolve() == tmp_path / "a" / "t.swf"
    assert Path(scenario.results.out).resolve() == tmp_path / "a" / "out"
    assert scenario.describe_platform().node_count == 3


def test_absolute_paths_are_left_alone(tmp_path, trace):
    path = written(tmp_path / "deep" / "er", small(trace))

    scenario = read_scenario(path)

    assert scenario.workload.swf == str(trace)


def test_paths_of_flags_are_relative_to_where_the_user_is(tmp_path, trace):
    path = written(tmp_path / "deep", small("other.swf"))

    scenario = read_scenario(path, {"workload": {"swf": "mine.swf"}})

    assert scenario.workload.swf == "mine.swf"


def test_a_way_up_leads_where_the_file_system_says(tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    write_swf(tmp_path / "real" / "t.swf", [(0, 5, 1)])
    written(tmp_path, small("../t.swf"), "real/deep/s.toml")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")

    scenario = read_scenario(tmp_path / "link" / "s.toml")

    assert Path(scenario.workload.swf).is_file()


def test_a_trace_by_another_name_keeps_that_name_when_the_run_is_repeated(tmp_path, trace):
    (tmp_path / "alias.swf").symlink_to(trace)
    scenario = scenario_of(small(tmp_path / "alias.swf"))
    text = scenario.resolved(scenario.describe_platform())
    (tmp_path / "resolved.toml").write_text(text)

    again = read_scenario(tmp_path / "resolved.toml")

    assert again.workload_name == scenario.workload_name == "alias"


@pytest.mark.parametrize(
    ("flag", "gone"),
    [
        ({"nodes": 9}, {"groups": [{"nodes": 1, "per_node": {"core": 1}}]}),
        ({"nodes": 9}, {"file": "machine.toml"}),
        ({"file": "other.toml"}, {"nodes": 3, "per_node": {"core": 2}}),
    ],
)
@pytest.mark.parametrize("as_object", [False, True], ids=["file", "scenario"])
def test_a_flag_for_the_machine_puts_another_machine_out(tmp_path, trace, flag, gone, as_object):
    path = written(tmp_path, {**small(trace), "platform": gone})
    start = read_scenario(path) if as_object else path

    scenario = load_scenario(start, {"platform": flag})

    assert scenario.platform.model_dump(exclude_none=True) == flag


def test_a_flag_for_its_nodes_keeps_what_the_file_says_of_them(tmp_path, trace):
    path = written(tmp_path, small(trace, platform={"per_node": {"core": 8}}))

    scenario = read_scenario(path, {"platform": {"nodes": 9}})

    assert scenario.platform.model_dump(exclude_none=True) == {"nodes": 9, "per_node": {"core": 8}}


def test_a_command_puts_a_policy_out_and_a_policy_a_command(tmp_path, trace):
    policy = written(tmp_path, small(trace, dispatcher={"policy": "easy", "external": True}))
    command = written(tmp_path, small(trace, dispatcher={"command": ["./mine"]}), "c.toml")

    by_command = read_scenario(policy, {"dispatcher": {"command": ["./yours"]}}).dispatcher
    by_policy = read_scenario(command, {"dispatcher": {"policy": "easy"}}).dispatcher

    assert by_command.model_dump(exclude_unset=True) == {"command": ["./yours"]}
    assert by_policy.model_dump(exclude_unset=True) == {"policy": "easy"}


def test_not_wanting_a_child_process_does_not_put_a_command_out(tmp_path, trace):
    path = written(tmp_path, small(trace, dispatcher={"command": ["./mine"]}))

    scenario = read_scenario(path, {"dispatcher": {"external": False}})

    assert scenario.dispatcher.command == ["./mine"]


@pytest.mark.parametrize("content", [b"[platform", b"\xff", b"platform = " + b"[" * 100_000])
def test_a_file_that_cannot_be_read_is_an_input_error_that_names_it(tmp_path, content):
    (tmp_path / "s.toml").write_bytes(content)

    with pytest.raises(InputError, match=r"s\.toml"):
        read_scenario(tmp_path / "s.toml")


# ---------------------------------------------------------------------- wrong settings


GROUP = {"nodes": 1, "per_node": {"core": 1}}

UNKNOWN = {
    "run.sed": ({"run": {"sed": 1}}, "did you mean 'seed'?", "deadline, name"),
    "platform.node": ({"platform": {"node": 4}}, "did you mean 'nodes'?", "file, groups"),
    "workload.limits": ({"workload": {"limits": 4}}, "did you mean 'limit'?", "estimate"),
    "workload.swff": ({"workload": {"swff": "x", "swf": None}}, "did you mean 'swf'?", "estimate"),
    "dispatcher.polcy": ({"dispatcher": {"polcy": "x"}}, "did you mean 'policy'?", "allocator"),
    "results.outt": ({"results": {"outt": "x"}}, "did you mean 'out'?", "out"),
    "disptcher": ({"disptcher": {"policy": "x"}}, "did you mean 'dispatcher'?", "platform"),
    "platfrom": ({"platfrom": {"nodes": 4}, "platform": None}, "did you mean 'platform'?", "run"),
    "run.zzz": ({"run": {"zzz": 1}}, "unknown key; there are:", "seed"),
    "platform.groups.0.nam": (
        {"platform": {"nodes": None, "groups": [{**GROUP, "nam": "x"}]}},
        "did you mean 'name'?",
        "per_node",
    ),
}  # fmt: skip


def without_nothing(tables):
    """Return tables without what is None."""
    if not isinstance(tables, dict):
        return tables
    return {key: without_nothing(table) for key, table in tables.items() if table is not None}


def merged(tables, changes):
    """Return the tables with those of the changes merged in."""
    both = {**tables, **changes}
    for name in tables.keys() & changes.keys():
        if isinstance(changes[name], dict):
            both[name] = {**tables[name], **changes[name]}
    return without_nothing(both)


@pytest.mark.parametrize(("path", "case"), UNKNOWN.items(), ids=UNKNOWN)
def test_an_unknown_key_is_refused_with_the_likely_one_and_those_there_are(trace, path, case):
    changes, hint, known = case

    message = refusal(merged(small(trace), changes))

    assert f"{path}: unknown key" in message
    assert hint in message
    assert known in message
    assert "\n" not in message


WRONG = {
    "no machine": {"platform": {"nodes": None}},
    "two machines": {"platform": {"file": "m.toml"}},
    "amounts without nodes": {"platform": {"nodes": None, "file": "m", "per_node": {"core": 1}}},
    "no nodes": {"platform": {"nodes": 0}},
    "nodes in words": {"platform": {"nodes": "4"}},
    "true nodes": {"platform": {"nodes": True}},
    "no trace": {"workload": {"swf": None}},
    "a request of its own": {"workload": {"request": "cores"}},
    "amounts of whole nodes": {"workload": {"per_processor": {"core": 2}}},
    "no amounts": {"workload": {"request": "processors", "per_processor": {}}},
    "an estimate of its own": {"workload": {"estimate": "guess"}},
    "a limit of none": {"workload": {"limit": 0}},
    "half a limit": {"workload": {"limit": 1.5}},
    "a negative seed": {"run": {"seed": -1}},
    "a seed beyond the wire": {"run": {"seed": 2**53}},
    "a deadline of nothing": {"run": {"deadline": "0s"}},
    "a negative deadline": {"run": {"deadline": -5}},
    "a deadline in words": {"run": {"deadline": "soon"}},
    "a deadline beyond the wire": {"run": {"deadline": f"{2**53}s"}},
    "strict in words": {"run": {"strict": "yes"}},
    "kill in capitals": {"run": {"on_overrun": "KILL"}},
    "no command": {"dispatcher": {"command": []}},
    "a command and a policy": {"dispatcher": {"command": ["x"], "policy": "fifo"}},
    "a command and an allocator": {"dispatcher": {"command": ["x"], "allocator": "first-fit"}},
    "a command that is external": {"dispatcher": {"command": ["x"], "external": True}},
    "a table that is none": {"run": 5},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_wrong_setting_is_wrong_usage_in_one_line(trace, changes):
    path = written(trace.parent, merged(small(trace), changes))

    with pytest.raises(UsageError) as caught:
        read_scenario(path)

    assert "scenario.toml: " in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- the digest


CHANGES = {
    "nodes": {"platform": {"nodes": 5}},
    "amounts": {"platform": {"per_node": {"core": 2}}},
    "request": {"workload": {"request": "processors"}},
    "per_processor": {"workload": {"request": "processors", "per_processor": {"core": 2}}},
    "select": {"workload": {"select": "archive"}},
    "estimate": {"workload": {"estimate": "exact"}},
    "estimate_missing": {"workload": {"estimate_missing": "none"}},
    "limit": {"workload": {"limit": 1}},
    "on_overrun": {"run": {"on_overrun": "kill"}},
    "seed": {"run": {"seed": 1}},
    "strict": {"run": {"strict": True}},
}


def digest_of(tables):
    """Return the digest of a scenario."""
    scenario = scenario_of(tables)
    return scenario.digest(scenario.describe_platform())


def test_whatever_changes_the_simulation_changes_the_digest(trace):
    digests = [digest_of(merged(small(trace), changes)) for changes in CHANGES.values()]

    assert len({digest_of(small(trace)), *digests}) == len(CHANGES) + 1


def test_another_trace_has_another_digest(trace, tmp_path):
    other = write_swf(tmp_path / "other.swf", [(0, 5, 1), (3, 5, 3)])

    assert digest_of(small(other)) != digest_of(small(trace))


def test_what_does_not_change_the_simulation_leaves_the_digest(trace, tmp_path):
    copy = tmp_path / "copy.swf"
    copy.write_bytes(trace.read_bytes())
    group = {"name": "named", "nodes": 4, "per_node": {"core": 1}}
    same = [
        small(copy),
        {**small(trace), "platform": {"groups": [group]}},
        small(trace, run={"name": "Monday", "deadline": "5m"}),
        small(trace, dispatcher={"policy": "easy"}),
        small(trace, workload={"select": "all", "estimate": "trace"}),
    ]

    assert {digest_of(tables) for tables in same} == {digest_of(small(trace))}


@pytest.mark.parametrize(
    ("one", "other"), [("factor:2", "factor:2.0"), ("factor:1/2", "factor:0.5")]
)
def test_one_factor_has_one_digest_however_it_is_written(trace, one, other):
    by_one = digest_of(small(trace, workload={"estimate": one}))
    by_other = digest_of(small(trace, workload={"estimate": other}))

    assert by_one == by_other


# ---------------------------------------------------------------------- runs


@pytest.mark.parametrize("kill", [False, True])
def test_a_run_s_own_scenario_repeats_its_jobs(tmp_path, kill):
    trace = write_swf(tmp_path / "t.swf", [(0, 50, 2, 20), (1, 5, 4, 9), (2.5, 9, 1), (2.5, 0, 3)])
    rules = {"on_overrun": "kill"} if kill else {"select": "archive", "limit": 3}
    first = run(swf=trace, nodes=4, policy="fifo", out=tmp_path / "first", **rules)

    second = run(first.files.scenario, out=tmp_path / "second")

    assert second.files.jobs.read_bytes() == first.files.jobs.read_bytes()
    assert second.files.decisions.read_bytes() == first.files.decisions.read_bytes()
    assert second.summary["scenario"] == first.summary["scenario"]
    assert second.files.scenario.read_bytes() == first.files.scenario.read_bytes()


def test_a_run_leaves_no_file_open(tmp_path, trace):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        run(swf=trace, nodes=4, policy="fifo", out=tmp_path / "out")

    assert [str(warning.message) for warning in caught] == []


def test_a_scenario_decided_by_an_object_does_not_claim_a_built_in_policy(tmp_path, trace):
    def last_come_first_served(view):
        for job in reversed(list(view.queue)):
            view.start(job)

    result = run(swf=trace, nodes=4, policy=last_come_first_served, out=tmp_path / "out")

    try:
        claimed = read_scenario(result.files.scenario).policy
    except UsageError:
        claimed = None
    assert claimed not in POLICIES
    assert len(rows(result.files.jobs)) == 2


def test_a_workload_by_a_name_that_is_not_text_is_refused_by_its_name(tmp_path):
    path = os.fsdecode(bytes(tmp_path) + b"/\xff.swf")

    message = refusal(small(path))

    assert "JSON" not in message


def test_a_whole_float_is_a_whole_number_wherever_the_schema_says_so(trace):
    tables = {
        "platform": {
            "groups": [{"nodes": 2.0, "per_node": {"core": 4.0}, "attributes": {"rack": 7.0}}],
            "start_time": 5.0,
            "memory": {"resource": "core", "kilobytes": 3.0},
        },
        "workload": {
            "swf": str(trace),
            "request": "nodes",
            "processors_per_node": 2.0,
            "limit": 3.0,
            "origin": 0.0,
        },
        "run": {"seed": 9.0, "deadline": 4.0},
    }
    schema = json.loads((PROJECT / "schemas" / "scenario.schema.json").read_text())

    scenario = read_scenario(written(trace.parent, tables, "scenario.json"))

    Draft202012Validator(schema).validate(tables)
    assert scenario.describe_platform().node_count == 2
    assert (scenario.workload.limit, scenario.run.seed, scenario.deadline_us) == (3, 9, 4 * SECOND)
