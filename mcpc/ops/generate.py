"""Operators that enlarge or generate: Pad, Expand, Tile, ConstantOfShape, Range."""

from __future__ import annotations

import math

import numpy as np

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, dim
from mcpc.ops.context import (
    FLOATS,
    INDEX,
    INTEGERS,
    InferContext,
    axes_of,
    broadcast,
    ceil_div,
    choice,
    expect,
    expect_rank,
    fail,
    known_ints,
    larger,
    list_length,
    object_array,
    same_dtype,
    show,
    type_of,
    unify,
    vector,
)
from mcpc.ops.registry import EXACT, Contents, Cost, OpDef, moves, register, traffic


def pad_amounts(node: Node, context: InferContext) -> list[tuple[Dim | None, Dim | None]] | None:
    """(begin, end) per axis of the input, whose rank is known, each None where only data can show it; None where that
    is so of the axes."""
    x = type_of(node, 0)
    assert x.rank is not None
    axes = list(range(x.rank)) if node.input(3) is None else known_ints(node, context, 3)
    if axes is None:
        return None
    axes = axes_of(node, axes, x.rank)
    pads = vector(node, context, 1)
    pads = [None] * (2 * len(axes)) if pads is None else pads
    if len(pads) != 2 * len(axes):
        fail(node, f"{len(pads)} pads for {len(axes)} axes of {show(x)}")
    result: list[tuple[Dim | None, Dim | None]] = [(0, 0)] * x.rank
    for position, axis in enumerate(axes):
        result[axis] = pads[position], pads[position + len(axes)]
    return result


def infer_pad(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    mode = choice(node, "mode", "constant", ("constant", "reflect", "edge", "wrap"))
    expect(node, 1, {DType.int64})
    if node.input(2) is not None:
        same_dtype(node, 0, 2)
    if node.input(3) is not None:
        expect(node, 3, INDEX)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    amounts = pad_amounts(node, context)
    if amounts is None:
        count, pads = list_length(node, 3), list_length(node, 1)
        if count is not None and pads is not None:
            unify(node, pads, dim(2 * count), "the number of pads and twice that of axes")
        amounts = [(None, None)] * len(x.shape)
    sizes: list[Dim] = []
    for axis, (size, (begin, end)) in enumerate(zip(x.shape, amounts, strict=True)):
        if begin is None or end is None:
            sizes.append(context.data_size(node, 0, axis))
            continue
        padded = dim(size + begin + end)
        if isinstance(padded, int) and padded < 0:
            fail(node, f"pads {begin} and {end} leave nothing of axis {axis} of {show(x)}")
        limit = max(0, size - 1) if mode == "reflect" and isinstance(size, int) else None
        if limit is not None and any(isinstance(pad, int) and pad > limit for pad in (begin, end)):
            fail(node, f"reflection by {begin} and {end} needs more than axis {axis} of {show(x)} has")
        sizes.append(padded)
    return [TensorType(x.dtype, tuple(sizes))]


def infer_expand(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    expect(node, 1, {DType.int64})
    wanted = vector(node, context, 1)
    if wanted is None or x.shape is None:
        return [TensorType(x.dtype, None)]
    _check_sizes(node, wanted)
    rank = max(len(wanted), len(x.shape))
    own_sizes = [*[1] * (rank - len(x.shape)), *x.shape]
    sizes = [*[1] * (rank - len(wanted)), *wanted]
    shape: list[Dim] = []
    for axis, (own, size) in enumerate(zip(own_sizes, sizes, strict=True)):
        if size is not None:
            shape += broadcast(node, [(own,), (size,)]) or ()
        else:  # what only data can show must be 1 or the input's size, unless that is 1
            shape.append(own if isinstance(own, int) and own != 1 else context.data_size(node, 0, axis))
    return [TensorType(x.dtype, tuple(shape))]


def _check_sizes(node: Node, sizes: list[Dim | None]) -> None:
    if any(isinstance(size, int) and size < 0 for size in sizes):
        fail(node, f"{sizes} is no shape")


def expand_contents(node: Node, context: InferContext) -> list[Contents | None]:
    contents, shape = context.contents(node.inputs[0]), node.output.type.shape
    return [None if contents is None or not _is_small(shape) else np.broadcast_to(contents, shape)]  # type: ignore[arg-type]


def _is_small(shape: tuple[Dim, ...] | None) -> bool:
    if shape is None or any(not isinstance(size, int) for size in shape):
        return False
    return math.prod(int(size) for size in shape) <= 1024


def infer_tile(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    expect(node, 1, {DType.int64})
    repeats = vector(node, context, 1)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    if repeats is None:
        repeats = [None] * len(x.shape)
    if len(repeats) != len(x.shape):
        fail(node, f"{len(repeats)} repeats for {show(x)}")
    _check_sizes(node, repeats)
    sizes = [
        context.data_size(node, 0, axis) if count is None else dim(size * count)
        for axis, (size, count) in enumerate(zip(x.shape, repeats, strict=True))
    ]
    return [TensorType(x.dtype, tuple(sizes))]


def tile_contents(node: Node, context: InferContext) -> list[Contents | None]:
    contents, repeats = context.contents(node.inputs[0]), context.contents(node.inputs[1])
    if contents is None or repeats is None or not _is_small(node.output.type.shape):
        return [None]
    return [np.tile(contents, [int(count) for count in repeats])]


# ---- generators


def infer_constant_of_shape(node: Node, context: InferContext) -> list[TensorType]:
    expect(node, 0, {DType.int64})
    value = node.attrs.get("value")
    if value is not None and (not isinstance(value, np.ndarray) or value.size != 1):
        fail(node, "attribute value must hold one element", "E102")
    dtype = DType.float32 if value is None else DType.of(value)
    sizes = vector(node, context, 0)
    if sizes is None:
        return [TensorType(dtype, None)]
    _check_sizes(node, sizes)
    shape = tuple(context.data_size(node, 0, axis) if size is None else size for axis, size in enumerate(sizes))
    return [TensorType(dtype, shape)]


def constant_of_shape_contents(node: Node, context: InferContext) -> list[Contents | None]:
    type, value = node.output.type, node.attrs.get("value")
    if not isinstance(value, np.ndarray) or type.dtype not in INTEGERS | {DType.bool} or not _is_small(type.shape):
        return [None]
    return [np.full(type.static_shape, int(value.item()), dtype=object)]


def infer_range(node: Node, context: InferContext) -> list[TensorType]:
    for index in range(3):
        expect(node, index, FLOATS | {DType.int16, DType.int32, DType.int64})
        expect_rank(node, index, 0, 1)
    dtype = same_dtype(node, 0, 1, 2)
    size = _range_length(node, context)
    return [TensorType(dtype, (context.data_size(node, 0, 0) if size is None else size,))]


def cost_range(node: Node) -> Cost:
    return Cost(dim(2 * node.output.type.elements), traffic(node))


def _range_length(node: Node, context: InferContext) -> Dim | None:
    items = [
        value.data.item() if value is not None and value.data is not None and value.data.size == 1 else None
        for value in node.inputs
    ]
    if type_of(node, 0).dtype.is_float:
        if any(item is None for item in items):
            return None
        start, limit, delta = (float(item) for item in items)  # type: ignore[arg-type]
        if delta == 0 or not all(map(math.isfinite, (start, limit, delta))):
            fail(node, f"Range from {start} to {limit} by {delta}")
        return max(0, math.ceil((limit - start) / delta))
    contents = [context.contents(value) for value in node.inputs]
    if any(item is None or item.size != 1 or item.item() is None for item in contents):
        return None
    first, stop, step = (item.item() for item in contents if item is not None)
    if step == 0:
        fail(node, "the step of Range is 0")
    if not isinstance(step, int):
        return None
    return larger(0, ceil_div(dim(stop - first) if step > 0 else dim(first - stop), abs(step)))


def range_contents(node: Node, context: InferContext) -> list[Contents | None]:
    contents = [context.contents(value) for value in node.inputs]
    if not _is_small(node.output.type.shape) or any(item is None for item in contents):
        return [None]
    start, _, step = (item.item() for item in contents if item is not None)
    if start is None or step is None:
        return [None]
    return [object_array([start + step * index for index in range(node.output.type.static_shape[0])])]


register(
    OpDef("Pad", infer_pad, moves, EXACT),
    OpDef("Expand", infer_expand, moves, EXACT, (8, OPSET), contents=expand_contents),
    OpDef("Tile", infer_tile, moves, EXACT, contents=tile_contents),
    OpDef("ConstantOfShape", infer_constant_of_shape, moves, EXACT, (9, OPSET), contents=constant_of_shape_contents),
    OpDef("Range", infer_range, cost_range, EXACT, (11, OPSET), contents=range_contents),
)
