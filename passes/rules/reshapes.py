"""Reshape, Flatten, Squeeze and Unsqueeze: the canonical form is one Reshape with a constant shape."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Graph, Node, Value
from mcpc.rewrite import Patch, bypass, constant_of, made_by, rule

from .shapes import add_reshape, reshape_spec, same_dims

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@rule(*RESHAPES)
def merge_reshapes(node: Node, graph: Graph) -> Patch | None:
    """A chain becomes one Reshape, or nothing. This also frees a Reshape of the arithmetic that computes its shape."""
    x = node.inputs[0]
    assert x is not None
    first = made_by(x, *RESHAPES)
    while first is not None and first.inputs[0] is not None:
        x = first.inputs[0]
        first = made_by(x, *RESHAPES)
    unchanged = bypass(node, graph, x) if same_dims(x.shape, node.output.shape) else None
    return (
        unchanged
        or _canonical(node, graph, x)
        or (None if x is node.inputs[0] else _canonical(node, graph, node.inputs[0]))
    )


@rule("Reshape")
def softmax_without_flattening(node: Node, graph: Graph) -> Patch | None:
    """A Softmax over the last axis needs no matrix: opsets before 13 made one of every tensor."""
    softmax = made_by(node.inputs[0], "Softmax", "LogSoftmax")
    flatten = made_by(softmax.inputs[0], *RESHAPES) if softmax is not None else None
    x = flatten.inputs[0] if flatten is not None else None
    if softmax is None or x is None or not same_dims(x.shape, node.output.shape) or not x.shape:
        return None
    flat = softmax.output.shape
    if not flat or softmax.attrs.get("axis", -1) not in (-1, len(flat) - 1) or not same_dims(flat[-1:], x.shape[-1:]):
        return None
    patch = Patch(graph, node)
    return patch.replace(patch.add(softmax.op, [x], {"axis": -1}, node.output.type))


def _canonical(node: Node, graph: Graph, x: Value | None) -> Patch | None:
    """One Reshape from ``x``, unless that is what ``node`` is."""
    if x is None or x.shape is None or node.output.shape is None:
        return None
    if x is node.inputs[0]:
        shape, spec = constant_of(node.input(1)), reshape_spec(x.shape, node.output.shape)
        if node.is_op("Reshape") and shape is not None and (spec is None or _equivalent(node, shape, spec)):
            return None
        # "Copy these, infer that" cannot be computed where a copied size is 0; Squeeze and its like can.
        if not node.is_op("Reshape") and spec is not None and {0, -1} <= set(spec):
            return None
    patch = Patch(graph, node)
    result = add_reshape(patch, x, node.output.type)
    return patch.replace(result) if result is not None else None


def _equivalent(node: Node, shape: np.ndarray[tuple[int, ...], np.dtype[np.int64]], spec: list[int]) -> bool:
    return shape.tolist() == spec and not (node.attrs.get("allowzero", 0) and 0 not in spec)
