"""A set of job names that stays small on a trace of millions of lines."""

from __future__ import annotations

_PAGE_BITS = 10
_LONGEST_NUMBER = 18


class SeenNames:
    """Names that were met; a bit each where they end in numbers that lie close together."""

    def __init__(self) -> None:
        self._pages: dict[int | tuple[str, int], bytearray] = {}
        self._others: set[str] = set()

    def copy(self) -> SeenNames:
        """Return a copy that shares nothing that changes."""
        twin = SeenNames()
        twin._pages = {number: page.copy() for number, page in self._pages.items()}
        twin._others = self._others.copy()
        return twin

    def add(self, name: int | str) -> bool:
        """Add a name; whether it was new. O(1); a name is not the number that it spells."""
        if type(name) is int:
            number = name
            key: int | tuple[str, int] = number >> _PAGE_BITS
        else:
            text = str(name)
            stem = text.rstrip("0123456789")
            digits = text[len(stem) :]
            # 07 is not 7.
            if not digits or len(digits) > _LONGEST_NUMBER or str(int(digits)) != digits:
                if text in self._others:
                    return False
                self._others.add(text)
                return True
            number = int(digits)
            key = (stem, number >> _PAGE_BITS)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = bytearray(1 << (_PAGE_BITS - 3))
        index = number & ((1 << _PAGE_BITS) - 1)
        byte, bit = index >> 3, 1 << (index & 7)
        if page[byte] & bit:
            return False
        page[byte] |= bit
        return True
