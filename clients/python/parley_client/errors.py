"""What can go wrong on the dispatcher's side, each as one clear line."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ClientError(Exception):
    """The dispatcher cannot go on; the text is for its user."""


class WrongUsage(ClientError):
    """Something was asked for that makes no sense, before any server was involved."""


class UnknownName(WrongUsage):
    """A policy or an allocator that does not exist.

    Attributes:
        kind: What was looked for: `policy` or `allocator`.
        known: The names there are.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.known = sorted(known)
        near = get_close_matches(name, self.known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        super().__init__(f"no {kind} {name!r}{hint}; there are: {', '.join(self.known)}")
