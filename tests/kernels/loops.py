"""Cases of elementwise loops, reductions and softmax."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from .case import ALL, Array, Case, normal, untouched


def integers(rng: np.random.Generator) -> Iterator[Case]:
    for index, dtype in enumerate((np.int32, np.uint32, np.int64, np.uint8, np.int8, np.uint64, np.int16, np.uint16)):
        for n in (1, 7, 300):
            low = 0 if np.dtype(dtype).kind == "u" else -40
            a, b = (rng.integers(low, 40, n).astype(dtype) for _ in range(2))
            want = np.maximum(a, b) * np.array(3, dtype) - (a > b).astype(dtype)
            yield Case(f"integer {a.dtype} {n}", "integer", [index, n, 1], [a, b, np.zeros_like(a)], {2: want})


def broadcasts(rng: np.random.Generator) -> Iterator[Case]:
    shapes: list[tuple[tuple[int, ...], int, int]] = [((2, 3), 9, 1), ((4,), 16, 2), ((), 5, 1), ((2, 1, 3), 1, ALL)]
    for outer, n, chunk in shapes:
        a, b, c = normal(rng, *outer, n), normal(rng, *outer, 1), normal(rng, 3 * n - 2)
        rows = [math.prod(outer[i + 1 :]) for i in range(len(outer))]
        whole = [n * row for row in rows]
        numbers = [chunk, n, len(outer), *outer, *whole, *rows, *[0] * len(outer), *whole]
        buffers = [a, b, c, np.zeros_like(a)]
        yield Case(f"map_nd {outer} {n}", "map_nd", numbers, buffers, {3: a - b * c[::3]}, is_static=n == 9)


REDUCTIONS: list[Callable[[Array], Array]] = [
    lambda x: x.sum(1),
    lambda x: x.mean(1),
    lambda x: x.max(1),
    lambda x: x.min(1),
    lambda x: x.prod(1),
    lambda x: (x * x).sum(1),
    lambda x: np.abs(x).sum(1),
    lambda x: np.sqrt((x * x).sum(1)),
    lambda x: np.log(x.sum(1)),
]
MEAN, PROD, LOG_SUM = 1, 4, 8


def reductions(rng: np.random.Generator) -> Iterator[Case]:
    shapes = [(3, 1, 1), (2, 77, 1), (1, 32, 1), (2, 5, 40), (3, 4, 7)]
    for kind, (outer, n, inner) in itertools.product(range(len(REDUCTIONS)), shapes):
        x = normal(rng, outer, n, inner)
        if kind == LOG_SUM:
            x = np.abs(x)
        if kind == PROD:
            x = 1 + x / 8
        numbers, buffers = [0, kind, outer, n, inner, 1], [x, untouched(outer, inner)]
        want = REDUCTIONS[kind](x.astype(float))
        yield Case(
            f"reduce {kind} {outer}x{n}x{inner}", "reduce", numbers, buffers, {1: want}, 2e-6, is_static=kind == 0
        )
    for kind, dtype, (outer, n, inner) in itertools.product(range(6), (np.int32, np.int64), [(2, 45, 1), (2, 3, 9)]):
        values = rng.integers(-9, 10, (outer, n, inner)).astype(dtype)
        if kind == PROD:
            values = np.where(values > 7, 3, 1).astype(dtype)
        want = REDUCTIONS[kind](values).astype(dtype)
        if kind == MEAN:
            total = values.sum(1)
            want = (np.sign(total) * (np.abs(total) // n)).astype(dtype)
        numbers = [1 if dtype is np.int32 else 2, kind, outer, n, inner, ALL]
        result = np.zeros((outer, inner), dtype)
        yield Case(f"reduce {kind} {values.dtype} {n}x{inner}", "reduce", numbers, [values, result], {1: want})


def softmaxes(rng: np.random.Generator) -> Iterator[Case]:
    for is_log, (outer, n, inner) in itertools.product(range(2), [(3, 10, 1), (2, 33, 1), (2, 5, 11), (1, 1, 1)]):
        x = normal(rng, outer, n, inner) * 9
        shifted = x.astype(float) - x.max(1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        want = logs if is_log else np.exp(logs)
        numbers, buffers = [is_log, outer, n, inner, 1], [x, np.zeros_like(x)]
        yield Case(
            f"softmax {is_log} {outer}x{n}x{inner}", "softmax", numbers, buffers, {1: want}, 1e-6, is_static=n == 10
        )
