"""Puts ai.onnx operators in the place of ONNX Runtime's own."""

from __future__ import annotations

from mcpc.ir import Graph
from mcpc.ops import InferContext, find
from mcpc.ops.contrib import Contrib
from mcpc.rewrite import control_flow_graphs, substitute


def expand_contrib(graph: Graph, context: InferContext) -> None:
    """Replace every node of such an operator, whose types are inferred, in ``graph`` and its control-flow bodies."""
    for inner in control_flow_graphs(graph):
        for node in list(inner.nodes):
            definition = find(node.domain, node.op)
            if isinstance(definition, Contrib):
                nodes, outputs = definition.expand(node, context, inner)
                inner.insert_before(node, nodes)
                made = {id(value) for each in nodes for value in each.outputs}
                for old, new in zip(node.outputs, outputs, strict=False):
                    if old is not None and new is not None:
                        substitute(inner, old, new, rename=id(new) in made)
                inner.remove(node)
