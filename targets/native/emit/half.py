"""Conv, Gemm and MatMul of float16: products with packed weights (conv_f16.h)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mcpc.ir import Dim, DType, Value, dim, product
from mcpc.kernel_class import KernelClass
from mcpc.ops.linear import convolution_of

from ..ctext import float_literal
from ..kernel import Array, KernelBuilder
from . import linear

#: Columns of a panel (HALF_NR), output pixels of a strip and rows of a tile (tile_f16.h, conv_f16.h).
NR, STRIP, ROWS = 16, 64, 8


def work(rows: Dim, columns: int, depth: int) -> Dim:
    """The operations of a product as rates count them: a register holds twice as many float16 as float32."""
    return dim(rows * linear.padded(columns, NR) * depth)


def panels(matrix: Array, bias: Array | None) -> Array:
    """[K, N] and a bias [N] -> [ceil(N / NR)][1 + K][NR], zero-padded."""
    depth, columns = matrix.shape
    count = -(-columns // NR)
    padded = np.zeros((1 + depth, count * NR), np.float16)
    padded[0, :columns] = 0.0 if bias is None else bias
    padded[1:, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(1 + depth, count, NR).transpose(1, 0, 2))


def biases(bias: Array | None, groups: int) -> Sequence[Array | None]:
    return [None] * groups if bias is None else np.split(bias, groups)


def _constant(b: KernelBuilder, value: Value | None) -> Array | None:
    outer = b.region.outer(value)
    return None if outer is None else outer.data


def _weights(b: KernelBuilder) -> Array:
    data = _constant(b, b.anchor.inputs[1])
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


def _result(b: KernelBuilder) -> tuple[str, str]:
    """The half_result literal, and the epilogue where sums are not just bounded."""
    bounds = _bounds(b)
    low, high = map(float_literal, bounds or (-math.inf, math.inf))
    is_wide = int(b.node.output.dtype is DType.float32)
    result = f"(half_result){{{b.output(type='void')}, {is_wide}, {int(bounds is not None)}, {{{low}, {high}}}}}"
    return result, "epilogue_none" if bounds is not None else b.epilogue()


def _gemm(b: KernelBuilder, rows: Dim, matrix: Array, bias: Array | None, label: str) -> None:
    depth, columns = matrix.shape
    sizes = (rows, columns, depth)
    y, epilogue = _result(b)
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
    matrix = _weights(b).T if anchor.attrs.get("transB", 0) else _weights(b)
    bias = _constant(b, anchor.input(2))
    if bias is not None:
        bias = np.ascontiguousarray(np.broadcast_to(bias, (1, matrix.shape[1])).reshape(-1))
    _gemm(b, product(b.outer(anchor.inputs[0]).type.dims[:-1]), matrix, bias, "gemm")


def conv(b: KernelBuilder) -> None:
    """A Conv over one or two axes; of few float32 channels that lie row-major, else of float16 channels-last."""
    anchor = b.anchor
    x = anchor.inputs[0]
    assert x is not None
    if x.producer in b.region.expansions:  # rounded by the kernel
        assert x.producer is not None
        x = x.producer.inputs[0]
        assert x is not None
    w, bias = _weights(b), _constant(b, anchor.input(2))
    convolution = convolution_of(anchor)
    window, groups = convolution.window, convolution.groups
    out_c, group_in = w.shape[:2]
    kernel = "x".join(map(str, window.kernel))
    taps = w.reshape(out_c, group_in, -1)
    outer, out = b.outer(x), b.node.output.type
    pixels = product((outer.type.dims[0], *out.dims[2:]))
    b.headers.append("conv_f16.h")
    if outer.dtype is DType.float32:
        b.label = f"conv planar {kernel}, float16"
        shape = linear.conv_shape(b, x, window, 1)
        lines = group_in * int(np.prod(window.kernel[:-1], dtype=int)) * window.strides[-1]
        reach = (window.kernel[-1] - 1) * window.dilations[-1] // window.strides[-1]
        b.scratch = 2 * lines * (STRIP + -(-reach // ROWS) * ROWS)
        packed = b.constant(panels(w.reshape(out_c, -1).T, bias), "uint16_t")
        scratch = f"(uint16_t *)(void *){b.worker_scratch}"
        b.call("conv_nchw_in_f16", shape, b.input(x), packed, *_result(b), "args", scratch, "begin", "end")
        b.operations = {KernelClass.CONV_PLANAR: work(pixels, out_c, w[0].size)}
        b.units = f"conv_few_f16_units({shape})"
    elif groups == 1 and taps.shape[2] == 1 and outer.type.dims[2:] == out.dims[2:] and linear.is_dense(window):
        _gemm(b, pixels, taps[:, :, 0].T, bias, "conv 1x1")
    elif groups == out_c and group_in == 1 and groups > 1:
        b.label = f"depthwise {kernel}, float16"
        b.headers.append("depthwise_f16.h")
        shape = linear.conv_shape(b, x, window, groups)
        channels = np.zeros((1 + taps.shape[2], -(-out_c // 8) * 8), np.float16)
        channels[0, :out_c] = 0.0 if bias is None else bias
        channels[1:, :out_c] = taps[:, 0].T
        packed = b.constant(channels, "uint16_t")
        y = f"(half_result){{{b.output(type='void')}, {int(b.node.output.dtype is DType.float32)}, 0, HALF_UNBOUNDED}}"
        b.call("depthwise_f16", shape, b.input(x), packed, y, b.epilogue(), "args", "begin", "end")
        b.units = f"depthwise_f16_units({shape})"
    else:
        b.label = f"conv {kernel}, float16"
        shape = linear.conv_shape(b, x, window, groups)
        width = out_c // groups
        parts = zip(taps.reshape(groups, width, group_in, -1), biases(bias, groups), strict=True)
        each = [panels(part.transpose(2, 1, 0).reshape(-1, width), start) for part, start in parts]
        zeros = b.constant(np.zeros(group_in, np.float16), "uint16_t")
        weights = b.constant(np.stack(each), "uint16_t")
        b.call("conv_f16", shape, b.input(x), weights, zeros, *_result(b), "args", "begin", "end")
        b.operations = {KernelClass.CONV: dim(groups * work(pixels, width, group_in * taps.shape[2]))}
        b.units = f"conv_f16_units({shape})"
