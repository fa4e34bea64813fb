"""Counts of numbers in bins of constant relative width: constant memory whatever is counted, in whatever order."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Bits of the mantissa that tell bins apart: an octave has 2**6 bins, none wider than 1/64 of its numbers.
MANTISSA_BITS = 6

#: A float32's bits that do not count.
_DROPPED = 23 - MANTISSA_BITS

#: Bins of the finite float32 magnitudes.
_BINS = 255 << MANTISSA_BITS

#: The borders of the bins of magnitudes: the last is 2**128.
_BORDERS = np.append(
    (np.arange(_BINS, dtype=np.uint32) << np.uint32(_DROPPED)).view(np.float32).astype(np.float64), 2.0**128
)


class Histogram:
    """Of all finite float32 numbers, with both signs. A bin is what shares sign, exponent and the first bits of the
    mantissa, so an outlier of 1e30 costs the others no resolution, and the counts do not depend on the order of samples
    (the log-linear buckets of G. Tene's HdrHistogram).
    """

    def __init__(self) -> None:
        self._counts = np.zeros((2, _BINS), np.int64)  # of numbers that are not negative, and of those that are
        self.low, self.high = np.inf, -np.inf

    def add(self, numbers: Array) -> None:
        """Count ``numbers``, float32, of any shape, one at least, all finite."""
        bits = numbers.reshape(-1).view(np.uint32)
        bins = ((bits & np.uint32(0x7FFFFFFF)) >> np.uint32(_DROPPED)) + (bits >> np.uint32(31)) * np.uint32(_BINS)
        self._counts += np.bincount(bins, minlength=2 * _BINS).reshape(2, _BINS)
        self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))

    def bins(self) -> tuple[Array, Array, Array]:
        """(lower borders, upper borders, counts) of the bins that are not empty, in ascending order, float64 and int64.
        Borders are no farther out than the least and the largest number."""
        positive, negative = np.flatnonzero(self._counts[0]), np.flatnonzero(self._counts[1])[::-1]
        lower = np.concatenate([-_BORDERS[negative + 1], _BORDERS[positive]])
        upper = np.concatenate([-_BORDERS[negative], _BORDERS[positive + 1]])
        counts = np.concatenate([self._counts[1, negative], self._counts[0, positive]])
        return np.maximum(lower, self.low), np.minimum(upper, self.high), counts

    def quantile(self, share: float) -> float:
        """The number that ``share`` of all are not above, numbers of a bin taken as spread evenly."""
        lower, upper, counts = self.bins()
        ends = np.cumsum(counts)
        rank = share * ends[-1]
        index = min(int(np.searchsorted(ends, rank)), len(ends) - 1)
        if lower[index] == 0:  # among the numbers that are too small for any float32 are the zeros
            return 0.0
        part = 1.0 - (ends[index] - rank) / counts[index]
        return float(lower[index] + max(part, 0.0) * (upper[index] - lower[index]))

    def spread(self, borders: Array) -> Array:
        """Counts between ascending ``borders`` (float64, [n + 1] -> [n]), numbers of a bin taken as spread evenly; what
        lies outside counts in the first and the last."""
        lower, upper, counts = self.bins()
        upper = np.maximum(upper, np.nextafter(lower, np.inf))
        at = np.stack([lower, upper], axis=1).reshape(-1)
        below = np.stack([np.cumsum(counts) - counts, np.cumsum(counts)], axis=1).reshape(-1)
        cumulated = np.interp(borders, at, below.astype(np.float64))
        cumulated[0], cumulated[-1] = 0.0, below[-1]
        return np.diff(cumulated)
