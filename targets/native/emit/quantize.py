"""Weights that the file holds in a smaller type than the kernel computes with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mcpc.dtypes import pack
from mcpc.ir import Dim, DType, Value
from mcpc.ops.quantize import spread

from ..kernel import Array, KernelBuilder, unsupported
from ..region import EXPANDED

#: The most columns of a tile (tile.h).
TILE_WIDTH = 32


@dataclass(frozen=True)
class Stored:
    """Weights as the file holds them: (``data`` - ``zero``) * ``scale``. All have one shape, views where that costs
    nothing; None stands for 0 and 1."""

    data: Array
    scale: Array | None = None
    zero: Array | None = None

    @property
    def is_float(self) -> bool:
        return bool(self.data.dtype == np.float32)

    @property
    def floats(self) -> Array:
        result = self.data.astype(np.float32, copy=False)
        result = result if self.zero is None else result - self.zero
        return result if self.scale is None else result * self.scale

    def map(self, change: Callable[[Array], Array]) -> Stored:
        """The same rearrangement of all."""
        return Stored(*(None if each is None else change(each) for each in (self.data, self.scale, self.zero)))  # type: ignore[arg-type]

    def times(self, factor: float) -> Stored:
        if factor == 1.0:
            return self
        if self.is_float:
            return Stored(self.data * np.float32(factor))
        scale = np.ones((), np.float32) if self.scale is None else self.scale
        return Stored(self.data, np.broadcast_to(scale * np.float32(factor), self.data.shape), self.zero)


def stored(b: KernelBuilder, value: Value | None) -> Stored:
    """The weights behind an operand of the anchor: a constant, or what the region expands."""
    expansion = value.producer if value is not None else None
    if expansion is not None and expansion in b.region.expansions:
        data, scale, zero = (
            None if (outer := b.region.outer(expansion.input(index))) is None else outer.data for index in range(3)
        )
        assert data is not None
        if expansion.is_op("Cast"):
            return Stored(data)
        assert scale is not None
        has_zero = zero is not None and not DType.of(zero).is_float and bool(zero.any())
        shifts = spread(expansion, zero.astype(np.float32)) if zero is not None and has_zero else None
        scales = np.broadcast_to(spread(expansion, scale.astype(np.float32)), data.shape)
        return Stored(data, scales, None if shifts is None else np.broadcast_to(shifts, data.shape))
    outer = b.region.outer(value)
    if outer is None or outer.data is None:
        raise unsupported(b.node, "a weight that is not constant")
    return Stored(np.asarray(outer.data, np.float32))


def panels(b: KernelBuilder, matrices: Sequence[Stored]) -> str:
    """The weight_panels of matrices [K, N] of small numbers (gemm_q8.h), each behind those before."""
    depth, columns = matrices[0].data.shape
    padding = ((0, 0), (0, -columns % b.nr))

    def packed(parts: Sequence[Array]) -> Array:
        """The panels of matrices side by side."""
        matrix = np.concatenate([np.pad(part, padding) for part in parts], 1)
        return np.ascontiguousarray(matrix.reshape(len(matrix), -1, b.nr).transpose(1, 0, 2))

    parameters = [
        [part for part in parts if part is not None]
        for parts in ([matrix.scale for matrix in matrices], [matrix.zero for matrix in matrices])
    ]
    given = [np.concatenate(parts, 1) for parts in parameters if parts]
    block = math.gcd(*(row for each in given for row in _changes(each))) or max(depth, 1)
    per_column = any((each[:, 1:] != each[:, :-1]).any() for each in given)

    def pointer(parts: Sequence[Array]) -> str:
        if not parts:
            return "0"
        thinned = [part[::block] for part in parts]
        return b.constant(packed(thinned) if per_column else np.ascontiguousarray(thinned[0][:, 0]))

    numbers = b.constant(_at_rest(packed([matrix.data for matrix in matrices])), "void")
    texts = (numbers, *map(pointer, parameters), str(block), str(int(per_column)), "0")
    return f"(weight_panels){{{', '.join(texts)}}}"


def _at_rest(numbers: Array) -> Array:
    """Numbers of fewer than 8 bits packed; all others as they are."""
    bits = DType.of(numbers).bits
    return pack(numbers, bits) if bits < 8 else numbers


def _changes(parameter: Array) -> list[int]:
    """The rows that differ from the row before."""
    return [int(row) + 1 for row in np.flatnonzero((parameter[1:] != parameter[:-1]).any(axis=1))]


def gemm(b: KernelBuilder, rows: Dim, matrix: Stored, a: str, row_step: Dim, epilogue: str) -> None:
    """The product of rows that are ``row_step`` elements apart with a matrix [K, N] of small numbers."""
    depth, columns = matrix.data.shape
    sizes = (rows, columns, depth)
    _prepare(b, matrix)
    operands = (a, row_step, panels(b, [matrix]), _load(matrix), b.output(), columns, epilogue, "args")
    b.call("gemm_weights", *sizes, *operands, b.worker_scratch, "begin", "end")
    b.units = f"weight_units({', '.join(map(b.size, sizes))})"


def conv(b: KernelBuilder, shape: str, x: str, group_in: int, matrices: Sequence[Stored], epilogue: str) -> None:
    """A convolution with one matrix [K, N] of small numbers a group, each for ``group_in`` channels."""
    _prepare(b, matrices[0])
    zeros = b.constant(np.zeros(group_in, np.float32))
    operands = (x, panels(b, matrices), _load(matrices[0]), zeros, b.output(), epilogue, "args")
    b.call("conv_weights", shape, *operands, b.worker_scratch, "begin", "end")
    b.units = f"conv_weights_units({shape})"


def _prepare(b: KernelBuilder, matrix: Stored) -> None:
    """The header, the label, and room for the floats across a tile."""
    b.label += f", {matrix.data.dtype.name} weights"
    b.headers.append("gemm_q8.h")
    b.scratch = max(len(matrix.data), 1) * TILE_WIDTH * 4


def _load(matrix: Stored) -> str:
    return f"weight_load_{EXPANDED[DType.of(matrix.data)]}"
