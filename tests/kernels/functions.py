"""Elementary functions with arguments all over the number line and results in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .case import Array, Case


@dataclass
class Function:
    """``reference`` takes double arguments. ``ulp`` is the largest error allowed, in units in the last place of the
    exact result or of ``least`` where that is more; 0 demands the very number."""

    number: int
    reference: Callable[[Array, Array], Array]
    ulp: float = 0.0
    least: float = 0.0


_erf = np.vectorize(math.erf, otypes=[float])


def _gelu(x: Array) -> Array:
    result: Array = x * (1 + _erf(x * math.sqrt(0.5))) / 2
    return result


def _saturated(x: Array, low: float, high: float) -> Array:
    """Truncated, the smallest integer where it does not fit (simd.h)."""
    return np.where((x >= low) & (x < high), np.trunc(x), low)


FUNCTIONS = {
    "exp": Function(0, lambda a, b: np.exp(a), 1.1),
    "log": Function(1, lambda a, b: np.log(a), 0.9),
    "tanh": Function(2, lambda a, b: np.tanh(a), 2.0),
    "sigmoid": Function(3, lambda a, b: np.exp(np.minimum(a, 0)) / (1 + np.exp(-abs(a))), 1.8, 2.0**-104),
    "erf": Function(4, lambda a, b: _erf(a), 1.1),
    "sin": Function(5, lambda a, b: np.sin(a), 0.51),
    "cos": Function(6, lambda a, b: np.cos(a), 0.51),
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
    "pow": Function(20, lambda a, b: np.power(a, b), 0.51),
    "max": Function(21, lambda a, b: np.maximum(a, b)),
    "min": Function(22, lambda a, b: np.minimum(a, b)),
    "copysign": Function(23, lambda a, b: np.copysign(a, b)),
    "expm1": Function(25, lambda a, b: np.expm1(a), 1.5),
    "log1p": Function(26, lambda a, b: np.log1p(a), 1.5),
    "tan": Function(27, lambda a, b: np.tan(a), 0.51),
    "asin": Function(28, lambda a, b: np.arcsin(a), 0.51),
    "acos": Function(29, lambda a, b: np.arccos(a), 0.51),
    "atan": Function(30, lambda a, b: np.arctan(a), 0.51),
    "sinh": Function(31, lambda a, b: np.sinh(a), 0.51),
    "cosh": Function(32, lambda a, b: np.cosh(a), 0.51),
    "asinh": Function(33, lambda a, b: np.arcsinh(a), 0.51),
    "acosh": Function(34, lambda a, b: np.arccosh(a), 0.51),
    "atanh": Function(35, lambda a, b: np.arctanh(a), 0.51),
    "fmod": Function(36, lambda a, b: np.fmod(a, b)),
    "gelu": Function(37, lambda a, b: _gelu(a), 3.5, 0.25),
    "silu": Function(38, lambda a, b: a / (1 + np.exp(-a)), 5.9, 2.0**-100),
}

#: Functions of double; the reference takes long double arguments.
DOUBLES = {
    "exp": Function(0, lambda a, b: np.exp(a), 1.0),
    "log": Function(1, lambda a, b: np.log(a), 0.6),
    "tanh": Function(2, lambda a, b: np.tanh(a), 4.0),
    "sigmoid": Function(3, lambda a, b: np.exp(np.minimum(a, 0)) / (1 + np.exp(-abs(a))), 4.0),
    "erf": Function(4, lambda a, b: _erf(a), 12.0),
    "sin": Function(5, lambda a, b: np.sin(a), 2.0),
    "cos": Function(6, lambda a, b: np.cos(a), 2.0),
    "tan": Function(7, lambda a, b: np.tan(a), 4.0),
    "asin": Function(8, lambda a, b: np.arcsin(a), 4.0),
    "acos": Function(9, lambda a, b: np.arccos(a), 4.0),
    "atan": Function(10, lambda a, b: np.arctan(a), 2.0),
    "sinh": Function(11, lambda a, b: np.sinh(a), 4.0),
    "cosh": Function(12, lambda a, b: np.cosh(a), 4.0),
    "asinh": Function(13, lambda a, b: np.arcsinh(a), 4.0),
    "acosh": Function(14, lambda a, b: np.arccosh(a), 4.0),
    "atanh": Function(15, lambda a, b: np.arctanh(a), 4.0),
    "expm1": Function(16, lambda a, b: np.expm1(a), 2.0),
    "log1p": Function(17, lambda a, b: np.log1p(a), 2.0),
    "pow": Function(18, lambda a, b: np.power(a, b), 2.0),
    "fmod": Function(19, lambda a, b: np.fmod(a, b)),
    "gelu": Function(20, lambda a, b: _gelu(a), 12.0, 4.0),
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
    if function is FUNCTIONS["pow"] or function is DOUBLES["pow"]:
        # Positive bases and exponents that keep the power in range, beside the general ones.
        # Bases near 1 with large ones, and exponents that are taken for a power, root or reciprocal.
        small = np.resize(np.array([2, 3, 0.5, -0.5, -1, 1.0 / 3, 4, -2, 1.5, 9], np.float32), count)
        a = np.concatenate([a, abs(near), near, 1 + near / 256, abs(bits)])
        b = np.concatenate([b, near[::-1] * 8, np.round(near[::-1] * 4), wide[::-1] * 32, small])
    return a, b.astype(np.float32)


def function_cases(rng: np.random.Generator) -> Iterator[Case]:
    for name, function in FUNCTIONS.items():
        a, b = _arguments(rng, function, 6000)
        with np.errstate(over="ignore"):
            want = exact(function, a, b).astype(np.float32)
        rtol = 1e-6 if function.ulp else 0.0
        numbers, buffers = [function.number, a.size, 3], [a, b, np.zeros_like(a)]
        yield Case(f"function {name}", "function", numbers, buffers, {2: want}, rtol)


def double_cases(rng: np.random.Generator) -> Iterator[Case]:
    for name, function in DOUBLES.items():
        with np.errstate(invalid="ignore"):  # signalling NaNs among the bits
            a, b = (array.astype(float) for array in _arguments(rng, function, 600))
        drawn = rng.standard_normal((2, 600)) * 3  # digits that float32 has not
        wide = np.exp(drawn[0] * 9)
        a, b = np.concatenate([a, drawn[0], wide]), np.concatenate([b, drawn[1], drawn[1]])
        with np.errstate(all="ignore"):
            want = exact(function, a, b).astype(float)
        rtol = 1e-13 if function.ulp else 0.0
        numbers, buffers = [function.number, a.size, 3], [a, b, np.zeros_like(a)]
        yield Case(f"function double {name}", "double", numbers, buffers, {2: want}, rtol)


def exact(function: Function, a: Array, b: Array) -> Array:
    """The reference's results in the next wider type."""
    wider = np.longdouble if a.dtype == np.float64 else np.float64
    with np.errstate(all="ignore"):
        return function.reference(a.astype(wider), b.astype(wider))


def units_in_the_last_place(got: Array, exact: Array, least: float) -> Array:
    """The distance of ``got`` from the wider ``exact`` in units of its type's last place there, or at ``least``.

    0 where both are NaN or the same infinity, infinite where only one is.
    """
    dtype = got.dtype.type
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        size = np.clip(abs(rounded), dtype(least), np.nextafter(np.finfo(dtype).max, dtype(0)))
        unit = np.spacing(size).astype(exact.dtype)
        error = (abs(got.astype(exact.dtype) - exact) / unit).astype(float)
    # Where the exact value is beyond the type's largest number, infinity is right.
    same = (np.isnan(got) & np.isnan(exact)) | (np.isinf(rounded) & (got == rounded))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
