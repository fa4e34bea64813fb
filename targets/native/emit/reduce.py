"""Reductions and Softmax over dimensions that are neighbours in memory; the layout pass sees to that."""

from __future__ import annotations

from mcpc import ops
from mcpc.ir import Dim, DType, TensorType, product
from mcpc.ops.reduce import reduction_axes

from ..kernel import KernelBuilder, unsupported
from .registry import emits

KINDS = {
    "ReduceSum": "REDUCE_SUM",
    "ReduceMean": "REDUCE_MEAN",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSumSquare": "REDUCE_SUM_SQUARE",
    "ReduceL1": "REDUCE_L1",
    "ReduceL2": "REDUCE_L2",
    "ReduceLogSum": "REDUCE_LOG_SUM",
}
FLOAT_ONLY = ("ReduceL1", "ReduceL2", "ReduceLogSum")
SUFFIXES = {DType.float32: "f32", DType.int32: "i32", DType.int64: "i64"}


def collapsed(type: TensorType, axes: list[int]) -> tuple[Dim, Dim, Dim]:
    """(outer, reduced, inner) sizes in memory order; the reduced dimensions are neighbours there."""
    where = [position for position, axis in enumerate(type.order) if axis in axes]
    if not where:
        return type.elements, 1, 1
    assert where == list(range(where[0], where[-1] + 1)), (type, axes)
    sizes = [type.dims[axis] for axis in type.order]
    return product(sizes[: where[0]]), product(sizes[where[0] : where[-1] + 1]), product(sizes[where[-1] + 1 :])


@emits(*KINDS)
def reduce(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    if x.dtype not in SUFFIXES or (b.anchor.op in FLOAT_ONLY and x.dtype is not DType.float32):
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    outer, count, inner = collapsed(x.type, reduction_axes(b.anchor, ops.InferContext()))
    b.label = b.anchor.op
    b.headers.append("reduce.h")
    name = f"reduce_{SUFFIXES[x.dtype]}"
    b.call(name, KINDS[b.anchor.op], outer, count, inner, b.input(x), b.output(), "begin", "end")
    b.units = f"reduce_units({b.size(outer)}, {b.size(inner)})"


@emits("Softmax", "LogSoftmax")
def softmax(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    if x.dtype is not DType.float32:
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    axis = int(b.anchor.attrs.get("axis", -1)) % len(x.type.dims)
    outer, count, inner = collapsed(x.type, [axis])
    b.label = "softmax"
    b.headers.append("softmax.h")
    kind = "SOFTMAX" if b.anchor.op == "Softmax" else "SOFTMAX_LOG"
    b.call("softmax_f32", kind, outer, count, inner, b.input(x), b.output(), "begin", "end")
    b.units = f"softmax_f32_units({b.size(outer)}, {b.size(inner)})"
