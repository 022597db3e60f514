"""The example session of the specification is what the server says, to the last byte."""

from __future__ import annotations

import copy
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_conformance import ScriptedDispatcher
from parley_protocol import NEXT, Role, State, decode, encode, legal
from parley_protocol.examples import SESSION, SESSION_TRACE
from parley_protocol.messages import CLIENT_MESSAGES, SERVER_MESSAGES
from parley_server.api import load_scenario
from parley_server.version import __version__
from tests.serving import serving
from tests.support import PROJECT


def as_if_ours(welcome):
    """Return a welcome with what differs from server to server as the example has it."""
    ours = copy.deepcopy(welcome)
    shown = next(message for message in SESSION if message["type"] == "welcome")
    assert re.fullmatch("[0-9a-f]{32}", ours["body"]["token"])
    assert re.fullmatch("[0-9a-f]{64}", ours["body"]["scenario"]["digest"])
    assert ours["body"]["server"]["version"] == __version__
    ours["body"]["token"] = shown["body"]["token"]
    ours["body"]["scenario"]["digest"] = shown["body"]["scenario"]["digest"]
    ours["body"]["server"]["version"] = shown["body"]["server"]["version"]
    return ours


def test_the_server_says_every_byte_of_the_example(tmp_path):
    (tmp_path / "tiny.swf").write_text(SESSION_TRACE)
    scenario = load_scenario(
        None, {"platform": {"nodes": 4}, "workload": {"swf": str(tmp_path / "tiny.swf")}}
    )
    with serving(tmp_path, scenario) as server, ScriptedDispatcher(server.endpoint) as peer:
        for said, expected in zip(SESSION[::2], SESSION[1::2], strict=True):
            peer.send_bytes(encode(said))
            frame = peer._socket.recv_multipart()[-1]
            if expected["type"] == "welcome":
                frame = encode(as_if_ours(decode(frame)))

            assert decode(frame) == decode(encode(expected))
            assert frame == encode(expected)

        assert server.reason() == "completed"


# ---------------------------------------------------------------------- the grammar

WORDS = {kind.replace(".", "-"): kind for kind in (*CLIENT_MESSAGES, *SERVER_MESSAGES)}


def grammar():
    """Return the rules of the dialogue as the specification has them."""
    page = (PROJECT / "protocol/spec/transport.md").read_text()
    text = page.partition("## The grammar of the dialogue")[2]
    block = re.search(r"```abnf\n(.*?)```", text, re.DOTALL)[1]
    return {
        name: re.sub(";.*", "", rule).strip()
        for name, rule in (line.split("=", 1) for line in block.splitlines())
        for name in [name.strip()]
    }


def pattern_of(rule, rules):
    """Return a rule as a regular expression over words, each of which ends with a space."""
    parts = []
    for token in re.findall(r"[a-z-]+|[*()/]", rules[rule]):
        match token:
            case "/":
                parts.append("|")
            case "(" | ")" | "*":
                parts.append({"(": "(?:", ")": ")", "*": "*"}[token])
            case "message":
                kinds = "|".join(re.escape(kind) for kind in CLIENT_MESSAGES)
                parts.append(f"(?:(?:{kinds}) )")
            case word if word in rules:
                parts.append(f"(?:{pattern_of(word, rules)})")
            case word:
                parts.append(f"(?:{re.escape(WORDS[word])} )")
    # What is repeated stands behind its star.
    for index in reversed([at for at, part in enumerate(parts) if part == "*"]):
        end = index + 1
        if parts[end] == "(?:":
            end = parts.index(")", end)
        parts[index : end + 1] = ["(?:", *parts[index + 1 : end + 1], ")*"]
    return "".join(parts)


DIALOGUE = re.compile(pattern_of("dialogue", grammar()))


def in_grammar(kinds):
    """Whether the grammar has a dialogue of these messages."""
    return DIALOGUE.fullmatch("".join(f"{kind} " for kind in kinds)) is not None


@st.composite
def walks(draw):
    """Return the messages of a whole dialogue that follows the table; errors now and then."""
    state, kinds = State.NEW, []
    while state is not State.ENDED:
        roles = [role for role in Role if legal(state, role)]
        if roles == [Role.CLIENT] and len(kinds) < 40 and draw(st.integers(0, 5)) == 0:
            kinds += [draw(st.sampled_from(sorted(CLIENT_MESSAGES))), "error"]
            continue
        kind = draw(st.sampled_from(legal(state, roles[0]))) if len(kinds) < 40 else None
        if kind is None:
            kind = next(
                kind
                for kind in ("hello", "bye", "session.end", *legal(state, roles[0]))
                if kind in legal(state, roles[0])
            )
        kinds.append(kind)
        state = NEXT[state, roles[0], kind]
    return kinds


def follows_the_table(kinds):
    """Whether the table allows a dialogue, of which an error refuses the message before it."""
    state, index = State.NEW, 0
    while index < len(kinds):
        refused = index + 1 < len(kinds) and kinds[index + 1] == "error"
        if refused and kinds[index] in CLIENT_MESSAGES and legal(state, Role.CLIENT):
            index += 2
            continue
        roles = [role for role in Role if (state, role, kinds[index]) in NEXT]
        if not roles:
            return False
        state = NEXT[state, roles[0], kinds[index]]
        index += 1
    return state is State.ENDED


@given(kinds=walks())
def test_whatever_follows_the_table_is_in_the_grammar(kinds):
    assert follows_the_table(kinds)
    assert in_grammar(kinds)


@given(kinds=walks(), data=st.data())
def test_whatever_is_in_the_grammar_follows_the_table(kinds, data):
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(kinds)))
        width = data.draw(st.integers(0, 2))
        some = data.draw(st.lists(st.sampled_from(sorted(WORDS.values())), max_size=2))
        kinds = [*kinds[:at], *some, *kinds[at + width :]]

    assert in_grammar(kinds) == follows_the_table(kinds)


@pytest.mark.parametrize("missing", range(len(SESSION)))
def test_the_example_is_in_the_grammar_and_nothing_of_it_can_be_left_out(missing):
    kinds = [message["type"] for message in SESSION]

    assert in_grammar(kinds)
    assert not in_grammar([*kinds[:missing], *kinds[missing + 1 :]])
