"""mcpc::Fused: nodes that are one kernel, with what they compute as the node's body."""

from __future__ import annotations

from collections.abc import Sequence

from mcpc import rewrite
from mcpc.ir import Graph, Node, Value
from mcpc.ops.quantize import has_packed_weights

#: Operators that take what follows them into their own loop nest; those on integers where their weights are packed.
ANCHORS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LayerNormalization", "RMSNormalization")
INTEGER_ANCHORS = ("ConvInteger", "MatMulInteger")


def is_anchor(node: Node) -> bool:
    return node.is_op(*ANCHORS) or (node.is_op(*INTEGER_ANCHORS) and has_packed_weights(node, node.inputs))


def replace_by_fused(graph: Graph, group: Sequence[Node], kind: str) -> None:
    """Put one Fused node in the place of ``group``, which is in execution order. Nodes whose results others read too
    stay."""
    body, operands = _body(f"{kind}:{group[-1].output.name}", group)
    rewrite.replace_by_fused(graph, group, kind, operands, body)


def _body(name: str, group: Sequence[Node]) -> tuple[Graph, list[Value]]:
    """The graph of ``group`` and the values it reads. Scalar constants go inside, where code can show them as literals;
    what anchors read stays outside, where weights are packed."""
    body = Graph(name)
    inner: dict[int, Value] = {}
    operands: list[Value] = []
    first = [node for node in group if is_anchor(node)]
    outside = {id(value) for node in first for value in node.inputs if value is not None}
    made = {id(value) for node in group for value in node.outputs}
    for node in [*first, *group]:
        for value in node.inputs:
            if value is None or id(value) in inner or id(value) in made:
                continue
            if value.data is not None and value.data.size == 1 and id(value) not in outside:
                inner[id(value)] = body.constant(value.name, value.data)
            else:
                inner[id(value)] = body.add_input(value.name, value.type)
                operands.append(value)
    for node in group:
        inputs = [None if value is None else inner[id(value)] for value in node.inputs]
        inner[id(node.output)] = Value(body.fresh(node.output.name), node.output.type)
        body.append(Node(node.op, inputs, [inner[id(node.output)]], node.attrs, node.name))
    body.outputs = [inner[id(group[-1].output)]]
    return body, operands
