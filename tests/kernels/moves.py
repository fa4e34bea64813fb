"""Cases of kernels that move elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .case import ALL, Array, Case

TYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

VIEWS: dict[str, tuple[tuple[int, ...], Callable[[Array], Array]]] = {
    "transpose 2-D": ((17, 26), lambda x: x.T),
    "NCHW to NHWC": ((2, 3, 9, 10), lambda x: x.transpose(0, 2, 3, 1)),
    "NHWC to NCHW": ((2, 9, 4, 16), lambda x: x.transpose(0, 3, 1, 2)),
    "reverse": ((3, 40), lambda x: x[::-1, ::-1]),
    "steps": ((9, 5, 30), lambda x: x[1::3, :, 4:29:2]),
    "run": ((100,), lambda x: x[3:]),
    "rows": ((4, 3, 70), lambda x: x[:, 1:, 1:68]),
    "expand": ((3, 1, 5, 1), lambda x: np.broadcast_to(x, (3, 4, 5, 6))),
    "deep": ((2, 3, 4, 2, 3), lambda x: x.transpose(4, 0, 2, 3, 1)),
}


def _values(rng: np.random.Generator, bits: int, *shape: int) -> Array:
    return rng.integers(1, 250, shape).astype(TYPES[bits])


def copies(rng: np.random.Generator) -> Iterator[Case]:
    for bits, (index, (name, (shape, view))) in itertools.product(TYPES, enumerate(VIEWS.items())):
        x = _values(rng, bits, *shape)
        want = view(x)
        offset = (want.__array_interface__["data"][0] - x.__array_interface__["data"][0]) // x.itemsize
        to = [math.prod(want.shape[i + 1 :]) for i in range(want.ndim)]
        source = [stride // x.itemsize for stride in want.strides]
        numbers = [1 if index % 2 else ALL, bits, want.ndim, 0, offset, *want.shape, *to, *source]
        buffers = [x, np.zeros(want.shape, x.dtype)]
        yield Case(f"copy {name} {bits}", "copy", numbers, buffers, {1: want}, is_static=bits == 32)


def pads(rng: np.random.Generator) -> Iterator[Case]:
    amounts = [
        ((4, 5), (2, 3), (1, 4)),
        ((6,), (5,), (3,)),
        ((2, 3, 4), (1, 0, 2), (1, 2, 0)),
        ((1, 2), (0, 3), (2, 3)),
    ]
    modes: list[Any] = ["constant", "reflect", "edge", "wrap"]
    for (index, mode), (shape, before, after) in itertools.product(enumerate(modes), amounts):
        x = _values(rng, 32, *shape)
        options = {"constant_values": 7} if mode == "constant" else {}
        want = np.pad(x, list(zip(before, after, strict=True)), mode=mode, **options)
        numbers = [1, 32, index, 7, len(shape), *shape, *before, *want.shape]
        yield Case(
            f"pad {mode} {shape}", "pad", numbers, [x, np.zeros_like(want)], {1: want}, is_static=len(shape) == 3
        )
    x = _values(rng, 8, 5, 6)
    want = np.pad(x[1:4, :4], ((0, 0), (2, 0)), constant_values=9)
    yield Case("pad cuts", "pad", [ALL, 8, 0, 9, 2, 5, 6, -1, 2, 3, 6], [x, np.zeros_like(want)], {1: want})


def gathers(rng: np.random.Generator) -> Iterator[Case]:
    """An index out of range must give status -20 and the fault of step 7: kind 1, index, bound."""
    fault = np.zeros(5, np.int64)
    for bits, index_type in itertools.product(TYPES, (np.int32, np.int64)):
        is64 = int(index_type is np.int64)
        x, at = _values(rng, bits, 3, 7, 5), np.array([0, 6, -1, -7, 3, 3], index_type)
        numbers, buffers = [1, bits, 3, 7, 5, 6, is64], [x, at, np.zeros((3, 6, 5), x.dtype), fault]
        results = {2: x[:, at], 3: fault}
        yield Case(f"gather {bits} {is64}", "gather", numbers, buffers, results, is_static=bits == 32)
        for wrong in (7, -8):
            numbers = [ALL, bits, 3, 7, 5, 2, is64]
            buffers = [x, np.array([0, wrong], index_type), np.zeros((3, 2, 5), x.dtype), fault]
            want = np.array([-20, 7, 1, wrong, 7])
            yield Case(f"gather {bits} {is64} [{wrong}]", "gather", numbers, buffers, {3: want})
