"""Constant scales and shifts per channel move into the weights and bias of the linear operator before them.

New weights are computed in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.ir import Graph, Node, Value
from mcpc.ops.context import number
from mcpc.rewrite import Patch, constant_of, made_by, only_user, rule, uses_first_output_only

from .shapes import same_type

Array = np.ndarray[Any, Any]

#: Weights that others read too are copied only up to this many bytes: a rewrite must not grow the file.
_COPY_LIMIT = 1024

#: Operators y = W x + b with one output channel per row of W.
LINEAR = ("Conv", "ConvTranspose", "Gemm")


@dataclass(frozen=True)
class _Linear:
    """A linear operator with constant weights. ``channels`` is the length of ``channel_axis`` of its output."""

    node: Node
    weights: Array
    bias: Array | None
    channels: int
    channel_axis: int


def _linear(value: Value | None, graph: Graph, *operators: str) -> _Linear | None:
    """The linear operator that makes ``value`` for one reader, where its weights and bias may be replaced."""
    node = made_by(value, *operators)
    if node is None or not only_user(node.output, graph) or node.output.type.rank is None:
        return None
    stored, bias = node.input(1), constant_of(node.input(2))
    weights = constant_of(stored)
    if stored is None or weights is None or not stored.dtype.is_float or (node.input(2) is not None and bias is None):
        return None
    if len(stored.users) > 1 and weights.nbytes > _COPY_LIMIT:
        return None
    rank = node.output.type.rank
    if node.is_op("Conv"):
        return _Linear(node, weights, bias, weights.shape[0], 1)
    if node.is_op("ConvTranspose"):
        return _Linear(node, weights, bias, weights.shape[1] * node.attrs.get("group", 1), 1)
    if weights.ndim != 2 or (bias is not None and bias.ndim == 2 and bias.shape[0] != 1):
        return None
    return _Linear(node, weights, bias, weights.shape[0 if node.attrs.get("transB", 0) else 1], rank - 1)


def _per_channel(operand: Array, linear: _Linear) -> Array | None:
    """``operand`` as one number per channel; None where it varies along another axis."""
    rank = linear.node.output.type.rank
    if rank is None or operand.ndim > rank:
        return None
    shape = (1,) * (rank - operand.ndim) + operand.shape
    if any(size != 1 for axis, size in enumerate(shape) if axis != linear.channel_axis):
        return None
    if shape[linear.channel_axis] not in (1, linear.channels):
        return None
    return np.broadcast_to(operand.astype(np.float64).reshape(-1), (linear.channels,))


def _rescaled(node: Node, graph: Graph, linear: _Linear, scale: Array, shift: Array) -> Patch | None:
    """``node``, which computes scale * y + shift of the linear operator's y, as that operator with other constants."""
    op, old = linear.node, linear.weights
    attrs = dict(op.attrs)
    bias = np.zeros(linear.channels) if linear.bias is None else linear.bias.astype(np.float64).reshape(-1)
    if op.is_op("Gemm"):
        bias = bias * attrs.pop("beta", 1.0)
    new_bias = (bias * scale + shift).astype(old.dtype)
    new_weights = (old.astype(np.float64) * _along_channels(op, old, scale)).astype(old.dtype)
    if not (np.isfinite(new_weights.astype(np.float32)).all() and np.isfinite(new_bias.astype(np.float32)).all()):
        return None
    patch = Patch(graph, node)
    assert op.inputs[1] is not None
    weights = op.inputs[1] if (scale == 1).all() else patch.constant(op.inputs[1].name, new_weights)
    inputs: list[Value | None] = [op.inputs[0], weights]
    if not op.is_op("MatMul"):
        stored = op.input(2)
        inputs.append(patch.constant(stored.name if stored is not None else f"{op.output.name}.bias", new_bias))
    return patch.replace(patch.add(op.op, inputs, attrs, node.output.type))


def _along_channels(op: Node, weights: Array, scale: Array) -> Array:
    """``scale`` in a shape that multiplies ``weights`` by output channel."""
    if op.is_op("Conv"):
        return scale.reshape(-1, *[1] * (weights.ndim - 1))
    if op.is_op("ConvTranspose"):  # weights are [in, out / group, ...], the inputs of one group after another's
        group = op.attrs.get("group", 1)
        per_group = np.repeat(scale.reshape(group, -1), weights.shape[0] // group, axis=0)
        return per_group.reshape(*per_group.shape, *[1] * (weights.ndim - 2))
    return scale.reshape(-1, 1) if op.attrs.get("transB", 0) else scale.reshape(1, -1)


@rule("BatchNormalization")
def fold_batch_normalization(node: Node, graph: Graph) -> Patch | None:
    affine = _batch_affine(node, graph)
    linear = _linear(node.inputs[0], graph, *LINEAR)
    if affine is None or linear is None:
        return None
    return _rescaled(node, graph, linear, *affine)


@rule("BatchNormalization")
def split_batch_normalization(node: Node, graph: Graph) -> Patch | None:
    """One without a linear operator before it becomes Mul and Add, which fuse with what is around."""
    affine, x = _batch_affine(node, graph), node.inputs[0]
    if affine is None or x is None or x.type.rank is None:
        return None
    patch = Patch(graph, node)
    shape = (-1, *[1] * (x.type.rank - 2))
    scale, shift = (part.astype(x.dtype.numpy).reshape(shape) for part in affine)
    name = node.output.name
    scaled = patch.add("Mul", [x, patch.constant(f"{name}.scale", scale)], {}, node.output.type)
    return patch.replace(patch.add("Add", [scaled, patch.constant(f"{name}.shift", shift)], {}, node.output.type))


def _batch_affine(node: Node, graph: Graph) -> tuple[Array, Array] | None:
    """(scale, shift) per channel of a BatchNormalization in inference mode, in float64."""
    constants = [constant_of(node.input(index)) for index in range(1, 5)]
    known = [array.astype(np.float64) for array in constants if array is not None]
    if len(known) < 4 or node.attrs.get("training_mode", 0) or not uses_first_output_only(node, graph):
        return None
    scale, bias, mean, variance = known
    scale = scale / np.sqrt(variance + number(node, "epsilon", 1e-5))
    return scale, bias - mean * scale


@rule("Add", "Sub")
def fold_constant_into_bias(node: Node, graph: Graph) -> Patch | None:
    """Conv, ConvTranspose or Gemm, then + or - a constant per channel."""
    for x, operand in (node.inputs, node.inputs[::-1]) if node.is_op("Add") else (node.inputs,):
        data, linear = constant_of(operand), _linear(x, graph, *LINEAR)
        shift = _per_channel(data, linear) if data is not None and linear is not None else None
        if shift is not None and linear is not None:
            return _rescaled(node, graph, linear, np.ones(linear.channels), -shift if node.is_op("Sub") else shift)
    return None


@rule("Mul", "Div")
def fold_constant_into_weights(node: Node, graph: Graph) -> Patch | None:
    """A linear operator, then * or / a constant per channel."""
    for x, operand in (node.inputs, node.inputs[::-1]) if node.is_op("Mul") else (node.inputs,):
        data, linear = constant_of(operand), _linear(x, graph, *LINEAR, "MatMul")
        scale = _per_channel(data, linear) if data is not None and linear is not None else None
        if scale is None or linear is None:
            continue
        with np.errstate(divide="ignore"):
            scale = 1 / scale if node.is_op("Div") else scale
        if np.isfinite(scale).all():
            return _rescaled(node, graph, linear, scale, np.zeros(linear.channels))
    return None


@rule("Add")
def merge_matmul_and_add(node: Node, graph: Graph) -> Patch | None:
    """MatMul of two matrices, then + a constant per column, is a Gemm."""
    for x, operand in (node.inputs, node.inputs[::-1]):
        product, data = made_by(x, "MatMul"), constant_of(operand)
        if product is None or operand is None or data is None or not only_user(product.output, graph):
            continue
        is_matrix = all(side is not None and side.type.rank == 2 for side in product.inputs)
        is_row = data.ndim <= 1 or (data.ndim == 2 and data.shape[0] == 1)
        if is_matrix and is_row and operand.dtype.is_float and same_type(product.output, node.output):
            patch = Patch(graph, node)
            return patch.replace(patch.add("Gemm", [*product.inputs, operand], {}, node.output.type))
    return None


@rule("Add", "Mul")
def merge_constants(node: Node, graph: Graph) -> Patch | None:
    """(x + a) + b is x + (a + b), (x * a) * b is x * (a * b), (x / a) * b is x * (b / a), for constants of which none
    grows."""
    for x, outer in (node.inputs, node.inputs[::-1]):
        first, b = made_by(x, *(("Add",) if node.is_op("Add") else ("Mul", "Div"))), constant_of(outer)
        if first is None or b is None or not node.output.dtype.is_float or not only_user(first.output, graph):
            continue
        is_ratio = first.is_op("Div")
        for source, inner in (first.inputs, first.inputs[::-1])[: 1 if is_ratio else 2]:
            a = constant_of(inner)
            if source is None or inner is None or a is None or source.is_constant or (is_ratio and not a.all()):
                continue
            wide = (a.astype(np.float64), b.astype(np.float64))
            combine = np.add if node.is_op("Add") else np.multiply
            combined = (wide[1] / wide[0] if is_ratio else combine(*wide)).astype(a.dtype)
            if combined.size > max(a.size, b.size) or not np.isfinite(combined.astype(np.float32)).all():
                continue
            patch = Patch(graph, node)
            inputs = [source, patch.constant(inner.name, combined)]
            return patch.replace(patch.add(node.op, inputs, {}, node.output.type))
    return None
