"""Products of 8-bit integers, and the quantised forms that no rewrite takes."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, DType, Value, product
from mcpc.ops.linear import convolution_of

from ..kernel import KernelBuilder, unsupported
from .linear import conv_shape
from .registry import emits


@emits("QuantizeLinear", "DequantizeLinear")
def along_axis(b: KernelBuilder) -> None:
    """What :mod:`targets.native.quantized` has left."""
    raise unsupported(b.node, "a computed scale of blocks that do not divide a fixed axis")


def factor(b: KernelBuilder, pointer: str, dtype: DType, zero: Value | None, count: Dim) -> str:
    """The byte_factor at ``pointer``, with a zero point for all or each of ``count`` rows or columns."""
    points, step = "0", 0
    if zero is not None:
        type = b.outer(zero).type
        step = int(type.elements != 1)
        if step and (len(type.dims) != 1 or type.dims[0] != count):
            raise unsupported(b.node, f"a zero point of shape {list(type.dims)}")
        points = b.input(zero, "void")
    return f"(byte_factor){{{pointer}, {int(dtype is DType.int8)}, {points}, {step}}}"


@emits("MatMulInteger")
def matmul(b: KernelBuilder) -> None:
    left, right = (b.outer(value) for value in b.anchor.inputs[:2])
    a, w = left.type.dims, right.type.dims
    *batch, rows, depth = (1, *a) if len(a) == 1 else a
    columns = 1 if len(w) == 1 else w[-1]
    batch_a, batch_b = product(batch), product(w[:-2])
    count = product(b.node.output.type.dims) if len(a) == len(w) == 1 else _batch(b, len(a), len(w))
    if batch_a not in (1, count) or batch_b not in (1, count):
        raise unsupported(b.node, "batches that are broadcast")
    b.label = "matmul of integers"
    b.headers.append("quantize.h")
    b.call(
        "matmul_i8",
        *(rows, columns, depth),
        factor(b, b.input(left, "void"), left.dtype, b.anchor.input(2), rows),
        0 if batch_a == 1 else product((rows, depth)),
        factor(b, b.input(right, "void"), right.dtype, b.anchor.input(3), columns),
        0 if batch_b == 1 else product((depth, columns)),
        *(b.output(), "begin", "end"),
    )
    b.units = f"matmul_i8_units({b.size(count)}, {b.size(rows)})"


def _batch(b: KernelBuilder, left_rank: int, right_rank: int) -> Dim:
    """How many products the output holds."""
    dims = b.node.output.type.dims
    return product(dims[: len(dims) - (left_rank > 1) - (right_rank > 1)])


@emits("ConvInteger")
def conv(b: KernelBuilder) -> None:
    x, w = b.anchor.inputs[:2]
    assert x is not None and w is not None
    weights = b.outer(w).data
    if weights is None:
        raise unsupported(b.node, "a weight that is not constant")
    convolution = convolution_of(b.anchor)
    window, groups = convolution.window, convolution.groups
    out_c, depth = weights.shape[:2]
    shape = conv_shape(b, x, window, groups)
    packed = weights.reshape(groups, out_c // groups, depth, -1).transpose(0, 3, 2, 1)
    b.label = f"conv {'x'.join(map(str, window.kernel))} of integers"
    b.headers.append("quantize.h")
    b.call(
        "conv_i8",
        shape,
        factor(b, b.input(x, "void"), x.dtype, b.anchor.input(2), 1),
        factor(b, b.constant(np.ascontiguousarray(packed), "void"), w.dtype, b.anchor.input(3), out_c),
        *(b.output(), "begin", "end"),
    )
    b.units = f"conv_i8_units({shape})"
