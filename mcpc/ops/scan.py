"""Operators whose result depends on where an element is: CumSum, CumProd, Trilu, EyeLike, ReverseSequence."""

from __future__ import annotations

from mcpc.ir import OPSET, DType, Node, TensorType
from mcpc.ops.context import (
    NUMBERS,
    WIDE,
    InferContext,
    attribute,
    axis_of,
    expect,
    expect_rank,
    fail,
    show,
    type_of,
    unify,
)
from mcpc.ops.reduce import cost_reduce
from mcpc.ops.registry import ACCUMULATED, EXACT, NEWEST, OpDef, moves, register


def infer_cumulative(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, WIDE)
    if x.rank is not None:
        scan_axis(node, context)
    return [TensorType(x.dtype, x.shape)]


def scan_axis(node: Node, context: InferContext) -> int | None:
    """The axis of CumSum or CumProd, counted from the front; None where only data can show."""
    x = type_of(node, 0)
    expect(node, 1, {DType.int32, DType.int64})
    expect_rank(node, 1, 0, 1)
    contents = context.contents(node.inputs[1])
    if contents is None:
        return None
    if contents.size != 1:
        fail(node, f"axis must be one number, it is {show(type_of(node, 1))}")
    axis = contents.item()
    return axis_of(node, axis, len(x.dims)) if isinstance(axis, int) else None


def infer_trilu(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    if x.rank is not None and x.rank < 2:
        fail(node, f"a triangle of {show(x)}")
    if node.input(1) is not None:
        expect(node, 1, {DType.int64})
        expect_rank(node, 1, 0, 1)
    return [TensorType(x.dtype, x.shape)]


def infer_eye_like(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    expect_rank(node, 0, 2)
    dtype = node.attrs.get("dtype", x.dtype)
    if not isinstance(dtype, DType) or dtype not in NUMBERS | {DType.bool}:
        fail(node, "attribute dtype names no supported type", "E109")
    return [TensorType(dtype, x.shape)]


def infer_reverse_sequence(node: Node, context: InferContext) -> list[TensorType]:
    """X [T, B, …] or [B, T, …], lengths [B]."""
    x, lengths = type_of(node, 0), expect(node, 1, {DType.int64})
    expect_rank(node, 1, 1)
    batch, time = attribute(node, "batch_axis", 1), attribute(node, "time_axis", 0)
    if {batch, time} != {0, 1}:
        fail(node, f"batch_axis {batch} and time_axis {time}; 0 and 1 in either order are needed", "E102")
    if x.shape is not None:
        if len(x.shape) < 2:
            fail(node, f"{show(x)} is no batch of sequences")
        if lengths.shape is not None:
            unify(node, lengths.shape[0], x.shape[batch], "the number of lengths and the batch")
    return [TensorType(x.dtype, x.shape)]


register(
    OpDef("CumSum", infer_cumulative, cost_reduce, ACCUMULATED, (11, OPSET)),
    OpDef("CumProd", infer_cumulative, cost_reduce, ACCUMULATED, (26, NEWEST)),
    OpDef("Trilu", infer_trilu, moves, EXACT, (14, OPSET)),
    OpDef("EyeLike", infer_eye_like, moves, EXACT, (9, OPSET)),
    OpDef("ReverseSequence", infer_reverse_sequence, moves, EXACT, (10, OPSET)),
)
