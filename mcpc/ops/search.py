"""Operators that search along an axis: ArgMax, ArgMin, TopK."""

from __future__ import annotations

import math

from mcpc.ir import Dim, DType, Node, TensorType, dim
from mcpc.ops.context import NUMBERS, InferContext, attribute, axis_of, expect, expect_rank, fail, show, type_of
from mcpc.ops.reduce import cost_reduce, without
from mcpc.ops.registry import EXACT, Cost, OpDef, register, traffic


def infer_arg_extreme(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, NUMBERS)
    if x.shape is None:
        return [TensorType(DType.int64, None)]
    if not x.shape:  # numpy's argmax of a number is 0
        return [TensorType(DType.int64, ())]
    axis = axis_of(node, attribute(node, "axis", 0), len(x.shape))
    if x.shape[axis] == 0 and x.elements != 0:
        fail(node, f"axis {axis} of {show(x)} is empty")
    return [TensorType(DType.int64, without(x.shape, [axis], bool(attribute(node, "keepdims", 1))))]


def infer_top_k(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, NUMBERS)
    expect(node, 1, {DType.int64})
    expect_rank(node, 1, 0, 1)
    if x.shape is None:
        return [TensorType(x.dtype, None), TensorType(DType.int64, None)]
    axis = axis_of(node, attribute(node, "axis", -1), len(x.shape))
    size = top_k_count(node, context)
    if isinstance(size, int) and isinstance(x.shape[axis], int) and not 0 <= size <= int(x.shape[axis]):
        fail(node, f"k is {size}, axis {axis} of {show(x)} has not so many")
    shape = (*x.shape[:axis], context.data_size(node, 0, axis) if size is None else size, *x.shape[axis + 1 :])
    return [TensorType(x.dtype, shape), TensorType(DType.int64, shape)]


def top_k_count(node: Node, context: InferContext) -> Dim | None:
    """K; None where only data can show."""
    contents = context.contents(node.inputs[1])
    if contents is not None and contents.size != 1:
        fail(node, f"k must be one number, it is {show(type_of(node, 1))}")
    return None if contents is None else contents.item()


def cost_top_k(node: Node) -> Cost:
    """A comparison an element, and a heap's work for those that are kept."""
    kept = next(value for value in node.outputs if value is not None).type.elements
    depth = math.ceil(math.log2(kept)) + 1 if isinstance(kept, int) and kept > 1 else 1
    return Cost(dim(type_of(node, 0).elements + kept * depth), traffic(node))


register(
    OpDef("ArgMax", infer_arg_extreme, cost_reduce, EXACT),
    OpDef("ArgMin", infer_arg_extreme, cost_reduce, EXACT),
    OpDef("TopK", infer_top_k, cost_top_k, EXACT),
)
