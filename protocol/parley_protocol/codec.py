"""Bytes to messages and back: the MessagePack profile, then the shape of the message."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgpack
from pydantic import TypeAdapter, ValidationError

from parley_protocol.errors import ProtocolError
from parley_protocol.messages import (
    CLIENT_MESSAGES,
    SERVER_MESSAGES,
    ClientMessage,
    ServerMessage,
)
from parley_protocol.scalars import MAX_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""What a server takes in one frame."""

MAX_DEPTH = 32
"""How deep maps and arrays may be nested."""

_UNIONS = frozenset({"decisions", "events"})
"""Fields whose items are of one kind or another."""

_LONGEST_STEP = 64
"""Characters of a name that an error repeats."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return the frame of a message that was built to the profile."""
    return msgpack.packb(message)


def decode(frame: bytes) -> dict[str, Any]:
    """Return the map in a frame.

    Raises:
        ProtocolError: It is not one map of the profile; `encoding.malformed`.
    """
    if len(frame) > MAX_MESSAGE_BYTES:
        raise _malformed(f"{len(frame)} bytes in one frame; {MAX_MESSAGE_BYTES} are the limit")
    try:
        value = msgpack.unpackb(frame, object_pairs_hook=_unique, ext_hook=_refuse_extension)
    except ProtocolError:
        raise
    except msgpack.ExtraData:
        raise _malformed("bytes follow the message") from None
    except UnicodeDecodeError:
        raise _malformed("a string is not valid UTF-8") from None
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise _malformed(f"not MessagePack: {str(error) or type(error).__name__}") from None
    if not isinstance(value, dict):
        raise _malformed(f"a message is a map, not {_called(value)}")
    _check_profile(value, 1)
    return value


def read_client_message(value: dict[str, Any]) -> ClientMessage:
    """Return what a client sent, validated.

    Raises:
        ProtocolError: `message.unknown` or `message.invalid`.
    """
    return cast("ClientMessage", _read(value, CLIENT_MESSAGES))


def read_server_message(value: dict[str, Any]) -> ServerMessage:
    """Return what a server sent, validated.

    Raises:
        ProtocolError: `message.unknown` or `message.invalid`.
    """
    return cast("ServerMessage", _read(value, SERVER_MESSAGES))


@cache
def adapter(kind: str) -> TypeAdapter[Any]:
    """Return the validator of a type of message, built when it is first needed.

    Raises:
        KeyError: There is no such message.
    """
    return TypeAdapter({**CLIENT_MESSAGES, **SERVER_MESSAGES}[kind])


def _read(value: dict[str, Any], messages: Mapping[str, type[Any]]) -> Any:
    kind = value.get("type")
    if not isinstance(kind, str):
        raise ProtocolError(
            "message.invalid", "the type of the message, a string, is missing", "type"
        )
    if kind not in messages:
        raise ProtocolError(
            "message.unknown",
            f"no message {kind[:64]!r} is defined in this direction",
            "type",
            sorted(messages),
        )
    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> ProtocolError:
    first = error.errors(include_url=False, include_input=True)[0]
    path = ".".join(_fields(first["loc"]))
    message = first["msg"]
    if first["type"] != "missing":
        message += f", not {_called(first['input'])}"
    return ProtocolError("message.invalid", message[:1].lower() + message[1:], path or None)


def _fields(location: Sequence[int | str]) -> Iterator[str]:
    """Yield the steps of a location that are fields; a union adds the name of its branch."""
    for depth, step in enumerate(location):
        if depth > 1 and location[depth - 2] in _UNIONS and isinstance(location[depth - 1], int):
            continue
        yield str(step)[:_LONGEST_STEP]


def _called(value: Any) -> str:
    """Name a value in an error, shortly."""
    match value:
        case None:
            return "nil"
        case bool() | int() | float():
            return str(value).lower() if isinstance(value, bool) else str(value)[:32]
        case str():
            return repr(value[:32])
        case list() | tuple():
            return f"an array of {len(value)}"
        case dict():
            return f"a map of {len(value)}"
        case _:
            return f"a {type(value).__name__}"


def _malformed(message: str) -> ProtocolError:
    return ProtocolError("encoding.malformed", message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise _malformed(f"the key {twice[:64]!r} stands twice in one map")
    return result


def _refuse_extension(code: int, data: bytes) -> NoReturn:  # noqa: ARG001 - the hook's signature
    raise _malformed(f"extension type {code} is not in the profile")


def _check_profile(value: Any, depth: int) -> None:
    """Walk what msgpack lets through and the profile does not."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise _malformed(f"the integer {value} is beyond 2^53 - 1")
    elif kind is list:
        if depth > MAX_DEPTH:
            raise _malformed(f"nested deeper than {MAX_DEPTH}")
        for item in value:
            _check_profile(item, depth + 1)
    elif kind is dict:
        if depth > MAX_DEPTH:
            raise _malformed(f"nested deeper than {MAX_DEPTH}")
        for key, item in value.items():
            if type(key) is not str:
                raise _malformed(f"a key is a string, not {_called(key)}")
            _check_profile(item, depth + 1)
    elif kind is float:
        if not math.isfinite(value):
            raise _malformed(f"{value} is not in the profile")
    else:
        raise _malformed(f"{_called(value)} is not in the profile (strings are str, not bin)")
