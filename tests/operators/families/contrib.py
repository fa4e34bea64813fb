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


op("FusedMatMul", "FusedMatMul", (2, 3, 4), (2, 4, 5), alpha=0.5)
op("FusedMatMul, both transposed", "FusedMatMul", (2, 4, 3), (2, 5, 4), transA=1, transB=1)
op("FusedMatMul of a constant", "FusedMatMul", (2, 3, 4), W((5, 4)), transB=1, alpha=2.0)
op("FusedConv, Relu", "FusedConv", (1, 3, 5, 5), W((4, 3, 3, 3)), W((4,)), activation="Relu", pads=[1, 1, 1, 1])
op("FusedConv, Z, Clip", "FusedConv", (1, 3, 5, 5), W((4, 3, 1, 1)), W((4,)), (1, 4, 5, 5), activation="Clip",
   activation_params=[-0.5, 0.5])  # fmt: skip
op("FusedGemm", "FusedGemm", (2, 3), W((3, 4)), W((4,)), activation="LeakyRelu", activation_alpha=0.3, alpha=0.5)
op("FusedGemm, Relu", "FusedGemm", (2, 3), W((4, 3)), W((4,)), activation="Relu", transB=1)
op("Gelu", "Gelu", (3, 9))
op("BiasGelu", "BiasGelu", (3, 9), W((9,)))
op("FastGelu", "FastGelu", (3, 9))
op("FastGelu of a sum", "FastGelu", (3, 9), W((9,)))
op("QuickGelu", "QuickGelu", (3, 9), alpha=1.5)

# ---- normalisation
skip = "SkipLayerNormalization"
op(skip, skip, (2, 3, 8), (2, 3, 8), W((8,)), W((8,)), W((8,)), epsilon=1e-5)
op(f"{skip}, sum too", skip, (2, 3, 8), (2, 3, 8), W((8,)), W((8,)), outputs=[True, False, False, True])
op(f"{skip} without beta", skip, (2, 3, 8), (2, 3, 8), W((8,)))
skip = "SkipSimplifiedLayerNormalization"
op(skip, skip, (2, 3, 8), (2, 3, 8), W((8,)), outputs=[True, False, False, True], epsilon=1e-3)
op("SimplifiedLayerNormalization", "SimplifiedLayerNormalization", (2, 3, 8), W((8,)), domain="", epsilon=1e-4)
embed = "EmbedLayerNormalization"
IDS = np.array([[3, 1, 4, 1], [5, 2, 6, 0]], np.int32)
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 1, 0]], np.int32)
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
TABLES = W((7, 8)), W((6, 8)), W((2, 8)), W((8,)), W((8,))
op(embed, embed, IDS, SEGMENTS, *TABLES, MASK, outputs=2)
op(f"{embed} without segments", embed, IDS, None, *TABLES[:2], None, *TABLES[3:], None, SEGMENTS + 2, outputs=2)
