"""ResNet-50 (He et al., 2016, arXiv:1512.03385, table 1) as torchvision exports it, with seeded weights.

As in torchvision the stride is on the 3x3 convolution. BatchNormalization is folded, as torch does for inference, or
kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import GLOBAL_AVERAGE, ConvBuilder, Size, Tensor

if TYPE_CHECKING:
    import onnx

#: Blocks, inner channels and first stride of each stage; a block gives four times its inner channels.
STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))

#: Scale of each block's last normalisation: small, as training leaves it, so that the sums do not grow.
RESIDUAL_GAIN = 0.4


def build(seed: int = 0, batch: Size = 1, size: int = 224, classes: int = 1000, fold: bool = True) -> onnx.ModelProto:
    """The network: ``input`` float32 [batch, 3, size, size] (normalised pixels), ``output`` float32 [batch, classes].

    ``batch`` is a number or a symbol's name. 25.6 million parameters, 8.2 GFLOP an image at 224 pixels.
    """
    b = ConvBuilder(np.random.default_rng(seed), fold=fold)
    x = b.conv(Tensor.normal("input", 3), "conv1", 64, 7, 2, activation="relu")
    x = b.max_pool(x, "maxpool", 3, 2)
    for stage, (blocks, inner, first) in enumerate(STAGES, 1):
        for block in range(blocks):
            x = _bottleneck(b, x, f"layer{stage}.{block}", inner, first if block == 0 else 1)
    b.classify(x, "fc", classes, "output", GLOBAL_AVERAGE)
    return b.model("resnet50", {"input": [batch, 3, size, size]}, {"output": [batch, classes]})


def _bottleneck(b: ConvBuilder, x: Tensor, name: str, inner: int, stride: int) -> Tensor:
    y = b.conv(x, f"{name}/conv1", inner, activation="relu")
    y = b.conv(y, f"{name}/conv2", inner, 3, stride, activation="relu")
    y = b.conv(y, f"{name}/conv3", 4 * inner, gain=RESIDUAL_GAIN)
    if x.channels != 4 * inner:
        x = b.conv(x, f"{name}/downsample", 4 * inner, 1, stride)
    return b.activate(b.add(y, x, f"{name}/Add"), f"{name}/out", "relu")
