"""How much of a signal is left: the measures of a rounded computation against the exact one, over many samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Decibels beyond which no ratio is told apart: float32 has 150.
MOST_DB = 200.0

#: Elements that are looked at together: as float64 they stay in a core's cache.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class Fidelity:
    """``sqnr`` is the ratio of signal to quantisation noise, 10 log10(sum want^2 / sum (got - want)^2), in dB and
    within :data:`MOST_DB`; ``cosine`` is that of the angle between both, as vectors of all elements of all samples."""

    sqnr: float
    cosine: float

    @property
    def relative_l2(self) -> float:
        """|got - want| / |want|, of the same vectors."""
        return 0.0 if self.sqnr >= MOST_DB else float(10.0 ** (-self.sqnr / 20.0))


@dataclass
class FidelitySums:
    """What is kept of the samples of one tensor: four sums, in float64, over the elements of ``want`` that are finite.
    One that is not finite in ``got`` is noise without limit."""

    signal: float = 0.0
    noise: float = 0.0
    energy: float = 0.0
    product: float = 0.0

    def add(self, got: Array, want: Array) -> None:
        """``got`` and ``want`` of one shape."""
        a, b = got.reshape(-1), want.reshape(-1)
        for start in range(0, a.size, _BLOCK):
            self._add(*(each[start : start + _BLOCK].astype(np.float64) for each in (a, b)))

    def _add(self, a: Array, b: Array) -> None:
        usable = np.isfinite(b)
        if not usable.all():
            a, b = a[usable], b[usable]
        if not np.isfinite(a).all():
            self.noise = math.inf
            return
        difference = a - b
        self.signal += float(b @ b)
        self.noise += float(difference @ difference)
        self.energy += float(a @ a)
        self.product += float(a @ b)

    def result(self) -> Fidelity:
        """Of all samples so far. Without noise the ratio is :data:`MOST_DB`, without a signal, or with noise without
        limit, its negative, and the cosine 0."""
        if self.noise == 0.0:
            return Fidelity(MOST_DB, 1.0)
        if self.signal == 0.0 or self.noise == math.inf:
            return Fidelity(-MOST_DB, 0.0)
        ratio = 10.0 * math.log10(self.signal / self.noise)
        length = math.sqrt(self.signal) * math.sqrt(self.energy)
        cosine = self.product / length if length > 0.0 else 0.0
        return Fidelity(min(max(ratio, -MOST_DB), MOST_DB), min(max(cosine, -1.0), 1.0))


def fidelity(got: Array, want: Array) -> Fidelity:
    """Of one sample."""
    sums = FidelitySums()
    sums.add(got, want)
    return sums.result()
