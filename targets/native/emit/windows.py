"""Conv and ConvTranspose: those of one and two axes with constant weights are in :mod:`.conv`, all others here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcpc.ir import Dim, DType, Value, dim
from mcpc.ops.context import same
from mcpc.ops.linear import convolution_of, transposed_axes

from ..expression import SUFFIXES
from ..kernel import Array, KernelBuilder, unsupported
from ..strided import weight_layout
from . import half_conv
from .conv import conv
from .linear import expect_float32, optional_weights, pack_panels, weights
from .registry import emits

#: Axes of window_shape in conv_nd.h.
MOST_AXES = 3


@emits("Conv")
def convolution(b: KernelBuilder) -> None:
    if b.anchor.output.dtype is DType.float16:
        half_conv.conv(b)
        return
    if b.choice is not None:
        conv(b)
        return
    x = b.outer(b.anchor.inputs[0])
    window = convolution_of(b.anchor).window
    begins = [window.padding(axis, size)[0] for axis, size in enumerate(x.type.dims[2:])]
    _windows(b, "conv", begins)


@emits("ConvTranspose")
def transposed(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    window = convolution_of(b.anchor).window
    begins = [begin for begin, _, _ in transposed_axes(b.anchor, window, x.type.dims[2:])]
    _windows(b, "transposed conv", begins)


def _windows(b: KernelBuilder, label: str, pads: Sequence[Dim]) -> None:
    anchor = b.anchor
    x, w = b.outer(anchor.inputs[0]), anchor.inputs[1]
    assert w is not None
    is_double = x.dtype is DType.float64
    if not is_double:
        expect_float32(b)
    is_transposed = anchor.op == "ConvTranspose"
    convolution = convolution_of(anchor)
    shape = window_shape(b, x, pads, is_transposed)
    epilogue = "epilogue_none_f64" if is_double else b.epilogue_with(optional_weights(b, anchor.input(2)))
    b.label = f"{label} {'x'.join(map(str, convolution.window.kernel))}"
    b.headers.append("conv_nd.h")
    tail = (b.output(), epilogue, "args", "begin", "end")
    if b.region.is_computed(w) or is_double:
        depth = b.outer(w).type.dims[1]
        out_c = b.node.output.type.dims[1]
        if is_transposed:  # memory is [taps][in_c][out_c / groups]
            width, in_c = depth, x.type.dims[1]
            steps = (in_c * width, in_c // convolution.groups * width, width)
        else:  # [taps][in_c / groups][out_c]
            steps = (depth * out_c, out_c // convolution.groups, out_c)
        b.label += " of doubles" if is_double else " of computed weights"
        loose, data = b.input(w), b.outer(w).data
        if data is not None:
            loose = b.constant(np.ascontiguousarray(data.transpose(weight_layout(anchor, data.ndim))), "double")
        b.call(f"window_plain_{SUFFIXES[x.dtype]}", shape, b.input(x), loose, *steps, *tail)
        b.units = f"window_plain_units({shape})"
        return
    groups = by_group(weights(b, w), convolution.groups, is_transposed)
    count, taps, depth, width = groups.shape
    if count > 1 and depth == width == 1:
        packed = np.zeros((taps, -(-count // 8) * 8), np.float32)
        packed[:, :count] = groups[:, :, 0, 0].T
        b.call("window_channels_f32", shape, b.input(x), b.constant(packed), *tail)
        b.units = f"window_plain_units({shape})"
        return
    if is_transposed and count == 1 and _lies_side_by_side(b, x, pads):
        panels = b.constant(pack_panels(groups[0].transpose(1, 0, 2).reshape(depth, -1), b.nr))
        b.call("window_spread_f32", shape, b.input(x), panels, *tail)
        b.units = f"window_spread_units({shape})"
        return
    panels = b.constant(np.stack([pack_panels(group.reshape(-1, width), b.nr) for group in groups]))
    b.call("window_f32", shape, b.input(x), panels, b.constant(np.zeros(depth, np.float32)), *tail)
    b.units = f"window_f32_units({shape})"


def _lies_side_by_side(b: KernelBuilder, x: Value, pads: Sequence[Dim]) -> bool:
    """Whether no two windows of a ConvTranspose overlap, and nothing lies between or beside them."""
    window = convolution_of(b.anchor).window
    sizes, results = x.type.dims[2:], b.node.output.type.dims[2:]
    is_tight = (
        window.kernel == window.strides and all(by == 1 for by in window.dilations) and all(pad == 0 for pad in pads)
    )
    return is_tight and all(same(dim(a * by), c) for a, by, c in zip(sizes, window.strides, results, strict=True))


def by_group(w: Array, groups: int, is_transposed: bool) -> Array:
    """[groups][taps][in_c / groups][out_c / groups]."""
    rows, columns = w.shape[:2]
    split = w.reshape(groups, rows // groups, columns, -1)
    return split.transpose(0, 3, 1, 2) if is_transposed else split.transpose(0, 3, 2, 1)


def window_shape(b: KernelBuilder, x: Value, pads: Sequence[Dim], is_transposed: bool) -> str:
    """The window_shape literal."""
    y = b.node.output.type
    convolution = convolution_of(b.anchor)
    window = convolution.window
    missing = MOST_AXES - len(window.kernel)
    if missing < 0:
        raise unsupported(b.node, f"a {len(window.kernel)}-dimensional window")
    fields: dict[str, Dim] = {
        "batch": x.type.dims[0],
        "in_c": x.type.dims[1],
        "out_c": y.dims[1],
        "groups": convolution.groups,
        "is_transposed": int(is_transposed),
    }
    columns: dict[str, tuple[int, Sequence[Dim]]] = {
        "in": (1, x.type.dims[2:]),
        "out": (1, y.dims[2:]),
        "kernel": (1, window.kernel),
        "stride": (1, window.strides),
        "dilation": (1, window.dilations),
        "pad": (0, pads),
    }
    parts = [f".{name} = {b.size(value)}" for name, value in fields.items()]
    for name, (neutral, sizes) in columns.items():
        parts.append(f".{name} = {{{', '.join(map(b.size, [*[neutral] * missing, *sizes]))}}}")
    return f"(window_shape){{{', '.join(parts)}}}"
