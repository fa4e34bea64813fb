"""Normalisations of channels, axis 1: over neighbouring channels (LRN), an image (InstanceNormalization), or groups."""

from __future__ import annotations

from mcpc.ir import OPSET, Node, TensorType, dim
from mcpc.ops.context import FLOATS, InferContext, attribute, differ, expect, expect_rank, fail, show, type_of, unify
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, register, traffic


def infer_lrn(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, …], the sum of squares over ``size`` channels around each."""
    x = expect(node, 0, FLOATS)
    if attribute(node, "size", 0) < 1:
        fail(node, f"attribute size is {node.attrs.get('size')}", "E102")
    if x.shape is not None and len(x.shape) < 2:
        fail(node, f"LRN needs channels, the input is {show(x)}")
    return [TensorType(x.dtype, x.shape)]


def cost_lrn(node: Node) -> Cost:
    return Cost(dim(2 * type_of(node, 0).elements * attribute(node, "size", 1)), traffic(node))


def infer_instance_normalization(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, …]; scale and B [C]."""
    return [_per_channel(node)]


def infer_group_normalization(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, …]; scale and bias [C]; C divides into ``num_groups``."""
    x = _per_channel(node)
    groups = attribute(node, "num_groups", 0)
    if groups < 1:
        fail(node, f"attribute num_groups is {groups}", "E102")
    if x.shape is not None and isinstance(x.dims[1], int) and x.dims[1] % groups:
        fail(node, f"{x.dims[1]} channels do not divide into {groups} groups")
    return [x]


def _per_channel(node: Node) -> TensorType:
    x = expect(node, 0, FLOATS)
    for index in (1, 2):
        parameter = expect(node, index, FLOATS)
        expect_rank(node, index, 1)
        if x.shape is None or parameter.shape is None:
            continue
        if len(x.shape) < 3:
            fail(node, f"{node.op} needs rank 3 or more, the input is {show(x)}")
        if differ(parameter.dims[0], x.dims[1]):
            fail(node, f"input {index} is {show(parameter)}, one number for each of {x.dims[1]} channels is needed")
        unify(node, parameter.dims[0], x.dims[1], f"input {index} and the channels of input 0")
    return TensorType(x.dtype, x.shape)


def cost_normalization(node: Node) -> Cost:
    """Three walks over the data: mean, variance, result."""
    return Cost(dim(6 * type_of(node, 0).elements), traffic(node))


register(
    OpDef("LRN", infer_lrn, cost_lrn, ACCUMULATED),
    OpDef("InstanceNormalization", infer_instance_normalization, cost_normalization, ACCUMULATED),
    OpDef("GroupNormalization", infer_group_normalization, cost_normalization, ACCUMULATED, (18, OPSET)),
)
