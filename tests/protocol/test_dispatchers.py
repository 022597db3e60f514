"""What a dispatcher does beside deciding, held against the reference dispatcher and server."""

from __future__ import annotations

import threading

import pytest
import zmq

from parley_client import serve
from parley_client.errors import ClientError
from parley_conformance import ScriptedDispatcher
from parley_protocol import PROTOCOL_VERSION, decode, encode
from parley_protocol.examples import SESSION
from parley_server.api import load_scenario
from tests.offering import offered
from tests.serving import serving, wait_until

WAITS = {"on_disconnect": "wait", "reconnect": "30s"}


@pytest.fixture
def known(monkeypatch):
    """Return a function that sets what a server tells a dispatcher that it starts again."""

    def known(session, token):
        monkeypatch.setenv("PARLEY_SESSION", session)
        monkeypatch.setenv("PARLEY_TOKEN", token)

    return known


def test_a_dispatcher_resumes_the_session_that_it_is_told(tmp_path, known):
    with serving(tmp_path, offered(tmp_path, "plain", session=WAITS)) as server:
        with ScriptedDispatcher(server.endpoint) as first:
            welcome = first.hello()
            first.ready()
        known(welcome["session"], welcome["body"]["token"])

        end = serve("fifo", server.endpoint)

        assert end["stats"]["completed"] == 3
        assert server.reason("1") == "completed"
        assert list(server.ended) == ["1"]


@pytest.mark.parametrize("half", [("1", ""), ("", "0" * 32)])
def test_half_of_what_it_takes_to_resume_counts_as_nothing(tmp_path, known, half):
    known(*half)
    with serving(tmp_path, offered(tmp_path, "plain")) as server:
        assert serve("fifo", server.endpoint)["stats"]["completed"] == 3


@pytest.mark.parametrize("session", ["1", "2"])
def test_a_dispatcher_with_nothing_to_resume_begins_no_other_run(tmp_path, known, session):
    with serving(tmp_path, offered(tmp_path, "plain")) as server:
        serve("fifo", server.endpoint)
        server.wait_for("1")
        known(session, "0" * 32)

        with pytest.raises(ClientError, match=r"session\.(over|token)"):
            serve("fifo", server.endpoint)

        assert not (tmp_path / "served/2").exists()
        assert list(server.ended) == ["1"]


def test_a_dispatcher_whose_connection_is_lost_does_not_wait_for_ever():
    failures = []

    def dispatch(endpoint):
        try:
            serve("fifo", endpoint)
        except ClientError as error:
            failures.append(str(error))

    with zmq.Context() as context:
        socket = context.socket(zmq.ROUTER)
        endpoint = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
        thread = threading.Thread(target=dispatch, args=(endpoint,), daemon=True)
        thread.start()
        *envelope, hello = socket.recv_multipart()
        socket.send_multipart([*envelope, encode(SESSION[1])])
        *_, ready = socket.recv_multipart()
        socket.close(linger=0)

        assert wait_until(lambda: bool(failures))

    thread.join(10)
    assert [decode(hello)["type"], decode(ready)["type"]] == ["hello", "ready"]
    assert "is gone" in failures[0]


def test_every_run_of_nodes_names_every_resource(tmp_path):
    (tmp_path / "two.swf").write_text("1 0 -1 60 2 -1 -1 2 90 -1 1 7 3 -1 5 6 -1 -1\n")
    groups = [
        {"name": "plain", "nodes": 2, "per_node": {"core": 2}},
        {"name": "fast", "nodes": 1, "per_node": {"core": 2, "gpu": 1}},
    ]
    scenario = load_scenario(
        None, {"platform": {"groups": groups}, "workload": {"swf": str(tmp_path / "two.swf")}}
    )
    with serving(tmp_path, scenario) as server, ScriptedDispatcher(server.endpoint) as peer:
        request = peer.open(versions=[PROTOCOL_VERSION], capabilities={"state": "snapshot"})

        assert request["body"]["state"]["nodes"] == [
            [0, 1, {"core": 2, "gpu": 0}, "up"],
            [2, 2, {"core": 2, "gpu": 1}, "up"],
        ]
