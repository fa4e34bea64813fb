"""Operators of 16-bit floats computed in float32."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, Value
from mcpc.ops.registry import moves
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, substitute

HALVES = (DType.float16, DType.bfloat16)

#: Elements from which a weight stays in 16 bits in the file: code expands it while it reads it.
STORED_FROM = 1024
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def is_half(value: Value | None) -> bool:
    return value is not None and value.dtype in HALVES


def computes_halves(node: Node) -> bool:
    """Whether an operator does arithmetic on 16-bit floats beyond one element at a time: elementwise code converts in
    registers, and what only moves elements does not look at them."""
    if node.domain or any(True for _ in node.subgraphs()):
        return False
    definition = ops.find(node.domain, node.op)
    if definition is None or isinstance(definition, ops.Elementwise) or not any(map(is_half, node.inputs)):
        return False
    reduces = node.attrs.get("reduction", "none") != "none"  # what scattering may do
    interpolates = node.is_op("Resize") and node.attrs.get("mode", "nearest") != "nearest"
    return definition.cost is not moves or reduces or interpolates


@dataclass(frozen=True)
class Widen(Pass):
    """Puts Cast nodes around every operator that computes 16-bit floats, which then computes float32. Its results are
    rounded as before, what is beyond their range included; sums inside it are not."""

    name: ClassVar[str] = "widen"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            wide: dict[Value, Value] = {}
            with inner.edit():
                for node in list(inner.nodes):
                    if computes_halves(node):
                        _widen(inner, node, wide)
        return graph


def _widen(graph: Graph, node: Node, wide: dict[Value, Value]) -> None:
    """``wide`` holds the float32 copies of values."""
    inputs = [
        _copy(graph, node, index, value, wide) if value is not None and is_half(value) else value
        for index, value in enumerate(node.inputs)
    ]
    outputs, casts, old = [], [], []
    for value in node.outputs:
        if value is None or not is_half(value):
            made = None if value is None else Value(graph.fresh(value.name), value.type)
            result = made
        else:
            made = Value(graph.fresh(f"{value.name}.float32"), replace(value.type, dtype=DType.float32))
            result = Value(graph.fresh(value.name), value.type)
            casts.append(Node("Cast", [made], [result], {"to": value.dtype}, f"{value.name} to {value.dtype.name}"))
        outputs.append(made)
        if value is not None and result is not None:
            old.append((value, result))
    computed = Node(node.op, inputs, outputs, node.attrs, node.name, node.domain)
    graph.insert_before(node, [computed, *casts])
    for value, result in old:
        substitute(graph, value, result, rename=True)
    graph.remove(node)


def _copy(graph: Graph, node: Node, index: int, value: Value, wide: dict[Value, Value]) -> Value:
    if value in wide:
        return wide[value]
    is_weight = node.is_op(*_WEIGHTED) and index == 1 and value.data is not None and value.data.size >= STORED_FROM
    if value.data is not None and not is_weight:
        copy = graph.constant(f"{value.name}.float32", value.data.astype(np.float32))
    else:
        copy = Value(graph.fresh(f"{value.name}.float32"), replace(value.type, dtype=DType.float32))
        name = f"{value.name} to float32"
        graph.insert_before(node, [Node("Cast", [value], [copy], {"to": DType.float32}, name)])
    wide[value] = copy
    return copy
