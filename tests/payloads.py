"""Bytes that are no message of the protocol, each in its own way, with the code it is due."""

from __future__ import annotations

import struct
from typing import Any

import msgpack


def nested(depth: int) -> bytes:
    """Return a map whose maps and arrays are nested so deep, itself included."""
    value: Any = []
    for _ in range(depth - 2):
        value = [value]
    return msgpack.packb({"deep": value})


UNDECODABLE: dict[str, tuple[str, bytes]] = {
    "garbage": ("encoding.truncated", b"\xde\xad\xbe\xef"),
    "text": ("encoding.trailing", b"hello, server"),
    "never-used-byte": ("encoding.malformed", b"\xc1"),
    "nothing": ("encoding.truncated", b""),
    "trailing-bytes": ("encoding.trailing", msgpack.packb({"v": 1}) + b"\x00"),
    "cut-off": ("encoding.truncated", msgpack.packb({"type": "hello"})[:-1]),
    "extension": ("encoding.type", msgpack.packb({"x": msgpack.ExtType(5, b"abc")})),
    "timestamp": ("encoding.type", b"\x81\xa1x\xd6\xff" + struct.pack(">I", 1)),
    "bin": ("encoding.type", msgpack.packb({"x": b"abc"})),
    "bin-key": ("encoding.type", msgpack.packb({b"x": 1})),
    "number-key": ("encoding.type", msgpack.packb({1: 1})),
    "duplicate-keys": ("encoding.duplicate_key", b"\x82\xa1x\x01\xa1x\x02"),
    "duplicate-types": ("encoding.duplicate_key", b"\x82\xa4type\xa5hello\xa4type\xa3bye"),
    "too-deep": ("limit.depth", nested(33)),
    "much-too-deep": ("limit.depth", b"\x81\xa1x" + b"\x91" * 100_000 + b"\x01"),
    "endless-array": ("limit.length", b"\xdd\xff\xff\xff\xff"),
    "endless-map": ("limit.length", b"\xdf\xff\xff\xff\xff"),
    "endless-string": ("encoding.truncated", b"\xdb\xff\xff\xff\xff"),
    "endless-array-inside": ("limit.length", b"\x81\xa1x\xdd\xff\xff\xff\xff\x01"),
    "array": ("encoding.malformed", msgpack.packb([1, 2])),
    "number": ("encoding.malformed", b"\x07"),
    "nil": ("encoding.malformed", b"\xc0"),
    "not-utf8": ("encoding.type", b"\x81\xa1x\xa2\xc3\x28"),
    "surrogate": ("encoding.type", b"\x81\xa1x\xa3\xed\xa0\x80"),
    "nan": ("encoding.type", msgpack.packb({"x": float("nan")})),
    "infinity": ("encoding.type", msgpack.packb({"x": float("-inf")})),
    "beyond-2^53": ("encoding.type", msgpack.packb({"x": 2**53})),
    "beyond--2^53": ("encoding.type", msgpack.packb({"x": -(2**53)})),
}
