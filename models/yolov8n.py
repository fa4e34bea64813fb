"""A detector with the structure of YOLOv8n (Jocher et al., Ultralytics, 2023) as it exports, with seeded weights.

C2f blocks, SPPF, a feature pyramid with nearest upsampling, and a head whose boxes are distributions over 16 distances
(DFL: Li et al., 2020, arXiv:2006.04388), decoded inside the graph. Normalisations are folded, SiLU is Sigmoid and Mul.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import ConvBuilder, Tensor

if TYPE_CHECKING:
    import onnx

CLASSES, BINS = 80, 16
STRIDES = (8, 16, 32)


def build(seed: int = 0, batch: int = 1, size: int = 640) -> onnx.ModelProto:
    """The network: ``images`` float32 [batch, 3, size, size] in 0..1, ``output0`` float32 [batch, 84, anchors].

    ``size`` is a multiple of 32. Rows of the output are centre x, centre y, width and height in pixels, then a
    probability a class; there is an anchor a cell of the three maps of strides 8, 16 and 32: 8400 at 640 pixels.
    3.2 million parameters, 8.7 GFLOP an image at 640 pixels.
    """
    b = ConvBuilder(np.random.default_rng(seed), fold=True)
    # between pixels in 0..1 and those that are normalised, so that neither saturates the head
    x = _conv(b, Tensor.normal("images", 3, 0.3, 0.3), "model.0", 16, 3, 2)
    x = _c2f(b, _conv(b, x, "model.1", 32, 3, 2), "model.2", 32, 1, True)
    eighth = _c2f(b, _conv(b, x, "model.3", 64, 3, 2), "model.4", 64, 2, True)
    sixteenth = _c2f(b, _conv(b, eighth, "model.5", 128, 3, 2), "model.6", 128, 2, True)
    x = _c2f(b, _conv(b, sixteenth, "model.7", 256, 3, 2), "model.8", 256, 1, True)
    deepest = _sppf(b, x, "model.9", 256)
    x = b.concat("model.11/Concat", _upsample(b, deepest, "model.10"), sixteenth)
    middle = _c2f(b, x, "model.12", 128, 1, False)
    x = b.concat("model.14/Concat", _upsample(b, middle, "model.13"), eighth)
    first = _c2f(b, x, "model.15", 64, 1, False)
    x = b.concat("model.17/Concat", _conv(b, first, "model.16", 64, 3, 2), middle)
    second = _c2f(b, x, "model.18", 128, 1, False)
    x = b.concat("model.20/Concat", _conv(b, second, "model.19", 128, 3, 2), deepest)
    third = _c2f(b, x, "model.21", 256, 1, False)
    cells = [size // stride for stride in STRIDES]
    _detect(b, "model.22", (first, second, third), batch, cells)
    anchors = sum(side * side for side in cells)
    return b.model("yolov8n", {"images": [batch, 3, size, size]}, {"output0": [batch, 4 + CLASSES, anchors]})


# ---- blocks


def _conv(b: ConvBuilder, x: Tensor, name: str, channels: int, kernel: int = 1, stride: int = 1) -> Tensor:
    return b.conv(x, f"{name}/conv", channels, kernel, stride, activation="silu")


def _c2f(b: ConvBuilder, x: Tensor, name: str, channels: int, repeats: int, shortcut: bool) -> Tensor:
    """A convolution whose halves both go to the end, the second through ``repeats`` residual blocks as well."""
    half = channels // 2
    x = _conv(b, x, f"{name}/cv1", channels)
    sizes = b.constant(f"{name}/Constant", [half, half])
    halves = b.several(
        "Split", f"{name}/Split", [x.name, sizes], [f"{name}/Split_output_0", f"{name}/Split_output_1"], axis=1
    )
    maps = [Tensor(halves[0], x.mean[:half], x.variance[:half]), Tensor(halves[1], x.mean[half:], x.variance[half:])]
    for repeat in range(repeats):
        y = _conv(b, maps[-1], f"{name}/m.{repeat}/cv1", half, 3)
        y = _conv(b, y, f"{name}/m.{repeat}/cv2", half, 3)
        maps.append(b.add(maps[-1], y, f"{name}/m.{repeat}/Add") if shortcut else y)
    return _conv(b, b.concat(f"{name}/Concat", *maps), f"{name}/cv2", channels)


def _sppf(b: ConvBuilder, x: Tensor, name: str, channels: int) -> Tensor:
    """Spatial pyramid pooling: three 5x5 maxima on top of each other, and all four maps side by side."""
    maps = [_conv(b, x, f"{name}/cv1", channels // 2)]
    for index in range(3):
        maps.append(b.max_pool(maps[-1], f"{name}/m_{index}/MaxPool", 5, 1))
    return _conv(b, b.concat(f"{name}/Concat", *maps), f"{name}/cv2", channels)


def _upsample(b: ConvBuilder, x: Tensor, name: str) -> Tensor:
    scales = b.constant(f"{name}/Constant", [1, 1, 2, 2], np.float32)
    doubled = b.node(
        "Resize",
        f"{name}/Resize",
        [x.name, "", scales],
        coordinate_transformation_mode="asymmetric",
        cubic_coeff_a=-0.75,
        mode="nearest",
        nearest_mode="floor",
    )
    return Tensor(doubled, x.mean, x.variance)


# ---- the head


def _detect(b: ConvBuilder, name: str, maps: Sequence[Tensor], batch: int, cells: Sequence[int]) -> None:
    """Raw maps of the three strides, side by side, then the decoding to ``output0``."""
    flat = []
    for level, x in enumerate(maps):
        boxes = _branch(b, x, f"{name}/cv2.{level}", 64, 4 * BINS, 1.0)
        scores = _branch(b, x, f"{name}/cv3.{level}", CLASSES, CLASSES, -3.0)
        both = b.node("Concat", f"{name}/Concat_{level}", [boxes, scores], axis=1)
        shape = b.constant(f"{name}/Constant_{level}", [batch, 4 * BINS + CLASSES, -1])
        flat.append(b.node("Reshape", f"{name}/Reshape_{level}", [both, shape], allowzero=0))
    joined = b.node("Concat", f"{name}/Concat_3", flat, axis=2)
    sizes = b.constant(f"{name}/Constant_3", [4 * BINS, CLASSES])
    boxes, scores = b.several(
        "Split", f"{name}/Split", [joined, sizes], [f"{name}/Split_output_0", f"{name}/Split_output_1"], axis=1
    )
    decoded = _decode(b, name, _distances(b, f"{name}/dfl", boxes, batch, sum(side**2 for side in cells)), cells)
    probabilities = b.node("Sigmoid", f"{name}/Sigmoid", [scores])
    b.node("Concat", f"{name}/Concat_6", [decoded, probabilities], "output0", axis=1)


def _branch(b: ConvBuilder, x: Tensor, name: str, hidden: int, channels: int, bias: float) -> str:
    """Two 3x3 convolutions and a 1x1 one without activation, whose outputs have the mean ``bias``."""
    x = _conv(b, _conv(b, x, f"{name}.0", hidden, 3), f"{name}.1", hidden, 3)
    return b.biased_conv(x, f"{name}.2", channels, bias, gain=0.4).name


def _distances(b: ConvBuilder, name: str, boxes: str, batch: int, anchors: int) -> str:
    """The expected distance of each side under its distribution, in cells: [batch, 4, anchors]."""
    shape = b.constant(f"{name}/Constant", [batch, 4, BINS, anchors])
    bins = b.node("Reshape", f"{name}/Reshape", [boxes, shape], allowzero=0)
    bins = b.node("Transpose", f"{name}/Transpose", [bins], perm=[0, 2, 1, 3])
    shares = b.node("Softmax", f"{name}/Softmax", [bins], axis=1)
    expected = b.fixed_conv(shares, f"{name}/conv", np.arange(BINS).reshape(1, BINS, 1, 1))
    shape = b.constant(f"{name}/Constant_1", [batch, 4, anchors])
    return b.node("Reshape", f"{name}/Reshape_1", [expected, shape], allowzero=0)


def _decode(b: ConvBuilder, name: str, distances: str, cells: Sequence[int]) -> str:
    """Distances from each anchor to the left, top, right and bottom, as centre, width and height in pixels."""
    # torch.chunk: the half of axis 1, rounded up, found from the shape
    channels = b.size(distances, name, 1)
    rounded = b.node("Add", f"{name}/Add", [channels, b.constant(f"{name}/one", 1)])
    half = b.node("Div", f"{name}/Div", [rounded, b.constant(f"{name}/two", 2)])
    middle = b.node("Mul", f"{name}/Mul", [half, b.constant(f"{name}/first", [1])])
    end = b.node("Mul", f"{name}/Mul_1", [half, b.constant(f"{name}/second", [2])])
    axis, zero = b.constant(f"{name}/axis", [1]), b.constant(f"{name}/zero", [0])
    low = b.node("Slice", f"{name}/Slice", [distances, zero, middle, axis])
    high = b.node("Slice", f"{name}/Slice_1", [distances, middle, end, axis])

    grids = [np.stack(np.meshgrid(np.arange(side) + 0.5, np.arange(side) + 0.5)).reshape(2, -1) for side in cells]
    anchors = np.concatenate(grids, 1)[None]
    strides = np.repeat(STRIDES, [side**2 for side in cells])[None]
    low = b.node("Sub", f"{name}/Sub", [b.constant(f"{name}/anchors", anchors, np.float32), low])
    high = b.node("Add", f"{name}/Add_1", [b.constant(f"{name}/anchors_1", anchors, np.float32), high])
    total = b.node("Add", f"{name}/Add_2", [low, high])
    centre = b.node("Div", f"{name}/Div_1", [total, b.constant(f"{name}/two_1", 2.0, np.float32)])
    extent = b.node("Sub", f"{name}/Sub_1", [high, low])
    boxes = b.node("Concat", f"{name}/Concat_5", [centre, extent], axis=1)
    return b.node("Mul", f"{name}/Mul_2", [boxes, b.constant(f"{name}/strides", strides, np.float32)])
