"""The vectors say what the codec does, and the transcripts are in order."""

from __future__ import annotations

import io
import json
from hashlib import sha256

import pytest

from parley_client.allocators import FirstFit
from parley_client.view import View
from parley_conformance import wire
from parley_conformance.vectors import codec_vectors, digest_vectors, transcripts
from parley_protocol.codec import decode
from parley_protocol.errors import ProtocolError
from parley_protocol.transcript import TranscriptReader, check_dialogue
from tests.support import PROJECT

FRAMES = json.loads((PROJECT / "schemas" / "vectors" / "codec.json").read_text())["frames"]


def of(*verdicts):
    return [frame for frame in FRAMES if frame["verdict"] in verdicts]


def name(frame):
    return frame["name"]


@pytest.mark.parametrize("frame", of("valid"), ids=name)
def test_a_valid_frame_is_taken_for_its_value(frame):
    assert decode(bytes.fromhex(frame["hex"])) == frame["value"]
    assert wire.read(bytes.fromhex(frame["hex"])) == (frame["value"], [])


@pytest.mark.parametrize("frame", of("invalid", "acceptable"), ids=name)
def test_a_frame_that_no_sender_may_write_is_refused_by_a_server_as_it_says(frame):
    with pytest.raises(ProtocolError) as refused:
        decode(bytes.fromhex(frame["hex"]))

    assert refused.value.code in frame["codes"]


def test_the_committed_vectors_are_the_generated_ones_and_their_names_differ():
    assert codec_vectors()["frames"] == FRAMES
    assert len({name(frame) for frame in FRAMES}) == len(FRAMES) >= 40


STATES = json.loads((PROJECT / "schemas" / "vectors" / "digest.json").read_text())["states"]


@pytest.mark.parametrize("vector", STATES, ids=name)
def test_a_mirror_that_begins_from_a_state_has_the_digest_beside_it(vector):
    view = View({"seed": 0, "platform": vector["platform"], "policy": {}}, FirstFit())
    view.update(
        {
            "now_us": vector["now_us"],
            "attempt": 1,
            "events": [],
            "outcomes": [],
            "state_version": 0,
            "state": vector["state"],
        }
    )

    assert view.digest() == vector["digest"]
    assert sha256(vector["text"].encode()).hexdigest() == vector["digest"]


def test_the_committed_states_are_the_generated_ones_and_their_names_differ():
    assert digest_vectors()["states"] == STATES
    assert len({name(vector) for vector in STATES}) == len(STATES) >= 7


@pytest.mark.parametrize("name", transcripts())
def test_a_transcript_is_in_order(name):
    text = (PROJECT / "schemas" / "transcripts" / f"{name}.jsonl").read_text()

    assert text == transcripts()[name]
    assert check_dialogue(TranscriptReader(io.StringIO(text)).entries()) >= 14
