"""What judges of both sides have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_conformance.verdicts import Finding, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from parley_conformance.dialogue import Line, Record


def went_on(record: Record) -> Finding | None:
    """Find that the dialogue came to the end that it was to come to."""
    if not record.broke:
        return None
    return failed(record.broke, last_of_kit(record))


def last_of_kit(record: Record) -> int:
    """Return the number of the last line that the kit sent, 0 if there is none."""
    return max((line.number for line in record.of_kit()), default=0)


def each(lines: Iterable[Line], check: Callable[[Line], str | None]) -> Finding | None:
    """Find the first line of which a check has something to say."""
    for line in lines:
        reason = check(line)
        if reason:
            return failed(reason, line.number)
    return None


def without(record: Record, kind: str) -> Finding | None:
    """Find a breach of the encoding of one kind in what the program sent."""
    return each(
        record.of_program(),
        lambda line: next((fault.what for fault in line.faults if fault.kind == kind), None),
    )


def canonical(value: Any) -> Any:
    """Return a value in one spelling: nil is absent, 2.0 is 2, no wall time."""
    match value:
        case dict():
            return {
                key: canonical(item)
                for key, item in value.items()
                if item is not None and key != "compute_us"
            }
        case list() | tuple():
            return [canonical(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def is_number(value: Any) -> bool:
    """Whether a value is a number, as the specification has it."""
    return isinstance(value, int | float) and not isinstance(value, bool)
