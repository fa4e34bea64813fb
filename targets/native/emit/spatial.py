"""Pools over channels-last activations."""

from __future__ import annotations

from collections.abc import Sequence

from mcpc.ir import Dim, DType, Value, product
from mcpc.ops.pool import norm_order, pool_window, unpooled_sizes

from ..ctext import float_literal
from ..kernel import KernelBuilder, unsupported
from .conv import pixel
from .registry import emits

#: Axes of pool_shape in pool.h.
MOST_AXES = 3

#: Element types that maxima are taken of; sums are of floats.
SUFFIXES = {DType.float16: "f16", DType.float32: "f32", DType.float64: "f64", DType.int8: "i8", DType.uint8: "u8"}
KINDS = {"MaxPool": "POOL_MAX", "AveragePool": "POOL_AVERAGE", "LpPool": "POOL_LP"}


@emits(*KINDS)
def pool(b: KernelBuilder) -> None:
    anchor = b.anchor
    x = b.outer(anchor.inputs[0])
    if x.dtype not in SUFFIXES or (not x.dtype.is_float and anchor.op != "MaxPool"):
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    kind = KINDS[anchor.op]
    if anchor.op == "AveragePool" and anchor.attrs.get("count_include_pad", 0):
        kind = "POOL_AVERAGE_WITH_PADDING"
    shape = _shape(b, x)
    name = f"pool_{SUFFIXES[x.dtype]}"
    b.label = f"{kind[5:].lower().replace('_', ' ')} pool {'x'.join(map(str, pool_window(anchor).kernel))}"
    b.headers.append("pool.h")
    b.units = f"pool_units({shape})"
    if any(output is not None for output in anchor.outputs[1:]):
        by_columns, maxima = int(anchor.attrs.get("storage_order", 0)), "0" if anchor.outputs[0] is None else b.output()
        b.call(f"{name}_max_indices", by_columns, shape, b.input(x), maxima, b.output(1), "begin", "end")
        return
    b.call(name, kind, float_literal(float(norm_order(anchor))), shape, b.input(x), b.output(), "begin", "end")


def _shape(b: KernelBuilder, x: Value) -> str:
    """The pool_shape literal."""
    window = pool_window(b.anchor)
    sizes = x.type.dims[2:]
    missing = MOST_AXES - len(sizes)
    if missing < 0:
        raise unsupported(b.node, f"a {len(sizes)}-dimensional window")
    pads = [window.padding(axis, size) for axis, size in enumerate(sizes)]
    columns: dict[str, tuple[int, Sequence[Dim]]] = {
        "in": (1, sizes),
        "out": (1, b.node.output.type.dims[2:]),
        "kernel": (1, window.kernel),
        "stride": (1, window.strides),
        "dilation": (1, window.dilations),
        "pad": (0, [begin for begin, _ in pads]),
        "end": (0, [end for _, end in pads]),
    }
    batch, channels = x.type.dims[:2]
    fields = {"batch": batch, "channels": channels, "x_pixel": pixel(x.type), "y_pixel": pixel(b.node.output.type)}
    parts = [f".{name} = {b.size(value)}" for name, value in fields.items()]
    for name, (neutral, values) in columns.items():
        parts.append(f".{name} = {{{', '.join(map(b.size, [*[neutral] * missing, *values]))}}}")
    return f"(pool_shape){{{', '.join(parts)}}}"


@emits("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(b: KernelBuilder) -> None:
    anchor = b.anchor
    x = b.outer(anchor.inputs[0])
    if x.dtype not in SUFFIXES or not x.dtype.is_float:
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    kind = KINDS[anchor.op.removeprefix("Global")]
    batch, channels, *spatial = x.type.dims
    b.label = "global pool"
    b.headers.append("pool.h")
    sizes = (float_literal(float(norm_order(anchor))), batch, product(spatial), channels)
    b.call(f"pool_global_{SUFFIXES[x.dtype]}", kind, *sizes, b.input(x), b.output(), "begin", "end")
    b.units = f"pool_global_units({b.size(batch)}, {b.size(channels)})"


@emits("MaxUnpool")
def max_unpool(b: KernelBuilder) -> None:
    anchor = b.anchor
    x, indices = b.outer(anchor.inputs[0]), b.outer(anchor.inputs[1])
    if x.dtype not in SUFFIXES or not x.dtype.is_float:
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    sizes = b.node.output.type.dims
    inner = (*x.type.dims[:2], *unpooled_sizes(anchor))
    b.label = "max unpool"
    b.headers.append("pool.h")
    b.line(f"const int64_t inner[] = {{{', '.join(map(b.size, inner))}}};")
    b.line(f"const int64_t size[] = {{{', '.join(map(b.size, sizes))}}};")
    arguments = (len(sizes), "inner", "size", x.type.elements, b.input(x), b.input(indices), b.output())
    text = ", ".join(a if isinstance(a, str) else b.size(a) for a in arguments)
    b.line(f"return max_unpool_{SUFFIXES[x.dtype]}(env, {text});")
