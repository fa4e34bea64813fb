"""Functions of one byte, however many operators they take, as tables of all 256 results."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.judge import judge
from mcpc.onnx_writer import to_model
from mcpc.ops import expr as e

from .region import Region

Array = np.ndarray[Any, Any]

#: Additions an element that take as long as it takes to look up a byte.
LEAST_WORK = 24

BYTES = (DType.int8, DType.uint8)


def byte_operand(region: Region) -> Value | None:
    """The tensor of bytes that an elementwise region makes bytes of, element by element, with nothing else to it and
    enough to compute; None where it does something else."""
    body, result = region.node.body, region.node.output
    if body is None or region.anchor is not None or not region.chain or len(body.inputs) != 1:
        return None
    if any(node.domain for node in region.chain):  # what ONNX does not define
        return None
    [operand] = region.node.inputs
    if operand is None or operand.is_constant or operand.dtype not in BYTES or result.dtype not in BYTES:
        return None
    if operand.type.dims != result.type.dims or sum(_work(node) for node in region.chain) < LEAST_WORK:
        return None
    return operand


def _work(node: Node) -> int:
    tree = ops.expression(node)
    assert tree is not None
    return e.flops(tree)


def table(region: Region) -> Array:
    """uint8 [256]: what the region makes of each byte, by the bits of both, as the judge has it."""
    body = region.node.body
    assert body is not None
    everything = np.arange(256, dtype=np.uint8).view(body.inputs[0].dtype.numpy)
    graph = Graph("table")
    copies = {id(body.inputs[0]): graph.add_input("bytes", TensorType(body.inputs[0].dtype, (256,)))}

    def copy(value: Value | None) -> Value | None:
        if value is not None and id(value) not in copies:
            assert value.data is not None
            copies[id(value)] = graph.constant(value.name, value.data.reshape(()))
        return None if value is None else copies[id(value)]

    for node in region.chain:
        output = Value(graph.fresh(node.output.name), TensorType(DType.float32, None))
        new = Node(node.op, [copy(value) for value in node.inputs], [output], node.attrs, output.name, node.domain)
        ops.infer_node(new, ops.InferContext())
        graph.append(new)
        copies[id(node.output)] = output
    graph.outputs = [copies[id(region.result)]]
    evaluate = judge(to_model(graph).SerializeToString(), [graph.outputs[0].name])
    [result] = evaluate({"bytes": everything})
    return result.view(np.uint8)
