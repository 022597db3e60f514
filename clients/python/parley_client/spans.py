"""Where a job lies: spans of nodes, in one spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Span: TypeAlias = tuple[int, int, int]
"""First node, last node, and how many chunks of a job lie on each; a plain tuple, because naming
its parts would take five times as long wherever it is looked at."""


class Merged(tuple[Span, ...]):
    """Spans that are known to be joined as far as they can be."""

    __slots__ = ()


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbouring spans with equally many chunks a node; they must ascend."""
    if type(spans) is Merged:
        return spans
    result: list[Span] = []
    for first, last, chunks in spans:
        if result and result[-1][1] + 1 == first and result[-1][2] == chunks:
            result[-1] = (result[-1][0], last, chunks)
        else:
            result.append((first, last, chunks))
    return tuple(result)
