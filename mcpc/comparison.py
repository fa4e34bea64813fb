"""How far one array is from another: the measure of every numeric check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Default tolerances for float32: relative, and absolute as a part of the output's largest magnitude.
RTOL = 1e-3
ATOL_OF_RANGE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """How an output compares with the reference. ``excess`` is the largest |got - want| / (atol + rtol |want|): at
    most 1 where it matches, infinite where shape, type or NaNs differ. ``worst_index`` is where that is."""

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

    @property
    def matches(self) -> bool:
        return self.mismatches == 0 and not self.note

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "matches": self.matches}

    def describe(self) -> str:
        """What differs, in one line."""
        if self.note:
            return f"output {self.name!r} {self.note}"
        return (
            f"output {self.name!r} differs in {self.mismatches} of {self.elements} elements, most at "
            f"{list(self.worst_index)}: {self.worst_got:.6g} instead of {self.worst_want:.6g}"
        )


def compare(name: str, got: Array, want: Array, rtol: float = RTOL, atol: float | None = None) -> Comparison:
    """Floats by |got - want| <= atol + rtol |want| (NaN equals NaN, an infinity itself), all else exactly."""
    if got.shape != want.shape or got.dtype != want.dtype:
        note = f"is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        return Comparison(
            name, got.shape, want.size, want.size, np.inf, np.inf, (), np.nan, np.nan, rtol, atol or 0.0, note
        )
    is_float = want.dtype.kind == "f" or "float" in want.dtype.name
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not is_float:
        rtol, atol = 0.0, 0.0
    finite = b[np.isfinite(b)]
    if atol is None:
        atol = ATOL_OF_RANGE * float(np.abs(finite).max(initial=0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        difference = np.where(np.isnan(difference), np.inf, difference)
        excess = np.where(difference == 0, 0.0, difference / (atol + rtol * np.abs(np.where(np.isfinite(b), b, 0.0))))
    worst = int(excess.argmax()) if excess.size else 0
    index = tuple(int(i) for i in np.unravel_index(worst, want.shape)) if want.size else ()
    return Comparison(
        name=name,
        shape=tuple(want.shape),
        elements=want.size,
        mismatches=int((excess > 1).sum()),
        excess=float(excess.max(initial=0.0)),
        max_abs_difference=float(difference.max(initial=0.0)),
        worst_index=index,
        worst_got=float(a[index]) if want.size else 0.0,
        worst_want=float(b[index]) if want.size else 0.0,
        rtol=rtol,
        atol=atol,
    )
