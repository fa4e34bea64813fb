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


def op(name: str, op: str, *operands: Any, tolerance: float = 1e-5, **options: Any) -> None:
    case = {"judges": (ORT,), "because": "onnx.reference knows ONNX's operators only", "tolerance": tolerance}
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

for opset, axis in ((11, 1), (13, 0)):
    FAMILY.graph(
        f"QLinearSoftmax of opset {opset}",
        lambda g, opset=opset, axis=axis: g(
            "DequantizeLinear",
            g(
                "QLinearSoftmax",
                *(*linear(ints(U8, 3, 2, 4), 0.05, 9), scalar(1 / 255), scalar(0, U8)),
                domain="com.microsoft",
                axis=axis,
                opset=opset,
            ),
            scalar(1 / 255),
        ),
        judges=(ORT,),
        because="ONNX Runtime's exponentials are a table: a step more or less",
        tolerance=0.01,
    )
op("QLinearConcat of a constant", "QLinearConcat", scalar(0.03), scalar(2, U8), *linear(ints(U8, 2, 3), 0.02, 1),
   W(ints(U8, 2, 4)), scalar(0.05), scalar(9, U8), axis=1)  # fmt: skip

# ---- channels-last images
NHWC = linear(ints(U8, 2, 6, 6, 4), 0.0213, 3)
POOL: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "channels_last": 1}
op("QLinearAveragePool, channels last", "QLinearAveragePool", *NHWC, scalar(0.02), scalar(4, U8), **POOL)
op("QLinearAveragePool, channels last, ceiling", "QLinearAveragePool", *NHWC, scalar(0.02), scalar(4, U8), **POOL,
   pads=[1, 0, 1, 1], ceil_mode=1)  # fmt: skip
op("QLinearAveragePool, channels last, pads count", "QLinearAveragePool", *NHWC, scalar(0.02), scalar(4, U8), **POOL,
   pads=[1, 0, 1, 1], count_include_pad=1)  # fmt: skip
op("NhwcMaxPool", "NhwcMaxPool", NHWC[0], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
op("NhwcMaxPool of int8", "NhwcMaxPool", ints(I8, 2, 6, 6, 4), kernel_shape=[2, 2])
CONV = W(ints(I8, 5, 4, 3, 3, most=60)), W(scales(5)), W(np.zeros(5, I8)), scalar(0.3), scalar(7, U8)
op("QLinearConv, channels last", "QLinearConv", *NHWC, *CONV, W(np.arange(5, dtype=np.int32) * 50), channels_last=1,
   pads=[1, 1, 1, 1], strides=[2, 2])  # fmt: skip
op("QLinearConv, channels first", "QLinearConv", *linear(ints(U8, 2, 4, 6, 6), 0.0213, 3), *CONV)

# ---- other integers
for dtype, most in ((np.int16, 900), (np.uint16, 900), (DType.int4.numpy, 7), (DType.uint4.numpy, 15)):
    name, zero = np.dtype(dtype).name, W(np.array(3, dtype))
    op(f"DequantizeLinear of {name}", "DequantizeLinear", W(ints(U8, 2, 9, most=min(most, 7)).astype(dtype)),
       scalar(0.03), zero)  # fmt: skip
    FAMILY.graph(
        f"QuantizeLinear to {name} and back",
        lambda g, zero=zero: g(
            "DequantizeLinear",
            g("QuantizeLinear", (2, 9), scalar(0.21), zero, domain="com.microsoft"),
            *(scalar(0.21), zero),
            domain="com.microsoft",
        ),
        judges=(ORT,),
        because="onnx.reference knows ONNX's operators only",
    )
op("QuantizeLinear by axis", "QuantizeLinear", (2, 9), W(scales(9)), W(np.arange(9).astype(U8)), axis=1)
op("DequantizeLinear by axis", "DequantizeLinear", ints(I8, 2, 9), W(scales(2)), W(np.arange(2).astype(I8)), axis=0)

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

op("QGemm of int8", "QGemm", ints(I8, 3, 12), scalar(0.02), scalar(5, I8), W(ints(I8, 12, 9)), W(scales(9)),
   W(np.zeros(9, I8)), W(np.arange(9, dtype=np.int32)), scalar(0.4), scalar(-9, I8), alpha=0.5)  # fmt: skip
op("QGemm, A transposed, without C", "QGemm", ints(U8, 12, 3), scalar(0.02), scalar(5, U8), W(ints(U8, 12, 9)),
   scalar(0.03), scalar(7, U8), transA=1)  # fmt: skip
op("MatMulIntegerToFloat of batches", "MatMulIntegerToFloat", ints(U8, 2, 3, 12), W(ints(I8, 12, 9, most=60)),
   scalar(0.02), scalar(0.03), scalar(5, U8))  # fmt: skip
op("MatMulIntegerToFloat of two inputs", "MatMulIntegerToFloat", ints(I8, 3, 12), ints(I8, 12, 9), scalar(0.02),
   scalar(0.03))  # fmt: skip
op("DynamicQuantizeMatMul of batches", "DynamicQuantizeMatMul", (2, 3, 12), W(ints(I8, 12, 9, most=60)), W(scales(9)))

# ---- networks
QKV = W(ints(I8, 8, 24, most=60)), W((24,)), scalar(0.02)
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
op("QAttention", "QAttention", ints(U8, 2, 4, 8), *QKV, scalar(0.03), None, scalar(128, U8), scalar(0, I8), num_heads=2)
op("QAttention by column, mask", "QAttention", ints(U8, 2, 4, 8), *QKV, W(scales(24)), MASK, scalar(128, U8),
   W(np.zeros(24, I8)), num_heads=2)  # fmt: skip
op("QAttention, past", "QAttention", ints(U8, 2, 4, 8), *QKV, scalar(0.03), None, scalar(128, U8), None,
   (2, 2, 2, 3, 4), num_heads=2, unidirectional=1, outputs=2)  # fmt: skip
IDS = np.array([[3, 1, 4, 1], [5, 2, 6, 0]], np.int32)
TABLES = [W(ints(U8, *shape)) for shape in ((7, 8), (6, 8), (2, 8), (8,), (8,))]
op("QEmbedLayerNormalization", "QEmbedLayerNormalization", IDS, MASK, *TABLES, MASK,
   *(W(np.float32([0.02])) for _ in TABLES), *(W(np.array([9], U8)) for _ in TABLES), outputs=2)  # fmt: skip


def lstm(name: str, *parameters: Any, directions: int = 1, more: tuple[Any, ...] = (), **attrs: Any) -> None:
    """Sequences of 4 steps, 2 of them, of 5 numbers; 3 hidden ones."""
    shapes = (directions, 5, 12), (directions, 3, 12)
    operands = ((4, 2, 5), *(W(ints(I8, *shape, most=60)) for shape in shapes), *more, *[None] * (5 - len(more)))
    attrs |= {"hidden_size": 3, "outputs": 3, "tolerance": 0.03}
    op(f"DynamicQuantizeLSTM{name}", "DynamicQuantizeLSTM", *operands, *parameters, **attrs)


ONE = W(np.float32([0.02])), W(np.zeros(1, I8))
TWO = W(np.full((2, 12), 0.02, np.float32)), W(np.zeros((2, 12), I8))
lstm("", *ONE, *ONE)
lstm(", all inputs", *ONE, *ONE, more=(W((1, 24)), np.array([4, 2], np.int32), (1, 2, 3), (1, 2, 3), W((1, 9))))
lstm(", both directions by column", *TWO, *TWO, directions=2, direction="bidirectional")

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
HALF = np.random.default_rng(2).standard_normal((3, 64)).astype(np.float16)
op(f"{few}, float16", few, HALF, packed, W(scales(6, 2).astype(np.float16)), **BITS, tolerance=2e-3)
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
