"""Values that are part of another's memory: they take no step."""

from __future__ import annotations

from mcpc.ir import Dim, Node, dim
from mcpc.ops import InferContext

from .layout import same_memory
from .slices import slice_bounds

#: Operators whose output is the input's memory under another shape.
RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout", "Identity", "BitCast")

#: All operators that may take no step.
VIEWS = (*RESHAPES, "Transpose", "Slice")


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
        return 0 if row_major and same_memory(out.type, out.type.with_layout(None)) else None
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
    if bounds is None or data.type.layout != out.type.layout:
        return None
    offset: Dim = 0
    # One contiguous run: outside the outermost dimension that is cut, every dimension of the result has size 1.
    outer = True
    for axis in data.type.order:
        start, step = bounds[axis]
        cut = out.type.dims[axis] != data.type.dims[axis]
        if cut and not outer:
            return None
        if step != 1 and out.type.dims[axis] != 1:
            return None
        offset = dim(offset + start * data.type.strides[axis])
        outer = outer and out.type.dims[axis] == 1
    return dim(offset * data.dtype.itemsize)


def concat_offsets(node: Node) -> list[Dim] | None:
    """Byte offsets of a Concat's inputs in its output where each is one run there; None where they interleave."""
    out = node.output
    axis = int(node.attrs["axis"]) % len(out.type.dims)
    for outer in out.type.order:
        if outer == axis:
            break
        if out.type.dims[outer] != 1:
            return None
    offsets: list[Dim] = []
    position: Dim = 0
    for value in node.inputs:
        assert value is not None
        if value.type.layout != out.type.layout and not same_memory(
            value.type, value.type.with_layout(out.type.layout)
        ):
            return None
        offsets.append(position)
        position = dim(position + value.type.nbytes)
    return offsets
