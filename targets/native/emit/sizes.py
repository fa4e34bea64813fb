"""Steps that find the sizes of outputs in the data: Reshape, Squeeze, Unsqueeze, Expand, Slice, Tile, Pad,
ConstantOfShape, Split, whose operands are computed in the run."""

from __future__ import annotations

from collections.abc import Callable

import sympy

from mcpc.ir import Dim, DType, Value
from mcpc.ops.context import attribute, known_ints
from mcpc.ops.move import slice_axes

from ..kernel import KernelBuilder, unsupported
from .registry import finds_sizes


def found(b: KernelBuilder, output: int = 0) -> list[tuple[int, sympy.Symbol]]:
    """The axes of an output whose sizes the step has to find, with their symbols."""
    value = b.node.outputs[output]
    assert value is not None
    names = {f"{value.name}:{axis}" for axis in range(len(value.type.dims))}
    return [
        (axis, size)
        for axis, size in enumerate(value.type.dims)
        if isinstance(size, sympy.Symbol) and str(size.name) in names
    ]


def element(b: KernelBuilder, value: Value | None, index: int | str) -> str:
    """Element ``index`` of an integer tensor as C text: an expression of the symbols where it is known."""
    outer = b.outer(value)
    contents = b.context.contents(outer)
    if contents is not None and isinstance(index, int) and contents.ravel()[index] is not None:
        return b.size(contents.ravel()[index])
    if outer.dtype not in (DType.int32, DType.int64):
        raise unsupported(b.node, f"sizes of type {outer.dtype.name}")
    is_int64 = int(outer.dtype is DType.int64)
    return f"sizes_at({b.input(value, 'void')}, {is_int64}, {index})"


def checked(b: KernelBuilder, call: str) -> None:
    b.line(f"if (({call})) return MCP26_STEP_DATA;")


def listed(b: KernelBuilder, value: Value | None) -> str:
    """The sizes_list of a 1-D integer tensor that is data, or left out."""
    if value is None:
        return "(sizes_list){0}"
    return f"(sizes_list){{{b.input(value, 'void')}, {int(b.outer(value).dtype is DType.int64)}}}"


def length_of(b: KernelBuilder, *indices: int) -> str:
    """C text of how many elements the first of these inputs that is there has."""
    value = next(value for index in indices if (value := b.anchor.input(index)) is not None)
    return b.size(b.outer(value).type.dims[0])


def sizes_of(b: KernelBuilder, dims: tuple[Dim, ...]) -> str:
    return ", ".join(map(b.size, dims)) or "0"


@finds_sizes("Reshape")
def reshape(b: KernelBuilder) -> None:
    b.headers.append("sizes.h")
    data = b.outer(b.anchor.inputs[0])
    rank, own = len(b.node.output.type.dims), data.type.dims
    wanted = ", ".join(element(b, b.anchor.inputs[1], index) for index in range(rank))
    b.line(f"const int64_t wanted[] = {{{wanted}}}, own[] = {{{sizes_of(b, own)}}};", f"int64_t sizes[{rank}] = {{0}};")
    keep_zero = attribute(b.anchor, "allowzero", 0)
    b.line(f"const int32_t status = sizes_reshape(env, wanted, {rank}, own, {len(own)}, {keep_zero}, sizes);")
    for axis, size in found(b):  # also where they do not fit: the error's text shows them
        b.set_size(size, f"sizes[{axis}]")
    b.line("if (status) return status;")


@finds_sizes("Squeeze", "Unsqueeze")
def squeeze(b: KernelBuilder) -> None:
    b.headers.append("sizes.h")
    own, rank = b.outer(b.anchor.inputs[0]).type.dims, len(b.node.output.type.dims)
    name, full = ("sizes_squeeze", len(own)) if b.anchor.is_op("Squeeze") else ("sizes_unsqueeze", rank)
    b.line(
        f"const int64_t own[] = {{{sizes_of(b, own)}}};",
        f"int64_t sizes[{max(rank, 1)}], places[{max(full, 1)}];",
    )
    checked(b, f"sizes_axes(env, {full}, {length_of(b, 1)}, {listed(b, b.anchor.inputs[1])}, places)")
    checked(b, f"{name}(env, {full}, own, places, sizes)")
    for axis, size in found(b):
        b.set_size(size, f"sizes[{axis}]")


@finds_sizes("Expand")
def expand(b: KernelBuilder) -> None:
    b.headers.append("sizes.h")
    out, own = b.node.output.type.dims, b.outer(b.anchor.inputs[0]).type.dims
    shape = b.outer(b.anchor.inputs[1]).type.dims[0]
    if not isinstance(shape, int):
        raise unsupported(b.node, "a shape of unknown length")
    for axis, size in found(b):
        index, of = axis - (len(out) - shape), axis - (len(out) - len(own))
        wanted = element(b, b.anchor.inputs[1], index) if index >= 0 else "1"
        b.line(f"int64_t size{axis};")
        checked(b, f"sizes_expand(env, {wanted}, {b.size(own[of] if of >= 0 else 1)}, &size{axis})")
        b.set_size(size, f"size{axis}")


@finds_sizes("Slice")
def slice_(b: KernelBuilder) -> None:
    b.headers.append("sizes.h")
    own, axes = b.outer(b.anchor.inputs[0]).type.dims, slice_axes(b.anchor, b.context)
    if axes is None:
        slice_ranges(b)
        for axis, size in found(b):
            b.set_size(size, f"ranges[{axis}].count")
        return
    places = {axis: index for index, (axis, _, _, _) in enumerate(axes)}
    for axis, size in found(b):
        index = places[axis]
        start, end = element(b, b.anchor.inputs[1], index), element(b, b.anchor.inputs[2], index)
        b.set_size(size, f"slice_count({b.size(own[axis])}, {start}, {end}, {slice_step(b, index)})")


def slice_ranges(b: KernelBuilder) -> None:
    """Declare `ranges`, what a Slice whose axes or steps are data picks from each axis."""
    b.headers.append("sizes.h")
    own = b.outer(b.anchor.inputs[0]).type.dims
    lists = ", ".join(listed(b, b.anchor.input(index)) for index in (1, 2, 4))
    b.line(f"const int64_t own[] = {{{sizes_of(b, own)}}};", f"int64_t places[{len(own)}];")
    b.line(f"slice_range ranges[{len(own)}];")
    checked(b, f"sizes_axes(env, {len(own)}, {length_of(b, 1)}, {listed(b, b.anchor.input(3))}, places)")
    b.line(f"slice_ranges({len(own)}, own, places, {lists}, ranges);")


def slice_step(b: KernelBuilder, index: int) -> str:
    """A step of 0, which has no meaning, counts as 1."""
    if b.anchor.input(4) is None:
        return "1"
    text = element(b, b.anchor.inputs[4], index)
    return text if "sizes_at" not in text else f"({text} == 0 ? 1 : {text})"


@finds_sizes("Tile")
def tile(b: KernelBuilder) -> None:
    own = b.outer(b.anchor.inputs[0]).type.dims
    _set_checked(b, lambda axis: f"sizes_times({b.size(own[axis])}, {element(b, b.anchor.inputs[1], axis)})")


@finds_sizes("Pad")
def pad(b: KernelBuilder) -> None:
    own, amounts = b.outer(b.anchor.inputs[0]).type.dims, pad_texts(b)
    _set_checked(b, lambda axis: f"sizes_plus({', '.join((b.size(own[axis]), *amounts[axis]))})")


@finds_sizes("ConstantOfShape")
def constant_of_shape(b: KernelBuilder) -> None:
    _set_checked(b, lambda axis: element(b, b.anchor.inputs[0], axis))


def _set_checked(b: KernelBuilder, text: Callable[[int], str]) -> None:
    """Give the output's open sizes the values ``text(axis)``, once these are known to be sizes."""
    b.headers.append("sizes.h")
    for axis, size in found(b):
        b.line(f"int64_t size{axis} = {text(axis)};")
        checked(b, f"sizes_check(env, size{axis})")
        b.set_size(size, f"size{axis}")


def pad_texts(b: KernelBuilder) -> list[tuple[str, str]]:
    """C text of the amounts before and behind each axis, with declarations where the axes are data."""
    rank = len(b.outer(b.anchor.inputs[0]).type.dims)
    axes = list(range(rank)) if b.anchor.input(3) is None else known_ints(b.anchor, b.context, 3)
    if axes is None:
        b.headers.append("sizes.h")
        b.line(f"int64_t places[{rank}], begins[{rank}], ends[{rank}];")
        checked(b, f"sizes_axes(env, {rank}, {length_of(b, 3)}, {listed(b, b.anchor.inputs[3])}, places)")
        b.line(f"sizes_pads({rank}, places, {length_of(b, 3)}, {listed(b, b.anchor.inputs[1])}, begins, ends);")
        return [(f"begins[{axis}]", f"ends[{axis}]") for axis in range(rank)]
    texts = [("0", "0")] * rank
    for position, axis in enumerate(axes):
        begin, end = (element(b, b.anchor.inputs[1], position + side * len(axes)) for side in (0, 1))
        texts[axis % rank] = begin, end
    return texts


@finds_sizes("Split")
def split(b: KernelBuilder) -> None:
    b.headers.append("sizes.h")
    own = b.outer(b.anchor.inputs[0]).type.dims
    axis = attribute(b.anchor, "axis", 0) % len(own)
    texts = [element(b, b.anchor.inputs[1], index) for index in range(len(b.node.outputs))]
    b.line(f"const int64_t parts[] = {{{', '.join(texts)}}};")
    for index, output in enumerate(b.node.outputs):
        checked(b, f"sizes_check(env, parts[{index}])")
        if output is not None and isinstance(output.type.dims[axis], sympy.Symbol):
            b.set_size(output.type.dims[axis], f"parts[{index}]")
    total = " + ".join(f"parts[{index}]" for index in range(len(texts)))
    b.line(f"if ({total} != {b.size(own[axis])}) return sizes_differ(env, {total}, {b.size(own[axis])});")
