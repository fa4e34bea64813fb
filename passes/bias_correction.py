"""What the rounding of weights adds to results on the average is taken off the bias (M. Nagel et al., Data-free
quantization through weight equalization and bias correction, 2019, arXiv:1906.04721, section 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcpc.ir import Node
from mcpc.ops.linear import convolution_of

Array = np.ndarray[Any, Any]


def mean_error(node: Node, error: Array, mean: Array) -> Array:
    """What a Conv of one group or a group a channel, a Gemm or a MatMul makes on the average of an ``error`` in its
    weights, where the channels of its input have this ``mean``: float64 [output channels]. ``error`` has the output
    channels last for a product of matrices, first for a Conv, as the weights have."""
    if not node.is_op("Conv"):
        return np.asarray(mean @ error)
    taps = (error * _coverage(node)).reshape(*error.shape[:2], -1).sum(2)
    return np.asarray(taps[:, 0] * mean if is_depthwise(node) else taps @ mean)


def is_depthwise(node: Node) -> bool:
    """Whether each output channel of a Conv is made of an input channel of its own."""
    weights, group = node.inputs[1], node.attrs.get("group", 1)
    return node.is_op("Conv") and group > 1 and weights is not None and weights.type.dims[:2] == (group, 1)


def _coverage(node: Node) -> Array:
    """How often each place of the window lies inside the image and not in its padding, 0 to 1, in the window's shape;
    1 along axes whose size is not fixed."""
    window, x = convolution_of(node).window, node.inputs[0]
    assert x is not None
    result = np.ones(())
    for axis, (size, count) in enumerate(zip(x.type.dims[2:], window.kernel, strict=True)):
        inside = np.ones(int(count))
        length = window.length(axis, size)
        if isinstance(size, int) and isinstance(length, int) and length > 0:
            first = np.arange(length) * window.strides[axis] - int(window.padding(axis, size)[0])
            places = first[:, None] + np.arange(int(count)) * window.dilations[axis]
            inside = ((places >= 0) & (places < size)).mean(0)
        result = result[..., None] * inside
    return result
