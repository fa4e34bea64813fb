"""Convolution by minimal filtering, F(m x m, 3 x 3): the numbers that kernels/winograd.h takes from here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.ir import Dim, DType, dim, product
from mcpc.ops.context import ceil_div

from .ctext import float_literal

Array = np.ndarray[Any, Any]

#: As in winograd.h, and the widest TILE_LANES and TILE_WIDTH of tile.h.
RUN, LINE, LANES, WIDTH = 8, 16, 16, 32

#: The share of the second cache that a block of tiles is to take, transformed and multiplied.
CACHE_SHARE = 0.75

#: Tiles of a block: the most that fit. More would read weights less often, but leave fewer units to share out.
BLOCKS = (16, 12, 8, 6, 4)


@dataclass(frozen=True)
class Form:
    """``points`` are the positive ones, ``chain`` is how many channels are summed up in one chain. Up to
    ``deepest`` channels the largest error is at most 4 times that of ONNX Runtime, both against float64. Operations of
    a transform of one line of T values, forth and back, in fused multiply-adds. ``dtype`` is that of weights,
    activations and products."""

    points: tuple[float, ...]
    chain: int
    deepest: int
    forth: int
    back: int
    dtype: DType = DType.float32

    @property
    def size(self) -> int:
        """m: pixels of a tile along an axis."""
        return 2 * len(self.points)

    @property
    def side(self) -> int:
        """T: points along an axis, and pixels of a tile of the input."""
        return self.size + 2

    @property
    def name(self) -> str:
        return f"winograd {self.size}x{self.size}"

    def tiles(self, batch: Dim, height: Dim, width: Dim) -> Dim:
        """Tiles of a result [batch, height, width]."""
        return product((batch, ceil_div(height, self.size), ceil_div(width, self.size)))

    @property
    def itemsize(self) -> int:
        """Bytes of a weight, an activation, a product."""
        return self.dtype.bits // 8

    def products(self, tiles: Dim, depth: int, columns: int) -> Dim:
        """Operations of the products of all points as rates count them: a register holds twice as many float16 as
        float32."""
        return dim(self.itemsize // 2 * tiles * self.side**2 * depth * columns)

    def transforms(self, tiles: Dim, depth: int, columns: int) -> Dim:
        """Floating-point operations of the transforms: the columns that tiles share are transformed once."""
        lines = self.size + self.side
        return dim(2 * tiles * lines * (depth * self.forth + columns * self.back))

    def block(self, depth: int, l2_bytes: int) -> int:
        """Tiles of a block."""
        limit = l2_bytes * CACHE_SHARE
        return next((count for count in BLOCKS if self._block_bytes(depth, count) <= limit), BLOCKS[-1])

    def scratch(self, depth: int, block: int) -> int:
        """Bytes that a worker needs: winograd_scratch."""
        return 4 * self.side * (RUN * self.size + 2) * LANES + self._block_bytes(depth, block)

    def _block_bytes(self, depth: int, block: int) -> int:
        return block_bytes(self.side**2, depth, block) * self.itemsize // 4

    def literals(self, block: int) -> str:
        """The fields of winograd_shape behind the first."""
        return f"{len(self.points)}, {{{', '.join(map(float_literal, self.points))}}}, {block}, {self.chain}"

    def fits(self, taps: Array) -> bool:
        """Whether no weight is beyond the range, whatever the signs of the taps."""
        most = np.abs(taps).max(initial=0.0) * np.abs(self._values_of_taps()).sum(1).max() ** 2
        return bool(self.dtype is DType.float32 or most <= np.finfo(np.float16).max)

    def _values_of_taps(self) -> Array:
        return values_of_taps(self.points, 3, self.side)

    def weights(self, taps: Array) -> Array:
        """[O, I, 3, 3] -> [T * T, I, O]: G w G', computed in float64 and rounded once."""
        g = self._values_of_taps()
        columns, depth = taps.shape[:2]
        lines = taps.astype(np.float64).reshape(-1, 3) @ g.T
        squares = np.einsum("at,ntb->nab", g, lines.reshape(-1, 3, self.side))
        return np.ascontiguousarray(squares.reshape(columns, depth, -1).transpose(2, 1, 0), self.dtype.numpy)


def block_bytes(points: int, depth: int, block: int) -> int:
    """Bytes of V and M of a block of tiles."""
    return 4 * points * (block * (-(-depth // LANES) * LANES + WIDTH) + 2 * LINE)


def values_of_taps(points: tuple[float, ...], taps: int, side: int) -> Array:
    """G, [side, taps]: the values of a polynomial of so many coefficients at the points 0, +p, -p, ..., over what the
    transform of the input leaves out; where ``side`` is one more, at infinity its highest coefficient."""
    finite = [0.0, *(sign * point for point in points for sign in (1.0, -1.0))]
    scales = [math.prod(p - q for q in finite if q != p) for p in finite]
    rows = [[p**power / scale for power in range(taps)] for p, scale in zip(finite, scales, strict=True)]
    infinity = [float(power == taps - 1) for power in range(taps)]
    return np.array([*rows, infinity][:side])


#: How deep they may be is what tests/test_winograd.py shows. F(4x4) with chains as long as there are channels, or with
#: the points 1 and 2, has two to three times the error; that of F(6x6) is more than 4 times ONNX Runtime's anyway.
FORMS = (
    Form((1.0,), 128, 4096, forth=4, back=4),
    Form((0.6875, 1.4375), 16, 128, forth=12, back=12),
    Form((0.5, 1.0, 2.0), 16, 0, forth=24, back=24),
)

#: Those of float16 products, whose errors are at most 4 times those of float16 sums of the direct convolution.
HALF_FORMS = (
    Form((1.0,), 128, 4096, forth=4, back=4, dtype=DType.float16),
    Form((0.6875, 1.4375), 32, 4096, forth=12, back=12, dtype=DType.float16),
)
