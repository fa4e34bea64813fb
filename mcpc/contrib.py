"""Puts ai.onnx operators in the place of ONNX Runtime's own."""

from __future__ import annotations

from collections.abc import Sequence

from mcpc.errors import McpcError
from mcpc.ir import Graph, Node, Value
from mcpc.ops import InferContext, find
from mcpc.ops.contrib import Contrib
from mcpc.rewrite import control_flow_graphs, substitute


def expand_contrib(graph: Graph, context: InferContext) -> None:
    """Replace every node of such an operator in ``graph`` and its control-flow bodies, but for those whose types could
    not be inferred: that fault is reported already."""
    for inner in control_flow_graphs(graph):
        for node in list(inner.nodes):
            definition = find(node.domain, node.op)
            if isinstance(definition, Contrib) and definition.applies(node):
                try:
                    nodes, outputs = definition.expand(node, context, inner)
                except McpcError:
                    continue
                put_in_place(inner, node, nodes, outputs)


def put_in_place(graph: Graph, node: Node, nodes: Sequence[Node], outputs: Sequence[Value | None]) -> None:
    """Let ``nodes``, which compute ``outputs``, take the place of ``node``; None for outputs that nobody asks for."""
    graph.insert_before(node, nodes)
    made = {id(value) for each in nodes for value in each.outputs}
    for old, new in zip(node.outputs, outputs, strict=False):
        if old is not None and new is not None:
            substitute(graph, old, new, rename=id(new) in made)
    graph.remove(node)
