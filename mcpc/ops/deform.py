"""DeformConv: a convolution whose taps are moved by data."""

from __future__ import annotations

from mcpc.ir import OPSET, Node, TensorType, dim, product
from mcpc.ops.context import FLOATS, InferContext, attribute, differ, expect, expect_rank, fail, show, type_of, unify
from mcpc.ops.linear import convolution_of
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, register, traffic


def infer_deform_conv(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, H, W], W [out, C / group, kernel…], offset [N, offset_group * taps * 2, out H, out W], B [out], mask [N,
    offset_group * taps, out H, out W] -> [N, out, out H, out W]."""
    x, weight, offset = (expect(node, index, FLOATS) for index in range(3))
    for index in (0, 1, 2, 4):
        expect_rank(node, index, 4)
    if x.shape is None or weight.shape is None:
        return [TensorType(x.dtype, None)]
    conv, groups = convolution_of(node), attribute(node, "offset_group", 1)
    if groups < 1:
        fail(node, f"offset_group is {groups}", "E102")
    if differ(x.shape[1], dim(weight.shape[1] * conv.groups)):
        fail(node, f"{show(x)} does not fit the weight {show(weight)} with {conv.groups} groups")
    for size, by, what in ((x.shape[1], groups, "channels"), (weight.shape[0], conv.groups, "output channels")):
        if isinstance(size, int) and size % by:
            fail(node, f"{size} {what} do not divide into {by} groups")
    if node.input(3) is not None:
        expect_rank(node, 3, 1)
        unify(node, expect(node, 3, FLOATS).dims[0], weight.shape[0], "bias and output channels")
    spatial = conv.window.output(node, x.shape[2:])
    taps = groups * int(product(conv.window.kernel))
    mask = expect(node, 4, FLOATS) if node.input(4) is not None else None
    for operand, channels, what in ((offset, 2 * taps, "the offset"), (mask, taps, "the mask")):
        if operand is not None and operand.shape is not None:
            for got, wanted in zip(operand.shape, (x.shape[0], channels, *spatial), strict=True):
                unify(node, got, wanted, f"sizes of {what}")
    return [TensorType(x.dtype, (x.shape[0], weight.shape[0], *spatial))]


def cost_deform_conv(node: Node) -> Cost:
    """A convolution's work, and four taps for each element of a window."""
    weight = type_of(node, 1).dims
    windows = dim(product(node.output.type.dims) * product(weight[1:]))
    return Cost(dim(2 * windows + 8 * windows / weight[0]), traffic(node))


register(OpDef("DeformConv", infer_deform_conv, cost_deform_conv, ACCUMULATED, (19, OPSET)))
