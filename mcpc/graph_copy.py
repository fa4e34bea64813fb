"""A graph again, for passes to change while the first one stays: only constants' data are shared."""

from __future__ import annotations

from typing import Any

from mcpc.ir import Graph, Node, Value


def copied(graph: Graph) -> Graph:
    """Values and nodes of their own, with the same names; bodies of control flow and of fused nodes too."""
    return _copied(graph, Graph(graph.name, _names=graph.names))


def _copied(graph: Graph, result: Graph) -> Graph:
    values: dict[int, Value] = {}

    def copy(value: Value | None) -> Value | None:
        if value is None:
            return None
        if id(value) not in values:
            new = Value(value.name, value.type, value.data)
            new.default = value.default
            values[id(value)] = new
        return values[id(value)]

    def attribute(node: Node, item: Any) -> Any:
        if not isinstance(item, Graph):
            return item
        return _copied(item, result.nested(item.name) if node.bodies else Graph(item.name, _names=item.names))

    result.inputs = [new for value in graph.inputs if (new := copy(value)) is not None]
    for node in graph.nodes:
        attrs = {name: attribute(node, item) for name, item in node.attrs.items()}
        inputs, outputs = map(copy, node.inputs), map(copy, node.outputs)
        result.append(Node(node.op, list(inputs), list(outputs), attrs, node.name, node.domain))
    result.outputs = [new for value in graph.outputs if (new := copy(value)) is not None]
    result.bounds, result.assumptions = dict(graph.bounds), dict(graph.assumptions)
    result.metadata = dict(graph.metadata)
    return result
