"""Products of 8-bit integers, and the quantised forms that no rewrite takes."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, DType, Value, product
from mcpc.ops.linear import convolution_of
from mcpc.ops.quantize import has_packed_weights, signed_weights

from ..kernel import Array, KernelBuilder, unsupported
from ..region import Region
from .conv import conv_shape
from .registry import emits
from .windows import window_shape


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


def is_packed(region: Region) -> bool:
    """Whether the anchor is a product of integers that gemm_i8.h takes."""
    anchor = region.anchor
    return anchor is not None and has_packed_weights(anchor, [region.outer(value) for value in anchor.inputs])


@emits("MatMulInteger")
def matmul(b: KernelBuilder) -> None:
    left, right = (b.outer(value) for value in b.anchor.inputs[:2])
    a, w = left.type.dims, right.type.dims
    if is_packed(b.region):
        packed_matmul(b)
        return
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


def packed_matmul(b: KernelBuilder) -> None:
    """The product with weights [K, N] in the layout of gemm_i8.h."""
    weights = _weights(b)
    depth, columns = weights.shape
    rows = product(b.outer(b.anchor.inputs[0]).type.dims[:-1])
    b.label = "gemm of integers"
    b.call("gemm_i8", *(rows, columns, depth), *_packed_operands(b, weights))
    b.units = f"gemm_i8_units({b.size(rows)}, {columns})"


def packed_conv(b: KernelBuilder) -> None:
    """A convolution of one group over one or two axes."""
    weights, window = _weights(b), convolution_of(b.anchor).window
    inner = b.anchor.inputs[0]
    assert inner is not None
    shape = conv_shape(b, inner, window, 1)
    matrix = weights.reshape(*weights.shape[:2], -1).transpose(2, 1, 0).reshape(-1, len(weights))
    b.label = f"conv {'x'.join(map(str, window.kernel))} of integers"
    b.call("conv_bytes", shape, *_packed_operands(b, matrix))
    b.units = f"conv_bytes_units({shape})"


def _weights(b: KernelBuilder) -> Array:
    weights = signed_weights(b.anchor, [b.region.outer(value) for value in b.anchor.inputs])
    assert weights is not None
    return weights


def _packed_operands(b: KernelBuilder, weights: Array) -> tuple[str, ...]:
    """What follows the sizes in a call of gemm_i8.h, for weights [K, N]."""
    left, zero = b.outer(b.anchor.inputs[0]), b.anchor.input(2)
    depth, columns = weights.shape
    padded = np.zeros((-(-depth // 4) * 4, -(-columns // b.nr) * b.nr), np.int8)
    padded[:depth, :columns] = weights
    packed = padded.reshape(len(padded) // 4, 4, padded.shape[1] // b.nr, b.nr).transpose(2, 0, 3, 1)
    b.headers.append("gemm_i8.h")
    b.scratch = 96 * max(len(padded) // 4, 1)  # GEMM_I8_SCRATCH
    point = "0" if zero is None else f"{b.input(zero)}[0]"
    return (
        f"(byte_rows){{{b.input(left, 'void')}, {int(left.dtype is DType.int8)}, {point}}}",
        b.byte_weights(np.ascontiguousarray(packed), f"[N/{b.nr}][K/4][{b.nr}][4]"),
        b.constant(padded.sum(0, dtype=np.int32), "int32_t"),
        *(b.finish(), "args", f"(void *){b.worker_scratch}", "begin", "end"),
    )


def _batch(b: KernelBuilder, left_rank: int, right_rank: int) -> Dim:
    """How many products the output holds."""
    dims = b.node.output.type.dims
    return product(dims[: len(dims) - (left_rank > 1) - (right_rank > 1)])


@emits("ConvInteger")
def conv(b: KernelBuilder) -> None:
    x, w = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    if is_packed(b.region):
        packed_conv(b)
        return
    window = convolution_of(b.anchor).window
    shape = window_shape(b, x, [window.padding(axis, size)[0] for axis, size in enumerate(x.type.dims[2:])], False)
    if w.data is None:  # the layout pass puts output channels innermost
        weights = b.input(w, "void")
    else:
        order = (*range(2, w.data.ndim), 1, 0)
        weights = b.constant(np.ascontiguousarray(w.data.transpose(order)), "void")
    b.label = f"conv {'x'.join(map(str, window.kernel))} of integers"
    b.headers.append("quantize.h")
    b.call(
        "conv_i8",
        shape,
        factor(b, b.input(x, "void"), x.dtype, b.anchor.input(2), 1),
        factor(b, weights, w.dtype, b.anchor.input(3), w.type.dims[0]),
        *(b.output(), "begin", "end"),
    )
    b.units = f"window_pixels({shape})"
