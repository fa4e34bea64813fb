"""LayerNormalization and RMSNormalization: one loop over rows, with what is fused behind it."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, DType, TensorType, Value, is_static, product

from ..ctext import literal
from ..iteration import rows_and_columns
from ..kernel import KernelBuilder, unsupported
from .linear import expect_float32
from .registry import emits

KINDS = {"LayerNormalization": "NORMALIZE_MEAN_AND_VARIANCE", "RMSNormalization": "NORMALIZE_MEAN_SQUARE"}


@emits(*KINDS)
def normalize(b: KernelBuilder) -> None:
    expect_float32(b)
    anchor = b.anchor
    y = b.node.outputs[0]
    x = b.outer(anchor.inputs[0]).type if y is None else y.type  # inference may know more of the result's sizes
    axis = int(anchor.attrs.get("axis", -1)) % len(x.dims)
    outputs = ["0" if value is None else b.output(index) for index, value in enumerate(b.node.outputs)]
    epilogue = b.epilogue()
    b.label = anchor.op
    b.headers.append("normalize.h")
    b.call(
        "normalize_f32",
        KINDS[anchor.op],
        product(x.dims[axis:]),
        b.input(anchor.inputs[0]),
        *(operand(b, x, axis, anchor.input(index)) for index in (1, 2)),
        literal(float(np.float32(anchor.attrs.get("epsilon", 1e-5))), DType.float32),
        *[*outputs, "0", "0"][:3],
        *(epilogue, "args", "begin", "end"),
    )
    b.units = b.size(product(x.dims[:axis]))


def operand(b: KernelBuilder, x: TensorType, axis: int, value: Value | None) -> str:
    """The normalize_operand of a scale or bias; constants are repeated as far as rows and columns do not say it."""
    if value is None:
        return "(normalize_operand){0}"
    outer = b.outer(value)
    steps = affine_steps(x, axis, outer.type)
    if steps is not None:
        pointer = b.input(value)
    elif outer.data is not None and all(size == 1 for size in outer.type.dims[: -(len(x.dims) - axis)]):
        normalized = TensorType(x.dtype, x.dims[axis:])
        if not is_static(normalized.shape):
            raise unsupported(b.node, f"a constant of type {outer.type} for {x}")
        data = np.asarray(outer.data, np.float32).reshape(outer.data.shape[-len(normalized.dims) :])
        pointer, steps = b.constant(np.ascontiguousarray(np.broadcast_to(data, normalized.static_shape))), (0, 1)
    else:
        raise unsupported(b.node, f"an operand of type {outer.type} for axis {axis} of {x}")
    return f"(normalize_operand){{{pointer}, {b.size(steps[0])}, {b.size(steps[1])}}}"


def affine_steps(x: TensorType, axis: int, operand: TensorType) -> tuple[Dim, Dim] | None:
    """Elements from row to row and from column to column, ``x`` seen as a matrix whose columns are the dimensions from
    ``axis`` on; None where two numbers do not say it."""
    if product(operand.dims) == 1:
        return 0, 0
    if axis == len(x.dims) - 1:
        return rows_and_columns(x, operand)
    leading = operand.dims[: -(len(x.dims) - axis)]
    return (0, 1) if product(leading) == 1 and operand.dims[-(len(x.dims) - axis) :] == x.dims[axis:] else None
