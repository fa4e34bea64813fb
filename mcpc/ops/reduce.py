"""Reductions over axes, and what reduces within a row: Softmax, cumulative sums, index of the extreme."""

from __future__ import annotations

import numpy as np

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, dim
from mcpc.ops.context import (
    FLOATS,
    NUMBERS,
    WIDE,
    InferContext,
    attribute,
    axes_of,
    axis_of,
    expect,
    expect_rank,
    fail,
    ints,
    show,
    type_of,
    vector,
)
from mcpc.ops.registry import ACCUMULATED, EXACT, Contents, Cost, OpDef, register, traffic
from mcpc.ops.symbolic import FUNCTIONS, Unknown


def reduction_axes(node: Node, context: InferContext) -> list[int]:
    """The axes that a Reduce node removes, counted from the front, ascending; empty for a no-op.

    ONNX: absent or empty axes mean all, or none under noop_with_empty_axes. E102 where they are not constant.
    """
    rank = type_of(node, 0).rank
    assert rank is not None
    axes = ints(node, context, 1)
    if axes:
        return sorted(axes_of(node, axes, rank))
    return [] if attribute(node, "noop_with_empty_axes", 0) else list(range(rank))


def _without(shape: tuple[Dim, ...], axes: list[int], keep: bool) -> tuple[Dim, ...]:
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def infer_reduce(node: Node, context: InferContext) -> list[TensorType]:
    wanted = WIDE
    if node.op in ("ReduceMax", "ReduceMin"):
        wanted = WIDE | {DType.int8, DType.uint8, DType.bool}
    x = expect(node, 0, wanted)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    keep = bool(attribute(node, "keepdims", 1))
    axes = vector(node, context, 1) if node.input(1) is not None else []
    if axes is None or None in axes:  # only data can show which axes go
        if axes is None and not keep:
            return [TensorType(x.dtype, None)]
        rank = len(x.shape) if keep or axes is None else len(x.shape) - len(axes)
        return [TensorType(x.dtype, tuple(context.unknown(node, axis) for axis in range(rank)))]
    return [TensorType(x.dtype, _without(x.shape, reduction_axes(node, context), keep))]


def reduce_contents(node: Node, context: InferContext) -> list[Contents | None]:
    operation = {"ReduceSum": "add", "ReduceProd": "mul", "ReduceMax": "max", "ReduceMin": "min"}.get(node.op)
    contents = context.contents(node.inputs[0])
    if (
        operation is None
        or contents is None
        or (node.input(1) is not None and context.contents(node.inputs[1]) is None)
    ):
        return [None]
    axes = reduction_axes(node, context)
    kept = [axis for axis in range(contents.ndim) if axis not in axes]
    rows = np.transpose(contents, [*kept, *axes])
    shape = rows.shape[: len(kept)]
    result = np.empty(shape, dtype=object)
    for position in np.ndindex(shape):
        items = list(rows[position].ravel()) if axes else [rows[position]]
        total = {"add": 0, "mul": 1}.get(operation) if not items else items[0]
        try:
            for item in items[1:]:
                total = FUNCTIONS[operation](total, item)
        except Unknown:
            total = None
        result[position] = total
    if attribute(node, "keepdims", 1):
        result = np.expand_dims(result, tuple(axes))
    return [result]


def cost_reduce(node: Node) -> Cost:
    return Cost(type_of(node, 0).elements, traffic(node))


def infer_arg_extreme(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, NUMBERS)
    if x.shape is None:
        return [TensorType(DType.int64, None)]
    axis = axis_of(node, attribute(node, "axis", 0), len(x.shape))
    return [TensorType(DType.int64, _without(x.shape, [axis], bool(attribute(node, "keepdims", 1))))]


def infer_softmax(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, FLOATS)
    if x.rank is not None and not (x.rank == 0 and attribute(node, "axis", -1) in (0, -1)):
        axis_of(node, attribute(node, "axis", -1), x.rank)
    return [TensorType(x.dtype, x.shape)]


def cost_softmax(node: Node) -> Cost:
    return Cost(dim(20 * type_of(node, 0).elements), traffic(node))


def infer_cumulative(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, WIDE)
    expect(node, 1, {DType.int32, DType.int64})
    expect_rank(node, 1, 0, 1)
    axis = context.contents(node.inputs[1])
    if x.rank is not None and axis is not None and axis.size == 1 and isinstance(axis.item(), int):
        axis_of(node, int(axis.item()), x.rank)
    elif axis is not None and axis.size != 1:
        fail(node, f"axis must be one number, it is {show(type_of(node, 1))}")
    return [TensorType(x.dtype, x.shape)]


_ARITHMETIC = ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare")
register(
    *(OpDef(f"Reduce{n}", infer_reduce, cost_reduce, ACCUMULATED, contents=reduce_contents) for n in _ARITHMETIC),
    *(OpDef(f"Reduce{n}", infer_reduce, cost_reduce, EXACT, contents=reduce_contents) for n in ("Max", "Min")),
    OpDef("ArgMax", infer_arg_extreme, cost_reduce, EXACT),
    OpDef("ArgMin", infer_arg_extreme, cost_reduce, EXACT),
    OpDef("Softmax", infer_softmax, cost_softmax, ACCUMULATED),
    OpDef("LogSoftmax", infer_softmax, cost_softmax, ACCUMULATED),
    OpDef("CumSum", infer_cumulative, cost_reduce, ACCUMULATED, (11, OPSET)),
)
