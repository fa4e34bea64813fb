"""BatchNormalization, LayerNormalization and RMSNormalization."""

from __future__ import annotations

from mcpc.ir import OPSET, DType, Node, TensorType, dim
from mcpc.ops.context import (
    FLOATS,
    InferContext,
    attribute,
    axis_of,
    broadcast,
    differ,
    expect,
    expect_rank,
    fail,
    number,
    optional_type,
    show,
    type_of,
    unify,
)
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, register, traffic


def infer_batch_normalization(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, …]; scale, bias, mean and variance [C] → Y and, where it trains, the moved mean and variance."""
    if not attribute(node, "training_mode", 0) and any(output is not None for output in node.outputs[1:]):
        fail(node, "BatchNormalization gives means and variances in training mode only", "E102")
    x = expect(node, 0, FLOATS)
    for index in range(1, 5):
        parameter = expect(node, index, FLOATS)
        expect_rank(node, index, 1)
        if x.shape is not None and parameter.shape is not None:
            channels = x.dims[1] if len(x.dims) > 1 else 1
            unify(node, parameter.dims[0], channels, f"input {index} and the channels of input 0")
    return [TensorType(x.dtype, x.shape), type_of(node, 3), type_of(node, 4)]


def cost_batch_normalization(node: Node) -> Cost:
    return Cost(dim(2 * type_of(node, 0).elements), traffic(node))


def infer_layer_normalization(node: Node, context: InferContext) -> list[TensorType]:
    """X, Scale and B, both broadcast to X → Y, Mean and InvStdDev, whose sizes are 1 from ``axis`` on."""
    x, statistics = _normalized(node)
    return [x, statistics, statistics]


def infer_rms_normalization(node: Node, context: InferContext) -> list[TensorType]:
    """X and Scale, broadcast to X → Y."""
    return [_normalized(node)[0]]


def _normalized(node: Node) -> tuple[TensorType, TensorType]:
    """The types of the result and of a number per normalised part."""
    x = expect(node, 0, FLOATS)
    shape = x.shape
    for index in range(1, len(node.inputs)):
        operand = optional_type(node, index)
        if operand is None or shape is None or operand.shape is None:
            continue
        expect(node, index, FLOATS)
        full = broadcast(node, [shape, operand.shape])
        if full is None or len(full) != len(shape) or any(map(differ, full, shape)):
            fail(node, f"input {index} does not broadcast to {show(x)}: {show(operand)}")
        shape = full
    number(node, "epsilon", 1e-5)
    statistics = DType.float32 if attribute(node, "stash_type", 1) == 1 else x.dtype
    if shape is None:
        return TensorType(x.dtype, None), TensorType(statistics, None)
    axis = axis_of(node, attribute(node, "axis", -1), len(shape))
    ones = [1] * (len(shape) - axis)
    return TensorType(x.dtype, shape), TensorType(statistics, (*shape[:axis], *ones))


def cost_layer_normalization(node: Node) -> Cost:
    """Mean, variance, and what is made of them."""
    return Cost(dim(8 * type_of(node, 0).elements), traffic(node))


register(
    OpDef("LayerNormalization", infer_layer_normalization, cost_layer_normalization, ACCUMULATED, (17, OPSET)),
    OpDef("RMSNormalization", infer_rms_normalization, cost_layer_normalization, ACCUMULATED, (23, OPSET)),
)
