"""Reductions over axes, what reduces within a row (Softmax), and of matrices (Det)."""

from __future__ import annotations

import functools

import numpy as np

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, dim
from mcpc.ops.context import (
    FLOATS,
    WIDE,
    InferContext,
    attribute,
    axes_of,
    axis_of,
    expect,
    fail,
    known_ints,
    larger,
    list_length,
    show,
    type_of,
    unify,
)
from mcpc.ops.registry import ACCUMULATED, EXACT, Contents, Cost, OpDef, register, traffic
from mcpc.ops.symbolic import FUNCTIONS, Unknown


def reduction_axes(node: Node, context: InferContext) -> list[int] | None:
    """The axes that a Reduce node removes, counted from the front, ascending; empty for a no-op, None where only data
    can show them.

    ONNX: absent or empty axes mean all, or none under noop_with_empty_axes.
    """
    rank = type_of(node, 0).rank
    assert rank is not None
    axes = [] if node.input(1) is None else known_ints(node, context, 1)
    if axes is None:
        return None
    if axes:
        return sorted(axes_of(node, axes, rank))
    return [] if attribute(node, "noop_with_empty_axes", 0) else list(range(rank))


def without(shape: tuple[Dim, ...], axes: list[int], keep: bool) -> tuple[Dim, ...]:
    """``shape`` after a reduction over ``axes``, which stay as 1 where ``keep`` is set."""
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
    axes = reduction_axes(node, context)
    if axes is not None:
        return [TensorType(x.dtype, without(x.shape, axes, keep))]
    count = list_length(node, 1)
    if keep:
        bounds: list[Dim] = [larger(size, 1) for size in x.shape]  # nothing is reduced to one
    elif isinstance(count, int):
        bounds = [functools.reduce(larger, x.shape, 1)] * (len(x.shape) - count)
    else:
        return [TensorType(x.dtype, None)]
    return [TensorType(x.dtype, tuple(context.data_size(node, 0, axis, 0, high) for axis, high in enumerate(bounds)))]


def reduce_contents(node: Node, context: InferContext) -> list[Contents | None]:
    operation = {"ReduceSum": "add", "ReduceProd": "mul", "ReduceMax": "max", "ReduceMin": "min"}.get(node.op)
    contents, axes = context.contents(node.inputs[0]), reduction_axes(node, context)
    if operation is None or contents is None or axes is None:
        return [None]
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


def infer_softmax(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, FLOATS)
    if x.rank is not None and not (x.rank == 0 and attribute(node, "axis", -1) in (0, -1)):
        axis_of(node, attribute(node, "axis", -1), x.rank)
    return [TensorType(x.dtype, x.shape)]


def cost_softmax(node: Node) -> Cost:
    return Cost(dim(20 * type_of(node, 0).elements), traffic(node))


def infer_determinant(node: Node, context: InferContext) -> list[TensorType]:
    """[batch…, n, n] → [batch…]."""
    x = expect(node, 0, FLOATS)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    if len(x.shape) < 2:
        fail(node, f"the determinant of {show(x)}")
    unify(node, x.shape[-2], x.shape[-1], f"the sizes of the matrices {show(x)}")
    return [TensorType(x.dtype, x.shape[:-2])]


def cost_determinant(node: Node) -> Cost:
    return Cost(dim(type_of(node, 0).elements * type_of(node, 0).dims[-1]), traffic(node))


_ARITHMETIC = tuple(f"Reduce{n}" for n in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare"))
_EXTREMES = ("ReduceMax", "ReduceMin")
#: Operators that remove axes.
REDUCTIONS = (*_ARITHMETIC, *_EXTREMES)

register(
    *(OpDef(name, infer_reduce, cost_reduce, ACCUMULATED, contents=reduce_contents) for name in _ARITHMETIC),
    *(OpDef(name, infer_reduce, cost_reduce, EXACT, contents=reduce_contents) for name in _EXTREMES),
    OpDef("Softmax", infer_softmax, cost_softmax, ACCUMULATED),
    OpDef("LogSoftmax", infer_softmax, cost_softmax, ACCUMULATED),
    OpDef("Hardmax", infer_softmax, cost_reduce, EXACT),
    OpDef("Det", infer_determinant, cost_determinant, ACCUMULATED, (11, OPSET)),
)
