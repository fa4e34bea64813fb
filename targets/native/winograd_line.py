"""Convolution along one axis by minimal filtering, F(m, r): what kernels/winograd_line.h takes from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.ir import Dim, dim, product
from mcpc.ops.context import ceil_div

from .ctext import float_literal
from .winograd import CACHE_SHARE, block_bytes, values_of_taps

Array = np.ndarray[Any, Any]

#: The positive points by T: of few bits, so that all constants of the transforms are exact.
POINTS = {4: (1.0,), 5: (0.6875, 2.0625), 6: (0.6875, 1.4375), 7: (0.625, 1.125, 2.125), 8: (0.5, 1.0, 2.0)}

#: Channels that are summed up in one chain: a shorter one takes longer, and errors of the transforms are larger.
CHAIN = 32

#: Tiles of a block: the most that fit. Weights are read once a block.
BLOCKS = (96, 72, 48, 36, 24, 16, 12, 8, 6, 4)


@dataclass(frozen=True)
class LineForm:
    """``side`` is T, the number of points and of a tile's pixels of the input. With an even one infinity is a point."""

    taps: int
    side: int

    @property
    def size(self) -> int:
        """m: results of a tile."""
        return self.side + 1 - self.taps

    @property
    def points(self) -> tuple[float, ...]:
        """The positive ones."""
        return POINTS[self.side]

    @property
    def name(self) -> str:
        return f"winograd F({self.size},{self.taps})"

    def tiles(self, lines: Dim, length: Dim) -> Dim:
        """Tiles of so many lines of ``length`` results."""
        return product((lines, ceil_div(length, self.size)))

    def products(self, tiles: Dim, depth: int, columns: int) -> Dim:
        """Floating-point operations of the products of all points."""
        return dim(2 * tiles * self.side * depth * columns)

    def transforms(self, tiles: Dim, depth: int, columns: int) -> Dim:
        """Floating-point operations of the transforms."""
        pairs, has_infinity = len(self.points), self.side % 2 == 0
        forth = pairs * (2 * pairs + 1 + has_infinity)
        back = pairs * (2 + self.size)
        return dim(2 * tiles * (depth * forth + columns * back))

    def block(self, depth: int, l2_bytes: int) -> int:
        """Tiles of a block."""
        return next((count for count in BLOCKS if self.scratch(depth, count) <= l2_bytes * CACHE_SHARE), BLOCKS[-1])

    def scratch(self, depth: int, block: int) -> int:
        """Bytes that a worker needs: winograd_line_f32_scratch."""
        return block_bytes(self.side, depth, block)

    def literals(self, block: int) -> str:
        """The fields of winograd_line_shape behind the first."""
        return f"{self.side}, {{{', '.join(map(float_literal, self.points))}}}, {block}, {CHAIN}"

    def weights(self, taps: Array) -> Array:
        """[O, I, ...], r taps in all -> [T, I, O]: G w, computed in float64 and rounded once."""
        columns, depth = taps.shape[:2]
        g = values_of_taps(self.points, self.taps, self.side)
        values = taps.astype(np.float64).reshape(columns, depth, self.taps) @ g.T
        return np.ascontiguousarray(values.transpose(2, 1, 0), np.float32)


#: Errors are at most 4 times those of ONNX Runtime at any depth, both against float64, which those of F(6,3) and F(4,5)
#: are not: tests/test_winograd_line.py.
LINE_FORMS = tuple(LineForm(taps, side) for taps, side in ((3, 4), (3, 5), (3, 6), (5, 6), (5, 7), (7, 8)))
