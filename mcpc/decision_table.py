"""Decisions as people read them: the times of two kernels and of one beside each other, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mcpc.units import duration

#: Predicted times of a boundary: of the kernels on both sides, and of one for all.
SPLIT, FUSED = "split_us", "fused_us"


@dataclass(frozen=True)
class Cells:
    """``split`` and ``fused`` are empty where the decision is not about a boundary; ``others`` are all other
    numbers."""

    split: str
    fused: str
    others: str

    @classmethod
    def of(cls, numbers: Mapping[str, float]) -> Cells:
        split, fused = (duration(numbers[key]) if key in numbers else "" for key in (SPLIT, FUSED))
        others = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items() if name not in (SPLIT, FUSED))
        return cls(split, fused, others)


@dataclass(frozen=True)
class Total:
    """Of ``count`` boundaries, in microseconds."""

    count: int
    split: float
    fused: float

    @classmethod
    def of(cls, decisions: Iterable[Mapping[str, Any]]) -> Total:
        """The sums over those decisions that state both times."""
        both = [n for each in decisions if SPLIT in (n := each["numbers"]) and FUSED in n]
        return cls(len(both), sum(n[SPLIT] for n in both), sum(n[FUSED] for n in both))
