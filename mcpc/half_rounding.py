"""Layers of float16 as networks of float32 that round: what any runtime can run, to see what that costs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mcpc.ir import DType, Graph, Node, Value
from mcpc.rewrite import substitute


def round_halves(graph: Graph, layers: Collection[str]) -> Graph:
    """``graph``, changed in place: the float32 operands and results of the nodes called ``layers`` are rounded to
    float16, beyond whose range they are infinite. That some kernels sum in float16 too is not imitated."""
    with graph.edit():
        for node in [node for node in graph.nodes if node.name in layers and node.output.dtype is DType.float32]:
            raw = Value(graph.fresh(f"{node.output.name}.wide"), node.output.type)
            inputs = [_rounded(graph, node, value) for value in node.inputs]
            graph.insert_before(node, [Node(node.op, inputs, [raw], node.attrs, node.name, node.domain)])
            result = _rounded(graph, node, raw)
            assert result is not None
            substitute(graph, node.output, result, rename=True)
            graph.remove(node)
    return graph


def _rounded(graph: Graph, anchor: Node, value: Value | None) -> Value | None:
    """``value`` by way of float16 if it is float32, by nodes before ``anchor``."""
    if value is None or value.dtype is not DType.float32:
        return value
    half = Value(graph.fresh(f"{value.name}.half"), replace(value.type, dtype=DType.float16))
    wide = Value(graph.fresh(f"{value.name}.rounded"), value.type)
    casts = [
        Node("Cast", [value], [half], {"to": DType.float16}, half.name),
        Node("Cast", [half], [wide], {"to": DType.float32}, wide.name),
    ]
    graph.insert_before(anchor, casts)
    return wide
