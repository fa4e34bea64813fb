"""Pools over channels-last activations."""

from __future__ import annotations

from mcpc.ir import DType, product
from mcpc.ops.pool import pool_window

from ..kernel import KernelBuilder, unsupported
from .linear import conv_shape
from .registry import emits


@emits("MaxPool", "AveragePool")
def pool(b: KernelBuilder) -> None:
    anchor = b.anchor
    x = anchor.inputs[0]
    assert x is not None
    if x.dtype is not DType.float32:
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    if any(output is not None for output in anchor.outputs[1:]):
        raise unsupported(b.node, "the output of indices")
    window = pool_window(anchor)
    kind = "POOL_MAX"
    if anchor.op == "AveragePool":
        kind = "POOL_AVERAGE_WITH_PADDING" if anchor.attrs.get("count_include_pad", 0) else "POOL_AVERAGE"
    b.label = f"{'max' if kind == 'POOL_MAX' else 'average'} pool {'x'.join(map(str, window.kernel))}"
    b.headers.append("pool.h")
    shape = conv_shape(b, x, window, 1)
    ends = [window.padding(axis, size)[1] for axis, size in enumerate(b.outer(x).type.dims[2:])]
    bottom, right = [0, *ends] if len(ends) == 1 else ends
    b.call("pool_f32", kind, shape, bottom, right, b.input(x), b.output(), b.epilogue(), "args", "begin", "end")
    b.units = f"pool_f32_units({shape})"


@emits("GlobalAveragePool", "GlobalMaxPool")
def global_pool(b: KernelBuilder) -> None:
    anchor = b.anchor
    x = anchor.inputs[0]
    outer = b.outer(x)
    if outer.dtype is not DType.float32:
        raise unsupported(b.node, f"an operand of type {outer.dtype.name}")
    kind = "POOL_MAX" if anchor.op == "GlobalMaxPool" else "POOL_AVERAGE"
    batch, channels, *spatial = outer.type.dims
    b.label = "global pool"
    b.headers.append("pool.h")
    sizes = (batch, product(spatial), channels)
    arguments = (kind, *sizes, b.input(x), channels, b.output(), b.epilogue(), "args", "begin", "end")
    b.call("pool_global_f32", *arguments)
    b.units = f"pool_global_f32_units({b.size(batch)}, {b.size(channels)})"
