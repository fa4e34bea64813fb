"""Operators that only name, view or reorder: Reshape, Transpose, Squeeze, Flatten, Identity, Dropout, Shape, Size, …"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import sympy

from mcpc.ir import Dim, DType, Node, TensorType, dim, product
from mcpc.ops.context import (
    ALL_FLOATS,
    InferContext,
    assume_equal,
    attribute,
    axes_of,
    choice,
    differ,
    expect,
    expect_rank,
    fail,
    known_ints,
    larger,
    list_length,
    object_array,
    show,
    type_of,
    vector,
)
from mcpc.ops.registry import EXACT, NEWEST, Contents, OpDef, moves, register


def _reshaped(node: Node, context: InferContext) -> list[Contents | None]:
    """The input's contents in the output's shape."""
    contents, shape = context.contents(node.inputs[0]), node.output.type.shape
    if contents is None or shape is None or any(not isinstance(size, int) for size in shape):
        return [None]
    return [contents.reshape([int(size) for size in shape])]


# ---- Reshape and its relatives


def divide_exactly(total: Dim, by: Dim) -> Dim:
    """``total / by``, which valid inputs make whole. Where that is not certain, code checks it in every run."""
    if isinstance(total, int) and isinstance(by, int):
        return total // by
    quotient = sympy.cancel(sympy.sympify(total) / by)
    denominator = sympy.denom(sympy.together(quotient))
    if denominator == 1:
        return dim(quotient)
    whole = dim(sympy.floor(quotient))
    assume_equal(dim(whole * by), total)
    return whole


def infer_reshape(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    expect(node, 1, {DType.int64})
    wanted = vector(node, context, 1)
    if wanted is None:
        return [TensorType(x.dtype, None)]
    sizes: list[Dim | None] = list(wanted)
    shown_sizes = f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"
    if sizes.count(-1) > 1 or any(isinstance(size, int) and size < -1 for size in sizes):
        fail(node, f"{shown_sizes} is no shape to reshape to")
    keep_zero = attribute(node, "allowzero", 0)
    for axis, size in enumerate(sizes):
        if size == 0 and not keep_zero:
            if x.shape is None:
                sizes[axis] = context.data_size(node, 0, axis)
            elif axis >= len(x.shape):
                fail(node, f"Reshape of {show(x)} to {shown_sizes} copies an axis that is not there")
            else:
                sizes[axis] = x.shape[axis]
    # One size that is -1 or that only data can show is determined by the others.
    open_axes = [axis for axis, size in enumerate(sizes) if size is None or size == -1]
    known = product(size for size in sizes if size is not None and size != -1)
    if len(open_axes) == 1 and x.shape is not None and known != 0:
        total = x.elements
        if isinstance(total, int) and isinstance(known, int) and int(total) % int(known):
            fail(node, f"Reshape of {show(x)} to {shown_sizes}: {total} elements do not divide by {known}")
        sizes[open_axes[0]] = divide_exactly(total, known)
    elif len(open_axes) == 1 and known == 0 and -1 in sizes:
        fail(node, f"Reshape of {show(x)} to {shown_sizes}: -1 beside a size of 0 could mean anything")
    elif not open_axes and x.shape is not None and differ(x.elements, known):
        fail(node, f"Reshape of {show(x)} to {shown_sizes}: {x.elements} elements do not fit into {known}")
    result = tuple(
        context.data_size(node, 0, axis) if size is None or size == -1 else size for axis, size in enumerate(sizes)
    )
    return [TensorType(x.dtype, result)]


def infer_flatten(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    axis = attribute(node, "axis", 1)
    if x.shape is None:
        return [TensorType(x.dtype, (context.data_size(node, 0, 0), context.data_size(node, 0, 1)))]
    if not -len(x.shape) <= axis <= len(x.shape):
        fail(node, f"axis {axis} is out of range for {show(x)}")
    axis += len(x.shape) if axis < 0 else 0
    return [TensorType(x.dtype, (product(x.shape[:axis]), product(x.shape[axis:])))]


def infer_squeeze(node: Node, context: InferContext) -> list[TensorType]:
    """Axes of symbolic size may be named: a run with another size than 1 is invalid. Where only data can show the axes,
    their number decides the rank."""
    x = type_of(node, 0)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    if node.input(1) is None:
        unsure = [size for size in x.shape if not isinstance(size, int)]
        if unsure:
            fail(node, f"Squeeze without axes depends on whether {unsure[0]} is 1 in {show(x)}", "E108")
        axes: list[int] | None = [axis for axis, size in enumerate(x.shape) if size == 1]
    else:
        axes = known_ints(node, context, 1)
    if axes is None:
        count = list_length(node, 1)
        return [_of_rank(node, context, x, None if not isinstance(count, int) else len(x.shape) - count)]
    axes = axes_of(node, axes, len(x.shape))
    for axis in axes:
        if differ(x.shape[axis], 1):
            fail(node, f"axis {axis} of {show(x)} cannot be squeezed: its size is not 1")
    return [TensorType(x.dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))]


def _of_rank(node: Node, context: InferContext, x: TensorType, rank: int | None) -> TensorType:
    """The sizes of ``x``, and ones, in an order that only data can show; None for a rank that is not known."""
    if rank is None:
        return TensorType(x.dtype, None)
    if rank < 0:
        fail(node, f"more axes than {show(x)} has")
    largest = functools.reduce(larger, x.dims, 1)
    return TensorType(x.dtype, tuple(context.data_size(node, 0, axis, 0, largest) for axis in range(rank)))


def infer_unsqueeze(node: Node, context: InferContext) -> list[TensorType]:
    """Where only data can show the axes, their number decides the rank."""
    x, axes = type_of(node, 0), known_ints(node, context, 1)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    if axes is None:
        count = list_length(node, 1)
        return [_of_rank(node, context, x, len(x.shape) + count if isinstance(count, int) else None)]
    rank = len(x.shape) + len(axes)
    axes = axes_of(node, axes, rank)
    sizes = iter(x.shape)
    return [TensorType(x.dtype, tuple(1 if axis in axes else next(sizes) for axis in range(rank)))]


def infer_identity(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    return [TensorType(x.dtype, x.shape)]


def infer_bitcast(node: Node, context: InferContext) -> list[TensorType]:
    x, to = type_of(node, 0), node.attrs.get("to")
    if not isinstance(to, DType):
        fail(node, "attribute to is missing or names no supported type", "E109")
    if to.bits != x.dtype.bits:
        fail(node, f"{x.dtype.name} and {to.name} differ in bits", "E102")
    return [TensorType(to, x.shape)]


def infer_dropout(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, ALL_FLOATS)
    if node.input(1) is not None:
        expect(node, 1, ALL_FLOATS)
    if node.input(2) is not None:
        expect(node, 2, {DType.bool})
    return [TensorType(x.dtype, x.shape), TensorType(DType.bool, x.shape)]


# ---- Transpose and blocks


def permutation(node: Node) -> list[int]:
    """The order of axes of a Transpose whose input's rank is known."""
    rank = type_of(node, 0).rank
    assert rank is not None
    order = node.attrs.get("perm")
    if order is None:
        return list(reversed(range(rank)))
    if not isinstance(order, list) or sorted(order) != list(range(rank)):
        fail(node, f"perm {order} is no order of the axes of {show(type_of(node, 0))}")
    return [int(axis) for axis in order]


def infer_transpose(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    return [TensorType(x.dtype, tuple(x.shape[axis] for axis in permutation(node)))]


def transpose_contents(node: Node, context: InferContext) -> list[Contents | None]:
    contents = context.contents(node.inputs[0])
    return [None if contents is None else np.transpose(contents, permutation(node))]


def infer_depth_to_space(node: Node, context: InferContext) -> list[TensorType]:
    x, block = _blocks(node)
    choice(node, "mode", "DCR", ("DCR", "CRD"))
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    n, c, h, w = x.shape
    if isinstance(c, int) and c % (block * block):
        fail(node, f"{c} channels do not divide by {block} x {block}")
    return [TensorType(x.dtype, (n, divide_exactly(c, block * block), dim(h * block), dim(w * block)))]


def infer_space_to_depth(node: Node, context: InferContext) -> list[TensorType]:
    x, block = _blocks(node)
    choice(node, "mode", "DCR", ("DCR", "CRD"))
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    n, c, h, w = x.shape
    if any(isinstance(size, int) and size % block for size in (h, w)):
        fail(node, f"{show(x)} does not divide into blocks of {block}")
    return [TensorType(x.dtype, (n, dim(c * block * block), divide_exactly(h, block), divide_exactly(w, block)))]


def _blocks(node: Node) -> tuple[TensorType, int]:
    expect_rank(node, 0, 4)
    block = attribute(node, "blocksize", 0)
    if block < 1:
        fail(node, f"attribute blocksize is {block}", "E102")
    return type_of(node, 0), block


# ---- what asks for a shape, or makes one


def _shape_slice(node: Node) -> Sequence[Dim] | None:
    shape = type_of(node, 0).shape
    if shape is None:
        return None
    end = node.attrs.get("end")
    return shape[attribute(node, "start", 0) : None if end is None else attribute(node, "end", 0)]


def infer_shape(node: Node, context: InferContext) -> list[TensorType]:
    sizes = _shape_slice(node)
    return [TensorType(DType.int64, (context.data_size(node, 0, 0) if sizes is None else len(sizes),))]


def shape_contents(node: Node, context: InferContext) -> list[Contents | None]:
    sizes = _shape_slice(node)
    return [None if sizes is None else object_array(sizes)]


def infer_size(node: Node, context: InferContext) -> list[TensorType]:
    type_of(node, 0)
    return [TensorType(DType.int64, ())]


def size_contents(node: Node, context: InferContext) -> list[Contents | None]:
    x = type_of(node, 0)
    return [None if x.shape is None else object_array([x.elements]).reshape(())]


register(
    OpDef("Reshape", infer_reshape, moves, EXACT, contents=_reshaped),
    OpDef("Flatten", infer_flatten, moves, EXACT, contents=_reshaped),
    OpDef("Squeeze", infer_squeeze, moves, EXACT, contents=_reshaped),
    OpDef("Unsqueeze", infer_unsqueeze, moves, EXACT, contents=_reshaped),
    OpDef("Identity", infer_identity, moves, EXACT, contents=_reshaped),
    OpDef("BitCast", infer_bitcast, moves, EXACT, (26, NEWEST)),
    OpDef("Transpose", infer_transpose, moves, EXACT, contents=transpose_contents),
    OpDef("DepthToSpace", infer_depth_to_space, moves, EXACT),
    OpDef("SpaceToDepth", infer_space_to_depth, moves, EXACT),
    OpDef("Shape", infer_shape, moves, EXACT, contents=shape_contents),
    OpDef("Size", infer_size, moves, EXACT, contents=size_contents),
)
