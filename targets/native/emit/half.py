"""Gemm and MatMul of float16, and what they share with :mod:`.half_conv` (conv_f16.h)."""

from __future__ import annotations

import math

import numpy as np

from mcpc.ir import Dim, DType, Value, dim, product
from mcpc.kernel_class import KernelClass

from ..ctext import float_literal
from ..kernel import Array, KernelBuilder

#: Columns of a panel (tile_f16.h: HALF_NR).
NR = 16


def work(rows: Dim, columns: int, depth: int) -> Dim:
    """The operations of a product as rates count them: a register holds twice as many float16 as float32."""
    return dim(rows * -(-columns // NR) * NR * depth)


def panels(matrix: Array, bias: Array | None) -> Array:
    """[K, N] and a bias [N] -> [ceil(N / NR)][1 + K][NR], zero-padded."""
    depth, columns = matrix.shape
    count = -(-columns // NR)
    padded = np.zeros((1 + depth, count * NR), np.float16)
    padded[0, :columns] = 0.0 if bias is None else bias
    padded[1:, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(1 + depth, count, NR).transpose(1, 0, 2))


def stored(b: KernelBuilder, value: Value | None) -> Array | None:
    outer = b.region.outer(value)
    return None if outer is None else outer.data


def weights(b: KernelBuilder) -> Array:
    data = stored(b, b.anchor.inputs[1])
    assert data is not None
    return data


def _bounds(b: KernelBuilder) -> tuple[float, float] | None:
    """The bounds that are all that a region does to float16 sums; None where it does more."""
    if b.node.output.dtype is not DType.float16 or len(b.region.chain) > 1:
        return None
    if not b.region.chain:
        return -math.inf, math.inf
    node = b.region.chain[0]
    if node.is_op("Relu"):
        return 0.0, math.inf
    ends = [b.region.outer(node.input(index)) for index in (1, 2)]
    if not node.is_op("Clip") or any(end is not None and end.data is None for end in ends):
        return None
    low, high = (None if end is None or end.data is None else float(end.data) for end in ends)
    return -math.inf if low is None else low, math.inf if high is None else high


def result(b: KernelBuilder) -> tuple[str, str]:
    """The half_result literal, and the epilogue where sums are not just bounded."""
    bounds = _bounds(b)
    low, high = map(float_literal, bounds or (-math.inf, math.inf))
    is_wide = int(b.node.output.dtype is DType.float32)
    literal = f"(half_result){{{b.output(type='void')}, {is_wide}, {int(bounds is not None)}, {{{low}, {high}}}}}"
    return literal, "epilogue_none" if bounds is not None else b.epilogue()


def gemm(b: KernelBuilder, rows: Dim, matrix: Array, bias: Array | None, label: str) -> None:
    depth, columns = matrix.shape
    sizes = (rows, columns, depth)
    y, epilogue = result(b)
    b.label = f"{label}, float16"
    b.headers.append("conv_f16.h")
    packed = b.constant(panels(matrix, bias), "uint16_t")
    x = b.input(b.anchor.inputs[0])
    b.call("gemm_f16", *sizes, x, depth, packed, y, columns, epilogue, "args", "begin", "end")
    b.operations = {KernelClass.GEMM: work(rows, columns, depth)}
    b.units = f"gemm_f16_units({', '.join(map(b.size, sizes))})"


def gemm_node(b: KernelBuilder) -> None:
    """Gemm or MatMul with constant weights and a constant bias a column."""
    anchor = b.anchor
    matrix = weights(b).T if anchor.attrs.get("transB", 0) else weights(b)
    bias = stored(b, anchor.input(2))
    if bias is not None:
        bias = np.ascontiguousarray(np.broadcast_to(bias, (1, matrix.shape[1])).reshape(-1))
    gemm(b, product(b.outer(anchor.inputs[0]).type.dims[:-1]), matrix, bias, "gemm")
