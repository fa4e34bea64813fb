"""ONNX Runtime's quantised operators (domain com.microsoft), see :mod:`mcpc.ops.contrib`: with their results in float
or quantised again, they are ONNX's integer products and its operators on what DequantizeLinear gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mcpc.ir import DType, Value
from mcpc.ops.context import attribute, fail
from mcpc.ops.contrib import Expansion, embedded, stands_for
from mcpc.ops.contrib_attention import projected_attention


def _given(*inputs: Value | None) -> list[Value]:
    """Inputs without those that are left out at the end."""
    return [value for value in inputs if value is not None]


@stands_for("QuantizeLinear", "DequantizeLinear")
def linear(e: Expansion) -> Sequence[Value | None]:
    return [e(e.node.op, *_given(*e.node.inputs), **e.node.attrs)]


# ---- operators between DequantizeLinear and QuantizeLinear


def _real(e: Expansion, first: int) -> Value:
    """Inputs ``first``: stored numbers, scale, zero point."""
    return e("DequantizeLinear", *_given(e.input(first), e.input(first + 1), e.node.input(first + 2)))


def _stored(e: Expansion, real: Value, scale: Value, zero: Value | None, like: Value) -> list[Value | None]:
    """``real`` quantised to the type of ``like``."""
    return [e("QuantizeLinear", real, scale, e.scalar(0, like) if zero is None else zero)]


@stands_for("QLinearAdd", "QLinearMul")
def binary(e: Expansion) -> Sequence[Value | None]:
    result = e(e.node.op.removeprefix("QLinear"), _real(e, 0), _real(e, 3))
    return _stored(e, result, e.input(6), e.node.input(7), e.input(0))


@stands_for("QLinearSigmoid", "QLinearLeakyRelu", "QLinearReduceMean")
def unary(e: Expansion) -> Sequence[Value | None]:
    attrs = dict(e.node.attrs)
    axes = [e.ints(*map(int, attrs.pop("axes")))] if "axes" in attrs else []
    result = e(e.node.op.removeprefix("QLinear"), _real(e, 0), *axes, **attrs)
    return _stored(e, result, e.input(3), e.node.input(4), e.input(0))


@stands_for("QLinearSoftmax")
def softmax(e: Expansion) -> Sequence[Value | None]:
    """Before opset 13 all axes from ``axis`` on are one."""
    x, axis = _real(e, 0), attribute(e.node, "axis", -1)
    if attribute(e.node, "opset", 13) < 13:
        result = e("Reshape", e("Softmax", e("Flatten", x, axis=axis), axis=-1), e("Shape", x))
    else:
        result = e("Softmax", x, axis=axis)
    return _stored(e, result, e.input(3), e.node.input(4), e.input(0))


@stands_for("QLinearConcat")
def concat(e: Expansion) -> Sequence[Value | None]:
    parts = [_real(e, index) for index in range(2, len(e.node.inputs), 3)]
    return _stored(e, e("Concat", *parts, axis=attribute(e.node, "axis", 0)), e.input(0), e.node.input(1), e.input(2))


@stands_for("QLinearWhere")
def where(e: Expansion) -> Sequence[Value | None]:
    result = e("Where", e.input(0), _real(e, 1), _real(e, 4))
    return _stored(e, result, e.input(7), e.node.input(8), e.input(1))


# ---- images, which may lie channels-last


def _on_images(e: Expansion, x: Value, is_last: bool, compute: Callable[[Value], Value]) -> Value:
    """``compute`` of images whose channels are axis 1, for such whose channels are the last axis."""
    rank = x.type.rank
    if not is_last:
        return compute(x)
    if rank is None:
        fail(e.node, f"the rank of %{x.name} is not known", "E108")
    result = compute(e("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]))
    return e("Transpose", result, perm=[0, *range(2, rank), 1])


@stands_for("QLinearAveragePool", "QLinearGlobalAveragePool")
def average_pool(e: Expansion) -> Sequence[Value | None]:
    attrs = dict(e.node.attrs)
    is_last, op = bool(attrs.pop("channels_last", 0)), e.node.op.removeprefix("QLinear")
    result = _on_images(e, _real(e, 0), is_last, lambda x: e(op, x, **attrs))
    return _stored(e, result, e.input(3), e.node.input(4), e.input(0))


@stands_for("NhwcMaxPool")
def max_pool(e: Expansion) -> Sequence[Value | None]:
    return [_on_images(e, e.input(0), True, lambda x: e("MaxPool", x, **e.node.attrs))]


@stands_for("QLinearConv")
def conv(e: Expansion) -> Sequence[Value | None]:
    attrs = dict(e.node.attrs)
    is_last = bool(attrs.pop("channels_last", 0))
    return [_on_images(e, e.input(0), is_last, lambda x: e("QLinearConv", x, *e.node.inputs[1:], **attrs))]


@stands_for("QEmbedLayerNormalization")
def embed(e: Expansion) -> Sequence[Value | None]:
    """Tables, scale and bias are inputs 2 to 6, their scales 8 to 12, their zero points 13 to 17."""
    given = [(e.node.input(at), e.node.input(at + 6), e.node.input(at + 11)) for at in range(2, 7)]
    return embedded(e, [None if table[0] is None else e("DequantizeLinear", *_given(*table)) for table in given], None)


# ---- products


def _scaled(e: Expansion, sums: Value, scales: Sequence[Value], bias: Value | None) -> Value:
    """Sums of an integer product in float."""
    result = e("Mul", e("Cast", sums, to=DType.float32), e("Mul", *scales))
    return result if bias is None else e("Add", result, bias)


@stands_for("MatMulIntegerToFloat")
def matmul_to_float(e: Expansion) -> Sequence[Value | None]:
    sums = e("MatMulInteger", e.input(0), e.input(1), e.node.input(4), e.node.input(5))
    return [_scaled(e, sums, [e.input(2), e.input(3)], e.node.input(6))]


@stands_for("DynamicQuantizeMatMul")
def dynamic_matmul(e: Expansion) -> Sequence[Value | None]:
    a, scale, zero = e.several("DynamicQuantizeLinear", 3, e.input(0))
    sums = e("MatMulInteger", a, e.input(1), zero, e.node.input(3))
    return [_scaled(e, sums, [scale, e.input(2)], e.node.input(4))]


@stands_for("QGemm")
def gemm(e: Expansion) -> Sequence[Value | None]:
    """alpha A' B' + C, where C counts in the product of the scales; in float where no scale of the output is given."""
    a, b = (
        e("Transpose", e.input(i), perm=[1, 0]) if attribute(e.node, f"trans{'AB'[i // 3]}", 0) else e.input(i)
        for i in (0, 3)
    )
    sums, c, alpha = e("MatMulInteger", a, b, e.node.input(2), e.node.input(5)), e.node.input(6), e.number("alpha", 1.0)
    sums = sums if c is None else e("Add", sums, c)
    result = _scaled(e, sums, [e.input(1), e.input(4)], None)
    result = result if alpha == 1.0 else e("Mul", result, e.scalar(alpha, result))
    scale = e.node.input(7)
    return [result] if scale is None else _stored(e, result, scale, e.node.input(8), e.input(0))


@stands_for("QAttention")
def attention(e: Expansion) -> Sequence[Value | None]:
    """Attention of the quantised input and weights; queries, keys and values in float."""
    sums = e("MatMulInteger", e.input(0), e.input(1), e.node.input(6), e.node.input(7))
    qkv = _scaled(e, sums, [e.input(3), e.input(4)], e.input(2))
    return projected_attention(e, qkv, e.node.input(5), e.node.input(8))


# ---- recurrent networks


@stands_for("DynamicQuantizeLSTM")
def lstm(e: Expansion) -> Sequence[Value | None]:
    """An LSTM whose weights [directions, in, 4 hidden] are stored in bytes, computed in float: ONNX Runtime quantises
    the operands of each product anew, which costs it accuracy."""

    def weights(at: int, parameters: int) -> Value:
        """[directions, 4 hidden, in], with a scale for each direction, or each of its columns."""
        stored, scale, zero = (e.node.input(index) for index in (at, parameters, parameters + 1))
        data, factor = (None if value is None else value.data for value in (stored, scale))
        if data is None or factor is None or (zero is not None and zero.data is None):
            e.refuse("computed weights")
        point = 0 if zero is None or zero.data is None else zero.data.astype(np.float32).reshape(len(data), 1, -1)
        real = (data.astype(np.float32) - point) * factor.reshape(len(data), 1, -1)
        return e.graph.constant(f"{e.node.name}.weights", np.ascontiguousarray(real.transpose(0, 2, 1)))

    inputs = [e.input(0), weights(1, 8), weights(2, 10), *(e.node.input(index) for index in range(3, 8))]
    asked = [e.is_asked(index) for index in range(3)]
    made = iter(e.several("LSTM", asked, *inputs, **e.node.attrs))
    return [next(made) if is_asked else None for is_asked in asked]
