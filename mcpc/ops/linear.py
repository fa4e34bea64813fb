"""Products: MatMul, Gemm and the convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from mcpc.ir import Dim, Node, TensorType, dim, product
from mcpc.ops.context import (
    FLOATS,
    WIDE,
    InferContext,
    attribute,
    broadcast,
    differ,
    expect,
    expect_rank,
    fail,
    floor_div,
    larger,
    optional_type,
    same_dtype,
    show,
    type_of,
    unify,
)
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, register, traffic
from mcpc.ops.window import Window, window_of


def infer_matmul(node: Node, context: InferContext) -> list[TensorType]:
    a, b = expect(node, 0, WIDE), expect(node, 1, WIDE)
    dtype = same_dtype(node, 0, 1)
    if a.rank == 0 or b.rank == 0:
        fail(node, f"MatMul of a scalar: {show(a)} and {show(b)}")
    if a.shape is None or b.shape is None:
        return [TensorType(dtype, None)]
    inner_b = b.dims[0] if b.rank == 1 else b.dims[-2]
    if differ(a.dims[-1], inner_b):
        fail(node, f"inner sizes of MatMul differ: {show(a)} and {show(b)}")
    rows = () if a.rank == 1 else (a.dims[-2],)
    columns = () if b.rank == 1 else (b.dims[-1],)
    batch = broadcast(node, [a.dims[:-2], b.dims[:-2]])
    assert batch is not None
    return [TensorType(dtype, (*batch, *rows, *columns))]


def cost_matmul(node: Node) -> Cost:
    return Cost(dim(2 * node.output.type.elements * type_of(node, 0).dims[-1]), traffic(node))


def infer_gemm(node: Node, context: InferContext) -> list[TensorType]:
    a, b = expect(node, 0, WIDE), expect(node, 1, WIDE)
    dtype = same_dtype(node, 0, 1, 2)
    expect_rank(node, 0, 2)
    expect_rank(node, 1, 2)
    if a.shape is None or b.shape is None:
        return [TensorType(dtype, None)]
    m, k = a.dims[::-1] if attribute(node, "transA", 0) else a.dims
    k_b, n = b.dims[::-1] if attribute(node, "transB", 0) else b.dims
    if differ(k, k_b):
        fail(node, f"inner sizes of Gemm differ: {show(a)} and {show(b)}")
    c = optional_type(node, 2)
    if c is not None and c.shape is not None:
        full = broadcast(node, [(m, n), c.dims])
        if full is None or len(full) != 2 or differ(full[0], m) or differ(full[1], n):
            fail(node, f"{show(c)} does not broadcast to [{m}, {n}]")
    return [TensorType(dtype, (m, n))]


def cost_gemm(node: Node) -> Cost:
    a = type_of(node, 0)
    inner = a.dims[0] if attribute(node, "transA", 0) else a.dims[1]
    return Cost(dim(2 * node.output.type.elements * inner), traffic(node))


# ---- convolutions


@dataclass(frozen=True)
class Convolution:
    """The numbers of a Conv or ConvTranspose, ONNX's defaults applied."""

    window: Window
    groups: int


def convolution_of(node: Node) -> Convolution:
    """The parameters of a Conv or ConvTranspose whose weight's rank is known."""
    weight = type_of(node, 1)
    if weight.shape is None or weight.rank is None or weight.rank < 3:
        fail(node, f"the weight of {node.op} must have rank 3 or more, it is {show(weight)}")
    kernel = node.attrs.get("kernel_shape")
    sizes = list(weight.dims[2:]) if kernel is None else list(kernel)
    if any(not isinstance(size, int) for size in sizes):
        fail(node, f"the kernel's size is not constant: {show(weight)}", "E108")
    if len(sizes) != weight.rank - 2 or any(differ(a, b) for a, b in zip(sizes, weight.dims[2:], strict=True)):
        fail(node, f"kernel_shape {kernel} does not fit the weight {show(weight)}")
    groups = attribute(node, "group", 1)
    if groups < 1:
        fail(node, f"group is {groups}", "E102")
    return Convolution(window_of(node, [int(size) for size in sizes]), groups)


def _operands(node: Node) -> tuple[TensorType, TensorType]:
    x, weight = expect(node, 0, FLOATS), expect(node, 1, FLOATS)
    same_dtype(node, 0, 1, 2)
    if x.shape is not None and weight.shape is not None and x.rank != weight.rank:
        fail(node, f"ranks of input and weight differ: {show(x)} and {show(weight)}")
    return x, weight


def _check_bias(node: Node, channels: Dim) -> None:
    bias = optional_type(node, 2)
    if bias is not None and bias.shape is not None and (bias.rank != 1 or differ(bias.dims[0], channels)):
        fail(node, f"the bias is {show(bias)}, [{channels}] is needed")


def infer_conv(node: Node, context: InferContext) -> list[TensorType]:
    x, weight = _operands(node)
    if x.shape is None or weight.shape is None:
        return [TensorType(x.dtype, None)]
    conv = convolution_of(node)
    channels = x.dims[1]
    if differ(channels, dim(weight.dims[1] * conv.groups)):
        fail(node, f"{channels} channels do not fit the weight {show(weight)} with {conv.groups} groups")
    if isinstance(weight.dims[0], int) and weight.dims[0] % conv.groups:
        fail(node, f"{weight.dims[0]} output channels do not divide into {conv.groups} groups")
    _check_bias(node, weight.dims[0])
    spatial = conv.window.output(node, x.dims[2:])
    return [TensorType(x.dtype, (x.dims[0], weight.dims[0], *spatial))]


def cost_conv(node: Node) -> Cost:
    """Each output element takes one multiply-add per weight of its group."""
    per_output = product(type_of(node, 1).dims[1:])
    return Cost(dim(2 * node.output.type.elements * per_output), traffic(node))


def infer_conv_transpose(node: Node, context: InferContext) -> list[TensorType]:
    x, weight = _operands(node)
    if x.shape is None or weight.shape is None:
        return [TensorType(x.dtype, None)]
    conv = convolution_of(node)
    unify(node, x.dims[1], weight.dims[0], "channels of input and weight")
    if isinstance(weight.dims[0], int) and weight.dims[0] % conv.groups:
        fail(node, f"{weight.dims[0]} input channels do not divide into {conv.groups} groups")
    channels = dim(weight.dims[1] * conv.groups)
    _check_bias(node, channels)
    spatial = [end for _, _, end in transposed_axes(node, conv.window, x.dims[2:])]
    return [TensorType(x.dtype, (x.dims[0], channels, *spatial))]


def transposed_axes(node: Node, window: Window, sizes: tuple[Dim, ...]) -> list[tuple[Dim, Dim, Dim]]:
    """Per spatial axis of a ConvTranspose: padding at the begin, at the end, and the output's size."""
    rank = len(sizes)
    extra = list(node.attrs.get("output_padding") or [0] * rank)
    wanted = node.attrs.get("output_shape")
    if len(extra) != rank or (wanted is not None and len(wanted) not in (rank, rank + 2)):
        fail(node, f"output_padding or output_shape does not have {rank} entries", "E102")
    if any(not isinstance(number, int) or number < 0 for number in (*extra, *(wanted or []))):
        fail(node, f"output_padding {extra} or output_shape {wanted} is no list of sizes", "E102")
    result: list[tuple[Dim, Dim, Dim]] = []
    for axis, size in enumerate(sizes):
        stride = window.strides[axis]
        full = dim(stride * (size - 1) + extra[axis] + window.extent(axis))
        if wanted is None and window.auto_pad in ("NOTSET", "VALID"):
            begin, end = window.pads[axis]
            result.append((begin, end, dim(full - begin - end)))
            continue
        target = dim(size * stride) if wanted is None else int(wanted[-rank:][axis])
        total = larger(0, dim(full - target))
        small = floor_div(total, 2)
        large = dim(total - small)
        result.append((small, large, target) if window.auto_pad == "SAME_UPPER" else (large, small, target))
    if any(isinstance(end, int) and end < 0 for _, _, end in result):
        fail(node, f"nothing is left of {[end for _, _, end in result]} elements between the pads")
    return result


def cost_conv_transpose(node: Node) -> Cost:
    """Each input element takes one multiply-add per weight of its channel."""
    per_input = product(type_of(node, 1).dims[1:])
    return Cost(dim(2 * type_of(node, 0).elements * per_input), traffic(node))


register(
    OpDef("MatMul", infer_matmul, cost_matmul, ACCUMULATED),
    OpDef("Gemm", infer_gemm, cost_gemm, ACCUMULATED),
    OpDef("Conv", infer_conv, cost_conv, ACCUMULATED),
    OpDef("ConvTranspose", infer_conv_transpose, cost_conv_transpose, ACCUMULATED),
)
