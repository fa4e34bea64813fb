"""LayerNormalization and RMSNormalization: axes, scales and biases of every shape, rows that are hard to sum;
BatchNormalization that trains."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, Family
from ..graphs import Weight as W

FAMILY = Family("normalization")
op = FAMILY.op
case = FAMILY.graph

CANCELS = {"judges": (ONNX,), "because": "ONNX Runtime subtracts the square of the mean"}

for length in (1, 7, 8, 32, 77, 384):
    op(f"LayerNormalization of {length}", "LayerNormalization", (5, length), W((length,)), W((length,)))
    op(f"RMSNormalization of {length}", "RMSNormalization", (5, length), W((length,)))
for axis in (-3, 1, 2, -1, 0):
    dims = (2, 3, 5)[axis:] if axis else (2, 3, 5)
    op(f"LayerNormalization, axis {axis}", "LayerNormalization", (2, 3, 5), dims, dims, outputs=3, axis=axis)
    op(f"RMSNormalization, axis {axis}", "RMSNormalization", (2, 3, 5), W(dims), axis=axis, epsilon=0.1)
op("LayerNormalization without bias", "LayerNormalization", (2, 3, 20), (20,), epsilon=1e-3)
op("LayerNormalization, scalar scale", "LayerNormalization", (4, 9), W((1,)), W((9,)))
op("LayerNormalization, scale of some of the axes", "LayerNormalization", (2, 3, 5), W((5,)), W((3, 1)), axis=1)
op("RMSNormalization, scale by row", "RMSNormalization", (2, 3, 5), (2, 3, 1))
op("RMSNormalization, scale by row and column", "RMSNormalization", (3, 5), (3, 5))
FAR = np.array([[1e4 + 1, 1e4 + 2, 1e4 - 3, 1e4], [0, 0, 0, 0], [1e-20, -1e-20, 2e-20, 0]], np.float32)
op("LayerNormalization of rows far from zero", "LayerNormalization", FAR, W((4,)), case=CANCELS)
ROWS = np.array(
    [[1e18, 2e18, -1e18, 0], [1e-20, 2e-20, -3e-20, 0], [0, 0, 0, 0], [1, -np.inf, 2, 3], [1, np.nan, 2, 3]]
)
op("RMSNormalization of huge and tiny rows", "RMSNormalization", ROWS.astype(np.float32), W((4,)), epsilon=1e-6)
case("LayerNormalization, statistics only", lambda g: g("LayerNormalization", (3, 9), W((9,)), outputs=3)[1:])
case("LayerNormalization, its result once more and Gelu", lambda g: g("Gelu", g(
    "Add", g("LayerNormalization", (2, 3, 33), W((33,)), W((33,))), (2, 3, 33))))  # fmt: skip
case("LayerNormalization, scaled and shifted by batch", lambda g: g("Add", g(
    "Mul", g("LayerNormalization", (2, 3, 12), W((12,))), (2, 1, 12)), (2, 1, 12)))  # fmt: skip
case("LayerNormalization and its mean, added", lambda g: g("Add", *g(
    "LayerNormalization", (2, 3, 12), W((12,)), outputs=2)))  # fmt: skip

TRAINS = {"judges": (ONNX,), "because": "ONNX Runtime does not train"}
for rank in range(2, 6):
    sizes = (3, 5, 4, 2, 3)[:rank]
    op(f"BatchNormalization of the batch, rank {rank}", "BatchNormalization", sizes, (5,), (5,), W((5,)),
       W(np.arange(5, dtype=np.float32)), outputs=3, training_mode=1, momentum=0.75, case=TRAINS)  # fmt: skip
op("BatchNormalization of the batch, nothing else", "BatchNormalization", (2, 5, 3), *[W((5,))] * 4, epsilon=0.1,
   training_mode=1, case=TRAINS)  # fmt: skip
