"""The scalar types of the wire, each with the one meaning that decoder and schema share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, Strict

MAX_INTEGER = 2**53 - 1
"""Beyond this a double no longer tells neighbouring integers apart."""


def integral(value: Any) -> Any:
    """Take 2.0 for 2: JavaScript cannot tell them apart and writes either.

    pydantic's lax integers would take `true` and `"12"` as well, its strict ones refuse 2.0.
    """
    if type(value) is float and value.is_integer():
        return int(value)
    return value


Integer: TypeAlias = Annotated[
    int, Strict(), Field(ge=-MAX_INTEGER, le=MAX_INTEGER), BeforeValidator(integral)
]

Natural: TypeAlias = Annotated[
    int, Strict(), Field(ge=0, le=MAX_INTEGER), BeforeValidator(integral)
]

Positive: TypeAlias = Annotated[
    int, Strict(), Field(ge=1, le=MAX_INTEGER), BeforeValidator(integral)
]

Amount: TypeAlias = Annotated[float, Field(ge=0, le=MAX_INTEGER, allow_inf_nan=False), Strict()]
"""A number that need not be whole; one that is whole may be written as an integer."""

EnvelopeVersion: TypeAlias = Annotated[
    int,
    Strict(),
    Field(ge=1, le=1, description="Version of the envelope."),
    BeforeValidator(integral),
]

Text: TypeAlias = Annotated[str, Strict(), Field(max_length=65_536)]

Flag: TypeAlias = Annotated[bool, Strict()]

Amounts: TypeAlias = dict[Text, Natural]
"""Amount of each resource, by name."""

Attributes: TypeAlias = dict[Text, JsonValue]

SpanArray: TypeAlias = Annotated[
    tuple[Integer, Integer, Integer],
    Field(description="[first node, last node, chunks on each of them]"),
]

NodeRanges: TypeAlias = Annotated[
    list[tuple[Natural, Natural]],
    Field(description="[first node, last node] of each range, ascending and disjoint."),
]

AllocationArray: TypeAlias = Annotated[
    list[list[SpanArray]],
    Field(description="For each group of the request its spans, ascending and disjoint."),
]

Ask: TypeAlias = Literal["always", "actionable"]

StateMode: TypeAlias = Literal["events", "snapshot"]

DecisionMode: TypeAlias = Literal["each", "atomic"]

OnReject: TypeAlias = Literal["report", "reask", "fail"]

OnTimeout: TypeAlias = Literal["fail", "empty", "detach"]

OnDisconnect: TypeAlias = Literal["fail", "wait"]

OnNodeDown: TypeAlias = Literal["kill", "requeue"]

LatencyModel: TypeAlias = Literal["zero", "fixed", "scaled", "measured"]
