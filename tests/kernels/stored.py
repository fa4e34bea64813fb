"""Cases of products whose weights are stored in small types, and of plain products of bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .case import ALL, Array, Case, Packed, normal, pack, untouched


class PackedNumbers(Packed):
    """Weights [K, N] of a small type as gemm_q8.h has them; those of four bits two a byte."""

    def array(self, nr: int) -> Array:
        (matrix,) = self.matrices
        packed = pack(matrix.astype(np.float32), nr).astype(np.int16)
        if matrix.dtype.itemsize == 1 and self.bits == 8:
            return packed.astype(matrix.dtype)
        halves = packed.reshape(*packed.shape[:-1], -1, 2) & 15
        return (halves[..., 0] | halves[..., 1] << 4).astype(np.uint8)

    def __init__(self, matrix: Array, bits: int) -> None:
        super().__init__([matrix])
        self.bits = bits


#: Rows, columns, depth, neighbours along the depth that share a scale.
SHAPES = [
    (1, 70, 33, 33), (1, 130, 12, 5), (2, 40, 16, 16), (3, 17, 40, 16), (4, 33, 9, 4), (5, 8, 20, 20), (13, 70, 24, 8),
    (60, 40, 7, 7), (203, 19, 6, 3),
]  # fmt: skip


def products(rng: np.random.Generator) -> Iterator[Case]:
    for index, (m, n, k, block) in enumerate(SHAPES):
        for kind, (stem, bits, low, high) in enumerate((("i8", 8, -128, 127), ("u8", 8, 0, 255), ("i4", 4, -8, 7))):
            stored = rng.integers(low, high, (k, n), endpoint=True).astype(np.uint8 if stem == "u8" else np.int8)
            blocks = math.ceil(k / block)
            scale, zero = normal(rng, blocks, n), rng.integers(0, 9, (blocks, n)).astype(np.float32)
            weights = stored.astype(float) - (np.repeat(zero, block, 0)[:k] if kind == 1 else 0)
            a = normal(rng, m, k)
            want = a.astype(float) @ (weights * np.repeat(scale, block, 0)[:k])
            buffers: list[Array | Packed] = [a, PackedNumbers(stored, bits), Packed([scale]), Packed([zero])]
            buffers += [untouched(k * 32), untouched(m, n)]
            numbers = [m, n, k, block, kind, 1 if index % 2 else ALL]
            yield Case(
                f"gemm_weights {stem} {m}x{k}x{n}", "gemm_weights", numbers, buffers, {5: want}, 1e-5, index in (1, 6)
            )


def byte_products(rng: np.random.Generator) -> Iterator[Case]:
    for index, (batch, m, n, k) in enumerate([(1, 1, 1, 1), (2, 5, 19, 7), (3, 4, 8, 40), (1, 9, 33, 3)]):
        types = (np.uint8, np.int8)[:: -1 if index % 2 else 1]
        a, b = (
            rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
            for dtype, shape in zip(types, ((batch, m, k), (batch, k, n)), strict=True)
        )
        rows, columns = (a[0, :, 0].copy(), b[0, 0].copy())
        want = (a.astype(np.int32) - rows[:, None]) @ (b.astype(np.int32) - columns)
        buffers: list[Array | Packed] = [a, b, rows, columns, np.full((batch, m, n), 12345, np.int32)]
        numbers = [batch, m, n, k, index % 2, 1 if index else ALL]
        yield Case(f"matmul_i8 {batch}x{m}x{k}x{n}", "matmul_i8", numbers, buffers, {4: want}, is_static=index == 1)
