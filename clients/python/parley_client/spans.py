"""Where a job lies: spans of nodes, in one spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Span(NamedTuple):
    """Nodes first to last, each with so many chunks of a job."""

    first: int
    last: int
    chunks: int


class Merged(tuple[Span, ...]):
    """Spans that are known to be joined as far as they can be."""

    __slots__ = ()


def merged(spans: Iterable[tuple[int, int, int]]) -> tuple[Span, ...]:
    """Join neighbouring spans with equally many chunks a node; they must ascend."""
    if type(spans) is Merged:
        return spans
    if isinstance(spans, tuple) and len(spans) == 1:
        return (Span(*spans[0]),)
    result: list[Span] = []
    for first, last, chunks in spans:
        if result and result[-1].last + 1 == first and result[-1].chunks == chunks:
            result[-1] = Span(result[-1].first, last, chunks)
        else:
            result.append(Span(first, last, chunks))
    return tuple(result)
