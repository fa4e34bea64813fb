"""Arithmetic in the form that is cheapest: powers, bounds, means over images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcpc.ir import Graph, Node, TensorType, Value
from mcpc.rewrite import Patch, only_user, rule

from .shapes import add_reshape, constant_scalar, reduced_axes, same_type


@rule("Pow")
def replace_power(node: Node, graph: Graph) -> Patch | None:
    """x ** 2, 3, 0.5 or -1 without a logarithm."""
    x, exponent = node.inputs[0], constant_scalar(node.inputs[1])
    if x is None or exponent not in _POWERS or not same_type(x, node.output):
        return None
    if exponent in (0.5, -1.0) and not x.dtype.is_float:
        return None
    patch = Patch(graph, node)
    return patch.replace(_POWERS[exponent](patch, x, node.output.type))


_POWERS: dict[float | None, Callable[[Patch, Value, TensorType], Value]] = {
    2.0: lambda patch, x, type: patch.add("Mul", [x, x], {}, type),
    3.0: lambda patch, x, type: patch.add("Mul", [patch.add("Mul", [x, x], {}, type), x], {}, type),
    0.5: lambda patch, x, type: patch.add("Sqrt", [x], {}, type),
    -1.0: lambda patch, x, type: patch.add("Reciprocal", [x], {}, type),
}

_BOUNDING = ("Clip", "Relu", "Max", "Min")
Bounds = tuple[Value, float, float]


@rule(*_BOUNDING)
def merge_bounds(node: Node, graph: Graph) -> Patch | None:
    """Min, Max, Relu and Clip by scalars, one or several in a row, become one Relu or Clip."""
    outer = _bounds(node)
    if outer is None or not node.output.dtype.is_float:
        return None
    x, low, high = outer
    inner = _bounds(x.producer) if x.producer is not None and only_user(x, graph) else None
    if inner is not None and inner[1] <= inner[2] and low <= high:
        x = inner[0]
        low, high = min(max(inner[1], low), high), min(max(inner[2], low), high)
    elif node.is_op("Relu") or (node.is_op("Clip") and (low != 0 or high != np.inf)):
        return None
    patch = Patch(graph, node)
    if low == 0 and high == np.inf:
        return patch.replace(patch.add("Relu", [x], {}, node.output.type))
    bounds: list[Value | None] = [
        patch.constant(f"{node.output.name}.{name}", np.array(bound, x.dtype.numpy)) if np.isfinite(bound) else None
        for name, bound in (("min", low), ("max", high))
    ]
    return patch.replace(patch.add("Clip", [x, *bounds], {}, node.output.type))


def _bounds(node: Node) -> Bounds | None:
    """(x, smallest, largest) where ``node`` bounds x by scalars."""
    if not node.is_op(*_BOUNDING):
        return None
    if node.is_op("Max", "Min") and len(node.inputs) == 2:
        for x, bound in (node.inputs, node.inputs[::-1]):
            limit = constant_scalar(bound)
            if x is not None and limit is not None and not np.isnan(limit) and same_type(x, node.output):
                return (x, limit, np.inf) if node.is_op("Max") else (x, -np.inf, limit)
    x = node.inputs[0]
    if x is None or node.is_op("Max", "Min"):
        return None
    if node.is_op("Relu"):
        return x, 0.0, np.inf
    low, high = constant_scalar(node.input(1)), constant_scalar(node.input(2))
    if any(bound is None and node.input(index) is not None for index, bound in ((1, low), (2, high))):
        return None
    if any(bound is not None and np.isnan(bound) for bound in (low, high)):
        return None
    return x, -np.inf if low is None else low, np.inf if high is None else high


@rule("ReduceMean")
def pool_instead_of_reducing(node: Node, graph: Graph) -> Patch | None:
    """The canonical mean over an image or volume is GlobalAveragePool (and a Reshape without keepdims)."""
    x, axes = node.inputs[0], reduced_axes(node)
    if x is None or x.shape is None or axes is None or len(x.shape) not in (4, 5) or not x.dtype.is_float:
        return None
    if sorted(axes) != list(range(2, len(x.shape))):
        return None
    patch = Patch(graph, node)
    pooled_type = TensorType(x.dtype, (*x.shape[:2], *[1] * (len(x.shape) - 2)))
    pooled = patch.add("GlobalAveragePool", [x], {}, pooled_type)
    result = pooled if node.attrs.get("keepdims", 1) else add_reshape(patch, pooled, node.output.type)
    return patch.replace(result) if result is not None else None


@rule("AveragePool")
def pool_globally(node: Node, graph: Graph) -> Patch | None:
    """An AveragePool whose one window is the whole image."""
    x = node.inputs[0]
    if x is None or x.shape is None or node.output.shape is None or any(node.attrs.get("pads", [])):
        return None
    dilated = any(step != 1 for step in node.attrs.get("dilations", []))
    auto_pad = node.attrs.get("auto_pad", "NOTSET") in ("NOTSET", "VALID", b"NOTSET", b"VALID")
    if dilated or not auto_pad or list(x.shape[2:]) != list(node.attrs["kernel_shape"]):
        return None
    patch = Patch(graph, node)
    return patch.replace(patch.add("GlobalAveragePool", [x], {}, node.output.type))
