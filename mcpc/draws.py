"""Random numbers that Python and the C runtime make alike, so that an artifact states a seed instead of the tensor.

``runtime/src/draw.h`` is the same in C. Word i of a seed is that of SplitMix64 (Steele, Lea, Flood: Fast splittable
pseudorandom number generators, 2014): whole words are computed from their number alone, by 64-bit integers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc import dtypes

Array = np.ndarray[Any, Any]

#: The standard deviation of the sum of four 16-bit numbers, and its mean.
_DEVIATION = 2**16 / math.sqrt(3)
_MEAN = 131070

#: Types from float8 on are not drawn.
_LAST_CODE = 16


def random_words(seed: int, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The first ``count`` words of ``seed``, uint64."""
    word = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed % 2**64)
    word = (word ^ word >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ word >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return word ^ word >> np.uint64(31)


def drawable(dtype: np.dtype[Any]) -> bool:
    """Whether elements of that type can be drawn and averaged: floats of 16 bits and more, integers of 8, bool."""
    return any(code <= _LAST_CODE and each.numpy_name == dtype.name for code, each in dtypes.BY_CODE.items())


def is_float(dtype: np.dtype[Any]) -> bool:
    """bfloat16 and smaller floats, which numpy does not know, included."""
    return "float" in dtype.name


@dataclass(frozen=True)
class Draw:
    """A tensor whose element i is made of word i: a float of ``scale`` times a bell-shaped number, anything else of
    the word modulo ``range``."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    seed: int
    scale: float = 0.0
    range: int = 0

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self) -> Array:
        """The elements, row-major."""
        word = random_words(self.seed, math.prod(self.shape))
        if not is_float(self.dtype):
            return (word % np.uint64(self.range)).astype(self.dtype).reshape(self.shape)
        sums = word.view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int32)
        numbers: Array = (sums - _MEAN).astype(np.float32) * np.float32(self.scale)
        return numbers.astype(self.dtype).reshape(self.shape)


def bell(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int, deviation: float) -> Draw:
    """Floats around 0 of that standard deviation, none beyond 3.5 times it."""
    return Draw(dtype, shape, seed, scale=float(np.float32(deviation / _DEVIATION)))
