"""How far a network's outputs may move for the sake of speed, and how far they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mcpc.draws import is_float
from mcpc.errors import UsageError
from mcpc.fidelity import MOST_DB, FidelitySums

Array = np.ndarray[Any, Any]

#: How outputs of float type are compared: by their relative L2 error, or by their largest elements.
DROP_METRICS = ("l2", "top1")

#: The relative L2 error (a SQNR of 20 dB) that stands where no budget is given.
DEFAULT_DROP = 0.1


@dataclass(frozen=True)
class Budget:
    """``max_drop`` is the largest share by which any output may change, from 0 to 1. By ``drop_metric``: "l2", the
    relative L2 error |y - y32| / |y32| of all its elements on all samples; "top1", the share of its rows (vectors along
    the last axis) of which another element is the largest. Of integer outputs it is the share of elements that differ.
    ``min_sqnr`` is the least signal-to-quantisation-noise ratio of any float output, in dB. What is None is not asked
    for."""

    max_drop: float | None = None
    min_sqnr: float | None = None
    drop_metric: str = "l2"

    def __post_init__(self) -> None:
        """UsageError E001 for what is no budget."""
        if self.drop_metric not in DROP_METRICS:
            raise UsageError(
                "E001", f"there is no drop metric {self.drop_metric!r}", hint=f"known: {', '.join(DROP_METRICS)}"
            )
        if self.max_drop is not None and not 0 <= self.max_drop <= 1:
            raise UsageError("E001", f"max_drop is a share from 0 to 1, not {self.max_drop}")
        if self.min_sqnr is not None and not self.min_sqnr <= MOST_DB:
            raise UsageError("E001", f"min_sqnr is a number of dB up to {MOST_DB:g}, not {self.min_sqnr}")

    @property
    def is_given(self) -> bool:
        return self.max_drop is not None or self.min_sqnr is not None

    def or_default(self) -> Budget:
        """This one, or where it asks for nothing :data:`DEFAULT_DROP` by its metric."""
        return self if self.is_given else replace(self, max_drop=DEFAULT_DROP)

    def allows(self, outcome: Outcome) -> bool:
        return (self.max_drop is None or outcome.drop(self.drop_metric) <= self.max_drop) and (
            self.min_sqnr is None or outcome.sqnr >= self.min_sqnr
        )

    def describe(self, outcome: Outcome) -> str:
        """What was asked for and what was found."""
        parts = []
        if self.max_drop is not None:
            name = {"l2": "relative L2 error", "top1": "share of rows with another largest element"}[self.drop_metric]
            parts.append(f"the {name} is {outcome.drop(self.drop_metric):.4g}, at most {self.max_drop:g} is allowed")
        if self.min_sqnr is not None:
            parts.append(f"SQNR is {outcome.sqnr:.1f} dB, at least {self.min_sqnr:g} dB is asked for")
        return "; ".join(parts)


@dataclass
class _OutputSums:
    """What is kept of an output: ``moved`` of ``count`` rows or elements are others."""

    fidelity: FidelitySums = field(default_factory=FidelitySums)
    is_float: bool = True
    moved: int = 0
    count: int = 0

    def add(self, got: Array, want: Array) -> None:
        self.is_float = is_float(want.dtype)
        if not self.is_float:
            self.moved += int((got != want).sum())
            self.count += want.size
            return
        self.fidelity.add(got, want)
        if want.ndim and want.shape[-1] > 1:
            self.moved += int((got.argmax(-1) != want.argmax(-1)).sum())
            self.count += want.size // want.shape[-1]

    def drop(self, metric: str) -> float:
        if metric == "l2" and self.is_float:
            return self.fidelity.result().relative_l2
        return self.moved / self.count if self.count else 0.0


@dataclass
class Outcome:
    """How far the outputs of a network have moved, over the samples that were added."""

    outputs: dict[str, _OutputSums] = field(default_factory=dict)

    def add(self, got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
        for name, array in want.items():
            self.outputs.setdefault(name, _OutputSums()).add(got[name], array)

    def drop(self, metric: str) -> float:
        """Of the output that has moved most."""
        return max((each.drop(metric) for each in self.outputs.values()), default=0.0)

    @property
    def sqnr(self) -> float:
        """In dB, of the output with the least."""
        ratios: Sequence[float] = [each.fidelity.result().sqnr for each in self.outputs.values() if each.is_float]
        return min(ratios, default=MOST_DB)
