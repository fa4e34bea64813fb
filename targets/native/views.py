"""Values that are part of another's memory: they take no step."""

from __future__ import annotations

from collections.abc import Sequence

from mcpc.ir import Dim, Node, TensorType, dim
from mcpc.ops import InferContext
from mcpc.ops.context import same

from .slices import slice_bounds

#: Operators whose output is the input's memory under another shape.
RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout", "Identity", "BitCast")

#: All operators that may take no step.
VIEWS = (*RESHAPES, "Transpose", "Slice")


def same_memory(a: TensorType, b: TensorType) -> bool:
    """Whether two types of equal shape lie in memory alike: their strides differ on dimensions of size 1 at most."""
    return all(size == 1 or x == y for size, x, y in zip(a.dims, a.strides, b.strides, strict=True))


def reshaped_layout(type: TensorType, dims: Sequence[Dim]) -> tuple[int, ...] | None:
    """The order in which the elements of ``type`` lie when they are seen with the sizes ``dims``, as a Reshape does;
    None where no order of these dimensions describes it."""
    groups: list[tuple[list[int], list[int]]] = []
    before, behind = 0, 0
    while before < len(type.dims) and behind < len(dims):
        first, ours, theirs = (before, behind), type.dims[before], dims[behind]
        before, behind = before + 1, behind + 1
        while not same(ours, theirs):  # the fewest dimensions on both sides that are as many items
            if before < len(type.dims) and (behind == len(dims) or _is_less(ours, theirs)):
                ours, before = dim(ours * type.dims[before]), before + 1
            elif behind < len(dims):
                theirs, behind = dim(theirs * dims[behind]), behind + 1
            else:
                return None
        groups.append((list(range(first[0], before)), list(range(first[1], behind))))
    if any(size != 1 for size in (*type.dims[before:], *dims[behind:])):
        return None
    groups.append((list(range(before, len(type.dims))), list(range(behind, len(dims)))))
    if type.pitch is not None:
        return None
    position = {axis: place for place, axis in enumerate(axis for axis in type.order if type.dims[axis] != 1)}
    places: list[tuple[int, list[int]]] = []
    for ours, theirs in groups:
        where = [position[axis] for axis in ours if axis in position]
        if where != list(range(where[0], where[0] + len(where)) if where else []):
            return None
        places.append((where[0] if where else -1, theirs))
    return tuple(axis for _, axes in sorted(places, key=lambda place: place[0]) for axis in axes)


def _is_less(a: Dim, b: Dim) -> bool:
    """Whether ``a`` is known to be less than ``b``."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return not isinstance(b, int) and (isinstance(a, int) or b.count_ops() > a.count_ops())


def view_offset(node: Node, context: InferContext) -> Dim | None:
    """Bytes from the first input's start at which the node's only output lies without a move; None where it must be
    computed."""
    if node.body is not None or not node.inputs or node.inputs[0] is None:
        return None
    data, out = node.inputs[0], node.output
    if len([o for o in node.outputs if o is not None]) != 1:
        return None
    if node.is_op("Identity", "Dropout", "BitCast"):
        return 0 if same_memory(data.type, out.type) else None
    if node.is_op(*RESHAPES):
        row_major = same_memory(data.type, data.type.with_layout(None))
        order = tuple(range(len(out.type.dims))) if row_major else reshaped_layout(data.type, out.type.dims)
        return 0 if order is not None and same_memory(out.type, out.type.with_layout(order)) else None
    if node.is_op("Transpose"):
        perm = node.attrs.get("perm") or list(reversed(range(len(data.type.dims))))
        strides = data.type.strides
        matches = all(
            size == 1 or strides[axis] == step
            for axis, size, step in zip(perm, out.type.dims, out.type.strides, strict=True)
        )
        return 0 if matches else None
    if node.is_op("Slice"):
        return _slice_offset(node, context)
    return None


def _slice_offset(node: Node, context: InferContext) -> Dim | None:
    data, out = node.inputs[0], node.output
    assert data is not None
    bounds = slice_bounds(node, context)
    if bounds is None:
        return None
    offset: Dim = 0
    for axis, (start, step) in enumerate(bounds):
        ours, theirs = data.type.strides[axis], out.type.strides[axis]
        if out.type.dims[axis] != 1 and not same(dim(ours * step), theirs):
            return None
        offset = dim(offset + start * ours)
    return dim(offset * data.dtype.itemsize)


def concat_steps(node: Node) -> list[Dim] | None:
    """Bytes from each of a Concat's inputs to the next in its output, where each is one run there, or all are stored as
    pieces of its rows; None where they interleave."""
    out, values = node.output.type, [value for value in node.inputs if value is not None]
    axis = int(node.attrs["axis"]) % len(out.dims)
    is_run = all(out.dims[outer] == 1 for outer in out.order[: out.order.index(axis)])
    if axis == out.order[-1] and all(_is_piece(value.type, out, axis) for value in values):
        return [dim(value.type.dims[axis] * out.dtype.itemsize) for value in values]
    if is_run and all(same_memory(value.type, value.type.with_layout(out.layout)) for value in values):
        return [value.type.nbytes for value in values]
    return None


def _is_piece(part: TensorType, whole: TensorType, axis: int) -> bool:
    return part.layout == whole.layout and part.pitch is not None and same(part.pitch, whole.dims[axis])
