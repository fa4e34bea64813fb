"""DeformConv: windows are sampled into scratch and multiplied from there."""

from __future__ import annotations

import numpy as np

from mcpc.ops.linear import convolution_of

from ..kernel import KernelBuilder, unsupported
from .linear import conv_shape, expect_float32, optional_weights, pack_panels, weights
from .registry import emits
from .windows import by_group

#: The most rows of a tile, MCP26_MR of tile.h, on any ISA.
MOST_ROWS = 12


@emits("DeformConv")
def deform(b: KernelBuilder) -> None:
    expect_float32(b)
    anchor = b.anchor
    if b.region.is_computed(anchor.input(1)):
        raise unsupported(b.node, "a weight that is not constant")
    x, offset, mask = b.outer(anchor.inputs[0]), b.outer(anchor.inputs[2]), anchor.input(4)
    convolution = convolution_of(anchor)
    w = weights(b, anchor.input(1))
    groups = by_group(w, convolution.groups, False)
    _, taps, depth, width = groups.shape
    shape = conv_shape(b, x, convolution.window, convolution.groups)
    packed = b.constant(np.stack([pack_panels(group.reshape(-1, width), b.nr) for group in groups]))
    epilogue = b.epilogue_with(optional_weights(b, anchor.input(3)))
    b.label = f"deform conv {'x'.join(map(str, convolution.window.kernel))}"
    b.headers.append("deform.h")
    b.scratch = 4 * MOST_ROWS * taps * depth * convolution.groups
    moved = (b.input(offset), "0" if mask is None else b.input(mask))
    offsets = int(anchor.attrs.get("offset_group", 1))
    tail = (b.output(), b.worker_scratch, epilogue, "args", "begin", "end")
    b.call("deform_f32", shape, offsets, b.input(x), packed, *moved, *tail)
    b.units = f"deform_f32_units({shape})"
