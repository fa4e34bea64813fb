"""What several themes ask about shapes and constant operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcpc.ir import Dim, Node, TensorType, Value, is_static
from mcpc.ops.context import same
from mcpc.rewrite import Patch, constant_of


def same_dims(a: Sequence[Dim] | None, b: Sequence[Dim] | None) -> bool:
    """Whether two shapes are known to be equal."""
    return a is not None and b is not None and len(a) == len(b) and all(map(same, a, b))


def same_type(a: Value, b: Value) -> bool:
    return a.dtype is b.dtype and same_dims(a.shape, b.shape)


def constant_ints(value: Value | None) -> list[int] | None:
    """The elements of a constant integer tensor."""
    data = constant_of(value)
    return None if data is None or data.dtype.kind not in "iu" else [int(item) for item in data.reshape(-1)]


def constant_scalar(value: Value | None) -> float | None:
    """The element of a constant that has just one."""
    data = constant_of(value)
    return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


def normal_axes(axes: Sequence[int], rank: int) -> list[int]:
    return [axis + rank if axis < 0 else axis for axis in axes]


def reduced_axes(node: Node) -> list[int] | None:
    """The axes that a reduction runs over; None where they, or the rank, are not known."""
    x = node.inputs[0]
    if x is None or x.type.rank is None:
        return None
    if node.input(1) is None:
        return [] if node.attrs.get("noop_with_empty_axes", 0) else list(range(x.type.rank))
    axes = constant_ints(node.input(1))
    if axes is None:
        return None
    if not axes:
        return [] if node.attrs.get("noop_with_empty_axes", 0) else list(range(x.type.rank))
    return normal_axes(axes, x.type.rank)


def reshape_spec(source: Sequence[Dim], target: Sequence[Dim]) -> list[int] | None:
    """Reshape's constant shape operand from ``source`` to ``target``: 0 copies a symbolic size from the same place, -1
    stands for one other. None where that cannot say it, as for sizes that are 0 beside symbolic ones."""
    if is_static(target):
        return [int(size) for size in target]
    spec: list[int] = []
    for axis, size in enumerate(target):
        if isinstance(size, int):
            spec.append(size)
        else:
            spec.append(0 if axis < len(source) and same(source[axis], size) else -1)
    copies_number = any(size == 0 for size in target if isinstance(size, int))
    return None if copies_number or spec.count(-1) > 1 else spec


def add_reshape(patch: Patch, x: Value, type: TensorType) -> Value | None:
    """Add a Reshape of ``x`` to ``type``; None where a constant shape cannot express it."""
    if x.shape is None or type.shape is None:
        return None
    spec = reshape_spec(x.shape, type.shape)
    if spec is None:
        return None
    attrs = {"allowzero": 1} if is_static(type.shape) and 0 in spec else {}
    shape = patch.constant(f"{patch.root.output.name}.shape", np.array(spec, np.int64))
    return patch.add("Reshape", [x, shape], attrs, type)
