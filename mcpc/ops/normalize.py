"""BatchNormalization in inference form, Dropout and Identity-like operators."""

from __future__ import annotations

from mcpc.ir import Node, TensorType, dim
from mcpc.ops.context import FLOATS, InferContext, attribute, expect, expect_rank, fail, type_of, unify
from mcpc.ops.registry import ROUNDED, Cost, OpDef, register, traffic


def infer_batch_normalization(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, …]; scale, bias, mean and variance [C]. Training mode: E102."""
    if attribute(node, "training_mode", 0) or any(output is not None for output in node.outputs[1:]):
        fail(
            node, "BatchNormalization in training mode is not supported", "E102", hint="export the model for inference"
        )
    x = expect(node, 0, FLOATS)
    for index in range(1, 5):
        parameter = expect(node, index, FLOATS)
        expect_rank(node, index, 1)
        if x.shape is not None and parameter.shape is not None:
            channels = x.dims[1] if len(x.dims) > 1 else 1
            unify(node, parameter.dims[0], channels, f"input {index} and the channels of input 0")
    return [TensorType(x.dtype, x.shape)]


def cost_batch_normalization(node: Node) -> Cost:
    return Cost(dim(2 * type_of(node, 0).elements), traffic(node))


register(OpDef("BatchNormalization", infer_batch_normalization, cost_batch_normalization, ROUNDED))
