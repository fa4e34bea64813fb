"""ONNX Runtime's quantised operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcpc.ir import DType

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
few = "MatMulNBits"
for bits in (2, 4, 8):
    packed, zeros = W(ints(U8, 6, 3, 2 * bits, most=255)), W(ints(U8, 6, (3 * bits + 7) // 8, most=255))
    SCALES, BITS = W(scales(6, 3)), {"K": 40, "N": 6, "bits": bits, "block_size": 16}
    op(f"{few}, {bits} bits", few, (2, 3, 40), packed, SCALES, **BITS)
    op(f"{few}, {bits} bits, zero points", few, (5, 40), packed, SCALES, zeros, **BITS)
    op(f"{few}, {bits} bits, one row", few, (1, 40), packed, SCALES, zeros, None, W((6,)), **BITS)
op(f"{few}, bias", few, (5, 40), packed, SCALES, None, None, W((6,)), **BITS)
BITS = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
packed, SCALES = W(ints(U8, 6, 2, 16, most=255)), W(scales(6, 2))
op(f"{few}, zero points of float", few, (3, 64), packed, SCALES, W(np.float32([[7, 8], [0, 15]] * 3)), **BITS)
op(f"{few}, zero points between integers", few, (2, 3, 64), packed, SCALES,
   W(ints(U8, 6, 2, most=15) + np.float32(0.3)), **BITS)  # fmt: skip
ROWS = np.arange(64, dtype=np.int32)
op(f"{few}, rows of blocks", few, (3, 64), packed, SCALES, None, W(ROWS % 2), **BITS)
op(f"{few}, rows of blocks in order", few, (3, 64), packed, SCALES, None, W(ROWS // 32), **BITS)
op(f"{few}, integers allowed", few, (3, 64), packed, SCALES, **BITS, accuracy_level=1)
pick = "GatherBlockQuantized"
IDS, TABLE = np.array([[5, 0, 3], [1, 1, 4]]), W(scales(6, 2))
for bits in (4, 8):
    table = W(ints(U8, 6, 4 * bits, most=255))
    op(f"{pick}, {bits} bits", pick, table, IDS, TABLE, bits=bits, block_size=16)
    op(f"{pick}, {bits} bits, zero points", pick, table, IDS, TABLE, W(ints(U8, 6, bits // 4, most=255)), bits=bits,
       block_size=16)  # fmt: skip
for dtype in ("int4", "uint4"):
    table, zeros = (W(ints(U8, 6, size, most=7).astype(DType[dtype].numpy)) for size in (32, 2))
    op(f"{pick} of {dtype}", pick, table, IDS, TABLE, block_size=16)
    op(f"{pick} of {dtype}, zero points", pick, table, IDS.astype(np.int32), TABLE, zeros, block_size=16)
