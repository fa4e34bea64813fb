"""Concats of what was one tensor already, or of what other Concats join."""

from __future__ import annotations

from mcpc.ir import Graph, Node, Value
from mcpc.rewrite import Patch, made_by, only_user, rule

from .shapes import normal_axes


@rule("Concat")
def merge_concats(node: Node, graph: Graph) -> Patch | None:
    """A Concat that only another one along the same axis reads joins its parts there."""
    parts: list[Value | None] = []
    for value in node.inputs:
        inner = made_by(value, "Concat")
        is_taken = inner is not None and only_user(inner.output, graph) and _axis(inner) == _axis(node)
        parts += inner.inputs if inner is not None and is_taken else [value]
    if len(parts) == len(node.inputs) or _axis(node) is None:
        return None
    patch = Patch(graph, node)
    return patch.replace(patch.add("Concat", parts, dict(node.attrs), node.output.type))


@rule("Concat")
def join_split_parts(node: Node, graph: Graph) -> Patch | None:
    """All parts of a Split, side by side in their order along its axis, are the tensor that it cuts."""
    parts: list[Value | None] = []
    at = 0
    while at < len(node.inputs):
        split = made_by(node.inputs[at], "Split")
        here = node.inputs[at : at + len(split.outputs)] if split is not None else ()
        if split is not None and here == split.outputs and _axis(split, 0) == _axis(node):
            parts.append(split.inputs[0])
            at += len(here)
        else:
            parts.append(node.inputs[at])
            at += 1
    if len(parts) == len(node.inputs) or _axis(node) is None:
        return None
    patch = Patch(graph, node)
    return patch.replace(patch.add("Concat", parts, dict(node.attrs), node.output.type))


def _axis(node: Node, default: int | None = None) -> int | None:
    """The axis that ``node`` works along, counted from the front; None where its rank is not known."""
    rank = node.output.type.rank
    axis = node.attrs.get("axis", default)
    return None if rank is None or axis is None else normal_axes([axis], rank)[0]
