"""Exact order statistics of more values than one would hold in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Blocks = Callable[[], Iterator[NDArray[np.float64]]]

_DIGIT_BITS = 16
_KEY_BITS = 64


def order_statistics(blocks: Blocks, ranks: Sequence[int]) -> list[float]:
    """Return the values that stand at *ranks* (from 0) when all are sorted.

    A radix selection: four passes over the values for each rank, a table of 65,536 counts, and
    nothing that grows with their number.

    Args:
        blocks: Starts a pass over the values, which are finite and not negative.
        ranks: Each below the number of values.
    """
    return [_select(blocks, rank) for rank in ranks]


def percentile(blocks: Blocks, count: int, fraction: float) -> float:
    """Return a percentile by linear interpolation between the two nearest values.

    Source: type 7 of Hyndman and Fan, Sample quantiles in statistical packages, 1996; the rule
    of numpy and of R.
    """
    place = fraction * (count - 1)
    low = int(place)
    high = min(low + 1, count - 1)
    below, above = order_statistics(blocks, (low, high))
    return below + (above - below) * (place - low)


def _select(blocks: Blocks, rank: int) -> float:
    prefix = 0
    for shift in range(_KEY_BITS - _DIGIT_BITS, -1, -_DIGIT_BITS):
        counts = np.zeros(1 << _DIGIT_BITS, dtype=np.int64)
        for keys in _keys(blocks()):
            # All keys share the digits above with the one that is sought, in the first pass none.
            upper = shift + _DIGIT_BITS
            if upper < _KEY_BITS:
                keys = keys[(keys >> np.uint64(upper)) == np.uint64(prefix)]  # noqa: PLW2901
            digits = (keys >> np.uint64(shift)) & np.uint64((1 << _DIGIT_BITS) - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=1 << _DIGIT_BITS)
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, rank, side="right"))
        rank -= int(below[digit - 1]) if digit else 0
        prefix = (prefix << _DIGIT_BITS) | digit
    return float(np.array([prefix], dtype=np.uint64).view(np.float64)[0])


def _keys(blocks: Iterable[NDArray[np.float64]]) -> Iterator[NDArray[np.uint64]]:
    """Yield whole numbers in the order of the values.

    The bits of a float that is not negative, read as a whole number, keep the order of floats.
    """
    for block in blocks:
        yield (block + 0.0).view(np.uint64)
