"""How the tensors of a network were quantised: recorded as decisions, so that an artifact can be explained and made
again without the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.ir import Value
from mcpc.pipeline import PassContext
from mcpc.ranges import Range, RangeTable

Array = np.ndarray[Any, Any]

#: What such a decision is called.
ACTION = "round"

#: What is appended to the name of a tensor to name its integers.
STORED = ".quantized"


@dataclass(frozen=True)
class TensorScale:
    """Integers q of a tensor mean ``(q - zero) * step``, to tell numbers of ``range`` apart."""

    range: Range
    step: float
    zero: int

    def record(self, ctx: PassContext, value: Value) -> None:
        numbers = {"low": self.range.low, "high": self.range.high, "step": self.step, "zero": float(self.zero)}
        ctx.decide(value, ACTION, "to 8 bits", **numbers)

    def floats(self, stored: Array) -> Array:
        """float32 numbers for integers."""
        return (stored.astype(np.float32) - np.float32(self.zero)) * np.float32(self.step)


def scales_in(decisions: Iterable[Mapping[str, Any]]) -> dict[str, TensorScale]:
    """By tensor, from the decisions of :func:`mcpc.inspect`."""
    found = {}
    for each in decisions:
        if each["action"] == ACTION:
            numbers = each["numbers"]
            found[each["subject"]] = TensorScale(
                Range(numbers["low"], numbers["high"]), numbers["step"], int(numbers["zero"])
            )
    return found


def ranges_in(decisions: Iterable[Mapping[str, Any]]) -> RangeTable:
    """The ranges by which the network can be quantised in the same way again."""
    return RangeTable({name: scale.range for name, scale in scales_in(decisions).items()})
