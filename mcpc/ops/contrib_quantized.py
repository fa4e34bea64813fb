"""ONNX Runtime's quantised operators (domain com.microsoft), see :mod:`mcpc.ops.contrib`: with their results in float
or quantised again, they are ONNX's integer products and its operators on what DequantizeLinear gives."""

from __future__ import annotations

from collections.abc import Sequence

from mcpc.ir import DType, Value
from mcpc.ops.context import attribute, fail
from mcpc.ops.contrib import Expansion, stands_for


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


@stands_for("QLinearSigmoid", "QLinearLeakyRelu", "QLinearReduceMean", "QLinearAveragePool")
def unary(e: Expansion) -> Sequence[Value | None]:
    if attribute(e.node, "channels_last", 0):
        e.refuse("channels_last")
    attrs = {name: value for name, value in e.node.attrs.items() if name not in ("channels_last", "axes")}
    axes = [e.ints(*e.node.attrs["axes"])] if "axes" in e.node.attrs else []
    result = e(e.node.op.removeprefix("QLinear"), _real(e, 0), *axes, **attrs)
    return _stored(e, result, e.input(3), e.node.input(4), e.input(0))


@stands_for("QLinearSoftmax")
def softmax(e: Expansion) -> Sequence[Value | None]:
    """Before opset 13 all axes from ``axis`` on are one."""
    x, rank = e.input(0), e.input(0).type.rank
    axis = attribute(e.node, "axis", -1)
    if attribute(e.node, "opset", 13) < 13 and rank is not None and axis % rank != rank - 1:
        e.refuse("an axis that stands for several")
    return _stored(e, e("Softmax", _real(e, 0), axis=axis), e.input(3), e.node.input(4), x)


@stands_for("QLinearGlobalAveragePool")
def global_pool(e: Expansion) -> Sequence[Value | None]:
    x, rank = _real(e, 0), e.input(0).type.rank
    is_last = attribute(e.node, "channels_last", 0)
    if is_last:
        if rank is None:
            fail(e.node, "the rank of the input is not known", "E108")
        x = e("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])
    result = e("GlobalAveragePool", x)
    if is_last and rank is not None:
        result = e("Transpose", result, perm=[0, *range(2, rank), 1])
    return _stored(e, result, e.input(3), e.node.input(4), e.input(0))


@stands_for("QLinearConcat")
def concat(e: Expansion) -> Sequence[Value | None]:
    parts = [_real(e, index) for index in range(2, len(e.node.inputs), 3)]
    return _stored(e, e("Concat", *parts, axis=attribute(e.node, "axis", 0)), e.input(0), e.node.input(1), e.input(2))


@stands_for("QLinearWhere")
def where(e: Expansion) -> Sequence[Value | None]:
    result = e("Where", e.input(0), _real(e, 1), _real(e, 4))
    return _stored(e, result, e.input(7), e.node.input(8), e.input(1))


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
