"""Dead code: what no output depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcpc.ir import Graph, Node
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, remove_dead

#: Later outputs that an operator need not compute.
_OPTIONAL = {
    "GRU": (1,),
    "LSTM": (1, 2),
    "LayerNormalization": (1, 2),
    "MaxPool": (1,),
    "RNN": (1,),
}


@dataclass(frozen=True)
class DeadCode(Pass):
    """Removes nodes whose outputs nobody uses, and leaves out optional outputs that nobody asked for."""

    name: ClassVar[str] = "dce"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in reversed(control_flow_graphs(graph)):
            with inner.edit():
                remove_dead(inner, inner.nodes)
            for node in inner.nodes:
                _drop_optional_outputs(node, inner)
        return graph


def _drop_optional_outputs(node: Node, graph: Graph) -> None:
    if node.domain or node.op not in _OPTIONAL:
        return  # how many outputs others have (Split) means something
    outputs = list(node.outputs)
    for index in _OPTIONAL[node.op]:
        value = outputs[index] if index < len(outputs) else None
        if value is not None and not value.users and not graph.is_output(value):
            value.producer = None
            outputs[index] = None
    while outputs and outputs[-1] is None:
        outputs.pop()
    node.outputs = tuple(outputs)
