"""LayerNormalization and RMSNormalization out of the operators that exporters write for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mcpc.halves import HALVES
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.rewrite import Patch, constant_of, made_by, only_user, rule

from .shapes import constant_scalar, reduced_axes, same_dims, same_type


@rule("Div", "Mul")
def normalize_in_one(node: Node, graph: Graph) -> Patch | None:
    """c / sqrt(mean(c²) + epsilon), in all its spellings, over the last axes: LayerNormalization of x where c is
    x - mean(x), RMSNormalization of c elsewhere."""
    for c, square in _quotients(node):
        for power, axis, epsilon in _mean_squares(square):
            x = _centred(c, power, axis)
            if not same_type(c, node.output) or (x is None and c is not power):
                continue
            patch = Patch(graph, node)
            op, source = ("RMSNormalization", c) if x is None else ("LayerNormalization", x)
            result = _add_normalization(patch, op, source, axis, epsilon)
            if result is not None:
                return patch.replace(result)
    return None


@rule("Add")
def normalize_in_the_form_of_batches(node: Node, graph: Graph) -> Patch | None:
    """x m + (beta - mean(x) m) with m = gamma / sqrt(variance + epsilon), as Keras has it, is LayerNormalization."""
    for scaled, shift in (node.inputs, node.inputs[::-1]):
        product, rest = made_by(scaled, "Mul"), made_by(shift, "Sub")
        lost = made_by(rest.inputs[1], "Mul") if rest is not None else None
        if product is None or rest is None or lost is None:
            continue
        for x, m in (product.inputs, product.inputs[::-1]):
            mean = next((each for each in lost.inputs if each is not m), None)
            averaged = made_by(mean, "ReduceMean")
            if x is None or m is None or m not in lost.inputs or averaged is None or averaged.inputs[0] is not x:
                continue
            for factor, gamma in _factors(m):
                square = _inverse_root(factor)
                for power, axis, epsilon in _mean_squares(square) if square is not None else ():
                    if _centred(power, power, axis) is not x or _last_axes(averaged) != axis:
                        continue
                    patch = Patch(graph, node)
                    result = _add_normalization(patch, "LayerNormalization", x, axis, epsilon)
                    if result is None or rest.inputs[0] is None or not same_type(x, node.output):
                        continue
                    for op, operand in (("Mul", gamma), ("Add", rest.inputs[0])):
                        result = result if operand is None else patch.add(op, [result, operand], {}, node.output.type)
                    return patch.replace(result)
    return None


def _add_normalization(patch: Patch, op: str, x: Value, axis: int, epsilon: float) -> Value | None:
    """Add a normalisation of ``x`` from ``axis`` on without scale and bias; None where these would have no shape."""
    normalized = x.type.dims[axis:]
    if x.dtype not in (DType.float32, *HALVES) or not all(isinstance(size, int) for size in normalized):
        return None
    ones = np.ones([int(size) for size in normalized], x.dtype.numpy)
    scale = patch.constant(f"{patch.root.output.name}.scale", ones)
    attrs = {"axis": axis - len(x.type.dims), "epsilon": epsilon}
    return patch.add(op, [x, scale], attrs, TensorType(x.dtype, x.shape))


@rule("Mul")
def scale_in_normalization(node: Node, graph: Graph) -> Patch | None:
    """A factor behind a normalisation that has none becomes its scale."""
    for value, factor in (node.inputs, node.inputs[::-1]):
        norm = _normalization(value, graph)
        if norm is None or norm.input(2) is not None or not same_type(norm.output, node.output):
            continue
        scale = constant_of(norm.inputs[1])
        patch = Patch(graph, node)
        operand = _parameter(patch, norm, factor)
        if operand is not None and scale is not None and (scale == 1).all():
            return patch.replace(patch.add(norm.op, [norm.inputs[0], operand], dict(norm.attrs), node.output.type))
    return None


@rule("Add")
def shift_in_normalization(node: Node, graph: Graph) -> Patch | None:
    """What is added behind a LayerNormalization without bias becomes its bias."""
    for value, addend in (node.inputs, node.inputs[::-1]):
        norm = _normalization(value, graph)
        if norm is None or norm.op != "LayerNormalization" or norm.input(2) is not None:
            continue
        patch = Patch(graph, node)
        operand = _parameter(patch, norm, addend)
        if operand is not None and same_type(norm.output, node.output):
            inputs = [*norm.inputs[:2], operand]
            return patch.replace(patch.add(norm.op, inputs, dict(norm.attrs), node.output.type))
    return None


# ---- the parts


def _quotients(node: Node) -> Iterator[tuple[Value, Value]]:
    """(c, v) where the node computes c / sqrt(v)."""
    left, right = node.inputs
    assert left is not None and right is not None
    if node.is_op("Div"):
        if (root := _root(right)) is not None:
            yield left, root
        return
    for c, factor in ((left, right), (right, left)):
        if (root := _inverse_root(factor)) is not None:
            yield c, root


def _root(value: Value) -> Value | None:
    """v where ``value`` is sqrt(v)."""
    if (sqrt := made_by(value, "Sqrt")) is not None:
        return sqrt.inputs[0]
    power = made_by(value, "Pow")
    return power.inputs[0] if power is not None and constant_scalar(power.inputs[1]) == 0.5 else None


def _inverse_root(value: Value) -> Value | None:
    """v where ``value`` is 1 / sqrt(v)."""
    node = made_by(value, "Reciprocal", "Div", "Pow", "Sqrt")
    if node is None or node.inputs[0] is None:
        return None
    if node.is_op("Reciprocal"):
        return _root(node.inputs[0])
    if node.is_op("Div"):
        is_inverse = constant_scalar(node.inputs[0]) == 1.0 and node.inputs[1] is not None
        return _root(node.inputs[1]) if is_inverse and node.inputs[1] is not None else None
    if node.is_op("Pow"):
        return node.inputs[0] if constant_scalar(node.inputs[1]) == -0.5 else None
    inverse = made_by(node.inputs[0], "Reciprocal")
    return inverse.inputs[0] if inverse is not None else None


def _operand_and_scalar(value: Value) -> Iterator[tuple[Value, float]]:
    """(u, e) where ``value`` is u + e."""
    node = made_by(value, "Add")
    if node is not None:
        for operand, other in (node.inputs, node.inputs[::-1]):
            number = constant_scalar(other)
            if operand is not None and number is not None:
                yield operand, number


def _mean_squares(value: Value) -> Iterator[tuple[Value, int, float]]:
    """(c, axis, e) where ``value`` is mean(c²) + e, the mean being over the axes from ``axis`` on."""
    for mean, epsilon in _operand_and_scalar(value):
        squares = made_by(mean, "ReduceMean")
        power = _squared(squares.inputs[0]) if squares is not None else None
        axis = _last_axes(squares) if squares is not None else None
        if power is not None and axis is not None:
            yield power, axis, epsilon


def _factors(value: Value) -> Iterator[tuple[Value, Value | None]]:
    """(a, b) where ``value`` is a b; b is None for 1."""
    yield value, None
    node = made_by(value, "Mul")
    if node is not None:
        for a, b in (node.inputs, node.inputs[::-1]):
            if a is not None:
                yield a, b


def _squared(value: Value | None) -> Value | None:
    """c where ``value`` is c²."""
    node = made_by(value, "Mul", "Pow")
    if node is None:
        return None
    is_square = node.inputs[0] is node.inputs[1] if node.is_op("Mul") else constant_scalar(node.inputs[1]) == 2.0
    return node.inputs[0] if is_square else None


def _last_axes(reduction: Node) -> int | None:
    """The first axis of a reduction that runs over this and all further axes, and keeps them."""
    x, axes = reduction.inputs[0], reduced_axes(reduction)
    if not axes or x is None or x.type.rank is None or not reduction.attrs.get("keepdims", 1):
        return None
    return min(axes) if sorted(axes) == list(range(min(axes), x.type.rank)) else None


def _centred(c: Value, other: Value, axis: int) -> Value | None:
    """x where both values are x - mean(x), the mean being over the axes from ``axis`` on."""
    sources = []
    for value in (c, other):
        difference = made_by(value, "Sub")
        mean = made_by(difference.inputs[1], "ReduceMean") if difference is not None else None
        if difference is None or mean is None or mean.inputs[0] is not difference.inputs[0] or _last_axes(mean) != axis:
            return None
        sources.append(difference.inputs[0])
    return sources[0] if sources[0] is sources[1] else None


def _normalization(value: Value | None, graph: Graph) -> Node | None:
    """The normalisation that makes ``value`` for one reader, and nothing else."""
    node = made_by(value, "LayerNormalization", "RMSNormalization")
    if node is None or not only_user(node.output, graph) or any(output is not None for output in node.outputs[1:]):
        return None
    return node


def _parameter(patch: Patch, norm: Node, value: Value | None) -> Value | None:
    """``value`` as a normalisation's scale or bias: a tensor of the normalised shape; None where it is not that."""
    x = norm.inputs[0]
    if value is None or x is None or value.shape is None or value.dtype is not norm.output.dtype:
        return None
    normalized = x.type.dims[int(norm.attrs.get("axis", -1)) % len(x.type.dims) :]
    if same_dims(value.shape, normalized):
        return value
    data, rank = constant_of(value), len(normalized)
    if data is None or any(size != 1 for size in data.shape[:-rank]):
        return None
    if not all(size in (1, full) for size, full in zip(data.shape[-rank:][::-1], normalized[::-1], strict=False)):
        return None
    trimmed = data.reshape(data.shape[-rank:])
    return patch.constant(
        value.name, np.ascontiguousarray(np.broadcast_to(trimmed, [int(size) for size in normalized]))
    )
