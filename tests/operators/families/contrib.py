"""ONNX Runtime's own operators, as its optimiser saves them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ORT, Family
from ..graphs import Weight as W

FAMILY = Family("contrib")


def op(name: str, op: str, *operands: Any, domain: str = "com.microsoft", **options: Any) -> None:
    case = {"judges": (ORT,), "because": "onnx.reference knows ONNX's operators only", "tolerance": 1e-4}
    FAMILY.op(name, op, *operands, case=case, domain=domain, **options)


# ---- products
matmul = "FusedMatMul"
op(matmul, matmul, (2, 3, 4), (2, 4, 5), alpha=0.5)
op(f"{matmul}, both transposed", matmul, (2, 4, 3), (2, 5, 4), transA=1, transB=1)
op(f"{matmul} of a constant", matmul, (2, 3, 4), W((5, 4)), transB=1, alpha=2.0)
op(f"{matmul}, batches of both inside", matmul, (3, 2, 6, 4), (4, 2, 6, 5), transBatchA=1, transBatchB=1)
op(f"{matmul}, batches of A inside, transposed", matmul, (4, 2, 3), (2, 4, 5), transBatchA=1, transA=1)
op(f"{matmul}, batches of B inside, transposed", matmul, (2, 3, 4), (5, 2, 4), transBatchB=1, transB=1)
op(f"{matmul}, a vector", matmul, (4,), (2, 4, 5), alpha=0.5)
op(f"{matmul}, broadcast", matmul, (2, 1, 4, 3), (3, 4, 5), transA=1)
op(f"{matmul}, float64", matmul, np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(5, 4), transB=1, alpha=0.5)
op("TransposeMatMul", "TransposeMatMul", (2, 4, 3), (2, 4, 5), transA=1)
conv = "FusedConv"
IMAGE = (1, 3, 5, 5), W((4, 3, 3, 3)), W((4,))
op(f"{conv}, Relu", conv, *IMAGE, activation="Relu", pads=[1, 1, 1, 1])
op(f"{conv}, Z, Clip", conv, (1, 3, 5, 5), W((4, 3, 1, 1)), W((4,)), (1, 4, 5, 5), activation="Clip",
   activation_params=[-0.5, 0.5])  # fmt: skip
op(f"{conv}, Z, Relu", conv, *IMAGE, (1, 4, 3, 3), activation="Relu")
op(f"{conv}, Tanh", conv, *IMAGE[:2], activation="Tanh", strides=[2, 2])
op(f"{conv}, Sigmoid", conv, *IMAGE, activation="Sigmoid", auto_pad="SAME_UPPER")
op(f"{conv}, LeakyRelu", conv, *IMAGE, activation="LeakyRelu", activation_params=[0.2])
op(f"{conv}, HardSigmoid", conv, *IMAGE, activation="HardSigmoid", activation_params=[0.3, 0.4])
op(f"{conv}, groups", conv, (1, 4, 5, 5), W((4, 1, 3, 3)), W((4,)), activation="Relu", group=4)
gemm = "FusedGemm"
op(gemm, gemm, (2, 3), W((3, 4)), W((4,)), activation="LeakyRelu", activation_alpha=0.3, alpha=0.5)
op(f"{gemm}, Relu", gemm, (2, 3), W((4, 3)), W((4,)), activation="Relu", transB=1)
op(f"{gemm}, transposed, without C", gemm, (3, 2), W((3, 4)), activation="Sigmoid", transA=1)
for name, params in {
    "Tanh": {}, "Softplus": {}, "Softsign": {}, "Elu": {"activation_alpha": 0.7},
    "ThresholdedRelu": {"activation_alpha": 0.2}, "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
    "Selu": {"activation_alpha": 1.5, "activation_gamma": 1.1}, "LeakyRelu": {"activation_alpha": 0.2},
}.items():  # fmt: skip
    op(f"{gemm}, {name}", gemm, (2, 3), W((3, 4)), (2, 4), activation=name, beta=0.5, **params)
op("MatMulInteger16", "MatMulInteger16", np.array([[3000, -7], [5, 30000]], np.int16),
   np.array([[1, 2], [-30000, 4]], np.int16))  # fmt: skip

# ---- activations
op("Gelu", "Gelu", (3, 9))
op("BiasGelu", "BiasGelu", (3, 9), W((9,)))
op("FastGelu", "FastGelu", (3, 9))
op("FastGelu of a sum", "FastGelu", (3, 9), W((9,)))
op("QuickGelu", "QuickGelu", (3, 9), alpha=1.5)
op("QuickGelu, usual", "QuickGelu", (3, 9))

# ---- normalisation
skip = "SkipLayerNormalization"
X, ROW = (2, 3, 8), W((8,))
op(skip, skip, X, X, ROW, W((8,)), W((8,)), epsilon=1e-5)
op(f"{skip}, sum too", skip, X, X, ROW, W((8,)), outputs=[True, False, False, True])
op(f"{skip}, sum with bias too", skip, X, X, ROW, None, W((8,)), outputs=[True, False, False, True])
op(f"{skip} without beta", skip, X, X, ROW)
op(f"{skip}, one for all", skip, X, (1, 3, 8), ROW, W((8,)))
op(f"{skip}, one of rank 2", skip, X, (3, 8), ROW, W((8,)))
op(f"{skip}, rank 2", skip, (3, 8), (3, 8), ROW, W((8,)))
rms = "SkipSimplifiedLayerNormalization"
op(rms, rms, X, X, ROW, outputs=[True, False, False, True], epsilon=1e-3)
op(f"{rms}, bias", rms, X, X, ROW, W((8,)), outputs=[True, False, False, True])
op(f"{rms}, rank 2", rms, (3, 8), (3, 8), ROW)
rms = "SimplifiedLayerNormalization"
op(rms, rms, X, ROW, domain="", epsilon=1e-4)
op(f"{rms}, two axes", rms, X, W((3, 8)), domain="", axis=1)
op(f"{rms}, deviation too", rms, X, ROW, domain="", outputs=2)
embed = "EmbedLayerNormalization"
IDS = np.array([[3, 1, 4, 1], [5, 2, 6, 0]], np.int32)
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 1, 0]], np.int32)
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
TABLES = W((7, 8)), W((6, 8)), W((2, 8)), W((8,)), W((8,))
op(embed, embed, IDS, SEGMENTS, *TABLES, MASK, outputs=2)
op(f"{embed} without segments", embed, IDS, None, *TABLES[:2], None, *TABLES[3:], None, SEGMENTS + 2, outputs=2)
op(f"{embed}, positions of all", embed, IDS, SEGMENTS, *TABLES, MASK, np.array([[5, 0, 2, 1]], np.int32), outputs=2)
op(f"{embed} without mask", embed, IDS, SEGMENTS, *TABLES, outputs=2)
op(f"{embed}, sum too", embed, IDS, SEGMENTS, *TABLES, MASK, outputs=3)

# ---- what ai.onnx took over later
op("Trilu", "Trilu", (2, 4, 5))
op("Trilu, lower", "Trilu", (4, 5), W(np.array(1)), upper=0)
op("GatherND", "GatherND", (3, 4), np.array([[0, 1], [2, 3], [1, -1]]))
op("GatherND, int32", "GatherND", (3, 4), np.array([[0], [2]], np.int32))
op("Range", "Range", *(W(np.array(number, np.float32)) for number in (1, 7, 2)))
op("Range of vectors", "Range", W(np.array([2])), W(np.array([7])))
op("Pad", "Pad", (2, 3), W(np.array([1, 0, 2, 1])), W(np.float32([0.5])))
op("Pad, reflect", "Pad", (4, 5), W(np.array([1, 2, 2, 1])), mode="reflect")
op("Unique", "Unique", np.array([2, 1, 1, 3, 4, 3], np.float32), outputs=3)
op("ExpandDims", "ExpandDims", (2, 3), W(np.array(1, np.int32)))
op("CDist", "CDist", (4, 6), (5, 6), metric="sqeuclidean")
op("CDist, euclidean", "CDist", (4, 6), W((5, 6)), metric="euclidean")
for mode in ("bilinear", "nearest", "bicubic"):
    op(f"GridSample, {mode}", "GridSample", (1, 2, 4, 5), (1, 3, 3, 2), mode=mode, align_corners=1)
op("GridSample, border", "GridSample", (1, 2, 4, 5), (1, 3, 3, 2), padding_mode="border")
op("GridSample, reflection", "GridSample", (1, 2, 4, 5), (1, 3, 3, 2), padding_mode="reflection")
