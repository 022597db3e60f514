"""Bytes to messages and back: the MessagePack profile, then the shape of the message."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgpack
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from parley_protocol.errors import ProtocolError
from parley_protocol.messages import (
    CLIENT_MESSAGES,
    SERVER_MESSAGES,
    ClientMessage,
    ServerMessage,
)
from parley_protocol.scalars import MAX_INTEGER, integral

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_UNIONS = frozenset({"decisions", "events"})
"""Fields whose items are of one kind or another."""

_LONGEST_STEP = 64
"""Characters of a name that an error repeats."""


class Dialect(Enum):
    """How messages are written; a session keeps to the one its hello came in."""

    MESSAGEPACK = "MessagePack"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a receiver bears in one message.

    Attributes:
        depth: Of maps and arrays within each other, the message itself included.
        string_bytes: Of one string, encoded.
        array_items: Of one array or map.
        containers: Arrays and maps in all: an empty one is a byte to send and much to keep.
    """

    message_bytes: int
    depth: int
    string_bytes: int
    array_items: int
    containers: int


FROM_CLIENT = Limits(16 * 2**20, 32, 2**18, 1_000_000, 2_000_000)
"""What a server bears; it announces this."""

FROM_SERVER = Limits(2**30, 32, 2**18, 2**24, 2**26)
"""What a client of ours bears: a snapshot of a long queue is long."""

_COUNTED_FROM = 2**20
"""Bytes of a frame in which containers are counted; a shorter one cannot hold many."""


def encode(message: Mapping[str, Any], dialect: Dialect = Dialect.MESSAGEPACK) -> bytes:
    """Return the frame of a message that was built to the profile."""
    if dialect is Dialect.JSON:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return msgpack.packb(message)


def dialect_of(frame: bytes) -> Dialect:
    """Return what a frame is written in: a brace opens no MessagePack map."""
    return Dialect.JSON if frame[:1] == b"{" else Dialect.MESSAGEPACK


def decode(frame: bytes, limits: Limits = FROM_CLIENT) -> dict[str, Any]:
    """Return the map in a frame.

    Raises:
        ProtocolError: It is not one map of the profile, or beyond a limit; `encoding.*` or
            `limit.*`.
    """
    if len(frame) > limits.message_bytes:
        raise ProtocolError(
            "limit.message",
            f"{len(frame)} bytes in one frame; {limits.message_bytes} are the limit",
        )
    if dialect_of(frame) is Dialect.JSON:
        value = _decode_json(frame, limits)
        _check_lengths(value, limits, 1)
    else:
        value = _decode_messagepack(frame, limits)
    if not isinstance(value, dict):
        raise ProtocolError("encoding.malformed", f"a message is a map, not {_called(value)}")
    _check_profile(value, limits.depth)
    return value


def _decode_messagepack(frame: bytes, limits: Limits) -> Any:
    # No array has more items than its frame has bytes: what a header merely claims costs nothing.
    items = min(limits.array_items, len(frame))
    hooks: dict[str, Any] = {"object_pairs_hook": _unique}
    if len(frame) > _COUNTED_FROM:
        hooks = _Counted(limits.containers).hooks()
    try:
        return msgpack.unpackb(
            frame,
            ext_hook=_refuse_extension,
            max_str_len=limits.string_bytes,
            max_array_len=items,
            max_map_len=items,
            strict_map_key=False,
            **hooks,
        )
    except ProtocolError:
        raise
    except msgpack.ExtraData:
        raise ProtocolError("encoding.trailing", "bytes follow the message") from None
    except UnicodeDecodeError:
        raise ProtocolError("encoding.type", "a string is not valid UTF-8") from None
    except (msgpack.StackError, RecursionError):
        raise _too_deep(limits.depth) from None
    except msgpack.FormatError:
        raise ProtocolError("encoding.malformed", "a byte that no MessagePack value has") from None
    except ValueError as error:
        raise _not_messagepack(str(error), limits) from None
    except (TypeError, OverflowError) as error:
        raise ProtocolError("encoding.type", f"a key is a string: {error}") from None


_TOO_LONG = re.compile(r"(\d+) exceeds max_(\w+)_len")


def _not_messagepack(told: str, limits: Limits) -> ProtocolError:
    """Return the cause behind a `ValueError` of msgpack's, which its text alone tells."""
    if long := _TOO_LONG.match(told):
        length, kind = int(long[1]), long[2]
        if kind in {"bin", "ext"}:
            return ProtocolError("encoding.type", f"{kind} is not in the profile")
        if kind != "str" and length <= limits.array_items:
            return _cut_off()
        return ProtocolError("limit.length", f"a length beyond the limit: {told}")
    if "incomplete" in told:
        return _cut_off()
    # What is left are timestamps, which are read before our hook could refuse them.
    return ProtocolError("encoding.type", f"no extension type is in the profile: {told}")


def _decode_json(frame: bytes, limits: Limits) -> Any:
    _check_containers(frame, limits.containers)
    try:
        return json.loads(
            frame.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise _cut_off() from None
        raise ProtocolError("encoding.type", "the text is not valid UTF-8") from None
    except RecursionError:
        raise _too_deep(limits.depth) from None
    except json.JSONDecodeError as error:
        raise _not_json(error) from None
    except ValueError:
        raise ProtocolError("encoding.type", "an integer is beyond 2^53 - 1") from None


_CUT_OFF = re.compile(
    r"""\s*
    | ".*                                                       # a string without an end
    | t|tr|tru | f|fa|fal|fals | n|nu|nul                       # true, false, null
    | - | \.|[eE][+-]?                                          # a number behind its digits
    | u[0-9a-fA-F]{0,4}                                         # an escape
    """,
    re.DOTALL | re.VERBOSE,
)
"""What a parser of JSON stumbles over where a text ends too soon."""


def _not_json(error: json.JSONDecodeError) -> ProtocolError:
    if error.msg == "Extra data":
        return ProtocolError("encoding.trailing", f"text follows the message, at {error.pos}")
    if error.msg.startswith("Unterminated") or _CUT_OFF.fullmatch(error.doc, error.pos):
        return _cut_off()
    return ProtocolError(
        "encoding.malformed", f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}, at {error.pos}"
    )


def _cut_off() -> ProtocolError:
    return ProtocolError("encoding.truncated", "the frame ends before the message does")


_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def _check_containers(frame: bytes, most: int) -> None:
    """Count the maps and arrays of a JSON text before any of them is made."""
    if frame.count(b"[") + frame.count(b"{") <= most:
        return
    bare = _JSON_STRING.sub(b"", frame)
    if bare.count(b"[") + bare.count(b"{") > most:
        raise _too_many(most)


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
        return _exact(kind).validate_python(value)
    except ValidationError:
        # Where an integer was written as a float, or something is wrong.
        pass
    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        raise _invalid(error) from None


@cache
def _exact(kind: str) -> SchemaValidator:
    """Return a validator of those messages whose integers are integers: it calls no Python."""
    return SchemaValidator(_without_conversion(adapter(kind).core_schema))


def _without_conversion(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_conversion(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "function-before" and schema["function"]["function"] is integral:
        return schema["schema"]
    return {key: _without_conversion(part) for key, part in schema.items()}


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


class _Counted:
    """The hooks of a decoder that gives up when there are too many maps and arrays."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._most = most

    def hooks(self) -> dict[str, Any]:
        return {"object_pairs_hook": self._map, "list_hook": self._array}

    def _map(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._count()
        return _unique(pairs)

    def _array(self, items: list[Any]) -> list[Any]:
        self._count()
        return items

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _too_many(self._most)


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ProtocolError(
            "encoding.duplicate_key", f"the key {_called(twice)} stands twice in one map"
        )
    return result


def _refuse_extension(code: int, data: bytes) -> NoReturn:  # noqa: ARG001 - the hook's signature
    raise ProtocolError("encoding.type", f"extension type {code} is not in the profile")


def _refuse_constant(name: str) -> NoReturn:
    raise ProtocolError("encoding.type", f"{name} is not in the profile")


def _too_deep(depth: int) -> ProtocolError:
    return ProtocolError("limit.depth", f"nested deeper than {depth}")


def _too_many(most: int) -> ProtocolError:
    return ProtocolError("limit.length", f"more than {most} maps and arrays in one message")


def _check_profile(message: dict[Any, Any], most: int) -> None:
    """Look at what a decoder lets through and the profile does not, level by level."""
    depth, level = most, [message]
    while level:
        if not depth:
            raise _too_deep(most)
        depth -= 1
        deeper = []
        for container in level:
            items: Iterable[Any] = container
            if type(container) is dict:
                for key in container:
                    if type(key) is not str:
                        raise ProtocolError(
                            "encoding.type", f"a key is a string, not {_called(key)}"
                        )
                items = container.values()
            for item in items:
                kind = type(item)
                # By how often they come: a call for each would take most of the time.
                if kind is str:
                    continue
                if kind is int:
                    if not -MAX_INTEGER <= item <= MAX_INTEGER:
                        raise ProtocolError(
                            "encoding.type", f"the integer {item} is beyond 2^53 - 1"
                        )
                elif kind is dict or kind is list:
                    deeper.append(item)
                elif item is not None and kind is not bool:
                    _check_rare(item)
        level = deeper


def _check_rare(value: Any) -> None:
    if type(value) is not float:
        raise ProtocolError(
            "encoding.type", f"{_called(value)} is not in the profile (strings are str, not bin)"
        )
    if not math.isfinite(value):
        raise ProtocolError("encoding.type", f"{value} is not in the profile")


def _check_lengths(value: Any, limits: Limits, depth: int) -> None:
    """Walk JSON for what MessagePack's decoder looks after by itself."""
    if depth > limits.depth + 1:
        raise _too_deep(limits.depth)
    match value:
        case str():
            _check_text(value, limits)
        case list():
            _check_items(len(value), limits)
            for item in value:
                _check_lengths(item, limits, depth + 1)
        case dict():
            _check_items(len(value), limits)
            for key, item in value.items():
                _check_text(key, limits)
                _check_lengths(item, limits, depth + 1)


def _check_text(text: str, limits: Limits) -> None:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise ProtocolError("encoding.type", "half a surrogate pair is no text") from None
    if size > limits.string_bytes:
        raise ProtocolError(
            "limit.length", f"a string of {size} bytes; {limits.string_bytes} are the limit"
        )


def _check_items(count: int, limits: Limits) -> None:
    if count > limits.array_items:
        raise ProtocolError(
            "limit.length", f"{count} items in one; {limits.array_items} are the limit"
        )
