"""Weights that are made from smaller constants stay small in the file: what expands them joins the product that reads
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcpc import ops
from mcpc.ir import MCPC, Graph, Node, Value
from mcpc.ops.linear import convolution_of
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs

from .quantized import along_axis, dequantized
from .region import Region, is_expansion
from .strided import PLANAR_CHANNELS

#: Operators whose second operand kernels can expand while they read it (gemm_q8.h).
EXPANDING = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True)
class AbsorbWeights(Pass):
    """What other operators with kernels of their own read is expanded into the file."""

    name: ClassVar[str] = "absorb-weights"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            for node in [node for node in inner.nodes if is_expansion(node)]:
                _place(inner, node, ctx)
        return graph


def _place(graph: Graph, expansion: Node, ctx: PassContext) -> None:
    weight, stored = expansion.output, expansion.inputs[0]
    assert stored is not None
    bytes = {"bytes": float(stored.type.nbytes), "expanded": float(weight.type.nbytes)}
    floats: Value | None = None
    for user in dict.fromkeys(weight.users):
        if reads_as_weight(user, weight):
            ctx.decide(user, "compress", f"%{weight.name} stays {stored.dtype.name} in the file", **bytes)
            _absorb(graph, user, expansion)
        elif Region.of(user).anchor is not None:
            ctx.decide(user, "expand", f"no kernel reads %{weight.name} as {stored.dtype.name}", **bytes)
            floats = floats or graph.constant(weight.name, dequantized(expansion))
            graph.set_inputs(user, [floats if value is weight else value for value in user.inputs])
    if not weight.users and not graph.is_output(weight):
        graph.remove(expansion)
        return
    if not ops.is_elementwise(expansion):
        along_axis(graph, expansion)


def reads_as_weight(node: Node, weight: Value) -> bool:
    """Whether ``weight`` is the matrix or the kernel of the product that ``node`` is, and nothing else to it."""
    region = Region.of(node)
    anchor = region.anchor
    if anchor is None or not anchor.is_op(*EXPANDING) or region.outer(anchor.inputs[1]) is not weight:
        return False
    if sum(value is weight for value in node.inputs) != 1:
        return False
    return _is_wide(anchor, weight) if anchor.is_op("Conv") else weight.type.rank == 2


def _is_wide(conv: Node, weight: Value) -> bool:
    """Whether a convolution is a product with panels: of one or two axes, neither depthwise nor of a planar image."""
    groups = convolution_of(conv).groups
    out_c, depth, *kernel = weight.type.static_shape
    return len(kernel) <= 2 and not (depth == 1 and groups == out_c) and depth * groups > PLANAR_CHANNELS


def _absorb(graph: Graph, node: Node, expansion: Node) -> None:
    """Put a node that holds a copy of ``expansion`` and what ``node`` holds into the place of ``node``."""
    body = Graph(f"epilogue:{node.output.name}")
    operands: list[Value | None] = []
    copies: dict[int, Value] = {}

    def operand(value: Value) -> Value:
        if id(value) not in copies:
            copies[id(value)] = body.add_input(value.name, value.type)
            operands.append(value)
        return copies[id(value)]

    def copy(value: Value | None) -> Value | None:
        if value is not None and id(value) not in copies:
            copies[id(value)] = Value(body.fresh(value.name), value.type, value.data)
        return None if value is None else copies[id(value)]

    for value in expansion.inputs:
        if value is not None:
            operand(value)
    inner = node.body
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        own = copy(value) if value is expansion.output else operand(value)
        if inner is not None and own is not None:
            copies[id(inner.inputs[index])] = own
    for each in (expansion, *([node] if inner is None else inner.nodes)):
        inputs, outputs = [copy(value) for value in each.inputs], [copy(value) for value in each.outputs]
        body.append(Node(each.op, inputs, outputs, each.attrs, each.name, each.domain))
    result = copy(node.output if inner is None else inner.outputs[0])
    assert result is not None
    body.outputs = [result]
    output = Value(graph.fresh(node.output.name), node.output.type)
    attrs = {"kind": "epilogue", "body": body}
    graph.insert_before(node, [Node("Fused", operands, [output], attrs, node.name, MCPC)])
    graph.replace_uses(node.output, output)
    graph.remove(node)
