"""Elementary functions with arguments all over the number line and results in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .case import Array, Case


@dataclass
class Function:
    """``reference`` takes double arguments. ``ulp`` is the largest error allowed; 0 demands the very number."""

    number: int
    reference: Callable[[Array, Array], Array]
    ulp: float = 0.0
    low: float = -np.inf
    high: float = np.inf


_erf = np.vectorize(math.erf, otypes=[float])


def _saturated(x: Array, low: float, high: float) -> Array:
    """Truncated, the smallest integer where it does not fit (simd.h)."""
    return np.where((x >= low) & (x < high), np.trunc(x), low)


FUNCTIONS = {
    "exp": Function(0, lambda a, b: np.exp(a), 1.0),
    "log": Function(1, lambda a, b: np.log(a), 1.0),
    "tanh": Function(2, lambda a, b: np.tanh(a), 2.5),
    "sigmoid": Function(3, lambda a, b: np.exp(np.minimum(a, 0)) / (1 + np.exp(-abs(a))), 2.5),
    "erf": Function(4, lambda a, b: _erf(a), 1.5),
    "sin": Function(5, lambda a, b: np.sin(a), 0.6, -1e9, 1e9),
    "cos": Function(6, lambda a, b: np.cos(a), 0.6, -1e9, 1e9),
    "sqrt": Function(7, lambda a, b: np.sqrt(a), 0.5),
    "floor": Function(8, lambda a, b: np.floor(a)),
    "ceil": Function(9, lambda a, b: np.ceil(a)),
    "round": Function(10, lambda a, b: np.round(a)),
    "trunc": Function(11, lambda a, b: np.trunc(a)),
    "relu": Function(12, lambda a, b: np.maximum(a, 0)),
    "clip 0 6": Function(13, lambda a, b: np.clip(a, 0, 6)),
    "clip -1 0": Function(14, lambda a, b: np.clip(a, -1, 0)),
    "abs": Function(15, lambda a, b: abs(a)),
    "neg": Function(16, lambda a, b: -a),
    "reciprocal": Function(17, lambda a, b: 1 / a, 0.5),
    "to int32": Function(18, lambda a, b: _saturated(a, -(2.0**31), 2.0**31)),
    "to int64": Function(19, lambda a, b: _saturated(a, -(2.0**63), 2.0**63)),
    "pow": Function(20, lambda a, b: np.power(a, b), 0.6),
    "max": Function(21, lambda a, b: np.maximum(a, b)),
    "min": Function(22, lambda a, b: np.minimum(a, b)),
    "copysign": Function(23, lambda a, b: np.copysign(a, b)),
}

SPECIAL = np.array(
    [
        0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40,
        1.17549435e-38, 3.4028235e38, -3.4028235e38, 88.72283, 88.8, 89.5, -87.4, -103.9, -104.5, 16777216.0, 8388607.5,
        2147483520.0, 2147483648.0, -2147483648.0, 9.2233715e18, 9.2233720e18, 0.99999994, 1.0000001, 9.01, 30.1,
    ],
    np.float32,
)  # fmt: skip


def _arguments(rng: np.random.Generator, function: Function, count: int) -> tuple[Array, Array]:
    bits = rng.integers(0, 2**32, count, np.uint32).view(np.float32)
    near = (rng.standard_normal(count, np.float32) * 4).astype(np.float32)
    wide = rng.uniform(-110, 110, count).astype(np.float32)
    a = np.concatenate([np.repeat(SPECIAL, len(SPECIAL)), bits, near, wide])
    b = np.concatenate([np.tile(SPECIAL, len(SPECIAL)), np.roll(bits, 1), near[::-1], np.roll(near, 7)])
    if function.number == 20:
        # Positive bases and exponents that keep the power in range, beside the general ones.
        a = np.concatenate([a, abs(near), near])
        b = np.concatenate([b, near[::-1] * 8, np.round(near[::-1] * 4)])
    keep = np.isnan(a) | np.isinf(a) | ((a >= function.low) & (a <= function.high))
    return a[keep], b[keep].astype(np.float32)


def function_cases(rng: np.random.Generator) -> Iterator[Case]:
    for name, function in FUNCTIONS.items():
        a, b = _arguments(rng, function, 6000)
        with np.errstate(over="ignore"):
            want = exact(function, a, b).astype(np.float32)
        rtol = 1e-6 if function.ulp else 0.0
        numbers, buffers = [function.number, a.size, 3], [a, b, np.zeros_like(a)]
        yield Case(f"function {name}", "function", numbers, buffers, {2: want}, rtol)


def exact(function: Function, a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return function.reference(a.astype(float), b.astype(float))


def units_in_the_last_place(got: Array, exact: Array) -> Array:
    """The distance of float32 ``got`` from the double ``exact`` in units of float32's last place there.

    0 where both are NaN or the same infinity, infinite where only one is.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.minimum(abs(rounded), np.float32(3.4028233e38))).astype(float)
        error = abs(got.astype(float) - exact) / unit
    # Where the exact value is beyond float32's largest number, infinity is right.
    same = (np.isnan(got) & np.isnan(exact)) | (np.isinf(rounded) & (got == rounded))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
