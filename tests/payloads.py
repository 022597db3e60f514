"""Bytes that are no message of the protocol, each in its own way."""

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


UNDECODABLE = {
    "garbage": b"\xde\xad\xbe\xef",
    "text": b"hello, server",
    "never-used-byte": b"\xc1",
    "nothing": b"",
    "trailing-bytes": msgpack.packb({"v": 1}) + b"\x00",
    "cut-off": msgpack.packb({"type": "hello"})[:-1],
    "extension": msgpack.packb({"x": msgpack.ExtType(5, b"abc")}),
    "timestamp": b"\x81\xa1x\xd6\xff" + struct.pack(">I", 1),
    "bin": msgpack.packb({"x": b"abc"}),
    "bin-key": msgpack.packb({b"x": 1}),
    "number-key": msgpack.packb({1: 1}),
    "duplicate-keys": b"\x82\xa1x\x01\xa1x\x02",
    "duplicate-types": b"\x82\xa4type\xa5hello\xa4type\xa3bye",
    "too-deep": nested(33),
    "much-too-deep": b"\x81\xa1x" + b"\x91" * 100_000 + b"\x01",
    "endless-array": b"\xdd\xff\xff\xff\xff",
    "endless-map": b"\xdf\xff\xff\xff\xff",
    "endless-string": b"\xdb\xff\xff\xff\xff",
    "endless-array-inside": b"\x81\xa1x\xdd\xff\xff\xff\xff\x01",
    "array": msgpack.packb([1, 2]),
    "number": b"\x07",
    "nil": b"\xc0",
    "not-utf8": b"\x81\xa1x\xa2\xc3\x28",
    "surrogate": b"\x81\xa1x\xa3\xed\xa0\x80",
    "nan": msgpack.packb({"x": float("nan")}),
    "infinity": msgpack.packb({"x": float("-inf")}),
    "beyond-2^53": msgpack.packb({"x": 2**53}),
    "beyond--2^53": msgpack.packb({"x": -(2**53)}),
}
