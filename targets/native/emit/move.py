"""Operators that only move elements: one strided copy, or a few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy

from mcpc.ir import Dim, DType, Node, Value, dim, product
from mcpc.ops.context import same
from mcpc.ops.move import slice_axes, slice_start, split_sizes
from mcpc.ops.shape import permutation
from mcpc.target import Target

from ..iteration import broadcast_strides
from ..kernel import KernelBuilder, Step, unsupported
from ..region import Region
from ..views import same_memory
from .registry import emits
from .sizes import element, pad_texts, slice_ranges

#: Elements that make a unit of work where a copy is one run.
RUN = 4096
MAX_RANK = 8
#: Parts of a Concat from which on they are read through a table.
MANY = 16
#: Parts of one such table: it lies on the stack.
TABLE = 256


def copy(
    b: KernelBuilder,
    sizes: Sequence[Dim],
    to: str,
    to_strides: Sequence[Dim],
    source: str,
    source_strides: Sequence[Dim],
    bits: int,
    *,
    whole: bool = False,
) -> None:
    """Add a strided copy. Dimensions are put in the order in which the result lies in memory, neighbours that are one
    run for both sides are merged. ``whole``: the copy is not cut into units, since it is one of several."""
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    axes.sort(key=lambda axis: -_magnitude(to_strides[axis]))
    merged: list[tuple[Dim, Dim, Dim]] = []
    for axis in axes:
        size, out, back = sizes[axis], to_strides[axis], source_strides[axis]
        if merged and merged[-1][1] == dim(out * size) and merged[-1][2] == dim(back * size):
            merged[-1] = (dim(merged[-1][0] * size), out, back)
        else:
            merged.append((size, out, back))
    merged = merged or [(1, 1, 1)]
    b.headers.append("move.h")
    first, last = ("0", b.size(merged[0][0])) if whole else ("begin", "end")
    loops, rest = merged[:-MAX_RANK], merged[-MAX_RANK:]
    for nr, (_, out, back) in enumerate(loops):  # what the kernel has no room for
        b.line(f"for (int64_t i{nr} = {first}; i{nr} < {last}; i{nr}++)")
        to, source = f"{to} + i{nr} * {b.size(out)}", f"{source} + i{nr} * {b.size(back)}"
        first, last = "0", b.size(merged[nr + 1][0])
    columns = [", ".join(b.size(entry[column]) for entry in rest) for column in range(3)]
    b.line("{")
    b.line(f"    const int64_t sizes[] = {{{columns[0]}}}, to[] = {{{columns[1]}}}, from[] = {{{columns[2]}}};")
    b.line(f"    copy_nd_{bits}({len(rest)}, sizes, {to}, to, {source}, from, {first}, {last});")
    b.line("}")
    if not whole:
        b.units = b.size(merged[0][0])
        is_matrix = merged[0][2] == 1  # rows become columns, in blocks of 8
        b.grain = str(RUN) if len(merged) == 1 else "8" if is_matrix else "1"


def _magnitude(stride: Dim) -> int:
    """An order for strides, in which every symbol counts as a size of hundreds."""
    if isinstance(stride, int):
        return abs(stride)
    return abs(int(sympy.floor(stride.subs(dict.fromkeys(stride.free_symbols, 509)))))


def word(dtype: DType) -> tuple[str, int]:
    """The C type that moves one element, and its bits."""
    bits = dtype.itemsize * 8
    return f"uint{bits}_t", bits


def at(pointer: str, offset: str) -> str:
    return pointer if offset == "0" else f"{pointer} + {offset}"


def strided(b: KernelBuilder, source: Value, start: str, strides: Sequence[Dim]) -> None:
    """The output is the view of ``source`` with these strides, from element ``start``, C text."""
    type, bits = word(source.dtype)
    out = b.node.output.type
    copy(b, out.dims, b.output(type=type), out.strides, at(b.input(source, type), start), strides, bits)


@emits("Identity", "BitCast", "Dropout", "Reshape", "Squeeze", "Unsqueeze", "Flatten")
def identity(b: KernelBuilder) -> None:
    """A move between layouts, or one that could not be a view."""
    source = b.outer(b.anchor.inputs[0])
    if any(output is not None for output in b.anchor.outputs[1:]):
        raise unsupported(b.node, "the output of a mask")
    b.label = "relayout"
    if source.shape != b.node.output.shape:
        raise unsupported(b.node, f"a reshape of a tensor stored in the order {source.type.order}")
    strided(b, source, "0", source.type.strides)


@emits("Transpose")
def transpose(b: KernelBuilder) -> None:
    source = b.outer(b.anchor.inputs[0])
    b.label = "transpose"
    strided(b, source, "0", [source.type.strides[axis] for axis in permutation(b.anchor)])


@emits("Slice")
def slice_(b: KernelBuilder) -> None:
    source, axes = b.outer(b.anchor.inputs[0]), slice_axes(b.anchor, b.context)
    dims, strides = source.type.dims, source.type.strides
    b.label = "slice"
    if axes is None or any(step is None for _, _, _, step in axes):
        _slice_over_data(b)
        return
    starts: list[str] = []
    views: list[Dim] = list(strides)
    for index, (axis, start, _, step) in enumerate(axes):
        assert step is not None
        first = None if start is None else slice_start(dims[axis], start, step)
        views[axis] = dim(strides[axis] * step)
        if first is not None:
            text = b.size(dim(first * strides[axis]))
        else:
            b.headers.append("sizes.h")
            given = element(b, b.anchor.inputs[1], index)
            text = f"slice_first({b.size(dims[axis])}, {given}, {step}) * {b.size(strides[axis])}"
        starts += [] if text == "0" else [text]
    strided(b, source, " + ".join(starts) or "0", views)


def _slice_over_data(b: KernelBuilder) -> None:
    """A copy whose strides only data show."""
    source, out = b.outer(b.anchor.inputs[0]), b.node.output.type
    type, bits = word(source.dtype)
    order = out.order
    if len(order) > MAX_RANK:
        raise unsupported(
            b.node, f"a slice of a tensor of rank {len(order)}, with axes or steps that are not constant,"
        )
    slice_ranges(b)
    by = {axis: b.size(source.type.strides[axis]) for axis in order}
    columns = [
        ", ".join(b.size(out.dims[axis]) for axis in order),
        ", ".join(b.size(out.strides[axis]) for axis in order),
        ", ".join(f"ranges[{axis}].step * {by[axis]}" for axis in order),
    ]
    start = " + ".join(f"ranges[{axis}].first * {by[axis]}" for axis in order)
    b.headers.append("move.h")
    b.line(
        f"const int64_t sizes[] = {{{columns[0]}}}, to[] = {{{columns[1]}}}, from[] = {{{columns[2]}}};",
        f"copy_nd_{bits}({len(order)}, sizes, {b.output(type=type)}, to, {b.input(source, type)} + {start}, from, "
        "begin, end);",
    )
    b.units = b.size(out.dims[order[0]])
    b.grain = str(RUN) if len(order) == 1 else "1"


@emits("Expand")
def expand(b: KernelBuilder) -> None:
    """A size that may turn out to be 1 is broadcast then: its step counts 0 times."""
    source, out = b.outer(b.anchor.inputs[0]).type, b.node.output.type
    b.label = "expand"
    steps = list(broadcast_strides(source, out))
    missing = len(out.dims) - len(source.dims)
    for axis, size in enumerate(source.dims, missing):
        if isinstance(size, sympy.Expr) and not same(size, out.dims[axis]):
            steps[axis] = dim(steps[axis] * sympy.Min(1, size - 1))
    strided(b, b.outer(b.anchor.inputs[0]), "0", steps)


@emits("Split")
def split(b: KernelBuilder) -> None:
    source = b.outer(b.anchor.inputs[0])
    axis = int(b.anchor.attrs.get("axis", 0)) % len(source.type.dims)
    type, bits = word(source.dtype)
    b.label = "split"
    position: Dim = 0
    for index, size in enumerate(split_sizes(b.anchor, b.context)):
        out = b.anchor.outputs[index]
        if out is not None:
            start = b.size(dim(position * source.type.strides[axis]))
            pointer = at(b.input(source, type), start)
            copy(
                b,
                out.type.dims,
                b.output(index, type),
                out.type.strides,
                pointer,
                source.type.strides,
                bits,
                whole=True,
            )
        position = dim(position + size)


@emits("Concat")
def concat(b: KernelBuilder) -> None:
    out = b.node.output.type
    axis = int(b.anchor.attrs["axis"]) % len(out.dims)
    type, bits = word(out.dtype)
    b.label = "concat"
    parts = [b.outer(value).type for value in b.anchor.inputs]
    if len(parts) > MANY and all(same_memory(part, part.with_layout(out.layout)) for part in parts):
        concat_many(b, axis)
        return
    position: Dim = 0
    for value in b.anchor.inputs:
        part = b.outer(value)
        pointer = at(b.output(type=type), b.size(dim(position * out.strides[axis])))
        copy(b, part.type.dims, pointer, out.strides, b.input(part, type), part.type.strides, bits, whole=True)
        position = dim(position + part.type.dims[axis])


def concat_many(b: KernelBuilder, axis: int) -> None:
    """A loop over a table: a copy for each of many parts would be much code."""
    out = b.node.output.type
    type, bits = word(out.dtype)
    where = out.order.index(axis)
    inner = product(out.dims[other] for other in out.order[where + 1 :])
    pointers = [b.input(value, type) for value in b.anchor.inputs]
    widths = [b.size(dim(b.outer(value).type.dims[axis] * inner)) for value in b.anchor.inputs]
    b.headers.append("move.h")
    pointer = b.output(type=type)
    b.line(f"const int64_t width = {b.size(dim(out.dims[axis] * inner))};", "int64_t at = 0;")
    for first in range(0, len(widths), TABLE):
        part = slice(first, first + TABLE)
        b.line(
            "{",
            f"    const int64_t widths[] = {{{', '.join(widths[part])}}};",
            f"    const {type} *const parts[] = {{{', '.join(pointers[part])}}};",
            f"    at += concat_{bits}({len(widths[part])}, parts, widths, width, {pointer} + at, begin, end);",
            "}",
        )
    b.units = b.size(product(out.dims[other] for other in out.order[:where]))


@emits("DepthToSpace")
def depth_to_space(b: KernelBuilder) -> None:
    """Split and reorder dimensions as the operator's definition does, in one copy."""
    source, out = b.outer(b.anchor.inputs[0]), b.node.output.type
    block = int(b.anchor.attrs["blocksize"])
    n, c, h, w = source.type.dims
    sn, sc, sh, sw = source.type.strides
    on, oc, oh, ow = out.strides
    depth = dim(c / (block * block)) if not isinstance(c, int) else c // (block * block)
    is_dcr = b.anchor.attrs.get("mode", "DCR") == "DCR"
    inner, by = (dim(sc * depth), sc) if is_dcr else (sc, dim(sc * block * block))
    sizes = (n, depth, h, block, w, block)
    to = (on, oc, dim(oh * block), oh, dim(ow * block), ow)
    source_strides = (sn, by, sh, dim(inner * block), sw, inner)
    _blocks(b, "depth to space", source, sizes, to, source_strides)


@emits("SpaceToDepth")
def space_to_depth(b: KernelBuilder) -> None:
    source, out = b.outer(b.anchor.inputs[0]), b.node.output.type
    block = int(b.anchor.attrs["blocksize"])
    n, c, _, _ = source.type.dims
    sn, sc, sh, sw = source.type.strides
    on, oc, oh, ow = out.strides
    sizes = (n, block, block, c, out.dims[2], out.dims[3])
    if b.anchor.attrs.get("mode", "DCR") == "DCR":
        row, column, channel = dim(oc * c * block), dim(oc * c), oc
    else:
        row, column, channel = dim(oc * block), oc, dim(oc * block * block)
    to = (on, row, column, channel, oh, ow)
    _blocks(b, "space to depth", source, sizes, to, (sn, sh, sw, sc, dim(sh * block), dim(sw * block)))


def _blocks(
    b: KernelBuilder, label: str, source: Value, sizes: Sequence[Dim], to: Sequence[Dim], source_strides: Sequence[Dim]
) -> None:
    type, bits = word(source.dtype)
    b.label = label
    copy(b, sizes, b.output(type=type), to, b.input(source, type), source_strides, bits)


@emits("Tile")
def tile(b: KernelBuilder) -> None:
    """Each dimension becomes a pair: repeats (stride 0 in the source) and the dimension itself."""
    source, out = b.outer(b.anchor.inputs[0]), b.node.output.type
    type, bits = word(source.dtype)
    b.label = "tile"
    sizes: list[Dim] = []
    to: list[Dim] = []
    back: list[Dim] = []
    for axis, size in enumerate(source.type.dims):
        total = out.dims[axis]
        repeats = total // size if isinstance(total, int) and isinstance(size, int) and size else dim(total / size)
        sizes += [repeats, size]
        to += [dim(out.strides[axis] * size), out.strides[axis]]
        back += [0, source.type.strides[axis]]
    copy(b, sizes, b.output(type=type), to, b.input(source, type), back, bits)


@emits("ConstantOfShape")
def constant_of_shape(b: KernelBuilder) -> None:
    out = b.node.output
    value = b.anchor.attrs.get("value")
    type, bits = word(out.dtype)
    number = 0 if value is None else int(np.ascontiguousarray(value).reshape(-1)[:1].view(f"uint{bits}")[0])
    b.label = "fill"
    b.headers.append("move.h")
    b.line(f"fill_{bits}({b.output(type=type)} + begin, ({type}){number}u{'ll' * (bits == 64)}, end - begin);")
    b.units = b.size(out.type.elements)
    b.grain = str(RUN)


PAD_MODES = {"constant": "PAD_CONSTANT", "reflect": "PAD_REFLECT", "edge": "PAD_EDGE", "wrap": "PAD_WRAP"}


@emits("Pad")
def pad(b: KernelBuilder) -> None:
    source, out = b.outer(b.anchor.inputs[0]), b.node.output.type
    fill = b.anchor.input(2)
    type, bits = word(source.dtype)
    value = "0" if fill is None else f"*{b.input(fill, type)}"
    before = [begin for begin, _ in pad_texts(b)]
    order = source.type.order
    columns = [
        ", ".join(b.size(source.type.dims[axis]) for axis in order),
        ", ".join(before[axis] for axis in order),
        ", ".join(b.size(out.dims[axis]) for axis in order),
    ]
    b.label = "pad"
    b.headers += ["move.h", "sizes.h"]
    b.line(f"const int64_t sizes[] = {{{columns[0]}}}, before[] = {{{columns[1]}}}, padded[] = {{{columns[2]}}};")
    mode = PAD_MODES[str(b.anchor.attrs.get("mode", "constant"))]
    b.line(
        f"pad_nd_{bits}({mode}, {len(order)}, sizes, before, padded, {b.input(source, type)}, {b.output(type=type)}, "
        f"{value}, begin, end);"
    )
    b.units = b.size(out.dims[order[0]])
    b.grain = str(RUN) if len(order) == 1 else "1"


@emits("Gather")
def gather(b: KernelBuilder) -> None:
    source, indices = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    dims = source.type.dims
    axis = int(b.anchor.attrs.get("axis", 0)) % len(dims)
    type, bits = word(source.dtype)
    count = product(indices.type.dims)
    index_type = "int64_t" if indices.dtype is DType.int64 else "int32_t"
    b.label = "gather"
    b.headers.append("move.h")
    packed = b.packed(source)
    name, data = (str(bits), b.input(source, type)) if packed is None else ("packed", f"{packed[0]}, {packed[1]}")
    if packed is not None:
        data += f", {int(source.dtype is DType.int8)}"
    # The runtime fills in the step of a fault.
    b.line(
        f"return gather_{name}(env, 0, {b.size(dims[axis])}, {b.size(product(dims[axis + 1 :]))}, "
        f"{data}, {b.size(count)}, {b.input(indices, index_type)}, "
        f"{int(index_type == 'int64_t')}, {b.output(type=type)}, begin, end);"
    )
    b.units = b.size(dim(product(dims[:axis]) * count))


def copy_step(value: Value, output: Value, target: Target) -> Step:
    """A copy of ``value`` to where another output of the model lies."""
    node = Node("Identity", [value], [output], name=f"{output.name} (copy)")
    builder = KernelBuilder(Region.of(node), target)
    identity(builder)
    return builder.build()
