"""Linear quantisation, and products of quantised tensors.

``real = (stored - zero_point) * scale``. A scale holds for the whole tensor, for one index of ``axis``, or for a block
of ``block_size`` neighbours along it (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mcpc.errors import ModelError
from mcpc.ir import OPSET, Dim, DType, Node, TensorType, Value, dim
from mcpc.ops import expr as e
from mcpc.ops.context import (
    FLOAT8,
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
from mcpc.ops.elementwise import Elementwise, converted
from mcpc.ops.expr import Expr, apply, where
from mcpc.ops.linear import cost_conv, cost_matmul, infer_conv, infer_matmul
from mcpc.ops.registry import EXACT, ROUNDED, Cost, OpDef, register, traffic

Array = np.ndarray[Any, Any]

BYTES = frozenset({DType.int8, DType.uint8})
#: What QuantizeLinear makes, and DequantizeLinear reads.
STORED = frozenset(t for t in DType if t.name.removeprefix("u") in ("int2", "int4", "int8", "int16"))
STORED |= FLOAT8 | {DType.float4e2m1}
REAL = frozenset({DType.float32, DType.float16, DType.bfloat16})
SCALES = REAL | {DType.float8e8m0}


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and largest integer that ``dtype`` stores."""
    bits = int(dtype.name.removeprefix("u").removeprefix("int"))
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def quantized(
    x: Expr,
    scale: Expr,
    zero: Expr | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
    *,
    stored: DType,
    wide: DType = DType.float32,
) -> Expr:
    """``x``, divided in the type ``wide``, stored as ``stored``: halves go to the even neighbour, what is out of range
    to the nearest end, NaN to the lower one (as in ONNX Runtime's vector code)."""
    steps = e.cast(x, wide) / e.cast(scale, wide)
    if stored in FLOAT8:
        return converted(steps, wide, stored, saturate)
    if stored.is_float:
        return e.cast(steps if zero is None else steps + e.cast(zero, wide), stored)
    low, high = limits(stored)
    steps = apply("round", steps)
    if zero is not None:
        steps = steps + e.cast(zero, wide)
    raised = where(steps > low, steps, low)
    return e.cast(e.cast(where(raised < high, raised, high), DType.int32), stored)


def dequantized(
    x: Expr,
    scale: Expr,
    zero: Expr | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    *,
    is_float: bool,
) -> Expr:
    """A zero point of floats is 0."""
    if zero is not None and not is_float:
        x = e.cast(x, DType.int32) - e.cast(zero, DType.int32)
    return e.cast(x, DType.float32) * e.cast(scale, DType.float32)


class Linear(Elementwise):
    """QuantizeLinear or DequantizeLinear: elementwise where the scale broadcasts as it is."""

    def applies(self, node: Node) -> bool:
        x, scale = optional_type(node, 0), optional_type(node, 1)
        if x is None or scale is None or scale.shape is None or node.attrs.get("block_size", 0):
            return False  # the form is not known, or not elementwise
        return all(size == 1 for size in scale.shape) or node.attrs.get("axis", 1) in (-1, (x.rank or 0) - 1)

    def expression(self, node: Node) -> Expr:
        operands = [None if value is None else e.arg(index) for index, value in enumerate(node.inputs)]
        more: dict[str, Any] = {"is_float": type_of(node, 0).dtype.is_float}
        if self.name == "QuantizeLinear":
            more = {"stored": stored_type(node), "wide": divided_in(node)}
        try:
            return self.build(*operands, **node.attrs, **more)
        except TypeError as error:
            fail(node, f"inputs or attributes of {node.op} do not fit: {str(error).split('() ')[-1]}", "E102")


def divided_in(node: Node) -> DType:
    """The type in which a QuantizeLinear divides: float32 does not hold the quotients of int32."""
    return DType.float64 if type_of(node, 1).dtype is DType.int32 else DType.float32


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
    scales = SCALES | {DType.int32} if node.op == "QuantizeLinear" else SCALES
    x, scale, zero = type_of(node, 0), expect(node, 1, scales), optional_type(node, 2)
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
    LINEAR[node.op].expression(node)
    x = expect(node, 0, REAL | {DType.int32})
    _check_scale(node)
    return [TensorType(stored_type(node), x.shape)]


def infer_dequantize(node: Node, context: InferContext) -> list[TensorType]:
    LINEAR[node.op].expression(node)
    x, scale = expect(node, 0, STORED | {DType.int32}), expect(node, 1, SCALES)
    _check_scale(node)
    zero = optional_type(node, 2)
    if zero is not None and zero.dtype is not x.dtype:
        fail(node, f"the zero point is {zero.dtype.name}, the input {x.dtype.name}")
    dtype = output_dtype(node) or scale.dtype
    if dtype not in REAL:
        fail(node, f"{node.op} cannot make {dtype.name}: output_dtype says what it makes", "E102")
    return [TensorType(dtype, x.shape)]


def block_of(node: Node) -> int:
    """The number of neighbours that share a scale, at most those of the axis where that is known; 0 without blocks."""
    x, block = type_of(node, 0), attribute(node, "block_size", 0)
    size = x.dims[axis_of(node, attribute(node, "axis", 1), len(x.dims))] if block else 0
    return min(block, max(size, 1)) if isinstance(size, int) else block


def spread(node: Node, parameter: Array) -> Array:
    """A constant scale or zero point of a QuantizeLinear or DequantizeLinear in a shape that broadcasts to the first
    input's."""
    x = type_of(node, 0)
    if parameter.size == 1:
        return parameter.reshape((1,) * len(x.dims))
    axis = axis_of(node, attribute(node, "axis", 1), len(x.dims))
    block = block_of(node)
    if block:
        return np.repeat(parameter, block, axis)[(slice(None),) * axis + (slice(0, x.dims[axis]),)]
    return parameter.reshape([-1 if index == axis else 1 for index in range(len(x.dims))])


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
            expect(node, index, {DType.float32} if node.op == "QLinearConv" else REAL)
    if node.op == "QLinearConv" and node.input(8) is not None:
        expect(node, 8, {DType.int32})
    product = in_float(node)
    try:
        (type,) = (infer_matmul if product.op == "MatMul" else infer_conv)(product, context)
    except ModelError as error:
        message = error.message.replace("float32[", "[").replace(product.op, node.op)
        raise ModelError(error.code, message, op=node.op, node=node.name, hint=error.hint) from None
    _check_parameters(node)
    return [replace(type, dtype=result)]


def _check_parameters(node: Node) -> None:
    """Scales and zero points are one number, or one a row of the left or a column of the right factor."""
    (a, b), zeros, output = ZERO_POINTS[node.op]
    is_matrix = "MatMul" in node.op
    left, right = type_of(node, a), type_of(node, b)
    rows = left.dims[-2] if is_matrix and left.rank is not None and left.rank > 1 else 1
    columns: Dim = 1
    if right.shape:
        columns = right.dims[0] if not is_matrix else right.dims[-1] if len(right.shape) > 1 else 1
    scales = () if output is None else ((a + 1, rows), (b + 1, columns), (output - 1, rows), (output, rows))
    for index, count in ((zeros[0], rows), (zeros[1], columns), *scales):
        type = optional_type(node, index)
        if type is None or type.shape is None or all(size == 1 for size in type.shape):
            continue
        if len(type.shape) > 1 and is_matrix:
            continue  # one for each matrix of a batch
        if len(type.shape) > 1 or differ(type.shape[0], count):
            fail(node, f"input {index} is {show(type)}, one number or {count} are needed")


def has_packed_weights(node: Node, operands: Sequence[Value | None]) -> bool:
    """Whether kernels can pack the weights of a MatMulInteger or ConvInteger: these are constant, of one matrix, or of
    two axes at most, and int8 holds them (:func:`signed_weights`). The other factor has one zero point, which may be
    computed. ``operands`` are the node's inputs, or what they stand for outside a fused node's body."""
    left, right, left_zero, zero = (operands[index] if index < len(operands) else None for index in range(4))
    if not node.is_op("MatMulInteger", "ConvInteger") or left is None or right is None or right.data is None:
        return False
    if (left_zero is not None and left_zero.type.elements != 1) or (zero is not None and zero.data is None):
        return False
    fits = right.data.ndim <= 4 if node.is_op("ConvInteger") else right.data.ndim == 2 and (left.type.rank or 0) > 1
    points = np.zeros(1) if zero is None or zero.data is None else zero.data
    is_in_the_middle = bool((points == (128 if right.dtype is DType.uint8 else 0)).all())
    return fits and (is_in_the_middle or signed_weights(node, operands) is not None)


def signed_weights(node: Node, operands: Sequence[Value | None]) -> Array | None:
    """The constant weights of a MatMulInteger or ConvInteger less their zero point as int8, in their ONNX shape; None
    where int8 does not hold them."""
    right, zero = operands[1], operands[3] if len(operands) > 3 else None
    assert right is not None and right.data is not None
    points = np.zeros((), np.int16) if zero is None or zero.data is None else zero.data.astype(np.int16)
    if node.is_op("ConvInteger"):  # one for all, or for each output channel
        points = points.reshape(-1, *[1] * (right.data.ndim - 1))
    numbers = right.data.astype(np.int16) - points
    fits = numbers.size == 0 or (numbers.min() >= -128 and numbers.max() <= 127)
    return numbers.astype(np.int8) if fits else None


def cost_product(node: Node) -> Cost:
    product = in_float(node)
    return Cost((cost_matmul if product.op == "MatMul" else cost_conv)(product).flops, traffic(node))


# ---- declarations


def cost_linear(node: Node) -> Cost:
    definition = LINEAR[node.op]
    return Cost(dim(node.output.type.elements * e.flops(definition.expression(node))), traffic(node))


#: The operators that change between a tensor and its quantised form.
LINEAR = {
    definition.name: definition
    for definition in (
        Linear("QuantizeLinear", infer_quantize, cost_linear, EXACT, (10, OPSET), build=quantized),
        Linear("DequantizeLinear", infer_dequantize, cost_linear, ROUNDED, (10, OPSET), build=dequantized),
    )
}

register(
    *LINEAR.values(),
    OpDef("DynamicQuantizeLinear", infer_dynamic_quantize, cost_dynamic_quantize, EXACT, (11, OPSET)),
    *(OpDef(name, infer_product, cost_product, EXACT, (10, OPSET)) for name in ZERO_POINTS),
)
