"""A set of job numbers that stays small on a trace of millions of lines."""

from __future__ import annotations

_PAGE_BITS = 10


class SeenNumbers:
    """Numbers that were met; a bit each where they lie close together, as in every trace."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def copy(self) -> SeenNumbers:
        """Return a copy that shares nothing that changes."""
        twin = SeenNumbers()
        twin._pages = {number: page.copy() for number, page in self._pages.items()}
        return twin

    def add(self, number: int) -> bool:
        """Add a number; whether it was new. O(1)."""
        page = self._pages.get(number >> _PAGE_BITS)
        if page is None:
            page = self._pages[number >> _PAGE_BITS] = bytearray(1 << (_PAGE_BITS - 3))
        index = number & ((1 << _PAGE_BITS) - 1)
        byte, bit = index >> 3, 1 << (index & 7)
        if page[byte] & bit:
            return False
        page[byte] |= bit
        return True
