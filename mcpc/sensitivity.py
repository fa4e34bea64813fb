"""How far rounding moves a network's outputs: what no two ways to form its sums agree on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: The noise on each number of an input, as a part of it: some roundings of float32.
NOISE = 2.0**-21

#: The tries where the first one shows that the outputs move: a quantised network moves in steps, or not at all.
TRIES = 5


def moved_by_rounding(
    run: Callable[[Mapping[str, Array]], Sequence[Array]],
    feeds: Mapping[str, Array],
    outputs: Sequence[Array],
    enough: float,
) -> float:
    """The largest absolute change of a float among ``outputs``, which ``run`` makes of ``feeds``, under noise as small
    as rounding on the float inputs.

    Further tries follow only where the first one moves an output by more than ``enough``. The noise is seeded.
    """
    largest = 0.0
    for seed in range(TRIES):
        rng = np.random.default_rng(seed)
        noisy = {name: _with_noise(array, rng) for name, array in feeds.items()}
        for before, after in zip(outputs, run(noisy), strict=True):
            if before.dtype.kind == "f" and before.shape == after.shape:
                with np.errstate(invalid="ignore"):
                    change = np.abs(before.astype(np.float64) - after.astype(np.float64))
                largest = max(largest, float(change[np.isfinite(change)].max(initial=0.0)))
        if largest <= enough:
            break
    return largest


def _with_noise(array: Array, rng: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    factor = 1 + NOISE * rng.standard_normal(array.shape)
    return np.asarray(array * factor, array.dtype)
