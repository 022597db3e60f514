"""Transcripts: what the writer writes is what the specification and the schema say."""

from __future__ import annotations

import hashlib
import json

import pytest
from jsonschema import Draft202012Validator

from parley_protocol import Dialect, decode, encode
from parley_protocol.examples import EXAMPLES, SESSION
from parley_protocol.messages import CLIENT_MESSAGES
from parley_protocol.transcript import TranscriptReader, TranscriptWriter
from tests.support import PROJECT

SECRETS = ("9f8e7d6c5b4a39281706f5e4d3c2b1a0", "00112233445566778899aabbccddeeff")
SCENARIO = {"name": "tiny", "digest": "00"}
SOFTWARE = {"name": "parley", "version": "0"}

MESSAGES = [*SESSION, EXAMPLES["hello-resume"], EXAMPLES["welcome-resumed"]]


def direction(message):
    """Return which way a message goes."""
    return "<" if message["type"] in CLIENT_MESSAGES else ">"


def lines_of(dialect, messages=MESSAGES):
    """Return the lines of a transcript of these messages, and of a frame that is none."""
    writer = TranscriptWriter()
    lines = [writer.header(scenario=SCENARIO, software=SOFTWARE)]
    for message in messages:
        frame = encode(message, dialect)
        charged_us = 7 if message["type"] == "decision.request" else 0
        lines.append(
            writer.message(direction(message), frame, message, now_us=5, charged_us=charged_us)
        )
    lines.append(writer.message("<", b"\xc1", None, now_us=5))
    return [*lines, writer.footer()]


both_dialects = pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)


@both_dialects
def test_a_transcript_has_a_header_numbered_messages_and_a_footer(dialect):
    header, *messages, footer = map(json.loads, lines_of(dialect))

    assert header["transcript"] == 1
    assert header["protocol"] == "1.0"
    assert [line["n"] for line in messages] == list(range(1, len(MESSAGES) + 2))
    assert [line["dir"] for line in messages] == [*map(direction, MESSAGES), "<"]
    assert footer["messages"] == len(messages)


@both_dialects
def test_the_digest_of_a_transcript_is_that_of_all_earlier_lines(dialect):
    *lines, footer = lines_of(dialect)

    assert json.loads(footer)["sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert all(line.count("\n") == 1 for line in lines)


@both_dialects
def test_the_bytes_of_a_transcript_are_those_of_the_wire_but_for_tokens(dialect):
    _, *lines, unreadable, _ = map(json.loads, lines_of(dialect))
    masked = {"hello": "body.resume.token", "welcome": "body.token"}

    for message, line in zip(MESSAGES, lines, strict=True):
        frame = bytes.fromhex(line["bytes"])
        assert decode(frame) == line["view"]
        if "masked" in line:
            assert line["masked"] == [masked[message["type"]]]
        else:
            assert frame == encode(message, dialect)
    assert sum("masked" in line for line in lines) == 3
    assert (unreadable["bytes"], unreadable["view"]) == ("c1", None)


@both_dialects
def test_no_token_is_in_a_transcript(dialect):
    text = "".join(lines_of(dialect))

    for secret in SECRETS:
        assert secret not in text
        assert secret.encode().hex() not in text


def test_what_a_reply_was_charged_stands_with_its_answer():
    _, *lines, _, _ = map(json.loads, lines_of(Dialect.JSON))

    charged = [line["view"]["type"] for line in lines if "charged_us" in line]

    assert set(charged) == {"decision.request"}


@both_dialects
def test_every_line_is_valid_to_the_schema(dialect):
    schema = json.loads((PROJECT / "schemas/transcript.schema.json").read_text())
    validator = Draft202012Validator(schema)

    for line in map(json.loads, lines_of(dialect)):
        validator.validate(line)
        for field in line.keys() - {"masked", "charged_us"}:
            assert not validator.is_valid({**line, field: ["wrong"]})


@both_dialects
def test_a_transcript_is_read_as_it_was_written(dialect):
    reader = TranscriptReader(lines_of(dialect))

    entries = list(reader.entries())

    assert reader.complete
    assert [entry.kind for entry in entries] == [
        *(message["type"] for message in MESSAGES),
        None,
    ]
