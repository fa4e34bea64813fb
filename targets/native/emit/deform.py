"""DeformConv: windows are sampled into scratch and multiplied from there."""

from __future__ import annotations

import math

import numpy as np

from mcpc.ir import Value, product
from mcpc.ops.linear import convolution_of

from ..kernel import SELF, KernelBuilder, unsupported
from .conv import conv_shape
from .linear import expect_float32, pack_panels, weights
from .registry import emits
from .windows import by_group

#: The most rows of a tile, MCP26_MR of tile.h, on any ISA.
MOST_ROWS = 12


@emits("DeformConv")
def deform(b: KernelBuilder) -> None:
    expect_float32(b)
    anchor = b.anchor
    x, offset, mask = b.outer(anchor.inputs[0]), b.outer(anchor.inputs[2]), anchor.input(4)
    w = anchor.inputs[1]
    assert w is not None
    convolution = convolution_of(anchor)
    taps = math.prod(convolution.window.kernel)
    in_c = b.outer(w).type.dims[1] * convolution.groups
    if not isinstance(in_c, int):
        raise unsupported(b.node, "a number of channels that is not fixed")
    shape = conv_shape(b, x, convolution.window, convolution.groups)
    epilogue = _bias(b, anchor.input(3))
    b.label = f"deform conv {'x'.join(map(str, convolution.window.kernel))}"
    b.headers.append("deform.h")
    if b.region.is_computed(w):
        name, packed, rows = "deform_plain_f32", b.input(w), 1
        y = b.node.output.type.dims
        b.units = b.size(product((y[0], *y[2:])))
    else:
        groups = by_group(weights(b, w), convolution.groups, False)
        matrices = [pack_panels(group.reshape(-1, group.shape[2]), b.nr) for group in groups]
        name, packed, rows = "deform_f32", b.constant(np.stack(matrices)), MOST_ROWS
        b.units = f"deform_f32_units({shape})"
    b.scratch = 4 * rows * taps * in_c
    moved = (b.input(offset), "0" if mask is None else b.input(mask))
    offsets = int(anchor.attrs.get("offset_group", 1))
    tail = (b.output(), b.worker_scratch, epilogue, "args", "begin", "end")
    b.call(name, shape, offsets, b.input(x), packed, *moved, *tail)


def _bias(b: KernelBuilder, bias: Value | None) -> str:
    """The name of the function that adds a bias, constant or not."""
    if bias is None:
        return "epilogue_none"
    name = f"{SELF}_bias"
    b.function(
        f"MCP26_INLINE v8f {name}(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {{\n"
        f"    (void)m;\n    return acc + v8f_load({b.input(bias)} + n, lanes);\n}}"
    )
    return name
