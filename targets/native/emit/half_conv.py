"""Convolutions of float16 (conv_f16.h, depthwise_f16.h)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcpc.ir import DType, dim
from mcpc.kernel_class import KernelClass
from mcpc.ops.linear import convolution_of

from ..convolution import PackedConvolution
from ..kernel import Array, KernelBuilder
from ..winograd import Form
from .conv import conv_shape
from .half import gemm, panels, result, stored, weights, work

#: Output pixels of a strip and rows of a tile (conv_f16.h: HALF_STRIP, tile_f16.h: HALF_MR).
STRIP, ROWS = 64, 8


def _biases(bias: Array | None, groups: int) -> Sequence[Array | None]:
    return [None] * groups if bias is None else np.split(bias, groups)


def conv(b: KernelBuilder) -> None:
    """A Conv over one or two axes; of few float32 channels that lie row-major, else of float16 channels-last."""
    anchor = b.anchor
    x = anchor.inputs[0]
    assert x is not None
    if x.producer in b.region.expansions:  # rounded by the kernel
        assert x.producer is not None
        x = x.producer.inputs[0]
        assert x is not None
    w, bias = weights(b), stored(b, anchor.input(2))
    convolution = convolution_of(anchor)
    window, groups = convolution.window, convolution.groups
    out_c, group_in = w.shape[:2]
    kernel = "x".join(map(str, window.kernel))
    taps = w.reshape(out_c, group_in, -1)
    outer, out = b.outer(x), b.node.output.type
    form = PackedConvolution(outer.type, out, window, groups, group_in, DType.float16, False)
    pixels = form.pixels
    b.headers.append("conv_f16.h")
    if outer.dtype is DType.float32:
        b.label = f"conv planar {kernel}, float16"
        shape = conv_shape(b, x, window, 1)
        lines = group_in * int(np.prod(window.kernel[:-1], dtype=int)) * window.strides[-1]
        reach = (window.kernel[-1] - 1) * window.dilations[-1] // window.strides[-1]
        b.scratch = 2 * lines * (STRIP + -(-reach // ROWS) * ROWS)
        packed = b.constant(panels(w.reshape(out_c, -1).T, bias), "uint16_t")
        scratch = f"(uint16_t *)(void *){b.worker_scratch}"
        b.call("conv_nchw_in_f16", shape, b.input(x), packed, *result(b), "args", scratch, "begin", "end")
        b.operations = {KernelClass.CONV_PLANAR: work(pixels, out_c, w[0].size)}
        b.units = f"conv_few_f16_units({shape})"
    elif b.choice is not None and isinstance(b.choice.form, Form):
        filtered, block = b.choice.form, b.choice.block
        b.label = f"conv {b.choice.name}, float16"
        b.headers.append("winograd.h")
        shape = f"(winograd_shape){{{conv_shape(b, x, window, 1)}, {filtered.literals(block)}}}"
        packed = b.constant(panels(filtered.weights(w).reshape(-1, out_c), bias), "uint16_t")
        b.scratch = filtered.scratch(group_in, block)
        b.call("winograd_f16", shape, b.input(x), packed, *result(b), "args", b.worker_scratch, "begin", "end")
        b.operations = dict(b.choice.operations)
        b.units = f"winograd_half_units({shape})"
    elif form.is_pointwise:
        gemm(b, pixels, taps[:, :, 0].T, bias, "conv 1x1")
    elif form.is_depthwise:
        b.label = f"depthwise {kernel}, float16"
        b.headers.append("depthwise_f16.h")
        shape = conv_shape(b, x, window, groups)
        channels = np.zeros((1 + taps.shape[2], -(-out_c // 8) * 8), np.float16)
        channels[0, :out_c] = 0.0 if bias is None else bias
        channels[1:, :out_c] = taps[:, 0].T
        packed = b.constant(channels, "uint16_t")
        y = f"(half_result){{{b.output(type='void')}, {int(b.node.output.dtype is DType.float32)}, 0, HALF_UNBOUNDED}}"
        b.call("depthwise_f16", shape, b.input(x), packed, y, b.epilogue(), "args", "begin", "end")
        b.units = f"depthwise_f16_units({shape})"
    else:
        b.label = f"conv {kernel}, float16"
        shape = conv_shape(b, x, window, groups)
        width = out_c // groups
        parts = zip(taps.reshape(groups, width, group_in, -1), _biases(bias, groups), strict=True)
        each = [panels(part.transpose(2, 1, 0).reshape(-1, width), start) for part, start in parts]
        zeros = b.constant(np.zeros(group_in, np.float16), "uint16_t")
        packed = b.constant(np.stack(each), "uint16_t")
        b.call("conv_f16", shape, b.input(x), packed, zeros, *result(b), "args", "begin", "end")
        b.operations = {KernelClass.CONV: dim(groups * work(pixels, width, group_in * taps.shape[2]))}
        b.units = f"conv_f16_units({shape})"
