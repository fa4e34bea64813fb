"""Products of 8-bit integers without samples: each run finds the range of what it multiplies (dynamic quantisation)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.halves import PRECISION
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, remove_dead, substitute

from .integer import float_reason, weight_axis
from .quantize_weights import rounded

Array = np.ndarray[Any, Any]

#: By a tensor: its integers, the step that they count, and the zero point.
Dynamic = dict[Value, tuple[Value, Value, Value]]


@dataclass(frozen=True)
class QuantizeDynamic(Pass):
    """MatMul and Gemm with constant weights become DynamicQuantizeLinear (uint8, one range a tensor, which the tensor
    itself gives) and MatMulInteger, whose sums are scaled back: what ONNX Runtime's ``quantize_dynamic`` makes of
    MatMul. Weights are int8 around 0 with a scale a column. Tensors that several products read are rounded once.

    Products that have no form of integers stay float32, which is recorded. The graph's metadata say ``precision:
    int8-dynamic``."""

    name: ClassVar[str] = "quantize-dynamic"
    tolerance: ClassVar[float | None] = None

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        graph.metadata[PRECISION] = "int8-dynamic"
        for inner in control_flow_graphs(graph):
            known: Dynamic = {}
            with inner.edit():
                for node in list(inner.nodes):
                    if node.is_op("MatMul", "Gemm"):
                        _rewrite(inner, node, known, ctx)
        return graph


def _rewrite(graph: Graph, node: Node, known: Dynamic, ctx: PassContext) -> None:
    reason, weight = float_reason(node), node.inputs[1]
    if not reason and (weight is None or weight.data is None or not np.isfinite(weight.data).all()):
        reason = "its weights are no finite numbers of float32"
    if reason:
        ctx.decide(node, "keep", f"float32: {reason}")
        return
    left = node.inputs[0]
    assert left is not None and weight is not None and weight.data is not None

    def add(op: str, *inputs: Value | None, name: str = "", **attrs: Any) -> Value:
        out = Value(graph.fresh(f"{node.output.name}.{op.lower()}"), TensorType(DType.float32, None))
        new = Node(op, inputs, [out], attrs, name or out.name)
        ops.infer_node(new, ops.InferContext())
        graph.insert_before(node, [new])
        return out

    if left not in known:
        known[left] = _dynamic(graph, node, left)
    stored, step, zero = known[left]
    matrix = weight.data if weight_axis(node) == 1 else weight.data.T
    whole, steps = rounded(np.asarray(matrix), len(matrix), 127)
    weights = graph.constant(f"{weight.name}.quantized", np.ascontiguousarray(whole.astype(np.int8)))
    sums = add("MatMulInteger", stored, weights, zero, name=node.name)
    scale = add("Mul", step, graph.constant(f"{weight.name}.scale", steps.ravel()))
    result = add("Mul", add("Cast", sums, to=DType.float32), scale)
    bias = node.input(2)
    if bias is not None:
        result = add("Add", result, bias)
    ctx.decide(node, "int8", f"its operand's range is found in the run; weights take {whole.size} bytes")
    substitute(graph, node.output, result, rename=True)
    remove_dead(graph, [node])


def _dynamic(graph: Graph, node: Node, value: Value) -> tuple[Value, Value, Value]:
    """``value`` in integers, their step and zero point, from the run's own numbers."""
    types = (replace(value.type, dtype=DType.uint8), TensorType(DType.float32, ()), TensorType(DType.uint8, ()))
    names = ("quantized", "scale", "zero")
    made = [Value(graph.fresh(f"{value.name}.{name}"), type) for name, type in zip(names, types, strict=True)]
    graph.insert_before(node, [Node("DynamicQuantizeLinear", [value], made, name=f"{value.name}.quantized")])
    stored, step, zero = made
    return stored, step, zero
