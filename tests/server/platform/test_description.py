"""Machines as files describe them."""

from __future__ import annotations

import json

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from parley_server.errors import InputError, UsageError
from parley_server.platform import PlatformDescription, read_platform, uniform
from parley_server.platform.description import MOST_NODES

kinds = st.sampled_from(["core", "memory", "gpu", "licence \u00e9"])
amounts = st.dictionaries(kinds, st.integers(1, 2**40 - 1), min_size=1)
groups = st.fixed_dictionaries({
    "name": st.text(max_size=6),
    "nodes": st.integers(1, 2_000_000),
    "per_node": amounts,
})  # fmt: skip
machines = st.fixed_dictionaries(
    {"groups": st.lists(groups, min_size=1, max_size=4, unique_by=lambda group: group["name"])},
    optional={"name": st.text(max_size=6)},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("platforms")


def written(folder, tables, ending):
    """Write a machine and return its file."""
    path = folder / f"machine{ending}"
    text = json.dumps(tables) if ending == ".json" else tomli_w.dumps(tables)
    path.write_text(text, encoding="utf-8")
    return path


def machine(*groups):
    """Return the tables of a machine of such groups, each (nodes, amounts)."""
    return {
        "groups": [
            {"name": f"g{index}", "nodes": nodes, "per_node": per_node}
            for index, (nodes, per_node) in enumerate(groups)
        ]
    }


def refusal(path):
    """Return what is said of a file that describes no machine."""
    with pytest.raises(UsageError) as caught:
        read_platform(path)
    return str(caught.value)


# ---------------------------------------------------------------------- laws


@given(tables=machines)
def test_toml_and_json_describe_the_same_machine(folder, tables):
    from_toml = read_platform(written(folder, tables, ".toml"))

    from_json = read_platform(written(folder, tables, ".json"))

    assert from_toml == from_json
    assert from_toml.name == tables.get("name", "platform")
    described = [group.model_dump(exclude_defaults=True) for group in from_toml.groups]
    assert described == [
        {key: value for key, value in group.items() if (key, value) != ("name", "nodes")}
        for group in tables["groups"]
    ]


@given(tables=machines)
def test_the_engine_gets_the_groups_in_their_order(tables):
    platform = PlatformDescription(**tables)

    nodes = platform.node_groups()

    described = [(group["name"], group["nodes"], group["per_node"]) for group in tables["groups"]]
    assert [(group.name, group.count, dict(group.capacity)) for group in nodes] == described
    assert platform.node_count == sum(group["nodes"] for group in tables["groups"])


@given(tables=machines)
def test_the_least_node_fits_every_node_and_no_more_would(tables):
    nodes = [group["per_node"] for group in tables["groups"]]

    least = PlatformDescription(**tables).least_node()

    assert all(least.get(kind, 0) <= node[kind] for node in nodes for kind in node)
    for kind in {kind for node in nodes for kind in node}:
        assert any(node.get(kind, 0) == least.get(kind, 0) for node in nodes)
    assert list(least) == sorted(least)
    assert all(least.values())


@given(nodes=st.integers(1, MOST_NODES), per_node=amounts)
def test_a_uniform_machine_is_one_group(nodes, per_node):
    platform = uniform(nodes, per_node)

    assert platform.node_count == nodes
    assert platform.least_node() == per_node
    assert len(platform.groups) == 1


# ---------------------------------------------------------------------- examples


def test_the_least_node_of_a_mixed_machine(tmp_path):
    tables = machine((100, {"core": 64, "memory": 256}), (8, {"core": 32, "memory": 512, "gpu": 4}))

    platform = read_platform(written(tmp_path, tables, ".toml"))

    assert platform.least_node() == {"core": 32, "memory": 256}
    assert platform.node_count == 108


def test_machines_that_have_nothing_in_common_have_an_empty_least_node():
    platform = PlatformDescription(**machine((1, {"core": 1}), (1, {"gpu": 1})))

    assert platform.least_node() == {}


def test_a_group_without_a_name_is_called_nodes(tmp_path):
    tables = {"groups": [{"nodes": 2, "per_node": {"core": 4}}]}

    platform = read_platform(written(tmp_path, tables, ".json"))

    assert platform.groups[0].name == "nodes"


@pytest.mark.parametrize("ending", [".toml", ".json"])
@pytest.mark.parametrize("names", [["a", "b", "a"], [None, None], ["nodes", None]])
def test_groups_of_the_same_name_are_refused(tmp_path, names, ending):
    group = {"nodes": 1, "per_node": {"core": 1}}
    groups = [{**group, **({"name": name} if name else {})} for name in names]

    message = refusal(written(tmp_path, {"groups": groups}, ending))

    assert f"two groups are called {names[0] or 'nodes'!r}" in message
    assert f"machine{ending}" in message


WRONG = {
    "no group": {"groups": []},
    "no groups": {},
    "no nodes": machine((0, {"core": 1})),
    "fewer than no nodes": machine((-1, {"core": 1})),
    "half a node": machine((1.5, {"core": 1})),
    "true nodes": machine((True, {"core": 1})),
    "nodes in words": machine(("2", {"core": 1})),
    "too many nodes": machine((MOST_NODES + 1, {"core": 1})),
    "too many nodes in all": machine((MOST_NODES, {"core": 1}), (1, {"core": 1})),
    "no resource": machine((1, {})),
    "none of a resource": machine((1, {"core": 0})),
    "less than none of it": machine((1, {"core": -4})),
    "a part of it": machine((1, {"core": 0.5})),
    "too much of it": machine((1, {"core": 2**40})),
    "groups that are none": {"groups": 5},
    "a group that is none": {"groups": [5]},
    "no amounts": {"groups": [{"nodes": 1}]},
}


@pytest.mark.parametrize("ending", [".toml", ".json"])
@pytest.mark.parametrize("tables", WRONG.values(), ids=WRONG)
def test_what_is_no_machine_is_wrong_usage_in_one_line(tmp_path, tables, ending):
    message = refusal(written(tmp_path, tables, ending))

    assert f"machine{ending}: " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("tables", "hint"),
    [
        ({**machine((1, {"core": 1})), "nam": "x"}, "nam: unknown key (did you mean 'name'?)"),
        (
            {"groups": [{"nodes": 1, "per_node": {"core": 1}, "per_nod": {}}]},
            "per_nod: unknown key (did you mean 'per_node'?); there are: attributes, name, nodes",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_likely_one(tmp_path, tables, hint):
    message = refusal(written(tmp_path, tables, ".toml"))

    assert hint in message


@pytest.mark.parametrize(("nodes", "per_node"), [(0, {"core": 1}), (1, {}), (1, {"core": 0})])
def test_a_uniform_machine_of_nothing_is_refused(nodes, per_node):
    with pytest.raises(UsageError):
        uniform(nodes, per_node)


UNUSABLE = {
    "not TOML": ("m.toml", b"groups = ["),
    "not JSON": ("m.json", b"{,}"),
    "no tables": ("m.json", b"[1, 2]"),
    "not text": ("m.toml", b"\xff\xfe\x00"),
    "nested without end, JSON": ("m.json", b"[" * 100_000),
    "nested without end, TOML": ("m.toml", b"groups = " + b"[" * 100_000),
    "a number without end, JSON": ("m.json", b'{"nodes": ' + b"9" * 5000 + b"}"),
    "a number without end, TOML": ("m.toml", b"nodes = " + b"9" * 5000),
}


@pytest.mark.parametrize(("name", "content"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_cannot_be_read_is_an_input_error_that_names_it(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(InputError, match=name):
        read_platform(tmp_path / name)


def test_a_file_that_is_not_there_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: cannot be read"):
        read_platform(tmp_path / "none.toml")


def test_a_whole_float_is_a_whole_number_as_the_schema_has_it(tmp_path):
    path = tmp_path / "machine.json"
    path.write_text('{"groups": [{"nodes": 2.0, "per_node": {"core": 4.0}}]}')

    platform = read_platform(path)

    assert (platform.node_count, platform.groups[0].per_node) == (2, {"core": 4})
