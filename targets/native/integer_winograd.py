"""3x3 convolutions of integers by minimal filtering, F(2 x 2, 3 x 3): the numbers that kernels/winograd_i8.h takes from
here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.ir import Dim, dim, product
from mcpc.ops.context import ceil_div

Array = np.ndarray[Any, Any]

#: As in winograd_i8.h: points, columns of a panel, rows of a core's tile, channels of a vector.
POINTS, COLUMNS, ROWS, LANES, LINE = 16, 16, 6, 16, 32

#: The share of the second cache that the transformed tiles of a block are to take, and the most tiles of one.
CACHE_SHARE, MOST_TILES = 0.5, 48

#: Sums must have 30 bits: so many channels of 9 products of 255 and 128.
MOST_CHANNELS = (1 << 29) // (9 * 255 * 128)

#: Operations of a transform of a tile, forth a channel of numbers of 16 bits, which count half, and back a column.
FORTH, BACK = 16, 24


@dataclass(frozen=True)
class IntegerForm:
    """The one form that there is: those of larger tiles leave 16 bits."""

    @property
    def name(self) -> str:
        return "winograd 2x2"

    def fits(self, depth: int) -> bool:
        """Whether the kernel takes so many channels."""
        return depth % LANES == 0 and depth <= MOST_CHANNELS

    def nbytes(self, depth: int, columns: int) -> int:
        """Bytes of the weights."""
        return 2 * POINTS * depth * columns

    def tiles(self, batch: Dim, height: Dim, width: Dim) -> Dim:
        """Tiles of a result [batch, height, width]."""
        return product((batch, ceil_div(height, 2), ceil_div(width, 2)))

    def products(self, tiles: Dim, depth: int, columns: int) -> Dim:
        return dim(2 * tiles * POINTS * depth * columns)

    def transforms(self, tiles: Dim, depth: int, columns: int) -> Dim:
        return dim(tiles * (depth * FORTH + columns * BACK))

    def block(self, depth: int, l2_bytes: int) -> int:
        """Tiles of a block: as many rows of cores as fit."""
        most = int(l2_bytes * CACHE_SHARE / (2 * POINTS * depth))
        return max(ROWS, min(MOST_TILES, most) // ROWS * ROWS)

    def scratch(self, depth: int, block: int) -> int:
        """Bytes that a worker needs."""
        return depth + 2 * POINTS * (block * depth + LINE) + 4 * POINTS * COLUMNS * (block + 1)

    def weights(self, taps: Array) -> Array:
        """int8 [O, I, 3, 3] -> int16 [panels, points, I / 2, COLUMNS, 2]: 2 G w (2 G)'."""
        g = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int16)
        squares = np.einsum("ai,ocij,bj->ocab", g, taps.astype(np.int16), g)
        columns, depth = taps.shape[:2]
        wide = np.zeros((-(-columns // COLUMNS) * COLUMNS, depth, POINTS), np.int16)
        wide[:columns] = squares.reshape(columns, depth, POINTS)
        split = wide.reshape(-1, COLUMNS, depth // 2, 2, POINTS)
        return np.ascontiguousarray(split.transpose(0, 4, 2, 1, 3))


FORM = IntegerForm()
