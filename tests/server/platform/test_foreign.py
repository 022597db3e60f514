"""Machines as other tools describe them, and partitions, attributes and memory on ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_client.allocators import ALLOCATORS
from parley_server import run
from parley_server.engine import (
    ChunkGroup,
    Job,
    ListSource,
    Shape,
    Simulation,
    Start,
)
from parley_server.errors import InputError, ParleyError, UsageError
from parley_server.markers import attribute_marker
from parley_server.platform import PlatformDescription, guessed, read_platform
from parley_server.platform.reading import format_of
from parley_server.scenario import scenario_of
from parley_server.workload.formats import WorkloadFile
from parley_server.workload.rules import Partitions, ReadingRules, RequestMode
from tests.support import rows, summary_of, swf_line

SETH = """{"system_name":"Seth - HPC2N","start_time":1027839845,
"equivalence":{"processor":{"core":2}},"groups":{"g0":{"core":4,"mem":1000000}},
"resources":{"g0":120}}"""

XML = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="AS0" routing="Full">
    <host id="master_host" speed="100Mf"/>
    <host id="storage0" speed="1Mf"><prop id="role" value="storage"/></host>
    <host id="a" speed="1Gf" core="4"/>
    <host id="b" speed="1Gf" core="4"/>
    <host id="fat" speed="1Gf" core="16"/>
    <cluster id="c" prefix="c-" suffix=".x" radical="0-7,12" speed="1Gf" bw="1" lat="1" core="2"/>
    <link id="l" bandwidth="1" latency="1"/>
  </zone>
</platform>
"""

SLURM = """
# a small machine
ClusterName=toy
SelectTypeParameters=CR_Core_Memory
NodeName=DEFAULT Sockets=2 CoresPerSocket=8 ThreadsPerCore=1
NodeName=cpu[01-04] RealMemory=64000 Feature=epyc,ib
nodename=gpu[1-2] CPUs=32 \\
    RealMemory=128000 Gres=gpu:a100:4 Feature=ib
PartitionName=DEFAULT State=UP
PartitionName=batch Nodes=cpu[01-04],gpu1 Default=YES
PartitionName=gpu Nodes=gpu[1-2]
PartitionName=all Nodes=ALL
"""


def saved(folder, text, name="machine"):
    path = folder / name
    path.write_text(text)
    return path


def outline(machine):
    return [(group.name, group.nodes, group.per_node) for group in machine.groups]


# ---------------------------------------------------------------------- formats


def test_accasims_example_is_what_its_paper_says_of_it(tmp_path):
    machine = read_platform(saved(tmp_path, SETH, "seth.config"))

    assert machine.name == "Seth - HPC2N"
    assert outline(machine) == [("g0", 120, {"core": 4, "mem": 1_000_000})]
    assert machine.capacity == {"core": 480, "mem": 120_000_000}
    assert machine.equivalence == {"processor": {"core": 2}}
    assert machine.start_time == 1027839845
    assert machine.memory.resource == "mem"


def test_accasims_example_makes_chunks_of_two_cores_and_their_memory(tmp_path):
    # 600,000 KB a processor: one to a node, though its cores would hold two.
    lines = ["1 0 -1 10 3 -1 999999 3 20 600000 1 1 1 1 1 1 -1 -1", "2 1 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1"]  # fmt: skip  # noqa: E501
    trace = saved(
        tmp_path, "\n".join([*lines, "3 2 -1 5 1 -1 -1 1 9 1000001 1 1 1 1 1 1 -1 -1"]), "t.swf"
    )

    result = run(swf=trace, platform=saved(tmp_path, SETH), out=tmp_path / "run", audit=True)

    table = {row["job_id"]: row for row in rows(result.files.jobs)}
    assert table["1"]["allocation"] == "0-2*1"
    assert table["2"]["allocation"] == "0-1*1"
    assert table["3"]["final_state"] == "REJECTED"
    assert result.summary["rules"]["per_processor"] == {"core": 2}


def test_batsims_hosts_are_nodes_and_its_master_is_none(tmp_path):
    machine = read_platform(saved(tmp_path, XML))

    assert [(group.nodes, group.per_node["core"]) for group in machine.groups] == [
        (2, 4),
        (1, 16),
        (9, 2),
    ]
    assert "1 link" in machine.note


def test_slurms_nodes_and_partitions_are_groups_and_partitions(tmp_path):
    machine = read_platform(saved(tmp_path, SLURM, "slurm.conf"))

    assert outline(machine) == [
        ("cpu01 to cpu04", 4, {"core": 16, "memory": 64000}),
        ("gpu1", 1, {"core": 32, "memory": 128000, "gpu": 4}),
        ("gpu2", 1, {"core": 32, "memory": 128000, "gpu": 4}),
    ]
    assert [group.attributes for group in machine.groups] == [
        {"epyc": True, "ib": True},
        {"ib": True},
        {"ib": True},
    ]
    assert [(part.name, part.groups, part.default) for part in machine.partitions] == [
        ("batch", ["cpu01 to cpu04", "gpu1"], True),
        ("gpu", ["gpu1", "gpu2"], False),
        ("all", ["cpu01 to cpu04", "gpu1", "gpu2"], False),
    ]
    assert (machine.memory.resource, machine.memory.kilobytes) == ("memory", 1024)


@pytest.mark.parametrize(
    ("text", "kind"),
    [(SETH, "accasim"), (XML, "batsim"), (SLURM, "slurm"), ('{"groups": []}', "parley")],
)
def test_the_content_tells_the_format_of_a_machine(tmp_path, text, kind):
    assert format_of(saved(tmp_path, text)) == kind


WRONG = {
    "two groups of one name": (
        '{"groups": {"a": {"core": 1}, "a": {"core": 2}}, "resources": {"a": 1}}',
        "'a' stands twice",
    ),
    "two groups of one name, ours": (
        '[[groups]]\nname="a"\nnodes=1\nper_node={core=1}\n' * 2,
        "two groups are called 'a'",
    ),
    "equivalence to nothing": (SETH.replace('"core":2', '"cores":2'), "'cores', which no node has"),
    "equivalence of nothing": (SETH.replace('{"core":2}', "{}"), "equivalent to nothing"),
    "equivalence of another unit": (SETH.replace('"processor"', '"chip"'), "'chip' is no unit"),
    "nodes of no group": (SETH.replace('{"g0":120}', '{"g1":120}'), "no group 'g1'"),
    "a group without nodes": (SETH.replace('{"g0":120}', "{}"), "how many nodes has the group"),
    "partition of no group": (
        'partitions=[{name="p",groups=["b"]}]\n[[groups]]\nnodes=1\nper_node={core=1}\n',
        "of a group 'b' that there is not",
    ),
    "memory that no node has": (
        'memory = {resource="ram"}\n[[groups]]\nnodes=1\nper_node={core=1}\n',
        "no node has the resource 'ram'",
    ),
    "a marker for a resource": (
        '[[groups]]\nnodes=1\nper_node={"partition:x"=1}\n',
        "say it with partitions or attributes",
    ),
    "broken XML": ("<platform><host", "not XML"),
    "XML without hosts": ("<platform/>", "no host"),
    "an entity": ('<!DOCTYPE p [<!ENTITY a "b">]><p/>', "line 1: defines an entity"),
    "a host without a name": (
        "<platform>\n<host core='1'/></platform>",
        "line 2: host: field 'id'",
    ),
    "half a core": ("<p><host id='a' core='1.5'/></p>", "field 'core' is '1.5'"),
    "a radical of nothing": ("<p><cluster id='a' radical='7-3'/></p>", "field 'radical' is '7-3'"),
    "a node twice": ("NodeName=a CPUs=1\nNodeName=a CPUs=1", "line 2: node 'a' is defined twice"),
    "a partition of no node": (
        "NodeName=a CPUs=1\nPartitionName=p Nodes=b",
        "line 2: partition 'p' is of a node 'b' that there is not",
    ),
    "CPUs in words": ("NodeName=a CPUs=two", "line 1: field 'cpus' is 'two'"),
    "a list of nodes that is none": ("NodeName=a[1- CPUs=1", "no list of nodes"),
    "too many nodes": ("NodeName=a[1-9][0-999999] CPUs=1", "no list of nodes"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_machine_is_told_in_one_line_that_names_the_file(tmp_path, text, said):
    path = saved(tmp_path, text)

    with pytest.raises((InputError, UsageError)) as caught:
        read_platform(path)

    assert str(path) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    source=st.sampled_from([SETH, XML, SLURM]),
    edits=st.lists(
        st.tuples(
            st.integers(0, 800),
            st.integers(0, 4),
            st.text("{}[]<>\"'=:,0123456789-\\ \nabz\x00", max_size=3),
        ),
        max_size=4,
    ),
)
def test_a_mutated_machine_raises_nothing_but_the_documented_errors(
    tmp_path_factory, source, edits
):
    for place, length, junk in edits:
        source = source[:place] + junk + source[place + length :]
    path = saved(tmp_path_factory.getbasetemp(), source, "mutated")

    try:
        machine = read_platform(path)
    except ParleyError as error:
        assert str(path) in str(error)  # noqa: PT017 - it need not be raised
    else:
        assert machine.node_count > 0


GUESSES = [
    # MaxNodes, MaxProcs, nodes, cores
    ("240", "240", 240, 1),
    ("1152", "9216", 1152, 8),
    ("70  (dual)", "140", 70, 2),
    ("256", None, 256, 1),
    (None, "140", 140, 1),
    ("5544", "93312", 93312, 1),
]


@pytest.mark.parametrize(("nodes", "processors", "count", "cores"), GUESSES)
def test_a_guess_follows_the_header_and_says_that_it_is_one(nodes, processors, count, cores):
    header = {"MaxNodes": nodes, "MaxProcs": processors}

    machine = guessed({key: value for key, value in header.items() if value}, "t.swf")

    assert [(group.nodes, group.per_node) for group in machine.groups] == [(count, {"core": cores})]
    assert "a guess" in machine.note


def test_a_header_that_says_nothing_lets_nobody_guess():
    with pytest.raises(InputError, match="neither MaxNodes nor MaxProcs"):
        guessed({"Version": "2.2"}, "t.swf")


def test_a_run_on_a_guessed_machine_says_so(tmp_path):
    trace = saved(tmp_path, "; MaxNodes: 2\n; MaxProcs: 8\n" + swf_line(1, 0, 5, 5))

    result = run(swf=trace, platform="guess", out=tmp_path / "run")

    assert rows(result.files.jobs)[0]["allocation"] == "0*4 1*1"
    assert "a guess" in result.summary["platform"]["note"]


# ---------------------------------------------------------------------- a mixed machine

MIXED = {
    "name": "mixed",
    "memory": {"resource": "memory", "kilobytes": 1024},
    "groups": [
        {
            "name": "cpu",
            "nodes": 4,
            "per_node": {"core": 8, "memory": 64},
            "attributes": {"ib": True},
        },
        {"name": "gpu", "nodes": 2, "per_node": {"core": 4, "memory": 64, "gpu": 2}},
        {"name": "big", "nodes": 1, "per_node": {"core": 16, "memory": 1024}},
    ],
    "partitions": [
        {"name": "batch", "groups": ["cpu", "big"], "default": True},
        {"name": "gpu", "groups": ["gpu"]},
        {"name": "big", "groups": ["big"]},
    ],
}  # fmt: skip

CPU, GPU, BIG = set(range(4)), {4, 5}, {6}


def mixed_jobs(count=60):
    """Return jobs of every sort, close together, with the nodes that each may touch."""
    jobs, allowed = [], {}
    sorts = [
        ({"processors": 3}, CPU | BIG),
        ({"request": [{"chunks": 2, "per_chunk": {"gpu": 1, "core": 1}}], "partition": "gpu"}, GPU),
        ({"processors": 2, "memory": 100 * 1024, "partition": "big"}, BIG),
        ({"processors": 1, "memory": 200 * 1024}, BIG),
        ({"processors": 9, "constraints": {"ib": True}}, CPU),
        ({"request": [{"chunks": 2, "exclusive": True}], "partition": "batch"}, CPU | BIG),
    ]
    for number in range(count):
        values, nodes = sorts[number % len(sorts)]
        base = {"id": number, "submit": number // 3, "runtime": 5 + number % 7, "walltime": 20}
        jobs.append(base | values)
        allowed[str(number)] = nodes
    return jobs, allowed


def nodes_of(text):
    found = set()
    for part in text.split():
        first, _, last = part.partition("*")[0].partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("allocator", sorted(ALLOCATORS))
def test_a_mixed_machine_runs_with_every_allocator_and_nobody_goes_where_he_may_not(
    tmp_path, allocator
):
    jobs, allowed = mixed_jobs()
    workload = saved(tmp_path, "\n".join(map(json.dumps, jobs)), "w.jsonl")

    result = run(
        workload=workload,
        platform=saved(tmp_path, json.dumps(MIXED), "mixed.json"),
        request="processors",
        allocator=allocator,
        out=tmp_path / "run",
        audit=True,
    )

    table = rows(result.files.jobs)
    assert {row["final_state"] for row in table} == {"COMPLETED_SUCCESSFULLY"}
    assert len(table) == len(jobs)
    for row in table:
        assert nodes_of(row["allocation"]) <= allowed[row["job_id"]]
    assert set(result.summary["utilisation_by_resource"]) == {"core", "gpu", "memory"}


def test_the_server_refuses_nodes_of_another_partition(tmp_path):
    machine = PlatformDescription.model_validate(MIXED)
    workload = saved(tmp_path, '{"id":1,"submit":0,"runtime":1,"processors":1,"partition":"gpu"}\n', "w.jsonl")  # fmt: skip  # noqa: E501
    rules = ReadingRules(
        request=RequestMode.PROCESSORS, partitions=Partitions(frozenset({"gpu", "batch"}))
    )
    source = WorkloadFile(workload).source(rules)
    simulation = Simulation(machine.node_groups(), source)
    simulation.advance()
    simulation.apply([])
    simulation.advance()

    outcomes = simulation.apply([Start(0, 0, (((0, 0, 1),),)), Start(1, 0, (((4, 4, 1),),))])

    assert [outcome.code for outcome in outcomes] == ["node.partition", None]
    assert "partition 'gpu'" in outcomes[0].message


def test_the_server_refuses_nodes_that_do_not_meet_a_constraint():
    machine = PlatformDescription.model_validate(MIXED)
    shape = Shape.of({"core": 1, attribute_marker("ib", "true"): 1}, exclusive=False)
    job = Job(0, "j", 0, 5, 5, (ChunkGroup(1, shape),))
    simulation = Simulation(machine.node_groups(), ListSource([job]))
    simulation.advance()
    simulation.apply([])
    simulation.advance()

    (outcome,) = simulation.apply([Start(0, 0, (((6, 6, 1),),))])

    assert outcome.code == "node.constraint"
    assert "'ib=true'" in outcome.message


def test_a_partition_that_nobody_defined_is_counted_and_told(tmp_path):
    lines = [
        {"id": 1, "submit": 0, "runtime": 1, "processors": 1},
        {"id": 2, "submit": 1, "runtime": 1, "processors": 1, "partition": "night"},
    ]
    settings = {
        "workload": saved(tmp_path, "\n".join(map(json.dumps, lines)), "w.jsonl"),
        "platform": saved(tmp_path, json.dumps(MIXED), "mixed.json"),
    }

    run(**settings, out=tmp_path / "run")

    summary = summary_of(tmp_path / "run")
    assert summary["dropped"] == {"unknown_partition": 1}
    told = summary["lines"]["first_of"]["unknown_partition"]
    assert told == "line 2: partition 'night'; there are: batch, big, gpu"
    with pytest.raises(InputError, match=r"line 2 .*unknown_partition.*'night'"):
        run(**settings, strict=True, out=tmp_path / "strict")


def test_a_trace_s_number_of_a_partition_is_the_name_that_its_header_gives(tmp_path):
    fields = "5 1 -1 -1 1 9 -1 1 7 1 1 1"
    trace = saved(tmp_path, f"; Partition: 3 gpu\n1 0 -1 {fields} 3 -1 -1\n", "t.swf")

    result = run(
        swf=trace,
        platform=saved(tmp_path, json.dumps(MIXED), "mixed.json"),
        request="processors",
        out=tmp_path / "run",
    )

    assert nodes_of(rows(result.files.jobs)[0]["allocation"]) <= GPU


@pytest.mark.parametrize(
    "asked",
    [
        {"request": [{"chunks": 1, "per_chunk": {"fpga": 1}}]},
        {"processors": 1, "constraints": {"model": "none"}},
        {"processors": 1, "memory": 2**40},
    ],
)
def test_what_no_node_has_is_rejected_at_submission(tmp_path, asked):
    line = {"id": 1, "submit": 0, "runtime": 1} | asked

    result = run(
        workload=saved(tmp_path, json.dumps(line), "w.jsonl"),
        platform=saved(tmp_path, json.dumps(MIXED), "mixed.json"),
        out=tmp_path / "run",
    )

    assert result.summary["jobs"]["never_fit"] == 1


def test_processors_are_rounded_up_to_nodes(tmp_path):
    trace = saved(tmp_path, "\n".join(swf_line(n, n, 5, n) for n in (1, 4, 5, 8)))

    result = run(swf=trace, nodes=4, processors_per_node=4, out=tmp_path / "run")

    sizes = {r["job_id"]: r["requested_number_of_resources"] for r in rows(result.files.jobs)}
    assert sizes == {"1": "1", "4": "1", "5": "2", "8": "2"}


@pytest.mark.parametrize(
    ("memory", "unit", "chunk"),
    [("per-processor", "kilobytes", 3), ("per-job", "kilobytes", 1), ("per-job", "megabytes", 768)],
)
def test_memory_is_per_processor_or_per_job_in_the_trace_s_unit(tmp_path, memory, unit, chunk):
    platform = saved(tmp_path, 'memory={resource="mem",kilobytes=1024}\n[[groups]]\nnodes=2\nper_node={core=9,mem=9999}\n')  # fmt: skip  # noqa: E501
    trace = saved(tmp_path, "1 0 -1 5 4 -1 -1 4 9 3072 1 1 1 1 1 1 -1 -1\n", "t.swf")
    scenario = scenario_of(
        {
            "platform": {"file": str(platform)},
            "workload": {
                "swf": str(trace),
                "request": "processors",
                "memory": memory,
                "memory_unit": unit,
            },
        }
    )

    source = scenario.open_source(scenario.describe_platform())
    job = source.next()
    source.close()

    assert dict(job.request[0].shape.per_chunk) == {"core": 1, "mem": chunk}
