"""Bytes as the kit reads and writes them: leniently, noting each breach, and in unusual spellings.

A codec that refuses a frame tells of one fault and yields nothing to go on with. This reader goes
on wherever it can, so that a program with one fault in its encoder is still judged on the rest.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_INTEGER = 2**53 - 1

DEEPEST = 200
"""Levels at which the reader gives up; far beyond what the profile allows."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A breach of the encoding.

    Attributes:
        kind: `truncated`, `trailing`, `malformed`, `type` (bin or ext), `key` (not a text),
            `duplicate`, `text` (not UTF-8), `range`, `finite`.
        what: For people.
    """

    kind: str
    what: str


class _Broken(Exception):
    """Nothing sensible can be read from here on."""


def read(frame: bytes) -> tuple[Any, list[Fault]]:
    """Return the value in a frame, as far as there is one, and what is wrong with its encoding.

    The value is None where nothing could be read.
    """
    reader: _Packed | _Text = _Text(frame) if frame[:1] == b"{" else _Packed(frame)
    try:
        value = reader.read()
    except _Broken:
        return None, reader.faults
    if not isinstance(value, dict):
        reader.faults.append(Fault("malformed", f"a message is a map, not {value!r:.40}"))
        return None, reader.faults
    return value, reader.faults


class _Text:
    """JSON text."""

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self.faults: list[Fault] = []

    def read(self) -> Any:
        try:
            text = self._frame.decode()
        except UnicodeDecodeError as error:
            self.faults.append(Fault("text", f"the text is not UTF-8: {error.reason}"))
            text = self._frame.decode(errors="replace")
        decoder = json.JSONDecoder(object_pairs_hook=self._map, parse_constant=self._constant)
        try:
            value, end = decoder.raw_decode(text)
        except (ValueError, RecursionError) as error:
            self.faults.append(Fault("malformed", f"not JSON: {error}"))
            raise _Broken from None
        if text[end:].strip(" \t\r\n"):
            self.faults.append(Fault("trailing", f"{text[end:].strip()[:20]!r} follows the value"))
        self._check(value)
        return value

    def _map(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            self.faults.append(Fault("duplicate", f"the key {twice!r} stands twice in one map"))
        return result

    def _constant(self, name: str) -> float:
        self.faults.append(Fault("finite", f"{name} is no number of the profile"))
        return 0.0

    def _check(self, value: Any) -> None:
        match value:
            case dict():
                for key, item in value.items():
                    self._check(key)
                    self._check(item)
            case list():
                for item in value:
                    self._check(item)
            case str() if any("\ud800" <= mark <= "\udfff" for mark in value):
                self.faults.append(Fault("text", "half a surrogate pair stands in a text"))
            case bool():
                pass
            case int() if abs(value) > MAX_INTEGER:
                self.faults.append(Fault("range", f"{value} is beyond 2^53 - 1"))


class _Packed:
    """MessagePack."""

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._at = 0
        self.faults: list[Fault] = []

    def read(self) -> Any:
        value = self._value(0)
        left = len(self._frame) - self._at
        if left:
            self.faults.append(Fault("trailing", f"{left} bytes follow the value"))
        return value

    def _fault(self, kind: str, what: str) -> None:
        self.faults.append(Fault(kind, f"{what}, at byte {self._at}"))

    def _give_up(self, kind: str, what: str) -> NoReturn:
        self._fault(kind, what)
        raise _Broken

    def _take(self, size: int) -> bytes:
        piece = self._frame[self._at : self._at + size]
        if len(piece) < size:
            self._give_up("truncated", "the frame ends before the value does")
        self._at += size
        return piece

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _value(self, depth: int) -> Any:
        if depth > DEEPEST:
            self._give_up("malformed", f"nested deeper than {DEEPEST}")
        tag = self._take(1)[0]
        if tag < 0x80:
            return tag
        if tag < 0x90:
            return self._map(tag & 0x0F, depth)
        if tag < 0xA0:
            return self._array(tag & 0x0F, depth)
        if tag < 0xC0:
            return self._text(tag & 0x1F)
        if tag >= 0xE0:
            return tag - 0x100
        return self._tagged(tag, depth)

    def _tagged(self, tag: int, depth: int) -> Any:
        match tag:
            case 0xC0:
                return None
            case 0xC2 | 0xC3:
                return tag == 0xC3
            case 0xC4 | 0xC5 | 0xC6:
                return self._binary(self._number((">B", ">H", ">I")[tag - 0xC4]))
            case 0xC7 | 0xC8 | 0xC9:
                return self._extension(self._number((">B", ">H", ">I")[tag - 0xC7]))
            case 0xCA | 0xCB:
                return self._float(self._number(">f" if tag == 0xCA else ">d"))
            case 0xD4 | 0xD5 | 0xD6 | 0xD7 | 0xD8:
                return self._extension(1 << (tag - 0xD4))
            case 0xD9 | 0xDA | 0xDB:
                return self._text(self._number((">B", ">H", ">I")[tag - 0xD9]))
            case 0xDC | 0xDD:
                return self._array(self._number(">H" if tag == 0xDC else ">I"), depth)
            case 0xDE | 0xDF:
                return self._map(self._number(">H" if tag == 0xDE else ">I"), depth)
            case 0xC1:
                return self._give_up("malformed", "0xc1 begins no value")
            case _:
                return self._integer(self._number(_INTEGERS[tag]))

    def _integer(self, value: int) -> int:
        if abs(value) > MAX_INTEGER:
            self._fault("range", f"{value} is beyond 2^53 - 1")
        return value

    def _float(self, value: float) -> float:
        if not math.isfinite(value):
            self._fault("finite", f"{value} is no number of the profile")
            return 0.0
        return value

    def _text(self, size: int) -> str:
        raw = self._take(size)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self._fault("text", f"{raw[:20]!r} is not UTF-8")
            return raw.decode(errors="replace")

    def _binary(self, size: int) -> str:
        raw = self._take(size)
        self._fault("type", f"bin of {size} bytes")
        return raw.decode(errors="replace")

    def _extension(self, size: int) -> None:
        code = self._number(">b")
        self._take(size)
        self._fault("type", f"extension type {code}")

    def _array(self, count: int, depth: int) -> list[Any]:
        return [self._value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for _ in range(count):
            key = self._value(depth + 1)
            if not isinstance(key, str):
                self._fault("key", f"{key!r:.20} is a key and no text")
                key = str(key)
            if key in result:
                self._fault("duplicate", f"the key {key!r} stands twice in one map")
            result[key] = self._value(depth + 1)
        return result


_INTEGERS = {
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}

# ---------------------------------------------------------------------- writing


def packed(value: Any, *, wide: bool = False, text: Callable[[str], bytes] | None = None) -> bytes:
    """Return a value in MessagePack; *wide* takes the longest form of every length and number."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return _packed_integer(value, wide=wide)
        case float():
            return struct.pack(">Bd", 0xCB, value)
        case str():
            return text(value) if text is not None else _packed_text(value, wide=wide)
        case dict():
            items = b"".join(
                packed(part, wide=wide, text=text) for pair in value.items() for part in pair
            )
            return _header(len(value), 0x80, 0xDE, wide=wide) + items
        case list() | tuple():
            items = b"".join(packed(item, wide=wide, text=text) for item in value)
            return _header(len(value), 0x90, 0xDC, wide=wide) + items
        case _:
            raise TypeError(f"{value!r} is no value of a message")


def _header(count: int, short: int, long: int, *, wide: bool) -> bytes:
    if count < 16 and not wide:
        return bytes([short | count])
    if count < 2**16 and not wide:
        return struct.pack(">BH", long, count)
    return struct.pack(">BI", long + 1, count)


def _packed_text(value: str, *, wide: bool) -> bytes:
    raw = value.encode()
    if len(raw) < 32 and not wide:
        return bytes([0xA0 | len(raw)]) + raw
    if len(raw) < 2**8 and not wide:
        return struct.pack(">BB", 0xD9, len(raw)) + raw
    if len(raw) < 2**16 and not wide:
        return struct.pack(">BH", 0xDA, len(raw)) + raw
    return struct.pack(">BI", 0xDB, len(raw)) + raw


def _packed_integer(value: int, *, wide: bool) -> bytes:
    if wide:
        return struct.pack(">BQ", 0xCF, value) if value >= 0 else struct.pack(">Bq", 0xD3, value)
    if 0 <= value < 128:
        return bytes([value])
    if -32 <= value < 0:
        return struct.pack(">b", value)
    forms = _UNSIGNED if value >= 0 else _SIGNED
    for tag, form, most in forms:
        if (value if value >= 0 else -value - 1) <= most:
            return struct.pack(">B" + form, tag, value)
    raise OverflowError(f"{value} does not fit into 64 bits")


_UNSIGNED = (
    (0xCC, "B", 2**8 - 1),
    (0xCD, "H", 2**16 - 1),
    (0xCE, "I", 2**32 - 1),
    (0xCF, "Q", 2**64 - 1),
)
_SIGNED = (
    (0xD0, "b", 2**7 - 1),
    (0xD1, "h", 2**15 - 1),
    (0xD2, "i", 2**31 - 1),
    (0xD3, "q", 2**63 - 1),
)


def plainly(message: Mapping[str, Any], *, json_text: bool = False) -> bytes:
    """Return a message as most programs would write it."""
    if json_text:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return packed(message)


def with_floats(value: Any) -> Any:
    """Return a value with every integer as the float of that value, but for the envelope's `v`."""
    match value:
        case bool():
            return value
        case int():
            return float(value)
        case dict():
            return {key: with_floats(item) for key, item in value.items()}
        case list() | tuple():
            return [with_floats(item) for item in value]
        case _:
            return value


def backwards(value: Any) -> Any:
    """Return a value with the keys of all its maps in reverse order."""
    match value:
        case dict():
            return {key: backwards(item) for key, item in reversed(value.items())}
        case list() | tuple():
            return [backwards(item) for item in value]
        case _:
            return value


def with_excess(value: Any, open_maps: frozenset[str], *, inside: bool = True) -> Any:
    """Return a value with unknown fields in every map whose keys are fields, not names.

    Args:
        value: What to add to.
        open_maps: Fields whose maps have keys that are names, which mean something.
        inside: Whether this map is one of fields.
    """
    match value:
        case dict():
            twin = {
                key: with_excess(item, open_maps, inside=key not in open_maps)
                for key, item in value.items()
            }
            return (
                {"x_first": None, **twin, "x_last": {"deep": [1, {"deeper": "?"}]}}
                if inside
                else twin
            )
        case list() | tuple():
            return [with_excess(item, open_maps, inside=inside) for item in value]
        case _:
            return value


def spelled_oddly(value: Any) -> str:
    """Return a value as JSON text that is legal and hard for whoever only looks like a parser."""
    match value:
        case bool() | None:
            return json.dumps(value)
        case int() if value and value % 100 == 0:
            return f"{value // 100}e+02"
        case int() | float():
            return json.dumps(value)
        case str():
            return '"' + "".join(_escaped(mark) for mark in value) + '"'
        case dict():
            pairs = (
                f"{spelled_oddly(key)} :\t{spelled_oddly(item)}" for key, item in value.items()
            )
            return "{" + " ,\r\n".join(pairs) + "\n}"
        case _:
            return "[ " + "\n, ".join(spelled_oddly(item) for item in value) + " ]"


def _escaped(mark: str) -> str:
    if mark == "/":
        return "\\/"
    if mark in "aeiou" or not mark.isascii() or mark in '"\\' or not mark.isprintable():
        units = mark.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
    return mark
