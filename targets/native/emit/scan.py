"""CumSum and CumProd, and what keeps, moves or makes elements by where they are: Trilu, EyeLike, ReverseSequence,
Range."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Value, product
from mcpc.ops.scan import scan_axis

from ..ctext import c_type, literal
from ..expression import SUFFIXES
from ..kernel import KernelBuilder, unsupported
from .index import index_operand
from .move import RUN, word
from .reduce import collapsed
from .registry import emits, finds_sizes


@emits("CumSum", "CumProd")
def cumulate(b: KernelBuilder) -> None:
    x, axis_value = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    suffix = SUFFIXES.get(x.dtype, "")
    if suffix not in ("f32", "f64", "i32", "i64", "u32", "u64"):
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    b.label = "cumulative product" if b.anchor.is_op("CumProd") else "cumulative sum"
    b.headers += ["scan.h", "index.h"]
    rank = len(x.type.dims)
    axis = scan_axis(b.anchor, b.context)
    is_set = [bool(b.anchor.attrs.get(name, 0)) for name in ("exclusive", "reverse")]
    flags = ", ".join(str(int(flag)) for flag in (b.anchor.is_op("CumProd"), *is_set))
    if axis is not None:
        outer, count, inner = map(b.size, collapsed(x.type, [axis] if rank else []))
        b.units = f"cumulate_units({outer}, {inner})"
        span = "begin, end"
    else:  # one unit: how many there are depends on the axis
        outer, count, inner = "outer", "count", "inner"
        sizes = ", ".join(map(b.size, x.type.dims))
        b.line(
            f"const int64_t sizes[] = {{{sizes}}};",
            f"int64_t axis = index_at({index_operand(b, axis_value)}, 0), outer = 1, inner = 1;",
            f"if (index_resolve(env, &axis, {rank}) < 0) return MCP26_STEP_DATA;",
            "for (int64_t d = 0; d < axis; d++) outer *= sizes[d];",
            f"for (int64_t d = axis + 1; d < {rank}; d++) inner *= sizes[d];",
            "const int64_t count = sizes[axis];",
        )
        span = f"0, cumulate_units({outer}, {inner})"
    b.line(f"cumulate_{suffix}({flags}, {count}, {inner}, {b.input(x)}, {b.output()}, {span});")


@emits("Trilu")
def trilu(b: KernelBuilder) -> None:
    x, k = b.outer(b.anchor.inputs[0]), b.anchor.input(1)
    type, bits = word(x.dtype)
    *items, rows, columns = x.type.dims
    b.label = "triangle"
    b.headers.append("scan.h")
    is_upper = str(int(bool(b.anchor.attrs.get("upper", 1))))
    diagonal = "0" if k is None else f"*{b.input(k)}"
    b.call(f"trilu_{bits}", is_upper, rows, columns, diagonal, b.input(x, type), b.output(type=type), "begin", "end")
    b.units = b.size(product((*items, rows)))


@emits("EyeLike")
def eye_like(b: KernelBuilder) -> None:
    out = b.node.output.type
    type, bits = word(out.dtype)
    rows, columns = out.dims
    one = int(np.ones(1, out.dtype.numpy).view(f"uint{bits}")[0])
    b.label = "eye"
    b.headers.append("scan.h")
    k = str(int(b.anchor.attrs.get("k", 0)))
    b.call(f"eye_{bits}", columns, k, f"{one}ull", b.output(type=type), "begin", "end")
    b.units = b.size(rows)


@emits("ReverseSequence")
def reverse_sequence(b: KernelBuilder) -> None:
    x, lengths = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    type, bits = word(x.dtype)
    dims, strides = x.type.dims, x.type.strides
    time, batch = (int(b.anchor.attrs.get(name, default)) for name, default in (("time_axis", 0), ("batch_axis", 1)))
    b.label = "reverse sequences"
    b.headers.append("scan.h")
    sizes = (dims[time], dims[batch], strides[time], strides[batch], product(dims[2:]))
    arguments = (*sizes, b.input(x, type), b.input(lengths), b.output(type=type))
    b.call(f"reverse_sequence_{bits}", *arguments, "begin", "end")
    b.units = b.size(product((dims[time], dims[batch])))


def _number(b: KernelBuilder, value: Value | None) -> str:
    """A scalar operand's element."""
    outer = b.outer(value)
    if outer.data is not None:
        return f"({c_type(outer.dtype)}){literal(outer.data.item(), outer.dtype)}"
    return f"*{b.input(outer)}"


@emits("Range")
def range_(b: KernelBuilder) -> None:
    dtype = b.node.output.dtype
    if dtype not in SUFFIXES:
        raise unsupported(b.node, f"numbers of type {dtype.name}")
    start, _, step = (_number(b, value) for value in b.anchor.inputs[:3])
    b.label = "range"
    b.headers.append("scan.h")
    b.call(f"range_{SUFFIXES[dtype]}", start, step, b.output(), "begin", "end")
    b.units = b.size(b.node.output.type.dims[0])
    b.grain = str(RUN)


@finds_sizes("Range")
def range_size(b: KernelBuilder) -> None:
    """max(0, ceil((limit - start) / step)); a step of 0 is a fault."""
    start, limit, step = (_number(b, value) for value in b.anchor.inputs[:3])
    b.headers.append("scan.h")
    kind = "double" if b.node.output.dtype.is_float else "int64_t"
    b.line(
        f"const int64_t count = range_count_{kind[0]}(({kind}){start}, ({kind}){limit}, ({kind}){step});",
        "if (count < 0) {",
        "    env->fault = (mcp26_fault){0, MCP26_DATA_DIVIDE, 0, 0};",
        "    return MCP26_STEP_DATA;",
        "}",
    )
    b.set_size(b.node.output.type.dims[0], "count")
