"""The table of the conversation and the registry of codes, each as a whole."""

from __future__ import annotations

import ast
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_protocol import (
    DECISION_CODES,
    MESSAGE_CODES,
    NEXT,
    Conversation,
    ProtocolError,
    Role,
    State,
    legal,
)
from parley_protocol.messages import CLIENT_MESSAGES, SERVER_MESSAGES
from parley_server.engine.errors import DECISION_ERRORS
from tests.support import PROJECT

KINDS = sorted({*CLIENT_MESSAGES, *SERVER_MESSAGES, "state.guess", ""})
LIVE = [state for state in State if state is not State.ENDED]

moves = st.lists(st.tuples(st.sampled_from(Role), st.sampled_from(KINDS)), max_size=30)


def at(state):
    """Return a conversation that stands in a state."""
    conversation = Conversation()
    conversation.state = state
    return conversation


def reachable(start):
    """Return every state that messages lead to, *start* among them."""
    found, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        onward = {there for (state, _, _), there in NEXT.items() if state is here} - found
        found |= onward
        waiting.extend(onward)
    return found


def speakers(state):
    """Return the roles that may say something."""
    return [role for role in Role if legal(state, role)]


# ---------------------------------------------------------------------- laws


@given(moves=moves)
def test_only_messages_of_the_table_move_a_conversation(moves):
    conversation = Conversation()
    for role, kind in moves:
        before = conversation.state
        try:
            conversation.follow(role, kind)
        except ProtocolError:
            assert (before, role, kind) not in NEXT
            assert conversation.state is before
        else:
            assert conversation.state is NEXT[before, role, kind]


@given(data=st.data(), length=st.integers(1, 30))
def test_client_and_server_take_turns_and_the_client_begins(data, length):
    conversation, said = Conversation(), []
    while len(said) < length and not conversation.over:
        role, kind = data.draw(
            st.sampled_from(
                [(role, kind) for role in Role for kind in legal(conversation.state, role)]
            )
        )
        conversation.follow(role, kind)
        said.append(role)

    assert said[::2] == [Role.CLIENT] * len(said[::2])
    assert said[1::2] == [Role.SERVER] * len(said[1::2])


@pytest.mark.parametrize("state", LIVE, ids=str)
def test_exactly_one_role_may_speak_until_the_end(state):
    assert len(speakers(state)) == 1


@pytest.mark.parametrize("step", NEXT, ids=str)
def test_every_message_hands_over_the_turn(step):
    state, role, _ = step

    assert role in speakers(state)
    assert role not in speakers(NEXT[step])


def test_nobody_speaks_after_the_end():
    assert speakers(State.ENDED) == []


def test_every_state_can_be_reached_from_the_first():
    assert reachable(State.NEW) == set(State)


@pytest.mark.parametrize("state", State, ids=str)
def test_the_end_can_be_reached_from_every_state(state):
    assert State.ENDED in reachable(state)


def test_every_message_but_the_error_has_its_place():
    placed = {(role, kind) for _, role, kind in NEXT}

    defined = {(Role.CLIENT, kind) for kind in CLIENT_MESSAGES}
    defined |= {(Role.SERVER, kind) for kind in SERVER_MESSAGES if kind != "error"}
    assert placed == defined


@pytest.mark.parametrize("state", LIVE, ids=str)
def test_a_client_that_waits_for_no_answer_may_say_goodbye_once_greeted(state):
    waits = speakers(state) == [Role.SERVER]

    assert ("bye" in legal(state, Role.CLIENT)) == (not waits and state is not State.NEW)


# ---------------------------------------------------------------------- one conversation


@pytest.mark.parametrize("state", State, ids=str)
@pytest.mark.parametrize("role", Role, ids=str)
def test_an_illegal_message_is_answered_with_the_legal_ones_and_changes_nothing(state, role):
    for kind in set(KINDS) - set(legal(state, role)):
        conversation = at(state)

        with pytest.raises(ProtocolError) as caught:
            conversation.follow(role, kind)

        assert caught.value.code == "message.unexpected"
        assert list(caught.value.supported) == legal(state, role)
        assert not caught.value.fatal
        assert conversation.state is state


@pytest.mark.parametrize("step", NEXT, ids=str)
def test_checking_a_message_changes_nothing(step):
    state, role, kind = step
    conversation = at(state)

    there = conversation.check(role, kind)

    assert there is NEXT[step]
    assert conversation.state is state


@pytest.mark.parametrize("state", State, ids=str)
def test_a_fatal_error_ends_the_session_from_any_state(state):
    conversation = at(state)

    conversation.fail()

    assert conversation.over
    assert conversation.state is State.ENDED


def test_a_session_from_hello_to_end():
    conversation = Conversation()

    for role, kind in [
        (Role.CLIENT, "hello"),
        (Role.SERVER, "welcome"),
        (Role.CLIENT, "ready"),
        (Role.SERVER, "decision.request"),
        (Role.CLIENT, "ping"),
        (Role.SERVER, "pong"),
        (Role.CLIENT, "decision.reply"),
        (Role.SERVER, "session.end"),
    ]:
        assert not conversation.over
        conversation.follow(role, kind)

    assert conversation.over


def test_a_reply_to_nothing_is_unexpected():
    conversation = at(State.NEGOTIATED)

    with pytest.raises(ProtocolError) as caught:
        conversation.follow(Role.CLIENT, "decision.reply")

    assert list(caught.value.supported) == ["bye", "ping", "ready"]


# ---------------------------------------------------------------------- codes


def codes_in_sources():
    """Return where each code literal stands that a `ProtocolError` is made with."""
    found = {}
    for path in chain(*((PROJECT / part).rglob("*.py") for part in ("protocol", "server"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                not isinstance(node, ast.Call)
                or ast.unparse(node.func).split(".")[-1] != "ProtocolError"
            ):
                continue
            named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            for part in ast.walk((node.args[:1] or named)[0]):
                if isinstance(part, ast.Constant):
                    found.setdefault(part.value, []).append(f"{path.name}:{node.lineno}")
    return found


def words_of_the_host():
    """Return every text that stands by itself in the sources of the server's host."""
    return {
        node.value
        for path in (PROJECT / "server/parley_server/host").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_code_of_a_decision_is_that_of_a_refusal_of_the_engine_or_the_host():
    by_engine = {error.code for error in DECISION_ERRORS}

    by_host = {"decision.unsupported", "decision.not_granted", "decision.late"}
    assert by_engine | by_host | {"job.request"} == set(DECISION_CODES)
    assert by_host | {"job.request"} <= words_of_the_host()
    assert not by_host & by_engine


def test_every_cause_has_a_code_of_its_own():
    assert len({error.code for error in DECISION_ERRORS}) == len(DECISION_ERRORS)
    assert not MESSAGE_CODES.keys() & DECISION_CODES.keys()


def test_every_refusal_of_the_engine_is_listed():
    import parley_server.engine.errors as module

    defined = {
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, module.DecisionError)
    }

    assert defined - {module.DecisionError} == set(DECISION_ERRORS)


def test_every_code_in_the_sources_is_registered():
    found = codes_in_sources()

    unknown = {code: places for code, places in found.items() if code not in MESSAGE_CODES}

    assert unknown == {}
    assert "message.unexpected" in found


def test_every_registered_code_stands_in_the_sources():
    unused = MESSAGE_CODES.keys() - codes_in_sources().keys() - words_of_the_host()

    assert unused == set()


@pytest.mark.parametrize("code", [*MESSAGE_CODES, *DECISION_CODES])
def test_every_code_says_its_cause_and_its_remedy(code):
    info = {**MESSAGE_CODES, **DECISION_CODES}[code]

    assert info.cause.endswith(".")
    assert info.remedy.endswith(".")
    assert code == code.lower()
    assert code.count(".") == 1


# ---------------------------------------------------------------------- the error


@given(
    code=st.sampled_from(sorted(MESSAGE_CODES)),
    path=st.none() | st.just("body.job"),
    supported=st.lists(st.sampled_from(KINDS), max_size=3),
    fatal=st.booleans(),
)
def test_the_body_of_an_error_holds_what_the_error_does(code, path, supported, fatal):
    error = ProtocolError(code, "no", path, supported, fatal)

    body = error.body()

    assert (body["code"], body["message"], body["fatal"]) == (code, "no", fatal)
    assert body.get("path") == path
    assert body.get("supported", []) == supported


def test_an_error_names_the_field_the_way_out_and_the_code():
    error = ProtocolError("message.unknown", "no such message", "type", ["bye", "hello"])

    assert str(error) == "type: no such message (expected: bye, hello) [message.unknown]"
