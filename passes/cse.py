"""Common subexpressions and equal constants are kept once."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, remove_dead, substitute

from .purity import is_pure


@dataclass(frozen=True)
class CommonSubexpressions(Pass):
    """Merges equal constants (by content), then nodes with the same operator, operands and attributes, and those that
    compute the same sizes from whichever tensors."""

    name: ClassVar[str] = "cse"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        context = ops.infer_graph(graph)
        for inner in control_flow_graphs(graph):
            with inner.edit():
                _merge_constants(inner)
                _merge_nodes(inner, context)
        return graph


def _merge_constants(graph: Graph) -> None:
    alike: dict[Hashable, list[Value]] = {}
    for value in graph.constants():
        if not graph.is_output(value):
            alike.setdefault((value.type, value.data.nbytes if value.data is not None else 0), []).append(value)
    for group in alike.values():
        if len(group) == 1:
            continue
        first: dict[Hashable, Value] = {}
        for value in group:
            kept = first.setdefault(_content(value.data), value)
            if kept is not value:
                graph.replace_uses(value, kept)


def _merge_nodes(graph: Graph, context: ops.InferContext) -> None:
    first: dict[Hashable, Node] = {}
    for node in list(graph.nodes):
        if not is_pure(node) or node.bodies or node.body is not None:
            continue
        kept = first.setdefault(_sizes(node, context) or _key(node), node)
        if kept is node:
            continue
        for old, new in zip(node.outputs, kept.outputs, strict=True):
            if old is not None and new is not None:
                substitute(graph, old, new, rename=False)
        remove_dead(graph, [node])


def _sizes(node: Node, context: ops.InferContext) -> Hashable:
    """What the node's only output holds, where that follows from the symbols of sizes."""
    contents = context.contents(node.output) if len(node.outputs) == 1 and node.outputs[0] is not None else None
    if contents is None or any(item is None for item in contents.ravel()):
        return None
    return node.output.dtype, contents.shape, tuple(map(str, contents.ravel()))


def _key(node: Node) -> Hashable:
    operands = [None if value is None else id(value) for value in node.inputs]
    while operands and operands[-1] is None:
        operands.pop()
    attributes = tuple((key, _attribute_key(value)) for key, value in sorted(node.attrs.items()))
    present = tuple(value is not None for value in node.outputs)
    return node.domain, node.op, tuple(operands), attributes, present


def _attribute_key(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(_attribute_key(item) for item in value)
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, _content(value)
    # 1 and 1.0 are equal to Python but not to an operator; repr tells -0.0 from 0.0.
    return type(value).__name__, repr(value) if isinstance(value, float | DType) else value


def _content(data: np.ndarray[Any, Any] | None) -> Hashable:
    """Equal for equal bytes; small arrays stand for themselves."""
    assert data is not None
    stored = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return stored.tobytes() if stored.size <= 64 else hashlib.sha256(stored.data).digest()
