"""Operators whose results are as large as the data say: NonZero, Compress, Unique."""

from __future__ import annotations

from mcpc.ir import OPSET, DType, Node, TensorType, dim
from mcpc.ops.context import (
    NUMBERS,
    InferContext,
    attribute,
    axis_of,
    expect,
    expect_rank,
    smaller,
    type_of,
)
from mcpc.ops.registry import EXACT, Cost, OpDef, moves, register, traffic


def infer_non_zero(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, NUMBERS | {DType.bool})
    if x.shape is None:
        return [TensorType(DType.int64, None)]
    return [TensorType(DType.int64, (len(x.shape), context.data_size(node, 0, 1, 0, x.elements)))]


def selected_axis(node: Node) -> int | None:
    """The axis of Compress or Unique, counted from the front; None where the operand counts as flat."""
    x = type_of(node, 0)
    return axis_of(node, attribute(node, "axis", 0), len(x.dims)) if "axis" in node.attrs else None


def infer_compress(node: Node, context: InferContext) -> list[TensorType]:
    x, flags = type_of(node, 0), expect(node, 1, {DType.bool})
    expect_rank(node, 1, 1)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    axis = selected_axis(node)
    length = x.elements if axis is None else x.shape[axis]
    high = length if flags.shape is None else smaller(length, flags.shape[0])
    if axis is None:
        return [TensorType(x.dtype, (context.data_size(node, 0, 0, 0, high),))]
    return [TensorType(x.dtype, (*x.shape[:axis], context.data_size(node, 0, axis, 0, high), *x.shape[axis + 1 :]))]


def infer_unique(node: Node, context: InferContext) -> list[TensorType]:
    """X → the different elements or slices, where each first occurs, which of them each is, how many there are."""
    x = expect(node, 0, NUMBERS | {DType.bool})
    attribute(node, "sorted", 1)
    if x.shape is None:
        return [TensorType(x.dtype, None), *[TensorType(DType.int64, None)] * 3]
    axis = selected_axis(node)
    length = x.elements if axis is None else x.shape[axis]
    size = context.data_size(node, 0, 0 if axis is None else axis, 0, length)
    shape = (size,) if axis is None else (*x.shape[:axis], size, *x.shape[axis + 1 :])
    indices = TensorType(DType.int64, (size,))
    return [TensorType(x.dtype, shape), indices, TensorType(DType.int64, (length,)), indices]


def cost_unique(node: Node) -> Cost:
    """Sorting, in comparisons of elements."""
    elements = type_of(node, 0).elements
    depth = elements.bit_length() if isinstance(elements, int) else 16
    return Cost(dim(elements * depth), traffic(node))


register(
    OpDef("NonZero", infer_non_zero, moves, EXACT, (9, OPSET)),
    OpDef("Compress", infer_compress, moves, EXACT, (9, OPSET)),
    OpDef("Unique", infer_unique, cost_unique, EXACT, (11, OPSET)),
)
