"""How far one array is from another: the measure of every numeric check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mcpc.draws import is_float
from mcpc.golden import Samples, block_means, places

Array = np.ndarray[Any, Any]

#: Default tolerances for float32: relative, and absolute as a part of the output's largest magnitude.
RTOL = 1e-3
ATOL_OF_RANGE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """How an output compares with the reference. ``excess`` is the largest |got - want| / (atol + rtol |want|): at
    most 1 where it matches, infinite where shape, type or NaNs differ. ``worst_index`` is where that is. ``elements``
    counts what was compared: with a ``block``, blocks of so many, by one element and the mean of each."""

    name: str
    shape: tuple[int, ...]
    elements: int
    mismatches: int
    excess: float
    max_abs_difference: float
    worst_index: tuple[int, ...]
    worst_got: float
    worst_want: float
    rtol: float
    atol: float
    note: str = ""
    block: int = 1

    @property
    def matches(self) -> bool:
        return self.mismatches == 0 and not self.note

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "matches": self.matches}

    @property
    def what(self) -> str:
        """What was compared."""
        return "elements" if self.block == 1 else f"blocks of {self.block} elements"

    def describe(self) -> str:
        """What differs, in one line."""
        if self.note:
            return f"output {self.name!r} {self.note}"
        return (
            f"output {self.name!r} differs in {self.mismatches} of {self.elements} {self.what}, most at "
            f"{list(self.worst_index)}: {self.worst_got:.6g} instead of {self.worst_want:.6g}"
        )


def compare(name: str, got: Array, want: Array, rtol: float = RTOL, atol: float | None = None) -> Comparison:
    """Floats by |got - want| <= atol + rtol |want| (NaN equals NaN, an infinity itself), all else exactly."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return _other_type(name, got, want.shape, want.dtype, rtol, atol or 0.0)
    a, b = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    if not is_float(want.dtype):
        rtol, atol = 0.0, 0.0
    if atol is None:
        atol = ATOL_OF_RANGE * float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    return _judge(name, want.shape, [_Row(np.arange(b.size), a, b, np.abs(b))], rtol, atol)


def compare_samples(name: str, got: Array, want: Samples, rtol: float, atol: float) -> Comparison:
    """As :func:`compare`, by what ``want`` holds of each block: one element, and the mean, whose tolerance is that of
    an element of the block's mean magnitude. Where a mean is off most, ``worst_index`` is the block's first element."""
    dtype = want.elements.dtype
    if got.shape != want.shape or got.dtype != dtype:
        return _other_type(name, got, want.shape, dtype, rtol, atol)
    if not is_float(dtype):
        rtol, atol = 0.0, 0.0
    flat = np.ascontiguousarray(got).reshape(-1)
    at = places(flat.size, want.block)
    expected = want.elements.astype(np.float64)
    means, magnitudes = block_means(flat, want.block)
    rows = [
        _Row(at, flat[at].astype(np.float64), expected, np.abs(expected)),
        _Row(np.arange(0, flat.size, want.block), means, want.means, magnitudes),
    ]
    return _judge(name, want.shape, rows, rtol, atol, want.block)


@dataclass(frozen=True)
class _Row:
    """Numbers to compare, float64 [n]; ``at`` is the element where each is reported, the tolerance grows with
    ``magnitude``."""

    at: Array
    got: Array
    want: Array
    magnitude: Array


def _judge(
    name: str, shape: tuple[int, ...], rows: Sequence[_Row], rtol: float, atol: float, block: int = 1
) -> Comparison:
    """A mismatch is a column where any of the rows differs."""
    got, want, magnitude = (np.stack([getattr(row, part) for row in rows]) for part in ("got", "want", "magnitude"))
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.abs(got - want))
        difference = np.where(np.isnan(difference), np.inf, difference)
        allowed = atol + rtol * np.where(np.isfinite(want) & np.isfinite(magnitude), magnitude, 0.0)
        excess = np.where(difference == 0, 0.0, difference / allowed)
    row, column = divmod(int(excess.argmax()), want.shape[1]) if excess.size else (0, 0)
    worst = int(rows[row].at[column]) if excess.size else 0
    return Comparison(
        name=name,
        shape=tuple(shape),
        elements=want.shape[1],
        mismatches=int((excess > 1).any(axis=0).sum()),
        excess=float(excess.max(initial=0.0)),
        max_abs_difference=float(difference.max(initial=0.0)),
        worst_index=tuple(int(i) for i in np.unravel_index(worst, shape)) if excess.size else (),
        worst_got=float(got[row, column]) if excess.size else 0.0,
        worst_want=float(want[row, column]) if excess.size else 0.0,
        rtol=rtol,
        atol=atol,
        block=block,
    )


def _other_type(
    name: str, got: Array, shape: tuple[int, ...], dtype: np.dtype[Any], rtol: float, atol: float
) -> Comparison:
    note = f"is {got.dtype}{list(got.shape)} instead of {dtype}{list(shape)}"
    size = math.prod(shape)
    return Comparison(name, got.shape, size, size, np.inf, np.inf, (), np.nan, np.nan, rtol, atol, note)
