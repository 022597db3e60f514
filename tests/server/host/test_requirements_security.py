"""What the specification demands of who may speak to a server, and of hostile peers."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import zmq
import zmq.auth

from parley_conformance import ScriptedDispatcher
from parley_protocol import decode, encode
from parley_server.errors import UsageError
from parley_server.host.router import _MOST_STRANGERS, Router
from parley_server.host.wire import Curve
from tests.offering import at_first_jobs, offered
from tests.serving import serving

PING = encode({"v": 1, "type": "ping", "session": "x", "epoch": 1, "re": 1, "body": {}})


class _Stop(Exception):
    """The test is over."""


@contextmanager
def encrypted(curve):
    """A server with keys; nothing is offered there."""
    stopping = threading.Event()

    def look():
        if stopping.is_set():
            raise _Stop

    def run():
        with pytest.raises(_Stop):
            router.run(look)
        router.close()

    router = Router("tcp://127.0.0.1:*", lambda hello: None, curve=curve)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield router.endpoint
    finally:
        stopping.set()
        thread.join(10)


def keys(folder, name):
    """Return the files of a new public and secret certificate."""
    folder.mkdir(exist_ok=True)
    public, secret = zmq.auth.create_certificates(folder, name)
    return folder / public, folder / secret


def code_over(endpoint, *, server=None, client=None):
    """Return the code with which a stranger's ping is answered, or None."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    if server is not None:
        socket.curve_serverkey, _ = zmq.auth.load_certificate(server)
    if client is not None:
        socket.curve_publickey, socket.curve_secretkey = zmq.auth.load_certificate(client)
    socket.connect(endpoint)
    socket.send_multipart((b"", PING))
    try:
        if not socket.poll(600):
            return None
        return decode(socket.recv_multipart()[-1])["body"]["code"]
    finally:
        socket.close()
        context.term()


def test_only_those_who_encrypt_to_the_server_are_answered(tmp_path):
    public, secret = keys(tmp_path / "server", "server")
    other, _ = keys(tmp_path / "other", "other")
    _, client = keys(tmp_path / "client", "client")

    with encrypted(Curve(secret)) as endpoint:
        assert code_over(endpoint, server=public, client=client) == "message.unexpected"
        assert code_over(endpoint) is None
        assert code_over(endpoint, server=other, client=client) is None


def test_a_server_that_knows_its_clients_answers_nobody_else(tmp_path):
    public, secret = keys(tmp_path / "server", "server")
    friends = tmp_path / "friends"
    friend, friend_secret = keys(tmp_path / "friend", "friend")
    _, stranger_secret = keys(tmp_path / "stranger", "stranger")
    friends.mkdir()
    (friends / friend.name).write_bytes(friend.read_bytes())

    with encrypted(Curve(secret, friends)) as endpoint:
        assert code_over(endpoint, server=public, client=friend_secret) == "message.unexpected"
        assert code_over(endpoint, server=public, client=stranger_secret) is None


@pytest.mark.parametrize("endpoint", ["tcp://0.0.0.0:*", "tcp://*:*", "tcp://[::]:*"])
def test_a_server_without_keys_listens_to_this_machine_alone(endpoint):
    with pytest.raises(UsageError, match="other machines"):
        Router(endpoint, lambda hello: None)


def test_tokens_are_long_and_never_the_same(tmp_path):
    with serving(tmp_path, offered(tmp_path, "plain")) as server:
        tokens = []
        for _ in range(8):
            with ScriptedDispatcher(server.endpoint) as peer:
                tokens.append(peer.hello()["body"]["token"])

    assert len({*tokens}) == 8
    assert all(len(bytes.fromhex(token)) >= 16 for token in tokens)
    # Every bit is of both values somewhere: nothing in them is constant.
    values = [int(token, 16) for token in tokens]
    assert sum((values[0] ^ value).bit_count() for value in values[1:]) > 7 * 30


def test_no_trace_shows_a_token(tmp_path):
    seen = []
    waiting = offered(tmp_path, "waiting", session={"on_disconnect": "wait"})
    with (
        serving(
            tmp_path, waiting, trace=lambda direction, kind, body: seen.append((kind, repr(body)))
        ) as server,
        ScriptedDispatcher(server.endpoint) as peer,
    ):
        token = peer.hello()["body"]["token"]
        peer.ready()
        with ScriptedDispatcher(server.endpoint) as heir:
            resume = {"session": peer.session["session"], "token": token}
            fresh = heir.hello(resume=resume)["body"]["token"]
            heir.say("bye", {})

    assert [kind for kind, _ in seen].count("hello") == 2
    assert not [text for _, text in seen if token in text or fresh in text]


def test_what_is_kept_of_strangers_does_not_grow_with_them():
    router = Router("tcp://127.0.0.1:*", lambda hello: None)
    try:
        for number in range(3 * _MOST_STRANGERS):
            router._strike(number.to_bytes(5, "big"), None)

        assert len(router._strangers) == _MOST_STRANGERS
    finally:
        router.close()


def test_hostile_bytes_disturb_no_other_session(tmp_path):
    with (
        serving(tmp_path, offered(tmp_path, "plain")) as server,
        ScriptedDispatcher(server.endpoint) as honest,
        ScriptedDispatcher(server.endpoint) as hostile,
    ):
        request = at_first_jobs(honest, "plain")
        for number in range(200):
            hostile.send_bytes(bytes([number]) * (number + 1))
            hostile.receive()
            hostile.send_frames([b"x"] * (number % 5 + 1))
        answer = honest.reply(request, [{"kind": "start", "job": 0}])

        assert answer["type"] == "decision.request"
        assert answer["body"]["outcomes"][0]["status"] == "applied"
