"""The bounds of a Slice whose operands are constant."""

from __future__ import annotations

from mcpc import ops
from mcpc.ir import Node
from mcpc.ops.move import slice_axes, slice_range


def slice_bounds(node: Node) -> list[tuple[int, int]] | None:
    """(start, step) per axis of a Slice's input, the start counted from the front; None where they are not constant."""
    data = node.inputs[0]
    assert data is not None
    result = [(0, 1)] * len(data.type.dims)
    for axis, start, end, step in slice_axes(node, ops.InferContext()):
        size = data.type.dims[axis]
        if not all(isinstance(item, int) for item in (start, end, step, size)):
            return None
        picked = slice_range(int(size), int(start), int(end), int(step))  # type: ignore[arg-type]
        result[axis] = picked.start, picked.step
    return result
