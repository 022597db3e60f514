"""Settings of a session: what it does about a dispatcher that errs, is late or is gone."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from parley_server.engine import NodeChange, NodesDown, NodesUp
from parley_server.errors import UsageError
from parley_server.host.conduct import Conduct, Latency
from parley_server.quantities import format_seconds, parse_duration
from parley_server.settings import Settings, integral

_FACTOR = re.compile(r"\d{1,9}(\.\d{1,9})?")
_NODES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_LONGEST_US = 2**53


def duration_text(value: str | int) -> str:
    """Return a duration in its one spelling.

    Raises:
        ValueError: It is none, or no wall clock will see its end.
    """
    try:
        microseconds = parse_duration(str(value))
    except UsageError as error:
        raise ValueError(str(error)) from None
    if microseconds >= _LONGEST_US:
        raise ValueError("a duration is shorter than 285 years")
    return f"{format_seconds(microseconds)}s"


def positive_duration_text(value: str | int) -> str:
    """Return a duration that is longer than nothing, in its one spelling.

    Raises:
        ValueError: It is not.
    """
    text = duration_text(value)
    if text == "0s":
        raise ValueError("it must be longer than 0 s")
    return text


Duration = Annotated[
    str | int,
    Field(description="Seconds, or text such as 90s, 5m, 4h, 2d."),
    BeforeValidator(integral),
    AfterValidator(duration_text),
]

PositiveDuration = Annotated[
    str | int,
    Field(description="Seconds, or text such as 90s, 5m, 4h, 2d; not 0."),
    BeforeValidator(integral),
    AfterValidator(positive_duration_text),
]


def parse_latency(text: str) -> Latency:
    """Return what `zero`, `measured`, `fixed:5s` or `scaled:2.5` says.

    Raises:
        UsageError: The text is something else.
    """
    model, _, detail = text.partition(":")
    if text in {"zero", "measured"}:
        return Latency("zero" if text == "zero" else "measured")
    if model == "fixed" and detail:
        return Latency("fixed", fixed_us=parse_duration(duration_text_of(detail)))
    if model == "scaled" and _FACTOR.fullmatch(detail):
        return Latency("scaled", factor=float(detail))
    raise UsageError(f"{text!r} is no latency; write zero, measured, fixed:5s or scaled:2.5")


def duration_text_of(text: str) -> str:
    """Return a duration in its one spelling.

    Raises:
        UsageError: It is none.
    """
    try:
        return duration_text(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def parse_nodes(text: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges of nodes in `0-3 7`, ascending.

    Raises:
        UsageError: The text is something else.
    """
    ranges: list[tuple[int, int]] = []
    for part in text.replace(",", " ").split():
        match = _NODES.fullmatch(part)
        if match is None:
            raise UsageError(f"{part!r} names no nodes; write 7 or 0-3, parted by spaces")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first or (ranges and first <= ranges[-1][1]):
            raise UsageError(f"{text!r}: nodes ascend and stand there once")
        ranges.append((first, last))
    if not ranges:
        raise UsageError("no nodes are named; write 7 or 0-3, parted by spaces")
    return tuple(ranges)


class SessionSettings(Settings):
    """What the server does about a dispatcher that errs, is late or is gone."""

    on_reject: Literal["report", "reask", "fail"] = Field(
        default="report",
        description="A refused decision is reported, asked about again, or fails the run.",
    )
    reasks: Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(integral)] = Field(
        default=3, description="How often one instant is asked about again."
    )
    on_timeout: Literal["fail", "empty", "detach"] = Field(
        default="fail",
        description="A late reply fails the run, counts as empty, or the session is to be resumed.",
    )
    on_disconnect: Literal["fail", "wait"] = Field(
        default="fail",
        description="A dispatcher that is gone fails the run, or is waited for to resume.",
    )
    reconnect: PositiveDuration = Field(
        default="60s", description="How long to wait for a resume, in wall time."
    )
    restarts: Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(integral)] = Field(
        default=3,
        description="How often a command that exits is started again, with on_disconnect = wait.",
    )
    latency: str = Field(
        default="zero",
        description="What a decision takes in simulated time: zero, fixed:5s, scaled:2, measured.",
    )
    dynamic_jobs: bool = Field(
        default=False, description="Whether a dispatcher may bring in jobs of its own."
    )
    state_digest: bool = Field(
        default=False, description="Send a digest of the state with every request; slow."
    )

    @field_validator("latency")
    @classmethod
    def _is_latency(cls, text: str) -> str:
        try:
            latency = parse_latency(text)
        except UsageError as error:
            raise ValueError(str(error)) from None
        if latency.model == "fixed":
            return f"fixed:{format_seconds(latency.fixed_us)}s"
        return text

    def conduct(self, *, deadline_us: int, on_node_down: Literal["kill", "requeue"]) -> Conduct:
        """Return these settings as a session takes them."""
        return Conduct(
            on_reject=self.on_reject,
            reasks=self.reasks,
            on_timeout=self.on_timeout,
            on_disconnect=self.on_disconnect,
            reconnect_us=parse_duration(str(self.reconnect)),
            deadline_us=deadline_us,
            latency=parse_latency(self.latency),
            on_node_down=on_node_down,
            dynamic_jobs=self.dynamic_jobs,
            state_digest=self.state_digest,
        )


class NodeChangeSettings(Settings):
    """An instant at which nodes go out of service or come back."""

    at: Duration = Field(description="Simulated time since time 0.")
    nodes: str = Field(description="Which, as in 0-3 7.")
    state: Literal["down", "up"]

    @field_validator("nodes")
    @classmethod
    def _are_nodes(cls, text: str) -> str:
        try:
            parse_nodes(text)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return text

    def change(self, node_count: int) -> NodeChange:
        """Return the change as the engine takes it.

        Raises:
            UsageError: The machine has no such nodes.
        """
        ranges = parse_nodes(self.nodes)
        if ranges[-1][1] >= node_count:
            raise UsageError(
                f"node_changes: there is no node {ranges[-1][1]}; nodes run from 0 to "
                f"{node_count - 1}"
            )
        kind = NodesDown if self.state == "down" else NodesUp
        return kind(parse_duration(str(self.at)), ranges)
