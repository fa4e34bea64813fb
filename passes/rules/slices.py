"""Slices of slices, and Gathers that pick neighbours."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Graph, Node, TensorType, Value
from mcpc.rewrite import Patch, constant_of, made_by, rule

from .shapes import add_reshape, constant_ints, normal_axes

_MIN = -(2**63)


@rule("Slice")
def merge_slices(node: Node, graph: Graph) -> Patch | None:
    """A Slice of a Slice is one, where they cut different axes or an axis of known size."""
    first = made_by(node.inputs[0], "Slice")
    outer, inner = ranges(node), ranges(first) if first is not None else None
    if first is None or outer is None or inner is None or first.inputs[0] is None:
        return None
    source = first.inputs[0]
    for axis, (start, end, step) in outer.items():
        if axis not in inner:
            inner[axis] = start, end, step
            continue
        size = source.shape[axis] if source.shape is not None else None
        if not isinstance(size, int):
            return None
        picked = range(*slice(*inner[axis]).indices(size))[start:end:step]
        if not picked:
            return None
        inner[axis] = picked.start, picked.stop if picked.stop >= 0 else _MIN, picked.step
    patch = Patch(graph, node)
    return patch.replace(add_slice(patch, source, inner, node.output.type))


def ranges(node: Node) -> dict[int, tuple[int, int, int]] | None:
    """(start, end, step) by axis; None where a number is not constant."""
    x, starts, ends = node.inputs[0], constant_ints(node.input(1)), constant_ints(node.input(2))
    if x is None or x.type.rank is None or starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if node.input(3) is None else constant_ints(node.input(3))
    steps = [1] * len(starts) if node.input(4) is None else constant_ints(node.input(4))
    if axes is None or steps is None:
        return None
    numbers = zip(starts, ends, steps, strict=True)
    return dict(zip(normal_axes(axes, x.type.rank), numbers, strict=True))


def add_slice(patch: Patch, x: Value, ranges: dict[int, tuple[int, int, int]], type: TensorType | None) -> Value:
    axes = sorted(ranges)
    columns = [*zip(*(ranges[axis] for axis in axes), strict=True)]
    stem = patch.root.output.name
    starts, ends, steps = (
        patch.constant(f"{stem}.{what}", np.array(numbers, np.int64))
        for what, numbers in zip(("starts", "ends", "steps"), columns, strict=True)
    )
    operands = [x, starts, ends, patch.constant(f"{stem}.axes", np.array(axes, np.int64))]
    return patch.add("Slice", operands + ([steps] if any(step != 1 for step in columns[2]) else []), {}, type)


@rule("Gather")
def slice_instead_of_gathering_neighbours(node: Node, graph: Graph) -> Patch | None:
    """A Gather of one constant index, or of consecutive ones, is a Slice, and a Reshape or Squeeze: views."""
    x, indices = node.inputs[0], constant_of(node.inputs[1])
    if x is None or x.shape is None or indices is None or indices.ndim > 1 or indices.size == 0:
        return None
    axis = normal_axes([node.attrs.get("axis", 0)], len(x.shape))[0]
    size = x.shape[axis]
    if not isinstance(size, int) or (len(x.shape) == 1 and x.dtype.numpy.kind in "iu"):
        return None  # shape arithmetic is left to folding
    first = [int(index) + size if index < 0 else int(index) for index in indices.reshape(-1)]
    if first != list(range(first[0], first[0] + len(first))) or not 0 <= first[0] <= first[-1] < size:
        return None
    patch = Patch(graph, node)
    shape = (*x.shape[:axis], len(first), *x.shape[axis + 1 :])
    part = add_slice(patch, x, {axis: (first[0], first[-1] + 1, 1)}, TensorType(x.dtype, shape))
    if indices.ndim == 1:
        return patch.replace(part)
    result = add_reshape(patch, part, node.output.type)
    if result is None:
        axes = patch.constant(f"{node.output.name}.axes", np.array([axis], np.int64))
        result = patch.add("Squeeze", [part, axes], {}, node.output.type)
    return patch.replace(result)
