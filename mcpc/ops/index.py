"""Operators that read or write at places that are data: GatherND, ScatterElements, ScatterND, OneHot."""

from __future__ import annotations

from mcpc.ir import OPSET, Dim, DType, Node, TensorType
from mcpc.ops.context import (
    ALL,
    INDEX,
    NUMBERS,
    InferContext,
    attribute,
    axis_of,
    choice,
    differ,
    expect,
    fail,
    same_dtype,
    show,
    type_of,
    unify,
)
from mcpc.ops.registry import EXACT, ROUNDED, OpDef, moves, register

#: What a scattered update may do to the element that is there.
SCATTER_REDUCTIONS = ("none", "add", "mul", "max", "min")


def infer_gather_nd(node: Node, context: InferContext) -> list[TensorType]:
    """data [batch…, sizes…, inner…], indices [batch…, tuples…, k] → [batch…, tuples…, inner…]."""
    x, indices = type_of(node, 0), expect(node, 1, {DType.int64})
    if x.shape is None or indices.shape is None:
        return [TensorType(x.dtype, None)]
    batch = attribute(node, "batch_dims", 0)
    rank, index_rank = len(x.shape), len(indices.shape)
    if not 0 <= batch < min(rank, index_rank):
        fail(node, f"batch_dims is {batch}, data are {show(x)}, indices {show(indices)}")
    shared = [
        unify(node, x.shape[axis], indices.shape[axis], f"axis {axis} of data and indices") for axis in range(batch)
    ]
    k = tuple_length(node, indices)
    if batch + k > rank:
        fail(node, f"{k} indices into {rank - batch} axes of {show(x)}")
    return [TensorType(x.dtype, (*shared, *indices.shape[batch:-1], *x.shape[batch + k :]))]


def tuple_length(node: Node, indices: TensorType) -> int:
    """The number of indices that make a place, the last size of the indices of GatherND or ScatterND."""
    if not indices.dims:
        fail(node, "the indices are a scalar")
    k = indices.dims[-1]
    if not isinstance(k, int):
        fail(node, f"the number of indices that make a place is not known: {show(indices)}", "E108")
    if k < 1:
        fail(node, f"no index makes a place: {show(indices)}")
    return k


def infer_scatter_elements(node: Node, context: InferContext) -> list[TensorType]:
    x, indices, updates = type_of(node, 0), expect(node, 1, INDEX), type_of(node, 2)
    same_dtype(node, 0, 2)
    choice(node, "reduction", "none", SCATTER_REDUCTIONS)
    if x.shape is not None and indices.shape is not None:
        if len(x.shape) != len(indices.shape):
            fail(node, f"ranks of data and indices differ: {show(x)} and {show(indices)}")
        axis = axis_of(node, attribute(node, "axis", 0), len(x.shape))
        for other, (size, wanted) in enumerate(zip(x.shape, indices.shape, strict=True)):
            if other != axis and isinstance(size, int) and isinstance(wanted, int) and wanted > size:
                fail(node, f"indices reach beyond axis {other} of the data: {show(x)} and {show(indices)}")
    _check_shape(node, updates, indices.shape)
    return [TensorType(x.dtype, x.shape)]


def infer_scatter_nd(node: Node, context: InferContext) -> list[TensorType]:
    """data [sizes…, inner…], indices [tuples…, k], updates [tuples…, inner…]."""
    x, indices, updates = type_of(node, 0), expect(node, 1, {DType.int64}), type_of(node, 2)
    same_dtype(node, 0, 2)
    choice(node, "reduction", "none", SCATTER_REDUCTIONS)
    if x.shape is not None and indices.shape is not None:
        k = tuple_length(node, indices)
        if k > len(x.shape):
            fail(node, f"{k} indices into {len(x.shape)} axes of {show(x)}")
        _check_shape(node, updates, (*indices.shape[:-1], *x.shape[k:]))
    return [TensorType(x.dtype, x.shape)]


def _check_shape(node: Node, updates: TensorType, wanted: tuple[Dim, ...] | None) -> None:
    if updates.shape is None or wanted is None:
        return
    if len(updates.shape) != len(wanted) or any(map(differ, updates.shape, wanted)):
        fail(node, f"the updates are {show(updates)}, {list(wanted)} is needed")


def infer_one_hot(node: Node, context: InferContext) -> list[TensorType]:
    """indices [outer…, inner…], depth one number, values [off, on] → [outer…, depth, inner…]."""
    indices, _, values = expect(node, 0, NUMBERS), expect(node, 1, NUMBERS), expect(node, 2, ALL)
    if values.shape is not None and (len(values.shape) != 1 or differ(values.shape[0], 2)):
        fail(node, f"the values are {show(values)}, two numbers are needed")
    if indices.shape is None:
        return [TensorType(values.dtype, None)]
    axis = axis_of(node, attribute(node, "axis", -1), len(indices.shape) + 1)
    depth = one_hot_depth(node, context)
    size = context.data_size(node, 0, axis) if depth is None else depth
    return [TensorType(values.dtype, (*indices.shape[:axis], size, *indices.shape[axis:]))]


def one_hot_depth(node: Node, context: InferContext) -> Dim | None:
    """The number of classes; None where only data can show."""
    value = node.inputs[1]
    if value is not None and value.data is not None and value.data.size == 1:
        depth: Dim | None = int(value.data.item())
    else:
        contents = context.contents(value)
        depth = contents.item() if contents is not None and contents.size == 1 else None
    if isinstance(depth, int) and depth < 0:
        fail(node, f"depth is {depth}")
    return depth


register(
    OpDef("GatherND", infer_gather_nd, moves, EXACT, (11, OPSET)),
    OpDef("ScatterElements", infer_scatter_elements, moves, ROUNDED, (11, OPSET)),
    OpDef("ScatterND", infer_scatter_nd, moves, ROUNDED, (11, OPSET)),
    OpDef("OneHot", infer_one_hot, moves, EXACT, (9, OPSET)),
)
