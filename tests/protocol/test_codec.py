"""The codec: what the profile takes, what it refuses, and that it never fails in another way."""

from __future__ import annotations

import copy
import json
import struct
import time
import tracemalloc
from dataclasses import replace

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley_protocol import (
    FROM_CLIENT,
    MAX_INTEGER,
    MESSAGE_CODES,
    Dialect,
    Limits,
    ProtocolError,
    decode,
    encode,
    read_client_message,
    read_server_message,
)
from parley_protocol.examples import EXAMPLES
from parley_protocol.messages import CLIENT_MESSAGES, SERVER_MESSAGES

DECODING = {code for code in MESSAGE_CODES if code.partition(".")[0] in {"encoding", "limit"}}

both_dialects = pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)

SMALL = Limits(message_bytes=400, depth=4, string_bytes=12, array_items=5, containers=9)

texts = st.text(max_size=12)
integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
scalars = (
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
maps = st.dictionaries(texts, values, max_size=5)


@st.composite
def towers(draw, deepest=FROM_CLIENT.depth):
    """Return a map nested as deep as drawn, arrays and maps in any order."""
    value = draw(scalars)
    for in_array in draw(st.lists(st.booleans(), max_size=deepest - 1)):
        value = [value] if in_array else {draw(texts): value}
    return {draw(texts): value}


@st.composite
def mutated(draw, frames):
    """Return a frame with some bytes replaced, inserted or taken out."""
    frame = bytearray(draw(frames))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(frame) - 1, 0)))
        width = draw(st.integers(0, 3))
        frame[place : place + width] = draw(st.binary(max_size=3))
    return bytes(frame)


def hello(**changes):
    """Return a small valid hello; *changes* go into its body."""
    body = {"versions": ["1.0"], "client": {"name": "c", "version": "1"}, **changes}
    return {"v": 1, "type": "hello", "body": body}


def reply(*decisions, **changes):
    """Return a reply with these decisions; *changes* go into its envelope."""
    body = {"decisions": list(decisions), "state_version": 3}
    envelope = {"v": 1, "type": "decision.reply", "session": "s", "epoch": 1, "re": 2}
    return {**envelope, "body": body, **changes}


def request(*events, **changes):
    """Return a decision request with these events; *changes* go into its body."""
    body = {"now_us": 5, "attempt": 1, "events": list(events), "outcomes": [], "state_version": 3}
    envelope = {"v": 1, "type": "decision.request", "session": "s", "epoch": 1, "seq": 2}
    return {**envelope, "body": {**body, **changes}}


def refused_as(read, value):
    """Return the error with which *read* refuses a value."""
    with pytest.raises(ProtocolError) as caught:
        read(value)
    return caught.value


def code_of(read, value):
    """Return the code with which *read* refuses a value, or None if it takes it."""
    try:
        read(value)
    except ProtocolError as error:
        return error.code
    return None


def same(left, right):
    """Whether two values are equal, types included: 1, 1.0 and true are three values."""
    return repr(left) == repr(right)


# ---------------------------------------------------------------------- laws


@both_dialects
@given(message=maps)
def test_what_is_encoded_is_decoded_to_the_same(dialect, message):
    decoded = decode(encode(message, dialect))

    assert same(decoded, message)


@given(message=maps)
def test_both_dialects_say_the_same(message):
    read = [decode(encode(message, dialect)) for dialect in Dialect]

    assert same(*read)


@both_dialects
@given(message=towers())
def test_nesting_up_to_the_limit_survives(dialect, message):
    decoded = decode(encode(message, dialect))

    assert same(decoded, message)


@both_dialects
@given(message=maps, data=st.data())
def test_whatever_is_cut_off_is_truncated(dialect, message, data):
    frame = encode(message, dialect)
    length = data.draw(st.integers(0, len(frame) - 1))

    error = refused_as(decode, frame[:length])

    assert error.code == "encoding.truncated"


@both_dialects
@given(message=maps, more=st.binary(min_size=1, max_size=8))
def test_whatever_follows_a_message_is_trailing(dialect, message, more):
    # White space ends a JSON text as well as nothing does.
    more = more if dialect is Dialect.MESSAGEPACK else b"x" + more.hex().encode()

    error = refused_as(decode, encode(message, dialect) + more)

    assert error.code == "encoding.trailing"


@given(frame=mutated(maps.map(encode)) | st.binary(max_size=64))
@example(frame=b"")
@example(frame=b"\xd4\xff\x00")  # a timestamp of one byte; there is none
@example(frame=b"\xc7\x0c\xff" + b"\xff" * 12)  # a timestamp of too many nanoseconds
def test_no_bytes_whatever_raise_anything_but_a_protocol_error(frame):
    code = code_of(decode, frame)

    assert code is None or code in DECODING
    if code is None:
        assert same(decode(encode(decode(frame))), decode(frame))


@given(
    frame=mutated(maps.map(lambda message: encode(message, Dialect.JSON)))
    | st.text(max_size=40).map(lambda text: b"{" + text.encode())
)
@example(frame=b'{"k":1e400}')
@example(frame=b'{"k":' + b"9" * 5000 + b"}")
@example(frame=b'{"k":' * 100_000)
def test_no_text_whatever_raises_anything_but_a_protocol_error(frame):
    code = code_of(decode, frame)

    assert code is None or code in DECODING
    if code is None:
        assert same(decode(encode(decode(frame), Dialect.JSON)), decode(frame))


@both_dialects
@given(data=st.data())
def test_no_message_whatever_raises_anything_but_a_protocol_error(dialect, data):
    good = [encode(message, dialect) for message in (hello(), reply(), request())]
    frame = data.draw(mutated(st.sampled_from(good)))
    for read in (read_client_message, read_server_message):
        code = code_of(lambda frame, read=read: read(decode(frame)), frame)

        assert code is None or code in DECODING | {"message.invalid", "message.unknown"}


@given(message=maps)
def test_what_is_within_small_limits_is_within_great_ones(message):
    for dialect in Dialect:
        frame = encode(message, dialect)
        code = code_of(lambda frame: decode(frame, SMALL), frame)

        assert code in {None, "limit.message", "limit.depth", "limit.length"}
        assert code_of(decode, frame) is None


@given(message=maps)
def test_a_map_that_is_no_message_is_refused_in_one_line(message):
    for read in (read_client_message, read_server_message):
        error = refused_as(read, message)

        assert error.code in {"message.invalid", "message.unknown"}
        assert "\n" not in str(error)


@given(number=integers)
def test_an_integral_float_is_the_integer(number):
    job = {"id": 0, "kind": "kill", "job": float(number)}

    read = read_client_message(reply(job))["body"]["decisions"][0]["job"]

    assert type(read) is int
    assert read == float(number)


# ---------------------------------------------------------------------- refusals of the profile


def pack_map_of(packed: bytes) -> bytes:
    """Return the frame of a map whose one value is packed already."""
    return b"\x81\xa1k" + packed


REFUSED = {
    "bin": ("encoding.type", pack_map_of(b"\xc4\x01x")),
    "bin as a key": ("encoding.type", b"\x81\xc4\x01k\x01"),
    "bin of 2^32 - 1": ("encoding.truncated", pack_map_of(b"\xc6\xff\xff\xff\xff")),
    "ext": ("encoding.type", pack_map_of(b"\xd4\x05\x00")),
    "ext of 2^32 - 1": ("encoding.type", pack_map_of(b"\xc9\xff\xff\xff\xff\x05")),
    "timestamp": ("encoding.type", pack_map_of(b"\xd6\xff\x00\x00\x00\x01")),
    "timestamp of one byte": ("encoding.type", pack_map_of(b"\xd4\xff\x00")),
    "timestamp of no instant": ("encoding.type", pack_map_of(b"\xc7\x0c\xff" + b"\xff" * 12)),
    "NaN": ("encoding.type", pack_map_of(b"\xcb" + struct.pack(">d", float("nan")))),
    "infinity": ("encoding.type", pack_map_of(b"\xcb" + struct.pack(">d", float("inf")))),
    "minus infinity": ("encoding.type", pack_map_of(b"\xca" + struct.pack(">f", float("-inf")))),
    "2^53": ("encoding.type", pack_map_of(b"\xcf" + struct.pack(">Q", 2**53))),
    "-2^53": ("encoding.type", pack_map_of(b"\xd3" + struct.pack(">q", -(2**53)))),
    "2^64 - 1": ("encoding.type", pack_map_of(b"\xcf" + b"\xff" * 8)),
    "an integer as a key": ("encoding.type", b"\x81\x01\x01"),
    "nil as a key": ("encoding.type", b"\x81\xc0\x01"),
    "an array as a key": ("encoding.type", b"\x81\x91\x01\x01"),
    "a map as a key": ("encoding.type", b"\x81\x80\x01"),
    "an integer as a key, deep down": ("encoding.type", pack_map_of(b"\x91\x81\x01\x01")),
    "a byte that is no UTF-8": ("encoding.type", pack_map_of(b"\xa1\xff")),
    "a surrogate": ("encoding.type", pack_map_of(b"\xa3\xed\xa0\x80")),
    "a key that is no UTF-8": ("encoding.type", b"\x81\xa1\xff\x01"),
    "a key twice": ("encoding.duplicate_key", b"\x82\xa1k\x01\xa1k\x02"),
    "a key twice, deep down": (
        "encoding.duplicate_key",
        pack_map_of(b"\x91\x82\xa1k\x01\xa1k\x01"),
    ),
    "trailing bytes": ("encoding.trailing", b"\x80\xc0"),
    "two messages": ("encoding.trailing", b"\x80\x80"),
    "plain text": ("encoding.trailing", b"hello, server"),
    "JSON behind white space": ("encoding.trailing", b" {}"),
    "JSON behind a byte order mark": ("encoding.trailing", b"\xef\xbb\xbf{}"),
    "truncated": ("encoding.truncated", encode(hello())[:-1]),
    "an array that does not come": ("encoding.truncated", pack_map_of(b"\xdc\x03\xe8")),
    "nothing": ("encoding.truncated", b""),
    "0xc1": ("encoding.malformed", b"\xc1"),
    "0xc1 inside": ("encoding.malformed", pack_map_of(b"\xc1")),
    "an array": ("encoding.malformed", b"\x90"),
    "a string": ("encoding.malformed", b"\xa5hello"),
    "nil": ("encoding.malformed", b"\xc0"),
    "an integer": ("encoding.malformed", b"\x01"),
    "an array of 2^32 - 1": ("limit.length", pack_map_of(b"\xdd\xff\xff\xff\xff")),
    "a map of 2^32 - 1": ("limit.length", pack_map_of(b"\xdf\xff\xff\xff\xff")),
    "a string of 2^32 - 1": ("encoding.truncated", pack_map_of(b"\xdb\xff\xff\xff\xff")),
    "nesting without end": ("limit.depth", pack_map_of(b"\x91" * 100_000)),
    "JSON: NaN": ("encoding.type", b'{"k":NaN}'),
    "JSON: infinity": ("encoding.type", b'{"k":Infinity}'),
    "JSON: minus infinity": ("encoding.type", b'{"k":-Infinity}'),
    "JSON: beyond every double": ("encoding.type", b'{"k":1e400}'),
    "JSON: 2^53": ("encoding.type", b'{"k":9007199254740992}'),
    "JSON: -2^53": ("encoding.type", b'{"k":-9007199254740992}'),
    "JSON: 5000 digits": ("encoding.type", b'{"k":' + b"9" * 5000 + b"}"),
    "JSON: a byte that is no UTF-8": ("encoding.type", b'{"k":"\xff"}'),
    "JSON: a surrogate in UTF-8": ("encoding.type", b'{"k":"\xed\xa0\x80"}'),
    "JSON: half a surrogate pair": ("encoding.type", b'{"k":"\\ud800"}'),
    "JSON: half a surrogate pair as a key": ("encoding.type", b'{"\\udfff":1}'),
    "JSON: a key twice": ("encoding.duplicate_key", b'{"k":1,"k":2}'),
    "JSON: a key twice, written in two ways": ("encoding.duplicate_key", b'{"k":1,"\\u006b":2}'),
    "JSON: a key twice, deep down": ("encoding.duplicate_key", b'{"k":[{"k":1,"k":1}]}'),
    "JSON: two messages": ("encoding.trailing", b"{}{}"),
    "JSON: a comma behind": ("encoding.trailing", b"{},"),
    "JSON: truncated": ("encoding.truncated", encode(hello(), Dialect.JSON)[:-1]),
    "JSON: cut off in a letter": ("encoding.truncated", b'{"k":"\xc3'),
    "JSON: a brace": ("encoding.truncated", b"{"),
    "JSON: a comma too much": ("encoding.malformed", b'{"k":1,}'),
    "JSON: single quotes": ("encoding.malformed", b"{'k':1}"),
    "JSON: a comment": ("encoding.malformed", b"{/**/}"),
    "JSON: a leading zero": ("encoding.malformed", b'{"k":01}'),
    "JSON: a plus": ("encoding.malformed", b'{"k":+1}'),
    "JSON: a line break in a string": ("encoding.malformed", b'{"k":"\n"}'),
    "JSON: an unknown escape": ("encoding.malformed", b'{"k":"\\x41"}'),
    "JSON: a key without quotes": ("encoding.malformed", b"{k:1}"),
    "JSON: an integer as a key": ("encoding.malformed", b"{1:1}"),
    "JSON: nesting without end": ("limit.depth", b'{"k":' + b"[" * 100_000),
    "JSON: nesting without end, in maps": ("limit.depth", b'{"k":' * 100_000),
}  # fmt: skip


@pytest.mark.parametrize(("code", "frame"), REFUSED.values(), ids=REFUSED)
def test_what_is_outside_the_profile_is_refused_with_the_code_of_its_cause(code, frame):
    error = refused_as(decode, frame)

    assert error.code == code
    assert not error.fatal
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("frame", "value"),
    [
        (b'{"k":1}\n', 1),
        (b'{ "k" : 1 } \r\n', 1),
        (b'{"k":1.0}', 1.0),
        (b'{"k":1e2}', 100.0),
        (b'{"k":"\\ud83d\\ude00"}', "\U0001f600"),
        (b'{"k":"\xf0\x9f\x98\x80"}', "\U0001f600"),
        (b'{"k":-9007199254740991}', -MAX_INTEGER),
    ],
)
def test_json_text_may_be_written_in_every_way_that_json_has(frame, value):
    decoded = decode(frame)

    assert same(decoded, {"k": value})


@both_dialects
@pytest.mark.parametrize("in_arrays", [True, False], ids=["arrays", "maps"])
@pytest.mark.parametrize("inner", [None, [], {}], ids=["nil", "array", "map"])
def test_nesting_ends_at_the_limit(dialect, in_arrays, inner):
    value = inner
    for _ in range(FROM_CLIENT.depth - 1 - (inner is not None)):
        value = [value] if in_arrays else {"k": value}

    deepest = decode(encode({"k": value}, dialect))
    error = refused_as(decode, encode({"k": [value]}, dialect))

    assert same(deepest, {"k": value})
    assert error.code == "limit.depth"


def small(message, dialect):
    """Return what a decoder with small limits makes of a message."""
    return decode(encode(message, dialect), SMALL)


AT_THE_LIMIT = {
    "a string": lambda more: {"k": "x" * (12 + more)},
    "a string of two-byte letters": lambda more: {"k": "\xe9" * 6 + "x" * more},
    "a key": lambda more: {"k" * (12 + more): 1},
    "an array": lambda more: {"k": [0] * (5 + more)},
    "a map": lambda more: {str(number): 0 for number in range(5 + more)},
}


@both_dialects
@pytest.mark.parametrize("at_the_limit", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT)
def test_lengths_end_at_the_limit(dialect, at_the_limit):
    longest = small(at_the_limit(0), dialect)
    error = refused_as(lambda message: small(message, dialect), at_the_limit(1))

    assert same(longest, at_the_limit(0))
    assert error.code == "limit.length"


def test_maps_and_arrays_of_a_text_are_counted_before_they_are_made():
    most = b'{"k":[' + b"[],{}," * 3 + b'"[[[[[["]}'
    one_more = b'{"k":[' + b"[],{}," * 3 + b'[[]],"[\\"[["]}'

    limits = replace(SMALL, array_items=99)

    assert decode(most, limits)["k"][-1] == "[[[[[["
    assert refused_as(lambda frame: decode(frame, limits), one_more).code == "limit.length"


@both_dialects
def test_more_maps_and_arrays_than_the_limit_are_refused(dialect):
    tables = [[[[]] * 999] * 1000 for _ in range(3)]

    error = refused_as(decode, encode({"k": tables}, dialect))

    assert error.code == "limit.length"
    assert "2000000" in error.message


@both_dialects
@pytest.mark.parametrize("number", [MAX_INTEGER, -MAX_INTEGER, 0, -1])
def test_integers_up_to_the_limit_pass(dialect, number):
    decoded = decode(encode({"k": number}, dialect))

    assert same(decoded, {"k": number})


@both_dialects
@pytest.mark.parametrize("number", [5e-324, 1.7976931348623157e308, -0.0, 2.0**53, 0.1])
def test_every_finite_float_passes(dialect, number):
    decoded = decode(encode({"k": number}, dialect))

    assert same(decoded, {"k": number})


@both_dialects
def test_a_frame_ends_at_the_limit(dialect):
    empty = len(encode({"k": "x" * 65_536}, dialect))
    limits = replace(FROM_CLIENT, message_bytes=empty)

    error = refused_as(lambda frame: decode(frame, limits), encode({"k": "x" * 65_537}, dialect))

    assert decode(encode({"k": "x" * 65_536}, dialect), limits)
    assert error.code == "limit.message"
    assert str(empty + 1) in error.message


def test_a_key_that_stands_twice_is_named():
    error = refused_as(decode, b"\x83\xa1a\x01\xa1k\x01\xa1k\x02")

    assert "'k'" in error.message


def test_refusing_a_map_costs_no_more_than_a_few_times_reading_it():
    pairs = [msgpack.packb(str(number)) + b"\xc0" for number in range(16_000)]
    good = b"\xdf" + len(pairs).to_bytes(4, "big") + b"".join(pairs)
    bad = b"\xdf" + (len(pairs) + 1).to_bytes(4, "big") + b"".join([*pairs, pairs[-1]])
    began = time.process_time()
    for _ in range(5):
        decode(good)
    reading = time.process_time() - began

    began = time.process_time()
    refused_as(decode, bad)
    refusing = time.process_time() - began

    assert refusing < 10 * reading


WIDTHS = {
    "integers": (
        1,
        [b"\x01", b"\xcc\x01", b"\xcd\0\x01", b"\xce\0\0\0\x01", b"\xcf" + bytes(7) + b"\x01"]
        + [b"\xd0\x01", b"\xd1\0\x01", b"\xd2\0\0\0\x01", b"\xd3" + bytes(7) + b"\x01"],
    ),
    "negative integers": (
        -1,
        [b"\xff", *(code + b"\xff" * 2**power for power, code in enumerate((b"\xd0", b"\xd1")))]
        + [b"\xd2" + b"\xff" * 4, b"\xd3" + b"\xff" * 8],
    ),
    "floats": (0.5, [b"\xca\x3f\0\0\0", b"\xcb\x3f\xe0" + bytes(6)]),
    "texts": ("x", [b"\xa1x", b"\xd9\x01x", b"\xda\0\x01x", b"\xdb\0\0\0\x01x"]),
    "arrays": ([True], [b"\x91\xc3", b"\xdc\0\x01\xc3", b"\xdd\0\0\0\x01\xc3"]),
    "maps": ({"k": None}, [b"\x81\xa1k\xc0", b"\xde\0\x01\xa1k\xc0", b"\xdf\0\0\0\x01\xa1k\xc0"]),
}  # fmt: skip


@pytest.mark.parametrize(("value", "packed"), WIDTHS.values(), ids=WIDTHS)
def test_values_are_taken_in_every_width(value, packed):
    decoded = [decode(pack_map_of(spelling)) for spelling in packed]

    assert all(same(read, {"k": value}) for read in decoded)


def shuffled(draw, value):
    """Return a value whose maps have their keys in another order."""
    match value:
        case dict():
            items = draw(st.permutations(list(value.items())))
            return {key: shuffled(draw, item) for key, item in items}
        case list():
            return [shuffled(draw, item) for item in value]
        case _:
            return value


@given(data=st.data(), dialect=st.sampled_from(Dialect))
def test_the_order_of_keys_says_nothing(data, dialect):
    message = reply({"id": 0, "kind": "wake", "timer": 1, "at_us": 2})

    read = read_client_message(decode(encode(shuffled(data.draw, message), dialect)))

    assert read == read_client_message(message)


@pytest.mark.parametrize(
    "header", [b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xdd\0\x0f", b"\xdf\0\x0f"]
)
def test_what_a_header_announces_costs_nothing_before_it_comes(header):
    frame = pack_map_of(header + b"\xff" * (5 - len(header)) + b"\x91" * 1000)
    tracemalloc.start()
    try:
        refused_as(decode, frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2**20


# ---------------------------------------------------------------------- scalars


@pytest.mark.parametrize("impostor", [True, False, "12", "", 2.5, None, [], {}, [1], {"k": 1}])
def test_nothing_else_is_an_integer(impostor):
    message = reply({"id": 0, "kind": "kill", "job": impostor})

    error = refused_as(read_client_message, message)

    assert error.code == "message.invalid"
    assert error.path == "body.decisions.0.job"


@pytest.mark.parametrize("impostor", [1, 0, "true", 1.0, None])
def test_nothing_else_is_a_flag(impostor):
    group = {"chunks": 1, "per_chunk": {"core": 1}, "exclusive": impostor}
    job = {"job": 0, "name": "j", "submit_us": 0, "request": [group]}

    error = refused_as(
        read_server_message, request({"kind": "job.submitted", "at_us": 0, "job": job})
    )

    assert error.path == "body.events.0.job.request.0.exclusive"


@pytest.mark.parametrize("impostor", [1, True, None, [], ["s"]])
def test_nothing_else_is_text(impostor):
    error = refused_as(read_client_message, reply(session=impostor))

    assert error.path == "session"


@pytest.mark.parametrize("number", [MAX_INTEGER + 1, -MAX_INTEGER - 1, 2.0**53, -(2.0**53), 1e300])
def test_integers_beyond_the_limit_are_invalid_as_floats_too(number):
    error = refused_as(read_client_message, reply({"id": 0, "kind": "kill", "job": number}))

    assert error.path == "body.decisions.0.job"


@pytest.mark.parametrize("number", [-1, -1.0])
def test_a_negative_number_is_no_natural_one(number):
    error = refused_as(read_client_message, reply(re=number))

    assert error.path == "re"


@pytest.mark.parametrize("factor", [2, 2.0, 2.5, 0])
def test_a_whole_number_is_an_amount(factor):
    welcome = copy.deepcopy(EXAMPLES["welcome-resumed"])
    welcome["body"]["policy"]["latency_factor"] = factor

    read = read_server_message(decode(encode(welcome)))

    assert read["body"]["policy"]["latency_factor"] == factor


@pytest.mark.parametrize("version", [0, 2, True, "1", None])
def test_there_is_one_version_of_the_envelope(version):
    error = refused_as(read_client_message, {**hello(), "v": version})

    assert error.path == "v"


# ---------------------------------------------------------------------- fields


@pytest.mark.parametrize("field", ["capabilities", "ask", "wants", "scenario"])
def test_nil_and_absent_are_the_same_for_an_optional_field(field):
    with_nil = read_client_message(hello(**{field: None}))

    without = read_client_message(hello())

    assert with_nil["body"].get(field) is None
    assert without["body"].get(field) is None


@pytest.mark.parametrize("field", ["versions", "client"])
def test_nil_is_not_a_required_field(field):
    error = refused_as(read_client_message, hello(**{field: None}))

    assert error.path == f"body.{field}"


def test_unknown_fields_are_ignored_at_every_depth():
    client = {"name": "c", "version": "1", "colour": "green"}
    message = {**hello(client=client, mood=[1, {"of": None}]), "future": 1}

    read = read_client_message(message)

    assert "future" not in read
    assert read["body"] == {"versions": ["1.0"], "client": {"name": "c", "version": "1"}}


MISSING = {
    "v": hello(),
    "body": hello(),
    "body.versions": hello(),
    "body.client.version": hello(),
    "re": reply(),
    "body.decisions": reply(),
    "body.decisions.0.id": reply({"id": 0, "kind": "kill", "job": 1}),
    "body.decisions.1.job": reply({"id": 0, "kind": "later"}, {"id": 1, "kind": "start", "job": 1}),
    "body.decisions.0.at_us": reply({"id": 0, "kind": "wake", "timer": 1, "at_us": 1}),
    "body.decisions.2.id": reply(*({"id": n, "kind": "of 2031"} for n in range(3))),
}  # fmt: skip


@pytest.mark.parametrize(("path", "message"), MISSING.items(), ids=MISSING)
def test_a_missing_field_is_named_by_its_path(path, message):
    copy = json.loads(json.dumps(message))
    *above, last = (int(step) if step.isdigit() else step for step in path.split("."))
    table = copy
    for step in above:
        table = table[step]
    del table[last]

    error = refused_as(read_client_message, copy)

    assert error.code == "message.invalid"
    assert error.path == path


def test_a_missing_field_is_named_although_an_unknown_one_has_the_name_of_its_kind():
    error = refused_as(read_client_message, reply({"id": 0, "kind": "start", "start": {}}))

    assert error.path == "body.decisions.0.job"


@pytest.mark.parametrize("kind", [None, 7, ["hello"], True])
def test_a_message_without_a_type_is_invalid(kind):
    error = refused_as(read_client_message, {**hello(), "type": kind})

    assert error.code == "message.invalid"
    assert error.path == "type"


def test_a_message_with_no_type_at_all_is_invalid():
    error = refused_as(read_client_message, {"v": 1, "body": {}})

    assert error.code == "message.invalid"
    assert error.path == "type"


@pytest.mark.parametrize(
    ("read", "messages", "stranger"),
    [
        (read_client_message, CLIENT_MESSAGES, "welcome"),
        (read_client_message, CLIENT_MESSAGES, "state.guess"),
        (read_server_message, SERVER_MESSAGES, "hello"),
        (read_server_message, SERVER_MESSAGES, ""),
    ],
)
def test_an_unknown_type_is_answered_with_the_known_ones(read, messages, stranger):
    error = refused_as(read, {**hello(), "type": stranger})

    assert error.code == "message.unknown"
    assert list(error.supported) == sorted(messages)
    assert not error.fatal
    assert error.body()["supported"] == sorted(messages)


def test_an_error_does_not_repeat_a_long_value():
    error = refused_as(read_client_message, {**hello(), "type": "x" * 100_000})

    assert len(str(error)) < 300


def test_an_error_does_not_repeat_a_long_key():
    key = msgpack.packb("k" * 100_000)

    error = refused_as(decode, b"\x82" + key + b"\x01" + key + b"\x02")

    assert len(str(error)) < 300


def test_an_error_does_not_repeat_a_long_name_in_its_path():
    nodes = [[0, 1, {"k" * 100_000: 1}, "up"]]
    state = {"pending": [], "running": [], "nodes": nodes, "timers": []}

    error = refused_as(read_server_message, request(state=state))

    assert len(str(error)) < 300


# ---------------------------------------------------------------------- what later versions add


def test_a_decision_of_a_later_version_passes_as_such():
    read = read_client_message(reply({"id": 4, "kind": "resize", "job": "any", "to": 1}))

    assert read["body"]["decisions"] == [{"id": 4, "kind": "resize"}]


def test_an_event_of_a_later_version_passes_as_such():
    read = read_server_message(request({"kind": "power.changed", "at_us": 4, "watts": 7}))

    assert read["body"]["events"] == [{"kind": "power.changed", "at_us": 4}]


@pytest.mark.parametrize("decision", [{"id": 4}, {"id": 4, "kind": 3}, {"id": 4, "kind": None}, 4])
def test_a_decision_without_a_kind_is_invalid(decision):
    error = refused_as(read_client_message, reply(decision))

    assert error.code == "message.invalid"
    assert error.path == "body.decisions.0"
    assert "kind" in error.message


def test_a_decision_of_a_known_kind_is_never_taken_for_an_unknown_one():
    error = refused_as(read_client_message, reply({"id": 4, "kind": "wake"}))

    assert error.path == "body.decisions.0.timer"
