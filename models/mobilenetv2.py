"""MobileNetV2 1.0 (Sandler et al., 2018, arXiv:1801.04381, table 2) as torchvision exports it, with seeded weights.

Real shapes and operators without a download: Conv, BatchNormalization and Clip blocks, the normalisations kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import GLOBAL_AVERAGE, ConvBuilder, Size, Tensor

if TYPE_CHECKING:
    import onnx

#: Expansion, output channels, repeats, first stride: the paper's table 2.
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def build(seed: int = 0, batch: Size = 1, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
    """The network: ``input`` float32 [batch, 3, size, size] (normalised pixels), ``output`` float32 [batch, classes].

    ``batch`` is a number or a symbol's name. 3.5 million parameters, 0.6 GFLOP an image at 224 pixels.
    """
    b = ConvBuilder(np.random.default_rng(seed))
    b.weight("relu6.min", 0.0)
    b.weight("relu6.max", 6.0)
    x = b.conv(Tensor.normal("input", 3), "features.0", 32, 3, 2, activation="relu6")
    count = 1
    for expansion, channels, repeats, stride in BLOCKS:
        for repeat in range(repeats):
            x = _block(b, x, f"features.{count}", expansion, channels, stride if repeat == 0 else 1)
            count += 1
    x = b.conv(x, f"features.{count}", 1280, activation="relu6")
    b.classify(x, "classifier", classes, "output", GLOBAL_AVERAGE)
    return b.model("mobilenetv2", {"input": [batch, 3, size, size]}, {"output": [batch, classes]})


def _block(b: ConvBuilder, x: Tensor, name: str, expansion: int, channels: int, stride: int) -> Tensor:
    """An inverted residual: expand, depthwise, project, and add where the shape stays."""
    hidden = x.channels * expansion
    y = x if expansion == 1 else b.conv(x, f"{name}/expand", hidden, activation="relu6")
    y = b.conv(y, f"{name}/depthwise", hidden, 3, stride, hidden, "relu6")
    y = b.conv(y, f"{name}/project", channels)
    if stride != 1 or channels != x.channels:
        return y
    return b.add(x, y, f"{name}/add")
