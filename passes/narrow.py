"""Only the rows that are read: a Slice moves in front of what makes its operand, as far up as rows do not mix.

A classifier reads one token of its last layer, yet exporters compute that layer for all of them. Queries, the products
behind them, normalisation and all elementwise operators then work on what the Slice picks; keys and values stay whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import Dim, Graph, Node, TensorType, Value, product
from mcpc.ops.context import same
from mcpc.ops.shape import permutation
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import Patch, control_flow_graphs, remove_dead, substitute

from .rules.shapes import add_reshape
from .rules.slices import add_slice, ranges


@dataclass(frozen=True)
class Cut:
    """Indices ``start`` ... ``end``-1 of an axis of known size."""

    axis: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Narrow(Pass):
    """Moves Slices up that leave at most half of an axis and are all that reads a value."""

    name: ClassVar[str] = "narrow"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                for node in reversed(list(inner.nodes)):
                    _narrow(node, inner, ctx)
        return graph


def _narrow(node: Node, graph: Graph, ctx: PassContext) -> None:
    cut = _only_cut(node, graph)
    axes = _operand_axes(node, cut.axis) if cut is not None else None
    if cut is None or axes is None:
        return
    slices = list(dict.fromkeys(node.output.users))
    patch = Patch(graph, slices[0])
    operands = [_part(patch, value, axis, cut) for value, axis in zip(node.inputs, axes, strict=True)]
    dims = list(node.output.type.dims)
    dims[cut.axis] = cut.size
    type = TensorType(node.output.dtype, tuple(dims))
    if node.is_op("Reshape"):
        assert operands[0] is not None
        result = add_reshape(patch, operands[0], type)
        if result is None:
            return
    else:
        result = patch.add(node.op, operands, dict(node.attrs), type)
    patch.replace(result).nodes[-1].name = node.name
    ctx.decide(node, "narrow", f"only {cut.size} of axis {cut.axis} are read", elements=float(cut.size))
    graph.insert_before(node, patch.nodes)
    for index, each in enumerate(slices):
        substitute(graph, each.output, result, rename=index == 0)
    remove_dead(graph, slices)


def _only_cut(node: Node, graph: Graph) -> Cut | None:
    """What is read of a node's only output, where Slices read it and all pick the same."""
    if len(node.outputs) != 1 or node.domain or node.bodies or node.outputs[0] is None:
        return None
    value = node.output
    if value.shape is None or len(value.shape) < 2 or not value.users or graph.is_output(value):
        return None
    if not all(graph.owns(user) and user.is_op("Slice") and user.inputs[0] is value for user in value.users):
        return None
    chosen = [ranges(user) for user in value.users]
    if chosen[0] is None or len(chosen[0]) != 1 or any(each != chosen[0] for each in chosen):
        return None
    ((axis, (start, end, step)),) = chosen[0].items()
    size = value.shape[axis]
    if step != 1 or not isinstance(size, int):
        return None
    picked = range(size)[start:end]
    return Cut(axis, picked.start, picked.stop) if 0 < 2 * len(picked) <= size else None


def _part(patch: Patch, value: Value | None, axis: int | None, cut: Cut) -> Value | None:
    """What the narrowed operator reads of an operand; all of it where ``axis`` is None."""
    if value is None or axis is None:
        return value
    if value.data is not None:
        data = value.data[(slice(None),) * axis + (slice(cut.start, cut.end),)]
        return patch.constant(value.name, np.ascontiguousarray(data))
    for node in patch.nodes:
        if node.is_op("Slice") and node.inputs[0] is value:
            return node.output
    dims = list(value.type.dims)
    dims[axis] = cut.size
    part = add_slice(patch, value, {axis: (cut.start, cut.end, 1)}, TensorType(value.dtype, tuple(dims)))
    part.name = patch.nodes[-1].name = patch.graph.fresh(f"{value.name}.part")
    return part


# ---- which axis of each operand is that of the result; None where an operand is read as a whole

Axes = list[int | None]


def _operand_axes(node: Node, axis: int) -> Axes | None:
    """None where an element of the result takes other rows than its own."""
    if any(value is not None and value.shape is None for value in node.inputs):
        return None
    if ops.is_elementwise(node):
        return [_broadcast(value, node.output, axis) for value in node.inputs]
    find = _OPERATORS.get(node.op)
    return find(node, axis) if find is not None else None


def _broadcast(value: Value | None, result: Value, axis: int) -> int | None:
    """The axis of an operand that broadcasts to ``result``, if it has one that is not 1."""
    if value is None:
        return None
    own = axis - (len(result.type.dims) - len(value.type.dims))
    return own if own >= 0 and value.type.dims[own] != 1 else None


def _matmul(node: Node, axis: int) -> Axes | None:
    a, b = node.inputs
    assert a is not None and b is not None
    rank = len(node.output.type.dims)
    if axis == rank - 1 or len(a.type.dims) < 2 or len(b.type.dims) < 2:
        return None
    return [_broadcast(a, node.output, axis), None if axis == rank - 2 else _broadcast(b, node.output, axis)]


def _gemm(node: Node, axis: int) -> Axes | None:
    if axis != 0 or node.attrs.get("transA", 0):
        return None
    return [0, None, *(_broadcast(value, node.output, 0) for value in node.inputs[2:])]


def _normalization(node: Node, axis: int) -> Axes | None:
    dims = node.output.type.dims
    behind = len(dims) - 1 - axis
    if axis >= int(node.attrs.get("axis", -1)) % len(dims):
        return None
    has_rows = any(value is not None and len(value.type.dims) > behind for value in node.inputs[1:])
    return None if has_rows else [axis, *(None for _ in node.inputs[1:])]


def _softmax(node: Node, axis: int) -> Axes | None:
    return [axis] if axis != int(node.attrs.get("axis", -1)) % len(node.output.type.dims) else None


def _transpose(node: Node, axis: int) -> Axes | None:
    return [permutation(node)[axis]]


def _reshape(node: Node, axis: int) -> Axes | None:
    """The axis with as many elements before it and the same size."""
    x, shape = node.inputs
    assert x is not None and shape is not None
    dims = node.output.type.dims
    before: Dim = product(dims[:axis])
    for own, size in enumerate(x.type.dims):
        if same(size, dims[axis]) and same(product(x.type.dims[:own]), before):
            return [own, None]
    return None


_OPERATORS: dict[str, Callable[[Node, int], Axes | None]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "LayerNormalization": _normalization,
    "RMSNormalization": _normalization,
    "Softmax": _softmax,
    "Transpose": _transpose,
    "Reshape": _reshape,
}
