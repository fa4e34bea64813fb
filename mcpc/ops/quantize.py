"""Linear quantisation, and products of quantised tensors.

``real = (stored - zero_point) * scale``. A scale holds for the whole tensor, for one index of ``axis``, or for a block
of ``block_size`` neighbours along it (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, Value, dim
from mcpc.ops import expr as e
from mcpc.ops.context import (
    InferContext,
    attribute,
    axis_of,
    ceil_div,
    differ,
    expect,
    fail,
    optional_type,
    show,
    shown,
    type_of,
)
from mcpc.ops.elementwise import Elementwise
from mcpc.ops.expr import Expr, apply, where
from mcpc.ops.linear import cost_conv, cost_matmul, infer_conv, infer_matmul
from mcpc.ops.registry import EXACT, ROUNDED, Cost, OpDef, register, traffic

Array = np.ndarray[Any, Any]

BYTES = frozenset({DType.int8, DType.uint8})
#: What QuantizeLinear makes, and DequantizeLinear reads.
STORED = frozenset(
    {*BYTES, DType.int16, DType.uint16, DType.int4, DType.uint4, DType.float8e4m3fn, DType.float8e5m2},
)
SCALES = frozenset({DType.float32, DType.float16, DType.bfloat16})


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and largest integer that ``dtype`` stores."""
    bits = int(dtype.name.removeprefix("u").removeprefix("int"))
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def quantized(x: Expr, scale: Expr, zero: Expr | None, dtype: DType) -> Expr:
    """``x`` stored as ``dtype``: halves go to the even neighbour, what is out of range to the nearest end, NaN to the
    lower one (as in ONNX Runtime's vector code)."""
    if not dtype.name.removeprefix("u").startswith("int"):
        return e.cast(x / scale, dtype)
    low, high = limits(dtype)
    steps = apply("round", x / scale)
    if zero is not None:
        steps = steps + e.cast(zero, DType.float32)
    raised = where(steps > low, steps, low)
    return e.cast(e.cast(where(raised < high, raised, high), DType.int32), dtype)


def dequantized(x: Expr, scale: Expr, zero: Expr | None) -> Expr:
    stored = e.cast(x, DType.int32)
    return e.cast(stored if zero is None else stored - e.cast(zero, DType.int32), DType.float32) * scale


class Linear(Elementwise):
    """QuantizeLinear or DequantizeLinear: elementwise where the scale broadcasts as it is."""

    def applies(self, node: Node) -> bool:
        x, scale = type_of(node, 0), type_of(node, 1)
        if scale.shape is None or attribute(node, "block_size", 0):
            return False
        return all(size == 1 for size in scale.dims) or node.attrs.get("axis", 1) in (-1, (x.rank or 0) - 1)

    def expression(self, node: Node) -> Expr:
        x, scale = e.arg(0), e.arg(1)
        zero = None if node.input(2) is None else e.arg(2)
        if type_of(node, 0).dtype is DType.int32 and self.name == "QuantizeLinear":
            x = e.cast(x, DType.float32)
        if self.name == "QuantizeLinear":
            return quantized(x, scale, zero, stored_type(node))
        return dequantized(x, scale, zero)


def output_dtype(node: Node) -> DType | None:
    """The attribute of that name, where it is given."""
    dtype = node.attrs.get("output_dtype")
    return dtype if isinstance(dtype, DType) else None


def stored_type(node: Node) -> DType:
    """What a QuantizeLinear makes."""
    zero = optional_type(node, 2)
    dtype = zero.dtype if zero is not None else output_dtype(node) or DType.uint8
    if dtype not in STORED:
        fail(node, f"{node.op} cannot make {dtype.name}", "E102")
    if output_dtype(node) not in (None, dtype):
        fail(node, f"output_dtype and the zero point's {dtype.name} differ", "E102")
    return dtype


def _check_scale(node: Node) -> None:
    x, scale, zero = type_of(node, 0), expect(node, 1, SCALES), optional_type(node, 2)
    if zero is not None and zero.shape is not None and scale.shape is not None:
        # One of (), (1,) for the other is what exporters write.
        scalars = all(size == 1 for size in (*zero.shape, *scale.shape))
        alike = len(zero.shape) == len(scale.shape) and not any(map(differ, zero.shape, scale.shape))
        if not alike and not scalars:
            fail(node, f"scale and zero point differ in shape: {show(scale)} and {show(zero)}")
    block = attribute(node, "block_size", 0)
    if x.shape is None or scale.shape is None or (not block and all(size == 1 for size in scale.shape)):
        return
    axis = axis_of(node, attribute(node, "axis", 1), len(x.shape))
    if block < 0:
        fail(node, f"block_size is {block}", "E102")
    expected: tuple[Dim, ...] = (x.shape[axis],)
    if block:
        expected = (*x.shape[:axis], ceil_div(x.shape[axis], block), *x.shape[axis + 1 :])
    if len(scale.shape) != len(expected) or any(map(differ, scale.shape, expected)):
        fail(node, f"the scale of {show(x)} along axis {axis} must be {shown(expected)}, it is {show(scale)}")


def infer_quantize(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, SCALES | {DType.int32})
    _check_scale(node)
    return [TensorType(stored_type(node), x.shape)]


def infer_dequantize(node: Node, context: InferContext) -> list[TensorType]:
    x, scale = expect(node, 0, STORED | {DType.int32}), expect(node, 1, SCALES)
    _check_scale(node)
    zero = optional_type(node, 2)
    if zero is not None and zero.dtype is not x.dtype:
        fail(node, f"the zero point is {zero.dtype.name}, the input {x.dtype.name}")
    return [TensorType(output_dtype(node) or scale.dtype, x.shape)]


def spread(node: Node, parameter: Array) -> Array:
    """A constant scale or zero point of a QuantizeLinear or DequantizeLinear in a shape that broadcasts to the first
    input's."""
    x = type_of(node, 0)
    if parameter.size == 1:
        return parameter.reshape((1,) * len(x.dims))
    axis = axis_of(node, attribute(node, "axis", 1), len(x.dims))
    block = attribute(node, "block_size", 0)
    if block:
        return np.repeat(parameter, block, axis)[(slice(None),) * axis + (slice(0, x.dims[axis]),)]
    return parameter.reshape([-1 if index == axis else 1 for index in range(len(x.dims))])


def in_bytes(numbers: Array) -> Array:
    """Numbers of four bits in bytes of the same sign; all others as they are."""
    wide = {DType.int4.numpy: np.int8, DType.uint4.numpy: np.uint8}.get(numbers.dtype)
    return numbers if wide is None else numbers.astype(wide)


def infer_dynamic_quantize(node: Node, context: InferContext) -> list[TensorType]:
    x = expect(node, 0, {DType.float32})
    return [TensorType(DType.uint8, x.shape), TensorType(DType.float32, ()), TensorType(DType.uint8, ())]


def cost_dynamic_quantize(node: Node) -> Cost:
    return Cost(dim(8 * type_of(node, 0).elements), traffic(node))


# ---- products

#: Operator -> the indices of its factors, of their zero points, and of the output's.
ZERO_POINTS: dict[str, tuple[tuple[int, int], tuple[int, int], int | None]] = {
    "MatMulInteger": ((0, 1), (2, 3), None),
    "ConvInteger": ((0, 1), (2, 3), None),
    "QLinearMatMul": ((0, 3), (2, 5), 7),
    "QLinearConv": ((0, 3), (2, 5), 7),
}


def in_float(node: Node) -> Node:
    """The MatMul or Conv of float32 tensors whose shapes and work are those of a product of quantised ones."""
    indices = [*ZERO_POINTS[node.op][0], *([8] if node.op == "QLinearConv" else [])]
    types = [optional_type(node, index) for index in indices]
    inputs = [None if type is None else Value("", replace(type, dtype=DType.float32)) for type in types]
    return Node("MatMul" if "MatMul" in node.op else "Conv", inputs, node.outputs, node.attrs, node.name)


def infer_product(node: Node, context: InferContext) -> list[TensorType]:
    operands, zeros, output = ZERO_POINTS[node.op]
    for index, zero in zip(operands, zeros, strict=True):
        dtype = expect(node, index, BYTES).dtype
        type = optional_type(node, zero)
        if type is not None and type.dtype is not dtype:
            fail(node, f"the zero point of input {index} is {type.dtype.name}, the input {dtype.name}")
    result = DType.int32
    if output is not None:
        result = expect(node, output, BYTES).dtype
        for index in (operands[0] + 1, operands[1] + 1, output - 1):
            expect(node, index, {DType.float32})
    if node.op == "QLinearConv" and node.input(8) is not None:
        expect(node, 8, {DType.int32})
    product = in_float(node)
    (type,) = (infer_matmul if product.op == "MatMul" else infer_conv)(product, context)
    return [replace(type, dtype=result)]


def cost_product(node: Node) -> Cost:
    product = in_float(node)
    return Cost((cost_matmul if product.op == "MatMul" else cost_conv)(product).flops, traffic(node))


# ---- declarations


def cost_linear(node: Node) -> Cost:
    definition = LINEAR[node.op]
    return Cost(dim(node.output.type.elements * e.flops(definition.expression(node))), traffic(node))


#: The operators that change between a tensor and its quantised form.
LINEAR = {
    name: Linear(name, infer, cost_linear, tolerance, (10, OPSET), build=lambda: e.arg(0))
    for name, infer, tolerance in (
        ("QuantizeLinear", infer_quantize, EXACT),
        ("DequantizeLinear", infer_dequantize, ROUNDED),
    )
}

register(
    *LINEAR.values(),
    OpDef("DynamicQuantizeLinear", infer_dynamic_quantize, cost_dynamic_quantize, EXACT, (11, OPSET)),
    *(OpDef(name, infer_product, cost_product, EXACT, (10, OPSET)) for name in ZERO_POINTS),
)
