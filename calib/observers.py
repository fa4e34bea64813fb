"""What is kept of a tensor's numbers while samples pass by, and the range that is made of it.

All take one array after another in constant memory. NaN and infinities are left out and counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mcpc.ranges import Channels

from .histogram import Histogram

Array = np.ndarray[Any, Any]

#: Numbers that eight bits tell apart.
LEVELS = 256

#: A range is far beyond what MOST of the numbers that are not 0 stay below where it is FAR times as large.
MOST, FAR = 0.9999, 1000.0

#: A float32's biased exponent of infinities and NaN.
_NOT_FINITE = 255


class Observer(ABC):
    """``observe`` takes a tensor's value for one sample, of any shape and float type, as float32."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf
        self._octaves = np.zeros(256, np.int64)  # counts of numbers by their biased exponent

    def observe(self, array: Array) -> None:
        numbers = np.ascontiguousarray(array, np.float32).reshape(-1)
        octaves = np.bincount(numbers.view(np.uint32) << np.uint32(1) >> np.uint32(24), minlength=256)
        self._octaves += octaves
        finite = numbers[np.isfinite(numbers)] if octaves[_NOT_FINITE] else numbers
        if finite.size:
            low, high = float(finite.min()), float(finite.max())
            self.low, self.high = min(self.low, low), max(self.high, high)
            self.count(finite, low, high)

    @property
    def ignored(self) -> int:
        """NaN and infinities so far."""
        return int(self._octaves[_NOT_FINITE])

    def range(self) -> tuple[float, float] | None:
        """(low, high) of the numbers that should be told apart; None where no finite number was seen."""
        return self.decide() if self.low < self.high else (self.low, self.high) if self.low == self.high else None

    def usual(self) -> float:
        """A power of two that MOST of the finite numbers that are not 0 stay below; 0 where there are none."""
        ends = np.cumsum(self._octaves[1:_NOT_FINITE])  # those without an exponent are 0, or too small for any range
        return float(2.0 ** (int(np.searchsorted(ends, MOST * ends[-1])) + 1 - 126)) if ends[-1] else 0.0

    def count(self, numbers: Array, low: float, high: float) -> None:  # noqa: B027  some need no more
        """See what is finite of a sample, one number at least, the least and the largest of them."""

    @abstractmethod
    def decide(self) -> tuple[float, float]:
        """The range, where there were two different numbers at least."""


class MinMax(Observer):
    """The least and the largest number."""

    def decide(self) -> tuple[float, float]:
        return self.low, self.high


class MovingAverage(Observer):
    """The means of the samples' least and largest numbers, each sample with the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self._means, self._samples = np.zeros(2), 0

    def count(self, numbers: Array, low: float, high: float) -> None:
        self._samples += 1
        self._means += (np.array([low, high]) - self._means) / self._samples

    def decide(self) -> tuple[float, float]:
        return float(self._means[0]), float(self._means[1])


class _Counting(Observer):
    """Decides from a histogram."""

    def __init__(self) -> None:
        super().__init__()
        self.histogram = Histogram()

    def count(self, numbers: Array, low: float, high: float) -> None:
        self.histogram.add(numbers)


class Percentile(_Counting):
    """Without the outermost numbers: ``share`` of all lie inside, and as many below as above."""

    share = 0.9999

    def decide(self) -> tuple[float, float]:
        outside = (1.0 - self.share) / 2
        return self.histogram.quantile(outside), self.histogram.quantile(1.0 - outside)


class MeanSquaredError(_Counting):
    """The range in which rounding to LEVELS even steps, and clipping, change the numbers least, by squares.

    Both ends shrink together, in steps of 2 %, then each alone.
    """

    shrink = 0.98
    candidates = 400

    def decide(self) -> tuple[float, float]:
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        factors = self.shrink ** np.arange(self.candidates)
        best = self._best([(low * factor, high * factor) for factor in factors])
        for end in (0, 1):
            near = best[end] * self.shrink ** np.arange(-20, 21)
            near = near[np.abs(near) <= abs((low, high)[end])]
            best = self._best([best, *((each, best[1]) if end == 0 else (best[0], each) for each in near)])
        return best

    def _best(self, ranges: list[tuple[float, float]]) -> tuple[float, float]:
        bins = self.histogram.bins()
        errors = [squared_error(bins, low, high) for low, high in ranges]
        low, high = ranges[int(np.argmin(errors))]
        return float(low), float(high)


class Entropy(_Counting):
    """The range that keeps most of the distribution: the least Kullback-Leibler divergence of the numbers inside, with
    the outer ones put on its borders, from what LEVELS steps make of them (S. Migacz, 8-bit inference with TensorRT,
    2017). Ends are symmetric where numbers are on both sides.
    """

    #: Bins of a step in which the distribution is compared.
    fine = 16
    #: From the share of all magnitudes from which on borders are tried, in steps of 3 %.
    share = 0.99
    step = 1.03

    def decide(self) -> tuple[float, float]:
        low, high = self.low, self.high
        outer = max(-low, high)
        inner = max(abs(self.histogram.quantile(1 - self.share)), abs(self.histogram.quantile(self.share)))
        best, least = (low, high), np.inf
        border = max(inner, outer / self.step**1000)
        while border > 0:
            ends = max(low, -border), min(high, border)
            divergence = self._divergence(min(ends[0], 0.0), max(ends[1], 0.0))
            if divergence < least:
                best, least = ends, divergence
            if border >= outer:
                break
            border = min(border * self.step, outer)
        return best

    def _divergence(self, low: float, high: float) -> float:
        kept = self.histogram.spread(np.linspace(low, high, LEVELS * self.fine + 1)).reshape(LEVELS, self.fine)
        present = kept > 0
        share = kept.sum(axis=1, keepdims=True) / np.maximum(present.sum(axis=1, keepdims=True), 1)
        p, q = kept[present], np.broadcast_to(share, kept.shape)[present]
        return float((p * np.log(p / q)).sum() / kept.sum())


def squared_error(bins: tuple[Array, Array, Array], low: float, high: float) -> float:
    """The sum of squares of what rounding to LEVELS even steps from ``low`` to ``high``, 0 among them, and clipping
    change numbers in ``bins`` (Histogram.bins), which are spread evenly in each."""
    lower, upper, counts = bins
    width = np.maximum(upper - lower, np.finfo(np.float64).tiny)
    step = (high - low) / (LEVELS - 1)
    if step <= 0:
        return float(np.inf)
    inside = _rounding(np.clip(upper, low, high) / step) - _rounding(np.clip(lower, low, high) / step)
    above = (np.maximum(upper, high) - high) ** 3 - (np.maximum(lower, high) - high) ** 3
    below = (low - np.minimum(lower, low)) ** 3 - (low - np.minimum(upper, low)) ** 3
    spread = (inside * step**3 + (above + below) / 3) / width
    middle = (lower + upper) / 2
    clipped = np.clip(middle, low, high)
    alone = (np.round(clipped / step) * step - middle) ** 2
    is_wide = upper - lower > 1e-6 * step
    return float((counts * np.where(is_wide, spread, alone)).sum())


def _rounding(x: Array) -> Array:
    """The integral from 0 to x of the square of a number's distance from the nearest integer."""
    nearest = np.round(x)
    return np.asarray(nearest / 12 + (x - nearest) ** 3 / 3)


class ChannelObserver:
    """Extremes and means along one axis; what is not finite is left out."""

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self._low = self._high = self._sums = self._squares = self._counts = np.zeros(0)

    def observe(self, array: Array) -> None:
        """Any shape and float type; the axis has the same size each time."""
        rows = np.moveaxis(np.asarray(array, np.float32), self._axis, 0).reshape(array.shape[self._axis], -1)
        finite = np.isfinite(rows)
        if not self._low.size:
            self._low, self._high = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
            self._sums, self._squares, self._counts = np.zeros((3, len(rows)))
        self._low = np.minimum(self._low, rows.min(1, initial=np.inf, where=finite))
        self._high = np.maximum(self._high, rows.max(1, initial=-np.inf, where=finite))
        self._sums = self._sums + rows.sum(1, dtype=np.float64, where=finite)
        self._squares = self._squares + np.square(rows, dtype=np.float64).sum(1, where=finite)
        self._counts = self._counts + finite.sum(1)

    def channels(self) -> Channels | None:
        """None where a channel has no finite number."""
        if not self._counts.size or not self._counts.all():
            return None
        return Channels(self._low, self._high, self._sums / self._counts, self._squares / self._counts)


#: Method name -> class.
OBSERVERS: dict[str, type[Observer]] = {
    "minmax": MinMax,
    "moving-average": MovingAverage,
    "percentile": Percentile,
    "entropy": Entropy,
    "mse": MeanSquaredError,
}
