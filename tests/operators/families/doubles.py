"""Operators of float64: the results have its digits, which a detour by float32 would lose."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("doubles")
RNG = np.random.default_rng(64)

#: ONNX Runtime computes few of them; where it does, its last digits may differ.
BOTH: dict[str, Any] = {"tolerance": 1e-13}
REFERENCE: dict[str, Any] = {"judges": (ONNX,), "because": "ONNX Runtime has no such kernel", **BOTH}
RUNTIME: dict[str, Any] = {"judges": (ORT,), "because": "ONNX's evaluator computes it in float32", **BOTH}


def draw(*shape: int) -> Array:
    return RNG.standard_normal(shape)


def weight(*shape: int) -> W:
    return W(draw(*shape))


def op(name: str, op: str, *operands: Any, case: dict[str, Any] = REFERENCE, **attrs: Any) -> None:
    FAMILY.op(f"{op}{name and ', '}{name}", op, *operands, case=case, **attrs)


# ---- convolutions
for rank, sizes in ((1, (9,)), (2, (6, 7)), (3, (3, 4, 5))):
    kernel = (3, 2, 3)[:rank]
    op(
        f"{rank}-D",
        "Conv",
        draw(2, 4, *sizes),
        weight(5, 4, *kernel),
        weight(5),
        strides=[2] * rank,
        pads=[1] * 2 * rank,
    )
    op(f"{rank}-D, groups", "Conv", draw(1, 4, *sizes), weight(6, 2, *kernel), group=2, dilations=[1] * rank)
    op(f"{rank}-D, computed weights", "Conv", draw(1, 4, *sizes), draw(6, 4, *kernel), draw(6))
    op(f"{rank}-D", "ConvTranspose", draw(1, 4, *sizes), weight(4, 3, *kernel), weight(3), strides=[2] * rank)
    op(f"{rank}-D, computed weights", "ConvTranspose", draw(1, 4, *sizes), draw(4, 3, *kernel), draw(3))
op("of one channel", "Conv", draw(1, 1, 6, 6), weight(2, 1, 3, 3))
op("depthwise", "Conv", draw(1, 19, 5, 5), weight(19, 1, 3, 3), group=19, pads=[1, 1, 1, 1])


def drawn(g: Graph, *shape: int) -> Array:
    """As :func:`draw`, whichever cases are run."""
    return g.draw(*shape).astype(np.float64) / 3


def added(g: Graph) -> str:
    conv = g("Conv", drawn(g, 1, 3, 6, 6), W(drawn(g, 4, 3, 3, 3)), W(drawn(g, 4)))
    return str(g("Add", g("Relu", conv), drawn(g, 4, 1, 1)))


FAMILY.graph("Conv, Relu, Add", added, **REFERENCE)

# ---- products
op("", "Gemm", draw(3, 5), weight(5, 17), weight(17), alpha=0.5, beta=2.0, case=BOTH)
op("transposed", "Gemm", draw(5, 3), draw(17, 5), draw(3, 1), transA=1, transB=1, case=BOTH)
op("of batches", "MatMul", draw(2, 1, 3, 5), draw(4, 5, 9), case=BOTH)
op("with a vector", "MatMul", draw(3, 5), weight(5), case=BOTH)

# ---- pools
for kind in ("MaxPool", "AveragePool", "LpPool"):
    case = BOTH if kind == "MaxPool" else REFERENCE
    op("", kind, draw(2, 35, 5, 6), kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 1, 0], case=case)
    op("1-D", kind, draw(1, 3, 9), kernel_shape=[3], case=case)
    op("3-D", kind, draw(1, 3, 4, 4, 5), kernel_shape=[2, 2, 3], case=case)
op("with indices", "MaxPool", draw(1, 9, 5, 5), outputs=2, kernel_shape=[2, 2], strides=[2, 2], case=BOTH)
op("with padding", "AveragePool", draw(1, 3, 5, 5), kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
op("of order 3", "LpPool", draw(1, 3, 5, 5), kernel_shape=[2, 2], p=3)
for kind in ("GlobalAveragePool", "GlobalMaxPool"):
    op("", kind, draw(2, 35, 3, 4))
op("", "MaxUnpool", draw(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2])

# ---- normalisation
op("", "LayerNormalization", draw(2, 3, 20), weight(20), weight(20), case=BOTH)
op("two axes", "LayerNormalization", draw(2, 3, 5), draw(3, 5), axis=1, epsilon=0.1, case=BOTH)
op("all results", "LayerNormalization", draw(2, 7), weight(7), outputs=3, case={**RUNTIME, "tolerance": 1e-6})
op("", "RMSNormalization", draw(2, 3, 20), weight(20))
op("", "InstanceNormalization", draw(2, 5, 4, 3), weight(5), weight(5))
op("", "GroupNormalization", draw(2, 6, 4, 3), weight(6), weight(6), num_groups=3, stash_type=11)
op("", "BatchNormalization", draw(2, 5, 4, 3), *[weight(5)] * 3, W(RNG.random(5)), case=BOTH)
op("inputs", "BatchNormalization", draw(2, 5), *[draw(5)] * 3, RNG.random(5), epsilon=0.5, case=BOTH)
op("of the batch", "BatchNormalization", draw(2, 5, 3), *[weight(5)] * 4, training_mode=1, outputs=3)
#: ONNX's evaluator counts items where it means channels: there are as many.
op("", "LRN", draw(7, 7, 3, 2), size=3, alpha=0.75)
op("of even size", "LRN", draw(9, 9, 4, 1), size=4, alpha=0.3, beta=0.6, bias=2.0)
op("", "LpNormalization", draw(3, 5))

# ---- attention
Q, K, V = draw(2, 4, 3, 8), draw(2, 2, 5, 8), draw(2, 2, 5, 6)
op("groups", "Attention", Q, K, V)
op("rank 3", "Attention", draw(2, 3, 16), draw(2, 5, 16), draw(2, 5, 12), q_num_heads=4, kv_num_heads=4)
op("causal", "Attention", *[draw(1, 2, 6, 4)] * 3, is_causal=1, scale=0.25)
op("softcap and mask", "Attention", Q, K, V, draw(3, 5), softcap=2.0)
op("bool mask, a row sees nothing", "Attention", Q, K, V, np.array([[1, 0, 1, 0, 1], [0] * 5, [1] * 5], bool))
op("past", "Attention", Q, K, V, draw(3, 9), draw(2, 2, 4, 8), draw(2, 2, 4, 6), outputs=3, is_causal=1)
for mode in range(4):
    asked = {"outputs": [True, False, False, True], "qk_matmul_output_mode": mode}
    op(f"scores {mode}", "Attention", Q, K, V, draw(2, 1, 3, 5), softcap=1.5 * bool(mode), **asked)
op("", "RotaryEmbedding", draw(2, 3, 5, 8), draw(6, 4), draw(6, 4), np.array([[0, 1, 2, 3, 5]] * 2))
op("interleaved", "RotaryEmbedding", draw(2, 3, 5, 8), draw(2, 5, 4), draw(2, 5, 4), interleaved=1)


# ---- images
for mode in ("nearest", "linear", "cubic"):
    for padding in ("zeros", "border", "reflection"):
        op(
            f"{mode}, {padding}",
            "GridSample",
            draw(2, 9, 4, 5),
            draw(2, 3, 4, 2),
            mode=mode,
            padding_mode=padding,
            case=RUNTIME,
        )
op("3-D", "GridSample", draw(1, 2, 3, 4, 5), draw(1, 2, 3, 2, 3), align_corners=1, case=RUNTIME)
ROIS = np.array([[0.5, 0.25, 3.5, 4], [1, 2, 7, 5.5]])
for kind in ("avg", "max"):
    op(kind, "RoiAlign", draw(2, 9, 6, 7), ROIS, np.array([1, 0]), output_height=2, output_width=3, mode=kind,
       sampling_ratio=2, spatial_scale=0.5)  # fmt: skip
op("2-D", "AffineGrid", draw(2, 2, 3), W(np.array([2, 3, 4, 5])), case=RUNTIME)
op("", "Col2Im", draw(1, 12, 16), W(np.array([5, 6])), W(np.array([2, 3])))


def network(g: Graph) -> str:
    """Layouts meet."""
    x = g("Conv", drawn(g, 1, 8, 6, 6), W(drawn(g, 8, 8, 3, 3)), pads=[1, 1, 1, 1])
    x = g("BatchNormalization", x, *[W(drawn(g, 8)) for _ in range(3)], W(drawn(g, 8) ** 2))
    x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return str(g("Gemm", g("Flatten", g("Relu", x)), W(drawn(g, 72, 5)), W(drawn(g, 5))))


FAMILY.graph("network", network, **REFERENCE)
