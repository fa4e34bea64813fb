"""Products whose result is only read in parts: one product for each part, so that nothing is cut out afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mcpc.errors import ModelError
from mcpc.ir import Graph, Node, TensorType, Value, product
from mcpc.ops.context import InferContext
from mcpc.ops.move import split_sizes
from mcpc.rewrite import Patch, constant_of, only_user, rule

from .shapes import add_reshape, normal_axes, same_dims
from .slices import ranges
from .transposes import permutation

Array = np.ndarray[Any, Any]

#: A product of fewer columns than this is not worth a step of its own.
_LEAST_COLUMNS = 16


@dataclass(frozen=True)
class _Origin:
    """The MatMul or Gemm with constant weights that a tensor is made by; ``way`` are the nodes behind it, the last one
    first, each with the axis of its result that is cut. An index of that axis stands for ``block`` columns."""

    node: Node
    weights: Array
    way: list[tuple[Node, int]]
    block: int


@rule("Slice", "Split")
def multiply_by_part(node: Node, graph: Graph) -> Patch | None:
    """Queries, keys and values that are cut out of one product's result are products by parts of its weights."""
    x, cut = node.inputs[0], _cut(node)
    if x is None or cut is None or graph.is_output(x):
        return None
    axis, parts = cut
    readers = [_cut(user) for user in dict.fromkeys(x.users)]
    spans = sorted(span for reader in readers if reader is not None and reader[0] == axis for span in reader[1])
    if any(reader is None or reader[0] != axis for reader in readers):
        return None
    if any(before[1] > after[0] for before, after in pairwise(spans)):
        return None
    origin = _origin(x, axis, graph)
    if origin is None or any((end - start) * origin.block < _LEAST_COLUMNS for start, end in spans):
        return None
    patch = Patch(graph, node)
    results = [_part(patch, origin, start, end) for start, end in parts]
    if any(result is None for result in results):
        return None
    return patch.replace(*[result for result in results if result is not None])


def _cut(node: Node) -> tuple[int, list[tuple[int, int]]] | None:
    """The axis that a Slice or Split cuts, and (start, end) for each output; None where it does not copy whole runs."""
    x = node.inputs[0]
    if x is None or x.shape is None or any(output is None for output in node.outputs):
        return None
    if node.is_op("Slice"):
        chosen = ranges(node)
        if chosen is None or len(chosen) != 1:
            return None
        ((axis, (start, end, step)),) = chosen.items()
        size = x.shape[axis]
        if step != 1 or not isinstance(size, int):
            return None
        picked = range(size)[start:end]
        return axis, [(picked.start, picked.stop)]
    if not node.is_op("Split"):
        return None
    (axis,) = normal_axes([node.attrs.get("axis", 0)], len(x.shape))
    try:
        sizes = split_sizes(node, InferContext())
    except ModelError:
        return None
    spans: list[tuple[int, int]] = []
    for size in sizes:
        if not isinstance(size, int):
            return None
        start = spans[-1][1] if spans else 0
        spans.append((start, start + size))
    return axis, spans


def _origin(value: Value, axis: int, graph: Graph) -> _Origin | None:
    way: list[tuple[Node, int]] = []
    block = 1
    while True:
        node = value.producer
        if node is None or value.shape is None or (way and not only_user(value, graph)):
            return None
        is_last = axis == len(value.shape) - 1
        weights = constant_of(node.inputs[1]) if node.is_op("MatMul", "Gemm") else None
        if weights is not None and weights.ndim == 2 and is_last:
            return _Origin(node, weights, way, block)
        x = node.inputs[0]
        if x is None or x.shape is None:
            return None
        way.append((node, axis))
        if node.is_op("Transpose"):
            axis = permutation(node)[axis]
        elif node.is_op("Reshape"):
            lead, size = len(x.shape) - 1, product(value.shape[axis + 1 :])
            is_outermost = axis >= lead and product(value.shape[lead:axis]) == 1
            if not is_outermost or not isinstance(size, int) or not same_dims(value.shape[:lead], x.shape[:-1]):
                return None
            block, axis = block * size, lead
        elif node.is_op("Add") and is_last:
            constants = [constant_of(each) for each in node.inputs]
            biases = [each for each in constants if each is not None and each.shape == (value.shape[-1],)]
            if len(biases) != 1:
                return None
            x = next(each for each in node.inputs if each is not None and not each.is_constant)
            if not same_dims(x.shape, value.shape):
                return None
        else:
            return None
        value = x


def _part(patch: Patch, origin: _Origin, start: int, end: int) -> Value | None:
    """Indices ``start`` ... ``end``-1 of the axis that is cut, computed from the product on."""
    node = origin.node
    first, last = start * origin.block, end * origin.block
    is_transposed = node.is_op("Gemm") and node.attrs.get("transB", 0)
    weights = origin.weights[first:last] if is_transposed else origin.weights[:, first:last]
    inputs: list[Value | None] = [node.inputs[0], _constant(patch, node.inputs[1], weights)]
    bias = node.input(2)
    if bias is not None:
        if not bias.is_constant:
            return None
        inputs.append(_columns(patch, bias, first, last))
    type = node.output.type
    result = patch.add(node.op, inputs, dict(node.attrs), TensorType(type.dtype, (*type.dims[:-1], last - first)))
    for step, axis in reversed(origin.way):
        dims = step.output.type.dims
        size = last - first if _is_columns(origin, step) else end - start
        target = TensorType(type.dtype, (*dims[:axis], size, *dims[axis + 1 :]))
        if step.is_op("Reshape"):
            reshaped = add_reshape(patch, result, target)
            if reshaped is None:
                return None
            result = reshaped
        elif step.is_op("Transpose"):
            result = patch.add("Transpose", [result], dict(step.attrs), target)
        else:
            operands = [
                _columns(patch, each, first, last) if each is not None and each.is_constant else result
                for each in step.inputs
            ]
            result = patch.add("Add", operands, {}, target)
    return result


def _is_columns(origin: _Origin, step: Node) -> bool:
    """Whether the axis that is cut in a step's result is still that of the product's columns."""
    nodes = [node for node, _ in origin.way]
    return not any(node.is_op("Reshape") for node in nodes[nodes.index(step) :])


def _columns(patch: Patch, value: Value, first: int, last: int) -> Value:
    """Columns of a constant that has one element for each, or one for all."""
    data = constant_of(value)
    assert data is not None
    return _constant(patch, value, data[..., first:last]) if data.ndim and data.shape[-1] > 1 else value


def _constant(patch: Patch, value: Value | None, data: Array) -> Value:
    assert value is not None
    return patch.constant(value.name, np.ascontiguousarray(data))
