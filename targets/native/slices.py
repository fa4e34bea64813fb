"""Where a Slice begins on every axis."""

from __future__ import annotations

from mcpc import ops
from mcpc.ir import Dim, Node
from mcpc.ops.move import slice_axes, slice_start


def slice_bounds(node: Node, context: ops.InferContext) -> list[tuple[Dim, int]] | None:
    """(start, step) per axis of a Slice's input, the start counted from the front; None where only data can show."""
    data = node.inputs[0]
    assert data is not None
    result: list[tuple[Dim, int]] = [(0, 1)] * len(data.type.dims)
    axes = slice_axes(node, context)
    if axes is None:
        return None
    for axis, start, _, step in axes:
        first = None if start is None or step is None else slice_start(data.type.dims[axis], start, step)
        if first is None or step is None:
            return None
        result[axis] = first, step
    return result
