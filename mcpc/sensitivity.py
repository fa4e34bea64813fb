"""How near two computations of one network can be expected: what rounding does to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mcpc.comparison import ATOL_OF_RANGE
from mcpc.errors import UsageError

Array = np.ndarray[Any, Any]

#: The noise on each number of an input, as a part of it: some roundings of float32.
NOISE = 2.0**-21

#: The tries where the first one shows that outputs move: a quantised network moves in steps, or not at all.
TRIES = 5

#: Outputs may differ by this many times what the noise moves them by.
ROUNDINGS = 4


def tolerances(
    run: Callable[[Mapping[str, Array]], Sequence[Array]], feeds: Mapping[str, Array], outputs: Sequence[Array]
) -> list[float]:
    """The absolute tolerance for each of ``outputs``, which ``run`` makes of ``feeds``.

    It is ATOL_OF_RANGE of the output's largest magnitude. Where noise as small as rounding on the float inputs moves an
    output so far that sums in another order might miss this, it is ROUNDINGS times the farthest move. The noise is
    seeded. Inputs whose numbers mean sizes, which ``run`` refuses with noise by a UsageError, give the former.
    """
    least = [ATOL_OF_RANGE * _largest(array) for array in outputs]
    moved = [0.0] * len(least)
    for seed in range(TRIES):
        rng = np.random.default_rng(seed)
        try:
            noisy = run({name: _with_noise(array, rng) for name, array in feeds.items()})
        except UsageError:
            return least
        moved = [max(far, _move(*pair)) for far, *pair in zip(moved, outputs, noisy, strict=True)]
        if all(ROUNDINGS * far <= enough for far, enough in zip(moved, least, strict=True)):
            return least
    return [max(enough, ROUNDINGS * far) for far, enough in zip(moved, least, strict=True)]


def _largest(array: Array) -> float:
    values = array.astype(np.float64)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _move(before: Array, after: Array) -> float:
    if before.dtype.kind != "f" or before.shape != after.shape:
        return 0.0
    with np.errstate(invalid="ignore"):
        return _largest(before.astype(np.float64) - after.astype(np.float64))


def _with_noise(array: Array, rng: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    factor = 1 + NOISE * rng.standard_normal(array.shape)
    return np.asarray(array * factor, array.dtype)
