"""ONNX Runtime's quantised operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ORT, Family
from ..graphs import Array
from ..graphs import Weight as W
from .quantize import I8, U8, ints, scalar, scales

FAMILY = Family("contrib quantised")


def op(name: str, op: str, *operands: Any, **options: Any) -> None:
    case = {"judges": (ORT,), "because": "onnx.reference knows ONNX's operators only", "tolerance": 1e-5}
    FAMILY.op(name, op, *operands, case=case, domain="com.microsoft", **options)


def linear(x: Array, scale: float, zero: int) -> tuple[Any, ...]:
    return x, scalar(scale), scalar(zero, x.dtype)


for dtype in (U8, I8):
    name = np.dtype(dtype).name
    a, b, out = (
        linear(ints(dtype, 2, 9), 0.0213, 3),
        linear(ints(dtype, 9), 0.0307, 7),
        (scalar(0.0571), scalar(5, dtype)),
    )
    op(f"QLinearAdd of {name}", "QLinearAdd", *a, *b, *out)
    op(f"QLinearMul of {name}", "QLinearMul", *a, *b, *out)
    op(f"QLinearSigmoid of {name}", "QLinearSigmoid", *a, scalar(1 / 255), scalar(0, dtype))
    op(f"QLinearLeakyRelu of {name}", "QLinearLeakyRelu", *a, *out, alpha=0.2)
    op(f"QuantizeLinear to {name}", "QuantizeLinear", (2, 9), *out)
    op(f"DequantizeLinear of {name}", "DequantizeLinear", *a)
    image = linear(ints(dtype, 2, 3, 6, 6), 0.0213, 3)
    op(f"QLinearAveragePool of {name}", "QLinearAveragePool", *image, *out, kernel_shape=[2, 2], strides=[2, 2])
    op(f"QLinearGlobalAveragePool of {name}", "QLinearGlobalAveragePool", *image, *out)
op("QLinearGlobalAveragePool, channels last", "QLinearGlobalAveragePool", *linear(ints(U8, 2, 6, 6, 3), 0.0213, 3),
   scalar(0.01), scalar(4, U8), channels_last=1)  # fmt: skip
op("QLinearConcat", "QLinearConcat", scalar(0.03), scalar(2, U8), *linear(ints(U8, 2, 3), 0.02, 1),
   *linear(ints(U8, 2, 4), 0.05, 9), axis=1)  # fmt: skip
FAMILY.graph(
    "QLinearSoftmax",
    lambda g: g(
        "DequantizeLinear",
        g(
            "QLinearSoftmax",
            *(*linear(ints(U8, 3, 9), 0.05, 9), scalar(1 / 255), scalar(0, U8)),
            domain="com.microsoft",
            axis=1,
            opset=13,
        ),
        scalar(1 / 255),
    ),
    judges=(ORT,),
    because="ONNX Runtime's exponentials are a table: a step more or less",
    tolerance=0.01,
)
op("QLinearWhere", "QLinearWhere", np.array([True, False, True]), *linear(ints(U8, 3), 0.02, 1),
   *linear(ints(U8, 2, 3), 0.05, 9), scalar(0.06), scalar(3, U8))  # fmt: skip

# ---- products
X = ints(U8, 3, 12)
op("MatMulIntegerToFloat", "MatMulIntegerToFloat", X, W(ints(I8, 12, 9, most=60)), scalar(0.02), W(scales(9)),
   scalar(5, U8), W(np.zeros(9, I8)), W((9,)))  # fmt: skip
op("DynamicQuantizeMatMul", "DynamicQuantizeMatMul", (3, 12), W(ints(I8, 12, 9, most=60)), W(scales(9)),
   W(np.zeros(9, I8)), W((9,)))  # fmt: skip
op(
    "DynamicQuantizeMatMul, one scale",
    "DynamicQuantizeMatMul",
    (3, 12),
    W(ints(U8, 12, 9)),
    scalar(0.02),
    scalar(9, U8),
)
GEMM = (
    X,
    scalar(0.02),
    scalar(5, U8),
    W(ints(U8, 9, 12)),
    scalar(0.03),
    scalar(7, U8),
    W(np.arange(9, dtype=np.int32)),
)
op("QGemm", "QGemm", *GEMM, scalar(0.4), scalar(9, U8), transB=1)
op("QGemm in float", "QGemm", *GEMM, transB=1, alpha=0.5)

# ---- weights of few bits: N 6, K 40 in blocks of 16
for bits in (2, 4, 8):
    count = 3
    packed = W(ints(U8, 6, count, 16 * bits // 8, most=255))
    zeros = W(ints(U8, 6, (count * bits + 7) // 8, most=255))
    attrs = {"K": 40, "N": 6, "bits": bits, "block_size": 16}
    op(f"MatMulNBits, {bits} bits", "MatMulNBits", (2, 3, 40), packed, W(scales(6, count)), **attrs)
    op(f"MatMulNBits, {bits} bits, zero points", "MatMulNBits", (5, 40), packed, W(scales(6, count)), zeros, **attrs)
op("MatMulNBits, bias", "MatMulNBits", (5, 40), packed, W(scales(6, count)), None, None, W((6,)), **attrs)
