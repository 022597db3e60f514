"""Quantities that change at instants and hold in between: what is used, what waits, over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function of time; before its first instant it is 0.

    Attributes:
        times: Instants at which it changes, seconds, ascending and distinct, shape (steps,).
        values: What it is from each of them on, shape (steps,).
    """

    times: Reals
    values: Reals

    @classmethod
    def of_intervals(cls, begins: Reals, ends: Reals, amounts: Reals) -> Steps:
        """Return the sum of amounts that each hold in an interval `[begin, end)`.

        Args:
            begins: Seconds, shape (intervals,).
            ends: Seconds, none before its begin, shape (intervals,).
            amounts: Shape (intervals,); whole ones add up exactly.
        """
        times = np.concatenate((begins, ends))
        order = np.argsort(times, kind="stable")
        times = times[order]
        values = np.cumsum(np.concatenate((amounts, -amounts))[order])
        final = np.append(times[1:] != times[:-1], True)[: len(times)]
        return cls(times[final], values[final])

    def integral(self, edges: Reals) -> Reals:
        """Return the integral up to each of some instants, shape of *edges*."""
        if not len(self.times):
            return np.zeros(len(edges))
        areas = np.concatenate(([0.0], np.cumsum(self.values[:-1] * np.diff(self.times))))
        place = np.searchsorted(self.times, edges, side="right") - 1
        inside = np.maximum(place, 0)
        reached = areas[inside] + self.values[inside] * (edges - self.times[inside])
        return np.where(place < 0, 0.0, reached)

    def means(self, edges: Reals) -> Reals:
        """Return the mean between each instant and the next, shape (edges - 1,)."""
        return np.diff(self.integral(edges)) / np.diff(edges)

    def mean(self, begin: float, end: float) -> float:
        """Return the mean over `[begin, end)`; NaN if that is empty."""
        if not end > begin:
            return float("nan")
        return float(self.means(np.array([begin, end]))[0])

    def at(self, instants: Reals) -> Reals:
        """Return the values at some instants, shape of *instants*."""
        place = np.searchsorted(self.times, instants, side="right")
        return np.concatenate(([0.0], self.values))[place]

    def longest(self, begin: float, end: float) -> float:
        """Return the greatest value in `[begin, end)`, 0 if it has none."""
        inside = (self.times >= begin) & (self.times < end)
        values = np.append(self.values[inside], self.at(np.array([begin])))
        return float(values.max())


def combined(one: Steps, other: Steps) -> tuple[Reals, Reals, Reals]:
    """Return the instants at which either changes, and what each is from there on."""
    times = np.union1d(one.times, other.times)
    return times, one.at(times), other.at(times)
