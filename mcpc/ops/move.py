"""Operators that pick, split and join: Slice, Split, Concat, Gather."""

from __future__ import annotations

import math

import numpy as np
import sympy

from mcpc.ir import OPSET, Dim, Node, TensorType, dim, total
from mcpc.ops.context import (
    INDEX,
    InferContext,
    attribute,
    axes_of,
    axis_of,
    ceil_div,
    expect,
    fail,
    known_ints,
    larger,
    list_length,
    object_array,
    same_dtype,
    show,
    smaller,
    type_of,
    unify,
    vector,
)
from mcpc.ops.registry import EXACT, Contents, OpDef, moves, register

# ---- Slice

#: From here on a constant end of a Slice means the axis's end: exporters write 10**9, INT32_MAX or INT64_MAX.
_FAR = 10**9


def slice_axes(node: Node, context: InferContext) -> list[tuple[int, Dim | None, Dim | None, int | None]] | None:
    """(axis, start, end, step) per sliced axis, as the inputs give them, each number None where only data can show it;
    None where that is so of the axes."""
    x = type_of(node, 0)
    assert x.rank is not None
    for index in range(1, 5):
        if node.input(index) is not None:
            expect(node, index, INDEX)
    length = list_length(node, 1, 2, 3, 4)
    if node.input(3) is not None:
        axes = known_ints(node, context, 3)
    else:
        axes = list(range(length)) if isinstance(length, int) else None
    if axes is None:
        return None
    unknown: list[Dim | None] = [None] * len(axes)
    starts, ends = vector(node, context, 1) or unknown, vector(node, context, 2) or unknown
    steps = [1] * len(axes) if node.input(4) is None else vector(node, context, 4) or unknown
    for step in steps:
        if step == 0:
            fail(node, "a step is 0")
    whole = [step if isinstance(step, int) else None for step in steps]
    return list(zip(axes_of(node, axes, x.rank), starts, ends, whole, strict=True))


def slice_range(size: int, start: int, end: int, step: int) -> range:
    """The indices that start:end:step picks from an axis.

    Unlike Python's, ONNX's start is clamped into the axis: from the far side of its front, -1 steps take element 0.
    """
    start, end = (position + size if position < 0 else position for position in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def slice_length(size: Dim, start: Dim, end: Dim, step: int) -> Dim | None:
    """The number of elements that start:end:step picks from an axis; None where signs are not known."""
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(slice_range(size, start, end, step))
    if step > 0 and isinstance(start, int) and isinstance(end, int) and not start < 0 <= end < _FAR:
        return ceil_div(_span(size, start, end), step)
    last_index = dim(size - 1)
    if step > 0:
        first, last = _clamped(size, start, 0, size), _clamped(size, end, 0, size)
    else:
        first, last = _clamped(size, start, 0, last_index), _clamped(size, end, -1, last_index)
    if first is None or last is None:
        return None
    span = dim(last - first) if step > 0 else dim(first - last)
    return larger(0, ceil_div(span, abs(step)))


def _span(size: Dim, start: int, end: int) -> Dim:
    """The number of elements from ``start`` to ``end``; not for a start counted from the end beside an end that is not.
    ``size`` occurs once, so that the lengths of slices of slices stay short."""
    if -_FAR < start < 0:
        if end >= _FAR:
            return smaller(size, -start)
        return smaller(larger(0, dim(size + end)), end - start) if start < end else 0
    start = max(start, 0)
    if start >= _FAR or end <= -_FAR or 0 <= end <= start:
        return 0
    if 0 <= end < _FAR:
        size, end = smaller(size, end), 0
    rest = dim(size - start + (end if end < 0 else 0))
    return rest if rest == size else larger(0, rest)


def slice_start(size: Dim, start: Dim, step: int) -> Dim | None:
    """The index of the first element that a Slice picks from an axis; None where signs are not known."""
    if isinstance(size, int) and isinstance(start, int):
        return slice_range(size, start, start, step).start
    return _clamped(size, start, 0, size if step > 0 else dim(size - 1))


def _clamped(size: Dim, position: Dim, low: int, high: Dim) -> Dim | None:
    """``position``, counted from the end where negative, within low … high; high wins where the axis is empty."""
    if isinstance(position, int):
        if position >= _FAR:
            return high
        if position <= -_FAR:
            return smaller(low, high)
    elif not position.is_nonnegative and not position.is_negative:
        return None
    if position == -1 and high != size:
        return high  # the last index, also where the axis is empty
    is_negative = position < 0 if isinstance(position, int) else bool(position.is_negative)
    if not is_negative:
        return smaller(position, high)
    from_end = larger(dim(size + position), low)
    return from_end if high == size else smaller(from_end, high)


def infer_slice(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    sizes, axes = list(x.shape), slice_axes(node, context)
    if axes is None:
        return [
            TensorType(x.dtype, tuple(context.data_size(node, 0, axis, 0, size) for axis, size in enumerate(sizes)))
        ]
    for axis, start, end, step in axes:
        length = None if start is None or end is None or step is None else slice_length(sizes[axis], start, end, step)
        sizes[axis] = context.data_size(node, 0, axis) if length is None else length
    return [TensorType(x.dtype, tuple(sizes))]


def slice_contents(node: Node, context: InferContext) -> list[Contents | None]:
    contents, axes = context.contents(node.inputs[0]), slice_axes(node, context)
    if contents is None or axes is None:
        return [None]
    for axis, start, end, step in axes:
        if not isinstance(start, int) or not isinstance(end, int) or step is None:
            return [None]
        contents = np.take(contents, list(slice_range(contents.shape[axis], start, end, step)), axis=axis)
    return [contents]


# ---- Split, Concat


def split_sizes(node: Node, context: InferContext) -> list[Dim]:
    """Sizes of the outputs along the split axis."""
    x = type_of(node, 0)
    assert x.shape is not None
    axis = axis_of(node, attribute(node, "axis", 0), len(x.shape))
    size, count = x.shape[axis], len(node.outputs)
    if node.input(1) is not None:
        given = vector(node, context, 1)
        if given is None:
            given = [None] * count
        if len(given) != count:
            fail(node, f"{len(given)} sizes for {count} outputs")
        sizes = [context.data_size(node, i, axis) if item is None else item for i, item in enumerate(given)]
        total = dim(sum(sizes, start=sympy.Integer(0)))
        if any(isinstance(item, int) and item < 0 for item in sizes):
            fail(node, f"sizes {sizes} are negative")
        if None not in given:
            unify(node, total, size, f"sizes {sizes} of Split and axis {axis} of {show(x)}")
        return sizes
    count = attribute(node, "num_outputs", count)
    if count < 1 or count != len(node.outputs):
        fail(node, f"num_outputs is {count}, the node has {len(node.outputs)} outputs")
    chunk = ceil_div(size, count)
    last = dim(size - chunk * (count - 1))
    if isinstance(last, int) and last < 0:
        fail(node, f"axis {axis} of {show(x)} does not split into {count}")
    return [chunk] * (count - 1) + [last]


def infer_split(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    if x.shape is None:
        return [TensorType(x.dtype, None) for _ in node.outputs]
    axis = axis_of(node, attribute(node, "axis", 0), len(x.shape))
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in split_sizes(node, context)]
    return [TensorType(x.dtype, shape) for shape in shapes]


def split_contents(node: Node, context: InferContext) -> list[Contents | None]:
    contents = context.contents(node.inputs[0])
    sizes = [] if contents is None else split_sizes(node, context)
    if contents is None or any(not isinstance(size, int) for size in sizes):
        return [None for _ in node.outputs]
    axis = axis_of(node, attribute(node, "axis", 0), contents.ndim)
    borders = np.cumsum([int(size) for size in sizes])[:-1]
    return list(np.split(contents, borders, axis=axis))


def infer_concat(node: Node, context: InferContext) -> list[TensorType]:
    if not node.inputs:
        fail(node, "Concat has no input")
    types = [type_of(node, index) for index in range(len(node.inputs))]
    dtype = same_dtype(node, *range(len(types)))
    if "axis" not in node.attrs:
        fail(node, "attribute axis is missing", "E102")
    known = [type for type in types if type.shape is not None]
    if len({type.rank for type in known}) > 1:
        fail(node, "ranks of Concat's inputs differ: " + ", ".join(map(show, known)))
    if not known:
        return [TensorType(dtype, None)]
    rank = len(known[0].dims)
    axis = axis_of(node, attribute(node, "axis", 0), rank)
    sizes: list[Dim] = list(known[0].dims)
    for type in known[1:]:
        for other in range(rank):
            if other != axis and sizes[other] != type.dims[other]:
                what = "sizes of Concat's inputs beside axis " + f"{axis} (" + ", ".join(map(show, known)) + ")"
                sizes[other] = unify(node, sizes[other], type.dims[other], what)
    if len(known) < len(types):
        sizes[axis] = context.data_size(node, 0, axis)
    else:
        sizes[axis] = total(type.dims[axis] for type in types)
    return [TensorType(dtype, tuple(sizes))]


def concat_contents(node: Node, context: InferContext) -> list[Contents | None]:
    parts = []
    for value in node.inputs:
        assert value is not None
        contents = context.contents(value)
        if contents is None:
            shape = value.type.shape
            if shape is None or any(not isinstance(size, int) for size in shape):
                return [None]
            if math.prod(int(size) for size in shape) > 64:
                return [None]
            contents = np.full([int(size) for size in shape], None, dtype=object)
        parts.append(contents)
    return [np.concatenate(parts, axis=attribute(node, "axis", 0))]


# ---- Gather


def infer_gather(node: Node, context: InferContext) -> list[TensorType]:
    x, indices = type_of(node, 0), expect(node, 1, INDEX)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    if not x.shape:
        fail(node, "Gather from a scalar")
    axis = axis_of(node, attribute(node, "axis", 0), len(x.shape))
    _check_indices(node, context, x.shape[axis])
    if indices.shape is None:
        return [TensorType(x.dtype, None)]
    return [TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))]


def _check_indices(node: Node, context: InferContext, size: Dim) -> None:
    indices = context.contents(node.inputs[1])
    if indices is None or not isinstance(size, int):
        return
    for index in indices.ravel():
        if isinstance(index, int) and not -size <= index < size:
            fail(node, f"index {index} is out of range for an axis of size {size}")


def gather_contents(node: Node, context: InferContext) -> list[Contents | None]:
    contents, indices = context.contents(node.inputs[0]), context.contents(node.inputs[1])
    if contents is None or indices is None or any(not isinstance(index, int) for index in indices.ravel()):
        return [None]
    picked = np.take(contents, indices.astype(np.int64), axis=attribute(node, "axis", 0))
    return [picked if isinstance(picked, np.ndarray) else object_array([picked]).reshape(())]


def infer_gather_elements(node: Node, context: InferContext) -> list[TensorType]:
    x, indices = type_of(node, 0), expect(node, 1, INDEX)
    if x.shape is not None:
        if indices.shape is not None and len(x.shape) != len(indices.shape):
            fail(node, f"ranks of data and indices differ: {show(x)} and {show(indices)}")
        axis = axis_of(node, attribute(node, "axis", 0), len(x.shape))
        _check_indices(node, context, x.shape[axis])
    return [TensorType(x.dtype, indices.shape)]


register(
    OpDef("Slice", infer_slice, moves, EXACT, contents=slice_contents),
    OpDef("Split", infer_split, moves, EXACT, contents=split_contents),
    OpDef("Concat", infer_concat, moves, EXACT, contents=concat_contents),
    OpDef("Gather", infer_gather, moves, EXACT, contents=gather_contents),
    OpDef("GatherElements", infer_gather_elements, moves, EXACT, (11, OPSET)),
)
