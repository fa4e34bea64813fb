"""EfficientNet-B0 (Tan and Le, 2019, arXiv:1905.11946, table 1) as torchvision exports it, with seeded weights.

SiLU is Sigmoid and Mul; squeeze-and-excitation is GlobalAveragePool, two 1x1 convolutions, Sigmoid and Mul.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import GLOBAL_AVERAGE, ConvBuilder, Size, Tensor

if TYPE_CHECKING:
    import onnx

#: Expansion, kernel, first stride, output channels, repeats: the paper's table 1.
BLOCKS = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def build(seed: int = 0, batch: Size = 1, size: int = 224, classes: int = 1000, fold: bool = True) -> onnx.ModelProto:
    """The network: ``input`` float32 [batch, 3, size, size] (normalised pixels), ``output`` float32 [batch, classes].

    ``batch`` is a number or a symbol's name. 5.3 million parameters, 0.8 GFLOP an image at 224 pixels.
    """
    b = ConvBuilder(np.random.default_rng(seed), fold=fold)
    x = b.conv(Tensor.normal("input", 3), "features.0", 32, 3, 2, activation="silu")
    for stage, (expansion, kernel, first, channels, repeats) in enumerate(BLOCKS, 1):
        for repeat in range(repeats):
            x = _block(b, x, f"features.{stage}.{repeat}", expansion, kernel, first if repeat == 0 else 1, channels)
    x = b.conv(x, f"features.{len(BLOCKS) + 1}", 1280, activation="silu")
    b.classify(x, "classifier", classes, "output", GLOBAL_AVERAGE)
    return b.model("efficientnet_b0", {"input": [batch, 3, size, size]}, {"output": [batch, classes]})


def _block(b: ConvBuilder, x: Tensor, name: str, expansion: int, kernel: int, stride: int, channels: int) -> Tensor:
    """An inverted residual with squeeze-and-excitation between the depthwise convolution and the projection."""
    hidden = x.channels * expansion
    y = x if expansion == 1 else b.conv(x, f"{name}/expand", hidden, activation="silu")
    y = b.conv(y, f"{name}/depthwise", hidden, kernel, stride, hidden, "silu")
    y = _squeeze_excite(b, y, f"{name}/se", x.channels // 4)
    y = b.conv(y, f"{name}/project", channels, gain=0.5 if stride == 1 and channels == x.channels else 1.0)
    if stride != 1 or channels != x.channels:
        return y
    return b.add(y, x, f"{name}/Add")


def _squeeze_excite(b: ConvBuilder, x: Tensor, name: str, squeezed: int) -> Tensor:
    pooled = Tensor(b.node("GlobalAveragePool", f"{name}/avgpool", [x.name]), x.mean, 0.1 * x.variance)
    y = b.biased_conv(pooled, f"{name}/fc1", squeezed, activation="silu")
    y = b.biased_conv(y, f"{name}/fc2", x.channels)
    gated = b.node("Mul", f"{name}/Mul", [b.node("Sigmoid", f"{name}/Sigmoid", [y.name]), x.name])
    gate = np.round(1 / (1 + np.exp(-y.mean)), 6)
    return Tensor(gated, gate * x.mean, gate**2 * x.variance)
