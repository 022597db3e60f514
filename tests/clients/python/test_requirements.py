"""What the specification demands of dispatchers, held against the reference client."""

from __future__ import annotations

import copy
import threading
import time
from contextlib import contextmanager

import pytest
import zmq

from parley_client import serve
from parley_client.__main__ import dispatch
from parley_client.errors import ClientError
from parley_protocol import (
    NEXT,
    Role,
    State,
    decode,
    encode,
    read_client_message,
)
from parley_protocol.codec import dialect_of
from parley_protocol.examples import SESSION

APPLIED = [{"id": 0, "status": "applied"}]


def answers():
    """Return the server's messages of the example, as a client that decides by itself gets them."""
    script = [copy.deepcopy(message) for message in SESSION[1::2]]
    for index, outcomes in ((3, APPLIED), (4, []), (5, APPLIED)):
        script[index]["body"]["outcomes"] = outcomes
    return script


class Actor:
    """A server that plays a script, whatever it is told, and notes it.

    Attributes:
        frames: What came, message by message, without the peer's identity.
        hasty: A message came before the one before it was answered.
    """

    def __init__(self, script, *, pause=0.0):
        self.frames = []
        self.hasty = False
        self._script = script
        self._pause = pause
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 500)
        self.endpoint = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._thread = threading.Thread(target=self._play)
        self._thread.start()

    def end(self):
        """Wait until the script is played, and a little longer."""
        self._thread.join(10)
        self._context.term()

    def messages(self):
        """Return what came, decoded."""
        return [decode(frames[-1]) for frames in self.frames]

    def _play(self):
        for answer in self._script:
            if not self._socket.poll(5000):
                break
            identity, *frames = self._socket.recv_multipart()
            self.frames.append(frames)
            time.sleep(self._pause)
            self.hasty |= bool(self._socket.poll(0))
            self._socket.send_multipart([identity, b"", encode(answer)])
        # Nothing may follow the end.
        if self._socket.poll(150):
            _, *frames = self._socket.recv_multipart()
            self.frames.append(frames)
        self._socket.close()


@contextmanager
def played(script=None, **options):
    """A server that plays a script."""
    actor = Actor(answers() if script is None else script, **options)
    try:
        yield actor
    finally:
        actor.end()


@pytest.fixture(scope="module")
def whole():
    """What the reference client says in the example session."""
    with played(pause=0.02) as actor:
        end = serve("fifo", actor.endpoint)
    assert end["reason"] == "completed"
    return actor


def fatal(code="later.code", *, really=True):
    """Return an error."""
    body = {"code": code, "message": "the reason in a few words", "fatal": really}
    return {"v": 1, "type": "error", "session": "1", "epoch": 1, "seq": 2, "body": body}


# ---------------------------------------------------------------------- a whole session


def test_a_dealer_sends_an_empty_frame_and_the_message(whole):
    assert all(len(frames) == 2 and frames[0] == b"" for frames in whole.frames)


def test_every_message_is_of_the_profile_and_of_its_schema(whole):
    for message in whole.messages():
        assert read_client_message(message)["type"] == message["type"]
        assert message["v"] == 1
    assert len({dialect_of(frames[-1]) for frames in whole.frames}) == 1


def test_every_message_is_legal_where_it_is_said_and_none_follows_the_end(whole):
    state = State.NEW
    script = answers()
    for message, answer in zip(whole.messages(), script, strict=True):
        state = NEXT[state, Role.CLIENT, message["type"]]
        state = NEXT[state, Role.SERVER, answer["type"]]

    assert state is State.ENDED


def test_no_message_is_sent_before_the_one_before_was_answered(whole):
    assert not whole.hasty


def test_session_epoch_and_version_are_repeated_and_the_outstanding_message_answered(whole):
    hello, *rest = whole.messages()

    assert not {"session", "epoch", "re"} & hello.keys()
    for message, answered in zip(rest, answers(), strict=False):
        assert (message["session"], message["epoch"]) == ("1", 1)
        assert message["re"] == answered["seq"]
        if message["type"] == "decision.reply":
            assert message["body"]["state_version"] == answered["body"]["state_version"]


def test_the_hello_lists_this_version(whole):
    assert "1.0" in whole.messages()[0]["body"]["versions"]


def test_decisions_have_different_ids_and_merged_spans(whole):
    starts = []
    for message in whole.messages()[2:]:
        decisions = message["body"]["decisions"]
        assert len({decision["id"] for decision in decisions}) == len(decisions)
        starts += [decision for decision in decisions if decision["kind"] == "start"]

    assert [start["job"] for start in starts] == [0, 1]
    assert [start["allocation"] for start in starts] == [[[[0, 2, 1]]], [[[0, 1, 1]]]]


def test_a_session_may_be_slow(whole):
    with played(pause=0.15) as actor:
        serve("fifo", actor.endpoint)

    assert not actor.hasty
    assert [frames[-1] for frames in actor.frames][:2] == [frames[-1] for frames in whole.frames][
        :2
    ]


# ---------------------------------------------------------------------- what later versions add


def test_unknown_events_and_fields_are_ignored(whole):
    script = answers()
    for message in script:
        message["later"] = {"than": 1}
        message["body"]["later"] = [None]
        if message["type"] == "decision.request":
            message["body"]["events"].insert(
                0, {"kind": "power.changed", "at_us": message["body"]["now_us"], "watts": 7}
            )
    with played(script) as actor:
        end = serve("fifo", actor.endpoint)

    def decided(player):
        return [message["body"]["decisions"] for message in player.messages()[2:]]

    assert end["reason"] == "completed"
    assert decided(actor) == decided(whole)


def test_a_reason_that_is_not_known_is_that_of_a_run_which_is_not_complete(capsys):
    script = answers()
    script[-1]["body"]["reason"] = "later"
    with played(script) as actor:
        status = dispatch(actor.endpoint, "fifo", "first-fit")

    assert status == 1


# ---------------------------------------------------------------------- errors


def test_an_error_is_shown_and_ends_what_is_fatal_whatever_its_code():
    with played([*answers()[:2], fatal()]) as actor, pytest.raises(ClientError) as caught:
        serve("fifo", actor.endpoint)

    assert "the reason in a few words" in str(caught.value)
    assert "later.code" in str(caught.value)
    assert [message["type"] for message in actor.messages()] == ["hello", "ready", "decision.reply"]
