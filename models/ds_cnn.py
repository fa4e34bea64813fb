"""DS-CNN for keyword spotting (Zhang et al., 2017, arXiv:1711.07128, the small one), with seeded weights.

It reads 49 frames of 10 mel-frequency cepstral coefficients, a second of audio. BatchNormalization is kept. The first
convolution pads by four rows above and five below, which PyTorch writes as a Pad node of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import ConvBuilder, Size, Tensor

if TYPE_CHECKING:
    import onnx

CHANNELS, BLOCKS = 64, 4


def build(seed: int = 0, batch: Size = 1, classes: int = 12) -> onnx.ModelProto:
    """The network: ``mfcc`` float32 [batch, 1, 49, 10], ``probabilities`` float32 [batch, classes].

    ``batch`` is a number or a symbol's name. 23 thousand parameters, 5.4 MFLOP.
    """
    b = ConvBuilder(np.random.default_rng(seed))
    pads = b.constant("pad/Constant", [0, 0, 4, 1, 0, 0, 5, 1])
    padded = b.node("Pad", "pad/Pad", ["mfcc", pads, b.constant("pad/zero", 0.0, np.float32)], mode="constant")
    x = b.conv(Tensor.normal(padded, 1), "conv1", CHANNELS, (10, 4), 2, activation="relu", padded=False)
    for block in range(BLOCKS):
        x = b.conv(x, f"block.{block}/depthwise", CHANNELS, 3, 1, CHANNELS, "relu")
        x = b.conv(x, f"block.{block}/pointwise", CHANNELS, activation="relu")
    pool = ("AveragePool", {"kernel_shape": [25, 5], "strides": [25, 5]})
    b.classify(x, "fc", classes, "logits", pool)
    b.node("Softmax", "softmax", ["logits"], "probabilities", axis=1)
    return b.model("ds_cnn", {"mfcc": [batch, 1, 49, 10]}, {"probabilities": [batch, classes]})
